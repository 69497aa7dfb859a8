/* Option reading, error lines, file input and output of the lacuna-engine commands. Main thread.
 * Knows no command. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

static void help(const lac_tool_spec *spec)
{
    printf("usage: lacuna-engine %s %s\n\n%s\n\n", spec->name, spec->synopsis, spec->help);
    lac_config_help(spec->options, spec->options_count, stdout);
}

int lac_tool_options(const lac_tool_spec *spec, int argc, char **argv, void *out)
{
    const char *word;
    int code = lac_tool_options_word(spec, argc, argv, out, &word);
    if (code < 0 && word)
        return lac_tool_misuse(spec, "\"%.64s\" is no option of this command", word);
    return code;
}

int lac_tool_options_word(const lac_tool_spec *spec, int argc, char **argv, void *out,
                          const char **word)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help(spec);
            return LAC_TOOL_OK;
        }
    size_t words = 0;
    *word = NULL;
    lac_error err = {0};
    if (lac_config_load(spec->options, spec->options_count, argc, argv, out, word, 1, &words,
                        &err) != LAC_OK)
        return lac_tool_misuse(spec, "%s", err.text);
    return -1;
}

int lac_tool_fail(const lac_tool_spec *spec, const lac_error *err)
{
    fprintf(stderr, "lacuna-engine %s: %s\n", spec->name, err->text);
    return LAC_TOOL_FAILED;
}

int lac_tool_misuse(const lac_tool_spec *spec, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "lacuna-engine %s: ", spec->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (lacuna-engine %s --help)\n", spec->name);
    va_end(args);
    return LAC_TOOL_USAGE;
}

lac_status lac_tool_read_file(const char *path, size_t max, char **bytes, size_t *length,
                              lac_error *err)
{
    lac_status status = LAC_OK;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    lac_buf buf = {.cap = max};
    char block[65536];
    size_t got;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        if (!lac_buf_add(&buf, block, got)) {
            status = lac_fail(err, LAC_ETOOBIG, "%s: more than %zu bytes", path, max);
            goto close;
        }
    if (ferror(file)) {
        status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
        goto close;
    }
    *bytes = buf.data ? buf.data : lac_strndup("", 0);
    *length = buf.length;
    buf = (lac_buf){0};
close:
    lac_buf_free(&buf);
    if (file != stdin)
        fclose(file);
    return status;
}

lac_status lac_tool_print(const lac_buf *buf, lac_error *err)
{
    if (buf->overflow)
        return lac_fail(err, LAC_ETOOBIG, "output over its limit of %zu bytes", buf->cap);
    if (buf->length > 0 && fwrite(buf->data, 1, buf->length, stdout) != buf->length)
        return lac_fail(err, LAC_EIO, "standard output: %s", strerror(errno));
    if (fflush(stdout) != 0)
        return lac_fail(err, LAC_EIO, "standard output: %s", strerror(errno));
    return LAC_OK;
}
