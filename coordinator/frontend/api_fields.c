/* The table of every parameter this API knows, with the range of each number, and the readers of
 * all but the input. Pure, any thread.
 *
 * The rule for parameters: those in the table are honoured; those marked `ignored` cannot change
 * the answer and are accepted; those marked `refused` would change it and are refused by name
 * unless they hold the value that asks for nothing; any other name is unknown and refused. */
#include "api_parse.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"

static void *at(lac__parse *parse, const lac__field *field)
{
    return (char *)&parse->out->submit.sampling + field->offset;
}

static bool out_of_range(lac__parse *parse, const lac__field *field, double value)
{
    return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                            "%s is %.17g, allowed %s%.10g..%.10g", field->name, value,
                            field->above_low ? "above " : "", field->low, field->high);
}

static bool in_range(const lac__field *field, double value)
{
    return value >= field->low && value <= field->high &&
           !(field->above_low && value == field->low);
}

static bool read_float(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_number(value))
        return lac__bad_type(parse, field->name, value, "a number");
    double number = json_number_value(value);
    if (!in_range(field, number))
        return out_of_range(parse, field, number);
    float narrow = (float)number;
    /* A positive number too small for a float must not turn into the low end it was kept from. */
    *(float *)at(parse, field) = field->above_low && narrow <= 0 ? 1e-30f : narrow;
    return true;
}

static bool integer(lac__parse *parse, const lac__field *field, const json_t *value, int64_t *out)
{
    if (!json_is_integer(value))
        return lac__bad_type(parse, field->name, value, "an integer");
    int64_t number = json_integer_value(value);
    if (!in_range(field, (double)number))
        return out_of_range(parse, field, (double)number);
    *out = number;
    return true;
}

static bool read_count(lac__parse *parse, const lac__field *field, const json_t *value)
{
    int64_t number;
    if (!integer(parse, field, value, &number))
        return false;
    *(uint32_t *)at(parse, field) = (uint32_t)number;
    return true;
}

static bool boolean(lac__parse *parse, const lac__field *field, const json_t *value, bool *out)
{
    if (!json_is_boolean(value))
        return lac__bad_type(parse, field->name, value, "true or false");
    *out = json_is_true(value);
    return true;
}

static bool read_bool(lac__parse *parse, const lac__field *field, const json_t *value)
{
    return boolean(parse, field, value, at(parse, field));
}

static bool read_max_tokens(lac__parse *parse, const lac__field *field, const json_t *value)
{
    parse->has_max_tokens = true;
    return read_count(parse, field, value);
}

static bool read_max_completion(lac__parse *parse, const lac__field *field, const json_t *value)
{
    int64_t number;
    if (!integer(parse, field, value, &number))
        return false;
    parse->has_max_completion_tokens = true;
    parse->max_completion_tokens = (uint32_t)number;
    return true;
}

/* -1 is what other servers take for "off". */
static bool read_top_k(lac__parse *parse, const lac__field *field, const json_t *value)
{
    int64_t number;
    if (!integer(parse, field, value, &number))
        return false;
    *(int32_t *)at(parse, field) = number < 0 ? 0 : (int32_t)number;
    return true;
}

/* Any 64-bit integer; a negative one keeps its bits. */
static bool read_seed(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_integer(value))
        return lac__bad_type(parse, field->name, value, "a 64-bit integer");
    parse->out->submit.sampling.has_seed = true;
    parse->out->submit.sampling.seed = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_choices(lac__parse *parse, const lac__field *field, const json_t *value)
{
    int64_t number;
    if (!integer(parse, field, value, &number))
        return false;
    parse->out->choices = (uint32_t)number;
    return true;
}

static bool read_best_of(lac__parse *parse, const lac__field *field, const json_t *value)
{
    int64_t number;
    if (!integer(parse, field, value, &number))
        return false;
    parse->best_of = (uint32_t)number;
    return true;
}

