/* See explore.h. */
#include "explore.h"

#include "alloc.h"
#include "life.h"
#include "tick.h"

#include <stdio.h>
#include <string.h>

enum { HAPPENED_MOST = 100000, MESSAGE_MOST = 4096, LOG_MOST = 1 << 18 };

pr_explore *pr_explore_new(uint64_t seed, const uint32_t *only, uint32_t count)
{
    pr_explore *e = pr_zalloc(sizeof *e);
    if (!e)
        return NULL;
    e->seed = seed;
    e->turns_most = UINT64_MAX;
    e->only = only != NULL;
    if (only && count > 0) {
        e->drawn = pr_alloc(count * sizeof *only);
        if (!e->drawn) {
            pr_free(e);
            return NULL;
        }
        memcpy(e->drawn, only, count * sizeof *only);
        e->drawn_count = count;
    }
    return e;
}

void pr_explore_forget(pr_explore *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (e->happened[i].message) {
            pr_msg_free(NULL, e->happened[i].message);
            e->happened[i].message = NULL;
        }
}

void pr_explore_free(pr_explore *e)
{
    if (!e)
        return;
    pr_explore_forget(e);
    for (uint32_t i = 0; i < e->count; i++)
        pr_free(e->happened[i].text);
    pr_free(e->happened);
    pr_free(e->drawn);
    pr_free(e->taken);
    pr_free(e->log);
    pr_free(e);
}

/* A list of `size`-byte elements with room for one more behind `count`. False: no memory. */
static bool grow(void *list, uint32_t count, uint32_t *room, size_t size)
{
    void **at = list;
    if (count < *room)
        return true;
    uint32_t more = *room ? 2 * *room : 64;
    void *longer = pr_alloc(more * size);
    if (!longer)
        return false;
    if (count)
        memcpy(longer, *at, count * size);
    pr_free(*at);
    *at = longer;
    *room = more;
    return true;
}

/* --- choices */

/* The next choice as drawn; false: it is left out. */
static bool draw(pr_explore *e, uint64_t *drawn)
{
    uint32_t number = ++e->choices;
    while (e->drawn_at < e->drawn_count && e->drawn[e->drawn_at] < number)
        e->drawn_at++;
    if (e->only && !(e->drawn_at < e->drawn_count && e->drawn[e->drawn_at] == number))
        return false;
    uint64_t state = e->seed * UINT64_C(0xd1342543de82ef95) + number * UINT64_C(0x9e3779b97f4a7c15);
    *drawn = pr_tick_mix(&state);
    return true;
}

static void note_taken(pr_explore *e)
{
    if (grow(&e->taken, e->taken_count, &e->taken_room, sizeof *e->taken))
        e->taken[e->taken_count++] = e->choices;
}

uint32_t pr_explore_choose(pr_explore *e, uint32_t n)
{
    uint64_t drawn;
    if (n < 2 || !draw(e, &drawn) || drawn % n == 0)
        return 0;
    note_taken(e);
    return (uint32_t)(drawn % n);
}

/* Left out, nothing happens. */
static bool chance(pr_explore *e, double of_one)
{
    uint64_t drawn;
    if (of_one >= 1)
        return true;
    if (!draw(e, &drawn) || (double)(drawn >> 11) / 9007199254740992.0 >= of_one)
        return false;
    note_taken(e);
    return true;
}

/* --- turns */

static bool may_steal(const pr_worker *w)
{
    const pr_dispatcher *d = w->dispatcher;
    for (uint32_t i = 0; i < d->count; i++)
        if (pr_ring_count(&d->workers[i].ring) > 0 || PR_GET(d->workers[i].spill.count) > 0)
            return true;
    return false;
}

static bool is_stalled(const pr_explore *e, const pr_worker *w)
{
    return e->stalled == w->index + 1 && e->turns < e->stalled_until;
}

static bool has_something(pr_runtime *rt, pr_worker *w)
{
    return w->opened && !is_stalled(rt->tick->explore, w) && (pr_worker_has_work(w) || may_steal(w) ||
                         pr_wheel_next_ms(&w->wheel) <= pr_tick_clock_ns(rt->tick) / 1000000);
}

static pr_worker *nth(pr_runtime *rt, uint32_t n)
{
    pr_explore *e = rt->tick->explore;
    for (uint32_t i = 0; i < rt->worker_count; i++) {
        pr_worker *w = &rt->workers[(e->last + i) % rt->worker_count];
        if (has_something(rt, w) && n-- == 0)
            return w;
    }
    return NULL;
}

