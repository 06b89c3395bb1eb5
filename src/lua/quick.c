/* tell from compiled code. A C function of Lua's kind ends a trace; a function called through the FFI does not.
 * So where LuaJIT has compiled a tell, the trace calls these, by pointer; lua/pierrot/quick.lua has the other half
 * and says how the two ways are told apart. They use nothing of Lua, and run on a worker's thread only. */
#include "border.h"

#include <string.h>

/* 0: sent. Otherwise nothing has happened, and the ordinary way finds out what is wrong. */
static int send(double target, uint8_t *end, pr_msg *m, uint32_t count)
{
    pr_worker *w = pr_lua_here->w;
    m->size = (uint32_t)(end - m->data);
    m->count = count;
    m->kind = PR_MSG_USER;
    m->target = (uint64_t)target;
    m->sender = w->running ? PR_GET(w->running->id) : 0;
    if (pr_send(w->rt, w, m) == PR_OK)
        return 0;
    PR_BUMP(w->counters.rejected, (uint64_t)-1);   /* counted again by the ordinary way */
    pr_msg_free(&w->pool, m);
    return 1;
}

static uint8_t *put_number(uint8_t *at, double d)
{
    *at = PR_TAG_NUMBER;
    memcpy(at + 1, &d, 8);
    return at + 9;
}

static int tell_number(double target, double value)
{
    pr_msg *m = pr_msg_new_small(&pr_lua_here->w->pool, 9);
    return m ? send(target, put_number(m->data, value), m, 1) : 1;
}

static int tell_string(double target, const char *s, uint32_t len)
{
    size_t size = pr_wire_size_bytes(len);
    pr_msg_pool *pool = &pr_lua_here->w->pool;
    pr_msg *m = size <= PR_MSG_SMALLEST ? pr_msg_new_small(pool, size) : pr_msg_new(pool, size);
    return m ? send(target, pr_wire_put_string(m->data, s, len), m, 1) : 1;
}

static int tell_string_number(double target, const char *s, uint32_t len, double value)
{
    pr_msg *m = pr_msg_new(&pr_lua_here->w->pool, pr_wire_size_bytes(len) + 9);
    return m ? send(target, put_number(pr_wire_put_string(m->data, s, len), value), m, 2) : 1;
}

/* ref_number(ref): its id as a number, which holds it exactly; nil for anything else */
static int l_ref_number(lua_State *L)
{
    uint64_t id;
    if (pr_lua_is_ref(L, 1, &id))
        lua_pushnumber(L, (double)id);
    else
        lua_pushnil(L);
    return 1;
}

void pr_lua_open_quick(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"ref_number", l_ref_number}, {NULL, NULL}};
    union { int (*function)(double, double); void *address; } number = {tell_number};
    union { int (*function)(double, const char *, uint32_t); void *address; } string = {tell_string};
    union { int (*function)(double, const char *, uint32_t, double); void *address; } both = {tell_string_number};
    pr_lua_add(L, x, functions);
    lua_pushlightuserdata(L, number.address);
    lua_setfield(L, -2, "tell_number");
    lua_pushlightuserdata(L, string.address);
    lua_setfield(L, -2, "tell_string");
    lua_pushlightuserdata(L, both.address);
    lua_setfield(L, -2, "tell_string_number");
}
