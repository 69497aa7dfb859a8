/* Products for AVX2. One lane a row, so a product ends without a horizontal sum; the arithmetic is
 * gemm_scalar.c's, term by term.
 *
 * Codes of four and five bits stay unsigned bytes: eight (four) maddubs results fit 16 bits
 * (15·127·2·8 = 30480, 31·127·2·4 = 31496, 63·127·2·2 = 32004), so one maddwd serves many. Q8_0
 * gives |w| to the unsigned side and the sign to the activations, which never are −128; |w| = 128
 * is right there too (128·127·2 = 32512). */
#if defined(__x86_64__)
#include "gemm.h"

#include <immintrin.h>

/* Bytes ahead that a matrix-vector product asks for: what memory delivers while one unit is in
 * work. */
enum { PREFETCH_BYTES = 3072 };

/* Eight quads of columns of eight rows, and what turns their sums into values. */
typedef struct {
    __m256i w0, w1, w2, w3, w4, w5, w6, w7;
    __m256 d, m, d_hi, m_hi; /* the last two: Q6_K's second half */
} unit;

LAC__ALWAYS __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

LAC__ALWAYS __m256i load_bytes(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

LAC__ALWAYS __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

LAC__ALWAYS __m256 load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

LAC__ALWAYS void load_scales(const lac_type type, const uint8_t *g, lac__unit_place at, unit *u)
{
    u->d = load_f16(g + at.d);
    switch (type) {
    case LAC_TYPE_Q4_0: u->m = _mm256_mul_ps(_mm256_set1_ps(-8.0f), u->d); break;
    case LAC_TYPE_Q5_0: u->m = _mm256_mul_ps(_mm256_set1_ps(-16.0f), u->d); break;
    case LAC_TYPE_Q4_1:
    case LAC_TYPE_Q5_1: u->m = load_f16(g + at.m); break;
    case LAC_TYPE_Q4_K:
    case LAC_TYPE_Q5_K:
        u->m = _mm256_xor_ps(_mm256_mul_ps(load_f16(g + at.m), load_u8(g + at.scale + 8)),
                             _mm256_set1_ps(-0.0f));
        u->d = _mm256_mul_ps(u->d, load_u8(g + at.scale));
        break;
    case LAC_TYPE_Q6_K:
        u->d_hi = _mm256_mul_ps(u->d, load_i8(g + at.scale + 8));
        u->d = _mm256_mul_ps(u->d, load_i8(g + at.scale));
        u->m = _mm256_mul_ps(_mm256_set1_ps(-32.0f), u->d);
        u->m_hi = _mm256_mul_ps(_mm256_set1_ps(-32.0f), u->d_hi);
        break;
    default: break;
    }
}

LAC__ALWAYS bool five_bits(const lac_type type)
{
    return type == LAC_TYPE_Q5_0 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q5_K;
}

/* Bytes shifted left by one: additions find a free unit more often than shifts do. */
LAC__ALWAYS __m256i twice(__m256i v)
{
    return _mm256_add_epi8(v, v);
}

/* The fifth bit of a code from where it stands as bit 4. */
LAC__ALWAYS __m256i fifth(__m256i bits)
{
    return _mm256_and_si256(bits, _mm256_set1_epi8(16));
}

/* Fifth bits of a unit's high nibbles, those of quad 3 in place; doubling brings the next. */
LAC__ALWAYS __m256i high_bits(const uint8_t *codes)
{
    return _mm256_srli_epi16(load_bytes(codes + 128), 3);
}

LAC__ALWAYS void load_codes(const lac_type type, const uint8_t *q, unit *u)
{
    if (type == LAC_TYPE_Q8_0) {
        u->w0 = load_bytes(q), u->w1 = load_bytes(q + 32), u->w2 = load_bytes(q + 64);
        u->w3 = load_bytes(q + 96), u->w4 = load_bytes(q + 128), u->w5 = load_bytes(q + 160);
        u->w6 = load_bytes(q + 192), u->w7 = load_bytes(q + 224);
        return;
    }
    const __m256i nibble = _mm256_set1_epi8(15);
    u->w4 = load_bytes(q), u->w5 = load_bytes(q + 32);
    u->w6 = load_bytes(q + 64), u->w7 = load_bytes(q + 96);
    u->w0 = _mm256_and_si256(u->w4, nibble), u->w1 = _mm256_and_si256(u->w5, nibble);
    u->w2 = _mm256_and_si256(u->w6, nibble), u->w3 = _mm256_and_si256(u->w7, nibble);
    u->w4 = _mm256_and_si256(_mm256_srli_epi16(u->w4, 4), nibble);
    u->w5 = _mm256_and_si256(_mm256_srli_epi16(u->w5, 4), nibble);
    u->w6 = _mm256_and_si256(_mm256_srli_epi16(u->w6, 4), nibble);
    u->w7 = _mm256_and_si256(_mm256_srli_epi16(u->w7, 4), nibble);
    if (five_bits(type)) {
        __m256i lo = twice(load_bytes(q + 128)), hi = high_bits(q);
        u->w3 = _mm256_or_si256(u->w3, fifth(lo));
        u->w2 = _mm256_or_si256(u->w2, fifth(lo = twice(lo)));
        u->w1 = _mm256_or_si256(u->w1, fifth(lo = twice(lo)));
        u->w0 = _mm256_or_si256(u->w0, fifth(twice(lo)));
        u->w7 = _mm256_or_si256(u->w7, fifth(hi));
        u->w6 = _mm256_or_si256(u->w6, fifth(hi = twice(hi)));
        u->w5 = _mm256_or_si256(u->w5, fifth(hi = twice(hi)));
        u->w4 = _mm256_or_si256(u->w4, fifth(twice(hi)));
    } else if (type == LAC_TYPE_Q6_K) {
        const __m256i lo = load_bytes(q + 128), hi = load_bytes(q + 160),
                      pair = _mm256_set1_epi8(48);
        u->w0 = _mm256_or_si256(u->w0, _mm256_and_si256(_mm256_slli_epi16(lo, 4), pair));
        u->w1 = _mm256_or_si256(u->w1, _mm256_and_si256(_mm256_slli_epi16(lo, 2), pair));
        u->w2 = _mm256_or_si256(u->w2, _mm256_and_si256(lo, pair));
        u->w3 = _mm256_or_si256(u->w3, _mm256_and_si256(_mm256_srli_epi16(lo, 2), pair));
        u->w4 = _mm256_or_si256(u->w4, _mm256_and_si256(_mm256_slli_epi16(hi, 4), pair));
        u->w5 = _mm256_or_si256(u->w5, _mm256_and_si256(_mm256_slli_epi16(hi, 2), pair));
        u->w6 = _mm256_or_si256(u->w6, _mm256_and_si256(hi, pair));
        u->w7 = _mm256_or_si256(u->w7, _mm256_and_si256(_mm256_srli_epi16(hi, 2), pair));
    }
}

LAC__ALWAYS __m256i quad(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

LAC__ALWAYS __m256i dot_unsigned(__m256i w, const int8_t *q)
{
    return _mm256_maddubs_epi16(w, quad(q));
}

LAC__ALWAYS __m256i dot_signed(__m256i w, const int8_t *q)
{
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(quad(q), w)),
                             _mm256_set1_epi16(1));
}

