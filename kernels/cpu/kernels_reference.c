/* The yardstick of quality: weights dequantised to float32 at load, float32 activations, products
 * and sums in the most ordinary order. Only F32 weights exist here. */
#define LAC__LANES_PLAIN 1
#include "lanes_scalar.h"

#include "lanes_kernels.inc.h"

static void reference_gemm(const lac_weight *w, uint32_t group, uint32_t groups, const lac__tile *x,
                           float *out, size_t ld)
{
    for (uint32_t g = 0; g < groups; g++) {
        const float *data =
            (const float *)(const void *)(w->data + (size_t)(group + g) * w->group_bytes);
        for (uint32_t c = 0; c < x->n; c++) {
            float acc[4][8] = {{0}};
            for (uint32_t k = 0; k < w->cols; k++) {
                float v = x->f[(size_t)k * x->n + c];
                for (uint32_t r = 0; r < 8; r++)
                    acc[k % 4][r] += data[(size_t)k * 8 + r] * v;
            }
            for (uint32_t r = 0; r < 8; r++)
                out[c * ld + g * 8 + r] = (acc[0][r] + acc[1][r]) + (acc[2][r] + acc[3][r]);
        }
    }
}

const lac__kernels lac__kernels_reference = {
    .name = "reference", .gemm = {[LAC_TYPE_F32] = reference_gemm}, LAC__LANE_KERNELS};
