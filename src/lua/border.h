/* The border between the core and Lua: what each lua_State that takes part knows, and the vocabulary of
 * the files here. Only files in this folder include lua.h.
 *
 * A state is either a worker's (inside: x->w is set) or a plain program's (outside: x->port is set while a
 * runtime runs). One thread uses a state.
 *
 * Errors: a Lua error unwinds C frames, so no function here holds memory of the core across a call that may
 * raise. What runs at a worker's base level, outside any Lua call, must not raise at all: everything there
 * that allocates goes through pr_lua_protect. */
#ifndef PR_LUA_BORDER_H
#define PR_LUA_BORDER_H

#include "../control.h"
#include "../decision.h"
#include "../explore.h"
#include "../log_writer.h"
#include "../port.h"
#include "../runtime.h"
#include "../terminal.h"
#include "../worker.h"

#include "dispatch.h"
#include "heap.h"
#include "shapes.h"

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>

#include <stdarg.h>

/* LuaJIT has these and PUC Lua has not: weak, so that the module loads there and can say what it needs. */
#pragma weak luaL_traceback
#pragma weak lua_isyieldable
#pragma weak luaJIT_setmode
#pragma weak luaL_loadbufferx

/* A coroutine that runs handlers, one after the other; a handler that suspends keeps it. */
typedef struct pr_co {
    lua_State *L;
    int anchor;              /* registry reference */
    struct pr_co *next;      /* free list */
} pr_co;

/* A handler of `on`, found by name without making a Lua string. */
typedef struct pr_named {
    const char *name;        /* the Lua string's own bytes: it is a key of the anchored `on` table; NULL: free place */
    uint64_t head, tail;     /* of what a message with that name begins with: see ends_of */
    uint32_t handler;
} pr_named;

/* A behaviour as loaded into this state. Functions are handles into `kept`, 0 for what it lacks. */
typedef struct pr_loaded {
    uint32_t generation;     /* of the pr_behaviour it is; 0: nothing here */
    uint32_t start, receive, stop, table, upgrade;
    pr_behaviour *successor; /* a newer version that is loaded here and that its actors take at their next message, or NULL; a
                                reference is held */
    bool trap_exit;
    bool interpreted;        /* its functions are not compiled: see slice.c */
    uint32_t on_failure;
    uint32_t lives;          /* that began in the dispatch loop */
    uint32_t maker;          /* of their selves; 0: an empty table. See dispatch.lua */
    bool patterned;          /* one of its selves has been looked at for that */
    struct pr_rules *rules;  /* of `supervise`; NULL: it has none */
    uint32_t names_mask;     /* size - 1 of `names`, open addressing */
    pr_named *names;
    const pr_named *last;    /* found last; for reports */
} pr_loaded;

/* What `become` was given lately: see become.c. */
enum { PR_LUA_BECOMES = 32 };
struct pr_lua_become {
    const void *identity;    /* of a table or function, which the loaded behaviour anchors */
    pr_behaviour *behaviour; /* a reference is held */
};

/* Handles that are free again, and the last one that has been given out. See handles.c. */
typedef struct pr_lua_handles {
    uint32_t *free, free_count, capacity, last;
} pr_lua_handles;

typedef struct pr_lua_place {
    int32_t page, place;
} pr_lua_place;

/* See budget.c. */
typedef struct pr_budget {
    uint64_t limit;          /* 0: none, and nothing else here is used */
    uint64_t spent;          /* instructions of the handler under way */
    uint64_t asked;          /* heap.asked when it began */
    bool counts;             /* a script runs */
    bool over;               /* ... and is to end */
    char text[256];          /* what it is told; "" until it has been */
} pr_budget;

#define PR_TOLD_NOTED (UINT64_C(1) << 63)   /* beside an id */

/* See slice.c. */
typedef struct pr_slice {
    uint64_t until_ns;       /* 0: no slice, or it is over */
    uint64_t counted_ns;     /* of a clock that stands still */
    lua_State *base;         /* the handler's own coroutine */
    bool inner;              /* the hook has yielded another one, whose resume has not asked yet */
    bool passed;             /* ... and has passed the mark on */
} pr_slice;

enum { PR_SEGMENT_BITS = 39 /* of light userdata, below what LuaJIT keeps apart */ };

