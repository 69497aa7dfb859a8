/* The codec carries every field of every message, at its limits too, and refuses what is not
 * allowed, naming it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mask.h"
#include "base/text.h"
#include "samples.h"
#include "wire/codec.h"

static lac_buf pack(const lac_msg *msg)
{
    lac_buf out = {.cap = LAC_FRAME_MAX};
    lac_error err = {0};
    lac_status status = lac_codec_pack(msg, &out, &err);
    ck_assert_msg(status == LAC_OK, "pack %s: %s", lac_msg_name(msg->envelope.type), err.text);
    return out;
}

/* ---- carrying ---- */

START_TEST(every_message_comes_back_whole)
{
    lac_msg sent, got;
    sample_make(_i, &sent);
    lac_buf frame = pack(&sent), a = {0}, b = {0};
    lac_error err;
    lac_status status = lac_codec_unpack(frame.data, frame.length, &got, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s", sample_name(_i), err.text);
    ck_assert_uint_eq(got.envelope.major, LAC_PROTO_MAJOR);
    ck_assert_uint_eq(got.envelope.minor, LAC_PROTO_MINOR);
    msg_dump(&sent, &a);
    msg_dump(&got, &b);
    ck_assert_uint_gt(a.length, 20);
    ck_assert_str_eq(a.data, b.data);
    lac_msg_free(&got);
    lac_buf_free(&frame);
    lac_buf_free(&a);
    lac_buf_free(&b);
}
END_TEST

/* Cut anywhere, a frame is an error or a shorter valid message, never a crash. */
START_TEST(every_prefix_is_handled)
{
    lac_msg sent, got;
    sample_make(_i, &sent);
    lac_buf frame = pack(&sent);
    for (size_t n = 0; n < frame.length; n++) {
        char *exact = malloc(n ? n : 1); /* so that the sanitizer sees one byte too far */
        memcpy(exact, frame.data, n);
        lac_error err;
        if (lac_codec_unpack(exact, n, &got, &err) == LAC_OK)
            lac_msg_free(&got);
        else
            ck_assert(got.memory == NULL && err.text[0]);
        free(exact);
    }
    lac_buf_free(&frame);
}
END_TEST

#ifdef LAC_SANITIZED
enum { BIT_STEP = 11 }; /* each bit place still has its turn */
#else
enum { BIT_STEP = 1 };
#endif

START_TEST(every_flipped_bit_is_handled)
{
    lac_msg sent, got;
    sample_make(_i, &sent);
    lac_buf frame = pack(&sent);
    for (size_t bit = 0; bit < frame.length * 8; bit += BIT_STEP) {
        frame.data[bit / 8] ^= (char)(1 << (bit % 8));
        lac_error err;
        if (lac_codec_unpack(frame.data, frame.length, &got, &err) == LAC_OK) {
            lac_buf again = pack(&got); /* what was let in is valid */
            lac_buf_free(&again);
            lac_msg_free(&got);
        }
        frame.data[bit / 8] ^= (char)(1 << (bit % 8));
    }
    lac_buf_free(&frame);
}
END_TEST

static void check_trip(const lac_msg *sent)
{
    lac_msg got;
    lac_error err;
    lac_buf frame = pack(sent), a = {0}, b = {0};
    lac_status status = lac_codec_unpack(frame.data, frame.length, &got, &err);
    ck_assert_msg(status == LAC_OK, "%s of %zu bytes: %s", lac_msg_name(sent->envelope.type),
                  frame.length, err.text);
    msg_dump(sent, &a);
    msg_dump(&got, &b);
    ck_assert(!a.overflow && a.length == b.length && !memcmp(a.data, b.data, a.length));
    lac_msg_free(&got);
    lac_buf_free(&frame);
    lac_buf_free(&a);
    lac_buf_free(&b);
}

/* A step of as many sequences as there may be, one token each: the usual message at its widest. */
START_TEST(limits_step_output)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_STEP_OUTPUT}};
    static lac_step_item items[LAC_STEP_ITEMS_MAX];
    static const uint32_t token = 17;
    static const lac_run_account small = {.class_name = "c", .mask = "A1", .why = "w"};
    for (int i = 0; i < LAC_STEP_ITEMS_MAX; i++) {
        items[i] = (lac_step_item){.request = (uint64_t)i + 1,
                                   .chunk = {.tokens_count = 1, .tokens = &token, .text = {"x", 1}},
                                   .finish = LAC_FINISH_ERROR,
                                   .error = LAC_EIO,
                                   .usage = {1, 1, 1},
                                   .reason = "r"};
        if (_i)
            memset(items[i].reason, 'r', LAC_REASON_MAX);
        items[i].account = &small;
    }
    msg.body.step_output = (lac_step_output){LAC_STEP_ITEMS_MAX, items};
    check_trip(&msg);
}
END_TEST

