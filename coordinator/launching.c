/* Options → launcher, and the two directions between it and the core. */
#include "launching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launch/launch.h"

enum { PATH_BYTES = 4096, WORDS_BYTES = 8192 };

struct lac__launching {
    lac_launch *launch;
    lac_fleet_entry seen[LAC_GROUPS_MAX];
    lac_fleet_group wanted[LAC_GROUPS_MAX];
};

/* The worker that was installed beside this program. */
static void worker_default(char out[PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", out, PATH_BYTES - sizeof "/lacuna-worker");
    out[length > 0 ? length : 0] = 0;
    char *slash = strrchr(out, '/');
    snprintf(slash ? slash : out, sizeof "/lacuna-worker", "/lacuna-worker");
}

/* "--slots 8 --isa avx2" → words; no quotes: what needs them is an option of its own. */
static lac_status split(char *text, const char **words, size_t *count, lac_error *err)
{
    char *rest = NULL;
    for (char *w = strtok_r(text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest)) {
        if (*count == LAC_LAUNCH_ARGUMENTS_MAX)
            return lac_fail(err, LAC_ETOOBIG, "launch-arguments has more than %d words",
                            LAC_LAUNCH_ARGUMENTS_MAX);
        words[(*count)++] = w;
    }
    return LAC_OK;
}

lac_status lac__launching_create(uv_loop_t *loop, const lac__options *options,
                                 const char *worker_plane, lac__launching **out, lac_error *err)
{
    char worker[PATH_BYTES], text[WORDS_BYTES];
    const char *words[LAC_LAUNCH_ARGUMENTS_MAX];
    size_t count = 0;
    *out = NULL;
    if (!strcmp(options->launch, "none"))
        return LAC_OK;
    worker_default(worker);
    words[count++] = "--model";
    words[count++] = options->launch_model;
    snprintf(text, sizeof text, "%s", options->launch_arguments);
    lac_status status = split(text, words, &count, err);
    if (status != LAC_OK)
        return status;
    lac_launch_options launch = {
        .kind = options->launch,
        .worker = *options->launch_worker ? options->launch_worker : worker,
        .coordinator = worker_plane,
        .state_dir = options->state_dir,
        .arguments = words,
        .arguments_count = count,
        .groups_max = (uint32_t)options->groups_max,
        .pp = options->group_pp,
        .tp = options->group_tp,
        .cores = (uint32_t)options->launch_cores,
    };
    lac__launching *l = lac_alloc(1, sizeof *l);
    status = lac_launch_create(loop, &launch, &l->launch, err);
    if (status != LAC_OK) {
        free(l);
        return status;
    }
    *out = l;
    return LAC_OK;
}

void lac__launching_look(lac__launching *l, lac_event *event)
{
    *event = (lac_event){.kind = LAC_EVENT_FLEET, .fleet = l->seen};
    event->fleet_count = lac_launch_list(l->launch, l->seen, LAC_GROUPS_MAX);
}

void lac__launching_obey(lac__launching *l, const lac_core *core)
{
    lac_launch_ensure(l->launch, l->wanted, lac_core_fleet_wanted(core, l->wanted, LAC_GROUPS_MAX));
}

bool lac__launching_stop(lac__launching *l)
{
    lac_launch_ensure(l->launch, NULL, 0);
    return lac_launch_list(l->launch, l->seen, LAC_GROUPS_MAX) == 0;
}

void lac__launching_destroy(lac__launching **launching)
{
    if (!*launching)
        return;
    lac_launch_destroy(&(*launching)->launch);
    free(*launching);
    *launching = NULL;
}
