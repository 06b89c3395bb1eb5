/* Calls of an actor: waiting (ask, sleep, yield, receive), the message in hand (sender, defer, forward),
 * itself. Those that also make sense outside have their other half in outside.c.
 *
 * A call that waits sets running->wait and yields; the worker resumes the coroutine with what it waited for. */
#include "border.h"

static bool can_yield(lua_State *L, const pr_lua *x)
{
    return x->w->running && !x->scanning && !x->deciding && x->blocked == 0 && lua_isyieldable(L);
}

void pr_lua_check_yieldable(lua_State *L, pr_lua *x, const char *what, int level)
{
    if (can_yield(L, x))
        return;
    if (!x->w->running)
        pr_lua_raise(L, level, "%s: no actor is running here", what);
    if (x->scanning)
        pr_lua_raise(L, level, "%s: the match function of receive cannot wait", what);
    if (x->deciding)
        pr_lua_raise(L, level, "%s: on_failure cannot wait: it decides while a handler may be suspended", what);
    pr_lua_raise(L, level,
                 "%s: cannot suspend here, inside a call from C (a table.sort comparator, a gsub callback, a metamethod "
                 "called from C); call it before or after",
                 what);
}

int pr_lua_suspend(lua_State *L)
{
    lua_pushlightuserdata(L, &pr_lua_sentinel);
    return lua_yield(L, 1);
}

int pr_lua_stand_back(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    pr_worker *w = x->w;
    w->burst = PR_BURST;
    if (can_yield(L, x) && pr_actor_wait(w, PR_WAIT_STOOD_BACK, UINT64_MAX))
        return pr_lua_suspend(L);
    lua_pushboolean(L, 1);
    return 1;
}

static pr_wait *wait_or_raise(lua_State *L, pr_lua *x, uint8_t kind, uint64_t ms, int level)
{
    pr_wait *wait = pr_actor_wait(x->w, kind, ms);
    if (!wait)
        pr_lua_raise(L, level, "not enough memory to wait");
    return wait;
}

/* --- ask */

static int no_reply(lua_State *L, const char *kind, const char *text)
{
    lua_pushnil(L);
    lua_pushstring(L, kind);
    lua_pushstring(L, text);
    return 3;
}

/* -> their number, values... | nil, kind, message, when nobody is asked | false, kind, message, traceback, cause */
static int send_and_wait(lua_State *L, pr_lua *x, pr_msg *m, uint64_t target, uint64_t ms)
{
    pr_worker *w = x->w;
    pr_actor *self = w->running;
    uint64_t me = PR_GET(self->id);
    m->kind = PR_MSG_USER;
    m->target = target;
    m->sender = me;
    pr_wait *wait = pr_actor_wait(w, PR_WAIT_ASK, ms);
    if (!wait) {
        pr_msg_free(&w->pool, m);
        return pr_lua_raise(L, 2, "not enough memory to ask");
    }
    if (++w->next_ask == 0)
        w->next_ask = 1;
    wait->ask = m->ask = w->next_ask;
    bool cycle = pr_waits_for(w, self, target);
    pr_status status = cycle ? PR_BUSY : pr_send(x->rt, w, m);
    if (status == PR_MUST_WAIT) {
        PR_COUNT(x->rt, w, rejected, (uint64_t)-1);
        status = pr_box_wait(x->rt, w, pr_actor_slot(&x->rt->actors, pr_id_slot(target)), m, NULL);
        if (status == PR_MUST_WAIT) {
            wait->box_of = target;
            status = PR_OK;
        }
    }
    if (status != PR_OK) {
        pr_msg_free(&w->pool, m);
        pr_actor_unwait(w, self);
        if (cycle)
            return no_reply(L, "deadlock", target == me ? "an actor cannot wait for its own reply"
                                                        : "whoever is asked waits for this actor's own reply");
        if (status == PR_FULL)
            return no_reply(L, "full", "its mailbox is full");
        return no_reply(L, "dead", status == PR_STOPPING ? "the actor is stopping" : "there is no such actor");
    }
    return pr_lua_suspend(L);
}

/* ask from the wrapper in Lua: values from `from`. */
static int ask(lua_State *L, int from, uint64_t ms)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_check_yieldable(L, x, "ask", 2);
    if (x->asked) {   /* an error came between the two halves of an earlier one */
        pr_msg_free(&x->w->pool, x->asked);
        x->asked = NULL;
    }
    uint64_t target = pr_lua_target(L, x, 1, "ask", 2);
    return send_and_wait(L, x, pr_lua_encode(L, x, from, "message", 2), target, ms);
}

static uint64_t usual_ms(const pr_lua *x) { return (uint64_t)(x->rt->config.ask_timeout * 1000); }

static int l_ask(lua_State *L)
{
    return ask(L, 2, usual_ms(pr_lua_of(L)));
}

/* ask_made(): with the message that compiled code has made: quick.c */
static int l_ask_made(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    pr_msg *m = x->asked;
    x->asked = NULL;
    if (!can_yield(L, x)) {
        pr_msg_free(&x->w->pool, m);
        pr_lua_check_yieldable(L, x, "ask", 2);
    }
    return send_and_wait(L, x, m, m->target, x->asked_within < 0 ? usual_ms(x) : pr_lua_ms(x->asked_within));
}

/* resumed(): all that a handler has just been resumed with, after an ask */
static int l_resumed(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    const pr_msg *reply = x->w->resumed->reply;
    lua_settop(L, 0);
    if (!reply) {
        lua_pushboolean(L, 0);
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->timeout_text);
        return 2;
    }
    if (reply->kind == PR_MSG_REPLY)
        lua_pushinteger(L, reply->count);
    else
        lua_pushboolean(L, 0);
    return 1 + pr_lua_decode(L, x, reply, 0);
}

