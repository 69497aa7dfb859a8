/* A stand-in for engine and tokenizer with an engine's manners and no arithmetic: each step gives
 * every running sequence one token, number and text made from its position. */
#ifndef LAC_TESTS_FAKE_ENGINE_H
#define LAC_TESTS_FAKE_ENGINE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    FAKE_VOCAB = 1000,
    FAKE_CONTEXT = 100000,
    FAKE_SLOTS = 8,
    FAKE_PROMPT_BUSY = 998,  /* a prompt that starts with it is answered LAC_BUSY */
    FAKE_PROMPT_FAULT = 997, /* ends with an error after three tokens */
    FAKE_PROMPT_RERUN = 996, /* ends as full, whatever class it began as */
    FAKE_SHADOW_STEPS = 50,  /* of one score */
    FAKE_TOKEN_BASE = 100    /* token at position p is FAKE_TOKEN_BASE + p % 100 */
};

/* In memory that the test shares with the rank's process. */
typedef struct {
    _Atomic uint32_t step_us; /* how long a step takes */
    _Atomic uint64_t steps, submitted, cancelled, running;
    _Atomic uint64_t shadow_starts, shadow_stops;
    /* Of one rank of several. */
    _Atomic uint32_t hold_load;  /* loading does not end while it is set */
    _Atomic uint32_t load_fails; /* and then fails */
    _Atomic uint32_t group_over, let_go;
    _Atomic uint32_t fabrics, met; /* open now; addresses given to connect */
} fake_state;
extern fake_state *fake;

#endif
