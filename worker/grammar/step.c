/* The automaton: what one byte does to the readings of an answer. Pure.
 *
 * A reading is a stack of open values. Every place in it has a way to the end: a schema's own
 * values fit the stack (schema.c checks their depth), and what is free closes where the stack is
 * full. So an answer never gets stuck, whichever of the allowed bytes is taken. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "parts.h"

/* Objects, maps and arrays. */
enum { C_OPEN, C_FIRST, C_KEY, C_COLON, C_VALUE, C_AFTER, C_NEXT };
/* Strings. */
enum { S_OPEN, S_BODY, S_ESCAPE, S_HEX, S_MORE, S_E0, S_ED, S_F0, S_F4 };
/* Numbers. */
enum { N_START, N_SIGN, N_ZERO, N_DIGITS, N_POINT, N_FRACTION, N_E, N_E_SIGN, N_EXPONENT };

typedef enum {
    DEAD,  /* the byte cannot follow */
    TAKEN, /* the byte is part of the value, which goes on */
    LAST,  /* the byte is the value's last */
    OVER   /* the value ended before the byte, which belongs to what is around */
} verdict;

static lac__frame *top_of(lac__thread *t)
{
    return &t->stack[t->depth - 1];
}

static bool push(lac__thread *t, uint16_t node)
{
    if (t->depth == LAC__STACK_MAX)
        return false;
    t->stack[t->depth++] = (lac__frame){.node = node};
    return true;
}

/* ---- strings ---- */

static bool is_hex(uint8_t b)
{
    return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F');
}

static bool between(uint8_t b, uint8_t low, uint8_t high)
{
    return b >= low && b <= high;
}

/* A character begins. Counts are kept only where a bound asks for them, so that places without
 * one are the same place. */
static bool character(const lac__node *node, lac__frame *f)
{
    if (node->max != LAC__NO_MAX && f->count == node->max)
        return false;
    if (node->max != LAC__NO_MAX || f->count < node->min)
        f->count++;
    return true;
}

/* The first byte of a character by the table 3-7 of the Unicode standard. */
static verdict string_body(const lac__node *node, lac__frame *f, uint8_t b)
{
    if (b == '"')
        return f->count >= node->min ? LAST : DEAD;
    if (b < 0x20 || between(b, 0x80, 0xc1) || b > 0xf4 || !character(node, f))
        return DEAD;
    if (b == '\\')
        f->at = S_ESCAPE;
    if (b < 0x80)
        return TAKEN;
    f->run = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    f->at = b == 0xe0 ? S_E0 : b == 0xed ? S_ED : b == 0xf0 ? S_F0 : b == 0xf4 ? S_F4 : S_MORE;
    return TAKEN;
}

static verdict string_escape(lac__frame *f, uint8_t b)
{
    f->run = 0;
    f->at = b == 'u' ? S_HEX : S_BODY;
    return b == 'u' || strchr("\"\\/bfnrt", b) ? TAKEN : DEAD;
}

/* Four digits, and no half of a pair: characters beyond 0xffff are written as they are. `run`
 * counts the digits, 8 added after a first D. */
static verdict string_hex(lac__frame *f, uint8_t b)
{
    bool after_d = f->run == 9;
    if (!is_hex(b) || (after_d && !between(b, '0', '7')))
        return DEAD;
    bool d = f->run == 0 && (b == 'd' || b == 'D');
    f->run = after_d ? 2 : d ? 9 : (uint8_t)(f->run + 1);
    if (f->run == 4) {
        f->run = 0;
        f->at = S_BODY;
    }
    return TAKEN;
}

