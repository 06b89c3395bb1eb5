/* The life of an actor: birth, start, messages, failure, restart, end; and its family.
 *
 * Everything here but birth runs on the actor's owner, in its turn. A life ends in steps, each of which may
 * have to wait: children first (told to stop, the youngest first), then the actor's own `stop`, then either
 * the next life or the end. `flags` says which step it stands at; pr_actor_ending takes the next one.
 *
 * A parent outlives its children, and unlinks them itself: so a child's record, and the parent's, are valid
 * until then, and no lock is needed but for the children of the root. */
#include "decision.h"
#include "port.h"
#include "send_timer.h"
#include "worker.h"

#include "alloc.h"

#include <stdio.h>
#include <string.h>

static pr_actor *at(pr_runtime *rt, uint32_t link) { return link ? pr_actor_at(&rt->actors, link - 1) : NULL; }
static uint64_t id_of(const pr_actor *a) { return PR_GET(a->id); }

/* --- what only few have */

static void deadline(pr_worker *w, pr_alarm *alarm);

pr_extra *pr_actor_extra(pr_actor *a)
{
    if (!a->extra) {
        pr_extra *extra = pr_zalloc(sizeof *extra);
        if (extra) {
            extra->actor = a;
            extra->deadline.fire = deadline;
            extra->shutdown_ms = PR_SHUTDOWN_MS;
            a->extra = extra;
        }
    }
    return a->extra;
}

static void arm_deadline(pr_worker *w, pr_actor *a)
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
        pr_wheel_add(&w->wheel, &a->extra->deadline.timer, w->now_ms + ms);   /* see deadline */
}

static void disarm_deadline(pr_worker *w, pr_actor *a)
{
    if (a->extra)
        pr_wheel_cancel(&w->wheel, &a->extra->deadline.timer);
}

static void set_flags(pr_actor *a, unsigned on) { a->flags = (uint16_t)(a->flags | on); }
static void clear_flags(pr_actor *a, unsigned off) { a->flags = (uint16_t)(a->flags & ~off); }

/* --- family */

static void link_child(pr_runtime *rt, _Atomic uint32_t *first, pr_actor *child)
{
    uint32_t old = PR_GET(*first);
    PR_SET(child->next_sibling, old);
    PR_SET(child->previous_sibling, 0);
    if (old)
        PR_SET(at(rt, old)->previous_sibling, child->slot + 1);
    PR_SET(*first, child->slot + 1);
}

static void unlink_child(pr_runtime *rt, _Atomic uint32_t *first, pr_actor *child)
{
    uint32_t next = PR_GET(child->next_sibling), previous = PR_GET(child->previous_sibling);
    if (previous)
        PR_SET(at(rt, previous)->next_sibling, next);
    else
        PR_SET(*first, next);
    if (next)
        PR_SET(at(rt, next)->previous_sibling, previous);
}

/* With the record, as its parent may look at the history until it has unlinked it. */
static void free_extra(pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (!extra)
        return;
    if (extra->history)
        pr_history_free(extra->history);
    pr_free(extra->history);
    pr_free(extra);
    a->extra = NULL;
}

void pr_child_ended(pr_worker *w, pr_actor *child)
{
    pr_actor *parent = pr_actor_at(&w->rt->actors, pr_id_slot(PR_GET(child->parent)));
    bool moves = pr_family_leaves(w, parent, child);
    unlink_child(w->rt, &parent->first_child, child);
    PR_BUMP(parent->children, (uint32_t)-1);
    free_extra(child);
    pr_actor_free(&w->rt->actors, &w->actors, child);
    if (moves)
        pr_family_left(w, parent);
    if (parent->flags & PR_FLAG_CHILDREN && PR_GET(parent->children) == 0)
        pr_make_ready_pinned(w, parent, true);
}

