/* The core's wanted groups against a played launcher that obeys, fails, loses and finds again. */
#include "harness.h"

enum { PLAYED_MAX = 16, LOOK_MS = 500 };

static bench B;

/* The launcher's own list, with the worker that each of its groups becomes. */
static struct {
    lac_fleet_entry entries[PLAYED_MAX];
    uint64_t peers[PLAYED_MAX], sessions[PLAYED_MAX];
    size_t count;
    uint64_t next_peer, starts;
    bool fails;
} L;

static void open_fleet(uint32_t low, uint32_t high)
{
    memset(&L, 0, sizeof L);
    L.next_peer = 100;
    bench_open_with(&B, (lac_core_options){.epoch = EPOCH,
                                           .seed = 1,
                                           .fleet = {.groups_max = 8,
                                                     .start_min = low,
                                                     .start_max = high,
                                                     .prefix = "auto",
                                                     .wait_target_ms = 1000}});
}

static void report(void)
{
    lac_event e = {.kind = LAC_EVENT_FLEET, .fleet = L.entries, .fleet_count = L.count};
    lac_core_step(B.core, B.now, &e);
}

static size_t wanted(lac_fleet_group *out)
{
    return lac_core_fleet_wanted(B.core, out, PLAYED_MAX);
}

static size_t index_of(const lac_fleet_group *group)
{
    for (size_t i = 0; i < L.count; i++)
        if (!memcmp(L.entries[i].group.incarnation, group->incarnation, 16))
            return i;
    return SIZE_MAX;
}

/* What lac_launch_ensure does, at once. */
static void obey(void)
{
    lac_fleet_group groups[PLAYED_MAX];
    size_t count = wanted(groups);
    for (size_t i = 0; i < L.count;) {
        bool keep = false;
        for (size_t k = 0; k < count; k++)
            keep |= !memcmp(groups[k].incarnation, L.entries[i].group.incarnation, 16);
        if (keep) {
            i++;
            continue;
        }
        L.count--;
        L.entries[i] = L.entries[L.count];
        L.peers[i] = L.peers[L.count];
        L.sessions[i] = L.sessions[L.count];
    }
    for (size_t i = 0; i < count; i++) {
        if (index_of(&groups[i]) != SIZE_MAX)
            continue;
        ck_assert_uint_lt(L.count, PLAYED_MAX);
        L.starts++;
        L.entries[L.count] = (lac_fleet_entry){
            .group = groups[i], .state = L.fails ? LAC_FLEET_ENDED : LAC_FLEET_RUNNING};
        snprintf(L.entries[L.count].reason, sizeof L.entries[L.count].reason, "no such model");
        L.peers[L.count] = L.sessions[L.count] = 0;
        L.count++;
    }
}

/* Everything that runs and has not yet said so says Hello. */
static void hello_all(void)
{
    for (size_t i = 0; i < L.count; i++) {
        if (L.peers[i] || L.entries[i].state != LAC_FLEET_RUNNING)
            continue;
        lac_hello h = hello_of(L.entries[i].group.group, "m", 4);
        memcpy(h.incarnation, L.entries[i].group.incarnation, 16);
        L.peers[i] = L.next_peer++;
        say_hello(&B, L.peers[i], &h);
        L.sessions[i] = expect(&B, LAC_MSG_HELLO_ACK)->session;
    }
}

/* Time passes in a healthy fleet: looks, orders, heartbeats. */
static void pass(uint64_t ms)
{
    for (uint64_t end = B.now + ms; B.now < end;) {
        report();
        obey();
        hello_all();
        for (size_t i = 0; i < L.count; i++)
            if (L.sessions[i])
                beat(&B, L.peers[i], L.sessions[i], (lac_heartbeat){0});
        for (int k = 0; k < LOOK_MS / 100; k++)
            tick(&B, 100);
    }
}

START_TEST(starts_what_is_asked_for_and_no_more)
{
    lac_fleet_group groups[PLAYED_MAX];
    open_fleet(3, 3);
    tick(&B, 100);
    ck_assert_uint_eq(wanted(groups), 0); /* nobody knows yet what runs already */
    report();
    tick(&B, 100);
    ck_assert_uint_eq(wanted(groups), 3);
    ck_assert_str_eq(groups[0].group, "auto0");
    ck_assert_int_ne(memcmp(groups[0].incarnation, groups[1].incarnation, 16), 0);
    pass(120000);
    ck_assert_uint_eq(L.count, 3);
    ck_assert_uint_eq(L.starts, 3);
    lac_core_audit(B.core);
    bench_close(&B);
}
END_TEST

