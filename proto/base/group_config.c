/* A group's config as text and back. Pure, any thread. */
#include "base/group_config.h"

#include <string.h>

#include "base/text.h"

static const char first_line[] = "lacuna group 1";

static void put_digest(lac_buf *out, const char *name, const lac_digest *digest)
{
    char hex[2 * sizeof digest->bytes + 1];
    lac_hex(digest->bytes, sizeof digest->bytes, hex);
    lac_buf_printf(out, "%s %s\n", name, hex);
}

void lac_group_config_write(const lac_group_config *c, lac_buf *out)
{
    lac_buf_printf(out, "%s\npp %u\ntp %u\ncontext %u\nslots %u\nmodel %s\n", first_line, c->pp,
                   c->tp, c->context_max, c->slots, c->model);
    put_digest(out, "model-digest", &c->model_digest);
    put_digest(out, "plan-digest", &c->plan_digest);
}

typedef struct {
    const char *at, *end;
    lac_error *err;
} reader;

/* The rest of the next line, which has to begin with `name`, as a string. */
static lac_status line_read(reader *r, const char *name, char *value, size_t size)
{
    const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
    size_t length = stop ? (size_t)(stop - r->at) : 0, skip = strlen(name);
    if (!stop || length <= skip || memcmp(r->at, name, skip) != 0 || r->at[skip] != ' ')
        return lac_fail(r->err, LAC_EINVAL, "group config: line \"%s\" is missing", name);
    if (length - skip - 1 >= size)
        return lac_fail(r->err, LAC_EINVAL, "group config: %s has %zu bytes, allowed below %zu",
                        name, length - skip - 1, size);
    memcpy(value, r->at + skip + 1, length - skip - 1);
    value[length - skip - 1] = '\0';
    r->at = stop + 1;
    return LAC_OK;
}

static lac_status number_read(reader *r, const char *name, uint32_t most, uint32_t *out)
{
    char text[16];
    int64_t value;
    lac_status status = line_read(r, name, text, sizeof text);
    if (status != LAC_OK)
        return status;
    if (!lac_parse_i64(text, 1, most, &value))
        return lac_fail(r->err, LAC_EINVAL, "group config: %s is \"%s\", allowed 1..%u", name, text,
                        most);
    *out = (uint32_t)value;
    return LAC_OK;
}

static lac_status digest_read(reader *r, const char *name, lac_digest *out)
{
    char text[2 * sizeof out->bytes + 1];
    lac_status status = line_read(r, name, text, sizeof text);
    if (status == LAC_OK && !lac_unhex(text, out->bytes, sizeof out->bytes))
        return lac_fail(r->err, LAC_EINVAL, "group config: %s is \"%s\", %zu hex digits expected",
                        name, text, 2 * sizeof out->bytes);
    return status;
}

lac_status lac_group_config_parse(const char *text, size_t length, lac_group_config *out,
                                  lac_error *err)
{
    reader r = {.at = text, .end = text + length, .err = err};
    size_t head = sizeof first_line - 1;
    if (length <= head || memcmp(text, first_line, head) != 0 || text[head] != '\n')
        return lac_fail(err, LAC_EUNSUPPORTED, "group config does not begin with \"%s\"",
                        first_line);
    r.at += head + 1;
    lac_group_config c = {0};
    lac_status status = number_read(&r, "pp", LAC_RANKS_MAX, &c.pp);
    if (status == LAC_OK)
        status = number_read(&r, "tp", LAC_RANKS_MAX / (c.pp ? c.pp : 1), &c.tp);
    if (status == LAC_OK)
        status = number_read(&r, "context", LAC_CONTEXT_MAX, &c.context_max);
    if (status == LAC_OK)
        status = number_read(&r, "slots", LAC_SLOTS_MAX, &c.slots);
    if (status == LAC_OK)
        status = line_read(&r, "model", c.model, sizeof c.model);
    if (status == LAC_OK)
        status = digest_read(&r, "model-digest", &c.model_digest);
    if (status == LAC_OK)
        status = digest_read(&r, "plan-digest", &c.plan_digest);
    if (status != LAC_OK)
        return status;
    if (r.at != r.end)
        return lac_fail(err, LAC_EINVAL, "group config: %zu bytes follow its last line",
                        (size_t)(r.end - r.at));
    *out = c;
    return LAC_OK;
}
