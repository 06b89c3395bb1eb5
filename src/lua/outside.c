/* Outside: a plain program that starts a runtime, and the calls that wait there, which block its thread. */
#include "border.h"

#include "../alloc.h"

#include <string.h>
#include <unistd.h>

static uint64_t from_now(uint64_t now_ns, uint64_t ms) { return ms >= UINT64_MAX / 2000000 ? UINT64_MAX : now_ns + ms * 1000000; }
static uint64_t until_ns(uint64_t ms) { return from_now(pr_now_ns(), ms); }

bool pr_lua_port_wait(pr_lua *x, uint64_t until)
{
    return x->explore ? pr_lua_explore_wait(x, &x->port->actor->mailbox, until) : pr_port_wait(x->port, until);
}

pr_msg *pr_lua_port_reply(pr_lua *x, uint32_t ask, uint64_t ms)
{
    uint64_t until = from_now(pr_clock_ns(x->rt), ms);
    pr_msg *m;
    while (!(m = pr_port_look(x->rt, x->port, ask)))
        if (!pr_lua_port_wait(x, until))
            return NULL;
    return m;
}

/* ask, ask_within: as inside, see inside.c */
static int ask(lua_State *L, int from, uint64_t ms)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = x->rt;
    uint64_t target = pr_lua_target(L, x, 1, "ask", 2);
    pr_msg *m = pr_lua_encode(L, x, from, "message", 2);
    if (++x->port->next_ask == 0)
        x->port->next_ask = 1;
    uint32_t number = x->port->next_ask;
    m->kind = PR_MSG_USER;
    m->target = target;
    m->sender = x->port->id;
    m->ask = number;
    bool waits = false;
    pr_status status = pr_send(rt, NULL, m);
    if (status == PR_MUST_WAIT) {
        PR_COUNT(rt, (pr_worker *)NULL, rejected, (uint64_t)-1);
        status = pr_box_wait(rt, NULL, pr_actor_slot(&rt->actors, pr_id_slot(target)), m, NULL);
        waits = status == PR_MUST_WAIT;
        if (waits)
            status = PR_OK;
    }
    if (status != PR_OK) {
        pr_msg_free(NULL, m);
        lua_pushboolean(L, 0);
        if (status == PR_FULL) {
            lua_pushliteral(L, "full");
            lua_pushliteral(L, "its mailbox is full");
            return 3;
        }
        lua_pushliteral(L, "dead");
        lua_pushstring(L, status == PR_STOPPING ? "the actor is stopping" : "there is no such actor");
        return 3;
    }
    pr_msg *reply = pr_lua_port_reply(x, number, ms);
    if (!reply) {
        if (waits)
            pr_box_cancel(rt, NULL, target, x->port->id, number);
        lua_pushboolean(L, 0);
        lua_pushliteral(L, "timeout");
        return 2;
    }
    /* Kept where a failed decode does not lose it. A finalizer that runs meanwhile may ask, too. */
    reply->next = x->replies;
    x->replies = reply;
    lua_pushboolean(L, reply->kind == PR_MSG_REPLY);
    int n = pr_lua_decode(L, x, reply, 0) + 1;
    pr_msg **at = &x->replies;
    while (*at != reply)
        at = &(*at)->next;
    *at = reply->next;
    pr_msg_free(NULL, reply);
    return n;
}

static int l_ask(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    return ask(L, 2, (uint64_t)(pr_lua_runtime(L, x, 2)->config.ask_timeout * 1000));
}

static int l_ask_within(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_runtime(L, x, 2);
    return ask(L, 3, pr_lua_check_ms(L, 2, "ask_within", 2));
}

static int l_sleep(lua_State *L)
{
    uint64_t ms = pr_lua_check_ms(L, 1, "sleep", 1);
    pr_lua *x = pr_lua_of(L);
    if (x->explore) {
        pr_lua_explore_wait(x, NULL, from_now(pr_clock_ns(x->rt), ms));
        return 0;
    }
    uint64_t until = until_ns(ms);
    for (uint64_t now; (now = pr_now_ns()) < until;) {
        uint64_t left = until - now;
        struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        nanosleep(&t, NULL);
    }
    return 0;
}

static int l_yield(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (x->explore)
        pr_explore_others(x->rt);
    return 0;
}

static int l_check_wait(lua_State *L)
{
    pr_lua_runtime(L, pr_lua_of(L), 2);
    return 0;
}

