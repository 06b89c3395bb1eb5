/* Worker states for a host in C: its modules and its loader, the libraries that it allows, what scripts print. */
#include "border.h"

#include "host.h"

#include "../alloc.h"

#include <string.h>

void pr_lua_configure(pr_config *c, const pierrot_config *host)
{
    c->open_worker = pr_lua_open_worker;
    c->close_worker = pr_lua_close_worker;
    c->idle_worker = pr_lua_idle_worker;
    c->enter_worker = pr_lua_enter_worker;
    c->priority = pr_lua_priority;
    c->lua_host = host;
}

const pierrot_config *pr_lua_host(const pr_lua *x) { return x->rt ? x->rt->config.lua_host : NULL; }

/* --- modules */

static const char *mode(const pierrot_config *host) { return host->libraries & PIERROT_LIB_BYTECODE ? "bt" : "t"; }

/* The loader of a preloaded text. Upvalues: the host, the entry. */
static int l_open_text(lua_State *L)
{
    const pierrot_config *host = lua_touserdata(L, lua_upvalueindex(1));
    const pierrot_preload *m = lua_touserdata(L, lua_upvalueindex(2));
    lua_pushfstring(L, "@%s", m->name);
    if (luaL_loadbufferx(L, m->text, m->size, lua_tostring(L, -1), mode(host)) != 0)
        return lua_error(L);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int l_host_text(lua_State *L);

/* A searcher for package.loaders, after that of package.preload. Upvalues: the context, the host. */
static int l_search(lua_State *L)
{
    const pierrot_config *host = lua_touserdata(L, lua_upvalueindex(2));
    lua_settop(L, 1);
    if (l_host_text(L) == 0) {
        lua_pushfstring(L, "\n\tthe program has no module '%s'", lua_tostring(L, 1));
        return 1;
    }
    size_t size;
    const char *text = lua_tolstring(L, -2, &size);
    if (luaL_loadbufferx(L, text, size, lua_tostring(L, -1), mode(host)) == 0)
        return 1;
    return luaL_error(L, "error loading module '%s':\n\t%s", lua_tostring(L, 1), lua_tostring(L, -1));
}

static void set_path(lua_State *L, const char *field, const char *value)
{
    lua_getglobal(L, "package");
    lua_pushstring(L, value);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

/* Puts the function on top into package.loaders at that place. */
static void insert_loader(lua_State *L, int place)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "loaders");
    for (int i = (int)lua_objlen(L, -1); i >= place; i--) {
        lua_rawgeti(L, -1, i);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, place);
    lua_pop(L, 3);
}

void pr_lua_host_before(lua_State *L, pr_lua *x, const pierrot_config *host)
{
    if (host->path)
        set_path(L, "path", host->path);
    if (host->cpath)
        set_path(L, "cpath", host->cpath);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (const pierrot_preload *m = host->preload; m && m->name; m++) {
        if (m->text) {
            lua_pushlightuserdata(L, (void *)(uintptr_t)host);
            lua_pushlightuserdata(L, (void *)(uintptr_t)m);
            lua_pushcclosure(L, l_open_text, 2);
        } else {
            lua_pushcfunction(L, m->open);
        }
        lua_setfield(L, -2, m->name);
    }
    lua_pop(L, 2);
    if (host->find_module) {
        lua_pushlightuserdata(L, x);
        lua_pushlightuserdata(L, (void *)(uintptr_t)host);
        lua_pushcclosure(L, l_search, 2);
        insert_loader(L, 2);
    }
}

/* --- libraries */

/* What is allowed, as lua/pierrot/restrict.lua asks for it. */
static void push_libraries(lua_State *L, uint32_t libraries)
{
    static const struct { uint32_t bit; const char *name; } names[] = {
        {PIERROT_LIB_TABLE, "table"}, {PIERROT_LIB_STRING, "string"}, {PIERROT_LIB_MATH, "math"}, {PIERROT_LIB_BIT, "bit"},
        {PIERROT_LIB_IO, "io"}, {PIERROT_LIB_OS, "os"}, {PIERROT_LIB_DEBUG, "debug"}, {PIERROT_LIB_JIT, "jit"},
        {PIERROT_LIB_FFI, "ffi"}, {PIERROT_LIB_BUFFER, "string.buffer"}, {PIERROT_LIB_BYTECODE, "bytecode"}, {PIERROT_LIB_FILES, "files"}};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lua_pushboolean(L, (libraries & names[i].bit) != 0);
        lua_setfield(L, -2, names[i].name);
    }
}

