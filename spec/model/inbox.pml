/* A worker's inbox: the ring, the stack beside it, falling asleep, and the end. README.md says which code each step stands
 * for.
 *
 * One thread sends three messages to a reader, another one a single message, once the first one's first is in; a ring of two
 * lines.
 *
 * Shown: each message is refused or taken, once, in its sender's order, as it was written; who has sent later, by what it
 * knows, comes later; the reader does not sleep for ever beside a message
 * (that would be a deadlock). Mutants, each of which must fail:
 */
/* mutant: WORD_FIRST      an entry's first word is written before the rest */
/* mutant: NO_ROOM         lines are claimed that the reader has not left yet */
/* mutant: CLAIM_ANYHOW    lines are claimed while the stack is in use */
/* mutant: STACK_EARLY     the stack is taken while lines are claimed that have not been taken */
/* mutant: CLEAR_FIRST     the bit is cleared before the stack is closed */
/* mutant: LOOK_WRITTEN    who falls asleep looks at what is written, not at what is claimed */
/* mutant: LEAVE_EARLY     who leaves does not wait for what is claimed */

#define LINES 2
#define EACH(me) (3 - 2 * me)
#define TOTAL 4
#define FIRST(value) (value / 4)     /* whose */
#define SECOND(value) (value % 4)    /* its number */

/* `tail`: one word in the code, which is read and compared as one. */
byte tail = 0;
bool overflow = false, closed = false;

byte head = 0, next = 0, word[LINES], entry[LINES];
bool open = false;                   /* the stack takes what is pushed */
byte stack[TOTAL], depth = 0;        /* oldest first, as the reader turns it */
bool parked = false, first_is_in = false;
byte accepted = 0, refused = 0, taken = 0, expected[2], ended = 0;

inline take(value)
{
    assert(SECOND(value) == expected[FIRST(value)]);
    assert(FIRST(value) == 0 || expected[0] > 0);
    expected[FIRST(value)]++;
    taken++;
}

inline wake_if(seen)
{
    if
    :: seen -> parked = false;
    :: else
    fi
}

proctype sender(byte me)
{
    byte i = 0, at, room;
    bool over, shut, seen, looked;
    do
    :: i == EACH(me) -> break
    :: i < EACH(me) ->
        (me == 0 || first_is_in);
again:
        atomic { at = tail; over = overflow; shut = closed; }
        if
        :: shut -> refused++;
#ifdef CLAIM_ANYHOW
        :: !shut && over && at + 1 > head + LINES ->
#else
        :: !shut && over ->
#endif
            atomic {
                if
                :: open -> stack[depth] = me * 4 + i; depth++; accepted++;
                :: else -> goto again
                fi
            }
            seen = parked;
            wake_if(seen)
        :: else ->
            room = head + LINES;
            if
#ifdef NO_ROOM
            :: true ->
#else
            :: at + 1 <= room ->
#endif
                atomic {
                    if
                    :: tail == at && overflow == over && !closed -> tail++; accepted++;
                    :: else -> goto again
                    fi
                }
                /* The look at the parker may come before the entry is seen by others: only the claim is sure to be. */
                if
                :: seen = parked; looked = true;
                :: looked = false;
                fi;
#ifdef WORD_FIRST
                word[at % LINES] = at + 1;
                entry[at % LINES] = me * 4 + i;
#else
                entry[at % LINES] = me * 4 + i;
                word[at % LINES] = at + 1;
#endif
                if
                :: !looked -> seen = parked;
                :: else
                fi;
                wake_if(seen)
#ifndef NO_ROOM
            :: else ->
                atomic {
                    if
                    :: tail == at && overflow == over && !closed -> overflow = true;
                    :: else -> goto again
                    fi
                }
                open = true;
                goto again
#endif
            fi
        fi;
        if
        :: me == 0 -> first_is_in = true;
        :: else
        fi;
        i++;
    od;
    ended++;
}

#define WRITTEN (word[next % LINES] == next + 1)
#ifdef LOOK_WRITTEN
#define CALLED (WRITTEN || open)
#else
#define CALLED (tail != next || overflow)
#endif

inline empty_line()
{
    take(entry[next % LINES]);
    next++;
    head = next;
}

/* With one exchange, which leaves it closed. */
inline take_stack()
{
    atomic {
        for (i : 0 .. TOTAL - 1) { took[i] = stack[i]; }
        got = depth;
        depth = 0;
        open = false;
    }
}

inline empty_stack()
{
    i = 0;
    do
    :: i < got -> take(took[i]); i++;
    :: else -> break
    od
}

proctype reader()
{
    byte end, i, got, took[TOTAL];
    bool over;
    do
    :: WRITTEN -> empty_line()
    :: !WRITTEN && open ->
        end = tail;
#ifndef STACK_EARLY
        if
        :: next != end -> goto again
        :: else
        fi;
#endif
#ifdef CLEAR_FIRST
        overflow = false;
#endif
        take_stack();
        overflow = false;
        empty_stack();
again:  skip
    :: !WRITTEN && !open ->
        parked = true;
        if
        :: CALLED -> parked = false;
        :: else ->
            if
            :: !parked
            :: ended == 2 && taken + refused == TOTAL -> goto asleep
            fi
        fi
    :: true -> break      /* the runtime ends, at any time */
    od;
    atomic { end = tail; over = overflow; closed = true; }
#ifdef LEAVE_EARLY
    do
    :: next != end && WRITTEN -> empty_line()
    :: else -> break
    od;
#else
    do
    :: next == end -> break
    :: next != end && WRITTEN -> empty_line()
    od;
#endif
    if
    :: over ->
        (open);
        take_stack();
        empty_stack()
    :: else
    fi;
    (ended == 2);
    assert(taken == accepted);
asleep:
    skip
}

init { atomic { run sender(0); run sender(1); run reader(); } }