START_TEST(limits_logprobs)
{
    enum { TOKENS = 4096 };
    static uint32_t tokens[TOKENS];
    static lac_top_logprob top[LAC_TOP_LOGPROBS_MAX];
    static lac_logprob logprobs[TOKENS];
    for (int k = 0; k < LAC_TOP_LOGPROBS_MAX; k++)
        top[k] = (lac_top_logprob){(uint32_t)k, -(float)k, {"ab", (uint32_t)(k % 3)}};
    for (int i = 0; i < TOKENS; i++)
        logprobs[i] = (lac_logprob){top[0], LAC_TOP_LOGPROBS_MAX, top};
    lac_msg msg = {.envelope = {.type = LAC_MSG_TOKENS}};
    msg.body.tokens = (lac_tokens){.stream = 1,
                                   .chunk = {.tokens_count = TOKENS,
                                             .tokens = tokens,
                                             .logprobs_count = TOKENS,
                                             .logprobs = logprobs}};
    check_trip(&msg);
}
END_TEST

START_TEST(limits_prompts)
{
    lac_msg msg;
    sample_make(9, &msg); /* dispatch */
    static lac_chat_message messages[LAC_MESSAGES_MAX];
    for (int i = 0; i < LAC_MESSAGES_MAX; i++) {
        memset(messages[i].role, 'r', LAC_ROLE_BYTES_MAX);
        if (_i % 2)
            messages[i].role[1] = '\0';
        messages[i].content = (lac_span){"x", 1};
    }
    msg.body.dispatch.prompt = (lac_prompt){
        .kind = LAC_PROMPT_CHAT, .messages_count = LAC_MESSAGES_MAX, .messages = messages};
    static uint32_t accepted[LAC_CONTEXT_MAX];
    if (_i / 2) {
        msg.body.dispatch.accepted = accepted;
        msg.body.dispatch.accepted_count = LAC_CONTEXT_MAX;
    }
    check_trip(&msg);

    char *text = lac_alloc(LAC_PROMPT_BYTES_MAX, 1);
    memset(text, 'y', LAC_PROMPT_BYTES_MAX);
    msg.body.dispatch.prompt =
        (lac_prompt){.kind = LAC_PROMPT_TEXT, .text = {text, LAC_PROMPT_BYTES_MAX}};
    check_trip(&msg);
    msg.body.dispatch.prompt =
        (lac_prompt){.kind = LAC_PROMPT_IDS, .ids = accepted, .ids_count = LAC_CONTEXT_MAX};
    check_trip(&msg);
    free(text);
}
END_TEST

