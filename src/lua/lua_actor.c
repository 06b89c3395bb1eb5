/* Actors written in Lua: how the worker runs their handlers (pr_ops).
 *
 * Handlers run on coroutines taken from a pool. At the bottom of each one's stack lies the table of all
 * `self`s; above it, per message: the handler, self, the values. A coroutine that finished is used again, one
 * that suspended belongs to its handler, one that raised is thrown away once its traceback is taken.
 *
 * All this happens at the worker's base level, where nothing may raise: what allocates in Lua is done by C
 * functions under lua_pcall (decode, prepare_start, describe_failure). Numbers, booleans and refs need none. */
#include "border.h"

#include "../alloc.h"

#include <stdio.h>
#include <string.h>

char pr_lua_sentinel;

enum { RELEASES = 512 };   /* ended actors for each step of the collector */

int pr_lua_decode_message(lua_State *L);

static pr_lua *of(pr_worker *w) { return w->state; }

/* --- coroutines */

static int l_new_coroutine(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_co *co = lua_touserdata(L, 1);
    co->L = lua_newthread(L);
    luaL_checkstack(co->L, LUA_MINSTACK, "coroutine");
    lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->selves);
    co->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* NULL: no memory. */
static pr_co *take_coroutine(pr_lua *x)
{
    pr_co *co = x->co;
    if (co) {
        x->co = co->next;
        return co;
    }
    co = pr_alloc(sizeof *co);
    if (!co)
        return NULL;
    lua_State *L = x->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->new_coroutine);
    lua_pushlightuserdata(L, co);
    if (lua_pcall(L, 1, 0, 0) != 0) {
        lua_pop(L, 1);
        pr_free(co);
        return NULL;
    }
    return co;
}

static void give_coroutine(pr_lua *x, pr_co *co)
{
    lua_settop(co->L, 1);
    co->next = x->co;
    x->co = co;
}

static void drop_coroutine(pr_lua *x, pr_co *co)
{
    luaL_unref(x->L, LUA_REGISTRYINDEX, co->anchor);
    pr_free(co);
}

/* --- failures */

/* Pushes the actor, its behaviour's name, and the first value of the message in hand. */
enum { WHEREABOUTS = 3 };
static void push_whereabouts(lua_State *L, pr_lua *x)
{
    char name[64];
    const pr_actor *a = x->w->running;
    pr_msg *hand = x->w->hand;
    pr_actor_behaviour_name(x->rt, PR_GET(a->id), name, sizeof name);
    pr_lua_push_ref(L, PR_GET(a->id));
    lua_pushstring(L, name);
    if (hand && hand->count > 0 && !(a->flags & PR_FLAG_STARTING)) {
        int top = lua_gettop(L);
        pr_lua_decode(L, x, hand, 0);
        lua_settop(L, top + 1);
    } else {
        lua_pushnil(L);
    }
}

/* describe_failure(co, message is on top of co's stack): -> light userdata of the payload. */
static int l_describe_failure(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_State *co = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->failure);
    luaL_traceback(L, co, NULL, 0);
    if (lua_gettop(co) > 0)   /* counted from the frame that raised */
        lua_xmove(co, L, 1);
    else
        lua_pushnil(L);
    lua_insert(L, -2);
    lua_call(L, 2, 4);   /* failure(error, traceback) -> kind, message, traceback, cause */
    push_whereabouts(L, x);
    pr_msg *m = pr_lua_try_encode(L, x, 1, "error");
    if (!m) {   /* the cause cannot travel: its text does */
        lua_settop(L, WHEREABOUTS + 4);
        lua_pushnil(L);
        lua_replace(L, 4);
        m = pr_lua_try_encode(L, x, 1, "error");
    }
    if (m)
        m->kind = PR_MSG_ERROR;
    lua_settop(L, 0);
    lua_pushlightuserdata(L, m);
    return 1;
}

