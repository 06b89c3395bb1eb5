/* Shared values as Lua sees them: the C half of lua/pierrot/share.lua.
 *
 * A token is full userdata that holds a share as long as this state has anything of it. Closing the state, or collecting
 * the token, gives it back. */
#include "border.h"

typedef struct token {
    pr_lua *x;
    uint64_t serial;         /* of the runtime it belongs to */
    pr_share *share;         /* NULL: given back */
} token;

static int l_token_gc(lua_State *L)
{
    token *t = lua_touserdata(L, 1);
    /* One that outlives its runtime has nothing to give back. */
    if (t->share && t->x->rt && t->x->serial == t->serial)
        pr_share_drop(t->share);
    t->share = NULL;
    return 0;
}

pr_share *pr_lua_token_share(pr_lua *x, const void *userdata)
{
    const token *t = userdata;
    return t && t->share && x->rt && x->serial == t->serial ? t->share : NULL;
}

static token *push_token(lua_State *L, pr_lua *x)
{
    token *t = lua_newuserdata(L, sizeof *t);
    *t = (token){x, x->serial, NULL};
    luaL_getmetatable(L, "pierrot.share");
    lua_setmetatable(L, -2);
    return t;
}

/* share_make(bytes, tokens of those it refers to) -> token, number */
static int l_share_make(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    uint32_t count = (uint32_t)lua_objlen(L, 2);
    lua_settop(L, 2);
    pr_share **inner = lua_newuserdata(L, (count + 1) * sizeof *inner);
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, 2, (int)i + 1);
        inner[i] = pr_lua_token_share(x, lua_touserdata(L, -1));
        lua_pop(L, 1);
        if (!inner[i])
            return pr_lua_raise(L, 2, "share: it holds a shared value of a runtime that has ended: share that anew");
    }
    token *t = push_token(L, x);
    t->share = pr_share_new(&rt->shares, bytes, size, inner, count);
    if (!t->share)
        return pr_lua_raise(L, 2, "share: not enough memory (%d KB)", (int)(size >> 10));
    lua_pushnumber(L, (double)t->share->number);
    return 2;
}

/* share_open(number) -> token, bytes | nil */
static int l_share_open(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 2);
    double number = lua_tonumber(L, 1);
    token *t = push_token(L, x);
    t->share = pr_share_find(&rt->shares, (uint64_t)number);
    if (!t->share)
        return 0;
    lua_pushlstring(L, (const char *)t->share->bytes, t->share->size);
    return 2;
}

/* share_mark(i): what stands for the i-th shared value of a message in its tables */
static int l_share_mark(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)(2 * (uint64_t)lua_tonumber(L, 1)));
    return 1;
}

void pr_lua_open_share(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"share_make", l_share_make}, {"share_open", l_share_open}, {"share_mark", l_share_mark}, {NULL, NULL}};
    pr_lua_add(L, x, functions);
    luaL_newmetatable(L, "pierrot.share");
    lua_pushcfunction(L, l_token_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
