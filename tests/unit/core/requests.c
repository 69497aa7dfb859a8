/* Requests: positions, credit, ends, deadlines, cancels. */
#include "harness.h"

static bench B;

START_TEST(stream_from_submit_to_done)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(77, "say it");
    submit(&B, 50, &s);
    const sent *accepted = expect(&B, LAC_MSG_ACCEPTED);
    ck_assert_uint_eq(accepted->stream, 77);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    ck_assert_uint_eq(d->request, accepted->request);
    ck_assert_uint_eq(d->attempt, 1);
    ck_assert_str_eq(d->text, "say it");
    ck_assert_uint_eq(d->session, session);
    output(&B, 1, session, d, 0, 2, LAC_FINISH_NONE);
    const sent *t = expect(&B, LAC_MSG_TOKENS);
    ck_assert_uint_eq(t->stream, 77);
    ck_assert_uint_eq(t->first_pos, 0);
    ck_assert_uint_eq(t->tokens_count, 2);
    ck_assert_str_eq(t->text, "ab");
    output(&B, 1, session, d, 2, 1, LAC_FINISH_STOP);
    ck_assert_uint_eq(expect(&B, LAC_MSG_TOKENS)->first_pos, 2);
    const sent *done = expect(&B, LAC_MSG_DONE);
    ck_assert_int_eq(done->finish, LAC_FINISH_STOP);
    ck_assert_uint_eq(done->usage.completion_tokens, 3);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    ck_assert(metric(&B, "lacuna_requests_total", "outcome=\"stop\"") == 1);
    ck_assert(metric(&B, "lacuna_output_tokens_total", "") == 3);
    ck_assert(metric(&B, "lacuna_ttft_seconds_count", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(chat_and_bias_are_copied)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    (void)session;
    submit_and_dispatch(&B, 50, 1); /* takes the only slot */
    char content[] = "hi there";
    lac_chat_message message = {.role = "user", .content = {content, 8}};
    lac_logit_bias bias = {.token = 3, .bias = 1};
    lac_submit s = {.stream = 2, .credit = 1, .sampling = lac_sampling_default()};
    s.prompt = (lac_prompt){.kind = LAC_PROMPT_CHAT, .messages_count = 1, .messages = &message};
    s.sampling.bias = &bias;
    s.sampling.bias_count = 1;
    submit(&B, 50, &s);
    memset(content, 'x', sizeof content); /* the sender's memory is gone */
    memset(&message, 0xff, sizeof message);
    forget(&B);
    cancel(&B, 50, 1);
    ck_assert_str_eq(expect(&B, LAC_MSG_DISPATCH)->text, "hi there");
    bench_close(&B);
}
END_TEST

START_TEST(duplicates_are_dropped_gaps_are_errors)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    output(&B, 1, session, d, 0, 3, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_TOKENS);
    output(&B, 1, session, d, 0, 3, LAC_FINISH_NONE);
    output(&B, 1, session, d, 1, 1, LAC_FINISH_NONE);
    expect_none(&B, LAC_MSG_TOKENS);
    ck_assert(metric(&B, "lacuna_duplicates_dropped_total", "") == 2);
    output(&B, 1, session, d, 4, 1, LAC_FINISH_NONE); /* 3 is missing */
    expect_none(&B, LAC_MSG_TOKENS);
    const sent *again = expect_moved(&B);
    ck_assert_uint_eq(again->attempt, 2);
    ck_assert_uint_eq(again->accepted_count, 3);
    ck_assert_uint_eq(again->accepted[2], 102);
    ck_assert_uint_eq(again->seed, d->seed);
    /* The old attempt is over. */
    output(&B, 1, session, d, 3, 1, LAC_FINISH_NONE);
    expect_none(&B, LAC_MSG_TOKENS);
    output(&B, 1, session, again, 3, 1, LAC_FINISH_STOP);
    ck_assert_uint_eq(expect(&B, LAC_MSG_TOKENS)->first_pos, 3);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DONE)->usage.completion_tokens, 4);
    bench_close(&B);
}
END_TEST

