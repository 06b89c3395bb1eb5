/* Behaviours known to a runtime: the code that spawn has carried here, held once, by content.
 *
 * A behaviour is immutable but for its counts. It is held by living actors and by the states that may
 * spawn it again; when nobody holds it, its number is used again with the next generation, by which a
 * worker tells that what it has loaded under that number is old. Any thread; the table has a lock.
 *
 * A behaviour may be superseded by a newer version, which is one of its own. All living versions know each other, and
 * those superseded hold the newest: so one that idle actors still have does not keep those between alive. */
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
    char *own_version;            /* the same, of its field `version` ... */
    bool version_is_number;       /* ... as text */
    uint32_t version;             /* from 1; under the lock while it is superseding another */
    _Atomic(struct pr_behaviour *) newer; /* the newest version, NULL: this is it. Under the lock, where a reference is held;
                                             relaxed elsewhere: to be looked up by pr_behaviour_newest */
    struct pr_behaviour *next_version, *previous_version; /* living versions, a ring without a head; under the lock */
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
/* What its field `version` says, known once it is loaded; the first one stays. */
void pr_behaviour_say_version(pr_behaviours *t, pr_behaviour *b, const char *version, bool is_number);
/* What people call it. */
int pr_behaviour_shown(pr_behaviours *t, const pr_behaviour *b, char *buf, size_t cap);
/* As text: its field `version`, or the number of its version. Whether that is a number. */
bool pr_behaviour_version(pr_behaviours *t, const pr_behaviour *b, char *buf, size_t cap);
bool pr_behaviour_version_locked(const pr_behaviour *b, char *buf, size_t cap);   /* the caller holds the lock */
/* `b` and all its earlier versions are superseded by `next`, which has been nobody's version yet. The caller holds both. */
void pr_behaviour_supersede(pr_behaviours *t, pr_behaviour *b, pr_behaviour *next);
/* Its newest version, with a reference for the caller, who holds `b`. */
pr_behaviour *pr_behaviour_newest(pr_behaviours *t, pr_behaviour *b);
/* All that can be spawned here and are the newest of their versions, up to `most`, with a reference each; how many there
 * are. Any place of `found` beyond that is left. */
size_t pr_behaviours_list(pr_behaviours *t, pr_behaviour **found, size_t most);
/* A number that no behaviour of this runtime has had as its generation. */
uint32_t pr_behaviours_serial(pr_behaviours *t);
void pr_behaviour_hold(pr_behaviour *b);
void pr_behaviour_drop(pr_behaviours *t, pr_behaviour *b);
/* `count` references at once, 1 or more. */
void pr_behaviour_drop_many(pr_behaviours *t, pr_behaviour *b, uint32_t count);

#endif
