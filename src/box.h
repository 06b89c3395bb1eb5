/* Mailboxes with bounds: what an actor spawned with the option `mailbox` has instead of the ordinary queue.
 *
 * Its messages lie in the box, guarded by the box's mutex, and reach it without its worker's inbox: so a capacity is
 * exact whoever sends from wherever, the oldest can be dropped while the owner is busy, and memory is bounded. Replies
 * and control messages go the ordinary ways: they are never held. An actor without a box pays nothing: `gate` in its
 * record is read by every send anyhow, and is 0.
 *
 * `held` counts the messages that a sender had to find room for; what the runtime itself puts in (exits and downs, a
 * drain, unstashed messages) is exempt. capacity is a bound on `held`; each message leaves it when it is taken for
 * handling, or is dropped.
 *
 * Which part is whose: `in` holds arrivals. The owner moves them to `staged` (first in, first out), or, with a priority
 * function, into the heap; while it runs Lua over them, they are out of the others' reach (`reserved`), and what would
 * have to be dropped of them becomes `debt`, which the owner pays before it takes the next one.
 *
 * A message in a box needs no `target`, which would be the same for all: there stands the time of its arrival (ms).
 *
 * Boxes are type-stable: found by the slot of the record, reused, never freed while the runtime lives. `id` says under
 * the lock whose box it is now. A box whose notice is still in an inbox is reused when that has arrived. */
#ifndef PR_BOX_H
#define PR_BOX_H

#include "actor.h"

enum pr_overflow { PR_OVERFLOW_REJECT, PR_OVERFLOW_SUSPEND, PR_OVERFLOW_DROP_NEWEST, PR_OVERFLOW_DROP_OLDEST };

#define PR_UNBOUNDED UINT32_MAX

typedef struct pr_box_spec {
    uint32_t capacity;               /* 1 or more; PR_UNBOUNDED */
    uint32_t threshold;              /* of the event "overload"; 0: none */
    uint8_t overflow;                /* enum pr_overflow */
    struct pr_behaviour *priority;   /* a function that gives a message's; NULL: first in, first out. A reference is taken */
} pr_box_spec;

typedef struct pr_box pr_box;

typedef struct pr_box_slabs {
    _Atomic(_Atomic(pr_box *) *) of[PR_SLABS];             /* release at growth, acquire at look-up */
} pr_box_slabs;

/* The table by slot; rt->boxes. */
typedef struct pr_boxes {
    pthread_mutex_t lock;                                  /* guards growth and the lists */
    _Atomic(pr_box_slabs *) slabs;                         /* made with the first box; release, acquire */
    pr_box *free, *all;
} pr_boxes;

int pr_boxes_init(pr_boxes *b);
void pr_boxes_destroy(pr_boxes *b);

/* Any thread. NULL: no memory. The box is given to an actor by pr_box_attach, or back by pr_box_discard. */
pr_box *pr_box_new(pr_runtime *rt, const pr_box_spec *spec);
void pr_box_discard(pr_runtime *rt, pr_box *box);
/* At birth, before the id is published. False: no memory. */
bool pr_box_attach(pr_runtime *rt, pr_box *box, uint32_t slot, uint64_t id);

/* --- senders: any thread, `a` the record of m->target, whose gate says that it has a box */

/* PR_OK: taken (perhaps dropped, as a dead letter). PR_FULL; PR_MUST_WAIT: full, and the sender is to wait (pr_box_wait);
 * PR_DEAD; PR_NOMEM. Otherwise `m` is still the caller's. */
pr_status pr_box_send(pr_runtime *rt, pr_worker *w, pr_actor *a, pr_msg *m);
/* Puts `m` in line for room. PR_OK: there was some. PR_MUST_WAIT: the box has it; once it is let in, or the actor has
 * ended, `notice` (NULL for an ask) goes to its target as a REPLY or an ERROR. Counts `sent`. Else both are the caller's. */
pr_status pr_box_wait(pr_runtime *rt, pr_worker *w, pr_actor *a, pr_msg *m, pr_msg *notice);
/* Takes it out of that line: true, and both are freed. False: it has been let in, or told. */
bool pr_box_cancel(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t sender, uint32_t ask);

/* --- its owner */

pr_msg *pr_box_take(pr_worker *w, pr_actor *a);            /* the next message; NULL: none */
bool pr_box_ready(pr_worker *w, pr_actor *a);              /* whether there is one */
/* Calls `show` with the one that is likely to be next, under the box's lock, if there is any. */
void pr_box_show_first(pr_worker *w, pr_actor *a, void (*show)(void *context, const pr_msg *m), void *context);
/* All messages in their order, for `receive`; they stay until pr_box_remove. pr_box_view_end ends the view. */
pr_queue *pr_box_view(pr_worker *w, pr_actor *a);
void pr_box_remove(pr_worker *w, pr_actor *a, pr_msg *before, pr_msg *m);
void pr_box_view_end(pr_worker *w, pr_actor *a);
void pr_box_put_front(pr_worker *w, pr_actor *a, pr_queue *list);  /* exempt: unstashed */
void pr_box_put(pr_worker *w, pr_actor *a, pr_msg *m);             /* exempt, at the end */
uint32_t pr_box_capacity(pr_runtime *rt, pr_actor *a);
void pr_box_noticed(pr_worker *w, pr_msg *notice);         /* its notice has arrived at the owner's worker */
void pr_box_end(pr_worker *w, pr_actor *a);                /* the actor has ended: its id is cleared */

/* --- looking: any thread; false when the actor has no box */
typedef struct pr_box_info {
    uint32_t depth, high_water, capacity, waiting;
    uint64_t oldest_ms;              /* when the oldest arrived; 0: there is none */
} pr_box_info;
bool pr_box_look(pr_runtime *rt, uint64_t id, pr_box_info *info);

#endif
