/* Prompt jobs: a private copy of a Dispatch, and the text work on it. Create and destroy run on the
 * link thread, run on a pool thread; a job belongs to one of them at a time. Must not know the
 * engine or the session. */
#include "link/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/prompt.h"
#include "grammar/grammar.h"
#include "prompt_parts.h"

/* Templates add a few dozen bytes a message to at most LAC_PROMPT_BYTES_MAX of content. */
enum { RENDERED_BYTES_MAX = 2 * LAC_PROMPT_BYTES_MAX };

/* ---- the copy ---- */

static size_t round16(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static size_t copies_size(const lac_dispatch *d)
{
    return lac_prompt_size(&d->prompt) + round16(d->accepted_count * sizeof(uint32_t)) +
           round16(d->sampling.bias_count * sizeof(lac_logit_bias)) +
           round16(d->sampling.grammar_length);
}

static void *copy(char **at, const void *from, size_t size)
{
    void *to = *at;
    if (size == 0)
        return NULL;
    memcpy(to, from, size);
    *at += round16(size);
    return to;
}

lac_prompt_job *lac_prompt_job_create(const lac_prompt_tools *tools, uint64_t id,
                                      const lac_dispatch *dispatch)
{
    size_t size = copies_size(dispatch);
    char *memory = lac_try_alloc(1, size);
    if (memory == NULL)
        return NULL;
    lac_prompt_job *job = lac_alloc(1, sizeof(*job));
    job->tools = tools;
    job->id = id;
    job->bytes = size;
    job->memory = memory;
    job->ask = *dispatch;
    char *at = memory;
    lac_prompt_copy(&dispatch->prompt, &at, &job->ask.prompt);
    job->ask.accepted = copy(&at, dispatch->accepted, dispatch->accepted_count * sizeof(uint32_t));
    job->ask.sampling.bias =
        copy(&at, dispatch->sampling.bias, dispatch->sampling.bias_count * sizeof(lac_logit_bias));
    job->ask.sampling.grammar =
        copy(&at, dispatch->sampling.grammar, dispatch->sampling.grammar_length);
    LAC_ASSERT(at == memory + size);
    return job;
}

void lac_prompt_job_destroy(lac_prompt_job **job)
{
    if (*job == NULL)
        return;
    free((*job)->ids);
    lac_grammar_destroy(&(*job)->grammar);
    lac_tools_destroy(&(*job)->functions);
    lac_divider_destroy(&(*job)->divider);
    free((void *)(*job)->echo.data);
    free((void *)(*job)->answer.data);
    free((*job)->memory);
    free(*job);
    *job = NULL;
}

/* ---- the work ---- */

static lac_status chat_encode(lac_prompt_job *job)
{
    const lac_prompt_tools *tools = job->tools;
    if (tools->family == NULL)
        return lac_fail(&job->error, LAC_EUNSUPPORTED,
                        "messages: this model's chat template is of no known family (known: %s); "
                        "send a text prompt instead",
                        lac_chat_names());
    const lac_prompt *prompt = &job->ask.prompt;
    lac_buf text = {.cap = RENDERED_BYTES_MAX};
    lac_chat_ask ask = {.messages = prompt->messages,
                        .count = prompt->messages_count,
                        .tools = job->functions,
                        .call = prompt->tool_required,
                        .thinking = prompt->thinking,
                        .add_generation_prompt = true};
    lac_status status = lac_chat_render_ask(tools->family, &tools->chat, &ask, &text, &job->error);
    if (status == LAC_OK && text.overflow)
        status = lac_fail(&job->error, LAC_ETOOBIG, "messages: rendered over %d bytes",
                          RENDERED_BYTES_MAX);
    if (status == LAC_OK)
        status = lac_tokenizer_encode(tools->tokenizer, text.data, text.length,
                                      (lac_encode_options){.special = true}, &job->ids,
                                      &job->ids_count, &job->error);
    lac_buf_free(&text);
    return status;
}

static lac_status encode(lac_prompt_job *job, lac_span text, lac_encode_options options,
                         uint32_t **ids, size_t *count)
{
    return lac_tokenizer_encode(job->tools->tokenizer, text.data != NULL ? text.data : "",
                                text.length, options, ids, count, &job->error);
}

/* Prefix, suffix, and a mark behind which the model fills the gap (Bavarian et al. 2022, "PSM").
 * The marks are ids, so that equal texts inside the parts stay text. */
static lac_status fill_encode(lac_prompt_job *job, lac_encode_options options)
{
    const lac_prompt_tools *tools = job->tools;
    uint32_t *prefix = NULL, *suffix = NULL;
    size_t prefix_count = 0, suffix_count = 0, at = 0;
    if (tools->fim_middle == LAC_TOKEN_NONE)
        return lac_fail(&job->error, LAC_EUNSUPPORTED,
                        "suffix: this model has no tokens to fill a gap with");
    options.special = false;
    lac_status status = encode(job, job->ask.prompt.text, options, &prefix, &prefix_count);
    options.bos = false;
    if (status == LAC_OK)
        status = encode(job, job->ask.prompt.suffix, options, &suffix, &suffix_count);
    if (status != LAC_OK)
        goto out;
    job->ids = lac_try_alloc(prefix_count + suffix_count + 3, sizeof(*job->ids));
    if (job->ids == NULL) {
        status = lac_fail(&job->error, LAC_ENOMEM, "prompt and suffix find no memory");
        goto out;
    }
    /* A BOS stays in front of everything. */
    bool bos =
        prefix_count > 0 && lac_tokenizer_add_bos(tools->tokenizer) && !job->ask.prompt.without_bos;
    if (bos)
        job->ids[at++] = prefix[0];
    job->ids[at++] = tools->fim_prefix;
    for (size_t i = bos; i < prefix_count; i++)
        job->ids[at++] = prefix[i];
    job->ids[at++] = tools->fim_suffix;
    for (size_t i = 0; i < suffix_count; i++)
        job->ids[at++] = suffix[i];
    job->ids[at++] = tools->fim_middle;
    job->ids_count = at;
out:
    free(prefix);
    free(suffix);
    return status;
}

static lac_status text_encode(lac_prompt_job *job)
{
    const lac_prompt *prompt = &job->ask.prompt;
    lac_encode_options options = {.special = true,
                                  .bos = !prompt->without_bos &&
                                         lac_tokenizer_add_bos(job->tools->tokenizer)};
    if (prompt->suffix.length > 0)
        return fill_encode(job, options);
    return encode(job, prompt->text, options, &job->ids, &job->ids_count);
}

static lac_status ids_check(lac_prompt_job *job)
{
    const lac_prompt *prompt = &job->ask.prompt;
    for (uint32_t i = 0; i < prompt->ids_count; i++)
        if (prompt->ids[i] >= job->tools->vocab)
            return lac_fail(&job->error, LAC_EINVAL, "prompt[%u] is token %u, allowed below %u", i,
                            prompt->ids[i], job->tools->vocab);
    job->ids = lac_try_alloc(prompt->ids_count, sizeof(*job->ids));
    if (job->ids == NULL)
        return lac_fail(&job->error, LAC_ENOMEM, "prompt of %u tokens finds no memory",
                        prompt->ids_count);
    memcpy(job->ids, prompt->ids, prompt->ids_count * sizeof(*job->ids));
    job->ids_count = prompt->ids_count;
    return LAC_OK;
}

static lac_status length_check(lac_prompt_job *job)
{
    size_t count = job->ids_count;
    if (count == 0)
        return lac_fail(&job->error, LAC_EINVAL, "prompt has 0 tokens, allowed at least 1");
    if (count + job->ask.accepted_count >= job->tools->context_max)
        return lac_fail(
            &job->error, LAC_ETOOBIG, "prompt has %zu tokens, allowed at most %u (context %u)",
            count + job->ask.accepted_count, job->tools->context_max - 1, job->tools->context_max);
    for (uint32_t i = 0; i < job->ask.accepted_count; i++)
        if (job->ask.accepted[i] >= job->tools->vocab)
            return lac_fail(&job->error, LAC_EINVAL, "accepted[%u] is token %u, allowed below %u",
                            i, job->ask.accepted[i], job->tools->vocab);
    return LAC_OK;
}

/* A continued request has had its echo from the first attempt. */
static void echo_make(lac_prompt_job *job)
{
    lac_span text = job->ask.prompt.text;
    if (!job->ask.echo || job->ask.accepted_count > 0 || text.length == 0)
        return;
    job->echo.data = lac_strndup(text.data, text.length);
    job->echo.length = text.length;
}

static lac_status functions_read(lac_prompt_job *job)
{
    lac_span tools = job->ask.prompt.tools;
    if (tools.length == 0)
        return LAC_OK;
    return lac_tools_create(tools.data, tools.length, &job->functions, &job->error);
}

static lac_status ids_make(lac_prompt_job *job)
{
    switch (job->ask.prompt.kind) {
    case LAC_PROMPT_CHAT: return chat_encode(job);
    case LAC_PROMPT_TEXT: return text_encode(job);
    case LAC_PROMPT_IDS: return ids_check(job);
    case LAC_PROMPT_NONE: break;
    }
    return lac_fail(&job->error, LAC_EINVAL, "prompt is missing");
}

void lac_prompt_job_run(lac_prompt_job *job)
{
    lac_want want = job->ask.prompt.want;
    lac_status status = lac_sampling_check(&job->ask.sampling, job->tools->vocab, &job->error);
    if (status == LAC_OK)
        status = functions_read(job);
    if (status == LAC_OK)
        status = ids_make(job);
    if (status == LAC_OK && (want == LAC_WANT_TOKENS || want == LAC_WANT_TEXT_OF_IDS)) {
        status = lac__job_answer(job);
    } else if (status == LAC_OK) {
        status = length_check(job);
        if (status == LAC_OK)
            status = lac__job_constrain(job);
        if (status == LAC_OK)
            echo_make(job);
    }
    job->error.status = status;
}
