/* Finds thoughts and calls in an answer while it is made. Pure; the thread of its sequence.
 *
 * A table of states, each with a function that takes from the front of the held text what it can
 * decide, and stops when it needs more. Held back are: the beginning of a mark, white space that a
 * mark may swallow, and a call up to the first byte of its arguments (HEAD_BYTES_MAX); the
 * arguments go straight through. So the parts do not depend on how the text was cut. */
#include "chat/divide.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/parts.h"

enum {
    HEAD_BYTES_MAX = 1024, /* of a call before its arguments */
    SPACES_HELD_MAX = 64   /* white space that may stand before a call and is then dropped */
};

typedef enum {
    S_START,         /* nothing yet: a thought may begin */
    S_THOUGHT_BEGIN, /* its leading line breaks */
    S_THOUGHT,
    S_ANSWER, /* line breaks behind a thought */
    S_CONTENT,
    S_LIST, /* Mistral: before the array's bracket */
    S_HEAD, /* a call's object up to its arguments */
    S_ARGUMENTS,
    S_TAIL,  /* the rest of the object */
    S_CLOSE, /* what follows the object */
    S_PLAIN, /* content to the end */
    S_DONE,  /* dropped to the end */
    STATES
} state;

struct lac_divider {
    lac_divide_options options;
    state state;
    lac_parts_writer parts;
    lac_buf held;
    size_t kept;     /* of held: taken by a call that may still turn out to be content */
    bool after_call; /* white space that comes now stands between calls */
    /* Inside JSON: how many brackets are open, inside a string, behind a backslash. */
    unsigned depth;
    bool string, escape;
    size_t names_count;
    char (*names)[LAC_NAME_MAX + 1];
};

/* What a step says. */
typedef enum { MORE, AGAIN } verdict;

static const char *call_mark(const lac_divider *d)
{
    return d->options.form == LAC_CALLS_MISTRAL ? "[TOOL_CALLS]" : "<tool_call>";
}

/* ---- life ---- */

lac_divider *lac_divider_create(const lac_divide_options *options)
{
    lac_divider *d = lac_alloc(1, sizeof *d);
    d->options = *options;
    d->options.tools = NULL;
    bool calls = options->form != LAC_CALLS_NONE;
    LAC_ASSERT(!calls || options->tools);
    d->names_count = calls ? lac_tools_count(options->tools) : 0;
    d->names = lac_alloc(d->names_count + 1, sizeof *d->names);
    for (size_t i = 0; i < d->names_count; i++) {
        const char *name = lac_tools_name(options->tools, i);
        memcpy(d->names[i], name, strlen(name) + 1);
    }
    d->state = options->called                        ? S_HEAD
               : options->thinks == LAC_THINKS_OPENED ? S_THOUGHT_BEGIN
               : options->thinks == LAC_THINKS_MARKED ? S_START
                                                      : S_CONTENT;
    if (options->called && options->form == LAC_CALLS_MISTRAL)
        d->state = S_LIST;
    return d;
}

void lac_divider_destroy(lac_divider **divider)
{
    if (!*divider)
        return;
    lac_buf_free(&(*divider)->held);
    free((*divider)->names);
    free(*divider);
    *divider = NULL;
}

bool lac_divider_done(const lac_divider *divider)
{
    return divider->state == S_DONE;
}

/* ---- small things ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static size_t spaces(const lac_divider *d, size_t from)
{
    while (from < d->held.length && is_space(d->held.data[from]))
        from++;
    return from;
}

static void give(lac_divider *d, lac_part kind, size_t length, lac_buf *out)
{
    if (kind == LAC_PART_CONTENT && length)
        d->after_call = false;
    lac_parts_put(&d->parts, kind, d->held.data, length, out);
    lac_buf_drop(&d->held, length);
}

static verdict go(lac_divider *d, state next)
{
    d->state = next;
    return AGAIN;
}

/* The held text at `from` begins with the mark, or may still: 1, -1, or 0 for neither. */
static int match(const lac_divider *d, size_t from, const char *mark)
{
    size_t length = strlen(mark), left = d->held.length - from;
    if (left >= length)
        return memcmp(d->held.data + from, mark, length) == 0;
    return memcmp(d->held.data + from, mark, left) == 0 ? -1 : 0;
}

