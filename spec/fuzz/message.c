/* Message bytes. An input is either values, which are encoded, read by the C library's cursor and decoded by Lua, all of which
 * must give the same; or the bytes of a message themselves: the cursor then stays within them whatever they are, and where
 * LuaJIT can read them too, and they hold what may travel, both say the same. */
#include "fuzz.h"

#include "../../src/embed/embed.h"
#include "../../src/lua/border.h"

#include <math.h>

int luaopen_pierrot(lua_State *L);

static lua_State *L;
static pr_lua *x;
static pierrot *rt;

enum { DEPTH = 110 };

/* --- the cursor beside Lua's values */

static bool is_comparable(const pierrot_value *key)
{
    return key->type != PIERROT_TABLE && key->type != PIERROT_INTEGER && key->type != PIERROT_UNSIGNED;
}

/* Pushes what Lua has for a value of C that can be a key. */
static void push_key(const pierrot_value *v)
{
    switch (v->type) {
    case PIERROT_BOOLEAN: lua_pushboolean(L, v->as.boolean); break;
    case PIERROT_NUMBER: lua_pushnumber(L, v->as.number); break;
    case PIERROT_STRING: lua_pushlstring(L, v->as.string.bytes, v->as.string.size); break;
    case PIERROT_REF: lua_pushlightuserdata(L, (void *)(uintptr_t)v->as.ref.id); break;
    default: lua_pushnil(L);
    }
}

/* The value on top is what the cursor has given; it is left there. */
static void check_same(const pierrot_value *v, int depth)
{
    size_t size = 0;
    int type = lua_type(L, -1), top = lua_gettop(L);
    HOLDS(depth < DEPTH);
    luaL_checkstack(L, 10, "compare");
    switch (v->type) {
    case PIERROT_NIL:
        HOLDS(type == LUA_TNIL || (type == LUA_TLIGHTUSERDATA && !pr_lua_is_ref(L, -1, &(uint64_t){0})));
        break;
    case PIERROT_BOOLEAN:
        HOLDS(type == LUA_TBOOLEAN && lua_toboolean(L, -1) == v->as.boolean);
        break;
    case PIERROT_NUMBER:
        HOLDS(type == LUA_TNUMBER);
        double d = lua_tonumber(L, -1);
        HOLDS(d == v->as.number ? signbit(d) == signbit(v->as.number) : isnan(d) && isnan(v->as.number));
        break;
    case PIERROT_INTEGER: case PIERROT_UNSIGNED:
        HOLDS(type == LUA_TTHREAD + 2 && memcmp(lua_topointer(L, -1), &v->as, 8) == 0);
        break;
    case PIERROT_STRING: {
        const char *s = type == LUA_TSTRING ? lua_tolstring(L, -1, &size) : NULL;
        HOLDS(s && size == v->as.string.size && memcmp(s, v->as.string.bytes, size) == 0);
        break;
    }
    case PIERROT_REF:
        HOLDS(type == LUA_TLIGHTUSERDATA && (uint64_t)(uintptr_t)lua_touserdata(L, -1) == v->as.ref.id);
        break;
    case PIERROT_TABLE: {
        pierrot_cursor c;
        pierrot_value key, value;
        int pairs = 0, theirs = 0;
        HOLDS(type == LUA_TTABLE && pierrot_enter(v, &c));
        while (pierrot_next(&c, &key)) {
            HOLDS(pierrot_next(&c, &value));
            pairs++;
            if (!is_comparable(&key))
                continue;
            push_key(&key);
            lua_rawget(L, -2);
            HOLDS(!lua_isnil(L, -1));
            check_same(&value, depth + 1);
            lua_pop(L, 1);
        }
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
            theirs++;
        HOLDS(pairs == theirs);
        break;
    }
    }
    HOLDS(lua_gettop(L) == top);
}

/* Walks all of it, whatever it is. */
static void walk(pierrot_cursor *c, int depth, size_t *steps)
{
    pierrot_value v;
    pierrot_cursor inner;
    while (++*steps < 20000 && pierrot_next(c, &v)) {
        if (v.type == PIERROT_STRING && v.as.string.size) {
            volatile char last = v.as.string.bytes[v.as.string.size - 1];
            (void)last;
        }
        pierrot_get(&v, "x", &(pierrot_value){0});
        pierrot_get_index(&v, 1, &(pierrot_value){0});
        if (depth < DEPTH && pierrot_enter(&v, &inner))
            walk(&inner, depth + 1, steps);
    }
}

/* --- bytes */

