/* The companion: patches' matrices as tensors of a GGUF file. One thread. Must not know JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/gguf_write.h"
#include "parts.h"

/* ---- reading ---- */

static lac_status tensor_find(const lac_gguf *gguf, const lac_plan_class *class, uint32_t unit,
                              const char *part, uint64_t columns, uint64_t rows,
                              const uint16_t **out, lac_error *err)
{
    char name[LAC__TENSOR_NAME_MAX];
    lac__plan_tensor_name(class, unit, part, name);
    const lac_gguf_tensor *t = lac_gguf_tensor_find(gguf, name);
    if (!t)
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: missing", name);
    if (t->type != LAC_TYPE_F16)
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: type %s, must be F16", name,
                        lac_type_get(t->type)->name);
    if (t->dims[0] != columns || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1)
        return lac_fail(err, LAC_ECORRUPT, "tensor %s: shape [%llu, %llu], must be [%llu, %llu]",
                        name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                        (unsigned long long)columns, (unsigned long long)rows);
    *out = t->data;
    return LAC_OK;
}

static lac_status patch_bind(const lac_gguf *gguf, lac_plan *plan, lac_plan_class *class,
                             const lac_patch *patch, size_t *used, lac_error *err)
{
    const uint16_t *down = NULL, *up = NULL;
    uint32_t hidden = plan->hidden, rank = patch->rank;
    lac_status status = LAC_OK;
    if (rank < hidden)
        status = tensor_find(gguf, class, patch->unit, "down", hidden, rank, &down, err);
    if (status == LAC_OK)
        status = tensor_find(gguf, class, patch->unit, "up", rank, hidden, &up, err);
    if (status != LAC_OK)
        return status;
    *used += down ? 2 : 1;
    status = lac_plan_patch_set(plan, class, patch->unit, rank, down, up, err);
    return status == LAC_EINVAL ? err->status = LAC_ECORRUPT : status;
}

lac_status lac__plan_bind(lac_plan *plan, const void *bytes, size_t length, lac_error *err)
{
    lac_gguf *gguf = NULL;
    lac_error own = {0};
    if (!err)
        err = &own;
    lac_status status = lac_gguf_parse(bytes, length, &gguf, err);
    if (status != LAC_OK)
        return status;
    size_t used = 0;
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        lac_plan_class *class = &plan->classes[c];
        for (uint32_t p = 0; p < class->patches_count && status == LAC_OK; p++)
            status = patch_bind(gguf, plan, class, &class->patches[p], &used, err);
    }
    if (status == LAC_OK && used != lac_gguf_tensor_count(gguf))
        status = lac_fail(err, LAC_ECORRUPT, "%zu tensors, the plan's patches have %zu",
                          lac_gguf_tensor_count(gguf), used);
    lac_gguf_close(&gguf);
    return status;
}

/* ---- writing ---- */

static void tensor_add(lac_gguf_writer *writer, lac_gguf_tensor *like, const lac_plan_class *class,
                       uint32_t unit, const char *part, uint64_t columns, uint64_t rows,
                       const uint16_t *data)
{
    char name[LAC__TENSOR_NAME_MAX];
    lac__plan_tensor_name(class, unit, part, name);
    *like = (lac_gguf_tensor){.type = LAC_TYPE_F16,
                              .dims_count = 2,
                              .dims = {columns, rows, 1, 1},
                              .elements = columns * rows,
                              .bytes = columns * rows * sizeof *data,
                              .data = data};
    lac_gguf_writer_tensor(writer, name, like, false);
}

lac_status lac__plan_companion_write(const lac_plan *plan, const char *path, lac_error *err)
{
    size_t patches = 0, at = 0;
    for (uint32_t c = 0; c < plan->classes_count; c++)
        patches += plan->classes[c].patches_count;
    lac_gguf_tensor *like = lac_alloc(2 * patches + 1, sizeof *like);
    lac_gguf_writer *writer = lac_gguf_writer_create(NULL);
    lac_gguf_writer_string(writer, "general.type", "lacuna-patches");
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        const lac_plan_class *class = &plan->classes[c];
        for (uint32_t p = 0; p < class->patches_count; p++) {
            const lac_patch *patch = &class->patches[p];
            if (patch->down)
                tensor_add(writer, &like[at++], class, patch->unit, "down", plan->hidden,
                           patch->rank, patch->down);
            tensor_add(writer, &like[at++], class, patch->unit, "up", patch->rank, plan->hidden,
                       patch->up);
        }
    }
    lac_status status = lac_gguf_writer_write(writer, path, err);
    lac_gguf_writer_destroy(&writer);
    free(like);
    return status;
}
