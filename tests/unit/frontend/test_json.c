/* Request bodies: what is understood, and 60-odd that are refused with the field named. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"

static lac__api_request good(lac__api_kind kind, const char *body)
{
    lac__api_request request;
    lac__problem problem = {0};
    bool ok = lac__api_parse(kind, body, strlen(body), &request, &problem);
    ck_assert_msg(ok, "%s", problem.message);
    return request;
}

START_TEST(test_all_parameters)
{
    lac__api_request r = good(
        LAC__API_CHAT,
        "{\"model\":\"tiny-1.0\",\"messages\":[{\"role\":\"developer\",\"content\":\"be brief\"},"
        "{\"role\":\"user\",\"name\":\"ann\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"a\\u0000\\u20ac\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":\"\"}],"
        "\"max_completion_tokens\":9,\"temperature\":0.5,\"top_p\":0.25,\"top_k\":-1,\"min_p\":0."
        "125,"
        "\"n\":1,\"stop\":[\"END\",\"\\n\"],\"seed\":-1,\"presence_penalty\":-2,"
        "\"frequency_penalty\":2,\"repeat_penalty\":1.5,\"logit_bias\":{\"17\":-100},\"logprobs\":"
        "true,"
        "\"top_logprobs\":20,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"ignore_eos\":true,\"min_tokens\":9,\"user\":\"u\",\"metadata\":{\"a\":1},\"store\":"
        "false,"
        "\"service_tier\":\"auto\",\"parallel_tool_calls\":true,\"tools\":[],\"tool_choice\":"
        "\"none\","
        "\"response_format\":{\"type\":\"text\"},\"modalities\":[\"text\"],\"max_tokens\":null}");
    const lac_sampling *s = &r.submit.sampling;
    ck_assert(r.stream && r.include_usage);
    ck_assert_str_eq(r.submit.model, "tiny-1.0");
    ck_assert_int_eq(r.submit.prompt.kind, LAC_PROMPT_CHAT);
    ck_assert_uint_eq(r.submit.prompt.messages_count, 3);
    ck_assert_str_eq(r.submit.prompt.messages[0].role, "system");
    lac_span content = r.submit.prompt.messages[1].content;
    ck_assert_uint_eq(content.length, 7);
    ck_assert(memcmp(content.data, "a\0\xe2\x82\xac\nb", 7) == 0);
    ck_assert_uint_eq(r.submit.prompt.messages[2].content.length, 0);
    ck_assert_uint_eq(s->max_tokens, 9);
    ck_assert_uint_eq(s->min_tokens, 9);
    ck_assert_float_eq(s->temperature, 0.5f);
    ck_assert_float_eq(s->top_p, 0.25f);
    ck_assert_int_eq(s->top_k, 0);
    ck_assert_float_eq(s->min_p, 0.125f);
    ck_assert_float_eq(s->presence_penalty, -2.0f);
    ck_assert_float_eq(s->frequency_penalty, 2.0f);
    ck_assert_float_eq(s->repetition_penalty, 1.5f);
    ck_assert(s->has_seed && s->seed == UINT64_MAX);
    ck_assert(s->ignore_eos && s->logprobs);
    ck_assert_uint_eq(s->top_logprobs, 20);
    ck_assert_uint_eq(s->stops_count, 2);
    ck_assert_uint_eq(s->stops[1].length, 1);
    ck_assert_uint_eq(s->bias_count, 1);
    ck_assert_uint_eq(s->bias[0].token, 17);
    lac__api_free(&r);
}
END_TEST

START_TEST(test_formats)
{
    static const struct {
        const char *format, *schema;
    } cases[] = {
        {"{\"type\":\"text\"}", ""},
        {"{\"type\":\"json_object\"}", "{\"type\":\"object\"}"},
        {"{\"type\":\"json_object\", \"schema\": {\"type\": \"array\"}}", "{\"type\":\"array\"}"},
        {"{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"strict\":true,\"schema\":"
         "{\"properties\":{\"z\":{},\"a\":{}}}}}",
         "{\"properties\":{\"z\":{},\"a\":{}}}"}, /* in the order given */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac_buf body = {0};
        lac_buf_printf(&body, "{" HI ",\"response_format\":%s,\"n\":8}", cases[i].format);
        lac__api_request r = good(LAC__API_CHAT, body.data);
        const lac_sampling *s = &r.submit.sampling;
        ck_assert_uint_eq(r.choices, 8);
        ck_assert_uint_eq(s->grammar_length, strlen(cases[i].schema));
        ck_assert(memcmp(s->grammar ? s->grammar : "", cases[i].schema, s->grammar_length) == 0);
        lac__api_free(&r);
        lac_buf_free(&body);
    }
}
END_TEST

