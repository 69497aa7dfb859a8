/* The CUDA backend's insides that its own files share. The engine's thread alone. */
#ifndef LAC_KERNELS_CUDA_BACKEND_H
#define LAC_KERNELS_CUDA_BACKEND_H

#include <stdbool.h>

#include "args.h"
#include "driver.h"
#include "kernels/cuda.h"

enum {
    LAC__MODULES_MAX = 16,
    LAC__FUNCTIONS_MAX = 96,
    LAC__GRAPHS_MAX = 48,
    LAC__GRAPH_ROWS_MAX = 64,       /* decode batches up to here are graphs */
    LAC__CUDA_ROPES_MAX = 8,        /* different RoPE settings a model */
    LAC__TABLE_ENTRIES = 4 << 20,   /* page numbers of one step */
    LAC__CUDA_PARTIAL = 16 << 20,   /* floats of split attention */
    LAC__PROLOGUE_ROWS = 4,         /* up to here blocks norm for themselves */
    LAC__PROLOGUE_BYTES = 96 << 10, /* of shared memory at most */
    LAC__SHARED_PLAIN =
        40 << 10,      /* dynamic shared memory that needs no leave: 48 KiB with the static */
    LAC__LIST_ALL = 0, /* numbers of row lists: all, the ones with logits, units, … */
    LAC__LIST_LOGITS = 1,
    LAC__LIST_UNITS = 2
};

struct lac_weight {
    lac_type type;
    bool vector; /* data is float[cols] */
    uint32_t rows, cols, groups;
    size_t group_bytes, bytes;
    lac__cu_address data;
};

typedef struct {
    const char *name; /* as given; kernels are few and their names are constant */
    void *function;
    uint32_t shared; /* what it is allowed by now */
} lac__function;

typedef struct {
    lac_rope rope;
    lac__cu_address angles; /* [context_max][dims] */
} lac__cuda_rope;

/* How large a step is: what grids are sized by. */
typedef struct {
    uint32_t rows, logit_rows, decode_rows, tiles, splits;
    bool draws;
} lac__shape;

typedef struct {
    void *node;
    uint32_t list; /* off when it is empty */
    bool enabled;
} lac__graph_node;

typedef struct {
    lac__shape shape;
    void *graph, *exec;
    lac__graph_node *nodes;
    uint32_t nodes_count;
    uint64_t used; /* step of its last use */
} lac__graph;

/* The step's memory on the device and its image here: results first, then inputs, then row lists.
 */
typedef struct {
    uint8_t *host; /* pinned */
    lac__cu_address device;
    size_t results_bytes, lists_at, bytes;
    uint32_t *host_tables;
    lac__cu_address tables;
    uint32_t tables_used; /* what earlier steps left there */
    /* Images of the parts. */
    uint32_t *odd, *token, *drawn;
    float *best;
    lac__step_head *head;
    uint32_t *tokens, *position, *segment, *decode_row, *table_at, *table_stride, *list_of, *lists;
    lac__tile_item *tiles;
    lac__draw *draws;
    lac__step on_device;
} lac__step_memory;

struct lac_backend {
    lac_backend_options options;
    const lac__cu *cu;
    int device;
    char name[64];
    void *context, *stream, *event;
    void *modules[LAC__MODULES_MAX];
    uint32_t modules_count, processors, shared_max;
    lac__function functions[LAC__FUNCTIONS_MAX];
    uint32_t functions_count;
    /* buffers */
    lac__cu_address h, raw, branch, logits, partial, counters, slice_best, slice_id;
    lac__cuda_panel normed, inner;
    lac__cu_address buffers[24];
    uint32_t buffers_count;
    lac__step_memory step;
    /* program */
    const lac_op *ops;
    size_t ops_count;
    uint32_t units, patches, tables;    /* row lists and page tables that its operations name */
    uint32_t kv_heads, group, head_dim; /* largest, for cutting attention */
    uint32_t *count_of;                 /* [numbers]: rows of each list in this step */
    lac__cuda_rope ropes[LAC__CUDA_ROPES_MAX];
    uint32_t ropes_count;
    lac__graph graphs[LAC__GRAPHS_MAX];
    uint32_t graphs_count;
    uint64_t steps;
    /* launches: of this step, or nodes of a graph that is being made */
    lac__graph *building;
    void *last_node;
    lac_status failed;
    lac_error *err;
    lac_error fill_error; /* of a weight that did not arrive; the next step reports it */
    float *host_row;      /* [vocab], pinned: logits of a row whose best ones are picked here */
};

static inline uint32_t lac__numbers(const lac_backend *be)
{
    return LAC__LIST_UNITS + be->units + be->patches;
}

static inline bool lac__rope_same(const lac_rope *a, const lac_rope *b)
{
    return a->dims == b->dims && a->base == b->base && a->scale == b->scale &&
           a->magnitude == b->magnitude && a->factors == b->factors;
}

/* Device memory that lives as long as the backend, zeroed; 0 and be->failed when there is none. */
lac__cu_address lac__cuda_buffer(lac_backend *be, size_t bytes, lac_error *err);
/* Waits for the stream without blocking the driver. */
lac_status lac__cuda_wait(lac_backend *be, lac_error *err);

/* Checks a list of operations and makes what it needs. (program.c) */
lac_status lac__cuda_program_make(lac_backend *be, const lac_op *ops, size_t count, lac_error *err);
void lac__cuda_program_free(lac_backend *be);

/* Memory of a step for the program's numbers of lists. (step.c) */
lac_status lac__step_make(lac_backend *be, lac_error *err);
void lac__step_free(lac_backend *be);
/* Runs a checked batch. (step.c) */
lac_status lac__cuda_run(lac_backend *be, lac_batch *batch, lac_error *err);

/* Launches every kernel of the program for a step of this size, or adds it to be->building. Errors
 * land in be->failed. (launch.c) */
void lac__cuda_launch_all(lac_backend *be, const lac__shape *shape);

#endif
