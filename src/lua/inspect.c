/* Looking at actors and the runtime from anywhere: info, children, stats. Snapshots: each figure is what its
 * one writer last wrote, figures of one call need not be of one moment. Nothing waits for a busy actor. */
#include "border.h"

#include <stdlib.h>
#include <string.h>

static void set_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

void pr_lua_push_family(lua_State *L, pr_runtime *rt, uint32_t link, uint32_t most, uint64_t id)
{
    uint32_t n = 0;
    lua_newtable(L);
    while (link && n < most) {
        pr_actor *child = pr_actor_slot(&rt->actors, link - 1);
        if (!child)
            break;
        uint64_t child_id = atomic_load_explicit(&child->id, memory_order_acquire);
        if (child_id) {
            if (PR_GET(child->parent) != id)
                break;
            pr_lua_push_ref(L, child_id);
            lua_rawseti(L, -2, (int)++n);
        }
        link = PR_GET(child->next_sibling);
    }
    /* The youngest comes first in the links; people expect the order of starting. */
    for (uint32_t i = 1; i <= n / 2; i++) {
        lua_rawgeti(L, -1, (int)i);
        lua_rawgeti(L, -2, (int)(n + 1 - i));
        lua_rawseti(L, -3, (int)i);
        lua_rawseti(L, -2, (int)(n + 1 - i));
    }
}

static void push_children(lua_State *L, pr_runtime *rt, pr_actor *a, uint64_t id)
{
    pr_lua_push_family(L, rt, PR_GET(a->first_child), PR_GET(a->children) + 16, id);
}

static int l_children(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    if (x->w && x->w->running)
        push_children(L, rt, x->w->running, PR_GET(x->w->running->id));
    else
        lua_newtable(L);
    return 1;
}

void pr_lua_push_info(lua_State *L, pr_runtime *rt, pr_actor *a, uint64_t id, bool children)
{
    static const char *const states[] = {"idle", "scheduled", "processing", "suspended", "stopping"};
    char text[256];
    lua_createtable(L, 0, 12);
    pr_lua_push_ref(L, id);
    lua_setfield(L, -2, "ref");
    lua_pushfstring(L, "%d.%d", (int)pr_id_slot(id), (int)pr_id_generation(id));
    lua_setfield(L, -2, "id");
    size_t len = pr_registry_name_of(&rt->names, id, text, sizeof text);
    if (len) {
        lua_pushlstring(L, text, len < sizeof text ? len : sizeof text);
        lua_setfield(L, -2, "name");
    }
    pr_actor_behaviour_name(rt, id, text, sizeof text);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "behaviour");
    if (pr_actor_version(rt, id, text, sizeof text))
        set_number(L, "version", strtod(text, NULL));
    else if (text[0]) {
        lua_pushstring(L, text);
        lua_setfield(L, -2, "version");
    }
    uint16_t home = PR_GET(a->home);
    if (home != PR_HOME_PORT) {
        const pr_dispatcher *d = &rt->dispatchers[PR_GET(a->dispatcher)];
        if (home != PR_HOME_FLOATING)
            set_number(L, "worker", home - d->first);
        lua_pushstring(L, d->name);
        lua_setfield(L, -2, "dispatcher");
    }
    uint8_t state = PR_GET(a->state);
    lua_pushstring(L, states[state]);
    lua_setfield(L, -2, "state");
    pr_box_info box;
    if (PR_GET(a->gate) & PR_GATE_BOXED && pr_box_look(rt, id, &box)) {
        set_number(L, "depth", box.depth);
        set_number(L, "high_water", box.high_water);
        if (box.capacity != PR_UNBOUNDED)
            set_number(L, "capacity", box.capacity);
        set_number(L, "waiting", box.waiting);
        uint64_t now_ms = pr_clock_ns(rt) / 1000000;
        set_number(L, "oldest", box.oldest_ms && now_ms > box.oldest_ms ? (double)(now_ms - box.oldest_ms) / 1000 : 0);
    } else {
        set_number(L, "depth", PR_GET(a->depth));
    }
    set_number(L, "processed", (double)PR_GET(a->handled));
    set_number(L, "restarts", PR_GET(a->restarts));
    uint64_t parent = PR_GET(a->parent);
    if (parent) {
        pr_lua_push_ref(L, parent);
        lua_setfield(L, -2, "parent");
    }
    if (children)
        push_children(L, rt, a, id);
    else
        lua_pushnumber(L, PR_GET(a->children));
    lua_setfield(L, -2, "children");
    uint64_t born = PR_GET(a->born_ms), now = pr_clock_ns(rt) / 1000000;
    set_number(L, "age", now > born ? (double)(now - born) / 1000 : 0);
}

/* info(target) -> table | nil, "dead" */
static int l_info(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t id = pr_lua_target(L, x, 1, "info", 1);
    pr_actor *a = pr_actor_find(&rt->actors, id);
    if (!a) {
        lua_pushnil(L);
        lua_pushliteral(L, "dead");
        return 2;
    }
    pr_lua_push_info(L, rt, a, id, true);
    return 1;
}

