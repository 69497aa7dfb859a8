/* The sample messages. A field added to a message must be set here and shown in dump.c: the sizes
 * below say so when one is forgotten. */
#include <string.h>

#include "samples.h"

_Static_assert(
    sizeof(lac_hello) == 640 && sizeof(lac_heartbeat) == 664 && sizeof(lac_step_item) == 336 &&
        sizeof(lac_dispatch) == 704 && sizeof(lac_submit) == 840 &&
        sizeof(lac_group_status) == 360 && sizeof(lac_status_reply) == 432 &&
        sizeof(lac_sampling) == 368 && sizeof(lac_chunk) == 48 && sizeof(lac_refused) == 304 &&
        sizeof(lac_class_facts) == 176 && sizeof(lac_run_account) == 240 &&
        sizeof(lac_shadow) == 64 && sizeof(lac_path_query) == 256 &&
        sizeof(lac_path_reply) == 824 && sizeof(lac_known_class) == 664 &&
        sizeof(lac_plan_reply) == 96 && sizeof(lac_done) == 32 && sizeof(lac_tokens) == 64,
    "a message changed: set its new field in samples.c, show it in dump.c, then the size");

#define SPAN(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const uint32_t tokens[] = {0, 1, 127, 128, 16384, LAC_VOCAB_MAX - 1};
static const lac_chat_message chat[] = {
    {.role = "system", .content = SPAN("be brief")},
    {.role = "user", .content = SPAN("h\xc3\xa9llo \xf0\x9f\x8c\x8d\n\0nul inside")},
    {.role = "assistant"},
};
static const lac_logit_bias bias[] = {{3, -100.0f}, {LAC_VOCAB_MAX - 1, 99.5f}};
static const lac_top_logprob top[] = {{5, -0.25f, SPAN(" the")}, {6, -1e9f, SPAN("\xf0\x9f")}};
static const lac_logprob logprobs[] = {
    {{0, -0.5f, SPAN("a")}, 2, top},   {{1, 0.0f, {NULL, 0}}, 0, NULL},
    {{127, -2, SPAN("b")}, 1, top},    {{128, -3, SPAN("c")}, 0, NULL},
    {{16384, -4, SPAN("d")}, 0, NULL}, {{9, -5, SPAN("e")}, 2, top},
};

static lac_sampling sampling(void)
{
    lac_sampling s = {.temperature = 0.7f,
                      .top_p = 0.9f,
                      .min_p = 0.05f,
                      .top_k = 40,
                      .repetition_penalty = 1.1f,
                      .presence_penalty = -0.5f,
                      .frequency_penalty = 0.25f,
                      .has_seed = true,
                      .seed = UINT64_C(0xfedcba9876543210),
                      .choice = 3,
                      .max_tokens = 512,
                      .min_tokens = 2,
                      .ignore_eos = true,
                      .logprobs = true,
                      .top_logprobs = LAC_TOP_LOGPROBS_MAX,
                      .stops_count = 2,
                      .bias_count = COUNT(bias),
                      .bias = bias};
    s.stops[0].length = 2;
    memcpy(s.stops[0].bytes, "\n\n", 2);
    s.stops[1].length = LAC_STOP_BYTES_MAX;
    memset(s.stops[1].bytes, 'x', LAC_STOP_BYTES_MAX);
    return s;
}

static const lac_chunk full_chunk = {.first_pos = 7,
                                     .tokens_count = COUNT(tokens),
                                     .tokens = tokens,
                                     .text = SPAN("whole \xe4\xb8\xad\xe6\x96\x87"),
                                     .logprobs_count = COUNT(logprobs),
                                     .logprobs = logprobs};

/* ---- one function a message ---- */

static void hello(lac_msg *m)
{
    static const lac_running running[] = {{1, 2, 3}, {UINT64_MAX, UINT32_MAX, LAC_CONTEXT_MAX}};
    m->body.hello =
        (lac_hello){.group = "g0.A_-",
                    .incarnation = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
                    .rank = 5,
                    .pp = 2,
                    .tp = 3,
                    .features = UINT64_C(1) << 63,
                    .pid = 4242,
                    .model = "SmolLM2-135M-Instruct",
                    .architecture = "llama",
                    .chat_family = "chatml",
                    .isa = "avx512-vnni",
                    .layers = 30,
                    .vocab = 49152,
                    .context_max = 8192,
                    .slots = 16,
                    .kv_pages = 1024,
                    .model_bytes = 98362432,
                    .threads = 2,
                    .running_count = COUNT(running),
                    .running = running};
    memset(m->body.hello.model_digest.bytes, 0xab, 32);
}

