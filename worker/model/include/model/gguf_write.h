/* Writes a GGUF file (version 3, little-endian): metadata copied from an open file or set anew,
 * tensors from memory or of zeros. Knows the container, nothing about models. One thread. */
#ifndef LAC_MODEL_GGUF_WRITE_H
#define LAC_MODEL_GGUF_WRITE_H

#include "model/gguf.h"

typedef struct lac_gguf_writer lac_gguf_writer;

/* Starts with all metadata of `source`, which outlives the writer, but what says how a file is laid
 * out (split.*, general.alignment); NULL: with none. Tensors are not taken over. */
lac_gguf_writer *lac_gguf_writer_create(const lac_gguf *source);
void lac_gguf_writer_destroy(lac_gguf_writer **writer);

/* Sets a key, in place of one with that name. Texts are copied. */
void lac_gguf_writer_u32(lac_gguf_writer *writer, const char *key, uint32_t value);
void lac_gguf_writer_string(lac_gguf_writer *writer, const char *key, const char *text);
void lac_gguf_writer_u32s(lac_gguf_writer *writer, const char *key, const uint32_t *values,
                          size_t count);
/* Gives keys that begin with `from` another beginning. */
void lac_gguf_writer_rename(lac_gguf_writer *writer, const char *from, const char *to);
/* Makes an array of fixed-size elements `count` long: those it has, then again those of `from` and
 * on, repeated. LAC_ENOTFOUND when there is no such key, LAC_EINVAL when it is no such array. */
lac_status lac_gguf_writer_extend(lac_gguf_writer *writer, const char *key, size_t count,
                                  size_t from, lac_error *err);

/* Adds a tensor with the shape, type and size of `like` under another name: its bytes, or zeros (all
 * types read zero bytes as zero weights). `like` need not come from a file. The name is copied;
 * `like` and the bytes are read by write(). */
void lac_gguf_writer_tensor(lac_gguf_writer *writer, const char *name, const lac_gguf_tensor *like,
                            bool zeros);

/* Writes the file beside `path` and moves it into place when it is whole; a failure leaves what was
 * at `path` as it was. LAC_EIO names the file, LAC_EINVAL a repeated tensor name. */
lac_status lac_gguf_writer_write(const lac_gguf_writer *writer, const char *path, lac_error *err);

#endif
