// What a step returns: the best token of each row, or one drawn; ids, not logits.
//
// lac_best looks through slices of a row, one a block, and the block that ends last folds them; the
// lowest id wins among equals. It also caps the logits and sees what is not finite.
// lac_draw draws: top-k, then top-p, then min-p, then a token by the row's number in [0, 1), in the
// order of the host's sampler. Thresholds are found by three counting passes over the order-keeping
// bits of the logits; weights are added up as integers of 2^-40, so no order of threads changes a
// sum, and the same seed and position draw the same token.
#include "device.cuh"

LAC__DEVICE bool better(float x, unsigned i, float y, unsigned j)
{
    return x > y || (x == y && i < j);
}

// The best of all threads' candidates, in thread 0.
LAC__DEVICE void block_best(float &value, unsigned &id)
{
    LAC__SHARED(float, values, [LAC__PICK_THREADS / 32]);
    LAC__SHARED(unsigned, ids, [LAC__PICK_THREADS / 32]);
    for (int bit = 16; bit > 0; bit /= 2) {
        float x = __shfl_xor_sync(LAC__ALL, value, bit);
        unsigned i = __shfl_xor_sync(LAC__ALL, id, bit);
        if (better(x, i, value, id))
            value = x, id = i;
    }
    if (threadIdx.x % 32 == 0)
        values[threadIdx.x / 32] = value, ids[threadIdx.x / 32] = id;
    __syncthreads();
    for (unsigned w = 0; threadIdx.x == 0 && w < LAC__PICK_THREADS / 32; w++)
        if (better(values[w], ids[w], value, id))
            value = values[w], id = ids[w];
    __syncthreads();
}

LAC__KERNEL(lac_best, lac__pick_args, LAC__PICK_THREADS, 2)
{
    LAC__SHARED(unsigned, before);
    unsigned row = blockIdx.y, slices = gridDim.x, first = blockIdx.x * LAC__PICK_SLICE;
    if (row >= list_of(a.step, 1).count)
        return;
    unsigned end = first + LAC__PICK_SLICE < a.vocab ? first + LAC__PICK_SLICE : a.vocab;
    float *logits = a.logits + (size_t)row * a.vocab, best = -INFINITY;
    unsigned id = 0xffffffffu;
    bool odd = false;
    for (unsigned k = first + threadIdx.x; k < end; k += LAC__PICK_THREADS) {
        float x = logits[k];
        if (a.softcap > 0.0f)
            logits[k] = x = a.softcap * tanhf(x / a.softcap);
        odd |= !is_finite(x);
        if (better(x, k, best, id))
            best = x, id = k;
    }
    if (odd)
        *a.step.odd = 1;
    block_best(best, id);
    if (threadIdx.x == 0) {
        a.slice_best[(size_t)row * slices + blockIdx.x] = best;
        a.slice_id[(size_t)row * slices + blockIdx.x] = id;
        __threadfence();
        before = atomicAdd(&a.counter[row], 1u);
    }
    __syncthreads();
    if (before + 1 != slices || threadIdx.x != 0)
        return;
    __threadfence();
    a.counter[row] = 0;
    for (unsigned s = 0; s < slices; s++) {
        float x = a.slice_best[(size_t)row * slices + s];
        unsigned i = a.slice_id[(size_t)row * slices + s];
        if (s == 0 || better(x, i, best, id))
            best = x, id = i;
    }
    a.best[row] = best;
    a.token[row] = id < a.vocab ? id : 0;
}

// ---- drawing ----

typedef unsigned long long wide; // weights are multiples of 2^-40

enum { DIGIT_MAX = 2048, DIGITS = 3 };

struct field {
    const float *logits;
    unsigned vocab;
    float max, inverse;
    unsigned key, ties; // tokens above the key stay, and the first `ties` with the key
    wide least;         // weights below it are cut
};

