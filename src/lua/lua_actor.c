/* Actors written in Lua: how the worker runs their handlers (pr_ops).
 *
 * Handlers run on coroutines taken from a pool. At the bottom of each one's stack lies the table of all
 * `self`s; above it, per message: the handler, self, the values. A coroutine that finished is used again, one
 * that suspended belongs to its handler, one that raised is thrown away once its traceback is taken.
 *
 * All this happens at the worker's base level, where nothing may raise: what allocates in Lua is done by C
 * functions under lua_pcall (decode, prepare_start, describe_failure). Numbers, booleans and refs need none. */
#include "lua_actor.h"

#include "../alloc.h"

#include <stdio.h>
#include <string.h>

char pr_lua_sentinel;

enum { PATTERN = 4 };      /* lives of a behaviour: the self of the next that ends is looked at for the later ones */
enum { RELEASES = 512 };   /* so many ended actors, more than new ones, for a step of the collector */

int pr_lua_decode_message(lua_State *L);

/* --- coroutines */

static int l_new_coroutine(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_co *co = lua_touserdata(L, 1);
    co->L = lua_newthread(L);
    luaL_checkstack(co->L, LUA_MINSTACK, "coroutine");
    lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->kept);   /* at its bottom, where it is at hand */
    co->anchor = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* NULL: no memory. */
pr_co *pr_co_take(pr_lua *x)
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

void pr_co_give(pr_lua *x, pr_co *co)
{
    lua_settop(co->L, 1);
    co->next = x->co;
    x->co = co;
}

void pr_co_drop(pr_lua *x, pr_co *co)
{
    luaL_unref(x->L, LUA_REGISTRYINDEX, co->anchor);
    pr_free(co);
}

/* --- running a handler */

/* prepare_start(actor): makes `self`, decodes the arguments. Returns self and the arguments. */
static int l_prepare_start(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_actor *a = lua_touserdata(L, 1);
    pr_loaded_load(L, x, a);
    x->released -= x->released > 0;
    lua_newtable(L);
    lua_pushvalue(L, -1);
    a->self = pr_lua_keep_self(L, x);
    return 1 + (a->start_args ? pr_lua_decode(L, x, a->start_args, 0) : 0);
}

/* Runs or goes on: the function (at first) and `nargs` arguments lie on co's stack. */
static pr_outcome run(pr_worker *w, pr_lua *x, pr_co *co, int nargs)
{
    bool inside = pr_lua_budget_begins(x);
    bool sliced = pr_lua_slice_begins(x, co->L);
    int status = lua_resume(co->L, nargs);
    if (sliced)
        pr_lua_slice_ends(x);
    pr_lua_budget_ends(x, inside);
    if (status == 0) {
        pr_actor *a = w->running;
        if (a && a->wait && !(a->flags & PR_FLAG_SUSPENDED))   /* an ask in a coroutine of the script's own, left behind */
            pr_actor_unwait(w, a);
        pr_co_give(x, co);
        if (x->dispatch.unhandled) {
            x->dispatch.unhandled = false;
            return PR_UNHANDLED;
        }
        return PR_DONE;
    }
    if (status == LUA_YIELD) {
        pr_wait *wait = w->running->wait;
        if (wait && wait->kind == PR_WAIT_SLICED) {
            if (x->slice.passed)
                lua_pop(co->L, 1);   /* the mark */
            wait->suspended = co;
            return PR_SUSPENDED;
        }
        if (wait && lua_touserdata(co->L, -1) == &pr_lua_sentinel) {
            lua_pop(co->L, 1);
            wait->suspended = co;
            return PR_SUSPENDED;
        }
        if (wait)
            pr_actor_unwait(w, w->running);
        pr_co_drop(x, co);
        lua_rawgeti(x->L, LUA_REGISTRYINDEX, x->yield_text);
        return pr_lua_failed_with_text(w, x);
    }
    if (w->running->wait)
        pr_actor_unwait(w, w->running);
    pr_lua_failed(w, x, co);
    pr_co_drop(x, co);
    return PR_FAILED;
}

static pr_outcome no_memory(pr_worker *w)
{
    w->failure = NULL;
    return PR_FAILED;
}

static pr_outcome start(pr_worker *w, pr_actor *a)
{
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->L;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->prepare_start);
    lua_pushlightuserdata(L, a);
    bool inside = pr_lua_budget_begins(x);   /* its module is loaded */
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    pr_lua_budget_ends(x, inside);
    if (status != 0)
        return pr_lua_failed_with_text(w, x);
    int n = lua_gettop(L);
    const pr_loaded *b = pr_loaded_of(x, a);
    if (b->start == 0) {
        lua_settop(L, 0);
        return PR_DONE;
    }
    pr_co *co = pr_co_take(x);
    if (!co || !lua_checkstack(co->L, n + 8)) {
        lua_settop(L, 0);
        return no_memory(w);
    }
    lua_rawgeti(co->L, 1, (int)b->start);
    lua_xmove(L, co->L, n);
    return run(w, x, co, n);
}

/* The loop of dispatch.lua takes it from here: this message first, then others. */
static pr_outcome receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_lua *x = pr_lua_at(w);
    pr_co *co = pr_co_take(x);
    (void)a, (void)m;
    if (!co)
        return no_memory(w);
    x->dispatch.fresh = true;
    lua_rawgeti(co->L, LUA_REGISTRYINDEX, x->dispatch.loop);
    return run(w, x, co, 0);
}

