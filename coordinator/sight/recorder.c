/* The recorder: a ring of entries in one block of memory that is written to a file as it is. An
 * event is in the block before its step begins, so a crash shows the step it happened in. Loop
 * thread; the crash handler only reads. */
#include "sight/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "io.h"

struct lac_recorder {
    lac__block *block; /* mapped: only what was written takes memory */
    bool open;         /* between begin and end */
    uint32_t failures_count;
    struct lac_failure failures[LAC_RECORDED_FAILURES];
    uint8_t scratch[LAC_RECORDED_EVENT_BYTES];
};

/* ---- the ring ---- */

static lac__entry *entry_at(lac__block *b, uint64_t position)
{
    return (lac__entry *)(void *)(b->data + position % b->size);
}

static void drop_oldest(lac__block *b)
{
    uint64_t left = b->size - b->tail % b->size;
    if (left < sizeof(lac__entry)) { /* too little for a head: nothing was put there */
        b->tail += left;
        return;
    }
    const lac__entry *e = entry_at(b, b->tail);
    b->kept -= e->kind != LAC__ENTRY_PAD;
    b->tail += e->size;
}

/* Room for `size` bytes in one piece at the head; what is oldest goes for it. */
static lac__entry *reserve(lac__block *b, uint32_t size)
{
    uint64_t left = b->size - b->head % b->size;
    if (left < size) {
        while (b->head + left - b->tail > b->size)
            drop_oldest(b);
        if (left >= sizeof(lac__entry))
            *entry_at(b, b->head) = (lac__entry){.kind = LAC__ENTRY_PAD, .size = (uint32_t)left};
        b->head += left;
    }
    while (b->head + size - b->tail > b->size || b->kept >= LAC_RECORDED_EVENTS)
        drop_oldest(b);
    lac__entry *e = entry_at(b, b->head);
    b->current = b->head;
    return e;
}

static uint32_t aligned(size_t size)
{
    return (uint32_t)((size + 7) & ~(size_t)7);
}

/* ---- steps ---- */

static size_t write_body(lac_recorder *r, const lac_event *event, bool *whole)
{
    lac__io io = {.at = r->scratch, .end = r->scratch + sizeof r->scratch};
    *whole = true;
    if (event->kind == LAC_EVENT_MESSAGE) {
        /* Writing changes nothing of it. */
        lac_msg *msg = (lac_msg *)(uintptr_t)event->msg;
        *whole = lac__io_message(&io, msg);
        if (msg->envelope.type == LAC_MSG_SUBMIT && event->facts)
            lac__io_facts(&io, (lac_prompt_facts *)(uintptr_t)event->facts);
        else if (msg->envelope.type == LAC_MSG_SUBMIT)
            *whole = false;
    } else if (event->kind == LAC_EVENT_FLEET) {
        const lac_fleet_entry *entries = event->fleet;
        size_t count = event->fleet_count;
        lac__io_fleet(&io, &entries, &count);
    }
    *whole &= !io.failed;
    return *whole ? (size_t)(io.at - r->scratch) : 0;
}

static void put(lac_recorder *r, const lac__entry *head, size_t body)
{
    lac__block *b = r->block;
    uint32_t size = aligned(sizeof *head + body);
    /* Failures are added when the step is over: room for them is kept now, so that the entry is the
     * newest until then. */
    lac__entry *e = reserve(b, size + (uint32_t)sizeof r->failures);
    *e = *head;
    e->size = size;
    e->body = (uint32_t)body;
    e->number = b->numbers++;
    memcpy(e + 1, r->scratch, body);
    b->head += size;
    b->kept++;
}

void lac_recorder_begin(lac_recorder *r, uint64_t now_ms, const lac_event *event)
{
    LAC_ASSERT(!r->open);
    lac__entry head = {.kind = LAC_RECORDED_EVENT,
                       .event_kind = (uint8_t)event->kind,
                       .plane = (uint8_t)event->plane,
                       .peer = event->peer,
                       .type = event->kind == LAC_EVENT_MESSAGE ? event->msg->envelope.type : 0,
                       .now_ms = now_ms,
                       .wall_s = event->wall_s,
                       .lag_ms = event->lag_ms};
    size_t body = write_body(r, event, &head.whole);
    put(r, &head, body);
    r->open = true;
    r->failures_count = 0;
}

void lac_recorder_sent(lac_recorder *r, const lac_action *action, lac_status answer)
{
    if (!r->open)
        return; /* of a call that is no step and that nobody announced */
    lac__entry *e = entry_at(r->block, r->block->current);
    if (answer != LAC_OK && r->failures_count < sizeof r->failures / sizeof *r->failures)
        r->failures[r->failures_count++] = (struct lac_failure){e->actions, answer};
    else if (answer != LAC_OK)
        e->whole = false;
    e->hash = lac_action_hash(e->hash, action);
    e->actions++;
}

