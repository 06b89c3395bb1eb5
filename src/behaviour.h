/* Behaviours known to a runtime: the code that spawn has carried here, held once, by content.
 *
 * A behaviour is immutable but for its counts. It is held by living actors and by the states that may
 * spawn it again; when nobody holds it, its number is used again with the next generation, by which a
 * worker tells that what it has loaded under that number is old. Any thread; the table has a lock. */
#ifndef PR_BEHAVIOUR_H
#define PR_BEHAVIOUR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pr_ops;

typedef struct pr_behaviour {
    _Atomic uint32_t references;  /* relaxed to take, acq_rel to drop; from 0 it never rises again */
    uint32_t index, generation;
    uint64_t hash;
    struct pr_behaviour *next;    /* bucket */
    const char *name;             /* for people; inside `bytes`' block */
    bool is_private;              /* in no bucket: known to one state, which has loaded it itself */
    struct pr_share **shares;     /* that its code refers to: held; set once, under the lock */
    uint32_t share_count;
    char *own_name;               /* NULL, or what the loaded behaviour calls itself; set once, under the lock */
    size_t size;
    uint8_t bytes[];
} pr_behaviour;

typedef struct pr_behaviours {
    pthread_mutex_t lock;
    pr_behaviour *bucket[256];
    uint32_t *free, free_count, free_capacity, next_index; /* numbers to use again */
    uint32_t generation;
} pr_behaviours;

int pr_behaviours_init(pr_behaviours *t);
void pr_behaviours_destroy(pr_behaviours *t);
/* The behaviour with these bytes and this name, new or known, with one more reference for the caller. NULL: no memory. */
pr_behaviour *pr_behaviour_intern(pr_behaviours *t, const void *bytes, size_t size, const char *name);
/* One without bytes, of the caller's state alone: what `become` was given. NULL: no memory. */
pr_behaviour *pr_behaviour_private(pr_behaviours *t, const char *name);
/* What it calls itself, known once it is loaded; the first one stays. No memory: it keeps its name. */
void pr_behaviour_rename(pr_behaviours *t, pr_behaviour *b, const char *name);
/* Its bytes refer to these: it holds them as long as it lives, whoever said so first. False: no memory. */
bool pr_behaviour_refers(pr_behaviours *t, pr_behaviour *b, struct pr_share *const *shares, uint32_t count);
void pr_behaviour_hold(pr_behaviour *b);
void pr_behaviour_drop(pr_behaviours *t, pr_behaviour *b);

#endif
