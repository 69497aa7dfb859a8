/* Products for 256-bit VNNI: one vpdpbusd adds four products a lane in 32 bits,
 * so nothing can overflow. One text for both encodings: VEX (AVX-VNNI,
 * processors without AVX-512) and EVEX (AVX-512 VL and VNNI); the including
 * file says which, by LAC__DPBUSD. The arithmetic around the exact integer sums
 * is gemm_scalar.c's, term by term. Q8_0 codes become unsigned by +128, taken
 * back as −128 × Σq. */
#include "gemm_256.inc.h"

LAC__ALWAYS __m256i dot(__m256i sum, __m256i w, const int8_t *q)
{
    return LAC__DPBUSD(sum, w, quad(q));
}

LAC__ALWAYS void codes_of(const lac_type type, const uint8_t *q, unit *u)
{
    load_codes(type, q, u);
    if (type != LAC_TYPE_Q8_0)
        return;
    const __m256i sign = _mm256_set1_epi8(-128); /* flipping the top bit adds 128 */
    u->w0 = _mm256_xor_si256(u->w0, sign), u->w1 = _mm256_xor_si256(u->w1, sign);
    u->w2 = _mm256_xor_si256(u->w2, sign), u->w3 = _mm256_xor_si256(u->w3, sign);
    u->w4 = _mm256_xor_si256(u->w4, sign), u->w5 = _mm256_xor_si256(u->w5, sign);
    u->w6 = _mm256_xor_si256(u->w6, sign), u->w7 = _mm256_xor_si256(u->w7, sign);
}

/* acc plus one block of one column. */
LAC__ALWAYS __m256 column(const lac_type type, const unit *u, const lac__xblock *x, __m256 acc)
{
    const int8_t *q = x->q;
    __m256i zero = _mm256_setzero_si256();
    __m256i start = type == LAC_TYPE_Q8_0 ? _mm256_set1_epi32(-128 * x->sum) : zero;
    __m256i lo = dot(dot(dot(dot(start, u->w0, q), u->w1, q + 4), u->w2, q + 8), u->w3, q + 12);
    __m256i hi =
        dot(dot(dot(dot(zero, u->w4, q + 16), u->w5, q + 20), u->w6, q + 24), u->w7, q + 28);
    if (type == LAC_TYPE_Q6_K) {
        acc = scaled(u->d, x->d, lo, acc);
        acc = _mm256_fmadd_ps(u->m, _mm256_set1_ps(x->s_lo), acc);
        acc = scaled(u->d_hi, x->d, hi, acc);
        return _mm256_fmadd_ps(u->m_hi, _mm256_set1_ps(x->s_hi), acc);
    }
    acc = scaled(u->d, x->d, _mm256_add_epi32(lo, hi), acc);
    return type == LAC_TYPE_Q8_0 ? acc : _mm256_fmadd_ps(u->m, _mm256_set1_ps(x->s), acc);
}

/* One group of rows; n is a constant only where it is 1, whose result stays in
 * a register. */
LAC__ALWAYS void columns(const lac_type type, uint32_t n, const uint8_t *g, uint32_t blocks,
                         const lac__xblock *x, bool goes_on, float *out, size_t ld)
{
    for (uint32_t c = 0; c < n && !goes_on; c++)
        _mm256_storeu_ps(out + c * ld, _mm256_setzero_ps());
    __m256 only = _mm256_loadu_ps(out);
    for (uint32_t b = 0; b < blocks; b++, x += n) {
        lac__unit_place at = lac__unit_at(type, b);
        unit u;
        prefetch(type, g + at.codes);
        load_scales(type, g, at, &u);
        codes_of(type, g + at.codes, &u);
        if (n == 1)
            only = column(type, &u, x, only);
        for (uint32_t c = 0; n > 1 && c < n; c++)
            _mm256_storeu_ps(out + c * ld, column(type, &u, x + c, _mm256_loadu_ps(out + c * ld)));
    }
    if (n == 1)
        _mm256_storeu_ps(out, only);
}

LAC__ALWAYS void integer_gemm(const lac_type type, const lac_weight *w, uint32_t group,
                              uint32_t groups, const lac__tile *x, float *out, size_t ld)
{
    const uint8_t *g = w->data + (size_t)group * w->group_bytes;
    uint32_t blocks = w->cols / 32;
    for (uint32_t i = 0; i < groups; i++, g += w->group_bytes, out += 8) {
        if (x->n == 1)
            columns(type, 1, g, blocks, x->x, x->goes_on, out, ld);
        else
            columns(type, x->n, g, blocks, x->x, x->goes_on, out, ld);
    }
}
