/* Inboxes: a port that any thread may send and ask by, and one at a time takes from.
 *
 * `lock` guards the port, its queue and its ties, the asks and the wheel; `taking` is held by whoever polls or waits,
 * sleep included, and calls callbacks: nothing is locked then.
 *
 * The descriptor is a timerfd, readable when it has expired. Between polls the parker stays PARKED, so that the next sender
 * claims it and lets the timer expire at once (pr_parker_notify); until then it is set for the first ask that may run out
 * of time. A waker that comes late makes it readable for nothing, which costs an empty poll. */
#include "embed.h"

#include "../send_timer.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct pending {
    pr_timer timer;              /* comes first: its time limit */
    struct pending *next;        /* bucket */
    uint32_t number;
    pierrot_answer callback;     /* NULL: the answer is polled */
    void *context;
} pending;

struct pierrot_inbox {
    pierrot *p;
    pr_port *port;
    pthread_mutex_t lock;
    _Atomic bool taking;         /* acquire to take it, release to give it back */
    pending **buckets;
    uint32_t mask, count;        /* buckets - 1; asks under way */
    pr_wheel wheel;
    pr_msg *current;             /* what has been shown last; whoever takes */
};

enum { FIRST_BUCKETS = 16 };

/* --- asks under way; with the lock */

static pending **find(pierrot_inbox *i, uint32_t number)
{
    pending **at = &i->buckets[number & i->mask];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void grow(pierrot_inbox *i)
{
    uint32_t size = 2 * (i->mask + 1);
    pending **buckets = pr_zalloc(size * sizeof(pending *));
    if (!buckets)
        return;   /* longer chains */
    for (uint32_t b = 0; b <= i->mask; b++)
        for (pending *a = i->buckets[b], *next; a; a = next) {
            next = a->next;
            a->next = buckets[a->number & (size - 1)];
            buckets[a->number & (size - 1)] = a;
        }
    pr_free(i->buckets);
    i->buckets = buckets;
    i->mask = size - 1;
}

static pending *take_pending(pierrot_inbox *i, uint32_t number)
{
    pending **at = find(i, number), *a = *at;
    if (a) {
        *at = a->next;
        pr_wheel_cancel(&i->wheel, &a->timer);
        i->count--;
    }
    return a;
}

static uint64_t now_ms(const pierrot_inbox *i) { return pr_clock_ns(i->p->rt) / 1000000; }

/* NULL: no memory. */
static pending *add_pending(pierrot_inbox *i, uint64_t timeout_ms, pierrot_answer callback, void *context)
{
    pending *a = pr_zalloc(sizeof *a);
    if (!a)
        return NULL;
    do
        a->number = ++i->port->next_ask;
    while (a->number == 0 || *find(i, a->number));
    a->callback = callback;
    a->context = context;
    if (i->count > 2 * i->mask)
        grow(i);
    pending **bucket = &i->buckets[a->number & i->mask];
    a->next = *bucket;
    *bucket = a;
    i->count++;
    if (timeout_ms < UINT64_MAX / 2)
        pr_wheel_add(&i->wheel, &a->timer, now_ms(i) + 1 + timeout_ms);   /* never early */
    return a;
}

/* --- opening and closing */

pierrot_status pierrot_inbox_open(pierrot *p, pierrot_inbox **inbox)
{
    if (!p || !inbox)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pierrot_inbox *i = pr_zalloc(sizeof *i);
    *inbox = NULL;
    if (i && (i->buckets = pr_zalloc(FIRST_BUCKETS * sizeof(pending *))) && pthread_mutex_init(&i->lock, NULL) == 0) {
        i->p = p;
        i->mask = FIRST_BUCKETS - 1;
        pr_wheel_init(&i->wheel, now_ms(i));
        if ((i->port = pr_port_open(p->rt)))
            *inbox = i;
        else
            pthread_mutex_destroy(&i->lock);
    }
    if (!*inbox) {
        if (i)
            pr_free(i->buckets);
        pr_free(i);
    }
    pr_leave(before);
    return *inbox ? PIERROT_OK : PIERROT_NOMEM;
}

void pierrot_inbox_close(pierrot_inbox *i)
{
    if (!i)
        return;
    pr_memory *before = pr_enter(i->p);
    int fd = pr_parker_set_fd(&i->port->parker, -1);
    if (fd >= 0)
        close(fd);
    pr_parker_cancel(&i->port->parker);
    if (i->current)
        pr_msg_free(NULL, i->current);
    pr_port_close(i->p->rt, i->port);
    for (uint32_t b = 0; b <= i->mask; b++)
        for (pending *a = i->buckets[b], *next; a; a = next) {
            next = a->next;
            pr_free(a);
        }
    pr_free(i->buckets);
    pthread_mutex_destroy(&i->lock);
    pr_free(i);
    pr_leave(before);
}

pierrot_ref pierrot_inbox_ref(pierrot_inbox *i) { return (pierrot_ref){i ? i->port->id : 0}; }

static bool begin_taking(pierrot_inbox *i) { return !atomic_exchange_explicit(&i->taking, true, memory_order_acquire); }
static void end_taking(pierrot_inbox *i) { atomic_store_explicit(&i->taking, false, memory_order_release); }

/* --- taking what has come in */

static void drop_current(pierrot_inbox *i)
{
    if (i->current)
        pr_msg_free(NULL, i->current);
    i->current = NULL;
}

static pierrot_status status_named(const char *kind, size_t len)
{
    static const struct { const char *name; pierrot_status status; } kinds[] = {
        {"timeout", PIERROT_TIMEOUT}, {"dead", PIERROT_DEAD}, {"full", PIERROT_FULL}, {"deadlock", PIERROT_DEADLOCK}};
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++)
        if (strlen(kinds[n].name) == len && memcmp(kinds[n].name, kind, len) == 0)
            return kinds[n].status;
    return PIERROT_FAILED;
}

