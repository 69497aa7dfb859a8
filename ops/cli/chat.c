/* lacuna chat: a conversation. Lines are edited on a terminal, read plainly from a pipe.
 * The conversation lives here; the server keeps nothing between turns. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { TURNS_MAX = 1024 }; /* messages one request may hold */

typedef struct {
    lac_client *client;
    const char *endpoint;
    cli_sampling sampling;
    char *system; /* set by /system; NULL: none */
    lac_client_message messages[TURNS_MAX];
    size_t count;     /* the system's place, messages[0], included */
    cli_line *typing; /* NULL: lines come from a pipe */
} conversation;

static const char help[] =
    "/system TEXT  set the instructions that lead the conversation (no TEXT: none)\n"
    "/reset        forget what was said\n"
    "/help         this list\n"
    "/exit         leave (also Ctrl-D); Ctrl-C stops an answer\n";

static char *copy(const char *text)
{
    char *made = strdup(text);
    if (!made) {
        fprintf(stderr, "lacuna: out of memory\n");
        exit(CLI_FAILED);
    }
    return made;
}

static void forget_last(conversation *c)
{
    free((char *)(uintptr_t)c->messages[--c->count].content);
}

static void reset(conversation *c)
{
    while (c->count > 1)
        forget_last(c);
}

static void add(conversation *c, const char *role, const char *text)
{
    c->messages[c->count++] = (lac_client_message){role, copy(text)};
}

/* One question and its answer. A failed one leaves the conversation as it was. */
static int turn(conversation *c, const char *line)
{
    if (c->count + 2 > TURNS_MAX) {
        fprintf(stderr, "the conversation has %d messages, allowed: %d; /reset starts a new one\n",
                (int)c->count - 1, TURNS_MAX - 1);
        return CLI_OK;
    }
    add(c, "user", line);
    c->messages[0] = (lac_client_message){"system", c->system};
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    cli_sampling_apply(&c->sampling, &request);
    request.messages = c->system ? c->messages : c->messages + 1;
    request.messages_count = c->system ? c->count : c->count - 1;

    cli_answer answer;
    cli_interrupted = 0;
    int code = cli_ask(c->client, c->endpoint, &request, stdout, &answer);
    if (answer.length && answer.text[answer.length - 1] != '\n')
        putchar('\n');
    if (code == CLI_OK && answer.length) {
        add(c, "assistant", answer.text);
        if (!strcmp(answer.finish, "cancel"))
            fprintf(stderr, "[stopped]\n");
        else if (!strcmp(answer.finish, "length"))
            fprintf(stderr, "[cut at the limit of tokens]\n");
    } else {
        forget_last(c);
    }
    if (c->typing)
        putchar('\n');
    fflush(stdout);
    cli_interrupted = 0;
    cli_answer_free(&answer);
    return code;
}

/* False to leave. */
static bool command(conversation *c, const char *line)
{
    if (!strcmp(line, "/exit") || !strcmp(line, "/quit"))
        return false;
    if (!strcmp(line, "/reset")) {
        reset(c);
        fprintf(stderr, "[a new conversation]\n");
    } else if (!strcmp(line, "/system") || !strncmp(line, "/system ", 8)) {
        free(c->system);
        c->system = line[7] && line[8] ? copy(line + 8) : NULL;
        fprintf(stderr, c->system ? "[instructions set]\n" : "[no instructions]\n");
    } else if (!strcmp(line, "/help")) {
        fputs(help, stderr);
    } else {
        fprintf(stderr, "%s is no command; allowed:\n%s", line, help);
    }
    return true;
}

/* malloc'd, without its newline; NULL at the end of input. */
static char *next_line(const conversation *c)
{
    if (c->typing)
        return cli_line_read(c->typing);
    char *line = NULL;
    size_t size = 0;
    ssize_t length = getline(&line, &size, stdin);
    if (length < 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

static int talk(conversation *c)
{
    int code = CLI_OK;
    char *line;
    bool stay = true;
    while (stay && (line = next_line(c))) {
        if (line[0] == '/')
            stay = command(c, line);
        else if (line[strspn(line, " \t")])
            code = turn(c, line);
        free(line);
    }
    return c->typing ? CLI_OK : code; /* a script wants to know how its last question went */
}

int cli_chat(int argc, char **argv, const char *endpoint)
{
    static conversation c;
    cli_option options[CLI_SAMPLING_OPTIONS];
    cli_sampling_options(&c.sampling, options);
    const cli_spec spec = {
        "chat", "[OPTIONS]",
        "Reads a line, prints the answer, keeps the conversation. On a terminal "
        "lines are edited\nand recalled with the arrow keys. /help lists what can "
        "be typed besides questions.\n",
        options, CLI_SAMPLING_OPTIONS};
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, NULL, 0, &count);
    if (code >= 0)
        return code;
    cli_catch_interrupts();
    c.endpoint = endpoint;
    c.system = c.sampling.system ? copy(c.sampling.system) : NULL;
    c.count = 1;
    code = cli_connect(endpoint, &c.client);
    if (code)
        return code;
    if (isatty(STDIN_FILENO))
        code = cli_line_open(&c.typing);
    if (c.typing)
        fprintf(stderr, "/help for help, /exit to leave\n");
    if (!code)
        code = talk(&c);
    if (c.typing)
        putchar('\n');
    cli_line_close(&c.typing);
    reset(&c);
    free(c.system);
    lac_client_close(&c.client);
    return code;
}
