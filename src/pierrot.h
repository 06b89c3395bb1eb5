/* Pierrot: an actor runtime whose actors are written in Lua, or in C, for programs in C and C++.
 *
 *     #include <pierrot.h>
 *
 *     pierrot_config config;
 *     pierrot_config_init(&config, sizeof config);
 *     pierrot *rt;
 *     if (pierrot_start(&config, &rt, NULL) != PIERROT_OK) ...
 *     pierrot_ref actor;
 *     pierrot_spawn_file(rt, "counter.lua", NULL, NULL, &actor);
 *     pierrot_message *m = pierrot_message_new(rt);
 *     pierrot_put_text(m, "inc");
 *     pierrot_put_number(m, 5);
 *     pierrot_tell(rt, actor, m);
 *     pierrot_message_free(m);
 *     pierrot_stop(rt);
 *     pierrot_join(rt, 5000);
 *     pierrot_free(rt);
 *
 *     cc program.c $(pkg-config --cflags --libs pierrot)
 *
 * What holds for all of it, unless a function says otherwise:
 *
 * Runtimes. Any number of them may live in a process; they share nothing. There are no global variables, no signal
 * handlers; nothing is printed, and nothing ends the process. Refs, messages and inboxes belong to one runtime.
 * Threads. Every function may be called from any thread, from a handler too. Things that belong to one caller at a time
 * (a message, a cursor, an inbox) say so.
 * Waiting. No function waits for an actor, but those that say so.
 * Ownership. What you pass in stays yours and is copied: strings, messages, configurations, behaviours. What you get by a
 * function named _new, _open or _start is yours to give back by _free or _close. A pointer that you are shown belongs to
 * what it came from, and lives as long as that function says.
 * Errors. A pierrot_status, 0 for success. Misuse that can be seen (a NULL that may not be, a name of 300 bytes) is
 * PIERROT_INVALID, want of memory PIERROT_NOMEM; then nothing has happened.
 * Time. Spans are in milliseconds; PIERROT_FOREVER sets no limit.
 * Strings are bytes with a length, and may hold zeros. A `const char *` alone ends in a zero. */
#ifndef PIERROT_H
#define PIERROT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PIERROT_API __attribute__((visibility("default")))
#else
#define PIERROT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- version ------------------------------------------------------------------------------------------------------ */

#define PIERROT_VERSION_MAJOR 0
#define PIERROT_VERSION_MINOR 1
#define PIERROT_VERSION_PATCH 0
#define PIERROT_VERSION "0.1.0"

/* The version of the library that runs, where PIERROT_VERSION is that of the header it was compiled with. */
PIERROT_API const char *pierrot_version(void);

/* --- basics ------------------------------------------------------------------------------------------------------- */

typedef enum pierrot_status {
    PIERROT_OK,
    PIERROT_DEAD,        /* there is no such actor (any more) */
    PIERROT_STOPPING,    /* it, or the whole runtime, is ending and takes no more */
    PIERROT_EXISTS,      /* the name is taken */
    PIERROT_NOMEM,       /* no memory, or a limit on it is reached */
    PIERROT_TIMEOUT,
    PIERROT_BUSY,        /* another thread is in the midst of it */
    PIERROT_FAILED,      /* a handler has failed; a state could not be set up */
    PIERROT_FULL,        /* the actor's mailbox is full */
    PIERROT_INVALID,     /* misuse: an argument is not what it has to be */
    PIERROT_LIMIT,       /* a limit of the configuration is reached: actors, size of a message */
    PIERROT_SYSTEM,      /* the system gives no thread or file descriptor */
    PIERROT_NOTHING,     /* there is nothing there: an empty inbox; of a receive in C: it does not take that message */
    PIERROT_DEADLOCK     /* of an ask: the actors would wait for each other */
} pierrot_status;

/* The status in a few words; never NULL. */
PIERROT_API const char *pierrot_status_text(pierrot_status status);

/* What went wrong where a status says too little. The text ends in a zero. */
typedef struct pierrot_error {
    pierrot_status status;
    char text[500];
} pierrot_error;

#define PIERROT_FOREVER UINT64_MAX

/* A runtime. */
typedef struct pierrot pierrot;

/* An actor's address. A plain value: two refs to one actor are equal, and it stays valid across restarts. An id is never
 * given out twice, so an old ref means nobody else. id 0: nobody. */
typedef struct pierrot_ref {
    uint64_t id;
} pierrot_ref;

static inline bool pierrot_ref_equal(pierrot_ref a, pierrot_ref b) { return a.id == b.id; }
static inline bool pierrot_ref_is_none(pierrot_ref r) { return r.id == 0; }

typedef struct pierrot_message pierrot_message;
typedef struct pierrot_inbox pierrot_inbox;
typedef struct pierrot_timer pierrot_timer;
typedef struct pierrot_actor pierrot_actor;

/* Lua's, so that this header needs none of its own. */
struct lua_State;

/* --- configuration ------------------------------------------------------------------------------------------------ */

typedef enum pierrot_log_level {
    PIERROT_LOG_DEBUG,
    PIERROT_LOG_INFO,
    PIERROT_LOG_WARN,
    PIERROT_LOG_ERROR,
    PIERROT_LOG_NONE,
    PIERROT_LOG_PRINT    /* what scripts print; always let through */
} pierrot_log_level;

/* For log_buffer: there is none. */
#define PIERROT_LOG_DIRECT SIZE_MAX