static void show(pierrot_inbox *i, pr_msg *m, pierrot_incoming *in)
{
    i->current = m;
    *in = (pierrot_incoming){.sender = {m->sender}, .text = ""};
    pr_envelope_read(m, &in->values);
    if (m->kind == PR_MSG_USER) {
        in->kind = PIERROT_MESSAGE;
        in->request = (pierrot_request){{m->sender}, m->ask};
    } else {
        in->kind = m->kind == PR_MSG_REPLY ? PIERROT_REPLY : PIERROT_ERROR;
        in->ask = m->ask;
    }
    if (in->kind == PIERROT_ERROR) {   /* kind, message, ...: see PR_MSG_ERROR */
        const char *kind = "";
        size_t len = 0;
        pierrot_read_string(&in->values, &kind, &len);
        in->status = status_named(kind, len);
        pierrot_read_string(&in->values, &in->text, &in->text_size);
    }
}

static void show_timeout(pierrot_incoming *in, uint32_t number)
{
    static const char text[] = "no answer in time";
    *in = (pierrot_incoming){.kind = PIERROT_ERROR, .status = PIERROT_TIMEOUT, .ask = number, .text = text,
                             .text_size = sizeof text - 1};
}

/* With the lock: the next thing, and the ask that it answers. False: there is none. */
static bool next(pierrot_inbox *i, pierrot_incoming *in, pending **answers)
{
    pr_runtime *rt = i->p->rt;
    pr_end me = pr_port_end(rt, i->port);
    pr_msg *m;
    *answers = NULL;
    pr_port_collect(rt, i->port);
    while ((m = pr_queue_pop(&i->port->queue))) {
        if (m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR) {
            if ((*answers = take_pending(i, m->ask))) {
                show(i, m, in);
                return true;
            }
            PR_COUNT(rt, (pr_worker *)NULL, late_replies, 1);
        } else if (m->timed && !pr_user_timer_deliver(rt, NULL, m)) {
            PR_COUNT(rt, (pr_worker *)NULL, cancelled, 1);
        } else if (m->kind != PR_MSG_DOWN || pr_ties_take_down(&me, m)) {
            PR_COUNT(rt, (pr_worker *)NULL, handled, 1);
            show(i, m, in);
            return true;
        }
        pr_msg_free(NULL, m);
    }
    pr_timer *t = i->wheel.count ? pr_wheel_pop(&i->wheel, now_ms(i)) : NULL;
    if (!t)
        return false;
    *answers = take_pending(i, ((pending *)(void *)t)->number);
    show_timeout(in, (*answers)->number);
    return true;
}

