/* Failures at the border: an error value as an ERROR payload, and what a parent or a linked actor makes of one.
 *
 * All of it at a worker's base level, where nothing may raise: what allocates in Lua is a C function under lua_pcall. */
#include "lua_actor.h"

#include "../alloc.h"

#include <limits.h>
#include <string.h>

/* --- of an actor */

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

/* Text in the making: what does not fit is cut off. */
typedef struct { char *at, *end; } writer;

static void put(writer *t, const char *s, size_t n)
{
    size_t room = (size_t)(t->end - t->at);
    n = n < room ? n : room;
    memcpy(t->at, s, n);
    t->at += n;
}

#define PUT(t, literal) put((t), (literal), sizeof(literal) - 1)

static void put_number(writer *t, int number)
{
    char digits[3 * sizeof number], *at = digits + sizeof digits;
    unsigned n = number < 0 ? 0 : (unsigned)number;
    do
        *--at = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    put(t, at, (size_t)(digits + sizeof digits - at));
}

/* Pushes what luaL_traceback would, without the runtime's own frames. Written at once and without snprintf: that function
 * makes a Lua string of each piece, which would be a quarter of what a restart costs. */
static void push_traceback(lua_State *L, lua_State *co)
{
    enum { FIRST = 12, LAST = 10, NAME = 120, LINE = 2 * LUA_IDSIZE + NAME + 80 };   /* the first two as there */
    char text[(FIRST + LAST + 2) * LINE];
    writer t = {text, text + sizeof text};
    lua_Debug frame;
    int depth = 0;
    while (depth < INT_MAX / 2 && lua_getstack(co, depth, &frame)) {
        if (++depth > FIRST + LAST) {   /* a deep one: how deep, by halves */
            int more = depth, step = 1;
            for (; lua_getstack(co, more + step, &frame) && step < INT_MAX / 4; step *= 2)
                more += step;
            for (; step > 0; step /= 2)
                if (lua_getstack(co, more + step - 1, &frame))
                    more += step;
            depth = more;
            break;
        }
    }
    PUT(&t, "stack traceback:");
    for (int level = 0; level < depth && lua_getstack(co, level, &frame); level++) {
        if (level == FIRST && depth > FIRST + LAST) {
            PUT(&t, "\n\t...");
            level = depth - LAST - 1;
            continue;
        }
        lua_getinfo(co, "Snl", &frame);
        if (strncmp(frame.short_src, "pierrot/", 8) == 0 || (*frame.what == 'C' && !*frame.namewhat))
            continue;
        size_t source = strlen(frame.short_src);
        PUT(&t, "\n\t");
        put(&t, frame.short_src, source);
        PUT(&t, ":");
        if (frame.currentline > 0) {
            put_number(&t, frame.currentline);
            PUT(&t, ":");
        }
        if (*frame.namewhat) {
            PUT(&t, " in function '");
            put(&t, frame.name, strnlen(frame.name, NAME));
            PUT(&t, "'");
        } else if (*frame.what == 'm') {
            PUT(&t, " in main chunk");
        } else {
            PUT(&t, " in function <");
            put(&t, frame.short_src, source);
            PUT(&t, ":");
            put_number(&t, frame.linedefined);
            PUT(&t, ">");
        }
    }
    lua_pushlstring(L, text, (size_t)(t.at - text));
}

/* describe_failure(co, message is on top of co's stack): -> light userdata of the payload. */
static int l_describe_failure(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    lua_State *co = lua_touserdata(L, 1);
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->failure);
    push_traceback(L, co);
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

/* An error may have cut off LuaJIT's recorder, which tells its handlers of that (recorder.lua's) at the next call. From
 * which line it then looks for among the callers, and crashes where no Lua function is one: so a Lua function is next. */
static void call_lua(pr_lua *x)
{
    lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->nothing);
    if (lua_pcall(x->L, 0, 0, 0) != 0)
        lua_pop(x->L, 1);
}

