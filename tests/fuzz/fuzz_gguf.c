/* A model file of any bytes: container, every key and tensor, model facts, digest, tokenizer. */
#include <stdlib.h>

#include "model/model.h"
#include "tokenizer/tokenizer.h"

static void read_array(const lac_gguf *gguf, const char *key)
{
    lac_gguf_kind kind;
    size_t count;
    if (!lac_gguf_array(gguf, key, &kind, &count, NULL))
        return;
    for (size_t i = 0; i < count; i++) {
        const char *text;
        size_t length;
        if (kind == LAC_GGUF_STRING)
            lac_gguf_array_string(gguf, key, i, &text, &length);
        else
            lac_gguf_array_number(gguf, key, i);
    }
}

static void read_all(const lac_gguf *gguf)
{
    for (size_t i = 0; i < lac_gguf_key_count(gguf); i++) {
        lac_error err = {0};
        const char *key = lac_gguf_key_at(gguf, i, NULL), *text;
        size_t length;
        uint64_t number;
        double real;
        bool flag;
        lac_gguf_u64(gguf, key, 0, UINT32_MAX, &number, &err);
        lac_gguf_f64(gguf, key, &real, &err);
        lac_gguf_bool(gguf, key, &flag, &err);
        lac_gguf_string(gguf, key, &text, &length, &err);
        read_array(gguf, key);
    }
    for (size_t i = 0; i < lac_gguf_tensor_count(gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(gguf, i);
        const volatile uint8_t *bytes = t->data;
        if (lac_gguf_tensor_find(gguf, t->name) != t || bytes[0] + bytes[t->bytes - 1] < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_tokenizer *tokenizer = NULL;
    lac_error err = {0};
    if (lac_gguf_parse(data, size, &gguf, &err) != LAC_OK) {
        if (err.text[0] == '\0')
            abort();
        return 0;
    }
    read_all(gguf);
    if (lac_tokenizer_create(gguf, &tokenizer, &err) == LAC_OK) {
        uint32_t *ids;
        size_t count;
        if (lac_tokenizer_encode(tokenizer, "ab <s>abc\n12", 12,
                                 (lac_encode_options){.special = true}, &ids, &count,
                                 &err) == LAC_OK)
            free(ids);
    }
    lac_tokenizer_destroy(&tokenizer);
    if (lac_model_from_gguf(gguf, "fuzz.gguf", &model, &err) != LAC_OK) {
        lac_gguf_close(&gguf);
        return 0;
    }
    lac_digest digest;
    lac_model_digest(model, &digest);
    lac_model_close(&model);
    return 0;
}
