/* The merge queue against the definition of BPE: as long as a pair has a rule, replace the leftmost
 * of the pairs of lowest rank. Words on both sides of the length at which the queue changes its
 * form. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "gguf_builder.h"
#include "internal.h"

static lac_gguf *gguf;
static lac__vocab vocab;
static lac__merges merges;

static void load(const char *name)
{
    char path[512];
    lac_error err = {0};
    snprintf(path, sizeof path, LAC_SOURCE_DIR "/tests/golden/tokenizer/%s.gguf", name);
    ck_assert_msg(lac_gguf_open(path, &gguf, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac__vocab_create(gguf, LAC__SPELLING_BYTES, &vocab, &err) == LAC_OK, "%s",
                  err.text);
    ck_assert_msg(lac__merges_create(gguf, &vocab, &merges, &err) == LAC_OK, "%s", err.text);
}

static void unload(void)
{
    lac__merges_free(&merges);
    lac__vocab_free(&vocab);
    lac_gguf_close(&gguf);
}

/* By the definition; ranks[i] is that of (ids[i], ids[i + 1]). Returns how many ids are left. */
static size_t merge_slowly(uint32_t *ids, uint32_t *ranks, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = lac__merges_find(&merges, ids[i], ids[i + 1]);
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (count < 2 || ranks[best] == UINT32_MAX)
            return count;
        ids[best] = merges.rules[ranks[best]].id;
        memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (count - best - 2) * sizeof *ranks);
        count--;
        if (best > 0)
            ranks[best - 1] = lac__merges_find(&merges, ids[best - 1], ids[best]);
        if (best + 1 < count)
            ranks[best] = lac__merges_find(&merges, ids[best], ids[best + 1]);
    }
}

static void check_word(lac__bpe *bpe, const char *word, size_t length)
{
    lac__ids got = {0};
    uint32_t *want = malloc(length * sizeof *want), *ranks = malloc(length * sizeof *ranks);
    for (size_t i = 0; i < length; i++)
        want[i] = vocab.byte_ids[(unsigned char)word[i]];
    size_t count = merge_slowly(want, ranks, length);
    lac__bpe_word(bpe, word, length, &got);
    ck_assert_uint_eq(got.count, count);
    size_t at = 0;
    while (at < count && got.data[at] == want[at])
        at++;
    ck_assert_msg(at == count, "%zu bytes: token %zu is %u, by definition %u", length, at,
                  got.data[at], want[at]);
    free(got.data);
    free(want);
    free(ranks);
}

static const char *const alphabets[] = {"aeinrstoh", "ab", "a", "abcdefghijklmnopqrstuvwxyz",
                                        " \n=-9"};

START_TEST(as_defined)
{
    static const size_t lengths[] = {1, 2, 3, 7, 100, 1000, 8191, 8192, 8193};
    enum { LENGTH_MAX = 8193 };
    static char word[LENGTH_MAX];
    size_t letters = strlen(alphabets[_i]);
    uint32_t state = 3;
    load("gpt-2");
    lac__bpe *bpe = lac__bpe_create(&vocab, &merges);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        for (size_t i = 0; i < lengths[k]; i++) {
            state = state * 1664525u + 1013904223u;
            word[i] = alphabets[_i][(state >> 16) % letters];
        }
        check_word(bpe, word, lengths[k]);
    }
    lac__bpe_destroy(&bpe);
    ck_assert_ptr_null(bpe);
    unload();
}
END_TEST

/* Merges in an order that no training gives: making "ab" allows a merge of lower rank than the one
 * at work, which must come before the next "ab". `fillers` rules stand first, so that the two ranks
 * share a bucket or not. */
static void load_backwards(lac_buf *file, size_t fillers)
{
    enum { FILLERS_MAX = 300 };
    static char runs[FILLERS_MAX + 2][FILLERS_MAX + 2], rules[FILLERS_MAX][2 * FILLERS_MAX];
    const char *tokens[FILLERS_MAX + 5], *lines[FILLERS_MAX + 2];
    builder b;
    lac_error err = {0};
    ck_assert_uint_le(fillers, FILLERS_MAX);
    for (size_t i = 0; i <= fillers; i++) {
        memset(runs[i], 'x', i + 1);
        tokens[4 + i] = runs[i];
        if (i > 0) {
            snprintf(rules[i - 1], sizeof rules[0], "%s x", runs[i - 1]);
            lines[i - 1] = rules[i - 1];
        }
    }
    tokens[0] = "a", tokens[1] = "b", tokens[2] = "ab", tokens[3] = "aba";
    lines[fillers] = "ab a", lines[fillers + 1] = "a b";
    build_init(&b);
    build_texts(&b, "tokenizer.ggml.tokens", tokens, fillers + 5);
    build_texts(&b, "tokenizer.ggml.merges", lines, fillers + 2);
    build_finish(&b, file);
    build_free(&b);
    ck_assert_msg(lac_gguf_parse(file->data, file->length, &gguf, &err) == LAC_OK, "%s", err.text);
    ck_assert_msg(lac__vocab_create(gguf, LAC__SPELLING_BYTES, &vocab, &err) == LAC_OK, "%s",
                  err.text);
    ck_assert_msg(lac__merges_create(gguf, &vocab, &merges, &err) == LAC_OK, "%s", err.text);
}

START_TEST(lower_ranks_come_first)
{
    static const size_t fillers[] = {0, 127, 300};
    enum { LENGTH = 9000 };
    static char word[LENGTH];
    lac_buf file = {0};
    load_backwards(&file, fillers[_i]);
    for (size_t i = 0; i < LENGTH; i++)
        word[i] = "abababax"[i % 8];
    lac__bpe *bpe = lac__bpe_create(&vocab, &merges);
    check_word(bpe, word, 4);
    check_word(bpe, word, 100);
    check_word(bpe, word, LENGTH);
    lac__bpe_destroy(&bpe);
    unload();
    lac_buf_free(&file);
}
END_TEST

/* What a byte is spelled as, for all 256 of them. */
START_TEST(bytes_and_their_spelling)
{
    load("gpt-2");
    for (int b = 0; b < 256; b++) {
        uint32_t id = vocab.byte_ids[b];
        ck_assert_uint_ne(id, LAC_TOKEN_NONE);
        ck_assert_uint_eq(lac__vocab_length(&vocab, id), 1);
        ck_assert_uint_eq((unsigned char)vocab.bytes[vocab.starts[id]], b);
    }
    unload();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bpe");
    TCase *tcase = tcase_create("bpe");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, as_defined, 0, sizeof alphabets / sizeof alphabets[0]);
    tcase_add_loop_test(tcase, lower_ranks_come_first, 0, 3);
    tcase_add_test(tcase, bytes_and_their_spelling);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
