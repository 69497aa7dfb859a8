/* Names, recognition, default system texts, errors. What families print is compared with Jinja in
 * tests/golden/chat. */
#include "chat/chat.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lac_chat_message message(const char *role, const char *content)
{
    lac_chat_message m = {.content = {content, (uint32_t)strlen(content)}};
    snprintf(m.role, sizeof m.role, "%s", role);
    return m;
}

static lac_span span_of(const char *text)
{
    return (lac_span){text, (uint32_t)strlen(text)};
}

/* The rendered text (static) or NULL with the error. */
static const char *render(const char *family, const lac_chat_context *context,
                          const lac_chat_message *messages, size_t count, lac_error *err)
{
    static char text[4096];
    static const lac_chat_context none = {.bos = "<s>", .eos = "</s>"};
    lac_buf out = {.cap = sizeof text - 1};
    lac_status status = lac_chat_render(lac_chat_find(family), context ? context : &none, messages,
                                        count, true, &out, err);
    if (status == LAC_OK)
        memcpy(text, out.data, out.length + 1);
    lac_buf_free(&out);
    return status == LAC_OK ? text : NULL;
}

START_TEST(family_names)
{
    int count = 0;
    for (const char *at = lac_chat_names(); *at; count++) {
        char name[64] = "";
        size_t length = strcspn(at, ",");
        ck_assert_uint_lt(length, sizeof name);
        memcpy(name, at, length);
        ck_assert_msg(lac_chat_find(name) != NULL, "%s", name);
        ck_assert_str_eq(lac_chat_name(lac_chat_find(name)), name);
        at += length;
        at += strspn(at, ", ");
    }
    ck_assert_int_eq(count, 22);
    const char *const short_names[] = {"mistral", "deepseek", "phi", "gemma", "gemma2"};
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(lac_chat_find(short_names[i]));
    ck_assert_ptr_null(lac_chat_find("vicuna"));
    ck_assert_ptr_null(lac_chat_find(""));
}
END_TEST

START_TEST(unknown_templates)
{
    ck_assert_ptr_null(lac_chat_detect(NULL, 0));
    ck_assert_ptr_null(lac_chat_detect("", 0));
    const char *const unknown[] = {
        "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}",
        /* Nearly ChatML, but each prints something that the family does not. */
        "{{ bos_token }}{{'<|im_start|>' + message['role'] + '<|im_end|>'}}",
        "{{'<|im_start|>' + message['role'] + message['content'] | trim + '<|im_end|>'}}",
        "{{'<|im_start|>' + message.role }}{{ '</think>' }}{{ '<|im_end|>' }}",
        /* Phi-3 as first published opens the answer after each question. */
        "{{ bos_token }}{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '<|assistant|>'}}",
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        ck_assert_msg(!lac_chat_detect(unknown[i], strlen(unknown[i])), "%zu", i);
}
END_TEST

START_TEST(default_system_texts)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{{ '<|im_start|>system\nAs it is<|im_end|>\n' }}", "As it is"},
        {"{{ '<|im_start|>system\\nEscaped<|im_end|>\\n' }}", "Escaped"},
        {"{{ \"<|im_start|>system\\nIt's \\\"so\\\"\\nnow\\\\<|im_end|>\" }}",
         "It's \"so\"\nnow\\"},
        {"{{ '<|im_start|>system\\n' + content + '<|im_end|>' }}", ""},
        {"{{ '<|im_start|>system\\n' + x }}{{ '<|im_start|>system\\nSecond<|im_end|>' }}",
         "Second"},
        {"{{ '<|im_start|>system\\nnever closed", ""},
        {"{{ '<|im_start|>system\\nends\\", ""},
        {"{{ '<|im_start|>system\\n\\q<|im_end|>' }}", ""},
        {"<|im_start|>system", ""},
        {"{{ '<|im_start|>system\n<|im_end|>' }}", ""},
    };
    lac_chat_message messages[] = {message("user", "x")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac_chat_context context;
        lac_chat_context_read(lac_chat_find("chatml"), cases[i].text, strlen(cases[i].text), NULL,
                              NULL, &context);
        ck_assert_str_eq(context.bos, "");
        char want[256];
        bool has = *cases[i].want != 0;
        snprintf(want, sizeof want, "%s%s%s<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n",
                 has ? "<|im_start|>system\n" : "", cases[i].want, has ? "<|im_end|>\n" : "");
        ck_assert_str_eq(render("chatml", &context, messages, 1, NULL), want);
    }
}
END_TEST

