/* JSON body → lac_submit: the frame around the field table and the checks across fields. Pure, any
 * thread. Must not know HTTP or the loop. */
#include "api_parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "json_scan.h"

const char *lac__json_kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a fractional number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    default: return "null";
    }
}

bool lac__bad_type(lac__parse *parse, const char *name, const json_t *value, const char *allowed)
{
    return lac__problem_set(parse->problem, 400, "invalid_type", name, "%s is %s, allowed %s", name,
                            lac__json_kind(value), allowed);
}

lac_span lac__keep_text(lac__parse *parse, const char *text, size_t length)
{
    lac__api_request *out = parse->out;
    if (length == 0)
        return (lac_span){0};
    /* A decoded string is never longer than its JSON text, so all of them fit in the body's size.
     */
    LAC_ASSERT(length <= out->text_size - out->text_length);
    char *at = out->text + out->text_length;
    memcpy(at, text, length);
    out->text_length += length;
    return (lac_span){.data = at, .length = (uint32_t)length};
}

/* A response's body was made into a chat's before. */
static bool read_fields(lac__parse *parse, json_t *body)
{
    lac__api_kind kind = parse->out->kind;
    kind = kind == LAC__API_RESPONSE ? LAC__API_CHAT : kind;
    const char *name;
    json_t *value;
    json_object_foreach(body, name, value)
    {
        const lac__field *field = lac__field_find(name, kind);
        if (!field)
            return lac__problem_set(parse->problem, 400, "unknown_parameter", name,
                                    "unknown parameter \"%.100s\"", name);
        if (!json_is_null(value) && !field->read(parse, field, value))
            return false;
    }
    return true;
}

/* The prompt comes back as the text it was given as, in one piece. */
static bool check_echo(lac__parse *parse)
{
    const lac_submit *submit = &parse->out->submit;
    if (submit->prompt.kind != LAC_PROMPT_TEXT)
        return lac__problem_set(parse->problem, 400, "unsupported_parameter", "echo",
                                "echo is true and prompt is token ids, allowed only with text");
    if (submit->sampling.logprobs)
        return lac__problem_set(parse->problem, 400, "unsupported_parameter", "echo",
                                "echo and logprobs are given, but the prompt's tokens are not "
                                "scored: allowed only one of them");
    if (submit->prompt.text.length > LAC_PENDING_TEXT_MAX / 2)
        return lac__problem_set(parse->problem, 400, "invalid_value", "echo",
                                "prompt is %u bytes, allowed at most %d with echo",
                                submit->prompt.text.length, LAC_PENDING_TEXT_MAX / 2);
    return true;
}

/* What no single field can say. */
static bool check_together(lac__parse *parse)
{
    lac__api_request *out = parse->out;
    lac_sampling *s = &out->submit.sampling;
    const char *input = out->kind == LAC__API_CHAT         ? "messages"
                        : out->kind == LAC__API_RESPONSE   ? "input"
                        : out->kind == LAC__API_DETOKENIZE ? "tokens"
                                                           : "prompt";
    if (!parse->has_input)
        return lac__problem_set(parse->problem, 400, "missing_parameter", input, "%s is missing",
                                input);
    if (parse->has_max_completion_tokens) {
        if (parse->has_max_tokens && s->max_tokens != parse->max_completion_tokens)
            return lac__problem_set(parse->problem, 400, "invalid_value", "max_tokens",
                                    "max_tokens is %u and max_completion_tokens is %u, "
                                    "allowed only one of them or equal values",
                                    s->max_tokens, parse->max_completion_tokens);
        s->max_tokens = parse->max_completion_tokens;
    }
    if (s->max_tokens > 0 && s->min_tokens > s->max_tokens)
        return lac__problem_set(parse->problem, 400, "invalid_value", "min_tokens",
                                "min_tokens is %u, allowed at most max_tokens, which is %u",
                                s->min_tokens, s->max_tokens);
    if (parse->has_top_logprobs && s->top_logprobs > 0 && !s->logprobs)
        return lac__problem_set(parse->problem, 400, "invalid_value", "top_logprobs",
                                "top_logprobs is %u, allowed only with logprobs true",
                                s->top_logprobs);
    if (parse->has_stream_options && !out->stream)
        return lac__problem_set(parse->problem, 400, "invalid_value", "stream_options",
                                "stream_options is given, allowed only with stream true");
    if (parse->best_of > 0 && parse->best_of != out->choices)
        return lac__problem_set(parse->problem, 400, "invalid_value", "best_of",
                                "best_of is %u, allowed only the value of n, which is %u: all are "
                                "returned",
                                parse->best_of, out->choices);
    if (out->submit.echo && !check_echo(parse))
        return false;
    const lac_prompt *prompt = &out->submit.prompt;
    if (prompt->suffix.length && (prompt->kind != LAC_PROMPT_TEXT || out->submit.echo))
        return lac__problem_set(
            parse->problem, 400, "invalid_value", "suffix",
            "suffix is given, allowed only with a text prompt and without echo");
    if (!lac__check_tools(parse))
        return false;
    lac_error error = {0};
    if (lac_sampling_check(s, 0, &error) != LAC_OK)
        return lac__problem_set(parse->problem, 400, "invalid_value", NULL, "%s", error.text);
    return true;
}

static json_t *load(const char *body, size_t length, lac__problem *problem)
{
    if (length == 0) {
        lac__problem_set(problem, 400, "invalid_json", NULL,
                         "body is empty, allowed a JSON object");
        return NULL;
    }
    if (!lac__json_scan(body, length, problem))
        return NULL;
    json_error_t error;
    json_t *json = json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) {
        lac__problem_set(problem, 400, "invalid_json", NULL,
                         "body is not valid JSON: %s at line %d", error.text, error.line);
        return NULL;
    }
    if (!json_is_object(json)) {
        lac__problem_set(problem, 400, "invalid_json", NULL, "body is %s, allowed an object",
                         lac__json_kind(json));
        json_decref(json);
        return NULL;
    }
    return json;
}

bool lac__api_parse(lac__api_kind kind, const char *body, size_t length, lac__api_request *out,
                    lac__problem *problem)
{
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->choices = 1;
    out->submit.sampling = lac_sampling_default();
    json_t *json = load(body, length, problem);
    if (!json)
        return false;
    lac__parse parse = {.out = out, .problem = problem};
    out->submit.prompt.want = kind == LAC__API_TOKENIZE     ? LAC_WANT_TOKENS
                              : kind == LAC__API_DETOKENIZE ? LAC_WANT_TEXT_OF_IDS
                                                            : LAC_WANT_TEXT;
    bool good = false;
    out->text_size = length;
    out->text = lac_try_alloc(length, 1);
    if (!out->text)
        lac__problem_set(problem, 503, "out_of_memory", NULL, "no memory for a body of %zu bytes",
                         length);
    else
        good = (kind != LAC__API_RESPONSE || lac__response_to_chat(&parse, &json)) &&
               read_fields(&parse, json) && check_together(&parse);
    json_decref(json);
    if (!good)
        lac__api_free(out);
    return good;
}

void lac__api_free(lac__api_request *request)
{
    for (uint32_t i = 0; request->messages && i < request->submit.prompt.messages_count; i++)
        free((void *)request->messages[i].calls.data);
    free(request->text);
    free(request->messages);
    free(request->tools);
    free(request->echo);
    free(request->ids);
    free(request->bias);
    free(request->grammar);
    memset(request, 0, sizeof *request);
}
