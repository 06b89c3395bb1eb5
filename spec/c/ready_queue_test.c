/* The queues of floating actors alone: an owner that pushes and pops, thieves, and what has been spilled behind; births from
 * outside. Each actor comes out exactly once.
 *
 * Mutants caught: the head moved by a store instead of compare-and-swap (in pop, in steal); a thief's tail moved
 * by `take` (the one it returns stays in the ring); spill that drops `a`; one that puts it behind what is there; a take from it
 * that leaves `last`, or the link back, as it was. */
#include "harness.h"

enum { THIEVES = 3, ITEMS = 4096 };

static pr_ring rings[THIEVES + 1];
static pr_global global;
static pr_spill spill;
static pr_actor *items;
static _Atomic uint32_t out[ITEMS];   /* how often it came out in this round */
static _Atomic uint64_t taken;
static _Atomic int over;

static void got(pr_actor *a)
{
    if (atomic_fetch_add(&out[a - items], 1) != 0)
        wrong("item %d came out twice", (int)(a - items));
    atomic_fetch_add(&taken, 1);
}

static void *thief(void *context, unsigned index)
{
    (void)context;
    pr_ring *mine = &rings[index + 1];
    uint64_t random = index;
    while (!atomic_load(&over)) {
        unsigned victim = (unsigned)below(&random, THIEVES + 1);
        if (victim == index + 1)
            continue;
        pr_actor *a = pr_ring_steal(&rings[victim], mine, PR_RING);
        if (!a && below(&random, 4) == 0)
            a = below(&random, 2) ? pr_spill_take(&spill, mine, 8, true) : pr_global_take(&global, mine, 8);
        for (; a; a = pr_ring_pop(mine))
            got(a);
    }
    return NULL;
}

static void nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    uint64_t random = 7, rounds = times(1500, 150);
    bool lost = false;
    items = pr_zalloc_line(ITEMS * sizeof *items);
    assert_non_null(items);
    assert_int_equal(pr_global_init(&global), 0);
    assert_int_equal(pr_spill_init(&spill), 0);
    crew thieves;
    crew_start(&thieves, THIEVES, thief, NULL);
    for (uint64_t round = 0; round < rounds && !lost; round++) {
        atomic_store(&taken, 0);
        for (int i = 0; i < ITEMS; i++)
            atomic_store(&out[i], 0);
        for (int i = 0; i < ITEMS; i++) {
            if (i % 64 == 0)
                pr_global_push(&global, &items[i]);
            else if (!pr_ring_push(&rings[0], &items[i]))
                pr_ring_spill(&rings[0], &spill, &items[i]);
            pr_actor *a;
            if (below(&random, 4) == 0 && (a = pr_ring_pop(&rings[0])))
                got(a);
            if (below(&random, 64) == 0 && (a = pr_global_take(&global, &rings[0], 16)))
                got(a);
            if (below(&random, 64) == 0 && (a = pr_spill_take(&spill, &rings[0], 16, below(&random, 2))))
                got(a);
        }
        for (uint64_t tries = 0; atomic_load(&taken) < ITEMS && tries < 20000; tries++) {
            pr_actor *a = pr_ring_pop(&rings[0]);
            if (!a)
                a = pr_spill_take(&spill, &rings[0], 4, false);
            if (!a)
                a = pr_global_take(&global, &rings[0], 4);
            if (a)
                got(a);
            else
                pause_us(tries < 100 ? 0 : 100);
        }
        lost = atomic_load(&taken) != ITEMS;
        if (lost)
            wrong("%d of %d came out", (int)taken, ITEMS);
    }
    atomic_store(&over, 1);
    crew_join(&thieves);
    assert_true(no_errors());
    assert_int_equal(global.count, 0);
    assert_int_equal(spill.count, 0);
    pr_spill_destroy(&spill);
    pr_global_destroy(&global);
    pr_free(items);
}

