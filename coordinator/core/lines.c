/* What a text is made of, line by line: cuts a slice into lines, measures how alike their shapes
 * are, and keeps the context a line is judged in (open comments, the line before). What one line
 * looks like alone is in line_kind.c. Pure; one pass, no allocation. Knows no type. */
#include "line_kind.h"

#include <string.h>

/* Sixteen counters a line in two words: every byte adds its row of both tables. A counter holds
 * 255, so the words are emptied that often. */
#define B(k) (UINT64_C(1) << 8 * (k))
static const uint64_t low_row[256] = {
    ['a' ... 'z'] = B(LAC__C_LETTER), ['A' ... 'Z'] = B(LAC__C_LETTER),
    ['0' ... '9'] = B(LAC__C_DIGIT),  [' '] = B(LAC__C_SPACE),
    [0x80 ... 0xff] = B(LAC__C_HIGH), [','] = B(LAC__C_COMMA),
    ['\t'] = B(LAC__C_TAB),           ['|'] = B(LAC__C_PIPE),
    [';'] = B(LAC__C_SEMICOLON),
};
static const uint64_t high_row[256] = {
    ['"'] = B(LAC__C_QUOTE - 8),         [':'] = B(LAC__C_COLON - 8),
    ['='] = B(LAC__C_EQUALS - 8),        ['{'] = B(LAC__C_BRACKET - 8),
    ['}'] = B(LAC__C_BRACKET - 8),       ['['] = B(LAC__C_BRACKET - 8),
    [']'] = B(LAC__C_BRACKET - 8),       ['('] = B(LAC__C_PAREN - 8),
    [')'] = B(LAC__C_PAREN - 8),         ['<'] = B(LAC__C_ANGLE - 8),
    ['>'] = B(LAC__C_ANGLE - 8),         ['.'] = B(LAC__C_SENTENCE - 8),
    ['!'] = B(LAC__C_SENTENCE - 8),      ['?'] = B(LAC__C_SENTENCE - 8),
    ['\''] = B(LAC__C_SENTENCE - 8),     ['#' ... '&'] = B(LAC__C_OTHER - 8),
    ['*' ... '+'] = B(LAC__C_OTHER - 8), ['-'] = B(LAC__C_OTHER - 8),
    ['/'] = B(LAC__C_OTHER - 8),         ['@'] = B(LAC__C_OTHER - 8),
    ['\\'] = B(LAC__C_OTHER - 8),        ['^' ... '`'] = B(LAC__C_OTHER - 8),
    ['~'] = B(LAC__C_OTHER - 8),
};
#undef B

static void count_classes(const uint8_t *text, size_t length, uint32_t count[LAC__CLASSES])
{
    memset(count, 0, LAC__CLASSES * sizeof *count);
    while (length) {
        size_t n = length < 255 ? length : 255;
        uint64_t low = 0, high = 0;
        for (size_t i = 0; i < n; i++) {
            low += low_row[text[i]];
            high += high_row[text[i]];
        }
        for (int k = 0; k < 8; k++) {
            count[k] += (uint32_t)(low >> 8 * k & 255);
            count[8 + k] += (uint32_t)(high >> 8 * k & 255);
        }
        text += n;
        length -= n;
    }
}

/* Byte class for shapes and columns: 0 letter, 1 digit, 2 space, 3 high, 4 delimiter, 5 bracket or
 * quote, 6 sentence, 7 the rest. */
static const uint8_t
    shape_class[256] =
        {
            [0 ... ' ' - 1] = 2, [' '] = 2,         ['!'] = 6,         ['"'] = 5,
            ['#' ... '&'] = 7,   ['\''] = 5,        ['(' ... ')'] = 5, ['*' ... '+'] = 7,
            [','] = 4,           ['-'] = 7,         ['.'] = 6,         ['/'] = 7,
            ['0' ... '9'] = 1,   [':'] = 4,         [';'] = 4,         ['<'] = 5,
            ['='] = 4,           ['>'] = 5,         ['?'] = 6,         ['@'] = 7,
            ['A' ... 'Z'] = 0,   ['['] = 5,         ['\\'] = 7,        [']'] = 5,
            ['^' ... '`'] = 7,   ['a' ... 'z'] = 0, ['{'] = 5,         ['|'] = 4,
            ['}'] = 5,           ['~'] = 7,         [127] = 7,         [0x80 ... 0xff] = 3,
};

/* The shape of a line: its first bytes with runs of letters, digits and spaces drawn together. Two
 * entries of a log have the same, two sentences hardly ever beyond "word word word". */
