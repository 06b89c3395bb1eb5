/* Runs what a language does for an actor (start, a message, the rest of a suspended handler), and what its outcome means:
 * done, suspended, failed, unhandled. One handler at a time: w->running's, with w->hand as the message in hand. */
#include "explore.h"
#include "life.h"
#include "send_timer.h"
#include "trace.h"

static void answer_await(pr_worker *w, pr_actor *a, pr_msg *m)
{
    m->kind = PR_MSG_REPLY;
    m->target = m->sender;
    m->sender = pr_actor_id(a);
    pr_reply(w->rt, w, m);
}

void pr_await_told(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_extra *extra;
    if (a->flags & PR_FLAG_STARTED && !(a->flags & PR_FLAG_ENDING)) {
        answer_await(w, a, m);
    } else if ((extra = pr_actor_extra(a))) {
        m->next = extra->awaits;
        extra->awaits = m;
    } else {
        pr_control_undelivered(w->rt, w, m);
    }
}

static void say_started(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (extra->token && !extra->hold)
        pr_token_return(w, a, PR_MSG_CHILD_STARTED);
    for (pr_msg *m; (m = extra->awaits);) {
        extra->awaits = m->next;
        answer_await(w, a, m);
    }
}

/* After ops have returned from start, a message, or stop. */
void pr_handler_done(pr_worker *w, pr_actor *a, pr_outcome outcome)
{
    bool reentrant = pr_actor_reentrant(a);
    if (outcome == PR_SUSPENDED) {
        pr_wait *wait = a->wait;
        wait->hand = w->hand;
        w->hand = NULL;
        bool stands_back = wait->kind == PR_WAIT_STOOD_BACK || wait->kind == PR_WAIT_SLICED;
        bool yields = wait->kind == PR_WAIT_YIELD || stands_back;
        if (wait->kind == PR_WAIT_SLICED)
            w->clock_in = 1;   /* that was long */
        if (yields) {   /* others first, the started ones and the new ones */
            w->left = w->left_then = 0;
            w->ring_first = pr_ring_count(&w->ring);
        }
        if (reentrant && !stands_back && !(a->flags & (PR_FLAG_STARTING | PR_FLAG_IN_STOP))) {
            pr_park(a);
        } else {
            pr_flags_set(a, PR_FLAG_SUSPENDED | (yields ? PR_FLAG_RESUME : 0) |
                             (wait->kind == PR_WAIT_RECEIVE ? PR_FLAG_RECEIVING : 0));
            if (wait->reply || wait->timed_out)
                pr_flags_set(a, PR_FLAG_RESUME);
        }
        if (a->flags & (PR_FLAG_STOP | PR_FLAG_IN_STOP))
            pr_deadline_arm(w, a);
        return;
    }
    if (reentrant && a->wait)   /* left behind by a call that did not suspend after all, while others are parked */
        pr_actor_unwait(w, a);
    if (outcome == PR_FAILED) {
        pr_life_fails(w, a);
        return;
    }
    pr_hand_finish(w, "failed", "a message taken by receive was not answered");
    if (a->flags & PR_FLAG_IN_STOP) {
        pr_life_over(w, a);
        return;
    }
    if (a->flags & PR_FLAG_STARTING) {
        pr_flags_clear(a, PR_FLAG_STARTING);
        pr_flags_set(a, PR_FLAG_STARTED);
        if (a->extra)
            say_started(w, a);
    }
    if (reentrant)
        pr_parked_flags(a);
    if (a->flags & PR_FLAG_STOP && (!reentrant || pr_handlers_settle(w, a)))
        pr_life_ends(w, a);
}

void pr_actor_starts(pr_worker *w, pr_actor *a)
{
    pr_flags_clear(a, PR_FLAG_NEW);
    pr_flags_set(a, PR_FLAG_STARTING);
    w->hand = NULL;
}

void pr_actor_start(pr_worker *w, pr_actor *a)
{
    pr_actor_starts(w, a);
    if (a->flags & PR_FLAG_APART && w->rt->config.explore)
        pr_explore_note(w, a, PR_EXPLORED_START, NULL);
    pr_handler_done(w, a, a->ops->start(w, a));
}

/* What else comes in the user lane. False: it is dealt with. */
static bool turned_to_user(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->kind == PR_MSG_DRAIN) {
        pr_actor_told_to_stop(w, a, m);
        return false;
    }
    pr_end me = pr_actor_end_of(w, a, pr_actor_id(a));
    if (a->extra && pr_ties_take_down(&me, m))
        return true;
    pr_msg_free(&w->pool, m);
    return false;
}

void pr_actor_handle(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->timed && !pr_user_timer_deliver(w->rt, w, m)) {
        PR_BUMP(w->counters.cancelled, 1);
        pr_msg_free(&w->pool, m);
        return;
    }
    if (m->kind != PR_MSG_USER && !turned_to_user(w, a, m))
        return;
    pr_hand_take(w, a, m);
    if (a->flags & PR_FLAG_APART)
        pr_trace_begins(w, a, m);
    pr_outcome outcome = a->ops->receive(w, a, m);
    /* Ops may have gone on to other messages and actors: the outcome is that of what is in hand now. */
    a = w->running;
    m = w->hand;
    if (m && a->flags & PR_FLAG_APART && outcome != PR_SUSPENDED)
        pr_trace_ends(w, a, outcome);
    if (outcome == PR_UNHANDLED) {
        PR_BUMP(a->handled, (uint64_t)-1);
        PR_BUMP(w->counters.handled, (uint64_t)-1);
        w->hand = NULL;
        pr_dead_letter(w->rt, w, m, PR_DEAD_UNHANDLED);
        return;
    }
    /* Unless it is the start of a new one that is in hand; not one that has been suspended before, whose turn comes. */
    if (outcome == PR_DONE && !m && !(a && a->flags & PR_FLAG_STARTING && !(a->flags & PR_FLAG_SUSPENDED)))
        return;
    if (outcome == PR_DONE && m && !m->next && !(a->flags & PR_FLAG_STOP)) {
        w->hand = NULL;   /* the common case */
        if (m->ask)
            pr_reply_error(w->rt, w, m, "failed", "the handler gave no reply");
        pr_msg_free(&w->pool, m);
        return;
    }
    pr_handler_done(w, a, outcome);
}

void pr_actor_resume(pr_worker *w, pr_actor *a)
{
    pr_wait *wait = a->wait;
    if (wait) {
        a->wait = NULL;
        pr_flags_clear(a, PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING);
        if (pr_actor_reentrant(a) && a->extra->parked.receiving > 0)   /* as in pr_unpark */
            pr_flags_set(a, PR_FLAG_SUSPENDED | PR_FLAG_RECEIVING);
    } else {
        wait = pr_unpark(a);
    }
    w->hand = wait->hand;
    pr_waits_no_more(a);
    w->resumed = wait;
    pr_wait_unbox(w, wait);
    if (a->flags & PR_FLAG_APART && w->rt->config.explore)
        pr_explore_note(w, a, PR_EXPLORED_RESUME, wait->kind == PR_WAIT_ASK ? wait->reply : NULL);
    pr_outcome outcome = a->ops->resume(w, a);
    w->resumed = NULL;
    pr_wait_free(w, wait);
    if (a->flags & PR_FLAG_APART && outcome != PR_SUSPENDED)
        pr_trace_ends(w, a, outcome);
    pr_handler_done(w, a, outcome);
}
