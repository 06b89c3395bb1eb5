/* User timers: send_after and send_every.
 *
 * A timer stands in the wheel of one worker: that of the actor that set it, or, set from outside, a fixed
 * one, reached through its control inbox. References: the wheel, the handle in Lua, and each message of it
 * that is still queued; the last one frees it. `state` decides between cancelling and delivery, which may
 * be on different threads: whoever moves it first has its way.
 *
 * A timer leaves the wheel, and its message is freed, when it has fired or is cancelled, when the life of its setter ends,
 * and when its target ends, whichever comes first. For the last one a worker knows its timers by target, and a target's
 * record says which worker has any (in `named`): the end of an actor that nobody has a timer for costs one look, that
 * of any other a message to that worker. Timers of an actor to itself need none of it. */
#ifndef PR_SEND_TIMER_H
#define PR_SEND_TIMER_H

#include "worker.h"

enum { PR_TIMER_PENDING, PR_TIMER_DONE, PR_TIMER_CANCELLED };

typedef struct pr_user_timer {
    pr_alarm alarm;                        /* the wheel's owner */
    struct pr_user_timer *next, **link;    /* the list it ends with: its actor's, or the worker's */
    _Atomic uint32_t references;           /* acq_rel to drop */
    _Atomic uint32_t state;                /* acq_rel: see pr_user_timer_cancel */
    struct pr_user_timer *target_next, **target_link;   /* the wheel's owner: see pr_timer_targets; NULL: not in it */
    uint64_t target;
    uint32_t worker;                       /* index */
    bool once;
    uint64_t period_ms;                    /* send_every */
    uint64_t due_ms;
    pr_msg *message;                       /* the wheel's owner; what is sent, or copied */
} pr_user_timer;

/* Makes and arms a timer that sends `message` (consumed on success) at delay, and then each period unless
 * that is 0. `w`: the worker with the setting actor in hand, or NULL outside. The caller has one reference.
 * NULL: no memory, or the runtime has ended. */
pr_user_timer *pr_user_timer_new(pr_runtime *rt, pr_worker *w, pr_msg *message, uint64_t delay_ms, uint64_t period_ms);
/* True: it was still pending, and no message of it is handled from now on. The setter's thread. */
bool pr_user_timer_cancel(pr_runtime *rt, pr_worker *w, pr_user_timer *t);
void pr_user_timer_drop(pr_runtime *rt, pr_worker *w, pr_user_timer *t);

/* The consumer of a message of it: false when it has been cancelled. Releases the message's reference. */
bool pr_user_timer_deliver(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* An actor's life ends. */
void pr_user_timers_end(pr_worker *w, pr_user_timer **list);
/* `a` has ended, as `id` (which has been cleared, seq_cst): the timers that would send to it go. Any thread. */
void pr_user_timers_orphan(pr_runtime *rt, pr_worker *w, pr_actor *a, uint64_t id);
/* TIMER_ARM, TIMER_DISARM and TIMER_ORPHAN at the worker. Consumes `m`. */
void pr_user_timer_order(pr_worker *w, pr_msg *m);

#endif
