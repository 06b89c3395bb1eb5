/* A worker's loop: what it takes next, how it runs an actor's turn, how it looks for work elsewhere and
 * how it sleeps. See worker.h for who owns what.
 *
 * Sleep is a store/load handshake with everyone who makes work. The sleeper: (1) parker.state = PARKED and
 * sleepers + 1, (2) one more look at every queue. The maker: (1) the work into a queue, (2) a look at
 * parker.state or sleepers. All four are seq_cst: one of the two always sees the other.
 *
 * `active` counts the workers on which something can still happen by itself: those awake, and those asleep
 * with a timer armed. A waker adds one for the worker it wakes before it may itself fall asleep, so that 0
 * means: nothing runs, nothing is queued, no timer is pending. That is the end of `pierrot run`. */
#include "worker.h"

#include "alloc.h"
#include "explore.h"
#include "send_timer.h"
#include "tick.h"

#include <stdio.h>
#include <string.h>

enum {
    STEAL_MIN = 3,          /* a surplus: a pair that was just spawned to talk to each other is none */
    WATCH_NS = 2000000,     /* how long a smaller one may lie behind a handler that does not end */
    GLOBAL_EVERY = 61,      /* as in Go's scheduler */
    RING_EVERY = 8,
    FAR_TURNS = 32,
    GLOBAL_SHARE = 128,
    SPIN_LEAST = 64,
    INBOX_LINES = 1024,     /* 64 KB: a quarter of it takes a third more in fork-join throughput and fan-in ... */
    INBOX_LINES_LEAST = 128,   /* ... which are not run on dispatchers whose handlers may block */
    SHORTLY_NS = 20000
};

__thread pr_worker *pr_worker_here;

int pr_worker_init(pr_worker *w, pr_runtime *rt, pr_dispatcher *d, uint32_t index)
{
    memset(w, 0, sizeof *w);
    w->rt = rt;
    w->dispatcher = d;
    w->index = index;
    w->throughput = d->throughput;
    w->pool.depot = &rt->depot;
    w->clock_every = w->clock_in = 1;
    /* The default dispatcher has the cores. What others would gain by looking for long, they would take from it. */
    w->spin_most = d->index == PR_DISPATCHER_DEFAULT || rt->config.spin < SPIN_LEAST ? rt->config.spin : SPIN_LEAST;
    w->spin = w->spin_most;
    w->steal_from = index - d->first + 1;
    pr_stack_open(&w->control);
    w->random = (rt->config.seeded ? rt->config.seed : pr_now_ns()) ^ (uint64_t)index << 56;
    w->now_ms = pr_clock_ns(rt) / 1000000;
    pr_wheel_init(&w->wheel, w->now_ms);
    if (pr_inbox_init(&w->inbox, d->index == PR_DISPATCHER_DEFAULT ? INBOX_LINES : INBOX_LINES_LEAST) != 0)
        return -1;
    if (pr_parker_init(&w->parker) == 0)
        return 0;
    pr_inbox_destroy(&w->inbox);
    return -1;
}

void pr_worker_destroy(pr_worker *w)
{
    while (w->free_waits) {
        pr_wait *wait = w->free_waits;
        w->free_waits = wait->next;
        pr_free(wait);
    }
    pr_inbox_destroy(&w->inbox);
    pr_free(w->targets.chains);
    pr_parker_destroy(&w->parker);
}

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
        pr_parker_notify(&w->parker);
        return true;
    }
    if (atomic_fetch_sub_explicit(&w->rt->active, 1, memory_order_seq_cst) == 1)
        tell_quiet(w->rt);
    return false;
}

/* --- becoming ready */

/* self: of that dispatcher, or NULL. */
static void wake_some(pr_dispatcher *d, const pr_worker *self)
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

static uint32_t share_of(const pr_worker *w, const pr_worker *victim, uint32_t count);

