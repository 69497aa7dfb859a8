/* The row kernels in terms of sixteen lanes: norm, quantise, activation, RoPE, argmax. Included
 * once by each instruction set after its lanes_*.h; the text is the same, so the bits are. */

/* exp by 2^n × polynomial (|error| < 2 ulp on the range used); below −86 exactly zero. */
LAC__ALWAYS vf lanes_exp(vf x)
{
    const vf magic = vf_set(12582912.0f), low = vf_set(-86.0f);
    vf c = vf_min(vf_set(88.0f), vf_max(low, x));    /* in this order NaN stays NaN */
    vf t = vf_fma(c, vf_set(0x1.715476p+0f), magic); /* low mantissa bits hold round(x / ln 2) */
    vf n = vf_sub(t, magic);
    vf r = vf_fma(n, vf_set(-0x1.62e4p-1f), c);
    r = vf_fma(n, vf_set(-0x1.7f7d1cp-20f), r);
    /* (e^r − 1 − r) / r² fitted on |r| ≤ 0.3475; relative error of the whole 5e-09 */
    vf p = vf_fma(r, vf_set(0x1.6d98ap-10f), vf_set(0x1.123e7cp-7f));
    p = vf_fma(p, r, vf_set(0x1.55547ep-5f));
    p = vf_fma(p, r, vf_set(0x1.55548ap-3f));
    p = vf_fma(p, r, vf_set(0x1.0p-1f));
    p = vf_fma(p, r, vf_set(1.0f));
    p = vf_fma(p, r, vf_set(1.0f));
    vi scaled = vi_add(vf_bits(p), vi_shift_left(vi_sub(vf_bits(t), vf_bits(magic)), 23));
    return vf_select_below(x, low, vf_set(0.0f), vi_floats(scaled));
}

LAC__ALWAYS vf lanes_tanh(vf x)
{
    vf e = lanes_exp(vf_add(x, x));
    return vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), vf_add(e, vf_set(1.0f))));
}

static float rows_norm(const float *x, const float *w, uint32_t n, float eps, float *y)
{
    vf sum = vf_set(0.0f);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }
    if (i < n) {
        vf v = vf_load_part(x + i, n - i);
        sum = vf_fma(v, v, sum);
    }
    float total = vf_sum(sum);
    vf scale = vf_set(1.0f / sqrtf(total / (float)n + eps));
    for (i = 0; i + 16 <= n; i += 16)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), scale), vf_load(w + i)));
    if (i < n)
        vf_store_part(y + i,
                      vf_mul(vf_mul(vf_load_part(x + i, n - i), scale), vf_load_part(w + i, n - i)),
                      n - i);
    return total;
}

static void rows_quantise(const float *x, uint32_t n, lac__xblock *out, uint32_t n_cols)
{
    const vf magic = vf_set(12582912.0f);
    const vi absolute = vi_set(0x7fffffff);
    for (uint32_t b = 0; b < n / 32; b++, x += 32, out += n_cols) {
        vf lo = vf_load(x), hi = vf_load(x + 16);
        /* As integers, magnitudes order with infinity and then NaN on top: neither gets lost. */
        int32_t top =
            vi_largest(vi_max(vi_and(vf_bits(lo), absolute), vi_and(vf_bits(hi), absolute)));
        float amax = lac__bits_f32((uint32_t)top);
        bool zero = amax < 1e-30f;
        vf inverse = vf_set(zero ? 0.0f : 127.0f / amax);
        vi ql = vi_sub(vf_bits(vf_fma(lo, inverse, magic)), vf_bits(magic));
        vi qh = vi_sub(vf_bits(vf_fma(hi, inverse, magic)), vf_bits(magic));
        if (top >= 0x7f800000)
            ql = qh = vi_set(0);
        vi_store_bytes(out->q, ql);
        vi_store_bytes(out->q + 16, qh);
        int32_t sum_lo = vi_sum(ql), sum_hi = vi_sum(qh);
        out->d = zero ? 0.0f : amax / 127.0f;
        out->sum = sum_lo + sum_hi;
        out->s = out->d * (float)out->sum;
        out->s_lo = out->d * (float)sum_lo;
        out->s_hi = out->d * (float)sum_hi;
    }
}

LAC__ALWAYS vf lanes_silu(vf x)
{
    vf e = lanes_exp(vf_sub(vf_set(0.0f), x));
    return vf_div(x, vf_add(vf_set(1.0f), e));
}

LAC__ALWAYS vf lanes_gelu(vf x)
{
    vf cube = vf_mul(vf_mul(x, x), x);
    vf u = vf_mul(vf_set(0.7978845608f), vf_fma(vf_set(0.044715f), cube, x));
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(vf_set(1.0f), lanes_tanh(u)));
}

static void rows_act(lac_activation act, const float *gate, const float *up, uint32_t n, float *y)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf g = vf_load(gate + i);
        vf a = act == LAC_ACT_SILU ? lanes_silu(g) : lanes_gelu(g);
        vf_store(y + i, vf_mul(a, vf_load(up + i)));
    }
    if (i < n) {
        vf g = vf_load_part(gate + i, n - i);
        vf a = act == LAC_ACT_SILU ? lanes_silu(g) : lanes_gelu(g);
        vf_store_part(y + i, vf_mul(a, vf_load_part(up + i, n - i)), n - i);
    }
}

