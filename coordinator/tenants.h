/* The file of tenants (--tenants): an INI file, one section a tenant. Read at start and on SIGHUP.
 * Loop thread. */
#ifndef LAC_COORDINATOR_TENANTS_H
#define LAC_COORDINATOR_TENANTS_H

#include "base/status.h"
#include "core/core.h"
#include "sight/recorder.h"

/* Reads `path` and gives its rules to the core, and to its recorder; on an error those before stay.
 */
lac_status lac__tenants_read(const char *path, lac_core *core, lac_recorder *recorder,
                             uint64_t now_ms, lac_error *err);

#endif
