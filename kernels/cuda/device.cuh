// The vocabulary of the kernels: what is CUDA here and comes from the emulator in tests, and the
// device functions that several kernels share. A kernel takes one struct by value and is launched
// by its name.
#ifndef LAC_KERNELS_CUDA_DEVICE_CUH
#define LAC_KERNELS_CUDA_DEVICE_CUH

#include "args.h"

#if defined(LAC__EMULATED)
#include "emulator.h"
#else
#include <cuda_fp16.h>
#include <math.h>

#define LAC__SHARED(type, name, ...) __shared__ type name __VA_ARGS__
#define LAC__DYNAMIC(name)                                                                         \
    extern __shared__ __align__(16) unsigned char lac__dynamic[];                                  \
    unsigned char *name = lac__dynamic
#define LAC__KERNEL(name, args_type, threads_max, blocks_an_sm)                                    \
    extern "C" __global__ void __launch_bounds__(threads_max, blocks_an_sm)                        \
        name(const __grid_constant__ args_type a)

// Weights are read once: past the first cache, through the path for what no kernel writes.
static __device__ __forceinline__ uint4 lac__load_stream16(const void *p)
{
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p));
    return v;
}
static __device__ __forceinline__ uint2 lac__load_stream8(const void *p)
{
    uint2 v;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
static __device__ __forceinline__ unsigned lac__load_stream4(const void *p)
{
    unsigned v;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
static __device__ __forceinline__ void lac__mma_s8(int c[4], const unsigned a[4],
                                                   const unsigned b[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

#define LAC__DEVICE static __device__ __forceinline__

static const unsigned LAC__ALL = 0xffffffffu; // every lane of a warp

// ---- halves ----

LAC__DEVICE float half_float(unsigned bits)
{
    return __half2float(__ushort_as_half((unsigned short)bits));
}
LAC__DEVICE unsigned float_half(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}
LAC__DEVICE float bf16_float(unsigned bits)
{
    return __uint_as_float(bits << 16);
}
LAC__DEVICE float low_half(unsigned two)
{
    return half_float(two & 0xffffu);
}
LAC__DEVICE float high_half(unsigned two)
{
    return half_float(two >> 16);
}
// Eight halves of 16 bytes.
LAC__DEVICE void halves8(uint4 v, float out[8])
{
    out[0] = low_half(v.x), out[1] = high_half(v.x);
    out[2] = low_half(v.y), out[3] = high_half(v.y);
    out[4] = low_half(v.z), out[5] = high_half(v.z);
    out[6] = low_half(v.w), out[7] = high_half(v.w);
}

// ---- sums of a warp and of a block ----

LAC__DEVICE float warp_sum(float x)
{
    for (int bit = 16; bit > 0; bit /= 2)
        x += __shfl_xor_sync(LAC__ALL, x, bit);
    return x;
}
LAC__DEVICE float warp_max(float x)
{
    for (int bit = 16; bit > 0; bit /= 2)
        x = fmaxf(x, __shfl_xor_sync(LAC__ALL, x, bit));
    return x;
}
// The same sum in every thread of the block; `room` holds a float a warp, free afterwards.
LAC__DEVICE float block_sum(float x, float *room)
{
    unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0)
        room[warp] = x;
    __syncthreads();
    float total = 0.0f;
    for (unsigned w = 0; w < warps; w++)
        total += room[w];
    __syncthreads();
    return total;
}

// ---- rows of a list ----

struct row_list {
    unsigned count;
    const uint32_t *rows, *inverse;
};
LAC__DEVICE row_list list_of(const lac__step &step, unsigned number)
{
    const uint32_t *at = step.lists + (size_t)step.list_of[number] * (1 + 2 * step.rows_max);
    return {at[0], at + 1, at + 1 + step.rows_max};
}
LAC__DEVICE bool is_finite(float x)
{
    return x - x == 0.0f;
}

// ---- activation, quantising ----

LAC__DEVICE float activate(unsigned gelu, float x)
{
    if (!gelu)
        return x / (1.0f + expf(-x));
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanhf(u));
}

// A warp quantises 32 values, one a lane, to q[lane] and s[0…3]. A block that is not finite gets a
// d that is not either, so that the next norm sees it.
LAC__DEVICE void quantise32(float x, int8_t *q, float *s)
{
    unsigned lane = threadIdx.x % 32;
    float top = warp_max(fabsf(x));
    bool odd = __any_sync(LAC__ALL, !is_finite(x)), zero = odd || !(top >= 1e-30f);
    int code = zero ? 0 : __float2int_rn(x * (127.0f / top));
    int sum = code;
    for (int bit = 8; bit > 0; bit /= 2)
        sum += __shfl_xor_sync(LAC__ALL, sum, bit);
    int other = __shfl_xor_sync(LAC__ALL, sum, 16);
    float d = odd ? NAN : zero ? 0.0f : top / 127.0f;
    q[lane] = (int8_t)code;
    if (lane == 0)
        *(float4 *)s = make_float4(d, d * (float)(sum + other), d * (float)sum, d * (float)other);
}

// Writes 32 values of a row, one a lane, in the forms that a panel has. `at` is the first column.
LAC__DEVICE void panel_put32(const lac__cuda_panel &to, size_t row, unsigned cols, unsigned at,
                             float x)
{
    unsigned lane = threadIdx.x % 32;
    if (to.f && at + lane < cols)
        to.f[row * cols + at + lane] = x;
    if (to.q)
        quantise32(x, to.q + row * cols + at, to.s + (row * (cols / 32) + at / 32) * 4);
}

// ---- pages ----

LAC__DEVICE uint8_t *page_of(const lac__attention_args &a, unsigned segment, unsigned block)
{
    const lac__step &s = a.step;
    uint32_t page =
        s.tables[s.table_at[segment] + (size_t)a.table * s.table_stride[segment] + block];
    return a.region + page * a.page_bytes;
}
// Where a KV head's keys begin in a page; its values follow after 32 × head_dim elements.
LAC__DEVICE size_t head_at(const lac__attention_args &a, unsigned kv_head)
{
    return (size_t)kv_head * 2 * LAC__PAGE * a.head_dim;
}
// Eight elements from element `at` of a page, in float32 or half.
LAC__DEVICE void page_load8(const uint8_t *page, unsigned wide, size_t at, float out[8])
{
    if (wide) {
        float4 lo = *(const float4 *)(page + at * 4), hi = *(const float4 *)(page + at * 4 + 16);
        out[0] = lo.x, out[1] = lo.y, out[2] = lo.z, out[3] = lo.w;
        out[4] = hi.x, out[5] = hi.y, out[6] = hi.z, out[7] = hi.w;
    } else {
        halves8(*(const uint4 *)(page + at * 2), out);
    }
}
LAC__DEVICE void page_store(uint8_t *page, unsigned wide, size_t at, float x)
{
    if (wide)
        *(float *)(page + at * 4) = x;
    else
        *(uint16_t *)(page + at * 2) = (uint16_t)float_half(x);
}

// One head of a row by one warp: bias, norm, RoPE. `in` is what the product gave, `x` is shared
// memory of head_dim floats. Ends with the warp in step.
LAC__DEVICE void head_finish(const lac__attention_args &a, const float *in, const lac__head_of &of,
                             unsigned head, bool rotate, unsigned position, float *x)
{
    unsigned lane = threadIdx.x % 32, dim = a.head_dim;
    float squares = 0.0f;
    for (unsigned d = lane; d < dim; d += 32) {
        float v = in[d] + (of.bias ? of.bias[head * dim + d] : 0.0f);
        x[d] = v;
        squares += v * v;
    }
    if (of.norm) {
        float scale = 1.0f / sqrtf(warp_sum(squares) / (float)dim + a.eps);
        for (unsigned d = lane; d < dim; d += 32)
            x[d] = x[d] * scale * of.norm[d];
    }
    __syncwarp();
    if (rotate && a.rope_style != 0) {
        unsigned turns = a.rope_dims / 2, pairs = a.rope_style == 1;
        const float *angle = a.angles + (size_t)position * a.rope_dims;
        for (unsigned i = lane; i < turns; i += 32) {
            unsigned p = pairs ? 2 * i : i, q = pairs ? p + 1 : i + turns;
            float u = x[p], v = x[q], c = angle[i], s = angle[turns + i];
            x[p] = u * c - v * s;
            x[q] = u * s + v * c;
        }
        __syncwarp();
    }
}

// Appends a finished key or value to its page, by one warp.
LAC__DEVICE void page_append(const lac__attention_args &a, unsigned segment, unsigned position,
                             unsigned kv_head, bool value, const float *x)
{
    unsigned lane = threadIdx.x % 32, dim = a.head_dim, t = position % LAC__PAGE;
    uint8_t *page = page_of(a, segment, position / LAC__PAGE);
    size_t at = head_at(a, kv_head);
    at += value ? (size_t)LAC__PAGE * dim + (size_t)t * dim : (size_t)(t / 8) * dim * 8 + t % 8;
    for (unsigned d = lane; d < dim; d += 32)
        page_store(page, a.wide, at + (value ? d : d * 8), x[d]);
}

#endif
