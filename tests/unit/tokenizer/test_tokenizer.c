/* What the tokenizer promises beside the golden ids: special and user-defined tokens, bytes that
 * are no UTF-8, named tokens, limits, and clear errors for bent metadata. */
#include <check.h>

#include "base/limits.h"
#include "gguf_builder.h"
#include "tokenizer/tokenizer.h"

static lac_buf file_bytes;
static lac_gguf *gguf;
static lac_tokenizer *tokenizer;

static void tiny(builder *b)
{
    build_init(b);
    build_tiny_tokenizer(b);
}

static lac_status create(builder *b, lac_error *err)
{
    build_finish(b, &file_bytes);
    build_free(b);
    ck_assert_int_eq(lac_gguf_parse(file_bytes.data, file_bytes.length, &gguf, err), LAC_OK);
    return lac_tokenizer_create(gguf, &tokenizer, err);
}

static void must_create(builder *b)
{
    lac_error err = {0};
    ck_assert_msg(create(b, &err) == LAC_OK, "%s", err.text);
}

static void destroy(void)
{
    lac_tokenizer_destroy(&tokenizer);
    ck_assert_ptr_null(tokenizer);
    lac_tokenizer_destroy(&tokenizer);
    lac_gguf_close(&gguf);
    lac_buf_free(&file_bytes);
}

/* Encodes and compares with ids given as text: "4 2 6". */
static void expect(const char *text, size_t length, lac_encode_options options, const char *want)
{
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    lac_buf got = {0};
    ck_assert_msg(lac_tokenizer_encode(tokenizer, text, length, options, &ids, &count, &err) ==
                      LAC_OK,
                  "%s", err.text);
    lac_buf_text(&got, "");
    for (size_t i = 0; i < count; i++)
        lac_buf_printf(&got, "%s%u", i ? " " : "", ids[i]);
    ck_assert_str_eq(got.data ? got.data : "", want);
    lac_buf_free(&got);
    free(ids);
}

static void expect_text(const char *text, lac_encode_options options, const char *want)
{
    expect(text, strlen(text), options, want);
}

START_TEST(merges_in_order)
{
    builder b;
    tiny(&b);
    must_create(&b);
    lac_encode_options plain = {0};
    expect_text("", plain, "");
    expect_text("abc", plain, "5");
    expect_text("aab", plain, "0 4");
    expect_text("abab", plain, "4 4");
    expect_text("ab cab", plain, "4 3 2 4");
    expect_text("xay", plain, "0");  /* x and y have no token in this vocabulary */
    expect("a\0b", 3, plain, "0 1"); /* nor has NUL */
    destroy();
}
END_TEST

/* "▁" a b ab ▁ab, a byte token for 0xC3 alone, and a user-defined run of two spaces. */
static void tiny_sentencepiece(builder *b, bool prefix)
{
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "\xe2\x96\x81",
                                         "a",
                                         "b",
                                         "ab",
                                         ("\xe2\x96\x81"
                                          "ab"),
                                         "<0xC3>",
                                         "<0xA9>",
                                         "ba",
                                         "  "};
    static const int32_t types[] = {2, 3, 1, 1, 1, 1, 1, 6, 6, 1, 4};
    static const float scores[] = {0, 0, -5, -6, -7, -2, -3, 0, 0, -2, 0};
    tiny(b);
    build_text(b, "tokenizer.ggml.model", "llama");
    build_texts(b, "tokenizer.ggml.tokens", tokens, 11);
    build_i32s(b, "tokenizer.ggml.token_type", types, 11);
    build_f32s(b, "tokenizer.ggml.scores", scores, 11);
    build_u32(b, "tokenizer.ggml.unknown_token_id", 0);
    build_u32(b, "tokenizer.ggml.bos_token_id", 1);
    build_u32(b, "tokenizer.ggml.eos_token_id", 1);
    build_bool(b, "tokenizer.ggml.add_space_prefix", prefix);
}