START_TEST(test_prompts)
{
    lac__api_request r =
        good(LAC__API_COMPLETION, "{\"prompt\":\"abc\",\"logprobs\":0,\"echo\":false}");
    ck_assert_int_eq(r.submit.prompt.kind, LAC_PROMPT_TEXT);
    ck_assert_uint_eq(r.submit.prompt.text.length, 3);
    ck_assert(r.submit.sampling.logprobs);
    ck_assert_float_eq(r.submit.sampling.temperature, 1.0f);
    lac__api_free(&r);
    r = good(LAC__API_COMPLETION, "{\"prompt\":[\"one\"],\"suffix\":\"\",\"stop\":\"x\"}");
    ck_assert_int_eq(r.submit.prompt.kind, LAC_PROMPT_TEXT);
    ck_assert_uint_eq(r.submit.sampling.stops_count, 1);
    ck_assert(!r.submit.sampling.has_seed);
    lac__api_free(&r);
    ck_assert(!r.submit.echo);
    lac__api_free(&r);
    r = good(LAC__API_COMPLETION, "{\"prompt\":\"a\",\"echo\":true}");
    ck_assert(r.submit.echo);
    lac__api_free(&r);
    r = good(LAC__API_COMPLETION, "{\"prompt\":[1,2,1048575]}");
    ck_assert_int_eq(r.submit.prompt.kind, LAC_PROMPT_IDS);
    ck_assert_uint_eq(r.submit.prompt.ids_count, 3);
    ck_assert_uint_eq(r.submit.prompt.ids[2], 1048575);
    lac__api_free(&r);
}
END_TEST

#define TOOL(name, parameters)                                                                     \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"" name                             \
    "\",\"parameters\":" parameters "}}]"

