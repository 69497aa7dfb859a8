/* Any bytes as a frame: what unpacks must pack, the packed form must be a fixed point, and a fresh
 * core must take the message from the plane it belongs to, twice, and the loss of its sender. The
 * corpus is every message as released (tests/compat/wire). */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "wire/codec.h"

static lac_status swallow(void *arg, const lac_action *action)
{
    (void)arg;
    (void)action;
    return LAC_OK;
}

/* The plane whose peers may send this type; false for messages that only the coordinator sends. */
static bool plane_of(uint16_t type, lac_plane *out)
{
    if (type < LAC_MSG_HELLO_ACK)
        *out = LAC_PLANE_WORKER;
    else if (type >= LAC_MSG_SUBMIT && type < LAC_MSG_ACCEPTED)
        *out = LAC_PLANE_CLIENT;
    else
        return false;
    return true;
}

static void feed_core(const lac_msg *msg)
{
    lac_event event = {.kind = LAC_EVENT_MESSAGE, .peer = 1, .msg = msg};
    if (!plane_of(msg->envelope.type, &event.plane))
        return;
    lac_core_options options = {.epoch = 1, .seed = 7};
    lac_metrics *metrics = lac_metrics_create(512);
    lac_core *core = lac_core_create(&options, metrics, swallow, NULL);
    lac_core_step(core, 1, &(lac_event){.kind = LAC_EVENT_TICK});
    lac_core_step(core, 2, &event);
    lac_core_step(core, 3, &event);
    lac_core_step(core, 4,
                  &(lac_event){.kind = LAC_EVENT_LOST, .plane = event.plane, .peer = event.peer});
    lac_core_step(core, 10000, &(lac_event){.kind = LAC_EVENT_TICK});
    lac_core_destroy(&core);
    lac_metrics_destroy(&metrics);
}

static void repack(const lac_msg *msg, lac_buf *out)
{
    if (lac_codec_pack(msg, out, NULL) != LAC_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lac_msg first, second;
    lac_error err = {0};
    if (lac_codec_unpack(data, size, &first, &err) != LAC_OK)
        return 0;
    lac_buf once = {.cap = LAC_FRAME_MAX}, twice = {.cap = LAC_FRAME_MAX};
    repack(&first, &once);
    if (lac_codec_unpack(once.data, once.length, &second, &err) != LAC_OK)
        abort();
    repack(&second, &twice);
    if (once.length != twice.length || memcmp(once.data, twice.data, once.length) != 0)
        abort();
    feed_core(&first);
    lac_buf_free(&once);
    lac_buf_free(&twice);
    lac_msg_free(&first);
    lac_msg_free(&second);
    return 0;
}
