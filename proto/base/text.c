/* UTF-8 and number parsing. Pure. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Bytes of the character that `lead` starts, 0 when it starts none (RFC 3629). */
static int utf8_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 4;
    return 0;
}

/* Whether `second` may follow `lead`: shuts out overlong forms, surrogates and > U+10FFFF. */
static bool utf8_second(unsigned char lead, unsigned char second)
{
    unsigned char low = 0x80, high = 0xbf;
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    return second >= low && second <= high;
}

/* How many of the bytes present fit a character that starts here; *want = its full length. */
static int utf8_match(const unsigned char *p, size_t length, int *want)
{
    *want = length ? utf8_length(p[0]) : 0;
    int have = *want ? 1 : 0;
    while (have && have < *want && (size_t)have < length) {
        bool fits = have == 1 ? utf8_second(p[0], p[1]) : (p[have] & 0xc0) == 0x80;
        if (!fits)
            return 0;
        have++;
    }
    return have;
}

int lac_utf8_next(const char *text, size_t length, uint32_t *codepoint)
{
    static const unsigned char lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    const unsigned char *p = (const unsigned char *)text;
    int want;
    int have = utf8_match(p, length, &want);
    if (!have || have < want)
        return 0;
    uint32_t code = p[0] & lead_bits[want];
    for (int i = 1; i < want; i++)
        code = code << 6 | (p[i] & 0x3fu);
    *codepoint = code;
    return want;
}

bool lac_utf8_valid(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length) {
        if ((unsigned char)text[i] < 0x80) {
            i++;
            continue;
        }
        uint32_t code;
        int bytes = lac_utf8_next(text + i, length - i, &code);
        if (!bytes)
            return false;
        i += (size_t)bytes;
    }
    return true;
}

size_t lac_utf8_whole(const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t back = length < 3 ? length : 3;
    for (size_t i = length - back; i < length; i++) {
        int want;
        int have = utf8_match(p + i, length - i, &want);
        if (have && have < want && (size_t)have == length - i)
            return i;
    }
    return length;
}

int lac_utf8_put(uint32_t code, char out[4])
{
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    int bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[bytes] | code);
    return bytes;
}

bool lac_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out)
{
    if (!text || !*text || strspn(text, " \t\n\r\f\v"))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end || value < low || value > high)
        return false;
    *out = value;
    return true;
}

bool lac_parse_f64(const char *text, double low, double high, double *out)
{
    if (!text || !*text || strspn(text, " \t\n\r\f\v"))
        return false;
    char *end;
    double value = strtod(text, &end);
    if (*end || !isfinite(value) || value < low || value > high)
        return false;
    *out = value;
    return true;
}

void lac_hex(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool lac_unhex(const char *text, uint8_t *out, size_t n)
{
    if (strlen(text) != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
