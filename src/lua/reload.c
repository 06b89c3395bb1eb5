/* Newer versions of behaviours: the C half of lua/pierrot/reload.lua and reloader.lua.
 *
 * A newer version is a behaviour of its own. A worker loads it (stage), all workers that can have, it supersedes the older
 * ones for the whole runtime (supersede), and each worker then marks what it has loaded of those (install). From there on:
 *
 * * an actor takes it with its next message, when the handler for that is looked for. What runs or is suspended goes on
 *   as it began, since a handler is a function that is called once;
 * * a life that begins takes the newest there is;
 * * an actor that gets no message keeps what it has, `stop` included, and takes the newest one later, not those between.
 *
 * If the new version has `upgrade`, the handler found is x->upgrading, a function of the Lua half, which calls core.upgrade
 * for that and then the real handler: so all of it is one handler, with one message in hand. */
#include "lua_actor.h"

#include <stdlib.h>

uint32_t pr_lua_newer_handler(pr_lua *x, pr_actor *a, pr_loaded *b, const pr_msg *m, uint32_t *skip)
{
    pr_behaviours *t = &x->rt->behaviours;
    pr_behaviour *from = PR_GET(a->behaviour), *to = b->successor;
    pr_loaded *newer = &x->loaded[to->index];   /* our reference to `to` keeps its place */
    uint32_t handler = pr_loaded_handler(newer, m, skip);
    if (handler == 0)
        return 0;   /* a dead letter of the new version; the actor takes it with a message that has a handler */
    pr_behaviour_hold(to);
    PR_SET(a->behaviour, to);
    if (newer->upgrade == 0) {
        pr_behaviour_drop(t, from);
        return handler;
    }
    if (x->upgrade_from)   /* of a message whose values there was no memory for */
        pr_behaviour_drop(t, x->upgrade_from);
    x->upgrade_from = from;
    x->upgrade = newer->upgrade;
    x->upgraded_handler = handler;
    return x->upgrading;
}

/* upgrade(self) -> the handler in whose place the caller runs. Calls the behaviour's `upgrade`, through which nothing can
 * be waited for: a reentrant actor takes no message in between. Raises what that raises. */
static int l_upgrade(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviour *from = x->upgrade_from;
    uint32_t upgrade = x->upgrade, handler = x->upgraded_handler;
    lua_settop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_rawgeti(L, 2, (int)upgrade);
    lua_pushvalue(L, 1);
    pr_lua_push_version(L, x->rt, from);
    x->upgrade_from = NULL;
    pr_behaviour_drop(&x->rt->behaviours, from);
    lua_call(L, 2, 0);
    lua_rawgeti(L, 2, (int)handler);
    return 1;
}

void pr_lua_push_version(lua_State *L, pr_runtime *rt, pr_behaviour *b)
{
    char text[256];
    if (pr_behaviour_version(&rt->behaviours, b, text, sizeof text))
        lua_pushnumber(L, strtod(text, NULL));
    else
        lua_pushstring(L, text);
}

/* upgrading(function) */
static int l_upgrading(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_settop(L, 1);
    x->upgrading = pr_lua_keep(L, x);
    return 0;
}

/* --- a reload, step by step; handles are those of core.intern */

