/* The message in hand, inside and outside: taking the next one (receive), who sent it, taking over its reply,
 * passing it on. */
#include "border.h"

#include "../send_timer.h"

pr_end pr_lua_end(pr_lua *x)
{
    if (!x->w)
        return pr_port_end(x->rt, x->port);
    static __thread pr_ties none;   /* of an actor that has no table: nobody writes it */
    pr_actor *a = x->w->running;
    return (pr_end){x->rt, x->w, PR_GET(a->id), a->extra ? &a->extra->ties : &none};
}

static int l_sender(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_msg *m = pr_lua_hand(x);
    pr_lua_push_ref(L, m ? m->sender : 0);
    if (x->w && m && m->sender)
        pr_lua_place_ref(L, x, lua_gettop(L), m->sender);   /* compiled code finds it there */
    return 1;
}

/* defer() -> asker, number; nil when the message in hand waits for no reply (any more). */
static int l_defer(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_msg *m = pr_lua_hand(x);
    if (!m || m->ask == 0) {
        lua_pushnil(L);
        return 1;
    }
    pr_asker_waits_for(x->rt, m->sender, m->target, 0);
    pr_lua_push_ref(L, m->sender);
    lua_pushnumber(L, m->ask);
    m->ask = 0;
    return 2;
}

static int send_reply(lua_State *L, uint8_t kind, const char *label, int level)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, level);
    uint64_t asker;
    if (!pr_lua_is_ref(L, 1, &asker) || lua_type(L, 2) != LUA_TNUMBER)
        return pr_lua_raise(L, level, "not a deferred reply");
    double number = lua_tonumber(L, 2);
    pr_msg *m = pr_lua_encode(L, x, 3, label, level);
    m->kind = kind;
    m->target = asker;
    m->sender = pr_lua_self(x);
    m->ask = (uint32_t)number;
    pr_reply(rt, x->w, m);
    return 0;
}

/* reply(asker, number, values...); fail(asker, number, kind, message, traceback, cause) */
static int l_reply(lua_State *L) { return send_reply(L, PR_MSG_REPLY, "reply", 2); }
static int l_fail(lua_State *L) { return send_reply(L, PR_MSG_ERROR, "error", 2); }

