/* Events for subscribers, over threads: each one reaches each subscriber or is counted as lost for it, in the order of
 * its publisher; subscriptions end with their actors; nothing is handled after unsubscribing; the watchdog sleeps while
 * nobody wants "slow_turn".
 *
 * Mutants caught: a bound of one more or less than PR_EVENTS_PENDING; `lost` that is reported twice or never; an
 * unsubscribe that leaves the subscription uncancelled; die() that looks at `named` before the id is gone; a watchdog
 * that goes on looking, or one that is not woken. */
#include "harness.h"

#include "events.h"
#include "watchdog.h"

enum { PUBLISHERS = 4, SUBSCRIBERS = 6 };

typedef struct listener {
    _Atomic uint64_t taken, reported, last[PUBLISHERS];
    _Atomic uint64_t hold;      /* its worker is held in the first message, the test's own */
    _Atomic bool left;
} listener;

static struct {
    pr_runtime *rt;
    uint64_t each;
    listener listener[SUBSCRIBERS];
    _Atomic uint64_t id[SUBSCRIBERS];
    _Atomic uint64_t over;
} town;

/* Reads a number from the details, whose bytes are those that pr_details_number wrote. */
static bool number_in(const pr_msg *m, const char *key, double *value)
{
    size_t len = strlen(key);
    for (size_t i = 0; i + len + 10 <= m->size; i++)
        if (m->data[i] == 0x20 + len && memcmp(m->data + i + 1, key, len) == 0 && m->data[i + 1 + len] == 0x07) {
            memcpy(value, m->data + i + 2 + len, 8);
            return true;
        }
    return false;
}

static pr_outcome listen(pr_worker *w, pr_actor *a, pr_msg *m)
{
    listener *l = data_of(a);
    double who, number, lost;
    uint32_t len = 0;
    (void)w;
    if (!pr_msg_first_string(m, &len)) {
        atomic_store(&l->hold, 2);
        while (atomic_load(&l->hold) == 2)
            pause_us(20);
        return PR_DONE;
    }
    if (atomic_load(&l->left))
        wrong("an event is handled after its subscription has ended");
    if (number_in(m, "who", &who) && number_in(m, "number", &number)) {
        uint64_t before = atomic_exchange(&l->last[(int)who], (uint64_t)number);
        if ((uint64_t)number <= before)
            wrong("publisher %d: %g comes after %llu", (int)who, number, (unsigned long long)before);
    }
    if (number_in(m, "lost", &lost))
        atomic_fetch_add(&l->reported, (uint64_t)lost);
    atomic_fetch_add(&l->taken, 1);
    progress();
    return PR_DONE;
}
static const pr_ops listener_ops = {done_start, listen, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void publish(unsigned who, uint64_t number)
{
    pr_details d = {0};
    pr_details_number(&d, "who", who);
    pr_details_number(&d, "number", (double)number);
    pr_event_publish(town.rt, NULL, PR_TOPIC_RESTART, &d);
}

static void *publisher(void *context, unsigned index)
{
    (void)context;
    for (uint64_t i = 1; i <= town.each; i++)
        publish(index, i);
    return NULL;
}

static void each_arrives_or_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        memset(&town, 0, sizeof town);
        town.each = times(3000, 300);
        town.rt = runtime_up(shapes[i]);
        for (int s = 0; s < SUBSCRIBERS; s++) {
            uint64_t id;
            assert_int_equal(spawn(town.rt, NULL, &listener_ops, s % 2 ? PR_FLAG_FLOATS : 0, s % 3 == 0, &town.listener[s], &id), PR_OK);
            assert_int_equal(pr_event_subscribe(town.rt, id, PR_TOPIC_RESTART), PR_OK);
            assert_int_equal(pr_event_subscribe(town.rt, id, PR_TOPIC_RESTART), PR_EXISTS);
        }
        crew threads;
        crew_start(&threads, PUBLISHERS, publisher, NULL);
        crew_join(&threads);
        pr_runtime_wait_quiet(town.rt);
        uint64_t total = PUBLISHERS * town.each, taken = 0;
        for (int s = 0; s < SUBSCRIBERS; s++) {
            uint64_t n = atomic_load(&town.listener[s].taken);
            taken += n;
            if (n + atomic_load(&town.listener[s].reported) > total)
                wrong("subscriber %d: %llu taken and %llu lost of %llu", s, (unsigned long long)n,
                      (unsigned long long)atomic_load(&town.listener[s].reported), (unsigned long long)total);
        }
        if (taken + atomic_load(&town.rt->events.lost) != SUBSCRIBERS * total)
            wrong("%llu taken, %llu lost, of %llu", (unsigned long long)taken,
                  (unsigned long long)atomic_load(&town.rt->events.lost), SUBSCRIBERS * (unsigned long long)total);
        runtime_down(town.rt, NULL);
    }
    assert_true(no_errors());
}

