/* The log: records, filtered by level, handed to a sink. Any thread. Nothing else in the core or the Lua half prints.
 *
 * On standard error a record is one line: whatever text a script has made, it can neither begin another record nor reach the
 * terminal with control characters. Where a terminal is read by a person, lines within a record stay lines, indented. */
#ifndef PR_LOG_H
#define PR_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pr_log_level { PR_LOG_DEBUG, PR_LOG_INFO, PR_LOG_WARN, PR_LOG_ERROR, PR_LOG_NONE };

/* `text` is as it was made: it may hold several lines (tracebacks) and control characters. Called from any thread, also
 * from several at once; must not call back into the runtime. */
typedef void (*pr_log_sink)(void *context, enum pr_log_level level, const char *text, size_t len);

typedef struct pr_log {
    _Atomic int level;      /* relaxed: a change reaches the others soon */
    pr_log_sink sink;
    void *context;
    _Atomic uint64_t dropped;                   /* records that a bounded sink had no room for; relaxed */
    _Atomic uint64_t gate_s;                    /* see pr_log_gate: the present second ... */
    _Atomic uint32_t gate_passed, gate_held;    /* ... and what came in it. All relaxed: a figure for people */
} pr_log;

/* A record as a line with time and level, for sinks that show them to people; with `lines`, as several where the text has
 * several. */
typedef void (*pr_log_put)(void *context, const char *line, size_t len);
void pr_log_lay_out(enum pr_log_level level, const char *text, size_t len, bool lines, pr_log_put put, void *context);
/* sink NULL: nowhere. */
void pr_log_init(pr_log *log, enum pr_log_level level, pr_log_sink sink, void *context);
void pr_log_write(pr_log *log, enum pr_log_level level, const char *text, size_t len);
/* Why the process ends: whatever the level, and line by line. */
void pr_log_last_words(pr_log *log, const char *text, size_t len);
/* Text as it is written to standard error, into `to` with room for PR_LOG_GROWTH times `len`: control characters as \n,
 * \t, \r or \xNN; with `lines`, lines and tabs as they are, every line but the first with a tab before it. Its length. */
enum { PR_LOG_GROWTH = 4 };
size_t pr_log_line(char *to, const char *text, size_t len, bool lines);
void pr_logf(pr_log *log, enum pr_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of a record about an actor, whose id sinks find in pr_log_actor. */
void pr_log_write_of(pr_log *log, uint64_t id, enum pr_log_level level, const char *text, size_t len);
void pr_logf_of(pr_log *log, uint64_t id, enum pr_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
extern __thread uint64_t pr_log_actor;   /* during a call of a sink; 0: the record is about none */
static inline int pr_log_on(pr_log *log, enum pr_log_level level)
{
    return (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}
/* For records that may come in storms (failures, restarts): whether this one may pass. At most 100 do in a second;
 * how many were held back is logged with the first that passes afterwards, and by pr_log_gate_flush. */
bool pr_log_gate(pr_log *log);
void pr_log_gate_flush(pr_log *log);
const char *pr_log_level_name(enum pr_log_level level);
/* All of it, waiting where the descriptor is non-blocking. 0, or an errno. Any thread. */
int pr_write_all(int fd, const char *bytes, size_t len);
/* What an errno means, in `text` or in memory that lasts. strerror is not promised to be safe among threads. */
enum { PR_ERROR_TEXT = 80 };
const char *pr_error_text(int problem, char text[PR_ERROR_TEXT]);
/* -1: no such level */
int pr_log_level_parse(const char *name);

#endif
