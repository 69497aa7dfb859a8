/* Defaults and ranges of the sampling parameters. Pure. */
#include <math.h>

#include "base/sampling.h"

lac_sampling lac_sampling_default(void)
{
    return (lac_sampling){.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f};
}

/* One number's range; `open` leaves `low` itself out. */
static lac_status check_range(const char *name, double value, double low, double high, bool open,
                              lac_error *err)
{
    if (isfinite(value) && value <= high && (open ? value > low : value >= low))
        return LAC_OK;
    return lac_fail(err, LAC_EINVAL, "%s is %g, allowed: %s %g and <= %g", name, value,
                    open ? ">" : ">=", low, high);
}

static lac_status check_bias(const lac_sampling *s, uint32_t vocab, lac_error *err)
{
    if (s->bias_count > LAC_LOGIT_BIAS_MAX)
        return lac_fail(err, LAC_EINVAL, "logit_bias has %u entries, allowed: %d", s->bias_count,
                        LAC_LOGIT_BIAS_MAX);
    for (uint32_t i = 0; i < s->bias_count; i++) {
        if (vocab && s->bias[i].token >= vocab)
            return lac_fail(err, LAC_EINVAL, "logit_bias names token %u, allowed: below %u",
                            s->bias[i].token, vocab);
        lac_status status =
            check_range("logit_bias", (double)s->bias[i].bias, -100, 100, false, err);
        if (status)
            return status;
    }
    return LAC_OK;
}

static lac_status check_stops(const lac_sampling *s, lac_error *err)
{
    if (s->stops_count > LAC_STOPS_MAX)
        return lac_fail(err, LAC_EINVAL, "stop has %u strings, allowed: %d", s->stops_count,
                        LAC_STOPS_MAX);
    for (uint32_t i = 0; i < s->stops_count; i++) {
        uint32_t length = s->stops[i].length;
        if (length == 0 || length > LAC_STOP_BYTES_MAX)
            return lac_fail(err, LAC_EINVAL, "stop string %u has %u bytes, allowed: 1 to %d", i,
                            length, LAC_STOP_BYTES_MAX);
    }
    return LAC_OK;
}

/* A value that is whole must be able to end. */
static lac_status check_grammar(const lac_sampling *s, lac_error *err)
{
    if (s->grammar_length > LAC_GRAMMAR_BYTES_MAX)
        return lac_fail(err, LAC_EINVAL, "response_format has %u bytes, allowed: %d",
                        s->grammar_length, LAC_GRAMMAR_BYTES_MAX);
    if (s->grammar_length && s->ignore_eos)
        return lac_fail(err, LAC_EINVAL, "ignore_eos is true, allowed: not with response_format");
    if (s->grammar_length && s->min_tokens)
        return lac_fail(err, LAC_EINVAL, "min_tokens is %u, allowed: 0 with response_format",
                        s->min_tokens);
    return LAC_OK;
}

lac_status lac_sampling_check(const lac_sampling *s, uint32_t vocab, lac_error *err)
{
    const struct {
        const char *name;
        double value, low, high;
        bool open;
    } ranges[] = {
        {"temperature", (double)s->temperature, 0, 2, false},
        {"top_p", (double)s->top_p, 0, 1, true},
        {"min_p", (double)s->min_p, 0, 1, false},
        {"top_k", s->top_k, 0, LAC_VOCAB_MAX, false},
        {"repetition_penalty", (double)s->repetition_penalty, 0, 2, true},
        {"presence_penalty", (double)s->presence_penalty, -2, 2, false},
        {"frequency_penalty", (double)s->frequency_penalty, -2, 2, false},
        {"max_tokens", s->max_tokens, 0, LAC_CONTEXT_MAX, false},
        {"min_tokens", s->min_tokens, 0, LAC_CONTEXT_MAX, false},
        {"top_logprobs", s->top_logprobs, 0, LAC_TOP_LOGPROBS_MAX, false},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        lac_status status = check_range(ranges[i].name, ranges[i].value, ranges[i].low,
                                        ranges[i].high, ranges[i].open, err);
        if (status)
            return status;
    }
    lac_status status = check_grammar(s, err);
    if (status == LAC_OK)
        status = check_bias(s, vocab, err);
    return status ? status : check_stops(s, err);
}
