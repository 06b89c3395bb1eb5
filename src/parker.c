/* See parker.h. */
#include "parker.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

uint64_t pr_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int pr_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int status = pthread_condattr_init(&attr);
    if (status != 0)
        return status;
    status = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (status == 0)
        status = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return status;
}

bool pr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    if (until_ns == UINT64_MAX)
        return pthread_cond_wait(cond, lock) != ETIMEDOUT;
    struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    return pthread_cond_timedwait(cond, lock, &t) != ETIMEDOUT;
}

int pr_parker_init(pr_parker *p)
{
    atomic_store_explicit(&p->state, PR_PARKER_AWAKE, memory_order_relaxed);
    p->fd = -1;
    if (pthread_mutex_init(&p->lock, NULL) != 0)
        return -1;
    if (pr_cond_init(&p->wake) != 0) {
        pthread_mutex_destroy(&p->lock);
        return -1;
    }
    return 0;
}

void pr_parker_destroy(pr_parker *p)
{
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
}

bool pr_parker_sleep(pr_parker *p, uint64_t until_ns)
{
    pthread_mutex_lock(&p->lock);
    while (atomic_load_explicit(&p->state, memory_order_seq_cst) == PR_PARKER_PARKED)
        if (!pr_cond_wait_until(&p->wake, &p->lock, until_ns))
            break;
    pthread_mutex_unlock(&p->lock);
    return !pr_parker_cancel(p);
}

/* The state has changed before the lock is taken: a sleeper either reads it before it waits, or waits
 * already and gets the signal. */
void pr_parker_notify(pr_parker *p)
{
    static const struct itimerspec at_once = {{0, 0}, {0, 1}};
    pthread_mutex_lock(&p->lock);
    if (p->fd >= 0)
        timerfd_settime(p->fd, 0, &at_once, NULL);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

int pr_parker_set_fd(pr_parker *p, int fd)
{
    pthread_mutex_lock(&p->lock);
    int old = p->fd;
    p->fd = fd;
    pthread_mutex_unlock(&p->lock);
    return old;
}
