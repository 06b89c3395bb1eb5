/* A worker's loop: what it takes next, how it runs an actor's turn, and how it looks for work
 * elsewhere. See worker.h for who owns what, placement.c and sleep.c for the rest of a worker. */
#include "worker.h"

#include "alloc.h"
#include "explore.h"
#include "life.h"
#include "send_timer.h"
#include "tick.h"

#include <stdio.h>
#include <string.h>

enum {
    GLOBAL_EVERY = 61,      /* as in Go's scheduler */
    RING_EVERY = 8,
    FAR_TURNS = 32,
    LOOK_EVERY = 32,        /* takes without anything between two looks at what others have, as long as messages come in */
    BRIEF = 256, BRIEF_MS = 3,
    BRIEF_NS = 500,         /* a life: from about a microsecond on, two workers get more of them done than one */
    GLOBAL_SHARE = 128,
    INBOX_LINES = 1024,     /* 64 KB: a quarter of it takes a third more in fork-join throughput and fan-in ... */
    INBOX_LINES_LEAST = 128 /* ... which are not run on dispatchers whose handlers may block */
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
    w->processor = -1;
    /* The default dispatcher has the cores. What others would gain by looking for long, they would take from it. */
    w->spin_most = d->index == PR_DISPATCHER_DEFAULT || rt->config.spin < PR_SPIN_LEAST ? rt->config.spin : PR_SPIN_LEAST;
    w->spin = w->spin_most;
    w->steal_from = index - d->first + 1;
    pr_stack_open(&w->control);
    w->random = (rt->config.seeded ? rt->config.seed : pr_now_ns()) ^ (uint64_t)index << 56;
    w->now_ms = pr_clock_ns(rt) / 1000000;
    pr_wheel_init(&w->wheel, w->now_ms);
    if (pr_inbox_init(&w->inbox, d->index == PR_DISPATCHER_DEFAULT ? INBOX_LINES : INBOX_LINES_LEAST) != 0)
        return -1;
    if (pr_spill_init(&w->spill) == 0) {
        if (pr_parker_init(&w->parker) == 0)
            return 0;
        pr_spill_destroy(&w->spill);
    }
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
    pr_spill_destroy(&w->spill);
    pr_parker_destroy(&w->parker);
}

/* --- becoming ready */

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
    if (w->wheel.later.head)
        pr_wheel_begin(&w->wheel, w->now_ms);
    pr_worker_note_processor(w);
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
           !(tick % GLOBAL_EVERY == 0 && (PR_GET(w->dispatcher->global.count) > 0 || PR_GET(w->spill.count) > 0 || PR_GET(w->ended)));
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
    pr_msg *orders = pr_stack_close(&a->control);
    if (orders)
        adopt(w, a, orders, true);
    pr_msg *messages = pr_stack_close(&a->mailbox);
    if (messages)
        adopt(w, a, messages, false);
}

void pr_worker_keep(pr_worker *w, pr_actor *a) { pin(w, a); }

/* Lives that end as soon as they begin cost less than their way to another worker, whose caches have nothing of them. */
static void judge(pr_worker *w)
{
    uint64_t ended = PR_GET(w->counters.ended), now = pr_clock_ns(w->rt);
    bool brief = ended - w->ended_then >= BRIEF * 3 / 4 && now - w->judged_ns < (uint64_t)BRIEF * BRIEF_NS;
    PR_SET(w->brief_until_ms, brief ? w->now_ms + BRIEF_MS : 0);
    w->ended_then = ended;
    w->judged_ns = now;
}

/* Here its first turn runs: it stays. SCHEDULED -> PROCESSING: only whoever took it from the queue may. What the last owner did
 * is seen: its store of IDLE, the scheduler's CAS on it, and the push and take of the queue follow each other. */
static void keep(pr_worker *w, pr_actor *a)
{
    PR_BUMP(w->residents, 1);
    if (++w->kept % BRIEF == 0)
        judge(w);
    atomic_store_explicit(&a->sched, PR_PROCESSING, memory_order_relaxed);
    pin(w, a);
}

