/* A plan of any bytes, and after its first NUL a companion of any bytes: decoded, bound, checked.
 * The companion's hash is not looked at, else no mutant would get past it. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

static void judge(lac_plan *plan)
{
    lac_error err = {0};
    if (plan->classes_count >= LAC_CLASSES_MAX)
        abort();
    lac_plan_digest(plan);
    if (lac_plan_check_all(plan, &err) != LAC_OK) {
        if (err.text[0] == '\0')
            abort();
        return;
    }
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        const lac_plan_class *class = &plan->classes[c];
        for (uint32_t p = 0; p < class->patches_count; p++)
            if (!class->patches[p].up || !lac_mask_has(&class->mask, class->patches[p].unit) ||
                !class->patches[p].down != (class->patches[p].rank == plan->hidden))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t length = end ? (size_t)(end - data) : size;
    char companion[LAC__PLAN_FILE_MAX + 1];
    lac_plan *plan = NULL;
    lac_error err = {0};
    lac_status status = lac__plan_decode((const char *)data, length, &plan, companion, &err);
    if (status == LAC_OK && companion[0] && end)
        status = lac__plan_bind(plan, end + 1, size - length - 1, &err);
    if (status != LAC_OK && err.text[0] == '\0')
        abort();
    if (status == LAC_OK)
        judge(plan);
    lac_plan_destroy(&plan);
    return 0;
}