/* The last thing that happens to a record before its parent has it. */
static void leave_family(pr_worker *w, pr_actor *a)
{
    pr_runtime *rt = w->rt;
    if (PR_GET(a->parent) == 0) {
        pthread_mutex_lock(&rt->root_lock);
        unlink_child(rt, &rt->root_first, a);
        bool last = --rt->root_children == 0 && atomic_load_explicit(&rt->stopping, memory_order_relaxed);
        pthread_mutex_unlock(&rt->root_lock);
        free_extra(a);
        pr_actor_free(&rt->actors, &w->actors, a);
        if (last)
            pr_workers_leave(rt);
        return;
    }
    /* The parent is alive: it waits for this child. Its home does not change any more. */
    pr_actor *parent = pr_actor_at(&rt->actors, pr_id_slot(PR_GET(a->parent)));
    pr_worker *owner = &rt->workers[PR_GET(parent->home) - 1];
    if (owner == w) {
        pr_child_ended(w, a);
        return;
    }
    pr_actor *head = atomic_load_explicit(&owner->ended, memory_order_relaxed);
    do
        a->next_free = head;
    while (!atomic_compare_exchange_weak_explicit(&owner->ended, &head, a, memory_order_seq_cst,
                                                  memory_order_relaxed));
    pr_worker_wake(owner);
}

/* --- birth */

static void free_message(pr_worker *w, pr_msg *m)
{
    if (m)
        pr_msg_free(w ? &w->pool : NULL, m);
}

/* From here on anyone who holds the id may send. release: pairs with pr_actor_find. A root's child is published
 * under root_lock, so that a shutdown that begins meanwhile finds it. */
static void publish(pr_actor *a, uint64_t id, const pr_spawn *s)
{
    for (pr_msg *node = s->ties, *next; node; node = next) {
        next = node->next;
        pr_ties_add(&a->extra->ties, node);
    }
    if (!s->worker) {
        pr_stack_open(&a->mailbox);
        pr_stack_open(&a->control);
    }
    atomic_store_explicit(&a->id, id, memory_order_release);
}

pr_status pr_actor_spawn(pr_runtime *rt, pr_worker *w, const pr_spawn *s, uint64_t *id)
{
    pr_actor *parent = w && w->running && !(w->running->flags & PR_FLAG_FLOATS) ? w->running : NULL;
    pr_actor_cache *cache = w ? &w->actors : NULL;
    uint64_t born;
    if (atomic_load_explicit(&rt->stopping, memory_order_acquire) ||
        (parent && parent->flags & (PR_FLAG_ENDING | PR_FLAG_KILL)))
        return PR_STOPPING;
    if (parent && !pr_actor_extra(parent))   /* a parent can always be reminded of its children: see stop_children */
        return PR_NOMEM;
    pr_msg *wake = NULL;
    if (s->worker && !(w && w->index + 1 == s->worker) && !(wake = pr_msg_new(w ? &w->pool : NULL, 0)))
        return PR_NOMEM;
    pr_actor *a = pr_actor_alloc(&rt->actors, cache, &born);
    if (!a) {
        free_message(w, wake);
        return PR_NOMEM;
    }
    a->kind = PR_KIND_ACTOR;
    a->restart = s->restart;
    a->ops = s->ops;
    PR_SET(a->behaviour, s->behaviour);
    PR_SET(a->named, s->name ? PR_NAMED : 0);
    PR_SET(a->parent, parent ? id_of(parent) : 0);
    a->user = a->orders = (pr_queue){NULL, NULL};
    a->wait = NULL;
    a->extra = NULL;
    a->flags = (uint16_t)(PR_FLAG_NEW | s->flags);
    a->in_ready = 0;
    a->self = 0;
    a->start_args = s->args;
    PR_SET(a->born_ms, w ? w->now_ms : pr_now_ns() / 1000000);
    PR_SET(a->gate, s->box ? PR_GATE_BOXED : 0);
    PR_SET(a->asking, 0);
    PR_SET(a->handled, 0);
    PR_SET(a->depth, 0);
    PR_SET(a->restarts, 0);
    PR_SET(a->state, PR_STATE_SCHEDULED);
    PR_SET(a->first_child, 0);
    PR_SET(a->children, 0);
    if (s->ties || s->has_shutdown) {
        if (!pr_actor_extra(a)) {
            pr_actor_free(&rt->actors, cache, a);
            free_message(w, wake);
            return PR_NOMEM;
        }
        if (s->has_shutdown)
            a->extra->shutdown_ms = s->shutdown_ms;
    }
    if (s->box && !pr_box_attach(rt, s->box, a->slot, born)) {
        pr_free(a->extra);
        pr_actor_free(&rt->actors, cache, a);
        free_message(w, wake);
        return PR_NOMEM;
    }
    if (s->name) {
        int put = pr_registry_put(&rt->names, s->name, s->name_len, born, id);
        if (put != PR_REGISTRY_OK) {
            pr_free(a->extra);
            pr_actor_free(&rt->actors, cache, a);
            free_message(w, wake);
            return put == PR_REGISTRY_EXISTS ? PR_EXISTS : PR_NOMEM;
        }
    }
    PR_SET(a->home, (uint16_t)s->worker);
    PR_SET(a->sched, s->worker ? PR_PINNED : PR_SCHEDULED);
    if (parent) {
        link_child(rt, &parent->first_child, a);
        PR_BUMP(parent->children, 1);
        publish(a, born, s);
    } else {
        pthread_mutex_lock(&rt->root_lock);
        bool late = atomic_load_explicit(&rt->stopping, memory_order_relaxed);
        if (!late) {
            link_child(rt, &rt->root_first, a);
            rt->root_children++;
            publish(a, born, s);
        }
        pthread_mutex_unlock(&rt->root_lock);
        if (late) {
            pr_free(a->extra);
            if (s->name)
                pr_registry_remove(&rt->names, s->name, s->name_len, born);
            pr_actor_free(&rt->actors, cache, a);
            free_message(w, wake);
            return PR_STOPPING;
        }
    }
    PR_COUNT(rt, w, spawned, 1);
    *id = born;
    if (!s->worker) {
        pr_make_ready(rt, w, a);
    } else if (!wake) {
        pr_make_ready_pinned(w, a, false);
    } else {
        /* Its worker learns of it by a message. It is there: workers leave when all actors have ended. */
        wake->kind = PR_MSG_WAKE;
        wake->target = born;
        pr_stack_push(&rt->workers[s->worker - 1].control, wake);
        pr_worker_wake(&rt->workers[s->worker - 1]);
    }
    return PR_OK;
}

