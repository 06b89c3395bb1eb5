/* What a runtime does not start with, and what it says then; names that people type.
 *
 * Mutants caught: two dispatchers of one name let through; a name with a line's end in a list of lines. */
#include "harness.h"

#include "runtime.h"

static void refused(const pr_config *c, const char *why)
{
    char error[200] = "";
    assert_null(pr_runtime_start(c, error, sizeof error));
    assert_string_equal(error, why);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static char longest[65];
    pr_config c;
    pr_config_init(&c);
    c.workers = 0;
    refused(&c, "there is at least one worker");
    c.workers = 60001;
    refused(&c, "there are at most 60000 workers");
    c.workers = 2;
    c.dispatcher_count = 2;
    c.dispatchers[0] = (pr_dispatcher_config){.name = "one", .workers = 1};
    static const struct {
        pr_dispatcher_config d;
        const char *why;
    } cases[] = {
        {{.name = NULL, .workers = 1}, "a dispatcher's name has 1 to 63 bytes"},
        {{.name = "", .workers = 1}, "a dispatcher's name has 1 to 63 bytes"},
        {{.name = longest, .workers = 1}, "a dispatcher's name has 1 to 63 bytes"},
        {{.name = "default", .workers = 1}, "the dispatcher \"default\" has the runtime's own workers and throughput"},
        {{.name = "one", .workers = 1}, "two dispatchers have the same name"},
        {{.name = "two", .workers = 0}, "a dispatcher has 1 to 1024 workers"},
        {{.name = "two", .workers = 1025}, "a dispatcher has 1 to 1024 workers"},
    };
    memset(longest, 'x', 64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.dispatchers[1] = cases[i].d;
        refused(&c, cases[i].why);
    }
}

static void reasons_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < PR_DEAD_REASONS; i++)
        assert_int_equal(pr_dead_reason_named(pr_dead_reason_name((enum pr_dead_reason)i)), i);
    assert_int_equal(pr_dead_reason_named("no such reason"), PR_DEAD_NOBODY);
}

static void names_are_listed_by_lines(void **state)
{
    (void)state;
    pr_registry r;
    uint64_t holder;
    char list[64];
    static const char *const names[] = {"rooms/a", "rooms/b", "room", "rooms/\n", "rooms/\x7f", "other/x"};
    assert_int_equal(pr_registry_init(&r), PR_REGISTRY_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(pr_registry_put(&r, names[i], strlen(names[i]), 1 + 2 * i, &holder), PR_REGISTRY_OK);
    size_t len = pr_registry_list(&r, "rooms/", 6, list, sizeof list);
    assert_int_equal(len, 16);
    list[len] = '\0';
    assert_true(strcmp(list, "rooms/a\nrooms/b\n") == 0 || strcmp(list, "rooms/b\nrooms/a\n") == 0);
    assert_int_equal(pr_registry_list(&r, "rooms/", 6, list, 10), 8);   /* what has room, whole */
    assert_int_equal(pr_registry_list(&r, "none", 4, list, sizeof list), 0);
    pr_registry_destroy(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_wrong_is_said), cmocka_unit_test(reasons_have_names),
                                       cmocka_unit_test(names_are_listed_by_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