/* The error value lies on top of co's stack. */
static pr_outcome failed(pr_worker *w, pr_lua *x, pr_co *co)
{
    lua_State *L = x->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->describe_failure);
    lua_pushlightuserdata(L, co->L);
    w->failure = NULL;
    if (lua_pcall(L, 1, 1, 0) == 0)
        w->failure = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return PR_FAILED;
}

/* A text lies on top of the main stack; it is popped. */
static pr_outcome failed_with_text(pr_worker *w, pr_lua *x)
{
    lua_State *L = x->L;
    size_t len = 0;
    const char *text = lua_tolstring(L, -1, &len);
    char name[64];
    uint64_t id = PR_GET(w->running->id);
    size_t name_len = pr_actor_behaviour_name(w->rt, id, name, sizeof name);
    w->failure = NULL;
    pr_msg *m = pr_msg_new(&w->pool, pr_wire_size_bytes(6) + pr_wire_size_bytes(text ? len : 0) + 2 + 9 +
                                         pr_wire_size_bytes(name_len));
    if (m) {
        uint8_t *at = pr_wire_put_string(m->data, "failed", 6);
        at = pr_wire_put_string(at, text ? text : "", text ? len : 0);
        at[0] = at[1] = PR_TAG_NIL;
        at[2] = PR_TAG_REF;
        memcpy(at + 3, &id, 8);
        pr_wire_put_string(at + 11, name, name_len);
        m->count = 6;
        m->kind = PR_MSG_ERROR;
        w->failure = m;
    }
    lua_pop(L, 1);
    return PR_FAILED;
}

/* --- behaviours in this state */

static uint32_t new_handle(pr_lua *x)
{
    return x->free_self_count > 0 ? x->free_self[--x->free_self_count] : ++x->next_self;
}

static void free_handle(pr_lua *x, uint32_t handle)
{
    if (x->free_self_count == x->free_self_capacity) {
        uint32_t capacity = x->free_self_capacity ? 2 * x->free_self_capacity : 256;
        uint32_t *grown = pr_realloc(x->free_self, capacity * sizeof *grown);
        if (!grown)
            return;   /* the handle is not used again, which costs 8 bytes */
        x->free_self = grown;
        x->free_self_capacity = capacity;
    }
    x->free_self[x->free_self_count++] = handle;
}

/* Keeps the value on top of the stack in the table of selves; pops it. Raises. */
static uint32_t keep(lua_State *L, pr_lua *x)
{
    uint32_t handle = new_handle(x);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->selves);
    lua_insert(L, -2);
    lua_rawseti(L, -2, (int)handle);
    lua_pop(L, 1);
    return handle;
}

/* At base level: the place exists, so nothing is allocated. */
static void drop(pr_lua *x, uint32_t handle)
{
    lua_State *L = x->L;
    if (handle == 0)
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->selves);
    lua_pushboolean(L, 0);   /* not nil: the array part keeps its place */
    lua_rawseti(L, -2, (int)handle);
    lua_pop(L, 1);
    free_handle(x, handle);
}

/* The first and the last bytes of a name, eight of each; they overlap in a short one. */
static inline void ends_of(const char *s, uint32_t len, uint64_t *head, uint64_t *tail)
{
    *head = *tail = 0;
    if (len >= 8) {
        memcpy(head, s, 8);
        memcpy(tail, s + len - 8, 8);
    } else if (len >= 4) {
        memcpy(head, s, 4);
        memcpy(tail, s + len - 4, 4);
    } else if (len > 0) {
        *head = (uint64_t)(uint8_t)s[0] | (uint64_t)(uint8_t)s[len / 2] << 8 | (uint64_t)(uint8_t)s[len - 1] << 16;
    }
}

static inline uint32_t place_of(uint64_t head, uint64_t tail, uint32_t len)
{
    /* Odd constants with well mixed bits; the upper half of the product is the mixed one. */
    return (uint32_t)(((head ^ tail * UINT64_C(0x9e3779b97f4a7c15)) + len) * UINT64_C(0xd6e8feb86659fd93) >> 32);
}

