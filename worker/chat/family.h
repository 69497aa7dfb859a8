/* The form of a chat family's row, shared by the table, recognition and rendering. */
#ifndef LAC__CHAT_FAMILY_H
#define LAC__CHAT_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

#include "chat/chat.h"

/* Marks inside a pattern where texts are put in. Control characters, so that no pattern needs an
 * escape; as macros, so that they stand inside string literals. */
#define TEXT   "\1" /* the message's content */
#define SYSTEM "\2" /* the system message's, where it lies inside another message */
#define BOS    "\3"
#define EOS    "\4"

/* What becomes of system messages. */
typedef enum {
    LAC__SYSTEM_TURN,       /* a turn of its own, wherever it stands */
    LAC__SYSTEM_LEADING,    /* the first message's is in `begin`; later ones are turns */
    LAC__SYSTEM_IN_FIRST,   /* the first message's is inside the first user message; no other */
    LAC__SYSTEM_IN_LAST,    /* … inside the user message that ends the conversation; no other */
    LAC__SYSTEM_JOINED,     /* all of them, joined by blank lines, are in `begin` */
    LAC__SYSTEM_LAST_LEADS, /* the last of them is in `begin` */
    LAC__SYSTEM_REFUSED     /* the template raises */
} lac__system_mode;

struct lac_chat_family {
    const char *name;
    const char *all[4];  /* texts that the template must contain */
    const char *none[4]; /* and must not */
    lac__system_mode mode;
    bool alternate; /* user and assistant must take turns, user first */
    bool trim;      /* contents lose white space at both ends (system text in a user turn not) */
    bool trim_assistant;    /* only the assistant's do */
    bool trim_user_turn;    /* the user's do, after the system text was put in */
    bool skip_empty_system; /* an empty system message prints nothing */
    bool drop_thoughts; /* of an assistant's content only what follows the last </think> counts */
    const char *begin;  /* before everything */
    const char *system, *user, *assistant; /* patterns of one turn */
    const char *user_system;   /* stands for TEXT in the user turn that holds the system text */
    const char *generation;    /* the end, when an answer is asked for */
    const char *no_generation; /* and when it is not */
    /* Where the template knows functions in a form of its own; NULL where calls and results are put
     * into the texts of other turns (lower.c). */
    lac_calls_form calls;              /* NONE stands for HERMES, which any model can be told */
    const char *begin_tools;           /* instead of `begin` */
    const char *tools, *call, *result; /* patterns of a turn */
    lac_thinks thinks;
    bool keep_thoughts; /* of answers since the last question: as Qwen3 does */
};

/* Messages as families without words for functions can say them, in memory of its own. */
typedef struct {
    lac_chat_message *messages;
    size_t *origins; /* which message of the ask each came from, for error texts */
    size_t *starts;  /* while it is made: where in `text` a content begins; SIZE_MAX = not there */
    size_t count;
    lac_buf text; /* what the contents point into where they are not the ask's own */
} lac__lowered;
lac_status lac__chat_lower(const lac_chat_family *family, const lac_chat_context *context,
                           const lac_chat_ask *ask, lac__lowered *out, lac_error *err);
void lac__lowered_free(lac__lowered *lowered);
/* The template's own system text, its escapes taken away. */
void lac__chat_default_system(const lac_chat_context *context, lac_buf *out);

extern const lac_chat_family lac__chat_families[];
extern const size_t lac__chat_families_count;

#endif
