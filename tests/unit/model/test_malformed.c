/* Bent model files, one bend each: every one must be refused with its own text, which names the
 * field, the value and the limit. The sanitizers watch for anything read, written or leaked on the
 * way. */
#include <check.h>

#include "gguf_builder.h"
#include "model/model.h"

static void put_u64(builder *b, const char *key, uint32_t kind, uint64_t value)
{
    build_raw(b, key, kind, &value, sizeof value);
}

static void element_length(builder *b, uint64_t length)
{
    lac_buf_add(build_array(b, "x", LAC_GGUF_STRING, 1), &length, sizeof length);
}

static void kind_only(builder *b, uint32_t element, uint64_t count)
{
    build_array(b, "x", element, count);
}

static build_tensor *norm(builder *b)
{
    return build_tensor_at(b, "blk.1.ffn_norm.weight");
}

static build_tensor *down(builder *b)
{
    return build_tensor_at(b, "blk.0.ffn_down.weight");
}

static void rename_tensor(build_tensor *t, const char *name)
{
    snprintf(t->name, sizeof t->name, "%s", name);
}

static void rename_key(builder *b, const char *key, const char *name)
{
    build_key *k = build_key_at(b, key);
    snprintf(k->name, sizeof k->name, "%s", name);
}

static void per_layer(builder *b, const char *key, int32_t first, int32_t second, size_t count)
{
    const int32_t values[3] = {first, second, 1};
    build_i32s(b, key, values, count);
}

static void rope_freqs(builder *b, uint64_t columns, float fill)
{
    build_add_tensor(b, "rope_freqs.weight", LAC_TYPE_F32, columns, 0)->fill = fill;
}

