/* Runs the suites of the kernels on a real device: the same tests as on the emulator, with the same
 * tolerances. Exit 0, 1, or 77 where there is no device. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>

#include "../cuda_suites.h"
#include "driver.h"
#include "../emulate.h"
#include "device.h"

enum { FUNCTIONS_MAX = 128 };

static lac__cu_library library;
static void *modules[16], *stream, *event, *context;
static int (*managed)(lac__cu_address *p, size_t bytes, unsigned flags);

bool device_open(void)
{
    lac_error err = {0};
    int device, count = 0;
    if (lac__cu_load(&library, &err) != LAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    const lac__cu *cu = library.driver;
    void *real = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = real ? dlsym(real, "cuMemAllocManaged") : NULL;
    memcpy(&managed, &function, sizeof function);
    if (!managed || cu->init(0) != 0 || cu->device_count(&count) != 0 || count == 0 ||
        cu->device_get(&device, 0) != 0 || cu->context_retain(&context, device) != 0 ||
        cu->context_set(context) != 0 || cu->stream_create(&stream, 1) != 0 ||
        cu->event_create(&event, 0) != 0) {
        fprintf(stderr, "no device can be opened\n");
        return false;
    }
    for (int i = 0; library.images[i]; i++)
        if (cu->module_load(&modules[i], library.images[i]) != 0) {
            fprintf(stderr, "image %d cannot be loaded\n", i);
            return false;
        }
    return true;
}

void *device_room(size_t bytes)
{
    lac__cu_address p = 0;
    ck_assert_msg(managed(&p, bytes, 1) == 0, "no managed memory for %zu bytes", bytes);
    return (void *)(uintptr_t)p;
}

void device_room_free(void *p)
{
    (void)library.driver->mem_free((lac__cu_address)(uintptr_t)p);
}

/* As the emulator's, on the device. The order of threads is the device's. */
bool lac_emu_run(const lac_emu_launch *l, const void *args, char error[LAC_EMU_ERROR])
{
    const lac__cu *cu = library.driver;
    void *function = NULL, *params[] = {(void *)(uintptr_t)args};
    for (int i = 0; library.images[i] && !function; i++)
        if (cu->function_get(&function, modules[i], l->kernel) != 0)
            function = NULL;
    if (!function) {
        snprintf(error, LAC_EMU_ERROR, "there is no kernel %s", l->kernel);
        return false;
    }
    int result = l->shared > 40u << 10
                     ? cu->function_set(function, LAC__CU_FUNCTION_SHARED, (int)l->shared)
                     : 0;
    if (result == 0)
        result = cu->launch(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                            l->block[2], l->shared, stream, params, NULL);
    if (result == 0)
        result = cu->event_record(event, stream);
    while (result == 0 && (result = cu->event_query(event)) == LAC__CU_NOT_READY)
        result = 0;
    if (result != 0)
        snprintf(error, LAC_EMU_ERROR, "kernel %s: driver error %d", l->kernel, result);
    return result == 0;
}

int main(int argc, char **argv)
{
    /* A word chooses suites by name; compute-sanitizer gets the short ones. */
    const char *only = argc > 1 ? argv[1] : "";
    Suite *suites[] = {suite_gemv(), suite_gemm_cuda(), suite_rows_cuda(), suite_attention(),
                       suite_pick()};
    if (!device_open())
        return 77;
    for (size_t s = 0; s < sizeof suites / sizeof *suites; s++)
        for (int c = 0; c < suites[s]->count && (!*only || strstr(only, suites[s]->name)); c++)
            for (int t = 0; t < suites[s]->cases[c]->count; t++) {
                const TTest *test = &suites[s]->cases[c]->tests[t];
                for (int i = test->from; i < test->to; i++)
                    test->run(i);
                printf("ok %s: %s\n", suites[s]->name, test->name);
                fflush(stdout);
            }
    return 0;
}
