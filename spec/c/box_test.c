/* Bounded mailboxes in C: each overflow policy against a model, exactness and order over threads, senders that wait, are
 * let in, killed, refused at the owner's end; nothing is lost without a trace.
 *
 * Mutants caught: a capacity off by one; drop_oldest that drops the newest, or an exempt message; a view whose messages
 * are dropped under it; a debt that is not paid; a waiter that is left when room comes, when it is killed, or when the
 * owner ends; a heap that forgets the order among equals; a bound checked without the lock. */
#include "harness.h"

#include "box.h"

static pr_status spawn_boxed(pr_runtime *rt, const pr_ops *ops, uint16_t flags, uint32_t where, const pr_box_spec *spec, void *data,
                             uint64_t *id)
{
    pr_msg *args = pr_msg_new(NULL, sizeof data);
    memcpy(args->data, &data, sizeof data);
    pr_spawn s = {.ops = ops, .worker = where, .flags = flags, .args = args, .box = pr_box_new(rt, spec)};
    pr_status status = pr_actor_spawn(rt, NULL, &s, id);
    if (status != PR_OK) {
        pr_box_discard(rt, s.box);
        pr_msg_free(NULL, args);
    }
    return status;
}

static uint64_t number_in(const pr_msg *m)
{
    uint64_t n;
    memcpy(&n, m->data, sizeof n);
    return n;
}

static uint64_t dead_of(pr_runtime *rt, enum pr_dead_reason reason)
{
    pr_counters c;
    pr_runtime_counters(rt, &c);
    return PR_GET(c.dead[reason]);
}

/* --- the model: a list in the order in which messages are to be taken */

enum { MOST = 64, CAPACITY = 7 };

typedef struct note {
    uint64_t number;
    double priority;
    bool exempt, front;
    uint64_t arrival;
} note;

typedef struct model {
    note list[MOST];
    unsigned count, held;
    uint64_t arrivals;
    bool ordered;   /* by priority; put in front: before all */
} model;

static void insert(model *m, note n)
{
    unsigned at = m->count;
    n.arrival = m->arrivals++;
    while (at > 0 && m->ordered && !n.front && !m->list[at - 1].front && m->list[at - 1].priority < n.priority)
        at--;
    memmove(&m->list[at + 1], &m->list[at], (m->count - at) * sizeof n);
    m->list[at] = n;
    m->count++;
    m->held += !n.exempt;
}

static note drop_at(model *m, unsigned at)
{
    note n = m->list[at];
    memmove(&m->list[at], &m->list[at + 1], (--m->count - at) * sizeof n);
    m->held -= !n.exempt;
    return n;
}

static unsigned oldest_held(const model *m)
{
    unsigned oldest = MOST;
    for (unsigned i = 0; i < m->count; i++)
        if (!m->list[i].exempt && (oldest == MOST || m->list[i].arrival < m->list[oldest].arrival))
            oldest = i;
    return oldest;
}

static struct {
    pr_runtime *rt;
    uint64_t box_of;
    uint8_t overflow;
    uint64_t seed, dropped;
    bool ordered;
    _Atomic uint64_t done;
} play;

/* Priorities come of the numbers. */
static double priority_of(pr_worker *w, pr_behaviour *function, const pr_msg *m)
{
    (void)w, (void)function;
    return (double)(number_in(m) % 4);
}

static void check_taken(model *m, unsigned at, const pr_msg *taken)
{
    if (!taken) {
        wrong("seed %d: nothing is taken, and there are %u", (int)play.seed, m->count);
        return;
    }
    note n = drop_at(m, at);
    if (number_in(taken) != n.number)
        wrong("seed %d: %d is taken instead of %d", (int)play.seed, (int)number_in(taken), (int)n.number);
    if (taken->target != play.box_of)
        wrong("seed %d: a message without its target", (int)play.seed);
}

static pr_msg *numbered(pr_worker *w, uint64_t number) { return letter(w, play.box_of, &number, sizeof number); }

