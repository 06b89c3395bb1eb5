/* Looking at what only an actor's owner knows: where its handler waits, or where that begins which comes next or was last;
 * whom it is tied to.
 *
 * It is asked by an order, which overtakes what is queued, and answers by a message; one whose handler does not come to an
 * end or a wait answers when it does. An actor that nobody looks at pays nothing. */
#ifndef PR_LOOK_H
#define PR_LOOK_H

#include "actor.h"
#include "message.h"

enum { PR_LOOK_TIES = 20 };   /* of each kind, that are named */

/* Any thread. `looker` gets "\0seen", actor, place ("FILE:LINE", or nil: it has done nothing yet), and, with `ties`, how many
 * it is linked to, watches, and is watched by, and then the first PR_LOOK_TIES of each of these. */
pr_status pr_look(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t looker, bool ties);
/* The order that makes, on the owner. Consumes `m`. */
void pr_look_told(pr_worker *w, pr_actor *a, pr_msg *m);

#endif
