/* The runner between a real store and a scripted core: what it starts, what becomes of each way an
 * attempt can end, and that nothing stays behind. */
#include "runner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"

enum { STREAMS_MAX = 512, WAIT_MS = 10000 };

#define BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static struct {
    char dir[64];
    uv_loop_t loop;
    lac_metrics *metrics;
    lac_store *store;
    lac__runner *runner;
    lac_jobs_load load;
    uint64_t streams[STREAMS_MAX]; /* submitted, in order */
    char tenants[STREAMS_MAX][16];
    size_t submits, cancels, credits;
} t;

static void on_emit(void *arg, const lac_msg *msg)
{
    (void)arg;
    if (msg->envelope.type == LAC_MSG_SUBMIT) {
        ck_assert_uint_lt(t.submits, STREAMS_MAX);
        snprintf(t.tenants[t.submits], sizeof t.tenants[0], "%s", msg->tenant ? msg->tenant : "-");
        t.streams[t.submits++] = msg->body.submit.stream;
        t.load.batch++;
        ck_assert_uint_gt(msg->body.submit.deadline_ms, 0);
    } else if (msg->envelope.type == LAC_MSG_CLIENT_CANCEL) {
        t.cancels++;
        t.load.batch--;
    } else {
        t.credits++;
    }
}

static void on_load(void *arg, lac_jobs_load *out)
{
    (void)arg;
    *out = t.load;
}

static void on_changed(void *arg)
{
    (void)arg;
    if (t.runner)
        lac__runner_wake(t.runner);
}