/* Whether another worker would take some of the new actors of this one. */
static bool would_take(const pr_worker *w)
{
    const pr_dispatcher *d = w->dispatcher;
    uint32_t count = pr_ring_count(&w->ring);
    for (uint32_t i = 0; i < d->count && count >= STEAL_MIN; i++)
        if (&d->workers[i] != w && share_of(&d->workers[i], w, count) > 0)
            return true;
    return false;
}

void pr_make_ready(pr_runtime *rt, pr_worker *w, pr_actor *a)
{
    pr_dispatcher *d = &rt->dispatchers[PR_GET(a->dispatcher)];
    /* Nor into the ring of a worker whose turns may be long, if whoever runs it first is to keep it: see hand_over. */
    if (w && (w->dispatcher != d || (d->index != PR_DISPATCHER_DEFAULT && !(a->flags & PR_FLAG_FLOATS))))
        w = NULL;
    if (!w) {
        pr_global_push(&d->global, a);
    } else if (!pr_ring_push(&w->ring, a)) {
        pr_ring_spill(&w->ring, &d->global, a);
    } else {
        uint32_t sleepers = atomic_load_explicit(&d->sleepers, memory_order_seq_cst);
        uint32_t watchers = atomic_load_explicit(&d->watchers, memory_order_seq_cst);
        if (sleepers + watchers == 0)
            return;
        /* Of one that others would not take one sibling is told, which then keeps watch: see sleep_or_watch. */
        if (watchers > 0 && !would_take(w))
            return;
    }
    wake_some(d, w);
}

static void unlink_ready(pr_worker *w, pr_actor *a)
{
    if (w->ready_front == a)
        w->ready_front = a->next_free;
    if (a->next_free)
        a->next_free->ready_next = a->ready_next;
    else
        w->ready_head = a->ready_next;
    if (a->ready_next)
        a->ready_next->next_free = a->next_free;
    else
        w->ready_tail = a->next_free;
    a->ready_next = a->next_free = NULL;
    a->in_ready = 0;
}

void pr_make_ready_pinned(pr_worker *w, pr_actor *a, bool front)
{
    if (!front) {
        pr_line_up(w, a);
        return;
    }
    if (a == w->running || a->in_ready == 2)
        return;
    if (a->in_ready)
        unlink_ready(w, a);
    else if (!(a->flags & (PR_FLAG_ENDING | PR_FLAG_STOP)))
        PR_SET(a->state, PR_STATE_SCHEDULED);
    /* Those in front stand in the order in which they came there, as do the others behind them. */
    pr_actor *before = w->ready_front;
    a->in_ready = 2;
    a->next_free = before;
    a->ready_next = before ? before->ready_next : w->ready_head;
    w->ready_front = a;
    if (a->ready_next)
        a->ready_next->next_free = a;
    else
        w->ready_tail = a;
    if (before)
        before->ready_next = a;
    else
        w->ready_head = a;
}

static pr_actor *next_pinned(pr_worker *w)
{
    pr_actor *a = w->ready_head;
    if (a)
        unlink_ready(w, a);
    return a;
}

/* --- the clock and the wheel */

void pr_worker_clock(pr_worker *w)
{
    uint64_t now = pr_clock_ns(w->rt) / 1000000;
    /* Looked at often enough to be about a millisecond right, and no more often: a look costs as much as
     * half a message. */
    if (now > w->now_ms)
        w->clock_every = w->clock_every > 4 ? w->clock_every / 4 : 1;
    else if (w->clock_every < 64)
        w->clock_every *= 2;
    w->clock_in = w->clock_every;
    if (now > w->now_ms)
        w->now_ms = now;
    if (w->rt->tick)
        pr_tick_look(w);
}

static void fire_timers(pr_worker *w)
{
    pr_timer *t;
    w->fired_ms = w->now_ms;
    while ((t = pr_wheel_pop(&w->wheel, w->now_ms)) != NULL) {
        pr_alarm *alarm = (pr_alarm *)(void *)t;
        alarm->fire(w, alarm);
    }
}

/* --- inboxes */

static void take_control(pr_worker *w)
{
    for (pr_msg *m = pr_stack_take(&w->control), *next; m; m = next) {
        next = m->next;
        pr_deliver_control(w, m);
    }
}

