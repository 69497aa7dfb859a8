/* Status as JSON text. Pure. */
#include "base/status_json.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_field.h"

/* ---- groups ---- */

static void rank_json(lac_buf *out, const lac_rank_status *rank)
{
    lac_buf_text(out, "{");
    lac_json_number(out, "rank", rank->rank);
    lac_json_number(out, "pid", rank->pid);
    lac_json_number(out, "active_layers", rank->active_layers);
    lac_json_number(out, "rss_bytes", rank->rss_bytes);
    lac_json_number(out, "layer_first", rank->layer_first);
    lac_json_number(out, "layer_end", rank->layer_end);
    lac_json_number(out, "erased_units", rank->erased_units);
    lac_json_number(out, "weight_bytes", rank->weight_bytes);
    lac_json_text(out, "host", rank->host);
    lac_json_end(out, '}');
}

static void class_json(lac_buf *out, const lac_class_status *class)
{
    lac_buf_text(out, "{");
    lac_json_text(out, "name", class->name);
    lac_json_number(out, "running", class->running);
    lac_json_number(out, "tokens", class->tokens);
    lac_json_number(out, "active_layers", class->active_layers);
    lac_json_real(out, "skip_rate", (double)class->skip_rate);
    lac_json_real(out, "cost_skip_rate", (double)class->cost_skip_rate);
    lac_json_end(out, '}');
}

static void group_json(lac_buf *out, const lac_group_status *group)
{
    lac_buf_text(out, "{");
    lac_json_text(out, "id", group->id);
    lac_json_text(out, "state", group->state);
    lac_json_text(out, "model", group->model);
    lac_json_text(out, "isa", group->isa);
    lac_json_number(out, "layers", group->layers);
    lac_json_number(out, "pp", group->pp);
    lac_json_number(out, "tp", group->tp);
    lac_json_number(out, "slots", group->slots);
    lac_json_number(out, "running", group->running);
    lac_json_number(out, "queued", group->queued);
    lac_json_number(out, "kv_pages_used", group->kv_pages_used);
    lac_json_number(out, "kv_pages", group->kv_pages);
    lac_json_number(out, "itl_us", group->itl_us);
    lac_json_number(out, "output_tokens", group->output_tokens);
    lac_json_number(out, "heartbeat_age_ms", group->heartbeat_age_ms);
    lac_buf_text(out, "\"ranks\":[");
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        rank_json(out, &group->ranks[i]);
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
    lac_buf_text(out, ",\"classes\":[");
    for (uint32_t i = 0; i < group->classes_count; i++) {
        class_json(out, &group->classes[i]);
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
    lac_buf_text(out, "}");
}

/* ---- checks and decisions ---- */

static void check_json(lac_buf *out, const lac_check *check)
{
    lac_buf_text(out, "{");
    lac_json_text(out, "name", check->name);
    lac_json_flag(out, "good", check->good || !check->known);
    if (check->known)
        lac_json_real(out, "value", check->value);
    else
        lac_buf_text(out, "\"value\":null,");
    lac_json_real(out, "low", check->low);
    if (check->high >= 0)
        lac_json_real(out, "high", check->high);
    else
        lac_buf_text(out, "\"high\":null,");
    lac_json_text(out, "cause", check->cause);
    lac_json_text(out, "text", check->text);
    lac_json_end(out, '}');
}

static void decided_json(lac_buf *out, const lac_decided *d)
{
    lac_buf_text(out, "{");
    /* As text: readers of JSON may keep no more than 53 bits of a number. */
    lac_buf_printf(out, "\"request\":\"%" PRIu64 "\",", d->request);
    lac_json_number(out, "age_ms", d->age_ms);
    lac_json_text(out, "type", d->type);
    lac_json_text(out, "task", d->task);
    lac_json_text(out, "class", d->class_name);
    lac_json_text(out, "group", d->group);
    lac_json_text(out, "outcome", d->outcome);
    lac_json_number(out, "tokens", d->tokens);
    lac_json_number(out, "total_ms", d->total_ms);
    lac_json_text(out, "why", d->why);
    lac_json_end(out, '}');
}

void lac_status_json(const lac_status_reply *reply, lac_buf *out)
{
    lac_buf_text(out, "{");
    lac_json_text(out, "version", reply->version);
    lac_json_text(out, "http", reply->http);
    lac_json_number(out, "epoch", reply->epoch);
    lac_json_number(out, "uptime_ms", reply->uptime_ms);
    lac_json_number(out, "queued", reply->queued);
    lac_json_number(out, "queued_tokens", reply->queued_tokens);
    lac_json_number(out, "running", reply->running);
    lac_json_number(out, "streams", reply->streams);
    lac_json_number(out, "requests_total", reply->requests_total);
    lac_json_number(out, "tokens_total", reply->tokens_total);
    lac_buf_text(out, "\"groups\":[");
    for (uint32_t i = 0; i < reply->groups_count; i++) {
        group_json(out, &reply->groups[i]);
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
    lac_buf_text(out, ",\"checks\":[");
    for (uint32_t i = 0; i < reply->checks_count; i++) {
        check_json(out, &reply->checks[i]);
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
    lac_buf_text(out, ",\"decided\":[");
    for (uint32_t i = 0; i < reply->decided_count; i++) {
        decided_json(out, &reply->decided[i]);
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
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
    lac_json_flag(out, "live", true); /* who answers is alive */
    lac_json_flag(out, "ready", ready);
    lac_json_flag(out, "well", well);
    lac_buf_text(out, "\"causes\":[");
    for (uint32_t i = 0; i < reply->checks_count; i++) {
        const lac_check *check = &reply->checks[i];
        if (!check->known || check->good)
            continue;
        lac_buf_text(out, "{");
        lac_json_text(out, "check", check->name);
        lac_json_text(out, "cause", check->cause);
        lac_json_text(out, "text", check->text);
        lac_json_end(out, '}');
        lac_buf_text(out, ",");
    }
    lac_json_end(out, ']');
    lac_buf_text(out, "}");
    return well;
}
