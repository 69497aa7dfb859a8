/* Rendered conversations, byte for byte, against what Jinja makes of the models' own templates
 * (make_golden.py), and recognition of each of those templates. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat.h"

#define FOLDER LAC_SOURCE_DIR "/tests/golden/chat/"

static const char *const models[] = {"smollm2",      "qwen2",
                                     "qwen2.5",      "qwen3",
                                     "chatml",       "llama3",
                                     "llama3.1",     "llama3.2",
                                     "llama2",       "mistral-v0.1",
                                     "mistral-v0.2", "mistral-v1",
                                     "mistral-v3",   "mistral-v3-tekken",
                                     "mistral-v7",   "mistral-v7-tekken",
                                     "gemma2",       "gemma3",
                                     "deepseek-v2",  "deepseek-v3",
                                     "deepseek-r1",  "deepseek-r1-distill",
                                     "phi3",         "phi3.5",
                                     "phi4",         "phi4-mini"};
enum { MODELS = sizeof models / sizeof *models, MESSAGES_MAX = 16 };

static char *read_template(const char *model, size_t *length)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "templates/%s.jinja", model);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    char *text = malloc(65536);
    *length = fread(text, 1, 65536, file);
    ck_assert(*length > 0 && *length < 65536);
    fclose(file);
    return text;
}

static size_t read_messages(const json_t *list, lac_chat_message *messages)
{
    size_t count = json_array_size(list);
    ck_assert_uint_le(count, MESSAGES_MAX);
    memset(messages, 0, count * sizeof *messages);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(list, i);
        snprintf(messages[i].role, sizeof messages[i].role, "%s",
                 json_string_value(json_object_get(item, "role")));
        const json_t *content = json_object_get(item, "content");
        messages[i].content.length = (uint32_t)json_string_length(content);
        if (messages[i].content.length > 0)
            messages[i].content.data = json_string_value(content);
    }
    return count;
}

/* Templates of families that take a system message only at the front may print a later one as a
 * turn of an unheard-of role, or drop it. We refuse it. */
static bool late_system_refused(const lac_chat_message *messages, size_t count,
                                const lac_error *err)
{
    bool late = false;
    for (size_t i = 1; i < count; i++)
        late |= strcmp(messages[i].role, "system") == 0;
    return late && strstr(err->text, "\"system\"") != NULL;
}

static void compare(const char *model, const lac_chat_family *family,
                    const lac_chat_context *context, const json_t *test, size_t index)
{
    lac_chat_message messages[MESSAGES_MAX];
    size_t count = read_messages(json_object_get(test, "messages"), messages);
    const json_t *text = json_object_get(test, "text");
    lac_buf out = {.cap = 1 << 16};
    lac_buf_text(&out, "kept");
    lac_error err = {0};
    lac_status status =
        lac_chat_render(family, context, messages, count,
                        json_is_true(json_object_get(test, "add_generation_prompt")), &out, &err);
    if (json_is_null(text)) {
        ck_assert_msg(status == LAC_EINVAL, "%s case %zu: rendered what the template refuses",
                      model, index);
        ck_assert_ptr_nonnull(strstr(err.text, "messages["));
        ck_assert_uint_eq(out.length, 4);
    } else if (status != LAC_OK) {
        ck_assert_msg(late_system_refused(messages, count, &err), "%s case %zu: %s", model, index,
                      err.text);
    } else {
        ck_assert_msg(out.length == 4 + json_string_length(text) &&
                          memcmp(out.data + 4, json_string_value(text), out.length - 4) == 0,
                      "%s case %zu: got\n%s\nwanted\n%s", model, index, out.data + 4,
                      json_string_value(text));
    }
    lac_buf_free(&out);
}

START_TEST(as_jinja)
{
    const char *model = models[_i];
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.json", model);
    json_error_t where;
    json_t *golden = json_load_file(path, 0, &where);
    ck_assert_msg(golden != NULL, "%s: %s", path, where.text);
    size_t length;
    char *template_text = read_template(model, &length);
    const lac_chat_family *family = lac_chat_detect(template_text, length);
    ck_assert_msg(family != NULL, "%s: unknown", model);
    ck_assert_str_eq(lac_chat_name(family), json_string_value(json_object_get(golden, "family")));
    lac_chat_context context;
    lac_chat_context_read(family, template_text, length,
                          json_string_value(json_object_get(golden, "bos")),
                          json_string_value(json_object_get(golden, "eos")), &context);
    const json_t *cases = json_object_get(golden, "cases");
    ck_assert_uint_gt(json_array_size(cases), 20);
    for (size_t i = 0; i < json_array_size(cases); i++)
        compare(model, family, &context, json_array_get(cases, i), i);
    json_decref(golden);
    free(template_text);
}
END_TEST

