/* lacuna-cuda-bench: how fast a device decodes models of given shapes, with weights made on the
 * spot, beside its own copy bandwidth. Knows no files: the operations are those the engine would
 * make.
 *
 * One JSON line a measurement on standard output. Exit 0, 1 with a line on standard error, 77 where
 * there is no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda.h"

enum { LAYERS_MAX = 32, OPS_MAX = 2 + 5 * LAYERS_MAX, ROWS = 16, PAGES_A_ROW = 16, CONTEXT = 512 };

typedef struct {
    const char *name;
    uint32_t layers, hidden, heads, kv_heads, dim, ffn, vocab;
    lac_type type, head_type;
} shape;

static const shape shapes[] = {
    {"135m", 30, 576, 9, 3, 64, 1536, 49152, LAC_TYPE_Q4_1, LAC_TYPE_Q8_0},
    {"1b", 16, 2048, 32, 8, 64, 8192, 128256, LAC_TYPE_Q4_K, LAC_TYPE_Q6_K},
    {"8b", 32, 4096, 32, 8, 128, 14336, 128256, LAC_TYPE_Q4_K, LAC_TYPE_Q6_K},
};

typedef struct {
    const shape *s;
    const lac_backend_ops *api;
    lac_backend *be;
    lac_op ops[OPS_MAX];
    size_t ops_count;
    size_t bytes; /* weights that a step reads */
    void *kv[LAYERS_MAX];
    size_t page_bytes;
    uint8_t *source; /* one random matrix, for all of them */
    uint32_t tables[ROWS][LAYERS_MAX][PAGES_A_ROW];
} bench;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(lac_status status, const lac_error *err)
{
    if (status == LAC_OK)
        return;
    fprintf(stderr, "lacuna-cuda-bench: %s\n", err->text);
    exit(status == LAC_EUNSUPPORTED ? 77 : 1);
}

/* ---- a model ---- */

/* Random codes with small scales, so that values stay finite through all layers. */
static void source_fill(uint8_t *p, lac_type type, size_t blocks)
{
    const lac_type_info *info = lac_type_get(type);
    uint32_t state = 1;
    static const uint8_t scale[2] = {0x00, 0x10}; /* f16 4.9e-4 */
    for (size_t i = 0; i < blocks * info->block_bytes; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (uint8_t)(state >> 24);
    }
    for (size_t b = 0; b < blocks; b++, p += info->block_bytes) {
        memcpy(p + (type == LAC_TYPE_Q6_K ? 208 : 0), scale, 2);
        if (type == LAC_TYPE_Q4_1 || type == LAC_TYPE_Q4_K)
            memset(p + 2, 0, 2);
    }
}

static lac_weight *matrix(bench *b, lac_type type, uint32_t rows, uint32_t cols)
{
    lac_error err = {0};
    lac_weight *w = NULL;
    source_fill(b->source, type, (size_t)rows * (cols / lac_type_get(type)->block));
    must(b->api->weight_pack(b->be, type, rows, cols, b->source, &w, &err), &err);
    b->bytes += b->api->weight_bytes(w);
    return w;
}

static lac_weight *ones(bench *b)
{
    lac_error err = {0};
    lac_weight *w = NULL;
    for (uint32_t i = 0; i < b->s->hidden; i++) {
        float one = 1.0f;
        memcpy(b->source + (size_t)i * 4, &one, 4);
    }
    must(b->api->weight_pack(b->be, LAC_TYPE_F32, 1, b->s->hidden, b->source, &w, &err), &err);
    return w;
}

