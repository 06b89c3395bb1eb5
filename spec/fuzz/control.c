/* The control socket: whatever a client sends, in whatever pieces, each answer is a line of JSON; a client that waits is answered
 * or sent away; another client is answered all the time; and what a client had goes with it.
 *
 * An input is what a client sends; its first bytes say in which pieces, and whether the client stays for the answers. What
 * lines of code could do to the machine is taken away: see open_state. */
#include "fuzz_lua.h"

#include "../../src/pierrot.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[] = "/tmp/pierrot-fuzz-XXXXXX", path[64];
static pierrot *rt;
static lua_State *json;
static int other;            /* the client that is answered all the time */
static int runs;

enum { PATIENCE_MS = 15000, LOOK_MS = 200 };

static const char harmless[] =
    "for _, name in ipairs { 'execute', 'exit', 'remove', 'rename', 'tmpname' } do os[name] = nil end\n"
    "for _, name in ipairs { 'open', 'popen', 'lines', 'input', 'tmpfile' } do io[name] = nil end\n"
    "dofile, loadfile, debug.debug, package.loadlib = nil, nil, nil, nil\n";

static void open_state(void *context, struct lua_State *L, uint32_t worker)
{
    (void)context, (void)worker;
    if (luaL_dostring(L, harmless) != 0)
        lua_error(L);
}

static void log_line(void *context, pierrot_log_level level, const char *text, size_t size)
{
    (void)context;
    if (level >= PIERROT_LOG_ERROR)
        fprintf(stderr, "%.*s\n", (int)size, text);
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    HOLDS(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void tidy(void)
{
    unlink(path);
    rmdir(folder);
}

static void set_up(void)
{
    pierrot_config c;
    HOLDS(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    atexit(tidy);
    pierrot_config_init(&c, sizeof c);
    c.workers = 1;
    c.control = path;
    c.open_state = open_state;
    c.log = log_line;
    HOLDS(pierrot_start(&c, &rt, NULL) == PIERROT_OK);
    other = dial();
    json = luaL_newstate();
    luaL_openlibs(json);
    HOLDS(luaL_dostring(json, "local json = require 'cjson' return function(s) return type(json.decode(s)) == 'table' end") == 0);
}

static void check_line(const char *line, size_t len)
{
    lua_pushvalue(json, 1);
    lua_pushlstring(json, line, len);
    if (lua_pcall(json, 1, 1, 0) != 0 || !lua_toboolean(json, -1)) {
        fprintf(stderr, "no JSON object: %.*s\n", (int)len, line);
        abort();
    }
    lua_settop(json, 1);
}

static bool send_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* Reads lines until one has `end` in it, or the other side is gone (false). Code that goes on and on is interrupted. */
static bool read_until(int fd, const char *end)
{
    static char bytes[1 << 22];
    size_t len = 0, from = 0;
    for (;;) {
        struct pollfd wait = {fd, POLLIN, 0};
        for (int waited_ms = 0; poll(&wait, 1, LOOK_MS) <= 0; waited_ms += LOOK_MS) {
            HOLDS(waited_ms < PATIENCE_MS);
            send_all(fd, "\3\n", 2);
        }
        HOLDS(len < sizeof bytes - 1);
        ssize_t n = recv(fd, bytes + len, sizeof bytes - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        for (char *at; (at = memchr(bytes + from, '\n', len - from)); from = (size_t)(at - bytes) + 1) {
            check_line(bytes + from, (size_t)(at - bytes) - from);
            *at = 0;
            if (strstr(bytes + from, end))
                return true;
        }
    }
}

static void ask_other(void)
{
    static const char ask[] = "{\"cmd\":\"stats\",\"id\":\"other\"}\n";
    HOLDS(send_all(other, ask, sizeof ask - 1) && read_until(other, "\"id\":\"other\""));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!rt)
        set_up();
    input in = {data, data + size};
    uint8_t flags = take(&in);
    size_t piece = flags & 4 ? (size_t)1 + take(&in) : SIZE_MAX;
    bool stays = flags & 1;
    int fd = dial();
    const uint8_t *bytes;
    bool open = true;
    while (open && left(&in) > 0) {
        size_t n = take_bytes(&in, &bytes, piece);
        open = send_all(fd, bytes, n);
    }
    if (flags & 2)
        ask_other();
    static const char end[] = "\n{\"cmd\":\"\",\"id\":\"the last\"}\n";
    if (open && stays && send_all(fd, end, sizeof end - 1))
        read_until(fd, "\"id\":\"the last\"");
    close(fd);
    if (++runs % 64 == 0) {   /* sessions and views end with their clients */
        ask_other();
        pierrot_stats stats = {.size = sizeof stats};
        for (int tries = 0; pierrot_get_stats(rt, &stats), stats.actors > 1; tries++) {
            HOLDS(tries < PATIENCE_MS / 10);
            usleep(10000);
        }
    }
    return 0;
}