static verdict string_step(const lac__node *node, lac__frame *f, uint8_t b)
{
    static const uint8_t low[] = {
        [S_MORE] = 0x80, [S_E0] = 0xa0, [S_ED] = 0x80, [S_F0] = 0x90, [S_F4] = 0x80};
    static const uint8_t high[] = {
        [S_MORE] = 0xbf, [S_E0] = 0xbf, [S_ED] = 0x9f, [S_F0] = 0xbf, [S_F4] = 0x8f};
    switch (f->at) {
    case S_OPEN: f->at = S_BODY; return b == '"' ? TAKEN : DEAD;
    case S_BODY: return string_body(node, f, b);
    case S_ESCAPE: return b ? string_escape(f, b) : DEAD;
    case S_HEX: return string_hex(f, b);
    default: break;
    }
    if (!between(b, low[f->at], high[f->at]))
        return DEAD;
    f->at = --f->run ? S_MORE : S_BODY;
    return TAKEN;
}

/* ---- numbers ---- */

/* One more digit of a run, which is bounded so that a number ends. */
static verdict digit(lac__frame *f, uint8_t at, uint8_t most)
{
    if (f->run == most)
        return DEAD;
    f->at = at;
    f->run++;
    return TAKEN;
}

static verdict go(lac__frame *f, uint8_t at)
{
    f->at = at;
    f->run = 0;
    return TAKEN;
}

static verdict number_step(const lac__node *node, lac__frame *f, uint8_t b)
{
    bool is_digit = between(b, '0', '9'), whole = node->kind == LAC__INTEGER;
    bool e = b == 'e' || b == 'E';
    switch (f->at) {
    case N_START:
        if (b == '-')
            return go(f, N_SIGN);
        __attribute__((fallthrough));
    case N_SIGN:
        if (b == '0')
            return go(f, N_ZERO);
        return is_digit ? digit(f, N_DIGITS, LAC__DIGITS_MAX) : DEAD;
    case N_DIGITS:
        if (is_digit)
            return digit(f, N_DIGITS, LAC__DIGITS_MAX);
        __attribute__((fallthrough));
    case N_ZERO:
        if (b == '.' && !whole)
            return go(f, N_POINT);
        return e && !whole ? go(f, N_E) : is_digit ? DEAD : OVER;
    case N_POINT: return is_digit ? digit(f, N_FRACTION, LAC__DIGITS_MAX) : DEAD;
    case N_FRACTION:
        if (is_digit)
            return digit(f, N_FRACTION, LAC__DIGITS_MAX);
        return e ? go(f, N_E) : OVER;
    case N_E:
        if (b == '+' || b == '-')
            return go(f, N_E_SIGN);
        __attribute__((fallthrough));
    case N_E_SIGN: return is_digit ? digit(f, N_EXPONENT, LAC__EXPONENT_DIGITS_MAX) : DEAD;
    default: return is_digit ? digit(f, N_EXPONENT, LAC__EXPONENT_DIGITS_MAX) : OVER;
    }
}

static bool number_may_end(const lac__frame *f)
{
    return f->at == N_ZERO || f->at == N_DIGITS || f->at == N_FRACTION || f->at == N_EXPONENT;
}

/* ---- texts: literals and keys ---- */

typedef struct {
    const lac_grammar *g;
    bool keys;           /* of children, else literals */
    uint32_t first, end; /* of all children or literals */
} texts;

static const char *text_at(const texts *all, uint32_t i, uint32_t *length)
{
    const lac__text *t = all->keys ? &all->g->children[i].key : &all->g->literals[i];
    *length = t->length;
    return all->g->text + t->at;
}

/* Those that begin as the one matched so far and go on with `b`: the first of them, or DEAD. The
 * first one stands for all, so that equal prefixes are equal places. */
static verdict text_step(const texts *all, lac__frame *f, uint8_t b)
{
    uint32_t length;
    const char *so_far = f->pos ? text_at(all, f->match, &length) : "";
    for (uint32_t i = all->first; i < all->end; i++) {
        const char *text = text_at(all, i, &length);
        if (length <= f->pos || (uint8_t)text[f->pos] != b || memcmp(text, so_far, f->pos) != 0)
            continue;
        f->match = (uint16_t)i;
        f->pos++;
        return TAKEN;
    }
    return DEAD;
}

