/* States that take part: a worker's, made on its thread, and a plain program's, entered by require. */
#include "border.h"

#include "../alloc.h"
#include "../pierrot.h"
#include "embedded.h"
#include "host.h"

#include <luajit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pr_lua_add(lua_State *L, pr_lua *x, const luaL_Reg *functions)
{
    for (; functions->name; functions++) {
        lua_pushlightuserdata(L, x);
        lua_pushcclosure(L, functions->func, 1);
        lua_setfield(L, -2, functions->name);
    }
}

__thread pr_lua *pr_lua_here;

/* The Lua half lies in the binary: package.preload for all of it. */
static int l_load_embedded(lua_State *L)
{
    const struct pr_embedded *m = lua_touserdata(L, lua_upvalueindex(1));
    if (luaL_loadbuffer(L, m->data, m->size, m->chunkname) != 0)
        return lua_error(L);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static void preload(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (const struct pr_embedded *m = pr_embedded_modules; m->name; m++) {
        if (strcmp(m->name, "pierrot") == 0)
            continue;   /* that one is made by pr_lua_open */
        lua_pushlightuserdata(L, (void *)(uintptr_t)m);
        lua_pushcclosure(L, l_load_embedded, 1);
        lua_setfield(L, -2, m->name);
    }
    lua_pop(L, 2);
}

/* ref_methods(table): the metatable of refs, made from the Lua half's methods. */
static int l_ref_methods(lua_State *L)
{
    lua_settop(L, 1);
    pr_lua_open_refs(L, pr_lua_of(L));
    return 0;
}

/* hook(name, function or table): what C calls in the Lua half. */
static int l_hook(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const char *name = luaL_checkstring(L, 1);
    struct { const char *name; int *ref; } hooks[] = {
        {"load", &x->load}, {"explain", &x->explain}, {"failure", &x->failure}, {"reason", &x->reason},
        {"finalize", &x->finalize}, {"error_metatable", &x->error_metatable},
        {"share_tokens", &x->share_tokens}, {"share_roots", &x->share_roots}, {"share_of", &x->share_of},
        {"shared", &x->shared}, {"substitute", &x->substitute}, {"restore", &x->restore},
        {"restrict", &x->restrict_libraries}, {"interpret", &x->interpret}, {"opening", &x->opening}};
    lua_settop(L, 2);
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (strcmp(name, hooks[i].name) == 0) {
            *hooks[i].ref = luaL_ref(L, LUA_REGISTRYINDEX);
            return 0;
        }
    return luaL_error(L, "no hook '%s'", name);
}

/* metatables(list): tables with these travel with them. */
static int l_metatables(lua_State *L)
{
    lua_settop(L, 1);
    pr_lua_open_codec(L, pr_lua_of(L));
    return 0;
}

/* collect(KB) -> whether a cycle has come to its end; -1: all there is */
static int l_collect(lua_State *L)
{
    if (lua_tointeger(L, 1) < 0)
        return lua_gc(L, LUA_GCCOLLECT, 0);
    lua_pushboolean(L, lua_gc(L, LUA_GCSTEP, (int)lua_tointeger(L, 1)));
    return 1;
}

void pr_lua_open(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"ref_methods", l_ref_methods}, {"hook", l_hook}, {"metatables", l_metatables}, {NULL, NULL}};
    x->L = L;
    preload(L);
    lua_newtable(L);
    pr_lua_add(L, x, functions);
    pr_lua_open_calls(L, x);
    pr_lua_open_hand(L, x);
    pr_lua_open_tie(L, x);
    pr_lua_open_inspect(L, x);
    pr_lua_open_groups(L, x);
    pr_lua_open_events(L, x);
    pr_lua_open_bounded(L, x);
    pr_lua_open_prompt(L, x);
    pr_lua_open_census(L, x);
    pr_lua_open_share(L, x);
    pr_lua_open_reload(L, x);
    pr_lua_open_explore(L, x);
    if (x->w)
        pr_lua_open_top(L, x);
    pr_lua_open_control(L, x);
    if (x->w && pr_lua_host(x))
        pr_lua_host_open(L, x);
    if (x->w) {
        pr_lua_open_inside(L, x);
        pr_lua_open_become(L, x);
        pr_lua_open_quick(L, x);
        if (!pr_lua_open_output(L, x))
            luaL_error(L, "not enough memory");
        pr_lua_open_actors(L, x);
        pr_lua_open_dispatch(L, x);
        pr_lua_open_slice(L, x);
        if (pr_lua_host(x))
            pr_lua_open_budget(L, x);
        lua_pushcfunction(L, l_collect);
        x->collect = luaL_ref(L, LUA_REGISTRYINDEX);
        lua_pushlightuserdata(L, &pr_lua_sentinel);
        lua_setfield(L, -2, "sentinel");
    } else {
        pr_lua_open_outside(L, x);
    }
    lua_pushboolean(L, x->w != NULL);
    lua_setfield(L, -2, "inside");
    lua_pushboolean(L, x->rt && x->rt->config.seeded);
    lua_setfield(L, -2, "seeded");
    lua_pushboolean(L, x->explore && !x->explore->plain);
    lua_setfield(L, -2, "explored");
    lua_pushboolean(L, pr_lua_host(x) != NULL);
    lua_setfield(L, -2, "hosted");
    if (x->rt && x->rt->config.message_limit) {
        lua_pushnumber(L, (double)x->rt->config.message_limit);
        lua_setfield(L, -2, "message_limit");
    }
    lua_pushliteral(L, PIERROT_VERSION);
    lua_setfield(L, -2, "version");
    for (const struct pr_embedded *m = pr_embedded_modules; m->name; m++)
        if (strcmp(m->name, "pierrot") == 0) {
            if (luaL_loadbuffer(L, m->data, m->size, m->chunkname) != 0)
                lua_error(L);
            lua_insert(L, -2);
            lua_call(L, 1, 1);
            return;
        }
    luaL_error(L, "pierrot was built without its Lua half");
}