/* The same behind white space, of which only so much is held. */
static int match_behind(const lac_divider *d, size_t at, const char *mark)
{
    if (at > SPACES_HELD_MAX)
        return 0;
    return at < d->held.length ? match(d, at, mark) : -1;
}

/* Where a mark begins, whole (*whole) or cut by the end of the text; the held length when nowhere.
 */
static size_t find(const lac_divider *d, const char *mark, bool *whole)
{
    size_t at = 0;
    *whole = false;
    while (at < d->held.length) {
        const char *found = memchr(d->held.data + at, mark[0], d->held.length - at);
        if (!found)
            return d->held.length;
        at = (size_t)(found - d->held.data);
        int m = match(d, at, mark);
        if (m) {
            *whole = m > 0;
            return at;
        }
        at++;
    }
    return d->held.length;
}

/* ---- thoughts ---- */

static verdict on_start(lac_divider *d, lac_buf *out)
{
    static const char mark[] = "<think>";
    size_t at = spaces(d, 0);
    (void)out;
    int m = match_behind(d, at, mark);
    if (m < 0)
        return MORE;
    if (m == 0)
        return go(d, S_CONTENT);
    lac_buf_drop(&d->held, at + sizeof mark - 1);
    return go(d, S_THOUGHT_BEGIN);
}

static verdict drop_lines(lac_divider *d, state next)
{
    size_t lines = 0;
    while (lines < d->held.length && d->held.data[lines] == '\n')
        lines++;
    lac_buf_drop(&d->held, lines);
    return d->held.length ? go(d, next) : MORE;
}

static verdict on_thought_begin(lac_divider *d, lac_buf *out)
{
    (void)out;
    return drop_lines(d, S_THOUGHT);
}

/* Line breaks at its end are the mark's. */
static verdict on_thought(lac_divider *d, lac_buf *out)
{
    static const char mark[] = "</think>";
    bool whole;
    size_t at = find(d, mark, &whole), text = at;
    while (text > 0 && d->held.data[text - 1] == '\n' && at - text < SPACES_HELD_MAX)
        text--;
    size_t lines = at - text;
    give(d, LAC_PART_REASONING, text, out);
    if (!whole)
        return MORE;
    lac_buf_drop(&d->held, lines + sizeof mark - 1);
    return go(d, S_ANSWER);
}

static verdict on_answer(lac_divider *d, lac_buf *out)
{
    (void)out;
    return drop_lines(d, S_CONTENT);
}

/* ---- content ---- */

/* Llama's calls are the whole answer, so only its first character can begin one. */
static verdict llama_content(lac_divider *d, lac_buf *out)
{
    static const char tag[] = "<|python_tag|>";
    size_t at = spaces(d, 0);
    (void)out;
    int m = match_behind(d, at, tag);
    if (m < 0)
        return MORE;
    if (m > 0)
        at += sizeof tag - 1;
    else if (at > SPACES_HELD_MAX || d->held.data[at] != '{')
        return go(d, S_PLAIN);
    d->kept = at;
    return go(d, S_HEAD);
}

static verdict on_content(lac_divider *d, lac_buf *out)
{
    if (d->options.form == LAC_CALLS_NONE)
        return go(d, S_PLAIN);
    if (d->options.form == LAC_CALLS_LLAMA)
        return llama_content(d, out);
    /* Between two calls white space says nothing. */
    size_t lead = d->after_call ? spaces(d, 0) : 0;
    lac_buf_drop(&d->held, lead);
    bool whole;
    size_t at = find(d, call_mark(d), &whole), text = at;
    while (text > 0 && is_space(d->held.data[text - 1]) && at - text < SPACES_HELD_MAX)
        text--;
    give(d, LAC_PART_CONTENT, text, out);
    if (!whole)
        return MORE;
    d->kept = at - text + strlen(call_mark(d));
    return go(d, d->options.form == LAC_CALLS_MISTRAL ? S_LIST : S_HEAD);
}

