/* Allocation for the core. Every allocation of ours passes here, so that tests can make any one of them
 * fail. Thread-safe. A NULL return is an ordinary outcome that each caller handles. */
#ifndef PR_ALLOC_H
#define PR_ALLOC_H

#include <stddef.h>

void *pr_alloc(size_t size);   /* uninitialised; NULL when memory runs out */
void *pr_zalloc(size_t size);  /* zeroed */
void *pr_zalloc_line(size_t size); /* zeroed, on a cache line of its own; size is rounded up to whole lines */
void *pr_alloc_aligned(size_t alignment, size_t size); /* uninitialised; size a multiple of alignment */
/* PR_BLOCK bytes, aligned to their size, of huge pages where the system has them: for what grows by the million. A page
 * fault, and a miss of the TLB, costs as much as several messages. */
enum { PR_BLOCK = 2 * 1024 * 1024 };
void *pr_alloc_block(void);
void *pr_realloc(void *old, size_t size); /* on NULL the old block stays valid */
void pr_free(void *block);     /* NULL is fine; takes blocks of all of the above */

/* For tests: the n-th allocation from now fails once (1 is the next one); 0 ends the experiment.
 * pr_alloc_failed says whether it has happened. */
void pr_alloc_fail_at(long n);
int pr_alloc_failed(void);

#endif
