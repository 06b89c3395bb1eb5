/* Calls that work inside actors and outside alike: tell, orders, spawn, timers, names, the clock, the log.
 * They never wait. */
#include "border.h"

#include "../send_timer.h"

#include <math.h>
#include <string.h>

int pr_lua_raise(lua_State *L, int level, const char *format, ...)
{
    va_list args;
    luaL_where(L, level);
    va_start(args, format);
    lua_pushvfstring(L, format, args);
    va_end(args);
    lua_concat(L, 2);
    return lua_error(L);
}

pr_runtime *pr_lua_runtime(lua_State *L, pr_lua *x, int level)
{
    if (!x->rt)
        pr_lua_raise(L, level, "pierrot is not running: call pierrot.start() first");
    if (x->explore && !x->w)
        pr_explore_others(x->rt);   /* a test does something: actors may have come first */
    return x->rt;
}

const char *pr_lua_status(pr_status status)
{
    static const char *const names[] = {"ok", "dead", "stopping", "exists", "not enough memory", "timeout", "busy", "failed",
                                         "full", "full", "limit", "invalid"};
    return names[status];
}

static int push_status(lua_State *L, pr_status status)
{
    if (status == PR_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

uint64_t pr_lua_self(pr_lua *x)
{
    if (!x->w)
        return x->port->id;
    return x->w->running ? PR_GET(x->w->running->id) : 0;   /* a finalizer may run while no actor does */
}

/* tell(target, ...) */
static int l_tell(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t target = pr_lua_target(L, x, 1, "tell", 1);
    pr_msg *m = pr_lua_encode(L, x, 2, "message", 1);
    m->kind = PR_MSG_USER;
    m->target = target;
    m->sender = pr_lua_self(x);
    pr_status status = pr_send(rt, x->w, m);
    if (status == PR_OK) {
        lua_pushboolean(L, 1);
        return 1;
    }
    if (status == PR_MUST_WAIT)
        return pr_lua_wait_for_room(L, x, m, "tell");
    pr_msg_free(pr_lua_pool(x), m);
    return push_status(L, status);
}

/* The same inside, where it is called most. */
static int l_tell_inside(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    pr_worker *w = x->w;
    uint64_t target = (uint64_t)(uintptr_t)lua_touserdata(L, 1);   /* of full userdata an even address: no id */
    if (!pr_id_valid(target))
        return l_tell(L);
    pr_lua_told(L, x, target);
    pr_msg *m = pr_lua_encode(L, x, 2, "message", 1);
    m->kind = PR_MSG_USER;
    m->target = target;
    m->sender = w->running ? PR_GET(w->running->id) : 0;
    pr_status status = pr_send(w->rt, w, m);
    if (status == PR_OK) {
        if (w->burst <= 0)
            return pr_lua_stand_back(L);
        lua_pushboolean(L, 1);
        return 1;
    }
    if (status == PR_MUST_WAIT)
        return pr_lua_wait_for_room(L, x, m, "tell");
    pr_msg_free(&w->pool, m);
    if (pr_monitor_valid(target))
        return pr_lua_raise(L, 1, "tell: a ref or a registered name expected, got a monitor");
    return push_status(L, status);
}

/* stop(target, reason...), drain, kill: the reason is one value. */
static int order(lua_State *L, uint8_t kind, const char *what, int level)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, level);
    uint64_t target = pr_lua_target(L, x, 1, what, level);
    pr_msg *reason = NULL;
    if (kind == PR_MSG_KILL) {
        lua_settop(L, 1);
        lua_pushliteral(L, "killed");
    }
    lua_settop(L, 2);
    if (!lua_isnil(L, 2)) {
        lua_insert(L, 1);
        lua_settop(L, 1);
        reason = pr_lua_encode(L, x, 1, "reason", level);
    }
    if (target == 0) {
        if (reason)
            pr_msg_free(pr_lua_pool(x), reason);
        return push_status(L, PR_DEAD);
    }
    /* A parent's word is final: its `permanent` child is not restarted. */
    const pr_actor *a = x->w && x->w->running ? pr_actor_find(&rt->actors, target) : NULL;
    bool ordered = a && PR_GET(a->parent) == PR_GET(x->w->running->id);
    return push_status(L, pr_order(rt, x->w, target, kind, reason, ordered));
}

