/* See inbox.h. */
#include "inbox.h"

#include "alloc.h"
#include "worker.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

/* Bits of `tail`. */
#define OVERFLOW (UINT64_C(1) << 63)
#define CLOSED (UINT64_C(1) << 62)
#define FLAGS (OVERFLOW | CLOSED)

/* An entry's first word is twice its place, counted from 1, and this bit: an image of the message follows, from its second
 * word on, in pieces behind the first word of each line; without it, a pointer to it. What an earlier round of the ring has
 * left there is another place's; words of further lines are not written, and so stay that. */
enum { COPIED = 1 };

static_assert(offsetof(pr_msg, next) == 0 && offsetof(pr_msg, target) == sizeof(uint64_t), "the word has the place of `next`");

enum {
    MOST_COPIED = 4 * PR_INBOX_PIECE,
    PATIENCE = 4096,            /* some 100 microseconds; what fills a ring is handled in less */
    BUSY = 16,                  /* messages handled between two times */
    AHEAD = 16                  /* lines: fetched before they are needed, from the reader's cache */
};

/* In lines: what is spare when writers begin to stand back, and how many the reader takes before it says so. */
static inline uint32_t crowded(const pr_inbox *b) { return b->count / 4; }
static inline uint32_t publish(const pr_inbox *b) { return b->count / 8; }

int pr_inbox_init(pr_inbox *b, uint32_t lines)
{
    atomic_store_explicit(&b->more.head, PR_STACK_CLOSED, memory_order_relaxed);
    PR_SET(b->room, lines);
    b->count = lines;
    b->lines = pr_zalloc_line((size_t)lines * PR_INBOX_LINE);
    return b->lines ? 0 : -1;
}

void pr_inbox_destroy(pr_inbox *b)
{
    pr_free(b->lines);
    b->lines = NULL;
}

static size_t image_bytes(const pr_msg *m) { return PR_MSG_HEADER - sizeof m->next + m->size; }

static uint32_t lines_for(size_t bytes) { return (uint32_t)((bytes + PR_INBOX_PIECE - 1) / PR_INBOX_PIECE); }

static inline unsigned char *line_at(const pr_inbox *b, uint64_t at) { return b->lines[at & (b->count - 1)]; }

static inline _Atomic uint64_t *word_at(const pr_inbox *b, uint64_t at) { return (_Atomic uint64_t *)(void *)line_at(b, at); }

/* --- the writer */

/* Fetches a line to be written. */
static inline void fetch_for_writing(void *line)
{
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(char *)line));   /* GCC itself would use it only for newer processors */
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Whether lines may be claimed up to there, and `spare` more would be left. */
static bool has_room(pr_inbox *b, uint64_t end, uint32_t spare)
{
    if (end + spare <= atomic_load_explicit(&b->room, memory_order_acquire))
        return true;
    uint64_t room = atomic_load_explicit(&b->head, memory_order_acquire) + b->count;
    atomic_store_explicit(&b->room, room, memory_order_release);   /* an older one, by another writer, is true as well */
    return end + spare <= room;
}

/* Before the ring is full, a writer stands back, so that what is under way stays in the caches, and that there is room for
 * those who do not: it lets others have a turn, or waits where these have nothing to do but to send, too, and the reader is
 * getting on. */
static void stand_back(pr_worker *to, pr_worker *w)
{
    uint64_t turn = atomic_load_explicit(&to->turn, memory_order_relaxed);
    uint64_t handled = PR_GET(w->counters.handled);
    bool busy = w->ready_head && handled - w->stood_back >= BUSY;
    bool waits = !busy && !w->rt->tick && !(to == w->stuck && turn == w->stuck_turn);
    w->stood_back = handled;
    for (int i = 0; waits && i < PATIENCE && !pr_inbox_written(&w->inbox); i++) {
        pr_relax();
        /* each look takes the line from the reader */
        if (i % 16 != 15)
            continue;
        if (has_room(&to->inbox, PR_GET(to->inbox.tail) & ~FLAGS, crowded(&to->inbox) + publish(&to->inbox)))
            return;
        if (pr_worker_shares_processor(w)) {
            sched_yield();
            i += PATIENCE / 16;
        }
    }
    if (waits) {
        w->stuck = to;
        w->stuck_turn = turn;
    }
    w->burst = 0;
}

