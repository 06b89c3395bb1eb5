/* Turns that hold their worker for too long, reported while they last, an actor at most once in PR_SLOW_TURN_AGAIN_MS: topic
 * "slow_turn".
 *
 * A thread of its own looks at every worker each PR_WATCHDOG_LOOK_MS; it is started by the first subscription, so a
 * program without one has none, and sleeps while there is none. Workers of the dispatchers for blocking calls are left out: holding them is what they
 * are for. */
#ifndef PR_WATCHDOG_H
#define PR_WATCHDOG_H

#include "runtime.h"

enum { PR_WATCHDOG_LOOK_MS = 10, PR_SLOW_TURN_MS = 100, PR_SLOW_TURN_AGAIN_MS = 1000 };

/* After a subscription has been noted: starts it unless it runs, wakes it if it sleeps. Any thread. PR_OK, PR_NOMEM,
 * PR_STOPPING. */
pr_status pr_watchdog_wanted(pr_runtime *rt);
/* Ends it if it runs, and for good. One thread. */
void pr_watchdog_stop(pr_runtime *rt);

#endif
