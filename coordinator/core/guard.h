/* The guard of one class for one input type: a test by betting on the losses of shadow scores, and
 * a breaker around it. Seen by this folder and its tests only. Pure: time is an argument.
 *
 * A loss is a request's mean KL to full, on a scale where the certified bound lies at EPSILON:
 *   l = min(1, EPSILON · KL / bound).
 * While the certificate holds, E[l] ≤ EPSILON, and S ← max(S, 1)·(1 + LAMBDA·(l − EPSILON)) is an
 * e-process with restart (testing by betting: Podkopaev and Ramdas 2022); it trips at TRIP. At
 * LAMBDA 12 and TRIP 10⁴ a doubled loss trips within about a hundred scores, and one at the bound
 * does in twenty thousand with less than one chance in twenty. */
#ifndef LAC_CORE_GUARD_H
#define LAC_CORE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define LAC__GUARD_EPSILON 0.02
#define LAC__GUARD_LAMBDA  12.0
#define LAC__GUARD_TRIP    1e4
/* Beside the bet: the probability of the best token, the class's less full's on the same text. A
 * standard deviation above this over LAC__GUARD_LOOKS scores opens it. */
#define LAC__GUARD_SPREAD 0.15

enum {
    LAC__GUARD_COOL_MS = 600000, /* from OPEN to HALF_OPEN, doubled each time in a row */
    LAC__GUARD_PROBES = 124,     /* good scores in HALF_OPEN that certify again: with at most */
    LAC__GUARD_PROBES_BAD = 2,   /* so many bad, 95 % sure that under 5 % are (binomial) */
    LAC__GUARD_OPENS = 3,        /* opened so often in a row the class is given up */
    LAC__GUARD_BAD = 4,          /* a score is bad above so many times the bound */
    LAC__GUARD_LOOKS = 5         /* scores whose sureness is compared */
};

typedef enum {
    LAC__GUARD_CLOSED,    /* the class serves */
    LAC__GUARD_OPEN,      /* it does not */
    LAC__GUARD_HALF_OPEN, /* a trickle of requests, all of them scored */
    LAC__GUARD_REVOKED,   /* never again: it has to be calibrated anew */
    LAC__GUARD_STATES
} lac__guard_state;

typedef struct {
    lac__guard_state state;
    double evidence; /* S */
    uint64_t shadows, trips;
    uint64_t until_ms; /* OPEN: half open from then on */
    uint32_t opens;    /* in a row, without a certification in between */
    uint32_t probes, probes_bad;
    double surer[LAC__GUARD_LOOKS]; /* than full of its best token, in the last scores; a ring */
    uint32_t looks;
} lac__guard;

const char *lac__guard_state_name(lac__guard_state state); /* "closed", "half-open", … */
/* The loss of a score; a bound of 0 makes any divergence the worst. */
double lac__guard_loss(double kl, double bound);
/* Takes a score. True when the state changed. */
bool lac__guard_observe(lac__guard *guard, double loss, uint64_t now_ms);
/* Takes the mean probability of the best token under the class and in full. True when the state
 * changed. */
bool lac__guard_sureness(lac__guard *guard, double sure, double sure_full, uint64_t now_ms);
/* Takes the loss on the plan's own canary texts, whose divergence was known when they were chosen:
 * a bad one needs no second. True when the state changed. */
bool lac__guard_canary(lac__guard *guard, double loss, uint64_t now_ms);
/* Time passes. True when the state changed. */
bool lac__guard_tick(lac__guard *guard, uint64_t now_ms);

#endif
