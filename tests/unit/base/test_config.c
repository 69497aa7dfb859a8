/* Options: precedence of the four sources, every kind of wrong value, words, help and sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "suites.h"

typedef struct {
    char name[9];
    int64_t port, memory;
    double ratio;
    bool loud;
    int untouched;
} options;

static const lac_option table[] = {
    {"name", LAC_OPT_STRING, offsetof(options, name), sizeof(((options *)0)->name),
     .preset = "preset", .value = "NAME", .help = "What it is called"},
    {"http-port", LAC_OPT_INT, offsetof(options, port), .preset = "80", .low = 0, .high = 65535,
     .live = true, .value = "N", .help = "Where it listens"},
    {"memory", LAC_OPT_SIZE, offsetof(options, memory), .low = 0, .high = 8589934592.0,
     .help = "How much"},
    {"ratio", LAC_OPT_NUMBER, offsetof(options, ratio), .preset = "0.5", .low = 0, .high = 1,
     .help = "A share"},
    {"loud", LAC_OPT_BOOL, offsetof(options, loud), .help = "Says more"},
};
enum { COUNT = sizeof(table) / sizeof(table[0]), ARGS_MAX = 12 };

static lac_error err;
static const char *words[2];
static size_t words_count;

/* Loads with the arguments up to a NULL. */
static lac_status load(options *out, const char *const *args)
{
    char *argv[ARGS_MAX + 1] = {(char *)"program"};
    int argc = 1;
    for (; args[argc - 1] != NULL; argc++)
        argv[argc] = (char *)args[argc - 1]; /* only read */
    err.status = LAC_OK;
    err.text[0] = '\0';
    return lac_config_load(table, COUNT, argc, argv, out, words, 2, &words_count, &err);
}
#define LOAD(out, ...) load(out, (const char *[]){__VA_ARGS__, NULL})

static char path[64];