static void heartbeat(lac_msg *m)
{
    m->body.heartbeat = (lac_heartbeat){.report_seq = 1,
                                        .step_counter = 2,
                                        .busy = true,
                                        .step_age_ms = 3,
                                        .queued = 4,
                                        .running = 5,
                                        .kv_pages_used = 6,
                                        .kv_pages = 7,
                                        .dispatch_seq_seen = 8,
                                        .prompt_tokens = 9,
                                        .output_tokens = 10,
                                        .itl_us = 11,
                                        .prefill_us = 12,
                                        .rss_bytes = UINT64_MAX,
                                        .active_layers = 30,
                                        .draining = true};
}

static void step_output(lac_msg *m)
{
    static lac_step_item items[3];
    items[0] = (lac_step_item){.request = 11, .attempt = 1, .chunk = full_chunk};
    items[1] = (lac_step_item){
        .request = 12, .attempt = 2, .finish = LAC_FINISH_STOP, .usage = {10, 20, 5}};
    items[2] = (lac_step_item){.request = 13,
                               .attempt = 3,
                               .finish = LAC_FINISH_ERROR,
                               .error = LAC_ETOOBIG,
                               .reason = "prompt has 9000 tokens, allowed: 8192"};
    m->body.step_output = (lac_step_output){.items_count = COUNT(items), .items = items};
}

static void drained(lac_msg *m)
{
    (void)m;
}

static void fault(lac_msg *m)
{
    m->body.fault = (lac_fault){.status = LAC_ECORRUPT, .reason = "tensor blk.3 is cut short"};
}

static void hello_ack(lac_msg *m)
{
    m->body.hello_ack = (lac_hello_ack){
        .session = 77, .epoch = 8, .incarnation = {9, 9}, .heartbeat_ms = 500, .lease_ms = 6000};
}

static void hello_reject(lac_msg *m)
{
    m->body.hello_reject =
        (lac_hello_reject){.major_min = 1, .major_max = 2, .reason = "model digest differs"};
}

static void reregister(lac_msg *m)
{
    m->body.die = (lac_die){.reason = "unknown peer"};
}

static void die(lac_msg *m)
{
    m->body.die = (lac_die){.reason = "fenced"};
}

static void dispatch(lac_msg *m)
{
    m->body.dispatch = (lac_dispatch){
        .request = 99,
        .attempt = 1,
        .dispatch_seq = 1000,
        .deadline_ms = 30000,
        .prompt = {.kind = LAC_PROMPT_CHAT, .messages_count = COUNT(chat), .messages = chat},
        .accepted_count = COUNT(tokens),
        .accepted = tokens,
        .sampling = sampling(),
        .echo = true};
}

static void dispatch_ids(lac_msg *m)
{
    dispatch(m);
    m->body.dispatch.prompt =
        (lac_prompt){.kind = LAC_PROMPT_IDS, .ids_count = COUNT(tokens), .ids = tokens};
}

static void cancel(lac_msg *m)
{
    m->body.cancel = (lac_cancel){.request = 99, .attempt = 4};
}

static void drain(lac_msg *m)
{
    m->body.drain = (lac_drain){.deadline_ms = 5000};
}

static void submit(lac_msg *m)
{
    m->body.submit = (lac_submit){
        .stream = 1,
        .model = "SmolLM2-135M-Instruct",
        .prompt = {.kind = LAC_PROMPT_TEXT, .text = SPAN("Once upon \xe2\x98\x83\0 a time")},
        .sampling = sampling(),
        .deadline_ms = 60000,
        .credit = 64,
        .echo = true};
}

static void submit_plain(lac_msg *m)
{
    m->body.submit = (lac_submit){.stream = 2,
                                  .prompt = {.kind = LAC_PROMPT_TEXT},
                                  .sampling = lac_sampling_default(),
                                  .credit = 1};
}

static void submit_chat(lac_msg *m)
{
    submit(m);
    m->body.submit.prompt =
        (lac_prompt){.kind = LAC_PROMPT_CHAT, .messages_count = COUNT(chat), .messages = chat};
}