static uint32_t handler_named(pr_loaded *b, const char *name, uint32_t len)
{
    uint64_t head, tail;
    const pr_named *last = b->last;
    ends_of(name, len, &head, &tail);
    if (last && last->head == head && last->tail == tail && last->len == len && len <= 16)
        return last->handler;
    for (uint32_t i = place_of(head, tail, len) & b->names_mask;; i = (i + 1) & b->names_mask) {
        const pr_named *n = &b->names[i];
        if (!n->name)
            return 0;
        if (n->head == head && n->tail == tail && n->len == len && (len <= 16 || memcmp(n->name, name, len) == 0)) {
            b->last = n;
            return n->handler;
        }
    }
}

static void unload(pr_lua *x, pr_loaded *b)
{
    if (b->generation == 0)
        return;
    drop(x, b->start);
    drop(x, b->receive);
    drop(x, b->stop);
    drop(x, b->table);
    drop(x, b->on_failure);
    pr_free(b->rules);
    for (uint32_t i = 0; b->names && i <= b->names_mask; i++)
        if (b->names[i].name)
            drop(x, b->names[i].handler);
    pr_free(b->names);
    memset(b, 0, sizeof *b);
}

static uint32_t keep_field(lua_State *L, pr_lua *x, int table, const char *name)
{
    lua_getfield(L, table, name);
    if (!lua_isnil(L, -1))
        return keep(L, x);
    lua_pop(L, 1);
    return 0;
}

static double number_field(lua_State *L, int table, const char *name, double missing)
{
    lua_getfield(L, table, name);
    double value = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : missing;
    lua_pop(L, 1);
    return value;
}

static bool field_is(lua_State *L, int table, const char *name, const char *text)
{
    lua_getfield(L, table, name);
    bool is = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), text) == 0;
    lua_pop(L, 1);
    return is;
}

static uint64_t ms_of(double seconds) { return seconds >= 1e12 ? (uint64_t)1e15 : (uint64_t)(seconds * 1000 + 0.5); }

/* From the table `supervise` on top, which lua/pierrot/rules.lua has checked. Raises. */
static void set_rules(lua_State *L, pr_lua *x, pr_loaded *b)
{
    int top = lua_gettop(L);
    pr_rules *r = b->rules = pr_alloc(sizeof *r);
    if (!r)
        luaL_error(L, "not enough memory");
    *r = pr_default_rules;
    r->in_turn = true;
    r->strategy = field_is(L, top, "strategy", "one_for_all")    ? PR_ONE_FOR_ALL
                  : field_is(L, top, "strategy", "rest_for_one") ? PR_REST_FOR_ONE
                                                                 : PR_ONE_FOR_ONE;
    r->count_all = field_is(L, top, "count", "all");
    r->escalates = field_is(L, top, "exceeded", "escalate");
    r->intensity = (uint32_t)number_field(L, top, "intensity", r->intensity);
    r->period_ms = ms_of(number_field(L, top, "period", 5));
    lua_getfield(L, top, "backoff");
    if (lua_istable(L, -1)) {
        r->min_ms = ms_of(number_field(L, top + 1, "min", 0.1));
        r->max_ms = ms_of(number_field(L, top + 1, "max", 10));
        r->factor = number_field(L, top + 1, "factor", 2);
        r->jitter = number_field(L, top + 1, "jitter", 0.1);
    }
    lua_pop(L, 1);
    lua_getfield(L, top, "on_failure");
    r->decides = lua_isfunction(L, -1);
    if (r->decides)
        b->on_failure = keep(L, x);
    else
        lua_pop(L, 1);
}

