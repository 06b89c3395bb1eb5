/* Actors in C, and spawning from C.
 *
 * To the core they are actors like others: pinned to a worker by their first turn, with children, timers and ties of their
 * own, supervised by the same rules. What a life has (its behaviour and its state) hangs off pr_extra. A behaviour is the
 * bytes of its struct, interned like carried code; no worker has to load it. */
#include "embed.h"

#include "../lua/host.h"
#include "../send_timer.h"

#include <string.h>

typedef struct life {
    pierrot_behaviour behaviour;
    _Alignas(16) unsigned char state[];
} life;

/* One call of a handler. */
struct pierrot_actor {
    pierrot *p;
    pr_worker *w;
    pr_actor *a;
    life *life;
    const char *text;       /* of pierrot_actor_fail; within `said` */
    char said[400];
};

static const char magic[8] = "\0native";

void pierrot_behaviour_init(pierrot_behaviour *behaviour, size_t size)
{
    if (!behaviour || size < sizeof behaviour->size)
        return;
    memset(behaviour, 0, size);
    behaviour->size = size;
}

/* The behaviour as the runtime holds it, with a reference for the caller; NULL: no memory. */
static pr_behaviour *intern(pierrot *p, const pierrot_behaviour *b)
{
    struct { char magic[sizeof magic]; pierrot_behaviour b; } bytes;
    memset(&bytes, 0, sizeof bytes);   /* padding counts: equal behaviours are one */
    memcpy(bytes.magic, magic, sizeof magic);
    memcpy(&bytes.b, b, b->size < sizeof bytes.b ? b->size : sizeof bytes.b);
    const char *name = bytes.b.name ? bytes.b.name : "native";
    bytes.b.name = NULL;
    bytes.b.size = sizeof bytes.b;
    return pr_behaviour_intern(&p->rt->behaviours, &bytes, sizeof bytes, name);
}

static void behaviour_of(const pr_behaviour *b, pierrot_behaviour *out)
{
    memcpy(out, b->bytes + sizeof magic, sizeof *out);
}

/* --- handlers */

static pierrot_actor call_of(pr_worker *w, pr_actor *a)
{
    return (pierrot_actor){.p = w->rt->config.host, .w = w, .a = a, .life = a->extra ? a->extra->native : NULL};
}

/* The actor has failed: by what it has said, or by the status. */
static pr_outcome failed(const pierrot_actor *self, pierrot_status status)
{
    pr_worker *w = self->w;
    char name[64];
    uint64_t id = PR_GET(self->a->id);
    const char *text = self->text ? self->text : pierrot_status_text(status);
    size_t len = strlen(text), name_len = pr_actor_behaviour_name(w->rt, id, name, sizeof name);
    pr_msg *m = pr_msg_new(&w->pool, pr_wire_size_bytes(6) + pr_wire_size_bytes(len) + 2 + 9 + pr_wire_size_bytes(name_len));
    if (m) {   /* kind, message, traceback, cause, actor, behaviour: see PR_MSG_ERROR */
        uint8_t *at = pr_wire_put_string(m->data, "failed", 6);
        at = pr_wire_put_string(at, text, len);
        at[0] = at[1] = PR_TAG_NIL;
        at[2] = PR_TAG_REF;
        memcpy(at + 3, &id, 8);
        pr_wire_put_string(at + 11, name, name_len);
        m->count = 6;
        m->kind = PR_MSG_ERROR;
    }
    w->failure = m;
    return PR_FAILED;
}

static void read_values(const pr_msg *m, pierrot_cursor *c)
{
    if (m)
        pr_envelope_read(m, c);
    else
        pierrot_message_read(NULL, c);
}

static pr_outcome start(pr_worker *w, pr_actor *a)
{
    pierrot_behaviour b;
    behaviour_of(PR_GET(a->behaviour), &b);
    pr_extra *extra = pr_actor_extra(a);
    life *l = extra && b.state_size < SIZE_MAX / 2 ? pr_zalloc(sizeof *l + b.state_size) : NULL;
    pierrot_actor self = {.p = w->rt->config.host, .w = w, .a = a, .life = l};
    if (!l)
        return failed(&self, PIERROT_NOMEM);
    l->behaviour = b;
    extra->native = l;
    if (!b.start)
        return PR_DONE;
    pierrot_cursor args;
    read_values(a->start_args, &args);
    pierrot_status status = b.start(&self, &args);
    return status == PIERROT_OK ? PR_DONE : failed(&self, status);
}

