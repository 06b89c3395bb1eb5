/* For targets whose work is done in Lua: a state, and lines of the Lua half that libFuzzer counts as it counts edges. */
#ifndef FUZZ_LUA_H
#define FUZZ_LUA_H

#include "fuzz.h"

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>

int luaopen_pierrot(lua_State *L);

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t lines[8192];

static void count_line(lua_State *L, lua_Debug *at)
{
    if (!lua_getinfo(L, "S", at) || strncmp(at->short_src, "pierrot/", 8) != 0)
        return;
    uint32_t h = 2166136261u;
    for (const char *c = at->short_src; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    lines[(h + (uint32_t)at->currentline) % sizeof lines]++;
}

/* A state with the function that the script returns at index 1. Compiled code runs no hook: nothing is compiled. */
static inline lua_State *open_script(const char *path)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    lua_getfield(L, LUA_REGISTRYINDEX, "_PRELOAD");
    lua_pushcfunction(L, luaopen_pierrot);
    lua_setfield(L, -2, "pierrot");
    lua_settop(L, 0);
    if (luaL_dofile(L, path) != 0) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        abort();
    }
    lua_sethook(L, count_line, LUA_MASKLINE, 0);
    return L;
}

/* Calls it with the input; an error is a finding. */
static inline void run_script(lua_State *L, const uint8_t *data, size_t size)
{
    lua_pushvalue(L, 1);
    lua_pushlstring(L, (const char *)data, size);
    if (lua_pcall(L, 1, 0, 0) != 0) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        abort();
    }
}

#endif