/* Sets up `b` from the behaviour (a function or a table) on top of the stack; pops it. Raises. */
static void set_loaded(lua_State *L, pr_lua *x, pr_loaded *b)
{
    int top = lua_gettop(L);
    b->start = b->receive = b->stop = b->table = 0;
    b->trap_exit = false;
    b->on_failure = 0;
    b->rules = NULL;
    b->names = NULL;
    b->last = NULL;
    if (lua_isfunction(L, top)) {
        b->receive = keep(L, x);
        return;
    }
    b->start = keep_field(L, x, top, "start");
    b->receive = keep_field(L, x, top, "receive");
    b->stop = keep_field(L, x, top, "stop");
    lua_getfield(L, top, "trap_exit");
    b->trap_exit = lua_toboolean(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, top, "supervise");
    if (lua_istable(L, -1))
        set_rules(L, x, b);
    lua_pop(L, 1);
    lua_getfield(L, top, "on");
    if (lua_istable(L, -1)) {
        uint32_t count = 0, size = 4;
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
            count++;
        while (size < 2 * count)
            size *= 2;
        b->names = pr_zalloc(size * sizeof *b->names);
        if (!b->names)
            luaL_error(L, "not enough memory");
        b->names_mask = size - 1;
        for (lua_pushnil(L); lua_next(L, -2);) {
            if (lua_type(L, -2) != LUA_TSTRING) {
                lua_pop(L, 1);
                continue;
            }
            size_t len;
            pr_named n = {.name = lua_tolstring(L, -2, &len)};
            n.len = (uint32_t)len;
            n.handler = keep(L, x);
            ends_of(n.name, n.len, &n.head, &n.tail);
            uint32_t i = place_of(n.head, n.tail, n.len) & b->names_mask;
            while (b->names[i].name)
                i = (i + 1) & b->names_mask;
            b->names[i] = n;
        }
    }
    lua_pop(L, 1);
    b->table = keep(L, x);   /* anchors the names' strings */
}

static pr_loaded *slot_for(pr_lua *x, uint32_t index)
{
    if (index >= x->loaded_capacity) {
        uint32_t capacity = x->loaded_capacity ? x->loaded_capacity : 64;
        while (capacity <= index)
            capacity *= 2;
        pr_loaded *grown = pr_realloc(x->loaded, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + x->loaded_capacity, 0, (capacity - x->loaded_capacity) * sizeof *grown);
        x->loaded = grown;
        x->loaded_capacity = capacity;
    }
    return &x->loaded[index];
}

static pr_loaded *loaded_of(pr_lua *x, pr_actor *a)
{
    return &x->loaded[PR_GET(a->behaviour)->index];
}

/* The behaviour it was spawned with, whatever it has become. */
static pr_loaded *spawned_of(pr_lua *x, pr_actor *a)
{
    return a->extra && a->extra->below_count > 0 ? &x->loaded[a->extra->below[0]->index] : loaded_of(x, a);
}

bool pr_lua_load_private(lua_State *L, pr_lua *x, pr_behaviour *b)
{
    pr_loaded *place = slot_for(x, b->index);
    if (!place) {
        lua_pop(L, 1);
        return false;
    }
    unload(x, place);
    pr_loaded fresh = {0};
    set_loaded(L, x, &fresh);
    fresh.generation = b->generation;
    *place = fresh;
    return true;
}

void pr_lua_unload(pr_lua *x, uint32_t index)
{
    unload(x, &x->loaded[index]);
}

/* Loads the behaviour it was spawned with if this state has not. Raises. */
static pr_loaded *load(lua_State *L, pr_lua *x, pr_actor *a)
{
    const pr_behaviour *behaviour = a->extra && a->extra->below_count > 0 ? a->extra->below[0] : PR_GET(a->behaviour);
    lua_settop(L, 0);
    pr_loaded *b = slot_for(x, behaviour->index);
    if (!b)
        luaL_error(L, "not enough memory");
    if (b->generation != behaviour->generation) {
        unload(x, b);
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->load);
        lua_pushlstring(L, (const char *)behaviour->bytes, behaviour->size);
        lua_call(L, 1, 1);
        if (lua_istable(L, -1)) {
            lua_getfield(L, -1, "name");
            if (lua_type(L, -1) == LUA_TSTRING)   /* a module's own name wins over the module's */
                pr_behaviour_rename(&x->rt->behaviours, PR_GET(a->behaviour), lua_tostring(L, -1));
            lua_pop(L, 1);
        }
        set_loaded(L, x, b);
        b->generation = behaviour->generation;
    }
    return b;
}

