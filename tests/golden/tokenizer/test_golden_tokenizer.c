/* Our ids against the reference implementation's, for every golden text, and the way back to the
 * same bytes. The small vocabularies lie beside the goldens; smollm2.json belongs to the default
 * model, gemma.json to Gemma 3 270M, and each is skipped where its file is absent. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tokenizer/tokenizer.h"

#define FOLDER LAC_SOURCE_DIR "/tests/golden/tokenizer/"

static const char *const small[] = {"gpt-2", "smollm",    "llama-bpe",
                                    "qwen2", "spm-plain", "spm-prefix"};

/* A model's file, or NULL: what the environment variable names, else the file in the cache. */
static const char *model_path(const char *variable, const char *name)
{
    static char path[4096];
    const char *named = getenv(variable), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (named && *named)
        snprintf(path, sizeof path, "%s", named);
    else if (cache && *cache)
        snprintf(path, sizeof path, "%s/lacuna/%s", cache, name);
    else
        snprintf(path, sizeof path, "%s/.cache/lacuna/%s", home ? home : "", name);
    return access(path, R_OK) == 0 ? path : NULL;
}

static void check_round_trip(const lac_tokenizer *tokenizer, const char *what, const uint32_t *ids,
                             size_t count, const char *text, size_t length)
{
    lac_buf back = {0};
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        size_t n;
        lac_tokenizer_piece(tokenizer, ids[i], true, &bytes, &n);
        lac_buf_add(&back, bytes, n);
    }
    ck_assert_msg(back.length == length && (length == 0 || memcmp(back.data, text, length) == 0),
                  "%s: decoding gives other bytes (%zu, text has %zu)", what, back.length, length);
    lac_buf_free(&back);
}

/* `prefix`: the model puts spaces before texts, so they do not come back as they were. */
static void check_text(const lac_tokenizer *tokenizer, const char *golden, const json_t *row,
                       bool special, bool prefix)
{
    const char *text = json_string_value(json_object_get(row, "text"));
    size_t length = json_string_length(json_object_get(row, "text"));
    const json_t *want = json_object_get(row, special ? "special_ids" : "ids");
    char what[160];
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    ck_assert_ptr_nonnull(text);
    ck_assert(json_is_array(want));
    snprintf(what, sizeof what, "%s, \"%s\"%s", golden,
             json_string_value(json_object_get(row, "name")), special ? ", special" : "");
    lac_status status = lac_tokenizer_encode(
        tokenizer, text, length, (lac_encode_options){.special = special}, &ids, &count, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s", what, err.text);
    for (size_t i = 0; i < count && i < json_array_size(want); i++) {
        json_int_t id = json_integer_value(json_array_get(want, i));
        ck_assert_msg(ids[i] == id, "%s: token %zu is %u, golden %lld", what, i, ids[i],
                      (long long)id);
    }
    ck_assert_msg(count == json_array_size(want), "%s: %zu tokens, golden %zu", what, count,
                  json_array_size(want));
    if (!prefix)
        check_round_trip(tokenizer, what, ids, count, text, length);
    free(ids);
}

static void check_golden(const char *name, const char *gguf_path)
{
    char path[4096];
    json_error_t at;
    lac_error err = {0};
    lac_gguf *gguf = NULL;
    lac_tokenizer *tokenizer = NULL;
    snprintf(path, sizeof path, FOLDER "%s.json", name);
    json_t *golden = json_load_file(path, JSON_ALLOW_NUL, &at);
    ck_assert_msg(golden != NULL, "%s: %s", path, at.text);
    snprintf(path, sizeof path, FOLDER "%s.gguf", name);
    ck_assert_msg(lac_gguf_open(gguf_path ? gguf_path : path, &gguf, &err) == LAC_OK, "%s",
                  err.text);
    ck_assert_msg(lac_tokenizer_create(gguf, &tokenizer, &err) == LAC_OK, "%s", err.text);
    const json_t *texts = json_object_get(golden, "texts");
    ck_assert_uint_ge(json_array_size(texts), 30);
    bool prefix = json_is_true(json_object_get(golden, "prefix"));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        check_text(tokenizer, name, json_array_get(texts, i), false, prefix);
        check_text(tokenizer, name, json_array_get(texts, i), true, prefix);
    }
    lac_tokenizer_destroy(&tokenizer);
    lac_gguf_close(&gguf);
    json_decref(golden);
}

START_TEST(small_vocabulary)
{
    check_golden(small[_i], NULL);
}
END_TEST

static void check_model(const char *golden, const char *variable, const char *file)
{
    const char *path = model_path(variable, file);
    if (path)
        check_golden(golden, path);
    else
        printf("%s absent: %s.json not checked\n", file, golden);
}

START_TEST(default_model)
{
    check_model("smollm2", "LACUNA_TEST_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf");
}
END_TEST

START_TEST(gemma)
{
    check_model("gemma", "LACUNA_TEST_GEMMA", "gemma-3-270m-q4_k_m.gguf");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden tokenizer");
    TCase *tcase = tcase_create("golden");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, small_vocabulary, 0, sizeof small / sizeof small[0]);
    tcase_add_test(tcase, default_model);
    tcase_add_test(tcase, gemma);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