static bool read_model(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_string(value))
        return lac__bad_type(parse, field->name, value, "a string");
    const char *name = json_string_value(value);
    size_t length = json_string_length(value);
    if (length < 1 || length > LAC_MODEL_NAME_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", "model",
                                "model is %zu bytes long, allowed 1..%d", length,
                                LAC_MODEL_NAME_MAX);
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (strspn(name, letters) != length)
        return lac__problem_set(parse->problem, 404, "model_not_found", "model",
                                "model is \"%s\", names here hold only A-Z a-z 0-9 . _ -", name);
    snprintf(parse->out->submit.model, sizeof parse->out->submit.model, "%s", name);
    return true;
}

static bool read_stop_string(lac__parse *parse, const json_t *value)
{
    lac_sampling *s = &parse->out->submit.sampling;
    if (!json_is_string(value))
        return lac__bad_type(parse, "stop", value, "a string or an array of strings");
    size_t length = json_string_length(value);
    if (length < 1 || length > LAC_STOP_BYTES_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", "stop",
                                "stop holds a string of %zu bytes, allowed 1..%d", length,
                                LAC_STOP_BYTES_MAX);
    lac_stop *stop = &s->stops[s->stops_count++];
    stop->length = (uint32_t)length;
    memcpy(stop->bytes, json_string_value(value), length);
    return true;
}

static bool read_stop(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_array(value))
        return read_stop_string(parse, value);
    size_t count = json_array_size(value), index;
    if (count > LAC_STOPS_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "stop has %zu strings, allowed 0..%d", count, LAC_STOPS_MAX);
    json_t *entry;
    json_array_foreach(value, index, entry)
    {
        if (!read_stop_string(parse, entry))
            return false;
    }
    return true;
}

static bool read_bias(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_object(value))
        return lac__bad_type(parse, field->name, value, "an object of token id to bias");
    size_t count = json_object_size(value);
    if (count > LAC_LOGIT_BIAS_MAX)
        return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                "logit_bias has %zu entries, allowed 0..%d", count,
                                LAC_LOGIT_BIAS_MAX);
    if (count == 0)
        return true;
    lac__api_request *out = parse->out;
    lac_sampling *s = &out->submit.sampling;
    out->bias = lac_alloc(count, sizeof *out->bias);
    const char *name;
    json_t *bias;
    json_object_foreach((json_t *)value, name, bias)
    {
        int64_t token;
        if (!lac_parse_i64(name, 0, LAC_VOCAB_MAX - 1, &token))
            return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                    "logit_bias has the key \"%.40s\", allowed token ids 0..%d",
                                    name, LAC_VOCAB_MAX - 1);
        double number = json_number_value(bias);
        if (!json_is_number(bias) || !(number >= -100 && number <= 100))
            return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                                    "logit_bias[\"%.40s\"] is %s %g, allowed numbers -100..100",
                                    name, lac__json_kind(bias), number);
        out->bias[s->bias_count++] = (lac_logit_bias){(uint32_t)token, (float)number};
    }
    s->bias = out->bias;
    return true;
}

/* Chat: a switch, the count being top_logprobs. */
static bool read_top_logprobs(lac__parse *parse, const lac__field *field, const json_t *value)
{
    parse->has_top_logprobs = true;
    return read_count(parse, field, value);
}

/* Completions: the count of others, 0 meaning the chosen token alone. */
static bool read_logprobs_count(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!read_count(parse, field, value))
        return false;
    parse->out->submit.sampling.logprobs = true;
    return true;
}

static bool read_stream(lac__parse *parse, const lac__field *field, const json_t *value)
{
    return boolean(parse, field, value, &parse->out->stream);
}

static bool read_echo(lac__parse *parse, const lac__field *field, const json_t *value)
{
    return boolean(parse, field, value, &parse->out->submit.echo);
}

/* What the model's file says about a text's beginning is done, unless this is false. */
static bool read_add_special(lac__parse *parse, const lac__field *field, const json_t *value)
{
    bool add = true;
    if (!boolean(parse, field, value, &add))
        return false;
    parse->out->submit.prompt.without_bos = !add;
    return true;
}

