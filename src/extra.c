/* What only few actors have (pr_extra), hung off the record when it is first needed; and the alarm in it: the time to stop
 * in, the back-off between two lives, and another try where memory was short. */
#include "life.h"
#include "trace.h"

#include "alloc.h"

/* The time to stop in is over: what is suspended is dropped. Or there was no memory to tell the children: again. */
static void fires(pr_worker *w, pr_alarm *alarm)
{
    pr_actor *a = ((pr_extra *)(void *)((char *)alarm - offsetof(pr_extra, deadline)))->actor;
    if (a->extra->held == PR_HELD_DELAY) {
        a->extra->held = PR_HELD_OVER;
        pr_make_ready_pinned(w, a, false);
        return;
    }
    if (!(a->flags & PR_FLAG_SUSPENDED)) {
        if (a->flags & PR_FLAG_CHILDREN)
            pr_stop_children(w, a, a->flags & PR_FLAG_KILL ? PR_MSG_KILL : PR_MSG_STOP);
        return;
    }
    char who[256], where[160] = "";
    pr_actor_describe(w->rt, pr_actor_id(a), who, sizeof who);
    const pr_wait *wait = a->wait;
    if (!wait)
        wait = a->extra->parked.waiting.first ? a->extra->parked.waiting.first : a->extra->parked.ready.first;
    if (a->ops->where)
        a->ops->where(w, wait->suspended, where, sizeof where);
    pr_logf_of(&w->rt->log, pr_actor_id(a), PR_LOG_WARN, "%s did not stop within %g s: its suspended handler is dropped%s%s", who,
            (double)a->extra->shutdown_ms / 1000, where[0] ? " at " : "", where);
    pr_flags_set(a, PR_FLAG_KILL);
    pr_handlers_settle(w, a);
    pr_life_ends(w, a);
    pr_make_ready_pinned(w, a, true);
}

pr_extra *pr_actor_extra(pr_actor *a)
{
    if (!a->extra) {
        pr_extra *extra = pr_zalloc(sizeof *extra);
        if (extra) {
            extra->actor = a;
            extra->deadline.fire = fires;
            extra->shutdown_ms = PR_SHUTDOWN_MS;
            a->extra = extra;
        }
    }
    return a->extra;
}

void pr_extra_free(pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (!extra)
        return;
    if (extra->history)
        pr_history_free(extra->history);
    pr_free(extra->history);
    pr_trace_free(extra->trace);
    pr_free(extra);
    a->extra = NULL;
}

void pr_deadline_arm(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && !pr_timer_armed(&extra->deadline.timer) && extra->shutdown_ms != UINT64_MAX) {
        pr_worker_clock(w);
        pr_wheel_add(&w->wheel, &extra->deadline.timer, w->now_ms + extra->shutdown_ms);
    }
}

void pr_actor_retry(pr_worker *w, pr_actor *a, uint64_t ms)
{
    if (!pr_timer_armed(&a->extra->deadline.timer))
        pr_wheel_add(&w->wheel, &a->extra->deadline.timer, w->now_ms + ms);   /* see fires */
}

void pr_deadline_disarm(pr_worker *w, pr_actor *a)
{
    if (a->extra)
        pr_wheel_cancel(&w->wheel, &a->extra->deadline.timer);
}