static uint32_t shape_of(const uint8_t *text, size_t length,
                         uint32_t columns[][LAC__COLUMN_CLASSES])
{
    enum { SHAPE_BYTES = 28 };
    uint32_t hash = 2166136261u;
    uint8_t before = 255;
    size_t n = length < SHAPE_BYTES ? length : SHAPE_BYTES;
    for (size_t i = 0; i < n; i++) {
        uint8_t class = shape_class[text[i]];
        if (i < LAC__COLUMNS)
            columns[i][class]++;
        if (class == before && class <= 3)
            continue;
        before = class;
        hash = (hash ^ (class <= 3 ? class : text[i])) * 16777619u;
    }
    return hash | 1;
}

static void count_shape(lac__lines *lines, uint32_t shape)
{
    uint32_t *slot = &lines->shapes[(shape >> 7) % LAC__SHAPES_KEPT];
    lines->shape_repeats += *slot == shape;
    *slot = shape;
}

/* As many of one delimiter as the line before, at least one tab or pipe, at least two of the rest.
 */
static bool same_delimiters(lac__lines *lines, const uint32_t *count)
{
    const uint32_t now[4] = {count[LAC__C_COMMA], count[LAC__C_TAB], count[LAC__C_PIPE],
                             count[LAC__C_SEMICOLON]};
    bool same = false;
    for (int i = 0; i < 4; i++) {
        same |= now[i] == lines->delimiters[i] && now[i] >= (i == 1 || i == 2 ? 1u : 2u);
        lines->delimiters[i] = (uint16_t)now[i];
    }
    return same;
}

/* Inside of C comments, Python's long strings and fenced blocks the text says little by itself. */
static lac__line_kind in_context(lac__lines *lines, const lac__line *line, lac__line_kind kind)
{
    const uint8_t *s = line->text;
    size_t n = line->length;
    if (n >= 3 && !memcmp(s, "```", 3)) {
        lines->fenced = !lines->fenced;
        return LAC__LINE_NEUTRAL;
    }
    bool triple = (line->count[LAC__C_QUOTE] >= 3 && memmem(s, n, "\"\"\"", 3)) ||
                  (line->count[LAC__C_SENTENCE] >= 3 && memmem(s, n, "'''", 3));
    if (triple) {
        bool twice =
            n >= 6 && (memmem(s + 3, n - 3, "\"\"\"", 3) || memmem(s + 3, n - 3, "'''", 3));
        lines->quoted = !lines->quoted && !twice;
        return LAC__LINE_CODE;
    }
    if (lines->quoted)
        return LAC__LINE_CODE;
    bool opens = n >= 2 && s[0] == '/' && s[1] == '*',
         closes = line->count[LAC__C_OTHER] >= 2 && memmem(s, n, "*/", 2);
    if (opens || lines->comment) {
        lines->comment = !closes;
        return LAC__LINE_CODE;
    }
    if (kind == LAC__LINE_NEUTRAL && lines->last == LAC__LINE_CODE && line->count[LAC__C_LETTER])
        return LAC__LINE_CODE;
    if (kind == LAC__LINE_PROSE && lines->last == LAC__LINE_CODE && line->indent &&
        (s[n - 1] == ',' || s[n - 1] == '('))
        return LAC__LINE_CODE; /* a column of CREATE TABLE, an argument on its own line */
    if (kind == LAC__LINE_PROSE && lines->last == LAC__LINE_CODE && s[0] == '#' && n > 1)
        return LAC__LINE_CODE; /* a comment rather than a heading */
    if (kind == LAC__LINE_PROSE && lines->fenced && lines->last == LAC__LINE_CODE)
        return LAC__LINE_CODE;
    return kind;
}

static void take_line(lac__lines *lines, const uint8_t *text, size_t length)
{
    lac__line line = {.text = text, .length = length};
    while (line.length && (line.text[line.length - 1] <= ' '))
        line.length--;
    uint32_t shape = line.length ? shape_of(text, line.length, lines->columns) : 0;
    while (line.length && *line.text <= ' ') {
        line.text++;
        line.length--;
        line.indent++;
    }
    if (!line.length)
        return;
    count_classes(line.text, line.length, line.count);
    line.regular = same_delimiters(lines, line.count);
    lines->lines++;
    lines->delimiter_repeats += line.regular;
    count_shape(lines, shape);
    lac__line_kind kind = in_context(lines, &line, lac__line_kind_of(lines, &line));
    lines->bytes[kind] += (uint32_t)line.length;
    if (kind != LAC__LINE_NEUTRAL)
        lines->last = kind;
}

void lac__lines_add(lac__lines *lines, const uint8_t *text, size_t length)
{
    while (length) {
        const uint8_t *end = memchr(text, '\n', length);
        size_t n = end ? (size_t)(end - text) : length;
        take_line(lines, text, n);
        n += end != NULL;
        text += n;
        length -= n;
    }
}
