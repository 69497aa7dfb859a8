/* Reading "<architecture>.<name>" keys, each with its range. Runs on the opening thread. Knows no
 * architecture. */
#include "keys.h"

#include <stdio.h>

static const char *key_name(const lac__keys *in, const char *name, char out[128])
{
    snprintf(out, 128, "%s.%s", in->arch, name);
    return out;
}

/* False when absent or after an error. */
bool lac__key_u64(lac__keys *in, const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
    char key[128];
    return in->error.status == LAC_OK &&
           lac_gguf_u64(in->gguf, key_name(in, name, key), low, high, out, &in->error);
}

uint64_t lac__key_need_u64(lac__keys *in, const char *name, uint64_t low, uint64_t high)
{
    uint64_t value = low;
    if (!lac__key_u64(in, name, low, high, &value) && in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.%s: missing", in->arch, name);
    return value;
}

bool lac__key_f64(lac__keys *in, const char *name, double low, double high, double *out)
{
    char key[128];
    double value;
    if (in->error.status != LAC_OK ||
        !lac_gguf_f64(in->gguf, key_name(in, name, key), &value, &in->error))
        return false;
    if (value < low || value > high) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: %g, allowed %g to %g", key, value, low, high);
        return false;
    }
    *out = value;
    return true;
}

bool lac__key_bool(lac__keys *in, const char *name, bool *out)
{
    char key[128];
    return in->error.status == LAC_OK &&
           lac_gguf_bool(in->gguf, key_name(in, name, key), out, &in->error);
}

const char *lac__key_text(lac__keys *in, const char *name, size_t *length)
{
    char key[128];
    const char *text;
    if (in->error.status != LAC_OK ||
        !lac_gguf_string(in->gguf, key_name(in, name, key), &text, length, &in->error))
        return NULL;
    return text;
}

/* A count that is one number for all layers or an array with one number a layer. */
void lac__key_per_layer(lac__keys *in, const char *name, uint64_t low, uint64_t high,
                        uint32_t layers, uint32_t *out, bool *present)
{
    char key[128];
    lac_gguf_kind kind;
    size_t count;
    lac_error ignored = {0};
    *present = false;
    if (in->error.status != LAC_OK)
        return;
    if (!lac_gguf_array(in->gguf, key_name(in, name, key), &kind, &count, &ignored)) {
        uint64_t value;
        *present = lac__key_u64(in, name, low, high, &value);
        for (uint32_t l = 0; *present && l < layers; l++)
            out[l] = (uint32_t)value;
        return;
    }
    if (kind == LAC_GGUF_STRING || kind == LAC_GGUF_BOOL || kind == LAC_GGUF_F32 ||
        kind == LAC_GGUF_F64) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: array elements must be integers", key);
        return;
    }
    if (count != layers) {
        lac_fail(&in->error, LAC_ECORRUPT, "key %s: %zu elements, %s.block_count is %u", key, count,
                 in->arch, layers);
        return;
    }
    for (uint32_t l = 0; l < layers; l++) {
        double value = lac_gguf_array_number(in->gguf, key, l);
        if (value < (double)low || value > (double)high) {
            lac_fail(&in->error, LAC_ECORRUPT, "key %s: element %u is %g, allowed %llu to %llu",
                     key, l, value, (unsigned long long)low, (unsigned long long)high);
            return;
        }
        out[l] = (uint32_t)value;
    }
    *present = true;
}

void lac__key_missing(lac__keys *in, const char *name)
{
    if (in->error.status == LAC_OK)
        lac_fail(&in->error, LAC_ECORRUPT, "key %s.%s: missing", in->arch, name);
}