/* On the owner's worker, whose turn belongs to somebody else meanwhile: it takes none itself. */
static pr_outcome play_with(pr_worker *w, pr_actor *self, pr_msg *unused)
{
    static model m;
    uint64_t random = play.seed, next = 1;
    pr_actor *a = pr_actor_find(&w->rt->actors, play.box_of);
    (void)self, (void)unused;
    memset(&m, 0, sizeof m);
    m.ordered = play.ordered;
    for (int i = 0; i < 4000; i++) {
        pr_msg *message;
        pr_box_info info;
        switch (below(&random, 8)) {
        case 0: case 1: case 2: {
            message = numbered(w, next);
            pr_status status = pr_box_send(w->rt, w, a, message);
            bool full = m.held >= CAPACITY;
            pr_status expected = full && play.overflow == PR_OVERFLOW_REJECT ? PR_FULL
                                 : full && play.overflow == PR_OVERFLOW_SUSPEND ? PR_MUST_WAIT : PR_OK;
            if (status != expected)
                wrong("seed %d: a send to %u gives %d", (int)play.seed, m.held, status);
            if (status != PR_OK)
                pr_msg_free(&w->pool, message);
            else if (full && play.overflow == PR_OVERFLOW_DROP_NEWEST)
                play.dropped++;
            else {
                if (full) {
                    drop_at(&m, oldest_held(&m));
                    play.dropped++;
                }
                insert(&m, (note){next, (double)(next % 4), false, false, 0});
            }
            next++;
            break;
        }
        case 3: case 4:
            message = pr_box_take(w, a);
            if (m.count > 0)
                check_taken(&m, 0, message);
            else if (message)
                wrong("seed %d: something is taken of nothing", (int)play.seed);
            if (message)
                pr_msg_free(&w->pool, message);
            break;
        case 5: {   /* as `receive` does: in the order of taking, and one out of the middle */
            pr_queue *view = pr_box_view(w, a);
            unsigned n = 0, at = m.count ? (unsigned)below(&random, m.count) : 0;
            pr_msg *previous = NULL, *chosen = NULL, *before = NULL;
            for (pr_msg *each = view->head; each; each = each->next, n++) {
                if (n < m.count && number_in(each) != m.list[n].number)
                    wrong("seed %d: %d stands in the view instead of %d", (int)play.seed, (int)number_in(each), (int)m.list[n].number);
                if (n == at) {
                    chosen = each;
                    before = previous;
                }
                previous = each;
            }
            if (n != m.count)
                wrong("seed %d: the view has %u of %u", (int)play.seed, n, m.count);
            if (chosen && below(&random, 2)) {
                pr_box_remove(w, a, before, chosen);
                check_taken(&m, at, chosen);
                pr_msg_free(&w->pool, chosen);
            }
            pr_box_view_end(w, a);
            break;
        }
        case 6:
            if (m.count + 4 < MOST && below(&random, 4) == 0) {   /* unstashed: in front, in their order, above the capacity */
                pr_queue list = {NULL, NULL};
                note fresh[3];
                for (int k = 0; k < 3; k++) {
                    pr_queue_push(&list, numbered(w, next));
                    fresh[k] = (note){next++, 0, true, true, m.arrivals++};
                }
                memmove(&m.list[3], &m.list[0], m.count * sizeof m.list[0]);
                memcpy(&m.list[0], fresh, sizeof fresh);
                m.count += 3;
                pr_box_put_front(w, a, &list);
            }
            break;
        default:
            if (m.count + 4 < MOST && below(&random, 4) == 0) {   /* the runtime's own, at the end, above the capacity */
                pr_box_put(w, a, numbered(w, next));
                insert(&m, (note){next, (double)(next % 4), true, false, 0});
                next++;
            }
        }
        if (!pr_box_look(w->rt, play.box_of, &info) || info.depth != m.count)
            wrong("seed %d: a depth of %u, and there are %u", (int)play.seed, info.depth, m.count);
        if (pr_box_ready(w, a) != (m.count > 0))
            wrong("seed %d: ready says the contrary", (int)play.seed);
    }
    for (pr_msg *message; (message = pr_box_take(w, a)); pr_msg_free(&w->pool, message))
        check_taken(&m, 0, message);
    if (m.count != 0)
        wrong("seed %d: %u are left", (int)play.seed, m.count);
    atomic_store(&play.done, 1);
    return PR_DONE;
}
static const pr_ops play_ops = {done_start, play_with, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void a_box_is_a_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= times(40, 8); seed++) {
        memset(&play, 0, sizeof play);
        play.seed = seed;
        play.overflow = (uint8_t)(seed % 4);
        play.ordered = seed / 4 % 2;
        play.rt = runtime_up((shape){1, 32});
        play.rt->config.priority = priority_of;
        pr_behaviour *function = pr_behaviour_intern(&play.rt->behaviours, "p", 1, "p");
        pr_box_spec spec = {CAPACITY, 0, play.overflow, play.ordered ? function : NULL};
        uint64_t driver;
        assert_int_equal(spawn_boxed(play.rt, &idle_ops, 0, 1, &spec, NULL, &play.box_of), PR_OK);
        pr_runtime_wait_quiet(play.rt);
        assert_int_equal(spawn(play.rt, NULL, &play_ops, 0, 1, NULL, &driver), PR_OK);
        assert_int_equal(tell(play.rt, NULL, driver, NULL, 0), PR_OK);
        wait_for(&play.done, 1);
        enum pr_dead_reason reason = play.overflow == PR_OVERFLOW_DROP_NEWEST ? PR_DEAD_DROPPED_NEWEST : PR_DEAD_DROPPED_OLDEST;
        if (dead_of(play.rt, reason) != play.dropped)
            wrong("seed %d: %d dead letters of %d dropped", (int)seed, (int)dead_of(play.rt, reason), (int)play.dropped);
        pr_behaviour_drop(&play.rt->behaviours, function);
        runtime_down(play.rt, NULL);
    }
    assert_true(no_errors());
}

