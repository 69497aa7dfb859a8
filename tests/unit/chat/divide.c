/* Thoughts, content and calls of answers, whole and cut at every position: the parts are the same;
 * what looks like a call and is none comes back in full. */
#include "chat/divide.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parts.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}}]";

enum { CALLED = 1, ONE = 2, OPENED = 4, MARKED = 8, LLAMA = 16, MISTRAL = 32, PLAIN = 64 };

/* What is wanted: each part as "[kind]text", calls as "[n]name". */
static const struct {
    int how;
    const char *text, *want;
} cases[] = {
    {0, "Hello <world>, 1 < 2", "[c]Hello <world>, 1 < 2"},
    {0, "a<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "[c]a[n]add[a]{\"a\": 1}"},
    {0, "Sure.\n\n<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
     "[c]Sure.[n]add[a]{}"},
    {0,
     "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"s\": \"}</tool_call>\\\"{\", \"l\": "
     "[{}]}}\n"
     "</tool_call>\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"c\": "
     "\"\xc3\x89\"}}\n</tool_call>\n",
     "[n]add[a]{\"s\": \"}</tool_call>\\\"{\", \"l\": [{}]}[n]get_weather[a]{\"c\": \"\xc3\x89\"}"},
    {0,
     "<tool_call>{\"id\":\"x\",\"type\":\"function\",\"name\":\"add\",\"parameters\":{\"b\":2}, "
     "\"more\": [1,\"}\"]}</tool_call>after",
     "[n]add[a]{\"b\":2}[c]after"},
    {0, "<tool_call>{\"name\":\"add\",\"arguments\":{}} and more", "[n]add[a]{}[c]and more"},
    {ONE,
     "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>"
     "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
     "[n]add[a]{}"},
    /* Not calls. */
    {0, " <tool_call>{\"name\":\"subtract\",\"arguments\":{}}</tool_call>",
     "[c] <tool_call>{\"name\":\"subtract\",\"arguments\":{}}</tool_call>"},
    {0, "<tool_call>{\"name\":\"add\",\"arguments\":[]}",
     "[c]<tool_call>{\"name\":\"add\",\"arguments\":[]}"},
    {0, "<tool_call>{\"arguments\":{}}", "[c]<tool_call>{\"arguments\":{}}"},
    {0, "<tool_call>add(1)</tool_call>", "[c]<tool_call>add(1)</tool_call>"},
    {0, "<tool_call>{\"na\\u006de\":", "[c]<tool_call>{\"na\\u006de\":"},
    {0, "<tool_call><tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
     "[c]<tool_call>[n]add[a]{}"},
    {PLAIN, "<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>",
     "[c]<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>"},
    /* Cut by the end. */
    {0, "x <tool_c", "[c]x <tool_c"},
    {0, "x <tool_call>\n{\"name\": \"ad", "[c]x <tool_call>\n{\"name\": \"ad"},
    {0, "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\": [1, ", "[n]add[a]{\"a\": [1, "},
    {0, "trailing  \n", "[c]trailing  \n"},
    {0, "", ""},
    /* The prompt began the call. */
    {CALLED, "{\"name\": \"add\", \"arguments\": {\"a\": 1}}", "[n]add[a]{\"a\": 1}"},
    {CALLED | LLAMA, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}", "[n]add[a]{\"a\": 1}"},
    {CALLED | MISTRAL, "[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", "[n]add[a]{\"a\": 1}"},
    {CALLED | OPENED, "{\"name\": \"add\", \"arguments\": {}}", "[n]add[a]{}"},
    /* Llama: the whole answer or nothing. */
    {LLAMA, "{\"name\": \"add\", \"parameters\": {\"x\": \"{\"}}", "[n]add[a]{\"x\": \"{\"}"},
    {LLAMA,
     "<|python_tag|>{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"get_weather\", "
     "\"parameters\": {}}",
     "[n]add[a]{}[n]get_weather[a]{}"},
    {LLAMA, "{\"answer\": 42}", "[c]{\"answer\": 42}"},
    {LLAMA, "It is {\"name\": \"add\", \"parameters\": {}}",
     "[c]It is {\"name\": \"add\", \"parameters\": {}}"},
    /* Mistral. */
    {MISTRAL,
     "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": [1]}, \"id\": \"a}b\"}, "
     "{\"name\": \"get_weather\", \"arguments\": {}}]",
     "[n]add[a]{\"a\": [1]}[n]get_weather[a]{}"},
    {MISTRAL, "Well [TOOL_CALLS]nothing", "[c]Well [TOOL_CALLS]nothing"},
    {MISTRAL, "[1, 2] is a list", "[c][1, 2] is a list"},
    /* Thoughts. */
    {MARKED, "<think>\nHm.\n\nSo\n</think>\n\nIt is 4.", "[r]Hm.\n\nSo[c]It is 4."},
    {MARKED, "\n<think>\n\n</think>\n\nNo thoughts.", "[c]No thoughts."},
    {MARKED, " no <think>thoughts</think>", "[c] no <think>thoughts</think>"},
    {MARKED, "<think>cut \n", "[r]cut \n"},
    {MARKED, "<think>a < b </thin", "[r]a < b </thin"},
    {OPENED, "\nFirst\n</think>\n\nThen", "[r]First[c]Then"},
    {OPENED, "never ends", "[r]never ends"},
    {MARKED,
     "<think>add?</think>\n\n<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>",
     "[r]add?[n]add[a]{}"},
    /* Marks of the stream itself. */
    {0,
     "a\x10"
     "c\x10\x10",
     "[c]a\x10"
     "c\x10\x10"},
};