static int l_stop(lua_State *L) { return order(L, PR_MSG_STOP, "stop", 1); }
static int l_stop_wrapped(lua_State *L) { return order(L, PR_MSG_STOP, "stop", 2); }
static int l_drain(lua_State *L) { return order(L, PR_MSG_DRAIN, "drain", 1); }
static int l_kill(lua_State *L) { return order(L, PR_MSG_KILL, "kill", 1); }

static int l_is_alive(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t target = pr_lua_target(L, x, 1, "is_alive", 1);
    lua_pushboolean(L, pr_actor_find(&rt->actors, target) != NULL);
    return 1;
}

/* --- behaviours and spawn */

typedef struct handle {
    pr_lua *x;
    pr_runtime *rt;
    uint64_t serial;         /* of rt: an address may come again */
    pr_behaviour *behaviour;
    const pr_ops *ops;
} handle;

static int l_handle_gc(lua_State *L)
{
    handle *h = lua_touserdata(L, 1);
    /* A handle that outlives its runtime has nothing to give back. */
    if (h->behaviour && h->x->rt && h->x->serial == h->serial)
        pr_behaviour_drop(&h->rt->behaviours, h->behaviour);
    h->behaviour = NULL;
    return 0;
}

pr_behaviour *pr_lua_behaviour_of(lua_State *L, int index)
{
    return ((handle *)lua_touserdata(L, index))->behaviour;
}

static handle *new_handle(lua_State *L, pr_lua *x, pr_runtime *rt, const pr_ops *ops)
{
    handle *h = lua_newuserdata(L, sizeof *h);
    *h = (handle){.x = x, .rt = rt, .serial = x->serial, .ops = ops};
    luaL_getmetatable(L, "pierrot.behaviour");
    lua_setmetatable(L, -2);
    return h;
}

void pr_lua_push_behaviour(lua_State *L, pr_lua *x, pr_behaviour *b)
{
    handle *h = lua_newuserdata(L, sizeof *h);   /* raises where there is no memory: the reference is lost, nothing else */
    *h = (handle){.x = x, .rt = x->rt, .serial = x->serial, .ops = &pr_lua_ops, .behaviour = b};
    luaL_getmetatable(L, "pierrot.behaviour");
    lua_setmetatable(L, -2);
}

/* intern(bytes, name, tokens of shared values that its code refers to, or nil) -> handle */
static int l_intern(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 3);
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    const char *name = luaL_checkstring(L, 2);
    handle *h = new_handle(L, x, rt, &pr_lua_ops);
    h->behaviour = pr_behaviour_intern(&rt->behaviours, bytes, size, name);
    if (!h->behaviour)
        return luaL_error(L, "not enough memory");
    uint32_t count = lua_istable(L, 3) ? (uint32_t)lua_objlen(L, 3) : 0;
    if (count > 0) {
        pr_share **shares = lua_newuserdata(L, count * sizeof *shares);
        for (uint32_t i = 0; i < count; i++) {
            lua_rawgeti(L, 3, (int)i + 1);
            shares[i] = pr_lua_token_share(x, lua_touserdata(L, -1));
            lua_pop(L, 1);
            if (!shares[i])
                return luaL_error(L, "its code refers to a shared value of a runtime that has ended: share it anew");
        }
        if (!pr_behaviour_refers(&rt->behaviours, h->behaviour, shares, count))
            return luaL_error(L, "not enough memory");
        lua_pop(L, 1);
    }
    return 1;
}

