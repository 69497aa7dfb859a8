/* What needs one process only: the null fabric, options, addresses that are none. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/fabric.h"

static lac_fabric *opened(uint32_t rank, uint32_t ranks, uint8_t incarnation)
{
    lac_fabric *fabric = NULL;
    lac_error err = {0};
    lac_fabric_options options = {.rank = rank, .ranks = ranks, .incarnation = {incarnation}};
    lac_status status = lac_fabric_open(&options, &fabric, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return fabric;
}

START_TEST(one_rank_talks_to_nobody)
{
    lac_fabric *fabric = opened(0, 1, 1);
    lac_fabric_blob self = {0};
    lac_error err = {0};
    self.data = lac_fabric_address(fabric, &self.bytes);
    lac_fabric_call call = {.step = 1, .deadline_ns = lac_now_ns()};
    ck_assert_int_eq(lac_fabric_connect(fabric, &self, lac_now_ns(), &err), LAC_OK);
    ck_assert_str_eq(lac_fabric_name(fabric), "null");
    ck_assert_int_eq(lac_fabric_lane_of(fabric, 0), LAC_FABRIC_SELF);
    float x[3] = {1, -0.0f, 3}, all[3];
    lac_fabric_span span = {0, 1};
    size_t bytes = sizeof x;
    ck_assert_int_eq(lac_fabric_all_reduce(fabric, span, call, x, 3, &err), LAC_OK);
    ck_assert_int_eq(lac_fabric_all_gather(fabric, span, call, x, sizeof x, all, &err), LAC_OK);
    ck_assert_mem_eq(x, all, sizeof x);
    ck_assert_int_eq(lac_fabric_broadcast(fabric, 0, call, x, sizeof x, &bytes, &err), LAC_OK);
    ck_assert_int_eq(lac_fabric_barrier(fabric, span, call, &err), LAC_OK);
    ck_assert_int_eq(lac_fabric_settle(fabric, call, &err), LAC_OK);
    ck_assert_int_eq(lac_fabric_health(fabric, &err), LAC_OK);
    lac_fabric_abort(fabric, "over");
    ck_assert_int_eq(lac_fabric_barrier(fabric, span, call, &err), LAC_EPEER);
    ck_assert_str_eq(err.text, "rank 0 ended the group: over");
    lac_fabric_close(&fabric);
    ck_assert_ptr_null(fabric);
    lac_fabric_close(&fabric);
}
END_TEST

START_TEST(options_are_checked)
{
    static const lac_fabric_options wrong[] = {{0, 0, {0}}, {1, 1, {0}}, {0, 65, {0}}, {9, 3, {0}}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lac_fabric *fabric = NULL;
        lac_error err = {0};
        ck_assert_int_eq(lac_fabric_open(&wrong[i], &fabric, &err), LAC_EINVAL);
        ck_assert_ptr_null(fabric);
        ck_assert_ptr_nonnull(strstr(err.text, "allowed"));
    }
}
END_TEST

#ifdef LAC_HAVE_UCX
/* Connects rank 0 of 2 to what `change` made of rank 1's address. */
static lac_status met(void (*change)(uint8_t *at, size_t *bytes), uint8_t incarnation,
                      lac_error *err)
{
    lac_fabric *a = opened(0, 2, 1), *b = opened(1, 2, incarnation);
    lac_fabric_blob blobs[2];
    uint8_t copy[LAC_FABRIC_BLOB_MAX + 64];
    blobs[0].data = lac_fabric_address(a, &blobs[0].bytes);
    const void *theirs = lac_fabric_address(b, &blobs[1].bytes);
    memcpy(copy, theirs, blobs[1].bytes);
    if (change)
        change(copy, &blobs[1].bytes);
    blobs[1].data = copy;
    lac_status status = lac_fabric_connect(a, blobs, lac_now_ns() + 50000000, err);
    lac_fabric_close(&a);
    lac_fabric_close(&b);
    return status;
}

static void cut(uint8_t *at, size_t *bytes)
{
    (void)at;
    *bytes = 20;
}
static void shorten(uint8_t *at, size_t *bytes)
{
    (void)at;
    *bytes -= 1;
}
static void rename_magic(uint8_t *at, size_t *bytes)
{
    (void)bytes;
    at[0] = 'X';
}
static void bump(uint8_t *at, size_t *bytes)
{
    (void)bytes;
    at[4]++;
}
static void other_rank(uint8_t *at, size_t *bytes)
{
    (void)bytes;
    at[6] = 0;
}

START_TEST(addresses_are_checked)
{
    lac_error err = {0};
    ck_assert_int_eq(met(cut, 1, &err), LAC_EINVAL);
    ck_assert_int_eq(met(shorten, 1, &err), LAC_EINVAL);
    ck_assert_int_eq(met(rename_magic, 1, &err), LAC_EINVAL);
    ck_assert_int_eq(met(other_rank, 1, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "says rank 0 of 2, expected rank 1 of 2"));
    ck_assert_int_eq(met(bump, 1, &err), LAC_EPROTO);
    ck_assert_ptr_nonnull(strstr(err.text, "version 2, this rank speaks 1"));
    ck_assert_int_eq(met(NULL, 9, &err), LAC_EEPOCH);
    ck_assert_ptr_nonnull(strstr(err.text, "09000000"));
    /* A right address of a rank that never comes: the deadline ends the wait. */
    ck_assert_int_eq(met(NULL, 1, &err), LAC_EDEADLINE);
}
END_TEST
#else
START_TEST(several_ranks_need_ucx)
{
    lac_fabric *fabric = NULL;
    lac_error err = {0};
    lac_fabric_options options = {.rank = 0, .ranks = 2};
    ck_assert_int_eq(lac_fabric_open(&options, &fabric, &err), LAC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "UCX"));
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("fabric");
    TCase *one = tcase_create("one process");
    tcase_add_test(one, one_rank_talks_to_nobody);
    tcase_add_test(one, options_are_checked);
#ifdef LAC_HAVE_UCX
    tcase_add_test(one, addresses_are_checked);
#else
    tcase_add_test(one, several_ranks_need_ucx);
#endif
    suite_add_tcase(suite, one);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
