/* See behaviour.h. */
#include "behaviour.h"

#include "alloc.h"
#include "share.h"

#include <stdio.h>
#include <string.h>

int pr_behaviours_init(pr_behaviours *t)
{
    memset(t, 0, sizeof *t);
    return pthread_mutex_init(&t->lock, NULL);
}

static void release(pr_behaviour *b)
{
    for (uint32_t i = 0; i < b->share_count; i++)
        pr_share_drop(b->shares[i]);
    pr_free(b->shares);
    pr_free(b->own_name);
    pr_free(b->own_version);
    pr_free(b);
}

void pr_behaviours_destroy(pr_behaviours *t)
{
    for (int i = 0; i < 256; i++)
        for (pr_behaviour *b = t->bucket[i], *next; b; b = next) {
            next = b->next;
            release(b);
        }
    pr_free(t->free);
    pthread_mutex_destroy(&t->lock);
}

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    return h;
}

/* With the lock held. A count that has reached 0 belongs to a dropper that waits for the lock. */
static int revive(pr_behaviour *b)
{
    uint32_t n = atomic_load_explicit(&b->references, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(&b->references, &n, n + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return 1;
    return 0;
}

pr_behaviour *pr_behaviour_intern(pr_behaviours *t, const void *bytes, size_t size, const char *name)
{
    uint64_t hash = hash_of(bytes, size);
    pr_behaviour **bucket = &t->bucket[hash & 255];
    pthread_mutex_lock(&t->lock);
    pr_behaviour *b = *bucket;
    while (b && !(b->hash == hash && b->size == size && memcmp(b->bytes, bytes, size) == 0 &&
                  strcmp(b->name, name) == 0 && revive(b)))
        b = b->next;
    if (!b) {
        size_t name_size = strlen(name) + 1;
        b = pr_alloc(sizeof *b + size + name_size);
        if (b) {
            memset(b, 0, sizeof *b);
            atomic_store_explicit(&b->references, 1, memory_order_relaxed);
            b->index = t->free_count > 0 ? t->free[--t->free_count] : t->next_index++;
            b->generation = ++t->generation;
            b->version = 1;
            b->next_version = b->previous_version = b;
            b->hash = hash;
            b->size = size;
            memcpy(b->bytes, bytes, size);
            b->name = memcpy(b->bytes + size, name, name_size);
            b->next = *bucket;
            *bucket = b;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return b;
}

pr_behaviour *pr_behaviour_private(pr_behaviours *t, const char *name)
{
    size_t name_size = strlen(name) + 1;
    pr_behaviour *b = pr_zalloc(sizeof *b + name_size);
    if (!b)
        return NULL;
    atomic_store_explicit(&b->references, 1, memory_order_relaxed);
    b->is_private = true;
    b->version = 1;
    b->next_version = b->previous_version = b;
    b->name = memcpy(b->bytes, name, name_size);
    pthread_mutex_lock(&t->lock);
    b->index = t->free_count > 0 ? t->free[--t->free_count] : t->next_index++;
    b->generation = ++t->generation;
    pthread_mutex_unlock(&t->lock);
    return b;
}

void pr_behaviour_rename(pr_behaviours *t, pr_behaviour *b, const char *name)
{
    size_t size = strlen(name) + 1;
    pthread_mutex_lock(&t->lock);
    if (!b->own_name && strcmp(b->name, name) != 0 && (b->own_name = pr_alloc(size)))
        memcpy(b->own_name, name, size);
    pthread_mutex_unlock(&t->lock);
}

bool pr_behaviour_refers(pr_behaviours *t, pr_behaviour *b, pr_share *const *shares, uint32_t count)
{
    if (count == 0)
        return true;
    pr_share **held = pr_alloc(count * sizeof *held);
    if (!held)
        return false;
    pthread_mutex_lock(&t->lock);
    bool known = b->shares;   /* equal bytes name the same ones */
    if (!known) {
        for (uint32_t i = 0; i < count; i++)
            pr_share_hold(held[i] = shares[i]);
        b->shares = held;
        b->share_count = count;
    }
    pthread_mutex_unlock(&t->lock);
    if (known)
        pr_free(held);
    return true;
}

void pr_behaviour_say_version(pr_behaviours *t, pr_behaviour *b, const char *version, bool is_number)
{
    size_t size = strlen(version) + 1;
    pthread_mutex_lock(&t->lock);
    if (!b->own_version && (b->own_version = pr_alloc(size))) {
        memcpy(b->own_version, version, size);
        b->version_is_number = is_number;
    }
    pthread_mutex_unlock(&t->lock);
}

int pr_behaviour_shown(pr_behaviours *t, const pr_behaviour *b, char *buf, size_t cap)
{
    pthread_mutex_lock(&t->lock);
    int n = snprintf(buf, cap, "%s", b->own_name ? b->own_name : b->name);
    pthread_mutex_unlock(&t->lock);
    return n;
}

bool pr_behaviour_version_locked(const pr_behaviour *b, char *buf, size_t cap)
{
    if (b->own_version)
        snprintf(buf, cap, "%s", b->own_version);
    else
        snprintf(buf, cap, "%u", b->version);
    return !b->own_version || b->version_is_number;
}

bool pr_behaviour_version(pr_behaviours *t, const pr_behaviour *b, char *buf, size_t cap)
{
    pthread_mutex_lock(&t->lock);
    bool number = pr_behaviour_version_locked(b, buf, cap);
    pthread_mutex_unlock(&t->lock);
    return number;
}

void pr_behaviour_supersede(pr_behaviours *t, pr_behaviour *b, pr_behaviour *next)
{
    pthread_mutex_lock(&t->lock);
    next->version = b->version + 1;
    pr_behaviour *v = b;
    do {
        pr_behaviour *before = atomic_load_explicit(&v->newer, memory_order_relaxed);
        if (before)   /* it is `b`, which the caller holds: no last reference */
            atomic_fetch_sub_explicit(&before->references, 1, memory_order_acq_rel);
        pr_behaviour_hold(next);
        atomic_store_explicit(&v->newer, next, memory_order_relaxed);
        v = v->next_version;
    } while (v != b);
    next->next_version = b->next_version;
    next->previous_version = b;
    b->next_version->previous_version = next;
    b->next_version = next;
    pthread_mutex_unlock(&t->lock);
}

pr_behaviour *pr_behaviour_newest(pr_behaviours *t, pr_behaviour *b)
{
    pthread_mutex_lock(&t->lock);
    pr_behaviour *newer = atomic_load_explicit(&b->newer, memory_order_relaxed);
    if (newer)
        b = newer;
    pr_behaviour_hold(b);
    pthread_mutex_unlock(&t->lock);
    return b;
}

size_t pr_behaviours_list(pr_behaviours *t, pr_behaviour **found, size_t most)
{
    size_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < 256; i++)
        for (pr_behaviour *b = t->bucket[i]; b; b = b->next)
            if (!atomic_load_explicit(&b->newer, memory_order_relaxed)) {
                if (n < most && !revive(b))
                    continue;
                if (n < most)
                    found[n] = b;
                n++;
            }
    pthread_mutex_unlock(&t->lock);
    return n;
}

uint32_t pr_behaviours_serial(pr_behaviours *t)
{
    pthread_mutex_lock(&t->lock);
    uint32_t serial = ++t->generation;
    pthread_mutex_unlock(&t->lock);
    return serial;
}

void pr_behaviour_hold(pr_behaviour *b)
{
    atomic_fetch_add_explicit(&b->references, 1, memory_order_relaxed);
}

void pr_behaviour_drop(pr_behaviours *t, pr_behaviour *b)
{
    /* Each version holds the next newer one. A loop: there may be any number of them.
     * acq_rel: what other holders did with it happened before it goes. */
    while (b && atomic_fetch_sub_explicit(&b->references, 1, memory_order_acq_rel) == 1) {
        pthread_mutex_lock(&t->lock);
        if (!b->is_private) {
            pr_behaviour **at = &t->bucket[b->hash & 255];
            while (*at != b)
                at = &(*at)->next;
            *at = b->next;
        }
        b->next_version->previous_version = b->previous_version;
        b->previous_version->next_version = b->next_version;
        if (t->free_count == t->free_capacity) {
            uint32_t capacity = t->free_capacity ? 2 * t->free_capacity : 64;
            uint32_t *grown = pr_realloc(t->free, capacity * sizeof *grown);
            if (grown) {
                t->free = grown;
                t->free_capacity = capacity;
            }
        }
        if (t->free_count < t->free_capacity)   /* else the number is lost, which harms nobody */
            t->free[t->free_count++] = b->index;
        pthread_mutex_unlock(&t->lock);
        pr_behaviour *newer = atomic_load_explicit(&b->newer, memory_order_relaxed);
        release(b);
        b = newer;
    }
}

void pr_behaviour_drop_many(pr_behaviours *t, pr_behaviour *b, uint32_t count)
{
    if (count > 1)
        atomic_fetch_sub_explicit(&b->references, count - 1, memory_order_acq_rel);
    pr_behaviour_drop(t, b);
}