typedef struct {
    char text[2048];
    size_t length;
    lac_part last;
} shown;

static void show(void *arg, lac_part kind, const char *text, size_t length)
{
    shown *s = arg;
    if (kind != s->last || kind == LAC_PART_CALL)
        s->length +=
            (size_t)snprintf(s->text + s->length, sizeof s->text - s->length, "[%c]", kind);
    s->last = kind;
    ck_assert_uint_lt(s->length + length, sizeof s->text);
    memcpy(s->text + s->length, text, length);
    s->length += length;
    s->text[s->length] = '\0';
}

static lac_divider *divider_of(int how)
{
    lac_error err;
    lac_tools *tools = NULL;
    ck_assert_int_eq(lac_tools_create(tools_json, sizeof tools_json - 1, &tools, &err), LAC_OK);
    lac_divide_options options = {.form = how & PLAIN     ? LAC_CALLS_NONE
                                          : how & LLAMA   ? LAC_CALLS_LLAMA
                                          : how & MISTRAL ? LAC_CALLS_MISTRAL
                                                          : LAC_CALLS_HERMES,
                                  .tools = tools,
                                  .called = how & CALLED,
                                  .one_call = how & ONE,
                                  .thinks = how & OPENED   ? LAC_THINKS_OPENED
                                            : how & MARKED ? LAC_THINKS_MARKED
                                                           : LAC_THINKS_NOT};
    lac_divider *divider = lac_divider_create(&options);
    lac_tools_destroy(&tools);
    return divider;
}

/* The parts of the text cut after `first` bytes and then every `step` bytes. */
static void divide(int how, const char *text, size_t first, size_t step, shown *out)
{
    lac_divider *divider = divider_of(how);
    lac_parts_reader reader = {0};
    lac_buf parts = {0};
    size_t length = strlen(text);
    *out = (shown){0};
    for (size_t at = 0, size = first; at < length; at += size, size = step) {
        size = size < length - at ? size : length - at;
        lac_divider_add(divider, text + at, size, &parts);
        lac_parts_read(&reader, parts.data ? parts.data : "", parts.length, show, out);
        lac_buf_clear(&parts);
    }
    lac_divider_end(divider, &parts);
    lac_parts_read(&reader, parts.data ? parts.data : "", parts.length, show, out);
    ck_assert(lac_divider_done(divider));
    lac_buf_free(&parts);
    lac_divider_destroy(&divider);
}

START_TEST(every_cut_gives_the_same)
{
    const char *text = cases[_i].text;
    shown got;
    for (size_t step = 1; step < 4; step++) {
        divide(cases[_i].how, text, step, step, &got);
        ck_assert_str_eq(got.text, cases[_i].want);
    }
    for (size_t first = 1; first <= strlen(text) + 1; first++) {
        divide(cases[_i].how, text, first, 4096, &got);
        ck_assert_msg(strcmp(got.text, cases[_i].want) == 0, "cut at %zu: %s", first, got.text);
    }
}
END_TEST

/* Nothing of a mark, nor of a call's head, is out before it is known what it is. */
START_TEST(nothing_leaks)
{
    static const char text[] =
        "Hi <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
    lac_divider *divider = divider_of(0);
    lac_buf parts = {0};
    for (size_t i = 0; text[i] != '1'; i++) {
        lac_divider_add(divider, text + i, 1, &parts);
        ck_assert_msg(parts.length == 0 || !strstr(parts.data, "tool"), "%s", parts.data);
        ck_assert(!memchr(parts.data ? parts.data : "", '<', parts.length));
    }
    ck_assert(memmem(parts.data, parts.length, "add", 3) != NULL);
    lac_buf_free(&parts);
    lac_divider_destroy(&divider);
}
END_TEST

