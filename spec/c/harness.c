/* See harness.h. */
#include "harness.h"

const shape shapes[SHAPES] = {{2, 1}, {2, 32}, {4, 1}, {4, 32}, {8, 1}, {8, 32}};

static _Atomic uint64_t steps, errors;
static _Atomic(pr_runtime *) watched;
static pthread_once_t watchdog_once = PTHREAD_ONCE_INIT;

static bool under_sanitizer(void)
{
    const char *sanitizer = getenv("PIERROT_SANITIZER");
    return sanitizer && *sanitizer;
}

uint64_t times(uint64_t plain, uint64_t sanitized)
{
    const char *hammer = getenv("PIERROT_HAMMER");
    uint64_t n = under_sanitizer() ? sanitized : plain;
    uint64_t by = hammer ? strtoull(hammer, NULL, 10) : 1;
    return n * (by > 0 ? by : 1);
}

/* --- the watchdog */

enum { STALL_S = 10, STALL_SANITIZED_S = 40 };

/* Reads plain memory of the workers: this is the last thing the process does. ThreadSanitizer would end it in the
 * middle. */
__attribute__((no_sanitize("thread"))) static void dump(pr_runtime *rt, int still)
{
    static const char *const parker[] = {"awake", "parked", "notified"};
    fprintf(stderr, "no progress for %d s\nactive %u stopping %d exit %d root children %u\n",
            still, rt->active, rt->stopping, rt->exit, rt->root_children);
    for (uint32_t i = 0; i < rt->dispatcher_count; i++) {
        pr_dispatcher *d = &rt->dispatchers[i];
        fprintf(stderr, "dispatcher %s: %s, workers %u to %u, sleepers %u watchers %u global %u\n", d->name,
                d->up ? "up" : "not used", d->first + 1, d->first + d->count, d->sleepers, d->watchers, d->global.count);
    }
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        pr_worker *w = &rt->workers[i];
        fprintf(stderr, "worker %u: %s, ring %u, pinned ready: %s, inbox %s, control %s, ended %s, timers %zu, turns %llu, current %llx\n",
                i + 1, parker[w->parker.state], pr_ring_count(&w->ring), w->ready_head ? "yes" : "no",
                pr_inbox_claimed(&w->inbox) ? "not empty" : "empty", pr_stack_empty(&w->control) ? "empty" : "not empty",
                w->ended ? "yes" : "no", w->wheel.count, (unsigned long long)w->counters.turns,
                (unsigned long long)w->current);
    }
    static const char *const sched[] = {"idle", "scheduled", "processing", "pinned"};
    int shown = 0;
    for (uint32_t slot = 0; slot < rt->actors.slots && shown < 20; slot++) {
        pr_actor *a = pr_actor_slot(&rt->actors, slot);
        if (a->id == 0)
            continue;
        shown++;
        fprintf(stderr, "actor %u.%u: %s, flags %x, home %u, mailbox %s, queue %s, orders %s, children %u, gate %u\n",
                slot, a->generation, sched[a->sched], a->flags, a->home, pr_stack_empty(&a->mailbox) ? "empty" : "not empty",
                a->user.head ? "not empty" : "empty", a->orders.head ? "not empty" : "empty", a->children, a->gate);
    }
}

static void *watchdog(void *unused)
{
    (void)unused;
    uint64_t seen = 0;
    pr_runtime *last = NULL;
    for (int still = 0;; still++) {
        nanosleep(&(struct timespec){1, 0}, NULL);
        pr_runtime *rt = atomic_load(&watched);
        uint64_t now = atomic_load(&steps);
        if (rt == NULL || rt != last || now != seen)
            still = 0;
        seen = now;
        last = rt;
        if (still >= (under_sanitizer() ? STALL_SANITIZED_S : STALL_S)) {
            dump(rt, still);
            abort();
        }
    }
    return NULL;
}

static void start_watchdog(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watchdog, NULL) == 0)
        pthread_detach(thread);
}

void watch_over(pr_runtime *rt)
{
    pthread_once(&watchdog_once, start_watchdog);
    progress();
    atomic_store(&watched, rt);
}

void progress(void)
{
    atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
}

void wait_for(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t seen = 0, now;
    while ((now = atomic_load(counter)) < n) {
        if (now != seen)
            progress();
        seen = now;
        pause_us(50);
    }
    progress();
}

void wait_for_end(pr_runtime *rt, uint64_t id)
{
    while (pr_actor_find(&rt->actors, id))
        pause_us(50);
    progress();
}

