/* print and io.write from many workers, never mixed within a line: what an actor writes is kept until its line
 * is whole and goes out in one write to stdout, whose lock keeps the lines of several workers apart. Nothing is lost
 * where another process has made a shared stdout non-blocking. */
#include "border.h"

#include "../alloc.h"
#include "../log.h"
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

enum { LONGEST = 64 * 1024 };   /* a line longer than this goes out in pieces */

/* An unfinished line. Few actors have one at a time: a list will do. */
typedef struct piece {
    struct piece *next;
    uint64_t actor;
    size_t len, cap;
    char *bytes;
} piece;

/* Of prompts that other processes have: what they print is theirs. */
typedef struct redirect {
    struct redirect *next;
    uint64_t actor;
    double client;
} redirect;

struct pr_output {
    piece *pieces;
    redirect *redirects;
};

/* Called with stdout locked, before stdio is to write. A write that would block loses what stdio holds, so a
 * non-blocking stdout is not left to it: what it holds goes once there is room, and from then on it holds nothing.
 * Returns the descriptor then, -1 where stdio may write itself. */
static int past_stdio(void)
{
    int fd = fileno(stdout), flags = fcntl(fd, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK))
        return -1;
    if (__fpending(stdout) > 0) {
        while (poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1) < 0 && errno == EINTR)
            ;
        fflush(stdout);
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    return fd;
}

/* 0, or an errno. */
static int put(pr_lua *x, const char *bytes, size_t len)
{
    if (pr_lua_host(x)) {
        pr_lua_host_print(x, bytes, len);
        return 0;
    }
    if (x->terminal && pr_terminal_on_screen(x->terminal))
        return pr_terminal_write(x->terminal, bytes, len);
    int status = 0, fd = -1;
    flockfile(stdout);
    if (__flbf(stdout) || __fpending(stdout) + len >= __fbufsize(stdout))
        fd = past_stdio();
    if (fd >= 0)
        status = pr_write_all(fd, bytes, len);
    else if (fwrite(bytes, 1, len, stdout) != len)
        status = errno ? errno : EIO;
    funlockfile(stdout);
    return status;
}

static int flush_stdout(void)
{
    flockfile(stdout);
    if (__fpending(stdout) > 0)
        past_stdio();
    int status = fflush(stdout) == 0 ? 0 : errno;
    funlockfile(stdout);
    return status;
}

static piece **find(struct pr_output *o, uint64_t actor)
{
    piece **at = &o->pieces;
    while (*at && (*at)->actor != actor)
        at = &(*at)->next;
    return at;
}

/* 0, or an errno. */
static int flush_piece(pr_lua *x, piece **at)
{
    piece *p = *at;
    if (!p)
        return 0;
    int status = p->len ? put(x, p->bytes, p->len) : 0;
    *at = p->next;
    pr_free(p->bytes);
    pr_free(p);
    return status;
}

static int append(piece *p, const char *bytes, size_t len)
{
    if (p->len + len > p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 256;
        while (cap < p->len + len)
            cap *= 2;
        char *grown = pr_realloc(p->bytes, cap);
        if (!grown)
            return ENOMEM;
        p->bytes = grown;
        p->cap = cap;
    }
    memcpy(p->bytes + p->len, bytes, len);
    p->len += len;
    return 0;
}

static int write_out(pr_lua *x, const char *bytes, size_t len)
{
    uint64_t actor = x->w->running ? PR_GET(x->w->running->id) : 0;
    for (const redirect *r = x->output->redirects; r; r = r->next)
        if (r->actor == actor)
            return pr_lua_control_write(x, r->client, bytes, len);
    const char *last = len ? memrchr(bytes, '\n', len) : NULL;
    size_t whole = last ? (size_t)(last - bytes) + 1 : 0;
    piece **at = find(x->output, actor);
    int status = 0;
    if (whole) {
        if (*at) {
            /* The line's beginning and its end go out as one. */
            status = append(*at, bytes, whole);
            int flushed = flush_piece(x, at);
            status = status ? status : flushed;
        } else {
            status = put(x, bytes, whole);
        }
        at = find(x->output, actor);
    }
    if (status || whole == len)
        return status;
    if (!*at) {
        piece *p = pr_zalloc(sizeof *p);
        if (!p)
            return put(x, bytes + whole, len - whole);
        p->actor = actor;
        *at = p;
    }
    status = append(*at, bytes + whole, len - whole);
    return status || (*at)->len <= LONGEST ? status : flush_piece(x, at);
}

