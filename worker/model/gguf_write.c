/* The GGUF writer. One thread. Knows the container, nothing about models. Layout: see gguf.c. */
#include "model/gguf_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "gguf_internal.h"

enum { VERSION = 3, ALIGNMENT = 32, BLOCK_BYTES = 65536 };

typedef struct {
    char *name;
    uint32_t kind, element;
    uint64_t count;
    const uint8_t *value; /* encoded, without an array's or text's head */
    uint64_t value_bytes;
    uint8_t *own; /* value when the writer made it */
} entry;

typedef struct {
    char *name;
    const lac_gguf_tensor *like;
    bool zeros;
} tensor;

struct lac_gguf_writer {
    entry *keys;
    size_t keys_count, keys_size;
    tensor *tensors;
    size_t tensors_count, tensors_size;
};

static entry *key_place(lac_gguf_writer *w, const char *name)
{
    for (size_t i = 0; i < w->keys_count; i++)
        if (strcmp(w->keys[i].name, name) == 0)
            return &w->keys[i];
    if (w->keys_count == w->keys_size) {
        w->keys_size = w->keys_size ? 2 * w->keys_size : 64;
        w->keys = lac_realloc(w->keys, w->keys_size, sizeof *w->keys);
    }
    entry *key = &w->keys[w->keys_count++];
    *key = (entry){.name = lac_strndup(name, strlen(name))};
    return key;
}

static void key_own(entry *key, uint32_t kind, const void *value, size_t bytes, uint64_t count)
{
    free(key->own);
    key->own = lac_alloc(bytes + 1, 1);
    memcpy(key->own, value, bytes);
    key->value = key->own;
    key->value_bytes = bytes;
    key->kind = kind;
    key->count = count;
}

lac_gguf_writer *lac_gguf_writer_create(const lac_gguf *source)
{
    lac_gguf_writer *w = lac_alloc(1, sizeof *w);
    for (size_t i = 0; source && i < source->keys_count; i++) {
        const lac__gguf_key *from = &source->keys[i];
        if (strncmp(from->name, "split.", 6) == 0 || strcmp(from->name, "general.alignment") == 0)
            continue;
        entry *key = key_place(w, from->name);
        key->kind = from->kind;
        key->element = from->element;
        key->count = from->count;
        key->value = from->value;
        key->value_bytes = from->value_bytes;
    }
    return w;
}

void lac_gguf_writer_destroy(lac_gguf_writer **writer)
{
    if (!writer || !*writer)
        return;
    lac_gguf_writer *w = *writer;
    for (size_t i = 0; i < w->keys_count; i++) {
        free(w->keys[i].name);
        free(w->keys[i].own);
    }
    for (size_t i = 0; i < w->tensors_count; i++)
        free(w->tensors[i].name);
    free(w->keys);
    free(w->tensors);
    free(w);
    *writer = NULL;
}

void lac_gguf_writer_u32(lac_gguf_writer *writer, const char *key, uint32_t value)
{
    key_own(key_place(writer, key), LAC_GGUF_U32, &value, sizeof value, 1);
}

void lac_gguf_writer_string(lac_gguf_writer *writer, const char *key, const char *text)
{
    key_own(key_place(writer, key), LAC_GGUF_STRING, text, strlen(text), strlen(text));
}

void lac_gguf_writer_u32s(lac_gguf_writer *writer, const char *key, const uint32_t *values,
                          size_t count)
{
    entry *e = key_place(writer, key);
    key_own(e, LAC_GGUF_ARRAY, values, count * sizeof *values, count);
    e->element = LAC_GGUF_U32;
}

void lac_gguf_writer_rename(lac_gguf_writer *writer, const char *from, const char *to)
{
    size_t cut = strlen(from), head = strlen(to);
    for (size_t i = 0; i < writer->keys_count; i++) {
        char *old = writer->keys[i].name;
        if (strncmp(old, from, cut) != 0)
            continue;
        size_t rest = strlen(old + cut);
        char *name = lac_alloc(head + rest + 1, 1);
        memcpy(name, to, head);
        memcpy(name + head, old + cut, rest);
        writer->keys[i].name = name;
        free(old);
    }
}

lac_status lac_gguf_writer_extend(lac_gguf_writer *writer, const char *key, size_t count,
                                  size_t from, lac_error *err)
{
    entry *e = NULL;
    for (size_t i = 0; i < writer->keys_count; i++)
        if (strcmp(writer->keys[i].name, key) == 0)
            e = &writer->keys[i];
    if (!e)
        return lac_fail(err, LAC_ENOTFOUND, "key %s: missing", key);
    size_t each = e->kind == LAC_GGUF_ARRAY ? lac__gguf_kind_bytes((lac_gguf_kind)e->element) : 0;
    if (each == 0 || e->count <= from || e->count > count)
        return lac_fail(err, LAC_EINVAL, "key %s: no array of %zu to %zu numbers", key, from + 1,
                        count);
    size_t have = e->count;
    uint8_t *all = lac_alloc(count, each);
    memcpy(all, e->value, have * each);
    for (size_t i = have; i < count; i++)
        memcpy(all + i * each, all + (from + (i - have) % (have - from)) * each, each);
    key_own(e, LAC_GGUF_ARRAY, all, count * each, count);
    free(all);
    return LAC_OK;
}

