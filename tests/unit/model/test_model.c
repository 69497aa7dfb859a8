/* Whole model files: what is read from them, by architecture; split sets on disk; the digest. */
#include <check.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_builder.h"
#include "model/model.h"

static lac_buf file_bytes;

/* Opens what `b` describes; the bytes live until close_model(). */
static lac_model *open_model(builder *b, const char *file_name)
{
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_error err = {0};
    build_finish(b, &file_bytes);
    build_free(b);
    ck_assert_msg(lac_gguf_parse(file_bytes.data, file_bytes.length, &gguf, &err) == LAC_OK, "%s",
                  err.text);
    ck_assert_msg(lac_model_from_gguf(gguf, file_name, &model, &err) == LAC_OK, "%s", err.text);
    return model;
}

static void close_model(lac_model *model)
{
    lac_model_close(&model);
    ck_assert_ptr_null(model);
    lac_model_close(&model);
    lac_buf_free(&file_bytes);
}

START_TEST(llama_facts)
{
    builder b;
    build_tiny(&b, "llama");
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert_str_eq(m->architecture, "llama");
    ck_assert_str_eq(m->name, "Tiny-test-Model");
    ck_assert_uint_eq(m->layers_count, TINY_LAYERS);
    ck_assert_uint_eq(m->hidden, TINY_HIDDEN);
    ck_assert_uint_eq(m->vocab, TINY_VOCAB);
    ck_assert_uint_eq(m->context, 128);
    ck_assert_uint_eq(m->head_dim, 8);
    ck_assert_uint_eq(m->rope_dims, 8);
    ck_assert_float_eq(m->norm_eps, 1e-5f);
    ck_assert_float_eq(m->attention_scale, 1.0f / sqrtf(8.0f));
    ck_assert_float_eq(m->embed_scale, 1.0f);
    ck_assert_int_eq(m->rope_style, LAC_MODEL_ROPE_PAIRS);
    ck_assert_int_eq(m->activation, LAC_ACTIVATION_SILU);
    ck_assert_int_eq(m->rope_scaling, LAC_ROPE_SCALING_NONE);
    ck_assert(m->tied);
    ck_assert_ptr_eq(m->head, m->embed);
    ck_assert_ptr_null(m->rope_factors);
    for (uint32_t l = 0; l < m->layers_count; l++) {
        const lac_layer *layer = &m->layers[l];
        char name[64];
        ck_assert_uint_eq(layer->heads, 4);
        ck_assert_uint_eq(layer->kv_heads, 2);
        ck_assert_uint_eq(layer->ffn, TINY_FFN);
        ck_assert_float_eq(layer->rope_base, 10000.0f);
        ck_assert_float_eq(layer->rope_scale, 1.0f);
        snprintf(name, sizeof name, "blk.%u.ffn_down.weight", l);
        ck_assert_str_eq(layer->down->name, name);
        ck_assert_uint_eq(layer->down->dims[0], TINY_FFN);
        ck_assert_uint_eq(layer->down->bytes, TINY_FFN * TINY_HIDDEN / 32 * 18);
        ck_assert(layer->attn_norm && layer->q && layer->k && layer->v && layer->o);
        ck_assert(layer->ffn_norm && layer->gate && layer->up);
        ck_assert(!layer->q_bias && !layer->q_norm && !layer->o_bias && !layer->attn_post_norm);
    }
    float one;
    memcpy(&one, m->out_norm->data, sizeof one);
    ck_assert_float_eq(one, 1.0f);
    close_model(m);
}
END_TEST

START_TEST(qwen_facts)
{
    builder b;
    build_tiny(&b, "qwen2");
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert_int_eq(m->rope_style, LAC_MODEL_ROPE_HALVES);
    ck_assert_uint_eq(m->layers[1].k_bias->elements, TINY_KV);
    ck_assert_ptr_null(m->layers[1].q_norm);
    close_model(m);
    build_tiny(&b, "qwen3");
    m = open_model(&b, "x.gguf");
    ck_assert_int_eq(m->rope_style, LAC_MODEL_ROPE_HALVES);
    ck_assert_uint_eq(m->layers[1].k_norm->elements, 8);
    ck_assert_ptr_null(m->layers[1].k_bias);
    close_model(m);
}
END_TEST

