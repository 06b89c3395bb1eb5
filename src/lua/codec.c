/* Values to message bytes and back. Scalars, strings and refs are written here; tables and 64-bit integers
 * go through LuaJIT's string.buffer serializer, whose output is then walked once for what it would let
 * through but may not travel: light userdata that are no refs, complex numbers.
 *
 * Shared values (see share.c) are cdata, which the serializer refuses: only then a table is walked in Lua, which puts
 * light userdata in their place. So messages without any pay nothing for them. A refusal costs ten times as much as the
 * walk: for a while after a table that held some (x->out.mixed), tables are walked first. */
#include "border.h"

#include <string.h>

enum { TYPE_CDATA = LUA_TTHREAD + 2 };   /* LuaJIT's own, not in lua.h */

static const char open_chunk[] =
    "local mts = ...\n"
    "local buffer, ffi = require 'string.buffer', require 'ffi'\n"
    "local out, back = buffer.new { metatable = mts }, buffer.new { metatable = mts }\n"
    "return out, out.encode, out.get, back, back.set, back.decode, ffi.cast('const char *', 0)\n";

/* Expects the list of metatables that travel by number on top; consumes it. */
bool pr_lua_open_codec(lua_State *L, pr_lua *x)
{
    int *refs[] = {&x->source, &x->decode, &x->set, &x->decoder, &x->get, &x->encode, &x->encoder};
    if (luaL_loadbuffer(L, open_chunk, sizeof open_chunk - 1, "=pierrot codec") != 0)
        lua_error(L);
    lua_insert(L, -2);
    lua_call(L, 1, 7);
    /* A cdata's address, as lua_topointer gives it, is that of its payload: here, of the pointer it holds. */
    x->source_cell = (void **)(uintptr_t)lua_topointer(L, -1);
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++)
        *refs[i] = luaL_ref(L, LUA_REGISTRYINDEX);
    return true;
}

/* --- looking through serialized bytes. The format: lj_serialize.c; tags and lengths are its "U124". */

static const uint8_t *read_u124(const uint8_t *p, uint32_t *v)
{
    uint32_t first = *p++;
    if (first < 0xe0) {
        *v = first;
    } else if (first != 0xff) {
        *v = ((first & 0x1f) << 8) + *p++ + 0xe0;
    } else {
        memcpy(v, p, 4);
        p += 4;
    }
    return p;
}

/* Light userdata that is a ref, or stands for one of so many shared values. */
static bool may_go(uint64_t ud, uint32_t shares)
{
    return pr_id_valid(ud) || (ud % 2 == 0 && ud >= 2 && ud / 2 <= shares);
}

/* False: there is something in it that may not travel. */
static bool may_travel(const uint8_t *p, size_t size, uint32_t shares)
{
    const uint8_t *end = p + size;
    while (p < end) {
        uint32_t tag, n;
        uint64_t ud;
        p = read_u124(p, &tag);
        if (tag >= 0x20) {   /* a string: its length is tag - 0x20 */
            p += tag - 0x20;
            continue;
        }
        switch (tag) {
        case 0x00: case 0x01: case 0x02:   /* nil, false, true */
            break;
        case 0x04:
            memcpy(&n, p, 4);
            ud = n;
            p += 4;
            if (!may_go(ud, shares))
                return false;
            break;
        case 0x05:
            memcpy(&ud, p, 8);
            p += 8;
            if (!may_go(ud, shares))
                return false;
            break;
        case 0x06:   /* a 32-bit integer */
            p += 4;
            break;
        case 0x07: case 0x10: case 0x11:   /* double, int64, uint64 */
            p += 8;
            break;
        case 0x08: case 0x09: case 0x0a: case 0x0b: case 0x0c: case 0x0d:
            /* a table: counts follow, then its values, which the loop goes through */
            if ((tag - 0x08) >> 1)
                p = read_u124(p, &n);
            if (tag & 1)
                p = read_u124(p, &n);
            break;
        case 0x0e:   /* a metatable by number */
            p = read_u124(p, &n);
            break;
        default:
            return false;   /* the null pointer, complex numbers, what later versions may add */
        }
    }
    return p == end;
}

bool pr_lua_may_travel(const uint8_t *p, size_t size) { return may_travel(p, size, 0); }

/* --- encoding */