static char *file_with(const char *text)
{
    snprintf(path, sizeof(path), "/tmp/lacuna-config-test-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void environment_clear(void)
{
    unsetenv("LACUNA_NAME");
    unsetenv("LACUNA_HTTP_PORT");
    unsetenv("LACUNA_MEMORY");
    unsetenv("LACUNA_RATIO");
    unsetenv("LACUNA_LOUD");
}

static void file_remove(void)
{
    if (path[0] != '\0')
        unlink(path);
}

START_TEST(presets_fill_what_nobody_sets)
{
    options o;
    memset(&o, 0x7f, sizeof(o));
    ck_assert_int_eq(load(&o, (const char *[]){NULL}), LAC_OK);
    ck_assert_str_eq(o.name, "preset");
    ck_assert_int_eq(o.port, 80);
    ck_assert_int_eq(o.memory, 0);
    ck_assert_double_eq(o.ratio, 0.5);
    ck_assert(!o.loud);
    ck_assert_int_eq(o.untouched, 0x7f7f7f7f);
    ck_assert_uint_eq(words_count, 0);
}
END_TEST

START_TEST(later_sources_win)
{
    options o = {0};
    char *file = file_with("; a comment\nname = file\nhttp-port = 1\nratio=0.1\nloud = yes\n");
    setenv("LACUNA_HTTP_PORT", "2", 1);
    setenv("LACUNA_RATIO", "0.2", 1);
    ck_assert_msg(LOAD(&o, "--ratio", "0.3", "--config", file) == LAC_OK, "%s", err.text);
    ck_assert_str_eq(o.name, "file");
    ck_assert_int_eq(o.port, 2);
    ck_assert_double_eq(o.ratio, 0.3);
    ck_assert(o.loud);
    ck_assert_int_eq(LOAD(&o, "--config", file, "--loud=off", "--http-port=3"), LAC_OK);
    ck_assert(!o.loud);
    ck_assert_int_eq(o.port, 3);
    ck_assert_int_eq(LOAD(&o, "--name", "a", "--name=b"), LAC_OK);
    ck_assert_str_eq(o.name, "b");
}
END_TEST

START_TEST(words_are_left_to_the_program)
{
    options o = {0};
    ck_assert_int_eq(LOAD(&o, "submit", "--loud", "hello there"), LAC_OK);
    ck_assert_uint_eq(words_count, 2);
    ck_assert_str_eq(words[0], "submit");
    ck_assert_str_eq(words[1], "hello there");
    ck_assert(o.loud); /* a flag of its own, the word after it is no value */
    ck_assert_int_eq(LOAD(&o, "-", "--", "--loud"), LAC_OK);
    ck_assert_str_eq(words[1], "--loud");
    ck_assert(!o.loud);
    ck_assert_int_eq(LOAD(&o, "a", "b", "surplus"), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "surplus"));
}
END_TEST

/* Every wrong command line leaves the struct alone and names what is wrong. */
static void expect_bad(const char *const *args, const char *named, const char *also)
{
    options o, before;
    memset(&o, 0x11, sizeof(o));
    before = o;
    ck_assert_int_eq(load(&o, args), LAC_EINVAL);
    ck_assert_msg(strstr(err.text, named) != NULL && strstr(err.text, also) != NULL, "%s",
                  err.text);
    ck_assert_mem_eq(&o, &before, sizeof(o));
}
#define BAD(named, also, ...) expect_bad((const char *[]){__VA_ARGS__, NULL}, named, also)

START_TEST(wrong_flags_name_option_value_and_range)
{
    BAD("--nonsense", "not known", "--nonsense");
    BAD("--nam", "not known", "--nam", "x");
    BAD("-x", "not known", "-x");
    BAD("--name", "needs a value", "--name");
    BAD("--config", "needs a value", "--config");
    BAD("--name", "9 bytes", "--name", "123456789");
    BAD("--http-port", "65535", "--http-port", "65536");
    BAD("--http-port", "-1", "--http-port=-1");
    BAD("--http-port", "\"8080x\"", "--http-port", "8080x");
    BAD("--http-port", "\"\"", "--http-port=");
    BAD("--ratio", "1.5", "--ratio", "1.5");
    BAD("--ratio", "nan", "--ratio", "nan");
    BAD("--loud", "maybe", "--loud=maybe");
    BAD("--memory", "size", "--memory", "12Q");
    BAD("--memory", "size", "--memory", "K");
    BAD("--memory", "size", "--memory", "-1K");
    BAD("--memory", "8589934592", "--memory", "9G");
    BAD("--memory", "size", "--memory", "9223372036854775807G");
}
END_TEST

START_TEST(sizes_have_binary_suffixes)
{
    options o = {0};
    ck_assert_int_eq(LOAD(&o, "--memory", "3"), LAC_OK);
    ck_assert_int_eq(o.memory, 3);
    ck_assert_int_eq(LOAD(&o, "--memory", "3k"), LAC_OK);
    ck_assert_int_eq(o.memory, 3 << 10);
    ck_assert_int_eq(LOAD(&o, "--memory", "3M"), LAC_OK);
    ck_assert_int_eq(o.memory, 3 << 20);
    ck_assert_int_eq(LOAD(&o, "--memory", "8G"), LAC_OK);
    ck_assert_int_eq(o.memory, INT64_C(8) << 30);
}
END_TEST

START_TEST(wrong_environment_is_named)
{
    options o = {0};
    setenv("LACUNA_HTTP_PORT", "many", 1);
    ck_assert_int_eq(load(&o, (const char *[]){NULL}), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "LACUNA_HTTP_PORT"));
    ck_assert_ptr_nonnull(strstr(err.text, "many"));
}
END_TEST

