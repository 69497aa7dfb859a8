/* One kind of launcher behind launch/launch.h. */
#ifndef LAC_LAUNCH_LAUNCHER_H
#define LAC_LAUNCH_LAUNCHER_H

#include "launch/launch.h"

typedef struct {
    const char *kind;
    lac_status (*create)(uv_loop_t *loop, const lac_launch_options *options, void **out,
                         lac_error *err);
    void (*ensure)(void *launcher, const lac_fleet_group *wanted, size_t count);
    size_t (*list)(void *launcher, lac_fleet_entry *out, size_t max);
    void (*destroy)(void *launcher);
} lac__launcher;

extern const lac__launcher lac__launcher_local;

#endif