/* native(name) -> handle of the behaviour in C that the host has given this name; nil */
static int l_native(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 3);
    if (!rt->config.native) {
        lua_pushnil(L);
        return 1;
    }
    size_t len;
    const char *name = luaL_checklstring(L, 1, &len);
    handle *h = new_handle(L, x, rt, rt->config.native_ops);
    h->behaviour = rt->config.native(rt, name, len);
    if (!h->behaviour)
        lua_pushnil(L);
    return 1;
}

/* What few spawns ask for: at 5, false or a table { script =, root =, call =, link =, monitor =,
 * shutdown = milliseconds, reentrant = n, timeslice = microseconds }. */
typedef struct rare {
    pr_msg *link, *monitor;            /* the spawner's nodes */
    uint32_t number;
} rare;

static bool option(lua_State *L, const char *name)
{
    lua_getfield(L, 5, name);
    bool set = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return set;
}

static void free_nodes(pr_lua *x, pr_msg *m)
{
    for (pr_msg *next; m; m = next) {
        next = m->next;
        pr_msg_free(pr_lua_pool(x), m);
    }
}

static void drop_ties(pr_lua *x, rare *r, pr_spawn *s)
{
    free_nodes(x, s->ties);
    free_nodes(x, r->link);
    free_nodes(x, r->monitor);
}

static bool rare_options(lua_State *L, pr_lua *x, rare *r, pr_spawn *s)
{
    s->script = option(L, "script");
    s->at_root = option(L, "root");
    s->call = option(L, "call");
    bool link = option(L, "link"), watch = option(L, "monitor");
    lua_getfield(L, 5, "shutdown");
    if ((s->has_shutdown = lua_isnumber(L, -1)))
        s->shutdown_ms = lua_tonumber(L, -1) >= 9e15 ? UINT64_MAX : (uint64_t)lua_tonumber(L, -1);
    lua_getfield(L, 5, "reentrant");
    s->reentrant = (uint32_t)lua_tonumber(L, -1);
    lua_getfield(L, 5, "timeslice");
    s->timeslice_ns = (uint64_t)(lua_tonumber(L, -1) * 1000);
    lua_pop(L, 3);
    if (!link && !watch)
        return true;
    if (x->w && !pr_actor_extra(x->w->running))
        return false;
    pr_end me = pr_lua_end(x);
    pr_msg *theirs[2] = {NULL, NULL};
    if (link) {
        r->link = pr_tie_node(x->w, PR_MSG_LINK, 0, 0);
        theirs[0] = pr_tie_node(x->w, PR_MSG_LINK, me.id, 0);
    }
    if (watch) {
        r->number = pr_monitor_next(&me);
        r->monitor = pr_tie_node(x->w, PR_MSG_WATCHING, 0, r->number);
        theirs[1] = pr_tie_node(x->w, PR_MSG_MONITOR, me.id, r->number);
    }
    for (int i = 0; i < 2; i++)
        if (theirs[i]) {
            theirs[i]->next = s->ties;
            s->ties = theirs[i];
        }
    if ((!link || (r->link && theirs[0])) && (!watch || (r->monitor && theirs[1])))
        return true;
    drop_ties(x, r, s);
    return false;
}

/* The child is born; what it may already have sent is behind this. */
static void keep_ties(pr_lua *x, rare *r, uint64_t child)
{
    pr_end me = pr_lua_end(x);
    pr_msg *mine[2] = {r->link, r->monitor};
    for (int i = 0; i < 2; i++)
        if (mine[i]) {
            mine[i]->sender = child;
            pr_ties_add(me.ties, mine[i]);
        }
}

/* dispatcher(name) -> its number from 1, or nil and the names of those there are */
static int l_dispatcher(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 4);
    size_t len;
    const char *name = luaL_checklstring(L, 1, &len);
    const pr_dispatcher *d = pr_dispatcher_named(rt, name, len);
    if (d) {
        lua_pushinteger(L, (lua_Integer)d->index + 1);
        return 1;
    }
    char names[PR_DISPATCHERS * (PR_DISPATCHER_NAME + 4)];
    lua_pushnil(L);
    lua_pushlstring(L, names, pr_dispatchers_list(rt, names, sizeof names));
    return 2;
}

