/* Messages that an actor keeps for later: stash and unstash.
 *
 * A stashed message is a copy of the one in hand with its sender and its pending ask, which leaves the one in hand.
 * It counts as handled only once it is handled for good. A restart puts what is kept back in front of the mailbox;
 * an end makes dead letters of it. An actor with a bounded mailbox keeps as many as that holds; put back, they are
 * above its capacity. All on the actor's owner. */
#include "worker.h"

pr_status pr_stash(pr_worker *w, pr_actor *a, pr_msg *hand)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && PR_GET(a->gate) & PR_GATE_BOXED && extra->stashed >= pr_box_capacity(w->rt, a))
        return PR_FULL;
    pr_msg *copy = extra ? pr_msg_copy(&w->pool, hand) : NULL;
    if (!copy)
        return PR_NOMEM;
    copy->taken = 0;
    copy->ordered = 0;
    hand->ordered |= PR_MSG_STASHED;   /* seen by a second stash of the same message */
    hand->ask = 0;
    pr_queue_push(&extra->stash, copy);
    extra->stashed++;
    PR_BUMP(a->handled, (uint64_t)-1);
    PR_BUMP(w->counters.handled, (uint64_t)-1);
    return PR_OK;
}

uint32_t pr_unstash(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = a->extra;
    uint32_t n = extra ? extra->stashed : 0;
    if (n == 0)
        return 0;
    if (PR_GET(a->gate) & PR_GATE_BOXED) {
        pr_box_put_front(w, a, &extra->stash);
    } else {
        extra->stash.tail->next = a->user.head;
        if (!a->user.head)
            a->user.tail = extra->stash.tail;
        a->user.head = extra->stash.head;
        PR_BUMP(a->depth, n);
    }
    extra->stash = (pr_queue){NULL, NULL};
    extra->stashed = 0;
    return n;
}
