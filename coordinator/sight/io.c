/* Events as bytes. A message's struct is kept as it is, but for its pointers: lists follow it, and
 * of texts and tokens only the length. A SUBMIT is different: only what is named here is kept of
 * it, so that a new field with a person's text in it stays out by itself. Pure. */
#include "io.h"

#include <string.h>

#include "base/assert.h"

enum { ALIGN = 8 };

void lac__io_bytes(lac__io *io, void *field, size_t size)
{
    if (io->failed || (size_t)(io->end - io->at) < size) {
        io->failed = true;
        return;
    }
    if (io->reading)
        memcpy(field, io->at, size);
    else
        memcpy(io->at, field, size);
    io->at += size;
}
#define IO(field) lac__io_bytes(io, &(field), sizeof(field))

/* A list of `count` things: reading makes room for it. NULL when there is none. */
static void *list(lac__io *io, const void *items, size_t count, size_t size, size_t max)
{
    if (count > max)
        io->failed = true;
    if (!count || io->failed)
        return NULL;
    void *at = io->reading ? lac_arena_alloc(io->arena, count * size) : (void *)(uintptr_t)items;
    if (!at)
        io->failed = true;
    else
        lac__io_bytes(io, at, count * size);
    return io->failed ? NULL : at;
}

/* Something of that length that says nothing. */
static void *filler(lac__io *io, size_t size, int byte)
{
    if (!io->reading || !size || io->failed)
        return NULL;
    void *at = lac_arena_alloc(io->arena, size);
    if (!at)
        io->failed = true;
    else
        memset(at, byte, size);
    return at;
}

static void span(lac__io *io, lac_span *s)
{
    IO(s->length);
    if (io->reading)
        s->data = filler(io, s->length, 'x');
}

/* A name that is not a person's text: masks. */
static void text(lac__io *io, const char **t)
{
    uint32_t length = !io->reading && *t ? (uint32_t)strlen(*t) + 1 : 0;
    IO(length);
    *t = list(io, *t, length, 1, LAC_MASK_TEXT_MAX + 1);
    if (io->reading && *t && (*t)[length - 1])
        io->failed = true;
}

/* ---- worker plane ---- */

static void facts_of_classes(lac__io *io, lac_hello *h)
{
    h->running = list(io, h->running, h->running_count, sizeof *h->running, LAC_RUNNING_MAX);
    lac_class_facts *classes =
        list(io, h->classes, h->classes_count, sizeof *classes, LAC_CLASSES_MAX);
    for (uint32_t i = 0; classes && i < h->classes_count; i++) {
        const char *mask = classes[i].mask; /* when reading, a pointer of the other process */
        text(io, &mask);
        if (io->reading)
            classes[i].mask = mask;
    }
    h->classes = classes;
}

static void account(lac__io *io, const lac_run_account **a)
{
    bool there = *a != NULL;
    IO(there);
    lac_run_account *copy = list(io, *a, there, sizeof *copy, 1);
    if (!copy)
        return;
    const char *mask = copy->mask;
    text(io, &mask);
    if (io->reading) {
        copy->mask = mask;
        *a = copy;
    }
}

/* Of logprobs only that there are some: texts and numbers of them speak of the answer. */
static void chunk(lac__io *io, lac_chunk *c)
{
    IO(c->first_pos);
    IO(c->tokens_count);
    IO(c->logprobs_count);
    span(io, &c->text);
    if (!io->reading)
        return;
    if (c->tokens_count > LAC_CONTEXT_MAX || c->logprobs_count > c->tokens_count) {
        io->failed = true;
        return;
    }
    c->tokens = filler(io, c->tokens_count * sizeof *c->tokens, 0);
    c->logprobs = filler(io, c->logprobs_count * sizeof *c->logprobs, 0);
}

static void step_item(lac__io *io, lac_step_item *item)
{
    IO(item->request);
    IO(item->attempt);
    chunk(io, &item->chunk);
    IO(item->finish);
    IO(item->usage);
    IO(item->error);
    account(io, &item->account);
}

