/* See terminal.h. */
#include "terminal.h"

#include "alloc.h"
#include "log.h"
#include "parker.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { LONGEST = 16 << 20, HISTORY_LINES = 1000, HISTORY_BYTES = 1 << 20, COMPLETE_NS = 1000000000 };

/* --- libedit, as its histedit.h has it */

typedef struct editline EditLine;
typedef struct history History;
typedef struct { int num; const char *str; } HistEvent;
typedef struct { const char *buffer, *cursor, *lastchar; } LineInfo;

enum { EL_PROMPT = 0, EL_EDITOR = 2, EL_SIGNAL = 3, EL_BIND = 4, EL_ADDFN = 9, EL_HIST = 10, EL_GETCFN = 13,
       EL_PREP_TERM = 16, EL_REFRESH = 20 };
enum { CC_REFRESH = 4, CC_ERROR = 6 };
enum { H_SETSIZE = 1, H_ENTER = 10, H_SETUNIQUE = 20 };

typedef struct library {
    EditLine *(*init)(const char *, FILE *, FILE *, FILE *);
    int (*set)(EditLine *, int, ...);
    const char *(*gets)(EditLine *, int *);
    const LineInfo *(*line)(EditLine *);
    int (*insertstr)(EditLine *, const char *);
    int (*source)(EditLine *, const char *);
    void (*resize)(EditLine *);
    History *(*history_init)(void);
    int (*history)(History *, HistEvent *, int, ...);
} library;

struct pr_terminal {
    pthread_mutex_t turnstile;        /* see enter */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    pr_terminal_deliver deliver;      /* NULL once it is closed */
    void *context;
    char *history_path;
    bool input_is_terminal, output_is_terminal, error_is_terminal, dumb;
    bool closing, ended, wanted;      /* wanted: a line has been asked for and not come */
    bool editing;                     /* a line is being edited: libedit waits for a key */
    bool erased;                      /* ... and is not to be seen: something was written in its place */
    bool middle;                      /* the last thing written has left the cursor in the middle of a line */
    bool interrupted;                 /* the line being typed is to be given up */
    bool completing, completed;
    int breaks;                       /* interrupt keys since the last line */
    int wake;                         /* eventfd: the reading thread is to look */
    int row;                          /* of the cursor, below the row of the prompt */
    struct winsize size;
    char *prompt;
    char *insert, *choices;
    library lib;
    EditLine *el;
    History *history;
    locale_t locale;
};

/* Takes the lock in turn: one that writes without end would otherwise take it again before whoever waits for it has
 * got up. Whoever waits stands in the turnstile, which the writer has to pass. */
static void enter(pr_terminal *t)
{
    pthread_mutex_lock(&t->turnstile);
    pthread_mutex_lock(&t->lock);
    pthread_mutex_unlock(&t->turnstile);
}

static void leave(pr_terminal *t) { pthread_mutex_unlock(&t->lock); }

/* The process's: it has one terminal. */
static struct termios first_modes;
static volatile sig_atomic_t has_first_modes;

void pr_terminal_restore(void)
{
    if (has_first_modes)
        tcsetattr(STDIN_FILENO, TCSANOW, &first_modes);
}

bool pr_terminal_interactive(const pr_terminal *t) { return t->input_is_terminal; }
bool pr_terminal_on_screen(const pr_terminal *t) { return t->output_is_terminal; }
bool pr_terminal_edits(const pr_terminal *t) { return t->el != NULL; }

bool pr_terminal_coloured(const pr_terminal *t)
{
    const char *no = getenv("NO_COLOR");
    return t->output_is_terminal && !t->dumb && !(no && *no);
}

static char *copy_text(const char *bytes, size_t len)
{
    char *copy = pr_alloc(len + 1);
    if (copy) {
        memcpy(copy, bytes, len);
        copy[len] = 0;
    }
    return copy;
}

/* The lock is held; it is not while the receiver works. */
static void deliver(pr_terminal *t, enum pr_terminal_event event, const char *text, size_t len)
{
    pr_terminal_deliver to = t->deliver;
    void *context = t->context;
    if (!to)
        return;
    leave(t);
    to(context, event, text, len);
    enter(t);
}

static void nudge(pr_terminal *t)
{
    uint64_t one = 1;
    ssize_t wrote = write(t->wake, &one, sizeof one);   /* full: it is awake already */
    (void)wrote;
}

/* --- the interrupt key */

