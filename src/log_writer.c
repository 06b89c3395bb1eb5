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
#include <time.h>
#include <unistd.h>

enum { CLOSE_MS = 2000 };

struct pr_log_writer {
    int fd;
    bool json;
    _Atomic(pr_runtime *) rt;  /* NULL until pr_log_writer_serve: release there, acquire where its names are looked up */
    pthread_t thread;
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t changed;
    char *fill, *spare;        /* records are put into `fill`; the thread writes the other one */
    size_t filled;
    uint64_t taken, written;   /* bytes: `written` also counts what could not be */
    uint32_t dropped;          /* since the last record that said so */
    bool closing;
    _Atomic bool gives_up;     /* the thread is not to wait for its descriptor any more; relaxed */
};

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
    if (rt)
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
        size_t len = w->filled;
        w->fill = w->spare;
        w->spare = bytes;
        w->filled = 0;
        pthread_mutex_unlock(&w->lock);
        bool wrote = write_out(w, bytes, len);
        pthread_mutex_lock(&w->lock);
        w->written += len;
        if (!wrote)
            count_dropped(w, lines_in(bytes, len));
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

static void put(void *writer, const char *line, size_t len)
{
    pr_log_writer *w = writer;
    pthread_mutex_lock(&w->lock);
    if (len > PR_LOG_BUFFER - w->filled) {
        count_dropped(w, 1);
    } else {
        memcpy(w->fill + w->filled, line, len);
        w->filled += len;
        w->taken += len;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
}

static void put_record(pr_log_writer *w, enum pr_log_level level, const char *text, size_t len)
{
    if (!w->json) {
        pr_log_lay_out(level, text, len, false, put, w);
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

void pr_log_writer_take(void *writer, enum pr_log_level level, const char *text, size_t len)
{
    pr_log_writer *w = writer;
    char missed[96];
    pthread_mutex_lock(&w->lock);
    uint32_t dropped = w->filled < PR_LOG_BUFFER / 2 ? w->dropped : 0;
    w->dropped -= dropped;
    pthread_mutex_unlock(&w->lock);
    if (dropped) {
        uint64_t id = pr_log_actor;
        pr_log_actor = 0;
        put_record(w, PR_LOG_WARN, missed, (size_t)snprintf(missed, sizeof missed,
                   "%u records were dropped: the log is written more slowly than it grows", dropped));
        pr_log_actor = id;
    }
    put_record(w, level, text, len);
}

void pr_log_writer_flush(pr_log_writer *w, uint32_t ms)
{
    uint64_t until_ns = pr_now_ns() + ms * UINT64_C(1000000);
    pthread_mutex_lock(&w->lock);
    uint64_t until = w->taken;
    while (w->written < until && pr_cond_wait_until(&w->changed, &w->lock, until_ns))
        ;
    pthread_mutex_unlock(&w->lock);
}

/* --- its life */

pr_log_writer *pr_log_writer_open(const char *path, bool json, char *error, size_t cap)
{
    pr_log_writer *w = pr_zalloc(sizeof *w);
    if (!w || !(w->fill = pr_alloc(PR_LOG_BUFFER)) || !(w->spare = pr_alloc(PR_LOG_BUFFER))) {
        snprintf(error, cap, "log: not enough memory");
        goto fail;
    }
    w->json = json;
    w->fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (w->fd < 0) {
        snprintf(error, cap, "log: cannot write to %s: %s", path ? path : "standard error", strerror(errno));
        goto fail;
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
    close(w->fd);
fail:
    if (w) {
        pr_free(w->fill);
        pr_free(w->spare);
    }
    pr_free(w);
    return NULL;
}

void pr_log_writer_serve(pr_log_writer *w, pr_runtime *rt)
{
    atomic_store_explicit(&w->rt, rt, memory_order_release);
}

void pr_log_writer_close(pr_log_writer *w)
{
    pthread_mutex_lock(&w->lock);
    atomic_store_explicit(&w->rt, NULL, memory_order_relaxed);   /* it may be freed already; the thread looks under the lock */
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pr_log_writer_flush(w, CLOSE_MS);
    atomic_store_explicit(&w->gives_up, true, memory_order_relaxed);
    pthread_join(w->thread, NULL);
    close(w->fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pr_free(w->fill);
    pr_free(w->spare);
    pr_free(w);
}
