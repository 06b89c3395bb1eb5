/* Ports: threads outside that are told things, ask, and come and go while others still write to them.
 *
 * Mutants caught: a port that takes over fields of the actor that had its record before (`stopping` refuses all
 * tells, the behaviour is dangling); no second look before the port's thread sleeps. */
#include "harness.h"

static void a_port_in_a_used_record(void **state)
{
    (void)state;
    enum { MANY = 3 * 4096 };
    pr_runtime *rt = runtime_up((shape){2, 32});
    static uint64_t ids[MANY];
    pr_behaviour *b = pr_behaviour_intern(&rt->behaviours, "code", 4, "short-lived");
    assert_non_null(b);
    for (int i = 0; i < MANY; i++) {
        pr_spawn s = {.ops = &idle_ops, .behaviour = b, .flags = i % 2 ? PR_FLAG_FLOATS : 0, .args = pr_msg_new(NULL, 8)};
        assert_non_null(s.args);
        pr_behaviour_hold(b);
        assert_int_equal(pr_actor_spawn(rt, NULL, &s, &ids[i]), PR_OK);
    }
    pr_behaviour_drop(&rt->behaviours, b);
    for (int i = 0; i < MANY; i++)
        order(rt, NULL, ids[i], PR_MSG_STOP);
    for (int i = 0; i < MANY; i++)
        wait_for_end(rt, ids[i]);
    pr_runtime_wait_quiet(rt);
    static pr_port *ports[MANY];
    for (int i = 0; i < MANY; i++) {
        char who[128];
        ports[i] = pr_port_open(rt);
        assert_non_null(ports[i]);
        if (tell(rt, NULL, ports[i]->id, "x", 1) != PR_OK)
            wrong("port %d in slot %u refuses a message", i, ports[i]->actor->slot);
        pr_actor_describe(rt, ports[i]->id, who, sizeof who);
        if (!strstr(who, "outside"))
            wrong("a port is called %s", who);
        progress();
    }
    for (int i = 0; i < MANY; i++)
        pr_port_close(rt, ports[i]);
    pr_counters sum;
    runtime_down(rt, &sum);
    assert_true(no_errors());
    assert_int_equal(sum.sent, sum.dead[PR_DEAD_NOBODY]);
}

/* --- asking all at once, with late answers */

static pr_outcome answer_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    for (int twice = 0; twice < 2; twice++) {   /* the second answer is late, perhaps for the next bearer */
        pr_msg *reply = pr_msg_new(&w->pool, m->size);
        if (!reply)
            return PR_FAILED;
        reply->kind = PR_MSG_REPLY;
        reply->target = m->sender;
        reply->sender = PR_GET(a->id);
        reply->ask = m->ask;
        memcpy(reply->data, m->data, m->size);
        pr_reply(w->rt, w, reply);
    }
    tell(w->rt, w, m->sender, "and this", 8);
    m->ask = 0;
    return PR_DONE;
}
static const pr_ops answer_ops = {done_start, answer_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

typedef struct bureau { pr_runtime *rt; uint64_t id[4]; } bureau;

static void *ask_often(void *context, unsigned index)
{
    bureau *b = context;
    uint64_t random = index;
    pr_port *port = NULL;
    for (uint64_t i = 0; i < times(1200, 120); i++) {
        if (!port && !(port = pr_port_open(b->rt))) {
            wrong("no port");
            break;
        }
        uint64_t question[2] = {index, i};
        pr_msg *ask = letter(NULL, b->id[below(&random, 4)], question, sizeof question);
        ask->sender = port->id;
        uint32_t number = ask->ask = ++port->next_ask;
        if (pr_send(b->rt, NULL, ask) != PR_OK)
            wrong("not accepted");
        pr_msg *reply = pr_port_reply(b->rt, port, number, UINT64_MAX);
        if (reply->size != sizeof question || memcmp(reply->data, question, sizeof question) != 0)
            wrong("an answer to another question");
        pr_msg_free(NULL, reply);
        progress();
        for (pr_msg *m; (m = pr_queue_pop(&port->queue));)
            pr_dead_letter(b->rt, NULL, m, PR_DEAD_UNHANDLED);
        if (below(&random, 2)) {
            pr_port_close(b->rt, port);
            port = NULL;
        }
    }
    if (port)
        pr_port_close(b->rt, port);
    return NULL;
}

static void answers_reach_their_asker_only(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        bureau b = {.rt = runtime_up_spinning(shapes[i], i % 2 ? 64 : 0)};
        for (int k = 0; k < 4; k++)
            assert_int_equal(spawn(b.rt, NULL, &answer_ops, k % 2 ? PR_FLAG_FLOATS : 0, 0, NULL, &b.id[k]), PR_OK);
        crew threads;
        crew_start(&threads, 16, ask_often, &b);
        crew_join(&threads);
        pr_counters sum;
        runtime_down(b.rt, &sum);
        assert_int_equal(sum.sent, sum.handled + sum.dead[PR_DEAD_NOBODY] + sum.dead[PR_DEAD_UNHANDLED]);
        assert_true(no_errors());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_in_a_used_record),
        cmocka_unit_test(answers_reach_their_asker_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
