/* A channel: the messages that one worker's actors send to another worker's, first in, first out.
 *
 * A ring of cache lines with one writer and one reader. Each entry says in its first word that it is there, and a reader
 * looks at the entry alone, not at an index beside it (FastForward, PPoPP 2008): one cache line changes hands a message,
 * which is what a message costs. A short one is copied into the ring and out again: both sides walk through memory in
 * order, which processors are good at, and envelopes stay with the worker that made them. A stack of envelopes costs the
 * reader two cache misses a message, each waiting for the one before, and the writer another one when it gets the
 * envelope back. Long messages go by pointer, and those that hold shared values.
 *
 * The ring has a bound, mailboxes do not. What does not fit goes onto a stack beside it, and its sender stands back. Order
 * holds: the writer comes back to the ring once the reader has taken the stack; so while there is something on the stack,
 * nothing new gets into the ring, and the reader empties the ring before it takes the stack.
 *
 * Waking a reader that sleeps is a store/load handshake (worker.c), for which the writer's store would have to be followed
 * by a full barrier: the writer would wait, with each message, until its line is back from the reader's cache. So the
 * store is a release alone, and the writer looks at the reader's parker after it as it can. What that look may miss is a
 * reader that is falling asleep in the very moment in which the store is on its way, some hundred nanoseconds. It is
 * caught twice: by a reader that, once marked as parked, looks for a moment more before it sleeps (PR_SETTLING); and,
 * whatever the hardware does, by the writer, which says in `settled` how far it has written, with the barrier, and looks
 * again, before it sleeps itself and every few turns (pr_channels_settle).
 *
 * What is lost is order beyond that of one sender to one target: a tells c, and then b, which tells c; with one inbox for
 * all, c gets the message of a first. With channels beside the inbox, it need not, and much is written as if it did. So
 * they are for runtimes that ask for them (pr_config.channels).
 *
 * A worker's channels to others are made at the first message. Floating senders do not use them: they may be carried to
 * another worker between two messages. Nor do workers outside the default dispatcher, whose handlers may block. */
#ifndef PR_CHANNEL_H
#define PR_CHANNEL_H

#include "mailbox.h"

enum { PR_CHANNEL_LINE = 64, PR_CHANNEL_LINES = 1024, PR_CHANNEL_COPIED = 4 * PR_CHANNEL_LINE /* bytes, header and all */ };
enum { PR_SETTLING = 64 /* looks */ };

typedef struct pr_channel {
    /* the writer's */
    _Alignas(64) _Atomic uint32_t settled;   /* `tail`, as of pr_channels_settle. seq_cst, as is the reader's look at it once
                                   * it is marked as parked */
    uint32_t tail;                /* lines written, for ever; the next entry's first word is 0 */
    uint32_t seen;                /* `head`, as of the last look */
    uint64_t stuck_turn;          /* of the reader, when waiting for it was of no use */
    pr_stack more;                /* what did not fit; only the reader empties it */
    struct pr_worker *to;         /* the reader */
    struct pr_channel *next_out, *next_in;   /* the writer's next one, the reader's next one: fixed */
    bool unsettled;               /* written to since pr_channels_settle */
    /* the reader's. Release: the lines before it may be written again; pairs with the writer's acquire */
    _Alignas(64) _Atomic uint32_t head;
    /* An entry begins with an _Atomic uintptr_t, `there`: 0, or what it is. Release by the writer, for the rest of the
     * entry, acquire by the reader. */
    _Alignas(64) unsigned char lines[PR_CHANNEL_LINES][PR_CHANNEL_LINE];
} pr_channel;

struct pr_worker;

/* On `w`, to another worker, which the caller wakes if it sleeps. False: that one has left; `m` is still the caller's. */
bool pr_channel_send(struct pr_worker *w, struct pr_worker *to, pr_msg *m);
/* On the writer: wakes the readers of what it has written since the last call, if they sleep. */
void pr_channels_settle(struct pr_worker *w);
/* On the reader: whether there is something in its channels; what is there is delivered. */
bool pr_channels_hold(struct pr_worker *w);
/* Once it is marked as parked: false when there is, or is about to be. */
bool pr_channels_settled(struct pr_worker *w);
void pr_channels_take(struct pr_worker *w);
/* Once all threads have ended: what is still in there becomes dead letters. */
void pr_channels_end(struct pr_worker *w);
void pr_channels_destroy(struct pr_worker *w);

#endif
