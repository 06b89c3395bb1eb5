/* The control socket's two ends in Lua: what the actor that serves it needs (lua/pierrot/control.lua), and the client's side
 * of the command (lua/pierrot/client.lua). */
#include "border.h"

#include "host.h"

#include "../alloc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

static pr_control_socket *socket_of(pr_runtime *rt) { return rt->control; }

static pr_control_socket *check_socket(lua_State *L)
{
    pr_control_socket *c = socket_of(pr_lua_runtime(L, pr_lua_of(L), 1));
    if (!c)
        luaL_error(L, "this process has no control socket");
    return c;
}

void pr_lua_control_close(pr_runtime *rt, bool free_it)
{
    if (!rt->control)
        return;
    pr_control_close(rt->control, free_it);
    if (free_it)
        rt->control = NULL;
}

bool pr_lua_control_start(pr_runtime *rt, const char *path, bool readonly, char *error, size_t cap)
{
    static const char actor[] = "\0module\0pierrot.control";   /* a mark of init.lua's hook `load` */
    pr_dispatcher *d = pr_dispatcher_named(rt, "prompts", 7);
    uint64_t id = 0;
    if (!(rt->control = pr_control_open(rt, path, error, cap)) || pr_dispatcher_use(rt, d, error, cap) != PR_OK)
        return false;
    pr_spawn s = {.ops = &pr_lua_ops, .restart = PR_RESTART_PERMANENT, .worker = 2, .dispatcher = (uint8_t)d->index, .at_root = true};
    s.behaviour = pr_behaviour_intern(&rt->behaviours, actor, sizeof actor - 1, "pierrot.control");
    s.args = pr_msg_new(NULL, 1);
    if (s.args) {
        s.args->count = 1;
        s.args->data[0] = readonly ? PR_TAG_TRUE : PR_TAG_FALSE;
    }
    if (!s.behaviour || !s.args || pr_actor_spawn(rt, NULL, &s, &id) != PR_OK) {
        snprintf(error, cap, "control: not enough memory");
        if (s.behaviour)
            pr_behaviour_drop(&rt->behaviours, s.behaviour);
        if (s.args)
            pr_msg_free(NULL, s.args);
        return false;
    }
    pr_control_serve(rt->control, id);
    return true;
}

/* --- the serving side, inside */

enum { PIECE = 16384 };   /* bytes of output in one line */

int pr_lua_control_write(pr_lua *x, double client, const char *bytes, size_t len)
{
    static const char head[] = "{\"out\":\"", tail[] = "\"}\n";
    char line[sizeof head + (size_t)6 * PIECE + sizeof tail];
    pr_control_socket *c = socket_of(x->rt);
    while (c && len > 0) {
        size_t take = len < PIECE ? len : PIECE;
        char *at = line + sizeof head - 1;
        memcpy(line, head, sizeof head - 1);
        for (size_t i = 0; i < take; i++) {
            unsigned char byte = (unsigned char)bytes[i];
            if (byte == '"' || byte == '\\') {
                *at++ = '\\';
                *at++ = (char)byte;
            } else if (byte < ' ' || byte == 127) {
                at += snprintf(at, 7, "\\u%04x", byte);
            } else {
                *at++ = (char)byte;
            }
        }
        memcpy(at, tail, sizeof tail - 1);
        if (!pr_control_send(c, client, line, (size_t)(at - line) + sizeof tail - 1))
            return EPIPE;
        bytes += take;
        len -= take;
    }
    return 0;
}

static int l_control_send(lua_State *L)
{
    pr_control_socket *c = check_socket(L);
    size_t len;
    const char *text = luaL_checklstring(L, 2, &len);
    lua_pushboolean(L, pr_control_send(c, luaL_checknumber(L, 1), text, len));
    return 1;
}

static int l_control_next(lua_State *L)
{
    pr_control_next(check_socket(L), luaL_checknumber(L, 1));
    return 0;
}

