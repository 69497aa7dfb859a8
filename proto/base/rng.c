/* Random numbers: the counter-based draw (Philox4x32-10), the sequential generator (xoshiro256**)
 * and the operating system's bytes. Any thread; a generator belongs to whoever holds it. Knows
 * nothing of what is sampled. */
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

enum { PHILOX_ROUNDS = 10 };

void lac_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = UINT64_C(0xD2511F53) * c0;
        uint64_t b = UINT64_C(0xCD9E8D57) * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u; /* the Weyl increments of the paper: golden ratio and √3 − 1 */
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The top 53 bits as a fraction: every value is a multiple of 2⁻⁵³, 1 is never reached. */
static double fraction53(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double lac_rng_draw(uint64_t seed, uint32_t choice, uint64_t position)
{
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), choice, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t block[4];
    lac_philox4x32(counter, key, block);
    return fraction53((uint64_t)block[0] << 32 | block[1]);
}

/* SplitMix64 (Steele, Lea, Flood 2014): spreads one seed over the state, which must not be zero. */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void lac_rng_seed(lac_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->s[i] = splitmix(&seed);
}

static uint64_t rotate_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t lac_rng_next(lac_rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t lac_rng_below(lac_rng *rng, uint64_t bound)
{
    LAC_ASSERT(bound > 0);
    /* Values under 2⁶⁴ mod bound would make the low remainders too frequent: draw again. */
    uint64_t threshold = (0 - bound) % bound;
    for (;;) {
        uint64_t x = lac_rng_next(rng);
        if (x >= threshold)
            return x % bound;
    }
}

double lac_rng_unit(lac_rng *rng)
{
    return fraction53(lac_rng_next(rng));
}

void lac_random_bytes(void *out, size_t n)
{
    unsigned char *to = out;
    while (n > 0) {
        ssize_t got = getrandom(to, n, 0);
        if (got < 0) {
            LAC_ASSERT(errno == EINTR);
            continue;
        }
        to += got;
        n -= (size_t)got;
    }
}