static void client_cancel(lac_msg *m)
{
    m->body.client_cancel = (lac_client_cancel){.stream = 5};
}

static void credit(lac_msg *m)
{
    m->body.credit = (lac_credit){.stream = 5, .messages = LAC_CREDIT_MAX};
}

static void status_query(lac_msg *m)
{
    m->body.status_query = (lac_status_query){.stream = 6};
}

static void accepted(lac_msg *m)
{
    m->body.accepted = (lac_accepted){.stream = 5, .request = 99, .model = "m"};
}

static void tokens_message(lac_msg *m)
{
    m->body.tokens = (lac_tokens){.stream = 5, .chunk = full_chunk};
}

static void done(lac_msg *m)
{
    m->body.done = (lac_done){.stream = 5, .finish = LAC_FINISH_LENGTH, .usage = {1, 2, 3}};
}

static void refused(lac_msg *m)
{
    m->body.refused = (lac_refused){
        .stream = 5, .status = LAC_BUSY, .retry_after_ms = 1500, .reason = "256 requests wait"};
}

static void status_reply(lac_msg *m)
{
    static const lac_rank_status ranks[] = {
        {.rank = 0, .pid = 100, .active_layers = 30, .rss_bytes = 1 << 20},
        {.rank = 1, .pid = 101, .active_layers = 29, .rss_bytes = 2 << 20}};
    static const lac_group_status groups[] = {
        {.id = "g0",
         .state = "READY",
         .model = "m",
         .isa = "avx2",
         .layers = 30,
         .slots = 16,
         .running = 3,
         .queued = 2,
         .kv_pages_used = 10,
         .kv_pages = 100,
         .itl_us = 9000,
         .output_tokens = 12345,
         .heartbeat_age_ms = 120,
         .ranks_count = COUNT(ranks),
         .ranks = ranks},
        {.id = "g1", .state = "DEAD"},
    };
    m->body.status_reply = (lac_status_reply){.stream = 6,
                                              .version = "0.1.0",
                                              .http = "127.0.0.1:8080",
                                              .epoch = 3,
                                              .uptime_ms = 1000,
                                              .queued = 1,
                                              .running = 2,
                                              .requests_total = 30,
                                              .tokens_total = 400,
                                              .groups_count = COUNT(groups),
                                              .groups = groups};
}

static void submit_priority(lac_msg *m)
{
    submit_chat(m);
    m->body.submit.priority = LAC_PRIORITY_MAX;
}

static void path_query(lac_msg *m)
{
    m->body.path_query = (lac_path_query){
        .stream = 8, .prompt = {.kind = LAC_PROMPT_TEXT, .text = {"a,b\n1,2\n", 8}}};
}

static void path_reply(lac_msg *m)
{
    static const lac_path_feature features[] = {{"digits", 125}, {"code", 1000}};
    m->body.path_reply = (lac_path_reply){.stream = 8,
                                          .type = "structured",
                                          .task = "none",
                                          .tokens_max = 128,
                                          .fingerprint = {{1, 2, 3, 0xfe, 0xff}},
                                          .class_name = "full",
                                          .class_reason = "no plan is loaded",
                                          .type_reason = "data 1000 > 721",
                                          .features_count = COUNT(features),
                                          .features = features};
}

/* ---- version 1.2: classes. What 1.0 and 1.1 wrote stays as it was, above. ---- */

static const lac_class_facts classes[] = {
    {.digest = {{0xc1, 1, 2, 3, [31] = 0xff}},
     .name = "logs-std",
     .scope = LAC_SCOPE_REQUEST,
     .serves = {[LAC_INPUT_STRUCTURED] = {LAC_TIER_STANDARD, 0.012f, 0.019f},
                [LAC_INPUT_CODE] = {LAC_TIER_ECONOMY, 0.05f, 0.07f}},
     .mask = "A7,A25,F28",
     .active_layers = 30,
     .skip_rate = 0.05f,
     .cost_skip_rate = 0.0625f,
     .cost = 0.96875f},
    {.digest = {{0xc2}},
     .name = "prose.gold",
     .scope = LAC_SCOPE_DECODE,
     .serves = {[LAC_INPUT_UNSTRUCTURED] = {LAC_TIER_GOLD, 0, 0.0075f},
                [LAC_INPUT_HYBRID] = {LAC_TIER_GOLD, 0.001f, 0.002f}},
     .active_layers = 29,
     .cost = 1.5f},
};

