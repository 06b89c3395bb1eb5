/* A runtime's own memory: what is counted, the limit, and what a host's allocator refuses.
 *
 * Mutants caught: a refused block that stays counted; a limit that a growing block passes. */
#include "harness.h"

typedef struct source {
    bool empty;      /* refuses */
    size_t blocks;
} source;

static void *take(void *context, void *block, size_t size, size_t alignment)
{
    source *s = context;
    if (size > 0 && s->empty)
        return NULL;
    s->blocks += block ? 0 : 1;
    s->blocks -= size ? 0 : 1;
    return pr_memory_plain(NULL, block, size, alignment);
}

static void what_it_counts_is_what_there_is(void **state)
{
    (void)state;
    source s = {0};
    pr_memory m = {.reallocate = take, .context = &s, .limit = 100000};
    pr_memory_here = &m;
    char *a = pr_alloc(1000), *b = pr_zalloc(500), *line = pr_zalloc_line(100);
    void *aligned = pr_alloc_aligned(4096, 8192);
    assert_true(a && b && line && aligned);
    assert_true((uintptr_t)line % 64 == 0 && (uintptr_t)aligned % 4096 == 0 && (uintptr_t)a % 16 == 0);
    for (int i = 0; i < 100; i++)
        assert_true(line[i] == 0 && b[i] == 0);
    assert_in_range(m.used, 1000 + 500 + 128 + 8192, 1000 + 500 + 128 + 8192 + 200);
    size_t used = m.used;
    /* Beyond the limit: nothing has changed. */
    assert_null(pr_alloc(95000));
    assert_null(pr_zalloc(95000));
    assert_null(pr_zalloc_line(95000));
    assert_null(pr_alloc_aligned(4096, 98304));
    assert_null(pr_realloc(a, 95000));
    assert_null(pr_alloc(SIZE_MAX / 2 + 1));
    assert_null(pr_realloc(a, SIZE_MAX / 2 + 1));
    assert_int_equal(m.used, used);
    /* The host has no more. */
    s.empty = true;
    assert_null(pr_alloc(10));
    assert_null(pr_zalloc_line(10));
    assert_null(pr_alloc_aligned(64, 64));
    assert_null(pr_realloc(a, 2000));
    assert_null(pr_realloc(a, 500));
    assert_int_equal(m.used, used);
    s.empty = false;
    /* Grows, shrinks, begins. */
    memset(a, 7, 1000);
    a = pr_realloc(a, 20000);
    assert_true(a && a[999] == 7);
    assert_in_range(m.used, used + 19000 - 32, used + 19000 + 32);
    a = pr_realloc(a, 1000);
    assert_true(a && a[999] == 7);
    assert_in_range(m.used, used - 32, used + 32);
    char *c = pr_realloc(NULL, 10);
    assert_non_null(c);
    assert_in_range(m.high, used + 19000 - 32, 100000);
    pr_free(a), pr_free(b), pr_free(c), pr_free(line), pr_free(NULL);
    pr_free_aligned(aligned, 8192);
    pr_free_aligned(NULL, 8192);
    assert_int_equal(m.used, 0);
    assert_int_equal(s.blocks, 0);
    pr_memory_here = NULL;
}

static void without_one_it_is_the_process_s(void **state)
{
    (void)state;
    char *a = pr_realloc(NULL, 10), *line = pr_zalloc_line(10);
    void *block = pr_alloc_block();
    assert_true(a && line && block && (uintptr_t)block % PR_BLOCK == 0);
    pr_free(a);
    pr_free(line);
    pr_free_aligned(block, PR_BLOCK);
    for (long n = 1; n <= 2; n++) {
        pr_alloc_fail_at(n);
        void *first = pr_alloc(10), *second = pr_zalloc(10);
        assert_true(n == 1 ? !first && second : first && !second);
        assert_true(pr_alloc_failed());
        pr_free(first);
        pr_free(second);
    }
    pr_alloc_fail_at(1);
    assert_null(pr_zalloc_line(10));
    pr_alloc_fail_at(1);
    assert_null(pr_realloc(NULL, 10));
    pr_alloc_fail_at(1);
    assert_null(pr_alloc_block());
    pr_alloc_fail_at(0);
    assert_false(pr_alloc_failed());
}

/* In the first slab scattered: two strides in a row are rarely the same. */
static void each_slot_has_a_record_of_its_own(void **state)
{
    (void)state;
    static bool taken[PR_SLAB];
    uint32_t equal = 0;
    for (uint32_t slot = 0; slot < PR_SLAB; slot++) {
        uint32_t at = pr_actor_place(slot);
        assert_true(at < PR_SLAB && !taken[at]);
        taken[at] = true;
        if (slot >= 2)
            equal += at - pr_actor_place(slot - 1) == pr_actor_place(slot - 1) - pr_actor_place(slot - 2);
    }
    assert_in_range(equal, 0, PR_SLAB / 16);
    for (uint32_t slot = PR_SLAB; slot < 3 * PR_SLAB; slot++)
        assert_int_equal(pr_actor_place(slot), slot % PR_SLAB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_it_counts_is_what_there_is),
                                       cmocka_unit_test(without_one_it_is_the_process_s),
                                       cmocka_unit_test(each_slot_has_a_record_of_its_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
