/* See heap.h. */
#include "heap.h"

#include "../alloc.h"

#include <stdint.h>
#include <string.h>

/* Regions are cut into blocks. The first ones are small: a runtime that does little shall need little. */
typedef struct pr_region { struct pr_region *next; } pr_region;

enum { REGION = 64 * 1024, SMALL_REGIONS = 1024 * 1024 };

/* Under AddressSanitizer each block is one of its own, which it can watch. Lua's pointers to it share their words with
 * tags, so LeakSanitizer does not find them where a state is left open at the process's end: it is told not to look. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
enum { CUT = 0 };
static void *hide(void *block)
{
    if (block)
        __lsan_ignore_object(block);
    return block;
}
#else
enum { CUT = 1 };
static void *hide(void *block) { return block; }
#endif

static inline size_t class_of(size_t size) { return (size - 1) / PR_HEAP_STEP; }

static void put(pr_heap *h, void *block, size_t class)
{
    *(void **)block = h->free[class];
    h->free[class] = block;
}

/* Cuts a block of that class from the newest region, or from a new one. */
static void *cut(pr_heap *h, size_t class)
{
    size_t bytes = (class + 1) * PR_HEAP_STEP;
    if ((size_t)(h->end - h->at) < bytes) {
        size_t size = h->taken < SMALL_REGIONS ? REGION : PR_BLOCK;
        pr_region *region = size == PR_BLOCK ? pr_alloc_block() : pr_alloc_aligned(PR_HEAP_STEP, size);
        if (!region)
            return NULL;
        if (h->end > h->at)   /* the rest of the old one: less than PR_HEAP_SMALL, a multiple of PR_HEAP_STEP */
            put(h, h->at, class_of((size_t)(h->end - h->at)));
        region->next = h->regions;
        h->regions = region;
        h->taken += size;
        h->at = (char *)region + PR_HEAP_STEP;
        h->end = (char *)region + size;
    }
    void *block = h->at;
    h->at += bytes;
    return block;
}

static void *get(pr_heap *h, size_t size)
{
    if (!CUT || size > PR_HEAP_SMALL)
        return hide(pr_alloc(size));
    size_t class = class_of(size);
    void *block = h->free[class];
    if (block) {
        h->free[class] = *(void **)block;
        return block;
    }
    return cut(h, class);
}

static void give(pr_heap *h, void *block, size_t size)
{
    if (!CUT || size > PR_HEAP_SMALL)
        pr_free(block);
    else
        put(h, block, class_of(size));
}

void *pr_heap_realloc(void *heap, void *block, size_t old_size, size_t size)
{
    pr_heap *h = heap;
    if (size == 0) {
        if (block && old_size > 0)
            give(h, block, old_size);
        return NULL;
    }
    if (!block || old_size == 0)
        return get(h, size);
    if (!CUT || (size > PR_HEAP_SMALL && old_size > PR_HEAP_SMALL)) {
        void *moved = hide(pr_realloc(block, size));
        return moved || size > old_size ? moved : block;
    }
    if (size <= PR_HEAP_SMALL && old_size <= PR_HEAP_SMALL && class_of(size) == class_of(old_size))
        return block;
    void *moved = get(h, size);
    if (!moved)
        return size > old_size ? NULL : block;   /* a shrunk block that stays is given back as a smaller one */
    memcpy(moved, block, size < old_size ? size : old_size);
    give(h, block, old_size);
    return moved;
}

void pr_heap_destroy(pr_heap *heap)
{
    while (heap->regions) {
        pr_region *next = heap->regions->next;
        pr_free(heap->regions);
        heap->regions = next;
    }
}