START_TEST(one_that_dies_is_replaced_by_a_new_start)
{
    open_fleet(2, 2);
    pass(70000);
    lac_fleet_group dead = L.entries[0].group;
    lost(&B, LAC_PLANE_WORKER, L.peers[0]);
    L.entries[0].state = LAC_FLEET_ENDED;
    L.peers[0] = L.sessions[0] = 0;
    pass(10000);
    ck_assert_uint_eq(L.count, 2);
    ck_assert_uint_eq(L.starts, 3);
    ck_assert_uint_eq(index_of(&dead), SIZE_MAX);
    bench_close(&B);
}
END_TEST

START_TEST(bad_starts_back_off_and_pause)
{
    open_fleet(1, 1);
    L.fails = true;
    pass(60000);
    /* 1, 2, 4, 8 s between them, then the breaker. */
    ck_assert_uint_eq(L.starts, 5);
    ck_assert_ptr_nonnull(strstr(B.notes, "5 starts in a row failed"));
    ck_assert_ptr_nonnull(strstr(B.notes, "no such model"));
    L.fails = false;
    pass(200000);
    ck_assert_uint_eq(L.count, 0);
    lac_error err = {0};
    ck_assert_int_eq(lac_core_scale(B.core, B.now, 1, 1, &err), LAC_OK); /* people end the pause */
    pass(40000);
    ck_assert_uint_eq(L.count, 1);
    bench_close(&B);
}
END_TEST

START_TEST(fewer_means_drain_first)
{
    open_fleet(3, 3);
    pass(5000);
    submit_and_dispatch(&B, 1, 1); /* somebody is busy: the idle ones go first */
    lac_error err = {0};
    ck_assert_int_eq(lac_core_scale(B.core, B.now, 1, 1, &err), LAC_OK);
    forget(&B);
    tick(&B, 100);
    const sent *a = expect(&B, LAC_MSG_DRAIN), first = *a;
    const sent *b = expect(&B, LAC_MSG_DRAIN);
    ck_assert_uint_ne(first.peer, b->peer);
    lac_fleet_group groups[PLAYED_MAX];
    ck_assert_uint_eq(wanted(groups), 3); /* until they have drained */
    uint64_t gone[2] = {first.peer, b->peer};
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < L.count; k++)
            if (L.peers[k] == gone[i]) {
                lac_msg msg = {.envelope = {.type = LAC_MSG_DRAINED,
                                            .epoch = EPOCH,
                                            .session = L.sessions[k]}};
                event(&B, LAC_PLANE_WORKER, gone[i], &msg);
                L.entries[k].state = LAC_FLEET_ENDED;
                L.sessions[k] = 0;
            }
    pass(3000);
    ck_assert_uint_eq(L.count, 1);
    ck_assert_uint_eq(L.starts, 3);
    bench_close(&B);
}
END_TEST

START_TEST(an_earlier_coordinators_groups_keep_their_places)
{
    open_fleet(2, 2);
    L.entries[0] = (lac_fleet_entry){.group = {.group = "auto1", .incarnation = {7}},
                                     .state = LAC_FLEET_RUNNING};
    L.entries[1] = (lac_fleet_entry){.group = {.group = "other", .incarnation = {8}},
                                     .state = LAC_FLEET_RUNNING};
    L.count = 2;
    pass(5000);
    lac_fleet_group kept = {.incarnation = {7}}, orphan = {.incarnation = {8}};
    ck_assert_uint_ne(index_of(&kept), SIZE_MAX);
    ck_assert_uint_eq(index_of(&orphan), SIZE_MAX);
    ck_assert_uint_eq(L.count, 2);
    ck_assert_uint_eq(L.starts, 1);
    bench_close(&B);
}
END_TEST

