/* What names this start of this machine. Any thread. */
#ifndef LAC_BASE_HOST_H
#define LAC_BASE_HOST_H

#include <stdbool.h>

enum { LAC_BOOT_ID = 36 }; /* characters */

/* The kernel's boot id. Processes with the same one share memory; host names repeat, this does not.
 * False when it cannot be read. */
bool lac_boot_id(char out[LAC_BOOT_ID + 1]);

#endif
