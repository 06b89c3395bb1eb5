/* The timer wheel against the contract in timer.h: small cases by hand, then millions of random
 * operations beside a sorted array that does the same the slow way. Links timer.c and cmocka.
 * A failure prints its seed; PIERROT_TEST_SEED=n runs the random tests with that seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "timer.h"

#define MINUTE_MS UINT64_C(60000)
#define DAY_MS UINT64_C(86400000)
#define YEAR_MS (365 * DAY_MS)

typedef struct random_source {
    uint64_t state;
} random_source;

/* splitmix64 */
static uint64_t draw(random_source *r)
{
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t below(random_source *r, uint64_t limit)
{
    return draw(r) % limit;
}

static uint64_t first_seed(void)
{
    const char *text = getenv("PIERROT_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : 1987;
}

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t sub_saturating(uint64_t a, uint64_t b)
{
    return a < b ? 0 : a - b;
}

static void starts_empty(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t = {0};
    pr_wheel_init(&w, 5);
    assert_int_equal(w.count, 0);
    assert_true(pr_wheel_next_ms(&w) == UINT64_MAX);
    assert_null(pr_wheel_pop(&w, 0));
    assert_null(pr_wheel_pop(&w, 1000));
    assert_null(pr_wheel_pop(&w, UINT64_MAX));
    assert_false(pr_timer_armed(&t));
    assert_false(pr_wheel_cancel(&w, &t));
}

static void fires_in_order_of_due_time_then_of_adding(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t[6] = {0};
    /* 70 and 5000 lie on higher levels at first; the later ones with the same time do not. */
    pr_wheel_init(&w, 0);
    pr_wheel_add(&w, &t[0], 5000);
    pr_wheel_add(&w, &t[1], 70);
    pr_wheel_add(&w, &t[2], 10);
    pr_wheel_add(&w, &t[3], 70);
    assert_null(pr_wheel_pop(&w, 9));
    assert_ptr_equal(pr_wheel_pop(&w, 69), &t[2]);
    assert_null(pr_wheel_pop(&w, 69));
    pr_wheel_add(&w, &t[4], 70);
    assert_ptr_equal(pr_wheel_pop(&w, 4999), &t[1]);
    assert_ptr_equal(pr_wheel_pop(&w, 4999), &t[3]);
    assert_ptr_equal(pr_wheel_pop(&w, 4999), &t[4]);
    assert_null(pr_wheel_pop(&w, 4999));
    pr_wheel_add(&w, &t[5], 5000);
    assert_ptr_equal(pr_wheel_pop(&w, 5000), &t[0]);
    assert_false(pr_timer_armed(&t[0]));
    assert_ptr_equal(pr_wheel_pop(&w, 5000), &t[5]);
    assert_null(pr_wheel_pop(&w, 5000));
    assert_int_equal(w.count, 0);
}

static void a_time_that_begins_later_is_in_nobodys_way(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t[5] = {0};
    pr_wheel_init(&w, 100);
    pr_wheel_add_later(&w, &t[0], 20);
    pr_wheel_add_later(&w, &t[1], 10);
    pr_wheel_add_later(&w, &t[2], 20);
    pr_wheel_add_later(&w, &t[3], UINT64_MAX - 100);
    assert_true(pr_timer_armed(&t[0]));
    assert_int_equal(w.count, 0);
    assert_true(pr_wheel_next_ms(&w) == UINT64_MAX);
    assert_null(pr_wheel_pop(&w, 1000));
    assert_true(pr_wheel_cancel(&w, &t[0]));
    assert_false(pr_wheel_cancel(&w, &t[0]));
    pr_wheel_begin(&w, 2000);
    assert_int_equal(w.count, 3);
    assert_int_equal(t[1].due_ms, 2010);
    assert_true(t[3].due_ms == UINT64_MAX);
    pr_wheel_add(&w, &t[4], 2020);
    pr_wheel_begin(&w, 2009);   /* none are left whose time would begin */
    assert_null(pr_wheel_pop(&w, 2009));
    assert_ptr_equal(pr_wheel_pop(&w, 2020), &t[1]);
    assert_ptr_equal(pr_wheel_pop(&w, 2020), &t[2]);
    assert_ptr_equal(pr_wheel_pop(&w, 2020), &t[4]);
    assert_null(pr_wheel_pop(&w, 2020));
    /* Once it has fired or been cancelled it may be armed either way. */
    pr_wheel_add(&w, &t[0], 2030);
    pr_wheel_add_later(&w, &t[1], 5);
    assert_true(pr_wheel_cancel(&w, &t[1]));
    pr_wheel_add(&w, &t[1], 2025);
    assert_ptr_equal(pr_wheel_pop(&w, 2030), &t[1]);
    assert_ptr_equal(pr_wheel_pop(&w, 2030), &t[0]);
    assert_true(pr_wheel_cancel(&w, &t[3]));
    assert_int_equal(w.count, 0);
}

static void late_timers_come_first_and_in_order(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t[8] = {0};
    pr_wheel_init(&w, 1000);
    pr_wheel_add(&w, &t[0], 1000);
    pr_wheel_add(&w, &t[1], 700);
    pr_wheel_add(&w, &t[2], 900);
    pr_wheel_add(&w, &t[3], 700);
    pr_wheel_add(&w, &t[4], 0);
    pr_wheel_add(&w, &t[5], 900);
    assert_true(pr_wheel_next_ms(&w) == 0);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[4]);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[1]);
    pr_wheel_add(&w, &t[6], 800);
    pr_wheel_add(&w, &t[7], 700);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[3]);
    assert_true(pr_wheel_cancel(&w, &t[5]));
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[7]);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[6]);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[2]);
    assert_int_equal(t[2].due_ms, 900);
    assert_ptr_equal(pr_wheel_pop(&w, 1000), &t[0]);
    assert_null(pr_wheel_pop(&w, 1000));
}