/* --- over threads */

enum { PRODUCERS = 16, BOUND = 5 };

static struct {
    pr_runtime *rt;
    uint64_t consumer, each;
    _Atomic uint64_t last[PRODUCERS], handled, refused, finished, over, hold;
    uint8_t overflow;
    bool gaps;
} town;

static void number_from(const pr_msg *m)
{
    uint64_t n = number_in(m), who = n >> 32, number = n & UINT32_MAX, before = atomic_exchange(&town.last[who], number);
    if (number <= before || (!town.gaps && number != before + 1))
        wrong("producer %d: %d after %d", (int)who, (int)number, (int)before);
    atomic_fetch_add(&town.handled, 1);
    progress();
}

static pr_outcome consume(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a;
    number_from(m);
    while (atomic_load(&town.hold))
        pause_us(20);
    if (number_in(m) % 64 == 0)
        pause_us(20);
    return PR_DONE;
}
static const pr_ops consumer_ops = {done_start, consume, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void *producer(void *context, unsigned index)
{
    (void)context;
    for (uint64_t i = 1; i <= town.each; i++) {
        uint64_t n = (uint64_t)index << 32 | i;
        pr_status status = tell(town.rt, NULL, town.consumer, &n, sizeof n);
        if (status == PR_FULL)
            atomic_fetch_add(&town.refused, 1);
        else if (status != PR_OK)
            wrong("a tell gives %d", status);
        progress();
    }
    return NULL;
}

static void *looker(void *context, unsigned index)
{
    (void)context, (void)index;
    pr_box_info info;
    while (!atomic_load(&town.over)) {
        if (pr_box_look(town.rt, town.consumer, &info) && (info.depth > BOUND || info.high_water > BOUND))
            wrong("%u in a mailbox for %d, high water %u", info.depth, BOUND, info.high_water);
        pause_us(10);
    }
    return NULL;
}

static void the_bound_is_exact(void **state)
{
    static const uint8_t policies[] = {PR_OVERFLOW_REJECT, PR_OVERFLOW_DROP_NEWEST, PR_OVERFLOW_DROP_OLDEST};
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (size_t p = 0; p < sizeof policies; p++)
            for (int floats = 0; floats < 2; floats++) {
                memset(&town, 0, sizeof town);
                town.overflow = policies[p];
                town.gaps = true;
                town.each = times(1500, 120);
                town.rt = runtime_up(shapes[i]);
                pr_box_spec spec = {BOUND, 0, town.overflow, NULL};
                assert_int_equal(spawn_boxed(town.rt, &consumer_ops, floats ? PR_FLAG_FLOATS : 0, 0, &spec, NULL, &town.consumer), PR_OK);
                crew threads, looking;
                crew_start(&looking, 1, looker, NULL);
                crew_start(&threads, PRODUCERS, producer, NULL);
                crew_join(&threads);
                pr_runtime_wait_quiet(town.rt);
                atomic_store(&town.over, 1);
                crew_join(&looking);
                uint64_t dropped = dead_of(town.rt, PR_DEAD_DROPPED_NEWEST) + dead_of(town.rt, PR_DEAD_DROPPED_OLDEST);
                if (town.handled + town.refused + dropped != PRODUCERS * town.each)
                    wrong("%d handled, %d refused, %d dropped, of %d", (int)town.handled, (int)town.refused, (int)dropped,
                          (int)(PRODUCERS * town.each));
                runtime_down(town.rt, NULL);
            }
    assert_true(no_errors());
}

/* --- senders that wait: actors, as those alone can */

typedef struct sender {
    unsigned index;
    uint64_t next;
} sender;

static sender senders[PRODUCERS];

/* Sends until it must wait; as src/lua/bounded.c does it. */
static pr_outcome go_on(pr_worker *w, pr_actor *a)
{
    sender *s = data_of(a);
    while (s->next <= town.each) {
        uint64_t n = (uint64_t)s->index << 32 | s->next;
        pr_msg *m = letter(w, town.consumer, &n, sizeof n);
        pr_status status = pr_send(w->rt, w, m);
        if (status == PR_MUST_WAIT) {
            PR_COUNT(w->rt, w, rejected, (uint64_t)-1);
            pr_wait *wait = pr_actor_wait(w, PR_WAIT_SEND, UINT64_MAX);
            pr_msg *notice = pr_msg_new(&w->pool, 0);
            if (++w->next_ask == 0)
                w->next_ask = 1;
            wait->ask = notice->ask = w->next_ask;
            notice->target = PR_GET(a->id);
            status = pr_box_wait(w->rt, w, pr_actor_slot(&w->rt->actors, pr_id_slot(town.consumer)), m, notice);
            if (status == PR_MUST_WAIT) {
                wait->box_of = town.consumer;
                s->next++;
                return PR_SUSPENDED;
            }
            pr_actor_unwait(w, a);
            pr_msg_free(&w->pool, notice);
        }
        if (status != PR_OK) {
            pr_msg_free(&w->pool, m);
            break;   /* the consumer has ended */
        }
        s->next++;
    }
    atomic_fetch_add(&town.finished, 1);
    return PR_DONE;
}

static pr_outcome begin(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)m;
    return go_on(w, a);
}

