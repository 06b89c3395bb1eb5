/* The end of a life, in steps, each of which may have to wait: the parent's word on what follows; children, told to stop,
 * the youngest first; the actor's own `stop`; then either the next life or the end. `flags` and `held` say which step it
 * stands at; pr_actor_ending takes the next one. All of it runs on the actor's owner, in its turn.
 *
 * ARCHITECTURE.md has the tables of steps, flags and waits. */
#include "life.h"
#include "send_timer.h"

#include "alloc.h"

static void rebirth(pr_worker *w, pr_actor *a);
static void die(pr_worker *w, pr_actor *a);
static void next_life(pr_worker *w, pr_actor *a);

/* --- what follows */

static bool by_failure(const pr_actor *a)
{
    return (a->flags & PR_FLAG_FAILED) && (a->restart == PR_RESTART_PERMANENT || !(a->flags & PR_FLAG_STOP));
}

/* Its life ends, and what follows has been decided. */
void pr_life_end(pr_worker *w, pr_actor *a, bool restarts)
{
    if (a->extra)
        a->extra->held = PR_HELD_NOT;
    if (restarts)
        pr_flags_set(a, PR_FLAG_RESTART);
    pr_flags_set(a, PR_FLAG_ENDING | PR_FLAG_CHILDREN);
    PR_SET(a->state, PR_STATE_STOPPING);
    if (!restarts)
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
    if (a->extra)
        pr_user_timers_end(w, &a->extra->timers);
    if (pr_actor_reentrant(a)) {
        const pr_msg *why = a->extra->stop_reason;
        pr_parked_drop(w, a, false, a->flags & PR_FLAG_FAILED && why && why->kind == PR_MSG_ERROR ? why : NULL);
    }
    pr_family_ends(w, a);
}

void pr_log_exceeded(pr_worker *w, uint64_t child, const pr_rules *rules, bool escalates)
{
    char who[256];
    if (!pr_log_on(&w->rt->log, PR_LOG_ERROR) || !pr_log_gate(&w->rt->log))
        return;
    pr_actor_describe(w->rt, child, who, sizeof who);
    pr_logf_of(&w->rt->log, child, PR_LOG_ERROR, "%s %s: it would be restarted more than %u times in %g s", who,
            escalates ? "makes its parent fail" : "is stopped", rules->intensity, (double)rules->period_ms / 1000);
}

/* By the default rules: below the root, and where there is no memory to ask the parent. */
static void decide_alone(pr_worker *w, pr_actor *a, bool failed, uint64_t now_ms)
{
    bool wanted = a->restart == PR_RESTART_PERMANENT || (failed && a->restart == PR_RESTART_TRANSIENT);
    pr_extra *extra = a->extra;
    if (wanted && !(extra && extra->history && pr_restart_allowed(extra->history, &pr_default_rules, now_ms))) {
        pr_log_exceeded(w, pr_actor_id(a), &pr_default_rules, false);
        wanted = false;
    }
    pr_life_end(w, a, wanted);
}

/* Asks the parent what now. False: it cannot be asked. */
static bool ask_parent(pr_worker *w, pr_actor *a, bool failed)
{
    pr_extra *extra = a->extra;
    const pr_msg *error = failed && extra->stop_reason && extra->stop_reason->kind == PR_MSG_ERROR ? extra->stop_reason : NULL;
    size_t size = error ? error->size : 0;
    uint64_t since = extra->life_ms ? extra->life_ms : PR_GET(a->born_ms);
    pr_ends ends = {.at_ms = w->now_ms, .lived_ms = w->now_ms > since ? w->now_ms - since : 0, .failed = failed,
                    .in_start = !(a->flags & PR_FLAG_STARTED)};
    pr_msg *m = pr_msg_new(&w->pool, size + sizeof ends);
    if (!m)
        return false;
    if (error) {
        memcpy(m->data, error->data, size);
        m->count = error->count;
        if (pr_msg_holds(error))
            pr_msg_hold_shares(m);
    }
    memcpy(m->data + size, &ends, sizeof ends);
    m->kind = PR_MSG_CHILD_ENDS;
    m->target = PR_GET(a->parent);
    m->sender = pr_actor_id(a);
    extra->held = PR_HELD_VERDICT;
    pr_flags_set(a, PR_FLAG_ENDING);
    PR_SET(a->state, PR_STATE_SUSPENDED);
    if (pr_control(w->rt, w, m) == PR_OK)
        return true;
    pr_msg_free(&w->pool, m);
    return false;
}

