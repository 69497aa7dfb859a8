/* /v1/responses, /tokenize and /detokenize: what the core is asked, the objects and events that
 * come back, and what is refused by name. */
#include "harness.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

static bool parse(const char *body, lac__api_request *out, lac__problem *problem)
{
    return lac__api_parse(LAC__API_RESPONSE, body, strlen(body), out, problem);
}

static bool span_is(lac_span span, const char *text)
{
    return span.length == strlen(text) &&
           memcmp(span.data ? span.data : "", text, span.length) == 0;
}

START_TEST(test_bodies)
{
    lac__api_request r;
    lac__problem problem = {0};
    bool ok = parse(
        "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
        "{\"type\":\"input_text\",\"text\":\"b\"}]},{\"type\":\"reasoning\",\"summary\":[]},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"let me see\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"arguments\":\"{}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"r\"}],"
        "\"instructions\":\"be brief\",\"max_output_tokens\":9,\"store\":false,"
        "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{},\"strict\":true}],"
        "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"temperature\":0.5,"
        "\"metadata\":{\"a\":\"b\"},\"include\":[],\"truncation\":\"disabled\"}",
        &r, &problem);
    ck_assert_msg(ok, "%s", problem.message);
    const lac_prompt *p = &r.submit.prompt;
    ck_assert_uint_eq(p->messages_count, 4);
    ck_assert_str_eq(p->messages[0].role, "system");
    ck_assert(span_is(p->messages[0].content, "be brief") &&
              span_is(p->messages[1].content, "a\nb"));
    ck_assert(span_is(p->messages[2].content, "let me see"));
    ck_assert_ptr_nonnull(memmem(p->messages[2].calls.data, p->messages[2].calls.length, "c2", 2));
    ck_assert_str_eq(p->messages[3].role, "tool");
    ck_assert_str_eq(p->tool_name, "f");
    ck_assert_uint_eq(r.submit.sampling.max_tokens, 9);
    ck_assert_ptr_nonnull(strstr(r.echo, "\"instructions\":\"be brief\""));
    ck_assert_ptr_nonnull(strstr(r.echo, "\"metadata\":{\"a\":\"b\"}"));
    lac__api_free(&r);
}
END_TEST

static const struct {
    const char *body, *param, *says;
} bad[] = {
    {"{}", "input", "input is missing"},
    {"{\"input\":[]}", "input", "no array of 1 or more"},
    {"{\"input\":[1]}", "input[0]", "is no object"},
    {"{\"input\":[{\"role\":\"user\"}]}", "input[0]", "no content"},
    {"{\"input\":[{\"type\":\"computer_call\"}]}", "input[0]", "unknown type, allowed message"},
    {"{\"input\":[{\"type\":\"function_call\"}]}", "input[0]", "no call_id, name or arguments"},
    {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
     "messages[0].content[0]", "allowed only \"text\""},
    {"{\"input\":\"x\",\"store\":true}", "store", "this server keeps no responses"},
    {"{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "previous_response_id",
     "it keeps no responses"},
    {"{\"input\":\"x\",\"background\":true}", "background", "does not support it"},
    {"{\"input\":\"x\",\"reasoning\":{\"effort\":\"high\"}}", "reasoning", "does not support it"},
    {"{\"input\":\"x\",\"messages\":[]}", "messages", "unknown parameter"},
    {"{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0].type",
     "allowed only \"function\""},
    {"{\"input\":\"x\",\"max_output_tokens\":0}", "max_completion_tokens", "allowed 1.."},
    {"{\"input\":\"x\",\"text\":{\"verbosity\":\"low\"}}", "text", "members other than format"},
};

START_TEST(test_bad_bodies)
{
    lac__api_request r;
    lac__problem problem = {0};
    ck_assert(!parse(bad[_i].body, &r, &problem));
    ck_assert_int_eq(problem.http, 400);
    ck_assert_str_eq(problem.param, bad[_i].param);
    ck_assert_msg(strstr(problem.message, bad[_i].says) != NULL, "%s", problem.message);
}
END_TEST

static const char *const pieces[] = {"\x10rHm\x10"
                                     "cSo",
                                     " it is.\x10",
                                     "nf\x10"
                                     "a{\"a\"",
                                     ": 1}", NULL};

static json_t *load(const reply *r)
{
    json_t *body = json_loadb(r->body.data, r->body.length, 0, NULL);
    ck_assert_msg(body != NULL, "%.*s", (int)r->body.length, r->body.data);
    return body;
}

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static const json_t *output(const json_t *response, size_t index)
{
    return json_array_get(json_object_get(response, "output"), index);
}