static pr_outcome receive(pr_worker *w, pr_actor *a, pr_msg *m)
{
    pierrot_actor self = call_of(w, a);
    if (!self.life->behaviour.receive)
        return PR_UNHANDLED;
    pierrot_cursor values;
    pr_envelope_read(m, &values);
    pierrot_status status = self.life->behaviour.receive(&self, &values);
    return status == PIERROT_OK ? PR_DONE : status == PIERROT_NOTHING ? PR_UNHANDLED : failed(&self, status);
}

/* Never called: none of them suspends. */
static pr_outcome resume(pr_worker *w, pr_actor *a) { (void)w, (void)a; return PR_DONE; }
static void abandon(pr_worker *w, pr_actor *a, void *suspended) { (void)w, (void)a, (void)suspended; }

static pr_outcome stop(pr_worker *w, pr_actor *a, const pr_msg *reason)
{
    pierrot_actor self = call_of(w, a);
    if (!self.life || !self.life->behaviour.stop)
        return PR_DONE;
    pierrot_cursor c;
    pierrot_value text;
    if (reason && reason->kind == PR_MSG_ERROR) {   /* kind, message, ...: its message */
        pr_envelope_read(reason, &c);
        pierrot_next(&c, &text);
        c.items = 1;
    } else if (reason) {
        pr_envelope_read(reason, &c);
    } else {
        static const uint8_t normal[] = {PR_TAG_STRING, 6, 0, 0, 0, 'n', 'o', 'r', 'm', 'a', 'l'};
        c = (pierrot_cursor){.at = normal, .end = normal + sizeof normal, .items = 1};
    }
    self.life->behaviour.stop(&self, &c);
    return PR_DONE;
}

static void release(pr_worker *w, pr_actor *a)
{
    life *l = a->extra ? a->extra->native : NULL;
    (void)w;
    if (!l)
        return;
    a->extra->native = NULL;
    if (l->behaviour.release)
        l->behaviour.release(l->behaviour.context, l->state);
    pr_free(l);
}

/* It may not have run yet. */
static bool traps(pr_worker *w, pr_actor *a)
{
    pierrot_behaviour b;
    (void)w;
    behaviour_of(PR_GET(a->behaviour), &b);
    return b.trap_exit;
}

/* An error object, as lua/pierrot/errors.lua has it: a table with the second of the metatables that travel. */
static pr_msg *reason_of(pr_worker *w, const pr_msg *error)
{
    static const char *const fields[] = {"kind", "message", "traceback", "cause", "actor", "behaviour"};
    enum { METATABLE = 14, ERRORS = 1, BEFORE = 5 };
    pierrot_message *m = pr_message_make(w->rt->config.host);
    if (!m)
        return NULL;
    pierrot_cursor c;
    pierrot_value v, text = {.type = PIERROT_NIL};
    pr_envelope_read(error, &c);
    pierrot_put_map(m);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && pierrot_next(&c, &v); i++) {
        if (i == 1)
            text = v;
        if (i == 3 && v.type == PIERROT_NIL)
            v = text;   /* the cause, unless there is another, is the message */
        if (v.type == PIERROT_NIL)
            continue;
        pierrot_put_text(m, fields[i]);
        pierrot_put_value(m, &v);
    }
    pierrot_put_end(m);
    pr_msg *reason = pr_message_ready(m) == PIERROT_OK ? pr_msg_new(&w->pool, m->size + 2) : NULL;
    if (reason) {
        uint32_t len = (uint32_t)(m->size + 2 - BEFORE);
        reason->data[0] = PR_TAG_BLOB;
        memcpy(reason->data + 1, &len, 4);
        reason->data[BEFORE] = METATABLE;
        reason->data[BEFORE + 1] = ERRORS;
        memcpy(reason->data + BEFORE + 2, m->bytes + BEFORE, m->size - BEFORE);
        reason->count = 1;
    }
    pierrot_message_free(m);
    return reason;
}

