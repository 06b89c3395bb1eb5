/* One handler of an actor at a time: start, receive, stop and release of one actor never overlap, also across
 * failures with restarts, stops and kills; each sees what the one before wrote (`plain` is no atomic: the
 * sanitizer build says when two of them are not ordered).
 *
 * Mutants caught: try_schedule that also succeeds in PROCESSING; a floating turn that ends in IDLE and puts the
 * actor in line without having won it back. */
#include "harness.h"

enum { PLACES = 8, PRODUCERS = 16, OUTSIDE = 8 };
enum { WORK, FAIL };

typedef struct cell {
    _Atomic int inside;
    _Atomic uint64_t entered;
    uint64_t plain;
    struct cell *next;
} cell;

typedef struct stage {
    pr_runtime *rt;
    _Atomic uint64_t id[PLACES];
    _Atomic int over;
    _Atomic uint64_t done;
    uint64_t goal;
    _Atomic(cell *) cells;
} stage;

typedef struct producer {
    stage *stage;
    uint64_t random;
} producer;

static void enter(cell *c)
{
    if (atomic_exchange_explicit(&c->inside, 1, memory_order_relaxed) != 0)
        wrong("two handlers of one actor at once");
    atomic_fetch_add_explicit(&c->entered, 1, memory_order_relaxed);
    c->plain++;
    for (volatile int i = 0; i < 60; i++)
        ;
    atomic_store_explicit(&c->inside, 0, memory_order_relaxed);
}

static pr_outcome target_start(pr_worker *w, pr_actor *a) { (void)w; enter(data_of(a)); return PR_DONE; }
static pr_outcome target_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w;
    enter(data_of(a));
    return m->data[0] == FAIL ? PR_FAILED : PR_DONE;
}
static pr_outcome target_stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    (void)w, (void)reason;
    enter(data_of(a));
    return PR_DONE;
}
static void target_release(pr_worker *w, pr_actor *a) { (void)w; enter(data_of(a)); }
static const pr_ops target_ops = {target_start, target_receive, done_resume, target_stop, done_abandon, target_release, NULL, NULL};

/* Another actor in that place. */
static void renew(stage *s, unsigned place, uint64_t old, pr_worker *w)
{
    cell *c = calloc(1, sizeof *c);
    uint64_t id = 0;
    if (!c)
        return;
    c->next = atomic_load(&s->cells);
    while (!atomic_compare_exchange_weak(&s->cells, &c->next, c))
        ;
    /* At the root, also from an actor: its parent is not to wait for it. */
    pr_actor *running = w ? w->running : NULL;
    uint32_t where = place % 4 == 3 ? 1 + place % s->rt->worker_count : 0;
    if (running && !(running->flags & PR_FLAG_FLOATS))
        return;
    if (spawn(s->rt, w, &target_ops, place % 2 ? 0 : PR_FLAG_FLOATS, place % 2 ? where : 0, c, &id) != PR_OK)
        return;
    if (!atomic_compare_exchange_strong(&s->id[place], &old, id))
        order(s->rt, w, id, PR_MSG_STOP);   /* somebody was faster */
}

static void produce(producer *p, pr_worker *w)
{
    stage *s = p->stage;
    unsigned place = (unsigned)below(&p->random, PLACES);
    uint64_t id = atomic_load(&s->id[place]), dice = below(&p->random, 2000);
    uint8_t what = dice < 10 ? FAIL : WORK;
    pr_status status = dice == 1999 ? order(s->rt, w, id, PR_MSG_KILL)
                     : dice >= 1997 ? order(s->rt, w, id, PR_MSG_STOP)
                     : tell(s->rt, w, id, &what, 1);
    if (status == PR_DEAD)
        renew(s, place, id, w);
    progress();
}

static void *outside(void *context, unsigned index)
{
    stage *s = context;
    producer p = {s, index};
    for (uint64_t i = 0; i < s->goal; i++) {
        produce(&p, NULL);
        if (i % 64 == 0)
            pause_us(0);
    }
    atomic_fetch_add(&s->done, 1);
    return NULL;
}

static pr_outcome producer_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    producer *p = data_of(a);
    uint64_t left;
    memcpy(&left, m->data, sizeof left);
    for (int i = 0; i < 8; i++)
        produce(p, w);
    if (left < 8) {
        atomic_fetch_add(&p->stage->done, 1);
        return PR_DONE;
    }
    left -= 8;
    tell(w->rt, w, PR_GET(a->id), &left, sizeof left);
    return PR_DONE;
}
static const pr_ops producer_ops = {done_start, producer_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void hammer(shape shape_of)
{
    static producer producers[PRODUCERS];
    stage s = {.rt = runtime_up(shape_of), .goal = times(20000, 1500)};
    for (unsigned i = 0; i < PLACES; i++)
        renew(&s, i, 0, NULL);
    crew threads;
    for (unsigned i = OUTSIDE; i < PRODUCERS; i++) {
        uint64_t id;
        producers[i] = (producer){&s, 100 + i};
        assert_int_equal(spawn(s.rt, NULL, &producer_ops, i % 2 ? PR_FLAG_FLOATS : 0, 0, &producers[i], &id), PR_OK);
        assert_int_equal(tell(s.rt, NULL, id, &s.goal, sizeof s.goal), PR_OK);
    }
    crew_start(&threads, OUTSIDE, outside, &s);
    wait_for(&s.done, PRODUCERS);
    crew_join(&threads);
    runtime_down(s.rt, NULL);
    for (cell *c = s.cells, *next; c; c = next) {
        next = c->next;
        if (c->plain != c->entered)
            wrong("%llu handlers, %llu seen by the actor", (unsigned long long)c->entered, (unsigned long long)c->plain);
        free(c);
    }
    assert_true(no_errors());
}

static void one_handler_at_a_time(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        hammer(shapes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_handler_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
