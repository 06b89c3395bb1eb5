/* The instruction budget of what is not trusted (pierrot_config.instruction_limit): a handler that runs more of Lua's
 * instructions than that, from one wait to the next, fails.
 *
 * A hook counts them, by hundreds. Memory that is asked for counts too, or a loop around string.rep would be nearly free. A hook
 * sees every instruction where nothing is compiled: such workers are interpreted, and their scripts have no library by
 * which they could change that (problem_of in embed/runtime.c). What a single call into C does, a pattern that goes back
 * and forth, say, no hook sees before it returns.
 *
 * Over its budget, the error is raised at each further instruction of a script, until nothing of the handler is left on the
 * stack: so no pcall and no coroutine keeps it. Two places need care:
 *   - The Lua half's own functions are let through, for they keep their tables in order; they end by themselves. They are told
 *     by their chunks' names, which no script can give itself (restrict.lua).
 *   - The message handler of an xpcall runs inside the hook that has raised, where there is no other hook: scripts have an
 *     xpcall that leaves it out then. */
#include "border.h"

#include "host.h"

#include <luajit.h>
#include <stdio.h>
#include <string.h>

enum { EVERY = 100, BYTES = 64 /* of memory are an instruction */ };

static bool is_ours(const lua_Debug *at) { return strncmp(at->short_src, "pierrot/", 8) == 0; }

/* Where the script is: its innermost line. */
static void say_over(lua_State *L, pr_budget *b)
{
    lua_Debug at;
    int level = 0;
    b->text[0] = 0;
    for (; lua_getstack(L, level, &at); level++)
        if (lua_getinfo(L, "Sl", &at) && at.currentline > 0 && !is_ours(&at))
            break;
    snprintf(b->text, sizeof b->text, "%s:%d: this took more than %llu instructions (instruction_limit): shorten it, or wait in between",
             at.short_src, at.currentline, (unsigned long long)b->limit);
}

static void look(lua_State *L, lua_Debug *at)
{
    pr_lua *x = pr_lua_here;
    pr_budget *b = &x->budget;
    if (!b->counts)
        return;
    b->spent += b->over ? 0 : EVERY;
    if (!b->over && b->spent + (x->heap.asked - b->asked) / BYTES <= b->limit + EVERY) {
        pr_lua_slice_look(L, at, EVERY);
        return;
    }
    if (!b->over)
        lua_sethook(L, look, LUA_MASKCOUNT, 1);
    b->over = true;
    if (!lua_getinfo(L, "S", at) || is_ours(at))
        return;   /* at the script's next one */
    if (!b->text[0])
        say_over(L, b);
    lua_pushstring(L, b->text);
    lua_error(L);
}

void pr_lua_budget_anew(pr_lua *x)
{
    pr_budget *b = &x->budget;
    b->spent = 0;
    b->asked = x->heap.asked;
    if (b->over && x->heap.overdrawn)   /* the heap's hook is there now, and puts this one back */
        x->heap.hook_count = EVERY;
    else if (b->over)
        lua_sethook(x->L, look, LUA_MASKCOUNT, EVERY);
    b->over = false;
    b->text[0] = 0;
}

/* over() -> whether the handler has used up its budget: for xpcall */
static int l_over(lua_State *L)
{
    lua_pushboolean(L, pr_lua_of(L)->budget.over);
    return 1;
}

void pr_lua_open_budget(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"over", l_over}, {NULL, NULL}};
    x->budget.limit = pr_lua_host(x)->instruction_limit;
    if (x->budget.limit == 0)
        return;
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    lua_sethook(L, look, LUA_MASKCOUNT, EVERY);
    pr_lua_add(L, x, functions);
}
