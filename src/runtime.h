/* A runtime: its workers and what they share. Several may live in one process; there are no globals.
 *
 * Threads: functions marked "any thread" may be called from anywhere while the runtime lives; `w` is then
 * the calling worker, or NULL on a thread that is none. */
#ifndef PR_RUNTIME_H
#define PR_RUNTIME_H

#include "actor.h"
#include "behaviour.h"
#include "share.h"
#include "box.h"
#include "dispatcher.h"
#include "events.h"
#include "groups.h"
#include "log.h"
#include "parker.h"
#include "ready_queue.h"
#include "registry.h"

enum pr_dead_reason { PR_DEAD_NOBODY, PR_DEAD_STOPPING, PR_DEAD_UNHANDLED, PR_DEAD_SHUTDOWN,
    PR_DEAD_FULL /* no sender to refuse it to: a timer's */, PR_DEAD_DROPPED_NEWEST, PR_DEAD_DROPPED_OLDEST, PR_DEAD_REASONS };

/* One writer each (a worker), read by anyone as a snapshot. `sent` are accepted tells and asks: each of
 * them ends as handled, as a dead letter or as cancelled (a timer's). */
typedef struct pr_counters {
    _Atomic uint64_t sent, handled, rejected, dead[PR_DEAD_REASONS], cancelled, replies, late_replies;
    _Atomic uint64_t spawned, ended, failures, restarts;
    _Atomic uint64_t turns, steals, parks, far /* messages to other workers */, wakes;
} pr_counters;

typedef struct pr_config {
    uint32_t workers;            /* of the default dispatcher; 1 or more */
    uint32_t throughput;         /* its messages a turn */
    /* The others. pr_config_init has put "blocking" there, with 4 workers that look for another actor after each message. */
    pr_dispatcher_config dispatchers[PR_DISPATCHERS - 1];
    uint32_t dispatcher_count;
    uint32_t spin;               /* looks before parking, at most */
    double ask_timeout;          /* seconds */
    enum pr_log_level log_level;
    pr_log_sink log_sink;
    void *log_context;
    uint32_t first_generation;   /* ids start here: above those of an earlier runtime in this process */
    void *context;               /* for the callbacks below */
    /* On each worker's thread: opens its language state into w->state; 0 on success, else an error text in
     * `error`. close_worker undoes it. idle_worker runs before parking, and before a turn when it has set
     * chores (collect garbage, run finalizers); returns whether it has more to do. All may be NULL. */
    int (*open_worker)(pr_worker *w, char *error, size_t cap);
    void (*close_worker)(pr_worker *w);
    bool (*idle_worker)(pr_worker *w);
    /* Of a message in a bounded mailbox, by the function that its actor was spawned with. On the owner, between turns
     * or in one. NULL: all are equal. */
    double (*priority)(pr_worker *w, pr_behaviour *function, const pr_msg *m);
    /* For hosts in C; see embed/. */
    struct pr_memory *memory;    /* NULL, or where all of it comes from; threads that call have entered it */
    void *host;
    const void *lua_host;        /* what the border goes by: a pierrot_config, or NULL */
    /* A failure, before anything follows from it; failure NULL: no memory to say how. */
    void (*failed)(pr_worker *w, pr_actor *a, const pr_msg *failure, const char *during);
    /* The behaviour in C of that name, with a reference for the caller, or NULL. */
    pr_behaviour *(*native)(pr_runtime *rt, const char *name, size_t len);
    const pr_ops *native_ops;
    uint64_t secret[2];          /* what nobody outside can guess */
    /* Tick mode: no threads; see tick.h. */
    bool ticks, seeded;
    uint8_t tick_clock;          /* enum pr_clock */
    struct pr_explore *explore;  /* NULL, or a test drives: see explore.h; outlives the runtime */
    uint64_t seed;
    void (*enter_worker)(pr_worker *w);   /* the calling thread is that worker now; NULL: none. May be NULL */
    void (*trace)(void *context, const char *line, size_t size);
    void *trace_context;
    uint32_t actor_limit;        /* 0: none */
    uint32_t mailbox_limit;      /* of actors without a box of their own; 0: none */
    size_t message_limit;        /* payload bytes; 0: none */
} pr_config;

typedef struct pr_watchdog {     /* see watchdog.h */
    pthread_mutex_t lock;        /* guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, stop;
    bool sleeps;                 /* until somebody wants it again */
    void *seen;                  /* the thread's own, by worker */
} pr_watchdog;

struct pr_runtime {
    pr_config config;
    pr_log log;
    pr_actor_table actors;
    pr_registry names;
    pr_boxes boxes;
    pr_groups groups;
    pr_events events;
    pr_watchdog watchdog;
    pr_behaviours behaviours;
    pr_shares shares;
    pr_depot depot;
    pr_dispatcher *dispatchers;  /* the default one first; fixed, with their workers, before any thread runs */
    uint32_t dispatcher_count;
    pr_worker *workers;          /* of all dispatchers, one after the other */
    uint32_t worker_count;
    struct pr_tick *tick;         /* NULL: workers have threads */
    struct pr_control_socket *control; /* or NULL; set before the dispatcher "prompts" has threads */
    uint64_t started_ns;

