/* Starting and stopping groups of workers. Level-triggered: the caller says again and again which
 * groups should be there, and a launcher makes it so. Saying the same twice changes nothing; what
 * was said before a crash is recognised after it, by incarnation. A launcher decides nothing: how
 * many groups, when, and what their ends mean is the coordinator's business.
 *
 * One thread, the loop's. */
#ifndef LAC_LAUNCH_H
#define LAC_LAUNCH_H

#include <stddef.h>
#include <uv.h>

#include "base/fleet.h"
#include "base/status.h"

typedef struct lac_launch lac_launch;

enum { LAC_LAUNCH_ARGUMENTS_MAX = 64, LAC_LAUNCH_PROCESSES_MAX = 1024 };

/* Strings are copied. */
typedef struct {
    const char *kind;        /* "local" */
    const char *worker;      /* the program of one rank */
    const char *coordinator; /* its worker plane */
    const char *state_dir;   /* records that outlive this process, and logs */
    /* More arguments for every rank ("--model", FILE, …), at most LAC_LAUNCH_ARGUMENTS_MAX. */
    const char *const *arguments;
    size_t arguments_count;
    uint32_t groups_max; /* that may be there at once; their ranks share this host's memory */
    uint32_t pp, tp;     /* ranks of a group: pipeline stages × ranks of a stage; 0 = 1 */
    uint32_t cores;      /* of each group, disjoint while there are enough; 0 = all, shared. The
                            ranks of a group have disjoint ones of these, while there are enough */
    uint32_t grace_ms;   /* between asking a group to end and killing it; 0 = LAC_DRAIN_MS + 10 s */
    uint64_t log_bytes;  /* a log is rotated beyond this; 0 = 16 MiB */
} lac_launch_options;

/* LAC_EUNSUPPORTED for an unknown kind; LAC_EINVAL, LAC_EIO name the field. Groups of an earlier
 * process that still run are taken over. */
lac_status lac_launch_create(uv_loop_t *loop, const lac_launch_options *options, lac_launch **out,
                             lac_error *err);
/* `wanted`: every group that should be there. Starts what is missing and was never started, asks
 * what is there and not wanted to end, kills it when its grace is over, and forgets ENDED groups
 * that are no longer wanted. A group of which one rank has ended is over: the others are asked to
 * end, and killed soon. Never blocks. */
void lac_launch_ensure(lac_launch *launch, const lac_fleet_group *wanted, size_t count);
/* What there is now; at most `max` entries. Returns how many. */
size_t lac_launch_list(lac_launch *launch, lac_fleet_entry *out, size_t max);
/* Lets go of the groups: they go on, and the next lac_launch_create with this state_dir finds them.
 * To stop them, want nothing and run the loop until the list is empty. Handles close on the loop.
 */
void lac_launch_destroy(lac_launch **launch);

#endif
