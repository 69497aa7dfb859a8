/* Features and the decision. Pure. */
#include "probe/probe.h"

#include <math.h>
#include <string.h>

static double dot(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

typedef struct {
    double sum, squares;
    uint32_t count;
} moments;

static void add(moments *m, double x)
{
    m->sum += x;
    m->squares += x * x;
    m->count++;
}

static double mean_of(const moments *m)
{
    return m->count ? m->sum / m->count : 0;
}

static double deviation_of(const moments *m)
{
    double mean = mean_of(m), variance = m->count ? m->squares / m->count - mean * mean : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

/* ±1 by place, the same everywhere and for ever: plans hold weights for it (splitmix64's
 * finaliser). */
static double sign_at(uint32_t projection, uint32_t i)
{
    uint64_t z = ((uint64_t)projection << 32 | i) + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) & 1 ? 1 : -1;
}

/* Σ over rows of state / norm, component i. */
static double direction_at(const float *states, uint32_t rows, uint32_t hidden, const double *norms,
                           uint32_t i)
{
    double sum = 0;
    for (uint32_t r = 0; r < rows; r++)
        sum += (double)states[(size_t)r * hidden + i] / norms[r];
    return sum / rows;
}

void lac_probe_features(const float *states, uint32_t rows, uint32_t hidden,
                        double out[LAC_PROBE_FEATURES])
{
    double norms[LAC_PROBE_ROWS_MAX], coherence = 0, projections[LAC_PROBE_PROJECTIONS] = {0};
    moments log_norm = {0}, cosine = {0}, sharpness = {0};
    rows = rows < LAC_PROBE_ROWS_MAX ? rows : LAC_PROBE_ROWS_MAX;
    for (uint32_t r = 0; r < rows; r++) {
        const float *x = states + (size_t)r * hidden;
        norms[r] = sqrt(dot(x, x, hidden)) + 1e-9;
        add(&log_norm, log(norms[r]));
        double most = 0;
        for (uint32_t i = 0; i < hidden; i++)
            most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
        add(&sharpness, most / norms[r]);
        if (r > 0)
            add(&cosine, dot(x - hidden, x, hidden) / (norms[r] * norms[r - 1]));
    }
    for (uint32_t i = 0; i < hidden; i++) {
        double direction = direction_at(states, rows, hidden, norms, i);
        coherence += direction * direction;
        for (uint32_t p = 0; p < LAC_PROBE_PROJECTIONS; p++)
            projections[p] += sign_at(p, i) * direction;
    }
    const double first[] = {log(rows),        mean_of(&log_norm),    deviation_of(&log_norm),
                            mean_of(&cosine), deviation_of(&cosine), mean_of(&sharpness),
                            sqrt(coherence),  log(norms[rows - 1])};
    _Static_assert(sizeof first / sizeof first[0] + LAC_PROBE_PROJECTIONS == LAC_PROBE_FEATURES,
                   "features are these and the projections");
    memcpy(out, first, sizeof first);
    memcpy(out + sizeof first / sizeof first[0], projections, sizeof projections);
}

double lac_probe_confidence(const lac_probe *probe, const double features[LAC_PROBE_FEATURES])
{
    double z = probe->bias;
    for (uint32_t f = 0; f < LAC_PROBE_FEATURES; f++)
        z += probe->weight[f] * (features[f] - probe->mean[f]) / probe->scale[f];
    return isfinite(z) ? 1 / (1 + exp(z)) : 0;
}

bool lac_probe_says_no(const lac_probe *probe, const double features[LAC_PROBE_FEATURES])
{
    double least =
        probe->threshold > LAC_PROBE_CONFIDENCE ? probe->threshold : LAC_PROBE_CONFIDENCE;
    return lac_probe_confidence(probe, features) < least;
}

bool lac_probe_valid(const lac_probe *p)
{
    for (uint32_t f = 0; f < LAC_PROBE_FEATURES; f++)
        if (!isfinite(p->mean[f]) || !isfinite(p->weight[f]) || !isfinite(p->scale[f]) ||
            p->scale[f] <= 0)
            return false;
    return isfinite(p->bias) && p->threshold >= LAC_PROBE_CONFIDENCE && p->threshold <= 1;
}
