/* How a message reaches an actor.
 *
 * Floating actor: into its own mailbox (a stack that many push to), and into a ready queue if it was idle.
 * Pinned actor: appended at once by a pinned sender on its worker; through its worker's inbox by everyone else.
 *
 * First in, first out from one sender to one target holds across the two seams:
 *  - pinning: the new home is written before the mailbox is closed, so a sender either is in the mailbox
 *    before it is taken over, or finds it closed and then sees the home. What lies in the mailbox is taken
 *    over before the owner looks at its inbox again.
 *  - stealing: a floating sender may be moved to the worker of its target while an earlier message of it
 *    still lies in that worker's inbox. So only pinned senders append directly. */
#include "port.h"
#include "send_timer.h"
#include "worker.h"

#include "alloc.h"

#include <string.h>

static bool is_pinned(const pr_worker *w)
{
    return w && !w->floats;
}

/* On the owner: the reply to an ask that its actor may be waiting for. */
static void take_reply(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_wait *wait = a->wait;
    if (!(wait && (wait->kind == PR_WAIT_ASK || wait->kind == PR_WAIT_SEND) && wait->ask == m->ask))
        wait = pr_actor_reentrant(a) ? pr_parked_ask(a, m->ask) : NULL;
    if (wait && !wait->reply && !wait->timed_out) {
        wait->reply = m;
        pr_wait_satisfy(w, wait);
        return;
    }
    PR_BUMP(w->counters.late_replies, 1);
    pr_msg_free(&w->pool, m);
}

static void append_order(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_queue_push(&a->orders, m);
    pr_make_ready_pinned(w, a, true);
}

static inline void has_message(pr_worker *w, pr_actor *a)
{
    if (!(a->flags & (PR_FLAG_SUSPENDED | PR_FLAG_ENDING))) {
        pr_line_up(w, a);
    } else if (a->flags & PR_FLAG_RECEIVING && !(a->flags & PR_FLAG_ENDING)) {
        pr_actor_receives(w, a);
    }
}

void pr_actor_has_message(pr_worker *w, pr_actor *a) { has_message(w, a); }

static inline void append_user(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_queue_push(&a->user, m);
    PR_BUMP(a->depth, 1);
    has_message(w, a);
}

/* On the owner, which has checked the id. */
static void append(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR) {
        take_reply(w, a, m);
        return;
    }
    if (pr_ties_order_lane(m)) {   /* behind what its sender has sent, and ahead of what is queued here */
        append_order(w, a, m);
        return;
    }
    append_user(w, a, m);
}

void pr_deliver(pr_worker *w, pr_msg *m)
{
    pr_actor *a = pr_actor_find(&w->rt->actors, m->target);
    bool reply = m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR;
    if (!a) {
        if (reply) {
            PR_BUMP(w->counters.late_replies, 1);
            pr_msg_free(&w->pool, m);
        } else {
            pr_dead_letter(w->rt, w, m, PR_DEAD_NOBODY);
        }
    } else if ((m->kind == PR_MSG_USER || m->kind == PR_MSG_DRAIN) && PR_GET(a->gate) & PR_GATE_STOPPING) {
        pr_dead_letter(w->rt, w, m, PR_DEAD_STOPPING);
    } else {
        append(w, a, m);
    }
}

void pr_deliver_control(pr_worker *w, pr_msg *m)
{
    if (m->kind == PR_MSG_BOX) {
        pr_box_noticed(w, m);
        return;
    }
    if (m->kind >= PR_MSG_TIMER_ARM && m->kind <= PR_MSG_TIMER_ORPHAN) {
        pr_user_timer_order(w, m);
        return;
    }
    pr_actor *a = pr_actor_find(&w->rt->actors, m->target);
    if (a && m->kind == PR_MSG_WAKE && PR_GET(a->home) == PR_HOME_FLOATING)
        pr_worker_keep(w, a);
    if (a)
        append_order(w, a, m);
    else
        pr_control_undelivered(w->rt, w, m);
}

