/* Frames no honest peer sends: each is refused with a text that says why, within its memory budget,
 * and what a newer minor version adds is skipped. Bodies are written by hand as protobuf's wire
 * format. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "samples.h"
#include "wire/codec.h"

enum { ENVELOPE = 36 };

static lac_buf frame;
static lac_msg got;
static lac_error err;

/* Starts a frame of version 1.0. */
static void begin(unsigned type)
{
    lac_buf_clear(&frame);
    frame.cap = 64 << 20;
    const uint8_t head[12] = {'L', 'A', 'C', 'N', 1, 0, 0, 0, (uint8_t)type, (uint8_t)(type >> 8)};
    const uint8_t rest[24] = {7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9};
    lac_buf_add(&frame, head, sizeof head);
    lac_buf_add(&frame, rest, sizeof rest);
}

static void varint(uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        lac_buf_add(&frame, &byte, 1);
        value >>= 7;
    } while (value);
}

static void number(unsigned field, uint64_t value)
{
    varint(field << 3);
    varint(value);
}

static void bytes(unsigned field, const void *data, size_t length)
{
    varint(field << 3 | 2);
    varint(length);
    lac_buf_add(&frame, data, length);
}

static void text(unsigned field, const char *value)
{
    bytes(field, value, strlen(value));
}

static void expect(lac_status status, const char *word)
{
    lac_status is = lac_codec_unpack(frame.data, frame.length, &got, &err);
    ck_assert_msg(is == status, "wanted %s for %s, got %s (%s)", lac_status_name(status), word,
                  lac_status_name(is), is ? err.text : "");
    if (is) {
        ck_assert_msg(strstr(err.text, word) != NULL, "'%s' does not say '%s'", err.text, word);
        ck_assert_ptr_null(got.memory);
    }
}

/* ---- envelope ---- */

START_TEST(envelope_rules)
{
    begin(LAC_MSG_DRAINED);
    expect(LAC_OK, "");
    ck_assert_uint_eq(got.envelope.epoch, 7);
    ck_assert_uint_eq(got.envelope.session, 8);
    ck_assert_uint_eq(got.envelope.seq, 9);
    lac_msg_free(&got);

    frame.data[0] = 'X';
    expect(LAC_EPROTO, "LACN");
    begin(LAC_MSG_DRAINED);
    frame.length = ENVELOPE - 1;
    expect(LAC_EPROTO, "at least 36");
    begin(LAC_MSG_DRAINED);
    frame.data[10] = 1;
    expect(LAC_EPROTO, "flags");
    lac_buf_clear(&frame);
    expect(LAC_EPROTO, "0 bytes");
}
END_TEST

START_TEST(another_major_is_refused_by_name)
{
    begin(LAC_MSG_HELLO);
    frame.data[4] = 2;
    frame.data[6] = 5;
    expect(LAC_EPROTO, "2.5");
    ck_assert_uint_eq(got.envelope.major, 2); /* so that the receiver can say what it speaks */
    ck_assert_uint_eq(got.envelope.type, LAC_MSG_HELLO);
    ck_assert_uint_eq(got.envelope.seq, 9);
}
END_TEST

START_TEST(a_newer_minor_is_read)
{
    begin(LAC_MSG_CANCEL);
    frame.data[6] = 9;
    number(1, 5);
    number(100, 1);
    text(101, "new");
    expect(LAC_OK, "");
    ck_assert_uint_eq(got.envelope.minor, 9);
    ck_assert_uint_eq(got.body.cancel.request, 5);
    lac_msg_free(&got);

    begin(300);
    expect(LAC_EUNSUPPORTED, "300");
    ck_assert_uint_eq(got.envelope.type, 300);
    ck_assert_uint_eq(got.envelope.epoch, 7);
}
END_TEST

/* ---- bounds ---- */

