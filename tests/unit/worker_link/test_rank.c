/* One rank of several as the coordinator sees it: it asks, joins, is told, loads, serves or
 * follows, and ends with its group. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/group_config.h"
#include "link/link.h"
#include "rig.h"
#include "suites.h"

/* What a coordinator would make of the last Hello. */
static lac_group_config config_of_hello(void)
{
    lac_group_config c = {.pp = rig.hello.pp,
                          .tp = rig.hello.tp,
                          .context_max = 4096,
                          .slots = 5,
                          .model_digest = rig.hello.model_digest,
                          .plan_digest = rig.hello.plan_digest};
    memcpy(c.model, rig.hello.model, sizeof c.model);
    return c;
}

static lac_digest form_send(const lac_group_config *config)
{
    lac_buf text = {0};
    lac_span addresses[2] = {{"rank 0 of 1", 11}, {"rank 1 of 1", 11}};
    lac_msg msg = {
        .body.form = {.incarnation = {1, 2, 3}, .addresses_count = 2, .addresses = addresses}};
    lac_group_config_write(config, &text);
    lac_sha256(text.data, text.length, &msg.body.form.config_digest);
    msg.body.form.config = (lac_span){text.data, (uint32_t)text.length};
    lac_digest digest = msg.body.form.config_digest;
    rig_send(LAC_MSG_FORM, &msg);
    lac_buf_free(&text);
    return digest;
}

/* Up to the first barrier: it knows its incarnation and can be reached. */
static void until_joined(uint32_t rank)
{
    rig_start_rank(rank, 2, 1);
    RIG_UNTIL(rig.hellos == 2, 5000);
    ck_assert_uint_eq(rig.knocks, 1); /* it asks for the incarnation first */
    ck_assert_str_eq(rig.address, rank ? "rank 1 of 1" : "rank 0 of 1");
    RIG_UNTIL(rig.beats > 0, 2000);
}

static lac_digest until_formed(uint32_t rank)
{
    until_joined(rank);
    lac_group_config config = config_of_hello();
    lac_digest digest = form_send(&config);
    RIG_UNTIL(rig.hellos == 3, 5000);
    ck_assert(rig.hello.formed);
    uint32_t beats = rig.beats;
    RIG_UNTIL(rig.beats > beats, 2000);
    return digest;
}

START_TEST(two_barriers)
{
    until_joined(0);
    ck_assert_uint_eq(rig.hello.pp, 2);
    ck_assert_uint_eq(rig.hello.rank, 0);
    ck_assert_uint_eq(rig.hello.layers, 3);
    ck_assert_uint_eq(rig.hello.incarnation[0], 1);
    ck_assert_uint_gt(strlen(rig.hello.host), 30);
    ck_assert(!rig.hello.formed);
    static const lac_digest none;
    ck_assert_mem_ne(&rig.hello.plan_digest, &none, sizeof none);
    atomic_store(&fake->hold_load, 1);
    lac_group_config config = config_of_hello();
    lac_digest digest = form_send(&config);
    RIG_UNTIL(atomic_load(&fake->met) == 2, 2000);
    uint32_t beats = rig.beats;
    RIG_UNTIL(rig.beats > beats + 2, 2000); /* loading is no silence */
    ck_assert_uint_eq(rig.hellos, 2);
    form_send(&config); /* told once more: nothing new */
    atomic_store(&fake->hold_load, 0);
    RIG_UNTIL(rig.hellos == 3, 5000);
    ck_assert(rig.hello.formed);
    ck_assert_mem_eq(&rig.hello.config_digest, &digest, sizeof digest);
    ck_assert_uint_eq(rig.hello.layer_first, 0);
    ck_assert_uint_eq(rig.hello.layer_end, 1);
    ck_assert_uint_eq(rig.hello.classes_count, 1);
    ck_assert_str_eq(rig.hello.isa, "fake");
    ck_assert_str_eq(rig.address, "rank 0 of 1");
    rig_turn(50);
    rig_dispatch(1, 1, 1, 20);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_LENGTH, 5000);
    ck_assert_uint_eq(rig_stream(1)->tokens, 20);
    rig_stop();
}
END_TEST

START_TEST(a_follower_says_what_it_holds_and_takes_no_requests)
{
    until_formed(1);
    ck_assert_uint_eq(rig.hello.layer_first, 1);
    ck_assert_uint_eq(rig.hello.layer_end, 3);
    ck_assert_uint_eq(rig.hello.erased_units, 1); /* unit 2 is A1 */
    ck_assert_uint_eq(rig.beat.active_layers, 2);
    rig_dispatch(1, 1, 1, 20);
    RIG_UNTIL(rig_stream(1)->finish == LAC_FINISH_ERROR, 5000);
    ck_assert_int_eq(rig_stream(1)->error, LAC_ECANCELLED);
    ck_assert_uint_eq(atomic_load(&fake->submitted), 0);
    atomic_store(&fake->let_go, 1);
    ck_assert_int_eq(rig_rank_exit(5000), 0);
    ck_assert_uint_eq(atomic_load(&fake->fabrics), 0); /* it left in order */
    ck_assert_uint_eq(rig.faults, 0);
    rig_stop();
}
END_TEST

/* It says so to the coordinator, which has the leader drained, which lets it go. */
START_TEST(a_follower_asked_to_end_waits_for_its_leader)
{
    until_formed(1);
    kill(rig.rank, SIGTERM);
    RIG_UNTIL(rig.beat.draining, 2000);
    rig_turn(300);
    ck_assert(!rig.rank_gone);
    ck_assert_uint_eq(rig.drained, 0);
    atomic_store(&fake->let_go, 1);
    ck_assert_int_eq(rig_rank_exit(5000), 0);
    rig_stop();
}
END_TEST

