/* Groups of several ranks: two barriers, one config, and what breaks them. */
#include "base/group_config.h"
#include "harness.h"

static bench B;

/* A rank of a group of two: how far it says it has come. */
typedef enum { KNOCKS, JOINS, FORMED } phase;

static lac_hello rank_of(uint32_t rank, phase how, const lac_digest *config)
{
    static char addresses[2][8] = {"addr-0", "addr-1"};
    lac_hello h = hello_of("g0", "tiny", 4);
    h.pp = 2;
    h.rank = rank;
    h.pid = 100 + rank;
    memset(h.plan_digest.bytes, 3, 32);
    if (how != KNOCKS)
        h.address = (lac_span){addresses[rank], 6};
    memset(h.incarnation, 9, 16);
    h.formed = how == FORMED;
    if (config)
        h.config_digest = *config;
    if (how == FORMED) {
        h.layer_first = 2 * rank;
        h.layer_end = 2 * rank + 2;
    }
    return h;
}

static uint64_t say(uint64_t peer, const lac_hello *h)
{
    forget(&B);
    say_hello(&B, peer, h);
    const sent *ack = next_sent(&B, LAC_MSG_HELLO_ACK);
    return ack ? ack->session : 0;
}

static lac_digest config;
static uint64_t sessions[2];
static const uint64_t peers[2] = {1, 2};

static void join_both(void)
{
    lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
    sessions[0] = say(1, &a);
    expect_none(&B, LAC_MSG_FORM);
    sessions[1] = say(2, &b);
    const sent *form = expect(&B, LAC_MSG_FORM);
    ck_assert_uint_eq(form->peer, 1);
    config = form->config_digest;
    form = expect(&B, LAC_MSG_FORM);
    ck_assert_uint_eq(form->peer, 2);
    ck_assert(!lac_core_ready(B.core));
}

static void form_both(void)
{
    join_both();
    for (uint32_t r = 0; r < 2; r++) {
        lac_hello h = rank_of(r, FORMED, &config);
        ck_assert(!lac_core_ready(B.core));
        sessions[r] = say(peers[r], &h);
        ck_assert_uint_ne(sessions[r], 0);
    }
    ck_assert(lac_core_ready(B.core));
}

START_TEST(two_barriers)
{
    bench_open(&B);
    lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
    say(2, &b); /* in whatever order */
    ck_assert(!lac_core_ready(B.core));
    say(1, &a);
    for (int i = 0; i < 2; i++) {
        const sent *form = expect(&B, LAC_MSG_FORM);
        lac_digest digest;
        lac_sha256(B.config, strlen(B.config), &digest);
        ck_assert_mem_eq(&digest, &form->config_digest, sizeof digest);
        ck_assert_uint_eq(form->addresses_count, 2);
        ck_assert_str_eq(form->addresses[0], "addr-0");
        ck_assert_str_eq(form->addresses[1], "addr-1");
        ck_assert_mem_eq(form->incarnation, a.incarnation, 16);
        lac_group_config c;
        lac_error err = {0};
        ck_assert(lac_group_config_parse(B.config, strlen(B.config), &c, &err) == LAC_OK);
        ck_assert_uint_eq(c.pp, 2);
        ck_assert_uint_eq(c.slots, 4);
        ck_assert_uint_eq(c.context_max, 512);
        ck_assert_str_eq(c.model, "tiny");
        ck_assert_mem_eq(&c.plan_digest, &a.plan_digest, sizeof c.plan_digest);
        config = form->config_digest;
    }
    ck_assert(!lac_core_ready(B.core));
    a = rank_of(0, FORMED, &config);
    say(1, &a);
    ck_assert(!lac_core_ready(B.core)); /* the other still loads */
    b = rank_of(1, FORMED, &config);
    say(2, &b);
    ck_assert(lac_core_ready(B.core));
    ck_assert_uint_eq(submit_and_dispatch(&B, 1, 5)->peer, 1); /* to the leader */
    bench_close(&B);
}
END_TEST

