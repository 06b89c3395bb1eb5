/* Dispatchers for an embedder without a language: an actor runs on its dispatcher's threads and on no others, pinned or
 * floating; what blocks those delays nobody else; threads are started at the first birth, once, all of them or none.
 *
 * Mutants caught: pr_make_ready that takes the ring of any worker; steal over all workers; pr_wake_some over the default's
 * (hangs); a second start of a dispatcher that is up. (hand_over that counts nobody: spec/dispatcher_spec.lua.) */
#include "harness.h"

enum { IO_WORKERS = 3, BLOCKING_WORKERS = 2, ACTORS = 48, DISPATCHERS_USED = 3, HOPS = 40 };

static void silent(void *context, enum pr_log_level level, const char *text, size_t len)
{
    (void)context, (void)level, (void)text, (void)len;
}

static pr_config config_of(uint32_t workers)
{
    pr_config c;
    pr_config_init(&c);
    c.workers = workers;
    c.spin = 64;
    c.log_level = PR_LOG_NONE;
    c.log_sink = silent;
    c.dispatchers[0].workers = BLOCKING_WORKERS;
    c.dispatchers[1] = (pr_dispatcher_config){"io", IO_WORKERS, 5, false};
    c.dispatcher_count = 2;
    return c;
}

static pr_runtime *up(const pr_config *c)
{
    char error[256] = "";
    pr_runtime *rt = pr_runtime_start(c, error, sizeof error);
    if (!rt)
        fail_msg("cannot start: %s", error);
    watch_over(rt);
    return rt;
}

static pr_status spawn_on(pr_runtime *rt, pr_worker *w, const pr_ops *ops, uint16_t flags, uint8_t dispatcher, uint32_t worker,
                          void *data, uint64_t *id)
{
    pr_msg *args = pr_msg_new(w ? &w->pool : NULL, sizeof data);
    memcpy(args->data, &data, sizeof data);
    pr_spawn s = {.ops = ops, .dispatcher = dispatcher, .worker = worker, .flags = flags, .args = args};
    pr_status status = pr_actor_spawn(rt, w, &s, id);
    if (status != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, args);
    return status;
}

/* --- each on its own */

typedef struct place {
    struct town *town;
    uint8_t dispatcher;
    bool floats;
    _Atomic uint32_t worker;     /* index + 1 of where it first ran */
    _Atomic int inside;
    uint64_t random;
} place;

typedef struct town {
    pr_runtime *rt;
    place places[ACTORS];
    _Atomic uint64_t id[ACTORS];
    _Atomic uint64_t done;
} town;

static void look_around(pr_worker *w, place *p)
{
    if (w->dispatcher->index != p->dispatcher)
        wrong("an actor of dispatcher %u on a worker of %u", p->dispatcher, w->dispatcher->index);
    if (w->index < w->dispatcher->first || w->index >= w->dispatcher->first + w->dispatcher->count)
        wrong("worker %u is none of %s", w->index, w->dispatcher->name);
    uint32_t first = 0;
    if (!atomic_compare_exchange_strong(&p->worker, &first, w->index + 1) && !p->floats && first != w->index + 1)
        wrong("a pinned actor has moved from worker %u to %u", first, w->index + 1);
}

static pr_outcome resident_start(pr_worker *w, pr_actor *a) { look_around(w, data_of(a)); return PR_DONE; }
static pr_outcome resident_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    place *p = data_of(a);
    town *t = p->town;
    if (atomic_exchange(&p->inside, 1))
        wrong("two handlers of one actor at once");
    look_around(w, p);
    uint32_t left;
    memcpy(&left, m->data, sizeof left);
    if (left-- == 0) {
        atomic_fetch_add(&t->done, 1);
    } else {
        uint64_t to = atomic_load(&t->id[below(&p->random, ACTORS)]);
        if (tell(t->rt, w, to, &left, sizeof left) != PR_OK)
            wrong("a message to a living actor is refused");
    }
    atomic_store(&p->inside, 0);
    return PR_DONE;
}
static pr_outcome resident_stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    (void)reason;
    look_around(w, data_of(a));
    return PR_DONE;
}
static const pr_ops resident_ops = {resident_start, resident_receive, done_resume, resident_stop, done_abandon, done_release, NULL, NULL};

static void *walk(void *context, unsigned index)
{
    town *t = context;
    uint64_t random = index;
    for (uint64_t n = times(400, 40); n > 0; n--) {
        uint32_t hops = HOPS;
        if (tell(t->rt, NULL, atomic_load(&t->id[below(&random, ACTORS)]), &hops, sizeof hops) != PR_OK)
            wrong("a message from outside is refused");
    }
    return NULL;
}