START_TEST(sentencepiece)
{
    builder b;
    lac_encode_options plain = {0}, special = {.special = true};
    tiny_sentencepiece(&b, false);
    must_create(&b);
    ck_assert_str_eq(lac_tokenizer_name(tokenizer), "sentencepiece/bpe");
    ck_assert(lac_tokenizer_add_bos(tokenizer));
    expect_text("", plain, "");
    expect_text("ab ab", plain, "5 6");
    expect_text("aba", plain, "5 3"); /* ab and ba score the same: the left one merges */
    expect_text("bab", plain, "9 4");
    expect_text("a  b", plain, "3 10 4");
    expect_text("ab\xe2\x96\x81"
                "ab",
                plain, "5 6"); /* U+2581 is a space */
    expect_text("a\xc3\xa9", plain, "3 7 8");
    expect_text("a\xc3", plain, "3 7"); /* no UTF-8: its byte */
    expect_text("azb", plain, "3 0 4"); /* no token and no byte token */
    expect_text("<s>ab", special, "1 5");
    destroy();
    tiny_sentencepiece(&b, true);
    must_create(&b);
    expect_text("", plain, "");
    expect_text("ab ab", plain, "6 6");
    expect_text("<s>ab<s>", special, "1 6 1");
    destroy();
}
END_TEST

START_TEST(special_texts)
{
    builder b;
    tiny(&b);
    must_create(&b);
    lac_encode_options special = {.special = true};
    expect_text("<s>abc<e>", special, "6 5 7");
    expect_text("<s><s>", special, "6 6");
    expect_text("<<s>a<s", special, "6 0");
    expect_text("<s>a", (lac_encode_options){0}, "0"); /* '<', 's', '>' have no tokens */
    expect_text("<s>a", (lac_encode_options){.bos = true, .special = true}, "6 6 0");
    expect_text("a", (lac_encode_options){.bos = true}, "6 0");
    destroy();
}
END_TEST

/* User-defined tokens are found in plain text too; of two that match the longer one wins. */
START_TEST(user_defined_texts)
{
    static const char *const tokens[] = {"a", "b", "ab", "[x", "[xy]", "[xy"};
    static const int32_t types[] = {1, 1, 1, 4, 3, 4};
    static const char *const merges[] = {"a b"};
    builder b;
    tiny(&b);
    build_texts(&b, "tokenizer.ggml.tokens", tokens, 6);
    build_i32s(&b, "tokenizer.ggml.token_type", types, 6);
    build_texts(&b, "tokenizer.ggml.merges", merges, 1);
    build_u32(&b, "tokenizer.ggml.bos_token_id", 4);
    build_u32(&b, "tokenizer.ggml.eos_token_id", 4);
    must_create(&b);
    expect_text("a[xb", (lac_encode_options){0}, "0 3 1");
    expect_text("a[xy]b", (lac_encode_options){0}, "0 5 1");
    expect_text("a[xy]b", (lac_encode_options){.special = true}, "0 4 1");
    expect_text("a[xyb", (lac_encode_options){.special = true}, "0 5 1");
    destroy();
}
END_TEST

/* Merges apply to what stands side by side after bytes without a token were left out. */
START_TEST(ranks_beat_positions)
{
    static const char *const tokens[] = {"a", "b", "c", "ab", "bc", "abc", "aa", "aaaa"};
    static const char *const merges[] = {"b c", "a b", "a bc", "a a", "aa aa"};
    builder b;
    tiny(&b);
    build_texts(&b, "tokenizer.ggml.tokens", tokens, 8);
    build_drop(&b, "tokenizer.ggml.token_type");
    build_texts(&b, "tokenizer.ggml.merges", merges, 5);
    must_create(&b);
    expect_text("abc", (lac_encode_options){0}, "5");
    expect_text("abbc", (lac_encode_options){0}, "3 4");
    expect_text("aaaaa", (lac_encode_options){0}, "7 0");
    expect_text("aaaaaaa", (lac_encode_options){0}, "7 6 0");
    destroy();
}
END_TEST

