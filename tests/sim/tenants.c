/* Tenants under load, by seeds: the work they get follows their weights within a bound, none
 * starves beside a flood, no quota is exceeded over any span of time, who waits as long as told is
 * let in, and a brownout comes before refusals and does not flutter. The core with one timed group;
 * every bound here is stated beside its check. Prints what it saw. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "base/text.h"
#include "core/core.h"

enum { TENANTS_MAX = 6, STREAMS_MAX = 20000, RUNS_MAX = 40, MS_A_TOKEN = 4, CLASS_CHEAP = 1 };

typedef struct {
    uint64_t request, started, ms;
    uint32_t attempt, tokens, stream;
} run;

typedef struct {
    int tenant;
    uint32_t prompt, answer, max_tokens; /* tokens */
    uint64_t asked, admitted, begun;     /* ms; 0 = not */
    uint32_t retry_ms;                   /* refused by quota: after that */
    bool refused, ended, deeper;
} stream;

static struct {
    lac_core *core;
    lac_metrics *metrics;
    lac_rng rng;
    uint64_t now, session, report, seq;
    uint32_t slots;
    run runs[RUNS_MAX];
    int runs_count;
    stream streams[STREAMS_MAX + 1];
    uint32_t streams_count;
    lac_tenant rules[TENANTS_MAX];
    int tenants;
    double work[TENANTS_MAX]; /* that began and ended: prompt and answer tokens */
    int waiting[TENANTS_MAX]; /* asked, not begun */
    bool cheap_is_faster;
} W;

static uint64_t between(uint64_t low, uint64_t high)
{
    return low + lac_rng_below(&W.rng, high - low + 1);
}

/* ---- the group ---- */

static void take_dispatch(const lac_dispatch *d)
{
    LAC_ASSERT(W.runs_count < RUNS_MAX);
    char number[9] = {0};
    memcpy(number, d->prompt.text.data, 8);
    stream *s = &W.streams[strtoul(number, NULL, 10)];
    s->begun = W.now;
    s->deeper = d->has_class;
    W.waiting[s->tenant]--;
    W.seq = d->dispatch_seq;
    uint64_t ms = (uint64_t)(s->prompt / 20 + s->answer) * MS_A_TOKEN;
    W.runs[W.runs_count++] = (run){.request = d->request,
                                   .attempt = d->attempt,
                                   .started = W.now,
                                   .ms = d->has_class && W.cheap_is_faster ? ms / 3 : ms,
                                   .tokens = s->answer,
                                   .stream = (uint32_t)(s - W.streams)};
}

static void note_end(const lac_msg *msg)
{
    if (msg->envelope.type == LAC_MSG_ACCEPTED)
        W.streams[msg->body.accepted.stream].admitted = W.now;
    if (msg->envelope.type == LAC_MSG_DONE)
        W.streams[msg->body.done.stream].ended = true;
    if (msg->envelope.type != LAC_MSG_REFUSED)
        return;
    stream *s = &W.streams[msg->body.refused.stream];
    LAC_ASSERT(msg->body.refused.status == LAC_BUSY && !s->admitted);
    s->refused = true;
    bool quota = msg->body.refused.cause == LAC_CAUSE_QUOTA;
    s->retry_ms = quota ? msg->body.refused.retry_after_ms : 0;
    W.waiting[s->tenant]--;
}

static lac_status sink(void *arg, const lac_action *action)
{
    (void)arg;
    if (action->plane != LAC_PLANE_WORKER)
        note_end(action->msg);
    else if (action->msg->envelope.type == LAC_MSG_HELLO_ACK)
        W.session = action->msg->body.hello_ack.session;
    else if (action->msg->envelope.type == LAC_MSG_DISPATCH)
        take_dispatch(&action->msg->body.dispatch);
    return LAC_OK;
}

static void event(lac_plane plane, uint64_t peer, const lac_msg *msg)
{
    lac_event e = {.kind = LAC_EVENT_MESSAGE, .plane = plane, .peer = peer, .msg = msg};
    lac_core_step(W.core, W.now, &e);
}

static void join(void)
{
    lac_class_facts cheap = {.digest = {{CLASS_CHEAP}}, .mask = "A1", .cost = 0.4f};
    snprintf(cheap.name, sizeof cheap.name, "cheap");
    cheap.serves[LAC_INPUT_STRUCTURED] = (lac_class_serve){LAC_TIER_ECONOMY, 0.05f, 0.08f};
    lac_msg msg = {.envelope.type = LAC_MSG_HELLO};
    lac_hello *h = &msg.body.hello;
    *h = (lac_hello){.pp = 1,
                     .tp = 1,
                     .layers = 2,
                     .vocab = 100,
                     .context_max = 1 << 20,
                     .slots = W.slots,
                     .classes = &cheap,
                     .classes_count = 1};
    snprintf(h->group, sizeof h->group, "g0");
    snprintf(h->model, sizeof h->model, "m");
    event(LAC_PLANE_WORKER, 1, &msg);
}

