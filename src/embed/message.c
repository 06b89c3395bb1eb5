/* Messages as C sees them: a buffer that values are put into, and cursors that read them.
 *
 * Beside each other values have the wire format (message.h). A table is one BLOB in the format of LuaJIT's string.buffer
 * (lj_serialize.c), so that Lua decodes what C has written, and the other way round:
 *   00 01 02 nil false true | 04 05 a ref, of 4 or 8 bytes | 06 07 a number as int32, as double | 10 11 int64, uint64
 *   20 + length, bytes: a string | 0e number: a metatable, before its table
 *   08 + flags: a table: [length of the array part] [number of pairs], items, keys and values; flags: 1 pairs, 2 an array
 *   from 0, 4 an array from 1, whose length counts the missing 0
 * Lengths and tags are "U124": a byte below e0; e0 and up with a second byte; ff with four.
 *
 * The decoder raises for a key that comes twice: that is found here, where a table ends. */
#include "embed.h"

#include <math.h>
#include <string.h>

enum {
    TAG_NIL, TAG_FALSE, TAG_TRUE, TAG_REF32 = 4, TAG_REF64, TAG_INT32, TAG_NUMBER, TAG_TABLE, TAG_METATABLE = 14, TAG_INT64 = 16,
    TAG_UINT64, TAG_STRING = 32
};
enum { PAIRS = 1, FROM_0 = 2, FROM_1 = 4 };
enum { U124_LONG = 5 };

static const uint64_t the_nan = UINT64_C(0xfff8000000000000);   /* the one that LuaJIT takes for a number */

/* --- reading U124 and skipping: all bytes were written here or by LuaJIT, and `end` is looked at nevertheless */

static const uint8_t *read_u124(const uint8_t *at, const uint8_t *end, uint32_t *v)
{
    *v = 0;
    if (at >= end)
        return end;
    uint32_t first = *at++;
    if (first < 0xe0) {
        *v = first;
    } else if (first != 0xff) {
        if (at < end)
            *v = ((first & 0x1f) << 8) + *at++ + 0xe0;
    } else if (end - at >= 4) {
        memcpy(v, at, 4);
        at += 4;
    } else {
        at = end;
    }
    return at;
}

static const uint8_t *advance(const uint8_t *at, const uint8_t *end, size_t by)
{
    return (size_t)(end - at) < by ? end : at + by;
}

/* Behind a table's tag: how many items and pairs it has, and the number of the first item. */
static const uint8_t *read_counts(const uint8_t *at, const uint8_t *end, uint32_t tag, uint32_t *items, uint32_t *pairs,
                                  uint32_t *first)
{
    uint32_t flags = tag - TAG_TABLE;
    *items = *pairs = *first = 0;
    if (flags >= FROM_0)
        at = read_u124(at, end, items);
    if (flags >= FROM_1) {
        *first = 1;
        *items -= *items > 0;
    }
    if (flags & PAIRS)
        at = read_u124(at, end, pairs);
    return at;
}

/* Behind one value, whatever is in it. */
static const uint8_t *skip(const uint8_t *at, const uint8_t *end)
{
    for (uint64_t left = 1; left > 0 && at < end; left--) {
        uint32_t tag, items, pairs, first;
        at = read_u124(at, end, &tag);
        if (tag >= TAG_STRING)
            at = advance(at, end, tag - TAG_STRING);
        else if (tag >= TAG_TABLE && tag < TAG_TABLE + 6) {
            at = read_counts(at, end, tag, &items, &pairs, &first);
            left += items + 2 * (uint64_t)pairs;
        } else if (tag == TAG_METATABLE) {
            at = read_u124(at, end, &first);
            left++;   /* its table follows */
        } else
            at = advance(at, end, tag == TAG_REF32 || tag == TAG_INT32 ? 4 : tag == TAG_NIL || tag == TAG_FALSE || tag == TAG_TRUE ? 0 : 8);
    }
    return at;
}

/* --- writing */