static verdict on_plain(lac_divider *d, lac_buf *out)
{
    give(d, LAC_PART_CONTENT, d->held.length, out);
    return MORE;
}

static verdict on_done(lac_divider *d, lac_buf *out)
{
    (void)out;
    lac_buf_drop(&d->held, d->held.length);
    return MORE;
}

/* What was taken for a call is content, and the search goes on behind its mark. */
static verdict not_a_call(lac_divider *d, lac_buf *out)
{
    size_t kept = d->kept;
    d->kept = 0;
    d->after_call = false;
    give(d, LAC_PART_CONTENT, kept, out);
    return go(d, d->options.form == LAC_CALLS_LLAMA || d->options.called ? S_PLAIN : S_CONTENT);
}

/* ---- the head of a call ---- */

/* A reader over the held text behind `kept`; `short_of` when it ran out of text. */
typedef struct {
    const char *at, *end;
    bool short_of;
} reader;

static bool next_is(reader *r, char c)
{
    while (r->at < r->end && is_space(*r->at))
        r->at++;
    r->short_of = r->short_of || r->at == r->end;
    return r->at < r->end && *r->at == c;
}

static bool take(reader *r, char c)
{
    bool is = next_is(r, c);
    r->at += is;
    return is;
}

/* A string without its quotes; names and keys need no escapes. */
static bool take_string(reader *r, const char **text, size_t *length)
{
    if (!take(r, '"'))
        return false;
    *text = r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\')
        r->at++;
    *length = (size_t)(r->at - *text);
    r->short_of = r->at == r->end;
    return !r->short_of && *r->at++ == '"';
}