LAC__ALWAYS __m256i widen(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

LAC__ALWAYS __m256 scaled(__m256 d, float dx, __m256i sum, __m256 acc)
{
    return _mm256_fmadd_ps(_mm256_mul_ps(d, _mm256_set1_ps(dx)), _mm256_cvtepi32_ps(sum), acc);
}

/* acc plus one block of one column. */
LAC__ALWAYS __m256 column(const lac_type type, const unit *u, const lac__xblock *x, __m256 acc)
{
    const int8_t *q = x->q;
    if (type == LAC_TYPE_Q8_0) {
        __m256i a = _mm256_add_epi32(dot_signed(u->w0, q), dot_signed(u->w1, q + 4));
        __m256i b = _mm256_add_epi32(dot_signed(u->w2, q + 8), dot_signed(u->w3, q + 12));
        __m256i c = _mm256_add_epi32(dot_signed(u->w4, q + 16), dot_signed(u->w5, q + 20));
        __m256i d = _mm256_add_epi32(dot_signed(u->w6, q + 24), dot_signed(u->w7, q + 28));
        return scaled(u->d, x->d, _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)),
                      acc);
    }
    __m256i a = _mm256_add_epi16(dot_unsigned(u->w0, q), dot_unsigned(u->w1, q + 4));
    __m256i b = _mm256_add_epi16(dot_unsigned(u->w2, q + 8), dot_unsigned(u->w3, q + 12));
    __m256i c = _mm256_add_epi16(dot_unsigned(u->w4, q + 16), dot_unsigned(u->w5, q + 20));
    __m256i d = _mm256_add_epi16(dot_unsigned(u->w6, q + 24), dot_unsigned(u->w7, q + 28));
    if (type == LAC_TYPE_Q6_K) {
        acc = scaled(u->d, x->d, _mm256_add_epi32(widen(a), widen(b)), acc);
        acc = _mm256_fmadd_ps(u->m, _mm256_set1_ps(x->s_lo), acc);
        acc = scaled(u->d_hi, x->d, _mm256_add_epi32(widen(c), widen(d)), acc);
        return _mm256_fmadd_ps(u->m_hi, _mm256_set1_ps(x->s_hi), acc);
    }
    __m256i sum;
    if (five_bits(type))
        sum = _mm256_add_epi32(widen(_mm256_add_epi16(a, b)), widen(_mm256_add_epi16(c, d)));
    else
        sum = widen(_mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d)));
    return _mm256_fmadd_ps(u->m, _mm256_set1_ps(x->s), scaled(u->d, x->d, sum, acc));
}