/* The handler's, on the reading thread: set there, taken between two waits. */
/* Relaxed: a signal may be handled on any thread, and tells nothing but itself. The write to the eventfd comes after. */
static atomic_bool interrupt_key, continued;
static int interrupt_wake = -1;

static void on_interrupt(int number)
{
    int before = errno;
    uint64_t one = 1;
    (void)number;
    atomic_store_explicit(&interrupt_key, true, memory_order_relaxed);
    ssize_t wrote = write(interrupt_wake, &one, sizeof one);
    (void)wrote;
    errno = before;
}

/* The process was stopped, and goes on. */
static void on_continue(int number)
{
    int before = errno;
    uint64_t one = 1;
    (void)number;
    atomic_store_explicit(&continued, true, memory_order_relaxed);
    ssize_t wrote = write(interrupt_wake, &one, sizeof one);
    (void)wrote;
    errno = before;
}

static bool take_interrupt(void)
{
    return atomic_exchange_explicit(&interrupt_key, false, memory_order_relaxed);
}

/* Waits for the wake-up alone, or for a key too; true: there is one. The lock is given up meanwhile. */
static bool wait_for(pr_terminal *t, bool key)
{
    struct pollfd waits[] = {{t->wake, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    leave(t);
    (void)poll(waits, key ? 2 : 1, -1);   /* interrupted: nothing is marked, the caller looks */
    enter(t);
    if (waits[0].revents) {
        uint64_t count;
        ssize_t got = read(t->wake, &count, sizeof count);
        (void)got;
    }
    return key && waits[1].revents;
}

/* --- writing */

static void erase_line(pr_terminal *t)
{
    if (!t->editing || t->erased)
        return;
    if (t->row > 0)
        fprintf(stdout, "\r\033[%dA\033[J", t->row);
    else
        fputs("\r\033[J", stdout);
    t->erased = true;
}

/* What has been written stays above the line that comes back. */
static void end_line(pr_terminal *t)
{
    if (t->middle && t->output_is_terminal)
        fputc('\n', stdout);
    t->middle = false;
}

int pr_terminal_write(pr_terminal *t, const char *bytes, size_t len)
{
    if (len == 0)
        return 0;
    enter(t);
    erase_line(t);
    fflush(stdout);
    int status = pr_write_all(STDOUT_FILENO, bytes, len);
    t->middle = bytes[len - 1] != '\n';
    if (t->editing)
        nudge(t);
    leave(t);
    return status;
}

int pr_terminal_write_error(pr_terminal *t, const char *bytes, size_t len)
{
    if (len == 0)
        return 0;
    enter(t);
    if (t->error_is_terminal && t->output_is_terminal) {
        erase_line(t);
        end_line(t);
        fflush(stdout);
        t->middle = bytes[len - 1] != '\n';
    }
    int status = pr_write_all(STDERR_FILENO, bytes, len);
    if (t->editing)
        nudge(t);
    leave(t);
    return status;
}

/* --- where the cursor is */

static void look_at_size(pr_terminal *t)
{
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &t->size) != 0 || t->size.ws_col == 0)
        t->size.ws_col = 80;
}

/* How far `text` leads from column `column` of the first row, in columns of one endless row. */
static int advance(const pr_terminal *t, const char *text, size_t len, int at)
{
    int columns = t->size.ws_col;
    mbstate_t state = {0};
    while (len > 0) {
        wchar_t c;
        size_t n = mbrtowc(&c, text, len, &state);   // NOLINT(concurrency-mt-unsafe): with a state of its own it is safe
        int width = 1;
        if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
            n = 1;
            width = 4;   /* libedit writes such a byte as \ooo */
            state = (mbstate_t){0};
        } else if (c == L'\t') {
            width = 8 - at % 8;
        } else if (c < L' ' || c == 127) {
            width = 2;   /* ^X */
        } else if ((width = wcwidth(c)) < 0) {
            width = 8;   /* \U+XXXX */
        }
        if (width > 1 && at % columns + width > columns && width <= 2)
            at += columns - at % columns;   /* a wide one is not split */
        at += width;
        text += n;
        len -= n;
    }
    return at;
}

static void note_cursor(pr_terminal *t)
{
    const LineInfo *info = t->lib.line(t->el);
    int at = advance(t, t->prompt, strlen(t->prompt), 0);
    at = advance(t, info->buffer, (size_t)(info->cursor - info->buffer), at);
    t->row = at / t->size.ws_col;
}

