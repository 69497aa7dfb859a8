/* The fabric of a group of one rank: every sum is its own, and there is nobody to send to. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "ops.h"

static void null_destroy(lac_fabric *f)
{
    free(f);
}

static lac_status null_connect(lac_fabric *f, const lac_fabric_blob *addresses, const bool *memory,
                               uint64_t deadline_ns, lac_error *err)
{
    (void)f, (void)addresses, (void)memory, (void)deadline_ns, (void)err;
    return LAC_OK;
}

static lac_fabric_lane null_lane(const lac_fabric *f, uint32_t rank)
{
    (void)f, (void)rank;
    return LAC_FABRIC_SELF;
}

/* send and receive are never reached: fabric.c asserts that the peer is another rank. */
static lac_status null_settle(lac_fabric *f, lac_fabric_call call, lac_error *err)
{
    (void)f, (void)call, (void)err;
    return LAC_OK;
}

static lac_status null_broadcast(lac_fabric *f, uint32_t root, lac_fabric_call call, void *data,
                                 size_t room, size_t *bytes, lac_error *err)
{
    (void)f, (void)root, (void)call, (void)data, (void)room, (void)bytes, (void)err;
    return LAC_OK;
}

static lac_status null_all_gather(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                  const void *mine, size_t bytes, void *all, lac_error *err)
{
    (void)f, (void)span, (void)call, (void)err;
    memcpy(all, mine, bytes);
    return LAC_OK;
}

static lac_status null_barrier(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                               lac_error *err)
{
    (void)f, (void)span, (void)call, (void)err;
    return LAC_OK;
}

static void null_abort(lac_fabric *f, const char *reason)
{
    (void)f, (void)reason;
}

static lac_status null_health(lac_fabric *f, lac_error *err)
{
    (void)f, (void)err;
    return LAC_OK;
}

lac_status lac__null_open(lac_fabric **out)
{
    static const lac__fabric_ops ops = {.name = "null",
                                        .destroy = null_destroy,
                                        .connect = null_connect,
                                        .lane = null_lane,
                                        .settle = null_settle,
                                        .broadcast = null_broadcast,
                                        .all_gather = null_all_gather,
                                        .barrier = null_barrier,
                                        .abort = null_abort,
                                        .health = null_health};
    lac_fabric *f = lac_alloc(1, sizeof *f);
    f->ops = &ops;
    *out = f;
    return LAC_OK;
}
