/* Handlers of a reentrant actor that are suspended while it takes further messages.
 *
 * One handler of an actor runs at a time, here as everywhere. But where the handler of an ordinary actor waits in
 * `a->wait` and its actor with it, that of a reentrant one is parked, and the actor takes the next message; until as many
 * are parked as its bound allows. Then, and while one of them waits in `receive` (the next message is that one's), or
 * the actor has been told to stop, flag SUSPENDED says that it takes none. Parked handlers go on in the order in which
 * what they waited for came, in turn with new messages, so that neither starves the other.
 *
 * `start` and `stop` are not parked, nor is a handler that stands back in the middle of a tell (which is no waiting, to
 * whoever wrote it): these wait in `a->wait`, alone.
 *
 * The end of a life drops what is parked. After a failure that is when the parent has decided: if it says "resume", they
 * go on. All on the actor's owner. */
#include "worker.h"

static void unlink_wait(pr_waits *list, pr_wait *wait)
{
    *(wait->previous ? &wait->previous->next : &list->first) = wait->next;
    *(wait->next ? &wait->next->previous : &list->last) = wait->previous;
}

static void append(pr_waits *list, pr_wait *wait)
{
    wait->next = NULL;
    wait->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = wait;
    list->last = wait;
}

static void leave(pr_parked *p, pr_wait *wait)
{
    unlink_wait(wait->ready ? &p->ready : &p->waiting, wait);
    p->count--;
    p->receiving -= wait->kind == PR_WAIT_RECEIVE;
}

void pr_parked_flags(pr_actor *a)
{
    pr_parked *p = &a->extra->parked;
    unsigned flags = a->flags & ~(unsigned)(PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING);
    if (a->wait || a->flags & PR_FLAG_ENDING)
        return;   /* those of the one that waits alone; or none, until the end or the parent's word */
    if (p->count >= p->most || p->receiving > 0 || (p->count > 0 && a->flags & PR_FLAG_STOP))
        flags |= PR_FLAG_SUSPENDED;
    if (p->ready.first)
        flags |= PR_FLAG_RESUME;
    if (p->receiving > 0)
        flags |= PR_FLAG_RECEIVING;
    a->flags = (uint16_t)flags;
}

void pr_park(pr_actor *a)
{
    pr_parked *p = &a->extra->parked;
    pr_wait *wait = a->wait;
    a->wait = NULL;
    wait->parked = true;
    wait->ready = wait->reply || wait->timed_out || wait->kind == PR_WAIT_YIELD;
    append(wait->ready ? &p->ready : &p->waiting, wait);
    p->count++;
    p->receiving += wait->kind == PR_WAIT_RECEIVE;
    pr_parked_flags(a);
}

pr_wait *pr_unpark(pr_actor *a)
{
    pr_parked *p = &a->extra->parked;
    pr_wait *wait = p->ready.first;
    leave(p, wait);
    wait->parked = false;
    p->resumed_last = true;
    a->flags = (uint16_t)(a->flags & ~(PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING));
    if (p->receiving > 0)   /* what comes while this one runs still is theirs */
        a->flags |= PR_FLAG_SUSPENDED | PR_FLAG_RECEIVING;
    return wait;
}

void pr_parked_ready(pr_wait *wait)
{
    pr_parked *p = &wait->actor->extra->parked;
    if (wait->ready)
        return;
    unlink_wait(&p->waiting, wait);
    wait->ready = true;
    append(&p->ready, wait);
}

bool pr_parked_lets_message(pr_actor *a)
{
    pr_parked *p = &a->extra->parked;
    bool lets = p->resumed_last;
    p->resumed_last = false;
    return lets;
}

pr_wait *pr_parked_ask(pr_actor *a, uint32_t ask)
{
    pr_wait *wait = a->extra->parked.waiting.first;
    while (wait && !((wait->kind == PR_WAIT_ASK || wait->kind == PR_WAIT_SEND) && wait->ask == ask))
        wait = wait->next;
    return wait;
}

void pr_parked_receive(pr_worker *w, pr_actor *a)
{
    for (pr_wait *wait = a->extra->parked.waiting.first, *next; wait; wait = next) {
        next = wait->next;
        if (wait->kind == PR_WAIT_RECEIVE)
            pr_wait_satisfy(w, wait);
    }
}

bool pr_parked_all_wait_for(const pr_actor *a, uint64_t target)
{
    const pr_parked *p = &a->extra->parked;
    if (p->count + 1 < p->most || p->ready.first)
        return false;
    for (const pr_wait *wait = p->waiting.first; wait; wait = wait->next)
        if (wait->whom != target)
            return false;
    return true;
}

/* Answering may satisfy others of them (an actor may have asked itself): so each time the first. */
void pr_parked_drop(pr_worker *w, pr_actor *a, bool receiving_only, const pr_msg *error)
{
    pr_parked *p = &a->extra->parked;
    for (;;) {
        pr_wait *wait = p->ready.first ? p->ready.first : p->waiting.first;
        while (receiving_only && wait && wait->kind != PR_WAIT_RECEIVE)
            wait = wait->next || !wait->ready ? wait->next : p->waiting.first;
        if (!wait)
            break;
        leave(p, wait);
        a->ops->abandon(w, a, wait->suspended);
        w->hand = wait->hand;
        if (error)
            pr_hand_failed(w, a, error);
        pr_hand_finish(w, "dead", "the actor was ended while it handled this");
        pr_wait_free(w, wait);
    }
    pr_waits_no_more(a);
    pr_parked_flags(a);
}
