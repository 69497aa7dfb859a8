/* Routing policies against each other: the core with simple timed workers (unequal speeds, a cache
 * of a few prefixes each), the same arrivals for each policy. Prints what clients feel, and holds
 * the promises on it: `cost` is not slower than `least-loaded`, one hot prefix does not heat one
 * worker, and its cache is hit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "core/core.h"

enum { WORKERS = 8, SLOTS = 8, RUNS_MAX = 16, REQUESTS = 1500, CACHED = 3, PREFIX_BYTES = 2048 };

typedef struct {
    uint64_t request, stream;
    uint32_t attempt, made, length;
    double prefill_left_ms;
} sequence;

typedef struct {
    double prefill_ms, itl_ms, debt_ms; /* of one token alone; of a step alone */
    uint64_t session, seq_seen, steps, report;
    sequence runs[RUNS_MAX];
    int count, cached[CACHED];
    double itl_now, served;
} worker;

typedef struct {
    uint64_t arrived;
    uint32_t prefix, length, suffix;
    double ttft;
    bool ended;
} asked;

static struct {
    lac_core *core;
    uint64_t now;
    worker workers[WORKERS];
    asked requests[REQUESTS + 1];
    int hits, misses, ended;
} W;

static lac_status to_worker(worker *w, const lac_msg *msg)
{
    if (msg->envelope.type == LAC_MSG_HELLO_ACK)
        w->session = msg->body.hello_ack.session;
    if (msg->envelope.type != LAC_MSG_DISPATCH)
        return LAC_OK;
    const lac_dispatch *d = &msg->body.dispatch;
    LAC_ASSERT(w->count < RUNS_MAX);
    w->seq_seen = d->dispatch_seq;
    char tail[9] = {0};
    memcpy(tail, d->prompt.text.data + d->prompt.text.length - 8, 8);
    uint64_t stream = strtoull(tail, NULL, 10);
    const asked *a = &W.requests[stream];
    int at = 0;
    while (at < CACHED && w->cached[at] != (int)a->prefix)
        at++;
    bool hit = at < CACHED;
    for (at = hit ? at : CACHED - 1; at > 0; at--)
        w->cached[at] = w->cached[at - 1];
    w->cached[0] = (int)a->prefix;
    *(hit ? &W.hits : &W.misses) += 1;
    double tokens = a->suffix / 4.0 + (hit ? 0 : PREFIX_BYTES / 4.0);
    w->runs[w->count++] = (sequence){.request = d->request,
                                     .stream = stream,
                                     .attempt = d->attempt,
                                     .length = a->length,
                                     .prefill_left_ms = tokens * w->prefill_ms};
    w->served++;
    return LAC_OK;
}

static lac_status sink(void *arg, const lac_action *action)
{
    (void)arg;
    if (action->plane == LAC_PLANE_WORKER)
        return to_worker(&W.workers[action->peer - 1], action->msg);
    const lac_msg *msg = action->msg;
    if (msg->envelope.type == LAC_MSG_TOKENS) {
        asked *a = &W.requests[msg->body.tokens.stream];
        if (a->ttft < 0)
            a->ttft = (double)(W.now - a->arrived);
    }
    LAC_ASSERT(msg->envelope.type != LAC_MSG_REFUSED);
    if (msg->envelope.type == LAC_MSG_DONE)
        W.ended++;
    return LAC_OK;
}

static void event(lac_plane plane, uint64_t peer, const lac_msg *msg)
{
    lac_event e = {.kind = LAC_EVENT_MESSAGE, .plane = plane, .peer = peer, .msg = msg};
    lac_core_step(W.core, W.now, &e);
}

static void join(uint64_t peer)
{
    lac_msg msg = {.envelope.type = LAC_MSG_HELLO};
    lac_hello *h = &msg.body.hello;
    *h = (lac_hello){
        .pp = 1, .tp = 1, .layers = 2, .vocab = 100, .context_max = 4096, .slots = SLOTS};
    snprintf(h->group, sizeof h->group, "g%d", (int)peer);
    snprintf(h->model, sizeof h->model, "m");
    event(LAC_PLANE_WORKER, peer, &msg);
}