/* The inbox is emptied no faster than its messages are handled: what waits there holds up its writers, while what piled up
 * here would leave the caches. */
static bool wants_more(pr_worker *w)
{
    return !w->ready_head || PR_GET(w->counters.handled) - w->far_handled >= w->far_taken ||
           PR_GET(w->turn) - w->far_turn >= FAR_TURNS;   /* turns need not handle anything: handlers resume in them, too */
}

static void take_inboxes(pr_worker *w)
{
    if (!pr_stack_empty(&w->control))
        take_control(w);
    if (atomic_load_explicit(&w->ended, memory_order_relaxed)) {
        /* acquire pairs with the push in leave_family: the child's last writes are seen */
        pr_actor *child = atomic_exchange_explicit(&w->ended, NULL, memory_order_acquire);
        while (child) {
            pr_actor *next = child->next_free;
            pr_child_ended(w, child);
            child = next;
        }
    }
    if (wants_more(w)) {
        w->far_handled = PR_GET(w->counters.handled);
        w->far_turn = PR_GET(w->turn);
        w->far_taken = pr_inbox_take(w);
    }
}

/* --- a turn */

static bool has_message(pr_worker *w, pr_actor *a)
{
    return a->user.head || (PR_GET(a->gate) & PR_GATE_BOXED && pr_box_ready(w, a));
}

enum what { OVER, AGAIN, MESSAGE };   /* the turn is over; look again; the next message */

/* Everything that is not just the next message. */
static enum what special(pr_worker *w, pr_actor *a)
{
    if (a->orders.head)
        pr_actor_orders(w, a);
    if (a->flags & PR_FLAG_SUSPENDED) {
        if (!(a->flags & PR_FLAG_RESUME))
            return OVER;
        pr_actor_resume(w, a);
    } else if (a->flags & PR_FLAG_ENDING) {
        pr_actor_ending(w, a);
        return w->running == a && !(a->flags & (PR_FLAG_ENDING | PR_FLAG_SUSPENDED)) ? AGAIN : OVER;
    } else if (a->flags & PR_FLAG_NEW) {
        pr_actor_start(w, a);
    } else if (a->flags & PR_FLAG_RESUME) {
        if (pr_parked_lets_message(a) && has_message(w, a))
            return MESSAGE;
        pr_actor_resume(w, a);
    }
    return w->running == a && !(a->flags & PR_FLAG_SUSPENDED) ? AGAIN : OVER;
}

enum { SPECIAL = PR_FLAG_NEW | PR_FLAG_SUSPENDED | PR_FLAG_ENDING | PR_FLAG_RESUME };

/* The rest of the turn of w->running, which may become another actor meanwhile: see pr_worker_next_message. `own`: the
 * actor's own control stack while it floats, NULL of a pinned one. */
static void run_messages(pr_worker *w, pr_stack *own)
{
    pr_actor *a;
    while ((a = w->running) && w->left > 0) {
        w->left--;
        /* Before each message: an order that has come in overtakes all that is queued. */
        if (!pr_stack_empty(&w->control))
            take_control(w);
        if (own && !pr_stack_empty(own))
            for (pr_msg *m = pr_stack_take(own), *next; m; m = next) {
                next = m->next;
                pr_queue_push(&a->orders, m);
            }
        if (a->flags & SPECIAL || a->orders.head) {
            enum what what = special(w, a);
            if (what == OVER)
                return;
            if (what == AGAIN)
                continue;
        }
        pr_msg *m = pr_queue_pop(&a->user);
        if (m)
            PR_BUMP(a->depth, (uint32_t)-1);
        else if (!(PR_GET(a->gate) & PR_GATE_BOXED) || !(m = pr_box_take(w, a)))
            return;
        pr_actor_handle(w, a, m);
        if (--w->clock_in == 0)
            pr_worker_clock(w);
    }
}