pierrot_message *pr_message_make(pierrot *p)
{
    pierrot_message *m = pr_alloc(sizeof *m);
    if (!m)
        return NULL;
    m->p = p;
    m->bytes = m->small;
    m->capacity = sizeof m->small;
    pierrot_message_clear(m);
    return m;
}

pierrot_message *pierrot_message_new(pierrot *p)
{
    if (!p)
        return NULL;
    pr_memory *before = pr_enter(p);
    pierrot_message *m = pr_message_make(p);
    pr_leave(before);
    return m;
}

void pierrot_message_free(pierrot_message *m)
{
    if (!m)
        return;
    pr_memory *before = pr_enter(m->p);
    if (m->bytes != m->small)
        pr_free(m->bytes);
    pr_free(m);
    pr_leave(before);
}

void pierrot_message_clear(pierrot_message *m)
{
    m->size = 0;
    m->count = 0;
    m->status = PIERROT_OK;
    m->depth = 0;
}

pierrot_status pierrot_message_status(const pierrot_message *m)
{
    return m ? pr_message_ready(m) : PIERROT_INVALID;
}

static pierrot_status wrong(pierrot_message *m, pierrot_status status)
{
    if (m->status == PIERROT_OK)
        m->status = status;
    return m->status;
}

/* Room for that many bytes more, or NULL, with the status set. */
static uint8_t *room(pierrot_message *m, size_t bytes)
{
    if (m->capacity - m->size >= bytes)
        return m->bytes + m->size;
    size_t most = m->p->config.message_limit ? m->p->config.message_limit : PR_MSG_MAX;
    if (bytes > most || m->size > most - bytes) {
        wrong(m, PIERROT_LIMIT);
        return NULL;
    }
    size_t capacity = 2 * m->capacity;
    while (capacity - m->size < bytes)
        capacity *= 2;
    pr_memory *before = pr_enter(m->p);
    uint8_t *grown = m->bytes == m->small ? pr_alloc(capacity) : pr_realloc(m->bytes, capacity);
    pr_leave(before);
    if (!grown) {
        wrong(m, PIERROT_NOMEM);
        return NULL;
    }
    if (m->bytes == m->small)
        memcpy(grown, m->small, m->size);
    m->bytes = grown;
    m->capacity = capacity;
    return m->bytes + m->size;
}

enum value { SCALAR, KEYLESS /* cannot be a key */ };

/* Where the next value of so many bytes goes, or NULL. Counts it. */
static uint8_t *begin(pierrot_message *m, size_t bytes, enum value kind)
{
    if (!m || m->status != PIERROT_OK)
        return NULL;
    struct pr_level *level = m->depth ? &m->levels[m->depth - 1] : NULL;
    if (level && level->map && level->count % 2 == 0 && kind == KEYLESS) {
        wrong(m, PIERROT_INVALID);
        return NULL;
    }
    if (level ? level->count == UINT32_MAX : m->count == PR_VALUES_MAX) {
        wrong(m, level ? PIERROT_LIMIT : PIERROT_INVALID);
        return NULL;
    }
    uint8_t *at = room(m, bytes);
    if (at) {
        if (level)
            level->count++;
        else
            m->count++;
    }
    return at;
}

static pierrot_status done(pierrot_message *m, const uint8_t *at)
{
    if (!m)
        return PIERROT_INVALID;
    if (at)
        m->size = (size_t)(at - m->bytes);
    return m->status;
}

static uint8_t *put_tag(uint8_t *at, uint8_t tag) { *at++ = tag; return at; }
static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t size) { memcpy(at, bytes, size); return at + size; }
static uint8_t *put_long(uint8_t *at, uint32_t v) { *at++ = 0xff; return put_bytes(at, &v, 4); }

static uint8_t *put_u124(uint8_t *at, uint32_t v)
{
    if (v < 0xe0) {
        *at++ = (uint8_t)v;
    } else if (v < 0x1fe0) {
        v -= 0xe0;
        *at++ = (uint8_t)(0xe0 | v >> 8);
        *at++ = (uint8_t)v;
    } else {
        at = put_long(at, v);
    }
    return at;
}

