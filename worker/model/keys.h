/* One pass over "<architecture>.<name>" keys: the first error sticks and later reads do nothing.
 * Shared by the files of this folder. */
#ifndef LAC_MODEL_KEYS_H
#define LAC_MODEL_KEYS_H

#include "model/gguf.h"

typedef struct {
    const lac_gguf *gguf;
    const char *arch;
    lac_error error;
} lac__keys;

/* False when absent or after an error; *out is then untouched. Outside [low, high] is an error. */
bool lac__key_u64(lac__keys *in, const char *name, uint64_t low, uint64_t high, uint64_t *out);
bool lac__key_f64(lac__keys *in, const char *name, double low, double high, double *out);
bool lac__key_bool(lac__keys *in, const char *name, bool *out);
/* A text, or NULL when it is absent; `length` is then untouched. */
const char *lac__key_text(lac__keys *in, const char *name, size_t *length);
/* Absent is an error. */
uint64_t lac__key_need_u64(lac__keys *in, const char *name, uint64_t low, uint64_t high);
void lac__key_missing(lac__keys *in, const char *name);
/* A count that is one number for all layers or an array with one number a layer, into out[layers].
 */
void lac__key_per_layer(lac__keys *in, const char *name, uint64_t low, uint64_t high,
                        uint32_t layers, uint32_t *out, bool *present);

#endif