START_TEST(experts_facts)
{
    builder b;
    build_tiny_experts(&b);
    build_f32(&b, "qwen3moe.expert_weights_scale", 2.5f);
    lac_model *m = open_model(&b, "x.gguf");
    const lac_layer *layer = &m->layers[1];
    ck_assert_uint_eq(layer->experts, TINY_EXPERTS);
    ck_assert_uint_eq(layer->experts_used, 2);
    ck_assert_uint_eq(layer->ffn, TINY_EXPERT_FFN);
    ck_assert(m->experts_normalise);
    ck_assert_float_eq(m->experts_scale, 2.5f);
    ck_assert(!layer->gate && !layer->up && !layer->down);
    ck_assert_str_eq(layer->router->name, "blk.1.ffn_gate_inp.weight");
    ck_assert_str_eq(layer->up_experts->name, "blk.1.ffn_up_exps.weight");
    ck_assert_uint_eq(layer->down_experts->dims[0], TINY_EXPERT_FFN);
    uint64_t matrix = TINY_EXPERT_FFN * TINY_HIDDEN / 32 * 18 * TINY_EXPERTS;
    ck_assert_uint_eq(lac_model_unit_bytes(m, 3),
                      3 * matrix + 4 * TINY_HIDDEN + 4 * TINY_HIDDEN * TINY_EXPERTS);
    /* Down projections of all experts are zero bytes here: the unit adds nothing. */
    lac_unit_facts facts;
    lac_model_unit_facts(m, 3, &facts);
    ck_assert(facts.present && facts.output.there && facts.output.zero && !facts.pre_norm.zero);
    close_model(m);

    build_tiny_experts(&b);
    build_bool(&b, "qwen3moe.expert_weights_norm", false);
    build_tensor *down = build_tensor_at(&b, "blk.1.ffn_down_exps.weight");
    down->type = LAC_TYPE_F32;
    down->bytes = (uint64_t)TINY_EXPERT_FFN * TINY_HIDDEN * TINY_EXPERTS * 4;
    m = open_model(&b, "x.gguf");
    ck_assert(!m->experts_normalise);
    lac_model_unit_facts(m, 3, &facts);
    ck_assert(facts.output.there && !facts.output.zero);
    ck_assert_double_eq(lac_model_unit_bound(m, 3), 1.0);
    close_model(m);
}
END_TEST

START_TEST(gemma_facts)
{
    builder b;
    build_tiny(&b, "gemma3");
    build_u32(&b, "gemma3.attention.sliding_window", 5);
    build_u32(&b, "gemma3.attention.sliding_window_pattern", 2);
    build_f32(&b, "gemma3.rope.freq_base", 1e6f);
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert_int_eq(m->rope_style, LAC_MODEL_ROPE_HALVES);
    ck_assert_int_eq(m->activation, LAC_ACTIVATION_GELU_TANH);
    ck_assert_float_eq_tol(m->embed_scale * m->embed_scale, TINY_HIDDEN, 1e-4f);
    ck_assert_uint_eq(m->layers[0].window, 5);
    ck_assert_float_eq(m->layers[0].rope_base, 1e4f);
    ck_assert_uint_eq(m->layers[1].window, 0);
    ck_assert_float_eq(m->layers[1].rope_base, 1e6f);
    ck_assert(m->layers[1].q_norm && m->layers[1].attn_post_norm && m->layers[1].ffn_post_norm);
    ck_assert(m->tied);
    close_model(m);
}
END_TEST

