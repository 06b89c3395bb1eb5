/* Most tables that are sent look like the ones before: the same keys, with values of the same types. LuaJIT's serializer
 * finds that out anew each time: it interns every key and inserts it. So a worker learns the shapes of the tables that come
 * often and makes a function for each, `return { id = number[0], name = ... }`, which LuaJIT compiles into the copy of a
 * template and a few stores (lua/pierrot/shapes.lua). Here serialized bytes are taken apart into what makes the shape, its
 * signature, and the leaves, which that function puts in.
 *
 * A signature is the table's bytes without what its leaves hold: of a leaf only its kind is there, the tag of a number, a
 * boolean, a string or a ref. Tables with something else in them (a key that is no string, a gap in a list, a metatable,
 * 64-bit integers), or with too much, have none and go through the serializer. The format: lj_serialize.c.
 *
 * Most of those even have the same bytes but for what numbers and letters they hold: the same layout. That is seen by comparing
 * a few words, and tells where the leaves are. */
#include "shapes.h"

#include "../message.h"
#include "border.h"

#include <math.h>
#include <string.h>

enum { FALSE = 1, TRUE = 2, REF_32 = 4, REF = 5, INTEGER = 6, NUMBER = 7, TABLE = 8, LIST = 0x0c, TABLES_END = 0x0e, STRING = 0x20,
       LONG = 0xe0 };

/* The leaf whose tag was before `p`. -> behind it; NULL: it is none. */
static inline const uint8_t *read_leaf(pr_leaves *v, uint32_t i, const uint64_t *ids, uint32_t tag, const uint8_t *p,
                                       const uint8_t *end)
{
    size_t left = (size_t)(end - p);
    if (tag == NUMBER) {
        double d;
        if (left < 8)
            return NULL;
        memcpy(&d, p, 8);
        v->number[i] = d == d ? d : (double)NAN;   /* see plain_number in dispatch.c */
        return p + 8;
    }
    if (tag >= STRING) {
        uint32_t size = tag - STRING, head = tag == 0xff ? 4 : tag >= LONG;
        if (left < head)
            return NULL;
        if (tag == 0xff) {
            memcpy(&size, p, 4);
            size -= STRING;
        } else if (head) {
            size = ((tag & 0x1f) << 8) + *p + LONG - STRING;
        }
        if (size > INT32_MAX || size > left - head)
            return NULL;
        v->bytes[i] = p + head;
        v->length[i] = (int32_t)size;
        return p + head + size;
    }
    if (tag == FALSE || tag == TRUE) {
        v->number[i] = tag == TRUE;
        return p;
    }
    if (tag == INTEGER && left >= 4) {
        int32_t integer;
        memcpy(&integer, p, 4);
        v->number[i] = integer;
        return p + 4;
    }
    if (tag == REF || tag == REF_32) {
        uint64_t id = 0;
        uint32_t size = tag == REF ? 8 : 4;
        if (left < size)
            return NULL;
        memcpy(&id, p, size);
        uint32_t place = pr_id_slot(id) % PR_REF_PLACES;
        v->length[i] = (int32_t)place + 1;
        return ids[place] == id ? p + size : NULL;
    }
    return NULL;
}

/* What a signature has for a leaf with that tag. */
static inline uint8_t kind_of(uint32_t tag)
{
    return tag >= STRING ? STRING : tag == FALSE ? TRUE : tag == REF_32 ? REF : tag == INTEGER ? NUMBER : (uint8_t)tag;
}

/* Keys are short: whole words are copied, of which what follows the key is overwritten. */
static inline void copy_key(uint8_t *to, const uint8_t *from, uint32_t size, const uint8_t *end)
{
    if ((size_t)(end - from) < size + 8u) {
        memcpy(to, from, size);
        return;
    }
    for (uint32_t i = 0; i < size; i += 8)
        memcpy(to + i, from + i, 8);
}