void wrong(const char *format, ...)
{
    if (atomic_fetch_add(&errors, 1) >= 5)
        return;
    va_list args;
    va_start(args, format);
    fputs("# wrong: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
}

bool no_errors(void)
{
    return atomic_exchange(&errors, 0) == 0;
}

/* --- runtimes */

static void swallow(void *context, enum pr_log_level level, const char *text, size_t len)
{
    (void)context, (void)level, (void)text, (void)len;
}

pr_runtime *runtime_up_spinning(shape s, uint32_t spin)
{
    pr_config c;
    char error[256] = "";
    pr_config_init(&c);
    c.workers = s.workers;
    c.throughput = s.throughput;
    c.spin = spin;
    c.log_level = PR_LOG_NONE;
    c.log_sink = swallow;
    pr_runtime *rt = pr_runtime_start(&c, error, sizeof error);
    if (!rt)
        fail_msg("cannot start: %s", error);
    watch_over(rt);
    return rt;
}

pr_runtime *runtime_up(shape s)
{
    return runtime_up_spinning(s, 64);
}

void runtime_down(pr_runtime *rt, pr_counters *sum)
{
    progress();
    pr_runtime_stop(rt, NULL);
    /* Join would end what is left by killing it: here the watchdog comes first, and shows it. */
    pr_status status = pr_runtime_join(rt, pr_now_ns() + UINT64_C(60000000000));
    if (status != PR_OK)
        fail_msg("the workers did not end");
    watch_over(NULL);
    pr_counters counters;
    pr_runtime_counters(rt, &counters);
    if (counters.spawned != counters.ended)
        wrong("%llu spawned, %llu ended", (unsigned long long)counters.spawned, (unsigned long long)counters.ended);
    if (sum)
        *sum = counters;
    pr_runtime_free(rt);
}

/* --- small things */

uint64_t draw(uint64_t *random)
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void pause_us(unsigned us)
{
    struct timespec t = {0, (long)us * 1000};
    if (us == 0)
        sched_yield();
    else
        nanosleep(&t, NULL);
}

pr_msg *letter(pr_worker *w, uint64_t to, const void *bytes, size_t size)
{
    pr_msg *m = pr_msg_new(w ? &w->pool : NULL, size);
    if (m) {
        m->kind = PR_MSG_USER;
        m->target = to;
        m->sender = w && w->running ? PR_GET(w->running->id) : 0;
        if (size)
            memcpy(m->data, bytes, size);
    }
    return m;
}

pr_status tell(pr_runtime *rt, pr_worker *w, uint64_t to, const void *bytes, size_t size)
{
    pr_msg *m = letter(w, to, bytes, size);
    if (!m)
        return PR_NOMEM;
    pr_status status = pr_send(rt, w, m);
    if (status != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, m);
    return status;
}

pr_status order(pr_runtime *rt, pr_worker *w, uint64_t to, uint8_t kind)
{
    return pr_order(rt, w, to, kind, NULL, false);
}

pr_status spawn(pr_runtime *rt, pr_worker *w, const pr_ops *ops, uint16_t flags, uint32_t where, void *data, uint64_t *id)
{
    pr_msg *args = pr_msg_new(w ? &w->pool : NULL, sizeof data);
    if (!args)
        return PR_NOMEM;
    memcpy(args->data, &data, sizeof data);
    pr_spawn s = {.ops = ops, .worker = where, .flags = flags, .args = args};
    pr_status status = pr_actor_spawn(rt, w, &s, id);
    if (status != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, args);
    return status;
}

pr_outcome done_start(pr_worker *w, pr_actor *a) { (void)w, (void)a; return PR_DONE; }
pr_outcome done_receive(pr_worker *w, pr_actor *a, pr_msg *m) { (void)w, (void)a, (void)m; return PR_DONE; }
pr_outcome done_resume(pr_worker *w, pr_actor *a) { (void)w, (void)a; return PR_DONE; }
pr_outcome done_stop(pr_worker *w, pr_actor *a, const pr_msg *reason) { (void)w, (void)a, (void)reason; return PR_DONE; }
void done_abandon(pr_worker *w, pr_actor *a, void *suspended) { (void)w, (void)a, (void)suspended; }
void done_release(pr_worker *w, pr_actor *a) { (void)w, (void)a; }
const pr_ops idle_ops = {done_start, done_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void *crew_main(void *context)
{
    const task *t = context;
    return t->run(t->context, t->index);
}

void crew_start(crew *c, unsigned count, void *(*run)(void *context, unsigned index), void *context)
{
    c->count = count;
    for (unsigned i = 0; i < count; i++) {
        c->task[i] = (task){run, context, i};
        assert_int_equal(pthread_create(&c->thread[i], NULL, crew_main, &c->task[i]), 0);
    }
}

void crew_join(crew *c)
{
    for (unsigned i = 0; i < c->count; i++)
        pthread_join(c->thread[i], NULL);
}
