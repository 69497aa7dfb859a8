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

bool lac__guard_observe(lac__guard *g, double loss, uint64_t now_ms)
{
    g->shadows++;
    if (g->state != LAC__GUARD_CLOSED && g->state != LAC__GUARD_HALF_OPEN)
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

bool lac__guard_tick(lac__guard *g, uint64_t now_ms)
{
    if (g->state != LAC__GUARD_OPEN || now_ms < g->until_ms)
        return false;
    g->state = LAC__GUARD_HALF_OPEN;
    g->evidence = 0;
    g->probes = g->probes_bad = 0;
    return true;
}