static void beat(void)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_HEARTBEAT, .epoch = 1, .session = W.session},
                   .body.heartbeat = {.report_seq = ++W.report,
                                      .step_counter = W.now,
                                      .busy = W.runs_count > 0,
                                      .running = (uint32_t)W.runs_count,
                                      .dispatch_seq_seen = W.seq,
                                      .itl_us = MS_A_TOKEN * 1000,
                                      .prefill_us = MS_A_TOKEN * 50}};
    event(LAC_PLANE_WORKER, 1, &msg);
}

static void finish(int index)
{
    run r = W.runs[index];
    W.runs[index] = W.runs[--W.runs_count];
    stream *s = &W.streams[r.stream];
    W.work[s->tenant] += s->prompt + s->answer;
    uint32_t tokens[512] = {0};
    LAC_ASSERT(r.tokens <= 512);
    lac_step_item item = {.request = r.request,
                          .attempt = r.attempt,
                          .chunk = {.tokens_count = r.tokens, .tokens = tokens, .text = {"x", 1}},
                          .finish = LAC_FINISH_STOP,
                          .usage = {.prompt_tokens = s->prompt, .completion_tokens = r.tokens}};
    lac_msg msg = {.envelope = {.type = LAC_MSG_STEP_OUTPUT, .epoch = 1, .session = W.session},
                   .body.step_output = {.items_count = 1, .items = &item}};
    event(LAC_PLANE_WORKER, 1, &msg);
}

/* ---- the clients ---- */

static const char *name_of(int tenant)
{
    static const char *const names[TENANTS_MAX] = {"t0", "t1", "t2", "t3", "t4", "t5"};
    return names[tenant];
}

static uint32_t ask(int tenant, uint32_t prompt, uint32_t answer, uint32_t max_tokens)
{
    static char text[1 << 16];
    static const char row[] = "10,20,30,ab\n";
    LAC_ASSERT(W.streams_count < STREAMS_MAX && prompt >= 8 && prompt * 4 < sizeof text);
    uint32_t number = ++W.streams_count;
    W.streams[number] = (stream){.tenant = tenant,
                                 .prompt = prompt,
                                 .answer = answer,
                                 .max_tokens = max_tokens,
                                 .asked = W.now};
    for (uint32_t i = 0; i < prompt * 4; i++)
        text[i] = row[i % (sizeof row - 1)];
    char head[9];
    snprintf(head, sizeof head, "%08u", number);
    memcpy(text, head, 8);
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT,
                   .tenant = name_of(tenant),
                   .body.submit = {.stream = number,
                                   .prompt = {.kind = LAC_PROMPT_TEXT,
                                              /* The core takes four bytes for a token, and one. */
                                              .text = {text, prompt * 4 - 4}},
                                   .sampling = lac_sampling_default(),
                                   .credit = 1000}};
    msg.body.submit.sampling.max_tokens = max_tokens;
    W.waiting[tenant]++;
    event(LAC_PLANE_CLIENT, 9, &msg);
    return number;
}

static void millisecond(void)
{
    W.now++;
    for (int i = W.runs_count; i-- > 0;)
        if (W.now >= W.runs[i].started + W.runs[i].ms)
            finish(i);
    if (W.now % 500 == 0)
        beat();
    if (W.now % 100 == 0) {
        lac_event e = {.kind = LAC_EVENT_TICK};
        lac_core_step(W.core, W.now, &e);
    }
    if (W.now % 1000 == 0)
        lac_core_audit(W.core);
}

static void open_world(uint64_t seed, int tenants, uint32_t slots, uint32_t brownout_ms,
                       uint32_t queue_max)
{
    memset(&W, 0, sizeof W);
    W.now = 1000;
    W.slots = slots;
    W.tenants = tenants;
    lac_rng_seed(&W.rng, seed);
    W.metrics = lac_metrics_create(256);
    lac_core_options options = {.epoch = 1,
                                .seed = seed,
                                .queue_max = queue_max,
                                .tier_max = LAC_TIER_STANDARD,
                                .brownout_ms = brownout_ms};
    W.core = lac_core_create(&options, W.metrics, sink, NULL);
    for (int i = 0; i < tenants; i++)
        W.rules[i] = lac_tenant_default(name_of(i));
    join();
}

static void obey(void)
{
    lac_error err;
    lac_status status = lac_core_set_tenants(W.core, W.now, W.rules, (size_t)W.tenants, &err);
    LAC_ASSERT(status == LAC_OK);
}

static void close_world(void)
{
    lac_core_destroy(&W.core);
    lac_metrics_destroy(&W.metrics);
}