START_TEST(limits_hello_and_status)
{
    lac_msg msg;
    sample_make(0, &msg);
    static lac_running running[LAC_RUNNING_MAX];
    for (int i = 0; i < LAC_RUNNING_MAX; i++)
        running[i].request = (uint64_t)i + 1;
    msg.body.hello.running = running;
    msg.body.hello.running_count = LAC_RUNNING_MAX;
    memset(msg.body.hello.model, 'm', LAC_MODEL_NAME_MAX);
    static lac_class_facts classes[LAC_CLASSES_MAX - 1];
    lac_mask all = {{0}};
    for (unsigned unit = 0; unit < LAC_UNITS_MAX; unit++)
        lac_mask_set(&all, unit);
    lac_buf mask = {0};
    lac_mask_text(&all, &mask);
    ck_assert_uint_le(mask.length, LAC_MASK_TEXT_MAX);
    for (int i = 0; i < LAC_CLASSES_MAX - 1; i++) {
        classes[i] = (lac_class_facts){
            .digest = {{(uint8_t)i}}, .scope = LAC_SCOPE_REQUEST, .mask = mask.data, .cost = 1};
        memset(classes[i].name, 'a' + i, LAC_NAME_MAX);
        for (int type = 0; type < LAC_INPUT_TYPES; type++)
            classes[i].serves[type] = (lac_class_serve){LAC_TIER_GOLD, 0.001f, 0.002f};
    }
    msg.body.hello.layers = LAC_LAYERS_MAX;
    msg.body.hello.classes = classes;
    msg.body.hello.classes_count = LAC_CLASSES_MAX - 1;
    check_trip(&msg);

    static lac_known_class plan[LAC_PLAN_CLASSES_MAX];
    for (int i = 0; i < LAC_PLAN_CLASSES_MAX; i++) {
        plan[i] = (lac_known_class){.model = "m", .facts = classes[i % (LAC_CLASSES_MAX - 1)]};
        plan[i].facts.mask = i ? "A1" : mask.data;
        for (int type = 0; type < LAC_INPUT_TYPES; type++)
            strcpy(plan[i].guards[type].state, "closed");
    }
    lac_msg reply = {.envelope = {.type = LAC_MSG_PLAN_REPLY}};
    reply.body.plan_reply =
        (lac_plan_reply){.stream = 1, .classes_count = LAC_PLAN_CLASSES_MAX, .classes = plan};
    check_trip(&reply);
    lac_buf_free(&mask);

    static lac_rank_status ranks[LAC_RANKS_MAX];
    static lac_group_status groups[LAC_GROUPS_MAX];
    for (int i = 0; i < LAC_RANKS_MAX; i++)
        ranks[i].rank = (uint32_t)i;
    for (int i = 0; i < LAC_GROUPS_MAX; i++) {
        strcpy(groups[i].id, "g");
        strcpy(groups[i].state, "READY");
        groups[i].ranks = ranks;
        groups[i].ranks_count = LAC_RANKS_MAX;
    }
    sample_make(23, &msg);
    msg.body.status_reply.groups = groups;
    msg.body.status_reply.groups_count = LAC_GROUPS_MAX;
    check_trip(&msg);
}
END_TEST

START_TEST(a_broken_reason_is_mended)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_DIE}}, got;
    strcpy(msg.body.die.reason, "bad \xff byte, \x1b[2J, cut \xe4\xb8");
    lac_buf frame = pack(&msg);
    ck_assert_int_eq(lac_codec_unpack(frame.data, frame.length, &got, NULL), LAC_OK);
    ck_assert_str_eq(got.body.die.reason, "bad ? byte, ?[2J, cut ");
    lac_msg_free(&got);
    lac_buf_free(&frame);
}
END_TEST

/* ---- refusing what the sender must not send ---- */

static void must_refuse(const lac_msg *msg, lac_status expected, const char *word)
{
    lac_buf out = {.cap = LAC_FRAME_MAX};
    lac_error err = {0};
    lac_status status = lac_codec_pack(msg, &out, &err);
    ck_assert_msg(status == expected, "%s: got %d (%s)", word, status, err.text);
    ck_assert_msg(strstr(err.text, word) != NULL, "'%s' does not name %s", err.text, word);
    ck_assert_uint_eq(out.length, 0);
    lac_buf_free(&out);
}

#define REFUSE(sample, member, word, ...)                                                          \
    do {                                                                                           \
        lac_msg msg;                                                                               \
        sample_make(sample, &msg);                                                                 \
        __typeof__(msg.body.member) *b = &msg.body.member;                                         \
        __VA_ARGS__;                                                                               \
        must_refuse(&msg, LAC_EINVAL, word);                                                       \
    } while (0)

