/* What the files of an actor's life share: spawn.c, family.c, running.c, failure.c, ending.c, orders.c, extra.c.
 *
 * Everything here runs on the actor's owner, in its turn, unless it says otherwise. A function that may end the actor
 * leaves w->running NULL then, and the record is another's from that moment. */
#ifndef PR_LIFE_H
#define PR_LIFE_H

#include "decision.h"
#include "worker.h"

static inline uint64_t pr_actor_id(const pr_actor *a) { return PR_GET(a->id); }
static inline void pr_flags_set(pr_actor *a, unsigned on) { a->flags = (uint16_t)(a->flags | on); }
static inline void pr_flags_clear(pr_actor *a, unsigned off) { a->flags = (uint16_t)(a->flags & ~off); }

/* Its end of its links and monitors; `extra` is there. */
static inline pr_end pr_actor_end_of(pr_worker *w, pr_actor *a, uint64_t id)
{
    return (pr_end){w->rt, w, id, &a->extra->ties};
}

/* NULL is fine. w: the calling worker, or NULL. */
static inline void pr_msg_drop(pr_worker *w, pr_msg *m)
{
    if (m)
        pr_msg_free(w ? &w->pool : NULL, m);
}

/* --- extra.c */

/* With the record, as its parent may look at what it says is fixed until it has unlinked it. */
void pr_extra_free(pr_actor *a);
void pr_deadline_arm(pr_worker *w, pr_actor *a);            /* a handler is waited for: its time to stop in begins */
void pr_deadline_disarm(pr_worker *w, pr_actor *a);

/* --- family.c */

/* The parent's owner, or under root_lock. first: of the parent or the root. */
void pr_family_link(pr_runtime *rt, _Atomic uint32_t *first, pr_actor *child);
/* The last thing that happens to a record before its parent has it; the root's children are freed. */
void pr_family_leave(pr_worker *w, pr_actor *a);

/* --- running.c */

void pr_handler_done(pr_worker *w, pr_actor *a, pr_outcome outcome); /* after ops have returned from start, a message, or stop */
void pr_await_told(pr_worker *w, pr_actor *a, pr_msg *m);   /* an AWAIT: answered once `start` has succeeded. Consumes `m` */

/* --- orders.c */

/* Told to stop while handlers may be suspended. False: they have to be waited for, for a while. */
bool pr_handlers_settle(pr_worker *w, pr_actor *a);

/* --- failure.c */

/* The handler in hand has raised. w->failure holds what, or NULL without memory for it. */
void pr_life_fails(pr_worker *w, pr_actor *a);

/* --- ending.c */

void pr_life_ends(pr_worker *w, pr_actor *a);               /* it is to end: who is asked, what follows */
void pr_life_end(pr_worker *w, pr_actor *a, bool restarts); /* it ends, and what follows has been decided */
void pr_life_over(pr_worker *w, pr_actor *a);               /* after ops came back from `stop`, or need not be asked */
void pr_life_waits_for_go(pr_worker *w, pr_actor *a);       /* between two lives, until its parent says GO */
/* The envelope that goes from child to child: its parent's next step. */
void pr_token_return(pr_worker *w, pr_actor *a, uint8_t kind);

#endif