static void begin_turn(pr_worker *w, pr_actor *a)
{
    w->running = a;
    w->left = w->throughput;
    w->burst = PR_BURST;
    if (!(a->flags & (PR_FLAG_ENDING | PR_FLAG_STOP)))
        PR_SET(a->state, PR_STATE_PROCESSING);
    PR_SET(w->current, PR_GET(a->id));
    PR_SET(w->current_since_ms, w->now_ms);
    /* release: a thief that sees the same count twice sees no turn in between */
    atomic_store_explicit(&w->turn, PR_GET(w->turn) + 1, memory_order_release);
}

/* Of a pinned actor, unless it has ended. */
static void end_turn(pr_worker *w)
{
    pr_actor *a = w->running;
    PR_SET(w->current, 0);
    if (!a)
        return;
    w->running = NULL;
    bool suspended = a->flags & PR_FLAG_SUSPENDED;
    bool more = a->orders.head || (suspended ? (a->flags & PR_FLAG_RESUME) != 0
                                             : a->flags & PR_FLAG_ENDING ? !pr_actor_end_waits(a)
                                                                         : has_message(w, a) || a->flags & (PR_FLAG_NEW | PR_FLAG_RESUME));
    if (!(a->flags & (PR_FLAG_ENDING | PR_FLAG_STOP)))
        PR_SET(a->state, suspended ? PR_STATE_SUSPENDED : PR_STATE_IDLE);
    if (more)
        pr_make_ready_pinned(w, a, false);
}

/* `more`: than throughput. */
static void turn_pinned(pr_worker *w, pr_actor *a, uint32_t more)
{
    begin_turn(w, a);
    w->left += more;
    run_messages(w, NULL);
    if (!w->cut)
        end_turn(w);
}

/* Whether the next take would come from the own ready list, and nothing calls for anything else first. */
static bool goes_on_in_line(pr_worker *w)
{
    if (!w->ready_head || w->chores || w->ring_first > 0 || !pr_stack_empty(&w->control))
        return false;
    if (w->wheel.count > 0 && w->fired_ms != w->now_ms)
        return false;
    uint32_t tick = w->tick + 1;
    /* The inbox with them: each look takes a cache line from those who are sending. */
    if (tick % RING_EVERY == 0 && wants_more(w) && pr_inbox_written(&w->inbox))
        return false;
    return !(pr_ring_count(&w->ring) > 0 && tick % RING_EVERY == 0) &&
           !((PR_GET(w->dispatcher->global.count) > 0 || PR_GET(w->ended)) && tick % GLOBAL_EVERY == 0);
}

pr_msg *pr_worker_next_message(pr_worker *w)
{
    enum { NOT_PLAIN = SPECIAL | PR_FLAG_STOP | PR_FLAG_FLOATS | PR_FLAG_APART };
    pr_actor *a = w->running;
    pr_msg *m = w->hand;
    if (!m || m->next || m->ask || a->flags & NOT_PLAIN || a->wait || w->resumed)
        return NULL;
    const pr_ops *ops = a->ops;   /* these know nothing of another language's actors */
    w->hand = NULL;
    pr_msg_free(&w->pool, m);
    if (--w->clock_in == 0) {
        pr_worker_clock(w);
        if (w->cut)
            return NULL;
    }
    if (!pr_stack_empty(&w->control) || a->orders.head)
        return NULL;
    while (w->left == 0 || !a->user.head) {
        if (PR_GET(a->gate) & PR_GATE_BOXED)
            return NULL;   /* its messages are in its box */
        /* end_turn of a plain actor */
        w->running = NULL;
        PR_SET(a->state, PR_STATE_IDLE);
        if (a->user.head)
            pr_line_up(w, a);
        if (!goes_on_in_line(w)) {
            PR_SET(w->current, 0);
            return NULL;
        }
        w->tick++;
        begin_turn(w, a = next_pinned(w));
        if (a->flags & NOT_PLAIN || a->orders.head || a->ops != ops)
            return NULL;
    }
    m = a->user.head;
    if (m->kind != PR_MSG_USER || m->timed)
        return NULL;
    w->left--;
    pr_queue_pop(&a->user);
    PR_BUMP(a->depth, (uint32_t)-1);
    pr_hand_take(w, a, m);
    return m;
}

