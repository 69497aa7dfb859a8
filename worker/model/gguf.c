/* Parsing of one GGUF container: header, metadata, tensor table. Runs on the opening thread. Trusts
 * nothing in the file: every count, length, product and sum is checked before it is used. Knows
 * neither files on disk (gguf_open.c) nor what keys and tensors mean.
 *
 * Layout (GGUF specification, versions 2 and 3): "GGUF", u32 version, u64 tensors, u64 keys; keys
 * as string name, u32 kind, value; tensors as string name, u32 dims, u64 dims[], u32 type, u64
 * offset; padding to general.alignment; tensor data, offsets counted from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gguf_internal.h"

enum { HEADER_BYTES = 24, TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8, KEY_BYTES_MIN = 8 + 1 + 4 + 1 };

typedef struct {
    const uint8_t *bytes;
    size_t length;
    size_t at;
} reader;

static const struct {
    const char *name;
    size_t bytes;
} kinds[] = {
    [LAC_GGUF_U8] = {"u8", 1},         [LAC_GGUF_I8] = {"i8", 1},
    [LAC_GGUF_U16] = {"u16", 2},       [LAC_GGUF_I16] = {"i16", 2},
    [LAC_GGUF_U32] = {"u32", 4},       [LAC_GGUF_I32] = {"i32", 4},
    [LAC_GGUF_F32] = {"f32", 4},       [LAC_GGUF_BOOL] = {"bool", 1},
    [LAC_GGUF_STRING] = {"string", 0}, [LAC_GGUF_ARRAY] = {"array", 0},
    [LAC_GGUF_U64] = {"u64", 8},       [LAC_GGUF_I64] = {"i64", 8},
    [LAC_GGUF_F64] = {"f64", 8},
};
enum { KINDS_COUNT = sizeof kinds / sizeof kinds[0] };

const char *lac__gguf_kind_name(lac_gguf_kind kind)
{
    return (size_t)kind < KINDS_COUNT ? kinds[kind].name : "unknown";
}

size_t lac__gguf_kind_bytes(lac_gguf_kind kind)
{
    return (size_t)kind < KINDS_COUNT ? kinds[kind].bytes : 0;
}

static size_t left(const reader *in)
{
    return in->length - in->at;
}

static bool take(reader *in, void *out, size_t bytes)
{
    if (left(in) < bytes)
        return false;
    memcpy(out, in->bytes + in->at, bytes);
    in->at += bytes;
    return true;
}

static lac_status truncated(const reader *in, const char *what, lac_error *err)
{
    return lac_fail(err, LAC_ECORRUPT, "%s: the file ends at byte %zu", what, in->length);
}

/* A length-prefixed text; *text points into the map. */
static lac_status take_text(reader *in, const char *what, uint64_t max, const uint8_t **text,
                            uint64_t *length, lac_error *err)
{
    uint64_t bytes;
    if (!take(in, &bytes, sizeof bytes))
        return truncated(in, what, err);
    if (bytes > max)
        return lac_fail(err, LAC_ECORRUPT, "%s: length %llu, limit %llu", what,
                        (unsigned long long)bytes, (unsigned long long)max);
    if (bytes > left(in))
        return lac_fail(err, LAC_ECORRUPT, "%s: length %llu, only %zu bytes follow", what,
                        (unsigned long long)bytes, left(in));
    *text = in->bytes + in->at;
    *length = bytes;
    in->at += bytes;
    return LAC_OK;
}