typedef enum pierrot_mode {
    PIERROT_THREADS,     /* workers have threads of their own */
    PIERROT_TICK         /* there is no thread: pierrot_tick runs everything */
} pierrot_mode;

/* In tick mode: time as actors see it, pierrot.now and all timers included (os.time and os.clock are the system's). */
typedef enum pierrot_clock {
    PIERROT_CLOCK_REAL,
    PIERROT_CLOCK_JUMPS,     /* begins at one second; stands still while anything can be done, then is at the next timer */
    PIERROT_CLOCK_MANUAL     /* begins at one second, and moves by pierrot_advance alone */
} pierrot_clock;

/* The libraries that scripts may use. `package` (require), `coroutine` and the basic functions are always there. */
enum {
    PIERROT_LIB_TABLE = 1 << 0,
    PIERROT_LIB_STRING = 1 << 1,
    PIERROT_LIB_MATH = 1 << 2,
    PIERROT_LIB_BIT = 1 << 3,
    PIERROT_LIB_IO = 1 << 4,
    PIERROT_LIB_OS = 1 << 5,
    PIERROT_LIB_DEBUG = 1 << 6,
    PIERROT_LIB_JIT = 1 << 7,
    PIERROT_LIB_FFI = 1 << 8,
    PIERROT_LIB_BUFFER = 1 << 9,      /* string.buffer */
    PIERROT_LIB_BYTECODE = 1 << 10,   /* load of bytecode, string.dump */
    PIERROT_LIB_FILES = 1 << 11,      /* require, dofile, loadfile and spawn by module: from files, by path and cpath */
    PIERROT_LIB_ALL = (1 << 12) - 1,
    /* For scripts that are not trusted: what is left reaches neither files, processes nor memory, only what your own
     * modules give. A script can still use up time and memory: set limits. */
    PIERROT_LIB_SAFE = PIERROT_LIB_TABLE | PIERROT_LIB_STRING | PIERROT_LIB_MATH | PIERROT_LIB_BIT
};

/* A module that needs no file: `require "name"` finds it in every worker. */
typedef struct pierrot_preload {
    const char *name;                           /* NULL ends the list */
    const char *text;                           /* its source, of `size` bytes; or NULL, and `open` */
    size_t size;
    int (*open)(struct lua_State *L);           /* as luaopen_name */
} pierrot_preload;

/* Where a loader puts the text of a module. */
typedef struct pierrot_source pierrot_source;
/* Inside a find_module only. `text` is copied. `chunkname`: what tracebacks call it; NULL: the module's name. */
PIERROT_API pierrot_status pierrot_source_set(pierrot_source *source, const char *text, size_t size, const char *chunkname);

/* A failure of an actor, as the log has it. All of it is valid during the call only. */
typedef struct pierrot_failure {
    pierrot_ref actor;
    const char *behaviour;                      /* its behaviour's name */
    const char *during;                         /* "handler", "start", "stop", "child", "on_failure" */
    const char *text;                           /* of text_size bytes; "" when there was no memory for it */
    size_t text_size;
    const char *traceback;                      /* of traceback_size bytes; "" of an actor in C */
    size_t traceback_size;
} pierrot_failure;

/* A group of workers with threads of its own: for actors whose handlers block, so that they hold up nobody else. */
typedef struct pierrot_dispatcher {
    const char *name;                           /* 1 to 63 bytes, but "default"; NULL ends the list */
    uint32_t workers;                           /* threads, 1 to 1024; started when the first actor is spawned there */
    uint32_t throughput;                        /* 0: the configuration's */
} pierrot_dispatcher;

