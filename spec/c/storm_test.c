/* Births and ends in masses: a million actors in waves, families whose members end at the same time, shutdowns
 * in the middle of it and from inside a handler.
 *
 * Mutants caught: the generation not raised at birth (ids repeat); records not given back (slots grow); a child
 * unlinked by its own worker instead of its parent's; a root actor born while shutdown begins and not told of it;
 * a place in front that is looked for from the head of the line (quadratic). */
#include "harness.h"

static uint32_t *seen;                       /* the last generation started in each slot */
static _Atomic uint64_t started, ended;

/* Lives in one slot follow each other, so no lock: what `seen` holds was written by the life before. */
static pr_outcome start(pr_worker *w, pr_actor *a)
{
    (void)w;
    uint64_t id = PR_GET(a->id);
    if (seen && a->slot < PR_SLOTS) {
        if (pr_id_generation(id) <= seen[a->slot])
            wrong("id %u.%u was given out again", a->slot, pr_id_generation(id));
        seen[a->slot] = pr_id_generation(id);
    }
    atomic_fetch_add_explicit(&started, 1, memory_order_relaxed);
    return PR_DONE;
}
static void release(pr_worker *w, pr_actor *a)
{
    (void)w, (void)a;
    atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    progress();
}
static const pr_ops short_ops = {start, done_receive, done_resume, done_stop, done_abandon, release, NULL, NULL};

enum { WAVE = 10000 };

static void *wave_thread(void *context, unsigned index)
{
    pr_runtime *rt = context;
    uint64_t *ids = malloc(WAVE * sizeof *ids), random = index;
    uint64_t waves = times(25, 2);
    for (uint64_t k = 0; ids && k < waves; k++) {
        for (int i = 0; i < WAVE; i++)
            if (spawn(rt, NULL, &short_ops, below(&random, 2) ? PR_FLAG_FLOATS : 0, 0, NULL, &ids[i]) != PR_OK)
                wrong("no actor %d", i);
        for (int i = 0; i < WAVE; i++)
            if (order(rt, NULL, ids[i], PR_MSG_STOP) != PR_OK)
                wrong("actor %d was gone already", i);
        for (int i = 0; i < WAVE; i++)
            wait_for_end(rt, ids[i]);
    }
    free(ids);
    return NULL;
}

static void a_million_in_waves(void **state)
{
    (void)state;
    seen = calloc(PR_SLOTS, sizeof *seen);
    assert_non_null(seen);
    pr_runtime *rt = runtime_up((shape){4, 32});
    crew threads;
    crew_start(&threads, 4, wave_thread, rt);
    crew_join(&threads);
    uint32_t slots = rt->actors.slots;
    pr_counters sum;
    runtime_down(rt, &sum);
    assert_int_equal(sum.spawned, UINT64_C(4) * WAVE * times(25, 2));
    /* Four waves at a time, and what workers keep in their caches. */
    assert_in_range(slots, 1, 4 * WAVE + 6 * 2 * 4096);
    free(seen);
    seen = NULL;
    assert_true(no_errors());
}

/* Actors that spawn, and stop what they have spawned. */
typedef struct spawner {
    uint64_t random, rounds;
} spawner;

static pr_outcome spawner_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    spawner *s = data_of(a);
    uint64_t ids[16];
    (void)m;
    for (int i = 0; i < 16; i++) {
        uint64_t kind = below(&s->random, 4);
        ids[i] = 0;
        spawn(w->rt, w, &short_ops, kind == 0 ? PR_FLAG_FLOATS : 0, kind == 1 ? 1 + (uint32_t)below(&s->random, w->rt->worker_count) : 0, NULL, &ids[i]);
    }
    for (int i = 0; i < 16; i++)
        if (ids[i] && below(&s->random, 8))
            order(w->rt, w, ids[i], below(&s->random, 2) ? PR_MSG_STOP : PR_MSG_KILL);
    if (below(&s->random, 50) == 0)
        return PR_FAILED;   /* its children end, and it is restarted, or ends */
    if (s->rounds-- > 0)
        tell(w->rt, w, PR_GET(a->id), NULL, 0);
    return PR_DONE;
}
static const pr_ops spawner_ops = {done_start, spawner_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void families_end_concurrently(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        uint64_t rounds = times(150, 8), random = 3;
        for (uint64_t k = 0; k < times(4, 2); k++) {
            static spawner spawners[16];
            uint64_t ids[16];
            pr_runtime *rt = runtime_up(shapes[i]);
            for (int j = 0; j < 16; j++) {
                spawners[j] = (spawner){draw(&random), rounds};
                assert_int_equal(spawn(rt, NULL, &spawner_ops, 0, 0, &spawners[j], &ids[j]), PR_OK);
                tell(rt, NULL, ids[j], NULL, 0);
            }
            for (int j = 0; j < 8; j++) {
                pause_us((unsigned)below(&random, 400));
                order(rt, NULL, ids[j], j % 2 ? PR_MSG_STOP : PR_MSG_KILL);
            }
            for (int j = 0; j < 8; j++)
                wait_for_end(rt, ids[j]);
            if (k % 2 == 0)
                pr_runtime_wait_quiet(rt);
            runtime_down(rt, NULL);
        }
    }
    assert_true(no_errors());
}

