/* A sink of the log that never keeps anybody waiting: what cannot be written at once goes into a buffer, and a thread of its own
 * writes that, to a file or to standard error, as text or as JSON, a line each; or gives it to a callback, a record a call.
 *
 * Text on standard error is written by whoever logs, as long as there is room for it: so it stands where it belongs among
 * what else is written there, and nothing is lost with a process that crashes. Only what there is no room for, in a pipe or on
 * a terminal, is left to the thread, and what comes behind it. (Of a file there is always room, as of the system's memory.)
 *
 * The buffer is bounded. What does not fit, where the disk, the reader of a pipe or the callback is slower than the log, is
 * dropped and counted; the count is a record of its own as soon as there is room. What cannot be written (a full disk) is
 * dropped and counted too. */
#ifndef PR_LOG_WRITER_H
#define PR_LOG_WRITER_H

#include "log.h"

struct pr_runtime;
typedef struct pr_log_writer pr_log_writer;

enum { PR_LOG_BUFFER = 1 << 20 };

typedef struct pr_log_target {
    const char *path;    /* a file, which is appended to; NULL: standard error */
    bool json;
    pr_log_sink call;    /* not NULL: instead of both, called with `context` on the writer's thread */
    void *context;
    size_t buffer;       /* bytes; 0: PR_LOG_BUFFER */
} pr_log_target;

/* NULL and a text in `error`. */
pr_log_writer *pr_log_writer_open(const pr_log_target *target, char *error, size_t cap);
/* From now on records name their actors' names and behaviours, and drops are counted in its log: before it has actors. NULL:
 * not any more, before it is freed. */
void pr_log_writer_serve(pr_log_writer *w, struct pr_runtime *rt);
/* A pr_log_sink; the context is the writer. */
void pr_log_writer_take(void *writer, enum pr_log_level level, const char *text, size_t len);
/* The same of what ends the process: as text on standard error, line by line. Waits for room and until it is written, two
 * seconds at most. */
void pr_log_writer_take_last(pr_log_writer *w, enum pr_log_level level, const char *text, size_t len);
/* Waits until what has been taken so far is written, for so long at most: whether it is. */
bool pr_log_writer_flush(pr_log_writer *w, uint32_t ms);
/* After the last record. Writes what is left, for two seconds at most: a reader that has stopped holds up no end. A callback
 * is waited for until the call in hand returns. */
void pr_log_writer_close(pr_log_writer *w);

#endif
