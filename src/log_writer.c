/* See log_writer.h. */
#include "log_writer.h"

#include "alloc.h"
#include "parker.h"
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_MS = 2000, LAST_MS = 1000, FIRST_ROOM = 4 * 1024 };

struct pr_log_writer {
    int fd;                    /* -1: `call` */
    bool json, last_lines;     /* last_lines: what ends the process may take several lines */
    bool lines;                /* a terminal, which shows lines as lines */
    bool direct;               /* a write to fd never waits: whoever logs may try it */
    pr_log_sink call;
    void *context;
    _Atomic(pr_runtime *) rt;  /* NULL until pr_log_writer_serve: release there, acquire where its names are looked up */
    pthread_t thread;
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t changed;
    char *fill, *spare;        /* records are put into `fill`; the thread writes the other one */
    size_t room, spare_room;   /* their sizes: they grow as they are needed, up to `capacity` */
    size_t filled, capacity;
    pr_memory *memory;         /* that they come from, whichever thread's turn it is */
    bool writing;              /* the thread has the other one in hand */
    uint64_t taken, written;   /* bytes: `written` also counts what could not be */
    uint32_t dropped;          /* since the last record that said so */
    bool closing;
    _Atomic bool gives_up;     /* the thread is not to wait for its descriptor any more; relaxed */
};

/* Before each record in the buffer of a callback. */
typedef struct frame {
    uint32_t len;
    uint32_t level;
    uint64_t actor;
} frame;

/* As pr_write_all, but it can be told to give up. */
static bool write_out(pr_log_writer *w, const char *bytes, size_t len)
{
    while (len > 0) {
        struct pollfd ready = {w->fd, POLLOUT, 0};
        if (atomic_load_explicit(&w->gives_up, memory_order_relaxed))
            return false;
        int n = poll(&ready, 1, 100);   /* a pipe that is full would block the write */
        if (n == 0 || (n < 0 && errno == EINTR))
            continue;
        ssize_t wrote = write(w->fd, bytes, len > 4096 ? 4096 : len);   /* as much as a writable pipe takes */
        if (wrote > 0) {
            bytes += wrote;
            len -= (size_t)wrote;
        } else if (wrote == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) {
            return false;
        }
    }
    return true;
}

/* How many records were not given to the callback any more. */
static uint32_t call_out(pr_log_writer *w, const char *bytes, size_t len)
{
    uint32_t lost = 0;
    for (frame f; len > 0; bytes += f.len, len -= f.len) {
        memcpy(&f, bytes, sizeof f);
        bytes += sizeof f;
        len -= sizeof f;
        if (atomic_load_explicit(&w->gives_up, memory_order_relaxed)) {
            lost++;
            continue;
        }
        pr_log_actor = f.actor;
        w->call(w->context, (enum pr_log_level)f.level, bytes, f.len);
    }
    pr_log_actor = 0;
    return lost;
}

static uint32_t lines_in(const char *bytes, size_t len)
{
    uint32_t n = 0;
    for (const char *end = bytes + len; bytes < end && (bytes = memchr(bytes, '\n', (size_t)(end - bytes))); bytes++)
        n++;
    return n;
}

static void count_dropped(pr_log_writer *w, uint32_t n)
{
    w->dropped += n;
    pr_runtime *rt = atomic_load_explicit(&w->rt, memory_order_acquire);
    if (rt && n > 0)
        atomic_fetch_add_explicit(&rt->log.dropped, n, memory_order_relaxed);
}

static void *write_records(void *writer)
{
    pr_log_writer *w = writer;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (w->filled == 0 && !w->closing)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->filled == 0)
            break;
        char *bytes = w->fill;
        size_t len = w->filled, room = w->room;
        w->fill = w->spare;
        w->room = w->spare_room;
        w->spare = bytes;
        w->spare_room = room;
        w->filled = 0;
        w->writing = true;
        pthread_mutex_unlock(&w->lock);
        uint32_t lost = w->call ? call_out(w, bytes, len) : write_out(w, bytes, len) ? 0 : lines_in(bytes, len);
        pthread_mutex_lock(&w->lock);
        w->writing = false;
        w->written += len;
        count_dropped(w, lost);
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- records as JSON */

