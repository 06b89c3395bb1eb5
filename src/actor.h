/* Actor records: type-stable, found by id without a lock, never returned to the allocator while the
 * runtime lives.
 *
 * An id is 46 bits: bit 0 set, bits 1-24 the slot, bits 25-44 the slot's generation, bit 45 kept for actors
 * of other machines. An id is never given out twice: a slot whose generations are used up is retired.
 *
 * Who may touch what:
 *   senders' line   read by anyone; written by the owner at birth, pinning and end
 *   owner's lines   the worker that runs the actor now (floating: whoever has moved `sched` to PROCESSING;
 *                   pinned: the worker in `home`); fields that `info` reads from elsewhere are relaxed
 *                   atomics with that one writer: a snapshot, ordered with nothing
 *   family          written by the parent's owner (root: under runtime.root_lock)
 * A record may only be reused after its parent has unlinked it. */
#ifndef PR_ACTOR_H
#define PR_ACTOR_H

#include "mailbox.h"
#include "ties.h"
#include "timer.h"

typedef struct pr_actor pr_actor;

enum { PR_SLOT_BITS = 24, PR_GENERATION_BITS = 20, PR_SLAB_BITS = 12 };
#define PR_SLOTS (1u << PR_SLOT_BITS)
#define PR_SLAB (1u << PR_SLAB_BITS)                 /* records a slab */
#define PR_SLABS (PR_SLOTS >> PR_SLAB_BITS)
#define PR_GENERATIONS (1u << PR_GENERATION_BITS)
#define PR_ID_MASK ((UINT64_C(1) << 46) - 1)

static inline uint64_t pr_id_make(uint32_t slot, uint32_t generation)
{
    return 1 | (uint64_t)slot << 1 | (uint64_t)generation << (1 + PR_SLOT_BITS);
}
static inline uint32_t pr_id_slot(uint64_t id) { return (uint32_t)(id >> 1) & (PR_SLOTS - 1); }
static inline uint32_t pr_id_generation(uint64_t id)
{
    return (uint32_t)(id >> (1 + PR_SLOT_BITS)) & (PR_GENERATIONS - 1);
}
static inline bool pr_id_valid(uint64_t id) { return (id & 1) && id <= PR_ID_MASK; }

typedef enum pr_status {
    PR_OK, PR_DEAD, PR_STOPPING, PR_EXISTS, PR_NOMEM, PR_TIMEOUT, PR_BUSY, PR_FAILURE, PR_FULL,
    PR_MUST_WAIT,  /* of pr_send: the mailbox is full and its senders wait; it counts as rejected */
    PR_LIMIT,      /* of pr_actor_spawn: there are as many as there may be */
    PR_INVALID     /* of a configuration */
} pr_status;

enum pr_kind {
    PR_KIND_ACTOR,
    PR_KIND_PORT,
    PR_KIND_SCRIPT,     /* of `pierrot run`: its failure is the process's */
    PR_KIND_CALL        /* of `pierrot.blocking`: ready once its one message is there, which its first turn handles, too */
};

/* `sched`: the floating actor's state machine. ARCHITECTURE.md has the table of transitions. */
enum pr_sched { PR_IDLE, PR_SCHEDULED, PR_PROCESSING, PR_PINNED };

/* `state`: what `info` shows; of a pinned actor also what its owner goes by. */
enum pr_state { PR_STATE_IDLE, PR_STATE_SCHEDULED, PR_STATE_PROCESSING, PR_STATE_SUSPENDED, PR_STATE_STOPPING };

/* Bits 3 to 7: which worker has timers for it, index + 1; see send_timer.h. */
enum pr_naming { PR_NAMED = 1, PR_IN_GROUPS = 2, PR_SUBSCRIBED = 4, PR_TIMED = 0xf8, PR_TIMED_SHIFT = 3, PR_TIMED_BY_SEVERAL = 31 };

/* `gate`: what a sender has to mind; 0 for most actors. */
enum pr_gate {
    PR_GATE_STOPPING = 1,          /* tells are refused with "stopping" */
    PR_GATE_BOXED = 2              /* its messages go into its box: see box.h */
};

