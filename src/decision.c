/* See decision.h. */
#include "decision.h"

#include "alloc.h"
#include "worker.h"

#include <stdio.h>

enum { RETRY_MS = 10, GRACE_MS = 100, MOST_MS = 1000000000 };
enum { NOTHING, HOLDING, DELAYED, STARTING, ENDING };   /* pr_family.phase */

const pr_rules pr_default_rules = {.intensity = 3, .period_ms = 5000, .factor = 2};

static pr_actor *at(pr_worker *w, uint32_t link) { return link ? pr_actor_at(&w->rt->actors, link - 1) : NULL; }

static const pr_rules *rules_of(pr_worker *w, pr_actor *parent)
{
    const pr_rules *rules = parent->ops->kin && parent->ops->kin->rules ? parent->ops->kin->rules(w, parent) : NULL;
    return rules ? rules : &pr_default_rules;
}

/* It has not been unlinked, which only this thread does; it may end at any moment. */
static pr_actor *child_of(pr_worker *w, const pr_actor *parent, uint64_t id)
{
    pr_actor *child = pr_actor_find(&w->rt->actors, id);
    return child && PR_GET(child->parent) == PR_GET(parent->id) ? child : NULL;
}

/* --- counting */

bool pr_restart_allowed(pr_history *h, const pr_rules *rules, uint64_t at_ms)
{
    while (h->count > 0 && at_ms - h->at_ms[h->first] >= rules->period_ms && at_ms >= h->at_ms[h->first]) {
        h->first = (h->first + 1) % h->capacity;
        h->count--;
    }
    if (h->count >= rules->intensity)
        return false;
    if (h->count == h->capacity) {
        uint32_t capacity = h->capacity ? 2 * h->capacity : 4;
        uint64_t *grown = pr_alloc(capacity * sizeof *grown);
        if (!grown)
            return false;   /* what cannot be counted is not restarted */
        for (uint32_t i = 0; i < h->count; i++)
            grown[i] = h->at_ms[(h->first + i) % h->capacity];
        pr_free(h->at_ms);
        h->at_ms = grown;
        h->first = 0;
        h->capacity = capacity;
    }
    h->at_ms[(h->first + h->count++) % h->capacity] = at_ms;
    return true;
}

void pr_history_free(pr_history *h)
{
    pr_free(h->at_ms);
    *h = (pr_history){0};
}

/* The delay before this restart. It starts anew once a life has been longer than the longest delay. */
static uint64_t backoff(pr_worker *w, const pr_rules *rules, pr_history *h, uint64_t lived_ms)
{
    if (rules->max_ms == 0)
        return 0;
    if (lived_ms >= rules->max_ms)
        h->attempts = 0;
    double ms = (double)rules->min_ms;
    for (uint32_t i = 0; i < h->attempts && ms < (double)rules->max_ms; i++)
        ms *= rules->factor;
    h->attempts++;
    if (ms > (double)rules->max_ms)
        ms = (double)rules->max_ms;
    double draw = (double)(pr_worker_random(w) >> 11) / 9007199254740992.0;   /* [0, 1) */
    ms *= 1 + rules->jitter * (2 * draw - 1);
    return ms < MOST_MS ? (uint64_t)ms : MOST_MS;
}

/* --- the family's record */

static void alarm_fires(pr_worker *w, pr_alarm *alarm);

static pr_family *family(pr_actor *parent)
{
    pr_extra *extra = pr_actor_extra(parent);
    if (extra && !extra->family && (extra->family = pr_zalloc(sizeof *extra->family))) {
        extra->family->parent = parent;
        extra->family->alarm.fire = alarm_fires;
    }
    return extra ? extra->family : NULL;
}

static void arm(pr_worker *w, pr_family *f, uint64_t ms)
{
    pr_wheel_cancel(&w->wheel, &f->alarm.timer);
    pr_worker_clock(w);
    pr_wheel_add(&w->wheel, &f->alarm.timer, w->now_ms + ms);
}

