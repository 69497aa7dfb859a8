/* Life of the CUDA backend: driver, device, modules, buffers, packed weights, KV memory, and the
 * checks before a step. The engine's thread calls it. */
#include "backend.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "kernels/pack.h"
#include "pack.h"

enum { PACK_BYTES = 8 << 20, SM_MIN = 8 };

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

bool lac_cuda_device_parse(const char *text, uint32_t *device)
{
    unsigned number = 0;
    char rest;
    if (strcmp(text, "cuda") != 0) {
        if (strncmp(text, "cuda:", 5) != 0 || text[5] < '0' || text[5] > '9' || strlen(text) > 8 ||
            sscanf(text + 5, "%u%c", &number, &rest) != 1)
            return false;
    }
    *device = number;
    return true;
}

lac_status lac__cuda_wait(lac_backend *be, lac_error *err)
{
    int result = be->cu->event_record(be->event, be->stream);
    if (result == 0)
        while ((result = be->cu->event_query(be->event)) == LAC__CU_NOT_READY)
            sched_yield();
    return lac__cu_check(be->cu, result, "step", err);
}

lac__cu_address lac__cuda_buffer(lac_backend *be, size_t bytes, lac_error *err)
{
    lac__cu_address p = 0;
    if (be->failed != LAC_OK)
        return 0;
    be->failed = lac__cu_check(be->cu, be->cu->mem_alloc(&p, bytes ? bytes : 16), "buffers", err);
    if (be->failed != LAC_OK)
        return 0;
    be->buffers[be->buffers_count++] = p;
    be->failed =
        lac__cu_check(be->cu, be->cu->fill(p, 0, bytes ? bytes : 16, be->stream), "buffers", err);
    return p;
}

/* ---- create, destroy ---- */

static lac__cuda_panel panel_make(lac_backend *be, size_t rows, size_t cols, lac_error *err)
{
    lac__cuda_panel p = {0};
    cols = (cols + 31) / 32 * 32;
    p.q = (int8_t *)(uintptr_t)lac__cuda_buffer(be, rows * cols, err);
    p.s = (float *)(uintptr_t)lac__cuda_buffer(be, rows * cols / 2, err);
    p.f = (float *)(uintptr_t)lac__cuda_buffer(be, rows * cols * 4, err);
    return p;
}

static lac_status buffers_make(lac_backend *be, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    size_t rows = o->rows_max, logits = max_u32(o->logit_rows_max, 1);
    size_t slices = (o->vocab + LAC__PICK_SLICE - 1) / LAC__PICK_SLICE;
    uint32_t raw = max_u32(o->q_width_max + 2 * o->kv_width_max, 2 * o->ffn_max);
    uint32_t inner = max_u32(max_u32(o->q_width_max, o->ffn_max), o->hidden);
    be->h = lac__cuda_buffer(be, rows * o->hidden * 4, err);
    be->branch = lac__cuda_buffer(be, rows * o->hidden * 4, err);
    be->raw = lac__cuda_buffer(be, rows * raw * 4, err);
    be->logits = lac__cuda_buffer(be, logits * o->vocab * 4, err);
    be->partial = lac__cuda_buffer(be, (size_t)LAC__CUDA_PARTIAL * 4, err);
    be->counters = lac__cuda_buffer(
        be, max_u32((uint32_t)rows * (o->kv_width_max / 8 + 1), (uint32_t)logits) * 4, err);
    be->slice_best = lac__cuda_buffer(be, logits * (slices + 1) * 4, err);
    be->slice_id = lac__cuda_buffer(be, logits * (slices + 1) * 4, err);
    be->normed = panel_make(be, max_u32((uint32_t)rows, (uint32_t)logits), o->hidden, err);
    be->inner = panel_make(be, rows, inner, err);
    if (be->failed == LAC_OK)
        be->failed = lac__cu_check(
            be->cu, be->cu->host_alloc((void **)&be->host_row, ((size_t)o->vocab + 1) * 4, 0),
            "buffers", err);
    return be->failed;
}

