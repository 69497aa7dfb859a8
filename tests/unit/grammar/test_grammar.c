/* The automaton: what may follow what, schema by schema; schemas that are refused, and by what
 * name; random walks, which must end in JSON. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grammar/grammar.h"
#include "parts.h"

static lac_grammar *make(const char *schema)
{
    lac_grammar *grammar = NULL;
    lac_error err = {0};
    lac_status status = lac_grammar_create(schema, strlen(schema), &grammar, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s", schema, err.text);
    return grammar;
}

/* 'w' whole, 'p' a prefix of one, 'n' neither: as a whole and byte by byte. */
static char judge(const char *schema, const char *text)
{
    lac_grammar *g = make(schema);
    lac_grammar_state *whole = lac_grammar_state_create(g), *bytes = lac_grammar_state_create(g);
    bool fits = lac_grammar_feed(whole, text, strlen(text)), each = true;
    for (const char *c = text; each && *c; c++)
        each = lac_grammar_feed(bytes, c, 1);
    ck_assert_msg(fits == each, "%s: %s", schema, text);
    char verdict = !fits ? 'n' : lac_grammar_complete(whole) ? 'w' : 'p';
    ck_assert(!fits || lac_grammar_complete(whole) == lac_grammar_complete(bytes));
    lac_grammar_state_destroy(&whole);
    lac_grammar_state_destroy(&bytes);
    lac_grammar_destroy(&g);
    return verdict;
}