    pthread_mutex_t root_lock;    /* the root's children, free ports; taken before the locks of parkers, the global queue and the depot */
    _Atomic uint32_t root_first; /* slot + 1 of the youngest; relaxed, under the lock */
    uint32_t root_children;
    struct pr_port *free_ports, *old_ports; /* closed ports, to use again and used up */

    _Atomic int stopping;         /* shutdown has begun; under root_lock for births at the root */
    _Atomic int exit;             /* all actors have ended: workers leave. release/acquire */
    /* Whose end lets pr_runtime_wait_quiet return, 0: nobody's. seq_cst, as is the end of an id: either who sets it finds
     * that the actor has ended, or who ends finds it set. */
    _Atomic uint64_t holder;
    bool holder_stops;            /* ... and begins the shutdown; written before `holder` */
    _Atomic int script_failed;
    _Atomic uint32_t living;      /* actors, counted only where there is an actor_limit; relaxed */
    _Atomic uint32_t monitors;    /* numbers given out; relaxed */
    _Atomic uint32_t active;      /* workers that something could still happen on; see worker.c */

    pthread_mutex_t end_lock;     /* guards what follows, for threads that wait for an end */
    pthread_cond_t end_changed;
    uint32_t threads_alive;

    pr_counters outside;          /* written with read-modify-write: many threads */
};

/* 0: log level etc. in place; a runtime is made by new and destroyed by free, started and shut down once. */
void pr_config_init(pr_config *c);
/* NULL and a text in `error` when memory or threads run out or a worker cannot open its state. */
pr_runtime *pr_runtime_start(const pr_config *c, char *error, size_t cap);
/* *why, after a failure: PR_NOMEM, PR_BUSY (no threads), PR_FAILURE (open_worker). */
pr_runtime *pr_runtime_start_why(const pr_config *c, char *error, size_t cap, pr_status *why);
/* Asks every actor to end. Returns at once. Any thread, a handler too. */
void pr_runtime_stop(pr_runtime *rt, pr_worker *w);
/* On a thread that is no worker, at most once a runtime: while that actor lives, something can still happen. Once it has
 * ended, in whatever way, the shutdown begins (stops) or quiet is waited for as ever. */
void pr_runtime_hold(pr_runtime *rt, uint64_t id, bool stops);
void pr_runtime_release(pr_runtime *rt, pr_worker *w, uint64_t id);   /* it has ended */
/* Waits for that end; from `until_ns` on goes over what is left, which takes another half second at most.
 * PR_TIMEOUT: workers are still inside handlers; a report has been logged, and the runtime must not be freed.
 * Not from a worker. */
pr_status pr_runtime_join(pr_runtime *rt, uint64_t until_ns);
/* After PR_OK of join, when no other thread uses it any more. */
void pr_runtime_free(pr_runtime *rt);
/* Waits until nothing is left that could happen, or shutdown has begun. Not from a worker. */
void pr_runtime_wait_quiet(pr_runtime *rt);
bool pr_runtime_wait_quiet_until(pr_runtime *rt, uint64_t until_ns);   /* false: the time came */
void pr_runtime_counters(pr_runtime *rt, pr_counters *sum);

/* Time as actors see it. Any thread. */
uint64_t pr_tick_clock_ns(const struct pr_tick *t);
static inline uint64_t pr_clock_ns(const pr_runtime *rt) { return rt->tick ? pr_tick_clock_ns(rt->tick) : pr_now_ns(); }
/* Orders an actor to end, as the shutdown does. */
void pr_runtime_order(pr_runtime *rt, pr_worker *w, uint8_t kind, pr_actor *a);
/* All actors have ended: workers leave. */
void pr_workers_leave(pr_runtime *rt);

/* --- delivery.c: any thread */

/* Sends `m` (target, sender, kind set) in the user lane. PR_OK: it was accepted, and is the runtime's.
 * Otherwise PR_DEAD or PR_STOPPING, and it is still the caller's. Counts. */
