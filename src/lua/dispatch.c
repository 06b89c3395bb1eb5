/* The C half of the dispatch loop (lua/pierrot/dispatch.lua): which message comes next, which handler takes it, and its
 * values.
 *
 * `next` is called in two ways. From compiled code through the FFI, where it may use nothing of Lua: it fills in
 * x->dispatch.now. From the interpreter as `take`, a C function that returns the handler and its arguments. */
#include "lua_actor.h"

#include <math.h>
#include <string.h>

/* A number that any Lua value may hold: of the many NaNs, only one is a number in a tagged value. */
static inline double plain_number(double d) { return d == d ? d : (double)NAN; }

/* Reads the values after the first `skip`. False: too many, or a ref that has no place in the table. */
static inline __attribute__((always_inline)) bool read_values(pr_lua *x, const pr_msg *m, uint32_t skip)
{
    pr_dispatch *d = &x->dispatch;
    pr_now *now = &d->now;
    const uint8_t *at = m->data;
    uint32_t len;
    if (m->count - skip > PR_INLINE_VALUES)
        return false;
    if (skip) {   /* it is a string */
        memcpy(&len, at + 1, 4);
        at += 5 + len;
    }
    uint32_t count = m->count - skip;
    bool shaped = false;
    now->count = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t tag = *at++;
        now->tag[i] = tag;
        if (tag == PR_TAG_NUMBER) {
            double number;
            memcpy(&number, at, 8);
            now->number[i] = plain_number(number);
            at += 8;
        } else if (tag == PR_TAG_STRING || tag == PR_TAG_BLOB) {
            memcpy(&len, at, 4);
            if (len > INT32_MAX)
                return false;
            if (tag == PR_TAG_BLOB) {
                if (!pr_lua_is_table(at + 4))
                    return false;   /* compiled code expects one type from the decoder */
                if (!shaped) {
                    shaped = true;
                    if (pr_shapes_read(&x->shapes, d->ids, at + 4, len))
                        now->tag[i] = PR_NOW_SHAPED;
                    else if (x->shapes.habit)
                        return false;
                }
            }
            now->bytes[i] = at + 4;
            now->length[i] = (int32_t)len;
            at += 4 + len;
        } else if (tag >= PR_TAG_SHARED) {
            return false;
        } else if (tag == PR_TAG_REF) {
            uint64_t id;
            memcpy(&id, at, 8);
            at += 8;
            uint32_t place = pr_id_slot(id) % PR_REF_PLACES;
            if (d->ids[place] != id)
                return false;
            now->length[i] = (int32_t)place + 1;
        }
    }
    return true;
}

/* The start of w->running: END leaves it to the worker. */
static __attribute__((noinline)) int born(pr_lua *x, pr_worker *w)
{
    pr_dispatch *d = &x->dispatch;
    pr_actor *a = w->running;
    const pr_behaviour *behaviour = PR_GET(a->behaviour);
    pr_loaded *b = behaviour->index < x->loaded_capacity ? &x->loaded[behaviour->index] : NULL;
    if (!b || b->generation != behaviour->generation || PR_GET(behaviour->newer) || a->extra || x->budget.limit ||
        !(a->self = pr_lua_reserve_self(x)))
        return PR_NEXT_END;
    w->left--;
    x->released -= x->released > 0;
    pr_actor_starts(w, a);
    pr_lua_place at = pr_lua_place_of(a->self);
    d->now.page = at.page;
    d->now.self = at.place;
    b->lives++;
    d->now.maker = (int32_t)(b->maker ? b->maker : d->plain_maker);
    d->now.handler = (int32_t)b->start;
    d->now.ask = 0;
    d->now.count = 0;
    d->skip = 0;
    d->born = true;
    return !d->interpreted && (!a->start_args || read_values(x, a->start_args, 0)) ? PR_NEXT_BORN : PR_NEXT_OTHER;
}

