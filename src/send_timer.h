/* User timers: send_after and send_every.
 *
 * A timer stands in the wheel of one worker: that of the actor that set it, or, set from outside, a fixed
 * one, reached through its control inbox. References: the wheel, the handle in Lua, and each message of it
 * that is still queued; the last one frees it. `state` decides between cancelling and delivery, which may
 * be on different threads: whoever moves it first has its way. */
#ifndef PR_SEND_TIMER_H
#define PR_SEND_TIMER_H

#include "worker.h"

enum { PR_TIMER_PENDING, PR_TIMER_DONE, PR_TIMER_CANCELLED };

typedef struct pr_user_timer {
    pr_alarm alarm;                        /* the wheel's owner */
    struct pr_user_timer *next, **link;    /* the list it ends with: its actor's, or the worker's */
    _Atomic uint32_t references;           /* acq_rel to drop */
    _Atomic uint32_t state;                /* acq_rel: see pr_user_timer_cancel */
    uint32_t worker;                       /* index */
    bool once, sending;
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
/* TIMER_ARM and TIMER_DISARM at the worker. Consumes `m`. */
void pr_user_timer_order(pr_worker *w, pr_msg *m);

#endif
