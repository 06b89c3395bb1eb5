/* Memory that runs out, at each allocation in turn: an error code, or the failure of one actor; never a crash or
 * a hang, and (the sanitizer build sees it) never a leak.
 *
 * Mutants caught: an unchecked allocation in spawn. */
#include "harness.h"

static pr_outcome worker_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    uint64_t id;
    (void)a;
    switch (m->data[0]) {
    case 'f':
        return PR_FAILED;
    case 'c':   /* children of both kinds, with a message each */
        for (int i = 0; i < 4; i++)
            if (spawn(w->rt, w, &idle_ops, i % 2 ? PR_FLAG_FLOATS : 0, i == 2 ? 2 : 0, NULL, &id) == PR_OK)
                tell(w->rt, w, id, m->data, m->size);
        return PR_DONE;
    case 't': {
        pr_msg *later = letter(w, PR_GET(a->id), "x", 1);
        pr_user_timer *t = later ? pr_user_timer_new(w->rt, w, later, 1, m->data[1] == 'e' ? 1 : 0) : NULL;
        if (t)
            pr_user_timer_drop(w->rt, w, t);
        else if (later)
            pr_msg_free(&w->pool, later);
        return PR_DONE;
    }
    case 'z':   /* sleeps for a millisecond */
        return pr_actor_wait(w, PR_WAIT_SLEEP, 1) ? PR_SUSPENDED : PR_FAILED;
    default:
        return PR_DONE;
    }
}
static const pr_ops worker_ops = {done_start, worker_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void ask(pr_runtime *rt, uint64_t id)
{
    pr_port *port = pr_port_open(rt);
    if (!port)
        return;
    pr_msg *m = letter(NULL, id, "x", 1);
    if (m) {
        m->sender = port->id;
        uint32_t number = m->ask = ++port->next_ask;
        if (pr_send(rt, NULL, m) != PR_OK) {
            pr_msg_free(NULL, m);
        } else {
            /* Without memory for the reply the time limit answers. */
            pr_msg *reply = pr_port_reply(rt, port, number, pr_now_ns() + 20000000);
            if (reply)
                pr_msg_free(NULL, reply);
        }
    }
    pr_port_close(rt, port);
}

static void scenario(void)
{
    pr_config c;
    char error[256] = "";
    pr_config_init(&c);
    c.log_level = PR_LOG_NONE;
    pr_runtime *rt = pr_runtime_start(&c, error, sizeof error);
    if (!rt) {
        assert_string_equal(error, "not enough memory");
        return;
    }
    watch_over(rt);
    uint64_t id[3] = {0};
    pr_behaviour *b = pr_behaviour_intern(&rt->behaviours, "bytes", 5, "named");
    for (int i = 0; i < 3; i++) {
        pr_spawn s = {.ops = &worker_ops, .flags = i == 1 ? PR_FLAG_FLOATS : 0, .worker = i == 2, .behaviour = i ? NULL : b,
                      .name = "somebody", .name_len = 7 + (size_t)i / 2, .args = pr_msg_new(NULL, 300)};
        pr_status status = pr_actor_spawn(rt, NULL, &s, &id[i]);
        if (status != PR_OK) {
            if (i == 0 && b)
                pr_behaviour_drop(&rt->behaviours, b);
            if (s.args)
                pr_msg_free(NULL, s.args);
            if (status == PR_EXISTS)
                id[i] = 0;
        }
    }
    uint64_t holder;
    pr_name_register(rt, "other", 5, id[0], &holder);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            static const char *const what[] = {"x", "f", "c", "t", "te", "z", "f"};
            for (size_t k = 0; k < sizeof what / sizeof *what; k++)
                if (i != 1 || (what[k][0] != 'z' && what[k][0] != 't'))   /* floating actors do neither */
                    tell(rt, NULL, id[i], what[k], strlen(what[k]) + 1);
        }
    pr_msg *timed = letter(NULL, id[1], "x", 1);
    pr_user_timer *t = timed ? pr_user_timer_new(rt, NULL, timed, 0, 1) : NULL;
    if (t) {
        pause_us(500);
        pr_user_timer_cancel(rt, NULL, t);
        pr_user_timer_drop(rt, NULL, t);
    } else if (timed) {
        pr_msg_free(NULL, timed);
    }
    ask(rt, id[0]);
    ask(rt, id[1]);
    pr_msg *reason = pr_msg_new(NULL, 10);
    if (reason) {
        pr_wire_put_string(reason->data, "enoug", 5);
        reason->count = 1;
    }
    pr_order(rt, NULL, id[0], PR_MSG_STOP, reason, false);
    pr_order(rt, NULL, id[1], PR_MSG_DRAIN, NULL, false);
    runtime_down(rt, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    /* Threads make the order of allocations vary: a few times without a failure are the end. */
    long n = 1;
    for (int without = 0; without < 3; n++) {
        pr_alloc_fail_at(n);
        scenario();
        without = pr_alloc_failed() ? 0 : without + 1;
        pr_alloc_fail_at(0);
        progress();
    }
    assert_in_range(n, 40, 100000);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
