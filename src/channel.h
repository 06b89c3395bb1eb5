/* A channel: the messages that one worker's actors send to another worker's, first in, first out.
 *
 * A ring of cache lines with one writer and one reader (Lamport, "Specifying Concurrent Program Modules", 1983; each side
 * keeps its own copy of the other's index, as in FastForward, PPoPP 2008). A short message is copied into the ring and out
 * again: both sides then walk through memory in order, which processors are good at, and envelopes stay with the worker
 * that made them. A stack of envelopes costs the reader two cache misses a message, each waiting for the one before, and
 * the writer another one when it gets the envelope back. Long messages go by pointer.
 *
 * The ring has a bound, mailboxes do not. What does not fit goes onto a stack beside it, and its sender stands back. Order
 * holds: the writer comes back to the ring once the reader has taken the stack, and while there is something on the stack
 * the reader looks at the ring's end, which cannot move then, and empties the ring to there before it takes the stack.
 *
 * Waking a reader that sleeps is a store/load handshake (worker.c), for which the writer's store of `tail` would have to be
 * followed by a full barrier: the writer would wait, with each message, until its lines are back from the reader's cache.
 * So the store is a release alone, and the writer looks at the reader's parker after it as it can. What that look may
 * miss is a reader that is falling asleep in the very moment in which the store is on its way, some hundred nanoseconds.
 * It is caught twice: by a reader that, once marked as parked, looks for a moment more before it sleeps (PR_SETTLING); and,
 * whatever the hardware does, by the writer, which repeats its store with the barrier and looks again before it sleeps
 * itself and every few turns (pr_channels_settle).
 *
 * A worker's channels to others are made at the first message. Floating senders do not use them: they may be carried to
 * another worker between two messages. */
#ifndef PR_CHANNEL_H
#define PR_CHANNEL_H

#include "mailbox.h"

enum { PR_CHANNEL_LINE = 64, PR_CHANNEL_LINES = 1024, PR_CHANNEL_COPIED = 4 * PR_CHANNEL_LINE /* bytes, header and all */ };
enum { PR_SETTLING = 64 /* looks */ };

typedef struct pr_channel {
    /* the writer's; `tail` counts lines written, for ever. release, for what is in them: pairs with the reader's acquire.
     * seq_cst in pr_channels_settle and in the reader's last look before it sleeps */
    _Alignas(64) _Atomic uint32_t tail;
    uint32_t seen;                /* `head`, as of the last look */
    uint64_t stuck_turn;          /* of the reader, when waiting for it was of no use */
    pr_stack more;                /* what did not fit; only the reader empties it */
    struct pr_worker *to;         /* the reader */
    struct pr_channel *next_out, *next_in;   /* the writer's next one, the reader's next one: fixed */
    bool unsettled;               /* written to since pr_channels_settle */
    /* the reader's. Release: the lines before it may be written again; pairs with the writer's acquire */
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) unsigned char lines[PR_CHANNEL_LINES][PR_CHANNEL_LINE];
} pr_channel;

struct pr_worker;

/* On `w`, to another worker, which the caller wakes if it sleeps. False: that one has left; `m` is still the caller's. */
bool pr_channel_send(struct pr_worker *w, struct pr_worker *to, pr_msg *m);
/* On the writer: wakes the readers of what it has written since the last call, if they sleep. */
void pr_channels_settle(struct pr_worker *w);
/* On the reader: whether there is something in its channels; what is there is delivered. */
bool pr_channels_hold(struct pr_worker *w);
void pr_channels_take(struct pr_worker *w);
/* Once all threads have ended: what is still in there becomes dead letters. */
void pr_channels_end(struct pr_worker *w);
void pr_channels_destroy(struct pr_worker *w);

#endif
