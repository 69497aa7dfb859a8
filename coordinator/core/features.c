/* Features of a text from a bounded sample of its bytes. Owns the choice of the sample and every
 * measure that does not need lines; what lines are is in lines.c. Pure, integers only: the same
 * bytes give the same features on every machine. Knows no type and no threshold. */
#include "type.h"

#include <string.h>

enum { LZ_BITS = 10, LZ_WORD = 4, LZ_MATCH_MIN = 6 };

static const char *const names[LAC__FEATURES] = {
    [LAC__F_LETTERS] = "letters", [LAC__F_DIGITS] = "digits",
    [LAC__F_SPACE] = "space",     [LAC__F_PUNCTUATION] = "punctuation",
    [LAC__F_HIGH] = "high",       [LAC__F_ENTROPY] = "entropy",
    [LAC__F_COLUMNS] = "columns", [LAC__F_REPEATS] = "repeats",
    [LAC__F_SHAPES] = "shapes",   [LAC__F_DELIMITERS] = "delimiters",
    [LAC__F_JSON] = "json",       [LAC__F_XML] = "xml",
    [LAC__F_YAML] = "yaml",       [LAC__F_TABLE] = "table",
    [LAC__F_LOG] = "log",         [LAC__F_MARKDOWN_TABLE] = "markdown_table",
    [LAC__F_CODE] = "code",       [LAC__F_PROSE] = "prose",
    [LAC__F_DATA] = "data",       [LAC__F_MIXED] = "mixed",
    [LAC__F_LEADER] = "leader",
};

const char *lac__feature_name(lac__feature feature)
{
    return feature < LAC__FEATURES ? names[feature] : "unknown";
}

static uint16_t permille(uint64_t part, uint64_t whole)
{
    return whole ? (uint16_t)(part * 1000 / whole) : 0;
}

/* log2(n) in 1/1024, n ≥ 1: the exponent, and the mantissa m corrected by 0.34 m (1 − m), which is
 * within 0.01 of log2(1 + m). */
static uint32_t log2_fixed(uint32_t n)
{
    uint32_t exponent = 31u - (uint32_t)__builtin_clz(n);
    uint32_t m = (uint32_t)((((uint64_t)n << 10) >> exponent) - 1024);
    return exponent * 1024 + m + (m * (1024 - m) / 1024 * 348) / 1024;
}

/* Shannon's entropy of `counts`, in 1/1024 bit. */
static uint32_t entropy(const uint32_t *counts, size_t classes, uint32_t total)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < classes; i++)
        if (counts[i])
            sum += (uint64_t)counts[i] * log2_fixed(counts[i]);
    if (!total)
        return 0;
    uint64_t mean = sum / total, whole = log2_fixed(total);
    return mean < whole ? (uint32_t)(whole - mean) : 0;
}

/* Four tables, so that equal neighbours do not wait for each other's store. */
static void histogram(const uint8_t *text, size_t length, uint32_t counts[256])
{
    uint16_t parts[4][256];
    memset(parts, 0, sizeof parts);
    size_t i = 0;
    for (; i + 4 <= length; i += 4) {
        parts[0][text[i]]++;
        parts[1][text[i + 1]]++;
        parts[2][text[i + 2]]++;
        parts[3][text[i + 3]]++;
    }
    for (; i < length; i++)
        parts[0][text[i]]++;
    for (int c = 0; c < 256; c++)
        counts[c] = (uint32_t)parts[0][c] + parts[1][c] + parts[2][c] + parts[3][c];
}

static void byte_classes(const uint32_t counts[256], uint32_t total, uint16_t *value)
{
    uint32_t letters = 0, digits = 0, space = 0, high = 0;
    for (int c = 'a'; c <= 'z'; c++)
        letters += counts[c] + counts[c - 'a' + 'A'];
    for (int c = '0'; c <= '9'; c++)
        digits += counts[c];
    for (int c = 0; c <= ' '; c++)
        space += counts[c];
    for (int c = 128; c < 256; c++)
        high += counts[c];
    value[LAC__F_LETTERS] = permille(letters, total);
    value[LAC__F_DIGITS] = permille(digits, total);
    value[LAC__F_SPACE] = permille(space, total);
    value[LAC__F_HIGH] = permille(high, total);
    value[LAC__F_PUNCTUATION] = permille(total - letters - digits - space - high, total);
    value[LAC__F_ENTROPY] = (uint16_t)(entropy(counts, 256, total) * 1000 / (8 * 1024));
}

static uint64_t load(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    return word;
}

/* Bytes that greedy matches of at least LZ_MATCH_MIN against the last place with the same four
 * bytes would cover. One slot a hash, no chains: an estimate, not a compressor. */
