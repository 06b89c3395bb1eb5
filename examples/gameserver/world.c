/* See world.h. */
#include "world.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELL = 8, CELLS = WORLD_SIDE / CELL };

typedef struct entity {
    _Atomic uint64_t place;          /* relaxed: two floats that say nothing of anything else */
    _Atomic uint64_t ref;            /* relaxed: an id, whose bearer the runtime knows */
    _Atomic uint8_t kind;            /* relaxed, for the same reason */
} entity;

struct world {
    char map[WORLD_SIDE * WORLD_SIDE];   /* '#': a wall. Never changes */
    entity entities[WORLD_MOST + 1];     /* by number */
    uint64_t random;                     /* the host's */
    pthread_rwlock_t lock;               /* guards the index: */
    uint16_t order[WORLD_MOST];          /* numbers, cell by cell */
    uint32_t first[CELLS * CELLS + 1];   /* where each cell begins in it */
    bool measuring;
    _Atomic uint64_t longest_ns;
};

static uint64_t draw(uint64_t *random)   /* splitmix64 */
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool wall(const world *w, float x, float y)
{
    if (!(x >= 0 && y >= 0 && x < WORLD_SIDE && y < WORLD_SIDE))
        return true;
    return w->map[(int)y * WORLD_SIDE + (int)x] == '#';
}

/* --- the host's */

world *world_new(uint64_t seed)
{
    world *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    if (pthread_rwlock_init(&w->lock, NULL) != 0) {
        free(w);
        return NULL;
    }
    w->random = seed;
    for (int y = 0; y < WORLD_SIDE; y++)
        for (int x = 0; x < WORLD_SIDE; x++)
            w->map[y * WORLD_SIDE + x] = x == 0 || y == 0 || x == WORLD_SIDE - 1 || y == WORLD_SIDE - 1 ? '#' : '.';
    for (int i = 0; i < 400; i++) {   /* pieces of wall, this way or that */
        int at = (int)(draw(&w->random) % (WORLD_SIDE * WORLD_SIDE)), step = i % 2 ? 1 : WORLD_SIDE;
        for (int n = 0; n < 8 && at < WORLD_SIDE * WORLD_SIDE; n++, at += step)
            w->map[at] = '#';
    }
    return w;
}

void world_free(world *w)
{
    if (!w)
        return;
    pthread_rwlock_destroy(&w->lock);
    free(w);
}

static void put(world *w, uint32_t id, float x, float y)
{
    float both[2] = {x, y};
    uint64_t place;
    memcpy(&place, both, sizeof place);
    atomic_store_explicit(&w->entities[id].place, place, memory_order_relaxed);
}

uint32_t world_add(world *w, world_kind kind)
{
    uint32_t id = 1;
    while (id <= WORLD_MOST && world_kind_of(w, id) != WORLD_NOBODY)
        id++;
    if (id > WORLD_MOST)
        return 0;
    uint32_t tile;
    do
        tile = (uint32_t)(draw(&w->random) % (WORLD_SIDE * WORLD_SIDE));
    while (w->map[tile] == '#');
    put(w, id, (float)(tile % WORLD_SIDE) + 0.5f, (float)(tile / WORLD_SIDE) + 0.5f);
    atomic_store_explicit(&w->entities[id].ref, 0, memory_order_relaxed);
    atomic_store_explicit(&w->entities[id].kind, (uint8_t)kind, memory_order_relaxed);
    return id;
}

void world_set_ref(world *w, uint32_t id, pierrot_ref ref)
{
    atomic_store_explicit(&w->entities[id].ref, ref.id, memory_order_relaxed);
}

void world_remove(world *w, uint32_t id)
{
    atomic_store_explicit(&w->entities[id].kind, WORLD_NOBODY, memory_order_relaxed);
    atomic_store_explicit(&w->entities[id].ref, 0, memory_order_relaxed);
}

uint32_t world_find(const world *w, pierrot_ref ref)
{
    for (uint32_t id = 1; id <= WORLD_MOST; id++)
        if (world_kind_of(w, id) != WORLD_NOBODY && atomic_load_explicit(&w->entities[id].ref, memory_order_relaxed) == ref.id)
            return id;
    return 0;
}