static const lac_run_account account = {.forced = true,
                                        .class_name = "logs-std",
                                        .mask = "A7,A25",
                                        .layers = 30,
                                        .active_layers = 29,
                                        .skip_rate = 0.03125f,
                                        .cost_skip_rate = 0.015625f,
                                        .flops = 1.25e12,
                                        .kv_bytes = UINT64_C(1) << 40,
                                        .why = "structured: certified, standard tier"};
static const lac_run_account account_full = {.class_name = "full", .layers = 30};

static void hello_classes(lac_msg *m)
{
    hello(m);
    m->body.hello.classes = classes;
    m->body.hello.classes_count = COUNT(classes);
}

static void heartbeat_classes(lac_msg *m)
{
    heartbeat(m);
    lac_heartbeat *b = &m->body.heartbeat;
    b->classes_count = 2;
    b->classes[0] = (lac_class_beat){.active_layers = 30, .requests = 4, .tokens = 100};
    b->classes[1] = (lac_class_beat){1, 29, 5, UINT64_MAX, 0.5f, 0.25f};
    b->class_reruns = 6;
    b->class_unknown = 7;
    b->shadows = 8;
    b->erased_bytes = 9;
    b->released_bytes = 10;
}

static void step_output_account(lac_msg *m)
{
    static lac_step_item items[2];
    items[0] = (lac_step_item){
        .request = 11, .attempt = 1, .finish = LAC_FINISH_STOP, .account = &account};
    items[1] = (lac_step_item){.request = 12, .attempt = 1, .account = &account_full};
    m->body.step_output = (lac_step_output){.items_count = COUNT(items), .items = items};
}

static void shadow(lac_msg *m)
{
    m->body.shadow = (lac_shadow){.class_digest = classes[0].digest,
                                  .input_type = LAC_INPUT_STRUCTURED,
                                  .tokens = 64,
                                  .kl_mean = 0.0123456789,
                                  .top1_agree = 0.96875f};
}

/* Version 1.3. */
static void shadow_canary(lac_msg *m)
{
    shadow(m);
    m->body.shadow.top1_p = 0.625f;
    m->body.shadow.top1_p_full = 0.75f;
    m->body.shadow.canary = true;
}

static void dispatch_class(lac_msg *m)
{
    dispatch(m);
    m->body.dispatch.has_class = true;
    m->body.dispatch.class_digest = classes[0].digest;
    m->body.dispatch.input_type = LAC_INPUT_HYBRID;
    m->body.dispatch.shadow = true;
}

static void submit_class(lac_msg *m)
{
    submit(m);
    lac_submit *b = &m->body.submit;
    b->priority = -2;
    strcpy(b->hint, "AbCdEfGhIjKlMnOpQrStUvWxYz01_-23");
    b->sparse = LAC_SPARSE_ON;
    b->has_tier = true;
    b->tier_max = LAC_TIER_ECONOMY;
    strcpy(b->force, "logs-std");
}

static void submit_full(lac_msg *m)
{
    submit_plain(m);
    m->body.submit.sparse = LAC_SPARSE_OFF;
    m->body.submit.has_tier = true;
}

static const char schema[] = "{\"type\":\"object\",\"title\":\"h\xc3\xa9llo\"}";

static void grammar(lac_sampling *s)
{
    s->ignore_eos = false;
    s->min_tokens = 0;
    s->grammar = schema;
    s->grammar_length = sizeof schema - 1;
}

static void dispatch_grammar(lac_msg *m)
{
    dispatch(m);
    grammar(&m->body.dispatch.sampling);
}

static void submit_grammar(lac_msg *m)
{
    submit_plain(m);
    grammar(&m->body.submit.sampling);
}

static void tokens_account(lac_msg *m)
{
    tokens_message(m);
    m->body.tokens.account = &account;
}

static void done_account(lac_msg *m)
{
    done(m);
    m->body.done.account = &account;
}