/* The way of both lanes. PR_OK: `m` is the target's. */
static pr_status route(pr_runtime *rt, pr_worker *w, pr_msg *m, bool control)
{
    uint64_t target = m->target;
    pr_actor *a = pr_id_valid(target) ? pr_actor_slot(&rt->actors, pr_id_slot(target)) : NULL;
    bool refusable = m->kind == PR_MSG_USER || m->kind == PR_MSG_DRAIN;
    bool pinned = is_pinned(w);
    for (;;) {
        /* acquire pairs with the release at birth */
        if (!a || atomic_load_explicit(&a->id, memory_order_acquire) != target)
            return PR_DEAD;
        uint8_t gate = PR_GET(a->gate);
        if (refusable && gate & PR_GATE_STOPPING)
            return PR_STOPPING;
        if (gate & PR_GATE_BOXED && !control && (refusable || m->kind == PR_MSG_DOWN))
            return pr_box_send(rt, w, a, m);
        /* acquire pairs with the release in pin(): home before closed mailbox */
        uint16_t home = atomic_load_explicit(&a->home, memory_order_acquire);
        if (home == PR_HOME_FLOATING) {
            if (!pr_stack_push(control ? &a->control : &a->mailbox, m))
                continue;   /* pinned or ended meanwhile: the loop sees which */
            if (pr_actor_try_schedule(a))
                pr_make_ready(rt, w, a);
            return PR_OK;
        }
        if (home == PR_HOME_PORT) {
            if (control && m->kind != PR_MSG_MONITOR && m->kind != PR_MSG_DEMONITOR)
                return PR_DEAD;
            if (!pr_stack_push(&a->mailbox, m))
                continue;
            pr_port_wake(a);
            return PR_OK;
        }
        pr_worker *owner = &rt->workers[home - 1];
        if (owner == w && pinned) {
            if (control)
                append_order(w, a, m);
            else
                append(w, a, m);
            return PR_OK;
        }
        if (!(control ? pr_stack_push(&owner->control, m) : pr_inbox_push(owner, w, m)))
            return PR_STOPPING;   /* the worker has left */
        if (w)
            PR_BUMP(w->counters.far, 1);
        if (pr_worker_wake(owner) && w) {
            PR_BUMP(w->counters.wakes, 1);
            w->woke = true;
        }
        return PR_OK;
    }
}

pr_status pr_send(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    bool near = w && w->running && !w->floats && m->kind == PR_MSG_USER && pr_id_valid(m->target) && pr_send_near(w, m);
    return near ? PR_OK : pr_send_far(rt, w, m);
}

pr_status pr_send_far(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    if (w)
        w->burst--;
    /* Often one to an actor that has not begun yet: as in `route`. */
    pr_actor *a = w && m->kind == PR_MSG_USER && pr_id_valid(m->target) ? pr_actor_slot(&rt->actors, pr_id_slot(m->target)) : NULL;
    if (a && atomic_load_explicit(&a->id, memory_order_acquire) == m->target && !PR_GET(a->gate) &&
        atomic_load_explicit(&a->home, memory_order_acquire) == PR_HOME_FLOATING && pr_stack_push(&a->mailbox, m)) {
        if (pr_actor_try_schedule(a))
            pr_make_ready(rt, w, a);
        PR_BUMP(w->counters.sent, 1);
        return PR_OK;
    }
    bool counts = m->kind == PR_MSG_USER;
    pr_status status = route(rt, w, m, false);   /* `m` may be gone after PR_OK */
    if (counts) {
        if (status == PR_OK)
            PR_COUNT(rt, w, sent, 1);
        else
            PR_COUNT(rt, w, rejected, 1);
    }
    return status;
}

pr_status pr_control(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    return route(rt, w, m, true);
}

void pr_reply(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    pr_asker_is_answered(rt, m->target, m->sender);
    PR_COUNT(rt, w, replies, 1);   /* before it is out: who has it finds it counted */
    if (route(rt, w, m, false) == PR_OK)
        return;
    PR_COUNT(rt, w, replies, (uint64_t)-1);
    PR_COUNT(rt, w, late_replies, 1);
    pr_msg_free(w ? &w->pool : NULL, m);
}