/* ---- functions and thoughts ---- */

static const char *const with_tools[] = {"qwen2.5",  "qwen3",      "llama3.1",
                                         "llama3.2", "mistral-v3", "mistral-v3-tekken"};

static lac_span span_of(const json_t *text)
{
    uint32_t length = (uint32_t)json_string_length(text);
    return (lac_span){length ? json_string_value(text) : NULL, length};
}

/* The calls as a message carries them; freed by the caller. */
static char *calls_of(const json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"), *list = json_array(), *call;
    size_t i;
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        json_array_append_new(list, json_pack("{s:O,s:O,s:O}", "id", json_object_get(call, "id"),
                                              "name", json_object_get(function, "name"),
                                              "arguments", json_object_get(function, "arguments")));
    }
    char *text = json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}

static void compare_tools(const char *model, const lac_chat_family *family,
                          const lac_chat_context *context, const json_t *test, size_t index)
{
    lac_chat_message messages[MESSAGES_MAX];
    char *calls[MESSAGES_MAX] = {NULL};
    const json_t *list = json_object_get(test, "messages"), *text = json_object_get(test, "text");
    const json_t *thinking = json_object_get(test, "enable_thinking");
    size_t count = read_messages(list, messages);
    lac_error err = {0};
    lac_tools *tools = NULL;
    char *json = json_dumps(json_object_get(test, "tools"), JSON_COMPACT);
    if (json)
        ck_assert_int_eq(lac_tools_create(json, strlen(json), &tools, &err), LAC_OK);
    for (size_t i = 0; i < count; i++) {
        const json_t *message = json_array_get(list, i);
        calls[i] = calls_of(message);
        if (calls[i])
            messages[i].calls = (lac_span){calls[i], (uint32_t)strlen(calls[i])};
        messages[i].call_id = span_of(json_object_get(message, "tool_call_id"));
        messages[i].reasoning = span_of(json_object_get(message, "reasoning_content"));
    }
    lac_chat_ask ask = {.messages = messages,
                        .count = count,
                        .tools = tools,
                        .thinking = json_is_true(thinking)    ? LAC_THINKING_ON
                                    : json_is_false(thinking) ? LAC_THINKING_OFF
                                                              : LAC_THINKING_DEFAULT,
                        .add_generation_prompt =
                            json_is_true(json_object_get(test, "add_generation_prompt"))};
    lac_buf out = {.cap = 1 << 16};
    lac_status status = lac_chat_render_ask(family, context, &ask, &out, &err);
    if (json_is_null(text))
        ck_assert_msg(status == LAC_EINVAL, "%s case %zu: rendered what the template refuses",
                      model, index);
    else
        ck_assert_msg(status == LAC_OK && out.length == json_string_length(text) &&
                          memcmp(out.data, json_string_value(text), out.length) == 0,
                      "%s case %zu: %s: got\n%s\nwanted\n%s", model, index, err.text,
                      out.data ? out.data : "", json_string_value(text));
    for (size_t i = 0; i < count; i++)
        free(calls[i]);
    lac_buf_free(&out);
    lac_tools_destroy(&tools);
    free(json);
}

START_TEST(tools_as_jinja)
{
    const char *model = with_tools[_i];
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.tools.json", model);
    json_error_t where;
    json_t *golden = json_load_file(path, 0, &where);
    ck_assert_msg(golden != NULL, "%s: %s", path, where.text);
    size_t length;
    char *template_text = read_template(model, &length);
    const lac_chat_family *family = lac_chat_detect(template_text, length);
    ck_assert_ptr_nonnull(family);
    lac_chat_context context;
    lac_chat_context_read(family, template_text, length,
                          json_string_value(json_object_get(golden, "bos")),
                          json_string_value(json_object_get(golden, "eos")), &context);
    const json_t *cases = json_object_get(golden, "cases");
    ck_assert_uint_gt(json_array_size(cases), 20);
    for (size_t i = 0; i < json_array_size(cases); i++)
        compare_tools(model, family, &context, json_array_get(cases, i), i);
    json_decref(golden);
    free(template_text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chat");
    TCase *tests = tcase_create("chat");
    tcase_add_loop_test(tests, as_jinja, 0, MODELS);
    tcase_add_loop_test(tests, tools_as_jinja, 0, sizeof with_tools / sizeof *with_tools);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
