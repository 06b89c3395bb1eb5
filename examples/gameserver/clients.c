/* See clients.h. */
#include "clients.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int clients_open(clients *c, uint16_t port, bool open_to_all)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr = {htonl(open_to_all ? INADDR_ANY : INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int room = 4 << 20;   /* for what comes in between two ticks */
    memset(c, 0, sizeof *c);
    for (int i = 0; i < CLIENTS_MOST; i++) {
        c->buckets[i] = -1;
        c->all[i].next = (int16_t)(i + 1 < CLIENTS_MOST ? i + 1 : -1);
    }
    c->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return -1;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bind(c->fd, (struct sockaddr *)&address, sizeof address) != 0 || getsockname(c->fd, (struct sockaddr *)&address, &size) != 0) {
        int why = errno;
        close(c->fd);
        errno = why;
        return -1;
    }
    return ntohs(address.sin_port);
}

void clients_close(clients *c) { close(c->fd); }

bool clients_receive(clients *c, char *line, size_t size, struct sockaddr_in *from)
{
    socklen_t from_size = sizeof *from;
    ssize_t n;
    do
        n = recvfrom(c->fd, line, size - 1, 0, (struct sockaddr *)from, &from_size);
    while (n < 0 && (errno == EINTR || errno == ECONNREFUSED));   /* refused: what was sent before, to one who has gone */
    if (n < 0)
        return false;
    line[n] = 0;
    c->received++;
    return true;
}

void clients_send(clients *c, const struct sockaddr_in *to, const char *format, ...)
{
    char line[1200];
    va_list values;
    va_start(values, format);
    int n = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    size_t size = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (sendto(c->fd, line, size, 0, (const struct sockaddr *)to, sizeof *to) < 0)
        c->unsent++;   /* as if lost on the way: clients ask again */
    else
        c->sent++;
}

static int16_t *bucket_of(clients *c, const struct sockaddr_in *address)
{
    uint32_t key = address->sin_addr.s_addr * UINT32_C(0x9e3779b1) ^ address->sin_port * UINT32_C(0x85ebca6b);
    return &c->buckets[(key ^ key >> 15) % CLIENTS_MOST];
}

client *clients_find(clients *c, const struct sockaddr_in *address)
{
    for (int16_t i = *bucket_of(c, address); i >= 0; i = c->all[i].next)
        if (c->all[i].address.sin_addr.s_addr == address->sin_addr.s_addr && c->all[i].address.sin_port == address->sin_port)
            return &c->all[i];
    return NULL;
}

client *clients_add(clients *c, const struct sockaddr_in *address)
{
    if (c->free < 0)
        return NULL;
    int16_t at = c->free, *bucket = bucket_of(c, address);
    client *who = &c->all[at];
    c->free = who->next;
    *who = (client){.address = *address, .life = who->life + 1, .next = *bucket};
    *bucket = at;
    c->count++;
    return who;
}

void clients_remove(clients *c, client *who)
{
    int16_t at = (int16_t)(who - c->all), *link = bucket_of(c, &who->address);
    while (*link != at)
        link = &c->all[*link].next;
    *link = who->next;
    who->entity = 0;
    who->next = c->free;
    c->free = at;
    c->count--;
}
