/* See send_timer.h. */
#include "send_timer.h"

#include "alloc.h"

#include <string.h>

static pr_msg_pool *pool_of(pr_worker *w) { return w ? &w->pool : NULL; }

void pr_user_timer_drop(pr_runtime *rt, pr_worker *w, pr_user_timer *t)
{
    (void)rt;
    if (atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) != 1)
        return;
    if (t->message)
        pr_msg_free(pool_of(w), t->message);
    pr_free(t);
}

/* --- timers by target, at the wheel's owner */

static void grow(pr_timer_targets *targets)
{
    uint32_t size = targets->chains ? 2 * (targets->mask + 1) : 16;
    pr_user_timer **chains = pr_zalloc(size * sizeof *chains);
    if (!chains)
        return;   /* the chains get longer */
    for (uint32_t i = 0; targets->chains && i <= targets->mask; i++)
        for (pr_user_timer *t = targets->chains[i], *next; t; t = next) {
            pr_user_timer **chain = &chains[pr_id_slot(t->target) & (size - 1)];
            next = t->target_next;
            if ((t->target_next = *chain))
                t->target_next->target_link = &t->target_next;
            *chain = t;
            t->target_link = chain;
        }
    pr_free(targets->chains);
    targets->chains = chains;
    targets->mask = size - 1;
}

static void know_target(pr_timer_targets *targets, pr_user_timer *t)
{
    if (!targets->chains || targets->count > targets->mask)
        grow(targets);
    if (!targets->chains)
        return;   /* no memory: it stays until it is due */
    pr_user_timer **chain = &targets->chains[pr_id_slot(t->target) & targets->mask];
    if ((t->target_next = *chain))
        t->target_next->target_link = &t->target_next;
    *chain = t;
    t->target_link = chain;
    targets->count++;
}

static void forget_target(pr_timer_targets *targets, pr_user_timer *t)
{
    if (!t->target_link)
        return;
    *t->target_link = t->target_next;
    if (t->target_next)
        t->target_next->target_link = t->target_link;
    t->target_link = NULL;
    targets->count--;
}

/* --- the wheel */

/* The wheel's owner: out of the wheel and the lists, with the reference of all. */
static void leave(pr_worker *w, pr_user_timer *t)
{
    if (!t->link)
        return;
    pr_wheel_cancel(&w->wheel, &t->alarm.timer);
    forget_target(&w->targets, t);
    if (t->message)   /* nothing is sent any more, however long somebody keeps the handle */
        pr_msg_free(&w->pool, t->message);
    t->message = NULL;
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->link = NULL;
    pr_user_timer_drop(w->rt, w, t);
}

static void fire(pr_worker *w, pr_alarm *alarm)
{
    pr_user_timer *t = (pr_user_timer *)alarm;
    if (atomic_load_explicit(&t->state, memory_order_acquire) != PR_TIMER_PENDING) {
        leave(w, t);   /* cancelled from outside, without memory to say so */
        return;
    }
    pr_msg *m = t->once ? t->message : pr_msg_copy(&w->pool, t->message);
    pr_status status = PR_NOMEM;
    if (m) {
        if (t->once)
            t->message = NULL;
        pr_msg_set_timer(m, t);
        atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
        status = pr_send(w->rt, w, m);
        if (status != PR_OK) {
            /* Nobody's face to reject it to: a dead letter, which releases the message's reference. */
            PR_BUMP(w->counters.rejected, (uint64_t)-1);
            PR_BUMP(w->counters.sent, 1);
            pr_dead_letter(w->rt, w, m, status == PR_STOPPING ? PR_DEAD_STOPPING
                                         : status == PR_DEAD ? PR_DEAD_NOBODY : PR_DEAD_FULL);
        }
    } else {
        pr_logf(&w->rt->log, PR_LOG_ERROR, "no memory for the message of a timer; it is sent again later");
        if (t->once) {
            pr_wheel_add(&w->wheel, &t->alarm.timer, w->now_ms + 100);
            return;
        }
    }
    if (t->once || status == PR_DEAD) {   /* an id is never given out again: a dead target stays dead */
        leave(w, t);
        return;
    }
    uint64_t due = t->alarm.timer.due_ms + t->period_ms;
    if (due <= w->now_ms)   /* a late worker skips, it does not send a burst */
        due = w->now_ms + t->period_ms - (w->now_ms - due) % t->period_ms;
    pr_wheel_add(&w->wheel, &t->alarm.timer, due);
}

