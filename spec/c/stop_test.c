/* Stop, drain and kill against a full mailbox, from everywhere; and an answer from a cold actor while every
 * worker is busy for good.
 *
 * Mutants caught: no look at the worker's control inbox before each message (pinned targets), none at the actor's
 * own control stack (floating ones); drain treated as stop; kill that runs `stop`; no look at the global queue, or
 * at the ring, while a worker has pinned work. */
#include "harness.h"

enum { QUEUED = 10000 };
enum { OUTSIDE, OTHER_WORKER, SAME_WORKER, ITSELF, PLACES };

typedef struct victim {
    _Atomic uint64_t handled, started, stopped, released, blocked;
    _Atomic uint64_t handled_at_order;
    _Atomic uint64_t go;
} victim;

static pr_outcome victim_start(pr_worker *w, pr_actor *a)
{
    (void)w;
    atomic_fetch_add(&((victim *)data_of(a))->started, 1);
    return PR_DONE;
}
static pr_outcome victim_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    victim *v = data_of(a);
    atomic_fetch_add(&v->handled, 1);
    if (m->data[0] == 'b') {   /* blocks, so that all the others are queued behind */
        uint64_t n = atomic_fetch_add(&v->blocked, 1) + 1;
        while (atomic_load(&v->go) < n)
            pause_us(10);
    } else if (m->data[0] == 's') {
        atomic_store(&v->handled_at_order, v->handled);
        order(w->rt, w, PR_GET(a->id), m->data[1]);
    }
    return PR_DONE;
}
static pr_outcome victim_stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    (void)w, (void)reason;
    atomic_fetch_add(&((victim *)data_of(a))->stopped, 1);
    return PR_DONE;
}
static void victim_release(pr_worker *w, pr_actor *a)
{
    (void)w;
    atomic_fetch_add(&((victim *)data_of(a))->released, 1);
}
static const pr_ops victim_ops = {victim_start, victim_receive, done_resume, victim_stop, done_abandon, victim_release, NULL, NULL};

/* An actor that fills the victim's mailbox and gives the order behind it. */
typedef struct foe { victim *v; uint64_t victim; uint8_t kind; } foe;

/* With the victim blocked: fills its mailbox, lets it come as far as the middle, where all the rest of them lie in
 * its own queue, and gives the order there. */
static void fill_and_order(pr_runtime *rt, pr_worker *w, victim *v, uint64_t id, uint8_t kind)
{
    for (int i = 0; i < QUEUED; i++)
        tell(rt, w, id, i == QUEUED / 2 ? "b" : "x", 1);
    atomic_store(&v->go, 1);
    wait_for(&v->blocked, 2);
    atomic_store(&v->handled_at_order, v->handled);
    order(rt, w, id, kind);
    atomic_store(&v->go, 2);
}