START_TEST(ranks_started_by_hand_share_one_incarnation)
{
    bench_open(&B);
    lac_hello a = rank_of(0, KNOCKS, NULL), b = rank_of(1, KNOCKS, NULL);
    memset(a.incarnation, 0, 16);
    memset(b.incarnation, 0, 16);
    say_hello(&B, 1, &a);
    uint8_t given[16];
    memcpy(given, expect(&B, LAC_MSG_HELLO_ACK)->incarnation, 16);
    say_hello(&B, 2, &b);
    ck_assert_mem_eq(expect(&B, LAC_MSG_HELLO_ACK)->incarnation, given, 16);
    expect_none(&B, LAC_MSG_FORM); /* nobody can be reached yet */
    a = rank_of(0, JOINS, NULL);
    b = rank_of(1, JOINS, NULL);
    memcpy(a.incarnation, given, 16);
    memcpy(b.incarnation, given, 16);
    say(1, &a);
    expect_none(&B, LAC_MSG_FORM);
    say(2, &b);
    ck_assert_mem_eq(expect(&B, LAC_MSG_FORM)->incarnation, given, 16);
    /* A third of them is one too many. */
    lac_hello more = rank_of(1, KNOCKS, NULL);
    memset(more.incarnation, 0, 16);
    more.pid = 999;
    say(3, &more);
    forget(&B);
    say_hello(&B, 3, &more);
    ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_HELLO_REJECT)->reason, "pid 10"));
    bench_close(&B);
}
END_TEST

START_TEST(another_digest_stops_the_group_from_forming)
{
    bench_open(&B);
    lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
    memset(b.plan_digest.bytes, 4, 32);
    say(1, &a);
    forget(&B);
    say_hello(&B, 2, &b);
    const sent *said = expect(&B, LAC_MSG_HELLO_REJECT);
    ck_assert_uint_eq(said->peer, 2);
    ck_assert_ptr_nonnull(strstr(said->reason, "rank 1 has plan digest 0404040404"));
    ck_assert_ptr_nonnull(strstr(said->reason, "rank 0 has 0303030303"));
    said = expect(&B, LAC_MSG_DIE); /* the one that was there ends too, and knows why */
    ck_assert_uint_eq(said->peer, 1);
    ck_assert_ptr_nonnull(strstr(said->reason, "040404"));
    ck_assert_ptr_nonnull(strstr(said->reason, "030303"));
    ck_assert(!lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(what_else_must_be_alike)
{
    static const char *const what[] = {"pp", "model \"", "model digest"};
    for (int i = 0; i < 3; i++) {
        bench_open(&B);
        lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
        if (i == 0)
            b.pp = 3;
        else if (i == 1)
            strcpy(b.model, "other");
        else
            b.model_digest.bytes[0] = 1;
        say(1, &a);
        forget(&B);
        say_hello(&B, 2, &b);
        ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_HELLO_REJECT)->reason, what[i]));
        expect(&B, LAC_MSG_DIE);
        bench_close(&B);
    }
}
END_TEST

START_TEST(another_config_is_no_formed_rank)
{
    bench_open(&B);
    join_both();
    lac_hello a = rank_of(0, FORMED, &config), b = rank_of(1, FORMED, &config);
    b.config_digest.bytes[0] ^= 1;
    say(1, &a);
    forget(&B);
    say_hello(&B, 2, &b);
    ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_DIE)->reason, "config digest"));
    ck_assert(!lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

/* A rank that starts over is not the one that the others have joined. */
START_TEST(who_starts_over_ends_the_group)
{
    static const phase how[] = {KNOCKS, JOINS};
    for (int i = 0; i < 2; i++) {
        bench_open(&B);
        form_both();
        lac_hello b = rank_of(1, how[i], NULL);
        forget(&B);
        say_hello(&B, 2, &b);
        ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_DIE)->reason, "started over"));
        ck_assert(!lac_core_ready(B.core));
        bench_close(&B);
    }
    /* While they load: the same rank on another connection is told again, one with another address
     * is another process. */
    bench_open(&B);
    join_both();
    lac_hello b = rank_of(1, JOINS, NULL);
    say(3, &b);
    ck_assert_uint_eq(expect(&B, LAC_MSG_FORM)->peer, 3);
    expect_none(&B, LAC_MSG_FORM);
    b.address.length--;
    forget(&B);
    say_hello(&B, 3, &b);
    expect(&B, LAC_MSG_DIE);
    bench_close(&B);
}
END_TEST

