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
    const char
        *default_system; /* system text used when the conversation has none; "" or NULL = none */
    size_t default_system_length;
    bool default_system_escaped; /* it is part of a Jinja string and has that language's escapes */
    const char *bos, *eos;       /* the model's token texts; "" when it has none */
} lac_chat_context;
void lac_chat_context_read(const lac_chat_family *family, const char *template_text, size_t length,
                           const char *bos, const char *eos, lac_chat_context *out);

/* Appends the prompt text, ready to be encoded with `special` on and no extra BOS.
 * LAC_EINVAL names a role or order that the family cannot express. */
lac_status lac_chat_render(const lac_chat_family *family, const lac_chat_context *context,
                           const lac_chat_message *messages, size_t count,
                           bool add_generation_prompt, lac_buf *out, lac_error *err);

/* ---- functions a model may call, and thinking ---- */

typedef struct lac_tools lac_tools;

/* From OpenAI's JSON: [{"type":"function","function":{"name":…,"description":…,"parameters":…}}].
 * LAC_EINVAL names what is wrong with which. Read-only afterwards. */
lac_status lac_tools_create(const char *json, size_t length, lac_tools **out, lac_error *err);
void lac_tools_destroy(lac_tools **tools);
size_t lac_tools_count(const lac_tools *tools);
const char *lac_tools_name(const lac_tools *tools, size_t index);

/* How a family writes calls in an answer. */
typedef enum {
    LAC_CALLS_NONE,
    LAC_CALLS_HERMES,  /* <tool_call>{"name", "arguments"}</tool_call>, any number of times */
    LAC_CALLS_LLAMA,   /* the answer is one object {"name", "parameters"} */
    LAC_CALLS_MISTRAL, /* [TOOL_CALLS] and an array of {"name", "arguments"} */
} lac_calls_form;
lac_calls_form lac_chat_calls_form(const lac_chat_family *family);

/* Appends the JSON Schema of an answer that is one call, of `name` or (NULL) of any, as it goes on
 * after the beginning that the prompt gave. LAC_EINVAL: no such function; LAC_ETOOBIG: over
 * LAC_TOOLS_REQUIRED_MAX of them. */
lac_status lac_tools_schema(const lac_tools *tools, lac_calls_form form, const char *name,
                            lac_buf *out, lac_error *err);

/* What a family's answers do before they answer. */
typedef enum {
    LAC_THINKS_NOT,
    LAC_THINKS_MARKED, /* the model writes <think> itself, when it does */
    LAC_THINKS_OPENED  /* the prompt ends with <think> */
} lac_thinks;
lac_thinks lac_chat_thinks(const lac_chat_family *family);

typedef struct {
    const lac_chat_message *messages;
    size_t count;
    const lac_tools *tools; /* NULL = none */
    bool call;              /* the answer is a call: the prompt ends with its beginning */
    lac_thinking thinking;
    bool add_generation_prompt;
} lac_chat_ask;
/* As lac_chat_render, with messages of role "tool", calls, thoughts and tools. LAC_EUNSUPPORTED
 * for thinking that the family cannot turn on or off. */
lac_status lac_chat_render_ask(const lac_chat_family *family, const lac_chat_context *context,
                               const lac_chat_ask *ask, lac_buf *out, lac_error *err);

#endif
