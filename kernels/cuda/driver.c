/* Loading of the CUDA driver: the only place that knows the library's and its functions' names. */
#include "driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* Made by the build from the .cu files when nvcc is there. */
#if defined(LAC__CUDA_IMAGES)
extern const void *const lac__cuda_images[];
#endif

static const char *const library_names[] = {"libcuda.so.1", "libcuda.so"};

/* In the order of the table. */
static const char *const names[] = {"cuInit",
                                    "cuDeviceGetCount",
                                    "cuDeviceGet",
                                    "cuDeviceGetName",
                                    "cuDeviceGetAttribute",
                                    "cuDevicePrimaryCtxRetain",
                                    "cuDevicePrimaryCtxRelease_v2",
                                    "cuCtxSetCurrent",
                                    "cuModuleLoadData",
                                    "cuModuleUnload",
                                    "cuModuleGetFunction",
                                    "cuFuncSetAttribute",
                                    "cuMemAlloc_v2",
                                    "cuMemFree_v2",
                                    "cuMemHostAlloc",
                                    "cuMemFreeHost",
                                    "cuMemcpyHtoDAsync_v2",
                                    "cuMemcpyDtoHAsync_v2",
                                    "cuMemsetD8Async",
                                    "cuStreamCreate",
                                    "cuStreamDestroy_v2",
                                    "cuEventCreate",
                                    "cuEventRecord",
                                    "cuEventQuery",
                                    "cuEventDestroy_v2",
                                    "cuLaunchKernel",
                                    "cuGraphCreate",
                                    "cuGraphAddKernelNode",
                                    "cuGraphInstantiateWithFlags",
                                    "cuGraphNodeSetEnabled",
                                    "cuGraphLaunch",
                                    "cuGraphDestroy",
                                    "cuGraphExecDestroy",
                                    "cuGetErrorName"};
enum { NAMES = sizeof names / sizeof *names };
_Static_assert(NAMES * sizeof(void *) == sizeof(lac__cu), "one name for each function");

static const lac__cu_library *replaced;

void lac__cu_replace(const lac__cu_library *library)
{
    replaced = library;
}

lac_status lac__cu_load(lac__cu_library *out, lac_error *err)
{
    static lac__cu driver;
    if (replaced) {
        *out = *replaced;
        return LAC_OK;
    }
#if !defined(LAC__CUDA_IMAGES)
    return lac_fail(err, LAC_EUNSUPPORTED,
                    "cuda: this build has no GPU kernels; build with the cuda preset and nvcc");
#else
    out->images = lac__cuda_images;
#endif
    void *library = NULL;
    for (size_t i = 0; i < sizeof library_names / sizeof *library_names && !library; i++)
        library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "cuda: the driver's library %s cannot be loaded: is an NVIDIA driver "
                        "installed?",
                        library_names[0]);
    for (size_t i = 0; i < NAMES; i++) {
        void *function = dlsym(library, names[i]);
        if (!function) {
            dlclose(library);
            return lac_fail(err, LAC_EUNSUPPORTED,
                            "cuda: %s has no %s; a driver for CUDA 12 or later is needed",
                            library_names[0], names[i]);
        }
        memcpy((char *)&driver + i * sizeof function, &function, sizeof function);
    }
    out->driver = &driver; /* the library stays: a backend may live until the process ends */
    return LAC_OK;
}

lac_status lac__cu_check(const lac__cu *cu, int result, const char *doing, lac_error *err)
{
    if (result == 0)
        return LAC_OK;
    const char *name = NULL;
    if (cu->error_name(result, &name) != 0 || !name)
        name = "an unknown error";
    bool memory = result == 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    return lac_fail(err, memory ? LAC_ENOMEM : LAC_EINTERNAL, "cuda: %s: %s (%d)", doing, name,
                    result);
}
