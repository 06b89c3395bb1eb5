/* A runtime's life, as pierrot.h has it: configuration, start, the end, holders. */
#include "embed.h"

#include "../lua/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

const char *pierrot_version(void) { return PIERROT_VERSION; }

const char *pierrot_status_text(pierrot_status status)
{
    static const char *const texts[] = {
        "ok", "there is no such actor", "it is stopping", "the name is taken", "not enough memory", "the time is over",
        "another thread is in the midst of it", "it has failed", "the mailbox is full", "an argument is not what it has to be",
        "a limit is reached", "the system refuses", "nothing there", "the actors would wait for each other"};
    return (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

static pierrot_status fail(pierrot_error *error, pierrot_status status, const char *text)
{
    if (error) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", text && *text ? text : pierrot_status_text(status));
    }
    return status;
}

/* --- configuration */

static void defaults(pierrot_config *c)
{
    pr_config core;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    pr_config_init(&core);
    *c = (pierrot_config){.size = sizeof *c, .workers = cores > 2 ? (uint32_t)cores : 2, .throughput = core.throughput, .spin = core.spin,
                          .ask_timeout = core.ask_timeout, .log_level = PIERROT_LOG_INFO, .libraries = PIERROT_LIB_ALL};
}

void pierrot_config_init(pierrot_config *config, size_t size)
{
    pierrot_config all;
    defaults(&all);
    if (!config || size < sizeof config->size)
        return;
    memset(config, 0, size);
    memcpy(config, &all, size < sizeof all ? size : sizeof all);
    config->size = size;
}

void pierrot_spawn_options_init(pierrot_spawn_options *options, size_t size)
{
    pierrot_spawn_options all = {.size = sizeof all, .restart = PIERROT_TRANSIENT, .overflow = PIERROT_REJECT,
                                 .shutdown_ms = PR_SHUTDOWN_MS};
    if (!options || size < sizeof options->size)
        return;
    memset(options, 0, size);
    memcpy(options, &all, size < sizeof all ? size : sizeof all);
    options->size = size;
}

enum { MOST_WORKERS = 1024, LOG_MS = 2000 };

/* NULL: it is good. */
static const char *problem_of(const pierrot_config *c)
{
    if (c->workers < 1 || c->workers > MOST_WORKERS)
        return "workers: 1 to 1024 expected";
    if ((unsigned)c->mode > PIERROT_TICK || (unsigned)c->clock > PIERROT_CLOCK_MANUAL)
        return "mode, clock: there is no such thing";
    if (c->mode == PIERROT_THREADS && (c->clock != PIERROT_CLOCK_REAL || c->seed != 0))
        return "clock, seed: threads have none, only PIERROT_TICK";
    if (c->throughput < 1)
        return "throughput: 1 or more expected";
    if (!(c->ask_timeout >= 0))
        return "ask_timeout: 0 seconds or more expected";
    if ((unsigned)c->log_level > PIERROT_LOG_NONE)
        return "log_level: there is no such level";
    if (c->libraries & ~(uint32_t)PIERROT_LIB_ALL)
        return "libraries: there is no such library";
    if (c->message_limit != 0 && c->message_limit < 1024)
        return "message_limit: 1024 bytes or more expected";
    if (c->instruction_limit && c->libraries & (PIERROT_LIB_DEBUG | PIERROT_LIB_JIT | PIERROT_LIB_FFI | PIERROT_LIB_BYTECODE))
        return "instruction_limit: with debug, jit, ffi or bytecode a script could undo it; leave these out of `libraries`";
    if (c->log_buffer && c->log_buffer != PIERROT_LOG_DIRECT && c->mode == PIERROT_TICK)
        return "log_buffer: in tick mode there is no thread that could empty it";
    if (c->log_buffer && c->log_buffer < 256)
        return "log_buffer: 256 bytes or more expected";
    if (c->control && c->mode == PIERROT_TICK)
        return "control: in tick mode there is no thread that could answer";
    uint32_t dispatchers = 1;
    for (const pierrot_dispatcher *d = c->dispatchers; d && d->name; d++)
        if (++dispatchers > 31)
            return "dispatchers: at most 30 expected";
    for (const pierrot_preload *m = c->preload; m && m->name; m++)
        if (!m->text && !m->open)
            return "preload: a module has neither a text nor a function";
    return NULL;
}

static bool copy_text(const char **text)
{
    if (!*text)
        return true;
    size_t size = strlen(*text) + 1;
    char *copy = pr_alloc(size);
    if (copy)
        memcpy(copy, *text, size);
    *text = copy;
    return copy != NULL;
}

/* One block: the list, then names and texts. */
static bool copy_preload(pierrot_config *c)
{
    size_t count = 1, bytes = 0;
    if (!c->preload)
        return true;
    for (const pierrot_preload *m = c->preload; m->name; m++, count++)
        bytes += strlen(m->name) + 1 + (m->text ? m->size : 0);
    pierrot_preload *list = pr_alloc(count * sizeof *list + bytes);
    const pierrot_preload *from = c->preload;
    c->preload = list;
    if (!list)
        return false;
    char *at = (char *)(list + count);
    for (; from->name; from++, list++) {
        size_t len = strlen(from->name) + 1;
        *list = *from;
        list->name = memcpy(at, from->name, len);
        at += len;
        if (from->text) {
            list->text = memcpy(at, from->text, from->size);
            at += from->size;
        }
    }
    memset(list, 0, sizeof *list);
    return true;
}

/* p->config as a copy of its own. False: no memory; what has been copied is there. */
static bool copy_config(pierrot_config *to, const pierrot_config *from)
{
    const char *path = from->path, *cpath = from->cpath;
    *to = *from;
    to->path = to->cpath = NULL;
    bool copied = copy_preload(to);
    copied = copy_text(&path) && copied;
    to->path = path == from->path ? NULL : path;
    copied = copy_text(&cpath) && copied;
    to->cpath = cpath == from->cpath ? NULL : cpath;
    return copied;
}

/* --- callbacks of the core */

static void log_sink(void *context, enum pr_log_level level, const char *text, size_t len)
{
    const pierrot *p = context;
    if (p->config.log)
        p->config.log(p->config.context, (pierrot_log_level)level, text, len);
}

static void trace(void *context, const char *line, size_t size)
{
    const pierrot *p = context;
    p->config.trace(p->config.context, line, size);
}

static void failed(pr_worker *w, pr_actor *a, const pr_msg *failure, const char *during)
{
    const pierrot *p = w->rt->config.host;
    char name[256];
    pierrot_failure f = {.actor = {PR_GET(a->id)}, .behaviour = name, .during = during, .text = "", .traceback = ""};
    pr_actor_behaviour_name(w->rt, f.actor.id, name, sizeof name);
    pierrot_cursor c;
    pierrot_value kind;
    if (failure) {   /* see PR_MSG_ERROR */
        pr_envelope_read(failure, &c);
        pierrot_next(&c, &kind);
        pierrot_read_string(&c, &f.text, &f.text_size);
        pierrot_read_string(&c, &f.traceback, &f.traceback_size);
    }
    p->config.failure(p->config.context, &f);
}

/* --- start */

static void destroy(pierrot *p)
{
    pr_memory *before = pr_enter(p);
    while (p->definitions) {
        pr_definition *d = p->definitions;
        p->definitions = d->next;
        pr_behaviour_drop(&p->rt->behaviours, d->behaviour);
        pr_free(d);
    }
    for (uint32_t i = 0; p->scratch && i < p->rt->worker_count; i++)
        pierrot_message_free(p->scratch[i]);
    pr_free(p->scratch);
    if (p->rt) {
        pr_lua_control_close(p->rt, true);
        if (p->log)
            pr_log_writer_serve(p->log, NULL);
        pr_runtime_free(p->rt);
    }
    if (p->log)
        pr_log_writer_close(p->log);
    pr_free((void *)(uintptr_t)p->config.preload);
    pr_free((char *)(uintptr_t)p->config.path);
    pr_free((char *)(uintptr_t)p->config.cpath);
    pr_leave(before);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->definitions_lock);
    pr_memory memory = p->memory;
    memory.reallocate(memory.context, p, 0, 0);
}