static void everyone_runs_on_its_own_dispatcher(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 8; workers++) {
        pr_config c = config_of(workers);
        town t = {.rt = up(&c)};
        for (unsigned i = 0; i < ACTORS; i++) {
            place *p = &t.places[i];
            *p = (place){.town = &t, .dispatcher = (uint8_t)(i % DISPATCHERS_USED), .floats = i % 2, .random = i};
            uint32_t count = t.rt->dispatchers[p->dispatcher].count;
            uint32_t where = i % 8 == 0 ? 1 + i % count : 0;
            uint64_t id = 0;
            assert_int_equal(spawn_on(t.rt, NULL, &resident_ops, p->floats ? PR_FLAG_FLOATS : 0, p->dispatcher, where, p, &id), PR_OK);
            atomic_store(&t.id[i], id);
        }
        crew walkers;
        crew_start(&walkers, 8, walk, &t);
        crew_join(&walkers);
        wait_for(&t.done, 8 * times(400, 40));
        assert_int_equal(t.rt->threads_alive, workers + BLOCKING_WORKERS + IO_WORKERS);
        runtime_down(t.rt, NULL);
        assert_true(no_errors());
    }
}

/* --- blocked */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
    _Atomic uint64_t inside, passed, rounds;
    _Atomic uint64_t other;
    pr_runtime *rt;
} gate;

static pr_outcome blocked_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)m;
    gate *g = data_of(a);
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->inside, 1);
    while (!g->open)
        pthread_cond_wait(&g->opened, &g->lock);
    pthread_mutex_unlock(&g->lock);
    atomic_fetch_add(&g->passed, 1);
    return PR_DONE;
}
static const pr_ops blocked_ops = {done_start, blocked_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static pr_outcome ball_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    gate *g = data_of(a);
    uint64_t back;
    memcpy(&back, m->data, sizeof back);
    uint64_t me = PR_GET(a->id);
    atomic_fetch_add(&g->rounds, 1);
    if (atomic_load(&g->rounds) < 5000 && tell(g->rt, w, back, &me, sizeof me) != PR_OK)
        wrong("the ball is lost");
    return PR_DONE;
}
static const pr_ops ball_ops = {done_start, ball_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

/* Floating or pinned, eight on two threads; beside them a pair on the default dispatcher, and one on "io". */
static void blocked_threads_delay_nobody_else(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 4; workers++)
        for (int floats = 0; floats < 2; floats++) {
            pr_config c = config_of(workers);
            gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER, .rt = up(&c)};
            uint64_t id, pair[2];
            for (int i = 0; i < 8; i++) {
                assert_int_equal(spawn_on(g.rt, NULL, &blocked_ops, floats ? PR_FLAG_FLOATS : 0, 1, 0, &g, &id), PR_OK);
                assert_int_equal(tell(g.rt, NULL, id, NULL, 0), PR_OK);
            }
            wait_for(&g.inside, BLOCKING_WORKERS);
            for (uint8_t dispatcher = 0; dispatcher <= 2; dispatcher += 2) {
                atomic_store(&g.rounds, 0);
                for (int i = 0; i < 2; i++)
                    assert_int_equal(spawn_on(g.rt, NULL, &ball_ops, floats ? PR_FLAG_FLOATS : 0, dispatcher, 0, &g, &pair[i]), PR_OK);
                assert_int_equal(tell(g.rt, NULL, pair[0], &pair[1], sizeof pair[1]), PR_OK);
                wait_for(&g.rounds, 5000);
            }
            assert_int_equal(atomic_load(&g.inside), BLOCKING_WORKERS);
            assert_int_equal(atomic_load(&g.passed), 0);
            pthread_mutex_lock(&g.lock);
            g.open = true;
            pthread_cond_broadcast(&g.opened);
            pthread_mutex_unlock(&g.lock);
            wait_for(&g.passed, 8);
            runtime_down(g.rt, NULL);
            assert_true(no_errors());
        }
}

/* --- starting */

typedef struct opener {
    _Atomic int refuse;          /* of "io": so many openings fail */
    _Atomic uint64_t opened, closed;
} opener;

static int open_some(pr_worker *w, char *error, size_t cap)
{
    opener *o = w->rt->config.context;
    if (w->dispatcher->index == 2 && w->index == w->dispatcher->first + 1 && atomic_fetch_sub(&o->refuse, 1) > 0) {
        snprintf(error, cap, "refused on purpose");
        return -1;
    }
    atomic_fetch_add(&o->opened, 1);
    return 0;
}

static void close_some(pr_worker *w)
{
    opener *o = w->rt->config.context;
    atomic_fetch_add(&o->closed, 1);
}