static bool serialized(int type) { return type == LUA_TTABLE || type == TYPE_CDATA; }

/* Replaces the value at `index` by its bytes as a Lua string. False: it cannot be serialized, the error is on
 * the stack. Raises for want of memory only where lua_pcall itself does. */
static bool serialize(lua_State *L, pr_lua *x, int index, uint32_t shares, int *status)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->encode);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->encoder);
    lua_pushvalue(L, index);
    *status = lua_pcall(L, 2, 0, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->get);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->encoder);
    int got = lua_pcall(L, 1, 1, 0);   /* after a failure: empties the buffer */
    if (*status != 0) {
        lua_pop(L, 1);
        return false;
    }
    if (got != 0) {
        *status = got;
        return false;
    }
    size_t size;
    const uint8_t *bytes = (const uint8_t *)lua_tolstring(L, -1, &size);
    if (!may_travel(bytes, size, shares)) {
        *status = LUA_ERRRUN;
        return false;
    }
    lua_replace(L, index);
    return true;
}

/* Pushes a text that says which value cannot be sent. */
static void explain(lua_State *L, pr_lua *x, int from, int top, const char *label)
{
    luaL_checkstack(L, top - from + 4, "message");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->explain);
    lua_pushstring(L, label);
    for (int i = from; i <= top; i++)
        lua_pushvalue(L, i);
    if (lua_pcall(L, top - from + 2, 1, 0) != 0 && !lua_isstring(L, -1)) {
        lua_pop(L, 1);
        lua_pushliteral(L, "a value that cannot be sent");
    }
}

/* After a refusal: the table at the top may hold shared values. -> 1 it is replaced by bytes as of MIXED; 0 it is not for
 * them; -1 an error that is on the stack. Raises for want of memory, as luaL_checkstack does. */
static int mix(lua_State *L, pr_lua *x, int *status)
{
    int index = lua_gettop(L);
    uint32_t count = 0;
    luaL_checkstack(L, LUA_MINSTACK, "message");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->substitute);
    lua_pushvalue(L, index);
    *status = lua_pcall(L, 1, 2, 0);   /* -> a copy, { token, number of the table, ... } */
    if (*status != 0)
        return -1;
    if (!lua_istable(L, index + 1)) {
        *status = LUA_ERRRUN;
        lua_settop(L, index);
        return 0;
    }
    count = (uint32_t)lua_objlen(L, index + 2) / 2;
    luaL_Buffer list;
    luaL_buffinit(L, &list);
    luaL_addlstring(&list, (const char *)&count, 4);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t entry[PR_WIRE_SHARED];
        lua_rawgeti(L, index + 2, (int)(2 * i + 1));
        pr_share *s = pr_lua_token_share(x, lua_touserdata(L, -1));
        lua_pop(L, 1);
        lua_rawgeti(L, index + 2, (int)(2 * i + 2));
        uint32_t table = (uint32_t)lua_tonumber(L, -1);
        lua_pop(L, 1);
        if (!s) {
            lua_settop(L, index);
            lua_pushliteral(L, "cannot send a shared value of a runtime that has ended: share it anew");
            *status = LUA_ERRRUN;
            return -1;
        }
        pr_wire_put_shared(entry, s, table);
        luaL_addlstring(&list, (const char *)entry, sizeof entry);
    }
    luaL_pushresult(&list);
    lua_pushvalue(L, index + 1);
    if (!serialize(L, x, lua_gettop(L), count, status)) {
        lua_settop(L, index);
        return 0;
    }
    lua_concat(L, 2);
    lua_replace(L, index);
    lua_settop(L, index);
    return 1;
}

/* Of a shared value at `index`: pushes its token and the number of its table. 0: it is none; -1: it is gone, and a text is
 * on the stack. */
static int push_token_of(lua_State *L, pr_lua *x, int index)
{
    int top = lua_gettop(L);
    luaL_checkstack(L, 8, "message");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->share_tokens);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    lua_pushnumber(L, 1);
    if (!lua_isuserdata(L, -2)) {   /* a table within one, or none */
        lua_settop(L, top);
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->share_of);
        lua_pushvalue(L, index);
        if (lua_pcall(L, 1, 2, 0) != 0 || !lua_isuserdata(L, -2)) {
            lua_settop(L, top);
            return 0;
        }
    }
    if (pr_lua_token_share(x, lua_touserdata(L, -2)))
        return 1;
    lua_settop(L, top);
    lua_pushliteral(L, "cannot send a shared value of a runtime that has ended: share it anew");
    return -1;
}