/* --- the end of a life */

static void rebirth(pr_worker *w, pr_actor *a);
static void die(pr_worker *w, pr_actor *a);
static void next_life(pr_worker *w, pr_actor *a);

static bool by_failure(const pr_actor *a)
{
    return (a->flags & PR_FLAG_FAILED) && (a->restart == PR_RESTART_PERMANENT || !(a->flags & PR_FLAG_STOP));
}

/* Its life ends, and what follows has been decided. */
static void end_this_life(pr_worker *w, pr_actor *a, bool restarts)
{
    if (a->extra)
        a->extra->held = PR_HELD_NOT;
    if (restarts)
        set_flags(a, PR_FLAG_RESTART);
    set_flags(a, PR_FLAG_ENDING | PR_FLAG_CHILDREN);
    PR_SET(a->state, PR_STATE_STOPPING);
    if (!restarts)
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
    if (a->extra)
        pr_user_timers_end(w, &a->extra->timers);
    pr_family_ends(w, a);
}

void pr_log_exceeded(pr_worker *w, uint64_t child, const pr_rules *rules, bool escalates)
{
    char who[256];
    if (!pr_log_on(&w->rt->log, PR_LOG_ERROR) || !pr_log_gate(&w->rt->log))
        return;
    pr_actor_describe(w->rt, child, who, sizeof who);
    pr_logf(&w->rt->log, PR_LOG_ERROR, "%s %s: it would be restarted more than %u times in %g s", who,
            escalates ? "makes its parent fail" : "is stopped", rules->intensity, (double)rules->period_ms / 1000);
}

/* By the default rules: below the root, and where there is no memory to ask the parent. */
static void decide_alone(pr_worker *w, pr_actor *a, bool failed, uint64_t now_ms)
{
    bool wanted = a->restart == PR_RESTART_PERMANENT || (failed && a->restart == PR_RESTART_TRANSIENT);
    pr_extra *extra = a->extra;
    if (wanted && !(extra && extra->history && pr_restart_allowed(extra->history, &pr_default_rules, now_ms))) {
        pr_log_exceeded(w, id_of(a), &pr_default_rules, false);
        wanted = false;
    }
    end_this_life(w, a, wanted);
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
    }
    memcpy(m->data + size, &ends, sizeof ends);
    m->kind = PR_MSG_CHILD_ENDS;
    m->target = PR_GET(a->parent);
    m->sender = id_of(a);
    extra->held = PR_HELD_VERDICT;
    set_flags(a, PR_FLAG_ENDING);
    PR_SET(a->state, PR_STATE_SUSPENDED);
    if (pr_control(w->rt, w, m) == PR_OK)
        return true;
    pr_msg_free(&w->pool, m);
    return false;
}

