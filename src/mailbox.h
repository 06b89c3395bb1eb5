/* The two queues that mailboxes are made of.
 *
 * pr_stack: many producers on any thread, one consumer at a time. A push is one compare-and-swap (a Treiber
 * stack); the consumer takes everything with one exchange and turns it round, which gives first in, first
 * out for each producer, since a producer's second push comes after its first in the stack's order. Taking
 * all at once also rules out the ABA problem: nothing but a push ever compares the head.
 * A stack can be closed: pushes then fail, for good, and the sender looks again where the target lives.
 *
 * pr_queue: plain memory of one owner, first in, first out. */
#ifndef PR_MAILBOX_H
#define PR_MAILBOX_H

#include "message.h"

#include <stdatomic.h>

typedef struct pr_stack {
    _Atomic(pr_msg *) head;
} pr_stack;

typedef struct pr_queue {
    pr_msg *head, *tail;
} pr_queue;

#define PR_STACK_CLOSED ((pr_msg *)(uintptr_t)1)

/* Before the stack is reachable by others. */
static inline void pr_stack_open(pr_stack *s)
{
    atomic_store_explicit(&s->head, NULL, memory_order_relaxed);
}

/* Any thread. False when closed; the message stays the caller's then.
 * seq_cst on success: the first half of the handshake with a consumer about to go idle or to park. The
 * push must be ordered before the pusher's read of the consumer's state (sched, parker state, port
 * waiting), which acquire/release does not give; the consumer stores its state first and then looks here
 * with pr_stack_empty. */
static inline bool pr_stack_push(pr_stack *s, pr_msg *m)
{
    pr_msg *head = atomic_load_explicit(&s->head, memory_order_acquire);
    do {
        if (head == PR_STACK_CLOSED)
            return false;
        m->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&s->head, &head, m, memory_order_seq_cst,
                                                    memory_order_acquire));
    return true;
}

/* The second half of that handshake (seq_cst), and the cheap look of a busy consumer. */
static inline bool pr_stack_empty(pr_stack *s)
{
    pr_msg *head = atomic_load_explicit(&s->head, memory_order_seq_cst);
    return head == NULL || head == PR_STACK_CLOSED;
}

static inline pr_msg *pr_list_reverse(pr_msg *m)
{
    pr_msg *out = NULL;
    while (m) {
        pr_msg *next = m->next;
        m->next = out;
        out = m;
        m = next;
    }
    return out;
}

/* The consumer: everything pushed so far, oldest first. acq_rel pairs with the pushes: what a producer
 * wrote before its push is seen here. */
static inline pr_msg *pr_stack_take(pr_stack *s)
{
    if (pr_stack_empty(s))
        return NULL;
    return pr_list_reverse(atomic_exchange_explicit(&s->head, NULL, memory_order_acq_rel));
}

/* The consumer: the same, and nothing more comes in. Release pairs with the acquire in pr_stack_push:
 * a sender that finds the stack closed sees what was written before (the new home, the ended id). */
static inline pr_msg *pr_stack_close(pr_stack *s)
{
    if (atomic_load_explicit(&s->head, memory_order_relaxed) == PR_STACK_CLOSED)
        return NULL;   /* it stays so, and its consumer has seen to it before */
    pr_msg *head = atomic_exchange_explicit(&s->head, PR_STACK_CLOSED, memory_order_acq_rel);
    return head == PR_STACK_CLOSED ? NULL : pr_list_reverse(head);
}

static inline void pr_queue_push(pr_queue *q, pr_msg *m)
{
    m->next = NULL;
    if (q->tail)
        q->tail->next = m;
    else
        q->head = m;
    q->tail = m;
}

static inline pr_msg *pr_queue_pop(pr_queue *q)
{
    pr_msg *m = q->head;
    if (m) {
        q->head = m->next;
        if (!q->head)
            q->tail = NULL;
    }
    return m;
}

#endif
