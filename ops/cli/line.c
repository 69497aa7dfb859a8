/* A line typed on a terminal: editing, history, and a Ctrl-C that is never missed. Main thread.
 *
 * libedit reads the terminal through read_char() below, which waits in short turns and looks at
 * cli_interrupted in each: a signal that comes between the prompt and the wait would not end a
 * blocking read. */
#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"

enum { HISTORY_MAX = 1000, TURN_MS = 100 };

struct cli_line {
    EditLine *editor;
    History *history;
};

static char *prompt(EditLine *editor)
{
    (void)editor;
    static char text[] = "> ";
    return text;
}

/* One byte of standard input: 1; 0 at its end; −1 on Ctrl-C or an error. */
static int read_byte(char *byte)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        if (cli_interrupted)
            return -1;
        int ready = poll(&input, 1, TURN_MS);
        if (ready < 0 && errno != EINTR)
            return -1;
        if (ready <= 0)
            continue;
        ssize_t n = read(STDIN_FILENO, byte, 1);
        if (n >= 0 || errno != EINTR)
            return (int)n;
    }
}

/* libedit's way to get a character. Bytes that are none in this locale are passed over. */
static int read_char(EditLine *editor, wchar_t *wide)
{
    (void)editor;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        int got = read_byte(&byte);
        if (got <= 0)
            return got;
        size_t used = mbrtowc(wide, &byte, 1, &state);
        if (used <= 1)
            return 1;
        if (used == (size_t)-1)
            state = (mbstate_t){0};
    }
}

static void bind_keys(EditLine *editor)
{
    static const char *const keys[][2] = {
        {"^R", "em-inc-search-prev"}, {"\\e[1~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"}, {"\\e[3~", "ed-delete-next-char"},
        {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        el_set(editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

int cli_line_open(cli_line **out)
{
    cli_line *line = calloc(1, sizeof *line);
    if (line)
        line->editor = el_init("lacuna", stdin, stdout, stderr);
    if (line && line->editor)
        line->history = history_init();
    if (!line || !line->history) {
        fprintf(stderr, "lacuna: out of memory, or no terminal to edit lines on\n");
        cli_line_close(&line);
        return CLI_FAILED;
    }
    HistEvent event;
    history(line->history, &event, H_SETSIZE, HISTORY_MAX);
    el_set(line->editor, EL_PROMPT, prompt);
    el_set(line->editor, EL_EDITOR, "emacs");
    el_set(line->editor, EL_HIST, history, line->history);
    el_set(line->editor, EL_GETCFN, read_char);
    bind_keys(line->editor);
    *out = line;
    return CLI_OK;
}

void cli_line_close(cli_line **line)
{
    if (*line && (*line)->editor)
        el_end((*line)->editor);
    if (*line && (*line)->history)
        history_end((*line)->history);
    free(*line);
    *line = NULL;
}

char *cli_line_read(cli_line *line)
{
    for (;;) {
        int length = 0;
        cli_interrupted = 0;
        const char *typed = el_gets(line->editor, &length);
        if (typed && length > 0) {
            HistEvent event;
            if (typed[0] != '\n')
                history(line->history, &event, H_ENTER, typed);
            return strndup(typed, strcspn(typed, "\r\n"));
        }
        if (!cli_interrupted)
            return NULL;
        fputs("\n", stdout); /* Ctrl-C while typing: a fresh line */
    }
}