typedef struct pr_lua {
    lua_State *L;            /* the main thread of the state */
    pr_runtime *rt;          /* NULL outside while none runs */
    pr_worker *w;            /* NULL outside */
    pr_port *port;           /* outside, while a runtime runs */
    pr_terminal *terminal;   /* of the command's prompt, or NULL */
    struct pr_connection *connection;    /* outside: to another process's control socket, or NULL */
    uint64_t prompt;         /* outside: the actor that the terminal's lines go to */
    pr_explore *explored;    /* outside: of the last runtime that was a test's, for its report; or NULL */
    pr_explore *explore;     /* the same, while that runs; inside too */
    struct pr_lua_probe *probes;         /* outside: of this runtime; see explore.c */
    pr_msg *hand;            /* outside: what `receive` gave last */
    pr_msg *replies;         /* outside: those being decoded, or where that failed */
    uint32_t first_generation; /* outside: where the ids of the next runtime start */
    uint64_t serial;         /* of the runtime: handles of an earlier one are told apart by it */

    /* codec: string.buffer objects and their methods, as registry references */
    int encoder, encode, get, decoder, set, decode, source;
    void **source_cell;      /* the pointer inside the cdata `source` */

    /* the Lua half's functions that C calls */
    int load, explain, failure, reason, finalize, error_metatable, restrict_libraries, opening;
    int share_tokens, share_roots, share_of, shared, substitute, restore;   /* see lua/pierrot/share.lua */

    /* inside */
    pr_heap heap;            /* of the state */
    pr_co *co;               /* free coroutines */
    int kept, pages;         /* tables: functions by their handles; pages of selves. See handles.c */
    pr_dispatch dispatch;
    pr_out out;
    pr_msg *asked;           /* made by compiled code, for core.ask_made, which is called next; NULL */
    double asked_within;     /* seconds; below 0: as usual */
    int numbers;             /* table: ref -> its id as a number, for compiled code */
    uint32_t noted;          /* how many it holds */
    uint64_t segments[2];    /* bits: PR_SEGMENT_BITS and up of refs that Lua has had. LuaJIT needs memory for the first of each */
    uint64_t told[PR_REF_PLACES]; /* whom tell has had as its target; with PR_TOLD_NOTED: it is in `numbers`, or was */
    int decode_message, prepare_start, prepare_stop, describe_failure, traps, make_reason, decide; /* C functions, for protected calls */
    int nothing;   /* a Lua function that does nothing */
    int timeout_text, dead_text, yield_text, verdict_text, priority, new_coroutine;
    pr_lua_handles kept_handles, self_handles;
    struct { uint32_t self, index, generation; } pattern;   /* of an actor that has ended: for its behaviour's `maker`; 0: none */
    int learn_self;          /* C function */
    uint32_t left_self;      /* of an actor that has ended: see pr_lua_leave_self; 0: of none */
    pr_loaded *loaded;
    uint32_t loaded_capacity;
    pr_loaded half_loaded;   /* what a script that is its own behaviour returned, while it is being loaded */
    lua_State *calling;      /* the coroutine in `receive` of an actor with a box, NULL otherwise */
    bool has_mailbox;        /* for the next spawn: see bounded.c */
    pr_box_spec mailbox;
    struct pr_lua_become becomes[PR_LUA_BECOMES];
    uint32_t become_at;
    bool scanning;           /* inside a `match` function of receive */
    bool deciding;           /* inside `on_failure` */
    uint32_t blocked;        /* resumes of the script's own coroutines through which no yield can pass */
    int collect;             /* C function: a step of the collector */
    int gc_step;             /* LuaJIT's own multiplier of a step */
    uint32_t released;       /* selves dropped, less those made, since the collector was last driven for them */
    bool collect_due;        /* for those: before the next turn */
    size_t collected_bytes;  /* in use after the last full collection while idle */
    bool collecting;         /* such a collection is under way */
    bool closing;            /* the state is about to close */
    uint32_t lines;          /* lines of prompts that are running: see prompt.c */
    int line_bases;          /* table: the coroutines below them */
    bool finalizers;         /* the collector has noted some */
    pr_budget budget;
    pr_slice slice;
    int interpret, interpret_loaded;     /* the Lua half's function, and that in C which calls it */
    struct pr_output *output;

    /* From finding a handler to calling it, of an actor that has just taken a newer version: see reload.c. */
    uint32_t upgrading;      /* handle: a function that is called in the handler's place, and gets it from core.upgrade */
    uint32_t upgrade, upgraded_handler;
    pr_behaviour *upgrade_from;          /* a reference is held */
    pr_shapes shapes;
} pr_lua;

/* A worker's context, on its thread: the quick way for what is called most. */
extern __thread pr_lua *pr_lua_here __attribute__((tls_model("initial-exec")));

