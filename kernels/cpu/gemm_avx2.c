/* Products for AVX2. One lane a row, so a product ends without a horizontal
 * sum; the arithmetic is gemm_scalar.c's, term by term.
 *
 * Codes of four and five bits stay unsigned bytes: eight (four) maddubs results
 * fit 16 bits (15·127·2·8 = 30480, 31·127·2·4 = 31496, 63·127·2·2 = 32004), so
 * one maddwd serves many. Q8_0 gives |w| to the unsigned side and the sign to
 * the activations, which never are −128; |w| = 128 is right there too
 * (128·127·2 = 32512). */
#if defined(__x86_64__)
#include "gemm_256.inc.h"

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

/* Keeps the instructions around it in the order of the text. */
#define IN_ORDER(v) __asm__ volatile("" : "+x"(v))

/* Quad i of the low and the high nibbles times its columns, as sums of pairs;
 * of five bits, the upper ones come from bits[] and move on to the next lower
 * quad. */
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

/* One column, codes of four or five bits: as in tile(), the end of a block runs
 * among the products of the next. What memory delivers is the limit only if
 * this keeps up with it. */
LAC__ALWAYS __m256 single_unsigned(const lac_type type, const uint8_t *g, uint32_t blocks,
                                   const lac__xblock *x, __m256 acc)
{
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
                          const lac__xblock *x, __m256 acc)
{
    if (type != LAC_TYPE_Q8_0 && type != LAC_TYPE_Q6_K)
        return single_unsigned(type, g, blocks, x, acc);
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

/* The columns of one unit, its codes in registers, the results in the
 * first-level cache. Written as assembly because the order decides: multiplying
 * is the one thing that must never wait (on processors with one 128-bit
 * multiplier for bytes it is all that counts), so the floating-point end of a
 * column is spread over the multiplications of the next one, and compilers undo
 * that. The arithmetic is column()'s.
 *
 * In turn: a quad of the column's bytes to all rows, times a quad of codes,
 * into the sum of pairs, with one line of the column before in between. t0-t2
 * hold products, s the sum of this column, v the sum and then the value of the
 * one before. */
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
                            "%[t1]", "%[t2]") "vpmaddwd 64(%[u]), %[t2], %[v]\n\tvpaddd "
                                              "%[s], "
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

/* Q8_0: four columns at a time, so that a quad's magnitudes are made once for
 * them. */
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

/* Two or more columns: results in the first-level cache, a unit unpacked once
 * for all. */
LAC__ALWAYS void wide(const lac_type type, uint32_t n, const uint8_t *g, uint32_t blocks,
                      const lac__xblock *x, bool goes_on, float *out, size_t ld)
{
    for (uint32_t c = 0; c < n && !goes_on; c++)
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
        if (x->n == 1) {
            __m256 start = x->goes_on ? _mm256_loadu_ps(out) : _mm256_setzero_ps();
            _mm256_storeu_ps(out, single(type, g, blocks, x->x, start));
        } else {
            wide(type, x->n, g, blocks, x->x, x->goes_on, out, ld);
        }
    }
}

LAC__GEMM_DEFINE(avx2)
#endif