/* What was matched is one of the texts: its number, or -1. */
static int text_whole(const texts *all, const lac__frame *f)
{
    uint32_t length;
    const char *so_far = f->pos ? text_at(all, f->match, &length) : "";
    for (uint32_t i = all->first; i < all->end; i++) {
        const char *text = text_at(all, i, &length);
        if (length == f->pos && memcmp(text, so_far, f->pos) == 0)
            return (int)i;
    }
    return -1;
}

static texts literals_of(const lac_grammar *g, const lac__node *node)
{
    return (texts){.g = g, .first = node->first, .end = (uint32_t)node->first + node->count};
}

/* 1 may be followed by 2 where 12 is a value too; a text in quotes ends by itself. */
static verdict literal_step(const lac_grammar *g, const lac__node *node, lac__frame *f, uint8_t b)
{
    texts all = literals_of(g, node);
    if (text_step(&all, f, b) == DEAD)
        return f->pos > 0 && text_whole(&all, f) >= 0 ? OVER : DEAD;
    return b == '"' && f->pos > 1 && text_whole(&all, f) >= 0 ? LAST : TAKEN;
}

/* ---- objects, maps, arrays ---- */

/* Spaces, as many as a line break and an indentation have; a line break only first. */
static bool space(lac__frame *f, uint8_t b)
{
    if (!(b == ' ' || (b == '\n' && f->run == 0)) || f->run == LAC__SPACES_MAX)
        return false;
    f->run++;
    return true;
}

static verdict move(lac__frame *f, uint8_t at)
{
    f->at = at;
    f->run = 0;
    return TAKEN;
}

/* Keys that may come: the next property, and those after it as far as the ones between may be left
 * out. */
static texts keys_of(const lac_grammar *g, const lac__node *node, uint32_t passed)
{
    texts all = {.g = g, .keys = true, .first = node->first + passed};
    all.end = all.first;
    while (all.end < (uint32_t)node->first + node->count)
        if (g->children[all.end++].required)
            break;
    return all;
}

static bool keys_left(const lac_grammar *g, const lac__node *node, uint32_t passed)
{
    for (uint32_t i = passed; i < node->count; i++)
        if (g->children[node->first + i].required)
            return true;
    return false;
}

/* A value begins with this byte: it is pushed, and takes the byte itself. */
static verdict begin(lac__thread *t, uint16_t node)
{
    top_of(t)->run = 0;
    top_of(t)->at = C_AFTER;
    return push(t, node) ? OVER : DEAD;
}

static verdict object_step(const lac_grammar *g, const lac__node *node, lac__thread *t, uint8_t b)
{
    lac__frame *f = top_of(t);
    texts keys;
    switch (f->at) {
    case C_OPEN: return b == '{' ? move(f, C_FIRST) : DEAD;
    case C_FIRST:
    case C_NEXT:
        if (space(f, b))
            return TAKEN;
        if (b == '}' && f->at == C_FIRST && !keys_left(g, node, 0))
            return LAST;
        move(f, C_KEY);
        f->pos = 0;
        __attribute__((fallthrough));
    case C_KEY:
        keys = keys_of(g, node, f->count);
        if (text_step(&keys, f, b) == DEAD)
            return DEAD;
        if (b == '"' && f->pos > 1) {
            int key = text_whole(&keys, f);
            if (key < 0)
                return TAKEN; /* an escaped quote inside a key */
            f->count = (uint16_t)((uint32_t)key - node->first + 1);
            f->match = f->pos = 0;
            return move(f, C_COLON);
        }
        return TAKEN;
    case C_COLON: return b == ':' ? move(f, C_VALUE) : DEAD;
    case C_VALUE:
        return space(f, b) ? TAKEN : begin(t, g->children[node->first + f->count - 1].node);
    default:
        if (space(f, b))
            return TAKEN;
        if (b == '}')
            return keys_left(g, node, f->count) ? DEAD : LAST;
        return b == ',' && f->count < node->count ? move(f, C_NEXT) : DEAD;
    }
}