/* `asking` of a reentrant actor that waits for nobody: see deadlock.c. */
enum { PR_ASKS_NOBODY = 4 };

enum pr_restart { PR_RESTART_TRANSIENT, PR_RESTART_PERMANENT, PR_RESTART_TEMPORARY };

/* `flags`: the owner's view of where in its life the actor stands. */
enum pr_flag {
    PR_FLAG_NEW = 1 << 0,          /* `start` has yet to run */
    PR_FLAG_STARTED = 1 << 1,      /* this life's `start` succeeded: `stop` is owed */
    PR_FLAG_SUSPENDED = 1 << 2,    /* it takes no message: a handler of it is suspended, and `wait` says on what; or see parked.c */
    PR_FLAG_RESUME = 1 << 3,       /* a suspended handler can go on */
    PR_FLAG_STOP = 1 << 4,         /* asked to stop: after the message in hand */
    PR_FLAG_KILL = 1 << 5,
    PR_FLAG_FAILED = 1 << 6,       /* this life ends by a failure */
    PR_FLAG_ENDING = 1 << 7,       /* takes no more messages in this life */
    PR_FLAG_CHILDREN = 1 << 8,     /* ... and waits for its children's end */
    PR_FLAG_IN_STOP = 1 << 9,      /* ... or for its own `stop` */
    PR_FLAG_RESTART = 1 << 10,     /* another life follows */
    PR_FLAG_APART = 1 << 11,       /* its messages go off the quick way: shown to somebody (trace.h), or with a time slice */
    PR_FLAG_ORDERED = 1 << 12,     /* told to stop by its parent or the shutdown: `permanent` does not count */
    PR_FLAG_STARTING = 1 << 13,    /* inside `start` */
    PR_FLAG_FLOATS = 1 << 14,      /* written in C: stays floating */
    PR_FLAG_RECEIVING = 1 << 15    /* suspended in `receive`: a message ends the wait */
};

enum { PR_HOME_FLOATING = 0, PR_HOME_PORT = 0xffff };   /* else: the worker's index + 1 */

typedef enum pr_outcome { PR_DONE, PR_SUSPENDED, PR_FAILED, PR_UNHANDLED } pr_outcome;

/* What a language adds for failures, and for those who look on; called like pr_ops. Each may be missing. */
typedef struct pr_kin_ops {
    bool (*traps)(pr_worker *w, pr_actor *a);                   /* exits of links are messages to it */
    pr_msg *(*reason)(pr_worker *w, const pr_msg *error);       /* an ERROR payload as one value; NULL: no memory */
    /* How it treats its children; NULL: the default rules. */
    const struct pr_rules *(*rules)(pr_worker *w, pr_actor *a);
    /* enum pr_verdict for a child that has failed by `error`; also while a handler is suspended. Must not suspend. */
    uint8_t (*decide)(pr_worker *w, pr_actor *a, uint64_t child, const pr_msg *error);
    /* Its suspended handler goes on, to be ended at once; see pr_actor_interrupt. */
    void (*interrupted)(pr_worker *w, pr_actor *a);
    /* Where the handler begins that a message would have, as FILE:LINE; leaves `buf` alone where there is none. Without a message,
     * that which an actor of its behaviour had last, as far as is known. */
    void (*place)(pr_worker *w, pr_actor *a, const pr_msg *m, char *buf, size_t cap);
    /* Whether `stop` and `release` do no more for it than to drop what it has: so they may be called in the midst of `receive`. */
    bool (*ends_silently)(pr_worker *w, pr_actor *a);
} pr_kin_ops;

/* What a language does for its actors. All run on the actor's owner, in its turn; none may keep the
 * message it is shown. PR_SUSPENDED: `wait` has been set; `resume` follows once it is satisfied.
 * PR_FAILED: worker.failure is filled in. PR_UNHANDLED (receive only): nothing in the behaviour takes it. */
