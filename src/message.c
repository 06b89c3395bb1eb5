/* See message.h. */
#include "message.h"

#include "alloc.h"

#include <string.h>

/* Whole envelopes, header included: one, two and four cache lines. */
static const uint16_t class_bytes[PR_MSG_CLASSES] = {64, 128, 256};

enum { POOL_MAX = 512, CHAIN = 256, DEPOT_MAX = 64 };

int pr_depot_init(pr_depot *d)
{
    memset(d, 0, sizeof *d);
    return pthread_mutex_init(&d->lock, NULL);
}

static void free_chain(pr_msg *m)
{
    while (m) {
        pr_msg *next = m->next;
        pr_free(m);
        m = next;
    }
}

void pr_depot_destroy(pr_depot *d)
{
    for (int c = 0; c < PR_MSG_CLASSES; c++) {
        pr_msg *chain = d->chains[c];
        while (chain) {
            pr_msg *next = (pr_msg *)(uintptr_t)chain->sender;
            free_chain(chain);
            chain = next;
        }
    }
    pthread_mutex_destroy(&d->lock);
}

static void depot_put(pr_depot *d, int c, pr_msg *chain)
{
    pthread_mutex_lock(&d->lock);
    bool room = d->count[c] < DEPOT_MAX;
    if (room) {
        chain->sender = (uint64_t)(uintptr_t)d->chains[c];
        d->chains[c] = chain;
        d->count[c]++;
    }
    pthread_mutex_unlock(&d->lock);
    if (!room)
        free_chain(chain);
}

static pr_msg *depot_get(pr_depot *d, int c)
{
    pthread_mutex_lock(&d->lock);
    pr_msg *chain = d->chains[c];
    if (chain) {
        d->chains[c] = (pr_msg *)(uintptr_t)chain->sender;
        d->count[c]--;
    }
    pthread_mutex_unlock(&d->lock);
    return chain;
}

static int class_for(size_t total)
{
    int c = 0;
    while (c < PR_MSG_CLASSES && total > class_bytes[c])
        c++;
    return c;
}

static pr_msg *class_alloc(pr_msg_pool *pool, int c)
{
    pr_msg *m = pool ? pool->free[c] : NULL;
    if (m) {
        pool->free[c] = m->next;
        pool->count[c]--;
        return m;
    }
    if (pool) {
        pr_msg *chain = depot_get(pool->depot, c);
        if (chain) {
            pool->free[c] = chain->next;
            pool->count[c] = CHAIN - 1;
            return chain;
        }
    }
    return pr_alloc(class_bytes[c]);
}

pr_msg *pr_msg_new(pr_msg_pool *pool, size_t size)
{
    if (size > PR_MSG_MAX)
        return NULL;
    size_t total = sizeof(pr_msg) + size;
    int c = class_for(total);
    pr_msg *m = c < PR_MSG_CLASSES ? class_alloc(pool, c) : pr_alloc(total);
    if (!m)
        return NULL;
    *m = (pr_msg){.class = (uint8_t)c, .size = (uint32_t)size};
    return m;
}

void pr_msg_free(pr_msg_pool *pool, pr_msg *m)
{
    int c = m->class;
    if (c >= PR_MSG_CLASSES || !pool) {
        pr_free(m);
        return;
    }
    m->next = pool->free[c];
    pool->free[c] = m;
    if (++pool->count[c] < POOL_MAX)
        return;
    /* Half of them go to the depot, for the workers that allocate more than they free. */
    pr_msg *chain = m, *last = m;
    for (int i = 1; i < CHAIN; i++)
        last = last->next;
    pool->free[c] = last->next;
    last->next = NULL;
    pool->count[c] -= CHAIN;
    depot_put(pool->depot, c, chain);
}

pr_msg *pr_msg_copy(pr_msg_pool *pool, const pr_msg *m)
{
    pr_msg *copy = pr_msg_new(pool, m->size);
    if (!copy)
        return NULL;
    uint8_t class = copy->class;
    memcpy(copy, m, sizeof *m + m->size);
    copy->class = class;
    copy->next = NULL;
    return copy;
}

void pr_msg_pool_destroy(pr_msg_pool *pool)
{
    for (int c = 0; c < PR_MSG_CLASSES; c++) {
        free_chain(pool->free[c]);
        pool->free[c] = NULL;
        pool->count[c] = 0;
    }
}

uint8_t *pr_wire_put_string(uint8_t *at, const char *s, size_t len)
{
    uint32_t n = (uint32_t)len;
    *at++ = PR_TAG_STRING;
    memcpy(at, &n, 4);
    memcpy(at + 4, s, len);
    return at + 4 + len;
}

const char *pr_msg_first_string(const pr_msg *m, uint32_t *len)
{
    if (m->count == 0 || m->data[0] != PR_TAG_STRING)
        return NULL;
    memcpy(len, m->data + 1, 4);
    return (const char *)m->data + 5;
}