START_TEST(named_tokens)
{
    builder b;
    const char *bytes;
    size_t length;
    tiny(&b);
    must_create(&b);
    ck_assert_uint_eq(lac_tokenizer_size(tokenizer), TINY_VOCAB);
    ck_assert_str_eq(lac_tokenizer_name(tokenizer), "bpe/gpt-2");
    ck_assert_uint_eq(lac_tokenizer_bos(tokenizer), 6);
    ck_assert_uint_eq(lac_tokenizer_eos(tokenizer), 7);
    ck_assert(!lac_tokenizer_add_bos(tokenizer));
    ck_assert(lac_tokenizer_is_end(tokenizer, 7));
    ck_assert(!lac_tokenizer_is_end(tokenizer, 6) && !lac_tokenizer_is_end(tokenizer, UINT32_MAX));
    ck_assert(lac_tokenizer_is_control(tokenizer, 6) && !lac_tokenizer_is_control(tokenizer, 0));
    ck_assert_uint_eq(lac_tokenizer_find(tokenizer, "<e>", 3), 7);
    ck_assert_uint_eq(lac_tokenizer_find(tokenizer, "abc", 3), 5);
    ck_assert_uint_eq(lac_tokenizer_find(tokenizer, "abcd", 4), LAC_TOKEN_NONE);
    lac_tokenizer_piece(tokenizer, 3, false, &bytes, &length);
    ck_assert(length == 1 && bytes[0] == ' ');
    lac_tokenizer_piece(tokenizer, 7, false, &bytes, &length);
    ck_assert_uint_eq(length, 0);
    lac_tokenizer_piece(tokenizer, 7, true, &bytes, &length);
    ck_assert(length == 3 && memcmp(bytes, "<e>", 3) == 0);
    lac_tokenizer_piece(tokenizer, TINY_VOCAB, true, &bytes, &length);
    ck_assert_uint_eq(length, 0);
    lac_tokenizer_piece(tokenizer, UINT32_MAX, true, &bytes, &length);
    ck_assert_uint_eq(length, 0);
    destroy();
}
END_TEST

START_TEST(begin_of_text)
{
    builder b;
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    tiny(&b);
    build_text(&b, "tokenizer.ggml.pre", "llama-bpe");
    must_create(&b);
    ck_assert(lac_tokenizer_add_bos(tokenizer)); /* this family's default */
    destroy();
    tiny(&b);
    build_text(&b, "tokenizer.ggml.pre", "llama-bpe");
    build_bool(&b, "tokenizer.ggml.add_bos_token", 0);
    must_create(&b);
    ck_assert(!lac_tokenizer_add_bos(tokenizer));
    destroy();
    tiny(&b);
    build_drop(&b, "tokenizer.ggml.bos_token_id");
    must_create(&b);
    ck_assert_uint_eq(lac_tokenizer_bos(tokenizer), LAC_TOKEN_NONE);
    ck_assert_int_eq(lac_tokenizer_encode(tokenizer, "a", 1, (lac_encode_options){.bos = true},
                                          &ids, &count, &err),
                     LAC_EINVAL);
    ck_assert_str_eq(err.text, "bos: this model has no beginning-of-text token");
    destroy();
}
END_TEST

START_TEST(text_limit)
{
    builder b;
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    tiny(&b);
    must_create(&b);
    ck_assert_int_eq(lac_tokenizer_encode(tokenizer, "", LAC_PROMPT_BYTES_MAX + 1,
                                          (lac_encode_options){0}, &ids, &count, &err),
                     LAC_ETOOBIG);
    ck_assert_str_eq(err.text, "text: 8388609 bytes, limit 8388608");
    destroy();
}
END_TEST

/* ---- a vocabulary that has every byte: nothing may be lost, whatever the bytes are */

