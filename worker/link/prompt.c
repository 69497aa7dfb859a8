/* Prompt jobs: a private copy of a Dispatch, and the text work on it. Create and destroy run on the
 * link thread, run on a pool thread; a job belongs to one of them at a time. Must not know the
 * engine or the session. */
#include "link/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "grammar/grammar.h"

/* Templates add a few dozen bytes a message to at most LAC_PROMPT_BYTES_MAX of content. */
enum { RENDERED_BYTES_MAX = 2 * LAC_PROMPT_BYTES_MAX };

/* ---- the copy ---- */

static size_t round16(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static size_t copies_size(const lac_dispatch *d)
{
    size_t size = round16(d->prompt.text.length) + round16(d->prompt.ids_count * sizeof(uint32_t)) +
                  round16(d->accepted_count * sizeof(uint32_t)) +
                  round16(d->sampling.bias_count * sizeof(lac_logit_bias)) +
                  round16(d->sampling.grammar_length) +
                  round16(d->prompt.messages_count * sizeof(lac_chat_message));
    for (uint32_t i = 0; i < d->prompt.messages_count; i++)
        size += round16(d->prompt.messages[i].content.length);
    return size;
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
    lac_prompt *prompt = &job->ask.prompt;
    prompt->text.data = copy(&at, prompt->text.data, prompt->text.length);
    prompt->ids = copy(&at, prompt->ids, prompt->ids_count * sizeof(uint32_t));
    job->ask.accepted = copy(&at, dispatch->accepted, dispatch->accepted_count * sizeof(uint32_t));
    job->ask.sampling.bias =
        copy(&at, dispatch->sampling.bias, dispatch->sampling.bias_count * sizeof(lac_logit_bias));
    job->ask.sampling.grammar =
        copy(&at, dispatch->sampling.grammar, dispatch->sampling.grammar_length);
    lac_chat_message *messages =
        copy(&at, prompt->messages, prompt->messages_count * sizeof(lac_chat_message));
    for (uint32_t i = 0; i < prompt->messages_count; i++)
        messages[i].content.data = copy(&at, messages[i].content.data, messages[i].content.length);
    prompt->messages = messages;
    LAC_ASSERT(at == memory + size);
    return job;
}

void lac_prompt_job_destroy(lac_prompt_job **job)
{
    if (*job == NULL)
        return;
    free((*job)->ids);
    lac_grammar_destroy(&(*job)->grammar);
    free((void *)(*job)->echo.data);
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
    lac_buf text = {.cap = RENDERED_BYTES_MAX};
    lac_status status = lac_chat_render(tools->family, &tools->chat, job->ask.prompt.messages,
                                        job->ask.prompt.messages_count, true, &text, &job->error);
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

static lac_status text_encode(lac_prompt_job *job)
{
    const lac_tokenizer *tokenizer = job->tools->tokenizer;
    lac_encode_options options = {.special = true, .bos = lac_tokenizer_add_bos(tokenizer)};
    lac_span text = job->ask.prompt.text;
    return lac_tokenizer_encode(tokenizer, text.data != NULL ? text.data : "", text.length, options,
                                &job->ids, &job->ids_count, &job->error);
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

void lac_prompt_job_run(lac_prompt_job *job)
{
    lac_status status = lac_sampling_check(&job->ask.sampling, job->tools->vocab, &job->error);
    if (status == LAC_OK) {
        switch (job->ask.prompt.kind) {
        case LAC_PROMPT_CHAT: status = chat_encode(job); break;
        case LAC_PROMPT_TEXT: status = text_encode(job); break;
        case LAC_PROMPT_IDS: status = ids_check(job); break;
        case LAC_PROMPT_NONE:
            status = lac_fail(&job->error, LAC_EINVAL, "prompt is missing");
            break;
        }
    }
    if (status == LAC_OK)
        status = length_check(job);
    if (status == LAC_OK && job->ask.sampling.grammar_length > 0)
        status = lac_grammar_create(job->ask.sampling.grammar, job->ask.sampling.grammar_length,
                                    &job->grammar, &job->error);
    if (status == LAC_OK)
        echo_make(job);
    job->error.status = status;
}
