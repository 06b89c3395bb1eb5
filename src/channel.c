/* See channel.h. */
#include "channel.h"

#include "alloc.h"
#include "worker.h"

#include <assert.h>
#include <string.h>

/* An entry's `there`: the end of the ring is too short for what comes; the image of a message follows, from its second
 * word on; else a pointer to a message. */
enum { SKIP = 1, COPIED = 2 };

static_assert(offsetof(pr_msg, next) == 0 && offsetof(pr_msg, target) == sizeof(uintptr_t), "`there` has the place of `next`");

enum {
    PATIENCE = 4096,            /* some 100 microseconds; what fills a ring is handled in less */
    PUBLISH = PR_CHANNEL_LINES / 8,
    AHEAD = 16                  /* lines: fetched before they are needed, from the other one's cache */
};

static uint32_t lines_for(size_t bytes) { return (uint32_t)((bytes + PR_CHANNEL_LINE - 1) / PR_CHANNEL_LINE); }

static inline void *line_at(pr_channel *c, uint32_t at) { return c->lines[at % PR_CHANNEL_LINES]; }

static inline _Atomic uintptr_t *there_at(pr_channel *c, uint32_t at)
{
    return (_Atomic uintptr_t *)line_at(c, at);
}

/* Fetches a line to be written. */
static inline void fetch_for_writing(void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(char *)line));   /* GCC itself would use it only for newer processors */
#else
    __builtin_prefetch(line, 1);
#endif
}

/* --- the writer */

/* NULL: memory ran out, now or at an earlier message; the inbox it is, then, for good: nothing may overtake. */
static pr_channel *make(pr_worker *w, pr_worker *to)
{
    if (w->channelless)
        return NULL;
    if (!w->channels)
        w->channels = pr_zalloc(w->rt->worker_count * sizeof *w->channels);
    pr_channel *c = w->channels ? pr_zalloc_line(sizeof *c) : NULL;
    if (!c) {
        w->channelless = true;
        return NULL;
    }
    c->to = to;
    c->next_out = w->channels_out;
    w->channels_out = w->channels[to->index] = c;
    c->next_in = PR_GET(to->channels_in);
    /* release, for what is in it; seq_cst for the handshake of its first message, as with `tail` */
    while (!atomic_compare_exchange_weak_explicit(&to->channels_in, &c->next_in, c, memory_order_seq_cst, memory_order_relaxed))
        ;
    return c;
}

static inline pr_channel *channel_to(pr_worker *w, pr_worker *to)
{
    pr_channel *c = w->channels ? w->channels[to->index] : NULL;
    return c ? c : make(w, to);
}

/* Whether there is room for an entry of n lines, which must not go round the end, and the first line of the next one. */
static bool room(pr_channel *c, uint32_t tail, uint32_t n)
{
    uint32_t to_end = PR_CHANNEL_LINES - tail % PR_CHANNEL_LINES, needed = 1 + (n <= to_end ? n : n + to_end);
    if (PR_CHANNEL_LINES - (tail - c->seen) >= needed)
        return true;
    c->seen = atomic_load_explicit(&c->head, memory_order_acquire);
    return PR_CHANNEL_LINES - (tail - c->seen) >= needed;
}

/* The ring is full. Where the writer's worker has nothing better to do, it waits for a reader that is getting on. */
static bool wait_for_room(pr_worker *w, pr_worker *to, pr_channel *c, uint32_t tail, uint32_t n)
{
    if (w->ready_head || w->rt->tick)
        return false;
    uint64_t turn = atomic_load_explicit(&to->turn, memory_order_relaxed);
    if (turn == c->stuck_turn)
        return false;
    for (int i = 0; i < PATIENCE; i++) {
        pr_relax();
        if (i % 16 == 15 && room(c, tail, n))   /* each look takes the line from the reader */
            return true;
    }
    c->stuck_turn = turn;
    return false;
}

/* Whether the line ahead is the writer's. */
static inline bool room_ahead(const pr_channel *c, uint32_t tail)
{
    return tail + AHEAD - c->seen < PR_CHANNEL_LINES;
}

bool pr_channel_send(pr_worker *w, pr_worker *to, pr_msg *m)
{
    pr_channel *c = channel_to(w, to);
    if (!c)
        return pr_stack_push(&to->inbox, m);
    size_t bytes = PR_MSG_HEADER + m->size;
    bool copied = bytes <= PR_CHANNEL_COPIED && !m->timed && !pr_msg_holds(m);
    uint32_t n = copied ? lines_for(bytes) : 1, tail = c->tail;
    if (PR_GET(to->left_for_good))
        return false;
    /* acquire pairs with the reader's exchange: it was past the end of the ring, as of then, before */
    if (atomic_load_explicit(&c->more.head, memory_order_acquire) ||
        (!room(c, tail, n) && !wait_for_room(w, to, c, tail, n))) {
        pr_stack_push(&c->more, m);
        w->burst = 0;
        return true;
    }
    if (n > PR_CHANNEL_LINES - tail % PR_CHANNEL_LINES) {
        uint32_t start = tail + PR_CHANNEL_LINES - tail % PR_CHANNEL_LINES;
        atomic_store_explicit(there_at(c, start), 0, memory_order_relaxed);
        atomic_store_explicit(there_at(c, tail), SKIP, memory_order_release);
        tail = start;
    }
    if (room_ahead(c, tail))
        fetch_for_writing(line_at(c, tail + AHEAD));
    /* Before this entry: who sees this one does not take what is left in the next line for another. */
    atomic_store_explicit(there_at(c, tail + n), 0, memory_order_relaxed);
    uintptr_t there = (uintptr_t)m;
    if (copied) {
        there = COPIED;
        pr_msg_copy_image(line_at(c, tail), m);
        pr_msg_free(&w->pool, m);
    }
    atomic_store_explicit(there_at(c, tail), there, memory_order_release);
    c->tail = tail + n;
    w->unsettled = c->unsettled = true;
    return true;
}

