/* lacuna-engine tokenize: a text file to token ids. Main thread. Knows no engine: only the metadata
 * of the model file is read. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/text.h"
#include "model/gguf.h"
#include "tokenizer/tokenizer.h"
#include "tools.h"

typedef struct {
    char model[4096], text_file[4096];
    bool special, bos, json;
} tokenize_options;

#define OPTION(field, text, kind, named, line)                                                     \
    {                                                                                              \
        .name = text, .type = kind, .offset = offsetof(tokenize_options, field),                   \
        .size = sizeof(((tokenize_options *)0)->field), .value = named, .help = line               \
    }
static const lac_option options[] = {
    OPTION(model, "model", LAC_OPT_STRING, "FILE", "GGUF file with the vocabulary"),
    OPTION(text_file, "text-file", LAC_OPT_STRING, "FILE", "text to encode; - is standard input"),
    OPTION(special, "special", LAC_OPT_BOOL, NULL, "texts of special tokens become their ids"),
    OPTION(bos, "bos", LAC_OPT_BOOL, NULL, "put the beginning-of-text token first"),
    OPTION(json, "json", LAC_OPT_BOOL, NULL, "print {\"ids\":[…]} instead of a table"),
};

static const lac_tool_spec spec = {
    .name = "tokenize",
    .synopsis = "--model FILE --text-file FILE [--special] [--bos] [--json]",
    .help =
        "Prints the token ids of a text. Nothing is added and special texts are plain text unless\n"
        "asked for.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

static void print_json(const uint32_t *ids, size_t count, lac_buf *out)
{
    lac_buf_text(out, "{\"ids\":[");
    for (size_t i = 0; i < count; i++)
        lac_buf_printf(out, "%s%u", i ? "," : "", ids[i]);
    lac_buf_text(out, "]}\n");
}

/* The token's text; bytes that are no whole characters in hexadecimal. */
static void print_piece(const char *bytes, size_t length, lac_buf *out)
{
    if (lac_utf8_valid(bytes, length)) {
        lac_buf_json(out, bytes, length);
        return;
    }
    for (size_t i = 0; i < length; i++)
        lac_buf_printf(out, "%s%02x", i ? " " : "bytes ", (unsigned char)bytes[i]);
}

static void print_table(const lac_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                        lac_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        size_t length;
        lac_tokenizer_piece(tokenizer, ids[i], true, &bytes, &length);
        lac_buf_printf(out, "%8u  ", ids[i]);
        print_piece(bytes, length, out);
        lac_buf_text(out, "\n");
    }
    lac_buf_printf(out, "%zu tokens\n", count);
}

int lac_tool_tokenize(int argc, char **argv)
{
    tokenize_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0] || !opt.text_file[0])
        return lac_tool_misuse(&spec, "--model FILE and --text-file FILE are needed");
    lac_error err = {0};
    lac_gguf *gguf = NULL;
    lac_tokenizer *tokenizer = NULL;
    char *text = NULL;
    uint32_t *ids = NULL;
    size_t length, count;
    lac_buf out = {0};
    lac_status status = lac_gguf_open(opt.model, &gguf, &err);
    if (status == LAC_OK) {
        status = lac_tokenizer_create(gguf, &tokenizer, &err);
        if (status != LAC_OK)
            lac_fail_in(&err, "%s", opt.model);
    }
    if (status == LAC_OK)
        status = lac_tool_read_file(opt.text_file, LAC_PROMPT_BYTES_MAX, &text, &length, &err);
    if (status == LAC_OK)
        status = lac_tokenizer_encode(tokenizer, text, length,
                                      (lac_encode_options){.special = opt.special, .bos = opt.bos},
                                      &ids, &count, &err);
    if (status == LAC_OK) {
        if (opt.json)
            print_json(ids, count, &out);
        else
            print_table(tokenizer, ids, count, &out);
        status = lac_tool_print(&out, &err);
    }
    lac_buf_free(&out);
    free(ids);
    free(text);
    lac_tokenizer_destroy(&tokenizer);
    lac_gguf_close(&gguf);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
