/* Two chained hash tables over the same entries, one by name and one by id; registry.h has the
 * contract. Everything here is guarded by `lock`, except that entries are made before it is taken
 * and freed after it is given back.
 *
 * Invariants, whenever the lock is free:
 *   - every entry is in exactly one chain of `by_name`; no two have the same name;
 *   - the entries of one id form a ring, in order of registration. The oldest of them, and no other
 *     one, is in a chain of `by_id`;
 *   - `count` entries; both tables have `bucket_count` buckets.
 *
 * A removed entry leaves its chain, so names that come and go leave nothing behind. The tables grow
 * when there are as many names as buckets; they do not shrink. Growing is only for speed: when it
 * fails for want of memory the put succeeds all the same, and a later one tries again.
 */
#include "registry.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"

typedef struct pr_registry_entry entry;

struct pr_registry_entry {
    entry *name_next; /* chain in by_name */
    entry *id_next;   /* chain in by_id; only the oldest of a ring uses it */
    entry *ring_next; /* younger; the youngest leads to the oldest */
    entry *ring_prev;
    uint64_t id;
    uint32_t hash;
    uint32_t len;
    char name[];
};

enum { FIRST_BUCKETS = 32 };

/* The last step of MurmurHash3 (Appleby), which spreads every bit over all: the tables use the low
 * bits, and ids differ mainly in others. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash_name(const char *name, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)mix(h);
}

static entry **name_bucket(const pr_registry *r, uint32_t hash)
{
    return &r->by_name[hash & (r->bucket_count - 1)];
}

static entry **id_bucket(const pr_registry *r, uint64_t id)
{
    return &r->by_id[mix(id) & (r->bucket_count - 1)];
}

/* What points at the entry with this name; points at NULL if there is none. */
static entry **find_name(const pr_registry *r, const char *name, size_t len, uint32_t hash)
{
    entry **link = name_bucket(r, hash);
    for (; *link != NULL; link = &(*link)->name_next) {
        const entry *e = *link;
        if (e->hash == hash && e->len == len && memcmp(e->name, name, len) == 0)
            break;
    }
    return link;
}

/* What points at the oldest entry of this id; points at NULL if there is none. */
static entry **find_id(const pr_registry *r, uint64_t id)
{
    entry **link = id_bucket(r, id);
    while (*link != NULL && (*link)->id != id)
        link = &(*link)->id_next;
    return link;
}

static void link_name(pr_registry *r, entry *e)
{
    entry **bucket = name_bucket(r, e->hash);
    e->name_next = *bucket;
    *bucket = e;
}

static void link_oldest(pr_registry *r, entry *e)
{
    entry **bucket = id_bucket(r, e->id);
    e->id_next = *bucket;
    *bucket = e;
}

static void link_id(pr_registry *r, entry *e)
{
    entry *oldest = *find_id(r, e->id);
    if (oldest == NULL) {
        e->ring_next = e;
        e->ring_prev = e;
        link_oldest(r, e);
        return;
    }
    e->id_next = NULL;
    e->ring_next = oldest;
    e->ring_prev = oldest->ring_prev;
    oldest->ring_prev->ring_next = e;
    oldest->ring_prev = e;
}

static void unlink_id(pr_registry *r, entry *e)
{
    entry **link = find_id(r, e->id);
    assert(*link != NULL);
    if (*link == e) {
        entry *heir = e->ring_next;
        if (heir == e) {
            *link = e->id_next;
        } else {
            heir->id_next = e->id_next;
            *link = heir;
        }
    }
    e->ring_prev->ring_next = e->ring_next;
    e->ring_next->ring_prev = e->ring_prev;
}

static entry *make_entry(const char *name, size_t len, uint32_t hash, uint64_t id)
{
    entry *e = pr_alloc(sizeof *e + len);
    if (e == NULL)
        return NULL;
    e->id = id;
    e->hash = hash;
    e->len = (uint32_t)len;
    memcpy(e->name, name, len);
    return e;
}

/* Makes two empty tables of this size. On failure nothing has changed. */
static bool make_tables(pr_registry *r, size_t bucket_count)
{
    if (bucket_count > SIZE_MAX / 2 / sizeof(entry *))
        return false;
    entry **buckets = pr_alloc(2 * bucket_count * sizeof *buckets);
    if (buckets == NULL)
        return false;
    for (size_t i = 0; i < 2 * bucket_count; i++)
        buckets[i] = NULL;
    r->by_name = buckets;
    r->by_id = buckets + bucket_count;
    r->bucket_count = bucket_count;
    return true;
}

static void grow(pr_registry *r)
{
    size_t old_count = r->bucket_count;
    entry **by_name = r->by_name;
    entry **by_id = r->by_id;
    if (!make_tables(r, 2 * old_count))
        return;
    for (size_t i = 0; i < old_count; i++) {
        for (entry *e = by_name[i], *next; e != NULL; e = next) {
            next = e->name_next;
            link_name(r, e);
        }
        for (entry *e = by_id[i], *next; e != NULL; e = next) {
            next = e->id_next;
            link_oldest(r, e);
        }
    }
    pr_free(by_name);
}