static bool read_stream_options(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (!json_is_object(value))
        return lac__bad_type(parse, field->name, value, "an object");
    parse->has_stream_options = true;
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)value, name, member)
    {
        bool usage = strcmp(name, "include_usage") == 0;
        if (!usage && strcmp(name, "include_obfuscation") != 0)
            return lac__problem_set(parse->problem, 400, "unknown_parameter", "stream_options",
                                    "stream_options.%.40s is unknown, allowed include_usage", name);
        if (!json_is_boolean(member) && !json_is_null(member))
            return lac__bad_type(parse, usage ? "stream_options.include_usage" : field->name,
                                 member, "true or false");
        if (usage)
            parse->out->include_usage = json_is_true(member);
    }
    return true;
}

/* OpenAI's names; what each means here is in the README. */
static bool read_service(lac__parse *parse, const lac__field *field, const json_t *value)
{
    static const struct {
        const char *name;
        lac_service service;
    } names[] = {{"auto", LAC_SERVICE_AUTO},
                 {"scale", LAC_SERVICE_AUTO},
                 {"default", LAC_SERVICE_STANDARD},
                 {"flex", LAC_SERVICE_FLEX},
                 {"priority", LAC_SERVICE_PRIORITY}};
    if (!json_is_string(value))
        return lac__bad_type(parse, field->name, value, "a string");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(json_string_value(value), names[i].name)) {
            parse->out->submit.service = names[i].service;
            return true;
        }
    return lac__problem_set(parse->problem, 400, "invalid_value", field->name,
                            "service_tier is \"%.40s\", allowed: auto, default, flex, priority, "
                            "scale",
                            json_string_value(value));
}

static bool read_ignored(lac__parse *parse, const lac__field *field, const json_t *value)
{
    (void)parse, (void)field, (void)value;
    return true;
}

/* An empty list, false, "none", "text", … ask for nothing beyond what is served. */
static bool asks_for_nothing(const char *name, const json_t *value)
{
    if (json_is_array(value) && json_array_size(value) == 0)
        return true;
    if (json_is_array(value) && json_array_size(value) == 1 && strcmp(name, "modalities") == 0)
        value = json_array_get(value, 0);
    if (json_is_false(value))
        return true;
    if (!json_is_string(value))
        return false;
    const char *text = json_string_value(value);
    static const char *const nothing[][2] = {{"modalities", "text"}, {"function_call", "none"}};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        if (strcmp(name, nothing[i][0]) == 0 && strcmp(text, nothing[i][1]) == 0)
            return true;
    return false;
}

static bool read_refused(lac__parse *parse, const lac__field *field, const json_t *value)
{
    if (asks_for_nothing(field->name, value))
        return true;
    return lac__problem_set(parse->problem, 400, "unsupported_parameter", field->name,
                            "%s is given, this server does not support it", field->name);
}

#define CHAT       LAC__API_CHAT
#define COMPLETION LAC__API_COMPLETION
#define BOTH       (LAC__API_CHAT | LAC__API_COMPLETION)
#define TOKENIZE   LAC__API_TOKENIZE
#define DETOKENIZE LAC__API_DETOKENIZE
#define IN(member) offsetof(lac_sampling, member)

