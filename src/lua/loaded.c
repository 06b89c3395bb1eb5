/* Behaviours as this state has loaded them: from the bytes that travel, once, to functions under handles, a table of
 * handlers by name, and rules. */
#include "lua_actor.h"

#include "../alloc.h"

#include <string.h>

/* --- handlers by name */

/* The same as pr_name_ends of a message that begins with it. */
static void ends_of(const char *name, uint32_t len, uint64_t *head, uint64_t *tail)
{
    uint8_t image[PR_NAME_AT + PR_NAME_SHORT];
    uint32_t begin = len <= PR_NAME_SHORT ? len : PR_NAME_SHORT;
    pr_wire_put_string(image, name, begin);
    memcpy(image + PR_NAME_AT - sizeof len, &len, sizeof len);
    pr_name_ends(image, begin, head, tail);
    if (len > begin)
        memcpy(tail, name + len - sizeof *tail, sizeof *tail);
}

static uint32_t handler_named(pr_loaded *b, const uint8_t *image, uint32_t len)
{
    uint64_t head, tail;
    pr_name_ends(image, len, &head, &tail);
    for (uint32_t i = pr_name_place(b, head, tail);; i = (i + 1) & b->names_mask) {
        const pr_named *n = &b->names[i];
        if (!n->name)
            return 0;
        if (n->head == head && n->tail == tail && (len <= PR_NAME_SHORT || memcmp(n->name, image + PR_NAME_AT, len) == 0)) {
            b->last = n;
            return n->handler;
        }
    }
}

uint32_t pr_lua_handler(pr_lua *x, pr_actor *a, const pr_msg *m, uint32_t *skip)
{
    pr_loaded *b = pr_loaded_of(x, a);
    return b->successor ? pr_lua_newer_handler(x, a, b, m, skip) : pr_loaded_handler(b, m, skip);
}

uint32_t pr_loaded_handler(pr_loaded *b, const pr_msg *m, uint32_t *skip)
{
    uint32_t len, handler = 0;
    *skip = 0;
    if (b->names) {
        if (pr_msg_first_string(m, &len) && (handler = handler_named(b, m->data, len)) != 0)
            *skip = 1;
    }
    return handler ? handler : b->receive;
}

/* --- loading */

static void free_parts(pr_loaded *b)
{
    pr_free(b->rules);
    pr_free(b->names);
    b->rules = NULL;
    b->names = NULL;
}

static void unload(pr_lua *x, pr_loaded *b)
{
    if (b->successor)
        pr_behaviour_drop(&x->rt->behaviours, b->successor);
    b->successor = NULL;
    if (b->generation == 0) {   /* half loaded, perhaps, when memory ran out; handles go with the state */
        free_parts(b);
        return;
    }
    pr_lua_unkeep(x, b->start);
    pr_lua_unkeep(x, b->receive);
    pr_lua_unkeep(x, b->stop);
    pr_lua_unkeep(x, b->table);
    pr_lua_unkeep(x, b->on_failure);
    pr_lua_unkeep(x, b->upgrade);
    pr_lua_unkeep(x, b->maker);
    pr_free(b->rules);
    for (uint32_t i = 0; b->names && i <= b->names_mask; i++)
        if (b->names[i].name)
            pr_lua_unkeep(x, b->names[i].handler);
    pr_free(b->names);
    memset(b, 0, sizeof *b);
}

static uint32_t keep_field(lua_State *L, pr_lua *x, int table, const char *name)
{
    lua_getfield(L, table, name);
    if (!lua_isnil(L, -1))
        return pr_lua_keep(L, x);
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
        b->on_failure = pr_lua_keep(L, x);
    else
        lua_pop(L, 1);
}

