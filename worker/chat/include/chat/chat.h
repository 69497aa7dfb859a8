/* Chat templates: which family a model's own Jinja template belongs to, and the family's text for a
 * conversation, byte for byte what the template gives. No Jinja interpreter: families are a table.
 * Pure, any thread. */
#ifndef LAC_CHAT_H
#define LAC_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/msg.h"
#include "base/status.h"

typedef struct lac_chat_family lac_chat_family;

/* Recognises the family from the template text ("" or NULL: none). NULL when unknown. */
const lac_chat_family *lac_chat_detect(const char *template_text, size_t length);
/* By name ("chatml", "llama3", "gemma", "mistral", "deepseek", "phi", …), or NULL. */
const lac_chat_family *lac_chat_find(const char *name);
const char *lac_chat_name(const lac_chat_family *family);
/* "chatml, llama3, …" for error texts. */
const char *lac_chat_names(void);

/* What a model's template adds beyond the family, read from its text. */
typedef struct {
    const char *default_system; /* system text used when the conversation has none; "" or NULL = none */
    size_t default_system_length;
    bool default_system_escaped; /* it is part of a Jinja string and has that language's escapes */
    const char *bos, *eos; /* the model's token texts; "" when it has none */
} lac_chat_context;
void lac_chat_context_read(const lac_chat_family *family, const char *template_text, size_t length,
                           const char *bos, const char *eos, lac_chat_context *out);

/* Appends the prompt text, ready to be encoded with `special` on and no extra BOS.
 * LAC_EINVAL names a role or order that the family cannot express. */
lac_status lac_chat_render(const lac_chat_family *family, const lac_chat_context *context,
                           const lac_chat_message *messages, size_t count, bool add_generation_prompt,
                           lac_buf *out, lac_error *err);

#endif
