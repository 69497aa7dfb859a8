/* Keys of the planes. Every process has a pair of CURVE keys in a file; a listening one also has
 * the list of the public keys it lets in and what each may do. Without keys a plane stays on this
 * machine.
 *
 * A key file is two lines, "public KEY" and "secret KEY" (Z85, 40 characters), readable by its
 * owner alone; beside it PATH.pub holds the public line for others. An allow file has a line a key:
 * "ROLE NAME KEY", ROLE being worker, client or admin (a client that may also give orders) and NAME
 * the group a worker may be, or "*"; lines that begin with '#' are comments. */
#ifndef LAC_WIRE_KEYS_H
#define LAC_WIRE_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

enum { LAC_KEY_TEXT = 40, LAC_KEY_BYTES = 32 };

typedef struct {
    char public_key[LAC_KEY_TEXT + 1], secret_key[LAC_KEY_TEXT + 1];
} lac_key;

typedef enum { LAC_ROLE_NONE, LAC_ROLE_WORKER, LAC_ROLE_CLIENT, LAC_ROLE_ADMIN } lac_role;

typedef struct {
    unsigned char key[LAC_KEY_BYTES];
    lac_role role;
    char name[LAC_NAME_MAX + 1];
} lac_allowed;

/* Makes a pair and writes PATH (mode 0600) and PATH.pub; never over a file that is there
 * (LAC_EEXIST). */
lac_status lac_key_make(const char *path, lac_error *err);
/* LAC_EREFUSED when others than its owner may read the file. The caller wipes *out after use. */
lac_status lac_key_load(const char *path, lac_key *out, lac_error *err);
/* The public line of a key file or of its .pub. */
lac_status lac_key_load_public(const char *path, char out[LAC_KEY_TEXT + 1], lac_error *err);
/* At most LAC_ALLOWED_MAX entries, at least one; *out is malloc'd. A key twice is an error. */
lac_status lac_allow_load(const char *path, lac_allowed **out, size_t *count, lac_error *err);
/* "worker", "client", "admin"; NONE gives "". */
const char *lac_role_name(lac_role role);

#endif