static double metric(lac_metric_kind kind, const char *name)
{
    return lac_metric_value(lac_metrics_series(W.metrics, kind, name, "", ""));
}

/* ---- what must hold ---- */

/* All wait all the time: over the whole, work per weight differs by no more than one request and
 * what runs at once; predictions are wrong by up to what the longest answer takes. */
static double shares(uint64_t seed)
{
    open_world(seed, 2, 4, 0, 4096);
    W.tenants = (int)between(2, TENANTS_MAX);
    uint32_t longest[TENANTS_MAX], prompts[TENANTS_MAX];
    for (int i = 0; i < W.tenants; i++) {
        W.rules[i] = lac_tenant_default(name_of(i));
        W.rules[i].weight = (uint32_t)between(1, 8);
        longest[i] = (uint32_t)between(1, 200);
        prompts[i] = (uint32_t)between(8, 400);
    }
    obey();
    uint64_t end = W.now + 300000;
    for (; W.now < end && W.streams_count < STREAMS_MAX - 100; millisecond())
        for (int i = 0; i < W.tenants; i++)
            while (W.waiting[i] < 3)
                ask(i, (uint32_t)between(8, prompts[i]), (uint32_t)between(1, longest[i]), 0);
    double all = 0, weights = 0, worst = 0;
    for (int i = 0; i < W.tenants; i++) {
        all += W.work[i];
        weights += W.rules[i].weight;
    }
    for (int i = 0; i < W.tenants; i++) {
        double due = all * W.rules[i].weight / weights;
        double off = W.work[i] > due ? W.work[i] - due : due - W.work[i];
        double bound = (400 + 200) * (W.slots * 1.25 + 2) + 0.02 * due;
        if (off > bound)
            fprintf(stderr, "seed %llu: %s, weight %u, got %.0f of %.0f due\n",
                    (unsigned long long)seed, name_of(i), W.rules[i].weight, W.work[i], due);
        LAC_ASSERT(off <= bound);
        worst = off / due > worst ? off / due : worst;
    }
    close_world();
    return worst;
}

/* One floods; the others ask now and then, less than their share: none of theirs waits longer than
 * what runs takes to end, and a turn of everybody. */
static uint64_t starvation(uint64_t seed)
{
    open_world(seed, 4, 4, 0, 4096);
    obey();
    uint64_t worst = 0;
    for (uint64_t end = W.now + 120000; W.now < end; millisecond()) {
        while (W.waiting[0] < 200 && W.streams_count < STREAMS_MAX - 2000)
            ask(0, (uint32_t)between(8, 100), (uint32_t)between(50, 200), 0);
        for (int i = 1; i < 4; i++)
            if (between(0, 4000) == 0)
                ask(i, (uint32_t)between(8, 100), (uint32_t)between(1, 100), 0);
    }
    for (uint32_t i = 1; i <= W.streams_count; i++) {
        const stream *s = &W.streams[i];
        uint64_t waited = (s->begun ? s->begun : W.now) - s->asked;
        if (s->tenant && waited > worst)
            worst = waited;
    }
    LAC_ASSERT(worst <= 3000);
    close_world();
    return worst;
}

/* Σ amounts − limit·time, the largest rise of it over any span: a bucket allows one minute's worth.
 */
typedef struct {
    double level, lowest, rise;
} excess;

static void add(excess *e, uint64_t at_ms, double amount, double *total, double limit)
{
    double before = *total - limit * (double)at_ms / 60000;
    if (before < e->lowest)
        e->lowest = before;
    *total += amount;
    double rise = before + amount - e->lowest;
    e->rise = rise > e->rise ? rise : e->rise;
}

static void quotas(uint64_t seed)
{
    open_world(seed, 3, 16, 0, 4096);
    for (int i = 0; i < 3; i++) {
        W.rules[i].requests_minute = between(5, 200);
        W.rules[i].tokens_minute = between(500, 40000);
        W.rules[i].concurrency = (uint32_t)between(1, 12);
    }
    obey();
    uint64_t free_at[3] = {0};
    uint32_t last[3] = {0};
    for (uint64_t end = W.now + 200000; W.now < end; millisecond())
        for (int i = 0; i < 3; i++) {
            if (W.now < free_at[i] || between(0, 40))
                continue;
            bool waited = last[i] && free_at[i] && W.streams[last[i]].retry_ms;
            const stream *before = &W.streams[last[i]];
            uint32_t prompt = waited ? before->prompt : (uint32_t)between(8, 300);
            uint32_t answer = waited ? before->answer : (uint32_t)between(1, 200);
            last[i] = ask(i, prompt, answer, 200);
            const stream *s = &W.streams[last[i]];
            free_at[i] = s->refused ? W.now + s->retry_ms : 0;
        }
    for (int i = 0; i < 3; i++) {
        excess requests = {0}, tokens = {0};
        double asked = 0, used = 0;
        for (uint32_t n = 1; n <= W.streams_count; n++) {
            const stream *s = &W.streams[n];
            if (s->tenant != i || !s->admitted)
                continue;
            add(&requests, s->admitted, 1, &asked, (double)W.rules[i].requests_minute);
            add(&tokens, s->admitted, s->prompt + s->answer, &used,
                (double)W.rules[i].tokens_minute);
        }
        LAC_ASSERT(asked > 0);
        LAC_ASSERT(requests.rise <= (double)W.rules[i].requests_minute + 0.01);
        /* One larger than the whole bucket goes when that is full. */
        double most =
            (double)W.rules[i].tokens_minute > 500 ? (double)W.rules[i].tokens_minute : 500;
        LAC_ASSERT(tokens.rise <= most + 0.01);
    }
    close_world();
}