void pr_life_ends(pr_worker *w, pr_actor *a)
{
    if (a->flags & PR_FLAG_ENDING)
        return;
    bool failed = by_failure(a), asks = failed || a->restart == PR_RESTART_PERMANENT;
    bool last = a->flags & PR_FLAG_ORDERED || a->kind == PR_KIND_SCRIPT ||
                atomic_load_explicit(&w->rt->stopping, memory_order_relaxed);
    pr_extra *extra = asks && !last ? pr_actor_extra(a) : a->extra;
    if (extra && extra->token && !extra->hold) {   /* it was to say that it has started */
        pr_msg_free(&w->pool, extra->token);
        extra->token = NULL;
    }
    if (last || !(asks || (extra && extra->hold))) {
        pr_life_end(w, a, false);
        return;
    }
    if (extra && extra->hold) {
        pr_life_end(w, a, true);
        return;
    }
    pr_worker_clock(w);
    if (extra && !extra->history)
        extra->history = pr_zalloc(sizeof *extra->history);
    if (!extra || !extra->history || PR_GET(a->parent) == 0 || !ask_parent(w, a, failed))
        decide_alone(w, a, failed, w->now_ms);
}

/* --- the steps */

/* After ops came back from `stop`, or need not be asked. */
void pr_life_over(pr_worker *w, pr_actor *a)
{
    pr_deadline_disarm(w, a);
    if (a->extra)
        pr_user_timers_end(w, &a->extra->timers);   /* those that `stop` has set */
    a->ops->release(w, a);
    next_life(w, a);
}

/* The envelope that goes from child to child: its parent's next step. */
void pr_token_return(pr_worker *w, pr_actor *a, uint8_t kind)
{
    pr_msg *token = a->extra->token;
    a->extra->token = NULL;
    a->extra->hold = false;
    token->kind = kind;
    token->target = PR_GET(a->parent);
    token->sender = pr_actor_id(a);
    if (pr_control(w->rt, w, token) != PR_OK)
        pr_msg_free(&w->pool, token);
}

void pr_life_waits_for_go(pr_worker *w, pr_actor *a)
{
    a->extra->held = PR_HELD_GO;
    PR_SET(a->state, PR_STATE_SUSPENDED);
    pr_token_return(w, a, PR_MSG_CHILD_HELD);
}

/* Between two lives, or at the last one's end. */
static void next_life(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (!(a->flags & PR_FLAG_RESTART)) {
        die(w, a);
    } else if (extra && extra->hold) {
        pr_life_waits_for_go(w, a);
    } else if (extra && extra->delay_ms > 0 && !(a->flags & PR_FLAG_FLOATS)) {   /* whose wheel would that be? */
        extra->held = PR_HELD_DELAY;
        PR_SET(a->state, PR_STATE_SUSPENDED);
        pr_worker_clock(w);
        pr_wheel_add(&w->wheel, &extra->deadline.timer, w->now_ms + extra->delay_ms);
        extra->delay_ms = 0;
    } else {
        rebirth(w, a);
    }
}

/* The wait between two lives is over, or the other life will not be. */
static void leave_the_wait(pr_worker *w, pr_actor *a)
{
    a->extra->held = PR_HELD_NOT;
    pr_deadline_disarm(w, a);
    next_life(w, a);
}

void pr_actor_ending(pr_worker *w, pr_actor *a)
{
    uint8_t held = pr_actor_held(a);
    if (held == PR_HELD_OVER) {
        leave_the_wait(w, a);
        return;
    }
    if (a->flags & PR_FLAG_SUSPENDED || held != PR_HELD_NOT)
        return;   /* in `stop`: resumed or abandoned first; or waiting for a word or a time */
    if (a->flags & PR_FLAG_CHILDREN) {
        if (PR_GET(a->children) > 0)
            return;
        pr_flags_clear(a, PR_FLAG_CHILDREN);
        if (a->flags & PR_FLAG_STARTED && !(a->flags & PR_FLAG_KILL)) {
            pr_flags_clear(a, PR_FLAG_STARTED);
            pr_flags_set(a, PR_FLAG_IN_STOP);
            pr_deadline_disarm(w, a);   /* `stop` gets its own time */
            pr_handler_done(w, a, a->ops->stop(w, a, a->extra ? a->extra->stop_reason : NULL));
            return;
        }
    }
    pr_life_over(w, a);
}

static void rebirth(pr_worker *w, pr_actor *a)
{
    if (a->extra && a->extra->stop_reason) {
        pr_msg_free(&w->pool, a->extra->stop_reason);
        a->extra->stop_reason = NULL;
    }
    pr_unstash(w, a);
    a->flags = (uint16_t)((a->flags & (PR_FLAG_APART | PR_FLAG_FLOATS)) | PR_FLAG_NEW);
    PR_SET(a->gate, (uint8_t)(PR_GET(a->gate) & ~(unsigned)PR_GATE_STOPPING));
    if (a->extra) {
        pr_worker_clock(w);
        a->extra->life_ms = w->now_ms;
    }
    PR_BUMP(a->restarts, 1);
    PR_BUMP(w->counters.restarts, 1);
    pr_event_restart(w, a);
    if (pr_log_on(&w->rt->log, PR_LOG_INFO) && pr_log_gate(&w->rt->log)) {
        char who[256];
        pr_actor_describe(w->rt, pr_actor_id(a), who, sizeof who);
        pr_logf_of(&w->rt->log, pr_actor_id(a), PR_LOG_INFO, "%s is restarted", who);
    }
}

/* --- the end */

