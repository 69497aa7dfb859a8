/* Training a probe and judging it. Pure; a few thousand samples take milliseconds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe.h"

enum {
    ROUNDS = 60,   /* of Newton's method, which ends long before */
    SIDE_MIN = 10, /* bad ones, and good ones, that each side needs */
    SIZE = LAC_PROBE_FEATURES + 1
};
#define RIDGE       3.0  /* on standardised features */
#define AUC_GAIN    0.03 /* below it knowing the type alone is as good */
#define PASSED_GOOD 0.5  /* share of the good ones that has to pass */
#define DELTA       0.05
#define GRID        0.02

static bool is_tested(const lac_probe_sample *s)
{
    return s->document % 2 == 1;
}

static void scale_make(const lac_probe_sample *samples, size_t count, lac_probe *out)
{
    for (uint32_t f = 0; f < LAC_PROBE_FEATURES; f++) {
        double sum = 0, squares = 0, n = 0;
        for (size_t i = 0; i < count; i++)
            if (!is_tested(&samples[i])) {
                sum += samples[i].features[f];
                n++;
            }
        out->mean[f] = n > 0 ? sum / n : 0;
        for (size_t i = 0; i < count; i++)
            if (!is_tested(&samples[i]))
                squares += pow(samples[i].features[f] - out->mean[f], 2);
        out->scale[f] = n > 0 && squares > 1e-18 * n ? sqrt(squares / n) : 1;
    }
}

/* Solves a·x = b for a symmetric positive definite a (Cholesky), in place: b becomes x. */
static void solve(double a[SIZE][SIZE], double b[SIZE])
{
    for (int j = 0; j < SIZE; j++) {
        for (int k = 0; k < j; k++)
            for (int i = j; i < SIZE; i++)
                a[i][j] -= a[i][k] * a[j][k];
        double pivot = sqrt(a[j][j] > 1e-12 ? a[j][j] : 1e-12);
        for (int i = j; i < SIZE; i++)
            a[i][j] /= pivot;
    }
    for (int i = 0; i < SIZE; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = SIZE - 1; i >= 0; i--) {
        for (int k = i + 1; k < SIZE; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

/* One step of Newton's method on the log-likelihood with a ridge; returns its size. */
static double newton(const lac_probe_sample *samples, size_t count, lac_probe *p)
{
    double hessian[SIZE][SIZE] = {{0}}, step[SIZE] = {0}, x[SIZE], size = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_tested(&samples[i]))
            continue;
        for (int f = 0; f < LAC_PROBE_FEATURES; f++)
            x[f] = (samples[i].features[f] - p->mean[f]) / p->scale[f];
        x[LAC_PROBE_FEATURES] = 1;
        double bad = 1 - lac_probe_confidence(p, samples[i].features), weight = bad * (1 - bad);
        for (int a = 0; a < SIZE; a++) {
            step[a] += x[a] * ((samples[i].bad ? 1 : 0) - bad);
            for (int b = 0; b <= a; b++)
                hessian[a][b] += weight * x[a] * x[b];
        }
    }
    for (int f = 0; f < SIZE; f++) {
        bool bias = f == LAC_PROBE_FEATURES;
        hessian[f][f] += bias ? 1e-6 : RIDGE;
        step[f] -= bias ? 0 : RIDGE * p->weight[f];
    }
    solve(hessian, step);
    for (int f = 0; f < SIZE; f++) {
        *(f == LAC_PROBE_FEATURES ? &p->bias : &p->weight[f]) += step[f];
        size += fabs(step[f]);
    }
    return size;
}

double lac_probe_binomial(uint32_t n, double p, uint32_t k)
{
    if (k >= n)
        return 1;
    double log_term = n * log1p(-p), sum = 0; /* of 0 hits */
    for (uint32_t i = 0; i <= k; i++) {
        sum += exp(log_term);
        log_term += log((double)(n - i) / (i + 1)) + log(p) - log1p(-p);
    }
    return sum < 1 ? sum : 1;
}

/* Probability that a bad one has less confidence than a good one; ties count half. */
static double auc_of(const lac_probe_sample *samples, size_t count, const double *confidence)
{
    double pairs = 0, right = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (is_tested(&samples[i]) && is_tested(&samples[j]) && samples[i].bad &&
                !samples[j].bad) {
                pairs++;
                right += confidence[i] < confidence[j]    ? 1
                         : confidence[i] == confidence[j] ? 0.5
                                                          : 0;
            }
    return pairs > 0 ? right / pairs : 0.5;
}

static void passing(const lac_probe_sample *samples, size_t count, const double *confidence,
                    double threshold, lac_probe_report *r)
{
    r->passed = r->passed_bad = 0;
    for (size_t i = 0; i < count; i++)
        if (is_tested(&samples[i]) && confidence[i] >= threshold) {
            r->passed++;
            r->passed_bad += samples[i].bad;
        }
}

/* From strict to loose, as long as each test rejects "more than `share` of those that pass are
 * bad". */
static void threshold_find(const lac_probe_sample *samples, size_t count, const double *confidence,
                           double share, lac_probe *p, lac_probe_report *r)
{
    p->threshold = LAC_PROBE_CONFIDENCE;
    r->certified = false;
    for (double t = 0.98; t > LAC_PROBE_CONFIDENCE - GRID / 2; t -= GRID) {
        passing(samples, count, confidence, t, r);
        /* So few that nothing could be shown even if all were good: no test, whatever their labels.
         */
        if (lac_probe_binomial(r->passed, share, 0) > DELTA)
            continue;
        if (lac_probe_binomial(r->passed, share, r->passed_bad) > DELTA)
            break;
        p->threshold = t > LAC_PROBE_CONFIDENCE ? t : LAC_PROBE_CONFIDENCE;
        r->certified = true;
    }
    passing(samples, count, confidence, p->threshold, r);
}

void lac_probe_train(const lac_probe_sample *samples, size_t count, double share, lac_probe *out,
                     lac_probe_report *report)
{
    lac_probe p = {.threshold = LAC_PROBE_CONFIDENCE};
    lac_probe_report r = {.auc = 0.5};
    uint32_t trained_bad = 0;
    for (size_t i = 0; i < count; i++) {
        bool tested = is_tested(&samples[i]);
        r.tested += tested;
        r.trained += !tested;
        r.bad += tested && samples[i].bad;
        trained_bad += !tested && samples[i].bad;
    }
    bool enough = trained_bad >= SIDE_MIN && r.trained - trained_bad >= SIDE_MIN &&
                  r.bad >= SIDE_MIN && r.tested - r.bad >= SIDE_MIN;
    scale_make(samples, count, &p);
    if (enough) {
        double *confidence = lac_alloc(count, sizeof *confidence);
        for (int i = 0; i < ROUNDS && newton(samples, count, &p) > 1e-9; i++)
            ;
        for (size_t i = 0; i < count; i++)
            confidence[i] = lac_probe_confidence(&p, samples[i].features);
        r.auc = auc_of(samples, count, confidence);
        threshold_find(samples, count, confidence, share, &p, &r);
        uint32_t good = r.tested - r.bad;
        r.worth = r.auc - 0.5 >= AUC_GAIN && r.passed - r.passed_bad >= PASSED_GOOD * good &&
                  lac_probe_valid(&p);
        free(confidence);
    }
    *out = p;
    *report = r;
}
