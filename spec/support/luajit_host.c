/*
 * A `luajit` for sanitizer builds: luajit-host [-e CHUNK] [SCRIPT [ARG...]]
 *
 * The sanitizers' runtimes must be the first thing a process loads, so a module built with them
 * does not load into plain luajit. This program is linked with them and runs scripts as luajit
 * does: `arg`, a traceback for errors, status 1 after one, lua_close at the end.
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

static int traceback(lua_State *L)
{
    if (!lua_isstring(L, 1) && !luaL_callmeta(L, 1, "__tostring"))
        return 1;
    luaL_traceback(L, L, lua_tostring(L, -1), 1);
    return 1;
}

/* Runs the chunk on top of the stack, or reports the error that stands there instead. */
static int run(lua_State *L, int load_status, int nargs)
{
    int status = load_status;
    if (status == 0) {
        int base = lua_gettop(L) - nargs;
        lua_pushcfunction(L, traceback);
        lua_insert(L, base);
        status = lua_pcall(L, nargs, 0, base);
        lua_remove(L, base);
    }
    if (status != 0 && !lua_isnil(L, -1)) { /* busted ends with error(nil) after failed tests */
        const char *message = lua_tostring(L, -1);
        fprintf(stderr, "luajit-host: %s\n", message ? message : "(error object is not a string)");
    }
    if (status != 0)
        lua_pop(L, 1);
    return status;
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    if (!L) {
        fputs("luajit-host: out of memory\n", stderr);
        return 1;
    }
    luaL_openlibs(L);

    int status = 0;
    int script = 1;
    while (status == 0 && script + 1 < argc && strcmp(argv[script], "-e") == 0) {
        status = run(L, luaL_loadbuffer(L, argv[script + 1], strlen(argv[script + 1]), "=(command line)"), 0);
        script += 2;
    }

    if (status == 0 && script < argc) {
        lua_createtable(L, argc - script, script + 1);
        for (int i = 0; i < argc; i++) {
            lua_pushstring(L, argv[i]);
            lua_rawseti(L, -2, i - script);
        }
        lua_setglobal(L, "arg");

        int loaded = luaL_loadfile(L, argv[script]);
        int nargs = 0;
        for (int i = script + 1; loaded == 0 && i < argc; i++, nargs++) {
            luaL_checkstack(L, 1, "too many arguments");
            lua_pushstring(L, argv[i]);
        }
        status = run(L, loaded, nargs);
    }
    lua_close(L);
    return status == 0 ? 0 : 1;
}