static void retry(pr_worker *w, pr_family *f)
{
    f->retry = true;
    arm(w, f, RETRY_MS);
}

static void free_token(pr_worker *w, pr_family *f)
{
    if (f->token)
        pr_msg_free(&w->pool, f->token);
    f->token = NULL;
}

static void finish(pr_worker *w, pr_family *f)
{
    pr_wheel_cancel(&w->wheel, &f->alarm.timer);
    f->retry = false;
    free_token(w, f);
    f->phase = NOTHING;
    f->cursor = f->scope = 0;
}

/* --- verdicts */

static bool give(pr_worker *w, pr_actor *parent, uint64_t child, pr_msg *m, uint8_t verdict, uint64_t delay_ms)
{
    m->kind = PR_MSG_VERDICT;
    m->target = child;
    m->sender = PR_GET(parent->id);
    m->ordered = verdict;
    m->ask = (uint32_t)delay_ms;
    return pr_control(w->rt, w, m) == PR_OK;
}

/* False: no memory for the order. */
static bool order_stop(pr_worker *w, pr_actor *child, uint8_t kind)
{
    uint64_t id = PR_GET(child->id);
    pr_msg *reason = id ? pr_msg_new(&w->pool, pr_wire_size_bytes(8)) : NULL;
    if (reason) {
        pr_wire_put_string(reason->data, "shutdown", 8);
        reason->count = 1;
    }
    return id == 0 || pr_order(w->rt, w, id, kind, reason, true) != PR_NOMEM;
}

void pr_stop_children(pr_worker *w, pr_actor *parent, uint8_t kind)
{
    for (pr_actor *child = at(w, PR_GET(parent->first_child)); child; child = at(w, PR_GET(child->next_sibling)))
        if (!order_stop(w, child, kind))
            pr_actor_retry(w, parent, RETRY_MS);
}

/* --- a group */

/* Takes the next step with the child at the cursor; its answer, or its end, brings the one after. */
static void step(pr_worker *w, pr_family *f)
{
    pr_actor *parent = f->parent, *child = at(w, f->cursor);
    if (f->phase == HOLDING && !child) {
        if (f->delay_ms > 0) {
            f->phase = DELAYED;
            arm(w, f, f->delay_ms);
            return;
        }
        f->phase = STARTING;
        f->cursor = f->scope;
        child = at(w, f->cursor);
    }
    if (f->phase == STARTING && !child)
        finish(w, f);
    if (f->phase != HOLDING && f->phase != STARTING)
        return;
    uint64_t id = PR_GET(child->id);
    if (id == 0)
        return;   /* it has ended, and will be unlinked */
    if (f->phase == HOLDING && child->restart == PR_RESTART_TEMPORARY && f->scope != f->cursor) {
        if (!order_stop(w, child, PR_MSG_STOP))
            retry(w, f);
        return;
    }
    if (!f->token && !(f->token = pr_msg_new(&w->pool, 0))) {
        retry(w, f);
        return;
    }
    pr_msg *token = f->token;
    f->token = NULL;
    if (!give(w, parent, id, token, f->phase == HOLDING ? PR_VERDICT_HOLD : PR_VERDICT_GO, 0))
        f->token = token;
}

/* At the end of the parent's life: the child at the cursor is told to stop, and when it has gone, the next one. */
static void stop_next(pr_worker *w, pr_family *f)
{
    pr_actor *child = at(w, f->cursor);
    if (!child)
        return;
    if (!order_stop(w, child, PR_MSG_STOP)) {
        retry(w, f);
        return;
    }
    /* A handler that does not return cannot be ended; the time of a suspended one is the child's own to watch. */
    pr_extra *extra = child->extra;
    uint64_t ms = extra ? extra->shutdown_ms : PR_SHUTDOWN_MS;
    if (ms < MOST_MS)
        arm(w, f, 2 * ms + GRACE_MS);
}

