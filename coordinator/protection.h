/* What stands open, and what protects it: said at start. */
#ifndef LAC_COORDINATOR_PROTECTION_H
#define LAC_COORDINATOR_PROTECTION_H

#include "options.h"

/* One line a bound port, to standard output; addresses as they are in use, `http` NULL when off. */
void lac__protection_print(const lac__options *options, const char *http, const char *clients,
                           const char *workers);

#endif
