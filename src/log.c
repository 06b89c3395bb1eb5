/* See log.h. */
#include "log.h"

#include "alloc.h"
#include "log_writer.h"
#include "parker.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GATE_PASSES = 100 };

static const char *const names[] = {"debug", "info", "warn", "error", "none"};

const char *pr_log_level_name(enum pr_log_level level)
{
    return names[level];
}

int pr_log_level_parse(const char *name)
{
    for (int i = 0; i <= PR_LOG_NONE; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

const char *pr_error_text(int problem, char text[PR_ERROR_TEXT])
{
#ifdef __GLIBC__
    return strerror_r(problem, text, PR_ERROR_TEXT);
#else
    return strerror_r(problem, text, PR_ERROR_TEXT) == 0 ? text : "unknown error";
#endif
}

int pr_write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(fd, bytes, len);
        if (wrote > 0) {
            bytes += wrote;
            len -= (size_t)wrote;
        } else if (wrote == 0) {
            return EIO;
        } else if (errno == EAGAIN) {
            if (poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1) < 0 && errno != EINTR)
                return errno;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

size_t pr_log_line(char *to, const char *text, size_t len, bool lines)
{
    static const char hex[] = "0123456789abcdef";
    char *at = to;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c >= ' ' && c != 127) || (c == '\t' && lines)) {
            *at++ = (char)c;
        } else if (c == '\n' && lines) {
            *at++ = '\n';
            *at++ = '\t';
        } else {
            *at++ = '\\';
            *at++ = (char)(c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : 'x');
            if (at[-1] == 'x') {
                *at++ = hex[c >> 4];
                *at++ = hex[c & 15];
            }
        }
    }
    return (size_t)(at - to);
}

void pr_log_lay_out(enum pr_log_level level, const char *text, size_t len, bool lines, pr_log_put put, void *context)
{
    struct timespec now;
    struct tm utc;
    char head[64], small[4096], *line = small;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(head, sizeof head, "%Y-%m-%dT%H:%M:%S", &utc);
    n += (size_t)snprintf(head + n, sizeof head - n, ".%03ldZ %-5s ", now.tv_nsec / 1000000, names[level]);
    if (n + PR_LOG_GROWTH * len + 1 > sizeof small && !(line = pr_alloc(n + PR_LOG_GROWTH * len + 1))) {
        line = small;
        len = (sizeof small - n - 1) / PR_LOG_GROWTH;
    }
    memcpy(line, head, n);
    n += pr_log_line(line + n, text, len, lines);
    line[n++] = '\n';
    put(context, line, n);
    if (line != small)
        pr_free(line);
}

void pr_log_last_words(pr_log *log, const char *text, size_t len)
{
    if (log->sink == pr_log_writer_take)
        pr_log_writer_take_last(log->context, PR_LOG_ERROR, text, len);
    else if (log->sink)
        log->sink(log->context, PR_LOG_ERROR, text, len);
}

void pr_log_init(pr_log *log, enum pr_log_level level, pr_log_sink sink, void *context)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
    log->sink = sink;
    atomic_store_explicit(&log->gate_s, 0, memory_order_relaxed);
    atomic_store_explicit(&log->gate_passed, 0, memory_order_relaxed);
    atomic_store_explicit(&log->gate_held, 0, memory_order_relaxed);
    atomic_store_explicit(&log->dropped, 0, memory_order_relaxed);
    log->context = context;
}

__thread uint64_t pr_log_actor;

void pr_log_write_of(pr_log *log, uint64_t id, enum pr_log_level level, const char *text, size_t len)
{
    pr_log_actor = id;
    pr_log_write(log, level, text, len);
    pr_log_actor = 0;
}

void pr_log_write(pr_log *log, enum pr_log_level level, const char *text, size_t len)
{
    if (pr_log_on(log, level) && log->sink)
        log->sink(log->context, level, text, len);
}

static void write_formatted(pr_log *log, enum pr_log_level level, const char *format, va_list args, va_list again)
{
    char small[1024];
    int n = vsnprintf(small, sizeof small, format, args);
    if (n < 0)
        return;
    if ((size_t)n < sizeof small) {
        pr_log_write(log, level, small, (size_t)n);
        return;
    }
    char *big = pr_alloc((size_t)n + 1);
    if (!big) {
        pr_log_write(log, level, small, sizeof small - 1);
        return;
    }
    vsnprintf(big, (size_t)n + 1, format, again);
    pr_log_write(log, level, big, (size_t)n);
    pr_free(big);
}

void pr_logf(pr_log *log, enum pr_log_level level, const char *format, ...)
{
    va_list args, again;
    if (!pr_log_on(log, level))
        return;
    va_start(args, format);
    va_copy(again, args);
    write_formatted(log, level, format, args, again);
    va_end(again);
    va_end(args);
}

void pr_logf_of(pr_log *log, uint64_t id, enum pr_log_level level, const char *format, ...)
{
    va_list args, again;
    if (!pr_log_on(log, level))
        return;
    pr_log_actor = id;
    va_start(args, format);
    va_copy(again, args);
    write_formatted(log, level, format, args, again);
    va_end(again);
    va_end(args);
    pr_log_actor = 0;
}

void pr_log_gate_flush(pr_log *log)
{
    uint32_t held = atomic_exchange_explicit(&log->gate_held, 0, memory_order_relaxed);
    if (held > 0)
        pr_logf(log, PR_LOG_WARN, "%u more records of failures and restarts were held back", held);
}

bool pr_log_gate(pr_log *log)
{
    uint64_t now_s = pr_now_ns() / 1000000000u, then_s = atomic_load_explicit(&log->gate_s, memory_order_relaxed);
    if (now_s != then_s && atomic_compare_exchange_strong_explicit(&log->gate_s, &then_s, now_s, memory_order_relaxed,
                                                                   memory_order_relaxed)) {
        atomic_store_explicit(&log->gate_passed, 0, memory_order_relaxed);
        pr_log_gate_flush(log);
    }
    if (atomic_fetch_add_explicit(&log->gate_passed, 1, memory_order_relaxed) < GATE_PASSES)
        return true;
    atomic_fetch_add_explicit(&log->gate_held, 1, memory_order_relaxed);
    return false;
}