START_TEST(overlap_is_an_error)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    output(&B, 1, session, d, 0, 3, LAC_FINISH_NONE);
    output(&B, 1, session, d, 2, 3, LAC_FINISH_NONE);
    ck_assert_uint_eq(expect_moved(&B)->accepted_count, 3);
    ck_assert(metric(&B, "lacuna_protocol_errors_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(text_without_tokens_is_taken_once)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lac_step_item echo = {.request = d->request, .attempt = 1, .chunk = {.text = {"echo", 4}}};
    output_item(&B, 1, session, &echo);
    ck_assert_str_eq(expect(&B, LAC_MSG_TOKENS)->text, "echo");
    output_item(&B, 1, session, &echo);
    expect_none(&B, LAC_MSG_TOKENS);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_TOKENS);
    echo.chunk.first_pos = 1;
    echo.finish = LAC_FINISH_STOP;
    output_item(&B, 1, session, &echo); /* held-back text comes with the end */
    ck_assert_str_eq(expect(&B, LAC_MSG_TOKENS)->text, "echo");
    expect(&B, LAC_MSG_DONE);
    bench_close(&B);
}
END_TEST

START_TEST(credit_holds_tokens_back)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(1, "x");
    s.credit = 1;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    for (uint32_t i = 0; i < 5; i++)
        output(&B, 1, session, d, i, 1, i == 4 ? LAC_FINISH_STOP : LAC_FINISH_NONE);
    ck_assert_str_eq(expect(&B, LAC_MSG_TOKENS)->text, "a");
    expect_none(&B, LAC_MSG_TOKENS);
    expect_none(&B, LAC_MSG_DONE); /* the end comes after what it ends */
    ck_assert_uint_eq(lac_core_live(B.core), 1);
    grant(&B, 50, 1, 1);
    const sent *rest = expect(&B, LAC_MSG_TOKENS);
    ck_assert_uint_eq(rest->first_pos, 1);
    ck_assert_uint_eq(rest->tokens_count, 4);
    ck_assert_uint_eq(rest->tokens[3], 104);
    ck_assert_str_eq(rest->text, "bcde");
    expect(&B, LAC_MSG_DONE);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    bench_close(&B);
}
END_TEST

START_TEST(logprobs_wait_with_their_tokens)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(1, "x");
    s.credit = 1;
    s.sampling.logprobs = true;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    for (uint32_t i = 0; i < 3; i++) {
        char text[2] = {(char)('p' + i), 0};
        uint32_t token = i;
        lac_top_logprob top = {.token = i, .logprob = -1, .text = {text, 1}};
        lac_logprob logprob = {.chosen = top, .top_count = 1, .top = &top};
        lac_step_item item = {.request = d->request,
                              .attempt = 1,
                              .chunk = {.first_pos = i,
                                        .tokens_count = 1,
                                        .tokens = &token,
                                        .text = {text, 1},
                                        .logprobs_count = 1,
                                        .logprobs = &logprob}};
        output_item(&B, 1, session, &item);
    }
    expect(&B, LAC_MSG_TOKENS);
    grant(&B, 50, 1, 5);
    const sent *rest = expect(&B, LAC_MSG_TOKENS);
    ck_assert_uint_eq(rest->logprobs_count, 2);
    ck_assert_str_eq(rest->logprob_text, "q");
    ck_assert_str_eq(rest->text, "qr");
    cancel(&B, 50, 1);
    bench_close(&B);
}
END_TEST

START_TEST(busy_client_gets_everything_later)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    B.busy_plane = LAC_PLANE_CLIENT;
    B.busy_peer = 50;
    output(&B, 1, session, d, 0, 2, LAC_FINISH_LENGTH);
    expect_none(&B, LAC_MSG_DONE);
    lac_submit s = submit_of(2, "y");
    strcpy(s.model, "none");
    submit(&B, 50, &s); /* a refusal it cannot take yet either */
    B.busy_peer = 0;
    tick(&B, 100);
    ck_assert_uint_eq(expect(&B, LAC_MSG_TOKENS)->tokens_count, 2);
    expect(&B, LAC_MSG_DONE);
    ck_assert_uint_eq(expect(&B, LAC_MSG_REFUSED)->stream, 2);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    bench_close(&B);
}
END_TEST

