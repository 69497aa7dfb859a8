/* A rank as the coordinator sees it: sessions, streams, cancels, reconnects, drains, ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "link/link.h"
#include "rig.h"
#include "suites.h"

enum { NEVER = 0 }; /* max_tokens of a stream that does not end by itself */

static void expect_whole(const rig_stream_t *s, uint32_t tokens)
{
    ck_assert_uint_eq(s->gaps, 0);
    ck_assert_uint_eq(s->wrong, 0);
    ck_assert_uint_eq(s->tokens, tokens);
}

START_TEST(hello_says_who_it_is)
{
    rig_start();
    ck_assert_str_eq(rig.hello.group, "g0");
    ck_assert_str_eq(rig.hello.model, "fake");
    ck_assert_str_eq(rig.hello.architecture, "llama");
    ck_assert_str_eq(rig.hello.isa, "fake");
    ck_assert_str_eq(rig.hello.chat_family, "");
    ck_assert_uint_eq(rig.hello.slots, FAKE_SLOTS);
    ck_assert_uint_eq(rig.hello.context_max, FAKE_CONTEXT);
    ck_assert_uint_eq(rig.hello.kv_pages, 50);
    ck_assert_uint_eq(rig.hello.pid, (uint64_t)rig.rank);
    ck_assert_uint_eq(rig.hello.running_count, 0);
    ck_assert_uint_eq(rig.hello.incarnation[0], 0);
    lac_msg msg = {.body.die = {.reason = "again"}};
    rig_send(LAC_MSG_REREGISTER, &msg);
    RIG_UNTIL(rig.hellos == 2, 1000);
    ck_assert_uint_eq(rig.hello.incarnation[0], 1); /* the one it was given */
    rig_stop();
}
END_TEST

START_TEST(a_stream_arrives_whole)
{
    rig_start();
    rig_dispatch(1, 1, 1, 50);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 5000);
    expect_whole(rig_stream(1), 50);
    ck_assert_mem_eq(rig_stream(1)->text, "0 1 2 3 4 5 6 7 8 9 10 ", 23);
    ck_assert(rig_stream(1)->usage.prompt_tokens == 3 &&
              rig_stream(1)->usage.completion_tokens == 50);
    ck_assert_uint_eq(rig.bad_envelopes, 0);
    rig_stop();
}
END_TEST

START_TEST(one_message_a_step_carries_all_streams)
{
    rig_start();
    for (uint64_t i = 1; i <= FAKE_SLOTS; i++)
        rig_dispatch(i, 1, 1, 40);
    for (uint64_t i = 1; i <= FAKE_SLOTS; i++)
        RIG_UNTIL(rig_stream(i)->finish == LAC_FINISH_LENGTH, 5000);
    for (uint64_t i = 1; i <= FAKE_SLOTS; i++)
        expect_whole(rig_stream(i), 40);
    ck_assert_uint_eq(rig.outputs, atomic_load(&fake->steps));
    rig_stop();
}
END_TEST

START_TEST(heartbeats_tell_the_engines_own_progress)
{
    rig_start();
    uint64_t idle = rig.beat.step_counter;
    uint32_t beats = rig.beats;
    RIG_UNTIL(rig.beats >= beats + 3, 2000);
    ck_assert(!rig.beat.busy && rig.beat.step_counter == idle && rig.beat.running == 0);
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig.beat.busy && rig.beat.step_counter > idle + 10, 3000);
    ck_assert(rig.beat.running == 1 && rig.beat.kv_pages == 50 && rig.beat.active_layers == 3);
    ck_assert_uint_gt(rig.beat.rss_bytes, 1000000);
    ck_assert_uint_ge(rig.beat.dispatch_seq_seen, 1);
    /* A step that hangs: beats go on, the counter stands still and the step grows old. */
    atomic_store(&fake->step_us, 900000);
    rig_turn(100);
    beats = rig.beats;
    RIG_UNTIL(rig.beat.step_age_ms > 300, 2000);
    ck_assert_uint_gt(rig.beats, beats);
    rig_stop();
}
END_TEST

