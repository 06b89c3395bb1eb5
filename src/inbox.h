/* A worker's inbox: the messages for its actors from everybody but itself, in one order.
 *
 * A ring of cache lines with many writers and one reader. A writer claims lines by a compare-and-swap on `tail`, writes
 * its entry, and then the entry's first word, which says that it is there; the reader looks at entries alone, not at an
 * index beside them (as in FastForward, PPoPP 2008). So a message costs one cache line on its way from core to core. A
 * short one is copied into the ring and out again: both sides walk through memory in order, which processors are good at,
 * and envelopes stay with the worker that made them. (A stack of envelopes costs the reader two cache misses a message,
 * each waiting for the one before, and the writer another one when it gets the envelope back.) Long messages go by
 * pointer, and those that hold shared values or belong to a timer.
 *
 * Order. Claims are in one order, and what happened before a claim has claimed before it: a tells c, and then b, which
 * tells c: c gets the message of a first, whichever threads they run on; unless b is new, for what it is told before its first
 * turn does not go this way (nor do orders, or what a bounded mailbox has no room for).
 *
 * The ring has a bound, mailboxes do not. The writer that finds no room sets OVERFLOW in `tail` and opens the stack
 * `more`; while the bit is set nobody claims lines, and all push there. The reader empties the ring up to where the bit
 * stopped it, closes the stack, which takes what is in it, and clears the bit. A push that finds the stack closed
 * begins anew. So what is in the stack is behind all that was in the ring, and ahead of all that comes into it later; and
 * no message needs memory to get in.
 *
 * A writer that stands still between its claim and its entry's first word holds up what comes behind it. It takes a few
 * instructions to get there.
 *
 * Sleep: a claim is seq_cst, as is its writer's look at the reader's parker after it, the reader's store there, and its
 * look at `tail` after that (pr_inbox_claimed): one of the two sees the other. */
#ifndef PR_INBOX_H
#define PR_INBOX_H

#include "mailbox.h"

enum { PR_INBOX_LINE = 64, PR_INBOX_PIECE = PR_INBOX_LINE - sizeof(uint64_t) };

typedef struct pr_inbox {
    /* the writers' */
    _Alignas(64) _Atomic uint64_t tail;   /* lines claimed, for ever, and two bits: see inbox.c */
    _Atomic uint64_t room;                /* up to where they may be: `head` and all lines, as of somebody's last look there.
                                             Release and acquire: the reader is done with those lines */
    /* both read it, and nobody writes it but at an overflow */
    _Alignas(64) pr_stack more;           /* what found no room; closed but for OVERFLOW */
    uint32_t count;                       /* of lines: a power of two */
    unsigned char (*lines)[PR_INBOX_LINE];
    /* the reader's */
    _Alignas(64) _Atomic uint64_t head;   /* release: the lines before it may be written again; acquire by writers */
    uint64_t next;                        /* what it looks at next: `head`, or past it, within pr_inbox_take */
} pr_inbox;

struct pr_worker;

/* `lines`: a power of two, 64 at least. 0, or -1: no memory. */
int pr_inbox_init(pr_inbox *b, uint32_t lines);
void pr_inbox_destroy(pr_inbox *b);

/* Any thread, which is `w` or no worker; the caller wakes the reader if it sleeps. False: the reader has left; `m` is still
 * the caller's. */
bool pr_inbox_push(struct pr_worker *to, struct pr_worker *w, pr_msg *m);

/* --- the reader */

/* Whether there is something to take. */
static inline bool pr_inbox_written(pr_inbox *b)
{
    /* acquire pairs with the entry's release, and with the stack's opening */
    return atomic_load_explicit((_Atomic uint64_t *)(void *)b->lines[b->next & (b->count - 1)], memory_order_acquire) >> 1 ==
               b->next + 1 ||
           atomic_load_explicit(&b->more.head, memory_order_acquire) != PR_STACK_CLOSED;
}
/* Once it is marked as parked: whether there is, or is about to be. */
bool pr_inbox_claimed(pr_inbox *b);
/* Delivers what is there. How many. */
uint64_t pr_inbox_take(struct pr_worker *w);
/* Lets nothing more in; what is there becomes dead letters. */
void pr_inbox_close(struct pr_worker *w);

#endif
