/* The `pierrot` command: a Lua state, the module, and lua/pierrot/cli.lua, which does the rest. What is done
 * here is what a library must not do: signals and the end of the process. */
#include "border.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int luaopen_pierrot(lua_State *L);

static int signal_pipe[2];

static void on_signal(int number)
{
    unsigned char byte = (unsigned char)number;
    ssize_t wrote = write(signal_pipe[1], &byte, 1);   /* the only thing that is safe here */
    (void)wrote;
}

/* The first signal shuts down in order, the second one ends the process at once. */
/* What the watcher works on. Set before its thread starts. */
static pr_runtime *watched;

static void *watch_signals(void *unused)
{
    pr_runtime *rt = watched;
    (void)unused;
    unsigned char number;
    for (int count = 0; read(signal_pipe[0], &number, 1) == 1; count++) {
        if (count == 0) {
            pr_logf(&rt->log, PR_LOG_INFO, "%s: shutting down; once more ends the process at once",
                    number == SIGINT ? "SIGINT" : "SIGTERM");
            pr_runtime_stop(rt, NULL);
        } else {
            pr_terminal_restore();
            signal(number, SIG_DFL);
            sigset_t only;
            sigemptyset(&only);
            sigaddset(&only, number);
            pthread_sigmask(SIG_UNBLOCK, &only, NULL);
            raise(number);
        }
    }
    return NULL;
}

/* catch_signals(): SIGINT and SIGTERM, from now until the process ends. */
static int l_catch_signals(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pthread_t thread;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    watched = x->rt;
    bool prompt = x->terminal && pr_terminal_interactive(x->terminal);
    if (prompt)
        pr_terminal_catch(x->terminal);
    if (pipe2(signal_pipe, O_CLOEXEC) != 0 || pthread_create(&thread, NULL, watch_signals, NULL) != 0)
        return luaL_error(L, "cannot watch for signals");
    pthread_detach(thread);
    if (!prompt)
        sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

static int traceback(lua_State *L)
{
    if (!lua_isstring(L, 1))
        return 1;
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

static void append(lua_State *L, const char *field, const char *format, const char *prefix)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, field);
    lua_pushliteral(L, ";");
    luaL_gsub(L, format, "%", prefix);
    lua_concat(L, 3);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

/* The modules that were installed with this command: PREFIX/bin/pierrot finds those below PREFIX, after all others. */
static void add_own_places(lua_State *L)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = '\0';
    char *bin = strrchr(path, '/');
    if (!bin || bin - path < 4 || strncmp(bin - 4, "/bin", 4) != 0)
        return;
    bin[-4] = '\0';
    append(L, "path", "%/share/lua/5.1/?.lua;%/share/lua/5.1/?/init.lua", path);
    append(L, "cpath", "%/lib/lua/5.1/?.so", path);
}

static int open_all(lua_State *L)
{
    luaL_openlibs(L);
    add_own_places(L);
    luaopen_pierrot(L);
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_insert(L, -2);
    lua_setfield(L, -2, "pierrot");
    lua_pop(L, 1);
    return 0;
}

/* A standard stream that was closed by whoever started us is nobody's file: otherwise the next one that is opened would
 * get its number, and what is printed. */
static void hold_standard_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    lua_State *L = luaL_newstate();
    if (!L || lua_cpcall(L, open_all, NULL) != 0) {
        fprintf(stderr, "pierrot: %s\n", L && lua_isstring(L, -1) ? lua_tostring(L, -1) : "not enough memory");
        return 1;
    }
    lua_pushcfunction(L, traceback);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "pierrot.cli");
    int status = lua_pcall(L, 1, 1, 1);
    if (status == 0) {
        lua_getfield(L, LUA_REGISTRYINDEX, "pierrot.state");
        void *x = lua_touserdata(L, -1);
        lua_pop(L, 1);
        lua_pushlightuserdata(L, x);
        lua_pushcclosure(L, l_catch_signals, 1);
        for (int i = 0; i < argc; i++)
            lua_pushstring(L, argv[i]);
        status = lua_pcall(L, argc + 1, 1, 1);   /* main(catch_signals, argv...) -> exit status */
    }
    int code = 1;
    if (status == 0)
        code = (int)lua_tointeger(L, -1);
    else
        fprintf(stderr, "pierrot: %s\n", lua_tostring(L, -1));
    if (fflush(stdout) != 0 && code == 0) {
        perror("pierrot: standard output");
        code = 1;
    }
    /* Not lua_close and exit: a handler that never returned may still be running on its thread. */
    _exit(code);
}
