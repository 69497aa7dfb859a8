/* What a launcher writes down of a process so that a later start of the coordinator finds it again
 * and mistakes no other for it: process id, its start time, and the boot it lived in. Any thread.
 */
#ifndef LAC_LAUNCH_RECORD_H
#define LAC_LAUNCH_RECORD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/fleet.h"
#include "base/status.h"

typedef struct {
    lac_fleet_group group;
    uint32_t rank;
    pid_t pid;
    uint64_t started; /* clock ticks after boot, /proc/PID/stat field 22 */
} lac__record;

/* Start time of a living process; false when there is none (a zombie counts as gone). */
bool lac__process_started(pid_t pid, uint64_t *out);
/* True while the very process of the record lives. */
bool lac__record_alive(const lac__record *record);

/* Writes DIR/INCARNATION.group, of another rank than the first DIR/INCARNATION-RANK.group, whole or
 * not at all. */
lac_status lac__record_write(const char *dir, const lac__record *record, lac_error *err);
void lac__record_remove(const char *dir, const lac__record *record);
/* Calls `each` for every readable record of this boot, and removes the rest. */
lac_status lac__record_scan(const char *dir, void (*each)(void *arg, const lac__record *record),
                            void *arg, lac_error *err);

#endif