LAC__ALWAYS void prefetch(const lac_type type, const uint8_t *codes)
{
    /* Past the end this asks for the next group, which this thread most often takes next. */
    const char *ahead = (const char *)codes + PREFETCH_BYTES;
    _mm_prefetch(ahead, _MM_HINT_T0);
    _mm_prefetch(ahead + 64, _MM_HINT_T0);
    if (type != LAC_TYPE_Q4_0 && type != LAC_TYPE_Q4_K)
        _mm_prefetch(ahead + 128, _MM_HINT_T0);
    if (type == LAC_TYPE_Q8_0) {
        _mm_prefetch(ahead + 192, _MM_HINT_T0);
        _mm_prefetch(ahead + 256, _MM_HINT_T0);
    }
}

/* Keeps the instructions around it in the order of the text. */
#define IN_ORDER(v) __asm__ volatile("" : "+x"(v))

/* Quad i of the low and the high nibbles times its columns, as sums of pairs; of five bits, the
 * upper ones come from bits[] and move on to the next lower quad. */
LAC__ALWAYS void quad_pair(const lac_type type, const uint8_t *codes, uint32_t i, const int8_t *q,
                           __m256i *bits, __m256i *lo, __m256i *hi)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i v = load_bytes(codes + 32 * i), l = _mm256_and_si256(v, nibble);
    IN_ORDER(l);
    __m256i h = _mm256_srli_epi16(v, 4);
    IN_ORDER(h);
    if (five_bits(type))
        l = _mm256_or_si256(l, fifth(bits[0] = twice(bits[0])));
    *lo = dot_unsigned(l, q + 4 * i);
    IN_ORDER(*lo);
    h = _mm256_and_si256(h, nibble);
    if (five_bits(type)) {
        h = _mm256_or_si256(h, fifth(bits[1]));
        bits[1] = twice(bits[1]);
    }
    *hi = dot_unsigned(h, q + 16 + 4 * i);
    IN_ORDER(*hi);
}

/* One column, codes of four or five bits: as in tile(), the end of a block runs among the products
 * of the next. What memory delivers is the limit only if this keeps up with it. */
