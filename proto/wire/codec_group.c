/* What makes a rank one of several: its part of the Hello, and the Form that answers when all are
 * there. Moves the fields and says what is allowed in them. Pure, any thread. */
#include "codec.h"

static bool given(const lac_digest *digest)
{
    static const lac_digest none;
    return memcmp(digest, &none, sizeof none) != 0;
}

void lac__put_hello_rank(const lac_hello *in, Pb__Hello *out)
{
    LAC__PUT_TEXT(out, host, in->host);
    LAC__PUT_SPAN(out, address, in->address);
    out->has_plan_digest = given(&in->plan_digest);
    if (out->has_plan_digest)
        out->plan_digest = lac__bin(in->plan_digest.bytes, sizeof in->plan_digest.bytes);
    out->has_config_digest = in->formed;
    if (in->formed)
        out->config_digest = lac__bin(in->config_digest.bytes, sizeof in->config_digest.bytes);
    LAC__PUT(out, layer_first, in->layer_first);
    LAC__PUT(out, layer_end, in->layer_end);
    LAC__PUT(out, erased_units, in->erased_units);
}

lac_status lac__get_hello_rank(lac__codec *c, const Pb__Hello *in, lac_hello *out)
{
    LAC__TRY(lac__get_text(c, "hello.host", in->host, out->host, sizeof out->host));
    LAC__TRY(lac__get_bytes(c, "hello.plan_digest", in->plan_digest, out->plan_digest.bytes,
                            sizeof out->plan_digest.bytes));
    LAC__TRY(lac__get_bytes(c, "hello.config_digest", in->config_digest, out->config_digest.bytes,
                            sizeof out->config_digest.bytes));
    out->formed = in->has_config_digest && in->config_digest.len != 0;
    out->address = lac__span(in->address);
    out->layer_first = in->layer_first;
    out->layer_end = in->layer_end;
    out->erased_units = in->erased_units;
    return LAC_OK;
}

lac_status lac__check_hello_rank(const lac_hello *h, lac_error *err)
{
    const lac__range ranges[] = {
        {"hello.address bytes", h->address.length, 0, LAC_FABRIC_BLOB_MAX},
        {"hello.layer_end", h->layer_end, 0, h->layers},
        {"hello.layer_first", h->layer_first, 0, h->layer_end},
        {"hello.erased_units", h->erased_units, 0, 2 * (uint64_t)(h->layer_end - h->layer_first)},
    };
    if (h->formed && !h->address.length)
        return lac_fail(err, LAC_EINVAL, "hello.config_digest is given without an address");
    LAC__TRY(lac__check_label("hello.host", h->host, sizeof h->host, err));
    return lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err);
}

void lac__put_form(lac__codec *c, const lac_msg *msg, ProtobufCMessage *body)
{
    const lac_form *in = &msg->body.form;
    Pb__Form *out = (Pb__Form *)body;
    out->has_incarnation = 1;
    out->incarnation = lac__bin(in->incarnation, sizeof in->incarnation);
    LAC__PUT_SPAN(out, config, in->config);
    out->has_config_digest = 1;
    out->config_digest = lac__bin(in->config_digest.bytes, sizeof in->config_digest.bytes);
    out->addresses = lac__put_alloc(c, in->addresses_count, sizeof *out->addresses);
    out->n_addresses = in->addresses_count;
    for (uint32_t i = 0; i < in->addresses_count; i++)
        out->addresses[i] = lac__bin(in->addresses[i].data, in->addresses[i].length);
}

lac_status lac__get_form(lac__codec *c, const ProtobufCMessage *body, lac_msg *msg)
{
    const Pb__Form *in = (const Pb__Form *)body;
    lac_form *out = &msg->body.form;
    if (in->n_addresses > LAC_RANKS_MAX)
        return lac_fail(c->err, LAC_EINVAL, "form.addresses has %zu entries, allowed: at most %d",
                        in->n_addresses, LAC_RANKS_MAX);
    LAC__TRY(lac__get_bytes(c, "form.incarnation", in->incarnation, out->incarnation,
                            sizeof out->incarnation));
    LAC__TRY(lac__get_bytes(c, "form.config_digest", in->config_digest, out->config_digest.bytes,
                            sizeof out->config_digest.bytes));
    out->config = lac__span(in->config);
    lac_span *addresses;
    LAC__TRY(lac__get_alloc(c, in->n_addresses, sizeof *addresses, &addresses));
    for (size_t i = 0; i < in->n_addresses; i++)
        addresses[i] = lac__span(in->addresses[i]);
    out->addresses = addresses;
    out->addresses_count = (uint32_t)in->n_addresses;
    return LAC_OK;
}

lac_status lac__check_form(const lac_msg *msg, lac_error *err)
{
    const lac_form *f = &msg->body.form;
    const lac__range ranges[] = {
        {"form.config bytes", f->config.length, 1, LAC_GROUP_CONFIG_MAX},
        {"form.addresses", f->addresses_count, 2, LAC_RANKS_MAX},
    };
    LAC__TRY(lac__check_ranges(ranges, sizeof ranges / sizeof *ranges, err));
    for (uint32_t i = 0; i < f->addresses_count; i++) {
        const lac__range length = {"form.addresses bytes", f->addresses[i].length, 1,
                                   LAC_FABRIC_BLOB_MAX};
        LAC__TRY(lac__check_ranges(&length, 1, err));
    }
    return LAC_OK;
}
