/* What the C library costs: `tell` from C to a busy runtime, from one thread and from two, an empty tick, and the memory of
 * a runtime at its start.  make bench-embed [N=messages]
 *
 * `tell` is timed from outside while the runtime's workers are at work on what has been sent. Figures are of this machine: on
 * two cores, two senders and a worker share them. */
#include <pierrot.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The memory that only this process has. */
static double private_kb(void)
{
    char line[256];
    double kb = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) {
        double n;
        if (sscanf(line, "Private_Dirty: %lf kB", &n) == 1)
            kb = n;
    }
    if (f)
        fclose(f);
    return kb;
}

static pierrot *up(pierrot_mode mode, uint32_t workers)
{
    pierrot_config c;
    pierrot_error error;
    pierrot *rt;
    pierrot_config_init(&c, sizeof c);
    c.mode = mode;
    c.workers = workers;
    if (pierrot_start(&c, &rt, &error) != PIERROT_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return rt;
}

static pierrot_status count(pierrot_actor *self, pierrot_cursor *values)
{
    (void)values;
    ++*(uint64_t *)pierrot_actor_state(self);
    return PIERROT_OK;
}

typedef struct sender {
    pierrot *rt;
    pierrot_ref ref;
    uint64_t n;
    pthread_barrier_t *start;
    double seconds;
} sender;

static void *send_all(void *context)
{
    sender *s = context;
    pierrot_message *m = pierrot_message_new(s->rt);
    pierrot_put_text(m, "move");
    pierrot_put_number(m, 1);
    pthread_barrier_wait(s->start);
    double begin = now_s();
    for (uint64_t i = 0; i < s->n; i++)
        if (pierrot_tell(s->rt, s->ref, m) != PIERROT_OK)
            exit(1);
    s->seconds = now_s() - begin;
    pierrot_message_free(m);
    return NULL;
}

static void tells(int threads, uint64_t n, bool native)
{
    static const char lua[] = "return { on = { move = function(self, x) self.n = (self.n or 0) + x end } }";
    pierrot *rt = up(PIERROT_THREADS, 2);
    pthread_barrier_t start;
    pthread_t thread[2];
    sender s[2];
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        pierrot_behaviour b;
        pierrot_behaviour_init(&b, sizeof b);
        b.state_size = sizeof(uint64_t);
        b.receive = count;
        s[i] = (sender){.rt = rt, .n = n, .start = &start};
        if (native)
            pierrot_spawn(rt, &b, NULL, NULL, &s[i].ref);
        else
            pierrot_spawn_string(rt, lua, sizeof lua - 1, "sink", NULL, NULL, &s[i].ref);
    }
    double begin = now_s();
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, send_all, &s[i]);
    double longest = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        longest = s[i].seconds > longest ? s[i].seconds : longest;
    }
    pierrot_wait_quiet(rt, PIERROT_FOREVER);
    double all = now_s() - begin;
    double total = (double)n * threads;
    printf("tell to an actor in %-3s from %d thread%s  %6.1f ns each  %5.1f million/s sent  %5.1f million/s handled\n", native ? "C" : "Lua",
           threads, threads > 1 ? "s" : " ", longest / (double)n * 1e9, total / longest / 1e6, total / all / 1e6);
    pierrot_free(rt);
    pthread_barrier_destroy(&start);
}

static void ticks(uint64_t n)
{
    pierrot *rt = up(PIERROT_TICK, 2);
    pierrot_ref ref;
    pierrot_spawn_string(rt, "return function() end", 21, "idle", NULL, NULL, &ref);
    while (pierrot_tick(rt, 1000) == 0)
        ;
    for (int with_fd = 0; with_fd < 2; with_fd++) {
        if (with_fd) {
            pierrot_fd(rt);
            pierrot_tick(rt, 1000);
        }
        double begin = now_s();
        for (uint64_t i = 0; i < n; i++)
            pierrot_tick(rt, 1000);
        printf("an empty tick%s  %6.1f ns\n", with_fd ? ", with a descriptor" : "                   ", (now_s() - begin) / (double)n * 1e9);
    }
    pierrot_free(rt);
}

static void memory(void)
{
    enum { MANY = 8 };
    pierrot *rt[MANY + 1];
    pierrot_stats stats = {.size = sizeof stats};
    rt[MANY] = up(PIERROT_THREADS, 2);   /* what the first one brings along, code too */
    double before = private_kb();
    for (int i = 0; i < MANY; i++)
        rt[i] = up(PIERROT_THREADS, 2);
    double each = (private_kb() - before) / MANY;
    pierrot_get_stats(rt[0], &stats);
    printf("a runtime at its start, 2 workers  %6.0f KB resident, %6.0f KB allocated\n", each, (double)stats.memory_bytes / 1024);
    for (int i = 0; i <= MANY; i++)
        pierrot_free(rt[i]);
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    memory();
    ticks(n);
    for (int native = 1; native >= 0; native--)
        for (int threads = 1; threads <= 2; threads++)
            tells(threads, n, native);
    return 0;
}
