/* Tables that come again and again with the same keys, read without the serializer. See shapes.c. */
#ifndef PR_LUA_SHAPES_H
#define PR_LUA_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PR_SHAPE_LEAVES = 24,   /* values in a table and those within it */
    PR_SHAPE_BYTES = 192,   /* of a signature: a multiple of 8 */
    PR_SHAPE_DEEP = 8,      /* tables within each other */
    PR_SHAPES = 64,         /* known to a worker */
    PR_SHAPE_PLACES = 256,
    PR_SHAPE_HABIT = 50,    /* so often a shape has come before it is known */
    PR_LAYOUTS = 64,        /* known to a worker; two of them may be in the same place */
    PR_LAYOUT_BYTES = 128,  /* of a table that has one: a multiple of 8 */
    PR_LAYOUT_PATIENCE = 8  /* so many tables that are as neither of a place's layouts says, and it gets another */
};

/* A table's leaves, in the order of its bytes. lua/pierrot/shapes.lua declares the same. */
typedef struct pr_leaves {
    double number[PR_SHAPE_LEAVES];         /* numbers; 0 and 1 for booleans */
    const uint8_t *bytes[PR_SHAPE_LEAVES];  /* strings: valid while the message is in hand */
    int32_t length[PR_SHAPE_LEAVES];        /* strings: bytes; refs: the place in the table of refs */
    int32_t shape;                          /* its number, from 1 */
} pr_leaves;

typedef struct pr_shape {
    uint64_t signature[PR_SHAPE_BYTES / 8]; /* with zeros up to a whole word behind it */
    uint32_t length;
} pr_shape;

/* The bytes of tables of one shape whose strings are of the same lengths too: they differ in what their leaves hold only, which
 * is masked out here. Words overlap at the end. */
typedef struct pr_layout {
    uint64_t bytes[PR_LAYOUT_BYTES / 8], mask[PR_LAYOUT_BYTES / 8];
    uint32_t size;          /* of such a table; 0: there is none here */
    uint16_t shape;
    uint8_t leaves;
    bool plain;             /* its leaves are numbers and strings */
    uint8_t tag[PR_SHAPE_LEAVES], at[PR_SHAPE_LEAVES], length[PR_SHAPE_LEAVES];   /* at: behind the tag */
} pr_layout;

typedef struct pr_shapes {
    pr_leaves leaves;
    pr_layout layouts[PR_LAYOUTS / 2][2];
    uint8_t layout_misses[PR_LAYOUTS / 2];
    const uint8_t *at[PR_SHAPE_LEAVES];   /* where the latest's leaves are, and ... */
    uint32_t latest_leaves;               /* ... how many */
    pr_shape latest;        /* of the last table that was taken apart */
    uint32_t latest_place;
    bool habit;             /* `latest` has come often enough: pr_shapes_add is called for */
    uint32_t count;
    struct { uint32_t hash; uint16_t seen, number; } places[PR_SHAPE_PLACES];
    pr_shape known[PR_SHAPES];
} pr_shapes;

/* Whether `bytes`, a table as LuaJIT's serializer has written it, is of a known shape: then `leaves` holds it.
 * ids: which ref is at which place. Calls nothing of Lua. */
bool pr_shapes_read(pr_shapes *s, const uint64_t *ids, const uint8_t *bytes, size_t size);
/* Whether `bytes` is a table of numbers and strings that looks as one did that was read here. False proves nothing. */
bool pr_shapes_plain(const pr_shapes *s, const uint8_t *bytes, size_t size);
/* `latest` is known from now on, by the number that is returned; 0: no more are. */
uint32_t pr_shapes_add(pr_shapes *s);

#endif
