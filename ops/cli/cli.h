/* What the commands of `lacuna` share. A command is one file and one row in main.c. Talks to a
 * cluster through lacuna_client.h alone. */
#ifndef LAC_CLI_H
#define LAC_CLI_H

#include <lacuna_client.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes, the same for every command; `lacuna --help` lists them. */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1, /* the request failed, or the output could not be written */
    CLI_USAGE = 2,  /* a wrong command line, or a request the server calls malformed */
    CLI_BUSY = 3,
    CLI_LOST = 4, /* no coordinator, or the connection broke */
    CLI_TIMEOUT = 5,
    CLI_INTERRUPTED = 130
};

typedef struct {
    const char *name, *synopsis, *summary;
    /* argv[0] is the command's name. `endpoint` is what --connect or LACUNA_CONNECT said. */
    int (*run)(int argc, char **argv, const char *endpoint);
} cli_command;

int cli_submit(int argc, char **argv, const char *endpoint);
int cli_chat(int argc, char **argv, const char *endpoint);
int cli_top(int argc, char **argv, const char *endpoint);
int cli_status(int argc, char **argv, const char *endpoint);
int cli_keys(int argc, char **argv, const char *endpoint);
int cli_scale(int argc, char **argv, const char *endpoint);
int cli_drain(int argc, char **argv, const char *endpoint);
int cli_feedback(int argc, char **argv, const char *endpoint);
int cli_path(int argc, char **argv, const char *endpoint);
int cli_jobs(int argc, char **argv, const char *endpoint);
int cli_plan(int argc, char **argv, const char *endpoint);
int cli_cost(int argc, char **argv, const char *endpoint);

/* ---- path_label.c ---- */

/* `lacuna path label`: writes INPUT.paths beside the set, or with `check` compares with it:
 * CLI_FAILED and a line each when labels changed. */
int cli_path_label(const char *endpoint, const char *input, bool check);

/* ---- status.c ---- */

/* The table of two answers of the coordinator, a moment apart: that gives the speed between them.
 */
int cli_status_table(const char *first, const char *second);

/* ---- options.c ---- */

typedef enum { CLI_FLAG, CLI_TEXT, CLI_TEXTS, CLI_NUMBER, CLI_WHOLE } cli_kind;

typedef struct {
    const char *name, *value, *help; /* "max-tokens", "N", one line */
    cli_kind kind;
    void *out;        /* bool, const char *, cli_texts, double, long long */
    double low, high; /* of numbers */
} cli_option;

typedef struct {
    const char *items[8];
    size_t count;
} cli_texts;

typedef struct {
    const char *name, *synopsis, *help;
    const cli_option *options;
    size_t options_count;
} cli_spec;

/* Reads the options of a command; words go to words[0 … *words_count). Returns −1 to go on, else
 * the exit code: 0 after --help, CLI_USAGE after one line naming option, value and range. */
int cli_parse(const cli_spec *spec, int argc, char **argv, const char **endpoint,
              const char **words, size_t words_max, size_t *words_count);
/* "lacuna NAME: text" on standard error; returns CLI_USAGE. */
int cli_misuse(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- session.c ---- */

/* How an answer shall be chosen, as options give it. */
typedef struct {
    const char *model, *system;
    long long max_tokens, top_k, seed;
    double temperature, top_p, min_p;
    cli_texts stops;
} cli_sampling;
enum { CLI_SAMPLING_OPTIONS = 9 };
/* Fills rows of an option table that write into `sampling`, and sets its defaults. */
void cli_sampling_options(cli_sampling *sampling, cli_option rows[CLI_SAMPLING_OPTIONS]);
void cli_sampling_apply(const cli_sampling *sampling, lac_client_request *request);

/* Key files of every connection from here on; NULL, NULL: none. */
void cli_use_keys(const char *key, const char *server_key);
/* Connects, or says why not and returns the exit code. */
int cli_connect(const char *endpoint, lac_client **client);
/* One question over a connection of its own: `ask` gives a library code and malloc's *answer, which
 * is the caller's. Returns an exit code, the error already told. */
int cli_once(const char *endpoint, int (*ask)(lac_client *client, const void *what, char **answer),
             const void *what, char **answer);
/* Prints the library's error for `code` with its cure; returns the exit code. */
int cli_fail(const char *endpoint, int code, unsigned retry_after_ms);

typedef struct {
    char *text; /* malloc'd, NUL-ended */
    size_t length;
    unsigned *tokens; /* malloc'd */
    size_t tokens_count;
    char finish[16];
    char *account; /* malloc'd: what it ran, as one line; NULL when nobody said */
    unsigned prompt_tokens, completion_tokens, cached_tokens;
} cli_answer;
void cli_answer_free(cli_answer *answer);

/* Sends the request and collects the answer, writing it to `live` as it comes (NULL: not). Ctrl-C
 * cancels the request and leaves finish "cancel". Returns an exit code, the error already told. */
int cli_ask(lac_client *client, const char *endpoint, const lac_client_request *request, FILE *live,
            cli_answer *answer);

/* Set by SIGINT once cli_catch_interrupts was called. */
extern volatile sig_atomic_t cli_interrupted;
void cli_catch_interrupts(void);

/* ---- line.c ---- */

/* What is typed on a terminal, a line at a time, with editing and a history. */
typedef struct cli_line cli_line;
/* Returns an exit code, the error already told; *line is set on CLI_OK. */
int cli_line_open(cli_line **line);
void cli_line_close(cli_line **line);
/* Prompts and returns what was typed, malloc'd, without its newline; NULL at the end of input.
 * Ctrl-C drops what was typed so far and prompts again. */
char *cli_line_read(cli_line *line);

#endif