static void a_clock_that_steps_back_fires_nothing_early(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t[3] = {0};
    pr_wheel_init(&w, 0);
    pr_wheel_add(&w, &t[0], 2000);
    assert_null(pr_wheel_pop(&w, 1999));
    pr_wheel_add(&w, &t[1], 500);
    pr_wheel_add(&w, &t[2], 400);
    assert_null(pr_wheel_pop(&w, 100));
    assert_null(pr_wheel_pop(&w, 399));
    assert_ptr_equal(pr_wheel_pop(&w, 400), &t[2]);
    assert_null(pr_wheel_pop(&w, 400));
    assert_true(pr_wheel_next_ms(&w) > 400 && pr_wheel_next_ms(&w) <= 500);
    assert_ptr_equal(pr_wheel_pop(&w, 600), &t[1]);
    assert_null(pr_wheel_pop(&w, 600));
    assert_ptr_equal(pr_wheel_pop(&w, 2000), &t[0]);
}

static void may_be_changed_between_two_pops(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t[6] = {0};
    pr_wheel_init(&w, 0);
    for (size_t i = 0; i < 4; i++)
        pr_wheel_add(&w, &t[i], 100);
    assert_ptr_equal(pr_wheel_pop(&w, 200), &t[0]);
    assert_true(pr_wheel_cancel(&w, &t[1]));  /* next in turn */
    assert_true(pr_wheel_cancel(&w, &t[3]));  /* last in its slot */
    assert_false(pr_wheel_cancel(&w, &t[3]));
    pr_wheel_add(&w, &t[0], 100);             /* due already: behind its equals */
    pr_wheel_add(&w, &t[4], 50);              /* overdue: before them */
    pr_wheel_add(&w, &t[5], 150);
    assert_ptr_equal(pr_wheel_pop(&w, 200), &t[4]);
    assert_ptr_equal(pr_wheel_pop(&w, 200), &t[2]);
    assert_ptr_equal(pr_wheel_pop(&w, 200), &t[0]);
    assert_true(pr_wheel_cancel(&w, &t[5]));
    assert_null(pr_wheel_pop(&w, 200));
    assert_int_equal(w.count, 0);
}

