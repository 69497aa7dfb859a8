/* Groups that are started for the coordinator: what its core wants and what a launcher sees. The
 * plain structs between coordinator/core, which decides, and cluster/launch, which obeys. */
#ifndef LAC_BASE_FLEET_H
#define LAC_BASE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* One start of one group. The incarnation is drawn by who wants it and is never used twice: it is
 * how a launcher recognises its own after a restart, and what makes every order repeatable. */
typedef struct {
    char group[LAC_NAME_MAX + 1];
    uint8_t incarnation[16];
} lac_fleet_group;

typedef enum {
    LAC_FLEET_UNKNOWN, /* the launcher could not find out: neither there nor gone */
    LAC_FLEET_RUNNING, /* its processes are there; whether they serve is for them to say */
    LAC_FLEET_STOPPING,
    LAC_FLEET_ENDED, /* it was there and is gone, or could not be started: `reason` */
    LAC_FLEET_STATES
} lac_fleet_state;

typedef struct {
    lac_fleet_group group;
    lac_fleet_state state;
    int64_t pid; /* of its first process on this host; 0 = not known */
    char reason[LAC_REASON_MAX + 1];
} lac_fleet_entry;

#endif