static verdict map_step(const lac__node *node, lac__thread *t, uint8_t b)
{
    lac__frame *f = top_of(t);
    verdict v;
    switch (f->at) {
    case C_OPEN: return b == '{' ? move(f, C_FIRST) : DEAD;
    case C_FIRST:
    case C_NEXT:
        if (space(f, b))
            return TAKEN;
        if (b == '}' && f->at == C_FIRST)
            return LAST;
        if (b != '"' || t->depth == LAC__STACK_MAX)
            return DEAD;
        v = begin(t, LAC__N_STRING);
        f->at = C_COLON;
        return v;
    case C_COLON: return b == ':' ? move(f, C_VALUE) : DEAD;
    case C_VALUE: return space(f, b) ? TAKEN : begin(t, node->value);
    default:
        if (space(f, b))
            return TAKEN;
        return b == '}' ? LAST : b == ',' ? move(f, C_NEXT) : DEAD;
    }
}

static verdict array_step(const lac__node *node, lac__thread *t, uint8_t b)
{
    lac__frame *f = top_of(t);
    switch (f->at) {
    case C_OPEN: return b == '[' ? move(f, C_FIRST) : DEAD;
    case C_FIRST:
    case C_NEXT:
        if (space(f, b))
            return TAKEN;
        if (b == ']' && f->at == C_FIRST)
            return node->min == 0 ? LAST : DEAD;
        if (node->max == 0)
            return DEAD;
        if (node->max != LAC__NO_MAX || f->count < node->min)
            f->count++;
        return begin(t, node->value);
    default:
        if (space(f, b))
            return TAKEN;
        if (b == ']')
            return f->count >= node->min ? LAST : DEAD;
        if (b != ',' || (node->max != LAC__NO_MAX && f->count == node->max))
            return DEAD;
        return move(f, C_NEXT);
    }
}

/* ---- readings ---- */

static bool same(const lac__thread *a, const lac__thread *b)
{
    return a->depth == b->depth && memcmp(a->stack, b->stack, a->depth * sizeof a->stack[0]) == 0;
}

/* One more reading than there is room for is left out: the answer then follows one of the others.
 */
static void keep(const lac__thread *t, lac__place *out)
{
    for (uint32_t i = 0; i < out->count; i++)
        if (same(&out->threads[i], t))
            return;
    if (out->count == LAC__THREADS_MAX)
        return;
    lac__thread *to = &out->threads[out->count++];
    to->depth = t->depth;
    memcpy(to->stack, t->stack, t->depth * sizeof t->stack[0]);
}

static verdict frame_step(const lac_grammar *g, lac__thread *t, uint8_t b)
{
    lac__frame *f = top_of(t);
    const lac__node *node = &g->nodes[f->node];
    switch (node->kind) {
    case LAC__OBJECT: return object_step(g, node, t, b);
    case LAC__MAP: return map_step(node, t, b);
    case LAC__ARRAY: return array_step(node, t, b);
    case LAC__STRING: return string_step(node, f, b);
    case LAC__NUMBER:
    case LAC__INTEGER: return number_step(node, f, b);
    case LAC__LITERALS: return literal_step(g, node, f, b);
    case LAC__ANY_OF: break;
    }
    LAC_ASSERT(!"alternatives are taken apart before");
    return DEAD;
}

/* The byte's effect on one reading, which becomes as many as there are alternatives. Recursion goes
 * through alternatives inside alternatives, whose depth the schema bounds. */
