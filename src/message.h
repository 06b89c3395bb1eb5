/* Envelopes: what travels between actors.
 *
 * Ownership: an envelope has one owner at a time. Whoever allocates it owns it; a send that returns PR_OK
 * passes it on, any other result leaves it with the sender. The consumer frees it.
 *
 * Payload: a sequence of values, each a tag byte and its bytes, little-endian as the machine has it:
 *   NIL FALSE TRUE           nothing more
 *   NUMBER REF               8 bytes
 *   STRING BLOB              a 32-bit length and that many bytes (BLOB: a table or 64-bit integer in the
 *                            format of LuaJIT's string.buffer)
 *   SHARED                   the same; its bytes: a pr_share's address and a 32-bit number of a table in it
 *   MIXED                    the same; its bytes: how many shared values, 32 bits; these, 12 bytes each, as in SHARED;
 *                            then a BLOB's, in which light userdata 2 stands for the first of them, 4 for the second ...
 * PR_WIRE_VERSION changes with it. SHARED and MIXED hold for one process alone: what leaves it would bring the values along.
 *
 * A message with shared values holds them (PR_MSG_HOLDS), until it is freed. Who copies payload bytes of such a message
 * by hand calls pr_msg_hold_shares on the copy.
 *
 * Envelopes come from size classes, carved from chunks that know their runtime's depot. Each worker keeps free
 * ones; the depot evens out what one worker frees and another one allocates (magazines: Bonwick & Adams, USENIX
 * 2001). Chunks are kept until the runtime is freed: memory stays at the high-water mark of queued messages.
 * Bigger messages, and those made on threads that are no workers, are allocated one by one. */
#ifndef PR_MESSAGE_H
#define PR_MESSAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PR_WIRE_VERSION = 2 };

enum pr_tag {
    PR_TAG_NIL, PR_TAG_FALSE, PR_TAG_TRUE, PR_TAG_NUMBER, PR_TAG_STRING, PR_TAG_REF, PR_TAG_BLOB,
    PR_TAG_SHARED, PR_TAG_MIXED
};

enum pr_msg_kind {
    /* user lane */
    PR_MSG_USER,
    PR_MSG_DRAIN,       /* a mark in the user lane: stop when it is reached; payload: the reason */
    PR_MSG_REPLY,       /* answers the ask with number `ask`; payload: the values */
    PR_MSG_ERROR,       /* the same, as an error; payload: kind, message, traceback, cause, actor, behaviour, first */
    PR_MSG_DOWN,        /* of the monitor `ask`, payload as users see it; see ties.h for these and the next ones */
    PR_MSG_LINK,
    PR_MSG_UNLINK,
    PR_MSG_EXIT,        /* the end of whom the target is linked to; its payload is the user message */
    /* control lane */
    PR_MSG_STOP,        /* payload: the reason */
    PR_MSG_KILL,
    PR_MSG_WAKE,        /* nothing but a reason to be scheduled (a pinned birth) */
    PR_MSG_TIMER_ARM,   /* for a worker, not an actor: arm / disarm its timer */
    PR_MSG_TIMER_DISARM,
    PR_MSG_TIMER_ORPHAN, /* likewise: `sender` has ended, and timers that would send to it */
    PR_MSG_BOX,         /* a box's notice to its owner's worker: see box.h; it is the box's own */
    PR_MSG_MONITOR,     /* the sender watches the target, by the number in `ask` */
    PR_MSG_DEMONITOR,
    PR_MSG_CHILD_ENDS,  /* to the parent: what now? An ERROR payload or none, and a pr_ends; see decision.h */
    PR_MSG_CHILD_HELD,
    PR_MSG_CHILD_STARTED,
    PR_MSG_VERDICT,     /* its answer: enum pr_verdict in `ordered`, milliseconds to wait in `ask` */
    PR_MSG_INTERRUPT,   /* what pr_worker.interrupt says; a handler that waits is woken by it */
    PR_MSG_TRACE,       /* the sender is to see the next messages, as many as `ask` says; see trace.h */
    PR_MSG_LOOK,        /* the sender wants to know where it is, and with `ask` its ties; see look.h */
    PR_MSG_AWAIT,       /* wants a reply once the target has started */
    PR_MSG_WATCHING     /* is never sent: the watcher's own node */
};

