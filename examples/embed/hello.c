/* A host with Pierrot inside: an actor in Lua that is told and asked from C.
 *
 *     cc hello.c $(pkg-config --cflags --libs pierrot) -o hello
 *     cc hello.c $(pkg-config --cflags pierrot) -l:libpierrot.a $(pkg-config --static --libs pierrot) -o hello
 */
#include <pierrot.h>
#include <stdio.h>
#include <string.h>

static const char greeter[] =
    "return {\n"
    "  start = function(self, greeting) self.greeting, self.count = greeting, 0 end,\n"
    "  on = {\n"
    "    greet = function(self, name) self.count = self.count + 1 print(self.greeting .. ', ' .. name) end,\n"
    "    count = function(self) return self.count end,\n"
    "  },\n"
    "}\n";

static void log_line(void *context, pierrot_log_level level, const char *text, size_t size)
{
    (void)context;
    fprintf(level == PIERROT_LOG_PRINT ? stdout : stderr, "%.*s\n", (int)size, text);
}

int main(void)
{
    pierrot_config config;
    pierrot_error error;
    pierrot *rt;
    pierrot_config_init(&config, sizeof config);
    config.log = log_line;
    if (pierrot_start(&config, &rt, &error) != PIERROT_OK) {
        fprintf(stderr, "pierrot: %s\n", error.text);
        return 1;
    }

    /* A preloaded module would do as well, or a file; here the script is a string. Its arguments are a message. */
    pierrot_ref actor;
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_text(m, "Hello");
    pierrot_spawn_string(rt, greeter, strlen(greeter), "greeter", m, NULL, &actor);

    static const char *const names[] = {"Pierrot", "Columbine", "Harlequin"};
    for (int i = 0; i < 3; i++) {
        pierrot_message_clear(m);
        pierrot_put_text(m, "greet");
        pierrot_put_text(m, names[i]);
        pierrot_tell(rt, actor, m);
    }

    pierrot_inbox *inbox;
    pierrot_incoming answer;
    double count = 0;
    pierrot_inbox_open(rt, &inbox);
    pierrot_message_clear(m);
    pierrot_put_text(m, "count");
    if (pierrot_ask_wait(inbox, actor, m, 5000, &answer) != PIERROT_OK || !pierrot_read_number(&answer.values, &count))
        fprintf(stderr, "no answer\n");

    pierrot_inbox_close(inbox);
    pierrot_message_free(m);
    pierrot_stop(rt);
    pierrot_join(rt, 5000);   /* what was logged has been shown now */
    printf("%g greetings, by version %s\n", count, pierrot_version());
    return pierrot_free(rt) == PIERROT_OK && count == 3 ? 0 : 1;
}