static void beat(uint64_t peer)
{
    worker *w = &W.workers[peer - 1];
    lac_msg msg = {.envelope = {.type = LAC_MSG_HEARTBEAT, .epoch = 1, .session = w->session},
                   .body.heartbeat = {.report_seq = ++w->report,
                                      .step_counter = w->steps,
                                      .busy = w->count > 0,
                                      .running = (uint32_t)w->count,
                                      .dispatch_seq_seen = w->seq_seen,
                                      .itl_us = (uint32_t)(w->itl_now * 1000),
                                      .prefill_us = (uint32_t)(w->prefill_ms * 1000)}};
    event(LAC_PLANE_WORKER, peer, &msg);
}

static void say_token(uint64_t peer, sequence *q)
{
    uint32_t token = 7;
    bool last = q->made + 1 == q->length;
    lac_step_item item = {
        .request = q->request,
        .attempt = q->attempt,
        .chunk = {.first_pos = q->made++, .tokens_count = 1, .tokens = &token, .text = {"x", 1}},
        .finish = last ? LAC_FINISH_STOP : LAC_FINISH_NONE};
    lac_msg msg = {.envelope = {.type = LAC_MSG_STEP_OUTPUT,
                                .epoch = 1,
                                .session = W.workers[peer - 1].session},
                   .body.step_output = {.items_count = 1, .items = &item}};
    event(LAC_PLANE_WORKER, peer, &msg);
}

/* One millisecond of its engine: a prefill first, then steps over all that decode. */
static void work(uint64_t peer)
{
    worker *w = &W.workers[peer - 1];
    w->debt_ms += 1;
    while (w->count && w->debt_ms > 0) {
        sequence *waiting = NULL;
        int active = w->count < SLOTS ? w->count : SLOTS;
        for (int i = 0; i < active && !waiting; i++)
            if (w->runs[i].prefill_left_ms > 0)
                waiting = &w->runs[i];
        if (waiting) {
            double part =
                waiting->prefill_left_ms < w->debt_ms ? waiting->prefill_left_ms : w->debt_ms;
            waiting->prefill_left_ms -= part;
            w->debt_ms -= part;
            continue;
        }
        double step = w->itl_ms * (1 + 0.15 * active);
        w->debt_ms -= step;
        w->itl_now += (step - w->itl_now) * 0.2;
        w->steps++;
        for (int i = active; i-- > 0;) {
            sequence q = w->runs[i];
            w->runs[i].made++;
            if (q.made + 1 == q.length) {
                memmove(&w->runs[i], &w->runs[i + 1],
                        (size_t)(w->count - i - 1) * sizeof w->runs[0]);
                w->count--;
            }
            say_token(peer, &q);
        }
    }
    if (!w->count)
        w->debt_ms = 0;
}

static void submit(uint64_t stream)
{
    static char text[PREFIX_BYTES + 4096];
    asked *a = &W.requests[stream];
    memset(text, (char)('a' + a->prefix), PREFIX_BYTES);
    memset(text + PREFIX_BYTES, 's', a->suffix);
    char tail[24];
    snprintf(tail, sizeof tail, "%08llu", (unsigned long long)stream);
    memcpy(text + PREFIX_BYTES + a->suffix - 8, tail, 8);
    a->arrived = W.now;
    a->ttft = -1;
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT,
                   .body.submit = {.stream = stream,
                                   .prompt = {.kind = LAC_PROMPT_TEXT,
                                              .text = {text, PREFIX_BYTES + a->suffix}},
                                   .sampling = lac_sampling_default(),
                                   .credit = 1000}};
    event(LAC_PLANE_CLIENT, 99, &msg);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct {
    double mean, p99, hits, hottest;
} result;