START_TEST(refuses_worker_plane)
{
    enum {
        HELLO = 0,
        BEAT = 1,
        STEP = 2,
        FAULT = 4,
        ACK = 5,
        REJECT = 6,
        DISPATCH = 9,
        CANCEL = 11
    };
    REFUSE(HELLO, hello, "hello.group", strcpy(b->group, "a b"));
    REFUSE(HELLO, hello, "hello.group", b->group[0] = 0);
    REFUSE(HELLO, hello, "hello.model", memset(b->model, 'x', sizeof b->model));
    REFUSE(HELLO, hello, "hello.model", strcpy(b->model, "../etc"));
    REFUSE(HELLO, hello, "hello.isa", strcpy(b->isa, "a\nb"));
    REFUSE(HELLO, hello, "hello.rank", b->rank = 6);
    REFUSE(HELLO, hello, "hello.pp", b->pp = 0);
    REFUSE(HELLO, hello, "hello.tp", b->tp = LAC_RANKS_MAX + 1);
    REFUSE(HELLO, hello, "pp * tp", b->pp = 64; b->tp = 2);
    REFUSE(HELLO, hello, "hello.layers", b->layers = LAC_LAYERS_MAX + 1);
    REFUSE(HELLO, hello, "hello.vocab", b->vocab = 0);
    REFUSE(HELLO, hello, "hello.context_max", b->context_max = LAC_CONTEXT_MAX + 1);
    REFUSE(HELLO, hello, "hello.slots", b->slots = LAC_SLOTS_MAX + 1);
    REFUSE(HELLO, hello, "hello.running", b->running_count = LAC_RUNNING_MAX + 1);
    lac_running nobody = {0, 1, 1};
    REFUSE(HELLO, hello, "running.request", b->running = &nobody; b->running_count = 1);
    REFUSE(BEAT, heartbeat, "kv_pages_used", b->kv_pages_used = b->kv_pages + 1);
    REFUSE(BEAT, heartbeat, "running", b->running = LAC_SLOTS_MAX + 1);
    REFUSE(STEP, step_output, "items", b->items_count = 0);
    REFUSE(STEP, step_output, "items", b->items_count = LAC_STEP_ITEMS_MAX + 1);
    lac_step_item item = {.request = 1, .finish = LAC_FINISH_STOP, .error = LAC_EIO};
    REFUSE(STEP, step_output, "items[0]: finish", b->items = &item; b->items_count = 1);
    item = (lac_step_item){.request = 1, .finish = (lac_finish)9};
    REFUSE(STEP, step_output, "finish is 9", b->items = &item; b->items_count = 1);
    REFUSE(FAULT, fault, "fault.status", b->status = (lac_status)99);
    REFUSE(ACK, hello_ack, "session", b->session = 0);
    REFUSE(ACK, hello_ack, "lease_ms", b->lease_ms = 1);
    REFUSE(REJECT, hello_reject, "major_max", b->major_max = 0);
    REFUSE(DISPATCH, dispatch, "request", b->request = 0);
    REFUSE(DISPATCH, dispatch, "prompt", b->prompt.kind = LAC_PROMPT_NONE);
    REFUSE(DISPATCH, dispatch, "seed", b->sampling.has_seed = false);
    uint32_t big = LAC_VOCAB_MAX;
    REFUSE(DISPATCH, dispatch, "accepted[0]", b->accepted = &big; b->accepted_count = 1);
    REFUSE(CANCEL, cancel, "request", b->request = 0);
    REFUSE(DISPATCH, dispatch, "input_type", b->input_type = LAC_INPUT_TYPES + 1);
}
END_TEST

