/* The control lane: orders beside messages, an actor that is pinned while both arrive, its end beside senders, and the next
 * bearer of its record. README.md says which code each step stands for.
 *
 * One record and two workers. Its first bearer floats, or stays where it runs first; one sender has a message for it,
 * another one an order to stop. When it has ended, somebody makes an actor of the record again: a plain one, or a call, which
 * is ready only once its one message is there; and sends that.
 *
 * Shown: one handler at a time, and of one who has been born; an order that is in before a message is looked at overtakes
 * it; nobody takes what was meant for another bearer; all is handled, dead or refused, once and the order
 * ends its target (`settled`). Mutants, each of which must fail:
 */
/* mutant: ORDERS_LATE    a worker looks at its control inbox once a turn, not before each message */
/* mutant: OWN_LATE       so does who runs a floating actor with that actor's own */
/* mutant: NO_RECLAIM     the end of a turn looks at the mailbox again, and not at the orders */
/* mutant: LANE_OPEN      pinning takes the orders and leaves that lane open */
/* mutant: OPEN_AT_END    so does the end with the mailbox */
/* mutant: IDLE_AT_END    who has ended can be made ready */
/* mutant: ANY_TARGET     what lies in the mailbox is taken to be for whoever lives there */
/* mutant: IDLE_AT_BIRTH  a call can be made ready before its id is known */
/* pan: -f */

#define LANE 2
#define TOTAL 3          /* messages of both, and the order */

mtype = { IDLE, SCHEDULED, PROCESSING, PINNED };

/* The record. */
mtype sched = SCHEDULED;
byte id = 1, home = 0;                        /* 0: floating; else the worker */
bool mailbox_closed = false, control_closed = false;
chan mailbox = [TOTAL] of { byte };           /* whom it is meant for */
chan control = [TOTAL] of { byte };
byte user = 0, orders = 0;                    /* the owner's own */
bool free = false;

/* The workers. */
chan inbox[4] = [TOTAL] of { byte };          /* of each; then, from LANE on, their control inboxes */
byte queued = 1;

bool stays, call;
bool ordered = false;                         /* the order is in */
byte handlers = 0, handled = 0, dead = 0, refused = 0, obeyed = 0;

inline try_schedule()
{
    if
    :: sched == IDLE ->
        won = false;
        atomic {
            if
            :: sched == IDLE -> sched = SCHEDULED; won = true;
            :: else
            fi
        };
        if
        :: won -> queued++;
        :: else
        fi
    :: else
    fi
}

/* route; `own` and `closed`: the actor's of that lane; `of_worker`: where those of the workers begin. */
inline route(target, own, closed, of_worker)
{
    done = false;
    do
    :: done -> break
    :: else ->
        if
        :: id != target -> refused++; done = true;
        :: else ->
            where = home;
            if
            :: where == 0 ->
                atomic {
                    if
                    :: !closed -> own!target; done = true;
                    :: else
                    fi
                };
                if
                :: done -> try_schedule();
                :: else
                fi
            :: else -> inbox[of_worker + where - 1]!target; done = true;
            fi
        fi
    od
}

proctype sender()
{
    byte where;
    bool done, won;
    route(1, mailbox, mailbox_closed, 0);
}

/* The order; then be_born, of the second bearer, and what is sent to that. */
proctype orderer()
{
    byte where;
    bool done, won;
    route(1, control, control_closed, LANE);
    ordered = true;
    free;
    home = 0;
#ifdef IDLE_AT_BIRTH
    sched = (call -> IDLE : SCHEDULED);
#else
    sched = SCHEDULED;
#endif
    atomic { assert(len(mailbox) == 0 && len(control) == 0); mailbox_closed = false; control_closed = false; }
    id = 2;
    if
    :: !call -> queued++;
#ifndef IDLE_AT_BIRTH
    :: else ->
        sched = IDLE;
        if
        :: len(mailbox) > 0 || len(control) > 0 -> try_schedule();
        :: else
        fi
#else
    :: else
#endif
    fi;
    route(2, mailbox, mailbox_closed, 0);
}

