/* Memory that runs out in the midst of what actors do, at each allocation in turn. In tick mode, so that the order of
 * allocations is the same each time: an actor is told one thing to do, and all that follows from it happens while the
 * countdown runs. Whatever becomes of it, the runtime goes on: the next actor is born and answers, and of this one, its
 * children, names, members and subscriptions nothing is left.
 *
 * What a first use allocates is nomem_test.c's to find. Mutants caught: with AddressSanitizer, a behaviour that `become` holds
 * while Lua raises. */
#include "harness.h"

#include "pierrot.h"

#include <sys/wait.h>

static const char script[] = "spec/c/refusal.lua";   /* spec/run begins at the top of the tree */
/* Echoes, unless something has been found wrong. */
static const char witness[] = "local wrong, done = nil, 0\n"
                              "return { on = { stopped = function() end, wrong = function(self, what) wrong = what end,\n"
                              "  done = function() done = done + 1 end,\n"
                              "  echo = function(self, x) local n = done done = 0 return wrong or x, n end } }";

static void host_log(void *context, pierrot_log_level level, const char *text, size_t size)
{
    (void)context, (void)level, (void)text, (void)size;
}

/* Until nothing happens by itself, or not for a while. */
static void settle(pierrot *rt)
{
    int64_t next_us;
    for (int64_t passed_us = 0; (next_us = pierrot_tick(rt, 1000000)) >= 0 && passed_us < 10000000; passed_us += next_us)
        if (next_us > 0)
            pierrot_advance(rt, (uint64_t)next_us);
}

static pierrot_ref born(pierrot *rt)
{
    pierrot_ref ref;
    assert_int_equal(pierrot_spawn_file(rt, script, NULL, NULL, &ref), PIERROT_OK);
    settle(rt);
    return ref;
}

/* NULL, or what is wrong; done: how often something has been done to its end. */
static const char *wrong_with(pierrot *rt, pierrot_inbox *inbox, pierrot_ref ref, double n, double *done)
{
    static char text[200];
    pierrot_incoming in;
    const char *wrong;
    size_t size;
    double back = -1;
    pierrot_message *m = pierrot_message_new(rt);
    if (!m)
        return "no message";
    pierrot_put_text(m, "echo");
    pierrot_put_number(m, n);
    pierrot_status status = pierrot_ask_wait(inbox, ref, m, 5000, &in);
    pierrot_message_free(m);
    if (status != PIERROT_OK)
        return pierrot_status_text(status);
    if (pierrot_read_string(&in.values, &wrong, &size)) {
        snprintf(text, sizeof text, "%.*s", (int)size, wrong);
        return text;
    }
    return pierrot_read_number(&in.values, &back) && back == n && pierrot_read_number(&in.values, done) ? NULL : "another answer";
}

static uint64_t actors(pierrot *rt)
{
    pierrot_stats stats = {.size = sizeof stats};
    pierrot_get_stats(rt, &stats);
    return stats.actors;
}

typedef struct scene {
    pierrot *rt;
    pierrot_inbox *inbox;
    pierrot_ref seer;
    char *names;   /* of what can be done, with commas */
} scene;

static void set_up(scene *s, bool limits)
{
    pierrot_config c;
    pierrot_error error;
    pierrot_config_init(&c, sizeof c);
    c.mode = PIERROT_TICK;
    c.clock = PIERROT_CLOCK_MANUAL;
    c.workers = 2;
    c.log = host_log;
    c.mailbox_limit = limits ? 100 : 0;
    c.actor_limit = limits ? 1000 : 0;
    assert_int_equal(pierrot_start(&c, &s->rt, &error), PIERROT_OK);
    assert_int_equal(pierrot_inbox_open(s->rt, &s->inbox), PIERROT_OK);
    pierrot_spawn_options o;
    pierrot_spawn_options_init(&o, sizeof o);
    o.name = "witness";
    assert_int_equal(pierrot_spawn_string(s->rt, witness, sizeof witness - 1, "witness", NULL, &o, &s->seer), PIERROT_OK);
    pierrot_ref first = born(s->rt);
    pierrot_message *m = pierrot_message_new(s->rt);
    pierrot_put_text(m, "to do");
    pierrot_incoming in;
    const char *bytes;
    size_t size;
    assert_int_equal(pierrot_ask_wait(s->inbox, first, m, 5000, &in), PIERROT_OK);
    assert_true(pierrot_read_string(&in.values, &bytes, &size));
    s->names = calloc(1, size + 1);
    assert_non_null(s->names);
    memcpy(s->names, bytes, size);
    pierrot_message_free(m);
    pierrot_kill_actor(s->rt, first);
    settle(s->rt);
}

