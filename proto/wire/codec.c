/* The frame: a fixed little-endian envelope and a protobuf body. Owns the envelope's layout, the
 * version rule, the frame cap, the memory budget and the table of message types; what a body holds
 * is in codec_*.c, what is allowed in it in validate*.c. No state, any thread. Knows no socket.
 *
 *   0  magic    "LACN"
 *   4  major    u16     another major is refused
 *   6  minor    u16     another minor is read: what we do not know is skipped, within a bound
 *   8  type     u16
 *  10  flags    u16     0; a set bit is something this version cannot read
 *  12  epoch    u64
 *  20  session  u64
 *  28  seq      u64
 *  36  body
 */
#include "codec.h"
#include "schema_hash.h"
#include "wire/codec.h"

/* Whoever changes a schema file decides here which version the change makes: a field more is a new
 * minor, anything a reader of the old one would misread is a new major. */
_Static_assert(LAC_SCHEMA_HASH == 0x89e8a6cb49fb4e4fu && LAC_PROTO_MAJOR == 1 &&
                   LAC_PROTO_MINOR == 3,
               "the schema changed: set LAC_PROTO_MINOR (or MAJOR), then this hash");

enum { ENVELOPE_BYTES = 36, BUDGET_BASE = 64 << 10, PLAIN_FACTOR = 8 };
static const char magic[4] = {'L', 'A', 'C', 'N'};

static const lac__codec_row *find_row(uint16_t type)
{
    const lac__codec_row *tables[] = {lac__codec_worker_rows, lac__codec_client_rows};
    for (size_t i = 0; i < 2; i++)
        for (const lac__codec_row *row = tables[i]; row->type != LAC_MSG_NONE; row++)
            if (row->type == type)
                return row;
    return NULL;
}

static size_t frame_max(const lac__codec_row *row)
{
    return row->client_plane ? LAC_CLIENT_FRAME_MAX : LAC_FRAME_MAX;
}

/* ---- envelope ---- */

static void put_le(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_le(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void envelope_pack(const lac_envelope *e, uint8_t out[ENVELOPE_BYTES])
{
    memcpy(out, magic, 4);
    put_le(out + 4, LAC_PROTO_MAJOR, 2);
    put_le(out + 6, LAC_PROTO_MINOR, 2);
    put_le(out + 8, e->type, 2);
    put_le(out + 10, 0, 2);
    put_le(out + 12, e->epoch, 8);
    put_le(out + 20, e->session, 8);
    put_le(out + 28, e->seq, 8);
}

/* Fills *out as soon as the magic is right, so that a refusal can say whom it answers. */
static lac_status envelope_unpack(const uint8_t *frame, size_t length, lac_envelope *out,
                                  lac_error *err)
{
    if (length < ENVELOPE_BYTES)
        return lac_fail(err, LAC_EPROTO, "frame has %zu bytes, allowed: at least %d", length,
                        ENVELOPE_BYTES);
    if (memcmp(frame, magic, 4) != 0)
        return lac_fail(err, LAC_EPROTO, "frame does not start with LACN: not a Lacuna peer");
    *out = (lac_envelope){.major = (uint16_t)get_le(frame + 4, 2),
                          .minor = (uint16_t)get_le(frame + 6, 2),
                          .type = (uint16_t)get_le(frame + 8, 2),
                          .epoch = get_le(frame + 12, 8),
                          .session = get_le(frame + 20, 8),
                          .seq = get_le(frame + 28, 8)};
    if (out->major != LAC_PROTO_MAJOR)
        return lac_fail(err, LAC_EPROTO, "protocol version is %u.%u, allowed: %d.x", out->major,
                        out->minor, LAC_PROTO_MAJOR);
    unsigned flags = (unsigned)get_le(frame + 10, 2);
    if (flags)
        return lac_fail(err, LAC_EPROTO, "envelope flags are 0x%x, allowed: 0", flags);
    return LAC_OK;
}

/* ---- memory ---- */

void *lac__put_alloc(lac__codec *c, size_t count, size_t size)
{
    uint64_t bytes;
    LAC_ASSERT(lac_mul_u64(count, size, &bytes));
    void *p = lac_arena_alloc(c->arena, bytes);
    LAC_ASSERT(p);
    return p;
}

static lac_status over_budget(lac__codec *c)
{
    return lac_fail(c->err, LAC_EPROTO,
                    "message needs more memory than its frame allows (limit %d MiB)",
                    LAC_UNPACK_BUDGET_MAX >> 20);
}

lac_status lac__get_alloc(lac__codec *c, size_t count, size_t size, void *out)
{
    void *p = NULL;
    uint64_t bytes;
    if (count) {
        if (!lac_mul_u64(count, size, &bytes) || !(p = lac_arena_alloc(c->arena, bytes)))
            return over_budget(c);
    }
    memcpy(out, &p, sizeof p);
    return LAC_OK;
}

static void *parse_alloc(void *arg, size_t size)
{
    lac__codec *c = arg;
    if (size > c->left)
        return NULL;
    size = (size + 15) & ~(size_t)15; /* as the arena counts it */
    if (size > c->left)
        return NULL;
    void *p = lac_arena_alloc(c->arena, size);
    if (p)
        c->left -= size;
    return p;
}

static void parse_free(void *arg, void *p)
{
    (void)arg;
    (void)p; /* the arena goes as a whole */
}

/* ---- unknown fields, through the descriptors: known depth, since no message contains itself ----
 */

static size_t count_unknown(const ProtobufCMessage *message)
{
    size_t count = message->n_unknown_fields;
    const ProtobufCMessageDescriptor *shape = message->descriptor;
    for (unsigned i = 0; i < shape->n_fields && count <= LAC_UNKNOWN_FIELDS_MAX; i++) {
        const ProtobufCFieldDescriptor *field = &shape->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        const char *base = (const char *)message;
        const void *where = base + field->offset;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(const size_t *)(const void *)(base + field->quantifier_offset);
            ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)where;
            for (size_t k = 0; k < n && count <= LAC_UNKNOWN_FIELDS_MAX; k++)
                count += count_unknown(items[k]);
            continue;
        }
        bool is_case = true;
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            is_case =
                *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
        const ProtobufCMessage *item = is_case ? *(ProtobufCMessage *const *)where : NULL;
        if (item)
            count += count_unknown(item);
    }
    return count;
}

