/* Parents and children: the links between their records, and how an ended child leaves them.
 *
 * A parent outlives its children, and unlinks them itself: so a child's record, and the parent's, are valid until then, and
 * no lock is needed but for the children of the root. A child that has ended on another worker reaches its parent's by the
 * list `ended`. The links are the parent's owner's to write (of the root's children, under root_lock). */
#include "life.h"

#include "alloc.h"

static pr_actor *at(pr_runtime *rt, uint32_t link) { return link ? pr_actor_at(&rt->actors, link - 1) : NULL; }

void pr_family_link(pr_runtime *rt, _Atomic uint32_t *first, pr_actor *child)
{
    uint32_t old = PR_GET(*first);
    PR_SET(child->next_sibling, old);
    PR_SET(child->previous_sibling, 0);
    if (old)
        PR_SET(at(rt, old)->previous_sibling, child->slot + 1);
    PR_SET(*first, child->slot + 1);
}

static void unlink_child(pr_runtime *rt, _Atomic uint32_t *first, pr_actor *child)
{
    uint32_t next = PR_GET(child->next_sibling), previous = PR_GET(child->previous_sibling);
    if (previous)
        PR_SET(at(rt, previous)->next_sibling, next);
    else
        PR_SET(*first, next);
    if (next)
        PR_SET(at(rt, next)->previous_sibling, previous);
}

void pr_child_ended(pr_worker *w, pr_actor *child)
{
    pr_actor *parent = pr_actor_at(&w->rt->actors, pr_id_slot(PR_GET(child->parent)));
    bool moves = parent->extra && parent->extra->family && pr_family_leaves(w, parent, child);
    unlink_child(w->rt, &parent->first_child, child);
    PR_BUMP(parent->children, (uint32_t)-1);
    pr_extra_free(child);
    pr_actor_free(&w->rt->actors, &w->actors, child);
    if (moves)
        pr_family_left(w, parent);
    if (parent->flags & PR_FLAG_CHILDREN && PR_GET(parent->children) == 0)
        pr_make_ready_pinned(w, parent, true);
}

/* The last thing that happens to a record before its parent has it. */
void pr_family_leave(pr_worker *w, pr_actor *a)
{
    pr_runtime *rt = w->rt;
    if (PR_GET(a->parent) == 0) {
        pthread_mutex_lock(&rt->root_lock);
        unlink_child(rt, &rt->root_first, a);
        bool last = --rt->root_children == 0 && atomic_load_explicit(&rt->stopping, memory_order_relaxed);
        pthread_mutex_unlock(&rt->root_lock);
        pr_extra_free(a);
        pr_actor_free(&rt->actors, &w->actors, a);
        if (last)
            pr_workers_leave(rt);
        return;
    }
    /* The parent is alive: it waits for this child. Its home does not change any more. */
    pr_actor *parent = pr_actor_at(&rt->actors, pr_id_slot(PR_GET(a->parent)));
    pr_worker *owner = &rt->workers[PR_GET(parent->home) - 1];
    if (owner == w) {
        pr_child_ended(w, a);
        return;
    }
    pr_actor *head = atomic_load_explicit(&owner->ended, memory_order_relaxed);
    do
        a->next_free = head;
    while (!atomic_compare_exchange_weak_explicit(&owner->ended, &head, a, memory_order_seq_cst,
                                                  memory_order_relaxed));
    pr_worker_wake(owner);
}
