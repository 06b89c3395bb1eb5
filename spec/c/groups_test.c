/* Groups: against a model that is a list; over threads, where each thread knows what its own actors have joined; against
 * the end of their members; without memory.
 *
 * Mutants caught: leave_all that misses a membership after the tables have grown; a group that stays when its last member
 * has left; members out of their order; a second join that counts; die() that looks at `named` before the id is gone;
 * a membership left half made when memory runs out. */
#include "harness.h"

#include "groups.h"

enum { IDS = 24, NAMES = 200 };   /* more names than the first tables have buckets */

static size_t name_of(char *name, size_t cap, unsigned n) { return (size_t)snprintf(name, cap, "group %u", n); }

/* --- the model: of each name a list of ids */

typedef struct model {
    unsigned count[NAMES];
    uint64_t id[NAMES][IDS];
} model;

static int place(const model *m, unsigned n, uint64_t id)
{
    for (unsigned i = 0; i < m->count[n]; i++)
        if (m->id[n][i] == id)
            return (int)i;
    return -1;
}

static bool take_out(model *m, unsigned n, uint64_t id)
{
    int at = place(m, n, id);
    if (at < 0)
        return false;
    memmove(&m->id[n][at], &m->id[n][at + 1], (--m->count[n] - (unsigned)at) * sizeof m->id[n][0]);
    return true;
}

static void compare(pr_groups *g, const model *m)
{
    size_t total = 0, groups = 0;
    for (unsigned n = 0; n < NAMES; n++) {
        char name[16];
        size_t len = name_of(name, sizeof name, n), count = 99;
        uint64_t *list = pr_groups_members(g, name, len, &count);
        assert_int_equal(count, m->count[n]);
        assert_true((list != NULL) == (count > 0));
        if (count)
            assert_memory_equal(list, m->id[n], count * sizeof *list);
        pr_free(list);
        total += count;
        groups += count > 0;
    }
    assert_int_equal(pr_groups_count(g), total);
    assert_int_equal(g->group_count, groups);
}

static void a_group_is_a_list(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < times(20, 4); seed++) {
        static model m;
        pr_groups g;
        uint64_t random = seed;
        memset(&m, 0, sizeof m);
        assert_int_equal(pr_groups_init(&g), 0);
        for (int i = 0; i < 20000; i++) {
            char name[16];
            unsigned n = (unsigned)below(&random, seed % 2 ? 5 : NAMES);
            size_t len = name_of(name, sizeof name, n);
            uint64_t id = 1 + below(&random, IDS);
            switch (below(&random, 5)) {
            case 0:
                assert_int_equal(pr_groups_leave(&g, name, len, id), take_out(&m, n, id));
                break;
            case 1:
                if (below(&random, 8))
                    break;
                pr_groups_leave_all(&g, id);
                for (unsigned other = 0; other < NAMES; other++)
                    take_out(&m, other, id);
                break;
            default:
                if (place(&m, n, id) < 0) {
                    assert_int_equal(pr_groups_join(&g, name, len, id), PR_GROUP_OK);
                    m.id[n][m.count[n]++] = id;
                } else {
                    assert_int_equal(pr_groups_join(&g, name, len, id), PR_GROUP_MEMBER);
                }
            }
            if (i % 1000 == 0)
                compare(&g, &m);
        }
        compare(&g, &m);
        pr_groups_destroy(&g);   /* whatever is left in it */
    }
}

/* Names are bytes: of any value, and one may begin like another. */
static void names_are_bytes(void **state)
{
    (void)state;
    pr_groups g;
    size_t count;
    char longest[PR_GROUP_NAME_MAX];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(pr_groups_init(&g), 0);
    assert_int_equal(pr_groups_join(&g, "a\0b", 3, 1), PR_GROUP_OK);
    assert_int_equal(pr_groups_join(&g, "a\0c", 3, 2), PR_GROUP_OK);
    assert_int_equal(pr_groups_join(&g, "a", 1, 3), PR_GROUP_OK);
    assert_int_equal(pr_groups_join(&g, longest, sizeof longest, 4), PR_GROUP_OK);
    assert_int_equal(pr_groups_join(&g, longest, sizeof longest - 1, 5), PR_GROUP_OK);
    uint64_t *list = pr_groups_members(&g, "a\0c", 3, &count);
    assert_int_equal(count, 1);
    assert_int_equal(list[0], 2);
    pr_free(list);
    assert_false(pr_groups_leave(&g, "a\0d", 3, 1));
    assert_true(pr_groups_leave(&g, "a", 1, 3));
    assert_int_equal(pr_groups_count(&g), 4);
    pr_groups_destroy(&g);
}

/* Each allocation of a join fails in turn: it says so, and nothing is half done. */
static void without_memory(void **state)
{
    (void)state;
    for (unsigned already = 0; already < 70; already += 23)
        for (long nth = 1; nth < 8; nth++) {
            static model m;
            pr_groups g;
            char name[16];
            memset(&m, 0, sizeof m);
            assert_int_equal(pr_groups_init(&g), 0);
            for (unsigned n = 0; n < already; n++) {
                assert_int_equal(pr_groups_join(&g, name, name_of(name, sizeof name, n), 7), PR_GROUP_OK);
                m.id[n][m.count[n]++] = 7;
            }
            pr_alloc_fail_at(nth);
            int joined = pr_groups_join(&g, name, name_of(name, sizeof name, NAMES - 1), 8);
            bool failed = pr_alloc_failed();
            pr_alloc_fail_at(0);
            if (joined == PR_GROUP_OK)
                m.id[NAMES - 1][m.count[NAMES - 1]++] = 8;
            else
                assert_true(failed);
            compare(&g, &m);
            pr_groups_destroy(&g);
        }
}