pierrot_ref world_ref(const world *w, uint32_t id)
{
    return (pierrot_ref){atomic_load_explicit(&w->entities[id].ref, memory_order_relaxed)};
}

static int cell_of(const world *w, uint32_t id)
{
    float x, y;
    world_place(w, id, &x, &y);
    return (int)y / CELL * CELLS + (int)x / CELL;
}

/* A counting sort. Entities move meanwhile: each one's cell is looked up once. */
void world_index(world *w)
{
    _Static_assert(CELLS * CELLS <= UINT16_MAX, "a cell's number fits");
    uint16_t cells[WORLD_MOST];
    uint32_t counts[CELLS * CELLS] = {0}, at = 0;
    for (uint32_t id = 1; id <= WORLD_MOST; id++)
        if (world_kind_of(w, id) != WORLD_NOBODY)
            counts[cells[id - 1] = (uint16_t)cell_of(w, id)]++;
        else
            cells[id - 1] = UINT16_MAX;
    pthread_rwlock_wrlock(&w->lock);
    for (int cell = 0; cell < CELLS * CELLS; cell++) {
        w->first[cell] = at;
        at += counts[cell];
        counts[cell] = w->first[cell];
    }
    w->first[CELLS * CELLS] = at;
    for (uint32_t id = 1; id <= WORLD_MOST; id++)
        if (cells[id - 1] != UINT16_MAX)
            w->order[counts[cells[id - 1]]++] = (uint16_t)id;
    pthread_rwlock_unlock(&w->lock);
}

/* --- anybody's */

world_kind world_kind_of(const world *w, uint32_t id)
{
    return (world_kind)atomic_load_explicit(&w->entities[id].kind, memory_order_relaxed);
}

void world_place(const world *w, uint32_t id, float *x, float *y)
{
    uint64_t place = atomic_load_explicit(&w->entities[id].place, memory_order_relaxed);
    float both[2];
    memcpy(both, &place, sizeof both);
    *x = both[0];
    *y = both[1];
}

static int clamp(float at)
{
    return at < 0 ? 0 : at >= WORLD_SIDE ? CELLS - 1 : (int)at / CELL;
}

/* Calls `each` for everybody within the radius, in the order of cells. */
static void around(world *w, uint32_t id, float radius, void (*each)(void *context, uint32_t other, float distance2), void *context)
{
    float x, y, ox, oy;
    world_place(w, id, &x, &y);
    pthread_rwlock_rdlock(&w->lock);
    for (int row = clamp(y - radius); row <= clamp(y + radius); row++)
        for (int column = clamp(x - radius); column <= clamp(x + radius); column++)
            for (uint32_t i = w->first[row * CELLS + column]; i < w->first[row * CELLS + column + 1]; i++) {
                uint32_t other = w->order[i];
                world_place(w, other, &ox, &oy);
                float distance2 = (ox - x) * (ox - x) + (oy - y) * (oy - y);
                if (other != id && distance2 <= radius * radius)
                    each(context, other, distance2);
            }
    pthread_rwlock_unlock(&w->lock);
}

typedef struct list {
    uint32_t *ids, count, most;
} list;

static void into_list(void *context, uint32_t other, float distance2)
{
    list *l = context;
    (void)distance2;
    if (l->count < l->most)
        l->ids[l->count++] = other;
}

uint32_t world_near(world *w, uint32_t id, float radius, uint32_t *near, uint32_t most)
{
    list l = {near, 0, most};
    around(w, id, radius, into_list, &l);
    return l.count;
}

/* --- the module "world" */

static world *world_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

static uint32_t check_id(lua_State *L, int index)
{
    lua_Integer id = luaL_checkinteger(L, index);
    luaL_argcheck(L, id >= 1 && id <= WORLD_MOST, index, "an entity's number expected");
    return (uint32_t)id;
}

/* x, y = world.place(id) */
static int place(lua_State *L)
{
    float x, y;
    world_place(world_of(L), check_id(L, 1), &x, &y);
    lua_pushnumber(L, x);
    lua_pushnumber(L, y);
    return 2;
}

/* A step, less than a tile each way, so that it goes through no wall. */
static float step(lua_State *L, int index)
{
    double d = luaL_checknumber(L, index);
    return d > 0.9 ? 0.9f : d < -0.9 ? -0.9f : d == d ? (float)d : 0;
}

