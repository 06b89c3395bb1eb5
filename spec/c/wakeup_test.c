/* No message is left in an idle actor, and no actor in the queue of a sleeping worker.
 *
 * Mutants caught: no second look after IDLE; no look at the inbox, or at the global queue, after the parker says
 * PARKED; a waker that looks at the parker before its push; a worker that parks beside its own ring; surplus that
 * nobody is told of when the one who kept watch has taken something. */
#include "harness.h"

/* --- a token between two that sleep in between */

typedef struct runner {
    uint64_t other;
    _Atomic uint64_t *hops;
    uint64_t goal;
} runner;

static pr_outcome runner_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    runner *r = data_of(a);
    (void)m;
    if (atomic_fetch_add_explicit(r->hops, 1, memory_order_relaxed) + 1 < r->goal)
        tell(w->rt, w, r->other, NULL, 0);
    return PR_DONE;
}
static const pr_ops runner_ops = {done_start, runner_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void pass_token(shape s, bool floats, uint64_t goal)
{
    _Atomic uint64_t hops = 0;
    runner pair[2];
    uint64_t id[2];
    pr_runtime *rt = runtime_up_spinning(s, 0);
    for (uint32_t i = 0; i < 2; i++) {
        pair[i].hops = &hops;
        pair[i].goal = goal;
        assert_int_equal(spawn(rt, NULL, &runner_ops, floats && i == 0 ? PR_FLAG_FLOATS : 0, floats && i == 0 ? 0 : i + 1, &pair[i], &id[i]), PR_OK);
    }
    pair[0].other = id[1];
    pair[1].other = id[0];
    tell(rt, NULL, id[0], NULL, 0);
    wait_for(&hops, goal);
    runtime_down(rt, NULL);
}

static void a_token_between_parked_workers(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i += 2)
        pass_token(shapes[i], false, times(60000, 10000));
    assert_true(no_errors());
}

static void a_token_between_homes(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        pass_token(shapes[i], true, times(20000, 3000));
    assert_true(no_errors());
}

/* --- outside senders that wait for each message to be handled */

enum { SENDERS = 16, TARGETS = 8 };

typedef struct echo {
    _Atomic uint64_t handled;
} echo;

static struct {
    pr_runtime *rt;
    echo echo[TARGETS];
    uint64_t id[TARGETS], goal;
    unsigned senders;
} pool;

