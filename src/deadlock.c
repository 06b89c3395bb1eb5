/* Cycles of actors that wait for each other: by asks, or for room in full mailboxes.
 *
 * An actor that waits has an edge (`asking`) to whom it waits for. seq_cst: two that begin to wait for each other at the
 * same time write their edge first and then look; one of them at least sees the cycle.
 *
 * A reentrant actor waits for nobody as long as it takes messages. It has an edge when it takes none any more, and all its
 * handlers wait for one and the same: then, and only then, it is that one's to go on. Whoever passes on or takes over an
 * ask of a reentrant actor marks it as PASSED_ON until no handler of it is suspended: there is no telling any more whom
 * it waits for. So a deadlock is found late here (by a time-out) rather than where there is none.
 *
 *   asking    of any actor: 0, or an id
 *             of a reentrant one: PR_ASKS_NOBODY, PASSED_ON, or an id with MARK; in `start` and `stop` a bare id */
#include "worker.h"

#include <stdio.h>

enum { MOST_HOPS = 4096 };   /* a chain may run into a cycle that does not hold `self` */
enum { PASSED_ON = 2 };      /* no id, as PR_ASKS_NOBODY */
#define MARK (UINT64_C(1) << 63)

/* Whom this one waits for; 0: nobody. */
static uint64_t edge_of(pr_runtime *rt, uint64_t id)
{
    pr_actor *a = pr_actor_find(&rt->actors, id);
    uint64_t edge = a ? atomic_load_explicit(&a->asking, memory_order_seq_cst) & ~MARK : 0;
    return pr_id_valid(edge) ? edge : 0;
}

static bool cycle(pr_runtime *rt, uint64_t self, uint64_t target)
{
    for (int hops = 0; hops < MOST_HOPS && target != 0; hops++) {
        if (target == self)
            return true;
        target = edge_of(rt, target);
    }
    return false;
}

bool pr_waits_for(pr_worker *w, pr_actor *a, uint64_t target)
{
    uint64_t me = PR_GET(a->id), nobody = PR_ASKS_NOBODY, edge = target | MARK;
    a->wait->whom = target;
    if (!pr_actor_reentrant(a) || a->flags & (PR_FLAG_STARTING | PR_FLAG_IN_STOP)) {
        atomic_store_explicit(&a->asking, target, memory_order_seq_cst);
        return cycle(w->rt, me, target);
    }
    if (!pr_parked_all_wait_for(a, target) ||
        !atomic_compare_exchange_strong_explicit(&a->asking, &nobody, edge, memory_order_seq_cst, memory_order_relaxed))
        return false;
    /* Who passed one of its asks on before it began to wait for this actor has marked that before: seen here at last. */
    return cycle(w->rt, me, target) && atomic_load_explicit(&a->asking, memory_order_seq_cst) == edge;
}

void pr_waits_no_more(pr_actor *a)
{
    uint64_t edge = PR_GET(a->asking);
    if (!pr_actor_reentrant(a))
        PR_SET(a->asking, 0);
    else if (a->extra->parked.count == 0)
        PR_SET(a->asking, PR_ASKS_NOBODY);
    else if (edge & MARK)   /* in one step: what is passed on meanwhile stays marked */
        atomic_compare_exchange_strong_explicit(&a->asking, &edge, PR_ASKS_NOBODY, memory_order_relaxed, memory_order_relaxed);
}

void pr_asker_waits_for(pr_runtime *rt, uint64_t asker, uint64_t old, uint64_t whom)
{
    pr_actor *a = pr_actor_find(&rt->actors, asker);
    uint64_t edge = a ? PR_GET(a->asking) : 0;
    /* seq_cst: see pr_waits_for. By what the field says, as the record may be another's by now. */
    while (edge & MARK || edge == PR_ASKS_NOBODY)
        if (atomic_compare_exchange_weak_explicit(&a->asking, &edge, PASSED_ON, memory_order_seq_cst, memory_order_relaxed))
            return;
    /* Not one step: if the asker has gone on meanwhile, an edge of the search is lost, which costs a time-out
     * instead of an early "deadlock", and nothing else. */
    if (a && edge == old)
        PR_SET(a->asking, whom);
}

void pr_asker_is_answered(pr_runtime *rt, uint64_t asker, uint64_t by)
{
    pr_actor *a = pr_actor_find(&rt->actors, asker);
    uint64_t edge = a ? PR_GET(a->asking) : 0;
    if (edge == by && by)
        PR_SET(a->asking, 0);
    else if (by && edge == (by | MARK))
        atomic_compare_exchange_strong_explicit(&a->asking, &edge, PR_ASKS_NOBODY, memory_order_relaxed, memory_order_relaxed);
}

void pr_deadlock_describe(pr_runtime *rt, uint64_t self, uint64_t target, char *buf, size_t cap)
{
    enum { SHOWN = 8 };
    size_t at = pr_actor_describe(rt, self, buf, cap);
    for (int hops = 0; target != 0 && at + 8 < cap; hops++) {
        char who[200];
        if (hops == SHOWN) {
            snprintf(buf + at, cap - at, " -> ...");
            return;
        }
        pr_actor_describe(rt, target, who, sizeof who);
        int n = snprintf(buf + at, cap - at, " -> %s", who);
        at += n < 0 ? 0 : (size_t)n;
        if (target == self)
            return;
        target = edge_of(rt, target);
    }
}