pierrot_status pierrot_put_nil(pierrot_message *m)
{
    uint8_t *at = begin(m, 1, KEYLESS);
    return done(m, at ? put_tag(at, m->depth ? TAG_NIL : PR_TAG_NIL) : NULL);
}

pierrot_status pierrot_put_boolean(pierrot_message *m, bool value)
{
    uint8_t *at = begin(m, 1, SCALAR);
    return done(m, at ? put_tag(at, m->depth ? (value ? TAG_TRUE : TAG_FALSE) : value ? PR_TAG_TRUE : PR_TAG_FALSE) : NULL);
}

pierrot_status pierrot_put_number(pierrot_message *m, double value)
{
    bool nan = isnan(value);
    uint8_t *at = begin(m, 9, nan ? KEYLESS : SCALAR);
    if (!at)
        return done(m, NULL);
    uint64_t bits = the_nan;
    if (!nan)
        memcpy(&bits, &value, 8);
    return done(m, put_bytes(put_tag(at, m->depth ? TAG_NUMBER : PR_TAG_NUMBER), &bits, 8));
}

/* Beside each other they are BLOBs of their own. */
static pierrot_status put_wide(pierrot_message *m, uint8_t tag, uint64_t bits)
{
    uint32_t len = 9;
    uint8_t *at = begin(m, 5 + 9, KEYLESS);
    if (at && !m->depth)
        at = put_bytes(put_tag(at, PR_TAG_BLOB), &len, 4);
    return done(m, at ? put_bytes(put_tag(at, tag), &bits, 8) : NULL);
}

pierrot_status pierrot_put_integer(pierrot_message *m, int64_t value) { return put_wide(m, TAG_INT64, (uint64_t)value); }
pierrot_status pierrot_put_unsigned(pierrot_message *m, uint64_t value) { return put_wide(m, TAG_UINT64, value); }

pierrot_status pierrot_put_string(pierrot_message *m, const void *bytes, size_t size)
{
    if (m && ((!bytes && size > 0)))
        return wrong(m, PIERROT_INVALID);
    if (m && size > PR_MSG_MAX - 64)
        return wrong(m, PIERROT_LIMIT);
    uint8_t *at = begin(m, 5 + size, SCALAR);
    uint32_t len = (uint32_t)size;
    if (at)
        at = m->depth ? put_u124(at, TAG_STRING + len) : put_bytes(put_tag(at, PR_TAG_STRING), &len, 4);
    return done(m, at && size ? put_bytes(at, bytes, size) : at);
}

pierrot_status pierrot_put_text(pierrot_message *m, const char *text)
{
    return pierrot_put_string(m, text, text ? strlen(text) : 1);
}

pierrot_status pierrot_put_ref(pierrot_message *m, pierrot_ref ref)
{
    if (ref.id == 0)
        return pierrot_put_nil(m);
    if (m && !pr_id_valid(ref.id))
        return wrong(m, PIERROT_INVALID);
    uint8_t *at = begin(m, 9, SCALAR);
    return done(m, at ? put_bytes(put_tag(at, m->depth ? TAG_REF64 : PR_TAG_REF), &ref.id, 8) : NULL);
}

static pierrot_status begin_table(pierrot_message *m, bool map)
{
    if (m && m->depth == PR_DEPTH_MAX)
        return wrong(m, PIERROT_INVALID);
    uint8_t *at = begin(m, 5 + 1 + U124_LONG, KEYLESS);
    if (!at)
        return done(m, NULL);
    if (m->depth == 0) {
        m->blob = (uint32_t)m->size + 1;
        *at = PR_TAG_BLOB;
        at += 5;   /* its length comes at the end */
    }
    m->levels[m->depth++] = (struct pr_level){.start = (uint32_t)(at - m->bytes), .map = map};
    *at = (uint8_t)(TAG_TABLE + (map ? PAIRS : FROM_1));
    return done(m, put_long(at + 1, 0));
}

pierrot_status pierrot_put_list(pierrot_message *m) { return begin_table(m, false); }
pierrot_status pierrot_put_map(pierrot_message *m) { return begin_table(m, true); }

