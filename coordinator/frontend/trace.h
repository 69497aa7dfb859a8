/* W3C Trace Context (level 1): the header traceparent, checked, and continued. Pure. */
#ifndef LAC__FRONTEND_TRACE_H
#define LAC__FRONTEND_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* "00-TRACE-PARENT-FLAGS" of a header's value; false when that is malformed, which the standard
 * says to ignore. Later versions are read as far as this one goes. */
bool lac__trace_read(const char *value, char out[LAC_TRACE_MAX + 1]);
/* The same trace with a parent of our own. */
void lac__trace_child(const char *trace, uint64_t parent, char out[LAC_TRACE_MAX + 1]);

#endif
