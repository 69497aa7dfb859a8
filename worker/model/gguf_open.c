/* GGUF files on disk: mapping, split files, closing. Runs on the opening thread. Parsing is
 * gguf.c's. A map of a file that somebody truncates later faults on use, as with every mapped file:
 * model files must be replaced by rename, never rewritten in place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "gguf_internal.h"

enum { PATH_BYTES_MAX = 4096, SPLIT_SUFFIX_BYTES = sizeof "-00001-of-00002.gguf" - 1 };

static lac_status map(const char *path, lac__gguf_bytes *out, lac_error *err)
{
    lac_status status = LAC_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s", strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0) {
        status = lac_fail(err, LAC_EIO, "%s", strerror(errno));
        goto close;
    }
    if (!S_ISREG(info.st_mode)) {
        status = lac_fail(err, LAC_EIO, "not a regular file");
        goto close;
    }
    if (info.st_size == 0) {
        status = lac_fail(err, LAC_ECORRUPT, "header: the file is empty");
        goto close;
    }
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        status = lac_fail(err, LAC_EIO, "mmap of %lld bytes: %s", (long long)info.st_size,
                          strerror(errno));
        goto close;
    }
    *out = (lac__gguf_bytes){.bytes = bytes, .length = (size_t)info.st_size, .mapped = true};
close:
    close(fd);
    return status;
}

static void unmap(lac__gguf_bytes *file)
{
    if (file->mapped)
        munmap((void *)file->bytes, file->length);
    *file = (lac__gguf_bytes){0};
}

/* The path of split `no` of `count`, from the path of the first. */
static lac_status split_path(const char *first, uint32_t no, uint32_t count, char *out, size_t size,
                             lac_error *err)
{
    char suffix[SPLIT_SUFFIX_BYTES + 24];
    size_t length = strlen(first);
    snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", 1u, count);
    if (length < strlen(suffix) || strcmp(first + length - strlen(suffix), suffix) != 0)
        return lac_fail(err, LAC_ECORRUPT,
                        "key split.count: %u, but the file name does not end in %s", count, suffix);
    size_t prefix = length - strlen(suffix);
    int wrote = snprintf(out, size, "%.*s-%05u-of-%05u.gguf", (int)prefix, first, no + 1, count);
    LAC_ASSERT(wrote > 0 && (size_t)wrote < size);
    return LAC_OK;
}

/* Checks that `part` is split `no` of `whole`'s set and moves its tensors over. */
static lac_status join(struct lac_gguf *whole, struct lac_gguf *part, uint32_t no, lac_error *err)
{
    if (part->version != whole->version)
        return lac_fail(err, LAC_ECORRUPT, "version: %u, the first split has %u", part->version,
                        whole->version);
    if (part->split_no != no)
        return lac_fail(err, LAC_ECORRUPT, "key split.no: %u, expected %u", part->split_no, no);
    if (part->split_count != whole->split_count)
        return lac_fail(err, LAC_ECORRUPT, "key split.count: %u, the first split has %u",
                        part->split_count, whole->split_count);
    if (part->tensors_count > LAC_GGUF_TENSORS_MAX - whole->tensors_count)
        return lac_fail(err, LAC_ECORRUPT, "tensor count: %zu over all splits, limit %d",
                        whole->tensors_count + part->tensors_count, LAC_GGUF_TENSORS_MAX);
    size_t count = whole->tensors_count + part->tensors_count;
    whole->tensors = lac_realloc(whole->tensors, count ? count : 1, sizeof *whole->tensors);
    for (size_t i = 0; i < part->tensors_count; i++) {
        whole->tensors[whole->tensors_count++] = part->tensors[i];
        part->tensors[i].name = NULL; /* moved */
    }
    return LAC_OK;
}

static lac_status open_rest(const char *path, struct lac_gguf *whole, lac_error *err)
{
    char name[PATH_BYTES_MAX];
    for (uint32_t no = 1; no < whole->split_count; no++) {
        lac_status status = split_path(path, no, whole->split_count, name, sizeof name, err);
        if (status != LAC_OK)
            return lac_fail_in(err, "%s", path);
        status = map(name, &whole->files[no], err);
        if (status != LAC_OK)
            return lac_fail_in(err, "%s", name);
        whole->files_count = no + 1;
        struct lac_gguf part = {0};
        status = lac__gguf_read(&whole->files[no], no, &part, err);
        if (status == LAC_OK)
            status = join(whole, &part, no, err);
        lac__gguf_free_parts(&part);
        if (status != LAC_OK)
            return lac_fail_in(err, "%s", name);
    }
    return LAC_OK;
}

