/* The one place that knows everything a prompt points to. Pure, any thread. */
#include "base/prompt.h"

#include <string.h>

#include "base/assert.h"

static uint64_t message_bytes(const lac_chat_message *m)
{
    return (uint64_t)m->content.length + m->reasoning.length + m->calls.length + m->call_id.length;
}

uint64_t lac_prompt_text_bytes(const lac_prompt *prompt)
{
    uint64_t bytes = (uint64_t)prompt->text.length + prompt->suffix.length + prompt->tools.length;
    for (uint32_t i = 0; i < prompt->messages_count; i++)
        bytes += message_bytes(&prompt->messages[i]);
    return bytes;
}

static uint64_t round16(uint64_t size)
{
    return (size + 15) & ~(uint64_t)15;
}

uint64_t lac_prompt_size(const lac_prompt *prompt)
{
    return round16((uint64_t)prompt->messages_count * sizeof *prompt->messages +
                   (uint64_t)prompt->ids_count * sizeof *prompt->ids +
                   lac_prompt_text_bytes(prompt));
}

static const void *take(char **at, const void *from, size_t size)
{
    void *to = *at;
    if (!size)
        return NULL;
    memcpy(to, from, size);
    *at += size;
    return to;
}

static void take_span(char **at, lac_span *span)
{
    span->data = take(at, span->data, span->length);
}

/* The lists first, for their alignment, then the bytes. */
void lac_prompt_copy(const lac_prompt *from, char **cursor, lac_prompt *to)
{
    char *at = *cursor, *end = *cursor + lac_prompt_size(from);
    *to = *from;
    lac_chat_message *messages = (lac_chat_message *)(void *)at;
    to->messages = take(&at, from->messages, from->messages_count * sizeof *messages);
    to->ids = take(&at, from->ids, from->ids_count * sizeof *from->ids);
    take_span(&at, &to->text);
    take_span(&at, &to->suffix);
    take_span(&at, &to->tools);
    for (uint32_t i = 0; i < from->messages_count; i++) {
        take_span(&at, &messages[i].content);
        take_span(&at, &messages[i].reasoning);
        take_span(&at, &messages[i].calls);
        take_span(&at, &messages[i].call_id);
    }
    LAC_ASSERT(at <= end);
    *cursor = end;
}
