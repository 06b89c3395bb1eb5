/* For modules of the host that Lua calls, and for its loader of modules. */
#include "embed.h"

#include "../lua/host.h"

#include <string.h>

pierrot_status pierrot_source_set(pierrot_source *source, const char *text, size_t size, const char *chunkname)
{
    if (!source || (!text && size > 0))
        return PIERROT_INVALID;
    size_t name_size = chunkname ? strlen(chunkname) + 1 : 0;
    char *copy = pr_alloc(size + 1), *name = name_size ? pr_alloc(name_size + 1) : NULL;
    if (!copy || (name_size && !name)) {
        pr_free(copy);
        pr_free(name);
        return PIERROT_NOMEM;
    }
    if (size)
        memcpy(copy, text, size);
    if (name) {
        *name = '@';   /* as Lua marks what is a name and no code */
        memcpy(name + 1, chunkname, name_size);
    }
    pr_free(source->text);
    pr_free(source->chunkname);
    *source = (pierrot_source){copy, size, name};
    return PIERROT_OK;
}

void pierrot_push_ref(struct lua_State *L, pierrot_ref ref) { pr_lua_push_ref(L, ref.id); }

bool pierrot_to_ref(struct lua_State *L, int index, pierrot_ref *ref)
{
    uint64_t id;
    if (!pr_lua_is_ref(L, index, &id))
        return false;
    ref->id = id;
    return true;
}
