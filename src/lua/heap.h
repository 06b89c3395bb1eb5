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
    size_t used, limit;            /* of pr_heap_realloc_limited: what Lua has asked for, and may */
    bool refused;                  /* it has asked for more; cleared when garbage has been collected */
} pr_heap;

/* A lua_Alloc; `heap` starts zeroed. NULL when memory runs out, never when a block shrinks. */
void *pr_heap_realloc(void *heap, void *block, size_t old_size, size_t size);
/* lua_newstate by this heap, within `heap->limit` from then on. LuaJIT crashes where it runs out of memory in there: so all
 * that it needs is allocated before. NULL: no memory. */
lua_State *pr_heap_newstate(pr_heap *heap);
/* Opens a library in the same way: where luaopen_ffi runs out of memory, LuaJIT forgets the table of C types that it has
 * allocated before. Raises what the library raises. */
void pr_heap_open(pr_heap *heap, lua_State *L, lua_CFunction open);
/* A lua_Alloc within a limit. */
void *pr_heap_realloc_limited(void *heap, void *block, size_t old_size, size_t size);
/* After lua_close. */
void pr_heap_destroy(pr_heap *heap);

#endif
