/* The model digest: SHA-256 over canonical metadata, the tensor table and the ends of every tensor.
 * Any thread, over an open model.
 *
 * Canonical: metadata and tensors in the order of their names; without split.* and
 * general.alignment, which say how the file is laid out and not what the model is; tensors without
 * file and offset. Each text is preceded by its length, so no two models share an encoding. */
#include <string.h>

#include "gguf_internal.h"
#include "model/model.h"

enum { END_BYTES = 4096 };

static void add_u64(lac_hasher *hasher, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    lac_hasher_add(hasher, bytes, sizeof bytes);
}

static void add_text(lac_hasher *hasher, const char *text)
{
    add_u64(hasher, strlen(text));
    lac_hasher_add(hasher, text, strlen(text));
}

static bool about_layout(const char *key)
{
    return strncmp(key, "split.", 6) == 0 || strcmp(key, "general.alignment") == 0;
}

static void add_key(lac_hasher *hasher, const lac__gguf_key *key)
{
    add_text(hasher, key->name);
    add_u64(hasher, key->kind);
    add_u64(hasher, key->kind == LAC_GGUF_ARRAY ? key->element : key->kind);
    add_u64(hasher, key->count);
    lac_hasher_add(hasher, key->value, key->value_bytes);
}

static void add_tensor(lac_hasher *hasher, const lac_gguf_tensor *t)
{
    add_text(hasher, t->name);
    add_u64(hasher, t->type);
    for (int d = 0; d < 4; d++)
        add_u64(hasher, t->dims[d]);
    uint64_t end = t->bytes < END_BYTES ? t->bytes : END_BYTES;
    lac_hasher_add(hasher, t->data, end);
    lac_hasher_add(hasher, (const uint8_t *)t->data + t->bytes - end, end);
}

void lac_model_digest(const lac_model *model, lac_digest *out)
{
    const lac_gguf *gguf = model->gguf;
    lac_hasher *hasher = lac_hasher_create();
    static const char domain[] = "lacuna model digest 1";
    add_text(hasher, domain);
    for (size_t i = 0; i < gguf->keys_count; i++)
        if (!about_layout(gguf->keys[i].name))
            add_key(hasher, &gguf->keys[i]);
    add_u64(hasher, gguf->tensors_count);
    for (size_t i = 0; i < gguf->tensors_count; i++)
        add_tensor(hasher, gguf->by_name[i]);
    lac_hasher_finish(&hasher, out);
}
