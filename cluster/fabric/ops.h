/* What an implementation fills: one table of functions. Internal to cluster/fabric. Ranks, sizes
 * and spans have been checked by fabric.c when these are called. */
#ifndef LAC_FABRIC_OPS_H
#define LAC_FABRIC_OPS_H

#include <poll.h>

#include "fabric/fabric.h"

enum {
    LAC__FABRIC_VERSION = 1,
    LAC__FABRIC_HEAD = 76, /* bytes before the transport's own address */
    LAC__BOOT_ID = 36,
};

typedef struct {
    const char *name;
    void (*destroy)(lac_fabric *fabric); /* frees it */
    /* addresses[i] is what the transport of rank i gave; memory[i]: it runs on this host. May take
     * its time; the deadline is the barrier's that follows. */
    lac_status (*connect)(lac_fabric *fabric, const lac_fabric_blob *addresses, const bool *memory,
                          uint64_t deadline_ns, lac_error *err);
    lac_fabric_lane (*lane)(const lac_fabric *fabric, uint32_t rank);
    lac_status (*send)(lac_fabric *fabric, uint32_t to, lac_fabric_channel channel,
                       lac_fabric_call call, const void *data, size_t bytes, lac_error *err);
    lac_status (*settle)(lac_fabric *fabric, lac_fabric_call call, lac_error *err);
    lac_status (*receive)(lac_fabric *fabric, uint32_t from, lac_fabric_channel channel,
                          lac_fabric_call call, void *data, size_t bytes, size_t *got,
                          lac_error *err);
    lac_status (*broadcast)(lac_fabric *fabric, uint32_t root, lac_fabric_call call, void *data,
                            size_t room, size_t *bytes, lac_error *err);
    lac_status (*all_reduce)(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                             float *x, size_t count, lac_error *err);
    lac_status (*all_gather)(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                             const void *mine, size_t bytes, void *all, lac_error *err);
    lac_status (*barrier)(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                          lac_error *err);
    void (*abort)(lac_fabric *fabric, const char *reason);
    lac_status (*health)(lac_fabric *fabric, lac_error *err);
} lac__fabric_ops;

/* The first member of every implementation. */
struct lac_fabric {
    const lac__fabric_ops *ops;
    uint32_t rank, ranks;
    uint8_t incarnation[16];
    bool connected;
    lac_error failure; /* status LAC_OK while it lives */
    /* Head and transport address, made at open. */
    uint8_t address[LAC_FABRIC_BLOB_MAX];
    size_t address_bytes;
    float *scratch; /* grows to the largest all_reduce */
    size_t scratch_count;
    /* A pidfd of each other rank whose process this one can see, else −1: readable once it ended,
     * reaped or not. */
    struct pollfd watched[LAC_RANKS_MAX];
};

/* Opens an implementation; `own` and *own_bytes take the transport's address. */
lac_status lac__null_open(lac_fabric **out);
#ifdef LAC_HAVE_UCX
lac_status lac__ucx_open(lac_fabric **out, uint8_t *own, size_t room, size_t *own_bytes,
                         lac_error *err);
#endif

/* Collectives made of send, receive and settle, for transports without their own. */
lac_status lac__collect_broadcast(lac_fabric *fabric, uint32_t root, lac_fabric_call call,
                                  void *data, size_t room, size_t *bytes, lac_error *err);
lac_status lac__collect_all_reduce(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                                   float *x, size_t count, lac_error *err);
lac_status lac__collect_all_gather(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                                   const void *mine, size_t bytes, void *all, lac_error *err);
lac_status lac__collect_barrier(lac_fabric *fabric, lac_fabric_span span, lac_fabric_call call,
                                lac_error *err);

/* Marks the fabric as failed (the first reason stays) and returns that failure through err. */
lac_status lac__fabric_fail(lac_fabric *fabric, lac_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A rank of this host whose process has ended, or −1. Does not wait; a system call. */
int lac__fabric_dead(lac_fabric *fabric);
/* The failure it has already, copied. */
lac_status lac__fabric_failed(const lac_fabric *fabric, lac_error *err);

#endif
