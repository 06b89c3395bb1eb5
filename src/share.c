/* See share.h. */
#include "share.h"

#include "alloc.h"

#include <string.h>

int pr_shares_init(pr_shares *t)
{
    memset(t, 0, sizeof *t);
    return pthread_mutex_init(&t->lock, NULL);
}

static void release(pr_share *s)
{
    pr_free(s->inner);
    pr_free(s);
}

void pr_shares_destroy(pr_shares *t)
{
    for (int i = 0; i < PR_SHARE_BUCKETS; i++)
        for (pr_share *s = t->bucket[i], *next; s; s = next) {
            next = s->next;
            release(s);
        }
    pthread_mutex_destroy(&t->lock);
}

static pr_share **bucket_of(pr_shares *t, uint64_t number) { return &t->bucket[number % PR_SHARE_BUCKETS]; }

/* With the lock held, or under the last reference. */
static void count(pr_shares *t, const pr_share *s, int by)
{
    uint64_t n = atomic_load_explicit(&t->count, memory_order_relaxed), bytes = atomic_load_explicit(&t->bytes, memory_order_relaxed);
    atomic_store_explicit(&t->count, n + (uint64_t)by, memory_order_relaxed);
    atomic_store_explicit(&t->bytes, by > 0 ? bytes + s->size : bytes - s->size, memory_order_relaxed);
}

pr_share *pr_share_new(pr_shares *t, const void *bytes, size_t size, pr_share *const *inner, uint32_t inner_count)
{
    pr_share *s = pr_alloc(sizeof *s + size);
    if (!s)
        return NULL;
    memset(s, 0, sizeof *s);
    if (inner_count > 0 && !(s->inner = pr_alloc(inner_count * sizeof *inner))) {
        pr_free(s);
        return NULL;
    }
    atomic_store_explicit(&s->references, 1, memory_order_relaxed);
    s->table = t;
    s->size = size;
    s->inner_count = inner_count;
    memcpy(s->bytes, bytes, size);
    for (uint32_t i = 0; i < inner_count; i++) {
        s->inner[i] = inner[i];
        pr_share_hold(inner[i]);
    }
    pthread_mutex_lock(&t->lock);
    s->number = ++t->last_number;
    pr_share **bucket = bucket_of(t, s->number);
    s->next = *bucket;
    *bucket = s;
    count(t, s, 1);
    pthread_mutex_unlock(&t->lock);
    return s;
}

pr_share *pr_share_find(pr_shares *t, uint64_t number)
{
    pthread_mutex_lock(&t->lock);
    pr_share *s = *bucket_of(t, number);
    while (s && s->number != number)
        s = s->next;
    /* A count that has reached 0 belongs to a dropper that waits for the lock. */
    uint32_t n = s ? atomic_load_explicit(&s->references, memory_order_relaxed) : 0;
    while (n > 0 && !atomic_compare_exchange_weak_explicit(&s->references, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
        ;
    pthread_mutex_unlock(&t->lock);
    return n > 0 ? s : NULL;
}

void pr_share_hold(pr_share *s)
{
    atomic_fetch_add_explicit(&s->references, 1, memory_order_relaxed);
}

void pr_share_drop(pr_share *s)   // NOLINT(misc-no-recursion): as deep as share.lua lets them be nested
{
    /* acq_rel: what other holders did with it happened before it goes */
    if (atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) != 1)
        return;
    pr_shares *t = s->table;
    pthread_mutex_lock(&t->lock);
    pr_share **at = bucket_of(t, s->number);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    count(t, s, -1);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < s->inner_count; i++)
        pr_share_drop(s->inner[i]);
    release(s);
}