START_TEST(layers_without_units)
{
    static const int32_t heads[] = {0, 4}, kv[] = {0, 2}, ffn[] = {TINY_FFN, 0};
    static const char *const attention[] = {"attn_norm", "attn_q", "attn_k", "attn_v",
                                            "attn_output"};
    static const char *const gated[] = {"ffn_norm", "ffn_gate", "ffn_up", "ffn_down"};
    builder b;
    char name[64];
    build_tiny(&b, "deci");
    build_i32s(&b, "deci.attention.head_count", heads, 2);
    build_i32s(&b, "deci.attention.head_count_kv", kv, 2);
    build_i32s(&b, "deci.feed_forward_length", ffn, 2);
    for (size_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "blk.0.%s.weight", attention[i]);
        build_drop_tensor(&b, name);
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "blk.1.%s.weight", gated[i]);
        build_drop_tensor(&b, name);
    }
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert_uint_eq(m->head_dim, TINY_HIDDEN / 4);
    ck_assert(m->layers[0].heads == 0 && m->layers[0].ffn == TINY_FFN && !m->layers[0].q);
    ck_assert(m->layers[1].heads == 4 && m->layers[1].ffn == 0 && !m->layers[1].up);
    close_model(m);
}
END_TEST

/* Heads without KV heads: a norm and a square matrix, nothing else. */
START_TEST(linear_attention)
{
    static const int32_t kv[] = {2, 0};
    builder b;
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_error err = {0};
    build_tiny(&b, "deci");
    build_i32s(&b, "deci.attention.head_count_kv", kv, 2);
    build_finish(&b, &file_bytes);
    ck_assert_int_eq(lac_gguf_parse(file_bytes.data, file_bytes.length, &gguf, &err), LAC_OK);
    ck_assert_int_eq(lac_model_from_gguf(gguf, "x", &model, &err), LAC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "tensor blk.1.attn_q.weight: has no role"));
    lac_gguf_close(&gguf);
    lac_buf_free(&file_bytes);
    build_drop_tensor(&b, "blk.1.attn_q.weight");
    build_drop_tensor(&b, "blk.1.attn_k.weight");
    build_drop_tensor(&b, "blk.1.attn_v.weight");
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert(m->layers[1].linear && !m->layers[0].linear);
    ck_assert(m->layers[1].o && m->layers[1].attn_norm && !m->layers[1].q && !m->layers[1].k);
    close_model(m);
}
END_TEST

START_TEST(gemma_needs_its_window)
{
    builder b;
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_error err = {0};
    build_tiny(&b, "gemma3");
    build_finish(&b, &file_bytes);
    ck_assert_int_eq(lac_gguf_parse(file_bytes.data, file_bytes.length, &gguf, &err), LAC_OK);
    ck_assert_int_eq(lac_model_from_gguf(gguf, "x", &model, &err), LAC_ECORRUPT);
    ck_assert_str_eq(err.text, "key gemma3.attention.sliding_window: missing");
    lac_gguf_close(&gguf);
    lac_buf_free(&file_bytes);
    build_free(&b);
}
END_TEST

START_TEST(qwen2_needs_its_biases)
{
    builder b;
    lac_gguf *gguf = NULL;
    lac_model *model = NULL;
    lac_error err = {0};
    build_tiny(&b, "qwen2");
    build_drop_tensor(&b, "blk.1.attn_v.bias");
    build_finish(&b, &file_bytes);
    ck_assert_int_eq(lac_gguf_parse(file_bytes.data, file_bytes.length, &gguf, &err), LAC_OK);
    ck_assert_int_eq(lac_model_from_gguf(gguf, "x", &model, &err), LAC_ECORRUPT);
    ck_assert_str_eq(err.text, "tensor blk.1.attn_v.bias: missing (layer 1 of 2)");
    lac_gguf_close(&gguf);
    lac_buf_free(&file_bytes);
    build_free(&b);
}
END_TEST