/* The context is every C function's first upvalue. */
static inline pr_lua *pr_lua_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }
static inline pr_msg_pool *pr_lua_pool(pr_lua *x) { return x->w ? &x->w->pool : NULL; }
static inline pr_msg *pr_lua_hand(pr_lua *x) { return x->w ? x->w->hand : x->hand; }

/* What yields to the scheduler, as opposed to a coroutine of the script's own. */
extern char pr_lua_sentinel;

/* The running actor's or the port's end of its links and monitors: to look at; see pr_actor_extra before adding. */
pr_end pr_lua_end(pr_lua *x);

/* --- errors */

/* Raises at the line `level` calls up (1: the caller of the C function). */
int pr_lua_raise(lua_State *L, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The runtime, or an error saying that none runs. */
pr_runtime *pr_lua_runtime(lua_State *L, pr_lua *x, int level);
/* Who sends: the actor in hand, or the port; 0 where no actor runs (a finalizer). */
uint64_t pr_lua_self(pr_lua *x);
/* "dead", "stopping", ... */
const char *pr_lua_status(pr_status status);

/* --- refs (ref.c) */

void pr_lua_push_ref(lua_State *L, uint64_t id);       /* nil for 0 */
bool pr_lua_is_ref(lua_State *L, int index, uint64_t *id);
/* A ref or a registered name at `index`: its id, 0 for a name that nobody has; raises on anything else. */
uint64_t pr_lua_target(lua_State *L, pr_lua *x, int index, const char *what, int level);
void pr_lua_open_refs(lua_State *L, pr_lua *x);        /* methods table on the stack, consumed */

/* --- codec (codec.c) */

/* Whether bytes of string.buffer hold only what may travel. */
bool pr_lua_may_travel(const uint8_t *bytes, size_t size);
/* Whether they are those of a table without a metatable. */
static inline bool pr_lua_is_table(const uint8_t *bytes) { return bytes[0] >= 0x08 && bytes[0] <= 0x0d; }
bool pr_lua_open_codec(lua_State *L, pr_lua *x);
/* The values from index `from` to the top as a message. Raises what cannot be sent, by its path (label[i]...), at
 * `level`, and want of memory. The caller owns the result and must not raise before it has given it away. */
pr_msg *pr_lua_encode(lua_State *L, pr_lua *x, int from, const char *label, int level);
/* The same without raising: NULL, and a text on top of the stack. Base level: values must be scalars and strings
 * unless the call is protected. */
pr_msg *pr_lua_try_encode(lua_State *L, pr_lua *x, int from, const char *label);
/* Pushes values after skipping the first `skip`; returns how many. May raise (memory). */
int pr_lua_decode(lua_State *L, pr_lua *x, const pr_msg *m, uint32_t skip);
/* At base level: pushes them on `to`, another thread of the state; -1 and a text on x->L otherwise. */
int pr_lua_decode_to(lua_State *to, pr_lua *x, const pr_msg *m, uint32_t skip);

/* --- shared values (share.c) */

void pr_lua_open_share(lua_State *L, pr_lua *x);
/* What a token stands for; NULL: its runtime has ended. */
pr_share *pr_lua_token_share(pr_lua *x, const void *token);

/* --- actors (lua_actor.c) */

extern const pr_ops pr_lua_ops;
bool pr_lua_open_actors(lua_State *L, pr_lua *x);
void pr_lua_close_actors(pr_lua *x);
void pr_lua_drop_left_self(pr_lua *x);   /* see pr_lua_leave_self */
void pr_lua_learn_self(pr_lua *x);       /* from `pattern`, which is set */
/* Loads the private behaviour `b` from the behaviour on top of the stack, popped. False: no memory. Raises likewise. */
bool pr_lua_load_private(lua_State *L, pr_lua *x, pr_behaviour *b);
void pr_lua_unload(pr_lua *x, uint32_t index);         /* at base level too */
/* The handler that takes `m`, 0: none; *skip: the values before its own. Calls nothing of Lua. */
uint32_t pr_lua_handler(pr_lua *x, pr_actor *a, const pr_msg *m, uint32_t *skip);
/* The message that the handler in hand was given: not one taken by receive. NULL in start and stop. */
static inline pr_msg *pr_lua_own_message(pr_worker *w)
{
    pr_msg *m = w->hand;
    while (m && m->taken)
        m = m->next;
    return m;
}
/* Answers the ask in `m`. Consumes `reply`. Calls nothing of Lua. */
void pr_lua_reply(pr_lua *x, pr_msg *m, pr_msg *reply);
/* A ref's place in the table of refs, where it is put if need be. */
int pr_lua_place_ref(lua_State *L, pr_lua *x, int index, uint64_t id);
/* Somebody sends to this actor from Lua: compiled code will find its number. Raises for want of memory. */
void pr_lua_told(lua_State *L, pr_lua *x, uint64_t id);
/* The script's chunk returned a behaviour: the actor goes on as that. core.become_script */
int pr_lua_become_script(lua_State *L);

/* --- budget.c: around all that runs scripts, at base level */

void pr_lua_open_budget(lua_State *L, pr_lua *x);      /* of a host's worker; the table of functions on top */
void pr_lua_budget_anew(pr_lua *x);
/* Another one begins, from a full budget. */
static inline void pr_lua_budget_next(pr_lua *x)
{
    if (x->budget.limit)
        pr_lua_budget_anew(x);
}
/* Returns what `ends` is to be given: within a handler (a priority function) its budget goes on. */
static inline bool pr_lua_budget_begins(pr_lua *x)
{
    bool inside = x->budget.counts;
    if (x->budget.limit && !inside) {
        pr_lua_budget_anew(x);
        x->budget.counts = true;
    }
    return inside;
}
static inline void pr_lua_budget_ends(pr_lua *x, bool inside)
{
    if (x->budget.limit && !inside) {
        x->budget.counts = false;
        pr_lua_budget_anew(x);
    }
}

/* --- slice.c: around a handler of the running actor, at base level */

void pr_lua_open_slice(lua_State *L, pr_lua *x);       /* the table of functions on top */
/* Whether it has a time slice: then `ends` follows. base: the handler's coroutine. */
bool pr_lua_slice_begins(pr_lua *x, lua_State *base);
void pr_lua_slice_ends(pr_lua *x);
/* In a count hook, as its last act: so many instructions have run since it was last called. May yield. */
void pr_lua_slice_look(lua_State *L, lua_Debug *at, uint32_t instructions);

/* --- become.c */

void pr_lua_open_become(lua_State *L, pr_lua *x);
void pr_lua_become_end(pr_lua *x, pr_actor *a);        /* a life ends: back to the spawned behaviour */
void pr_lua_close_becomes(pr_lua *x);

/* --- reload.c */

void pr_lua_open_reload(lua_State *L, pr_lua *x);
/* The handler that takes `m` of an actor whose behaviour `b` has a successor here, which it takes. Calls nothing of Lua. */
uint32_t pr_lua_newer_handler(pr_lua *x, pr_actor *a, pr_loaded *b, const pr_msg *m, uint32_t *skip);
/* Its field `version`, or the number of its version. Raises for want of memory. */
void pr_lua_push_version(lua_State *L, pr_runtime *rt, pr_behaviour *b);

/* --- the module's functions (calls.c, inside.c, dispatch.c, quick.c, outside.c, hand.c, tie.c, inspect.c) */

void pr_lua_open_calls(lua_State *L, pr_lua *x);
void pr_lua_open_inside(lua_State *L, pr_lua *x);
void pr_lua_open_dispatch(lua_State *L, pr_lua *x);
void pr_lua_open_quick(lua_State *L, pr_lua *x);
void pr_lua_open_outside(lua_State *L, pr_lua *x);
/* A handle, with the reference that the caller has. */
void pr_lua_push_behaviour(lua_State *L, pr_lua *x, pr_behaviour *b);
/* The behaviour of the handle at `index`. */
pr_behaviour *pr_lua_behaviour_of(lua_State *L, int index);
/* pr_config.priority */
double pr_lua_priority(pr_worker *w, pr_behaviour *function, const pr_msg *m);
/* Waits for room in the full mailbox of m->target, or refuses. -> 1: true; 2: nil and a reason; -1: suspended. Raises
 * where Lua cannot suspend, and a deadlock. Consumes `m`. */
int pr_lua_wait_for_room(lua_State *L, pr_lua *x, pr_msg *m, const char *what);
void pr_lua_open_bounded(lua_State *L, pr_lua *x);
void pr_lua_open_events(lua_State *L, pr_lua *x);
void pr_lua_open_groups(lua_State *L, pr_lua *x);
void pr_lua_open_hand(lua_State *L, pr_lua *x);
void pr_lua_open_tie(lua_State *L, pr_lua *x);
void pr_lua_open_inspect(lua_State *L, pr_lua *x);
/* Pushes what is known of `a`, by name; of its children all refs, or their number. */
void pr_lua_push_info(lua_State *L, pr_runtime *rt, pr_actor *a, uint64_t id, bool children);
/* Pushes the list of children from `link` on, `most` at most, in the order of their birth, by the links that the parent's
 * owner may be changing: each is checked to be the parent's (`id`, 0: the root's). */
void pr_lua_push_family(lua_State *L, pr_runtime *rt, uint32_t link, uint32_t most, uint64_t id);
void pr_lua_open_census(lua_State *L, pr_lua *x);
/* Whether a part of the actor's name or of its behaviour's is this; any thread. */
bool pr_lua_actor_matches(pr_runtime *rt, uint64_t id, const char *part);
void pr_lua_open_top(lua_State *L, pr_lua *x);
/* --- explore.c: runtimes that a test drives */

void pr_lua_open_explore(lua_State *L, pr_lua *x);
/* The table at `index` into the configuration; x->explored is what it says from then on. Raises for want of memory. */
void pr_lua_explore_configure(lua_State *L, pr_lua *x, int index, pr_config *c);
/* Lets actors have turns, and time pass, until something is in the stack (true) or until then. */
bool pr_lua_explore_wait(pr_lua *x, pr_stack *arrivals, uint64_t until_ns);
/* The runtime is about to be freed. */
void pr_lua_explore_end(pr_lua *x);

/* Outside: pr_port_wait and pr_port_reply, in a runtime that a test drives by its turns and its clock. */
bool pr_lua_port_wait(pr_lua *x, uint64_t until_ns);
pr_msg *pr_lua_port_reply(pr_lua *x, uint32_t ask, uint64_t ms);

/* Adds functions to the table on top, each with the context as upvalue. */
void pr_lua_add(lua_State *L, pr_lua *x, const luaL_Reg *functions);

/* Suspends the running handler: checks that Lua can, raises otherwise. */
void pr_lua_check_yieldable(lua_State *L, pr_lua *x, const char *what, int level);
int pr_lua_suspend(lua_State *L);
/* The actor in hand is to end after its handler. */
void pr_lua_stops(pr_actor *a);
/* The end of a tell that was the last of a burst: lets others have a turn, if Lua can suspend here. Returns true to Lua. */
int pr_lua_stand_back(lua_State *L);
/* Seconds, 0 or more, as milliseconds, rounded up; infinity: UINT64_MAX. */
uint64_t pr_lua_ms(double seconds);
/* The same of those at `index`; raises unless a number >= 0. */
uint64_t pr_lua_check_ms(lua_State *L, int index, const char *what, int level);

/* --- output (output.c) */

bool pr_lua_open_output(lua_State *L, pr_lua *x);
void pr_lua_close_output(pr_lua *x);
void pr_lua_output_redirect(pr_lua *x, uint64_t actor, double client);   /* raises nothing; no memory: it is not */
bool pr_lua_output_silent(const pr_lua *x);            /* nobody has one, nor a redirection */
void pr_lua_output_ended(pr_lua *x, uint64_t actor);   /* its unfinished line goes out */

/* --- prompt.c */

void pr_lua_open_prompt(lua_State *L, pr_lua *x);
void pr_lua_interrupted(pr_worker *w, pr_actor *a);    /* kin_ops */
/* pr_log_sink of a process with a prompt. */
void pr_lua_log_above(void *terminal, enum pr_log_level level, const char *text, size_t len);

/* --- control.c */

void pr_lua_open_control(lua_State *L, pr_lua *x);
/* What an actor writes goes to that client, as JSON. 0 or an errno. */
int pr_lua_control_write(pr_lua *x, double client, const char *bytes, size_t len);
void pr_lua_control_close(pr_runtime *rt, bool free_it);   /* see host.h */
/* The terminal's events, for core.client_wait; see terminal.h. */
void pr_lua_to_link(void *context, enum pr_terminal_event event, const char *text, size_t len);

/* --- state.c */

/* Opens a state for taking part: context, core table, the Lua half. Raises. Leaves the module on the stack. */
void pr_lua_open(lua_State *L, pr_lua *x);
int pr_lua_open_worker(pr_worker *w, char *error, size_t cap);
void pr_lua_close_worker(pr_worker *w);
bool pr_lua_idle_worker(pr_worker *w);
void pr_lua_enter_worker(pr_worker *w);
/* At base level: the collector's work for about so many KB; whether a cycle came to its end. */
bool pr_lua_collect(pr_lua *x, int kb);
/* The same after Lua was refused memory: everything that is garbage goes, so that whoever comes next has room. */
void pr_lua_collect_refused(pr_lua *x);

/* What a runtime hands to its workers' states: the starter's search paths. In config.context; owned by the
 * outside state that started it, until the runtime has ended. */
typedef struct pr_lua_paths {
    char *path, *cpath;
    pr_terminal *terminal;
    pr_log_writer *log;           /* or NULL */
} pr_lua_paths;

#endif
