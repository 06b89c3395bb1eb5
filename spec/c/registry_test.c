/* The registry against the contract in registry.h: by hand, beside a plain array with random
 * operations, with every allocation failing in turn (what leaks then, the sanitizer build sees), and
 * from many threads at once. Needs registry.c, alloc.c and cmocka.
 * A failure prints its seed; PIERROT_TEST_SEED=n runs the random test with that seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "registry.h"

/* ---- helpers ---- */

static uint64_t draw(uint64_t *random) /* splitmix64 */
{
    uint64_t z = (*random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t below(uint64_t *random, size_t limit)
{
    return (size_t)(draw(random) % limit);
}

/* Ids as the runtime makes them: a slot and a generation, the lowest bit set. */
static uint64_t actor_id(size_t slot)
{
    return (UINT64_C(3) << 32) | ((uint64_t)slot << 1) | 1;
}

static int put(pr_registry *r, const char *name, uint64_t id)
{
    return pr_registry_put(r, name, strlen(name), id, NULL);
}

static uint64_t get(pr_registry *r, const char *name)
{
    return pr_registry_get(r, name, strlen(name));
}

static void expect_name_of(pr_registry *r, uint64_t id, const char *name)
{
    char buf[PR_REGISTRY_NAME_MAX];
    size_t len = pr_registry_name_of(r, id, buf, sizeof buf);
    assert_int_equal(len, strlen(name));
    assert_memory_equal(buf, name, len);
}

/* ---- by hand ---- */

static void a_name_has_one_holder(void **state)
{
    (void)state;
    pr_registry r;
    uint64_t holder = 0;
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    assert_int_equal(get(&r, "hits"), 0);
    assert_int_equal(pr_registry_put(&r, "hits", 4, 7, &holder), PR_REGISTRY_OK);
    assert_int_equal(holder, 0);
    assert_int_equal(get(&r, "hits"), 7);
    assert_int_equal(pr_registry_put(&r, "hits", 4, 9, &holder), PR_REGISTRY_EXISTS);
    assert_int_equal(holder, 7);
    assert_int_equal(pr_registry_put(&r, "hits", 4, 7, NULL), PR_REGISTRY_EXISTS);
    assert_int_equal(pr_registry_count(&r), 1);

    assert_false(pr_registry_remove(&r, "hits", 4, 9));
    assert_int_equal(get(&r, "hits"), 7);
    assert_true(pr_registry_remove(&r, "hits", 4, 7));
    assert_false(pr_registry_remove(&r, "hits", 4, 7));
    assert_int_equal(put(&r, "hits", 9), PR_REGISTRY_OK);
    assert_true(pr_registry_remove(&r, "hits", 4, 0));
    assert_int_equal(get(&r, "hits"), 0);
    assert_int_equal(pr_registry_count(&r), 0);
    pr_registry_destroy(&r);
}

static void names_are_any_bytes(void **state)
{
    (void)state;
    pr_registry r;
    char longest[PR_REGISTRY_NAME_MAX + 1];
    char buf[PR_REGISTRY_NAME_MAX];
    memset(longest, 0xff, sizeof longest);
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, "a\0b", 3, 1, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, "a\0c", 3, 2, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, "a\0", 2, 3, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, "a", 1, 4, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, "\0", 1, 5, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, longest, 255, 6, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_put(&r, longest, 254, UINT64_MAX, NULL), PR_REGISTRY_OK);
    assert_int_equal(pr_registry_get(&r, "a\0b", 3), 1);
    assert_int_equal(pr_registry_get(&r, "a\0c", 3), 2);
    assert_int_equal(pr_registry_get(&r, "a\0", 2), 3);
    assert_int_equal(pr_registry_get(&r, "a", 1), 4);
    assert_int_equal(pr_registry_get(&r, "\0", 1), 5);
    assert_int_equal(pr_registry_get(&r, longest, 255), 6);
    assert_true(pr_registry_get(&r, longest, 254) == UINT64_MAX);
    assert_int_equal(pr_registry_get(&r, "A", 1), 0);
    /* What cannot be a name is nobody's. */
    assert_int_equal(pr_registry_get(&r, "", 0), 0);
    assert_int_equal(pr_registry_get(&r, longest, 256), 0);
    assert_false(pr_registry_remove(&r, longest, 256, 0));

    assert_int_equal(pr_registry_name_of(&r, 6, buf, sizeof buf), 255);
    assert_memory_equal(buf, longest, 255);
    assert_int_equal(pr_registry_name_of(&r, 1, buf, 2), 2);
    assert_memory_equal(buf, "a", 2);
    assert_int_equal(pr_registry_name_of(&r, 1, NULL, 0), 0);
    assert_int_equal(pr_registry_name_of(&r, 8, buf, sizeof buf), 0);
    pr_registry_destroy(&r); /* with names in it */
}

static void an_actor_may_hold_many_names(void **state)
{
    (void)state;
    pr_registry r;
    char buf[8];
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    put(&r, "first", 1);
    put(&r, "other", 2);
    put(&r, "second", 1);
    put(&r, "third", 1);
    expect_name_of(&r, 1, "first");
    assert_true(pr_registry_remove(&r, "second", 6, 1));
    expect_name_of(&r, 1, "first");
    assert_true(pr_registry_remove(&r, "first", 5, 1));
    expect_name_of(&r, 1, "third");
    put(&r, "first", 1);
    expect_name_of(&r, 1, "third");

    assert_int_equal(pr_registry_remove_id(&r, 1), 2);
    assert_int_equal(pr_registry_remove_id(&r, 1), 0);
    assert_int_equal(pr_registry_remove_id(&r, 0), 0);
    assert_int_equal(get(&r, "first"), 0);
    assert_int_equal(get(&r, "third"), 0);
    assert_int_equal(get(&r, "other"), 2);
    assert_int_equal(pr_registry_name_of(&r, 1, buf, sizeof buf), 0);
    assert_int_equal(pr_registry_count(&r), 1);
    put(&r, "first", 2);
    assert_int_equal(pr_registry_remove_id(&r, 2), 2);
    assert_int_equal(pr_registry_count(&r), 0);
    pr_registry_destroy(&r);
}

static void grows_and_keeps_everything(void **state)
{
    (void)state;
    enum { N = 100000 };
    pr_registry r;
    char name[32];
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "actor/%zu", i);
        assert_int_equal(put(&r, name, actor_id(i / 3)), PR_REGISTRY_OK);
    }
    assert_int_equal(pr_registry_count(&r), N);
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "actor/%zu", i);
        assert_true(get(&r, name) == actor_id(i / 3));
        (void)snprintf(name, sizeof name, "actor/%zu", i / 3 * 3);
        expect_name_of(&r, actor_id(i / 3), name);
    }
    for (size_t i = 0; i <= N / 3; i++)
        assert_int_equal(pr_registry_remove_id(&r, actor_id(i)), i < N / 3 ? 3 : N % 3);
    assert_int_equal(pr_registry_count(&r), 0);
    pr_registry_destroy(&r);
}

