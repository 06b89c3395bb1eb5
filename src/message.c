/* See message.h. */
#include "message.h"

#include "alloc.h"
#include "share.h"

#include <string.h>

/* Whole envelopes, header included: one, two and four cache lines. */
static const uint16_t class_bytes[PR_MSG_CLASSES] = {64, 128, 256};

enum { CHAIN = 256, CHUNK = 64 * 1024, FIRST_CHUNKS = PR_BLOCK / CHUNK };

/* Aligned to its size, so that an envelope finds it; envelopes follow the header. The first ones are allocated one by
 * one; then blocks of huge pages, from which chunks are cut. */
struct pr_chunk {
    pr_depot *depot;
    pr_chunk *next;          /* of what is to be freed: a chunk by itself, the first one of a block */
    size_t size;             /* of that */
};

/* Under AddressSanitizer each envelope is a block of its own, which it can watch; for `make coverage` too, so that tests can refuse
 * any of them. */
#if defined(__SANITIZE_ADDRESS__) || defined(PR_MSG_APART)
enum { CARVE = 0 };
#else
enum { CARVE = 1 };
#endif

int pr_depot_init(pr_depot *d)
{
    memset(d, 0, sizeof *d);
    return pthread_mutex_init(&d->lock, NULL);
}

void pr_depot_destroy(pr_depot *d)
{
    while (d->chunks) {
        pr_chunk *c = d->chunks;
        d->chunks = c->next;
        pr_free_aligned(c, c->size);
    }
    pthread_mutex_destroy(&d->lock);
}

static void depot_put(pr_depot *d, int c, pr_msg *chain)
{
    pthread_mutex_lock(&d->lock);
    chain->sender = (uint64_t)(uintptr_t)d->chains[c];
    d->chains[c] = chain;
    pthread_mutex_unlock(&d->lock);
}

/* With the lock held: a new chunk as one chain. */
static pr_msg *carve(pr_depot *d, int c)
{
    pr_chunk *chunk;
    if (d->block_left > 0) {
        chunk = (pr_chunk *)(void *)((char *)d->chunks + PR_BLOCK - d->block_left);
        d->block_left -= CHUNK;
    } else {
        bool single = d->singles < FIRST_CHUNKS;
        chunk = single ? pr_alloc_aligned(CHUNK, CHUNK) : pr_alloc_block();
        if (!chunk)
            return NULL;
        d->singles += single;
        d->block_left = single ? 0 : PR_BLOCK - CHUNK;
        chunk->next = d->chunks;
        chunk->size = single ? CHUNK : PR_BLOCK;
        d->chunks = chunk;
    }
    chunk->depot = d;
    size_t bytes = class_bytes[c];
    char *at = (char *)chunk + CHUNK;
    pr_msg *chain = NULL;
    while (at - bytes >= (char *)chunk + sizeof *chunk) {
        at -= bytes;
        pr_msg *m = (pr_msg *)(void *)at;
        m->class = (uint8_t)c;
        m->next = chain;
        chain = m;
    }
    return chain;
}

static pr_msg *depot_get(pr_depot *d, int c)
{
    pthread_mutex_lock(&d->lock);
    pr_msg *chain = d->chains[c];
    if (chain) {
        d->chains[c] = (pr_msg *)(uintptr_t)chain->sender;
    } else if ((chain = d->loose[c])) {
        d->loose[c] = NULL;
    } else {
        chain = carve(d, c);
    }
    pthread_mutex_unlock(&d->lock);
    return chain;
}

static void give_back(pr_msg *m)
{
    pr_depot *d = ((pr_chunk *)((uintptr_t)m & ~(uintptr_t)(CHUNK - 1)))->depot;
    pthread_mutex_lock(&d->lock);
    m->next = d->loose[m->class];
    d->loose[m->class] = m;
    pthread_mutex_unlock(&d->lock);
}

static int class_for(size_t total)
{
    int c = 0;
    while (c < PR_MSG_CLASSES && total > class_bytes[c])
        c++;
    return c;
}

static pr_msg *refill(pr_msg_pool *pool, int c)
{
    pr_msg *chain = depot_get(pool->depot, c);
    if (!chain)
        return NULL;
    pool->free[c] = chain->next;
    /* How many came along does not matter but for when the next ones leave. */
    pool->count[c] = 0;
    return chain;
}