static void push_workers(lua_State *L, const pr_dispatcher *d)
{
    lua_createtable(L, (int)d->count, 0);
    for (uint32_t i = 0; i < d->count; i++) {
        const pr_worker *w = &d->workers[i];
        lua_createtable(L, 0, 8);
        set_number(L, "handled", (double)PR_GET(w->counters.handled));
        set_number(L, "turns", (double)PR_GET(w->turn));
        set_number(L, "steals", (double)PR_GET(w->counters.steals));
        set_number(L, "parks", (double)PR_GET(w->counters.parks));
        set_number(L, "far", (double)PR_GET(w->counters.far));
        set_number(L, "wakes", (double)PR_GET(w->counters.wakes));
        set_number(L, "lua_kb", (double)PR_GET(w->lua_bytes) / 1024);
        set_number(L, "collections", (double)PR_GET(w->collections));
        uint64_t current = PR_GET(w->current);
        if (current) {
            pr_lua_push_ref(L, current);
            lua_setfield(L, -2, "current");
        }
        lua_rawseti(L, -2, (int)i + 1);
    }
}

static void push_dispatcher(lua_State *L, pr_dispatcher *d)
{
    uint32_t busy = 0, queued = PR_GET(d->global.count);
    uint64_t handled = 0, turns = 0, steals = 0, parks = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        const pr_worker *w = &d->workers[i];
        busy += PR_GET(w->current) != 0;
        queued += pr_ring_count(&w->ring) + PR_GET(w->spill.count);
        handled += PR_GET(w->counters.handled);
        turns += PR_GET(w->turn);
        steals += PR_GET(w->counters.steals);
        parks += PR_GET(w->counters.parks);
    }
    lua_createtable(L, 0, 10);
    set_number(L, "workers", d->count);
    set_number(L, "throughput", d->throughput);
    lua_pushboolean(L, atomic_load_explicit(&d->up, memory_order_relaxed));
    lua_setfield(L, -2, "running");
    set_number(L, "busy", busy);
    set_number(L, "queued", queued);
    set_number(L, "handled", (double)handled);
    set_number(L, "turns", (double)turns);
    set_number(L, "steals", (double)steals);
    set_number(L, "parks", (double)parks);
    push_workers(L, d);
    lua_setfield(L, -2, "by_worker");
}

/* stats() */
static int l_stats(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    pr_counters c;
    pr_runtime_counters(rt, &c);
    uint64_t dead = 0;
    lua_createtable(L, 0, 24);
    lua_createtable(L, 0, PR_DEAD_REASONS);
    for (int i = 0; i < PR_DEAD_REASONS; i++) {
        dead += PR_GET(c.dead[i]);
        set_number(L, pr_dead_reason_name((enum pr_dead_reason)i), (double)PR_GET(c.dead[i]));
    }
    lua_setfield(L, -2, "dead_letters_by_reason");
    set_number(L, "dead_letters", (double)dead);
    set_number(L, "workers", rt->config.workers);
    set_number(L, "throughput", rt->config.throughput);
    set_number(L, "actors", (double)(PR_GET(c.spawned) - PR_GET(c.ended)));
    set_number(L, "spawned", (double)PR_GET(c.spawned));
    set_number(L, "ended", (double)PR_GET(c.ended));
    set_number(L, "sent", (double)PR_GET(c.sent));
    set_number(L, "handled", (double)PR_GET(c.handled));
    set_number(L, "rejected", (double)PR_GET(c.rejected));
    set_number(L, "cancelled", (double)PR_GET(c.cancelled));
    set_number(L, "replies", (double)PR_GET(c.replies));
    set_number(L, "late_replies", (double)PR_GET(c.late_replies));
    set_number(L, "failures", (double)PR_GET(c.failures));
    set_number(L, "restarts", (double)PR_GET(c.restarts));
    set_number(L, "turns", (double)PR_GET(c.turns));
    set_number(L, "steals", (double)PR_GET(c.steals));
    set_number(L, "parks", (double)PR_GET(c.parks));
    set_number(L, "far", (double)PR_GET(c.far));
    set_number(L, "wakes", (double)PR_GET(c.wakes));
    set_number(L, "uptime", (double)(pr_clock_ns(rt) - rt->started_ns) / 1e9);
    set_number(L, "memberships", (double)pr_groups_count(&rt->groups));
    set_number(L, "log_dropped", (double)PR_GET(rt->log.dropped));
    set_number(L, "events_lost", (double)PR_GET(rt->events.lost));
    set_number(L, "shared", (double)PR_GET(rt->shares.count));
    set_number(L, "shared_bytes", (double)PR_GET(rt->shares.bytes));
    set_number(L, "names", (double)pr_registry_count(&rt->names));
    push_workers(L, &rt->dispatchers[PR_DISPATCHER_DEFAULT]);
    lua_setfield(L, -2, "by_worker");
    lua_createtable(L, 0, (int)rt->dispatcher_count);
    for (uint32_t i = 0; i < rt->dispatcher_count; i++) {
        push_dispatcher(L, &rt->dispatchers[i]);
        lua_setfield(L, -2, rt->dispatchers[i].name);
    }
    lua_setfield(L, -2, "dispatchers");
    return 1;
}
/* stop_all(): shutdown has begun when this returns; from inside a handler too. */
static int l_stop_all(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime_stop(pr_lua_runtime(L, x, 1), x->w);
    lua_pushboolean(L, 1);
    return 1;
}

static int l_worker(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (x->w)
        lua_pushinteger(L, (lua_Integer)(x->w->index - x->w->dispatcher->first) + 1);
    else
        lua_pushnil(L);
    return 1;
}

void pr_lua_open_inspect(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"children", l_children}, {"info", l_info}, {"stats", l_stats},
                                         {"stop_all", l_stop_all}, {"worker", l_worker}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
