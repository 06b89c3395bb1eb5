/* How a worker falls asleep, and how it is woken.
 *
 * Sleep is a store/load handshake with everyone who makes work. The sleeper: (1) parker.state = PARKED and
 * sleepers + 1, (2) one more look at every queue. The maker: (1) the work into a queue, (2) a look at
 * parker.state or sleepers. All four are seq_cst: one of the two always sees the other.
 *
 * `active` counts the workers on which something can still happen by itself: those awake, and those asleep
 * with a timer armed. A waker adds one for the worker it wakes before it may itself fall asleep, so that 0
 * means: nothing runs, nothing is queued, no timer is pending. That is the end of `pierrot run`. */
#include "worker.h"

#include <sched.h>

enum {
    WATCH_NS = 2000000,     /* how long a surplus may lie behind a handler that does not end */
    SHORTLY_NS = 20000,
    YIELD_EVERY = 16,       /* looks */
    YIELDED_NS = 100000     /* whoever has had the processor for longer than that is busy with something else */
};

static void tell_quiet(pr_runtime *rt)
{
    pthread_mutex_lock(&rt->end_lock);
    pthread_cond_broadcast(&rt->end_changed);
    pthread_mutex_unlock(&rt->end_lock);
}

bool pr_worker_wake(pr_worker *w)
{
    if (atomic_load_explicit(&w->parker.state, memory_order_seq_cst) != PR_PARKER_PARKED)
        return false;
    /* Before the claim: the woken one takes it back at once when it was awake already. */
    atomic_fetch_add_explicit(&w->rt->active, 1, memory_order_seq_cst);
    if (pr_parker_claim(&w->parker)) {
        PR_SET(w->woken_ns, pr_now_ns());
        pr_parker_notify(&w->parker);
        return true;
    }
    if (atomic_fetch_sub_explicit(&w->rt->active, 1, memory_order_seq_cst) == 1)
        tell_quiet(w->rt);
    return false;
}

void pr_wake_some(pr_dispatcher *d, const pr_worker *self)
{
    uint32_t first = self ? self->index - d->first + 1 : 0;
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *w = &d->workers[(first + i) % d->count];
        if (w != self && atomic_load_explicit(&w->parker.state, memory_order_seq_cst) == PR_PARKER_PARKED) {
            pr_worker_wake(w);
            return;
        }
    }
}

int32_t pr_worker_note_processor(pr_worker *w)
{
    int32_t here = sched_getcpu();   /* costs a load */
    if (PR_GET(w->processor) != here)
        PR_SET(w->processor, here);
    return here;
}

bool pr_worker_shares_processor(pr_worker *w)
{
    const pr_runtime *rt = w->rt;
    int32_t here = pr_worker_note_processor(w);
    for (uint32_t i = 0; here >= 0 && i < rt->worker_count; i++) {
        pr_worker *other = &rt->workers[i];
        if (other != w && PR_GET(other->processor) == here && PR_GET(other->parker.state) != PR_PARKER_PARKED)
            return true;
    }
    return false;
}

enum look { NOTHING, WORK, SMALL_SURPLUS };

static enum look look_around(pr_worker *w, pr_worker **victim)
{
    pr_dispatcher *d = w->dispatcher;
    if (!pr_stack_empty(&w->control) || pr_inbox_claimed(&w->inbox) ||
        atomic_load_explicit(&w->ended, memory_order_seq_cst) ||
        atomic_load_explicit(&d->global.count, memory_order_seq_cst) > 0 ||
        atomic_load_explicit(&w->rt->exit, memory_order_seq_cst))
        return WORK;
    enum look seen = NOTHING;
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *other = &d->workers[i];
        uint32_t count = pr_ring_count(&other->ring), surplus = pr_worker_surplus(other, w->now_ms);
        if (atomic_load_explicit(&other->spill.count, memory_order_seq_cst) > 0 || (count > 0 && other == w) ||
            (surplus >= PR_STEAL_MIN && pr_worker_share_of(w, other, surplus) > 0))
            return WORK;
        if (count > 0) {
            seen = SMALL_SURPLUS;
            *victim = other;
        }
    }
    return seen;
}

/* Beside a surplus too small to steal, or of one that has fewer actors: waits for a moment, and takes it if its owner is
 * still in the same turn then, that is, stuck behind a long handler, or has not come to it in its many turns. */
