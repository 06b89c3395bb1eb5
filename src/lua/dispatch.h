/* How a worker's Lua state goes from message to message: the C half of lua/pierrot/dispatch.lua, which has the loop. */
#ifndef PR_LUA_DISPATCH_H
#define PR_LUA_DISPATCH_H

#include <stdint.h>

enum { PR_INLINE_VALUES = 3, PR_REF_PLACES = 1024 };

/* What the loop is told of the message in hand. Compiled code reads it through the FFI: dispatch.lua declares the same.
 * Signed: that spares it a conversion. */
typedef struct pr_now {
    double number[PR_INLINE_VALUES];        /* NUMBER: the value */
    const uint8_t *bytes[PR_INLINE_VALUES]; /* STRING, BLOB: valid while the message is in hand */
    int32_t length[PR_INLINE_VALUES];       /* STRING, BLOB: bytes; REF: its place in the table of refs */
    int32_t handler, page, self;            /* handles: of a function, and where self is in the pages */
    int32_t ask;                            /* not 0: a reply is wanted */
    int32_t count;                          /* values */
    int32_t maker;                          /* of BORN: handle of what makes its self */
    uint8_t tag[PR_INLINE_VALUES];          /* enum pr_tag */
} pr_now;

/* The values of a message that compiled code sends: quick.lua declares the same. */
typedef struct pr_out {
    double number[PR_INLINE_VALUES];        /* NUMBER: the value; REF: the id */
    const uint8_t *bytes[PR_INLINE_VALUES]; /* STRING, BLOB: valid until it is sent */
    int32_t length[PR_INLINE_VALUES];
    uint8_t tag[PR_INLINE_VALUES];          /* enum pr_tag */
    int32_t mixed;      /* tables still to be looked through for shared values before they are encoded; any state: codec.c */
    int32_t place;      /* out: of the ref of an actor that has been spawned, in the table of refs; 0: it has none */
} pr_out;

/* What `next` says. */
enum pr_next {
    PR_NEXT_END,      /* back to the worker */
    PR_NEXT_PLAIN,    /* pr_now holds the message */
    PR_NEXT_OTHER,    /* it does not: `values` gives it */
    PR_NEXT_AGAIN,    /* nothing: so that the loop is compiled before there is any message */
    PR_NEXT_BORN      /* as PLAIN, but an actor is to start: its self is to be made, and `start`, if there is one, to be called */
};

enum { PR_NOW_SHAPED = 32 };   /* a tag in pr_now beside those of pr_tag: a table that the shapes' leaves hold */

typedef struct pr_dispatch {
    pr_now now;
    uint32_t skip;               /* values that come before the handler's: the name of a handler in `on` */
    uint32_t warming;            /* rounds of AGAIN still to come */
    bool interpreted;            /* `next` is to leave the values alone */
    bool born;                   /* what it says is a start */
    bool fresh;                  /* the loop has been entered for a message that is in hand already */
    bool unhandled;              /* it ended for a message that nothing takes */
    int loop, refs;              /* registry references: the loop's function; the table of refs by place */
    int maker;                   /* ... what makes a maker from a self */
    uint32_t plain_maker;        /* handle: of an empty table */
    int shape, builders;         /* ... what makes a function for a signature; these functions, by their shapes' numbers */
    struct lua_State *places;    /* a thread whose stack has that table at its bottom */
    uint64_t ids[PR_REF_PLACES]; /* which ref is at which place */
} pr_dispatch;

#endif