enum { MAX_VALUES = 4000, MIXED_FOR = 16 /* tables */ };

/* What the values of a message go as, beside what their types say. */
typedef struct forms {
    uint8_t shared[MAX_VALUES / 8 + 1], mixed[MAX_VALUES / 8 + 1];
    bool any;
} forms;

static bool has_bit(const forms *f, const uint8_t *bits, int i) { return f->any && bits[i / 8] >> i % 8 & 1; }
static void set_bit(forms *f, uint8_t *bits, int i)
{
    if (!f->any) {
        memset(f->shared, 0, sizeof f->shared);
        memset(f->mixed, 0, sizeof f->mixed);
    }
    f->any = true;
    bits[i / 8] |= (uint8_t)(1 << i % 8);
}

static pr_msg *encode_any(lua_State *L, pr_lua *x, int from, const char *label)
{
    int top = lua_gettop(L), first_blob = 0;
    size_t size = 0, len;
    uint64_t id;
    forms f;
    f.any = false;
    if (top - from + 1 > MAX_VALUES) {
        lua_pushfstring(L, "%s has %d values; at most %d go in one message: put them into a table", label,
                        top - from + 1, MAX_VALUES);
        return NULL;
    }
    for (int i = from; i <= top; i++) {
        int type = lua_type(L, i);
        switch (type) {
        case LUA_TNIL: case LUA_TBOOLEAN:
            size += 1;
            break;
        case LUA_TNUMBER:
            size += 9;
            break;
        case LUA_TSTRING:
            lua_tolstring(L, i, &len);
            size += pr_wire_size_bytes(len);
            break;
        case LUA_TLIGHTUSERDATA:
            size += 9;
            if (!pr_lua_is_ref(L, i, &id)) {
                explain(L, x, from, top, label);
                return NULL;
            }
            break;
        default:
            if (!serialized(type)) {
                explain(L, x, from, top, label);
                return NULL;
            }
            if (type == TYPE_CDATA) {
                int pushed = push_token_of(L, x, i);
                if (pushed < 0)
                    return NULL;
                if (pushed) {
                    size += pr_wire_size_bytes(PR_WIRE_SHARED);
                    set_bit(&f, f.shared, i - from);
                    continue;
                }
            }
            if (!first_blob)
                first_blob = i;
        }
    }
    /* Blobs become Lua strings above the values and the tokens, in order; what they were is told by the original below. */
    int token = top + 1, first = lua_gettop(L), blob = first;
    for (int i = first_blob; first_blob && i <= top; i++) {
        if (!serialized(lua_type(L, i)) || has_bit(&f, f.shared, i - from))
            continue;
        int status = 0;
        luaL_checkstack(L, 8, "message");
        lua_pushvalue(L, i);
        blob++;
        int mixed = 0;
        if (x->out.mixed > 0 && lua_istable(L, blob)) {
            x->out.mixed--;
            mixed = mix(L, x, &status);
        }
        if (mixed == 0 && !serialize(L, x, blob, 0, &status)) {
            lua_settop(L, blob);
            mixed = status != LUA_ERRMEM && lua_istable(L, blob) ? mix(L, x, &status) : 0;
            if (mixed == 0 && status != LUA_ERRMEM) {
                explain(L, x, from, top, label);
                return NULL;
            }
            if (mixed == 0)
                mixed = -1;
        }
        if (mixed < 0 && status == LUA_ERRMEM)
            lua_pushfstring(L, "not enough memory to send %s[%d]", label, i - from + 1);
        if (mixed < 0)
            return NULL;
        if (mixed > 0) {
            x->out.mixed = MIXED_FOR;
            set_bit(&f, f.mixed, i - from);
        }
        lua_tolstring(L, blob, &len);
        size += pr_wire_size_bytes(len);
    }
    size_t limit = x->rt ? x->rt->config.message_limit : 0;
    if (limit && size > limit && strcmp(label, "error") != 0) {   /* what tells of a failure is always let through */
        lua_pushfstring(L, "%s is too big: %d bytes, at most %d", label, (int)size, (int)limit);
        return NULL;
    }
    pr_msg *m = pr_msg_new(pr_lua_pool(x), size);
    if (!m) {
        if (size > PR_MSG_MAX)
            lua_pushfstring(L, "%s is too big: %d MB, at most 4096 MB", label, (int)(size >> 20));
        else
            lua_pushfstring(L, "not enough memory to send %s (%d KB)", label, (int)(size >> 10));
        return NULL;
    }
    m->count = (uint16_t)(top - from + 1);
    uint8_t *at = m->data;
    blob = first;
    for (int i = from; i <= top; i++) {
        int type = lua_type(L, i);
        switch (type) {
        case LUA_TNIL:
            *at++ = PR_TAG_NIL;
            break;
        case LUA_TBOOLEAN:
            *at++ = lua_toboolean(L, i) ? PR_TAG_TRUE : PR_TAG_FALSE;
            break;
        case LUA_TNUMBER: {
            double d = lua_tonumber(L, i);
            *at++ = PR_TAG_NUMBER;
            memcpy(at, &d, 8);
            at += 8;
            break;
        }
        case LUA_TLIGHTUSERDATA:
            id = (uint64_t)(uintptr_t)lua_touserdata(L, i);
            *at++ = PR_TAG_REF;
            memcpy(at, &id, 8);
            at += 8;
            break;
        default: {
            uint8_t *tag = at, entry[PR_WIRE_SHARED];
            bool shared = has_bit(&f, f.shared, i - from);
            if (shared) {
                pr_wire_put_shared(entry, pr_lua_token_share(x, lua_touserdata(L, token)), (uint32_t)lua_tonumber(L, token + 1));
                token += 2;
                at = pr_wire_put_string(at, (const char *)entry, sizeof entry);
            } else {
                const char *s = lua_tolstring(L, type == LUA_TSTRING ? i : ++blob, &len);
                at = pr_wire_put_string(at, s, len);
            }
            if (type != LUA_TSTRING)
                *tag = shared ? PR_TAG_SHARED : has_bit(&f, f.mixed, i - from) ? PR_TAG_MIXED : PR_TAG_BLOB;
        }
        }
    }
    if (f.any)   /* before anything here can be collected */
        pr_msg_hold_shares(m);
    lua_settop(L, top);
    return m;
}

