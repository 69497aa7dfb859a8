/* What a request is made of, decided from bytes alone: features of the text, the input type, the
 * task hint, the fingerprint, and the cache of decisions taken for fingerprints. Seen by this
 * folder and its tests only. Pure; the loop thread owns the one cache. Knows no message, group or
 * plan. */
#ifndef LAC_CORE_TYPE_H
#define LAC_CORE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/msg.h"

/* ---- features ---- */

enum {
    /* Bytes looked at, whatever the length: the time a decision takes has to be bounded. */
    LAC__HEAD_BYTES = 2048,
    LAC__MIDDLE_BYTES = 1024,
    LAC__TAIL_BYTES = 1024,
    LAC__SAMPLE_BYTES = LAC__HEAD_BYTES + LAC__MIDDLE_BYTES + LAC__TAIL_BYTES
};

/* All of them are integers 0 … 1000, so that a threshold means the same on every machine. */
typedef enum {
    /* Byte classes, shares of all bytes. */
    LAC__F_LETTERS,
    LAC__F_DIGITS,
    LAC__F_SPACE,
    LAC__F_PUNCTUATION,
    LAC__F_HIGH, /* bytes of characters outside ASCII */
    /* Order. */
    LAC__F_ENTROPY,    /* of bytes; 1000 = 8 bits */
    LAC__F_COLUMNS,    /* positional: of the byte class in each of the first columns of a line */
    LAC__F_REPEATS,    /* bytes covered by earlier text: what a compressor would save */
    LAC__F_SHAPES,     /* lines whose shape a recent line had */
    LAC__F_DELIMITERS, /* lines with as many delimiters as the line before */
    /* Marks: shares of the bytes in lines of that kind, blank lines apart. */
    LAC__F_JSON,
    LAC__F_XML,
    LAC__F_YAML,
    LAC__F_TABLE, /* CSV, TSV */
    LAC__F_LOG,
    LAC__F_MARKDOWN_TABLE,
    LAC__F_CODE,
    LAC__F_PROSE,
    /* Combined, so that a shallow tree suffices. */
    LAC__F_DATA,   /* the first six marks together */
    LAC__F_MIXED,  /* the lesser of prose and all that is not prose, twice: 1000 = half and half */
    LAC__F_LEADER, /* 500 + half of (code − data) */
    LAC__FEATURES
} lac__feature;

typedef struct {
    uint16_t value[LAC__FEATURES];
} lac__features;

/* Reads at most LAC__SAMPLE_BYTES of the text: head, middle and tail. Any bytes will do. */
void lac__features_read(const char *text, size_t length, lac__features *out);
const char *lac__feature_name(lac__feature feature);
/* The byte entropy in hundredths of a bit. */
uint32_t lac__features_entropy(const lac__features *features);

/* lines.c: the bytes of the sample by kind of line. */
typedef enum {
    LAC__LINE_BLANK,
    LAC__LINE_NEUTRAL, /* says nothing alone: a lone bracket, a number */
    LAC__LINE_JSON,
    LAC__LINE_XML,
    LAC__LINE_YAML,
    LAC__LINE_TABLE,
    LAC__LINE_LOG,
    LAC__LINE_MARKDOWN_TABLE,
    LAC__LINE_CODE,
    LAC__LINE_PROSE,
    LAC__LINE_STAMPED, /* a time and then a sentence: chat, or a log's template */
    LAC__LINE_KINDS
} lac__line_kind;

enum { LAC__COLUMNS = 16, LAC__COLUMN_CLASSES = 8, LAC__SHAPES_KEPT = 64 };