static void open_all(void)
{
    lac_error err = {0};
    static uint64_t epoch;
    uv_loop_init(&t.loop);
    t.metrics = lac_metrics_create(128);
    lac_store_options options = {.dir = t.dir, .epoch = ++epoch, .changed = on_changed};
    lac_status status = lac_store_open(&t.loop, &options, t.metrics, &t.store, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    lac__runner_hooks hooks = {.emit = on_emit, .load = on_load};
    t.runner = lac__runner_create(&t.loop, t.store, 1, &hooks, t.metrics);
    t.load = (lac_jobs_load){.slots = 16};
    t.submits = t.cancels = 0;
}

static void close_all(void)
{
    lac__runner_stop(t.runner);
    lac_store_close(&t.store);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    lac__runner_destroy(&t.runner);
    ck_assert_int_eq(uv_loop_close(&t.loop), 0);
    lac_metrics_destroy(&t.metrics);
}

static void setup(void)
{
    lac_log_setup(LAC_LOG_ERROR, "test", false);
    strcpy(t.dir, "/tmp/lacuna-runner-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(t.dir));
    open_all();
}

static void teardown(void)
{
    char command[96];
    close_all();
    snprintf(command, sizeof command, "rm -rf '%s'", t.dir);
    ck_assert_int_eq(system(command), 0);
}

static void turn(void)
{
    uv_run(&t.loop, UV_RUN_NOWAIT);
    lac__runner_tick(t.runner);
    uv_sleep(1);
}

#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        for (uint64_t end_ = lac_now_ms() + WAIT_MS; !(condition) && lac_now_ms() < end_;)         \
            turn();                                                                                \
        ck_assert(condition);                                                                      \
    } while (0)

static void on_done(lac_store_call *call)
{
    *(bool *)call->arg = true;
}

static void do_call(lac_store_call *call)
{
    bool done = false;
    call->done = on_done;
    call->arg = &done;
    ck_assert_int_eq(lac_store_do(t.store, call, NULL), LAC_OK);
    WAIT_FOR(done);
    ck_assert_msg(call->error.status == LAC_OK, "%s", call->error.text);
}

static uint64_t submit(const char *body, uint32_t count, uint32_t attempts)
{
    lac_store_input items[64];
    for (uint32_t i = 0; i < count; i++)
        items[i] = (lac_store_input){.body = {body, (uint32_t)strlen(body)}};
    lac_store_call call = {.kind = LAC_STORE_SUBMIT, .tenant = "team"};
    call.submit = (lac_store_submit){
        .endpoint = LAC_JOB_CHAT, .attempts_max = attempts, .items = items, .items_count = count};
    do_call(&call);
    uint64_t id = call.jobs->view.id;
    lac_store_call_free(&call);
    return id;
}

static lac_job_view view(uint64_t id)
{
    lac_store_call call = {.kind = LAC_STORE_SHOW, .tenant = "team", .id = id};
    do_call(&call);
    lac_job_view v = call.jobs->view;
    lac_store_call_free(&call);
    return v;
}

static void accepted(size_t index)
{
    lac_msg msg = {.envelope.type = LAC_MSG_ACCEPTED};
    msg.body.accepted.stream = t.streams[index];
    snprintf(msg.body.accepted.model, sizeof msg.body.accepted.model, "tiny");
    lac__runner_deliver(t.runner, &msg);
}

static void tokens(size_t index, const char *text)
{
    uint32_t token = 7;
    lac_msg msg = {.envelope.type = LAC_MSG_TOKENS};
    msg.body.tokens.stream = t.streams[index];
    msg.body.tokens.chunk =
        (lac_chunk){.tokens_count = 1, .tokens = &token, .text = {text, (uint32_t)strlen(text)}};
    lac__runner_deliver(t.runner, &msg);
}

static void finish(size_t index)
{
    lac_run_account account = {.class_name = "logs-std", .layers = 30, .active_layers = 28};
    lac_msg msg = {.envelope.type = LAC_MSG_DONE};
    msg.body.done = (lac_done){.stream = t.streams[index],
                               .finish = LAC_FINISH_STOP,
                               .usage = {.prompt_tokens = 5, .completion_tokens = 2},
                               .account = &account};
    t.load.batch--;
    lac__runner_deliver(t.runner, &msg);
}

static void refuse(size_t index, lac_status status, lac_cause cause)
{
    lac_msg msg = {.envelope.type = LAC_MSG_REFUSED};
    msg.body.refused = (lac_refused){
        .stream = t.streams[index], .status = status, .cause = cause, .reason = "because"};
    t.load.batch--;
    lac__runner_deliver(t.runner, &msg);
}

START_TEST(items_run_and_their_replies_are_kept)
{
    uint64_t id = submit(BODY, 2, 0);
    WAIT_FOR(t.submits == 2);
    ck_assert_str_eq(t.tenants[0], "team");
    for (size_t i = 0; i < 2; i++) {
        accepted(i);
        tokens(i, "Hel");
        tokens(i, "lo");
        finish(i);
    }
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    lac_store_call call = {
        .kind = LAC_STORE_RESULTS, .tenant = "team", .id = id, .which = LAC_STORE_ENDED};
    do_call(&call);
    ck_assert_uint_eq(call.count, 2);
    ck_assert_uint_eq(call.results[1].http, 200);
    ck_assert_uint_eq(call.results[1].attempts, 1);
    ck_assert_uint_eq(call.results[1].completion_tokens, 2);
    ck_assert_str_eq(call.results[1].class_name, "logs-std");
    char reply[2048];
    snprintf(reply, sizeof reply, "%.*s", (int)call.results[1].reply.length,
             call.results[1].reply.data);
    ck_assert_ptr_nonnull(strstr(reply, "\"content\":\"Hello\""));
    ck_assert_ptr_nonnull(strstr(reply, "\"model\":\"tiny\""));
    lac_store_call_free(&call);
    ck_assert_uint_eq(t.cancels, 0);
}
END_TEST

START_TEST(a_bad_body_fails_at_once)
{
    uint64_t id = submit("{\"messages\":1}", 1, 0), stream = submit("{\"stream\":true,\"messages\":"
                                                                    "[{\"role\":\"user\","
                                                                    "\"content\":\"x\"}]}",
                                                                    1, 0);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED && view(stream).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).failed, 1);
    ck_assert_uint_eq(view(stream).failed, 1);
    ck_assert_uint_eq(t.submits, 0);
}
END_TEST

START_TEST(what_was_lost_is_tried_again_up_to_its_limit)
{
    uint64_t id = submit(BODY, 1, 2);
    WAIT_FOR(t.submits == 1);
    refuse(0, LAC_EPEER, LAC_CAUSE_NONE);
    WAIT_FOR(t.submits == 2); /* after its rest */
    ck_assert_uint_ne(t.streams[0], t.streams[1]);
    refuse(0, LAC_EPEER, LAC_CAUSE_NONE); /* a late word for the first attempt changes nothing */
    t.load.batch++;
    ck_assert_uint_eq(view(id).running, 1);
    refuse(1, LAC_EPEER, LAC_CAUSE_NONE);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).failed, 1);
}
END_TEST

