/* Timers: a hierarchical timer wheel (G. Varghese, T. Lauck: "Hashed and Hierarchical Timing
 * Wheels", SOSP 1987, scheme 7) with a tick of one millisecond.
 *
 * Owner: one thread, usually the worker that embeds the wheel. There is no lock and no atomic
 * here; every function is for the owner only. None waits, none allocates, none fails, none calls
 * back.
 *
 * Memory: the wheel and the timers belong to the caller. While a timer is armed the wheel points
 * into it and it points into the wheel, so neither may move or be freed: cancel first.
 *
 * Time is any count of milliseconds that the caller likes (monotonic or virtual) over the whole
 * range of uint64_t. A clock that steps back does no harm: nothing fires until it has caught up.
 */
#ifndef PR_TIMER_H
#define PR_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embed it in what is to be woken. All zero is a valid timer that is not armed. `due_ms` keeps the
 * value given to pr_wheel_add, also after the timer has fired, so that a repeated timer can be
 * armed for `due_ms + period` and does not drift. */
typedef struct pr_timer {
    struct pr_timer *next;
    struct pr_timer **link; /* what points at this timer; NULL: not armed */
    uint64_t due_ms;
    bool later;             /* its time has not begun: see pr_wheel_add_later */
} pr_timer;

/* First in, first out; `tail` is where the next one is linked. */
typedef struct pr_timer_list {
    pr_timer *head;
    pr_timer **tail;
} pr_timer_list;

/* Eleven digits of six bits hold any uint64_t: no time is too far to be placed exactly. */
enum { PR_WHEEL_BITS = 6, PR_WHEEL_SLOTS = 1 << PR_WHEEL_BITS, PR_WHEEL_LEVELS = 11 };

/* About 11 KiB. Read `count` freely; the rest is timer.c's, which says what it means. */
typedef struct pr_wheel {
    size_t count; /* armed timers whose time has begun */
    pr_timer_list later;
    uint64_t wake_ms;
    uint64_t cursor_ms;
    uint64_t late_last_ms;
    pr_timer_list late;
    bool late_unsorted;
    uint32_t levels_used;
    uint64_t slots_used[PR_WHEEL_LEVELS];
    pr_timer_list slots[PR_WHEEL_LEVELS][PR_WHEEL_SLOTS];
} pr_wheel;

/* Makes an empty wheel. There is nothing to destroy: timers still armed are simply forgotten, and
 * must be cleared before they are used with another wheel. */
void pr_wheel_init(pr_wheel *w, uint64_t now_ms);

/* Arms `t`, which must not be armed. A due time that has passed is allowed: the timer comes out of
 * the next pr_wheel_pop, in its place among the others by due time. O(1). */
void pr_wheel_add(pr_wheel *w, pr_timer *t, uint64_t due_ms);

/* Arms `t`, which must not be armed, for `ms` after the time of the next pr_wheel_begin: for an owner that looks at the clock
 * often, but not for each timer, most of which are cancelled before. Until then pr_wheel_pop and pr_wheel_next_ms know nothing
 * of it. O(1). */
void pr_wheel_add_later(pr_wheel *w, pr_timer *t, uint64_t ms);

/* The time of those begins, in the order in which they were added. */
void pr_wheel_begin(pr_wheel *w, uint64_t now_ms);

/* Disarms `t`, which is armed in this wheel or not at all. True if it was armed. O(1). */
bool pr_wheel_cancel(pr_wheel *w, pr_timer *t);

/* Takes out the first timer that is due at or before `now_ms`, no longer armed; NULL when there is
 * none. Timers come in order of due time, and of adding among equals. Between two calls any timer
 * may be added or cancelled, due ones too. Call it until it returns NULL:
 *
 *     while ((t = pr_wheel_pop(w, now_ms)) != NULL)
 *         fire(t);
 *
 * When nothing can be due this is one comparison. Otherwise O(1), amortised: over its life a timer
 * moves at most once per level, so a step into a well filled slot pays for its timers then. (Late
 * timers that were added in another order than their due times are sorted here.) */
pr_timer *pr_wheel_pop(pr_wheel *w, uint64_t now_ms);

/* How long the owner may sleep: a time that is not later than the due time of any armed timer;
 * UINT64_MAX when there is none. It may be too early for a timer that is far away, but a pop at
 * this time then moves that timer closer and the next answer is later: sleeping until this time,
 * then popping until NULL, again and again, misses nothing and needs at most eleven wake-ups a
 * timer. A time in the past means now. */
uint64_t pr_wheel_next_ms(const pr_wheel *w);

static inline bool pr_timer_armed(const pr_timer *t)
{
    return t->link != NULL;
}

#endif