static void begin_end(pr_worker *w, pr_actor *a)
{
    if (a->flags & PR_FLAG_ENDING)
        return;
    bool failed = by_failure(a), asks = failed || a->restart == PR_RESTART_PERMANENT;
    bool last = a->flags & (PR_FLAG_ORDERED | PR_FLAG_SCRIPT) ||
                atomic_load_explicit(&w->rt->stopping, memory_order_relaxed);
    pr_extra *extra = asks && !last ? pr_actor_extra(a) : a->extra;
    if (extra && extra->token && !extra->hold) {   /* it was to say that it has started */
        pr_msg_free(&w->pool, extra->token);
        extra->token = NULL;
    }
    if (last || !(asks || (extra && extra->hold))) {
        end_this_life(w, a, false);
        return;
    }
    if (extra && extra->hold) {
        end_this_life(w, a, true);
        return;
    }
    pr_worker_clock(w);
    if (extra && !extra->history)
        extra->history = pr_zalloc(sizeof *extra->history);
    if (!extra || !extra->history || PR_GET(a->parent) == 0 || !ask_parent(w, a, failed))
        decide_alone(w, a, failed, w->now_ms);
}

/* After ops came back from `stop`, or need not be asked. */
static void end_life(pr_worker *w, pr_actor *a)
{
    disarm_deadline(w, a);
    a->ops->release(w, a);
    next_life(w, a);
}

/* The envelope that goes from child to child: its parent's next step. */
static void return_token(pr_worker *w, pr_actor *a, uint8_t kind)
{
    pr_msg *token = a->extra->token;
    a->extra->token = NULL;
    a->extra->hold = false;
    token->kind = kind;
    token->target = PR_GET(a->parent);
    token->sender = id_of(a);
    if (pr_control(w->rt, w, token) != PR_OK)
        pr_msg_free(&w->pool, token);
}

static void wait_for_go(pr_worker *w, pr_actor *a)
{
    a->extra->held = PR_HELD_GO;
    PR_SET(a->state, PR_STATE_SUSPENDED);
    return_token(w, a, PR_MSG_CHILD_HELD);
}

/* Between two lives, or at the last one's end. */
static void next_life(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = a->extra;
    if (!(a->flags & PR_FLAG_RESTART)) {
        die(w, a);
    } else if (extra && extra->hold) {
        wait_for_go(w, a);
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
    disarm_deadline(w, a);
    next_life(w, a);
}

static void finish_handler(pr_worker *w, pr_actor *a, pr_outcome outcome);

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
        clear_flags(a, PR_FLAG_CHILDREN);
        if (a->flags & PR_FLAG_STARTED && !(a->flags & PR_FLAG_KILL)) {
            clear_flags(a, PR_FLAG_STARTED);
            set_flags(a, PR_FLAG_IN_STOP);
            disarm_deadline(w, a);   /* `stop` gets its own time */
            finish_handler(w, a, a->ops->stop(w, a, a->extra ? a->extra->stop_reason : NULL));
            return;
        }
    }
    end_life(w, a);
}

static void rebirth(pr_worker *w, pr_actor *a)
{
    if (a->extra && a->extra->stop_reason) {
        pr_msg_free(&w->pool, a->extra->stop_reason);
        a->extra->stop_reason = NULL;
    }
    pr_unstash(w, a);
    a->flags = (uint16_t)((a->flags & (PR_FLAG_SCRIPT | PR_FLAG_FLOATS)) | PR_FLAG_NEW);
    PR_SET(a->gate, PR_GET(a->gate) & ~PR_GATE_STOPPING);
    if (a->extra) {
        pr_worker_clock(w);
        a->extra->life_ms = w->now_ms;
    }
    PR_BUMP(a->restarts, 1);
    PR_BUMP(w->counters.restarts, 1);
    pr_event_restart(w, a);
    if (pr_log_on(&w->rt->log, PR_LOG_INFO) && pr_log_gate(&w->rt->log)) {
        char who[256];
        pr_actor_describe(w->rt, id_of(a), who, sizeof who);
        pr_logf(&w->rt->log, PR_LOG_INFO, "%s is restarted", who);
    }
}