static void a_thief_takes_the_older_half_or_its_share(void **state)
{
    (void)state;
    static pr_ring victim, mine;
    pr_actor *five = pr_zalloc_line(5 * sizeof *five);
    assert_non_null(five);
    assert_null(pr_ring_steal(&victim, &mine, PR_RING));
    for (int i = 0; i < 5; i++)
        assert_true(pr_ring_push(&victim, &five[i]));
    assert_ptr_equal(pr_ring_steal(&victim, &mine, PR_RING), &five[2]);
    assert_ptr_equal(pr_ring_pop(&mine), &five[0]);
    assert_ptr_equal(pr_ring_pop(&mine), &five[1]);
    assert_null(pr_ring_pop(&mine));
    assert_ptr_equal(pr_ring_pop(&victim), &five[3]);
    assert_ptr_equal(pr_ring_steal(&victim, &mine, PR_RING), &five[4]);
    assert_null(pr_ring_pop(&victim));
    for (int i = 0; i < 5; i++)
        assert_true(pr_ring_push(&victim, &five[i]));
    assert_ptr_equal(pr_ring_steal(&victim, &mine, 1), &five[0]);
    assert_null(pr_ring_pop(&mine));
    assert_int_equal(pr_ring_count(&victim), 4);
    pr_free(five);
}

static void fill(pr_ring *ring, pr_actor *many)
{
    for (int i = 0; i < PR_RING; i++)
        assert_true(pr_ring_push(ring, &many[i]));
    assert_false(pr_ring_push(ring, &many[PR_RING]));
    pr_ring_spill(ring, &spill, &many[PR_RING]);
    assert_int_equal(pr_ring_count(ring), PR_RING / 2);
    while (pr_ring_pop(ring)) {}
}

/* The owner gets back what has been spilled last, in its order; a thief what was first; and both what is between. */
static void a_full_ring_spills_its_older_half(void **state)
{
    (void)state;
    enum { HALF = PR_RING / 2, ALL = PR_RING + 1 };
    static pr_ring ring, other;
    pr_actor *many = pr_zalloc_line((size_t)2 * ALL * sizeof *many), *later = many + ALL;
    assert_non_null(many);
    assert_int_equal(pr_spill_init(&spill), 0);
    fill(&ring, many);
    assert_int_equal(spill.count, HALF + 1);
    fill(&ring, later);
    assert_int_equal(spill.count, 2 * HALF + 2);
    assert_ptr_equal(pr_spill_take(&spill, &other, 3, true), &many[HALF - 2]);
    assert_ptr_equal(pr_ring_pop(&other), &many[HALF - 1]);
    assert_ptr_equal(pr_ring_pop(&other), &many[PR_RING]);
    assert_null(pr_ring_pop(&other));
    for (int i = 0; i < HALF; i++)
        assert_ptr_equal(pr_spill_take(&spill, &other, 1, false), &later[i]);
    assert_ptr_equal(pr_spill_take(&spill, &other, 2, false), &later[PR_RING]);
    assert_ptr_equal(pr_ring_pop(&other), &many[0]);
    assert_ptr_equal(pr_spill_take(&spill, &other, 1, true), &many[HALF - 3]);
    assert_ptr_equal(pr_spill_take(&spill, &other, PR_RING, true), &many[1]);
    for (int i = 2; i < HALF - 3; i++)
        assert_ptr_equal(pr_ring_pop(&other), &many[i]);
    assert_null(pr_ring_pop(&other));
    assert_null(pr_spill_take(&spill, &other, 1, false));
    assert_null(pr_spill_take(&spill, &other, 1, true));
    assert_int_equal(spill.count, 0);
    pr_spill_destroy(&spill);
    pr_free(many);
}

static void those_from_outside_come_in_their_order(void **state)
{
    (void)state;
    static pr_ring ring;
    pr_actor *five = pr_zalloc_line(5 * sizeof *five);
    assert_non_null(five);
    assert_int_equal(pr_global_init(&global), 0);
    for (int i = 0; i < 5; i++)
        pr_global_push(&global, &five[i]);
    assert_ptr_equal(pr_global_take(&global, &ring, 3), &five[0]);
    assert_ptr_equal(pr_ring_pop(&ring), &five[1]);
    assert_ptr_equal(pr_ring_pop(&ring), &five[2]);
    assert_ptr_equal(pr_global_take(&global, &ring, 1), &five[3]);
    assert_ptr_equal(pr_global_take(&global, &ring, 9), &five[4]);
    assert_null(pr_global_take(&global, &ring, 1));
    assert_null(pr_ring_pop(&ring));
    pr_global_destroy(&global);
    pr_free(five);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thief_takes_the_older_half_or_its_share),
        cmocka_unit_test(a_full_ring_spills_its_older_half),
        cmocka_unit_test(those_from_outside_come_in_their_order),
        cmocka_unit_test(nothing_is_lost_or_doubled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