START_TEST(the_same_dispatch_runs_once)
{
    rig_start();
    rig_dispatch(1, 1, 1, 30);
    rig_dispatch(1, 1, 1, 30);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 5000);
    rig_dispatch(1, 1, 1, 30); /* and not again when it has ended */
    rig_turn(200);
    expect_whole(rig_stream(1), 30);
    ck_assert_uint_eq(atomic_load(&fake->submitted), 1);
    rig_stop();
}
END_TEST

START_TEST(a_newer_attempt_replaces_the_older)
{
    rig_start();
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig_stream(1)->tokens > 5, 3000);
    lac_dispatch ask = rig_ask(1, 2, 100);
    uint32_t accepted[] = {100, 101, 102};
    ask.accepted = accepted;
    ask.accepted_count = 3;
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->attempt == 2, 3000);
    ck_assert_uint_eq(rig_stream(1)->gaps, 1); /* it starts again, right after what was accepted */
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 3000);
    ck_assert_uint_eq(rig_stream(1)->next_pos, 100);
    ck_assert(rig_stream(1)->gaps == 1 && rig_stream(1)->wrong == 0);
    ck_assert_uint_eq(atomic_load(&fake->cancelled), 1);
    rig_stop();
}
END_TEST

START_TEST(accepted_tokens_move_the_first_position)
{
    rig_start();
    lac_dispatch ask = rig_ask(1, 2, 10);
    uint32_t accepted[] = {100, 101, 102, 103};
    ask.accepted = accepted;
    ask.accepted_count = 4;
    rig_stream(1)->next_pos = 4;
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 3000);
    expect_whole(rig_stream(1), 6);
    rig_stop();
}
END_TEST

START_TEST(a_cancel_stops_within_a_step)
{
    rig_start();
    atomic_store(&fake->step_us, 20000);
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig_stream(1)->tokens > 2, 3000);
    rig_cancel(1, 1);
    uint64_t steps = atomic_load(&fake->steps);
    RIG_UNTIL(atomic_load(&fake->running) == 0, 1000);
    ck_assert_uint_le(atomic_load(&fake->steps), steps + 2);
    uint32_t tokens = rig_stream(1)->tokens;
    rig_turn(100);
    ck_assert_uint_le(rig_stream(1)->tokens, tokens + 1);
    ck_assert_int_eq(rig_stream(1)->finish, LAC_FINISH_NONE);
    rig_cancel(1, 1); /* once more, and one nobody knows */
    rig_cancel(77, 1);
    rig_dispatch(2, 1, 1, 5);
    RIG_UNTIL(rig_stream(2)->finish == LAC_FINISH_LENGTH, 3000);
    rig_stop();
}
END_TEST

START_TEST(many_random_cancels_leave_nothing_behind)
{
    rig_start();
    atomic_store(&fake->step_us, 200);
    for (uint64_t i = 1; i <= 200; i++) {
        rig.streams_count = 0;
        rig_dispatch(1000 + i, 1, 1, NEVER);
        if (i % 3 == 0)
            rig_turn((unsigned)(i % 7));
        rig_cancel(1000 + i, 1);
    }
    rig.streams_count = 0;
    RIG_UNTIL(atomic_load(&fake->running) == 0, 3000);
    RIG_UNTIL(rig.beat.running == 0 && rig.beat.queued == 0 && rig.beat.kv_pages_used == 0, 3000);
    lac_msg msg = {.body.die = {.reason = "who runs?"}};
    rig_send(LAC_MSG_REREGISTER, &msg);
    RIG_UNTIL(rig.hellos == 2, 1000);
    ck_assert_uint_eq(rig.hello.running_count, 0);
    rig_stop();
}
END_TEST

