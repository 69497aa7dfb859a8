/* The answers to status, path and plan queries as JSON text. Pure. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status_json.h"
#include "base/text.h"
#include "client.h"

static void text(lac_buf *out, const char *name, const char *value)
{
    lac_buf_printf(out, "\"%s\":", name);
    lac_buf_json(out, value, strlen(value));
    lac_buf_text(out, ",");
}

static void number(lac_buf *out, const char *name, uint64_t value)
{
    lac_buf_printf(out, "\"%s\":%" PRIu64 ",", name, value);
}

/* Ends an object or list: the last comma becomes the bracket. */
static void end(lac_buf *out, char bracket)
{
    if (out->length && out->data[out->length - 1] == ',')
        out->data[out->length - 1] = bracket;
    else
        lac_buf_add(out, &bracket, 1);
}

static void real(lac_buf *out, const char *name, double value)
{
    lac_buf_printf(out, "\"%s\":%.9g,", name, value);
}

char *status_json(const lac_status_reply *reply)
{
    lac_buf out = {0};
    lac_status_json(reply, &out);
    return out.data; /* malloc'd; becomes the caller's */
}

char *ordered_json(const lac_ordered *reply)
{
    lac_buf out = {0};
    lac_buf_text(&out, "{");
    text(&out, "text", reply->text);
    end(&out, '}');
    return out.data; /* malloc'd; becomes the caller's */
}

char *path_json(const lac_path_reply *reply)
{
    lac_buf out = {0};
    char fingerprint[2 * sizeof reply->fingerprint.bytes + 1];
    lac_hex(reply->fingerprint.bytes, sizeof reply->fingerprint.bytes, fingerprint);
    lac_buf_text(&out, "{");
    text(&out, "type", reply->type);
    text(&out, "type_reason", reply->type_reason);
    text(&out, "task", reply->task);
    number(&out, "tokens_max", reply->tokens_max);
    text(&out, "fingerprint", fingerprint);
    text(&out, "class", reply->class_name);
    text(&out, "class_reason", reply->class_reason);
    text(&out, "mask", reply->mask ? reply->mask : "");
    if (reply->request) {
        number(&out, "request", reply->request);
        text(&out, "group", reply->group);
    }
    lac_buf_text(&out, "\"features\":{");
    for (uint32_t i = 0; i < reply->features_count; i++)
        number(&out, reply->features[i].name, reply->features[i].value);
    end(&out, '}');
    lac_buf_text(&out, "}");
    return out.data; /* malloc'd; becomes the caller's */
}

static void serve_json(lac_buf *out, const lac_known_class *class, lac_input_type type)
{
    const lac_class_serve *serve = &class->facts.serves[type];
    const lac_guard_status *guard = &class->guards[type];
    lac_buf_printf(out, "\"%s\":{", lac_input_type_name(type));
    text(out, "tier", lac_tier_name(serve->tier));
    real(out, "kl_mean", (double)serve->kl_mean);
    real(out, "kl_upper", (double)serve->kl_upper);
    text(out, "guard", guard->state);
    real(out, "evidence", guard->evidence);
    number(out, "shadows", guard->shadows);
    number(out, "trips", guard->trips);
    end(out, '}');
    lac_buf_text(out, ",");
}

static void known_class_json(lac_buf *out, const lac_known_class *class)
{
    char hint[LAC_HINT_LENGTH + 1], digest[2 * sizeof class->facts.digest.bytes + 1];
    lac_class_hint(&class->facts.digest, hint);
    lac_hex(class->facts.digest.bytes, sizeof class->facts.digest.bytes, digest);
    lac_buf_text(out, "{");
    text(out, "name", class->facts.name);
    text(out, "model", class->model);
    text(out, "digest", digest);
    text(out, "hint", hint);
    text(out, "scope", lac_scope_name(class->facts.scope));
    text(out, "mask", class->facts.mask ? class->facts.mask : "");
    number(out, "active_layers", class->facts.active_layers);
    real(out, "skip_rate", (double)class->facts.skip_rate);
    real(out, "cost_skip_rate", (double)class->facts.cost_skip_rate);
    real(out, "cost", (double)class->facts.cost);
    number(out, "groups", class->groups);
    number(out, "requests", class->requests);
    number(out, "tokens", class->tokens);
    lac_buf_printf(out, "\"forced\":%s,", class->forced ? "true" : "false");
    lac_buf_text(out, "\"serves\":{");
    for (int type = 0; type < LAC_INPUT_TYPES; type++)
        if (class->facts.serves[type].tier != LAC_TIER_NONE)
            serve_json(out, class, (lac_input_type)type);
    end(out, '}');
    lac_buf_text(out, "}");
}

char *plan_json(const lac_plan_reply *reply)
{
    lac_buf out = {0};
    lac_buf_text(&out, "{");
    text(&out, "tier", lac_tier_name(reply->tier_max));
    text(&out, "forced", reply->forced);
    lac_buf_text(&out, "\"classes\":[");
    for (uint32_t i = 0; i < reply->classes_count; i++) {
        known_class_json(&out, &reply->classes[i]);
        lac_buf_text(&out, ",");
    }
    end(&out, ']');
    lac_buf_text(&out, "}");
    return out.data; /* malloc'd; becomes the caller's */
}
