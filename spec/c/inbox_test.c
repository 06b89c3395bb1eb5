/* A worker's inbox: order and contents of messages of all sizes, from many threads, while the ring is empty, full,
 * overflown, and on its way back; order beyond that of one sender; memory that runs out for the reader.
 *
 * Mutants caught: the stack taken before the ring is empty (with a pause of the writer between its claim and its entry);
 * the bit cleared before the stack is closed (with a pause there: the window is a few instructions); lines claimed while
 * the bit is set; a ring that is never full; an entry whose first word is written before the rest. */
#include "harness.h"

#include <semaphore.h>

enum { PAIRS = 4, LONGEST = 700 };

/* A message: its number, then bytes that follow from it. */
static size_t size_of(uint64_t n)
{
    return sizeof n + (n % 7 == 0 ? n * 31 % LONGEST : n % 3 == 0 ? n * 13 % 200 : n % 16);
}

static uint8_t byte_of(uint64_t n, size_t i) { return (uint8_t)(n * 7 + i); }

typedef struct pair {
    uint64_t target;
    _Atomic uint64_t received;
    uint64_t expected;     /* the main thread's */
    uint64_t sent, random; /* the sender's */
    sem_t hold;
} pair;

static pair pairs[PAIRS];

static pr_outcome check(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w;
    pair *p = data_of(a);
    uint64_t n;
    if (m->size == 1) {     /* holds its worker, so that what is sent now must wait in the inbox */
        sem_wait(&p->hold);
        return PR_DONE;
    }
    memcpy(&n, m->data, sizeof n);
    if (n != PR_GET(p->received))
        wrong("%llu instead of %llu", (unsigned long long)n, (unsigned long long)PR_GET(p->received));
    if (m->size != size_of(n))
        wrong("%u bytes", m->size);
    for (size_t i = sizeof n; i < m->size; i++)
        if (m->data[i] != byte_of(n, i)) {
            wrong("byte %zu of message %llu", i, (unsigned long long)n);
            break;
        }
    atomic_fetch_add_explicit(&p->received, 1, memory_order_release);   /* with it: PR_GET in the main thread's wait_for */
    return PR_DONE;
}
static const pr_ops check_ops = {done_start, check, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void send_next(pr_worker *w, pair *p)
{
    uint8_t bytes[sizeof(uint64_t) + LONGEST];
    uint64_t n = p->sent++;
    size_t size = size_of(n);
    memcpy(bytes, &n, sizeof n);
    for (size_t i = sizeof n; i < size; i++)
        bytes[i] = byte_of(n, i);
    pr_status status;
    while ((status = tell(w->rt, w, p->target, bytes, size)) == PR_NOMEM)
        ;
    if (status != PR_OK)
        wrong("not accepted");
}

/* Sends as many as it is told, in one handler. */
static pr_outcome sender_receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pair *p = data_of(a);
    uint32_t n;
    memcpy(&n, m->data, sizeof n);
    while (n-- > 0) {
        send_next(w, p);
        if (below(&p->random, 64) == 0)
            pause_us((unsigned)below(&p->random, 3));
    }
    return PR_DONE;
}
static const pr_ops sender_ops = {done_start, sender_receive, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static void send(pr_runtime *rt, uint64_t sender, pair *p, uint32_t n)
{
    pr_status status;
    while ((status = tell(rt, NULL, sender, &n, sizeof n)) == PR_NOMEM)
        ;
    assert_int_equal(status, PR_OK);
    p->expected += n;
}

/* Pair i: from worker i + 1 to the one after it. */
static void up(pr_runtime *rt, uint32_t workers, uint64_t sender[PAIRS])
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        pair *p = &pairs[i];
        memset(p, 0, sizeof *p);
        p->random = i + 1;
        sem_init(&p->hold, 0, 0);
        assert_int_equal(spawn(rt, NULL, &check_ops, 0, 1 + (i + 1) % workers, p, &p->target), PR_OK);
        assert_int_equal(spawn(rt, NULL, &sender_ops, 0, 1 + i % workers, p, &sender[i]), PR_OK);
    }
}