static pr_outcome echo_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)m;
    echo *e = data_of(a);
    atomic_fetch_add(&e->handled, 1);
    return PR_DONE;
}
static const pr_ops echo_ops = {done_start, echo_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

/* One or two senders to a target: nobody else's message would wake it for one that was left behind. The next one
 * is sent at the moment the last one was handled, when its actor is about to go idle, or a little later. */
static void *hesitant(void *context, unsigned index)
{
    (void)context;
    uint64_t random = index;
    unsigned t = index % TARGETS;
    for (uint64_t i = 1; i <= pool.goal; i++) {
        uint64_t seen = atomic_load(&pool.echo[t].handled);
        if (tell(pool.rt, NULL, pool.id[t], NULL, 0) != PR_OK)
            wrong("not accepted");
        if (pool.senders <= TARGETS)   /* it is the only one here */
            for (unsigned spins = 0; atomic_load(&pool.echo[t].handled) == seen; spins++)
                if (spins > 200)
                    pause_us(spins > 2000 ? 50 : 0);
        progress();
        if (below(&random, 4) == 0)
            pause_us((unsigned)below(&random, 50));
        else
            for (volatile uint64_t spins = below(&random, below(&random, 2) ? 300 : 6000); spins > 0; spins--)
                ;
    }
    return NULL;
}

static void outside_senders_that_pause(void **state)
{
    (void)state;
    static const unsigned senders[] = {1, 2, 8, 16};
    for (int i = 0; i <= SHAPES; i++)
        for (int k = 0; k < 4; k++) {
            memset(&pool, 0, sizeof pool);
            /* A single worker too: no sibling then finds what it has missed. */
            pool.rt = runtime_up_spinning(i < SHAPES ? shapes[i] : (shape){1, 32}, i % 3 == 0 ? 64 : 0);
            pool.goal = times(k < 2 ? 6000 : 1500, 300);
            pool.senders = senders[k];
            for (int t = 0; t < TARGETS; t++)
                assert_int_equal(spawn(pool.rt, NULL, &echo_ops, t % 2 ? 0 : PR_FLAG_FLOATS, 0, &pool.echo[t], &pool.id[t]), PR_OK);
            crew threads;
            crew_start(&threads, pool.senders, hesitant, NULL);
            crew_join(&threads);
            for (unsigned t = 0; t < TARGETS; t++)
                wait_for(&pool.echo[t].handled, pool.goal * ((pool.senders + TARGETS - 1 - t) / TARGETS));
            runtime_down(pool.rt, NULL);
        }
    assert_true(no_errors());
}

/* --- a timer's message to a floating actor, on a worker about to sleep */

static _Atomic uint64_t rung;

static pr_outcome ring_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a, (void)m;
    atomic_fetch_add(&rung, 1);
    return PR_DONE;
}
static const pr_ops ring_ops = {done_start, ring_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

/* Is busy until the timer is due, so that the worker finds it so when it has nothing else left. */
static pr_outcome busy_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    uint64_t until_ns;
    (void)w, (void)a;
    memcpy(&until_ns, m->data, sizeof until_ns);
    while (pr_now_ns() < until_ns)
        ;
    return PR_DONE;
}
static const pr_ops busy_ops = {done_start, busy_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void a_timer_reaches_a_floating_actor(void **state)
{
    (void)state;
    /* One worker: there is no other who would find what it leaves behind. */
    pr_runtime *rt = runtime_up((shape){1, 32});
    uint64_t id, busy;
    rung = 0;
    assert_int_equal(spawn(rt, NULL, &ring_ops, PR_FLAG_FLOATS, 0, NULL, &id), PR_OK);
    assert_int_equal(spawn(rt, NULL, &busy_ops, 0, 0, NULL, &busy), PR_OK);
    for (uint64_t i = 1; i <= times(200, 50); i++) {
        pr_user_timer *t = pr_user_timer_new(rt, NULL, letter(NULL, id, NULL, 0), i % 3, 0);
        assert_non_null(t);
        uint64_t due_ns = t->due_ms * 1000000 + 1000;
        pr_user_timer_drop(rt, NULL, t);
        for (int k = 0; k < 3; k++)
            tell(rt, NULL, busy, &due_ns, sizeof due_ns);
        wait_for(&rung, i);
    }
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

/* --- long handlers with work left behind them */

static _Atomic uint64_t arrived, wanted;

/* Holds its worker until all the others are running too. */
static pr_outcome meet_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a, (void)m;
    atomic_fetch_add(&arrived, 1);
    progress();
    while (atomic_load(&arrived) < atomic_load(&wanted))
        pause_us(20);
    return PR_DONE;
}
static const pr_ops meet_ops = {done_start, meet_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static pr_outcome host_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    for (uint8_t i = 1; i < m->data[0]; i++) {
        uint64_t id;
        if (spawn(w->rt, w, &meet_ops, PR_FLAG_FLOATS, 0, NULL, &id) == PR_OK)
            tell(w->rt, w, id, NULL, 0);
    }
    return meet_receive(w, a, m);
}
static const pr_ops host_ops = {done_start, host_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void idle_workers_take_what_lies_behind_long_handlers(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < times(60, 8); round++)
        for (uint8_t n = 2; n <= 8; n = (uint8_t)(n + 1)) {
            pr_runtime *rt = runtime_up((shape){n, 32});
            uint64_t id;
            pause_us((unsigned)(round * 10));
            atomic_store(&arrived, 0);
            atomic_store(&wanted, n);
            assert_int_equal(spawn(rt, NULL, &host_ops, round % 2 ? PR_FLAG_FLOATS : 0, 0, NULL, &id), PR_OK);
            tell(rt, NULL, id, &n, 1);
            wait_for(&arrived, n);
            runtime_down(rt, NULL);
        }
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_between_parked_workers),
        cmocka_unit_test(a_token_between_homes),
        cmocka_unit_test(outside_senders_that_pause),
        cmocka_unit_test(a_timer_reaches_a_floating_actor),
        cmocka_unit_test(idle_workers_take_what_lies_behind_long_handlers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
