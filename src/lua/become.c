/* become and unbecome: what handles an actor's next messages.
 *
 * The record's `behaviour` is the present one, so that a message finds its handler as ever; those below it, the
 * spawned one first, hang off pr_extra. What `become` is given lives in this state only: a private pr_behaviour
 * and its pr_loaded, which end when no actor uses them. The last few are kept, by the identity of the table or
 * function, since programs go to and fro between a few. Only `on` and `receive` are taken from it: `stop`, `supervise`
 * and the name stay those of spawn. */
#include "border.h"

#include "../alloc.h"

enum { MOST_BELOW = 1000 };

static void give_up(pr_lua *x, pr_behaviour *b)
{
    if (b->is_private && atomic_load_explicit(&b->references, memory_order_relaxed) == 1)   /* this thread's alone */
        pr_lua_unload(x, b->index);
    pr_behaviour_drop(&x->rt->behaviours, b);
}

static pr_behaviour *known(pr_lua *x, const void *identity)
{
    for (int i = 0; i < PR_LUA_BECOMES; i++)
        if (x->becomes[i].identity == identity)
            return x->becomes[i].behaviour;
    return NULL;
}

/* Loads the behaviour at index 3, known by the value at index 1. Raises. */
static pr_behaviour *load(lua_State *L, pr_lua *x)
{
    char name[128];
    pr_actor_behaviour_name(x->rt, PR_GET(x->w->running->id), name, sizeof name);
    pr_behaviour *b = pr_behaviour_private(&x->rt->behaviours, name);
    if (!b)
        pr_lua_raise(L, 2, "not enough memory to become something else");
    struct pr_lua_become *place = &x->becomes[x->become_at++ % PR_LUA_BECOMES];
    if (place->behaviour)
        give_up(x, place->behaviour);
    place->identity = NULL;   /* held, but not to be found: loading may raise for want of memory */
    place->behaviour = b;     /* with the reference of its birth */
    lua_pushvalue(L, 3);
    if (!pr_lua_load_private(L, x, b)) {
        place->behaviour = NULL;
        pr_behaviour_drop(&x->rt->behaviours, b);
        pr_lua_raise(L, 2, "not enough memory to become something else");
    }
    place->identity = lua_topointer(L, 1);
    return b;
}

/* The present one goes; `b`, with a reference, takes its place. */
static void replace(pr_lua *x, pr_actor *a, pr_behaviour *b)
{
    pr_behaviour *old = PR_GET(a->behaviour);
    PR_SET(a->behaviour, b);
    give_up(x, old);
}

/* become(value, replace the present one, nil or the behaviour made of it) -> whether the value was known, or has
 * been loaded */
static int l_become(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = x->w->running;
    if (!a)
        return pr_lua_raise(L, 2, "become: no actor is running here");
    lua_settop(L, 3);
    pr_behaviour *b = known(x, lua_topointer(L, 1));
    if (!b && lua_isnil(L, 3)) {
        lua_pushboolean(L, 0);
        return 1;
    }
    if (!b)
        b = load(L, x);
    pr_extra *extra = pr_actor_extra(a);
    if (!extra)
        return pr_lua_raise(L, 2, "not enough memory to become something else");
    pr_behaviour_hold(b);
    if (lua_toboolean(L, 2) && extra->below_count > 0) {
        replace(x, a, b);
    } else {
        const char *problem = extra->below_count >= MOST_BELOW ? "become: 1000 behaviours lie on each other: call unbecome, "
                                                                 "or replace the present one (become(b, true))"
                                                               : NULL;
        if (!problem && extra->below_count == extra->below_capacity) {
            uint32_t capacity = extra->below_capacity ? 2 * extra->below_capacity : 4;
            pr_behaviour **grown = pr_realloc(extra->below, capacity * sizeof *grown);
            if (grown) {
                extra->below = grown;
                extra->below_capacity = capacity;
            } else {
                problem = "not enough memory to become something else";
            }
        }
        if (problem) {
            give_up(x, b);
            return pr_lua_raise(L, 2, "%s", problem);
        }
        extra->below[extra->below_count++] = PR_GET(a->behaviour);
        PR_SET(a->behaviour, b);
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* unbecome() -> whether there was one below */
static int l_unbecome(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = x->w->running;
    if (!a)
        return pr_lua_raise(L, 1, "unbecome: no actor is running here");
    bool below = a->extra && a->extra->below_count > 0;
    if (below)
        replace(x, a, a->extra->below[--a->extra->below_count]);
    lua_pushboolean(L, below);
    return 1;
}

void pr_lua_become_end(pr_lua *x, pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (!extra || !extra->below)
        return;
    while (extra->below_count > 0)
        replace(x, a, extra->below[--extra->below_count]);
    pr_free(extra->below);
    extra->below = NULL;
    extra->below_capacity = 0;
}

void pr_lua_close_becomes(pr_lua *x)
{
    for (int i = 0; i < PR_LUA_BECOMES; i++)
        if (x->becomes[i].behaviour)
            pr_behaviour_drop(&x->rt->behaviours, x->becomes[i].behaviour);
}

void pr_lua_open_become(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"become", l_become}, {"unbecome", l_unbecome}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
