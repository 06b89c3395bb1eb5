/* See box.h. */
#include "box.h"

#include "alloc.h"
#include "send_timer.h"

#include <math.h>
#include <stdlib.h>

typedef struct waiter {
    struct waiter *next;
    pr_msg *message, *notice;
} waiter;

/* A message with a priority, in a heap: the first to be taken is at 0. */
typedef struct entry {
    pr_msg *m;
    double priority;
    uint64_t number;      /* of arrival */
    uint32_t epoch;       /* drains that lie before it */
} entry;

struct pr_box {
    const pr_runtime *rt;
    pthread_mutex_t lock;             /* guards everything but the lists' links */
    uint64_t id;
    uint32_t slot;
    pr_box_spec spec;
    uint32_t held;
    _Atomic uint32_t count, high_water;   /* written under the lock, read anywhere; relaxed */
    uint32_t alarm;                   /* the depth of the next "overload" */
    pr_queue in;
    uint32_t in_held;
    uint32_t debt;
    waiter *first, *last;
    uint32_t waiting;
    bool reserved;                    /* `staged` and the heap are being looked through */
    bool noticed;                     /* the notice is in an inbox */
    pr_msg *notice;
    /* the owner's, but under the lock while not reserved */
    pr_queue staged;
    entry *heap;
    uint32_t heap_count, heap_capacity, epoch;
    uint64_t arrivals;
    pr_box *next_free, *next_all;
};

/* What is to be done once the lock is free. */
typedef struct after {
    pr_msg *dropped;
    waiter *admitted;
    uint32_t depth;
    bool over, back;
} after;

static bool is_held(const pr_msg *m) { return m->kind == PR_MSG_USER && !(m->ordered & PR_MSG_EXEMPT); }

/* --- the table */

int pr_boxes_init(pr_boxes *b)
{
    return pthread_mutex_init(&b->lock, NULL);
}

void pr_boxes_destroy(pr_boxes *b)
{
    while (b->all) {
        pr_box *box = b->all;
        b->all = box->next_all;
        pthread_mutex_destroy(&box->lock);
        pr_free(box->notice);
        pr_free(box->heap);
        pr_free(box);
    }
    pr_box_slabs *slabs = PR_GET(b->slabs);
    for (uint32_t i = 0; slabs && i < PR_SLABS; i++)
        pr_free(PR_GET(slabs->of[i]));
    pr_free(slabs);
    pthread_mutex_destroy(&b->lock);
}

static pr_box *make(void)
{
    pr_box *box = pr_zalloc(sizeof *box);
    pr_msg *notice = pr_msg_new(NULL, sizeof box);
    if (!box || !notice || pthread_mutex_init(&box->lock, NULL) != 0) {
        pr_free(box);
        pr_free(notice);
        return NULL;
    }
    notice->kind = PR_MSG_BOX;
    memcpy(notice->data, &box, sizeof box);   /* what it is about */
    box->notice = notice;
    return box;
}

pr_box *pr_box_new(pr_runtime *rt, const pr_box_spec *spec)
{
    pr_boxes *b = &rt->boxes;
    pthread_mutex_lock(&b->lock);
    pr_box *box = b->free;
    if (box) {
        b->free = box->next_free;
    } else if ((box = make())) {
        box->next_all = b->all;
        b->all = box;
    }
    pthread_mutex_unlock(&b->lock);
    if (!box)
        return NULL;
    /* Nobody but late senders looks at it, under the lock, and they go by the id. */
    pthread_mutex_lock(&box->lock);
    box->rt = rt;
    box->spec = *spec;
    box->alarm = spec->threshold ? spec->threshold : PR_UNBOUNDED;
    box->held = box->in_held = box->debt = box->epoch = 0;
    PR_SET(box->count, 0);
    PR_SET(box->high_water, 0);
    box->arrivals = 0;
    box->reserved = false;
    pthread_mutex_unlock(&box->lock);
    if (spec->priority)
        pr_behaviour_hold(spec->priority);
    return box;
}

