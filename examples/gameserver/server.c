/* A game server with Pierrot inside: a world at 30 ticks a second, in which NPCs and players are actors in Lua.
 *
 * The host has the loop, the clock, the sockets and the places of everybody; actors decide. In each tick the host
 *   1. reads what clients have sent, and asks their players;
 *   2. makes the index of who is near whom;
 *   3. runs the actors, within a budget (tick mode); with --threads they run all the time on threads of their own;
 *   4. sends what players have answered, and, in every third tick, what is near each.
 * All that is on this thread, so nothing here has a lock; what actors touch is in world.c. */
#include "clients.h"
#include "world.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SEEN_MOST = 32,              /* entities in a "sees" */
    SIGHT = 12,                  /* tiles */
    SLOT_US = 50, SLOTS = 20000  /* of the histogram: up to a second */
};

typedef struct settings {
    bool threads, measure, open_to_all;
    uint16_t port;
    uint32_t wanderers, guards, rate, budget_us, workers, seconds;   /* seconds: 0: until a signal */
    uint64_t seed;
    const char *scripts, *tuning;
} settings;

static struct server {
    settings set;
    pierrot *rt;
    pierrot_inbox *inbox;
    pierrot_message *message;
    pierrot_ref director;
    world *world;
    clients clients;
    int signals;                 /* a signalfd: the process is ours, and so are its signals */
    bool over;
    struct timespec tuned;       /* the file's time, as of the last reading */
    uint64_t tick;
    uint32_t starting;           /* NPCs whose start is not done */
    uint32_t npcs, npcs_lost;
    uint64_t asked, answered, refused;
    uint64_t failures;
    uint32_t reports_due, reported;
    uint64_t histogram[SLOTS], longest_tick_us;
    uint64_t ticks_over, worst_over_ns, longest_handler_ns;
} server;

/* --- small things */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    putchar('\n');
    fflush(stdout);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "gameserver: %s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A script's bytes; NULL, and errno says why. The caller frees them. */
static char *read_file(const char *path, size_t *size)
{
    enum { FILE_MOST = 1 << 20 };
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = malloc(FILE_MOST);
    *size = text ? fread(text, 1, FILE_MOST, f) : 0;
    if (text && (ferror(f) || *size == FILE_MOST)) {
        free(text);
        text = NULL;
        errno = ferror(f) ? EIO : EFBIG;
    }
    fclose(f);
    return text;
}

/* --- what the runtime calls */

static void log_line(void *context, pierrot_log_level level, const char *text, size_t size)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "", "script"};
    (void)context;
    fprintf(stderr, "[%s] %.*s\n", names[level], (int)size, text);
}

static void open_state(void *context, struct lua_State *L, uint32_t worker)
{
    (void)context, (void)worker;
    world_open(server.world, L);
}

/* Scripts come from one directory, and from nowhere else: they have no library that reads files. */
static pierrot_status find_script(void *context, const char *name, pierrot_source *source)
{
    char path[1024], called[100];
    size_t size;
    (void)context;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz_") != strlen(name))
        return PIERROT_NOTHING;
    snprintf(path, sizeof path, "%s/%s.lua", server.set.scripts, name);
    char *text = read_file(path, &size);
    if (!text)
        return PIERROT_NOTHING;
    snprintf(called, sizeof called, "%s.lua", name);
    pierrot_status status = pierrot_source_set(source, text, size, called);
    free(text);
    return status;
}

/* --- messages: one is enough, for it is filled and sent at once */

static pierrot_message *say_to(const char *what)
{
    pierrot_message_clear(server.message);
    pierrot_put_text(server.message, what);
    return server.message;
}

/* --- clients. An ask's answer comes to a function with one pointer: in it are who it is for and the number of the move. */

static void *note_of(const client *who, uint32_t number)
{
    return (void *)(uintptr_t)((uint64_t)number << 32 | (uint64_t)(who->life & 0x3fffff) << 10 | (uint64_t)(who - server.clients.all));
}

