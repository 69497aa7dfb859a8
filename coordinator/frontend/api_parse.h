/* Shared by the files that read request bodies: the state of one parse and the readers of fields.
 */
#ifndef LAC__FRONTEND_API_PARSE_H
#define LAC__FRONTEND_API_PARSE_H

#include <jansson.h>

#include "api.h"

typedef struct {
    lac__api_request *out;
    lac__problem *problem;
    /* Needed by checks across fields. */
    bool has_max_tokens, has_max_completion_tokens, has_top_logprobs, has_stream_options;
    uint32_t max_completion_tokens;
    uint32_t best_of; /* 0 = not given */
    bool has_input;   /* messages or prompt */
    bool no_calls;    /* tool_choice is "none" */
} lac__parse;

/* A field of the body with its reader. Readers return false with the problem set. JSON null never
 * reaches them: it means the same as leaving the field out. */
typedef struct lac__field lac__field;
struct lac__field {
    const char *name;
    unsigned kinds; /* lac__api_kind bits */
    bool (*read)(lac__parse *parse, const lac__field *field, const json_t *value);
    size_t offset;    /* of a number or bool in lac_sampling */
    double low, high; /* range of a number */
    bool above_low;   /* the low end itself is not allowed */
};

/* NULL when the API has no such field. */
const lac__field *lac__field_find(const char *name, lac__api_kind kind);

/* "a string", "an object", … for error texts. */
const char *lac__json_kind(const json_t *value);
/* Sets "name is KIND, allowed WHAT". */
bool lac__bad_type(lac__parse *parse, const char *name, const json_t *value, const char *allowed);
/* Copies a string's bytes into the request's own text. */
lac_span lac__keep_text(lac__parse *parse, const char *text, size_t length);

/* In api_input.c. */
bool lac__read_messages(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_format(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_prompt(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_suffix(lac__parse *parse, const lac__field *field, const json_t *value);

bool lac__read_ids(lac__parse *parse, const lac__field *field, const json_t *value);

/* In api_responses.c: the body of /v1/responses becomes that of a chat, in *body. */
bool lac__response_to_chat(lac__parse *parse, json_t **body);

/* In api_tools.c. */
bool lac__read_tools(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_tool_choice(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_parallel(lac__parse *parse, const lac__field *field, const json_t *value);
bool lac__read_template_kwargs(lac__parse *parse, const lac__field *field, const json_t *value);
/* An assistant's calls of a message; `path` is the message's. */
bool lac__read_calls(lac__parse *parse, const char *path, const json_t *value, lac_span *out);
/* What tools, tool_choice and response_format say together. */
bool lac__check_tools(lac__parse *parse);

#endif
