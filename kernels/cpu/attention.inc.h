/* Attention over paged keys and values in terms of sixteen lanes; included after rows.inc.h.
 *
 * Everything a query sees is cut at absolute positions: blocks of 32 tokens with a running maximum,
 * splits of LAC__SPLIT tokens that each start afresh, splits folded in ascending order. So a row
 * gets the same bits in a prefill tile, in a decode step, and when splits go to different threads.
 * Tokens that a query may not see are blended away after the product and weigh exactly zero; values
 * outside the tile's range are never read, so pages may hold anything there. */

enum { QUERIES_AT_ONCE = 6 };

/* Where a product takes keys or values from: floats made for many queries to share, or, where all
 * queries fit one pass, the page itself. A byte times its scale is exact in float32, so all forms
 * give the same bits. */
typedef enum { FROM_FLOATS, FROM_HALVES, FROM_BYTES } lanes_form;
typedef struct {
    const float *floats;
    const uint16_t *halves;
    const int8_t *bytes;
    const uint16_t *scales;     /* of keys in bytes: [dims/32][32 tokens] */
    const float *scales_floats; /* of values in bytes, the same */
} lanes_from;

/* Scales of 32 dimensions and one half of the tokens. */
LAC__ALWAYS vf key_scales(const uint16_t *scales, uint32_t d, uint32_t half)
{
    return vf_load_f16(scales + (size_t)(d / 32) * LAC_KV_BLOCK + half * 16);
}

/* K of one page to floats [2][head_dim][16 tokens]. */
static void attention_keys(const lac__attention_item *it, const uint8_t *page, float *k)
{
    uint32_t dim = it->head_dim;
    const uint16_t *scales =
        (const uint16_t *)(const void *)(page + 2 * lac__kv_plane_bytes(LAC_KV_Q8, dim));
    for (uint32_t half = 0; half < 2; half++) {
        size_t at = (size_t)half * 2 * dim * 8, next = at + (size_t)dim * 8;
        const uint16_t *h = (const uint16_t *)(const void *)page;
        const float *f = (const float *)(const void *)page;
        const int8_t *c = (const int8_t *)page;
        for (uint32_t d = 0; d < dim; d++, k += 16)
            vf_store(k, it->kv_type == LAC_KV_F32 ? vf_load_two(f + at + d * 8, f + next + d * 8)
                        : it->kv_type == LAC_KV_F16
                            ? vf_load_two_f16(h + at + d * 8, h + next + d * 8)
                            : vf_mul(vf_load_two_i8(c + at + d * 8, c + next + d * 8),
                                     key_scales(scales, d, half)));
    }
}

/* The scales of V in bytes as floats, [dims/32][32 tokens]. */
static void value_scales(const lac__attention_item *it, const uint8_t *page, float *out)
{
    size_t count = lac__kv_scales(it->head_dim) * LAC_KV_BLOCK;
    const uint16_t *scales =
        (const uint16_t *)(const void *)(page + 2 * lac__kv_plane_bytes(LAC_KV_Q8, it->head_dim));
    for (size_t i = 0; i < count; i += 16)
        vf_store(out + i, vf_load_f16(scales + count + i));
}

static float value_at(lac_kv_type type, const uint8_t *values, size_t i, float scale)
{
    float f;
    uint16_t h;
    if (type == LAC_KV_Q8)
        return (float)(int8_t)values[i] * scale;
    memcpy(type == LAC_KV_F32 ? (void *)&f : &h, values + i * (type == LAC_KV_F32 ? 4 : 2),
           type == LAC_KV_F32 ? 4 : 2);
    return type == LAC_KV_F32 ? f : lac__f16_to_f32(h);
}