/* --- a worker's */

/* Counting the collector's cycles: a userdata that nobody holds is found dead once in each, and another one takes its place. */
static int l_mark_cycle(lua_State *L)
{
    lua_newuserdata(L, 0);
    luaL_getmetatable(L, "pierrot.cycle");
    lua_setmetatable(L, -2);
    return 0;
}

/* When the next cycle of the collector begins: when the state has grown by half, not when it has doubled, for with a million
 * selves on the heap the difference is a hundred bytes for each. But not before it has grown by what a core's own cache has
 * room for: a state is born with 400 KB, and would be gone through for each thousand messages. */
static void pace(lua_State *L, pr_lua *x)
{
    enum { LEAST = 768 /* KB */ };
    int held = lua_gc(L, LUA_GCCOUNT, 0) + 1, half = held / 2;
    pr_heap_pace(&x->heap, 100 + (int)(100.0 * (half > LEAST ? half : LEAST) / held), x->gc_step);
}

/* Its __gc, which must not raise, wherever the collector has come to it. Without memory for another one, counting ends. */
static int l_cycle(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (!x->closing) {
        PR_BUMP(x->w->collections, 1);
        pace(L, x);
        if (lua_cpcall(L, l_mark_cycle, NULL) != 0)
            lua_pop(L, 1);
    }
    return 0;
}

static void count_cycles(lua_State *L, pr_lua *x)
{
    luaL_newmetatable(L, "pierrot.cycle");
    lua_pushlightuserdata(L, x);
    lua_pushcclosure(L, l_cycle, 1);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    l_mark_cycle(L);
    lua_pop(L, 1);
}

static int panic(lua_State *L)
{
    const char *text = lua_tostring(L, -1);
    if (pr_lua_here && pr_lua_host(pr_lua_here))
        pr_logf(&pr_lua_here->rt->log, PR_LOG_ERROR, "a Lua error outside any protected call: %s", text ? text : "(no text)");
    else
        fprintf(stderr, "pierrot: a Lua error outside any protected call: %s\n", text ? text : "(no text)");
    return 0;   /* LuaJIT ends the process: there is nothing to return to */
}

