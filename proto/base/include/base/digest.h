/* SHA-256 (FIPS 180-4) through libcrypto, whose only door this is in `base`. Any thread. */
#ifndef LAC_BASE_DIGEST_H
#define LAC_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t bytes[32];
} lac_digest;

typedef struct lac_hasher lac_hasher;
lac_hasher *lac_hasher_create(void);
void lac_hasher_add(lac_hasher *hasher, const void *data, size_t length);
/* Writes the digest and frees the hasher. */
void lac_hasher_finish(lac_hasher **hasher, lac_digest *out);

void lac_sha256(const void *data, size_t length, lac_digest *out);

#endif
