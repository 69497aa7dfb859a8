/* Sampling parameters: the defaults pass, each range holds at both ends, the text names the field.
 */
#include <math.h>
#include <string.h>

#include "base/sampling.h"
#include "suites.h"

static void expect_bad(const lac_sampling *s, uint32_t vocab, const char *field)
{
    lac_error err = {.status = LAC_OK};
    ck_assert_int_eq(lac_sampling_check(s, vocab, &err), LAC_EINVAL);
    ck_assert_int_eq(err.status, LAC_EINVAL);
    ck_assert_msg(strstr(err.text, field) != NULL, "%s: %s", field, err.text);
}

static void expect_good(const lac_sampling *s, uint32_t vocab)
{
    lac_error err = {.status = LAC_OK};
    ck_assert_msg(lac_sampling_check(s, vocab, &err) == LAC_OK, "%s", err.text);
}

START_TEST(defaults_are_valid)
{
    lac_sampling s = lac_sampling_default();
    expect_good(&s, 100);
    ck_assert(s.temperature == 1.0f && s.top_p == 1.0f && s.repetition_penalty == 1.0f);
    ck_assert(!s.has_seed && s.top_k == 0 && s.max_tokens == 0 && s.stops_count == 0);
}
END_TEST

/* Sets one field; both ends pass, a step outside does not, and neither does NaN. */
#define RANGE(field, low, high, below, above)                                                      \
    do {                                                                                           \
        lac_sampling s = lac_sampling_default();                                                   \
        s.field = (low);                                                                           \
        expect_good(&s, 0);                                                                        \
        s.field = (high);                                                                          \
        expect_good(&s, 0);                                                                        \
        s.field = (below);                                                                         \
        expect_bad(&s, 0, #field);                                                                 \
        s.field = (above);                                                                         \
        expect_bad(&s, 0, #field);                                                                 \
    } while (0)

START_TEST(ranges_hold_at_both_ends)
{
    RANGE(temperature, 0, 2, -0.01f, 2.01f);
    RANGE(temperature, 0, 2, NAN, INFINITY);
    RANGE(top_p, 0.001f, 1, 0, 1.01f);
    RANGE(top_p, 0.001f, 1, NAN, -INFINITY);
    RANGE(min_p, 0, 1, -0.01f, 1.01f);
    RANGE(top_k, 0, LAC_VOCAB_MAX, -1, LAC_VOCAB_MAX + 1);
    RANGE(repetition_penalty, 0.01f, 2, 0, 2.01f);
    RANGE(presence_penalty, -2, 2, -2.01f, 2.01f);
    RANGE(frequency_penalty, -2, 2, -2.01f, 2.01f);
    RANGE(max_tokens, 0, LAC_CONTEXT_MAX, UINT32_MAX, LAC_CONTEXT_MAX + 1);
    RANGE(min_tokens, 0, LAC_CONTEXT_MAX, UINT32_MAX, LAC_CONTEXT_MAX + 1);
    RANGE(top_logprobs, 0, LAC_TOP_LOGPROBS_MAX, UINT32_MAX, LAC_TOP_LOGPROBS_MAX + 1);
}
END_TEST

START_TEST(lists_are_bounded)
{
    static lac_logit_bias bias[LAC_LOGIT_BIAS_MAX + 1];
    lac_sampling s = lac_sampling_default();
    s.bias = bias;
    s.bias_count = LAC_LOGIT_BIAS_MAX;
    bias[5] = (lac_logit_bias){.token = 99, .bias = -100};
    expect_good(&s, 100);
    expect_bad(&s, 99, "logit_bias");
    bias[5].bias = 100.5f;
    expect_bad(&s, 100, "logit_bias");
    bias[5].bias = NAN;
    expect_bad(&s, 100, "logit_bias");
    bias[5].bias = 100;
    s.bias_count++;
    expect_bad(&s, 100, "logit_bias");

    s = lac_sampling_default();
    s.stops_count = LAC_STOPS_MAX;
    for (int i = 0; i < LAC_STOPS_MAX; i++)
        s.stops[i].length = LAC_STOP_BYTES_MAX;
    expect_good(&s, 0);
    s.stops[3].length = 0;
    expect_bad(&s, 0, "stop");
    s.stops[3].length = LAC_STOP_BYTES_MAX + 1;
    expect_bad(&s, 0, "stop");
    s.stops[3].length = 1;
    s.stops_count = LAC_STOPS_MAX + 1;
    expect_bad(&s, 0, "stop");
}
END_TEST

Suite *suite_sampling(void)
{
    Suite *suite = suite_create("sampling");
    TCase *tc = tcase_create("sampling");
    tcase_add_test(tc, defaults_are_valid);
    tcase_add_test(tc, ranges_hold_at_both_ends);
    tcase_add_test(tc, lists_are_bounded);
    suite_add_tcase(suite, tc);
    return suite;
}
