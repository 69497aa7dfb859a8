/* Messages ⇄ bytes: an envelope and a protobuf body in one frame. The only caller of protobuf-c.
 * What comes out of unpack is validated: every length, count, range, enum and UTF-8 text. Any
 * thread. */
#ifndef LAC_WIRE_CODEC_H
#define LAC_WIRE_CODEC_H

#include <stddef.h>

#include "base/mem.h"
#include "base/msg.h"
#include "base/status.h"

/* Appends the frame of `msg`. LAC_EINVAL when the message itself would not validate (a bug of the
 * sender), LAC_ETOOBIG over LAC_FRAME_MAX. */
lac_status lac_codec_pack(const lac_msg *msg, lac_buf *out, lac_error *err);

/* Decodes and validates one frame into *out (free with lac_msg_free). LAC_ETOOBIG, LAC_EPROTO
 * (malformed, wrong major version, too many unknown fields, over the memory budget), LAC_EINVAL (a
 * field out of range: the text names it). An unknown message type is LAC_EUNSUPPORTED with the
 * envelope filled. Nothing is left behind on failure. */
lac_status lac_codec_unpack(const void *frame, size_t length, lac_msg *out, lac_error *err);

#endif