START_TEST(refuses_classes)
{
    enum { HELLO = SAMPLES_1_1, BEAT, STEP, SHADOW, DISPATCH, SUBMIT, DONE = 36, REPLY = 42 };
    static lac_class_facts two[2];
    lac_msg good;
    sample_make(HELLO, &good);
#define CLASS(word, ...)                                                                           \
    do {                                                                                           \
        memcpy(two, good.body.hello.classes, sizeof two);                                          \
        lac_class_facts *f = &two[1];                                                              \
        __VA_ARGS__;                                                                               \
        REFUSE(HELLO, hello, word, b->classes = two);                                              \
    } while (0)
    CLASS("classes[1]: class.name", f->name[0] = 0);
    CLASS("name or the digest", strcpy(f->name, two[0].name));
    CLASS("name or the digest", f->digest = two[0].digest);
    CLASS("full", strcpy(f->name, "full"));
    CLASS("scope", f->scope = (lac_scope)3);
    CLASS("past the last layer", f->mask = "A30");
    CLASS("ascending", f->mask = "A2,A1");
    CLASS("class.cost", f->cost = 0);
    CLASS("class.cost", f->cost = NAN);
    CLASS("skip_rate", f->skip_rate = 1.5f);
    CLASS("active_layers", f->active_layers = 31);
    CLASS("tier", f->serves[1].tier = LAC_TIERS);
    CLASS("kl_upper", f->serves[1].kl_upper = -1);
    REFUSE(HELLO, hello, "hello.classes", b->classes_count = LAC_CLASSES_MAX);
    REFUSE(BEAT, heartbeat, "classes.index", b->classes[1].index = LAC_CLASSES_MAX);
    REFUSE(BEAT, heartbeat, "classes", b->classes_count = LAC_CLASSES_MAX + 1);
    lac_run_account bad = {.class_name = "a b"};
    lac_step_item item = {.request = 1, .account = &bad};
    REFUSE(STEP, step_output, "class_name", b->items = &item; b->items_count = 1);
    bad = (lac_run_account){.class_name = "c", .flops = INFINITY};
    REFUSE(STEP, step_output, "flops", b->items = &item; b->items_count = 1);
    bad = (lac_run_account){.class_name = "c", .active_layers = 1};
    REFUSE(DONE, done, "active_layers", b->account = &bad);
    REFUSE(SHADOW, shadow, "tokens", b->tokens = 0);
    REFUSE(SHADOW, shadow, "kl_mean", b->kl_mean = -1e-9);
    REFUSE(SHADOW, shadow, "top1_p", b->top1_p = 1.5f);
    REFUSE(SHADOW, shadow, "top1_p_full", b->top1_p_full = -0.5f);
    REFUSE(SUBMIT, submit, "tier_max", b->tier_max = LAC_TIERS);
    REFUSE(SUBMIT, submit, "sparse", b->sparse = (lac_sparse)3);
    REFUSE(SUBMIT, submit, "force", strcpy(b->force, "a b"));
    REFUSE(REPLY, plan_reply, "classes", b->classes_count = LAC_PLAN_CLASSES_MAX + 1);
}
END_TEST