START_TEST(before_the_first_barrier_a_place_can_be_taken_again)
{
    bench_open(&B);
    lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
    say(1, &a);
    lost(&B, LAC_PLANE_WORKER, 1);
    a.pid = 777; /* another process of the same start */
    ck_assert_uint_ne(say(5, &a), 0);
    say(2, &b);
    expect(&B, LAC_MSG_FORM);
    bench_close(&B);
}
END_TEST

START_TEST(a_loss_while_they_load_ends_the_group)
{
    bench_open(&B);
    join_both();
    forget(&B);
    lost(&B, LAC_PLANE_WORKER, 2);
    const sent *die = expect(&B, LAC_MSG_DIE);
    ck_assert_uint_eq(die->peer, 1);
    ck_assert_ptr_nonnull(strstr(die->reason, "rank 1"));
    bench_close(&B);
}
END_TEST

START_TEST(waiting_has_an_end)
{
    bench_open(&B);
    lac_hello a = rank_of(0, JOINS, NULL);
    uint64_t session = say(1, &a);
    for (int i = 0; i < 239; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, session, (lac_heartbeat){0});
    }
    expect_none(&B, LAC_MSG_DIE);
    wait_ms(&B, 600);
    ck_assert_ptr_nonnull(strstr(expect(&B, LAC_MSG_DIE)->reason, "1 of 2 ranks were there"));
    bench_close(&B);
}
END_TEST

START_TEST(any_rank_lost_moves_its_streams)
{
    for (uint32_t r = 0; r < 2; r++) {
        bench_open(&B);
        form_both();
        const sent *d = submit_and_dispatch(&B, 1, 5);
        ck_assert_uint_eq(d->peer, 1);
        output(&B, 1, sessions[0], d, 0, 3, LAC_FINISH_NONE);
        uint64_t other = join(&B, 7, "g1", 4);
        forget(&B);
        lost(&B, LAC_PLANE_WORKER, peers[r]);
        d = expect_moved(&B);
        ck_assert_uint_eq(d->peer, 7);
        ck_assert_uint_eq(d->accepted_count, 3);
        /* The rest is let go when the lost one does not come back. */
        uint64_t left = 1 - r;
        keep_alive(&B, 2500, 2, (uint64_t[]){peers[left], 7}, (uint64_t[]){sessions[left], other});
        ck_assert_uint_eq(expect(&B, LAC_MSG_DIE)->peer, peers[left]);
        bench_close(&B);
    }
}
END_TEST

START_TEST(a_rank_that_comes_back_makes_it_whole)
{
    bench_open(&B);
    form_both();
    lost(&B, LAC_PLANE_WORKER, 2);
    ck_assert(!lac_core_ready(B.core));
    beat(&B, 1, sessions[0], (lac_heartbeat){0}); /* the leader alone is not enough */
    ck_assert(!lac_core_ready(B.core));
    lac_hello b = rank_of(1, FORMED, &config);
    ck_assert_uint_ne(say(6, &b), 0);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(a_silent_rank_is_a_silent_group)
{
    bench_open(&B);
    form_both();
    for (int i = 0; i < 5; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, sessions[0], (lac_heartbeat){0});
    }
    ck_assert(!lac_core_ready(B.core));
    for (int i = 0; i < 8; i++) {
        wait_ms(&B, 500);
        beat(&B, 1, sessions[0], (lac_heartbeat){0});
    }
    expect(&B, LAC_MSG_DIE);
    /* It goes on after all: fenced. */
    forget(&B);
    beat(&B, 2, sessions[1], (lac_heartbeat){0});
    ck_assert_uint_eq(expect(&B, LAC_MSG_DIE)->peer, 2);
    lac_hello b = rank_of(1, FORMED, &config);
    forget(&B);
    say_hello(&B, 8, &b);
    ck_assert_uint_eq(expect(&B, LAC_MSG_DIE)->peer, 8);
    bench_close(&B);
}
END_TEST