static lac_status options_check(const lac_backend_options *o, lac_error *err)
{
    if (o->rows_max < 1 || o->rows_max > LAC_BATCH_ROWS_MAX)
        return lac_fail(err, LAC_EINVAL, "rows_max is %u, allowed 1..%d", o->rows_max,
                        LAC_BATCH_ROWS_MAX);
    if (o->logit_rows_max > o->rows_max)
        return lac_fail(err, LAC_EINVAL, "logit_rows_max is %u, allowed 0..%u", o->logit_rows_max,
                        o->rows_max);
    if (o->hidden < 1 || o->hidden > 1u << 20 || o->q_width_max > 1u << 20 ||
        o->kv_width_max > 1u << 20 || o->ffn_max > 1u << 20)
        return lac_fail(err, LAC_EINVAL, "widths are %u, %u, %u and %u, allowed up to %u",
                        o->hidden, o->q_width_max, o->kv_width_max, o->ffn_max, 1u << 20);
    if (o->vocab > LAC_VOCAB_MAX)
        return lac_fail(err, LAC_EINVAL, "vocab is %u, allowed 0..%d", o->vocab, LAC_VOCAB_MAX);
    if (o->kv_type == LAC_KV_Q8)
        return lac_fail(err, LAC_EUNSUPPORTED, "kv type is q8, cuda keeps f16 or f32");
    if (o->context_max < 1 || o->context_max > LAC_CONTEXT_MAX)
        return lac_fail(err, LAC_EINVAL, "context_max is %u, allowed 1..%d", o->context_max,
                        LAC_CONTEXT_MAX);
    return LAC_OK;
}

static lac_status device_open(lac_backend *be, lac_error *err)
{
    const lac__cu *cu = be->cu;
    int count = 0, major = 0, processors = 0, shared = 0;
    lac_status status = lac__cu_check(cu, cu->init(0), "starting the driver", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->device_count(&count), "counting devices", err);
    if (status != LAC_OK)
        return status;
    if (be->options.device >= (uint32_t)count)
        return lac_fail(err, LAC_EUNSUPPORTED, "cuda:%u: this machine has %d devices",
                        be->options.device, count);
    status = lac__cu_check(cu, cu->device_get(&be->device, (int)be->options.device), "device", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->device_name(be->name, (int)sizeof be->name, be->device),
                               "device name", err);
    int failed = cu->device_attribute(&major, LAC__CU_COMPUTE_MAJOR, be->device);
    failed |= cu->device_attribute(&processors, LAC__CU_MULTIPROCESSORS, be->device);
    failed |= cu->device_attribute(&shared, LAC__CU_SHARED_OPTIN, be->device);
    if (status == LAC_OK)
        status = lac__cu_check(cu, failed, "device attributes", err);
    if (status == LAC_OK && major < SM_MIN)
        return lac_fail(err, LAC_EUNSUPPORTED, "cuda:%u: %s has compute capability %d, needed %d",
                        be->options.device, be->name, major, SM_MIN);
    be->processors = (uint32_t)processors;
    be->shared_max = (uint32_t)shared;
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->context_retain(&be->context, be->device), "context", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->context_set(be->context), "context", err);
    if (status == LAC_OK)
        status = lac__cu_check(cu, cu->stream_create(&be->stream, LAC__CU_STREAM_NON_BLOCKING),
                               "stream", err);
    if (status == LAC_OK)
        status =
            lac__cu_check(cu, cu->event_create(&be->event, LAC__CU_EVENT_NO_TIMING), "event", err);
    return status;
}

static lac_status modules_open(lac_backend *be, const void *const *images, lac_error *err)
{
    for (; *images; images++) {
        if (be->modules_count == LAC__MODULES_MAX)
            return lac_fail(err, LAC_EINTERNAL, "cuda: more than %d modules", LAC__MODULES_MAX);
        lac_status status =
            lac__cu_check(be->cu, be->cu->module_load(&be->modules[be->modules_count], *images),
                          "loading kernels", err);
        if (status != LAC_OK)
            return status;
        be->modules_count++;
    }
    return LAC_OK;
}