/* Names go into error texts and comparisons, so only printable ASCII is let in. */
static lac_status take_name(reader *in, const char *what, char **out, lac_error *err)
{
    const uint8_t *text;
    uint64_t length;
    lac_status status = take_text(in, what, LAC_GGUF_NAME_MAX, &text, &length, err);
    if (status != LAC_OK)
        return status;
    if (length == 0)
        return lac_fail(err, LAC_ECORRUPT, "%s: empty", what);
    for (uint64_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return lac_fail(err, LAC_ECORRUPT, "%s: byte 0x%02x at %llu is not printable ASCII",
                            what, text[i], (unsigned long long)i);
    *out = lac_strndup((const char *)text, length);
    return LAC_OK;
}

static lac_status check_bools(const char *name, const uint8_t *values, uint64_t count,
                              lac_error *err)
{
    for (uint64_t i = 0; i < count; i++)
        if (values[i] > 1)
            return lac_fail(err, LAC_ECORRUPT, "key %s: bool value %u, allowed 0 or 1", name,
                            values[i]);
    return LAC_OK;
}

static lac_status take_string_elements(reader *in, lac__gguf_key *key, lac_error *err)
{
    key->starts = lac_try_alloc(key->count ? key->count : 1, sizeof *key->starts);
    if (!key->starts)
        return lac_fail(err, LAC_ENOMEM, "key %s: no memory for %llu elements", key->name,
                        (unsigned long long)key->count);
    for (uint64_t i = 0; i < key->count; i++) {
        const uint8_t *text;
        uint64_t length;
        key->starts[i] = (uint64_t)(in->bytes + in->at - key->value);
        lac_error inner = {0};
        if (take_text(in, "string", LAC_GGUF_STRING_MAX, &text, &length, &inner) != LAC_OK)
            return lac_fail(err, inner.status, "key %s: element %llu: %s", key->name,
                            (unsigned long long)i, inner.text);
    }
    return LAC_OK;
}

static lac_status take_array(reader *in, lac__gguf_key *key, lac_error *err)
{
    uint32_t element;
    uint64_t count;
    if (!take(in, &element, sizeof element) || !take(in, &count, sizeof count))
        return truncated(in, key->name, err);
    if (element == LAC_GGUF_ARRAY)
        return lac_fail(err, LAC_EUNSUPPORTED, "key %s: arrays of arrays are not supported",
                        key->name);
    if (element >= KINDS_COUNT)
        return lac_fail(err, LAC_ECORRUPT, "key %s: element kind %u, known are 0 to %d", key->name,
                        element, KINDS_COUNT - 1);
    if (count > LAC_GGUF_ARRAY_MAX)
        return lac_fail(err, LAC_ECORRUPT, "key %s: %llu elements, limit %d", key->name,
                        (unsigned long long)count, LAC_GGUF_ARRAY_MAX);
    /* A string costs at least its length word: refused before any memory is asked for. */
    size_t each = element == LAC_GGUF_STRING ? 8 : kinds[element].bytes;
    if (count > left(in) / each)
        return lac_fail(err, LAC_ECORRUPT, "key %s: %llu elements, only %zu bytes follow",
                        key->name, (unsigned long long)count, left(in));
    key->element = (lac_gguf_kind)element;
    key->count = count;
    key->value = in->bytes + in->at;
    if (element == LAC_GGUF_STRING) {
        lac_status status = take_string_elements(in, key, err);
        if (status != LAC_OK)
            return status;
    } else {
        in->at += count * each;
    }
    key->value_bytes = (uint64_t)(in->bytes + in->at - key->value);
    return element == LAC_GGUF_BOOL ? check_bools(key->name, key->value, count, err) : LAC_OK;
}

static lac_status take_key(reader *in, size_t index, lac__gguf_key *key, lac_error *err)
{
    char what[48];
    snprintf(what, sizeof what, "name of key %zu", index);
    lac_status status = take_name(in, what, &key->name, err);
    if (status != LAC_OK)
        return status;
    uint32_t kind;
    if (!take(in, &kind, sizeof kind))
        return truncated(in, key->name, err);
    if (kind >= KINDS_COUNT)
        return lac_fail(err, LAC_ECORRUPT, "key %s: kind %u, known are 0 to %d", key->name, kind,
                        KINDS_COUNT - 1);
    key->kind = (lac_gguf_kind)kind;
    if (kind == LAC_GGUF_ARRAY)
        return take_array(in, key, err);
    if (kind == LAC_GGUF_STRING) {
        char field[LAC_GGUF_NAME_MAX + 8];
        snprintf(field, sizeof field, "key %s", key->name);
        status = take_text(in, field, LAC_GGUF_STRING_MAX, &key->value, &key->count, err);
        key->value_bytes = status == LAC_OK ? key->count : 0;
        return status;
    }
    if (left(in) < kinds[kind].bytes)
        return truncated(in, key->name, err);
    key->value = in->bytes + in->at;
    key->value_bytes = kinds[kind].bytes;
    key->count = 1;
    in->at += kinds[kind].bytes;
    return kind == LAC_GGUF_BOOL ? check_bools(key->name, key->value, 1, err) : LAC_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const lac__gguf_key *)a)->name, ((const lac__gguf_key *)b)->name);
}

