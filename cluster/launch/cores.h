/* Which cores of this host a launched rank gets. One thread. */
#ifndef LAC_LAUNCH_CORES_H
#define LAC_LAUNCH_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int allowed[CPU_SETSIZE]; /* that this process may use */
    uint32_t allowed_count;
    uint32_t groups, ranks; /* places for groups; ranks of each */
    uint32_t per_group;     /* 0: all, shared by the groups */
} lac__cores;

/* Reads the affinity of this process. */
void lac__cores_read(lac__cores *cores, uint32_t groups, uint32_t ranks, uint32_t per_group);
/* Cores of the rank of the group at that place. Groups have their own while there are enough for
 * all of them; the ranks of a group share the group's in the same way. */
void lac__cores_of(const lac__cores *cores, uint32_t place, uint32_t rank, cpu_set_t *out);
/* Engine threads a rank should have; 0: as many as it may use. */
uint32_t lac__cores_threads(const lac__cores *cores);

#endif
