/* See groups.h. A membership is in two lists: its group's, in order of joining, and a chain of `by_id`. */
#include "groups.h"

#include "alloc.h"

#include <string.h>

enum { FIRST_BUCKETS = 32 };

typedef struct pr_membership {
    struct pr_group *group;
    struct pr_membership *previous, *next;   /* in the group */
    struct pr_membership *chain;             /* in by_id */
    uint64_t id;
} membership;

typedef struct pr_group {
    struct pr_group *chain;                  /* in by_name */
    membership *first, *last;
    size_t count;
    uint64_t hash;
    size_t len;
    char name[];
} group;

/* The last step of MurmurHash3 (Appleby). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_of(const char *name, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return mix(h);
}

static bool make_tables(pr_groups *g, size_t count)
{
    void **block = pr_zalloc(2 * count * sizeof *block);
    if (!block)
        return false;
    g->by_name = (group **)(void *)block;
    g->by_id = (membership **)(void *)(block + count);
    g->bucket_count = count;
    return true;
}

int pr_groups_init(pr_groups *g)
{
    memset(g, 0, sizeof *g);
    if (!make_tables(g, FIRST_BUCKETS))
        return -1;
    if (pthread_mutex_init(&g->lock, NULL) != 0) {
        pr_free(g->by_name);
        return -1;
    }
    return 0;
}

void pr_groups_destroy(pr_groups *g)
{
    for (size_t i = 0; i < g->bucket_count; i++)
        for (group *each = g->by_name[i], *next; each; each = next) {
            next = each->chain;
            for (membership *m = each->first, *after; m; m = after) {
                after = m->next;
                pr_free(m);
            }
            pr_free(each);
        }
    pr_free(g->by_name);
    pthread_mutex_destroy(&g->lock);
}

/* Growing is only for speed: without memory everything goes on as it is. */
static void grow(pr_groups *g)
{
    size_t old_count = g->bucket_count;
    group **by_name = g->by_name;
    membership **by_id = g->by_id;
    if (!make_tables(g, 2 * old_count))
        return;
    for (size_t i = 0; i < old_count; i++) {
        for (group *each = by_name[i], *next; each; each = next) {
            next = each->chain;
            group **bucket = &g->by_name[each->hash & (g->bucket_count - 1)];
            each->chain = *bucket;
            *bucket = each;
        }
        for (membership *m = by_id[i], *next; m; m = next) {
            next = m->chain;
            membership **bucket = &g->by_id[mix(m->id) & (g->bucket_count - 1)];
            m->chain = *bucket;
            *bucket = m;
        }
    }
    pr_free(by_name);
}

static group **find_group(pr_groups *g, const char *name, size_t len, uint64_t hash)
{
    group **at = &g->by_name[hash & (g->bucket_count - 1)];
    while (*at && !((*at)->hash == hash && (*at)->len == len && memcmp((*at)->name, name, len) == 0))
        at = &(*at)->chain;
    return at;
}

static membership **find_membership(pr_groups *g, const group *in, uint64_t id)
{
    membership **at = &g->by_id[mix(id) & (g->bucket_count - 1)];
    while (*at && !((*at)->id == id && (*at)->group == in))
        at = &(*at)->chain;
    return at;
}

int pr_groups_join(pr_groups *g, const char *name, size_t len, uint64_t id)
{
    uint64_t hash = hash_of(name, len);
    int result = PR_GROUP_OK;
    group *made = pr_zalloc(sizeof *made + len);
    membership *m = pr_zalloc(sizeof *m);
    if (!made || !m) {
        pr_free(made);
        pr_free(m);
        return PR_GROUP_NOMEM;
    }
    pthread_mutex_lock(&g->lock);
    if (g->member_count >= g->bucket_count)
        grow(g);
    group **at = find_group(g, name, len, hash), *in = *at;
    if (in && *find_membership(g, in, id)) {
        result = PR_GROUP_MEMBER;
    } else {
        if (!in) {
            in = made;
            made = NULL;
            in->hash = hash;
            in->len = len;
            memcpy(in->name, name, len);
            *at = in;
            g->group_count++;
        }
        *m = (membership){.group = in, .id = id, .previous = in->last};
        *(in->last ? &in->last->next : &in->first) = m;
        in->last = m;
        in->count++;
        membership **bucket = &g->by_id[mix(id) & (g->bucket_count - 1)];
        m->chain = *bucket;
        *bucket = m;
        m = NULL;
        g->member_count++;
    }
    pthread_mutex_unlock(&g->lock);
    pr_free(made);
    pr_free(m);
    return result;
}

/* With the lock held: `*at` points at it in its chain. */
static void end_membership(pr_groups *g, membership **at)
{
    membership *m = *at;
    group *in = m->group;
    *at = m->chain;
    *(m->previous ? &m->previous->next : &in->first) = m->next;
    *(m->next ? &m->next->previous : &in->last) = m->previous;
    g->member_count--;
    pr_free(m);
    if (--in->count > 0)
        return;
    group **bucket = &g->by_name[in->hash & (g->bucket_count - 1)];
    while (*bucket != in)
        bucket = &(*bucket)->chain;
    *bucket = in->chain;
    g->group_count--;
    pr_free(in);
}

bool pr_groups_leave(pr_groups *g, const char *name, size_t len, uint64_t id)
{
    uint64_t hash = hash_of(name, len);
    pthread_mutex_lock(&g->lock);
    group *in = *find_group(g, name, len, hash);
    membership **at = in ? find_membership(g, in, id) : NULL;
    bool there = at && *at;
    if (there)
        end_membership(g, at);
    pthread_mutex_unlock(&g->lock);
    return there;
}

void pr_groups_leave_all(pr_groups *g, uint64_t id)
{
    pthread_mutex_lock(&g->lock);
    membership **at = &g->by_id[mix(id) & (g->bucket_count - 1)];
    while (*at)
        if ((*at)->id == id)
            end_membership(g, at);
        else
            at = &(*at)->chain;
    pthread_mutex_unlock(&g->lock);
}

uint64_t *pr_groups_members(pr_groups *g, const char *name, size_t len, size_t *count)
{
    uint64_t hash = hash_of(name, len);
    pthread_mutex_lock(&g->lock);
    const group *in = *find_group(g, name, len, hash);
    *count = in ? in->count : 0;
    uint64_t *ids = in ? pr_alloc(in->count * sizeof *ids) : NULL, *to = ids;
    if (ids)
        for (const membership *m = in->first; m; m = m->next)
            *to++ = m->id;
    pthread_mutex_unlock(&g->lock);
    return ids;
}

size_t pr_groups_count(pr_groups *g)
{
    pthread_mutex_lock(&g->lock);
    size_t count = g->member_count;
    pthread_mutex_unlock(&g->lock);
    return count;
}