/* --- keys that are there twice */

static uint64_t hash_of(const uint8_t *at, size_t size)
{
    uint64_t h = UINT64_C(14695981039346656037);   /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * UINT64_C(1099511628211);
    return h ^ h >> 32;
}

/* The bytes of a key; 0 and -0 are one. */
static size_t key_bytes(const uint8_t *at, const uint8_t *end, const uint8_t **key)
{
    static const uint8_t zero[9] = {TAG_NUMBER};
    double d;
    *key = at;
    if (*at == TAG_NUMBER) {
        memcpy(&d, at + 1, 8);
        if (d == 0)
            *key = zero;
    }
    return (size_t)(skip(at, end) - at);
}

/* PIERROT_OK, or why not. At most half of the places are taken. */
static pierrot_status check_keys(pierrot_message *m, const uint8_t *at, const uint8_t *end, uint32_t pairs)
{
    enum { FEW = 16 };
    size_t size = (size_t)2 * FEW;
    while (size < 2 * (size_t)pairs)
        size *= 2;
    uint32_t few[2 * FEW], *places = few;   /* offset + 1 of a key, 0: free */
    const uint8_t *begin = at;
    pr_memory *before = pr_enter(m->p);
    if (pairs > FEW)
        places = pr_alloc(size * sizeof *places);
    pr_leave(before);
    if (!places)
        return PIERROT_NOMEM;
    memset(places, 0, size * sizeof *places);
    pierrot_status status = PIERROT_OK;
    for (uint32_t n = 0; n < pairs && status == PIERROT_OK; n++) {
        const uint8_t *key, *other;
        size_t len = key_bytes(at, end, &key);
        size_t place = hash_of(key, len) & (size - 1);
        for (; places[place]; place = (place + 1) & (size - 1))
            if (key_bytes(begin + places[place] - 1, end, &other) == len && memcmp(key, other, len) == 0) {
                status = PIERROT_INVALID;
                break;
            }
        places[place] = (uint32_t)(at - begin) + 1;
        at = skip(skip(at, end), end);
    }
    before = pr_enter(m->p);
    if (places != few)
        pr_free(places);
    pr_leave(before);
    return status;
}

pierrot_status pierrot_put_end(pierrot_message *m)
{
    if (!m || m->status != PIERROT_OK)
        return m ? m->status : PIERROT_INVALID;
    if (m->depth == 0)
        return wrong(m, PIERROT_INVALID);
    struct pr_level *level = &m->levels[m->depth - 1];
    if (level->map && level->count % 2 != 0)
        return wrong(m, PIERROT_INVALID);
    uint8_t *counts = m->bytes + level->start + 1, *end = m->bytes + m->size;
    uint32_t n = level->map ? level->count / 2 : level->count + 1;   /* an array from 1 counts the missing 0 */
    pierrot_status status = level->map ? check_keys(m, counts + U124_LONG, end, n) : PIERROT_OK;
    if (status != PIERROT_OK)
        return wrong(m, status);
    put_long(counts, n);
    if (--m->depth == 0) {
        uint32_t len = (uint32_t)(m->size - m->blob - 4);
        memcpy(m->bytes + m->blob, &len, 4);
    }
    return PIERROT_OK;
}