/* --- editing: all of this on the reading thread, with the lock held */

static __thread pr_terminal *reading;

static pr_terminal *of(EditLine *el)
{
    (void)el;
    return reading;
}

static char *prompt_of(EditLine *el) { return of(el)->prompt; }

static void show_line(pr_terminal *t)
{
    end_line(t);
    t->erased = false;
    t->lib.set(t->el, EL_REFRESH);
    note_cursor(t);
}

static void resize(pr_terminal *t)
{
    struct winsize before = t->size;
    look_at_size(t);
    if (before.ws_col == t->size.ws_col && before.ws_row == t->size.ws_row)
        return;
    erase_line(t);
    t->lib.resize(t->el);
    show_line(t);
}

/* 1: a key; 0: the end of the input; -1: the line is given up. */
static int read_key(EditLine *el, wchar_t *key)
{
    pr_terminal *t = of(el);
    char bytes[MB_LEN_MAX];
    size_t n = 0;
    mbstate_t state = {0};
    note_cursor(t);
    t->editing = true;
    fflush(stdout);
    for (;;) {
        bool ready = wait_for(t, true);
        t->interrupted = t->interrupted || take_interrupt();
        if (t->closing || t->interrupted)
            break;
        if (atomic_exchange_explicit(&continued, false, memory_order_relaxed)) {   /* whoever had the terminal meanwhile has changed its modes, and the screen */
            t->lib.set(el, EL_PREP_TERM, 0);
            t->lib.set(el, EL_PREP_TERM, 1);
            t->row = 0;   /* wherever the cursor is now */
            erase_line(t);
        }
        resize(t);
        if (t->erased)
            show_line(t);
        if (!ready)
            continue;
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0) {
            t->editing = false;
            return 0;
        }
        size_t made = mbrtowc(key, bytes + n, 1, &state);   // NOLINT(concurrency-mt-unsafe): as above
        n++;
        if (made == (size_t)-2 && n < sizeof bytes)
            continue;
        if (made == (size_t)-1 || made == (size_t)-2)
            *key = L'?';
        t->editing = false;
        return 1;
    }
    t->editing = false;
    if (t->interrupted && !t->erased) {   /* what has been typed stays on the screen: on behind its last row */
        const LineInfo *info = t->lib.line(el);
        int at = advance(t, t->prompt, strlen(t->prompt), 0);
        int last = advance(t, info->buffer, (size_t)(info->lastchar - info->buffer), at) / t->size.ws_col;
        if (last > t->row)
            fprintf(stdout, "\033[%dB", last - t->row);
    }
    return -1;
}

/* In columns, as many as fit. */
static void list_choices(pr_terminal *t, const char *choices)
{
    int widest = 0, count = 0;
    for (const char *at = choices; *at;) {
        const char *end = strchrnul(at, '\n');
        int width = advance(t, at, (size_t)(end - at), 0);
        widest = width > widest ? width : widest;
        count++;
        at = *end ? end + 1 : end;
    }
    int across = t->size.ws_col / (widest + 2);
    across = across > 0 ? across : 1;
    int rows = (count + across - 1) / across;
    for (int row = 0; row < rows; row++) {
        int i = 0, pad = 0;
        for (const char *at = choices; *at; i++) {
            const char *end = strchrnul(at, '\n');
            if (i % rows == row) {
                fprintf(stdout, "%*s%.*s", pad, "", (int)(end - at), at);
                pad = widest + 2 - advance(t, at, (size_t)(end - at), 0);
            }
            at = *end ? end + 1 : end;
        }
        fputc('\n', stdout);
    }
}

static unsigned char on_complete(EditLine *el, int key)
{
    pr_terminal *t = of(el);
    const LineInfo *info = t->lib.line(el);
    size_t len = (size_t)(info->cursor - info->buffer), blank = strspn(info->buffer, " \t");
    (void)key;
    if (blank >= len) {
        t->lib.insertstr(el, "  ");
        return CC_REFRESH;
    }
    char *text = copy_text(info->buffer, len);
    if (!text)
        return CC_ERROR;
    note_cursor(t);
    t->editing = true;   /* others may write meanwhile */
    t->completing = true;
    t->completed = false;
    deliver(t, PR_TERMINAL_COMPLETE, text, len);
    pr_free(text);
    uint64_t until_ns = pr_now_ns() + COMPLETE_NS;
    while (!t->completed && !t->closing)
        if (!pr_cond_wait_until(&t->changed, &t->lock, until_ns))
            break;
    t->completing = false;
    unsigned char result = CC_ERROR;
    if (t->completed && t->insert && *t->insert) {
        t->lib.insertstr(el, t->insert);
        result = CC_REFRESH;
    } else if (t->completed && t->choices && *t->choices) {
        erase_line(t);
        end_line(t);
        list_choices(t, t->choices);
        result = CC_REFRESH;
    }
    if (t->erased)
        show_line(t);
    t->editing = false;
    return result;
}

