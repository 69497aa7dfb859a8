/* The state file of a calibration. One thread. Must not know what the steps mean. */
#include "calibrate/memo.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    STEP_NAME_MAX = 64,
    STEPS_MAX = 1 << 17,
    MEMO_BYTES_MAX = 256 << 20,
};

typedef struct {
    char name[STEP_NAME_MAX + 1];
    double *values;
    size_t count;
} step;

struct lac_memo {
    char *path;
    FILE *file;
    step *steps; /* [count] */
    size_t count;
};

static const char format[] = "lacuna-calibrate-state";

static void header_make(const lac_digest *inputs, char *out, size_t size)
{
    char hex[2 * sizeof inputs->bytes + 1];
    lac_hex(inputs->bytes, sizeof inputs->bytes, hex);
    snprintf(out, size, "{\"format\":\"%s\",\"inputs\":\"%s\"}", format, hex);
}

static void remember(lac_memo *memo, const char *name, double *values, size_t count)
{
    if (memo->count % 64 == 0)
        memo->steps = lac_realloc(memo->steps, memo->count + 64, sizeof *memo->steps);
    step *s = &memo->steps[memo->count++];
    *s = (step){.values = values, .count = count};
    memcpy(s->name, name, strlen(name));
}

/* False for a line that is no step: what follows it does not count. */
static bool line_take(lac_memo *memo, const char *line, size_t length)
{
    json_t *json = json_loadb(line, length, 0, NULL);
    const char *name = json_string_value(json_object_get(json, "step"));
    json_t *list = json_object_get(json, "values");
    bool fine = name && strlen(name) > 0 && strlen(name) <= STEP_NAME_MAX && json_is_array(list) &&
                memo->count < STEPS_MAX;
    size_t count = fine ? json_array_size(list) : 0;
    double *values = lac_alloc(count + 1, sizeof *values);
    for (size_t i = 0; i < count && fine; i++) {
        fine = json_is_number(json_array_get(list, i));
        values[i] = json_number_value(json_array_get(list, i));
    }
    if (fine)
        remember(memo, name, values, count);
    else
        free(values);
    json_decref(json);
    return fine;
}

/* Reads what is there. *keep = bytes that hold whole lines of these inputs. */
static lac_status file_read(lac_memo *memo, const char *header, size_t *keep, lac_error *err)
{
    lac_buf buf = {.cap = MEMO_BYTES_MAX};
    char block[65536];
    size_t got, at = 0;
    FILE *file = fopen(memo->path, "rb");
    *keep = 0;
    if (!file)
        return errno == ENOENT ? LAC_OK
                               : lac_fail(err, LAC_EIO, "%s: %s", memo->path, strerror(errno));
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        (void)lac_buf_add(&buf, block, got);
    fclose(file);
    lac_status status = LAC_OK;
    bool first = true;
    while (status == LAC_OK && at < buf.length) {
        const char *end = memchr(buf.data + at, '\n', buf.length - at);
        size_t length = end ? (size_t)(end - buf.data) - at : buf.length - at;
        if (first && (length < sizeof format + 10 ||
                      memcmp(buf.data + at + 11, format, sizeof format - 1) != 0))
            status = lac_fail(err, LAC_EREFUSED, "%s: is there and is no state of a calibration",
                              memo->path);
        else if (!end || (first &&
                          (length != strlen(header) || memcmp(buf.data + at, header, length) != 0)))
            break;
        else if (!first && !line_take(memo, buf.data + at, length))
            break;
        else
            *keep = at += length + 1;
        first = false;
    }
    lac_buf_free(&buf);
    return status;
}

lac_status lac_memo_open(const char *path, const lac_digest *inputs, lac_memo **out, size_t *known,
                         lac_error *err)
{
    char header[160];
    size_t keep;
    header_make(inputs, header, sizeof header);
    lac_memo *memo = lac_alloc(1, sizeof *memo);
    memo->path = lac_strndup(path, strlen(path));
    lac_status status = file_read(memo, header, &keep, err);
    if (status == LAC_OK) {
        memo->file = fopen(path, keep > 0 ? "r+b" : "wb");
        bool ready = memo->file != NULL;
        if (ready && keep > 0)
            ready = ftruncate(fileno(memo->file), (off_t)keep) == 0 &&
                    fseek(memo->file, 0, SEEK_END) == 0;
        else if (ready)
            ready = fprintf(memo->file, "%s\n", header) > 0 && fflush(memo->file) == 0;
        if (!ready)
            status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    }
    if (status != LAC_OK) {
        lac_memo_close(&memo);
        return status;
    }
    *known = memo->count;
    *out = memo;
    return LAC_OK;
}

void lac_memo_close(lac_memo **memo)
{
    if (!*memo)
        return;
    for (size_t i = 0; i < (*memo)->count; i++)
        free((*memo)->steps[i].values);
    if ((*memo)->file)
        fclose((*memo)->file);
    free((*memo)->steps);
    free((*memo)->path);
    free(*memo);
    *memo = NULL;
}

bool lac_memo_get(const lac_memo *memo, const char *name, double *values, size_t count)
{
    for (size_t i = 0; i < memo->count; i++)
        if (strcmp(memo->steps[i].name, name) == 0 && memo->steps[i].count == count) {
            memcpy(values, memo->steps[i].values, count * sizeof *values);
            return true;
        }
    return false;
}

lac_status lac_memo_put(lac_memo *memo, const char *name, const double *values, size_t count,
                        lac_error *err)
{
    LAC_ASSERT(strlen(name) <= STEP_NAME_MAX && memo->count < STEPS_MAX);
    lac_buf line = {0};
    lac_buf_printf(&line, "{\"step\":\"%s\",\"values\":[", name);
    for (size_t i = 0; i < count; i++) {
        LAC_ASSERT(isfinite(values[i]));
        lac_buf_printf(&line, "%s%.17g", i ? "," : "", values[i]);
    }
    lac_buf_text(&line, "]}\n");
    bool written =
        fwrite(line.data, 1, line.length, memo->file) == line.length && fflush(memo->file) == 0;
    lac_buf_free(&line);
    double *copy = lac_alloc(count + 1, sizeof *copy);
    if (count)
        memcpy(copy, values, count * sizeof *copy);
    remember(memo, name, copy, count);
    return written ? LAC_OK : lac_fail(err, LAC_EIO, "%s: %s", memo->path, strerror(errno));
}
