/* lacuna-engine generate: a prompt to text, streamed, or to JSON. Main thread, which also runs the
 * engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/text.h"
#include "chat/chat.h"
#include "engine_options.h"
#include "ranks.h"

typedef struct {
    lac_tool_engine engine;
    char prompt[65536], prompt_file[4096], system[8192], chat_template[64];
    char stop[LAC_STOP_BYTES_MAX + 1], seed[24];
    bool chat, special, json, ignore_eos;
    int64_t max_tokens, min_tokens, top_k;
    double temp, top_p, min_p, repeat_penalty, presence, frequency;
} generate_options;

#define ROW(...) LAC_TOOL_ROW(generate_options, __VA_ARGS__)
static const lac_option options[] = {
    LAC_TOOL_ENGINE_ROWS(generate_options),
    ROW(prompt, "prompt", LAC_OPT_STRING, "TEXT", NULL, 0, 0, "what to continue"),
    ROW(prompt_file, "prompt-file", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "the same from a file; - is standard input"),
    ROW(chat, "chat", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "the prompt is a user's message: apply the model's chat template"),
    ROW(system, "system", LAC_OPT_STRING, "TEXT", NULL, 0, 0, "with --chat: the system message"),
    ROW(chat_template, "chat-template", LAC_OPT_STRING, "FAMILY", NULL, 0, 0,
        "with --chat: this family instead of the model's own"),
    ROW(special, "special", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "texts of special tokens in the prompt become their ids"),
    ROW(max_tokens, "max-tokens", LAC_OPT_INT, "N", "256", 0, LAC_CONTEXT_MAX,
        "longest answer; 0 = as many as the context holds"),
    ROW(min_tokens, "min-tokens", LAC_OPT_INT, "N", "0", 0, LAC_CONTEXT_MAX,
        "no end token before this many"),
    ROW(ignore_eos, "ignore-eos", LAC_OPT_BOOL, NULL, NULL, 0, 0, "never choose an end token"),
    ROW(temp, "temp", LAC_OPT_NUMBER, "T", "1", 0, 2, "temperature; 0 = the best token always"),
    ROW(top_k, "top-k", LAC_OPT_INT, "K", "0", 0, LAC_VOCAB_MAX, "keep the K best; 0 = all"),
    ROW(top_p, "top-p", LAC_OPT_NUMBER, "P", "1", 0, 1, "keep the best with this much probability"),
    ROW(min_p, "min-p", LAC_OPT_NUMBER, "P", "0", 0, 1, "drop below this share of the best"),
    ROW(seed, "seed", LAC_OPT_STRING, "N", NULL, 0, 0, "makes the draw repeatable"),
    ROW(repeat_penalty, "repeat-penalty", LAC_OPT_NUMBER, "X", "1", 0, 2,
        "over prompt and answer; 1 = off"),
    ROW(presence, "presence", LAC_OPT_NUMBER, "X", "0", -2, 2, "presence penalty"),
    ROW(frequency, "frequency", LAC_OPT_NUMBER, "X", "0", -2, 2, "frequency penalty"),
    ROW(stop, "stop", LAC_OPT_STRING, "TEXT", NULL, 0, 0, "end before this text"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "print {\"ids\":[…],\"text\":…} at the end instead of streaming"),
};

static const lac_tool_spec spec = {
    .name = "generate",
    .synopsis = "--model FILE --prompt TEXT | --prompt-file FILE [--chat] [OPTIONS]",
    .help = "Continues a text. The prompt is taken as it is, with the beginning-of-text token "
            "first if\n"
            "the model file asks for it; --chat makes it a conversation instead.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* ---- input ---- */

static lac_status sampling_of(const generate_options *opt, lac_sampling *out, lac_error *err)
{
    lac_sampling s = lac_sampling_default();
    s.temperature = (float)opt->temp;
    s.top_k = (int32_t)opt->top_k;
    s.top_p = (float)opt->top_p;
    s.min_p = (float)opt->min_p;
    s.repetition_penalty = (float)opt->repeat_penalty;
    s.presence_penalty = (float)opt->presence;
    s.frequency_penalty = (float)opt->frequency;
    s.max_tokens = (uint32_t)opt->max_tokens;
    s.min_tokens = (uint32_t)opt->min_tokens;
    s.ignore_eos = opt->ignore_eos;
    s.has_seed = true;
    int64_t seed;
    if (!opt->seed[0])
        lac_random_bytes(&seed, sizeof(seed));
    else if (!lac_parse_i64(opt->seed, INT64_MIN, INT64_MAX, &seed))
        return lac_fail(err, LAC_EINVAL, "--seed is \"%.24s\", not a whole number of 64 bits",
                        opt->seed);
    s.seed = (uint64_t)seed;
    if (opt->stop[0]) {
        s.stops_count = 1;
        s.stops[0].length = (uint32_t)strlen(opt->stop);
        memcpy(s.stops[0].bytes, opt->stop, s.stops[0].length);
    }
    *out = s;
    return LAC_OK;
}