static void cuda_destroy(lac_backend **backend)
{
    lac_backend *be = *backend;
    if (!be)
        return;
    const lac__cu *cu = be->cu;
    if (be->stream)
        (void)lac__cuda_wait(be, NULL);
    lac__cuda_program_free(be);
    for (uint32_t i = 0; i < be->buffers_count; i++)
        (void)cu->mem_free(be->buffers[i]);
    if (be->host_row)
        (void)cu->host_free(be->host_row);
    for (uint32_t i = 0; i < be->modules_count; i++)
        (void)cu->module_unload(be->modules[i]);
    if (be->event)
        (void)cu->event_destroy(be->event);
    if (be->stream)
        (void)cu->stream_destroy(be->stream);
    if (be->context)
        (void)cu->context_release(be->device);
    free(be);
    *backend = NULL;
}

static lac_status cuda_create(const lac_backend_options *options, lac_backend **out, lac_error *err)
{
    lac__cu_library library;
    lac_status status = options_check(options, err);
    if (status == LAC_OK)
        status = lac__cu_load(&library, err);
    if (status != LAC_OK)
        return status;
    lac_backend *be = lac_alloc(1, sizeof *be);
    be->options = *options;
    be->cu = library.driver;
    status = device_open(be, err);
    if (status == LAC_OK)
        status = modules_open(be, library.images, err);
    if (status == LAC_OK)
        status = buffers_make(be, err);
    if (status == LAC_OK)
        status = lac__cuda_wait(be, err);
    if (status != LAC_OK) {
        cuda_destroy(&be);
        return status;
    }
    *out = be;
    return LAC_OK;
}

static const char *cuda_isa(const lac_backend *be)
{
    return be->name;
}

static uint32_t cuda_threads(const lac_backend *be)
{
    (void)be;
    return 1;
}

/* ---- weights ---- */

/* Rows row_first … of a matrix, whole groups but at the end. */
static lac_status matrix_send(lac_backend *be, const lac_weight *w, uint32_t row_first,
                              uint32_t rows, const uint8_t *source, lac_error *err)
{
    const lac_type_info *info = lac_type_get(w->type);
    size_t row_bytes = (size_t)w->cols / info->block * info->block_bytes;
    uint32_t groups = (rows + 7) / 8, at_once = (uint32_t)(PACK_BYTES / w->group_bytes) + 1;
    at_once = at_once < groups ? at_once : groups;
    uint8_t *room = malloc(lac__group_bytes(w->type, w->cols));
    uint8_t *packed = malloc(at_once * w->group_bytes);
    lac_status status = LAC_OK;
    if (!room || !packed)
        status = lac_fail(err, LAC_ENOMEM, "weight %u x %u: no memory to pack", w->rows, w->cols);
    for (uint32_t g = 0; g < groups && status == LAC_OK; g += at_once) {
        uint32_t n = groups - g < at_once ? groups - g : at_once;
        for (uint32_t i = 0; i < n; i++) {
            const uint8_t *eight[8];
            for (uint32_t r = 0; r < 8; r++)
                eight[r] = (g + i) * 8 + r < rows ? source + ((g + i) * 8 + r) * row_bytes : NULL;
            lac__cuda_pack_group(w->type, w->cols, eight, room, packed + i * w->group_bytes);
        }
        status = lac__cu_check(be->cu,
                               be->cu->to_device(w->data + (row_first / 8 + g) * w->group_bytes,
                                                 packed, n * w->group_bytes, be->stream),
                               "weights", err);
        if (status == LAC_OK) /* `packed` is filled again */
            status = lac__cuda_wait(be, err);
    }
    free(room);
    free(packed);
    return status;
}