static void layer(bench *b, uint32_t l)
{
    const shape *s = b->s;
    lac_error err = {0};
    uint32_t q = s->heads * s->dim, kv = s->kv_heads * s->dim;
    must(b->api->kv_alloc(b->be, b->page_bytes * ROWS * PAGES_A_ROW, &b->kv[l], &err), &err);
    lac_kv_view view = {b->kv[l], b->page_bytes, l};
    lac_rope rope = {LAC_ROPE_HALVES, s->dim, 10000.0f, 1.0f, NULL, 1.0f};
    lac_op *op = &b->ops[b->ops_count];
    op[0] = (lac_op){.kind = LAC_OP_QKV, .unit = 2 * l};
    op[0].u.qkv.norm = ones(b);
    op[0].u.qkv.eps = 1e-5f;
    op[0].u.qkv.q = matrix(b, s->type, q, s->hidden);
    op[0].u.qkv.k = matrix(b, s->type, kv, s->hidden);
    op[0].u.qkv.v = matrix(b, s->type, kv, s->hidden);
    op[0].u.qkv.heads = s->heads;
    op[0].u.qkv.kv_heads = s->kv_heads;
    op[0].u.qkv.head_dim = s->dim;
    op[0].u.qkv.rope = rope;
    op[0].u.qkv.kv = view;
    op[1] = (lac_op){.kind = LAC_OP_ATTENTION,
                     .unit = 2 * l,
                     .u.attention = {s->heads, s->kv_heads, s->dim, 0.125f, 0.0f, 0, view}};
    op[2] = (lac_op){.kind = LAC_OP_PROJECT, .unit = 2 * l};
    op[2].u.project.weight = matrix(b, s->type, s->hidden, q);
    op[3] = (lac_op){.kind = LAC_OP_GATE_UP, .unit = 2 * l + 1};
    op[3].u.gate_up.norm = ones(b);
    op[3].u.gate_up.eps = 1e-5f;
    op[3].u.gate_up.gate = matrix(b, s->type, s->ffn, s->hidden);
    op[3].u.gate_up.up = matrix(b, s->type, s->ffn, s->hidden);
    op[4] = (lac_op){.kind = LAC_OP_PROJECT, .unit = 2 * l + 1};
    op[4].u.project.weight = matrix(b, s->type, s->hidden, s->ffn);
    b->ops_count += 5;
}

static void model_make(bench *b, const shape *s, uint32_t device)
{
    lac_error err = {0};
    lac_backend_options o = {.rows_max = LAC_BATCH_ROWS_MAX,
                             .logit_rows_max = ROWS,
                             .hidden = s->hidden,
                             .q_width_max = s->heads * s->dim,
                             .kv_width_max = s->kv_heads * s->dim,
                             .ffn_max = s->ffn,
                             .vocab = s->vocab,
                             .context_max = CONTEXT,
                             .device = device};
    memset(b, 0, sizeof *b);
    b->s = s;
    b->api = lac_cuda_backend();
    must(b->api->create(&o, &b->be, &err), &err);
    b->source = malloc((size_t)s->vocab * s->hidden * 2);
    if (!b->source)
        must(lac_fail(&err, LAC_ENOMEM, "no memory for a matrix"), &err);
    b->page_bytes = b->api->kv_page_bytes(b->be, s->kv_heads, s->dim);
    lac_weight *head = matrix(b, s->head_type, s->vocab, s->hidden);
    b->ops[b->ops_count++] =
        (lac_op){.kind = LAC_OP_EMBED, .u.embed = {.table = head, .scale = 1.0f}};
    for (uint32_t l = 0; l < s->layers; l++)
        layer(b, l);
    b->ops[b->ops_count++] =
        (lac_op){.kind = LAC_OP_HEAD, .u.head = {.norm = ones(b), .eps = 1e-5f, .weight = head}};
    free(b->source);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t l = 0; l < s->layers; l++)
            for (uint32_t p = 0; p < PAGES_A_ROW; p++)
                b->tables[r][l][p] = r * PAGES_A_ROW + p;
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a step: `rows` sequences of one row each, or one sequence of all rows. The
 * first `left_out` units are run by no row. */