/* name, status, what the text must contain, what is bent */
// clang-format off
#define CASES(X)                                                                                   \
    X(empty, ECORRUPT, "header: 0 bytes, needs 24", b->length = 0)                                 \
    X(short_header, ECORRUPT, "header: 23 bytes", b->length = 23)                                  \
    X(magic, ECORRUPT, "magic: not a GGUF file", b->magic[3] = 'f')                                \
    X(version_1, EUNSUPPORTED, "version: 1, supported are 2 and 3", b->version = 1)                \
    X(version_4, EUNSUPPORTED, "version: 4", b->version = 4)                                       \
    X(big_endian, EUNSUPPORTED, "big-endian", b->version = 0x03000000u)                            \
    X(key_count_limit, ECORRUPT, "key count: 65537, limit 65536", b->key_count = 65537)            \
    X(key_count_huge, ECORRUPT, "key count: 18446744073709551614", b->key_count = UINT64_MAX - 1)  \
    X(key_count_more, ECORRUPT, "counts: 60000 keys", b->key_count = 60000)                        \
    X(key_count_fewer, ECORRUPT, "", b->key_count = b->keys_count - 1)                             \
    X(tensor_count_limit, ECORRUPT, "tensor count: 65537, limit 65536", b->tensor_count = 65537)   \
    X(tensor_count_huge, ECORRUPT, "tensor count: 9223372036854775808",                            \
      b->tensor_count = UINT64_C(1) << 63)                                                         \
    X(tensor_count_more, ECORRUPT, "", b->tensor_count = b->tensors_count + 1)                     \
    X(tensor_count_fewer, ECORRUPT, "output_norm.weight: missing",                                 \
      b->tensor_count = b->tensors_count - 1)                                                      \
    X(cut_in_keys, ECORRUPT, "", b->length = 100)                                                  \
    X(cut_in_tensors, ECORRUPT, "", b->length = 1500)                                              \
    X(cut_in_data, ECORRUPT, "tensor output_norm.weight: offset", (void)b; shorten = 64)           \
    X(key_name_empty, ECORRUPT, "name of key 0: empty", b->keys[0].name[0] = 0)                    \
    X(key_name_control, ECORRUPT, "byte 0x07 at 1", b->keys[0].name[1] = 7)                        \
    X(key_name_utf8, ECORRUPT, "byte 0xff at 0", b->keys[0].name[0] = (char)0xff)                  \
    X(key_twice, ECORRUPT, "key llama.block_count: present twice",                                 \
      rename_key(b, "llama.context_length", "llama.block_count"))                                  \
    X(key_kind, ECORRUPT, "key x: kind 13, known are 0 to 12", build_raw(b, "x", 13, "1234", 4))   \
    X(key_kind_huge, ECORRUPT, "kind 4294967295", build_raw(b, "x", UINT32_MAX, "1234", 4))        \
    X(bool_value, ECORRUPT, "key x: bool value 2", build_bool(b, "x", 2))                          \
    X(string_length_limit, ECORRUPT, "key x: length 1048577, limit 1048576",                       \
      put_u64(b, "x", LAC_GGUF_STRING, 1048577))                                                   \
    X(string_length_huge, ECORRUPT, "length 18446744073709551615",                                 \
      put_u64(b, "x", LAC_GGUF_STRING, UINT64_MAX))                                                \
    X(string_past_end, ECORRUPT, "key x: length 1048576, only",                                    \
      put_u64(b, "x", LAC_GGUF_STRING, 1048576))                                                   \
    X(array_count_limit, ECORRUPT, "key x: 4194305 elements, limit 4194304",                       \
      kind_only(b, LAC_GGUF_U8, 4194305))                                                          \
    X(array_count_huge, ECORRUPT, "18446744073709551615 elements",                                 \
      kind_only(b, LAC_GGUF_F64, UINT64_MAX))                                                      \
    X(array_past_end, ECORRUPT, "key x: 4194304 elements, only",                                   \
      kind_only(b, LAC_GGUF_U64, 4194304))                                                         \
    X(array_of_strings_past_end, ECORRUPT, "key x: 4194304 elements, only",                        \
      kind_only(b, LAC_GGUF_STRING, 4194304))                                                      \
    X(array_of_arrays, EUNSUPPORTED, "key x: arrays of arrays", kind_only(b, LAC_GGUF_ARRAY, 1))   \
    X(array_element_kind, ECORRUPT, "key x: element kind 99", kind_only(b, 99, 1))                 \
    X(array_string_length, ECORRUPT, "key x: element 0: string: length 9999999",                   \
      element_length(b, 9999999))                                                                  \
    X(array_bool_value, ECORRUPT, "key x: bool value 7",                                           \
      lac_buf_add(build_array(b, "x", LAC_GGUF_BOOL, 2), "\1\7", 2))                               \
    X(alignment_0, ECORRUPT, "key general.alignment: 0, allowed 1 to 65536",                       \
      build_u32(b, "general.alignment", 0))                                                        \
    X(alignment_4, ECORRUPT, "key general.alignment: 4, must be",                                  \
      build_u32(b, "general.alignment", 4))                                                        \
    X(alignment_48, ECORRUPT, "key general.alignment: 48, must be a power of two",                 \
      build_u32(b, "general.alignment", 48))                                                       \
    X(alignment_huge, ECORRUPT, "key general.alignment: 2147483648",                               \
      build_u32(b, "general.alignment", 0x80000000u))                                              \
    X(alignment_kind, ECORRUPT, "key general.alignment: is of kind string",                        \
      build_text(b, "general.alignment", "32"))                                                    \
    X(tensor_name_empty, ECORRUPT, "name of tensor 0: empty", b->tensors[0].name[0] = 0)           \
    X(tensor_name_control, ECORRUPT, "byte 0x0a at 0", b->tensors[0].name[0] = '\n')               \
    X(tensor_twice, ECORRUPT, "tensor blk.0.ffn_down.weight: present twice",                       \
      rename_tensor(norm(b), down(b)->name))                                                       \
    X(dims_0, ECORRUPT, "tensor blk.1.ffn_norm.weight: 0 dimensions", norm(b)->dims_count = 0)     \
    X(dims_5, ECORRUPT, "tensor blk.1.ffn_norm.weight: 5 dimensions", norm(b)->dims_count = 5)     \
    X(dims_huge, ECORRUPT, "4294967295 dimensions", norm(b)->dims_count = UINT32_MAX)              \
    X(dim_zero, ECORRUPT, "tensor blk.0.ffn_down.weight: dimension 1 is 0", down(b)->dims[1] = 0)  \
    X(dims_wrap_to_0, ECORRUPT, "elements overflow", down(b)->dims[0] = UINT64_C(1) << 32;         \
      down(b)->dims[1] = UINT64_C(1) << 32)                                                        \
    X(dims_wrap_to_small, ECORRUPT, "elements overflow", down(b)->dims[0] = UINT64_C(1) << 33;     \
      down(b)->dims[1] = (UINT64_C(1) << 31) + 1)                                                  \
    X(dims_over_int64, ECORRUPT, "elements overflow", down(b)->dims[1] = UINT64_C(1) << 57)        \
    X(bytes_overflow, ECORRUPT, "bytes overflow", norm(b)->dims[0] = UINT64_C(1) << 62)            \
    X(bytes_past_end, ECORRUPT, "tensor blk.1.ffn_norm.weight: offset",                            \
      norm(b)->dims[0] = UINT64_C(1) << 40)                                                        \
    X(row_not_whole_blocks, ECORRUPT, "row of 65, not a multiple of Q4_0's block of 32",           \
      down(b)->dims[0] = 65)                                                                       \
    X(type_unknown, EUNSUPPORTED, "tensor blk.0.ffn_down.weight: type 4 is not",                   \
      down(b)->type = 4)                                                                           \
    X(type_huge, EUNSUPPORTED, "type 4294967295 is not", down(b)->type = UINT32_MAX)               \
    X(offset_unaligned, ECORRUPT, "offset 8, not a multiple of 32", down(b)->offset = 8)           \
    X(offset_past_end, ECORRUPT, "offset 1048576 with", down(b)->offset = 1 << 20)                 \
    X(offset_wraps, ECORRUPT, "offset 18446744073709551584 with",                                  \
      down(b)->offset = UINT64_MAX - 31)                                                           \
    X(tensors_overlap, ECORRUPT, "lies inside tensor token_embd.weight", down(b)->offset = 32)     \
    X(split_no_alone, ECORRUPT, "key split.no: 3, split.count is 1", build_u32(b, "split.no", 3))  \
    X(split_count_limit, ECORRUPT, "key split.count: 513, allowed 0 to 512",                       \
      build_u32(b, "split.count", 513))                                                            \
    X(split_in_memory, EUNSUPPORTED, "key split.count: 2, only whole files",                       \
      build_u32(b, "split.count", 2))                                                              \
    X(no_architecture, ECORRUPT, "key general.architecture: missing",                              \
      build_drop(b, "general.architecture"))                                                       \
    X(architecture_kind, ECORRUPT, "key general.architecture: is of kind u32",                     \
      build_u32(b, "general.architecture", 1))                                                     \
    X(architecture_unknown, EUNSUPPORTED, "\"mamba\" is not one of llama, qwen2, qwen3",           \
      build_text(b, "general.architecture", "mamba"))                                              \
    X(no_layers_key, ECORRUPT, "key llama.block_count: missing",                                   \
      build_drop(b, "llama.block_count"))                                                          \
    X(layers_0, ECORRUPT, "key llama.block_count: 0, allowed 1 to 1024",                           \
      build_u32(b, "llama.block_count", 0))                                                        \
    X(layers_limit, ECORRUPT, "key llama.block_count: 1025, allowed 1 to 1024",                    \
      build_u32(b, "llama.block_count", 1025))                                                     \
    X(layers_huge, ECORRUPT, "key llama.block_count: 4294967295",                                  \
      build_u32(b, "llama.block_count", UINT32_MAX))                                               \
    X(layers_negative, ECORRUPT, "key llama.block_count: -1, allowed",                             \
      build_raw(b, "llama.block_count", LAC_GGUF_I32, "\xff\xff\xff\xff", 4))                      \
    X(layers_kind, ECORRUPT, "key llama.block_count: is of kind f32, must be an integer",          \
      build_f32(b, "llama.block_count", 2))                                                        \
    X(layers_more_than_file, ECORRUPT, "tensor blk.2.attn_norm.weight: missing (layer 2 of 3)",    \
      build_u32(b, "llama.block_count", 3))                                                        \
    X(layers_fewer_than_file, EUNSUPPORTED, "has no role in a llama model of 1 layers",            \
      build_u32(b, "llama.block_count", 1))                                                        \
    X(hidden_0, ECORRUPT, "key llama.embedding_length: 0",                                         \
      build_u32(b, "llama.embedding_length", 0))                                                   \
    X(hidden_limit, ECORRUPT, "key llama.embedding_length: 131073, allowed 1 to 131072",           \
      build_u32(b, "llama.embedding_length", 131073))                                              \
    X(hidden_other, ECORRUPT, "tensor token_embd.weight: shape [32, 9, 1, 1], must be [64, 9]",    \
      build_u32(b, "llama.embedding_length", 64))                                                  \
    X(context_0, ECORRUPT, "key llama.context_length: 0", build_u32(b, "llama.context_length", 0)) \
    X(context_limit, ECORRUPT, "key llama.context_length: 1048577, allowed 1 to 1048576",          \
      build_u32(b, "llama.context_length", 1048577))                                               \
    X(no_eps, ECORRUPT, "layer_norm_rms_epsilon: missing",                                         \
      build_drop(b, "llama.attention.layer_norm_rms_epsilon"))                                     \
    X(eps_nan, ECORRUPT, "layer_norm_rms_epsilon: nan, must be finite",                            \
      build_raw(b, "llama.attention.layer_norm_rms_epsilon", LAC_GGUF_F32, "\0\0\xc0\x7f", 4))     \
    X(eps_negative, ECORRUPT, "layer_norm_rms_epsilon: -1, allowed",                               \
      build_f32(b, "llama.attention.layer_norm_rms_epsilon", -1))                                  \
    X(eps_kind, ECORRUPT, "layer_norm_rms_epsilon: is of kind u32, must be a float",               \
      build_u32(b, "llama.attention.layer_norm_rms_epsilon", 1))                                   \
    X(no_heads, ECORRUPT, "key llama.attention.head_count: missing",                               \
      build_drop(b, "llama.attention.head_count"))                                                 \
    X(heads_0, ECORRUPT, "key llama.attention.head_count: 0, allowed 1 to 1024",                   \
      build_u32(b, "llama.attention.head_count", 0))                                               \
    X(heads_limit, ECORRUPT, "key llama.attention.head_count: 1025",                               \
      build_u32(b, "llama.attention.head_count", 1025))                                            \
    X(heads_do_not_divide, ECORRUPT, "key llama.attention.head_count: 6, must divide",             \
      build_u32(b, "llama.attention.head_count", 6))                                               \
    X(kv_heads_do_not_divide, ECORRUPT,                                                            \
      "head_count_kv: 3, does not divide the 4 heads of layer 0",                                  \
      build_u32(b, "llama.attention.head_count_kv", 3))                                            \
    X(heads_array_short, ECORRUPT, "head_count: 3 elements, llama.block_count is 2",               \
      per_layer(b, "llama.attention.head_count", 4, 4, 3))                                         \
    X(heads_array_zero, ECORRUPT, "head_count: element 1 is 0, allowed 1 to 1024",                 \
      per_layer(b, "llama.attention.head_count", 4, 0, 2))                                         \
    X(heads_array_negative, ECORRUPT, "head_count: element 0 is -4",                               \
      per_layer(b, "llama.attention.head_count", -4, 4, 2))                                        \
    X(heads_array_kind, ECORRUPT, "head_count: array elements must be integers",                   \
      element_length(b, 0); rename_key(b, "llama.attention.head_count", "y");                      \
      rename_key(b, "x", "llama.attention.head_count"))                                            \
    X(no_ffn, ECORRUPT, "key llama.feed_forward_length: missing",                                  \
      build_drop(b, "llama.feed_forward_length"))                                                  \
    X(ffn_limit, ECORRUPT, "key llama.feed_forward_length: 1048577",                               \
      build_u32(b, "llama.feed_forward_length", 1048577))                                          \
    X(ffn_other, ECORRUPT, "tensor blk.0.ffn_gate.weight: shape [32, 64, 1, 1], must be [32, 96]", \
      build_u32(b, "llama.feed_forward_length", 96))                                               \
    X(rope_dims_odd, ECORRUPT, "rope.dimension_count: 7, must be even",                            \
      build_u32(b, "llama.rope.dimension_count", 7))                                               \
    X(rope_dims_over_head, ECORRUPT,                                                               \
      "rope.dimension_count: 10, must be even and at most the head's 8",                           \
      build_u32(b, "llama.rope.dimension_count", 10))                                              \
    X(rope_base_0, ECORRUPT, "rope.freq_base: 0, allowed",                                         \
      build_f32(b, "llama.rope.freq_base", 0))                                                     \
    X(rope_scaling_type, EUNSUPPORTED, "rope.scaling.type: \"longrope\" is not supported",         \
      build_text(b, "llama.rope.scaling.type", "longrope"))                                        \
    X(rope_scaling_factor, ECORRUPT, "rope.scaling.factor: 0, allowed",                            \
      build_text(b, "llama.rope.scaling.type", "linear");                                          \
      build_f32(b, "llama.rope.scaling.factor", 0))                                                \
    X(yarn_no_factor, ECORRUPT, "key llama.rope.scaling.factor: missing",                          \
      build_text(b, "llama.rope.scaling.type", "yarn"))                                            \
    X(yarn_betas, ECORRUPT, "yarn_beta_slow: 40, must be at most yarn_beta_fast 32",               \
      build_text(b, "llama.rope.scaling.type", "yarn");                                            \
      build_f32(b, "llama.rope.scaling.factor", 4);                                                \
      build_f32(b, "llama.rope.scaling.yarn_beta_slow", 40))                                       \
    X(yarn_base_1, ECORRUPT, "rope.freq_base: 1, YaRN needs more than 1",                          \
      build_text(b, "llama.rope.scaling.type", "yarn");                                            \
      build_f32(b, "llama.rope.scaling.factor", 4); build_f32(b, "llama.rope.freq_base", 1))       \
    X(rope_freqs_shape, ECORRUPT, "tensor rope_freqs.weight: shape [8, 1, 1, 1], must be [4]",     \
      rope_freqs(b, 8, 1))                                                                         \
    X(rope_freqs_zero, ECORRUPT, "tensor rope_freqs.weight: element 0 is 0, must be positive",     \
      rope_freqs(b, 4, 0))                                                                         \
    X(value_length, EUNSUPPORTED, "value_length: 4, key_length is 8",                              \
      build_u32(b, "llama.attention.value_length", 4))                                             \
    X(key_length_limit, ECORRUPT, "key_length: 1025, allowed 1 to 1024",                           \
      build_u32(b, "llama.attention.key_length", 1025))                                            \
    X(experts_missing, ECORRUPT, "tensor blk.0.ffn_gate_exps.weight: missing",                     \
      build_free(b), build_tiny_experts(b); build_drop_tensor(b, "blk.0.ffn_gate_exps.weight"))                   \
    X(experts_none, ECORRUPT, "key qwen3moe.expert_count: missing",                                \
      build_free(b), build_tiny_experts(b); build_drop(b, "qwen3moe.expert_count"))                               \
    X(experts_one, ECORRUPT, "key qwen3moe.expert_count: 1, allowed 2 to 1024",                    \
      build_free(b), build_tiny_experts(b); build_u32(b, "qwen3moe.expert_count", 1))                             \
    X(experts_used, ECORRUPT, "key qwen3moe.expert_used_count: 4, there are 3 experts",            \
      build_free(b), build_tiny_experts(b); build_u32(b, "qwen3moe.expert_used_count", 4))                        \
    X(experts_gating, EUNSUPPORTED, "expert_gating_func: 2, only 1 (softmax) is supported",        \
      build_free(b), build_tiny_experts(b); build_u32(b, "qwen3moe.expert_gating_func", 2))                       \
    X(experts_shared, EUNSUPPORTED, "key qwen3moe.expert_shared_count: 1, only 0",                 \
      build_free(b), build_tiny_experts(b); build_u32(b, "qwen3moe.expert_shared_count", 1))                      \
    X(experts_shape, ECORRUPT, "ffn_up_exps.weight: shape [32, 32, 3, 1], must be [32, 16, 3]",    \
      build_free(b), build_tiny_experts(b); build_drop_tensor(b, "blk.0.ffn_gate_exps.weight");                   \
      build_add_tensor(b, "blk.0.ffn_gate_exps.weight", LAC_TYPE_F32, 32, 16)->dims[2] = 3;        \
      build_tensor_at(b, "blk.0.ffn_gate_exps.weight")->dims_count = 3;                            \
      build_tensor_at(b, "blk.0.ffn_gate_exps.weight")->bytes = 32 * 16 * 3 * 4;                   \
      build_u32(b, "qwen3moe.expert_feed_forward_length", 16))                                     \
    X(experts, EUNSUPPORTED, "key llama.expert_count: 8, only 0",                                  \
      build_u32(b, "llama.expert_count", 8))                                                       \
    X(vocab_size, ECORRUPT, "key llama.vocab_size: 10, tensor token_embd.weight has 9 rows",       \
      build_u32(b, "llama.vocab_size", 10))                                                        \
    X(tokens_other, ECORRUPT, "key tokenizer.ggml.tokens: 0 elements",                             \
      build_array(b, "tokenizer.ggml.tokens", LAC_GGUF_STRING, 0))                                 \
    X(tokens_kind, ECORRUPT, "key tokenizer.ggml.tokens: is of kind string",                       \
      build_text(b, "tokenizer.ggml.tokens", "a"))                                                 \
    X(no_embedding, ECORRUPT, "tensor token_embd.weight: missing",                                 \
      build_drop_tensor(b, "token_embd.weight"))                                                   \
    X(no_q, ECORRUPT, "tensor blk.1.attn_q.weight: missing (layer 1 of 2)",                        \
      build_drop_tensor(b, "blk.1.attn_q.weight"))                                                 \
    X(tensor_unknown, EUNSUPPORTED, "tensor blk.0.attn_sinks.weight: has no role",                 \
      build_add_tensor(b, "blk.0.attn_sinks.weight", LAC_TYPE_F32, 4, 0))                          \
    X(norm_of_other_architecture, EUNSUPPORTED, "tensor blk.0.attn_q_norm.weight: has no role",    \
      build_add_tensor(b, "blk.0.attn_q_norm.weight", LAC_TYPE_F32, 8, 0))                         \
    X(norm_type, EUNSUPPORTED, "tensor blk.1.ffn_norm.weight: type F16, a vector must be F32",     \
      norm(b)->type = LAC_TYPE_F16)                                                                \
    X(norm_shape, ECORRUPT, "tensor blk.1.ffn_norm.weight: shape [16, 1, 1, 1], must be [32]",     \
      norm(b)->dims[0] = 16)                                                                       \
    X(matrix_transposed, ECORRUPT, "ffn_down.weight: shape [32, 64, 1, 1], must be [64, 32]",      \
      down(b)->dims[0] = 32; down(b)->dims[1] = 64)                                                \
    X(matrix_with_depth, ECORRUPT, "ffn_down.weight: shape [64, 16, 2, 1], must be [64, 32]",      \
      down(b)->dims_count = 3; down(b)->dims[1] = 16; down(b)->dims[2] = 2)                        \
    X(head_shape, ECORRUPT, "tensor output.weight: shape [32, 8, 1, 1], must be [32, 9]",          \
      build_add_tensor(b, "output.weight", LAC_TYPE_F16, 32, 8))