static void adopt(pr_worker *w, pr_actor *a, pr_msg *m, bool control)
{
    for (pr_msg *next; m; m = next) {
        next = m->next;
        bool reply = m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR;
        if (m->target != PR_GET(a->id) || reply) {
            /* Meant for an earlier bearer of the record; or a reply, which no floating actor waits for. */
            if (control) {
                pr_control_undelivered(w->rt, w, m);
            } else if (reply) {
                PR_BUMP(w->counters.late_replies, 1);
                pr_msg_free(&w->pool, m);
            } else {
                pr_dead_letter(w->rt, w, m, PR_DEAD_NOBODY);
            }
        } else if (control || pr_ties_order_lane(m)) {
            pr_queue_push(&a->orders, m);
        } else {
            pr_queue_push(&a->user, m);
            PR_BUMP(a->depth, 1);
        }
    }
}

/* A Lua actor's first turn: this worker keeps it. */
static void pin(pr_worker *w, pr_actor *a)
{
    /* release, and before the stacks are closed: a sender that finds them closed sees the home */
    atomic_store_explicit(&a->home, (uint16_t)(w->index + 1), memory_order_release);
    atomic_store_explicit(&a->sched, PR_PINNED, memory_order_release);
    adopt(w, a, pr_stack_close(&a->control), true);
    adopt(w, a, pr_stack_close(&a->mailbox), false);
}

void pr_worker_keep(pr_worker *w, pr_actor *a) { pin(w, a); }

/* In a turn that has lasted for a while, as far as one can see from here. */
static bool is_held_up(const pr_worker *w, uint64_t now_ms)
{
    return PR_GET(w->current) != 0 && now_ms > PR_GET(w->current_since_ms) + 1;
}

/* A Lua actor stays where it first runs. On the default dispatcher that is whoever is free first, since turns are short. On
 * the others they may be long, and two actors of one worker wait for each other: there an actor goes to the worker that has
 * the fewest, of those not held up. It floats on its way, SCHEDULED and in no queue, and is pinned where it arrives. False:
 * it is best kept here. */
static bool hand_over(pr_worker *w, pr_actor *a)
{
    pr_dispatcher *d = w->dispatcher;
    uint32_t least = PR_GET(w->residents), first = w->steal_from++;
    pr_worker *to = NULL;
    pr_worker_clock(w);
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *other = &d->workers[(first + i) % d->count];
        uint32_t residents = PR_GET(other->residents);
        if (residents < least && !is_held_up(other, w->now_ms)) {
            to = other;
            least = residents;
        }
    }
    pr_msg *m = to ? pr_msg_new(&w->pool, 0) : NULL;
    if (!m)
        return false;
    m->kind = PR_MSG_WAKE;
    m->target = PR_GET(a->id);
    pr_worker_count_resident(to, 1);
    /* It is there: workers leave when all actors have ended. */
    pr_stack_push(&to->control, m);
    pr_worker_wake(to);
    return true;
}

static void end_turn_floating(pr_worker *w, pr_actor *a);

static void turn_floating(pr_worker *w, pr_actor *a)
{
    bool stays = !(a->flags & PR_FLAG_FLOATS), call = a->kind == PR_KIND_CALL;
    if (stays) {
        if (w->dispatcher->index != PR_DISPATCHER_DEFAULT && !call && hand_over(w, a))
            return;
        pr_worker_count_resident(w, 1);
    }
    /* SCHEDULED -> PROCESSING: only whoever took it from the queue may. What the last owner did is seen:
     * its store of IDLE, the scheduler's CAS on it, and the push and take of the queue follow each other. */
    atomic_store_explicit(&a->sched, PR_PROCESSING, memory_order_relaxed);
    if (stays) {
        pin(w, a);
        turn_pinned(w, a, call);
        return;
    }
    w->floats = true;
    begin_turn(w, a);
    adopt(w, a, pr_stack_take(&a->control), true);
    adopt(w, a, pr_stack_take(&a->mailbox), false);
    run_messages(w, &a->control);
    w->floats = false;
    if (!w->cut)
        end_turn_floating(w, a);
}