static lac_status take_keys(reader *in, uint64_t count, struct lac_gguf *out, lac_error *err)
{
    out->keys = lac_alloc(count ? count : 1, sizeof *out->keys);
    for (uint64_t i = 0; i < count; i++) {
        out->keys_count = i + 1;
        lac_status status = take_key(in, i, &out->keys[i], err);
        if (status != LAC_OK)
            return status;
    }
    qsort(out->keys, out->keys_count, sizeof *out->keys, compare_keys);
    for (size_t i = 1; i < out->keys_count; i++)
        if (strcmp(out->keys[i - 1].name, out->keys[i].name) == 0)
            return lac_fail(err, LAC_ECORRUPT, "key %s: present twice", out->keys[i].name);
    return LAC_OK;
}

/* Dimensions, type and size of one tensor; `t->offset` is left relative to the data section. */
static lac_status take_shape(reader *in, lac_gguf_tensor *t, lac_error *err)
{
    uint32_t dims, type;
    if (!take(in, &dims, sizeof dims))
        return truncated(in, t->name, err);
    if (dims < 1 || dims > 4)
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: %u dimensions, allowed 1 to 4", t->name,
                        dims);
    t->dims_count = dims;
    t->elements = 1;
    for (uint32_t d = 0; d < 4; d++) {
        t->dims[d] = 1;
        if (d < dims && !take(in, &t->dims[d], sizeof t->dims[d]))
            return truncated(in, t->name, err);
        if (t->dims[d] == 0)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: dimension %u is 0", t->name, d);
        if (!lac_mul_u64(t->elements, t->dims[d], &t->elements) || t->elements > INT64_MAX)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: dimension %u of %llu: elements overflow",
                            t->name, d, (unsigned long long)t->dims[d]);
    }
    if (!take(in, &type, sizeof type) || !take(in, &t->offset, sizeof t->offset))
        return truncated(in, t->name, err);
    const lac_type_info *info = lac_type_get(type);
    if (!info)
        return lac_fail(
            err, LAC_EUNSUPPORTED,
            "tensor %s: type %u is not supported (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
            "Q8_0, Q4_K, Q5_K, Q6_K are)",
            t->name, type);
    t->type = (lac_type)type;
    if (t->dims[0] % info->block != 0)
        return lac_fail(err, LAC_ECORRUPT,
                        "tensor %s: row of %llu, not a multiple of %s's block of %u", t->name,
                        (unsigned long long)t->dims[0], info->name, info->block);
    if (!lac_mul_u64(t->elements / info->block, info->block_bytes, &t->bytes))
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: %llu elements: bytes overflow", t->name,
                        (unsigned long long)t->elements);
    return LAC_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    uint64_t x = (*(const lac_gguf_tensor *const *)a)->offset;
    uint64_t y = (*(const lac_gguf_tensor *const *)b)->offset;
    return x < y ? -1 : x > y;
}

/* Two tensors that share bytes are never written by an honest tool. */
static lac_status check_overlap(const struct lac_gguf *gguf, lac_error *err)
{
    lac_status status = LAC_OK;
    const lac_gguf_tensor **order = lac_alloc(gguf->tensors_count + 1, sizeof *order);
    for (size_t i = 0; i < gguf->tensors_count; i++)
        order[i] = &gguf->tensors[i];
    qsort(order, gguf->tensors_count, sizeof *order, compare_offsets);
    for (size_t i = 1; i < gguf->tensors_count && status == LAC_OK; i++)
        if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
            status =
                lac_fail(err, LAC_ECORRUPT, "tensor %s: offset %llu lies inside tensor %s",
                         order[i]->name, (unsigned long long)order[i]->offset, order[i - 1]->name);
    free(order);
    return status;
}