static pr_outcome let_in(pr_worker *w, pr_actor *a)
{
    if (w->resumed->reply && w->resumed->reply->kind == PR_MSG_REPLY)
        return go_on(w, a);
    atomic_fetch_add(&town.finished, 1);   /* refused: the consumer has ended */
    return PR_DONE;
}
static const pr_ops sender_ops = {done_start, begin, let_in, done_stop, done_abandon, done_release, NULL, NULL};

static void wait_in_line(bool kill_senders, bool end_consumer)
{
    for (int i = 0; i < SHAPES; i++) {
        uint64_t id[PRODUCERS], random = (uint64_t)i;
        memset(&town, 0, sizeof town);
        town.gaps = kill_senders;
        town.each = times(1500, 120);
        town.rt = runtime_up(shapes[i]);
        pr_box_spec spec = {BOUND, 0, PR_OVERFLOW_SUSPEND, NULL};
        assert_int_equal(spawn_boxed(town.rt, &consumer_ops, i % 2 ? PR_FLAG_FLOATS : 0, 0, &spec, NULL, &town.consumer), PR_OK);
        for (unsigned p = 0; p < PRODUCERS; p++) {
            senders[p] = (sender){p, 1};
            assert_int_equal(spawn(town.rt, NULL, &sender_ops, 0, 0, &senders[p], &id[p]), PR_OK);
            assert_int_equal(tell(town.rt, NULL, id[p], NULL, 0), PR_OK);
        }
        if (kill_senders)
            for (unsigned p = 0; p < PRODUCERS; p += 2) {
                pause_us((unsigned)below(&random, 3000));
                order(town.rt, NULL, id[p], PR_MSG_KILL);
                wait_for_end(town.rt, id[p]);
            }
        if (end_consumer) {
            wait_for(&town.handled, 100);
            order(town.rt, NULL, town.consumer, PR_MSG_STOP);
        }
        wait_for(&town.finished, kill_senders ? PRODUCERS / 2 : PRODUCERS);
        pr_runtime_wait_quiet(town.rt);
        pr_box_info info;
        if (pr_box_look(town.rt, town.consumer, &info) && (info.waiting || info.depth || info.high_water > BOUND))
            wrong("%u wait, %u are in line, high water %u", info.waiting, info.depth, info.high_water);
        if (!kill_senders && !end_consumer && atomic_load(&town.handled) != PRODUCERS * town.each)
            wrong("%d of %d are handled", (int)town.handled, (int)(PRODUCERS * town.each));
        pr_counters c;
        runtime_down(town.rt, &c);
        uint64_t dead = 0;
        for (int r = 0; r < PR_DEAD_REASONS; r++)
            dead += c.dead[r];
        if (c.sent != c.handled + dead + c.cancelled)
            wrong("sent %d, handled %d, dead letters %d", (int)c.sent, (int)c.handled, (int)dead);
    }
    assert_true(no_errors());
}

