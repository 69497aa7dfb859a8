/* The CUDA driver as a table of functions, loaded when it is needed. Declared here and not
 * included, so that every build compiles the backend; names and layouts are the driver's stable ABI
 * (CUDA 12 and later). Tests put a driver of their own in its place. Any thread. */
#ifndef LAC_KERNELS_CUDA_DRIVER_H
#define LAC_KERNELS_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef uint64_t lac__cu_address;

enum {
    LAC__CU_NOT_READY = 600,
    LAC__CU_MULTIPROCESSORS = 16, /* device attributes */
    LAC__CU_SHARED_OPTIN = 97,
    LAC__CU_COMPUTE_MAJOR = 75,
    LAC__CU_FUNCTION_SHARED = 8, /* function attribute: dynamic shared memory allowed */
    LAC__CU_STREAM_NON_BLOCKING = 1,
    LAC__CU_EVENT_NO_TIMING = 2
};

typedef struct {
    void *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
} lac__cu_node; /* CUDA_KERNEL_NODE_PARAMS of version 1 */

typedef struct {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int length, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*function_get)(void **function, void *module, const char *name);
    int (*function_set)(void *function, int attribute, int value);
    int (*mem_alloc)(lac__cu_address *p, size_t bytes);
    int (*mem_free)(lac__cu_address p);
    int (*host_alloc)(void **p, size_t bytes, unsigned flags);
    int (*host_free)(void *p);
    int (*to_device)(lac__cu_address to, const void *from, size_t bytes, void *stream);
    int (*to_host)(void *to, lac__cu_address from, size_t bytes, void *stream);
    int (*fill)(lac__cu_address p, unsigned char value, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_destroy)(void *event);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
    int (*graph_create)(void **graph, unsigned flags);
    int (*graph_add)(void **node, void *graph, void *const *after, size_t count,
                     const lac__cu_node *params);
    int (*graph_instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*graph_enable)(void *exec, void *node, unsigned enabled);
    int (*graph_launch)(void *exec, void *stream);
    int (*graph_destroy)(void *graph);
    int (*exec_destroy)(void *exec);
    int (*error_name)(int result, const char **name);
} lac__cu;

/* The kernels of this build, one image a source file; ends with NULL. */
typedef struct {
    const lac__cu *driver;
    const void *const *images;
} lac__cu_library;

/* Loads the driver once. LAC_EUNSUPPORTED says what is missing. */
lac_status lac__cu_load(lac__cu_library *out, lac_error *err);
/* For tests: what lac__cu_load gives from now on; NULL = the real one again. */
void lac__cu_replace(const lac__cu_library *library);

/* LAC_OK for 0; else the driver's name of the error and what was being done. */
lac_status lac__cu_check(const lac__cu *cu, int result, const char *doing, lac_error *err);

#endif
