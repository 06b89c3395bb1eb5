/* Making, starting, stopping and freeing a runtime. See runtime.h. */
#include "port.h"
#include "tick.h"
#include "watchdog.h"
#include "worker.h"

#include "alloc.h"

#include <stdio.h>
#include <string.h>

enum {
    GRACE_NS = 250000000,
    WORKERS_MOST = 60000   /* a home has 16 bits */
};

void pr_config_init(pr_config *c)
{
    memset(c, 0, sizeof *c);
    c->workers = 2;
    c->throughput = 32;
    c->spin = 1024;   /* some 20 microseconds: about what waking a thread takes */
    c->ask_timeout = 5;
    c->log_level = PR_LOG_INFO;
    c->dispatchers[0] = (pr_dispatcher_config){"blocking", 4, 1, false};
    c->dispatcher_count = 1;
}

void pr_runtime_free(pr_runtime *rt)
{
    pr_dispatchers_destroy(rt);
    pr_ports_destroy(rt);
    pr_depot_destroy(&rt->depot);
    pr_behaviours_destroy(&rt->behaviours);
    pr_registry_destroy(&rt->names);
    pr_boxes_destroy(&rt->boxes);
    pr_groups_destroy(&rt->groups);
    pr_events_destroy(&rt->events);
    pthread_cond_destroy(&rt->watchdog.changed);
    pthread_mutex_destroy(&rt->watchdog.lock);
    pr_actor_table_destroy(&rt->actors);
    pr_shares_destroy(&rt->shares);   /* after whatever may hold any */
    pthread_mutex_destroy(&rt->root_lock);
    pthread_cond_destroy(&rt->end_changed);
    pthread_mutex_destroy(&rt->end_lock);
    pr_tick_free(rt->tick);
    pr_free(rt);
}

static pr_runtime *make(const pr_config *c)
{
    pr_runtime *rt = pr_zalloc_line(sizeof *rt);
    if (!rt)
        return NULL;
    rt->config = *c;
    pr_log_init(&rt->log, c->log_level, c->log_sink, c->log_context);
    int bad = 0;
    if (c->ticks)
        bad |= !(rt->tick = pr_tick_new(c));
    rt->started_ns = pr_clock_ns(rt);
    /* Of these only the registry and the groups allocate; a failure of one leaves the others to be destroyed as they are. */
    bad |= pr_actor_table_init(&rt->actors, c->first_generation);
    bad |= pr_registry_init(&rt->names);
    bad |= pr_boxes_init(&rt->boxes);
    bad |= pr_groups_init(&rt->groups);
    bad |= pr_events_init(&rt->events);
    bad |= pthread_mutex_init(&rt->watchdog.lock, NULL);
    bad |= pr_cond_init(&rt->watchdog.changed);
    bad |= pr_behaviours_init(&rt->behaviours);
    bad |= pr_shares_init(&rt->shares);
    bad |= pr_depot_init(&rt->depot);
    bad |= pthread_mutex_init(&rt->root_lock, NULL);
    bad |= pthread_mutex_init(&rt->end_lock, NULL);
    bad |= pr_cond_init(&rt->end_changed);
    bad |= !pr_dispatchers_init(rt);
    if (bad) {
        pr_runtime_free(rt);
        return NULL;
    }
    return rt;
}

/* NULL: nothing is wrong with the dispatchers that are asked for. */
static const char *problem_of(const pr_config *c)
{
    uint64_t workers = c->workers;
    for (uint32_t i = 0; i < c->dispatcher_count; i++) {
        const pr_dispatcher_config *d = &c->dispatchers[i];
        size_t len = d->name ? strlen(d->name) : 0;
        if (len < 1 || len >= PR_DISPATCHER_NAME)
            return "a dispatcher's name has 1 to 63 bytes";
        if (strcmp(d->name, "default") == 0)
            return "the dispatcher \"default\" has the runtime's own workers and throughput";
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(d->name, c->dispatchers[k].name) == 0)
                return "two dispatchers have the same name";
        if (d->workers < 1 || d->workers > PR_DISPATCHER_WORKERS)
            return "a dispatcher has 1 to 1024 workers";
        workers += d->workers;
    }
    return c->workers < 1 ? "there is at least one worker" : workers > WORKERS_MOST ? "there are at most 60000 workers" : NULL;
}