/* --- from message to message, without coming back to the loop */

enum { NOT_PLAIN = SPECIAL | PR_FLAG_STOP | PR_FLAG_FLOATS | PR_FLAG_APART };

/* The next of the new actors of this worker, if it is one's turn and nothing calls for anything else first: as in `next`. */
static pr_actor *newborn_in_line(pr_worker *w)
{
    uint32_t tick = w->tick + 1;
    if ((w->ready_head && w->ring_first == 0 && tick % RING_EVERY != 0) || w->chores || w->looted || w->rt->tick ||
        w->dispatcher->index != PR_DISPATCHER_DEFAULT || !pr_stack_empty(&w->control) || PR_GET(w->ended) ||
        (w->wheel.count > 0 && w->fired_ms != w->now_ms) ||
        (tick % RING_EVERY == 0 && wants_more(w) && pr_inbox_written(&w->inbox)) ||
        (tick % GLOBAL_EVERY == 0 && (PR_GET(w->dispatcher->global.count) > 0 || PR_GET(w->spill.count) > 0)))
        return NULL;
    pr_actor *a = pr_ring_pop(&w->ring);
    w->ring_first -= a && w->ring_first > 0;
    return a;
}

/* It stops of itself, and nobody has to be asked: its end can begin here, as it would in pr_handler_done. */
static bool ends_at_once(pr_worker *w, pr_actor *a)
{
    enum { MORE = SPECIAL | PR_FLAG_KILL | PR_FLAG_FAILED | PR_FLAG_FLOATS | PR_FLAG_APART };
    return !(a->flags & MORE) && !a->extra && !(PR_GET(a->gate) & PR_GATE_BOXED) && a->restart != PR_RESTART_PERMANENT && a->kind == PR_KIND_ACTOR &&
           a->ops->kin && a->ops->kin->ends_silently && a->ops->kin->ends_silently(w, a);
}

/* After a turn that has ended with nothing left to do: the next actor in line, or a new one, begins its turn. False: back to the
 * loop. */
static bool goes_on(pr_worker *w)
{
    if (goes_on_in_line(w)) {
        w->tick++;
        begin_turn(w, next_pinned(w));
        return true;
    }
    pr_actor *a = newborn_in_line(w);
    if (!a)
        return false;
    if (a->flags & (NOT_PLAIN & ~PR_FLAG_NEW) || a->kind != PR_KIND_ACTOR) {
        w->popped = a;
        return false;
    }
    w->tick++;
    keep(w, a);
    begin_turn(w, a);
    return true;
}

pr_msg *pr_worker_next_message(pr_worker *w, bool *born)
{
    pr_actor *a = w->running;
    pr_msg *m = w->hand;
    *born = false;
    if (!a || a->wait || w->resumed)
        return NULL;
    bool ends = false;
    if (m && !(a->flags & NOT_PLAIN)) {   /* mostly */
        if (m->next || m->ask)
            return NULL;
    } else {
        ends = a->flags & PR_FLAG_STOP;
        if (a->flags & (NOT_PLAIN & ~PR_FLAG_STOP) || (m ? m->next || m->ask : !(a->flags & PR_FLAG_STARTING) || a->extra))
            return NULL;
    }
    const pr_ops *ops = a->ops;   /* these know nothing of another language's actors */
    if (--w->clock_in == 0) {
        pr_worker_clock(w);
        if (w->cut)
            return NULL;
    }
    if (!pr_stack_empty(&w->control) || a->orders.head || (ends && !ends_at_once(w, a)))
        return NULL;
    if (m) {
        w->hand = NULL;
        pr_msg_free(&w->pool, m);
    } else {
        a->flags = (uint16_t)((a->flags & ~PR_FLAG_STARTING) | PR_FLAG_STARTED);
    }
    if (ends)
        pr_life_ends_at_once(w, a);
    while (ends || w->left == 0 || !a->user.head) {
        if (!ends) {
            if (PR_GET(a->gate) & PR_GATE_BOXED)
                return NULL;   /* its messages are in its box */
            /* end_turn of a plain actor */
            w->running = NULL;
            PR_SET(a->state, PR_STATE_IDLE);
            if (a->user.head)
                pr_line_up(w, a);
        }
        ends = false;
        if (!goes_on(w)) {
            PR_SET(w->current, 0);
            return NULL;
        }
        a = w->running;
        if (a->flags & NOT_PLAIN || a->orders.head || a->ops != ops) {
            *born = (a->flags & NOT_PLAIN) == PR_FLAG_NEW && !a->orders.head && a->ops == ops;
            return NULL;
        }
    }
    m = a->user.head;
    if (m->kind != PR_MSG_USER || m->timed)
        return NULL;
    w->left--;
    pr_queue_pop(&a->user);
    __builtin_prefetch(a->user.head);
    PR_BUMP(a->depth, (uint32_t)-1);
    pr_hand_take(w, a, m);
    return m;
}

