/* Whether draft rows pay: measured cost of rows against measured luck. Pure. Must not know texts.
 */
#include "base/assert.h"
#include "spec/spec.h"

static const double rate_first = 0.3;    /* before anything was verified */
static const double weight_own = 0.2;    /* of one token in a sequence's rate */
static const double weight_all = 0.02;   /* and in the engine's */
static const double weight_time = 0.125; /* of one step */
static const double share_first = 0.15;  /* of a plain step: a draft row, before it was measured */
static const double gain_least = 0.02;   /* of a plain step: less is noise */

enum { PASSED_MAX = 64, TRY_ROWS = 2 };

static uint32_t size_of(uint32_t drafts)
{
    uint32_t size = 0;
    while (size + 1 < LAC_SPEC_SIZES && drafts >= 2u << size)
        size++;
    return size;
}

/* Time of so many draft rows: by the nearest number of rows that was measured, fewer ones first. */
static double rows_us(const lac_spec_cost *cost, double plain_us, uint32_t drafts)
{
    if (drafts == 0)
        return 0;
    uint32_t size = size_of(drafts);
    for (uint32_t below = size + 1; below-- > 0;)
        if (cost->row_us[below] > 0)
            return drafts * cost->row_us[below];
    for (uint32_t above = size + 1; above < LAC_SPEC_SIZES; above++)
        if (cost->row_us[above] > 0)
            return drafts * cost->row_us[above];
    return drafts * share_first * plain_us;
}

static double rate_of(const lac_spec_cost *cost, const lac_spec_trust *trust)
{
    if (trust->rate_known)
        return trust->rate;
    return cost->rate_known ? cost->rate : rate_first;
}

uint32_t lac_spec_rows(const lac_spec_cost *cost, lac_spec_trust *trust, uint32_t decodes,
                       uint32_t drafts, uint32_t found)
{
    LAC_ASSERT(decodes > 0);
    if (found == 0 || decodes > LAC_SPEC_SEQUENCES_MAX || cost->plain_us[decodes] == 0)
        return 0;
    double plain_us = cost->plain_us[decodes], token_us = plain_us / decodes;
    double rate = rate_of(cost, trust), before_us = rows_us(cost, plain_us, drafts);
    double power = rate, tokens = 0, best_us = gain_least * plain_us;
    uint32_t best = 0;
    for (uint32_t rows = 1; rows <= found; rows++, power *= rate) {
        tokens += power; /* expected tokens that are right: Σ rate^i */
        double gain_us = tokens * token_us - (rows_us(cost, plain_us, drafts + rows) - before_us);
        if (gain_us > best_us) {
            best_us = gain_us;
            best = rows;
        }
    }
    if (best > 0) {
        trust->passed = 0;
        return best;
    }
    if (++trust->passed < PASSED_MAX)
        return 0;
    trust->passed = 0;
    return found < TRY_ROWS ? found : TRY_ROWS;
}

static void smooth(double *value, bool *known, double start, double weight, double sample)
{
    if (!*known)
        *value = start;
    *known = true;
    *value += weight * (sample - *value);
}

void lac_spec_verified(lac_spec_cost *cost, lac_spec_trust *trust, uint32_t drafted, uint32_t right)
{
    LAC_ASSERT(right <= drafted);
    double start = rate_of(cost, trust);
    for (uint32_t i = 0; i < drafted && i <= right; i++) {
        double sample = i < right;
        smooth(&trust->rate, &trust->rate_known, start, weight_own, sample);
        smooth(&cost->rate, &cost->rate_known, rate_first, weight_all, sample);
    }
}

/* Other processes make steps longer, never shorter: what is above the value so far counts as twice
 * that at most, what is below counts more. */
static void plain_add(double *value, double us)
{
    if (*value == 0)
        *value = us;
    else if (us < *value)
        *value += 2 * weight_time * (us - *value);
    else
        *value += weight_time * ((us < 2 * *value ? us : 2 * *value) - *value);
}

void lac_spec_measure(lac_spec_cost *cost, uint32_t decodes, uint32_t drafts, double us)
{
    if (decodes == 0 || decodes > LAC_SPEC_SEQUENCES_MAX)
        return;
    double plain_us = cost->plain_us[decodes];
    if (drafts == 0) {
        plain_add(&cost->plain_us[decodes], us);
        return;
    }
    if (plain_us == 0)
        return;
    /* One step says little, on a busy machine nothing: from what was believed, a little further. */
    double row_us = (us - plain_us) / drafts, least_us = 0.01 * plain_us;
    row_us = row_us > plain_us ? plain_us : row_us < least_us ? least_us : row_us;
    double *value = &cost->row_us[size_of(drafts)];
    double before_us = rows_us(cost, plain_us, drafts) / drafts;
    *value = before_us + weight_time * (row_us - before_us);
}
