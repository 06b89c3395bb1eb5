/* The decisions about failing children, hammered: parents with each strategy on 1 to 8 workers, children that fail in
 * start, in handlers and in `stop` by chance, orders to stop and kill from outside, random pauses. Whatever happens,
 * each life is released once, no child runs while it should be held, and everything ends when the parents do.
 *
 * Mutants caught: the cursor not moved when its child is unlinked; GO that is never sent; HOLD not answered by a child that
 * is between two lives. */
#include "harness.h"

#include "decision.h"

enum { CHILDREN = 6 };

typedef struct world {
    _Atomic uint64_t lives, released, failures, parents;
    _Atomic int quiet;          /* nothing fails any more */
    uint64_t seed;
    uint8_t strategy;
    uint32_t workers;
} world;

typedef struct child {
    world *world;
    _Atomic int alive;          /* between start and release */
    _Atomic uint64_t id, handled;
} child;

typedef struct parent {
    world *world;
    child children[CHILDREN];
    pr_rules rules;
} parent;

static bool chance(world *wd, pr_worker *w, unsigned one_in)
{
    return !atomic_load(&wd->quiet) && pr_worker_random(w) % one_in == 0;
}

static void dawdle(pr_worker *w)
{
    if (pr_worker_random(w) % 8 == 0)
        pause_us((unsigned)(pr_worker_random(w) % 60));
}

static pr_outcome child_start(pr_worker *w, pr_actor *a)
{
    child *c = data_of(a);
    atomic_fetch_add(&c->world->lives, 1);
    if (atomic_exchange(&c->alive, 1))
        wrong("two lives of one child at a time");
    dawdle(w);
    w->failure = NULL;
    return chance(c->world, w, 9) ? PR_FAILED : PR_DONE;
}

static pr_outcome child_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    child *c = data_of(a);
    (void)m;
    progress();
    atomic_fetch_add(&c->handled, 1);
    if (!atomic_load(&c->alive))
        wrong("a message is handled by no life");
    dawdle(w);
    w->failure = NULL;
    if (!chance(c->world, w, 5))
        return PR_DONE;
    atomic_fetch_add(&c->world->failures, 1);
    return PR_FAILED;
}

static pr_outcome child_stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    child *c = data_of(a);
    (void)reason;
    dawdle(w);
    w->failure = NULL;
    return chance(c->world, w, 7) ? PR_FAILED : PR_DONE;
}

static void child_release(pr_worker *w, pr_actor *a)
{
    child *c = data_of(a);
    (void)w;
    if (atomic_exchange(&c->alive, 0))   /* of a life that has not begun there is nothing */
        atomic_fetch_add(&c->world->released, 1);
}

static const pr_ops child_ops = {child_start, child_receive, done_resume, child_stop, done_abandon, child_release, NULL, NULL};

static pr_outcome parent_start(pr_worker *w, pr_actor *a)
{
    parent *p = data_of(a);
    for (int i = 0; i < CHILDREN; i++) {
        child *c = &p->children[i];
        pr_msg *args = pr_msg_new(&w->pool, sizeof c);
        if (!args)
            return PR_FAILED;
        memcpy(args->data, &c, sizeof c);
        pr_spawn s = {.ops = &child_ops, .args = args, .worker = (uint32_t)(pr_worker_random(w) % (p->world->workers + 1))};
        s.restart = i == 2 ? PR_RESTART_PERMANENT : i == 4 ? PR_RESTART_TEMPORARY : PR_RESTART_TRANSIENT;
        s.flags = i == 5 && !s.worker ? PR_FLAG_FLOATS : 0;
        uint64_t id;
        if (pr_actor_spawn(w->rt, w, &s, &id) != PR_OK) {
            pr_msg_free(&w->pool, args);
            return PR_FAILED;
        }
        atomic_store(&c->id, id);
    }
    atomic_fetch_add(&p->world->parents, 1);
    return PR_DONE;
}

static pr_outcome parent_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)a, (void)m;
    dawdle(w);
    return PR_DONE;
}

static const pr_rules *parent_rules(pr_worker *w, pr_actor *a)
{
    (void)w;
    return &((parent *)data_of(a))->rules;
}

