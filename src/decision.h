/* What follows the failure of a child, decided on its parent's turn.
 *
 * A child that has failed (or, when it is permanent, is to end) waits and says CHILD_ENDS to its parent, which answers
 * with a VERDICT. All of it travels in the control lane, ahead of what is queued. The children of the root decide
 * for themselves, by the default rules.
 *
 * one_for_all and rest_for_one take a group of children through HOLD, the youngest first, and then GO, the oldest
 * first, one at a time: one envelope, the token, goes from child to child. A child that holds has ended its
 * life and not begun the next. */
#ifndef PR_DECISION_H
#define PR_DECISION_H

#include "actor.h"
#include "runtime.h"

enum pr_strategy { PR_ONE_FOR_ONE, PR_ONE_FOR_ALL, PR_REST_FOR_ONE };

/* NONE: by the child's `restart`. FAILED: the decision itself has failed, worker.failure is filled in. */
enum pr_verdict {
    PR_VERDICT_NONE, PR_VERDICT_RESUME, PR_VERDICT_RESTART, PR_VERDICT_STOP, PR_VERDICT_ESCALATE, PR_VERDICT_FAILED,
    PR_VERDICT_HOLD, PR_VERDICT_GO
};

/* How an actor treats its failing children. */
typedef struct pr_rules {
    uint8_t strategy;               /* enum pr_strategy */
    bool count_all;                 /* restarts are counted for all children together */
    bool escalates;                 /* beyond the limit this parent fails; otherwise the child is stopped */
    bool decides;                   /* kin->decide is asked first */
    bool in_turn;                   /* at its end children are stopped one after the other */
    uint32_t intensity;             /* so many restarts ... */
    uint64_t period_ms;             /* ... in so much time */
    uint64_t min_ms, max_ms;        /* back-off; max_ms 0: none */
    double factor, jitter;
} pr_rules;

extern const pr_rules pr_default_rules;

/* Failures of the last period, and what the back-off needs. Touched by whoever decides alone: the parent's owner, or
 * the actor itself below the root. */
typedef struct pr_history {
    uint64_t *at_ms;                /* a ring */
    uint32_t first, count, capacity;
    uint32_t attempts;
} pr_history;

/* Behind the payload of a CHILD_ENDS. */
typedef struct pr_ends {
    uint64_t at_ms, lived_ms;       /* when, and after how long a life; monotonic */
    bool failed, in_start;
} pr_ends;

/* What a parent keeps while a group is under way, or its children are stopped one after the other. */
typedef struct pr_family {
    pr_history all;                 /* with count_all */
    pr_alarm alarm;                 /* the back-off of a group; a child that does not stop; want of memory */
    pr_actor *parent;
    uint8_t phase;                  /* enum in decision.c */
    uint32_t cursor, scope;         /* slot + 1: whose turn it is, the oldest of the group; 0: none */
    uint64_t delay_ms;
    bool retry;                     /* the alarm is for want of memory */
    pr_msg *token;                  /* while no child has it */
    pr_queue later;                 /* CHILD_ENDS that came while the parent itself awaits a verdict */
    uint64_t escalated;             /* the child whose failure it failed by; 0: none */
    bool escalated_restarts;
} pr_family;

/* --- the parent's side, all on its owner */

/* CHILD_ENDS, CHILD_HELD, CHILD_STARTED, in the parent's turn. Consumes `m`. */
void pr_family_told(pr_worker *w, pr_actor *parent, pr_msg *m);
/* `child` is about to be unlinked; not necessarily in the parent's turn. True: what is under way was at it, and ... */
bool pr_family_leaves(pr_worker *w, pr_actor *parent, pr_actor *child);
/* ... goes on, once it has been. */
void pr_family_left(pr_worker *w, pr_actor *parent);
/* The parent's life ends: what was under way is dropped, and the children are stopped: in turn if its rules say so,
 * otherwise all at once (stop_children). */
void pr_family_ends(pr_worker *w, pr_actor *parent);
/* The parent goes on: so does whom it has failed by, and what came meanwhile is decided. */
void pr_family_goes_on(pr_worker *w, pr_actor *parent);
/* The parent has died. */
void pr_family_free(pr_worker *w, pr_actor *parent);
/* Tells all children to stop or kills them, the youngest first; without memory for one, again after a moment. */
void pr_stop_children(pr_worker *w, pr_actor *parent, uint8_t kind);

/* Whether one more restart is within the limits; notes it. */
bool pr_restart_allowed(pr_history *h, const pr_rules *rules, uint64_t at_ms);
void pr_history_free(pr_history *h);

/* --- the child's side: ending.c, failure.c */

/* The parent fails by this error (an ERROR payload, consumed; NULL: no memory for it), in its turn. during: "child" or
 * "on_failure". */
void pr_actor_fails_by(pr_worker *w, pr_actor *a, pr_msg *error, const char *during);
void pr_log_exceeded(pr_worker *w, uint64_t child, const pr_rules *rules, bool escalates);

#endif
