/* See actor.h. */
#include "actor.h"

#include "alloc.h"

#include <string.h>

enum { CACHE_MAX = 4096, BATCH = 1024 };

int pr_actor_table_init(pr_actor_table *t, uint32_t first_generation)
{
    memset(t, 0, sizeof *t);
    t->max = PR_SLOTS;
    /* When an earlier runtime of this process has used the generations up, they start over: by then the holder of one
     * of its refs has seen a million bearers of a slot come and go. */
    t->first_generation = first_generation == 0 || first_generation > PR_GENERATIONS / 2 ? 1 : first_generation;
    PR_SET(t->last_generation, t->first_generation);
    return pthread_mutex_init(&t->lock, NULL);
}

void pr_actor_table_destroy(pr_actor_table *t)
{
    for (uint32_t i = 0; i < PR_SLABS; i++)
        pr_free(PR_GET(t->slabs[i]));
    pthread_mutex_destroy(&t->lock);
}

/* With the lock held: another slab on the shared free list. */
static bool grow(pr_actor_table *t)
{
    uint32_t first = PR_GET(t->slots);
    if (first + PR_SLAB > t->max)
        return false;
    pr_actor *slab = pr_zalloc_line(sizeof(pr_actor) * PR_SLAB);
    if (!slab)
        return false;
    for (uint32_t i = PR_SLAB; i-- > 0;) {
        pr_actor *a = &slab[pr_actor_place(first + i)];
        atomic_store_explicit(&a->mailbox.head, PR_STACK_CLOSED, memory_order_relaxed);
        atomic_store_explicit(&a->control.head, PR_STACK_CLOSED, memory_order_relaxed);
        PR_SET(a->sched, PR_PINNED);
        a->slot = first + i;
        a->generation = t->first_generation - 1;
        a->next_free = t->free;
        t->free = a;
    }
    /* release: pairs with pr_actor_slot */
    atomic_store_explicit(&t->slabs[first >> PR_SLAB_BITS], slab, memory_order_release);
    atomic_store_explicit(&t->slots, first + PR_SLAB, memory_order_release);
    return true;
}

static pr_actor *take(pr_actor_table *t, pr_actor_cache *cache)
{
    if (cache && cache->free) {
        pr_actor *a = cache->free;
        cache->free = a->next_free;
        cache->count--;
        return a;
    }
    pthread_mutex_lock(&t->lock);
    pr_actor *a = t->free || grow(t) ? t->free : NULL;
    if (a) {
        t->free = a->next_free;
        if (cache && t->free) {   /* the next ones come along, in their order */
            pr_actor *last = t->free;
            uint32_t count = 1;
            for (; count < BATCH && last->next_free; count++)
                last = last->next_free;
            cache->free = t->free;
            cache->count = count;
            t->free = last->next_free;
            last->next_free = NULL;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return a;
}

pr_actor *pr_actor_alloc(pr_actor_table *t, pr_actor_cache *cache, uint64_t *id)
{
    pr_actor *a = take(t, cache);
    if (!a)
        return NULL;
    *id = pr_id_make(a->slot, ++a->generation);
    a->next_free = NULL;
    return a;
}

void pr_actor_note_generation(pr_actor_table *t, uint32_t generation)
{
    uint32_t reached = PR_GET(t->last_generation);
    while (generation > reached &&
           !atomic_compare_exchange_weak_explicit(&t->last_generation, &reached, generation, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

void pr_actor_free(pr_actor_table *t, pr_actor_cache *cache, pr_actor *a)
{
    pr_actor_note_generation(t, a->generation);
    if (a->generation + 1 >= PR_GENERATIONS)
        return;   /* retired: an id is never given out twice */
    if (cache) {
        a->next_free = cache->free;
        cache->free = a;
        if (++cache->count < CACHE_MAX)
            return;
    }
    pthread_mutex_lock(&t->lock);
    if (!cache) {
        a->next_free = t->free;
        t->free = a;
    }
    for (int i = 0; cache && i < CACHE_MAX / 2; i++) {
        pr_actor *surplus = cache->free;
        cache->free = surplus->next_free;
        cache->count--;
        surplus->next_free = t->free;
        t->free = surplus;
    }
    pthread_mutex_unlock(&t->lock);
}
