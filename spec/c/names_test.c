/* Names against the end of their holders: from many threads, an actor that has ended never keeps a name, and a
 * living one never loses it.
 *
 * Mutants caught: die() that looks at `named` before the id is gone; pr_name_register without its look at the id. */
#include "harness.h"

enum { THREADS = 16, NAMES = 12, HOLDERS = 6 };

static struct {
    pr_runtime *rt;
    _Atomic uint64_t holder[HOLDERS];
    uint64_t rounds;
} town;

static void *name_and_end(void *context, unsigned index)
{
    (void)context;
    uint64_t random = index;
    for (uint64_t i = 0; i < town.rounds; i++) {
        char name[16];
        size_t len = (size_t)snprintf(name, sizeof name, "name %u", (unsigned)below(&random, NAMES));
        unsigned h = (unsigned)below(&random, HOLDERS);
        uint64_t id = atomic_load(&town.holder[h]), other = 0;
        switch (below(&random, 4)) {
        case 0:   /* a new holder, perhaps with a name from birth */
            order(town.rt, NULL, id, below(&random, 2) ? PR_MSG_STOP : PR_MSG_KILL);
            pr_spawn s = {.ops = &idle_ops, .flags = h % 2 ? PR_FLAG_FLOATS : 0, .worker = h % 3 == 2 && h % 2 == 0,
                          .name = below(&random, 2) ? name : NULL, .name_len = len};
            pr_status status = pr_actor_spawn(town.rt, NULL, &s, &other);
            if (status == PR_OK)
                atomic_store(&town.holder[h], other);
            else if (status != PR_EXISTS || other == 0)
                wrong("spawn says %d", status);
            break;
        case 1:
            pr_registry_remove(&town.rt->names, name, len, id);
            break;
        default:
            pr_name_register(town.rt, name, len, id, &other);
        }
        progress();
    }
    return NULL;
}

static void the_dead_keep_no_name(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        memset(&town, 0, sizeof town);
        town.rounds = times(15000, 1000);
        town.rt = runtime_up(shapes[i]);
        crew threads;
        crew_start(&threads, THREADS, name_and_end, NULL);
        crew_join(&threads);
        pr_runtime_wait_quiet(town.rt);
        for (int n = 0; n < NAMES; n++) {
            char name[16];
            size_t len = (size_t)snprintf(name, sizeof name, "name %d", n);
            uint64_t id = pr_registry_get(&town.rt->names, name, len);
            if (id && !pr_actor_find(&town.rt->actors, id))
                wrong("\"%s\" belongs to a dead actor", name);
        }
        pr_runtime_stop(town.rt, NULL);
        assert_int_equal(pr_runtime_join(town.rt, UINT64_MAX), PR_OK);
        if (pr_registry_count(&town.rt->names) != 0)
            wrong("%d names are left", (int)pr_registry_count(&town.rt->names));
        runtime_down(town.rt, NULL);
    }
    assert_true(no_errors());
}

/* The narrow place: a name given at the moment of the end. */
static _Atomic uint64_t turn, answered;
static _Atomic uint64_t duel_id;

static void *register_now(void *context, unsigned index)
{
    pr_runtime *rt = context;
    uint64_t random = index;
    char name[4] = {'d', 'u', (char)('0' + index), 0};
    for (uint64_t i = 1; i <= times(8000, 800); i++) {
        while (atomic_load(&turn) < i)
            pause_us(0);
        uint64_t id = atomic_load(&duel_id);
        for (volatile uint64_t spin = below(&random, 3000); spin > 0; spin--)
            ;
        pr_status status = pr_name_register(rt, name, 3, id, NULL);
        wait_for_end(rt, id);
        if (status != PR_OK && status != PR_DEAD)
            wrong("register says %d", status);
        atomic_store(&answered, i);
    }
    return NULL;
}

static void a_name_given_at_the_end(void **state)
{
    (void)state;
    pr_runtime *rt = runtime_up((shape){2, 32});
    crew threads;
    atomic_store(&turn, 0);
    atomic_store(&answered, 0);
    crew_start(&threads, 1, register_now, rt);
    for (uint64_t i = 1; i <= times(8000, 800); i++) {
        uint64_t id;
        if (spawn(rt, NULL, &idle_ops, i % 2 ? PR_FLAG_FLOATS : 0, 0, NULL, &id) != PR_OK)
            break;
        atomic_store(&duel_id, id);
        atomic_store(&turn, i);
        order(rt, NULL, id, PR_MSG_STOP);
        while (atomic_load(&answered) < i)
            pause_us(0);
        progress();
        /* Its end is not over when its id is gone: the name goes right behind. */
        for (int tries = 0; pr_registry_count(&rt->names) != 0 && tries < 2000; tries++)
            pause_us(100);
        if (pr_registry_count(&rt->names) != 0)
            wrong("round %d: a dead actor has a name", (int)i);
    }
    crew_join(&threads);
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_keep_no_name),
        cmocka_unit_test(a_name_given_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
