/* Pierrot in libuv's loop, without a thread of its own: two poll handles, one for the runtime, one for an inbox.
 *
 *     cc uv.c $(pkg-config --cflags --libs pierrot libuv) -o uv
 */
#include <pierrot.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

static const char script[] = "local pierrot = require 'pierrot' return function(self, x) pierrot.sleep(0.02) return x * 2 end";

static pierrot *rt;
static pierrot_inbox *inbox;
static uv_poll_t ticking, incoming;
static double answer;

static void tick(uv_poll_t *handle, int status, int events)
{
    (void)handle, (void)status, (void)events;
    pierrot_tick(rt, 2000);
}

static void poll_inbox(uv_poll_t *handle, int status, int events)
{
    pierrot_incoming in;
    (void)handle, (void)status, (void)events;
    while (pierrot_inbox_poll(inbox, &in) == PIERROT_OK)
        ;   /* what nobody has a callback for */
}

static void answered(void *context, const pierrot_incoming *in)
{
    pierrot_cursor values = in->values;
    (void)context;
    pierrot_read_number(&values, &answer);
    uv_poll_stop(&ticking);
    uv_poll_stop(&incoming);   /* nothing is left: uv_run returns */
}

int main(void)
{
    pierrot_config config;
    pierrot_ref actor;
    pierrot_config_init(&config, sizeof config);
    config.mode = PIERROT_TICK;
    if (pierrot_start(&config, &rt, NULL) != PIERROT_OK || pierrot_inbox_open(rt, &inbox) != PIERROT_OK)
        return 1;
    pierrot_spawn_string(rt, script, strlen(script), "script", NULL, NULL, &actor);
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_number(m, 21);
    pierrot_ask(inbox, actor, m, 10000, answered, NULL, NULL);
    uv_poll_init(uv_default_loop(), &ticking, pierrot_fd(rt));
    uv_poll_init(uv_default_loop(), &incoming, pierrot_inbox_fd(inbox));
    uv_poll_start(&ticking, UV_READABLE, tick);
    uv_poll_start(&incoming, UV_READABLE, poll_inbox);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    printf("%g\n", answer);
    pierrot_message_free(m);
    pierrot_inbox_close(inbox);
    return pierrot_free(rt) == PIERROT_OK && answer == 42 ? 0 : 1;
}
