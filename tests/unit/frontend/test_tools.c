/* Functions on their way in and calls on their way out: what the core is given, and OpenAI's
 * objects made of an answer in parts. */
#include "harness.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":"   \
    "\"object\",\"properties\":{\"a\":{\"type\":\"number\"}}}}},{\"type\":\"function\","           \
    "\"function\":{\"name\":\"get\"}}]"

static lac__api_request good(const char *body)
{
    lac__api_request request;
    lac__problem problem = {0};
    bool ok = lac__api_parse(LAC__API_CHAT, body, strlen(body), &request, &problem);
    ck_assert_msg(ok, "%s", problem.message);
    return request;
}

static bool span_is(lac_span span, const char *text)
{
    return span.length == strlen(text) &&
           memcmp(span.data ? span.data : "", text, span.length) == 0;
}

START_TEST(test_wishes)
{
    lac__api_request r = good("{" HI "," TOOLS "}");
    const lac_prompt *p = &r.submit.prompt;
    ck_assert(p->parts && !p->tool_required && !p->one_call);
    ck_assert_uint_eq(p->tools.length, strlen("" TOOLS) - strlen("\"tools\":"));
    lac__api_free(&r);
    r = good("{" HI "," TOOLS
             ",\"tool_choice\":\"none\",\"response_format\":{\"type\":\"json_object\"}}");
    ck_assert_uint_eq(p->tools.length, 0);
    lac__api_free(&r);
    r = good("{" HI ",\"tool_choice\":\"required\"," TOOLS ",\"parallel_tool_calls\":false}");
    ck_assert(p->tool_required && p->one_call);
    ck_assert_str_eq(p->tool_name, "");
    lac__api_free(&r);
    r = good("{" HI "," TOOLS
             ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"get\"}},"
             "\"chat_template_kwargs\":{\"enable_thinking\":false}}");
    ck_assert(p->tool_required);
    ck_assert_str_eq(p->tool_name, "get");
    ck_assert_int_eq(p->thinking, LAC_THINKING_OFF);
    lac__api_free(&r);
}
END_TEST

START_TEST(test_conversation)
{
    lac__api_request r = good("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
                              "\"assistant\",\"content\":null,"
                              "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":\"c1\","
                              "\"type\":\"function\",\"function\":"
                              "{\"name\":\"add\",\"arguments\":\"{\\\"a\\\": [1, "
                              "\\\"x\\\"]}\"}},{\"id\":\"c2\",\"function\":{"
                              "\"name\":\"get\",\"arguments\":\"\"}}]},{\"role\":\"tool\",\"tool_"
                              "call_id\":\"c1\",\"content\":"
                              "\"3\"}]}");
    const lac_chat_message *m = r.submit.prompt.messages;
    ck_assert(span_is(m[1].calls,
                      "[{\"id\":\"c1\",\"name\":\"add\",\"arguments\":{\"a\":[1,\"x\"]}},"
                      "{\"id\":\"c2\",\"name\":\"get\",\"arguments\":{}}]"));
    ck_assert(span_is(m[1].reasoning, "hm") && span_is(m[1].content, ""));
    ck_assert_str_eq(m[2].role, "tool");
    ck_assert(span_is(m[2].call_id, "c1") && span_is(m[2].content, "3"));
    lac__api_free(&r);
}
END_TEST

static json_t *choice_of(const reply *r)
{
    json_t *body = json_loadb(r->body.data, r->body.length, 0, NULL);
    ck_assert_msg(body != NULL, "%.*s", (int)r->body.length, r->body.data);
    json_t *choice = json_incref(json_array_get(json_object_get(body, "choices"), 0));
    json_decref(body);
    return choice;
}

