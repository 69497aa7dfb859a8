/* What the ranks of one group say to each other during a step: hidden rows, sums, step orders,
 * results. Moves raw bytes; knows no model, no engine, no coordinator.
 *
 * A communicator joins ranks 0 … ranks−1 of one incarnation. Every message carries its incarnation
 * and the number of the step it belongs to, and every call a deadline: nothing waits for ever, and
 * nothing that belongs elsewhere is taken. One thread at a time may use a communicator (it may be a
 * different one each time).
 *
 * Errors say what must be rebuilt:
 *   LAC_EDEADLINE  nothing came in time. A receive took nothing and may be tried again; after any
 *                  other call the ranks are out of step.
 *   LAC_EEPOCH     a message of another step or incarnation came: refused and dropped.
 *   LAC_EPEER      a rank is gone, or one of them called abort: the incarnation is over.
 *   LAC_EPROTO     a message of another size or form: the ranks do not run the same program.
 * After LAC_EPEER every later call fails at once with the same text. Whoever meets any of them
 * (but for a receive's deadline) calls abort, so that nobody else has to wait for the deadline. */
#ifndef LAC_FABRIC_H
#define LAC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct lac_fabric lac_fabric;

typedef struct {
    uint32_t rank, ranks; /* 1 … LAC_RANKS_MAX */
    uint8_t incarnation[16];
} lac_fabric_options;

typedef struct {
    uint32_t step;        /* equal on sender and receiver */
    uint64_t deadline_ns; /* lac_now_ns() at which the call gives up */
} lac_fabric_call;

/* The ranks first … first+count−1, this one among them: who takes part in a collective. */
typedef struct {
    uint32_t first, count;
} lac_fabric_span;

/* Each kind of message is a queue of its own between two ranks: an order may overtake rows. */
typedef enum {
    LAC_FABRIC_ROWS,   /* hidden rows from stage to stage */
    LAC_FABRIC_RESULT, /* what a step gave */
    LAC_FABRIC_ORDERS, /* used by broadcast */
    LAC_FABRIC_SUMS    /* used by all_reduce, all_gather and barrier */
} lac_fabric_channel;

/* How bytes reach a rank. */
typedef enum { LAC_FABRIC_SELF, LAC_FABRIC_MEMORY, LAC_FABRIC_NETWORK } lac_fabric_lane;

/* One rank: the null fabric, which has nobody to talk to. More: UCX. LAC_EINVAL names the field;
 * LAC_EUNSUPPORTED for more than one rank when the program was built without UCX. */
lac_status lac_fabric_open(const lac_fabric_options *options, lac_fabric **out, lac_error *err);
/* After a successful connect it says goodbye and waits up to a second for the others to do so. */
void lac_fabric_close(lac_fabric **fabric);

/* Where this rank can be reached: at most LAC_FABRIC_BLOB_MAX bytes that only other ranks
 * understand. Lives as long as the fabric. */
const void *lac_fabric_address(const lac_fabric *fabric, size_t *bytes);

typedef struct {
    const void *data;
    size_t bytes;
} lac_fabric_blob;
/* Joins the ranks whose addresses these are, in order of rank, and waits until all are there.
 * LAC_EINVAL for something that is no address, LAC_EPROTO for another version of the fabric,
 * LAC_EEPOCH for another incarnation; each names the rank and both values. */
lac_status lac_fabric_connect(lac_fabric *fabric, const lac_fabric_blob *addresses,
                              uint64_t deadline_ns, lac_error *err);

uint32_t lac_fabric_rank(const lac_fabric *fabric);
uint32_t lac_fabric_ranks(const lac_fabric *fabric);
const char *lac_fabric_name(const lac_fabric *fabric); /* "null", "ucx" */
/* Ranks of one host (by its boot id, not its name) are reached through memory. */
lac_fabric_lane lac_fabric_lane_of(const lac_fabric *fabric, uint32_t rank);

/* Starts to send. The bytes stay untouched until settle() returned. */
lac_status lac_fabric_send(lac_fabric *fabric, uint32_t to, lac_fabric_channel channel,
                           lac_fabric_call call, const void *data, size_t bytes, lac_error *err);
/* Waits until everything sent so far may be overwritten. */
lac_status lac_fabric_settle(lac_fabric *fabric, lac_fabric_call call, lac_error *err);
/* Takes the next message from a rank: exactly `bytes` long when `got` is NULL, else at most that,
 * and *got is its length. */
lac_status lac_fabric_receive(lac_fabric *fabric, uint32_t from, lac_fabric_channel channel,
                              lac_fabric_call call, void *data, size_t bytes, size_t *got,
                              lac_error *err);

/* The root's bytes go to everybody. The root gives data and *bytes; the others room for `room`
 * bytes and are told *bytes. The root does not wait for them. */
lac_status lac_fabric_broadcast(lac_fabric *fabric, uint32_t root, lac_fabric_call call, void *data,
                                size_t room, size_t *bytes, lac_error *err);
/* x[i] = sum over the span's ranks, added in order of rank whatever the size: the same bits on
 * every rank. */
lac_status lac_fabric_all_reduce(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                                 float *x, size_t count, lac_error *err);
/* all[i × bytes …] = what the i-th rank of the span gave. */
lac_status lac_fabric_all_gather(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                                 const void *mine, size_t bytes, void *all, lac_error *err);
/* Returns when all ranks of the span have come this far. */
lac_status lac_fabric_barrier(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                              lac_error *err);

/* Ends the incarnation for everybody: the others' running and later calls fail with this reason.
 * Never waits; a no-op on one that has failed already. */
void lac_fabric_abort(lac_fabric *fabric, const char *reason);
/* LAC_OK while nobody is known to be gone. Does not wait. */
lac_status lac_fabric_health(lac_fabric *fabric, lac_error *err);

/* ---- faults, for tests ---- */

typedef enum {
    LAC_FAULT_DELAY,  /* the call starts `ms` later */
    LAC_FAULT_DROP,   /* a send sends nothing and says it did */
    LAC_FAULT_HANG,   /* never returns */
    LAC_FAULT_DEATH,  /* the process dies as by kill -9 */
    LAC_FAULT_VERSION /* its address speaks another version; `call` is ignored */
} lac_fabric_fault_kind;

typedef struct {
    lac_fabric_fault_kind kind;
    uint32_t call; /* how many calls go well before it, counted from 0 over all kinds of call */
    uint32_t ms;
} lac_fabric_fault;

/* Wraps a fabric that is not yet connected and takes it over. */
lac_fabric *lac_fabric_faulty(lac_fabric *inner, lac_fabric_fault fault);

#endif
