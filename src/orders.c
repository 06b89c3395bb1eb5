/* What comes to an actor in its control lane: to stop, a link's exit, monitors, its parent's word, its children's news.
 * It is looked at before the next message, and while a handler is suspended; all of it on the owner, in its turn. */
#include "life.h"
#include "look.h"
#include "trace.h"

#include <stdio.h>

/* --- to stop */

/* A handler that waits for its next message has finished the one in hand. */
bool pr_handlers_settle(pr_worker *w, pr_actor *a)
{
    bool waits = false, kill = a->flags & PR_FLAG_KILL;
    if (a->flags & PR_FLAG_SUSPENDED && a->wait) {
        if (kill) {
            pr_actor_abandon(w, a);
        } else if (a->wait->kind == PR_WAIT_RECEIVE && !(a->flags & PR_FLAG_ENDING)) {
            bool started = !(a->flags & PR_FLAG_STARTING);
            pr_actor_abandon(w, a);
            if (!started)
                pr_flags_set(a, PR_FLAG_STARTED);   /* it runs its loop in `start`: that life is owed its `stop` */
        } else {
            waits = true;
        }
    }
    if (pr_actor_reentrant(a)) {
        pr_parked_drop(w, a, !kill, NULL);
        waits |= a->extra->parked.count > 0;
    }
    if (waits)
        pr_deadline_arm(w, a);
    return !waits;
}

void pr_actor_told_to_stop(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->ordered)
        pr_flags_set(a, PR_FLAG_ORDERED);
    pr_flags_set(a, PR_FLAG_STOP);
    PR_SET(a->state, PR_STATE_STOPPING);
    if (a->restart != PR_RESTART_PERMANENT || a->flags & PR_FLAG_ORDERED) {
        pr_flags_clear(a, PR_FLAG_RESTART);
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
    }
    if (m->kind == PR_MSG_KILL || (a->extra && a->extra->shutdown_ms == 0))
        pr_flags_set(a, PR_FLAG_KILL);
    pr_extra *extra = m->count > 0 ? pr_actor_extra(a) : NULL;
    if (extra && !extra->stop_reason && !(a->flags & PR_FLAG_ENDING))
        extra->stop_reason = m;
    else
        pr_msg_free(&w->pool, m);

    bool for_good = a->restart != PR_RESTART_PERMANENT || a->flags & PR_FLAG_ORDERED;
    if (for_good && a->extra && a->extra->hold) {
        pr_msg_free(&w->pool, a->extra->token);
        a->extra->token = NULL;
        a->extra->hold = false;
    }
    switch (pr_actor_held(a)) {
    case PR_HELD_NOT:
        break;
    case PR_HELD_VERDICT:
        if (for_good)
            pr_life_end(w, a, false);
        return;
    default:
        if (for_good)
            a->extra->held = PR_HELD_OVER;
        return;
    }
    if (!pr_handlers_settle(w, a))
        return;
    if (a->flags & PR_FLAG_ENDING) {
        if (a->flags & PR_FLAG_KILL && PR_GET(a->children) > 0)
            pr_stop_children(w, a, PR_MSG_KILL);
        return;
    }
    pr_life_ends(w, a);
}

/* --- the parent's word */

static void told_to_hold(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (PR_GET(a->gate) & PR_GATE_STOPPING) {   /* it ends for good, once its handler is done: the group goes on from there */
        pr_msg_free(&w->pool, m);
        return;
    }
    pr_extra *extra = pr_actor_extra(a);
    if (!extra) {
        m->ordered = 1;
        m->kind = PR_MSG_STOP;
        pr_actor_told_to_stop(w, a, m);   /* no memory to hold it by: it ends */
        return;
    }
    if (extra->token)
        pr_msg_free(&w->pool, extra->token);
    extra->token = m;
    extra->hold = true;
    if (extra->held == PR_HELD_VERDICT) {
        pr_life_end(w, a, true);
    } else if (extra->held != PR_HELD_NOT) {
        pr_deadline_disarm(w, a);
        pr_life_waits_for_go(w, a);
    } else if (a->flags & PR_FLAG_NEW) {
        pr_flags_clear(a, PR_FLAG_NEW);
        pr_flags_set(a, PR_FLAG_ENDING | PR_FLAG_RESTART);
        pr_life_waits_for_go(w, a);
    } else if (!(a->flags & PR_FLAG_ENDING)) {
        pr_flags_set(a, PR_FLAG_STOP);
        PR_SET(a->state, PR_STATE_STOPPING);
        if (!extra->stop_reason && (extra->stop_reason = pr_msg_new(&w->pool, pr_wire_size_bytes(8)))) {
            pr_wire_put_string(extra->stop_reason->data, "shutdown", 8);
            extra->stop_reason->count = 1;
        }
        if (pr_handlers_settle(w, a))
            pr_life_ends(w, a);
    }   /* else its life ends already; if another one follows, it holds before that */
}

static void told_to_go(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_extra *extra = pr_actor_extra(a);
    if (!extra) {
        pr_msg_free(&w->pool, m);
        return;
    }
    if (extra->token)
        pr_msg_free(&w->pool, extra->token);
    extra->token = m;
    extra->hold = false;
    if (extra->held == PR_HELD_GO)
        extra->held = PR_HELD_OVER;
    else if (a->flags & PR_FLAG_STARTED)
        pr_token_return(w, a, PR_MSG_CHILD_STARTED);   /* it was not held */
}

