/* Bots that play against the server: each joins, makes its moves one after the other, thirty a second at most, and leaves. A move
 * is made when the one before is answered; one that is not answered within a second is sent again, for UDP may lose it.
 *
 *     bots --port N [--bots 200] [--moves 60] [--limit 60]
 *
 * Ends with 0 when every move has been answered. */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RATE = 30, AGAIN_MS = 1000, MOST = 2000 };

typedef enum stage { JOINING, MOVING, LEAVING, GONE } stage;

typedef struct bot {
    int fd;
    stage stage;
    uint32_t number;             /* of the move that is on its way, or was the last one */
    bool waiting;                /* for an answer */
    double first_ms, sent_ms;    /* when what it waits for was sent: first, and last */
    double next_ms;              /* no move before */
    double heading;
} bot;

static struct {
    bot bots[MOST];
    struct pollfd polled[MOST];
    int count, moves;
    uint64_t answered, again, refused, seen;
    float *trips_ms;
} all;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void die(const char *what)
{
    fprintf(stderr, "bots: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* What a bot waits for: sent for the first time, or once more. */
static void send_now(bot *b, double now)
{
    char line[100];
    int n = 0;
    if (b->stage == JOINING)
        n = snprintf(line, sizeof line, "join");
    else if (b->stage == MOVING)
        n = snprintf(line, sizeof line, "move %u %.3f %.3f", b->number, cos(b->heading), sin(b->heading));
    else
        n = snprintf(line, sizeof line, "leave");
    if (!b->waiting)
        b->first_ms = now;
    else
        all.again++;
    b->waiting = true;
    b->sent_ms = now;
    if (send(b->fd, line, (size_t)n, 0) < 0 && errno != EAGAIN && errno != ECONNREFUSED && errno != ENOBUFS)
        die("send");   /* the others: as if lost */
}

static void hear(bot *b, const char *line, double now)
{
    unsigned number;
    if (strncmp(line, "sees ", 5) == 0) {
        all.seen++;
    } else if (b->stage == JOINING && strncmp(line, "joined ", 7) == 0) {
        b->stage = MOVING;
        b->waiting = false;
    } else if (b->stage == MOVING && sscanf(line, "moved %u ", &number) == 1 && number == b->number && b->waiting) {
        all.trips_ms[all.answered++] = (float)(now - b->first_ms);
        b->waiting = false;
        b->heading += 0.1;
        b->next_ms = b->first_ms + 1000.0 / RATE;
        if (b->number == (uint32_t)all.moves)
            b->stage = LEAVING;
    } else if (strncmp(line, "no ", 3) == 0) {
        all.refused++;   /* it is sent again, in time */
    } else if (strncmp(line, "bye ", 4) == 0 && b->stage != JOINING) {
        if (b->stage == MOVING)
            fprintf(stderr, "bots: a player has gone: %s\n", line);
        b->stage = GONE;
    }
}

static void act(bot *b, double now)
{
    if (b->waiting) {
        if (now - b->sent_ms >= AGAIN_MS)
            send_now(b, now);
    } else if (b->stage == MOVING && now >= b->next_ms) {
        b->number++;
        send_now(b, now);
    } else if (b->stage == JOINING || b->stage == LEAVING) {
        send_now(b, now);
    }
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static int number(const char *text, int least, int most)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || end == text || n < least || n > most) {
        fprintf(stderr, "bots: %s: a number from %d to %d expected\n", text, least, most);
        exit(2);
    }
    return (int)n;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'}, {"bots", required_argument, NULL, 'b'},
                                            {"moves", required_argument, NULL, 'm'}, {"limit", required_argument, NULL, 'l'},
                                            {NULL, 0, NULL, 0}};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct rlimit files;
    int limit_s = 60, gone = 0;
    all.count = 200;
    all.moves = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'p': to.sin_port = htons((uint16_t)number(optarg, 1, 65535)); break;
        case 'b': all.count = number(optarg, 1, MOST); break;
        case 'm': all.moves = number(optarg, 1, 1000000); break;
        case 'l': limit_s = number(optarg, 1, 1000000); break;
        default: return 2;
        }
    if (to.sin_port == 0) {
        fputs("bots: --port N expected: the server says which\n", stderr);
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {   /* a socket each */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!(all.trips_ms = calloc((size_t)all.count * (size_t)all.moves, sizeof *all.trips_ms)))
        die("memory");
    for (int i = 0; i < all.count; i++) {
        bot *b = &all.bots[i];
        b->heading = i;
        b->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (b->fd < 0 || connect(b->fd, (struct sockaddr *)&to, sizeof to) != 0)
            die("socket");
        all.polled[i] = (struct pollfd){.fd = b->fd, .events = POLLIN};
    }

    double began = now_ms();
    while (gone < all.count && now_ms() - began < limit_s * 1e3) {
        poll(all.polled, (nfds_t)all.count, 5);
        double now = now_ms();
        gone = 0;
        for (int i = 0; i < all.count; i++) {
            bot *b = &all.bots[i];
            char line[2000];
            ssize_t n;
            while (b->stage != GONE && (n = recv(b->fd, line, sizeof line - 1, 0)) >= 0) {
                line[n] = 0;
                hear(b, line, now);
            }
            if (b->stage != GONE)
                act(b, now);
            else if (all.polled[i].fd >= 0)
                all.polled[i].fd = -1;
            gone += b->stage == GONE;
        }
    }
    uint64_t expected = (uint64_t)all.count * (uint64_t)all.moves, n = all.answered;
    qsort(all.trips_ms, n, sizeof *all.trips_ms, compare);
    printf("%d bots: %llu of %llu moves answered, %llu sent again, %llu refused; %llu sights\n", all.count, (unsigned long long)n,
           (unsigned long long)expected, (unsigned long long)all.again, (unsigned long long)all.refused, (unsigned long long)all.seen);
    if (n > 0)
        printf("round trip: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n", (double)all.trips_ms[n / 2], (double)all.trips_ms[n * 99 / 100],
               (double)all.trips_ms[n - 1]);
    for (int i = 0; i < all.count; i++)
        close(all.bots[i].fd);
    free(all.trips_ms);
    return n == expected && gone == all.count ? 0 : 1;
}
