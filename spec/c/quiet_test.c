/* Quiescence: pr_runtime_wait_quiet returns when nothing is left that could happen, and never before. And timers:
 * nothing comes after a cancel.
 *
 * Mutants caught: a worker with an armed timer counted as asleep; a waker that leaves the count to the woken one;
 * one that adds to `active` after its claim (with a pause in between; seldom without); a notified watcher counted
 * twice; a cancel that only takes the timer out of the wheel. */
#include "harness.h"

enum { ACTORS = 12 };

static struct {
    pr_runtime *rt;
    uint64_t id[ACTORS], random[ACTORS];
    _Atomic uint64_t pending;         /* messages and timers that have yet to be handled */
} net;

static void pass(pr_worker *w, uint64_t *random, uint8_t left, bool timers)
{
    uint64_t to = net.id[below(random, ACTORS)];
    atomic_fetch_add(&net.pending, 1);
    if (timers && below(random, 4) == 0) {
        pr_user_timer *t = pr_user_timer_new(net.rt, w, letter(w, to, &left, 1), below(random, 3), 0);
        if (t)
            pr_user_timer_drop(net.rt, w, t);
        else
            wrong("no timer");
    } else if (tell(net.rt, w, to, &left, 1) != PR_OK) {
        wrong("not accepted");
    }
}

static pr_outcome node_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    uint64_t *random = data_of(a);
    if (m->data[0] > 0)
        for (uint64_t n = below(random, 3) + (m->data[0] > 6); n > 0; n--)
            pass(w, random, (uint8_t)(m->data[0] - 1), m->data[0] % 2 && !(a->flags & PR_FLAG_FLOATS));
    if (below(random, 64) == 0)
        for (volatile int i = 0; i < 20000; i++)
            ;
    atomic_fetch_sub(&net.pending, 1);
    return PR_DONE;
}
static const pr_ops node_ops = {done_start, node_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void quiet_is_quiet(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < SHAPES + 1; i++) {
        memset(&net, 0, sizeof net);
        net.rt = runtime_up_spinning(i == SHAPES ? (shape){1, 32} : shapes[i], i % 2 ? 64 : 0);
        for (uint64_t k = 0; k < ACTORS; k++) {
            net.random[k] = k;
            assert_int_equal(spawn(net.rt, NULL, &node_ops, k % 2 ? PR_FLAG_FLOATS : 0, 0, &net.random[k], &net.id[k]), PR_OK);
        }
        uint64_t programs = times(500, 80);
        for (uint64_t p = 0; p < programs; p++) {
            for (uint64_t n = below(&random, 4); n > 0; n--)
                pass(NULL, &random, (uint8_t)below(&random, 10), p % 4 == 0);
            pr_runtime_wait_quiet(net.rt);
            uint64_t left = atomic_load(&net.pending);
            if (left != 0) {
                wrong("program %d: quiet with %d messages to come", (int)p, (int)left);
                break;
            }
            progress();
        }
        runtime_down(net.rt, NULL);
    }
    assert_true(no_errors());
}

/* --- a worker that is woken while it falls asleep, with a timer pending all the time */

static _Atomic int over;

static void *wake_often(void *context, unsigned index)
{
    pr_runtime *rt = context;
    uint64_t random = index, id = net.id[0];
    while (!atomic_load(&over)) {
        tell(rt, NULL, id, NULL, 0);
        progress();
        for (volatile uint64_t i = below(&random, 2000); i > 0; i--)
            ;
    }
    return NULL;
}

