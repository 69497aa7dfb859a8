/* The coordinator's start count: a number on disk that grows with each start, before the first
 * bind. */
#ifndef LAC_COORDINATOR_EPOCH_H
#define LAC_COORDINATOR_EPOCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Makes the directory (0700) and its parents if needed, counts DIR/epoch up by one under a lock,
 * and returns the new number once it is on disk. Several coordinators may share the directory: each
 * gets its own number. LAC_EIO, or LAC_ECORRUPT when the file holds no number. */
lac_status lac__epoch_next(const char *dir, uint64_t *out, lac_error *err);

/* The directory used without --state-dir, into `dir`. */
void lac__state_dir_default(char *dir, size_t size);

#endif