static void a_repeated_timer_does_not_drift(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer t = {0};
    uint64_t expected_ms = 10;
    pr_wheel_init(&w, 3);
    pr_wheel_add(&w, &t, 10);
    for (uint64_t now_ms = 3; now_ms < 100000; now_ms += 37) {
        while (pr_wheel_pop(&w, now_ms) != NULL) {
            assert_true(t.due_ms == expected_ms);
            expected_ms += 10;
            pr_wheel_add(&w, &t, t.due_ms + 10);
        }
        assert_true(expected_ms > now_ms && expected_ms <= now_ms + 10);
    }
}

static void the_far_future_works(void **state)
{
    (void)state;
    pr_wheel w;
    static const uint64_t due_ms[] = {
        1, DAY_MS, YEAR_MS, 1000 * YEAR_MS, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX,
    };
    enum { N = sizeof due_ms / sizeof due_ms[0] };
    pr_timer t[N] = {0};
    pr_wheel_init(&w, 0);
    for (size_t i = N; i-- > 0;)
        pr_wheel_add(&w, &t[i], due_ms[i]);
    for (size_t i = 0; i < N; i++) {
        assert_null(pr_wheel_pop(&w, due_ms[i] - 1));
        assert_ptr_equal(pr_wheel_pop(&w, due_ms[i]), &t[i]);
    }
    for (size_t i = 0; i < N; i++)
        pr_wheel_add(&w, &t[i], due_ms[i]);
    for (size_t i = 0; i < N; i++)
        assert_ptr_equal(pr_wheel_pop(&w, UINT64_MAX), &t[i]);
    assert_null(pr_wheel_pop(&w, UINT64_MAX));
}

/* With a wheel that steps through slots this would take the age of the universe. */
static void jumps_of_the_clock_cost_nothing(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer near = {0}, far = {0};
    uint64_t now_ms = 0;
    pr_wheel_init(&w, now_ms);
    pr_wheel_add(&w, &far, UINT64_MAX / 2);
    for (size_t i = 0; i < 200000; i++) {
        pr_wheel_add(&w, &near, now_ms + 3 * DAY_MS);
        now_ms += 30 * YEAR_MS + 1;
        assert_ptr_equal(pr_wheel_pop(&w, now_ms), &near);
        assert_null(pr_wheel_pop(&w, now_ms));
    }
    assert_true(pr_timer_armed(&far));
}

static void sleeping_until_next_ms_is_exact_and_ends(void **state)
{
    (void)state;
    enum { N = 300 };
    uint64_t seed = first_seed();
    for (uint64_t round = 0; round < 300; round++, seed++) {
        random_source r = {seed};
        pr_wheel w;
        pr_timer t[N] = {0};
        uint64_t now_ms = draw(&r) >> (1 + below(&r, 63));
        size_t wakes = 0, fired = 0;
        pr_wheel_init(&w, now_ms);
        for (size_t i = 0; i < N; i++)
            pr_wheel_add(&w, &t[i], now_ms + 1 + (draw(&r) >> (1 + below(&r, 63))));
        while (w.count > 0) {
            uint64_t next_ms = pr_wheel_next_ms(&w);
            if (next_ms <= now_ms)
                fail_msg("seed %llu: no progress", (unsigned long long)seed);
            now_ms = next_ms;
            wakes++;
            for (pr_timer *due; (due = pr_wheel_pop(&w, now_ms)) != NULL; fired++) {
                if (due->due_ms != now_ms)
                    fail_msg("seed %llu: missed by %llu ms", (unsigned long long)seed,
                             (unsigned long long)(now_ms - due->due_ms));
            }
        }
        assert_int_equal(fired, N);
        assert_true(wakes <= (size_t)N * PR_WHEEL_LEVELS);
        assert_true(pr_wheel_next_ms(&w) == UINT64_MAX);
    }
}