static void status_reply_classes(lac_msg *m)
{
    static const lac_class_status on[] = {{"full", 1, 30, 500, 0, 0},
                                          {"logs-std", 2, 29, 600, 0.03125f, 0.0625f}};
    static lac_group_status group;
    status_reply(m);
    group = m->body.status_reply.groups[0];
    group.classes = on;
    group.classes_count = COUNT(on);
    m->body.status_reply.groups = &group;
    m->body.status_reply.groups_count = 1;
}

static void hello_rank(lac_msg *m)
{
    hello(m);
    lac_hello *h = &m->body.hello;
    strcpy(h->host, "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0");
    h->address = (lac_span)SPAN("LACF\0\1\xff address");
    memset(h->plan_digest.bytes, 0xcd, 32);
}

static void hello_formed(lac_msg *m)
{
    hello_rank(m);
    lac_hello *h = &m->body.hello;
    h->formed = true;
    memset(h->config_digest.bytes, 0xef, 32);
    h->layer_first = 15;
    h->layer_end = 30;
    h->erased_units = 3;
}

static void form(lac_msg *m)
{
    static const lac_span addresses[] = {SPAN("LACF\0first"), SPAN("LACF\0second")};
    m->body.form = (lac_form){.incarnation = {9, 8, 7},
                              .config = SPAN("lacuna group 1\npp 2\n"),
                              .config_digest = {{0xef, 1}},
                              .addresses_count = COUNT(addresses),
                              .addresses = addresses};
}

static void status_reply_ranks(lac_msg *m)
{
    static const lac_rank_status ranks[] = {{0, 100, 15, 1 << 20, 0, 15, 2, 50000000, "0f1e2d3c"},
                                            {1, 101, 15, 2 << 20, 15, 30, 3, 48000000, "0f1e2d3c"}};
    static lac_group_status group;
    status_reply(m);
    group = m->body.status_reply.groups[0];
    group.ranks = ranks;
    group.ranks_count = COUNT(ranks);
    group.pp = 2;
    group.tp = 1;
    m->body.status_reply.groups = &group;
    m->body.status_reply.groups_count = 1;
}

static void status_reply_watched(lac_msg *m)
{
    static const lac_check checks[] = {
        {"ecr", true, false, 0.5, 0.95, -1, "no_room", "no group that holds the class had room"},
        {"pes", false, true, 0, 0.85, -1, "", ""}};
    static const lac_decided decided[] = {{.request = UINT64_MAX,
                                           .age_ms = 1500,
                                           .type = "structured",
                                           .task = "extract",
                                           .class_name = "logs-std",
                                           .group = "g0",
                                           .outcome = "stop",
                                           .tokens = 64,
                                           .total_ms = 900,
                                           .why = "structured input: certified"}};
    status_reply(m);
    m->body.status_reply.queued_tokens = UINT64_MAX;
    m->body.status_reply.streams = 3;
    m->body.status_reply.checks = checks;
    m->body.status_reply.checks_count = COUNT(checks);
    m->body.status_reply.decided = decided;
    m->body.status_reply.decided_count = COUNT(decided);
}

static void path_query_request(lac_msg *m)
{
    m->body.path_query = (lac_path_query){.stream = 8, .request = UINT64_MAX, .model = "m"};
}

static void path_reply_request(lac_msg *m)
{
    path_reply(m);
    m->body.path_reply.request = 99;
    m->body.path_reply.mask = "A7,A25";
    strcpy(m->body.path_reply.group, "g0");
}

static void plan_query(lac_msg *m)
{
    m->body.plan_query = (lac_plan_query){.stream = 9};
}

static void path_force(lac_msg *m)
{
    m->body.path_force = (lac_path_force){.stream = 10, .class_name = "full", .model = "m"};
}

static void plan_reply(lac_msg *m)
{
    static lac_known_class list[2];
    list[0] = (lac_known_class){.model = "m",
                                .facts = classes[0],
                                .groups = 2,
                                .requests = 3,
                                .tokens = 4,
                                .forced = true,
                                .guards = {[LAC_INPUT_STRUCTURED] = {"half-open", 1.5, 6, 7},
                                           [LAC_INPUT_CODE] = {"closed", 0, 0, 0}}};
    list[1] = (lac_known_class){.model = "m2", .facts = classes[1]};
    m->body.plan_reply = (lac_plan_reply){.stream = 9,
                                          .tier_max = LAC_TIER_STANDARD,
                                          .forced = "logs-std",
                                          .classes_count = COUNT(list),
                                          .classes = list};
}

