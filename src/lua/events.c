/* subscribe and unsubscribe: see ../events.h. */
#include "border.h"

#include "../events.h"

static enum pr_topic check_topic(lua_State *L, const char *what)
{
    int topic = lua_type(L, 1) == LUA_TSTRING ? pr_topic_parse(lua_tostring(L, 1)) : -1;
    if (topic < 0)
        pr_lua_raise(L, 1, "%s: a topic expected (dead_letter, failure, restart, overload, slow_turn or stopped), got %s", what,
                     lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : luaL_typename(L, 1));
    return (enum pr_topic)topic;
}

static uint64_t subscriber(lua_State *L, pr_lua *x, const char *what)
{
    uint64_t id = pr_lua_self(x);
    if (!id)
        pr_lua_raise(L, 1, "%s: no actor is running here", what);
    return id;
}

/* subscribe(topic) -> whether it is new | nil, reason */
static int l_subscribe(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    enum pr_topic topic = check_topic(L, "subscribe");
    uint64_t id = subscriber(L, x, "subscribe");
    pr_status status = (pr_status)pr_event_subscribe(rt, id, topic);
    if (status == PR_OK || status == PR_EXISTS) {
        lua_pushboolean(L, status == PR_OK);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* unsubscribe(topic) -> whether there was a subscription */
static int l_unsubscribe(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    enum pr_topic topic = check_topic(L, "unsubscribe");
    lua_pushboolean(L, pr_event_unsubscribe(rt, subscriber(L, x, "unsubscribe"), topic));
    return 1;
}

void pr_lua_open_events(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"subscribe", l_subscribe}, {"unsubscribe", l_unsubscribe}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