static pr_outcome resume(pr_worker *w, pr_actor *a)
{
    pr_lua *x = pr_lua_at(w);
    pr_wait *wait = w->resumed;
    pr_co *co = wait->suspended;
    int n = 0;
    (void)a;
    switch (wait->kind) {
    case PR_WAIT_ASK:
        if (wait->reply) {
            if (wait->reply->kind == PR_MSG_REPLY)
                lua_pushinteger(co->L, wait->reply->count);
            else
                lua_pushboolean(co->L, 0);
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
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_rawgeti(L, 1, (int)pr_loaded_spawned(x, a)->stop);
    lua_remove(L, 1);
    pr_lua_push_self(L, x, a->self);
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
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->L;
    if (pr_loaded_spawned(x, a)->stop == 0)
        return PR_DONE;
    lua_settop(L, 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->prepare_stop);
    lua_pushlightuserdata(L, a);
    lua_pushlightuserdata(L, (void *)(uintptr_t)reason);
    if (lua_pcall(L, 2, 3, 0) != 0)
        return pr_lua_failed_with_text(w, x);
    pr_co *co = pr_co_take(x);
    if (!co)
        return no_memory(w);
    lua_xmove(L, co->L, 3);
    return run(w, x, co, 2);
}

static void abandon(pr_worker *w, pr_actor *a, void *suspended)
{
    (void)a;
    pr_co_drop(pr_lua_at(w), suspended);
}

static void release(pr_worker *w, pr_actor *a)
{
    pr_lua *x = pr_lua_at(w);
    if (a->self == 0)
        return;
    pr_lua_output_ended(x, PR_GET(a->id));
    pr_lua_become_end(x, a);
    pr_loaded *b = pr_loaded_of(x, a);
    if (b->lives >= PATTERN && !b->patterned && !x->pattern.self) {
        b->patterned = true;
        x->pattern.self = a->self;
        x->pattern.index = PR_GET(a->behaviour)->index;
        x->pattern.generation = b->generation;
        w->chores |= PR_CHORES;
    } else {
        pr_lua_leave_self(x, a->self);
    }
    a->self = 0;
    /* Ended actors leave garbage without allocating anything, by which the collector would notice, but for those that others
     * follow. Not here, where compiled code may be at work. */
    if (++x->released == RELEASES) {
        x->released = 0;
        x->collect_due = true;
        w->chores |= PR_CHORES;
    }
}

bool pr_lua_ends_silently(pr_worker *w, pr_actor *a)
{
    pr_lua *x = pr_lua_at(w);
    return pr_loaded_of(x, a)->stop == 0 && pr_lua_output_silent(x);
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

void pr_lua_handler_at(pr_worker *w, pr_actor *a, const pr_msg *m, char *buf, size_t cap)
{
    pr_lua *x = pr_lua_at(w);
    lua_State *L = x->L;
    lua_Debug ar;
    uint32_t skip;
    const pr_loaded *b = pr_loaded_of(x, a);
    pr_loaded *newest = &x->loaded[b->successor ? b->successor->index : PR_GET(a->behaviour)->index];
    uint32_t handler = !newest->generation ? 0 : m ? pr_loaded_handler(newest, m, &skip)
                     : newest->last ? newest->last->handler : newest->receive;
    if (handler == 0)
        return;
    int top = lua_gettop(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->kept);
    lua_rawgeti(L, -1, (int)handler);
    if (lua_isfunction(L, -1) && lua_getinfo(L, ">S", &ar) && ar.linedefined > 0 &&
        strncmp(ar.short_src, "pierrot/", 8) != 0)
        snprintf(buf, cap, "%s:%d", ar.short_src, ar.linedefined);
    lua_settop(L, top);
}

const pr_ops pr_lua_ops = {start, receive, resume, stop, abandon, release, where, &pr_lua_kin};

int pr_lua_anchor(lua_State *L, pr_lua *x, lua_CFunction f)
{
    lua_pushlightuserdata(L, x);
    lua_pushcclosure(L, f, 1);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

bool pr_lua_open_actors(lua_State *L, pr_lua *x)
{
    pr_lua_open_handles(L, x);
    lua_pushliteral(L, "dead");
    x->dead_text = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "timeout");
    x->timeout_text = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pushliteral(L, "coroutine.yield called outside a coroutine (pierrot.yield() lets others run)");
    x->yield_text = luaL_ref(L, LUA_REGISTRYINDEX);
    x->new_coroutine = pr_lua_anchor(L, x, l_new_coroutine);
    x->decode_message = pr_lua_anchor(L, x, pr_lua_decode_message);
    x->prepare_start = pr_lua_anchor(L, x, l_prepare_start);
    x->prepare_stop = pr_lua_anchor(L, x, l_prepare_stop);
    pr_lua_open_failing(L, x);
    return true;
}

void pr_lua_close_actors(pr_lua *x)
{
    pr_lua_close_loaded(x);
    pr_lua_close_handles(x);
    while (x->co) {
        pr_co *co = x->co;
        x->co = co->next;
        pr_free(co);
    }
}