/* { API, body, status, param (NULL = null), text of the message }. */
static const struct {
    lac__api_kind kind;
    const char *body;
    int status;
    const char *param, *says;
} bad[] = {
    {LAC__API_CHAT, "", 400, NULL, "body is empty"},
    {LAC__API_CHAT, "{", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "[]", 400, NULL, "body is an array"},
    {LAC__API_CHAT, "null", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{} {}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{" HI ",}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{'a':1}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"user\":\"\xff\"}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"user\":\"\\ud800\"}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"seed\":1e999}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"seed\":NaN}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"seed\":01}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"seed\":99999999999999999999}", 400, NULL, "not valid JSON"},
    {LAC__API_CHAT, "{\"seed\":1,\"seed\":2}", 400, NULL, "duplicate object key near '\"seed\"'"},
    {LAC__API_CHAT, "{}", 400, "messages", "messages is missing"},
    {LAC__API_CHAT, "{\"messages\":null}", 400, "messages", "messages is missing"},
    {LAC__API_CHAT, "{\"messages\":\"hi\"}", 400, "messages", "messages is a string"},
    {LAC__API_CHAT, "{\"messages\":[]}", 400, "messages",
     "messages has 0 entries, allowed 1..1024"},
    {LAC__API_CHAT, "{\"messages\":[1]}", 400, "messages[0]", "messages[0] is an integer"},
    {LAC__API_CHAT, "{\"messages\":[{}]}", 400, "messages[0].role", "messages[0].role is missing"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":1}]}", 400, "messages[0].role", "is an integer"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"wizard\",\"content\":\"\"}]}", 400,
     "messages[0].role",
     "messages[0].role is \"wizard\", allowed system, developer, user, assistant, tool"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}", 400,
     "messages[0].tool_call_id", "messages[0].tool_call_id is missing"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content",
     "is missing"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":7}]}", 400,
     "messages[0].content", "messages[0].content is an integer"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", 400,
     "messages[0].content", "messages[0].content is null"},
    {LAC__API_CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
     400, "messages[0].content[0]", "type is \"image_url\", allowed only \"text\""},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", 400,
     "messages[0].content[0]", "has no string"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\",\"tool_calls\":[1]}]}", 400,
     "messages[0]", "messages[0].tool_calls is given"},
    {LAC__API_CHAT, "{" HI ",\"model\":7}", 400, "model", "model is an integer"},
    {LAC__API_CHAT, "{" HI ",\"model\":\"\"}", 400, "model",
     "model is 0 bytes long, allowed 1..64"},
    {LAC__API_CHAT, "{" HI ",\"model\":\"../etc\"}", 404, "model", "model is \"../etc\""},
    {LAC__API_CHAT, "{" HI ",\"temperature\":2.5}", 400, "temperature",
     "temperature is 2.5, allowed 0..2"},
    {LAC__API_CHAT, "{" HI ",\"temperature\":-0.1}", 400, "temperature", "allowed 0..2"},
    {LAC__API_CHAT, "{" HI ",\"temperature\":\"1\"}", 400, "temperature",
     "temperature is a string, allowed a number"},
    {LAC__API_CHAT, "{" HI ",\"top_p\":0}", 400, "top_p", "top_p is 0, allowed above 0..1"},
    {LAC__API_CHAT, "{" HI ",\"top_p\":1.01}", 400, "top_p", "allowed above 0..1"},
    {LAC__API_CHAT, "{" HI ",\"top_k\":-2}", 400, "top_k", "top_k is -2, allowed -1..1048576"},
    {LAC__API_CHAT, "{" HI ",\"top_k\":1.5}", 400, "top_k",
     "a fractional number, allowed an integer"},
    {LAC__API_CHAT, "{" HI ",\"min_p\":2}", 400, "min_p", "min_p is 2, allowed 0..1"},
    {LAC__API_CHAT, "{" HI ",\"n\":9}", 400, "n", "n is 9, allowed 1..8"},
    {LAC__API_CHAT, "{" HI ",\"max_tokens\":0}", 400, "max_tokens",
     "max_tokens is 0, allowed 1..1048576"},
    {LAC__API_CHAT, "{" HI ",\"max_tokens\":1048577}", 400, "max_tokens", "allowed 1..1048576"},
    {LAC__API_CHAT, "{" HI ",\"max_tokens\":5,\"max_completion_tokens\":6}", 400, "max_tokens",
     "max_tokens is 5 and max_completion_tokens is 6"},
    {LAC__API_CHAT, "{" HI ",\"max_tokens\":5,\"min_tokens\":6}", 400, "min_tokens",
     "min_tokens is 6"},
    {LAC__API_CHAT, "{" HI ",\"seed\":\"x\"}", 400, "seed", "seed is a string"},
    {LAC__API_CHAT, "{" HI ",\"presence_penalty\":3}", 400, "presence_penalty", "allowed -2..2"},
    {LAC__API_CHAT, "{" HI ",\"frequency_penalty\":-2.1}", 400, "frequency_penalty",
     "allowed -2..2"},
    {LAC__API_CHAT, "{" HI ",\"repetition_penalty\":0}", 400, "repetition_penalty",
     "allowed above 0..2"},
    {LAC__API_CHAT, "{" HI ",\"stop\":\"\"}", 400, "stop", "string of 0 bytes, allowed 1..64"},
    {LAC__API_CHAT, "{" HI ",\"stop\":[1]}", 400, "stop", "stop is an integer"},
    {LAC__API_CHAT, "{" HI ",\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 400, "stop",
     "stop has 5 strings, allowed 0..4"},
    {LAC__API_CHAT, "{" HI ",\"logit_bias\":[]}", 400, "logit_bias", "logit_bias is an array"},
    {LAC__API_CHAT, "{" HI ",\"logit_bias\":{\"x\":1}}", 400, "logit_bias", "has the key \"x\""},
    {LAC__API_CHAT, "{" HI ",\"logit_bias\":{\"1048576\":1}}", 400, "logit_bias",
     "token ids 0..1048575"},
    {LAC__API_CHAT, "{" HI ",\"logit_bias\":{\"5\":101}}", 400, "logit_bias", "numbers -100..100"},
    {LAC__API_CHAT, "{" HI ",\"logprobs\":5}", 400, "logprobs", "logprobs is an integer"},
    {LAC__API_CHAT, "{" HI ",\"top_logprobs\":5}", 400, "top_logprobs", "only with logprobs true"},
    {LAC__API_CHAT, "{" HI ",\"logprobs\":true,\"top_logprobs\":21}", 400, "top_logprobs",
     "top_logprobs is 21, allowed 0..20"},
    {LAC__API_CHAT, "{" HI ",\"stream\":1}", 400, "stream", "stream is an integer"},
    {LAC__API_CHAT, "{" HI ",\"stream_options\":{\"include_usage\":true}}", 400, "stream_options",
     "allowed only with stream true"},
    {LAC__API_CHAT, "{" HI ",\"stream\":true,\"stream_options\":{\"x\":1}}", 400, "stream_options",
     "stream_options.x is unknown"},
    {LAC__API_CHAT, "{" HI ",\"tools\":{}}", 400, "tools", "tools is an object"},
    {LAC__API_CHAT, "{" HI ",\"tools\":[{}]}", 400, "tools[0].type",
     "tools[0].type is \"\", allowed only \"function\""},
    {LAC__API_CHAT, "{" HI ",\"tools\":[{\"type\":\"function\"}]}", 400, "tools[0].function",
     "is missing or no object"},
    {LAC__API_CHAT, "{" HI ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]}",
     400, "tools[0].function.name", "allowed 1..64 of A-Z"},
    {LAC__API_CHAT, "{" HI "," TOOL("a", "[]") "}", 400, "tools[0].function.parameters",
     "is an array, allowed a JSON Schema"},
    {LAC__API_CHAT, "{" HI ",\"tool_choice\":\"required\"}", 400, "tool_choice",
     "allowed only with tools"},
    {LAC__API_CHAT, "{" HI "," TOOL("a", "{}") ",\"tool_choice\":\"must\"}", 400, "tool_choice",
     "tool_choice is \"must\", allowed none, auto, required"},
    {LAC__API_CHAT,
     "{" HI "," TOOL("a", "{}") ",\"tool_choice\":{\"type\":\"function\",\"function\":"
                                "{\"name\":\"b\"}}}",
     400, "tool_choice", "names \"b\", which tools does not have"},
    {LAC__API_CHAT, "{" HI "," TOOL("a", "{}") ",\"response_format\":{\"type\":\"json_object\"}}",
     400, "response_format", "response_format and tools are both given"},
    {LAC__API_CHAT, "{" HI ",\"parallel_tool_calls\":1}", 400, "parallel_tool_calls",
     "is an integer"},
    {LAC__API_CHAT, "{" HI ",\"chat_template_kwargs\":{\"x\":1}}", 400, "chat_template_kwargs",
     "chat_template_kwargs.x is unknown, allowed enable_thinking"},
    {LAC__API_CHAT, "{" HI ",\"chat_template_kwargs\":{\"enable_thinking\":1}}", 400,
     "chat_template_kwargs.enable_thinking", "is an integer"},
    {LAC__API_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{}]}]}", 400,
     "messages[0].tool_calls[0].function.name", "is missing"},
    {LAC__API_CHAT,
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\",\"function\":"
     "{\"name\":\"f\",\"arguments\":\"[1]\"}}]}]}",
     400, "messages[0].tool_calls[0].function.arguments", "not the JSON text of an object"},
    {LAC__API_CHAT, "{" HI ",\"response_format\":{\"type\":\"xml\"}}", 400, "response_format",
     "response_format.type is \"xml\""},
    {LAC__API_CHAT, "{" HI ",\"response_format\":{\"type\":\"json_schema\"}}", 400,
     "response_format", "json_schema is missing"},
    {LAC__API_CHAT, "{" HI ",\"response_format\":{\"type\":\"text\",\"x\":1}}", 400,
     "response_format", "response_format.x is unknown"},
    {LAC__API_CHAT, "{" HI ",\"response_format\":{\"type\":\"json_object\"},\"ignore_eos\":true}",
     400, NULL, "ignore_eos is true"},
    {LAC__API_CHAT, "{" HI ",\"modalities\":[\"text\",\"audio\"]}", 400, "modalities", "is given"},
    {LAC__API_CHAT, "{" HI ",\"audio\":{}}", 400, "audio", "audio is given"},
    {LAC__API_CHAT, "{" HI ",\"prompt\":\"x\"}", 400, "prompt", "unknown parameter \"prompt\""},
    {LAC__API_CHAT, "{" HI ",\"temprature\":1}", 400, "temprature",
     "unknown parameter \"temprature\""},
    {LAC__API_COMPLETION, "{}", 400, "prompt", "prompt is missing"},
    {LAC__API_COMPLETION, "{\"prompt\":\"\"}", 400, "prompt", "prompt is empty"},
    {LAC__API_COMPLETION, "{\"prompt\":[]}", 400, "prompt", "prompt is an empty array"},
    {LAC__API_COMPLETION, "{\"prompt\":[\"a\",\"b\"]}", 400, "prompt", "prompt has 2 entries"},
    {LAC__API_COMPLETION, "{\"prompt\":[1,-1]}", 400, "prompt", "prompt[1] is an integer -1"},
    {LAC__API_COMPLETION, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "prompt[1] is a string"},
    {LAC__API_COMPLETION, "{\"prompt\":[[1]]}", 400, "prompt", "prompt is an array"},
    {LAC__API_COMPLETION, "{\"prompt\":{}}", 400, "prompt", "prompt is an object"},
    {LAC__API_CHAT, "{" HI ",\"echo\":true}", 400, "echo", "echo is given"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"echo\":1}", 400, "echo", "echo is an integer"},
    {LAC__API_COMPLETION, "{\"prompt\":[7],\"echo\":true}", 400, "echo", "prompt is token ids"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":0}", 400, "echo",
     "the prompt's tokens are not scored"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"best_of\":3}", 400, "best_of", "best_of is 3"},
    {LAC__API_COMPLETION, "{\"prompt\":[1],\"suffix\":\"b\"}", 400, "suffix", "suffix is given"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"suffix\":1}", 400, "suffix", "suffix is an integer"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":21}", 400, "logprobs", "allowed 0..20"},
    {LAC__API_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":true}", 400, "logprobs",
     "logprobs is true"},
    {LAC__API_COMPLETION, "{\"messages\":[]}", 400, "messages", "unknown parameter \"messages\""},
};

