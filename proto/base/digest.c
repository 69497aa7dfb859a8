/* SHA-256 through libcrypto. A hasher belongs to one thread; the one-shot form may run on any. A
 * failure of the library can only be lack of memory or a broken build, so it aborts. */
#include "base/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

struct lac_hasher {
    EVP_MD_CTX *context;
};

lac_hasher *lac_hasher_create(void)
{
    lac_hasher *hasher = lac_alloc(1, sizeof(*hasher));
    hasher->context = EVP_MD_CTX_new();
    LAC_ASSERT(hasher->context != NULL);
    LAC_ASSERT(EVP_DigestInit_ex(hasher->context, EVP_sha256(), NULL) == 1);
    return hasher;
}

void lac_hasher_add(lac_hasher *hasher, const void *data, size_t length)
{
    if (length == 0)
        return; /* data may be NULL then */
    LAC_ASSERT(EVP_DigestUpdate(hasher->context, data, length) == 1);
}

void lac_hasher_finish(lac_hasher **hasher, lac_digest *out)
{
    unsigned length = 0;
    LAC_ASSERT(EVP_DigestFinal_ex((*hasher)->context, out->bytes, &length) == 1);
    LAC_ASSERT(length == sizeof(out->bytes));
    EVP_MD_CTX_free((*hasher)->context);
    free(*hasher);
    *hasher = NULL;
}

void lac_sha256(const void *data, size_t length, lac_digest *out)
{
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, data, length);
    lac_hasher_finish(&hasher, out);
}
