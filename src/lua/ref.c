/* Refs in Lua: light userdata that hold an id, with one metatable for the type. Other light userdata
 * (cjson.null) go on as before: indexing them is an error, tostring shows an address. */
#include "border.h"

#include <stdio.h>
#include <string.h>

void pr_lua_push_ref(lua_State *L, uint64_t id)
{
    if (id)
        lua_pushlightuserdata(L, (void *)(uintptr_t)id);
    else
        lua_pushnil(L);
}

bool pr_lua_is_ref(lua_State *L, int index, uint64_t *id)
{
    if (lua_type(L, index) != LUA_TLIGHTUSERDATA)
        return false;
    *id = (uint64_t)(uintptr_t)lua_touserdata(L, index);
    return pr_id_valid(*id);
}

uint64_t pr_lua_target(lua_State *L, pr_lua *x, int index, const char *what, int level)
{
    uint64_t id;
    if (pr_lua_is_ref(L, index, &id)) {
        if (pr_monitor_valid(id))
            pr_lua_raise(L, level, "%s: a ref or a registered name expected, got a monitor", what);
        return id;
    }
    if (lua_type(L, index) == LUA_TSTRING) {
        size_t len;
        const char *name = lua_tolstring(L, index, &len);
        return len >= 1 && len <= 255 ? pr_registry_get(&x->rt->names, name, len) : 0;
    }
    pr_lua_raise(L, level, "%s: a ref or a registered name expected, got %s", what, luaL_typename(L, index));
    return 0;
}

/* Called where a ref (or other light userdata) has no such method. The value itself is not known here. */
static int l_missing(lua_State *L)
{
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : luaL_typename(L, 2);
    return pr_lua_raise(L, 1, "attempt to index a userdata value (a ref has no method '%s')", key);
}

static int l_tostring(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t id;
    if (!pr_lua_is_ref(L, 1, &id)) {
        void *p = lua_touserdata(L, 1);
        if (p)
            lua_pushfstring(L, "userdata: %p", p);
        else
            lua_pushliteral(L, "userdata: NULL");
        return 1;
    }
    char text[256];
    if (pr_monitor_valid(id))
        snprintf(text, sizeof text, "monitor %u", pr_monitor_number(id));
    else if (x->rt)
        pr_actor_describe(x->rt, id, text, sizeof text);
    else
        snprintf(text, sizeof text, "actor %u.%u (no runtime)", pr_id_slot(id), pr_id_generation(id));
    lua_pushstring(L, text);
    return 1;
}

/* valid(light userdata): whether it is a ref */
static int l_valid(lua_State *L)
{
    uint64_t id;
    lua_pushboolean(L, pr_lua_is_ref(L, 1, &id));
    return 1;
}

void pr_lua_open_refs(lua_State *L, pr_lua *x)
{
    int methods = lua_gettop(L);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_missing);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, methods);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushlightuserdata(L, x);
    lua_pushcclosure(L, l_tostring, 1);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, l_valid);
    lua_setfield(L, -2, "valid");
    lua_pushliteral(L, "pierrot.ref");
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, 0);   /* getmetatable shows none, as before: it is shared by all actors of the worker */
    lua_setfield(L, -2, "__metatable");
    /* The metatable is the type's: any light userdata sets it. */
    lua_pushlightuserdata(L, NULL);
    lua_insert(L, -2);
    lua_setmetatable(L, -2);
    lua_settop(L, methods - 1);
}
