/* Runtimes that a test drives (see ../explore.h): starting one, probes, what has happened, faults. The Lua half is
 * lua/pierrot/testing.lua. */
#include "border.h"

#include "../alloc.h"
#include "../tick.h"

#include <math.h>
#include <string.h>

/* A second port of the same program. `swap` puts it in the place of the first: from then on, until it is put back, the
 * program's calls are the probe's (self, receive, ask, monitor ...). */
typedef struct pr_lua_probe {
    pr_lua *x;               /* NULL: its runtime has ended */
    pr_port *port;
    pr_msg *hand;
    struct pr_lua_probe *next;
} probe;

bool pr_lua_explore_wait(pr_lua *x, pr_stack *arrivals, uint64_t until_ns)
{
    return pr_explore_wait(x->rt, arrivals, until_ns) == PR_EXPLORE_ARRIVED;
}

/* --- starting */

static double number_at(lua_State *L, int index, const char *key, double otherwise)
{
    lua_getfield(L, index, key);
    double n = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : otherwise;
    lua_pop(L, 1);
    return n;
}

static void text_at(lua_State *L, int index, const char *key, char *to, size_t cap)
{
    size_t len;
    lua_getfield(L, index, key);
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : "";
    strncpy(to, text, cap - 1);
    to[cap - 1] = '\0';
    lua_pop(L, 1);
}