static pierrot *make(const pierrot_config *c)
{
    void *(*allocate)(void *, void *, size_t, size_t) = c->allocate ? c->allocate : pr_memory_plain;
    pierrot *p = allocate(c->context, NULL, sizeof *p, 64);
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->memory.reallocate = allocate;
    p->memory.context = c->context;
    p->memory.limit = c->memory_limit;
    atomic_store_explicit(&p->memory.used, sizeof *p, memory_order_relaxed);
    atomic_store_explicit(&p->holders, 1, memory_order_relaxed);
    if (pthread_mutex_init(&p->lock, NULL) != 0 || pthread_mutex_init(&p->definitions_lock, NULL) != 0) {
        allocate(c->context, p, 0, 0);
        return NULL;
    }
    pr_memory *before = pr_enter(p);
    bool complete = copy_config(&p->config, c);
    pr_leave(before);
    if (complete)
        return p;
    destroy(p);
    return NULL;
}

static void configure(pierrot *p, pr_config *c)
{
    pr_config_init(c);
    c->workers = p->config.workers;
    c->throughput = p->config.throughput;
    if (p->config.dispatchers)
        c->dispatcher_count = 0;
    for (const pierrot_dispatcher *d = p->config.dispatchers; d && d->name; d++)
        c->dispatchers[c->dispatcher_count++] = (pr_dispatcher_config){.name = d->name, .workers = d->workers, .throughput = d->throughput};
    if (p->config.control)
        c->dispatchers[c->dispatcher_count++] = (pr_dispatcher_config){.name = "prompts", .workers = 2, .interpreted = true};
    c->spin = p->config.spin;
    c->ask_timeout = p->config.ask_timeout;
    c->ticks = p->config.mode == PIERROT_TICK;
    c->tick_clock = (uint8_t)p->config.clock;
    c->seeded = c->ticks && p->config.seed != 0;
    c->seed = p->config.seed;
    c->trace = p->config.trace ? trace : NULL;
    c->trace_context = p;
    c->log_level = p->config.log ? (enum pr_log_level)p->config.log_level : PR_LOG_NONE;
    c->log_sink = p->log ? pr_log_writer_take : log_sink;
    c->log_context = p->log ? (void *)p->log : p;
    c->memory = &p->memory;
    c->host = p;
    c->failed = p->config.failure ? failed : NULL;
    c->native = pr_native_named;
    c->native_ops = &pr_native_ops;
    c->actor_limit = p->config.actor_limit;
    c->mailbox_limit = p->config.mailbox_limit;
    c->message_limit = p->config.message_limit;
    if (getrandom(c->secret, sizeof c->secret, 0) != (ssize_t)sizeof c->secret)
        c->secret[0] = pr_now_ns(), c->secret[1] = (uintptr_t)p;   /* before Linux 3.17 */
    pr_lua_configure(c, &p->config);
}

