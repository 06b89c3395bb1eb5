/* The control socket: a Unix socket with mode 0600 by which other processes of the same user look at a running one.
 *
 * One thread serves all clients by poll(2). It knows lines and no more: each line of a client becomes the message
 * "\0request", client, line to an actor, which answers by pr_control_send. A client's next line is taken when that actor
 * has said so (pr_control_next), so what a client floods waits in its own socket. A line of more than
 * PR_CONTROL_LINE bytes, or an answer that nobody reads for PR_CONTROL_PATIENCE_MS, ends the connection.
 *
 * The line that holds nothing but the byte 3 interrupts the running line of the client's session, and overtakes: it is
 * taken while earlier ones are still being answered. When a client goes, its session is interrupted, and the actor gets
 * "\0gone", client. Clients have numbers that are not given out again. */
#ifndef PR_CONTROL_H
#define PR_CONTROL_H

#include "runtime.h"

enum { PR_CONTROL_LINE = 1 << 20, PR_CONTROL_CLIENTS = 256, PR_CONTROL_ANSWERS = 4 << 20, PR_CONTROL_PATIENCE_MS = 2000 };

typedef struct pr_control_socket pr_control_socket;

/* Listens at `path`, where a socket that nobody listens at any more is replaced. NULL and a text in `error`. */
pr_control_socket *pr_control_open(pr_runtime *rt, const char *path, char *error, size_t cap);
/* Whose the lines are, from now on. Who connects before that waits. */
void pr_control_serve(pr_control_socket *c, uint64_t actor);
/* The socket's file goes, and its thread; nothing is sent to the runtime any more. Frees it if `free_it`: when no worker is
 * left that could use it; may be called again for that. */
void pr_control_close(pr_control_socket *c, bool free_it);

/* Any thread, from here on. A client that has gone is no error. */
void pr_control_next(pr_control_socket *c, double client);
/* Waits for room while the client reads. False: it has gone, or does not read. */
bool pr_control_send(pr_control_socket *c, double client, const char *bytes, size_t len);
/* The actor that its interrupts are for. */
void pr_control_bind(pr_control_socket *c, double client, uint64_t session);
/* The actor begins anew, and knows no client: all are sent away. */
void pr_control_anew(pr_control_socket *c);
/* Ends the connection once what was sent is read. */
void pr_control_hang_up(pr_control_socket *c, double client);

#endif