static uint32_t count_at(lua_State *L, int index, const char *key, double otherwise)
{
    double n = number_at(L, index, key, otherwise);
    return n >= UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* { seed =, only = { ascending numbers } or nil, records =, plain =, turns = } */
void pr_lua_explore_configure(lua_State *L, pr_lua *x, int index, pr_config *c)
{
    double seed = number_at(L, index, "seed", 1);
    lua_getfield(L, index, "only");
    uint32_t count = 0, *only = NULL;
    if (lua_istable(L, -1)) {
        count = (uint32_t)lua_objlen(L, -1);
        only = lua_newuserdata(L, (count + 1) * sizeof *only);
        for (uint32_t i = 0; i < count; i++) {
            lua_rawgeti(L, -2, (int)i + 1);
            only[i] = (uint32_t)lua_tonumber(L, -1);
            lua_pop(L, 1);
        }
    }
    pr_explore_free(x->explored);
    x->explored = pr_explore_new((uint64_t)seed, only, count);
    if (!x->explored)
        luaL_error(L, "not enough memory");
    double turns = number_at(L, index, "turns", 1e6);
    x->explored->turns_most = turns >= 9e15 ? UINT64_MAX : (uint64_t)turns;
    lua_getfield(L, index, "records");
    x->explored->records = lua_toboolean(L, -1);
    lua_getfield(L, index, "plain");
    x->explored->plain = lua_toboolean(L, -1);
    c->ticks = c->seeded = true;
    c->tick_clock = PR_CLOCK_MANUAL;
    c->seed = (uint64_t)seed;
    c->enter_worker = pr_lua_enter_worker;
    c->explore = x->explored;
    c->failed = pr_explore_failed;
    c->log_sink = pr_explore_log;
    c->log_context = x->explored;
}

static pr_explore *explored(lua_State *L, pr_lua *x)
{
    if (!x->explored)
        luaL_error(L, "there has been no test");
    return x->explored;
}

static void close_probe(pr_lua *x, probe *p)
{
    for (probe **at = &x->probes; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    while (p->hand) {
        pr_msg *m = p->hand;
        p->hand = m->next;
        pr_reply_error(x->rt, NULL, m, "dead", "the test has ended");
        pr_msg_free(NULL, m);
    }
    pr_port_close(x->rt, p->port);
    p->x = NULL;
    p->port = NULL;
}

void pr_lua_explore_end(pr_lua *x)
{
    while (x->probes)
        close_probe(x, x->probes);
    if (x->explore)
        pr_explore_forget(x->explore);
    x->explore = NULL;
}

static int l_is_running(lua_State *L)
{
    lua_pushboolean(L, pr_lua_of(L)->rt != NULL);
    return 1;
}

/* --- probes */

/* probe_open() -> the probe, its ref */
static int l_probe_open(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    probe *p = lua_newuserdata(L, sizeof *p);
    memset(p, 0, sizeof *p);
    luaL_getmetatable(L, "pierrot.port");
    lua_setmetatable(L, -2);
    if (!(p->port = pr_port_open(rt)))
        return pr_lua_raise(L, 2, "probe: not enough memory");
    p->x = x;
    p->next = x->probes;
    x->probes = p;
    pr_lua_push_ref(L, p->port->id);
    return 2;
}

/* probe_swap(probe): false when its runtime has ended */
static int l_probe_swap(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    probe *p = luaL_checkudata(L, 1, "pierrot.port");
    if (p->x == x) {
        pr_port *port = x->port;
        pr_msg *hand = x->hand;
        x->port = p->port;
        x->hand = p->hand;
        p->port = port;
        p->hand = hand;
    }
    lua_pushboolean(L, p->x == x);
    return 1;
}

static int l_probe_gc(lua_State *L)
{
    probe *p = luaL_checkudata(L, 1, "pierrot.port");
    if (p->x)
        close_probe(p->x, p);
    return 0;
}

/* --- driving */

/* explore_wait(seconds or nil) -> "time", "never", "restless": without waiting for anything to arrive */
static int l_wait(lua_State *L)
{
    static const char *const ends[] = {"arrived", "time", "never", "restless"};
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    uint64_t until = UINT64_MAX;
    if (!lua_isnoneornil(L, 1))
        until = pr_clock_ns(rt) + (uint64_t)(fmin(lua_tonumber(L, 1), 9e9) * 1e9);
    lua_pushstring(L, ends[pr_explore_wait(rt, NULL, until)]);
    return 1;
}

/* For spec/simulation: explore_reseed(seed); explore_turns(n) -> how many there were; explore_jump(seconds): the clock, with
 * whatever is still to do; explore_stall(worker, turns); explore_fail_alloc(n) -> whether the one before has happened: the
 * n-th allocation fails, 0: none. */
static int l_reseed(lua_State *L)
{
    pr_explore *e = explored(L, pr_lua_of(L));
    e->seed = (uint64_t)luaL_checknumber(L, 1);
    e->choices = e->taken_count = 0;
    e->turns = e->stalled_until = 0;
    e->stalled = 0;
    return 0;
}

static int l_turns(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_pushnumber(L, (double)pr_explore_turns(pr_lua_runtime(L, x, 2), (uint64_t)luaL_checknumber(L, 1)));
    return 1;
}

static int l_jump(lua_State *L)
{
    pr_runtime *rt = pr_lua_runtime(L, pr_lua_of(L), 2);
    PR_SET(rt->tick->virtual_ns, PR_GET(rt->tick->virtual_ns) + (uint64_t)(luaL_checknumber(L, 1) * 1e9));
    return 0;
}

static int l_stall(lua_State *L)
{
    pr_explore *e = explored(L, pr_lua_of(L));
    e->stalled = (uint32_t)luaL_checkinteger(L, 1);
    e->stalled_until = e->turns + (uint64_t)luaL_checknumber(L, 2);
    return 0;
}

static int l_fail_alloc(lua_State *L)
{
    lua_pushboolean(L, pr_alloc_failed());
    pr_alloc_fail_at((long)luaL_checkinteger(L, 1));
    return 1;
}

/* --- what has happened */

static void set_text(lua_State *L, const char *key, const char *text)
{
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

static void set_number(lua_State *L, const char *key, double n)
{
    lua_pushnumber(L, n);
    lua_setfield(L, -2, key);
}

/* explore_state() -> { turns =, choices =, taken = { numbers }, log =, missed = } */
static int l_state(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_explore *e = explored(L, x);
    lua_newtable(L);
    set_number(L, "turns", (double)e->turns);
    set_number(L, "turns_most", (double)e->turns_most);
    set_number(L, "choices", e->choices);
    set_number(L, "missed", e->missed);
    set_number(L, "happened", e->count);
    lua_pushlstring(L, e->log ? e->log : "", e->log_size);
    lua_setfield(L, -2, "log");
    lua_createtable(L, (int)e->taken_count, 0);
    for (uint32_t i = 0; i < e->taken_count; i++) {
        lua_pushnumber(L, e->taken[i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_setfield(L, -2, "taken");
    return 1;
}

/* explore_happened(from) -> a list of what has happened, from number `from` (1) on. Messages come with their values only
 * while the runtime runs. */
static int l_happened(lua_State *L)
{
    static const char *const names[] = {"start", "message", "resume", "failure", "fault", "log", "end"};
    pr_lua *x = pr_lua_of(L);
    const pr_explore *e = explored(L, x);
    uint32_t from = (uint32_t)luaL_optinteger(L, 1, 1);
    lua_newtable(L);
    for (uint32_t i = from > 0 ? from - 1 : 0; i < e->count; i++) {
        const pr_explored *it = &e->happened[i];
        lua_createtable(L, 0, 8);
        set_text(L, "what", names[it->what]);
        set_number(L, "time", (double)it->ns / 1e9);
        set_number(L, "worker", it->worker + 1);
        set_text(L, "name", it->name);
        pr_lua_push_ref(L, it->actor);
        lua_setfield(L, -2, "actor");
        if (it->sender) {
            pr_lua_push_ref(L, it->sender);
            lua_setfield(L, -2, "sender");
        }
        lua_pushboolean(L, it->asked);
        lua_setfield(L, -2, "asked");
        lua_pushboolean(L, it->timed);
        lua_setfield(L, -2, "timed");
        lua_pushboolean(L, it->failed);
        lua_setfield(L, -2, "failed");
        if (it->what == PR_EXPLORED_FAILURE && it->text) {
            set_text(L, "during", it->text);
            const char *text = it->text + strlen(it->text) + 1;
            set_text(L, "text", text);
            set_text(L, "traceback", text + strlen(text) + 1);
        } else if (it->text) {
            set_text(L, "text", it->text);
        }
        if (it->message && x->explore) {
            lua_newtable(L);
            int top = lua_gettop(L), n = pr_lua_decode(L, x, it->message, 0);
            for (int k = n; k > 0; k--)
                lua_rawseti(L, top, k);
            set_number(L, "n", n);
            lua_setfield(L, -2, "values");
        }
        lua_rawseti(L, -2, (int)(i + 2 - from));
    }
    return 1;
}

/* --- faults */

/* explore_fault{ actor =, name =, first =, action =, seconds =, chance =, from =, every =, most =, text = } -> its number |
 * nil: there are too many */
static int l_fault(lua_State *L)
{
    static const char *const actions[] = {"fail", "slow", "mute", "kill", NULL};
    pr_lua *x = pr_lua_of(L);
    pr_lua_runtime(L, x, 2);
    pr_explore *e = explored(L, x);
    luaL_checktype(L, 1, LUA_TTABLE);
    if (e->fault_count == PR_FAULTS)
        return 0;
    pr_fault f;
    memset(&f, 0, sizeof f);
    lua_getfield(L, 1, "action");
    f.action = (uint8_t)luaL_checkoption(L, -1, NULL, actions);
    lua_getfield(L, 1, "actor");
    if (!lua_isnil(L, -1) && !pr_lua_is_ref(L, -1, &f.actor))
        return luaL_error(L, "no ref");
    text_at(L, 1, "name", f.name, sizeof f.name);
    text_at(L, 1, "first", f.first, sizeof f.first);
    text_at(L, 1, "text", f.text, sizeof f.text);
    f.seconds = number_at(L, 1, "seconds", 0);
    f.chance = number_at(L, 1, "chance", 1);
    f.from = count_at(L, 1, "from", 1);
    f.every = count_at(L, 1, "every", 1);
    f.most = count_at(L, 1, "most", UINT32_MAX);
    e->faults[e->fault_count++] = f;
    lua_pushnumber(L, e->fault_count);
    return 1;
}

/* explore_fault_done(number) -> how often it has struck */
static int l_fault_done(lua_State *L)
{
    const pr_explore *e = explored(L, pr_lua_of(L));
    uint32_t i = (uint32_t)luaL_checkinteger(L, 1);
    lua_pushnumber(L, i >= 1 && i <= e->fault_count ? e->faults[i - 1].done : 0);
    return 1;
}

/* explore_clear(): no fault strikes any more */
static int l_clear(lua_State *L)
{
    pr_explore *e = explored(L, pr_lua_of(L));
    for (uint32_t i = 0; i < e->fault_count; i++)
        e->faults[i].most = 0;
    return 0;
}

/* strikes() -> nothing, or an action, its seconds, its text. Inside, before a handler is called. */
static int l_strikes(lua_State *L)
{
    static const char *const actions[] = {"fail", "slow", "mute", "kill"};
    const pr_fault *f = pr_explore_strikes(pr_lua_of(L)->w);
    if (!f)
        return 0;
    lua_pushstring(L, actions[f->action]);
    lua_pushnumber(L, f->seconds);
    lua_pushstring(L, f->text);
    return 3;
}

void pr_lua_open_explore(lua_State *L, pr_lua *x)
{
    static const luaL_Reg inside[] = {{"strikes", l_strikes}, {NULL, NULL}};
    static const luaL_Reg outside[] = {
        {"is_running", l_is_running}, {"probe_open", l_probe_open}, {"probe_swap", l_probe_swap}, {"explore_wait", l_wait}, {"explore_state", l_state},
        {"explore_happened", l_happened}, {"explore_fault", l_fault}, {"explore_fault_done", l_fault_done}, {"explore_clear", l_clear},
        {"explore_reseed", l_reseed}, {"explore_turns", l_turns}, {"explore_jump", l_jump}, {"explore_stall", l_stall},
        {"explore_fail_alloc", l_fail_alloc}, {NULL, NULL}};
    pr_lua_add(L, x, x->w ? inside : outside);
    if (x->w)
        return;
    luaL_newmetatable(L, "pierrot.port");
    lua_pushcfunction(L, l_probe_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
