/* Fetching one URL into a file that grows: whoever is cut off goes on where it stopped. libcurl
 * stays behind this header. Main thread. Knows nothing of models. */
#ifndef LAC_TOOLS_FETCH_H
#define LAC_TOOLS_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/status.h"

enum {
    LAC_FETCH_REDIRECTS_MAX = 8,
    LAC_FETCH_TRIES_MAX = 5,    /* in a row that brought no byte */
    LAC_FETCH_ANSWERS_MAX = 64, /* of one fetch, with progress or not */
    LAC_FETCH_CONNECT_S = 20,
    LAC_FETCH_SILENCE_S = 30, /* without a byte: the connection counts as lost */
    LAC_FETCH_VALIDATOR_MAX = 256
};

typedef struct {
    const char *url;    /* http, https or file */
    const char *path;   /* the file that grows; beside it path + ".from" remembers of what */
    uint64_t bytes_max; /* a longer answer is LAC_ETOOBIG */
    /* The caller knows the checksum: bytes without a validator of the server may be gone on with.
     */
    bool checked_later;
    /* Or NULL: bytes in the file and in all (0 = the server does not say). */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void (*note)(void *arg, const char *text); /* or NULL: one line on what happened */
    void *arg;
} lac_fetch;

typedef struct {
    uint64_t bytes, resumed; /* in all; of those, found in the file at start */
    lac_digest sha256;       /* of the whole file */
} lac_fetched;

/* Fetches and flushes to disk. Bytes of an earlier call are kept iff the server says that they are
 * still those (a strong ETag, or Last-Modified, through If-Range). On failure the file stays for
 * the next call. LAC_BUSY: another process fetches the same; LAC_EPEER: the server or the network
 * gave up; LAC_ENOTFOUND: 404, 410; LAC_EREFUSED: 401, 403; LAC_EIO: the disk. */
lac_status lac_fetch_file(const lac_fetch *fetch, lac_fetched *out, lac_error *err);

/* Removes the growing file and what remembers it. */
void lac_fetch_forget(const char *path);
/* Removes only what remembers it: the file is whole. */
void lac_fetch_settle(const char *path);

#endif
