/* A hierarchical timer wheel after Varghese and Lauck (1987). timer.h has the contract; only the
 * owner's thread comes here.
 *
 * Read a time as eleven digits to the base 64. The cursor is a time the wheel has reached. A timer
 * that is due at or after it stands at the level of the highest digit in which due time and cursor
 * differ (level 0 if they are equal), in the slot of the due time's digit there. So:
 *
 *   1. Every timer of a lower level is due before every timer of a higher one, and within a level
 *      the slots are in order of time: the first used slot of the lowest used level holds the
 *      earliest timer. At level 0 all timers of a slot are due in the same millisecond.
 *   2. The place follows from due time and cursor alone; cancel needs it to find the slot's tail.
 *   3. The cursor may move, without any timer moving, to any time before the start of that first
 *      slot: no digit at or above its level would lead another timer elsewhere, and below there
 *      are none. Moved to the start of the slot itself, that slot's timers, and no others, belong
 *      on lower levels, all of which are empty then ("cascade").
 *   4. Equal due times keep their order of adding: they share a slot at all times, whoever is added
 *      goes to its end, and a cascade goes from front to end into empty slots.
 *
 * Without (3) a jump of the clock would have to visit each slot on its way. With it, a jump takes
 * as many steps as there are used slots on the way, whatever its length.
 *
 * Timers that were added with a due time before the cursor have no place in the wheel; they stand
 * in the list `late`. The cursor never moves back and never passes a timer of the wheel, hence
 * `due_ms < cursor_ms` says exactly who is there, and they are due before all others.
 *
 * Timers whose time has not begun stand in the list `later`, with how long they are to take in `due_ms`; nothing else knows of
 * them.
 *
 * `wake_ms` is not later than any armed timer's due time. It is a bound and not exact, because
 * nobody searches the next timer when the first one is cancelled.
 */
#include "timer.h"

#include <assert.h>

static void list_init(pr_timer_list *list)
{
    list->head = NULL;
    list->tail = &list->head;
}

static void list_append(pr_timer_list *list, pr_timer *t)
{
    t->next = NULL;
    t->link = list->tail;
    *list->tail = t;
    list->tail = &t->next;
}

static void list_remove(pr_timer_list *list, pr_timer *t)
{
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    else
        list->tail = t->link;
    t->next = NULL;
    t->link = NULL;
}

/* Only for due_ms >= cursor_ms. */
static unsigned level_of(const pr_wheel *w, uint64_t due_ms)
{
    uint64_t differ = (due_ms ^ w->cursor_ms) | 1; /* | 1: clz(0) is undefined; stays level 0 */
    return (63U - (unsigned)__builtin_clzll(differ)) / PR_WHEEL_BITS;
}

static unsigned digit_of(uint64_t time_ms, unsigned level)
{
    return (unsigned)(time_ms >> (level * PR_WHEEL_BITS)) % PR_WHEEL_SLOTS;
}

/* The first millisecond of a slot. Higher digits are the cursor's, lower ones zero. */
static uint64_t slot_start_ms(const pr_wheel *w, unsigned level, unsigned slot)
{
    unsigned shift = level * PR_WHEEL_BITS;
    uint64_t above = (w->cursor_ms >> shift) & ~(uint64_t)(PR_WHEEL_SLOTS - 1);
    return (above | slot) << shift;
}

/* Finds the slot with the earliest timer; false when all are empty. */
static bool first_slot(const pr_wheel *w, unsigned *level, unsigned *slot)
{
    if (w->levels_used == 0)
        return false;
    *level = (unsigned)__builtin_ctz(w->levels_used);
    *slot = (unsigned)__builtin_ctzll(w->slots_used[*level]);
    return true;
}

static void place(pr_wheel *w, pr_timer *t)
{
    unsigned level = level_of(w, t->due_ms);
    unsigned slot = digit_of(t->due_ms, level);
    list_append(&w->slots[level][slot], t);
    w->slots_used[level] |= UINT64_C(1) << slot;
    w->levels_used |= UINT32_C(1) << level;
}

static void mark_empty(pr_wheel *w, unsigned level, unsigned slot)
{
    w->slots_used[level] &= ~(UINT64_C(1) << slot);
    if (w->slots_used[level] == 0)
        w->levels_used &= ~(UINT32_C(1) << level);
}

static void place_late(pr_wheel *w, pr_timer *t)
{
    if (w->late.head == NULL)
        w->late_unsorted = false;
    else if (t->due_ms < w->late_last_ms)
        w->late_unsorted = true;
    w->late_last_ms = t->due_ms;
    list_append(&w->late, t);
}

static void detach(pr_wheel *w, pr_timer *t)
{
    if (t->later) {
        t->later = false;
        list_remove(&w->later, t);
        return;
    }
    if (t->due_ms < w->cursor_ms) {
        list_remove(&w->late, t);
    } else {
        unsigned level = level_of(w, t->due_ms);
        unsigned slot = digit_of(t->due_ms, level);
        list_remove(&w->slots[level][slot], t);
        if (w->slots[level][slot].head == NULL)
            mark_empty(w, level, slot);
    }
    assert(w->count > 0);
    w->count--;
    if (w->count == 0)
        w->wake_ms = UINT64_MAX;
}

/* Merges two chains in order of due time; where equal, those of `older` come first. */
static pr_timer *merge(pr_timer *older, pr_timer *newer)
{
    pr_timer *head = NULL;
    pr_timer **out = &head;
    while (older != NULL && newer != NULL) {
        pr_timer **from = newer->due_ms < older->due_ms ? &newer : &older;
        *out = *from;
        out = &(*from)->next;
        *from = *out;
    }
    *out = older != NULL ? older : newer;
    return head;
}

