/* Masks: the same as feeding every word by itself, cached or not, in and out of strings. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "grammar/grammar.h"

enum { VOCAB = 3000, END = 7 };

static char pieces[VOCAB][12];
static size_t lengths[VOCAB];

static void piece(void *arg, uint32_t id, const char **bytes, size_t *length)
{
    (void)arg;
    *bytes = pieces[id];
    *length = lengths[id];
}

/* Words of 0 … 8 bytes out of those that JSON is made of, and some that it is not. */
static void vocabulary(void)
{
    static const char letters[] =
        "\"\"{}[]:,,  \n\\0123456789.eE+-truefalsnlab\xc3\xa9\xe2\x82\xac";
    lac_rng rng;
    lac_rng_seed(&rng, 11);
    for (uint32_t i = 0; i < VOCAB; i++) {
        lengths[i] = i == END ? 0 : lac_rng_next(&rng) % 9 % (1 + lac_rng_next(&rng) % 9);
        for (size_t j = 0; j < lengths[i]; j++)
            pieces[i][j] = letters[lac_rng_next(&rng) % (sizeof letters - 1)];
    }
}

static const char *const schemas[] = {
    "{}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":5,\"minLength\":1}}",
    "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"enum\":[\"a\",\"ab\",1,12]},{\"type\":\"string\"}"
    ","
    "{\"type\":\"number\"}]}}",
};

static void check_mask(lac_words *words, lac_grammar *g, const lac_grammar_state *state,
                       const char *text, size_t length)
{
    uint32_t count, seen = 0;
    const uint64_t *mask = lac_words_mask(words, state, &count);
    for (uint32_t id = 0; id < VOCAB; id++) {
        lac_grammar_state *copy = lac_grammar_state_create(g);
        ck_assert(lac_grammar_feed(copy, text, length));
        bool allowed = id == END
                           ? lac_grammar_complete(copy)
                           : lengths[id] > 0 && lac_grammar_feed(copy, pieces[id], lengths[id]);
        bool marked = mask[id / 64] >> id % 64 & 1;
        ck_assert_msg(allowed == marked, "after %.*s: %.*s", (int)length, text, (int)lengths[id],
                      pieces[id]);
        seen += marked;
        lac_grammar_state_destroy(&copy);
    }
    ck_assert_uint_eq(seen, count);
}

START_TEST(masks_are_exact)
{
    vocabulary();
    uint32_t end = END;
    lac_words *words = lac_words_create(VOCAB, piece, NULL, &end, 1);
    lac_rng rng;
    lac_rng_seed(&rng, 5);
    for (size_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        lac_grammar *g;
        ck_assert_int_eq(lac_grammar_create(schemas[s], strlen(schemas[s]), &g, NULL), LAC_OK);
        lac_grammar_state *state = lac_grammar_state_create(g);
        char text[512];
        size_t length = 0;
        for (int step = 0; step < 30 && length < sizeof text - 12; step++) {
            check_mask(words, g, state, text, length);
            uint32_t count, id = (uint32_t)(lac_rng_next(&rng) % VOCAB);
            const uint64_t *mask = lac_words_mask(words, state, &count); /* from the cache */
            ck_assert_uint_gt(count, 0);
            while (!(mask[id / 64] >> id % 64 & 1))
                id = (id + 1) % VOCAB;
            if (id == END)
                break;
            ck_assert(lac_grammar_feed(state, pieces[id], lengths[id]));
            memcpy(text + length, pieces[id], lengths[id]);
            length += lengths[id];
        }
        lac_grammar_state_destroy(&state);
        lac_grammar_destroy(&g);
    }
    lac_words_stats stats;
    lac_words_stats_read(words, &stats);
    ck_assert_uint_gt(stats.hits, 20);
    ck_assert_uint_gt(stats.misses, 20);
    lac_words_destroy(&words);
}
END_TEST

/* Equal schemas share masks; the cache holds its bound however many places there are. */
START_TEST(masks_are_shared)
{
    vocabulary();
    lac_words *words = lac_words_create(VOCAB, piece, NULL, NULL, 0);
    lac_words_stats stats;
    uint32_t count;
    for (int i = 0; i < 3; i++) {
        lac_grammar *g;
        ck_assert_int_eq(lac_grammar_create("{}", 2, &g, NULL), LAC_OK);
        lac_grammar_state *state = lac_grammar_state_create(g);
        lac_words_mask(words, state, &count);
        for (int digits = 0; i == 2 && digits < 200; digits++) {
            ck_assert(lac_grammar_feed(state,
                                       digits % 10 ? "1"
                                       : digits    ? ",1"
                                                   : "[1",
                                       digits % 10 ? 1 : 2));
            lac_words_mask(words, state, &count);
        }
        lac_grammar_state_destroy(&state);
        lac_grammar_destroy(&g);
        lac_words_stats_read(words, &stats);
        if (i < 2)
            ck_assert_uint_eq(stats.misses, 1);
    }
    ck_assert_uint_le(stats.misses, 1 + 11);
    lac_words_destroy(&words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *tcase = tcase_create("words");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, masks_are_exact);
    tcase_add_test(tcase, masks_are_shared);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
