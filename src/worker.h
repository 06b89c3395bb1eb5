/* A worker: one thread, one language state, the actors pinned to it.
 *
 * Everything below the first block is touched by its own thread alone. */
#ifndef PR_WORKER_H
#define PR_WORKER_H

#include "box.h"
#include "inbox.h"
#include "parker.h"
#include "runtime.h"

/* What a handler may send in one turn before it stands back for those it has sent to: more would only pile up, and what
 * has piled up leaves the caches before it is handled. A message costs the more of it, the more are queued already where
 * it goes (as in Erlang, whose sends cost reductions, and more of them where the queue is long): 350 or so to one actor,
 * 4096 to many. A birth counts as much as 31 messages: half as many new ones as the ring has places, each told something, and they
 * begin, in the caches still. */
enum { PR_BURST = 4096, PR_BURST_DEPTH = 16, PR_BURST_MOST = 127, PR_BURST_BIRTH = 31 };

/* The timers in this worker's wheel by whom they send to: chains, by the slot of its id. */
typedef struct pr_timer_targets {
    struct pr_user_timer **chains;            /* mask + 1 of them, or NULL */
    uint32_t mask, count;
} pr_timer_targets;

struct pr_worker {
    /* --- others write here */
    pr_inbox inbox;                           /* user messages for pinned actors, from everybody else */
    _Alignas(64) pr_stack control;            /* control messages, drained first */
    _Atomic(pr_actor *) ended;                /* ended children of parents here, linked by next_free */
    pr_parker parker;
    _Atomic uint64_t woken_ns;                /* when it was last woken, by the waker's clock; relaxed: a hint */
    _Atomic uint64_t interrupt;               /* whose handler is to end, 0: nobody's; relaxed, a PR_MSG_INTERRUPT follows */
    /* --- others read here */
    _Alignas(64) _Atomic int32_t processor;   /* on which its thread was lately, -1: unknown. Relaxed: a hint. Written when it changes,
                                                 for those who have nothing to do look here often. See sleep.c */
    _Alignas(64) pr_ring ring;
    pr_spill spill;                           /* what the ring had no room for */
    _Alignas(64) _Atomic uint64_t turn;       /* counts turns: tells a thief whether the owner is stuck in one */
    _Atomic uint64_t current;                 /* id of the actor whose turn it is, 0: none */
    _Atomic uint64_t current_since_ms;
    pr_counters counters;
    _Atomic uint64_t lua_bytes;               /* what the state holds, as of the last idle moment */
    _Atomic uint32_t collections;             /* cycles of its collector that found what was dead; relaxed */
    _Atomic uint32_t residents;               /* actors that stay here, as far as it counts them itself. See placement.c */
    _Atomic uint32_t sent;                    /* ... and those that others have sent here */
    _Atomic uint64_t brief_until_ms;          /* its new actors end as soon as they begin: until then its ring is left to it. Relaxed */

    /* --- the owner's */
    _Alignas(64) pr_runtime *rt;
    pr_dispatcher *dispatcher;
    uint32_t index;                           /* in runtime.workers */
    uint32_t throughput;                      /* the dispatcher's */
    uint32_t tick;
    pr_actor *ready_head, *ready_tail;        /* pinned actors with something to do ... */
    pr_actor *ready_front;                    /* ... and the last of those with an order, or NULL */
    pr_actor *running;                        /* whose turn it is */
    uint32_t left;                            /* what is left of the budget of its turn */
    uint32_t kept;                            /* actors that have begun here */
    uint64_t ended_then, judged_ns;           /* counters.ended when it was last looked whether they are brief, and when */
    uint32_t look_in;                         /* takes without anything until the next look at what others have */
    uint32_t ring_first;                      /* takes that look into the ring first: who yields lets new actors start */
    int32_t burst;                            /* what is left of PR_BURST; below 1, the language lets others have a turn */
    pr_msg *hand;                             /* the message in hand; `next` leads from one taken by receive to the handler's own */
    pr_wait *resumed;                         /* while ops resume: what the handler waited for */
    pr_msg *failure;                          /* set by ops with PR_FAILED: an ERROR payload, NULL: no memory for it */
    uint64_t far_taken, far_handled, far_turn; /* taken from the inbox the last time; `handled` and `turn` then */
    struct pr_worker *stuck;                  /* when waiting for room in an inbox was of no use: whose, and its turn then */
    uint64_t stuck_turn, stood_back;          /* ... and `handled` when it last stood back */
    pr_msg_pool pool;
    pr_actor_cache actors;
    pr_behaviour *spare_of;                   /* what its actors here have left behind ... */
    uint32_t spares;                          /* ... so many references, for the next ones; see pr_worker_drop */
    pr_wheel wheel;
    struct pr_user_timer *timers;             /* set from outside, kept here */
    pr_timer_targets targets;
    uint64_t random;                          /* state of pr_worker_random */
    uint64_t now_ms;                          /* refreshed as turns go by */
    uint64_t fired_ms;                        /* now_ms when the wheel was last looked at */
    uint32_t clock_every, clock_in;           /* messages between looks at the clock, and until the next */
    pr_wait *free_waits;
    uint32_t next_ask;
    pr_actor *popped;                         /* from its ring, to be run next, before another one is popped; or NULL */
    uint32_t steal_from;
    uint32_t spin, spin_most;                 /* looks before parking, as it has paid lately, and at most */
    bool woke;                                /* it has woken another worker since it last looked for long */
    void *state;                              /* the language's */
    pthread_t thread;
    bool has_thread;
    bool floats;                              /* the turn is a floating actor's */
    uint8_t chores;                           /* PR_CHORES: idle_worker is wanted before the next turn; PR_TICKS */
    /* In tick mode; see tick.h. */
    bool opened;
    bool cut;                                 /* the turn of `running` is paused, with `left_then` of its budget left */
    uint32_t left_then;
    uint64_t turn_of;                         /* whose turn it was last */
    bool looted;                              /* took from a surplus: see pass_on */
};

