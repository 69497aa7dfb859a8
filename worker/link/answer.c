/* What an answer is bound to and how its text is divided, and the answers that need no engine. On a
 * pool thread, as part of a prompt job. Must not know the engine or the session. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "grammar/grammar.h"
#include "prompt_parts.h"
#include "sampler/sampler.h"

/* ---- what the vocabulary has ---- */

static uint32_t find(const lac_prompt_tools *tools, const char *text)
{
    return lac_tokenizer_find(tools->tokenizer, text, strlen(text));
}

void lac_prompt_tools_look(lac_prompt_tools *tools)
{
    static const char *const marks[] = {"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<think>",
                                        "</think>"};
    /* Qwen2.5-Coder; StarCoder and its kin; DeepSeek-Coder; CodeLlama. */
    static const char *const gaps[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
        {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    };
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        uint32_t id = find(tools, marks[i]);
        tools->marks_are_control =
            tools->marks_are_control ||
            (id != LAC_TOKEN_NONE && lac_tokenizer_is_control(tools->tokenizer, id));
    }
    tools->fim_prefix = tools->fim_suffix = tools->fim_middle = LAC_TOKEN_NONE;
    for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
        uint32_t prefix = find(tools, gaps[i][0]), suffix = find(tools, gaps[i][1]),
                 middle = find(tools, gaps[i][2]);
        if (prefix == LAC_TOKEN_NONE || suffix == LAC_TOKEN_NONE || middle == LAC_TOKEN_NONE)
            continue;
        tools->fim_prefix = prefix;
        tools->fim_suffix = suffix;
        tools->fim_middle = middle;
        return;
    }
}

/* ---- grammar and divider ---- */

static lac_status format_make(lac_prompt_job *job)
{
    const lac_sampling *s = &job->ask.sampling;
    if (s->grammar_length == 0)
        return LAC_OK;
    lac_status status =
        lac_grammar_create(s->grammar, s->grammar_length, &job->grammar, &job->error);
    if (status != LAC_OK)
        lac_fail_in(&job->error, "response_format");
    return status;
}

/* The answer is a call: its schema is made from the parameters of the functions. */
static lac_status call_make(lac_prompt_job *job)
{
    const lac_prompt *prompt = &job->ask.prompt;
    const lac_sampling *s = &job->ask.sampling;
    if (s->grammar_length > 0)
        return lac_fail(&job->error, LAC_EINVAL,
                        "tool_choice requires a call and response_format is given, allowed one");
    if (s->min_tokens > 0 || s->ignore_eos)
        return lac_fail(&job->error, LAC_EINVAL,
                        "min_tokens is %u and ignore_eos %s, allowed 0 and false where "
                        "tool_choice requires a call",
                        s->min_tokens, s->ignore_eos ? "true" : "false");
    lac_buf schema = {.cap = 2 * LAC_GRAMMAR_BYTES_MAX};
    lac_status status =
        lac_tools_schema(job->functions, lac_chat_calls_form(job->tools->family),
                         prompt->tool_name[0] ? prompt->tool_name : NULL, &schema, &job->error);
    if (status == LAC_OK) {
        status = lac_grammar_create(schema.data, schema.length, &job->grammar, &job->error);
        if (status != LAC_OK)
            lac_fail_in(&job->error, "tools");
    }
    lac_buf_free(&schema);
    return status;
}

/* An earlier attempt's text went through the same stops and the same divider: what it made of it is
 * with the client already. */
static void divider_replay(lac_prompt_job *job)
{
    lac_release *release = lac_release_create(&job->ask.sampling);
    lac_buf parts = {0};
    bool stopped = false;
    for (uint32_t i = 0; i < job->ask.accepted_count && !stopped; i++) {
        const char *bytes, *text;
        size_t length, text_length;
        lac_tokenizer_piece(job->tools->tokenizer, job->ask.accepted[i], job->raw_text, &bytes,
                            &length);
        stopped = lac_release_add(release, bytes, length, &text, &text_length);
        lac_divider_add(job->divider, text, text_length, &parts);
        lac_buf_clear(&parts);
    }
    lac_buf_free(&parts);
    lac_release_destroy(&release);
}

static void divider_make(lac_prompt_job *job)
{
    const lac_prompt *prompt = &job->ask.prompt;
    if (!prompt->parts || prompt->kind != LAC_PROMPT_CHAT)
        return;
    const lac_chat_family *family = job->tools->family;
    lac_calls_form form = job->functions ? lac_chat_calls_form(family) : LAC_CALLS_NONE;
    lac_divide_options options = {.form = form,
                                  .tools = job->functions,
                                  .called = prompt->tool_required,
                                  .one_call = prompt->one_call || form == LAC_CALLS_LLAMA,
                                  .thinks = lac_chat_thinks(family)};
    bool marked = form != LAC_CALLS_NONE || options.thinks != LAC_THINKS_NOT;
    job->raw_text = marked && job->tools->marks_are_control;
    job->divider = lac_divider_create(&options);
    divider_replay(job);
}

lac_status lac__job_constrain(lac_prompt_job *job)
{
    bool call = job->ask.prompt.tool_required;
    LAC_ASSERT(!call || job->functions); /* the codec lets nothing else through */
    lac_status status = call ? call_make(job) : format_make(job);
    if (status == LAC_OK)
        divider_make(job);
    return status;
}

/* ---- answers without an engine ---- */

static void put_text_of_ids(const lac_prompt_job *job, lac_buf *out)
{
    lac_sampling plain = lac_sampling_default();
    lac_release *release = lac_release_create(&plain);
    const char *bytes, *text;
    size_t length, text_length;
    for (size_t i = 0; i < job->ids_count; i++) {
        lac_tokenizer_piece(job->tools->tokenizer, job->ids[i], true, &bytes, &length);
        lac_release_add(release, bytes, length, &text, &text_length);
        lac_buf_add(out, text, text_length);
    }
    lac_release_end(release, &text, &text_length);
    lac_buf_add(out, text, text_length);
    lac_release_destroy(&release);
}

lac_status lac__job_answer(lac_prompt_job *job)
{
    lac_buf text = {.cap = LAC_FRAME_MAX / 2};
    if (job->ask.prompt.want == LAC_WANT_TEXT_OF_IDS) {
        put_text_of_ids(job, &text);
    } else {
        lac_buf_text(&text, "[");
        for (size_t i = 0; i < job->ids_count; i++)
            lac_buf_printf(&text, i ? ",%u" : "%u", job->ids[i]);
        lac_buf_text(&text, "]");
    }
    if (text.overflow) {
        lac_status status =
            lac_fail(&job->error, LAC_ETOOBIG,
                     "the answer to %zu tokens has over %zu bytes, the most allowed",
                     job->ids_count, text.cap);
        lac_buf_free(&text);
        return status;
    }
    job->answered = true;
    job->answer = (lac_span){.data = text.data, .length = (uint32_t)text.length};
    return LAC_OK;
}
