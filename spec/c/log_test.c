/* How a record looks on standard error: one line, whatever is in it; and that a storm of records is held back.
 *
 * Mutants caught: a newline passed on; a line without its tab; a gate that never opens again; a record written at once although
 * others are in the buffer. */
#include "harness.h"

#include "log.h"
#include "log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

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

/* --- standard error is a pipe that is read slowly */

enum { LEN = 500, MOST = 4 << 20 };

typedef struct pipe_read { int fd; char *bytes; size_t size; } pipe_read;

static void read_some(pipe_read *r, size_t most)
{
    ssize_t n = read(r->fd, r->bytes + r->size, most < MOST - r->size ? most : MOST - r->size);
    assert_true(n >= 0);
    r->size += (size_t)n;
}

static void *read_rest(void *to)
{
    pipe_read *r = to;
    for (size_t before = SIZE_MAX; before != r->size;) {
        before = r->size;
        read_some(r, MOST);
    }
    return NULL;
}

static void take_number(pr_log_writer *w, int number)
{
    char text[LEN];
    memset(text, 'x', LEN);
    text[snprintf(text, LEN, "%d ", number)] = 'x';
    pr_log_writer_take(w, PR_LOG_INFO, text, LEN);
}

static void records_keep_their_order_where_the_reader_is_slow(void **state)
{
    (void)state;
    int ends[2], before = dup(STDERR_FILENO), number = 0, seen = 0;
    char error[128] = "";
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    pr_log_writer *w = pr_log_writer_open(&(pr_log_target){0}, error, sizeof error);
    pipe_read r = {ends[0], malloc(MOST), 0};
    while (number < 1000)   /* more than a pipe holds, less than it and the buffer do */
        take_number(w, number++);
    while (number < 1400) {   /* as soon as there is room, somebody wants to write: not before those that wait */
        read_some(&r, 4096);
        take_number(w, number++);
    }
    assert_int_equal(pthread_create(&thread, NULL, read_rest, &r), 0);
    pr_log_writer_close(w);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);   /* the last of the pipe's writing ends */
    close(before);
    pthread_join(thread, NULL);
    close(ends[0]);
    for (char *at = r.bytes, *end; at < r.bytes + r.size; at = end + 1, seen++) {
        end = memchr(at, '\n', (size_t)(r.bytes + r.size - at));
        assert_non_null(end);
        int got = -1;
        assert_int_equal(sscanf(at, "%*s info %d x", &got), 1);
        assert_int_equal(got, seen);
        assert_int_equal(end[-1], 'x');
    }
    assert_int_equal(seen, number);
    free(r.bytes);
}

/* What is logged as JSON is UTF-8, whatever a script has made. */
static void a_record_as_json_is_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"plain", "plain"}, {"", ""}, {"\"\\\n\t\r\x7f", "\\\"\\\\\\n\\t\\u000d\\u007f"},
        {"h\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "h\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x80 \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf",
         "\xc2\x80 \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"},
        /* too long for what they say, surrogates, beyond the last, no beginning, no end */
        {"\xc1\xbf", "\\ufffd\\ufffd"}, {"\xe0\x9f\xbf", "\\ufffd\\ufffd\\ufffd"}, {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},
        {"\xf0\x8f\xbf\xbf", "\\ufffd\\ufffd\\ufffd\\ufffd"}, {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xf5\x80\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, {"\x80x", "\\ufffdx"}, {"\xe2\x82", "\\ufffd\\ufffd"}, {"\xe2\x82x", "\\ufffd\\ufffdx"},
    };
    char path[] = "/tmp/pierrot-log-XXXXXX", error[128] = "", line[1000];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    pr_log_writer *w = pr_log_writer_open(&(pr_log_target){.path = path, .json = true}, error, sizeof error);
    assert_non_null(w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        pr_log_writer_take(w, PR_LOG_INFO, cases[i].text, strlen(cases[i].text));
    pr_log_writer_close(w);
    FILE *f = fdopen(fd, "r");
    assert_non_null(f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[200];
        snprintf(wanted, sizeof wanted, "\"message\":\"%s\"}\n", cases[i].wanted);
        assert_non_null(fgets(line, sizeof line, f));
        const char *message = strstr(line, "\"message\"");
        assert_non_null(message);
        assert_string_equal(message, wanted);
    }
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    unlink(path);
}

