/* lacuna path: which way through the model a prompt takes, and why. Asks the coordinator; nothing
 * is judged here. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000, STDIN_MAX = 4 << 20 };

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "-";
}

static void print_features(const json_t *features)
{
    static const char *const groups[][8] = {
        {"bytes", "letters", "digits", "space", "punctuation", "high"},
        {"order", "entropy", "columns", "repeats", "shapes", "delimiters"},
        {"lines", "json", "xml", "yaml", "table", "log", "markdown_table"},
        {"", "code", "prose", "data", "mixed", "leader"},
    };
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        printf("%-12s", groups[g][0]);
        for (size_t i = 1; i < 8 && groups[g][i]; i++)
            printf(" %s %.3f", groups[g][i],
                   (double)json_integer_value(json_object_get(features, groups[g][i])) / 1000);
        printf("\n");
    }
}

static int print_path(const char *answer)
{
    json_t *path = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
    if (!path) {
        fprintf(stderr, "lacuna path: the coordinator's answer is no JSON\n");
        return CLI_FAILED;
    }
    const json_t *features = json_object_get(path, "features");
    json_int_t tokens = json_integer_value(json_object_get(path, "tokens_max"));
    double bits = (double)json_integer_value(json_object_get(features, "entropy")) * 8 / 1000;
    printf("type         %s (%s)\n", text(path, "type"), text(path, "type_reason"));
    printf("task         %s\n", text(path, "task"));
    if (tokens)
        printf("length       up to %lld tokens\n", (long long)tokens);
    else
        printf("length       more than 32768 tokens\n");
    printf("fingerprint  %s\n", text(path, "fingerprint"));
    printf("class        %s: %s\n", text(path, "class"), text(path, "class_reason"));
    if (*text(path, "mask"))
        printf("left out     %s\n", text(path, "mask"));
    if (json_object_get(path, "group"))
        printf("group        %s\n", text(path, "group"));
    if (json_object_size(features)) {
        printf("entropy      %.2f bits a byte\n", bits);
        print_features(features);
    }
    json_decref(path);
    return CLI_OK;
}

/* The whole of standard input; NULL when it is larger than the limit. */
static char *read_input(size_t *length)
{
    char *data = malloc(STDIN_MAX + 1);
    if (!data)
        return NULL;
    *length = fread(data, 1, STDIN_MAX + 1, stdin);
    if (*length <= STDIN_MAX)
        return data;
    free(data);
    return NULL;
}

/* What a command asks, once connected. */
typedef struct {
    const char *prompt; /* NULL without */
    size_t length;
    unsigned long long request; /* 0 without */
    const char *force;          /* "off" ends it; NULL without */
} question;

static int put(lac_client *client, const void *what, char **answer)
{
    const question *q = what;
    if (q->force)
        return lac_client_force(client, strcmp(q->force, "off") ? q->force : NULL, TIMEOUT_MS,
                                answer);
    return q->request ? lac_client_path_of(client, q->request, TIMEOUT_MS, answer)
                      : lac_client_path(client, q->prompt, q->length, TIMEOUT_MS, answer);
}

static int ask(const char *endpoint, const question *q, bool json)
{
    char *answer = NULL;
    int code = cli_once(endpoint, put, q, &answer);
    if (!code && json)
        puts(answer);
    else if (!code && q->force)
        printf(strcmp(q->force, "off") ? "every request runs as %s from now on; `lacuna path force "
                                         "off` ends it\n"
                                       : "classes are decided again%.0s\n",
               q->force);
    else if (!code)
        code = print_path(answer);
    if (!code && fflush(stdout))
        code = CLI_FAILED;
    free(answer);
    return code;
}

static int explain(const char *endpoint, const char *prompt, bool json)
{
    question q = {.prompt = prompt, .length = strlen(prompt)};
    char *input = NULL;
    if (!strcmp(prompt, "-")) {
        q.prompt = input = read_input(&q.length);
        if (!input)
            return cli_misuse("path", "standard input has more than %d bytes", STDIN_MAX);
    }
    int code = ask(endpoint, &q, json);
    free(input);
    return code;
}

/* Decimal, or hexadecimal as the coordinator's log has it with 0x before it. */
static bool parse_request(const char *word, unsigned long long *out)
{
    char *end;
    *out = strtoull(word, &end, 0);
    return *word != '-' && end != word && !*end && *out;
}

int cli_path(int argc, char **argv, const char *endpoint)
{
    bool json = false, check = false;
    const char *request = NULL, *input = NULL;
    const cli_option options[] = {
        {.name = "check", .help = "label: compare with the labels that are there", .out = &check},
        {"input", "FILE", "label: a prompt set, JSONL of {\"id\", \"text\" or \"messages\"}",
         CLI_TEXT, &input, 0, 0},
        {.name = "json", .help = "print it as JSON", .out = &json},
        {"request", "ID", "explain how a request of lately was judged, instead of a prompt",
         CLI_TEXT, &request, 0, 0}};
    const cli_spec spec = {
        "path",
        "explain PROMPT | explain - | explain --request ID | force CLASS | label --input FILE",
        "Shows how the coordinator judges a prompt (- reads it from standard "
        "input): its features, the\ninput type and the steps of the tree that "
        "led there, the task its words name, the\nfingerprint, and the class "
        "with the reason for it. The prompt is not served.\n"
        "`force` runs every request as one class, certified or not (\"off\" "
        "ends it), where the\ncoordinator was started with --allow-force.\n"
        "`label` writes type and class of every prompt of a set into FILE.paths; with "
        "--check it\nsays which have changed and fails if any has.\n",
        options, sizeof options / sizeof *options};
    const char *words[2];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 2, &count);
    if (code >= 0)
        return code;
    if (count == 1 && !strcmp(words[0], "label") && input && !request && !json)
        return cli_path_label(endpoint, input, check);
    if (input || check)
        return cli_misuse("path", "--input FILE and --check go with label alone");
    bool force = count == 2 && !strcmp(words[0], "force");
    question q = {.force = force ? words[1] : NULL};
    if (force && !request)
        return ask(endpoint, &q, json);
    if (!count || strcmp(words[0], "explain") != 0 || (count == 2) == (request != NULL))
        return cli_misuse("path", "allowed: explain PROMPT, explain -, explain --request ID, "
                                  "force CLASS, force off, label --input FILE");
    if (!request)
        return explain(endpoint, words[1], json);
    if (!parse_request(request, &q.request))
        return cli_misuse("path", "--request is '%s', allowed: a number from 1 up", request);
    return ask(endpoint, &q, json);
}
