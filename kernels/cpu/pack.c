/* Packing: from the file's rows to groups of eight rows (layout R8), and single rows back to
 * floats.
 *
 * Eight rows × 32 columns make a unit. Its code bytes are quads of columns: byte 32i + 4r + j
 * belongs to row r and column 4i + j, so one 32-byte load holds four columns of eight rows. Q8_0
 * d[8] f16, 8 quads of bytes Q4_0, Q4_1  d[8] f16 (m[8] f16), 4 quads of nibbles: low = column
 * 4i+j, high = 16 columns on Q5_0, Q5_1  the same, then 32 bytes of fifth bits: byte 4r+j, bit i
 * low, bit 4+i high Q4_K, Q5_K  a head of d[8] f16, dmin[8] f16 for 256 columns, then 8 units that
 * begin with scale[8], min[8] as bytes Q6_K        a head of d[8] f16, then 8 units: scale[8] of
 * columns 0-15, scale[8] of 16-31 (int8), 4 quads of nibbles, 2 × 32 bytes of upper bit pairs (byte
 * 4r+j, pair i): low, high F32 F16 BF16 column after column, eight values each Bytes a weight are
 * those of the file (Q4_K and Q5_K: 2-3 % more, their scales being unpacked). Block formats of the
 * file: ggml's, as summarised in kernels/README.md. Pure; any thread. */
#include "cpu.h"

#include "base/assert.h"

enum { BLOCK = 32, SUPER = 256 };

bool lac__type_quantised(lac_type type)
{
    return type != LAC_TYPE_F32 && type != LAC_TYPE_F16 && type != LAC_TYPE_BF16;
}

size_t lac__group_bytes(lac_type type, uint32_t cols)
{
    size_t b = cols / BLOCK, s = cols / SUPER;
    bool whole = cols % BLOCK == 0 && cols > 0, whole_super = cols % SUPER == 0 && cols > 0;
    switch (type) {
    case LAC_TYPE_F32: return (size_t)cols * 32;
    case LAC_TYPE_F16:
    case LAC_TYPE_BF16: return (size_t)cols * 16;
    case LAC_TYPE_Q8_0: return whole ? b * LAC__UNIT_Q8_0 : 0;
    case LAC_TYPE_Q4_0: return whole ? b * LAC__UNIT_Q4_0 : 0;
    case LAC_TYPE_Q4_1: return whole ? b * LAC__UNIT_Q4_1 : 0;
    case LAC_TYPE_Q5_0: return whole ? b * LAC__UNIT_Q5_0 : 0;
    case LAC_TYPE_Q5_1: return whole ? b * LAC__UNIT_Q5_1 : 0;
    case LAC_TYPE_Q4_K: return whole_super ? s * LAC__SUPER_Q4_K : 0;
    case LAC_TYPE_Q5_K: return whole_super ? s * LAC__SUPER_Q5_K : 0;
    case LAC_TYPE_Q6_K: return whole_super ? s * LAC__SUPER_Q6_K : 0;
    }
    return 0;
}

static inline uint16_t u16_at(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

/* ---- one block of a row as codes: value = d × code + m ---- */

/* 6-bit scale and min of sub-block j: Q4_K and Q5_K store eight pairs in twelve bytes. */
static void k_scale(const uint8_t *packed, uint32_t j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
        *min = (uint8_t)(packed[j + 4] >> 4 | (packed[j] >> 6) << 4);
    }
}

typedef struct {
    uint16_t d, m;      /* f16 as stored */
    uint8_t scale, min; /* K types; Q6_K: signed scales of the two halves */
    uint8_t code[BLOCK];
} block;

static void nibbles(const uint8_t *q, uint8_t *code)
{
    for (uint32_t j = 0; j < 16; j++) {
        code[j] = q[j] & 15;
        code[j + 16] = q[j] >> 4;
    }
}

static void fifth_bits(const uint8_t *bits, uint8_t *code)
{
    for (uint32_t j = 0; j < BLOCK; j++)
        code[j] |= (uint8_t)((bits[j / 8] >> j % 8 & 1) << 4);
}

