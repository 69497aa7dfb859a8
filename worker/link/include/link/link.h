/* The process of one rank: the link thread (libuv, ZeroMQ) that speaks with the coordinator, and
 * the engine thread behind it. Create loads the model; run serves until told to stop. All calls are
 * for the main thread, which becomes the link thread. */
#ifndef LAC_LINK_H
#define LAC_LINK_H

#include "base/limits.h"
#include "base/status.h"
#include "engine/engine.h"

typedef struct lac_link lac_link;

typedef struct {
    const char *coordinator; /* "tcp://HOST:PORT" */
    const char *group;       /* [A-Za-z0-9._-]+ */
    uint32_t rank, pp, tp;   /* rank < pp × tp */
    const char *model_name;  /* "" = the model's own */
    const char *chat_family; /* "" = recognised from the model's template */
    const char *key, *server_key; /* files; both or neither ("" each) */
    uint8_t incarnation[16]; /* drawn by who started this rank; zero = the coordinator gives one */
    const char *plan;        /* file of classes; "" = full alone */
    lac_engine_options engine;
} lac_link_options;

/* Copies nothing: the texts outlive the link. Errors of the model, the family's name and the
 * endpoint are reported here; an absent coordinator is not an error, the link keeps trying. One of
 * several ranks loads nothing yet: it does so when all of them are there. */
lac_status lac_link_create(const lac_link_options *options, lac_link **out, lac_error *err);
void lac_link_destroy(lac_link **link);

/* Serves until drained (SIGTERM, SIGINT or the coordinator's Drain): 0; told to die, or another rank
 * of its group is lost: LAC_LINK_EXIT_DIED; refused for good: LAC_LINK_EXIT_REJECTED. A second signal
 * ends the process at once with 128 + its number. One of several ranks does not return when it ends
 * otherwise than in order: it exits. */
enum { LAC_LINK_EXIT_REJECTED = 1, LAC_LINK_EXIT_DIED = 3 };
int lac_link_run(lac_link *link);

#endif
