/* Birth: a free record becomes an actor. On any thread; the spawner's actor, if it is pinned, is the parent.
 *
 * Everything is in place before the id is published, as whoever holds it may send from then on, and nothing can fail
 * after it. What has been taken until then is given back in one place: a spawn that fails leaves no trace. */
#include "life.h"

#include "alloc.h"
#include "explore.h"

/* From here on anyone who holds the id may send. release: pairs with pr_actor_find. A root's child is published
 * under root_lock, so that a shutdown that begins meanwhile finds it. */
static inline __attribute__((always_inline)) void publish(pr_actor *a, uint64_t id, const pr_spawn *s)
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

/* What a birth takes before it is sure. */
typedef struct birth {
    pr_runtime *rt;
    pr_worker *w;
    const pr_spawn *s;
    pr_actor *a, *parent;
    uint32_t home;               /* of one that is to live on a certain worker, else 0 */
    pr_msg *wake;                /* to that worker, unless it is this one */
    uint64_t id;
} birth;

static pr_status give_back(birth *b, pr_status why)
{
    if (b->a) {
        pr_free(b->a->extra);
        b->a->extra = NULL;
        pr_actor_free(&b->rt->actors, b->w ? &b->w->actors : NULL, b->a);
    }
    pr_msg_drop(b->w, b->wake);
    return why;
}

/* Inlined: what a caller leaves out of `s` costs nothing there. home: of one that is to live on a certain worker, else 0. */
static inline __attribute__((always_inline)) void fill(pr_runtime *rt, pr_worker *w, pr_actor *a, const pr_actor *parent,
                                                       const pr_spawn *s, uint32_t home)
{
    const pr_explore *explore = rt->config.explore;
    a->kind = s->script ? PR_KIND_SCRIPT : s->call ? PR_KIND_CALL : PR_KIND_ACTOR;
    PR_SET(a->dispatcher, s->dispatcher);
    a->restart = s->restart;
    a->ops = s->ops;
    PR_SET(a->behaviour, s->behaviour);
    PR_SET(a->named, s->name ? PR_NAMED : 0);
    PR_SET(a->parent, parent ? pr_actor_id(parent) : 0);
    a->user = a->orders = (pr_queue){NULL, NULL};
    a->wait = NULL;
    a->extra = NULL;
    a->flags = (uint16_t)(PR_FLAG_NEW | s->flags | (explore && !explore->plain ? PR_FLAG_APART : 0));
    a->in_ready = 0;
    a->self = 0;
    a->start_args = s->args;
    PR_SET(a->born_ms, w ? w->now_ms : pr_clock_ns(rt) / 1000000);
    PR_SET(a->gate, s->box ? PR_GATE_BOXED : 0);
    PR_SET(a->asking, s->reentrant ? PR_ASKS_NOBODY : 0);
    PR_SET(a->handled, 0);
    PR_SET(a->depth, 0);
    PR_SET(a->restarts, 0);
    PR_SET(a->state, s->call ? PR_STATE_IDLE : PR_STATE_SCHEDULED);
    PR_SET(a->first_child, 0);
    PR_SET(a->children, 0);
    PR_SET(a->home, (uint16_t)home);
    PR_SET(a->sched, s->worker ? PR_PINNED : PR_SCHEDULED);   /* a call: see await_message */
}

/* Into its family, and known by its id. False: the runtime is shutting down. */
static bool appear(const birth *b)
{
    pr_runtime *rt = b->rt;
    if (b->parent) {
        pr_family_link(rt, &b->parent->first_child, b->a);
        PR_BUMP(b->parent->children, 1);
        publish(b->a, b->id, b->s);
        return true;
    }
    pthread_mutex_lock(&rt->root_lock);
    bool late = atomic_load_explicit(&rt->stopping, memory_order_relaxed);
    if (!late) {
        pr_family_link(rt, &rt->root_first, b->a);
        rt->root_children++;
        publish(b->a, b->id, b->s);
    }
    pthread_mutex_unlock(&rt->root_lock);
    return !late;
}

/* Its threads; the log has what is wrong. */
static pr_status use_dispatcher(pr_runtime *rt, uint8_t index)
{
    if (index >= rt->dispatcher_count)
        return PR_FAILURE;
    char error[512];
    pr_status status = pr_dispatcher_use(rt, &rt->dispatchers[index], error, sizeof error);
    if (status == PR_FAILURE)
        pr_logf(&rt->log, PR_LOG_ERROR, "spawn: %s", error);
    return status;
}

/* A call is in no queue: what is sent to it makes it ready. Only now: before its id was known, a sender that still had the
 * record's last bearer in mind could have had it run. What has come meanwhile found it scheduled, and is looked for here as at
 * the end of a floating turn; all but the message in a box, behind which the call's own will come. */
static void await_message(pr_runtime *rt, pr_worker *w, pr_actor *a)
{
    atomic_store_explicit(&a->sched, PR_IDLE, memory_order_seq_cst);
    if ((!pr_stack_empty(&a->mailbox) || !pr_stack_empty(&a->control)) && pr_actor_try_schedule(a))
        pr_make_ready(rt, w, a);
}