static const char *const fixtures[] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};

static const char *const rough[] = {
    "\xff",
    "a\xff\xfe z",
    "\xc3",
    "caf\xc3",
    "\xc3\x28",
    "\xa0\xa1",
    "\xe2\x82",
    "x\xe2\x82 y\xe2\x28\xa1",
    "\xf0\x9f\x98",
    "\xf0\x9f\x98\x80\xf0\x9f",
    "\xed\xa0\x80",         /* a surrogate */
    "\xc0\xaf",             /* an overlong '/' */
    "\xf4\x90\x80\x80",     /* past U+10FFFF */
    "\xf8\x88\x80\x80\x80", /* five bytes long, once */
    "ok\x80\x80\x80 ok \xe6\x97\xa5\xe6\x97",
};

static void open_fixture(const char *name)
{
    char path[512];
    lac_error err = {0};
    snprintf(path, sizeof path, LAC_SOURCE_DIR "/tests/golden/tokenizer/%s.gguf", name);
    ck_assert_msg(lac_gguf_open(path, &gguf, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac_tokenizer_create(gguf, &tokenizer, &err) == LAC_OK, "%s", err.text);
}

static void round_trip(const char *text, size_t length)
{
    uint32_t *ids;
    size_t count;
    lac_error err = {0};
    lac_buf back = {0};
    ck_assert_msg(lac_tokenizer_encode(tokenizer, text, length, (lac_encode_options){0}, &ids,
                                       &count, &err) == LAC_OK,
                  "%s", err.text);
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        size_t n;
        lac_tokenizer_piece(tokenizer, ids[i], false, &bytes, &n);
        lac_buf_add(&back, bytes, n);
    }
    ck_assert_uint_eq(back.length, length);
    ck_assert(length == 0 || memcmp(back.data, text, length) == 0);
    lac_buf_free(&back);
    free(ids);
}

START_TEST(no_byte_is_lost)
{
    char noise[4096];
    uint32_t state = 7;
    open_fixture(fixtures[_i]);
    for (size_t i = 0; i < sizeof rough / sizeof rough[0]; i++)
        round_trip(rough[i], strlen(rough[i]));
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < sizeof noise; i++) {
            state = state * 1664525u + 1013904223u;
            noise[i] = (char)(state >> 24);
        }
        round_trip(noise, sizeof noise - (size_t)round);
    }
    destroy();
}
END_TEST

/* Words on both sides of the length at which the queue of merges changes its form. */
START_TEST(long_words_as_short_ones)
{
    enum { LENGTH = 8192 };
    static char word[LENGTH + 1];
    uint32_t *whole, *cut;
    size_t whole_count, cut_count;
    lac_error err = {0};
    open_fixture("gpt-2");
    /* A run of one letter merges from the left, so a prefix of even tokens repeats exactly. */
    memset(word, 'a', sizeof word);
    ck_assert_int_eq(lac_tokenizer_encode(tokenizer, word, LENGTH, (lac_encode_options){0}, &whole,
                                          &whole_count, &err),
                     LAC_OK);
    ck_assert_int_eq(lac_tokenizer_encode(tokenizer, word, LENGTH / 2, (lac_encode_options){0},
                                          &cut, &cut_count, &err),
                     LAC_OK);
    ck_assert_uint_eq(whole_count, 2 * cut_count);
    ck_assert_mem_eq(whole, cut, cut_count * sizeof *cut);
    ck_assert_mem_eq(whole + cut_count, cut, cut_count * sizeof *cut);
    free(whole);
    free(cut);
    destroy();
}
END_TEST

/* ---- bent metadata */

static void texts3(builder *b, const char *key, const char *a, const char *c, const char *d)
{
    const char *const texts[] = {a, c, d};
    build_texts(b, key, texts, 3);
}

static void types_bad(builder *b, int32_t type, size_t count)
{
    int32_t types[TINY_VOCAB] = {1, 1, 1, type, 1, 1, 3, 3, 1};
    build_i32s(b, "tokenizer.ggml.token_type", types, count);
}