/* pr_lua_handler, with the usual cases in line. */
static inline __attribute__((always_inline)) uint32_t handler_of(pr_lua *x, pr_actor *a, const pr_msg *m, uint32_t *skip)
{
    pr_loaded *b = pr_loaded_of(x, a);
    if (b->successor)
        return pr_lua_handler(x, a, m, skip);
    if (m->size == 0 || m->data[0] != PR_TAG_STRING) {
        *skip = 0;
        return b->receive;
    }
    uint32_t len;
    memcpy(&len, m->data + 1, sizeof len);
    if (b->names && len >= PR_NAME_SHORTEST && len <= PR_NAME_SHORT) {
        uint64_t head, tail;
        pr_name_ends(m->data, len, &head, &tail);
        const pr_named *n = &b->names[pr_name_place(b, head, tail)];
        if (n->head == head && n->tail == tail) {
            b->last = n;
            *skip = 1;
            return n->handler;
        }
    }
    return pr_loaded_handler(b, m, skip);
}

/* The next message and its handler: an enum pr_next. Calls nothing of Lua. One function, into which all of its parts are
 * inlined: in parts, a message takes 50 instructions more. */
static int next(void)
{
    pr_lua *x = pr_lua_here;
    pr_worker *w = x->w;
    pr_dispatch *d = &x->dispatch;
    pr_msg *m;
    bool starts;
    d->born = false;
    if (d->fresh) {
        if (d->warming) {
            d->warming--;
            return PR_NEXT_AGAIN;
        }
        d->fresh = false;
        m = w->hand;
        if (!m)
            return PR_NEXT_END;
    } else if (!(m = pr_worker_next_message(w, &starts))) {
        return starts ? born(x, w) : PR_NEXT_END;
    }
    d->now.handler = (int32_t)handler_of(x, w->running, m, &d->skip);
    if (d->now.handler == 0) {
        d->unhandled = true;
        return PR_NEXT_END;
    }
    pr_lua_place at = pr_lua_place_of(w->running->self);
    d->now.page = at.page;
    d->now.self = at.place;
    d->now.ask = (int32_t)m->ask;
    return !d->interpreted && read_values(x, m, d->skip) ? PR_NEXT_PLAIN : PR_NEXT_OTHER;
}

int pr_lua_place_ref(lua_State *L, pr_lua *x, int index, uint64_t id)
{
    pr_dispatch *d = &x->dispatch;
    int place = (int)(pr_id_slot(id) % PR_REF_PLACES) + 1;
    if (d->ids[place - 1] != id) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, d->refs);
        lua_pushvalue(L, index);
        lua_rawseti(L, -2, place);   /* there already: nothing is allocated */
        lua_pop(L, 1);
        d->ids[place - 1] = id;
    }
    return place;
}

/* A shape that has come often gets its function. Without memory for one it goes on as before. */
static void learn(lua_State *L, pr_lua *x)
{
    pr_dispatch *d = &x->dispatch;
    x->shapes.habit = false;
    lua_rawgeti(L, LUA_REGISTRYINDEX, d->shape);
    lua_pushlstring(L, (const char *)x->shapes.latest.signature, x->shapes.latest.length);
    if (lua_pcall(L, 1, 1, 0) == 0 && lua_isfunction(L, -1)) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, d->builders);
        lua_insert(L, -2);
        lua_rawseti(L, -2, (int)pr_shapes_add(&x->shapes));   /* there already: nothing is allocated */
    }
    lua_settop(L, 0);
}

/* Under lua_pcall: makes the maker for the behaviour of a self that has been left for it. */
static int l_learn_self(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_loaded *b = &x->loaded[x->pattern.index];
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->dispatch.maker);
    pr_lua_push_self(L, x, x->pattern.self);
    lua_call(L, 1, 1);
    if (lua_isfunction(L, -1) && b->generation == x->pattern.generation && !b->maker)
        b->maker = pr_lua_keep(L, x);
    return 0;
}

void pr_lua_learn_self(pr_lua *x)
{
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->learn_self);
    if (lua_pcall(x->L, 0, 0, 0) != 0)
        lua_pop(x->L, 1);   /* no memory: it stays with empty tables */
    pr_lua_drop_self(x, x->pattern.self);
    x->pattern.self = 0;
}

/* values() -> whether a reply is wanted, the handler's handle, self, the values of the message in hand or of the start; without a
 * `start`, nothing after the first. May raise (memory). */
