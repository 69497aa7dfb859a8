/* See world.h. */
#include "world.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pack.h"
#if defined(LAC_TEST_DEVICE)
#include "device/device.h"
#endif

enum { ROOMS_MAX = 4096 };
static void *rooms[ROOMS_MAX];
static size_t rooms_count;

void *world_room(size_t bytes)
{
    ck_assert_uint_lt(rooms_count, ROOMS_MAX);
    void *p = NULL;
#if defined(LAC_TEST_DEVICE)
    p = device_room(bytes ? bytes : 1);
#else
    ck_assert_int_eq(posix_memalign(&p, 16, bytes ? bytes : 1), 0);
#endif
    memset(p, 0xff, bytes);
    rooms[rooms_count++] = p;
    return p;
}

float *world_floats(size_t count)
{
    return world_room(count * sizeof(float));
}

void world_free(void)
{
    while (rooms_count > 0)
#if defined(LAC_TEST_DEVICE)
        device_room_free(rooms[--rooms_count]);
#else
        free(rooms[--rooms_count]);
#endif
}

/* ---- steps ---- */

static uint32_t *list_at(const world *w, uint32_t number)
{
    return w->lists + (size_t)number * (1 + 2 * w->step.rows_max);
}

uint32_t world_list(world *w, uint32_t number, uint32_t first, uint32_t every)
{
    uint32_t *list = list_at(w, number), n = w->step.rows_max;
    list[0] = 0;
    for (uint32_t row = 0; row < n; row++)
        list[1 + n + row] = (uint32_t)LAC__ABSENT;
    for (uint32_t row = first; row < w->rows; row += every) {
        list[1 + n + row] = list[0];
        list[1 + list[0]++] = row;
    }
    return list[0];
}

uint32_t world_row(const world *w, uint32_t number, uint32_t i)
{
    return list_at(w, number)[1 + i];
}

void world_make(world *w, uint32_t rows, uint32_t lists_count)
{
    *w = (world){.rows = rows};
    w->odd = world_room(4);
    *w->odd = 0;
    w->head = world_room(sizeof *w->head);
    *w->head = (lac__step_head){.decode_rows = rows, .split_tokens = 256};
    w->position = world_room(rows * 4);
    w->segment = world_room(rows * 4);
    w->tokens = world_room(rows * 4);
    w->decode_row = world_room(rows * 4);
    w->table_at = world_room(rows * 4);
    w->table_stride = world_room(rows * 4);
    w->tiles = world_room(rows * sizeof *w->tiles);
    w->list_of = world_room(lists_count * 4);
    w->lists = world_room((size_t)lists_count * (1 + 2 * rows) * 4);
    w->step = (lac__step){.head = w->head,
                          .tokens = w->tokens,
                          .position = w->position,
                          .segment = w->segment,
                          .decode_row = w->decode_row,
                          .tiles = w->tiles,
                          .table_at = w->table_at,
                          .table_stride = w->table_stride,
                          .list_of = w->list_of,
                          .lists = w->lists,
                          .rows_max = rows,
                          .odd = w->odd};
    for (uint32_t i = 0; i < rows; i++) {
        w->position[i] = 0;
        w->segment[i] = w->decode_row[i] = i;
    }
    for (uint32_t i = 0; i < lists_count; i++) {
        w->list_of[i] = i;
        world_list(w, i, 0, 1);
    }
}

/* ---- weights ---- */

