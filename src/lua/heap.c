/* See heap.h. */
#include "heap.h"

#include "../alloc.h"

#include <lauxlib.h>
#include <luajit.h>
#include <stdint.h>
#include <string.h>

#pragma weak luaJIT_setmode   /* see border.h */

/* Regions are cut into blocks. The first ones are small: a runtime that does little shall need little. */
typedef struct pr_region { struct pr_region *next; size_t size; } pr_region;

_Static_assert(sizeof(pr_region) <= PR_HEAP_STEP, "blocks begin behind it");

enum { BIRTH = 32 * 1024, REGION = 8 * 1024, REGIONS = 512 * 1024, SMALL_REGIONS = 1024 * 1024 };

/* Under AddressSanitizer each block is one of its own, which it can watch. Lua's pointers to it share their words with
 * tags, so LeakSanitizer does not find them where a state is left open at the process's end: it is told not to look. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
enum { CUT = 0 };
static void *hide(void *block)
{
    if (block)
        __lsan_ignore_object(block);
    return block;
}
#else
enum { CUT = 1 };
static void *hide(void *block) { return block; }
#endif

static inline size_t class_of(size_t size) { return (size - 1) / PR_HEAP_STEP; }

static void put(pr_heap *h, void *block, size_t class)
{
    *(void **)block = h->free[class];
    h->free[class] = block;
}

/* Cuts a block of that class from the newest region, or from a new one. */
static void *cut(pr_heap *h, size_t class)
{
    size_t bytes = (class + 1) * PR_HEAP_STEP;
    if ((size_t)(h->end - h->at) < bytes) {
        size_t size = h->taken < REGIONS ? REGION : h->taken < SMALL_REGIONS ? 8 * REGION : PR_BLOCK;
        pr_region *region = size == PR_BLOCK ? pr_alloc_block() : pr_alloc_aligned(PR_HEAP_STEP, size);
        if (!region)
            return NULL;
        if (h->end > h->at)   /* the rest of the old one: less than PR_HEAP_SMALL, a multiple of PR_HEAP_STEP */
            put(h, h->at, class_of((size_t)(h->end - h->at)));
        region->next = h->regions;
        region->size = size;
        h->regions = region;
        h->taken += size;
        h->at = (char *)region + PR_HEAP_STEP;
        h->end = (char *)region + size;
    }
    void *block = h->at;
    h->at += bytes;
    return block;
}

static bool is_birth(const pr_heap *h, const void *block)
{
    return h->birth && (const char *)block >= h->birth && (const char *)block < h->birth + BIRTH;
}

/* What `bearing` asks for: never twice the same place, never given back before the end. NULL: it is used up. */
static void *get_birth(pr_heap *h, size_t size)
{
    size = (size + PR_HEAP_STEP - 1) & ~(size_t)(PR_HEAP_STEP - 1);
    if ((size_t)(h->birth + BIRTH - h->birth_at) < size)
        return NULL;
    void *block = h->birth_at;
    h->birth_at += size;
    return block;
}

static void *get(pr_heap *h, size_t size)
{
    void *early = h->bearing ? get_birth(h, size) : NULL;
    if (early)
        return early;
    if (!CUT || size > PR_HEAP_SMALL)
        return hide(pr_alloc(size));
    size_t class = class_of(size);
    void *block = h->free[class];
    if (block) {
        void *next = *(void **)block;
        h->free[class] = next;
        __builtin_prefetch(next, 1);
        return block;
    }
    return cut(h, class);
}

static void give(pr_heap *h, void *block, size_t size)
{
    if (is_birth(h, block))
        return;
    if (!CUT || size > PR_HEAP_SMALL)
        pr_free(block);
    else
        put(h, block, class_of(size));
}

/* All but the common cases. */
static __attribute__((noinline)) void *resize(pr_heap *h, void *block, size_t old_size, size_t size)
{
    if (size == 0) {
        if (block && old_size > 0)
            give(h, block, old_size);
        return NULL;
    }
    if (!block || old_size == 0)
        return get(h, size);
    if ((!CUT || (size > PR_HEAP_SMALL && old_size > PR_HEAP_SMALL)) && !is_birth(h, block)) {
        void *moved = hide(pr_realloc(block, size));
        return moved || size > old_size ? moved : block;
    }
    if (CUT && size <= PR_HEAP_SMALL && old_size <= PR_HEAP_SMALL && class_of(size) == class_of(old_size))
        return block;
    void *moved = get(h, size);
    if (!moved && size > old_size)
        return NULL;
    if (!moved) {   /* a shrunk block that stays is given back as a smaller one */
        if (CUT && old_size > PR_HEAP_SMALL && !is_birth(h, block) && h->stray_count < PR_HEAP_STRAYS)
            h->strays[h->stray_count++] = block;
        return block;
    }
    memcpy(moved, block, size < old_size ? size : old_size);
    give(h, block, old_size);
    return moved;
}

