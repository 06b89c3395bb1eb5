/* Dispatchers: groups of workers, each with its own threads, its own line of actors that wait to run, its own
 * throughput. An actor belongs to one from its birth on, and only that one's workers run it; so what blocks the threads
 * of one dispatcher delays nobody on another.
 *
 * The workers of all stand in one array (an actor's home is an index into it), those of a dispatcher side by side. The
 * first dispatcher is "default". Its threads are started with the runtime, those of any other at the first birth on it:
 * a dispatcher that nobody uses costs its records alone.
 *
 * Invariant: an actor of a dispatcher is in no ring and no line but those of its workers. Floating actors are stolen, and
 * sleepers woken for them, among those workers alone. */
#ifndef PR_DISPATCHER_H
#define PR_DISPATCHER_H

#include "ready_queue.h"

typedef struct pr_worker pr_worker;
typedef struct pr_runtime pr_runtime;

enum { PR_DISPATCHER_DEFAULT = 0, PR_DISPATCHERS = 33 /* 30 of the users, "default", "blocking", "prompts" */, PR_DISPATCHER_NAME = 64, PR_DISPATCHER_WORKERS = 1024 };

typedef struct pr_dispatcher_config {
    const char *name;            /* 1 to 63 bytes; copied */
    uint32_t workers;            /* 1 to 1024 */
    uint32_t throughput;         /* messages a turn; 0: the runtime's */
    bool interpreted;            /* compiles nothing: what runs there can be interrupted at any instruction */
} pr_dispatcher_config;

typedef struct pr_dispatcher {
    /* --- fixed before any thread runs */
    char name[PR_DISPATCHER_NAME];
    uint32_t index, first, count;   /* its place, and that of its workers in runtime.workers */
    uint32_t throughput;
    bool interpreted;
    pr_worker *workers;          /* &runtime.workers[first] */
    /* --- its workers, and whoever makes an actor of it ready */
    _Alignas(64) _Atomic uint32_t sleepers;   /* workers parked without a limit or for a timer. seq_cst, see worker.c */
    _Atomic uint32_t watchers;   /* workers parked for a moment beside a small surplus */
    pr_global global;
    /* --- starting it */
    _Atomic bool up;             /* its threads run. release at the start, acquire at a birth */
    pthread_mutex_t lock;        /* held by who starts it; before runtime.end_lock */
    uint32_t opened;             /* threads that have opened their states or failed to; this and the next under end_lock */
    enum { PR_START_WAITS, PR_START_GO, PR_START_FAILED } start;   /* what its threads do then: set by the starter */
    bool open_failed, no_threads;
    char error[512];
} pr_dispatcher;

/* Their records and those of their workers: part of making a runtime. False: no memory; destroy undoes what there is. */
bool pr_dispatchers_init(pr_runtime *rt);
void pr_dispatchers_destroy(pr_runtime *rt);

/* Starts its threads if that has not been done; waits until each has its language state. PR_OK; PR_STOPPING; PR_FAILURE
 * and a text in `error`: then none of them runs, and the next call tries again. Any thread, without locks held. */
pr_status pr_dispatcher_use(pr_runtime *rt, pr_dispatcher *d, char *error, size_t cap);

/* NULL: there is none of that name. Any thread. */
pr_dispatcher *pr_dispatcher_named(pr_runtime *rt, const char *name, size_t len);
/* "default, blocking, io": what there is, for errors. */
size_t pr_dispatchers_list(pr_runtime *rt, char *buf, size_t cap);

#endif