static void *endless_spawner(void *context, unsigned index)
{
    pr_runtime *rt = context;
    uint64_t id;
    pr_status status;
    do {
        status = spawn(rt, NULL, &short_ops, index % 2 ? PR_FLAG_FLOATS : 0, index % 4 == 2, NULL, &id);
        progress();
    } while (status == PR_OK);
    if (status != PR_STOPPING)
        wrong("spawn says %d in a shutdown", status);
    return NULL;
}

static void shutdown_in_a_storm(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (uint64_t k = 0; k < times(300, 30); k++) {
        pr_runtime *rt = runtime_up(shapes[k % SHAPES]);
        crew threads;
        crew_start(&threads, 4, endless_spawner, rt);
        pause_us((unsigned)below(&random, 500));
        pr_runtime_stop(rt, NULL);
        crew_join(&threads);
        runtime_down(rt, NULL);
    }
    assert_true(no_errors());
}

static pr_outcome stopper_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)a, (void)m;
    uint64_t id;
    for (int i = 0; i < 20; i++)
        spawn(w->rt, w, &short_ops, i % 2 ? PR_FLAG_FLOATS : 0, 0, NULL, &id);
    pr_runtime_stop(w->rt, w);
    return PR_DONE;
}
static const pr_ops stopper_ops = {done_start, stopper_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void shutdown_from_a_handler(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < times(300, 40); k++) {
        pr_runtime *rt = runtime_up(shapes[k % SHAPES]);
        uint64_t id[2];
        for (int i = 0; i < 2; i++) {
            pr_status status = spawn(rt, NULL, &stopper_ops, i ? PR_FLAG_FLOATS : 0, 0, NULL, &id[i]);
            assert_true(status == PR_OK || (i == 1 && status == PR_STOPPING));
            if (status == PR_OK)
                tell(rt, NULL, id[i], NULL, 0);
        }
        pr_runtime_wait_quiet(rt);
        assert_int_equal(pr_runtime_join(rt, UINT64_MAX), PR_OK);
        runtime_down(rt, NULL);
    }
    assert_true(no_errors());
}

/* Orders to many actors that all stand in line already, on one worker: their places in front cost the same each. */

typedef struct crier { const uint64_t *ids; uint64_t count; } crier;

static pr_outcome crier_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    crier *c = data_of(a);
    (void)m;
    for (uint64_t i = 0; i < c->count; i++)
        tell(w->rt, w, c->ids[i], NULL, 0);
    pr_runtime_stop(w->rt, w);
    return PR_DONE;
}
static const pr_ops crier_ops = {done_start, crier_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void shutdown_of_many_in_line(void **state)
{
    (void)state;
    crier c = {.count = times(100000, 20000)};
    uint64_t *ids = malloc(c.count * sizeof *ids), id;
    assert_non_null(ids);
    pr_runtime *rt = runtime_up((shape){2, 32});
    for (uint64_t i = 0; i < c.count; i++)
        assert_int_equal(spawn(rt, NULL, &idle_ops, 0, 1, NULL, &ids[i]), PR_OK);
    pr_runtime_wait_quiet(rt);
    c.ids = ids;
    assert_int_equal(spawn(rt, NULL, &crier_ops, 0, 1, &c, &id), PR_OK);
    tell(rt, NULL, id, NULL, 0);
    progress();
    assert_int_equal(pr_runtime_join(rt, UINT64_MAX), PR_OK);
    runtime_down(rt, NULL);
    free(ids);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_in_waves),
        cmocka_unit_test(families_end_concurrently),
        cmocka_unit_test(shutdown_in_a_storm),
        cmocka_unit_test(shutdown_from_a_handler),
        cmocka_unit_test(shutdown_of_many_in_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
