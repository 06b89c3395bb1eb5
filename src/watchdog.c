/* See watchdog.h. A turn is told by its worker's count of turns, which stands still while one lasts. */
#include "watchdog.h"

#include "worker.h"

#include "alloc.h"

#include <signal.h>
#include <string.h>

/* Of a worker no more reports than these fit into the time that an actor is not reported again in. */
enum { REPORTS = PR_SLOW_TURN_AGAIN_MS / PR_SLOW_TURN_MS };

typedef struct seen {
    uint64_t turn, since_ns;
    bool reported;
    uint32_t next;
    struct report {
        uint64_t id, at_ns;
    } reports[REPORTS];
} seen;

/* Whether the actor has been reported lately: on this worker or, if it floats, another one. */
static bool is_known(const pr_runtime *rt, uint64_t id, uint64_t now_ns)
{
    const seen *all = rt->watchdog.seen;
    for (uint32_t i = 0; i < rt->worker_count; i++)
        for (uint32_t n = 0; n < REPORTS; n++)
            if (all[i].reports[n].id == id && now_ns - all[i].reports[n].at_ns < PR_SLOW_TURN_AGAIN_MS * UINT64_C(1000000))
                return true;
    return false;
}

static void look(pr_runtime *rt, seen *s, uint32_t i, uint64_t now_ns)
{
    pr_worker *w = &rt->workers[i];
    const pr_dispatcher *dispatcher = w->dispatcher;
    /* acquire: `current` is at least that of this turn */
    uint64_t turn = atomic_load_explicit(&w->turn, memory_order_acquire), id = PR_GET(w->current);
    if (id == 0 || turn != s->turn) {
        s->turn = turn;
        s->since_ns = now_ns;
        s->reported = false;
        return;
    }
    if (s->reported || now_ns - s->since_ns < PR_SLOW_TURN_MS * UINT64_C(1000000) || is_known(rt, id, now_ns))
        return;
    s->reported = true;
    s->reports[s->next++ % REPORTS] = (struct report){id, now_ns};
    char name[256];
    pr_details d = {0};
    pr_details_ref(&d, "actor", id);
    pr_details_text(&d, "behaviour", name, pr_actor_behaviour_name(rt, id, name, sizeof name));
    pr_details_number(&d, "seconds", (double)(now_ns - s->since_ns) / 1e9);
    pr_details_number(&d, "worker", i - dispatcher->first + 1);
    pr_details_text(&d, "dispatcher", dispatcher->name, strlen(dispatcher->name));
    pr_event_publish(rt, NULL, PR_TOPIC_SLOW_TURN, &d);
}

static void *watch(void *runtime)
{
    pr_runtime *rt = runtime;
    pr_watchdog *dog = &rt->watchdog;
    seen *seen_of = dog->seen;
    const pr_dispatcher *blocking = pr_dispatcher_named(rt, "blocking", 8);   /* a long turn is no news there */
    pr_memory_here = rt->config.memory;
    pthread_mutex_lock(&dog->lock);
    while (!dog->stop) {
        /* Under the lock, which whoever subscribes takes after the topic is noted: see pr_watchdog_wanted. */
        dog->sleeps = !pr_event_wanted(rt, PR_TOPIC_SLOW_TURN);
        pr_cond_wait_until(&dog->changed, &dog->lock,
                           dog->sleeps ? UINT64_MAX : pr_now_ns() + PR_WATCHDOG_LOOK_MS * UINT64_C(1000000));
        if (dog->stop || dog->sleeps)
            continue;
        pthread_mutex_unlock(&dog->lock);
        uint64_t now_ns = pr_now_ns();
        for (uint32_t i = 0; i < rt->worker_count; i++)
            if (rt->workers[i].dispatcher != blocking)
                look(rt, &seen_of[i], i, now_ns);
        pthread_mutex_lock(&dog->lock);
    }
    pthread_mutex_unlock(&dog->lock);
    return NULL;
}

pr_status pr_watchdog_wanted(pr_runtime *rt)
{
    pr_watchdog *dog = &rt->watchdog;
    pr_status status = PR_OK;
    if (rt->tick)   /* no threads: who ticks knows how long it takes */
        return PR_OK;
    pthread_mutex_lock(&dog->lock);
    if (dog->stop) {
        status = PR_STOPPING;
    } else if (!dog->runs) {
        sigset_t all, old;
        sigfillset(&all);
        if (!dog->seen)
            dog->seen = pr_zalloc(rt->worker_count * sizeof(seen));
        pthread_sigmask(SIG_SETMASK, &all, &old);   /* signals are the host's */
        dog->runs = dog->seen && pthread_create(&dog->thread, NULL, watch, rt) == 0;
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (!dog->runs)
            status = PR_NOMEM;
    } else {
        pthread_cond_broadcast(&dog->changed);
    }
    pthread_mutex_unlock(&dog->lock);
    return status;
}

void pr_watchdog_stop(pr_runtime *rt)
{
    pr_watchdog *dog = &rt->watchdog;
    pthread_mutex_lock(&dog->lock);
    bool runs = dog->runs;
    dog->stop = true;
    dog->runs = false;
    pthread_cond_broadcast(&dog->changed);
    pthread_mutex_unlock(&dog->lock);
    if (runs)
        pthread_join(dog->thread, NULL);
    pr_free(dog->seen);
    dog->seen = NULL;
}