static void step_output(lac__io *io, lac_step_output *o)
{
    IO(o->items_count);
    if (o->items_count > LAC_STEP_ITEMS_MAX) {
        io->failed = true;
        return;
    }
    lac_step_item *items = (lac_step_item *)(uintptr_t)o->items;
    if (io->reading && o->items_count)
        items = lac_arena_alloc(io->arena, o->items_count * sizeof *items);
    if (o->items_count && !items)
        io->failed = true;
    for (uint32_t i = 0; !io->failed && i < o->items_count; i++)
        step_item(io, &items[i]);
    o->items = items;
}

/* Most of the struct is room for classes that are not there. */
static void heartbeat(lac__io *io, lac_heartbeat *h)
{
    lac_class_beat all[LAC_CLASSES_MAX] = {{0}};
    IO(h->classes_count);
    if (h->classes_count > LAC_CLASSES_MAX) {
        io->failed = true;
        return;
    }
    size_t used = h->classes_count * sizeof *all;
    if (!io->reading)
        memcpy(all, h->classes, used);
    lac__io_bytes(io, all, used);
    lac__io_bytes(io, h, offsetof(lac_heartbeat, classes));
    size_t after = offsetof(lac_heartbeat, classes) + sizeof h->classes;
    lac__io_bytes(io, (uint8_t *)h + after, sizeof *h - after);
    if (io->reading)
        memcpy(h->classes, all, sizeof all);
}

/* ---- client plane ---- */

static void prompt(lac__io *io, lac_prompt *p)
{
    IO(p->kind);
    IO(p->want);
    IO(p->parts);
    IO(p->without_bos);
    IO(p->messages_count);
    IO(p->ids_count);
    span(io, &p->text);
    span(io, &p->suffix);
    span(io, &p->tools);
    if (p->messages_count > LAC_MESSAGES_MAX || p->ids_count > LAC_CONTEXT_MAX) {
        io->failed = true;
        return;
    }
    lac_chat_message *messages = (lac_chat_message *)(uintptr_t)p->messages;
    if (io->reading && p->messages_count)
        messages = lac_arena_alloc(io->arena, p->messages_count * sizeof *messages);
    if (p->messages_count && !messages)
        io->failed = true;
    for (uint32_t i = 0; !io->failed && i < p->messages_count; i++) {
        IO(messages[i].role);
        span(io, &messages[i].content);
        span(io, &messages[i].reasoning);
        span(io, &messages[i].calls);
        span(io, &messages[i].call_id);
    }
    p->messages = messages;
    if (io->reading)
        p->ids = filler(io, p->ids_count * sizeof *p->ids, 0);
}

/* Stop strings, biases and schemas are a person's too: the core only passes them on. */
static void sampling(lac__io *io, lac_sampling *s)
{
    IO(s->has_seed);
    IO(s->seed);
    IO(s->choice);
    IO(s->max_tokens);
    IO(s->min_tokens);
    IO(s->logprobs);
    IO(s->top_logprobs);
    IO(s->bias_count);
    IO(s->grammar_length);
    if (!io->reading)
        return;
    if (s->bias_count > LAC_LOGIT_BIAS_MAX || s->grammar_length > LAC_GRAMMAR_BYTES_MAX) {
        io->failed = true;
        return;
    }
    s->bias = filler(io, s->bias_count * sizeof *s->bias, 0);
    s->grammar = filler(io, s->grammar_length, 'x');
}

static void submit(lac__io *io, lac_submit *s)
{
    IO(s->stream);
    IO(s->model);
    prompt(io, &s->prompt);
    sampling(io, &s->sampling);
    IO(s->deadline_ms);
    IO(s->credit);
    IO(s->echo);
    IO(s->priority);
    IO(s->hint);
    IO(s->sparse);
    IO(s->has_tier);
    IO(s->tier_max);
    IO(s->force);
    IO(s->service);
}

/* ---- all of them ---- */

static bool keep_text(char *to, size_t size, const char *from)
{
    if (!from)
        return false;
    size_t length = strnlen(from, size - 1);
    memcpy(to, from, length);
    to[length] = 0;
    return true;
}

static const char *copy_name(lac__io *io, const char name[LAC_NAME_MAX + 1])
{
    size_t length = strnlen(name, LAC_NAME_MAX);
    char *copy = lac_arena_alloc(io->arena, length + 1);
    if (copy)
        memcpy(copy, name, length);
    io->failed |= !copy;
    return copy;
}

