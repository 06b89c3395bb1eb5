/* What `pierrot top` shows, counted in the process: one walk over the records for each picture, of which only the first rows
 * leave it. A view keeps, for each record, what it had handled at the last picture, so that a row has a rate.
 *
 * Which actor has a worker's time is sampled: every 20 ms or so somebody notes whose turn it is on each (`current`). The
 * walk takes no lock and no name; names are looked up for the rows that are shown, and once for each actor where there is a
 * filter. Rates are those of a window of WINDOW_MS at least: pictures that follow each other sooner, for somebody who types,
 * show those of the one before. Figures are snapshots, as in inspect.c. A view belongs to one state. */
#include "border.h"

#include "../alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILTER = 64, AGAIN = 30 /* pictures until a name is looked up anew */, ROWS = 1000, WINDOW_MS = 200 };

typedef struct seen {
    uint64_t id;          /* whose figures these are; 0: nobody's */
    uint32_t handled;     /* of it, modulo 2^32 */
    float rate, time;     /* messages a second, share of one worker's time, in the last window */
    uint16_t hits;        /* samples in which it had a worker */
    uint8_t checked;      /* the picture, modulo 2^8, in which its name was looked up; 0: not yet */
    bool matches;
} seen;

typedef struct group {
    const pr_behaviour *behaviour;   /* to tell it from others, never followed */
    uint64_t one;                    /* an actor of it */
    double actors, depth, deepest, rate, time, restarts, oldest;
} group;

typedef struct view {
    seen *slots;
    uint32_t slot_count;
    group *groups;                   /* open addressing, mask + 1 places; an empty one has no actor */
    uint32_t groups_mask, group_count;
    uint32_t samples, *worker_hits, worker_count;
    double *busy;                    /* of each worker, in the last window */
    uint64_t window_ns;              /* when the present one began; 0: before the first picture */
    uint8_t picture;
    char filter[FILTER];
} view;

static int l_view_gc(lua_State *L)
{
    view *v = lua_touserdata(L, 1);
    pr_free(v->slots);
    pr_free(v->groups);
    pr_free(v->worker_hits);
    pr_free(v->busy);
    memset(v, 0, sizeof *v);
    return 0;
}

/* top_view() -> a view */
static int l_top_view(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    view *v = lua_newuserdata(L, sizeof *v);
    memset(v, 0, sizeof *v);
    luaL_getmetatable(L, "pierrot.view");
    lua_setmetatable(L, -2);
    const pr_runtime *rt = x->rt;
    for (uint32_t i = 0; i < rt->dispatcher_count; i++)
        v->worker_count += rt->dispatchers[i].count;
    v->worker_hits = pr_zalloc(v->worker_count * sizeof *v->worker_hits);
    v->busy = pr_zalloc(v->worker_count * sizeof *v->busy);
    if (!v->worker_hits || !v->busy)
        return luaL_error(L, "not enough memory");
    return 1;
}

static bool fit(view *v, uint32_t slots)
{
    if (slots <= v->slot_count)
        return true;
    seen *grown = pr_realloc(v->slots, slots * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + v->slot_count, 0, (slots - v->slot_count) * sizeof *grown);
    v->slots = grown;
    v->slot_count = slots;
    return true;
}

/* top_sample(view): who has the workers now */
static int l_top_sample(lua_State *L)
{
    const pr_lua *x = pr_lua_of(L);
    view *v = luaL_checkudata(L, 1, "pierrot.view");
    v->samples++;
    for (uint32_t i = 0; i < v->worker_count; i++) {
        const pr_worker *w = &x->rt->workers[i];
        uint64_t id = w == x->w ? 0 : PR_GET(w->current);   /* not the one who asks */
        if (!id)
            continue;
        v->worker_hits[i]++;
        uint32_t slot = pr_id_slot(id);
        if (slot < v->slot_count && v->slots[slot].id == id && v->slots[slot].hits < UINT16_MAX)
            v->slots[slot].hits++;
    }
    return 0;
}

/* Some are looked up in each picture, by slot: an actor may get a name at any time. */
static bool passes(pr_runtime *rt, view *v, seen *s, uint32_t slot)
{
    if (!v->filter[0])
        return true;
    if (!s->checked || slot % AGAIN == v->picture % AGAIN) {
        s->checked = 1;
        s->matches = pr_lua_actor_matches(rt, s->id, v->filter);
    }
    return s->matches;
}