/* --- over threads */

enum { THREADS = 8, OWN = IDS / THREADS, CROWDED = 8 };

static struct {
    pr_groups groups;
    uint64_t rounds;
} town;

/* Its own ids stand in each list as often, and in the order, as this thread's list says; whoever else is in there. */
static void look_for_own(const model *m, unsigned n, unsigned index)
{
    char name[16];
    size_t count, len = name_of(name, sizeof name, n);
    uint64_t *list = pr_groups_members(&town.groups, name, len, &count);
    unsigned found = 0;
    for (size_t i = 0; i < count; i++) {
        if ((list[i] - 1) / OWN != index)
            continue;
        if (found >= m->count[n] || list[i] != m->id[n][found])
            wrong("%s: %d is not the one of thread %u at place %u", name, (int)list[i], index, found);
        found++;
    }
    if (found != m->count[n])
        wrong("%s has %u of %u of thread %u", name, found, m->count[n], index);
    pr_free(list);
}

static void *member(void *context, unsigned index)
{
    model *m = calloc(1, sizeof *m);
    uint64_t random = index;
    (void)context;
    for (uint64_t i = 0; i < town.rounds; i++) {
        char name[16];
        unsigned n = (unsigned)below(&random, i % 2 ? CROWDED : NAMES);
        size_t len = name_of(name, sizeof name, n);
        uint64_t id = 1 + index * OWN + below(&random, OWN);
        switch (below(&random, 6)) {
        case 0:
            if (pr_groups_leave(&town.groups, name, len, id) != take_out(m, n, id))
                wrong("a leave of %d from %s says the contrary", (int)id, name);
            break;
        case 1:
            look_for_own(m, n, index);
            break;
        case 2:
            if (below(&random, 10) == 0) {
                pr_groups_leave_all(&town.groups, id);
                for (unsigned other = 0; other < NAMES; other++)
                    take_out(m, other, id);
            }
            break;
        default: {
            bool in = place(m, n, id) >= 0;
            if (pr_groups_join(&town.groups, name, len, id) != (in ? PR_GROUP_MEMBER : PR_GROUP_OK))
                wrong("a join of %d to %s says the contrary", (int)id, name);
            if (!in)
                m->id[n][m->count[n]++] = id;
        }
        }
    }
    for (unsigned n = 0; n < NAMES; n++)
        look_for_own(m, n, index);
    for (unsigned i = 0; i < OWN; i++)
        pr_groups_leave_all(&town.groups, 1 + index * OWN + i);
    free(m);
    return NULL;
}

static void threads_keep_apart(void **state)
{
    (void)state;
    crew threads;
    town.rounds = times(60000, 4000);
    assert_int_equal(pr_groups_init(&town.groups), 0);
    crew_start(&threads, THREADS, member, NULL);
    crew_join(&threads);
    assert_int_equal(pr_groups_count(&town.groups), 0);
    assert_int_equal(town.groups.group_count, 0);
    pr_groups_destroy(&town.groups);
    assert_true(no_errors());
}

/* --- members that end */

static struct {
    pr_runtime *rt;
    _Atomic uint64_t holder[6];
    uint64_t rounds;
} mortal;

static void *join_and_end(void *context, unsigned index)
{
    (void)context;
    uint64_t random = index;
    for (uint64_t i = 0; i < mortal.rounds; i++) {
        char name[16];
        size_t len = name_of(name, sizeof name, (unsigned)below(&random, 4));
        unsigned h = (unsigned)below(&random, 6);
        uint64_t id = atomic_load(&mortal.holder[h]), born;
        switch (below(&random, 5)) {
        case 0:
            order(mortal.rt, NULL, id, below(&random, 2) ? PR_MSG_STOP : PR_MSG_KILL);
            if (spawn(mortal.rt, NULL, &idle_ops, h % 2 ? PR_FLAG_FLOATS : 0, h % 3 == 2 && h % 2 == 0, NULL, &born) == PR_OK)
                atomic_store(&mortal.holder[h], born);
            break;
        case 1:
            pr_groups_leave(&mortal.rt->groups, name, len, id);
            break;
        default:
            pr_group_join(mortal.rt, name, len, id);
        }
        progress();
    }
    return NULL;
}

static void the_dead_are_no_members(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        memset(&mortal, 0, sizeof mortal);
        mortal.rounds = times(15000, 1000);
        mortal.rt = runtime_up(shapes[i]);
        crew threads;
        crew_start(&threads, THREADS, join_and_end, NULL);
        crew_join(&threads);
        pr_runtime_wait_quiet(mortal.rt);
        for (unsigned n = 0; n < 4; n++) {
            char name[16];
            size_t count, len = name_of(name, sizeof name, n);
            uint64_t *list = pr_groups_members(&mortal.rt->groups, name, len, &count);
            for (size_t k = 0; k < count; k++)
                if (!pr_actor_find(&mortal.rt->actors, list[k]))
                    wrong("a dead actor is in %s", name);
            pr_free(list);
        }
        pr_runtime_stop(mortal.rt, NULL);
        assert_int_equal(pr_runtime_join(mortal.rt, UINT64_MAX), PR_OK);
        assert_int_equal(pr_groups_count(&mortal.rt->groups), 0);
        runtime_down(mortal.rt, NULL);
    }
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_a_list), cmocka_unit_test(names_are_bytes),    cmocka_unit_test(without_memory),
        cmocka_unit_test(threads_keep_apart), cmocka_unit_test(the_dead_are_no_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