bool lac__io_message(lac__io *io, lac_msg *msg)
{
    IO(msg->envelope);
    char tenant[LAC_NAME_MAX + 1] = "";
    if (!io->reading && msg->tenant)
        keep_text(tenant, sizeof tenant, msg->tenant);
    IO(tenant);
    if (io->reading)
        msg->tenant = copy_name(io, tenant);
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO:
        IO(msg->body.hello);
        span(io, &msg->body.hello.address);
        facts_of_classes(io, &msg->body.hello);
        return true;
    case LAC_MSG_HEARTBEAT: heartbeat(io, &msg->body.heartbeat); return true;
    case LAC_MSG_STEP_OUTPUT: step_output(io, &msg->body.step_output); return true;
    case LAC_MSG_SHADOW: IO(msg->body.shadow); return true;
    case LAC_MSG_FAULT: IO(msg->body.fault.status); return true;
    case LAC_MSG_DRAINED: return true;
    case LAC_MSG_SUBMIT: submit(io, &msg->body.submit); return true;
    case LAC_MSG_CLIENT_CANCEL: IO(msg->body.client_cancel); return true;
    case LAC_MSG_CREDIT: IO(msg->body.credit); return true;
    case LAC_MSG_PATH_FORCE: IO(msg->body.path_force); return true;
    case LAC_MSG_SCALE: IO(msg->body.scale); return true;
    case LAC_MSG_DRAIN_GROUP: IO(msg->body.drain_group); return true;
    case LAC_MSG_FEEDBACK: IO(msg->body.feedback); return true;
    default: return false;
    }
}

void lac__io_facts(lac__io *io, lac_prompt_facts *facts)
{
    IO(*facts);
    if (facts->blocks_count > LAC_PREFIX_BLOCKS_MAX)
        io->failed = true;
}

void lac__io_fleet(lac__io *io, const lac_fleet_entry **entries, size_t *count)
{
    uint64_t n = *count;
    IO(n);
    *entries = list(io, *entries, n, sizeof **entries, 2 * (size_t)LAC_GROUPS_MAX);
    *count = n;
}

/* ---- options ---- */

/* Only what is named: a new pointer among them would be one of another process. */
void lac__options_keep(const lac_core_options *o, lac__kept_options *out)
{
    memset(out, 0, sizeof *out);
    out->has_policy = keep_text(out->policy, sizeof out->policy, o->policy);
    out->has_address = keep_text(out->http_address, sizeof out->http_address, o->http_address);
    out->has_prefix = keep_text(out->prefix, sizeof out->prefix, o->fleet.prefix);
    lac_core_options *kept = &out->options;
    kept->epoch = o->epoch;
    kept->seed = o->seed;
    kept->queue_max = o->queue_max;
    kept->queue_tokens_max = o->queue_tokens_max;
    kept->lease_ms = o->lease_ms;
    kept->suspect_ms = o->suspect_ms;
    kept->heartbeat_ms = o->heartbeat_ms;
    kept->bytes_max = o->bytes_max;
    kept->tier_max = o->tier_max;
    kept->shadow_share = o->shadow_share;
    kept->brownout_ms = o->brownout_ms;
    kept->allow_force = o->allow_force;
    kept->fleet = o->fleet;
    kept->fleet.prefix = NULL;
}

void lac__options_use(lac__kept_options *kept)
{
    kept->options.policy = kept->has_policy ? kept->policy : NULL;
    kept->options.http_address = kept->has_address ? kept->http_address : NULL;
    kept->options.fleet.prefix = kept->has_prefix ? kept->prefix : NULL;
}

uint64_t lac__block_layout(void)
{
    const size_t sizes[] = {
        sizeof(lac__block),      sizeof(lac__entry),      sizeof(lac_msg),
        sizeof(lac_hello),       sizeof(lac_submit),      sizeof(lac_heartbeat),
        sizeof(lac_class_facts), sizeof(lac_shadow),      sizeof(lac_run_account),
        sizeof(lac_fleet_entry), sizeof(lac_core_options)};
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        hash = (hash ^ sizes[i]) * UINT64_C(0x100000001B3);
    _Static_assert(sizeof(lac__entry) % ALIGN == 0, "entries follow each other aligned");
    return hash;
}
