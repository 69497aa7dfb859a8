/* lacuna submit: one prompt, its answer on standard output as it comes. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { PROMPT_MAX = 8 << 20 };

/* All of standard input, or NULL after saying why. */
static char *read_input(void)
{
    size_t size = 65536, length = 0;
    char *text = malloc(size + 1);
    while (text && !feof(stdin) && !ferror(stdin) && length <= PROMPT_MAX && !cli_interrupted) {
        if (length == size) {
            size *= 2;
            char *more = realloc(text, size + 1);
            if (!more)
                break;
            text = more;
        }
        length += fread(text + length, 1, size - length, stdin);
    }
    const char *why = NULL;
    if (!text || (length == size && !feof(stdin) && length <= PROMPT_MAX))
        why = "out of memory";
    else if (ferror(stdin))
        why = strerror(errno);
    else if (length > PROMPT_MAX)
        why = "it has more than 8 MiB";
    else if (memchr(text, '\0', length))
        why = "it has a NUL byte, allowed: text";
    if (why) {
        fprintf(stderr, "lacuna submit: the prompt on standard input cannot be read: %s\n", why);
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

static int print_json(const cli_answer *answer)
{
    json_t *tokens = json_array();
    for (size_t i = 0; i < answer->tokens_count; i++)
        json_array_append_new(tokens, json_integer(answer->tokens[i]));
    json_t *root =
        json_pack("{s:s%, s:o, s:s, s:{s:i, s:i, s:i}}", "text", answer->text, answer->length,
                  "tokens", tokens, "finish", answer->finish, "usage", "prompt_tokens",
                  (int)answer->prompt_tokens, "completion_tokens", (int)answer->completion_tokens,
                  "cached_tokens", (int)answer->cached_tokens);
    int rc = root ? json_dumpf(root, stdout, JSON_COMPACT) : -1;
    json_decref(root);
    if (rc || putchar('\n') == EOF || fflush(stdout)) {
        fprintf(stderr, "lacuna submit: the answer cannot be written\n");
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* The answer ends its line, so that a shell's prompt or the next line of a log stands alone. */
static int finish_text(const cli_answer *answer)
{
    if (answer->length && answer->text[answer->length - 1] != '\n')
        putchar('\n');
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

/* What is asked for besides the text. */
typedef struct {
    bool raw, json, verbose, sparse, full;
    const char *class_name, *hint;
    long long patience_s;
} wishes;

static int ask(const char *endpoint, const cli_sampling *sampling, const wishes *w,
               const char *prompt)
{
    bool raw = w->raw, json = w->json;
    lac_client *client = NULL;
    int code = cli_connect(endpoint, &client);
    if (code)
        return code;
    const lac_client_message messages[] = {{"system", sampling->system}, {"user", prompt}};
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    cli_sampling_apply(sampling, &request);
    request.hint = w->hint;
    request.class_name = w->class_name;
    request.patience_ms = (uint32_t)w->patience_s * 1000;
    request.sparse = w->full ? -1 : w->sparse;
    if (raw) {
        request.prompt = prompt;
    } else {
        request.messages = sampling->system ? messages : messages + 1;
        request.messages_count = sampling->system ? 2 : 1;
    }
    cli_answer answer;
    code = cli_ask(client, endpoint, &request, json ? NULL : stdout, &answer);
    if (code == CLI_OK)
        code = json ? print_json(&answer) : finish_text(&answer);
    else if (!json)
        finish_text(&answer);
    if (w->verbose && answer.account)
        fprintf(stderr, "%s\n", answer.account);
    if (code == CLI_OK && !strcmp(answer.finish, "cancel"))
        code = cli_interrupted ? CLI_INTERRUPTED : CLI_FAILED;
    cli_answer_free(&answer);
    lac_client_close(&client);
    return code;
}

int cli_submit(int argc, char **argv, const char *endpoint)
{
    cli_sampling sampling;
    wishes w = {0};
    enum { PATIENCE_MAX_S = 86400, OWN = 8, ALL = CLI_SAMPLING_OPTIONS + OWN };
    cli_option options[ALL];
    cli_sampling_options(&sampling, options);
    const cli_option own[OWN] = {
        {.name = "raw",
         .help = "continue the text as it is, without the chat template",
         .out = &w.raw},
        {.name = "json",
         .help = "print one JSON object at the end instead of text",
         .out = &w.json},
        {.name = "verbose",
         .help = "say at the end (on standard error) what the request ran; also -v",
         .out = &w.verbose},
        {.name = "sparse", .help = "run as a certified class, if there is one", .out = &w.sparse},
        {.name = "full", .help = "leave nothing out", .out = &w.full},
        {"class", "NAME", "run as that class, certified or not, where the server allows it",
         CLI_TEXT, &w.class_name, 0, 0},
        {"hint", "HINT", "advise a class by the 32 characters `lacuna plan show` prints", CLI_TEXT,
         &w.hint, 0, 0},
        {"patience", "S",
         "when the server is full, ask again after the time it says, for S seconds in all",
         CLI_WHOLE, &w.patience_s, 0, PATIENCE_MAX_S},
    };
    memcpy(options + CLI_SAMPLING_OPTIONS, own, sizeof own);
    const cli_spec spec = {
        "submit", "[OPTIONS] PROMPT | -",
        "Sends PROMPT (\"-\": standard input) as a user's message and prints the "
        "answer as it comes.\nCtrl-C stops the answer.\n",
        options, ALL};
    static char verbose[] = "--verbose";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "-v")) /* the one short form there is */
            argv[i] = verbose;
    const char *words[1];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count == 0)
        return cli_misuse("submit",
                          "no prompt is given: name one in quotes, or - for standard input");
    if (w.sparse && w.full)
        return cli_misuse("submit", "--sparse is given with --full, allowed: one of them");
    if (w.raw && sampling.system)
        return cli_misuse("submit", "--system is given with --raw, allowed: one of them");

    cli_catch_interrupts();
    char *input = NULL;
    if (!strcmp(words[0], "-") && !(input = read_input()))
        return cli_interrupted ? CLI_INTERRUPTED : CLI_USAGE;
    code = ask(endpoint, &sampling, &w, input ? input : words[0]);
    free(input);
    return code;
}
