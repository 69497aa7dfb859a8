/* A fast hash of bytes, for tables that live as long as this process. Not a digest: who knows the
 * seed can make collisions, so the seed is never shown. Pure, any thread. */
#include "state.h"

#include <string.h>

/* 64 × 64 → 128 bit product, folded: every input bit reaches every output bit. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t lac__hash_mix(uint64_t a, uint64_t b)
{
    return fold(a ^ 0x9e3779b97f4a7c15u, b ^ 0xd6e8feb86659fd93u);
}

uint64_t lac__hash_bytes(uint64_t seed, const void *data, size_t size)
{
    const uint8_t *at = data;
    uint64_t hash = lac__hash_mix(seed, size);
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = lac__hash_mix(hash, word);
    }
    if (size) {
        uint64_t word = 0;
        memcpy(&word, at, size);
        hash = lac__hash_mix(hash, word);
    }
    return hash;
}