static void long_token(builder *b, size_t length)
{
    static char text[4096];
    memset(text, 'a', length);
    text[length] = '\0';
    texts3(b, "tokenizer.ggml.tokens", "a", text, "b");
}

// clang-format off
#define CASES(X)                                                                                   \
    X(no_model, ECORRUPT, "key tokenizer.ggml.model: missing",                                     \
      build_drop(b, "tokenizer.ggml.model"))                                                       \
    X(model_kind, ECORRUPT, "key tokenizer.ggml.model: is of kind u32",                            \
      build_u32(b, "tokenizer.ggml.model", 1))                                                     \
    X(scores_missing, ECORRUPT, "key tokenizer.ggml.scores: missing",                              \
      build_text(b, "tokenizer.ggml.model", "llama"))                                              \
    X(model_unknown, EUNSUPPORTED, "\"bert\" is not one of gpt2",                                  \
      build_text(b, "tokenizer.ggml.model", "bert"))                                               \
    X(pre_unknown, EUNSUPPORTED, "\"nope\" is not one of gpt-2",                                   \
      build_text(b, "tokenizer.ggml.pre", "nope"))                                                 \
    X(pre_blank, EUNSUPPORTED, "key tokenizer.ggml.pre: \" \"",                                    \
      build_text(b, "tokenizer.ggml.pre", " "))                                                    \
    X(pre_kind, ECORRUPT, "key tokenizer.ggml.pre: is of kind",                                    \
      build_u32(b, "tokenizer.ggml.pre", 1))                                                       \
    X(no_tokens, ECORRUPT, "key tokenizer.ggml.tokens: missing",                                   \
      build_drop(b, "tokenizer.ggml.tokens"))                                                      \
    X(tokens_empty, ECORRUPT, "key tokenizer.ggml.tokens: 0 elements",                             \
      build_array(b, "tokenizer.ggml.tokens", LAC_GGUF_STRING, 0))                                 \
    X(tokens_numbers, ECORRUPT, "tokens: elements must be strings",                                \
      build_array(b, "tokenizer.ggml.tokens", LAC_GGUF_U8, 0))                                     \
    X(token_too_long, ECORRUPT, "element 1 has 513 bytes, limit 512", long_token(b, 513);          \
      build_drop(b, "tokenizer.ggml.token_type"))                                                  \
    X(token_far_too_long, ECORRUPT, "element 1 has 4000 bytes", long_token(b, 4000);               \
      build_drop(b, "tokenizer.ggml.token_type"))                                                  \
    X(types_short, ECORRUPT, "token_type: 8 elements", types_bad(b, 1, 8))                         \
    X(types_zero, ECORRUPT, "token_type: element 3 is 0", types_bad(b, 0, TINY_VOCAB))             \
    X(types_big, ECORRUPT, "token_type: element 3 is 7", types_bad(b, 7, TINY_VOCAB))              \
    X(types_negative, ECORRUPT, "token_type: element 3 is -1", types_bad(b, -1, TINY_VOCAB))       \
    X(types_kind, ECORRUPT, "token_type: elements must be i32",                                    \
      build_array(b, "tokenizer.ggml.token_type", LAC_GGUF_STRING, 0))                             \
    X(no_merges, ECORRUPT, "key tokenizer.ggml.merges: missing",                                   \
      build_drop(b, "tokenizer.ggml.merges"))                                                      \
    X(merges_empty, ECORRUPT, "key tokenizer.ggml.merges: 0 elements",                             \
      build_array(b, "tokenizer.ggml.merges", LAC_GGUF_STRING, 0))                                 \
    X(merge_one_word, ECORRUPT, "merges: element 1 is not",                                        \
      texts3(b, "tokenizer.ggml.merges", "a b", "ab", "ab c"))                                     \
    X(merge_empty, ECORRUPT, "merges: element 0 is not",                                           \
      texts3(b, "tokenizer.ggml.merges", "", "a b", "ab c"))                                       \
    X(merge_left, ECORRUPT, "merges: element 2: its left part is not",                             \
      texts3(b, "tokenizer.ggml.merges", "a b", "ab c", "x a"))                                    \
    X(merge_right, ECORRUPT, "merges: element 0: its right part is not",                           \
      texts3(b, "tokenizer.ggml.merges", "a x", "ab c", "a b"))                                    \
    X(merge_result, ECORRUPT, "merges: element 0: what it makes is not",                           \
      texts3(b, "tokenizer.ggml.merges", "a c", "ab c", "a b"))                                    \
    X(merge_no_byte, ECORRUPT, "merges: element 0: a character stands for no byte",                \
      texts3(b, "tokenizer.ggml.merges", "\xe6\x97\xa5 b", "ab c", "a b"))                         \
    X(merge_two_spaces, ECORRUPT, "merges: element 0: a character stands for no byte",             \
      texts3(b, "tokenizer.ggml.merges", "a b c", "ab c", "a b"))                                  \
    X(bos_past_end, ECORRUPT, "bos_token_id: 9, allowed 0 to 8",                                   \
      build_u32(b, "tokenizer.ggml.bos_token_id", 9))                                              \
    X(eos_huge, ECORRUPT, "eos_token_id: 4294967295, allowed 0 to 8",                              \
      build_u32(b, "tokenizer.ggml.eos_token_id", UINT32_MAX))                                     \
    X(eot_negative, ECORRUPT, "eot_token_id: -1",                                                  \
      build_raw(b, "tokenizer.ggml.eot_token_id", LAC_GGUF_I32, "\xff\xff\xff\xff", 4))            \
    X(add_bos_kind, ECORRUPT, "add_bos_token: is of kind u32, must be a bool",                     \
      build_u32(b, "tokenizer.ggml.add_bos_token", 1))                                             \
    X(add_bos_without, ECORRUPT, "add_bos_token: true, but there is no bos_token_id", build_bool(b, "tokenizer.ggml.add_bos_token", 1); build_drop(b, "tokenizer.ggml.bos_token_id"))