START_TEST(slow_client_is_given_up)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(1, "x");
    s.credit = 1;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_NONE);
    output(&B, 1, session, d, 1, 1, LAC_FINISH_NONE);
    uint64_t peers[] = {1}, sessions[] = {session};
    keep_alive(&B, LAC_SLOW_READER_MS - 1000, 1, peers, sessions);
    expect_none(&B, LAC_MSG_REFUSED);
    keep_alive(&B, 1500, 1, peers, sessions);
    expect(&B, LAC_MSG_CANCEL);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_EDEADLINE);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    bench_close(&B);
}
END_TEST

/* Neither credit nor room in its queue when it is given up: it hears of it once there is room. */
START_TEST(slow_and_full_client_gets_its_end)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    lac_submit s = submit_of(1, "x");
    s.credit = 0;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_STOP);
    uint64_t peers[] = {1}, sessions[] = {session};
    keep_alive(&B, LAC_SLOW_READER_MS - 1000, 1, peers, sessions);
    B.busy_plane = LAC_PLANE_CLIENT;
    B.busy_peer = 50;
    keep_alive(&B, LAC_SLOW_READER_MS / 2, 1, peers, sessions);
    expect_none(&B, LAC_MSG_REFUSED);
    B.busy_peer = 0;
    tick(&B, 100);
    const sent *end = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(end->stream, 1);
    ck_assert_int_eq(end->status, LAC_EDEADLINE);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    ck_assert(metric(&B, "lacuna_streams_given_up_total", "") == 0);
    bench_close(&B);
}
END_TEST

/* One that stays full is forgotten in the end, which is counted and noted. */
START_TEST(full_client_is_bounded_in_time)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    submit_and_dispatch(&B, 50, 1);
    B.busy_plane = LAC_PLANE_CLIENT;
    B.busy_peer = 50;
    cancel(&B, 50, 1);
    uint64_t peers[] = {1}, sessions[] = {session};
    keep_alive(&B, 2 * LAC_SLOW_READER_MS - 1000, 1, peers, sessions);
    ck_assert_uint_eq(lac_core_live(B.core), 1);
    keep_alive(&B, 2000, 1, peers, sessions);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    ck_assert(metric(&B, "lacuna_streams_given_up_total", "") == 1);
    ck_assert_ptr_nonnull(strstr(B.notes, "stream 1 of client 50 is given up without an end"));
    bench_close(&B);
}
END_TEST

START_TEST(cancel_reaches_the_worker_at_once)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 4);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    output(&B, 1, session, d, 0, 1, LAC_FINISH_NONE);
    cancel(&B, 50, 1);
    const sent *c = expect(&B, LAC_MSG_CANCEL);
    ck_assert_uint_eq(c->request, d->request);
    ck_assert_uint_eq(c->attempt, 1);
    ck_assert_int_eq(expect(&B, LAC_MSG_DONE)->finish, LAC_FINISH_CANCEL);
    /* If that cancel got lost, the next output brings another. */
    output(&B, 1, session, d, 1, 1, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_CANCEL);
    expect_none(&B, LAC_MSG_TOKENS);
    ck_assert(metric(&B, "lacuna_stale_dropped_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(vanished_client_stops_its_streams)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lac_submit s = submit_of(2, "queued");
    submit(&B, 50, &s);
    s.stream = 1;
    submit(&B, 51, &s);
    lost(&B, LAC_PLANE_CLIENT, 50);
    expect(&B, LAC_MSG_CANCEL);
    ck_assert_uint_eq(lac_core_live(B.core), 1);
    /* The same discovered by a send. */
    d = expect(&B, LAC_MSG_DISPATCH);
    B.gone_plane = LAC_PLANE_CLIENT;
    B.gone_peer = 51;
    output(&B, 1, session, d, 0, 1, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_CANCEL);
    ck_assert_uint_eq(lac_core_live(B.core), 0);
    bench_close(&B);
}
END_TEST

START_TEST(deadlines_queued_and_running)
{
    bench_open(&B);
    join(&B, 1, "g0", 1);
    lac_submit s = submit_of(1, "x");
    s.deadline_ms = 500;
    submit(&B, 50, &s);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->deadline_ms, 500);
    s.stream = 2;
    s.deadline_ms = 300;
    submit(&B, 50, &s);
    wait_ms(&B, 300);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 2);
    ck_assert_int_eq(no->status, LAC_EDEADLINE);
    expect_none(&B, LAC_MSG_CANCEL);
    wait_ms(&B, 200);
    expect(&B, LAC_MSG_CANCEL);
    no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 1);
    ck_assert_int_eq(no->status, LAC_EDEADLINE);
    bench_close(&B);
}
END_TEST