typedef struct pierrot_config {
    size_t size;             /* of this struct, as you compiled it: set by pierrot_config_init, leave it */
    void *context;           /* passed to every callback below; default NULL */

    pierrot_mode mode;       /* default PIERROT_THREADS */
    pierrot_clock clock;     /* of tick mode; default PIERROT_CLOCK_REAL */
    uint64_t seed;           /* of tick mode: not 0, it decides in which order workers go on, and steal. With a clock that is
                              * not the real one a run is then the same every time, as long as it is told the same. `pairs`
                              * goes in the order of the keys; what finalizers do, and os.clock, are not of that order.
                              * Default 0: workers go on in turn */
    /* Of tick mode: told of each turn when it is over, by a line without its end: the time in milliseconds, the worker, the actor,
     * and the worker's counts. Equal runs give equal lines. Default NULL. */
    void (*trace)(void *context, const char *line, size_t size);
    uint32_t workers;        /* threads that run actors; in tick mode what is run as if. Default: one for each core, at least 2 */
    uint32_t throughput;     /* messages of one actor before the next one's turn; default 32 */
    uint32_t spin;           /* how often an idle worker looks again before it sleeps; default 1024 */
    const pierrot_dispatcher *dispatchers;   /* beside "default", 30 at most; copied. NULL (default): "blocking", of 4 */
    double ask_timeout;      /* seconds that an ask in Lua waits, unless it says how long; default 5 */

    /* The log. NULL (default): nothing is logged. Called on a thread of the runtime's own, a record at a time, and no actor waits
     * for it: see log_buffer. Text is of `size` bytes, without a line's end. What scripts print comes here as whole lines, at
     * PIERROT_LOG_PRINT. Not from inside it: pierrot_join, pierrot_free. */
    void (*log)(void *context, pierrot_log_level level, const char *text, size_t size);
    pierrot_log_level log_level;   /* the least that is logged; default PIERROT_LOG_INFO */
    /* Told of each failure, on its worker, before anything follows from it. Default NULL. */
    void (*failure)(void *context, const pierrot_failure *failure);

    /* Where everything comes from. size 0: frees `block`, which may be NULL. block NULL: allocates, aligned to `alignment`, a
     * power of two of 16 or more. Both: resizes a block of alignment 16, as realloc does. NULL: there is no memory; what
     * was there stays. Called on any thread, several at once. Default: the process's malloc. LuaJIT's machine code and what
     * the system keeps for threads and locks are not ours to place. */
    void *(*allocate)(void *context, void *block, size_t size, size_t alignment);
    size_t memory_limit;         /* bytes of all that comes from there; 0 (default): none. Beyond it NOMEM, and failures */
    size_t worker_memory_limit;  /* bytes of each worker's Lua state; 0 (default): none. Beyond it the handler that asks for
                                  * more fails; until it does, it may be an eighth over */
    uint32_t actor_limit;        /* living actors; 0 (default): 16 million */
    uint32_t mailbox_limit;      /* messages in the mailbox of an actor that was spawned without a bound of its own; beyond it
                                  * they are refused, PIERROT_FULL. 0 (default): none */
    size_t message_limit;        /* bytes of a message's values, 1024 or more; 0 (default): 4 GB */
    /* Lua's instructions that a handler may run from one wait to the next (start, stop, on_failure, a module's loading too), some
     * hundreds more or less; 0 (default): any number. Beyond it the handler fails, whatever pcalls or coroutines it is in, and
     * the log names actor, behaviour, script and line; the others go on. Memory that it asks for counts, too: 64 bytes are an
     * instruction. What one call of a C function does is seen when it returns: that of your own modules, and string.find,
     * match, gmatch and gsub with a pattern that goes back and forth. Workers of such a runtime compile nothing, and count:
     * scripts take 5 to 50 times as long. So give what is trusted a runtime of its own. `libraries` must be without DEBUG,
     * JIT, FFI and BYTECODE: PIERROT_LIB_SAFE. */
    uint64_t instruction_limit;

    uint32_t libraries;          /* PIERROT_LIB_...; default PIERROT_LIB_ALL */
    const char *path, *cpath;    /* package.path and package.cpath; NULL (default): LuaJIT's own */
    const pierrot_preload *preload;  /* default NULL. The texts are copied, C modules have to stay loaded */
    /* Asked by `require` and spawn for what is not preloaded, before files are: puts the module's text into `source` and
     * returns PIERROT_OK, or PIERROT_NOTHING. On a worker. Default NULL. */
    pierrot_status (*find_module)(void *context, const char *name, pierrot_source *source);

    /* For each worker's new state, before any script: the place for modules of your own. `worker` counts from 1. On that
     * worker's thread, with Lua's stack as you leave it; an error raised there makes pierrot_start fail with its text. */
    void (*open_state)(void *context, struct lua_State *L, uint32_t worker);
    /* Before that state is closed, when no actor is left. Must not raise. */
    void (*close_state)(void *context, struct lua_State *L, uint32_t worker);

    /* The path of a Unix socket to listen at, with mode 0600, for `pierrot ctl`, `pierrot top` and `pierrot repl --attach`; of 1
     * to 107 bytes, copied. It takes a thread and two workers, and the Lua module cjson. Whoever may connect (the process's user,
     * and root) sees everything, whatever `libraries` says. Not in tick mode. Default NULL: none. */
    const char *control;
    bool control_readonly;       /* there, only look; default false */

    /* Bytes of records (256 or more; there are two such buffers, which grow as they are needed) that may wait for `log`. What comes
     * while they are full is dropped; a later record says how many, and log_dropped in pierrot_stats counts them. pierrot_join waits
     * until `log` has been given all there is, two seconds at most, pierrot_free for the call in hand; a process that ends without
     * either loses what waits. Default 0: 1 MB. PIERROT_LOG_DIRECT: `log` is called on whichever thread has something to say,
     * several at once: nothing is lost, and whoever logs waits for it, a worker with all its actors too. So it is in tick mode,
     * which has no threads: there on the thread that ticks or calls, and no other number is taken. */
    size_t log_buffer;
} pierrot_config;

/* Sets every field to its default: pierrot_config_init(&config, sizeof config). */
PIERROT_API void pierrot_config_init(pierrot_config *config, size_t size);

/* --- a runtime's life --------------------------------------------------------------------------------------------- */

/* Starts the workers, and waits until each has set up its Lua state. *rt is yours; NULL after an error, of which `error`
 * (which may be NULL) says more. PIERROT_INVALID, PIERROT_NOMEM, PIERROT_SYSTEM, PIERROT_FAILED (open_state). */
PIERROT_API pierrot_status pierrot_start(const pierrot_config *config, pierrot **rt, pierrot_error *error);

/* Asks every actor to end, the youngest first, and returns at once. From then on nothing is spawned. A second call
 * changes nothing. */
PIERROT_API void pierrot_stop(pierrot *rt);