/* The worker that the calling thread is; NULL on any other. */
extern __thread pr_worker *pr_worker_here __attribute__((tls_model("initial-exec")));

enum { PR_CHORES = 1, PR_TICKS = 2 /* there is more to do after each turn than to take the next one */ };

void *pr_worker_main(void *worker);
/* Of tick mode: one turn, or the rest of one that was cut. False: there is nothing to do. */
bool pr_worker_tick(pr_worker *w);
/* What a sleeper looks at last. */
bool pr_worker_has_work(pr_worker *w);
/* Nobody is left to handle what still came in; the inboxes are closed, later senders are told so. */
void pr_worker_close_inboxes(pr_worker *w);
int pr_worker_init(pr_worker *w, pr_runtime *rt, pr_dispatcher *d, uint32_t index);
void pr_worker_destroy(pr_worker *w);

/* --- sleep.c */

/* Makes sure that `w` looks at its queues. Any thread, after its work is visible there. */
bool pr_worker_wake(pr_worker *w);   /* true: it slept */
/* One that sleeps, if any does, but not `self`, which is of that dispatcher, or NULL. */
void pr_wake_some(pr_dispatcher *d, const pr_worker *self);
/* Falls asleep until there is something to do. Returns a floating actor to run at once, or NULL: look again. */
pr_actor *pr_worker_sleep(pr_worker *w);
enum { PR_SPIN_LEAST = 64 /* looks before that */ };
/* On which processor the thread is, -1: nobody knows. */
int32_t pr_worker_note_processor(pr_worker *w);
/* Whether another worker, which is awake, was there lately: then to look again and again is of
 * no use, for nothing comes of it that the other one could do meanwhile. */
bool pr_worker_shares_processor(pr_worker *w);

/* --- placement.c */

enum { PR_STEAL_MIN = 3 /* a surplus: a pair that was just spawned to talk to each other is none */ };
/* How many of the actors in the victim's ring are there for others. now_ms: the caller's. */
uint32_t pr_worker_surplus(const pr_worker *victim, uint64_t now_ms);
/* How many of these `count` actors of the victim `w` may take. */
uint32_t pr_worker_share_of(const pr_worker *w, const pr_worker *victim, uint32_t count);
/* Takes some of another worker's new actors and returns one of them; NULL: there are none, or none for this one. `starved`:
 * from whoever has any, and whatever its share. */
pr_actor *pr_worker_steal(pr_worker *w, bool starved);
/* Some of its new actors, whoever has how many, if there are any: one of them. */
pr_actor *pr_worker_take_from(pr_worker *w, pr_worker *victim);
/* After that: whoever else sleeps is told of the rest. */
void pr_worker_pass_on(pr_worker *w);
/* Before the first turn of a Lua actor, outside the default dispatcher. True: another worker gets it. */
bool pr_worker_hand_over(pr_worker *w, pr_actor *a);
/* Puts a floating actor that has just become SCHEDULED in line. Any thread. */
void pr_make_ready(pr_runtime *rt, pr_worker *w, pr_actor *a);
/* Puts a pinned actor of this worker in line, unless it is running: its turn's end looks at everything. The line is
 * linked both ways: backwards by next_free, which a living actor has no other use for. */