static void alarm_fires(pr_worker *w, pr_alarm *alarm)
{
    pr_family *f = (pr_family *)(void *)((char *)alarm - offsetof(pr_family, alarm));
    if (f->retry) {
        f->retry = false;
        if (f->phase == ENDING)
            stop_next(w, f);
        else if (f->phase == NOTHING)
            pr_family_goes_on(w, f->parent);
        else
            step(w, f);
    } else if (f->phase == DELAYED) {
        f->phase = STARTING;
        f->cursor = f->scope;
        step(w, f);
    } else if (f->phase == ENDING) {   /* the child at the cursor is stuck: the others need not wait for it */
        pr_actor *child = at(w, f->cursor);
        f->cursor = child ? PR_GET(child->next_sibling) : 0;
        stop_next(w, f);
    }
}

static bool older_or_same(pr_worker *w, uint32_t a, uint32_t b)   /* a than b */
{
    for (; b; b = PR_GET(at(w, b)->next_sibling))
        if (a == b)
            return true;
    return false;
}

/* Takes the token from `m`. */
static void begin_group(pr_worker *w, pr_actor *parent, pr_actor *child, const pr_rules *rules, pr_msg *m, uint64_t delay_ms)
{
    pr_family *f = family(parent);
    if (!f) {
        give(w, parent, PR_GET(child->id), m, PR_VERDICT_RESTART, delay_ms);   /* no memory for the others */
        return;
    }
    uint32_t scope = child->slot + 1;
    if (rules->strategy == PR_ONE_FOR_ALL)
        for (pr_actor *a = child; a; a = at(w, PR_GET(a->next_sibling)))
            scope = a->slot + 1;
    if (f->phase != NOTHING && f->scope && older_or_same(w, f->scope, scope))
        scope = f->scope;
    finish(w, f);
    f->token = m;
    f->phase = HOLDING;
    f->scope = scope;
    f->cursor = PR_GET(parent->first_child);
    f->delay_ms = delay_ms;
    step(w, f);
}

static void group_answer(pr_worker *w, pr_actor *parent, pr_msg *m)
{
    pr_family *f = parent->extra ? parent->extra->family : NULL;
    pr_actor *child = child_of(w, parent, m->sender);
    uint8_t wanted = m->kind == PR_MSG_CHILD_HELD ? HOLDING : STARTING;
    if (!f || !child || f->phase != wanted || f->cursor != child->slot + 1 || f->token) {
        pr_msg_free(&w->pool, m);
        return;
    }
    f->token = m;
    if (wanted == HOLDING)
        f->cursor = f->cursor == f->scope ? 0 : PR_GET(child->next_sibling);
    else
        f->cursor = PR_GET(child->previous_sibling);
    step(w, f);
}

/* It is going to be held anyway: its failure comes of the same one. */
static bool absorbed(pr_worker *w, pr_actor *parent, pr_actor *child)
{
    pr_family *f = parent->extra ? parent->extra->family : NULL;
    return f && f->phase == HOLDING && f->cursor && older_or_same(w, child->slot + 1, f->cursor) &&
           older_or_same(w, f->scope, child->slot + 1);
}

/* --- the decision */

