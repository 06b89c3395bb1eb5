/* tell, ask, the reply of a handler, sender, spawn and stop, from compiled code. A C function of Lua's kind ends a trace; a function
 * called through the FFI does not. So where LuaJIT has compiled such a call, the trace calls these, by pointer;
 * lua/pierrot/quick.lua has the other half. They use nothing of Lua, and run on a worker's thread only. */
#include "border.h"

#include <string.h>

/* What quick.lua declares too. REFUSED: nothing has happened, and the ordinary way finds out what is wrong. ENOUGH: sent,
 * and others should have a turn. */
enum { SENT, REFUSED, ENOUGH };

static __attribute__((noinline)) int send_far(pr_worker *w, pr_msg *m)
{
    if (pr_send_far(w->rt, w, m) == PR_OK)
        return w->burst > 0 ? SENT : ENOUGH;
    PR_BUMP(w->counters.rejected, (uint64_t)-1);   /* counted again by the ordinary way */
    pr_msg_free(&w->pool, m);
    return REFUSED;
}

/* A message fresh from the pool, whose size is right. `target`: of a ref. */
static inline __attribute__((always_inline)) int send(pr_worker *w, double target, pr_msg *m, uint32_t count)
{
    const pr_actor *self = w->running;
    m->count = (uint16_t)count;
    m->target = (uint64_t)target;
    if (!self)
        return send_far(w, m);
    m->sender = PR_GET(self->id);
    return pr_send_near(w, m) ? w->burst > 0 ? SENT : ENOUGH : send_far(w, m);
}

static inline uint8_t *put_number(uint8_t *at, double d)
{
    *at = PR_TAG_NUMBER;
    memcpy(at + 1, &d, 8);
    return at + 9;
}

static int tell_number(double target, double value)
{
    pr_worker *w = pr_lua_here->w;
    pr_msg *m = pr_msg_new_small(&w->pool, 9);
    if (!m)
        return REFUSED;
    put_number(m->data, value);
    return send(w, target, m, 1);
}

static int tell_string(double target, const char *s, uint32_t len)
{
    pr_worker *w = pr_lua_here->w;
    size_t size = pr_wire_size_bytes(len);
    pr_msg *m = size <= PR_MSG_SMALLEST ? pr_msg_new_small(&w->pool, size) : pr_msg_new(&w->pool, size);
    if (!m)
        return REFUSED;
    pr_wire_put_string(m->data, s, len);
    return send(w, target, m, 1);
}

static inline pr_msg *string_number(pr_worker *w, const char *s, uint32_t len, double value)
{
    size_t size = pr_wire_size_bytes(len) + 9;
    pr_msg *m = size <= PR_MSG_SMALLEST ? pr_msg_new_small(&w->pool, size) : pr_msg_new(&w->pool, size);
    if (m)
        put_number(pr_wire_put_string(m->data, s, len), value);
    return m;
}

static int tell_string_number(double target, const char *s, uint32_t len, double value)
{
    pr_worker *w = pr_lua_here->w;
    pr_msg *m = string_number(w, s, len, value);
    return m ? send(w, target, m, 2) : REFUSED;
}

/* A message of one value of nine bytes. */
static pr_msg *message_of_one(pr_lua *x, uint8_t tag)
{
    pr_msg *m = pr_msg_new_small(&x->w->pool, 9);
    uint64_t id = (uint64_t)x->out.number[0];
    if (!m)
        return NULL;
    m->data[0] = tag;
    memcpy(m->data + 1, tag == PR_TAG_REF ? (const void *)&id : &x->out.number[0], 8);
    m->count = 1;
    return m;
}

