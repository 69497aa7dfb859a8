/* From the file's rows to layout D8 (args.h). Pure, any thread. */
#ifndef LAC_KERNELS_CUDA_PACK_H
#define LAC_KERNELS_CUDA_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/tensor.h"

/* Bytes of a group of eight rows; 0 when the type or the number of columns is not supported. */
size_t lac__cuda_group_bytes(lac_type type, uint32_t cols);

/* Packs one group. `rows` are eight rows as the file has them, NULL for rows past the last, which
 * become zero. `room` has lac__group_bytes(type, cols) bytes to work in; `out` is written whole. */
void lac__cuda_pack_group(lac_type type, uint32_t cols, const uint8_t *const rows[8], uint8_t *room,
                          uint8_t *out);

#endif