/* The group of a behaviour, `one` being an actor of it; NULL: no memory. */
static group *group_of(view *v, const pr_behaviour *b, uint64_t one)
{
    if (2 * (v->group_count + 1) > v->groups_mask) {
        uint32_t size = v->groups_mask ? 2 * (v->groups_mask + 1) : 256;
        group *grown = pr_zalloc(size * sizeof *grown);
        if (!grown)
            return NULL;
        for (uint32_t i = 0; v->groups && i <= v->groups_mask; i++)
            if (v->groups[i].one) {
                uint32_t at = (uint32_t)((uintptr_t)v->groups[i].behaviour >> 4) * 2654435761u & (size - 1);
                while (grown[at].one)
                    at = (at + 1) & (size - 1);
                grown[at] = v->groups[i];
            }
        pr_free(v->groups);
        v->groups = grown;
        v->groups_mask = size - 1;
    }
    uint32_t at = (uint32_t)((uintptr_t)b >> 4) * 2654435761u & v->groups_mask;   /* Knuth's multiplier */
    while (v->groups[at].one && v->groups[at].behaviour != b)
        at = (at + 1) & v->groups_mask;
    if (!v->groups[at].one) {
        v->groups[at].behaviour = b;
        v->groups[at].one = one;
        v->group_count++;
    }
    return &v->groups[at];
}

/* --- rows: the highest first */

enum key { BY_DEPTH, BY_RATE, BY_TIME, BY_RESTARTS, BY_AGE, BY_ACTORS };

typedef struct row {
    double key, second;
    uint64_t id;
    double rate, time;
    const group *group;
} row;

static void place(row *rows, uint32_t *n, uint32_t most, const row *r)
{
    if (most == 0)
        return;
    const row *last = *n ? &rows[*n - 1] : NULL;
    if (*n == most && (r->key < last->key || (r->key == last->key && r->second <= last->second)))
        return;
    uint32_t at = *n < most ? (*n)++ : *n - 1;
    for (; at > 0 && (rows[at - 1].key < r->key || (rows[at - 1].key == r->key && rows[at - 1].second < r->second)); at--)
        rows[at] = rows[at - 1];
    rows[at] = *r;
}