/* The first table of a shared value at `index`; NULL: something else, or of a runtime that has ended. */
static pr_share *first_of_share(lua_State *L, pr_lua *x, int index)
{
    if (!lua_checkstack(L, 2))
        return NULL;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->share_tokens);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    pr_share *s = pr_lua_token_share(x, lua_touserdata(L, -1));
    lua_pop(L, 2);
    return s;
}

/* Most messages: a few scalars, short strings and shared values (then *holds), written in one pass. -1: longer than that,
 * or other values. */
static inline int encode_small(lua_State *L, pr_lua *x, int from, int top, uint8_t *at, int room, bool *holds)
{
    const uint8_t *begin = at, *end = at + room;
    for (int i = from; i <= top; i++) {
        size_t len;
        const char *s;
        uint64_t id;
        double d;
        switch (lua_type(L, i)) {
        case LUA_TNUMBER:
            if (end - at < 9)
                return -1;
            d = lua_tonumber(L, i);
            *at++ = PR_TAG_NUMBER;
            memcpy(at, &d, 8);
            at += 8;
            break;
        case LUA_TSTRING:
            s = lua_tolstring(L, i, &len);
            if ((size_t)(end - at) < pr_wire_size_bytes(len))
                return -1;
            at = pr_wire_put_string(at, s, len);
            break;
        case LUA_TLIGHTUSERDATA:
            id = (uint64_t)(uintptr_t)lua_touserdata(L, i);
            if (end - at < 9 || !pr_id_valid(id))
                return -1;
            *at++ = PR_TAG_REF;
            memcpy(at, &id, 8);
            at += 8;
            break;
        case LUA_TBOOLEAN:
            if (end == at)
                return -1;
            *at++ = lua_toboolean(L, i) ? PR_TAG_TRUE : PR_TAG_FALSE;
            break;
        case LUA_TNIL:
            if (end == at)
                return -1;
            *at++ = PR_TAG_NIL;
            break;
        case TYPE_CDATA: {
            pr_share *shared = (size_t)(end - at) < pr_wire_size_bytes(PR_WIRE_SHARED) ? NULL : first_of_share(L, x, i);
            uint8_t entry[PR_WIRE_SHARED];
            if (!shared)
                return -1;
            pr_wire_put_shared(entry, shared, 1);
            uint8_t *tag = at;
            at = pr_wire_put_string(at, (const char *)entry, sizeof entry);
            *tag = PR_TAG_SHARED;
            *holds = true;
            break;
        }
        default:
            return -1;
        }
    }
    return (int)(at - begin);
}

