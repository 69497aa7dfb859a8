/* lacuna-engine score: how probable a text is under a model, token by token. Main thread, which
 * also runs the engine. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine_options.h"
#include "ranks.h"

typedef struct {
    lac_tool_engine engine;
    char text_file[4096], ids_file[4096], logprobs_file[4096];
    bool special, bos, json;
} score_options;

#define ROW(...) LAC_TOOL_ROW(score_options, __VA_ARGS__)
static const lac_option options[] = {
    LAC_TOOL_ENGINE_ROWS(score_options),
    ROW(text_file, "text-file", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "text to score; - is standard input"),
    ROW(ids_file, "ids-file", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "token ids to score, separated by white space"),
    ROW(special, "special", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "texts of special tokens become their ids"),
    ROW(bos, "bos", LAC_OPT_BOOL, NULL, NULL, 0, 0, "put the beginning-of-text token first"),
    ROW(logprobs_file, "logprobs-file", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "write float32 log-probabilities, row i the distribution after token i"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0, "print {\"tokens\":N,\"nll\":…}"),
};

static const lac_tool_spec spec = {
    .name = "score",
    .synopsis = "--model FILE --text-file FILE | --ids-file FILE [OPTIONS]",
    .help =
        "Mean negative log-likelihood of tokens 2 … N, each given all before it. Nothing is put\n"
        "before the text unless --bos asks for it.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* White-space separated ids. */
static lac_status ids_parse(const char *text, size_t length, const char *path, uint32_t **ids,
                            size_t *count, lac_error *err)
{
    uint32_t *list = lac_alloc(length / 2 + 1, sizeof(*list));
    size_t n = 0, at = 0;
    for (;;) {
        while (at < length && isspace((unsigned char)text[at]))
            at++;
        if (at == length)
            break;
        char word[24];
        size_t from = at;
        int64_t id;
        while (at < length && !isspace((unsigned char)text[at]))
            at++;
        size_t size = at - from < sizeof(word) - 1 ? at - from : sizeof(word) - 1;
        memcpy(word, text + from, size);
        word[size] = '\0';
        if (!lac_parse_i64(word, 0, LAC_VOCAB_MAX - 1, &id)) {
            free(list);
            return lac_fail(err, LAC_EINVAL, "%s: id %zu is \"%s\", allowed 0..%d", path, n, word,
                            LAC_VOCAB_MAX - 1);
        }
        list[n++] = (uint32_t)id;
    }
    *ids = list;
    *count = n;
    return LAC_OK;
}

static lac_status input_ids(const score_options *opt, const lac_engine *engine, uint32_t **ids,
                            size_t *count, lac_error *err)
{
    const char *path = opt->text_file[0] ? opt->text_file : opt->ids_file;
    char *text = NULL;
    size_t length;
    lac_status status = lac_tool_read_file(path, LAC_PROMPT_BYTES_MAX, &text, &length, err);
    if (status == LAC_OK && opt->ids_file[0])
        status = ids_parse(text, length, path, ids, count, err);
    else if (status == LAC_OK)
        status = lac_tool_encode(engine, text, length, opt->special, opt->bos, ids, count, err);
    if (status == LAC_OK && *count < 2) {
        status = lac_fail(err, LAC_EINVAL, "%s: %zu tokens, at least 2 are needed", path, *count);
        free(*ids);
        *ids = NULL;
    }
    free(text);
    return status;
}

typedef struct {
    const uint32_t *ids;
    size_t count;
    uint32_t vocab;
    double nll_sum;
    FILE *logprobs;
    float *row; /* [vocab] */
    bool write_failed;
} scoring;

static void take(void *arg, size_t index, const float *logits)
{
    scoring *s = arg;
    double top = logits[0], sum = 0;
    for (uint32_t i = 1; i < s->vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < s->vocab; i++)
        sum += exp((double)logits[i] - top);
    double total = top + log(sum);
    if (index + 1 < s->count)
        s->nll_sum += total - (double)logits[s->ids[index + 1]];
    if (!s->logprobs || s->write_failed)
        return;
    for (uint32_t i = 0; i < s->vocab; i++)
        s->row[i] = (float)((double)logits[i] - total);
    s->write_failed = fwrite(s->row, sizeof(float), s->vocab, s->logprobs) != s->vocab;
}

static lac_status print_result(const score_options *opt, const scoring *s, lac_error *err)
{
    lac_buf out = {0};
    double nll = s->nll_sum / (double)(s->count - 1);
    if (opt->json)
        lac_buf_printf(&out, "{\"tokens\":%zu,\"nll\":%.9g}\n", s->count, nll);
    else
        lac_buf_printf(&out, "tokens      %zu\nnll         %.6f\nperplexity  %.4f\n", s->count, nll,
                       exp(nll));
    lac_status status = lac_tool_print(&out, err);
    lac_buf_free(&out);
    return status;
}

static lac_status score(const score_options *opt, lac_engine *engine, lac_error *err)
{
    uint32_t *ids = NULL;
    scoring s = {.vocab = lac_engine_model(engine)->vocab};
    lac_status status = input_ids(opt, engine, &ids, &s.count, err);
    if (status != LAC_OK)
        return status;
    s.ids = ids;
    if (opt->logprobs_file[0]) {
        s.logprobs = fopen(opt->logprobs_file, "wb");
        if (!s.logprobs)
            status = lac_fail(err, LAC_EIO, "%s: %s", opt->logprobs_file, strerror(errno));
        s.row = lac_alloc(s.vocab, sizeof(float));
    }
    if (status == LAC_OK)
        status = lac_engine_score_as(engine, lac_tool_engine_class(&opt->engine), ids, s.count,
                                     take, &s, err);
    if (s.logprobs && fclose(s.logprobs) != 0)
        s.write_failed = true;
    if (status == LAC_OK && s.write_failed)
        status = lac_fail(err, LAC_EIO, "%s: %s", opt->logprobs_file, strerror(errno));
    if (status == LAC_OK)
        status = print_result(opt, &s, err);
    free(s.row);
    free(ids);
    return status;
}

int lac_tool_score(int argc, char **argv)
{
    score_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0] || !opt.text_file[0] == !opt.ids_file[0])
        return lac_tool_misuse(
            &spec, "--model FILE and one of --text-file FILE, --ids-file FILE are needed");
    code = lac_tool_ranks(&spec, &opt.engine, argv);
    if (code >= 0)
        return code;
    lac_error err = {0};
    lac_engine *engine = NULL;
    lac_status status = lac_tool_engine_open(&opt.engine, 1, &engine, &err);
    if (status == LAC_OK)
        status =
            lac_tool_ranks_follows() ? lac_engine_follow(engine, &err) : score(&opt, engine, &err);
    lac_tool_engine_close(&engine);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