static void end_turn_floating(pr_worker *w, pr_actor *a)
{
    PR_SET(w->current, 0);
    if (w->running != a)
        return;
    w->running = NULL;
    bool ending = a->flags & PR_FLAG_ENDING;
    if (a->orders.head || (ending ? !pr_actor_end_waits(a) : has_message(w, a) || a->flags & PR_FLAG_NEW)) {
        PR_SET(a->state, PR_STATE_SCHEDULED);
        atomic_store_explicit(&a->sched, PR_SCHEDULED, memory_order_relaxed);   /* published by the queue */
        pr_make_ready(w->rt, w, a);
        return;
    }
    PR_SET(a->state, PR_STATE_IDLE);
    /* Finish or reclaim. seq_cst on the store and on the looks: pairs with push and try_schedule of a
     * sender, of which either the message or the state is seen. After the store the record is no longer
     * ours, unless try_schedule gives it back. */
    bool boxed = !ending && PR_GET(a->gate) & PR_GATE_BOXED;   /* ending, it takes none of them now */
    atomic_store_explicit(&a->sched, PR_IDLE, memory_order_seq_cst);
    /* A sender puts its message into the box under the box's lock, and then looks at `sched`. */
    bool box_ready = boxed && pr_box_ready(w, a);
    if ((!pr_stack_empty(&a->mailbox) || !pr_stack_empty(&a->control) || box_ready) && pr_actor_try_schedule(a))
        pr_make_ready(w->rt, w, a);
}

/* --- what next */

/* How many of its new actors a worker may take from another one: half of them, but not so many that more actors would stay
 * here than there. Who is first at a burst of births would otherwise have nearly all of it: it takes half after half, while
 * the one that spawns goes on spawning. An even number, so that two that were spawned to talk to each other stay together.
 * Where turns may be long this is not what matters; see hand_over. */
static uint32_t share_of(const pr_worker *w, const pr_worker *victim, uint32_t count)
{
    if (w->dispatcher->index != PR_DISPATCHER_DEFAULT)
        return count;
    int64_t more = (int64_t)PR_GET(victim->residents) + count - PR_GET(w->residents);
    uint32_t share = more < 2 ? 0 : more / 2 < count ? (uint32_t)(more / 2) : count;
    return share > 1 ? share & ~1u : share;
}

/* `starved`: from whoever has any, and whatever its share. */
static pr_actor *steal(pr_worker *w, bool starved)
{
    pr_dispatcher *d = w->dispatcher;
    uint32_t first = w->rt->config.explore ? 0 : w->rt->tick ? (uint32_t)(pr_tick_draw(w->rt->tick) % d->count) : w->steal_from++;
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *victim = &d->workers[(first + i) % d->count];
        uint32_t count = victim == w ? 0 : pr_ring_count(&victim->ring), share = starved ? count : share_of(w, victim, count);
        if (share == 0 || (!starved && count < STEAL_MIN))
            continue;
        pr_actor *a = pr_ring_steal(&victim->ring, &w->ring, share);
        if (a) {
            PR_BUMP(w->counters.steals, 1);
            w->looted = true;
            return a;
        }
    }
    return NULL;
}

/* *floating: it came from a queue of floating actors. */
static pr_actor *next(pr_worker *w, bool *floating)
{
    pr_dispatcher *d = w->dispatcher;
    pr_actor *a;
    *floating = true;
    w->tick++;
    if (w->tick % GLOBAL_EVERY == 0 && (a = pr_global_take(&d->global, &w->ring, 1)))
        return a;
    if (w->tick % RING_EVERY == 0 || w->ring_first > 0) {
        if ((a = pr_ring_pop(&w->ring))) {
            w->ring_first -= w->ring_first > 0;
            return a;
        }
        w->ring_first = 0;
    }
    *floating = false;
    if ((a = next_pinned(w)))
        return a;
    *floating = true;
    if ((a = pr_ring_pop(&w->ring)))
        return a;
    /* A share of it; but one by one where a turn may be long, and whoever is free first should have the next. */
    uint32_t share = d->index == PR_DISPATCHER_DEFAULT ? PR_GET(d->global.count) / d->count + 1 : 1;
    if ((a = pr_global_take(&d->global, &w->ring, share < GLOBAL_SHARE ? share : GLOBAL_SHARE)))
        return a;
    return steal(w, w->rt->config.explore);
}

