/* Answers that must be JSON of a given schema: which bytes may follow, and so which tokens of a
 * vocabulary. Pure: no model, no file, no clock.
 *
 * A grammar is made from the text of a JSON Schema (which keywords: README.md) and then read-only,
 * for any number of sequences in any thread. A state belongs to one sequence. Words belong to one
 * vocabulary and one thread: their cache of masks is shared by all sequences. */
#ifndef LAC_GRAMMAR_H
#define LAC_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct lac_grammar lac_grammar;

/* LAC_EINVAL for what is no schema, LAC_EUNSUPPORTED for a keyword that would change the answer and
 * is not known, LAC_ETOOBIG over a bound; the text names the place in the schema. Any thread. */
lac_status lac_grammar_create(const char *schema, size_t length, lac_grammar **out, lac_error *err);
/* Lets go of it: it lives as long as a state does. Accepts NULL, clears the pointer. */
void lac_grammar_destroy(lac_grammar **grammar);

typedef struct lac_grammar_state lac_grammar_state;

/* At the beginning of the answer. Holds the grammar, whose maker may let go of it. */
lac_grammar_state *lac_grammar_state_create(lac_grammar *grammar);
void lac_grammar_state_destroy(lac_grammar_state **state);
/* Takes the next bytes; false when they cannot follow, and the state stays as it was. */
bool lac_grammar_feed(lac_grammar_state *state, const char *bytes, size_t length);
/* What was fed is a whole value: the answer may end here. */
bool lac_grammar_complete(const lac_grammar_state *state);

typedef struct lac_words lac_words;

/* The bytes of a token, perhaps none; they must live as long as the words. */
typedef void (*lac_words_piece)(void *arg, uint32_t id, const char **bytes, size_t *length);
/* `ends`: tokens that end an answer, allowed where a value is complete and nowhere else. */
lac_words *lac_words_create(uint32_t vocab, lac_words_piece piece, void *arg, const uint32_t *ends,
                            size_t ends_count);
void lac_words_destroy(lac_words **words);
/* Which tokens may follow: a bit each, [(vocab + 63) / 64] words, valid until the next call.
 * *count of them. Tokens without bytes, or over 128 of them, never may. */
const uint64_t *lac_words_mask(lac_words *words, const lac_grammar_state *state, uint32_t *count);

/* How often a mask was found and made, and the bytes fed to make them. */
typedef struct {
    uint64_t hits, misses, fed;
    size_t bytes; /* memory held */
} lac_words_stats;
void lac_words_stats_read(const lac_words *words, lac_words_stats *out);

#endif