static pr_msg *exceeded_error(pr_worker *w, uint64_t child, const pr_rules *rules, const pr_msg *m)
{
    char who[256], text[400];
    pr_actor_describe(w->rt, child, who, sizeof who);
    int n = snprintf(text, sizeof text, "%s was to be restarted more than %u times in %g s", who, rules->intensity,
                     (double)rules->period_ms / 1000);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    size_t rest = 0, skip = 0;
    if (m->count >= 4) {   /* kind, message, and what follows is kept: traceback, cause, actor ... */
        uint32_t kind_len, text_len;
        memcpy(&kind_len, m->data + 1, 4);
        memcpy(&text_len, m->data + 5 + kind_len + 1, 4);
        skip = 10 + kind_len + text_len;
        rest = m->size - sizeof(pr_ends) - skip;
    }
    pr_msg *error = pr_msg_new(&w->pool, pr_wire_size_bytes(6) + pr_wire_size_bytes(len) + (rest ? rest : 2));
    if (error) {
        uint8_t *to = pr_wire_put_string(error->data, "failed", 6);
        to = pr_wire_put_string(to, text, len);
        if (rest)
            memcpy(to, m->data + skip, rest);
        else
            to[0] = to[1] = PR_TAG_NIL;   /* a traceback and a cause are looked for */
        error->kind = PR_MSG_ERROR;
        error->count = rest ? m->count : 4;
        if (pr_msg_holds(m))
            pr_msg_hold_shares(error);
    }
    return error;
}

/* The child waits until it is known what follows for its parent. */
static void escalate(pr_worker *w, pr_actor *parent, uint64_t child, const pr_ends *ends, pr_msg *error, const char *during)
{
    pr_family *f = family(parent);
    if (f) {
        f->escalated = child;
        f->escalated_restarts = ends->in_start || !ends->failed;   /* no life to go on with, or it meant to end */
    }
    pr_actor_fails_by(w, parent, error, during);
}

/* The child's payload without what stands behind it. */
static pr_msg *as_error(pr_msg *m)
{
    m->size -= (uint32_t)sizeof(pr_ends);
    m->kind = PR_MSG_ERROR;
    return m;
}

static void decide(pr_worker *w, pr_actor *parent, pr_actor *child, pr_msg *m)
{
    uint64_t id = m->sender;
    const pr_rules *rules = rules_of(w, parent);
    pr_ends ends;
    memcpy(&ends, m->data + m->size - sizeof ends, sizeof ends);
    uint8_t verdict = PR_VERDICT_NONE;
    if (ends.failed && rules->decides) {
        w->failure = NULL;
        verdict = parent->ops->kin->decide(w, parent, id, m);
    }
    if (verdict == PR_VERDICT_NONE)
        verdict = ends.failed && child->restart == PR_RESTART_TEMPORARY ? PR_VERDICT_STOP : PR_VERDICT_RESTART;
    if (verdict == PR_VERDICT_RESUME && ends.in_start)
        verdict = PR_VERDICT_RESTART;   /* there is no life to go on with */
    if (verdict == PR_VERDICT_FAILED) {
        pr_msg_free(&w->pool, m);
        pr_msg *failure = w->failure;
        w->failure = NULL;
        escalate(w, parent, id, &ends, failure, "on_failure");
        return;
    }
    if (verdict == PR_VERDICT_ESCALATE) {
        escalate(w, parent, id, &ends, as_error(m), "child");
        return;
    }
    uint64_t delay_ms = 0;
    if (verdict == PR_VERDICT_RESTART) {
        if (absorbed(w, parent, child)) {
            pr_msg_free(&w->pool, m);
            return;
        }
        pr_family *f = rules->count_all ? family(parent) : NULL;
        pr_history *own = child->extra->history;   /* it has one, or it could not have said this */
        if ((rules->count_all && !f) || !pr_restart_allowed(f ? &f->all : own, rules, ends.at_ms)) {
            pr_log_exceeded(w, id, rules, rules->escalates);
            if (rules->escalates) {
                pr_msg *error = exceeded_error(w, id, rules, m);
                pr_msg_free(&w->pool, m);
                escalate(w, parent, id, &ends, error, "child");
                return;
            }
            verdict = PR_VERDICT_STOP;
        } else {
            delay_ms = backoff(w, rules, own, ends.lived_ms);
        }
    }
    if (verdict == PR_VERDICT_RESTART && rules->strategy != PR_ONE_FOR_ONE)
        begin_group(w, parent, child, rules, m, delay_ms);
    else if (!give(w, parent, id, m, verdict, delay_ms))
        pr_msg_free(&w->pool, m);   /* it has been ended meanwhile */
}