/* versions() -> { { handle, bytes, name, what people see }... }: all behaviours but those that are superseded */
static int l_versions(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviours *t = &pr_lua_runtime(L, x, 1)->behaviours;
    size_t most = pr_behaviours_list(t, NULL, 0) + 16;
    pr_behaviour **found = lua_newuserdata(L, most * sizeof *found);
    size_t n = pr_behaviours_list(t, found, most);
    char name[256];
    if (n > most)
        n = most;   /* born this moment: they find what is in place by then */
    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        const pr_behaviour *b = found[i];
        lua_createtable(L, 4, 0);
        pr_lua_push_behaviour(L, x, found[i]);
        lua_rawseti(L, -2, 1);
        lua_pushlstring(L, (const char *)b->bytes, b->size);
        lua_rawseti(L, -2, 2);
        lua_pushstring(L, b->name);
        lua_rawseti(L, -2, 3);
        pr_behaviour_shown(t, b, name, sizeof name);
        lua_pushstring(L, name);
        lua_rawseti(L, -2, 4);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/* newest(handle) -> handle of its newest version */
static int l_newest(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_push_behaviour(L, x, pr_behaviour_newest(&pr_lua_runtime(L, x, 1)->behaviours, pr_lua_behaviour_of(L, 1)));
    return 1;
}

/* bytes_of(handle) -> its bytes, its name */
static int l_bytes_of(lua_State *L)
{
    const pr_behaviour *b = pr_lua_behaviour_of(L, 1);
    lua_pushlstring(L, (const char *)b->bytes, b->size);
    lua_pushstring(L, b->name);
    return 2;
}

/* serial() -> a number, higher than those before */
static int l_serial(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_pushnumber(L, pr_behaviours_serial(&pr_lua_runtime(L, x, 1)->behaviours));
    return 1;
}

/* without_waiting(function): calls it; nothing can be waited for in it. */
static int l_without_waiting(lua_State *L)
{
    lua_settop(L, 1);
    lua_call(L, 0, 0);
    return 0;
}

/* stage(handle): it is loaded here. Raises what its code raises. */
static int l_stage(lua_State *L)
{
    pr_lua_load_staged(L, pr_lua_of(L), pr_lua_behaviour_of(L, 1));
    return 0;
}

/* refers_like(handle, handle of what it is made of): it holds the same shared values. */
static int l_refers_like(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_behaviour *like = pr_lua_behaviour_of(L, 2);
    if (!pr_behaviour_refers(&x->rt->behaviours, pr_lua_behaviour_of(L, 1), like->shares, like->share_count))
        return luaL_error(L, "not enough memory");
    return 0;
}

/* supersede(handle, handle of its next version) */
static int l_supersede(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviour_supersede(&x->rt->behaviours, pr_lua_behaviour_of(L, 1), pr_lua_behaviour_of(L, 2));
    return 0;
}

/* install(handle): its earlier versions that are loaded here go over to it. It is loaded here. */
static int l_install(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviours *t = &x->rt->behaviours;
    pr_behaviour *to = pr_lua_behaviour_of(L, 1);
    pr_behaviour *left[64];
    uint32_t count;
    do {   /* references are dropped outside of the lock */
        count = 0;
        pthread_mutex_lock(&t->lock);
        for (pr_behaviour *v = to->next_version; v != to && count < 64; v = v->next_version) {
            pr_loaded *b = v->index < x->loaded_capacity ? &x->loaded[v->index] : NULL;
            if (v->version > to->version || !b || b->generation != v->generation || b->successor == to ||
                (b->successor && b->successor->version > to->version))
                continue;
            if (b->successor)
                left[count++] = b->successor;
            pr_behaviour_hold(to);
            b->successor = to;
        }
        pthread_mutex_unlock(&t->lock);
        for (uint32_t i = 0; i < count; i++)
            pr_behaviour_drop(t, left[i]);
    } while (count == 64);
    return 0;
}

/* running_workers() -> { { dispatcher's name, number there }... } of those that have a thread; seconds that an ask waits */
static int l_running_workers(lua_State *L)
{
    pr_runtime *rt = pr_lua_runtime(L, pr_lua_of(L), 1);
    int n = 0;
    lua_newtable(L);
    for (uint32_t i = 0; i < rt->dispatcher_count; i++) {
        const pr_dispatcher *d = &rt->dispatchers[i];
        /* acquire: as at a birth there */
        for (uint32_t k = 0; k < d->count && (i == 0 || atomic_load_explicit(&d->up, memory_order_acquire)); k++) {
            lua_createtable(L, 2, 0);
            lua_pushstring(L, d->name);
            lua_rawseti(L, -2, 1);
            lua_pushinteger(L, (lua_Integer)k + 1);
            lua_rawseti(L, -2, 2);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_pushnumber(L, rt->config.ask_timeout);
    return 2;
}

void pr_lua_open_reload(lua_State *L, pr_lua *x)
{
    static const luaL_Reg inside[] = {
        {"upgrade", l_upgrade}, {"upgrading", l_upgrading}, {"stage", l_stage}, {"supersede", l_supersede}, {"refers_like", l_refers_like},
        {"install", l_install}, {"versions", l_versions}, {"serial", l_serial}, {"running_workers", l_running_workers},
        {"newest", l_newest}, {"without_waiting", l_without_waiting}, {NULL, NULL}};
    static const luaL_Reg everywhere[] = {{"bytes_of", l_bytes_of}, {NULL, NULL}};
    pr_lua_add(L, x, everywhere);
    if (x->w)
        pr_lua_add(L, x, inside);
}