static void names_that_come_and_go_leave_nothing(void **state)
{
    (void)state;
    pr_registry r;
    char name[32];
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    size_t buckets = r.bucket_count;
    for (size_t i = 0; i < 300000; i++) {
        (void)snprintf(name, sizeof name, "job %zu", i);
        assert_int_equal(put(&r, name, actor_id(i)), PR_REGISTRY_OK);
        if (i % 2 == 0)
            assert_true(pr_registry_remove(&r, name, strlen(name), 0));
        else
            assert_int_equal(pr_registry_remove_id(&r, actor_id(i)), 1);
    }
    assert_int_equal(r.bucket_count, buckets);
    for (size_t i = 0; i < r.bucket_count; i++)
        assert_true(r.by_name[i] == NULL && r.by_id[i] == NULL);
    pr_registry_destroy(&r);
}

/* Taking the names of one actor with many costs no walk through all of them. */
static void many_names_of_one_actor(void **state)
{
    (void)state;
    enum { N = 200000 };
    pr_registry r;
    char name[32];
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    for (size_t i = 0; i < N; i++) {
        (void)snprintf(name, sizeof name, "%zu", i);
        assert_int_equal(put(&r, name, 5), PR_REGISTRY_OK);
    }
    for (size_t i = N / 2; i > 0; i--) {
        (void)snprintf(name, sizeof name, "%zu", i);
        assert_true(pr_registry_remove(&r, name, strlen(name), 5));
    }
    expect_name_of(&r, 5, "0");
    assert_int_equal(pr_registry_remove_id(&r, 5), N - N / 2);
    pr_registry_destroy(&r);
}

/* ---- beside a plain array ---- */

enum { MODEL_NAMES = 200, MODEL_IDS = 40 };

typedef struct model {
    uint64_t holder[MODEL_NAMES]; /* 0: free */
    uint64_t since[MODEL_NAMES];  /* number of the put */
    uint64_t puts;
} model;

