/* What the library (src/embed) takes from the border, without lua.h; and what the border does for a host in C. */
#ifndef PR_LUA_HOST_H
#define PR_LUA_HOST_H

#include "../pierrot.h"
#include "../runtime.h"

extern const pr_ops pr_lua_ops;

/* The callbacks for workers with Lua states, set up as `host` says. It has to live as long as the runtime. */
void pr_lua_configure(pr_config *c, const pierrot_config *host);

/* Opens the control socket of a runtime with a dispatcher "prompts"; false and a text in `error`. And its end: with `free_it`
 * when no worker is left. Nothing happens where there is none. */
bool pr_lua_control_start(pr_runtime *rt, const char *path, bool readonly, char *error, size_t cap);
void pr_lua_control_close(pr_runtime *rt, bool free_it);

/* What a find_module has given. */
struct pierrot_source {
    char *text;
    size_t size;
    char *chunkname;
};

struct lua_State;
void pr_lua_push_ref(struct lua_State *L, uint64_t id);
bool pr_lua_is_ref(struct lua_State *L, int index, uint64_t *id);

/* --- within the border; `host` of a worker's state, or NULL: see pr_lua_host */
struct pr_lua;
const pierrot_config *pr_lua_host(const struct pr_lua *x);
/* Adds to core, on top: what the Lua half needs for it. */
void pr_lua_host_open(struct lua_State *L, struct pr_lua *x);
/* Before the Lua half is loaded: paths, preloaded modules, the host's loader. Raises. */
void pr_lua_host_before(struct lua_State *L, struct pr_lua *x, const pierrot_config *host);
/* After it: libraries are taken away, the host adds its own modules. Raises. */
void pr_lua_host_after(struct lua_State *L, struct pr_lua *x, const pierrot_config *host);
void pr_lua_host_close(struct lua_State *L, struct pr_lua *x, const pierrot_config *host);
/* Whole lines of a script's output; the end of the last one may be missing. */
void pr_lua_host_print(struct pr_lua *x, const char *bytes, size_t len);

#endif
