/* See control.h. */
#include "control.h"

#include "alloc.h"
#include "parker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

typedef struct client {
    int fd;                    /* -1: a free place */
    double number;
    uint64_t session;          /* 0: none */
    char *in, *out;
    size_t in_len, in_cap, out_len, out_cap;
    size_t scanned;            /* of `in`: bytes known to hold no end of a line */
    bool busy;                 /* a line of it is being answered */
    bool hang_up;
} client;

struct pr_control_socket {
    pr_runtime *rt;
    pthread_t thread;
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t drained;    /* an answer has been read, or a client has gone */
    int listener, wake;
    bool closing, broken;      /* broken: out of descriptors; no new clients until one goes */
    uint64_t actor;
    double next_number;
    client clients[PR_CONTROL_CLIENTS];
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    dev_t device;
    ino_t inode;
};

static void nudge(pr_control_socket *c)
{
    uint64_t one = 1;
    ssize_t wrote = write(c->wake, &one, sizeof one);
    (void)wrote;
}

static bool grow(char **bytes, size_t *cap, size_t need)
{
    size_t to = *cap ? *cap : 1024;
    while (to < need)
        to *= 2;
    char *grown = to == *cap ? *bytes : pr_realloc(*bytes, to);
    if (!grown)
        return false;
    *bytes = grown;
    *cap = to;
    return true;
}

static client *find(pr_control_socket *c, double number)
{
    for (int i = 0; i < PR_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd >= 0 && c->clients[i].number == number)
            return &c->clients[i];
    return NULL;
}

/* --- to the actor. The lock is held: the message path takes none of ours. */

static bool tell(pr_control_socket *c, const char *name, size_t name_len, double number, const char *text, size_t len)
{
    pr_msg *m = c->actor ? pr_msg_new(NULL, pr_wire_size_bytes(name_len) + 9 + (text ? pr_wire_size_bytes(len) : 0)) : NULL;
    if (!m)
        return false;
    uint8_t *at = pr_wire_put_string(m->data, name, name_len);
    *at = PR_TAG_NUMBER;
    memcpy(at + 1, &number, 8);
    if (text)
        pr_wire_put_string(at + 9, text, len);
    m->count = text ? 3 : 2;
    m->kind = PR_MSG_USER;
    m->target = c->actor;
    bool sent = pr_send(c->rt, NULL, m) == PR_OK;
    if (!sent)
        pr_msg_free(NULL, m);
    return sent;
}

static void drop(pr_control_socket *c, client *k)
{
    close(k->fd);
    k->fd = -1;
    c->broken = false;
    if (k->session)
        pr_actor_interrupt(c->rt, NULL, k->session);
    tell(c, "\0gone", 5, k->number, NULL, 0);
    pr_free(k->in);
    pr_free(k->out);
    k->in = k->out = NULL;
    pthread_cond_broadcast(&c->drained);
}

/* Takes whole lines out of what has come. False: the client is to go. */
static bool take_lines(pr_control_socket *c, client *k)
{
    size_t from = 0;
    for (;;) {
        char *end = k->in_len > k->scanned ? memchr(k->in + k->scanned, '\n', k->in_len - k->scanned) : NULL;
        if (!end)
            break;
        size_t len = (size_t)(end - k->in) - from;
        if (len == 1 && k->in[from] == 3) {
            if (k->session)
                pr_actor_interrupt(c->rt, NULL, k->session);
        } else if (k->busy) {
            /* Interrupts behind it are seen: they are the one thing that is looked for beyond the line in hand. */
            for (char *at = end; (at = memchr(at, '\n', (size_t)(k->in + k->in_len - at)));  at++)
                if (at + 2 < k->in + k->in_len && at[1] == 3 && at[2] == '\n') {
                    memmove(at, at + 2, (size_t)(k->in + k->in_len - at - 2));
                    k->in_len -= 2;
                    if (k->session)
                        pr_actor_interrupt(c->rt, NULL, k->session);
                }
            break;
        } else if (tell(c, "\0request", 8, k->number, k->in + from, len)) {
            k->busy = true;
        } else {
            return false;
        }
        from += len + 1;
        k->scanned = from;
    }
    if (from > 0) {
        memmove(k->in, k->in + from, k->in_len - from);
        k->in_len -= from;
        k->scanned = 0;
    } else if (!k->busy) {
        k->scanned = k->in_len;
    }
    return true;
}

