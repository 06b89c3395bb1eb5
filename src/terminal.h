/* The terminal of the `pierrot` command: lines are read on a thread of their own, so that waiting for one holds no
 * worker, and what others write comes out above the line that is being typed.
 *
 * Lines are edited by libedit where it is found when the program runs, standard input and output are a terminal, and
 * that is no dumb one. Otherwise they come as the system gives them.
 *
 * A line is read when it is asked for, and not before: until then the terminal is the program's, in its ordinary mode,
 * where the interrupt key is a signal. Events come one at a time from the reading thread; whoever takes them must not
 * wait for anything that writes.
 *
 * One lock guards all: what is written, what libedit knows, and the state. The reading thread gives it up while it
 * waits for a key. A process has one terminal, and so at most one of these. */
#ifndef PR_TERMINAL_H
#define PR_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pr_terminal pr_terminal;

enum pr_terminal_event {
    PR_TERMINAL_LINE,        /* text: the line that was asked for, without its end */
    PR_TERMINAL_END,         /* there are no more lines; text: why, when that is an error */
    PR_TERMINAL_INTERRUPT,   /* the line being typed was given up; the asking is over */
    PR_TERMINAL_BREAK,       /* the interrupt key while no line was asked for; text: how often since the last line */
    PR_TERMINAL_COMPLETE     /* text: the line up to the cursor; pr_terminal_completed is awaited for a second */
};
typedef void (*pr_terminal_deliver)(void *context, enum pr_terminal_event event, const char *text, size_t len);

/* history: a file to keep lines in, or NULL. NULL: no memory, or no thread. */
pr_terminal *pr_terminal_open(const char *history, pr_terminal_deliver deliver, void *context);
/* The terminal is left as it was found, and nothing is delivered any more. */
void pr_terminal_close(pr_terminal *t);

/* Standard input is a terminal; standard output is; and takes colours; lines are edited. */
bool pr_terminal_interactive(const pr_terminal *t);
bool pr_terminal_on_screen(const pr_terminal *t);
bool pr_terminal_coloured(const pr_terminal *t);
bool pr_terminal_edits(const pr_terminal *t);

/* Any thread, from here on. Asks for a line. */
void pr_terminal_ask(pr_terminal *t, const char *prompt, size_t len);
/* To standard output, which is a terminal, as a whole; 0 or an errno. Waits as long as that does. */
int pr_terminal_write(pr_terminal *t, const char *bytes, size_t len);
/* The same to standard error: one that is a terminal too is the same screen. */
int pr_terminal_write_error(pr_terminal *t, const char *bytes, size_t len);
/* Answers COMPLETE: what to insert at the cursor, and what to choose from, a line each. */
void pr_terminal_completed(pr_terminal *t, const char *insert, size_t insert_len, const char *choices, size_t choices_len);
/* From now on SIGINT is the interrupt key of this terminal, if it is one. The calling thread, and those it makes, block it:
 * it is the reading thread's, so that it comes in its place between keys. */
void pr_terminal_catch(pr_terminal *t);
/* The modes the terminal had at first, for a process that is about to end. Safe in a signal handler. */
void pr_terminal_restore(void);

#endif