static void a_pending_timer_is_never_quiet(void **state)
{
    (void)state;
    pr_runtime *rt = runtime_up_spinning((shape){2, 32}, 0);
    assert_int_equal(spawn(rt, NULL, &idle_ops, 0, 1, NULL, &net.id[0]), PR_OK);
    pr_user_timer *t = pr_user_timer_new(rt, NULL, letter(NULL, net.id[0], NULL, 0), 3600000, 0);
    assert_non_null(t);
    atomic_store(&over, 0);
    crew threads;
    crew_start(&threads, 2, wake_often, rt);
    uint64_t until = pr_now_ns() + times(2, 2) * UINT64_C(1000000000), looks = 0;
    while (pr_now_ns() < until)
        for (int i = 0; i < 1000; i++, looks++)
            if (atomic_load(&rt->active) == 0) {
                wrong("quiet after %llu looks, with a timer pending", (unsigned long long)looks);
                until = 0;
                break;
            }
    atomic_store(&over, 1);
    crew_join(&threads);
    pr_user_timer_cancel(rt, NULL, t);
    pr_user_timer_drop(rt, NULL, t);
    pr_runtime_wait_quiet(rt);
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

/* --- cancel */

typedef struct bell {
    _Atomic uint64_t rung, done;
    pr_user_timer *timer;
    bool cancelled;
} bell;

static pr_outcome bell_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    bell *b = data_of(a);
    (void)w;
    (void)m;
    if (b->cancelled)
        wrong("a message after the cancel");
    atomic_fetch_add(&b->rung, 1);
    return PR_DONE;
}
static const pr_ops bell_ops = {done_start, bell_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

/* Sets a timer to itself, and cancels it in a later handler, around the time it is due. */
static pr_outcome setter_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    bell *b = data_of(a);
    switch (m->data[0]) {
    case 's': {
        uint8_t ring = 'r';
        b->cancelled = false;
        b->timer = pr_user_timer_new(w->rt, w, letter(w, PR_GET(a->id), &ring, 1), m->data[1] % 3, m->data[1] % 2);
        break;
    }
    case 'r':
        if (b->cancelled)
            wrong("a message after the cancel");
        atomic_fetch_add(&b->rung, 1);
        break;
    case 'c':
        if (b->timer) {
            bool periodic = b->timer->period_ms != 0;
            if (pr_user_timer_cancel(w->rt, w, b->timer) || periodic)
                b->cancelled = true;
            pr_user_timer_drop(w->rt, w, b->timer);
        }
        b->timer = NULL;
        atomic_fetch_add(&b->done, 1);
        break;
    default:
        break;
    }
    return PR_DONE;
}
static const pr_ops setter_ops = {done_start, setter_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void nothing_comes_after_a_cancel(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (int i = 0; i < SHAPES; i++) {
        pr_runtime *rt = runtime_up(shapes[i]);
        bell set = {0};
        static bell bells[64];
        uint64_t setter;
        assert_int_equal(spawn(rt, NULL, &setter_ops, 0, 0, &set, &setter), PR_OK);
        memset(bells, 0, sizeof bells);
        for (unsigned k = 0; k < times(64, 24) && k < 64; k++) {
            /* From an actor. */
            uint8_t go[2] = {'s', (uint8_t)below(&random, 250)};
            tell(rt, NULL, setter, go, 2);
            /* From outside, to an actor on another worker. */
            bell *b = &bells[k];
            uint64_t id;
            uint32_t where = 1 + k % shapes[i].workers;
            assert_int_equal(spawn(rt, NULL, &bell_ops, k % 3 ? 0 : PR_FLAG_FLOATS, k % 3 ? where : 0, b, &id), PR_OK);
            pr_user_timer *t = pr_user_timer_new(rt, NULL, letter(NULL, id, NULL, 0), k % 2, k % 4 == 3);
            assert_non_null(t);
            pause_us((unsigned)below(&random, 2500));
            bool once = t->period_ms == 0;
            if (pr_user_timer_cancel(rt, NULL, t)) {
                uint64_t rung = b->rung;
                pause_us(200);   /* one may be in hand at this moment if it repeats; none follows */
                if (once && rung != 0)
                    wrong("cancelled, and it had come");
                uint64_t settled = b->rung;
                pause_us(2500);
                if (b->rung != settled || (once && settled != 0))
                    wrong("a message after the cancel from outside");
            } else if (!once) {
                wrong("a repeated timer could not be cancelled");
            }
            pr_user_timer_drop(rt, NULL, t);
            tell(rt, NULL, setter, "c", 1);
            wait_for(&set.done, k + 1);
            order(rt, NULL, id, PR_MSG_STOP);
        }
        pr_runtime_wait_quiet(rt);
        pr_counters c;
        runtime_down(rt, &c);
        if (c.sent != c.handled + c.dead[0] + c.dead[1] + c.dead[2] + c.dead[3] + c.cancelled)
            wrong("the counters do not add up");
    }
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_is_quiet),
        cmocka_unit_test(a_pending_timer_is_never_quiet),
        cmocka_unit_test(nothing_comes_after_a_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