static lac_status vector_send(lac_backend *be, const lac_weight *w, lac_type type,
                              const uint8_t *source, lac_error *err)
{
    float *values = malloc((size_t)w->cols * 4);
    if (!values)
        return lac_fail(err, LAC_ENOMEM, "vector of %u: no memory", w->cols);
    lac__dequantise(type, source, w->cols, values);
    lac_status status =
        lac__cu_check(be->cu, be->cu->to_device(w->data, values, (size_t)w->cols * 4, be->stream),
                      "weights", err);
    if (status == LAC_OK)
        status = lac__cuda_wait(be, err);
    free(values);
    return status;
}

static lac_status cuda_weight_reserve(lac_backend *be, lac_type type, uint32_t rows, uint32_t cols,
                                      lac_weight **out, lac_error *err)
{
    const lac_type_info *info = lac_type_get(type);
    if (!info)
        return lac_fail(err, LAC_EUNSUPPORTED, "weight type %d: not supported", (int)type);
    if (rows == 0 || cols == 0 || cols > 1u << 20 || cols % info->block != 0)
        return lac_fail(err, LAC_EINVAL,
                        "weight %u x %u: %s needs rows ≥ 1 and columns that are a "
                        "multiple of %u, at most %u",
                        rows, cols, info->name, info->block, 1u << 20);
    lac_weight *w = lac_alloc(1, sizeof *w);
    *w = (lac_weight){.type = type,
                      .vector = rows == 1,
                      .rows = rows,
                      .cols = cols,
                      .groups = (rows + 7) / 8,
                      .group_bytes = lac__cuda_group_bytes(type, cols)};
    w->bytes = w->vector ? (size_t)cols * 4 : w->groups * w->group_bytes;
    lac_status status =
        lac__cu_check(be->cu, be->cu->mem_alloc(&w->data, w->bytes), "weights", err);
    if (status != LAC_OK) {
        free(w);
        return status;
    }
    *out = w;
    return LAC_OK;
}

static lac_status weight_send(lac_backend *be, const lac_weight *w, lac_type type,
                              uint32_t row_first, uint32_t rows, const void *source, lac_error *err)
{
    return w->vector ? vector_send(be, w, type, source, err)
                     : matrix_send(be, w, row_first, rows, source, err);
}

/* Cannot say that it failed, so the first step does. */
static void cuda_weight_fill(lac_backend *be, lac_weight *w, lac_type type, uint32_t row_first,
                             uint32_t rows, const void *source)
{
    lac_error err = {0};
    if (weight_send(be, w, type, row_first, rows, source, &err) != LAC_OK &&
        be->fill_error.status == LAC_OK)
        be->fill_error = err;
}

static void cuda_weight_free(lac_backend *be, lac_weight **weight);

static lac_status cuda_weight_pack(lac_backend *be, lac_type type, uint32_t rows, uint32_t cols,
                                   const void *source, lac_weight **out, lac_error *err)
{
    lac_weight *w = NULL;
    lac_status status = cuda_weight_reserve(be, type, rows, cols, &w, err);
    if (status == LAC_OK)
        status = weight_send(be, w, type, 0, rows, source, err);
    if (status != LAC_OK) {
        cuda_weight_free(be, &w);
        return status;
    }
    *out = w;
    return LAC_OK;
}

static void cuda_weight_free(lac_backend *be, lac_weight **weight)
{
    if (!*weight)
        return;
    (void)be->cu->mem_free((*weight)->data);
    free(*weight);
    *weight = NULL;
}

static size_t cuda_weight_bytes(const lac_weight *w)
{
    return w->bytes;
}

/* ---- KV memory ---- */