static const pr_kin_ops kin_ops = {.traps = traps, .reason = reason_of};
const pr_ops pr_native_ops = {start, receive, resume, stop, abandon, release, NULL, &kin_ops};

/* --- spawning */

pierrot_status pr_host_spawn(pierrot *p, pr_worker *w, const pr_ops *ops, pr_behaviour *b, const pierrot_message *args,
                             const pierrot_spawn_options *options, pierrot_ref *ref)
{
    pierrot_spawn_options o;
    pierrot_spawn_options_init(&o, sizeof o);
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    size_t name_len = o.name ? strnlen(o.name, PR_REGISTRY_NAME_MAX + 1) : 1;
    pierrot_status status = pr_message_ready(args);
    const pr_dispatcher *d = o.dispatcher ? pr_dispatcher_named(p->rt, o.dispatcher, strlen(o.dispatcher)) : &p->rt->dispatchers[0];
    if (status == PIERROT_OK && (name_len < 1 || name_len > PR_REGISTRY_NAME_MAX || !d || o.worker > d->count ||
                                 (unsigned)o.restart > PIERROT_TEMPORARY || (unsigned)o.overflow > PIERROT_DROP_OLDEST))
        status = PIERROT_INVALID;
    pr_msg *e = NULL;
    if (status == PIERROT_OK && args && !(e = w ? pr_message_envelope(&w->pool, args) : pr_host_envelope(p, args)))
        status = PIERROT_NOMEM;
    pr_spawn s = {.ops = ops, .behaviour = b, .name = o.name, .name_len = name_len, .worker = o.worker,
                  .dispatcher = d ? (uint8_t)d->index : 0, .restart = (uint8_t)o.restart,
                  .args = e, .has_shutdown = o.shutdown_ms != PR_SHUTDOWN_MS, .shutdown_ms = o.shutdown_ms,
                  .timeslice_ns = o.timeslice_us < UINT64_MAX / 1000 ? o.timeslice_us * 1000 : 0};
    pr_box_spec spec = {.capacity = o.mailbox, .overflow = (uint8_t)o.overflow};
    if (status == PIERROT_OK && o.mailbox && !(s.box = pr_box_new(p->rt, &spec)))
        status = PIERROT_NOMEM;
    uint64_t id = 0;
    if (status == PIERROT_OK) {
        pr_status spawned = pr_actor_spawn(p->rt, w, &s, &id);
        status = pr_public_status(spawned);
    }
    if (ref)
        ref->id = status == PIERROT_OK || status == PIERROT_EXISTS ? id : 0;
    if (status != PIERROT_OK) {
        if (s.box)
            pr_box_discard(p->rt, s.box);
        if (e)
            pr_msg_free(w ? &w->pool : NULL, e);
        pr_behaviour_drop(&p->rt->behaviours, b);
    }
    return status;
}

static pierrot_status spawn_native(pierrot *p, pr_worker *w, const pierrot_behaviour *behaviour, const pierrot_message *args,
                                   const pierrot_spawn_options *options, pierrot_ref *ref)
{
    if (!p || !behaviour || behaviour->size < sizeof behaviour->size)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    pr_behaviour *b = intern(p, behaviour);
    pierrot_status status = b ? pr_host_spawn(p, w, &pr_native_ops, b, args, options, ref) : PIERROT_NOMEM;
    pr_leave(before);
    return status;
}

pierrot_status pierrot_spawn(pierrot *p, const pierrot_behaviour *behaviour, const pierrot_message *args,
                             const pierrot_spawn_options *options, pierrot_ref *ref)
{
    return spawn_native(p, NULL, behaviour, args, options, ref);
}