START_TEST(a_full_server_costs_no_attempt)
{
    uint64_t id = submit(BODY, 1, 1);
    for (size_t i = 0; i < 2; i++) {
        WAIT_FOR(t.submits == i + 1);
        refuse(i, i ? LAC_EREFUSED : LAC_BUSY, LAC_CAUSE_NONE);
    }
    WAIT_FOR(t.submits == 3);
    finish(2);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).done, 1);
}
END_TEST

START_TEST(what_a_tenant_may_not_do_fails)
{
    uint64_t id = submit(BODY, 1, 3);
    WAIT_FOR(t.submits == 1);
    refuse(0, LAC_EREFUSED, LAC_CAUSE_DENIED);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).failed, 1);
}
END_TEST

START_TEST(cancelling_reaches_what_runs)
{
    uint64_t id = submit(BODY, 8, 0);
    WAIT_FOR(t.submits == 4); /* a quarter of the slots at a time */
    lac_store_call call = {.kind = LAC_STORE_CANCEL, .tenant = "team", .id = id};
    do_call(&call);
    lac_store_call_free(&call);
    WAIT_FOR(view(id).state == LAC_JOB_CANCELLED);
    ck_assert_uint_eq(t.cancels, t.submits);
    ck_assert_uint_eq(view(id).done, 0);
}
END_TEST

START_TEST(gives_way_and_comes_back)
{
    uint64_t id = submit(BODY, 8, 1);
    WAIT_FOR(t.submits == 4);
    for (size_t i = 0; i < 4; i++)
        tokens(i, "x");
    WAIT_FOR(t.submits == 8);
    for (size_t i = 4; i < 8; i++)
        tokens(i, "x");
    t.load.running = 8;
    t.load.waiting = 3; /* three people wait for slots */
    WAIT_FOR(t.cancels == 3);
    t.load.running = 11;
    t.load.waiting = 0;
    WAIT_FOR(view(id).running == 5);
    for (int i = 0; i < 30; i++)
        turn();
    ck_assert_uint_eq(t.submits, 8); /* no room yet */
    t.load.running = 0;
    WAIT_FOR(t.submits == 11);
    for (size_t i = 0; i < 11; i++)
        finish(i);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED); /* with one attempt each: none was lost by it */
    ck_assert_uint_eq(view(id).done, 8);
}
END_TEST

START_TEST(draining_gives_everything_back)
{
    uint64_t id = submit(BODY, 3, 1);
    WAIT_FOR(t.submits == 3);
    lac__runner_drain(t.runner);
    WAIT_FOR(view(id).running == 0);
    ck_assert_uint_eq(t.cancels, 3);
    close_all();
    open_all();
    WAIT_FOR(t.submits == 3);
    for (size_t i = 0; i < 3; i++)
        finish(i);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).done, 3);
}
END_TEST

START_TEST(stopping_in_the_middle_gives_back_too)
{
    uint64_t id = submit(BODY, 3, 1);
    WAIT_FOR(t.submits == 3);
    tokens(0, "x");
    close_all();
    open_all();
    WAIT_FOR(t.submits == 3);
    for (size_t i = 0; i < 3; i++)
        finish(i);
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view(id).done, 3);
}
END_TEST

START_TEST(choices_are_streams_of_their_own)
{
    uint64_t id = submit("{\"n\":3,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 1, 0);
    WAIT_FOR(t.submits == 3);
    finish(0);
    for (int i = 0; i < 20; i++)
        turn();
    ck_assert_int_eq(view(id).state, LAC_JOB_RUNNING);
    refuse(1, LAC_ETOOBIG, LAC_CAUSE_NONE); /* one fails and all end */
    WAIT_FOR(view(id).state == LAC_JOB_COMPLETED);
    ck_assert_uint_eq(t.cancels, 1);
    ck_assert_uint_eq(view(id).failed, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runner");
    TCase *tcase = tcase_create("runner");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, items_run_and_their_replies_are_kept);
    tcase_add_test(tcase, a_bad_body_fails_at_once);
    tcase_add_test(tcase, what_was_lost_is_tried_again_up_to_its_limit);
    tcase_add_test(tcase, a_full_server_costs_no_attempt);
    tcase_add_test(tcase, what_a_tenant_may_not_do_fails);
    tcase_add_test(tcase, cancelling_reaches_what_runs);
    tcase_add_test(tcase, gives_way_and_comes_back);
    tcase_add_test(tcase, draining_gives_everything_back);
    tcase_add_test(tcase, stopping_in_the_middle_gives_back_too);
    tcase_add_test(tcase, choices_are_streams_of_their_own);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