START_TEST(a_lost_rank_ends_the_others)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        until_formed(rank);
        if (rank == 0)
            rig_dispatch(1, 1, 1, 0);
        if (rank == 0)
            RIG_UNTIL(rig_stream(1)->tokens > 3, 5000);
        atomic_store(&fake->group_over, 1);
        ck_assert_int_eq(rig_rank_exit(2000), LAC_LINK_EXIT_DIED);
        RIG_UNTIL(rig.faults == 1, 1000);
        ck_assert_int_eq(rig.fault.status, LAC_EPEER);
        ck_assert_ptr_nonnull(strstr(rig.fault.reason, "is gone"));
        /* Its streams did not fail: they go on elsewhere. */
        ck_assert(rank == 1 || rig_stream(1)->finish == LAC_FINISH_NONE);
        rig_stop();
    }
}
END_TEST

START_TEST(a_group_declared_dead_ends_at_once)
{
    until_formed(1);
    lac_msg msg = {.body.die = {.reason = "rank 0: its connection is gone"}};
    rig_send(LAC_MSG_DIE, &msg);
    ck_assert_int_eq(rig_rank_exit(2000), LAC_LINK_EXIT_DIED); /* its engine waits for the leader */
    rig_stop();
    until_joined(1);
    atomic_store(&fake->hold_load, 1);
    lac_group_config config = config_of_hello();
    form_send(&config);
    RIG_UNTIL(atomic_load(&fake->met) == 2, 2000);
    rig_send(LAC_MSG_DIE, &msg);
    ck_assert_int_eq(rig_rank_exit(2000), LAC_LINK_EXIT_DIED); /* it is in the middle of loading */
    rig_stop();
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    static const char *const says[] = {"pp is 2 here, the group's config says 1", "plan digest is",
                                       "no memory for the fake"};
    for (int i = 0; i < 3; i++) {
        until_joined(1);
        lac_group_config config = config_of_hello();
        if (i == 0)
            config.pp = 1;
        if (i == 1)
            config.plan_digest.bytes[0] ^= 1;
        atomic_store(&fake->load_fails, i == 2);
        form_send(&config);
        ck_assert_int_eq(rig_rank_exit(3000), LAC_LINK_EXIT_REJECTED);
        RIG_UNTIL(rig.faults == 1, 1000);
        ck_assert_msg(strstr(rig.fault.reason, says[i]) != NULL, "%s", rig.fault.reason);
        ck_assert_ptr_nonnull(strstr(rig.fault.reason, "rank 1: "));
        rig_stop();
    }
}
END_TEST

START_TEST(a_config_that_changes_is_refused)
{
    until_joined(0);
    atomic_store(&fake->hold_load, 1);
    lac_group_config config = config_of_hello();
    form_send(&config);
    config.slots++;
    form_send(&config);
    ck_assert_int_eq(rig_rank_exit(3000), LAC_LINK_EXIT_REJECTED);
    RIG_UNTIL(rig.faults == 1, 1000);
    ck_assert_ptr_nonnull(strstr(rig.fault.reason, "changed while it forms"));
    rig_stop();
}
END_TEST

START_TEST(an_impossible_shape_ends_at_start)
{
    rig_start_rank(0, 4, 1); /* of three layers */
    ck_assert_int_eq(rig_rank_exit(3000), 9);
    ck_assert_uint_eq(rig.hellos, 0);
    rig_stop();
}
END_TEST

START_TEST(a_rank_that_has_not_loaded_ends_at_once_when_asked)
{
    until_joined(0);
    kill(rig.rank, SIGTERM);
    ck_assert_int_eq(rig_rank_exit(2000), 0);
    rig_stop();
}
END_TEST

START_TEST(a_formed_rank_says_so_to_a_new_coordinator)
{
    lac_digest digest = until_formed(1);
    rig_coordinator_close();
    rig_turn(100);
    rig.epoch++;
    rig.session += 10;
    rig_coordinator_open();
    RIG_UNTIL(rig.hellos == 4, 10000);
    ck_assert(rig.hello.formed);
    ck_assert_mem_eq(&rig.hello.config_digest, &digest, sizeof digest);
    ck_assert_uint_eq(rig.hello.incarnation[0], 1);
    ck_assert_str_eq(rig.address, "rank 1 of 1");
    rig_stop();
}
END_TEST

Suite *suite_rank(void)
{
    Suite *suite = suite_create("rank");
    TCase *tc = tcase_create("rank");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, two_barriers);
    tcase_add_test(tc, a_follower_says_what_it_holds_and_takes_no_requests);
    tcase_add_test(tc, a_follower_asked_to_end_waits_for_its_leader);
    tcase_add_test(tc, a_lost_rank_ends_the_others);
    tcase_add_test(tc, a_group_declared_dead_ends_at_once);
    tcase_add_test(tc, what_does_not_fit_is_refused);
    tcase_add_test(tc, a_config_that_changes_is_refused);
    tcase_add_test(tc, an_impossible_shape_ends_at_start);
    tcase_add_test(tc, a_rank_that_has_not_loaded_ends_at_once_when_asked);
    tcase_add_test(tc, a_formed_rank_says_so_to_a_new_coordinator);
    suite_add_tcase(suite, tc);
    return suite;
}
