/* Form data by RFC 7578 and RFC 2046 5.1.1: parts between delimiter lines, each with a few header
 * lines. Everything here comes from outside. Pure. */
#include "multipart.h"

#include <string.h>
#include <strings.h>

enum { BOUNDARY_MAX = 70, PART_HEAD_MAX = 4096 };

static bool bad(lac__problem *problem, const char *why)
{
    return lac__problem_set(problem, 400, "invalid_multipart", NULL,
                            "the body is no multipart/form-data: %s", why);
}

/* Copies the value of `key=` out of header parameters, quoted or not; false when it is not there or
 * does not fit. */
static bool parameter(const char *text, size_t length, const char *key, char *out, size_t size)
{
    size_t key_length = strlen(key), at = 0;
    while (at < length) {
        const char *semi = memchr(text + at, ';', length - at);
        if (!semi)
            return false;
        at = (size_t)(semi - text) + 1;
        while (at < length && (text[at] == ' ' || text[at] == '\t'))
            at++;
        if (length - at <= key_length || strncasecmp(text + at, key, key_length) != 0 ||
            text[at + key_length] != '=')
            continue;
        at += key_length + 1;
        bool quoted = at < length && text[at] == '"';
        size_t used = 0;
        for (at += quoted; at < length; at++) {
            char c = text[at];
            if (quoted ? c == '"' : c == ';' || c == ' ')
                break;
            if (quoted && c == '\\' && at + 1 < length)
                c = text[++at];
            if (used + 1 >= size || c == '\0')
                return false;
            out[used++] = c;
        }
        out[used] = '\0';
        return true;
    }
    return false;
}

/* One part's header lines, up to the blank one. */
static bool read_head(const char *head, size_t length, lac__part *part, lac__problem *problem)
{
    static const char disposition[] = "content-disposition:";
    const size_t own = sizeof disposition - 1;
    bool named = false;
    for (size_t at = 0; at < length;) {
        const char *end = memmem(head + at, length - at, "\r\n", 2);
        size_t line = end ? (size_t)(end - head) - at : length - at;
        if (line > own && strncasecmp(head + at, disposition, own) == 0) {
            named = parameter(head + at, line, "name", part->name, sizeof part->name);
            if (!parameter(head + at, line, "filename", part->file, sizeof part->file))
                part->file[0] = '\0';
        }
        at += line + 2;
    }
    return named || bad(problem, "a part has no name, or one of more than 64 bytes");
}

bool lac__multipart_parse(const char *content_type, const char *body, size_t length,
                          lac__part parts[LAC__PARTS_MAX], size_t *count, lac__problem *problem)
{
    static const char kind[] = "multipart/form-data";
    char delimiter[BOUNDARY_MAX + 5] = "\r\n--";
    *count = 0;
    if (strncasecmp(content_type, kind, sizeof kind - 1) != 0)
        return bad(problem, "Content-Type says something else");
    if (!parameter(content_type, strlen(content_type), "boundary", delimiter + 4,
                   sizeof delimiter - 4) ||
        !delimiter[4])
        return bad(problem, "Content-Type has no boundary of 1 to 70 bytes");
    size_t mark = strlen(delimiter);
    /* The first delimiter has no line before it. */
    if (length < mark - 2 || memcmp(body, delimiter + 2, mark - 2) != 0)
        return bad(problem, "it does not begin with its boundary");
    const char *at = body + mark - 2, *end = body + length;
    while (end - at >= 2 && memcmp(at, "--", 2) != 0) {
        if (memcmp(at, "\r\n", 2) != 0)
            return bad(problem, "a boundary does not end its line");
        if (*count == LAC__PARTS_MAX)
            return bad(problem, "it has more than 16 parts");
        at += 2;
        size_t left = (size_t)(end - at);
        const char *blank = memmem(at, left < PART_HEAD_MAX ? left : PART_HEAD_MAX, "\r\n\r\n", 4);
        lac__part *part = &parts[*count];
        if (!blank)
            return bad(problem, "a part's head does not end");
        if (!read_head(at, (size_t)(blank - at), part, problem))
            return false;
        part->data = blank + 4;
        const char *next = memmem(part->data, (size_t)(end - part->data), delimiter, mark);
        if (!next)
            return bad(problem, "a part does not end");
        part->length = (size_t)(next - part->data);
        at = next + mark;
        (*count)++;
    }
    return end - at >= 2 || bad(problem, "it ends too early");
}

const lac__part *lac__multipart_find(const lac__part *parts, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    return NULL;
}
