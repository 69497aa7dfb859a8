/* The growing file of a fetch: opened for one process, hashed as it grows, with a note of what it
 * is the beginning of. Main thread. Knows no network. */
#ifndef LAC_TOOLS_FETCH_PART_H
#define LAC_TOOLS_FETCH_PART_H

#include "fetch.h"

typedef struct {
    const char *path;
    int fd;
    uint64_t bytes;
    lac_hasher *hasher; /* over those bytes */
    /* What they are of: the server's own name for that state of the file, "" = it gave none. */
    char validator[LAC_FETCH_VALIDATOR_MAX + 1];
} lac__part;

/* Opens or creates the file and locks it; bytes in it that are not worth keeping (other URL, no
 * validator unless `checked_later`) are cut away, the others hashed. LAC_BUSY, LAC_EIO. */
lac_status lac__part_open(lac__part *part, const char *path, const char *url, bool checked_later,
                          lac_error *err);
void lac__part_close(lac__part *part);

/* Begins anew with the bytes of another state. */
lac_status lac__part_restart(lac__part *part, const char *url, const char *validator,
                             lac_error *err);
/* A full disk is LAC_EIO and says how much was missing of `total` (0 = unknown). */
lac_status lac__part_add(lac__part *part, const void *bytes, size_t length, uint64_t total,
                         lac_error *err);
/* Flushes to disk and gives the digest; the part is not added to afterwards. */
lac_status lac__part_finish(lac__part *part, lac_digest *out, lac_error *err);

#endif
