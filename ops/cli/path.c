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
    printf("entropy      %.2f bits a byte\n", bits);
    print_features(features);
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

static int explain(const char *endpoint, const char *prompt, bool json)
{
    size_t length = strlen(prompt);
    char *input = NULL, *answer = NULL;
    if (!strcmp(prompt, "-")) {
        input = read_input(&length);
        if (!input)
            return cli_misuse("path", "standard input has more than %d bytes", STDIN_MAX);
        prompt = input;
    }
    lac_client *client = NULL;
    int code = cli_connect(endpoint, &client);
    if (!code) {
        int rc = lac_client_path(client, prompt, length, TIMEOUT_MS, &answer);
        code = rc ? cli_fail(endpoint, rc, 0) : CLI_OK;
    }
    if (!code && json)
        puts(answer);
    else if (!code)
        code = print_path(answer);
    if (!code && fflush(stdout))
        code = CLI_FAILED;
    free(answer);
    free(input);
    lac_client_close(&client);
    return code;
}

int cli_path(int argc, char **argv, const char *endpoint)
{
    bool json = false;
    const cli_option options[] = {{.name = "json", .help = "print it as JSON", .out = &json}};
    const cli_spec spec = {"path", "explain PROMPT | -",
                           "Shows how the coordinator judges a prompt (- reads it from standard "
                           "input): its features, the\ninput type and the steps of the tree that "
                           "led there, the task its words name, the\nfingerprint, and the class "
                           "with the reason for it. The prompt is not served.\n",
                           options, 1};
    const char *words[2];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 2, &count);
    if (code >= 0)
        return code;
    if (count != 2 || strcmp(words[0], "explain") != 0)
        return cli_misuse("path", "allowed: explain PROMPT, explain -");
    return explain(endpoint, words[1], json);
}