static int l_values(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    pr_dispatch *d = &x->dispatch;
    const pr_actor *a = x->w->running;
    const pr_msg *m = d->born ? a->start_args : x->w->hand;
    lua_settop(L, 0);
    if (x->shapes.habit)
        learn(L, x);
    lua_pushboolean(L, !d->born && m->ask != 0);
    lua_pushinteger(L, d->now.handler);
    if (d->born) {
        lua_newtable(L);
        lua_pushvalue(L, -1);
        pr_lua_set_self(L, x, a->self);
    } else {
        pr_lua_push_self(L, x, a->self);
    }
    if (d->now.handler == 0) {   /* it has no `start` */
        lua_settop(L, 1);
        return 1;
    }
    int n = m ? pr_lua_decode(L, x, m, d->skip) : 0;
    for (int i = 4; i < 4 + n; i++) {   /* its refs get their places: the next time it is plain */
        uint64_t id;
        if (lua_type(L, i) == LUA_TLIGHTUSERDATA && pr_lua_is_ref(L, i, &id)) {
            pr_lua_place_ref(L, x, i, id);
        }
    }
    return 3 + n;
}

/* take() -> the same for the next message; nothing at the end; false and no handler for a round without one */
static int l_take(lua_State *L)
{
    pr_lua_budget_next(pr_lua_here);
    pr_dispatch *d = &pr_lua_here->dispatch;
    d->interpreted = true;
    int what = next();
    d->interpreted = false;
    switch (what) {
    case PR_NEXT_END:
        return 0;
    case PR_NEXT_AGAIN:
        lua_pushboolean(L, 0);
        return 1;
    default:
        return l_values(L);
    }
}

void pr_lua_reply(pr_lua *x, pr_msg *m, pr_msg *reply)
{
    reply->kind = PR_MSG_REPLY;
    reply->target = m->sender;
    reply->sender = m->target;
    reply->ask = m->ask;
    m->ask = 0;
    pr_reply(x->rt, x->w, reply);
}

/* answer(...): the handler's values, as the reply to its ask, unless that has been answered or taken over. Raises when
 * they cannot be sent. */
static int l_answer(lua_State *L)
{
    pr_lua *x = pr_lua_here;
    pr_msg *m = pr_lua_own_message(x->w);
    if (!m || m->ask == 0)
        return 0;
    pr_msg *reply = pr_lua_try_encode(L, x, 1, "reply");
    if (!reply)
        return lua_error(L);
    pr_lua_reply(x, m, reply);
    return 0;
}

/* warm(): the loop is to be compiled anew, before its next message. */
static int l_warm(lua_State *L)
{
    pr_lua_of(L)->dispatch.warming = 200;   /* hotloop is 56; with room for one that is refused */
    return 0;
}

/* install(loop, refs, shape, builders, maker, plain_maker): what dispatch.lua has made. */
static int l_install(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_settop(L, 6);
    x->dispatch.plain_maker = pr_lua_keep(L, x);
    x->dispatch.maker = luaL_ref(L, LUA_REGISTRYINDEX);
    x->dispatch.builders = luaL_ref(L, LUA_REGISTRYINDEX);
    x->dispatch.shape = luaL_ref(L, LUA_REGISTRYINDEX);
    x->dispatch.places = lua_newthread(L);
    luaL_ref(L, LUA_REGISTRYINDEX);   /* for good */
    lua_pushvalue(L, 2);
    lua_xmove(L, x->dispatch.places, 1);
    x->dispatch.refs = luaL_ref(L, LUA_REGISTRYINDEX);
    x->dispatch.loop = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

void pr_lua_open_dispatch(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {
        {"take", l_take}, {"values", l_values}, {"answer", l_answer}, {"warm", l_warm}, {"install", l_install}, {NULL, NULL}};
    union { int (*function)(void); void *address; } quick = {next};
    lua_newtable(L);
    pr_lua_add(L, x, functions);
    lua_pushlightuserdata(L, quick.address);
    lua_setfield(L, -2, "next");
    lua_pushlightuserdata(L, &x->dispatch.now);
    lua_setfield(L, -2, "now");
    lua_pushlightuserdata(L, &x->shapes.leaves);
    lua_setfield(L, -2, "leaves");
    lua_pushinteger(L, PR_SHAPES);
    lua_setfield(L, -2, "shapes");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_setfield(L, -2, "kept");
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->pages);
    lua_setfield(L, -2, "pages");
    lua_pushinteger(L, PR_REF_PLACES);
    lua_setfield(L, -2, "ref_places");
    lua_setfield(L, -2, "dispatch");
    x->learn_self = pr_lua_anchor(L, x, l_learn_self);
}
