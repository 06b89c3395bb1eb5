/* Monitors and links, inside and outside. */
#include "border.h"

/* The caller's end with a table to add to; raises without memory. */
static pr_end my_end(lua_State *L, pr_lua *x, const char *what)
{
    pr_lua_runtime(L, x, 1);
    if (x->w && !x->w->running)
        pr_lua_raise(L, 1, "%s: no actor is running here", what);
    if (x->w && !pr_actor_extra(x->w->running))
        pr_lua_raise(L, 1, "%s: not enough memory", what);
    return pr_lua_end(x);
}

/* monitor(target) -> monitor. A name that nobody has: the "down" of nobody is not told apart, so that is nil, "dead". */
static int l_monitor(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_end me = my_end(L, x, "monitor");
    uint64_t target = pr_lua_target(L, x, 1, "monitor", 1);
    if (target == 0) {
        lua_pushnil(L);
        lua_pushliteral(L, "dead");
        return 2;
    }
    uint32_t number;
    if (!pr_monitor(&me, target, &number))
        return pr_lua_raise(L, 1, "monitor: not enough memory");
    pr_lua_push_ref(L, pr_monitor_value(number));
    return 1;
}

/* cancel(monitor) -> whether its "down" was still to come */
static int l_cancel(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t value;
    if (!pr_lua_is_ref(L, 1, &value) || !pr_monitor_valid(value))
        return pr_lua_raise(L, 1, "cancel: a monitor or a timer expected, got %s",
                            pr_lua_is_ref(L, 1, &value) ? "a ref" : luaL_typename(L, 1));
    bool pending = false;
    if (x->rt && (!x->w || x->w->running)) {
        pr_end me = pr_lua_end(x);
        pending = pr_monitor_cancel(&me, pr_monitor_number(value));
    }
    lua_pushboolean(L, pending);
    return 1;
}

/* link(target) -> true | nil, "dead" for a name that nobody has */
static int l_link(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_end me = my_end(L, x, "link");
    uint64_t target = pr_lua_target(L, x, 1, "link", 1);
    if (target == 0) {
        lua_pushnil(L);
        lua_pushliteral(L, "dead");
        return 2;
    }
    if (!pr_link(&me, target))
        return pr_lua_raise(L, 1, "link: not enough memory");
    lua_pushboolean(L, 1);
    return 1;
}

/* unlink(target) -> whether there was a link */
static int l_unlink(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_end me = my_end(L, x, "unlink");
    uint64_t target = pr_lua_target(L, x, 1, "unlink", 1);
    lua_pushboolean(L, target != 0 && pr_unlink(&me, target));
    return 1;
}

void pr_lua_open_tie(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"monitor", l_monitor}, {"cancel", l_cancel}, {"link", l_link}, {"unlink", l_unlink}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
