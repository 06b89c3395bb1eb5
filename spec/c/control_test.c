/* The control socket by itself: a port takes the place of the actor that answers.
 *
 * Mutants caught: clients taken before there is who answers them (their first line ended the connection). */
#include "harness.h"

#include "control.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

static int client_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static pr_msg *taken(pr_runtime *rt, pr_port *port)
{
    pr_msg *m;
    while (!(m = pr_queue_pop(&port->queue))) {
        pr_port_wait(port, pr_now_ns() + 100000000);
        pr_port_fill(rt, port);
        progress();
    }
    return m;
}

static void assert_named(pr_msg *m, const char *name, size_t size)
{
    uint32_t len;
    const char *text = pr_msg_first_string(m, &len);
    assert_true(text && len == size && memcmp(text, name, size) == 0);
}

static void who_comes_early_waits(void **state)
{
    (void)state;
    char folder[] = "/tmp/pierrot-control-XXXXXX", path[64], error[200] = "", byte;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    pr_runtime *rt = runtime_up(shapes[0]);
    watch_over(rt);
    pr_port *port = pr_port_open(rt);
    assert_non_null(port);
    pr_control_socket *c = pr_control_open(rt, path, error, sizeof error);
    assert_string_equal(error, "");
    assert_non_null(c);
    int fd = client_of(path);
    assert_int_equal(send(fd, "one\ntwo\n", 8, MSG_NOSIGNAL), 8);
    pause_us(50000);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    pr_control_serve(c, port->id);
    for (int i = 0; i < 2; i++) {   /* the second line when the first has been answered */
        pr_msg *m = taken(rt, port);
        assert_named(m, "\0request", 8);
        double number;
        memcpy(&number, m->data + 5 + 8 + 1, sizeof number);
        assert_memory_equal(m->data + 5 + 8 + 9 + 5, i == 0 ? "one" : "two", 3);
        pr_msg_free(NULL, m);
        pr_port_fill(rt, port);
        assert_null(pr_queue_pop(&port->queue));
        assert_true(pr_control_send(c, number, "!", 1));
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        pr_control_next(c, number);
    }
    close(fd);
    pr_msg *gone = taken(rt, port);
    assert_named(gone, "\0gone", 5);
    pr_msg_free(NULL, gone);
    pr_control_close(c, true);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rmdir(folder), 0);
    pr_port_close(rt, port);
    runtime_down(rt, NULL);
    assert_true(no_errors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_comes_early_waits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
