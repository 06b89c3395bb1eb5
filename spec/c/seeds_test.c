/* The core's promises, by a thousand programs: each seed is a family of actors of its own, in tick mode with the clock that
 * jumps, on 1 to 8 workers. What its actors do (tell, spawn, order, time, watch, sleep, fail) is drawn from the seed too, so a
 * seed always does the same.
 *
 * What must hold, whatever they do:
 *   - one handler of an actor at a time, also while it sleeps; one life at a time, released once;
 *   - from one sender to one target in the order of sending;
 *   - an order to stop or kill overtakes all that is queued; nothing is handled after it, nor what its sender tells after a drain;
 *   - what was accepted is handled, a dead letter, or a cancelled timer's; a bystander (nobody orders it, it does not fail,
 *     its mailbox has no bound) handles all that was sent to it, in its one life: failures stay with whom they are;
 *   - a timer is never early, comes once, and not at all once it is cancelled or its setter's life is over; none is forgotten;
 *   - a life follows another one only for a cause, and no more of them than the limits allow; a monitor tells once.
 *
 * A seed that fails is named by the command that runs it alone, with its trace. PIERROT_HAMMER: that many times 4,000.
 *
 * Mutants caught: orders that are looked at after the user's messages; an order that comes within a turn and is not looked at;
 * a timer rounded down; one that is not cancelled at the end of a life; a limit with `<=`; an envelope lost at an actor's end; a
 * `stop` of a child that sleeps, forgotten when its group is restarted; a floating actor that is woken by its full box
 * while it waits for its parent's word. */
#include "harness.h"

#include "decision.h"
#include "embed/embed.h"

enum { MOST = 24, OUTSIDE = MOST, DATES = 400, WATCHES = 200, LIVES = 200, NOTE = 0x5eed };

/* --- the program */

typedef struct note {
    uint32_t mark, from, number, date;   /* date: of a timer, counted from 1 */
    uint64_t sent;                       /* when, by world.steps */
} note;

typedef struct body {
    uint32_t index, parent;              /* MOST: the root */
    uint64_t id;
    uint32_t number_to[MOST + 1];        /* given out, by target */
    uint32_t last_from[MOST + 1];
    uint64_t drained[MOST + 1];          /* by whom, when (world.steps); 0: not */
    pr_rules rules;
    uint8_t restart;
    bool bystander, floats, boxed;
    bool alive, inside, ordered;
    uint64_t wake_ms;
    uint64_t accepted, received;
    uint32_t lives, released, failures, orders, stops;
    uint64_t failed_ms[LIVES], ended_ms[LIVES + 1];   /* by failure; by life */
} body;

typedef struct date {
    pr_user_timer *timer;
    uint32_t setter, life, target, arrivals;
    uint64_t due_ms, period_ms;
    bool cancelled;
} date;

typedef struct watch {           /* outlives restarts on both sides */
    uint32_t watcher, watched, number, downs;
    bool cancelled;
} watch;

static struct world {
    uint64_t seed, random, steps, digest;
    pr_runtime *rt;
    body bodies[MOST + 1];               /* the last one: outside, which is no actor */
    uint32_t count;
    date dates[DATES];
    uint32_t date_count;
    watch watches[WATCHES];
    uint32_t watch_count;
    uint32_t left;                       /* actions */
    uint64_t failed;                     /* returned PR_FAILED */
    bool planted, says, ending;                /* ending: the shutdown has begun */
    char problem[300];                   /* the first one */
} world;

static void problem(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void problem(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!world.problem[0])
        vsnprintf(world.problem, sizeof world.problem, format, args);
    va_end(args);
}

static uint64_t dice(uint64_t n) { return below(&world.random, n); }
static uint64_t now_ms(void) { return pr_clock_ns(world.rt) / 1000000; }

