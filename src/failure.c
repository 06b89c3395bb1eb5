/* A handler, `start` or `stop` has raised: it is logged, told to subscribers and to the ask in hand, and ends the life.
 *
 * The failure is the actor's alone: nothing here depends on memory, and nobody else is touched but by what is sent to
 * them. What follows is ending.c's. */
#include "life.h"

#include "alloc.h"

#include <stdio.h>

static char *put(char *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

/* A string value at *at, which goes on behind it; NULL and 0 for another value. */
static const char *take_string(const uint8_t **at, uint32_t *len)
{
    *len = 0;
    if (**at != PR_TAG_STRING)
        return NULL;
    memcpy(len, *at + 1, 4);
    const char *text = (const char *)*at + 5;
    *at += 5 + *len;
    return text;
}

static void log_failure(pr_worker *w, pr_actor *a, const char *during)
{
    bool script = a->kind == PR_KIND_SCRIPT;
    if (!script && (!pr_log_on(&w->rt->log, PR_LOG_ERROR) || !pr_log_gate(&w->rt->log)))
        return;
    char head[512], who[256], what[96] = "";
    uint32_t len = 0, text_len = 17, trace_len = 0;
    const char *first = w->hand && !(a->flags & PR_FLAG_STARTING) ? pr_msg_first_string(w->hand, &len) : NULL;
    pr_actor_describe(w->rt, pr_actor_id(a), who, sizeof who);
    if (first)
        snprintf(what, sizeof what, " for \"%.*s\"", (int)(len < 60 ? len : 60), first);
    const char *text = "not enough memory", *trace = NULL;
    if (w->failure) {   /* kind, message, traceback, cause: see PR_MSG_ERROR */
        const uint8_t *at = w->failure->data;
        take_string(&at, &len);
        text = take_string(&at, &text_len);
        trace = take_string(&at, &trace_len);
    }
    int n = snprintf(head, sizeof head, "%s failed %s%s: ", who, during, what);
    char *line = pr_alloc((size_t)n + text_len + 1 + trace_len);
    if (!line) {
        pr_logf_of(&w->rt->log, pr_actor_id(a), PR_LOG_ERROR, "%sthere is no memory to say how", head);
        return;
    }
    char *end = put(put(line, head, (size_t)n), text, text_len);
    if (trace)
        end = put(put(end, "\n", 1), trace, trace_len);
    if (script)
        pr_log_last_words(&w->rt->log, line, (size_t)(end - line));
    else
        pr_log_write_of(&w->rt->log, pr_actor_id(a), PR_LOG_ERROR, line, (size_t)(end - line));
    pr_free(line);
}

static void fail_life(pr_worker *w, pr_actor *a)
{
    pr_extra *extra = pr_actor_extra(a);
    if (extra && !extra->stop_reason) {
        extra->stop_reason = w->failure;
        w->failure = NULL;
    }
    pr_msg_drop(w, w->failure);
    w->failure = NULL;
    pr_flags_set(a, PR_FLAG_FAILED);
    if (pr_actor_reentrant(a))   /* those parked stand still until it is known what follows: see pr_life_end, told_verdict */
        pr_flags_clear(a, PR_FLAG_SUSPENDED | PR_FLAG_RESUME | PR_FLAG_RECEIVING);
    pr_life_ends(w, a);
}

/* The handler in hand has raised. w->failure holds what, or NULL without memory for it. */
void pr_life_fails(pr_worker *w, pr_actor *a)
{
    PR_BUMP(w->counters.failures, 1);
    pr_event_failure(w, a, w->failure, a->flags & PR_FLAG_IN_STOP ? "stop" : a->flags & PR_FLAG_STARTING ? "start" : "handler");
    if (a->flags & PR_FLAG_IN_STOP) {
        log_failure(w, a, "in stop");
        pr_msg_drop(w, w->failure);
        w->failure = NULL;
        pr_hand_finish(w, "dead", "the actor has ended");
        pr_life_over(w, a);
        return;
    }
    log_failure(w, a, !(a->flags & PR_FLAG_STARTING) ? "in its handler" : a->kind == PR_KIND_SCRIPT ? "in its main chunk" : "in start");
    /* The ask in hand is told at once, with all there is to tell. */
    if (w->failure)
        pr_hand_failed(w, a, w->failure);
    pr_hand_finish(w, "failed", "the handler failed, and there was no memory to say how");
    pr_flags_clear(a, PR_FLAG_STARTING);
    fail_life(w, a);
}

void pr_actor_fails_by(pr_worker *w, pr_actor *a, pr_msg *error, const char *during)
{
    if (a->flags & PR_FLAG_SUSPENDED && a->wait) {
        bool started = a->flags & PR_FLAG_RECEIVING || !(a->flags & PR_FLAG_STARTING);   /* see pr_handlers_settle */
        pr_actor_abandon(w, a);
        if (started)
            pr_flags_set(a, PR_FLAG_STARTED);
    }
    w->failure = error;
    PR_BUMP(w->counters.failures, 1);
    pr_event_failure(w, a, error, during);
    log_failure(w, a, strcmp(during, "child") == 0 ? "by a child's failure" : "in on_failure");
    fail_life(w, a);
}