static void cancel(pr_worker *w, pr_user_timer *t)
{
    uint32_t pending = PR_TIMER_PENDING;
    atomic_compare_exchange_strong_explicit(&t->state, &pending, PR_TIMER_CANCELLED, memory_order_acq_rel,
                                            memory_order_acquire);
    leave(w, t);
}

/* Its target's end will be heard of here. */
static void follow_target(pr_worker *w, pr_user_timer *t)
{
    pr_actor *a = pr_actor_slot(&w->rt->actors, pr_id_slot(t->target));
    know_target(&w->targets, t);
    uint32_t me = w->index + 1 < PR_TIMED_BY_SEVERAL ? w->index + 1 : PR_TIMED_BY_SEVERAL;
    uint8_t seen = atomic_load_explicit(&a->named, memory_order_seq_cst), wanted;
    do {
        uint32_t by = seen >> PR_TIMED_SHIFT;
        wanted = (uint8_t)((seen & ~(uint32_t)PR_TIMED) | (by == 0 ? me : by == me ? by : PR_TIMED_BY_SEVERAL) << PR_TIMED_SHIFT);
    } while (wanted != seen && !atomic_compare_exchange_weak_explicit(&a->named, &seen, wanted, memory_order_seq_cst,
                                                                      memory_order_seq_cst));
    /* seq_cst, as the id's clearing and the look at `named` in pr_user_timers_orphan: either we see that it has ended, or
     * it sees that we have a timer. */
    if (atomic_load_explicit(&a->id, memory_order_seq_cst) != t->target)
        cancel(w, t);
}

static void arm(pr_worker *w, pr_user_timer *t, pr_user_timer **list)
{
    t->next = *list;
    t->link = list;
    if (t->next)
        t->next->link = &t->next;
    *list = t;
    pr_wheel_add(&w->wheel, &t->alarm.timer, t->due_ms);
    if (list == &w->timers || t->target != PR_GET(w->running->id))
        follow_target(w, t);
}

pr_user_timer *pr_user_timer_new(pr_runtime *rt, pr_worker *w, pr_msg *message, uint64_t delay_ms, uint64_t period_ms)
{
    pr_user_timer *t = pr_zalloc(sizeof *t);
    pr_msg *timed = t ? pr_msg_copy_timed(pool_of(w), message) : NULL;
    if (!timed) {
        pr_free(t);
        return NULL;
    }
    pr_msg_set_timer(timed, t);   /* not counted: it is when a copy is sent */
    t->alarm.fire = fire;
    t->once = period_ms == 0;
    t->period_ms = period_ms;
    t->due_ms = pr_clock_ns(rt) / 1000000 + 1 + delay_ms;   /* never early: the running millisecond does not count */
    t->message = timed;
    t->target = timed->target;
    atomic_store_explicit(&t->references, 2, memory_order_relaxed);   /* the wheel's and the handle's */
    if (w) {
        /* A floating actor may end on another worker, which must not touch this wheel: its timers are the worker's. */
        bool floats = !w->running || w->running->flags & PR_FLAG_FLOATS;
        pr_extra *extra = floats ? NULL : pr_actor_extra(w->running);
        if (!floats && !extra) {
            pr_msg_free(pool_of(w), timed);
            pr_free(t);
            return NULL;
        }
        pr_msg_free(pool_of(w), message);
        t->worker = w->index;
        arm(w, t, floats ? &w->timers : &extra->timers);
        return t;
    }
    t->worker = 0;
    pr_msg *order = pr_msg_new_timed(NULL, 0);
    if (order) {
        order->kind = PR_MSG_TIMER_ARM;
        pr_msg_set_timer(order, t);
        if (pr_stack_push(&rt->workers[0].control, order)) {
            pr_worker_wake(&rt->workers[0]);
            pr_msg_free(NULL, message);
            return t;
        }
        pr_msg_free(NULL, order);
    }
    pr_msg_free(NULL, timed);
    pr_free(t);
    return NULL;
}