static inline void pr_line_up(pr_worker *w, pr_actor *a)
{
    if (a == w->running || a->in_ready)
        return;
    if (!(a->flags & (PR_FLAG_ENDING | PR_FLAG_STOP)))
        PR_SET(a->state, PR_STATE_SCHEDULED);
    a->in_ready = 1;
    a->next_free = w->ready_tail;
    a->ready_next = NULL;
    if (a->next_free)
        a->next_free->ready_next = a;
    else
        w->ready_head = a;
    w->ready_tail = a;
}
/* The same; in front for control. */
void pr_make_ready_pinned(pr_worker *w, pr_actor *a, bool front);
/* Most messages: a user message, from one pinned actor, whose turn it is, to another of the same worker; its target is valid.
 * False: it is not that simple, and pr_send_far, or pr_send, sends it. Relaxed: only this thread writes what is read here of such a
 * target; of any other, a match cannot come about. In line: a call costs a fifth of it. */
static inline __attribute__((always_inline)) bool pr_send_near(pr_worker *w, pr_msg *m)
{
    pr_actor *a = pr_actor_slot(&w->rt->actors, pr_id_slot(m->target));
    if (!a || PR_GET(a->home) != w->index + 1 || PR_GET(a->id) != m->target || PR_GET(a->gate) ||
        a->flags & (PR_FLAG_SUSPENDED | PR_FLAG_ENDING))
        return false;
    pr_queue_push(&a->user, m);
    uint32_t depth = PR_GET(a->depth) + 1, queued = depth / PR_BURST_DEPTH;
    PR_SET(a->depth, depth);
    PR_BUMP(w->counters.sent, 1);
    w->burst -= 1 + (int32_t)(queued < PR_BURST_MOST ? queued : PR_BURST_MOST);
    pr_line_up(w, a);
    return true;
}
/* Reads the clock. */
void pr_worker_clock(pr_worker *w);