/* Waits until the end that pierrot_stop has begun (it begins it, if need be) is reached and no worker is left. When
 * `timeout_ms` has passed, what has not stopped is told again, then killed, which takes half a second at most. PIERROT_TIMEOUT: a
 * handler has not returned even then; the log names it. Its worker goes on, and the runtime's memory stays: call join
 * again later. Not from a handler: PIERROT_INVALID. Calls of other threads go on meanwhile and afterwards, and are refused. */
PIERROT_API pierrot_status pierrot_join(pierrot *rt, uint64_t timeout_ms);

/* One more holder of `rt`: for each thread that may still use it when another one gives it up. Returns rt. */
PIERROT_API pierrot *pierrot_retain(pierrot *rt);
/* Gives it up; NULL is fine. The last holder stops and joins what still runs, giving every `stop` 5 seconds, and frees the
 * runtime. By then inboxes, messages and timers of it must have been given back; calls of other threads that
 * hold it are safe at any time: after the end they say PIERROT_STOPPING or PIERROT_DEAD. Not the last time from a
 * handler. Returns PIERROT_OK; PIERROT_TIMEOUT when a handler that does not return keeps the memory from being freed. */
PIERROT_API pierrot_status pierrot_free(pierrot *rt);

/* Waits until nothing is left that could happen by itself: no message queued, no handler under way, no timer. In tick mode it
 * ticks. */
PIERROT_API pierrot_status pierrot_wait_quiet(pierrot *rt, uint64_t timeout_ms);

/* --- tick mode ---------------------------------------------------------------------------------------------------- */

/* In tick mode all calls are as in threaded mode, and actors do the same things; but handlers run while a thread is inside
 * pierrot_tick, or another call that waits, and at no other time. Any thread may tick, one at a time. Its stack is
 * the handlers': Lua that recurses through C functions (string.gsub in string.gsub ...) may need 64 MB of it. */

/* Runs what is ready, until there is nothing or `budget_us` microseconds have passed; it goes over by one handler at
 * most, and handles one message at least. Returns in how many microseconds something happens by itself: 0: there is
 * more to do now; -1: nothing will until something is sent; -2: not in this mode, not from a handler, not while
 * another thread ticks. So, for poll or epoll_wait: `ms = us < 0 ? -1 : (us + 999) / 1000`. */
PIERROT_API int64_t pierrot_tick(pierrot *rt, uint64_t budget_us);
/* A descriptor that is readable when pierrot_tick has something to do: for epoll, libuv, SDL. It is the runtime's: do not read
 * or close it; each tick sets it anew. -1: not in this mode, or the system gives none. */
PIERROT_API int pierrot_fd(pierrot *rt);
/* Moves a clock that is PIERROT_CLOCK_MANUAL. Any thread but inside a tick: PIERROT_BUSY. PIERROT_INVALID: it is another clock. */
PIERROT_API pierrot_status pierrot_advance(pierrot *rt, uint64_t us);
/* Time as actors see it, in microseconds; in threaded mode that of CLOCK_MONOTONIC. */
PIERROT_API uint64_t pierrot_now_us(pierrot *rt);

/* --- a look inside ------------------------------------------------------------------------------------------------ */

/* A snapshot: counters go on while they are read. */
typedef struct pierrot_stats {
    size_t size;                      /* set by the caller: sizeof(pierrot_stats) */
    uint32_t workers;                 /* of the default dispatcher */
    uint64_t actors;                  /* living ones */
    uint64_t spawned, failures, restarts;
    uint64_t sent, handled, rejected, dead_letters, replies;
    uint64_t turns, steals, parks;
    uint64_t memory_bytes, memory_high_bytes;  /* all of the runtime's, now and at most */
    uint64_t lua_bytes;               /* what the Lua states hold, as of their last idle moment */
    uint64_t log_dropped;             /* records that log_buffer had no room for */
} pierrot_stats;
PIERROT_API void pierrot_get_stats(pierrot *rt, pierrot_stats *stats);

/* --- messages: writing -------------------------------------------------------------------------------------------- */

/* A message is a buffer for values. It stays yours: it may be sent any number of times, cleared and filled again. One
 * thread at a time. An error of a put is kept, and told by whoever is given the message: nothing is sent then. */
PIERROT_API pierrot_message *pierrot_message_new(pierrot *rt);   /* NULL: no memory */
PIERROT_API void pierrot_message_free(pierrot_message *m);       /* NULL is fine */
PIERROT_API void pierrot_message_clear(pierrot_message *m);      /* no values, no error */
/* PIERROT_OK, or the first error. PIERROT_INVALID: a map with a key that is nil, NaN, a table or there twice, an end without
 * a begin, a table that is not ended, tables more than 100 deep, more than 4000 values beside each other. */
PIERROT_API pierrot_status pierrot_message_status(const pierrot_message *m);