START_TEST(own_head_and_rope_forms)
{
    builder b;
    build_tiny(&b, "llama");
    build_add_tensor(&b, "output.weight", LAC_TYPE_F16, TINY_HIDDEN, TINY_VOCAB);
    build_add_tensor(&b, "rope_freqs.weight", LAC_TYPE_F32, 4, 0)->fill = 8.0f;
    build_text(&b, "llama.rope.scaling.type", "linear");
    build_f32(&b, "llama.rope.scaling.factor", 4.0f);
    build_u32(&b, "llama.rope.scaling.original_context_length", 32);
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert(!m->tied);
    ck_assert_str_eq(m->head->name, "output.weight");
    ck_assert_str_eq(m->rope_factors->name, "rope_freqs.weight");
    ck_assert_int_eq(m->rope_scaling, LAC_ROPE_SCALING_LINEAR);
    ck_assert_float_eq(m->rope_scaling_factor, 4.0f);
    ck_assert_float_eq(m->layers[1].rope_scale, 0.25f);
    ck_assert_uint_eq(m->rope_original_context, 32);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_float_eq(m->layers[1].rope_divisors[i], 8.0f);
    close_model(m);
}
END_TEST

/* dims 8, base 10000, original context 64: a pair i turns 64/(2π)·10^(−i) times, so 32 turns are
 * never reached (low = 0) and 1 turn lies at i = 1.008 (high = 2): the ramp is 1, 1/2, 0, 0. */
START_TEST(yarn_divides_frequencies)
{
    static const double stays[] = {1, 0.5, 0, 0};
    builder b;
    build_tiny(&b, "llama");
    build_text(&b, "llama.rope.scaling.type", "yarn");
    build_f32(&b, "llama.rope.scaling.factor", 4.0f);
    build_f32(&b, "llama.rope.scaling.attn_factor", 0.5f);
    build_u32(&b, "llama.rope.scaling.original_context_length", 64);
    lac_model *m = open_model(&b, "x.gguf");
    ck_assert_int_eq(m->rope_scaling, LAC_ROPE_SCALING_YARN);
    ck_assert_float_eq(m->layers[0].rope_scale, 1.0f);
    ck_assert_float_eq_tol(m->layers[1].rope_magnitude, 0.5 * (1 + 0.1 * log(4)), 1e-6);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_float_eq_tol(m->layers[1].rope_divisors[i], 1 / (stays[i] + (1 - stays[i]) / 4),
                               1e-6);
    close_model(m);
}
END_TEST

/* Older files give a factor and no type; "none" switches a factor off. */
START_TEST(a_factor_alone_is_linear)
{
    static const struct {
        const char *key, *type;
        float scale;
    } cases[] = {{"llama.rope.scaling.factor", NULL, 0.25f},
                 {"llama.rope.scale_linear", NULL, 0.25f},
                 {"llama.rope.scaling.factor", "none", 1.0f}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        builder b;
        build_tiny(&b, "llama");
        build_f32(&b, cases[i].key, 4.0f);
        if (cases[i].type)
            build_text(&b, "llama.rope.scaling.type", cases[i].type);
        lac_model *m = open_model(&b, "x.gguf");
        ck_assert_float_eq(m->layers[1].rope_scale, cases[i].scale);
        ck_assert_ptr_null(m->layers[1].rope_divisors);
        close_model(m);
    }
}
END_TEST

START_TEST(defaults)
{
    static const int32_t heads[] = {4, 4}, kv[] = {2, 2};
    builder b;
    build_tiny(&b, "llama");
    build_drop(&b, "llama.rope.freq_base");
    build_drop(&b, "llama.rope.dimension_count");
    build_drop(&b, "general.name");
    build_i32s(&b, "llama.attention.head_count", heads, 2);
    build_i32s(&b, "llama.attention.head_count_kv", kv, 2);
    lac_model *m = open_model(&b, "/some/where/My Model Q4.gguf");
    ck_assert_str_eq(m->name, "My-Model-Q4");
    ck_assert_float_eq(m->layers[0].rope_base, 10000.0f);
    ck_assert_uint_eq(m->rope_dims, 8);
    ck_assert_uint_eq(m->layers[1].kv_heads, 2);
    close_model(m);
}
END_TEST