static bool read_from(pr_control_socket *c, client *k)
{
    char bytes[16384];
    ssize_t n = recv(k->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0 || !grow(&k->in, &k->in_cap, k->in_len + (size_t)n))
        return false;
    memcpy(k->in + k->in_len, bytes, (size_t)n);
    k->in_len += (size_t)n;
    if (!take_lines(c, k))
        return false;
    if (k->in_len <= PR_CONTROL_LINE || k->busy)
        return true;
    static const char text[] = "{\"ok\":false,\"error\":\"a line of more than 1 MB\"}\n";
    ssize_t sent = send(k->fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);   /* it may not be reading */
    (void)sent;
    return false;
}

static bool write_to(pr_control_socket *c, client *k)
{
    ssize_t n = send(k->fd, k->out, k->out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    memmove(k->out, k->out + n, k->out_len - (size_t)n);
    k->out_len -= (size_t)n;
    pthread_cond_broadcast(&c->drained);
    return true;
}

static void accept_one(pr_control_socket *c)
{
    /* cppcheck-suppress nullPointer ; nobody wants the address */
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        c->broken = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return;
    }
    for (int i = 0; i < PR_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd < 0) {
            memset(&c->clients[i], 0, sizeof c->clients[i]);
            c->clients[i].fd = fd;
            c->clients[i].number = ++c->next_number;
            return;
        }
    static const char text[] = "{\"ok\":false,\"error\":\"too many clients\"}\n";
    ssize_t sent = send(fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
    close(fd);
}

static void *serve(void *control)
{
    pr_control_socket *c = control;
    struct pollfd waits[PR_CONTROL_CLIENTS + 2];
    client *of[PR_CONTROL_CLIENTS];
    pr_memory_here = c->rt->config.memory;   /* the workers' too, which answer */
    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        nfds_t n = 0;
        for (int i = 0; i < PR_CONTROL_CLIENTS; i++) {
            client *k = &c->clients[i];
            if (k->fd < 0)
                continue;
            /* One whose line is being answered may send some more, for an interrupt to come through. */
            bool reads = k->in_len < (k->busy ? 65536 : PR_CONTROL_LINE + 16384);
            of[n] = k;
            waits[n++] = (struct pollfd){k->fd, (short)((reads ? POLLIN : 0) | (k->out_len ? POLLOUT : 0)), 0};
        }
        nfds_t clients = n;
        waits[n++] = (struct pollfd){c->wake, POLLIN, 0};
        waits[n++] = (struct pollfd){c->broken || !c->actor ? -1 : c->listener, POLLIN, 0};
        pthread_mutex_unlock(&c->lock);
        (void)poll(waits, n, -1);   /* failed: nothing is marked, and it tries again */
        pthread_mutex_lock(&c->lock);
        if (waits[clients].revents) {
            uint64_t count;
            ssize_t got = read(c->wake, &count, sizeof count);
            (void)got;
        }
        for (nfds_t i = 0; i < clients; i++) {
            client *k = of[i];
            bool stays = k->fd >= 0;
            if (stays && waits[i].revents & POLLOUT)
                stays = write_to(c, k);
            if (stays && waits[i].revents & POLLIN)
                stays = read_from(c, k);
            else if (stays && waits[i].revents & (POLLHUP | POLLERR | POLLNVAL))
                stays = false;
            else if (stays && k->in_len > 0 && !k->busy)
                stays = take_lines(c, k);   /* what has been waiting for its turn */
            if (k->fd >= 0 && (!stays || (k->hang_up && k->out_len == 0)))
                drop(c, k);
        }
        if (waits[clients + 1].revents)
            accept_one(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* --- any thread */

void pr_control_next(pr_control_socket *c, double number)
{
    pthread_mutex_lock(&c->lock);
    client *k = find(c, number);
    if (k) {
        k->busy = false;
        k->scanned = 0;
        nudge(c);
    }
    pthread_mutex_unlock(&c->lock);
}

bool pr_control_send(pr_control_socket *c, double number, const char *bytes, size_t len)
{
    uint64_t until_ns = pr_now_ns() + PR_CONTROL_PATIENCE_MS * UINT64_C(1000000);
    pthread_mutex_lock(&c->lock);
    client *k = find(c, number);
    while (k && k->out_len > PR_CONTROL_ANSWERS && !c->closing) {
        bool in_time = pr_cond_wait_until(&c->drained, &c->lock, until_ns);
        k = find(c, number);
        if (!in_time && k && k->out_len > PR_CONTROL_ANSWERS) {
            shutdown(k->fd, SHUT_RDWR);   /* its hang-up wakes the thread, which drops it */
            k = NULL;
        }
    }
    bool sent = k && grow(&k->out, &k->out_cap, k->out_len + len);
    if (sent) {
        memcpy(k->out + k->out_len, bytes, len);
        if (k->out_len == 0)
            nudge(c);
        k->out_len += len;
    }
    pthread_mutex_unlock(&c->lock);
    return sent;
}

void pr_control_bind(pr_control_socket *c, double number, uint64_t session)
{
    pthread_mutex_lock(&c->lock);
    client *k = find(c, number);
    if (k)
        k->session = session;
    pthread_mutex_unlock(&c->lock);
}

void pr_control_hang_up(pr_control_socket *c, double number)
{
    pthread_mutex_lock(&c->lock);
    client *k = find(c, number);
    if (k)
        k->hang_up = true;
    nudge(c);
    pthread_mutex_unlock(&c->lock);
}

void pr_control_anew(pr_control_socket *c)
{
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < PR_CONTROL_CLIENTS; i++)
        c->clients[i].hang_up = c->clients[i].fd >= 0;
    nudge(c);
    pthread_mutex_unlock(&c->lock);
}

/* --- its life */

static int listen_at(pr_control_socket *c, char *error, size_t cap)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat at;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, c->path, strlen(c->path) + 1);
    if (fd >= 0 && lstat(c->path, &at) == 0 && S_ISSOCK(at.st_mode)) {
        int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (probe >= 0 && connect(probe, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
            unlink(c->path);   /* left behind by a process that is no more */
        if (probe >= 0)
            close(probe);
    }
    /* Nobody else may connect, not even between bind and chmod: the mode of the socket is that of its descriptor. */
    if (fd < 0 || fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(c->path, 0600) != 0 || listen(fd, 64) != 0 || lstat(c->path, &at) != 0) {
        char text[PR_ERROR_TEXT];
        snprintf(error, cap, "control: cannot listen at %s: %s", c->path, pr_error_text(errno, text));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    c->device = at.st_dev;
    c->inode = at.st_ino;
    return fd;
}

/* 0, or an errno. */
static int start(pr_control_socket *c)
{
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status = c->wake < 0 ? errno : pthread_mutex_init(&c->lock, NULL);
    if (status == 0)
        status = pr_cond_init(&c->drained);
    return status != 0 ? status : pthread_create(&c->thread, NULL, serve, c);
}

pr_control_socket *pr_control_open(pr_runtime *rt, const char *path, char *error, size_t cap)
{
    pr_control_socket *c = pr_zalloc(sizeof *c);
    if (!c) {
        snprintf(error, cap, "control: not enough memory");
        return NULL;
    }
    c->rt = rt;
    c->listener = c->wake = -1;
    for (int i = 0; i < PR_CONTROL_CLIENTS; i++)
        c->clients[i].fd = -1;
    if (strlen(path) < 1 || strlen(path) >= sizeof c->path) {
        snprintf(error, cap, "control: a path of 1 to %zu bytes expected, got %zu", sizeof c->path - 1, strlen(path));
        pr_free(c);
        return NULL;
    }
    memcpy(c->path, path, strlen(path));
    c->listener = listen_at(c, error, cap);
    bool opened = c->listener >= 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int problem = opened ? start(c) : 0;
    if (problem != 0) {
        char text[PR_ERROR_TEXT];
        snprintf(error, cap, "control: %s", pr_error_text(problem, text));
        unlink(c->path);
        opened = false;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (opened)
        return c;
    if (c->listener >= 0)
        close(c->listener);
    if (c->wake >= 0)
        close(c->wake);
    pr_free(c);
    return NULL;
}

void pr_control_serve(pr_control_socket *c, uint64_t actor)
{
    pthread_mutex_lock(&c->lock);
    c->actor = actor;
    nudge(c);
    pthread_mutex_unlock(&c->lock);
}

/* Its thread, its file, its clients. Once. */
static void end(pr_control_socket *c)
{
    struct stat at;
    pthread_join(c->thread, NULL);
    /* Only our own: another process may have put its socket there. */
    if (lstat(c->path, &at) == 0 && at.st_dev == c->device && at.st_ino == c->inode)
        unlink(c->path);
    for (int i = 0; i < PR_CONTROL_CLIENTS; i++)
        if (c->clients[i].fd >= 0) {
            if (c->clients[i].out_len > 0)
                write_to(c, &c->clients[i]);
            close(c->clients[i].fd);
            c->clients[i].fd = -1;
            pr_free(c->clients[i].in);
            pr_free(c->clients[i].out);
        }
    close(c->listener);
}

void pr_control_close(pr_control_socket *c, bool free_it)
{
    pthread_mutex_lock(&c->lock);
    bool closed = c->closing;
    c->closing = true;
    nudge(c);
    pthread_cond_broadcast(&c->drained);
    pthread_mutex_unlock(&c->lock);
    if (!closed)
        end(c);
    if (!free_it)
        return;
    close(c->wake);
    pthread_cond_destroy(&c->drained);
    pthread_mutex_destroy(&c->lock);
    pr_free(c);
}