/* `place` says where: PLACES times the dispatcher's number (0: none is named) + the worker's there (0: any). */
enum { PLACES = 1 << 16, PLACE_HERE = PLACES - 1 };

static void where(lua_State *L, pr_lua *x, uint32_t place, pr_spawn *s)
{
    pr_runtime *rt = x->rt;
    uint32_t number = place / PLACES;
    const pr_dispatcher *d = &rt->dispatchers[number ? number - 1 : PR_DISPATCHER_DEFAULT];
    s->worker = place % PLACES;
    if (s->worker == PLACE_HERE && x->w) {
        const pr_dispatcher *here = x->w->dispatcher;
        if (number && d != here)
            pr_lua_raise(L, 2, "spawn: worker = \"here\" is a worker of the dispatcher \"%s\", not of \"%s\"", here->name, d->name);
        d = here;
        s->worker = x->w->index - here->first + 1;
    } else if (s->worker == PLACE_HERE) {
        s->worker = 0;
    }
    s->dispatcher = (uint8_t)d->index;
    if (s->worker > d->count)
        pr_lua_raise(L, 2, "spawn: worker %d does not exist: the dispatcher \"%s\" has %d", (int)s->worker, d->name, (int)d->count);
}

/* spawn(handle, name or nil, restart, place, rare, ...) -> ref [, monitor] | nil, reason, holder */
static int l_spawn(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    const handle *h = lua_touserdata(L, 1);
    pr_spawn s = {0};
    bool has_mailbox = x->has_mailbox;
    x->has_mailbox = false;
    s.ops = h->ops;
    s.behaviour = h->behaviour;
    s.name = lua_tolstring(L, 2, &s.name_len);
    s.restart = (uint8_t)lua_tointeger(L, 3);
    uint32_t place = (uint32_t)lua_tointeger(L, 4);
    if (place)
        where(L, x, place, &s);
    if (lua_istable(L, 5) && x->w && !x->w->running)
        return pr_lua_raise(L, 2, "spawn: no actor is running here: there is none to link or to monitor for");
    char error[512] = "";
    pr_status status = s.dispatcher ? pr_dispatcher_use(rt, &rt->dispatchers[s.dispatcher], error, sizeof error) : PR_OK;
    if (status == PR_FAILURE) {
        lua_pushnil(L);
        lua_pushstring(L, error);
        return 2;
    }
    if (lua_gettop(L) > 5)
        s.args = pr_lua_encode(L, x, 6, "argument", 2);
    uint64_t id = 0;
    rare r = {0};
    if (lua_istable(L, 5) && !rare_options(L, x, &r, &s)) {
        if (s.args)
            pr_msg_free(pr_lua_pool(x), s.args);
        return push_status(L, PR_NOMEM);
    }
    pr_behaviour_hold(h->behaviour);
    if (has_mailbox)
        s.box = pr_box_new(rt, &x->mailbox);
    status = has_mailbox && !s.box ? PR_NOMEM : pr_actor_spawn(rt, x->w, &s, &id);
    if (status == PR_OK) {
        if (r.link || r.monitor)
            keep_ties(x, &r, id);
        pr_lua_push_ref(L, id);
        if (!r.monitor)
            return 1;
        pr_lua_push_ref(L, pr_monitor_value(r.number));
        return 2;
    }
    drop_ties(x, &r, &s);
    if (s.box)
        pr_box_discard(rt, s.box);
    pr_behaviour_drop(&rt->behaviours, h->behaviour);
    if (s.args)
        pr_msg_free(pr_lua_pool(x), s.args);
    push_status(L, status);
    if (status != PR_EXISTS)
        return 2;
    pr_lua_push_ref(L, id);
    return 3;
}

