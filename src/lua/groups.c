/* Groups: join, leave, members, publish; and what routers need of C: how loaded an actor is, where a key belongs. */
#include "border.h"

#include "../alloc.h"

#include <string.h>

static const char *check_group(lua_State *L, size_t *len, const char *what)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        pr_lua_raise(L, 1, "%s: a group's name (string) expected, got %s", what, luaL_typename(L, 1));
    const char *name = lua_tolstring(L, 1, len);
    if (*len < 1 || *len > PR_GROUP_NAME_MAX)
        pr_lua_raise(L, 1, "%s: a group's name of 1 to 255 bytes expected, got %d", what, (int)*len);
    return name;
}

/* The ref at index 2, or who runs here. */
static uint64_t member(lua_State *L, pr_lua *x, const char *what)
{
    uint64_t id;
    if (!lua_isnoneornil(L, 2)) {
        if (!pr_lua_is_ref(L, 2, &id))
            pr_lua_raise(L, 1, "%s: a ref expected, got %s", what, luaL_typename(L, 2));
        return id;
    }
    if (!(id = pr_lua_self(x)))
        pr_lua_raise(L, 1, "%s: no actor is running here", what);
    return id;
}

/* join(group [, ref]) -> whether it was not in there yet | nil, reason */
static int l_join(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    const char *name = check_group(L, &len, "join");
    pr_status status = pr_group_join(rt, name, len, member(L, x, "join"));
    if (status == PR_OK || status == PR_EXISTS) {
        lua_pushboolean(L, status == PR_OK);
        return 1;
    }
    lua_pushnil(L);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* leave(group [, ref]) -> whether it was in there */
static int l_leave(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    const char *name = check_group(L, &len, "leave");
    lua_pushboolean(L, pr_groups_leave(&rt->groups, name, len, member(L, x, "leave")));
    return 1;
}

/* members(group) -> refs, in the order of joining */
static int l_members(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len, count;
    const char *name = check_group(L, &len, "members");
    uint64_t **kept = lua_newuserdata(L, sizeof *kept);
    *kept = NULL;
    luaL_getmetatable(L, "pierrot.block");
    lua_setmetatable(L, -2);
    *kept = pr_groups_members(&rt->groups, name, len, &count);
    if (!*kept && count > 0)
        return pr_lua_raise(L, 1, "members: not enough memory");
    lua_createtable(L, (int)count, 0);
    int n = 0;
    for (size_t i = 0; i < count; i++)
        if (pr_actor_find(&rt->actors, (*kept)[i])) {
            pr_lua_push_ref(L, (*kept)[i]);
            lua_rawseti(L, -2, ++n);
        }
    pr_free(*kept);
    *kept = NULL;
    return 1;
}

static int l_block_gc(lua_State *L)
{
    void **kept = lua_touserdata(L, 1);
    pr_free(*kept);
    *kept = NULL;
    return 0;
}

/* publish(group, ...) -> how many took it */
static int l_publish(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len, count, reached = 0;
    const char *name = check_group(L, &len, "publish");
    pr_msg *m = pr_lua_encode(L, x, 2, "message", 1);
    m->kind = PR_MSG_USER;
    m->sender = pr_lua_self(x);
    uint64_t *ids = pr_groups_members(&rt->groups, name, len, &count);
    bool enough = ids || count == 0;
    for (size_t i = 0; ids && i < count; i++) {
        pr_msg *copy = i + 1 < count ? pr_msg_copy(pr_lua_pool(x), m) : m;
        if (!copy) {
            enough = false;
            break;
        }
        if (copy == m)
            m = NULL;
        copy->target = ids[i];
        if (pr_send(rt, x->w, copy) == PR_OK)
            reached++;
        else
            pr_msg_free(pr_lua_pool(x), copy);
    }
    if (m)
        pr_msg_free(pr_lua_pool(x), m);
    pr_free(ids);
    if (!enough)
        return pr_lua_raise(L, 1, "publish: not enough memory: %d of %d members were reached", (int)reached, (int)count);
    lua_pushnumber(L, (double)reached);
    return 1;
}

/* --- for routers */

/* load(ref) -> the messages it has in line and in hand; nil when it has ended */
static int l_load(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t id;
    pr_actor *a = pr_lua_is_ref(L, 1, &id) ? pr_actor_find(&x->rt->actors, id) : NULL;
    if (!a) {
        lua_pushnil(L);
        return 1;
    }
    uint8_t state = PR_GET(a->state);
    lua_pushnumber(L, (double)pr_actor_depth(x->rt, a) + (state == PR_STATE_PROCESSING || state == PR_STATE_SUSPENDED));
    return 1;
}

static uint64_t hash_bytes(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);   /* FNV-1a, then MurmurHash3's last step */
    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

/* place(key, n) -> 1 to n: where a key belongs among n. With another n, only the keys of places that have come or
 * gone move (jump consistent hash: Lamping and Veach, 2014). nil for a key that is no string, number, boolean or ref. */
static int l_place(lua_State *L)
{
    uint64_t key, id;
    size_t len;
    int64_t n = (int64_t)lua_tointeger(L, 2), place = -1, next = 0;
    if (lua_type(L, 1) == LUA_TSTRING) {
        const char *s = lua_tolstring(L, 1, &len);
        key = hash_bytes(s, len);
    } else if (lua_type(L, 1) == LUA_TNUMBER) {
        double d = lua_tonumber(L, 1) + 0.0;   /* -0 is 0 */
        key = hash_bytes(&d, sizeof d);
    } else if (pr_lua_is_ref(L, 1, &id)) {
        key = hash_bytes(&id, sizeof id);
    } else if (lua_isboolean(L, 1)) {
        key = (uint64_t)lua_toboolean(L, 1);
    } else {
        lua_pushnil(L);
        return 1;
    }
    while (next < n) {
        place = next;
        key = key * UINT64_C(2862933555777941757) + 1;
        next = (int64_t)((double)(place + 1) * ((double)(INT64_C(1) << 31) / (double)((key >> 33) + 1)));
    }
    lua_pushinteger(L, (lua_Integer)place + 1);
    return 1;
}

void pr_lua_open_groups(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"join", l_join}, {"leave", l_leave}, {"members", l_members},
                                         {"publish", l_publish}, {"load", l_load}, {"place", l_place}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    luaL_newmetatable(L, "pierrot.block");
    lua_pushcfunction(L, l_block_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
