/* A compiled schema and a place in it, shared inside this folder. */
#ifndef LAC__GRAMMAR_PARTS_H
#define LAC__GRAMMAR_PARTS_H

#include "base/digest.h"
#include "grammar/grammar.h"

enum {
    LAC__NODES_MAX = 2048,
    LAC__CHILDREN_MAX = 8192, /* properties and alternatives of all nodes */
    LAC__LITERALS_MAX = 4096, /* of all nodes */
    LAC__PROPERTIES_MAX = 64, /* of one object */
    LAC__ENUM_MAX = 256,      /* values of one enum */
    LAC__LITERAL_BYTES_MAX = 1024,
    LAC__ANY_OF_MAX = 16,
    LAC__SCHEMA_DEPTH_MAX = 16, /* values inside values that the schema speaks of */
    LAC__STACK_MAX = 40,        /* the same in an answer, keys included */
    LAC__THREADS_MAX = 16,      /* readings of one answer that are still possible */
    LAC__COUNT_MAX = 60000,     /* of maxItems, maxLength, … */
    LAC__SPACES_MAX = 17,       /* in a row: a line break and an indentation */
    LAC__DIGITS_MAX = 15,       /* in a row, so that numbers end */
    LAC__EXPONENT_DIGITS_MAX = 2,
    LAC__WORD_BYTES_MAX = 128 /* of a token that may be chosen */
};

typedef enum {
    LAC__ANY_OF,
    LAC__OBJECT, /* the properties of the schema, in its order */
    LAC__MAP,    /* any keys, one schema for the values */
    LAC__ARRAY,
    LAC__STRING,
    LAC__NUMBER,
    LAC__INTEGER,
    LAC__LITERALS /* one of some texts: enum, const, true, false, null */
} lac__kind;

enum { LAC__NO_MAX = UINT16_MAX };

/* A piece of the grammar's own text. */
typedef struct {
    uint32_t at, length;
} lac__text;

typedef struct {
    uint16_t node;
    bool required;
    lac__text key; /* with its quotes */
} lac__child;

typedef struct {
    lac__kind kind;
    uint16_t min, max;     /* items, or characters; LAC__NO_MAX = no bound */
    uint16_t value;        /* node of items, or of a map's values */
    uint16_t first, count; /* children, or literals */
} lac__node;

/* Nodes every grammar begins with. */
enum {
    LAC__N_ANY,
    LAC__N_ANY_MAP,
    LAC__N_ANY_ARRAY,
    LAC__N_STRING,
    LAC__N_NUMBER,
    LAC__N_CONSTANT,
    LAC__N_OWN
};

struct lac_grammar {
    _Atomic uint32_t holders;
    lac_digest digest; /* of the schema's text: equal schemas share masks */
    uint32_t nodes_count, children_count, literals_count;
    uint16_t root;
    lac__node *nodes;
    lac__child *children;
    lac__text *literals;
    char *text;
    size_t text_length, text_size;
};

/* One value that is open. */
typedef struct {
    uint16_t node;
    uint8_t at;     /* where inside it: the enums in step.c */
    uint8_t run;    /* spaces, digits, or what a character still needs */
    uint16_t count; /* items, properties passed, characters */
    uint16_t match; /* literals and keys: the first that fits what came */
    uint16_t pos;   /* and how much of it came */
} lac__frame;

/* One reading. Depth 0: the value is complete. */
typedef struct {
    uint32_t depth;
    lac__frame stack[LAC__STACK_MAX];
} lac__thread;

/* All readings that are still possible; none: the bytes fit nowhere. */
typedef struct {
    uint32_t count;
    lac__thread threads[LAC__THREADS_MAX];
} lac__place;

struct lac_grammar_state {
    lac_grammar *grammar;
    lac__place place, scratch[2];
};

void lac__place_start(const lac_grammar *grammar, lac__place *out);
/* One byte; `out` is not `in`. False when no reading is left. */
bool lac__place_feed(const lac_grammar *grammar, const lac__place *in, uint8_t byte,
                     lac__place *out);
bool lac__place_complete(const lac_grammar *grammar, const lac__place *place);
void lac__place_copy(const lac__place *from, lac__place *to);
/* Inside a string, between two characters, and in one reading only: then *room is how many more
 * characters fit, UINT32_MAX without a bound. */
bool lac__place_in_string(const lac_grammar *grammar, const lac__place *place, uint32_t *room);

#endif