typedef struct pr_ops {
    pr_outcome (*start)(pr_worker *w, pr_actor *a);
    pr_outcome (*receive)(pr_worker *w, pr_actor *a, pr_msg *m);
    pr_outcome (*resume)(pr_worker *w, pr_actor *a);
    pr_outcome (*stop)(pr_worker *w, pr_actor *a, const pr_msg *reason); /* reason NULL: "normal" */
    void (*abandon)(pr_worker *w, pr_actor *a, void *suspended);    /* drops a suspended handler */
    void (*release)(pr_worker *w, pr_actor *a);                     /* drops the state of this life */
    void (*where)(pr_worker *w, void *suspended, char *buf, size_t cap); /* for reports: file:line */
    const pr_kin_ops *kin;                                          /* NULL: none of it */
} pr_ops;

typedef struct pr_behaviour pr_behaviour;

/* A timer with something to do; the wheel's node comes first. */
typedef struct pr_alarm {
    pr_timer timer;
    void (*fire)(pr_worker *w, struct pr_alarm *alarm);
} pr_alarm;

/* YIELD, STOOD_BACK and SLICED go on at once, in a turn of their own; STOOD_BACK in the middle of a tell, SLICED anywhere: its
 * time slice is over. */
enum pr_wait_kind {
    PR_WAIT_ASK, PR_WAIT_SLEEP, PR_WAIT_RECEIVE, PR_WAIT_YIELD, PR_WAIT_SEND, PR_WAIT_STOOD_BACK, PR_WAIT_SLICED
};

/* A suspended handler. From the worker's pool; the actor's owner alone touches it. */
typedef struct pr_wait {
    pr_alarm alarm;          /* its time limit */
    pr_actor *actor;
    pr_msg *hand;            /* the message that the handler was given, NULL in start and stop */
    pr_msg *reply;           /* ASK, SEND: what came */
    void *suspended;         /* the language's coroutine */
    uint32_t ask;            /* ASK, SEND: its number */
    uint64_t whom;           /* ASK, SEND: who is waited for, as far as its own actor knows; 0 */
    uint64_t box_of;         /* whose mailbox is full, where the message waits for room; 0 */
    uint8_t kind;            /* enum pr_wait_kind */
    bool timed_out;
    bool parked, ready;      /* see parked.c */
    struct pr_wait *next, *previous;   /* of those parked; `next` also in the worker's pool */
} pr_wait;

typedef struct pr_waits {
    pr_wait *first, *last;
} pr_waits;

/* The suspended handlers of a reentrant actor. */
typedef struct pr_parked {
    pr_waits waiting;        /* in the order in which they were suspended */
    pr_waits ready;          /* those that can go on, in the order in which what they waited for came */
    uint32_t count;          /* of both */
    uint32_t receiving;      /* of both: in `receive` */
    uint32_t most;           /* the bound, fixed at birth; 0: not reentrant */
    bool resumed_last;       /* a message's turn, if there is one */
} pr_parked;

/* Flag ENDING alone does not say it: what an actor waits for before its end goes on, or its next life begins. */
enum pr_held {
    PR_HELD_NOT,
    PR_HELD_VERDICT,   /* its life could still go on */
    PR_HELD_DELAY,     /* between two lives: the time */
    PR_HELD_GO,        /* between two lives: its parent's word */
    PR_HELD_OVER       /* the wait between two lives is over */
};

