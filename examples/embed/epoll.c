/* Pierrot in an event loop of the host's own, without a thread: the loop sleeps in epoll_wait, and ticks the runtime when its
 * descriptor says so. An actor's timer and an answer end it. For libuv and SDL it is the same: see uv.c.
 *
 *     cc epoll.c $(pkg-config --cflags --libs pierrot) -o epoll
 */
#include <pierrot.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static const char clockwork[] =
    "local pierrot = require 'pierrot'\n"
    "return function(self, what)\n"
    "  if what == 'start' then\n"
    "    self.kept, self.left = pierrot.defer(), 3\n"
    "    pierrot.send_every(0.01, pierrot.self(), 'tick')\n"
    "  else\n"
    "    self.left = self.left - 1\n"
    "    if self.left == 0 then self.kept:reply('done') end\n"
    "  end\n"
    "end\n";

static void answered(void *done, const pierrot_incoming *answer)
{
    pierrot_cursor values = answer->values;
    *(int *)done = pierrot_read_text(&values, "done") ? 1 : -1;
}

int main(void)
{
    pierrot_config config;
    pierrot *rt;
    pierrot_inbox *inbox;
    pierrot_ref actor;
    int done = 0, wakeups = 0;
    pierrot_config_init(&config, sizeof config);
    config.mode = PIERROT_TICK;
    if (pierrot_start(&config, &rt, NULL) != PIERROT_OK || pierrot_inbox_open(rt, &inbox) != PIERROT_OK)
        return 1;
    pierrot_spawn_string(rt, clockwork, strlen(clockwork), "clockwork", NULL, NULL, &actor);
    pierrot_message *m = pierrot_message_new(rt);
    pierrot_put_text(m, "start");
    pierrot_ask(inbox, actor, m, PIERROT_FOREVER, answered, &done, NULL);

    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event of_runtime = {.events = EPOLLIN, .data = {.u32 = 0}}, of_inbox = {.events = EPOLLIN, .data = {.u32 = 1}};
    epoll_ctl(loop, EPOLL_CTL_ADD, pierrot_fd(rt), &of_runtime);
    epoll_ctl(loop, EPOLL_CTL_ADD, pierrot_inbox_fd(inbox), &of_inbox);
    while (!done) {
        struct epoll_event events[2];
        pierrot_incoming in;
        int n = epoll_wait(loop, events, 2, 10000);
        if (n <= 0)
            break;
        wakeups++;
        for (int i = 0; i < n; i++) {
            if (events[i].data.u32 == 0)
                pierrot_tick(rt, 2000);
            else
                while (pierrot_inbox_poll(inbox, &in) != PIERROT_NOTHING)
                    ;
        }
    }
    close(loop);
    printf("%s after %d wake-ups\n", done == 1 ? "done" : "failed", wakeups);
    pierrot_message_free(m);
    pierrot_inbox_close(inbox);
    return pierrot_free(rt) == PIERROT_OK && done == 1 ? 0 : 1;
}
