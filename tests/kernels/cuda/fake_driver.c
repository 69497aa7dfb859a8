/* See fake_driver.h. */
#include "fake_driver.h"

#include <stdlib.h>
#include <string.h>

#include "emulate.h"

enum { NODES_MAX = 256, FAILED = 999, FUNCTIONS_MAX = 128 };

typedef struct {
    char name[32];
} function;

typedef struct {
    const function *f;
    unsigned grid[3], block[3], shared;
    void *args;
    bool on;
} node;

typedef struct {
    node *nodes;
    uint32_t count;
} graph;

fake_device fake;
static function functions[FUNCTIONS_MAX];
static uint32_t functions_count;
static bool event_ready;

static int call(void)
{
    fake.calls++;
    return fake.fail_at != 0 && fake.calls == fake.fail_at ? FAILED : 0;
}

static int init(unsigned flags)
{
    (void)flags;
    return call();
}
static int device_count(int *count)
{
    *count = 2;
    return call();
}
static int device_get(int *device, int ordinal)
{
    *device = ordinal;
    return call();
}
static int device_name(char *name, int length, int device)
{
    (void)device;
    strncpy(name, "emulator", (size_t)length - 1);
    name[length - 1] = '\0';
    return call();
}
static int device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == LAC__CU_COMPUTE_MAJOR     ? 9
             : attribute == LAC__CU_MULTIPROCESSORS ? 3
                                                    : 227 << 10;
    return call();
}
static int context_retain(void **context, int device)
{
    (void)device;
    int failed = call();
    if (failed)
        return failed;
    *context = &fake;
    fake.alive++;
    return 0;
}
static int context_release(int device)
{
    (void)device;
    fake.alive--;
    return 0;
}
static int one(void *p)
{
    (void)p;
    return call();
}
static int make(void **out)
{
    int failed = call();
    if (failed)
        return failed;
    *out = malloc(1);
    fake.alive++;
    return 0;
}
static int unmake(void *p)
{
    free(p);
    fake.alive--;
    return 0;
}
static int module_load(void **module, const void *image)
{
    (void)image;
    return make(module);
}
static int function_get(void **out, void *module, const char *name)
{
    (void)module;
    int failed = call();
    if (failed || lac_emu_args_bytes(name) == 0)
        return failed ? failed : 500;
    function *f = NULL;
    for (uint32_t i = 0; i < functions_count && !f; i++)
        if (strcmp(functions[i].name, name) == 0)
            f = &functions[i];
    if (!f && functions_count == FUNCTIONS_MAX)
        return FAILED;
    if (!f) {
        f = &functions[functions_count++];
        strncpy(f->name, name, sizeof f->name - 1);
    }
    *out = f;
    return 0;
}
static int function_set(void *f, int attribute, int value)
{
    (void)f, (void)attribute;
    return value <= 227 << 10 ? call() : FAILED;
}

/* Exactly the size, so that a sanitizer sees what reaches past it; full of NaN. */
static int room_make(void **p, size_t bytes)
{
    int failed = call();
    if (failed)
        return failed;
    if (posix_memalign(p, 256, bytes) != 0)
        return 2;
    memset(*p, 0xff, bytes);
    fake.alive++;
    return 0;
}
static int mem_alloc(lac__cu_address *p, size_t bytes)
{
    void *room;
    int failed = room_make(&room, bytes);
    if (!failed)
        *p = (lac__cu_address)(uintptr_t)room;
    return failed;
}
static int mem_free(lac__cu_address p)
{
    return unmake((void *)(uintptr_t)p);
}
static int host_alloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return room_make(p, bytes);
}
static int to_device(lac__cu_address to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    int failed = call();
    if (!failed)
        memcpy((void *)(uintptr_t)to, from, bytes);
    return failed;
}
static int to_host(void *to, lac__cu_address from, size_t bytes, void *stream)
{
    (void)stream;
    int failed = call();
    if (!failed)
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    return failed;
}
static int fill(lac__cu_address p, unsigned char value, size_t bytes, void *stream)
{
    (void)stream;
    int failed = call();
    if (!failed)
        memset((void *)(uintptr_t)p, value, bytes);
    return failed;
}
static int stream_create(void **stream, unsigned flags)
{
    (void)flags;
    return make(stream);
}
static int event_record(void *event, void *stream)
{
    (void)event, (void)stream;
    event_ready = false;
    return call();
}
static int event_query(void *event)
{
    (void)event;
    int failed = call();
    if (failed || event_ready)
        return failed;
    event_ready = true;
    fake.waits++;
    return LAC__CU_NOT_READY;
}