START_TEST(metadata_access)
{
    builder b;
    lac_error err = {0};
    const char *text;
    size_t length, count;
    lac_gguf_kind kind;
    uint64_t number;
    double real;
    bool flag = false;
    build_tiny(&b, "llama");
    build_bool(&b, "t.flag", 1);
    build_raw(&b, "t.i8", LAC_GGUF_I8, "\x80", 1);
    build_raw(&b, "t.u64", LAC_GGUF_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    build_raw(&b, "t.f64", LAC_GGUF_F64, "\0\0\0\0\0\0\xf8\x3f", 8);
    lac_model *m = open_model(&b, "x.gguf");
    const lac_gguf *g = m->gguf;
    ck_assert_uint_eq(lac_gguf_version(g), 3);
    ck_assert_uint_eq(lac_gguf_file_bytes(g), file_bytes.length);
    ck_assert(lac_gguf_bool(g, "t.flag", &flag, &err) && flag);
    ck_assert(lac_gguf_u64(g, "t.u64", 0, UINT64_MAX, &number, &err) && number == UINT64_MAX);
    ck_assert(lac_gguf_f64(g, "t.f64", &real, &err));
    ck_assert_double_eq(real, 1.5);
    ck_assert(lac_gguf_string(g, "tokenizer.ggml.pre", &text, &length, &err));
    ck_assert_uint_eq(length, 5);
    ck_assert(lac_gguf_array(g, "tokenizer.ggml.tokens", &kind, &count, &err));
    ck_assert_int_eq(kind, LAC_GGUF_STRING);
    ck_assert_uint_eq(count, TINY_VOCAB);
    lac_gguf_array_string(g, "tokenizer.ggml.tokens", 5, &text, &length);
    ck_assert(length == 3 && memcmp(text, "abc", 3) == 0);
    ck_assert_double_eq(lac_gguf_array_number(g, "tokenizer.ggml.token_type", 6), 3.0);
    ck_assert(!lac_gguf_u64(g, "absent", 0, 1, &number, &err));
    ck_assert_int_eq(err.status, LAC_OK);
    ck_assert(!lac_gguf_u64(g, "t.i8", 0, 10, &number, &err));
    ck_assert_str_eq(err.text, "key t.i8: -128, allowed 0 to 10");
    err = (lac_error){0};
    ck_assert(!lac_gguf_bool(g, "t.u64", &flag, &err));
    ck_assert_str_eq(err.text, "key t.u64: is of kind u64, must be a bool");
    ck_assert_ptr_null(lac_gguf_tensor_find(g, "none"));
    ck_assert_ptr_eq(lac_gguf_tensor_find(g, "token_embd.weight"), m->embed);
    lac_gguf_release(g, m->embed); /* not mapped: nothing happens */
    close_model(m);
}
END_TEST

/* ---- on disk ---- */

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/lacuna-model-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void drop_folder(void)
{
    char path[128];
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s/m-%05d-of-00003.gguf", folder, i);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/m.gguf", folder);
    unlink(path);
    rmdir(folder);
}

static const char *write_file(const char *name, builder *b)
{
    static char path[128];
    lac_buf out = {0};
    build_finish(b, &out);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(out.data, 1, out.length, file), out.length);
    fclose(file);
    lac_buf_free(&out);
    build_free(b);
    return path;
}

/* Bends of one part of a set of three. */
typedef struct {
    int part; /* −1: none */
    const char *key;
    uint32_t value;
    bool leave_out, twice;
} bend;