enum { SMALL = 256 - PR_MSG_HEADER };

pr_msg *pr_lua_try_encode(lua_State *L, pr_lua *x, int from, const char *label)
{
    int top = lua_gettop(L);
    pr_msg_pool *pool = pr_lua_pool(x);
    /* Right into an envelope of the smallest class, if that holds it. */
    pr_msg *m = pool && top - from < 4 ? pr_msg_new_small(pool, PR_MSG_SMALLEST) : NULL;
    bool holds = false;
    if (m) {
        int size = encode_small(L, x, from, top, m->data, PR_MSG_SMALLEST, &holds);
        if (size >= 0) {
            m->size = (uint32_t)size;
            m->count = (uint16_t)(top - from + 1);
            if (holds)
                pr_msg_hold_shares(m);
            return m;
        }
        pr_msg_free(pool, m);
    }
    uint8_t small[SMALL];
    int size = encode_small(L, x, from, top, small, SMALL, &holds);
    if (size >= 0 && (m = pr_msg_new(pool, (size_t)size))) {
        m->count = (uint16_t)(top - from + 1);
        memcpy(m->data, small, (size_t)size);
        if (holds)
            pr_msg_hold_shares(m);
        return m;
    }
    return encode_any(L, x, from, label);
}

pr_msg *pr_lua_encode(lua_State *L, pr_lua *x, int from, const char *label, int level)
{
    pr_msg *m = pr_lua_try_encode(L, x, from, label);
    if (!m) {
        luaL_where(L, level);
        lua_insert(L, -2);
        lua_concat(L, 2);
        lua_error(L);
    }
    return m;
}

/* --- decoding */

static void decode_blob(lua_State *L, pr_lua *x, const uint8_t *bytes, uint32_t len)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->set);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decoder);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->source);
    lua_pushnumber(L, len);
    *x->source_cell = (void *)(uintptr_t)bytes;
    lua_call(L, 3, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decode);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decoder);
    lua_call(L, 1, 1);
}

/* Pushes the first table of a share, if there is a handle of it in this state. Allocates nothing; two places. */
static bool push_known_share(lua_State *L, pr_lua *x, const uint8_t *entry)
{
    pr_share *s;
    uint32_t table;
    memcpy(&s, entry, 8);
    memcpy(&table, entry + 8, 4);
    if (table != 1)
        return false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->share_roots);
    lua_pushnumber(L, (double)s->number);
    lua_rawget(L, -2);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 2);
        return false;
    }
    lua_replace(L, -2);
    return true;
}

/* Pushes table `number` of that share, as this state has it. */
static void push_shared(lua_State *L, pr_lua *x, const uint8_t *entry)
{
    pr_share *s;
    uint32_t table;
    if (push_known_share(L, x, entry))
        return;
    memcpy(&s, entry, 8);
    memcpy(&table, entry + 8, 4);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->shared);
    lua_pushnumber(L, (double)s->number);
    lua_pushnumber(L, table);
    lua_call(L, 2, 1);
}

static void decode_mixed(lua_State *L, pr_lua *x, const uint8_t *bytes, uint32_t len)
{
    uint32_t count;
    memcpy(&count, bytes, 4);
    const uint8_t *blob = bytes + 4 + (size_t)count * PR_WIRE_SHARED;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->restore);
    decode_blob(L, x, blob, len - (uint32_t)(blob - bytes));
    lua_createtable(L, 0, (int)count);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)(2 * (i + 1)));
        push_shared(L, x, bytes + 4 + (size_t)i * PR_WIRE_SHARED);
        lua_rawset(L, -3);
    }
    lua_call(L, 2, 1);
}

