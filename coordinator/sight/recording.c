/* Reading what a recorder wrote: the file is taken for outside data, so every size is checked
 * before it is believed. Any thread; one recording is read by one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "sight/recorder.h"

enum { ARENA_BYTES = 64 << 20 }; /* lists and fillers of one event */

struct lac_recording {
    lac__block *block;
    size_t data; /* bytes of it in the file */
    uint64_t at, seen;
    lac_arena *arena;
    lac_msg msg;
    lac_prompt_facts facts;
    struct lac_failure failures[LAC_RECORDED_FAILURES];
};

static lac_status read_file(const char *path, lac__block *block, size_t *data, lac_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return lac_fail(err, LAC_EIO, "%.200s: %s", path, strerror(errno));
    size_t size = fread(block, 1, sizeof *block, f);
    bool failed = ferror(f) || fgetc(f) != EOF;
    fclose(f);
    if (failed || size < offsetof(lac__block, data))
        return lac_fail(err, LAC_ECORRUPT, "%.200s: it has %zu bytes, expected %zu to %zu", path,
                        size, offsetof(lac__block, data), sizeof *block);
    *data = size - offsetof(lac__block, data);
    return LAC_OK;
}

static lac_status check_block(const char *path, const lac__block *b, size_t data, lac_error *err)
{
    if (memcmp(b->magic, "LACFLT1", 8) != 0)
        return lac_fail(err, LAC_ECORRUPT, "%.200s is no recording", path);
    if (strncmp(b->version, LAC_VERSION, sizeof b->version) != 0 ||
        b->layout != lac__block_layout())
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "%.200s was written by another build (version %.15s, this is %s)", path,
                        b->version, LAC_VERSION);
    bool sane = b->size == LAC_RECORDED_BYTES && b->tail <= b->head &&
                b->head - b->tail <= b->size && b->guards_length < sizeof b->guards &&
                b->kept <= b->numbers && data == (b->head < b->size ? b->head : b->size);
    return sane ? LAC_OK : lac_fail(err, LAC_ECORRUPT, "%.200s: its head makes no sense", path);
}

lac_status lac_recording_open(const char *path, lac_recording **out, lac_error *err)
{
    lac_recording *r = lac_alloc(1, sizeof *r);
    r->block = lac_alloc(1, sizeof *r->block);
    lac_status status = read_file(path, r->block, &r->data, err);
    if (status == LAC_OK)
        status = check_block(path, r->block, r->data, err);
    if (status != LAC_OK) {
        lac_recording_close(&r);
        return status;
    }
    lac__kept_options *kept = &r->block->kept_options;
    kept->policy[sizeof kept->policy - 1] = 0;
    kept->http_address[sizeof kept->http_address - 1] = 0;
    kept->prefix[sizeof kept->prefix - 1] = 0;
    lac__options_use(kept);
    r->block->guards[r->block->guards_length] = 0;
    r->arena = lac_arena_create(ARENA_BYTES);
    r->at = r->block->tail;
    *out = r;
    return LAC_OK;
}

void lac_recording_close(lac_recording **recording)
{
    lac_recording *r = *recording;
    if (!r)
        return;
    *recording = NULL;
    lac_arena_destroy(&r->arena);
    free(r->block);
    free(r);
}

const lac_core_options *lac_recording_options(const lac_recording *r)
{
    return &r->block->kept_options.options;
}

const char *lac_recording_guards(const lac_recording *r)
{
    return r->block->guards;
}

