/* The C library's messages: what a program puts is what it reads again, whatever it is and in whatever order it is put, and
 * misuse is told and leaves everything in order. An input is a program of puts; a list of them is kept beside, as the model.
 * What is read is put into a second message, by values, and read again. */
#include "fuzz.h"

#include "../../src/embed/embed.h"

#include <math.h>

enum { MOST = 2000 };

enum op { NIL, BOOLEAN, NUMBER, INTEGER, UNSIGNED, STRING, REF, LIST, MAP, END };

typedef struct put {
    enum op op;
    uint64_t bits;
    double number;
    const uint8_t *bytes;
    size_t size;
} put;

static pierrot *rt;
static put puts_[MOST];
static int count;

static pierrot_status do_put(pierrot_message *m, const put *p)
{
    switch (p->op) {
    case NIL: return pierrot_put_nil(m);
    case BOOLEAN: return pierrot_put_boolean(m, p->bits & 1);
    case NUMBER: return pierrot_put_number(m, p->number);
    case INTEGER: return pierrot_put_integer(m, (int64_t)p->bits);
    case UNSIGNED: return pierrot_put_unsigned(m, p->bits);
    case STRING: return pierrot_put_string(m, p->bytes, p->size);
    case REF: return pierrot_put_ref(m, (pierrot_ref){p->bits});
    case LIST: return pierrot_put_list(m);
    case MAP: return pierrot_put_map(m);
    default: return pierrot_put_end(m);
    }
}

static put draw(input *in)
{
    put p = {.op = below(in, 10)};
    switch (p.op) {
    case BOOLEAN: p.bits = take(in); break;
    case NUMBER: p.number = take_double(in); break;
    case INTEGER: case UNSIGNED: p.bits = take_u64(in); break;
    case STRING: p.size = take_bytes(in, &p.bytes, take(in) * (size_t)(below(in, 40) ? 1 : 300)); break;
    case REF: p.bits = below(in, 3) ? pr_id_make(take(in), 1 + below(in, 9)) : take_u64(in); break;
    default: break;
    }
    return p;
}

/* --- reading, beside the model */