static void expect_refused(uint64_t request, lac_status status, const char *named)
{
    RIG_UNTIL(rig_stream(request)->finish != LAC_FINISH_NONE, 3000);
    ck_assert_int_eq(rig_stream(request)->finish, LAC_FINISH_ERROR);
    ck_assert_int_eq(rig_stream(request)->error, status);
    ck_assert_msg(strstr(rig_stream(request)->reason, named) != NULL, "%s",
                  rig_stream(request)->reason);
}

START_TEST(bad_requests_get_a_reason)
{
    rig_start();
    rig_dispatch(1, 1, FAKE_VOCAB, 5);
    expect_refused(1, LAC_EINVAL, "token 1000, allowed below 1000");
    rig_dispatch(2, 1, FAKE_PROMPT_BUSY, 5);
    expect_refused(2, LAC_BUSY, "at most 64");
    rig_dispatch(3, 1, FAKE_PROMPT_FAULT, 50);
    expect_refused(3, LAC_EINTERNAL, "the fake broke");
    lac_chat_message message = {.role = "user", .content = {.data = "hi", .length = 2}};
    lac_dispatch chat = rig_ask(4, 1, 5);
    chat.prompt = (lac_prompt){.kind = LAC_PROMPT_CHAT, .messages_count = 1, .messages = &message};
    rig_dispatch_ask(&chat);
    expect_refused(4, LAC_EUNSUPPORTED, "chat template");
    lac_logit_bias bias = {.token = FAKE_VOCAB, .bias = 1};
    lac_dispatch biased = rig_ask(5, 1, 5);
    biased.sampling.bias = &bias;
    biased.sampling.bias_count = 1;
    rig_dispatch_ask(&biased);
    expect_refused(5, LAC_EINVAL, "logit_bias");
    static char big[FAKE_CONTEXT];
    memset(big, 'x', sizeof(big));
    lac_dispatch longest = rig_ask(6, 1, 5);
    longest.prompt =
        (lac_prompt){.kind = LAC_PROMPT_TEXT, .text = {.data = big, .length = sizeof(big)}};
    rig_dispatch_ask(&longest);
    expect_refused(6, LAC_ETOOBIG, "100000 tokens, allowed at most 99999");
    rig_dispatch(7, 1, 1, 5); /* and the rank still serves */
    RIG_UNTIL(rig_stream(7)->finish == LAC_FINISH_LENGTH, 3000);
    rig_stop();
}
END_TEST

START_TEST(a_named_family_serves_chat)
{
    rig_start_with("fake.gguf", "chatml");
    RIG_UNTIL(rig.hellos == 1, 5000);
    ck_assert_str_eq(rig.hello.chat_family, "chatml");
    lac_chat_message message = {.role = "user", .content = {.data = "hi", .length = 2}};
    lac_dispatch chat = rig_ask(4, 1, 5);
    chat.prompt = (lac_prompt){.kind = LAC_PROMPT_CHAT, .messages_count = 1, .messages = &message};
    rig_dispatch_ask(&chat);
    RIG_UNTIL(rig_stream(4)->finish == LAC_FINISH_LENGTH, 3000);
    ck_assert_uint_gt(rig_stream(4)->usage.prompt_tokens, 20); /* one a byte of the rendered text */
    rig_stop();
}
END_TEST

START_TEST(an_unknown_family_or_model_ends_at_start)
{
    rig_start_with("fake.gguf", "klingon");
    ck_assert_int_eq(rig_rank_exit(3000), 9);
    rig_stop();
    rig_start_with("absent", "");
    ck_assert_int_eq(rig_rank_exit(3000), 9);
    rig_stop();
}
END_TEST

START_TEST(an_echo_leads_the_answer)
{
    rig_start();
    lac_dispatch ask = rig_ask(1, 1, 3);
    ask.echo = true;
    ask.prompt = (lac_prompt){.kind = LAC_PROMPT_TEXT, .text = {.data = "Once ", .length = 5}};
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 3000);
    expect_whole(rig_stream(1), 3);
    ck_assert_str_eq(rig_stream(1)->text, "Once 0 1 2 ");
    rig_stop();
}
END_TEST