static bool equals(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

static bool is_known(const lac_divider *d, const char *name, size_t length)
{
    for (size_t i = 0; i < d->names_count; i++)
        if (equals(name, length, d->names[i]))
            return true;
    return false;
}

/* {"name": "f", "arguments": with any strings beside ("id", "type"), up to the brace that opens the
 * arguments. */
static bool read_head(const lac_divider *d, reader *r, const char **name, size_t *name_length)
{
    const char *key, *value;
    size_t key_length, value_length;
    *name_length = 0;
    if (!take(r, '{'))
        return false;
    for (;;) {
        if (!take_string(r, &key, &key_length) || !take(r, ':'))
            return false;
        if (equals(key, key_length, "arguments") || equals(key, key_length, "parameters"))
            return next_is(r, '{') && *name_length > 0 && is_known(d, *name, *name_length);
        if (!take_string(r, &value, &value_length))
            return false;
        if (equals(key, key_length, "name")) {
            *name = value;
            *name_length = value_length;
        }
        if (!take(r, ','))
            return false;
    }
}

static verdict on_list(lac_divider *d, lac_buf *out)
{
    size_t at = spaces(d, d->kept);
    if (at - d->kept > SPACES_HELD_MAX)
        return not_a_call(d, out);
    if (at == d->held.length)
        return MORE;
    if (d->held.data[at] != '[')
        return not_a_call(d, out);
    d->kept = at + 1;
    return go(d, S_HEAD);
}

static verdict on_head(lac_divider *d, lac_buf *out)
{
    if (d->held.length == d->kept)
        return MORE;
    size_t left = d->held.length - d->kept, most = left < HEAD_BYTES_MAX ? left : HEAD_BYTES_MAX;
    reader r = {d->held.data + d->kept, d->held.data + d->kept + most, false};
    const char *name = NULL;
    size_t length;
    if (!read_head(d, &r, &name, &length))
        return r.short_of && left < HEAD_BYTES_MAX ? MORE : not_a_call(d, out);
    lac_parts_call(&d->parts, name, length, out);
    d->parts.kind = LAC_PART_ARGUMENTS;
    lac_buf_drop(&d->held, (size_t)(r.at - d->held.data));
    d->kept = d->depth = 0;
    d->string = d->escape = false;
    return go(d, S_ARGUMENTS);
}

/* ---- its arguments and its end ---- */

/* Follows JSON up to the bracket that closes what `depth` counts; true when it was found. `at` is
 * behind the last byte looked at. */
static bool follow(lac_divider *d, unsigned until, size_t *at)
{
    for (; *at < d->held.length; ++*at) {
        char c = d->held.data[*at];
        if (d->string) {
            if (d->escape)
                d->escape = false;
            else if (c == '\\')
                d->escape = true;
            else if (c == '"')
                d->string = false;
        } else if (c == '"') {
            d->string = true;
        } else if (c == '{' || c == '[') {
            d->depth++;
        } else if ((c == '}' || c == ']') && --d->depth == until) {
            ++*at;
            return true;
        }
    }
    return false;
}

static verdict on_arguments(lac_divider *d, lac_buf *out)
{
    size_t at = 0;
    bool over = follow(d, 0, &at);
    give(d, LAC_PART_ARGUMENTS, at, out);
    if (!over)
        return MORE;
    d->depth = 1; /* of the object around them */
    return go(d, S_TAIL);
}

static verdict on_tail(lac_divider *d, lac_buf *out)
{
    size_t at = 0;
    (void)out;
    bool over = follow(d, 0, &at);
    lac_buf_drop(&d->held, at);
    if (!over)
        return MORE;
    d->after_call = true;
    return go(d, d->options.one_call ? S_DONE : S_CLOSE);
}

static verdict next_call(lac_divider *d, size_t at, bool follows)
{
    lac_buf_drop(&d->held, at + follows);
    return go(d, follows ? S_HEAD : S_CONTENT);
}

static verdict on_close(lac_divider *d, lac_buf *out)
{
    size_t at = spaces(d, 0);
    (void)out;
    if (at == d->held.length) {
        lac_buf_drop(&d->held, at);
        return MORE;
    }
    char c = d->held.data[at];
    if (d->options.form == LAC_CALLS_MISTRAL) {
        if (c == ']')
            at++;
        return next_call(d, at, c == ',');
    }
    if (d->options.form == LAC_CALLS_LLAMA) {
        if (c != ';') {
            lac_buf_drop(&d->held, at);
            return go(d, S_PLAIN);
        }
        return next_call(d, at, true);
    }
    int m = match(d, at, "</tool_call>");
    if (m < 0)
        return MORE;
    return next_call(d, m > 0 ? at + strlen("</tool_call>") : at, false);
}

/* ---- the machine ---- */

static verdict (*const steps[STATES])(lac_divider *d, lac_buf *out) = {
    [S_START] = on_start,     [S_THOUGHT_BEGIN] = on_thought_begin,
    [S_THOUGHT] = on_thought, [S_ANSWER] = on_answer,
    [S_CONTENT] = on_content, [S_LIST] = on_list,
    [S_HEAD] = on_head,       [S_ARGUMENTS] = on_arguments,
    [S_TAIL] = on_tail,       [S_CLOSE] = on_close,
    [S_PLAIN] = on_plain,     [S_DONE] = on_done,
};

void lac_divider_add(lac_divider *d, const char *text, size_t length, lac_buf *out)
{
    if (length == 0)
        return;
    lac_buf_add(&d->held, text, length);
    while (d->held.length > d->kept && steps[d->state](d, out) == AGAIN)
        ;
}

void lac_divider_end(lac_divider *d, lac_buf *out)
{
    switch (d->state) {
    case S_THOUGHT_BEGIN:
    case S_THOUGHT: give(d, LAC_PART_REASONING, d->held.length, out); break;
    case S_START:
    case S_CONTENT:
    case S_LIST:
    case S_HEAD: give(d, LAC_PART_CONTENT, d->held.length, out); break;
    default: break;
    }
    d->kept = 0;
    d->state = S_DONE;
}
