/* Status as JSON text. Every field ends with a comma, and the last one becomes the bracket. Pure.
 */
#include "base/status_json.h"

#include <inttypes.h>
#include <string.h>

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

static void real(lac_buf *out, const char *name, double value)
{
    lac_buf_printf(out, "\"%s\":%.9g,", name, value);
}

static void flag(lac_buf *out, const char *name, bool value)
{
    lac_buf_printf(out, "\"%s\":%s,", name, value ? "true" : "false");
}

static void end(lac_buf *out, char bracket)
{
    if (out->length && out->data[out->length - 1] == ',')
        out->data[out->length - 1] = bracket;
    else
        lac_buf_add(out, &bracket, 1);
}

/* ---- groups ---- */

static void rank_json(lac_buf *out, const lac_rank_status *rank)
{
    lac_buf_text(out, "{");
    number(out, "rank", rank->rank);
    number(out, "pid", rank->pid);
    number(out, "active_layers", rank->active_layers);
    number(out, "rss_bytes", rank->rss_bytes);
    number(out, "layer_first", rank->layer_first);
    number(out, "layer_end", rank->layer_end);
    number(out, "erased_units", rank->erased_units);
    number(out, "weight_bytes", rank->weight_bytes);
    text(out, "host", rank->host);
    end(out, '}');
}

static void class_json(lac_buf *out, const lac_class_status *class)
{
    lac_buf_text(out, "{");
    text(out, "name", class->name);
    number(out, "running", class->running);
    number(out, "tokens", class->tokens);
    number(out, "active_layers", class->active_layers);
    real(out, "skip_rate", (double)class->skip_rate);
    real(out, "cost_skip_rate", (double)class->cost_skip_rate);
    end(out, '}');
}

static void group_json(lac_buf *out, const lac_group_status *group)
{
    lac_buf_text(out, "{");
    text(out, "id", group->id);
    text(out, "state", group->state);
    text(out, "model", group->model);
    text(out, "isa", group->isa);
    number(out, "layers", group->layers);
    number(out, "pp", group->pp);
    number(out, "tp", group->tp);
    number(out, "slots", group->slots);
    number(out, "running", group->running);
    number(out, "queued", group->queued);
    number(out, "kv_pages_used", group->kv_pages_used);
    number(out, "kv_pages", group->kv_pages);
    number(out, "itl_us", group->itl_us);
    number(out, "output_tokens", group->output_tokens);
    number(out, "heartbeat_age_ms", group->heartbeat_age_ms);
    lac_buf_text(out, "\"ranks\":[");
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        rank_json(out, &group->ranks[i]);
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, ",\"classes\":[");
    for (uint32_t i = 0; i < group->classes_count; i++) {
        class_json(out, &group->classes[i]);
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, "}");
}

/* ---- checks and decisions ---- */

static void check_json(lac_buf *out, const lac_check *check)
{
    lac_buf_text(out, "{");
    text(out, "name", check->name);
    flag(out, "good", check->good || !check->known);
    if (check->known)
        real(out, "value", check->value);
    else
        lac_buf_text(out, "\"value\":null,");
    real(out, "low", check->low);
    if (check->high >= 0)
        real(out, "high", check->high);
    else
        lac_buf_text(out, "\"high\":null,");
    text(out, "cause", check->cause);
    text(out, "text", check->text);
    end(out, '}');
}

static void decided_json(lac_buf *out, const lac_decided *d)
{
    lac_buf_text(out, "{");
    /* As text: readers of JSON may keep no more than 53 bits of a number. */
    lac_buf_printf(out, "\"request\":\"%" PRIu64 "\",", d->request);
    number(out, "age_ms", d->age_ms);
    text(out, "type", d->type);
    text(out, "task", d->task);
    text(out, "class", d->class_name);
    text(out, "group", d->group);
    text(out, "outcome", d->outcome);
    number(out, "tokens", d->tokens);
    number(out, "total_ms", d->total_ms);
    text(out, "why", d->why);
    end(out, '}');
}

void lac_status_json(const lac_status_reply *reply, lac_buf *out)
{
    lac_buf_text(out, "{");
    text(out, "version", reply->version);
    text(out, "http", reply->http);
    number(out, "epoch", reply->epoch);
    number(out, "uptime_ms", reply->uptime_ms);
    number(out, "queued", reply->queued);
    number(out, "queued_tokens", reply->queued_tokens);
    number(out, "running", reply->running);
    number(out, "streams", reply->streams);
    number(out, "requests_total", reply->requests_total);
    number(out, "tokens_total", reply->tokens_total);
    lac_buf_text(out, "\"groups\":[");
    for (uint32_t i = 0; i < reply->groups_count; i++) {
        group_json(out, &reply->groups[i]);
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, ",\"checks\":[");
    for (uint32_t i = 0; i < reply->checks_count; i++) {
        check_json(out, &reply->checks[i]);
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, ",\"decided\":[");
    for (uint32_t i = 0; i < reply->decided_count; i++) {
        decided_json(out, &reply->decided[i]);
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, "}");
}

bool lac_health_json(const lac_status_reply *reply, lac_buf *out)
{
    bool ready = true, well = true;
    for (uint32_t i = 0; i < reply->checks_count; i++) {
        const lac_check *check = &reply->checks[i];
        bool bad = check->known && !check->good;
        well &= !bad;
        ready &= !bad || strcmp(check->name, "ready") != 0;
    }
    lac_buf_text(out, "{");
    flag(out, "live", true); /* who answers is alive */
    flag(out, "ready", ready);
    flag(out, "well", well);
    lac_buf_text(out, "\"causes\":[");
    for (uint32_t i = 0; i < reply->checks_count; i++) {
        const lac_check *check = &reply->checks[i];
        if (!check->known || check->good)
            continue;
        lac_buf_text(out, "{");
        text(out, "check", check->name);
        text(out, "cause", check->cause);
        text(out, "text", check->text);
        end(out, '}');
        lac_buf_text(out, ",");
    }
    end(out, ']');
    lac_buf_text(out, "}");
    return well;
}
