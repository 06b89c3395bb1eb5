/* Tick mode: a runtime without a thread. Whoever calls pr_tick runs the turns of all workers, one after the other, on the
 * calling thread, which is each worker's in turn.
 *
 * What threads would have left to chance is drawn here: which worker goes on, and where a thief looks first. With a seed
 * and a clock of its own a run is the same every time, however it is cut into ticks: a turn that the budget ends is
 * paused, and goes on where it stopped before anything else happens.
 *
 * Between ticks every worker is PARKED: a sender from outside claims its parker and, by the parkers' descriptor, makes
 * that readable. One thread ticks at a time (`busy`); all other fields are its own. */
#ifndef PR_TICK_H
#define PR_TICK_H

#include "worker.h"

enum pr_clock {
    PR_CLOCK_REAL,
    PR_CLOCK_JUMPS,              /* stands still while something is to be done, then is at the next timer */
    PR_CLOCK_MANUAL              /* moves by pr_tick_advance */
};

typedef struct pr_tick {
    uint8_t clock;               /* enum pr_clock */
    bool seeded;
    _Atomic bool busy;           /* acquire to take it, release to give it back */
    _Atomic uint64_t virtual_ns; /* relaxed: others only look at it */
    uint64_t random;
    uint32_t next_worker;        /* without a seed: whose turn it is */
    pr_worker *paused;           /* its turn is not over */
    uint64_t deadline_ns;        /* of the tick under way, 0: none; real time */
    bool idle;                   /* the last tick has left nothing to do until `next_ms` */
    uint64_t next_ms;            /* the first timer; UINT64_MAX: none */
    int fd;                      /* readable when there is something to do; -1 */
    void (*trace)(void *context, const char *line, size_t size);   /* NULL, or is told of each turn */
    void *trace_context;
    struct pr_explore *explore;  /* NULL, or a test drives: see explore.h; pr_config's */
} pr_tick;

enum { PR_TICK_FOREVER = -1 };

/* NULL: no memory. */
pr_tick *pr_tick_new(const struct pr_config *c);
void pr_tick_free(pr_tick *t);
/* Opens the states of a dispatcher's workers, here. False: one cannot be opened; then none is. */
bool pr_tick_open(pr_runtime *rt, pr_dispatcher *d);

/* Runs what is ready, for so long, and at least one turn. Nanoseconds until something happens by itself, 0: now;
 * PR_TICK_FOREVER. Who calls holds `busy`. */
int64_t pr_tick_run(pr_runtime *rt, uint64_t budget_ns);
/* Moves a clock that is PR_CLOCK_MANUAL. */
void pr_tick_advance(pr_runtime *rt, uint64_t ns);
/* A descriptor; see above. -1: the system gives none. */
int pr_tick_fd(pr_runtime *rt);
/* pr_runtime_join by ticks. */
pr_status pr_tick_join(pr_runtime *rt, uint64_t until_ns);

static inline bool pr_tick_take(pr_tick *t) { return !atomic_exchange_explicit(&t->busy, true, memory_order_acquire); }
static inline void pr_tick_give(pr_tick *t) { atomic_store_explicit(&t->busy, false, memory_order_release); }
/* For choices. */
uint64_t pr_tick_draw(pr_tick *t);
uint64_t pr_tick_mix(uint64_t *state);
/* For explore.c: one turn of that worker, false: it has nothing to do; when the next timer of all workers is due,
 * UINT64_MAX: there is none. */
bool pr_tick_turn(pr_runtime *rt, pr_worker *w);
uint64_t pr_tick_next_ms(pr_runtime *rt);
/* In a turn, at a look at the clock: the budget may be over. */
void pr_tick_look(pr_worker *w);

#endif