/* As far as the envelope goes: every value is within it. Shared values are addresses, and made by the runtime alone. */
static bool well_formed(const pr_msg *m)
{
    const uint8_t *at = m->data, *end = at + m->size;
    for (int i = 0; i < m->count; i++) {
        uint32_t len;
        if (at == end)
            return false;
        uint8_t tag = *at++;
        if (tag == PR_TAG_SHARED || tag == PR_TAG_MIXED || tag > PR_TAG_MIXED)
            return false;
        if (tag <= PR_TAG_TRUE)
            continue;
        if (tag == PR_TAG_NUMBER || tag == PR_TAG_REF) {
            uint64_t bits;
            if (end - at < 8)
                return false;
            memcpy(&bits, at, 8);
            if (tag == PR_TAG_REF && !pr_id_valid(bits))
                return false;
            at += 8;
            continue;
        }
        if (end - at < 4)
            return false;
        memcpy(&len, at, 4);
        at += 4;
        if ((size_t)(end - at) < len)
            return false;
        if (tag == PR_TAG_BLOB) {   /* LuaJIT has the last word, on the whole of it */
            lua_getglobal(L, "decode");
            lua_pushlstring(L, (const char *)at, len);
            bool decoded = lua_pcall(L, 1, 0, 0) == 0;
            lua_settop(L, 0);
            if (!decoded || !pr_lua_may_travel(at, len))
                return false;
        }
        at += len;
    }
    return true;
}

static int l_decode(lua_State *S)
{
    return pr_lua_decode(S, x, lua_touserdata(S, 1), 0);
}

/* Lua's values above the stack, or false. */
static bool decode(const pr_msg *m)
{
    lua_pushcfunction(L, l_decode);
    lua_pushlightuserdata(L, (void *)(uintptr_t)m);
    return lua_pcall(L, 1, LUA_MULTRET, 0) == 0;
}

static void compare(const pr_msg *m)
{
    pierrot_cursor c;
    pierrot_value v;
    int base = lua_gettop(L);
    HOLDS(decode(m));
    HOLDS(lua_gettop(L) - base == m->count);
    pr_envelope_read(m, &c);
    for (int i = 1; i <= m->count; i++) {
        HOLDS(pierrot_next(&c, &v));
        lua_pushvalue(L, base + i);
        check_same(&v, 0);
        lua_pop(L, 1);
    }
    HOLDS(!pierrot_next(&c, &v));
    lua_settop(L, base);
}

static void try_bytes(input *in)
{
    const uint8_t *bytes;
    uint16_t values = take(in);
    size_t size = take_bytes(in, &bytes, left(in)), steps = 0;
    pr_msg *m = calloc(1, sizeof *m + size);   /* of exactly that size: one byte too far is seen */
    m->size = (uint32_t)size;
    m->count = values;
    m->class = PR_MSG_CLASSES;
    memcpy(m->data, bytes, size);
    pierrot_cursor c;
    pierrot_value v;
    pr_envelope_read(m, &c);
    walk(&c, 0, &steps);
    pierrot_message *copy = pierrot_message_new(rt);
    pr_envelope_read(m, &c);
    while (pierrot_next(&c, &v))
        pierrot_put_value(copy, &v);
    steps = 0;
    pierrot_message_read(copy, &c);
    walk(&c, 0, &steps);
    pierrot_message_free(copy);
    if (well_formed(m))
        compare(m);
    lua_settop(L, 0);
    free(m);
}

/* --- values */

static int again;   /* how often more a table may be put twice: nested, that doubles what is sent */

static void push_value(input *in, int depth)
{
    const uint8_t *bytes;
    size_t n;
    luaL_checkstack(L, 10, "values");
    switch (below(in, depth < 105 ? 14 : 8)) {
    case 0: lua_pushnil(L); break;
    case 1: lua_pushboolean(L, take(in) & 1); break;
    case 2: case 3: lua_pushnumber(L, take_double(in)); break;
    case 4: case 5:
        n = take_bytes(in, &bytes, take(in));
        lua_pushlstring(L, (const char *)bytes, n);
        break;
    case 6: pr_lua_push_ref(L, pr_id_make(take(in), 1 + below(in, 9))); break;
    case 7:   /* cdata, of which integers travel */
        lua_getglobal(L, "cdata");
        lua_pushinteger(L, take(in));
        lua_pushnumber(L, take_double(in));
        lua_call(L, 2, 1);
        break;
    case 8: lua_pushlightuserdata(L, (void *)(uintptr_t)(take_u64(in) & 0x7fffffffff)); break;   /* refs or not */
    case 9:   /* reached twice, or from within itself */
        if (lua_gettop(L) > 0 && again-- > 0)
            lua_pushvalue(L, 1 + take(in) % lua_gettop(L));
        else
            lua_pushnil(L);
        break;
    case 10: lua_pushcfunction(L, l_decode); break;
    default:
        lua_newtable(L);
        for (uint32_t i = 1, items = below(in, 8); i <= items; i++) {
            push_value(in, depth + 1);
            lua_rawseti(L, -2, (int)i);
        }
        for (uint32_t pairs = below(in, 5); pairs > 0; pairs--) {
            push_value(in, depth + 1);
            if (lua_isnil(L, -1) || (lua_isnumber(L, -1) && isnan(lua_tonumber(L, -1)))) {
                lua_pop(L, 1);
                continue;
            }
            push_value(in, depth + 1);
            lua_rawset(L, -3);
        }
    }
}