void pr_terminal_completed(pr_terminal *t, const char *insert, size_t insert_len, const char *choices, size_t choices_len)
{
    char *first = copy_text(insert, insert_len), *second = copy_text(choices, choices_len);
    enter(t);
    if (t->completing && !t->completed) {
        pr_free(t->insert);
        pr_free(t->choices);
        t->insert = first;
        t->choices = second;
        first = second = NULL;
        t->completed = true;
        pthread_cond_broadcast(&t->changed);
    }
    leave(t);
    pr_free(first);
    pr_free(second);
}

static bool load_library(library *lib)
{
    static const char *const names[] = {"libedit.so.2", "libedit.so.0", "libedit.so"};
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof names / sizeof *names; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    struct { const char *name; void *place; } symbols[] = {
        {"el_init", &lib->init}, {"el_set", &lib->set}, {"el_gets", &lib->gets},
        {"el_line", &lib->line}, {"el_insertstr", &lib->insertstr}, {"el_source", &lib->source},
        {"el_resize", &lib->resize}, {"history_init", &lib->history_init}, {"history", &lib->history}};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address)
            return false;   /* of another make: the library stays, unused */
        memcpy(symbols[i].place, &address, sizeof address);
    }
    return true;
}

static void enter_history(pr_terminal *t, const char *line)
{
    HistEvent event;
    if (*line)
        t->lib.history(t->history, &event, H_ENTER, line);
}

/* The file has a line for each entry, the newest last. */
static void load_history(pr_terminal *t)
{
    FILE *file = t->history_path ? fopen(t->history_path, "re") : NULL;
    if (!file)
        return;
    if (fseek(file, -HISTORY_BYTES, SEEK_END) == 0)
        for (int c = 0; c != '\n' && c != EOF;)   /* not half a line */
            c = getc(file);
    else
        rewind(file);
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, file)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        enter_history(t, line);
    }
    free(line);
    fclose(file);
}

/* One write for each line, at the end of the file: sessions side by side do not take each other's. Lines that begin
 * with a blank are kept nowhere. */
static void keep_history(pr_terminal *t, const char *line)
{
    size_t len = strlen(line);
    if (len == 0 || line[0] == ' ')
        return;
    enter_history(t, line);
    char *record = t->history_path ? copy_text(line, len) : NULL;
    int fd = record ? open(t->history_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        struct stat at;
        record[len] = '\n';
        if (fstat(fd, &at) == 0 && S_ISREG(at.st_mode) && at.st_size < (off_t)8 * HISTORY_BYTES) {
            ssize_t wrote = write(fd, record, len + 1);   /* a full disk: the line is in memory */
            (void)wrote;
        }
        close(fd);
    }
    pr_free(record);
}

