/* Showing somebody the next messages of an actor: each, once it is handled, is reported with who sent it, what came of
 * it, how long it took, and its values.
 *
 * A traced actor has PR_FLAG_APART, which leads its messages off the quick way through the dispatch loop; others pay
 * nothing. All on the actor's owner but pr_trace. A second trace of an actor takes the place of the first. */
#ifndef PR_TRACE_H
#define PR_TRACE_H

#include "actor.h"
#include "message.h"

struct pr_trace;

/* Any thread. `tracer` gets "\0trace", actor, sender or nil, seconds, outcome ("done", "failed", "unhandled"), how many are
 * still to come, and the message's values (of a big one its size, as a text), `count` times; 0 ends it. */
pr_status pr_trace(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t tracer, uint32_t count);
/* The order that makes. Consumes `m`. */
void pr_trace_told(pr_worker *w, pr_actor *a, pr_msg *m);
/* Around the handling of a traced actor's message. */
void pr_trace_begins(pr_worker *w, pr_actor *a, const pr_msg *m);
void pr_trace_ends(pr_worker *w, pr_actor *a, pr_outcome outcome);
/* With its pr_extra. */
void pr_trace_free(struct pr_trace *t);

#endif
