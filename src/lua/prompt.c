/* The prompt: what its Lua half (lua/pierrot/prompt.lua) needs of the terminal, and ending a running line.
 *
 * A line runs on coroutines above the handler's own. While one runs, a hook looks every thousand instructions whether
 * its actor is to be interrupted, and if so raises an error, again and again until no coroutine but the handler's own
 * is left: a pcall of the line's cannot keep it. Hooks see every instruction where nothing is compiled: on the
 * dispatcher "prompts". */
#include "border.h"

#include "../alloc.h"
#include "../look.h"
#include "../trace.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_EVERY = 1000 };

/* --- lines */

static void look(lua_State *L, lua_Debug *ar)
{
    pr_lua *x = pr_lua_here;
    const pr_worker *w = x->w;
    uint64_t interrupt = PR_GET(w->interrupt);
    (void)ar;
    if (interrupt == 0 || !w->running || PR_GET(w->running->id) != interrupt)
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->line_bases);
    lua_pushthread(L);
    lua_rawget(L, -2);
    bool base = lua_toboolean(L, -1);
    lua_pop(L, 2);
    if (base)
        return;
    lua_sethook(L, look, LUA_MASKCOUNT, 1);
    luaL_error(L, "interrupted");
}

/* line(whether one runs): on the handler's own coroutine, before and after */
static int l_line(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    bool runs = lua_toboolean(L, 1);
    PR_SET(x->w->interrupt, 0);   /* one that came too late for the last line is not for this one */
    lua_rawgeti(L, LUA_REGISTRYINDEX, x->line_bases);
    lua_pushthread(L);
    lua_pushboolean(L, runs);
    if (!runs) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    lua_rawset(L, -3);
    x->lines = runs ? x->lines + 1 : x->lines - (x->lines > 0);
    lua_sethook(L, x->lines ? look : NULL, x->lines ? LUA_MASKCOUNT : 0, LOOK_EVERY);
    return 0;
}

void pr_lua_interrupted(pr_worker *w, pr_actor *a)
{
    pr_lua *x = w->state;
    (void)a;
    if (x->lines)
        lua_sethook(x->L, look, LUA_MASKCOUNT, 1);   /* not one instruction more than that */
}

/* interrupt(ref) */
static int l_interrupt(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    pr_actor_interrupt(rt, x->w, pr_lua_target(L, x, 1, "interrupt", 1));
    return 0;
}

/* trace(ref, count): this actor is told of its next messages -> true | nil, reason */
static int l_trace(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t target = pr_lua_target(L, x, 1, "trace", 1);
    pr_status status = pr_trace(rt, x->w, target, pr_lua_self(x), (uint32_t)luaL_checkinteger(L, 2));
    lua_pushboolean(L, status == PR_OK);
    lua_pushstring(L, pr_lua_status(status));
    return 2;
}

/* look(ref, whether its ties too): see look.h -> whether it was asked */
static int l_look(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    uint64_t target = pr_lua_target(L, x, 1, "look", 1);
    lua_pushboolean(L, pr_look(rt, x->w, target, pr_lua_self(x), lua_toboolean(L, 2)) == PR_OK);
    return 1;
}

/* --- the terminal, inside */

static pr_terminal *terminal_of(lua_State *L, pr_lua *x)
{
    if (!x->terminal)
        pr_lua_raise(L, 1, "this process has no prompt of its own");
    return x->terminal;
}

/* terminal_ask(prompt): the next line, please */
static int l_terminal_ask(lua_State *L)
{
    size_t len;
    const char *prompt = luaL_checklstring(L, 1, &len);
    pr_terminal_ask(terminal_of(L, pr_lua_of(L)), prompt, len);
    return 0;
}

/* terminal_completed(insert, choices) */
static int l_terminal_completed(lua_State *L)
{
    size_t len, choices_len;
    const char *insert = luaL_checklstring(L, 1, &len), *choices = luaL_checklstring(L, 2, &choices_len);
    pr_terminal_completed(terminal_of(L, pr_lua_of(L)), insert, len, choices, choices_len);
    return 0;
}

/* terminal_run(command) -> its exit status, or 128 + the signal that ended it. The terminal is its own meanwhile. This
 * worker waits. */
