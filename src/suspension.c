/* What a worker holds of a handler that is running or suspended: the message in hand, and the wait.
 *
 * A wait has one end: it is resumed (pr_actor_resume), taken back because the call did not suspend after all
 * (pr_actor_unwait), or dropped with its handler (pr_actor_abandon). All on the actor's owner. */
#include "worker.h"

#include "alloc.h"

#include <string.h>

/* --- the message in hand */

void pr_hand_finish(pr_worker *w, const char *kind, const char *text)
{
    while (w->hand) {
        pr_msg *m = w->hand;
        w->hand = m->next;
        if (m->ask)
            pr_reply_error(w->rt, w, m, kind, text);
        pr_msg_free(&w->pool, m);
    }
}

void pr_hand_failed(pr_worker *w, pr_actor *a, const pr_msg *error)
{
    for (pr_msg *m = w->hand; m; m = m->next) {
        pr_msg *reply = m->ask ? pr_msg_copy(&w->pool, error) : NULL;
        if (!reply)
            continue;
        reply->kind = PR_MSG_ERROR;
        reply->target = m->sender;
        reply->sender = PR_GET(a->id);
        reply->ask = m->ask;
        m->ask = 0;
        pr_reply(w->rt, w, reply);
    }
}

/* --- suspension */

void pr_wait_satisfy(pr_worker *w, pr_wait *wait)
{
    pr_actor *a = wait->actor;
    pr_wheel_cancel(&w->wheel, &wait->alarm.timer);
    if (wait->parked) {
        pr_parked_ready(wait);
        if (a->flags & PR_FLAG_ENDING)
            return;   /* it has failed: what becomes of this one is decided by its parent */
    }
    a->flags = (uint16_t)(a->flags | PR_FLAG_RESUME);
    pr_make_ready_pinned(w, a, false);
}

static void time_out(pr_worker *w, pr_alarm *alarm)
{
    pr_wait *wait = (pr_wait *)alarm;
    wait->timed_out = true;
    pr_wait_satisfy(w, wait);
}

void pr_actor_receives(pr_worker *w, pr_actor *a)
{
    if (a->wait && a->wait->kind == PR_WAIT_RECEIVE)
        pr_wait_satisfy(w, a->wait);
    else if (pr_actor_reentrant(a))
        pr_parked_receive(w, a);
}

void pr_wait_unbox(pr_worker *w, pr_wait *wait)
{
    if (wait->box_of && !wait->reply)
        pr_box_cancel(w->rt, w, wait->box_of, PR_GET(wait->actor->id), wait->ask);
    wait->box_of = 0;
}

void pr_wait_free(pr_worker *w, pr_wait *wait)
{
    pr_wait_unbox(w, wait);
    pr_wheel_cancel(&w->wheel, &wait->alarm.timer);
    if (wait->reply)
        pr_msg_free(&w->pool, wait->reply);
    wait->next = w->free_waits;
    w->free_waits = wait;
}

void pr_actor_unwait(pr_worker *w, pr_actor *a)
{
    pr_wait_free(w, a->wait);
    a->wait = NULL;
    pr_waits_no_more(a);
    a->flags = (uint16_t)(a->flags & ~PR_FLAG_RESUME);   /* it may have been satisfied already */
    if (pr_actor_reentrant(a) && a->extra->parked.ready.first)
        a->flags |= PR_FLAG_RESUME;
}

/* Never early: what has passed of the running millisecond does not count. */
static void limit(pr_worker *w, pr_wait *wait, uint64_t ms)
{
    if (wait->kind != PR_WAIT_SLEEP && ms > 0 && !w->rt->tick) {
        pr_wheel_add_later(&w->wheel, &wait->alarm.timer, ms + 1);
        return;
    }
    pr_worker_clock(w);
    pr_wheel_add(&w->wheel, &wait->alarm.timer, w->now_ms + ms + (ms > 0));
}

pr_wait *pr_actor_wait(pr_worker *w, uint8_t kind, uint64_t ms)
{
    pr_wait *wait = w->free_waits;
    if (wait)
        w->free_waits = wait->next;
    else if (!(wait = pr_alloc(sizeof *wait)))
        return NULL;
    memset(wait, 0, sizeof *wait);
    if (w->running->wait)   /* left behind by a call that could not suspend after all */
        pr_actor_unwait(w, w->running);
    wait->alarm.fire = time_out;
    wait->actor = w->running;
    wait->kind = kind;
    w->running->wait = wait;
    if (ms != UINT64_MAX)
        limit(w, wait, ms);
    return wait;
}

void pr_actor_abandon(pr_worker *w, pr_actor *a)
{
    pr_wait *wait = a->wait;
    a->ops->abandon(w, a, wait->suspended);
    w->hand = wait->hand;
    pr_hand_finish(w, "dead", "the actor was ended while it handled this");
    pr_wait_free(w, wait);
    a->wait = NULL;
    pr_waits_no_more(a);
    a->flags = (uint16_t)(a->flags & ~(PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING | PR_FLAG_STARTING |
                                    PR_FLAG_IN_STOP));
}