static client *client_of(const void *note, uint32_t *number)
{
    uint64_t bits = (uintptr_t)note;
    client *who = &server.clients.all[bits & 0x3ff];
    *number = (uint32_t)(bits >> 32);
    return who->entity != 0 && (who->life & 0x3fffff) == (bits >> 10 & 0x3fffff) ? who : NULL;
}

static void has_joined(void *note, const pierrot_incoming *answer)
{
    uint32_t number;
    client *who = client_of(note, &number);
    float x, y;
    if (!who || answer->kind != PIERROT_REPLY)
        return;   /* its end is told by "down" */
    world_place(server.world, who->entity, &x, &y);
    clients_send(&server.clients, &who->address, "joined %u %.2f %.2f", who->entity, x, y);
}

static void has_moved(void *note, const pierrot_incoming *answer)
{
    uint32_t number;
    client *who = client_of(note, &number);
    pierrot_cursor values = answer->values;
    double counted, x, y, health;
    server.answered++;
    if (!who)
        return;
    if (answer->kind == PIERROT_REPLY && pierrot_read_number(&values, &counted) && pierrot_read_number(&values, &x) &&
        pierrot_read_number(&values, &y) && pierrot_read_number(&values, &health))
        clients_send(&server.clients, &who->address, "moved %.0f %.2f %.2f %.0f", counted, x, y, health);
    else
        clients_send(&server.clients, &who->address, "no %u %s", number, pierrot_status_text(answer->status));
}

static pierrot_status spawn(const char *script, uint32_t entity, pierrot_ref *ref)
{
    pierrot_message_clear(server.message);
    pierrot_put_number(server.message, entity);
    pierrot_status status = pierrot_spawn_module(server.rt, script, server.message, NULL, ref);
    if (status != PIERROT_OK)
        return status;
    world_set_ref(server.world, entity, *ref);
    status = pierrot_monitor(server.inbox, *ref, NULL);
    if (status != PIERROT_OK)
        pierrot_stop_actor(server.rt, *ref, NULL);
    return status;
}

static void join_of(const struct sockaddr_in *from)
{
    client *who = clients_find(&server.clients, from);
    if (!who) {
        uint32_t entity = world_add(server.world, WORLD_PLAYER);
        who = entity ? clients_add(&server.clients, from) : NULL;
        pierrot_status status = PIERROT_LIMIT;
        if (who)
            who->entity = entity, status = spawn("player", entity, &who->player);
        if (status != PIERROT_OK) {
            clients_send(&server.clients, from, "bye %s", pierrot_status_text(status));
            if (who)
                clients_remove(&server.clients, who);
            if (entity)
                world_remove(server.world, entity);
            return;
        }
    }
    pierrot_await(server.inbox, who->player, 5000, has_joined, note_of(who, 0), NULL);
}

static void move_of(client *who, uint32_t number, double dx, double dy)
{
    pierrot_message *m = say_to("move");
    pierrot_put_number(m, number);
    pierrot_put_number(m, dx);
    pierrot_put_number(m, dy);
    pierrot_status status = pierrot_ask(server.inbox, who->player, m, 5000, has_moved, note_of(who, number), NULL);
    if (status == PIERROT_OK) {
        server.asked++;
    } else {
        server.refused++;
        clients_send(&server.clients, &who->address, "no %u %s", number, pierrot_status_text(status));
    }
}

static void read_clients(void)
{
    char line[200];
    struct sockaddr_in from;
    for (int i = 0; i < 10000 && clients_receive(&server.clients, line, sizeof line, &from); i++) {
        unsigned number;
        double dx, dy;
        client *who = clients_find(&server.clients, &from);
        if (strcmp(line, "join") == 0)
            join_of(&from);
        else if (!who)
            clients_send(&server.clients, &from, "bye unknown");
        else if (sscanf(line, "move %u %lf %lf", &number, &dx, &dy) == 3)
            move_of(who, number, dx, dy);
        else if (strcmp(line, "leave") == 0)
            pierrot_tell(server.rt, who->player, say_to("leave"));
    }
}