static const lac__field fields[] = {
    /* name, APIs, reader, where, low, high, low excluded */
    {"model", BOTH | TOKENIZE | DETOKENIZE, read_model, 0, 0, 0, false},
    {"messages", CHAT | TOKENIZE, lac__read_messages, 0, 0, 0, false},
    {"prompt", COMPLETION | TOKENIZE, lac__read_prompt, 0, 0, 0, false},
    {"content", TOKENIZE, lac__read_prompt, 0, 0, 0, false},
    {"tokens", DETOKENIZE, lac__read_ids, 0, 0, 0, false},
    {"add_special_tokens", TOKENIZE, read_add_special, 0, 0, 0, false},
    {"add_special", TOKENIZE, read_add_special, 0, 0, 0, false},
    {"max_tokens", BOTH, read_max_tokens, IN(max_tokens), 1, LAC_CONTEXT_MAX, false},
    {"max_completion_tokens", CHAT, read_max_completion, 0, 1, LAC_CONTEXT_MAX, false},
    {"min_tokens", BOTH, read_count, IN(min_tokens), 0, LAC_CONTEXT_MAX, false},
    {"temperature", BOTH, read_float, IN(temperature), 0, 2, false},
    {"top_p", BOTH, read_float, IN(top_p), 0, 1, true},
    {"min_p", BOTH, read_float, IN(min_p), 0, 1, false},
    {"top_k", BOTH, read_top_k, IN(top_k), -1, LAC_VOCAB_MAX, false},
    {"repetition_penalty", BOTH, read_float, IN(repetition_penalty), 0, 2, true},
    {"repeat_penalty", BOTH, read_float, IN(repetition_penalty), 0, 2, true},
    {"presence_penalty", BOTH, read_float, IN(presence_penalty), -2, 2, false},
    {"frequency_penalty", BOTH, read_float, IN(frequency_penalty), -2, 2, false},
    {"seed", BOTH, read_seed, 0, 0, 0, false},
    {"ignore_eos", BOTH, read_bool, IN(ignore_eos), 0, 0, false},
    {"stop", BOTH, read_stop, 0, 0, 0, false},
    {"logit_bias", BOTH, read_bias, 0, 0, 0, false},
    {"logprobs", CHAT, read_bool, IN(logprobs), 0, 0, false},
    {"logprobs", COMPLETION, read_logprobs_count, IN(top_logprobs), 0, LAC_TOP_LOGPROBS_MAX, false},
    {"top_logprobs", CHAT, read_top_logprobs, IN(top_logprobs), 0, LAC_TOP_LOGPROBS_MAX, false},
    {"n", BOTH, read_choices, 0, 1, LAC_CHOICES_MAX, false},
    {"best_of", COMPLETION, read_best_of, 0, 1, LAC_CHOICES_MAX, false},
    {"echo", COMPLETION, read_echo, 0, 0, 0, false},
    {"response_format", BOTH, lac__read_format, 0, 0, 0, false},
    {"tools", CHAT | TOKENIZE, lac__read_tools, 0, 0, 0, false},
    {"tool_choice", CHAT, lac__read_tool_choice, 0, 0, 0, false},
    {"parallel_tool_calls", CHAT, lac__read_parallel, 0, 0, 0, false},
    {"chat_template_kwargs", CHAT | TOKENIZE, lac__read_template_kwargs, 0, 0, 0, false},
    {"suffix", COMPLETION, lac__read_suffix, 0, 0, 0, false},
    {"stream", BOTH, read_stream, 0, 0, 0, false},
    {"stream_options", BOTH, read_stream_options, 0, 0, 0, false},
    {"service_tier", BOTH, read_service, 0, 0, 0, false},
    /* They change nothing in the answer. */
    {"user", BOTH, read_ignored, 0, 0, 0, false},
    {"metadata", BOTH, read_ignored, 0, 0, 0, false},
    {"store", BOTH, read_ignored, 0, 0, 0, false},
    {"prompt_cache_key", BOTH, read_ignored, 0, 0, 0, false},
    {"prompt_cache_retention", BOTH, read_ignored, 0, 0, 0, false},
    {"safety_identifier", BOTH, read_ignored, 0, 0, 0, false},
    {"cache_prompt", BOTH, read_ignored, 0, 0, 0, false},
    /* They would, and are not served. */
    {"functions", CHAT, read_refused, 0, 0, 0, false},
    {"function_call", CHAT, read_refused, 0, 0, 0, false},
    {"modalities", CHAT, read_refused, 0, 0, 0, false},
    {"audio", CHAT, read_refused, 0, 0, 0, false},
    {"prediction", CHAT, read_refused, 0, 0, 0, false},
    {"reasoning_effort", CHAT, read_refused, 0, 0, 0, false},
    {"verbosity", CHAT, read_refused, 0, 0, 0, false},
    {"web_search_options", CHAT, read_refused, 0, 0, 0, false},
    {"echo", CHAT, read_refused, 0, 0, 0, false},
};

const lac__field *lac__field_find(const char *name, lac__api_kind kind)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if ((fields[i].kinds & kind) && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}
