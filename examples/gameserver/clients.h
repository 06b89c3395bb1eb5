/* The clients, by their addresses, and the socket through which they talk: UDP, one line of text in each datagram.
 *
 *     join                    joined ID X Y
 *     move NUMBER DX DY       moved NUMBER X Y HEALTH, or: no NUMBER REASON
 *     leave                   bye REASON; also when the server, or the player's idleness, ends it
 *                             sees TICK ID X Y ID X Y ...   ten times a second: who is near
 *
 * All of it is the host's thread's. */
#ifndef CLIENTS_H
#define CLIENTS_H

#include <netinet/in.h>
#include <pierrot.h>

enum { CLIENTS_MOST = 1024 };

typedef struct client {
    struct sockaddr_in address;
    uint32_t life;               /* counts who has had this place: an answer to the one before is nobody's */
    uint32_t entity;             /* 0: this place is free */
    pierrot_ref player;
    int16_t next;                /* in its bucket, or among the free ones; -1 ends */
} client;

typedef struct clients {
    int fd;
    client all[CLIENTS_MOST];
    int16_t buckets[CLIENTS_MOST], free;
    uint32_t count;
    uint64_t received, sent, unsent;   /* datagrams; unsent: the socket was full, or the address bad */
} clients;

/* Opens the socket, on 127.0.0.1 unless `open_to_all`; port 0: any. Returns the port, or -1, and errno says why. */
int clients_open(clients *c, uint16_t port, bool open_to_all);
void clients_close(clients *c);

/* The next datagram as a string, or false: there is none now. */
bool clients_receive(clients *c, char *line, size_t size, struct sockaddr_in *from);
void clients_send(clients *c, const struct sockaddr_in *to, const char *format, ...) __attribute__((format(printf, 3, 4)));

client *clients_find(clients *c, const struct sockaddr_in *address);   /* NULL: nobody */
client *clients_add(clients *c, const struct sockaddr_in *address);    /* NULL: there are too many. Set its entity */
void clients_remove(clients *c, client *who);

#endif
