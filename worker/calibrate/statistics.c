/* Bounds by resampling, divergences, kinds of tokens. Pure, any thread. Must not know models,
 * files or masks. */
#include "calibrate/statistics.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"

/* ---- bounds ---- */

typedef struct {
    double mean, se;
} estimate;

/* `pick` NULL takes each cluster once. */
static estimate estimate_of(const lac_stat_cluster *c, const uint32_t *pick, size_t n)
{
    double sum = 0, weight = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const lac_stat_cluster *x = &c[pick ? pick[i] : i];
        sum += x->sum;
        weight += x->weight;
    }
    if (weight <= 0)
        return (estimate){0, 0};
    double mean = sum / weight;
    for (size_t i = 0; i < n; i++) {
        const lac_stat_cluster *x = &c[pick ? pick[i] : i];
        double d = x->sum - mean * x->weight;
        squares += d * d;
    }
    return (estimate){mean, sqrt((double)n / (double)(n - 1) * squares) / weight};
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lac_stat_quantile(double *values, size_t count, double share)
{
    LAC_ASSERT(count > 0);
    qsort(values, count, sizeof *values, by_value);
    size_t rank = (size_t)ceil(share * (double)count);
    rank = rank < 1 ? 1 : rank > count ? count : rank;
    return values[rank - 1];
}

bool lac_stat_bounds_of(const lac_stat_cluster *clusters, size_t count, uint64_t seed,
                        lac_stat_bounds *out)
{
    double weight = 0;
    for (size_t i = 0; i < count; i++)
        weight += clusters[i].weight;
    if (count < 2 || weight <= 0)
        return false;
    estimate all = estimate_of(clusters, NULL, count);
    double *t = lac_alloc(LAC_STAT_DRAWS, sizeof *t);
    uint32_t *pick = lac_alloc(count, sizeof *pick);
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    for (size_t b = 0; b < LAC_STAT_DRAWS; b++) {
        for (size_t i = 0; i < count; i++)
            pick[i] = (uint32_t)lac_rng_below(&rng, count);
        estimate e = estimate_of(clusters, pick, count);
        double d = e.mean - all.mean;
        /* A draw without spread says nothing about the scale: the worst is assumed. */
        t[b] = e.se > 0 ? d / e.se : d > 0 ? INFINITY : d < 0 ? -INFINITY : 0;
    }
    lac_stat_bounds bounds = {.mean = all.mean, .low = all.mean, .high = all.mean};
    if (all.se > 0) {
        bounds.high = all.mean - lac_stat_quantile(t, LAC_STAT_DRAWS, 0.05) * all.se;
        bounds.low = all.mean - lac_stat_quantile(t, LAC_STAT_DRAWS, 0.95) * all.se;
    }
    free(pick);
    free(t);
    *out = bounds;
    return true;
}

/* ---- divergence ---- */

uint32_t lac_log_softmax(const float *logits, size_t count, float *out)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    float top = logits[best];
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)expf(logits[i] - top);
    double total = (double)top + log(sum);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)((double)logits[i] - total);
    return (uint32_t)best;
}

double lac_kl_divergence(const float *p, const float *q_logits, size_t count, uint32_t *best)
{
    size_t at = 0;
    for (size_t i = 1; i < count; i++)
        if (q_logits[i] > q_logits[at])
            at = i;
    float top = q_logits[at];
    /* KL = Σ p (log p − q) + log Σ exp q; tokens with p under e^−30 add less than 1e−12 each. */
    double sum = 0, cross = 0, mass = 0;
    for (size_t i = 0; i < count; i++) {
        float q = q_logits[i] - top;
        sum += (double)expf(q);
        if (p[i] > -30) {
            double share = (double)expf(p[i]);
            mass += share;
            cross += share * ((double)p[i] - (double)q);
        }
    }
    double kl = cross + mass * log(sum);
    *best = (uint32_t)at;
    return kl > 0 ? kl : 0;
}

/* ---- kinds ---- */

const char *lac_token_kind_name(lac_token_kind kind)
{
    static const char *const names[LAC_KINDS] = {"other", "number", "date", "name"};
    LAC_ASSERT(kind < LAC_KINDS);
    return names[kind];
}

static bool joins(char c)
{
    return c == '.' || c == ',' || c == ':' || c == '-' || c == '/' || c == '_' || c == '+';
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80) != 0;
}

static bool is_month(const char *s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (size_t i = 0; i < 12; i++)
        if (memcmp(months + 3 * i, s, 3) == 0)
            return true;
    return false;
}

/* Three groups of digits joined by - or /, or two by :, or digits / month / digits. */
static bool is_date(const char *s, size_t n, size_t digits)
{
    size_t dashes = 0, slashes = 0, colons = 0, month = 0;
    for (size_t i = 0; i < n; i++) {
        dashes += s[i] == '-';
        slashes += s[i] == '/';
        colons += s[i] == ':' && i > 0 && isdigit((unsigned char)s[i - 1]) && i + 1 < n &&
                  isdigit((unsigned char)s[i + 1]);
        month += i + 3 <= n && is_month(s + i);
    }
    return digits >= 4 && ((n >= 8 && (dashes >= 2 || slashes >= 2) &&
                            (digits + month * 3 + dashes + slashes + colons + 4 >= n)) ||
                           colons >= 1);
}

static lac_token_kind kind_of(const char *s, size_t n)
{
    size_t digits = 0, upper = 0, lower = 0;
    for (size_t i = 0; i < n; i++) {
        digits += isdigit((unsigned char)s[i]) != 0;
        upper += isupper((unsigned char)s[i]) != 0;
        lower += islower((unsigned char)s[i]) != 0;
    }
    if (digits > 0)
        return is_date(s, n, digits)                             ? LAC_KIND_DATE
               : digits * 2 >= n || isdigit((unsigned char)s[0]) ? LAC_KIND_NUMBER
                                                                 : LAC_KIND_OTHER;
    return isupper((unsigned char)s[0]) && upper == 1 && lower >= 2 ? LAC_KIND_NAME
                                                                    : LAC_KIND_OTHER;
}

void lac_token_kinds(const char *text, size_t length, uint8_t *kinds)
{
    size_t at = 0;
    while (at < length) {
        size_t end = at;
        /* A run goes on over a joining sign between two word characters. */
        while (end < length && (is_word(text[end]) || (end > at && joins(text[end]) &&
                                                       end + 1 < length && is_word(text[end + 1]))))
            end++;
        if (end == at) {
            kinds[at++] = LAC_KIND_OTHER;
            continue;
        }
        lac_token_kind kind = kind_of(text + at, end - at);
        memset(kinds + at, (int)kind, end - at);
        at = end;
    }
}