/* Names with common beginnings, with zeros, of many lengths. */
static size_t model_name(size_t i, char name[PR_REGISTRY_NAME_MAX])
{
    size_t len = 2 + (i * 7) % (PR_REGISTRY_NAME_MAX - 1);
    memset(name, (int)(i % 2 == 0 ? 0 : 'x'), PR_REGISTRY_NAME_MAX);
    name[len - 1] = (char)(i & 0xff);
    name[len - 2] = (char)(i >> 8);
    return len;
}

static size_t model_oldest(const model *m, uint64_t id)
{
    size_t oldest = MODEL_NAMES;
    for (size_t i = 0; i < MODEL_NAMES; i++) {
        if (m->holder[i] == id && (oldest == MODEL_NAMES || m->since[i] < m->since[oldest]))
            oldest = i;
    }
    return oldest;
}

static size_t model_remove_id(model *m, uint64_t id)
{
    size_t removed = 0;
    for (size_t i = 0; i < MODEL_NAMES; i++) {
        if (m->holder[i] == id) {
            m->holder[i] = 0;
            removed++;
        }
    }
    return removed;
}

static bool names_agree(pr_registry *r, const model *m, uint64_t id)
{
    char name[PR_REGISTRY_NAME_MAX], buf[PR_REGISTRY_NAME_MAX];
    size_t oldest = model_oldest(m, id);
    size_t len = pr_registry_name_of(r, id, buf, sizeof buf);
    if (oldest == MODEL_NAMES)
        return len == 0;
    return len == model_name(oldest, name) && memcmp(buf, name, len) == 0;
}

static bool all_agrees(pr_registry *r, const model *m)
{
    char name[PR_REGISTRY_NAME_MAX];
    size_t held = 0;
    for (size_t i = 0; i < MODEL_NAMES; i++) {
        size_t len = model_name(i, name);
        if (pr_registry_get(r, name, len) != m->holder[i])
            return false;
        held += m->holder[i] != 0;
    }
    for (size_t i = 0; i < MODEL_IDS; i++) {
        if (!names_agree(r, m, actor_id(i)))
            return false;
    }
    return pr_registry_count(r) == held;
}

/* One random operation on both. With `may_fail` a put may report PR_REGISTRY_NOMEM. */
static bool step_agrees(pr_registry *r, model *m, uint64_t *random, bool may_fail)
{
    char name[PR_REGISTRY_NAME_MAX];
    size_t i = below(random, MODEL_NAMES);
    size_t len = model_name(i, name);
    uint64_t id = actor_id(below(random, MODEL_IDS));
    uint64_t held = m->holder[i];
    switch (below(random, 8)) {
    case 0: {
        bool expected = held == id;
        if (expected)
            m->holder[i] = 0;
        return pr_registry_remove(r, name, len, id) == expected;
    }
    case 1:
        m->holder[i] = 0;
        return pr_registry_remove(r, name, len, 0) == (held != 0);
    case 2:
        if (below(random, 4) != 0)
            return names_agree(r, m, id);
        return pr_registry_remove_id(r, id) == model_remove_id(m, id);
    case 3:
        return pr_registry_get(r, name, len) == held;
    default: {
        uint64_t holder = 0;
        int result = pr_registry_put(r, name, len, id, &holder);
        if (held != 0)
            return result == PR_REGISTRY_EXISTS && holder == held;
        if (result == PR_REGISTRY_NOMEM && may_fail)
            return holder == 0;
        m->holder[i] = id;
        m->since[i] = m->puts++;
        return result == PR_REGISTRY_OK && holder == 0;
    }
    }
}

static void agrees_with_a_plain_array(void **state)
{
    (void)state;
    const char *text = getenv("PIERROT_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1991;
    size_t rounds = getenv("PIERROT_SANITIZER") ? 5 : 20;
    for (size_t round = 0; round < rounds; round++, seed++) {
        uint64_t random = seed;
        pr_registry r;
        model m = {0};
        assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
        for (size_t step = 0; step < 50000; step++) {
            if (!step_agrees(&r, &m, &random, false) || (step % 1000 == 0 && !all_agrees(&r, &m)))
                fail_msg("seed %llu, step %zu", (unsigned long long)seed, step);
        }
        assert_true(all_agrees(&r, &m));
        pr_registry_destroy(&r);
    }
}

/* ---- without memory ---- */

/* The same operations again and again, each time with the next allocation failing, until a run has
 * fewer than that. */
static void each_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (long nth = 1; failed; nth++) {
        uint64_t random = 5;
        pr_registry r;
        model m = {0};
        pr_alloc_fail_at(nth);
        int result = pr_registry_init(&r);
        assert_int_equal(result, nth == 1 ? PR_REGISTRY_NOMEM : PR_REGISTRY_OK);
        if (result != PR_REGISTRY_OK)
            continue;
        for (size_t step = 0; step < 600; step++) {
            if (!step_agrees(&r, &m, &random, true))
                fail_msg("allocation %ld fails, step %zu", nth, step);
        }
        failed = pr_alloc_failed();
        pr_alloc_fail_at(0);
        assert_true(all_agrees(&r, &m));
        pr_registry_destroy(&r);
    }
}