/* Code for Lua: a mark, and what init.lua's hook `load` reads behind it. */
static pierrot_status spawn_lua(pierrot *p, pr_worker *w, const char *mark, size_t mark_size, const char *name, const char *code,
                                size_t code_size, const pierrot_message *args, const pierrot_spawn_options *options,
                                pierrot_ref *ref)
{
    size_t name_size = strlen(name) + (code ? 1 : 0), size = mark_size + name_size + code_size;
    pr_memory *before = pr_enter(p);
    pr_behaviour *b = NULL;
    char *bytes = code_size < PR_MSG_MAX ? pr_alloc(size) : NULL;
    if (bytes) {
        memcpy(bytes, mark, mark_size);
        memcpy(bytes + mark_size, name, name_size);
        if (code_size)
            memcpy(bytes + mark_size + name_size, code, code_size);
        b = pr_behaviour_intern(&p->rt->behaviours, bytes, size, name);
        pr_free(bytes);
    }
    pierrot_status status = b ? pr_host_spawn(p, w, &pr_lua_ops, b, args, options, ref) : PIERROT_NOMEM;
    pr_leave(before);
    return status;
}

#define MARK(name) "\0" name "\0", sizeof "\0" name "\0" - 1

pierrot_status pierrot_spawn_file(pierrot *p, const char *path, const pierrot_message *args,
                                  const pierrot_spawn_options *options, pierrot_ref *ref)
{
    return p && path ? spawn_lua(p, NULL, MARK("script"), path, NULL, 0, args, options, ref) : PIERROT_INVALID;
}

pierrot_status pierrot_spawn_string(pierrot *p, const char *code, size_t size, const char *chunkname, const pierrot_message *args,
                                    const pierrot_spawn_options *options, pierrot_ref *ref)
{
    if (!p || !code)
        return PIERROT_INVALID;
    return spawn_lua(p, NULL, MARK("chunk"), chunkname ? chunkname : "string", code, size, args, options, ref);
}

static pierrot_status spawn_module(pierrot *p, pr_worker *w, const char *module, const pierrot_message *args,
                                   const pierrot_spawn_options *options, pierrot_ref *ref)
{
    if (!p || !module || !*module)
        return PIERROT_INVALID;
    pr_behaviour *b = pr_native_named(p->rt, module, strlen(module));
    if (!b)
        return spawn_lua(p, w, MARK("module"), module, NULL, 0, args, options, ref);
    pr_memory *before = pr_enter(p);
    pierrot_status status = pr_host_spawn(p, w, &pr_native_ops, b, args, options, ref);
    pr_leave(before);
    return status;
}

pierrot_status pierrot_spawn_module(pierrot *p, const char *module, const pierrot_message *args,
                                    const pierrot_spawn_options *options, pierrot_ref *ref)
{
    return spawn_module(p, NULL, module, args, options, ref);
}

/* --- names of behaviours */

static pr_definition *definition_of(const pierrot *p, const char *name, size_t len)
{
    pr_definition *d = p->definitions;
    while (d && !(strncmp(d->name, name, len) == 0 && d->name[len] == 0))
        d = d->next;
    return d;
}

pr_behaviour *pr_native_named(pr_runtime *rt, const char *name, size_t len)
{
    pierrot *p = rt->config.host;
    pthread_mutex_lock(&p->definitions_lock);
    const pr_definition *d = definition_of(p, name, len);
    pr_behaviour *b = d ? d->behaviour : NULL;
    if (b)
        pr_behaviour_hold(b);
    pthread_mutex_unlock(&p->definitions_lock);
    return b;
}

pierrot_status pierrot_define(pierrot *p, const char *name, const pierrot_behaviour *behaviour)
{
    if (!p || !name || !*name || !behaviour || behaviour->size < sizeof behaviour->size)
        return PIERROT_INVALID;
    pr_memory *before = pr_enter(p);
    size_t len = strlen(name);
    pierrot_status status = PIERROT_OK;
    pierrot_behaviour named;
    pierrot_behaviour_init(&named, sizeof named);
    memcpy(&named, behaviour, behaviour->size < sizeof named ? behaviour->size : sizeof named);
    if (!named.name)
        named.name = name;
    pr_definition *d = pr_alloc(sizeof *d + len + 1);
    pr_behaviour *b = d ? intern(p, &named) : NULL;
    if (!b) {
        status = PIERROT_NOMEM;
    } else {
        memcpy(d->name, name, len + 1);
        d->behaviour = b;
        pthread_mutex_lock(&p->definitions_lock);
        if (definition_of(p, name, len)) {
            status = PIERROT_EXISTS;
        } else {
            d->next = p->definitions;
            p->definitions = d;
        }
        pthread_mutex_unlock(&p->definitions_lock);
        if (status != PIERROT_OK)
            pr_behaviour_drop(&p->rt->behaviours, b);
    }
    if (status != PIERROT_OK)
        pr_free(d);
    pr_leave(before);
    return status;
}