static bool start_editing(pr_terminal *t)
{
    static const char *const keys[][2] = {
        {"^I", "pierrot-complete"}, {"^R", "em-inc-search-prev"},
        {"\\e[3~", "ed-delete-next-char"}, {"\\e[H", "ed-move-to-beg"}, {"\\e[F", "ed-move-to-end"},
        {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"}, {"\\eOH", "ed-move-to-beg"}, {"\\eOF", "ed-move-to-end"},
        {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"}};
    if (!load_library(&t->lib))
        return false;
    /* Characters of several bytes, for this thread alone. */
    t->locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (!t->locale || strcmp(nl_langinfo_l(CODESET, t->locale), "UTF-8") != 0) {
        locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        t->locale = utf8 ? utf8 : t->locale;
    }
    if (t->locale)
        uselocale(t->locale);
    HistEvent event;
    t->history = t->lib.history_init();
    t->el = t->lib.init("pierrot", stdin, stdout, stderr);
    if (!t->el || !t->history) {
        t->el = NULL;
        return false;
    }
    t->lib.history(t->history, &event, H_SETSIZE, HISTORY_LINES);
    t->lib.history(t->history, &event, H_SETUNIQUE, 1);
    t->lib.set(t->el, EL_SIGNAL, 0);
    t->lib.set(t->el, EL_HIST, t->lib.history, t->history);
    t->lib.set(t->el, EL_PROMPT, prompt_of);
    t->lib.set(t->el, EL_EDITOR, "emacs");
    t->lib.set(t->el, EL_GETCFN, read_key);
    t->lib.set(t->el, EL_ADDFN, "pierrot-complete", "complete the word", on_complete);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        t->lib.set(t->el, EL_BIND, keys[i][0], keys[i][1], NULL);
    t->lib.source(t->el, NULL);   /* ~/.editrc */
    load_history(t);
    return true;
}

/* --- reading */

enum got { GOT_LINE, GOT_END, GOT_INTERRUPT, GOT_NOTHING };

static enum got edit_line(pr_terminal *t, char **line, size_t *len)
{
    int n = 0;
    end_line(t);
    look_at_size(t);
    t->erased = false;
    t->row = 0;
    t->lib.set(t->el, EL_PREP_TERM, 1);   /* before the prompt is seen, or the system echoes what is typed at once */
    const char *text = t->lib.gets(t->el, &n);
    if (t->closing)
        return GOT_NOTHING;
    if (t->interrupted) {
        t->interrupted = false;
        fputs("^C\n", stdout);
        fflush(stdout);
        return GOT_INTERRUPT;
    }
    if (!text || n <= 0) {
        fputc('\n', stdout);
        fflush(stdout);
        return GOT_END;
    }
    *len = (size_t)n - (text[n - 1] == '\n');
    *line = copy_text(text, *len);
    if (*line)
        keep_history(t, *line);
    return GOT_LINE;
}

/* Until there is a line to read: false where the interrupt key is first, or the terminal is closed. A read that has not begun
 * yet would not notice either. */
static bool wait_for_line(pr_terminal *t)
{
    if (!t->input_is_terminal)
        return true;
#ifdef __GLIBC__
    if (stdin->_IO_read_ptr < stdin->_IO_read_end)   /* left of the last read; elsewhere one cannot tell */
        return true;
#endif
    while (!atomic_load_explicit(&interrupt_key, memory_order_relaxed) && !t->closing)
        if (wait_for(t, true))
            return true;
    return false;
}

/* A line as the system gives it. */
static enum got plain_line(pr_terminal *t, char **line, size_t *len)
{
    size_t cap = 0;
    int c;
    if (t->input_is_terminal) {
        end_line(t);
        fputs(t->prompt, stdout);
    }
    fflush(stdout);
    *len = 0;
    if (!wait_for_line(t) && !atomic_load_explicit(&interrupt_key, memory_order_relaxed))
        return GOT_NOTHING;
    bool interrupted = atomic_load_explicit(&interrupt_key, memory_order_relaxed);
    leave(t);
    flockfile(stdin);   /* its buffer is the program's too, which may read lines itself */
    errno = 0;
    while ((c = interrupted ? EOF : getc_unlocked(stdin)) != EOF && c != '\n') {
        if (*len + 1 >= cap) {
            char *grown = pr_realloc(*line, cap = cap ? 2 * cap : 256);
            if (!grown)
                break;
            *line = grown;
        }
        if (*len == LONGEST)
            break;
        (*line)[(*len)++] = (char)c;
    }
    bool too_long = c != EOF && c != '\n';
    interrupted = interrupted || (c == EOF && ferror(stdin) && errno == EINTR);
    if (c == EOF && t->input_is_terminal)
        clearerr(stdin);
    funlockfile(stdin);
    enter(t);
    if (interrupted && take_interrupt()) {   /* the system has thrown away what was typed */
        if (t->output_is_terminal)
            fputc('\n', stdout);
        return GOT_INTERRUPT;
    }
    if (too_long) {
        pr_free(*line);
        *line = copy_text("a line of the input is too long", 31);
        *len = 31;
        return GOT_END;
    }
    if (c == EOF && *len == 0) {
        if (t->input_is_terminal && t->output_is_terminal)
            fputc('\n', stdout);
        return GOT_END;
    }
    if (!*line)
        *line = copy_text("", 0);
    return GOT_LINE;
}

static void *read_lines(void *terminal)
{
    pr_terminal *t = terminal;
    reading = t;
    if (t->input_is_terminal) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, SIGINT);
        pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    }
    enter(t);
    if (t->input_is_terminal && t->output_is_terminal && !t->dumb)
        start_editing(t);
    t->completed = true;   /* ready: pr_terminal_open waits for it */
    pthread_cond_broadcast(&t->changed);
    for (;;) {
        while (!t->wanted && !t->closing) {
            wait_for(t, false);
            if (!take_interrupt())
                continue;
            char text[16];
            if (t->output_is_terminal) {   /* behind the ^C that the system shows */
                fputc('\n', stdout);
                fflush(stdout);
            }
            int n = snprintf(text, sizeof text, "%d", ++t->breaks);
            deliver(t, PR_TERMINAL_BREAK, text, (size_t)n);
        }
        if (t->closing)
            break;
        char *line = NULL;
        size_t len = 0;
        enum got got = t->el ? edit_line(t, &line, &len) : plain_line(t, &line, &len);
        t->wanted = false;   /* before anybody hears of it, who may ask for the next */
        t->breaks = 0;
        if (got != GOT_NOTHING)
            deliver(t, got == GOT_LINE ? PR_TERMINAL_LINE : got == GOT_END ? PR_TERMINAL_END : PR_TERMINAL_INTERRUPT,
                    line ? line : "", line ? len : 0);
        pr_free(line);
    }
    t->ended = true;
    pthread_cond_broadcast(&t->changed);
    leave(t);
    return NULL;
}

void pr_terminal_ask(pr_terminal *t, const char *prompt, size_t len)
{
    char *copy = copy_text(prompt, len);
    enter(t);
    if (copy && !t->wanted) {
        char *old = t->prompt;
        t->prompt = copy;
        copy = old;
        t->wanted = true;
        nudge(t);
    }
    leave(t);
    pr_free(copy);
}

void pr_terminal_catch(pr_terminal *t)
{
    if (!t->input_is_terminal)
        return;
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGINT);
    pthread_sigmask(SIG_BLOCK, &only, NULL);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;   /* without SA_RESTART: a read of a plain line ends */
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = on_continue;
    action.sa_flags = SA_RESTART;
    sigaction(SIGCONT, &action, NULL);
}

