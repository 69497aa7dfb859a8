/* A group's config: the same bytes for the same facts, there and back, and nothing else taken. */
#include <string.h>

#include "base/group_config.h"
#include "suites.h"

static lac_group_config sample(void)
{
    lac_group_config c = {.pp = 2, .tp = 3, .context_max = 4096, .slots = 16, .model = "smol-1.5"};
    memset(c.model_digest.bytes, 0x1a, 32);
    memset(c.plan_digest.bytes, 0x2b, 32);
    return c;
}

START_TEST(there_and_back)
{
    lac_group_config c = sample(), got;
    lac_buf a = {.cap = LAC_GROUP_CONFIG_MAX}, b = {.cap = LAC_GROUP_CONFIG_MAX};
    lac_error err = {0};
    memset(c.model, 'm', LAC_MODEL_NAME_MAX); /* the longest fits */
    c.context_max = LAC_CONTEXT_MAX;
    c.slots = LAC_SLOTS_MAX;
    lac_group_config_write(&c, &a);
    ck_assert(!a.overflow);
    ck_assert_msg(lac_group_config_parse(a.data, a.length, &got, &err) == LAC_OK, "%s", err.text);
    lac_group_config_write(&got, &b);
    ck_assert_str_eq(a.data, b.data);
    ck_assert_str_eq(got.model, c.model);
    ck_assert_uint_eq(got.pp, 2);
    ck_assert_uint_eq(got.tp, 3);
    ck_assert_mem_eq(&got.plan_digest, &c.plan_digest, 32);
    lac_buf_free(&a);
    lac_buf_free(&b);
}
END_TEST

static lac_status parse_changed(const char *from, const char *to, lac_error *err)
{
    lac_group_config c = sample(), got = {.pp = 77};
    lac_buf text = {0}, changed = {0};
    lac_group_config_write(&c, &text);
    char *at = strstr(text.data, from);
    ck_assert_ptr_nonnull(at);
    lac_buf_add(&changed, text.data, (size_t)(at - text.data));
    lac_buf_text(&changed, to);
    lac_buf_text(&changed, at + strlen(from));
    lac_status status = lac_group_config_parse(changed.data, changed.length, &got, err);
    ck_assert(status == LAC_OK || got.pp == 77);
    lac_buf_free(&text);
    lac_buf_free(&changed);
    return status;
}

START_TEST(nothing_else_is_taken)
{
    static const struct {
        const char *from, *to, *says;
        lac_status status;
    } rows[] = {{"lacuna group 1", "lacuna group 2", "lacuna group 1", LAC_EUNSUPPORTED},
                {"pp 2", "pp 0", "pp is \"0\", allowed 1..64", LAC_EINVAL},
                {"tp 3", "tp 33", "tp is \"33\", allowed 1..32", LAC_EINVAL},
                {"slots 16", "slots x", "slots", LAC_EINVAL},
                {"context 4096\n", "", "\"context\" is missing", LAC_EINVAL},
                {"1a1a", "1a1g", "model-digest", LAC_EINVAL},
                {"2b2b", "2b2b2b", "plan-digest", LAC_EINVAL},
                {"plan-digest", "model x\nplan-digest", "\"plan-digest\" is missing", LAC_EINVAL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lac_error err = {0};
        ck_assert_int_eq(parse_changed(rows[i].from, rows[i].to, &err), rows[i].status);
        ck_assert_msg(strstr(err.text, rows[i].says) != NULL, "%s", err.text);
    }
    /* Cut anywhere, or with more behind it. */
    lac_group_config c = sample(), got;
    lac_buf text = {0};
    lac_error err = {0};
    lac_group_config_write(&c, &text);
    for (size_t length = 0; length < text.length; length++)
        ck_assert(lac_group_config_parse(text.data, length, &got, &err) != LAC_OK);
    lac_buf_text(&text, "\n");
    ck_assert_int_eq(lac_group_config_parse(text.data, text.length, &got, &err), LAC_EINVAL);
    lac_buf_free(&text);
}
END_TEST

Suite *suite_group_config(void)
{
    Suite *suite = suite_create("group_config");
    TCase *t = tcase_create("group_config");
    tcase_add_test(t, there_and_back);
    tcase_add_test(t, nothing_else_is_taken);
    suite_add_tcase(suite, t);
    return suite;
}