START_TEST(test_refused)
{
    harness h;
    harness_start(&h, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        reply r;
        post(&h, bad[i].kind == LAC__API_CHAT ? "/v1/chat/completions" : "/v1/completions",
             bad[i].body, &r);
        char param[96];
        snprintf(param, sizeof param, bad[i].param ? "\"param\":\"%s\"" : "\"param\":null%s",
                 bad[i].param ? bad[i].param : "");
        ck_assert_msg(r.status == bad[i].status, "case %zu: %d %s", i, r.status, r.body.data);
        ck_assert_msg(strstr(r.body.data, param), "case %zu, no %s: %s", i, param, r.body.data);
        lac_buf says = {0};
        lac_buf_json(&says, bad[i].says, strlen(bad[i].says));
        says.data[says.length - 1] = '\0';
        ck_assert_msg(strstr(r.body.data, says.data + 1), "case %zu, no %s: %s", i, bad[i].says,
                      r.body.data);
        lac_buf_free(&says);
        ck_assert_ptr_nonnull(strstr(r.body.data, "\"type\":\"invalid_request_error\""));
        reply_free(&r);
    }
    ck_assert_uint_eq(h.submits_count, 0);
    reply r;
    post(&h, "/v1/chat/completions", "{" HI "}", &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

static lac__problem refused(lac__api_kind kind, const lac_buf *body)
{
    lac__api_request request;
    lac__problem problem = {0};
    ck_assert(!lac__api_parse(kind, body->data, body->length, &request, &problem));
    return problem;
}

START_TEST(test_counts)
{
    /* Depth: at the bound and one beyond. */
    for (int depth = LAC_JSON_DEPTH_MAX; depth <= LAC_JSON_DEPTH_MAX + 1; depth++) {
        lac_buf body = {0};
        lac_buf_text(&body, "{\"metadata\":");
        for (int i = 1; i < depth; i++)
            lac_buf_text(&body, "[");
        for (int i = 1; i < depth; i++)
            lac_buf_text(&body, "]");
        lac_buf_text(&body, "}");
        lac__problem problem = refused(LAC__API_CHAT, &body);
        ck_assert_msg((strstr(problem.message, "deeper than 32") != NULL) ==
                          (depth > LAC_JSON_DEPTH_MAX),
                      "%s", problem.message);
        lac_buf_free(&body);
    }
    /* Brackets inside strings do not count. */
    lac__api_request r = good(LAC__API_COMPLETION,
                              "{\"prompt\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}");
    lac__api_free(&r);
    /* Values, messages, bias entries. */
    lac_buf body = {0};
    lac_buf_text(&body, "{\"prompt\":[1");
    for (int i = 0; i < LAC_JSON_VALUES_MAX; i++)
        lac_buf_text(&body, ",1");
    lac_buf_text(&body, "]}");
    ck_assert_ptr_nonnull(strstr(refused(LAC__API_COMPLETION, &body).message, "JSON values"));
    lac_buf_clear(&body);
    lac_buf_text(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}");
    for (int i = 0; i < LAC_MESSAGES_MAX; i++)
        lac_buf_text(&body, ",{\"role\":\"user\",\"content\":\"\"}");
    lac_buf_text(&body, "]}");
    ck_assert_ptr_nonnull(
        strstr(refused(LAC__API_CHAT, &body).message, "1025 entries, allowed 1..1024"));
    lac_buf_clear(&body);
    lac_buf_text(&body, "{" HI ",\"logit_bias\":{\"0\":1");
    for (int i = 1; i <= LAC_LOGIT_BIAS_MAX; i++)
        lac_buf_printf(&body, ",\"%d\":1", i);
    lac_buf_text(&body, "}}");
    ck_assert_ptr_nonnull(
        strstr(refused(LAC__API_CHAT, &body).message, "301 entries, allowed 0..300"));
    lac_buf_free(&body);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_all_parameters, test_formats, test_prompts,
                                  test_refused,        test_counts,  NULL};
    return run_suite("frontend json", tests);
}