static void discard_list(pr_worker *w, pr_msg *m)
{
    while (m) {
        pr_msg *next = m->next;
        pr_dead_letter(w->rt, w, m, PR_DEAD_NOBODY);
        m = next;
    }
}

static pr_end end_of(pr_worker *w, pr_actor *a, uint64_t id)
{
    return (pr_end){w->rt, w, id, &a->extra->ties};
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
    pr_end me = end_of(w, a, id);
    pr_ties_end(&me, reason);
    if (made)
        pr_msg_free(&w->pool, reason);
}

static void die(pr_worker *w, pr_actor *a)
{
    pr_runtime *rt = w->rt;
    if (pr_log_on(&rt->log, PR_LOG_DEBUG)) {
        char who[256];
        pr_actor_describe(rt, id_of(a), who, sizeof who);
        pr_logf(&rt->log, PR_LOG_DEBUG, "%s has ended", who);
    }
    bool script_failed = a->flags & PR_FLAG_SCRIPT && a->flags & PR_FLAG_FAILED;
    uint64_t id = id_of(a);
    pr_event_stopped(w, a, a->extra ? a->extra->stop_reason : NULL);
    /* Whoever finds the stacks closed below sees that the id is gone (release). seq_cst: pairs with
     * pr_name_register, which sets `named` and then looks at the id: one of the two removes the name. */
    atomic_store_explicit(&a->id, 0, memory_order_seq_cst);
    pr_actor_unname(rt, a, id);
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
        pr_behaviour_drop(&rt->behaviours, behaviour);
    PR_BUMP(w->counters.ended, 1);
    w->running = NULL;
    leave_family(w, a);
    if (script_failed) {
        atomic_store_explicit(&rt->script_failed, 1, memory_order_relaxed);   /* read after the end */
        pr_runtime_stop(rt, w);
    }
}

/* --- failure */

static void log_failure(pr_worker *w, pr_actor *a, const char *during)
{
    bool script = a->flags & PR_FLAG_SCRIPT;
    if (!script && (!pr_log_on(&w->rt->log, PR_LOG_ERROR) || !pr_log_gate(&w->rt->log)))
        return;
    char who[256], what[96] = "";
    uint32_t len = 0, kind_len = 0, text_len = 0, trace_len = 0;
    const char *first = w->hand && !(a->flags & PR_FLAG_STARTING) ? pr_msg_first_string(w->hand, &len) : NULL;
    pr_actor_describe(w->rt, id_of(a), who, sizeof who);
    if (first)
        snprintf(what, sizeof what, " for \"%.*s\"", (int)(len < 60 ? len : 60), first);
    const char *text = "not enough memory", *trace = NULL;
    text_len = (uint32_t)strlen(text);
    if (w->failure) {   /* kind, message, traceback, cause: see PR_MSG_ERROR */
        const uint8_t *kind = w->failure->data;
        memcpy(&kind_len, kind + 1, 4);
        const uint8_t *message = kind + 5 + kind_len;
        memcpy(&text_len, message + 1, 4);
        text = (const char *)message + 5;
        const uint8_t *traceback = message + 5 + text_len;
        if (traceback[0] == PR_TAG_STRING) {
            memcpy(&trace_len, traceback + 1, 4);
            trace = (const char *)traceback + 5;
        }
    }
    size_t cap = strlen(who) + strlen(during) + strlen(what) + text_len + trace_len + 64;
    char *line = pr_alloc(cap);
    if (!line) {
        pr_logf(&w->rt->log, PR_LOG_ERROR, "%s failed %s%s; there is no memory to say how", who, during, what);
        return;
    }
    int n = snprintf(line, cap, "%s failed %s%s: %.*s%s%.*s", who, during, what, (int)text_len, text,
                     trace ? "\n" : "", (int)trace_len, trace ? trace : "");
    /* The end of the script is the end of the process: that is said whatever the level. */
    w->rt->log.sink(w->rt->log.context, PR_LOG_ERROR, line, n < 0 ? 0 : (size_t)n);
    pr_free(line);
}

