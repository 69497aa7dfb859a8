/* Where recordings of the core go. Owns their names; what is in them is sight's. Loop thread. */
#include "flight.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"

enum { KEPT = 8 }; /* recordings that were asked for */

lac_recorder *lac__flight_start(const char *state_dir, const lac_core *core,
                                const lac_core_options *options)
{
    char path[LAC_ENDPOINT_MAX + 64];
    lac_buf guards = {0};
    lac_core_guards_save(core, &guards);
    lac_recorder *recorder = lac_recorder_create(options, guards.data);
    lac_buf_free(&guards);
    snprintf(path, sizeof path, "%s/flight.crash", state_dir);
    lac_recorder_on_crash(recorder, path);
    return recorder;
}

void lac__flight_write(const lac_recorder *recorder, const char *state_dir)
{
    static unsigned number;
    lac_error err = {0};
    char path[LAC_ENDPOINT_MAX + 64];
    snprintf(path, sizeof path, "%s/flight-%u.dump", state_dir, number++ % KEPT);
    if (lac_recorder_dump(recorder, path, &err) == LAC_OK)
        lac_info("flight recording written to %s", path);
    else
        lac_warn("no flight recording: %s", err.text);
}
