/* Timers whose target ends go at once, from whichever worker, port or actor they were set: nothing is due for an hour, and
 * yet the runtime is quiet as soon as the targets have gone, with every wheel and every table of targets empty.
 *
 * Mutants caught: `named` looked at before the id is cleared; no second look at the id after `named` is set; one worker noted
 * where several have timers; a node left in its chain. */
#include "harness.h"

enum { TARGETS = 24, SETTERS = 12, HOUR_MS = 3600000 };

typedef struct world {
    pr_runtime *rt;
    uint64_t targets[TARGETS];
    _Atomic uint64_t set, dead;
    uint32_t workers;
} world;

/* Sets timers to targets by chance, some of which end meanwhile, and cancels a few. */
static pr_outcome setter_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    world *wd = data_of(a);
    (void)m;
    for (int i = 0; i < 6; i++) {
        uint64_t to = wd->targets[pr_worker_random(w) % TARGETS];
        pr_msg *say = letter(w, to, "x", 1);
        say->sender = PR_GET(a->id);
        pr_user_timer *t = pr_user_timer_new(w->rt, w, say, HOUR_MS, pr_worker_random(w) % 2 ? HOUR_MS : 0);
        if (!t) {
            pr_msg_free(&w->pool, say);
            continue;
        }
        atomic_fetch_add(&wd->set, 1);
        if (pr_worker_random(w) % 4 == 0)
            pr_user_timer_cancel(w->rt, w, t);
        pr_user_timer_drop(w->rt, w, t);
    }
    progress();
    return PR_DONE;
}

static const pr_ops setter_ops = {done_start, setter_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

/* From outside, too. */
static void set_outside(world *wd, uint64_t to)
{
    pr_msg *say = letter(NULL, to, "x", 1);
    pr_user_timer *t = pr_user_timer_new(wd->rt, NULL, say, HOUR_MS, 0);
    if (t)
        pr_user_timer_drop(wd->rt, NULL, t);
    else
        pr_msg_free(NULL, say);
}

static void *ends(void *context, unsigned index)
{
    world *wd = context;
    uint64_t random = index * UINT64_C(77) + wd->set;
    for (unsigned i = index; i < TARGETS; i += 2) {
        set_outside(wd, wd->targets[below(&random, TARGETS)]);
        if (below(&random, 2))
            pause_us((unsigned)below(&random, 40));
        order(wd->rt, NULL, wd->targets[i], below(&random, 2) ? PR_MSG_STOP : PR_MSG_KILL);
        progress();
    }
    return NULL;
}

static void round_with(uint32_t workers, uint64_t seed)
{
    uint64_t random = seed, setters[SETTERS];
    pr_runtime *rt = runtime_up((shape){workers, 32});
    world wd = {.rt = rt, .workers = workers};
    crew c;
    for (int i = 0; i < TARGETS; i++)
        assert_int_equal(spawn(rt, NULL, &idle_ops, i % 3 ? 0 : PR_FLAG_FLOATS, i % 3 ? 1 + (uint32_t)below(&random, workers) : 0,
                               NULL, &wd.targets[i]), PR_OK);
    for (int i = 0; i < SETTERS; i++)   /* floating setters too: theirs are the worker's */
        assert_int_equal(spawn(rt, NULL, &setter_ops, i % 4 ? 0 : PR_FLAG_FLOATS, i % 4 ? 1 + (uint32_t)below(&random, workers) : 0,
                               &wd, &setters[i]), PR_OK);
    for (int i = 0; i < SETTERS; i++)
        tell(rt, NULL, setters[i], "go", 2);
    crew_start(&c, 2, ends, &wd);
    for (int i = 0; i < SETTERS; i++)
        tell(rt, NULL, setters[i], "go", 2);
    crew_join(&c);
    pr_runtime_wait_quiet(rt);   /* it would be an hour: the watchdog says so sooner */
    for (uint32_t i = 0; i < workers; i++)   /* asleep, and nothing wakes them */
        if (rt->workers[i].wheel.count != 0 || rt->workers[i].targets.count != 0)
            wrong("%u workers, seed %llu: worker %u has %zu timers, %u of them by target", workers, (unsigned long long)seed, i + 1,
                  rt->workers[i].wheel.count, rt->workers[i].targets.count);
    pr_counters sum;
    runtime_down(rt, &sum);
}

static void timers_go_with_their_targets(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8};
    (void)state;
    for (uint64_t i = 0, n = times(600, 60); i < n; i++)
        round_with(counts[i % 5], i);
    assert_true(no_errors());
}

/* A port that closes ends like an actor. */
static void a_closed_port_is_no_target(void **state)
{
    (void)state;
    pr_runtime *rt = runtime_up((shape){2, 32});
    world wd = {.rt = rt, .workers = 2};
    pr_port *port = pr_port_open(rt);
    for (int i = 0; i < TARGETS; i++)
        wd.targets[i] = port->id;
    uint64_t setter;
    assert_int_equal(spawn(rt, NULL, &setter_ops, 0, 2, &wd, &setter), PR_OK);
    tell(rt, NULL, setter, "go", 2);
    set_outside(&wd, port->id);
    wait_for(&wd.set, 6);
    pr_port_close(rt, port);
    pr_runtime_wait_quiet(rt);
    pr_counters sum;
    runtime_down(rt, &sum);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(timers_go_with_their_targets), cmocka_unit_test(a_closed_port_is_no_target)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