static pr_outcome foe_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    foe *f = data_of(a);
    if (m->data[0] == 'o') {
        fill_and_order(w->rt, w, f->v, f->victim, f->kind);
        return PR_DONE;
    }
    for (int i = 0; i < QUEUED; i++)
        tell(w->rt, w, f->victim, "x", 1);
    atomic_store(&f->v->handled_at_order, f->v->handled);
    order(w->rt, w, f->victim, f->kind);
    return PR_DONE;
}
static const pr_ops foe_ops = {done_start, foe_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void order_behind_a_full_mailbox(shape s, uint8_t kind, int place, bool floats)
{
    pr_runtime *rt = runtime_up(s);
    victim v = {0};
    foe f = {&v, 0, kind};
    uint64_t id, foe_id;
    assert_int_equal(spawn(rt, NULL, &victim_ops, floats ? PR_FLAG_FLOATS : 0, floats ? 0 : 1, &v, &id), PR_OK);
    f.victim = id;
    uint64_t queued = QUEUED;
    if (place != SAME_WORKER) {
        tell(rt, NULL, id, "b", 1);
        wait_for(&v.blocked, 1);
        queued++;
    }
    if (place == OUTSIDE) {
        fill_and_order(rt, NULL, &v, id, kind);
    } else if (place == ITSELF) {
        uint8_t self_stop[2] = {'s', kind};
        for (int i = 0; i < QUEUED; i++)
            tell(rt, NULL, id, i == 0 ? self_stop : (const uint8_t *)"x", i == 0 ? 2 : 1);
        atomic_store(&v.go, 1);
    } else {
        assert_int_equal(spawn(rt, NULL, &foe_ops, 0, place == SAME_WORKER ? 1 : floats ? 0 : 2, &f, &foe_id), PR_OK);
        tell(rt, NULL, foe_id, place == SAME_WORKER ? "s" : "o", 1);
    }
    wait_for(&v.released, 1);
    wait_for_end(rt, id);
    uint64_t handled = v.handled, before = v.handled_at_order;
    if (kind == PR_MSG_DRAIN ? handled != queued : handled > before + 1)
        wrong("kind %d, place %d, floats %d: %llu handled of %llu, %llu when it was ordered", kind, place, floats,
              (unsigned long long)handled, (unsigned long long)queued, (unsigned long long)before);
    if (v.stopped != (kind != PR_MSG_KILL ? v.started : 0))
        wrong("kind %d, place %d, floats %d: `stop` ran %d times", kind, place, floats, (int)v.stopped);
    pr_counters sum;
    runtime_down(rt, &sum);
    uint64_t dead = sum.dead[PR_DEAD_NOBODY] + sum.dead[PR_DEAD_STOPPING] + sum.dead[PR_DEAD_SHUTDOWN];
    if (sum.sent != sum.handled + dead)
        wrong("%llu sent, %llu handled, %llu dead letters", (unsigned long long)sum.sent,
              (unsigned long long)sum.handled, (unsigned long long)dead);
}

static void hammer_order(uint8_t kind)
{
    for (int i = 0; i < SHAPES; i++)
        for (int place = 0; place < PLACES; place++)
            for (int floats = 0; floats < 2; floats++) {
                if (floats && place == SAME_WORKER)
                    continue;   /* a floating actor belongs to none */
                order_behind_a_full_mailbox(shapes[i], kind, place, floats);
            }
    assert_true(no_errors());
}

static void stop_overtakes(void **state) { (void)state; hammer_order(PR_MSG_STOP); }
static void kill_overtakes(void **state) { (void)state; hammer_order(PR_MSG_KILL); }
static void drain_does_not(void **state) { (void)state; hammer_order(PR_MSG_DRAIN); }

/* --- suspended handlers */

typedef struct sleeper { _Atomic uint64_t sleeping, abandoned, stopped, resumed; bool in_start, in_stop; } sleeper;

static pr_outcome fall_asleep(pr_worker *w, sleeper *s)
{
    if (!pr_actor_wait(w, PR_WAIT_SLEEP, UINT64_MAX))
        return PR_FAILED;
    atomic_fetch_add(&s->sleeping, 1);
    return PR_SUSPENDED;
}
static pr_outcome sleeper_start(pr_worker *w, pr_actor *a)
{
    sleeper *s = data_of(a);
    return s->in_start ? fall_asleep(w, s) : PR_DONE;
}
static pr_outcome sleeper_receive(pr_worker *w, pr_actor *a, pr_msg *m) { (void)m; return fall_asleep(w, data_of(a)); }
static pr_outcome sleeper_stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    sleeper *s = data_of(a);
    (void)reason;
    atomic_fetch_add(&s->stopped, 1);
    return s->in_stop ? fall_asleep(w, s) : PR_DONE;
}
static void sleeper_abandon(pr_worker *w, pr_actor *a, void *suspended)
{
    (void)w, (void)suspended;
    atomic_fetch_add(&((sleeper *)data_of(a))->abandoned, 1);
}
static const pr_ops sleeper_ops = {sleeper_start, sleeper_receive, done_resume, sleeper_stop, sleeper_abandon, done_release, NULL, NULL};