static bool same_number(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static bool same_place(const pierrot_cursor *a, const pierrot_cursor *b)
{
    return a->at == b->at && a->end == b->end && a->items == b->items && a->pairs == b->pairs && a->index == b->index &&
           a->form == b->form && a->in_pair == b->in_pair && a->pending == b->pending;
}

static int check_value(int at, const pierrot_value *v);

/* puts_[at] is behind the begin of a table; -> behind its end. */
static int check_table(int at, bool map, const pierrot_value *v)
{
    pierrot_cursor c;
    pierrot_value key, value;
    HOLDS(pierrot_enter(v, &c));
    for (uint32_t index = 1; puts_[at].op != END; index++) {
        int value_at = map ? at + 1 : at;   /* a key is no table */
        if (puts_[value_at].op == NIL || (puts_[value_at].op == REF && puts_[value_at].bits == 0)) {
            at = value_at + 1;   /* Lua has no such pair, nor such an item */
            continue;
        }
        HOLDS(pierrot_next(&c, &key));
        if (map)
            HOLDS(check_value(at, &key) == value_at);
        else
            HOLDS(key.type == PIERROT_NUMBER && key.as.number == index);
        HOLDS(pierrot_next(&c, &value));
        at = check_value(value_at, &value);
    }
    HOLDS(!pierrot_next(&c, &key) && key.type == PIERROT_NIL);
    return at + 1;
}

static int check_value(int at, const pierrot_value *v)
{
    const put *p = &puts_[at];
    switch (p->op) {
    case NIL:
        HOLDS(v->type == PIERROT_NIL);
        break;
    case BOOLEAN:
        HOLDS(v->type == PIERROT_BOOLEAN && v->as.boolean == (p->bits & 1));
        break;
    case NUMBER:
        HOLDS(v->type == PIERROT_NUMBER && same_number(v->as.number, p->number));
        break;
    case INTEGER:
        HOLDS(v->type == PIERROT_INTEGER && v->as.integer == (int64_t)p->bits);
        break;
    case UNSIGNED:
        HOLDS(v->type == PIERROT_UNSIGNED && v->as.unsigned_integer == p->bits);
        break;
    case STRING:
        HOLDS(v->type == PIERROT_STRING && v->as.string.size == p->size);
        HOLDS(p->size == 0 || memcmp(v->as.string.bytes, p->bytes, p->size) == 0);
        break;
    case REF:
        HOLDS(p->bits ? v->type == PIERROT_REF && v->as.ref.id == p->bits : v->type == PIERROT_NIL);
        break;
    default:
        HOLDS(v->type == PIERROT_TABLE);
        return check_table(at + 1, p->op == MAP, v);
    }
    return at + 1;
}

static void check_message(const pierrot_message *m)
{
    pierrot_cursor c;
    pierrot_value v;
    int at = 0;
    pierrot_message_read(m, &c);
    while (pierrot_next(&c, &v))
        at = check_value(at, &v);
    HOLDS(at == count && v.type == PIERROT_NIL);
}

/* Each typed read takes its own type, or leaves the cursor where it is. */
static void check_reads(const pierrot_message *m)
{
    pierrot_cursor c, before, inner;
    pierrot_value v;
    pierrot_message_read(m, &c);
    for (pierrot_cursor look = c; pierrot_next(&look, &v); look = c) {
        bool b;
        double d;
        int64_t i;
        uint64_t u;
        const char *bytes;
        size_t size;
        pierrot_ref ref;
        before = c;
        HOLDS(pierrot_read_boolean(&c, &b) == (v.type == PIERROT_BOOLEAN));
        c = before;
        HOLDS(pierrot_read_number(&c, &d) == (v.type == PIERROT_NUMBER));
        c = before;
        HOLDS(pierrot_read_string(&c, &bytes, &size) == (v.type == PIERROT_STRING));
        c = before;
        HOLDS(pierrot_read_ref(&c, &ref) == (v.type == PIERROT_REF));
        c = before;
        HOLDS(pierrot_read_table(&c, &inner) == (v.type == PIERROT_TABLE));
        c = before;
        if (pierrot_read_integer(&c, &i) && v.type == PIERROT_NUMBER)
            HOLDS((double)i == v.as.number);
        c = before;
        if (pierrot_read_unsigned(&c, &u) && v.type == PIERROT_NUMBER)
            HOLDS((double)u == v.as.number);
        c = before;
        if (pierrot_read_text(&c, "no such text"))
            c = before;
        HOLDS(same_place(&c, &before));
        pierrot_get(&v, "key", &(pierrot_value){0});
        pierrot_get_index(&v, 1, &(pierrot_value){0});
        HOLDS(pierrot_next(&c, &v));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!rt) {
        pierrot_config c;
        pierrot_config_init(&c, sizeof c);
        c.mode = PIERROT_TICK;
        c.workers = 1;
        HOLDS(pierrot_start(&c, &rt, NULL) == PIERROT_OK);
    }
    input in = {data, data + size};
    pierrot_message *m = pierrot_message_new(rt), *copy = pierrot_message_new(rt);
    pierrot_status status = PIERROT_OK;
    int depth = 0;
    count = 0;
    while (left(&in) > 0 && count < MOST - 200) {
        put p = draw(&in);
        pierrot_status now = do_put(m, &p);
        HOLDS(now == pierrot_message_status(m) || now == PIERROT_OK);   /* a table that is open: INVALID until it is ended */
        if (now != PIERROT_OK) {
            status = now;
            break;
        }
        puts_[count++] = p;
        depth += p.op == LIST || p.op == MAP ? 1 : p.op == END ? -1 : 0;
    }
    while (status == PIERROT_OK && depth > 0) {
        put end = {.op = END};
        status = do_put(m, &end);
        if (status == PIERROT_OK)
            puts_[count++] = end;
        depth--;
    }
    if (status == PIERROT_OK) {
        HOLDS(pierrot_message_status(m) == PIERROT_OK);
        check_message(m);
        check_reads(m);
        pierrot_cursor c;
        pierrot_value v;
        pierrot_message_read(m, &c);
        while (pierrot_next(&c, &v))
            HOLDS(pierrot_put_value(copy, &v) == PIERROT_OK);
        pierrot_message_read(copy, &c);
        int at = 0;
        while (pierrot_next(&c, &v))
            if (v.type != PIERROT_TABLE)
                at = check_value(at, &v);
            else   /* a list has become a map */
                for (int open = 0; open += puts_[at].op == LIST || puts_[at].op == MAP, open -= puts_[at].op == END, at++, open > 0;)
                    ;
        HOLDS(at == count);
    } else {   /* it stays as it is, sends nothing, and can be used again */
        pierrot_status kept = pierrot_message_status(m);
        HOLDS(kept != PIERROT_OK && pierrot_put_nil(m) == kept && pierrot_tell(rt, (pierrot_ref){1}, m) == kept);
        pierrot_message_clear(m);
        HOLDS(pierrot_put_text(m, "again") == PIERROT_OK);
    }
    pierrot_message_free(m);
    pierrot_message_free(copy);
    return 0;
}
