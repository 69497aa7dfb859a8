/* Names of messages and finishes, and freeing a message. */
#include <string.h>

#include "base/mem.h"
#include "base/msg.h"
#include "suites.h"

START_TEST(every_type_has_a_name_of_its_own)
{
    static const lac_msg_type types[] = {
        LAC_MSG_HELLO,       LAC_MSG_HEARTBEAT,     LAC_MSG_STEP_OUTPUT,  LAC_MSG_DRAINED,
        LAC_MSG_FAULT,       LAC_MSG_HELLO_ACK,     LAC_MSG_HELLO_REJECT, LAC_MSG_REREGISTER,
        LAC_MSG_DIE,         LAC_MSG_DISPATCH,      LAC_MSG_CANCEL,       LAC_MSG_DRAIN,
        LAC_MSG_SUBMIT,      LAC_MSG_CLIENT_CANCEL, LAC_MSG_CREDIT,       LAC_MSG_STATUS_QUERY,
        LAC_MSG_ACCEPTED,    LAC_MSG_TOKENS,        LAC_MSG_DONE,         LAC_MSG_REFUSED,
        LAC_MSG_STATUS_REPLY};
    enum { COUNT = sizeof(types) / sizeof(types[0]) };
    for (int i = 0; i < COUNT; i++) {
        ck_assert_str_ne(lac_msg_name((uint16_t)types[i]), "unknown");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(lac_msg_name((uint16_t)types[i]), lac_msg_name((uint16_t)types[j]));
    }
    ck_assert_str_eq(lac_msg_name(0), "unknown");
    ck_assert_str_eq(lac_msg_name(65535), "unknown");
}
END_TEST

START_TEST(finishes_have_names)
{
    ck_assert_str_eq(lac_finish_name(LAC_FINISH_STOP), "stop");
    ck_assert_str_eq(lac_finish_name(LAC_FINISH_LENGTH), "length");
    ck_assert_str_eq(lac_finish_name(LAC_FINISH_CANCEL), "cancel");
    ck_assert_str_eq(lac_finish_name(LAC_FINISH_ERROR), "error");
    ck_assert_str_eq(lac_finish_name(LAC_FINISH_NONE), "none");
    ck_assert_str_eq(lac_finish_name((lac_finish)99), "none");
}
END_TEST

START_TEST(freeing_clears_and_may_be_repeated)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_DIE}};
    lac_arena *arena = lac_arena_create(1000);
    ck_assert_ptr_nonnull(lac_arena_alloc(arena, 10));
    msg.memory = arena;
    lac_msg_free(&msg);
    ck_assert_ptr_null(msg.memory);
    ck_assert_uint_eq(msg.envelope.type, 0);
    lac_msg_free(&msg);
}
END_TEST

Suite *suite_msg(void)
{
    Suite *suite = suite_create("msg");
    TCase *tc = tcase_create("msg");
    tcase_add_test(tc, every_type_has_a_name_of_its_own);
    tcase_add_test(tc, finishes_have_names);
    tcase_add_test(tc, freeing_clears_and_may_be_repeated);
    suite_add_tcase(suite, tc);
    return suite;
}