/* What has happened: counted, shown where a seed is run alone, and part of what two runs of it must have in common. */
static void step(const body *b, const char *what, uint64_t with)
{
    world.steps++;
    for (const char *at = what; *at; at++)
        world.digest = (world.digest ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    world.digest = (world.digest ^ (b->index + with * 100 + now_ms() * 1000)) * UINT64_C(0x100000001b3);
    if (world.says)
        fprintf(stderr, "%8llu body %u %s %llu\n", (unsigned long long)world.steps, b->index, what, (unsigned long long)with);
}

static body *somebody(void) { return &world.bodies[dice(world.count)]; }
static bool may_be_ordered(const body *b) { return !b->bystander; }

/* --- what actors do */

static void tell_somebody(pr_worker *w, body *from, body *to, uint32_t date_number)
{
    note n = {NOTE, from->index, ++from->number_to[to->index], date_number, world.steps};
    if (world.planted && n.number == 4)
        from->number_to[to->index]--;   /* the fifth bears the number of the fourth */
    pr_status status = tell(world.rt, w, to->id, &n, sizeof n);
    to->accepted += status == PR_OK;
    step(from, "tells", to->index);
    if (to->bystander && status != PR_OK && !world.ending)
        problem("body %u refuses a message: status %d", to->index, status);
}

static void set_timer(pr_worker *w, body *from)
{
    if (world.date_count == DATES)
        return;
    bool again = dice(3) == 0;
    body *to = again ? from : somebody();   /* one that comes again is cancelled by whom it comes to */
    date *d = &world.dates[world.date_count];
    uint64_t delay = dice(50);
    note n = {NOTE, from->index, 0, world.date_count + 1, world.steps};
    pr_msg *m = letter(w, to->id, &n, sizeof n);
    *d = (date){.setter = from->index, .life = from->lives, .target = to->index, .due_ms = now_ms() + delay, .period_ms = again ? 1 + dice(20) : 0};
    if (!pr_actor_find(&world.rt->actors, to->id) || !m || !(d->timer = pr_user_timer_new(world.rt, w, m, delay, d->period_ms))) {
        if (m)
            pr_msg_free(&w->pool, m);
        return;
    }
    world.date_count++;
}

static void cancel_timer(pr_worker *w, body *by, date *d)
{
    if (d->setter == by->index && d->life == by->lives && pr_user_timer_cancel(world.rt, w, d->timer))
        d->cancelled = true;
}

static void watch_somebody(pr_worker *w, pr_actor *a, body *by)
{
    pr_extra *extra = world.watch_count < WATCHES ? pr_actor_extra(a) : NULL;
    if (!extra)
        return;
    watch *t = &world.watches[world.watch_count];
    body *whom = somebody();
    pr_end me = {world.rt, w, by->id, &extra->ties};
    *t = (watch){.watcher = by->index, .watched = whom->index};
    if (whom != by && pr_monitor(&me, whom->id, &t->number))
        world.watch_count++;
}

static void unwatch(pr_worker *w, pr_actor *a, body *by)
{
    pr_extra *extra = world.watch_count > 0 ? pr_actor_extra(a) : NULL;
    watch *t = extra ? &world.watches[dice(world.watch_count)] : NULL;
    if (t && t->watcher == by->index) {
        pr_end me = {world.rt, w, by->id, &extra->ties};
        if (pr_monitor_cancel(&me, t->number))
            t->cancelled = true;
    }
}

static void order_somebody(pr_worker *w, body *by, body *whom)
{
    static const uint8_t kinds[] = {PR_MSG_STOP, PR_MSG_KILL, PR_MSG_DRAIN};
    uint8_t kind = kinds[dice(3)];
    if (!may_be_ordered(whom) || order(world.rt, w, whom->id, kind) != PR_OK)
        return;
    whom->orders++;
    step(by, kind == PR_MSG_STOP ? "stops" : kind == PR_MSG_KILL ? "kills" : "drains", whom->index);
    if (whom->restart == PR_RESTART_PERMANENT)
        return;   /* a life may follow */
    if (kind == PR_MSG_DRAIN)
        whom->drained[by->index] = whom->drained[by->index] ? whom->drained[by->index] : world.steps;
    else
        whom->ordered = true;
}

static void spawn_one(pr_worker *w, body *by);

static void act(pr_worker *w, pr_actor *a, body *b)
{
    for (uint64_t n = dice(4); n > 0 && world.left > 0; n--) {
        world.left--;
        switch (dice(16)) {
        case 0: spawn_one(w, b); break;
        case 1: order_somebody(w, b, somebody()); break;
        case 2: case 3: if (!b->floats) set_timer(w, b); break;
        case 4: if (!b->floats && world.date_count > 0) cancel_timer(w, b, &world.dates[dice(world.date_count)]); break;
        case 5: if (!b->floats) watch_somebody(w, a, b); break;
        case 6: if (!b->floats) unwatch(w, a, b); break;
        default: tell_somebody(w, b, somebody(), 0);
        }
    }
}

static pr_outcome fails(pr_worker *w, body *b)
{
    w->failure = NULL;
    if (b->failures < LIVES)
        b->failed_ms[b->failures] = now_ms();
    b->failures++;
    world.failed++;
    step(b, "fails in life", b->lives);
    return PR_FAILED;
}

static pr_outcome begin(pr_worker *w, pr_actor *a)
{
    body *b = data_of(a);
    step(b, "begins life", b->lives + 1);
    if (b->alive || b->inside)
        problem("body %u begins a life within a life", b->index);
    b->alive = true;
    b->lives++;
    act(w, a, b);
    return !b->bystander && dice(12) == 0 ? fails(w, b) : PR_DONE;
}

static void take_down(body *b, const pr_msg *m)
{
    pierrot_cursor c;
    pierrot_ref whom, monitor;
    pierrot_value reason;
    pr_envelope_read(m, &c);
    if (!pierrot_read_text(&c, "down") || !pierrot_read_ref(&c, &whom) || !pierrot_next(&c, &reason) || !pierrot_read_ref(&c, &monitor)) {
        problem("body %u gets what nobody has sent", b->index);
        return;
    }
    for (uint32_t i = 0; i < world.watch_count; i++) {
        watch *t = &world.watches[i];
        if (t->watcher != b->index || t->number != pr_monitor_number(monitor.id))
            continue;
        if (t->cancelled || t->downs++ > 0 || world.bodies[t->watched].id != whom.id)
            problem("monitor %u of body %u tells when it should not", i, b->index);
        return;
    }
    problem("body %u is told of an end that it does not watch", b->index);
}

static void take_timed(pr_worker *w, body *b, date *d)
{
    if (d->cancelled)
        problem("timer %u arrives after it was cancelled", (unsigned)(d - world.dates));
    if (d->target != b->index)
        problem("timer %u arrives at body %u", (unsigned)(d - world.dates), b->index);
    const body *setter = &world.bodies[d->setter];
    uint64_t due_ms = d->due_ms + d->arrivals * d->period_ms;
    if ((setter->lives != d->life || !setter->alive) && d->life <= LIVES && setter->ended_ms[d->life] < due_ms)
        problem("timer %u outlives the life that has set it", (unsigned)(d - world.dates));
    if (now_ms() < due_ms)
        problem("timer %u is early: %llu, not %llu", (unsigned)(d - world.dates), (unsigned long long)now_ms(), (unsigned long long)due_ms);
    if (d->arrivals++ > 0 && d->period_ms == 0)
        problem("timer %u arrives again", (unsigned)(d - world.dates));
    if (d->period_ms && (d->arrivals >= 4 || world.left == 0))
        cancel_timer(w, b, d);
}

static pr_outcome take(pr_worker *w, pr_actor *a, pr_msg *m)
{
    body *b = data_of(a);
    note n;
    step(b, "takes a message of", m->sender);
    if (!b->alive || b->inside)
        problem("body %u takes a message %s", b->index, b->alive ? "inside another one's handler" : "without a life");
    if (b->ordered)
        problem("body %u takes a message after the order to end", b->index);
    if (m->size != sizeof n || m->count != 0) {
        take_down(b, m);
        return PR_DONE;
    }
    memcpy(&n, m->data, sizeof n);
    if (n.mark != NOTE)
        problem("body %u takes a message that is broken", b->index);
    if (b->drained[n.from] && n.sent > b->drained[n.from])
        problem("body %u takes what body %u has told after it had it drained", b->index, n.from);
    if (n.date > 0) {
        take_timed(w, b, &world.dates[n.date - 1]);
    } else {
        b->received++;
        if (n.number <= b->last_from[n.from])
            problem("body %u takes number %u of body %u after %u", b->index, n.number, n.from, b->last_from[n.from]);
        b->last_from[n.from] = n.number;
    }
    act(w, a, b);
    if (!b->floats && world.left > 0 && dice(10) == 0) {
        world.left--;
        uint64_t ms = dice(30);
        b->wake_ms = now_ms() + ms;
        if (pr_actor_wait(w, PR_WAIT_SLEEP, ms)) {
            b->inside = true;
            return PR_SUSPENDED;
        }
    }
    return !b->bystander && dice(14) == 0 ? fails(w, b) : PR_DONE;
}

static pr_outcome wake(pr_worker *w, pr_actor *a)
{
    body *b = data_of(a);
    step(b, "wakes in life", b->lives);
    if (!b->inside)
        problem("body %u wakes, and was not asleep", b->index);
    if (now_ms() < b->wake_ms)
        problem("body %u sleeps until %llu, and wakes at %llu", b->index, (unsigned long long)b->wake_ms, (unsigned long long)now_ms());
    b->inside = false;
    act(w, a, b);
    return !b->bystander && dice(8) == 0 ? fails(w, b) : PR_DONE;
}

static pr_outcome end(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    body *b = data_of(a);
    (void)reason;
    step(b, "stops in life", b->lives);
    if (!b->alive || b->inside || ++b->stops > b->lives)
        problem("body %u stops when it should not", b->index);
    if (b->bystander || dice(10) != 0)
        return PR_DONE;
    world.failed++;   /* it is over in any case: no life follows from this */
    w->failure = NULL;
    return PR_FAILED;
}

static void abandoned(pr_worker *w, pr_actor *a, void *suspended)
{
    body *b = data_of(a);
    (void)w, (void)suspended;
    if (!b->inside)
        problem("a handler of body %u is dropped, and there is none", b->index);
    b->inside = false;
}

static void released(pr_worker *w, pr_actor *a)
{
    body *b = data_of(a);
    (void)w;
    step(b, "is released after life", b->lives);
    if (b->inside)
        problem("body %u is released inside its handler", b->index);
    b->released += b->alive;
    if (b->alive && b->lives <= LIVES)
        b->ended_ms[b->lives] = now_ms();
    b->alive = false;
}

static const pr_rules *rules_of(pr_worker *w, pr_actor *a)
{
    (void)w;
    return &((body *)data_of(a))->rules;
}

static const pr_kin_ops kin = {.rules = rules_of};
static const pr_ops body_ops = {begin, take, wake, end, abandoned, released, NULL, &kin};

static void spawn_one(pr_worker *w, body *by)
{
    if (world.count == MOST)
        return;
    body *b = &world.bodies[world.count], **data = &b;
    *b = (body){.index = world.count, .parent = w && !by->floats ? by->index : MOST, .rules = pr_default_rules};
    b->bystander = !w && dice(3) == 0;
    b->floats = dice(5) == 0;
    b->restart = (uint8_t)dice(3);
    b->boxed = !b->bystander && dice(4) == 0;
    b->rules.strategy = (uint8_t)dice(3);
    b->rules.escalates = !b->bystander && dice(3) == 0;
    b->rules.in_turn = dice(2);
    b->rules.intensity = (uint32_t)dice(5);
    b->rules.period_ms = 1 + dice(100);
    if (dice(3) == 0)
        b->rules.min_ms = 1 + dice(10), b->rules.max_ms = 100, b->rules.factor = 2, b->rules.jitter = 0;
    pr_msg *args = pr_msg_new(w ? &w->pool : NULL, sizeof b);
    pr_spawn s = {.ops = &body_ops, .args = args, .restart = b->restart, .flags = b->floats ? PR_FLAG_FLOATS : 0,
                  .worker = b->floats ? 0 : (uint32_t)dice(world.rt->dispatchers[0].count + 1)};
    pr_box_spec box = {.capacity = 1 + (uint32_t)dice(5), .overflow = (uint8_t)(dice(2) ? PR_OVERFLOW_DROP_OLDEST : PR_OVERFLOW_REJECT)};
    memcpy(args->data, data, sizeof b);
    if (b->boxed)
        s.box = pr_box_new(world.rt, &box);
    pr_status status = pr_actor_spawn(world.rt, w, &s, &b->id);
    if (status == PR_OK) {
        world.count++;
        step(by, "spawns", b->index);
        return;
    }
    pr_msg_free(w ? &w->pool : NULL, args);
    if (b->boxed)
        pr_box_discard(world.rt, s.box);
    if (!world.ending)
        problem("a spawn is refused: status %d", status);
}

/* --- what must hold at the end of it */

/* What may have made a body end: its own failures and orders, and those below it. Parents are older than their children. */
static uint32_t troubles(const body *b)
{
    uint32_t n = b->failures + b->orders;
    for (uint32_t i = b->index + 1; i < world.count; i++)
        if (world.bodies[i].parent == b->index)
            n += troubles(&world.bodies[i]);
    return n;
}

/* What may have made it begin again: in a group, the others' too. */
static uint32_t causes(const body *b)
{
    uint32_t n = troubles(b);
    if (b->parent < MOST && world.bodies[b->parent].rules.strategy != PR_ONE_FOR_ONE)
        for (uint32_t i = 0; i < world.count; i++)
            if (i != b->index && world.bodies[i].parent == b->parent)
                n += troubles(&world.bodies[i]);
    return n;
}

static void check_lives(const body *b)
{
    if (b->alive || b->released != b->lives)
        problem("body %u has begun %u times and was released %u times", b->index, b->lives, b->released);
    if (b->lives > 1 + causes(b))
        problem("body %u lives %u times, for %u causes", b->index, b->lives, causes(b));
    if (b->bystander && b->lives > 1)
        problem("bystander %u has %u lives", b->index, b->lives);
    /* Restarts after its own failures alone: so many in a period as its parent's rules allow. */
    const body *parent = b->parent < MOST ? &world.bodies[b->parent] : NULL;
    const pr_rules *rules = parent ? &parent->rules : &pr_default_rules;
    if (rules->strategy != PR_ONE_FOR_ONE || b->orders > 0 || b->restart == PR_RESTART_PERMANENT || causes(b) != b->failures)
        return;
    for (uint32_t k = 0; k + rules->intensity + 1 < b->lives && k + rules->intensity < LIVES; k++)
        if (b->failed_ms[k + rules->intensity] - b->failed_ms[k] < rules->period_ms)
            problem("body %u is restarted %u times in %llu ms", b->index, rules->intensity + 1,
                    (unsigned long long)(b->failed_ms[k + rules->intensity] - b->failed_ms[k]));
}

/* While all is quiet, before the end: nothing is left that should have come. */
static void check_quiet(void)
{
    for (uint32_t i = 0; i < world.date_count; i++) {
        const date *d = &world.dates[i];
        const body *setter = &world.bodies[d->setter], *target = &world.bodies[d->target];
        if (d->cancelled || d->arrivals > 0 || setter->lives != d->life || !setter->alive)
            continue;
        if (target->boxed || !target->bystander)
            continue;   /* it may have gone, or been full */
        problem("timer %u has been forgotten", i);
    }
    for (uint32_t i = 0; i < world.watch_count; i++) {
        const watch *t = &world.watches[i];
        const body *watcher = &world.bodies[t->watcher];
        if (!t->cancelled && t->downs == 0 && !watcher->boxed && pr_actor_find(&world.rt->actors, watcher->id) && !pr_actor_find(&world.rt->actors, world.bodies[t->watched].id))
            problem("monitor %u of body %u has told nothing", i, watcher->index);
    }
    for (uint32_t i = 0; i < world.count; i++) {
        const body *b = &world.bodies[i];
        if (b->inside)
            problem("body %u sleeps for ever", i);
        if (b->bystander && (b->lives != 1 || b->received != b->accepted))
            problem("bystander %u has %u lives and took %llu of %llu messages", i, b->lives, (unsigned long long)b->received,
                    (unsigned long long)b->accepted);
    }
}

static void check_end(void)
{
    pr_counters c;
    uint64_t dead = 0, escalated = 0;
    pr_runtime_counters(world.rt, &c);
    for (int i = 0; i < PR_DEAD_REASONS; i++)
        dead += c.dead[i];
    if (c.sent != c.handled + dead + c.cancelled)
        problem("%llu sent, %llu handled, %llu dead, %llu cancelled", (unsigned long long)c.sent, (unsigned long long)c.handled,
                (unsigned long long)dead, (unsigned long long)c.cancelled);
    if (c.spawned != world.count || c.ended != world.count)
        problem("%u born, %llu counted, %llu ended", world.count, (unsigned long long)c.spawned, (unsigned long long)c.ended);
    for (uint32_t i = 0; i < world.count; i++) {
        check_lives(&world.bodies[i]);
        escalated |= world.bodies[i].rules.escalates;
    }
    if (c.failures < world.failed || (!escalated && c.failures != world.failed))
        problem("%llu failures, %llu counted", (unsigned long long)world.failed, (unsigned long long)c.failures);
}

/* --- a seed */

static void show(void *context, const char *line, size_t size)
{
    (void)context;
    fprintf(stderr, "%.*s\n", (int)size, line);
}

static void nothing(void *context, enum pr_log_level level, const char *text, size_t size)
{
    (void)context, (void)level, (void)text, (void)size;
}

/* Ticks of no time, which handle one message each: so many, or until nothing is left to do. False: there is more. */
static bool run_ticks(uint64_t most)
{
    int64_t next = 0;
    if (!pr_tick_take(world.rt->tick))
        abort();
    while (most-- > 0 && next != PR_TICK_FOREVER)
        next = pr_tick_run(world.rt, 0);
    pr_tick_give(world.rt->tick);
    return next == PR_TICK_FOREVER;
}

static void run_seed(uint64_t seed, bool planted, bool says)
{
    char error[256] = "";
    pr_config c;
    memset(&world, 0, sizeof world);
    world.seed = world.random = seed;
    world.planted = planted && seed % 10 == 3;
    world.says = says;
    world.left = 100 + (uint32_t)dice(300);
    pr_config_init(&c);
    c.ticks = c.seeded = true;
    c.tick_clock = PR_CLOCK_JUMPS;
    c.seed = seed;
    c.workers = 1 + (uint32_t)dice(8);
    c.throughput = 1 + (uint32_t)dice(32);
    c.dispatcher_count = 0;
    c.log_level = PR_LOG_NONE;
    c.log_sink = nothing;
    c.trace = says ? show : NULL;
    world.rt = pr_runtime_start(&c, error, sizeof error);
    if (!world.rt)
        fail_msg("cannot start: %s", error);
    body *outside = &world.bodies[OUTSIDE];
    *outside = (body){.index = OUTSIDE, .parent = MOST};
    for (uint64_t n = 2 + dice(6); n > 0; n--)
        spawn_one(NULL, outside);
    for (uint64_t round = 4 + dice(20); round > 0; round--) {
        for (uint64_t n = dice(8); n > 0; n--)
            tell_somebody(NULL, outside, somebody(), 0);
        if (dice(12) == 0)
            order_somebody(NULL, outside, somebody());
        run_ticks(dice(40));
    }
    bool early = dice(4) == 0;   /* the shutdown comes in the midst of it */
    if (!early && !run_ticks(100000))
        problem("it does not come to rest");
    else if (!early)
        check_quiet();
    for (uint32_t i = 0; i < world.count; i++)
        world.bodies[i].ordered = false;
    world.ending = true;
    pr_runtime_stop(world.rt, NULL);
    if (pr_runtime_join(world.rt, pr_now_ns() + UINT64_C(60000000000)) != PR_OK)
        fail_msg("seed %llu does not end", (unsigned long long)seed);
    check_end();
    for (uint32_t i = 0; i < world.date_count; i++)
        pr_user_timer_drop(world.rt, NULL, world.dates[i].timer);
    pr_runtime_free(world.rt);
}

static const char *program;

/* Runs a seed; false, and says how to repeat it, when it fails. */
static bool seed_holds(uint64_t seed, bool planted, bool says)
{
    run_seed(seed, planted, says);
    if (!world.problem[0])
        return true;
    fprintf(stderr, "# seed %llu: %s\n# to repeat it, with its trace: PIERROT_SEED=%llu %s%s\n", (unsigned long long)seed, world.problem,
            (unsigned long long)seed, planted ? "PIERROT_PLANTED=1 " : "", program);
    return false;
}

static bool planted_by_hand(void) { return getenv("PIERROT_PLANTED") != NULL; }

static void what_is_promised_holds_for_every_seed(void **state)
{
    (void)state;
    const char *one = getenv("PIERROT_SEED");
    uint64_t failed = 0, handled = 0, count = times(4000, 100), first = 1;
    if (one) {
        first = strtoull(one, NULL, 10);
        count = 1;
    }
    for (uint64_t seed = first; seed < first + count && failed < 5; seed++) {
        failed += !seed_holds(seed, planted_by_hand(), one != NULL);
        handled += world.steps;
    }
    assert_int_equal(failed, 0);
    assert_true(one || handled > 100 * count);
}

static void a_seed_does_the_same_each_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= times(60, 6); seed++) {
        run_seed(seed, false, false);
        uint64_t digest = world.digest, steps = world.steps;
        run_seed(seed, false, false);
        if (world.digest != digest || world.steps != steps)
            fail_msg("seed %llu goes another way the second time: %llu steps, %llu", (unsigned long long)seed, (unsigned long long)steps,
                     (unsigned long long)world.steps);
    }
}

/* With a bug in it (a sender that gives one number twice) seeds fail, and the command that is named shows the same again. */
static void a_failing_seed_is_named_by_its_command(void **state)
{
    (void)state;
    if (getenv("PIERROT_SEED"))   /* this is that command */
        skip();
    uint64_t seed = 3;
    while (run_seed(seed, true, false), !world.problem[0])
        if ((seed += 10) > 1000)
            fail_msg("no seed fails");
    char command[1000], line[400], expected[400];
    bool found = false;
    snprintf(command, sizeof command, "PIERROT_SEED=%llu PIERROT_PLANTED=1 '%s' 2>&1", (unsigned long long)seed, program);
    snprintf(expected, sizeof expected, "# seed %llu: %s\n", (unsigned long long)seed, world.problem);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        found |= strcmp(line, expected) == 0;
    assert_int_not_equal(pclose(pipe), 0);
    assert_true(found);
}

int main(int argc, char **argv)
{
    (void)argc;
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_promised_holds_for_every_seed),
        cmocka_unit_test(a_seed_does_the_same_each_time),
        cmocka_unit_test(a_failing_seed_is_named_by_its_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