START_TEST(one_found_that_never_speaks_is_replaced)
{
    open_fleet(1, 1);
    L.entries[0] = (lac_fleet_entry){.group = {.group = "auto0", .incarnation = {7}},
                                     .state = LAC_FLEET_RUNNING};
    L.count = 1;
    L.peers[0] = 1; /* it says no Hello */
    pass(50000);
    lac_fleet_group found = {.incarnation = {7}};
    ck_assert_uint_eq(index_of(&found), SIZE_MAX);
    ck_assert_uint_eq(L.starts, 1);
    bench_close(&B);
}
END_TEST

START_TEST(what_waits_is_held_while_a_group_may_come)
{
    open_fleet(0, 2);
    pass(2000);
    ck_assert_uint_eq(L.count, 0);
    lac_submit s = submit_of(1, "hello");
    submit(&B, 1, &s);
    wait_ms(&B, LAC_NOBODY_MS + 1000); /* nobody obeys: longer than it would be held otherwise */
    expect_none(&B, LAC_MSG_REFUSED);
    lac_fleet_group groups[PLAYED_MAX];
    ck_assert_uint_eq(wanted(groups), 1);
    report();
    obey();
    hello_all();
    expect(&B, LAC_MSG_DISPATCH);
    bench_close(&B);
}
END_TEST

START_TEST(load_brings_more_and_its_end_fewer)
{
    open_fleet(1, 4);
    pass(5000);
    ck_assert_uint_eq(L.count, 1);
    for (uint64_t i = 1; i <= 40; i++) {
        lac_submit s = submit_of(i, "hello");
        submit(&B, 1, &s);
    }
    pass(10000);
    ck_assert_uint_eq(L.count, 4);
    for (uint64_t i = 1; i <= 40; i++)
        cancel(&B, 1, i);
    pass(60000);
    ck_assert_uint_eq(L.count, 4); /* the window */
    bench_close(&B);
}
END_TEST

START_TEST(people_order_over_the_client_plane)
{
    open_fleet(1, 1);
    pass(2000);
    lac_msg scale = {.envelope.type = LAC_MSG_SCALE,
                     .body.scale = {.stream = 5, .groups_min = 2, .groups_max = 2}};
    event(&B, LAC_PLANE_CLIENT, 1, &scale);
    expect(&B, LAC_MSG_ORDERED);
    pass(3000);
    ck_assert_uint_eq(L.count, 2);
    scale.body.scale.groups_max = 99;
    event(&B, LAC_PLANE_CLIENT, 1, &scale);
    const sent *refused = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(refused->status, LAC_EINVAL);
    lac_msg drain = {.envelope.type = LAC_MSG_DRAIN_GROUP,
                     .body.drain_group = {.stream = 6, .group = "nobody"}};
    event(&B, LAC_PLANE_CLIENT, 1, &drain);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_ENOTFOUND);
    strcpy(drain.body.drain_group.group, "auto1");
    event(&B, LAC_PLANE_CLIENT, 1, &drain);
    expect(&B, LAC_MSG_DRAIN);
    expect(&B, LAC_MSG_ORDERED);
    bench_close(&B);
}
END_TEST

START_TEST(limits_are_said)
{
    lac_error err = {0};
    open_fleet(1, 1);
    ck_assert_int_eq(lac_core_scale(B.core, B.now, 1, 9, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "allowed 0..8"));
    bench_close(&B);
    bench_open(&B);
    ck_assert_int_eq(lac_core_scale(B.core, B.now, 1, 1, &err), LAC_EUNSUPPORTED);
    bench_close(&B);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_fleet");
    TCase *rules = tcase_create("rules");
    tcase_set_timeout(rules, 60);
    tcase_add_test(rules, starts_what_is_asked_for_and_no_more);
    tcase_add_test(rules, one_that_dies_is_replaced_by_a_new_start);
    tcase_add_test(rules, bad_starts_back_off_and_pause);
    tcase_add_test(rules, fewer_means_drain_first);
    tcase_add_test(rules, an_earlier_coordinators_groups_keep_their_places);
    tcase_add_test(rules, one_found_that_never_speaks_is_replaced);
    tcase_add_test(rules, what_waits_is_held_while_a_group_may_come);
    tcase_add_test(rules, load_brings_more_and_its_end_fewer);
    tcase_add_test(rules, people_order_over_the_client_plane);
    tcase_add_test(rules, limits_are_said);
    suite_add_tcase(suite, rules);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