/* --- timers */

typedef struct timer_handle {
    pr_lua *x;
    pr_runtime *rt;
    uint64_t serial;
    pr_user_timer *timer;   /* NULL: cancelled, or its runtime has ended */
} timer_handle;

uint64_t pr_lua_ms(double seconds)
{
    double ms = ceil(seconds * 1000 - 1e-9);
    return ms >= 9e15 ? UINT64_MAX : (uint64_t)ms;
}

uint64_t pr_lua_check_ms(lua_State *L, int index, const char *what, int level)
{
    double seconds = lua_type(L, index) == LUA_TNUMBER ? lua_tonumber(L, index) : -1;
    if (!(seconds >= 0))
        pr_lua_raise(L, level, "%s: a number of seconds, 0 or more, expected, got %s", what,
                     lua_type(L, index) == LUA_TNUMBER ? lua_tostring(L, index) : luaL_typename(L, index));
    return pr_lua_ms(seconds);
}

static int send_timer(lua_State *L, bool every, const char *what)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t ms = pr_lua_check_ms(L, 1, what, 1);
    if (ms == UINT64_MAX)
        ms = (uint64_t)9e15;
    if (every && ms == 0)
        return pr_lua_raise(L, 1, "%s: a period of more than 0 seconds expected", what);
    uint64_t target = pr_lua_target(L, x, 2, what, 1);
    if (!pr_actor_find(&rt->actors, target))
        return push_status(L, PR_DEAD);
    timer_handle *t = lua_newuserdata(L, sizeof *t);
    memset(t, 0, sizeof *t);
    luaL_getmetatable(L, "pierrot.timer");
    lua_setmetatable(L, -2);
    lua_insert(L, 3);
    pr_msg *m = pr_lua_encode(L, x, 4, "message", 1);
    m->kind = PR_MSG_USER;
    m->target = target;
    m->sender = pr_lua_self(x);
    t->timer = pr_user_timer_new(rt, x->w, m, ms, every ? ms : 0);
    if (!t->timer) {
        pr_msg_free(pr_lua_pool(x), m);
        return push_status(L, atomic_load_explicit(&rt->stopping, memory_order_relaxed) ? PR_STOPPING : PR_NOMEM);
    }
    t->x = x;
    t->rt = rt;
    t->serial = x->serial;
    lua_settop(L, 3);
    return 1;
}

static int l_send_after(lua_State *L) { return send_timer(L, false, "send_after"); }
static int l_send_every(lua_State *L) { return send_timer(L, true, "send_every"); }

static int l_timer_cancel(lua_State *L)
{
    timer_handle *t = luaL_checkudata(L, 1, "pierrot.timer");
    bool pending = t->timer && t->x->rt && t->x->serial == t->serial && pr_user_timer_cancel(t->rt, t->x->w, t->timer);
    lua_pushboolean(L, pending);
    return 1;
}

static int l_timer_gc(lua_State *L)
{
    timer_handle *t = lua_touserdata(L, 1);
    if (t->timer)
        pr_user_timer_drop(t->rt, t->x->rt && t->x->serial == t->serial ? t->x->w : NULL, t->timer);
    t->timer = NULL;
    return 0;
}

static int l_timer_tostring(lua_State *L)
{
    const timer_handle *t = luaL_checkudata(L, 1, "pierrot.timer");
    lua_pushfstring(L, "timer: %p", t->timer);
    return 1;
}

/* --- names */

static const char *check_name(lua_State *L, int index, size_t *len, const char *what)
{
    if (lua_type(L, index) != LUA_TSTRING)
        pr_lua_raise(L, 1, "%s: a name (string) expected, got %s", what, luaL_typename(L, index));
    const char *name = lua_tolstring(L, index, len);
    if (*len < 1 || *len > 255)
        pr_lua_raise(L, 1, "%s: a name of 1 to 255 bytes expected, got %d", what, (int)*len);
    return name;
}

