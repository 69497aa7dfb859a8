/* The kinds of launchers by name, and the checks that all of them share. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher.h"

struct lac_launch {
    const lac__launcher *kind;
    void *launcher;
};

static const lac__launcher *const kinds[] = {&lac__launcher_local};

static const lac__launcher *find(const char *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->kind, kind))
            return kinds[i];
    return NULL;
}

lac_status lac_launch_create(uv_loop_t *loop, const lac_launch_options *given, lac_launch **out,
                             lac_error *err)
{
    lac_launch_options options = *given;
    const lac__launcher *kind = find(options.kind);
    if (!kind)
        return lac_fail(err, LAC_EUNSUPPORTED, "launch is \"%s\", allowed: local", options.kind);
    if (options.groups_max < 1 || options.groups_max > LAC_GROUPS_MAX)
        return lac_fail(err, LAC_EINVAL, "groups-max is %u, allowed 1..%d", options.groups_max,
                        LAC_GROUPS_MAX);
    if (options.arguments_count > LAC_LAUNCH_ARGUMENTS_MAX)
        return lac_fail(err, LAC_ETOOBIG, "launch-arguments has %zu words, allowed %d",
                        options.arguments_count, LAC_LAUNCH_ARGUMENTS_MAX);
    options.pp = options.pp ? options.pp : 1;
    options.tp = options.tp ? options.tp : 1;
    uint64_t ranks = (uint64_t)options.pp * options.tp;
    if (ranks > LAC_RANKS_MAX)
        return lac_fail(err, LAC_EINVAL, "group-shape is %ux%u, allowed: at most %d ranks",
                        options.pp, options.tp, LAC_RANKS_MAX);
    if (options.groups_max * ranks > LAC_LAUNCH_PROCESSES_MAX)
        return lac_fail(err, LAC_EINVAL, "groups-max × group-shape is %llu ranks, allowed %d",
                        (unsigned long long)(options.groups_max * ranks), LAC_LAUNCH_PROCESSES_MAX);
    if (!options.grace_ms)
        options.grace_ms = LAC_DRAIN_MS + 10000;
    if (!options.log_bytes)
        options.log_bytes = 16 << 20;
    void *launcher = NULL;
    lac_status status = kind->create(loop, &options, &launcher, err);
    if (status != LAC_OK)
        return status;
    lac_launch *launch = lac_alloc(1, sizeof *launch);
    launch->kind = kind;
    launch->launcher = launcher;
    *out = launch;
    return LAC_OK;
}

void lac_launch_ensure(lac_launch *launch, const lac_fleet_group *wanted, size_t count)
{
    launch->kind->ensure(launch->launcher, wanted, count);
}

size_t lac_launch_list(lac_launch *launch, lac_fleet_entry *out, size_t max)
{
    return launch->kind->list(launch->launcher, out, max);
}

void lac_launch_destroy(lac_launch **launch)
{
    if (!*launch)
        return;
    (*launch)->kind->destroy((*launch)->launcher);
    free(*launch);
    *launch = NULL;
}