/* With the lock, when there is nothing: true, and the descriptor tells of the next thing; false: there is something. */
static bool arm(pierrot_inbox *i)
{
    pr_parker *parker = &i->port->parker;
    int fd = parker->fd;   /* only who holds the lock changes it */
    if (fd < 0)
        return true;
    uint64_t at = pr_wheel_next_ms(&i->wheel);
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (at < UINT64_MAX / 1000000 && i->p->config.clock == PIERROT_CLOCK_REAL) {
        when.it_value.tv_sec = (time_t)(at / 1000);
        when.it_value.tv_nsec = (long)(at % 1000) * 1000000 + 1;   /* 0 would disarm it */
    }
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);   /* it is not expired any more */
    pr_parker_prepare(parker);
    if (pr_stack_empty(&i->port->actor->mailbox))
        return true;
    pr_parker_cancel(parker);
    return false;
}

pierrot_status pierrot_inbox_poll(pierrot_inbox *i, pierrot_incoming *in)
{
    if (!i || !in)
        return PIERROT_INVALID;
    if (!begin_taking(i))
        return PIERROT_BUSY;
    pr_memory *before = pr_enter(i->p);
    pierrot_status status = PIERROT_NOTHING;
    pending *answers = NULL;
    for (bool more = true; more;) {
        drop_current(i);
        pthread_mutex_lock(&i->lock);
        bool found = next(i, in, &answers);
        more = !found && !arm(i);
        pthread_mutex_unlock(&i->lock);
        if (!found)
            continue;
        status = PIERROT_OK;
        if (!answers)
            break;
        pierrot_answer callback = answers->callback;
        void *context = answers->context;
        pr_free(answers);
        if (!callback)
            break;
        status = PIERROT_NOTHING;
        more = true;
        pr_leave(before);
        callback(context, in);
        before = pr_enter(i->p);
    }
    pr_leave(before);
    end_taking(i);
    return status;
}

/* With the lock: until when to sleep, because of the asks; 0: one has run out of time. */
static uint64_t asks_until_ns(pierrot_inbox *i)
{
    pr_timer *due = i->wheel.count ? pr_wheel_pop(&i->wheel, now_ms(i)) : NULL;
    if (due) {
        pr_wheel_add(&i->wheel, due, due->due_ms);   /* for the poll */
        return 0;
    }
    uint64_t at = pr_wheel_next_ms(&i->wheel);
    return at >= UINT64_MAX / 1000000 ? UINT64_MAX : at * 1000000;
}

/* After a sleep: what has come in since has found the parker awake, and told nobody. */
static void make_readable(pierrot_inbox *i)
{
    pthread_mutex_lock(&i->lock);
    if (i->port->parker.fd >= 0)
        pr_parker_notify(&i->port->parker);
    pthread_mutex_unlock(&i->lock);
}