// clang-format on

#define BEND(name, status, text, ...)                                                              \
    static void bend_##name(builder *b)                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
CASES(BEND)
#define ROW(name, status, text, ...) {#name, LAC_##status, text, bend_##name},
static const struct {
    const char *name;
    lac_status status;
    const char *text;
    void (*bend)(builder *b);
} cases[] = {CASES(ROW)};

START_TEST(bent_metadata)
{
    builder b;
    lac_error err = {0};
    tiny(&b);
    cases[_i].bend(&b);
    lac_status status = create(&b, &err);
    ck_assert_msg(status == cases[_i].status, "%s: status %s (%s)", cases[_i].name,
                  lac_status_name(status), err.text);
    ck_assert_msg(strstr(err.text, cases[_i].text) != NULL, "%s: text \"%s\" lacks \"%s\"",
                  cases[_i].name, err.text, cases[_i].text);
    ck_assert_ptr_null(tokenizer);
    destroy();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tcase = tcase_create("behaviour");
    tcase_add_test(tcase, merges_in_order);
    tcase_add_test(tcase, special_texts);
    tcase_add_test(tcase, sentencepiece);
    tcase_add_test(tcase, user_defined_texts);
    tcase_add_test(tcase, ranks_beat_positions);
    tcase_add_test(tcase, named_tokens);
    tcase_add_test(tcase, begin_of_text);
    tcase_add_test(tcase, text_limit);
    tcase_add_loop_test(tcase, no_byte_is_lost, 0, sizeof fixtures / sizeof fixtures[0]);
    tcase_add_test(tcase, long_words_as_short_ones);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("bent metadata");
    tcase_add_loop_test(tcase, bent_metadata, 0, sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