pierrot_status pierrot_start(const pierrot_config *config, pierrot **out, pierrot_error *error)
{
    if (out)
        *out = NULL;
    if (!out || !config || config->size < sizeof config->size)
        return fail(error, PIERROT_INVALID, "pierrot_start: a configuration from pierrot_config_init, and a place for the runtime, expected");
    pierrot_config all;
    defaults(&all);   /* for fields that the caller's header does not have */
    memcpy(&all, config, config->size < sizeof all ? config->size : sizeof all);
    all.size = sizeof all;
    const char *problem = problem_of(&all);
    if (problem)
        return fail(error, PIERROT_INVALID, problem);
    pierrot *p = make(&all);
    if (!p)
        return fail(error, PIERROT_NOMEM, NULL);
    pr_config core;
    pr_memory *before = pr_enter(p);
    char text[512] = "";
    pr_status why = PR_NOMEM;
    pr_log_target log = {.call = log_sink, .context = p, .buffer = all.log_buffer};
    bool direct = !all.log || all.mode == PIERROT_TICK || all.log_buffer == PIERROT_LOG_DIRECT;
    bool logs = direct || (p->log = pr_log_writer_open(&log, text, sizeof text));
    configure(p, &core);
    p->rt = logs ? pr_runtime_start_why(&core, text, sizeof text, &why) : NULL;
    if (p->rt && p->log)
        pr_log_writer_serve(p->log, p->rt);
    for (int i = 0; p->rt && i < PR_LANES; i++)
        p->lanes[i].pool.depot = &p->rt->depot;
    p->config.dispatchers = NULL;   /* the core has what it needs of it */
    bool controlled = !p->rt || !p->config.control ||
                      pr_lua_control_start(p->rt, p->config.control, p->config.control_readonly, text, sizeof text);
    p->config.control = NULL;   /* the socket has a copy */
    if (!controlled)
        why = PR_FAILURE;
    if (p->rt && (!controlled || !(p->scratch = pr_zalloc(p->rt->worker_count * sizeof(pierrot_message *))))) {
        if (controlled)
            why = PR_NOMEM;
        pr_runtime_stop(p->rt, NULL);
        pr_runtime_join(p->rt, UINT64_MAX);
    }
    pr_leave(before);
    if (p->scratch) {
        *out = p;
        return PIERROT_OK;
    }
    destroy(p);
    return fail(error, why == PR_NOMEM ? PIERROT_NOMEM : why == PR_INVALID ? PIERROT_INVALID : why == PR_BUSY ? PIERROT_SYSTEM : PIERROT_FAILED, text);
}