/* prepare_start(actor): makes `self`, decodes the arguments. Returns self and the arguments. */
static int l_prepare_start(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = lua_touserdata(L, 1);
    load(L, x, a);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->selves);
    lua_newtable(L);
    uint32_t handle = new_handle(x);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 1, (int)handle);
    a->self = handle;
    return 1 + (a->start_args ? pr_lua_decode(L, x, a->start_args, 0) : 0);
}

/* priority(function's behaviour, message) -> what the function says */
static int l_priority(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_behaviour *function = lua_touserdata(L, 1);
    const pr_msg *m = lua_touserdata(L, 2);
    pr_loaded *b = slot_for(x, function->index);
    lua_settop(L, 0);
    if (!b)
        return luaL_error(L, "not enough memory");
    if (b->generation != function->generation) {
        unload(x, b);
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->load);
        lua_pushlstring(L, (const char *)function->bytes, function->size);
        lua_call(L, 1, 1);
        set_loaded(L, x, b);
        b->generation = function->generation;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->selves);
    lua_rawgeti(L, 1, (int)b->receive);
    lua_call(L, pr_lua_decode(L, x, m, 0), 1);
    if (lua_type(L, -1) != LUA_TNUMBER || lua_tonumber(L, -1) != lua_tonumber(L, -1))
        return luaL_error(L, "it returned no number");
    return 1;
}

double pr_lua_priority(pr_worker *w, pr_behaviour *function, const pr_msg *m)
{
    pr_lua *x = of(w);
    lua_State *L = x->calling ? x->calling : x->L;   /* within `receive` its coroutine is the running one */
    int top = lua_gettop(L);
    bool scanning = x->scanning;
    x->scanning = true;   /* it cannot wait */
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->priority);
    lua_pushlightuserdata(L, function);
    lua_pushlightuserdata(L, (void *)(uintptr_t)m);
    double priority = 0;
    if (lua_pcall(L, 2, 1, 0) == 0) {
        priority = lua_tonumber(L, -1);
    } else if (pr_log_on(&w->rt->log, PR_LOG_ERROR)) {
        char who[256];
        const char *text = lua_tostring(L, -1);
        pr_actor_describe(w->rt, m->target, who, sizeof who);
        pr_logf(&w->rt->log, PR_LOG_ERROR, "%s: the priority function failed, the message gets priority 0: %s", who,
                text ? text : "(no text)");
    }
    x->scanning = scanning;
    lua_settop(L, top);
    return priority;
}

/* --- running a handler */

/* Runs or goes on: the function (at first) and `nargs` arguments lie on co's stack. */
static pr_outcome run(pr_worker *w, pr_lua *x, pr_co *co, int nargs)
{
    int status = lua_resume(co->L, nargs);
    if (status == 0) {
        pr_actor *a = w->running;
        if (a && a->wait && !(a->flags & PR_FLAG_SUSPENDED))   /* an ask in a coroutine of the script's own, left behind */
            pr_actor_unwait(w, a);
        give_coroutine(x, co);
        if (x->dispatch.unhandled) {
            x->dispatch.unhandled = false;
            return PR_UNHANDLED;
        }
        return PR_DONE;
    }
    if (status == LUA_YIELD) {
        pr_wait *wait = w->running->wait;
        if (wait && lua_touserdata(co->L, -1) == &pr_lua_sentinel) {
            lua_pop(co->L, 1);
            wait->suspended = co;
            return PR_SUSPENDED;
        }
        if (wait)
            pr_actor_unwait(w, w->running);
        drop_coroutine(x, co);
        lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->yield_text);
        return failed_with_text(w, x);
    }
    if (w->running->wait)
        pr_actor_unwait(w, w->running);
    failed(w, x, co);
    drop_coroutine(x, co);
    return PR_FAILED;
}

static pr_outcome no_memory(pr_worker *w)
{
    w->failure = NULL;
    return PR_FAILED;
}