/* Each puts one more value: into the message, or into the table that has been begun last. Returns the message's status. */
PIERROT_API pierrot_status pierrot_put_nil(pierrot_message *m);
PIERROT_API pierrot_status pierrot_put_boolean(pierrot_message *m, bool value);
PIERROT_API pierrot_status pierrot_put_number(pierrot_message *m, double value);
PIERROT_API pierrot_status pierrot_put_integer(pierrot_message *m, int64_t value);   /* in Lua: an int64_t of the FFI */
PIERROT_API pierrot_status pierrot_put_unsigned(pierrot_message *m, uint64_t value); /* in Lua: a uint64_t of the FFI */
PIERROT_API pierrot_status pierrot_put_string(pierrot_message *m, const void *bytes, size_t size);
PIERROT_API pierrot_status pierrot_put_text(pierrot_message *m, const char *text);
PIERROT_API pierrot_status pierrot_put_ref(pierrot_message *m, pierrot_ref ref);     /* nil for nobody */
/* Begins a table whose values are those put until pierrot_put_end, numbered from 1. */
PIERROT_API pierrot_status pierrot_put_list(pierrot_message *m);
/* Begins a table of pairs: until pierrot_put_end, key and value in turn. A pair whose value is nil is left out by Lua. */
PIERROT_API pierrot_status pierrot_put_map(pierrot_message *m);
PIERROT_API pierrot_status pierrot_put_end(pierrot_message *m);
/* Puts the value that a cursor has given, a table with all that is in it. */
struct pierrot_value;
PIERROT_API pierrot_status pierrot_put_value(pierrot_message *m, const struct pierrot_value *value);

/* --- messages: reading -------------------------------------------------------------------------------------------- */

typedef enum pierrot_type {
    PIERROT_NIL,         /* also what stands for a shared value of Lua's (pierrot.share): C is sent a copy, by pierrot.thaw */
    PIERROT_BOOLEAN,
    PIERROT_NUMBER,
    PIERROT_INTEGER,     /* a 64-bit integer of the FFI */
    PIERROT_UNSIGNED,
    PIERROT_STRING,
    PIERROT_REF,         /* an actor's, or a monitor's number */
    PIERROT_TABLE
} pierrot_type;

/* A value points into what it was read from, and is valid as long as that. */
typedef struct pierrot_value {
    pierrot_type type;
    union {
        bool boolean;
        double number;
        int64_t integer;
        uint64_t unsigned_integer;
        pierrot_ref ref;
        struct {
            const char *bytes;       /* no zero behind them */
            size_t size;
        } string;                    /* of a table: private */
    } as;
} pierrot_value;

/* A place in a sequence of values: a message's, or a table's, where keys and values alternate. A plain value that may be
 * copied; nothing needs to be freed. All fields are private. */
typedef struct pierrot_cursor {
    const uint8_t *at, *end;
    uint32_t items, pairs, index;
    uint8_t form, in_pair, pending;
} pierrot_cursor;

/* Starts over at a message's first value. Valid until the message is changed or freed. */
PIERROT_API void pierrot_message_read(const pierrot_message *m, pierrot_cursor *c);

/* The next value; false at the end, and *value is nil then. Within a table: a key, then its value. */
PIERROT_API bool pierrot_next(pierrot_cursor *c, pierrot_value *value);
/* A cursor over what is in a table. False: it is none. */
PIERROT_API bool pierrot_enter(const pierrot_value *table, pierrot_cursor *c);
/* What a table has under a key; false, and nil, for nothing. Looks through it from the beginning. */
PIERROT_API bool pierrot_get(const pierrot_value *table, const char *key, pierrot_value *value);
PIERROT_API bool pierrot_get_index(const pierrot_value *table, double index, pierrot_value *value);

/* The next value, if it is of that type. False: it is not, or there is none; the cursor stays where it is. */
PIERROT_API bool pierrot_read_boolean(pierrot_cursor *c, bool *value);
PIERROT_API bool pierrot_read_number(pierrot_cursor *c, double *value);
/* Also takes the other kind of integer, and a whole number, that this type can hold. */
PIERROT_API bool pierrot_read_integer(pierrot_cursor *c, int64_t *value);
PIERROT_API bool pierrot_read_unsigned(pierrot_cursor *c, uint64_t *value);
PIERROT_API bool pierrot_read_string(pierrot_cursor *c, const char **bytes, size_t *size);
PIERROT_API bool pierrot_read_ref(pierrot_cursor *c, pierrot_ref *ref);
PIERROT_API bool pierrot_read_table(pierrot_cursor *c, pierrot_cursor *inner);
/* The next value, if it is this string. */
PIERROT_API bool pierrot_read_text(pierrot_cursor *c, const char *text);

/* --- spawning ----------------------------------------------------------------------------------------------------- */

typedef enum pierrot_restart {
    PIERROT_TRANSIENT,   /* after a failure */
    PIERROT_PERMANENT,   /* always */
    PIERROT_TEMPORARY    /* never */
} pierrot_restart;

typedef enum pierrot_overflow {
    PIERROT_REJECT,
    PIERROT_SUSPEND,     /* senders in Lua wait; from C, and in C, it is refused */
    PIERROT_DROP_NEWEST,
    PIERROT_DROP_OLDEST
} pierrot_overflow;

typedef struct pierrot_spawn_options {
    size_t size;                 /* set by pierrot_spawn_options_init */
    const char *name;            /* 1 to 255 bytes, unique in the runtime; default NULL: none */
    pierrot_restart restart;     /* default PIERROT_TRANSIENT */
    const char *dispatcher;      /* default NULL: "default" */
    uint32_t worker;             /* of that dispatcher, counted from 1; default 0: any */
    uint32_t mailbox;            /* its capacity; default 0: the configuration's mailbox_limit */
    pierrot_overflow overflow;   /* what happens beyond that; default PIERROT_REJECT */
    uint64_t shutdown_ms;        /* its time to stop in; default 5000; 0: killed at once */
    uint64_t timeslice_us;       /* of an actor in Lua: how long a handler may run before others have their turn, and it goes on
                                  * later; it is interpreted then. Default 0: until it is done or waits */
} pierrot_spawn_options;