static void discard_list(pr_worker *w, pr_msg *m)
{
    while (m) {
        pr_msg *next = m->next;
        pr_dead_letter(w->rt, w, m, PR_DEAD_NOBODY);
        m = next;
    }
}

/* What others are told of its end: a message of one value, or NULL for "normal". *made: it is to be freed. */
static pr_msg *last_reason(pr_worker *w, pr_actor *a, bool *made)
{
    static const char killed[] = "killed", failed[] = "failed";
    pr_msg *reason = a->extra->stop_reason;
    bool is_error = reason && reason->kind == PR_MSG_ERROR;
    *made = false;
    if (!(a->flags & PR_FLAG_KILL) && !is_error)
        return reason;
    *made = true;
    pr_msg *m = NULL;
    if (!(a->flags & PR_FLAG_KILL) && a->ops->kin && a->ops->kin->reason && (m = a->ops->kin->reason(w, reason)))
        return m;
    const char *text = a->flags & PR_FLAG_KILL ? killed : failed;
    if ((m = pr_msg_new(&w->pool, pr_wire_size_bytes(6)))) {
        pr_wire_put_string(m->data, text, 6);
        m->count = 1;
        return m;
    }
    *made = false;
    return reason;
}

/* Last, when its name is free: whoever hears of the end may take it. As the sender that it was: behind what it sent. */
static void end_ties(pr_worker *w, pr_actor *a, uint64_t id)
{
    bool made;
    if (a->extra->ties.count == 0) {
        pr_free(a->extra->ties.buckets);
        return;
    }
    pr_msg *reason = last_reason(w, a, &made);
    pr_end me = pr_actor_end_of(w, a, id);
    pr_ties_end(&me, reason);
    if (made)
        pr_msg_free(&w->pool, reason);
}

static void die(pr_worker *w, pr_actor *a)
{
    pr_runtime *rt = w->rt;
    if (pr_log_on(&rt->log, PR_LOG_DEBUG)) {
        char who[256];
        pr_actor_describe(rt, pr_actor_id(a), who, sizeof who);
        pr_logf_of(&rt->log, pr_actor_id(a), PR_LOG_DEBUG, "%s has ended", who);
    }
    bool script_failed = a->kind == PR_KIND_SCRIPT && a->flags & PR_FLAG_FAILED;
    uint64_t id = pr_actor_id(a);
    pr_event_stopped(w, a, a->extra ? a->extra->stop_reason : NULL);
    /* Whoever finds the stacks closed below sees that the id is gone (release); those of a pinned actor have been closed before:
     * who finds them so goes to its worker, which compares ids. seq_cst: pairs with
     * pr_name_register, which sets `named` and then looks at the id: one of the two removes the name. */
    if (rt->config.actor_limit)   /* before anybody is told of the end */
        atomic_fetch_sub_explicit(&rt->living, 1, memory_order_relaxed);
    atomic_store_explicit(&a->id, 0, memory_order_seq_cst);
    if (atomic_load_explicit(&a->named, memory_order_seq_cst)) {
        pr_actor_unname(rt, a, id);
        pr_user_timers_orphan(rt, w, a, id);
    }
    PR_SET(a->sched, PR_PINNED);
    discard_list(w, pr_stack_close(&a->mailbox));
    discard_list(w, pr_stack_close(&a->control));
    discard_list(w, a->user.head);
    if (PR_GET(a->gate) & PR_GATE_BOXED)
        pr_box_end(w, a);
    discard_list(w, a->orders.head);
    a->user = a->orders = (pr_queue){NULL, NULL};
    if (a->start_args)
        pr_msg_free(&w->pool, a->start_args);
    if (a->extra) {
        discard_list(w, a->extra->stash.head);
        end_ties(w, a, id);
        if (a->extra->stop_reason)
            pr_msg_free(&w->pool, a->extra->stop_reason);
        if (a->extra->token)
            pr_msg_free(&w->pool, a->extra->token);
        discard_list(w, a->extra->awaits);
        a->extra->stop_reason = a->extra->token = a->extra->awaits = NULL;
        pr_family_free(w, a);
    }
    pr_behaviour *behaviour = PR_GET(a->behaviour);
    if (behaviour)
        pr_worker_drop(w, behaviour);
    PR_BUMP(w->counters.ended, 1);
    if (!(a->flags & PR_FLAG_FLOATS))
        PR_BUMP(w->residents, (uint32_t)-1);
    w->running = NULL;
    pr_family_leave(w, a);
    if (script_failed) {
        atomic_store_explicit(&rt->script_failed, 1, memory_order_relaxed);   /* read after the end */
        pr_runtime_stop(rt, w);
    }
    if (atomic_load_explicit(&rt->holder, memory_order_seq_cst) == id)
        pr_runtime_release(rt, w, id);
}

/* What pr_life_ends and the steps come to where none of them has anything to do: without an extra it has no children, timers
 * or ties, and nobody to be asked or told. */
void pr_life_ends_at_once(pr_worker *w, pr_actor *a)
{
    a->ops->release(w, a);
    die(w, a);
}
