/* Exploring: a runtime in tick mode that a test drives turn by turn. On top of tick.h:
 *
 * Choices. Whose turn it is, among all workers with something to do and all actors in a worker's line, whether who drives
 * goes on or waits for others, whether a fault strikes: each is numbered, and drawn from the seed and its number alone. So any
 * of them can be left out (0 is taken, the first in order) without the others coming out differently: that is how a run is
 * shrunk.
 * Time. It stands still while there is anything to do, and then goes to the next timer, at most as far as who drives waits.
 * Record. What happens, in its order: births, messages, failures, ends.
 * Faults. What rules say happens to a message: its handler fails, is slow, is never answered, its actor is killed.
 *
 * One thread drives, and is each worker in its turn; all of this is that thread's. */
#ifndef PR_EXPLORE_H
#define PR_EXPLORE_H

#include "worker.h"

enum pr_explore_what { PR_EXPLORED_START, PR_EXPLORED_MESSAGE, PR_EXPLORED_RESUME, PR_EXPLORED_FAILURE, PR_EXPLORED_FAULT,
    PR_EXPLORED_LOG, PR_EXPLORED_END };

enum { PR_EXPLORE_NAME = 64, PR_EXPLORE_TEXT = 512 };

typedef struct pr_explored {     /* one thing that has happened */
    uint64_t ns;
    uint64_t actor, sender;
    uint32_t worker;
    uint8_t what;                /* enum pr_explore_what */
    bool asked, timed;           /* MESSAGE */
    bool failed;                 /* RESUME: the ask has failed */
    pr_msg *message;             /* MESSAGE: a copy, or NULL: no memory, too big; RESUME: what an ask was answered, or NULL */
    char name[PR_EXPLORE_NAME];  /* the actor's, or its behaviour's */
    char *text;                  /* FAILURE: at what, the error, the traceback; LOG: the record; END: the reason; or NULL */
} pr_explored;

enum pr_fault_action { PR_FAULT_FAIL, PR_FAULT_SLOW, PR_FAULT_MUTE, PR_FAULT_KILL };

/* It strikes messages that fit, of these each `every`th from number `from` on, with that chance, `most` times. */
typedef struct pr_fault {
    uint64_t actor;                        /* 0: any */
    char name[PR_EXPLORE_NAME];            /* of an actor or of its behaviour; "": any */
    char first[PR_EXPLORE_NAME];           /* the message's first value; "": any */
    uint8_t action;                        /* enum pr_fault_action */
    double seconds;                        /* SLOW */
    double chance;                         /* 0 to 1 */
    uint32_t from, every, most;
    uint32_t seen, done;
    char text[PR_EXPLORE_TEXT];            /* FAIL: what the handler raises */
} pr_fault;

enum { PR_FAULTS = 64 };

typedef struct pr_explore {
    uint64_t seed;
    bool only;                             /* of the choices only these, ascending, are drawn */
    uint32_t *drawn, drawn_count, drawn_at;
    uint32_t choices;                      /* made so far */
    uint32_t *taken, taken_count, taken_room;   /* those that came out other than 0; as far as there was memory */
    uint32_t last;                         /* the worker that had the last turn */
    uint64_t turns, turns_most;
    uint32_t stalled;                      /* this worker, counted from 1, has no turn while another one can have it ... */
    uint64_t stalled_until;                /* ... and there were no more turns than these */
    bool plain;                            /* messages go the quick way, and nothing is recorded or struck by faults */
    bool records;
    pr_explored *happened;
    uint32_t count, room;
    uint32_t missed;                       /* not recorded: too many, or no memory */
    pr_fault faults[PR_FAULTS];
    uint32_t fault_count;
    char *log;                             /* lines, each with its level in front */
    size_t log_size;
} pr_explore;

/* NULL: no memory. `only` is copied; NULL: all choices are drawn. */
pr_explore *pr_explore_new(uint64_t seed, const uint32_t *only, uint32_t count);
void pr_explore_free(pr_explore *e);
/* Drops what it holds of its runtime, which is about to be freed. */
void pr_explore_forget(pr_explore *e);

/* 0 to n - 1 */
uint32_t pr_explore_choose(pr_explore *e, uint32_t n);

/* So many turns, or fewer where there is less to do; returns how many. */
uint64_t pr_explore_turns(pr_runtime *rt, uint64_t most);
/* Others may have turns before who drives goes on. */
void pr_explore_others(pr_runtime *rt);

enum pr_explore_end { PR_EXPLORE_ARRIVED, PR_EXPLORE_TIME, PR_EXPLORE_NEVER /* nothing is left that could happen */,
    PR_EXPLORE_RESTLESS /* turns_most are over */ };
/* Turns, and time, until `arrivals` (or NULL) holds something, or `until_ns`; UINT64_MAX: no limit. */
enum pr_explore_end pr_explore_wait(pr_runtime *rt, pr_stack *arrivals, uint64_t until_ns);

/* --- from where things happen, of actors with PR_FLAG_APART */

void pr_explore_note(pr_worker *w, pr_actor *a, enum pr_explore_what what, const pr_msg *m);
/* pr_config.failed */
void pr_explore_failed(pr_worker *w, pr_actor *a, const pr_msg *failure, const char *during);
void pr_explore_ended(pr_worker *w, pr_actor *a, const pr_msg *reason);
/* What strikes the message in hand, or NULL. */
const pr_fault *pr_explore_strikes(pr_worker *w);
/* pr_log_sink, of a pr_explore */
void pr_explore_log(void *explore, enum pr_log_level level, const char *text, size_t len);

#endif