// clang-format on

/* Bytes to take off the end, for bends that depend on where the file ends. */
static size_t shorten;

#define BEND(name, status, text, ...)                                                              \
    static void bend_##name(builder *b)                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
CASES(BEND)

typedef struct {
    const char *name;
    lac_status status;
    const char *text;
    void (*bend)(builder *b);
} bent;
#define ROW(name, status, text, ...) {#name, LAC_##status, text, bend_##name},
static const bent cases[] = {CASES(ROW)};
enum { CASES_COUNT = sizeof cases / sizeof cases[0] };
_Static_assert(CASES_COUNT >= 100, "as many malformed files as promised");

START_TEST(malformed)
{
    const bent *c = &cases[_i];
    builder b;
    lac_buf file = {0};
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_error err = {0};
    build_tiny(&b, "llama");
    c->bend(&b);
    build_finish(&b, &file);
    /* An exact copy: the sanitizer sees the first byte read past the end. */
    size_t length = file.length - shorten;
    char *exact = malloc(length ? length : 1);
    memcpy(exact, file.data, length);
    lac_status status = lac_gguf_parse(exact, length, &gguf, &err);
    if (status == LAC_OK) {
        status = lac_model_from_gguf(gguf, "bent.gguf", &model, &err);
        ck_assert_msg(status != LAC_OK, "%s: accepted", c->name);
        ck_assert_ptr_null(model);
        lac_gguf_close(&gguf);
    }
    ck_assert_ptr_null(gguf);
    ck_assert_msg(status == c->status, "%s: status %s, expected %s (%s)", c->name,
                  lac_status_name(status), lac_status_name(c->status), err.text);
    ck_assert_int_eq(err.status, status);
    ck_assert_msg(strstr(err.text, c->text) != NULL, "%s: text \"%s\" lacks \"%s\"", c->name,
                  err.text, c->text);
    ck_assert_msg(err.text[0] != '\0', "%s: no text", c->name);
    free(exact);
    lac_buf_free(&file);
    build_free(&b);
}
END_TEST

/* Whatever the length, a cut file gives an error or (never) a whole model, and touches nothing
 * else. */
START_TEST(cut_anywhere)
{
    builder b;
    lac_buf file = {0};
    build_tiny(&b, "llama");
    build_finish(&b, &file);
    for (size_t length = 0; length < file.length; length += length < 4096 ? 1 : 61) {
        lac_gguf *gguf = NULL;
        lac_error err = {0};
        char *exact = malloc(length ? length : 1);
        memcpy(exact, file.data, length);
        ck_assert_msg(lac_gguf_parse(exact, length, &gguf, &err) != LAC_OK, "cut at %zu: accepted",
                      length);
        ck_assert(err.text[0] != '\0');
        free(exact);
    }
    lac_buf_free(&file);
    build_free(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("malformed model files");
    TCase *tcase = tcase_create("one bend each");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, malformed, 0, CASES_COUNT);
    tcase_add_test(tcase, cut_anywhere);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