static void end_turn_floating(pr_worker *w, pr_actor *a);

static void turn_floating(pr_worker *w, pr_actor *a)
{
    bool stays = !(a->flags & PR_FLAG_FLOATS), call = a->kind == PR_KIND_CALL;
    if (stays) {
        if (w->dispatcher->index != PR_DISPATCHER_DEFAULT && !call && pr_worker_hand_over(w, a))
            return;
        keep(w, a);
        turn_pinned(w, a, call);
        return;
    }
    atomic_store_explicit(&a->sched, PR_PROCESSING, memory_order_relaxed);   /* as in `keep` */
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

/* *floating: it came from a queue of floating actors. */
static pr_actor *next(pr_worker *w, bool *floating)
{
    pr_dispatcher *d = w->dispatcher;
    pr_actor *a;
    *floating = true;
    if ((a = w->popped)) {
        w->popped = NULL;
        return a;
    }
    w->tick++;
    if (w->tick % GLOBAL_EVERY == 0 &&
        ((a = pr_global_take(&d->global, &w->ring, 1)) || (a = pr_spill_take(&w->spill, &w->ring, 1, true))))
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
    if ((a = pr_ring_pop(&w->ring)) || (a = pr_spill_take(&w->spill, &w->ring, PR_RING / 2 + 1, false)))
        return a;
    /* A share of it; but one by one where a turn may be long, and whoever is free first should have the next. */
    uint32_t share = d->index == PR_DISPATCHER_DEFAULT ? PR_GET(d->global.count) / d->count + 1 : 1;
    if ((a = pr_global_take(&d->global, &w->ring, share < GLOBAL_SHARE ? share : GLOBAL_SHARE)))
        return a;
    /* A look takes cache lines from whoever has work. */
    if (w->look_in > 0 && !w->rt->tick) {
        w->look_in--;
        return NULL;
    }
    if (!(a = pr_worker_steal(w, w->rt->config.explore)))
        w->look_in = LOOK_EVERY;
    return a;
}

/* --- the loop */

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
        if (w->ready_head || pr_ring_count(&w->ring) > 0 || PR_GET(w->spill.count) > 0)
            return;
        a = pr_worker_sleep(w);
        floating = true;
        if (!a)
            return;
    }
    if (w->looted) {
        w->looted = false;
        pr_worker_pass_on(w);
    }
    if (floating) {
        turn_floating(w, a);
        return;
    }
    turn_pinned(w, a, 0);
    while (!w->popped && goes_on_in_line(w)) {   /* who has been popped comes first, before another one may be */
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
        pr_worker_drop_spares(w);
    }
    if (status == 0 && rt->config.close_worker)
        rt->config.close_worker(w);
    pthread_mutex_lock(&rt->end_lock);
    rt->threads_alive--;
    pthread_cond_broadcast(&rt->end_changed);
    pthread_mutex_unlock(&rt->end_lock);
    return NULL;
}
