/* See events.h. */
#include "events.h"

#include "alloc.h"
#include "explore.h"
#include "send_timer.h"
#include "watchdog.h"

static const char *const topic_names[PR_TOPICS] = {"dead_letter", "failure", "restart", "overload", "slow_turn", "stopped"};

typedef struct pr_subscription {
    pr_user_timer timer;      /* comes first; its references: the list's, and one for each pending event */
    struct pr_subscription *next;
    uint64_t id;
    enum pr_topic topic;
    _Atomic uint64_t lost;    /* not reported yet; relaxed */
} subscription;

int pr_events_init(pr_events *e)
{
    e->list = NULL;
    return pthread_mutex_init(&e->lock, NULL);
}

void pr_events_destroy(pr_events *e)
{
    while (e->list) {
        subscription *s = e->list;
        e->list = s->next;
        pr_free(s);
    }
    pthread_mutex_destroy(&e->lock);
}

int pr_topic_parse(const char *name)
{
    for (int i = 0; i < PR_TOPICS; i++)
        if (strcmp(topic_names[i], name) == 0)
            return i;
    return -1;
}

/* With the lock held. */
static void note_topics(pr_events *e)
{
    uint32_t topics = 0;
    for (const subscription *s = e->list; s; s = s->next)
        topics |= 1u << s->topic;
    atomic_store_explicit(&e->topics, topics, memory_order_relaxed);
}

int pr_event_subscribe(pr_runtime *rt, uint64_t id, enum pr_topic topic)
{
    pr_events *e = &rt->events;
    pr_actor *a = pr_actor_find(&rt->actors, id);
    if (!a)
        return PR_DEAD;
    subscription *s = pr_zalloc(sizeof *s);
    if (!s)
        return PR_NOMEM;
    atomic_store_explicit(&s->timer.references, 1, memory_order_relaxed);
    s->id = id;
    s->topic = topic;
    bool known = false;
    pthread_mutex_lock(&e->lock);
    for (const subscription *other = e->list; other; other = other->next)
        known |= other->id == id && other->topic == topic;
    if (!known) {
        s->next = e->list;
        e->list = s;
        note_topics(e);
    }
    pthread_mutex_unlock(&e->lock);
    if (known) {
        pr_free(s);
        return PR_EXISTS;
    }
    /* As for names: see pr_name_register. */
    atomic_fetch_or_explicit(&a->named, PR_SUBSCRIBED, memory_order_seq_cst);
    if (atomic_load_explicit(&a->id, memory_order_seq_cst) != id) {
        pr_event_unsubscribe(rt, id, topic);
        return PR_DEAD;
    }
    pr_status watched = topic == PR_TOPIC_SLOW_TURN ? pr_watchdog_wanted(rt) : PR_OK;
    if (watched != PR_OK)
        pr_event_unsubscribe(rt, id, topic);
    return (int)watched;
}