static size_t valid_utf8(const unsigned char *s, size_t len)
{
    size_t n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* A string with its quotes; up to 6 bytes for each of `text`, and 2. What is no UTF-8 becomes U+FFFD. */
static char *put_string(char *at, const char *text, size_t len)
{
    *at++ = '"';
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t n = c < 0x80 ? 1 : valid_utf8((const unsigned char *)text + i, len - i);
        if (c == '"' || c == '\\') {
            *at++ = '\\';
            *at++ = (char)c;
        } else if (c < ' ' || c == 127) {
            at += snprintf(at, 7, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\u%04x", c);
        } else if (n == 0) {
            at += snprintf(at, 7, "\\ufffd");
        } else {
            memcpy(at, text + i, n);
            at += n;
        }
        i += n ? n : 1;
    }
    *at++ = '"';
    return at;
}

enum { HEAD = 4096 };   /* of a record, without its text */

/* Into `line`, with room for HEAD and 6 times `len`; its length. */
static size_t as_json(pr_log_writer *w, char *line, enum pr_log_level level, const char *text, size_t len)
{
    struct timespec now;
    struct tm utc;
    char part[256];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(part, sizeof part, "%Y-%m-%dT%H:%M:%S", &utc);
    char *at = line + sprintf(line, "{\"time\":\"%.*s.%03ldZ\",\"level\":\"%s\"", (int)n, part, now.tv_nsec / 1000000,
                              pr_log_level_name(level));
    uint64_t id = pr_log_actor;
    pr_runtime *rt = atomic_load_explicit(&w->rt, memory_order_acquire);
    if (id && rt) {
        at += sprintf(at, ",\"actor\":\"%u.%u\"", pr_id_slot(id), pr_id_generation(id));
        n = pr_registry_name_of(&rt->names, id, part, sizeof part);
        if (n)
            at = put_string(at + sprintf(at, ",\"name\":"), part, n < sizeof part ? n : sizeof part);
        n = pr_actor_behaviour_name(rt, id, part, sizeof part);
        at = put_string(at + sprintf(at, ",\"behaviour\":"), part, n);
        /* What the script has logged itself begins with who it is: the fields say that. */
        n = pr_actor_describe(rt, id, part, sizeof part);
        if (len > n + 2 && memcmp(text, part, n) == 0 && text[n] == ':' && text[n + 1] == ' ') {
            text += n + 2;
            len -= n + 2;
        }
    }
    at = put_string(at + sprintf(at, ",\"message\":"), text, len);
    *at++ = '}';
    *at++ = '\n';
    return (size_t)(at - line);
}

/* --- any thread */

/* Under the lock: whether `len` more bytes have room in the buffer, which grows for them if it may. */
static bool has_room(pr_log_writer *w, size_t len)
{
    if (len <= w->room - w->filled)
        return true;
    if (len > w->capacity - w->filled)
        return false;
    size_t room = w->room;
    while (room - w->filled < len)
        room = room > w->capacity / 2 ? w->capacity : room * 2;
    pr_memory *here = pr_memory_here;
    pr_memory_here = w->memory;
    char *fill = pr_realloc(w->fill, room);
    pr_memory_here = here;
    if (!fill)
        return false;
    w->fill = fill;
    w->room = room;
    return true;
}

/* Under the lock. How much of the line has been written at once: all, where it could not be written at all. */
static size_t try_at_once(pr_log_writer *w, const char *line, size_t len)
{
    if (!w->direct || w->filled > 0 || w->writing)
        return 0;
    size_t done = 0;
    while (done < len) {
        ssize_t wrote = write(w->fd, line + done, len - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (wrote < 0 && errno == EAGAIN) {
            return done;
        } else if (wrote == 0 || errno != EINTR) {
            count_dropped(w, 1);
            return len;
        }
    }
    return len;
}

/* Under the lock: a record, as `head` and `body`, of which there may be none. */
static void append(pr_log_writer *w, const void *head, size_t head_len, const char *body, size_t len)
{
    if (!has_room(w, head_len + len)) {
        count_dropped(w, 1);
        return;
    }
    memcpy(w->fill + w->filled, head, head_len);
    if (len > 0)
        memcpy(w->fill + w->filled + head_len, body, len);
    w->filled += head_len + len;
    w->taken += head_len + len;
    pthread_cond_broadcast(&w->changed);
}

static void put(void *writer, const char *line, size_t len)
{
    pr_log_writer *w = writer;
    pthread_mutex_lock(&w->lock);
    size_t done = has_room(w, len) ? try_at_once(w, line, len) : 0;   /* what is begun must find room for its rest */
    if (done < len)
        append(w, line + done, len - done, NULL, 0);
    pthread_mutex_unlock(&w->lock);
}

static void put_frame(pr_log_writer *w, enum pr_log_level level, const char *text, size_t len)
{
    if (len > UINT32_MAX)
        len = UINT32_MAX;
    frame f = {(uint32_t)len, (uint32_t)level, pr_log_actor};
    pthread_mutex_lock(&w->lock);
    append(w, &f, sizeof f, text, len);
    pthread_mutex_unlock(&w->lock);
}

static void put_record(pr_log_writer *w, enum pr_log_level level, const char *text, size_t len, bool lines)
{
    if (w->call) {
        put_frame(w, level, text, len);
        return;
    }
    if (!w->json) {
        pr_log_lay_out(level, text, len, lines, put, w);
        return;
    }
    char small[HEAD + 6 * 512], *line = small;
    if (len > 512 && !(line = pr_alloc(HEAD + 6 * len))) {
        line = small;
        len = 512;
    }
    put(w, line, as_json(w, line, level, text, len));
    if (line != small)
        pr_free(line);
}

/* Says how many were dropped, unless the buffer is still half full. */
static void say_dropped(pr_log_writer *w)
{
    char text[96];
    pthread_mutex_lock(&w->lock);
    uint32_t dropped = w->filled < w->capacity / 2 ? w->dropped : 0;
    w->dropped -= dropped;
    pthread_mutex_unlock(&w->lock);
    if (dropped == 0)
        return;
    uint64_t id = pr_log_actor;
    pr_log_actor = 0;
    put_record(w, PR_LOG_WARN, text, (size_t)snprintf(text, sizeof text,
               "%u records were dropped: the log is written more slowly than it grows", dropped), w->lines);
    pr_log_actor = id;
}

void pr_log_writer_take(void *writer, enum pr_log_level level, const char *text, size_t len)
{
    pr_log_writer *w = writer;
    say_dropped(w);
    put_record(w, level, text, len, w->lines);
}

void pr_log_writer_take_last(pr_log_writer *w, enum pr_log_level level, const char *text, size_t len)
{
    pr_log_writer_flush(w, LAST_MS);   /* nothing else is left to do: it may wait for room */
    say_dropped(w);
    put_record(w, level, text, len, w->last_lines);
    pr_log_writer_flush(w, LAST_MS);
}

bool pr_log_writer_flush(pr_log_writer *w, uint32_t ms)
{
    uint64_t until_ns = pr_now_ns() + ms * UINT64_C(1000000);
    pthread_mutex_lock(&w->lock);
    uint64_t until = w->taken;
    while (w->written < until && pr_cond_wait_until(&w->changed, &w->lock, until_ns))
        ;
    bool done = w->written >= until;
    pthread_mutex_unlock(&w->lock);
    return done;
}

/* --- its life */

/* Standard error, for this writer alone: of a pipe or a terminal a description of its own, which does not wait, while it goes on
 * waiting for all others who have it. Where there is none to be had (a socket, somebody else's terminal), it is not `direct`. */
static int open_stderr(bool *direct)
{
    struct stat is;
    bool file = fstat(STDERR_FILENO, &is) == 0 && (S_ISREG(is.st_mode) || S_ISBLK(is.st_mode));
    int fd = file ? -1 : open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *direct = file || fd >= 0;
    return fd >= 0 ? fd : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
}

static void drop(pr_log_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    pr_free(w->fill);
    pr_free(w->spare);
    pr_free(w);
}

pr_log_writer *pr_log_writer_open(const pr_log_target *target, char *error, size_t cap)
{
    pr_log_writer *w = pr_zalloc(sizeof *w);
    if (!w) {
        snprintf(error, cap, "log: not enough memory");
        return NULL;
    }
    w->fd = -1;
    w->call = target->call;
    w->context = target->context;
    w->json = target->json;
    w->capacity = target->buffer ? target->buffer : PR_LOG_BUFFER;
    w->room = w->spare_room = w->capacity < FIRST_ROOM ? w->capacity : FIRST_ROOM;
    w->memory = pr_memory_here;
    if (!(w->fill = pr_alloc(w->room)) || !(w->spare = pr_alloc(w->spare_room))) {
        snprintf(error, cap, "log: not enough memory");
        drop(w);
        return NULL;
    }
    if (!w->call && target->path) {
        w->fd = open(target->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    } else if (!w->call) {
        w->fd = open_stderr(&w->direct);
        w->direct = w->direct && !w->json;
        w->lines = isatty(STDERR_FILENO);
        w->last_lines = true;
    }
    if (!w->call && w->fd < 0) {
        char text[PR_ERROR_TEXT];
        snprintf(error, cap, "log: cannot write to %s: %s", target->path ? target->path : "standard error",
                 pr_error_text(errno, text));
        drop(w);
        return NULL;
    }
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_mutex_init(&w->lock, NULL) == 0 && pr_cond_init(&w->changed) == 0 &&
                   pthread_create(&w->thread, NULL, write_records, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (started)
        return w;
    snprintf(error, cap, "log: no thread to write it");
    drop(w);
    return NULL;
}

void pr_log_writer_serve(pr_log_writer *w, pr_runtime *rt)
{
    pthread_mutex_lock(&w->lock);   /* the thread looks under it: a runtime that is let go may be freed at once */
    atomic_store_explicit(&w->rt, rt, memory_order_release);
    pthread_mutex_unlock(&w->lock);
}

void pr_log_writer_close(pr_log_writer *w)
{
    bool reads = pr_log_writer_flush(w, CLOSE_MS);
    say_dropped(w);
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (reads)
        pr_log_writer_flush(w, LAST_MS);
    atomic_store_explicit(&w->gives_up, true, memory_order_relaxed);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    drop(w);
}
