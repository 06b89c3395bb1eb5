/* Queues of floating actors that are ready to run.
 *
 * pr_ring: one per worker, 256 places. The owner pushes at the tail and takes at the head; thieves take
 * half from the head. Head and tail only grow (modulo 2^32); tail - head is the count.
 *   tail   written by the owner (release: pairs with the thief's acquire, which then sees the places)
 *   head   moved by compare-and-swap by owner and thieves (acq_rel: a place is read before the head passes
 *          it, so that the owner, who reads head with acquire, never overwrites a place still being read)
 * Source: the run queue of Go's scheduler (D. Vyukov, "Scalable Go Scheduler Design Doc", 2012).
 *
 * pr_spill: one per worker, what its ring had no room for, under a lock. The owner takes the newest of it back first: actors
 * that spawn actors so have theirs done one after the other, in the caches, instead of a generation after the other. Thieves
 * take the oldest, of which most is still to come, and which is nobody's in a cache.
 *
 * pr_global: one per dispatcher, a list under a lock: births from outside.
 *
 * Both lists run through the records themselves (an actor stands in one queue at most), so that nothing on the way of a
 * message can run out of memory. */
#ifndef PR_READY_QUEUE_H
#define PR_READY_QUEUE_H

#include "actor.h"

enum { PR_RING = 256 };

typedef struct pr_ring {
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) _Atomic uint32_t tail;
    _Atomic(pr_actor *) place[PR_RING];
} pr_ring;

typedef struct pr_spill {
    pthread_mutex_t lock;
    pr_actor *first, *last;   /* linked by ready_next, and backwards by next_free */
    _Atomic uint32_t count;   /* as in pr_global */
} pr_spill;

typedef struct pr_global {
    pthread_mutex_t lock;
    pr_actor *head, *tail;    /* linked by ready_next */
    _Atomic uint32_t count;   /* written under the lock; read without it as a hint, seq_cst (see parking) */
} pr_global;

int pr_global_init(pr_global *g);
void pr_global_destroy(pr_global *g);

static inline uint32_t pr_ring_count(const pr_ring *r)
{
    /* seq_cst: also the parking worker's last look, which pairs with the push before a look for sleepers */
    uint32_t head = atomic_load_explicit(&r->head, memory_order_seq_cst);
    uint32_t tail = atomic_load_explicit(&r->tail, memory_order_seq_cst);
    return tail - head <= PR_RING ? tail - head : 0;   /* a torn pair of reads counts as nothing */
}

/* Owner. False: full. */
bool pr_ring_push(pr_ring *r, pr_actor *a);
/* Owner. NULL: empty. */
pr_actor *pr_ring_pop(pr_ring *r);
/* Any worker but the owner: takes half of what is there (at least one), but no more than `most`, into its own
 * ring, which must be empty, and returns one of them. */
pr_actor *pr_ring_steal(pr_ring *victim, pr_ring *mine, uint32_t most);
/* Owner, ring full: half of it goes in front of what has been spilled before, in its order, and `a` behind that half. */
void pr_ring_spill(pr_ring *r, pr_spill *s, pr_actor *a);

int pr_spill_init(pr_spill *s);
void pr_spill_destroy(pr_spill *s);
/* A worker: takes one to run and up to `share` - 1 more into its ring, in their order; from the front, or the last of all. */
pr_actor *pr_spill_take(pr_spill *s, pr_ring *mine, uint32_t share, bool oldest);

/* Any thread. */
void pr_global_push(pr_global *g, pr_actor *a);
/* A worker: takes one to run and up to `share` - 1 more into its ring. */
pr_actor *pr_global_take(pr_global *g, pr_ring *mine, uint32_t share);

#endif
