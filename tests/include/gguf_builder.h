/* Writes GGUF files in memory for tests: keys and tensors are listed, bent where a test wants them
 * bent, then laid out. Nothing is checked here; that is the reader's work. */
#ifndef LAC_TESTS_GGUF_BUILDER_H
#define LAC_TESTS_GGUF_BUILDER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tensor.h"
#include "model/gguf.h"

enum { BUILD_KEYS_MAX = 64, BUILD_TENSORS_MAX = 64 };

typedef struct {
    char name[80];
    uint32_t kind;
    lac_buf value; /* encoded */
} build_key;

typedef struct {
    char name[80];
    uint32_t dims_count, type;
    uint64_t dims[8];
    uint64_t bytes;
    uint64_t offset; /* UINT64_MAX: laid out one after another */
    float fill;      /* of an F32 tensor; others are zero */
} build_tensor;

typedef struct {
    char magic[4];
    uint32_t version;
    uint64_t alignment;
    uint64_t key_count, tensor_count; /* UINT64_MAX: the truth */
    uint64_t length;                  /* cut or extend the file to; UINT64_MAX: as it comes */
    size_t keys_count, tensors_count;
    build_key keys[BUILD_KEYS_MAX];
    build_tensor tensors[BUILD_TENSORS_MAX];
} builder;

static inline void build_init(builder *b)
{
    memset(b, 0, sizeof *b);
    memcpy(b->magic, "GGUF", 4);
    b->version = 3;
    b->alignment = 32;
    b->key_count = b->tensor_count = b->length = UINT64_MAX;
}

static inline void build_free(builder *b)
{
    for (size_t i = 0; i < b->keys_count; i++)
        lac_buf_free(&b->keys[i].value);
    b->keys_count = 0;
}

/* ---- keys: setting one again replaces its value */
static inline build_key *build_key_at(builder *b, const char *name)
{
    for (size_t i = 0; i < b->keys_count; i++)
        if (strcmp(b->keys[i].name, name) == 0)
            return &b->keys[i];
    return NULL;
}

static inline build_key *build_add(builder *b, const char *name, uint32_t kind)
{
    if (b->keys_count == BUILD_KEYS_MAX)
        abort();
    build_key *key = &b->keys[b->keys_count++];
    snprintf(key->name, sizeof key->name, "%s", name);
    key->kind = kind;
    return key;
}

static inline void build_raw(builder *b, const char *name, uint32_t kind, const void *value,
                             size_t length)
{
    build_key *key = build_key_at(b, name);
    if (!key)
        key = build_add(b, name, kind);
    key->kind = kind;
    lac_buf_clear(&key->value);
    lac_buf_add(&key->value, value, length);
}

static inline void build_drop(builder *b, const char *name)
{
    build_key *key = build_key_at(b, name);
    if (!key)
        abort();
    lac_buf_free(&key->value);
    *key = b->keys[--b->keys_count];
}

static inline void build_u32(builder *b, const char *name, uint32_t value)
{
    build_raw(b, name, LAC_GGUF_U32, &value, sizeof value);
}

static inline void build_f32(builder *b, const char *name, float value)
{
    build_raw(b, name, LAC_GGUF_F32, &value, sizeof value);
}

static inline void build_bool(builder *b, const char *name, uint8_t value)
{
    build_raw(b, name, LAC_GGUF_BOOL, &value, sizeof value);
}

static inline void build_put_text(lac_buf *out, const char *text, size_t length)
{
    uint64_t bytes = length;
    lac_buf_add(out, &bytes, sizeof bytes);
    lac_buf_add(out, text, length);
}

static inline void build_text(builder *b, const char *name, const char *text)
{
    build_raw(b, name, LAC_GGUF_STRING, "", 0);
    build_put_text(&build_key_at(b, name)->value, text, strlen(text));
}

/* An array's head: element kind and count; elements follow. */
static inline lac_buf *build_array(builder *b, const char *name, uint32_t element, uint64_t count)
{
    build_raw(b, name, LAC_GGUF_ARRAY, &element, sizeof element);
    lac_buf *value = &build_key_at(b, name)->value;
    lac_buf_add(value, &count, sizeof count);
    return value;
}