static pr_status be_born(pr_runtime *rt, pr_worker *w, const pr_spawn *s, uint64_t *id)
{
    birth b = {.rt = rt, .w = w, .s = s};
    if (w && w->running && !(w->running->flags & PR_FLAG_FLOATS) && !s->at_root)
        b.parent = w->running;
    if (atomic_load_explicit(&rt->stopping, memory_order_acquire) ||
        (b.parent && b.parent->flags & (PR_FLAG_ENDING | PR_FLAG_KILL)))
        return PR_STOPPING;
    pr_status usable = s->dispatcher == PR_DISPATCHER_DEFAULT ? PR_OK : use_dispatcher(rt, s->dispatcher);
    if (usable != PR_OK)
        return usable;
    if (s->worker) {
        if (s->worker > rt->dispatchers[s->dispatcher].count)
            return PR_FAILURE;
        b.home = rt->dispatchers[s->dispatcher].first + s->worker;
    }
    if (b.parent && !pr_actor_extra(b.parent))   /* a parent can always be reminded of its children: see pr_stop_children */
        return PR_NOMEM;
    if (b.home && !(w && w->index + 1 == b.home) && !(b.wake = pr_msg_new(w ? &w->pool : NULL, 0)))
        return PR_NOMEM;
    pr_actor *a = b.a = pr_actor_alloc(&rt->actors, w ? &w->actors : NULL, &b.id);
    if (!a)
        return give_back(&b, PR_NOMEM);
    fill(rt, w, a, b.parent, s, b.home);
    if ((s->ties || s->has_shutdown || s->reentrant || s->timeslice_ns) && !pr_actor_extra(a))
        return give_back(&b, PR_NOMEM);
    if (s->has_shutdown)
        a->extra->shutdown_ms = s->shutdown_ms;
    if (s->reentrant)
        a->extra->parked.most = s->reentrant;
    if (s->timeslice_ns) {
        a->extra->timeslice_ns = s->timeslice_ns;
        pr_flags_set(a, PR_FLAG_APART);
    }
    if (s->box && !pr_box_attach(rt, s->box, a->slot, b.id))
        return give_back(&b, PR_NOMEM);
    int put = s->name ? pr_registry_put(&rt->names, s->name, s->name_len, b.id, id) : PR_REGISTRY_OK;
    if (put != PR_REGISTRY_OK)
        return give_back(&b, put == PR_REGISTRY_EXISTS ? PR_EXISTS : PR_NOMEM);
    if (!appear(&b)) {
        if (s->name)
            pr_registry_remove(&rt->names, s->name, s->name_len, b.id);
        return give_back(&b, PR_STOPPING);
    }
    PR_COUNT(rt, w, spawned, 1);
    if (w && w->burst > 0)
        w->burst -= PR_BURST_BIRTH;
    *id = b.id;
    if (!b.home) {
        if (s->call)
            await_message(rt, w, a);
        else
            pr_make_ready(rt, w, a);
        return PR_OK;
    }
    pr_worker_sent_resident(&rt->workers[b.home - 1]);
    if (!b.wake) {
        pr_make_ready_pinned(w, a, false);
    } else {
        /* Its worker learns of it by a message, unless a shutdown has been faster: then it has ended, and the worker may have left. */
        b.wake->kind = PR_MSG_WAKE;
        b.wake->target = b.id;
        if (pr_stack_push(&rt->workers[b.home - 1].control, b.wake))
            pr_worker_wake(&rt->workers[b.home - 1]);
        else
            pr_msg_free(w ? &w->pool : NULL, b.wake);
    }
    return PR_OK;
}

/* Where actors or mailboxes are limited. */
static pr_status be_born_within_limits(pr_runtime *rt, pr_worker *w, const pr_spawn *s, uint64_t *id)
{
    const pr_config *c = &rt->config;
    pr_spawn bounded = *s;
    if (c->actor_limit && atomic_fetch_add_explicit(&rt->living, 1, memory_order_relaxed) >= c->actor_limit) {
        atomic_fetch_sub_explicit(&rt->living, 1, memory_order_relaxed);
        return PR_LIMIT;
    }
    pr_status status = PR_OK;
    if (c->mailbox_limit && !s->box) {
        pr_box_spec spec = {.capacity = c->mailbox_limit, .overflow = PR_OVERFLOW_REJECT};
        if (!(bounded.box = pr_box_new(rt, &spec)))
            status = PR_NOMEM;
    }
    if (status == PR_OK)
        status = be_born(rt, w, &bounded, id);
    if (status != PR_OK && bounded.box && !s->box)
        pr_box_discard(rt, bounded.box);
    if (status != PR_OK && c->actor_limit)
        atomic_fetch_sub_explicit(&rt->living, 1, memory_order_relaxed);
    return status;
}

static bool has_limits(const pr_runtime *rt) { return rt->config.actor_limit || rt->config.mailbox_limit; }

pr_status pr_actor_spawn(pr_runtime *rt, pr_worker *w, const pr_spawn *s, uint64_t *id)
{
    return has_limits(rt) ? be_born_within_limits(rt, w, s, id) : be_born(rt, w, s, id);
}

uint64_t pr_actor_spawn_plain(pr_worker *w, const pr_ops *ops, pr_behaviour *behaviour, pr_msg *args)
{
    const pr_spawn s = {.ops = ops, .behaviour = behaviour, .args = args};
    pr_runtime *rt = w->rt;
    pr_actor *parent = w->running;
    uint64_t id;
    if (!parent || parent->flags & (PR_FLAG_FLOATS | PR_FLAG_ENDING | PR_FLAG_KILL) || !parent->extra || has_limits(rt) ||
        atomic_load_explicit(&rt->stopping, memory_order_acquire))
        return 0;
    pr_actor *a = pr_actor_alloc(&rt->actors, &w->actors, &id);
    if (!a)
        return 0;
    fill(rt, w, a, parent, &s, 0);
    pr_family_link(rt, &parent->first_child, a);
    PR_BUMP(parent->children, 1);
    publish(a, id, &s);
    PR_BUMP(w->counters.spawned, 1);
    if (w->burst > 0)
        w->burst -= PR_BURST_BIRTH;
    pr_make_ready(rt, w, a);
    return id;
}