static void send_sights(void)
{
    for (int i = 0; i < CLIENTS_MOST; i++) {
        const client *who = &server.clients.all[i];
        uint32_t near[SEEN_MOST];
        char line[1100];
        size_t at = 0;
        if (who->entity == 0)
            continue;
        uint32_t count = world_near(server.world, who->entity, SIGHT, near, SEEN_MOST);
        for (uint32_t n = 0; n < count && at < sizeof line - 40; n++) {
            float x, y;
            world_place(server.world, near[n], &x, &y);
            at += (size_t)snprintf(line + at, sizeof line - at, " %u %.1f %.1f", near[n], x, y);
        }
        line[at] = 0;
        clients_send(&server.clients, &who->address, "sees %llu%s", (unsigned long long)server.tick, line);
    }
}

/* --- the end of an actor */

static void has_ended(pierrot_ref ref, const pierrot_value *reason)
{
    uint32_t entity = world_find(server.world, ref);
    if (entity == 0)
        return;
    if (world_kind_of(server.world, entity) != WORLD_PLAYER) {
        char name[200];
        pierrot_describe(server.rt, ref, name, sizeof name);
        say("lost: entity %u, %s", entity, name);
        server.npcs_lost++;
    }
    for (int i = 0; i < CLIENTS_MOST; i++) {
        client *who = &server.clients.all[i];
        if (who->entity != entity)
            continue;
        bool text = reason->type == PIERROT_STRING;   /* else the player has failed */
        clients_send(&server.clients, &who->address, "bye %.*s", text ? (int)reason->as.string.size : 6,
                     text ? reason->as.string.bytes : "failed");
        clients_remove(&server.clients, who);
    }
    world_remove(server.world, entity);
}

/* Answers go to their functions; what remains is the end of somebody. */
static void poll_inbox(void)
{
    pierrot_incoming in;
    while (pierrot_inbox_poll(server.inbox, &in) == PIERROT_OK) {
        pierrot_ref ref;
        pierrot_value reason;
        if (in.kind == PIERROT_MESSAGE && pierrot_read_text(&in.values, "down") && pierrot_read_ref(&in.values, &ref) &&
            pierrot_next(&in.values, &reason))
            has_ended(ref, &reason);
    }
}

static void has_failed(void *context, const pierrot_failure *failure)
{
    (void)context, (void)failure;   /* the log has it */
    __atomic_fetch_add(&server.failures, 1, __ATOMIC_RELAXED);
}

/* --- tuning */

static void is_tuned(void *context, const pierrot_incoming *answer)
{
    pierrot_cursor values = answer->values;
    const char *problem = answer->text;
    size_t size = answer->text_size;
    bool taken = false;
    pierrot_value nothing;
    (void)context;
    if (answer->kind == PIERROT_REPLY && !pierrot_read_boolean(&values, &taken)) {
        pierrot_next(&values, &nothing);
        pierrot_read_string(&values, &problem, &size);
    }
    if (taken)
        say("tuning: taken");
    else
        say("tuning: refused, the old one stays: %.*s", (int)size, problem);
}

/* When the file has changed. False: it cannot be read. */
static bool look_at_tuning(bool first)
{
    struct stat s;
    size_t size;
    if (stat(server.set.tuning, &s) != 0)
        return false;
    if (!first && s.st_mtim.tv_sec == server.tuned.tv_sec && s.st_mtim.tv_nsec == server.tuned.tv_nsec)
        return true;
    char *text = read_file(server.set.tuning, &size);
    if (!text)
        return false;
    server.tuned = s.st_mtim;
    if (first) {
        pierrot_message_clear(server.message);
        pierrot_put_string(server.message, text, size);
        pierrot_spawn_options options;
        pierrot_spawn_options_init(&options, sizeof options);
        options.name = "director";
        options.restart = PIERROT_PERMANENT;
        options.mailbox = 4 * WORLD_MOST;   /* whoever begins asks it, and all may begin at once */
        pierrot_spawn_module(server.rt, "director", server.message, &options, &server.director);
    } else {
        pierrot_message *m = say_to("tune");
        pierrot_put_string(m, text, size);
        pierrot_ask(server.inbox, server.director, m, 5000, is_tuned, NULL, NULL);
    }
    free(text);
    return true;
}