static int l_register(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    uint64_t id, holder = 0;
    const char *name = check_name(L, 1, &len, "register");
    if (!pr_lua_is_ref(L, 2, &id))
        return pr_lua_raise(L, 1, "register: a ref expected, got %s", luaL_typename(L, 2));
    pr_status status = pr_name_register(rt, name, len, id, &holder);
    int n = push_status(L, status);
    if (status != PR_EXISTS)
        return n;
    pr_lua_push_ref(L, holder);
    return 3;
}

static int l_unregister(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    const char *name = check_name(L, 1, &len, "unregister");
    lua_pushboolean(L, pr_registry_remove(&rt->names, name, len, 0));
    return 1;
}

static int l_whereis(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    const char *name = check_name(L, 1, &len, "whereis");
    uint64_t id = pr_registry_get(&rt->names, name, len);
    pr_lua_push_ref(L, pr_actor_find(&rt->actors, id) ? id : 0);
    return 1;
}

/* --- the clock and the log */

static int l_now(lua_State *L)
{
    const pr_lua *x = pr_lua_of(L);
    lua_pushnumber(L, (double)(x->rt ? pr_clock_ns(x->rt) : pr_now_ns()) / 1e9);
    return 1;
}

/* log_on(level) */
static int l_log_on(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_pushboolean(L, x->rt && pr_log_on(&x->rt->log, (enum pr_log_level)lua_tointeger(L, 1)));
    return 1;
}

/* log(level, text): inside, the actor is named. */
static int l_log(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 3);
    size_t len;
    enum pr_log_level level = (enum pr_log_level)lua_tointeger(L, 1);
    if (x->w && x->w->running) {
        char who[256];
        pr_actor_describe(rt, PR_GET(x->w->running->id), who, sizeof who);
        lua_settop(L, 2);
        lua_pushfstring(L, "%s: ", who);
        lua_insert(L, 2);
        lua_concat(L, 2);
    }
    const char *text = luaL_checklstring(L, lua_gettop(L), &len);
    pr_log_write_of(&rt->log, x->w && x->w->running ? PR_GET(x->w->running->id) : 0, level, text, len);
    return 0;
}

/* log_level([level]) -> the level before */
static int l_log_level(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    lua_pushstring(L, pr_log_level_name((enum pr_log_level)PR_GET(rt->log.level)));
    if (!lua_isnoneornil(L, 1)) {
        int level = pr_log_level_parse(luaL_checkstring(L, 1));
        if (level < 0)
            return pr_lua_raise(L, 1, "log level '%s' is none of debug, info, warn, error, none", lua_tostring(L, 1));
        PR_SET(rt->log.level, level);
    }
    return 1;
}

void pr_lua_open_calls(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"tell", l_tell}, {"stop", l_stop}, {"stop_wrapped", l_stop_wrapped}, {"drain", l_drain}, {"kill", l_kill}, {"is_alive", l_is_alive},
        {"intern", l_intern}, {"native", l_native}, {"dispatcher", l_dispatcher}, {"spawn", l_spawn}, {"send_after", l_send_after}, {"send_every", l_send_every},
        {"register", l_register}, {"unregister", l_unregister}, {"whereis", l_whereis}, {"now", l_now},
        {"log_on", l_log_on}, {"log", l_log}, {"log_level", l_log_level}, {NULL, NULL}};
    static const luaL_Reg inside[] = {{"tell", l_tell_inside}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    if (x->w)
        pr_lua_add(L, x, inside);
    luaL_newmetatable(L, "pierrot.behaviour");
    lua_pushcfunction(L, l_handle_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    luaL_newmetatable(L, "pierrot.timer");
    lua_pushcfunction(L, l_timer_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, l_timer_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_timer_cancel);
    lua_setfield(L, -2, "cancel");
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}