/* As deep as a message may be: begin_table refuses more. */
pierrot_status pierrot_put_value(pierrot_message *m, const pierrot_value *v)   // NOLINT(misc-no-recursion)
{
    if (!m || !v)
        return m ? wrong(m, PIERROT_INVALID) : PIERROT_INVALID;
    switch (v->type) {
    case PIERROT_NIL: return pierrot_put_nil(m);
    case PIERROT_BOOLEAN: return pierrot_put_boolean(m, v->as.boolean);
    case PIERROT_NUMBER: return pierrot_put_number(m, v->as.number);
    case PIERROT_INTEGER: return pierrot_put_integer(m, v->as.integer);
    case PIERROT_UNSIGNED: return pierrot_put_unsigned(m, v->as.unsigned_integer);
    case PIERROT_STRING: return pierrot_put_string(m, v->as.string.bytes, v->as.string.size);
    case PIERROT_REF: return pierrot_put_ref(m, v->as.ref);
    default: break;
    }
    /* A table, with a metatable that travels by number, goes value by value: so depth and size are checked. */
    pierrot_cursor c;
    pierrot_value key, value;
    if (!pierrot_enter(v, &c) || pierrot_put_map(m) != PIERROT_OK)
        return wrong(m, PIERROT_INVALID);
    while (pierrot_next(&c, &key) && pierrot_next(&c, &value))
        if (pierrot_put_value(m, &key) != PIERROT_OK || pierrot_put_value(m, &value) != PIERROT_OK)
            break;
    return pierrot_put_end(m);
}

pr_msg *pr_message_envelope(pr_msg_pool *pool, const pierrot_message *m)
{
    pr_msg *e = pr_msg_new(pool, m ? m->size : 0);
    if (e && m) {
        e->count = (uint16_t)m->count;
        memcpy(e->data, m->bytes, m->size);
    }
    return e;
}

/* --- reading */

enum { WIRE, TABLE };

void pr_envelope_read(const pr_msg *m, pierrot_cursor *c)
{
    *c = (pierrot_cursor){.at = m->data, .end = m->data + m->size, .items = m->count, .form = WIRE};
}

void pierrot_message_read(const pierrot_message *m, pierrot_cursor *c)
{
    *c = (pierrot_cursor){.form = WIRE};
    if (m) {
        c->at = m->bytes;
        c->end = m->bytes + m->size;
        c->items = m->depth ? 0 : m->count;
    }
}

/* One value in the format of string.buffer; a table is left for later. */
static const uint8_t *read_value(const uint8_t *at, const uint8_t *end, pierrot_value *v)
{
    uint32_t tag, n;
    const uint8_t *begin = at;
    uint64_t bits = 0;
    int32_t small = 0;
    memset(v, 0, sizeof *v);
    at = read_u124(at, end, &tag);
    if (tag >= TAG_STRING) {
        v->type = PIERROT_STRING;
        v->as.string.bytes = (const char *)at;
        const uint8_t *after = advance(at, end, tag - TAG_STRING);
        v->as.string.size = (size_t)(after - at);
        return after;
    }
    size_t size = tag == TAG_REF32 || tag == TAG_INT32 ? 4
                  : tag == TAG_REF64 || tag == TAG_NUMBER || tag == TAG_INT64 || tag == TAG_UINT64 ? 8 : 0;
    if ((size_t)(end - at) < size)
        return end;
    if (size)
        memcpy(&bits, at, size);
    at += size;
    switch (tag) {
    case TAG_FALSE: case TAG_TRUE:
        v->type = PIERROT_BOOLEAN;
        v->as.boolean = tag == TAG_TRUE;
        break;
    case TAG_REF32: case TAG_REF64:
        if (bits % 2 == 0)   /* stands for a shared value: no id is even, nor a monitor's number */
            break;
        v->type = PIERROT_REF;
        v->as.ref.id = bits;
        break;
    case TAG_INT32:
        v->type = PIERROT_NUMBER;
        memcpy(&small, &bits, 4);
        v->as.number = small;
        break;
    case TAG_NUMBER:
        v->type = PIERROT_NUMBER;
        memcpy(&v->as.number, &bits, 8);
        break;
    case TAG_INT64:
        v->type = PIERROT_INTEGER;
        memcpy(&v->as.integer, &bits, 8);
        break;
    case TAG_UINT64:
        v->type = PIERROT_UNSIGNED;
        v->as.unsigned_integer = bits;
        break;
    case TAG_METATABLE:
        begin = at = read_u124(at, end, &n);
        __attribute__((fallthrough));
    default:
        if (tag == TAG_METATABLE || (tag >= TAG_TABLE && tag < TAG_TABLE + 6)) {
            v->type = PIERROT_TABLE;
            v->as.string.bytes = (const char *)begin;
            v->as.string.size = (size_t)(end - begin);
            return begin;
        }
    }
    return at;
}

