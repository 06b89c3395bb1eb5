/* Looking at actors, and tracing them, from outside and where there is nobody: of actors in C, which have no places in scripts.
 *
 * Mutants caught: a trace that goes on after its count; a refused order that is not said. */
#include "harness.h"

#include "look.h"
#include "share.h"
#include "trace.h"

static pr_msg *taken(pr_runtime *rt, pr_port *port)
{
    pr_msg *m;
    while (!(m = pr_queue_pop(&port->queue))) {
        pr_port_wait(port, pr_now_ns() + 100000000);
        pr_port_fill(rt, port);
        progress();
    }
    return m;
}

static void assert_first(const pr_msg *m, const char *wanted, size_t size)
{
    uint32_t len;
    const char *text = pr_msg_first_string(m, &len);
    assert_true(text && len == size && memcmp(text, wanted, size) == 0);
}

/* The text of the fifth value of a trace: "\0trace", actor, sender, seconds, outcome. */
static void assert_outcome(const pr_msg *m, bool from_somebody, const char *outcome)
{
    const uint8_t *at = m->data + 5 + 6 + 9 + (from_somebody ? 9 : 1) + 9;
    assert_int_equal(at[0], PR_TAG_STRING);
    assert_memory_equal(at + 5, outcome, strlen(outcome));
}

static _Atomic uint64_t handled;

static pr_outcome picky(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a;
    atomic_fetch_add(&handled, 1);
    return m->data[0] == 'f' ? PR_FAILED : m->data[0] == 'u' ? PR_UNHANDLED : PR_DONE;
}
static const pr_ops picky_ops = {done_start, picky, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void who_looks_is_told(void **state)
{
    (void)state;
    pr_runtime *rt = runtime_up(shapes[0]);
    watch_over(rt);
    pr_port *port = pr_port_open(rt);
    assert_non_null(port);
    uint64_t id, gone;
    assert_int_equal(spawn(rt, NULL, &idle_ops, 0, 0, NULL, &id), PR_OK);
    assert_int_equal(spawn(rt, NULL, &idle_ops, 0, 0, NULL, &gone), PR_OK);
    assert_int_equal(order(rt, NULL, gone, PR_MSG_KILL), PR_OK);
    wait_for_end(rt, gone);
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);
    for (int ties = 0; ties < 2; ties++) {
        assert_int_equal(pr_look(rt, NULL, id, port->id, ties), PR_OK);
        pr_msg *seen = taken(rt, port);
        assert_first(seen, "\0seen", 5);
        assert_int_equal(seen->count, ties ? 6 : 3);
        pr_msg_free(NULL, seen);
    }
    assert_int_equal(pr_look(rt, NULL, gone, port->id, true), PR_DEAD);
    assert_int_equal(pr_look(rt, NULL, id, gone, true), PR_OK);   /* nobody is told */
    pr_alloc_fail_at(1);
    assert_int_equal(pr_look(rt, NULL, id, port->id, true), PR_NOMEM);
    pr_alloc_fail_at(0);
    pr_port_close(rt, port);
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

static void a_trace_shows_as_many_as_it_was_told(void **state)
{
    (void)state;
    pr_runtime *rt = runtime_up(shapes[0]);
    watch_over(rt);
    atomic_store(&handled, 0);
    pr_port *port = pr_port_open(rt);
    assert_non_null(port);
    uint64_t id, gone;
    char big[5000] = "x";
    assert_int_equal(spawn(rt, NULL, &picky_ops, 0, 0, NULL, &id), PR_OK);
    assert_int_equal(spawn(rt, NULL, &idle_ops, 0, 0, NULL, &gone), PR_OK);
    assert_int_equal(order(rt, NULL, gone, PR_MSG_KILL), PR_OK);
    wait_for_end(rt, gone);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 7), PR_OK);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 3), PR_OK);   /* takes its place */
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);
    assert_int_equal(tell(rt, NULL, id, "u", 1), PR_OK);
    assert_int_equal(tell(rt, NULL, id, big, sizeof big), PR_OK);
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);            /* not shown any more */
    static const char *const outcomes[] = {"done", "unhandled", "done"};
    for (int i = 0; i < 3; i++) {
        pr_msg *shown = taken(rt, port);
        assert_first(shown, "\0trace", 6);
        assert_outcome(shown, false, outcomes[i]);
        pr_msg_free(NULL, shown);
    }
    /* Begun and taken back; for somebody who is no more; of somebody who is no more; without memory. Orders overtake
     * messages: each part waits for those of the last one. */
    wait_for(&handled, 4);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 5), PR_OK);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 0), PR_OK);
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);
    wait_for(&handled, 5);
    assert_int_equal(pr_trace(rt, NULL, id, gone, 5), PR_OK);
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);
    assert_int_equal(tell(rt, NULL, id, "x", 1), PR_OK);
    assert_int_equal(pr_trace(rt, NULL, gone, port->id, 5), PR_DEAD);
    pr_alloc_fail_at(1);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 5), PR_NOMEM);
    pr_alloc_fail_at(0);
    /* With who sent it. */
    wait_for(&handled, 7);
    assert_int_equal(pr_trace(rt, NULL, id, port->id, 5), PR_OK);
    pr_msg *last = letter(NULL, id, "x", 1);
    last->sender = port->id;
    assert_int_equal(pr_send(rt, NULL, last), PR_OK);
    pr_msg *shown = taken(rt, port);
    assert_outcome(shown, true, "done");
    pr_msg_free(NULL, shown);
    pr_port_fill(rt, port);
    assert_null(pr_queue_pop(&port->queue));   /* of all that was not to be shown, nothing was */
    pr_port_close(rt, port);
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

static void shares_are_found_while_somebody_holds_them(void **state)
{
    (void)state;
    pr_shares t;
    assert_int_equal(pr_shares_init(&t), 0);
    enum { MANY = 3000 };   /* several in each bucket */
    static pr_share *s[MANY];
    for (int i = 0; i < MANY; i++)
        assert_non_null(s[i] = pr_share_new(&t, "bytes", 5, i ? &s[i - 1] : NULL, (uint32_t)i % 2));
    for (int i = 0; i < MANY; i++) {
        pr_share *found = pr_share_find(&t, (uint64_t)i + 1);
        assert_ptr_equal(found, s[i]);
        pr_share_drop(found);
    }
    assert_null(pr_share_find(&t, MANY + 1));
    for (int i = 0; i < MANY; i++)
        pr_share_drop(s[i]);
    for (int i = 0; i < MANY; i++)
        assert_null(pr_share_find(&t, (uint64_t)i + 1));
    for (long n = 1;; n++) {
        pr_alloc_fail_at(n);
        pr_share *one = pr_share_new(&t, "bytes", 5, NULL, 0);
        pr_alloc_fail_at(0);
        if (one) {
            pr_share_drop(one);
            break;
        }
        assert_true(n < 10);
    }
    pr_shares_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_looks_is_told), cmocka_unit_test(a_trace_shows_as_many_as_it_was_told),
                                       cmocka_unit_test(shares_are_found_while_somebody_holds_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
