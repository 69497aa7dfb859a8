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
    ck_assert_int_eq(count, 21);
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
    lac_chat_message tool[] = {message("user", "x"), message("tool", "y")};
    ck_assert_ptr_null(render("chatml", NULL, tool, 2, &err));
    ck_assert_str_eq(err.text, "messages[1].role is \"tool\", known to this model's chat template "
                               "(chatml) are system, user, assistant");
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
    tcase_add_test(tests, too_long);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
