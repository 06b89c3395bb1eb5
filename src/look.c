/* See look.h. */
#include "look.h"

#include "box.h"
#include "life.h"

#include <string.h>

enum { PLACE = 256, KINDS = 3 };

pr_status pr_look(pr_runtime *rt, pr_worker *w, uint64_t target, uint64_t looker, bool ties)
{
    pr_msg *m = pr_msg_new(w ? &w->pool : NULL, 0);
    if (!m)
        return PR_NOMEM;
    m->kind = PR_MSG_LOOK;
    m->target = target;
    m->sender = looker;
    m->ask = ties;
    pr_status status = pr_control(rt, w, m);
    if (status != PR_OK)
        pr_msg_free(w ? &w->pool : NULL, m);
    return status;
}

typedef struct next_place {
    pr_worker *w;
    pr_actor *a;
    char *place;
} next_place;

static void begins_at(void *context, const pr_msg *m)
{
    next_place *n = context;
    if (m->kind == PR_MSG_USER && n->a->ops->kin && n->a->ops->kin->place)
        n->a->ops->kin->place(n->w, n->a, m, n->place, PLACE);
}

static void find_place(pr_worker *w, pr_actor *a, char *place)
{
    const pr_wait *wait = a->flags & PR_FLAG_SUSPENDED ? a->wait : NULL;
    if (!wait && pr_actor_reentrant(a))
        wait = a->extra->parked.waiting.first;
    if (wait && wait->suspended && a->ops->where) {
        a->ops->where(w, wait->suspended, place, PLACE);
    } else if (!wait && !(a->flags & (PR_FLAG_ENDING | PR_FLAG_NEW))) {
        next_place n = {w, a, place};
        if (a->user.head)
            begins_at(&n, a->user.head);
        else if (PR_GET(a->gate) & PR_GATE_BOXED)
            pr_box_show_first(w, a, begins_at, &n);
        if (!place[0] && PR_GET(a->handled) > 0 && a->ops->kin && a->ops->kin->place)
            a->ops->kin->place(w, a, NULL, place, PLACE);
    }
}

static uint8_t *put_number(uint8_t *at, double value)
{
    *at++ = PR_TAG_NUMBER;
    memcpy(at, &value, 8);
    return at + 8;
}

static uint8_t *put_ref(uint8_t *at, uint64_t id)
{
    *at++ = PR_TAG_REF;
    memcpy(at, &id, 8);
    return at + 8;
}

void pr_look_told(pr_worker *w, pr_actor *a, pr_msg *m)
{
    static const uint8_t kinds[KINDS] = {PR_MSG_LINK, PR_MSG_WATCHING, PR_MSG_MONITOR};
    char place[PLACE] = "";
    uint64_t to = m->sender, others[KINDS][PR_LOOK_TIES];
    uint32_t counts[KINDS] = {0}, values = 3;
    bool ties = m->ask;
    uint8_t bytes[64 + PLACE + 9 * KINDS * (1 + PR_LOOK_TIES)], *at = bytes;
    pr_msg_free(&w->pool, m);
    find_place(w, a, place);
    at = pr_wire_put_string(at, "\0seen", 5);
    at = put_ref(at, pr_actor_id(a));
    if (place[0])
        at = pr_wire_put_string(at, place, strlen(place));
    else
        *at++ = PR_TAG_NIL;
    for (int k = 0; ties && k < KINDS; k++, values++) {
        counts[k] = a->extra ? pr_ties_list(&a->extra->ties, kinds[k], others[k], PR_LOOK_TIES) : 0;
        at = put_number(at, counts[k]);
    }
    for (int k = 0; k < KINDS; k++)
        for (uint32_t i = 0; i < counts[k] && i < PR_LOOK_TIES; i++, values++)
            at = put_ref(at, others[k][i]);
    pr_msg *answer = pr_msg_new(&w->pool, (size_t)(at - bytes));
    if (!answer)
        return;   /* the next look may find memory */
    memcpy(answer->data, bytes, (size_t)(at - bytes));
    answer->count = (uint16_t)values;
    answer->kind = PR_MSG_USER;
    answer->target = to;
    answer->sender = 0;
    if (pr_send(w->rt, w, answer) != PR_OK)
        pr_msg_free(&w->pool, answer);
}
