/* GGUF files (versions 2 and 3, little-endian): parsed once from a read-only map with every count,
 * length and offset checked before use. Split files ("-00001-of-0000N.gguf") open as one. Knows the
 * container, nothing about models. One thread opens; afterwards reading is safe from any thread. */
#ifndef LAC_MODEL_GGUF_H
#define LAC_MODEL_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

typedef struct lac_gguf lac_gguf;

typedef enum {
    LAC_GGUF_U8 = 0, LAC_GGUF_I8, LAC_GGUF_U16, LAC_GGUF_I16, LAC_GGUF_U32, LAC_GGUF_I32,
    LAC_GGUF_F32, LAC_GGUF_BOOL, LAC_GGUF_STRING, LAC_GGUF_ARRAY, LAC_GGUF_U64, LAC_GGUF_I64,
    LAC_GGUF_F64
} lac_gguf_kind;

typedef struct {
    const char *name; /* NUL-ended copy */
    lac_type type;
    uint32_t dims_count;
    uint64_t dims[4];   /* dims[0] = columns (contiguous), dims[1] = rows, unused = 1 */
    uint64_t elements;
    uint64_t bytes;
    const void *data;   /* inside the map */
    uint32_t file;      /* which split */
    uint64_t offset;    /* in that file */
} lac_gguf_tensor;

/* Errors name file, field, value and limit: LAC_EIO, LAC_ECORRUPT, LAC_EUNSUPPORTED. */
lac_status lac_gguf_open(const char *path, lac_gguf **out, lac_error *err);
/* As open, over bytes the caller keeps alive (tests, fuzzing). One file only. */
lac_status lac_gguf_parse(const void *bytes, size_t length, lac_gguf **out, lac_error *err);
void lac_gguf_close(lac_gguf **gguf);
/* Checks the container of one file alone, and says which of a split set it is: 0 of 1 for a whole. */
lac_status lac_gguf_split(const char *path, uint32_t *no, uint32_t *count, lac_error *err);

uint32_t lac_gguf_version(const lac_gguf *gguf);
uint64_t lac_gguf_file_bytes(const lac_gguf *gguf); /* all splits */
size_t lac_gguf_tensor_count(const lac_gguf *gguf);
const lac_gguf_tensor *lac_gguf_tensor_at(const lac_gguf *gguf, size_t index);
const lac_gguf_tensor *lac_gguf_tensor_find(const lac_gguf *gguf, const char *name); /* or NULL */

/* Metadata. `find` functions return false when the key is absent; a key of another kind or out of
 * [low, high] is an error the caller wants to hear of, so it is reported through `err` with status
 * set, and false returned. Clear err->status first. Integers of any width are read as one. */
bool lac_gguf_u64(const lac_gguf *gguf, const char *key, uint64_t low, uint64_t high, uint64_t *out,
                  lac_error *err);
bool lac_gguf_f64(const lac_gguf *gguf, const char *key, double *out, lac_error *err);
bool lac_gguf_bool(const lac_gguf *gguf, const char *key, bool *out, lac_error *err);
bool lac_gguf_string(const lac_gguf *gguf, const char *key, const char **text, size_t *length,
                     lac_error *err);
/* Arrays: element kind and count, then element access (bounds are asserted). */
bool lac_gguf_array(const lac_gguf *gguf, const char *key, lac_gguf_kind *kind, size_t *count,
                    lac_error *err);
void lac_gguf_array_string(const lac_gguf *gguf, const char *key, size_t index, const char **text,
                           size_t *length);
double lac_gguf_array_number(const lac_gguf *gguf, const char *key, size_t index);
size_t lac_gguf_key_count(const lac_gguf *gguf);
const char *lac_gguf_key_at(const lac_gguf *gguf, size_t index, lac_gguf_kind *kind);

/* A bound on the size of the tensor's elements, exact for float types: 0 iff every element is
 * provably zero, infinite where one is not finite. Stops reading once it is above `enough`. */
double lac_gguf_tensor_bound(const lac_gguf_tensor *tensor, double enough);

/* Tells the kernel that the tensor's pages are no longer needed (after repacking). */
void lac_gguf_release(const lac_gguf *gguf, const lac_gguf_tensor *tensor);
/* The same of its first `bytes` bytes. */
void lac_gguf_release_first(const lac_gguf *gguf, const lac_gguf_tensor *tensor, uint64_t bytes);

#endif