void pr_family_told(pr_worker *w, pr_actor *parent, pr_msg *m)
{
    if (m->kind != PR_MSG_CHILD_ENDS) {
        group_answer(w, parent, m);
        return;
    }
    if (parent->flags & PR_FLAG_ENDING) {
        /* It is about to stop them all; unless it fails itself, and may go on. */
        pr_family *f = pr_actor_held(parent) == PR_HELD_VERDICT ? family(parent) : NULL;
        if (f)
            pr_queue_push(&f->later, m);
        else
            pr_msg_free(&w->pool, m);
        return;
    }
    pr_actor *child = child_of(w, parent, m->sender);
    if (child)
        decide(w, parent, child, m);
    else
        pr_msg_free(&w->pool, m);
}

void pr_family_goes_on(pr_worker *w, pr_actor *parent)
{
    pr_family *f = parent->extra ? parent->extra->family : NULL;
    if (!f)
        return;
    uint64_t escalated = f->escalated;
    pr_msg *m = NULL;
    if (escalated && child_of(w, parent, escalated) && !(m = pr_msg_new(&w->pool, 0))) {
        retry(w, f);
        return;
    }
    f->escalated = 0;
    if (m && !give(w, parent, escalated, m, f->escalated_restarts ? PR_VERDICT_RESTART : PR_VERDICT_RESUME, 0))
        pr_msg_free(&w->pool, m);
    for (pr_queue later = f->later; (m = pr_queue_pop(&later));) {
        f->later = (pr_queue){NULL, NULL};
        pr_queue_push(&parent->orders, m);
        pr_make_ready_pinned(w, parent, true);
    }
}

/* --- ends */

bool pr_family_leaves(pr_worker *w, pr_actor *parent, pr_actor *child)
{
    pr_family *f = parent->extra ? parent->extra->family : NULL;
    uint32_t link = child->slot + 1;
    if (!f || f->phase == NOTHING || (f->cursor != link && f->scope != link))
        return false;
    uint32_t younger = PR_GET(child->previous_sibling), older = PR_GET(child->next_sibling);
    bool last = f->scope == link;
    if (last)
        f->scope = younger;
    if (f->cursor != link)
        return false;
    if (f->phase != DELAYED)
        pr_wheel_cancel(&w->wheel, &f->alarm.timer);
    f->cursor = f->phase == STARTING ? younger : f->phase == HOLDING && last ? 0 : older;
    return true;
}

void pr_family_left(pr_worker *w, pr_actor *parent)
{
    pr_family *f = parent->extra->family;
    if (f->phase == ENDING)
        stop_next(w, f);
    else
        step(w, f);
}

void pr_family_ends(pr_worker *w, pr_actor *parent)
{
    pr_family *f = parent->extra ? parent->extra->family : NULL;
    if (f) {
        finish(w, f);
        pr_history_free(&f->all);   /* the next life counts anew */
        f->escalated = 0;
        for (pr_msg *m; (m = pr_queue_pop(&f->later));)
            pr_msg_free(&w->pool, m);
    }
    if (PR_GET(parent->children) == 0)
        return;
    if (parent->flags & PR_FLAG_KILL) {
        pr_stop_children(w, parent, PR_MSG_KILL);
        return;
    }
    if (!rules_of(w, parent)->in_turn || !(f = family(parent))) {
        pr_stop_children(w, parent, PR_MSG_STOP);
        return;
    }
    f->phase = ENDING;
    f->cursor = PR_GET(parent->first_child);
    stop_next(w, f);
}

void pr_family_free(pr_worker *w, pr_actor *parent)
{
    pr_family *f = parent->extra->family;
    if (!f)
        return;
    finish(w, f);
    for (pr_msg *m; (m = pr_queue_pop(&f->later));)
        pr_msg_free(&w->pool, m);
    pr_history_free(&f->all);
    pr_free(f);
    parent->extra->family = NULL;
}