pierrot_status pierrot_inbox_wait(pierrot_inbox *i, uint64_t timeout_ms)
{
    if (!i || pr_in_a_handler(i->p))
        return PIERROT_INVALID;
    if (!begin_taking(i))
        return PIERROT_BUSY;
    pr_memory *before = pr_enter(i->p);
    uint64_t until = pr_until_ns(i->p, timeout_ms);
    pierrot_status status = PIERROT_OK;
    for (;;) {
        pthread_mutex_lock(&i->lock);
        pr_port_collect(i->p->rt, i->port);
        bool something = i->port->queue.head != NULL;
        uint64_t asks = asks_until_ns(i);
        pthread_mutex_unlock(&i->lock);
        uint64_t now = pr_clock_ns(i->p->rt);
        if (something || asks == 0)
            break;
        if (until <= now) {
            status = PIERROT_TIMEOUT;
            break;
        }
        pr_host_wait(i->p, i->port, asks < until ? asks : until);
    }
    make_readable(i);
    pr_leave(before);
    end_taking(i);
    return status;
}

int pierrot_inbox_fd(pierrot_inbox *i)
{
    if (!i)
        return -1;
    pthread_mutex_lock(&i->lock);
    int fd = i->port->parker.fd;
    if (fd < 0 && (fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) >= 0) {
        struct itimerspec at_once = {{0, 0}, {0, 1}};
        timerfd_settime(fd, 0, &at_once, NULL);   /* the first poll arms it */
        pr_parker_set_fd(&i->port->parker, fd);
    }
    pthread_mutex_unlock(&i->lock);
    return fd;
}

/* --- sending */

pierrot_status pierrot_inbox_tell(pierrot_inbox *i, pierrot_ref to, const pierrot_message *m)
{
    if (!i)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(i->p);
    pierrot_status status = pr_host_send(i->p, NULL, i->port->id, 0, to, m);
    pr_leave(before);
    return status;
}

static pierrot_status ask_start(pierrot *p, uint64_t from, uint32_t ask, pierrot_ref to)
{
    if (!pr_id_valid(to.id) || pr_monitor_valid(to.id))
        return to.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    pr_msg *e = pr_msg_new(NULL, 0);
    if (!e)
        return PIERROT_NOMEM;
    e->kind = PR_MSG_AWAIT;
    e->target = to.id;
    e->sender = from;
    e->ask = ask;
    pr_status status = pr_control(p->rt, NULL, e);
    if (status != PR_OK)
        pr_msg_free(NULL, e);
    return pr_public_status(status);
}

/* start: asks whether it has started, instead of sending `m`. */
static pierrot_status ask(pierrot_inbox *i, pierrot_ref to, const pierrot_message *m, bool start, uint64_t timeout_ms,
                          pierrot_answer callback, void *context, uint32_t *number)
{
    pr_memory *before = pr_enter(i->p);
    pthread_mutex_lock(&i->lock);
    pending *a = add_pending(i, timeout_ms, callback, context);
    uint32_t n = a ? a->number : 0;
    pthread_mutex_unlock(&i->lock);
    pierrot_status status = !a ? PIERROT_NOMEM : start ? ask_start(i->p, i->port->id, n, to)
                                                       : pr_host_send(i->p, NULL, i->port->id, n, to, m);
    if (a && status != PIERROT_OK) {
        pthread_mutex_lock(&i->lock);
        pr_free(take_pending(i, n));   /* gone when its time has run out meanwhile, which has been told then */
        pthread_mutex_unlock(&i->lock);
    } else if (a && timeout_ms < UINT64_MAX / 2) {
        pr_port_wake(i->port->actor);   /* who waits for less knows nothing of it yet */
    }
    if (number)
        *number = n;
    pr_leave(before);
    return status;
}

pierrot_status pierrot_ask(pierrot_inbox *i, pierrot_ref to, const pierrot_message *m, uint64_t timeout_ms,
                           pierrot_answer callback, void *context, uint32_t *number)
{
    return i ? ask(i, to, m, false, timeout_ms, callback, context, number) : PIERROT_INVALID;
}

pierrot_status pierrot_await(pierrot_inbox *i, pierrot_ref ref, uint64_t timeout_ms, pierrot_answer callback, void *context,
                             uint32_t *number)
{
    return i ? ask(i, ref, NULL, true, timeout_ms, callback, context, number) : PIERROT_INVALID;
}

