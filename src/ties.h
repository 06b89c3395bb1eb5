/* Links and monitors: what ties an actor, or a port, to others.
 *
 * Each end of a tie keeps a node in its table `pr_ties`. A node is an envelope: `sender` is the other end, `ask` the
 * number of a monitor, `kind` says which end of what it is:
 *   PR_MSG_MONITOR    at the watched: the other end watches me. It has the room for the "down" that it becomes.
 *   PR_MSG_WATCHING   at the watcher: I watch the other end.
 *   PR_MSG_LINK       at both ends of a link.
 * So nobody needs memory to be told of an end (a big reason does; without memory it shrinks to its kind).
 *
 * Exactly one "down": the watched sends one, or whoever finds that it cannot deliver the MONITOR order; and the watcher
 * takes one only while it still has its node, which cancelling removes. Exits of links likewise.
 *
 * A table is its end's alone: the owner of the actor, the thread of the port. All else are messages. DOWN and EXIT
 * travel in the user lane, behind what the ended one has sent, and so do LINK and UNLINK, or an EXIT could overtake
 * the LINK that it belongs to; all but DOWN are then taken as orders, ahead of what is queued. MONITOR and DEMONITOR
 * travel in the control lane. */
#ifndef PR_TIES_H
#define PR_TIES_H

#include "message.h"

typedef struct pr_runtime pr_runtime;
typedef struct pr_worker pr_worker;

typedef struct pr_ties {
    pr_msg *one;              /* the only chain, until there are buckets */
    pr_msg **buckets;
    uint32_t mask, count;     /* buckets - 1; nodes */
} pr_ties;

/* One end, for the functions below: who calls, on its own thread. */
typedef struct pr_end {
    pr_runtime *rt;
    pr_worker *w;             /* NULL: a port */
    uint64_t id;
    pr_ties *ties;
} pr_end;

/* The numbers of monitors are 24 bits. As a value a monitor is the id that no actor has: generation 0. */
static inline uint64_t pr_monitor_value(uint32_t number) { return 1 | (uint64_t)number << 1; }
static inline bool pr_monitor_valid(uint64_t value) { return value >> 25 == 0 && (value & 1); }
static inline uint32_t pr_monitor_number(uint64_t value) { return (uint32_t)(value >> 1); }

/* Makes a monitor; a dead target's "down" is then on its way. False: no memory, and nothing has happened. */
bool pr_monitor(const pr_end *me, uint64_t target, uint32_t *number);
/* Whether its "down" was still to come; it does not come any more. */
bool pr_monitor_cancel(const pr_end *me, uint32_t number);
/* Links; a second time changes nothing. A dead target sends its exit, "noproc". False: no memory. */
bool pr_link(const pr_end *me, uint64_t target);
/* Whether there was a link. No exit comes from it any more. */
bool pr_unlink(const pr_end *me, uint64_t target);

/* For an actor about to be born: prepares both ends' nodes. NULL: no memory. The first goes into the spawner's table
 * (pr_ties_add) once the birth has succeeded, the second into the child's before. */
pr_msg *pr_tie_node(pr_worker *w, uint8_t kind, uint64_t other, uint32_t number);
void pr_ties_add(pr_ties *ties, pr_msg *node);
uint32_t pr_monitor_next(const pr_end *me);

static inline bool pr_ties_order_lane(const pr_msg *m) { return m->kind >= PR_MSG_LINK && m->kind <= PR_MSG_EXIT; }

/* A MONITOR, DEMONITOR, LINK or UNLINK has come. Consumes `m`. */
void pr_ties_told(const pr_end *me, pr_msg *m);
/* The same has found nobody. Any thread, `w` its worker or NULL. Consumes `m`, also of any other control message. */
void pr_control_undelivered(pr_runtime *rt, pr_worker *w, pr_msg *m);
/* A DOWN is about to be handled: true, and it is a user message now; false: it has been cancelled. */
bool pr_ties_take_down(const pr_end *me, pr_msg *m);
/* The same without taking it. */
bool pr_ties_expect(const pr_end *me, const pr_msg *m);
/* An EXIT has come: whether the link was still there; it is not any more. */
bool pr_ties_take_exit(const pr_end *me, const pr_msg *m);
/* How many nodes of a kind there are, and the other ends of the first `most` of them. */
uint32_t pr_ties_list(const pr_ties *ties, uint8_t kind, uint64_t *others, uint32_t most);
/* This end has ended: all others are told. reason: a message of one value, NULL for "normal". It stays the caller's. */
void pr_ties_end(const pr_end *me, const pr_msg *reason);

#endif