void lac_gguf_writer_tensor(lac_gguf_writer *writer, const char *name, const lac_gguf_tensor *like,
                            bool zeros)
{
    if (writer->tensors_count == writer->tensors_size) {
        writer->tensors_size = writer->tensors_size ? 2 * writer->tensors_size : 256;
        writer->tensors = lac_realloc(writer->tensors, writer->tensors_size, sizeof(tensor));
    }
    writer->tensors[writer->tensors_count++] =
        (tensor){.name = lac_strndup(name, strlen(name)), .like = like, .zeros = zeros};
}

/* ---- writing ---- */

/* A write error sticks in the stream and is looked at once, at the end. */
static void put(FILE *out, const void *bytes, size_t length)
{
    if (length > 0)
        fwrite(bytes, 1, length, out);
}

static void put_u32(FILE *out, uint32_t value)
{
    put(out, &value, sizeof value);
}

static void put_u64(FILE *out, uint64_t value)
{
    put(out, &value, sizeof value);
}

static void put_name(FILE *out, const char *name)
{
    put_u64(out, strlen(name));
    put(out, name, strlen(name));
}

static void put_key(FILE *out, const entry *key)
{
    put_name(out, key->name);
    put_u32(out, key->kind);
    if (key->kind == LAC_GGUF_ARRAY) {
        put_u32(out, key->element);
        put_u64(out, key->count);
    } else if (key->kind == LAC_GGUF_STRING) {
        put_u64(out, key->value_bytes);
    }
    put(out, key->value, key->value_bytes);
}

static void put_zeros(FILE *out, uint64_t count)
{
    static const uint8_t zeros[BLOCK_BYTES];
    for (; count > 0; count -= count < BLOCK_BYTES ? count : BLOCK_BYTES)
        put(out, zeros, count < BLOCK_BYTES ? count : BLOCK_BYTES);
}

static uint64_t padding(uint64_t at)
{
    return (ALIGNMENT - at % ALIGNMENT) % ALIGNMENT;
}

static void put_all(FILE *out, const lac_gguf_writer *w)
{
    uint64_t offset = 0;
    put(out, "GGUF", 4);
    put_u32(out, VERSION);
    put_u64(out, w->tensors_count);
    put_u64(out, w->keys_count);
    for (size_t i = 0; i < w->keys_count; i++)
        put_key(out, &w->keys[i]);
    for (size_t i = 0; i < w->tensors_count; i++) {
        const lac_gguf_tensor *t = w->tensors[i].like;
        put_name(out, w->tensors[i].name);
        put_u32(out, t->dims_count);
        put(out, t->dims, t->dims_count * sizeof t->dims[0]);
        put_u32(out, t->type);
        put_u64(out, offset);
        offset += t->bytes + padding(t->bytes);
    }
    off_t at = ftello(out);
    put_zeros(out, at < 0 ? 0 : padding((uint64_t)at));
    for (size_t i = 0; i < w->tensors_count; i++) {
        const lac_gguf_tensor *t = w->tensors[i].like;
        if (w->tensors[i].zeros)
            put_zeros(out, t->bytes);
        else
            put(out, t->data, t->bytes);
        put_zeros(out, padding(t->bytes));
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static lac_status check_names(const lac_gguf_writer *w, lac_error *err)
{
    lac_status status = LAC_OK;
    const char **names = lac_alloc(w->tensors_count + 1, sizeof *names);
    for (size_t i = 0; i < w->tensors_count; i++)
        names[i] = w->tensors[i].name;
    qsort(names, w->tensors_count, sizeof *names, compare_names);
    for (size_t i = 1; i < w->tensors_count && status == LAC_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = lac_fail(err, LAC_EINVAL, "tensor %s: added twice", names[i]);
    free(names);
    return status;
}

lac_status lac_gguf_writer_write(const lac_gguf_writer *writer, const char *path, lac_error *err)
{
    char temporary[4096 + 16];
    lac_status status = check_names(writer, err);
    if (status != LAC_OK)
        return status;
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary)
        return lac_fail(err, LAC_EINVAL, "path of %zu bytes, limit %d", strlen(path), 4096);
    FILE *out = fopen(temporary, "wbx");
    if (!out)
        return lac_fail(err, LAC_EIO, "%s: %s", temporary, strerror(errno));
    put_all(out, writer);
    bool failed = ferror(out) != 0;
    failed |= fflush(out) != 0 || fsync(fileno(out)) != 0;
    failed |= fclose(out) != 0;
    if (failed || rename(temporary, path) != 0) {
        status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
        unlink(temporary);
    }
    return status;
}