static void target_has_ended(pr_worker *w, uint64_t id)
{
    pr_timer_targets *targets = &w->targets;
    pr_user_timer *t = targets->chains ? targets->chains[pr_id_slot(id) & targets->mask] : NULL;
    for (pr_user_timer *next; t; t = next) {
        next = t->target_next;
        if (t->target == id)
            cancel(w, t);
    }
}

void pr_user_timers_orphan(pr_runtime *rt, pr_worker *w, pr_actor *a, uint64_t id)
{
    uint32_t by = atomic_load_explicit(&a->named, memory_order_seq_cst) >> PR_TIMED_SHIFT;   /* see follow_target */
    for (uint32_t i = 0; by != 0 && i < rt->worker_count; i++) {
        pr_worker *other = &rt->workers[i];
        if (by == PR_TIMED_BY_SEVERAL ? !atomic_load_explicit(&other->dispatcher->up, memory_order_acquire) : by != i + 1)
            continue;   /* an actor there that has set a timer was born after `up` */
        if (other == w) {
            target_has_ended(w, id);
            continue;
        }
        pr_msg *m = pr_msg_new(pool_of(w), 0);
        if (!m)
            continue;   /* they stay until they are due */
        m->kind = PR_MSG_TIMER_ORPHAN;
        m->sender = id;
        if (pr_stack_push(&other->control, m))
            pr_worker_wake(other);
        else
            pr_msg_free(pool_of(w), m);
    }
}

void pr_user_timer_order(pr_worker *w, pr_msg *m)
{
    if (m->kind == PR_MSG_TIMER_ORPHAN) {
        target_has_ended(w, m->sender);
        pr_msg_free(&w->pool, m);
        return;
    }
    pr_user_timer *t = pr_msg_timer(m);
    bool arms = m->kind == PR_MSG_TIMER_ARM;
    pr_msg_free(&w->pool, m);
    if (!arms) {
        leave(w, t);
        pr_user_timer_drop(w->rt, w, t);   /* the order's */
    } else if (atomic_load_explicit(&t->state, memory_order_acquire) == PR_TIMER_PENDING) {
        arm(w, t, &w->timers);
    } else {
        pr_user_timer_drop(w->rt, w, t);
    }
}

bool pr_user_timer_cancel(pr_runtime *rt, pr_worker *w, pr_user_timer *t)
{
    uint32_t pending = PR_TIMER_PENDING;
    /* Against the consumer's move in pr_user_timer_deliver: one of the two wins. */
    if (!atomic_compare_exchange_strong_explicit(&t->state, &pending, PR_TIMER_CANCELLED, memory_order_acq_rel,
                                                 memory_order_acquire))
        return false;
    if (w && w->index == t->worker) {
        leave(w, t);
        return true;
    }
    pr_msg *order = pr_msg_new_timed(pool_of(w), 0);
    if (order) {   /* no memory: it stays in the wheel and its messages are dropped on arrival */
        order->kind = PR_MSG_TIMER_DISARM;
        pr_msg_set_timer(order, t);
        atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
        if (pr_stack_push(&rt->workers[t->worker].control, order)) {
            pr_worker_wake(&rt->workers[t->worker]);
        } else {
            pr_user_timer_drop(rt, w, t);
            pr_msg_free(pool_of(w), order);
        }
    }
    return true;
}

bool pr_user_timer_deliver(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    pr_user_timer *t = pr_msg_timer(m);
    uint32_t pending = PR_TIMER_PENDING;
    bool live = t->once ? atomic_compare_exchange_strong_explicit(&t->state, &pending, PR_TIMER_DONE,
                                                                  memory_order_acq_rel, memory_order_acquire)
                        : atomic_load_explicit(&t->state, memory_order_acquire) == PR_TIMER_PENDING;
    m->timed = 0;
    pr_user_timer_drop(rt, w, t);
    return live;
}

void pr_user_timers_end(pr_worker *w, pr_user_timer **list)
{
    while (*list)
        cancel(w, *list);
}
