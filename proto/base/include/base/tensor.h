/* Weight types: numbers, block sizes and names as in the GGUF file format. Pure. */
#ifndef LAC_BASE_TENSOR_H
#define LAC_BASE_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    LAC_TYPE_F32 = 0,
    LAC_TYPE_F16 = 1,
    LAC_TYPE_Q4_0 = 2,
    LAC_TYPE_Q4_1 = 3,
    LAC_TYPE_Q5_0 = 6,
    LAC_TYPE_Q5_1 = 7,
    LAC_TYPE_Q8_0 = 8,
    LAC_TYPE_Q4_K = 12,
    LAC_TYPE_Q5_K = 13,
    LAC_TYPE_Q6_K = 14,
    LAC_TYPE_BF16 = 30
} lac_type;

typedef struct {
    const char *name; /* "Q4_1" */
    uint32_t block;   /* weights a block: 1, 32 or 256 */
    uint32_t block_bytes;
} lac_type_info;

/* NULL for a type this program does not know. */
const lac_type_info *lac_type_get(uint32_t type);

#endif