/* The values that quick.lua has put into x->out. NULL: no memory, or something that may not travel. */
static pr_msg *message_of(pr_lua *x, int count)
{
    const pr_out *out = &x->out;
    size_t size = 0;
    if (count == 1 && (out->tag[0] == PR_TAG_REF || out->tag[0] == PR_TAG_NUMBER))
        return message_of_one(x, out->tag[0]);
    for (int i = 0; i < count; i++) {
        uint8_t tag = out->tag[i];
        bool bytes = tag == PR_TAG_STRING || tag == PR_TAG_BLOB;
        size_t length = (size_t)out->length[i];
        if (tag == PR_TAG_BLOB && !pr_shapes_plain(&x->shapes, out->bytes[i], length) && !pr_lua_may_travel(out->bytes[i], length))
            return NULL;
        size += bytes ? pr_wire_size_bytes(length) : tag == PR_TAG_NUMBER || tag == PR_TAG_REF ? 9 : 1;
    }
    pr_msg *m = pr_msg_new(&x->w->pool, size);
    if (!m)
        return NULL;
    uint8_t *at = m->data;
    for (int i = 0; i < count; i++) {
        uint8_t *tag = at;
        uint64_t id = (uint64_t)out->number[i];
        switch (out->tag[i]) {
        case PR_TAG_NUMBER:
            at = put_number(at, out->number[i]);
            break;
        case PR_TAG_REF:
            memcpy(at + 1, &id, 8);
            at += 9;
            break;
        case PR_TAG_STRING: case PR_TAG_BLOB:
            at = pr_wire_put_string(at, (const char *)out->bytes[i], (size_t)out->length[i]);
            break;
        default:
            at++;
        }
        *tag = out->tag[i];
    }
    m->count = (uint16_t)count;
    return m;
}

static int tell_out(double target, int count)
{
    pr_lua *x = pr_lua_here;
    pr_msg *m = message_of(x, count);
    return m ? send(x->w, target, m, (uint32_t)count) : REFUSED;
}

/* Asks: the message is made here; core.ask_made, a C function, sends it and waits. */
static int made(pr_lua *x, double target, double within, pr_msg *m, uint32_t count)
{
    if (!m)
        return REFUSED;
    if (x->asked) {   /* a finalizer's, between the two halves of an ask; or an error came there: l_ask finds it */
        pr_msg_free(&x->w->pool, m);
        return REFUSED;
    }
    m->count = (uint16_t)count;
    m->target = (uint64_t)target;
    x->asked = m;
    x->asked_within = within;
    return SENT;
}

static int ask_string_number(double target, double within, const char *s, uint32_t len, double value)
{
    pr_lua *x = pr_lua_here;
    return made(x, target, within, string_number(x->w, s, len, value), 2);
}

static int ask_out(double target, double within, int count)
{
    pr_lua *x = pr_lua_here;
    return made(x, target, within, message_of(x, count), (uint32_t)count);
}

/* Pushes a ref where compiled code finds it, if that takes no memory. */
static void place(pr_lua *x, uint64_t id)
{
    pr_dispatch *d = &x->dispatch;
    uint32_t place = pr_id_slot(id) % PR_REF_PLACES;
    x->out.place = 0;
    uint32_t segment = (uint32_t)(id >> PR_SEGMENT_BITS);   /* below 128 */
    if (!(x->segments[segment / 64] >> segment % 64 & 1))
        return;
    /* The table lies at the bottom of a stack that nobody else is at. */
    lua_pushlightuserdata(d->places, (void *)(uintptr_t)id);
    lua_rawseti(d->places, 1, (int)place + 1);
    d->ids[place] = id;
    x->out.place = (int32_t)place + 1;
}

/* An actor without options, of an entry of `carried`: its id as a number. 0: refused, as above. */
static double spawn(double behaviour, int count)
{
    pr_lua *x = pr_lua_here;
    pr_worker *w = x->w;
    pr_behaviour *b = (pr_behaviour *)(uintptr_t)behaviour;
    pr_msg *args = NULL;
    if (count > 0 && !(args = message_of(x, count)))
        return 0;
    pr_worker_hold(w, b);
    uint64_t id = pr_actor_spawn_plain(w, &pr_lua_ops, b, args);
    if (id == 0) {
        pr_worker_drop(w, b);
        if (args)
            pr_msg_free(&w->pool, args);
        return 0;
    }
    place(x, id);
    return (double)id;
}

/* pierrot.stop() */
static int stop_self(void)
{
    pr_actor *a = pr_lua_here->w->running;
    if (!a)
        return REFUSED;
    pr_lua_stops(a);
    return SENT;
}

/* SENT: the handler's ask needs no other reply. */
static int answer_out(int count)
{
    pr_lua *x = pr_lua_here;
    pr_msg *m = pr_lua_own_message(x->w);
    if (!m || m->ask == 0)
        return SENT;
    pr_msg *reply = message_of(x, count);
    if (!reply)
        return REFUSED;
    pr_lua_reply(x, m, reply);
    return SENT;
}