PIERROT_API void pierrot_spawn_options_init(pierrot_spawn_options *options, size_t size);

/* Spawns an actor, a child of the runtime's root. `args` (may be NULL) are what its `start` is given; `options` may be NULL.
 * *ref is there at once, and messages wait until `start` is done: a script that cannot be read or compiled is a failure of
 * that `start`, which pierrot_await hears of. PIERROT_EXISTS: *ref is whoever has the name. PIERROT_STOPPING, PIERROT_LIMIT,
 * PIERROT_NOMEM, PIERROT_INVALID.
 *
 * A script runs as `start`; the behaviour that it returns (a function or a table) takes the messages. */
PIERROT_API pierrot_status pierrot_spawn_file(pierrot *rt, const char *path, const pierrot_message *args,
                                              const pierrot_spawn_options *options, pierrot_ref *ref);
/* `chunkname`: what tracebacks call it. Bytecode is refused unless the libraries have it. */
PIERROT_API pierrot_status pierrot_spawn_string(pierrot *rt, const char *code, size_t size, const char *chunkname,
                                                const pierrot_message *args, const pierrot_spawn_options *options,
                                                pierrot_ref *ref);
/* The behaviour that a module returns, or one that pierrot_define has given this name. */
PIERROT_API pierrot_status pierrot_spawn_module(pierrot *rt, const char *module, const pierrot_message *args,
                                                const pierrot_spawn_options *options, pierrot_ref *ref);

/* --- actors in C -------------------------------------------------------------------------------------------------- */

/* What an actor in C does. Its handlers run on a worker, one at a time; they must not wait for anything long, and never for
 * an actor. Each may be NULL. The cursors are valid during the call.
 *
 * They are supervised as actors in Lua are: what start or receive returns other than PIERROT_OK is a failure of this one
 * actor; its state is dropped, and its parent decides what follows. (PIERROT_NOTHING from receive: a dead letter, and no
 * failure.) What an ask is not answered by pierrot_actor_reply, or kept for later by pierrot_actor_defer, fails. */
typedef struct pierrot_behaviour {
    size_t size;                 /* set by pierrot_behaviour_init */
    const char *name;            /* what logs and failures call it; default "native" */
    void *context;               /* the same for all actors of this behaviour; has to outlive the runtime */
    size_t state_size;           /* bytes of the state that each life begins with, all zero */
    bool trap_exit;              /* the end of whom it is linked to is a message: "exit", ref, reason */
    pierrot_status (*start)(pierrot_actor *self, pierrot_cursor *args);
    pierrot_status (*receive)(pierrot_actor *self, pierrot_cursor *values);
    /* Once at the end of each life whose start succeeded. reason: one value. */
    void (*stop)(pierrot_actor *self, pierrot_cursor *reason);
    /* Drops what the state holds: once for each state that start was given, last, whatever became of it. */
    void (*release)(void *context, void *state);
} pierrot_behaviour;

PIERROT_API void pierrot_behaviour_init(pierrot_behaviour *behaviour, size_t size);

/* The behaviour is copied, its name too. */
PIERROT_API pierrot_status pierrot_spawn(pierrot *rt, const pierrot_behaviour *behaviour, const pierrot_message *args,
                                         const pierrot_spawn_options *options, pierrot_ref *ref);
/* From now on pierrot.spawn"name" in Lua, a supervisor's list included, means this. PIERROT_EXISTS: the name is taken. */
PIERROT_API pierrot_status pierrot_define(pierrot *rt, const char *name, const pierrot_behaviour *behaviour);

/* The functions below are for the handlers of that actor alone: `self` is valid during the call. */
PIERROT_API pierrot_ref pierrot_actor_ref(pierrot_actor *self);
PIERROT_API pierrot_ref pierrot_actor_parent(pierrot_actor *self);      /* nobody: the root */
PIERROT_API pierrot_ref pierrot_actor_sender(pierrot_actor *self);      /* of the message in hand; nobody: unknown */
PIERROT_API void *pierrot_actor_state(pierrot_actor *self);             /* aligned as malloc's; NULL for a size of 0 */
PIERROT_API void *pierrot_actor_context(pierrot_actor *self);           /* the behaviour's */
PIERROT_API pierrot *pierrot_actor_runtime(pierrot_actor *self);
/* An empty message of the worker's own, so that a handler need not make one. It stays valid until the next call of this. */
PIERROT_API pierrot_message *pierrot_actor_message(pierrot_actor *self);
/* As pierrot_tell, with this actor as the sender. */
PIERROT_API pierrot_status pierrot_actor_tell(pierrot_actor *self, pierrot_ref to, const pierrot_message *m);
/* Whether the message in hand is an ask that has not been answered. */
PIERROT_API bool pierrot_actor_is_asked(pierrot_actor *self);
/* Answers it. PIERROT_NOTHING: there is none to be answered. */
PIERROT_API pierrot_status pierrot_actor_reply(pierrot_actor *self, const pierrot_message *m);
/* Passes the message in hand on, sender and ask included. */
PIERROT_API pierrot_status pierrot_actor_forward(pierrot_actor *self, pierrot_ref to);
/* Keeps `text` as the reason of a failure, and returns PIERROT_FAILED: return pierrot_actor_fail(self, "no such row"); */
PIERROT_API pierrot_status pierrot_actor_fail(pierrot_actor *self, const char *text);
/* Ends this actor after the message in hand. */
PIERROT_API pierrot_status pierrot_actor_stop(pierrot_actor *self);
/* Spawns a child of this actor. */
PIERROT_API pierrot_status pierrot_actor_spawn(pierrot_actor *self, const pierrot_behaviour *behaviour,
                                               const pierrot_message *args, const pierrot_spawn_options *options,
                                               pierrot_ref *ref);
