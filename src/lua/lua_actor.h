/* What the files about Lua actors share: lua_actor.c (running handlers), handles.c (what C keeps), loaded.c (behaviours),
 * failing.c. */
#ifndef PR_LUA_ACTOR_H
#define PR_LUA_ACTOR_H

#include "border.h"

static inline pr_lua *pr_lua_at(pr_worker *w) { return w->state; }

/* --- lua_actor.c: coroutines, at base level */

pr_co *pr_co_take(pr_lua *x);                /* NULL: no memory */
void pr_co_give(pr_lua *x, pr_co *co);       /* has finished */
void pr_co_drop(pr_lua *x, pr_co *co);       /* has raised, or will not go on */
/* A reference to a C function with the context as upvalue, for protected calls. Raises. */
int pr_lua_anchor(lua_State *L, pr_lua *x, lua_CFunction f);

/* --- handles.c */

uint32_t pr_lua_keep(lua_State *L, pr_lua *x);        /* what is on top, popped. Raises */
void pr_lua_unkeep(pr_lua *x, uint32_t handle);
uint32_t pr_lua_keep_self(lua_State *L, pr_lua *x);   /* the same for an actor's self */
void pr_lua_push_self(lua_State *L, pr_lua *x, uint32_t self);
void pr_lua_drop_self(pr_lua *x, uint32_t self);      /* allocates nothing: also from within compiled code */
/* The same, but that of one actor may stay until the next one is reserved, which takes its place, or the worker is idle. */
void pr_lua_leave_self(pr_lua *x, uint32_t self);
uint32_t pr_lua_reserve_self(pr_lua *x);              /* a place for one, whose page is there; 0: there is none. The same */
void pr_lua_set_self(lua_State *L, pr_lua *x, uint32_t self);   /* what is on top, popped, is put there */
pr_lua_place pr_lua_place_of(uint32_t self);          /* where compiled code finds it */
void pr_lua_open_handles(lua_State *L, pr_lua *x);
void pr_lua_close_handles(pr_lua *x);

/* --- loaded.c */

/* Loads the behaviour it was spawned with if this state has not. Raises. */
pr_loaded *pr_loaded_load(lua_State *L, pr_lua *x, pr_actor *a);
/* The handler of `b` that takes `m`, 0: none; *skip: the values before its own. Calls nothing of Lua. */
uint32_t pr_loaded_handler(pr_loaded *b, const pr_msg *m, uint32_t *skip);
/* A name as a message begins with it: a tag, 32 bits for the length, the name. `head`: its first 8 bytes, `tail`: those up to its
 * end; of a short name they are all of it. */
enum { PR_NAME_AT = 5, PR_NAME_SHORT = 11, PR_NAME_SHORTEST = 3 /* of those that fill `head` */ };
static inline void pr_name_ends(const uint8_t *image, uint32_t len, uint64_t *head, uint64_t *tail)
{
    *head = *tail = 0;
    if (len >= PR_NAME_SHORTEST) {
        memcpy(head, image, 8);
        memcpy(tail, image + PR_NAME_AT + len - 8, 8);
    } else {
        memcpy(head, image, PR_NAME_AT);
        for (uint32_t i = 0; i < len; i++)
            *head |= (uint64_t)image[PR_NAME_AT + i] << 8 * (PR_NAME_AT + i);
    }
}
/* Where the search for it begins. Odd constants with well mixed bits; the upper half of the product is the mixed one. */
static inline uint32_t pr_name_place(const pr_loaded *b, uint64_t head, uint64_t tail)
{
    return (uint32_t)((head ^ tail * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93) >> 32) & b->names_mask;
}
/* Loads a version that nobody has yet. Raises what its code raises. */
void pr_lua_load_staged(lua_State *L, pr_lua *x, pr_behaviour *behaviour);
/* The function of a handle, as a behaviour that is `receive` alone; its handle. Raises. */
uint32_t pr_lua_load_function(lua_State *L, pr_lua *x, pr_behaviour *function);
void pr_lua_close_loaded(pr_lua *x);

static inline pr_loaded *pr_loaded_of(pr_lua *x, pr_actor *a) { return &x->loaded[PR_GET(a->behaviour)->index]; }

/* The behaviour it was spawned with, whatever it has become. */
static inline pr_loaded *pr_loaded_spawned(pr_lua *x, pr_actor *a)
{
    return a->extra && a->extra->below_count > 0 ? &x->loaded[a->extra->below[0]->index] : pr_loaded_of(x, a);
}

/* pr_kin_ops.ends_silently */
bool pr_lua_ends_silently(pr_worker *w, pr_actor *a);
/* pr_kin_ops.place */
void pr_lua_handler_at(pr_worker *w, pr_actor *a, const pr_msg *m, char *buf, size_t cap);

/* --- failing.c */

extern const pr_kin_ops pr_lua_kin;
/* The error value lies on top of co's stack: worker.failure. */
pr_outcome pr_lua_failed(pr_worker *w, pr_lua *x, pr_co *co);
/* A text lies on top of the main stack, and is popped. */
pr_outcome pr_lua_failed_with_text(pr_worker *w, pr_lua *x);
void pr_lua_open_failing(lua_State *L, pr_lua *x);

#endif
