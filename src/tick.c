/* See tick.h. */
#include "tick.h"

#include "alloc.h"

#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { GRACE_NS = 250000000 };

uint64_t pr_tick_mix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));   /* splitmix64 (S. Vigna) */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t pr_tick_draw(pr_tick *t) { return t->seeded ? pr_tick_mix(&t->random) : t->next_worker++; }

pr_tick *pr_tick_new(const pr_config *c)
{
    pr_tick *t = pr_zalloc(sizeof *t);
    if (!t)
        return NULL;
    t->clock = c->tick_clock;
    t->seeded = c->seeded;
    t->random = c->seed;
    t->trace = c->trace;
    t->trace_context = c->trace_context;
    t->explore = c->explore;
    t->fd = -1;
    t->next_ms = UINT64_MAX;
    PR_SET(t->virtual_ns, 1000000000);   /* a second: no time is 0 */
    return t;
}

void pr_tick_free(pr_tick *t)
{
    if (t && t->fd >= 0)
        close(t->fd);
    pr_free(t);
}

uint64_t pr_tick_clock_ns(const pr_tick *t)
{
    return t->clock == PR_CLOCK_REAL ? pr_now_ns() : PR_GET(t->virtual_ns);
}

/* --- the calling thread as a worker */

static pr_worker *enter(pr_worker *w)
{
    pr_worker *before = pr_worker_here;
    pr_worker_here = w;
    if (w->rt->config.enter_worker)
        w->rt->config.enter_worker(w);
    return before;
}

static void leave(pr_worker *w, pr_worker *before)
{
    pr_worker_here = before;
    if (before && before->rt->config.enter_worker)   /* a handler of another runtime ticks this one */
        before->rt->config.enter_worker(before);
    else if (w->rt->config.enter_worker)
        w->rt->config.enter_worker(NULL);
}

static void close_worker(pr_worker *w)
{
    pr_worker *before = enter(w);
    w->opened = false;
    if (w->rt->config.close_worker)
        w->rt->config.close_worker(w);
    leave(w, before);
}

bool pr_tick_open(pr_runtime *rt, pr_dispatcher *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *w = &d->workers[i], *before = enter(w);
        w->opened = !rt->config.open_worker || rt->config.open_worker(w, d->error, sizeof d->error) == 0;
        leave(w, before);
        if (!w->opened) {
            while (i-- > 0)
                close_worker(&d->workers[i]);
            return false;
        }
        w->chores |= PR_TICKS;
    }
    return true;
}

/* --- budget */

void pr_tick_look(pr_worker *w)
{
    pr_tick *t = w->rt->tick;
    w->clock_every = w->clock_in = 1;   /* no tick is over its budget by more than one handler */
    if (t->deadline_ns && w->running && !w->cut && pr_now_ns() >= t->deadline_ns) {
        w->cut = true;
        w->left_then = w->left;
        w->left = 0;
    }
}

/* --- a turn */

static void trace(pr_tick *t, const pr_worker *w)
{
    char line[256];
    const pr_counters *c = &w->counters;
    int n = snprintf(line, sizeof line, "%llu w%u a%u.%u handled %llu sent %llu failures %llu restarts %llu steals %llu",
                     (unsigned long long)(pr_tick_clock_ns(t) / 1000000), w->index + 1, pr_id_slot(w->turn_of),
                     pr_id_generation(w->turn_of), (unsigned long long)PR_GET(c->handled), (unsigned long long)PR_GET(c->sent),
                     (unsigned long long)PR_GET(c->failures), (unsigned long long)PR_GET(c->restarts),
                     (unsigned long long)PR_GET(c->steals));
    if (n > 0)
        t->trace(t->trace_context, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* One turn, or the rest of one. False: this worker has nothing to do. */
bool pr_tick_turn(pr_runtime *rt, pr_worker *w)
{
    pr_tick *t = rt->tick;
    pr_worker *before = enter(w);
    bool ran = pr_worker_tick(w);
    t->paused = w->cut ? w : NULL;
    if (ran && !w->cut && t->trace)
        trace(t, w);
    leave(w, before);
    return ran;
}

/* A turn of whichever worker it is, or false: nobody has anything to do. */
static bool anyone(pr_runtime *rt)
{
    pr_tick *t = rt->tick;
    if (t->paused)
        return pr_tick_turn(rt, t->paused);
    uint32_t first = (uint32_t)(pr_tick_draw(t) % rt->worker_count);
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        pr_worker *w = &rt->workers[(first + i) % rt->worker_count];
        if (w->opened && pr_tick_turn(rt, w))
            return true;
    }
    return false;
}

uint64_t pr_tick_next_ms(pr_runtime *rt)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        uint64_t ms = pr_wheel_next_ms(&rt->workers[i].wheel);
        if (ms < next)
            next = ms;
    }
    return next;
}

/* The collector's work, while there is time. */
static void tidy(pr_runtime *rt)
{
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        pr_worker *w = &rt->workers[i];
        if (!w->opened || !rt->config.idle_worker)
            continue;
        pr_worker *before = enter(w);
        while (rt->config.idle_worker(w) && pr_now_ns() < rt->tick->deadline_ns)
            ;
        leave(w, before);
    }
}

/* --- between ticks */

static void unpark(pr_runtime *rt)
{
    for (uint32_t i = 0; i < rt->worker_count; i++)
        pr_parker_cancel(&rt->workers[i].parker);
}

/* Store PARKED, then look at the queues; a sender pushes, then looks at the state: as in worker.c. False: there is
 * something. */