START_TEST(unknown_fields_are_counted)
{
    begin(LAC_MSG_CANCEL);
    number(1, 5);
    for (int i = 0; i < LAC_UNKNOWN_FIELDS_MAX; i++)
        number(100, 1);
    expect(LAC_OK, "");
    lac_msg_free(&got);
    number(100, 1);
    expect(LAC_EPROTO, "unknown fields");

    /* Inside parts as well, added up over the whole message. */
    begin(LAC_MSG_STEP_OUTPUT);
    const uint8_t item[] = {0x08, 1, 0xa0, 6, 1}; /* request 1, field 100 */
    for (int i = 0; i < LAC_UNKNOWN_FIELDS_MAX; i++)
        bytes(1, item, sizeof item);
    expect(LAC_OK, "");
    lac_msg_free(&got);
    bytes(1, item, sizeof item);
    expect(LAC_EPROTO, "unknown fields");
}
END_TEST

START_TEST(frames_over_their_cap)
{
    begin(LAC_MSG_CANCEL);
    number(1, 5);
    char *filler = lac_alloc(LAC_FRAME_MAX, 1);
    bytes(100, filler, LAC_FRAME_MAX);
    expect(LAC_ETOOBIG, "frame has");
    begin(LAC_MSG_CREDIT);
    bytes(100, filler, LAC_CLIENT_FRAME_MAX);
    expect(LAC_ETOOBIG, "credit frame");
    free(filler);
}
END_TEST

/* Two bytes on the wire become a struct of a hundred: the budget ends it. Without one this message
 * took 111 MiB. */
START_TEST(empty_parts_stay_within_the_budget)
{
    static const unsigned types[] = {LAC_MSG_STEP_OUTPUT, LAC_MSG_HELLO, LAC_MSG_STATUS_REPLY};
    static const unsigned fields[] = {1, 20, 10};
    begin(types[_i]);
    for (int i = 0; i < (1 << 20) / 2; i++)
        bytes(fields[_i], "", 0);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    lac_status status = lac_codec_unpack(frame.data, frame.length, &got, &err);
    getrusage(RUSAGE_SELF, &after);
    ck_assert_msg(status == LAC_EPROTO || status == LAC_EINVAL, "%d", status);
    ck_assert_ptr_null(got.memory);
#ifndef LAC_SANITIZED
    ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss, 12 << 10); /* KiB; 4 × 1 MiB and change */
#endif
}
END_TEST

START_TEST(many_unknown_fields_stay_within_the_budget)
{
    begin(LAC_MSG_CANCEL);
    for (int i = 0; i < (1 << 20) / 3; i++)
        number(100, 1);
    expect(LAC_EPROTO, "cancel");
}
END_TEST

START_TEST(malformed_bodies)
{
    begin(LAC_MSG_HEARTBEAT);
    bytes(1, "abc", 3); /* a number came as bytes */
    expect(LAC_EPROTO, "malformed");
    begin(LAC_MSG_DIE);
    varint(1 << 3 | 2);
    varint(1000); /* longer than the frame */
    expect(LAC_EPROTO, "malformed");
    begin(LAC_MSG_DIE);
    varint(1 << 3 | 3); /* a group */
    expect(LAC_EPROTO, "malformed");
}
END_TEST

/* ---- values ---- */

static void hello_but(unsigned field, const void *data, size_t length)
{
    begin(LAC_MSG_HELLO);
    text(1, "g0");
    number(4, 1);
    number(5, 1);
    text(8, "m");
    number(13, 1);
    number(14, 10);
    number(15, 10);
    number(16, 1);
    if (field)
        bytes(field, data, length);
}

START_TEST(values_that_fit_no_field)
{
    hello_but(0, NULL, 0);
    expect(LAC_OK, "");
    lac_msg_free(&got);
    char long_name[LAC_NAME_MAX + 1];
    memset(long_name, 'a', sizeof long_name);
    hello_but(1, long_name, sizeof long_name);
    expect(LAC_EINVAL, "hello.group has 65");
    hello_but(1, "a\0b", 3);
    expect(LAC_EINVAL, "hello.group has a NUL");
    hello_but(10, "\xc3", 1);
    expect(LAC_EINVAL, "hello.architecture is not valid UTF-8");
    hello_but(2, long_name, 15);
    expect(LAC_EINVAL, "hello.incarnation has 15");
    hello_but(9, long_name, 33);
    expect(LAC_EINVAL, "hello.model_digest has 33");
    hello_but(1, "", 0);
    expect(LAC_EINVAL, "hello.group is empty");

    begin(LAC_MSG_HELLO_REJECT);
    number(1, 65536);
    expect(LAC_EINVAL, "65536");
    begin(LAC_MSG_FAULT);
    number(1, 99);
    expect(LAC_EINVAL, "fault.status is 99");
    begin(LAC_MSG_FAULT);
    number(1, 0);
    expect(LAC_EINVAL, "fault.status is 0");
    begin(LAC_MSG_DONE);
    number(1, 1);
    number(2, 7);
    expect(LAC_EINVAL, "done.finish is 7");
}
END_TEST

