/* A port: how a thread that is no worker takes part. It has an id like an actor, so that outside code can
 * be a sender, ask, receive and be answered; its mailbox is read by the thread that opened it, which sleeps
 * in pr_port_take. Ports come from the runtime's own list and their records are used for nothing else, so
 * that a late sender always finds a parker behind them. */
#ifndef PR_PORT_H
#define PR_PORT_H

#include "parker.h"
#include "runtime.h"

typedef struct pr_port {
    pr_actor *actor;
    uint64_t id;
    pr_parker parker;
    pr_queue queue;           /* taken from the stack and not asked for yet; the port's thread */
    uint32_t next_ask;
    pr_ties ties;             /* its links and monitors; the port's thread */
    struct pr_port *next;     /* the runtime's lists */
} pr_port;

/* Any thread. NULL: no memory. */
pr_port *pr_port_open(pr_runtime *rt);
/* The port's thread. What is still queued becomes dead letters. */
void pr_port_close(pr_runtime *rt, pr_port *port);
/* The port's thread: the reply to ask number `ask`; NULL when `until_ns` passes first. User messages that come
 * in meanwhile are queued, older replies dropped. The caller frees it. */
pr_msg *pr_port_reply(pr_runtime *rt, pr_port *port, uint32_t ask, uint64_t until_ns);
/* The port's thread: takes what has come in, as above; the reply if it is there, else NULL. */
pr_msg *pr_port_look(pr_runtime *rt, pr_port *port, uint32_t ask);
/* The port's thread: queues what has come in. */
void pr_port_fill(pr_runtime *rt, pr_port *port);
/* The same; answers are queued too, whichever ask they are to. */
void pr_port_collect(pr_runtime *rt, pr_port *port);
/* The port's thread: sleeps until something comes in (true) or until then (false). */
bool pr_port_wait(pr_port *port, uint64_t until_ns);
/* A sender, after its push. */
void pr_port_wake(pr_actor *a);
static inline pr_end pr_port_end(pr_runtime *rt, pr_port *port) { return (pr_end){rt, NULL, port->id, &port->ties}; }
void pr_ports_destroy(pr_runtime *rt);

#endif