static bool park(pr_runtime *rt)
{
    for (uint32_t i = 0; i < rt->worker_count; i++)
        pr_parker_prepare(&rt->workers[i].parker);
    for (uint32_t i = 0; i < rt->worker_count; i++)
        if (rt->workers[i].opened && pr_worker_has_work(&rt->workers[i])) {
            unpark(rt);
            return false;
        }
    return true;
}

static void arm(pr_tick *t, bool at_once)
{
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (t->fd < 0)
        return;
    if (at_once || (t->clock == PR_CLOCK_JUMPS && t->next_ms != UINT64_MAX)) {
        when.it_value.tv_nsec = 1;
        timerfd_settime(t->fd, 0, &when, NULL);
        return;
    }
    if (t->clock == PR_CLOCK_REAL && t->next_ms < UINT64_MAX / 1000000) {
        when.it_value.tv_sec = (time_t)(t->next_ms / 1000);
        when.it_value.tv_nsec = (long)(t->next_ms % 1000) * 1000000 + 1;
    }
    timerfd_settime(t->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

int pr_tick_fd(pr_runtime *rt)
{
    pr_tick *t = rt->tick;
    if (t->fd < 0 && (t->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) >= 0) {
        for (uint32_t i = 0; i < rt->worker_count; i++)
            pr_parker_set_fd(&rt->workers[i].parker, t->fd);
        t->idle = false;
        arm(t, true);   /* the next tick sets it */
    }
    return t->fd;
}

static bool untouched(const pr_runtime *rt)
{
    for (uint32_t i = 0; i < rt->worker_count; i++)
        if (atomic_load_explicit(&rt->workers[i].parker.state, memory_order_seq_cst) != PR_PARKER_PARKED)
            return false;
    return true;
}

static int64_t until_next(const pr_tick *t)
{
    if (t->next_ms == UINT64_MAX)
        return PR_TICK_FOREVER;
    uint64_t now = pr_tick_clock_ns(t);
    if (t->next_ms >= UINT64_MAX / 1000000)
        return INT64_MAX;
    uint64_t next = t->next_ms * 1000000;
    return next <= now ? 0 : (int64_t)(next - now);
}

void pr_tick_advance(pr_runtime *rt, uint64_t ns)
{
    pr_tick *t = rt->tick;
    PR_SET(t->virtual_ns, PR_GET(t->virtual_ns) + ns);
    if (t->next_ms < UINT64_MAX / 1000000 && t->next_ms * 1000000 <= PR_GET(t->virtual_ns))
        arm(t, true);
}

int64_t pr_tick_run(pr_runtime *rt, uint64_t budget_ns)
{
    pr_tick *t = rt->tick;
    if (t->idle && untouched(rt)) {
        int64_t next = until_next(t);
        if (next != 0 && !(t->clock == PR_CLOCK_JUMPS && next > 0))
            return next;
    }
    t->idle = false;
    uint64_t now = pr_now_ns();
    t->deadline_ns = budget_ns > UINT64_MAX - now - 1 ? UINT64_MAX : now + budget_ns + (budget_ns == 0);
    unpark(rt);
    for (;;) {
        bool ran = anyone(rt);
        bool over = pr_now_ns() >= t->deadline_ns;
        if (ran && !over)
            continue;
        if (t->paused || (ran && over)) {
            t->deadline_ns = 0;
            arm(t, true);
            return 0;
        }
        if (atomic_load_explicit(&rt->exit, memory_order_acquire))
            break;
        t->next_ms = pr_tick_next_ms(rt);
        if (t->clock == PR_CLOCK_JUMPS && t->next_ms < UINT64_MAX / 1000000) {
            if (t->next_ms * 1000000 > PR_GET(t->virtual_ns))
                PR_SET(t->virtual_ns, t->next_ms * 1000000);
            if (!over)
                continue;
            arm(t, true);
            return 0;
        }
        if (!over)
            tidy(rt);
        if (!park(rt))
            continue;
        t->next_ms = pr_tick_next_ms(rt);
        break;
    }
    t->deadline_ns = 0;
    t->idle = true;
    arm(t, false);
    return until_next(t);
}

/* --- the end */

static void order_all(pr_runtime *rt, uint8_t kind)
{
    uint32_t slots = atomic_load_explicit(&rt->actors.slots, memory_order_acquire);
    for (uint32_t slot = 0; slot < slots; slot++)
        pr_runtime_order(rt, NULL, kind, pr_actor_at(&rt->actors, slot));
}

pr_status pr_tick_join(pr_runtime *rt, uint64_t until_ns)
{
    static const uint8_t orders[] = {PR_MSG_STOP, PR_MSG_KILL};
    pr_tick *t = rt->tick;
    if (t->clock == PR_CLOCK_MANUAL)
        t->clock = PR_CLOCK_JUMPS;   /* deadlines of those that end have to come */
    for (int i = 0; !atomic_load_explicit(&rt->exit, memory_order_acquire);) {
        int64_t next = pr_tick_run(rt, 10000000);
        uint64_t now = pr_now_ns();
        bool stuck = t->explore && next == PR_TICK_FOREVER;   /* nobody else sends */
        if (now >= until_ns || stuck) {
            if (i == 2)
                return PR_TIMEOUT;
            order_all(rt, orders[i++]);
            if (!stuck)
                until_ns = now + GRACE_NS;
        } else if (next != 0) {   /* a moment: others may still send */
            struct timespec moment = {0, next > 0 && next < 1000000 ? (long)next : 1000000};
            nanosleep(&moment, NULL);
        }
    }
    pr_log_gate_flush(&rt->log);
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        pr_worker *w = &rt->workers[i], *before = enter(w);
        pr_worker_close_inboxes(w);
        leave(w, before);
        if (w->opened)
            close_worker(w);
    }
    return PR_OK;
}
