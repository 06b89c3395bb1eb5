/* Code in messages: programs are made up, carried and run on the other side, where they must do the same; what may not be
 * carried is refused with a text; bytes that are no longer what was packed end in an error, and not in a crash or for ever.
 * All of it is Lua: see transport.lua. */
#include "fuzz_lua.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lua_State *L;
    if (!L)
        L = open_script("spec/fuzz/transport.lua");
    run_script(L, data, size);
    return 0;
}