/* Any table: its leaves and its signature. False: it has none. */
static bool take_apart(pr_shapes *s, const uint64_t *ids, const uint8_t *p, const uint8_t *end)
{
    pr_leaves *v = &s->leaves;
    pr_shape *shape = &s->latest;
    struct { uint32_t values, pairs; } above[PR_SHAPE_DEEP], at = {1, 0};   /* still to come */
    uint32_t depth = 0, leaves = 0;
    uint8_t *begin = (uint8_t *)shape->signature, *sig = begin, *sig_end = begin + PR_SHAPE_BYTES - 8;
    for (;;) {
        if (at.values > 0) {
            at.values--;
        } else if (at.pairs > 0) {
            at.pairs--;
            if (p == end || *p < STRING || *p >= LONG)
                return false;
            uint32_t size = *p - STRING + 1u;
            if (end - p < (ptrdiff_t)size || sig_end - sig < (ptrdiff_t)size)
                return false;
            copy_key(sig, p, size, end);
            sig += size;
            p += size;
        } else if (depth > 0) {
            at = above[--depth];
            continue;
        } else {
            break;
        }
        if (end - p < 1 || sig_end - sig < 3)
            return false;
        uint32_t tag = *p++;
        if (tag >= TABLE && tag < TABLES_END) {
            if ((tag & 2) || depth == PR_SHAPE_DEEP || end - p < 2)   /* 2: a list from 0 on */
                return false;
            above[depth++] = at;
            at.values = at.pairs = 0;
            *sig++ = (uint8_t)tag;
            if (tag >= LIST)
                at.values = *sig++ = *p++;
            if (tag & 1)
                at.pairs = *sig++ = *p++;
            if (at.values >= LONG || at.pairs >= LONG)
                return false;
            at.values -= at.values > 0;   /* place 0 is counted and not there */
            continue;
        }
        if (leaves == PR_SHAPE_LEAVES)
            return false;
        s->at[leaves] = p;
        p = read_leaf(v, leaves++, ids, tag, p, end);
        if (!p)
            return false;
        *sig++ = kind_of(tag);
    }
    s->latest_leaves = leaves;
    shape->length = (uint32_t)(sig - begin);
    memset(sig, 0, 8);
    return p == end;
}

static uint32_t words(const pr_shape *s) { return (s->length + 7) / 8; }

static bool same(const pr_shape *a, const pr_shape *b)
{
    uint64_t differs = a->length ^ b->length;
    for (uint32_t i = 0; i < words(a); i++)
        differs |= a->signature[i] ^ b->signature[i];
    return differs == 0;
}

static uint32_t hash_of(const pr_shape *s)
{
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);   /* 2^64 / the golden ratio: Knuth's multiplicative hashing */
    uint64_t h = s->length;
    for (uint32_t i = 0; i < words(s); i++) {
        h = (h ^ s->signature[i]) * golden;
        h ^= h >> 32;
    }
    return (uint32_t)(h * golden >> 32);
}

/* --- layouts */

/* Where the i-th of a table's words is: the last one ends with the table. */
static inline size_t word_at(size_t i, size_t size) { return 8 * i + 8 <= size ? 8 * i : size - 8; }

static inline uint64_t word(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, 8);
    return w;
}

/* By the size and the first bytes, as far as they tell the shape: in a list, the fourth belongs to a number. Two layouts share it:
 * a table's keys may come in two orders. */
static inline uint32_t layout_place(const uint8_t *bytes, size_t size)
{
    uint32_t head;
    memcpy(&head, bytes, 4);
    head &= bytes[0] >= LIST ? 0x00ffffff : 0xffffffff;
    return ((head ^ (uint32_t)size) * UINT32_C(0x9e3779b1)) >> 27;   /* as in hash_of; 5 bits: PR_LAYOUTS / 2 */
}

static inline bool may_have_layout(size_t size) { return size >= 8 && size <= PR_LAYOUT_BYTES; }

static inline bool fits(const pr_layout *l, const uint8_t *bytes, size_t size)
{
    if (l->size != size)
        return false;
    size_t last = (size - 1) / 8;
    uint64_t differs = (word(bytes + size - 8) ^ l->bytes[last]) & l->mask[last];
    for (size_t i = 0; i < last; i++)
        differs |= (word(bytes + 8 * i) ^ l->bytes[i]) & l->mask[i];
    return differs == 0;
}