static inline void build_texts(builder *b, const char *name, const char *const *texts, size_t count)
{
    lac_buf *value = build_array(b, name, LAC_GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        build_put_text(value, texts[i], strlen(texts[i]));
}

static inline void build_i32s(builder *b, const char *name, const int32_t *values, size_t count)
{
    lac_buf_add(build_array(b, name, LAC_GGUF_I32, count), values, count * sizeof *values);
}

static inline void build_f32s(builder *b, const char *name, const float *values, size_t count)
{
    lac_buf_add(build_array(b, name, LAC_GGUF_F32, count), values, count * sizeof *values);
}

/* ---- tensors */
static inline build_tensor *build_tensor_at(builder *b, const char *name)
{
    for (size_t i = 0; i < b->tensors_count; i++)
        if (strcmp(b->tensors[i].name, name) == 0)
            return &b->tensors[i];
    abort();
}

/* rows 0: a vector. */
static inline build_tensor *build_add_tensor(builder *b, const char *name, lac_type type,
                                             uint64_t columns, uint64_t rows)
{
    if (b->tensors_count == BUILD_TENSORS_MAX)
        abort();
    build_tensor *t = &b->tensors[b->tensors_count++];
    const lac_type_info *info = lac_type_get(type);
    *t = (build_tensor){.dims_count = rows ? 2 : 1,
                        .type = type,
                        .dims = {columns, rows ? rows : 1, 1, 1},
                        .offset = UINT64_MAX,
                        .fill = 1.0f};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->bytes = columns * t->dims[1] / info->block * info->block_bytes;
    return t;
}

static inline void build_drop_tensor(builder *b, const char *name)
{
    *build_tensor_at(b, name) = b->tensors[b->tensors_count - 1];
    b->tensors_count--;
}

/* ---- the file */
static inline void build_pad(lac_buf *out, uint64_t alignment)
{
    while (alignment && out->length % alignment != 0)
        lac_buf_add(out, "", 1);
}

static inline void build_put_tensor_data(const build_tensor *t, lac_buf *out)
{
    for (uint64_t i = 0; i < t->bytes / sizeof t->fill; i++) {
        float value = t->type == LAC_TYPE_F32 ? t->fill : 0.0f;
        lac_buf_add(out, &value, sizeof value);
    }
}

/* Appends the file to `out`. */
static inline void build_finish(const builder *b, lac_buf *out)
{
    uint64_t keys = b->key_count == UINT64_MAX ? b->keys_count : b->key_count;
    uint64_t tensors = b->tensor_count == UINT64_MAX ? b->tensors_count : b->tensor_count;
    lac_buf_add(out, b->magic, 4);
    lac_buf_add(out, &b->version, 4);
    lac_buf_add(out, &tensors, 8);
    lac_buf_add(out, &keys, 8);
    for (size_t i = 0; i < b->keys_count; i++) {
        build_put_text(out, b->keys[i].name, strlen(b->keys[i].name));
        lac_buf_add(out, &b->keys[i].kind, 4);
        lac_buf_add(out, b->keys[i].value.data, b->keys[i].value.length);
    }
    lac_buf data = {0};
    for (size_t i = 0; i < b->tensors_count; i++) {
        const build_tensor *t = &b->tensors[i];
        uint64_t offset = t->offset == UINT64_MAX ? data.length : t->offset;
        build_put_text(out, t->name, strlen(t->name));
        lac_buf_add(out, &t->dims_count, 4);
        lac_buf_add(out, t->dims, 8 * (t->dims_count < 8 ? t->dims_count : 8));
        lac_buf_add(out, &t->type, 4);
        lac_buf_add(out, &offset, 8);
        build_put_tensor_data(t, &data);
        build_pad(&data, b->alignment);
    }
    build_pad(out, b->alignment);
    lac_buf_add(out, data.data, data.length);
    lac_buf_free(&data);
    while (b->length != UINT64_MAX && out->length < b->length)
        lac_buf_add(out, "", 1);
    if (b->length < out->length)
        out->length = b->length;
}

/* ---- a tiny model: 2 layers, 4 heads of 8, 2 for keys and values, 32 hidden, 64 ffn, 9 tokens */
enum { TINY_LAYERS = 2, TINY_HIDDEN = 32, TINY_FFN = 64, TINY_KV = 16, TINY_VOCAB = 9 };

static inline void build_tiny_layer(builder *b, int layer, bool bias, bool qk_norm, bool post_norm)
{
    static const struct {
        const char *name;
        uint64_t columns, rows;
        int group; /* 0 always, 1 biases, 2 norms of q and k, 3 norms of what is added */
    } parts[] = {
        {"attn_norm.weight", TINY_HIDDEN, 0, 0},
        {"attn_q.weight", TINY_HIDDEN, TINY_HIDDEN, 0},
        {"attn_k.weight", TINY_HIDDEN, TINY_KV, 0},
        {"attn_v.weight", TINY_HIDDEN, TINY_KV, 0},
        {"attn_q.bias", TINY_HIDDEN, 0, 1},
        {"attn_k.bias", TINY_KV, 0, 1},
        {"attn_v.bias", TINY_KV, 0, 1},
        {"attn_q_norm.weight", 8, 0, 2},
        {"attn_k_norm.weight", 8, 0, 2},
        {"attn_output.weight", TINY_HIDDEN, TINY_HIDDEN, 0},
        {"post_attention_norm.weight", TINY_HIDDEN, 0, 3},
        {"ffn_norm.weight", TINY_HIDDEN, 0, 0},
        {"ffn_gate.weight", TINY_HIDDEN, TINY_FFN, 0},
        {"ffn_up.weight", TINY_HIDDEN, TINY_FFN, 0},
        {"ffn_down.weight", TINY_FFN, TINY_HIDDEN, 0},
        {"post_ffw_norm.weight", TINY_HIDDEN, 0, 3},
    };
    char name[64];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if ((parts[i].group == 1 && !bias) || (parts[i].group == 2 && !qk_norm) ||
            (parts[i].group == 3 && !post_norm))
            continue;
        snprintf(name, sizeof name, "blk.%d.%s", layer, parts[i].name);
        build_add_tensor(b, name, parts[i].rows ? LAC_TYPE_Q4_0 : LAC_TYPE_F32, parts[i].columns,
                         parts[i].rows);
    }
}