pr_runtime *pr_runtime_start(const pr_config *c, char *error, size_t cap)
{
    pr_status why;
    return pr_runtime_start_why(c, error, cap, &why);
}

pr_runtime *pr_runtime_start_why(const pr_config *c, char *error, size_t cap, pr_status *why)
{
    const char *problem = c->dispatcher_count < PR_DISPATCHERS ? problem_of(c) : "there are at most 33 dispatchers";
    pr_runtime *rt = problem ? NULL : make(c);
    *why = problem ? PR_INVALID : PR_NOMEM;
    if (!rt) {
        snprintf(error, cap, "%s", problem ? problem : "not enough memory");
        return NULL;
    }
    pr_dispatcher *d = &rt->dispatchers[PR_DISPATCHER_DEFAULT];
    if (pr_dispatcher_use(rt, d, error, cap) == PR_OK)
        return rt;
    *why = d->no_threads ? PR_BUSY : PR_FAILURE;
    pr_runtime_free(rt);
    return NULL;
}

void pr_workers_leave(pr_runtime *rt)
{
    atomic_store_explicit(&rt->exit, 1, memory_order_seq_cst);   /* pairs with look_around */
    for (uint32_t i = 0; i < rt->worker_count; i++)
        pr_worker_wake(&rt->workers[i]);
}

void pr_runtime_order(pr_runtime *rt, pr_worker *w, uint8_t kind, pr_actor *a)
{
    uint64_t id = PR_GET(a->id);
    if (id == 0)
        return;
    pr_msg *reason = pr_msg_new(w ? &w->pool : NULL, pr_wire_size_bytes(8));
    if (reason) {
        pr_wire_put_string(reason->data, "shutdown", 8);
        reason->count = 1;
    }
    pr_order(rt, w, id, kind, reason, true);
}

void pr_runtime_stop(pr_runtime *rt, pr_worker *w)
{
    pthread_mutex_lock(&rt->root_lock);
    bool first = !atomic_exchange_explicit(&rt->stopping, 1, memory_order_acq_rel);
    bool empty = rt->root_children == 0;
    for (uint32_t link = first ? PR_GET(rt->root_first) : 0; link;) {   /* the youngest first */
        pr_actor *a = pr_actor_at(&rt->actors, link - 1);
        pr_runtime_order(rt, w, PR_MSG_STOP, a);
        link = PR_GET(a->next_sibling);
    }
    pthread_mutex_unlock(&rt->root_lock);
    if (first && empty)
        pr_workers_leave(rt);
    pthread_mutex_lock(&rt->end_lock);
    pthread_cond_broadcast(&rt->end_changed);
    pthread_mutex_unlock(&rt->end_lock);
}

void pr_runtime_hold(pr_runtime *rt, uint64_t id, bool stops)
{
    atomic_fetch_add_explicit(&rt->active, 1, memory_order_seq_cst);
    rt->holder_stops = stops;
    atomic_store_explicit(&rt->holder, id, memory_order_seq_cst);
    if (!pr_actor_find(&rt->actors, id))
        pr_runtime_release(rt, NULL, id);
}

void pr_runtime_release(pr_runtime *rt, pr_worker *w, uint64_t id)
{
    if (!atomic_compare_exchange_strong_explicit(&rt->holder, &id, 0, memory_order_seq_cst, memory_order_relaxed))
        return;
    /* Called on a worker, which runs and so is not the last one; or by who is about to wait. */
    atomic_fetch_sub_explicit(&rt->active, 1, memory_order_seq_cst);
    if (rt->holder_stops)
        pr_runtime_stop(rt, w);
}