/* Zero at first; `lac__lines_add` once a slice. */
typedef struct {
    uint32_t bytes[LAC__LINE_KINDS];
    uint32_t lines, shape_repeats, delimiter_repeats;
    uint32_t columns[LAC__COLUMNS][LAC__COLUMN_CLASSES];
    /* What the lines before leave for the next. */
    uint32_t shapes[LAC__SHAPES_KEPT];
    uint16_t delimiters[4];
    uint32_t keys[4], keys_count;
    lac__line_kind last;
    bool comment, quoted, fenced;
} lac__lines;
void lac__lines_add(lac__lines *lines, const uint8_t *text, size_t length);

/* ---- type ---- */

typedef enum {
    LAC__TYPE_UNKNOWN, /* no bytes to judge by: token ids, an empty text */
    LAC__TYPE_STRUCTURED,
    LAC__TYPE_UNSTRUCTURED,
    LAC__TYPE_HYBRID,
    LAC__TYPE_CODE,
    LAC__TYPES
} lac__type;

/* One row of the decision tree, from type_tree.inc. A child is a row, or a type as −type. */
typedef struct {
    lac__feature feature;
    uint16_t at_most; /* value ≤ this: `low`, else `high` */
    int8_t low, high;
} lac__tree_row;

enum { LAC__TREE_DEPTH = 3 };
extern const lac__tree_row lac__tree[];
extern const size_t lac__tree_rows;

lac__type lac__type_of(const lac__features *features);
/* The path through the tree as text: "code 12 <= 420, data 930 > 500". */
void lac__type_reason(const lac__features *features, char *out, size_t size);
const char *lac__type_name(lac__type type);

/* ---- fingerprint ---- */

typedef enum {
    LAC__HINT_NONE,
    LAC__HINT_SUMMARIZE,
    LAC__HINT_EXTRACT,
    LAC__HINT_COMPARE,
    LAC__HINT_CLASSIFY,
    LAC__HINT_GENERATE,
    LAC__HINTS
} lac__hint;
const char *lac__hint_name(lac__hint hint);

enum { LAC__BUCKETS = 8 };
/* Upper bound of a bucket in estimated tokens (four bytes each); 0 = none. */
uint32_t lac__bucket_tokens(uint8_t bucket);

typedef struct {
    lac__type type;
    lac__hint hint;
    uint8_t bucket; /* < LAC__BUCKETS, by the length of the whole prompt */
} lac__fingerprint;

/* Of the largest user message (else the largest message), or of the prompt's text. Sampling never
 * enters, and phrases of urgency or manner at the ends of the text are cut off before anything is
 * measured. `features` (may be NULL) are those the type was decided by. */
void lac__fingerprint_of(const lac_prompt *prompt, lac__fingerprint *out, lac__features *features);
/* SHA-256 of its canonical bytes. */
void lac__fingerprint_key(const lac__fingerprint *fingerprint, lac_digest *out);

/* hint.c: the task that a text's instruction names, looked for in its first and last bytes; and the
 * span without phrases of urgency and manner at its ends. */
lac__hint lac__hint_of(const char *text, size_t length);
lac_span lac__hint_trim(lac_span text);

/* ---- decisions ---- */

/* All that a decision depends on. Two entries with different digests are different entries, so one
 * taken under another plan or model can never be found. */
typedef struct {
    lac_digest fingerprint, plan, model;
} lac__decision_key;

typedef struct {
    uint8_t class_number; /* 0 = full */
    uint8_t why;          /* the decider's own code */
} lac__decision;

typedef struct lac__decisions lac__decisions;
/* `entries` ≥ 1 is the bound; all memory is taken here. */
lac__decisions *lac__decisions_create(uint32_t entries);
void lac__decisions_destroy(lac__decisions **cache);
/* False when it is not there. */
bool lac__decisions_find(lac__decisions *cache, const lac__decision_key *key, lac__decision *out);
/* Replaces one of the same key; a full cache forgets one that was not asked for lately. */
void lac__decisions_put(lac__decisions *cache, const lac__decision_key *key,
                        const lac__decision *decision);
void lac__decisions_clear(lac__decisions *cache);
uint32_t lac__decisions_count(const lac__decisions *cache);

#endif
