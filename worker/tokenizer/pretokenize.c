/* Cutting text into words by the pattern that the model was trained with. The only door to PCRE2.
 * Patterns are compiled once; a splitter is one call's scratch. Knows no vocabulary.
 *
 * Every pattern is anchored and matches one whole word at the place it is asked, so the text is
 * walked once. PCRE2 wants well-formed UTF-8 and would check all that follows on every call: the
 * splitter checks each byte once, cuts the text into well-formed runs and hands those over
 * unchecked. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "internal.h"

/* White space is spelled out: the library's \s also counts U+180E, which Unicode took off the list.
 */
#define SPACE                                                                                      \
    "\\t-\\r "                                                                                     \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define S        "[" SPACE "]"
#define OTHER    "[^" SPACE "\\p{L}\\p{N}]"
#define GPT2_END "'s|'t|'re|'ve|'m|'ll|'d"

static const lac__pre_row rows[] = {
    {"gpt-2", " gpt-2 gpt2 default mpt olmo phi-2 jina-es jina-de ",
     GPT2_END "| ?\\p{L}+| ?\\p{N}+| ?" OTHER "+|" S "+(?!"
              "[^" SPACE "])|" S "+",
     false, false},
    /* Digits are split off one by one first, so a digit ends a text for the pattern of the rest. */
    {"smollm", " smollm starcoder refact command-r codeshell exaone ",
     GPT2_END "| ?\\p{L}+|\\p{N}| ?" OTHER "+|" S "+(?![^" SPACE "\\p{N}])|" S "+", false, false},
    {"llama3", " llama-bpe llama3 llama-v3 falcon3 ",
     "(?i:" GPT2_END ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?" OTHER "+[\\r\\n]*|" S
     "*[\\r\\n]+|" S "+(?![^" SPACE "])|" S "+",
     true, true},
    {"qwen2", " qwen2 deepseek-r1-qwen stablelm2 ",
     "(?i:" GPT2_END ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?" OTHER "+[\\r\\n]*|" S
     "*[\\r\\n]+|" S "+(?![^" SPACE "])|" S "+",
     false, false},
};
enum { ROWS_COUNT = sizeof rows / sizeof rows[0], JIT_STACK_MAX = 1 << 20 };

static const lac__pre_row *find_row(const char *name, size_t length)
{
    char padded[LAC_NAME_MAX + 3];
    if (length == 0 || length > LAC_NAME_MAX || memchr(name, ' ', length) ||
        memchr(name, 0, length))
        return NULL;
    snprintf(padded, sizeof padded, " %.*s ", (int)length, name);
    for (size_t i = 0; i < ROWS_COUNT; i++)
        if (strstr(rows[i].aliases, padded))
            return &rows[i];
    return NULL;
}

lac_status lac__pre_create(const char *name, size_t length, lac__pre *out, lac_error *err)
{
    const lac__pre_row *row = find_row(name, length);
    if (!row) {
        char known[240];
        size_t at = 0;
        for (size_t i = 0; i < ROWS_COUNT; i++)
            at += (size_t)snprintf(known + at, sizeof known - at, "%s", rows[i].aliases + (i > 0));
        return lac_fail(err, LAC_EUNSUPPORTED, "key tokenizer.ggml.pre: \"%.*s\" is not one of%s",
                        length > 32 ? 32 : (int)length, name, known);
    }
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled = pcre2_compile(
        (PCRE2_SPTR)row->pattern, PCRE2_ZERO_TERMINATED,
        PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE, &code, &at, NULL);
    if (!compiled)
        return lac_fail(err, LAC_EINTERNAL, "pattern %s: PCRE2 error %d at %zu", row->name, code,
                        (size_t)at);
    *out = (lac__pre){.row = row, .code = compiled};
    /* Where no executable memory is allowed the interpreter serves, slower. */
    out->jit = pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0;
    return LAC_OK;
}

void lac__pre_free(lac__pre *pre)
{
    pcre2_code_free(pre->code);
    *pre = (lac__pre){0};
}

struct lac__splitter {
    const lac__pre *pre;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    const char *text;
    size_t length;
    size_t at;
    size_t run_start, run_end; /* the well-formed run that holds `at` */
};

lac__splitter *lac__splitter_create(const lac__pre *pre)
{
    lac__splitter *s = lac_alloc(1, sizeof *s);
    s->pre = pre;
    s->match = pcre2_match_data_create(1, NULL);
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create(32768, JIT_STACK_MAX, NULL);
    if (!s->match || !s->context || !s->stack) {
        lac__splitter_destroy(&s);
        return NULL;
    }
    /* The patterns backtrack at most once a character, so a limit of a few times the longest text
     * is never met by honest work and still ends a mistake in a pattern. */
    pcre2_set_match_limit(s->context, 4u * LAC_PROMPT_BYTES_MAX);
    pcre2_set_depth_limit(s->context, 1u << 16);
    pcre2_set_heap_limit(s->context, 1u << 16); /* KiB */
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

void lac__splitter_destroy(lac__splitter **splitter)
{
    lac__splitter *s = *splitter;
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
    *splitter = NULL;
}

void lac__splitter_start(lac__splitter *splitter, const char *text, size_t length)
{
    splitter->text = text;
    splitter->length = length;
    splitter->at = splitter->run_start = splitter->run_end = 0;
}

/* End of the run that starts at `at`: well-formed text, or else bytes that start no character. */
static size_t run_end(const char *text, size_t length, size_t at, bool *well_formed)
{
    uint32_t code;
    int bytes = lac_utf8_next(text + at, length - at, &code);
    *well_formed = bytes > 0;
    while (at < length && (bytes > 0) == *well_formed) {
        at += bytes > 0 ? (size_t)bytes : 1;
        while (*well_formed && at < length && (unsigned char)text[at] < 0x80)
            at++;
        if (at < length)
            bytes = lac_utf8_next(text + at, length - at, &code);
    }
    return at;
}

lac_status lac__splitter_next(lac__splitter *s, const char **word, size_t *length, lac_error *err)
{
    if (s->at == s->length)
        return LAC_AGAIN;
    if (s->at == s->run_end) {
        bool well_formed;
        s->run_start = s->at;
        s->run_end = run_end(s->text, s->length, s->at, &well_formed);
        if (!well_formed) {
            *word = s->text + s->at;
            *length = s->run_end - s->at;
            s->at = s->run_end;
            return LAC_OK;
        }
    }
    PCRE2_SPTR subject = (PCRE2_SPTR)s->text + s->run_start;
    size_t subject_length = s->run_end - s->run_start, start = s->at - s->run_start;
    int found = s->pre->jit ? pcre2_jit_match(s->pre->code, subject, subject_length, start, 0,
                                              s->match, s->context)
                            : pcre2_match(s->pre->code, subject, subject_length, start,
                                          PCRE2_NO_UTF_CHECK, s->match, s->context);
    size_t end = found > 0 ? pcre2_get_ovector_pointer(s->match)[1] : 0;
    if (found <= 0 || end <= start)
        return lac_fail(err, LAC_EINTERNAL, "pattern %s: PCRE2 error %d at byte %zu of the text",
                        s->pre->row->name, found, s->at);
    *word = s->text + s->at;
    *length = end - start;
    s->at = s->run_start + end;
    return LAC_OK;
}
