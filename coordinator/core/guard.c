/* The e-process and the breaker around it, for one class and input type. Pure. */
#include "guard.h"

#include <string.h>

const char *lac__guard_state_name(lac__guard_state state)
{
    static const char *const names[LAC__GUARD_STATES] = {"closed", "open", "half-open", "revoked"};
    return state < LAC__GUARD_STATES ? names[state] : "closed";
}

double lac__guard_loss(double kl, double bound)
{
    if (!(kl > 0)) /* a score that is no number says nothing against it here */
        return 0;
    double loss = bound > 0 ? LAC__GUARD_EPSILON * kl / bound : 1;
    return loss < 1 ? loss : 1;
}

static void open(lac__guard *g, uint64_t now_ms)
{
    g->trips++;
    g->evidence = 0;
    g->probes = g->probes_bad = 0;
    g->looks = 0;
    if (++g->opens >= LAC__GUARD_OPENS) {
        g->state = LAC__GUARD_REVOKED;
        return;
    }
    g->state = LAC__GUARD_OPEN;
    g->until_ms = now_ms + ((uint64_t)LAC__GUARD_COOL_MS << (g->opens - 1));
}

static bool bet(lac__guard *g, double loss)
{
    double s = g->evidence > 1 ? g->evidence : 1;
    g->evidence = s * (1 + LAC__GUARD_LAMBDA * (loss - LAC__GUARD_EPSILON));
    return g->evidence >= LAC__GUARD_TRIP;
}

static bool watches(const lac__guard *g)
{
    return g->state == LAC__GUARD_CLOSED || g->state == LAC__GUARD_HALF_OPEN;
}

bool lac__guard_observe(lac__guard *g, double loss, uint64_t now_ms)
{
    g->shadows++;
    if (!watches(g))
        return false; /* of a request that began before */
    bool tripped = bet(g, loss);
    if (g->state == LAC__GUARD_HALF_OPEN) {
        g->probes++;
        g->probes_bad += loss > LAC__GUARD_BAD * LAC__GUARD_EPSILON;
        tripped |= g->probes_bad > LAC__GUARD_PROBES_BAD;
    }
    if (tripped) {
        open(g, now_ms);
        return true;
    }
    if (g->state != LAC__GUARD_HALF_OPEN || g->probes < LAC__GUARD_PROBES)
        return false;
    *g = (lac__guard){.shadows = g->shadows, .trips = g->trips};
    return true;
}

/* Of a sample of LAC__GUARD_LOOKS. */
static double variance(const double *x)
{
    double mean = 0, sum = 0;
    for (int i = 0; i < LAC__GUARD_LOOKS; i++)
        mean += x[i] / LAC__GUARD_LOOKS;
    for (int i = 0; i < LAC__GUARD_LOOKS; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum / (LAC__GUARD_LOOKS - 1);
}

bool lac__guard_sureness(lac__guard *g, double sure, double sure_full, uint64_t now_ms)
{
    if (!watches(g))
        return false;
    /* Requests differ, and full with them: only what the class adds to that is its own. */
    g->surer[g->looks % LAC__GUARD_LOOKS] = sure - sure_full;
    if (++g->looks < LAC__GUARD_LOOKS ||
        variance(g->surer) <= LAC__GUARD_SPREAD * LAC__GUARD_SPREAD)
        return false;
    open(g, now_ms);
    return true;
}

bool lac__guard_canary(lac__guard *g, double loss, uint64_t now_ms)
{
    if (!watches(g) || loss <= LAC__GUARD_BAD * LAC__GUARD_EPSILON)
        return false;
    open(g, now_ms);
    return true;
}

bool lac__guard_tick(lac__guard *g, uint64_t now_ms)
{
    if (g->state != LAC__GUARD_OPEN || now_ms < g->until_ms)
        return false;
    g->state = LAC__GUARD_HALF_OPEN;
    g->evidence = 0;
    g->probes = g->probes_bad = 0;
    return true;
}
