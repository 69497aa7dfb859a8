/* The client library against a coordinator made of a script: answers arrive whole and in order,
 * credit bounds what waits, every failure has its code, and nothing hangs. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake.h"
#include "lacuna_client.h"

static fake *coordinator;
static lac_client *client;

static void setup(void)
{
    coordinator = fake_start("tcp://127.0.0.1:0");
    ck_assert_int_eq(lac_client_connect(fake_endpoint(coordinator), &client), 0);
}

static void teardown(void)
{
    lac_client_close(&client);
    ck_assert_ptr_null(client);
    lac_client_close(&client);
    if (coordinator)
        fake_stop(&coordinator);
}

static lac_stream *submit(const char *prompt)
{
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    request.prompt = prompt;
    lac_stream *stream = NULL;
    ck_assert_msg(lac_client_submit(client, &request, &stream) == 0, "%s", lac_client_error());
    return stream;
}

/* Reads to the end; the answer in `text`. Returns the last code. */
static int read_all(lac_stream *stream, char *text, size_t size, uint32_t *tokens,
                    const char **finish)
{
    size_t length = 0;
    uint32_t count = 0;
    lac_client_piece piece;
    int rc;
    while ((rc = lac_stream_next(stream, 10000, &piece)) == 0 && !piece.done) {
        for (size_t i = 0; i < piece.tokens_count; i++)
            ck_assert_uint_eq(piece.tokens[i], count++);
        ck_assert_uint_lt(length + piece.length, size);
        memcpy(text + length, piece.text, piece.length);
        length += piece.length;
    }
    text[length] = '\0';
    if (tokens)
        *tokens = count;
    if (finish)
        *finish = rc ? NULL : piece.finish;
    return rc;
}

static void wait_for(uint64_t (*value)(void), uint64_t wanted)
{
    for (int i = 0; i < 500 && value() != wanted; i++)
        usleep(10000);
    ck_assert_uint_eq(value(), wanted);
}

static uint64_t open_requests(void)
{
    return fake_seen(coordinator).open;
}

static uint64_t submits(void)
{
    return fake_seen(coordinator).submits;
}

static uint64_t cancels(void)
{
    return fake_seen(coordinator).cancels;
}

START_TEST(an_answer_comes_whole)
{
    lac_stream *stream = submit("hello");
    char text[256];
    uint32_t tokens, prompt_tokens, completion_tokens;
    const char *finish;
    ck_assert_int_eq(read_all(stream, text, sizeof text, &tokens, &finish), 0);
    ck_assert_str_eq(text, "You said: hello");
    ck_assert_uint_eq(tokens, 3);
    ck_assert_str_eq(finish, "stop");
    lac_stream_usage(stream, &prompt_tokens, &completion_tokens);
    ck_assert_uint_eq(prompt_tokens, 3);
    ck_assert_uint_eq(lac_stream_cached_tokens(stream), 2);
    ck_assert_uint_eq(completion_tokens, 3);
    lac_client_piece again;
    ck_assert_int_eq(lac_stream_next(stream, 0, &again), 0);
    ck_assert(again.done && !strcmp(again.finish, "stop"));
    lac_stream_close(&stream);
    ck_assert_ptr_null(stream);
    lac_stream_close(&stream);
    ck_assert_uint_eq(cancels(), 0);
}
END_TEST

START_TEST(everything_asked_for_arrives)
{
    static const lac_client_message messages[] = {{"system", "be brief"}, {"user", "params"}};
    static const char *const stops[] = {"END", "\xe4\xb8\xad"};
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    request.model = "m";
    request.messages = messages;
    request.messages_count = 2;
    request.max_tokens = 7;
    request.temperature = 0.5;
    request.top_p = 0.25;
    request.top_k = 40;
    request.has_seed = 1;
    request.seed = 99;
    request.stops = stops;
    request.stops_count = 2;
    lac_stream *stream;
    ck_assert_int_eq(lac_client_submit(client, &request, &stream), 0);
    char text[256];
    ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), 0);
    ck_assert_str_eq(text, "model=m max=7 temp=0.5 top_p=0.25 top_k=40 seed=99 stop=END "
                           "stop=\xe4\xb8\xad system user");
    lac_stream_close(&stream);
}
END_TEST

