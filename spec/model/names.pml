/* Names, groups and subscriptions beside the end of who has them. README.md says which code each step stands for.
 *
 * Two names, and two others who give them to an actor while it ends; then to the next bearer of its record, each the name
 * that the other one gave before. That one ends as well. `table` says who has a name: what stands under its lock is one step.
 *
 * Shown: in the end nobody has a name (`freed`), and nobody loses one while he lives. Mutants, each of which must fail:
 */
/* mutant: LOOK_FIRST   who gives a name looks whether the actor lives, and then marks that it has one */
/* mutant: MARK_LATE    who ends looks for the mark before its id is gone */
/* mutant: NO_LOOK      who gives a name does not look again */
/* mutant: ANYBODY      the name is taken back from whoever has it */
/* mutant: KEPT_MARK    the next bearer of the record unmarks it when its id is known */
/* pan: -f */

#define NAMES 2

byte id = 1;              /* of the record's bearer, 0: none */
bool marked = false;      /* `named` */
byte table[NAMES];        /* the id that has it */
bool over = false;
byte busy = 2;            /* who still gives names */

/* pr_registry_remove: from this one only */
inline remove(name, whose)
{
    atomic {
        if
#ifdef ANYBODY
        :: table[name] != 0 ->
#else
        :: table[name] == whose ->
#endif
            assert(id == 0 || table[name] != id);
            table[name] = 0;
        :: else
        fi
    }
}

/* pr_name_register, of an actor that lived when it was looked for */
inline give(name, whose)
{
    if
    :: id == whose ->
        won = false;
        atomic {
            if
            :: table[name] == 0 -> table[name] = whose; won = true;
            :: else
            fi
        };
        if
        :: won ->
#ifdef LOOK_FIRST
            lives = (id == whose);
            marked = true;
#else
            marked = true;
            lives = (id == whose);
#endif
#ifdef NO_LOOK
            lives = true;
#endif
            if
            :: !lives -> remove(name, whose);
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

/* die: pr_actor_unname */
inline end_of(whose)
{
#ifdef MARK_LATE
    mark = marked;
    id = 0;
#else
    id = 0;
    mark = marked;
#endif
    if
    :: mark -> remove(0, whose); remove(1, whose);
    :: else
    fi
}

proctype owner()
{
    bool mark;
    end_of(1);
    /* be_born */
#ifdef KEPT_MARK
    id = 2;
    marked = false;
#else
    marked = false;
    id = 2;
#endif
    end_of(2);
    over = true;
}

proctype giver(byte first; byte second)
{
    bool won, lives;
    give(first, 1);
    (id == 2 || over);
    give(second, 2);
    won = false; lives = false;
    busy--;
}

init {
    atomic { run owner(); run giver(0, 1); run giver(1, 0); }
}

#define OVER (busy == 0 && over)

ltl freed { <> (OVER && table[0] == 0 && table[1] == 0) }