void world_matrix_make(world_matrix *m, lac_type type, uint32_t rows, uint32_t cols,
                       uint64_t *state)
{
    size_t bytes = row_bytes(type, cols), r8 = lac__group_bytes(type, cols);
    *m = (world_matrix){.type = type,
                        .rows = rows,
                        .cols = cols,
                        .groups = (rows + 7) / 8,
                        .group_bytes = (uint32_t)lac__cuda_group_bytes(type, cols)};
    ck_assert_uint_gt(m->group_bytes, 0);
    m->data = world_room((size_t)m->groups * m->group_bytes);
    m->dense = world_floats((size_t)rows * cols);
    m->packed = (lac_weight){.type = type,
                             .rows = rows,
                             .cols = cols,
                             .groups = m->groups,
                             .group_bytes = r8,
                             .data = world_room(m->groups * r8)};
    uint8_t *source = malloc(rows * bytes), *room = malloc(r8);
    for (uint32_t r = 0; r < rows; r++) {
        random_row(type, cols, source + r * bytes, state);
        lac__dequantise(type, source + r * bytes, cols, m->dense + (size_t)r * cols);
    }
    for (uint32_t g = 0; g < m->groups; g++) {
        const uint8_t *eight[8];
        for (uint32_t r = 0; r < 8; r++)
            eight[r] = g * 8 + r < rows ? source + (g * 8 + r) * bytes : NULL;
        lac__pack_group(type, type, cols, eight, m->packed.data + g * r8);
        lac__cuda_pack_group(type, cols, eight, room, m->data + (size_t)g * m->group_bytes);
    }
    free(source);
    free(room);
}

/* ---- activations ---- */

void world_panel(lac__cuda_panel *p, uint32_t rows, uint32_t cols, bool quant, bool floats)
{
    *p = (lac__cuda_panel){
        .q = quant ? world_room((size_t)rows * cols) : NULL,
        .s = quant ? world_floats((size_t)rows * cols / 8) : NULL,
        .f = floats ? world_floats((size_t)rows * cols) : NULL,
    };
}

void world_panel_fill(lac__cuda_panel *p, uint32_t rows, uint32_t cols, const float *x)
{
    lac__xblock *block = aligned_alloc(64, (cols / 32 + 1) * sizeof *block);
    for (uint32_t i = 0; i < rows; i++, x += cols) {
        if (p->f)
            memcpy(p->f + (size_t)i * cols, x, cols * 4);
        if (!p->q)
            continue;
        lac__kernels_scalar.quantise(x, cols, block, 1);
        for (uint32_t b = 0; b < cols / 32; b++) {
            float s[4] = {block[b].d, block[b].s, block[b].s_lo, block[b].s_hi};
            memcpy(p->q + (size_t)i * cols + b * 32, block[b].q, 32);
            memcpy(p->s + ((size_t)i * (cols / 32) + b) * 4, s, 16);
        }
    }
    free(block);
}

void world_product(const world_matrix *m, const float *x, float *out)
{
    lac__xblock *block = aligned_alloc(64, (m->cols / 32 + 1) * sizeof *block);
    float *rows = malloc((size_t)m->groups * 8 * 4);
    if (lac__type_quantised(m->type))
        lac__kernels_scalar.quantise(x, m->cols, block, 1);
    lac__tile tile = {.n = 1, .x = block, .f = (float *)x};
    lac__kernels_scalar.gemm[m->type](&m->packed, 0, m->groups, &tile, rows, m->groups * 8);
    memcpy(out, rows, m->rows * 4);
    free(block);
    free(rows);
}

double world_size(const world_matrix *m, uint32_t row, const float *x)
{
    double size = 0;
    for (uint32_t k = 0; k < m->cols; k++)
        size += fabs((double)m->dense[(size_t)row * m->cols + k] * x[k]);
    return size;
}

const char *world_type_name(lac_type type)
{
    static char name[16];
    snprintf(name, sizeof name, "%s", lac_type_get(type)->name);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return name;
}

void world_launch(const char *kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t threads,
                  uint32_t shared, uint64_t seed, const void *args)
{
    char error[LAC_EMU_ERROR];
    lac_emu_launch launch = {.kernel = kernel,
                             .grid = {x, y, z},
                             .block = {threads, 1, 1},
                             .shared = shared,
                             .seed = seed};
    ck_assert_msg(lac_emu_run(&launch, args, error), "%s", error);
}