/* One that takes nothing holds exactly PR_EVENTS_PENDING, and is told of the rest with the next one it gets. */
static void the_bound_is_exact(void **state)
{
    (void)state;
    for (int floats = 0; floats < 2; floats++) {
        memset(&town, 0, sizeof town);
        listener *l = &town.listener[0];
        town.each = 1000;
        town.rt = runtime_up(shapes[3]);
        uint64_t id;
        assert_int_equal(spawn(town.rt, NULL, &listener_ops, floats ? PR_FLAG_FLOATS : 0, 0, l, &id), PR_OK);
        assert_int_equal(pr_event_subscribe(town.rt, id, PR_TOPIC_RESTART), PR_OK);
        assert_int_equal(tell(town.rt, NULL, id, NULL, 0), PR_OK);
        wait_for(&l->hold, 2);
        crew threads;
        crew_start(&threads, PUBLISHERS, publisher, NULL);
        crew_join(&threads);
        uint64_t lost = PUBLISHERS * town.each - PR_EVENTS_PENDING;
        assert_int_equal(atomic_load(&town.rt->events.lost), lost);
        atomic_store(&l->hold, 3);
        wait_for(&l->taken, PR_EVENTS_PENDING);
        pr_runtime_wait_quiet(town.rt);
        assert_int_equal(atomic_load(&l->taken), PR_EVENTS_PENDING);
        /* A publisher that had got its place, and was held up before it sent, has told of those lost meanwhile. */
        assert_true(atomic_load(&l->reported) <= lost);
        publish(0, town.each + 1);
        wait_for(&l->taken, PR_EVENTS_PENDING + 1);
        publish(0, town.each + 2);
        wait_for(&l->taken, PR_EVENTS_PENDING + 2);
        assert_int_equal(atomic_load(&l->reported), lost);
        runtime_down(town.rt, NULL);
    }
    assert_true(no_errors());
}

/* --- coming and going */

/* Leaves in its own turn, at the hundredth event or with the one that says so. */
static pr_outcome leave(pr_worker *w, pr_actor *a, pr_msg *m)
{
    listener *l = data_of(a);
    listen(w, a, m);
    if (atomic_load(&l->taken) % 100 == 0 && atomic_load(&l->taken) > 0) {
        if (!pr_event_unsubscribe(w->rt, PR_GET(a->id), PR_TOPIC_RESTART))
            wrong("there was no subscription");
        atomic_store(&l->left, true);
    }
    return PR_DONE;
}
static const pr_ops leaver_ops = {done_start, leave, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void nothing_after_unsubscribing(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        memset(&town, 0, sizeof town);
        town.each = times(3000, 300);
        town.rt = runtime_up(shapes[i]);
        for (int s = 0; s < SUBSCRIBERS; s++) {
            uint64_t id;
            assert_int_equal(spawn(town.rt, NULL, &leaver_ops, s % 2 ? PR_FLAG_FLOATS : 0, 0, &town.listener[s], &id), PR_OK);
            assert_int_equal(pr_event_subscribe(town.rt, id, PR_TOPIC_RESTART), PR_OK);
        }
        crew threads;
        crew_start(&threads, PUBLISHERS, publisher, NULL);
        crew_join(&threads);
        pr_runtime_wait_quiet(town.rt);
        for (int s = 0; s < SUBSCRIBERS; s++)
            assert_true(atomic_load(&town.listener[s].left));
        assert_int_equal(atomic_load(&town.rt->events.topics), 0);
        runtime_down(town.rt, NULL);
    }
    assert_true(no_errors());
}