/* --- ticks */

static void note_tick(uint64_t ns)
{
    uint64_t us = ns / 1000, slot = us / SLOT_US;
    server.histogram[slot < SLOTS ? slot : SLOTS - 1]++;
    if (us > server.longest_tick_us)
        server.longest_tick_us = us;
}

/* In milliseconds: at least this share of the ticks took no longer. */
static double share_ms(double share)
{
    uint64_t all = 0, so_far = 0;
    for (int i = 0; i < SLOTS; i++)
        all += server.histogram[i];
    for (int i = 0; i < SLOTS; i++)
        if ((so_far += server.histogram[i]) >= share * (double)all && so_far > 0) {
            double upper = (i + 1) * SLOT_US / 1e3, longest = (double)server.longest_tick_us / 1e3;
            return upper < longest ? upper : longest;
        }
    return 0;
}

/* What is compared with the budget is time of this thread, which another process cannot take. */
static void run_actors(void)
{
    uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID), budget_ns = (uint64_t)server.set.budget_us * 1000;
    pierrot_tick(server.rt, server.set.budget_us);
    uint64_t took = now_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    if (took <= budget_ns)
        return;
    server.ticks_over++;
    if (took - budget_ns > server.worst_over_ns)
        server.worst_over_ns = took - budget_ns;
}

static void tick(void)
{
    uint64_t began = now_ns(CLOCK_MONOTONIC);
    read_clients();
    world_index(server.world);
    if (!server.set.threads)
        run_actors();
    poll_inbox();
    if (server.tick % 3 == 0)
        send_sights();
    if (server.tick % 5 == 0)
        look_at_tuning(false);
    server.tick++;
    note_tick(now_ns(CLOCK_MONOTONIC) - began);
}

