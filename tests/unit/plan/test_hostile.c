/* Bent plans and companions: each is refused with a text that names file, field, value and limit,
 * and leaves the output as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "fixture.h"

/* The first occurrence of `from` becomes `to`. */
static const struct {
    const char *from, *to;
    lac_status status;
    const char *named;
} bent[] = {
    {"\"lacuna-plan\"", "\"plan\"", LAC_EINVAL, "format is \"plan\""},
    {"\"version\": 1", "\"version\": 3", LAC_EUNSUPPORTED, "version is 3, this program reads 1..2"},
    {"\"version\": 1", "\"version\": 1, \"canaries\": {}", LAC_EINVAL, "canaries is no field"},
    {"\"version\": 1", "\"version\": 2, \"canaries\": []", LAC_EINVAL, "canaries: is an array"},
    {"\"version\": 1", "\"version\": 2, \"canaries\": {\"logs\": []}", LAC_EINVAL,
     "canaries: logs is no input type"},
    {"\"version\": 1", "\"version\": 2, \"canaries\": {\"code\": \"a\"}", LAC_EINVAL,
     "canaries: code is a string"},
    {"\"version\": 1", "\"version\": 2, \"canaries\": {\"code\": [\"a\", 1]}", LAC_EINVAL,
     "canaries: code[1] is a number"},
    {"\"version\": 1", "\"version\": 2, \"canaries\": {\"code\": [\"\"]}", LAC_EINVAL,
     "canaries: code[0]: canary has 0 bytes, allowed 1..1024"},
    {"\"version\": 1",
     "\"version\": 2, \"canaries\": {\"code\": "
     "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}",
     LAC_ETOOBIG, "canaries: code[8]: canaries of code are more than 8"},
    {"\"version\": 1", "\"version\": 0", LAC_EUNSUPPORTED, "version is 0"},
    {"\"version\": 1", "\"version\": -9223372036854775808", LAC_EUNSUPPORTED, "version"},
    {"\"version\": 1", "\"version\": 1.0", LAC_EINVAL, "version is a fraction"},
    {"\"version\": 1", "\"version\": \"1\"", LAC_EINVAL, "version is a string"},
    {"\"version\": 1", "\"version\": 1, \"version\": 1", LAC_EINVAL, "duplicate"},
    {"\"version\": 1", "\"version\": 1, \"probe\": 1", LAC_EINVAL, "probe is no field"},
    {"\"version\": 1", "\"other\": 1", LAC_EINVAL, "format or version is missing"},
    {"\"classes\"", "\"clases\"", LAC_EINVAL, "classes is missing"},
    {"\"layers\": 2", "\"layers\": 4", LAC_EREFUSED, "layers and hidden are 4"},
    {"\"layers\": 2", "\"layers\": 0", LAC_EINVAL, "model: layers is 0, allowed 1..1024"},
    {"\"layers\": 2", "\"layers\": 1025", LAC_EINVAL, "layers is 1025"},
    {"\"layers\": 2", "\"layers\": 1", LAC_EINVAL, "A1"},
    {"\"name\": \"one\"", "\"name\": \"full\"", LAC_EINVAL, "classes[0]: name is \"full\""},
    {"\"name\": \"one\"", "\"name\": \"\"", LAC_EINVAL, "classes[0]: name is \"\""},
    {"\"name\": \"one\"", "\"name\": \"a b\"", LAC_EINVAL, "name is \"a b\""},
    {"\"name\": \"one\"", "\"name\": \"../x\"", LAC_EINVAL, "name is \"../x\""},
    {"\"name\": \"one\"", "\"name\": \"a\\u0000b\"", LAC_EINVAL, "line"},
    {"\"name\": \"two\"", "\"name\": \"three\"", LAC_EINVAL, "is \"three\", as of"},
    {"\"name\": \"two\"", "\"name\": 2", LAC_EINVAL, "classes[1]: name is a number"},
    {"\"mask\": \"A0,A1\"", "\"mask\": \"A1,A0\"", LAC_EINVAL, "canonical form \"A0,A1\""},
    {"\"mask\": \"A0,A1\"", "\"mask\": \"A0,A3\"", LAC_EINVAL, "A3"},
    {"\"mask\": \"A0,A1\"", "\"mask\": \"\"", LAC_EINVAL, "A0"},
    {"\"mask\": \"F0\"", "\"mask\": \"\"", LAC_EINVAL, "mask is empty"},
    {"\"mask\": \"A0,A1\"", "\"mask\": \"A0,A0\"", LAC_EINVAL, "twice"},
    {"\"mask\": \"A0,A1\"", "\"mask\": \"A1\"", LAC_EINVAL, "unit is A0"},
    {"\"scope\": \"decode\"", "\"scope\": \"all\"", LAC_EINVAL, "scope is \"all\""},
    {"\"structured\"", "\"logs\"", LAC_EINVAL, "logs is no input type"},
    {"\"tier\": \"gold\"", "\"tier\": \"none\"", LAC_EINVAL, "tier is \"none\""},
    {"\"tier\": \"economy\"", "\"tier\": \"standard\"", LAC_EINVAL,
     "serves.code: certificate.kl_upper is 0.1, allowed 0.05..0.03"},
    {"\"kl_upper\": 0.1", "\"kl_upper\": 0.04", LAC_EINVAL, "kl_upper is 0.04"},
    {"\"kl_mean\": 0.05", "\"kl_mean\": -0.05", LAC_EINVAL, "kl_mean is -0.05"},
    {"\"kl_mean\": 0.05", "\"kl_mean\": 1e999", LAC_EINVAL, "line"},
    {"\"kl_mean\": 0.05", "\"kl_mean\": null", LAC_EINVAL, "kl_mean is null"},
    {"\"top1\": 0.9375", "\"top1\": 1.0001", LAC_EINVAL, "top1 is 1.0001, allowed 0..1"},
    {"\"documents\": 61", "\"documents\": 59", LAC_EINVAL, "documents is 59, allowed 60"},
    {"\"requests\": 301", "\"requests\": 299", LAC_EINVAL, "requests is 299, allowed 300"},
    {"\"tokens\": 12345", "\"tokens\": 5", LAC_EINVAL, "tokens is 5"},
    {"\"tokens\": 12345", "\"tokens\": -1", LAC_EINVAL, "tokens is -1"},
    {"\"date\": \"2025-06-30\"", "\"date\": \"2025-13-30\"", LAC_EINVAL, "2025-13-30"},
    {"\"date\": \"2025-06-30\"", "\"date\": \"30.6.2025\"", LAC_EINVAL, "30.6.2025"},
    {"\"data\": \"abab", "\"data\": \"ABab", LAC_EINVAL, "data is \"ABab"},
    {"\"data\": \"abab", "\"data\": \"ab", LAC_EINVAL, "64 lower-case hex digits"},
    {"\"method\": \"bootstrap", "\"method\": \"\\u0007bootstrap", LAC_EINVAL, "method"},
    {"\"bound\": 0.0", "\"bound\": {}", LAC_EINVAL, "checks[0]: bound is an object"},
    {"\"notes\": \"Zw", "\"notes\": \"\\u001bZw", LAC_EINVAL, "notes hold"},
    {"\"rank\": 8", "\"rank\": 9", LAC_EINVAL, "patches[1]: rank of A1 is 9"},
    {"\"rank\": 8", "\"rank\": 16", LAC_ECORRUPT, "patch.one.A1.down: shape"},
    {"\"rank\": 8", "\"rank\": 1000000", LAC_EINVAL, "rank is 1000000, allowed 1..131072"},
    {"\"unit\": \"A1\"", "\"unit\": \"A0\"", LAC_EINVAL, "unit A0 is out of order"},
    {"\"unit\": \"A1\"", "\"unit\": \"F1\"", LAC_EINVAL, "unit is F1"},
    {"\"unit\": \"A1\"", "\"unit\": \"A0,A1\"", LAC_EINVAL, "must be one unit"},
    {"\"file\": \"tiny", "\"file\": \"/etc/tiny", LAC_EINVAL, "must lie beside"},
    {"\"file\": \"tiny", "\"file\": \"../tiny", LAC_EINVAL, "must lie beside"},
    {"\"file\": \"tiny", "\"file\": \"other", LAC_EIO, "other.patches-"},
    {"\"sha256\": \"", "\"sha256\": \"0", LAC_EINVAL, "sha256 has 65 bytes"},
    {"\n", "", LAC_OK, ""},
    {"{", "[", LAC_EINVAL, "line"},
    {"{", "{} {", LAC_EINVAL, "line"},
    {"{", "", LAC_EINVAL, "line"},
};