/* The error value lies on top of co's stack. */
pr_outcome pr_lua_failed(pr_worker *w, pr_lua *x, pr_co *co)
{
    lua_State *L = x->L;
    call_lua(x);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->describe_failure);
    lua_pushlightuserdata(L, co->L);
    w->failure = NULL;
    bool inside = pr_lua_budget_begins(x);   /* the error may have a __tostring of the script's */
    int status = lua_pcall(L, 1, 1, 0);
    pr_lua_budget_ends(x, inside);
    if (status == LUA_ERRRUN && lua_isstring(L, -1)) {
        pr_lua_failed_with_text(w, x);
    } else {
        if (status == 0)
            w->failure = lua_touserdata(L, -1);
        lua_pop(L, 1);
    }
    if (x->heap.refused) {
        lua_settop(co->L, 1);   /* what its frames held is garbage */
        pr_lua_collect_refused(x);
    }
    return PR_FAILED;
}

/* A text lies on top of the main stack; it is popped. */
pr_outcome pr_lua_failed_with_text(pr_worker *w, pr_lua *x)
{
    lua_State *L = x->L;
    call_lua(x);
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
    if (x->heap.refused)
        pr_lua_collect_refused(x);
    return PR_FAILED;
}

/* --- of others */

static int l_traps(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = lua_touserdata(L, 1);
    lua_pushboolean(L, pr_loaded_load(L, x, a)->trap_exit);
    return 1;
}

/* It may not have run yet. A behaviour that cannot be loaded traps nothing. */
static bool traps(pr_worker *w, pr_actor *a)
{
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->L;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->traps);
    lua_pushlightuserdata(L, a);
    bool inside = pr_lua_budget_begins(x);
    bool answer = lua_pcall(L, 1, 1, 0) == 0 && lua_toboolean(L, -1);
    pr_lua_budget_ends(x, inside);
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
    pr_lua *x = pr_lua_at(w);
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
    return pr_loaded_spawned(pr_lua_at(w), a)->rules;
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
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->L;
    uint32_t on_failure = pr_loaded_spawned(x, a)->on_failure;
    pr_co *co = pr_co_take(x);
    if (!co)
        return PR_VERDICT_NONE;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->decide);
    lua_pushlightuserdata(L, (void *)(uintptr_t)child);
    lua_pushlightuserdata(L, (void *)(uintptr_t)error);
    if (lua_pcall(L, 2, 2, 0) != 0) {
        pr_co_give(x, co);
        pr_lua_failed_with_text(w, x);
        return PR_VERDICT_FAILED;
    }
    lua_rawgeti(co->L, 1, (int)on_failure);
    lua_xmove(L, co->L, 2);
    x->deciding = true;
    bool inside = pr_lua_budget_begins(x);
    int status = lua_resume(co->L, 2);
    pr_lua_budget_ends(x, inside);
    x->deciding = false;
    if (status == 0) {
        lua_settop(co->L, 2);
        uint8_t verdict = verdict_named(co->L, 2);
        pr_co_give(x, co);
        if (verdict == PR_VERDICT_FAILED) {
            lua_rawgeti(L, LUA_REGISTRYINDEX, x->verdict_text);
            pr_lua_failed_with_text(w, x);
        }
        return verdict;
    }
    if (status == LUA_YIELD) {   /* a coroutine.yield of the script's own */
        lua_rawgeti(L, LUA_REGISTRYINDEX, x->yield_text);
        pr_lua_failed_with_text(w, x);
    } else {
        pr_lua_failed(w, x, co);
    }
    pr_co_drop(x, co);
    return PR_VERDICT_FAILED;
}

const pr_kin_ops pr_lua_kin = {traps, reason, rules, decide, pr_lua_interrupted, pr_lua_handler_at, pr_lua_ends_silently};

void pr_lua_open_failing(lua_State *L, pr_lua *x)
{
    lua_pushliteral(L, "on_failure returns \"restart\", \"resume\", \"stop\", \"escalate\", or nothing");
    x->verdict_text = luaL_ref(L, LUA_REGISTRYINDEX);
    x->traps = pr_lua_anchor(L, x, l_traps);
    x->decide = pr_lua_anchor(L, x, l_prepare_decision);
    x->make_reason = pr_lua_anchor(L, x, l_make_reason);
    x->describe_failure = pr_lua_anchor(L, x, l_describe_failure);
    if (luaL_loadstring(L, "") != 0)
        lua_error(L);
    x->nothing = luaL_ref(L, LUA_REGISTRYINDEX);
}