static void fail_life(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && !extra->stop_reason) {
        extra->stop_reason = w->failure;
        w->failure = NULL;
    }
    free_message(w, w->failure);
    w->failure = NULL;
    set_flags(a, PR_FLAG_FAILED);
    begin_end(w, a);
}

/* The handler in hand has raised. w->failure holds what, or NULL without memory for it. */
static void fail(pr_worker *w, pr_actor *a)
{
    PR_BUMP(w->counters.failures, 1);
    pr_event_failure(w, a, w->failure, a->flags & PR_FLAG_IN_STOP ? "stop" : a->flags & PR_FLAG_STARTING ? "start" : "handler");
    if (a->flags & PR_FLAG_IN_STOP) {
        log_failure(w, a, "in stop");
        free_message(w, w->failure);
        w->failure = NULL;
        pr_hand_finish(w, "dead", "the actor has ended");
        end_life(w, a);
        return;
    }
    log_failure(w, a, !(a->flags & PR_FLAG_STARTING) ? "in its handler" : a->flags & PR_FLAG_SCRIPT ? "in its main chunk" : "in start");
    /* The ask in hand is told at once, with all there is to tell. */
    for (pr_msg *m = w->hand; m && w->failure; m = m->next)
        if (m->ask) {
            pr_msg *reply = pr_msg_copy(&w->pool, w->failure);
            if (!reply)
                break;
            reply->kind = PR_MSG_ERROR;
            reply->target = m->sender;
            reply->sender = id_of(a);
            reply->ask = m->ask;
            m->ask = 0;
            pr_reply(w->rt, w, reply);
        }
    pr_hand_finish(w, "failed", "the handler failed, and there was no memory to say how");
    clear_flags(a, PR_FLAG_STARTING);
    fail_life(w, a);
}

void pr_actor_fails_by(pr_worker *w, pr_actor *a, pr_msg *error, const char *during)
{
    if (a->flags & PR_FLAG_SUSPENDED) {
        bool started = a->flags & PR_FLAG_RECEIVING || !(a->flags & PR_FLAG_STARTING);   /* see settled */
        pr_actor_abandon(w, a);
        if (started)
            set_flags(a, PR_FLAG_STARTED);
    }
    w->failure = error;
    PR_BUMP(w->counters.failures, 1);
    pr_event_failure(w, a, error, during);
    log_failure(w, a, strcmp(during, "child") == 0 ? "by a child's failure" : "in on_failure");
    fail_life(w, a);
}

/* --- running */

static void answer_await(pr_worker *w, pr_actor *a, pr_msg *m)
{
    m->kind = PR_MSG_REPLY;
    m->target = m->sender;
    m->sender = id_of(a);
    pr_reply(w->rt, w, m);
}

static void told_await(pr_worker *w, pr_actor *a, pr_msg *m)
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
        return_token(w, a, PR_MSG_CHILD_STARTED);
    for (pr_msg *m; (m = extra->awaits);) {
        extra->awaits = m->next;
        answer_await(w, a, m);
    }
}

/* After ops have returned from start, a message, or stop. */
static void finish_handler(pr_worker *w, pr_actor *a, pr_outcome outcome)
{
    if (outcome == PR_SUSPENDED) {
        pr_wait *wait = a->wait;
        wait->hand = w->hand;
        w->hand = NULL;
        bool yields = wait->kind == PR_WAIT_YIELD || wait->kind == PR_WAIT_STOOD_BACK;
        if (yields) {   /* others first, the started ones and the new ones */
            w->left = 0;
            w->ring_first = pr_ring_count(&w->ring);
        }
        set_flags(a, PR_FLAG_SUSPENDED | (yields ? PR_FLAG_RESUME : 0) |
                         (wait->kind == PR_WAIT_RECEIVE ? PR_FLAG_RECEIVING : 0));
        if (wait->reply || wait->timed_out)
            set_flags(a, PR_FLAG_RESUME);
        if (a->flags & (PR_FLAG_STOP | PR_FLAG_IN_STOP))
            arm_deadline(w, a);
        return;
    }
    if (outcome == PR_FAILED) {
        fail(w, a);
        return;
    }
    pr_hand_finish(w, "failed", "a message taken by receive was not answered");
    if (a->flags & PR_FLAG_IN_STOP) {
        end_life(w, a);
        return;
    }
    if (a->flags & PR_FLAG_STARTING) {
        clear_flags(a, PR_FLAG_STARTING);
        set_flags(a, PR_FLAG_STARTED);
        if (a->extra)
            say_started(w, a);
    }
    if (a->flags & PR_FLAG_STOP)
        begin_end(w, a);
}

