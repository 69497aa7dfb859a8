/* See rig.h. */
#include "rig.h"

#include <stdlib.h>

lac_wire *wire;
uv_loop_t loop;
lac_error err;
uint64_t timer_fired;

void setup(void)
{
    ck_assert_int_eq(lac_wire_create(&wire, &err), LAC_OK);
    uv_loop_init(&loop);
}

void teardown(void)
{
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    lac_wire_destroy(&wire);
    ck_assert_ptr_null(wire);
}

lac_socket *open_socket(lac_socket_kind kind, const char *endpoint, const lac_socket_events *events)
{
    lac_socket *s;
    lac_status status = lac_socket_open(wire, &loop, kind, endpoint, false, events, &s, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return s;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    timer_fired++;
}

void run_with_pauses(bool (*done)(void), uint64_t pause_ms)
{
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, pause_ms, pause_ms);
    uint64_t end = lac_now_ms() + 60000;
    while (!done() && lac_now_ms() < end)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_msg(done(), "nothing came for a minute");
}

void run_until(bool (*done)(void))
{
    run_with_pauses(done, 20);
}

lac_msg cancel(uint64_t request)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_CANCEL, .seq = request}};
    msg.body.cancel.request = request;
    return msg;
}

int run_suite(const char *name, const TTest *const *tests)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create(name);
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    for (; *tests; tests++)
        tcase_add_test(t, *tests);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
