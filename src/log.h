/* The log: one line a record, filtered by level, handed to a sink. Any thread. Nothing else in the core
 * or the Lua half prints. */
#ifndef PR_LOG_H
#define PR_LOG_H

#include <stdatomic.h>
#include <stddef.h>

enum pr_log_level { PR_LOG_DEBUG, PR_LOG_INFO, PR_LOG_WARN, PR_LOG_ERROR, PR_LOG_NONE };

/* `text` has no newline at its end; it may hold several lines (tracebacks). Called from any thread, also
 * from several at once; must not call back into the runtime. */
typedef void (*pr_log_sink)(void *context, enum pr_log_level level, const char *text, size_t len);

typedef struct pr_log {
    _Atomic int level;      /* relaxed: a change reaches the others soon */
    pr_log_sink sink;
    void *context;
} pr_log;

/* sink NULL: standard error, each record in one write. */
void pr_log_init(pr_log *log, enum pr_log_level level, pr_log_sink sink, void *context);
void pr_log_write(pr_log *log, enum pr_log_level level, const char *text, size_t len);
void pr_logf(pr_log *log, enum pr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline int pr_log_on(pr_log *log, enum pr_log_level level)
{
    return (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}
const char *pr_log_level_name(enum pr_log_level level);
/* -1: no such level */
int pr_log_level_parse(const char *name);

#endif