static const struct {
    const char *schema, *text;
    char verdict;
} cases[] = {
    /* Any value, with the bounds of README.md. */
    {"{}", "", 'p'},
    {"{}", "{}", 'w'},
    {"true", "[1, 2.5e-3, \"a\", null, true, false, {\"k\": []}]", 'w'},
    {"{}", " 1", 'n'},
    {"{}", "1 ", 'n'},
    {"{}", "{\"a\":1,}", 'n'},
    {"{}", "[1,]", 'n'},
    {"{}", "[,", 'n'},
    {"{}", "{a", 'n'},
    {"{}", "tru", 'p'},
    {"{}", "trua", 'n'},
    {"{}", "{}{", 'n'},
    {"{}", "{\n    \"a\": [\n        1\n    ]\n}", 'w'},
    {"{}", "[ \n", 'n'},
    {"{}", "[\n                 ", 'n'}, /* 18 */
    {"{}", "[\n                1", 'p'},
    /* Numbers. */
    {"{\"type\":\"number\"}", "-0.5E+10", 'w'},
    {"{\"type\":\"number\"}", "01", 'n'},
    {"{\"type\":\"number\"}", "-", 'p'},
    {"{\"type\":\"number\"}", "1.", 'p'},
    {"{\"type\":\"number\"}", "1.e", 'n'},
    {"{\"type\":\"number\"}", ".5", 'n'},
    {"{\"type\":\"number\"}", "+1", 'n'},
    {"{\"type\":\"number\"}", "123456789012345", 'w'},
    {"{\"type\":\"number\"}", "1234567890123456", 'n'},
    {"{\"type\":\"number\"}", "1e999", 'n'},
    {"{\"type\":\"integer\"}", "-12", 'w'},
    {"{\"type\":\"integer\"}", "1.0", 'n'},
    {"{\"type\":\"integer\"}", "1e3", 'n'},
    /* Strings. */
    {"{\"type\":\"string\"}", "\"\\u00e9\\n\\\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", 'w'},
    {"{\"type\":\"string\"}", "\"\n", 'n'},
    {"{\"type\":\"string\"}", "\"\\x", 'n'},
    {"{\"type\":\"string\"}", "\"\\u12g", 'n'},
    {"{\"type\":\"string\"}", "\"\\ud83d", 'n'}, /* half a pair */
    {"{\"type\":\"string\"}", "\"\\ud7ff\"", 'w'},
    {"{\"type\":\"string\"}", "\"\\uDA", 'n'},
    {"{\"type\":\"string\"}", "\"\xc3", 'p'},
    {"{\"type\":\"string\"}", "\"\xc3\"", 'n'},
    {"{\"type\":\"string\"}", "\"\xc0\x80", 'n'},
    {"{\"type\":\"string\"}", "\"\xed\xa0", 'n'},
    {"{\"type\":\"string\"}", "\"\xf4\x90", 'n'},
    {"{\"type\":\"string\"}", "\"\xe0\x9f", 'n'},
    {"{\"type\":\"string\"}", "\"\x80", 'n'},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"a\"", 'n'},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\xe2\x82\xac\\n\"", 'w'},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd", 'n'},
    /* Texts. */
    {"{\"enum\":[\"red\",\"green\",\"\\u00e9\"]}", "\"\xc3\xa9\"", 'w'},
    {"{\"enum\":[\"red\",\"reddish\"]}", "\"red\"", 'w'},
    {"{\"enum\":[\"red\",\"reddish\"]}", "\"reddish\"", 'w'},
    {"{\"enum\":[\"red\",\"reddish\"]}", "\"reddi\"", 'n'},
    {"{\"enum\":[1,12,null]}", "1", 'w'},
    {"{\"enum\":[1,12,null]}", "12", 'w'},
    {"{\"enum\":[1,12,null]}", "13", 'n'},
    {"{\"type\":\"array\",\"items\":{\"enum\":[1,12,\"1\"]}}", "[1,12,\"1\",1]", 'w'},
    {"{\"enum\":[1,\"a\"],\"type\":\"string\"}", "1", 'n'},
    {"{\"const\":\"a\\\"b\"}", "\"a\\\"b\"", 'w'},
    {"{\"type\":\"boolean\"}", "null", 'n'},
    {"{\"type\":\"null\"}", "null", 'w'},
    /* Arrays. */
    {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"integer\"}}", "[]",
     'n'},
    {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"integer\"}}",
     "[1, 2]", 'w'},
    {"{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"integer\"}}", "[1,2,",
     'n'},
    {"{\"type\":\"array\",\"maxItems\":0}", "[1", 'n'},
    {"{\"type\":\"array\",\"maxItems\":0}", "[]", 'w'},
    /* Objects. */
    {"{\"type\":\"object\"}", "[", 'n'},
    {"{\"type\":\"object\",\"additionalProperties\":false}", "{}", 'w'},
    {"{\"type\":\"object\",\"additionalProperties\":false}", "{\"", 'n'},
    {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"}}", "{\"x\":null,\"y\":1",
     'n'},
    {"{\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"b\":{}},\"required\":[\"ab\"]}",
     "{\"a\":1,\"ab\":null}", 'w'},
    {"{\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"b\":{}},\"required\":[\"ab\"]}",
     "{\"ab\":null,\"b\":[]}", 'w'},
    {"{\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"b\":{}},\"required\":[\"ab\"]}",
     "{\"b\"", 'n'}, /* ab is not there yet */
    {"{\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"b\":{}},\"required\":[\"ab\"]}",
     "{\"a\":1}", 'n'},
    {"{\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"b\":{}},\"required\":[\"ab\"]}",
     "{\"ab\":null,\"a\"", 'n'}, /* the schema's order */
    {"{\"properties\":{\"a\":{}}}", "{}", 'w'},
    {"{\"properties\":{\"a\":{}}}", "{\"a\":1,\"a\"", 'n'},
    {"{\"properties\":{\"a\\\"\":{}}}", "{\"a\\\"\":1}", 'w'},
    {"{\"properties\":{\"\":{}}}", "{\"\":1}", 'w'},
    {"{\"properties\":{\"a\":{}}}", "{\"a\" :", 'n'},
    /* Alternatives. */
    {"{\"type\":[\"string\",\"null\"],\"maxLength\":1}", "\"ab", 'n'},
    {"{\"type\":[\"string\",\"null\"],\"maxLength\":1}", "null", 'w'},
    {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"properties\":{\"a\":{\"const\":12},\"b\":{}},\"required\":[\"a\",\"b\"]}]}",
     "{\"a\":12,\"b\":0}", 'w'},
    {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"properties\":{\"a\":{\"const\":12},\"b\":{}},\"required\":[\"a\",\"b\"]}]}",
     "{\"a\":1}", 'w'},
    {"{\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
     "{\"properties\":{\"a\":{\"const\":12},\"b\":{}},\"required\":[\"a\",\"b\"]}]}",
     "{\"a\":12}", 'n'},
    {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "1.5", 'w'},
};