START_TEST(refused_roles)
{
    lac_error err;
    lac_chat_message odd[] = {message("user", "x"), message("wizard", "y")};
    ck_assert_ptr_null(render("chatml", NULL, odd, 2, &err));
    ck_assert_str_eq(err.text,
                     "messages[1].role is \"wizard\", known to this model's chat template "
                     "(chatml) are system, user, assistant, tool");
    lac_chat_message system[] = {message("system", "x"), message("user", "y")};
    ck_assert_ptr_null(render("gemma", NULL, system, 2, &err));
    ck_assert_str_eq(err.text, "messages[0].role is \"system\": this model's chat template (gemma) "
                               "takes no system message");
    lac_chat_message late[] = {message("user", "x"), message("system", "y")};
    ck_assert_ptr_null(render("gemma3", NULL, late, 2, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "messages[1].role is \"system\""));
    lac_chat_message twice[] = {message("user", "x"), message("user", "y")};
    ck_assert_ptr_null(render("mistral-v3", NULL, twice, 2, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "messages[1].role is \"user\""));
    ck_assert_ptr_null(render("chatml", NULL, NULL, 0, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "messages is empty"));
}
END_TEST

/* ---- functions, where no template says how (tests/golden/chat has those that do) ---- */

static const char one_tool[] = "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]";
#define TOLD                                                                                       \
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "     \
    "provided with function signatures within <tools></tools> XML tags:\n<tools>\n{\"type\": "     \
    "\"function\", \"function\": {\"name\": \"f\"}}\n</tools>\n\nFor each function call, return "  \
    "a "                                                                                           \
    "json object with function name and arguments within <tool_call></tool_call> XML "             \
    "tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "                              \
    "<args-json-object>}\n</tool_call>"

static void expect(const char *family, lac_chat_ask ask, const char *want)
{
    static const lac_chat_context context = {.bos = "<s>", .eos = "</s>"};
    lac_error err = {0};
    lac_tools *tools = NULL;
    lac_buf out = {0};
    ck_assert_int_eq(lac_tools_create(one_tool, strlen(one_tool), &tools, &err), LAC_OK);
    ask.tools = tools;
    ask.add_generation_prompt = true;
    lac_status status = lac_chat_render_ask(lac_chat_find(family), &context, &ask, &out, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    ck_assert_str_eq(out.data, want);
    lac_buf_free(&out);
    lac_tools_destroy(&tools);
}

START_TEST(functions_of_any_family)
{
    lac_chat_message talk[] = {message("user", "q"), message("assistant", "a"),
                               message("tool", "r"), message("tool", "s")};
    talk[1].calls = span_of("[{\"name\":\"f\",\"arguments\":{\"x\":1}}]");
    expect(
        "gemma3", (lac_chat_ask){.messages = talk, .count = 4},
        "<s><start_of_turn>user\n" TOLD "\n\nq<end_of_turn>\n<start_of_turn>model\na\n<tool_call>\n"
        "{\"name\": \"f\", \"arguments\": {\"x\": "
        "1}}\n</tool_call><end_of_turn>\n<start_of_turn>user\n"
        "<tool_response>\nr\n</tool_response>\n<tool_response>\ns\n</tool_response><end_of_turn>\n"
        "<start_of_turn>model\n");
    /* Where there is no system turn at all, the first question has them. */
    expect("gemma", (lac_chat_ask){.messages = talk, .count = 1},
           "<s><start_of_turn>user\n" TOLD "\n\nq<end_of_turn>\n<start_of_turn>model\n");
    /* A call that must come is begun. */
    expect("llama3", (lac_chat_ask){.messages = talk, .count = 1, .call = true},
           "<s><|start_header_id|>system<|end_header_id|>\n\n" TOLD
           "<|eot_id|><|start_header_id|>user"
           "<|end_header_id|>\n\nq<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<tool_"
           "call>\n");
    expect("qwen3", (lac_chat_ask){.messages = talk, .count = 1, .call = true},
           "<|im_start|>system\n" TOLD
           "<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
           "<think>\n\n</think>\n\n<tool_call>\n");
    lac_chat_message other[] = {message("user", "q"), message("assistant", ""),
                                message("tool", "r")};
    other[1].calls = span_of("[{\"id\":\"call_1\",\"name\":\"f\",\"arguments\":{}}]");
    other[2].call_id = span_of("call_1");
    lac_buf out = {0};
    lac_error err;
    lac_chat_context context = {.bos = "", .eos = "</s>"};
    lac_chat_ask ask = {.messages = other, .count = 3};
    ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("mistral-v3"), &context, &ask, &out, &err),
                     LAC_OK);
    char id[10] = "";
    ck_assert_int_eq(sscanf(strstr(out.data, "\"id\": \"") + 7, "%9[A-Za-z0-9]", id), 1);
    ck_assert_uint_eq(strlen(id), 9);
    ck_assert_ptr_nonnull(strstr(strstr(out.data, "call_id"), id)); /* the same for the result */
    lac_buf_free(&out);
}
END_TEST