static void a_taken_name_is_reported_even_without_memory(void **state)
{
    (void)state;
    pr_registry r;
    uint64_t holder = 0;
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    assert_int_equal(put(&r, "taken", 7), PR_REGISTRY_OK);
    pr_alloc_fail_at(1);
    assert_int_equal(pr_registry_put(&r, "taken", 5, 9, &holder), PR_REGISTRY_EXISTS);
    assert_int_equal(holder, 7);
    pr_alloc_fail_at(1);
    assert_int_equal(put(&r, "free", 9), PR_REGISTRY_NOMEM);
    pr_alloc_fail_at(0);
    assert_int_equal(get(&r, "free"), 0);
    assert_int_equal(pr_registry_remove_id(&r, 9), 0);
    pr_registry_destroy(&r);
}

static void a_full_table_that_cannot_grow_still_takes_names(void **state)
{
    (void)state;
    pr_registry r;
    char name[32];
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    size_t buckets = r.bucket_count;
    for (size_t i = 0; i < 4 * buckets; i++) {
        (void)snprintf(name, sizeof name, "%zu", i);
        pr_alloc_fail_at(2); /* the entry's succeeds, the tables' does not */
        assert_int_equal(put(&r, name, actor_id(i)), PR_REGISTRY_OK);
    }
    pr_alloc_fail_at(0);
    assert_int_equal(r.bucket_count, buckets);
    assert_int_equal(put(&r, "grows", 1), PR_REGISTRY_OK);
    assert_int_equal(r.bucket_count, 2 * buckets);
    for (size_t i = 0; i < 4 * buckets; i++) {
        (void)snprintf(name, sizeof name, "%zu", i);
        assert_true(get(&r, name) == actor_id(i));
    }
    pr_registry_destroy(&r);
}

/* ---- many threads ---- */

enum { THREADS = 8, ROUNDS = 20000, SHARED_NAMES = 64 };

typedef struct arena {
    pr_registry registry;
    _Atomic uint64_t claimed[SHARED_NAMES]; /* who believes to hold the name; 0: nobody */
    atomic_long balance;                    /* puts that succeeded less removals */
    atomic_int violations;                  /* cmocka's assertions are for the main thread */
} arena;

typedef struct player {
    arena *arena;
    uint64_t id;
    bool mine[SHARED_NAMES];
} player;

static void expect(arena *a, bool condition)
{
    if (!condition)
        atomic_fetch_add(&a->violations, 1);
}

static size_t shared_name(size_t i, char name[16])
{
    return (size_t)snprintf(name, 16, "name %zu", i);
}

static void claim(player *p, size_t i)
{
    expect(p->arena, atomic_exchange(&p->arena->claimed[i], p->id) == 0);
    p->mine[i] = true;
}

/* Before the name is removed: after it the next holder may already claim it. */
static void disclaim(player *p, size_t i)
{
    expect(p->arena, atomic_exchange(&p->arena->claimed[i], 0) == p->id);
    p->mine[i] = false;
}

static void play_put(player *p, size_t i)
{
    char name[16];
    size_t len = shared_name(i, name);
    uint64_t holder = 0;
    int result = pr_registry_put(&p->arena->registry, name, len, p->id, &holder);
    if (result == PR_REGISTRY_OK) {
        expect(p->arena, !p->mine[i]);
        claim(p, i);
    } else {
        expect(p->arena, result == PR_REGISTRY_EXISTS && holder != 0);
        expect(p->arena, (holder == p->id) == p->mine[i]);
    }
}

static void play_remove(player *p, size_t i)
{
    char name[16];
    size_t len = shared_name(i, name);
    bool mine = p->mine[i];
    if (mine)
        disclaim(p, i);
    expect(p->arena, pr_registry_remove(&p->arena->registry, name, len, p->id) == mine);
}