static void rows_add(float *h, const float *x, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        vf_store(h + i, vf_add(vf_load(h + i), vf_load(x + i)));
    for (; i < n; i++)
        h[i] += x[i];
}

static void rows_rope(float *x, lac_rope_style style, uint32_t dims, const float *cos,
                      const float *sin)
{
    uint32_t half = dims / 2, i = 0;
    if (style == LAC_ROPE_HALVES) {
        for (; i + 16 <= half; i += 16) {
            vf a = vf_load(x + i), b = vf_load(x + half + i), c = vf_load(cos + i),
               s = vf_load(sin + i);
            vf_store(x + i, vf_sub(vf_mul(a, c), vf_mul(b, s)));
            vf_store(x + half + i, vf_add(vf_mul(a, s), vf_mul(b, c)));
        }
    }
    uint32_t step = style == LAC_ROPE_HALVES ? half : 1, scale = style == LAC_ROPE_HALVES ? 1 : 2;
    for (; i < half; i++) {
        float *p = x + i * scale, a = p[0], b = p[step];
        p[0] = a * cos[i] - b * sin[i];
        p[step] = a * sin[i] + b * cos[i];
    }
}

static void rows_softcap(float *x, uint32_t n, float cap)
{
    vf limit = vf_set(cap), inverse = vf_set(1.0f / cap);
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t k = n - i < 16 ? n - i : 16;
        vf v = vf_load_part(x + i, k);
        vf_store_part(x + i, vf_mul(limit, lanes_tanh(vf_mul(v, inverse))), k);
    }
}

static void rows_softmax(float *x, uint32_t n)
{
    vf top = vf_set(-INFINITY), sum = vf_set(0.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t k = n - i < 16 ? n - i : 16;
        top = vf_max(top, vf_keep(vf_load_part(x + i, k), 0, (int32_t)k, vf_set(-INFINITY)));
    }
    top = vf_set(vf_largest(top));
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t k = n - i < 16 ? n - i : 16;
        vf e = lanes_exp(vf_sub(vf_load_part(x + i, k), top));
        sum = vf_add(sum, vf_keep(e, 0, (int32_t)k, vf_set(0.0f)));
        vf_store_part(x + i, e, k);
    }
    vf total = vf_set(vf_sum(sum));
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t k = n - i < 16 ? n - i : 16;
        vf_store_part(x + i, vf_div(vf_load_part(x + i, k), total), k);
    }
}

static void rows_to_f16(const float *x, uint32_t n, uint16_t *out)
{
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        vf_store_f16(out + i, vf_load(x + i));
    for (; i < n; i++)
        out[i] = lac__f32_to_f16(x[i]);
}

/* The codes are made with the scale as it is stored, so what it lost in rounding is not lost again.
 * What is not finite becomes a scale that is not: attention's result then shows it. */
static void rows_to_q8(const float *x, uint32_t n, int8_t *codes, uint16_t *scales, uint32_t stride)
{
    const vf magic = vf_set(12582912.0f), most = vf_set(127.0f), least = vf_set(-127.0f);
    const vi absolute = vi_set(0x7fffffff);
    for (uint32_t at = 0; at < n; at += 32, scales += stride) {
        uint32_t low = n - at < 16 ? n - at : 16, high = n - at < 32 ? n - at - low : 16;
        vf lo = vf_load_part(x + at, low), hi = vf_load_part(x + at + low, high);
        int32_t top =
            vi_largest(vi_max(vi_and(vf_bits(lo), absolute), vi_and(vf_bits(hi), absolute)));
        *scales = lac__f32_to_f16(lac__bits_f32((uint32_t)top) / 127.0f);
        float scale = lac__f16_to_f32(*scales);
        vf inverse = vf_set(scale > 0.0f ? 1.0f / scale : 0.0f);
        lo = vf_min(most, vf_max(least, vf_mul(lo, inverse)));
        hi = vf_min(most, vf_max(least, vf_mul(hi, inverse)));
        vi ql = vi_sub(vf_bits(vf_add(lo, magic)), vf_bits(magic));
        vi qh = vi_sub(vf_bits(vf_add(hi, magic)), vf_bits(magic));
        if (top >= 0x7f800000)
            ql = qh = vi_set(0);
        int8_t out[32];
        vi_store_bytes(out, ql);
        vi_store_bytes(out + 16, qh);
        memcpy(codes + at, out, low + high);
    }
}

static bool rows_best(const float *x, uint32_t n, float *value, uint32_t *index)
{
    /* x − x is zero for what is finite and NaN for what is not; the sum keeps a NaN. */
    vf top = vf_set(-INFINITY), odd = vf_set(0.0f);
    for (uint32_t i = 0; i < n; i += 16) {
        uint32_t k = n - i < 16 ? n - i : 16;
        vf v = k == 16 ? vf_load(x + i) : vf_load_part(x + i, k);
        odd = vf_add(odd, vf_sub(v, v));
        top = vf_max(top, k == 16 ? v : vf_keep(v, 0, (int32_t)k, vf_set(-INFINITY)));
    }
    float best = vf_largest(top);
    uint32_t i = 0;
    while (i < n && x[i] != best)
        i++;
    *value = best;
    *index = i < n ? i : 0;
    return vf_sum(odd) == 0.0f;
}