pr_msg *pr_msg_new(pr_msg_pool *pool, size_t size)
{
    if (size > PR_MSG_MAX)
        return NULL;
    size_t total = PR_MSG_HEADER + size < sizeof(pr_msg) ? sizeof(pr_msg) : PR_MSG_HEADER + size;   /* padding */
    int c = CARVE && pool ? class_for(total) : PR_MSG_CLASSES;
    pr_msg *m;
    if (c == PR_MSG_CLASSES) {
        m = pr_alloc(total);
    } else if ((m = pool->free[c])) {
        pool->free[c] = m->next;
        pool->count[c] -= pool->count[c] > 0;
    } else {
        m = refill(pool, c);
    }
    if (!m)
        return NULL;
    *m = (pr_msg){.class = (uint8_t)c, .size = (uint32_t)size};
    return m;
}

_Static_assert(sizeof(pr_share *) == 8, "as on the wire");

static void each_share(const pr_msg *m, void (*what)(pr_share *))
{
    const uint8_t *at = m->data;
    for (uint32_t i = 0; i < m->count; i++) {
        uint8_t tag = *at++;
        uint32_t len, shares;
        if (tag == PR_TAG_NUMBER || tag == PR_TAG_REF) {
            at += 8;
            continue;
        }
        if (tag < PR_TAG_NUMBER)
            continue;
        memcpy(&len, at, 4);
        const uint8_t *list = at + 4;
        at += 4 + len;
        shares = tag == PR_TAG_SHARED;
        if (tag == PR_TAG_MIXED) {
            memcpy(&shares, list, 4);
            list += 4;
        }
        for (; shares > 0; shares--, list += PR_WIRE_SHARED) {
            pr_share *s;
            memcpy(&s, list, 8);
            what(s);
        }
    }
}

void pr_msg_hold_shares(pr_msg *m)
{
    m->class |= PR_MSG_HOLDS;
    each_share(m, pr_share_hold);
}

void pr_msg_give_back(pr_msg_pool *pool, pr_msg *m)
{
    if (pr_msg_holds(m)) {
        each_share(m, pr_share_drop);
        m->class &= (uint8_t)~PR_MSG_HOLDS;
    }
    int c = m->class;
    if (c == PR_MSG_CLASSES) {
        pr_free(m);
        return;
    }
    if (!pool) {
        give_back(m);
        return;
    }
    m->next = pool->free[c];
    pool->free[c] = m;
    if (++pool->count[c] < PR_MSG_POOL_MAX)
        return;
    /* The last ones freed go to the depot, for the workers that allocate more than they free. */
    pr_msg *chain = m, *last = m;
    for (int i = 1; i < CHAIN; i++)
        last = last->next;
    pool->free[c] = last->next;
    last->next = NULL;
    pool->count[c] -= CHAIN;
    depot_put(pool->depot, c, chain);
}

pr_msg *pr_msg_new_timed(pr_msg_pool *pool, size_t size)
{
    pr_msg *m = pr_msg_new(pool, size + PR_MSG_TIMER);
    if (m)
        m->size = (uint32_t)size;
    return m;
}

static pr_msg *copy(pr_msg_pool *pool, const pr_msg *m, bool room)
{
    pr_msg *copy = room ? pr_msg_new_timed(pool, m->size) : pr_msg_new(pool, m->size);
    if (!copy)
        return NULL;
    uint8_t class = copy->class;
    memcpy(copy, m, PR_MSG_HEADER + m->size + (m->timed ? PR_MSG_TIMER : 0));
    copy->class = class;
    copy->next = NULL;
    if (pr_msg_holds(m))
        pr_msg_hold_shares(copy);
    return copy;
}

pr_msg *pr_msg_copy(pr_msg_pool *pool, const pr_msg *m) { return copy(pool, m, m->timed); }
pr_msg *pr_msg_copy_timed(pr_msg_pool *pool, const pr_msg *m) { return copy(pool, m, true); }

const char *pr_msg_first_string(const pr_msg *m, uint32_t *len)
{
    if (m->count == 0 || m->data[0] != PR_TAG_STRING)
        return NULL;
    memcpy(len, m->data + 1, 4);
    return (const char *)m->data + 5;
}
