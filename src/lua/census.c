/* Looking over all actors, for people: who has the deepest mailbox, who has started whom. Snapshots, like those of
 * inspect.c, and bounded: what is returned has as many rows as asked for, however many actors there are. */
#include "border.h"

#include <string.h>

/* family(ref or nil: the root, most) -> the youngest children in the order of their birth, how many there are */
static int l_family(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint32_t most = (uint32_t)luaL_checkinteger(L, 2);
    if (!lua_isnil(L, 1)) {
        uint64_t id = pr_lua_target(L, x, 1, "family", 1);
        pr_actor *a = pr_actor_find(&rt->actors, id);
        uint32_t count = a ? PR_GET(a->children) : 0;
        pr_lua_push_family(L, rt, a ? PR_GET(a->first_child) : 0, most < count + 16 ? most : count + 16, id);
        lua_pushnumber(L, count);
        return 2;
    }
    pthread_mutex_lock(&rt->root_lock);   /* for the count and the first link: the walk is as careful as any */
    uint32_t first = PR_GET(rt->root_first), count = rt->root_children;
    pthread_mutex_unlock(&rt->root_lock);
    pr_lua_push_family(L, rt, first, most < count + 16 ? most : count + 16, 0);
    lua_pushnumber(L, count);
    return 2;
}

/* --- all actors */

typedef struct place { double key; uint64_t id; } place;

bool pr_lua_actor_matches(pr_runtime *rt, uint64_t id, const char *part)
{
    char text[256];
    size_t len = pr_registry_name_of(&rt->names, id, text, sizeof text - 1);
    text[len < sizeof text ? len : sizeof text - 1] = 0;
    if (len && strstr(text, part))
        return true;
    pr_actor_behaviour_name(rt, id, text, sizeof text);
    return strstr(text, part) != NULL;
}

static double key_of(pr_runtime *rt, pr_actor *a, int key)
{
    switch (key) {
    case 0: return pr_actor_depth(rt, a);
    case 1: return (double)PR_GET(a->handled);
    case 2: return PR_GET(a->restarts);
    case 3: return -(double)PR_GET(a->born_ms);
    default: return PR_GET(a->children);
    }
}

/* census(key, most, part or nil) -> a row (see push_info) for each of the `most` actors with the highest key, how many
 * there are with `part` in their name or behaviour. One walk over all records, without a lock. */
static int l_census(lua_State *L)
{
    static const char *const keys[] = {"depth", "processed", "restarts", "age", "children", NULL};
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    int key = luaL_checkoption(L, 1, NULL, keys);
    uint32_t most = (uint32_t)luaL_checkinteger(L, 2), n = 0;
    const char *part = luaL_optstring(L, 3, NULL);
    place *places = lua_newuserdata(L, (most + 1) * sizeof *places);
    uint32_t slots = atomic_load_explicit(&rt->actors.slots, memory_order_acquire);
    double total = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        pr_actor *a = pr_actor_slot(&rt->actors, slot);
        uint64_t id = a ? atomic_load_explicit(&a->id, memory_order_acquire) : 0;
        if (id == 0 || PR_GET(a->home) == PR_HOME_PORT || (part && !pr_lua_actor_matches(rt, id, part)))
            continue;
        total++;
        place p = {key_of(rt, a, key), id};
        if (n == most && (n == 0 || p.key <= places[n - 1].key))
            continue;
        uint32_t at = n < most ? n++ : n - 1;
        for (; at > 0 && places[at - 1].key < p.key; at--)
            places[at] = places[at - 1];
        places[at] = p;
    }
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0, row = 0; i < n; i++) {
        pr_actor *a = pr_actor_find(&rt->actors, places[i].id);
        if (!a)
            continue;   /* it has ended meanwhile */
        pr_lua_push_info(L, rt, a, places[i].id, false);
        lua_rawseti(L, -2, (int)++row);
    }
    lua_pushnumber(L, total);
    return 2;
}

void pr_lua_open_census(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"family", l_family}, {"census", l_census}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
}