START_TEST(wrong_files_are_named_with_the_line)
{
    char longest[400];
    memset(longest, 'n', sizeof(longest));
    memcpy(longest, "name = ", 7);
    longest[sizeof(longest) - 2] = '\n';
    longest[sizeof(longest) - 1] = '\0';
    const struct {
        const char *text, *named;
    } cases[] = {{"name = ok\nnonsense = 1\n", "line 2: option \"nonsense\""},
                 {"\n\nhttp-port = 99999\n", "line 3: http-port is 99999"},
                 {"[lacuna]\nname = x\n", "section"},
                 {"name = a\nname = b\n", "line 2: name is given twice"},
                 {"just words\n", "line 1"},
                 {longest, "line 1 is longer"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options o;
        memset(&o, 0x11, sizeof(o));
        options before = o;
        char *file = file_with(cases[i].text);
        ck_assert_int_eq(LOAD(&o, "--config", file), LAC_EINVAL);
        ck_assert_msg(strstr(err.text, cases[i].named) != NULL && strstr(err.text, file) != NULL,
                      "%s: %s", cases[i].named, err.text);
        ck_assert_mem_eq(&o, &before, sizeof(o));
    }
    options o = {0};
    ck_assert_int_eq(LOAD(&o, "--config", "/nonexistent/x"), LAC_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/x"));
}
END_TEST

static char *text_of(void (*writer)(const lac_option *, size_t, FILE *))
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    writer(table, COUNT, to);
    fclose(to);
    return text;
}

START_TEST(help_names_every_option_once)
{
    char *help = text_of(lac_config_help);
    for (size_t i = 0; i < COUNT; i++) {
        char flag[64];
        snprintf(flag, sizeof(flag), "  --%s", table[i].name);
        ck_assert_ptr_nonnull(strstr(help, flag));
        ck_assert_ptr_nonnull(strstr(help, table[i].help));
    }
    ck_assert_ptr_nonnull(strstr(help, "(default 80, 0 to 65535)"));
    ck_assert_ptr_nonnull(strstr(help, "--config FILE"));
    free(help);
}
END_TEST

START_TEST(the_sample_file_sets_the_presets)
{
    char *sample = text_of(lac_config_sample);
    /* Uncommented, it must load and change nothing. */
    for (char *p = sample; (p = strstr(p, "\n#")) != NULL;)
        if (p[2] != ' ')
            memmove(p + 1, p + 2, strlen(p + 2) + 1);
        else
            p++;
    options plain = {0}, sampled = {0};
    ck_assert_int_eq(load(&plain, (const char *[]){NULL}), LAC_OK);
    char *file = file_with(sample);
    ck_assert_msg(LOAD(&sampled, "--config", file) == LAC_OK, "%s", err.text);
    ck_assert_ptr_nonnull(strstr(sample, "\nhttp-port = 80\n"));
    ck_assert_ptr_nonnull(strstr(sample, "(may change while running)"));
    ck_assert_str_eq(plain.name, sampled.name);
    ck_assert_int_eq(plain.port, sampled.port);
    ck_assert_double_eq(plain.ratio, sampled.ratio);
    free(sample);
}
END_TEST

/* ---- sections ---- */

static char seen[256];

static lac_status note_section(void *arg, const char *section, const void *fields, lac_error *error)
{
    const options *o = fields;
    size_t used = strlen(seen);
    (void)arg;
    snprintf(seen + used, sizeof seen - used, "%s:%s:%d:%d;", section, o->name, (int)o->port,
             o->loud);
    return strcmp(section, "no") ? LAC_OK : lac_fail(error, LAC_EEXIST, "not that one");
}

static lac_status sections(const char *text)
{
    seen[0] = 0;
    err.text[0] = '\0';
    return lac_config_sections(table, COUNT, sizeof(options), file_with(text), note_section, NULL,
                               &err);
}

START_TEST(sections_are_filled_one_by_one)
{
    ck_assert_msg(
        sections("[a]\nname = x\nhttp-port = 7\n[empty]\n; only words\n[*]\nloud = on\n") == LAC_OK,
        "%s", err.text);
    ck_assert_str_eq(seen, "a:x:7:0;*:preset:80:1;");
    ck_assert_int_eq(sections(""), LAC_OK);
    ck_assert_str_eq(seen, "");
}
END_TEST

START_TEST(wrong_sections_are_named)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"name = x\n[a]\n", "line 1: name stands before the first [NAME]"},
        {"[a]\nhue = red\n", "line 2: option \"hue\" is not known"},
        {"[a]\nname = x\nname = y\n", "line 3: name is given twice"},
        {"[a]\nhttp-port = 70000\n", "line 2: http-port is 70000, allowed 0 to 65535"},
        {"[a]\nname\n", "line 2"},
        {"[no]\nname = x\n", "section [no]: not that one"},
        {"[aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff]\nname = x\n", "too long"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_ne(sections(bad[i].text), LAC_OK);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%zu: %s", i, err.text);
    }
    ck_assert_int_eq(lac_config_sections(table, COUNT, sizeof(options), "/nonexistent/f",
                                         note_section, NULL, &err),
                     LAC_EIO);
}
END_TEST

Suite *suite_config(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");
    tcase_add_checked_fixture(tc, environment_clear, file_remove);
    tcase_add_test(tc, presets_fill_what_nobody_sets);
    tcase_add_test(tc, later_sources_win);
    tcase_add_test(tc, words_are_left_to_the_program);
    tcase_add_test(tc, wrong_flags_name_option_value_and_range);
    tcase_add_test(tc, sizes_have_binary_suffixes);
    tcase_add_test(tc, wrong_environment_is_named);
    tcase_add_test(tc, wrong_files_are_named_with_the_line);
    tcase_add_test(tc, help_names_every_option_once);
    tcase_add_test(tc, the_sample_file_sets_the_presets);
    tcase_add_test(tc, sections_are_filled_one_by_one);
    tcase_add_test(tc, wrong_sections_are_named);
    suite_add_tcase(suite, tc);
    return suite;
}
