/* What the files of the codec share: the context of one pack or unpack, the row of a message type,
 * and the helpers that move fields. Not visible outside proto/wire. */
#ifndef LAC_WIRE_CODEC_INTERNAL_H
#define LAC_WIRE_CODEC_INTERNAL_H

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/msg.h"
#include "common.pb-c.h"
#include "control.pb-c.h"
#include "infer.pb-c.h"

/* One call of pack or unpack. `left` is what protobuf-c may still take while it parses: outside
 * bytes choose that amount; what the validated counts choose afterwards has the arena's own budget.
 */
typedef struct {
    lac_arena *arena;
    size_t left;
    lac_error *err;
} lac__codec;

typedef struct {
    lac_msg_type type;
    bool client_plane; /* its frame cap */
    uint32_t extra;    /* bytes the parse may take beyond 4 × frame + 64 KiB: what a message at its
                          limits of small repeated parts needs */
    const ProtobufCMessageDescriptor *shape;
    /* Fills the initialised protobuf struct; the message has passed `check`. */
    void (*put)(lac__codec *c, const lac_msg *msg, ProtobufCMessage *out);
    /* Fills the plain struct: what does not fit it is an error here, ranges are left to `check`. */
    lac_status (*get)(lac__codec *c, const ProtobufCMessage *in, lac_msg *out);
    lac_status (*check)(const lac_msg *msg, lac_error *err);
} lac__codec_row;

/* The rows of a plane; ended by a row of type LAC_MSG_NONE. */
extern const lac__codec_row lac__codec_worker_rows[];
extern const lac__codec_row lac__codec_client_rows[];

/* Passes a failure on; for functions with nothing to undo. */
#define LAC__TRY(expression)                                                                       \
    do {                                                                                           \
        lac_status try_status = (expression);                                                      \
        if (try_status)                                                                            \
            return try_status;                                                                     \
    } while (0)

/* The same, with "prefix: " before the text. */
#define LAC__TRY_IN(expression, err, ...)                                                          \
    do {                                                                                           \
        lac_status try_status = (expression);                                                      \
        if (try_status) {                                                                          \
            lac_fail_in(err, __VA_ARGS__);                                                         \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)

/* ---- memory: zeroed, freed with the arena ---- */

/* For a message to be sent: never NULL, its sizes are the sender's own. */
void *lac__put_alloc(lac__codec *c, size_t count, size_t size);
/* For a message that came in: LAC_EPROTO over the budget. A count of 0 gives NULL. */
lac_status lac__get_alloc(lac__codec *c, size_t count, size_t size, void *out);

/* ---- fields ---- */

static inline ProtobufCBinaryData lac__bin(const void *data, size_t length)
{
    return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)(uintptr_t)data};
}

static inline lac_span lac__span(ProtobufCBinaryData bin)
{
    return (lac_span){.data = bin.len ? (const char *)bin.data : NULL, .length = (uint32_t)bin.len};
}

/* A scalar: left out when zero. */
#define LAC__PUT(out, field, value) ((out)->has_##field = (value) != 0, (out)->field = (value))
/* Short text in a fixed array: left out when empty. */
#define LAC__PUT_TEXT(out, field, text)                                                            \
    ((out)->has_##field = (text)[0] != '\0',                                                       \
     (out)->field = lac__bin(text, strnlen(text, sizeof(text) - 1)))
/* An explanation: made fit for the wire rather than refused, because it may quote outside bytes. */
#define LAC__PUT_REASON(c, out, name, text)                                                        \
    ((out)->has_##name = (text)[0] != '\0',                                                        \
     (out)->name = lac__put_reason(c, text, strnlen(text, sizeof(text) - 1)))
