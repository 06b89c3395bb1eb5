/* Allocation for the core. Every allocation of ours passes here, so that tests can make any one of them
 * fail. Thread-safe. A NULL return is an ordinary outcome that each caller handles.
 *
 * A runtime may have a memory of its own: the host's allocator, a count of bytes, a limit. A thread says by
 * pr_memory_here whose memory it works with: a worker for all its life, a thread of the host's while it is inside one of
 * the public functions. NULL: the process's. A block is freed under the memory that it was allocated under. */
#ifndef PR_ALLOC_H
#define PR_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *pr_alloc(size_t size);   /* uninitialised; NULL when memory runs out */
void *pr_zalloc(size_t size);  /* zeroed */
void *pr_zalloc_line(size_t size); /* zeroed, on a cache line of its own; size is rounded up to whole lines */
void *pr_realloc(void *old, size_t size); /* on NULL the old block stays valid; not for lines */
void pr_free(void *block);     /* NULL is fine; takes blocks of all of the above */

void *pr_alloc_aligned(size_t alignment, size_t size); /* uninitialised; size a multiple of alignment */
/* PR_BLOCK bytes, aligned to their size, of huge pages where the system has them: for what grows by the million. A page
 * fault, and a miss of the TLB, costs as much as several messages. */
enum { PR_BLOCK = 2 * 1024 * 1024 };
void *pr_alloc_block(void);
void pr_free_aligned(void *block, size_t size); /* of these two: no room is wasted on a head that knows the size */

typedef struct pr_memory {
    /* size 0 frees; block NULL allocates, by `alignment`; both: resizes a block of alignment 16. */
    void *(*reallocate)(void *context, void *block, size_t size, size_t alignment);
    void *context;
    _Atomic size_t used, high;   /* bytes; relaxed: a count orders nothing */
    size_t limit;                /* 0: none */
} pr_memory;

extern __thread pr_memory *pr_memory_here __attribute__((tls_model("initial-exec")));

/* A memory's reallocate that is the process's. */
void *pr_memory_plain(void *context, void *block, size_t size, size_t alignment);

/* For tests: the n-th allocation from now fails once (1 is the next one); 0 ends the experiment.
 * pr_alloc_failed says whether it has happened. */
void pr_alloc_fail_at(long n);
int pr_alloc_failed(void);

#endif