static int l_control_hang_up(lua_State *L)
{
    pr_control_hang_up(check_socket(L), luaL_checknumber(L, 1));
    return 0;
}

static int l_control_anew(lua_State *L)
{
    pr_control_anew(check_socket(L));
    return 0;
}

/* control_bind(client): this actor is its session */
static int l_control_bind(lua_State *L)
{
    pr_control_bind(check_socket(L), luaL_checknumber(L, 1), pr_lua_self(pr_lua_of(L)));
    return 0;
}

/* redirect(client): what this actor writes is that client's */
static int l_redirect(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_lua_output_redirect(x, pr_lua_self(x), luaL_checknumber(L, 1));
    return 0;
}

static int l_pid(lua_State *L)
{
    lua_pushinteger(L, getpid());
    return 1;
}

/* ref_of(slot, generation) */
static int l_ref_of(lua_State *L)
{
    pr_lua_push_ref(L, pr_id_make((uint32_t)luaL_checknumber(L, 1) & (PR_SLOTS - 1),
                                  (uint32_t)luaL_checknumber(L, 2) & (PR_GENERATIONS - 1)));
    return 1;
}

/* --- and outside: opening it */

/* control_open(path) -> true | nil, reason */
static int l_control_open(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_runtime *rt = pr_lua_runtime(L, x, 1);
    char error[512];
    rt->control = pr_control_open(rt, luaL_checkstring(L, 1), error, sizeof error);
    if (!rt->control) {
        lua_pushnil(L);
        lua_pushstring(L, error);
        return 2;
    }
    lua_pushboolean(L, 1);
    return 1;
}

static int l_control_serve(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    pr_control_serve(check_socket(L), pr_lua_target(L, x, 1, "control_serve", 1));
    return 0;
}

/* --- the client's side: one connection in a process, and events of the terminal */

typedef struct event {
    struct event *next;
    const char *kind;
    size_t len;
    char text[];
} event;

typedef struct pr_connection {
    int fd, wake;
    int keys, signals;         /* -1, or where keys come from, one by one, and a signalfd; see keys_open */
    struct termios before;     /* the terminal's modes, where keys come from it */
    pthread_mutex_t lock;      /* guards the events, and the order of what is sent */
    event *first, **last;
    char *in;
    size_t len, cap, scanned, taken;
} pr_connection;

static bool send_all(pr_connection *l, const char *bytes, size_t len)
{
    pthread_mutex_lock(&l->lock);
    while (len > 0) {
        ssize_t n = send(l->fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        bytes += n;
        len -= (size_t)n;
    }
    pthread_mutex_unlock(&l->lock);
    return len == 0;
}

static void put_event(pr_connection *l, const char *kind, const char *text, size_t len)
{
    event *e = pr_alloc(sizeof *e + len);
    if (!e)
        return;
    e->next = NULL;
    e->kind = kind;
    e->len = len;
    memcpy(e->text, text, len);
    pthread_mutex_lock(&l->lock);
    *l->last = e;
    l->last = &e->next;
    pthread_mutex_unlock(&l->lock);
    uint64_t one = 1;
    ssize_t wrote = write(l->wake, &one, sizeof one);
    (void)wrote;
}

void pr_lua_to_link(void *context, enum pr_terminal_event what, const char *text, size_t len)
{
    static const char *const kinds[] = {"line", "end", "giveup", "break", "complete"};
    const pr_lua *x = context;
    if (!x->connection)
        return;
    if (what == PR_TERMINAL_BREAK && text[0] < '3')
        send_all(x->connection, "\3\n", 2);
    else
        put_event(x->connection, kinds[what], text, len);
}

/* client_open(path) -> true | nil, reason */
static int l_client_open(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len;
    const char *path = luaL_checklstring(L, 1, &len);
    pr_connection *l = pr_zalloc(sizeof *l);
    int problem = ENAMETOOLONG;
    if (l && len < sizeof address.sun_path) {
        memcpy(address.sun_path, path, len);
        l->last = &l->first;
        l->keys = l->signals = -1;
        l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (l->fd < 0 || l->wake < 0 || connect(l->fd, (struct sockaddr *)&address, sizeof address) != 0)
            problem = errno;
        else
            problem = pthread_mutex_init(&l->lock, NULL);
        if (problem == 0) {
            x->connection = l;
            lua_pushboolean(L, 1);
            return 1;
        }
    }
    lua_pushnil(L);
    char text[PR_ERROR_TEXT];
    lua_pushstring(L, l ? pr_error_text(problem, text) : "not enough memory");
    return 2;   /* the process is about to end */
}

static int l_client_send(lua_State *L)
{
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);
    lua_pushboolean(L, send_all(pr_lua_of(L)->connection, text, len));
    return 1;
}