static double step_time(bench *b, uint32_t rows, bool prefill, uint32_t left_out)
{
    enum { STEPS = 60, WARM = 5 };
    static uint32_t tokens[LAC_BATCH_ROWS_MAX], all[LAC_BATCH_ROWS_MAX];
    lac_row_list lists[2 * LAYERS_MAX];
    lac_segment segments[ROWS];
    lac_logit_row wanted[ROWS];
    double times[STEPS];
    lac_error err = {0};
    uint32_t count = prefill ? 1 : rows;
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (i * 7919) % b->s->vocab, all[i] = i;
    for (uint32_t u = 0; u < 2 * b->s->layers; u++)
        lists[u] = (lac_row_list){u < left_out ? 0 : rows, all};
    for (uint32_t i = 0; i < WARM + STEPS; i++) {
        for (uint32_t r = 0; r < count; r++) {
            segments[r] = (lac_segment){prefill ? 0 : r, prefill ? rows : 1, prefill ? 0 : 256 + i,
                                        &b->tables[r][0][0], PAGES_A_ROW};
            wanted[r] = (lac_logit_row){.row = prefill ? rows - 1 : r};
        }
        lac_batch batch = {.rows = rows,
                           .tokens = tokens,
                           .segments_count = count,
                           .segments = segments,
                           .logit_rows_count = count,
                           .logit_rows = wanted,
                           .unit_rows = lists};
        double begin = seconds();
        must(b->api->run(b->be, b->ops, b->ops_count, &batch, &err), &err);
        if (i >= WARM)
            times[i - WARM] = seconds() - begin;
    }
    qsort(times, STEPS, sizeof *times, by_value);
    return times[STEPS / 2];
}

static void measure(bench *b, double copy)
{
    static const uint32_t batches[] = {1, 2, 4, 8, 16};
    const shape *s = b->s;
    uint32_t units = 2 * s->layers;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        double t = step_time(b, batches[i], false, 0), used = (double)b->bytes / t / 1e9;
        printf("{\"model\":\"%s\",\"what\":\"decode\",\"batch\":%u,\"us\":%.1f,\"tok_s\":%.1f,"
               "\"gb_s\":%.1f,\"of_copy\":%.3f}\n",
               s->name, batches[i], t * 1e6, batches[i] / t, used, used / copy);
        fflush(stdout);
    }
    double full = step_time(b, 1, false, 0), less = step_time(b, 1, false, units / 2);
    double none = step_time(b, 1, false, units), middle = (full + none) / 2;
    printf("{\"model\":\"%s\",\"what\":\"units\",\"us\":[%.1f,%.1f,%.1f],\"off_line\":%.3f}\n",
           s->name, full * 1e6, less * 1e6, none * 1e6, (less - middle) / full);
    double prompt = step_time(b, LAC_BATCH_ROWS_MAX, true, 0);
    printf("{\"model\":\"%s\",\"what\":\"prefill\",\"rows\":%d,\"us\":%.1f,\"tok_s\":%.1f}\n",
           s->name, LAC_BATCH_ROWS_MAX, prompt * 1e6, LAC_BATCH_ROWS_MAX / prompt);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static bench b;
    uint32_t device = 0;
    const char *only = argc > 1 ? argv[1] : "";
    if (argc > 3 || (argc > 2 && !lac_cuda_device_parse(argv[2], &device))) {
        fprintf(stderr, "usage: lacuna-cuda-bench [135m|1b|8b|'' [cuda:N]]\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double copy = 0;
        lac_error err = {0};
        if (*only && strcmp(only, shapes[i].name) != 0)
            continue;
        model_make(&b, &shapes[i], device);
        must(lac_cuda_copy_bandwidth(b.be, (size_t)1 << 30, 5, &copy, &err), &err);
        printf("{\"model\":\"%s\",\"what\":\"device\",\"name\":\"%s\",\"copy_gb_s\":%.1f,"
               "\"weights_mb\":%.1f}\n",
               shapes[i].name, b.api->isa(b.be), copy, (double)b.bytes / 1e6);
        measure(&b, copy);
        b.api->destroy(&b.be); /* and the context with all memory */
    }
    return 0;
}