/* `gap_ms` between arrivals on average; `prefixes` in turn of popularity. */
static result run(const char *policy, int requests, double gap_ms, uint32_t prefixes, bool unequal)
{
    static double ttft[REQUESTS];
    lac_rng rng;
    lac_rng_seed(&rng, 5);
    memset(&W, 0, sizeof W);
    W.now = 1000;
    lac_metrics *metrics = lac_metrics_create(256);
    lac_core_options options = {.epoch = 1, .seed = 9, .policy = policy, .queue_max = 4096};
    W.core = lac_core_create(&options, metrics, sink, NULL);
    LAC_ASSERT(W.core);
    for (uint64_t p = 1; p <= WORKERS; p++) {
        worker *w = &W.workers[p - 1];
        double slow = unequal && p % 4 == 0 ? 3 : 1;
        w->prefill_ms = 0.5 * slow;
        w->itl_ms = 8 * slow;
        for (int i = 0; i < CACHED; i++)
            w->cached[i] = -1;
        join(p);
    }
    double next = 62000; /* past the slow start */
    int sent = 0;
    for (; W.ended < requests; W.now++) {
        for (; sent < requests && (double)W.now >= next; next += 2 * gap_ms * lac_rng_unit(&rng)) {
            uint32_t one = (uint32_t)lac_rng_below(&rng, prefixes),
                     two = (uint32_t)lac_rng_below(&rng, prefixes);
            W.requests[++sent] = (asked){.prefix = one < two ? one : two,
                                         .suffix = 100 + (uint32_t)lac_rng_below(&rng, 1200),
                                         .length = 4 + (uint32_t)lac_rng_below(&rng, 60)};
            submit((uint64_t)sent);
        }
        for (uint64_t p = 1; p <= WORKERS; p++) {
            work(p);
            if ((W.now + p * 61) % 500 == 0)
                beat(p);
        }
        if (W.now % 100 == 0) {
            lac_event e = {.kind = LAC_EVENT_TICK};
            lac_core_step(W.core, W.now, &e);
        }
        LAC_ASSERT(W.now < 10000000);
    }
    result r = {0};
    for (int i = 0; i < requests; i++) {
        ttft[i] = W.requests[i + 1].ttft;
        r.mean += ttft[i] / requests;
    }
    qsort(ttft, (size_t)requests, sizeof ttft[0], ascending);
    r.p99 = ttft[requests * 99 / 100];
    r.hits = (double)W.hits / (W.hits + W.misses);
    for (int i = 0; i < WORKERS; i++)
        if (W.workers[i].served * WORKERS / requests > r.hottest)
            r.hottest = W.workers[i].served * WORKERS / requests;
    printf("%-13s mean ttft %7.1f ms, p99 %7.1f ms, prefix hits %3.0f %%, hottest %.2f x mean\n",
           policy, r.mean, r.p99, r.hits * 100, r.hottest);
    lac_core_destroy(&W.core);
    lac_metrics_destroy(&metrics);
    return r;
}

int main(void)
{
    static const struct {
        const char *what;
        double gap_ms;
        uint32_t prefixes;
        bool unequal;
    } loads[] = {{"equal workers, light load", 60, 12, false},
                 {"equal workers, heavy load", 46, 12, false},
                 {"unequal workers, heavy load", 60, 12, true}};
    int failed = 0;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        printf("%s:\n", loads[i].what);
        run("round-robin", REQUESTS, loads[i].gap_ms, loads[i].prefixes, loads[i].unequal);
        result least =
            run("least-loaded", REQUESTS, loads[i].gap_ms, loads[i].prefixes, loads[i].unequal);
        result cost = run("cost", REQUESTS, loads[i].gap_ms, loads[i].prefixes, loads[i].unequal);
        failed += !(cost.mean < least.mean && cost.hits > least.hits);
    }
    printf("one hot prefix, 480 requests at once:\n");
    result hot = run("cost", 480, 1, 1, false);
    failed += !(hot.hottest <= 2 && hot.hits >= 0.9);
    if (failed)
        fprintf(stderr, "%d of the promises do not hold\n", failed);
    return failed ? 1 : 0;
}
