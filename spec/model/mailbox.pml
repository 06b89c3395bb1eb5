/* The state machine of an actor, and how a message finds it: floating between workers, then perhaps pinned to one.
 * README.md says which code each step stands for.
 *
 * Two senders, one with two messages to the same actor, the other one with one, and two workers. `stays` (chosen at the start) decides whether
 * the actor floats all its life, or is pinned to the worker that runs it first, while messages arrive.
 *
 * Shown: one handler at a time; first in, first out from each sender; every message is handled (`all`); nothing is
 * pushed where nobody looks. Mutants, each of which must fail:
 */
/* mutant: NO_RECLAIM    the end of a turn does not look again once the actor is idle */
/* mutant: LOOK_FIRST    it looks before it says so */
/* mutant: NO_CAS        who finds it idle puts it into the queue, without claiming it */
/* mutant: NO_CLOSE      pinning takes the mailbox and leaves it open */
/* mutant: LATE_ADOPT    the new home reads its inbox before it takes the mailbox over */
/* pan: -f */

#define SENDERS 2
#define WORKERS 2
#define EACH(who) (2 - who)
#define TOTAL 3

mtype = { IDLE, SCHEDULED, PROCESSING, PINNED };

mtype sched = IDLE;
byte home = 0;                               /* 0: floating; else the worker */
bool closed = false;
chan mailbox = [TOTAL] of { byte, byte };    /* sender, number: as the consumer turns it round */
chan inbox[WORKERS] = [TOTAL] of { byte, byte };
chan user = [TOTAL] of { byte, byte };       /* the owner's own */
byte queued = 0;                             /* how often it is in a ready queue */
bool stays;

byte handlers = 0, handled = 0, next_of[SENDERS];

inline try_schedule(seen, won)
{
    won = false;
    seen = sched;
    if
    :: seen == IDLE ->
#ifdef NO_CAS
        sched = SCHEDULED; won = true;
#else
        atomic {
            if
            :: sched == IDLE -> sched = SCHEDULED; won = true;
            :: else
            fi
        }
#endif
    :: else
    fi;
    if
    :: won -> queued++; won = false;
    :: else
    fi
}

proctype sender(byte me)
{
    byte number = 0, where;
    mtype seen;
    bool done;
    do
    :: number < EACH(me) ->
        done = false;
        do
        :: !done ->
            where = home;
            if
            :: where == 0 ->
                atomic {
                    if
                    :: !closed -> mailbox!me, number; done = true;
                    :: else
                    fi
                };
                if
                :: done -> bool won; try_schedule(seen, won);
                :: else           /* closed meanwhile: the home is known now */
                fi
            :: else -> inbox[where - 1]!me, number; done = true;
            fi
        :: else -> break
        od;
        number++;
    :: else -> break
    od
}

inline adopt(from)
{
    do
    :: len(from) > 0 -> from?who, number; user!who, number;
    :: len(from) == 0 -> break
    od
}

inline handle_all()
{
    handlers++;
    assert(handlers == 1);
    do
    :: len(user) > 0 ->
        user?who, number;
        assert(number == next_of[who]);
        next_of[who]++;
        handled++;
    :: len(user) == 0 -> break
    od;
    handlers--;
}

proctype worker(byte me)
{
    byte who, number;
    mtype seen;
    bool won;
end:
    do
    :: atomic { queued > 0 -> queued--; } ->
        assert(sched == SCHEDULED);
        sched = PROCESSING;
        if
        :: stays ->
            home = me + 1;
            sched = PINNED;
#ifdef LATE_ADOPT
            adopt(inbox[me]);
#endif
#ifdef NO_CLOSE
            atomic { adopt(mailbox); }
#else
            atomic { closed = true; adopt(mailbox); }
#endif
            handle_all();
        :: else ->
            atomic { adopt(mailbox); }
            handle_all();
#ifdef LOOK_FIRST
            if
            :: len(mailbox) > 0 -> sched = SCHEDULED; queued++;
            :: else -> sched = IDLE;
            fi
#else
            sched = IDLE;
#ifndef NO_RECLAIM
            if
            :: len(mailbox) > 0 -> try_schedule(seen, won);
            :: else
            fi
#endif
#endif
        fi
    :: home == me + 1 && sched == PINNED && len(inbox[me]) > 0 ->
        adopt(inbox[me]);
        handle_all();
    od
}

init {
    atomic {
        if
        :: stays = true;
        :: stays = false;
        fi;
        run worker(0); run worker(1);
        run sender(0); run sender(1);
    }
}

ltl all { <> (handled == TOTAL) }
