/* See alloc.h. The countdown is one atomic for the whole process: it exists for tests, which run alone. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* 0: off. Relaxed: a test arms it before the calls it is about, on the same thread or before they start. */
static atomic_long countdown;
static atomic_int failed;

static int must_fail(void)
{
    if (atomic_load_explicit(&countdown, memory_order_relaxed) == 0)
        return 0;
    if (atomic_fetch_sub_explicit(&countdown, 1, memory_order_relaxed) != 1)
        return 0;
    atomic_store_explicit(&failed, 1, memory_order_relaxed);
    return 1;
}

void pr_alloc_fail_at(long n)
{
    atomic_store_explicit(&failed, 0, memory_order_relaxed);
    atomic_store_explicit(&countdown, n, memory_order_relaxed);
}

int pr_alloc_failed(void)
{
    return atomic_load_explicit(&failed, memory_order_relaxed);
}

void *pr_alloc(size_t size)
{
    return must_fail() ? NULL : malloc(size);
}

void *pr_zalloc(size_t size)
{
    return must_fail() ? NULL : calloc(1, size);
}

void *pr_zalloc_line(size_t size)
{
    if (must_fail())
        return NULL;
    size = (size + 63) & ~(size_t)63;
    void *block = aligned_alloc(64, size);
    if (block)
        memset(block, 0, size);
    return block;
}

void *pr_alloc_aligned(size_t alignment, size_t size)
{
    return must_fail() ? NULL : aligned_alloc(alignment, size);
}

void *pr_alloc_block(void)
{
    void *block = pr_alloc_aligned(PR_BLOCK, PR_BLOCK);
#ifdef MADV_HUGEPAGE
    if (block)
        madvise(block, PR_BLOCK, MADV_HUGEPAGE);   /* refused: ordinary pages */
#endif
    return block;
}

void *pr_realloc(void *old, size_t size)
{
    return must_fail() ? NULL : realloc(old, size);
}

void pr_free(void *block)
{
    free(block);
}
