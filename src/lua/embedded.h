/*
 * The Lua half of Pierrot, as source text inside the binary.
 *
 * The table is generated at build time by embed.lua from lua/pierrot (all but meta.lua). It is
 * constant: any thread may read it at any time.
 */
#ifndef PR_LUA_EMBEDDED_H
#define PR_LUA_EMBEDDED_H

#include <stddef.h>

struct pr_embedded {
  const char *name;      /* what `require` is given: "pierrot", "pierrot.foo" */
  const char *chunkname; /* for luaL_loadbuffer: "@pierrot/foo.lua" */
  const char *data;      /* source text; also ends in a NUL that `size` does not count */
  size_t size;           /* in bytes */
};

/* Sorted by name; ends with an entry whose name is NULL. */
extern const struct pr_embedded pr_embedded_modules[];

#endif