/* Sets up `b` from the behaviour (a function or a table) on top of the stack; pops it. Raises. */
static void set_loaded(lua_State *L, pr_lua *x, pr_loaded *b)
{
    int top = lua_gettop(L);
    b->start = b->receive = b->stop = b->table = b->upgrade = 0;
    b->successor = NULL;
    b->trap_exit = false;
    b->on_failure = 0;
    b->rules = NULL;
    b->names = NULL;
    b->last = NULL;
    if (lua_isfunction(L, top)) {
        b->receive = pr_lua_keep(L, x);
        return;
    }
    b->start = keep_field(L, x, top, "start");
    b->receive = keep_field(L, x, top, "receive");
    b->stop = keep_field(L, x, top, "stop");
    b->upgrade = keep_field(L, x, top, "upgrade");
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
            n.handler = pr_lua_keep(L, x);
            ends_of(n.name, (uint32_t)len, &n.head, &n.tail);
            uint32_t i = pr_name_place(b, n.head, n.tail);
            while (b->names[i].name)
                i = (i + 1) & b->names_mask;
            b->names[i] = n;
        }
    }
    lua_pop(L, 1);
    b->table = pr_lua_keep(L, x);   /* anchors the names' strings */
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

bool pr_lua_load_private(lua_State *L, pr_lua *x, pr_behaviour *b)
{
    pr_loaded *place = slot_for(x, b->index);
    if (!place) {
        lua_pop(L, 1);
        return false;
    }
    unload(x, place);
    set_loaded(L, x, place);
    place->generation = b->generation;
    return true;
}

void pr_lua_unload(pr_lua *x, uint32_t index)
{
    unload(x, &x->loaded[index]);
}

/* As it is here, loaded if need be. Raises. */
static pr_loaded *loaded(lua_State *L, pr_lua *x, pr_behaviour *behaviour)
{
    pr_loaded *b = slot_for(x, behaviour->index);
    if (!b)
        luaL_error(L, "not enough memory");
    if (b->generation == behaviour->generation)
        return b;
    unload(x, b);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->load);
    lua_pushlstring(L, (const char *)behaviour->bytes, behaviour->size);
    lua_call(L, 1, 1);
    if (lua_istable(L, -1)) {
        lua_getfield(L, -1, "name");
        if (lua_type(L, -1) == LUA_TSTRING)   /* a module's own name wins over the module's */
            pr_behaviour_rename(&x->rt->behaviours, behaviour, lua_tostring(L, -1));
        lua_getfield(L, -2, "version");
        bool is_number = lua_type(L, -1) == LUA_TNUMBER;
        if (is_number || lua_type(L, -1) == LUA_TSTRING)
            pr_behaviour_say_version(&x->rt->behaviours, behaviour, lua_tostring(L, -1), is_number);
        lua_pop(L, 2);
    }
    set_loaded(L, x, b);
    b->generation = behaviour->generation;
    return b;
}

void pr_lua_load_staged(lua_State *L, pr_lua *x, pr_behaviour *behaviour)
{
    loaded(L, x, behaviour);
}

/* A life begins with the newest version. */
static void take_newest(pr_lua *x, pr_actor *a)
{
    pr_behaviour *b = PR_GET(a->behaviour);
    if (!PR_GET(b->newer))
        return;
    PR_SET(a->behaviour, pr_behaviour_newest(&x->rt->behaviours, b));
    pr_behaviour_drop(&x->rt->behaviours, b);
}

pr_loaded *pr_loaded_load(lua_State *L, pr_lua *x, pr_actor *a)
{
    lua_settop(L, 0);
    if (a->flags & PR_FLAG_STARTING)
        take_newest(x, a);
    return loaded(L, x, a->extra && a->extra->below_count > 0 ? a->extra->below[0] : PR_GET(a->behaviour));
}

uint32_t pr_lua_load_function(lua_State *L, pr_lua *x, pr_behaviour *function)
{
    return loaded(L, x, function)->receive;
}

int pr_lua_become_script(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_loaded *b = pr_loaded_of(x, x->w->running);
    uint32_t generation = b->generation;
    lua_settop(L, 1);
    free_parts(&x->half_loaded);   /* set_loaded may raise, and leave there what it has made */
    memset(&x->half_loaded, 0, sizeof x->half_loaded);
    set_loaded(L, x, &x->half_loaded);
    x->half_loaded.generation = generation;
    unload(x, b);
    *b = x->half_loaded;
    x->half_loaded.rules = NULL;
    x->half_loaded.names = NULL;
    return 0;
}

void pr_lua_close_loaded(pr_lua *x)
{
    for (uint32_t i = 0; i < x->loaded_capacity; i++)
        free_parts(&x->loaded[i]);
    free_parts(&x->half_loaded);
    pr_free(x->loaded);
}