LAC__ALWAYS __m256 single_unsigned(const lac_type type, const uint8_t *g, uint32_t blocks,
                                   const lac__xblock *x)
{
    __m256 acc = _mm256_setzero_ps();
    __m256i before = _mm256_setzero_si256();
    unit last = {.d = _mm256_setzero_ps(), .m = _mm256_setzero_ps()};
    float dx = 0.0f, sx = 0.0f;
    for (uint32_t b = 0; b < blocks; b++, x++) {
        lac__unit_place at = lac__unit_at(type, b);
        const uint8_t *codes = g + at.codes;
        __m256i lo, hi, l, h, bits[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        prefetch(type, codes);
        if (five_bits(type))
            bits[0] = load_bytes(codes + 128), bits[1] = high_bits(codes);
        quad_pair(type, codes, 3, x->q, bits, &lo, &hi);
        __m256 value = _mm256_cvtepi32_ps(before);
        IN_ORDER(value);
        quad_pair(type, codes, 2, x->q, bits, &l, &h);
        lo = _mm256_add_epi16(lo, l);
        hi = _mm256_add_epi16(hi, h);
        __m256 scale = _mm256_mul_ps(last.d, _mm256_set1_ps(dx));
        IN_ORDER(scale);
        quad_pair(type, codes, 1, x->q, bits, &l, &h);
        lo = _mm256_add_epi16(lo, l);
        hi = _mm256_add_epi16(hi, h);
        acc = _mm256_fmadd_ps(scale, value, acc);
        IN_ORDER(acc);
        quad_pair(type, codes, 0, x->q, bits, &l, &h);
        lo = _mm256_add_epi16(lo, l);
        hi = _mm256_add_epi16(hi, h);
        acc = _mm256_fmadd_ps(last.m, _mm256_set1_ps(sx), acc);
        IN_ORDER(acc);
        before = five_bits(type) ? _mm256_add_epi32(widen(lo), widen(hi))
                                 : widen(_mm256_add_epi16(lo, hi));
        load_scales(type, g, at, &last);
        dx = x->d, sx = x->s;
    }
    acc =
        _mm256_fmadd_ps(_mm256_mul_ps(last.d, _mm256_set1_ps(dx)), _mm256_cvtepi32_ps(before), acc);
    return _mm256_fmadd_ps(last.m, _mm256_set1_ps(sx), acc);
}

/* One column. */
LAC__ALWAYS __m256 single(const lac_type type, const uint8_t *g, uint32_t blocks,
                          const lac__xblock *x)
{
    if (type != LAC_TYPE_Q8_0 && type != LAC_TYPE_Q6_K)
        return single_unsigned(type, g, blocks, x);
    __m256 acc = _mm256_setzero_ps();
    for (uint32_t b = 0; b < blocks; b++, x++) {
        lac__unit_place at = lac__unit_at(type, b);
        unit u;
        prefetch(type, g + at.codes);
        load_scales(type, g, at, &u);
        load_codes(type, g + at.codes, &u);
        acc = column(type, &u, x, acc);
    }
    return acc;
}

/* The columns of one unit, its codes in registers, the results in the first-level cache. Written as
 * assembly because the order decides: multiplying is the one thing that must never wait (on
 * processors with one 128-bit multiplier for bytes it is all that counts), so the floating-point
 * end of a column is spread over the multiplications of the next one, and compilers undo that. The
 * arithmetic is column()'s.
 *
 * In turn: a quad of the column's bytes to all rows, times a quad of codes, into the sum of pairs,
 * with one line of the column before in between. t0-t2 hold products, s the sum of this column, v
 * the sum and then the value of the one before. */
#define QUAD(k, t)  "vpbroadcastd 4*" #k "(%[x]), " t "\n\tvpmaddubsw " t ", %[w" #k "], " t "\n\t"
#define PAIRS(t, s) "vpaddw " t ", " s ", " s "\n\t"
#define VALUE_INT   "vcvtdq2ps %[v], %[v]\n\t"
#define VALUE_DX    "vbroadcastss 32-64(%[x]), %[f]\n\t"
#define VALUE_D     "vmulps (%[u]), %[f], %[f]\n\t"
#define VALUE_ADD   "vfmadd213ps (%[o]), %[f], %[v]\n\t"
#define VALUE_SX    "vbroadcastss 36-64(%[x]), %[f]\n\t"
#define VALUE_M     "vfmadd231ps 32(%[u]), %[f], %[v]\n\tvmovups %[v], (%[o])\n\t"
#define TILE_BEGIN  "1:\n\t"
#define TILE_END    "add $64, %[x]\n\tadd %[ld], %[o]\n\tcmp %[end], %[x]\n\tjne 1b\n\t"
#define TILE_OPERANDS                                                                              \
    : [x] "+r"(x), [o] "+r"(o), [v] "+x"(v), [s] "=&x"(s), [f] "=&x"(f), [t0] "=&x"(t0),           \
      [t1] "=&x"(t1), [t2] "=&x"(t2)                                                               \
    : [u] "r"(&scale), [ld] "r"(ld * sizeof *o), [end] "r"(end), [w0] "x"(u->w0), [w1] "x"(u->w1), \
      [w2] "x"(u->w2), [w3] "x"(u->w3), [w4] "x"(u->w4), [w5] "x"(u->w5), [w6] "x"(u->w6),         \
      [w7] "x"(u->w7)                                                                              \
    : "memory", "cc"

typedef struct {
    __m256 d, m;
    __m256i ones;
} tile_scale;

/* Integer sum of one column, as the tiles leave it in v. */
LAC__ALWAYS __m256i column_sum(const lac_type type, const unit *u, const int8_t *q)
{
    __m256i a = _mm256_add_epi16(dot_unsigned(u->w0, q), dot_unsigned(u->w1, q + 4));
    __m256i b = _mm256_add_epi16(dot_unsigned(u->w2, q + 8), dot_unsigned(u->w3, q + 12));
    __m256i c = _mm256_add_epi16(dot_unsigned(u->w4, q + 16), dot_unsigned(u->w5, q + 20));
    __m256i d = _mm256_add_epi16(dot_unsigned(u->w6, q + 24), dot_unsigned(u->w7, q + 28));
    a = _mm256_add_epi16(a, b), c = _mm256_add_epi16(c, d);
    if (five_bits(type))
        return _mm256_add_epi32(widen(a), widen(c));
    return widen(_mm256_add_epi16(a, c));
}

/* n ≥ 2 columns from x, added to out. */
LAC__ALWAYS void tile(const lac_type type, uint32_t n, const unit *u, const lac__xblock *x,
                      float *out, size_t ld)
{
    const tile_scale scale = {u->d, u->m, _mm256_set1_epi16(1)};
    const lac__xblock *end = x + n;
    float *o = out;
    __m256i v = column_sum(type, u, x->q), s, t0, t1, t2;
    __m256 f;
    x++;
    if (five_bits(type))
        __asm__ volatile(
            TILE_BEGIN QUAD(0, "%[s]") VALUE_INT QUAD(1, "%[t1]") QUAD(2, "%[t2]")
                PAIRS("%[t1]", "%[s]") VALUE_DX QUAD(3, "%[t0]") PAIRS("%[t2]", "%[s]")
                    VALUE_D QUAD(4, "%[t2]") PAIRS("%[t0]", "%[s]") QUAD(5, "%[t1]") VALUE_ADD QUAD(
                        6, "%[t0]") "vpmaddwd 64(%[u]), %[s], %[s]\n\t" PAIRS("%[t1]", "%[t2]")
                        VALUE_SX QUAD(7, "%[t1]") PAIRS("%[t0]", "%[t2]") VALUE_M PAIRS(
                            "%[t1]", "%[t2]") "vpmaddwd 64(%[u]), %[t2], %[v]\n\tvpaddd %[s], "
                                              "%[v], %[v]\n\t" TILE_END TILE_OPERANDS);
    else
        __asm__ volatile(
            TILE_BEGIN QUAD(0, "%[s]") VALUE_INT QUAD(1, "%[t1]") QUAD(2, "%[t2]")
                PAIRS("%[t1]", "%[s]") VALUE_DX QUAD(3, "%[t0]") PAIRS("%[t2]", "%[s]")
                    QUAD(4, "%[t1]") VALUE_D PAIRS("%[t0]", "%[s]") QUAD(5, "%[t2]")
                        PAIRS("%[t1]", "%[s]") VALUE_ADD QUAD(6, "%[t0]") PAIRS("%[t2]", "%[s]")
                            VALUE_SX QUAD(7, "%[t1]") VALUE_M PAIRS("%[t0]", "%[s]") PAIRS(
                                "%[t1]",
                                "%[s]") "vpmaddwd 64(%[u]), %[s], %[v]\n\t" TILE_END TILE_OPERANDS);
    x--;
    __m256 last = scaled(u->d, x->d, v, _mm256_loadu_ps(o));
    _mm256_storeu_ps(o, _mm256_fmadd_ps(u->m, _mm256_set1_ps(x->s), last));
}

/* Q8_0: four columns at a time, so that a quad's magnitudes are made once for them. */
LAC__ALWAYS void tile_signed(uint32_t n, const uint8_t *codes, __m256 d, const lac__xblock *x,
                             float *out, size_t ld)
{
    __m256i s[4];
    for (uint32_t k = 0; k < 8; k++) {
        __m256i w = load_bytes(codes + 32 * k), magnitude = _mm256_abs_epi8(w);
        for (uint32_t c = 0; c < n; c++) {
            __m256i t =
                widen(_mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(quad(x[c].q + 4 * k), w)));
            s[c] = k == 0 ? t : _mm256_add_epi32(s[c], t);
        }
    }
    for (uint32_t c = 0; c < n; c++, out += ld)
        _mm256_storeu_ps(out, scaled(d, x[c].d, s[c], _mm256_loadu_ps(out)));
}

