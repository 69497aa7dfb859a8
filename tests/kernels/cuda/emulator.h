/* The CUDA vocabulary for kernels that are compiled by the C++ compiler: built-in variables,
 * barriers, warp operations, atomics, half precision, and bodies for what is PTX on the device.
 * Included by kernels/cuda/device.cuh alone. What a fiber is, only emulator.cpp knows. */
#ifndef LAC_TESTS_CUDA_EMULATOR_H
#define LAC_TESTS_CUDA_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- vectors and built-in variables ---- */

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

struct lac_emu_place {
    uint3 thread, block;
    dim3 threads, blocks;
};
extern const lac_emu_place *lac_emu_now; /* of the fiber that runs */
#define threadIdx (lac_emu_now->thread)
#define blockIdx  (lac_emu_now->block)
#define blockDim  (lac_emu_now->threads)
#define gridDim   (lac_emu_now->blocks)

#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict

/* ---- what the scheduler does ---- */

enum lac_emu_op { EMU_SHFL, EMU_VOTE, EMU_SYNCWARP, EMU_MMA_S8, EMU_MMA_F16 };
enum { EMU_VALUE = 32 }; /* bytes a lane brings to a warp operation */

/* Ends the kernel with an error. */
[[noreturn]] void lac_emu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits for all threads of the block; returns how many brought a true `vote`. */
unsigned lac_emu_sync(const char *file, int line, bool vote);
/* Waits for the lanes of `mask` and returns what each of them brought; valid until this lane's next
 * warp operation. */
const unsigned char (*lac_emu_meet(lac_emu_op op, unsigned mask, const void *value,
                                   size_t size))[EMU_VALUE];
unsigned lac_emu_lane();
/* Shared memory of this block: one piece for each place in the text, poisoned. */
void *lac_emu_shared(const void *place, size_t size);
unsigned char *lac_emu_dynamic();

#define __syncthreads()        ((void)lac_emu_sync(__FILE__, __LINE__, false))
#define __syncthreads_or(p)    ((int)(lac_emu_sync(__FILE__, __LINE__, (p) != 0) != 0))
#define __syncthreads_count(p) ((int)lac_emu_sync(__FILE__, __LINE__, (p) != 0))
#define __threadfence()        ((void)0) /* memory is one for all fibers */

#define LAC__SHARED(type, name, ...)                                                               \
    static const char name##_place = 0;                                                            \
    typedef type name##_type __VA_ARGS__;                                                          \
    name##_type &name = *(name##_type *)lac_emu_shared(&name##_place, sizeof(name##_type))
#define LAC__DYNAMIC(name) unsigned char *name = lac_emu_dynamic()

/* ---- warps ---- */

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    (void)lac_emu_meet(EMU_SYNCWARP, mask, NULL, 0);
}

template <typename T> static inline T lac_emu_from(unsigned mask, T value, unsigned lane)
{
    static_assert(sizeof(T) <= EMU_VALUE, "too wide for a shuffle");
    const unsigned char(*all)[EMU_VALUE] = lac_emu_meet(EMU_SHFL, mask, &value, sizeof value);
    if (lane < 32 && (mask >> lane & 1))
        memcpy(&value, all[lane], sizeof value);
    else if (lane < 32) /* the device leaves the result undefined */
        memset(&value, 0xff, sizeof value);
    return value;
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int lane)
{
    return lac_emu_from(mask, value, (unsigned)lane & 31);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits)
{
    return lac_emu_from(mask, value, lac_emu_lane() ^ (unsigned)bits);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by)
{
    return lac_emu_from(mask, value, lac_emu_lane() + by); /* past the end: its own */
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by)
{
    return lac_emu_from(mask, value, lac_emu_lane() - by);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned char yes = predicate != 0;
    const unsigned char(*all)[EMU_VALUE] = lac_emu_meet(EMU_VOTE, mask, &yes, 1);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1)
            votes |= (unsigned)all[lane][0] << lane;
    return votes;
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == mask;
}

/* ---- atomics: fibers are switched only at barriers, so plain memory does ---- */

template <typename T> static inline T atomicAdd(T *p, T value)
{
    T old = *p;
    *p = (T)(old + value);
    return old;
}
template <typename T> static inline T atomicMax(T *p, T value)
{
    T old = *p;
    *p = old > value ? old : value;
    return old;
}
template <typename T> static inline T atomicExch(T *p, T value)
{
    T old = *p;
    *p = value;
    return old;
}
template <typename T> static inline T atomicCAS(T *p, T expected, T value)
{
    T old = *p;
    if (old == expected)
        *p = value;
    return old;
}
template <typename T> static inline T atomicOr(T *p, T value)
{
    T old = *p;
    *p = old | value;
    return old;
}

/* ---- arithmetic ---- */