static const lac_chat_family *family_of(const generate_options *opt, const char *template,
                                        size_t length, lac_error *err)
{
    const lac_chat_family *family = opt->chat_template[0] ? lac_chat_find(opt->chat_template)
                                                          : lac_chat_detect(template, length);
    if (!family && opt->chat_template[0])
        lac_fail(err, LAC_EINVAL, "--chat-template is \"%.64s\", allowed %s", opt->chat_template,
                 lac_chat_names());
    else if (!family)
        lac_fail(err, LAC_EUNSUPPORTED,
                 "the model's chat template is %s; --chat-template takes one of %s",
                 length ? "of no known family" : "missing", lac_chat_names());
    return family;
}

/* A token's text as a C string, "" for LAC_TOKEN_NONE: templates want it so. The caller frees it.
 */
static char *token_text(const lac_tokenizer *tokenizer, uint32_t token)
{
    const char *bytes = "";
    size_t length = 0;
    if (token != LAC_TOKEN_NONE)
        lac_tokenizer_piece(tokenizer, token, true, &bytes, &length);
    return lac_strndup(bytes, length);
}

/* The conversation's text by the model's template, into `out`. */
static lac_status chat_text(const lac_engine *engine, const generate_options *opt,
                            const char *prompt, size_t length, lac_buf *out, lac_error *err)
{
    const lac_tokenizer *tokenizer = lac_engine_tokenizer(engine);
    const char *template = "";
    size_t template_length = 0;
    lac_error bad = {0};
    lac_gguf_string(lac_engine_model(engine)->gguf, "tokenizer.chat_template", &template,
                    &template_length, &bad);
    if (bad.status != LAC_OK) {
        *err = bad;
        return bad.status;
    }
    const lac_chat_family *family = family_of(opt, template, template_length, err);
    if (!family)
        return err->status;
    char *bos = token_text(tokenizer, lac_tokenizer_bos(tokenizer));
    char *eos = token_text(tokenizer, lac_tokenizer_eos(tokenizer));
    lac_chat_context context;
    lac_chat_context_read(family, template, template_length, bos, eos, &context);
    lac_chat_message messages[2] = {
        {.role = "system", .content = {opt->system, (uint32_t)strlen(opt->system)}},
        {.role = "user", .content = {prompt, (uint32_t)length}}};
    bool system = opt->system[0] != '\0';
    lac_status status =
        lac_chat_render(family, &context, messages + !system, system ? 2 : 1, true, out, err);
    free(bos);
    free(eos);
    return status;
}

static lac_status prompt_ids(const lac_engine *engine, const generate_options *opt, uint32_t **ids,
                             size_t *count, lac_error *err)
{
    char *text = NULL;
    size_t length = 0;
    lac_buf rendered = {0};
    lac_status status = LAC_OK;
    if (opt->prompt_file[0]) {
        status = lac_tool_read_file(opt->prompt_file, LAC_PROMPT_BYTES_MAX, &text, &length, err);
    } else {
        length = strlen(opt->prompt);
        text = lac_strndup(opt->prompt, length);
    }
    if (status == LAC_OK && opt->chat) {
        status = chat_text(engine, opt, text, length, &rendered, err);
        if (status == LAC_OK)
            status = lac_tool_encode(engine, rendered.data, rendered.length, true, false, ids,
                                     count, err);
    } else if (status == LAC_OK) {
        bool bos = lac_tokenizer_add_bos(lac_engine_tokenizer(engine));
        status = lac_tool_encode(engine, text, length, opt->special, bos, ids, count, err);
    }
    lac_buf_free(&rendered);
    free(text);
    return status;
}

/* ---- output ---- */

