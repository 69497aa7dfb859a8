/* Random numbers. Sampling uses the counter-based draw, so that a moved or replayed sequence draws
 * the same numbers; the sequential generator serves simulations and jitter. */
#ifndef LAC_BASE_RNG_H
#define LAC_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Uniform in [0, 1) with 53 bits, a pure function of its three keys (Philox4x32-10, Salmon et al.,
 * "Parallel random numbers: as easy as 1, 2, 3", SC 2011). */
double lac_rng_draw(uint64_t seed, uint32_t choice, uint64_t position);

/* The block function under it: 128 random bits for a counter and a key. Pure, any thread. */
void lac_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A small sequential generator (xoshiro256**, Blackman and Vigna 2018). */
typedef struct {
    uint64_t s[4];
} lac_rng;
void lac_rng_seed(lac_rng *rng, uint64_t seed);
uint64_t lac_rng_next(lac_rng *rng);
/* Uniform in [0, bound); bound > 0. */
uint64_t lac_rng_below(lac_rng *rng, uint64_t bound);
double lac_rng_unit(lac_rng *rng); /* [0, 1) */

/* Fills with bytes from the operating system; aborts if there are none. For ids and seeds. */
void lac_random_bytes(void *out, size_t n);

#endif
