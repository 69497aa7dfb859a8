/* What kernel tests share: a step's inputs in ordinary memory, weights packed for the device beside
 * their reference form, launches that must succeed. Buffers have exactly the size asked for and are
 * full of NaN, so that a sanitizer sees what reaches outside and a result shows what was not
 * written. */
#ifndef LAC_TESTS_CUDA_WORLD_H
#define LAC_TESTS_CUDA_WORLD_H

#include "../suites.h"
#include "args.h"
#include "emulate.h"

/* Memory that goes back with world_free; on a device run, seen by both sides. */
void *world_room(size_t bytes);
float *world_floats(size_t count);
void world_free(void);

/* Rows that run an operation; list 0 is all of them. */
typedef struct {
    lac__step step;
    lac__step_head *head;
    uint32_t *position, *segment, *tokens, *decode_row, *table_at, *table_stride, *list_of, *lists;
    lac__tile_item *tiles;
    uint32_t *odd, rows;
} world;

/* `rows` rows, each a sequence of its own at position 0; room for `lists_count` lists, all of which
 * are all rows. */
void world_make(world *w, uint32_t rows, uint32_t lists_count);
/* Sets a list to rows `every` apart beginning with `first`. Returns how many. */
uint32_t world_list(world *w, uint32_t number, uint32_t first, uint32_t every);
uint32_t world_row(const world *w, uint32_t number, uint32_t i);

/* A matrix for the device, with its values. */
typedef struct {
    lac_type type;
    uint32_t rows, cols, groups, group_bytes;
    uint8_t *data;
    float *dense;      /* [rows][cols] */
    lac_weight packed; /* for the reference */
} world_matrix;
void world_matrix_make(world_matrix *m, lac_type type, uint32_t rows, uint32_t cols,
                       uint64_t *state);

/* Activations as the reference and as the device have them. */
void world_panel(lac__cuda_panel *p, uint32_t rows, uint32_t cols, bool quant, bool floats);
/* Row i of x [rows][cols] quantised by the reference into the panel. */
void world_panel_fill(lac__cuda_panel *p, uint32_t rows, uint32_t cols, const float *x);

/* The reference's product with one column given as floats (quantised here when the type is). */
void world_product(const world_matrix *m, const float *x, float *out);
/* Σ |w·x| of a row: what tolerances are fractions of. */
double world_size(const world_matrix *m, uint32_t row, const float *x);

const char *world_type_name(lac_type type); /* as kernels are named: "q4_k" */

/* Runs with `seed`; fails the test with the emulator's text. */
void world_launch(const char *kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t threads,
                  uint32_t shared, uint64_t seed, const void *args);

#endif