#ifdef ANY_TARGET
#define FOR_IT(whom) true
#else
#define FOR_IT(whom) (whom == id)
#endif

/* In one step: what was taken is the worker's own. */
inline adopt_messages(from)
{
    do
    :: len(from) > 0 ->
        from?whom;
        if
        :: FOR_IT(whom) -> assert(whom == id); user++;
        :: else -> dead++;
        fi
    :: else -> whom = 0; break
    od
}

inline adopt_orders(from)
{
    do
    :: len(from) > 0 ->
        from?whom;
        if
        :: whom == id -> orders++;
        :: else -> dead++;
        fi
    :: else -> whom = 0; break
    od
}

inline die()
{
    obeyed = obeyed + orders;
    orders = 0;
    id = 0;
#ifdef IDLE_AT_END
    sched = IDLE;
#else
    sched = PINNED;
#endif
#ifdef OPEN_AT_END
    atomic { adopt_messages(mailbox); }
#else
    atomic { mailbox_closed = true; adopt_messages(mailbox); }
#endif
    atomic { control_closed = true; adopt_orders(control); }
    atomic { dead = dead + user; user = 0; }
    handlers--;
    free = true;
}

/* `home` is the worker's own to write while it runs the actor. */
#define OWN_ORDERS atomic { if :: home == 0 -> adopt_orders(control); :: else fi; };

proctype worker(byte me)
{
    byte whom, bearer;
    bool known, won;
end:
    do
    :: atomic { queued > 0 -> queued--; } ->
        assert(sched == SCHEDULED && id != 0);
        bearer = id;
        sched = PROCESSING;
        if
        :: stays || bearer == 2 ->
            home = me + 1;
            sched = PINNED;
#ifdef LANE_OPEN
            atomic { adopt_orders(control); }
#else
            atomic { control_closed = true; adopt_orders(control); }
#endif
            atomic { mailbox_closed = true; adopt_messages(mailbox); }
        :: else ->
            atomic { adopt_orders(control); }
            atomic { adopt_messages(mailbox); }
        fi;
        goto turn
    :: len(inbox[LANE + me]) > 0 || len(inbox[me]) > 0 ->
        atomic { adopt_orders(inbox[LANE + me]); }
        atomic { adopt_messages(inbox[me]); }
        if
        :: home == me + 1 && id != 0 && (user > 0 || orders > 0) -> bearer = id; goto turn
        :: else
        fi
    od;
turn:
    atomic {
        handlers++;
        assert(handlers == 1 && id == bearer);
#ifdef ORDERS_LATE
        adopt_orders(inbox[LANE + me]);
#endif
    };
#ifdef OWN_LATE
    OWN_ORDERS
#endif
    do
    :: atomic {
            known = ordered && bearer == 1;
#ifndef ORDERS_LATE
            adopt_orders(inbox[LANE + me]);
#endif
        };
#ifndef OWN_LATE
        OWN_ORDERS
#endif
        if
        :: orders > 0 -> die(); goto next
        :: orders == 0 && user > 0 -> atomic { assert(!known); user--; handled++; }
        :: orders == 0 && user == 0 -> break
        fi
    od;
    atomic {
        handlers--;
        if
        :: home == 0 -> sched = IDLE;
        :: else -> goto next
        fi
    };
    if
#ifdef NO_RECLAIM
    :: len(mailbox) > 0 -> try_schedule();
#else
    :: len(mailbox) > 0 || len(control) > 0 -> try_schedule();
#endif
    :: else
    fi;
next:
    atomic { whom = 0; bearer = 0; known = false; won = false; goto end }
}

init {
    atomic {
        if
        :: stays = true;
        :: stays = false;
        fi;
        if
        :: call = true;
        :: call = false;
        fi;
        run worker(0); run worker(1);
        run sender(); run orderer();
    }
}

ltl settled { <> (handled + dead + refused == TOTAL - 1 && obeyed == 1 && id == 2) }
