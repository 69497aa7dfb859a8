/* Features, the tree at both sides of every threshold, fingerprints, hints, the cache of decisions.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "suites.h"
#include "type.h"

static const char data_line[] = "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n";
static const char prose_line[] = "Nobody knew why the old bridge had been closed at all.\n";
static const char code_line[] = "    total += items[i].count * (n - 1);  // the rest\n";

static lac__features features_of(const char *text)
{
    lac__features features;
    lac__features_read(text, strlen(text), &features);
    return features;
}

static lac__fingerprint fingerprint_of(const char *text)
{
    lac_prompt prompt = {.kind = LAC_PROMPT_TEXT, .text = {text, (uint32_t)strlen(text)}};
    lac__fingerprint out;
    lac__fingerprint_of(&prompt, &out, NULL);
    return out;
}

/* ---- features ---- */

START_TEST(features_of_nothing)
{
    lac__features features;
    lac__features_read(NULL, 0, &features);
    for (int f = 0; f < LAC__FEATURES; f++)
        ck_assert_uint_eq(features.value[f], 0);
    ck_assert_int_eq(fingerprint_of("").type, LAC__TYPE_UNKNOWN);
    ck_assert_int_eq(fingerprint_of(" \n\t ").type, LAC__TYPE_UNKNOWN);
}
END_TEST

START_TEST(byte_classes_and_entropy)
{
    lac__features f = features_of("ab12 .\xc3\xa9\n\n");
    ck_assert_uint_eq(f.value[LAC__F_LETTERS], 200);
    ck_assert_uint_eq(f.value[LAC__F_DIGITS], 200);
    ck_assert_uint_eq(f.value[LAC__F_SPACE], 300);
    ck_assert_uint_eq(f.value[LAC__F_PUNCTUATION], 100);
    ck_assert_uint_eq(f.value[LAC__F_HIGH], 200);
    char all[1024];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)i;
    lac__features_read(all, sizeof all, &f);
    ck_assert_uint_ge(f.value[LAC__F_ENTROPY], 995); /* every byte as often: 8 bits */
    memset(all, 'x', sizeof all);
    lac__features_read(all, sizeof all, &f);
    ck_assert_uint_eq(f.value[LAC__F_ENTROPY], 0);
    ck_assert_uint_ge(f.value[LAC__F_REPEATS], 980);
    ck_assert_uint_eq(lac__features_entropy(&f), 0);
}
END_TEST

START_TEST(repetition_and_order)
{
    lac__features log = features_of("10:00:01 a=1\n10:22:05 b=2\n11:01:17 c=3\n12:41:40 d=9\n");
    lac__features text = features_of("Some say so.\nOthers, it seems, do not!\n(I do.)\nSo?\n");
    ck_assert_uint_eq(log.value[LAC__F_SHAPES], 750); /* three of four repeat the first */
    ck_assert_uint_lt(text.value[LAC__F_SHAPES], 300);
    ck_assert_uint_lt(log.value[LAC__F_COLUMNS] + 100, text.value[LAC__F_COLUMNS]);
    lac__features csv = features_of("a,b,c\n1,2,3\n4,5,6\n7,8,9\n");
    ck_assert_uint_eq(csv.value[LAC__F_DELIMITERS], 750);
    ck_assert_uint_eq(csv.value[LAC__F_TABLE], 1000);
}
END_TEST

