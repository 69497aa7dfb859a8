/* What the files of worker/plan share. */
#ifndef LAC_PLAN_PARTS_H
#define LAC_PLAN_PARTS_H

#include "plan/plan.h"

enum { LAC__PLAN_FILE_MAX = 255 }; /* bytes of the companion's name */

/* From text to classes without patches' matrices. `companion` is the name of the file with them,
 * empty when the plan has none; plan->patches_digest is what its bytes must hash to. */
lac_status lac__plan_decode(const char *text, size_t length, lac_plan **out,
                            char companion[LAC__PLAN_FILE_MAX + 1], lac_error *err);
/* Takes the matrices of every class's patches out of the companion's bytes. Does not look at their
 * hash. */
lac_status lac__plan_bind(lac_plan *plan, const void *bytes, size_t length, lac_error *err);
/* Writes the matrices of every class's patches as tensors of a GGUF file. */
lac_status lac__plan_companion_write(const lac_plan *plan, const char *path, lac_error *err);
/* Adds a patch without matrices; LAC_EINVAL for a unit or rank that is not allowed. */
lac_status lac__plan_patch_place(lac_plan *plan, lac_plan_class *class, uint32_t unit,
                                 uint32_t rank, lac_patch **out, lac_error *err);
bool lac__plan_has_patches(const lac_plan *plan);

/* "A7" */
void lac__plan_unit_text(uint32_t unit, char out[8]);
/* "patch.<class>.A7.down" */
enum { LAC__TENSOR_NAME_MAX = LAC_NAME_MAX + 32 };
void lac__plan_tensor_name(const lac_plan_class *class, uint32_t unit, const char *part,
                           char out[LAC__TENSOR_NAME_MAX]);
/* LAC_EINVAL unless [A-Za-z0-9] then [A-Za-z0-9._-] …, 1 … LAC_NAME_MAX bytes, not "full". */
lac_status lac__plan_name_check(const char *name, lac_error *err);

#endif