START_TEST(a_deadline_ends_a_request)
{
    rig_start();
    lac_dispatch ask = rig_ask(1, 1, NEVER);
    ask.deadline_ms = 300;
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->finish != LAC_FINISH_NONE, 2000);
    ck_assert_int_eq(rig_stream(1)->error, LAC_EDEADLINE);
    ck_assert_uint_gt(rig_stream(1)->tokens, 10);
    RIG_UNTIL(atomic_load(&fake->running) == 0, 1000);
    rig_stop();
}
END_TEST

START_TEST(a_reregister_claims_what_runs_and_loses_nothing)
{
    rig_start();
    rig_dispatch(1, 1, 1, 400);
    RIG_UNTIL(rig_stream(1)->tokens > 20, 3000);
    rig.auto_ack = false;
    lac_msg msg = {.body.die = {.reason = "who are you?"}};
    rig_send(LAC_MSG_REREGISTER, &msg);
    RIG_UNTIL(rig.hellos == 2, 1000);
    ck_assert_uint_eq(rig.hello.running_count, 1);
    ck_assert(rig.running[0].request == 1 && rig.running[0].attempt == 1);
    ck_assert_uint_eq(rig.running[0].next_pos, rig_stream(1)->next_pos);
    uint32_t before = rig_stream(1)->tokens, beats = rig.beats;
    rig_turn(300); /* nothing but Hellos until the ack */
    ck_assert(rig_stream(1)->tokens == before && rig.beats == beats);
    rig_ack(rig.epoch, rig.session + 1);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 5000);
    expect_whole(rig_stream(1), 400);
    ck_assert_uint_eq(rig.bad_envelopes, 0);
    rig_stop();
}
END_TEST

START_TEST(a_hello_without_answer_is_repeated)
{
    rig_start_with("fake.gguf", "");
    rig.auto_ack = false;
    RIG_UNTIL(rig.hellos >= 2, 8000);
    rig_ack(5, 1);
    RIG_UNTIL(rig.beats > 0, 2000);
    rig_stop();
}
END_TEST

START_TEST(a_silent_coordinator_finds_everything_when_it_is_back)
{
    rig_start();
    atomic_store(&fake->step_us, 300);
    rig_dispatch(1, 1, 1, 3000);
    RIG_UNTIL(rig_stream(1)->tokens > 20, 3000);
    rig_coordinator_close();
    /* What was on the way is lost with the connection; the positions below say from where. */
    uint64_t steps = atomic_load(&fake->steps);
    rig_turn(2500);
    uint64_t ahead = atomic_load(&fake->steps) - steps;
    ck_assert_uint_gt(ahead, 100);  /* it went on generating */
    ck_assert_uint_lt(ahead, 1800); /* into a bounded buffer: ours and the socket's */
    rig.epoch++;
    uint32_t hellos = rig.hellos;
    rig.auto_ack = false;
    rig_coordinator_open();
    RIG_UNTIL(rig.hellos > hellos, 8000);
    ck_assert_uint_eq(rig.hello.running_count, 1);
    ck_assert_uint_ge(rig.running[0].next_pos, rig_stream(1)->next_pos);
    rig_stream(1)->next_pos = rig.running[0].next_pos;
    uint32_t from = rig.running[0].next_pos;
    rig_stream(1)->tokens = 0;
    rig_ack(rig.epoch, 100);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 10000);
    expect_whole(rig_stream(1), 3000 - from);
    rig_stop();
}
END_TEST

START_TEST(old_epochs_and_sessions_do_nothing)
{
    rig_start();
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig_stream(1)->tokens > 5, 3000);
    lac_msg cancel = {.body.cancel = {.request = 1, .attempt = 1}};
    rig_send_as(LAC_MSG_CANCEL, &cancel, rig.epoch - 1, rig.session);
    rig_send_as(LAC_MSG_CANCEL, &cancel, rig.epoch, rig.session + 9);
    lac_msg die = {.body.die = {.reason = "I am old"}};
    rig_send_as(LAC_MSG_DIE, &die, rig.epoch - 1, rig.session);
    rig_ack(rig.epoch - 1, 50);
    uint32_t tokens = rig_stream(1)->tokens;
    RIG_UNTIL(rig_stream(1)->tokens > tokens + 50, 3000);
    ck_assert_uint_eq(rig.bad_envelopes, 0);
    rig_stop();
}
END_TEST