static void senders_wait_in_line(void **state)
{
    (void)state;
    wait_in_line(false, false);
}

static void killed_senders_leave_the_line(void **state)
{
    (void)state;
    wait_in_line(true, false);
    /* All in line, the consumer busy on another worker: exactly those that are killed leave it. */
    uint64_t id[PRODUCERS];
    memset(&town, 0, sizeof town);
    town.gaps = true;
    town.each = 10;
    town.hold = 1;
    town.rt = runtime_up((shape){2, 32});
    pr_box_spec spec = {BOUND, 0, PR_OVERFLOW_SUSPEND, NULL};
    pr_box_info info = {0};
    assert_int_equal(spawn_boxed(town.rt, &consumer_ops, 0, 1, &spec, NULL, &town.consumer), PR_OK);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        senders[p] = (sender){p, 1};
        assert_int_equal(spawn(town.rt, NULL, &sender_ops, 0, 2, &senders[p], &id[p]), PR_OK);
        assert_int_equal(tell(town.rt, NULL, id[p], NULL, 0), PR_OK);
    }
    while (!pr_box_look(town.rt, town.consumer, &info) || info.waiting < PRODUCERS)
        pause_us(20);
    for (unsigned p = 0; p < PRODUCERS; p += 2) {
        order(town.rt, NULL, id[p], PR_MSG_KILL);
        wait_for_end(town.rt, id[p]);
    }
    assert_true(pr_box_look(town.rt, town.consumer, &info));
    assert_int_equal(info.waiting, PRODUCERS / 2);
    atomic_store(&town.hold, 0);
    wait_for(&town.finished, PRODUCERS / 2);
    runtime_down(town.rt, NULL);
    assert_true(no_errors());
}

static void the_end_refuses_those_in_line(void **state)
{
    (void)state;
    wait_in_line(false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_is_a_list),
        cmocka_unit_test(the_bound_is_exact),
        cmocka_unit_test(senders_wait_in_line),
        cmocka_unit_test(killed_senders_leave_the_line),
        cmocka_unit_test(the_end_refuses_those_in_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