START_TEST(credit_bounds_what_waits)
{
    lac_stream *stream = submit("count 1000");
    wait_for(submits, 1);
    usleep(200000);
    ck_assert_uint_eq(fake_seen(coordinator).credits, 0); /* nothing read, nothing granted */
    ck_assert_uint_eq(open_requests(), 1);
    static char text[8192];
    uint32_t tokens;
    ck_assert_int_eq(read_all(stream, text, sizeof text, &tokens, NULL), 0);
    ck_assert_uint_eq(tokens, 1000);
    ck_assert_ptr_nonnull(strstr(text, " 998 999 "));
    fake_counts seen = fake_seen(coordinator);
    ck_assert_uint_ge(seen.credit_messages, 1000 - 64);
    ck_assert_uint_lt(seen.credits, 50); /* in bulk */
    lac_stream_close(&stream);

    stream = submit("rude 150");
    wait_for(submits, 2);
    wait_for(open_requests, 0); /* all of it is sent, and by the next answer all of it is here */
    char *json;
    ck_assert_int_eq(lac_client_status(client, 10000, &json), 0);
    free(json);
    ck_assert_int_eq(read_all(stream, text, sizeof text, &tokens, NULL), LAC_CLIENT_FAILED);
    ck_assert_ptr_nonnull(strstr(lac_client_error(), "credit"));
    ck_assert_uint_eq(tokens, 64);
    lac_stream_close(&stream);
}
END_TEST

START_TEST(failures_have_their_codes)
{
    static const struct {
        const char *prompt;
        int code;
        uint32_t retry_ms;
        const char *word;
    } cases[] = {
        {"busy", LAC_CLIENT_BUSY, 1500, "256"},
        {"invalid", LAC_CLIENT_INVALID, 0, "temperature"},
        {"nobody", LAC_CLIENT_FAILED, 0, "no worker"},
        {"gap", LAC_CLIENT_FAILED, 0, "position 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lac_stream *stream = submit(cases[i].prompt);
        char text[64];
        ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), cases[i].code);
        ck_assert_msg(strstr(lac_client_error(), cases[i].word) != NULL, "%s", lac_client_error());
        ck_assert_uint_eq(lac_stream_retry_after_ms(stream), cases[i].retry_ms);
        lac_client_piece piece;
        ck_assert_int_eq(lac_stream_next(stream, 0, &piece), cases[i].code);
        lac_stream_close(&stream);
    }
}
END_TEST

static lac_stream *submit_patiently(const char *prompt, uint32_t patience_ms)
{
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    lac_stream *stream = NULL;
    request.prompt = prompt;
    request.patience_ms = patience_ms;
    ck_assert_int_eq(lac_client_submit(client, &request, &stream), 0);
    return stream;
}

/* Retry-After is honoured: not earlier, as often as needed, not beyond the patience. */
START_TEST(patience_asks_again)
{
    char text[1024];
    uint64_t start = lac_now_ms();
    lac_stream *stream = submit_patiently("patient 3", 10000);
    ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), 0);
    ck_assert_uint_ge(lac_now_ms() - start, 600);
    ck_assert_int_eq(submits(), 4);
    lac_stream_close(&stream);
    stream = submit_patiently("busy", 1000); /* told 1500 ms */
    ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), LAC_CLIENT_BUSY);
    ck_assert_uint_eq(lac_stream_retry_after_ms(stream), 1500);
    lac_stream_close(&stream);
    stream = submit_patiently("busy", 60000); /* a cancel ends the wait */
    wait_for(submits, 6);
    lac_stream_cancel(stream);
    ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), 0);
    lac_stream_close(&stream);
}
END_TEST

START_TEST(waiting_ends_in_time)
{
    lac_stream *stream = submit("wait");
    lac_client_piece piece;
    uint64_t start = lac_now_ms();
    ck_assert_int_eq(lac_stream_next(stream, 150, &piece), LAC_CLIENT_TIMEOUT);
    uint64_t took = lac_now_ms() - start;
    ck_assert(took >= 140 && took < 2000);
    ck_assert_int_eq(lac_stream_next(stream, 0, &piece), LAC_CLIENT_TIMEOUT);
    lac_stream_cancel(stream);
    lac_stream_cancel(stream);
    ck_assert_int_eq(lac_stream_next(stream, -1, &piece), 0);
    ck_assert(piece.done && !strcmp(piece.finish, "cancel"));
    ck_assert_uint_eq(cancels(), 1);
    lac_stream_close(&stream);

    stream = submit("mute"); /* even a cancel without an answer ends */
    wait_for(submits, 2);
    lac_stream_cancel(stream);
    ck_assert_int_eq(lac_stream_next(stream, 10000, &piece), 0);
    ck_assert(piece.done && !strcmp(piece.finish, "cancel"));
    lac_stream_close(&stream);
}
END_TEST