/* ---- pack ---- */

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data);
typedef struct {
    ProtobufCBuffer base;
    lac_buf *out;
} buf_sink;

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data)
{
    lac_buf_add(((buf_sink *)buffer)->out, data, length); /* sets overflow, asked once at the end */
}

static lac_status pack_body(const lac__codec_row *row, lac__codec *c, const lac_msg *msg,
                            lac_buf *out)
{
    ProtobufCMessage *body = lac__put_alloc(c, 1, row->shape->sizeof_message);
    protobuf_c_message_init(row->shape, body);
    row->put(c, msg, body);
    size_t length = protobuf_c_message_get_packed_size(body) + ENVELOPE_BYTES;
    if (length > frame_max(row))
        return lac_fail(c->err, LAC_ETOOBIG, "%s message has %zu bytes, allowed: %zu",
                        lac_msg_name(row->type), length, frame_max(row));

    uint8_t envelope[ENVELOPE_BYTES];
    envelope_pack(&msg->envelope, envelope);
    size_t start = out->length;
    buf_sink sink = {.base = {.append = append}, .out = out};
    if (lac_buf_add(out, envelope, sizeof envelope))
        protobuf_c_message_pack_to_buffer(body, &sink.base);
    if (out->overflow) {
        out->length = start;
        return lac_fail(c->err, LAC_ETOOBIG, "%s message has %zu bytes, the buffer holds %zu",
                        lac_msg_name(row->type), length, out->cap);
    }
    return LAC_OK;
}

lac_status lac_codec_pack(const lac_msg *msg, lac_buf *out, lac_error *err)
{
    const lac__codec_row *row = find_row(msg->envelope.type);
    if (!row)
        return lac_fail(err, LAC_EINVAL, "message type %u is not one of version %d.%d",
                        msg->envelope.type, LAC_PROTO_MAJOR, LAC_PROTO_MINOR);
    lac_status status = row->check(msg, err);
    if (status)
        return status;
    /* The sender's message has passed its limits, so what it needs is bounded by them. */
    lac__codec c = {.arena = lac_arena_create((size_t)1 << 30), .err = err};
    status = pack_body(row, &c, msg, out);
    lac_arena_destroy(&c.arena);
    return status;
}

/* ---- unpack ---- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static lac_status unpack_body(const lac__codec_row *row, lac__codec *c, const uint8_t *body,
                              size_t length, lac_msg *msg)
{
    ProtobufCAllocator allocator = {.alloc = parse_alloc, .free = parse_free, .allocator_data = c};
    ProtobufCMessage *parsed = protobuf_c_message_unpack(row->shape, &allocator, length, body);
    if (!parsed)
        return lac_fail(c->err, LAC_EPROTO,
                        "%s message of %zu bytes is malformed or over its memory budget",
                        lac_msg_name(row->type), length);
    if (count_unknown(parsed) > LAC_UNKNOWN_FIELDS_MAX)
        return lac_fail(c->err, LAC_EPROTO, "%s message has unknown fields, allowed: at most %d",
                        lac_msg_name(row->type), LAC_UNKNOWN_FIELDS_MAX);
    lac_status status = row->get(c, parsed, msg);
    return status ? status : row->check(msg, c->err);
}

lac_status lac_codec_unpack(const void *frame, size_t length, lac_msg *out, lac_error *err)
{
    *out = (lac_msg){0};
    if (length > LAC_FRAME_MAX)
        return lac_fail(err, LAC_ETOOBIG, "frame has %zu bytes, allowed: %d", length,
                        LAC_FRAME_MAX);
    lac_status status = envelope_unpack(frame, length, &out->envelope, err);
    if (status)
        return status;
    const lac__codec_row *row = find_row(out->envelope.type);
    if (!row)
        return lac_fail(err, LAC_EUNSUPPORTED, "message type %u is unknown to version %d.%d",
                        out->envelope.type, LAC_PROTO_MAJOR, LAC_PROTO_MINOR);
    if (length > frame_max(row))
        return lac_fail(err, LAC_ETOOBIG, "%s frame has %zu bytes, allowed: %zu",
                        lac_msg_name(row->type), length, frame_max(row));

    size_t parse = least(4 * length + BUDGET_BASE + row->extra, LAC_UNPACK_BUDGET_MAX);
    size_t plain = least(PLAIN_FACTOR * length + BUDGET_BASE + row->extra, LAC_UNPACK_BUDGET_MAX);
    lac__codec c = {.arena = lac_arena_create(parse + plain), .left = parse, .err = err};
    lac_msg msg;
    memset(&msg, 0, sizeof msg); /* the whole union, whichever member is the largest */
    msg.envelope = out->envelope;
    status = unpack_body(row, &c, (const uint8_t *)frame + ENVELOPE_BYTES, length - ENVELOPE_BYTES,
                         &msg);
    if (status) {
        lac_arena_destroy(&c.arena);
        return status;
    }
    msg.memory = c.arena;
    *out = msg;
    return LAC_OK;
}