int pr_lua_decode(lua_State *L, pr_lua *x, const pr_msg *m, uint32_t skip)
{
    const uint8_t *at = m->data;
    int pushed = 0;
    luaL_checkstack(L, (int)m->count + 8, "message");
    for (uint32_t i = 0; i < m->count; i++) {
        uint8_t tag = *at++;
        bool wanted = i >= skip;
        uint32_t len;
        uint64_t id;
        double d;
        switch (tag) {
        case PR_TAG_NIL:
            if (wanted)
                lua_pushnil(L);
            break;
        case PR_TAG_FALSE: case PR_TAG_TRUE:
            if (wanted)
                lua_pushboolean(L, tag == PR_TAG_TRUE);
            break;
        case PR_TAG_NUMBER:
            memcpy(&d, at, 8);
            at += 8;
            if (wanted)
                lua_pushnumber(L, d);
            break;
        case PR_TAG_REF:
            memcpy(&id, at, 8);
            at += 8;
            if (wanted)
                lua_pushlightuserdata(L, (void *)(uintptr_t)id);
            break;
        default:
            memcpy(&len, at, 4);
            at += 4;
            if (wanted && tag == PR_TAG_STRING)
                lua_pushlstring(L, (const char *)at, len);
            else if (wanted && tag == PR_TAG_SHARED)
                push_shared(L, x, at);
            else if (wanted && tag == PR_TAG_MIXED)
                decode_mixed(L, x, at, len);
            else if (wanted)
                decode_blob(L, x, at, len);
            at += len;
        }
        pushed += wanted;
    }
    return pushed;
}

/* What needs no memory in Lua (numbers, booleans, nils, refs, shared values that are known here, within the usual stack) is
 * pushed directly; -1, with nothing pushed, at the first value that does. LUA_MINSTACK places are free on a coroutine
 * between handlers. */
static int decode_plain(lua_State *L, pr_lua *x, const pr_msg *m, uint32_t skip)
{
    const uint8_t *at = m->data;
    int pushed = 0;
    if (m->count - skip > 12)
        return -1;
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t len;
        uint64_t id;
        double d;
        switch (*at++) {
        case PR_TAG_NUMBER:
            memcpy(&d, at, 8);
            at += 8;
            if (i < skip)
                continue;
            lua_pushnumber(L, d);
            break;
        case PR_TAG_REF:
            memcpy(&id, at, 8);
            at += 8;
            if (i < skip)
                continue;
            lua_pushlightuserdata(L, (void *)(uintptr_t)id);
            break;
        case PR_TAG_NIL:
            if (i < skip)
                continue;
            lua_pushnil(L);
            break;
        case PR_TAG_TRUE: case PR_TAG_FALSE:
            if (i < skip)
                continue;
            lua_pushboolean(L, at[-1] == PR_TAG_TRUE);
            break;
        default:
            memcpy(&len, at, 4);
            if (i < skip) {
                at += 4 + len;
                continue;
            }
            if (at[-1] == PR_TAG_SHARED && push_known_share(L, x, at + 4)) {
                at += 4 + len;
                break;
            }
            lua_settop(L, -pushed - 1);
            return -1;
        }
        pushed++;
    }
    return pushed;
}

int pr_lua_decode_message(lua_State *L);
int pr_lua_decode_message(lua_State *L)
{
    const pr_msg *m = lua_touserdata(L, 1);
    uint32_t skip = (uint32_t)lua_tointeger(L, 2);
    return pr_lua_decode(L, pr_lua_of(L), m, skip);
}

int pr_lua_decode_to(lua_State *to, pr_lua *x, const pr_msg *m, uint32_t skip)
{
    if (m->count <= skip)
        return 0;
    int plain = decode_plain(to, x, m, skip);
    if (plain >= 0)
        return plain;
    lua_State *L = x->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decode_message);
    lua_pushlightuserdata(L, (void *)(uintptr_t)m);
    lua_pushinteger(L, (lua_Integer)skip);
    if (lua_pcall(L, 2, LUA_MULTRET, 0) != 0)
        return -1;
    int n = lua_gettop(L) - top;
    if (!lua_checkstack(to, n + 4)) {
        lua_settop(L, top);
        lua_pushnil(L);   /* no memory, not even for saying so */
        return -1;
    }
    lua_xmove(L, to, n);
    return n;
}
