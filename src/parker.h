/* How a thread with nothing to do sleeps: one primitive that messages, timers and shutdown all end.
 *
 * The sleeper says so (pr_parker_prepare), looks once more for work, then sleeps or cancels. A waker first
 * makes its work visible, then looks at the state. Both sides are seq_cst: it is the store/load handshake
 * in which one of the two always sees the other (Dekker), which acquire/release would not give. */
#ifndef PR_PARKER_H
#define PR_PARKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pr_parker_state { PR_PARKER_AWAKE, PR_PARKER_PARKED, PR_PARKER_NOTIFIED };

typedef struct pr_parker {
    _Alignas(64) _Atomic int state;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int fd;                    /* a timerfd that a wake-up makes readable, or -1; guarded by the lock */
} pr_parker;

int pr_parker_init(pr_parker *p);
void pr_parker_destroy(pr_parker *p);

static inline void pr_parker_prepare(pr_parker *p)
{
    atomic_store_explicit(&p->state, PR_PARKER_PARKED, memory_order_seq_cst);
}
/* True: nobody had notified; false: a notification came and is consumed. Both: awake now. */
static inline bool pr_parker_cancel(pr_parker *p)
{
    return atomic_exchange_explicit(&p->state, PR_PARKER_AWAKE, memory_order_seq_cst) == PR_PARKER_PARKED;
}
/* Sleeps after pr_parker_prepare until notified (true) or until `until_ns` of pr_now_ns (false).
 * UINT64_MAX: no limit. Awake afterwards. */
bool pr_parker_sleep(pr_parker *p, uint64_t until_ns);

/* The waker's two halves: claims the wake-up (true for one waker at most), then delivers it. */
static inline bool pr_parker_claim(pr_parker *p)
{
    int parked = PR_PARKER_PARKED;
    return atomic_load_explicit(&p->state, memory_order_seq_cst) == PR_PARKER_PARKED &&
           atomic_compare_exchange_strong_explicit(&p->state, &parked, PR_PARKER_NOTIFIED,
                                                   memory_order_seq_cst, memory_order_relaxed);
}
void pr_parker_notify(pr_parker *p);
/* Returns the old one, which nobody uses any more. */
int pr_parker_set_fd(pr_parker *p, int fd);

/* Monotonic time. */
uint64_t pr_now_ns(void);
/* Waits on a condition made by pr_cond_init (monotonic clock) until then; false: the time came. */
int pr_cond_init(pthread_cond_t *cond);
bool pr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

/* Between two looks at what another thread will write. */
static inline void pr_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#endif