/* ---- kernels and graphs ---- */

static int run(const function *f, const unsigned *grid, const unsigned *block, unsigned shared,
               const void *args)
{
    lac_emu_launch l = {.kernel = f->name, .shared = shared, .seed = fake.seed++};
    memcpy(l.grid, grid, sizeof l.grid);
    memcpy(l.block, block, sizeof l.block);
    return lac_emu_run(&l, args, fake.error) ? 0 : FAILED;
}
static int launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    (void)stream, (void)extra;
    int failed = call();
    fake.launches++;
    return failed ? failed
                  : run(f, (unsigned[3]){gx, gy, gz}, (unsigned[3]){bx, by, bz}, shared, params[0]);
}
static int graph_create(void **out, unsigned flags)
{
    (void)flags;
    int failed = call();
    if (failed)
        return failed;
    graph *g = calloc(1, sizeof *g);
    g->nodes = calloc(NODES_MAX, sizeof *g->nodes);
    fake.alive++;
    *out = g;
    return 0;
}
static int graph_add(void **out, void *to, void *const *after, size_t count,
                     const lac__cu_node *params)
{
    graph *g = to;
    int failed = call();
    if (failed || g->count == NODES_MAX)
        return FAILED;
    if (count != (g->count > 0) || (count && *after != &g->nodes[g->count - 1]))
        return FAILED; /* one after the other, here */
    const function *f = params->function;
    node *n = &g->nodes[g->count++];
    *n = (node){.f = f, .shared = params->shared, .on = true};
    memcpy(n->grid, params->grid, sizeof n->grid);
    memcpy(n->block, params->block, sizeof n->block);
    n->args = malloc(lac_emu_args_bytes(f->name));
    memcpy(n->args, params->params[0], lac_emu_args_bytes(f->name));
    *out = n;
    return 0;
}
/* The graph is its own executable form. */
static int graph_instantiate(void **exec, void *g, unsigned long long flags)
{
    (void)flags;
    int failed = call();
    if (!failed)
        fake.alive++, *exec = g;
    return failed;
}
static int graph_enable(void *exec, void *n, unsigned enabled)
{
    (void)exec;
    int failed = call();
    if (!failed)
        ((node *)n)->on = enabled;
    return failed;
}
static int graph_launch(void *exec, void *stream)
{
    (void)stream;
    graph *g = exec;
    int failed = call();
    fake.graphs++;
    for (uint32_t i = 0; i < g->count && !failed; i++) {
        const node *n = &g->nodes[i];
        if (!n->on)
            continue;
        fake.nodes++;
        failed = run(n->f, n->grid, n->block, n->shared, n->args);
    }
    return failed;
}
static int graph_destroy(void *p)
{
    graph *g = p;
    for (uint32_t i = 0; i < g->count; i++)
        free(g->nodes[i].args);
    free(g->nodes);
    return unmake(g);
}
static int exec_destroy(void *exec)
{
    (void)exec;
    fake.alive--;
    return 0;
}
static int error_name(int result, const char **name)
{
    *name = result == FAILED ? "FAKE_FAILURE" : result == 2 ? "OUT_OF_MEMORY" : "OTHER";
    return 0;
}

void fake_driver_use(void)
{
    static const lac__cu driver = {
        .init = init,
        .device_count = device_count,
        .device_get = device_get,
        .device_name = device_name,
        .device_attribute = device_attribute,
        .context_retain = context_retain,
        .context_release = context_release,
        .context_set = one,
        .module_load = module_load,
        .module_unload = unmake,
        .function_get = function_get,
        .function_set = function_set,
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .host_alloc = host_alloc,
        .host_free = unmake,
        .to_device = to_device,
        .to_host = to_host,
        .fill = fill,
        .stream_create = stream_create,
        .stream_destroy = unmake,
        .event_create = stream_create,
        .event_record = event_record,
        .event_query = event_query,
        .event_destroy = unmake,
        .launch = launch,
        .graph_create = graph_create,
        .graph_add = graph_add,
        .graph_instantiate = graph_instantiate,
        .graph_enable = graph_enable,
        .graph_launch = graph_launch,
        .graph_destroy = graph_destroy,
        .exec_destroy = exec_destroy,
        .error_name = error_name,
    };
    static const void *const images[] = {&driver, NULL};
    static const lac__cu_library library = {&driver, images};
    memset(&fake, 0, sizeof fake);
    lac__cu_replace(&library);
}
