/* Configurations: of the C library in tick mode, with limits on memory at which setting up fails anywhere; and, by config.lua,
 * the options of start and spawn and the command line. What starts works, and ends; what does not says why. */
#include "fuzz_lua.h"

#include <unistd.h>

#include "../../src/pierrot.h"

static void quiet(void *context, pierrot_log_level level, const char *text, size_t size)
{
    (void)context, (void)level, (void)text, (void)size;
}

static pierrot_status find_module(void *context, const char *name, pierrot_source *source)
{
    (void)context;
    return strcmp(name, "found") == 0 ? pierrot_source_set(source, "return {}", 9, NULL) : PIERROT_NOTHING;
}

static uint64_t limit(input *in, uint64_t unit)
{
    uint8_t kind = take(in);
    return kind < 100 ? 0 : kind < 220 ? (take(in) + 256u * take(in)) * unit : take_u64(in);
}

static void use(pierrot *rt)
{
    static const char code[] = "return { start = function(self) self.t = {} end,"
                               "receive = function(self, n) self.t[n] = ('x'):rep(n) return n end }";
    pierrot_ref ref;
    pierrot_status status = pierrot_spawn_string(rt, code, sizeof code - 1, "=code", NULL, NULL, &ref);
    pierrot_message *m = pierrot_message_new(rt);
    HOLDS(status == PIERROT_OK || status == PIERROT_NOMEM || status == PIERROT_LIMIT || status == PIERROT_FAILED);
    for (int i = 0; status == PIERROT_OK && m && i < 3; i++) {
        pierrot_message_clear(m);
        pierrot_put_number(m, 100 << i);
        pierrot_tell(rt, ref, m);
        pierrot_tick(rt, 1000);
    }
    pierrot_message_free(m);
    for (int i = 0; i < 20 && pierrot_tick(rt, 1000) == 0; i++)
        ;
}

static void try_library(input *in)
{
    pierrot_config c;
    pierrot_preload preload[] = {{"one", "return 1", 8, NULL}, {NULL, NULL, 0, NULL}};
    pierrot_dispatcher dispatchers[] = {{"a", take(in) % 4, take(in)}, {take(in) & 1 ? "blocking" : "a", 1, 1}, {NULL, 0, 0}};
    pierrot *rt;
    pierrot_error error = {0};
    pierrot_config_init(&c, sizeof c);
    c.mode = take(in) < 250 ? PIERROT_TICK : take(in);
    c.clock = take(in) % 4;
    c.seed = take(in) & 1 ? take_u64(in) : 0;
    c.workers = take(in) < 240 ? 1 + take(in) % 3 : take(in) & 1 ? 0 : 1025;
    c.throughput = take(in);
    c.spin = take(in);
    c.ask_timeout = take(in) < 240 ? 1 : take_double(in);
    c.log = take(in) & 1 ? quiet : NULL;
    c.log_level = take(in) < 240 ? take(in) % 5 : take(in);
    c.memory_limit = limit(in, 256);
    c.worker_memory_limit = limit(in, 64);
    c.actor_limit = (uint32_t)limit(in, 1);
    c.mailbox_limit = (uint32_t)limit(in, 1);
    c.message_limit = limit(in, 16);
    c.instruction_limit = limit(in, 1);
    c.libraries = take(in) & 1 ? PIERROT_LIB_ALL : take(in) & 1 ? PIERROT_LIB_SAFE : take(in) + 256u * (take(in) & 31);
    c.path = take(in) & 1 ? "" : NULL;
    c.preload = take(in) & 1 ? preload : NULL;
    c.dispatchers = take(in) & 1 ? dispatchers : NULL;
    c.find_module = take(in) & 1 ? find_module : NULL;
    c.size = take(in) < 200 ? sizeof c : take(in) + 8u * take(in);
    if (c.mode == PIERROT_THREADS)
        c.workers = 2;
    if (c.size > sizeof c)
        c.size = sizeof c;
    pierrot_status status = pierrot_start(&c, &rt, &error);
    if (status != PIERROT_OK) {
        HOLDS(!rt && error.status == status && error.text[0] && strnlen(error.text, sizeof error.text) < sizeof error.text);
        return;
    }
    use(rt);
    HOLDS(pierrot_free(rt) == PIERROT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lua_State *L;
    if (!L) {
        L = open_script("spec/fuzz/config.lua");
        const char *files = getenv("FUZZ_FILES");
        HOLDS(!files || chdir(files) == 0);
    }
    input in = {data, data + size};
    if (take(&in) & 1)
        try_library(&in);
    else
        run_script(L, in.at, left(&in));
    return 0;
}