void pr_channels_settle(pr_worker *w)
{
    for (pr_channel *c = w->channels_out; c; c = c->next_out) {
        if (!c->unsettled)
            continue;
        c->unsettled = false;
        /* seq_cst, as are the reader's store of PARKED and its look here after that, and the look at the parker in
         * pr_worker_wake: one of the two sees the other. */
        atomic_store_explicit(&c->settled, c->tail, memory_order_seq_cst);
        if (pr_worker_wake(c->to)) {
            PR_BUMP(w->counters.wakes, 1);
            w->woke = true;
        }
    }
    w->unsettled = false;
}

/* --- the reader */

/* Takes the entry at *head out, which moves on. NULL: there was none, but the end of the ring; or there is no memory for
 * it, and *head stays. */
static inline pr_msg *take_entry(pr_msg_pool *pool, pr_channel *c, uint32_t *head, uintptr_t there)
{
    if (there == SKIP) {
        *head += PR_CHANNEL_LINES - *head % PR_CHANNEL_LINES;
        return NULL;
    }
    if (there != COPIED) {
        *head += 1;
        return (pr_msg *)there;
    }
    const pr_msg *entry = line_at(c, *head);
    pr_msg *m = pr_msg_from_image(pool, entry);
    if (m)
        *head += lines_for(PR_MSG_HEADER + m->size);
    return m;
}

/* Delivers what the ring holds up to its end, or to where memory runs out: false. */
static bool empty_ring(pr_worker *w, pr_channel *c)
{
    uint32_t head = PR_GET(c->head), first = head, published = head;
    uintptr_t there;
    /* At most once round: others want their turn, too. */
    while ((there = atomic_load_explicit(there_at(c, head), memory_order_acquire)) != 0 && head - first < PR_CHANNEL_LINES) {
        uint32_t before = head;
        pr_msg *m = take_entry(&w->pool, c, &head, there);
        if (m) {
            w->far_taken++;
            pr_deliver(w, m);
        } else if (head == before) {
            break;
        }
        if (head - published >= PUBLISH)
            atomic_store_explicit(&c->head, published = head, memory_order_release);
    }
    if (head != published)
        atomic_store_explicit(&c->head, head, memory_order_release);
    return there == 0;
}

static inline bool holds(pr_channel *c)
{
    return atomic_load_explicit(there_at(c, PR_GET(c->head)), memory_order_acquire) != 0 || !pr_stack_empty(&c->more);
}

bool pr_channels_hold(pr_worker *w)
{
    for (pr_channel *c = atomic_load_explicit(&w->channels_in, memory_order_acquire); c; c = c->next_in)
        if (holds(c))
            return true;
    return false;
}

bool pr_channels_settled(pr_worker *w)
{
    for (pr_channel *c = atomic_load_explicit(&w->channels_in, memory_order_seq_cst); c; c = c->next_in)
        if ((int32_t)(atomic_load_explicit(&c->settled, memory_order_seq_cst) - PR_GET(c->head)) > 0 || holds(c))
            return false;
    return true;
}

void pr_channels_take(pr_worker *w)
{
    for (pr_channel *c = atomic_load_explicit(&w->channels_in, memory_order_acquire); c; c = c->next_in) {
        if (!empty_ring(w, c) || pr_stack_empty(&c->more) || !empty_ring(w, c))
            continue;
        for (pr_msg *m = pr_stack_take(&c->more), *next; m; m = next) {
            next = m->next;
            w->far_taken++;
            pr_deliver(w, m);
        }
    }
}

void pr_channels_end(pr_worker *w)
{
    pr_runtime *rt = w->rt;
    for (pr_channel *c = PR_GET(w->channels_in); c; c = c->next_in) {
        uint32_t head = PR_GET(c->head), before;
        uintptr_t there;
        while ((there = atomic_load_explicit(there_at(c, head), memory_order_acquire)) != 0) {
            before = head;
            pr_msg *m = take_entry(NULL, c, &head, there);
            if (m) {
                pr_dead_letter(rt, NULL, m, PR_DEAD_SHUTDOWN);
            } else if (head == before) {   /* no memory: counted all the same */
                const pr_msg *entry = line_at(c, head);
                if (entry->kind == PR_MSG_USER)
                    atomic_fetch_add_explicit(&rt->outside.dead[PR_DEAD_SHUTDOWN], 1, memory_order_relaxed);
                head += lines_for(PR_MSG_HEADER + entry->size);
            }
        }
        PR_SET(c->head, head);
        for (pr_msg *m = pr_stack_take(&c->more), *next; m; m = next) {
            next = m->next;
            pr_dead_letter(rt, NULL, m, PR_DEAD_SHUTDOWN);
        }
    }
}

void pr_channels_destroy(pr_worker *w)
{
    for (pr_channel *c = w->channels_out, *next; c; c = next) {
        next = c->next_out;
        pr_free(c);
    }
    pr_free(w->channels);
}
