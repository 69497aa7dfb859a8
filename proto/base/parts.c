/* Divided text: marks before kinds, doubled where they are text. Pure, any thread. */
#include "base/parts.h"

#include <string.h>

#include "base/assert.h"

/* ---- writing ---- */

static void mark(lac_parts_writer *writer, lac_part kind, lac_buf *out)
{
    const char bytes[2] = {LAC_PARTS_MARK, (char)kind};
    writer->kind = kind;
    lac_buf_add(out, bytes, sizeof bytes);
}

/* A mark inside the text is doubled. */
static void put_text(const char *text, size_t length, lac_buf *out)
{
    const char *end = text + length;
    while (text < end) {
        const char *found = memchr(text, LAC_PARTS_MARK, (size_t)(end - text));
        const char *stop = found ? found + 1 : end;
        lac_buf_add(out, text, (size_t)(stop - text));
        if (found)
            lac_buf_add(out, found, 1);
        text = stop;
    }
}

void lac_parts_put(lac_parts_writer *writer, lac_part kind, const char *text, size_t length,
                   lac_buf *out)
{
    LAC_ASSERT(kind != LAC_PART_CALL);
    if (!length)
        return;
    if (!writer->kind)
        writer->kind = LAC_PART_CONTENT;
    if (writer->kind != kind)
        mark(writer, kind, out);
    put_text(text, length, out);
}

void lac_parts_call(lac_parts_writer *writer, const char *name, size_t length, lac_buf *out)
{
    LAC_ASSERT(length >= 1 && length <= LAC_NAME_MAX);
    mark(writer, LAC_PART_CALL, out);
    put_text(name, length, out);
    mark(writer, LAC_PART_ARGUMENTS, out); /* at once, so that a reader knows where the name ends */
}

/* ---- reading ---- */

static bool is_kind(char c)
{
    return c == LAC_PART_CONTENT || c == LAC_PART_REASONING || c == LAC_PART_CALL ||
           c == LAC_PART_ARGUMENTS;
}

static void give(lac_parts_reader *r, const char *text, size_t length, lac_parts_sink sink,
                 void *arg)
{
    if (r->kind != LAC_PART_CALL) {
        if (length)
            sink(arg, r->kind, text, length);
        return;
    }
    size_t room = LAC_NAME_MAX - r->name_length;
    if (length > room)
        length = room;
    memcpy(r->name + r->name_length, text, length);
    r->name_length += (uint32_t)length;
}

static void turn(lac_parts_reader *r, char kind, lac_parts_sink sink, void *arg)
{
    if (r->kind == LAC_PART_CALL && r->name_length)
        sink(arg, LAC_PART_CALL, r->name, r->name_length);
    r->name_length = 0;
    r->kind = is_kind(kind) ? (lac_part)kind : LAC_PART_CONTENT;
}

void lac_parts_read(lac_parts_reader *r, const char *text, size_t length, lac_parts_sink sink,
                    void *arg)
{
    const char *end = text + length;
    if (!r->kind)
        r->kind = LAC_PART_CONTENT;
    while (text < end) {
        if (r->marked) {
            r->marked = false;
            if (*text == LAC_PARTS_MARK)
                give(r, text, 1, sink, arg);
            else
                turn(r, *text, sink, arg);
            text++;
            continue;
        }
        const char *found = memchr(text, LAC_PARTS_MARK, (size_t)(end - text));
        give(r, text, (size_t)((found ? found : end) - text), sink, arg);
        r->marked = found != NULL;
        text = found ? found + 1 : end;
    }
}