/* Metadata in the first part, tensors dealt round over the three; returns the first one's path. */
static const char *write_split(bend how)
{
    char name[64];
    for (int part = 2; part >= 0; part--) {
        builder all, b;
        build_tiny(&all, "llama");
        b = all;
        b.tensors_count = 0;
        for (size_t i = 0; i < all.tensors_count; i++)
            if (i % 3 == (size_t)part || (how.twice && part == how.part && i == 0))
                b.tensors[b.tensors_count++] = all.tensors[i];
        if (part > 0) {
            build_free(&b);
            build_init(&all);
            all.tensors_count = b.tensors_count;
            memcpy(all.tensors, b.tensors, sizeof b.tensors);
            b = all;
        }
        build_u32(&b, "split.no", (uint32_t)part);
        build_u32(&b, "split.count", 3);
        build_u32(&b, "split.tensors.count", 24);
        if (part == how.part && how.key)
            build_u32(&b, how.key, how.value);
        if (part == how.part && how.leave_out) {
            build_free(&b);
            continue;
        }
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", part + 1);
        const char *path = write_file(name, &b);
        if (part == 0)
            return path;
    }
    return NULL;
}

START_TEST(split_set)
{
    builder b;
    lac_model *whole = NULL, *split = NULL;
    lac_error err = {0};
    lac_digest one, other;
    make_folder();
    build_tiny(&b, "llama");
    ck_assert_uint_eq(b.tensors_count, 20);
    const char *path = write_file("m.gguf", &b);
    ck_assert_msg(lac_model_open(path, &whole, &err) == LAC_OK, "%s", err.text);
    path = write_split((bend){.part = 0, .key = "split.tensors.count", .value = 20});
    ck_assert_msg(lac_model_open(path, &split, &err) == LAC_OK, "%s", err.text);
    ck_assert_uint_eq(lac_gguf_tensor_count(split->gguf), 20);
    ck_assert_uint_eq(split->parameters, whole->parameters);
    ck_assert_uint_eq(split->layers[1].down->bytes, whole->layers[1].down->bytes);
    ck_assert_uint_ne(split->layers[0].attn_norm->file, split->layers[0].q->file);
    lac_model_digest(whole, &one);
    lac_model_digest(split, &other);
    ck_assert_mem_eq(one.bytes, other.bytes, sizeof one.bytes);
    lac_gguf_release(split->gguf, split->embed);
    ck_assert_mem_eq(split->embed->data, whole->embed->data, split->embed->bytes);
    lac_model_close(&whole);
    lac_model_close(&split);
    drop_folder();
}
END_TEST

static const struct {
    bend how;
    const char *text;
} bad_splits[] = {
    {{.part = -1}, "m-00001-of-00003.gguf: key split.tensors.count: 24, the splits hold 20"},
    {{.part = 1, .leave_out = true}, "m-00002-of-00003.gguf: No such file or directory"},
    {{.part = 2, .key = "split.no", .value = 1},
     "m-00003-of-00003.gguf: key split.no: 1, expected 2"},
    {{.part = 1, .key = "split.count", .value = 4},
     "m-00002-of-00003.gguf: key split.count: 4, the first split has 3"},
    {{.part = 0, .key = "split.count", .value = 4},
     "the file name does not end in -00001-of-00004.gguf"},
    {{.part = 0, .key = "split.no", .value = 1}, "key split.no: 1: open the first split instead"},
    {{.part = 1, .twice = true, .key = "x", .value = 0},
     "split.tensors.count: 24, the splits hold 21"},
};

START_TEST(bad_split)
{
    lac_model *model = NULL;
    lac_error err = {0};
    make_folder();
    const char *path = write_split(bad_splits[_i].how);
    ck_assert_int_ne(lac_model_open(path, &model, &err), LAC_OK);
    ck_assert_msg(strstr(err.text, bad_splits[_i].text) != NULL, "\"%s\" lacks \"%s\"", err.text,
                  bad_splits[_i].text);
    ck_assert_ptr_null(model);
    drop_folder();
}
END_TEST

START_TEST(no_such_files)
{
    lac_model *model = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_model_open("/nowhere/m.gguf", &model, &err), LAC_EIO);
    ck_assert_str_eq(err.text, "/nowhere/m.gguf: No such file or directory");
    ck_assert_int_eq(lac_model_open("/tmp", &model, &err), LAC_EIO);
    ck_assert_str_eq(err.text, "/tmp: not a regular file");
    ck_assert_int_eq(lac_model_open("/dev/zero", &model, &err), LAC_EIO);
    ck_assert_int_eq(lac_model_open("/dev/zero", &model, NULL), LAC_EIO);
}
END_TEST

