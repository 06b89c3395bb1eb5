/* What the tests that hammer the scheduler share: runtimes of each shape, actors written in C, and a watchdog
 * that turns a hang into a failure with the state of every worker.
 *
 * An actor's own data is a pointer in its start arguments, which the core keeps for all of its lives.
 * Threads must not use cmocka's assertions: they count errors with `wrong`, and the test asserts no_errors(). */
#ifndef HARNESS_H
#define HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc.h"
#include "port.h"
#include "send_timer.h"
#include "worker.h"

typedef struct shape {
    uint32_t workers, throughput;
} shape;

enum { SHAPES = 6 };
extern const shape shapes[SHAPES];   /* 2, 4, 8 workers with a budget of 1 and 32 */

/* `plain` in a plain build, `sanitized` under a sanitizer; times PIERROT_HAMMER. */
uint64_t times(uint64_t plain, uint64_t sanitized);

pr_runtime *runtime_up(shape s);
pr_runtime *runtime_up_spinning(shape s, uint32_t spin);
/* Stops (when that has not been done), joins, frees. A runtime that does not end by itself is an error. */
void runtime_down(pr_runtime *rt, pr_counters *sum);

/* The watchdog: from here on `progress` must be called at least every ten seconds (forty under a sanitizer). NULL ends it. */
void watch_over(pr_runtime *rt);
void progress(void);
/* Sleeps until the counter has reached n; each change is progress. */
void wait_for(_Atomic uint64_t *counter, uint64_t n);
/* The same for an actor's end. */
void wait_for_end(pr_runtime *rt, uint64_t id);

/* Notes an error (the first few are printed); any thread. */
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool no_errors(void);

uint64_t draw(uint64_t *random);                       /* splitmix64 */
static inline uint64_t below(uint64_t *random, uint64_t n) { return draw(random) % n; }
void pause_us(unsigned us);

/* A message with these bytes. */
pr_msg *letter(pr_worker *w, uint64_t to, const void *bytes, size_t size);
/* Sends one; what is refused is freed. */
pr_status tell(pr_runtime *rt, pr_worker *w, uint64_t to, const void *bytes, size_t size);
pr_status order(pr_runtime *rt, pr_worker *w, uint64_t to, uint8_t kind);

/* where: 0 any worker, else its number from 1. */
pr_status spawn(pr_runtime *rt, pr_worker *w, const pr_ops *ops, uint16_t flags, uint32_t where, void *data, uint64_t *id);
static inline void *data_of(const pr_actor *a)
{
    void *data;
    memcpy(&data, a->start_args->data, sizeof data);
    return data;
}

/* Ops that do nothing. */
pr_outcome done_start(pr_worker *w, pr_actor *a);
pr_outcome done_receive(pr_worker *w, pr_actor *a, pr_msg *m);
pr_outcome done_resume(pr_worker *w, pr_actor *a);
pr_outcome done_stop(pr_worker *w, pr_actor *a, const pr_msg *reason);
void done_abandon(pr_worker *w, pr_actor *a, void *suspended);
void done_release(pr_worker *w, pr_actor *a);
extern const pr_ops idle_ops;

/* Threads: starts `count` of them with an index each, and waits for them. */
typedef struct task {
    void *(*run)(void *context, unsigned index);
    void *context;
    unsigned index;
} task;

typedef struct crew {
    pthread_t thread[16];
    task task[16];
    unsigned count;
} crew;
void crew_start(crew *c, unsigned count, void *(*run)(void *context, unsigned index), void *context);
void crew_join(crew *c);

#endif