void lac_recorder_end(lac_recorder *r)
{
    LAC_ASSERT(r->open);
    lac__block *b = r->block;
    lac__entry *e = entry_at(b, b->current);
    size_t size = r->failures_count * sizeof *r->failures;
    memcpy((uint8_t *)e + e->size, r->failures, size);
    e->failures = r->failures_count;
    b->head += aligned(size);
    e->size += aligned(size);
    e->finished = true;
    r->open = false;
}

/* A call that is no event, its arguments as they are. */
static void begin_call(lac_recorder *r, lac__entry head, const void *arguments, size_t size)
{
    LAC_ASSERT(!r->open);
    head.whole = size <= sizeof r->scratch;
    if (head.whole && size)
        memcpy(r->scratch, arguments, size);
    put(r, &head, head.whole ? size : 0);
    r->open = true;
    r->failures_count = 0;
}

void lac_recorder_begin_tenants(lac_recorder *r, uint64_t now_ms, const lac_tenant *rows,
                                size_t count)
{
    lac__entry head = {.kind = LAC_RECORDED_TENANTS, .now_ms = now_ms};
    begin_call(r, head, rows, count * sizeof *rows);
}

void lac_recorder_begin_models(lac_recorder *r, uint64_t now_ms, const lac_model_names *names)
{
    lac__entry head = {.kind = LAC_RECORDED_MODELS, .now_ms = now_ms};
    begin_call(r, head, names, sizeof *names);
}

void lac_recorder_begin_drain(lac_recorder *r, uint64_t now_ms, const char *group,
                              uint32_t deadline_ms)
{
    lac__entry head = {.kind = LAC_RECORDED_DRAIN, .now_ms = now_ms, .lag_ms = deadline_ms};
    begin_call(r, head, group, strnlen(group, LAC_NAME_MAX));
}

uint64_t lac_recorder_events(const lac_recorder *r)
{
    return r->block->numbers;
}

/* ---- life ---- */

lac_recorder *lac_recorder_create(const lac_core_options *options, const char *guards)
{
    lac_recorder *r = lac_alloc(1, sizeof *r);
    void *memory = mmap(NULL, sizeof(lac__block), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    LAC_ASSERT(memory != MAP_FAILED);
    r->block = memory;
    memcpy(r->block->magic, "LACFLT1", 8);
    memcpy(r->block->version, LAC_VERSION, sizeof LAC_VERSION);
    r->block->layout = lac__block_layout();
    r->block->size = sizeof r->block->data;
    lac__options_keep(options, &r->block->kept_options);
    size_t length = strlen(guards);
    if (length < sizeof r->block->guards) {
        memcpy(r->block->guards, guards, length);
        r->block->guards_length = (uint32_t)length;
    }
    return r;
}

static const lac__block *crash_block;

void lac_recorder_destroy(lac_recorder **recorder)
{
    lac_recorder *r = *recorder;
    if (!r)
        return;
    *recorder = NULL;
    if (crash_block == r->block)
        lac_recorder_on_crash(NULL, "");
    munmap(r->block, sizeof *r->block);
    free(r);
}

/* ---- files ---- */

/* Only calls that a signal handler may make. */
static int write_block(const lac__block *b, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    /* What was never reached holds nothing. */
    size_t left = b->head < b->size ? offsetof(lac__block, data) + (size_t)b->head : sizeof *b;
    const uint8_t *at = (const uint8_t *)b;
    int error = 0;
    while (left && !error) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno != EINTR)
            error = errno;
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    if (close(fd) && !error)
        error = errno;
    return error;
}

lac_status lac_recorder_dump(const lac_recorder *r, const char *path, lac_error *err)
{
    int error = write_block(r->block, path);
    return error ? lac_fail(err, LAC_EIO, "%.200s: %s", path, strerror(error)) : LAC_OK;
}

/* ---- crashes ---- */

static const int crash_signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
static char crash_path[512];

static void on_crash(int number)
{
    const lac__block *b = crash_block;
    crash_block = NULL; /* a fault while writing ends at once */
    if (b)
        write_block(b, crash_path);
    signal(number, SIG_DFL);
    raise(number);
}

void lac_recorder_on_crash(const lac_recorder *r, const char *path)
{
    /* A stack that ran over leaves none for the handler. */
    static uint8_t stack[65536];
    crash_block = NULL;
    size_t length = strlen(path);
    if (r && length < sizeof crash_path) {
        memcpy(crash_path, path, length + 1);
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
        crash_block = r->block;
    }
    for (size_t i = 0; i < sizeof crash_signals / sizeof *crash_signals; i++) {
        struct sigaction action = {.sa_handler = crash_block ? on_crash : SIG_DFL,
                                   .sa_flags = SA_ONSTACK | (int)SA_RESETHAND | SA_NODEFER};
        sigaction(crash_signals[i], &action, NULL);
    }
}