/* What only few actors have. */
typedef struct pr_extra {
    struct pr_user_timer *timers;
    pr_ties ties;                  /* links and monitors */
    pr_msg *stop_reason;
    pr_alarm deadline;             /* see extra.c */
    pr_actor *actor;
    uint64_t shutdown_ms;          /* its time to stop in, fixed at birth; 0: killed at once, UINT64_MAX: no limit */
    uint8_t held;                  /* enum pr_held */
    bool hold;                     /* its parent wants it held: `token` goes back when it is; else when it has started */
    uint32_t delay_ms;             /* before its next life */
    pr_msg *token;
    pr_msg *awaits;                /* AWAIT orders, linked by next */
    uint64_t life_ms;              /* when this life began; 0: at birth */
    struct pr_history *history;    /* of whoever decides about it; freed with the record */
    struct pr_family *family;      /* as a parent */
    pr_parked parked;              /* see pr_actor_reentrant */
    void *native;                  /* an actor in C: what its life has; see embed/native.c */
    pr_queue stash;                /* see stash.c */
    uint32_t stashed;
    struct pr_trace *trace;
    uint64_t timeslice_ns;         /* how long a handler may run before others have their turn; 0: no limit. Fixed at birth */
    uint32_t below_count, below_capacity;
    struct pr_behaviour **below;   /* after `become`: those below the present behaviour, the spawned one first */
} pr_extra;

struct pr_actor {
    /* --- senders' line */
    _Atomic uint64_t id;           /* 0 while free */
    pr_stack mailbox;              /* while floating; closed before birth, after pinning and after the end */
    pr_stack control;
    _Atomic uint8_t sched;         /* enum pr_sched */
    _Atomic uint8_t gate;          /* enum pr_gate; written by the owner, and at birth; relaxed */
    _Atomic uint16_t home;
    uint8_t kind, restart;
    _Atomic uint8_t named;         /* enum pr_naming: what it has had; seq_cst with `id`, see die() */
    _Atomic uint8_t dispatcher;    /* its index, fixed at birth; relaxed */
    const pr_ops *ops;
    _Atomic(pr_behaviour *) behaviour; /* a reference is held; relaxed, see pr_actor_behaviour_name */
    _Atomic uint64_t parent;       /* 0: the root; relaxed */
    _Atomic uint64_t asking;       /* whom it waits for: the deadlock search reads it; see deadlock.c */

    /* --- owner's line */
    pr_queue user;
    pr_queue orders;               /* control messages */
    pr_actor *ready_next;
    pr_wait *wait;
    _Atomic uint64_t handled;

    /* --- owner's, colder; family */
    _Atomic uint32_t depth;
    uint16_t flags;                /* enum pr_flag */
    _Atomic uint8_t state;         /* enum pr_state */
    uint8_t in_ready;
    uint32_t self;                 /* the language's handle on `self` */
    _Atomic uint32_t restarts;
    pr_msg *start_args;            /* kept for the next life */
    union {
        _Atomic(pr_extra *) extra; /* the owner's; a parent may look at what its end says is fixed */
        struct pr_port *port;      /* of a port, for good */
    };
    pr_actor *next_free;           /* free list; or the parent worker's list of ended children */
    _Atomic uint64_t born_ms;      /* monotonic milliseconds; relaxed */
    uint32_t slot, generation;     /* the generation of the present or last id */
    /* Links are slot + 1, 0: none. */
    _Atomic uint32_t first_child, children, next_sibling, previous_sibling;
};

_Static_assert(sizeof(pr_actor) == 192, "three cache lines: a million of them are held to 512 bytes each, all told");

/* On the owner: whether its handlers are parked, see parked.c. */
static inline bool pr_actor_reentrant(const pr_actor *a)
{
    pr_extra *extra = a->extra;
    return extra && extra->parked.most > 0;
}

static inline uint8_t pr_actor_held(const pr_actor *a)
{
    pr_extra *extra = a->extra;
    return extra ? extra->held : PR_HELD_NOT;
}

/* Its end cannot go on now: a message or its children will call it again. */
static inline bool pr_actor_end_waits(const pr_actor *a)
{
    return ((a->flags & PR_FLAG_CHILDREN) && atomic_load_explicit(&a->children, memory_order_relaxed) > 0) ||
           (pr_actor_held(a) != PR_HELD_NOT && pr_actor_held(a) != PR_HELD_OVER);
}