/* Two or more columns: results in the first-level cache, a unit unpacked once for all. */
LAC__ALWAYS void wide(const lac_type type, uint32_t n, const uint8_t *g, uint32_t blocks,
                      const lac__xblock *x, float *out, size_t ld)
{
    for (uint32_t c = 0; c < n; c++)
        _mm256_storeu_ps(out + c * ld, _mm256_setzero_ps());
    for (uint32_t b = 0; b < blocks; b++, x += n) {
        lac__unit_place at = lac__unit_at(type, b);
        unit u;
        prefetch(type, g + at.codes);
        load_scales(type, g, at, &u);
        if (type == LAC_TYPE_Q8_0) {
            uint32_t c = 0;
            for (; c + 4 <= n; c += 4)
                tile_signed(4, g + at.codes, u.d, x + c, out + c * ld, ld);
            if (n - c == 3)
                tile_signed(3, g + at.codes, u.d, x + c, out + c * ld, ld);
            else if (n - c == 2)
                tile_signed(2, g + at.codes, u.d, x + c, out + c * ld, ld);
            else if (n - c == 1)
                tile_signed(1, g + at.codes, u.d, x + c, out + c * ld, ld);
            continue;
        }
        load_codes(type, g + at.codes, &u);
        if (type == LAC_TYPE_Q6_K)
            for (uint32_t c = 0; c < n; c++)
                _mm256_storeu_ps(out + c * ld,
                                 column(type, &u, x + c, _mm256_loadu_ps(out + c * ld)));
        else
            tile(type, n, &u, x, out, ld);
    }
}