START_TEST(what_may_follow)
{
    char verdict = judge(cases[_i].schema, cases[_i].text);
    ck_assert_msg(verdict == cases[_i].verdict, "%s: %s is '%c'", cases[_i].schema, cases[_i].text,
                  verdict);
    /* Of what is whole every prefix is a prefix of something whole. */
    char prefix[256];
    for (size_t i = 0; cases[_i].verdict == 'w' && i < strlen(cases[_i].text); i++) {
        snprintf(prefix, sizeof prefix, "%.*s", (int)i, cases[_i].text);
        ck_assert_msg(judge(cases[_i].schema, prefix) != 'n', "%s", prefix);
    }
}
END_TEST

static const struct {
    const char *schema;
    lac_status status;
    const char *text;
} refused[] = {
    {"", LAC_ETOOBIG, "0 bytes"},
    {"{", LAC_EINVAL, "no valid JSON"},
    {"{\"type\":\"object\",\"type\":\"object\"}", LAC_EINVAL, "no valid JSON"},
    {"3", LAC_EINVAL, "must be an object"},
    {"false", LAC_EINVAL, "must be an object"},
    {"{\"type\":\"date\"}", LAC_EINVAL, "type \"date\" is unknown"},
    {"{\"type\":7}", LAC_EINVAL, "type must be"},
    {"{\"type\":[]}", LAC_EINVAL, "allowed 1..16"},
    {"{\"type\":\"string\",\"pattern\":\"a+\"}", LAC_EUNSUPPORTED, "\"pattern\" is not supported"},
    {"{\"$ref\":\"#\"}", LAC_EUNSUPPORTED, "\"$ref\""},
    {"{\"properties\":{\"a\":{\"items\":{\"format\":\"date\"}}}}", LAC_EUNSUPPORTED,
     "at #/a/items: keyword \"format\""},
    {"{\"anyOf\":[{}],\"type\":\"string\"}", LAC_EUNSUPPORTED, "beside anyOf"},
    {"{\"anyOf\":[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}", LAC_EINVAL,
     "allowed 1..16"},
    {"{\"oneOf\":[{}]}", LAC_EUNSUPPORTED, "\"oneOf\""},
    {"{\"enum\":[]}", LAC_EINVAL, "allowed 1..256"},
    {"{\"enum\":[1],\"type\":\"string\"}", LAC_EINVAL, "no value of enum has the type"},
    {"{\"const\":{}}", LAC_EUNSUPPORTED, "object or array"},
    {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", LAC_EINVAL, "minItems is 3"},
    {"{\"type\":\"array\",\"minItems\":-1}", LAC_EINVAL, "minItems must be"},
    {"{\"type\":\"string\",\"maxLength\":1.5}", LAC_EINVAL, "maxLength must be"},
    {"{\"properties\":3}", LAC_EINVAL, "properties must be"},
    {"{\"properties\":{\"a\":{}},\"required\":[\"b\"]}", LAC_EINVAL, "required[0]"},
    {"{\"type\":\"object\",\"required\":[\"b\"]}", LAC_EINVAL, "required[0]"},
    {"{\"properties\":{\"a\":{}},\"required\":\"a\"}", LAC_EINVAL, "required must be"},
};

START_TEST(what_is_refused)
{
    lac_grammar *g = NULL;
    lac_error err = {0};
    const char *schema = refused[_i].schema;
    lac_status status = lac_grammar_create(schema, strlen(schema), &g, &err);
    ck_assert_msg(status == refused[_i].status, "%s: %d %s", schema, (int)status, err.text);
    ck_assert_msg(strstr(err.text, refused[_i].text) != NULL, "%s: %s", schema, err.text);
    ck_assert_ptr_null(g);
}
END_TEST

/* Deep, wide and long ones end in an error, not in the stack or the memory. */
START_TEST(hostile_schemas)
{
    static const char *const repeats[] = {"{\"items\":", "{\"anyOf\":[{},",
                                          "{\"properties\":{\"a\":", "[", "{\"a\":"};
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++) {
        lac_buf text = {0};
        while (text.length < LAC_GRAMMAR_BYTES_MAX - 20)
            lac_buf_text(&text, repeats[i]);
        lac_grammar *g = NULL;
        lac_error err = {0};
        ck_assert_int_ne(lac_grammar_create(text.data, text.length, &g, &err), LAC_OK);
        lac_buf_free(&text);
    }
    lac_buf text = {0};
    lac_buf_text(&text, "{\"properties\":{");
    for (int i = 0; i < 65; i++)
        lac_buf_printf(&text, "%s\"k%d\":{}", i ? "," : "", i);
    lac_buf_text(&text, "}}");
    lac_grammar *g = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_grammar_create(text.data, text.length, &g, &err), LAC_ETOOBIG);
    ck_assert_ptr_nonnull(strstr(err.text, "65 properties, allowed at most 64"));
    lac_buf_clear(&text);
    for (int depth = 15; depth <= 16; depth++) { /* as deep as allowed, and one more */
        lac_buf_clear(&text);
        for (int i = 0; i < depth; i++)
            lac_buf_text(&text, "{\"items\":");
        lac_buf_text(&text, "{}");
        for (int i = 0; i < depth; i++)
            lac_buf_text(&text, "}");
        lac_status status = lac_grammar_create(text.data, text.length, &g, &err);
        ck_assert_int_eq(status, depth == 15 ? LAC_OK : LAC_ETOOBIG);
        lac_grammar_destroy(&g);
    }
    lac_buf_free(&text);
}
END_TEST

