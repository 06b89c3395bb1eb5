/* See trace.h. */
#include "trace.h"

#include "alloc.h"
#include "life.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 4096 };   /* of values that are shown */

typedef struct pr_trace {
    uint64_t tracer, since_ns;
    uint32_t left;
    uint64_t sender;
    uint32_t size;               /* of the values of the message in hand; copied, as handlers pass messages on */
    uint16_t count;
    bool begun, cut;
    uint8_t values[MOST_BYTES];
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

static void stop(pr_actor *a)
{
    pr_trace_free(a->extra->trace);
    a->extra->trace = NULL;
    pr_flags_clear(a, PR_FLAG_TRACED);
}

void pr_trace_free(trace *t) { pr_free(t); }

void pr_trace_told(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && extra->trace)
        stop(a);
    if (extra && m->ask > 0 && (extra->trace = pr_alloc(sizeof *extra->trace))) {   /* no memory: nothing is shown */
        trace *t = extra->trace;
        t->tracer = m->sender;
        t->left = m->ask;
        t->begun = false;
        pr_flags_set(a, PR_FLAG_TRACED);
    }
    pr_msg_free(&w->pool, m);
}

void pr_trace_begins(pr_worker *w, pr_actor *a, const pr_msg *m)
{
    trace *t = a->extra->trace;
    (void)w;
    t->since_ns = pr_now_ns();
    t->sender = m->sender;
    t->size = m->size;
    t->count = m->count;
    t->cut = m->size > MOST_BYTES;
    if (!t->cut)
        memcpy(t->values, m->data, m->size);
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
    trace *t = a->extra->trace;
    uint8_t head[HEAD + 64], *at = head;
    if (!t->begun)
        return;
    t->begun = false;
    t->left--;
    at = pr_wire_put_string(at, "\0trace", 6);
    at = put_ref(at, pr_actor_id(a));
    at = put_ref(at, t->sender);
    at = put_number(at, (double)(pr_now_ns() - t->since_ns) / 1e9);
    at = pr_wire_put_string(at, names[outcome], strlen(names[outcome]));
    at = put_number(at, t->left);
    size_t len = (size_t)(at - head);
    if (t->cut) {
        char text[64];
        int n = snprintf(text, sizeof text, "(%u values, %u bytes)", t->count, t->size);
        len = (size_t)(pr_wire_put_string(at, text, (size_t)n) - head);
        t->size = 0;
        t->count = 1;
    }
    pr_msg *m = pr_msg_new(&w->pool, len + t->size);
    pr_status status = PR_NOMEM;
    if (m) {
        memcpy(m->data, head, len);
        memcpy(m->data + len, t->values, t->size);
        m->count = (uint16_t)(6 + t->count);
        m->kind = PR_MSG_USER;
        m->target = t->tracer;
        m->sender = 0;
        status = pr_send(w->rt, w, m);
        if (status != PR_OK)
            pr_msg_free(&w->pool, m);
    }
    if (t->left == 0 || status == PR_DEAD)
        stop(a);
}