/* x, y, free = world.move(id, dx, dy): along walls, not through them. For the entity's own actor. */
static int move(lua_State *L)
{
    world *w = world_of(L);
    uint32_t id = check_id(L, 1);
    float x, y, dx = step(L, 2), dy = step(L, 3);
    world_place(w, id, &x, &y);
    bool across = !wall(w, x + dx, y);
    if (across)
        x += dx;
    bool along = !wall(w, x, y + dy);
    if (along)
        y += dy;
    put(w, id, x, y);
    lua_pushnumber(L, x);
    lua_pushnumber(L, y);
    lua_pushboolean(L, across && along);
    return 3;
}

typedef struct nearest_of {
    const world *w;
    world_kind kind;
    uint32_t id;
    float distance2;
} nearest_of;

static void take_nearest(void *context, uint32_t other, float distance2)
{
    nearest_of *n = context;
    if (world_kind_of(n->w, other) == n->kind && (n->id == 0 || distance2 < n->distance2)) {
        n->id = other;
        n->distance2 = distance2;
    }
}

static world_kind check_kind(lua_State *L, int index)
{
    static const char *const names[] = {"wanderer", "guard", "player", NULL};
    return (world_kind)(WORLD_WANDERER + luaL_checkoption(L, index, NULL, names));
}

/* other, x, y = world.nearest(id, radius, kind); nothing when there is none */
static int nearest(lua_State *L)
{
    world *w = world_of(L);
    uint32_t id = check_id(L, 1);
    nearest_of n = {.w = w, .kind = check_kind(L, 3)};
    float x, y;
    around(w, id, (float)luaL_checknumber(L, 2), take_nearest, &n);
    if (n.id == 0)
        return 0;
    world_place(w, n.id, &x, &y);
    lua_pushinteger(L, (lua_Integer)n.id);
    lua_pushnumber(L, x);
    lua_pushnumber(L, y);
    return 3;
}

/* ref = world.ref(id); nil for nobody */
static int ref(lua_State *L)
{
    pierrot_push_ref(L, world_ref(world_of(L), check_id(L, 1)));
    return 1;
}

/* The map as a string, row by row, world.side tiles in each: '#' is a wall. */
static int map(lua_State *L)
{
    const world *w = world_of(L);
    lua_pushlstring(L, w->map, sizeof w->map);
    return 1;
}

/* Nanoseconds that this thread has worked: what others do meanwhile does not count. */
static int clock_now(lua_State *L)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    lua_pushnumber(L, (double)t.tv_sec * 1e9 + (double)t.tv_nsec);
    return 1;
}

/* Notes how long a handler took, in nanoseconds. */
static int took(lua_State *L)
{
    world *w = world_of(L);
    uint64_t ns = (uint64_t)luaL_checknumber(L, 1), most = atomic_load_explicit(&w->longest_ns, memory_order_relaxed);
    while (ns > most && !atomic_compare_exchange_weak_explicit(&w->longest_ns, &most, ns, memory_order_relaxed, memory_order_relaxed))
        ;
    return 0;
}

static int open_module(lua_State *L)
{
    static const struct { const char *name; lua_CFunction function; } functions[] = {
        {"place", place}, {"move", move}, {"nearest", nearest}, {"ref", ref}, {"map", map}, {"clock", clock_now}, {"took", took}};
    world *w = lua_touserdata(L, lua_upvalueindex(1));
    lua_newtable(L);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        lua_pushlightuserdata(L, w);
        lua_pushcclosure(L, functions[i].function, 1);
        lua_setfield(L, -2, functions[i].name);
    }
    lua_pushinteger(L, WORLD_SIDE);
    lua_setfield(L, -2, "side");
    lua_pushboolean(L, w->measuring);
    lua_setfield(L, -2, "measuring");
    return 1;
}

void world_open(world *w, lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushlightuserdata(L, w);
    lua_pushcclosure(L, open_module, 1);
    lua_setfield(L, -2, "world");
    lua_pop(L, 2);
}

void world_measure(world *w) { w->measuring = true; }

uint64_t world_longest_ns(world *w) { return atomic_exchange_explicit(&w->longest_ns, 0, memory_order_relaxed); }
