/* The library: what stands behind pierrot.h. Public functions are thin: they check their arguments, enter the runtime's
 * memory, and call the core.
 *
 * Lifetime: `pierrot` has holders, and with the last one goes all of it. After the end of the runtime (pierrot_join) the
 * core's memory stays until then: so a thread that still tells finds closed inboxes and dead records, and no freed ones,
 * without paying for a count of who is inside. */
#ifndef PR_EMBED_H
#define PR_EMBED_H

#include "../pierrot.h"

#include "../alloc.h"
#include "../log_writer.h"
#include "../port.h"
#include "../tick.h"
#include "../worker.h"

enum { PR_LANES = 16, PR_LOG_PRINT = PR_LOG_NONE + 1 };

/* Envelopes at hand for threads that are no workers. Whoever comes takes the lane that its thread usually takes, or
 * the next one; where all are taken, malloc serves. */
typedef struct pr_lane {
    _Alignas(64) _Atomic bool busy;     /* acquire to take it, release to give it back */
    pr_msg_pool pool;
} pr_lane;

/* A behaviour in C that Lua knows by name. */
typedef struct pr_definition {
    struct pr_definition *next;
    pr_behaviour *behaviour;            /* a reference is held */
    char name[];
} pr_definition;

struct pierrot {
    pr_memory memory;
    pierrot_config config;              /* its strings and lists are copies */
    pr_runtime *rt;
    pr_log_writer *log;                 /* of log_buffer, or NULL; from before the runtime's start to after its end */
    _Atomic uint32_t holders;           /* acq_rel to drop */
    pthread_mutex_t lock;               /* guards `joined`: held while joining */
    bool joined;
    _Atomic bool ended;                 /* tick mode: the same, under the tick's `busy` */
    pthread_mutex_t definitions_lock;   /* guards these */
    pr_definition *definitions;
    pierrot_message **scratch;          /* a worker's own, by index; made by it */
    pr_lane lanes[PR_LANES];
};

/* Work in the runtime's memory, from the one to the other. */
static inline pr_memory *pr_enter(pierrot *p)
{
    pr_memory *before = pr_memory_here;
    pr_memory_here = &p->memory;
    return before;
}
static inline void pr_leave(pr_memory *before) { pr_memory_here = before; }

pierrot_status pr_public_status(pr_status status);

/* --- runtime.c: waiting, in either mode */

static inline bool pr_in_a_handler(pierrot *p) { return pr_worker_here && pr_worker_here->rt == p->rt; }
/* When a time limit ends, by the runtime's clock. */
static inline uint64_t pr_until_ns(pierrot *p, uint64_t timeout_ms)
{
    uint64_t now = pr_clock_ns(p->rt);
    return timeout_ms >= (UINT64_MAX - now) / 1000000 ? UINT64_MAX : now + timeout_ms * 1000000;
}
/* Waits until something comes in at the port, or for a while, until then at most. In tick mode it ticks. */
void pr_host_wait(pierrot *p, pr_port *port, uint64_t until_ns);

/* --- message.c */

struct pr_level {
    uint32_t start;                     /* where its tag stands */
    uint32_t count;                     /* values put so far: keys too */
    bool map;
};

enum { PR_DEPTH_MAX = 100, PR_VALUES_MAX = 4000 };

struct pierrot_message {
    pierrot *p;
    uint8_t *bytes;                     /* `small` or a block */
    size_t size, capacity;
    uint32_t count;                     /* of values beside each other */
    pierrot_status status;
    uint32_t depth;                     /* tables that have been begun */
    uint32_t blob;                      /* depth > 0: where the outermost one's length stands */
    struct pr_level levels[PR_DEPTH_MAX];
    uint8_t small[256];
};

/* PIERROT_OK, or why it cannot be sent. NULL is one without values. */
static inline pierrot_status pr_message_ready(const pierrot_message *m)
{
    return !m ? PIERROT_OK : m->status != PIERROT_OK ? m->status : m->depth > 0 ? PIERROT_INVALID : PIERROT_OK;
}
/* Its values in an envelope of that pool. NULL: no memory. */
pr_msg *pr_message_envelope(pr_msg_pool *pool, const pierrot_message *m);
/* The values of an envelope, from the `skip`th on. */
void pr_envelope_read(const pr_msg *m, pierrot_cursor *c);
pierrot_message *pr_message_make(pierrot *p);

/* --- send.c */

/* An envelope from a lane, or NULL. */
pr_msg *pr_host_envelope(pierrot *p, const pierrot_message *m);
pierrot_status pr_host_send(pierrot *p, pr_worker *w, uint64_t from, uint32_t ask, pierrot_ref to, const pierrot_message *m);
pierrot_status pr_host_timer(pierrot *p, pr_worker *w, uint64_t from, uint64_t delay_ms, uint64_t period_ms, pierrot_ref to,
                             const pierrot_message *m, pierrot_timer **timer);

/* --- native.c */

extern const pr_ops pr_native_ops;
/* pr_config.native */
pr_behaviour *pr_native_named(pr_runtime *rt, const char *name, size_t len);
/* w: NULL, or the worker whose actor in hand is the parent. */
pierrot_status pr_host_spawn(pierrot *p, pr_worker *w, const pr_ops *ops, pr_behaviour *b, const pierrot_message *args,
                             const pierrot_spawn_options *options, pierrot_ref *ref);

#endif
