/* Shutdown: the order to stop goes down a tree, the ends come up, the last child of the root sends the workers away.
 * README.md says which code each step stands for.
 *
 * Two workers. P, a child of the root, lives on the first and makes C, its child, on the second; it may end by itself, or be
 * `stuck`: its handler never comes back; or there is none. A thread from outside makes L, a child of the root, on the second
 * worker, and sends a message to L or to C, while another thread stops the runtime and waits for its threads.
 *
 * Shown (`shut`): whoever was born ends, even below one that is stuck; the workers leave if none is, and not before the last
 * actor; who waits comes back; a message is handled, dead or refused. Mutants, each of which must fail:
 */
/* mutant: BIRTH_OUTSIDE   a birth at the root looks at `stopping` before it takes the lock, and not under it */
/* mutant: FLAG_LATE       `stopping` is set when the children have been ordered */
/* mutant: NO_CHILDREN     who stops a runtime without actors leaves it to the last child to end it */
/* mutant: PARENT_FIRST    a parent ends when its children have been told to */
/* mutant: NO_ENDED_LOOK   a worker falls asleep without another look at the children that have ended */
/* mutant: NO_ENDED_WAKE   who ends does not wake its parent's worker */
/* mutant: INBOX_OPEN      a worker that leaves empties its inbox without closing it */
/* mutant: ROOT_ONLY       when the time is over, the root's children alone are ordered again */
/* mutant: LOOK_OUTSIDE    who stops the runtime looks whether it has actors before it takes the lock */
/* pan: -f */

#define P 0
#define C 1
#define L 2

bool alive[3], stopping = false, exit = false, stuck, started = false;
byte roots = 0;               /* children of the root, under root_lock */
bool locked = false;
byte children = 0;            /* of P */
bool ended = false;           /* C lies in the list `ended` of P's worker */

chan control[2] = [4] of { byte };   /* orders to that actor */
chan inbox = [1] of { byte };        /* the second worker's */
bool closed = false, parked[2];
byte gone = 0, fate = 0;             /* of the message: how often it came to one */
bool joined = false;

#define LOCK atomic { !locked -> locked = true; }
#define NOBODY (!alive[P] && !alive[C] && !alive[L])

/* pr_order, and the wake-up, which parking.pml has in full. */
inline order(a)
{
    atomic {
        if
        :: alive[a] -> control[a != P]!a; parked[a != P] = false;
        :: else
        fi
    }
}

inline leave_all() { atomic { exit = true; parked[0] = false; parked[1] = false; } }

inline walk() { order(L); order(P); }

proctype stopper()
{
    bool none;
    /* pr_runtime_stop */
#ifdef LOOK_OUTSIDE
    none = (roots == 0);
    LOCK;
    stopping = true;
#else
    LOCK;
#ifndef FLAG_LATE
    stopping = true;
#endif
    none = (roots == 0);
#endif
    walk();
    locked = false;
#ifdef FLAG_LATE
    stopping = true;
#endif
#ifndef NO_CHILDREN
    if
    :: none -> leave_all();
    :: else
    fi;
#endif
    /* pr_runtime_join: the threads are gone, or the time is over */
    if
    :: gone == 2
    :: stuck && started ->
        walk();
#ifndef ROOT_ONLY
        order(C);
#endif
    fi;
    joined = true;
}

proctype outside(byte whom)
{
    bool late, sent;
    /* pr_actor_spawn, at the root */
#ifdef BIRTH_OUTSIDE
    late = stopping;
    LOCK;
#else
    LOCK;
    late = stopping;
#endif
    if
    :: !late -> atomic { roots++; alive[L] = true; }
    :: else
    fi;
    locked = false;
    /* route */
    if
    :: alive[whom] ->
        atomic {
            if
            :: !closed -> inbox!whom; sent = true;
            :: else -> fate++;
            fi
        };
        if
        :: sent -> parked[1] = false;
        :: else
        fi
    :: else -> fate++;
    fi
}

/* pr_family_leave, of a child of the root. */
inline leave_root(a)
{
    alive[a] = false;
    LOCK;
    roots--;
    last = (roots == 0 && stopping);
    locked = false;
    if
    :: last -> leave_all();
    :: else
    fi
}

proctype first()
{
    bool last, told;
    /* P's `start`: it makes C, unless the runtime stops. */
    if
    :: alive[P] && !stopping -> atomic { children++; alive[C] = true; parked[1] = false; }
    :: else
    fi;
    started = true;
end_stuck:
    !stuck;
    if
    :: atomic { alive[P] -> told = true; }
        order(C);
    :: true
    fi;
end:
    do
    :: exit -> break
    :: atomic { !exit && len(control[0]) > 0 -> control[0]?_; if :: alive[P] -> told = true; :: else fi };
        order(C);
    :: atomic { !exit && ended -> ended = false; children--; }
#ifdef PARENT_FIRST
    :: !exit && alive[P] && told -> leave_root(P);
#else
    :: !exit && alive[P] && told && children == 0 -> leave_root(P);
#endif
    :: !exit && len(control[0]) == 0 && !ended && !(alive[P] && told && children == 0) ->
        parked[0] = true;
        if
#ifdef NO_ENDED_LOOK
        :: exit || len(control[0]) > 0 -> parked[0] = false;
#else
        :: exit || len(control[0]) > 0 || ended -> parked[0] = false;
#endif
        :: else ->
end_parked:
            !parked[0];
        fi
    od;
    atomic { assert(NOBODY); gone++; }
}

proctype second()
{
    byte a;
    bool last;
end:
    do
    :: exit -> break
    :: atomic { !exit && len(control[1]) > 0 -> control[1]?a; }
        if
        :: alive[a] && a == L -> leave_root(L);
        :: alive[a] && a == C ->
            alive[C] = false;
#ifdef NO_ENDED_WAKE
            ended = true;
#else
            atomic { ended = true; parked[0] = false; }
#endif
        :: else
        fi
    :: atomic { !exit && len(control[1]) == 0 && len(inbox) > 0 -> inbox?_; fate++; }
    :: !exit && len(control[1]) == 0 && len(inbox) == 0 ->
        parked[1] = true;
        if
        :: exit || len(control[1]) > 0 || len(inbox) > 0 -> parked[1] = false;
        :: else ->
end_parked:
            !parked[1];
        fi
    od;
    /* pr_worker_close_inboxes */
    atomic {
        assert(NOBODY);
#ifndef INBOX_OPEN
        closed = true;
#endif
        if
        :: len(inbox) > 0 -> inbox?_; fate++;
        :: else
        fi;
        gone++;
    }
}

init {
    atomic {
        if
        :: alive[P] = true; roots = 1; stuck = true;
        :: alive[P] = true; roots = 1;
        :: true
        fi;
        run first(); run second(); run stopper();
        if
        :: run outside(C);
        :: run outside(L);
        fi
    }
}

ltl shut { <> (joined && fate == 1 && !alive[L] && !alive[C] && (stuck || (!alive[P] && gone == 2))) }
