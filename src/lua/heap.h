/* The allocator of a worker's Lua state. One thread uses it, so it needs no lock; Lua says the size of what it frees, so
 * blocks need no header: small ones go from free list to state and back in a few instructions, where LuaJIT's own
 * allocator takes some hundred. Small memory that was freed serves the same size again, and goes back to the system when
 * the state is closed: a worker's memory stays at its high-water mark. */
#ifndef PR_LUA_HEAP_H
#define PR_LUA_HEAP_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PR_HEAP_STRAYS = 16, PR_HEAP_STEP = 16, PR_HEAP_SMALL = 1024, PR_HEAP_CLASSES = PR_HEAP_SMALL / PR_HEAP_STEP };

typedef struct pr_heap {
    void *free[PR_HEAP_CLASSES];   /* linked by their first word */
    char *at, *end;                /* what is left of the newest region */
    struct pr_region *regions;
    size_t taken;                  /* bytes of all regions */
    char *birth, *birth_at;        /* where `bearing` gets what it needs first; NULL, and how far it has come */
    bool bearing;                  /* lua_newstate or pr_heap_open runs */
    void *strays[PR_HEAP_STRAYS];  /* big blocks that shrank where there was no memory for a small one: Lua has them */
    uint32_t stray_count;
    lua_State *L;
    size_t used, limit;            /* of pr_heap_realloc_limited: what Lua has, and may; SIZE_MAX / 2: it only counts */
    uint64_t asked;                /* by it: all that Lua has ever asked for */
    bool overdrawn;                /* it has got more than it may: see pr_heap_realloc_limited */
    bool refused;                  /* a script has failed for it; cleared when garbage has been collected */
    int pause, step;               /* the collector's, while overdrawn */
    lua_Hook hook;                 /* the one that was there, and when it was called */
    int hook_mask, hook_count;
} pr_heap;

/* A lua_Alloc; `heap` starts zeroed. NULL when memory runs out, never when a block shrinks. */
void *pr_heap_realloc(void *heap, void *block, size_t old_size, size_t size);
/* lua_newstate by this heap, within `heap->limit` from then on. LuaJIT crashes where it runs out of memory in there: so all
 * that it needs is allocated before. NULL: no memory. */
lua_State *pr_heap_newstate(pr_heap *heap);
/* Opens a library in the same way: where luaopen_ffi runs out of memory, LuaJIT forgets the table of C types that it has
 * allocated before. Raises what the library raises. */
void pr_heap_open(pr_heap *heap, lua_State *L, lua_CFunction open);
/* A lua_Alloc within a limit. Where LuaJIT's compiled code is refused memory it may crash: before 2023 it looked for the
 * frame in the wrong place (its issue 906). So what goes beyond the limit is given, an eighth more at most, and the script
 * gets its error, "not enough memory", at its next instruction, unless a collection gives enough back. Compiled code gives
 * way to the interpreter, which looks at such things, when the collector comes to the end of its marking; so the collector
 * is driven there at once. NULL beyond that eighth, and where the system has no more. */
void *pr_heap_realloc_limited(void *heap, void *block, size_t old_size, size_t size);
/* The collector's pause and step, from now on, or once the limit is kept again. */
void pr_heap_pace(pr_heap *heap, int pause, int step);
/* After lua_close. */
void pr_heap_destroy(pr_heap *heap);

#endif