static void told_verdict(pr_worker *w, pr_actor *a, pr_msg *m)
{
    uint8_t verdict = m->ordered;
    uint32_t delay_ms = m->ask;
    if (verdict == PR_VERDICT_HOLD || verdict == PR_VERDICT_GO) {
        if (verdict == PR_VERDICT_HOLD)
            told_to_hold(w, a, m);
        else
            told_to_go(w, a, m);
        return;
    }
    pr_msg_free(&w->pool, m);
    if (pr_actor_held(a) != PR_HELD_VERDICT)
        return;   /* too late: it has been held, or ended, meanwhile */
    pr_extra *extra = a->extra;
    if (verdict != PR_VERDICT_RESUME) {
        extra->delay_ms = delay_ms;
        pr_life_end(w, a, verdict == PR_VERDICT_RESTART);
        return;
    }
    extra->held = PR_HELD_NOT;
    pr_flags_clear(a, PR_FLAG_ENDING | PR_FLAG_FAILED);
    PR_SET(a->state, PR_STATE_PROCESSING);
    if (pr_actor_reentrant(a)) {
        pr_parked_flags(a);
        pr_parked_receive(w, a);   /* what came meanwhile has not been looked at */
    }
    pr_msg_drop(w, extra->stop_reason);
    extra->stop_reason = NULL;
    pr_family_goes_on(w, a);
}

/* --- links and monitors */

/* Whom it is linked to has ended. The payload is "exit", ref, reason: two values of 9 bytes, and the reason. */
static void told_of_exit(pr_worker *w, pr_actor *a, pr_msg *m)
{
    enum { BEFORE = 18 };
    static const uint8_t normal[] = {PR_TAG_STRING, 6, 0, 0, 0, 'n', 'o', 'r', 'm', 'a', 'l'};
    pr_end me = pr_actor_end_of(w, a, pr_actor_id(a));
    if (!a->extra || !pr_ties_take_exit(&me, m)) {
        pr_msg_free(&w->pool, m);
        return;
    }
    if (a->ops->kin && a->ops->kin->traps && a->ops->kin->traps(w, a)) {
        m->kind = PR_MSG_USER;
        PR_BUMP(w->counters.sent, 1);
        if (PR_GET(a->gate) & PR_GATE_BOXED) {
            pr_box_put(w, a, m);
            return;
        }
        pr_queue_push(&a->user, m);
        PR_BUMP(a->depth, 1);
        if (a->flags & PR_FLAG_RECEIVING && !(a->flags & PR_FLAG_ENDING))
            pr_actor_receives(w, a);
    } else if (m->size == BEFORE + sizeof normal && memcmp(m->data + BEFORE, normal, sizeof normal) == 0) {
        pr_msg_free(&w->pool, m);
    } else {
        m->size -= BEFORE;
        memmove(m->data, m->data + BEFORE, m->size);
        m->count = 1;
        m->kind = PR_MSG_STOP;
        pr_actor_told_to_stop(w, a, m);
    }
}

static void told_of_tie(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (!pr_actor_extra(a)) {
        pr_control_undelivered(w->rt, w, m);   /* no memory to watch it by: as if it were not there */
        return;
    }
    pr_end me = pr_actor_end_of(w, a, pr_actor_id(a));
    pr_ties_told(&me, m);
}

/* A wait that is interrupted ends as if its time was over; what its handler does next is the language's to prevent. */
static void told_interrupt(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (PR_GET(w->interrupt) == pr_actor_id(a) && a->flags & PR_FLAG_SUSPENDED && !(a->flags & PR_FLAG_RESUME) &&
        a->wait && a->ops->kin && a->ops->kin->interrupted) {
        a->ops->kin->interrupted(w, a);
        a->wait->timed_out = true;
        pr_wait_satisfy(w, a->wait);
    }
    pr_msg_free(&w->pool, m);
}

/* --- all of them */

void pr_actor_orders(pr_worker *w, pr_actor *a)
{
    pr_msg *m;
    while ((m = pr_queue_pop(&a->orders))) {
        switch (m->kind) {
        case PR_MSG_STOP: case PR_MSG_KILL:
            pr_actor_told_to_stop(w, a, m);
            break;
        case PR_MSG_EXIT:
            told_of_exit(w, a, m);
            break;
        case PR_MSG_MONITOR: case PR_MSG_DEMONITOR: case PR_MSG_LINK: case PR_MSG_UNLINK:
            told_of_tie(w, a, m);
            break;
        case PR_MSG_TRACE:
            pr_trace_told(w, a, m);
            break;
        case PR_MSG_LOOK:
            pr_look_told(w, a, m);
            break;
        case PR_MSG_INTERRUPT:
            told_interrupt(w, a, m);
            break;
        case PR_MSG_AWAIT:
            pr_await_told(w, a, m);
            break;
        case PR_MSG_VERDICT:
            told_verdict(w, a, m);
            break;
        case PR_MSG_CHILD_ENDS: case PR_MSG_CHILD_HELD: case PR_MSG_CHILD_STARTED: {
            bool stops = a->flags & PR_FLAG_STOP;
            pr_family_told(w, a, m);
            if (!stops && a->flags & PR_FLAG_STOP && !(a->flags & PR_FLAG_ENDING) && pr_handlers_settle(w, a))
                pr_life_ends(w, a);   /* on_failure has stopped its own actor */
            break;
        }
        default:
            pr_msg_free(&w->pool, m);
        }
    }
}