/* Who waits as long as told and asks for the same is let in, when nothing else of it runs. */
static void honest_times(uint64_t seed)
{
    open_world(seed, 1, 16, 0, 4096);
    W.rules[0].requests_minute = between(3, 60);
    W.rules[0].tokens_minute = between(500, 9000);
    obey();
    int told = 0;
    for (int i = 0; i < 400 && told < 60; i++) {
        uint32_t prompt = (uint32_t)between(8, 200), answer = (uint32_t)between(1, 100);
        const stream *s = &W.streams[ask(0, prompt, answer, answer)];
        if (s->refused) {
            told++;
            LAC_ASSERT(s->retry_ms > 0);
            for (uint32_t k = s->retry_ms; k > 0; k--)
                millisecond();
            LAC_ASSERT(!W.streams[ask(0, prompt, answer, answer)].refused);
        }
        for (uint64_t k = between(0, 800); k > 0; k--)
            millisecond();
    }
    LAC_ASSERT(told > 0);
    close_world();
}

/* Twice the load that can be served in full, for a minute, then little. */
static int overload(uint64_t seed, bool brownout, int *refused, int *deeper)
{
    open_world(seed, 2, 8, 1000, 64);
    W.cheap_is_faster = true;
    for (int i = 0; i < 2; i++) {
        W.rules[i].brownout = brownout;
        W.rules[i].has_tier_max = true;
        W.rules[i].tier_max = LAC_TIER_ECONOMY;
    }
    obey();
    for (uint64_t end = W.now + 90000; W.now < end; millisecond()) {
        uint64_t gap = end - W.now > 30000 ? 20 : 400;
        if (between(1, gap) == 1)
            ask((int)between(0, 1), 60, (uint32_t)between(60, 100), 0);
    }
    *refused = *deeper = 0;
    for (uint32_t i = 1; i <= W.streams_count; i++) {
        *refused += W.streams[i].refused;
        *deeper += W.streams[i].deeper;
    }
    int begins = (int)metric(LAC_METRIC_COUNTER, "lacuna_brownouts_total");
    bool over = metric(LAC_METRIC_GAUGE, "lacuna_brownout") == 0;
    LAC_ASSERT(over); /* it ends when the load does */
    close_world();
    return begins;
}

int main(int argc, char **argv)
{
    int64_t seeds = 12;
    if (argc == 3 && !strcmp(argv[1], "--seeds") && !lac_parse_i64(argv[2], 1, 100000, &seeds))
        return 2;
    double worst_share = 0;
    uint64_t worst_wait = 0;
    int most_begins = 0, refused_with = 0, refused_without = 0, deeper_with = 0;
    for (int64_t seed = 1; seed <= seeds; seed++) {
        double share = shares((uint64_t)seed);
        worst_share = share > worst_share ? share : worst_share;
        uint64_t wait = starvation((uint64_t)seed);
        worst_wait = wait > worst_wait ? wait : worst_wait;
        quotas((uint64_t)seed);
        honest_times((uint64_t)seed);
        int refused, deeper;
        int begins = overload((uint64_t)seed, true, &refused, &deeper);
        most_begins = begins > most_begins ? begins : most_begins;
        refused_with += refused;
        deeper_with += deeper;
        overload((uint64_t)seed, false, &refused, &deeper);
        refused_without += refused;
        LAC_ASSERT(!deeper);
    }
    printf("%lld seeds: work is off its share by %.1f %% at most; beside a flood others wait %llu "
           "ms at most\n",
           (long long)seeds, worst_share * 100, (unsigned long long)worst_wait);
    printf("overload: refused %d without brownout, %d with; %d served deeper; at most %d begins\n",
           refused_without, refused_with, deeper_with, most_begins);
    bool holds = refused_without > 0 && refused_with == 0 && deeper_with > 0 && most_begins <= 3;
    if (!holds)
        fprintf(stderr, "a promise does not hold\n");
    return holds ? 0 : 1;
}
