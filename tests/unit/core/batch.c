/* Batch items beside interactive requests: always behind them, and out of the room they have. */
#include "harness.h"

static bench B;

static void submit_batch(uint64_t stream)
{
    lac_submit s = submit_of(stream, "x");
    lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT, .body.submit = s};
    event(&B, LAC_PLANE_BATCH, 0, &msg);
}

START_TEST(batch_items_stand_behind)
{
    bench_open(&B);
    uint64_t session = join(&B, 1, "g0", 1);
    sent first = *submit_and_dispatch(&B, 50, 1);
    submit_batch(7);
    tick(&B, 60); /* however long it has waited */
    lac_submit s = submit_of(2, "x");
    s.priority = -LAC_PRIORITY_MAX;
    submit(&B, 50, &s);
    lac_jobs_load load;
    lac_core_jobs_load(B.core, &load);
    ck_assert_uint_eq(load.slots, 1);
    ck_assert_uint_eq(load.running, 1);
    ck_assert_uint_eq(load.waiting, 1);
    ck_assert_uint_eq(load.batch, 1);
    output(&B, 1, session, &first, 0, 1, LAC_FINISH_STOP);
    sent second = *expect(&B, LAC_MSG_DISPATCH);
    lac_core_jobs_load(B.core, &load);
    ck_assert_uint_eq(load.waiting, 0);
    ck_assert_uint_eq(load.batch, 1); /* still waits */
    forget(&B);
    output(&B, 1, session, &second, 0, 1, LAC_FINISH_STOP);
    expect(&B, LAC_MSG_DISPATCH);
    lac_core_jobs_load(B.core, &load);
    ck_assert_uint_eq(load.running, 0);
    ck_assert_uint_eq(load.batch, 1);
    bench_close(&B);
}
END_TEST

START_TEST(batch_items_take_no_room)
{
    bench_open_with(&B, (lac_core_options){.queue_max = 2, .queue_tokens_max = 4});
    join(&B, 1, "g0", 1);
    submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 1; i <= LAC_BATCH_QUEUED_MAX; i++)
        submit_batch(i);
    expect_none(&B, LAC_MSG_REFUSED);
    submit_batch(1000); /* they have a bound of their own */
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_BUSY);
    forget(&B);
    for (uint64_t i = 2; i <= 3; i++) {
        lac_submit s = submit_of(i, "x");
        submit(&B, 50, &s);
    }
    expect_none(&B, LAC_MSG_REFUSED);
    lac_submit s = submit_of(4, "x");
    submit(&B, 50, &s);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_BUSY);
    bench_close(&B);
}
END_TEST

TCase *batch_case(void)
{
    TCase *c = tcase_create("batch");
    tcase_add_test(c, batch_items_stand_behind);
    tcase_add_test(c, batch_items_take_no_room);
    return c;
}