/* Copies between a message and its entry, in pieces, for entries of several lines. */
static void write_image(pr_inbox *b, uint64_t at, const pr_msg *m)
{
    const unsigned char *from = (const unsigned char *)m + sizeof m->next;
    for (size_t left = image_bytes(m), n; left > 0; left -= n, from += n) {
        n = left < PR_INBOX_PIECE ? left : PR_INBOX_PIECE;
        memcpy(line_at(b, at++) + sizeof(uint64_t), from, n);
    }
}

static void read_image(const pr_inbox *b, uint64_t at, pr_msg *m, uint32_t size)
{
    unsigned char *to = (unsigned char *)m + sizeof m->next;
    for (size_t left = PR_MSG_HEADER - sizeof m->next + size, n; left > 0; left -= n, to += n) {
        n = left < PR_INBOX_PIECE ? left : PR_INBOX_PIECE;
        memcpy(to, line_at(b, at++) + sizeof(uint64_t), n);
    }
}

static bool push_more(pr_inbox *b, pr_msg *m)
{
    if (pr_stack_push(&b->more, m))
        return true;
    /* between two states, for some instructions of another thread */
    for (int i = 0; i < 64; i++) {
        pr_relax();
        if (!(PR_GET(b->tail) & OVERFLOW))
            return false;
    }
    sched_yield();
    return false;
}

bool pr_inbox_push(pr_worker *to, pr_worker *w, pr_msg *m)
{
    pr_inbox *b = &to->inbox;
    bool copied = w && image_bytes(m) <= MOST_COPIED && !m->timed && !pr_msg_holds(m);
    uint32_t n = copied ? lines_for(image_bytes(m)) : 1;
    if (w && !has_room(b, (PR_GET(b->tail) & ~FLAGS) + n, crowded(b)))
        stand_back(to, w);
    uint64_t tail = PR_GET(b->tail);
    for (;;) {
        if (tail & CLOSED)
            return false;
        if (tail & OVERFLOW) {
            if (push_more(b, m))
                return true;
            tail = PR_GET(b->tail);
        } else if (has_room(b, tail + n, 0)) {
            /* seq_cst: see inbox.h. Equal to what was read, though there was an overflow meanwhile: then it is over. */
            if (atomic_compare_exchange_weak_explicit(&b->tail, &tail, tail + n, memory_order_seq_cst, memory_order_relaxed))
                break;
        } else if (atomic_compare_exchange_strong_explicit(&b->tail, &tail, tail | OVERFLOW, memory_order_seq_cst,
                                                           memory_order_relaxed)) {
            /* release: who finds it open finds the bit, too */
            atomic_store_explicit(&b->more.head, NULL, memory_order_release);
            tail |= OVERFLOW;
        }
    }
    if (tail + AHEAD < PR_GET(b->room))
        fetch_for_writing(line_at(b, tail + AHEAD));
    if (!copied) {
        memcpy(line_at(b, tail) + sizeof(uint64_t), &m, sizeof m);
    } else if (n == 1 && m->class == 0) {
        pr_msg_copy_image(line_at(b, tail), m);
    } else {
        write_image(b, tail, m);
    }
    /* release pairs with the reader's look */
    atomic_store_explicit(word_at(b, tail), (tail + 1) << 1 | copied, memory_order_release);
    if (copied)
        pr_msg_free(&w->pool, m);
    return true;
}

/* --- the reader */

bool pr_inbox_claimed(pr_inbox *b)
{
    if (atomic_load_explicit(&b->tail, memory_order_seq_cst) == b->next)
        return false;
    if (!pr_inbox_written(b))
        sched_yield();   /* its writer may need this core */
    return true;
}