struct pr_user_timer;
struct pr_share;

enum pr_msg_mark { PR_MSG_EXEMPT = 1 /* in a box: counts for no capacity */, PR_MSG_STASHED = 2 /* in hand */ };

typedef struct pr_msg {
    struct pr_msg *next;          /* link of whichever queue holds it */
    uint64_t target;              /* the id it is meant for; a reused record tells by it what is not its own */
    uint64_t sender;              /* 0: none */
    uint32_t ask;                 /* 0, or the number of the sender's ask that waits for a reply */
    uint32_t size;                /* payload bytes */
    uint16_t count;               /* payload values */
    uint8_t kind;                 /* enum pr_msg_kind */
    uint8_t class;                /* size class; PR_MSG_CLASSES: allocated by itself; and PR_MSG_HOLDS */
    uint8_t ordered;              /* STOP, KILL: from the parent or the shutdown; USER: enum pr_msg_mark */
    uint8_t taken;                /* USER: by `receive`, inside the handler of another one */
    uint8_t timed;                /* a timer has sent it: see pr_msg_timer */
    uint8_t data[];
} pr_msg;

enum { PR_MSG_CLASSES = 3, PR_MSG_HOLDS = 0x80 };
#define PR_MSG_MAX ((size_t)0xfffffff0u)  /* payload bytes; a length is 32 bits on the wire */

typedef struct pr_chunk pr_chunk;

typedef struct pr_depot {
    pthread_mutex_t lock;
    pr_msg *chains[PR_MSG_CLASSES];   /* each chain linked by next; chains linked by the first one's `sender` */
    pr_msg *loose[PR_MSG_CLASSES];    /* freed by threads that are no workers */
    pr_chunk *chunks;
    uint32_t singles;                 /* chunks that were allocated one by one */
    size_t block_left;                /* bytes of the newest block that are no chunk yet */
} pr_depot;

typedef struct pr_msg_pool {          /* one per worker, owner only */
    pr_msg *free[PR_MSG_CLASSES];
    uint32_t count[PR_MSG_CLASSES];
    pr_depot *depot;
} pr_msg_pool;

int pr_depot_init(pr_depot *d);
void pr_depot_destroy(pr_depot *d);

/* A message with room for `size` payload bytes, header zeroed but for size and class. `pool` is the calling
 * worker's, or NULL on any other thread. NULL when memory runs out or size exceeds PR_MSG_MAX. */
pr_msg *pr_msg_new(pr_msg_pool *pool, size_t size);
/* The same for a worker and up to PR_MSG_SMALLEST bytes, which nearly always has one at hand. */
enum { PR_MSG_HEADER = offsetof(pr_msg, data), PR_MSG_SMALLEST = 64 - PR_MSG_HEADER };
static inline pr_msg *pr_msg_new_small(pr_msg_pool *pool, size_t size)
{
    pr_msg *m = pool->free[0];
    if (!m)
        return pr_msg_new(pool, size);
    pool->free[0] = m->next;
    __builtin_prefetch(m->next, 1);   /* after a burst it has left the nearest cache */
    pool->count[0] -= pool->count[0] > 0;
    *m = (pr_msg){.size = (uint32_t)size};
    return m;
}
/* The timer that has sent it (a reference is held), or NULL. Few messages have one: it stands behind the payload, for
 * which pr_msg_new_timed leaves room. */
