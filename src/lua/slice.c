/* Time slices: a handler of an actor with the spawn option `timeslice` that runs longer is put back in line, wherever it is,
 * and goes on in a later turn of its own; its actor takes no message meanwhile.
 *
 * A count hook looks at the clock, and yields the handler's coroutine. Compiled code runs no hooks. So the functions of such
 * a behaviour, and those that it brings along, are never compiled (lua/pierrot/interpret.lua), and nothing is while they run.
 * What may be compiled are functions of modules: such a call is a whole, like one into C.
 *
 * The hook waits for its next time where Lua cannot suspend (below a call from C), where the Lua half is at work, whose tables
 * are to stay in order, and in on_failure and the match function of receive.
 *
 * In a coroutine of the script's own, the yield arrives at its resume, which asks core.sliced, and passes it on as it does with
 * a call that waits: see inside.lua. */
#include "lua_actor.h"

#include "../tick.h"

#include <string.h>

enum { EVERY = 1000, NS_EACH = 10 /* an instruction, where time stands still while a handler runs */ };

static uint64_t now_ns(pr_lua *x)
{
    const pr_tick *t = x->rt->tick;
    return t && t->clock != PR_CLOCK_REAL ? x->slice.counted_ns : pr_now_ns();
}

void pr_lua_slice_look(lua_State *L, lua_Debug *at, uint32_t instructions)
{
    pr_lua *x = pr_lua_here;
    pr_slice *s = &x->slice;
    pr_worker *w = x->w;
    if (s->until_ns == 0)
        return;
    s->counted_ns += (uint64_t)instructions * NS_EACH;
    if (now_ns(x) < s->until_ns || !w->running || w->running->wait || x->scanning || x->deciding || x->blocked > 0 ||
        !lua_isyieldable(L) || !lua_getinfo(L, "S", at) || strncmp(at->short_src, "pierrot/", 8) == 0 ||
        !pr_actor_wait(w, PR_WAIT_SLICED, UINT64_MAX))
        return;
    s->until_ns = 0;
    s->inner = L != s->base;
    lua_yield(L, 0);
}

static void look(lua_State *L, lua_Debug *at) { pr_lua_slice_look(L, at, EVERY); }

/* Where the heap's hook is there now, it puts this one back. */
static void set_hook(pr_lua *x, lua_Hook hook)
{
    if (x->heap.overdrawn) {
        x->heap.hook = hook;
        x->heap.hook_mask = hook ? LUA_MASKCOUNT : 0;
        x->heap.hook_count = hook ? EVERY : 0;
    } else {
        lua_sethook(x->L, hook, hook ? LUA_MASKCOUNT : 0, hook ? EVERY : 0);
    }
}

/* interpret(loaded): all its functions are given to the Lua half. */
static int l_interpret(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_loaded *b = lua_touserdata(L, 1);
    const uint32_t handles[] = {b->start, b->receive, b->stop, b->upgrade};
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->interpret);
    lua_newtable(L);
    int n = 0;
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        if (handles[i]) {
            lua_rawgeti(L, 1, (int)handles[i]);
            lua_rawseti(L, 3, ++n);
        }
    for (uint32_t i = 0; b->names && i <= b->names_mask; i++)
        if (b->names[i].name) {
            lua_rawgeti(L, 1, (int)b->names[i].handler);
            lua_rawseti(L, 3, ++n);
        }
    lua_call(L, 1, 0);
    return 0;
}

/* False: no memory; it is tried again at the next message. */
static bool interpret(pr_lua *x, pr_loaded *b)
{
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->interpret_loaded);
    lua_pushlightuserdata(x->L, b);
    bool done = lua_pcall(x->L, 1, 0, 0) == 0;
    if (!done)
        lua_pop(x->L, 1);
    return done;
}

bool pr_lua_slice_begins(pr_lua *x, lua_State *base)
{
    pr_actor *a = x->w->running;
    const pr_extra *extra = a ? a->extra : NULL;
    pr_slice *s = &x->slice;
    if (!extra || extra->timeslice_ns == 0)
        return false;
    pr_loaded *b = pr_loaded_of(x, a);
    if (!b->interpreted)
        b->interpreted = interpret(x, b);
    s->base = base;
    s->inner = s->passed = false;
    s->counted_ns = 0;
    s->until_ns = now_ns(x) + extra->timeslice_ns;
    if (x->budget.limit == 0) {   /* else its own hook calls pr_lua_slice_look, and nothing is ever compiled */
        set_hook(x, look);
        luaJIT_setmode(x->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    }
    return true;
}

void pr_lua_slice_ends(pr_lua *x)
{
    x->slice.until_ns = 0;
    if (x->budget.limit == 0) {
        set_hook(x, NULL);
        if (!x->w->dispatcher->interpreted)
            luaJIT_setmode(x->L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_ON);
    }
}

/* sliced() -> whether the yield that has just come out of a coroutine was the hook's */
static int l_sliced(lua_State *L)
{
    pr_slice *s = &pr_lua_of(L)->slice;
    lua_pushboolean(L, s->inner);
    s->passed |= s->inner;
    s->inner = false;
    return 1;
}

void pr_lua_open_slice(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"sliced", l_sliced}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    x->interpret_loaded = pr_lua_anchor(L, x, l_interpret);
}