static bool next_wire(pierrot_cursor *c, pierrot_value *v)
{
    uint32_t len = 0;
    if (c->items == 0 || c->at >= c->end)
        return false;
    c->items--;
    uint8_t tag = *c->at++;
    size_t left = (size_t)(c->end - c->at);
    switch (tag) {
    case PR_TAG_NIL:
        break;
    case PR_TAG_FALSE: case PR_TAG_TRUE:
        v->type = PIERROT_BOOLEAN;
        v->as.boolean = tag == PR_TAG_TRUE;
        break;
    case PR_TAG_NUMBER: case PR_TAG_REF:
        if (left < 8)
            return false;
        v->type = tag == PR_TAG_NUMBER ? PIERROT_NUMBER : PIERROT_REF;
        memcpy(&v->as, c->at, 8);   /* a double and an id begin the union */
        c->at += 8;
        break;
    default:
        if (left < 4)
            return false;
        memcpy(&len, c->at, 4);
        c->at += 4;
        if (left - 4 < len)
            return false;
        if (tag == PR_TAG_STRING) {
            v->type = PIERROT_STRING;
            v->as.string.bytes = (const char *)c->at;
            v->as.string.size = len;
        } else if (tag == PR_TAG_MIXED) {   /* a table with shared values: these are nil here */
            uint32_t shares = 0;
            memcpy(&shares, c->at, len < 4 ? len : 4);
            read_value(advance(c->at, c->at + len, 4 + (size_t)shares * PR_WIRE_SHARED), c->at + len, v);
        } else if (tag != PR_TAG_SHARED) {
            read_value(c->at, c->at + len, v);
        }
        c->at += len;
    }
    return true;
}

static bool next_in_table(pierrot_cursor *c, pierrot_value *v)
{
    if (c->pending)
        c->at = skip(c->at, c->end);
    c->pending = 0;
    if (c->in_pair) {   /* a key has been given */
        c->at = read_value(c->at, c->end, v);
        c->pending = v->type == PIERROT_TABLE;
        c->in_pair = 0;
        return true;
    }
    while (c->items > 0 && c->at < c->end) {
        c->items--;
        uint32_t index = c->index++;
        if (*c->at == TAG_NIL) {   /* a hole */
            c->at++;
            continue;
        }
        v->type = PIERROT_NUMBER;
        v->as.number = index;
        c->in_pair = 1;
        return true;
    }
    while (c->pairs > 0 && c->at < c->end) {
        c->pairs--;
        const uint8_t *value = skip(c->at, c->end);
        if (value < c->end && *value == TAG_NIL) {
            c->at = value + 1;
            continue;
        }
        read_value(c->at, c->end, v);
        c->at = value;
        c->in_pair = 1;
        return true;
    }
    return false;
}

bool pierrot_next(pierrot_cursor *c, pierrot_value *value)
{
    memset(value, 0, sizeof *value);   /* nil */
    return c->form == WIRE ? next_wire(c, value) : next_in_table(c, value);
}

bool pierrot_enter(const pierrot_value *table, pierrot_cursor *c)
{
    memset(c, 0, sizeof *c);
    if (table->type != PIERROT_TABLE)
        return false;
    c->form = TABLE;
    c->at = (const uint8_t *)table->as.string.bytes;
    c->end = c->at + table->as.string.size;
    uint32_t tag;
    c->at = read_u124(c->at, c->end, &tag);
    c->at = read_counts(c->at, c->end, tag, &c->items, &c->pairs, &c->index);
    return true;
}

bool pierrot_get(const pierrot_value *table, const char *key, pierrot_value *value)
{
    pierrot_cursor c;
    pierrot_value k;
    size_t len = strlen(key);
    if (pierrot_enter(table, &c))
        while (pierrot_next(&c, &k) && pierrot_next(&c, value))
            if (k.type == PIERROT_STRING && k.as.string.size == len && memcmp(k.as.string.bytes, key, len) == 0)
                return true;
    memset(value, 0, sizeof *value);
    return false;
}

