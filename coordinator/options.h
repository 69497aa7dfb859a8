/* The coordinator's options: one struct, filled from one table (base/config.h). */
#ifndef LAC_COORDINATOR_OPTIONS_H
#define LAC_COORDINATOR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/class.h"
#include "base/config.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "core/models.h"

typedef struct {
    char http[LAC_ENDPOINT_MAX + 1];
    char client_plane[LAC_ENDPOINT_MAX + 1];
    char worker_plane[LAC_ENDPOINT_MAX + 1];
    char state_dir[LAC_ENDPOINT_MAX + 1];
    int64_t queue, queue_tokens;
    char policy[32];
    char tier[16];
    double shadow_share;
    bool allow_force;
    char launch[16];
    char launch_worker[4096], launch_model[4096], launch_arguments[4096];
    char groups[24], group_shape[16];
    int64_t groups_max, launch_cores;
    double wait_target_ms;
    bool launch_keep;
    char log_level[16];
    bool log_json;
    int64_t log_rate;
    char key[4096], allow[4096], api_keys[4096], tenants[4096];
    char tls_cert[4096], tls_key[4096];
    char default_model[LAC_MODEL_NAME_MAX + 1], model_alias[4096], route[4096];
    int64_t brownout_wait_ms;
    char cors_origins[1024];
    bool insecure_wide;
    char jobs[16];
    int64_t jobs_bytes, jobs_days;
    double batch_share;

    /* Made of the above. */
    bool http_on, jobs_on;
    char http_host[LAC_ENDPOINT_MAX + 1];
    uint16_t http_port;
    uint32_t groups_start_min, groups_start_max;
    uint32_t group_pp, group_tp;
    lac_log_level level;
    lac_tier tier_max;
    lac_model_names model_names;
} lac__options;

/* What the program is to do: run, or print something and end. */
typedef enum { LAC__RUN, LAC__HELP, LAC__VERSION, LAC__SAMPLE } lac__task;

/* Reads table, file, environment and argv and checks what the table cannot. */
lac_status lac__options_load(int argc, char **argv, lac__options *out, lac__task *task,
                             lac_error *err);
/* Prints what HELP, VERSION and SAMPLE ask for. */
void lac__options_print(lac__task task);

#endif