static pr_outcome start(pr_worker *w, pr_actor *a)
{
    pr_lua *x = of(w);
    lua_State *L = x->L;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->prepare_start);
    lua_pushlightuserdata(L, a);
    if (lua_pcall(L, 1, LUA_MULTRET, 0) != 0)
        return failed_with_text(w, x);
    int n = lua_gettop(L);
    const pr_loaded *b = loaded_of(x, a);
    if (b->start == 0) {
        lua_settop(L, 0);
        return PR_DONE;
    }
    pr_co *co = take_coroutine(x);
    if (!co || !lua_checkstack(co->L, n + 8)) {
        lua_settop(L, 0);
        return no_memory(w);
    }
    lua_rawgeti(co->L, 1, (int)b->start);
    lua_xmove(L, co->L, n);
    return run(w, x, co, n);
}

uint32_t pr_lua_handler(pr_lua *x, pr_actor *a, const pr_msg *m, uint32_t *skip)
{
    pr_loaded *b = loaded_of(x, a);
    uint32_t len, handler = 0;
    *skip = 0;
    if (b->names) {
        const char *name = pr_msg_first_string(m, &len);
        if (name && (handler = handler_named(b, name, len)) != 0)
            *skip = 1;
    }
    return handler ? handler : b->receive;
}

/* The loop of dispatch.lua takes it from here: this message first, then others. */
static pr_outcome receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_lua *x = of(w);
    pr_co *co = take_coroutine(x);
    (void)a, (void)m;
    if (!co)
        return no_memory(w);
    x->dispatch.fresh = true;
    lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->dispatch.loop);
    return run(w, x, co, 0);
}

static pr_outcome resume(pr_worker *w, pr_actor *a)
{
    pr_lua *x = of(w);
    pr_wait *wait = w->resumed;
    pr_co *co = wait->suspended;
    int n = 0;
    (void)a;
    switch (wait->kind) {
    case PR_WAIT_ASK:
        if (wait->reply) {
            lua_pushboolean(co->L, wait->reply->kind == PR_MSG_REPLY);
            n = pr_lua_decode_to(co->L, x, wait->reply, 0);
            if (n < 0) {   /* no memory for the reply: an error of the ask */
                lua_pop(x->L, 1);
                lua_settop(co->L, lua_gettop(co->L) - 1);
                lua_pushboolean(co->L, 0);
                n = 0;
            }
            n++;
        } else {
            lua_pushboolean(co->L, 0);
            lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->timeout_text);
            n = 2;
        }
        break;
    case PR_WAIT_SEND:   /* it is in the mailbox now, or will never be */
        if (wait->reply && wait->reply->kind == PR_MSG_REPLY) {
            lua_pushboolean(co->L, 1);
            n = 1;
        } else {
            lua_pushnil(co->L);
            lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->dead_text);
            n = 2;
        }
        break;
    case PR_WAIT_RECEIVE:
        lua_pushboolean(co->L, !wait->timed_out);
        n = 1;
        break;
    case PR_WAIT_STOOD_BACK:
        lua_pushboolean(co->L, 1);
        n = 1;
        break;
    default:
        break;
    }
    return run(w, x, co, n);
}

/* stop(self, reason): the reason is decoded under protection, then all is moved to the coroutine. */
static int l_prepare_stop(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = lua_touserdata(L, 1);
    const pr_msg *reason = lua_touserdata(L, 2);
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->selves);
    lua_rawgeti(L, 1, (int)spawned_of(x, a)->stop);
    lua_rawgeti(L, 1, (int)a->self);
    lua_remove(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->reason);
    if (!reason) {
        lua_pushboolean(L, 0);
        lua_pushliteral(L, "normal");
        lua_call(L, 2, 1);
    } else {
        lua_pushboolean(L, reason->kind == PR_MSG_ERROR);
        lua_call(L, 1 + pr_lua_decode(L, x, reason, 0), 1);
    }
    return 3;
}

static pr_outcome stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    pr_lua *x = of(w);
    lua_State *L = x->L;
    if (spawned_of(x, a)->stop == 0)
        return PR_DONE;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->prepare_stop);
    lua_pushlightuserdata(L, a);
    lua_pushlightuserdata(L, (void *)(uintptr_t)reason);
    if (lua_pcall(L, 2, 3, 0) != 0)
        return failed_with_text(w, x);
    pr_co *co = take_coroutine(x);
    if (!co)
        return no_memory(w);
    lua_xmove(L, co->L, 3);
    return run(w, x, co, 2);
}

