/* Names of actors: for people (logs, errors, tostring), and in the registry. Any thread. */
#include "worker.h"

#include <stdio.h>

size_t pr_actor_behaviour_name(pr_runtime *rt, uint64_t id, char *buf, size_t cap)
{
    /* A behaviour is freed under this lock, after the id of its last actor is gone: while the id is found
     * here, what stands in the record is not freed before we leave. */
    pthread_mutex_lock(&rt->behaviours.lock);
    pr_actor *a = pr_actor_find(&rt->actors, id);
    const pr_behaviour *b = a ? PR_GET(a->behaviour) : NULL;
    const char *name = b ? (b->own_name ? b->own_name : b->name) : !a ? "dead" : a->kind == PR_KIND_PORT ? "outside" : "native";
    size_t n = strnlen(name, cap - 1);
    memcpy(buf, name, n);
    buf[n] = 0;
    pthread_mutex_unlock(&rt->behaviours.lock);
    return n;
}

bool pr_actor_version(pr_runtime *rt, uint64_t id, char *buf, size_t cap)
{
    bool number = false;
    buf[0] = 0;
    pthread_mutex_lock(&rt->behaviours.lock);   /* as above */
    pr_actor *a = pr_actor_find(&rt->actors, id);
    const pr_behaviour *b = a ? PR_GET(a->behaviour) : NULL;
    if (b)
        number = pr_behaviour_version_locked(b, buf, cap);
    pthread_mutex_unlock(&rt->behaviours.lock);
    return number;
}

pr_status pr_name_register(pr_runtime *rt, const char *name, size_t len, uint64_t id, uint64_t *holder)
{
    pr_actor *a = pr_actor_find(&rt->actors, id);
    if (!a)
        return PR_DEAD;
    int put = pr_registry_put(&rt->names, name, len, id, holder);
    if (put != PR_REGISTRY_OK)
        return put == PR_REGISTRY_EXISTS ? PR_EXISTS : PR_NOMEM;
    /* Pairs with die(): either it sees `named`, or we see that the id is gone. */
    atomic_fetch_or_explicit(&a->named, PR_NAMED, memory_order_seq_cst);
    if (atomic_load_explicit(&a->id, memory_order_seq_cst) != id) {
        pr_registry_remove(&rt->names, name, len, id);
        return PR_DEAD;
    }
    return PR_OK;
}

pr_status pr_group_join(pr_runtime *rt, const char *name, size_t len, uint64_t id)
{
    pr_actor *a = pr_actor_find(&rt->actors, id);
    if (!a)
        return PR_DEAD;
    int joined = pr_groups_join(&rt->groups, name, len, id);
    if (joined != PR_GROUP_OK)
        return joined == PR_GROUP_MEMBER ? PR_EXISTS : PR_NOMEM;
    /* As above, with die() and pr_port_close. */
    atomic_fetch_or_explicit(&a->named, PR_IN_GROUPS, memory_order_seq_cst);
    if (atomic_load_explicit(&a->id, memory_order_seq_cst) != id) {
        pr_groups_leave(&rt->groups, name, len, id);
        return PR_DEAD;
    }
    return PR_OK;
}

void pr_actor_unname(pr_runtime *rt, pr_actor *a, uint64_t id)
{
    uint8_t named = atomic_load_explicit(&a->named, memory_order_seq_cst);
    if (named & PR_NAMED)
        pr_registry_remove_id(&rt->names, id);
    if (named & PR_IN_GROUPS)
        pr_groups_leave_all(&rt->groups, id);
    if (named & PR_SUBSCRIBED)
        pr_event_unsubscribe_all(rt, id);
}

size_t pr_actor_describe(pr_runtime *rt, uint64_t id, char *buf, size_t cap)
{
    char name[64], registered[64];
    pr_actor_behaviour_name(rt, id, name, sizeof name);
    size_t len = pr_registry_name_of(&rt->names, id, registered, sizeof registered - 1);
    registered[len < sizeof registered ? len : sizeof registered - 1] = 0;
    int n = len ? snprintf(buf, cap, "actor \"%s\" (%s, %u.%u)", registered, name, pr_id_slot(id), pr_id_generation(id))
                : snprintf(buf, cap, "actor %u.%u (%s)", pr_id_slot(id), pr_id_generation(id), name);
    return n < 0 ? 0 : (size_t)n < cap ? (size_t)n : cap - 1;
}