static lac_status cuda_kv_alloc(lac_backend *be, size_t bytes, void **out, lac_error *err)
{
    lac__cu_address p = 0;
    lac_status status = lac__cu_check(be->cu, be->cu->mem_alloc(&p, bytes), "kv pool", err);
    if (status != LAC_OK)
        return status;
    status = lac__cu_check(be->cu, be->cu->fill(p, 0, bytes, be->stream), "kv pool", err);
    if (status == LAC_OK)
        status = lac__cuda_wait(be, err);
    if (status != LAC_OK) {
        (void)be->cu->mem_free(p);
        return status;
    }
    *out = (void *)(uintptr_t)p;
    return LAC_OK;
}

static void cuda_kv_free(lac_backend *be, void **region, size_t bytes)
{
    (void)bytes;
    if (*region)
        (void)be->cu->mem_free((lac__cu_address)(uintptr_t)*region);
    *region = NULL;
}

static size_t cuda_kv_page_bytes(const lac_backend *be, uint32_t kv_heads, uint32_t head_dim)
{
    size_t element = be->options.kv_type == LAC_KV_F32 ? 4 : 2;
    return (size_t)kv_heads * head_dim * LAC_KV_BLOCK * 2 * element;
}

/* ---- a step ---- */

static lac_status batch_check(const lac_backend *be, const lac_batch *b, lac_error *err)
{
    const lac_backend_options *o = &be->options;
    if (b->rows < 1 || b->rows > o->rows_max)
        return lac_fail(err, LAC_EINVAL, "batch has %u rows, allowed 1..%u", b->rows, o->rows_max);
    if (b->logit_rows_count > o->logit_rows_max)
        return lac_fail(err, LAC_EINVAL, "batch wants %u logit rows, allowed 0..%u",
                        b->logit_rows_count, o->logit_rows_max);
    for (uint32_t i = 0; i < b->logit_rows_count; i++)
        if (b->logit_rows[i].row >= b->rows)
            return lac_fail(err, LAC_EINVAL, "logit row %u is %u, allowed 0..%u", i,
                            b->logit_rows[i].row, b->rows - 1);
    if (b->times)
        return lac_fail(err, LAC_EUNSUPPORTED, "cuda does not time single operations");
    uint32_t row = 0;
    for (uint32_t s = 0; s < b->segments_count; s++) {
        const lac_segment *g = &b->segments[s];
        if (g->row != row || g->rows < 1 || g->rows > b->rows - row || g->pos >= o->context_max ||
            g->rows > o->context_max - g->pos)
            return lac_fail(err, LAC_EINVAL,
                            "segment %u: rows %u+%u at position %u of a batch of %u rows and a "
                            "context of %u",
                            s, g->row, g->rows, g->pos, b->rows, o->context_max);
        row += g->rows;
    }
    if (row != b->rows)
        return lac_fail(err, LAC_EINVAL, "segments cover %u of %u rows", row, b->rows);
    return LAC_OK;
}

static lac_status cuda_run(lac_backend *be, const lac_op *ops, size_t count, lac_batch *batch,
                           lac_error *err)
{
    if (be->fill_error.status != LAC_OK)
        return lac_fail(err, be->fill_error.status, "%s", be->fill_error.text);
    lac_status status = batch_check(be, batch, err);
    if (status != LAC_OK)
        return status;
    if (ops != be->ops || count != be->ops_count) {
        status = lac__cuda_program_make(be, ops, count, err);
        if (status != LAC_OK)
            return status;
    }
    return lac__cuda_run(be, batch, err);
}

const lac_backend_ops *lac_cuda_backend(void)
{
    static const lac_backend_ops table = {
        .name = "cuda",
        .create = cuda_create,
        .destroy = cuda_destroy,
        .isa = cuda_isa,
        .threads = cuda_threads,
        .weight_pack = cuda_weight_pack,
        .weight_reserve = cuda_weight_reserve,
        .weight_fill = cuda_weight_fill,
        .weight_free = cuda_weight_free,
        .weight_bytes = cuda_weight_bytes,
        .kv_alloc = cuda_kv_alloc,
        .kv_free = cuda_kv_free,
        .kv_page_bytes = cuda_kv_page_bytes,
        .run = cuda_run,
    };
    return &table;
}