/* One changed weight near an end, one changed key, one changed name: each must change the digest.
 */
START_TEST(digest_sees_changes)
{
    lac_digest digests[5];
    for (int i = 0; i < 5; i++) {
        builder b;
        build_tiny(&b, "llama");
        if (i == 1)
            build_tensor_at(&b, "blk.1.attn_norm.weight")->fill = 1.0001f;
        if (i == 2)
            build_f32(&b, "llama.rope.freq_base", 10001.0f);
        if (i == 3)
            build_text(&b, "tokenizer.ggml.pre", "qwen2");
        if (i == 4) { /* the layout alone: the digest must stay */
            build_u32(&b, "general.alignment", 64);
            b.alignment = 64;
        }
        lac_model *m = open_model(&b, "x.gguf");
        lac_model_digest(m, &digests[i]);
        close_model(m);
    }
    for (int i = 1; i < 4; i++)
        ck_assert_mem_ne(digests[0].bytes, digests[i].bytes, sizeof digests[0].bytes);
    ck_assert_mem_eq(digests[0].bytes, digests[4].bytes, sizeof digests[0].bytes);
}
END_TEST

/* Of a tensor over 8 KiB the first and the last 4 KiB count, what lies between does not. */
START_TEST(digest_reads_the_ends)
{
    enum { FFN = 1024, BYTES = FFN * TINY_HIDDEN / 32 * 18 };
    static const long places[] = {-1, 0, 4095, 4096, BYTES - 4097, BYTES - 4096, BYTES - 1};
    lac_digest digests[7];
    for (int i = 0; i < 7; i++) {
        builder b;
        build_tiny(&b, "llama");
        build_u32(&b, "llama.feed_forward_length", FFN);
        for (size_t t = 0; t < b.tensors_count; t++)
            for (int d = 0; d < 2; d++)
                if (b.tensors[t].dims[d] == TINY_FFN) {
                    b.tensors[t].dims[d] = FFN;
                    b.tensors[t].bytes = BYTES;
                }
        lac_model *m = open_model(&b, "x.gguf");
        ck_assert_uint_eq(m->layers[0].down->bytes, BYTES);
        if (places[i] >= 0)
            file_bytes.data[m->layers[0].down->offset + (uint64_t)places[i]] ^= 1;
        lac_model_digest(m, &digests[i]);
        close_model(m);
    }
    for (int i = 1; i < 7; i++) {
        bool counts = i != 3 && i != 4;
        ck_assert_msg((memcmp(digests[0].bytes, digests[i].bytes, 32) != 0) == counts, "byte %ld",
                      places[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model");
    TCase *tcase = tcase_create("facts");
    tcase_add_test(tcase, llama_facts);
    tcase_add_test(tcase, qwen_facts);
    tcase_add_test(tcase, experts_facts);
    tcase_add_test(tcase, gemma_facts);
    tcase_add_test(tcase, layers_without_units);
    tcase_add_test(tcase, linear_attention);
    tcase_add_test(tcase, gemma_needs_its_window);
    tcase_add_test(tcase, qwen2_needs_its_biases);
    tcase_add_test(tcase, own_head_and_rope_forms);
    tcase_add_test(tcase, yarn_divides_frequencies);
    tcase_add_test(tcase, a_factor_alone_is_linear);
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, metadata_access);
    tcase_add_test(tcase, digest_sees_changes);
    tcase_add_test(tcase, digest_reads_the_ends);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("files");
    tcase_add_test(tcase, split_set);
    tcase_add_loop_test(tcase, bad_split, 0, sizeof bad_splits / sizeof bad_splits[0]);
    tcase_add_test(tcase, no_such_files);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
