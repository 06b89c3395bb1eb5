/* The runtime's own events, for those who subscribe to a topic: each arrives as the message "event", topic, details.
 *
 * A subscription holds at most PR_EVENTS_PENDING events that its subscriber has not taken yet; more are lost for that
 * one, and the next that it gets says how many in `lost`. So a slow subscriber slows nobody and fills no memory. What
 * nobody has subscribed to costs one look at a word.
 *
 * An event message carries its subscription as its `timer`, whose references count what is pending: taking, dropping
 * or cancelling it gives one back, as for the messages of any timer. Subscriptions end with their actor, not with a
 * restart. Any thread. */
#ifndef PR_EVENTS_H
#define PR_EVENTS_H

#include "message.h"

#include <pthread.h>
#include <stdatomic.h>

struct pr_runtime;
struct pr_worker;
struct pr_actor;

enum pr_topic {
    PR_TOPIC_DEAD_LETTER, PR_TOPIC_FAILURE, PR_TOPIC_RESTART, PR_TOPIC_OVERLOAD, PR_TOPIC_SLOW_TURN, PR_TOPIC_STOPPED,
    PR_TOPICS
};

enum { PR_EVENTS_PENDING = 256 };

struct pr_subscription;

typedef struct pr_events {
    pthread_mutex_t lock;                    /* guards the list */
    struct pr_subscription *list;
    _Atomic uint32_t topics;                 /* a bit for each topic that somebody wants; relaxed, a hint */
    _Atomic uint64_t lost;                   /* relaxed */
} pr_events;

int pr_events_init(pr_events *e);
void pr_events_destroy(pr_events *e);

/* -1: there is no such topic. */
int pr_topic_parse(const char *name);

/* PR_OK, PR_EXISTS (it has that topic already), PR_DEAD, PR_NOMEM, PR_STOPPING as pr_status. */
int pr_event_subscribe(struct pr_runtime *rt, uint64_t id, enum pr_topic topic);
/* Whether it had that topic. After it none of its events is handled any more, even if it is queued already. */
bool pr_event_unsubscribe(struct pr_runtime *rt, uint64_t id, enum pr_topic topic);
void pr_event_unsubscribe_all(struct pr_runtime *rt, uint64_t id);

/* Details: a table of strings to values, as bytes of the wire's BLOB. What does not fit is left out. */
typedef struct pr_details {
    uint32_t count;
    size_t size;
    uint8_t bytes[2000];
} pr_details;
void pr_details_ref(pr_details *d, const char *key, uint64_t id);      /* nothing for 0 */
void pr_details_number(pr_details *d, const char *key, double value);
void pr_details_text(pr_details *d, const char *key, const char *text, size_t len);   /* cut at 500 bytes */
void pr_details_flag(pr_details *d, const char *key, bool value);

/* Whether it is worth making details. */
#define pr_event_wanted(rt, topic) \
    ((atomic_load_explicit(&(rt)->events.topics, memory_order_relaxed) & 1u << (topic)) != 0)
/* `w`: the calling worker or NULL. Not with a lock of the runtime held. */
void pr_event_publish(struct pr_runtime *rt, struct pr_worker *w, enum pr_topic topic, const pr_details *d);

/* What the runtime has to tell; each looks first whether anybody listens. */
void pr_event_dead_letter(struct pr_runtime *rt, struct pr_worker *w, const pr_msg *m, const char *reason);
void pr_event_failure(struct pr_worker *w, struct pr_actor *a, const pr_msg *failure, const char *during);
void pr_event_restart(struct pr_worker *w, struct pr_actor *a);
void pr_event_stopped(struct pr_worker *w, struct pr_actor *a, const pr_msg *reason);   /* before its id goes */
void pr_event_overload(struct pr_runtime *rt, struct pr_worker *w, uint64_t id, uint32_t depth, uint32_t threshold,
                       bool back);

#endif