START_TEST(only_the_leader_speaks_for_the_group)
{
    bench_open(&B);
    form_both();
    const sent *d = submit_and_dispatch(&B, 1, 5);
    forget(&B);
    output(&B, 2, sessions[1], d, 0, 1, LAC_FINISH_NONE);
    expect_none(&B, LAC_MSG_TOKENS);
    ck_assert(metric(&B, "lacuna_protocol_errors_total", "") == 1);
    output(&B, 1, sessions[0], d, 0, 1, LAC_FINISH_NONE);
    expect(&B, LAC_MSG_TOKENS);
    /* But any rank may say that it cannot go on. */
    lac_msg msg = {.envelope = {.type = LAC_MSG_FAULT, .epoch = EPOCH, .session = sessions[1]},
                   .body.fault = {.status = LAC_EPEER, .reason = "rank 0 is gone"}};
    event(&B, LAC_PLANE_WORKER, 2, &msg);
    expect(&B, LAC_MSG_DIE);
    ck_assert(!lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(a_rank_that_is_asked_to_end_drains_the_group)
{
    bench_open(&B);
    form_both();
    forget(&B);
    beat(&B, 2, sessions[1], (lac_heartbeat){.draining = true});
    ck_assert_uint_eq(expect(&B, LAC_MSG_DRAIN)->peer, 1);
    lac_msg msg = {.envelope = {.type = LAC_MSG_DRAINED, .epoch = EPOCH, .session = sessions[0]}};
    event(&B, LAC_PLANE_WORKER, 1, &msg);
    /* The leader lets the others go: they are told nothing. */
    beat(&B, 2, sessions[1], (lac_heartbeat){.draining = true});
    expect_none(&B, LAC_MSG_DIE);
    bench_close(&B);
}
END_TEST

/* A new coordinator meets a formed group, and one of which a rank still loads. */
START_TEST(a_formed_group_says_hello_to_a_new_coordinator)
{
    bench_open(&B);
    form_both();
    bench_close(&B);
    bench_open(&B);
    for (uint32_t r = 0; r < 2; r++) {
        lac_hello h = rank_of(r, FORMED, &config);
        say(peers[r], &h);
    }
    expect_none(&B, LAC_MSG_FORM);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);

    bench_open(&B);
    lac_hello a = rank_of(0, FORMED, &config), b = rank_of(1, JOINS, NULL);
    say(1, &a);
    say(2, &b);
    const sent *form = expect(&B, LAC_MSG_FORM);
    ck_assert_uint_eq(form->peer, 2);
    ck_assert_mem_eq(&form->config_digest, &config, sizeof config); /* the same as before */
    expect_none(&B, LAC_MSG_FORM);
    b = rank_of(1, FORMED, &config);
    say(2, &b);
    ck_assert(lac_core_ready(B.core));
    bench_close(&B);
}
END_TEST

START_TEST(a_full_queue_delays_the_word)
{
    bench_open(&B);
    lac_hello a = rank_of(0, JOINS, NULL), b = rank_of(1, JOINS, NULL);
    say(1, &a);
    B.busy_peer = 1;
    B.busy_plane = LAC_PLANE_WORKER;
    say(2, &b);
    ck_assert_uint_eq(expect(&B, LAC_MSG_FORM)->peer, 2);
    expect_none(&B, LAC_MSG_FORM);
    B.busy_peer = 0;
    tick(&B, 100);
    ck_assert_uint_eq(expect(&B, LAC_MSG_FORM)->peer, 1);
    bench_close(&B);
}
END_TEST

TCase *forming_case(void)
{
    TCase *t = tcase_create("forming");
    tcase_add_test(t, two_barriers);
    tcase_add_test(t, ranks_started_by_hand_share_one_incarnation);
    tcase_add_test(t, another_digest_stops_the_group_from_forming);
    tcase_add_test(t, what_else_must_be_alike);
    tcase_add_test(t, another_config_is_no_formed_rank);
    tcase_add_test(t, who_starts_over_ends_the_group);
    tcase_add_test(t, before_the_first_barrier_a_place_can_be_taken_again);
    tcase_add_test(t, a_loss_while_they_load_ends_the_group);
    tcase_add_test(t, waiting_has_an_end);
    tcase_add_test(t, any_rank_lost_moves_its_streams);
    tcase_add_test(t, a_rank_that_comes_back_makes_it_whole);
    tcase_add_test(t, a_silent_rank_is_a_silent_group);
    tcase_add_test(t, only_the_leader_speaks_for_the_group);
    tcase_add_test(t, a_rank_that_is_asked_to_end_drains_the_group);
    tcase_add_test(t, a_formed_group_says_hello_to_a_new_coordinator);
    tcase_add_test(t, a_full_queue_delays_the_word);
    return t;
}
