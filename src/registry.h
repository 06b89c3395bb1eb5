/* The registry of names: byte strings to the 64-bit ids of the actors that hold them. A name has at
 * most one holder; an actor may hold any number of names.
 *
 * Threads: every function may be called from any thread, except pr_registry_init and
 * pr_registry_destroy, which need the registry for themselves. A mutex guards the whole of it and
 * is held for a lookup only, so none of these waits for long. (The exception is a put that doubles
 * the tables; it moves every entry.)
 *
 * Names are 1 to PR_REGISTRY_NAME_MAX bytes of any value, zero included; they are copied, not kept,
 * and case and encoding mean nothing here. Ids are any number but 0. The registry does not know
 * which actors live: who registers an id must remove it when the actor ends.
 *
 * Memory comes from pr_alloc and goes to pr_free ("alloc.h"). The tables are allocated with the
 * mutex held, so the allocator must not call the registry.
 */
#ifndef PR_REGISTRY_H
#define PR_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PR_REGISTRY_NAME_MAX = 255 };

enum { PR_REGISTRY_OK = 0, PR_REGISTRY_EXISTS, PR_REGISTRY_NOMEM };

struct pr_registry_entry;

/* Embed it; it must not move while in use. The fields are registry.c's. */
typedef struct pr_registry {
    pthread_mutex_t lock; /* guards what follows and every entry */
    size_t count;
    size_t bucket_count; /* of each table; a power of two */
    struct pr_registry_entry **by_name;
    struct pr_registry_entry **by_id; /* the second half of the same block */
} pr_registry;

/* PR_REGISTRY_OK, or PR_REGISTRY_NOMEM: then there is nothing to destroy. */
int pr_registry_init(pr_registry *r);

/* Frees all entries. No other thread may be using the registry, now or later. */
void pr_registry_destroy(pr_registry *r);

/* Gives the name to `id`.
 * PR_REGISTRY_OK: it is registered.
 * PR_REGISTRY_EXISTS: it has a holder, perhaps `id` itself; `*holder` says which (not set in any
 *   other case; `holder` may be NULL).
 * PR_REGISTRY_NOMEM: nothing has changed. */
int pr_registry_put(pr_registry *r, const char *name, size_t len, uint64_t id, uint64_t *holder);

/* The holder's id, or 0. What is returned may be out of date at once. */
uint64_t pr_registry_get(pr_registry *r, const char *name, size_t len);

/* Frees the name if `id` holds it; with id 0, whoever holds it. True if it was removed. */
bool pr_registry_remove(pr_registry *r, const char *name, size_t len, uint64_t id);

/* Frees all names of `id`, in one step for all who look. Returns how many there were; takes time in
 * proportion to that, whatever else is registered. */
size_t pr_registry_remove_id(pr_registry *r, uint64_t id);

/* Copies the first of the names that `id` has been given and still holds: for logs. Returns the
 * number of bytes written, at most `cap`, so cut off when that is short of PR_REGISTRY_NAME_MAX; no
 * zero is added. 0: it has none. */
size_t pr_registry_name_of(pr_registry *r, uint64_t id, char *buf, size_t cap);

/* Writes names that begin with `prefix`, each with a newline behind it, in no order: as many as fit into `cap`, and of
 * those without control characters. For people. Returns the number of bytes. */
size_t pr_registry_list(pr_registry *r, const char *prefix, size_t len, char *buf, size_t cap);

/* How many names are registered. What is returned may be out of date at once. */
size_t pr_registry_count(pr_registry *r);

#endif