START_TEST(closing_cancels_what_runs)
{
    lac_stream *a = submit("wait"), *b = submit("count 100000"), *c = submit("wait");
    wait_for(submits, 3);
    lac_stream_close(&a);
    wait_for(cancels, 1);
    lac_client_close(&client);
    wait_for(open_requests, 0);
    lac_stream *const left[] = {b, c};
    for (int i = 0; i < 2; i++) {
        lac_client_piece piece = {0};
        int rc = 0;
        while (rc == 0 && !piece.done) /* what had come may still be read */
            rc = lac_stream_next(left[i], -1, &piece);
        ck_assert(rc == LAC_CLIENT_LOST || (rc == 0 && !strcmp(piece.finish, "cancel")));
    }
    lac_stream_close(&b);
    lac_stream_cancel(c);
    lac_stream_close(&c);
}
END_TEST

START_TEST(a_restarted_coordinator)
{
    char endpoint[300], text[256];
    snprintf(endpoint, sizeof endpoint, "%s", fake_endpoint(coordinator));
    lac_stream *stream = submit("wait");
    wait_for(submits, 1);
    fake_stop(&coordinator);
    ck_assert_int_eq(read_all(stream, text, sizeof text, NULL, NULL), LAC_CLIENT_LOST);
    ck_assert_msg(strstr(lac_client_error(), endpoint) != NULL, "%s", lac_client_error());
    lac_stream_close(&stream);

    stream = submit("again"); /* waits for the new one */
    coordinator = fake_start(endpoint);
    ck_assert_msg(read_all(stream, text, sizeof text, NULL, NULL) == 0, "%s", lac_client_error());
    ck_assert_str_eq(text, "You said: again");
    ck_assert_uint_eq(submits(), 1);
    lac_stream_close(&stream);
}
END_TEST

START_TEST(nobody_there)
{
    fake_stop(&coordinator);
    /* The old connection must be known to be gone, or the request goes out on it and is told so. */
    char *early = NULL;
    for (uint64_t end = lac_now_ms() + 20000; lac_now_ms() < end; free(early)) {
        early = NULL;
        if (lac_client_status(client, 100, &early) == LAC_CLIENT_LOST)
            break;
    }
    lac_stream *stream = submit("hello");
    lac_client_piece piece;
    uint64_t start = lac_now_ms();
    ck_assert_int_eq(lac_stream_next(stream, 20000, &piece), LAC_CLIENT_LOST);
    ck_assert_uint_lt(lac_now_ms() - start, 8000);
    ck_assert_msg(strstr(lac_client_error(), "no coordinator at tcp://") != NULL, "%s",
                  lac_client_error());
    lac_stream_close(&stream);
    char *json = NULL;
    ck_assert_int_eq(lac_client_status(client, 100, &json), LAC_CLIENT_LOST);
    ck_assert_ptr_null(json);
}
END_TEST

START_TEST(status_is_json)
{
    char *json = NULL;
    ck_assert_msg(lac_client_status(client, 5000, &json) == 0, "%s", lac_client_error());
    ck_assert_str_eq(
        json,
        "{\"version\":\"0.1.0\",\"http\":\"127.0.0.1:8080\",\"epoch\":3,\"uptime_ms\":3723000,"
        "\"queued\":1,\"queued_tokens\":0,\"running\":3,\"streams\":0,\"requests_total\":30,"
        "\"tokens_total\":12345,\"groups\":["
        "{\"id\":\"g0\",\"state\":\"READY\",\"model\":\"SmolLM2-135M-Instruct\","
        "\"isa\":\"avx512-vnni\",\"layers\":30,\"pp\":1,\"tp\":1,\"slots\":16,\"running\":3,"
        "\"queued\":0,"
        "\"kv_pages_used\":25,\"kv_pages\":100,\"itl_us\":8000,\"output_tokens\":12345,"
        "\"heartbeat_age_ms\":120,\"ranks\":[{\"rank\":0,\"pid\":4711,\"active_layers\":30,"
        "\"rss_bytes\":157286400,\"layer_first\":0,\"layer_end\":30,\"erased_units\":2,"
        "\"weight_bytes\":98000000,\"host\":\"h\"}],\"classes\":[]},{\"id\":\"g1\",\"state\":"
        "\"DEAD\",\"model\":"
        "\"\",\"isa\":\"\","
        "\"layers\":0,\"pp\":0,\"tp\":0,\"slots\":0,\"running\":0,\"queued\":0,\"kv_pages_used\":0,"
        "\"kv_pages\":0,"
        "\"itl_us\":0,\"output_tokens\":0,\"heartbeat_age_ms\":61000,\"ranks\":[],\"classes\":[]}],"
        "\"checks\":[],\"decided\":[]"
        "}");
    free(json);
}
END_TEST

