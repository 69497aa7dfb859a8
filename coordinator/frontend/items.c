/* Output items of a response and the events that tell of them: thoughts, the message, calls. Pure;
 * the loop's thread. Must not know exchanges or HTTP. */
#include "items.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/parts.h"

enum { ITEMS_MAX = 2 * LAC_CALLS_MAX, BYTES_MAX = LAC_HTTP_PENDING_MAX };

typedef enum { THOUGHT, MESSAGE, CALL } item_kind;

typedef struct {
    item_kind kind;
    char name[LAC_NAME_MAX + 1]; /* of a call */
    lac_buf text;
    size_t told; /* bytes of it */
    bool begun, ended;
} item;

struct lac__items {
    char *echo;
    lac_parts_reader reader;
    item *list;
    uint32_t count, size, told; /* told: those that are ended for the client */
    size_t bytes;
    bool overflow;
    uint64_t events; /* numbers them */
};

/* ---- taking ---- */

lac__items *lac__items_create(char *echo)
{
    lac__items *items = lac_alloc(1, sizeof *items);
    items->echo = echo;
    return items;
}

void lac__items_free(lac__items **items)
{
    if (!*items)
        return;
    for (uint32_t i = 0; i < (*items)->count; i++)
        lac_buf_free(&(*items)->list[i].text);
    free((*items)->list);
    free((*items)->echo);
    free(*items);
    *items = NULL;
}

static item *push(lac__items *items, item_kind kind)
{
    if (items->count == ITEMS_MAX) {
        items->overflow = true;
        return NULL;
    }
    if (items->count == items->size) {
        items->size = items->size ? 2 * items->size : 4;
        items->list = lac_realloc(items->list, items->size, sizeof *items->list);
    }
    item *it = &items->list[items->count++];
    *it = (item){.kind = kind, .text = {.cap = BYTES_MAX}};
    return it;
}

static void on_part(void *arg, lac_part part, const char *text, size_t length)
{
    lac__items *items = arg;
    item *last = items->count ? &items->list[items->count - 1] : NULL;
    item_kind kind = part == LAC_PART_REASONING ? THOUGHT
                     : part == LAC_PART_CONTENT ? MESSAGE
                                                : CALL;
    if (items->overflow || items->bytes + length > BYTES_MAX) {
        items->overflow = true;
        return;
    }
    if (part == LAC_PART_CALL || !last || last->kind != kind)
        last = push(items, kind);
    if (!last)
        return;
    items->bytes += length;
    if (part == LAC_PART_CALL)
        memcpy(last->name, text, length < LAC_NAME_MAX ? length : LAC_NAME_MAX);
    else
        lac_buf_add(&last->text, text, length);
}

bool lac__items_add(lac__items *items, const char *text, size_t length)
{
    lac_parts_read(&items->reader, text, length, on_part, items);
    return !items->overflow;
}

bool lac__items_pending(const lac__items *items)
{
    if (items->count == 0)
        return false;
    const item *last = &items->list[items->count - 1];
    return items->told + 1 < items->count || last->told < last->text.length || !last->begun;
}

/* ---- objects ---- */

static void text_of(const item *it, lac_buf *out)
{
    lac_buf_json(out, it->text.length ? it->text.data : "", it->text.length);
}

static void put_id(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    static const char *const prefixes[] = {"rs", "msg", "fc"};
    lac_buf_printf(out, "\"%s_%s_%u\"", prefixes[answer->items->list[index].kind],
                   answer->id + strlen("resp-"), index);
}

static const char *part_type(const item *it)
{
    return it->kind == THOUGHT ? "reasoning_text" : "output_text";
}

static void put_part(const item *it, bool with_text, lac_buf *out)
{
    lac_buf_printf(out, "{\"type\":\"%s\",", part_type(it));
    if (it->kind == MESSAGE)
        lac_buf_text(out, "\"annotations\":[],");
    lac_buf_text(out, "\"text\":");
    if (with_text)
        text_of(it, out);
    else
        lac_buf_text(out, "\"\"");
    lac_buf_text(out, "}");
}

/* An item as it is (whole) or as it begins. */
static void put_item(const lac__answer *answer, uint32_t index, bool whole, bool cut, lac_buf *out)
{
    const item *it = &answer->items->list[index];
    const char *status = !whole ? "in_progress" : cut ? "incomplete" : "completed";
    lac_buf_text(out, "{\"id\":");
    put_id(answer, index, out);
    switch (it->kind) {
    case CALL:
        lac_buf_text(out, ",\"type\":\"function_call\",\"call_id\":\"");
        lac__put_call_id(answer, 0, index, out);
        lac_buf_printf(out, "\",\"name\":\"%s\",\"status\":\"%s\",\"arguments\":", it->name,
                       status);
        if (whole)
            text_of(it, out);
        else
            lac_buf_text(out, "\"\"");
        lac_buf_text(out, "}");
        return;
    case THOUGHT: lac_buf_text(out, ",\"type\":\"reasoning\",\"summary\":[],"); break;
    case MESSAGE:
        lac_buf_printf(out, ",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"%s\",",
                       status);
        break;
    }
    lac_buf_text(out, "\"content\":[");
    if (whole)
        put_part(it, true, out);
    lac_buf_text(out, "]}");
}

static void put_usage(const lac_usage *usage, lac_buf *out)
{
    lac_buf_printf(
        out,
        ",\"usage\":{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
        "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":0},"
        "\"total_tokens\":%llu",
        usage->prompt_tokens, usage->cached_tokens, usage->completion_tokens,
        (unsigned long long)usage->prompt_tokens + usage->completion_tokens);
}

