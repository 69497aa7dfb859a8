/* Reading of GGUF metadata and tensors by name, over a parsed container. Any thread. Knows no key's
 * meaning. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "gguf_internal.h"

uint32_t lac_gguf_version(const lac_gguf *gguf)
{
    return gguf->version;
}

uint64_t lac_gguf_file_bytes(const lac_gguf *gguf)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < gguf->files_count; i++)
        bytes += gguf->files[i].length;
    return bytes;
}

size_t lac_gguf_tensor_count(const lac_gguf *gguf)
{
    return gguf->tensors_count;
}

const lac_gguf_tensor *lac_gguf_tensor_at(const lac_gguf *gguf, size_t index)
{
    LAC_ASSERT(index < gguf->tensors_count);
    return &gguf->tensors[index];
}

static int compare_tensor_name(const void *name, const void *entry)
{
    return strcmp(name, (*(const lac_gguf_tensor *const *)entry)->name);
}

const lac_gguf_tensor *lac_gguf_tensor_find(const lac_gguf *gguf, const char *name)
{
    const lac_gguf_tensor *const *found = bsearch(name, gguf->by_name, gguf->tensors_count,
                                                  sizeof *gguf->by_name, compare_tensor_name);
    return found ? *found : NULL;
}

static int compare_key_name(const void *name, const void *entry)
{
    return strcmp(name, ((const lac__gguf_key *)entry)->name);
}

const lac__gguf_key *lac__gguf_key_find(const lac_gguf *gguf, const char *name)
{
    return bsearch(name, gguf->keys, gguf->keys_count, sizeof *gguf->keys, compare_key_name);
}

size_t lac_gguf_key_count(const lac_gguf *gguf)
{
    return gguf->keys_count;
}

const char *lac_gguf_key_at(const lac_gguf *gguf, size_t index, lac_gguf_kind *kind)
{
    LAC_ASSERT(index < gguf->keys_count);
    if (kind)
        *kind = gguf->keys[index].kind;
    return gguf->keys[index].name;
}

static bool wrong_kind(const lac__gguf_key *key, const char *wanted, lac_error *err)
{
    lac_fail(err, LAC_ECORRUPT, "key %s: is of kind %s, must be %s", key->name,
             lac__gguf_kind_name(key->kind), wanted);
    return false;
}

/* An integer of any width. Values above INT64_MAX come back as one with *negative false. */
static bool integer_at(lac_gguf_kind kind, const uint8_t *at, uint64_t *value, bool *negative)
{
    int64_t number;
    *negative = false;
    switch (kind) {
    case LAC_GGUF_U8: *value = *at; return true;
    case LAC_GGUF_U16: {
        uint16_t v;
        memcpy(&v, at, sizeof v);
        *value = v;
        return true;
    }
    case LAC_GGUF_U32: {
        uint32_t v;
        memcpy(&v, at, sizeof v);
        *value = v;
        return true;
    }
    case LAC_GGUF_U64: memcpy(value, at, sizeof *value); return true;
    case LAC_GGUF_I8: number = (int8_t)*at; break;
    case LAC_GGUF_I16: {
        int16_t v;
        memcpy(&v, at, sizeof v);
        number = v;
        break;
    }
    case LAC_GGUF_I32: {
        int32_t v;
        memcpy(&v, at, sizeof v);
        number = v;
        break;
    }
    case LAC_GGUF_I64: memcpy(&number, at, sizeof number); break;
    default: return false;
    }
    *negative = number < 0;
    *value = (uint64_t)number;
    return true;
}

bool lac_gguf_u64(const lac_gguf *gguf, const char *key, uint64_t low, uint64_t high, uint64_t *out,
                  lac_error *err)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    if (!entry)
        return false;
    uint64_t value;
    bool negative;
    if (!integer_at(entry->kind, entry->value, &value, &negative))
        return wrong_kind(entry, "an integer", err);
    if (negative || value < low || value > high) {
        char number[24];
        snprintf(number, sizeof number, negative ? "%lld" : "%llu", (unsigned long long)value);
        lac_fail(err, LAC_ECORRUPT, "key %s: %s, allowed %llu to %llu", key, number,
                 (unsigned long long)low, (unsigned long long)high);
        return false;
    }
    *out = value;
    return true;
}

static bool real_at(lac_gguf_kind kind, const uint8_t *at, double *value)
{
    if (kind == LAC_GGUF_F32) {
        float v;
        memcpy(&v, at, sizeof v);
        *value = v;
        return true;
    }
    if (kind == LAC_GGUF_F64) {
        memcpy(value, at, sizeof *value);
        return true;
    }
    return false;
}

bool lac_gguf_f64(const lac_gguf *gguf, const char *key, double *out, lac_error *err)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    if (!entry)
        return false;
    double value;
    if (!real_at(entry->kind, entry->value, &value))
        return wrong_kind(entry, "a float", err);
    if (!isfinite(value)) {
        lac_fail(err, LAC_ECORRUPT, "key %s: %g, must be finite", key, value);
        return false;
    }
    *out = value;
    return true;
}

bool lac_gguf_bool(const lac_gguf *gguf, const char *key, bool *out, lac_error *err)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    if (!entry)
        return false;
    if (entry->kind != LAC_GGUF_BOOL)
        return wrong_kind(entry, "a bool", err);
    *out = *entry->value == 1;
    return true;
}

bool lac_gguf_string(const lac_gguf *gguf, const char *key, const char **text, size_t *length,
                     lac_error *err)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    if (!entry)
        return false;
    if (entry->kind != LAC_GGUF_STRING)
        return wrong_kind(entry, "a string", err);
    *text = (const char *)entry->value;
    *length = entry->count;
    return true;
}

bool lac_gguf_array(const lac_gguf *gguf, const char *key, lac_gguf_kind *kind, size_t *count,
                    lac_error *err)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    if (!entry)
        return false;
    if (entry->kind != LAC_GGUF_ARRAY)
        return wrong_kind(entry, "an array", err);
    *kind = entry->element;
    *count = entry->count;
    return true;
}

void lac_gguf_array_string(const lac_gguf *gguf, const char *key, size_t index, const char **text,
                           size_t *length)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    LAC_ASSERT(entry && entry->kind == LAC_GGUF_ARRAY && entry->element == LAC_GGUF_STRING);
    LAC_ASSERT(index < entry->count);
    const uint8_t *at = entry->value + entry->starts[index];
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    *text = (const char *)at + sizeof bytes;
    *length = bytes;
}

double lac_gguf_array_number(const lac_gguf *gguf, const char *key, size_t index)
{
    const lac__gguf_key *entry = lac__gguf_key_find(gguf, key);
    LAC_ASSERT(entry && entry->kind == LAC_GGUF_ARRAY && index < entry->count);
    size_t each = lac__gguf_kind_bytes(entry->element);
    LAC_ASSERT(each > 0);
    const uint8_t *at = entry->value + index * each;
    uint64_t value;
    bool negative;
    double real;
    if (entry->element == LAC_GGUF_BOOL)
        return *at;
    if (integer_at(entry->element, at, &value, &negative))
        return negative ? (double)(int64_t)value : (double)value;
    LAC_ASSERT(real_at(entry->element, at, &real));
    return real;
}
