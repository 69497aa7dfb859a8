/* lacuna path label: which way each prompt of a set takes, written beside the set, and whether that
 * is still so. Asks the coordinator for each; nothing is judged here. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000, LINE_MAX_BYTES = 4 << 20, LINES_MAX = 100000, PATH_BYTES = 4096 };

/* One line of the set: {"id", "text"} or {"id", "messages"}, other fields as they like. The text
 * that decides is that of the largest user message. */
static const char *text_of(const json_t *line, size_t *length)
{
    const json_t *text = json_object_get(line, "text");
    const json_t *messages = json_object_get(line, "messages"), *message;
    size_t i;
    json_array_foreach(messages, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        const json_t *content = json_object_get(message, "content");
        if (role && !strcmp(role, "user") && json_is_string(content) &&
            (!text || json_string_length(content) > json_string_length(text)))
            text = content;
    }
    *length = json_string_length(text);
    return json_string_value(text);
}

static int complain(const char *input, size_t number, const char *what)
{
    fprintf(stderr, "lacuna path label: %s line %zu: %s\n", input, number, what);
    return CLI_FAILED;
}

/* The label of one line as a JSON text of its own, malloc'd. */
static int label_line(lac_client *client, const char *endpoint, const char *input, size_t number,
                      const char *line, char **out)
{
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    const char *id = json_string_value(json_object_get(object, "id"));
    size_t length = 0;
    const char *text = text_of(object, &length);
    char *answer = NULL;
    int code = CLI_OK;
    if (!object || !id || !text || length == 0)
        code = complain(input, number, "must be {\"id\": …, \"text\": … or \"messages\": …}");
    if (!code) {
        int got = lac_client_path(client, text, length, TIMEOUT_MS, &answer);
        code = got ? cli_fail(endpoint, got, 0) : CLI_OK;
    }
    json_t *path = code ? NULL : json_loads(answer, 0, NULL);
    if (!code && !path)
        code = complain(input, number, "the coordinator's answer is no JSON");
    if (!code) {
        const char *class = json_string_value(json_object_get(path, "class"));
        json_t *label =
            json_pack("{s:s, s:O, s:O, s:s}", "id", id, "type", json_object_get(path, "type"),
                      "class", json_object_get(path, "class"), "status",
                      class && strcmp(class, "full") ? "skips" : "full");
        *out = label ? json_dumps(label, JSON_COMPACT) : NULL;
        code =
            *out ? CLI_OK : complain(input, number, "the coordinator's answer lacks type or class");
        json_decref(label);
    }
    json_decref(path);
    json_decref(object);
    free(answer);
    return code;
}

/* The next line without its end; false at the end of the file or when a line is too long. */
static bool line_next(FILE *file, char **line, size_t *size, bool *too_long)
{
    ssize_t length = getline(line, size, file);
    *too_long = length > LINE_MAX_BYTES;
    if (length <= 0 || *too_long)
        return false;
    if ((*line)[length - 1] == '\n')
        (*line)[length - 1] = '\0';
    return true;
}

/* With `old`, compares; else writes to `to`. Counts what changed. */
static int label_all(lac_client *client, const char *endpoint, const char *input, FILE *from,
                     FILE *to, FILE *old, size_t *changed)
{
    char *line = NULL, *before = NULL;
    size_t size = 0, before_size = 0, number = 0;
    bool too_long = false, ignored;
    int code = CLI_OK;
    while (!code && line_next(from, &line, &size, &too_long)) {
        char *label = NULL;
        if (++number > LINES_MAX)
            code = complain(input, number, "more lines than a set may have");
        else
            code = label_line(client, endpoint, input, number, line, &label);
        if (!code && to && fprintf(to, "%s\n", label) < 0)
            code = complain(input, number, "its label cannot be written");
        if (!code && old) {
            bool there = line_next(old, &before, &before_size, &ignored);
            if (!there || strcmp(before, label)) {
                printf("%s line %zu: was %s, is %s\n", input, number,
                       there ? before : "not labelled", label);
                ++*changed;
            }
        }
        free(label);
    }
    if (!code && too_long)
        code = complain(input, number + 1, "is too long");
    if (!code && old && line_next(old, &before, &before_size, &ignored)) {
        printf("%s: labels of lines that are gone\n", input);
        ++*changed;
    }
    free(line);
    free(before);
    return code;
}

static FILE *open_or_say(const char *path, const char *mode, int *code)
{
    FILE *file = fopen(path, mode);
    if (!file) {
        fprintf(stderr, "lacuna path label: %s: %s\n", path, strerror(errno));
        *code = CLI_FAILED;
    }
    return file;
}

int cli_path_label(const char *endpoint, const char *input, bool check)
{
    char beside[PATH_BYTES], part[PATH_BYTES + 8];
    int code = CLI_OK;
    size_t changed = 0;
    lac_client *client = NULL;
    FILE *to = NULL, *old = NULL;
    if (snprintf(beside, sizeof beside, "%s.paths", input) >= (int)sizeof beside)
        return cli_misuse("path", "--input has a name of more than %d bytes", PATH_BYTES - 7);
    snprintf(part, sizeof part, "%s.part", beside);
    FILE *from = open_or_say(input, "rb", &code);
    if (!code && check)
        old = open_or_say(beside, "rb", &code);
    else if (!code)
        to = open_or_say(part, "wb", &code);
    if (!code)
        code = cli_connect(endpoint, &client);
    if (!code)
        code = label_all(client, endpoint, input, from, to, old, &changed);
    lac_client_close(&client);
    if (to && fclose(to) && !code)
        code = CLI_FAILED;
    if (to && (code || rename(part, beside))) {
        remove(part);
        code = code ? code : CLI_FAILED;
    }
    if (old)
        fclose(old);
    if (from)
        fclose(from);
    if (!code && changed) {
        fprintf(stderr, "lacuna path label: %zu labels of %s changed\n", changed, input);
        code = CLI_FAILED;
    }
    return code;
}