bool pierrot_get_index(const pierrot_value *table, double index, pierrot_value *value)
{
    pierrot_cursor c;
    pierrot_value k;
    if (pierrot_enter(table, &c))
        while (pierrot_next(&c, &k) && pierrot_next(&c, value))
            if (k.type == PIERROT_NUMBER && k.as.number == index)
                return true;
    memset(value, 0, sizeof *value);
    return false;
}

/* The next value without taking it; `after` is the cursor behind it. */
static bool peek(pierrot_cursor *c, pierrot_cursor *after, pierrot_value *v, pierrot_type type)
{
    *after = *c;
    return pierrot_next(after, v) && v->type == type;
}

bool pierrot_read_boolean(pierrot_cursor *c, bool *value)
{
    pierrot_cursor after;
    pierrot_value v;
    if (!peek(c, &after, &v, PIERROT_BOOLEAN))
        return false;
    *value = v.as.boolean;
    *c = after;
    return true;
}

bool pierrot_read_number(pierrot_cursor *c, double *value)
{
    pierrot_cursor after;
    pierrot_value v;
    if (!peek(c, &after, &v, PIERROT_NUMBER))
        return false;
    *value = v.as.number;
    *c = after;
    return true;
}

bool pierrot_read_integer(pierrot_cursor *c, int64_t *value)
{
    pierrot_cursor after = *c;
    pierrot_value v;
    if (!pierrot_next(&after, &v))
        return false;
    if (v.type == PIERROT_INTEGER)
        *value = v.as.integer;
    else if (v.type == PIERROT_UNSIGNED && v.as.unsigned_integer <= INT64_MAX)
        *value = (int64_t)v.as.unsigned_integer;
    else if (v.type == PIERROT_NUMBER && v.as.number >= -9223372036854775808.0 && v.as.number < 9223372036854775808.0 && floor(v.as.number) == v.as.number)
        *value = (int64_t)v.as.number;
    else
        return false;
    *c = after;
    return true;
}

bool pierrot_read_unsigned(pierrot_cursor *c, uint64_t *value)
{
    pierrot_cursor after = *c;
    pierrot_value v;
    if (!pierrot_next(&after, &v))
        return false;
    if (v.type == PIERROT_UNSIGNED)
        *value = v.as.unsigned_integer;
    else if (v.type == PIERROT_INTEGER && v.as.integer >= 0)
        *value = (uint64_t)v.as.integer;
    else if (v.type == PIERROT_NUMBER && v.as.number >= 0 && v.as.number < 18446744073709551616.0 && floor(v.as.number) == v.as.number)
        *value = (uint64_t)v.as.number;
    else
        return false;
    *c = after;
    return true;
}

bool pierrot_read_string(pierrot_cursor *c, const char **bytes, size_t *size)
{
    pierrot_cursor after;
    pierrot_value v;
    if (!peek(c, &after, &v, PIERROT_STRING))
        return false;
    *bytes = v.as.string.bytes;
    *size = v.as.string.size;
    *c = after;
    return true;
}

bool pierrot_read_text(pierrot_cursor *c, const char *text)
{
    pierrot_cursor after;
    pierrot_value v;
    size_t len = strlen(text);
    if (!peek(c, &after, &v, PIERROT_STRING) || v.as.string.size != len || memcmp(v.as.string.bytes, text, len) != 0)
        return false;
    *c = after;
    return true;
}

bool pierrot_read_ref(pierrot_cursor *c, pierrot_ref *ref)
{
    pierrot_cursor after;
    pierrot_value v;
    if (!peek(c, &after, &v, PIERROT_REF))
        return false;
    *ref = v.as.ref;
    *c = after;
    return true;
}

bool pierrot_read_table(pierrot_cursor *c, pierrot_cursor *inner)
{
    pierrot_cursor after;
    pierrot_value v;
    if (!peek(c, &after, &v, PIERROT_TABLE))
        return false;
    pierrot_enter(&v, inner);
    *c = after;
    return true;
}