/* Turns relative offsets into places in the map. */
static lac_status place(const reader *in, uint64_t alignment, struct lac_gguf *out, lac_error *err)
{
    uint64_t start = (in->at + alignment - 1) / alignment * alignment;
    if (out->tensors_count > 0 && start > in->length)
        return lac_fail(err, LAC_ECORRUPT, "tensor data starts at %llu, the file ends at byte %zu",
                        (unsigned long long)start, in->length);
    for (size_t i = 0; i < out->tensors_count; i++) {
        lac_gguf_tensor *t = &out->tensors[i];
        uint64_t at, end;
        if (t->offset % alignment != 0)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: offset %llu, not a multiple of %llu",
                            t->name, (unsigned long long)t->offset, (unsigned long long)alignment);
        if (!lac_add_u64(start, t->offset, &at) || !lac_add_u64(at, t->bytes, &end) ||
            end > in->length)
            return lac_fail(err, LAC_ECORRUPT,
                            "tensor %s: offset %llu with %llu bytes, the data section has %llu",
                            t->name, (unsigned long long)t->offset, (unsigned long long)t->bytes,
                            (unsigned long long)(in->length - start));
        t->offset = at;
        t->data = in->bytes + at;
    }
    return check_overlap(out, err);
}

static lac_status take_tensors(reader *in, uint64_t count, uint32_t file, struct lac_gguf *out,
                               lac_error *err)
{
    out->tensors = lac_alloc(count ? count : 1, sizeof *out->tensors);
    for (uint64_t i = 0; i < count; i++) {
        lac_gguf_tensor *t = &out->tensors[i];
        char what[48];
        snprintf(what, sizeof what, "name of tensor %llu", (unsigned long long)i);
        char *name = NULL;
        lac_status status = take_name(in, what, &name, err);
        if (status != LAC_OK)
            return status;
        t->name = name;
        t->file = file;
        out->tensors_count = i + 1;
        status = take_shape(in, t, err);
        if (status != LAC_OK)
            return status;
    }
    return LAC_OK;
}

static lac_status take_header(reader *in, struct lac_gguf *out, uint64_t *tensors, uint64_t *keys,
                              lac_error *err)
{
    char magic[4];
    if (in->length < HEADER_BYTES)
        return lac_fail(err, LAC_ECORRUPT, "header: %zu bytes, needs %d", in->length, HEADER_BYTES);
    take(in, magic, sizeof magic);
    if (memcmp(magic, "GGUF", 4) != 0)
        return lac_fail(err, LAC_ECORRUPT, "magic: not a GGUF file");
    take(in, &out->version, sizeof out->version);
    if (out->version == 0x02000000u || out->version == 0x03000000u)
        return lac_fail(err, LAC_EUNSUPPORTED, "version: a big-endian file is not supported");
    if (out->version != 2 && out->version != 3)
        return lac_fail(err, LAC_EUNSUPPORTED, "version: %u, supported are 2 and 3", out->version);
    take(in, tensors, sizeof *tensors);
    take(in, keys, sizeof *keys);
    if (*tensors > LAC_GGUF_TENSORS_MAX)
        return lac_fail(err, LAC_ECORRUPT, "tensor count: %llu, limit %d",
                        (unsigned long long)*tensors, LAC_GGUF_TENSORS_MAX);
    if (*keys > LAC_GGUF_KEYS_MAX)
        return lac_fail(err, LAC_ECORRUPT, "key count: %llu, limit %d", (unsigned long long)*keys,
                        LAC_GGUF_KEYS_MAX);
    if (*tensors > left(in) / TENSOR_BYTES_MIN || *keys > left(in) / KEY_BYTES_MIN)
        return lac_fail(err, LAC_ECORRUPT,
                        "counts: %llu keys and %llu tensors, only %zu bytes follow",
                        (unsigned long long)*keys, (unsigned long long)*tensors, left(in));
    return LAC_OK;
}