/* --- sleep */

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
        uint32_t count = pr_ring_count(&other->ring);
        if (count > 0 && (other == w || (count >= STEAL_MIN && share_of(w, other, count) > 0)))
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
                      pr_ring_count(&victim->ring) >= STEAL_MIN)) {
        pr_actor *a = pr_ring_steal(&victim->ring, &w->ring, PR_RING);
        if (a) {
            PR_BUMP(w->counters.steals, 1);
            w->looted = true;
        }
        return a;
    }
    return NULL;
}

/* Returns a floating actor to run at once, or NULL: look again. */
static pr_actor *sleep_or_watch(pr_worker *w)
{
    pr_runtime *rt = w->rt;
    pr_dispatcher *d = w->dispatcher;
    pr_worker *victim = NULL;
    /* Somebody who is answered at once is answered in less time than it takes to fall asleep and be woken. Who has just
     * woken another worker gives it the time to get up: otherwise two that talk to each other would go on sleeping
     * and waking each other, each gone when the other one comes. */
    uint32_t looks = w->woke ? 4 * w->spin_most : w->spin;
    w->woke = false;
    for (uint32_t i = 0; i < looks; i++) {
        if (pr_inbox_written(&w->inbox) || !pr_stack_empty(&w->control))
            return NULL;
        pr_relax();
    }
    if (rt->config.idle_worker && rt->config.idle_worker(w))
        return NULL;
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
    /* A short sleep would have been spared by looking for longer; after a long one, less will do. */
    bool shortly = notified && pr_now_ns() - since_ns < SHORTLY_NS;
    uint32_t spin = shortly ? 2 * w->spin + 1 : w->spin / 2, least = w->spin_most < SPIN_LEAST ? w->spin_most : SPIN_LEAST;
    w->spin = spin < least ? least : spin > w->spin_most ? w->spin_most : spin;
    if (notified && !counted_out)
        atomic_fetch_sub_explicit(&rt->active, 1, memory_order_seq_cst);
    if (!notified && counted_out)
        atomic_fetch_add_explicit(&rt->active, 1, memory_order_seq_cst);
    pr_worker_clock(w);
    return NULL;
}

/* --- the loop */

/* After taking some of a surplus: whoever else sleeps is told of the rest. */
static void pass_on(pr_worker *w)
{
    pr_dispatcher *d = w->dispatcher;
    if (atomic_load_explicit(&d->sleepers, memory_order_seq_cst) == 0)
        return;
    for (uint32_t i = 0; i < d->count; i++)
        if (pr_ring_count(&d->workers[i].ring) > 0) {
            wake_some(d, w);
            return;
        }
}

static void do_chores(pr_worker *w)
{
    if (w->chores & PR_CHORES) {
        w->chores &= (uint8_t)~PR_CHORES;
        w->rt->config.idle_worker(w);
    }
}

static void step(pr_worker *w)
{
    take_inboxes(w);
    do_chores(w);
    if (w->wheel.count > 0) {
        if (--w->clock_in == 0)
            pr_worker_clock(w);
        fire_timers(w);
    }
    bool floating;
    pr_actor *a = next(w, &floating);
    if (!a) {
        pr_worker_clock(w);
        fire_timers(w);
        if (w->ready_head || pr_ring_count(&w->ring) > 0)
            return;
        a = sleep_or_watch(w);
        floating = true;
        if (!a)
            return;
    }
    if (w->looted) {
        w->looted = false;
        pass_on(w);
    }
    if (floating) {
        turn_floating(w, a);
        return;
    }
    turn_pinned(w, a, 0);
    while (goes_on_in_line(w)) {
        w->tick++;
        if (--w->clock_in == 0)   /* those that only yield handle no message, which would count */
            pr_worker_clock(w);
        turn_pinned(w, next_pinned(w), 0);
    }
}

