/* Shared values: immutable, held once by the runtime as bytes, and once by each language state that uses them.
 *
 * A share is held by the states that have it, by messages that carry it (see PR_MSG_HOLDS), by behaviours whose code
 * refers to it, and by the shares around it. When nobody holds it, it is freed. Numbers are given out once in a runtime.
 * Any thread; whoever has a reference may take more without the lock. */
#ifndef PR_SHARE_H
#define PR_SHARE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pr_shares;

typedef struct pr_share {
    _Atomic uint32_t references;    /* relaxed to take, acq_rel to drop; from 0 it never rises again */
    uint32_t inner_count;
    struct pr_shares *table;
    struct pr_share *next;          /* bucket */
    struct pr_share **inner;        /* those that it refers to: held */
    uint64_t number;                /* from 1 */
    size_t size;
    uint8_t bytes[];                /* as the language wrote them; fixed */
} pr_share;

enum { PR_SHARE_BUCKETS = 256 };

typedef struct pr_shares {
    pthread_mutex_t lock;           /* guards what follows */
    pr_share *bucket[PR_SHARE_BUCKETS];
    uint64_t last_number;
    _Atomic uint64_t count, bytes;  /* written under the lock, read anywhere; relaxed */
} pr_shares;

int pr_shares_init(pr_shares *t);
/* Frees what is left. Nobody may hold any. */
void pr_shares_destroy(pr_shares *t);
/* With one reference, the caller's; it holds `inner`, whose references are copied. NULL: no memory. */
pr_share *pr_share_new(pr_shares *t, const void *bytes, size_t size, pr_share *const *inner, uint32_t inner_count);
/* With one more reference, the caller's; NULL: there is none of that number, any more. */
pr_share *pr_share_find(pr_shares *t, uint64_t number);
void pr_share_hold(pr_share *s);
void pr_share_drop(pr_share *s);

#endif