static void down_all(pr_runtime *rt)
{
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

static void down(pr_runtime *rt)
{
    down_all(rt);
    for (int i = 0; i < PAIRS; i++)
        sem_destroy(&pairs[i].hold);
}

/* Short and long floods against readers that are on their way. */
static void all_sizes_in_order(void **state)
{
    (void)state;
    for (uint32_t workers = 2; workers <= 8; workers *= 2) {
        uint64_t sender[PAIRS], random = workers;
        pr_runtime *rt = runtime_up((shape){.workers = workers, .throughput = 32});
        up(rt, workers, sender);
        for (uint64_t round = times(60, 8); round > 0; round--) {
            uint32_t n = 1 + (uint32_t)below(&random, round % 4 ? 100 : 6000);
            for (int i = 0; i < PAIRS; i++)
                send(rt, sender[i], &pairs[i], n);
            for (int i = 0; i < PAIRS && (round % 3 || round == 1); i++)
                wait_for(&pairs[i].received, pairs[i].expected);
        }
        down(rt);
    }
}

/* More than the ring holds is sent while its reader is held, which then takes it all while more is coming. */
static void past_a_full_ring(void **state)
{
    (void)state;
    uint64_t sender[PAIRS];
    pr_runtime *rt = runtime_up((shape){.workers = 2, .throughput = 32});
    up(rt, 2, sender);
    pair *p = &pairs[0];
    uint64_t random = 1;
    for (uint64_t round = times(400, 40); round > 0; round--) {
        uint8_t hold = 1;
        assert_int_equal(tell(rt, NULL, p->target, &hold, 1), PR_OK);
        send(rt, sender[0], p, round % 4 == 0 ? 8000 : 900 + (uint32_t)below(&random, 400));
        pause_us((unsigned)below(&random, 400));
        if (round % 8 == 0)
            pr_alloc_fail_at((long)(round % 5) + 1);
        sem_post(&p->hold);
        send(rt, sender[0], p, 100);
        wait_for(&p->received, p->expected);
        pr_alloc_fail_at(0);
    }
    down(rt);
}

/* Who tells c, and then b, which tells c in turn, has told c first: whichever threads they run on. */
enum { TELLERS = 3, BETWEEN = 2 };

typedef struct said { uint32_t teller, n; } said;

static uint64_t last, between[BETWEEN];
static uint32_t direct[TELLERS];        /* c's */
static _Atomic uint64_t passed_on;

static pr_outcome pass_on(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)a;
    said s;
    memcpy(&s, m->data, sizeof s);
    struct { said s; uint8_t by_way; } on = {s, 1};
    while (tell(w->rt, w, last, &on, sizeof on) == PR_NOMEM)
        ;
    return PR_DONE;
}
static const pr_ops pass_ops = {done_start, pass_on, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

static pr_outcome compare(pr_worker *w, pr_actor *a, pr_msg *m)
{
    (void)w, (void)a;
    said s;
    memcpy(&s, m->data, sizeof s);
    if (m->size == sizeof s) {
        if (s.n != direct[s.teller] + 1)
            wrong("%u after %u", s.n, direct[s.teller]);
        direct[s.teller] = s.n;
    } else {
        if (direct[s.teller] < s.n)
            wrong("%u came by way of another before it came", s.n);
        atomic_fetch_add_explicit(&passed_on, 1, memory_order_release);
    }
    return PR_DONE;
}
static const pr_ops compare_ops = {done_start, compare, done_resume, done_stop, done_abandon, done_release, NULL, NULL};

typedef struct teller { pr_runtime *rt; uint32_t number, messages; pthread_t thread; } teller;

static void *tell_both(void *arg)
{
    teller *t = arg;
    uint64_t random = t->number + 1;
    for (uint32_t n = 1; n <= t->messages; n++) {
        said s = {t->number, n};
        if (tell(t->rt, NULL, last, &s, sizeof s) != PR_OK || tell(t->rt, NULL, between[n % BETWEEN], &s, sizeof s) != PR_OK)
            wrong("not accepted");
        if (below(&random, 2000) == 0)
            pause_us(300);
    }
    return NULL;
}

static void told_first_comes_first(void **state)
{
    (void)state;
    teller tellers[TELLERS];
    pr_runtime *rt = runtime_up((shape){.workers = 1 + BETWEEN, .throughput = 32});
    assert_int_equal(spawn(rt, NULL, &compare_ops, 0, 1, NULL, &last), PR_OK);
    for (uint32_t i = 0; i < BETWEEN; i++)
        assert_int_equal(spawn(rt, NULL, &pass_ops, 0, 2 + i, NULL, &between[i]), PR_OK);
    memset(direct, 0, sizeof direct);
    PR_SET(passed_on, 0);
    uint32_t messages = (uint32_t)times(100000, 10000);
    for (uint32_t i = 0; i < TELLERS; i++) {
        tellers[i] = (teller){.rt = rt, .number = i, .messages = messages};
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, tell_both, &tellers[i]), 0);
    }
    for (uint32_t i = 0; i < TELLERS; i++)
        pthread_join(tellers[i].thread, NULL);
    wait_for(&passed_on, (uint64_t)TELLERS * messages);
    down_all(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_in_order),
        cmocka_unit_test(past_a_full_ring),
        cmocka_unit_test(told_first_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