static void block_read_q6_k(const uint8_t *super, uint32_t j, block *out)
{
    const uint8_t *low = super, *high = super + 128, *scales = super + 192;
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t half = j / 4, quarter = j % 4; /* 128 values use 64 low and 32 high bytes */
        uint8_t l = low[half * 64 + quarter % 2 * 32 + i];
        uint8_t h = high[half * 32 + i];
        out->code[i] = (uint8_t)((quarter < 2 ? l & 15 : l >> 4) | (h >> 2 * quarter & 3) << 4);
    }
    out->scale = scales[2 * j];
    out->min = scales[2 * j + 1];
    out->d = u16_at(super + 208);
}

static void block_read_k(lac_type type, const uint8_t *row, uint32_t b, block *out)
{
    uint32_t j = b % 8;
    if (type == LAC_TYPE_Q6_K) {
        block_read_q6_k(row + (size_t)(b / 8) * 210, j, out);
        return;
    }
    const uint8_t *super = row + (size_t)(b / 8) * (type == LAC_TYPE_Q4_K ? 144 : 176);
    const uint8_t *q = super + (type == LAC_TYPE_Q4_K ? 16 : 48) + j / 2 * 32;
    out->d = u16_at(super);
    out->m = u16_at(super + 2);
    k_scale(super + 4, j, &out->scale, &out->min);
    for (uint32_t i = 0; i < BLOCK; i++) {
        out->code[i] = j % 2 == 0 ? q[i] & 15 : q[i] >> 4;
        if (type == LAC_TYPE_Q5_K)
            out->code[i] |= (uint8_t)((super[16 + i] >> j & 1) << 4);
    }
}

static void block_read(lac_type type, const uint8_t *row, uint32_t b, block *out)
{
    const uint8_t *p;
    switch (type) {
    case LAC_TYPE_Q8_0:
        p = row + (size_t)b * 34;
        memcpy(out->code, p + 2, BLOCK);
        break;
    case LAC_TYPE_Q4_0:
        p = row + (size_t)b * 18;
        nibbles(p + 2, out->code);
        break;
    case LAC_TYPE_Q4_1:
        p = row + (size_t)b * 20;
        out->m = u16_at(p + 2);
        nibbles(p + 4, out->code);
        break;
    case LAC_TYPE_Q5_0:
        p = row + (size_t)b * 22;
        nibbles(p + 6, out->code);
        fifth_bits(p + 2, out->code);
        break;
    case LAC_TYPE_Q5_1:
        p = row + (size_t)b * 24;
        out->m = u16_at(p + 2);
        nibbles(p + 8, out->code);
        fifth_bits(p + 4, out->code);
        break;
    default: block_read_k(type, row, b, out); return;
    }
    out->d = u16_at(p);
}

/* ---- eight rows ---- */

static void put_u16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, 2);
}

/* Codes of row r into the quads, fifth bits or upper pairs of a unit, four columns at a time: a
 * word of four bytes, none of which reaches its neighbour. `q` is where the quads begin. */
static void put_codes(lac_type type, const uint8_t *code, uint32_t r, uint8_t *q)
{
    uint32_t high = 0, high_pairs = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t lo, hi;
        memcpy(&lo, code + 4 * i, 4);
        memcpy(&hi, code + 16 + 4 * i, 4);
        if (type == LAC_TYPE_Q8_0) {
            memcpy(q + 32 * i + 4 * r, &lo, 4);
            memcpy(q + 32 * (i + 4) + 4 * r, &hi, 4);
            continue;
        }
        uint32_t nibbles_of = (lo & 0x0f0f0f0fu) | (hi & 0x0f0f0f0fu) << 4;
        memcpy(q + 32 * i + 4 * r, &nibbles_of, 4);
        if (type == LAC_TYPE_Q6_K) {
            high |= (lo >> 4 & 0x03030303u) << 2 * i;
            high_pairs |= (hi >> 4 & 0x03030303u) << 2 * i;
        } else {
            high |= (lo >> 4 & 0x01010101u) << i | (hi >> 4 & 0x01010101u) << (4 + i);
        }
    }
    if (type == LAC_TYPE_Q5_0 || type == LAC_TYPE_Q5_1 || type == LAC_TYPE_Q5_K ||
        type == LAC_TYPE_Q6_K)
        memcpy(q + 128 + 4 * r, &high, 4);
    if (type == LAC_TYPE_Q6_K)
        memcpy(q + 160 + 4 * r, &high_pairs, 4);
}

