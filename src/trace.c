/* See trace.h. */
#include "trace.h"

#include "alloc.h"
#include "explore.h"
#include "life.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 4096 };   /* of values that are shown */

typedef struct pr_trace {
    uint64_t tracer, since_ns;
    uint32_t left;
    uint64_t sender;
    uint32_t size, count;        /* of the message in hand */
    bool begun;
    pr_msg *shown;               /* a copy of it, as handlers pass messages on; NULL: too big, or no memory */
} trace;

pr_status pr_trace(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t tracer, uint32_t count)
{
    pr_msg *m = pr_msg_new(w ? &w->pool : NULL, 0);
    if (!m)
        return PR_NOMEM;
    m->kind = PR_MSG_TRACE;
    m->target = target;
    m->sender = tracer;
    m->ask = count;
    pr_status status = pr_control(rt, w, m);
    if (status != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, m);
    return status;
}

static void stop(pr_runtime *rt, pr_actor *a)
{
    pr_trace_free(a->extra->trace);
    a->extra->trace = NULL;
    if (a->extra->timeslice_ns == 0 && !rt->config.explore)
        pr_flags_clear(a, PR_FLAG_APART);
}

void pr_trace_free(trace *t)
{
    if (t && t->shown)
        pr_msg_free(NULL, t->shown);
    pr_free(t);
}

void pr_trace_told(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && extra->trace)
        stop(w->rt, a);
    if (extra && m->ask > 0 && (extra->trace = pr_zalloc(sizeof *extra->trace))) {   /* no memory: nothing is shown */
        trace *t = extra->trace;
        t->tracer = m->sender;
        t->left = m->ask;
        pr_flags_set(a, PR_FLAG_APART);
    }
    pr_msg_free(&w->pool, m);
}

void pr_trace_begins(pr_worker *w, pr_actor *a, const pr_msg *m)
{
    trace *t = a->extra ? a->extra->trace : NULL;
    if (w->rt->config.explore)
        pr_explore_note(w, a, PR_EXPLORED_MESSAGE, m);
    if (!t)
        return;
    t->since_ns = pr_now_ns();
    t->sender = m->sender;
    t->size = m->size;
    t->count = m->count;
    pr_msg_drop(w, t->shown);
    t->shown = m->size <= MOST_BYTES ? pr_msg_copy(&w->pool, m) : NULL;
    t->begun = true;
}

static uint8_t *put_number(uint8_t *at, double value)
{
    *at++ = PR_TAG_NUMBER;
    memcpy(at, &value, 8);
    return at + 8;
}

static uint8_t *put_ref(uint8_t *at, uint64_t id)
{
    if (id == 0) {
        *at++ = PR_TAG_NIL;
        return at;
    }
    *at++ = PR_TAG_REF;
    memcpy(at, &id, 8);
    return at + 8;
}

void pr_trace_ends(pr_worker *w, pr_actor *a, pr_outcome outcome)
{
    static const char *const names[] = {"done", "suspended", "failed", "unhandled"};
    enum { HEAD = 100 };
    trace *t = a->extra ? a->extra->trace : NULL;
    uint8_t head[HEAD + 64], *at = head;
    if (!t || !t->begun)
        return;
    t->begun = false;
    t->left--;
    at = pr_wire_put_string(at, "\0trace", 6);
    at = put_ref(at, pr_actor_id(a));
    at = put_ref(at, t->sender);
    at = put_number(at, (double)(pr_now_ns() - t->since_ns) / 1e9);
    at = pr_wire_put_string(at, names[outcome], strlen(names[outcome]));
    at = put_number(at, t->left);
    pr_msg *shown = t->shown;
    if (!shown) {
        char text[64];
        int n = snprintf(text, sizeof text, "(%u values, %u bytes)", t->count, t->size);
        at = pr_wire_put_string(at, text, (size_t)n);
    }
    size_t len = (size_t)(at - head);
    pr_msg *m = pr_msg_new(&w->pool, len + (shown ? shown->size : 0));
    pr_status status = PR_NOMEM;
    if (m) {
        memcpy(m->data, head, len);
        if (shown)
            memcpy(m->data + len, shown->data, shown->size);
        m->count = (uint16_t)(6 + (shown ? shown->count : 1));
        m->kind = PR_MSG_USER;
        m->target = t->tracer;
        m->sender = 0;
        if (shown && pr_msg_holds(shown))
            pr_msg_hold_shares(m);
        status = pr_send(w->rt, w, m);
        if (status != PR_OK)
            pr_msg_free(&w->pool, m);
    }
    pr_msg_drop(w, shown);
    t->shown = NULL;
    if (t->left == 0 || status == PR_DEAD)
        stop(w->rt, a);
}
