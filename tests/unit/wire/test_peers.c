/* Peers keep their number, lost ones never get it back, and a full table gives up the quietest.
 * Whose a descriptor is follows from the order of events. Endpoint texts are read strictly. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "descriptors.h"
#include "endpoint.h"
#include "peers.h"

static uint64_t number(lac__peers *peers, uint32_t id)
{
    uint8_t bytes[5] = {0};
    memcpy(bytes + 1, &id, 4);
    return lac__peers_number(peers, bytes, sizeof bytes);
}

START_TEST(numbers_are_kept_and_never_reused)
{
    lac__peers *peers = lac__peers_create(100);
    uint64_t a = number(peers, 1), b = number(peers, 2);
    ck_assert_uint_eq(a, 1);
    ck_assert_uint_eq(b, 2);
    ck_assert_uint_eq(number(peers, 1), a);
    const lac__peer_id *id = lac__peers_id(peers, b);
    ck_assert(id && id->length == 5 && id->bytes[1] == 2);
    lac__peers_lose(peers, a);
    lac__peers_lose(peers, a);
    lac__peers_lose(peers, 77);
    ck_assert_ptr_null(lac__peers_id(peers, a));
    uint64_t lost;
    ck_assert(lac__peers_take_lost(peers, &lost) && lost == a);
    ck_assert(!lac__peers_take_lost(peers, &lost));
    ck_assert_uint_eq(number(peers, 1), 3);
    lac__peers_destroy(&peers);
    lac__peers_destroy(&peers);
}
END_TEST

START_TEST(a_full_table_gives_up_the_quietest)
{
    enum { MAX = 50 };
    lac__peers *peers = lac__peers_create(MAX);
    for (uint32_t i = 0; i < MAX; i++)
        number(peers, i);
    ck_assert_uint_eq(number(peers, 0), 1); /* speaks again: now peer 2 is the quietest */
    for (uint32_t i = 0; i < 20; i++)
        number(peers, 1000 + i);
    ck_assert_uint_eq(lac__peers_count(peers), MAX);
    uint64_t lost;
    for (uint64_t i = 0; i < 20; i++) {
        ck_assert(lac__peers_take_lost(peers, &lost));
        ck_assert_uint_eq(lost, 2 + i);
    }
    ck_assert(!lac__peers_has_lost(peers));
    ck_assert_ptr_nonnull(lac__peers_id(peers, 1));
    lac__peers_destroy(&peers);
}
END_TEST

START_TEST(endpoints)
{
    static const struct {
        const char *text, *address;
        bool listen, loopback;
    } good[] = {
        {"tcp://127.0.0.1:7070", "tcp://127.0.0.1:7070", true, true},
        {"tcp://127.3.2.1:1", "tcp://127.3.2.1:1", true, true},
        {"tcp://localhost:0", "tcp://127.0.0.1:*", true, true},
        {"tcp://localhost:70", "tcp://localhost:70", false, true},
        {"tcp://[::1]:*", "tcp://[::1]:*", true, true},
        {"tcp://*:5", "tcp://*:5", true, false},
        {"tcp://0.0.0.0:5", "tcp://0.0.0.0:5", true, false},
        {"tcp://[::]:5", "tcp://[::]:5", true, false},
        {"tcp://eth0:5", "tcp://eth0:5", true, false},
        {"tcp://127.0.0.1.evil.org:5", "tcp://127.0.0.1.evil.org:5", false, false},
        {"ipc:///tmp/x", "ipc:///tmp/x", true, true},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        lac__endpoint e;
        lac_error err;
        lac_status status = lac__endpoint_parse(good[i].text, good[i].listen, &e, &err);
        ck_assert_msg(status == LAC_OK, "%s", err.text);
        ck_assert_str_eq(e.address, good[i].address);
        ck_assert_msg(e.loopback == good[i].loopback, "%s", good[i].text);
    }
    static const char *const bad[] = {
        "",
        "7070",
        "http://a:1",
        "tcp://",
        "tcp://a",
        "tcp://:1",
        "tcp://a:0x1",
        "tcp://a:65536",
        "tcp://::1:70",
        "tcp://[::1:70",
        "tcp://a;b:1",
        "tcp://a b:1",
        "ipc://",
        "tcp://a:0",
        "tcp://a/b:1",
        "tcp://a:-1",
        "tcp://[]:1",
        "inproc://x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lac__endpoint e;
        lac_error err = {0};
        ck_assert_msg(lac__endpoint_parse(bad[i], false, &e, &err) == LAC_EINVAL, "%s", bad[i]);
        ck_assert_msg(strstr(err.text, "tcp://HOST:PORT") != NULL, "%s", err.text);
    }
    char deep[200];
    memset(deep, 'p', sizeof deep);
    memcpy(deep, "ipc://", 6);
    deep[sizeof deep - 1] = '\0';
    lac__endpoint e;
    ck_assert_int_eq(lac__endpoint_parse(deep, true, &e, NULL), LAC_EINVAL);
}
END_TEST

static uint64_t gone(lac__descriptors *d)
{
    uint64_t peer = 0;
    ck_assert(lac__descriptors_has_gone(d) == lac__descriptors_take_gone(d, &peer));
    return peer;
}

START_TEST(descriptors_are_used_again)
{
    lac__descriptors *d = lac__descriptors_create();
    lac__descriptors_opened(d, 7);
    lac__descriptors_carries(d, 7, 1);
    lac__descriptors_opened(d, 9000);
    lac__descriptors_carries(d, 9000, 2);
    ck_assert_uint_eq(gone(d), 0);
    lac__descriptors_closed(d, 7);
    ck_assert_uint_eq(gone(d), 1);
    ck_assert_uint_eq(gone(d), 0);
    /* The next one on it spoke and went before it was read, the one after that lives. */
    lac__descriptors_opened(d, 7);
    lac__descriptors_closed(d, 7);
    lac__descriptors_carries(d, 7, 3);
    ck_assert_uint_eq(gone(d), 3);
    lac__descriptors_opened(d, 7);
    lac__descriptors_carries(d, 7, 4);
    ck_assert_uint_eq(gone(d), 0);
    /* Two first words on one descriptor: the first speaker must be gone. */
    lac__descriptors_carries(d, 7, 5);
    ck_assert_uint_eq(gone(d), 4);
    /* No descriptor was told: nothing is known. */
    lac__descriptors_carries(d, -1, 6);
    lac__descriptors_closed(d, -1);
    lac__descriptors_closed(d, 1 << 30);
    ck_assert_uint_eq(gone(d), 0);
    lac__descriptors_closed(d, 9000);
    lac__descriptors_closed(d, 7);
    ck_assert_uint_eq(gone(d), 2);
    ck_assert_uint_eq(gone(d), 5);
    lac__descriptors_destroy(&d);
    ck_assert_ptr_null(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("peers");
    TCase *t = tcase_create("peers");
    tcase_add_test(t, numbers_are_kept_and_never_reused);
    tcase_add_test(t, a_full_table_gives_up_the_quietest);
    tcase_add_test(t, endpoints);
    tcase_add_test(t, descriptors_are_used_again);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
