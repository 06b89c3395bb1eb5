/* How a record looks on standard error: one line, whatever is in it; and that a storm of records is held back.
 *
 * Mutants caught: a newline passed on; a line without its tab; a gate that never opens again. */
#include "harness.h"

#include "log.h"

static void line_is(const char *text, size_t len, bool lines, const char *wanted)
{
    char to[256];
    size_t n = pr_log_line(to, text, len, lines);
    assert_true(n <= PR_LOG_GROWTH * len);
    to[n] = 0;
    assert_string_equal(to, wanted);
}

static void a_record_is_one_line(void **state)
{
    (void)state;
    line_is("plain", 5, false, "plain");
    line_is("", 0, false, "");
    line_is("two\nlines\n", 10, false, "two\\nlines\\n");
    line_is("\x1b[31mred\r\t\x7f", 11, false, "\\x1b[31mred\\r\\t\\x7f");
    line_is("a\0b", 3, false, "a\\x00b");
    line_is("h\xc3\xa4\xff", 4, false, "h\xc3\xa4\xff");
}

static void on_a_terminal_lines_stay_lines(void **state)
{
    (void)state;
    line_is("failed: x\nstack traceback:\n\ta.lua:1: in f", 41, true, "failed: x\n\tstack traceback:\n\t\ta.lua:1: in f");
    line_is("x\n2026-01-01 error forged\n", 26, true, "x\n\t2026-01-01 error forged\n\t");
    line_is("\x1b[2J\n", 5, true, "\\x1b[2J\n\t");
}

typedef struct heard {
    int records;
    char last[128];
} heard;

static void hear(void *context, enum pr_log_level level, const char *text, size_t len)
{
    heard *h = context;
    (void)level;
    h->records++;
    snprintf(h->last, sizeof h->last, "%.*s", (int)len, text);
}

static void a_storm_is_held_back_and_counted(void **state)
{
    (void)state;
    pr_log log;
    heard h = {0};
    pr_log_init(&log, PR_LOG_WARN, hear, &h);
    int passed = 0;
    for (int i = 0; i < 10000; i++)   /* in well under a second; a second that ends on the way lets another hundred pass */
        passed += pr_log_gate(&log);
    assert_true(passed >= 100 && passed < 10000);
    unsigned held;
    pr_log_gate_flush(&log);
    assert_int_equal(sscanf(h.last, "%u more records of failures and restarts were held back", &held), 1);
    int records = h.records;
    if (records == 1)
        assert_int_equal(held, 10000 - passed);
    pr_log_gate_flush(&log);
    assert_int_equal(h.records, records);   /* said once */
    uint64_t held_in = log.gate_s;
    while (pr_now_ns() / 1000000000u == held_in)
        pause_us(1000);
    assert_true(pr_log_gate(&log));   /* a new second */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_record_is_one_line), cmocka_unit_test(on_a_terminal_lines_stay_lines),
                                       cmocka_unit_test(a_storm_is_held_back_and_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
