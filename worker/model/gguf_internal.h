/* The parsed container, shared by the files of this folder that read it. Nothing here leaves the
 * folder. */
#ifndef LAC_MODEL_GGUF_INTERNAL_H
#define LAC_MODEL_GGUF_INTERNAL_H

#include "base/limits.h"
#include "model/gguf.h"

/* One file's bytes. */
typedef struct {
    const uint8_t *bytes;
    size_t length;
    bool mapped; /* by us: unmapped at close */
} lac__gguf_bytes;

/* One metadata entry; `value` points into the map. */
typedef struct {
    char *name;
    lac_gguf_kind kind;
    lac_gguf_kind element; /* of an array */
    uint64_t count;        /* array: elements; string: bytes; else 1 */
    const uint8_t *value;  /* first byte of the scalar, of the text, or of the first element */
    uint64_t value_bytes;  /* encoded length, string lengths inside arrays included */
    uint64_t *starts;      /* string array: offset of each element's length word from `value` */
} lac__gguf_key;

struct lac_gguf {
    lac__gguf_bytes *files; /* [files_count] */
    size_t files_count;
    uint32_t version;
    lac__gguf_key *keys; /* the first file's, sorted by name */
    size_t keys_count;
    lac_gguf_tensor *tensors; /* of all files, in file order */
    size_t tensors_count;
    const lac_gguf_tensor **by_name; /* sorted index into `tensors` */
    uint32_t split_no, split_count;  /* 0, 1 for a whole file */
    int64_t split_tensors;           /* −1 = the file does not say */
};

/* Parses one file's container into an empty `out`; what was allocated stays in *out, also on
 * failure, for lac__gguf_free_parts(). Error texts leave the file name to the caller. */
lac_status lac__gguf_read(const lac__gguf_bytes *bytes, uint32_t file, struct lac_gguf *out,
                          lac_error *err);
/* Makes `by_name`; a repeated tensor name is LAC_ECORRUPT. */
lac_status lac__gguf_index(struct lac_gguf *gguf, lac_error *err);
/* Frees keys, tensors and index, not the files. */
void lac__gguf_free_parts(struct lac_gguf *gguf);

const lac__gguf_key *lac__gguf_key_find(const lac_gguf *gguf, const char *name);
const char *lac__gguf_kind_name(lac_gguf_kind kind);
/* Bytes of one value of a fixed-size kind; 0 for strings and arrays. */
size_t lac__gguf_kind_bytes(lac_gguf_kind kind);

#endif