PIERROT_API pierrot_status pierrot_actor_spawn_module(pierrot_actor *self, const char *module, const pierrot_message *args,
                                                      const pierrot_spawn_options *options, pierrot_ref *ref);
/* As pierrot_send_after and pierrot_send_every; these timers end with this life of the actor. `timer` may be NULL. */
PIERROT_API pierrot_status pierrot_actor_send_after(pierrot_actor *self, uint64_t delay_ms, pierrot_ref to,
                                                    const pierrot_message *m, pierrot_timer **timer);
PIERROT_API pierrot_status pierrot_actor_send_every(pierrot_actor *self, uint64_t period_ms, pierrot_ref to,
                                                    const pierrot_message *m, pierrot_timer **timer);
/* Once, at the end of `ref`, the message "down", ref, reason, monitor arrives. `monitor` may be NULL. */
PIERROT_API pierrot_status pierrot_actor_monitor(pierrot_actor *self, pierrot_ref ref, pierrot_ref *monitor);
PIERROT_API pierrot_status pierrot_actor_demonitor(pierrot_actor *self, pierrot_ref monitor);
/* Whichever of the two ends for another reason than "normal" ends the other one. */
PIERROT_API pierrot_status pierrot_actor_link(pierrot_actor *self, pierrot_ref ref);
PIERROT_API pierrot_status pierrot_actor_unlink(pierrot_actor *self, pierrot_ref ref);

/* --- sending, from anywhere --------------------------------------------------------------------------------------- */

/* Sends the values of `m`. PIERROT_OK: it is in the mailbox, or will be. Messages of one thread to one actor arrive in the
 * order in which they were sent. Without a sender: pierrot.sender() is nil there. PIERROT_DEAD, PIERROT_STOPPING,
 * PIERROT_FULL, PIERROT_NOMEM, PIERROT_LIMIT, and the message's own status. */
PIERROT_API pierrot_status pierrot_tell(pierrot *rt, pierrot_ref to, const pierrot_message *m);

/* Stops an actor ahead of everything queued: at most the message in hand is finished. reason: a message of one value, or NULL for
 * "normal". */
PIERROT_API pierrot_status pierrot_stop_actor(pierrot *rt, pierrot_ref ref, const pierrot_message *reason);
/* The same after what is queued now. */
PIERROT_API pierrot_status pierrot_drain_actor(pierrot *rt, pierrot_ref ref, const pierrot_message *reason);
/* Ends it without its `stop`, and without waiting for a suspended handler. */
PIERROT_API pierrot_status pierrot_kill_actor(pierrot *rt, pierrot_ref ref);
PIERROT_API bool pierrot_is_alive(pierrot *rt, pierrot_ref ref);
/* Writes what people call it (behaviour, name, number) with a zero behind; returns the length, cut to what fits. */
PIERROT_API size_t pierrot_describe(pierrot *rt, pierrot_ref ref, char *buffer, size_t size);

/* A message that is sent once, after at least `delay_ms`, or at each period, until it is cancelled or its target has ended.
 * `timer` may be NULL; otherwise *timer is yours to free, which does not cancel it. PIERROT_DEAD: there is no such actor. */
PIERROT_API pierrot_status pierrot_send_after(pierrot *rt, uint64_t delay_ms, pierrot_ref to, const pierrot_message *m,
                                              pierrot_timer **timer);
PIERROT_API pierrot_status pierrot_send_every(pierrot *rt, uint64_t period_ms, pierrot_ref to, const pierrot_message *m,
                                              pierrot_timer **timer);
/* True: it was still pending, and nothing more of it arrives, even if it was already queued. */
PIERROT_API bool pierrot_timer_cancel(pierrot_timer *timer);
PIERROT_API void pierrot_timer_free(pierrot_timer *timer);   /* NULL is fine */

/* Names, 1 to 255 bytes. PIERROT_EXISTS: *holder (which may be NULL) has it already. A name is free again when its holder has
 * ended. */
PIERROT_API pierrot_status pierrot_register(pierrot *rt, const char *name, pierrot_ref ref, pierrot_ref *holder);
PIERROT_API pierrot_status pierrot_unregister(pierrot *rt, const char *name);   /* PIERROT_NOTHING: nobody had it */
PIERROT_API pierrot_ref pierrot_whereis(pierrot *rt, const char *name);         /* nobody: id 0 */

/* An ask that waits for its answer: who asks, and the ask's number. A plain value, good for one answer. */
typedef struct pierrot_request {
    pierrot_ref asker;
    uint32_t number;
} pierrot_request;

/* In a handler in C: takes over the answer of the ask in hand. PIERROT_NOTHING: there is none. */
PIERROT_API pierrot_status pierrot_actor_defer(pierrot_actor *self, pierrot_request *request);
/* Answers it, from any thread. An answer that comes too late, or a second one, is dropped. */
PIERROT_API pierrot_status pierrot_reply(pierrot *rt, pierrot_request request, const pierrot_message *m);
PIERROT_API pierrot_status pierrot_reply_error(pierrot *rt, pierrot_request request, const char *text);