void pr_reply_error(pr_runtime *rt, pr_worker *w, pr_msg *m, const char *kind, const char *text)
{
    if (m->ask == 0)
        return;
    size_t kind_len = strlen(kind), text_len = strlen(text);
    pr_msg *reply = pr_msg_new(w ? &w->pool : NULL,
                               pr_wire_size_bytes(kind_len) + pr_wire_size_bytes(text_len) + 2);
    if (reply) {
        uint8_t *at = pr_wire_put_string(reply->data, kind, kind_len);
        at = pr_wire_put_string(at, text, text_len);
        at[0] = at[1] = PR_TAG_NIL;
        reply->count = 4;
        reply->kind = PR_MSG_ERROR;
        reply->target = m->sender;
        reply->sender = m->target;
        reply->ask = m->ask;
        pr_reply(rt, w, reply);
    }   /* no memory: the asker's time limit answers */
    m->ask = 0;
}

static const char *const dead_reasons[PR_DEAD_REASONS] = {"dead", "stopping", "unhandled", "shutdown", "full", "drop_newest",
                                                             "drop_oldest"};

const char *pr_dead_reason_name(enum pr_dead_reason reason)
{
    return dead_reasons[reason];
}

enum pr_dead_reason pr_dead_reason_named(const char *name)
{
    for (int i = 0; i < PR_DEAD_REASONS; i++)
        if (strcmp(dead_reasons[i], name) == 0)
            return (enum pr_dead_reason)i;
    return PR_DEAD_NOBODY;
}

void pr_dead_letter(pr_runtime *rt, pr_worker *w, pr_msg *m, enum pr_dead_reason reason)
{
    pr_msg_pool *pool = w ? &w->pool : NULL;
    if (m->kind != PR_MSG_USER) {
        pr_control_undelivered(rt, w, m);
        return;
    }
    if (m->timed && !pr_user_timer_deliver(rt, w, m)) {
        PR_COUNT(rt, w, cancelled, 1);
        pr_msg_free(pool, m);
        return;
    }
    PR_COUNT(rt, w, dead[reason], 1);
    pr_event_dead_letter(rt, w, m, dead_reasons[reason]);
    if (m->ask && reason >= PR_DEAD_FULL)
        pr_reply_error(rt, w, m, "full", reason == PR_DEAD_FULL ? "its mailbox is full" : "its mailbox was full: dropped");
    else if (m->ask)
        pr_reply_error(rt, w, m, reason == PR_DEAD_UNHANDLED ? "failed" : "dead",
                       reason == PR_DEAD_UNHANDLED ? "nothing in its behaviour takes this message"
                                                   : "the actor has ended");
    if (pr_log_on(&rt->log, PR_LOG_DEBUG)) {
        char to[160];
        uint32_t len = 0;
        const char *first = pr_msg_first_string(m, &len);
        pr_actor_describe(rt, m->target, to, sizeof to);
        pr_logf(&rt->log, PR_LOG_DEBUG, "dead letter (%s) for %s: %.*s", dead_reasons[reason], to,
                first ? (int)(len < 60 ? len : 60) : 0, first ? first : "");
    }
    pr_msg_free(pool, m);
}

void pr_actor_interrupt(pr_runtime *rt, pr_worker *w, uint64_t target)
{
    const pr_actor *a = pr_actor_find(&rt->actors, target);
    uint16_t home = a ? PR_GET(a->home) : PR_HOME_FLOATING;
    pr_msg *m = home != PR_HOME_FLOATING && home != PR_HOME_PORT ? pr_msg_new(w ? &w->pool : NULL, 0) : NULL;
    if (!m)
        return;
    PR_SET(rt->workers[home - 1].interrupt, target);   /* before the message, whose push and take put it in order */
    m->kind = PR_MSG_INTERRUPT;
    m->target = target;
    if (pr_control(rt, w, m) != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, m);
}

pr_status pr_order(pr_runtime *rt, pr_worker *w, uint64_t target, uint8_t kind, pr_msg *reason, bool ordered)
{
    pr_msg_pool *pool = w ? &w->pool : NULL;
    pr_msg *m = reason ? reason : pr_msg_new(pool, 0);
    if (!m)
        return PR_NOMEM;
    m->kind = kind;
    m->target = target;
    m->sender = 0;
    m->ask = 0;
    m->ordered = ordered;
    pr_status status = kind == PR_MSG_DRAIN ? pr_send(rt, w, m) : pr_control(rt, w, m);
    if (status != PR_OK)
        pr_msg_free(pool, m);
    return status;
}
