/* The answers to status, path and plan queries as JSON text. Pure. */
#include "base/status_json.h"
#include "base/json_field.h"
#include "base/text.h"
#include "client.h"

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
    lac_json_text(&out, "text", reply->text);
    lac_json_end(&out, '}');
    return out.data; /* malloc'd; becomes the caller's */
}

char *path_json(const lac_path_reply *reply)
{
    lac_buf out = {0};
    char fingerprint[2 * sizeof reply->fingerprint.bytes + 1];
    lac_hex(reply->fingerprint.bytes, sizeof reply->fingerprint.bytes, fingerprint);
    lac_buf_text(&out, "{");
    lac_json_text(&out, "type", reply->type);
    lac_json_text(&out, "type_reason", reply->type_reason);
    lac_json_text(&out, "task", reply->task);
    lac_json_number(&out, "tokens_max", reply->tokens_max);
    lac_json_text(&out, "fingerprint", fingerprint);
    lac_json_text(&out, "class", reply->class_name);
    lac_json_text(&out, "class_reason", reply->class_reason);
    lac_json_text(&out, "mask", reply->mask ? reply->mask : "");
    if (reply->request) {
        lac_json_number(&out, "request", reply->request);
        lac_json_text(&out, "group", reply->group);
    }
    lac_buf_text(&out, "\"features\":{");
    for (uint32_t i = 0; i < reply->features_count; i++)
        lac_json_number(&out, reply->features[i].name, reply->features[i].value);
    lac_json_end(&out, '}');
    lac_buf_text(&out, "}");
    return out.data; /* malloc'd; becomes the caller's */
}

static void serve_json(lac_buf *out, const lac_known_class *class, lac_input_type type)
{
    const lac_class_serve *serve = &class->facts.serves[type];
    const lac_guard_status *guard = &class->guards[type];
    lac_buf_printf(out, "\"%s\":{", lac_input_type_name(type));
    lac_json_text(out, "tier", lac_tier_name(serve->tier));
    lac_json_real(out, "kl_mean", (double)serve->kl_mean);
    lac_json_real(out, "kl_upper", (double)serve->kl_upper);
    lac_json_text(out, "guard", guard->state);
    lac_json_real(out, "evidence", guard->evidence);
    lac_json_number(out, "shadows", guard->shadows);
    lac_json_number(out, "trips", guard->trips);
    lac_json_end(out, '}');
    lac_buf_text(out, ",");
}

static void known_class_json(lac_buf *out, const lac_known_class *class)
{
    char hint[LAC_HINT_LENGTH + 1], digest[2 * sizeof class->facts.digest.bytes + 1];
    lac_class_hint(&class->facts.digest, hint);
    lac_hex(class->facts.digest.bytes, sizeof class->facts.digest.bytes, digest);
    lac_buf_text(out, "{");
    lac_json_text(out, "name", class->facts.name);
    lac_json_text(out, "model", class->model);
    lac_json_text(out, "digest", digest);
    lac_json_text(out, "hint", hint);
    lac_json_text(out, "scope", lac_scope_name(class->facts.scope));
    lac_json_text(out, "mask", class->facts.mask ? class->facts.mask : "");
    lac_json_number(out, "active_layers", class->facts.active_layers);
    lac_json_real(out, "skip_rate", (double)class->facts.skip_rate);
    lac_json_real(out, "cost_skip_rate", (double)class->facts.cost_skip_rate);
    lac_json_real(out, "cost", (double)class->facts.cost);
    lac_json_number(out, "groups", class->groups);
    lac_json_number(out, "requests", class->requests);
    lac_json_number(out, "tokens", class->tokens);
    lac_buf_printf(out, "\"forced\":%s,", class->forced ? "true" : "false");
    lac_buf_text(out, "\"serves\":{");
    for (int type = 0; type < LAC_INPUT_TYPES; type++)
        if (class->facts.serves[type].tier != LAC_TIER_NONE)
            serve_json(out, class, (lac_input_type)type);
    lac_json_end(out, '}');
    lac_buf_text(out, "}");
}

char *plan_json(const lac_plan_reply *reply)
{
    lac_buf out = {0};
    lac_buf_text(&out, "{");
    lac_json_text(&out, "tier", lac_tier_name(reply->tier_max));
    lac_json_text(&out, "forced", reply->forced);
    lac_buf_text(&out, "\"classes\":[");
    for (uint32_t i = 0; i < reply->classes_count; i++) {
        known_class_json(&out, &reply->classes[i]);
        lac_buf_text(&out, ",");
    }
    lac_json_end(&out, ']');
    lac_buf_text(&out, "}");
    return out.data; /* malloc'd; becomes the caller's */
}