START_TEST(bad_arguments_are_named)
{
    lac_client_request request = LAC_CLIENT_REQUEST_INIT;
    lac_stream *stream = NULL;
#define BAD(word)                                                                                  \
    ck_assert_int_eq(lac_client_submit(client, &request, &stream), LAC_CLIENT_INVALID);            \
    ck_assert_msg(strstr(lac_client_error(), word) != NULL, "%s", lac_client_error())
    BAD("neither prompt nor messages");
    request.prompt = "x";
    request.temperature = 3;
    BAD("temperature is 3");
    request.temperature = 1;
    char name[100];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    request.model = name;
    BAD("model");
    request.model = NULL;
    const char *stops[] = {""};
    request.stops = stops;
    request.stops_count = 1;
    BAD("stops[0]");
    request.stops_count = 5;
    BAD("stops_count is 5");
    request.stops_count = 0;
    lac_client_message odd = {"user", NULL};
    request.messages = &odd;
    request.messages_count = 1;
    BAD("prompt and messages");
    request.prompt = NULL;
    BAD("messages[0].content");
    request.size = 8;
    BAD("LAC_CLIENT_REQUEST_INIT");
    request.size = sizeof request + 8;
    BAD("request.size");
    ck_assert_int_eq(lac_client_submit(NULL, &request, &stream), LAC_CLIENT_INVALID);
    ck_assert_ptr_null(stream);

    /* What the wire refuses ends the stream with the reason. */
    stream = submit("\xff\xfe");
    lac_client_piece piece;
    ck_assert_int_eq(lac_stream_next(stream, 5000, &piece), LAC_CLIENT_INVALID);
    ck_assert_msg(strstr(lac_client_error(), "UTF-8") != NULL, "%s", lac_client_error());
    lac_stream_close(&stream);

    lac_client *other = NULL;
    ck_assert_int_eq(lac_client_connect("localhost", &other), LAC_CLIENT_INVALID);
    ck_assert_msg(strstr(lac_client_error(), "tcp://HOST:PORT") != NULL, "%s", lac_client_error());
    ck_assert_ptr_null(other);
}
END_TEST

/* ---- many threads on one client ---- */

static void *reader(void *arg)
{
    for (int i = 0; i < 25; i++) {
        char prompt[32], text[4096];
        snprintf(prompt, sizeof prompt, "count %d", 50 + i * 5);
        lac_stream *stream = submit(prompt);
        if (i % 5 == 4) {
            lac_stream_close(&stream);
            continue;
        }
        uint32_t tokens = 0;
        if (read_all(stream, text, sizeof text, &tokens, NULL) == 0 &&
            tokens == (uint32_t)(50 + i * 5))
            ++*(int *)arg;
        lac_stream_close(&stream);
    }
    return NULL;
}

START_TEST(many_threads)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    int good[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, reader, &good[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(good[i], 20);
    }
    wait_for(open_requests, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client");
    TCase *t = tcase_create("client");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_answer_comes_whole);
    tcase_add_test(t, everything_asked_for_arrives);
    tcase_add_test(t, credit_bounds_what_waits);
    tcase_add_test(t, failures_have_their_codes);
    tcase_add_test(t, patience_asks_again);
    tcase_add_test(t, waiting_ends_in_time);
    tcase_add_test(t, closing_cancels_what_runs);
    tcase_add_test(t, a_restarted_coordinator);
    tcase_add_test(t, nobody_there);
    tcase_add_test(t, status_is_json);
    tcase_add_test(t, bad_arguments_are_named);
    tcase_add_test(t, many_threads);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