START_TEST(die_and_reject_end_the_process)
{
    rig_start();
    lac_msg die = {.body.die = {.reason = "fenced"}};
    rig_send(LAC_MSG_DIE, &die);
    ck_assert_int_eq(rig_rank_exit(2000), 3);
    rig_stop();
    rig_start();
    lac_msg reject = {
        .body.hello_reject = {.major_min = 2, .major_max = 3, .reason = "major 1, allowed 2 to 3"}};
    rig_send(LAC_MSG_HELLO_REJECT, &reject);
    ck_assert_int_eq(rig_rank_exit(2000), 1);
    rig_stop();
}
END_TEST

START_TEST(sigterm_drains_and_ends_with_0)
{
    rig_start();
    rig_dispatch(1, 1, 1, 150);
    RIG_UNTIL(rig_stream(1)->tokens > 5, 3000);
    kill(rig.rank, SIGTERM);
    RIG_UNTIL(rig.beat.draining, 1000);
    rig_dispatch(2, 1, 1, 5); /* crossed with the drain */
    expect_refused(2, LAC_ECANCELLED, "draining");
    ck_assert_int_eq(rig_rank_exit(5000), 0);
    expect_whole(rig_stream(1), 150);
    ck_assert_int_eq(rig_stream(1)->finish, LAC_FINISH_LENGTH);
    ck_assert_uint_eq(rig.drained, 1);
    rig_stop();
}
END_TEST

START_TEST(an_idle_or_unconnected_rank_ends_at_once)
{
    rig_start();
    kill(rig.rank, SIGINT);
    ck_assert_int_eq(rig_rank_exit(1000), 0);
    ck_assert_uint_eq(rig.drained, 1);
    rig_stop();
    rig_start();
    rig_coordinator_close();
    kill(rig.rank, SIGTERM);
    ck_assert_int_eq(rig_rank_exit(1000), 0);
    rig_stop();
}
END_TEST

START_TEST(a_second_signal_does_not_wait)
{
    rig_start();
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig_stream(1)->tokens > 5, 3000);
    kill(rig.rank, SIGTERM);
    RIG_UNTIL(rig.beat.draining, 1000);
    kill(rig.rank, SIGTERM);
    ck_assert_int_eq(rig_rank_exit(1000), 128 + SIGTERM);
    rig_stop();
}
END_TEST

START_TEST(a_drain_ends_at_its_deadline)
{
    rig_start();
    rig_dispatch(1, 1, 1, NEVER);
    RIG_UNTIL(rig_stream(1)->tokens > 5, 3000);
    lac_msg drain = {.body.drain = {.deadline_ms = 400}};
    rig_send(LAC_MSG_DRAIN, &drain);
    rig_turn(200);
    ck_assert(!rig.rank_gone && rig.drained == 0);
    ck_assert_int_eq(rig_rank_exit(2000), 0);
    ck_assert_uint_eq(rig.drained, 1);
    ck_assert_int_eq(rig_stream(1)->finish, LAC_FINISH_NONE); /* the coordinator moves it */
    rig_stop();
}
END_TEST

START_TEST(an_idle_rank_sleeps)
{
    rig_start();
    char path[64], line[512];
    unsigned long before = 0, after = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)rig.rank);
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path, "r");
        ck_assert_ptr_nonnull(file);
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
        fclose(file);
        unsigned long user = 0, system = 0;
        ck_assert_int_eq(sscanf(strrchr(line, ')'),
                                ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u "
                                "%*u %lu %lu",
                                &user, &system),
                         2);
        before = i == 0 ? user + system : before;
        after = user + system;
        if (i == 0)
            rig_turn(2000);
    }
    ck_assert_uint_le(after - before, 10); /* 5 % of 2 s, in ticks of 10 ms */
    rig_stop();
}
END_TEST