static void pack_unit(lac_type type, uint32_t cols, uint32_t b, const uint8_t *const rows[8],
                      uint8_t *group)
{
    lac__unit_place at = lac__unit_at(type, b);
    (void)cols;
    for (uint32_t r = 0; r < 8; r++) {
        block in = {0};
        if (rows[r])
            block_read(type, rows[r], b, &in);
        else if (type == LAC_TYPE_Q6_K)
            in.scale = in.min = 0;
        put_u16(group + at.d + 2 * r, in.d);
        if (at.m)
            put_u16(group + at.m + 2 * r, in.m);
        if (at.scale) {
            group[at.scale + r] = in.scale;
            group[at.scale + 8 + r] = in.min;
        }
        put_codes(type, in.code, r, group + at.codes);
    }
}

static void pack_floats(lac_type type, lac_type packed, uint32_t cols, const uint8_t *const rows[8],
                        uint8_t *out)
{
    size_t size = packed == LAC_TYPE_F32 ? 4 : 2;
    LAC_ASSERT(type == packed);
    memset(out, 0, (size_t)cols * 8 * size);
    for (uint32_t r = 0; r < 8; r++)
        for (uint32_t c = 0; rows[r] && c < cols; c++)
            memcpy(out + ((size_t)c * 8 + r) * size, rows[r] + c * size, size);
}

void lac__pack_group(lac_type type, lac_type packed, uint32_t cols, const uint8_t *const rows[8],
                     uint8_t *out)
{
    if (type != packed) { /* the yardstick keeps everything as float32 */
        LAC_ASSERT(packed == LAC_TYPE_F32);
        float values[BLOCK * 8];
        size_t row_bytes_done = 0;
        memset(out, 0, (size_t)cols * 32);
        uint32_t step = type == LAC_TYPE_F16 || type == LAC_TYPE_BF16 ? 1 : SUPER;
        for (uint32_t c = 0; c < cols; c += step) {
            uint32_t n = cols - c < step ? cols - c : step;
            for (uint32_t r = 0; r < 8; r++) {
                if (!rows[r])
                    continue;
                lac__dequantise(type, rows[r] + row_bytes_done, n, values);
                for (uint32_t i = 0; i < n; i++)
                    memcpy(out + ((size_t)(c + i) * 8 + r) * 4, &values[i], 4);
            }
            const lac_type_info *info = lac_type_get(type);
            row_bytes_done += (size_t)n / info->block * info->block_bytes;
        }
        return;
    }
    if (!lac__type_quantised(type)) {
        pack_floats(type, packed, cols, rows, out);
        return;
    }
    memset(out, 0, lac__group_bytes(type, cols));
    for (uint32_t b = 0; b < cols / BLOCK; b++)
        pack_unit(type, cols, b, rows, out);
}

/* ---- floats ---- */

/* Values of one block from its codes; the file and the packed form meet here. */
static void block_values(lac_type type, const block *in, float *out)
{
    float d = lac__f16_to_f32(in->d), m = lac__f16_to_f32(in->m);
    for (uint32_t i = 0; i < BLOCK; i++) {
        int code = in->code[i];
        switch (type) {
        case LAC_TYPE_Q8_0: out[i] = d * (float)(int8_t)code; break;
        case LAC_TYPE_Q4_0: out[i] = d * (float)(code - 8); break;
        case LAC_TYPE_Q5_0: out[i] = d * (float)(code - 16); break;
        case LAC_TYPE_Q4_1:
        case LAC_TYPE_Q5_1: out[i] = d * (float)code + m; break;
        case LAC_TYPE_Q6_K:
            out[i] = d * (float)(int8_t)(i < 16 ? in->scale : in->min) * (float)(code - 32);
            break;
        default: out[i] = d * (float)in->scale * (float)code - m * (float)in->min; break;
        }
    }
}