/* --- tick mode */

/* For a test any of those in line may be the next; but those with an order stay in front. */
static void choose_next(pr_worker *w)
{
    uint32_t n = 0;
    pr_actor *a = w->ready_head;
    for (const pr_actor *each = a; each && !w->ready_front; each = each->ready_next)
        n++;
    for (uint32_t k = n > 1 ? pr_explore_choose(w->rt->config.explore, n) : 0; k > 0; k--)
        a = a->ready_next;
    if (n > 1 && a != w->ready_head) {
        unlink_ready(w, a);
        a->in_ready = 1;
        a->ready_next = w->ready_head;
        a->ready_next->next_free = a;
        w->ready_head = a;
    }
}

bool pr_worker_tick(pr_worker *w)
{
    pr_actor *a = w->running;
    if (w->cut) {
        w->cut = false;
        w->left = w->left_then;
        bool floats = a && a->flags & PR_FLAG_FLOATS;
        w->floats = floats;
        run_messages(w, floats ? &a->control : NULL);
        w->floats = false;
        if (w->cut)
            return true;
        if (floats)
            end_turn_floating(w, a);
        else
            end_turn(w);
        return true;
    }
    take_inboxes(w);
    do_chores(w);
    pr_worker_clock(w);
    fire_timers(w);
    if (w->rt->config.explore)
        choose_next(w);
    bool floating;
    if (!(a = next(w, &floating)))
        return false;
    w->looted = false;   /* every worker looks around in its turn */
    w->turn_of = PR_GET(a->id);
    if (floating)
        turn_floating(w, a);
    else
        turn_pinned(w, a, 0);
    return true;
}

bool pr_worker_has_work(pr_worker *w)
{
    return !pr_stack_empty(&w->control) || pr_inbox_claimed(&w->inbox) || w->ready_head || w->chores & PR_CHORES ||
           atomic_load_explicit(&w->ended, memory_order_seq_cst) || pr_ring_count(&w->ring) > 0 ||
           atomic_load_explicit(&w->dispatcher->global.count, memory_order_seq_cst) > 0 ||
           atomic_load_explicit(&w->rt->exit, memory_order_seq_cst);
}

void pr_worker_close_inboxes(pr_worker *w)
{
    pr_user_timers_end(w, &w->timers);
    for (pr_msg *m = pr_stack_close(&w->control), *after; m; m = after) {
        after = m->next;
        pr_deliver_control(w, m);
    }
    pr_user_timers_end(w, &w->timers);
    pr_inbox_close(w);
}

void *pr_worker_main(void *worker)
{
    pr_worker *w = worker;
    pr_runtime *rt = w->rt;
    pr_dispatcher *d = w->dispatcher;
    char error[sizeof d->error] = "";
    pr_worker_here = w;
    pr_memory_here = rt->config.memory;
    int status = rt->config.open_worker ? rt->config.open_worker(w, error, sizeof error) : 0;
    pthread_mutex_lock(&rt->end_lock);
    d->opened++;
    if (status != 0 && !d->open_failed) {
        d->open_failed = true;
        snprintf(d->error, sizeof d->error, "%s", error);
    }
    pthread_cond_broadcast(&rt->end_changed);
    while (d->start == PR_START_WAITS)
        pthread_cond_wait(&rt->end_changed, &rt->end_lock);
    bool go = d->start == PR_START_GO;
    pthread_mutex_unlock(&rt->end_lock);
    if (go) {
        while (!atomic_load_explicit(&rt->exit, memory_order_acquire))
            step(w);
        pr_worker_close_inboxes(w);
    }
    if (status == 0 && rt->config.close_worker)
        rt->config.close_worker(w);
    pthread_mutex_lock(&rt->end_lock);
    rt->threads_alive--;
    pthread_cond_broadcast(&rt->end_changed);
    pthread_mutex_unlock(&rt->end_lock);
    return NULL;
}