pr_status pr_send(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* The same for one that is not for an actor near by: see pr_send_near. */
pr_status pr_send_far(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* The same in the control lane. */
pr_status pr_control(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* Sends a REPLY or ERROR to an asker. Consumes `m`, always. */
void pr_reply(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* Answers the ask in `m`, if it is one, with an error of that kind; clears m->ask. */
void pr_reply_error(pr_runtime *rt, pr_worker *w, pr_msg *m, const char *kind, const char *text);
/* The handler that `target` is in is to end with an error: at once if it waits, else at its worker's next look at
 * pr_worker.interrupt, where it has one. Nothing happens to any other handler of it. */
void pr_actor_interrupt(pr_runtime *rt, pr_worker *w, uint64_t target);
const char *pr_dead_reason_name(enum pr_dead_reason reason);
enum pr_dead_reason pr_dead_reason_named(const char *name);   /* NOBODY for what is none */
/* Counts, answers a pending ask, frees; of other kinds than USER: pr_control_undelivered. */
void pr_dead_letter(pr_runtime *rt, pr_worker *w, pr_msg *m, enum pr_dead_reason reason);
/* STOP, KILL or DRAIN to an actor; `reason` is a message whose payload is taken (consumed), or NULL.
 * ordered: by its parent or the shutdown. */
pr_status pr_order(pr_runtime *rt, pr_worker *w, uint64_t target, uint8_t kind, pr_msg *reason, bool ordered);

/* --- deadlock.c: any thread */

/* On the owner: the actor, whose `wait` is there, begins to wait for `target`. Whether that waits, directly or through
 * others, for this actor. */
bool pr_waits_for(pr_worker *w, pr_actor *a, uint64_t target);
/* On the owner: that wait is over. */
void pr_waits_no_more(pr_actor *a);
/* The ask of `asker` is answered; or it is somebody else's to answer now (0: anybody's). Said before that is done, so
 * that the search sees no edge that has gone. */
void pr_asker_is_answered(pr_runtime *rt, uint64_t asker, uint64_t by);
void pr_asker_waits_for(pr_runtime *rt, uint64_t asker, uint64_t old, uint64_t whom);
/* The cycle, in words. */
void pr_deadlock_describe(pr_runtime *rt, uint64_t self, uint64_t target, char *buf, size_t cap);

/* --- spawn.c */

typedef struct pr_spawn {
    const pr_ops *ops;
    pr_behaviour *behaviour;     /* the reference is taken on success */
    const char *name;            /* NULL: none */
    size_t name_len;
    uint8_t dispatcher;          /* its index; 0: the default one, whoever spawns */
    uint32_t worker;             /* 0: any; else 1 to the dispatcher's count */
    uint8_t restart;
    pr_box *box;                 /* NULL, or its mailbox; taken on success */
    uint16_t flags;              /* FLOATS */
    bool script;                 /* PR_KIND_SCRIPT */
    bool call;                   /* PR_KIND_CALL; no worker */
    bool at_root;                /* the root's child, whoever spawns */
    pr_msg *args;                /* NULL or start's arguments; taken on success */
    pr_msg *ties;                /* nodes for the actor's table (see ties.h), linked by next; taken on success */
    uint32_t reentrant;          /* 0: not; how many of its handlers may be under way at once: see parked.c */
    uint64_t timeslice_ns;       /* 0: no limit */
    bool has_shutdown;           /* shutdown_ms is meant; else it is PR_SHUTDOWN_MS */
    uint64_t shutdown_ms;
} pr_spawn;

enum { PR_SHUTDOWN_MS = 5000 };

/* Any thread; `w`: the parent is the actor in hand there, unless that floats; otherwise, and with at_root, the root.
 * PR_OK and *id; PR_EXISTS and the holder in *id; PR_STOPPING; PR_LIMIT; PR_NOMEM; PR_FAILURE: there is no such
 * dispatcher or worker, or the dispatcher's threads cannot be started, as the log says then. The first birth on a
 * dispatcher other than the default one waits for its threads. */
pr_status pr_actor_spawn(pr_runtime *rt, pr_worker *w, const pr_spawn *s, uint64_t *id);

/* The same on a worker for its actor in hand, of most births: without anything out of the ordinary. The reference and `args` are
 * taken on success; 0: nothing has happened, and the other way finds out why. */
uint64_t pr_actor_spawn_plain(struct pr_worker *w, const pr_ops *ops, pr_behaviour *behaviour, pr_msg *args);

/* --- naming.c */

/* Any thread. PR_EXISTS and *holder, PR_DEAD, PR_NOMEM. */
pr_status pr_name_register(pr_runtime *rt, const char *name, size_t len, uint64_t id, uint64_t *holder);
/* Any thread. PR_EXISTS: it is in there already; PR_DEAD, PR_NOMEM. */
pr_status pr_group_join(pr_runtime *rt, const char *name, size_t len, uint64_t id);
/* Its end, after the id has been cleared (seq_cst): it leaves the registry, its groups and topics. */
void pr_actor_unname(pr_runtime *rt, pr_actor *a, uint64_t id);
/* Messages in its mailbox. Any thread: a snapshot. */
uint32_t pr_actor_depth(pr_runtime *rt, pr_actor *a);
/* The name of its behaviour; "dead" when there is no such actor. Any thread. */
size_t pr_actor_behaviour_name(pr_runtime *rt, uint64_t id, char *buf, size_t cap);
/* The version of it that the actor has, as text, empty where there is none; whether it is a number. Any thread. */
bool pr_actor_version(pr_runtime *rt, uint64_t id, char *buf, size_t cap);
/* Writes what people call the actor: behaviour, name and number. Any thread. */
size_t pr_actor_describe(pr_runtime *rt, uint64_t id, char *buf, size_t cap);

#define PR_COUNT(rt, w, field, n)                                                              \
    do {                                                                                       \
        if (w)                                                                                 \
            PR_BUMP((w)->counters.field, (n));                                                 \
        else                                                                                   \
            atomic_fetch_add_explicit(&(rt)->outside.field, (n), memory_order_relaxed);        \
    } while (0)

#endif
