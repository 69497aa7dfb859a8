/* Prompt sets: what is read, what is refused and how, and that hold-out and calibration share
 * nothing. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "calibrate/prompts.h"

static lac_prompt_set set_of(const char *text)
{
    lac_prompt_set set = {0};
    lac_error err = {0};
    lac_status status =
        lac_prompts_parse("set", text, strlen(text), "structured", NULL, &set, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return set;
}

START_TEST(lines_become_prompts)
{
    lac_prompt_set set = set_of(
        "{\"id\":\"a1\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x=1\\ny=2\"}\n"
        "\n"
        "{\"id\":\"p\",\"document\":\"a\",\"type\":\"unstructured\",\"text\":\"Once upon\"}\n"
        "{\"id\":\"b1\",\"document\":\"b\",\"type\":\"structured\",\"text\":\"z\"}\n"
        "{\"id\":\"a2\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"w\"}");
    ck_assert_uint_eq(set.count, 3);
    ck_assert_uint_eq(set.left_out, 1);
    ck_assert_uint_eq(set.documents_count, 2);
    ck_assert_str_eq(set.prompts[0].text, "x=1\ny=2");
    ck_assert_uint_eq(set.prompts[0].length, 7);
    ck_assert_str_eq(set.documents[set.prompts[1].document], "b");
    ck_assert_uint_eq(set.prompts[2].document, set.prompts[0].document);
    lac_prompt_set other =
        set_of("{\"id\":\"a1\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x=2\"}\n");
    ck_assert(memcmp(&set.digest, &other.digest, sizeof set.digest) != 0);
    lac_prompts_free(&set);
    lac_prompts_free(&other);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x\"}\nnonsense\n",
     "set line 2"},
    {"[1]\n", "not a JSON object"},
    {"{\"document\":\"a\",\"type\":\"structured\",\"text\":\"x\"}", "id is missing"},
    {"{\"id\":\"a\",\"type\":\"structured\",\"text\":\"x\"}", "document is missing"},
    {"{\"id\":\"a\",\"document\":\"a\",\"text\":\"x\"}", "type is missing"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\"}", "one of text and messages"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x\",\"messages\":[]}",
     "one of text and messages"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"\"}", "text is 0 bytes"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x\",\"tpye\":1}",
     "field \"tpye\""},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"messages\":[{\"role\":\"user\","
     "\"content\":\"x\"}]}",
     "no known chat template"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"x\"}\n"
     "{\"id\":\"a\",\"document\":\"b\",\"type\":\"structured\",\"text\":\"y\"}",
     "id \"a\" is there twice"},
    {"{\"id\":\"a\",\"document\":\"a\",\"type\":\"code\",\"text\":\"x\"}",
     "no prompt of type structured"},
    {"", "no prompt of type structured"},
};

START_TEST(bad_lines_are_named)
{
    lac_prompt_set set = {.count = 77};
    lac_error err = {0};
    ck_assert(lac_prompts_parse("set", bad[_i].text, strlen(bad[_i].text), "structured", NULL, &set,
                                &err) != LAC_OK);
    ck_assert_msg(strstr(err.text, bad[_i].says), "%s", err.text);
    ck_assert_uint_eq(set.count, 77);
}
END_TEST

START_TEST(messages_are_rendered)
{
    static const char text[] =
        "{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"messages\":[{\"role\":"
        "\"system\","
        "\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"k: v\"}]}";
    lac_prompt_chat chat = {.family = lac_chat_find("chatml"), .context = {.bos = "", .eos = ""}};
    ck_assert_ptr_nonnull(chat.family);
    lac_prompt_set set = {0};
    lac_error err = {0};
    lac_status status =
        lac_prompts_parse("set", text, strlen(text), "structured", &chat, &set, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    ck_assert(set.prompts[0].chat);
    ck_assert_ptr_nonnull(strstr(set.prompts[0].text, "<|im_start|>user\nk: v<|im_end|>"));
    lac_prompts_free(&set);
}
END_TEST

/* Thirty words, the n-th of which is not as in other texts with another `salt`. */
static void line_add(lac_buf *out, const char *id, const char *document, int salt, int same,
                     const char *joint)
{
    lac_buf_printf(out, "{\"id\":\"%s\",\"document\":\"%s\",\"type\":\"structured\",\"text\":\"",
                   id, document);
    for (int i = 0; i < 30; i++)
        lac_buf_printf(out, "word%d%s", i < same ? i : i * 1000 + salt, joint);
    lac_buf_text(out, "\"}\n");
}

static lac_status against(int same, const char *document, const char *joint, lac_error *err)
{
    lac_buf a = {0}, b = {0};
    line_add(&a, "c1", "first", 1, 0, " ");
    line_add(&a, "c2", "first", 2, 30, " ");
    line_add(&b, "h1", document, 4, 0, " ");
    line_add(&b, "h2", document, 3, same, joint);
    lac_prompt_set calibration = set_of(a.data), holdout = set_of(b.data);
    lac_status status = lac_prompts_disjoint(&calibration, &holdout, err);
    lac_prompts_free(&calibration);
    lac_prompts_free(&holdout);
    lac_buf_free(&a);
    lac_buf_free(&b);
    return status;
}

START_TEST(overlap_is_refused)
{
    lac_error err = {0};
    ck_assert_int_eq(against(0, "second", " ", &err), LAC_OK);
    ck_assert_int_eq(against(0, "first", " ", &err), LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "document \"first\""));
    /* All the same but for what stands between the words. */
    ck_assert_int_eq(against(30, "second", ", ", &err), LAC_EREFUSED);
    ck_assert_ptr_nonnull(strstr(err.text, "prompt \"h2\" of document \"second\""));
    /* 19 runs of 12 words: 21 equal words have 10 of them, 20 have 9. */
    ck_assert_int_eq(against(21, "second", " ", &err), LAC_EREFUSED);
    ck_assert_int_eq(against(20, "second", " ", &err), LAC_OK);
}
END_TEST

START_TEST(short_texts_are_compared_whole)
{
    static const char one[] =
        "{\"id\":\"a\",\"document\":\"a\",\"type\":\"structured\",\"text\":\"k = 1\"}";
    static const char same[] =
        "{\"id\":\"b\",\"document\":\"b\",\"type\":\"structured\",\"text\":\"K=1;\"}";
    static const char other[] =
        "{\"id\":\"b\",\"document\":\"b\",\"type\":\"structured\",\"text\":\"k = 2\"}";
    lac_prompt_set a = set_of(one), b = set_of(same), c = set_of(other);
    ck_assert_int_eq(lac_prompts_disjoint(&a, &b, NULL), LAC_EREFUSED);
    ck_assert_int_eq(lac_prompts_disjoint(&a, &c, NULL), LAC_OK);
    lac_prompts_free(&a);
    lac_prompts_free(&b);
    lac_prompts_free(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prompts");
    TCase *tcase = tcase_create("prompts");
    tcase_add_test(tcase, lines_become_prompts);
    tcase_add_loop_test(tcase, bad_lines_are_named, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tcase, messages_are_rendered);
    tcase_add_test(tcase, overlap_is_refused);
    tcase_add_test(tcase, short_texts_are_compared_whole);
    suite_add_tcase(suite, tcase);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
