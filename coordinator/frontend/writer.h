/* How an endpoint says its answers. Loop thread; the functions are pure. */
#ifndef LAC__FRONTEND_WRITER_H
#define LAC__FRONTEND_WRITER_H

#include "reply.h"

typedef struct {
    const char *id_prefix;
    bool parts; /* the answer's text comes in parts (base/parts.h) */
    void (*whole)(const lac__answer *answer, const lac_usage *usage, const lac_run_account *account,
                  lac_buf *out);
    /* Of streams, NULL where there is nothing to say. Each appends JSON objects with a line break
     * after each but, where there is only one, the last: an event a line. */
    void (*first)(const lac__answer *answer, uint32_t index, lac_buf *out);
    void (*chunk)(const lac__answer *answer, uint32_t index, lac_buf *out);
    void (*last)(const lac__answer *answer, uint32_t index, lac_buf *out);
    void (*end)(const lac__answer *answer, const lac_usage *usage, const lac_run_account *account,
                lac_buf *out);
    bool named; /* events have their type as name, and no [DONE] follows */
} lac__writer;

/* Of every kind that an exchange may have. */
const lac__writer *lac__writer_of(lac__api_kind kind);

#endif