/* The sender of the message in hand: its place in the table of refs, 0 without one or without a place. */
static int sender_place(void)
{
    const pr_lua *x = pr_lua_here;
    const pr_msg *m = x->w->hand;
    if (!m || m->sender == 0)
        return 0;
    uint32_t place = pr_id_slot(m->sender) % PR_REF_PLACES;
    return x->dispatch.ids[place] == m->sender ? (int)place + 1 : 0;
}

/* Notes a ref in the table of numbers, where compiled code finds it. Raises for want of memory. */
static void note(lua_State *L, pr_lua *x, int index, uint64_t id)
{
    enum { MOST = 16384 };
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->numbers);
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    bool there = !lua_isnil(L, -1);
    lua_pop(L, 1);
    if (!there) {
        if (x->noted == MOST) {   /* bounded: started anew */
            x->noted = 0;
            for (lua_pushnil(L); lua_next(L, -2);) {
                lua_pop(L, 1);
                lua_pushvalue(L, -1);
                lua_pushnil(L);
                lua_rawset(L, -4);
            }
        }
        lua_pushvalue(L, index);
        lua_pushnumber(L, (double)id);
        lua_rawset(L, -3);
        x->noted++;
    }
    lua_pop(L, 1);
}

/* At the second time: most who are told but once never see compiled code. */
void pr_lua_told(lua_State *L, pr_lua *x, uint64_t id)
{
    uint64_t *place = &x->told[pr_id_slot(id) % PR_REF_PLACES];
    if (*place == (id | PR_TOLD_NOTED))
        return;
    if (*place != id) {
        *place = id;
        return;
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)id);
    note(L, x, lua_gettop(L), id);
    lua_pop(L, 1);
    *place |= PR_TOLD_NOTED;
}

/* number_of(ref): its id as a number, which holds it exactly; nil for anything else */
static int l_number_of(lua_State *L)
{
    uint64_t id;
    lua_settop(L, 1);
    if (!pr_lua_is_ref(L, 1, &id))
        return 0;
    note(L, pr_lua_of(L), 1, id);
    lua_pushnumber(L, (double)id);
    return 1;
}

/* ref_of(number): the ref of an id; see `place` */
static int l_ref_of(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    uint64_t id = (uint64_t)lua_tonumber(L, 1);
    lua_pushlightuserdata(L, (void *)(uintptr_t)id);
    uint32_t segment = (uint32_t)(id >> PR_SEGMENT_BITS);
    x->segments[segment / 64] |= UINT64_C(1) << segment % 64;
    return 1;
}

/* behaviour_number(handle): for `spawn`; it holds as long as the handle */
static int l_behaviour_number(lua_State *L)
{
    lua_pushnumber(L, (double)(uintptr_t)pr_lua_behaviour_of(L, 1));
    return 1;
}

/* quick.lua declares the same. */
typedef struct pr_quick {
    int (*tell_number)(double target, double value);
    int (*tell_string)(double target, const char *s, uint32_t len);
    int (*tell_string_number)(double target, const char *s, uint32_t len, double value);
    int (*tell_out)(double target, int count);
    int (*ask_string_number)(double target, double within, const char *s, uint32_t len, double value);
    int (*ask_out)(double target, double within, int count);
    int (*answer_out)(int count);
    int (*sender_place)(void);
    double (*spawn)(double behaviour, int count);
    int (*stop_self)(void);
} pr_quick;

void pr_lua_open_quick(lua_State *L, pr_lua *x)
{
    static pr_quick quick = {tell_number, tell_string, tell_string_number, tell_out, ask_string_number, ask_out,
                             answer_out, sender_place, spawn, stop_self};
    static const luaL_Reg functions[] = {{"number_of", l_number_of}, {"stand_back", pr_lua_stand_back}, {"ref_of", l_ref_of},
                                         {"behaviour_number", l_behaviour_number}, {NULL, NULL}};
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    x->numbers = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, "numbers");
    pr_lua_add(L, x, functions);
    lua_pushlightuserdata(L, &quick);
    lua_setfield(L, -2, "functions");
    lua_pushlightuserdata(L, &x->out);
    lua_setfield(L, -2, "out");
    lua_setfield(L, -2, "quick");
}