/* The entry at the reading place, checked; NULL with an error. Skips what only fills the end. */
static const lac__entry *take_entry(lac_recording *r, lac_error *err)
{
    lac__block *b = r->block;
    for (;;) {
        size_t place = (size_t)(r->at % b->size);
        size_t left = (size_t)b->size - place;
        if (left < sizeof(lac__entry)) { /* too little for a head: nothing was put there */
            r->at += left;
            continue;
        }
        const lac__entry *e = (const lac__entry *)(const void *)(b->data + place);
        bool fits = e->size >= sizeof *e && e->size % 8 == 0 && e->size <= left &&
                    r->at + e->size <= b->head && place + e->size <= r->data;
        size_t used = sizeof *e + (size_t)e->body;
        if (fits && e->kind != LAC__ENTRY_PAD)
            fits = e->kind < LAC__ENTRY_PAD && e->body <= LAC_RECORDED_EVENT_BYTES &&
                   e->failures <= LAC_RECORDED_FAILURES &&
                   ((used + 7) & ~(size_t)7) + e->failures * sizeof *r->failures <= e->size &&
                   e->event_kind <= LAC_EVENT_TICK && e->plane <= LAC_PLANE_BATCH;
        if (!fits) {
            lac_fail(err, LAC_ECORRUPT, "the entry after event %llu makes no sense",
                     (unsigned long long)r->seen);
            return NULL;
        }
        r->at += e->size;
        if (e->kind != LAC__ENTRY_PAD)
            return e;
    }
}

static bool read_body(lac_recording *r, const lac__entry *e, lac_event *event)
{
    uint8_t *body = (uint8_t *)(uintptr_t)(e + 1);
    lac__io io = {.reading = true, .at = body, .end = body + e->body, .arena = r->arena};
    if (event->kind == LAC_EVENT_MESSAGE) {
        memset(&r->msg, 0, sizeof r->msg);
        event->msg = &r->msg;
        if (!lac__io_message(&io, &r->msg) || r->msg.envelope.type != e->type)
            return false;
        if (e->type == LAC_MSG_SUBMIT) {
            lac__io_facts(&io, &r->facts);
            event->facts = &r->facts;
        }
    } else if (event->kind == LAC_EVENT_FLEET) {
        lac__io_fleet(&io, &event->fleet, &event->fleet_count);
    }
    return !io.failed && io.at == io.end;
}

/* The arguments of a call that is no event; false for an event. */
static bool read_call(const lac__entry *e, lac_recorded *out)
{
    size_t length = e->body < sizeof out->group ? e->body : 0;
    switch (out->kind) {
    case LAC_RECORDED_DRAIN:
        memcpy(out->group, e + 1, length);
        out->deadline_ms = e->lag_ms;
        return true;
    case LAC_RECORDED_TENANTS:
        out->tenants = (const void *)(e + 1);
        out->tenants_count = e->body / sizeof *out->tenants;
        return true;
    case LAC_RECORDED_MODELS:
        out->models = e->body == sizeof *out->models ? (const void *)(e + 1) : NULL;
        return out->models != NULL;
    case LAC_RECORDED_EVENT:
    case LAC_RECORDED_KINDS: break;
    }
    return false;
}

bool lac_recording_next(lac_recording *r, lac_recorded *out, lac_error *err)
{
    if (err)
        *err = (lac_error){0};
    if (r->at >= r->block->head)
        return false;
    const lac__entry *e = take_entry(r, err);
    if (!e)
        return false;
    lac_arena_reset(r->arena);
    *out = (lac_recorded){.number = e->number,
                          .now_ms = e->now_ms,
                          .kind = (lac_recorded_kind)e->kind,
                          .whole = e->whole,
                          .finished = e->finished,
                          .hash = e->hash,
                          .actions = e->actions,
                          .failures_count = e->failures,
                          .failures = r->failures,
                          .event = {.kind = (lac_event_kind)e->event_kind,
                                    .plane = (lac_plane)e->plane,
                                    .peer = e->peer,
                                    .wall_s = e->wall_s,
                                    .lag_ms = e->lag_ms}};
    r->seen = e->number;
    const uint8_t *after = (const uint8_t *)(e + 1) + ((e->body + 7u) & ~7u);
    memcpy(r->failures, after, e->failures * sizeof *r->failures);
    if (!e->whole) {
        memset(&r->msg, 0, sizeof r->msg);
        r->msg.envelope.type = e->type;
        out->event.msg = &r->msg;
    } else if (!read_call(e, out) && !read_body(r, e, &out->event)) {
        lac_fail(err, LAC_ECORRUPT, "event %llu: its body makes no sense",
                 (unsigned long long)e->number);
        return false;
    }
    return true;
}