/* The entry at `next`, which moves on. NULL: there is none yet, or no memory for it. */
static inline pr_msg *take_entry(pr_inbox *b, pr_msg_pool *pool)
{
    uint64_t at = b->next, word = atomic_load_explicit(word_at(b, at), memory_order_acquire);
    if (word >> 1 != at + 1)
        return NULL;
    if (!(word & COPIED)) {
        pr_msg *m;
        memcpy(&m, line_at(b, at) + sizeof(uint64_t), sizeof m);
        b->next++;
        return m;
    }
    const pr_msg *entry = (const pr_msg *)(const void *)line_at(b, at);
    uint32_t size = entry->size, n = lines_for(PR_MSG_HEADER - sizeof entry->next + size);
    pr_msg *m = pr_msg_new(pool, size);
    if (!m)
        return NULL;
    uint8_t class = m->class;
    if (n == 1 && class == 0)
        pr_msg_copy_image(m, entry);
    else
        read_image(b, at, m, size);
    m->class = class;
    b->next += n;
    return m;
}

/* Delivers what the ring holds up to `end`, or to where an entry is not there yet, or memory runs out. */
static uint64_t empty_ring(pr_worker *w, uint64_t end)
{
    pr_inbox *b = &w->inbox;
    uint64_t n = 0, published = b->next;
    pr_msg *m;
    while (b->next < end && (m = take_entry(b, &w->pool))) {
        n++;
        pr_deliver(w, m);
        if (b->next - published >= publish(b))
            atomic_store_explicit(&b->head, published = b->next, memory_order_release);
    }
    if (b->next != published)
        atomic_store_explicit(&b->head, b->next, memory_order_release);
    return n;
}

uint64_t pr_inbox_take(pr_worker *w)
{
    pr_inbox *b = &w->inbox;
    uint64_t n = empty_ring(w, b->next + b->count);   /* at most once round: others want their turn, too */
    /* acquire pairs with its opening: the bit is there, and `tail` stands still */
    if (atomic_load_explicit(&b->more.head, memory_order_acquire) == PR_STACK_CLOSED)
        return n;
    uint64_t end = PR_GET(b->tail) & ~FLAGS;
    n += empty_ring(w, end);
    if (b->next != end)
        return n;
    pr_msg *m = pr_stack_close(&b->more), *next;
    /* release: who claims lines from here on finds the stack closed. Nobody else writes it while the bit is set. */
    atomic_store_explicit(&b->tail, end, memory_order_release);
    for (; m; m = next, n++) {
        next = m->next;
        pr_deliver(w, m);
    }
    return n;
}

void pr_inbox_close(pr_worker *w)
{
    pr_inbox *b = &w->inbox;
    uint64_t tail = atomic_fetch_or_explicit(&b->tail, CLOSED, memory_order_seq_cst), end = tail & ~FLAGS;
    while (b->next < end) {
        pr_msg *m = take_entry(b, &w->pool);
        if (m) {
            pr_dead_letter(w->rt, w, m, PR_DEAD_SHUTDOWN);
        } else if (!pr_inbox_written(b)) {
            sched_yield();   /* it is being written */
        } else {             /* no memory: counted all the same */
            const pr_msg *entry = (const pr_msg *)(const void *)line_at(b, b->next);
            if (entry->kind == PR_MSG_USER)
                PR_BUMP(w->counters.dead[PR_DEAD_SHUTDOWN], 1);
            b->next += lines_for(PR_MSG_HEADER - sizeof entry->next + entry->size);
        }
    }
    if (!(tail & OVERFLOW))
        return;
    while (atomic_load_explicit(&b->more.head, memory_order_acquire) == PR_STACK_CLOSED)
        sched_yield();       /* it is being opened */
    for (pr_msg *m = pr_stack_close(&b->more), *next; m; m = next) {
        next = m->next;
        pr_dead_letter(w->rt, w, m, PR_DEAD_SHUTDOWN);
    }
}