/* Reads the keys that the container itself obeys; alignment first. */
static lac_status read_own_keys(struct lac_gguf *out, uint64_t *alignment, lac_error *err)
{
    lac_error inner = {0};
    uint64_t no = 0, count = 1, tensors = 0;
    *alignment = 32;
    lac_gguf_u64(out, "general.alignment", 1, LAC_GGUF_ALIGN_MAX, alignment, &inner);
    if (inner.status == LAC_OK && (*alignment < 8 || (*alignment & (*alignment - 1)) != 0))
        lac_fail(&inner, LAC_ECORRUPT,
                 "key general.alignment: %llu, must be a power of two, 8 to %d",
                 (unsigned long long)*alignment, LAC_GGUF_ALIGN_MAX);
    if (inner.status == LAC_OK)
        lac_gguf_u64(out, "split.no", 0, LAC_GGUF_SPLITS_MAX - 1, &no, &inner);
    if (inner.status == LAC_OK)
        lac_gguf_u64(out, "split.count", 0, LAC_GGUF_SPLITS_MAX, &count, &inner);
    out->split_tensors = -1;
    if (inner.status == LAC_OK &&
        lac_gguf_u64(out, "split.tensors.count", 0, LAC_GGUF_TENSORS_MAX, &tensors, &inner))
        out->split_tensors = (int64_t)tensors;
    if (inner.status != LAC_OK) {
        inner.status = LAC_ECORRUPT;
        if (err)
            *err = inner;
        return LAC_ECORRUPT;
    }
    out->split_no = (uint32_t)no;
    out->split_count = count == 0 ? 1 : (uint32_t)count;
    if (out->split_no >= out->split_count)
        return lac_fail(err, LAC_ECORRUPT, "key split.no: %u, split.count is %u", out->split_no,
                        out->split_count);
    return LAC_OK;
}

lac_status lac__gguf_read(const lac__gguf_bytes *bytes, uint32_t file, struct lac_gguf *out,
                          lac_error *err)
{
    reader in = {.bytes = bytes->bytes, .length = bytes->length};
    uint64_t tensors = 0, keys = 0, alignment = 0;
    lac_status status = take_header(&in, out, &tensors, &keys, err);
    if (status == LAC_OK)
        status = take_keys(&in, keys, out, err);
    if (status == LAC_OK)
        status = read_own_keys(out, &alignment, err);
    if (status == LAC_OK)
        status = take_tensors(&in, tensors, file, out, err);
    if (status == LAC_OK)
        status = place(&in, alignment, out, err);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const lac_gguf_tensor *const *)a)->name,
                  (*(const lac_gguf_tensor *const *)b)->name);
}

lac_status lac__gguf_index(struct lac_gguf *gguf, lac_error *err)
{
    gguf->by_name = lac_alloc(gguf->tensors_count + 1, sizeof *gguf->by_name);
    for (size_t i = 0; i < gguf->tensors_count; i++)
        gguf->by_name[i] = &gguf->tensors[i];
    qsort(gguf->by_name, gguf->tensors_count, sizeof *gguf->by_name, compare_names);
    for (size_t i = 1; i < gguf->tensors_count; i++)
        if (strcmp(gguf->by_name[i - 1]->name, gguf->by_name[i]->name) == 0)
            return lac_fail(err, LAC_ECORRUPT, "tensor %s: present twice", gguf->by_name[i]->name);
    return LAC_OK;
}

void lac__gguf_free_parts(struct lac_gguf *gguf)
{
    for (size_t i = 0; i < gguf->keys_count; i++) {
        free(gguf->keys[i].name);
        free(gguf->keys[i].starts);
    }
    free(gguf->keys);
    for (size_t i = 0; i < gguf->tensors_count; i++)
        free((void *)gguf->tensors[i].name);
    free(gguf->tensors);
    free(gguf->by_name);
    gguf->keys = NULL;
    gguf->tensors = NULL;
    gguf->by_name = NULL;
    gguf->keys_count = gguf->tensors_count = 0;
}