static int l_ask_within(lua_State *L)
{
    return ask(L, 3, pr_lua_check_ms(L, 2, "ask_within", 2));
}

/* --- sleeping */

static int l_sleep(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t ms = pr_lua_check_ms(L, 1, "sleep", 1);
    pr_lua_check_yieldable(L, x, "sleep", 1);
    wait_or_raise(L, x, ms == 0 ? PR_WAIT_YIELD : PR_WAIT_SLEEP, ms == 0 ? UINT64_MAX : ms, 1);
    lua_settop(L, 0);
    return pr_lua_suspend(L);
}

static int l_yield(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_check_yieldable(L, x, "yield", 1);
    wait_or_raise(L, x, PR_WAIT_YIELD, UINT64_MAX, 1);
    return pr_lua_suspend(L);
}

/* --- receive: its other half is in hand.c */

/* await(due or nil, tested): suspends until another message is there (true) or the time has come (false). */
static int l_await(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_check_yieldable(L, x, "receive", 2);
    uint64_t until = UINT64_MAX;
    if (!lua_isnil(L, 1)) {
        double left = lua_tonumber(L, 1) - (double)pr_clock_ns(x->rt) / 1e9;
        if (left <= 0) {
            lua_pushboolean(L, 0);
            return 1;
        }
        until = left > 9e12 ? UINT64_MAX : (uint64_t)(left * 1000) + 1;
    }
    if (pr_actor_depth(x->rt, x->w->running) > (uint32_t)lua_tointeger(L, 2)) {   /* told itself from the match function */
        lua_pushboolean(L, 1);
        return 1;
    }
    wait_or_raise(L, x, PR_WAIT_RECEIVE, until, 2);
    return pr_lua_suspend(L);
}

/* await_start(ref): suspends until it has started (true) or ended (false) */
static int l_await_start(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_worker *w = x->w;
    pr_lua_check_yieldable(L, x, "await_start", 1);
    uint64_t target = pr_lua_target(L, x, 1, "await_start", 1);
    pr_wait *wait = wait_or_raise(L, x, PR_WAIT_ASK, UINT64_MAX, 1);
    pr_msg *m = pr_msg_new(&w->pool, 0);
    if (++w->next_ask == 0)
        w->next_ask = 1;
    wait->ask = w->next_ask;
    if (m) {
        m->kind = PR_MSG_AWAIT;
        m->target = target;
        m->sender = PR_GET(w->running->id);
        m->ask = w->next_ask;
    }
    if (!m || pr_control(x->rt, w, m) != PR_OK) {
        if (m)
            pr_msg_free(&w->pool, m);
        pr_actor_unwait(w, w->running);
        if (!m)
            return pr_lua_raise(L, 1, "not enough memory to wait");
        lua_pushboolean(L, 0);
        return 1;
    }
    lua_settop(L, 0);
    return pr_lua_suspend(L);
}

/* --- itself and the message in hand */

static int l_self(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_push_ref(L, x->w->running ? PR_GET(x->w->running->id) : 0);
    return 1;
}

static int l_parent(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_push_ref(L, x->w->running ? PR_GET(x->w->running->parent) : 0);
    return 1;
}

void pr_lua_stops(pr_actor *a)
{
    a->flags = (uint16_t)(a->flags | PR_FLAG_STOP);
    if (a->restart != PR_RESTART_PERMANENT)
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
}

static int l_stop_self(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = x->w->running;
    if (!a)
        return pr_lua_raise(L, 2, "stop: no actor is running here");
    lua_settop(L, 1);
    pr_msg *reason = lua_isnil(L, 1) ? NULL : pr_lua_encode(L, x, 1, "reason", 2);
    if (reason) {
        pr_extra *extra = pr_actor_extra(a);
        if (extra && !extra->stop_reason)
            extra->stop_reason = reason;
        else
            pr_msg_free(&x->w->pool, reason);
    }
    pr_lua_stops(a);
    lua_pushboolean(L, 1);
    return 1;
}

/* yieldable(): whether a yield can leave the running coroutine */
static int l_yieldable(lua_State *L)
{
    lua_pushboolean(L, lua_isyieldable(L));
    return 1;
}

/* check_wait(what): raises where a call that waits would, at the line of who calls the caller */
static int l_check_wait(lua_State *L)
{
    pr_lua_check_yieldable(L, pr_lua_of(L), luaL_checkstring(L, 1), 2);
    return 0;
}

/* block(by): 1 before and -1 after a coroutine runs from which no yield can come up */
static int l_block(lua_State *L)
{
    pr_lua_of(L)->blocked += (uint32_t)lua_tointeger(L, 1);
    return 0;
}

/* chores(): the worker is to look after this state before its next turn. */
static int l_chores(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    x->finalizers = true;
    x->w->chores |= PR_CHORES;
    return 0;
}

void pr_lua_open_inside(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"ask", l_ask}, {"ask_within", l_ask_within}, {"ask_made", l_ask_made}, {"resumed", l_resumed},
        {"sleep", l_sleep}, {"yield", l_yield},
        {"await", l_await}, {"await_start", l_await_start}, {"self", l_self}, {"parent", l_parent}, {"stop_self", l_stop_self}, {"yieldable", l_yieldable},
        {"check_wait", l_check_wait}, {"block", l_block}, {"chores", l_chores},
        {"become_script", pr_lua_become_script}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
