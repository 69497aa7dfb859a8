/* Text helpers: UTF-8 checks and bounded number parsing. Pure, any thread. */
#ifndef LAC_BASE_TEXT_H
#define LAC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Well-formed UTF-8 (no surrogates, no overlong forms, ≤ U+10FFFF). An embedded NUL is valid UTF-8:
 * callers that need C strings check for it themselves. */
bool lac_utf8_valid(const char *text, size_t length);
/* Length of the longest prefix that ends on a whole character: the bytes after it are the start of
 * one that later bytes may complete (at most 3). Malformed bytes count as whole. */
size_t lac_utf8_whole(const char *text, size_t length);
/* Decodes one character; returns its bytes (1–4), or 0 at the end or on malformed input. */
int lac_utf8_next(const char *text, size_t length, uint32_t *codepoint);
/* Encodes one character into out[4]; returns its bytes. Surrogates and > U+10FFFF become U+FFFD. */
int lac_utf8_put(uint32_t codepoint, char out[4]);

/* Whole-string decimal parsing: false on empty text, junk, or a value outside [low, high]. */
bool lac_parse_i64(const char *text, int64_t low, int64_t high, int64_t *out);
bool lac_parse_f64(const char *text, double low, double high, double *out);

/* Hex of n bytes into out[2n+1]; and back: the whole text is 2n lower-case digits, or false. */
void lac_hex(const uint8_t *bytes, size_t n, char *out);
bool lac_unhex(const char *text, uint8_t *out, size_t n);

#endif