static void *come_and_go(void *context, unsigned index)
{
    (void)context;
    uint64_t random = index;
    for (uint64_t i = 0; i < town.each; i++) {
        unsigned s = (unsigned)below(&random, SUBSCRIBERS);
        uint64_t id = atomic_load(&town.id[s]);
        enum pr_topic topic = (enum pr_topic)below(&random, PR_TOPICS);
        switch (below(&random, 6)) {
        case 0:
            order(town.rt, NULL, id, below(&random, 2) ? PR_MSG_STOP : PR_MSG_KILL);
            break;
        case 1:
            if (!pr_actor_find(&town.rt->actors, id) &&
                spawn(town.rt, NULL, &listener_ops, s % 2 ? PR_FLAG_FLOATS : 0, 0, &town.listener[s], &id) == PR_OK)
                atomic_store(&town.id[s], id);
            break;
        case 2:
            pr_event_unsubscribe(town.rt, id, topic);
            break;
        case 3:
            pr_event_publish(town.rt, NULL, topic, &(pr_details){0});
            break;
        default:
            pr_event_subscribe(town.rt, id, topic);
        }
        progress();
    }
    return NULL;
}

static void the_dead_have_no_subscription(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        memset(&town, 0, sizeof town);
        town.each = times(4000, 400);
        town.rt = runtime_up(shapes[i]);
        crew threads;
        crew_start(&threads, 8, come_and_go, NULL);
        crew_join(&threads);
        pr_runtime_stop(town.rt, NULL);
        assert_int_equal(pr_runtime_join(town.rt, UINT64_MAX), PR_OK);
        assert_null(town.rt->events.list);
        runtime_down(town.rt, NULL);
    }
    assert_true(no_errors());
}

/* --- the watchdog */

static void wait_for_dog(pr_runtime *rt, bool sleeps)
{
    bool is = !sleeps;
    while (is != sleeps) {
        pthread_mutex_lock(&rt->watchdog.lock);
        is = rt->watchdog.sleeps;
        pthread_mutex_unlock(&rt->watchdog.lock);
        pause_us(50);
    }
    progress();
}

static void the_watchdog_sleeps_while_nobody_wants_it(void **state)
{
    (void)state;
    memset(&town, 0, sizeof town);
    town.rt = runtime_up((shape){4, 32});
    listener *l = &town.listener[0], *slow = &town.listener[1];
    uint64_t id, busy;
    assert_int_equal(spawn(town.rt, NULL, &listener_ops, 0, 1, l, &id), PR_OK);
    assert_int_equal(spawn(town.rt, NULL, &listener_ops, 0, 2, slow, &busy), PR_OK);
    assert_false(town.rt->watchdog.runs);
    for (uint64_t round = 1; round <= 3; round++) {
        assert_int_equal(pr_event_subscribe(town.rt, id, PR_TOPIC_SLOW_TURN), PR_OK);
        wait_for_dog(town.rt, false);
        assert_int_equal(tell(town.rt, NULL, busy, NULL, 0), PR_OK);
        wait_for(&slow->hold, 2);
        wait_for(&l->taken, round);
        atomic_store(&slow->hold, 0);
        assert_true(pr_event_unsubscribe(town.rt, id, PR_TOPIC_SLOW_TURN));
        wait_for_dog(town.rt, true);
    }
    assert_int_equal(atomic_load(&l->taken), 3);
    runtime_down(town.rt, NULL);
    assert_true(no_errors());
}

/* What does not fit is left out, whole. */
static void details_that_do_not_fit_are_left_out(void **state)
{
    (void)state;
    static pr_details d;
    char text[600];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 10; i++)
        pr_details_text(&d, "text", text, sizeof text);
    assert_int_equal(d.count, 3);   /* of 500 bytes each */
    pr_details_text(&d, "rest", text, sizeof d.bytes - d.size - 10);
    while (d.size + 20 < sizeof d.bytes)
        pr_details_flag(&d, "flag", d.count % 2);
    uint32_t count = d.count;
    size_t size = d.size;
    pr_details_ref(&d, "a longer key", 7);
    pr_details_number(&d, "a longer key", 7);
    pr_details_text(&d, "a longer key", "text", 4);
    pr_details_flag(&d, "a key that is longer", true);
    assert_int_equal(d.count, count);
    assert_int_equal(d.size, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_arrives_or_is_lost),
        cmocka_unit_test(the_bound_is_exact),
        cmocka_unit_test(nothing_after_unsubscribing),
        cmocka_unit_test(the_dead_have_no_subscription),
        cmocka_unit_test(the_watchdog_sleeps_while_nobody_wants_it),
        cmocka_unit_test(details_that_do_not_fit_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