static uint32_t how_many(pr_runtime *rt)
{
    pr_explore *e = rt->tick->explore;
    for (;;) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < rt->worker_count; i++)
            n += has_something(rt, &rt->workers[i]);
        if (n > 0 || e->stalled == 0)
            return n;
        e->stalled = 0;
    }
}

/* One turn, of whom is drawn. False: nobody has anything to do. */
static bool turn(pr_runtime *rt)
{
    pr_explore *e = rt->tick->explore;
    /* Looking at its inboxes, one may find nothing for itself and make work for another one: so more than once. */
    for (uint32_t tries = 0; tries < 3; tries++) {
        uint32_t n = how_many(rt), first = pr_explore_choose(e, n);
        for (uint32_t i = 0; i < n; i++) {
            pr_worker *w = nth(rt, (first + i) % n);
            if (w && pr_tick_turn(rt, w)) {
                e->last = w->index;
                e->turns++;
                return true;
            }
        }
        if (n == 0)
            return false;
    }
    return false;
}

uint64_t pr_explore_turns(pr_runtime *rt, uint64_t most)
{
    uint64_t n = 0;
    while (n < most && turn(rt))
        n++;
    return n;
}

void pr_explore_others(pr_runtime *rt)
{
    pr_explore *e = rt->tick->explore;
    while (e->turns < e->turns_most && how_many(rt) > 0 && pr_explore_choose(e, 2) == 1 && turn(rt))
        ;
}

enum pr_explore_end pr_explore_wait(pr_runtime *rt, pr_stack *arrivals, uint64_t until_ns)
{
    pr_tick *t = rt->tick;
    pr_explore *e = t->explore;
    for (;;) {
        if (arrivals && !pr_stack_empty(arrivals)) {
            pr_explore_others(rt);
            return PR_EXPLORE_ARRIVED;
        }
        if (e->turns >= e->turns_most)
            return PR_EXPLORE_RESTLESS;
        if (turn(rt) || (arrivals && !pr_stack_empty(arrivals)))   /* a timer's message, in no turn */
            continue;
        uint64_t next_ms = pr_tick_next_ms(rt), next_ns = next_ms < UINT64_MAX / 1000000 ? next_ms * 1000000 : UINT64_MAX;
        if (next_ns <= until_ns && next_ns != UINT64_MAX) {
            if (next_ns > PR_GET(t->virtual_ns))
                PR_SET(t->virtual_ns, next_ns);
            continue;
        }
        if (until_ns == UINT64_MAX)
            return PR_EXPLORE_NEVER;
        if (until_ns > PR_GET(t->virtual_ns))
            PR_SET(t->virtual_ns, until_ns);
        return PR_EXPLORE_TIME;
    }
}

/* --- what happens */

static void name_of(pr_runtime *rt, uint64_t id, char *buf)
{
    size_t len = pr_registry_name_of(&rt->names, id, buf, PR_EXPLORE_NAME - 1);
    if (len)
        buf[len < PR_EXPLORE_NAME ? len : PR_EXPLORE_NAME - 1] = '\0';
    else
        pr_actor_behaviour_name(rt, id, buf, PR_EXPLORE_NAME);
}

static pr_explored *note(pr_worker *w, const pr_actor *a, enum pr_explore_what what)
{
    pr_explore *e = w->rt->tick->explore;
    if (!e->records)
        return NULL;
    if (e->count == HAPPENED_MOST || !grow(&e->happened, e->count, &e->room, sizeof *e->happened)) {
        e->missed++;
        return NULL;
    }
    pr_explored *x = &e->happened[e->count++];
    *x = (pr_explored){.ns = pr_tick_clock_ns(w->rt->tick), .actor = pr_actor_id(a), .worker = w->index, .what = (uint8_t)what};
    name_of(w->rt, x->actor, x->name);
    return x;
}

void pr_explore_note(pr_worker *w, pr_actor *a, enum pr_explore_what what, const pr_msg *m)
{
    pr_explored *x = note(w, a, what);
    if (x && m) {
        x->sender = m->sender;
        x->failed = m->kind == PR_MSG_ERROR;
        x->asked = m->ask != 0;
        x->timed = m->timed;
        x->message = m->size <= MESSAGE_MOST ? pr_msg_copy(NULL, m) : NULL;
        if (x->message) {
            x->message->next = NULL;
            x->message->timed = 0;
        }
    }
}

