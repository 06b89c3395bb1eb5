/* See ready_queue.h. */
#include "ready_queue.h"

#include <string.h>

int pr_global_init(pr_global *g)
{
    memset(g, 0, sizeof *g);
    return pthread_mutex_init(&g->lock, NULL);
}

void pr_global_destroy(pr_global *g)
{
    pthread_mutex_destroy(&g->lock);
}

bool pr_ring_push(pr_ring *r, pr_actor *a)
{
    uint32_t tail = PR_GET(r->tail);
    uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    if (tail - head >= PR_RING)
        return false;
    atomic_store_explicit(&r->place[tail % PR_RING], a, memory_order_relaxed);
    /* seq_cst includes the release that thieves need; the pusher then looks for sleepers, and a worker
     * about to sleep looks here after it has said so: one of the two sees the other. */
    atomic_store_explicit(&r->tail, tail + 1, memory_order_seq_cst);
    return true;
}

pr_actor *pr_ring_pop(pr_ring *r)
{
    uint32_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    while (head != PR_GET(r->tail)) {
        pr_actor *a = atomic_load_explicit(&r->place[head % PR_RING], memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&r->head, &head, head + 1, memory_order_acq_rel,
                                                  memory_order_acquire))
            return a;
    }
    return NULL;
}

pr_actor *pr_ring_steal(pr_ring *victim, pr_ring *mine, uint32_t most)
{
    uint32_t head = atomic_load_explicit(&victim->head, memory_order_acquire);
    for (;;) {
        uint32_t tail = atomic_load_explicit(&victim->tail, memory_order_acquire);
        uint32_t count = tail - head;
        uint32_t take = count - count / 2;
        if (count == 0)
            return NULL;
        if (take > PR_RING / 2) {   /* head and tail were not read at one moment */
            head = atomic_load_explicit(&victim->head, memory_order_acquire);
            continue;
        }
        take = take < most ? take : most;
        uint32_t at = PR_GET(mine->tail);
        for (uint32_t i = 0; i < take; i++)
            atomic_store_explicit(&mine->place[(at + i) % PR_RING],
                                  atomic_load_explicit(&victim->place[(head + i) % PR_RING], memory_order_relaxed),
                                  memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&victim->head, &head, head + take, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            /* The last of them is run now, the others become visible. */
            atomic_store_explicit(&mine->tail, at + take - 1, memory_order_release);
            return atomic_load_explicit(&mine->place[(at + take - 1) % PR_RING], memory_order_relaxed);
        }
    }
}

/* --- what rings had no room for */

int pr_spill_init(pr_spill *s)
{
    memset(s, 0, sizeof *s);
    return pthread_mutex_init(&s->lock, NULL);
}

void pr_spill_destroy(pr_spill *s)
{
    pthread_mutex_destroy(&s->lock);
}

/* Behind `last`, which is linked to no other yet. */
static void append(pr_actor **last, pr_actor *a)
{
    a->next_free = *last;
    (*last)->ready_next = a;
    *last = a;
}

void pr_ring_spill(pr_ring *r, pr_spill *s, pr_actor *a)
{
    pr_actor before = {0}, *last = &before, *one;
    uint32_t count = 1;
    for (; count <= PR_RING / 2 && (one = pr_ring_pop(r)); count++)   /* none: thieves were here meanwhile */
        append(&last, one);
    append(&last, a);
    pr_actor *first = before.ready_next;
    first->next_free = NULL;
    pthread_mutex_lock(&s->lock);
    last->ready_next = s->first;
    if (s->first)
        s->first->next_free = last;
    else
        s->last = last;
    s->first = first;
    /* seq_cst: before the look for sleepers, as in `put` */
    atomic_store_explicit(&s->count, PR_GET(s->count) + count, memory_order_seq_cst);
    pthread_mutex_unlock(&s->lock);
}

pr_actor *pr_spill_take(pr_spill *s, pr_ring *mine, uint32_t share, bool oldest)
{
    if (PR_GET(s->count) == 0)
        return NULL;
    pthread_mutex_lock(&s->lock);
    pr_actor *taken = s->first, *rest;
    if (oldest) {
        taken = s->last;
        for (uint32_t i = 1; taken && i < share && taken->next_free; i++)
            taken = taken->next_free;
    }
    uint32_t count = 0;
    for (rest = taken; rest && count < share; count++) {
        pr_actor *a = rest;
        rest = a->ready_next;
        if (count > 0 && !pr_ring_push(mine, a)) {
            rest = a;
            break;
        }
    }
    /* What lay before those taken, and what lies behind them. */
    pr_actor *before = taken ? taken->next_free : NULL;
    if (before)
        before->ready_next = rest;
    else
        s->first = rest;
    if (rest)
        rest->next_free = before;
    else
        s->last = before;
    atomic_store_explicit(&s->count, PR_GET(s->count) - count, memory_order_seq_cst);
    pthread_mutex_unlock(&s->lock);
    return taken;
}

/* --- births from outside */

/* With the lock held. */
static void put(pr_global *g, pr_actor *a)
{
    a->ready_next = NULL;
    if (g->tail)
        g->tail->ready_next = a;
    else
        g->head = a;
    g->tail = a;
    /* seq_cst: before the pusher's look for sleepers; pairs with the parking worker's last look */
    atomic_store_explicit(&g->count, PR_GET(g->count) + 1, memory_order_seq_cst);
}

void pr_global_push(pr_global *g, pr_actor *a)
{
    pthread_mutex_lock(&g->lock);
    put(g, a);
    pthread_mutex_unlock(&g->lock);
}

pr_actor *pr_global_take(pr_global *g, pr_ring *mine, uint32_t share)
{
    if (PR_GET(g->count) == 0)
        return NULL;
    pthread_mutex_lock(&g->lock);
    pr_actor *first = g->head;
    uint32_t taken = 0;
    while (taken < share && g->head) {
        pr_actor *a = g->head, *next = a->ready_next;
        if (taken > 0 && !pr_ring_push(mine, a))
            break;
        g->head = next;
        taken++;
    }
    if (!g->head)
        g->tail = NULL;
    atomic_store_explicit(&g->count, PR_GET(g->count) - taken, memory_order_seq_cst);
    pthread_mutex_unlock(&g->lock);
    return first;
}