static const char *const walked[] = {
    "{}",
    "{\"type\":\"object\"}",
    "{\"type\":\"array\",\"minItems\":2,\"items\":{\"anyOf\":[{\"type\":\"number\"},"
    "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}},{\"enum\":[1,12,123,\"x\"]}]}}",
    "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":4},\"b\":{\"type\":\"integer\"},"
    "\"c\":{\"type\":[\"null\",\"object\"]}},\"required\":[\"b\"],\"additionalProperties\":false}",
};

/* Whatever is chosen, something can follow, and a whole value is JSON. */
START_TEST(walks_end_in_json)
{
    lac_rng rng;
    lac_rng_seed(&rng, (uint64_t)_i + 1);
    lac_grammar *g = make(walked[(size_t)_i % 4]);
    static lac__place place, next, chosen;
    lac__place_start(g, &place);
    lac_buf text = {0};
    for (;;) {
        uint32_t count = 0;
        char taken = '\0';
        bool closing = false;
        for (unsigned b = 0; b < 256; b++) {
            if (!lac__place_feed(g, &place, (uint8_t)b, &next))
                continue;
            /* One of them by chance; late in the walk what closes, so that walks end. */
            bool closes = text.length > 100 && b && strchr("\"}]", (int)b);
            if ((lac_rng_below(&rng, ++count) > 0 && !closes) || closing)
                continue;
            closing = closes;
            lac__place_copy(&next, &chosen);
            taken = (char)b;
        }
        if (lac__place_complete(g, &place) && (count == 0 || text.length > 100))
            break;
        ck_assert_msg(count > 0, "stuck after %s", text.data);
        ck_assert_uint_lt(text.length, 1000);
        lac__place_copy(&chosen, &place);
        lac_buf_add(&text, &taken, 1);
    }
    json_error_t error;
    json_t *json = json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    ck_assert_msg(json != NULL, "%s: %s", error.text, text.data);
    json_decref(json);
    lac_buf_free(&text);
    lac_grammar_destroy(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grammar");
    TCase *tcase = tcase_create("grammar");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, what_may_follow, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tcase, what_is_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tcase, hostile_schemas);
    tcase_add_loop_test(tcase, walks_end_in_json, 0, 24);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