static float float_at(lac_type type, const uint8_t *p)
{
    float f;
    if (type == LAC_TYPE_F16)
        return lac__f16_to_f32(u16_at(p));
    if (type == LAC_TYPE_BF16)
        return lac__bf16_to_f32(u16_at(p));
    memcpy(&f, p, 4);
    return f;
}

void lac__dequantise(lac_type type, const uint8_t *row, uint32_t cols, float *out)
{
    if (!lac__type_quantised(type)) {
        size_t size = type == LAC_TYPE_F32 ? 4 : 2;
        for (uint32_t c = 0; c < cols; c++)
            out[c] = float_at(type, row + c * size);
        return;
    }
    for (uint32_t b = 0; b < cols / BLOCK; b++) {
        block in = {0};
        block_read(type, row, b, &in);
        block_values(type, &in, out + b * BLOCK);
    }
}

static void get_codes(lac_type type, const uint8_t *q, uint32_t r, uint8_t *code)
{
    const uint8_t *high = q + 128;
    for (uint32_t c = 0; c < 16; c++) {
        uint32_t i = c / 4, at = 4 * r + c % 4;
        if (type == LAC_TYPE_Q8_0) {
            code[c] = q[32 * i + at];
            code[c + 16] = q[32 * (i + 4) + at];
            continue;
        }
        code[c] = q[32 * i + at] & 15;
        code[c + 16] = q[32 * i + at] >> 4;
        if (type == LAC_TYPE_Q6_K) {
            code[c] |= (uint8_t)((high[at] >> 2 * i & 3) << 4);
            code[c + 16] |= (uint8_t)((high[32 + at] >> 2 * i & 3) << 4);
        } else if (type != LAC_TYPE_Q4_0 && type != LAC_TYPE_Q4_1 && type != LAC_TYPE_Q4_K) {
            code[c] |= (uint8_t)((high[at] >> i & 1) << 4);
            code[c + 16] |= (uint8_t)((high[at] >> (4 + i) & 1) << 4);
        }
    }
}

void lac__unpack_row(const lac_weight *w, uint32_t row, float *out)
{
    if (w->vector) {
        memcpy(out, w->data, (size_t)w->cols * 4);
        return;
    }
    const uint8_t *group = w->data + (size_t)(row / 8) * w->group_bytes;
    uint32_t r = row % 8;
    if (!lac__type_quantised(w->type)) {
        size_t size = w->type == LAC_TYPE_F32 ? 4 : 2;
        for (uint32_t c = 0; c < w->cols; c++)
            out[c] = float_at(w->type, group + ((size_t)c * 8 + r) * size);
        return;
    }
    for (uint32_t b = 0; w->type == LAC_TYPE_Q8_0 && b < w->cols / BLOCK; b++) { /* heads, mostly */
        lac__unit_place at = lac__unit_at(LAC_TYPE_Q8_0, b);
        const int8_t *codes = (const int8_t *)group + at.codes + 4 * r;
        float d = lac__f16_to_f32(u16_at(group + at.d + 2 * r));
        for (uint32_t c = 0; c < BLOCK; c++)
            out[b * BLOCK + c] = d * (float)codes[32 * (c / 4) + c % 4];
    }
    for (uint32_t b = 0; w->type != LAC_TYPE_Q8_0 && b < w->cols / BLOCK; b++) {
        lac__unit_place at = lac__unit_at(w->type, b);
        block in = {.d = u16_at(group + at.d + 2 * r)};
        if (at.m)
            in.m = u16_at(group + at.m + 2 * r);
        if (at.scale) {
            in.scale = group[at.scale + r];
            in.min = group[at.scale + 8 + r];
        }
        get_codes(w->type, group + at.codes, r, in.code);
        block_values(w->type, &in, out + b * BLOCK);
    }
}
