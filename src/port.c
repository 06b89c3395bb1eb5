/* See port.h. */
#include "port.h"

#include "alloc.h"
#include "send_timer.h"

pr_port *pr_port_open(pr_runtime *rt)
{
    pthread_mutex_lock(&rt->root_lock);
    pr_port *port = rt->free_ports;
    if (port)
        rt->free_ports = port->next;
    pthread_mutex_unlock(&rt->root_lock);
    if (!port) {
        uint64_t id;
        port = pr_zalloc_line(sizeof *port);
        if (!port)
            return NULL;
        if (!(port->actor = pr_actor_alloc(&rt->actors, NULL, &id))) {
            pr_free(port);
            return NULL;
        }
        if (pr_parker_init(&port->parker) != 0) {
            pr_actor_free(&rt->actors, NULL, port->actor);
            pr_free(port);
            return NULL;
        }
        port->actor->kind = PR_KIND_PORT;
        port->actor->port = port;
    } else {
        port->actor->generation++;
    }
    pr_actor *a = port->actor;
    port->id = pr_id_make(a->slot, a->generation);
    PR_SET(a->behaviour, NULL);
    PR_SET(a->gate, 0);
    PR_SET(a->parent, 0);
    PR_SET(a->asking, 0);
    PR_SET(a->named, 0);
    PR_SET(a->depth, 0);
    PR_SET(a->handled, 0);
    PR_SET(a->restarts, 0);
    PR_SET(a->children, 0);
    PR_SET(a->first_child, 0);
    PR_SET(a->state, PR_STATE_IDLE);
    a->flags = 0;
    atomic_store_explicit(&a->home, PR_HOME_PORT, memory_order_relaxed);
    pr_stack_open(&a->mailbox);
    atomic_store_explicit(&a->id, port->id, memory_order_release);   /* pairs with pr_actor_find */
    return port;
}

static void discard(pr_runtime *rt, pr_msg *m)
{
    pr_dead_letter(rt, NULL, m, PR_DEAD_NOBODY);
}

void pr_port_close(pr_runtime *rt, pr_port *port)
{
    pr_actor *a = port->actor;
    pr_actor_note_generation(&rt->actors, a->generation);
    atomic_store_explicit(&a->id, 0, memory_order_seq_cst);   /* then `named`: as in die() */
    pr_actor_unname(rt, a, port->id);
    pr_user_timers_orphan(rt, NULL, a, port->id);
    pr_msg *m;
    while ((m = pr_queue_pop(&port->queue)))
        discard(rt, m);
    for (m = pr_stack_close(&a->mailbox); m;) {
        pr_msg *next = m->next;
        discard(rt, m);
        m = next;
    }
    pr_end me = pr_port_end(rt, port);
    pr_ties_end(&me, NULL);
    pthread_mutex_lock(&rt->root_lock);
    if (a->generation + 1 < PR_GENERATIONS) {   /* else retired, see actor.h */
        port->next = rt->free_ports;
        rt->free_ports = port;
    } else {
        port->next = rt->old_ports;
        rt->old_ports = port;
    }
    pthread_mutex_unlock(&rt->root_lock);
}

void pr_ports_destroy(pr_runtime *rt)
{
    pr_port *lists[] = {rt->free_ports, rt->old_ports};
    for (int i = 0; i < 2; i++)
        for (pr_port *port = lists[i], *next; port; port = next) {
            next = port->next;
            pr_parker_destroy(&port->parker);
            pr_free(port);
        }
}

void pr_port_wake(pr_actor *a)
{
    if (pr_parker_claim(&a->port->parker))
        pr_parker_notify(&a->port->parker);
}

/* What comes in beside messages and replies. */
static void take_tie(pr_runtime *rt, pr_port *port, pr_msg *m)
{
    pr_end me = pr_port_end(rt, port);
    if (m->kind == PR_MSG_DOWN) {
        pr_queue_push(&port->queue, m);   /* looked at again when it is received */
    } else if (m->kind != PR_MSG_EXIT) {
        pr_ties_told(&me, m);
    } else if (pr_ties_take_exit(&me, m)) {   /* a thread is not ended by a link: it is told */
        m->kind = PR_MSG_USER;
        PR_COUNT(rt, (pr_worker *)NULL, sent, 1);
        pr_queue_push(&port->queue, m);
    } else {
        pr_msg_free(NULL, m);
    }
}

void pr_port_collect(pr_runtime *rt, pr_port *port)
{
    for (pr_msg *m = pr_stack_take(&port->actor->mailbox), *next; m; m = next) {
        next = m->next;
        bool answer = m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR;
        if (m->target != port->id && answer) {
            PR_COUNT(rt, (pr_worker *)NULL, late_replies, 1);
            pr_msg_free(NULL, m);
        } else if (m->target != port->id) {
            discard(rt, m);   /* for an earlier bearer of the record */
        } else if (answer || m->kind == PR_MSG_USER) {
            pr_queue_push(&port->queue, m);
        } else {
            take_tie(rt, port, m);
        }
    }
}

pr_msg *pr_port_look(pr_runtime *rt, pr_port *port, uint32_t ask)
{
    pr_msg *found = NULL;
    for (pr_msg *m = pr_stack_take(&port->actor->mailbox), *next; m; m = next) {
        next = m->next;
        if (m->target != port->id) {
            discard(rt, m);   /* for an earlier bearer of the record */
        } else if (m->kind == PR_MSG_USER) {
            pr_queue_push(&port->queue, m);
        } else if (ask != 0 && m->ask == ask && !found && (m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR)) {
            found = m;
        } else if (m->kind != PR_MSG_REPLY && m->kind != PR_MSG_ERROR) {
            take_tie(rt, port, m);
        } else {
            PR_COUNT(rt, (pr_worker *)NULL, late_replies, 1);
            pr_msg_free(NULL, m);
        }
    }
    return found;
}

void pr_port_fill(pr_runtime *rt, pr_port *port)
{
    pr_port_look(rt, port, 0);
}

bool pr_port_wait(pr_port *port, uint64_t until_ns)
{
    pr_parker_prepare(&port->parker);
    if (!pr_stack_empty(&port->actor->mailbox)) {
        pr_parker_cancel(&port->parker);
        return true;
    }
    return pr_parker_sleep(&port->parker, until_ns) || !pr_stack_empty(&port->actor->mailbox);
}

pr_msg *pr_port_reply(pr_runtime *rt, pr_port *port, uint32_t ask, uint64_t until_ns)
{
    for (;;) {
        pr_msg *m = pr_port_look(rt, port, ask);
        if (m)
            return m;
        if (!pr_port_wait(port, until_ns))
            return NULL;
    }
}