/* From then on globals may be set: modules are being loaded. */
static void opening(lua_State *L, pr_lua *x, int more)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->opening);
    lua_pushinteger(L, more);
    lua_call(L, 1, 0);
}

void pr_lua_host_after(lua_State *L, pr_lua *x, const pierrot_config *host)
{
    int top = lua_gettop(L);
    bool restricts = host->libraries != (uint32_t)PIERROT_LIB_ALL;
    if (restricts) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->restrict_libraries);
        push_libraries(L, host->libraries);
        lua_call(L, 1, 1);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, "pierrot.restrict");
        lua_settop(L, top);
    }
    if (host->open_state) {
        opening(L, x, 1);
        host->open_state(host->context, L, x->w->index + 1);
        lua_settop(L, top);
        opening(L, x, -1);
    }
    if (restricts) {
        lua_getfield(L, LUA_REGISTRYINDEX, "pierrot.restrict");
        lua_call(L, 0, 0);
    }
}

/* --- seals: a keyed hash that only this runtime can make (SipHash-2-4: Aumasson, Bernstein, INDOCRYPT 2012) */

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void mix(uint64_t v[4])
{
    v[0] += v[1]; v[1] = rotate(v[1], 13) ^ v[0]; v[0] = rotate(v[0], 32);
    v[2] += v[3]; v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3]; v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1]; v[1] = rotate(v[1], 17) ^ v[2]; v[2] = rotate(v[2], 32);
}

static uint64_t seal_of(const uint64_t key[2], const uint8_t *at, size_t size)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)size << 56, word;
    for (; size >= 8; size -= 8, at += 8) {
        memcpy(&word, at, 8);
        v[3] ^= word;
        mix(v);
        mix(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < size; i++)
        last |= (uint64_t)at[i] << 8 * i;
    v[3] ^= last;
    mix(v);
    mix(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* seal(bytes) -> 8 bytes */
static int l_seal(lua_State *L)
{
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    uint64_t seal = seal_of(pr_lua_of(L)->rt->config.secret, (const uint8_t *)bytes, size);
    lua_pushlstring(L, (const char *)&seal, sizeof seal);
    return 1;
}

/* host_text(name) -> text, what to call it | its function in C | nil. The host's modules for scripts that see less: they are compiled by
 * restrict.lua. */
static int l_host_text(lua_State *L)
{
    const pierrot_config *host = pr_lua_host(pr_lua_of(L));
    const char *name = luaL_checkstring(L, 1);
    for (const pierrot_preload *m = host->preload; m && m->name; m++)
        if (!m->text && strcmp(m->name, name) == 0) {
            lua_pushcfunction(L, m->open);
            return 1;
        } else if (m->text && strcmp(m->name, name) == 0) {
            lua_pushlstring(L, m->text, m->size);
            lua_pushfstring(L, "@%s", m->name);
            return 2;
        }
    struct pierrot_source source = {0};
    pierrot_status status = host->find_module ? host->find_module(host->context, name, &source) : PIERROT_NOTHING;
    struct pierrot_source *kept = lua_newuserdata(L, sizeof *kept);   /* freed by its collector if pushing raises */
    *kept = source;
    luaL_getmetatable(L, "pierrot.source");
    lua_setmetatable(L, -2);
    if (status != PIERROT_OK && status != PIERROT_NOTHING)
        return luaL_error(L, "module '%s': the program's loader failed (%d)", name, (int)status);
    if (status == PIERROT_NOTHING || !source.text)
        return 0;
    lua_pushlstring(L, source.text, source.size);
    if (source.chunkname)
        lua_pushstring(L, source.chunkname);
    else
        lua_pushfstring(L, "@%s", name);
    return 2;
}

static int l_source_gc(lua_State *L)
{
    struct pierrot_source *source = lua_touserdata(L, 1);
    pr_free(source->text);
    pr_free(source->chunkname);
    *source = (struct pierrot_source){0};
    return 0;
}

void pr_lua_host_open(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"seal", l_seal}, {"host_text", l_host_text}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    luaL_newmetatable(L, "pierrot.source");
    lua_pushcfunction(L, l_source_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}

void pr_lua_host_close(lua_State *L, pr_lua *x, const pierrot_config *host)
{
    if (host->close_state)
        host->close_state(host->context, L, x->w->index + 1);
}

void pr_lua_host_print(pr_lua *x, const char *bytes, size_t len)
{
    const pr_log *log = &x->rt->log;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(bytes + at, '\n', len - at);
        size_t line = end ? (size_t)(end - bytes) - at : len - at;
        log->sink(log->context, (enum pr_log_level)PIERROT_LOG_PRINT, bytes + at, line);
        at += line + 1;
    }
}
