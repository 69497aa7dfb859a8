/* /v1/files: what batches read and write. Loop thread. */
#ifndef LAC__FRONTEND_FILES_H
#define LAC__FRONTEND_FILES_H

#include "parts.h"

void lac__files_upload(lac__conn *conn);
void lac__files_list(lac__conn *conn);
void lac__files_show(lac__conn *conn); /* the object, or with …/content its bytes */
void lac__files_delete(lac__conn *conn);

/* Names of files and jobs: a number under a prefix. False: it is no such name. */
enum { LAC__FILE_ID_MAX = 32 };
typedef enum {
    LAC__FILE_NONE,
    LAC__FILE_UPLOAD,
    LAC__FILE_OUTPUT,
    LAC__FILE_ERRORS
} lac__file_kind;
lac__file_kind lac__file_id(const char *text, uint64_t *id);
void lac__file_name(lac__file_kind kind, uint64_t id, char out[LAC__FILE_ID_MAX + 1]);
/* `text` is sixteen lower-case hex digits. */
bool lac__id_parse(const char *text, uint64_t *id);

#endif