/* forward(target) -> true | nil, reason. The pending ask goes along; a refused one stays in hand. */
static int l_forward(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t target = pr_lua_target(L, x, 1, "forward", 1);
    pr_msg *m = pr_lua_hand(x);
    if (!m)
        return pr_lua_raise(L, 1, "forward: there is no message in hand");
    pr_msg *copy = pr_msg_copy(pr_lua_pool(x), m);
    if (!copy)
        return pr_lua_raise(L, 1, "not enough memory to forward the message");
    copy->target = target;
    copy->taken = copy->ordered = copy->timed = 0;
    if (m->ask)
        pr_asker_waits_for(rt, m->sender, m->target, target);
    pr_status status = pr_send(rt, x->w, copy);
    if (status == PR_OK) {
        m->ask = 0;
        lua_pushboolean(L, 1);
        return 1;
    }
    if (status == PR_MUST_WAIT) {   /* the ask goes along into the line; it is told there when that has no end */
        int n = pr_lua_wait_for_room(L, x, copy, "forward");
        if (n < 2)   /* not refused after all */
            m->ask = 0;
        return n;
    }
    pr_msg_free(pr_lua_pool(x), copy);
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* drop(reason): the message in hand is a dead letter after all; a pending ask is told. */
static int l_drop(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_worker *w = x->w;
    pr_msg *copy = w->hand ? pr_msg_copy(&w->pool, w->hand) : NULL;
    if (!copy)
        return pr_lua_raise(L, 1, "not enough memory");
    w->hand->ask = 0;
    copy->taken = copy->ordered = 0;
    PR_BUMP(w->running->handled, (uint64_t)-1);
    PR_BUMP(w->counters.handled, (uint64_t)-1);
    pr_dead_letter(x->rt, w, copy, pr_dead_reason_named(lua_tostring(L, 1)));
    return 0;
}

/* --- stash */

/* stash() -> true | nil, "not enough memory" */
static int l_stash(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (!x->w || !x->w->running)
        return pr_lua_raise(L, 1, "stash: inside an actor only");
    if (!x->w->hand)
        return pr_lua_raise(L, 1, "stash: there is no message in hand");
    if (x->w->hand->ordered & PR_MSG_STASHED)
        return pr_lua_raise(L, 1, "stash: the message in hand is stashed already");
    pr_status status = pr_stash(x->w, x->w->running, x->w->hand);
    if (status == PR_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* unstash() -> how many */
static int l_unstash(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (!x->w || !x->w->running)
        return pr_lua_raise(L, 1, "unstash: inside an actor only");
    lua_pushinteger(L, (lua_Integer)pr_unstash(x->w, x->w->running));
    return 1;
}

/* --- receive */

static bool boxed(pr_lua *x) { return x->w && PR_GET(x->w->running->gate) & PR_GATE_BOXED; }

/* In its order all that is queued. */
static pr_queue *queue_of(pr_lua *x)
{
    if (boxed(x))
        return pr_box_view(x->w, x->w->running);
    return x->w ? &x->w->running->user : &x->port->queue;
}

static void looked(pr_lua *x)
{
    if (boxed(x))
        pr_box_view_end(x->w, x->w->running);
}

static void unlink_after(pr_lua *x, pr_msg *before, pr_msg *m)
{
    if (boxed(x)) {
        pr_box_remove(x->w, x->w->running, before, m);
        return;
    }
    pr_queue *q = queue_of(x);
    if (before)
        before->next = m->next;
    else
        q->head = m->next;
    if (q->tail == m)
        q->tail = before;
    if (x->w)
        PR_BUMP(x->w->running->depth, (uint32_t)-1);
}

/* A message that receive has taken before is finished by taking the next. */
static void take_into_hand(pr_lua *x, pr_msg *m)
{
    pr_msg **hand = x->w ? &x->w->hand : &x->hand, *old = *hand;
    if (old && old->taken) {
        *hand = old->next;
        pr_reply_error(x->rt, x->w, old, "failed", "the message was taken by receive and not answered");
        pr_msg_free(pr_lua_pool(x), old);
    }
    m->taken = 1;
    m->next = *hand;
    *hand = m;
    if (x->w)
        PR_BUMP(x->w->running->handled, 1);
    PR_COUNT(x->rt, x->w, handled, 1);
}

static int again(lua_State *L);

/* Under pcall where a box must be let go after an error. */
static int take(lua_State *L)   // NOLINT(misc-no-recursion): for a timer that is being cancelled now
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    pr_worker *w = x->w;
    bool selective = !lua_isnil(L, 1);
    uint32_t tested = (uint32_t)lua_tointeger(L, 2), n = 0;
    if (x->scanning)
        return pr_lua_raise(L, 2, "receive: its match function cannot receive");
    if (x->deciding)
        return pr_lua_raise(L, 2, "receive: on_failure cannot receive");
    if (w && !w->running)
        return pr_lua_raise(L, 2, "receive: no actor is running here");
    if (!w)
        pr_port_fill(rt, x->port);
    /* Those may have been dropped for newer ones; or other handlers have taken some, or put some in front. */
    if (boxed(x) || (w && pr_actor_reentrant(w->running)))
        tested = 0;
    pr_end me = pr_lua_end(x);
    pr_msg *before = NULL, *m = queue_of(x)->head;
    while (m) {
        if (w && m->kind == PR_MSG_DRAIN) {
            /* All before it has been looked at: it stops the actor now, as an order. */
            unlink_after(x, before, m);
            m->kind = PR_MSG_STOP;
            pr_queue_push(&w->running->orders, m);
            break;
        }
        bool cancelled_timer = m->timed && PR_GET(pr_msg_timer(m)->state) == PR_TIMER_CANCELLED;
        if (cancelled_timer || (m->kind == PR_MSG_DOWN && !pr_ties_expect(&me, m))) {
            pr_msg *next = m->next;
            unlink_after(x, before, m);
            if (cancelled_timer) {
                pr_user_timer_deliver(rt, w, m);
                PR_COUNT(rt, w, cancelled, 1);
            }
            pr_msg_free(pr_lua_pool(x), m);
            m = next;
            tested -= n < tested;   /* it was one of them */
            continue;
        }
        bool matches = true;
        if (selective && n < tested) {
            matches = false;
        } else if (selective) {
            int top = lua_gettop(L);
            lua_pushvalue(L, 1);
            int values = pr_lua_decode(L, x, m, 0);
            x->scanning = true;
            int status = lua_pcall(L, values, 1, 0);
            x->scanning = false;
            if (status != 0)
                return lua_error(L);
            matches = lua_toboolean(L, -1);
            lua_settop(L, top);
        }
        if (matches) {
            lua_settop(L, 2);
            lua_pushboolean(L, 1);
            int values = pr_lua_decode(L, x, m, 0);   /* may raise: the message is still in line then */
            unlink_after(x, before, m);
            if (m->timed && !pr_user_timer_deliver(rt, w, m)) {
                PR_COUNT(rt, w, cancelled, 1);
                pr_msg_free(pr_lua_pool(x), m);
                return again(L);
            }
            if (m->kind == PR_MSG_DOWN)
                pr_ties_take_down(&me, m);
            take_into_hand(x, m);
            return values + 1;
        }
        n++;
        before = m;
        m = m->next;
    }
    lua_pushboolean(L, 0);
    lua_pushinteger(L, (lua_Integer)n);
    return 2;
}

static int again(lua_State *L)   // NOLINT(misc-no-recursion)
{
    pr_lua *x = pr_lua_of(L);
    looked(x);
    return take(L);
}

/* take(match or nil, tested) -> true, values... | false, tested: how many messages do not match so far */
static int l_take(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (!x->w || !x->w->running || x->scanning || !boxed(x))
        return take(L);
    lua_settop(L, 2);
    lua_pushlightuserdata(L, x);
    lua_pushcclosure(L, take, 1);
    lua_insert(L, 1);
    x->calling = L;
    int status = lua_pcall(L, 2, LUA_MULTRET, 0);
    looked(x);
    x->calling = NULL;
    return status == 0 ? lua_gettop(L) : lua_error(L);
}

void pr_lua_open_hand(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"sender", l_sender}, {"defer", l_defer}, {"reply", l_reply},
                                         {"fail", l_fail}, {"forward", l_forward}, {"drop", l_drop}, {"stash", l_stash}, {"unstash", l_unstash}, {"take", l_take}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