static void set_path(lua_State *L, const char *field, const char *value)
{
    lua_getglobal(L, "package");
    lua_pushstring(L, value);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

static int l_open_worker(lua_State *L)
{
    pr_lua *x = lua_touserdata(L, 1);
    const pr_lua_paths *paths = x->rt->config.context;
    luaL_openlibs(L);
    /* Not by its name: PUC Lua, which gets a clear message from this library, has no such function. */
    lua_getfield(L, LUA_REGISTRYINDEX, "_PRELOAD");
    lua_getfield(L, -1, "ffi");
    pr_heap_open(&x->heap, L, lua_tocfunction(L, -1));
    lua_pop(L, 2);
    /* The heap keeps what it has once taken: what loading leaves behind is collected as it comes, in whole cycles. */
    lua_gc(L, LUA_GCSETPAUSE, 108);
    x->gc_step = lua_gc(L, LUA_GCSETSTEPMUL, 1000000);
    const pierrot_config *host = pr_lua_host(x);
    if (paths) {
        set_path(L, "path", paths->path);
        set_path(L, "cpath", paths->cpath);
        x->terminal = paths->terminal;
    }
    /* What is typed at a prompt must be stoppable, and compiled code looks at nothing while it runs. */
    bool tested = x->explore && !x->explore->plain;   /* lives for milliseconds: what is compiled would cost more than it gains */
    /* Nor is what runs once, here: and LuaJIT before 2023 may crash where memory is refused inside compiled code (its issue
     * 906), while a start without enough of it must fail with an error. */
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    if (host)
        pr_lua_host_before(L, x, host);
    pr_lua_open(L, x);
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_insert(L, -2);
    lua_setfield(L, -2, "pierrot");
    if (!x->w->dispatcher->interpreted && !tested && !x->budget.limit)
        luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
    if (host)
        pr_lua_host_after(L, x, host);
    count_cycles(L, x);
    pace(L, x);
    return 0;
}

int pr_lua_open_worker(pr_worker *w, char *error, size_t cap)
{
    pr_lua *x = pr_zalloc(sizeof *x);
    const pierrot_config *host = w->rt->config.lua_host;
    if (x && host)
        x->heap.limit = host->worker_memory_limit || !host->instruction_limit ? host->worker_memory_limit : SIZE_MAX / 2;
    lua_State *L = x ? pr_heap_newstate(&x->heap) : NULL;
    if (!L) {
        if (x)
            pr_heap_destroy(&x->heap);
        pr_free(x);
        snprintf(error, cap, "not enough memory for a worker's Lua state");
        return -1;
    }
    lua_atpanic(L, panic);
    x->rt = w->rt;
    x->w = w;
    x->explore = w->rt->config.explore;
    x->L = L;
    pr_lua_here = x;
    if (lua_cpcall(L, l_open_worker, x) != 0) {
        const char *text = lua_tostring(L, -1);
        snprintf(error, cap, "%s", text ? text : "a worker's Lua state cannot be set up");
        x->closing = true;
        lua_close(L);
        pr_heap_destroy(&x->heap);
        pr_lua_close_output(x);
        pr_lua_close_actors(x);
        pr_free(x);
        return -1;
    }
    lua_settop(L, 0);
    PR_SET(w->lua_bytes, (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024);   /* a worker that has always something to do has a figure too */
    w->state = x;
    return 0;
}

/* Runs what the collector has noted; see inside.lua. last: the state is about to close. */
static void run_finalizers(pr_lua *x, bool last)
{
    lua_State *L = x->L;
    x->finalizers = false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->finalize);
    lua_pushboolean(L, last);
    if (lua_pcall(L, 1, 0, 0) != 0)
        lua_pop(L, 1);   /* no memory: what was noted is lost, as it would be in plain Lua */
}

void pr_lua_close_worker(pr_worker *w)
{
    pr_lua *x = w->state;
    pr_lua_close_becomes(x);
    run_finalizers(x, true);
    if (pr_lua_host(x))
        pr_lua_host_close(x->L, x, pr_lua_host(x));
    x->closing = true;
    lua_close(x->L);   /* finalizers may still call and write */
    pr_heap_destroy(&x->heap);
    pr_lua_close_output(x);
    pr_lua_close_actors(x);
    if (x->asked)
        pr_msg_free(&w->pool, x->asked);
    pr_free(x);
    w->state = NULL;
}

void pr_lua_collect_refused(pr_lua *x)
{
    x->heap.refused = false;
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->collect);
    lua_pushinteger(x->L, -1);
    if (lua_pcall(x->L, 1, 0, 0) != 0)
        lua_pop(x->L, 1);   /* a finalizer had no memory either; the next collection goes on */
}