/* The response: with all items once `usage` is known, with none before. */
static void put_response(const lac__answer *answer, const lac_usage *usage,
                         const lac_run_account *account, lac_buf *out)
{
    const lac__items *items = answer->items;
    bool cut = answer->choices[0].finish == LAC_FINISH_LENGTH;
    lac_buf_printf(out,
                   "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
                   "\"error\":null,\"incomplete_details\":%s,\"previous_response_id\":null,"
                   "\"store\":false,\"model\":",
                   answer->id, (long long)answer->created_s,
                   !usage ? "in_progress"
                   : cut  ? "incomplete"
                          : "completed",
                   usage && cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    lac_buf_json(out, answer->model, strlen(answer->model));
    if (items->echo && items->echo[0])
        lac_buf_printf(out, ",%s", items->echo);
    lac_buf_text(out, ",\"output\":[");
    for (uint32_t i = 0; usage && i < items->count; i++) {
        if (i)
            lac_buf_text(out, ",");
        put_item(answer, i, true, cut && i + 1 == items->count, out);
    }
    lac_buf_text(out, "]");
    if (usage) {
        put_usage(usage, out);
        if (account)
            lac__answer_account(account, out);
        lac_buf_text(out, "}");
    }
    lac_buf_text(out, "}");
}

void lac__items_whole(const lac__answer *answer, const lac_usage *usage,
                      const lac_run_account *account, lac_buf *out)
{
    put_response(answer, usage, account, out);
}

/* ---- events: a line each ---- */

static void event(const lac__answer *answer, const char *type, lac_buf *out)
{
    lac_buf_printf(out, "{\"type\":\"response.%s\",\"sequence_number\":%llu", type,
                   (unsigned long long)answer->items->events++);
}

static void event_end(lac_buf *out)
{
    lac_buf_text(out, "}\n");
}

static void item_event(const lac__answer *answer, const char *type, uint32_t index, lac_buf *out)
{
    event(answer, type, out);
    lac_buf_printf(out, ",\"output_index\":%u,\"item_id\":", index);
    put_id(answer, index, out);
}

static void response_event(const lac__answer *answer, const char *type, const lac_usage *usage,
                           const lac_run_account *account, lac_buf *out)
{
    event(answer, type, out);
    lac_buf_text(out, ",\"response\":");
    put_response(answer, usage, account, out);
    event_end(out);
}

static void begin(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    item *it = &answer->items->list[index];
    it->begun = true;
    event(answer, "output_item.added", out);
    lac_buf_printf(out, ",\"output_index\":%u,\"item\":", index);
    put_item(answer, index, false, false, out);
    event_end(out);
    if (it->kind == CALL)
        return;
    item_event(answer, "content_part.added", index, out);
    lac_buf_text(out, ",\"content_index\":0,\"part\":");
    put_part(it, false, out);
    event_end(out);
}

static void delta(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    static const char *const types[] = {"reasoning_text.delta", "output_text.delta",
                                        "function_call_arguments.delta"};
    item *it = &answer->items->list[index];
    if (it->told == it->text.length)
        return;
    item_event(answer, types[it->kind], index, out);
    lac_buf_text(out, it->kind == CALL ? ",\"delta\":" : ",\"content_index\":0,\"delta\":");
    lac_buf_json(out, it->text.data + it->told, it->text.length - it->told);
    it->told = it->text.length;
    if (it->kind == MESSAGE)
        lac_buf_text(out, ",\"logprobs\":[]");
    event_end(out);
}

static void finish(const lac__answer *answer, uint32_t index, bool cut, lac_buf *out)
{
    static const char *const types[] = {"reasoning_text.done", "output_text.done",
                                        "function_call_arguments.done"};
    item *it = &answer->items->list[index];
    it->ended = true;
    item_event(answer, types[it->kind], index, out);
    lac_buf_text(out, it->kind == CALL ? ",\"arguments\":" : ",\"content_index\":0,\"text\":");
    text_of(it, out);
    if (it->kind == CALL)
        lac_buf_printf(out, ",\"name\":\"%s\"", it->name);
    event_end(out);
    if (it->kind != CALL) {
        item_event(answer, "content_part.done", index, out);
        lac_buf_text(out, ",\"content_index\":0,\"part\":");
        put_part(it, true, out);
        event_end(out);
    }
    event(answer, "output_item.done", out);
    lac_buf_printf(out, ",\"output_index\":%u,\"item\":", index);
    put_item(answer, index, true, cut, out);
    event_end(out);
}

void lac__items_first(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    LAC_ASSERT(index == 0);
    response_event(answer, "created", NULL, NULL, out);
    response_event(answer, "in_progress", NULL, NULL, out);
}

/* An item is over when another has begun. */
void lac__items_chunk(const lac__answer *answer, uint32_t index, lac_buf *out)
{
    lac__items *items = answer->items;
    LAC_ASSERT(index == 0);
    for (; items->told < items->count; items->told++) {
        item *it = &items->list[items->told];
        if (!it->begun)
            begin(answer, items->told, out);
        delta(answer, items->told, out);
        if (items->told + 1 == items->count)
            return;
        finish(answer, items->told, false, out);
    }
}

void lac__items_end(const lac__answer *answer, const lac_usage *usage,
                    const lac_run_account *account, lac_buf *out)
{
    const lac__items *items = answer->items;
    bool cut = answer->choices[0].finish == LAC_FINISH_LENGTH;
    lac__items_chunk(answer, 0, out);
    if (items->count && !items->list[items->count - 1].ended)
        finish(answer, items->count - 1, cut, out);
    response_event(answer, cut ? "incomplete" : "completed", usage, account, out);
}