static int l_terminal_run(lua_State *L)
{
    const char *argv[] = {"sh", "-c", luaL_checkstring(L, 1), NULL};
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid;
    int status = 127;
    sigemptyset(&none);
    sigfillset(&all);
    /* Workers block all signals: not so what they start. */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    if (posix_spawn(&pid, "/bin/sh", NULL, &attributes, (char **)(uintptr_t)argv, environ) == 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    posix_spawnattr_destroy(&attributes);
    lua_pushinteger(L, status);
    return 1;
}

/* names(prefix) -> registered names that begin so, a line each; as many as fit */
static int l_names(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    size_t len;
    const char *prefix = luaL_checklstring(L, 1, &len);
    char text[16384];
    lua_pushlstring(L, text, pr_registry_list(&rt->names, prefix, len, text, sizeof text));
    return 1;
}

/* id_of(ref) -> its number */
static int l_id_of(lua_State *L)
{
    uint64_t id = 0;
    pr_lua_is_ref(L, 1, &id);
    lua_pushnumber(L, (double)id);
    return 1;
}

/* fail_process(): the command's exit status will be 1 */
static int l_fail_process(lua_State *L)
{
    atomic_store_explicit(&pr_lua_runtime(L, pr_lua_of(L), 1)->script_failed, 1, memory_order_relaxed);
    return 0;
}

/* --- and outside */

/* On the reading thread: the events become messages to the prompt. */
static void to_prompt(void *context, enum pr_terminal_event event, const char *text, size_t len)
{
    static const char names[][10] = {"\0line", "\0end", "\0giveup", "", "\0complete"};
    static const uint8_t lengths[] = {5, 4, 7, 0, 9};
    const pr_lua *x = context;
    if (!x->rt || !x->prompt)
        return;
    if (event == PR_TERMINAL_BREAK) {
        if (text[0] == '2') {
            static const char note[] = "still running: inside a C function? Ctrl-C once more ends the process\n";
            pr_terminal_write_error(x->terminal, note, sizeof note - 1);
        } else if (text[0] == '3') {
            pr_terminal_restore();
            signal(SIGINT, SIG_DFL);
            sigset_t only;
            sigemptyset(&only);
            sigaddset(&only, SIGINT);
            pthread_sigmask(SIG_UNBLOCK, &only, NULL);
            raise(SIGINT);
        }
        pr_actor_interrupt(x->rt, NULL, x->prompt);
        return;
    }
    size_t name_len = lengths[event];
    pr_msg *m = pr_msg_new(NULL, pr_wire_size_bytes(name_len) + pr_wire_size_bytes(len));
    pr_status status = PR_NOMEM;
    if (m) {
        pr_wire_put_string(pr_wire_put_string(m->data, names[event], name_len), text, len);
        m->count = 2;
        m->kind = PR_MSG_USER;
        m->target = x->prompt;
        status = pr_send(x->rt, NULL, m);
        if (status != PR_OK)
            pr_msg_free(NULL, m);
    }
    if (status != PR_OK)   /* the prompt has ended, and with it what the process is for */
        pr_runtime_stop(x->rt, NULL);
}

static void put_above(void *terminal, const char *line, size_t len) { pr_terminal_write_error(terminal, line, len); }

void pr_lua_log_above(void *terminal, enum pr_log_level level, const char *text, size_t len)
{
    pr_log_lay_out(level, text, len, true, put_above, terminal);
}

/* terminal_open(history file or nil, whether for another process's prompt) -> { interactive =, coloured =, edits = }; nil:
 * not enough memory, no thread */
static int l_terminal_open(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    x->terminal = pr_terminal_open(luaL_optstring(L, 1, NULL), lua_toboolean(L, 2) ? pr_lua_to_link : to_prompt, x);
    if (!x->terminal)
        return 0;
    if (lua_toboolean(L, 2))
        pr_terminal_catch(x->terminal);
    lua_createtable(L, 0, 3);
    lua_pushboolean(L, pr_terminal_interactive(x->terminal));
    lua_setfield(L, -2, "interactive");
    lua_pushboolean(L, pr_terminal_coloured(x->terminal));
    lua_setfield(L, -2, "coloured");
    lua_pushboolean(L, pr_terminal_edits(x->terminal));
    lua_setfield(L, -2, "edits");
    return 1;
}

/* terminal_bind(ref): whose lines they are, before the first is asked for */
static int l_terminal_bind(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    x->prompt = pr_lua_target(L, x, 1, "terminal_bind", 1);
    return 0;
}

static int l_terminal_close(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    if (x->terminal)
        pr_terminal_close(x->terminal);
    return 0;
}

void pr_lua_open_prompt(lua_State *L, pr_lua *x)
{
    static const luaL_Reg inside[] = {
        {"line", l_line}, {"trace", l_trace}, {"look", l_look}, {"terminal_ask", l_terminal_ask},
        {"terminal_completed", l_terminal_completed}, {"terminal_run", l_terminal_run}, {"names", l_names}, {"id_of", l_id_of},
        {"fail_process", l_fail_process}, {NULL, NULL}};
    static const luaL_Reg outside[] = {
        {"terminal_open", l_terminal_open}, {"terminal_bind", l_terminal_bind}, {"terminal_close", l_terminal_close}, {NULL, NULL}};
    static const luaL_Reg both[] = {{"interrupt", l_interrupt}, {NULL, NULL}};
    pr_lua_add(L, x, x->w ? inside : outside);
    pr_lua_add(L, x, both);
    if (x->w) {
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushliteral(L, "k");
        lua_setfield(L, -2, "__mode");
        lua_setmetatable(L, -2);
        x->line_bases = luaL_ref(L, LUA_REGISTRYINDEX);
    }
}