static void play_remove_all(player *p)
{
    size_t held = 0;
    for (size_t i = 0; i < SHARED_NAMES; i++) {
        if (p->mine[i]) {
            disclaim(p, i);
            held++;
        }
    }
    expect(p->arena, pr_registry_remove_id(&p->arena->registry, p->id) == held);
}

static void play_look(player *p, size_t i)
{
    char name[16], buf[PR_REGISTRY_NAME_MAX];
    size_t len = shared_name(i, name);
    uint64_t holder = pr_registry_get(&p->arena->registry, name, len);
    expect(p->arena, (holder == p->id) == p->mine[i]);
    expect(p->arena, pr_registry_count(&p->arena->registry) <= SHARED_NAMES);

    bool any = false;
    for (size_t k = 0; k < SHARED_NAMES; k++)
        any = any || p->mine[k];
    len = pr_registry_name_of(&p->arena->registry, p->id, buf, sizeof buf);
    expect(p->arena, (len > 0) == any);
}

static void *play_for_names(void *argument)
{
    player *p = argument;
    uint64_t random = p->id;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t i = below(&random, SHARED_NAMES);
        switch (below(&random, 8)) {
        case 0: case 1: case 2: play_put(p, i); break;
        case 3: case 4: play_remove(p, i); break;
        case 5: case 6: play_look(p, i); break;
        default:
            if (below(&random, 16) == 0)
                play_remove_all(p);
            break;
        }
    }
    return NULL;
}

/* Anybody takes anybody's names, and own ones come by the hundred so that the tables grow. */
static void *play_without_rules(void *argument)
{
    player *p = argument;
    arena *a = p->arena;
    uint64_t random = p->id;
    char name[32];
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t len = shared_name(below(&random, SHARED_NAMES), name);
        if (below(&random, 2) == 0) {
            if (pr_registry_put(&a->registry, name, len, p->id, NULL) == PR_REGISTRY_OK)
                atomic_fetch_add(&a->balance, 1);
        } else if (pr_registry_remove(&a->registry, name, len, 0)) {
            atomic_fetch_sub(&a->balance, 1);
        }
        if (round % 50 == 0) {
            (void)snprintf(name, sizeof name, "%llu of %zu", (unsigned long long)p->id, round);
            expect(a, put(&a->registry, name, p->id) == PR_REGISTRY_OK);
            expect(a, get(&a->registry, name) == p->id);
            atomic_fetch_add(&a->balance, 1);
        }
    }
    atomic_fetch_sub(&a->balance, (long)pr_registry_remove_id(&a->registry, p->id));
    return NULL;
}

static void run_threads(arena *a, void *(*play)(void *))
{
    pthread_t threads[THREADS];
    static player players[THREADS];
    memset(players, 0, sizeof players);
    assert_int_equal(pr_registry_init(&a->registry), PR_REGISTRY_OK);
    for (size_t i = 0; i < THREADS; i++) {
        players[i].arena = a;
        players[i].id = actor_id(i);
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&a->violations), 0);
}

static void threads_never_share_a_name(void **state)
{
    (void)state;
    static arena a;
    char name[16];
    run_threads(&a, play_for_names);
    size_t held = 0;
    for (size_t i = 0; i < SHARED_NAMES; i++) {
        size_t len = shared_name(i, name);
        uint64_t id = atomic_load(&a.claimed[i]);
        assert_true(pr_registry_get(&a.registry, name, len) == id);
        held += id != 0;
    }
    assert_int_equal(pr_registry_count(&a.registry), held);
    pr_registry_destroy(&a.registry);
}

static void threads_lose_and_double_nothing(void **state)
{
    (void)state;
    static arena a;
    run_threads(&a, play_without_rules);
    /* Each thread ended by removing all its names, and nobody puts in the name of another. */
    assert_int_equal(atomic_load(&a.balance), 0);
    assert_int_equal(pr_registry_count(&a.registry), 0);
    pr_registry_destroy(&a.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_one_holder),
        cmocka_unit_test(names_are_any_bytes),
        cmocka_unit_test(an_actor_may_hold_many_names),
        cmocka_unit_test(grows_and_keeps_everything),
        cmocka_unit_test(names_that_come_and_go_leave_nothing),
        cmocka_unit_test(many_names_of_one_actor),
        cmocka_unit_test(agrees_with_a_plain_array),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_taken_name_is_reported_even_without_memory),
        cmocka_unit_test(a_full_table_that_cannot_grow_still_takes_names),
        cmocka_unit_test(threads_never_share_a_name),
        cmocka_unit_test(threads_lose_and_double_nothing),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
