/* First in, first out from each sender to each target: senders outside, pinned and floating (which are stolen),
 * targets that float and that are pinned, from their birth on: senders begin while the target is still waiting
 * for its first turn, so that its pinning falls between two messages.
 *
 * Mutants caught: floating senders that append directly; the mailbox not closed at pinning; the inbox delivered
 * before the mailbox is taken over at pinning (with a pause there: the window is a few instructions);
 * pr_stack_take that does not reverse. */
#include "harness.h"

enum { SENDERS = 16, OUTSIDE = 6, TARGETS = 6 };

typedef struct line { uint32_t sender, seq; } line;

typedef struct target {
    uint32_t last[SENDERS];
} target;

static struct {
    pr_runtime *rt;
    target target[TARGETS];
    _Atomic uint64_t id[TARGETS];
    uint64_t each;                    /* messages from each sender to each target in a round */
    _Atomic uint64_t received;
    _Atomic uint32_t round;
    pthread_barrier_t gate;
    uint64_t rounds;
} field;

static pr_outcome target_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w;
    target *t = data_of(a);
    line l;
    memcpy(&l, m->data, sizeof l);
    if (l.seq != ++t->last[l.sender]) {
        wrong("from sender %u to target %d (%s): %u instead of %u", l.sender, (int)(t - field.target),
              a->flags & PR_FLAG_FLOATS ? "floating" : "pinned", l.seq, t->last[l.sender]);
        t->last[l.sender] = l.seq;
    }
    /* release: the main thread clears the targets when all have come */
    atomic_fetch_add_explicit(&field.received, 1, memory_order_release);
    return PR_DONE;
}
static const pr_ops target_ops = {done_start, target_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

typedef struct sender {
    uint64_t random;
    uint32_t index, sent[TARGETS], left;
} sender;

/* A few messages; false when all are sent. */
static bool send_some(sender *s, pr_worker *w)
{
    for (uint64_t n = 1 + below(&s->random, 3); n > 0 && s->left > 0; n--) {
        unsigned t = (unsigned)below(&s->random, TARGETS);
        while (s->sent[t] == field.each)
            t = (t + 1) % TARGETS;
        uint64_t id = atomic_load(&field.id[t]);
        if (id == 0)
            return true;   /* not born yet */
        line l = {s->index, ++s->sent[t]};
        if (tell(field.rt, w, id, &l, sizeof l) != PR_OK)
            wrong("not accepted");
        s->left--;
    }
    return s->left > 0;
}

static void prepare(sender *s)
{
    memset(s->sent, 0, sizeof s->sent);
    s->left = (uint32_t)field.each * TARGETS;
}

static pr_outcome sender_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    sender *s = data_of(a);
    if (m->data[0])
        prepare(s);
    uint8_t again = 0;
    if (send_some(s, w))
        tell(w->rt, w, PR_GET(a->id), &again, 1);
    return PR_DONE;
}
static const pr_ops sender_ops = {done_start, sender_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void *outside(void *context, unsigned index)
{
    (void)context;
    sender s = {.index = index, .random = index};
    for (uint64_t r = 0; r < field.rounds; r++) {
        prepare(&s);
        pthread_barrier_wait(&field.gate);
        for (uint64_t spin = 0; send_some(&s, NULL); spin++)
            if (spin % 16 == 0)
                pause_us(0);
        pthread_barrier_wait(&field.gate);
    }
    return NULL;
}

static void hammer(shape s)
{
    static sender senders[SENDERS];
    uint64_t sender_id[SENDERS] = {0};
    field.rt = runtime_up(s);
    field.rounds = times(60, 8);
    field.each = 20;
    pthread_barrier_init(&field.gate, NULL, OUTSIDE + 1);
    for (int t = 0; t < TARGETS; t++)
        atomic_store(&field.id[t], 0);
    for (unsigned i = OUTSIDE; i < SENDERS; i++) {
        senders[i] = (sender){.index = i, .random = i};
        assert_int_equal(spawn(field.rt, NULL, &sender_ops, i < 13 ? PR_FLAG_FLOATS : 0, 0, &senders[i], &sender_id[i]), PR_OK);
    }
    crew threads;
    crew_start(&threads, OUTSIDE, outside, NULL);
    for (uint64_t r = 0; r < field.rounds; r++) {
        uint8_t go = 1;
        memset(field.target, 0, sizeof field.target);
        atomic_store(&field.received, 0);
        for (unsigned i = OUTSIDE; i < SENDERS; i++)
            tell(field.rt, NULL, sender_id[i], &go, 1);
        pthread_barrier_wait(&field.gate);
        for (unsigned t = 0; t < TARGETS; t++) {
            uint64_t id = 0;
            uint32_t where = t == 4 ? 1 + (uint32_t)(r % s.workers) : 0;
            assert_int_equal(spawn(field.rt, NULL, &target_ops, t < 2 ? PR_FLAG_FLOATS : 0, where, &field.target[t], &id), PR_OK);
            atomic_store(&field.id[t], id);
        }
        wait_for(&field.received, field.each * SENDERS * TARGETS);
        pthread_barrier_wait(&field.gate);
        for (int t = 0; t < TARGETS; t++) {
            order(field.rt, NULL, atomic_exchange(&field.id[t], 0), PR_MSG_STOP);
        }
    }
    crew_join(&threads);
    pthread_barrier_destroy(&field.gate);
    runtime_down(field.rt, NULL);
    assert_true(no_errors());
}

static void first_in_first_out(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        hammer(shapes[i]);
}

/* One floating sender that wanders between workers, one pinned target, nothing else in the way: the earlier
 * message lies in the target's inbox while the sender is carried to the target's worker. */
static void a_wandering_sender(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        static sender senders[OUTSIDE];
        field.rt = runtime_up(shapes[i]);
        memset(field.target, 0, sizeof field.target);
        field.each = times(15000, 1500);
        atomic_store(&field.received, 0);
        for (uint32_t t = 0; t < TARGETS; t++) {
            uint64_t id;
            assert_int_equal(spawn(field.rt, NULL, &target_ops, 0, 1 + t % shapes[i].workers, &field.target[t], &id), PR_OK);
            atomic_store(&field.id[t], id);
        }
        for (uint32_t k = 0; k < OUTSIDE; k++) {
            uint64_t id;
            uint8_t go = 1;
            senders[k] = (sender){.index = k, .random = k};
            assert_int_equal(spawn(field.rt, NULL, &sender_ops, PR_FLAG_FLOATS, 0, &senders[k], &id), PR_OK);
            tell(field.rt, NULL, id, &go, 1);
        }
        wait_for(&field.received, field.each * OUTSIDE * TARGETS);
        runtime_down(field.rt, NULL);
        assert_true(no_errors());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_first_out),
        cmocka_unit_test(a_wandering_sender),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