LAC__ALWAYS void integer_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                              uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    uint32_t blocks = w->cols / 32;
    for (uint32_t i = 0; i < groups; i++, g += w->group_bytes, out += 8) {
        if (x->n == 1)
            _mm256_storeu_ps(out, single(type, g, blocks, x->x));
        else
            wide(type, x->n, g, blocks, x->x, out, ld);
    }
}

/* ---- float weights ---- */

LAC__ALWAYS __m256 load_weights(const lac_type type, const uint8_t *g, size_t k)
{
    if (type == LAC_TYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)g + k * 8);
    if (type == LAC_TYPE_F16)
        return load_f16(g + k * 16);
    __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(g + k * 16));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* n columns (a constant, at most 3) from column c of a tile of `stride`: four chains each. */
LAC__ALWAYS void float_columns(const lac_type type, const uint32_t n, const uint8_t *g,
                               uint32_t cols, const float *f, uint32_t stride, float *out,
                               size_t ld)
{
    __m256 acc[3][4];
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t i = 0; i < 4; i++)
            acc[c][i] = _mm256_setzero_ps();
    uint32_t k = 0;
    for (; k + 4 <= cols; k += 4) {
        for (uint32_t i = 0; i < 4; i++) {
            __m256 w = load_weights(type, g, k + i);
            for (uint32_t c = 0; c < n; c++)
                acc[c][i] =
                    _mm256_fmadd_ps(w, _mm256_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (k + i >= cols)
            break;
        __m256 w = load_weights(type, g, k + i);
        for (uint32_t c = 0; c < n; c++)
            acc[c][i] =
                _mm256_fmadd_ps(w, _mm256_set1_ps(f[(size_t)(k + i) * stride + c]), acc[c][i]);
    }
    for (uint32_t c = 0; c < n; c++)
        _mm256_storeu_ps(out + c * ld, _mm256_add_ps(_mm256_add_ps(acc[c][0], acc[c][1]),
                                                     _mm256_add_ps(acc[c][2], acc[c][3])));
}

LAC__ALWAYS void float_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                            uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    for (uint32_t i = 0; i < groups; i++, g += w->group_bytes, out += 8) {
        uint32_t c = 0;
        for (; c + 3 <= x->n; c += 3)
            float_columns(type, 3, g, w->cols, x->f + c, x->n, out + c * ld, ld);
        if (x->n - c == 2)
            float_columns(type, 2, g, w->cols, x->f + c, x->n, out + c * ld, ld);
        else if (x->n - c == 1)
            float_columns(type, 1, g, w->cols, x->f + c, x->n, out + c * ld, ld);
    }
}

LAC__GEMM_DEFINE(avx2)
#endif
