// What waking costs without a runtime: two threads and a futex. The counterpart of wake.lua, with the same arguments
// and the same line of output:
//
//     futex PROGRAM RUNS wakes=NUMBER

#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint32_t word;   // how many wake-ups were sent: release by the waker, acquire by the sleeper
static _Atomic int64_t sent_ns; // when the last one was; published by `word`
static int64_t *latencies;
static uint32_t wakes;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void *sleeper(void *unused) {
  (void)unused;
  for (uint32_t seen = 0; seen < wakes; seen++) {
    while (atomic_load_explicit(&word, memory_order_acquire) == seen)
      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    latencies[seen] = now_ns() - atomic_load_explicit(&sent_ns, memory_order_relaxed);
  }
  return NULL;
}

static void run(void) {
  pthread_t thread;
  atomic_store(&word, 0);
  if (pthread_create(&thread, NULL, sleeper, NULL) != 0)
    exit(1);
  for (uint32_t i = 0; i < wakes; i++) {
    struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
    atomic_store_explicit(&sent_ns, now_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&word, 1, memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  }
  pthread_join(thread, NULL);
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double at(double share) {
  uint32_t place = (uint32_t)(share * wakes + 0.999999);
  return (double)latencies[place > 0 ? place - 1 : 0];
}

int main(int argc, char **argv) {
  if (argc != 4 || strncmp(argv[3], "wakes=", 6) != 0) {
    fprintf(stderr, "usage: futex PROGRAM RUNS wakes=NUMBER\n");
    return 2;
  }
  wakes = (uint32_t)strtoul(argv[3] + 6, NULL, 10);
  latencies = calloc(wakes + 1, sizeof *latencies);
  if (!latencies || wakes == 0)
    return 1;
  run();
  for (int runs = atoi(argv[2]); runs > 0; runs--) {
    run();
    double sum = 0;
    for (uint32_t i = 0; i < wakes; i++)
      sum += (double)latencies[i];
    qsort(latencies, wakes, sizeof *latencies, by_value);
    printf("%s %.3f %u %u p50=%.1f p99=%.1f p99.9=%.1f max=%.1f\n", argv[1], sum / wakes, wakes, wakes, at(0.5),
           at(0.99), at(0.999), at(1));
  }
  free(latencies);
  return 0;
}