/* --- inboxes: how the host is told and answered ------------------------------------------------------------------- */

/* An inbox has a ref like an actor: it can be told, watch others, ask and be answered. Any thread may send and ask by it;
 * what has come in is taken by one thread at a time: pierrot_inbox_poll, _wait and _ask_wait say PIERROT_BUSY to a second one. */
PIERROT_API pierrot_status pierrot_inbox_open(pierrot *rt, pierrot_inbox **inbox);
/* NULL is fine. What has not been taken becomes dead letters; asks under way are forgotten, without a callback. */
PIERROT_API void pierrot_inbox_close(pierrot_inbox *inbox);
PIERROT_API pierrot_ref pierrot_inbox_ref(pierrot_inbox *inbox);

typedef enum pierrot_kind {
    PIERROT_MESSAGE,     /* somebody has sent it; an ask when request.number is not 0 */
    PIERROT_REPLY,       /* the values that an ask was answered by */
    PIERROT_ERROR        /* an ask that got no answer: `status` says why */
} pierrot_kind;

/* What has come in. `values` and `text` are valid until the next poll of that inbox. */
typedef struct pierrot_incoming {
    pierrot_kind kind;
    pierrot_status status;       /* ERROR: TIMEOUT, DEAD, FULL, FAILED (the handler has failed), DEADLOCK; else OK */
    pierrot_ref sender;
    pierrot_request request;     /* MESSAGE: for pierrot_reply */
    uint32_t ask;                /* REPLY, ERROR: the number that pierrot_ask gave */
    const char *text;            /* ERROR: what happened, text_size bytes; else "" */
    size_t text_size;
    pierrot_cursor values;       /* MESSAGE, REPLY */
} pierrot_incoming;

/* The next thing that has come in, or PIERROT_NOTHING. An answer whose ask has a callback is given to that instead, here, on
 * the calling thread, which is how the host chooses it. */
PIERROT_API pierrot_status pierrot_inbox_poll(pierrot_inbox *inbox, pierrot_incoming *incoming);
/* Waits until there is something to poll: PIERROT_OK; PIERROT_TIMEOUT. In tick mode it ticks, unless another thread does. Not in
 * a handler. */
PIERROT_API pierrot_status pierrot_inbox_wait(pierrot_inbox *inbox, uint64_t timeout_ms);
/* A descriptor that is readable when there is something to poll: for epoll, libuv, SDL. It is the inbox's: do not read or
 * close it. Poll until PIERROT_NOTHING each time. -1: the system gives none. */
PIERROT_API int pierrot_inbox_fd(pierrot_inbox *inbox);

/* As pierrot_tell, with the inbox as the sender. */
PIERROT_API pierrot_status pierrot_inbox_tell(pierrot_inbox *inbox, pierrot_ref to, const pierrot_message *m);

/* Is told the answer of an ask, on the thread that polls. */
typedef void (*pierrot_answer)(void *context, const pierrot_incoming *answer);
/* Asks, and does not wait. Exactly one answer follows, an error if need be. With a callback it is given to that, else
 * it comes in under *number. `number` may be NULL, and so may `callback`. */
PIERROT_API pierrot_status pierrot_ask(pierrot_inbox *inbox, pierrot_ref to, const pierrot_message *m, uint64_t timeout_ms,
                                       pierrot_answer callback, void *context, uint32_t *number);
/* Asks and waits: the answer is in *incoming, whose status this returns when it is an error. What else comes in
 * stays for later; callbacks are not called meanwhile. In tick mode it ticks. Not in a handler: PIERROT_INVALID. */
PIERROT_API pierrot_status pierrot_ask_wait(pierrot_inbox *inbox, pierrot_ref to, const pierrot_message *m,
                                            uint64_t timeout_ms, pierrot_incoming *incoming);
/* Is answered, without values, once the actor's `start` has succeeded; with an error when it ends before. */
PIERROT_API pierrot_status pierrot_await(pierrot_inbox *inbox, pierrot_ref ref, uint64_t timeout_ms, pierrot_answer callback,
                                         void *context, uint32_t *number);

/* Once, at the end of `ref`, the message "down", ref, reason, monitor arrives. `monitor` may be NULL. */
PIERROT_API pierrot_status pierrot_monitor(pierrot_inbox *inbox, pierrot_ref ref, pierrot_ref *monitor);
PIERROT_API pierrot_status pierrot_demonitor(pierrot_inbox *inbox, pierrot_ref monitor);
/* The runtime's own events: "dead_letter", "failure", "restart", "overload", "slow_turn", "stopped"; each arrives as the message
 * "event", topic, details. */
PIERROT_API pierrot_status pierrot_subscribe(pierrot_inbox *inbox, const char *topic);
PIERROT_API pierrot_status pierrot_unsubscribe(pierrot_inbox *inbox, const char *topic);

/* --- modules of the host ------------------------------------------------------------------------------------------ */

/* For C functions that Lua calls, in a state that open_state was given. */
PIERROT_API void pierrot_push_ref(struct lua_State *L, pierrot_ref ref);            /* nil for nobody */
PIERROT_API bool pierrot_to_ref(struct lua_State *L, int index, pierrot_ref *ref);  /* false: it is no ref */

#ifdef __cplusplus
}
#endif

#endif
