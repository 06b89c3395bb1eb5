/* What C keeps of Lua's, under numbers: functions of behaviours (`kept`), and the actors' selves.
 *
 * At base level, where nothing may raise, fetching and dropping one allocates nothing.
 *
 * The selves are in pages. The collector goes through a table in one step, and through one that has changed meanwhile once
 * more while the worker stands still: with a hundred thousand selves in one table, cold in the caches, that took 3 ms. */
#include "lua_actor.h"

#include "../alloc.h"

enum { PAGE = 256 };

static uint32_t take(pr_lua_handles *h) { return h->free_count > 0 ? h->free[--h->free_count] : ++h->last; }

static void give(pr_lua_handles *h, uint32_t handle)
{
    if (h->free_count == h->capacity) {
        uint32_t capacity = h->capacity ? 2 * h->capacity : 256;
        uint32_t *grown = pr_realloc(h->free, capacity * sizeof *grown);
        if (!grown)
            return;   /* the handle is not used again, which costs 8 bytes */
        h->free = grown;
        h->capacity = capacity;
    }
    h->free[h->free_count++] = handle;
}

/* In place of what the table on top of the stack has there: not nil, so that the array part keeps the place. */
static void clear(lua_State *L, int place)
{
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, place);
}

uint32_t pr_lua_keep(lua_State *L, pr_lua *x)
{
    uint32_t handle = take(&x->kept_handles);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_insert(L, -2);
    lua_rawseti(L, -2, (int)handle);
    lua_pop(L, 1);
    return handle;
}

void pr_lua_unkeep(pr_lua *x, uint32_t handle)
{
    if (handle == 0)
        return;
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->kept);
    clear(x->L, (int)handle);
    lua_pop(x->L, 1);
    give(&x->kept_handles, handle);
}

pr_lua_place pr_lua_place_of(uint32_t self)
{
    return (pr_lua_place){(int32_t)((self - 1) / PAGE + 1), (int32_t)((self - 1) % PAGE + 1)};
}

uint32_t pr_lua_keep_self(lua_State *L, pr_lua *x)
{
    uint32_t self = take(&x->self_handles);
    pr_lua_place at = pr_lua_place_of(self);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->pages);
    lua_rawgeti(L, -1, at.page);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_createtable(L, PAGE, 0);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, at.page);
    }
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, at.place);
    lua_pop(L, 3);
    return self;
}

void pr_lua_set_self(lua_State *L, pr_lua *x, uint32_t self)
{
    pr_lua_place at = pr_lua_place_of(self);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->pages);
    lua_rawgeti(L, -1, at.page);
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, at.place);
    lua_pop(L, 3);
}

uint32_t pr_lua_reserve_self(pr_lua *x)
{
    uint32_t left = x->left_self;
    x->left_self = 0;
    if (left)
        return left;
    pr_lua_handles *h = &x->self_handles;
    return h->free_count > 0 || h->last % PAGE != 0 ? take(h) : 0;
}

void pr_lua_push_self(lua_State *L, pr_lua *x, uint32_t self)
{
    pr_lua_place at = pr_lua_place_of(self);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->pages);
    lua_rawgeti(L, -1, at.page);
    lua_rawgeti(L, -1, at.place);
    lua_replace(L, -3);
    lua_pop(L, 1);
}

void pr_lua_leave_self(pr_lua *x, uint32_t self)
{
    if (x->left_self)
        pr_lua_drop_self(x, self);
    else
        x->left_self = self;
}

void pr_lua_drop_left_self(pr_lua *x)
{
    if (x->left_self)
        pr_lua_drop_self(x, x->left_self);
    x->left_self = 0;
}

void pr_lua_drop_self(pr_lua *x, uint32_t self)
{
    pr_lua_place at = pr_lua_place_of(self);
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->pages);
    lua_rawgeti(x->L, -1, at.page);
    clear(x->L, at.place);
    lua_pop(x->L, 2);
    give(&x->self_handles, self);
}

void pr_lua_open_handles(lua_State *L, pr_lua *x)
{
    lua_newtable(L);
    x->kept = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    x->pages = luaL_ref(L, LUA_REGISTRYINDEX);
}

void pr_lua_close_handles(pr_lua *x)
{
    pr_free(x->kept_handles.free);
    pr_free(x->self_handles.free);
}