typedef struct {
    bool json;
    lac_buf ids, text;
    size_t ids_count;
    lac_finish finish;
    lac_usage usage;
    lac_engine_account account;
    lac_status status;
    lac_error *err;
} generate_output;

static void take(void *arg, const lac_engine_event *event)
{
    generate_output *out = arg;
    for (uint32_t i = 0; i < event->chunk.tokens_count; i++)
        lac_buf_printf(&out->ids, "%s%u", out->ids_count++ ? "," : "", event->chunk.tokens[i]);
    out->finish = event->finish;
    out->usage = event->usage;
    if (event->account)
        out->account = *event->account;
    if (event->finish == LAC_FINISH_ERROR)
        out->status =
            lac_fail(out->err, event->error, "%s", event->reason ? event->reason : "failed");
    if (event->chunk.text.length == 0)
        return;
    lac_buf_add(&out->text, event->chunk.text.data, event->chunk.text.length);
    if (out->json || out->status != LAC_OK)
        return;
    lac_error failed = {0};
    if (lac_tool_print(&out->text, &failed) != LAC_OK) {
        *out->err = failed;
        out->status = failed.status;
    }
    lac_buf_clear(&out->text);
}

static lac_status finish(generate_output *out, const lac_engine *engine, double seconds,
                         lac_error *err)
{
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    lac_buf line = {0};
    if (out->json) {
        lac_buf_printf(&line, "{\"ids\":[%s],\"text\":", out->ids.data ? out->ids.data : "");
        lac_buf_json(&line, out->text.data ? out->text.data : "", out->text.length);
        lac_buf_printf(&line,
                       ",\"finish\":\"%s\",\"prompt_tokens\":%u,\"completion_tokens\":%u"
                       ",\"cached_tokens\":%u,\"draft_tokens\":%llu,\"draft_accepted\":%llu"
                       ",\"seconds\":%.6f",
                       lac_finish_name(out->finish), out->usage.prompt_tokens,
                       out->usage.completion_tokens, out->usage.cached_tokens,
                       (unsigned long long)stats.draft_tokens,
                       (unsigned long long)stats.draft_accepted, seconds);
        lac_buf_printf(&line,
                       ",\"class\":\"%s\",\"active_layers\":%u,\"skip_rate\":%.6f,"
                       "\"cost_skip_rate\":%.6f,\"flops\":%.0f,\"kv_bytes\":%llu}",
                       out->account.class_name, out->account.active_layers, out->account.skip_rate,
                       out->account.cost_skip_rate, out->account.flops,
                       (unsigned long long)out->account.kv_bytes);
    }
    lac_buf_text(&line, "\n");
    lac_status status = lac_tool_print(&line, err);
    lac_buf_free(&line);
    return status;
}

static lac_status generate(const generate_options *opt, lac_engine *engine, lac_error *err)
{
    uint32_t *ids = NULL;
    size_t count = 0;
    generate_output out = {.json = opt->json, .err = err};
    lac_engine_request request = {.id = 1, .class_index = lac_tool_engine_class(&opt->engine)};
    lac_status status = sampling_of(opt, &request.sampling, err);
    if (status == LAC_OK)
        status = prompt_ids(engine, opt, &ids, &count, err);
    request.prompt = ids;
    request.prompt_count = count;
    if (status == LAC_OK)
        status = lac_engine_submit(engine, &request, err);
    uint64_t start = lac_now_ns();
    while (status == LAC_OK && lac_engine_step(engine, take, &out))
        status = out.status;
    if (status == LAC_OK)
        status = finish(&out, engine, (double)(lac_now_ns() - start) / 1e9, err);
    lac_buf_free(&out.ids);
    lac_buf_free(&out.text);
    free(ids);
    return status;
}

int lac_tool_generate(int argc, char **argv)
{
    static generate_options opt; /* large */
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0] || !opt.prompt[0] == !opt.prompt_file[0])
        return lac_tool_misuse(
            &spec, "--model FILE and one of --prompt TEXT, --prompt-file FILE are needed");
    code = lac_tool_ranks(&spec, &opt.engine, argv);
    if (code >= 0)
        return code;
    lac_error err = {0};
    lac_engine *engine = NULL;
    lac_status status = lac_tool_engine_open(&opt.engine, 1, &engine, &err);
    if (status == LAC_OK)
        status = lac_tool_ranks_follows() ? lac_engine_follow(engine, &err)
                                          : generate(&opt, engine, &err);
    lac_tool_engine_close(&engine);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