/* V of tokens lo … hi−1 of one page to floats [32][head_dim padded], zero elsewhere. */
static void attention_values(const lac__attention_item *it, const uint8_t *page, uint32_t lo,
                             uint32_t hi, const float *scales, float *v)
{
    uint32_t dim = it->head_dim, padded = lac__pad16(dim);
    const uint8_t *values = page + lac__kv_plane_bytes(it->kv_type, dim);
    const uint16_t *h = (const uint16_t *)(const void *)values;
    const float *f = (const float *)(const void *)values;
    const int8_t *c = (const int8_t *)values;
    for (uint32_t t = 0; t < LAC_KV_BLOCK; t++, v += padded) {
        if (t < lo || t >= hi) {
            memset(v, 0, padded * sizeof *v);
            continue;
        }
        uint32_t d = 0;
        for (; d + 16 <= dim; d += 16)
            vf_store(v + d, it->kv_type == LAC_KV_F32   ? vf_load(f + t * dim + d)
                            : it->kv_type == LAC_KV_F16 ? vf_load_f16(h + t * dim + d)
                                                        : vf_mul(vf_load_i8(c + t * dim + d),
                                                                 vf_set(scales[d / 32 * 32 + t])));
        for (; d < padded; d++) {
            float scale = it->kv_type == LAC_KV_Q8 && d < dim ? scales[d / 32 * 32 + t] : 0.0f;
            v[d] = d < dim ? value_at(it->kv_type, values, (size_t)t * dim + d, scale) : 0.0f;
        }
    }
}