/* Cuts the longest chain that is in order off the front of `*rest`. */
static pr_timer *cut_run(pr_timer **rest)
{
    pr_timer *run = *rest;
    pr_timer *last = run;
    while (last->next != NULL && last->next->due_ms >= last->due_ms)
        last = last->next;
    *rest = last->next;
    last->next = NULL;
    return run;
}

/* A stable merge sort, so that many late timers in any order cost no quadratic time: a binary
 * counter whose digit i is a sorted chain made of 2^i runs. A higher digit is an older chain. */
static void sort_late(pr_wheel *w)
{
    pr_timer *chains[64] = {NULL};
    pr_timer *rest = w->late.head;
    while (rest != NULL) {
        pr_timer *run = cut_run(&rest);
        size_t i = 0;
        for (; chains[i] != NULL; i++) {
            run = merge(chains[i], run);
            chains[i] = NULL;
        }
        chains[i] = run;
    }
    pr_timer *sorted = NULL;
    for (size_t i = 0; i < 64; i++)
        sorted = merge(chains[i], sorted);

    list_init(&w->late);
    for (pr_timer *t = sorted, *next; t != NULL; t = next) {
        next = t->next;
        w->late_last_ms = t->due_ms;
        list_append(&w->late, t);
    }
    w->late_unsorted = false;
}

/* Spreads a slot over the levels below; the cursor stands at its start. */
static void cascade(pr_wheel *w, unsigned level, unsigned slot)
{
    pr_timer *t = w->slots[level][slot].head;
    list_init(&w->slots[level][slot]);
    mark_empty(w, level, slot);
    for (pr_timer *next; t != NULL; t = next) {
        next = t->next;
        place(w, t);
    }
}

/* The first late timer if it is due. With one that is not (the clock has stepped back) nothing is. */
static pr_timer *pop_late(pr_wheel *w, uint64_t now_ms)
{
    if (w->late_unsorted)
        sort_late(w);
    pr_timer *t = w->late.head;
    if (t->due_ms > now_ms) {
        w->wake_ms = t->due_ms;
        return NULL;
    }
    detach(w, t);
    return t;
}

/* Nothing is due before `wake_ms`, which is after `now_ms` or UINT64_MAX. The cursor follows the
 * clock so that what is added from now on gets the finest place it can have. */
static void settle(pr_wheel *w, uint64_t now_ms, uint64_t wake_ms)
{
    if (w->cursor_ms < now_ms)
        w->cursor_ms = now_ms;
    w->wake_ms = wake_ms;
}

void pr_wheel_init(pr_wheel *w, uint64_t now_ms)
{
    w->count = 0;
    w->wake_ms = UINT64_MAX;
    w->cursor_ms = now_ms;
    w->late_last_ms = 0;
    w->late_unsorted = false;
    w->levels_used = 0;
    list_init(&w->late);
    list_init(&w->later);
    for (size_t level = 0; level < PR_WHEEL_LEVELS; level++) {
        w->slots_used[level] = 0;
        for (size_t slot = 0; slot < PR_WHEEL_SLOTS; slot++)
            list_init(&w->slots[level][slot]);
    }
}

void pr_wheel_add(pr_wheel *w, pr_timer *t, uint64_t due_ms)
{
    assert(!pr_timer_armed(t));
    t->due_ms = due_ms;
    if (due_ms < w->cursor_ms)
        place_late(w, t);
    else
        place(w, t);
    if (due_ms < w->wake_ms)
        w->wake_ms = due_ms;
    w->count++;
}

void pr_wheel_add_later(pr_wheel *w, pr_timer *t, uint64_t ms)
{
    assert(!pr_timer_armed(t));
    t->due_ms = ms;
    t->later = true;
    list_append(&w->later, t);
}

void pr_wheel_begin(pr_wheel *w, uint64_t now_ms)
{
    for (pr_timer *t; (t = w->later.head) != NULL;) {
        detach(w, t);
        pr_wheel_add(w, t, t->due_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + t->due_ms);
    }
}

bool pr_wheel_cancel(pr_wheel *w, pr_timer *t)
{
    if (!pr_timer_armed(t))
        return false;
    detach(w, t);
    return true;
}

pr_timer *pr_wheel_pop(pr_wheel *w, uint64_t now_ms)
{
    if (now_ms < w->wake_ms)
        return NULL;
    if (w->late.head != NULL)
        return pop_late(w, now_ms);

    unsigned level, slot;
    while (first_slot(w, &level, &slot)) {
        uint64_t start_ms = slot_start_ms(w, level, slot);
        if (start_ms > now_ms) {
            settle(w, now_ms, start_ms);
            return NULL;
        }
        assert(start_ms >= w->cursor_ms);
        w->cursor_ms = start_ms;
        if (level == 0) {
            pr_timer *t = w->slots[0][slot].head;
            detach(w, t);
            return t;
        }
        cascade(w, level, slot);
    }
    settle(w, now_ms, UINT64_MAX);
    return NULL;
}

uint64_t pr_wheel_next_ms(const pr_wheel *w)
{
    unsigned level, slot;
    if (w->late.head != NULL || !first_slot(w, &level, &slot))
        return w->wake_ms;
    /* Both are bounds. The later one is needed: before wake_ms pop does not look at the slots, and
     * before the slot's start it has nothing to move. */
    uint64_t start_ms = slot_start_ms(w, level, slot);
    return start_ms > w->wake_ms ? start_ms : w->wake_ms;
}