static void set(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static double resident_kb(void)
{
    char text[128] = "";
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    const char *read = fgets(text, sizeof text, f);
    fclose(f);
    const char *second = read ? strchr(text, ' ') : NULL;
    return second ? strtod(second, NULL) * (double)sysconf(_SC_PAGESIZE) / 1024 : 0;
}

/* top_look(view, by behaviour, key, rows, part) -> rows, how many there are in all, { busy = share of each worker of the
 * default dispatcher, queued =, seconds = of a window that has just ended, or 0, resident_kb = } */
static int l_top_look(lua_State *L)
{
    static const char *const keys[] = {"depth", "rate", "time", "restarts", "age", "actors", NULL};
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = x->rt;
    view *v = luaL_checkudata(L, 1, "pierrot.view");
    bool grouped = lua_toboolean(L, 2);
    enum key key = (enum key)luaL_checkoption(L, 3, NULL, keys);
    uint32_t most = (uint32_t)luaL_checkinteger(L, 4), n = 0;
    const char *part = luaL_optstring(L, 5, "");
    most = most > ROWS ? ROWS : most;
    row *rows = lua_newuserdata(L, (most + 1) * sizeof *rows);
    uint32_t slots = atomic_load_explicit(&rt->actors.slots, memory_order_acquire);
    if (!fit(v, slots))
        return luaL_error(L, "not enough memory");
    if (strncmp(part, v->filter, FILTER - 1) != 0) {
        snprintf(v->filter, sizeof v->filter, "%s", part);
        for (uint32_t i = 0; i < v->slot_count; i++)
            v->slots[i].checked = 0;
    }
    v->picture++;
    uint64_t now_ns = pr_now_ns(), now_ms = pr_clock_ns(rt) / 1000000;
    bool first = v->window_ns == 0, rolls = first || now_ns - v->window_ns >= WINDOW_MS * UINT64_C(1000000);
    double seconds = rolls && !first ? (double)(now_ns - v->window_ns) / 1e9 : 0, total = 0, samples = v->samples ? v->samples : 1;
    if (rolls)
        v->window_ns = now_ns;
    v->group_count = 0;
    if (v->groups)
        memset(v->groups, 0, (v->groups_mask + 1) * sizeof *v->groups);
    for (uint32_t slot = 0; slot < slots; slot++) {
        pr_actor *a = pr_actor_slot(&rt->actors, slot);
        seen *s = &v->slots[slot];
        uint64_t id = a ? atomic_load_explicit(&a->id, memory_order_acquire) : 0;
        if (id == 0 || PR_GET(a->home) == PR_HOME_PORT) {
            s->id = 0;
            continue;
        }
        uint32_t handled = (uint32_t)PR_GET(a->handled);
        if (s->id != id)
            *s = (seen){.id = id, .handled = first ? handled : 0};   /* of the new ones all is new */
        if (rolls) {
            s->rate = seconds > 0 ? (float)((handled - s->handled) / seconds) : 0;
            s->time = (float)(s->hits / samples);
            s->handled = handled;
            s->hits = 0;
        }
        row r = {.id = id, .rate = s->rate, .time = s->time};
        if (!passes(rt, v, s, slot))
            continue;
        double depth = pr_actor_depth(rt, a);
        if (grouped) {
            group *g = group_of(v, PR_GET(a->behaviour), id);
            if (!g)
                return luaL_error(L, "not enough memory");
            g->actors++;
            g->depth += depth;
            g->deepest = depth > g->deepest ? depth : g->deepest;
            g->rate += r.rate;
            g->time += r.time;
            g->restarts += PR_GET(a->restarts);
            double age = (double)(now_ms - PR_GET(a->born_ms));
            g->oldest = age > g->oldest ? age : g->oldest;
            continue;
        }
        total++;
        r.key = key == BY_DEPTH ? depth : key == BY_RATE ? r.rate : key == BY_TIME ? r.time
              : key == BY_RESTARTS ? PR_GET(a->restarts) : key == BY_AGE ? -(double)PR_GET(a->born_ms) : 0;
        r.second = key == BY_RATE ? depth : r.rate;
        place(rows, &n, most, &r);
    }
    for (uint32_t i = 0; grouped && v->groups && i <= v->groups_mask; i++) {
        const group *g = &v->groups[i];
        if (!g->one)
            continue;
        total++;
        row r = {.id = g->one, .rate = g->rate, .time = g->time, .group = g};
        r.key = key == BY_DEPTH ? g->depth : key == BY_RATE ? g->rate : key == BY_TIME ? g->time
              : key == BY_RESTARTS ? g->restarts : key == BY_AGE ? g->oldest : g->actors;
        r.second = key == BY_RATE ? g->depth : g->rate;
        place(rows, &n, most, &r);
    }
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0, shown = 0; i < n; i++) {
        pr_actor *a = pr_actor_find(&rt->actors, rows[i].id);
        if (!a)
            continue;   /* it has ended meanwhile */
        pr_lua_push_info(L, rt, a, rows[i].id, false);
        set(L, "rate", rows[i].rate);
        set(L, "time", rows[i].time);
        const group *g = rows[i].group;
        if (g) {
            set(L, "actors", g->actors);
            set(L, "depth", g->depth);
            set(L, "deepest", g->deepest);
            set(L, "restarts", g->restarts);
            set(L, "age", g->oldest / 1000);
        }
        lua_rawseti(L, -2, (int)++shown);
    }
    lua_pushnumber(L, total);
    lua_createtable(L, 0, 4);
    const pr_dispatcher *d = &rt->dispatchers[PR_DISPATCHER_DEFAULT];
    double queued = PR_GET(d->global.count);
    lua_createtable(L, (int)d->count, 0);
    for (uint32_t i = 0; rolls && i < v->worker_count; i++) {
        v->busy[i] = v->worker_hits[i] / samples;
        v->worker_hits[i] = 0;
    }
    if (rolls)
        v->samples = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        queued += pr_ring_count(&d->workers[i].ring) + PR_GET(d->workers[i].spill.count);
        lua_pushnumber(L, v->busy[d->first + i]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_setfield(L, -2, "busy");
    set(L, "queued", queued);
    set(L, "seconds", seconds);
    set(L, "resident_kb", resident_kb());
    return 3;
}

void pr_lua_open_top(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"top_view", l_top_view}, {"top_sample", l_top_sample}, {"top_look", l_top_look}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    luaL_newmetatable(L, "pierrot.view");
    lua_pushcfunction(L, l_view_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