static pr_actor *watch(pr_worker *w, pr_worker *victim)
{
    pr_dispatcher *d = w->dispatcher;
    uint64_t turn = atomic_load_explicit(&victim->turn, memory_order_acquire);
    atomic_fetch_add_explicit(&d->watchers, 1, memory_order_seq_cst);
    atomic_fetch_sub_explicit(&d->sleepers, 1, memory_order_seq_cst);
    bool notified = pr_parker_sleep(&w->parker, pr_now_ns() + WATCH_NS);
    pr_worker_clock(w);
    atomic_fetch_sub_explicit(&d->watchers, 1, memory_order_seq_cst);
    if (notified)
        w->looted = true;
    if (notified)
        atomic_fetch_sub_explicit(&w->rt->active, 1, memory_order_seq_cst);   /* it never left */
    if (!notified && (atomic_load_explicit(&victim->turn, memory_order_acquire) == turn ||
                      pr_worker_surplus(victim, w->now_ms) >= PR_STEAL_MIN))
        return pr_worker_take_from(w, victim);
    return NULL;
}

pr_actor *pr_worker_sleep(pr_worker *w)
{
    pr_runtime *rt = w->rt;
    pr_dispatcher *d = w->dispatcher;
    pr_worker *victim = NULL;
    /* Somebody who is answered at once is answered in less time than it takes to fall asleep and be woken. Who has just
     * woken another worker gives it the time to get up: otherwise two that talk to each other would go on sleeping
     * and waking each other, each gone when the other one comes. */
    uint32_t looks = w->woke ? 4 * w->spin_most : w->spin;
    w->woke = false;
    uint32_t look_in = w->look_in;
    w->look_in = 0;
    uint64_t yielded_ns = 0;
    for (uint32_t i = 0; i < looks; i++) {
        if (pr_inbox_written(&w->inbox) || !pr_stack_empty(&w->control)) {
            w->look_in = look_in;
            return NULL;
        }
        if (i % YIELD_EVERY == 0 && pr_worker_shares_processor(w)) {
            uint64_t now = pr_now_ns();
            yielded_ns = yielded_ns ? yielded_ns : now;
            if (now - yielded_ns > YIELDED_NS)
                break;
            sched_yield();
            i += YIELD_EVERY - 1;   /* it takes about as long */
        } else {
            pr_relax();
        }
    }
    if (rt->config.idle_worker && rt->config.idle_worker(w))
        return NULL;
    pr_worker_drop_spares(w);
    pr_parker_prepare(&w->parker);
    atomic_fetch_add_explicit(&d->sleepers, 1, memory_order_seq_cst);
    enum look seen = look_around(w, &victim);
    if (seen == SMALL_SURPLUS)
        return watch(w, victim);
    if (seen == WORK) {
        atomic_fetch_sub_explicit(&d->sleepers, 1, memory_order_seq_cst);
        if (!pr_parker_cancel(&w->parker))
            atomic_fetch_sub_explicit(&rt->active, 1, memory_order_seq_cst);   /* its waker's one too many */
        return NULL;
    }
    uint64_t next_ms = pr_wheel_next_ms(&w->wheel);
    bool counted_out = next_ms == UINT64_MAX;
    if (counted_out && atomic_fetch_sub_explicit(&rt->active, 1, memory_order_seq_cst) == 1)
        tell_quiet(rt);
    PR_BUMP(w->counters.parks, 1);
    uint64_t since_ns = pr_now_ns();
    bool notified = pr_parker_sleep(&w->parker, next_ms >= UINT64_MAX / 1000000 ? UINT64_MAX : next_ms * 1000000);
    atomic_fetch_sub_explicit(&d->sleepers, 1, memory_order_seq_cst);
    /* A short sleep would have been spared by looking for longer; after a long one, less will do. What counts is when it was
     * woken, not when it was awake: in a virtual machine that may take 50 microseconds, and it would look less and less. */
    bool shortly = notified && (int64_t)(PR_GET(w->woken_ns) - since_ns) < SHORTLY_NS;
    uint32_t spin = shortly ? 2 * w->spin + 1 : w->spin / 2, least = w->spin_most < PR_SPIN_LEAST ? w->spin_most : PR_SPIN_LEAST;
    w->spin = spin < least ? least : spin > w->spin_most ? w->spin_most : spin;
    if (notified && !counted_out)
        atomic_fetch_sub_explicit(&rt->active, 1, memory_order_seq_cst);
    if (!notified && counted_out)
        atomic_fetch_add_explicit(&rt->active, 1, memory_order_seq_cst);
    pr_worker_clock(w);
    return NULL;
}

bool pr_worker_has_work(pr_worker *w)
{
    return !pr_stack_empty(&w->control) || pr_inbox_claimed(&w->inbox) || w->ready_head || w->chores & PR_CHORES ||
           atomic_load_explicit(&w->ended, memory_order_seq_cst) || pr_ring_count(&w->ring) > 0 ||
           atomic_load_explicit(&w->spill.count, memory_order_seq_cst) > 0 ||
           atomic_load_explicit(&w->dispatcher->global.count, memory_order_seq_cst) > 0 ||
           atomic_load_explicit(&w->rt->exit, memory_order_seq_cst);
}