static uint8_t parent_decides(pr_worker *w, pr_actor *a, uint64_t id, const pr_msg *error)
{
    static const uint8_t verdicts[] = {PR_VERDICT_NONE, PR_VERDICT_NONE, PR_VERDICT_RESUME, PR_VERDICT_RESTART,
                                       PR_VERDICT_NONE, PR_VERDICT_STOP};
    (void)a, (void)id, (void)error;
    return verdicts[pr_worker_random(w) % (sizeof verdicts / sizeof *verdicts)];
}

static const pr_kin_ops parent_kin = {NULL, NULL, parent_rules, parent_decides, NULL, NULL, NULL};
static const pr_ops parent_ops = {parent_start, parent_receive, done_resume, done_stop, done_abandon, done_release, NULL, &parent_kin};

static void hammer(uint32_t workers, uint8_t strategy, uint64_t seed)
{
    enum { PARENTS = 3, LETTERS = 150 };
    pr_runtime *rt = runtime_up((shape){workers, seed % 2 ? 1 : 32});
    world wd = {.seed = seed, .strategy = strategy, .workers = workers};
    static parent parents[PARENTS];
    uint64_t ids[PARENTS], random = seed;
    memset(parents, 0, sizeof parents);
    for (int i = 0; i < PARENTS; i++) {
        parent *p = &parents[i];
        p->world = &wd;
        p->rules = pr_default_rules;
        p->rules.strategy = strategy;
        p->rules.intensity = 20;
        p->rules.period_ms = 20;
        p->rules.count_all = below(&random, 2);
        p->rules.decides = below(&random, 2);
        p->rules.in_turn = below(&random, 2);
        p->rules.max_ms = below(&random, 3) == 0 ? 2 : 0;
        p->rules.min_ms = 1;
        for (int k = 0; k < CHILDREN; k++)
            p->children[k].world = &wd;
        assert_int_equal(spawn(rt, NULL, &parent_ops, 0, 1 + (uint32_t)below(&random, workers), p, &ids[i]), PR_OK);
    }
    wait_for(&wd.parents, PARENTS);
    for (int i = 0; i < LETTERS; i++) {
        parent *p = &parents[below(&random, PARENTS)];
        uint64_t to = atomic_load(&p->children[below(&random, CHILDREN)].id);
        unsigned dice = (unsigned)below(&random, 60);
        if (dice == 0)
            order(rt, NULL, to, PR_MSG_STOP);
        else if (dice == 1)
            order(rt, NULL, to, PR_MSG_KILL);
        else
            tell(rt, NULL, to, "x", 1);
        tell(rt, NULL, ids[p - parents], "x", 1);
        if (below(&random, 16) == 0)
            pause_us((unsigned)below(&random, 100));
    }
    atomic_store(&wd.quiet, (int)below(&random, 2));
    /* Once nothing fails any more, whoever lives comes to its messages: nobody stays held. */
    for (int i = 0; wd.quiet && i < PARENTS * CHILDREN; i++) {
        child *c = &parents[i / CHILDREN].children[i % CHILDREN];
        uint64_t before = c->handled;
        if (tell(rt, NULL, c->id, "x", 1) == PR_OK)
            while (c->handled == before && pr_actor_find(&rt->actors, c->id))
                pause_us(20);
        progress();
    }
    for (int i = 0; i < PARENTS; i++)
        if (below(&random, 4))
            order(rt, NULL, ids[i], below(&random, 3) ? PR_MSG_STOP : PR_MSG_KILL);
    pr_counters sum;
    runtime_down(rt, &sum);
    if (wd.lives != wd.released)
        wrong("%u workers, strategy %u, seed %llu: %llu lives, %llu released", workers, strategy, (unsigned long long)seed,
              (unsigned long long)wd.lives, (unsigned long long)wd.released);
    uint64_t dead = sum.dead[PR_DEAD_NOBODY] + sum.dead[PR_DEAD_STOPPING] + sum.dead[PR_DEAD_SHUTDOWN];
    if (sum.sent != sum.handled + dead)
        wrong("%llu sent, %llu handled, %llu dead", (unsigned long long)sum.sent, (unsigned long long)sum.handled,
              (unsigned long long)dead);
}

static void strategies_under_fire(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8};
    (void)state;
    uint64_t rounds = times(2000, 200);
    for (uint64_t i = 0; i < rounds; i++)
        hammer(counts[i % 5], (uint8_t)(i / 5 % 3), i);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strategies_under_fire)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