/* --- what handlers call */

pierrot_ref pierrot_actor_ref(pierrot_actor *self) { return (pierrot_ref){PR_GET(self->a->id)}; }
pierrot_ref pierrot_actor_parent(pierrot_actor *self) { return (pierrot_ref){PR_GET(self->a->parent)}; }
pierrot_ref pierrot_actor_sender(pierrot_actor *self) { return (pierrot_ref){self->w->hand ? self->w->hand->sender : 0}; }
void *pierrot_actor_state(pierrot_actor *self) { return self->life->behaviour.state_size ? self->life->state : NULL; }
void *pierrot_actor_context(pierrot_actor *self) { return self->life->behaviour.context; }
pierrot *pierrot_actor_runtime(pierrot_actor *self) { return self->p; }

pierrot_message *pierrot_actor_message(pierrot_actor *self)
{
    pierrot_message **m = &self->p->scratch[self->w->index];
    if (!*m)
        *m = pierrot_message_new(self->p);
    if (*m)
        pierrot_message_clear(*m);
    return *m;
}

pierrot_status pierrot_actor_tell(pierrot_actor *self, pierrot_ref to, const pierrot_message *m)
{
    return pr_host_send(self->p, self->w, PR_GET(self->a->id), 0, to, m);
}

bool pierrot_actor_is_asked(pierrot_actor *self) { return self->w->hand && self->w->hand->ask != 0; }

pierrot_status pierrot_actor_reply(pierrot_actor *self, const pierrot_message *m)
{
    pr_msg *hand = self->w->hand;
    pierrot_status status = pr_message_ready(m);
    if (!hand || hand->ask == 0)
        return PIERROT_NOTHING;
    if (status != PIERROT_OK)
        return status;
    pr_msg *e = pr_message_envelope(&self->w->pool, m);
    if (!e)
        return PIERROT_NOMEM;
    e->kind = PR_MSG_REPLY;
    e->target = hand->sender;
    e->sender = PR_GET(self->a->id);
    e->ask = hand->ask;
    hand->ask = 0;
    pr_reply(self->p->rt, self->w, e);
    return PIERROT_OK;
}

pierrot_status pierrot_actor_defer(pierrot_actor *self, pierrot_request *request)
{
    pr_msg *hand = self->w->hand;
    if (!hand || hand->ask == 0)
        return PIERROT_NOTHING;
    pr_asker_waits_for(self->p->rt, hand->sender, hand->target, 0);
    *request = (pierrot_request){{hand->sender}, hand->ask};
    hand->ask = 0;
    return PIERROT_OK;
}

pierrot_status pierrot_actor_forward(pierrot_actor *self, pierrot_ref to)
{
    pr_worker *w = self->w;
    pr_msg *hand = w->hand;
    if (!hand)
        return PIERROT_NOTHING;
    if (!pr_id_valid(to.id) || pr_monitor_valid(to.id))
        return to.id == 0 ? PIERROT_DEAD : PIERROT_INVALID;
    pr_msg *copy = pr_msg_copy(&w->pool, hand);
    if (!copy)
        return PIERROT_NOMEM;
    copy->target = to.id;
    copy->taken = copy->ordered = copy->timed = 0;
    if (hand->ask)
        pr_asker_waits_for(w->rt, hand->sender, hand->target, to.id);
    pr_status status = pr_send(w->rt, w, copy);
    if (status == PR_OK)
        hand->ask = 0;
    else
        pr_msg_free(&w->pool, copy);
    return pr_public_status(status);
}

