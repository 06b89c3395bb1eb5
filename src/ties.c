/* See ties.h. */
#include "ties.h"

#include "alloc.h"
#include "worker.h"

enum { REASON_BYTES = 24, PER_BUCKET = 2 };   /* reasons up to that size always fit: "shutdown", "not enough memory" */

static pr_msg_pool *pool_of(pr_worker *w) { return w ? &w->pool : NULL; }

/* --- the table: chains of nodes by their hash */

static uint32_t hash_of(uint8_t kind, uint64_t other, uint32_t number)
{
    uint64_t x = (kind == PR_MSG_LINK ? other : number) + 1;
    return (uint32_t)(x * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

static pr_msg **chain_of(pr_ties *ties, uint32_t hash)
{
    return ties->buckets ? &ties->buckets[hash & ties->mask] : &ties->one;
}

static void grow(pr_ties *ties)
{
    uint32_t size = ties->buckets ? 4 * (ties->mask + 1) : 16;
    pr_msg **buckets = pr_zalloc(size * sizeof *buckets);
    if (!buckets)
        return;   /* the chains get longer */
    for (uint32_t i = 0; i <= (ties->buckets ? ties->mask : 0); i++)
        for (pr_msg *m = ties->buckets ? ties->buckets[i] : ties->one, *next; m; m = next) {
            pr_msg **chain = &buckets[hash_of(m->kind, m->sender, m->ask) & (size - 1)];
            next = m->next;
            m->next = *chain;
            *chain = m;
        }
    pr_free(ties->buckets);
    ties->one = NULL;
    ties->buckets = buckets;
    ties->mask = size - 1;
}

void pr_ties_add(pr_ties *ties, pr_msg *node)
{
    if (ties->count >= PER_BUCKET * (ties->buckets ? ties->mask + 1 : 4))
        grow(ties);
    pr_msg **chain = chain_of(ties, hash_of(node->kind, node->sender, node->ask));
    node->next = *chain;
    *chain = node;
    ties->count++;
}

/* other 0: whoever it is. */
static pr_msg **find(pr_ties *ties, uint8_t kind, uint64_t other, uint32_t number)
{
    for (pr_msg **at = chain_of(ties, hash_of(kind, other, number)); *at; at = &(*at)->next)
        if ((*at)->kind == kind && (*at)->ask == number && (other == 0 || (*at)->sender == other))
            return at;
    return NULL;
}

static pr_msg *take(pr_ties *ties, uint8_t kind, uint64_t other, uint32_t number)
{
    pr_msg **at = find(ties, kind, other, number), *m = at ? *at : NULL;
    if (m) {
        *at = m->next;
        ties->count--;
    }
    return m;
}

/* --- messages */

static uint8_t *put_ref(uint8_t *at, uint64_t id)
{
    *at = PR_TAG_REF;
    memcpy(at + 1, &id, 8);
    return at + 9;
}

enum { DOWN_BYTES = 5 + 4 + 9 + 9, EXIT_BYTES = 5 + 4 + 9 };

pr_msg *pr_tie_node(pr_worker *w, uint8_t kind, uint64_t other, uint32_t number)
{
    size_t room = kind == PR_MSG_MONITOR ? DOWN_BYTES + REASON_BYTES : kind == PR_MSG_LINK ? EXIT_BYTES + REASON_BYTES : 0;
    pr_msg *m = pr_msg_new(pool_of(w), room);
    if (m) {
        m->kind = kind;
        m->sender = other;
        m->ask = number;
    }
    return m;
}

/* Turns `node` (a MONITOR or a LINK) into the news of the end of `from`, and sends it to the node's other end. */
static void tell(pr_runtime *rt, pr_worker *w, pr_msg *node, uint64_t from, const uint8_t *reason, size_t size,
                 bool holds)
{
    static const char forgotten[] = "not enough memory";
    bool down = node->kind == PR_MSG_MONITOR;
    uint64_t to = node->sender;
    uint32_t number = node->ask;
    uint8_t text[REASON_BYTES];
    pr_msg *m = size > REASON_BYTES ? pr_msg_new(pool_of(w), (down ? DOWN_BYTES : EXIT_BYTES) + size) : NULL;
    if (m) {
        pr_msg_free(pool_of(w), node);
    } else {
        m = node;
        if (size > REASON_BYTES) {
            size = (size_t)(pr_wire_put_string(text, forgotten, sizeof forgotten - 1) - text);
            reason = text;
            holds = false;
        }
    }
    uint8_t *at = put_ref(pr_wire_put_string(m->data, down ? "down" : "exit", 4), from);
    memcpy(at, reason, size);
    at += size;
    if (down)
        at = put_ref(at, pr_monitor_value(number));
    m->kind = down ? PR_MSG_DOWN : PR_MSG_EXIT;
    m->count = down ? 4 : 3;
    m->size = (uint32_t)(at - m->data);
    m->target = to;
    m->sender = from;
    m->ask = down ? number : 0;
    m->ordered = 0;
    if (holds)
        pr_msg_hold_shares(m);
    if (pr_send(rt, w, m) != PR_OK)
        pr_msg_free(pool_of(w), m);
}

void pr_control_undelivered(pr_runtime *rt, pr_worker *w, pr_msg *m)
{
    uint8_t text[REASON_BYTES];
    if (m->kind == PR_MSG_MONITOR || m->kind == PR_MSG_LINK) {
        tell(rt, w, m, m->target, text, (size_t)(pr_wire_put_string(text, "noproc", 6) - text), false);
        return;
    }
    if (m->kind == PR_MSG_AWAIT)
        pr_reply_error(rt, w, m, "dead", "the actor has ended");
    pr_msg_free(pool_of(w), m);
}

/* Sends what one end has to say to the other; `m` is consumed. */
static void say(const pr_end *me, pr_msg *m, uint8_t kind, uint64_t to, uint32_t number)
{
    m->kind = kind;
    m->target = to;
    m->sender = me->id;
    m->ask = number;
    pr_status status = pr_ties_order_lane(m) ? pr_send(me->rt, me->w, m) : pr_control(me->rt, me->w, m);
    if (status != PR_OK)
        pr_control_undelivered(me->rt, me->w, m);
}

/* --- one end's calls */

uint32_t pr_monitor_next(const pr_end *me)
{
    uint32_t number;
    do   /* one that is still in use after 16 million others is passed over */
        number = atomic_fetch_add_explicit(&me->rt->monitors, 1, memory_order_relaxed) & (PR_SLOTS - 1);
    while (number == 0 || find(me->ties, PR_MSG_WATCHING, 0, number));
    return number;
}

bool pr_monitor(const pr_end *me, uint64_t target, uint32_t *number)
{
    *number = pr_monitor_next(me);
    pr_msg *mine = pr_tie_node(me->w, PR_MSG_WATCHING, target, *number);
    pr_msg *theirs = pr_tie_node(me->w, PR_MSG_MONITOR, me->id, *number);
    if (!mine || !theirs) {
        if (mine)
            pr_msg_free(pool_of(me->w), mine);
        if (theirs)
            pr_msg_free(pool_of(me->w), theirs);
        return false;
    }
    pr_ties_add(me->ties, mine);
    say(me, theirs, PR_MSG_MONITOR, target, *number);
    return true;
}

bool pr_monitor_cancel(const pr_end *me, uint32_t number)
{
    pr_msg *mine = take(me->ties, PR_MSG_WATCHING, 0, number);
    if (mine)
        say(me, mine, PR_MSG_DEMONITOR, mine->sender, number);
    return mine != NULL;
}

bool pr_link(const pr_end *me, uint64_t target)
{
    if (find(me->ties, PR_MSG_LINK, target, 0))
        return true;
    pr_msg *mine = pr_tie_node(me->w, PR_MSG_LINK, target, 0);
    pr_msg *theirs = pr_tie_node(me->w, PR_MSG_LINK, me->id, 0);
    if (!mine || !theirs) {
        if (mine)
            pr_msg_free(pool_of(me->w), mine);
        if (theirs)
            pr_msg_free(pool_of(me->w), theirs);
        return false;
    }
    pr_ties_add(me->ties, mine);
    say(me, theirs, PR_MSG_LINK, target, 0);
    return true;
}

bool pr_unlink(const pr_end *me, uint64_t target)
{
    pr_msg *mine = take(me->ties, PR_MSG_LINK, target, 0);
    if (mine)
        say(me, mine, PR_MSG_UNLINK, target, 0);
    return mine != NULL;
}

/* --- what comes from the other end */

void pr_ties_told(const pr_end *me, pr_msg *m)
{
    pr_msg *node = NULL;
    switch (m->kind) {
    case PR_MSG_MONITOR:
        pr_ties_add(me->ties, m);
        return;
    case PR_MSG_LINK:
        if (!find(me->ties, PR_MSG_LINK, m->sender, 0)) {
            pr_ties_add(me->ties, m);
            return;
        }
        break;   /* both have linked at the same time */
    case PR_MSG_DEMONITOR:
        node = take(me->ties, PR_MSG_MONITOR, m->sender, m->ask);
        break;
    default:
        node = take(me->ties, PR_MSG_LINK, m->sender, 0);
    }
    if (node)
        pr_msg_free(pool_of(me->w), node);
    pr_msg_free(pool_of(me->w), m);
}

bool pr_ties_expect(const pr_end *me, const pr_msg *m)
{
    return find(me->ties, PR_MSG_WATCHING, m->sender, m->ask) != NULL;
}

bool pr_ties_take_down(const pr_end *me, pr_msg *m)
{
    pr_msg *mine = take(me->ties, PR_MSG_WATCHING, m->sender, m->ask);
    if (!mine)
        return false;
    pr_msg_free(pool_of(me->w), mine);
    m->kind = PR_MSG_USER;
    m->ask = 0;
    PR_COUNT(me->rt, me->w, sent, 1);
    return true;
}

bool pr_ties_take_exit(const pr_end *me, const pr_msg *m)
{
    pr_msg *mine = take(me->ties, PR_MSG_LINK, m->sender, 0);
    if (mine)
        pr_msg_free(pool_of(me->w), mine);
    return mine != NULL;
}

/* --- the end of an end */

uint32_t pr_ties_list(const pr_ties *ties, uint8_t kind, uint64_t *others, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i <= (ties->buckets ? ties->mask : 0); i++)
        for (const pr_msg *m = ties->buckets ? ties->buckets[i] : ties->one; m; m = m->next) {
            if (m->kind != kind)
                continue;
            if (n < most)
                others[n] = m->sender;
            n++;
        }
    return n;
}

void pr_ties_end(const pr_end *me, const pr_msg *reason)
{
    pr_ties *ties = me->ties;
    uint8_t normal[REASON_BYTES];
    const uint8_t *bytes = reason ? reason->data : normal;
    size_t size = reason ? reason->size : (size_t)(pr_wire_put_string(normal, "normal", 6) - normal);
    for (uint32_t i = 0; i <= (ties->buckets ? ties->mask : 0); i++)
        for (pr_msg *m = ties->buckets ? ties->buckets[i] : ties->one, *next; m; m = next) {
            next = m->next;
            if (m->kind == PR_MSG_WATCHING)
                say(me, m, PR_MSG_DEMONITOR, m->sender, m->ask);
            else
                tell(me->rt, me->w, m, me->id, bytes, size, reason && pr_msg_holds(reason));
        }
    pr_free(ties->buckets);
    *ties = (pr_ties){0};
}
