// Small kernels, right ones and ones with a flaw that the emulator must show.
#include "device.cuh"
#include "probes.h"

enum { THREADS = 128 };

// out[i] = in[n − 1 − i] within a block, through static shared memory. Flaw: no barrier.
LAC__KERNEL(probe_reverse, probe_args, THREADS, 1)
{
    LAC__SHARED(float, room, [THREADS]);
    unsigned base = blockIdx.x * THREADS;
    room[threadIdx.x] = a.in[base + threadIdx.x];
    if (a.flaw == 0)
        __syncthreads();
    a.out[base + threadIdx.x] = room[THREADS - 1 - threadIdx.x];
}

// The same within a warp, through dynamic shared memory. Flaw: no __syncwarp.
LAC__KERNEL(probe_reverse_warp, probe_args, THREADS, 1)
{
    LAC__DYNAMIC(bytes);
    float *room = (float *)bytes + threadIdx.x / 32 * 32;
    unsigned lane = threadIdx.x % 32;
    room[lane] = a.in[threadIdx.x];
    if (a.flaw == 0)
        __syncwarp();
    a.out[threadIdx.x] = room[31 - lane];
}

// out[block] = Σ in of the block, by shuffles; then the last block to end adds the blocks up.
LAC__KERNEL(probe_sum, probe_args, THREADS, 1)
{
    LAC__SHARED(float, sums, [THREADS / 32]);
    LAC__SHARED(unsigned, before);
    float total = block_sum(a.in[blockIdx.x * THREADS + threadIdx.x], sums);
    if (threadIdx.x == 0) {
        a.out[1 + blockIdx.x] = total;
        __threadfence();
        before = atomicAdd(a.counter, 1u);
    }
    __syncthreads();
    if (before + 1 == gridDim.x && threadIdx.x == 0) {
        float all = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++)
            all += a.out[1 + b];
        a.out[0] = all;
    }
}

// What a kernel may do wrong with barriers and warps.
LAC__KERNEL(probe_flaws, probe_args, THREADS, 1)
{
    if (a.flaw == 1 && threadIdx.x < 64) // half of the block
        __syncthreads();
    if (a.flaw == 2) { // everybody, but at two places
        if (threadIdx.x < 64)
            __syncthreads();
        else
            __syncthreads();
    }
    if (a.flaw == 3 && threadIdx.x % 32 < 16) // half of a warp, with the mask of all
        a.out[threadIdx.x] = __shfl_xor_sync(LAC__ALL, 1.0f, 1);
    if (a.flaw == 4) { // lanes of one warp in different operations
        if (threadIdx.x % 2)
            (void)__ballot_sync(LAC__ALL, 1);
        else
            a.out[threadIdx.x] = __shfl_xor_sync(LAC__ALL, 1.0f, 1);
    }
    if (a.flaw == 5) // a mask without oneself
        __syncwarp(threadIdx.x % 32 == 0 ? 0xfffffffeu : 0xfffffffeu);
    if (a.flaw == 6)
        a.out[threadIdx.x] = __uint_as_float(lac__load_stream16(a.in + 1).x);
    if (a.flaw == 7) { // ended threads do not count as waiting ones
        if (threadIdx.x >= 96)
            return;
        __syncthreads();
    }
}

// Warp operations, one result a lane and operation: out[op × 32 + lane].
LAC__KERNEL(probe_warp, probe_args, 32, 1)
{
    unsigned lane = threadIdx.x, even = 0x55555555u;
    float x = a.in[lane];
    a.out[lane] = __shfl_sync(LAC__ALL, x, 5);
    a.out[32 + lane] = __shfl_xor_sync(LAC__ALL, x, 3);
    a.out[64 + lane] = __shfl_down_sync(LAC__ALL, x, 4);
    a.out[96 + lane] = __shfl_up_sync(LAC__ALL, x, 4);
    a.out[128 + lane] = (float)__popc(__ballot_sync(LAC__ALL, x > 10.0f));
    a.out[160 + lane] =
        (float)(__any_sync(LAC__ALL, x > 30.0f) + 2 * __all_sync(LAC__ALL, x > 0.0f));
    a.out[192 + lane] = -1.0f;
    if (lane % 2 == 0) // a part of the warp
        a.out[192 + lane] = __shfl_xor_sync(even, x, 2);
    a.out[224 + lane] = warp_sum(x);
}

// Votes of a block in shared counters; atomics of all kinds.
LAC__KERNEL(probe_votes, probe_args, THREADS, 1)
{
    int many = __syncthreads_count(threadIdx.x % 3 == 0);
    int some = __syncthreads_or(threadIdx.x == 77), none = __syncthreads_or(0);
    if (threadIdx.x == 0)
        a.out[0] = (float)many, a.out[1] = (float)some, a.out[2] = (float)none;
    atomicAdd(&a.counter[0], threadIdx.x);
    atomicMax(&a.counter[1], threadIdx.x);
    atomicOr(&a.counter[2], 1u << threadIdx.x % 32);
    if (atomicCAS(&a.counter[3], 0u, 1u) == 0u)
        atomicExch(&a.counter[4], 7u);
}

// Writes past its dynamic shared memory: for the address sanitizer.
LAC__KERNEL(probe_overrun, probe_args, 32, 1)
{
    LAC__DYNAMIC(bytes);
    bytes[a.n + threadIdx.x] = 1;
}

// c[16][8] = a[16][32] × b[8][32]ᵀ of signed bytes by one warp; in: a, then b, as floats.
LAC__KERNEL(probe_mma, probe_args, 32, 1)
{
    unsigned g = threadIdx.x / 4, t = threadIdx.x % 4, fa[4], fb[2];
    for (unsigned i = 0; i < 6; i++) {
        unsigned word = 0;
        unsigned row = i < 4 ? g + i % 2 * 8 : 16 + g, k = 4 * t + (i < 4 ? i / 2 : i % 2) * 16;
        for (unsigned j = 0; j < 4; j++)
            word |= ((unsigned)(int)a.in[row * 32 + k + j] & 0xffu) << 8 * j;
        if (i < 4)
            fa[i] = word;
        else
            fb[i - 4] = word;
    }
    int c[4] = {1, 1, 1, 1};
    lac__mma_s8(c, fa, fb);
    for (unsigned i = 0; i < 4; i++)
        a.out[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = (float)c[i];
}

// out[i] = the float nearest to in[i] as a half, and arithmetic of halves.
LAC__KERNEL(probe_half, probe_args, THREADS, 1)
{
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    a.out[3 * i] = half_float(float_half(a.in[i]));
    __half x = __float2half_rn(a.in[i]), y = __float2half_rn(a.in[(i + 1) % a.n]);
    a.out[3 * i + 1] = __half2float(__hadd(x, y));
    a.out[3 * i + 2] = __half2float(__hfma(x, y, x));
}

// in as bits: out[i] = dp4a of words i and i+1 plus i, as a float.
LAC__KERNEL(probe_dp4a, probe_args, THREADS, 1)
{
    unsigned i = threadIdx.x;
    a.out[i] = (float)__dp4a(__float_as_int(a.in[i]), __float_as_int(a.in[i + 1]), (int)i);
}