static void give_back(pr_runtime *rt, pr_box *box)
{
    pthread_mutex_lock(&rt->boxes.lock);
    box->next_free = rt->boxes.free;
    rt->boxes.free = box;
    pthread_mutex_unlock(&rt->boxes.lock);
}

void pr_box_discard(pr_runtime *rt, pr_box *box)
{
    pthread_mutex_lock(&box->lock);
    box->id = 0;
    pthread_mutex_unlock(&box->lock);
    if (box->spec.priority)
        pr_behaviour_drop(&rt->behaviours, box->spec.priority);
    give_back(rt, box);
}

bool pr_box_attach(pr_runtime *rt, pr_box *box, uint32_t slot, uint64_t id)
{
    pr_boxes *b = &rt->boxes;
    pthread_mutex_lock(&b->lock);
    pr_box_slabs *slabs = PR_GET(b->slabs);
    if (!slabs && (slabs = pr_zalloc(sizeof *slabs)))
        atomic_store_explicit(&b->slabs, slabs, memory_order_release);   /* pairs with box_at */
    _Atomic(_Atomic(pr_box *) *) *at = slabs ? &slabs->of[slot >> PR_SLAB_BITS] : NULL;
    _Atomic(pr_box *) *slab = at ? PR_GET(*at) : NULL;
    if (at && !slab && (slab = pr_zalloc(PR_SLAB * sizeof *slab)))
        atomic_store_explicit(at, slab, memory_order_release);   /* likewise */
    pthread_mutex_unlock(&b->lock);
    if (!slab)
        return false;
    pthread_mutex_lock(&box->lock);
    box->id = id;
    box->slot = slot;
    pthread_mutex_unlock(&box->lock);
    atomic_store_explicit(&slab[slot & (PR_SLAB - 1)], box, memory_order_release);   /* likewise */
    return true;
}

static pr_box *box_at(pr_runtime *rt, uint32_t slot)
{
    pr_box_slabs *slabs = atomic_load_explicit(&rt->boxes.slabs, memory_order_acquire);
    _Atomic(pr_box *) *slab = slabs ? atomic_load_explicit(&slabs->of[slot >> PR_SLAB_BITS], memory_order_acquire) : NULL;
    return slab ? atomic_load_explicit(&slab[slot & (PR_SLAB - 1)], memory_order_acquire) : NULL;
}

/* The locked box of this actor, or NULL. */
static pr_box *lock_box(pr_runtime *rt, uint64_t id)
{
    pr_box *box = box_at(rt, pr_id_slot(id));
    if (!box)
        return NULL;
    pthread_mutex_lock(&box->lock);
    if (box->id == id)
        return box;
    pthread_mutex_unlock(&box->lock);
    return NULL;
}

/* --- the heap */

static bool before(const entry *a, const entry *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->number < b->number;
}

static void sift_up(entry *heap, uint32_t i)
{
    for (entry e = heap[i]; i > 0 && before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2) {
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = e;
    }
}

static void sift_down(entry *heap, uint32_t count, uint32_t i)
{
    for (;;) {
        uint32_t least = i, left = 2 * i + 1;
        if (left < count && before(&heap[left], &heap[least]))
            least = left;
        if (left + 1 < count && before(&heap[left + 1], &heap[least]))
            least = left + 1;
        if (least == i)
            return;
        entry e = heap[i];
        heap[i] = heap[least];
        heap[least] = e;
        i = least;
    }
}

static pr_msg *heap_remove(pr_box *box, uint32_t i)
{
    pr_msg *m = box->heap[i].m;
    box->heap[i] = box->heap[--box->heap_count];
    if (i < box->heap_count) {
        sift_up(box->heap, i);
        sift_down(box->heap, box->heap_count, i);
    }
    return m;
}