/* ---- classes ---- */

static lac_dispatch ask_as(uint64_t request, uint8_t class_byte, uint32_t max_tokens)
{
    lac_dispatch ask = rig_ask(request, 1, max_tokens);
    ask.has_class = true;
    ask.class_digest.bytes[0] = class_byte;
    ask.input_type = LAC_INPUT_CODE;
    return ask;
}

START_TEST(hello_announces_what_the_engine_runs)
{
    rig_start();
    ck_assert_uint_eq(rig.hello.classes_count, 1);
    const lac_class_facts *c = &rig.classes[0];
    ck_assert_str_eq(c->name, "one");
    ck_assert_uint_eq(c->digest.bytes[0], 1);
    ck_assert_int_eq(c->serves[LAC_INPUT_CODE].tier, LAC_TIER_GOLD);
    ck_assert_float_eq(c->serves[LAC_INPUT_CODE].kl_upper, 0.0078125f);
    ck_assert_int_eq(c->serves[LAC_INPUT_STRUCTURED].tier, LAC_TIER_NONE);
    ck_assert_float_eq(c->skip_rate, 0.25f);
    ck_assert_float_eq(c->cost, 0.75f);
    rig_stop();
}
END_TEST

START_TEST(a_dispatch_names_its_class)
{
    rig_start();
    lac_dispatch ask = ask_as(1, 1, 5);
    rig_dispatch_ask(&ask);
    rig_dispatch(2, 1, 1, 5);
    RIG_UNTIL(rig_stream(1)->finish && rig_stream(2)->finish, 5000);
    ck_assert_uint_eq(rig_stream(1)->accounts, 1); /* with the end alone */
    ck_assert_str_eq(rig_stream(1)->account.class_name, "one");
    ck_assert_str_eq(rig_stream(1)->mask, "A1");
    ck_assert_str_eq(rig_stream(1)->account.why, "");
    ck_assert_float_eq(rig_stream(1)->account.skip_rate, 0.25f);
    ck_assert_str_eq(rig_stream(2)->account.class_name, "full");
    RIG_UNTIL(rig.beat.classes_count == 2 && rig.beat.classes[1].requests == 1, 2000);
    ck_assert_uint_eq(rig.beat.classes[1].index, 1);
    ck_assert_uint_eq(rig.beat.class_unknown, 0);
    rig_stop();
}
END_TEST

START_TEST(an_unknown_class_runs_in_full_and_says_so)
{
    rig_start();
    lac_dispatch ask = ask_as(1, 2, 5);
    rig_dispatch_ask(&ask);
    ask = ask_as(2, 77, 5);
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->finish && rig_stream(2)->finish, 5000);
    for (uint64_t i = 1; i <= 2; i++) {
        expect_whole(rig_stream(i), 5);
        ck_assert_str_eq(rig_stream(i)->account.class_name, "full");
        ck_assert_ptr_nonnull(strstr(rig_stream(i)->account.why, "does not have the class"));
    }
    RIG_UNTIL(rig.beat.class_unknown == 2, 2000);
    rig_stop();
}
END_TEST

START_TEST(a_rerun_is_counted_and_named)
{
    rig_start();
    lac_dispatch ask = ask_as(1, 1, 5);
    uint32_t ids[] = {FAKE_PROMPT_RERUN, 2, 3};
    ask.prompt.ids = ids;
    ask.shadow = true;
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 5000);
    ck_assert_str_eq(rig_stream(1)->account.class_name, "full");
    ck_assert_ptr_nonnull(strstr(rig_stream(1)->account.why, "again in full"));
    RIG_UNTIL(rig.beat.class_reruns == 1, 2000);
    rig_turn(200);
    ck_assert_uint_eq(rig.shadows, 0); /* it did not end as its class */
    rig_stop();
}
END_TEST