/* --- the end */

static uint64_t until_ns(uint64_t timeout_ms)   /* real time: an end has to come */
{
    return timeout_ms >= UINT64_MAX / 2000000 ? UINT64_MAX : pr_now_ns() + timeout_ms * 1000000;
}

void pierrot_stop(pierrot *p)
{
    if (!p)
        return;
    pr_memory *before = pr_enter(p);
    pr_runtime_stop(p->rt, NULL);
    pr_leave(before);
}

pierrot_status pierrot_join(pierrot *p, uint64_t timeout_ms)
{
    if (!p)
        return PIERROT_INVALID;
    if (pthread_mutex_trylock(&p->lock) != 0)
        return PIERROT_BUSY;
    pierrot_status status = PIERROT_OK;
    pr_tick *t = p->rt->tick;
    if (!p->joined && pr_in_a_handler(p)) {
        status = PIERROT_INVALID;
    } else if (!p->joined && t && !pr_tick_take(t)) {
        status = PIERROT_BUSY;
    } else if (!p->joined) {
        pr_memory *before = pr_enter(p);
        pr_runtime_stop(p->rt, NULL);
        p->joined = pr_runtime_join(p->rt, until_ns(timeout_ms)) == PR_OK;
        pr_lua_control_close(p->rt, p->joined);
        if (p->log && p->joined)
            pr_log_writer_flush(p->log, LOG_MS);
        atomic_store_explicit(&p->ended, p->joined, memory_order_relaxed);   /* read while `busy` is held */
        pr_leave(before);
        if (t)
            pr_tick_give(t);
        status = p->joined ? PIERROT_OK : PIERROT_TIMEOUT;
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* --- tick mode */

/* Nanoseconds; PR_TICK_FOREVER; -2: another thread ticks. */
static int64_t tick(pierrot *p, uint64_t budget_ns)
{
    pr_tick *t = p->rt->tick;
    if (!pr_tick_take(t))
        return -2;
    int64_t next = PR_TICK_FOREVER;
    if (!atomic_load_explicit(&p->ended, memory_order_relaxed)) {
        pr_memory *before = pr_enter(p);
        next = pr_tick_run(p->rt, budget_ns);
        pr_leave(before);
    }
    pr_tick_give(t);
    return next;
}

int64_t pierrot_tick(pierrot *p, uint64_t budget_us)
{
    if (!p || !p->rt->tick || pr_in_a_handler(p))
        return -2;
    int64_t next = tick(p, budget_us < UINT64_MAX / 1000 ? budget_us * 1000 : UINT64_MAX);
    return next <= 0 ? next : next / 1000 + (next % 1000 != 0);
}

int pierrot_fd(pierrot *p)
{
    if (!p || !p->rt->tick || (!pr_in_a_handler(p) && !pr_tick_take(p->rt->tick)))
        return p && p->rt->tick ? p->rt->tick->fd : -1;
    int fd = pr_tick_fd(p->rt);
    if (!pr_in_a_handler(p))
        pr_tick_give(p->rt->tick);
    return fd;
}

pierrot_status pierrot_advance(pierrot *p, uint64_t us)
{
    if (!p || !p->rt->tick || p->config.clock != PIERROT_CLOCK_MANUAL || us > UINT64_MAX / 1000)
        return PIERROT_INVALID;
    if (!pr_tick_take(p->rt->tick))
        return PIERROT_BUSY;
    pr_tick_advance(p->rt, us * 1000);
    pr_tick_give(p->rt->tick);
    return PIERROT_OK;
}

uint64_t pierrot_now_us(pierrot *p) { return p ? pr_clock_ns(p->rt) / 1000 : 0; }

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {0, ns < 1000000 ? (long)ns : 1000000};   /* at most: others may send meanwhile */
    nanosleep(&t, NULL);
}

static pierrot_status tick_until_quiet(pierrot *p, uint64_t until)
{
    for (;;) {
        int64_t next = tick(p, 10000000);
        if (next == PR_TICK_FOREVER || (next > 0 && p->config.clock == PIERROT_CLOCK_MANUAL))
            return PIERROT_OK;
        if (pr_now_ns() >= until)
            return PIERROT_TIMEOUT;
        if (next != 0)
            sleep_ns(next > 0 ? (uint64_t)next : 100000);
    }
}

void pr_host_wait(pierrot *p, pr_port *port, uint64_t until)
{
    if (!p->rt->tick) {
        pr_port_wait(port, until);
        return;
    }
    int64_t next = tick(p, 1000000);
    if (next == 0 || !pr_stack_empty(&port->actor->mailbox))
        return;
    /* Nothing is left that could answer: a clock that jumps is at the time limit now. */
    if (p->config.clock == PIERROT_CLOCK_JUMPS && next == PR_TICK_FOREVER && until != UINT64_MAX && pr_tick_take(p->rt->tick)) {
        if (until > pr_clock_ns(p->rt))
            pr_tick_advance(p->rt, until - pr_clock_ns(p->rt));
        pr_tick_give(p->rt->tick);
        return;
    }
    sleep_ns(next > 0 ? (uint64_t)next : 100000);
}

pierrot_status pierrot_wait_quiet(pierrot *p, uint64_t timeout_ms)
{
    if (!p || pr_in_a_handler(p))
        return PIERROT_INVALID;
    if (p->rt->tick)
        return tick_until_quiet(p, until_ns(timeout_ms));
    return pr_runtime_wait_quiet_until(p->rt, until_ns(timeout_ms)) ? PIERROT_OK : PIERROT_TIMEOUT;
}

pierrot *pierrot_retain(pierrot *p)
{
    if (p)
        atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
    return p;
}

pierrot_status pierrot_free(pierrot *p)
{
    /* acq_rel: what the other holders have done is done before it is destroyed */
    if (!p || atomic_fetch_sub_explicit(&p->holders, 1, memory_order_acq_rel) != 1)
        return PIERROT_OK;
    pierrot_status status;
    while ((status = pierrot_join(p, PR_SHUTDOWN_MS)) == PIERROT_BUSY)
        ;   /* cannot be: nobody else holds it */
    if (status != PIERROT_OK) {   /* threads are still inside: what they stand on stays, and so does a holder */
        atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
        return status;
    }
    destroy(p);
    return PIERROT_OK;
}

void pierrot_get_stats(pierrot *p, pierrot_stats *stats)
{
    if (!p || !stats || stats->size < sizeof stats->size)
        return;
    pr_counters c;
    pr_runtime_counters(p->rt, &c);
    pierrot_stats all = {
        .size = stats->size, .workers = p->rt->dispatchers[PR_DISPATCHER_DEFAULT].count, .actors = PR_GET(c.spawned) - PR_GET(c.ended),
        .spawned = PR_GET(c.spawned), .failures = PR_GET(c.failures), .restarts = PR_GET(c.restarts), .sent = PR_GET(c.sent),
        .handled = PR_GET(c.handled), .rejected = PR_GET(c.rejected), .replies = PR_GET(c.replies), .turns = PR_GET(c.turns),
        .steals = PR_GET(c.steals), .parks = PR_GET(c.parks), .memory_bytes = PR_GET(p->memory.used),
        .memory_high_bytes = PR_GET(p->memory.high), .log_dropped = PR_GET(p->rt->log.dropped)};
    for (int i = 0; i < PR_DEAD_REASONS; i++)
        all.dead_letters += PR_GET(c.dead[i]);
    for (uint32_t i = 0; i < p->rt->worker_count; i++)
        all.lua_bytes += PR_GET(p->rt->workers[i].lua_bytes);
    memcpy(stats, &all, stats->size < sizeof all ? stats->size : sizeof all);
}