#define LAC__PUT_SPAN(out, name, span)                                                             \
    ((out)->has_##name = (span).length != 0, (out)->name = lac__bin((span).data, (span).length))
/* A list of numbers, not copied. */
#define LAC__PUT_LIST(out, field, list, count)                                                     \
    ((out)->n_##field = (count), (out)->field = (void *)(uintptr_t)(list))

ProtobufCBinaryData lac__put_reason(lac__codec *c, const char *text, size_t length);
/* Copies into text[size]: LAC_EINVAL when too long, no UTF-8, or with a NUL inside. */
lac_status lac__get_text(lac__codec *c, const char *field, ProtobufCBinaryData bin, char *text,
                         size_t size);
/* Copies exactly `size` bytes; absent or empty leaves zeros. */
lac_status lac__get_bytes(lac__codec *c, const char *field, ProtobufCBinaryData bin, uint8_t *bytes,
                          size_t size);

Pb__Status lac__put_status(lac_status status);
lac_status lac__get_status(lac__codec *c, const char *field, int has, Pb__Status in,
                           lac_status *out);
lac_status lac__get_finish(lac__codec *c, const char *field, int has, Pb__Finish in,
                           lac_finish *out);

/* ---- what both planes carry (codec_infer.c) ---- */

Pb__Prompt *lac__put_prompt(lac__codec *c, const lac_prompt *prompt);
lac_status lac__get_prompt(lac__codec *c, const Pb__Prompt *in, lac_prompt *out);
Pb__Sampling *lac__put_sampling(lac__codec *c, const lac_sampling *sampling);
lac_status lac__get_sampling(lac__codec *c, const Pb__Sampling *in, lac_sampling *out);
Pb__Chunk *lac__put_chunk(lac__codec *c, const lac_chunk *chunk);
lac_status lac__get_chunk(lac__codec *c, const Pb__Chunk *in, lac_chunk *out);
Pb__Usage *lac__put_usage(lac__codec *c, const lac_usage *usage);
void lac__get_usage(const Pb__Usage *in, lac_usage *out);

/* ---- classes and accounts (codec_class.c) ---- */

void lac__put_class(lac__codec *c, const lac_class_facts *facts, Pb__Class *out);
lac_status lac__get_class(lac__codec *c, const Pb__Class *in, lac_class_facts *out);
/* NULL gives NULL, both ways. */
Pb__Account *lac__put_account(lac__codec *c, const lac_run_account *account);
lac_status lac__get_account(lac__codec *c, const Pb__Account *in, const lac_run_account **out);
/* A mask's text into the arena, NUL-ended; absent gives NULL. */
lac_status lac__get_mask(lac__codec *c, const char *field, ProtobufCBinaryData in,
                         const char **out);
/* TIER_NONE is a number of its own on the wire, where 0 stands for unknown. */
Pb__Tier lac__put_tier(lac_tier tier);
lac_status lac__get_tier(lac__codec *c, const char *field, int has, Pb__Tier in, lac_tier *out);
/* False for LAC_INPUT_TYPES, which is left out. */
int lac__put_input_type(lac_input_type type, Pb__InputType *out);
lac_status lac__get_input_type(lac__codec *c, const char *field, int has, Pb__InputType in,
                               lac_input_type *out);

/* ---- checks and decisions of a status reply (codec_check.c) ---- */

void lac__put_watched(lac__codec *c, const lac_status_reply *in, Pb__StatusReply *out);
lac_status lac__get_watched(lac__codec *c, const Pb__StatusReply *in, lac_status_reply *out);
lac_status lac__check_watched(const lac_status_reply *reply, lac_error *err);

/* ---- bodies in codec_path.c, whose rows are those of the client plane ---- */

void lac__put_path_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_path_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
void lac__put_path_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_path_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
/* codec_group.c */
void lac__put_hello_rank(const lac_hello *in, Pb__Hello *out);
lac_status lac__get_hello_rank(lac__codec *c, const Pb__Hello *in, lac_hello *out);
lac_status lac__check_hello_rank(const lac_hello *hello, lac_error *err);
void lac__put_form(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_form(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_form(const lac_msg *msg, lac_error *err);
/* codec_fleet.c */
void lac__put_scale(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_scale(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_scale(const lac_msg *msg, lac_error *err);
void lac__put_drain_group(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_drain_group(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_drain_group(const lac_msg *msg, lac_error *err);
void lac__put_ordered(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_ordered(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_ordered(const lac_msg *msg, lac_error *err);

/* codec_jobs.c */
void lac__put_job_submit(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_job_submit(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_job_submit(const lac_msg *msg, lac_error *err);
void lac__put_job_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_job_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_job_query(const lac_msg *msg, lac_error *err);
void lac__put_job_cancel(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_job_cancel(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_job_cancel(const lac_msg *msg, lac_error *err);
void lac__put_job_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_job_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_job_reply(const lac_msg *msg, lac_error *err);
/* codec_tenant.c */
Pb__Service lac__put_service(lac_service service);
lac_status lac__get_service(lac__codec *c, int has, Pb__Service in, lac_service *out);
Pb__Cause lac__put_cause(lac_cause cause);
/* One of a newer version says nothing to us. */
void lac__get_cause(int has, Pb__Cause in, lac_cause *out);
/* NULL when nothing is limited. */
Pb__Quota *lac__put_quota(lac__codec *c, const lac_quota *in);
void lac__get_quota(const Pb__Quota *in, lac_quota *out);
void lac__put_feedback(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_feedback(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
lac_status lac__check_feedback(const lac_msg *msg, lac_error *err);
lac_status lac__check_quota(const lac_quota *quota, lac_error *err);

void lac__put_plan_query(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_plan_query(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
void lac__put_path_force(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_path_force(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);
void lac__put_plan_reply(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body);
lac_status lac__get_plan_reply(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg);

/* ---- validation of plain messages, on the way out and on the way in (validate*.c) ---- */

typedef struct {
    const char *field;
    uint64_t value, low, high;
} lac__range;
lac_status lac__check_ranges(const lac__range *ranges, size_t count, lac_error *err);
/* [A-Za-z0-9._-], ended within the array of `size`. */
lac_status lac__check_name(const char *field, const char *text, size_t size, bool may_be_empty,
                           lac_error *err);
/* Printable ASCII, perhaps empty. */
lac_status lac__check_label(const char *field, const char *text, size_t size, lac_error *err);
lac_status lac__check_ids(const char *field, const uint32_t *ids, uint32_t count, lac_error *err);
lac_status lac__check_prompt(const lac_prompt *prompt, lac_error *err);
lac_status lac__check_sampling(const lac_sampling *sampling, lac_error *err);
lac_status lac__check_chunk(const lac_chunk *chunk, lac_error *err);
lac_status lac__check_finish(const char *field, lac_finish finish, lac_error *err);
lac_status lac__check_status(const char *field, lac_status value, lac_error *err);

/* low ≤ value ≤ high, and a number. */
lac_status lac__check_real(const char *field, double value, double low, double high,
                           lac_error *err);
/* The canonical text of units below `layers`; NULL is none. */
lac_status lac__check_mask(const char *field, const char *mask, uint32_t layers, lac_error *err);
lac_status lac__check_class(const lac_class_facts *facts, uint32_t layers, lac_error *err);
/* NULL is fine. */
lac_status lac__check_account(const lac_run_account *account, lac_error *err);
lac_status lac__check_tier(const char *field, lac_tier tier, lac_error *err);
lac_status lac__check_input_type(const char *field, lac_input_type type, lac_error *err);

lac_status lac__check_hello(const lac_msg *msg, lac_error *err);
lac_status lac__check_hello_ack(const lac_msg *msg, lac_error *err);
lac_status lac__check_hello_reject(const lac_msg *msg, lac_error *err);
lac_status lac__check_heartbeat(const lac_msg *msg, lac_error *err);
lac_status lac__check_step_output(const lac_msg *msg, lac_error *err);
lac_status lac__check_fault(const lac_msg *msg, lac_error *err);
lac_status lac__check_shadow(const lac_msg *msg, lac_error *err);
lac_status lac__check_dispatch(const lac_msg *msg, lac_error *err);
lac_status lac__check_cancel(const lac_msg *msg, lac_error *err);
lac_status lac__check_nothing(const lac_msg *msg, lac_error *err);

lac_status lac__check_submit(const lac_msg *msg, lac_error *err);
lac_status lac__check_client_cancel(const lac_msg *msg, lac_error *err);
lac_status lac__check_credit(const lac_msg *msg, lac_error *err);
lac_status lac__check_accepted(const lac_msg *msg, lac_error *err);
lac_status lac__check_tokens(const lac_msg *msg, lac_error *err);
lac_status lac__check_done(const lac_msg *msg, lac_error *err);
lac_status lac__check_refused(const lac_msg *msg, lac_error *err);
lac_status lac__check_status_reply(const lac_msg *msg, lac_error *err);
lac_status lac__check_path_query(const lac_msg *msg, lac_error *err);
lac_status lac__check_path_reply(const lac_msg *msg, lac_error *err);
lac_status lac__check_plan_query(const lac_msg *msg, lac_error *err);
lac_status lac__check_path_force(const lac_msg *msg, lac_error *err);
lac_status lac__check_plan_reply(const lac_msg *msg, lac_error *err);

#endif
