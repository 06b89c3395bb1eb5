/* How workers fall asleep and are woken, and how the runtime knows that it is quiet. README.md says which code each step
 * stands for.
 *
 * Two workers; two threads from outside, one of which pushes twice into the inbox of a worker, the other one once into the
 * queue that all share. Then the runtime is told to end.
 *
 * Shown: all work is done (`done`), the workers leave (`left`), and whenever `live` is 0 there is no work but what a
 * thread from outside has in hand. Mutants, each of which must fail:
 */
/* mutant: NO_SECOND_LOOK  a worker parks without looking once more */
/* mutant: LOOK_FIRST      it looks before it says that it is parked */
/* mutant: WAKE_FIRST      who sends looks for sleepers before the message is there */
/* mutant: COUNT_LATE      the waker counts the worker it wakes only when that has been woken */
/* mutant: NO_EXIT_LOOK    the second look leaves out the order to end */
/* pan: -f */

#define WORKERS 2
#define EACH(to_all) (2 - to_all)
#define TOTAL 3

mtype = { AWAKE, PARKED, NOTIFIED };

mtype state[WORKERS] = AWAKE;
byte inbox[WORKERS], shared;     /* messages in each, actors in the common queue */
byte live = WORKERS;           /* workers awake, and those that have been woken */
byte done_of = 0, gone = 0, in_hand = 0, senders = 2;
bool exit = false;

/* After each step that may make it so. */
#define LESS assert(live > 0); live--; CHECK_QUIET
#define CHECK_QUIET assert(live > 0 || in_hand > 0 || (inbox[0] == 0 && inbox[1] == 0 && shared == 0))

/* pr_worker_wake */
inline wake(w)
{
    if
    :: state[w] == PARKED ->
#ifndef COUNT_LATE
        live++;
#endif
        atomic {
            if
            :: state[w] == PARKED -> state[w] = NOTIFIED; claimed = true;
            :: else -> claimed = false;
            fi
        };
#ifdef COUNT_LATE
        if
        :: claimed -> live++;
        :: else
        fi
#else
        if
        :: claimed
        :: else -> atomic { LESS; }
        fi
#endif
    :: else
    fi
}

inline wake_some()
{
    if
    :: state[0] == PARKED -> wake(0);
    :: else ->
        if
        :: state[1] == PARKED -> wake(1);
        :: else
        fi
    fi
}

proctype outside(bool to_all)
{
    byte i = 0;
    bool claimed;
    do
    :: i < EACH(to_all) ->
        atomic { in_hand++; }
#ifdef WAKE_FIRST
        if
        :: to_all -> wake_some(); shared++;
        :: else -> wake(0); inbox[0]++;
        fi;
#else
        if
        :: to_all -> shared++; wake_some();
        :: else -> inbox[0]++; wake(0);
        fi;
#endif
        atomic { in_hand--; CHECK_QUIET; }
        i++;
    :: else -> break
    od;
    /* The last one waits until all is done, as a stopped runtime's root does, and gives the order. */
    atomic { senders--; }
    if
    :: to_all ->
        (senders == 0 && done_of == TOTAL);
        exit = true;
        wake(0);
        wake(1);
    :: else
    fi
}

#define WORK(me) (inbox[me] > 0 || shared > 0)
#ifdef NO_EXIT_LOOK
#define CALLED(me) WORK(me)
#else
#define CALLED(me) (WORK(me) || exit)
#endif

proctype worker(byte me)
{
    bool called;
    do
    :: exit -> break
    :: else ->
        if
        :: atomic { inbox[me] > 0 -> inbox[me]--; } -> done_of++;
        :: atomic { shared > 0 -> shared--; } -> done_of++;
        :: inbox[me] == 0 && shared == 0 ->
#ifdef LOOK_FIRST
            called = CALLED(me);
            state[me] = PARKED;
#else
            state[me] = PARKED;
#ifdef NO_SECOND_LOOK
            called = false;
#else
            called = CALLED(me);
#endif
#endif
            if
            :: called ->
                atomic {
                    if
                    :: state[me] == NOTIFIED -> LESS;   /* its waker's one too many */
                    :: else
                    fi;
                    state[me] = AWAKE;
                }
            :: else ->
                atomic { LESS; }
                (state[me] != PARKED);
                state[me] = AWAKE;
            fi
        fi
    od;
    gone++;
}

init {
    atomic {
        run worker(0); run worker(1);
        run outside(false); run outside(true);
    }
}

ltl done { <> (done_of == TOTAL) }
ltl left { <> (gone == WORKERS) }
