/* The counters add up to the message: what was accepted was handled, became a dead letter or was cancelled; what
 * was refused is counted as rejected. Over actors that end and are restarted, timers, and a shutdown in full
 * traffic, with producers outside that go on until they are told that it is over.
 *
 * Mutants caught: messages of a dying actor freed without a count; the rest of an inbox freed without a count when
 * its worker leaves; the same for a target that is stopping, and for a cancelled timer's message. */
#include "harness.h"

enum { OUTSIDE = 8, INSIDE = 8, TARGETS = 8 };
enum { WORK, FAIL, UNKNOWN };

static struct {
    pr_runtime *rt;
    _Atomic uint64_t id[TARGETS], handled, unhandled, accepted, refused, tries;
    _Atomic int over;
} town;

static pr_outcome target_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a;
    if (m->data[0] == UNKNOWN) {
        atomic_fetch_add(&town.unhandled, 1);
        return PR_UNHANDLED;
    }
    atomic_fetch_add(&town.handled, 1);
    return m->data[0] == FAIL ? PR_FAILED : PR_DONE;
}
static const pr_ops target_ops = {done_start, target_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void forget_timer(pr_user_timer **t)
{
    if (!*t)
        return;
    pr_user_timer_cancel(town.rt, NULL, *t);
    pr_user_timer_drop(town.rt, NULL, *t);
    *t = NULL;
}

/* One message to somebody; what it says when it is refused. */
static pr_status produce(uint64_t *random, pr_worker *w, pr_user_timer **last)
{
    unsigned t = (unsigned)below(random, TARGETS);
    uint64_t id = atomic_load(&town.id[t]), dice = below(random, 4000);
    uint8_t what[200] = {dice < 5 ? FAIL : dice < 200 ? UNKNOWN : WORK};
    if (dice == 3999)
        order(town.rt, w, id, PR_MSG_STOP);
    else if (dice == 3998)
        order(town.rt, w, id, PR_MSG_DRAIN);
    else if (dice == 3997)
        order(town.rt, w, id, PR_MSG_KILL);
    if (dice >= 3950 && dice < 3990 && !(w && w->running->flags & PR_FLAG_FLOATS)) {
        /* Those of an actor end with it; outside, the last one is cancelled when the next is set. */
        pr_msg *m = letter(w, id, what, 1);
        pr_user_timer *timer = pr_user_timer_new(town.rt, w, m, dice % 3, dice % 4 ? 1 : 0);
        if (!timer) {
            pr_msg_free(w ? &w->pool : NULL, m);
        } else if (w) {
            pr_user_timer_drop(town.rt, w, timer);
        } else {
            forget_timer(last);
            *last = timer;
        }
    }
    atomic_fetch_add(&town.tries, 1);
    pr_status status = tell(town.rt, w, id, what, 1 + below(random, sizeof what));
    atomic_fetch_add(status == PR_OK ? &town.accepted : &town.refused, 1);
    if (status == PR_DEAD && (!w || w->running->flags & PR_FLAG_FLOATS)) {
        uint64_t next;
        if (spawn(town.rt, w, &target_ops, t % 2 ? PR_FLAG_FLOATS : 0, t % 4 == 2, NULL, &next) == PR_OK)
            atomic_store(&town.id[t], next);
    }
    return status;
}

static void *outside(void *context, unsigned index)
{
    (void)context;
    uint64_t random = index;
    pr_user_timer *last = NULL;
    while (!atomic_load(&town.over)) {
        produce(&random, NULL, &last);
        progress();
        if (below(&random, 32) == 0)
            pause_us(0);
    }
    forget_timer(&last);
    return NULL;
}

static pr_outcome producer_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)m;
    atomic_fetch_add(&town.handled, 1);
    for (int i = 0; i < 4; i++)
        produce(data_of(a), w, NULL);
    atomic_fetch_add(&town.tries, 1);
    atomic_fetch_add(tell(w->rt, w, PR_GET(a->id), NULL, 0) == PR_OK ? &town.accepted : &town.refused, 1);
    return PR_DONE;
}
static const pr_ops producer_ops = {done_start, producer_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void hammer(shape s, uint64_t seed)
{
    static uint64_t random[INSIDE];
    memset(&town, 0, sizeof town);
    town.rt = runtime_up(s);
    for (unsigned i = 0; i < INSIDE; i++) {
        uint64_t id;
        random[i] = seed + i;
        assert_int_equal(spawn(town.rt, NULL, &producer_ops, i % 2 ? PR_FLAG_FLOATS : 0, 0, &random[i], &id), PR_OK);
        atomic_fetch_add(&town.tries, 1);
        atomic_fetch_add(&town.accepted, 1);
        assert_int_equal(tell(town.rt, NULL, id, NULL, 0), PR_OK);
    }
    crew threads;
    crew_start(&threads, OUTSIDE, outside, NULL);
    pause_us((unsigned)(5000 + seed * 777 % 20000));
    pr_runtime_stop(town.rt, NULL);
    while (!atomic_load(&town.rt->exit))
        pause_us(50);
    pause_us(500);   /* the producers find the workers gone */
    atomic_store(&town.over, 1);
    crew_join(&threads);
    pr_counters c;
    runtime_down(town.rt, &c);
    uint64_t dead = 0;
    for (int i = 0; i < PR_DEAD_REASONS; i++)
        dead += c.dead[i];
    if (c.sent != c.handled + dead + c.cancelled)
        wrong("sent %llu, handled %llu, dead letters %llu, cancelled %llu: %lld missing", (unsigned long long)c.sent,
              (unsigned long long)c.handled, (unsigned long long)dead, (unsigned long long)c.cancelled,
              (long long)(c.sent - c.handled - dead - c.cancelled));
    if (c.rejected != town.refused)
        wrong("%llu refused, %llu counted", (unsigned long long)town.refused, (unsigned long long)c.rejected);
    if (c.handled != town.handled || c.dead[PR_DEAD_UNHANDLED] != town.unhandled)
        wrong("%llu handled, %llu counted", (unsigned long long)town.handled, (unsigned long long)c.handled);
    if (c.sent < town.accepted || town.accepted + town.refused != town.tries)
        wrong("%llu accepted, %llu counted", (unsigned long long)town.accepted, (unsigned long long)c.sent);
}

static void the_counters_add_up_over_a_shutdown(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < times(10, 2); k++)
        for (int i = 0; i < SHAPES; i++)
            hammer(shapes[i], k * 100 + (uint64_t)i);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_counters_add_up_over_a_shutdown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