static bool heap_room(pr_box *box, uint32_t more)
{
    uint32_t needed = box->heap_count + more, capacity = box->heap_capacity ? box->heap_capacity : 64;
    if (needed <= box->heap_capacity)
        return true;
    while (capacity < needed)
        capacity *= 2;
    entry *grown = pr_realloc(box->heap, capacity * sizeof *grown);
    if (!grown)
        return false;
    box->heap = grown;
    box->heap_capacity = capacity;
    return true;
}

static int compare(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

/* --- with the lock held */

static void unlink_from(pr_queue *q, pr_msg *previous, pr_msg *m)
{
    if (previous)
        previous->next = m->next;
    else
        q->head = m->next;
    if (q->tail == m)
        q->tail = previous;
}

/* A message has left: what follows from there being room. */
static void left(pr_box *box, const pr_msg *m, after *then)
{
    uint32_t count = PR_GET(box->count) - 1;
    PR_SET(box->count, count);
    if (box->alarm > box->spec.threshold && box->spec.threshold && count <= box->spec.threshold / 2) {
        box->alarm = box->spec.threshold;
        then->back = true;
        then->depth = count;
    }
    if (is_held(m))
        box->held--;
}

static void push(pr_box *box, pr_msg *m, after *then)
{
    m->target = pr_clock_ns(box->rt) / 1000000;
    pr_queue_push(&box->in, m);
    uint32_t count = PR_GET(box->count) + 1;
    PR_SET(box->count, count);
    if (is_held(m)) {
        box->held++;
        box->in_held++;
    }
    if (count - box->debt > PR_GET(box->high_water))   /* what is owed has gone, as far as anybody can tell */
        PR_SET(box->high_water, count - box->debt);
    if (count >= box->alarm) {
        then->over = true;
        then->depth = count;
        box->alarm = box->alarm < PR_UNBOUNDED / 2 ? 2 * box->alarm : PR_UNBOUNDED;
    }
}

/* Those who wait for room come in, in their order. */
static void admit(pr_box *box, after *then)
{
    waiter **end = &then->admitted;
    while (*end)
        end = &(*end)->next;
    while (box->first && box->held < box->spec.capacity) {
        waiter *next = box->first;
        box->first = next->next;
        if (!box->first)
            box->last = NULL;
        box->waiting--;
        next->next = NULL;
        push(box, next->message, then);
        *end = next;
        end = &next->next;
    }
}

static void drop(pr_box *box, pr_msg *m, after *then)
{
    left(box, m, then);
    m->next = then->dropped;
    then->dropped = m;
}

static bool drop_first_of(pr_box *box, pr_queue *q, after *then)
{
    for (pr_msg *previous = NULL, *m = q->head; m; previous = m, m = m->next)
        if (is_held(m)) {
            unlink_from(q, previous, m);
            if (q == &box->in)
                box->in_held--;
            drop(box, m, then);
            return true;
        }
    return false;
}

/* The one that has waited longest goes. */
static void drop_oldest(pr_box *box, after *then)
{
    if (box->reserved) {
        if (box->in_held < box->spec.capacity || !drop_first_of(box, &box->in, then))
            box->debt++;
        return;
    }
    uint32_t oldest = PR_UNBOUNDED;
    for (uint32_t i = 0; i < box->heap_count; i++)
        if (is_held(box->heap[i].m) && (oldest == PR_UNBOUNDED || box->heap[i].number < box->heap[oldest].number))
            oldest = i;
    if (oldest != PR_UNBOUNDED)
        drop(box, heap_remove(box, oldest), then);
    else if (!drop_first_of(box, &box->staged, then))
        drop_first_of(box, &box->in, then);
}

static void pay(pr_box *box, after *then)
{
    for (; box->debt > 0; box->debt--)
        if (box->held > box->spec.capacity)
            drop_oldest(box, then);
}

/* --- without the lock */

static void finish_admitted(pr_runtime *rt, pr_worker *w, waiter *list, uint64_t id, bool refused)
{
    for (waiter *next; list; list = next) {
        next = list->next;
        if (list->notice) {
            list->notice->kind = refused ? PR_MSG_ERROR : PR_MSG_REPLY;
            list->notice->sender = id;
            pr_asker_is_answered(rt, list->notice->target, id);
            if (pr_send(rt, w, list->notice) != PR_OK)
                pr_msg_free(w ? &w->pool : NULL, list->notice);
        }
        pr_free(list);
    }
}

/* Dead letters, replies and events, in this order. */
static void carry_out(pr_runtime *rt, pr_worker *w, uint64_t id, uint32_t threshold, after *then)
{
    if (!then->dropped && !then->admitted && !then->over && !then->back)
        return;
    for (pr_msg *m = pr_list_reverse(then->dropped), *next; m; m = next) {
        next = m->next;
        m->target = id;
        pr_dead_letter(rt, w, m, PR_DEAD_DROPPED_OLDEST);
    }
    for (waiter *each = then->admitted; each; each = each->next)
        PR_COUNT(rt, w, sent, 1);
    finish_admitted(rt, w, then->admitted, id, false);
    if (then->over)
        pr_event_overload(rt, w, id, then->depth, threshold, false);
    if (then->back)
        pr_event_overload(rt, w, id, then->depth, threshold, true);
}

/* Unlocks; then the owner learns that there is something. */
static void unlock_and_tell(pr_runtime *rt, pr_worker *w, pr_actor *a, pr_box *box, after *then)
{
    uint64_t id = box->id;
    uint32_t threshold = box->spec.threshold;
    /* Under the lock: if the actor is pinned later than this, its owner looks into the box after that. */
    uint16_t home = atomic_load_explicit(&a->home, memory_order_acquire);
    bool floating = home == PR_HOME_FLOATING;
    pr_worker *owner = floating ? NULL : &rt->workers[home - 1];
    bool here = owner && owner == w;
    bool tell = owner && !here && !box->noticed;
    if (tell) {
        box->noticed = true;
        box->notice->target = id;
    }
    pthread_mutex_unlock(&box->lock);
    if (floating) {
        if (pr_actor_try_schedule(a))
            pr_make_ready(rt, w, a);
    } else if (here) {
        if (PR_GET(a->id) == id)
            pr_actor_has_message(w, a);
    } else if (tell && pr_stack_push(&owner->control, box->notice)) {
        if (pr_worker_wake(owner) && w)
            w->woke = true;
    }
    carry_out(rt, w, id, threshold, then);
}

/* --- senders */

pr_status pr_box_send(pr_runtime *rt, pr_worker *w, pr_actor *a, pr_msg *m)
{
    after then = {0};
    pr_box *box = lock_box(rt, m->target);
    if (!box)
        return PR_DEAD;
    if (is_held(m) && (box->held >= box->spec.capacity || box->first)) {
        uint64_t id = box->id;
        switch (box->spec.overflow) {
        case PR_OVERFLOW_REJECT:
        case PR_OVERFLOW_SUSPEND: {
            bool waits = box->spec.overflow == PR_OVERFLOW_SUSPEND;
            pthread_mutex_unlock(&box->lock);
            return waits ? PR_MUST_WAIT : PR_FULL;
        }
        case PR_OVERFLOW_DROP_NEWEST:
            pthread_mutex_unlock(&box->lock);
            m->target = id;
            pr_dead_letter(rt, w, m, PR_DEAD_DROPPED_NEWEST);
            return PR_OK;
        default:
            drop_oldest(box, &then);
            push(box, m, &then);
        }
    } else {
        push(box, m, &then);
    }
    unlock_and_tell(rt, w, a, box, &then);
    return PR_OK;
}

pr_status pr_box_wait(pr_runtime *rt, pr_worker *w, pr_actor *a, pr_msg *m, pr_msg *notice)
{
    after then = {0};
    waiter *self = pr_alloc(sizeof *self);
    if (!self)
        return PR_NOMEM;
    pr_box *box = lock_box(rt, m->target);
    if (!box) {
        pr_free(self);
        return PR_DEAD;
    }
    if (box->held < box->spec.capacity && !box->first) {
        push(box, m, &then);
        unlock_and_tell(rt, w, a, box, &then);
        pr_free(self);
        PR_COUNT(rt, w, sent, 1);
        return PR_OK;
    }
    *self = (waiter){NULL, m, notice};
    *(box->last ? &box->last->next : &box->first) = self;
    box->last = self;
    box->waiting++;
    pthread_mutex_unlock(&box->lock);
    return PR_MUST_WAIT;
}

bool pr_box_cancel(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t sender, uint32_t ask)
{
    pr_box *box = lock_box(rt, target);
    if (!box)
        return false;
    waiter *previous = NULL, *each = box->first;
    while (each && !(each->notice ? each->notice->target == sender && each->notice->ask == ask
                                  : each->message->sender == sender && each->message->ask == ask)) {
        previous = each;
        each = each->next;
    }
    if (each) {
        *(previous ? &previous->next : &box->first) = each->next;
        if (box->last == each)
            box->last = previous;
        box->waiting--;
    }
    pthread_mutex_unlock(&box->lock);
    if (!each)
        return false;
    if (each->notice)   /* an ask that was being passed on is somebody else's */
        pr_reply_error(rt, w, each->message, "dead", "the actor that was to pass it on has ended");
    pr_msg_free(w ? &w->pool : NULL, each->message);
    if (each->notice)
        pr_msg_free(w ? &w->pool : NULL, each->notice);
    pr_free(each);
    return true;
}

/* --- the owner */

static pr_box *own(pr_worker *w, pr_actor *a) { return box_at(w->rt, a->slot); }

static void note_left(pr_worker *w, pr_box *box, uint64_t id, after *then)
{
    admit(box, then);
    uint32_t threshold = box->spec.threshold;
    pthread_mutex_unlock(&box->lock);
    carry_out(w->rt, w, id, threshold, then);
}

/* Moves what has arrived where the owner takes it from. Lock held on entry and on return; given up in between while
 * priorities are computed. */
static void stage(pr_worker *w, pr_box *box, after *then)
{
    pr_msg *m = box->in.head;
    if (!m)
        return;
    box->in_held = 0;
    if (!box->spec.priority) {
        *(box->staged.tail ? &box->staged.tail->next : &box->staged.head) = m;
        box->staged.tail = box->in.tail;
        box->in = (pr_queue){NULL, NULL};
        return;
    }
    uint32_t n = 0;
    for (const pr_msg *each = m; each; each = each->next)
        n++;
    if (!heap_room(box, n)) {   /* no memory: taken in their order this time */
        *(box->staged.tail ? &box->staged.tail->next : &box->staged.head) = m;
        box->staged.tail = box->in.tail;
        box->in = (pr_queue){NULL, NULL};
        return;
    }
    box->in = (pr_queue){NULL, NULL};
    box->reserved = true;
    pthread_mutex_unlock(&box->lock);
    for (pr_msg *next; m; m = next) {
        next = m->next;
        entry e = {m, 0, box->arrivals++, box->epoch};
        if (m->kind == PR_MSG_DRAIN) {
            e.priority = -HUGE_VAL;
            box->epoch++;
        } else if (w->rt->config.priority) {
            uint64_t arrived = m->target;
            m->target = PR_GET(w->running->id);
            e.priority = w->rt->config.priority(w, box->spec.priority, m);
            m->target = arrived;
        }
        box->heap[box->heap_count++] = e;   /* nobody else touches a reserved heap */
        sift_up(box->heap, box->heap_count - 1);
    }
    pthread_mutex_lock(&box->lock);
    box->reserved = false;
    pay(box, then);
}

pr_msg *pr_box_take(pr_worker *w, pr_actor *a)
{
    after then = {0};
    pr_box *box = own(w, a);
    uint64_t id = PR_GET(a->id);
    pthread_mutex_lock(&box->lock);
    stage(w, box, &then);
    pr_msg *m = pr_queue_pop(&box->staged);
    if (!m && box->heap_count > 0)
        m = heap_remove(box, 0);
    if (m) {
        left(box, m, &then);
        m->target = id;
        m->ordered &= (uint8_t)~PR_MSG_EXEMPT;
    }
    note_left(w, box, id, &then);
    return m;
}

void pr_box_show_first(pr_worker *w, pr_actor *a, void (*show)(void *context, const pr_msg *m), void *context)
{
    pr_box *box = own(w, a);
    pthread_mutex_lock(&box->lock);   /* or it could be dropped meanwhile */
    const pr_msg *m = box->staged.head ? box->staged.head : box->heap_count > 0 ? box->heap[0].m : box->in.head;
    if (m)
        show(context, m);
    pthread_mutex_unlock(&box->lock);
}

bool pr_box_ready(pr_worker *w, pr_actor *a)
{
    pr_box *box = own(w, a);
    pthread_mutex_lock(&box->lock);
    bool any = box->in.head || box->staged.head || box->heap_count > 0;
    pthread_mutex_unlock(&box->lock);
    return any;
}

pr_queue *pr_box_view(pr_worker *w, pr_actor *a)
{
    after then = {0};
    pr_box *box = own(w, a);
    uint64_t id = PR_GET(a->id);
    pthread_mutex_lock(&box->lock);
    stage(w, box, &then);
    if (box->heap_count > 0) {   /* sorted, it is a heap still */
        qsort(box->heap, box->heap_count, sizeof *box->heap, compare);
        for (uint32_t i = 0; i < box->heap_count; i++)
            pr_queue_push(&box->staged, box->heap[i].m);
    }
    box->reserved = true;
    note_left(w, box, id, &then);
    return &box->staged;
}

void pr_box_remove(pr_worker *w, pr_actor *a, pr_msg *previous, pr_msg *m)
{
    after then = {0};
    pr_box *box = own(w, a);
    uint64_t id = PR_GET(a->id);
    pthread_mutex_lock(&box->lock);
    unlink_from(&box->staged, previous, m);
    for (uint32_t i = 0; i < box->heap_count; i++)
        if (box->heap[i].m == m) {   /* it stays sorted */
            memmove(&box->heap[i], &box->heap[i + 1], (--box->heap_count - i) * sizeof *box->heap);
            break;
        }
    left(box, m, &then);
    m->target = id;
    m->ordered &= (uint8_t)~PR_MSG_EXEMPT;
    note_left(w, box, id, &then);
}

void pr_box_view_end(pr_worker *w, pr_actor *a)
{
    after then = {0};
    pr_box *box = own(w, a);
    uint64_t id = PR_GET(a->id);
    pthread_mutex_lock(&box->lock);
    box->reserved = false;
    if (box->heap_count > 0) {   /* the view's links of what is in the heap go; what lay before them stays */
        pr_msg *first = box->heap[0].m, *last = NULL;
        if (box->staged.head == first) {
            box->staged = (pr_queue){NULL, NULL};
        } else {
            for (last = box->staged.head; last->next != first; last = last->next)
                ;
            last->next = NULL;
            box->staged.tail = last;
        }
    }
    pay(box, &then);
    note_left(w, box, id, &then);
}

void pr_box_put_front(pr_worker *w, pr_actor *a, pr_queue *list)
{
    pr_box *box = own(w, a);
    uint64_t now_ms = w->now_ms;
    uint32_t n = 0;
    for (pr_msg *m = list->head; m; m = m->next, n++) {
        m->target = now_ms;
        m->ordered = PR_MSG_EXEMPT;
    }
    if (n == 0)
        return;
    pthread_mutex_lock(&box->lock);
    list->tail->next = box->staged.head;
    if (!box->staged.head)
        box->staged.tail = list->tail;
    box->staged.head = list->head;
    PR_SET(box->count, PR_GET(box->count) + n);
    pthread_mutex_unlock(&box->lock);
}

void pr_box_put(pr_worker *w, pr_actor *a, pr_msg *m)
{
    after then = {0};
    pr_box *box = own(w, a);
    uint64_t id = PR_GET(a->id);
    if (m->kind == PR_MSG_USER)
        m->ordered = PR_MSG_EXEMPT;
    pthread_mutex_lock(&box->lock);
    push(box, m, &then);
    uint32_t threshold = box->spec.threshold;
    pthread_mutex_unlock(&box->lock);
    pr_actor_has_message(w, a);
    carry_out(w->rt, w, id, threshold, &then);
}

uint32_t pr_box_capacity(pr_runtime *rt, pr_actor *a)
{
    return box_at(rt, a->slot)->spec.capacity;   /* its actor calls: fixed */
}

void pr_box_noticed(pr_worker *w, pr_msg *notice)
{
    pr_box *box;
    memcpy(&box, notice->data, sizeof box);
    pthread_mutex_lock(&box->lock);
    box->noticed = false;
    uint64_t id = box->id;
    pthread_mutex_unlock(&box->lock);
    pr_actor *a = id ? pr_actor_find(&w->rt->actors, id) : NULL;
    if (!id)
        give_back(w->rt, box);   /* its actor has ended meanwhile, and left this to us */
    else if (a)
        pr_actor_has_message(w, a);
}

void pr_box_end(pr_worker *w, pr_actor *a)
{
    pr_runtime *rt = w->rt;
    pr_box *box = own(w, a);
    pthread_mutex_lock(&box->lock);
    uint64_t id = box->id;
    box->id = 0;
    *(box->staged.tail ? &box->staged.tail->next : &box->staged.head) = box->in.head;
    pr_msg *rest = box->staged.head;
    box->staged = box->in = (pr_queue){NULL, NULL};
    waiter *refused = box->first;
    box->first = box->last = NULL;
    box->waiting = 0;
    bool noticed = box->noticed;
    struct pr_behaviour *priority = box->spec.priority;
    uint32_t entries = box->heap_count;
    box->heap_count = 0;
    PR_SET(box->count, 0);
    pthread_mutex_unlock(&box->lock);
    for (pr_msg *next; rest; rest = next) {
        next = rest->next;
        rest->target = id;
        pr_dead_letter(rt, w, rest, PR_DEAD_NOBODY);
    }
    for (uint32_t i = 0; i < entries; i++) {
        box->heap[i].m->target = id;
        pr_dead_letter(rt, w, box->heap[i].m, PR_DEAD_NOBODY);
    }
    for (waiter *each = refused; each; each = each->next) {
        PR_COUNT(rt, w, rejected, 1);
        pr_reply_error(rt, w, each->message, "dead", "the actor has ended");
        pr_msg_free(&w->pool, each->message);
    }
    finish_admitted(rt, w, refused, id, true);
    if (priority)
        pr_behaviour_drop(&rt->behaviours, priority);
    if (!noticed)
        give_back(rt, box);
}

/* --- looking */

uint32_t pr_actor_depth(pr_runtime *rt, pr_actor *a)
{
    pr_box_info info;
    uint64_t id = PR_GET(a->id);
    return PR_GET(a->gate) & PR_GATE_BOXED && id && pr_box_look(rt, id, &info) ? info.depth : PR_GET(a->depth);
}

bool pr_box_look(pr_runtime *rt, uint64_t id, pr_box_info *info)
{
    pr_box *box = lock_box(rt, id);
    if (!box)
        return false;
    *info = (pr_box_info){PR_GET(box->count) - box->debt, PR_GET(box->high_water), box->spec.capacity, box->waiting, 0};
    const pr_msg *first = box->reserved ? NULL : box->staged.head ? box->staged.head : box->heap_count ? NULL : box->in.head;
    uint64_t oldest = first ? first->target : 0;
    for (uint32_t i = 0; !box->reserved && i < box->heap_count; i++)
        if (oldest == 0 || box->heap[i].m->target < oldest)
            oldest = box->heap[i].m->target;
    info->oldest_ms = oldest;
    pthread_mutex_unlock(&box->lock);
    return true;
}