static void read_signals(void)
{
    struct signalfd_siginfo info;
    while (read(server.signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGHUP)
            server.tuned = (struct timespec){0, 0};   /* read it in any case */
        else
            server.over = true;
}

/* Sleeps until then. With threads, answers come at any time and go out at once. */
static void wait_until(uint64_t ns)
{
    struct pollfd p[2] = {{.fd = server.signals, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (server.set.threads)
        p[1].fd = pierrot_inbox_fd(server.inbox);
    for (uint64_t now; !server.over && (now = now_ns(CLOCK_MONOTONIC)) < ns;) {
        if (poll(p, 2, (int)((ns - now + 999999) / 1000000)) <= 0)
            continue;
        if (p[0].revents)
            read_signals();
        if (p[1].revents)
            poll_inbox();
    }
}

static void run(void)
{
    uint64_t began = now_ns(CLOCK_MONOTONIC), length = 1000000000 / server.set.rate, next = began;
    while (!server.over) {
        tick();
        next += length;
        uint64_t now = now_ns(CLOCK_MONOTONIC);
        if (next < now)
            next = now;   /* late: the ticks that are missed are not made up for */
        if (server.set.seconds > 0 && now - began >= server.set.seconds * UINT64_C(1000000000))
            server.over = true;
        wait_until(next);
        read_signals();
    }
}

/* --- beginning and end */

static void has_started(void *context, const pierrot_incoming *answer)
{
    (void)context, (void)answer;
    server.starting--;
}

static void serve(void)   /* whoever has something to do does it, outside of ticks */
{
    if (!server.set.threads)
        pierrot_tick(server.rt, 10000);
    else
        pierrot_inbox_wait(server.inbox, 100);
    poll_inbox();
}

static void populate(const char *script, world_kind kind, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pierrot_ref ref;
        uint32_t entity = world_add(server.world, kind);
        pierrot_status status = entity ? spawn(script, entity, &ref) : PIERROT_LIMIT;
        if (status != PIERROT_OK)
            die(script, pierrot_status_text(status));
        server.starting++;
        server.npcs++;
        if (pierrot_await(server.inbox, ref, PIERROT_FOREVER, has_started, NULL, NULL) != PIERROT_OK)
            server.starting--;   /* it has ended already: "down" tells it */
    }
}

static void has_reported(void *context, const pierrot_incoming *answer)
{
    (void)context;
    server.reports_due--;
    server.reported += answer->kind == PIERROT_REPLY;
}

/* Each NPC that is left is asked: it has to answer. */
static void roll_call(void)
{
    for (uint32_t id = 1; id <= WORLD_MOST; id++) {
        world_kind kind = world_kind_of(server.world, id);
        if (kind != WORLD_WANDERER && kind != WORLD_GUARD)
            continue;
        pierrot_ref ref = world_ref(server.world, id);
        if (pierrot_ask(server.inbox, ref, say_to("report"), 30000, has_reported, NULL, NULL) == PIERROT_OK)
            server.reports_due++;
    }
    while (server.reports_due > 0)
        serve();
}

static void summary(void)
{
    pierrot_stats stats = {.size = sizeof stats};
    pierrot_get_stats(server.rt, &stats);
    say("tick time: p50 %.2f ms, p99 %.2f ms, max %.2f ms, of %llu ticks", share_ms(0.5), share_ms(0.99),
        (double)server.longest_tick_us / 1e3, (unsigned long long)server.tick);
    if (!server.set.threads)
        say("budget: %u us; %llu ticks over it, by %llu us at most", server.set.budget_us, (unsigned long long)server.ticks_over,
            (unsigned long long)server.worst_over_ns / 1000);
    if (server.set.measure)
        say("longest handler: %llu us", (unsigned long long)server.longest_handler_ns / 1000);
    say("moves: %llu asked, %llu answered, %llu refused", (unsigned long long)server.asked, (unsigned long long)server.answered,
        (unsigned long long)server.refused);
    say("roll call: %u of %u NPCs answer, %u lost; %llu failures", server.reported, server.npcs, server.npcs_lost,
        (unsigned long long)__atomic_load_n(&server.failures, __ATOMIC_RELAXED));
    say("messages: %llu handled; memory: %llu KB", (unsigned long long)stats.handled, (unsigned long long)stats.memory_bytes / 1024);
}

static void start(void)
{
    pierrot_config config;
    pierrot_error error;
    pierrot_config_init(&config, sizeof config);
    config.mode = server.set.threads ? PIERROT_THREADS : PIERROT_TICK;
    config.workers = server.set.threads ? server.set.workers : 1;
    config.log = log_line;
    config.log_level = PIERROT_LOG_WARN;
    config.failure = has_failed;
    config.libraries = PIERROT_LIB_SAFE;
    config.find_module = find_script;
    config.open_state = open_state;
    config.worker_memory_limit = (size_t)512 << 20;
    config.mailbox_limit = 1000;
    config.message_limit = 1 << 20;
    if (pierrot_start(&config, &server.rt, &error) != PIERROT_OK)
        die("pierrot", error.text);
    if (pierrot_inbox_open(server.rt, &server.inbox) != PIERROT_OK || !(server.message = pierrot_message_new(server.rt)))
        die("pierrot", "no memory");
    pierrot_incoming in;
    if (!look_at_tuning(true))
        die(server.set.tuning, strerror(errno));
    pierrot_put_text(say_to("tuning"), "player");
    if (pierrot_ask_wait(server.inbox, server.director, server.message, 5000, &in) != PIERROT_OK)
        die(server.set.tuning, "it cannot be used; the log says why");
    world_index(server.world);
    populate("wanderer", WORLD_WANDERER, server.set.wanderers);
    populate("guard", WORLD_GUARD, server.set.guards);
    while (server.starting > 0)
        serve();
}

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || end == text || n < least || n > most) {
        fprintf(stderr, "gameserver: %s: a number from %u to %u expected\n", text, least, most);
        exit(2);
    }
    return (uint32_t)n;
}

static const char usage[] =
    "gameserver: a world of actors, for clients by UDP (see bots.c)\n"
    "  --threads            actors on threads of their own; else in ticks, on this one\n"
    "  --workers N          so many threads (2)\n"
    "  --port N  --public   port (0: any) and whether others than this machine may come\n"
    "  --wanderers N --guards N   NPCs (3000, 100)\n"
    "  --rate N             ticks a second (30)\n"
    "  --budget US          for actors in each tick (20000)\n"
    "  --seconds S          then it ends (0: at SIGINT or SIGTERM)\n"
    "  --seed N             of the map (1)\n"
    "  --scripts DIR --tuning FILE   (scripts, tuning.lua); the file is read again when it changes, or at SIGHUP\n"
    "  --measure            handlers measure how long they take\n";

