/* Cycles of actors that wait for each other: by asks, or for room in full mailboxes.
 *
 * An actor that waits has an edge (`asking`) to whom it waits for. seq_cst: two that begin to wait for each other at the
 * same time write their edge first and then look; one of them at least sees the cycle. */
#include "worker.h"

#include <stdio.h>

enum { MOST_HOPS = 4096 };   /* a chain may run into a cycle that does not hold `self` */

bool pr_deadlock(pr_runtime *rt, uint64_t self, uint64_t target)
{
    for (int hops = 0; hops < MOST_HOPS; hops++) {
        if (target == self)
            return true;
        pr_actor *a = pr_actor_find(&rt->actors, target);
        target = a ? atomic_load_explicit(&a->asking, memory_order_seq_cst) : 0;
        if (target == 0)
            return false;
    }
    return false;
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
        pr_actor *a = pr_actor_find(&rt->actors, target);
        target = a ? atomic_load_explicit(&a->asking, memory_order_seq_cst) : 0;
    }
}