static const char *text_at(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

START_TEST(test_whole)
{
    /* Cut inside marks and names, as messages may be. */
    static const char *const pieces[] = {"\x10",
                                         "rI thi",
                                         "nk\x10",
                                         "cSay \"\x10",
                                         "\x10\"\x10na",
                                         "dd\x10"
                                         "a{\"a\": ",
                                         "\"\\n\"}\x10nget\x10"
                                         "a{}",
                                         NULL};
    harness h;
    harness_start(&h, NULL);
    h.pieces = pieces;
    reply r;
    post(&h, "/v1/chat/completions", "{" HI "," TOOLS "}", &r);
    ck_assert_int_eq(r.status, 200);
    json_t *choice = choice_of(&r), *message = json_object_get(choice, "message");
    ck_assert_str_eq(text_at(choice, "finish_reason"), "tool_calls");
    ck_assert_str_eq(text_at(message, "reasoning_content"), "I think");
    ck_assert_str_eq(text_at(message, "content"), "Say \"\x10\"");
    json_t *calls = json_object_get(message, "tool_calls");
    ck_assert_uint_eq(json_array_size(calls), 2);
    for (int i = 0; i < 2; i++) {
        json_t *call = json_array_get(calls, (size_t)i),
               *function = json_object_get(call, "function");
        ck_assert_str_eq(text_at(call, "type"), "function");
        ck_assert_uint_eq(strlen(text_at(call, "id")), 9);
        ck_assert_str_eq(text_at(function, "name"), i ? "get" : "add");
        ck_assert_str_eq(text_at(function, "arguments"), i ? "{}" : "{\"a\": \"\\n\"}");
    }
    ck_assert_str_ne(text_at(json_array_get(calls, 0), "id"),
                     text_at(json_array_get(calls, 1), "id"));
    json_decref(choice);
    reply_free(&r);
    h.pieces = pieces + 4; /* only calls: the content is null */
    h.finish = LAC_FINISH_LENGTH;
    post(&h, "/v1/chat/completions", "{" HI "," TOOLS "}", &r);
    choice = choice_of(&r);
    ck_assert_str_eq(text_at(choice, "finish_reason"), "length");
    json_decref(choice);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_stream)
{
    static const char *const pieces[] = {"\x10rHm\x10"
                                         "cSo",
                                         "\x10nadd\x10"
                                         "a{\"a\"",
                                         ": 1}", NULL};
    harness h;
    harness_start(&h, NULL);
    h.pieces = pieces;
    reply r;
    post(&h, "/v1/chat/completions", "{" HI ",\"stream\":true," TOOLS "}", &r);
    ck_assert_int_eq(r.status, 200);
    lac_buf reasoning = {0}, content = {0}, arguments = {0};
    char id[16] = "", name[16] = "", finish[16] = "";
    for (char *at = r.body.data; (at = strstr(at, "data: {")) != NULL; at++) {
        json_t *event = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        ck_assert_ptr_nonnull(event);
        json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
        json_t *delta = json_object_get(choice, "delta"), *call;
        size_t i;
        if (text_at(delta, "reasoning_content"))
            lac_buf_text(&reasoning, text_at(delta, "reasoning_content"));
        if (text_at(delta, "content"))
            lac_buf_text(&content, text_at(delta, "content"));
        if (text_at(choice, "finish_reason"))
            snprintf(finish, sizeof finish, "%s", text_at(choice, "finish_reason"));
        json_array_foreach(json_object_get(delta, "tool_calls"), i, call)
        {
            json_t *function = json_object_get(call, "function");
            ck_assert_int_eq(json_integer_value(json_object_get(call, "index")), 0);
            if (text_at(call, "id"))
                snprintf(id, sizeof id, "%s", text_at(call, "id"));
            if (text_at(function, "name"))
                snprintf(name, sizeof name, "%s", text_at(function, "name"));
            lac_buf_text(&arguments, text_at(function, "arguments"));
        }
        json_decref(event);
    }
    ck_assert_str_eq(reasoning.data, "Hm");
    ck_assert_str_eq(content.data, "So");
    ck_assert_str_eq(arguments.data, "{\"a\": 1}");
    ck_assert_str_eq(name, "add");
    ck_assert_str_eq(finish, "tool_calls");
    ck_assert_uint_eq(strlen(id), 9);
    lac_buf_free(&reasoning);
    lac_buf_free(&content);
    lac_buf_free(&arguments);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_wishes, test_conversation, test_whole, test_stream, NULL};
    return run_suite("tools", tests);
}