static void read_options(int argc, char **argv)
{
    enum { THREADS = 1, WORKERS, PORT, PUBLIC, WANDERERS, GUARDS, RATE, BUDGET, SECONDS, SEED, SCRIPTS, TUNING, MEASURE, HELP };
    static const struct option options[] = {
        {"threads", no_argument, NULL, THREADS}, {"workers", required_argument, NULL, WORKERS}, {"port", required_argument, NULL, PORT},
        {"public", no_argument, NULL, PUBLIC}, {"wanderers", required_argument, NULL, WANDERERS},
        {"guards", required_argument, NULL, GUARDS}, {"rate", required_argument, NULL, RATE}, {"budget", required_argument, NULL, BUDGET},
        {"seconds", required_argument, NULL, SECONDS}, {"seed", required_argument, NULL, SEED},
        {"scripts", required_argument, NULL, SCRIPTS}, {"tuning", required_argument, NULL, TUNING},
        {"measure", no_argument, NULL, MEASURE}, {"help", no_argument, NULL, HELP}, {NULL, 0, NULL, 0}};
    settings *s = &server.set;
    *s = (settings){.wanderers = 3000, .guards = 100, .rate = 30, .budget_us = 20000, .workers = 2, .seed = 1, .scripts = "scripts",
                    .tuning = "tuning.lua"};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case THREADS: s->threads = true; break;
        case WORKERS: s->workers = number(optarg, 1, 1024); break;
        case PORT: s->port = (uint16_t)number(optarg, 0, 65535); break;
        case PUBLIC: s->open_to_all = true; break;
        case WANDERERS: s->wanderers = number(optarg, 0, WORLD_MOST - CLIENTS_MOST); break;
        case GUARDS: s->guards = number(optarg, 0, WORLD_MOST - CLIENTS_MOST); break;
        case RATE: s->rate = number(optarg, 1, 1000); break;
        case BUDGET: s->budget_us = number(optarg, 0, 1000000); break;
        case SECONDS: s->seconds = number(optarg, 0, UINT32_MAX / 1000); break;
        case SEED: s->seed = number(optarg, 0, UINT32_MAX); break;
        case SCRIPTS: s->scripts = optarg; break;
        case TUNING: s->tuning = optarg; break;
        case MEASURE: s->measure = true; break;
        case HELP: fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
}

static void take_signals(void)   /* before there are threads, which would get them otherwise */
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    server.signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (server.signals < 0)
        die("signalfd", strerror(errno));
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    take_signals();
    if (!(server.world = world_new(server.set.seed)))
        die("world", "no memory");
    if (server.set.measure)
        world_measure(server.world);
    int port = clients_open(&server.clients, server.set.port, server.set.open_to_all);
    if (port < 0)
        die("socket", strerror(errno));
    start();
    world_longest_ns(server.world);
    say("listening on port %d: %u NPCs, %s", port, server.npcs, server.set.threads ? "threads" : "ticks");
    run();
    server.longest_handler_ns = world_longest_ns(server.world);

    roll_call();
    for (int i = 0; i < CLIENTS_MOST; i++)
        if (server.clients.all[i].entity != 0)
            clients_send(&server.clients, &server.clients.all[i].address, "bye the server ends");
    summary();
    pierrot_inbox_close(server.inbox);
    pierrot_message_free(server.message);
    pierrot_stop(server.rt);
    pierrot_status status = pierrot_join(server.rt, 5000);
    pierrot_free(server.rt);
    clients_close(&server.clients);
    close(server.signals);
    if (status == PIERROT_OK)
        world_free(server.world);   /* else somebody still looks at it */
    say("ended: %s", pierrot_status_text(status));
    return status == PIERROT_OK ? 0 : 1;
}