/* The vocabulary of the tiny model: "a" "b" "c" " " "ab" "abc" "d" and two control tokens. */
static inline void build_tiny_tokenizer(builder *b)
{
    static const char *const tokens[TINY_VOCAB] = {"a",   "b",   "c",   "\xc4\xa0", "ab",
                                                   "abc", "<s>", "<e>", "d"};
    static const char *const merges[] = {"a b", "ab c"};
    static const int32_t types[TINY_VOCAB] = {1, 1, 1, 1, 1, 1, 3, 3, 1};
    build_text(b, "tokenizer.ggml.model", "gpt2");
    build_text(b, "tokenizer.ggml.pre", "gpt-2");
    build_texts(b, "tokenizer.ggml.tokens", tokens, TINY_VOCAB);
    build_i32s(b, "tokenizer.ggml.token_type", types, TINY_VOCAB);
    build_texts(b, "tokenizer.ggml.merges", merges, 2);
    build_u32(b, "tokenizer.ggml.bos_token_id", 6);
    build_u32(b, "tokenizer.ggml.eos_token_id", 7);
}

/* `arch` is llama, qwen2, qwen3 or gemma3. */
static inline void build_tiny(builder *b, const char *arch)
{
    char key[80];
    static const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        {"block_count", TINY_LAYERS}, {"embedding_length", TINY_HIDDEN},
        {"context_length", 128},      {"feed_forward_length", TINY_FFN},
        {"attention.head_count", 4},  {"attention.head_count_kv", 2},
        {"rope.dimension_count", 8},
    };
    build_init(b);
    build_text(b, "general.architecture", arch);
    build_text(b, "general.name", "Tiny (test) Model");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].name);
        build_u32(b, key, numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    build_f32(b, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    build_f32(b, key, 10000.0f);
    build_tiny_tokenizer(b);
    build_add_tensor(b, "token_embd.weight", LAC_TYPE_Q8_0, TINY_HIDDEN, TINY_VOCAB);
    bool gemma = strcmp(arch, "gemma3") == 0;
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        build_tiny_layer(b, layer, strcmp(arch, "qwen2") == 0,
                         gemma || strncmp(arch, "qwen3", 5) == 0, gemma);
    build_add_tensor(b, "output_norm.weight", LAC_TYPE_F32, TINY_HIDDEN, 0);
}

enum { TINY_EXPERTS = 3, TINY_EXPERT_FFN = 32 };

/* A tiny qwen3moe: the same with three experts of 32, of which a row runs two. */
static inline void build_tiny_experts(builder *b)
{
    static const char *const parts[] = {"gate", "up", "down"};
    build_tiny(b, "qwen3moe");
    build_u32(b, "qwen3moe.expert_count", TINY_EXPERTS);
    build_u32(b, "qwen3moe.expert_used_count", 2);
    build_u32(b, "qwen3moe.expert_feed_forward_length", TINY_EXPERT_FFN);
    for (int l = 0; l < TINY_LAYERS; l++) {
        char name[80];
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "blk.%d.ffn_%s.weight", l, parts[i]);
            build_tensor *t = build_tensor_at(b, name);
            snprintf(t->name, sizeof t->name, "blk.%d.ffn_%s_exps.weight", l, parts[i]);
            t->dims_count = 3;
            t->dims[i == 2 ? 0 : 1] = TINY_EXPERT_FFN;
            t->dims[2] = TINY_EXPERTS;
            t->bytes = t->dims[0] * t->dims[1] / 32 * 18 * TINY_EXPERTS; /* Q4_0 */
        }
        snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", l);
        build_add_tensor(b, name, LAC_TYPE_F32, TINY_HIDDEN, TINY_EXPERTS);
    }
}

#endif