static bool wait_threads(pr_runtime *rt, uint64_t until_ns)
{
    pthread_mutex_lock(&rt->end_lock);
    while (rt->threads_alive > 0)
        if (!pr_cond_wait_until(&rt->end_changed, &rt->end_lock, until_ns))
            break;
    bool gone = rt->threads_alive == 0;
    pthread_mutex_unlock(&rt->end_lock);
    return gone;
}

static void report_stuck(pr_runtime *rt)
{
    uint64_t now_ms = pr_now_ns() / 1000000;
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        uint64_t id = PR_GET(rt->workers[i].current);
        if (id == 0)
            continue;
        const pr_dispatcher *d = rt->workers[i].dispatcher;
        char who[256];
        pr_actor_describe(rt, id, who, sizeof who);
        pr_logf(&rt->log, PR_LOG_ERROR, "shutdown: %s has held worker %u%s%s for %.1f s and does not return; it is left behind",
                who, i - d->first + 1, d->index == PR_DISPATCHER_DEFAULT ? "" : " of ",
                d->index == PR_DISPATCHER_DEFAULT ? "" : d->name,
                (double)(now_ms - PR_GET(rt->workers[i].current_since_ms)) / 1000);
    }
}

pr_status pr_runtime_join(pr_runtime *rt, uint64_t until_ns)
{
    if (rt->tick)
        return pr_tick_join(rt, until_ns);
    /* The time is over. Parents on a stuck worker have not passed the order on: everyone gets it now, so that
     * each `stop` that can run does; then what is merely suspended is killed; a handler that runs stays. */
    static const uint8_t orders[] = {PR_MSG_STOP, PR_MSG_KILL};
    for (int i = 0; !wait_threads(rt, until_ns); i++, until_ns = pr_now_ns() + GRACE_NS) {
        if (i == 2) {
            report_stuck(rt);
            pr_watchdog_stop(rt);
            return PR_TIMEOUT;
        }
        uint32_t slots = atomic_load_explicit(&rt->actors.slots, memory_order_acquire);
        for (uint32_t slot = 0; slot < slots; slot++)
            pr_runtime_order(rt, NULL, orders[i], pr_actor_at(&rt->actors, slot));
    }
    pr_log_gate_flush(&rt->log);
    for (uint32_t i = 0; i < rt->worker_count; i++)
        if (rt->workers[i].has_thread) {
            pthread_join(rt->workers[i].thread, NULL);
            rt->workers[i].has_thread = false;
        }
    pr_watchdog_stop(rt);
    return PR_OK;
}

bool pr_runtime_wait_quiet_until(pr_runtime *rt, uint64_t until_ns)
{
    bool in_time = true;
    pthread_mutex_lock(&rt->end_lock);
    /* Whoever brings `active` to 0 signals under the lock afterwards (tell_quiet). */
    while (in_time && !atomic_load_explicit(&rt->stopping, memory_order_acquire) && rt->threads_alive > 0 &&
           atomic_load_explicit(&rt->active, memory_order_seq_cst) > 0)
        in_time = pr_cond_wait_until(&rt->end_changed, &rt->end_lock, until_ns);
    pthread_mutex_unlock(&rt->end_lock);
    return in_time;
}

void pr_runtime_wait_quiet(pr_runtime *rt) { pr_runtime_wait_quiet_until(rt, UINT64_MAX); }

static void add(pr_counters *sum, const pr_counters *c)
{
    /* All fields are uint64 atomics. */
    _Atomic uint64_t *to = (_Atomic uint64_t *)(void *)sum;
    const _Atomic uint64_t *from = (const _Atomic uint64_t *)(const void *)c;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        PR_BUMP(to[i], PR_GET(from[i]));
}

void pr_runtime_counters(pr_runtime *rt, pr_counters *sum)
{
    memset(sum, 0, sizeof *sum);
    add(sum, &rt->outside);
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        add(sum, &rt->workers[i].counters);
        PR_BUMP(sum->turns, PR_GET(rt->workers[i].turn));
    }
}