START_TEST(a_sampled_request_is_scored_when_nothing_runs)
{
    rig_start();
    lac_dispatch ask = ask_as(1, 1, 7);
    ask.shadow = true;
    rig_dispatch_ask(&ask);
    ask = ask_as(2, 1, 9); /* not sampled */
    rig_dispatch_ask(&ask);
    RIG_UNTIL(rig.shadows == 1, 5000);
    ck_assert_uint_eq(rig.shadow.class_digest.bytes[0], 1);
    ck_assert_int_eq(rig.shadow.input_type, LAC_INPUT_CODE);
    ck_assert_uint_eq(rig.shadow.tokens, 7);
    ck_assert_double_eq(rig.shadow.kl_mean, 0.5);
    RIG_UNTIL(rig.beat.shadows == 1, 2000);
    rig_turn(200);
    ck_assert_uint_eq(rig.shadows, 1);
    rig_stop();
}
END_TEST

/* A request that comes meanwhile does not wait, and the score begins anew afterwards. */
START_TEST(scoring_gives_way)
{
    rig_start();
    lac_dispatch ask = ask_as(1, 1, 7);
    ask.shadow = true;
    rig_dispatch_ask(&ask);
    RIG_UNTIL(atomic_load(&fake->shadow_starts) == 1, 5000);
    rig_dispatch(2, 1, 1, 5);
    RIG_UNTIL(rig_stream(2)->finish == LAC_FINISH_LENGTH, 5000);
    ck_assert_uint_eq(atomic_load(&fake->shadow_stops), 1);
    RIG_UNTIL(rig.shadows == 1, 5000);
    ck_assert_uint_eq(atomic_load(&fake->shadow_starts), 2);
    rig_stop();
}
END_TEST

Suite *suite_link(void)
{
    Suite *suite = suite_create("link");
    TCase *tc = tcase_create("link");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, hello_says_who_it_is);
    tcase_add_test(tc, a_stream_arrives_whole);
    tcase_add_test(tc, one_message_a_step_carries_all_streams);
    tcase_add_test(tc, heartbeats_tell_the_engines_own_progress);
    tcase_add_test(tc, the_same_dispatch_runs_once);
    tcase_add_test(tc, a_newer_attempt_replaces_the_older);
    tcase_add_test(tc, accepted_tokens_move_the_first_position);
    tcase_add_test(tc, a_cancel_stops_within_a_step);
    tcase_add_test(tc, many_random_cancels_leave_nothing_behind);
    tcase_add_test(tc, bad_requests_get_a_reason);
    tcase_add_test(tc, a_named_family_serves_chat);
    tcase_add_test(tc, an_unknown_family_or_model_ends_at_start);
    tcase_add_test(tc, an_echo_leads_the_answer);
    tcase_add_test(tc, a_deadline_ends_a_request);
    tcase_add_test(tc, a_reregister_claims_what_runs_and_loses_nothing);
    tcase_add_test(tc, a_hello_without_answer_is_repeated);
    tcase_add_test(tc, a_silent_coordinator_finds_everything_when_it_is_back);
    tcase_add_test(tc, old_epochs_and_sessions_do_nothing);
    tcase_add_test(tc, die_and_reject_end_the_process);
    tcase_add_test(tc, sigterm_drains_and_ends_with_0);
    tcase_add_test(tc, an_idle_or_unconnected_rank_ends_at_once);
    tcase_add_test(tc, a_second_signal_does_not_wait);
    tcase_add_test(tc, a_drain_ends_at_its_deadline);
    tcase_add_test(tc, an_idle_rank_sleeps);
    tcase_add_test(tc, hello_announces_what_the_engine_runs);
    tcase_add_test(tc, a_dispatch_names_its_class);
    tcase_add_test(tc, an_unknown_class_runs_in_full_and_says_so);
    tcase_add_test(tc, a_rerun_is_counted_and_named);
    tcase_add_test(tc, a_sampled_request_is_scored_when_nothing_runs);
    tcase_add_test(tc, scoring_gives_way);
    suite_add_tcase(suite, tc);
    return suite;
}
