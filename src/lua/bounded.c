/* Bounded mailboxes as Lua sees them: the option of spawn, and waiting for room in one that suspends its
 * senders, and the functions that say a message's priority. */
#include "lua_actor.h"

#include "../box.h"

/* mailbox(capacity or 0, overflow, threshold, priority's handle or nil): for the spawn that follows. */
static int l_mailbox(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    double capacity = lua_tonumber(L, 1);
    x->mailbox = (pr_box_spec){.capacity = capacity > 0 ? (uint32_t)capacity : PR_UNBOUNDED,
                               .overflow = (uint8_t)lua_tointeger(L, 2),
                               .threshold = (uint32_t)lua_tointeger(L, 3),
                               .priority = lua_isnoneornil(L, 4) ? NULL : pr_lua_behaviour_of(L, 4)};
    x->has_mailbox = true;
    return 0;
}

/* Raises an error object, as errors.new makes them. */
static int raise_deadlock(lua_State *L, pr_lua *x, const char *what, const char *cycle)
{
    lua_createtable(L, 0, 2);
    lua_pushliteral(L, "deadlock");
    lua_setfield(L, -2, "kind");
    lua_pushfstring(L, "%s: full mailboxes wait for each other: %s", what, cycle);
    lua_setfield(L, -2, "message");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->error_metatable);
    lua_setmetatable(L, -2);
    return lua_error(L);
}

static void forget(pr_lua *x, pr_msg *m, pr_msg *notice)
{
    pr_msg_free(pr_lua_pool(x), m);
    if (notice)
        pr_msg_free(pr_lua_pool(x), notice);
}

static int told(lua_State *L, pr_status status)
{
    if (status == PR_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* Outside: blocks, for the runtime's ask_timeout at most. */
static int wait_outside(lua_State *L, pr_lua *x, pr_msg *m)
{
    pr_runtime *rt = x->rt;
    uint64_t target = m->target, ms = (uint64_t)(rt->config.ask_timeout * 1000);
    pr_msg *notice = pr_msg_new(NULL, 0);
    if (!notice) {
        forget(x, m, NULL);
        return told(L, PR_NOMEM);
    }
    if (++x->port->next_ask == 0)
        x->port->next_ask = 1;
    uint32_t number = x->port->next_ask;
    notice->target = x->port->id;
    notice->ask = number;
    pr_status status = pr_box_wait(rt, NULL, pr_actor_slot(&rt->actors, pr_id_slot(target)), m, notice);
    if (status != PR_MUST_WAIT) {
        if (status == PR_OK)
            m = NULL;   /* the box has it */
        pr_msg_free(NULL, notice);
        if (m)
            pr_msg_free(NULL, m);
        return told(L, status);
    }
    pr_msg *reply = pr_lua_port_reply(x, number, ms);
    if (!reply)
        return told(L, pr_box_cancel(rt, NULL, target, x->port->id, number) ? PR_FULL : PR_OK);
    status = reply->kind == PR_MSG_REPLY ? PR_OK : PR_DEAD;
    pr_msg_free(NULL, reply);
    return told(L, status);
}

int pr_lua_wait_for_room(lua_State *L, pr_lua *x, pr_msg *m, const char *what)
{
    pr_worker *w = x->w;
    pr_runtime *rt = x->rt;
    PR_COUNT(rt, w, rejected, (uint64_t)-1);   /* pr_send's: it is not refused yet */
    if (!w)
        return wait_outside(L, x, m);
    if (!w->running || x->scanning || x->blocked > 0 || !lua_isyieldable(L)) {
        forget(x, m, NULL);
        pr_lua_check_yieldable(L, x, what, 1);
    }
    pr_actor *self = w->running;
    uint64_t me = PR_GET(self->id), target = m->target;
    pr_wait *wait = pr_actor_wait(w, PR_WAIT_SEND, UINT64_MAX);
    pr_msg *notice = wait ? pr_msg_new(&w->pool, 0) : NULL;
    if (!notice) {
        if (wait)
            pr_actor_unwait(w, self);
        forget(x, m, NULL);
        return told(L, PR_NOMEM);
    }
    if (++w->next_ask == 0)
        w->next_ask = 1;
    wait->ask = notice->ask = w->next_ask;
    notice->target = me;
    if (pr_waits_for(w, self, target)) {
        char cycle[1000];
        pr_deadlock_describe(rt, me, target, cycle, sizeof cycle);
        forget(x, m, notice);
        pr_actor_unwait(w, self);
        return raise_deadlock(L, x, what, cycle);
    }
    pr_status status = pr_box_wait(rt, w, pr_actor_slot(&rt->actors, pr_id_slot(target)), m, notice);
    if (status == PR_MUST_WAIT) {
        wait->box_of = target;
        return pr_lua_suspend(L);
    }
    pr_actor_unwait(w, self);
    forget(x, status == PR_OK ? notice : m, status == PR_OK ? NULL : notice);
    return told(L, status);
}

/* --- priorities */

/* priority(function's behaviour, message) -> what the function says */
static int l_priority(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviour *function = lua_touserdata(L, 1);
    const pr_msg *m = lua_touserdata(L, 2);
    lua_settop(L, 0);
    uint32_t handle = pr_lua_load_function(L, x, function);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_rawgeti(L, 1, (int)handle);
    lua_call(L, pr_lua_decode(L, x, m, 0), 1);
    if (lua_type(L, -1) != LUA_TNUMBER || lua_tonumber(L, -1) != lua_tonumber(L, -1))
        return luaL_error(L, "it returned no number");
    return 1;
}

double pr_lua_priority(pr_worker *w, pr_behaviour *function, const pr_msg *m)
{
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->calling ? x->calling : x->L;   /* within `receive` its coroutine is the running one */
    int top = lua_gettop(L);
    bool scanning = x->scanning;
    x->scanning = true;   /* it cannot wait */
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->priority);
    lua_pushlightuserdata(L, function);
    lua_pushlightuserdata(L, (void *)(uintptr_t)m);
    double priority = 0;
    bool inside = pr_lua_budget_begins(x);
    int status = lua_pcall(L, 2, 1, 0);
    pr_lua_budget_ends(x, inside);
    if (status == 0) {
        priority = lua_tonumber(L, -1);
    } else if (pr_log_on(&w->rt->log, PR_LOG_ERROR) && pr_log_gate(&w->rt->log)) {
        char who[256];
        const char *text = lua_tostring(L, -1);
        pr_actor_describe(w->rt, m->target, who, sizeof who);
        pr_logf_of(&w->rt->log, m->target, PR_LOG_ERROR, "%s: the priority function failed, the message gets priority 0: %s", who,
                text ? text : "(no text)");
    }
    x->scanning = scanning;
    lua_settop(L, top);
    return priority;
}

void pr_lua_open_bounded(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"mailbox", l_mailbox}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    x->priority = pr_lua_anchor(L, x, l_priority);
}