static void abandon(pr_worker *w, pr_actor *a, void *suspended)
{
    (void)a;
    drop_coroutine(of(w), suspended);
}

static void release(pr_worker *w, pr_actor *a)
{
    pr_lua *x = of(w);
    if (a->self == 0)
        return;
    pr_lua_output_ended(x, PR_GET(a->id));
    pr_lua_become_end(x, a);
    drop(x, a->self);
    a->self = 0;
    /* Ended actors leave garbage without allocating anything, by which the collector would notice. */
    if (++x->released % RELEASES == 0)
        pr_lua_collect(x, RELEASES / 4);
}

static void where(pr_worker *w, void *suspended, char *buf, size_t cap)
{
    (void)w;
    pr_co *co = suspended;
    lua_Debug ar;
    for (int level = 0; lua_getstack(co->L, level, &ar); level++)
        if (lua_getinfo(co->L, "Sl", &ar) && ar.currentline > 0 && strncmp(ar.short_src, "pierrot/", 8) != 0) {
            snprintf(buf, cap, "%s:%d", ar.short_src, ar.currentline);
            return;
        }
}

/* --- failures, for others */

static int l_traps(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = lua_touserdata(L, 1);
    lua_pushboolean(L, load(L, x, a)->trap_exit);
    return 1;
}

/* It may not have run yet. A behaviour that cannot be loaded traps nothing. */
static bool traps(pr_worker *w, pr_actor *a)
{
    pr_lua *x = of(w);
    lua_State *L = x->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->traps);
    lua_pushlightuserdata(L, a);
    bool answer = lua_pcall(L, 1, 1, 0) == 0 && lua_toboolean(L, -1);
    lua_settop(L, top);
    return answer;
}

/* make_reason(ERROR payload) -> light userdata of a message with the error object */
static int l_make_reason(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_msg *error = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->reason);
    lua_pushboolean(L, 1);
    lua_call(L, 1 + pr_lua_decode(L, x, error, 0), 1);
    pr_msg *m = pr_lua_try_encode(L, x, 1, "reason");
    if (!m)
        return lua_error(L);
    lua_settop(L, 0);
    lua_pushlightuserdata(L, m);
    return 1;
}

static pr_msg *reason(pr_worker *w, const pr_msg *error)
{
    pr_lua *x = of(w);
    lua_State *L = x->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->make_reason);
    lua_pushlightuserdata(L, (void *)(uintptr_t)error);
    pr_msg *m = lua_pcall(L, 1, 1, 0) == 0 ? lua_touserdata(L, -1) : NULL;
    lua_settop(L, top);
    return m;
}

/* Called for every child that fails: it has run, so its behaviour is loaded. */
static const pr_rules *rules(pr_worker *w, pr_actor *a)
{
    return spawned_of(of(w), a)->rules;
}

/* prepare_decision(child ref, ERROR payload): -> the error object, child */
static int l_prepare_decision(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    const pr_msg *error = lua_touserdata(L, 2);
    lua_settop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->reason);
    lua_pushboolean(L, 1);
    lua_call(L, 1 + pr_lua_decode(L, x, error, 0), 1);
    lua_insert(L, 1);
    return 2;
}

static uint8_t verdict_named(lua_State *L, int index)
{
    static const struct { const char *name; uint8_t verdict; } verdicts[] = {
        {"restart", PR_VERDICT_RESTART}, {"stop", PR_VERDICT_STOP}, {"resume", PR_VERDICT_RESUME}, {"escalate", PR_VERDICT_ESCALATE}};
    if (lua_isnil(L, index))
        return PR_VERDICT_NONE;
    for (size_t i = 0; lua_type(L, index) == LUA_TSTRING && i < sizeof verdicts / sizeof *verdicts; i++)
        if (strcmp(lua_tostring(L, index), verdicts[i].name) == 0)
            return verdicts[i].verdict;
    return PR_VERDICT_FAILED;
}