static void scale(lac_msg *m)
{
    m->body.scale = (lac_scale){.stream = 11, .groups_min = 1, .groups_max = 4};
}

static void drain_group(lac_msg *m)
{
    m->body.drain_group = (lac_drain_group){.stream = 12, .group = "g0", .deadline_ms = 500};
}

static void ordered(lac_msg *m)
{
    m->body.ordered = (lac_ordered){.stream = 12, .text = "g0 drains"};
}

static void submit_tools(lac_msg *m)
{
    static const lac_chat_message messages[] = {
        {.role = "user", .content = SPAN("q")},
        {.role = "assistant",
         .content = SPAN("c"),
         .reasoning = SPAN("h\xc3\xa9"),
         .calls = SPAN("[{\"id\":\"1\",\"name\":\"f\",\"arguments\":{}}]")},
        {.role = "tool", .content = SPAN("r"), .call_id = SPAN("1")},
    };
    submit_plain(m);
    strcpy(m->body.submit.trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    m->body.submit.prompt = (lac_prompt){.kind = LAC_PROMPT_CHAT,
                                         .messages_count = COUNT(messages),
                                         .messages = messages,
                                         .parts = true,
                                         .tools = SPAN("[{\"function\":{\"name\":\"f\"}}]"),
                                         .tool_required = true,
                                         .one_call = true,
                                         .tool_name = "f",
                                         .thinking = LAC_THINKING_OFF};
}

static void dispatch_fill(lac_msg *m)
{
    dispatch(m);
    strcpy(m->body.dispatch.trace, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    m->body.dispatch.prompt = (lac_prompt){.kind = LAC_PROMPT_TEXT,
                                           .want = LAC_WANT_TOKENS,
                                           .text = SPAN("before"),
                                           .suffix = SPAN("behind"),
                                           .without_bos = true};
}

/* ---- version 1.3: tenants ---- */

static void dispatch_salt(lac_msg *m)
{
    dispatch_class(m);
    memcpy(m->body.dispatch.cache_salt, "\1salt of a name\xff", 16);
}

static void submit_service(lac_msg *m)
{
    submit_class(m);
    m->body.submit.service = LAC_SERVICE_PRIORITY;
}

static const lac_quota quota = {.requests_limit = 60,
                                .requests_left = 59,
                                .requests_reset_ms = 1000,
                                .tokens_limit = LAC_QUOTA_MAX,
                                .tokens_left = 1,
                                .tokens_reset_ms = 59999};

static void accepted_quota(lac_msg *m)
{
    accepted(m);
    m->body.accepted.quota = quota;
}

static void refused_quota(lac_msg *m)
{
    refused(m);
    m->body.refused.cause = LAC_CAUSE_QUOTA;
    m->body.refused.quota = quota;
}

static void feedback(lac_msg *m)
{
    m->body.feedback = (lac_feedback){.stream = 13, .request = UINT64_MAX, .good = true};
}

static const struct {
    const char *name;
    lac_msg_type type;
    void (*make)(lac_msg *m);
} samples[SAMPLES] = {
    {"hello", LAC_MSG_HELLO, hello},
    {"heartbeat", LAC_MSG_HEARTBEAT, heartbeat},
    {"step_output", LAC_MSG_STEP_OUTPUT, step_output},
    {"drained", LAC_MSG_DRAINED, drained},
    {"fault", LAC_MSG_FAULT, fault},
    {"hello_ack", LAC_MSG_HELLO_ACK, hello_ack},
    {"hello_reject", LAC_MSG_HELLO_REJECT, hello_reject},
    {"reregister", LAC_MSG_REREGISTER, reregister},
    {"die", LAC_MSG_DIE, die},
    {"dispatch", LAC_MSG_DISPATCH, dispatch},
    {"dispatch_ids", LAC_MSG_DISPATCH, dispatch_ids},
    {"cancel", LAC_MSG_CANCEL, cancel},
    {"drain", LAC_MSG_DRAIN, drain},
    {"submit", LAC_MSG_SUBMIT, submit},
    {"submit_plain", LAC_MSG_SUBMIT, submit_plain},
    {"submit_chat", LAC_MSG_SUBMIT, submit_chat},
    {"client_cancel", LAC_MSG_CLIENT_CANCEL, client_cancel},
    {"credit", LAC_MSG_CREDIT, credit},
    {"status_query", LAC_MSG_STATUS_QUERY, status_query},
    {"accepted", LAC_MSG_ACCEPTED, accepted},
    {"tokens", LAC_MSG_TOKENS, tokens_message},
    {"done", LAC_MSG_DONE, done},
    {"refused", LAC_MSG_REFUSED, refused},
    {"status_reply", LAC_MSG_STATUS_REPLY, status_reply},
    {"status_reply_empty", LAC_MSG_STATUS_REPLY, drained},
    {"path_query", LAC_MSG_PATH_QUERY, path_query},
    {"path_reply", LAC_MSG_PATH_REPLY, path_reply},
    {"submit_priority", LAC_MSG_SUBMIT, submit_priority},
    {"hello_classes", LAC_MSG_HELLO, hello_classes},
    {"heartbeat_classes", LAC_MSG_HEARTBEAT, heartbeat_classes},
    {"step_output_account", LAC_MSG_STEP_OUTPUT, step_output_account},
    {"shadow", LAC_MSG_SHADOW, shadow},
    {"dispatch_class", LAC_MSG_DISPATCH, dispatch_class},
    {"submit_class", LAC_MSG_SUBMIT, submit_class},
    {"submit_full", LAC_MSG_SUBMIT, submit_full},
    {"tokens_account", LAC_MSG_TOKENS, tokens_account},
    {"done_account", LAC_MSG_DONE, done_account},
    {"status_reply_classes", LAC_MSG_STATUS_REPLY, status_reply_classes},
    {"path_query_request", LAC_MSG_PATH_QUERY, path_query_request},
    {"path_reply_request", LAC_MSG_PATH_REPLY, path_reply_request},
    {"plan_query", LAC_MSG_PLAN_QUERY, plan_query},
    {"path_force", LAC_MSG_PATH_FORCE, path_force},
    {"plan_reply", LAC_MSG_PLAN_REPLY, plan_reply},
    {"scale", LAC_MSG_SCALE, scale},
    {"drain_group", LAC_MSG_DRAIN_GROUP, drain_group},
    {"ordered", LAC_MSG_ORDERED, ordered},
    {"dispatch_grammar", LAC_MSG_DISPATCH, dispatch_grammar},
    {"submit_grammar", LAC_MSG_SUBMIT, submit_grammar},
    {"submit_tools", LAC_MSG_SUBMIT, submit_tools},
    {"dispatch_fill", LAC_MSG_DISPATCH, dispatch_fill},
    {"job_submit", LAC_MSG_JOB_SUBMIT, sample_job_submit},
    {"job_query", LAC_MSG_JOB_QUERY, sample_job_query},
    {"job_cancel", LAC_MSG_JOB_CANCEL, sample_job_cancel},
    {"job_reply", LAC_MSG_JOB_REPLY, sample_job_reply},
    {"dispatch_salt", LAC_MSG_DISPATCH, dispatch_salt},
    {"submit_service", LAC_MSG_SUBMIT, submit_service},
    {"accepted_quota", LAC_MSG_ACCEPTED, accepted_quota},
    {"refused_quota", LAC_MSG_REFUSED, refused_quota},
    {"feedback", LAC_MSG_FEEDBACK, feedback},
    {"hello_rank", LAC_MSG_HELLO, hello_rank},
    {"hello_formed", LAC_MSG_HELLO, hello_formed},
    {"form", LAC_MSG_FORM, form},
    {"status_reply_ranks", LAC_MSG_STATUS_REPLY, status_reply_ranks},
    {"shadow_canary", LAC_MSG_SHADOW, shadow_canary},
    {"status_reply_watched", LAC_MSG_STATUS_REPLY, status_reply_watched},
};

const char *sample_name(int index)
{
    return samples[index].name;
}

void sample_make(int index, lac_msg *out)
{
    memset(out, 0, sizeof *out);
    out->envelope = (lac_envelope){.type = (uint16_t)samples[index].type,
                                   .epoch = UINT64_C(0x0102030405060708),
                                   .session = UINT64_C(0x1112131415161718),
                                   .seq = UINT64_C(0x2122232425262728)};
    samples[index].make(out);
}
