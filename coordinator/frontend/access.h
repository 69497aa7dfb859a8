/* Who may use the API: keys that are kept as their SHA-256 alone. Loop thread. */
#ifndef LAC__FRONTEND_ACCESS_H
#define LAC__FRONTEND_ACCESS_H

#include "base/status.h"

typedef struct lac__access lac__access;

/* Reads lines of "NAME HASH", the hash 64 hex digits; '#' begins a comment line. At least one, at
 * most LAC_ALLOWED_MAX; a name or hash twice is an error. */
lac_status lac__access_load(const char *path, lac__access **out, lac_error *err);
void lac__access_free(lac__access **access);
/* Whose key it is; NULL for one that is not known. The time it takes does not tell how much of a
 * key was right, nor which. */
const char *lac__access_name(const lac__access *access, const char *key);

#endif