START_TEST(refuses_client_plane)
{
    enum {
        SUBMIT = 13,
        CHAT = 15,
        CANCEL = 16,
        CREDIT = 17,
        ACCEPTED = 19,
        TOKENS = 20,
        DONE = 21
    };
    enum { REFUSED = 22, STATUS = 23 };
    REFUSE(SUBMIT, submit, "stream", b->stream = 0);
    REFUSE(SUBMIT, submit, "credit", b->credit = 0);
    REFUSE(SUBMIT, submit, "model", strcpy(b->model, "a/b"));
    REFUSE(SUBMIT, submit, "UTF-8", b->prompt.text = (lac_span){"\xff", 1});
    REFUSE(SUBMIT, submit, "temperature", b->sampling.temperature = NAN);
    REFUSE(SUBMIT, submit, "top_p", b->sampling.top_p = 0);
    REFUSE(SUBMIT, submit, "stop string 0", b->sampling.stops[0].length = 0);
    REFUSE(SUBMIT, submit, "stop string 0", b->sampling.stops[0].bytes[0] = (char)0xff);
    REFUSE(SUBMIT, submit, "stop has 5", b->sampling.stops_count = 5);
    REFUSE(SUBMIT, submit, "logit_bias", b->sampling.bias_count = LAC_LOGIT_BIAS_MAX + 1);
    lac_chat_message odd = {.role = "User", .content = {"x", 1}};
    REFUSE(CHAT, submit, "messages[0]: role", b->prompt.messages = &odd;
           b->prompt.messages_count = 1);
    REFUSE(CHAT, submit, "messages", b->prompt.messages_count = 0);
    REFUSE(SUBMIT, submit, "tools are given", b->prompt.tools = (lac_span){"[]", 2});
    REFUSE(CHAT, submit, "suffix is given", b->prompt.suffix = (lac_span){"x", 1});
    REFUSE(CHAT, submit, "allowed with tools only", b->prompt.tool_required = true);
    REFUSE(CHAT, submit, "tool_name", strcpy(b->prompt.tool_name, "a b"));
    REFUSE(CHAT, submit, "thinking", b->prompt.thinking = (lac_thinking)3);
    REFUSE(CHAT, submit, "prompt.want", b->prompt.want = (lac_want)4);
    REFUSE(CHAT, submit, "token ids only", b->prompt.want = LAC_WANT_TEXT_OF_IDS);
    REFUSE(CANCEL, client_cancel, "stream", b->stream = 0);
    REFUSE(CREDIT, credit, "messages", b->messages = LAC_CREDIT_MAX + 1);
    REFUSE(ACCEPTED, accepted, "stream", b->stream = 0);
    REFUSE(TOKENS, tokens, "UTF-8", b->chunk.text = (lac_span){"\xe4\xb8", 2});
    REFUSE(TOKENS, tokens, "first_pos", b->chunk.first_pos = LAC_CONTEXT_MAX);
    REFUSE(TOKENS, tokens, "logprobs has 1", b->chunk.logprobs_count = 1);
    REFUSE(DONE, done, "finish", b->finish = LAC_FINISH_NONE);
    REFUSE(REFUSED, refused, "status", b->status = LAC_OK);
    REFUSE(STATUS, status_reply, "groups", b->groups_count = LAC_GROUPS_MAX + 1);
}
END_TEST

START_TEST(refuses_what_is_too_big)
{
    lac_msg msg;
    sample_make(13, &msg);
    char *text = lac_alloc(LAC_PROMPT_BYTES_MAX, 1);
    memset(text, 'y', LAC_PROMPT_BYTES_MAX);
    msg.body.submit.prompt.text = (lac_span){text, LAC_PROMPT_BYTES_MAX};
    must_refuse(&msg, LAC_ETOOBIG, "submit");
    free(text);
    lac_msg odd = {.envelope = {.type = 999}};
    must_refuse(&odd, LAC_EINVAL, "999");

    lac_buf small = {.cap = 40};
    sample_make(1, &msg);
    ck_assert_int_eq(lac_codec_pack(&msg, &small, NULL), LAC_ETOOBIG);
    ck_assert_uint_eq(small.length, 0);
    lac_buf_free(&small);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("codec");
    TCase *t = tcase_create("codec");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_message_comes_back_whole, 0, SAMPLES);
    tcase_add_loop_test(t, every_prefix_is_handled, 0, SAMPLES);
    tcase_add_loop_test(t, every_flipped_bit_is_handled, 0, SAMPLES);
    tcase_add_loop_test(t, limits_step_output, 0, 2);
    tcase_add_test(t, limits_logprobs);
    tcase_add_loop_test(t, limits_prompts, 0, 4);
    tcase_add_test(t, limits_hello_and_status);
    tcase_add_test(t, a_broken_reason_is_mended);
    tcase_add_test(t, refuses_worker_plane);
    tcase_add_test(t, refuses_classes);
    tcase_add_test(t, refuses_client_plane);
    tcase_add_test(t, refuses_what_is_too_big);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
