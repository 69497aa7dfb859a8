/* The log files that started processes write into: opening, rotation, the last line. Any thread. */
#ifndef LAC_LAUNCH_LOG_FILE_H
#define LAC_LAUNCH_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>

/* For appending, made when it is not there; −1 and errno. */
int lac__log_open(const char *path);
/* Beyond `limit` bytes moves the content to PATH.1 (and that to PATH.2 …, LAC__LOG_KEPT files in
 * all) and empties the file in place: its writer keeps its descriptor, which appends. */
enum { LAC__LOG_KEPT = 3 };
void lac__log_rotate(const char *path, uint64_t limit);
/* The last line that holds anything, cut to what fits; "" when there is none. Bytes that are no
 * text become '?'. */
void lac__log_last_line(const char *path, char *out, size_t size);

#endif