/* await(due or nil, tested): see inside.c */
static int l_await(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_runtime(L, x, 2);
    uint64_t until = UINT64_MAX;
    if (!lua_isnil(L, 1)) {
        double at = lua_tonumber(L, 1);
        until = at > 9e9 ? UINT64_MAX : at <= 0 ? 0 : (uint64_t)(at * 1e9);
    }
    lua_pushboolean(L, pr_lua_port_wait(x, until));
    return 1;
}

static int l_self(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_runtime(L, x, 1);
    pr_lua_push_ref(L, x->port->id);
    return 1;
}

static int l_nothing(lua_State *L)
{
    lua_pushnil(L);
    return 1;
}

/* --- the runtime's life */

static char *copy_text(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = pr_alloc(size);
    return copy ? memcpy(copy, s, size) : NULL;
}

static void free_paths(pr_lua_paths *paths)
{
    if (paths) {
        pr_free(paths->path);
        pr_free(paths->cpath);
        if (paths->log)
            pr_log_writer_close(paths->log);
        pr_free(paths);
    }
}

static pr_lua_paths *paths_of(lua_State *L)
{
    pr_lua_paths *paths = pr_zalloc(sizeof *paths);
    if (!paths)
        return NULL;
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    paths->terminal = pr_lua_of(L)->terminal;
    paths->path = copy_text(lua_isstring(L, -2) ? lua_tostring(L, -2) : "");
    paths->cpath = copy_text(lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
    lua_pop(L, 3);
    if (paths->path && paths->cpath)
        return paths;
    free_paths(paths);
    return NULL;
}

/* { { name, workers, throughput or false, interpreted }, ... } at `index`. The names stay the table's. */
static void dispatchers_of(lua_State *L, int index, pr_config *c)
{
    c->dispatcher_count = (uint32_t)lua_objlen(L, index);
    for (uint32_t i = 0; i < c->dispatcher_count; i++) {
        lua_rawgeti(L, index, (int)i + 1);
        for (int field = 1; field <= 4; field++)
            lua_rawgeti(L, -field, field);
        c->dispatchers[i] = (pr_dispatcher_config){lua_tostring(L, -4), (uint32_t)lua_tointeger(L, -3),
                                                   (uint32_t)lua_tointeger(L, -2), lua_toboolean(L, -1)};
        lua_pop(L, 5);
    }
}

/* start(workers, throughput, ask_timeout, log level, spin, dispatchers, log's file or nil, as JSON, nil or what explore.c
 * takes): all checked by the Lua half. -> true | nil, reason */
static int l_start(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (x->rt)
        return pr_lua_raise(L, 2, "start: pierrot is running already");
    pr_config c;
    pr_config_init(&c);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c.workers = lua_isnil(L, 1) ? (cores > 2 ? (uint32_t)cores : 2) : (uint32_t)lua_tointeger(L, 1);
    if (c.workers > 1024)
        c.workers = 1024;
    c.throughput = (uint32_t)lua_tointeger(L, 2);
    c.ask_timeout = lua_tonumber(L, 3);
    c.log_level = (enum pr_log_level)lua_tointeger(L, 4);
    if (!lua_isnil(L, 5))
        c.spin = (uint32_t)lua_tointeger(L, 5);
    dispatchers_of(L, 6, &c);
    if (!lua_isnoneornil(L, 9))
        pr_lua_explore_configure(L, x, 9, &c);
    if (!c.explore)   /* a test's ids are the same each time */
        c.first_generation = x->first_generation;
    c.priority = pr_lua_priority;
    c.open_worker = pr_lua_open_worker;
    c.close_worker = pr_lua_close_worker;
    c.idle_worker = pr_lua_idle_worker;
    c.context = paths_of(L);
    char error[512] = "not enough memory";
    pr_lua_paths *paths = c.context;
    if (paths && !c.explore) {
        pr_log_target log = {.path = lua_tostring(L, 7), .json = lua_toboolean(L, 8)};
        if (x->terminal && !log.path && !log.json && isatty(STDERR_FILENO)) {
            log.call = pr_lua_log_above;
            log.context = x->terminal;
        }
        paths->log = pr_log_writer_open(&log, error, sizeof error);
        if (!paths->log) {
            free_paths(paths);
            lua_pushnil(L);
            lua_pushstring(L, error);
            return 2;
        }
        c.log_sink = pr_log_writer_take;
        c.log_context = paths->log;
    }
    pr_runtime *rt = c.context ? pr_runtime_start(&c, error, sizeof error) : NULL;
    pr_port *port = rt ? pr_port_open(rt) : NULL;
    if (!port) {
        if (rt) {
            pr_runtime_stop(rt, NULL);
            if (pr_runtime_join(rt, UINT64_MAX) == PR_OK)
                pr_runtime_free(rt);
        }
        free_paths(c.context);
        lua_pushnil(L);
        lua_pushstring(L, error);
        return 2;
    }
    if (paths->log)
        pr_log_writer_serve(paths->log, rt);
    x->explore = c.explore;
    x->rt = rt;
    x->serial++;
    x->port = port;
    lua_pushboolean(L, 1);
    return 1;
}

static void finish(pr_lua *x)
{
    pr_runtime *rt = x->rt;
    while (x->hand) {
        pr_msg *m = x->hand;
        x->hand = m->next;
        pr_reply_error(rt, NULL, m, "dead", "the program has shut the runtime down");
        pr_msg_free(NULL, m);
    }
    for (pr_msg *m = x->replies, *next; m; m = next) {
        next = m->next;
        pr_msg_free(NULL, m);
    }
    x->replies = NULL;
    pr_lua_explore_end(x);
    pr_port_close(rt, x->port);
    x->port = NULL;
    x->rt = NULL;
    uint32_t next_generation = PR_GET(rt->actors.last_generation) + 2;   /* no id of this one will be given out again */
    if (next_generation > x->first_generation)
        x->first_generation = next_generation;
}

/* shutdown(seconds) -> true | nil, "timeout" */
static int l_shutdown(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t ms = pr_lua_check_ms(L, 1, "shutdown", 2);
    pr_runtime *rt = x->rt;
    if (x->scanning)
        return pr_lua_raise(L, 2, "shutdown: not inside the match function of receive");
    if (!rt) {
        lua_pushboolean(L, 1);
        return 1;
    }
    pr_runtime_stop(rt, NULL);
    pr_status status = pr_runtime_join(rt, until_ns(ms));
    pr_lua_control_close(rt, status == PR_OK);
    finish(x);
    if (status == PR_OK) {
        pr_lua_paths *paths = rt->config.context;
        if (paths->log)
            pr_log_writer_serve(paths->log, NULL);
        pr_runtime_free(rt);
        free_paths(paths);
        lua_pushboolean(L, 1);
        return 1;
    }
    /* Threads are still inside: what they stand on stays. */
    const pr_lua_paths *left = rt->config.context;
    if (left->log)
        pr_log_writer_flush(left->log, 1000);
    lua_pushnil(L);
    lua_pushliteral(L, "timeout");
    return 2;
}

/* wait_quiet(): until nothing is left that could happen, or shutdown has begun. -> whether it has */
static int l_wait_quiet(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    pr_runtime_wait_quiet(rt);
    lua_pushboolean(L, atomic_load_explicit(&rt->stopping, memory_order_acquire));
    return 1;
}

/* hold(ref, stops): until that actor has ended, however it came to that, wait_quiet waits; stops: then all is shut down */
static int l_hold(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime_hold(pr_lua_runtime(L, x, 1), pr_lua_target(L, x, 1, "hold", 1), lua_toboolean(L, 2));
    return 0;
}

static int l_script_failed(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_pushboolean(L, x->rt && atomic_load_explicit(&x->rt->script_failed, memory_order_relaxed));
    return 1;
}

/* pr_lua_close for a state that goes away while its runtime runs: the end of a plain program. */
static int l_state_gc(lua_State *L)
{
    pr_lua *x = *(pr_lua **)lua_touserdata(L, 1);
    pr_explore *explored = x->explored;
    if (x->rt) {
        pr_runtime *rt = x->rt;
        pr_runtime_stop(rt, NULL);
        bool ended = pr_runtime_join(rt, pr_now_ns() + 5000000000u) == PR_OK;
        pr_lua_control_close(rt, ended);
        finish(x);
        if (ended) {
            pr_lua_paths *paths = rt->config.context;
            pr_runtime_free(rt);
            free_paths(paths);
        }
    }
    pr_explore_free(explored);
    x->explored = NULL;
    return 0;
}

void pr_lua_open_outside(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"ask", l_ask}, {"ask_within", l_ask_within}, {"sleep", l_sleep}, {"yield", l_yield}, {"check_wait", l_check_wait}, {"await", l_await},
        {"self", l_self}, {"parent", l_nothing}, {"start", l_start}, {"shutdown", l_shutdown},
        {"wait_quiet", l_wait_quiet}, {"hold", l_hold}, {"script_failed", l_script_failed}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    pr_lua **anchor = lua_newuserdata(L, sizeof *anchor);
    *anchor = x;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_state_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, "pierrot.anchor");
}
