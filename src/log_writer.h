/* A sink of the log that never keeps anybody waiting: records go into a buffer, and a thread of its own writes them, to a
 * file or to standard error, as text or as JSON, a line each.
 *
 * The buffer holds PR_LOG_BUFFER bytes. What does not fit, where the disk or the reader of a pipe is slower than the log, is
 * dropped and counted; the count is a record of its own as soon as there is room. What cannot be written (a full disk) is
 * dropped and counted too. */
#ifndef PR_LOG_WRITER_H
#define PR_LOG_WRITER_H

#include "log.h"

struct pr_runtime;
typedef struct pr_log_writer pr_log_writer;

enum { PR_LOG_BUFFER = 1 << 20 };

/* path NULL: standard error; a file is appended to. NULL and a text in `error`. */
pr_log_writer *pr_log_writer_open(const char *path, bool json, char *error, size_t cap);
/* From now on records name their actors' names and behaviours, and drops are counted in its log. Once, before it has actors. */
void pr_log_writer_serve(pr_log_writer *w, struct pr_runtime *rt);
/* A pr_log_sink; the context is the writer. */
void pr_log_writer_take(void *writer, enum pr_log_level level, const char *text, size_t len);
/* Waits until what has been taken so far is written, for so long at most. */
void pr_log_writer_flush(pr_log_writer *w, uint32_t ms);
/* After the last record. Writes what is left, for two seconds at most: a reader that has stopped holds up no end. */
void pr_log_writer_close(pr_log_writer *w);

#endif