/* --- its life */

pr_terminal *pr_terminal_open(const char *history, pr_terminal_deliver to, void *context)
{
    pr_terminal *t = pr_zalloc(sizeof *t);
    if (!t)
        return NULL;
    const char *term = getenv("TERM");
    t->deliver = to;
    t->context = context;
    t->input_is_terminal = isatty(STDIN_FILENO);
    t->output_is_terminal = isatty(STDOUT_FILENO);
    t->error_is_terminal = isatty(STDERR_FILENO);
    t->dumb = !term || !*term || strcmp(term, "dumb") == 0;
    t->prompt = copy_text("", 0);
    t->history_path = history ? copy_text(history, strlen(history)) : NULL;
    t->wake = interrupt_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    look_at_size(t);
    if (t->input_is_terminal && tcgetattr(STDIN_FILENO, &first_modes) == 0 && !has_first_modes) {
        has_first_modes = 1;
        atexit(pr_terminal_restore);
    }
    bool locks = pthread_mutex_init(&t->turnstile, NULL) == 0 && pthread_mutex_init(&t->lock, NULL) == 0;
    bool ready = locks && pr_cond_init(&t->changed) == 0 && t->prompt && t->wake >= 0 && (!history || t->history_path);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);   /* they go to the thread that watches for them */
    ready = ready && pthread_create(&t->thread, NULL, read_lines, t) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!ready) {   /* once in a process, which is about to end */
        if (t->wake >= 0)
            close(t->wake);
        pr_free(t->prompt);
        pr_free(t->history_path);
        pr_free(t);
        return NULL;
    }
    enter(t);
    while (!t->completed)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_detach(t->thread);   /* it may be in a read for ever; pr_terminal_close waits for it where it can */
    t->completed = false;
    leave(t);
    return t;
}

void pr_terminal_close(pr_terminal *t)
{
    enter(t);
    t->deliver = NULL;
    t->closing = true;
    nudge(t);
    pthread_cond_broadcast(&t->changed);
    /* One that reads plain lines may sit in the read; it holds nothing but its own stack and this, which stays. */
    uint64_t until_ns = pr_now_ns() + COMPLETE_NS;
    while (!t->ended && (t->el || !t->wanted))
        if (!pr_cond_wait_until(&t->changed, &t->lock, until_ns))
            break;
    leave(t);
    pr_terminal_restore();
}