/* Asks set and cancel most timers: what was cancelled must wake nobody. */
static void cancelled_timers_cause_no_wake_up(void **state)
{
    (void)state;
    pr_wheel w;
    pr_timer ask = {0}, hour = {0};
    uint64_t now_ms = 0;
    pr_wheel_init(&w, now_ms);
    pr_wheel_add(&w, &hour, 60 * MINUTE_MS);
    for (; now_ms < 10 * MINUTE_MS; now_ms += 7) {
        pr_wheel_add(&w, &ask, now_ms + 5000);
        assert_true(pr_wheel_next_ms(&w) <= now_ms + 5000);
        assert_true(pr_wheel_cancel(&w, &ask));
        assert_true(pr_wheel_next_ms(&w) > 10 * MINUTE_MS);
        assert_null(pr_wheel_pop(&w, now_ms));
    }
    size_t wakes = 0;
    while (pr_timer_armed(&hour)) {
        uint64_t next_ms = pr_wheel_next_ms(&w);
        assert_true(next_ms > now_ms || wakes == 0);
        now_ms = next_ms > now_ms ? next_ms : now_ms;
        (void)pr_wheel_pop(&w, now_ms);
        assert_true(++wakes <= PR_WHEEL_LEVELS);
    }
    assert_true(now_ms == 60 * MINUTE_MS);
    pr_wheel_add(&w, &hour, now_ms + 1);
    assert_true(pr_wheel_cancel(&w, &hour));
    assert_true(pr_wheel_next_ms(&w) == UINT64_MAX);
}

/* Sanitizers make all of it slow, and races there are none to find: less will do. */
static size_t times(size_t plain, size_t sanitized)
{
    const char *sanitizer = getenv("PIERROT_SANITIZER");
    return sanitizer && *sanitizer ? sanitized : plain;
}

/* Adds `n` timers of which some are cancelled, pops the rest in steps of `step_ms`. */
static void drain_many(size_t n, uint64_t span_ms, uint64_t start_ms, uint64_t step_ms)
{
    random_source r = {first_seed()};
    pr_wheel w;
    pr_timer *t = calloc(n, sizeof *t);
    assert_non_null(t);
    pr_wheel_init(&w, start_ms);
    for (size_t i = 0; i < n; i++)
        pr_wheel_add(&w, &t[i], below(&r, span_ms));
    assert_int_equal(w.count, n);
    size_t left = n;
    for (size_t i = 0; i < n; i += 1 + below(&r, 5), left--)
        assert_true(pr_wheel_cancel(&w, &t[i]));
    assert_int_equal(w.count, left);

    pr_timer *before = NULL;
    for (uint64_t now_ms = start_ms; left > 0; now_ms += step_ms) {
        for (pr_timer *due; (due = pr_wheel_pop(&w, now_ms)) != NULL; before = due, left--) {
            if (due->due_ms > now_ms || pr_timer_armed(due))
                fail_msg("a timer that is not due was returned, or not disarmed");
            if (before != NULL && (before->due_ms > due->due_ms ||
                                   (before->due_ms == due->due_ms && before >= due)))
                fail_msg("out of order");
        }
        assert_true(pr_wheel_next_ms(&w) > now_ms);
    }
    assert_int_equal(w.count, 0);
    free(t);
}

static void a_million_timers_fire_in_order(void **state)
{
    (void)state;
    size_t n = times(1000000, 100000);
    drain_many(n, DAY_MS, 0, 1001);
    drain_many(n, 5000, 0, 3);       /* a storm of asks */
    drain_many(n, 1, 0, 1);          /* all at once */
    drain_many(n, DAY_MS, 0, DAY_MS);
}

static void a_million_late_timers_fire_in_order(void **state)
{
    (void)state;
    size_t n = times(1000000, 100000);
    drain_many(n, DAY_MS, DAY_MS, 1);
    drain_many(n, 2 * DAY_MS, DAY_MS, 10007);
}

/* ---- the model ---- */

enum { MODEL_TIMERS = 400 };

typedef struct model_entry {
    uint64_t due_ms;
    uint64_t added; /* number of the add */
    pr_timer *timer;
} model_entry;

typedef struct model {
    model_entry entries[MODEL_TIMERS]; /* in the order they have to fire */
    size_t count;
    uint64_t adds;
} model;

static void model_add(model *m, pr_timer *t, uint64_t due_ms)
{
    size_t at = m->count++;
    for (; at > 0 && m->entries[at - 1].due_ms > due_ms; at--)
        m->entries[at] = m->entries[at - 1];
    m->entries[at] = (model_entry){due_ms, m->adds++, t};
}