/* keys_open() -> true: keys come one by one, the screen is the caller's; false: that is no terminal */
static int l_keys_open(lua_State *L)
{
    pr_connection *l = pr_lua_of(L)->connection;
    sigset_t set;
    lua_pushboolean(L, 0);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &l->before) != 0)
        return 1;
    sigemptyset(&set);
    for (size_t i = 0; i < 4; i++)
        sigaddset(&set, (const int[]){SIGINT, SIGTERM, SIGHUP, SIGWINCH}[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);   /* of the command's one thread: they are read like keys */
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct termios raw = l->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    if (l->signals < 0 || tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return 1;
    l->keys = STDIN_FILENO;
    lua_pushboolean(L, 1);
    return 1;
}

/* keys_close(): the terminal is as it was. */
static int l_keys_close(lua_State *L)
{
    pr_connection *l = pr_lua_of(L)->connection;
    if (l->keys >= 0)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &l->before);
    l->keys = -1;
    return 0;
}

/* screen_size() -> columns, rows; 80, 24 where nobody knows */
static int l_screen_size(lua_State *L)
{
    struct winsize size = {0};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    lua_pushinteger(L, size.ws_col ? size.ws_col : 80);
    lua_pushinteger(L, size.ws_row ? size.ws_row : 24);
    return 2;
}

/* What came from the keys or as a signal -> 2 values; 0: nothing did */
static int push_key(lua_State *L, pr_connection *l)
{
    char bytes[64];
    struct signalfd_siginfo signal;
    if (l->signals >= 0 && read(l->signals, &signal, sizeof signal) == sizeof signal) {
        lua_pushstring(L, signal.ssi_signo == SIGWINCH ? "resize" : "signal");
        lua_pushinteger(L, (lua_Integer)signal.ssi_signo);
        return 2;
    }
    struct pollfd keys = {l->keys, POLLIN, 0};
    if (l->keys < 0 || poll(&keys, 1, 0) <= 0)
        return 0;
    ssize_t n = read(l->keys, bytes, sizeof bytes);
    lua_pushstring(L, n > 0 ? "key" : "signal");   /* the terminal is gone */
    lua_pushlstring(L, bytes, n > 0 ? (size_t)n : 0);
    return 2;
}

/* client_wait([seconds]) -> "message", a line of the other side; "closed"; an event of the terminal and its text; "key" and
 * bytes, "resize", "signal"; nothing when the time is over */