START_TEST(marks)
{
    const struct {
        const char *text;
        lac__feature feature;
    } rows[] = {
        {"{\n  \"name\": \"x\",\n  \"n\": [\n    \"a\"\n  ]\n}\n", LAC__F_JSON},
        {"<a>\n  <b c=\"1\">x</b>\n</a>\n", LAC__F_XML},
        {"name: gate\nreplicas: 3\nports:\n  - 80\n  - 81\n", LAC__F_YAML},
        {"id\tname\tn\n1\tx\t7\n2\ty\t8\n", LAC__F_TABLE},
        {data_line, LAC__F_LOG},
        {"| a | b |\n|---|---|\n| 1 | 2 |\n", LAC__F_MARKDOWN_TABLE},
        {"int main(void)\n{\n    return f(1) + 2;\n}\n", LAC__F_CODE},
        {"def f(x):\n    \"\"\"Says what it does.\n\n    At length.\n    \"\"\"\n    return x\n",
         LAC__F_CODE},
        {"SELECT a, b\nFROM t\nWHERE a > 3\nORDER BY b;\n", LAC__F_CODE},
        {prose_line, LAC__F_PROSE},
        {"早晨我们到达时，旧港口很安静。没有人知道桥为什么关闭。\n", LAC__F_PROSE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lac__features f = features_of(rows[i].text);
        ck_assert_msg(f.value[rows[i].feature] >= 800, "%s is %u in:\n%s",
                      lac__feature_name(rows[i].feature), f.value[rows[i].feature], rows[i].text);
    }
}
END_TEST

/* A long text is judged by head, middle and tail: what lies between is not read. */
START_TEST(only_the_sample_is_read)
{
    enum { LENGTH = 1 << 20 };
    char *text = malloc(LENGTH);
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = prose_line[i % (sizeof prose_line - 1)];
    lac__features before, after;
    lac__features_read(text, LENGTH, &before);
    memset(text + LAC__HEAD_BYTES, 0xff, LENGTH / 4);
    lac__features_read(text, LENGTH, &after);
    ck_assert_mem_eq(&before, &after, sizeof before);
    memset(text + LENGTH / 2 - 64, 0xff, 128);
    lac__features_read(text, LENGTH, &after);
    ck_assert_mem_ne(&before, &after, sizeof before);
    free(text);
}
END_TEST

/* ---- the tree ---- */

static int depth_of(int row)
{
    if (row < 0)
        return 0;
    int low = depth_of(lac__tree[row].low), high = depth_of(lac__tree[row].high);
    return 1 + (low > high ? low : high);
}

START_TEST(tree_is_shallow)
{
    ck_assert_int_le(depth_of(0), LAC__TREE_DEPTH);
    bool named[LAC__TYPES] = {false};
    for (size_t i = 0; i < lac__tree_rows; i++) {
        ck_assert_uint_lt(lac__tree[i].feature, LAC__FEATURES);
        ck_assert_uint_lt(lac__tree[i].at_most, 1000);
        for (int k = 0; k < 2; k++) {
            int child = k ? lac__tree[i].high : lac__tree[i].low;
            ck_assert_int_lt(child, (int)lac__tree_rows);
            ck_assert(child < 0 || child > (int)i);
            if (child < 0)
                named[-child] = true;
        }
    }
    for (int t = LAC__TYPE_STRUCTURED; t < LAC__TYPES; t++)
        ck_assert(named[t]);
}
END_TEST

/* `n` lines of which `k` are `a`, evenly spread in blocks as in a document. */
static void blend(const char *a, const char *b, int k, int n, lac_buf *out)
{
    lac_buf_clear(out);
    for (int i = 0; i < n; i++)
        lac_buf_text(out, i < k ? a : b);
}

/* True when the walk passes `row`; then its next step is in *child. */
static bool passes(const lac__features *f, int row, int *child)
{
    int at = 0;
    while (at >= 0) {
        const lac__tree_row *r = &lac__tree[at];
        int next = f->value[r->feature] <= r->at_most ? r->low : r->high;
        if (at == row) {
            *child = next;
            return true;
        }
        at = next;
    }
    return false;
}

/* For every row texts that come close to its threshold from both sides and go different ways. */
START_TEST(texts_on_both_sides_of_every_threshold)
{
    enum { LINES = 60, CLOSE = 40 };
    const char *const lines[] = {data_line, prose_line, code_line};
    lac_buf text = {0};
    for (int row = 0; row < (int)lac__tree_rows; row++) {
        const lac__tree_row *r = &lac__tree[row];
        bool low = false, high = false;
        for (int pair = 0; pair < 9; pair++) {
            for (int k = 0; k <= LINES; k++) {
                blend(lines[pair / 3], lines[pair % 3], k, LINES, &text);
                lac__features f = features_of(text.data);
                int child, value = f.value[r->feature];
                if (!passes(&f, row, &child) || abs(value - r->at_most) > CLOSE)
                    continue;
                ck_assert_int_eq(child, value <= r->at_most ? r->low : r->high);
                if (child < 0)
                    ck_assert_int_eq(lac__type_of(&f), -child);
                (value <= r->at_most ? &low : &high)[0] = true;
            }
        }
        ck_assert_msg(low && high, "row %d (%s at most %u): reached below %d, above %d", row,
                      lac__feature_name(r->feature), r->at_most, low, high);
    }
    lac_buf_free(&text);
}
END_TEST

/* And exactly at it: the value itself belongs below, one more above. */
START_TEST(values_at_every_threshold)
{
    for (size_t row = 0; row < lac__tree_rows; row++) {
        const lac__tree_row *r = &lac__tree[row];
        for (int k = 0; k < 2; k++) {
            lac__features f = {0};
            /* Every other row's value such that the walk goes towards this one. */
            for (size_t up = row; up-- > 0;)
                f.value[lac__tree[up].feature] =
                    lac__tree[up].low >= 0 ? lac__tree[up].at_most : lac__tree[up].at_most + 1;
            f.value[r->feature] = (uint16_t)(r->at_most + k);
            int child;
            ck_assert(passes(&f, (int)row, &child));
            ck_assert_int_eq(child, k ? r->high : r->low);
            char reason[256];
            lac__type_reason(&f, reason, sizeof reason);
            char step[64];
            snprintf(step, sizeof step, "%s %u %s %u", lac__feature_name(r->feature),
                     r->at_most + (unsigned)k, k ? ">" : "<=", r->at_most);
            ck_assert_ptr_nonnull(strstr(reason, step));
        }
    }
}
END_TEST

/* ---- fingerprints ---- */

START_TEST(hints)
{
    const struct {
        const char *text;
        lac__hint hint;
    } rows[] = {
        {"Summarize the text below.", LAC__HINT_SUMMARIZE},
        {"Fasse den Text zusammen.", LAC__HINT_SUMMARIZE},
        {"Résumez ce texte.", LAC__HINT_SUMMARIZE},
        {"ÉCRIS un poème", LAC__HINT_GENERATE},
        {"请总结下面的文章", LAC__HINT_SUMMARIZE},
        {"次の文章を要約してください", LAC__HINT_SUMMARIZE},
        {"Извлеки все даты", LAC__HINT_EXTRACT},
        {"СРАВНИ два файла", LAC__HINT_COMPARE},
        {"Extract all dates", LAC__HINT_EXTRACT},
        {"Compare A with B", LAC__HINT_COMPARE},
        {"Vergleiche die Angebote", LAC__HINT_COMPARE},
        {"classify this ticket", LAC__HINT_CLASSIFY},
        {"Clasifica este texto", LAC__HINT_CLASSIFY},
        {"Write a poem about rain", LAC__HINT_GENERATE},
        {"What is the capital of Norway?", LAC__HINT_NONE},
        {"In general the resume of a general is long", LAC__HINT_NONE},
        {"I reclassify nothing, inextract nothing", LAC__HINT_NONE}, /* inside of words */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(lac__hint_of(rows[i].text, strlen(rows[i].text)) == rows[i].hint, "%s: %s",
                      rows[i].text,
                      lac__hint_name(lac__hint_of(rows[i].text, strlen(rows[i].text))));
}
END_TEST

START_TEST(hint_behind_a_long_text)
{
    lac_buf text = {0};
    for (int i = 0; i < 400; i++)
        lac_buf_text(&text, data_line);
    lac_buf_text(&text, "\nExtract the slowest request.");
    lac__fingerprint f = fingerprint_of(text.data);
    ck_assert_int_eq(f.hint, LAC__HINT_EXTRACT);
    ck_assert_int_eq(f.type, LAC__TYPE_STRUCTURED);
    lac_buf_free(&text);
}
END_TEST

START_TEST(urgency_and_manner_change_nothing)
{
    static const char *const before[] = {"URGENT: ", "please, ", "ASAP! Hurry up! ", "Dringend: ",
                                         "Срочно! ", "紧急：",   "Be creative. "};
    static const char *const after[] = {" as soon as possible!", " Thanks!!", "\n\nURGENT",
                                        ". Temperature 0.",      " bitte",    " por favor. Asap."};
    /* Lengths around the border of the first bucket, 128 tokens of four bytes. */
    for (int length = 500; length < 530; length++) {
        char text[600];
        for (int i = 0; i < length; i++)
            text[i] = prose_line[i % (int)(sizeof prose_line - 1)];
        text[length] = 0;
        lac__fingerprint plain = fingerprint_of(text);
        lac_digest key, other;
        lac__fingerprint_key(&plain, &key);
        for (size_t i = 0; i < 13; i++) {
            char said[800];
            bool front = i < 7;
            snprintf(said, sizeof said, "%s%s%s", front ? before[i] : "", text,
                     front ? "" : after[i - 7]);
            lac__fingerprint f = fingerprint_of(said);
            lac__fingerprint_key(&f, &other);
            ck_assert_msg(!memcmp(&key, &other, sizeof key), "changed by \"%s\" at %d bytes",
                          front ? before[i] : after[i - 7], length);
        }
    }
}
END_TEST

START_TEST(judged_by_the_largest_user_message)
{
    char log[4096] = "";
    for (int i = 0; i < 40; i++)
        strcat(log, data_line);
    lac_chat_message messages[] = {
        {.role = "system", .content = {prose_line, sizeof prose_line - 1}},
        {.role = "user", .content = {log, (uint32_t)strlen(log)}},
        {.role = "assistant", .content = {log, (uint32_t)strlen(log)}},
        {.role = "user", .content = {"Compare the hours.", 18}},
    };
    lac_prompt prompt = {.kind = LAC_PROMPT_CHAT, .messages_count = 4, .messages = messages};
    lac__fingerprint f;
    lac__features features;
    lac__fingerprint_of(&prompt, &f, &features);
    ck_assert_int_eq(f.type, LAC__TYPE_STRUCTURED);
    ck_assert_int_eq(f.hint, LAC__HINT_COMPARE);
    ck_assert_uint_eq(features.value[LAC__F_LOG], 1000);
    ck_assert_uint_eq(lac__bucket_tokens(f.bucket), 2048);
    messages[1].content = messages[0].content; /* now the assistant's log must not count */
    lac__fingerprint_of(&prompt, &f, NULL);
    ck_assert_int_eq(f.type, LAC__TYPE_UNSTRUCTURED);

    uint32_t ids[200] = {0};
    lac_prompt tokens = {.kind = LAC_PROMPT_IDS, .ids_count = 200, .ids = ids};
    lac__fingerprint_of(&tokens, &f, NULL);
    ck_assert_int_eq(f.type, LAC__TYPE_UNKNOWN);
    ck_assert_uint_eq(lac__bucket_tokens(f.bucket), 512);
}
END_TEST

START_TEST(keys_tell_fingerprints_apart)
{
    enum { ALL = LAC__TYPES * LAC__HINTS * LAC__BUCKETS };
    static lac_digest keys[ALL];
    int n = 0;
    for (int t = 0; t < LAC__TYPES; t++)
        for (int h = 0; h < LAC__HINTS; h++)
            for (int b = 0; b < LAC__BUCKETS; b++)
                lac__fingerprint_key(&(lac__fingerprint){(lac__type)t, (lac__hint)h, (uint8_t)b},
                                     &keys[n++]);
    for (int i = 0; i < ALL; i++)
        for (int j = 0; j < i; j++)
            ck_assert_mem_ne(&keys[i], &keys[j], sizeof keys[i]);
}
END_TEST

/* ---- decisions ---- */

static lac__decision_key key_of(uint32_t fingerprint, uint32_t plan, uint32_t model)
{
    lac__decision_key key;
    lac_sha256(&fingerprint, sizeof fingerprint, &key.fingerprint);
    lac_sha256(&plan, sizeof plan, &key.plan);
    lac_sha256(&model, sizeof model, &key.model);
    return key;
}

START_TEST(decisions_by_the_whole_key)
{
    lac__decisions *cache = lac__decisions_create(8);
    lac__decision_key key = key_of(1, 2, 3);
    lac__decision got = {0};
    ck_assert(!lac__decisions_find(cache, &key, &got));
    lac__decisions_put(cache, &key, &(lac__decision){5, 1});
    lac__decisions_put(cache, &key, &(lac__decision){6, 2});
    ck_assert(lac__decisions_find(cache, &key, &got));
    ck_assert_uint_eq(got.class_number, 6);
    ck_assert_uint_eq(lac__decisions_count(cache), 1);
    /* Any bit of any of the three digests makes it another entry. */
    for (size_t bit = 0; bit < sizeof key * 8; bit++) {
        lac__decision_key other = key;
        ((uint8_t *)&other)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(!lac__decisions_find(cache, &other, &got));
    }
    lac__decisions_clear(cache);
    ck_assert(!lac__decisions_find(cache, &key, &got));
    lac__decisions_destroy(&cache);
    ck_assert_ptr_null(cache);
    lac__decisions_destroy(&cache);
}
END_TEST

START_TEST(decisions_are_bounded)
{
    enum { BOUND = 16 };
    lac__decisions *cache = lac__decisions_create(BOUND);
    lac__decision_key kept = key_of(0, 0, 0);
    lac__decision got;
    lac__decisions_put(cache, &kept, &(lac__decision){9, 0});
    for (uint32_t i = 1; i < 1000; i++) {
        ck_assert(lac__decisions_find(cache, &kept, &got)); /* asked for again and again: stays */
        ck_assert_uint_eq(got.class_number, 9);
        lac__decision_key key = key_of(i, 0, 0);
        lac__decisions_put(cache, &key, &(lac__decision){(uint8_t)(i % 16), 0});
        ck_assert_uint_le(lac__decisions_count(cache), BOUND);
    }
    unsigned found = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        lac__decision_key key = key_of(i, 0, 0);
        found += lac__decisions_find(cache, &key, &got);
    }
    ck_assert_uint_eq(found, BOUND);
    lac__decisions_destroy(&cache);
}
END_TEST

static TCase *types_case(void)
{
    TCase *tc = tcase_create("types");
    tcase_add_test(tc, features_of_nothing);
    tcase_add_test(tc, byte_classes_and_entropy);
    tcase_add_test(tc, repetition_and_order);
    tcase_add_test(tc, marks);
    tcase_add_test(tc, only_the_sample_is_read);
    tcase_add_test(tc, tree_is_shallow);
    tcase_add_test(tc, texts_on_both_sides_of_every_threshold);
    tcase_add_test(tc, values_at_every_threshold);
    tcase_add_test(tc, hints);
    tcase_add_test(tc, hint_behind_a_long_text);
    tcase_add_test(tc, urgency_and_manner_change_nothing);
    tcase_add_test(tc, judged_by_the_largest_user_message);
    tcase_add_test(tc, keys_tell_fingerprints_apart);
    tcase_add_test(tc, decisions_by_the_whole_key);
    tcase_add_test(tc, decisions_are_bounded);
    return tc;
}

/* `--heldout FILE`: the held-out texts alone. */
int main(int argc, char **argv)
{
    Suite *suite = suite_create("core_types");
    if (argc == 3 && !strcmp(argv[1], "--heldout")) {
        heldout_path = argv[2];
        suite_add_tcase(suite, heldout_case());
    } else {
        suite_add_tcase(suite, types_case());
        suite_add_tcase(suite, speed_case());
        suite_add_tcase(suite, guard_case());
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