void pr_lua_enter_worker(pr_worker *w) { pr_lua_here = w ? w->state : NULL; }

bool pr_lua_collect(pr_lua *x, int kb)
{
    lua_State *L = x->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->collect);
    lua_pushinteger(L, kb);
    bool done = lua_pcall(L, 1, 1, 0) != 0 || lua_toboolean(L, -1);
    lua_settop(L, top);
    return done;
}

enum {
    IDLE_STEP = 64,   /* KB, of twice as much that it goes through: some 100 microseconds */
    ENDED_STEP = 128  /* for many actors that have ended: see lua_actor.c */
};

/* A little of the collector's work, where nobody waits. A cycle is driven to its end once the state has grown by a
 * quarter since the last one; then the worker may sleep. */
bool pr_lua_idle_worker(pr_worker *w)
{
    pr_lua *x = w->state;
    pr_lua_drop_left_self(x);
    if (x->pattern.self)
        pr_lua_learn_self(x);
    if (x->finalizers)
        run_finalizers(x, false);
    if (x->collect_due) {
        x->collect_due = false;
        pr_lua_collect(x, ENDED_STEP);
        return true;
    }
    size_t bytes = (size_t)lua_gc(x->L, LUA_GCCOUNT, 0) * 1024;
    PR_SET(w->lua_bytes, bytes);
    if (!x->collecting) {
        if (bytes < x->collected_bytes + x->collected_bytes / 4 + 65536)
            return false;
        x->collecting = true;
    }
    if (!pr_lua_collect(x, IDLE_STEP))
        return true;
    x->collecting = false;
    x->collected_bytes = (size_t)lua_gc(x->L, LUA_GCCOUNT, 0) * 1024;
    PR_SET(w->lua_bytes, x->collected_bytes);
    return false;
}

/* --- a plain program's */

__attribute__((visibility("default"))) int luaopen_pierrot(lua_State *L);

int luaopen_pierrot(lua_State *L)
{
    if (!&luaL_traceback || !&lua_isyieldable)
        return luaL_error(L, "pierrot needs LuaJIT 2.1: run it with luajit");
    pr_lua *x = lua_newuserdata(L, sizeof *x);
    memset(x, 0, sizeof *x);
    lua_setfield(L, LUA_REGISTRYINDEX, "pierrot.state");   /* anchored as long as the state */
    pr_lua_open(L, x);
    return 1;
}

__attribute__((visibility("default"))) int luaopen_pierrot_testing(lua_State *L);

/* `require "pierrot.testing"` of a program that has not required pierrot yet: require looks for this name in pierrot.so. */
int luaopen_pierrot_testing(lua_State *L)
{
    lua_settop(L, 0);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "pierrot");
    lua_call(L, 1, 0);
    lua_getglobal(L, "package");
    lua_getfield(L, 1, "preload");
    lua_getfield(L, 2, "pierrot.testing");
    lua_pushliteral(L, "pierrot.testing");
    lua_call(L, 1, 1);
    return 1;
}