/* After all files are read: the totals, then the index. */
static lac_status finish(struct lac_gguf *gguf, lac_error *err)
{
    if (gguf->split_count > 1 && gguf->split_tensors >= 0 &&
        (uint64_t)gguf->split_tensors != gguf->tensors_count)
        return lac_fail(err, LAC_ECORRUPT, "key split.tensors.count: %lld, the splits hold %zu",
                        (long long)gguf->split_tensors, gguf->tensors_count);
    return lac__gguf_index(gguf, err);
}

lac_status lac_gguf_open(const char *path, lac_gguf **out, lac_error *err)
{
    lac_error here = {0};
    if (!err)
        err = &here;
    if (strlen(path) >= PATH_BYTES_MAX)
        return lac_fail(err, LAC_EIO, "model path: %zu bytes, limit %d", strlen(path),
                        PATH_BYTES_MAX - 1);
    struct lac_gguf *gguf = lac_alloc(1, sizeof *gguf);
    gguf->files = lac_alloc(LAC_GGUF_SPLITS_MAX, sizeof *gguf->files);
    lac_status status = map(path, &gguf->files[0], err);
    if (status == LAC_OK) {
        gguf->files_count = 1;
        status = lac__gguf_read(&gguf->files[0], 0, gguf, err);
    }
    if (status == LAC_OK && gguf->split_no != 0)
        status = lac_fail(err, LAC_EUNSUPPORTED, "key split.no: %u: open the first split instead",
                          gguf->split_no);
    if (status != LAC_OK) {
        lac_fail_in(err, "%s", path);
        goto close;
    }
    status = open_rest(path, gguf, err);
    if (status != LAC_OK)
        goto close;
    status = finish(gguf, err);
    if (status != LAC_OK) {
        lac_fail_in(err, "%s", path);
        goto close;
    }
    *out = gguf;
    return LAC_OK;
close:
    lac_gguf_close(&gguf);
    return status;
}

lac_status lac_gguf_parse(const void *bytes, size_t length, lac_gguf **out, lac_error *err)
{
    struct lac_gguf *gguf = lac_alloc(1, sizeof *gguf);
    gguf->files = lac_alloc(1, sizeof *gguf->files);
    gguf->files[0] = (lac__gguf_bytes){.bytes = bytes, .length = length};
    gguf->files_count = 1;
    lac_status status = lac__gguf_read(&gguf->files[0], 0, gguf, err);
    if (status == LAC_OK && gguf->split_count > 1)
        status = lac_fail(err, LAC_EUNSUPPORTED,
                          "key split.count: %u, only whole files are read here", gguf->split_count);
    if (status == LAC_OK)
        status = finish(gguf, err);
    if (status == LAC_OK)
        *out = gguf;
    else
        lac_gguf_close(&gguf);
    return status;
}

lac_status lac_gguf_split(const char *path, uint32_t *no, uint32_t *count, lac_error *err)
{
    lac__gguf_bytes file = {0};
    struct lac_gguf gguf = {0};
    lac_status status = map(path, &file, err);
    if (status == LAC_OK)
        status = lac__gguf_read(&file, 0, &gguf, err);
    if (status == LAC_OK) {
        *no = gguf.split_no;
        *count = gguf.split_count;
    } else {
        lac_fail_in(err, "%s", path);
    }
    lac__gguf_free_parts(&gguf);
    unmap(&file);
    return status;
}

void lac_gguf_close(lac_gguf **gguf)
{
    if (!*gguf)
        return;
    lac__gguf_free_parts(*gguf);
    for (size_t i = 0; i < (*gguf)->files_count; i++)
        unmap(&(*gguf)->files[i]);
    free((*gguf)->files);
    free(*gguf);
    *gguf = NULL;
}

void lac_gguf_release(const lac_gguf *gguf, const lac_gguf_tensor *tensor)
{
    lac_gguf_release_first(gguf, tensor, tensor->bytes);
}

void lac_gguf_release_first(const lac_gguf *gguf, const lac_gguf_tensor *tensor, uint64_t bytes)
{
    LAC_ASSERT(tensor->file < gguf->files_count && bytes <= tensor->bytes);
    if (!gguf->files[tensor->file].mapped)
        return;
    /* Only pages that lie wholly inside the tensor: its neighbours may still be in use. */
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = ((uintptr_t)tensor->data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)tensor->data + bytes) & ~(page - 1);
    if (end > start)
        madvise((void *)start, end - start, MADV_DONTNEED);
}