int pr_registry_init(pr_registry *r)
{
    r->count = 0;
    if (!make_tables(r, FIRST_BUCKETS))
        return PR_REGISTRY_NOMEM;
    if (pthread_mutex_init(&r->lock, NULL) != 0) {
        pr_free(r->by_name);
        return PR_REGISTRY_NOMEM;
    }
    return PR_REGISTRY_OK;
}

void pr_registry_destroy(pr_registry *r)
{
    for (size_t i = 0; i < r->bucket_count; i++) {
        for (entry *e = r->by_name[i], *next; e != NULL; e = next) {
            next = e->name_next;
            pr_free(e);
        }
    }
    pr_free(r->by_name);
    pthread_mutex_destroy(&r->lock);
}

int pr_registry_put(pr_registry *r, const char *name, size_t len, uint64_t id, uint64_t *holder)
{
    assert(id != 0);
    assert(len >= 1 && len <= PR_REGISTRY_NAME_MAX);
    uint32_t hash = hash_name(name, len);
    entry *made = make_entry(name, len, hash, id);

    pthread_mutex_lock(&r->lock);
    const entry *held = *find_name(r, name, len, hash);
    int result = held != NULL ? PR_REGISTRY_EXISTS
               : made == NULL ? PR_REGISTRY_NOMEM
                              : PR_REGISTRY_OK;
    if (result == PR_REGISTRY_EXISTS && holder != NULL)
        *holder = held->id;
    if (result == PR_REGISTRY_OK) {
        if (r->count >= r->bucket_count)
            grow(r);
        link_name(r, made);
        link_id(r, made);
        r->count++;
    }
    pthread_mutex_unlock(&r->lock);

    if (result == PR_REGISTRY_EXISTS && made != NULL)
        pr_free(made);
    return result;
}

uint64_t pr_registry_get(pr_registry *r, const char *name, size_t len)
{
    uint32_t hash = hash_name(name, len);
    pthread_mutex_lock(&r->lock);
    const entry *e = *find_name(r, name, len, hash);
    uint64_t id = e != NULL ? e->id : 0;
    pthread_mutex_unlock(&r->lock);
    return id;
}

bool pr_registry_remove(pr_registry *r, const char *name, size_t len, uint64_t id)
{
    uint32_t hash = hash_name(name, len);
    pthread_mutex_lock(&r->lock);
    entry **link = find_name(r, name, len, hash);
    entry *e = *link;
    bool removed = e != NULL && (id == 0 || e->id == id);
    if (removed) {
        *link = e->name_next;
        unlink_id(r, e);
        r->count--;
    }
    pthread_mutex_unlock(&r->lock);
    if (removed)
        pr_free(e);
    return removed;
}

size_t pr_registry_remove_id(pr_registry *r, uint64_t id)
{
    size_t removed = 0;
    pthread_mutex_lock(&r->lock);
    entry **oldest = find_id(r, id);
    entry *chain = *oldest;
    if (chain != NULL) {
        *oldest = chain->id_next;
        chain->ring_prev->ring_next = NULL; /* cut the ring open */
        for (entry *e = chain; e != NULL; e = e->ring_next, removed++) {
            entry **link = find_name(r, e->name, e->len, e->hash);
            assert(*link == e);
            *link = e->name_next;
        }
        r->count -= removed;
    }
    pthread_mutex_unlock(&r->lock);

    for (entry *next; chain != NULL; chain = next) {
        next = chain->ring_next;
        pr_free(chain);
    }
    return removed;
}

size_t pr_registry_name_of(pr_registry *r, uint64_t id, char *buf, size_t cap)
{
    size_t written = 0;
    pthread_mutex_lock(&r->lock);
    const entry *e = *find_id(r, id);
    if (e != NULL && cap > 0) {
        written = e->len < cap ? e->len : cap;
        memcpy(buf, e->name, written);
    }
    pthread_mutex_unlock(&r->lock);
    return written;
}

static bool is_text(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127)
            return false;
    return true;
}

size_t pr_registry_list(pr_registry *r, const char *prefix, size_t len, char *buf, size_t cap)
{
    size_t written = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->bucket_count; i++)
        for (const entry *e = r->by_name[i]; e != NULL; e = e->name_next) {
            if (e->len < len || memcmp(e->name, prefix, len) != 0 || e->len + 1 > cap - written || !is_text(e->name, e->len))
                continue;
            memcpy(buf + written, e->name, e->len);
            buf[written + e->len] = '\n';
            written += e->len + 1;
        }
    pthread_mutex_unlock(&r->lock);
    return written;
}

size_t pr_registry_count(pr_registry *r)
{
    pthread_mutex_lock(&r->lock);
    size_t count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}