static void tear_down(scene *s)
{
    free(s->names);
    pierrot_inbox_close(s->inbox);
    pierrot_stop(s->rt);
    assert_int_equal(pierrot_join(s->rt, 1000), PIERROT_OK);
    assert_int_equal(pierrot_free(s->rt), PIERROT_OK);
}

/* One actor does it, and the n-th allocation is refused. NULL, or what is wrong then. */
static const char *attempt(scene *s, const char *what, long n, bool *refused)
{
    uint64_t before = actors(s->rt);
    pierrot_message *m = pierrot_message_new(s->rt);
    pierrot_put_text(m, "do");
    pierrot_put_text(m, what);
    pierrot_ref ref = born(s->rt);
    pr_alloc_fail_at(n);
    pierrot_tell(s->rt, ref, m);
    settle(s->rt);
    *refused = pr_alloc_failed();
    pr_alloc_fail_at(0);
    pierrot_kill_actor(s->rt, ref);
    settle(s->rt);
    pierrot_message_free(m);
    if (actors(s->rt) != before)
        return "actors are left";
    static const char *const taken[] = {"one", "two", "somebody", "sb", "looked at"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!pierrot_ref_is_none(pierrot_whereis(s->rt, taken[i])))
            return taken[i];
    double done = 0;
    const char *problem = wrong_with(s->rt, s->inbox, s->seer, (double)n, &done);
    return !problem && !*refused && done != 1 && strncmp(what, "fails", 5) != 0 ? "has failed for no reason" : problem;
}

static void in_a_runtime_that_has_seen_it_all(void **state)
{
    (void)state;
    scene s;
    set_up(&s, false);
    long all = 0, step = (long)times(1, 300);   /* with AddressSanitizer each block of Lua's is an allocation */
    for (char *rest = s.names, *what; (what = strtok_r(rest, ",", &rest));) {
        bool refused;
        /* What a first time allocates and a second finds there makes the order vary: a few times without are the end. */
        for (long n = 1, without = 0; without < 3; n += step) {
            assert_true(n < 5000);
            const char *problem = attempt(&s, what, n, &refused);
            if (problem)
                fail_msg("%s, allocation %ld: %s", what, n, problem);
            all += refused;
            without = refused ? 0 : without + 1;
        }
    }
    assert_true(all * step > 100);
    tear_down(&s);
}

/* Each attempt in a process of its own: in a runtime of which nothing but the witness has been used. Not each
 * allocation, but with PIERROT_HAMMER. */
static void in_new_runtimes(bool limits, const char *only)
{
    enum { NOTHING_REFUSED = 0, REFUSED = 10, PROBLEM = 20 };
    scene s;
    set_up(&s, limits);
    long all = 0, step = getenv("PIERROT_HAMMER") ? 1 : (long)times(4, 400);
    for (char *rest = s.names, *what; (what = strtok_r(rest, ",", &rest));)
        for (long n = 1, went_on = !only || strstr(only, what); went_on; n += step) {
            assert_true(n < 5000);
            fflush(NULL);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                bool refused;
                const char *problem = attempt(&s, what, n, &refused);
                if (problem)
                    fprintf(stderr, "%s, allocation %ld: %s\n", what, n, problem);
                tear_down(&s);
                exit(problem ? PROBLEM : refused ? REFUSED : NOTHING_REFUSED);   // NOLINT(concurrency-mt-unsafe): it has one thread
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFEXITED(status) || (WEXITSTATUS(status) != REFUSED && WEXITSTATUS(status) != NOTHING_REFUSED))
                fail_msg("%s, allocation %ld: %s %d", what, n, WIFEXITED(status) ? "status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            went_on = WEXITSTATUS(status) == REFUSED;
            all += went_on;
        }
    assert_true(all * step > (only ? 20 : 300));
    tear_down(&s);
}

static void in_a_new_runtime(void **state)
{
    (void)state;
    in_new_runtimes(false, NULL);
}

/* Each mailbox has a bound there, and actors are counted. */
static void in_a_new_runtime_with_limits(void **state)
{
    (void)state;
    in_new_runtimes(true, "spawn, tell, fails: handler");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_runtime_that_has_seen_it_all), cmocka_unit_test(in_a_new_runtime),
                                       cmocka_unit_test(in_a_new_runtime_with_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