void *pr_heap_realloc(void *heap, void *block, size_t old_size, size_t size)
{
    pr_heap *h = heap;
    if (CUT && !h->bearing) {   /* mostly a small block that there is, or one given back */
        if (old_size == 0 && size - 1 < PR_HEAP_SMALL && (block = h->free[class_of(size)])) {
            void *next = *(void **)block;
            h->free[class_of(size)] = next;
            __builtin_prefetch(next, 1);
            return block;
        }
        if (size == 0 && old_size - 1 < PR_HEAP_SMALL && !is_birth(h, block)) {
            put(h, block, class_of(old_size));
            return NULL;
        }
    }
    return resize(h, block, old_size, size);
}

/* --- limits */

static void settle(pr_heap *h)
{
    h->overdrawn = false;
    lua_gc(h->L, LUA_GCSETPAUSE, h->pause);
    lua_gc(h->L, LUA_GCSETSTEPMUL, h->step);
    lua_sethook(h->L, h->hook, h->hook_mask, h->hook_count);
}

/* A hook: before each instruction while overdrawn. */
static void claim(lua_State *L, lua_Debug *at)
{
    void *heap;
    lua_getallocf(L, &heap);
    pr_heap *h = heap;
    lua_getinfo(L, "S", at);
    if (strncmp(at->source, "@pierrot/", 9) == 0)   /* its bookkeeping is not to be torn */
        return;
    settle(h);
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH);   /* compiled code keeps what it took for constant */
    lua_gc(L, LUA_GCCOLLECT, 0);
    if (h->used <= h->limit)
        return;
    h->refused = true;
    luaL_where(L, 0);
    lua_pushliteral(L, "not enough memory");
    lua_concat(L, 2);
    lua_error(L);
}

/* All that is called here only sets fields: it is safe inside an allocation, as in a signal's handler. */
static void overdraw(pr_heap *h)
{
    enum { AT_ONCE = 1000000 };
    if (!h->overdrawn) {
        h->overdrawn = true;
        h->hook = lua_gethook(h->L);
        h->hook_mask = lua_gethookmask(h->L);
        h->hook_count = lua_gethookcount(h->L);
        h->pause = lua_gc(h->L, LUA_GCSETPAUSE, 0);
        h->step = lua_gc(h->L, LUA_GCSETSTEPMUL, AT_ONCE);
        lua_sethook(h->L, claim, LUA_MASKCOUNT, 1);
    }
    lua_gc(h->L, LUA_GCRESTART, 0);
}

void *pr_heap_realloc_limited(void *heap, void *block, size_t old_size, size_t size)
{
    pr_heap *h = heap;
    size_t old = block ? old_size : 0, most = h->limit + h->limit / 8;
    /* Not while the state is made: LuaJIT would crash. What follows is refused then. */
    if (!h->bearing && size > old && (size - old > most || h->used > most - (size - old))) {
        h->refused = true;
        return NULL;
    }
    void *moved = pr_heap_realloc(heap, block, old_size, size);
    if (!moved && size > 0) {
        h->refused = true;
        return NULL;
    }
    h->used += size - old;   /* modulo 2^64: it shrinks too */
    h->asked += size > old ? size : 0;
    if (size > old && h->used > h->limit && h->L)
        overdraw(h);
    return moved;
}

void pr_heap_pace(pr_heap *h, int pause, int step)
{
    if (h->overdrawn) {
        h->pause = pause;
        h->step = step;
        return;
    }
    lua_gc(h->L, LUA_GCSETPAUSE, pause);
    lua_gc(h->L, LUA_GCSETSTEPMUL, step);
}

/* --- */

lua_State *pr_heap_newstate(pr_heap *h)
{
    if (!(h->birth = h->birth_at = pr_alloc_aligned(PR_HEAP_STEP, BIRTH)))
        return NULL;
    h->bearing = true;
    h->L = lua_newstate(h->limit ? pr_heap_realloc_limited : pr_heap_realloc, h);
    h->bearing = false;
    return h->L;
}

void pr_heap_open(pr_heap *h, lua_State *L, lua_CFunction open)
{
    h->bearing = true;
    int status = lua_cpcall(L, open, NULL);
    h->bearing = false;
    if (status != 0)
        lua_error(L);
}

void pr_heap_destroy(pr_heap *heap)
{
    pr_free_aligned(heap->birth, BIRTH);
    heap->birth = NULL;
    while (heap->stray_count > 0)
        pr_free(heap->strays[--heap->stray_count]);
    while (heap->regions) {
        pr_region *next = heap->regions->next;
        pr_free_aligned(heap->regions, heap->regions->size);
        heap->regions = next;
    }
}
