/* Reads file names from standard input, one a line, and prints a line of ids for each: what
 * check_tree.py compares with the reference. One process, because loading a vocabulary costs more
 * than a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "tokenizer/tokenizer.h"

static bool read_whole(const char *path, lac_buf *out)
{
    FILE *file = fopen(path, "rb");
    char block[65536];
    size_t got;
    lac_buf_clear(out);
    if (!file)
        return false;
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        lac_buf_add(out, block, got);
    fclose(file);
    return !out->overflow;
}

static bool tokenize(const lac_tokenizer *tokenizer, const char *path, lac_buf *text,
                     lac_error *err)
{
    uint32_t *ids;
    size_t count;
    if (!read_whole(path, text)) {
        lac_fail(err, LAC_EIO, "%s: cannot be read", path);
        return false;
    }
    if (lac_tokenizer_encode(tokenizer, text->data ? text->data : "", text->length,
                             (lac_encode_options){0}, &ids, &count, err) != LAC_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        printf("%s%u", i ? " " : "", ids[i]);
    printf("\n");
    free(ids);
    return true;
}

int main(int argc, char **argv)
{
    lac_error err = {0};
    lac_gguf *gguf = NULL;
    lac_tokenizer *tokenizer = NULL;
    lac_buf text = {.cap = LAC_PROMPT_BYTES_MAX};
    char path[4096];
    bool good = argc == 2 && lac_gguf_open(argv[1], &gguf, &err) == LAC_OK &&
                lac_tokenizer_create(gguf, &tokenizer, &err) == LAC_OK;
    while (good && fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = '\0';
        good = tokenize(tokenizer, path, &text, &err);
    }
    if (!good)
        fprintf(stderr, "tokenize_files: %s\n",
                argc == 2 ? err.text : "usage: tokenize_files MODEL");
    lac_buf_free(&text);
    lac_tokenizer_destroy(&tokenizer);
    lac_gguf_close(&gguf);
    return good ? 0 : 1;
}