static void kill_ends_what_sleeps(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < times(100, 20); k++)
        for (int where = 0; where < 3; where++) {   /* in a handler, in start, in stop */
            pr_runtime *rt = runtime_up(shapes[k % SHAPES]);
            sleeper s = {.in_start = where == 1, .in_stop = where == 2};
            uint64_t id;
            assert_int_equal(spawn(rt, NULL, &sleeper_ops, 0, k % 2 ? 0 : 1, &s, &id), PR_OK);
            if (where == 0)
                tell(rt, NULL, id, NULL, 0);
            if (where == 2) {
                pr_port *port = pr_port_open(rt);   /* lets it start first */
                assert_non_null(port);
                while (!(pr_actor_find(&rt->actors, id)->state == PR_STATE_IDLE))
                    pause_us(20);
                pr_port_close(rt, port);
                order(rt, NULL, id, PR_MSG_STOP);
            }
            if (k % 3)
                wait_for(&s.sleeping, 1);
            order(rt, NULL, id, PR_MSG_KILL);
            wait_for_end(rt, id);
            if (s.abandoned != s.sleeping || s.stopped > (where == 2))
                wrong("%d abandoned, %d asleep, %d stopped", (int)s.abandoned, (int)s.sleeping, (int)s.stopped);
            runtime_down(rt, NULL);
        }
    assert_true(no_errors());
}

/* --- an answer from a cold actor */

static _Atomic int enough;

static pr_outcome forever_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)m;
    progress();
    if (!atomic_load(&enough))
        tell(w->rt, w, PR_GET(a->id), NULL, 0);
    return PR_DONE;
}
static const pr_ops forever_ops = {done_start, forever_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static pr_outcome answer_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pr_msg *reply = pr_msg_new(&w->pool, 0);
    if (!reply)
        return PR_FAILED;
    reply->kind = PR_MSG_REPLY;
    reply->target = m->sender;
    reply->sender = PR_GET(a->id);
    reply->ask = m->ask;
    m->ask = 0;
    pr_reply(w->rt, w, reply);
    return PR_DONE;
}
static const pr_ops answer_ops = {done_start, answer_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void a_cold_actor_answers_while_all_are_busy(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int busy_floats = 0; busy_floats < 3; busy_floats++) {
            pr_runtime *rt = runtime_up(shapes[i]);
            atomic_store(&enough, 0);
            for (uint32_t k = 0; k < shapes[i].workers; k++) {
                uint64_t id;
                bool floats = busy_floats == 2 || (busy_floats == 1 && k % 2);
                assert_int_equal(spawn(rt, NULL, &forever_ops, floats ? PR_FLAG_FLOATS : 0, floats ? 0 : k + 1, NULL, &id), PR_OK);
                tell(rt, NULL, id, NULL, 0);
            }
            pr_port *port = pr_port_open(rt);
            assert_non_null(port);
            for (int cold = 0; cold < 5; cold++) {
                uint64_t id;
                assert_int_equal(spawn(rt, NULL, &answer_ops, cold % 2 ? PR_FLAG_FLOATS : 0, 0, NULL, &id), PR_OK);
                pr_msg *ask = letter(NULL, id, NULL, 0);
                ask->sender = port->id;
                uint32_t number = ask->ask = ++port->next_ask;
                assert_int_equal(pr_send(rt, NULL, ask), PR_OK);
                /* Far more than it may take: this machine may be busy with other things. */
                pr_msg *reply = pr_port_reply(rt, port, number, pr_now_ns() + UINT64_C(20000000000));
                if (!reply)
                    wrong("no answer");
                else
                    pr_msg_free(NULL, reply);
            }
            pr_port_close(rt, port);
            atomic_store(&enough, 1);
            runtime_down(rt, NULL);
        }
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_overtakes),
        cmocka_unit_test(kill_overtakes),
        cmocka_unit_test(drain_does_not),
        cmocka_unit_test(kill_ends_what_sleeps),
        cmocka_unit_test(a_cold_actor_answers_while_all_are_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