static uint32_t covered(const uint8_t *text, size_t length)
{
    uint16_t place[1 << LZ_BITS];
    memset(place, 0, sizeof place);
    uint32_t sum = 0;
    size_t i = 0;
    while (i + LZ_WORD <= length) {
        uint32_t word = (uint32_t)load(text + i, LZ_WORD);
        uint32_t slot = (word * 2654435761u) >> (32 - LZ_BITS);
        size_t from = place[slot]; /* place + 1; 0 = none */
        place[slot] = (uint16_t)(i + 1);
        size_t run = 0;
        if (from--)
            while (i + run < length && text[from + run] == text[i + run])
                run++;
        if (run >= LZ_MATCH_MIN) {
            sum += (uint32_t)run;
            i += run;
        } else {
            i++;
        }
    }
    return sum;
}

/* The mean over columns of the entropy of the byte class there: low where lines begin alike. */
static uint16_t positional(const lac__lines *lines)
{
    uint64_t sum = 0, weight = 0;
    for (int c = 0; c < LAC__COLUMNS; c++) {
        uint32_t total = 0;
        for (int k = 0; k < LAC__COLUMN_CLASSES; k++)
            total += lines->columns[c][k];
        sum += (uint64_t)entropy(lines->columns[c], LAC__COLUMN_CLASSES, total) * total;
        weight += total;
    }
    return weight ? (uint16_t)(sum * 1000 / (weight * 3 * 1024)) : 0; /* 3 bits = 8 classes */
}

/* Where stamped sentences belong: a log repeats its templates, a chat only its times and names.
 * Between 450 and 650 per mille of repeats they count for both in proportion. */
static uint32_t stamped_as_log(uint32_t bytes, uint32_t repeats)
{
    uint32_t share = repeats <= 450 ? 0 : repeats >= 650 ? 200 : repeats - 450;
    return (uint32_t)((uint64_t)bytes * share / 200);
}

static void line_shares(const lac__lines *lines, uint16_t *value)
{
    uint32_t bytes[LAC__LINE_KINDS], total = 0;
    memcpy(bytes, lines->bytes, sizeof bytes);
    uint32_t log = stamped_as_log(bytes[LAC__LINE_STAMPED], value[LAC__F_REPEATS]);
    bytes[LAC__LINE_LOG] += log;
    bytes[LAC__LINE_PROSE] += bytes[LAC__LINE_STAMPED] - log;
    for (int k = LAC__LINE_JSON; k <= LAC__LINE_PROSE; k++)
        total += bytes[k];
    for (int k = LAC__LINE_JSON; k <= LAC__LINE_PROSE; k++)
        value[LAC__F_JSON + k - LAC__LINE_JSON] = permille(bytes[k], total);
    uint32_t data = 0;
    for (int k = LAC__LINE_JSON; k <= LAC__LINE_MARKDOWN_TABLE; k++)
        data += bytes[k];
    uint32_t prose = bytes[LAC__LINE_PROSE], other = total - prose;
    value[LAC__F_DATA] = permille(data, total);
    value[LAC__F_MIXED] = permille(2 * (uint64_t)(prose < other ? prose : other), total);
    value[LAC__F_LEADER] = (uint16_t)((1000 + value[LAC__F_CODE] - value[LAC__F_DATA]) / 2);
}

_Static_assert(LAC__F_JSON + LAC__LINE_PROSE - LAC__LINE_JSON == LAC__F_PROSE,
               "marks and kinds of lines stand in the same order");

void lac__features_read(const char *text, size_t length, lac__features *out)
{
    uint8_t sample[LAC__SAMPLE_BYTES];
    size_t slices[3] = {length, 0, 0}, n = 0;
    if (length > LAC__SAMPLE_BYTES) {
        slices[0] = LAC__HEAD_BYTES;
        slices[1] = LAC__MIDDLE_BYTES;
        slices[2] = LAC__TAIL_BYTES;
    }
    const size_t from[3] = {0, length / 2 - slices[1] / 2, length - slices[2]};
    lac__lines lines = {0};
    for (int i = 0; i < 3; i++) {
        if (!slices[i])
            continue;
        memcpy(sample + n, text + from[i], slices[i]);
        lac__lines_add(&lines, sample + n, slices[i]);
        n += slices[i];
    }
    *out = (lac__features){0};
    if (!n)
        return;
    uint32_t counts[256];
    histogram(sample, n, counts);
    byte_classes(counts, (uint32_t)n, out->value);
    out->value[LAC__F_REPEATS] = permille(covered(sample, n), n);
    out->value[LAC__F_COLUMNS] = positional(&lines);
    out->value[LAC__F_SHAPES] = permille(lines.shape_repeats, lines.lines);
    out->value[LAC__F_DELIMITERS] = permille(lines.delimiter_repeats, lines.lines);
    line_shares(&lines, out->value);
}

uint32_t lac__features_entropy(const lac__features *features)
{
    return features->value[LAC__F_ENTROPY] * 8u / 10u;
}
