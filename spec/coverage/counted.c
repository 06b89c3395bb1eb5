/* Linked into everything that `make coverage` builds, and into nothing else.
 *
 * gcov writes its counts where a program ends by exit(). The command ends by _exit, and tests kill it: so there the counts are
 * written before _exit, and all along by a thread.
 *
 * Lines of the Lua half: with PIERROT_LINES=DIR in the environment, each state that loads a part of it gets a line hook, and
 * compiles nothing from then on, for compiled code runs no hooks. DIR/NAME has a byte for each line of a file: 1, code is
 * there; 3, it has run. It is mapped by all processes, so nothing need be written at an end. Hooks of the runtime's own
 * (time slices, budgets, the interrupt key) are called by ours. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>

void __gcov_dump(void);
void __gcov_reset(void);
_Noreturn void __wrap__exit(int status);   /* these take the place of what they are named after, by the linker's --wrap */
int __wrap_luaL_loadbuffer(lua_State *L, const char *text, size_t size, const char *name);
int __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);

/* --- C: counts */

static pthread_mutex_t dumping = PTHREAD_MUTEX_INITIALIZER;

static void dump(void)
{
    pthread_mutex_lock(&dumping);
    __gcov_dump();
    __gcov_reset();
    pthread_mutex_unlock(&dumping);
}

void __wrap__exit(int status)
{
    dump();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

static void *dump_on(void *unused)
{
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){0, 200000000}, NULL);
        dump();
    }
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    char path[1000];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n < 8 || memcmp(path + n - 8, "/pierrot", 8) != 0)
        return;
    sigset_t all, old;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, dump_on, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* --- Lua: lines */

static int really_hook(lua_State *L, lua_Hook hook, int mask, int count)
{
    void *symbol = dlsym(RTLD_DEFAULT, "lua_sethook");   /* in the library, or in a program that has LuaJIT within */
    int (*sethook)(lua_State *, lua_Hook, int, int);
    memcpy(&sethook, &symbol, sizeof sethook);
    return sethook(L, hook, mask, count);
}

enum { LINES = 4096, CHUNKS = 100, STATES = 4096 };

static struct chunk {
    char name[100];
    unsigned char *lines;
} chunks[CHUNKS];
static _Atomic int chunk_count;

/* What the runtime has set for a state; its entry is found by the address of its registry, and never given up: a state that
 * comes to have it takes it over. */
static struct hooked {
    const void *_Atomic state;
    lua_Hook theirs, before;   /* before: for who puts back what it has found, which is ours */
    int mask, mask_before;
} states[STATES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct hooked *hooked(lua_State *L)
{
    const void *key = lua_topointer(L, LUA_REGISTRYINDEX);
    size_t at = ((size_t)key >> 5) % STATES;
    while (states[at].state != key && states[at].state)
        at = (at + 1) % STATES;
    states[at].state = key;
    return &states[at];
}

static struct chunk *chunk(const char *name)
{
    for (int i = chunk_count - 1; i >= 0; i--)
        if (strcmp(chunks[i].name, name) == 0)
            return &chunks[i];
    return NULL;
}

static struct chunk *add_chunk(const char *name)
{
    struct chunk *c = chunk(name);
    if (c || chunk_count == CHUNKS)
        return c;
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", getenv("PIERROT_LINES"), name + 1);
    for (char *p = path + strlen(getenv("PIERROT_LINES")) + 1; *p; p++)
        if (*p == '/')
            *p = '#';
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    void *lines = fd >= 0 && ftruncate(fd, LINES) == 0 ? mmap(NULL, LINES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (lines == MAP_FAILED)
        abort();
    c = &chunks[chunk_count];
    snprintf(c->name, sizeof c->name, "%s", name);
    c->lines = lines;
    chunk_count++;
    return c;
}

static void on_line(lua_State *L, lua_Debug *at)
{
    struct hooked *h = hooked(L);
    if (at->event == LUA_HOOKLINE && lua_getinfo(L, "S", at) && at->source[0] == '@' && at->source[1] == 'p') {
        struct chunk *c = chunk(at->source);
        if (c && at->currentline < LINES)
            c->lines[at->currentline] = 3;
    }
    if (h->theirs && h->mask & 1 << at->event)
        h->theirs(L, at);
}

int __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count)
{
    if (!getenv("PIERROT_LINES"))
        return really_hook(L, hook, mask, count);
    pthread_mutex_lock(&lock);
    struct hooked *h = hooked(L);
    lua_Hook set = hook == on_line ? h->before : hook;
    int set_mask = hook == on_line ? h->mask_before : hook ? mask : 0;
    h->before = h->theirs;
    h->mask_before = h->mask;
    h->theirs = set;
    h->mask = set_mask;
    pthread_mutex_unlock(&lock);
    return really_hook(L, on_line, (hook ? mask : 0) | LUA_MASKLINE, count);
}

/* The lines of a function and of those in it: util is jit.util. */
static const char mark_lines[] =
    "local util, f, mark = require 'jit.util', ...\n"
    "local function walk(proto)\n"
    "  local info = util.funcinfo(proto)\n"
    "  for pc = 1, info.bytecodes - 1 do mark(util.funcinfo(proto, pc).currentline) end\n"
    "  for k = -1, -info.gcconsts, -1 do\n"
    "    local c = util.funck(proto, k)\n"
    "    if type(c) == 'proto' then walk(c) end\n"
    "  end\n"
    "end\n"
    "walk(f)\n";

static int mark(lua_State *L)
{
    struct chunk *c = lua_touserdata(L, lua_upvalueindex(1));
    int line = (int)lua_tointeger(L, 1);
    if (line > 0 && line < LINES)
        c->lines[line] |= 1;
    return 0;
}

int __wrap_luaL_loadbuffer(lua_State *L, const char *text, size_t size, const char *name)
{
    int status = luaL_loadbufferx(L, text, size, name, NULL);
    if (status != 0 || !getenv("PIERROT_LINES") || strncmp(name, "@pierrot/", 9) != 0)
        return status;
    pthread_mutex_lock(&lock);
    struct chunk *c = add_chunk(name);
    struct hooked *h = hooked(L);
    bool first = lua_gethook(L) != on_line;
    if (first)
        h->theirs = h->before = NULL;
    pthread_mutex_unlock(&lock);
    if (first) {
        luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
        really_hook(L, on_line, LUA_MASKLINE, 0);
    }
    if (luaL_loadbufferx(L, mark_lines, sizeof mark_lines - 1, "=mark lines", NULL) != 0)
        abort();
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, c);
    lua_pushcclosure(L, mark, 1);
    if (lua_pcall(L, 2, 0, 0) != 0)
        lua_pop(L, 1);   /* a state from which libraries have been taken; others mark the same lines */
    return 0;
}
