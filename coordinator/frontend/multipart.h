/* multipart/form-data (RFC 7578), as HTTP clients upload files. Pure, any thread. */
#ifndef LAC__FRONTEND_MULTIPART_H
#define LAC__FRONTEND_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "errors.h"

enum { LAC__PARTS_MAX = 16, LAC__PART_NAME_MAX = 64, LAC__FILE_NAME_MAX = 255 };

typedef struct {
    char name[LAC__PART_NAME_MAX + 1];
    char file[LAC__FILE_NAME_MAX + 1]; /* "" when it is no file */
    const char *data;                  /* inside the body */
    size_t length;
} lac__part;

/* Takes a body apart; false with `problem` naming what is wrong. */
bool lac__multipart_parse(const char *content_type, const char *body, size_t length,
                          lac__part parts[LAC__PARTS_MAX], size_t *count, lac__problem *problem);
/* NULL when there is none of that name. */
const lac__part *lac__multipart_find(const lac__part *parts, size_t count, const char *name);

#endif