/* With the lock: the answer to that ask among what has come in, out of the queue. */
static pr_msg *answer_to(pierrot_inbox *i, uint32_t number)
{
    pr_queue *q = &i->port->queue;
    for (pr_msg *m = q->head, *prior = NULL; m; prior = m, m = m->next)
        if ((m->kind == PR_MSG_REPLY || m->kind == PR_MSG_ERROR) && m->ask == number) {
            if (prior)
                prior->next = m->next;
            else
                q->head = m->next;
            if (q->tail == m)
                q->tail = prior;
            return m;
        }
    return NULL;
}

pierrot_status pierrot_ask_wait(pierrot_inbox *i, pierrot_ref to, const pierrot_message *m, uint64_t timeout_ms,
                                pierrot_incoming *in)
{
    uint32_t number;
    if (!i || !in || pr_in_a_handler(i->p))
        return PIERROT_INVALID;
    if (!begin_taking(i))
        return PIERROT_BUSY;
    uint64_t until = pr_until_ns(i->p, timeout_ms);
    pierrot_status status = ask(i, to, m, false, PIERROT_FOREVER, NULL, NULL, &number);
    pr_memory *before = pr_enter(i->p);
    drop_current(i);
    while (status == PIERROT_OK) {
        pthread_mutex_lock(&i->lock);
        pr_port_collect(i->p->rt, i->port);
        pr_msg *reply = answer_to(i, number);
        bool late = !reply && until <= pr_clock_ns(i->p->rt);
        if (reply || late)
            pr_free(take_pending(i, number));
        pthread_mutex_unlock(&i->lock);
        if (reply) {
            show(i, reply, in);
            break;
        }
        if (late) {
            show_timeout(in, number);
            break;
        }
        pr_host_wait(i->p, i->port, until);
    }
    if (status == PIERROT_OK)
        status = in->status;
    make_readable(i);
    pr_leave(before);
    end_taking(i);
    return status;
}

/* --- watching */

pierrot_status pierrot_monitor(pierrot_inbox *i, pierrot_ref ref, pierrot_ref *monitor)
{
    uint32_t number = 0;
    if (!i || !pr_id_valid(ref.id) || pr_monitor_valid(ref.id))
        return i && ref.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    pr_memory *before = pr_enter(i->p);
    pthread_mutex_lock(&i->lock);
    pr_end me = pr_port_end(i->p->rt, i->port);
    bool set = pr_monitor(&me, ref.id, &number);
    pthread_mutex_unlock(&i->lock);
    pr_leave(before);
    if (set && monitor)
        monitor->id = pr_monitor_value(number);
    return set ? PIERROT_OK : PIERROT_NOMEM;
}

pierrot_status pierrot_demonitor(pierrot_inbox *i, pierrot_ref monitor)
{
    if (!i || !pr_monitor_valid(monitor.id))
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(i->p);
    pthread_mutex_lock(&i->lock);
    pr_end me = pr_port_end(i->p->rt, i->port);
    bool to_come = pr_monitor_cancel(&me, pr_monitor_number(monitor.id));
    pthread_mutex_unlock(&i->lock);
    pr_leave(before);
    return to_come ? PIERROT_OK : PIERROT_NOTHING;
}

static pierrot_status subscribe(pierrot_inbox *i, const char *topic, bool on)
{
    int number = i && topic ? pr_topic_parse(topic) : -1;
    if (number < 0)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(i->p);
    pierrot_status status;
    if (on)
        status = pr_public_status((pr_status)pr_event_subscribe(i->p->rt, i->port->id, (enum pr_topic)number));
    else
        status = pr_event_unsubscribe(i->p->rt, i->port->id, (enum pr_topic)number) ? PIERROT_OK : PIERROT_NOTHING;
    pr_leave(before);
    return status;
}

pierrot_status pierrot_subscribe(pierrot_inbox *i, const char *topic) { return subscribe(i, topic, true); }
pierrot_status pierrot_unsubscribe(pierrot_inbox *i, const char *topic) { return subscribe(i, topic, false); }