static void model_remove_at(model *m, size_t at)
{
    m->count--;
    memmove(&m->entries[at], &m->entries[at + 1], (m->count - at) * sizeof m->entries[0]);
}

static bool model_cancel(model *m, const pr_timer *t)
{
    for (size_t at = 0; at < m->count; at++) {
        if (m->entries[at].timer == t) {
            model_remove_at(m, at);
            return true;
        }
    }
    return false;
}

static pr_timer *model_pop(model *m, uint64_t now_ms)
{
    if (m->count == 0 || m->entries[0].due_ms > now_ms)
        return NULL;
    pr_timer *t = m->entries[0].timer;
    model_remove_at(m, 0);
    return t;
}

typedef struct round_state {
    random_source r;
    uint64_t seed;
    size_t step;
    uint64_t now_ms;
    unsigned near_bits; /* how far most timers of this round reach */
    pr_wheel wheel;
    model model;
    pr_timer timers[MODEL_TIMERS];
} round_state;

#define CHECK(s, condition)                                                                   \
    do {                                                                                      \
        if (!(condition))                                                                     \
            fail_msg("seed %llu, step %zu: %s", (unsigned long long)(s)->seed, (s)->step,     \
                     #condition);                                                             \
    } while (0)

static uint64_t some_due_ms(round_state *s)
{
    uint64_t near_ms = below(&s->r, UINT64_C(1) << s->near_bits);
    switch (below(&s->r, 16)) {
    case 0: return s->now_ms;
    case 1: return sub_saturating(s->now_ms, near_ms);
    case 2: return sub_saturating(s->now_ms, draw(&s->r) >> below(&s->r, 64));
    case 3: return add_saturating(s->now_ms, draw(&s->r) >> below(&s->r, 64));
    case 4: return add_saturating(s->now_ms, 5000);
    case 5: return draw(&s->r) & (UINT64_MAX << below(&s->r, 64)); /* edges of slots */
    case 6: return s->model.count > 0                              /* equals */
                ? s->model.entries[below(&s->r, s->model.count)].due_ms
                : UINT64_MAX / 2;
    default: return add_saturating(s->now_ms, near_ms);
    }
}

static void add_or_cancel(round_state *s)
{
    pr_timer *t = &s->timers[below(&s->r, MODEL_TIMERS)];
    if (!pr_timer_armed(t)) {
        uint64_t due_ms = some_due_ms(s);
        if (due_ms >= s->now_ms && below(&s->r, 4) == 0) {
            pr_wheel_add_later(&s->wheel, t, due_ms - s->now_ms);
            pr_wheel_begin(&s->wheel, s->now_ms);
        } else {
            pr_wheel_add(&s->wheel, t, due_ms);
        }
        model_add(&s->model, t, due_ms);
        CHECK(s, pr_timer_armed(t));
        CHECK(s, t->due_ms == due_ms);
        return;
    }
    bool cancelled = pr_wheel_cancel(&s->wheel, t);
    CHECK(s, cancelled);
    CHECK(s, model_cancel(&s->model, t));
    CHECK(s, !pr_timer_armed(t));
    CHECK(s, !pr_wheel_cancel(&s->wheel, t));
}

static void move_clock(round_state *s)
{
    switch (below(&s->r, 12)) {
    case 0: s->now_ms = add_saturating(s->now_ms, below(&s->r, 10 * DAY_MS)); break;
    case 1: s->now_ms = sub_saturating(s->now_ms, below(&s->r, 5000)); break;
    case 2: s->now_ms = add_saturating(s->now_ms, below(&s->r, UINT64_C(1) << s->near_bits)); break;
    case 3: case 4: case 5: { /* sleep; never longer than until the first timer */
        uint64_t next_ms = pr_wheel_next_ms(&s->wheel);
        if (s->model.count > 0 && next_ms > s->now_ms && next_ms - s->now_ms < YEAR_MS)
            s->now_ms = next_ms;
        break;
    }
    case 6: if (below(&s->r, 500) == 0) s->now_ms = add_saturating(s->now_ms, draw(&s->r) >> 8); break;
    default: s->now_ms = add_saturating(s->now_ms, below(&s->r, 20)); break;
    }
}

static void pop_all(round_state *s, bool change_between)
{
    for (size_t changes = 0;;) {
        pr_timer *expected = model_pop(&s->model, s->now_ms);
        pr_timer *t = pr_wheel_pop(&s->wheel, s->now_ms);
        CHECK(s, t == expected);
        if (t == NULL) {
            /* The early way out is open again. */
            CHECK(s, s->wheel.wake_ms > s->now_ms || s->now_ms == UINT64_MAX);
            return;
        }
        CHECK(s, !pr_timer_armed(t));
        /* Fewer changes than timers, or late ones might follow each other for ever. */
        while (change_between && changes < MODEL_TIMERS && below(&s->r, 2) == 0) {
            add_or_cancel(s);
            changes++;
        }
    }
}

static void check_bounds(round_state *s)
{
    uint64_t next_ms = pr_wheel_next_ms(&s->wheel);
    CHECK(s, s->wheel.count == s->model.count);
    if (s->model.count == 0)
        CHECK(s, next_ms == UINT64_MAX);
    else
        CHECK(s, next_ms <= s->model.entries[0].due_ms);
}

static void play_round(round_state *s, uint64_t seed, size_t steps)
{
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->r.state = seed;
    s->near_bits = 1 + (unsigned)below(&s->r, 24);
    s->now_ms = draw(&s->r) >> below(&s->r, 64);
    if (below(&s->r, 4) == 0) /* just before a border of all levels, or near the end of time */
        s->now_ms = sub_saturating(UINT64_MAX << below(&s->r, 64), below(&s->r, 100));
    size_t changes_per_step = 1 + below(&s->r, 12);
    pr_wheel_init(&s->wheel, s->now_ms);
    for (s->step = 0; s->step < steps; s->step++) {
        for (size_t i = below(&s->r, changes_per_step + 1); i > 0; i--)
            add_or_cancel(s);
        check_bounds(s);
        move_clock(s);
        pop_all(s, below(&s->r, 2) == 0);
        check_bounds(s);
        /* All is fired or in the future: next_ms must not lie in the past, or the owner spins. */
        CHECK(s, pr_wheel_next_ms(&s->wheel) > s->now_ms || s->now_ms == UINT64_MAX);
    }
    for (size_t i = 0; i < MODEL_TIMERS; i++)
        CHECK(s, pr_wheel_cancel(&s->wheel, &s->timers[i]) == model_cancel(&s->model, &s->timers[i]));
    CHECK(s, s->wheel.count == 0 && s->wheel.levels_used == 0 && s->wheel.late.head == NULL);
}

static void agrees_with_a_sorted_array(void **state)
{
    (void)state;
    round_state *s = malloc(sizeof *s);
    assert_non_null(s);
    uint64_t seed = first_seed();
    for (size_t round = 0; round < times(1000, 150); round++, seed++)
        play_round(s, seed, 1500);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_empty),
        cmocka_unit_test(fires_in_order_of_due_time_then_of_adding),
        cmocka_unit_test(a_time_that_begins_later_is_in_nobodys_way),
        cmocka_unit_test(late_timers_come_first_and_in_order),
        cmocka_unit_test(a_clock_that_steps_back_fires_nothing_early),
        cmocka_unit_test(may_be_changed_between_two_pops),
        cmocka_unit_test(a_repeated_timer_does_not_drift),
        cmocka_unit_test(the_far_future_works),
        cmocka_unit_test(jumps_of_the_clock_cost_nothing),
        cmocka_unit_test(sleeping_until_next_ms_is_exact_and_ends),
        cmocka_unit_test(cancelled_timers_cause_no_wake_up),
        cmocka_unit_test(a_million_timers_fire_in_order),
        cmocka_unit_test(a_million_late_timers_fire_in_order),
        cmocka_unit_test(agrees_with_a_sorted_array),
    };
    return cmocka_run_group_tests_name("timer", tests, NULL, NULL);
}