/* on_failure on a coroutine of its own: a handler of the same actor may be suspended. It cannot wait itself. */
static uint8_t decide(pr_worker *w, pr_actor *a, uint64_t child, const pr_msg *error)
{
    pr_lua *x = of(w);
    lua_State *L = x->L;
    uint32_t on_failure = spawned_of(x, a)->on_failure;
    pr_co *co = take_coroutine(x);
    if (!co)
        return PR_VERDICT_NONE;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decide);
    lua_pushlightuserdata(L, (void *)(uintptr_t)child);
    lua_pushlightuserdata(L, (void *)(uintptr_t)error);
    if (lua_pcall(L, 2, 2, 0) != 0) {
        give_coroutine(x, co);
        failed_with_text(w, x);
        return PR_VERDICT_FAILED;
    }
    lua_rawgeti(co->L, 1, (int)on_failure);
    lua_xmove(L, co->L, 2);
    x->deciding = true;
    int status = lua_resume(co->L, 2);
    x->deciding = false;
    if (status == 0) {
        lua_settop(co->L, 2);
        uint8_t verdict = verdict_named(co->L, 2);
        give_coroutine(x, co);
        if (verdict == PR_VERDICT_FAILED) {
            lua_rawgeti(L, LUA_REGISTRYINDEX, x->verdict_text);
            failed_with_text(w, x);
        }
        return verdict;
    }
    if (status == LUA_YIELD) {   /* a coroutine.yield of the script's own */
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->yield_text);
        failed_with_text(w, x);
    } else {
        failed(w, x, co);
    }
    drop_coroutine(x, co);
    return PR_VERDICT_FAILED;
}

static const pr_kin_ops kin_ops = {traps, reason, rules, decide};
const pr_ops pr_lua_ops = {start, receive, resume, stop, abandon, release, where, &kin_ops};

int pr_lua_become_script(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_loaded *b = loaded_of(x, x->w->running);
    uint32_t generation = b->generation;
    pr_loaded fresh = {0};
    lua_settop(L, 1);
    set_loaded(L, x, &fresh);
    fresh.generation = generation;
    unload(x, b);
    *b = fresh;
    return 0;
}

static int anchor(lua_State *L, pr_lua *x, lua_CFunction f)
{
    lua_pushlightuserdata(L, x);
    lua_pushcclosure(L, f, 1);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

bool pr_lua_open_actors(lua_State *L, pr_lua *x)
{
    lua_newtable(L);
    x->selves = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "dead");
    x->dead_text = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "timeout");
    x->timeout_text = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "coroutine.yield called outside a coroutine (pierrot.yield() lets others run)");
    x->yield_text = luaL_ref(L, LUA_REGISTRYINDEX);
    x->new_coroutine = anchor(L, x, l_new_coroutine);
    x->decode_message = anchor(L, x, pr_lua_decode_message);
    x->prepare_start = anchor(L, x, l_prepare_start);
    x->prepare_stop = anchor(L, x, l_prepare_stop);
    x->traps = anchor(L, x, l_traps);
    x->decide = anchor(L, x, l_prepare_decision);
    lua_pushliteral(L, "on_failure returns \"restart\", \"resume\", \"stop\", \"escalate\", or nothing");
    x->verdict_text = luaL_ref(L, LUA_REGISTRYINDEX);
    x->make_reason = anchor(L, x, l_make_reason);
    x->priority = anchor(L, x, l_priority);
    x->describe_failure = anchor(L, x, l_describe_failure);
    return true;
}

void pr_lua_close_actors(pr_lua *x)
{
    for (uint32_t i = 0; i < x->loaded_capacity; i++) {
        pr_free(x->loaded[i].names);
        pr_free(x->loaded[i].rules);
    }
    pr_free(x->loaded);
    pr_free(x->free_self);
    while (x->co) {
        pr_co *co = x->co;
        x->co = co->next;
        pr_free(co);
    }
}