START_TEST(prompts_and_sampling)
{
    begin(LAC_MSG_SUBMIT);
    number(1, 1);
    number(6, 1);
    expect(LAC_EINVAL, "sampling is missing");
    bytes(4, "\x0d\0\0\x80\x3f\x15\0\0\x80\x3f\x2d\0\0\x80\x3f", 15); /* temperature, top_p, rep. */
    expect(LAC_EINVAL, "prompt is missing");
    size_t so_far = frame.length;
    bytes(3, "\x4a\x01x", 3); /* a kind of prompt of the future */
    expect(LAC_EINVAL, "prompt is missing");
    frame.length = so_far;
    bytes(3, "\x12\x02\xff\xff", 4);
    expect(LAC_EINVAL, "prompt is not valid UTF-8");
    frame.length = so_far;
    bytes(3, "\x1a\0", 2);
    expect(LAC_EINVAL, "0 token ids");
    frame.length = so_far;
    bytes(3, "\x1a\x06\x0a\x04\xff\xff\xff\x0f", 8);
    expect(LAC_EINVAL, "allowed: below 1048576");
    frame.length = so_far;
    bytes(3, "\x12\x02hi", 4);
    expect(LAC_OK, "");
    lac_msg_free(&got);
    bytes(4, "\x82\x01\x02\x01\x02", 5); /* two bias tokens, no values */
    expect(LAC_EINVAL, "2 tokens and 0 values");
    frame.length = so_far;
    bytes(3, "\x12\x02hi", 4);
    for (int i = 0; i <= LAC_STOPS_MAX; i++)
        bytes(4, "\x7a\x01x", 3); /* parts sent again are merged */
    expect(LAC_EINVAL, "stop has 5");
}
END_TEST

START_TEST(columns_that_disagree)
{
    static const char *const bad[] = {
        "\x12\x02\x01\x02\x22\x08\x0a\x02\0\0\x12\x02\x01\x02", /* no values, no lengths */
        "\x12\x01\x01\x22\x06\x0a\x04\xff\xff\xff\x0f",         /* 33 million alternatives */
        "\x12\x01\x01\x22\x12\x0a\x01\0\x12\x01\x01\x1a\x04\0\0\0\0\x22\x01\x7f\x2a\x01x",
    };
    static const size_t lengths[] = {14, 11, 23};
    static const char *const words[] = {"2 tokens, 0 values", "top_logprobs is", "its lengths add"};
    begin(LAC_MSG_TOKENS);
    number(1, 1);
    bytes(2, bad[_i], lengths[_i]);
    expect(LAC_EINVAL, words[_i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("hostile frames");
    TCase *t = tcase_create("frames");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, envelope_rules);
    tcase_add_test(t, another_major_is_refused_by_name);
    tcase_add_test(t, a_newer_minor_is_read);
    tcase_add_test(t, unknown_fields_are_counted);
    tcase_add_test(t, frames_over_their_cap);
    tcase_add_loop_test(t, empty_parts_stay_within_the_budget, 0, 3);
    tcase_add_test(t, many_unknown_fields_stay_within_the_budget);
    tcase_add_test(t, malformed_bodies);
    tcase_add_test(t, values_that_fit_no_field);
    tcase_add_test(t, prompts_and_sampling);
    tcase_add_loop_test(t, columns_that_disagree, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    lac_buf_free(&frame);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