START_TEST(thinking_is_switched)
{
    lac_error err = {0};
    lac_chat_message messages[] = {message("user", "q")};
    lac_chat_ask ask = {.messages = messages, .count = 1, .thinking = LAC_THINKING_ON};
    lac_chat_context context = {.bos = "", .eos = ""};
    lac_buf out = {0};
    ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("chatml"), &context, &ask, &out, &err),
                     LAC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "has no thinking"));
    ask.thinking = LAC_THINKING_OFF;
    ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("deepseek-r1"), &context, &ask, &out, &err),
                     LAC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "always thinks"));
    ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("chatml"), &context, &ask, &out, &err),
                     LAC_OK);
    lac_buf_free(&out);
}
END_TEST

START_TEST(calls_are_checked)
{
    static const char *const bad[] = {"",  "{}", "[]", "[{\"name\":\"f\"}]", "[{\"arguments\":{}}]",
                                      "[1"};
    lac_chat_message messages[] = {message("user", "q"), message("assistant", "")};
    lac_chat_context context = {.bos = "", .eos = ""};
    lac_error err;
    for (size_t i = 1; i < sizeof bad / sizeof *bad; i++) {
        lac_buf out = {0};
        messages[1].calls = span_of(bad[i]);
        lac_chat_ask ask = {.messages = messages, .count = 2};
        ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("chatml"), &context, &ask, &out, &err),
                         LAC_EINVAL);
        ck_assert_ptr_nonnull(strstr(err.text, "messages[1].tool_calls"));
        lac_buf_free(&out);
    }
    messages[1].calls =
        span_of("[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"f\",\"arguments\":{}}]");
    lac_buf out = {0};
    lac_chat_ask ask = {.messages = messages, .count = 2};
    ck_assert_int_eq(lac_chat_render_ask(lac_chat_find("llama3.1"), &context, &ask, &out, &err),
                     LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "takes one at a time"));
    lac_buf_free(&out);
}
END_TEST

START_TEST(too_long)
{
    lac_chat_message messages[] = {message("user", "some text")};
    for (size_t cap = 1; cap < 60; cap++) {
        lac_buf out = {.cap = cap};
        lac_error err;
        lac_chat_context context = {.bos = "<s>", .eos = "</s>"};
        lac_status status =
            lac_chat_render(lac_chat_find("llama2"), &context, messages, 1, true, &out, &err);
        if (cap < strlen("<s>[INST] some text [/INST]")) {
            ck_assert_int_eq(status, LAC_ETOOBIG);
            ck_assert_uint_eq(out.length, 0);
        } else {
            ck_assert_int_eq(status, LAC_OK);
        }
        lac_buf_free(&out);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chat");
    TCase *tests = tcase_create("chat");
    tcase_add_test(tests, family_names);
    tcase_add_test(tests, unknown_templates);
    tcase_add_test(tests, default_system_texts);
    tcase_add_test(tests, refused_roles);
    tcase_add_test(tests, functions_of_any_family);
    tcase_add_test(tests, thinking_is_switched);
    tcase_add_test(tests, calls_are_checked);
    tcase_add_test(tests, too_long);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