static int result(lua_State *L, int status)
{
    if (status == 0) {
        lua_pushboolean(L, 1);
        return 1;
    }
    lua_pushnil(L);
    char text[PR_ERROR_TEXT];
    lua_pushstring(L, pr_error_text(status, text));
    lua_pushinteger(L, status);
    return 3;
}

/* print(...) */
static int l_print(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    int n = lua_gettop(L);
    luaL_Buffer line;
    lua_getglobal(L, "tostring");
    for (int i = 1; i <= n; i++) {
        if (lua_type(L, i) == LUA_TSTRING)
            continue;
        lua_pushvalue(L, n + 1);
        lua_pushvalue(L, i);
        lua_call(L, 1, 1);
        if (!lua_isstring(L, -1))
            return pr_lua_raise(L, 1, "'tostring' must return a string to 'print'");
        lua_replace(L, i);
    }
    luaL_buffinit(L, &line);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addlstring(&line, "\t", 1);
        lua_pushvalue(L, i);
        luaL_addvalue(&line);
    }
    luaL_addlstring(&line, "\n", 1);
    luaL_pushresult(&line);
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    write_out(x, text, len);
    return 0;
}

/* write(...): strings and numbers -> true | nil, text, errno */
static int l_write(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++)
        if (!lua_isstring(L, i))
            return pr_lua_raise(L, 2, "bad argument #%d to 'write' (string expected, got %s)", i, luaL_typename(L, i));
    if (n > 1)
        lua_concat(L, n);
    else if (n == 0)
        lua_pushliteral(L, "");
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    return result(L, write_out(x, text, len));
}

/* write_error(...): the same to stderr, at once */
static int l_write_error(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    int n = lua_gettop(L);
    for (int i = 1; i <= n; i++)
        if (!lua_isstring(L, i))
            return pr_lua_raise(L, 2, "bad argument #%d to 'write' (string expected, got %s)", i, luaL_typename(L, i));
    lua_pushliteral(L, "");
    lua_concat(L, n + 1);
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    return result(L, pr_terminal_write_error(x->terminal, text, len));
}

/* flush(): what this actor has begun goes out as it is */
static int l_flush(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    int status = flush_piece(x, find(x->output, x->w->running ? PR_GET(x->w->running->id) : 0));
    int flushed = pr_lua_host(x) ? 0 : flush_stdout();
    return result(L, status ? status : flushed);
}

/* flush_all(): what all actors of this worker have begun */
static int l_flush_all(lua_State *L)
{
    pr_lua *x = pr_lua_of(L);
    while (x->output->pieces)
        flush_piece(x, &x->output->pieces);
    return 0;
}

void pr_lua_output_redirect(pr_lua *x, uint64_t actor, double client)
{
    redirect *r = pr_zalloc(sizeof *r);
    if (r) {
        *r = (redirect){x->output->redirects, actor, client};
        x->output->redirects = r;
    }
}

static void end_redirect(pr_lua *x, uint64_t actor)
{
    for (redirect **at = &x->output->redirects, *r; (r = *at);)
        if (actor == 0 || r->actor == actor) {
            *at = r->next;
            pr_free(r);
        } else {
            at = &r->next;
        }
}

bool pr_lua_output_silent(const pr_lua *x) { return !x->output || (!x->output->pieces && !x->output->redirects); }

void pr_lua_output_ended(pr_lua *x, uint64_t actor)
{
    if (x->output && x->output->redirects)
        end_redirect(x, actor);
    if (x->output && x->output->pieces)
        flush_piece(x, find(x->output, actor));
}

bool pr_lua_open_output(lua_State *L, pr_lua *x)
{
    static const luaL_Reg functions[] = {{"print", l_print}, {"write", l_write}, {"flush", l_flush}, {"flush_all", l_flush_all}, {NULL, NULL}};
    static const luaL_Reg error_functions[] = {{"write_error", l_write_error}, {NULL, NULL}};
    x->output = pr_zalloc(sizeof *x->output);
    pr_lua_add(L, x, functions);
    if (x->terminal)
        pr_lua_add(L, x, error_functions);
    return x->output != NULL;
}

void pr_lua_close_output(pr_lua *x)
{
    while (x->output && x->output->pieces)
        flush_piece(x, &x->output->pieces);
    if (x->output)
        end_redirect(x, 0);
    pr_free(x->output);
    x->output = NULL;
}
