/* An answer's text divided into parts: what was thought, what is said, which functions are called.
 * Whoever asks with `parts` in its prompt gets one stream of UTF-8 in which the byte LAC_PARTS_MARK
 * stands before a letter that says what follows, or before itself where it is text. So the text may
 * be cut and joined anywhere on its way. The worker writes it, the front end reads it. Pure. */
#ifndef LAC_BASE_PARTS_H
#define LAC_BASE_PARTS_H

#include "base/limits.h"
#include "base/mem.h"

enum { LAC_PARTS_MARK = 0x10 };

typedef enum {
    LAC_PART_CONTENT = 'c', /* where a stream begins */
    LAC_PART_REASONING = 'r',
    LAC_PART_CALL = 'n',     /* a call begins: the text is the function's name */
    LAC_PART_ARGUMENTS = 'a' /* of the call that began last: a piece of a JSON object's text */
} lac_part;

typedef struct {
    lac_part kind; /* zero: nothing was written yet */
} lac_parts_writer;

/* Appends text of a kind other than CALL. No-op without text. */
void lac_parts_put(lac_parts_writer *writer, lac_part kind, const char *text, size_t length,
                   lac_buf *out);
/* Begins a call; its arguments follow. The name is 1 … LAC_NAME_MAX bytes. */
void lac_parts_call(lac_parts_writer *writer, const char *name, size_t length, lac_buf *out);

typedef struct {
    lac_part kind; /* zero: nothing was read yet */
    bool marked;   /* the byte before was a mark */
    uint32_t name_length;
    char name[LAC_NAME_MAX + 1];
} lac_parts_reader;

/* Takes text, cut anywhere. `sink` gets every piece of a part, a call's name always whole; what
 * follows a mark and is no kind is taken for content. */
typedef void (*lac_parts_sink)(void *arg, lac_part kind, const char *text, size_t length);
void lac_parts_read(lac_parts_reader *reader, const char *text, size_t length, lac_parts_sink sink,
                    void *arg);

#endif