/* The records. Lookups from any thread; allocation by worker or under the lock. */
typedef struct pr_actor_table {
    pthread_mutex_t lock;                    /* guards growth and the shared free list */
    _Atomic(pr_actor *) slabs[PR_SLABS];     /* release at growth, acquire at lookup */
    _Atomic uint32_t slots;                  /* slots that exist */
    uint32_t max;                            /* a limit on them */
    pr_actor *free;
    uint32_t first_generation;               /* what the ids of this runtime start with ... */
    _Atomic uint32_t last_generation;        /* ... and what its ended actors have reached */
} pr_actor_table;

typedef struct pr_actor_cache {              /* one per worker, owner only */
    pr_actor *free;
    uint32_t count;
} pr_actor_cache;

int pr_actor_table_init(pr_actor_table *t, uint32_t first_generation);
void pr_actor_table_destroy(pr_actor_table *t);

/* A free record with its next id in *id (not yet published in the record); NULL when memory or slots run
 * out. cache: the calling worker's, or NULL elsewhere. */
pr_actor *pr_actor_alloc(pr_actor_table *t, pr_actor_cache *cache, uint64_t *id);
/* Ids up to this generation have been given out: those of the next runtime start above. Any thread. */
void pr_actor_note_generation(pr_actor_table *t, uint32_t generation);
/* Gives the record back. Its id must have been cleared and its stacks closed. */
void pr_actor_free(pr_actor_table *t, pr_actor_cache *cache, pr_actor *a);

/* Where in its slab a slot's record lies. In the first slab not in the order of slots: actors that were made together often have
 * their turns in that order, over and over, and processors, which find equal strides from page to page, fetch what would come
 * next: the records of another worker's actors, who then waits for them at each turn. (One pair of actors made after eight
 * that play on the other worker: 170 to 370 ns a message, 33 with this.) The others are in order: so many actors are not in
 * the caches anyway, and fetching ahead is what they live by (100,000 told in turn: 90 ns, and 265 with this). */
static inline uint32_t pr_actor_place(uint32_t slot)
{
    if (slot >= PR_SLAB)
        return slot & (PR_SLAB - 1);
    uint32_t place = slot * 709 & (PR_SLAB - 1);   /* odd: none comes twice, and the shift can be undone */
    return place ^ place >> PR_SLAB_BITS / 2;
}

/* The record of a slot, whoever lives there now; NULL when there never was one. */
static inline pr_actor *pr_actor_slot(pr_actor_table *t, uint32_t slot)
{
    pr_actor *slab = atomic_load_explicit(&t->slabs[slot >> PR_SLAB_BITS], memory_order_acquire);
    return slab ? &slab[pr_actor_place(slot)] : NULL;
}

/* The same for a slot that is known to exist: of a relative, say. */
static inline pr_actor *pr_actor_at(pr_actor_table *t, uint32_t slot)
{
    return &atomic_load_explicit(&t->slabs[slot >> PR_SLAB_BITS], memory_order_acquire)[pr_actor_place(slot)];
}

/* The record of a living actor, or NULL. It may end at any moment unless the caller owns it. */
static inline pr_actor *pr_actor_find(pr_actor_table *t, uint64_t id)
{
    if (!pr_id_valid(id))
        return NULL;
    pr_actor *a = pr_actor_slot(t, pr_id_slot(id));
    /* acquire pairs with the release at birth: the fields behind an id are those of its bearer. */
    return a && atomic_load_explicit(&a->id, memory_order_acquire) == id ? a : NULL;
}

/* The floating side of the state machine. True: the caller must put it into a ready queue. Any thread.
 * seq_cst: pairs with pr_actor_idle; see mailbox.h. Reads first: most sends find it scheduled already. */
static inline bool pr_actor_try_schedule(pr_actor *a)
{
    uint8_t idle = PR_IDLE;
    return atomic_load_explicit(&a->sched, memory_order_seq_cst) == PR_IDLE &&
           atomic_compare_exchange_strong_explicit(&a->sched, &idle, PR_SCHEDULED, memory_order_seq_cst,
                                                   memory_order_relaxed);
}

/* Adds to a counter that has one writer. */
#define PR_BUMP(counter, by) \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (by), \
                          memory_order_relaxed)
#define PR_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)
#define PR_SET(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

#endif
