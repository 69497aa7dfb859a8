/* Prompt sets: JSONL, a line {"id", "document", "type", "text" | "messages"}. What lines of one
 * document have in common is not independent, so every prompt names its document. One thread. */
#ifndef LAC_CALIBRATE_PROMPTS_H
#define LAC_CALIBRATE_PROMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/status.h"
#include "chat/chat.h"

enum {
    LAC_PROMPTS_FILE_MAX = 256 << 20, /* bytes */
    LAC_PROMPTS_MAX = 65536,          /* lines */
    LAC_PROMPT_ID_MAX = 200,          /* bytes of an id or a document's name */
};

typedef struct {
    char *id;
    uint32_t document; /* index into documents */
    char *text;        /* messages are rendered; NUL-ended */
    size_t length;
    bool chat; /* rendered: texts of special tokens stand for them */
} lac_prompt_item;

typedef struct {
    lac_prompt_item *prompts; /* [count] as they lie in the file */
    uint32_t count;
    char **documents; /* [documents_count] names, in order of appearance */
    uint32_t documents_count;
    uint32_t left_out; /* lines of other types */
    lac_digest digest; /* over documents and texts of the prompts taken */
} lac_prompt_set;

/* How messages become text; family NULL refuses them. */
typedef struct {
    const lac_chat_family *family;
    lac_chat_context context;
} lac_prompt_chat;

/* Reads the lines whose type is `type`. Errors name file, line, field, value and limit. A repeated
 * id, an unknown field, or no line of the type is LAC_EINVAL. */
lac_status lac_prompts_read(const char *path, const char *type, const lac_prompt_chat *chat,
                            lac_prompt_set *out, lac_error *err);
/* As read, over bytes; `name` stands for the file in errors. */
lac_status lac_prompts_parse(const char *name, const char *bytes, size_t length, const char *type,
                             const lac_prompt_chat *chat, lac_prompt_set *out, lac_error *err);
void lac_prompts_free(lac_prompt_set *set);

/* LAC_EREFUSED naming both sides when a hold-out prompt was seen in calibration: a document with
 * the same name, the same text but for spaces and punctuation, or more than half of its runs of 12
 * words. */
lac_status lac_prompts_disjoint(const lac_prompt_set *calibration, const lac_prompt_set *holdout,
                                lac_error *err);

#endif
