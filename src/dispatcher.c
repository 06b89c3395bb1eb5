/* See dispatcher.h. */
#include "dispatcher.h"

#include "alloc.h"
#include "tick.h"
#include "worker.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Of address space; what is touched counts. Lua bounds recursion through C functions by count: the deepest that it
     * allows (gsub in gsub) must fit, so that it ends as an error and not as a crash. */
    STACK_BYTES = 64 << 20
};

static bool init(pr_runtime *rt, pr_dispatcher *d, const pr_dispatcher_config *c)
{
    snprintf(d->name, sizeof d->name, "%s", c->name);
    d->index = rt->dispatcher_count;
    d->first = rt->worker_count;
    d->count = c->workers;
    d->interpreted = c->interpreted;
    d->throughput = c->throughput ? c->throughput : rt->config.throughput;
    d->workers = &rt->workers[d->first];
    if (pr_global_init(&d->global) != 0)
        return false;
    if (pthread_mutex_init(&d->lock, NULL) != 0) {
        pr_global_destroy(&d->global);
        return false;
    }
    rt->dispatcher_count++;
    for (uint32_t i = 0; i < d->count; i++, rt->worker_count++)
        if (pr_worker_init(&rt->workers[rt->worker_count], rt, d, rt->worker_count) != 0)
            return false;
    return true;
}

bool pr_dispatchers_init(pr_runtime *rt)
{
    const pr_config *c = &rt->config;
    pr_dispatcher_config first = {"default", c->workers, c->throughput, false};
    uint32_t workers = c->workers;
    for (uint32_t i = 0; i < c->dispatcher_count; i++)
        workers += c->dispatchers[i].workers;
    rt->dispatchers = pr_zalloc_line((c->dispatcher_count + 1) * sizeof *rt->dispatchers);
    rt->workers = pr_zalloc_line(workers * sizeof *rt->workers);
    if (!rt->dispatchers || !rt->workers || !init(rt, &rt->dispatchers[0], &first))
        return false;
    for (uint32_t i = 0; i < c->dispatcher_count; i++)
        if (!init(rt, &rt->dispatchers[i + 1], &c->dispatchers[i]))
            return false;
    return true;
}

void pr_dispatchers_destroy(pr_runtime *rt)
{
    for (uint32_t i = 0; i < rt->worker_count; i++)
        pr_worker_destroy(&rt->workers[i]);
    for (uint32_t i = 0; i < rt->dispatcher_count; i++) {
        pr_global_destroy(&rt->dispatchers[i].global);
        pthread_mutex_destroy(&rt->dispatchers[i].lock);
    }
    pr_free(rt->workers);
    pr_free(rt->dispatchers);
}

/* --- starting */

/* Signals are the host's: workers block all of them but those a thread raises by its own fault. */
static int start_thread(pr_worker *w)
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    sigdelset(&all, SIGTRAP);
    sigdelset(&all, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_t attr;
    int status = pthread_attr_init(&attr);
    if (status == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        status = pthread_create(&w->thread, &attr, pr_worker_main, w);
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

/* With its lock held. A thread that is up waits for the others: either all of them run or none does. */
static pr_status start(pr_runtime *rt, pr_dispatcher *d)
{
    uint32_t started = 0;
    if (rt->tick) {
        bool open = pr_tick_open(rt, d);
        if (open)
            atomic_store_explicit(&d->up, true, memory_order_release);
        return open ? PR_OK : PR_FAILURE;
    }
    pthread_mutex_lock(&rt->end_lock);
    /* Shutdown begins before it waits for threads, under this lock: it waits for ours, or we see it here. */
    if (atomic_load_explicit(&rt->stopping, memory_order_acquire)) {
        pthread_mutex_unlock(&rt->end_lock);
        return PR_STOPPING;
    }
    d->opened = 0;
    d->open_failed = d->no_threads = false;
    d->start = PR_START_WAITS;
    /* Awake from the start; before the first may fall asleep. */
    atomic_fetch_add_explicit(&rt->active, d->count, memory_order_seq_cst);
    for (; started < d->count; started++) {
        int status = start_thread(&d->workers[started]);
        if (status != 0) {
            d->open_failed = d->no_threads = true;
            char text[PR_ERROR_TEXT];
            snprintf(d->error, sizeof d->error, "cannot start thread %u of %u of the dispatcher \"%s\": %s", started + 1,
                     d->count, d->name, pr_error_text(status, text));
            break;
        }
        d->workers[started].has_thread = true;
        rt->threads_alive++;
    }
    while (d->opened < started)
        pthread_cond_wait(&rt->end_changed, &rt->end_lock);
    bool failed = d->open_failed;
    d->start = failed ? PR_START_FAILED : PR_START_GO;
    if (failed) {
        atomic_fetch_sub_explicit(&rt->active, d->count, memory_order_seq_cst);
        for (uint32_t i = 0; i < started; i++)
            d->workers[i].has_thread = false;   /* they are ours to join */
    }
    pthread_cond_broadcast(&rt->end_changed);
    pthread_mutex_unlock(&rt->end_lock);
    if (!failed) {
        atomic_store_explicit(&d->up, true, memory_order_release);
        return PR_OK;
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(d->workers[i].thread, NULL);
    return PR_FAILURE;
}

pr_status pr_dispatcher_use(pr_runtime *rt, pr_dispatcher *d, char *error, size_t cap)
{
    /* acquire pairs with the release in start(); what else a birth needs is published by the locks */
    if (atomic_load_explicit(&d->up, memory_order_acquire))
        return PR_OK;
    pthread_mutex_lock(&d->lock);
    pr_status status = atomic_load_explicit(&d->up, memory_order_relaxed) ? PR_OK : start(rt, d);
    if (status == PR_FAILURE && error)
        snprintf(error, cap, "%s", d->error);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* --- names */

pr_dispatcher *pr_dispatcher_named(pr_runtime *rt, const char *name, size_t len)
{
    for (uint32_t i = 0; i < rt->dispatcher_count; i++)
        if (strlen(rt->dispatchers[i].name) == len && memcmp(rt->dispatchers[i].name, name, len) == 0)
            return &rt->dispatchers[i];
    return NULL;
}

size_t pr_dispatchers_list(pr_runtime *rt, char *buf, size_t cap)
{
    size_t used = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < rt->dispatcher_count && used < cap; i++) {
        int n = snprintf(buf + used, cap - used, "%s\"%s\"", i ? ", " : "", rt->dispatchers[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    return used < cap ? used : cap - 1;
}