static void check_output(const json_t *response)
{
    ck_assert_uint_eq(json_array_size(json_object_get(response, "output")), 3);
    ck_assert_str_eq(text_at(output(response, 0), "type"), "reasoning");
    const json_t *content = json_object_get(output(response, 1), "content");
    ck_assert_str_eq(text_at(json_array_get(content, 0), "text"), "So it is.");
    ck_assert_str_eq(text_at(output(response, 2), "type"), "function_call");
    ck_assert_str_eq(text_at(output(response, 2), "name"), "f");
    ck_assert_str_eq(text_at(output(response, 2), "arguments"), "{\"a\": 1}");
    ck_assert_uint_eq(strlen(text_at(output(response, 2), "call_id")), 9);
    ck_assert_int_eq(
        json_integer_value(json_object_get(json_object_get(response, "usage"), "input_tokens")),
        11);
}

START_TEST(test_whole)
{
    harness h;
    reply r;
    harness_start(&h, NULL);
    h.pieces = pieces;
    post(&h, "/v1/responses", "{\"input\":\"hi\"}", &r);
    ck_assert_int_eq(r.status, 200);
    json_t *response = load(&r);
    ck_assert_str_eq(text_at(response, "object"), "response");
    ck_assert_str_eq(text_at(response, "status"), "completed");
    ck_assert_int_eq(strncmp(text_at(response, "id"), "resp-", 5), 0);
    check_output(response);
    json_decref(response);
    reply_free(&r);
    h.finish = LAC_FINISH_LENGTH;
    post(&h, "/v1/responses", "{\"input\":\"hi\"}", &r);
    response = load(&r);
    ck_assert_str_eq(text_at(response, "status"), "incomplete");
    ck_assert_str_eq(text_at(json_object_get(response, "incomplete_details"), "reason"),
                     "max_output_tokens");
    json_decref(response);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_events)
{
    static const char *const order[] = {"created",
                                        "in_progress",
                                        "output_item.added",
                                        "content_part.added",
                                        "reasoning_text.delta",
                                        "reasoning_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "content_part.added",
                                        "output_text.delta",
                                        "output_text.done",
                                        "content_part.done",
                                        "output_item.done",
                                        "output_item.added",
                                        "function_call_arguments.delta",
                                        "function_call_arguments.done",
                                        "output_item.done",
                                        "completed"};
    harness h;
    reply r;
    harness_start(&h, NULL);
    h.pieces = pieces;
    post(&h, "/v1/responses", "{\"input\":\"hi\",\"stream\":true}", &r);
    ck_assert_int_eq(r.status, 200);
    size_t count = 0;
    for (char *at = r.body.data; (at = strstr(at, "event: response.")) != NULL; at++) {
        char *data = strstr(at, "\ndata: {");
        const char *type = order[count];
        ck_assert_uint_lt(count, sizeof order / sizeof *order);
        ck_assert_msg(strncmp(at + 16, type, strlen(type)) == 0, "%zu: %.40s", count, at);
        json_t *event = json_loadb(data + 7, strcspn(data + 7, "\n"), 0, NULL);
        ck_assert_ptr_nonnull(event);
        ck_assert_str_eq(text_at(event, "type") + strlen("response."), type);
        ck_assert_int_eq(json_integer_value(json_object_get(event, "sequence_number")), (int)count);
        if (strcmp(type, "completed") == 0)
            check_output(json_object_get(event, "response"));
        if (strcmp(type, "function_call_arguments.done") == 0)
            ck_assert_str_eq(text_at(event, "arguments"), "{\"a\": 1}");
        json_decref(event);
        count++;
    }
    ck_assert_uint_eq(count, sizeof order / sizeof *order);
    ck_assert_ptr_null(strstr(r.body.data, "[DONE]"));
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_tokens)
{
    static const char *const ids[] = {"[1,22,333]", NULL}, *const text[] = {"a \"b\"", NULL};
    harness h;
    reply r;
    harness_start(&h, NULL);
    h.pieces = ids;
    post(&h, "/tokenize", "{\"prompt\":\"abc\",\"add_special_tokens\":false}", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.body.data, "{\"count\":11,\"model\":\"tiny\",\"tokens\":[1,22,333]}");
    reply_free(&r);
    h.pieces = text;
    post(&h, "/detokenize", "{\"tokens\":[1,2]}", &r);
    ck_assert_str_eq(r.body.data, "{\"prompt\":\"a \\\"b\\\"\",\"content\":\"a \\\"b\\\"\"}");
    reply_free(&r);
    post(&h, "/detokenize", "{\"tokens\":\"1\"}", &r);
    ck_assert_int_eq(r.status, 400);
    ck_assert_ptr_nonnull(strstr(r.body.data, "an array of token ids"));
    reply_free(&r);
    post(&h, "/tokenize", "{\"prompt\":\"a\",\"temperature\":1}", &r);
    ck_assert_ptr_nonnull(strstr(r.body.data, "unknown parameter"));
    reply_free(&r);
    ck_assert_int_eq(h.submits[0].want, LAC_WANT_TOKENS);
    ck_assert_int_eq(h.submits[1].want, LAC_WANT_TEXT_OF_IDS);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frontend responses");
    TCase *tc = tcase_create("responses");
    tcase_add_test(tc, test_bodies);
    tcase_add_loop_test(tc, test_bad_bodies, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tc, test_whole);
    tcase_add_test(tc, test_events);
    tcase_add_test(tc, test_tokens);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