static void a_writer_may_not_open(void **state)
{
    (void)state;
    char error[128] = "";
    assert_null(pr_log_writer_open(&(pr_log_target){.path = "/nonexistent/log"}, error, sizeof error));
    assert_string_equal(error, "log: cannot write to /nonexistent/log: No such file or directory");
    for (long n = 1; n <= 3; n++) {
        pr_alloc_fail_at(n);
        assert_null(pr_log_writer_open(&(pr_log_target){.path = "/dev/null"}, error, sizeof error));
        pr_alloc_fail_at(0);
        assert_string_equal(error, "log: not enough memory");
    }
}

static void laid_out(void *context, const char *line, size_t len)
{
    *(size_t *)context = line[len - 1] == '\n' ? len : 0;
}

/* Without memory a long record is cut, but it is there. */
static void a_long_record_needs_memory(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    pr_log log;
    heard h = {0};
    pr_log_init(&log, PR_LOG_WARN, hear, &h);
    pr_logf(&log, PR_LOG_INFO, "too low a level");
    assert_int_equal(h.records, 0);
    pr_logf(&log, PR_LOG_WARN, "%s", text);
    pr_log_last_words(&log, "the end", 7);
    assert_int_equal(h.records, 2);
    assert_string_equal(h.last, "the end");
    pr_alloc_fail_at(1);
    pr_logf(&log, PR_LOG_WARN, "%s", text);
    assert_true(pr_alloc_failed());
    pr_alloc_fail_at(0);
    assert_int_equal(h.records, 3);
    assert_true(h.last[0] == 'x');
    size_t whole = 0, cut = 0;
    pr_log_lay_out(PR_LOG_WARN, text, sizeof text - 1, false, laid_out, &whole);
    pr_alloc_fail_at(1);
    pr_log_lay_out(PR_LOG_WARN, text, sizeof text - 1, false, laid_out, &cut);
    pr_alloc_fail_at(0);
    assert_true(whole > sizeof text && cut > 500 && cut < whole);
    pr_log_init(&log, PR_LOG_WARN, NULL, NULL);   /* nowhere */
    pr_logf(&log, PR_LOG_ERROR, "x");
    pr_log_last_words(&log, "x", 1);
}

static void *read_slowly(void *context)
{
    char bytes[1000];
    size_t *sum = context, got;
    for (ssize_t n; (n = read((int)sum[0], bytes, sizeof bytes)) > 0;) {
        got = (size_t)n;
        sum[1] += got;
        sum[2] += (size_t)(memchr(bytes, 'y', got) != NULL);
    }
    return NULL;
}

static void all_is_written_where_the_descriptor_does_not_wait(void **state)
{
    (void)state;
    static char bytes[300000];   /* more than a pipe holds */
    int ends[2];
    pthread_t reader;
    memset(bytes, 'x', sizeof bytes);
    bytes[sizeof bytes - 1] = 'y';
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
    size_t sum[3] = {(size_t)ends[0]};
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, sum), 0);
    assert_int_equal(pr_write_all(ends[1], bytes, sizeof bytes), 0);
    close(ends[1]);
    pthread_join(reader, NULL);
    assert_int_equal(sum[1], sizeof bytes);
    assert_int_equal(sum[2], 1);
    close(ends[0]);
    assert_int_equal(pr_write_all(ends[0], "x", 1), EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_record_is_one_line), cmocka_unit_test(on_a_terminal_lines_stay_lines),
                                       cmocka_unit_test(a_storm_is_held_back_and_counted),
                                       cmocka_unit_test(records_keep_their_order_where_the_reader_is_slow),
                                       cmocka_unit_test(a_record_as_json_is_utf8), cmocka_unit_test(a_writer_may_not_open),
                                       cmocka_unit_test(a_long_record_needs_memory),
                                       cmocka_unit_test(all_is_written_where_the_descriptor_does_not_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
