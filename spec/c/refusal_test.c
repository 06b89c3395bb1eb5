/* Memory that runs out in the midst of what actors do, at each allocation in turn. In tick mode, so that the order of
 * allocations is the same each time: an actor is told one thing to do, and all that follows from it happens while the
 * countdown runs. Whatever becomes of it, the runtime goes on: the next actor is born and answers, and of this one, its
 * children, names, members and subscriptions nothing is left.
 *
 * What a first use allocates is nomem_test.c's to find. Mutants caught: with AddressSanitizer, a behaviour that `become` holds
 * while Lua raises. */
#include "harness.h"

#include "pierrot.h"

static const char script[] = "spec/c/refusal.lua";   /* spec/run begins at the top of the tree */
/* Echoes, unless something has been found wrong. */
static const char witness[] = "local wrong return { on = { stopped = function() end, wrong = function(self, what) wrong = what end,\n"
                              "  echo = function(self, x) return wrong or x end } }";

static char *names;

static void host_log(void *context, pierrot_log_level level, const char *text, size_t size)
{
    (void)context, (void)level, (void)text, (void)size;
}

static void settle(pierrot *rt)
{
    for (int i = 0; i < 5; i++) {
        while (pierrot_tick(rt, 1000000) == 0)
            ;
        pierrot_advance(rt, 30000);
    }
    while (pierrot_tick(rt, 1000000) == 0)
        ;
}

static pierrot_ref born(pierrot *rt)
{
    pierrot_ref ref;
    assert_int_equal(pierrot_spawn_file(rt, script, NULL, NULL, &ref), PIERROT_OK);
    settle(rt);
    return ref;
}

static void assert_well(pierrot *rt, pierrot_inbox *inbox, pierrot_ref ref, const char *what, double n)
{
    pierrot_incoming in;
    const char *wrong;
    size_t size;
    double back = -1;
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_text(m, "echo");
    pierrot_put_number(m, n);
    assert_int_equal(pierrot_ask_wait(inbox, ref, m, 5000, &in), PIERROT_OK);
    if (pierrot_read_string(&in.values, &wrong, &size))
        fail_msg("%s, allocation %.0f: %.*s", what, n, (int)size, wrong);
    assert_true(pierrot_read_number(&in.values, &back) && back == n);
    pierrot_message_free(m);
}

static uint64_t actors(pierrot *rt)
{
    pierrot_stats stats = {.size = sizeof stats};
    pierrot_get_stats(rt, &stats);
    return stats.actors;
}

/* -> how often an allocation was refused until there was none left to refuse. */
static long every_refusal(pierrot *rt, pierrot_inbox *inbox, pierrot_ref seer, const char *what)
{
    uint64_t before = actors(rt);
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_text(m, "do");
    pierrot_put_text(m, what);
    /* What a first time allocates and a second finds there makes the order vary: a few times without are the end. */
    long n = 1, refused = 0;
    for (int without = 0; without < 3; n++) {
        assert_true(n < 5000);
        pierrot_ref ref = born(rt);
        pr_alloc_fail_at(n);
        pierrot_tell(rt, ref, m);
        settle(rt);
        bool failed = pr_alloc_failed();
        pr_alloc_fail_at(0);
        refused += failed;
        without = failed ? 0 : without + 1;
        pierrot_kill_actor(rt, ref);
        settle(rt);
        if (actors(rt) != before)
            fail_msg("%s, allocation %ld: %llu actors are left", what, n, (unsigned long long)(actors(rt) - before));
        assert_well(rt, inbox, seer, what, (double)n);
    }
    static const char *const taken[] = {"one", "two", "somebody", "sb", "looked at"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_true(pierrot_ref_is_none(pierrot_whereis(rt, taken[i])));
    pierrot_message_free(m);
    return refused;
}

static void whatever_an_actor_does(void **state)
{
    (void)state;
    pierrot_config c;
    pierrot *rt;
    pierrot_error error;
    pierrot_inbox *inbox;
    pierrot_config_init(&c, sizeof c);
    c.mode = PIERROT_TICK;
    c.clock = PIERROT_CLOCK_MANUAL;
    c.workers = 2;
    c.log = host_log;
    assert_int_equal(pierrot_start(&c, &rt, &error), PIERROT_OK);
    assert_int_equal(pierrot_inbox_open(rt, &inbox), PIERROT_OK);
    pierrot_ref seer;
    pierrot_spawn_options o;
    pierrot_spawn_options_init(&o, sizeof o);
    o.name = "witness";
    assert_int_equal(pierrot_spawn_string(rt, witness, sizeof witness - 1, "witness", NULL, &o, &seer), PIERROT_OK);
    pierrot_ref first = born(rt);
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_text(m, "to do");
    pierrot_incoming in;
    const char *bytes;
    size_t size;
    assert_int_equal(pierrot_ask_wait(inbox, first, m, 5000, &in), PIERROT_OK);
    assert_true(pierrot_read_string(&in.values, &bytes, &size));
    names = strndup(bytes, size);
    assert_non_null(names);
    pierrot_message_free(m);
    pierrot_kill_actor(rt, first);
    settle(rt);
    long all = 0;
    const char *only = getenv("PIERROT_ONLY");
    for (char *rest = names, *what; (what = strtok_r(rest, ",", &rest));)
        if (!only || strcmp(only, what) == 0) {
            long n = every_refusal(rt, inbox, seer, what);
            if (only || getenv("PIERROT_SAYS"))
                printf("# %s: %ld\n", what, n);
            all += n;
        }
    assert_true(only || all > 100);
    free(names);
    pierrot_inbox_close(inbox);
    pierrot_stop(rt);
    assert_int_equal(pierrot_join(rt, 1000), PIERROT_OK);
    assert_int_equal(pierrot_free(rt), PIERROT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_an_actor_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
