/* Where new actors go: into a worker's ring or the common list, from which whoever is free takes them; who starts a Lua
 * actor keeps it. */
#include "tick.h"
#include "worker.h"

enum { MOST_SPILLED = 128 };

/* How many of its new actors a worker may take from another one: half of them, but not so many that more actors would stay
 * here than there. Who is first at a burst of births would otherwise have nearly all of it: it takes half after half, while
 * the one that spawns goes on spawning. An even number, so that two that were spawned to talk to each other stay together.
 * Where turns may be long this is not what matters: see pr_worker_hand_over. */
uint32_t pr_worker_share_of(const pr_worker *w, const pr_worker *victim, uint32_t count)
{
    if (w->dispatcher->index != PR_DISPATCHER_DEFAULT)
        return count;
    int64_t more = (int64_t)pr_worker_residents(victim) + count - pr_worker_residents(w);
    uint32_t share = more < 2 ? 0 : more / 2 < count ? (uint32_t)(more / 2) : count;
    return share > 1 ? share & ~1u : share;
}

uint32_t pr_worker_surplus(const pr_worker *victim, uint64_t now_ms)
{
    return PR_GET(victim->brief_until_ms) > now_ms ? 0 : pr_ring_count(&victim->ring);
}

static pr_actor *loot(pr_worker *w, pr_actor *a)
{
    if (a) {
        PR_BUMP(w->counters.steals, 1);
        w->looted = true;
    }
    return a;
}

/* A share of what has been spilled, as of the global list: the oldest, from which the most is still to come. */
static pr_actor *take_spilled(pr_worker *w, pr_worker *victim)
{
    uint32_t share = PR_GET(victim->spill.count) / w->dispatcher->count + 1;
    return pr_spill_take(&victim->spill, &w->ring, share < MOST_SPILLED ? share : MOST_SPILLED, true);
}

pr_actor *pr_worker_take_from(pr_worker *w, pr_worker *victim)
{
    pr_actor *a = take_spilled(w, victim);
    return loot(w, a ? a : pr_ring_steal(&victim->ring, &w->ring, PR_RING));
}

pr_actor *pr_worker_steal(pr_worker *w, bool starved)
{
    pr_dispatcher *d = w->dispatcher;
    uint32_t first = w->rt->config.explore ? 0 : w->rt->tick ? (uint32_t)(pr_tick_draw(w->rt->tick) % d->count) : w->steal_from++;
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *victim = &d->workers[(first + i) % d->count];
        if (victim == w)
            continue;
        uint32_t count = starved ? PR_RING : pr_worker_surplus(victim, w->now_ms);
        uint32_t share = starved ? count : pr_worker_share_of(w, victim, count);
        pr_actor *a = take_spilled(w, victim);
        if (!a && share > 0 && count >= PR_STEAL_MIN)
            a = pr_ring_steal(&victim->ring, &w->ring, share);
        if (a)
            return loot(w, a);
    }
    return NULL;
}

/* Whether another worker would take some of the new actors of this one. */
static bool would_take(const pr_worker *w)
{
    const pr_dispatcher *d = w->dispatcher;
    uint32_t count = pr_worker_surplus(w, w->now_ms);
    for (uint32_t i = 0; i < d->count && count >= PR_STEAL_MIN; i++)
        if (&d->workers[i] != w && pr_worker_share_of(&d->workers[i], w, count) > 0)
            return true;
    return false;
}

void pr_make_ready(pr_runtime *rt, pr_worker *w, pr_actor *a)
{
    pr_dispatcher *d = &rt->dispatchers[PR_GET(a->dispatcher)];
    /* Nor into the ring of a worker whose turns may be long, if whoever runs it first is to keep it: see pr_worker_hand_over. */
    if (w && (w->dispatcher != d || (d->index != PR_DISPATCHER_DEFAULT && !(a->flags & PR_FLAG_FLOATS))))
        w = NULL;
    if (!w) {
        pr_global_push(&d->global, a);
    } else if (!pr_ring_push(&w->ring, a)) {
        pr_ring_spill(&w->ring, &w->spill, a);
    } else {
        uint32_t sleepers = atomic_load_explicit(&d->sleepers, memory_order_seq_cst);
        uint32_t watchers = atomic_load_explicit(&d->watchers, memory_order_seq_cst);
        if (sleepers + watchers == 0)
            return;
        /* Of one that others would not take one sibling is told, which then keeps watch: see pr_worker_sleep. */
        if (watchers > 0 && !would_take(w))
            return;
    }
    pr_wake_some(d, w);
}

void pr_worker_pass_on(pr_worker *w)
{
    pr_dispatcher *d = w->dispatcher;
    if (atomic_load_explicit(&d->sleepers, memory_order_seq_cst) == 0)
        return;
    for (uint32_t i = 0; i < d->count; i++)
        if (pr_ring_count(&d->workers[i].ring) > 0 || PR_GET(d->workers[i].spill.count) > 0) {
            pr_wake_some(d, w);
            return;
        }
}

/* In a turn that has lasted for a while, as far as one can see from here. */
static bool is_held_up(const pr_worker *w, uint64_t now_ms)
{
    return PR_GET(w->current) != 0 && now_ms > PR_GET(w->current_since_ms) + 1;
}

/* A Lua actor stays where it first runs. On the default dispatcher that is whoever is free first, since turns are short. On
 * the others they may be long, and two actors of one worker wait for each other: there an actor goes to the worker that has
 * the fewest, of those not held up. It floats on its way, SCHEDULED and in no queue, and is pinned where it arrives. False:
 * it is best kept here. */
bool pr_worker_hand_over(pr_worker *w, pr_actor *a)
{
    pr_dispatcher *d = w->dispatcher;
    uint32_t least = pr_worker_residents(w), first = w->steal_from++;
    pr_worker *to = NULL;
    pr_worker_clock(w);
    for (uint32_t i = 0; i < d->count; i++) {
        pr_worker *other = &d->workers[(first + i) % d->count];
        uint32_t residents = pr_worker_residents(other);
        if (residents < least && !is_held_up(other, w->now_ms)) {
            to = other;
            least = residents;
        }
    }
    pr_msg *m = to ? pr_msg_new(&w->pool, 0) : NULL;
    if (!m)
        return false;
    m->kind = PR_MSG_WAKE;
    m->target = PR_GET(a->id);
    pr_worker_sent_resident(to);
    /* It is there: workers leave when all actors have ended. */
    pr_stack_push(&to->control, m);
    pr_worker_wake(to);
    return true;
}