/* `latest`, which is `bytes`, becomes what is there. */
static void lay_out(pr_shapes *s, pr_layout *l, const uint8_t *bytes, size_t size)
{
    uint8_t mask[PR_LAYOUT_BYTES];
    memset(mask, 0xff, sizeof mask);
    l->size = (uint32_t)size;
    l->shape = (uint16_t)s->leaves.shape;
    l->leaves = (uint8_t)s->latest_leaves;
    l->plain = true;
    for (uint32_t i = 0; i < s->latest_leaves; i++) {
        size_t at = (size_t)(s->at[i] - bytes), tag = *(s->at[i] - 1);
        size_t length = tag >= STRING ? tag - STRING : tag == NUMBER || tag == REF ? 8 : tag == INTEGER || tag == REF_32 ? 4 : 0;
        l->at[i] = (uint8_t)at;
        l->tag[i] = (uint8_t)tag;
        l->length[i] = (uint8_t)length;
        l->plain &= tag == NUMBER || tag == INTEGER || tag >= STRING;
        memset(mask + at, 0, length);
    }
    for (size_t i = 0; 8 * i < size; i++) {
        l->bytes[i] = word(bytes + word_at(i, size));
        l->mask[i] = word(mask + word_at(i, size));
    }
}

/* Its leaves, where they are. False: it has a ref without a place. */
static inline bool read_laid_out(const pr_layout *l, pr_leaves *v, const uint64_t *ids, const uint8_t *bytes, const uint8_t *end)
{
    for (uint32_t i = 0; i < l->leaves; i++) {
        const uint8_t *p = bytes + l->at[i];
        if (l->tag[i] >= STRING) {
            v->bytes[i] = p;
            v->length[i] = l->length[i];
        } else if (!read_leaf(v, i, ids, l->tag[i], p, end)) {
            return false;
        }
    }
    v->shape = l->shape;
    return true;
}

bool pr_shapes_plain(const pr_shapes *s, const uint8_t *bytes, size_t size)
{
    if (!may_have_layout(size))
        return false;
    const pr_layout *l = s->layouts[layout_place(bytes, size)];
    return (l[0].plain && fits(&l[0], bytes, size)) || (l[1].plain && fits(&l[1], bytes, size));
}

/* Where a shape with that hash is counted or known: one of two places, for the orders of a table's keys may come in turn.
 * PR_SHAPE_PLACES: both are taken for good. */
static uint32_t place_for(pr_shapes *s, uint32_t hash)
{
    uint32_t place = hash % PR_SHAPE_PLACES, other = place ^ 1;
    if (s->places[place].hash == hash)
        return place;
    if (s->places[other].hash == hash)
        return other;
    if (s->places[place].number || (!s->places[other].number && s->places[other].seen < s->places[place].seen))
        place = other;
    if (s->places[place].number)
        return PR_SHAPE_PLACES;
    s->places[place].hash = hash;
    s->places[place].seen = 0;
    return place;
}

static bool read_anew(pr_shapes *s, const uint64_t *ids, const uint8_t *bytes, size_t size)
{
    if (!take_apart(s, ids, bytes, bytes + size))
        return false;
    uint32_t place = place_for(s, hash_of(&s->latest));
    if (place == PR_SHAPE_PLACES)
        return false;
    uint32_t number = s->places[place].number;
    if (number > 0) {
        s->leaves.shape = (int32_t)number;
        return same(&s->latest, &s->known[number - 1]);
    }
    s->latest_place = place;
    s->habit = ++s->places[place].seen == PR_SHAPE_HABIT && s->count < PR_SHAPES;
    return false;
}

/* Not inlined: its registers and its stack would be saved for each message without a table. */
__attribute__((noinline)) bool pr_shapes_read(pr_shapes *s, const uint64_t *ids, const uint8_t *bytes, size_t size)
{
    if (!may_have_layout(size))
        return read_anew(s, ids, bytes, size);
    uint32_t place = layout_place(bytes, size);
    pr_layout *l = s->layouts[place];
    for (int i = 0; i < 2; i++)
        if (fits(&l[i], bytes, size))
            return read_laid_out(&l[i], &s->leaves, ids, bytes, bytes + size);
    if (!read_anew(s, ids, bytes, size))
        return false;
    uint8_t misses = s->layout_misses[place]++;
    if (misses % PR_LAYOUT_PATIENCE == 0)
        lay_out(s, &l[misses / PR_LAYOUT_PATIENCE % 2], bytes, size);
    return true;
}

uint32_t pr_shapes_add(pr_shapes *s)
{
    s->known[s->count++] = s->latest;
    s->places[s->latest_place].number = (uint16_t)s->count;
    return s->count;
}
