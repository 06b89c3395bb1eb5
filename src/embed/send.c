/* Sending from C: tell, orders, timers, names, answers. Any thread. */
#include "embed.h"

#include "../send_timer.h"

#include <string.h>


_Static_assert(PIERROT_OK == (int)PR_OK && PIERROT_DEAD == (int)PR_DEAD && PIERROT_STOPPING == (int)PR_STOPPING &&
                   PIERROT_EXISTS == (int)PR_EXISTS && PIERROT_NOMEM == (int)PR_NOMEM && PIERROT_TIMEOUT == (int)PR_TIMEOUT &&
                   PIERROT_BUSY == (int)PR_BUSY && PIERROT_FAILED == (int)PR_FAILURE && PIERROT_FULL == (int)PR_FULL,
               "the first ones are the core's");

/* A sender in C cannot be made to wait for room. */
pierrot_status pr_public_status(pr_status status)
{
    return status == PR_MUST_WAIT ? PIERROT_FULL : status == PR_LIMIT ? PIERROT_LIMIT : (pierrot_status)status;
}

/* --- lanes */

static pr_lane *take_lane(pierrot *p)
{
    /* The address of what is a thread's own tells threads apart. */
    uint32_t usual = (uint32_t)(((uintptr_t)&pr_memory_here >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (uint32_t i = 0; i < 2; i++) {
        pr_lane *lane = &p->lanes[(usual + i) % PR_LANES];
        /* acquire pairs with the release in give_lane: the pool is as the last one has left it */
        if (!atomic_load_explicit(&lane->busy, memory_order_relaxed) &&
            !atomic_exchange_explicit(&lane->busy, true, memory_order_acquire))
            return lane;
    }
    return NULL;
}

static void give_lane(pr_lane *lane)
{
    if (lane)
        atomic_store_explicit(&lane->busy, false, memory_order_release);
}

pr_msg *pr_host_envelope(pierrot *p, const pierrot_message *m)
{
    pr_lane *lane = take_lane(p);
    pr_msg *e = pr_message_envelope(lane ? &lane->pool : NULL, m);
    give_lane(lane);
    return e;
}

/* The envelope for worker `w`, or for a thread that is none. */
static pr_msg *envelope(pierrot *p, pr_worker *w, const pierrot_message *m)
{
    return w ? pr_message_envelope(&w->pool, m) : pr_host_envelope(p, m);
}

static void give_up(pr_worker *w, pr_msg *e) { pr_msg_free(w ? &w->pool : NULL, e); }

/* --- sending */

pierrot_status pr_host_send(pierrot *p, pr_worker *w, uint64_t from, uint32_t ask, pierrot_ref to, const pierrot_message *m)
{
    pierrot_status ready = pr_message_ready(m);
    if (ready != PIERROT_OK)
        return ready;
    if (!pr_id_valid(to.id) || pr_monitor_valid(to.id))
        return to.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    pr_msg *e = envelope(p, w, m);
    if (!e)
        return PIERROT_NOMEM;
    e->kind = PR_MSG_USER;
    e->target = to.id;
    e->sender = from;
    e->ask = ask;
    pr_status status = pr_send(p->rt, w, e);
    if (status != PR_OK)
        give_up(w, e);
    return pr_public_status(status);
}

pierrot_status pierrot_tell(pierrot *p, pierrot_ref to, const pierrot_message *m)
{
    if (!p)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pierrot_status status = pr_host_send(p, NULL, 0, 0, to, m);
    pr_leave(before);
    return status;
}

static pierrot_status order(pierrot *p, pierrot_ref ref, uint8_t kind, const pierrot_message *m)
{
    pierrot_status status = p ? pr_message_ready(m) : PIERROT_INVALID;
    if (status != PIERROT_OK || (m && m->count > 1))
        return status != PIERROT_OK ? status : PIERROT_INVALID;
    if (!pr_id_valid(ref.id) || pr_monitor_valid(ref.id))
        return ref.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pr_msg *reason = m ? pr_host_envelope(p, m) : NULL;
    status = m && !reason ? PIERROT_NOMEM : pr_public_status(pr_order(p->rt, NULL, ref.id, kind, reason, false));
    pr_leave(before);
    return status;
}

pierrot_status pierrot_stop_actor(pierrot *p, pierrot_ref ref, const pierrot_message *reason)
{
    return order(p, ref, PR_MSG_STOP, reason);
}

pierrot_status pierrot_drain_actor(pierrot *p, pierrot_ref ref, const pierrot_message *reason)
{
    return order(p, ref, PR_MSG_DRAIN, reason);
}

pierrot_status pierrot_kill_actor(pierrot *p, pierrot_ref ref) { return order(p, ref, PR_MSG_KILL, NULL); }

bool pierrot_is_alive(pierrot *p, pierrot_ref ref) { return p && pr_actor_find(&p->rt->actors, ref.id) != NULL; }

size_t pierrot_describe(pierrot *p, pierrot_ref ref, char *buffer, size_t size)
{
    if (!p || !buffer || size == 0)
        return 0;
    if (!pr_id_valid(ref.id)) {
        *buffer = 0;
        return 0;
    }
    pr_memory *before = pr_enter(p);
    size_t n = pr_actor_describe(p->rt, ref.id, buffer, size);
    pr_leave(before);
    return n < size ? n : size - 1;
}

/* --- answers */

static pierrot_status answer(pierrot *p, pierrot_request request, pr_msg *e, uint8_t kind)
{
    if (!e)
        return PIERROT_NOMEM;
    e->kind = kind;
    e->target = request.asker.id;
    e->ask = request.number;
    pr_reply(p->rt, NULL, e);
    return PIERROT_OK;
}

pierrot_status pierrot_reply(pierrot *p, pierrot_request request, const pierrot_message *m)
{
    pierrot_status status = p && request.number && pr_id_valid(request.asker.id) ? pr_message_ready(m) : PIERROT_INVALID;
    if (status != PIERROT_OK)
        return status;
    pr_memory *before = pr_enter(p);
    status = answer(p, request, pr_host_envelope(p, m), PR_MSG_REPLY);
    pr_leave(before);
    return status;
}

pierrot_status pierrot_reply_error(pierrot *p, pierrot_request request, const char *text)
{
    if (!p || !request.number || !pr_id_valid(request.asker.id))
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    size_t len = text ? strlen(text) : 0;
    pr_msg *e = pr_msg_new(NULL, pr_wire_size_bytes(6) + pr_wire_size_bytes(len) + 2);
    if (e) {   /* kind, message, traceback, cause: see PR_MSG_ERROR */
        uint8_t *at = pr_wire_put_string(e->data, "failed", 6);
        at = pr_wire_put_string(at, text ? text : "", len);
        at[0] = at[1] = PR_TAG_NIL;
        e->count = 4;
    }
    pierrot_status status = answer(p, request, e, PR_MSG_ERROR);
    pr_leave(before);
    return status;
}

/* --- timers */

struct pierrot_timer {
    pierrot *p;
    pr_user_timer *timer;
};

pierrot_status pr_host_timer(pierrot *p, pr_worker *w, uint64_t from, uint64_t delay_ms, uint64_t period_ms, pierrot_ref to,
                             const pierrot_message *m, pierrot_timer **timer)
{
    pierrot_status status = pr_message_ready(m);
    if (timer)
        *timer = NULL;
    if (status != PIERROT_OK)
        return status;
    if (!pr_id_valid(to.id) || pr_monitor_valid(to.id))
        return to.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    if (!pr_actor_find(&p->rt->actors, to.id))
        return PIERROT_DEAD;
    if (delay_ms > INT64_MAX / 4)
        delay_ms = INT64_MAX / 4;
    pierrot_timer *handle = timer ? pr_alloc(sizeof *handle) : NULL;
    pr_msg *e = timer && !handle ? NULL : envelope(p, w, m);
    if (!e) {
        pr_free(handle);
        return PIERROT_NOMEM;
    }
    e->kind = PR_MSG_USER;
    e->target = to.id;
    e->sender = from;
    pr_user_timer *t = pr_user_timer_new(p->rt, w, e, delay_ms, period_ms);
    if (!t) {
        give_up(w, e);
        pr_free(handle);
        return atomic_load_explicit(&p->rt->stopping, memory_order_relaxed) ? PIERROT_STOPPING : PIERROT_NOMEM;
    }
    if (!handle) {
        pr_user_timer_drop(p->rt, w, t);
        return PIERROT_OK;
    }
    *handle = (pierrot_timer){p, t};
    *timer = handle;
    return PIERROT_OK;
}

pierrot_status pierrot_send_after(pierrot *p, uint64_t delay_ms, pierrot_ref to, const pierrot_message *m, pierrot_timer **timer)
{
    if (!p)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pierrot_status status = pr_host_timer(p, NULL, 0, delay_ms, 0, to, m, timer);
    pr_leave(before);
    return status;
}

pierrot_status pierrot_send_every(pierrot *p, uint64_t period_ms, pierrot_ref to, const pierrot_message *m, pierrot_timer **timer)
{
    if (!p || period_ms == 0)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pierrot_status status = pr_host_timer(p, NULL, 0, period_ms, period_ms, to, m, timer);
    pr_leave(before);
    return status;
}

bool pierrot_timer_cancel(pierrot_timer *timer)
{
    if (!timer)
        return false;
    pr_memory *before = pr_enter(timer->p);
    bool pending = pr_user_timer_cancel(timer->p->rt, NULL, timer->timer);
    pr_leave(before);
    return pending;
}

void pierrot_timer_free(pierrot_timer *timer)
{
    if (!timer)
        return;
    pr_memory *before = pr_enter(timer->p);
    pr_user_timer_drop(timer->p->rt, NULL, timer->timer);
    pr_free(timer);
    pr_leave(before);
}

/* --- names */

/* Its length; 0 for what is no name. */
static size_t name_length(const char *name)
{
    size_t len = name ? strnlen(name, PR_REGISTRY_NAME_MAX + 1) : 0;
    return len <= PR_REGISTRY_NAME_MAX ? len : 0;
}

pierrot_status pierrot_register(pierrot *p, const char *name, pierrot_ref ref, pierrot_ref *holder)
{
    size_t len = name_length(name);
    uint64_t id = 0;
    if (holder)
        holder->id = 0;
    if (!p || len == 0)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pr_status status = pr_name_register(p->rt, name, len, ref.id, &id);
    pr_leave(before);
    if (status == PR_EXISTS && holder)
        holder->id = id;
    return pr_public_status(status);
}

pierrot_status pierrot_unregister(pierrot *p, const char *name)
{
    size_t len = name_length(name);
    if (!p || len == 0)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    bool removed = pr_registry_remove(&p->rt->names, name, len, 0);
    pr_leave(before);
    return removed ? PIERROT_OK : PIERROT_NOTHING;
}

pierrot_ref pierrot_whereis(pierrot *p, const char *name)
{
    size_t len = name_length(name);
    pierrot_ref ref = {0};
    if (p && len > 0)
        ref.id = pr_registry_get(&p->rt->names, name, len);
    if (p && !pr_actor_find(&p->rt->actors, ref.id))
        ref.id = 0;
    return ref;
}
