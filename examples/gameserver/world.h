/* The world: a map with walls, and who is where on it.
 *
 * Places live here, in C, and not in the actors: so everybody can look at everybody without a message. An entity's place is
 * moved by its own actor alone; all others read it, as one word, so never a half of it. The index of who is near is made
 * anew by the host once a tick, under a lock that readers share: it is a tick old, which nobody minds. */
#ifndef WORLD_H
#define WORLD_H

#include <pierrot.h>

enum {
    WORLD_SIDE = 128,        /* tiles, each way; tile (x, y) holds the places from x to x + 1, y to y + 1 */
    WORLD_MOST = 8192        /* entities */
};

typedef enum world_kind {
    WORLD_NOBODY,
    WORLD_WANDERER,
    WORLD_GUARD,
    WORLD_PLAYER
} world_kind;

typedef struct world world;

/* The map follows from the seed. NULL: no memory. */
world *world_new(uint64_t seed);
void world_free(world *w);

/* The host's thread alone. An entity's number counts from 1; 0: there are as many as there may be. */
uint32_t world_add(world *w, world_kind kind);
void world_set_ref(world *w, uint32_t id, pierrot_ref ref);
void world_remove(world *w, uint32_t id);
uint32_t world_find(const world *w, pierrot_ref ref);   /* 0: nobody */
pierrot_ref world_ref(const world *w, uint32_t id);
void world_index(world *w);

/* Any thread. */
world_kind world_kind_of(const world *w, uint32_t id);
void world_place(const world *w, uint32_t id, float *x, float *y);
/* Who is at most `radius` away, but `id` itself: their numbers into `near`; returns how many, `most` at the most. */
uint32_t world_near(world *w, uint32_t id, float radius, uint32_t *near, uint32_t most);

/* For pierrot_config.open_state: gives scripts the module "world". */
void world_open(world *w, struct lua_State *L);

/* From now on scripts measure their handlers; call it before the states are opened. */
void world_measure(world *w);
/* The longest that has been measured since the last call of this, in nanoseconds of the thread's own time. */
uint64_t world_longest_ns(world *w);

#endif