static void thread_feed(const lac_grammar *g, const lac__thread *in, uint8_t b, lac__place *out)
{
    lac__thread t = {.depth = in->depth};
    memcpy(t.stack, in->stack, in->depth * sizeof in->stack[0]);
    while (t.depth > 0) {
        const lac__node *node = &g->nodes[top_of(&t)->node];
        if (node->kind == LAC__ANY_OF) {
            for (uint32_t i = 0; i < node->count; i++) {
                *top_of(&t) = (lac__frame){.node = g->children[node->first + i].node};
                thread_feed(g, &t, b, out);
            }
            return;
        }
        uint32_t depth = t.depth;
        verdict v = frame_step(g, &t, b);
        if (v == DEAD)
            return;
        if (v == LAST)
            t.depth--;
        if (v != OVER) {
            keep(&t, out);
            return;
        }
        if (t.depth == depth) /* not a value that began: one that ended */
            t.depth--;
    }
}

bool lac__place_feed(const lac_grammar *g, const lac__place *in, uint8_t byte, lac__place *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < in->count; i++)
        thread_feed(g, &in->threads[i], byte, out);
    return out->count > 0;
}

void lac__place_start(const lac_grammar *g, lac__place *out)
{
    out->count = 1;
    out->threads[0].depth = 0;
    push(&out->threads[0], g->root);
}

void lac__place_copy(const lac__place *from, lac__place *to)
{
    to->count = from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        to->threads[i].depth = from->threads[i].depth;
        memcpy(to->threads[i].stack, from->threads[i].stack,
               from->threads[i].depth * sizeof from->threads[i].stack[0]);
    }
}

/* Only the outermost value is open, and it may end where it is. */
static bool may_end(const lac_grammar *g, const lac__thread *t)
{
    if (t->depth != 1)
        return t->depth == 0;
    const lac__frame *f = &t->stack[0];
    const lac__node *node = &g->nodes[f->node];
    if (node->kind == LAC__LITERALS) {
        texts all = literals_of(g, node);
        return f->pos > 0 && text_whole(&all, f) >= 0;
    }
    return (node->kind == LAC__NUMBER || node->kind == LAC__INTEGER) && number_may_end(f);
}

bool lac__place_complete(const lac_grammar *g, const lac__place *place)
{
    for (uint32_t i = 0; i < place->count; i++)
        if (may_end(g, &place->threads[i]))
            return true;
    return false;
}

bool lac__place_in_string(const lac_grammar *g, const lac__place *place, uint32_t *room)
{
    if (place->count != 1 || place->threads[0].depth == 0)
        return false;
    const lac__frame *f = &place->threads[0].stack[place->threads[0].depth - 1];
    const lac__node *node = &g->nodes[f->node];
    if (node->kind != LAC__STRING || f->at != S_BODY)
        return false;
    *room = node->max == LAC__NO_MAX ? UINT32_MAX : (uint32_t)(node->max - f->count);
    return true;
}

/* ---- a sequence's state ---- */

lac_grammar_state *lac_grammar_state_create(lac_grammar *grammar)
{
    atomic_fetch_add(&grammar->holders, 1);
    lac_grammar_state *state = lac_alloc(1, sizeof *state);
    state->grammar = grammar;
    lac__place_start(grammar, &state->place);
    return state;
}

void lac_grammar_state_destroy(lac_grammar_state **state)
{
    if (!*state)
        return;
    lac_grammar_destroy(&(*state)->grammar);
    free(*state);
    *state = NULL;
}

bool lac_grammar_feed(lac_grammar_state *state, const char *bytes, size_t length)
{
    lac__place *now = &state->scratch[0], *next = &state->scratch[1];
    lac__place_copy(&state->place, now);
    for (size_t i = 0; i < length; i++) {
        if (!lac__place_feed(state->grammar, now, (uint8_t)bytes[i], next))
            return false;
        lac__place *swap = now;
        now = next;
        next = swap;
    }
    lac__place_copy(now, &state->place);
    return true;
}

bool lac_grammar_complete(const lac_grammar_state *state)
{
    return lac__place_complete(state->grammar, &state->place);
}