void pr_actor_start(pr_worker *w, pr_actor *a)
{
    clear_flags(a, PR_FLAG_NEW);
    set_flags(a, PR_FLAG_STARTING);
    w->hand = NULL;
    finish_handler(w, a, a->ops->start(w, a));
}

/* What else comes in the user lane. False: it is dealt with. */
static bool turned_to_user(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->kind == PR_MSG_DRAIN) {
        pr_actor_told_to_stop(w, a, m);
        return false;
    }
    pr_end me = end_of(w, a, id_of(a));
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
    pr_outcome outcome = a->ops->receive(w, a, m);
    /* Ops may have gone on to other messages and actors: the outcome is that of what is in hand now. */
    a = w->running;
    m = w->hand;
    if (outcome == PR_UNHANDLED) {
        PR_BUMP(a->handled, (uint64_t)-1);
        PR_BUMP(w->counters.handled, (uint64_t)-1);
        w->hand = NULL;
        pr_dead_letter(w->rt, w, m, PR_DEAD_UNHANDLED);
        return;
    }
    if (outcome == PR_DONE && !m)
        return;
    if (outcome == PR_DONE && !m->next && !(a->flags & PR_FLAG_STOP)) {
        w->hand = NULL;   /* the common case */
        if (m->ask)
            pr_reply_error(w->rt, w, m, "failed", "the handler gave no reply");
        pr_msg_free(&w->pool, m);
        return;
    }
    finish_handler(w, a, outcome);
}

void pr_actor_resume(pr_worker *w, pr_actor *a)
{
    pr_wait *wait = a->wait;
    w->hand = wait->hand;
    a->wait = NULL;
    clear_flags(a, PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING);
    PR_SET(a->asking, 0);
    w->resumed = wait;
    pr_wait_unbox(w, wait);
    pr_outcome outcome = a->ops->resume(w, a);
    w->resumed = NULL;
    pr_wait_free(w, wait);
    finish_handler(w, a, outcome);
}

/* --- orders */

/* Told to stop while a handler may be suspended. False: it has to be waited for, for a while. */
static bool settled(pr_worker *w, pr_actor *a)
{
    if (!(a->flags & PR_FLAG_SUSPENDED))
        return true;
    /* A handler that waits for its next message has finished the one in hand. */
    if (a->flags & PR_FLAG_KILL) {
        pr_actor_abandon(w, a);
    } else if (a->flags & PR_FLAG_RECEIVING && !(a->flags & PR_FLAG_ENDING)) {
        bool started = !(a->flags & PR_FLAG_STARTING);
        pr_actor_abandon(w, a);
        if (!started)
            set_flags(a, PR_FLAG_STARTED);   /* it runs its loop in `start`: that life is owed its `stop` */
    } else {
        arm_deadline(w, a);
        return false;
    }
    return true;
}

void pr_actor_told_to_stop(pr_worker *w, pr_actor *a, pr_msg *m)
{
    if (m->ordered)
        set_flags(a, PR_FLAG_ORDERED);
    set_flags(a, PR_FLAG_STOP);
    PR_SET(a->state, PR_STATE_STOPPING);
    if (a->restart != PR_RESTART_PERMANENT || a->flags & PR_FLAG_ORDERED) {
        clear_flags(a, PR_FLAG_RESTART);
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
    }
    if (m->kind == PR_MSG_KILL || (a->extra && a->extra->shutdown_ms == 0))
        set_flags(a, PR_FLAG_KILL);
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
            end_this_life(w, a, false);
        return;
    default:
        if (for_good)
            a->extra->held = PR_HELD_OVER;
        return;
    }
    if (!settled(w, a))
        return;
    if (a->flags & PR_FLAG_ENDING) {
        if (a->flags & PR_FLAG_KILL && PR_GET(a->children) > 0)
            pr_stop_children(w, a, PR_MSG_KILL);
        return;
    }
    begin_end(w, a);
}