static int l_client_wait(lua_State *L)
{
    pr_connection *l = pr_lua_of(L)->connection;
    double seconds = luaL_optnumber(L, 1, -1);
    uint64_t due_ns = seconds < 0 ? UINT64_MAX : pr_now_ns() + (uint64_t)(seconds * 1e9);
    for (;;) {
        int n_key = push_key(L, l);
        if (n_key)
            return n_key;
        pthread_mutex_lock(&l->lock);
        event *e = l->first;
        if (e && !(l->first = e->next))
            l->last = &l->first;
        pthread_mutex_unlock(&l->lock);
        if (e) {
            lua_pushstring(L, e->kind);
            lua_pushlstring(L, e->text, e->len);
            pr_free(e);
            return 2;
        }
        const char *end = l->len > l->scanned ? memchr(l->in + l->scanned, '\n', l->len - l->scanned) : NULL;
        if (end) {
            lua_pushliteral(L, "message");
            lua_pushlstring(L, l->in + l->taken, (size_t)(end - l->in) - l->taken);
            l->taken = l->scanned = (size_t)(end - l->in) + 1;
            return 2;
        }
        if (l->taken > 0) {
            memmove(l->in, l->in + l->taken, l->len - l->taken);
            l->len -= l->taken;
            l->taken = 0;
        }
        l->scanned = l->len;
        struct pollfd waits[] = {{l->fd, POLLIN, 0}, {l->wake, POLLIN, 0}, {l->keys, POLLIN, 0}, {l->signals, POLLIN, 0}};
        uint64_t now_ns = due_ns == UINT64_MAX ? 0 : pr_now_ns();
        int ready = poll(waits, 4, due_ns == UINT64_MAX ? -1 : now_ns >= due_ns ? 0 : (int)((due_ns - now_ns) / 1000000) + 1);
        if (ready < 0 && errno != EINTR) {
            char text[PR_ERROR_TEXT];
            return luaL_error(L, "%s", pr_error_text(errno, text));
        }
        if (ready == 0)
            return 0;
        if (waits[1].revents) {
            uint64_t count;
            ssize_t got = read(l->wake, &count, sizeof count);
            (void)got;
        }
        if (!waits[0].revents)
            continue;
        if (l->len + 65536 > l->cap) {
            char *grown = pr_realloc(l->in, l->cap = 2 * l->cap + 131072);
            if (!grown)
                return luaL_error(L, "not enough memory");
            l->in = grown;
        }
        ssize_t n = recv(l->fd, l->in + l->len, 65536, 0);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            lua_pushliteral(L, "closed");
            return 1;
        }
        l->len += n > 0 ? (size_t)n : 0;
    }
}

/* terminal_write(text) */
static int l_terminal_write(lua_State *L)
{
    const pr_lua *x = pr_lua_of(L);
    size_t len;
    const char *text = luaL_checklstring(L, 1, &len);
    if (pr_terminal_on_screen(x->terminal)) {
        pr_terminal_write(x->terminal, text, len);
    } else if (fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0) {
        char why[PR_ERROR_TEXT];
        return luaL_error(L, "cannot write to standard output: %s", pr_error_text(errno, why));
    }
    return 0;
}

static int l_terminal_ask(lua_State *L)
{
    size_t len;
    const char *prompt = luaL_checklstring(L, 1, &len);
    pr_terminal_ask(pr_lua_of(L)->terminal, prompt, len);
    return 0;
}

static int l_terminal_completed(lua_State *L)
{
    size_t len, choices_len;
    const char *insert = luaL_checklstring(L, 1, &len), *choices = luaL_checklstring(L, 2, &choices_len);
    pr_terminal_completed(pr_lua_of(L)->terminal, insert, len, choices, choices_len);
    return 0;
}

void pr_lua_open_control(lua_State *L, pr_lua *x)
{
    static const luaL_Reg inside[] = {
        {"control_send", l_control_send}, {"control_next", l_control_next}, {"control_hang_up", l_control_hang_up},
        {"control_bind", l_control_bind}, {"control_anew", l_control_anew},
        {"redirect", l_redirect}, {"ref_of", l_ref_of}, {"pid", l_pid}, {NULL, NULL}};
    static const luaL_Reg outside[] = {
        {"control_open", l_control_open}, {"control_serve", l_control_serve}, {"client_open", l_client_open},
        {"keys_open", l_keys_open}, {"keys_close", l_keys_close}, {"screen_size", l_screen_size},
        {"client_send", l_client_send}, {"client_wait", l_client_wait}, {"terminal_write", l_terminal_write},
        {"terminal_ask", l_terminal_ask}, {"terminal_completed", l_terminal_completed}, {NULL, NULL}};
    pr_lua_add(L, x, x->w ? inside : outside);
}