/* scores[i][32] of n queries: one chain over the dimensions a token. */
LAC__ALWAYS void score_some(uint32_t n, const lanes_form form, const float *const *q, uint32_t dim,
                            lanes_from k, float *scores)
{
    for (uint32_t half = 0; half < 2; half++) {
        const uint16_t *h = form == FROM_HALVES ? k.halves + (size_t)half * 16 * dim : NULL;
        const float *f = form == FROM_FLOATS ? k.floats + (size_t)half * 16 * dim : NULL;
        const int8_t *c = form == FROM_BYTES ? k.bytes + (size_t)half * 16 * dim : NULL;
        vf acc[QUERIES_AT_ONCE], scale = vf_set(0.0f);
        for (uint32_t i = 0; i < n; i++)
            acc[i] = vf_set(0.0f);
        for (uint32_t d = 0; d < dim; d++) {
            if (form == FROM_BYTES && d % 32 == 0)
                scale = key_scales(k.scales, d, half);
            vf key = form == FROM_HALVES ? vf_load_two_f16(h + d * 8, h + (size_t)dim * 8 + d * 8)
                     : form == FROM_FLOATS
                         ? vf_load(f + d * 16)
                         : vf_mul(vf_load_two_i8(c + d * 8, c + (size_t)dim * 8 + d * 8), scale);
            for (uint32_t i = 0; i < n; i++)
                acc[i] = vf_fma(vf_set(q[i][d]), key, acc[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            vf_store(scores + i * 32 + half * 16, acc[i]);
    }
}

/* o[i] += Σ over tokens lo … hi−1 of p[i][t] × v[t], tokens ascending. */
LAC__ALWAYS void value_some(uint32_t n, const lanes_form form, const float *p, uint32_t lo,
                            uint32_t hi, lanes_from v, uint32_t padded, float *const *o)
{
    for (uint32_t d = 0; d < padded; d += 16) {
        vf acc[QUERIES_AT_ONCE];
        for (uint32_t i = 0; i < n; i++)
            acc[i] = vf_load(o[i] + d);
        for (uint32_t t = lo; t < hi; t++) {
            vf value = form == FROM_HALVES   ? vf_load_f16(v.halves + t * padded + d)
                       : form == FROM_FLOATS ? vf_load(v.floats + t * padded + d)
                                             : vf_mul(vf_load_i8(v.bytes + t * padded + d),
                                                      vf_set(v.scales_floats[d / 32 * 32 + t]));
            for (uint32_t i = 0; i < n; i++)
                acc[i] = vf_fma(vf_set(p[i * 32 + t]), value, acc[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            vf_store(o[i] + d, acc[i]);
    }
}

LAC__ALWAYS void scores_of(const lanes_form form, uint32_t n, const float *const *q, uint32_t dim,
                           lanes_from k, float *scores)
{
    switch (n) {
    case 1: score_some(1, form, q, dim, k, scores); break;
    case 2: score_some(2, form, q, dim, k, scores); break;
    case 3: score_some(3, form, q, dim, k, scores); break;
    case 4: score_some(4, form, q, dim, k, scores); break;
    case 5: score_some(5, form, q, dim, k, scores); break;
    default: score_some(6, form, q, dim, k, scores); break;
    }
}

LAC__ALWAYS void values_of(const lanes_form form, uint32_t n, const float *p, uint32_t lo,
                           uint32_t hi, lanes_from v, uint32_t padded, float *const *o)
{
    switch (n) {
    case 1: value_some(1, form, p, lo, hi, v, padded, o); break;
    case 2: value_some(2, form, p, lo, hi, v, padded, o); break;
    case 3: value_some(3, form, p, lo, hi, v, padded, o); break;
    case 4: value_some(4, form, p, lo, hi, v, padded, o); break;
    case 5: value_some(5, form, p, lo, hi, v, padded, o); break;
    default: value_some(6, form, p, lo, hi, v, padded, o); break;
    }
}

/* Scores of one query to weights, with the running maximum m, sum l and result o brought along.
 * Tokens lo … hi−1 of the block count. False = none does, o is as it was. */
static bool soften(const lac__attention_item *it, float *s, int32_t lo, int32_t hi, float *m,
                   float *l, float *o)
{
    if (lo >= hi)
        return false;
    const vf none = vf_set(-INFINITY);
    vf scale = vf_set(it->scale);
    vf a = vf_mul(vf_load(s), scale), b = vf_mul(vf_load(s + 16), scale);
    if (it->softcap > 0.0f) {
        vf cap = vf_set(it->softcap), inverse = vf_set(1.0f / it->softcap);
        a = vf_mul(cap, lanes_tanh(vf_mul(a, inverse)));
        b = vf_mul(cap, lanes_tanh(vf_mul(b, inverse)));
    }
    if (lo > 0 || hi < LAC_KV_BLOCK) {
        a = vf_keep(a, lo, hi, none);
        b = vf_keep(b, lo - 16, hi - 16, none);
    }
    float top = vf_largest(vf_max(a, b));
    if (!(top > *m))
        top = *m;
    vf t = vf_set(top);
    a = lanes_exp(vf_sub(a, t));
    b = lanes_exp(vf_sub(b, t));
    vf_store(s, a);
    vf_store(s + 16, b);
    float sum = vf_sum(vf_add(a, b));
    if (top > *m) {
        float back[16];
        vf_store(back, lanes_exp(vf_set(*m - top)));
        vf correction = vf_set(back[0]);
        for (uint32_t d = 0; d < lac__pad16(it->head_dim); d += 16)
            vf_store(o + d, vf_mul(vf_load(o + d), correction));
        *l *= back[0];
        *m = top;
    }
    *l += sum;
    return true;
}

/* One query's state in memory: result [padded], then m, l. */
LAC__ALWAYS size_t state_size(uint32_t head_dim)
{
    return lac__pad16(head_dim) + 16;
}

static void states_clear(const lac__attention_item *it, float *states, uint32_t queries)
{
    size_t size = state_size(it->head_dim);
    for (uint32_t i = 0; i < queries; i++) {
        memset(states + i * size, 0, size * sizeof *states);
        states[i * size + size - 16] = -INFINITY;
    }
}

/* total := total ⊕ part. Weights against the larger maximum, as within a split. */
static void state_fold(uint32_t head_dim, float *total, const float *part)
{
    uint32_t padded = lac__pad16(head_dim);
    float mt = total[padded], mp = part[padded];
    if (mp == -INFINITY)
        return; /* the part saw no token */
    float m = mt > mp ? mt : mp;
    float wt[16], wp[16];
    vf_store(wt, lanes_exp(vf_set(mt - m)));
    vf_store(wp, lanes_exp(vf_set(mp - m)));
    vf a = vf_set(wt[0]), b = vf_set(wp[0]);
    for (uint32_t d = 0; d < padded; d += 16)
        vf_store(total + d, vf_fma(vf_load(part + d), b, vf_mul(vf_load(total + d), a)));
    total[padded] = m;
    total[padded + 1] = total[padded + 1] * wt[0] + part[padded + 1] * wp[0];
}

/* The tokens of block b that the query at position p sees: lo … hi−1 within the block. */
LAC__ALWAYS void visible(const lac__attention_item *it, uint32_t p, uint32_t b, int32_t *lo,
                         int32_t *hi)
{
    int64_t first = it->window > 0 && p + 1 > it->window ? (int64_t)p + 1 - it->window : 0;
    int64_t start = (int64_t)b * LAC_KV_BLOCK;
    int64_t l = first - start, h = (int64_t)p + 1 - start;
    *lo = (int32_t)(l < 0 ? 0 : l > LAC_KV_BLOCK ? LAC_KV_BLOCK : l);
    *hi = (int32_t)(h < 0 ? 0 : h > LAC_KV_BLOCK ? LAC_KV_BLOCK : h);
}

/* One page's keys and values in the form that its queries want. */
LAC__ALWAYS lanes_form attention_from(const lac__attention_item *it, const uint8_t *page,
                                      uint32_t lo, uint32_t hi, float *k, float *v, float *scales,
                                      lanes_from *keys, lanes_from *values)
{
    bool direct =
        it->rows * it->group <= QUERIES_AT_ONCE && lac__pad16(it->head_dim) == it->head_dim;
    size_t plane = lac__kv_plane_bytes(it->kv_type, it->head_dim);
    if (it->kv_type == LAC_KV_Q8)
        value_scales(it, page, scales);
    if (!direct || it->kv_type == LAC_KV_F32) {
        attention_keys(it, page, k);
        attention_values(it, page, lo, hi, scales, v);
        *keys = (lanes_from){.floats = k};
        *values = (lanes_from){.floats = v};
        return FROM_FLOATS;
    }
    *keys = (lanes_from){.halves = (const uint16_t *)(const void *)page,
                         .bytes = (const int8_t *)page,
                         .scales = (const uint16_t *)(const void *)(page + 2 * plane)};
    *values = (lanes_from){.halves = (const uint16_t *)(const void *)(page + plane),
                           .bytes = (const int8_t *)page + plane,
                           .scales_floats = scales};
    return it->kv_type == LAC_KV_F16 ? FROM_HALVES : FROM_BYTES;
}

static void attention_block(const lac__attention_item *it, uint32_t b, float *states, float *k,
                            float *v, float *s)
{
    uint32_t queries = it->rows * it->group, padded = lac__pad16(it->head_dim);
    float value_scale[LAC__HEAD_DIM_MAX];
    size_t size = state_size(it->head_dim);
    int32_t lo, hi, ignored; /* the union over the rows: first row's begin, last row's end */
    visible(it, it->pos, b, &lo, &ignored);
    visible(it, it->pos + it->rows - 1, b, &ignored, &hi);
    if (lo >= hi)
        return; /* there may be no page */
    const uint8_t *page = it->region + it->pages[b] * it->page_bytes + it->head_offset;
    lanes_from keys, values;
    lanes_form form =
        attention_from(it, page, (uint32_t)lo, (uint32_t)hi, k, v, value_scale, &keys, &values);
    for (uint32_t i = 0; i < queries; i += QUERIES_AT_ONCE) {
        uint32_t n = queries - i < QUERIES_AT_ONCE ? queries - i : QUERIES_AT_ONCE, used = 0;
        const float *q[QUERIES_AT_ONCE];
        float *o[QUERIES_AT_ONCE];
        for (uint32_t j = 0; j < n; j++)
            q[j] = it->q + (i + j) / it->group * it->q_stride + (i + j) % it->group * it->head_dim;
        switch (form) {
        case FROM_HALVES: scores_of(FROM_HALVES, n, q, it->head_dim, keys, s); break;
        case FROM_FLOATS: scores_of(FROM_FLOATS, n, q, it->head_dim, keys, s); break;
        default: scores_of(FROM_BYTES, n, q, it->head_dim, keys, s); break;
        }
        for (uint32_t j = 0; j < n; j++) {
            float *state = states + (i + j) * size;
            int32_t from, to;
            visible(it, it->pos + (i + j) / it->group, b, &from, &to);
            if (!soften(it, s + j * 32, from, to, state + padded, state + padded + 1, state))
                continue;
            if (used != j)
                memcpy(s + used * 32, s + j * 32, 32 * sizeof *s);
            o[used++] = state;
        }
        uint32_t first = (uint32_t)lo, end = (uint32_t)hi;
        if (used == 0)
            continue;
        switch (form) {
        case FROM_HALVES: values_of(FROM_HALVES, used, s, first, end, values, padded, o); break;
        case FROM_FLOATS: values_of(FROM_FLOATS, used, s, first, end, values, padded, o); break;
        default: values_of(FROM_BYTES, used, s, first, end, values, padded, o); break;
        }
    }
}

static void attention_write(const lac__attention_item *it, const float *states)
{
    uint32_t padded = lac__pad16(it->head_dim);
    for (uint32_t i = 0; i < it->rows * it->group; i++) {
        const float *state = states + i * state_size(it->head_dim);
        float *out = it->out + i / it->group * it->out_stride + i % it->group * it->head_dim;
        vf l = vf_set(state[padded + 1]);
        for (uint32_t d = 0; d < it->head_dim; d += 16)
            vf_store_part(out + d, vf_div(vf_load(state + d), l),
                          it->head_dim - d < 16 ? it->head_dim - d : 16);
    }
}

static void attention_run(const lac__attention_item *it)
{
    uint32_t queries = it->rows * it->group, dim = it->head_dim;
    float *k = it->scratch, *v = k + (size_t)32 * dim, *s = v + (size_t)32 * lac__pad16(dim);
    float *part = s + 32 * QUERIES_AT_ONCE, *total = part + queries * state_size(dim);
    uint32_t last = (it->pos + it->rows - 1) / LAC_KV_BLOCK;
    if (!it->partial)
        states_clear(it, total, queries);
    for (uint32_t split = it->split_first; split < it->split_last; split++) {
        uint32_t first_block = split * (LAC__SPLIT / LAC_KV_BLOCK);
        if (it->partial)
            part = it->partial + (size_t)split * queries * state_size(dim);
        states_clear(it, part, queries);
        for (uint32_t b = first_block; b < first_block + LAC__SPLIT / LAC_KV_BLOCK && b <= last;
             b++)
            attention_block(it, b, part, k, v, s);
        for (uint32_t i = 0; !it->partial && i < queries; i++)
            state_fold(dim, total + i * state_size(dim), part + i * state_size(dim));
    }
    if (!it->partial)
        attention_write(it, total);
}

static void attention_merge(const lac__attention_item *it, uint32_t first, uint32_t last)
{
    uint32_t queries = it->rows * it->group;
    size_t size = state_size(it->head_dim);
    float *total = it->scratch;
    states_clear(it, total, queries);
    for (uint32_t split = first; split < last; split++)
        for (uint32_t i = 0; i < queries; i++)
            state_fold(it->head_dim, total + i * size, it->partial + (split * queries + i) * size);
    attention_write(it, total);
}