pierrot_status pierrot_actor_fail(pierrot_actor *self, const char *text)
{
    size_t len = text ? strnlen(text, sizeof self->said - 1) : 0;
    if (len)
        memcpy(self->said, text, len);
    self->said[len] = 0;
    self->text = self->said;
    return PIERROT_FAILED;
}

pierrot_status pierrot_actor_stop(pierrot_actor *self)
{
    pr_actor *a = self->a;
    a->flags = (uint16_t)(a->flags | PR_FLAG_STOP);
    if (a->restart != PR_RESTART_PERMANENT)
        PR_SET(a->gate, PR_GET(a->gate) | PR_GATE_STOPPING);
    return PIERROT_OK;
}

pierrot_status pierrot_actor_spawn(pierrot_actor *self, const pierrot_behaviour *behaviour, const pierrot_message *args,
                                   const pierrot_spawn_options *options, pierrot_ref *ref)
{
    return spawn_native(self->p, self->w, behaviour, args, options, ref);
}

pierrot_status pierrot_actor_spawn_module(pierrot_actor *self, const char *module, const pierrot_message *args,
                                          const pierrot_spawn_options *options, pierrot_ref *ref)
{
    return spawn_module(self->p, self->w, module, args, options, ref);
}

pierrot_status pierrot_actor_send_after(pierrot_actor *self, uint64_t delay_ms, pierrot_ref to, const pierrot_message *m,
                                        pierrot_timer **timer)
{
    return pr_host_timer(self->p, self->w, PR_GET(self->a->id), delay_ms, 0, to, m, timer);
}

pierrot_status pierrot_actor_send_every(pierrot_actor *self, uint64_t period_ms, pierrot_ref to, const pierrot_message *m,
                                        pierrot_timer **timer)
{
    if (period_ms == 0)
        return PIERROT_INVALID;
    return pr_host_timer(self->p, self->w, PR_GET(self->a->id), period_ms, period_ms, to, m, timer);
}

/* Its end of links and monitors; false: no memory for a table. */
static bool end_of(pierrot_actor *self, pr_end *me)
{
    pr_extra *extra = pr_actor_extra(self->a);
    if (extra)
        *me = (pr_end){self->p->rt, self->w, PR_GET(self->a->id), &extra->ties};
    return extra != NULL;
}

static pierrot_status watchable(pierrot_ref ref)
{
    return ref.id == 0 ? PIERROT_DEAD : !pr_id_valid(ref.id) || pr_monitor_valid(ref.id) ? PIERROT_INVALID : PIERROT_OK;
}

pierrot_status pierrot_actor_monitor(pierrot_actor *self, pierrot_ref ref, pierrot_ref *monitor)
{
    pr_end me;
    uint32_t number;
    pierrot_status status = watchable(ref);
    if (status != PIERROT_OK)
        return status;
    if (!end_of(self, &me) || !pr_monitor(&me, ref.id, &number))
        return PIERROT_NOMEM;
    if (monitor)
        monitor->id = pr_monitor_value(number);
    return PIERROT_OK;
}

pierrot_status pierrot_actor_demonitor(pierrot_actor *self, pierrot_ref monitor)
{
    pr_end me;
    if (!pr_monitor_valid(monitor.id))
        return PIERROT_INVALID;
    return end_of(self, &me) && pr_monitor_cancel(&me, pr_monitor_number(monitor.id)) ? PIERROT_OK : PIERROT_NOTHING;
}

pierrot_status pierrot_actor_link(pierrot_actor *self, pierrot_ref ref)
{
    pr_end me;
    pierrot_status status = watchable(ref);
    return status != PIERROT_OK ? status : end_of(self, &me) && pr_link(&me, ref.id) ? PIERROT_OK : PIERROT_NOMEM;
}

pierrot_status pierrot_actor_unlink(pierrot_actor *self, pierrot_ref ref)
{
    pr_end me;
    pierrot_status status = watchable(ref);
    return status != PIERROT_OK ? status : end_of(self, &me) && pr_unlink(&me, ref.id) ? PIERROT_OK : PIERROT_NOTHING;
}