enum { PR_MSG_TIMER = sizeof(struct pr_user_timer *) };
pr_msg *pr_msg_new_timed(pr_msg_pool *pool, size_t size);
static inline struct pr_user_timer *pr_msg_timer(const pr_msg *m)
{
    struct pr_user_timer *t = NULL;
    if (m->timed)
        memcpy(&t, m->data + m->size, sizeof t);
    return t;
}
static inline void pr_msg_set_timer(pr_msg *m, struct pr_user_timer *t)
{
    memcpy(m->data + m->size, &t, sizeof t);
    m->timed = 1;
}
/* Frees the envelope alone; a timer it refers to must have been released before. */
void pr_msg_give_back(pr_msg_pool *pool, pr_msg *m);
/* What a worker keeps of a class: enough for most bursts (worker.h), for what goes to the depot comes out of it on another core, whose
 * cache it then has to be fetched from. */
enum { PR_MSG_POOL_MAX = 2048 };
static inline void pr_msg_free(pr_msg_pool *pool, pr_msg *m)
{
    if (pool && m->class == 0 && pool->count[0] + 1 < PR_MSG_POOL_MAX) {
        m->next = pool->free[0];
        pool->free[0] = m;
        pool->count[0]++;
        return;
    }
    pr_msg_give_back(pool, m);
}
/* A message without its first word, `next`. Most are of the smallest class; for these as vectors: what GCC makes of memcpy
 * here is a string instruction, which waits for each cache line that another processor has. */
static inline void pr_msg_copy_image(void *to, const pr_msg *m)
{
    typedef uint64_t pair __attribute__((vector_size(16), may_alias, aligned(8)));
    unsigned char *at = (unsigned char *)to + sizeof m->next;
    const unsigned char *from = (const unsigned char *)m + sizeof m->next;
    if (m->class == 0) {
        memcpy(at, from, 8);
        for (size_t i = 0; i < 3; i++)
            *(pair *)(void *)(at + 8 + 16 * i) = *(const pair *)(const void *)(from + 8 + 16 * i);
    } else {
        memcpy(at, from, offsetof(pr_msg, data) - sizeof m->next + m->size);
    }
}
/* Its payload, fresh and complete, refers to shared values: from here on it holds them. */
void pr_msg_hold_shares(pr_msg *m);
static inline bool pr_msg_holds(const pr_msg *m) { return m->class & PR_MSG_HOLDS; }
enum { PR_WIRE_SHARED = 12 };
static inline uint8_t *pr_wire_put_shared(uint8_t *at, struct pr_share *s, uint32_t table)
{
    memcpy(at, &s, 8);
    memcpy(at + 8, &table, 4);
    return at + PR_WIRE_SHARED;
}
/* With its timer, if it has one (whose references are the caller's to count). */
pr_msg *pr_msg_copy(pr_msg_pool *pool, const pr_msg *m);
/* The same with room for a timer. */
pr_msg *pr_msg_copy_timed(pr_msg_pool *pool, const pr_msg *m);

/* Writing values into a payload of known size (the caller has computed it with the same helpers). */
static inline size_t pr_wire_size_bytes(size_t len) { return 1 + 4 + len; }
/* A copy in two overlapping pieces where that is enough: most strings are names of messages. */
static inline uint8_t *pr_wire_put_string(uint8_t *at, const char *s, size_t len)
{
    uint32_t n = (uint32_t)len;
    *at++ = PR_TAG_STRING;
    memcpy(at, &n, 4);
    at += 4;
    if (len >= 4 && len <= 16) {
        if (len >= 8) {
            memcpy(at, s, 8);
            memcpy(at + (len - 8), s + (len - 8), 8);
        } else {
            memcpy(at, s, 4);
            memcpy(at + (len - 4), s + (len - 4), 4);
        }
    } else {
        memcpy(at, s, len);
    }
    return at + len;
}
/* Reads the first value when it is a string: a pointer into the message, NULL otherwise. */
const char *pr_msg_first_string(const pr_msg *m, uint32_t *len);

#endif
