/* This process as one rank of several: what it is to hold, where the others reach it, and the
 * fabric between them. The link thread makes it and takes the coordinator's word; the engine thread
 * meets the others and parts from them. Knows no socket and no session. */
#ifndef LAC_LINK_RANK_H
#define LAC_LINK_RANK_H

#include "base/msg.h"
#include "engine/engine.h"
#include "link/classes.h"

typedef struct lac_rank lac_rank;

typedef struct {
    uint32_t rank, pp, tp;  /* rank < pp × tp, ≥ 2 ranks */
    const char *model_name; /* "" = the model's own */
    const lac_classes *classes;
    const lac_engine_options *engine; /* as this rank was told; both outlive it */
} lac_rank_options;

/* Places the model over the ranks and fills what the Hello says before anything is loaded. Errors
 * of model, plan and placement are those that would come later. */
lac_status lac_rank_create(const lac_rank_options *options, lac_hello *hello, lac_rank **out,
                           lac_error *err);
/* Not while an engine thread may use it. */
void lac_rank_destroy(lac_rank **rank);

/* Where the others reach it under that incarnation; lives as long as the rank. Once it has met them
 * the incarnation cannot change: LAC_EEPOCH. */
lac_status lac_rank_open(lac_rank *rank, const uint8_t incarnation[16], lac_span *address,
                         lac_error *err);
/* Takes the config and the addresses; sets in *engine what the config says. LAC_EEXIST: it was told
 * the same before. LAC_EPROTO: another config than before, or one that is not what its digest says.
 * LAC_EINVAL: it contradicts what this rank was told, naming both. */
lac_status lac_rank_form(lac_rank *rank, const lac_form *form, lac_engine_options *engine,
                         lac_error *err);
/* Engine thread: joins the others and gives the engine its place among them. The argument is the
 * rank. */
lac_status lac_rank_meet(void *rank, lac_engine_options *engine, lac_error *err);
/* Engine thread, when the engine is gone: leaves them. */
void lac_rank_part(void *rank);
/* Once loaded: what the Hello says from then on. */
void lac_rank_formed(const lac_rank *rank, const lac_engine *engine, lac_hello *hello);

#endif