LAC__DEVICE unsigned key_of(float x)
{
    if (!(x > -INFINITY)) // NaN as well
        x = -INFINITY;
    unsigned bits = __float_as_uint(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
LAC__DEVICE unsigned shift_of(int digit)
{
    return digit == 0 ? 21 : digit == 1 ? 10 : 0;
}
LAC__DEVICE unsigned digit_of(unsigned key, int digit)
{
    return key >> shift_of(digit) & (digit == 2 ? 1023u : 2047u);
}
LAC__DEVICE bool matches(unsigned key, unsigned prefix, int digit)
{
    return digit == 0 || key >> shift_of(digit - 1) == prefix >> shift_of(digit - 1);
}
LAC__DEVICE wide weight_of(const field &f, float x)
{
    float e = (x - f.max) * f.inverse;
    return e > -28.0f ? (wide)(expf(e) * 1099511627776.0f) : 0;
}

// Exclusive sum over the threads of the block, and the total.
LAC__DEVICE wide block_scan(wide mine, wide *room, wide &total)
{
    room[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned step = 1; step < LAC__PICK_THREADS; step *= 2) {
        wide other = threadIdx.x >= step ? room[threadIdx.x - step] : 0;
        __syncthreads();
        room[threadIdx.x] += other;
        __syncthreads();
    }
    total = room[LAC__PICK_THREADS - 1];
    wide before = room[threadIdx.x] - mine;
    __syncthreads();
    return before;
}

// Finds the key at which what lies above and with it reaches `wanted`: counts, or weights of what
// the last filter left. Returns how much of `wanted` the tokens with the key must bring.
LAC__DEVICE wide find_key(const field &f, bool weights, wide wanted, wide *sums, unsigned &key)
{
    LAC__SHARED(unsigned, at_shared);
    LAC__SHARED(unsigned long long, wanted_shared);
    key = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
        for (unsigned i = threadIdx.x; i < DIGIT_MAX; i += LAC__PICK_THREADS)
            sums[i] = 0;
        __syncthreads();
        for (unsigned k = threadIdx.x; k < f.vocab; k += LAC__PICK_THREADS) {
            unsigned mine = key_of(f.logits[k]);
            if (matches(mine, key, digit) && mine >= f.key)
                atomicAdd(&sums[digit_of(mine, digit)], weights ? weight_of(f, f.logits[k]) : 1ull);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned at = digit == 2 ? 1023 : 2047, reached = at;
            while (true) { // the last digit with weight takes what rounding leaves over
                if (sums[at] != 0)
                    reached = at;
                if (sums[at] >= wanted || at == 0)
                    break;
                wanted -= sums[at];
                at--;
            }
            if (sums[at] < wanted)
                wanted = sums[reached];
            at_shared = reached;
            wanted_shared = wanted;
        }
        __syncthreads();
        key |= at_shared << shift_of(digit);
        wanted = wanted_shared;
        __syncthreads();
    }
    return wanted;
}

// A token's weight after the filters; `ties_before` counts equals of the threshold with lower ids.
LAC__DEVICE wide kept(const field &f, float x, unsigned ties_before)
{
    unsigned key = key_of(x);
    if (key < f.key || (key == f.key && ties_before >= f.ties))
        return 0;
    wide w = weight_of(f, x);
    return w < f.least ? 0 : w;
}

// Each thread owns a stretch of ids, so that sums in order of threads are sums in order of ids.
LAC__DEVICE unsigned draw_token(const field &f, double unit, wide *room)
{
    LAC__SHARED(unsigned, chosen);
    unsigned stretch = (f.vocab + LAC__PICK_THREADS - 1) / LAC__PICK_THREADS;
    unsigned first = threadIdx.x * stretch,
             end = first + stretch < f.vocab ? first + stretch : f.vocab;
    wide ties = 0, mine = 0, total;
    for (unsigned k = first; k < end; k++)
        ties += key_of(f.logits[k]) == f.key;
    unsigned ties_before = (unsigned)block_scan(ties, room, total), t = ties_before;
    for (unsigned k = first; k < end; k++) {
        mine += kept(f, f.logits[k], t);
        t += key_of(f.logits[k]) == f.key;
    }
    wide before = block_scan(mine, room, total), target = (wide)((double)total * unit);
    target = target < total ? target : total - 1;
    if (threadIdx.x == 0)
        chosen = 0;
    __syncthreads();
    if (before <= target && target < before + mine) {
        t = ties_before;
        for (unsigned k = first; k < end; k++) {
            before += kept(f, f.logits[k], t);
            t += key_of(f.logits[k]) == f.key;
            if (target < before) {
                chosen = k;
                break;
            }
        }
    }
    __syncthreads();
    return chosen;
}

LAC__KERNEL(lac_draw, lac__pick_args, LAC__PICK_THREADS, 1)
{
    LAC__SHARED(unsigned long long, sums, [DIGIT_MAX]);
    unsigned row = blockIdx.x;
    if (row >= list_of(a.step, 1).count)
        return;
    lac__draw draw = a.draws[row];
    field f = {a.logits + (size_t)row * a.vocab,
               a.vocab,
               a.best[row],
               draw.inverse_temperature,
               0,
               0xffffffffu,
               0};
    if (!(draw.inverse_temperature > 0.0f)) {
        if (threadIdx.x == 0)
            a.drawn[row] = a.token[row];
        return;
    }
    if (draw.top_k > 0 && draw.top_k < a.vocab) {
        unsigned key;
        wide ties = find_key(f, false, draw.top_k, sums, key);
        f.key = key;
        f.ties = (unsigned)ties;
    }
    if (draw.top_p < 1.0f) {
        // The total counts no more ties than top-k keeps.
        LAC__SHARED(unsigned long long, scan, [LAC__PICK_THREADS]);
        wide mine = 0, total, same;
        unsigned equal = 0;
        for (unsigned k = threadIdx.x; k < a.vocab; k += LAC__PICK_THREADS) {
            unsigned key = key_of(f.logits[k]);
            equal += key == f.key;
            mine += key > f.key || (key == f.key && f.ties == 0xffffffffu)
                        ? weight_of(f, f.logits[k])
                        : 0;
        }
        (void)block_scan(mine, scan, total);
        (void)block_scan(equal, scan, same);
        unsigned bits = f.key & 0x80000000u ? f.key & 0x7fffffffu : ~f.key;
        wide of_key = weight_of(f, __uint_as_float(bits));
        if (f.ties != 0xffffffffu)
            total += of_key * (f.ties < same ? f.ties : same);
        unsigned key;
        wide wanted = (wide)((double)total * (double)draw.top_p);
        wide rest = find_key(f, true, wanted > 0 ? wanted : 1, sums, key);
        bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
        of_key = weight_of(f, __uint_as_float(bits));
        unsigned ties = of_key > 0 ? (unsigned)((rest + of_key - 1) / of_key) : 1;
        ties = ties < 1 ? 1 : ties;
        f.ties = key == f.key && f.ties < ties ? f.ties : ties;
        f.key = key;
    }
    if (draw.min_p > 0.0f)
        f.least = (wide)(draw.min_p * 1099511627776.0f);
    unsigned token = draw_token(f, draw.unit, sums);
    if (threadIdx.x == 0)
        a.drawn[row] = token;
}