static char *copy_of(const char *text, size_t len)
{
    char *copy = pr_alloc(len + 1);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

/* Failures are kept whether or not the rest is. */
void pr_explore_failed(pr_worker *w, pr_actor *a, const pr_msg *failure, const char *during)
{
    pr_explore *e = w->rt->tick->explore;
    bool records = e->records;
    e->records = true;
    pr_explored *x = note(w, a, PR_EXPLORED_FAILURE);
    e->records = records;
    if (!x)
        return;
    const char *text = "not enough memory", *trace = "", *first = NULL;
    uint32_t len = 17, trace_len = 0, first_len = 0;
    if (failure) {   /* kind, message, traceback: see PR_MSG_ERROR */
        uint32_t kind_len;
        memcpy(&kind_len, failure->data + 1, 4);
        const uint8_t *at = failure->data + 5 + kind_len;
        memcpy(&len, at + 1, 4);
        text = (const char *)at + 5;
        at += 5 + len;
        if (failure->count >= 3 && *at == PR_TAG_STRING) {
            memcpy(&trace_len, at + 1, 4);
            trace = (const char *)at + 5;
        }
    }
    if (w->hand && strcmp(during, "handler") == 0)
        first = pr_msg_first_string(w->hand, &first_len);
    char head[PR_EXPLORE_TEXT];
    int n = first ? snprintf(head, sizeof head, "\"%.*s\"", (int)(first_len < 60 ? first_len : 60), first)
                  : snprintf(head, sizeof head, "%s", strcmp(during, "handler") == 0 ? "a message" : during);
    /* Three texts: at what, the error, the traceback. */
    x->text = pr_alloc((size_t)n + 1 + len + 1 + trace_len + 1);
    if (x->text) {
        memcpy(x->text, head, (size_t)n + 1);
        char *at = x->text + n + 1;
        memcpy(at, text, len);
        at[len] = '\0';
        memcpy(at + len + 1, trace, trace_len);
        at[len + 1 + trace_len] = '\0';
    }
}

void pr_explore_ended(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    pr_explored *x = note(w, a, PR_EXPLORED_END);
    uint32_t len = 0;
    const char *text = x && reason && reason->count > 0 ? pr_msg_first_string(reason, &len) : NULL;
    if (text)
        x->text = copy_of(text, len);
}

void pr_explore_log(void *explore, enum pr_log_level level, const char *text, size_t len)
{
    pr_explore *e = explore;
    const char *name = pr_log_level_name(level);
    pr_worker *w = pr_worker_here;
    if (w && w->running && !w->failure) {   /* failures are noted as such */
        pr_explored *x = note(w, w->running, PR_EXPLORED_LOG);
        if (x)
            x->text = copy_of(text, len);
    }
    size_t head = strlen(name) + 2, all = e->log_size + head + len + 1;
    char *longer = all < LOG_MOST ? pr_alloc(all + 1) : NULL;
    if (!longer)
        return;
    if (e->log_size)
        memcpy(longer, e->log, e->log_size);
    snprintf(longer + e->log_size, head + 1, "%s: ", name);
    memcpy(longer + e->log_size + head, text, len);
    longer[all - 1] = '\n';
    longer[all] = '\0';
    pr_free(e->log);
    e->log = longer;
    e->log_size = all;
}

/* --- faults */

static bool fits(pr_runtime *rt, const pr_fault *f, const pr_actor *a, const pr_msg *m)
{
    char name[PR_EXPLORE_NAME];
    uint32_t len;
    const char *first;
    if (f->actor && f->actor != pr_actor_id(a))
        return false;
    if (f->first[0] && (!(first = pr_msg_first_string(m, &len)) || len != strlen(f->first) || memcmp(first, f->first, len) != 0))
        return false;
    if (!f->name[0])
        return true;
    name_of(rt, pr_actor_id(a), name);
    if (strcmp(name, f->name) == 0)
        return true;
    pr_actor_behaviour_name(rt, pr_actor_id(a), name, sizeof name);
    return strcmp(name, f->name) == 0;
}

const pr_fault *pr_explore_strikes(pr_worker *w)
{
    pr_explore *e = w->rt->tick->explore;
    if (!w->hand)
        return NULL;
    for (uint32_t i = 0; i < e->fault_count; i++) {
        pr_fault *f = &e->faults[i];
        if (f->done >= f->most || !fits(w->rt, f, w->running, w->hand))
            continue;
        if (++f->seen < f->from || (f->seen - f->from) % f->every != 0 || !chance(e, f->chance))
            continue;
        f->done++;
        static const char *const names[] = {"the handler fails", "the handler is slow", "it is not answered", "the actor is killed"};
        pr_explored *x = note(w, w->running, PR_EXPLORED_FAULT);
        if (x)
            x->text = copy_of(names[f->action], strlen(names[f->action]));
        return f;
    }
    return NULL;
}