/* Not for secrets. */
static inline uint64_t pr_worker_random(pr_worker *w)
{
    uint64_t z = (w->random += UINT64_C(0x9e3779b97f4a7c15));   /* splitmix64 (S. Vigna) */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Births and ends of actors that stay on `w`. Relaxed: for choosing among workers, ordered with nothing. The owner's own are
 * a plain count, which may be below 0 for those that were sent. */
static inline uint32_t pr_worker_residents(const pr_worker *w) { return PR_GET(w->residents) + PR_GET(w->sent); }
static inline void pr_worker_sent_resident(pr_worker *to) { atomic_fetch_add_explicit(&to->sent, 1, memory_order_relaxed); }
/* References to the behaviours of actors. Their count is one that all workers write, and a life takes and drops one: so those
 * dropped are kept for the next lives here, some of one behaviour, until the worker sleeps. */
static inline void pr_worker_hold(pr_worker *w, pr_behaviour *b)
{
    if (w->spares > 0 && w->spare_of == b)
        w->spares--;
    else
        pr_behaviour_hold(b);
}
static inline void pr_worker_drop(pr_worker *w, pr_behaviour *b)
{
    enum { MOST = 256 };
    if (!w->rt->tick && (w->spares == 0 || (w->spare_of == b && w->spares < MOST))) {
        w->spare_of = b;
        w->spares++;
    } else {
        pr_behaviour_drop(&w->rt->behaviours, b);
    }
}
static inline void pr_worker_drop_spares(pr_worker *w)
{
    if (w->spares > 0)
        pr_behaviour_drop_many(&w->rt->behaviours, w->spare_of, w->spares);
    w->spares = 0;
}
/* A Lua actor that still floats, sent here by a WAKE: from now on it is this worker's. */
void pr_worker_keep(pr_worker *w, pr_actor *a);

/* delivery.c: on the owner, what came in through its inboxes. */
void pr_deliver(pr_worker *w, pr_msg *m);
void pr_deliver_control(pr_worker *w, pr_msg *m);

/* For ops, inside `receive` or `start`: ends the message or the start in hand if nothing is left to do for it, the actor too if it
 * stops and nobody is waited for, and takes the next message in hand: of the same actor, or of the next in line (`running` says
 * whose). So ops can go from message to message, and from life to life, without coming back to the worker's loop.
 * NULL: ops return PR_DONE now, which finishes what may still be in hand; or, with *born, `running` is about to start, and
 * ops may call pr_actor_starts and run its `start`, in place of returning. Calls nothing of the language but
 * `ends_silently`, `stop` and `release`. */
pr_msg *pr_worker_next_message(pr_worker *w, bool *born);

/* --- an actor's life: see life.h */
void pr_actor_orders(pr_worker *w, pr_actor *a);            /* handles what is in its control lane */
void pr_actor_start(pr_worker *w, pr_actor *a);
void pr_actor_starts(pr_worker *w, pr_actor *a);            /* from here on it is in `start`; see pr_worker_next_message */
void pr_actor_handle(pr_worker *w, pr_actor *a, pr_msg *m);
/* Takes a user message of that actor in hand. */
static inline void pr_hand_take(pr_worker *w, pr_actor *a, pr_msg *m)
{
    m->next = NULL;
    w->hand = m;
    /* Counted before the reply is out: who has it finds it counted. */
    PR_BUMP(a->handled, 1);
    PR_BUMP(w->counters.handled, 1);
}
void pr_actor_resume(pr_worker *w, pr_actor *a);
void pr_actor_ending(pr_worker *w, pr_actor *a);            /* goes on with its end, if it can */
void pr_life_ends_at_once(pr_worker *w, pr_actor *a);       /* nobody waits, nothing is owed, it has no extra */
void pr_child_ended(pr_worker *w, pr_actor *child);         /* on the parent's worker */
pr_extra *pr_actor_extra(pr_actor *a);                      /* NULL: no memory */
void pr_actor_retry(pr_worker *w, pr_actor *a, uint64_t ms); /* its end goes on then: its children are told again */

/* delivery.c: there is something in its mailbox that was not there before. */
void pr_actor_has_message(pr_worker *w, pr_actor *a);

/* stash.c */
pr_status pr_stash(pr_worker *w, pr_actor *a, pr_msg *hand); /* keeps a copy; the ask goes along. PR_OK, PR_FULL, PR_NOMEM */
uint32_t pr_unstash(pr_worker *w, pr_actor *a);             /* puts all back in front; how many */

/* Acts on STOP, KILL, or a reached DRAIN. Consumes `m`. */
void pr_actor_told_to_stop(pr_worker *w, pr_actor *a, pr_msg *m);
/* --- suspension.c */

/* Suspends the handler in hand, for `ms` milliseconds at most (UINT64_MAX: no limit), never less; ops then return PR_SUSPENDED. But
 * for a sleep, the time begins when this worker looks at the clock next. NULL: no memory. */
pr_wait *pr_actor_wait(pr_worker *w, uint8_t kind, uint64_t ms);
/* Gives it back to the pool. */
void pr_wait_free(pr_worker *w, pr_wait *wait);
/* A message of it that waits for room in a mailbox does not any more: before the handler goes on. */
void pr_wait_unbox(pr_worker *w, pr_wait *wait);
/* Takes that back: the handler does not suspend after all. */
void pr_actor_unwait(pr_worker *w, pr_actor *a);
/* Drops a suspended handler for good. */
void pr_actor_abandon(pr_worker *w, pr_actor *a);
/* What it waited for has come: its handler can go on. */
void pr_wait_satisfy(pr_worker *w, pr_wait *wait);
/* The same for whoever waits in `receive`, after a message has come. */
void pr_actor_receives(pr_worker *w, pr_actor *a);
/* Answers the asks in hand with a copy of this ERROR payload, as far as there is memory. */
void pr_hand_failed(pr_worker *w, pr_actor *a, const pr_msg *error);
/* Ends the message in hand (those taken by `receive` too), an unanswered ask gets that error. */
void pr_hand_finish(pr_worker *w, const char *kind, const char *text);

/* --- parked.c: of reentrant actors only */

void pr_park(pr_actor *a);                                   /* a->wait joins those parked */
pr_wait *pr_unpark(pr_actor *a);                             /* the next that can go on: there is one */
void pr_parked_flags(pr_actor *a);                           /* SUSPENDED, RESUME and RECEIVING, from who is parked */
void pr_parked_ready(pr_wait *wait);
bool pr_parked_lets_message(pr_actor *a);                    /* whether a message comes before the next that can go on */
pr_wait *pr_parked_ask(pr_actor *a, uint32_t ask);           /* who waits for this reply; NULL */
void pr_parked_receive(pr_worker *w, pr_actor *a);           /* satisfies those in `receive` */
/* With one more that waits for `target`, it would take no message, and all wait for that one. */
bool pr_parked_all_wait_for(const pr_actor *a, uint64_t target);
/* Drops them, or those in `receive` alone. What they have in hand is answered with `error`; NULL: "dead". */
void pr_parked_drop(pr_worker *w, pr_actor *a, bool receiving_only, const pr_msg *error);

#endif