/* White space and heads have bounds, and they too do not depend on the cuts. */
START_TEST(bounds_hold)
{
    static char text[8192];
    shown whole, bytes;
    static const struct {
        int how, spaces, head;
    } sizes[] = {{0, 63, 0},      {0, 64, 0},      {0, 65, 0},       {0, 200, 0},
                 {MARKED, 64, 0}, {MARKED, 65, 0}, {LLAMA, 64, 0},   {LLAMA, 65, 0},
                 {0, 0, 900},     {0, 0, 1100},    {MISTRAL, 64, 0}, {MISTRAL, 65, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool mistral = sizes[i].how == MISTRAL;
        const char *mark = sizes[i].how == MARKED  ? "<think>x</think>"
                           : sizes[i].how == LLAMA ? ""
                           : mistral               ? "[TOOL_CALLS]"
                                                   : "<tool_call>";
        snprintf(text, sizeof text, "%s%*s%s%*s{\"name\": \"add\", %*s\"arguments\": {}}",
                 sizes[i].how ? "" : "x", mistral ? 0 : sizes[i].spaces, "", mark,
                 mistral ? sizes[i].spaces : 0, "", sizes[i].head, "");
        divide(sizes[i].how, text, sizeof text, 1, &whole);
        divide(sizes[i].how, text, 1, 1, &bytes);
        ck_assert_str_eq(whole.text, bytes.text);
    }
}
END_TEST

START_TEST(tools_are_checked)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"", "no JSON array"},
        {"{}", "no JSON array"},
        {"[]", "no JSON array"},
        {"[1]", "tools[0].function is missing"},
        {"[{\"function\":{}}]", "tools[0].function.name is missing"},
        {"[{\"function\":{\"name\":\"a b\"}}]", "malformed"},
        {"[{\"function\":{\"name\":\"a\",\"parameters\":[]}}]", "parameters is no object"},
        {"[{\"function\":{\"name\":\"a\"}},{\"function\":{\"name\":\"a\"}}]",
         "tools[1].function.name is that of tools[0]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lac_error err = {0};
        lac_tools *tools = NULL;
        ck_assert_int_eq(lac_tools_create(bad[i].json, strlen(bad[i].json), &tools, &err),
                         LAC_EINVAL);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s", err.text);
        ck_assert_ptr_null(tools);
    }
}
END_TEST

START_TEST(schemas_of_calls)
{
    static const char json[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{\"x\":{\"type\":\"number\",\"enum\":[0.1,1e300,2]}}}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{\"type\":\"object\","
        "\"properties\":{}}}}]";
    static const char f[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"f\"},\"arguments\":"
        "{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"number\", \"enum\": [0.1, "
        "1e+300, 2]}}}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":false}";
    lac_error err = {0};
    lac_tools *tools = NULL;
    ck_assert_int_eq(lac_tools_create(json, sizeof json - 1, &tools, &err), LAC_OK);
    lac_buf out = {0};
    ck_assert_int_eq(lac_tools_schema(tools, LAC_CALLS_HERMES, "f", &out, &err), LAC_OK);
    ck_assert_str_eq(out.data, f);
    lac_buf_clear(&out);
    ck_assert_int_eq(lac_tools_schema(tools, LAC_CALLS_MISTRAL, "g", &out, &err), LAC_OK);
    ck_assert_str_eq(out.data,
                     "{\"type\":\"array\",\"minItems\":1,\"maxItems\":1,\"items\":{\"type\":"
                     "\"object\",\"properties\":{\"name\":{\"const\":\"g\"},\"arguments\":"
                     "{\"type\":\"object\",\"additionalProperties\":false}},\"required\":["
                     "\"name\",\"arguments\"],\"additionalProperties\":false}}");
    lac_buf_clear(&out);
    ck_assert_int_eq(lac_tools_schema(tools, LAC_CALLS_LLAMA, NULL, &out, &err), LAC_OK);
    ck_assert_ptr_nonnull(strstr(out.data, "{\"anyOf\":[{"));
    ck_assert_ptr_nonnull(strstr(out.data, "\"parameters\":{\"type\":\"object\",\"additional"));
    lac_buf_clear(&out);
    ck_assert_int_eq(lac_tools_schema(tools, LAC_CALLS_HERMES, "h", &out, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "\"h\""));
    lac_buf_free(&out);
    lac_tools_destroy(&tools);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("divide");
    TCase *tests = tcase_create("divide");
    tcase_add_loop_test(tests, every_cut_gives_the_same, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, nothing_leaks);
    tcase_add_test(tests, bounds_hold);
    tcase_add_test(tests, tools_are_checked);
    tcase_add_test(tests, schemas_of_calls);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
