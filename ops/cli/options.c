/* Reads a command's options from its table and prints its help. Options may come before and after
 * words;
 * "--" ends them. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

int cli_misuse(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "lacuna%s%s: ", command ? " " : "", command ? command : "");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_USAGE;
}

static void print_help(const cli_spec *spec)
{
    printf("usage: lacuna [--connect tcp://HOST:PORT] %s %s\n\n%s\noptions:\n", spec->name,
           spec->synopsis, spec->help);
    for (size_t i = 0; i < spec->options_count; i++) {
        const cli_option *o = &spec->options[i];
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s %s\n", left, o->help);
    }
    printf("  %-22s %s\n  %-22s %s\n", "--connect ADDRESS", "the coordinator's client address",
           "--help", "this text");
}

static int set_number(const cli_spec *spec, const cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool whole = o->kind == CLI_WHOLE;
    if (end == text || *end || errno || !isfinite(value) || value < o->low || value > o->high ||
        (whole && strspn(text, "+-0123456789") != strlen(text)))
        return cli_misuse(spec->name, "--%s is '%s', allowed: a%s number from %.10g to %.10g",
                          o->name, text, whole ? " whole" : "", o->low, o->high);
    if (whole)
        *(long long *)o->out = strtoll(text, NULL, 10);
    else
        *(double *)o->out = value;
    return -1;
}

static int set_option(const cli_spec *spec, const cli_option *o, const char *text)
{
    cli_texts *texts = o->out;
    switch (o->kind) {
    case CLI_FLAG: *(bool *)o->out = true; return -1;
    case CLI_TEXT: *(const char **)o->out = text; return -1;
    case CLI_TEXTS:
        if (texts->count == sizeof texts->items / sizeof texts->items[0])
            return cli_misuse(spec->name, "--%s is given more than %zu times", o->name,
                              texts->count);
        texts->items[texts->count++] = text;
        return -1;
    case CLI_NUMBER:
    case CLI_WHOLE: break;
    }
    return set_number(spec, o, text);
}

static const cli_option *find_option(const cli_spec *spec, const char *name, size_t length)
{
    for (size_t i = 0; i < spec->options_count; i++)
        if (strlen(spec->options[i].name) == length &&
            !strncmp(spec->options[i].name, name, length))
            return &spec->options[i];
    return NULL;
}

/* One "--name", "--name value" or "--name=value" at argv[*at]; moves *at over a value it takes. */
static int take_option(const cli_spec *spec, int argc, char **argv, int *at, const char **endpoint)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    cli_option connect = {.name = "connect", .kind = CLI_TEXT, .out = endpoint};
    const cli_option *o = find_option(spec, name, length);
    if (!o && length == 7 && !strncmp(name, "connect", 7))
        o = &connect;
    if (!o)
        return cli_misuse(spec->name, "option --%.*s is unknown; see lacuna %s --help", (int)length,
                          name, spec->name);
    if (o->kind == CLI_FLAG) {
        if (equals)
            return cli_misuse(spec->name, "--%s takes no value", o->name);
        return set_option(spec, o, NULL);
    }
    if (!equals && *at + 1 == argc)
        return cli_misuse(spec->name, "--%s has no value", o->name);
    return set_option(spec, o, equals ? equals + 1 : argv[++*at]);
}

int cli_parse(const cli_spec *spec, int argc, char **argv, const char **endpoint,
              const char **words, size_t words_max, size_t *words_count)
{
    size_t count = 0;
    bool options = true;
    for (int at = 1; at < argc; at++) {
        if (options && !strcmp(argv[at], "--help")) {
            print_help(spec);
            return CLI_OK;
        }
        if (options && !strcmp(argv[at], "--")) {
            options = false;
        } else if (options && !strncmp(argv[at], "--", 2)) {
            int rc = take_option(spec, argc, argv, &at, endpoint);
            if (rc >= 0)
                return rc;
        } else if (count == words_max) {
            return cli_misuse(spec->name, "'%s' is one word too many (quote a prompt with spaces)",
                              argv[at]);
        } else {
            words[count++] = argv[at];
        }
    }
    *words_count = count;
    return -1;
}
