/* Groups: named sets of actors, for publishing to all of them. An actor may be in any number of groups; a group is
 * there while it has members. What an actor has joined ends with it (see die() and pr_port_close).
 *
 * Any thread; one mutex, held for a look-up or for copying a list of members. Members stand in the order of joining. */
#ifndef PR_GROUPS_H
#define PR_GROUPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PR_GROUP_NAME_MAX = 255 };
enum { PR_GROUP_OK, PR_GROUP_MEMBER, PR_GROUP_NOMEM };

struct pr_group;
struct pr_membership;

typedef struct pr_groups {
    pthread_mutex_t lock;              /* guards what follows */
    struct pr_group **by_name;
    struct pr_membership **by_id;      /* the second half of the same block */
    size_t bucket_count;               /* of each; a power of two */
    size_t group_count, member_count;
} pr_groups;

/* 0, or nonzero without memory: then there is nothing to destroy. */
int pr_groups_init(pr_groups *g);
void pr_groups_destroy(pr_groups *g);
/* Names are 1 to PR_GROUP_NAME_MAX bytes of any value. PR_GROUP_MEMBER: it is in there already. */
int pr_groups_join(pr_groups *g, const char *name, size_t len, uint64_t id);
/* Whether it was in there. */
bool pr_groups_leave(pr_groups *g, const char *name, size_t len, uint64_t id);
void pr_groups_leave_all(pr_groups *g, uint64_t id);
/* The members in a block for pr_free, their number in *count; NULL: none (*count is 0) or no memory (it is not). */
uint64_t *pr_groups_members(pr_groups *g, const char *name, size_t len, size_t *count);
/* How many memberships there are: an actor in two groups has two. */
size_t pr_groups_count(pr_groups *g);

#endif