/* topic PR_TOPICS: all. How many. */
static uint32_t unsubscribe(pr_runtime *rt, uint64_t id, enum pr_topic topic)
{
    pr_events *e = &rt->events;
    subscription *gone = NULL;
    uint32_t n = 0;
    pthread_mutex_lock(&e->lock);
    for (subscription **at = &e->list; *at;) {
        subscription *s = *at;
        if (s->id != id || (topic != PR_TOPICS && s->topic != topic)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = gone;
        gone = s;
        n++;
    }
    note_topics(e);
    pthread_mutex_unlock(&e->lock);
    while (gone) {
        subscription *s = gone;
        gone = s->next;
        /* release pairs with the acquire in pr_user_timer_deliver: what is queued is dropped there */
        atomic_store_explicit(&s->timer.state, PR_TIMER_CANCELLED, memory_order_release);
        pr_user_timer_drop(rt, NULL, &s->timer);
    }
    return n;
}

bool pr_event_unsubscribe(pr_runtime *rt, uint64_t id, enum pr_topic topic) { return unsubscribe(rt, id, topic) > 0; }
void pr_event_unsubscribe_all(pr_runtime *rt, uint64_t id) { unsubscribe(rt, id, PR_TOPICS); }

/* --- details: the format of LuaJIT's string.buffer (lj_serialize.c), as far as it is needed */

enum { TAG_FALSE = 0x01, TAG_TRUE = 0x02, TAG_LIGHTUD64 = 0x05, TAG_NUMBER = 0x07, TAG_HASH = 0x09, TAG_STRING = 0x20 };
enum { TEXT_MAX = 500 };

/* Numbers up to 0x1fdf, which is all that is needed here. */
static uint8_t *put_u124(uint8_t *at, uint32_t v)
{
    if (v < 0xe0) {
        *at++ = (uint8_t)v;
    } else {
        v -= 0xe0;
        *at++ = (uint8_t)(0xe0 | v >> 8);
        *at++ = (uint8_t)v;
    }
    return at;
}

static uint8_t *put_text(uint8_t *at, const char *text, size_t len)
{
    at = put_u124(at, TAG_STRING + (uint32_t)len);
    memcpy(at, text, len);
    return at + len;
}

/* Where a value of up to `room` bytes may go after its key; NULL: it does not fit. */
static uint8_t *begin(pr_details *d, const char *key, size_t room)
{
    size_t len = strlen(key);
    if (d->size + len + room + 2 > sizeof d->bytes)
        return NULL;
    d->count++;
    return put_text(d->bytes + d->size, key, len);
}

static void end(pr_details *d, const uint8_t *at) { d->size = (size_t)(at - d->bytes); }

void pr_details_ref(pr_details *d, const char *key, uint64_t id)
{
    uint8_t *at = id ? begin(d, key, 9) : NULL;
    if (at) {
        *at++ = TAG_LIGHTUD64;
        memcpy(at, &id, 8);
        end(d, at + 8);
    }
}

void pr_details_number(pr_details *d, const char *key, double value)
{
    uint8_t *at = begin(d, key, 9);
    if (at) {
        *at++ = TAG_NUMBER;
        memcpy(at, &value, 8);
        end(d, at + 8);
    }
}

void pr_details_text(pr_details *d, const char *key, const char *text, size_t len)
{
    if (len > TEXT_MAX)
        len = TEXT_MAX;
    uint8_t *at = begin(d, key, len + 2);
    if (at)
        end(d, put_text(at, text, len));
}

void pr_details_flag(pr_details *d, const char *key, bool value)
{
    uint8_t *at = begin(d, key, 1);
    if (at) {
        *at++ = value ? TAG_TRUE : TAG_FALSE;
        end(d, at);
    }
}

/* --- publishing */

static pr_msg *make(pr_worker *w, enum pr_topic topic, const pr_details *d, uint64_t lost)
{
    pr_details all = *d;
    if (lost > 0)
        pr_details_number(&all, "lost", (double)lost);
    size_t topic_len = strlen(topic_names[topic]), blob = 1 + 1 + all.size;   /* fewer than 0xe0 pairs fit */
    pr_msg *m = pr_msg_new_timed(w ? &w->pool : NULL,
                           pr_wire_size_bytes(5) + pr_wire_size_bytes(topic_len) + pr_wire_size_bytes(blob));
    if (!m)
        return NULL;
    uint8_t *at = pr_wire_put_string(m->data, "event", 5);
    at = pr_wire_put_string(at, topic_names[topic], topic_len);
    uint32_t blob_size = (uint32_t)blob;
    *at++ = PR_TAG_BLOB;
    memcpy(at, &blob_size, 4);
    at += 4;
    *at++ = TAG_HASH;
    at = put_u124(at, all.count);
    memcpy(at, all.bytes, all.size);
    m->count = 3;
    m->kind = PR_MSG_USER;
    return m;
}

static void lose(pr_runtime *rt, pr_worker *w, subscription *s, uint64_t n)
{
    atomic_fetch_add_explicit(&s->lost, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&rt->events.lost, 1, memory_order_relaxed);
    pr_user_timer_drop(rt, w, &s->timer);
}

/* The caller's reference goes along with the message, or is given back. */
static void send(pr_runtime *rt, pr_worker *w, subscription *s, const pr_details *d)
{
    uint64_t lost = atomic_exchange_explicit(&s->lost, 0, memory_order_relaxed);
    pr_msg *m = make(w, s->topic, d, lost);
    if (!m) {
        lose(rt, w, s, lost + 1);
        return;
    }
    m->target = s->id;
    pr_msg_set_timer(m, &s->timer);
    if (pr_send(rt, w, m) == PR_OK)
        return;
    PR_COUNT(rt, w, rejected, (uint64_t)-1);   /* nobody's tell */
    m->timed = 0;
    pr_msg_free(w ? &w->pool : NULL, m);
    lose(rt, w, s, lost + 1);
}

void pr_event_publish(pr_runtime *rt, pr_worker *w, enum pr_topic topic, const pr_details *d)
{
    enum { SOME = 16 };
    pr_events *e = &rt->events;
    uint32_t done = 0;
    bool more = true;
    while (more) {   /* in portions: sending happens without the lock */
        subscription *some[SOME];
        uint32_t n = 0, skip = done;
        more = false;
        pthread_mutex_lock(&e->lock);
        for (subscription *s = e->list; s; s = s->next) {
            if (s->topic != topic)
                continue;
            if (skip > 0) {
                skip--;
                continue;
            }
            if (n == SOME) {
                more = true;
                break;
            }
            done++;
            if (atomic_fetch_add_explicit(&s->timer.references, 1, memory_order_relaxed) > PR_EVENTS_PENDING)
                lose(rt, w, s, 1);   /* the list's reference keeps it */
            else
                some[n++] = s;
        }
        pthread_mutex_unlock(&e->lock);
        for (uint32_t i = 0; i < n; i++)
            send(rt, w, some[i], d);
    }
}

/* --- what there is to tell */

static void put_string_at(pr_details *d, const char *key, const uint8_t *at)
{
    uint32_t len;
    if (at[0] != PR_TAG_STRING)
        return;
    memcpy(&len, at + 1, 4);
    pr_details_text(d, key, (const char *)at + 5, len);
}

static void put_who(pr_runtime *rt, pr_details *d, uint64_t id)
{
    char name[256];
    pr_details_ref(d, "actor", id);
    pr_details_text(d, "behaviour", name, pr_actor_behaviour_name(rt, id, name, sizeof name));
    size_t len = pr_registry_name_of(&rt->names, id, name, sizeof name);
    if (len)
        pr_details_text(d, "name", name, len);
}

void pr_event_dead_letter(pr_runtime *rt, pr_worker *w, const pr_msg *m, const char *reason)
{
    if (!pr_event_wanted(rt, PR_TOPIC_DEAD_LETTER))
        return;
    pr_details d = {0};
    pr_details_ref(&d, "target", m->target);
    pr_details_ref(&d, "sender", m->sender);
    pr_details_text(&d, "reason", reason, strlen(reason));
    pr_details_number(&d, "values", m->count);
    if (m->count > 0)
        put_string_at(&d, "message", m->data);
    pr_event_publish(rt, w, PR_TOPIC_DEAD_LETTER, &d);
}

void pr_event_failure(pr_worker *w, pr_actor *a, const pr_msg *failure, const char *during)
{
    if (w->rt->config.failed)
        w->rt->config.failed(w, a, failure, during);
    if (!pr_event_wanted(w->rt, PR_TOPIC_FAILURE))
        return;
    pr_details d = {0};
    put_who(w->rt, &d, PR_GET(a->id));
    pr_details_text(&d, "during", during, strlen(during));
    if (failure) {   /* kind, message, traceback ...: see PR_MSG_ERROR */
        uint32_t kind_len, len;
        memcpy(&kind_len, failure->data + 1, 4);
        const uint8_t *message = failure->data + 5 + kind_len;
        memcpy(&len, message + 1, 4);
        put_string_at(&d, "error", message);
        put_string_at(&d, "traceback", message + 5 + len);
    }
    pr_event_publish(w->rt, w, PR_TOPIC_FAILURE, &d);
}

void pr_event_restart(pr_worker *w, pr_actor *a)
{
    if (!pr_event_wanted(w->rt, PR_TOPIC_RESTART))
        return;
    pr_details d = {0};
    put_who(w->rt, &d, PR_GET(a->id));
    pr_details_number(&d, "restarts", PR_GET(a->restarts));
    pr_event_publish(w->rt, w, PR_TOPIC_RESTART, &d);
}

void pr_event_stopped(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    if (w->rt->config.explore)
        pr_explore_ended(w, a, reason);
    if (!pr_event_wanted(w->rt, PR_TOPIC_STOPPED))
        return;
    pr_details d = {0};
    put_who(w->rt, &d, PR_GET(a->id));
    if (reason && reason->count > 0)
        put_string_at(&d, "reason", reason->data);
    else
        pr_details_text(&d, "reason", "normal", 6);
    pr_details_number(&d, "processed", (double)PR_GET(a->handled));
    pr_details_number(&d, "restarts", PR_GET(a->restarts));
    pr_event_publish(w->rt, w, PR_TOPIC_STOPPED, &d);
}

void pr_event_overload(pr_runtime *rt, pr_worker *w, uint64_t id, uint32_t depth, uint32_t threshold, bool back)
{
    if (!pr_event_wanted(rt, PR_TOPIC_OVERLOAD))
        return;
    pr_details d = {0};
    put_who(rt, &d, id);
    pr_details_number(&d, "depth", depth);
    pr_details_number(&d, "threshold", threshold);
    pr_details_flag(&d, "over", !back);
    pr_event_publish(rt, w, PR_TOPIC_OVERLOAD, &d);
}
