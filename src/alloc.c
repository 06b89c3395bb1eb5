/* See alloc.h. The countdown is one atomic for the whole process: it exists for tests, which run alone. */
#include "alloc.h"

#include <stdatomic.h>
#include <stdint.h>
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

__thread pr_memory *pr_memory_here;

/* --- a runtime's own memory */

/* Lies before each block but those of pr_alloc_aligned. */
typedef struct head {
    size_t size;      /* of the whole; bit 0: the block stands on a line, `LINE` bytes behind its beginning */
    pr_memory *owner;
} head;

enum { ROUND = 16, LINE = 64 };

_Static_assert(sizeof(head) == ROUND, "what follows a head is aligned as malloc would");

static bool count(pr_memory *m, size_t more)
{
    size_t used = atomic_fetch_add_explicit(&m->used, more, memory_order_relaxed) + more;
    if (m->limit && used > m->limit) {
        atomic_fetch_sub_explicit(&m->used, more, memory_order_relaxed);
        return false;
    }
    size_t high = atomic_load_explicit(&m->high, memory_order_relaxed);
    while (used > high && !atomic_compare_exchange_weak_explicit(&m->high, &high, used, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
    return true;
}

static void uncount(pr_memory *m, size_t less)
{
    atomic_fetch_sub_explicit(&m->used, less, memory_order_relaxed);
}

static void *own_take(pr_memory *m, size_t size, bool line)
{
    size_t before = line ? LINE : sizeof(head);
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t whole = (size + before + ROUND - 1) & ~(size_t)(ROUND - 1);
    if (!count(m, whole))
        return NULL;
    char *base = m->reallocate(m->context, NULL, whole, line ? LINE : ROUND);
    if (!base) {
        uncount(m, whole);
        return NULL;
    }
    head *h = (head *)(void *)(base + before) - 1;
    *h = (head){whole | line, m};
    return h + 1;
}

static void own_give(void *block)
{
    head *h = (head *)block - 1;
    pr_memory *m = h->owner;
    bool line = h->size & 1;
    uncount(m, h->size & ~(size_t)1);
    m->reallocate(m->context, (char *)block - (line ? LINE : sizeof(head)), 0, 0);
}

static void *own_resize(void *block, size_t size)
{
    head *h = (head *)block - 1;
    pr_memory *m = h->owner;
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t whole = (size + sizeof(head) + ROUND - 1) & ~(size_t)(ROUND - 1), old = h->size;
    if (whole > old && !count(m, whole - old))
        return NULL;
    head *moved = m->reallocate(m->context, h, whole, ROUND);
    if (!moved) {
        if (whole > old)
            uncount(m, whole - old);
        return NULL;
    }
    if (whole < old)
        uncount(m, old - whole);
    moved->size = whole;
    return moved + 1;
}

void *pr_memory_plain(void *context, void *block, size_t size, size_t alignment)
{
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if (alignment > ROUND)
        return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
    return realloc(block, size);
}

/* --- */

void *pr_alloc(size_t size)
{
    if (must_fail())
        return NULL;
    return pr_memory_here ? own_take(pr_memory_here, size, false) : malloc(size);
}

void *pr_zalloc(size_t size)
{
    if (must_fail())
        return NULL;
    if (!pr_memory_here)
        return calloc(1, size);
    void *block = own_take(pr_memory_here, size, false);
    return block ? memset(block, 0, size) : NULL;
}

void *pr_zalloc_line(size_t size)
{
    if (must_fail())
        return NULL;
    size = (size + LINE - 1) & ~(size_t)(LINE - 1);
    void *block = pr_memory_here ? own_take(pr_memory_here, size, true) : aligned_alloc(LINE, size);
    if (block)
        memset(block, 0, size);
    return block;
}

void *pr_alloc_aligned(size_t alignment, size_t size)
{
    pr_memory *m = pr_memory_here;
    if (must_fail())
        return NULL;
    if (!m)
        return aligned_alloc(alignment, size);
    if (!count(m, size))
        return NULL;
    void *block = m->reallocate(m->context, NULL, size, alignment);
    if (!block)
        uncount(m, size);
    return block;
}

void *pr_alloc_block(void)
{
    void *block = pr_alloc_aligned(PR_BLOCK, PR_BLOCK);
#ifdef MADV_HUGEPAGE
    if (block && (!pr_memory_here || pr_memory_here->reallocate == pr_memory_plain))
        madvise(block, PR_BLOCK, MADV_HUGEPAGE);   /* refused: ordinary pages */
#endif
    return block;
}

void pr_free_aligned(void *block, size_t size)
{
    pr_memory *m = pr_memory_here;
    if (!m) {
        free(block);
    } else if (block) {
        uncount(m, size);
        m->reallocate(m->context, block, 0, 0);
    }
}

void *pr_realloc(void *old, size_t size)
{
    if (must_fail())
        return NULL;
    if (!pr_memory_here)
        return realloc(old, size);
    return old ? own_resize(old, size) : own_take(pr_memory_here, size, false);
}

void pr_free(void *block)
{
    if (!pr_memory_here)
        free(block);
    else if (block)
        own_give(block);
}