static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += (int)(int8_t)((unsigned)a >> 8 * i) * (int)(int8_t)((unsigned)b >> 8 * i);
    return c;
}
static inline float __int_as_float(int bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline int __float_as_int(float f)
{
    int bits;
    memcpy(&bits, &f, 4);
    return bits;
}
static inline float __uint_as_float(unsigned bits)
{
    return __int_as_float((int)bits);
}
static inline unsigned __float_as_uint(float f)
{
    return (unsigned)__float_as_int(f);
}
static inline int __float2int_rn(float f)
{
    return (int)lrintf(f);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}

/* Half precision, rounded to nearest even as the device does it. */
struct __half {
    uint16_t bits;
};
static inline float __half2float(__half h)
{
    unsigned sign = (unsigned)(h.bits & 0x8000u) << 16, rest = h.bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) {
        float f = (float)rest * 0x1p-24f;
        return sign ? -f : f;
    }
    return __uint_as_float(sign | ((rest << 13) + (112u << 23)));
}
static inline __half __float2half_rn(float f)
{
    unsigned bits = __float_as_uint(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest >= 0x7f800000u)
        return {(uint16_t)(sign | 0x7c00u | (rest > 0x7f800000u ? 0x3ffu : 0u))};
    if (rest >= 0x477ff000u)
        return {(uint16_t)(sign | 0x7c00u)};
    if (rest < 0x38800000u) {
        float r = __uint_as_float(rest) + 0.5f;
        return {(uint16_t)(sign | (__float_as_uint(r) - 0x3f000000u))};
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return {(uint16_t)(sign | ((rest - (112u << 23)) >> 13))};
}
static inline __half __ushort_as_half(unsigned short bits)
{
    return {bits};
}
static inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}
/* A float holds sum and product of two halves exactly enough that rounding twice is rounding once.
 */
static inline __half __hadd(__half a, __half b)
{
    return __float2half_rn(__half2float(a) + __half2float(b));
}
static inline __half __hmul(__half a, __half b)
{
    return __float2half_rn(__half2float(a) * __half2float(b));
}
/* In double, since a float cannot hold every a × b + c. */
static inline __half __hfma(__half a, __half b, __half c)
{
    double exact = (double)__half2float(a) * (double)__half2float(b) + (double)__half2float(c);
    float f = (float)exact;
    if ((double)f != exact && (__float_as_uint(f) & 0x1fffu) == 0x1000u) /* do not round twice */
        f = nextafterf(f, exact > (double)f ? INFINITY : -INFINITY);
    return __float2half_rn(f);
}

/* ---- what is PTX on the device ---- */

static inline void lac_emu_aligned(const void *p, size_t to, const char *what)
{
    if ((uintptr_t)p % to != 0)
        lac_emu_fail("%s from an address that is not a multiple of %zu", what, to);
}
static inline uint4 lac__load_stream16(const void *p)
{
    uint4 v;
    lac_emu_aligned(p, 16, "128-bit load");
    memcpy(&v, p, 16);
    return v;
}
static inline uint2 lac__load_stream8(const void *p)
{
    uint2 v;
    lac_emu_aligned(p, 8, "64-bit load");
    memcpy(&v, p, 8);
    return v;
}
static inline unsigned lac__load_stream4(const void *p)
{
    unsigned v;
    lac_emu_aligned(p, 4, "32-bit load");
    memcpy(&v, p, 4);
    return v;
}

/* mma.sync.m16n8k32 of signed bytes: c += a × b. Fragments as in the PTX manual: lane 4g+t holds of
 * a rows g and g+8, columns 4t… and 16+4t…; of b column g, rows 4t… and 16+4t…; of c rows g and
 * g+8, columns 2t and 2t+1. */
static inline void lac__mma_s8(int c[4], const unsigned a[4], const unsigned b[2])
{
    unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const unsigned char(*all)[EMU_VALUE] = lac_emu_meet(EMU_MMA_S8, 0xffffffffu, mine, sizeof mine);
    unsigned g = lac_emu_lane() / 4, t = lac_emu_lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        unsigned high = i / 2, column = 2 * t + i % 2;
        for (unsigned k = 0; k < 4; k++) {
            int from_a[4], from_b[2];
            memcpy(from_a, all[4 * g + k], sizeof from_a);
            memcpy(from_b, all[4 * column + k] + 16, sizeof from_b);
            c[i] = __dp4a(from_a[high], from_b[0], c[i]);
            c[i] = __dp4a(from_a[high + 2], from_b[1], c[i]);
        }
    }
}

/* ---- kernels by name ---- */

struct lac_emu_kernel {
    const char *name;
    void (*call)(const void *args);
    size_t args_bytes;
    unsigned threads_max;
    lac_emu_kernel *next;
    lac_emu_kernel(const char *name_, void (*call_)(const void *), size_t bytes, unsigned threads);
};

#define LAC__KERNEL(name, args_type, threads_max, blocks_an_sm)                                    \
    static void name(const args_type &a);                                                          \
    static lac_emu_kernel name##_entry(                                                            \
        #name, [](const void *args) { name(*(const args_type *)args); }, sizeof(args_type),        \
        threads_max);                                                                              \
    static void name(const args_type &a)

#endif
