/* Most tables that are sent look like the ones before: the same keys, with values of the same types. LuaJIT's serializer
 * finds that out anew each time: it interns every key and inserts it. So a worker learns the shapes of the tables that come
 * often and makes a function for each, `return { id = number[0], name = ... }`, which LuaJIT compiles into the copy of a
 * template and a few stores (lua/pierrot/shapes.lua). Here serialized bytes are taken apart into what makes the shape, its
 * signature, and the leaves, which that function puts in.
 *
 * A signature is the table's bytes without what its leaves hold: of a leaf only its kind is there, the tag of a number, a
 * boolean, a string or a ref. Tables with something else in them (a key that is no string, a gap in a list, a metatable,
 * 64-bit integers), or with too much, have none and go through the serializer. The format: lj_serialize.c. */
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
static bool take_apart(pr_leaves *v, const uint64_t *ids, const uint8_t *p, const uint8_t *end, pr_shape *shape)
{
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
        p = leaves < PR_SHAPE_LEAVES ? read_leaf(v, leaves++, ids, tag, p, end) : NULL;
        if (!p)
            return false;
        *sig++ = kind_of(tag);
    }
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

/* Not inlined: its registers and its stack would be saved for each message without a table. */
__attribute__((noinline)) bool pr_shapes_read(pr_shapes *s, const uint64_t *ids, const uint8_t *bytes, size_t size)
{
    if (!take_apart(&s->leaves, ids, bytes, bytes + size, &s->latest))
        return false;
    uint32_t hash = hash_of(&s->latest), place = hash % PR_SHAPE_PLACES, number = s->places[place].number;
    if (number > 0) {
        s->leaves.shape = (int32_t)number;
        return same(&s->latest, &s->known[number - 1]);   /* else there is no place for it */
    }
    if (s->places[place].hash != hash) {
        s->places[place].hash = hash;
        s->places[place].seen = 0;
    }
    s->latest_place = place;
    s->habit = ++s->places[place].seen == PR_SHAPE_HABIT && s->count < PR_SHAPES;
    return false;
}

uint32_t pr_shapes_add(pr_shapes *s)
{
    s->known[s->count++] = s->latest;
    s->places[s->latest_place].number = (uint16_t)s->count;
    return s->count;
}