static void all_threads_start_or_none(void **state)
{
    (void)state;
    opener o = {.refuse = 2};
    pr_config c = config_of(2);
    c.open_worker = open_some;
    c.close_worker = close_some;
    c.context = &o;
    pr_runtime *rt = up(&c);
    assert_int_equal(rt->threads_alive, 2);
    assert_int_equal(atomic_load(&o.opened), 2);
    char error[512] = "";
    assert_int_equal(pr_dispatcher_use(rt, &rt->dispatchers[2], error, sizeof error), PR_FAILURE);
    assert_string_equal(error, "refused on purpose");
    uint64_t id = 0;
    assert_int_equal(spawn_on(rt, NULL, &idle_ops, 0, 2, 0, NULL, &id), PR_FAILURE);
    assert_int_equal(rt->threads_alive, 2);
    assert_int_equal(atomic_load(&o.opened), 2 + 2 * (IO_WORKERS - 1));
    assert_int_equal(atomic_load(&o.closed), 2 * (IO_WORKERS - 1));
    assert_int_equal(spawn_on(rt, NULL, &idle_ops, 0, 2, 0, NULL, &id), PR_OK);   /* the next one tries again */
    assert_int_equal(rt->threads_alive, 2 + IO_WORKERS);
    pr_runtime_wait_quiet(rt);   /* what has failed is no reason to wait for ever */
    assert_int_equal(spawn_on(rt, NULL, &idle_ops, 0, 3, 0, NULL, &id), PR_FAILURE);
    assert_int_equal(spawn_on(rt, NULL, &idle_ops, 0, 2, IO_WORKERS + 1, NULL, &id), PR_FAILURE);
    assert_int_equal(spawn_on(rt, NULL, &idle_ops, 0, 0, 3, NULL, &id), PR_FAILURE);
    runtime_down(rt, NULL);
    assert_int_equal(atomic_load(&o.opened), atomic_load(&o.closed));
}

typedef struct rush {
    pr_runtime *rt;
    pthread_barrier_t line;
} rush;

static void *first_birth(void *context, unsigned index)
{
    rush *r = context;
    uint64_t id;
    pthread_barrier_wait(&r->line);
    pr_status status = spawn_on(r->rt, NULL, &idle_ops, index % 2 ? PR_FLAG_FLOATS : 0, (uint8_t)(1 + index % 2), 0, NULL, &id);
    if (status != PR_OK && status != PR_STOPPING)
        wrong("a birth ends with %d", status);
    return NULL;
}

static void many_may_be_the_first(void **state)
{
    (void)state;
    for (uint64_t n = times(100, 20); n > 0; n--) {
        bool stops = n % 2;
        pr_config c = config_of(1);
        rush r = {.rt = up(&c)};
        crew births;
        pthread_barrier_init(&r.line, NULL, stops ? 9 : 8);
        crew_start(&births, 8, first_birth, &r);
        if (stops) {   /* against a shutdown: whoever comes too late is refused, and no thread is left */
            pthread_barrier_wait(&r.line);
            pr_runtime_stop(r.rt, NULL);
        }
        crew_join(&births);
        if (!stops)
            assert_int_equal(r.rt->threads_alive, 1 + BLOCKING_WORKERS + IO_WORKERS);
        runtime_down(r.rt, NULL);
        pthread_barrier_destroy(&r.line);
        assert_true(no_errors());
    }
}

static void names_and_numbers_are_checked(void **state)
{
    (void)state;
    static const struct { pr_dispatcher_config one; const char *says; } bad[] = {
        {{NULL, 1, 0, false}, "name"}, {{"", 1, 0, false}, "name"}, {{"default", 1, 0, false}, "default"}, {{"blocking", 1, 0, false}, "same name"},
        {{"x", 0, 0, false}, "1 to 1024"}, {{"x", 1025, 0, false}, "1 to 1024"},
        {{"0123456789012345678901234567890123456789012345678901234567890123", 1, 0, false}, "1 to 63 bytes"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pr_config c = config_of(1);
        c.dispatchers[1] = bad[i].one;
        char error[256] = "";
        assert_null(pr_runtime_start(&c, error, sizeof error));
        assert_non_null(strstr(error, bad[i].says));
    }
    pr_config c = config_of(1);
    c.dispatcher_count = PR_DISPATCHERS;
    char error[256] = "", list[256];
    assert_null(pr_runtime_start(&c, error, sizeof error));
    assert_string_equal(error, "there are at most 33 dispatchers");
    c = config_of(1);
    pr_runtime *rt = up(&c);
    assert_ptr_equal(pr_dispatcher_named(rt, "io", 2), &rt->dispatchers[2]);
    assert_ptr_equal(pr_dispatcher_named(rt, "default", 7), &rt->dispatchers[0]);
    assert_null(pr_dispatcher_named(rt, "i", 1));
    pr_dispatchers_list(rt, list, sizeof list);
    assert_string_equal(list, "\"default\", \"blocking\", \"io\"");
    assert_int_equal(rt->dispatchers[1].throughput, 1);
    assert_int_equal(rt->dispatchers[2].throughput, 5);
    runtime_down(rt, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_runs_on_its_own_dispatcher), cmocka_unit_test(blocked_threads_delay_nobody_else),
        cmocka_unit_test(all_threads_start_or_none), cmocka_unit_test(many_may_be_the_first),
        cmocka_unit_test(names_and_numbers_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