START_TEST(worker_error_reaches_the_client)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    const sent *d = submit_and_dispatch(&B, 50, 1);
    lac_step_item item = {.request = d->request,
                          .attempt = 1,
                          .finish = LAC_FINISH_ERROR,
                          .error = LAC_ETOOBIG,
                          .reason = "prompt has 600 tokens, limit 512"};
    output_item(&B, 1, session, &item);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_ETOOBIG);
    ck_assert_str_eq(no->reason, item.reason);
    bench_close(&B);
}
END_TEST

START_TEST(stream_numbers_are_checked)
{
    bench_open(&B);
    join(&B, 1, "g0", 1);
    submit_and_dispatch(&B, 50, 1);
    lac_submit s = submit_of(1, "again");
    submit(&B, 50, &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 0);
    ck_assert_int_eq(no->status, LAC_EEXIST);
    s.stream = 0;
    submit(&B, 50, &s);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_EINVAL);
    ck_assert_uint_eq(lac_core_live(B.core), 1);
    bench_close(&B);
}
END_TEST

START_TEST(only_its_own_group_may_answer)
{
    bench_open(&B);
    uint64_t sessions[] = {join(&B, 1, "g0", 4), join(&B, 2, "g1", 4)};
    const sent *d = submit_and_dispatch(&B, 50, 1);
    uint64_t other = 3 - d->peer;
    output(&B, other, sessions[other - 1], d, 0, 1, LAC_FINISH_STOP);
    expect_none(&B, LAC_MSG_TOKENS);
    expect_none(&B, LAC_MSG_DONE);
    ck_assert(metric(&B, "lacuna_stale_dropped_total", "") == 1);
    bench_close(&B);
}
END_TEST

START_TEST(more_than_asked_is_an_error)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    lac_submit s = submit_of(1, "x");
    s.sampling.max_tokens = 2;
    submit(&B, 50, &s);
    const sent *d = expect(&B, LAC_MSG_DISPATCH);
    output(&B, 1, session, d, 0, 3, LAC_FINISH_NONE);
    expect_none(&B, LAC_MSG_TOKENS);
    ck_assert(metric(&B, "lacuna_protocol_errors_total", "") == 1);
    bench_close(&B);
}
END_TEST

TCase *requests_case(void)
{
    TCase *c = tcase_create("requests");
    tcase_add_test(c, stream_from_submit_to_done);
    tcase_add_test(c, chat_and_bias_are_copied);
    tcase_add_test(c, duplicates_are_dropped_gaps_are_errors);
    tcase_add_test(c, overlap_is_an_error);
    tcase_add_test(c, text_without_tokens_is_taken_once);
    tcase_add_test(c, credit_holds_tokens_back);
    tcase_add_test(c, logprobs_wait_with_their_tokens);
    tcase_add_test(c, busy_client_gets_everything_later);
    tcase_add_test(c, slow_client_is_given_up);
    tcase_add_test(c, slow_and_full_client_gets_its_end);
    tcase_add_test(c, full_client_is_bounded_in_time);
    tcase_add_test(c, cancel_reaches_the_worker_at_once);
    tcase_add_test(c, vanished_client_stops_its_streams);
    tcase_add_test(c, deadlines_queued_and_running);
    tcase_add_test(c, worker_error_reaches_the_client);
    tcase_add_test(c, stream_numbers_are_checked);
    tcase_add_test(c, only_its_own_group_may_answer);
    tcase_add_test(c, more_than_asked_is_an_error);
    return c;
}