static void replace(lac_buf *out, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s is not in the plan:\n%s", from, text);
    lac_buf_clear(out);
    lac_buf_add(out, text, (size_t)(at - text));
    lac_buf_text(out, to);
    lac_buf_text(out, at + strlen(from));
}

static void expect(const fixture *f, lac_status want, const char *named)
{
    lac_plan *plan = (lac_plan *)0x1;
    lac_error err = {0};
    lac_status status = lac_plan_load(f->path, f->model, &plan, &err);
    ck_assert_msg(status == want && strstr(err.text, named), "status %d, %s; wanted %d, %s", status,
                  err.text, want, named);
    if (status == LAC_OK) {
        lac_plan_destroy(&plan);
        return;
    }
    ck_assert_ptr_eq(plan, (lac_plan *)0x1);
    ck_assert_msg(strstr(err.text, f->folder) != NULL, "no file in: %s", err.text);
}

static char *saved(fixture *f)
{
    size_t length;
    fixture_open(f);
    lac_plan *plan = fixture_plan(f);
    ck_assert_int_eq(lac_plan_save(plan, f->path, NULL), LAC_OK);
    lac_plan_destroy(&plan);
    char *text = fixture_read(f->path, &length);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

START_TEST(fields_are_checked)
{
    fixture f;
    lac_buf out = {0};
    char *text = saved(&f);
    replace(&out, text, bent[_i].from, bent[_i].to);
    fixture_write(f.path, out.data, out.length);
    expect(&f, bent[_i].status, bent[_i].named);
    lac_buf_free(&out);
    free(text);
    fixture_close(&f);
}
END_TEST

START_TEST(cut_plans_are_refused)
{
    fixture f;
    char *text = saved(&f);
    size_t length = strlen(text);
    for (size_t cut = 1; cut + 1 < length; cut += 97) {
        fixture_write(f.path, text, cut);
        expect(&f, LAC_EINVAL, "line");
    }
    fixture_write(f.path, "", 0);
    expect(&f, LAC_ECORRUPT, "empty");
    unlink(f.path);
    expect(&f, LAC_EIO, "tiny.json");
    char *deep = lac_alloc(200001, 1);
    memset(deep, '[', 200000);
    fixture_write(f.path, deep, 200000);
    expect(&f, LAC_EINVAL, "line");
    free(deep);
    free(text);
    fixture_close(&f);
}
END_TEST

START_TEST(another_model_is_refused)
{
    fixture f;
    char *text = saved(&f);
    lac_model_close(&f.model);
    ck_assert_int_eq(lac_model_open(LAC_OTHER, &f.model, NULL), LAC_OK);
    expect(&f, LAC_EREFUSED, "model.digest is ");
    free(text);
    fixture_close(&f);
}
END_TEST

START_TEST(a_companion_is_the_one_that_was_hashed)
{
    fixture f;
    size_t length;
    char *text = saved(&f), name[300], path[400];
    fixture_companion(&f, name);
    snprintf(path, sizeof path, "%s/%s", f.folder, name);
    char *bytes = fixture_read(path, &length);
    for (size_t at = 0; at < length; at += 211) {
        bytes[at] ^= 1;
        fixture_write(path, bytes, length);
        expect(&f, LAC_ECORRUPT, "SHA-256 is ");
        bytes[at] ^= 1;
    }
    fixture_write(path, bytes, length - 1);
    expect(&f, LAC_ECORRUPT, "SHA-256 is ");
    unlink(path);
    expect(&f, LAC_EIO, name);
    free(bytes);
    free(text);
    fixture_close(&f);
}
END_TEST

Suite *suite_hostile(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tc = tcase_create("hostile");
    tcase_add_loop_test(tc, fields_are_checked, 0, sizeof bent / sizeof bent[0]);
    tcase_add_test(tc, cut_plans_are_refused);
    tcase_add_test(tc, another_model_is_refused);
    tcase_add_test(tc, a_companion_is_the_one_that_was_hashed);
    suite_add_tcase(suite, tc);
    return suite;
}