/* --- the parent's word */

static void told_to_hold(pr_worker *w, pr_actor *a, pr_msg *m)
{
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
        end_this_life(w, a, true);
    } else if (extra->held != PR_HELD_NOT) {
        disarm_deadline(w, a);
        wait_for_go(w, a);
    } else if (a->flags & PR_FLAG_NEW) {
        clear_flags(a, PR_FLAG_NEW);
        set_flags(a, PR_FLAG_ENDING | PR_FLAG_RESTART);
        wait_for_go(w, a);
    } else if (!(a->flags & PR_FLAG_ENDING)) {
        set_flags(a, PR_FLAG_STOP);
        PR_SET(a->state, PR_STATE_STOPPING);
        if (!extra->stop_reason && (extra->stop_reason = pr_msg_new(&w->pool, pr_wire_size_bytes(8)))) {
            pr_wire_put_string(extra->stop_reason->data, "shutdown", 8);
            extra->stop_reason->count = 1;
        }
        if (settled(w, a))
            begin_end(w, a);
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
        return_token(w, a, PR_MSG_CHILD_STARTED);   /* it was not held */
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
        end_this_life(w, a, verdict == PR_VERDICT_RESTART);
        return;
    }
    extra->held = PR_HELD_NOT;
    clear_flags(a, PR_FLAG_ENDING | PR_FLAG_FAILED);
    PR_SET(a->state, PR_STATE_PROCESSING);
    free_message(w, extra->stop_reason);
    extra->stop_reason = NULL;
    pr_family_goes_on(w, a);
}

/* Whom it is linked to has ended. The payload is "exit", ref, reason: two values of 9 bytes, and the reason. */
static void told_of_exit(pr_worker *w, pr_actor *a, pr_msg *m)
{
    enum { BEFORE = 18 };
    static const uint8_t normal[] = {PR_TAG_STRING, 6, 0, 0, 0, 'n', 'o', 'r', 'm', 'a', 'l'};
    pr_end me = end_of(w, a, id_of(a));
    if (!a->extra || !pr_ties_take_exit(&me, m)) {
        pr_msg_free(&w->pool, m);
    } else if (a->ops->kin && a->ops->kin->traps && a->ops->kin->traps(w, a)) {
        m->kind = PR_MSG_USER;
        PR_BUMP(w->counters.sent, 1);
        if (PR_GET(a->gate) & PR_GATE_BOXED) {
            pr_box_put(w, a, m);
            return;
        }
        pr_queue_push(&a->user, m);
        PR_BUMP(a->depth, 1);
        if (a->flags & PR_FLAG_RECEIVING && !(a->flags & PR_FLAG_ENDING))
            pr_actor_satisfy(w, a);
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
    pr_end me = end_of(w, a, id_of(a));
    pr_ties_told(&me, m);
}

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
        case PR_MSG_AWAIT:
            told_await(w, a, m);
            break;
        case PR_MSG_VERDICT:
            told_verdict(w, a, m);
            break;
        case PR_MSG_CHILD_ENDS: case PR_MSG_CHILD_HELD: case PR_MSG_CHILD_STARTED:
            pr_family_told(w, a, m);
            if (a->flags & PR_FLAG_STOP && !(a->flags & (PR_FLAG_SUSPENDED | PR_FLAG_ENDING)))
                begin_end(w, a);   /* on_failure has stopped its own actor */
            break;
        default:
            pr_msg_free(&w->pool, m);
        }
    }
}

/* The time to stop in is over: what is suspended is dropped. Or there was no memory to tell the children: again. */
static void deadline(pr_worker *w, pr_alarm *alarm)
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
    pr_actor_describe(w->rt, id_of(a), who, sizeof who);
    if (a->ops->where)
        a->ops->where(w, a->wait->suspended, where, sizeof where);
    pr_logf(&w->rt->log, PR_LOG_WARN, "%s did not stop within %g s: its suspended handler is dropped%s%s", who,
            (double)a->extra->shutdown_ms / 1000, where[0] ? " at " : "", where);
    pr_actor_abandon(w, a);
    set_flags(a, PR_FLAG_KILL);
    begin_end(w, a);
    pr_make_ready_pinned(w, a, true);
}