static int l_encode(lua_State *S)
{
    pr_msg *m = pr_lua_try_encode(S, x, 1, "message");
    if (!m) {
        HOLDS(lua_type(S, -1) == LUA_TSTRING);   /* why */
        return 0;
    }
    lua_pushlightuserdata(S, m);
    return 1;
}

static void try_values(input *in)
{
    int n = 1 + (int)below(in, 6);
    again = 3;
    for (int i = 0; i < n; i++)
        push_value(in, 0);
    lua_pushcfunction(L, l_encode);
    for (int i = 1; i <= n; i++)
        lua_pushvalue(L, i);
    HOLDS(lua_pcall(L, n, 1, 0) == 0);
    pr_msg *m = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (m) {
        HOLDS(m->count == n);
        compare(m);
        lua_getglobal(L, "same_all");
        lua_pushinteger(L, n);
        for (int i = 1; i <= n; i++)
            lua_pushvalue(L, i);
        HOLDS(decode(m));
        if (lua_pcall(L, 2 * n + 1, 1, 0) != 0 || !lua_toboolean(L, -1)) {
            fprintf(stderr, "not the same: %s\n", lua_tostring(L, -1));
            abort();
        }
        pr_msg_free(NULL, m);
    }
    lua_settop(L, 0);
}

static const char setup[] =
    "local buffer, ffi = require 'string.buffer', require 'ffi'\n"
    "require('jit').off()   -- compiled, this LuaJIT takes varargs from a wrong address at times\n"
    "decode = buffer.decode\n"
    "local made = { function(n) return ffi.cast('int64_t', n) end, function(n) return ffi.cast('uint64_t', n) end,\n"
    "  function(n) return ffi.new('complex', n, n) end, function(n) return ffi.new('int[3]') end,\n"
    "  function() return ffi.cast('void *', 0) end }\n"
    "function cdata(kind, n) return made[kind % #made + 1](n == n and n > -1e18 and n < 1e18 and n or 0) end\n"
    "-- Whether b is a copy of a. Keys that are tables or integers of the FFI arrive as others.\n"
    "local by_value = { boolean = true, number = true, string = true, userdata = true }\n"
    "local function same(a, b)\n"
    "  if type(a) ~= type(b) then return false end\n"
    "  if type(a) ~= 'table' then return a == b or a ~= a and b ~= b end\n"
    "  for k, v in pairs(a) do if by_value[type(k)] and not same(v, b[k]) then return false end end\n"
    "  for k in pairs(b) do if by_value[type(k)] and a[k] == nil then return false end end\n"
    "  return true\n"
    "end\n"
    "function same_all(n, ...)\n"
    "  for i = 1, n do\n"
    "    if not same((select(i, ...)), (select(n + i, ...))) then return false end\n"
    "  end\n"
    "  return true\n"
    "end\n";

/* Of a damaged count LuaJIT makes a table of gigabytes before it looks whether there are as many values. */
static void *bounded(void *unused, void *block, size_t old_size, size_t size)
{
    enum { MOST = 64 << 20 };
    (void)unused;
    (void)old_size;
    if (size > 0)
        return size <= MOST ? realloc(block, size) : NULL;
    free(block);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!L) {
        pierrot_config c;
        pierrot_config_init(&c, sizeof c);
        c.mode = PIERROT_TICK;
        c.workers = 1;
        HOLDS(pierrot_start(&c, &rt, NULL) == PIERROT_OK);
        L = lua_newstate(bounded, NULL);
        luaL_openlibs(L);
        luaopen_pierrot(L);
        lua_getfield(L, LUA_REGISTRYINDEX, "pierrot.state");
        x = lua_touserdata(L, -1);
        HOLDS(luaL_dostring(L, setup) == 0);
        lua_settop(L, 0);
    }
    input in = {data, data + size};
    if (take(&in) & 1)
        try_bytes(&in);
    else
        try_values(&in);
    return 0;
}
