/* Replies and streams: golden bodies, refusals, events, credit, slow readers, clients that leave.
 */
#include "harness.h"

#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Ids and times vary; all else is compared byte by byte. */
static void normalise(lac_buf *text)
{
    static const struct {
        const char *from, *set;
    } parts[] = {{"cmpl-", "0123456789abcdef"}, {"\"created\":", "0123456789"}};
    for (size_t i = 0; i < 2; i++)
        for (char *at = text->data; at && (at = strstr(at, parts[i].from));) {
            at += strlen(parts[i].from);
            size_t run = strspn(at, parts[i].set), offset = (size_t)(at - text->data);
            memmove(at + 1, at + run, text->length - offset - run + 1);
            *at = '#';
            text->length -= run - 1;
        }
}

static void same(const reply *r, const char *expected)
{
    lac_buf body = {0};
    lac_buf_add(&body, r->body.data, r->body.length);
    normalise(&body);
    ck_assert_str_eq(body.data, expected);
    lac_buf_free(&body);
}

START_TEST(test_chat)
{
    harness h;
    harness_start(&h, NULL);
    reply r;
    post(&h, "/v1/chat/completions", "{" HI ",\"model\":\"tiny\"}", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Content-Type"), "application/json");
    same(
        &r,
        "{\"id\":\"chatcmpl-#\",\"object\":\"chat.completion\",\"created\":#,\"model\":\"tiny\","
        "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello world\","
        "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{"
        "\"prompt_tokens\":11,\"completion_tokens\":2,\"total_tokens\":13,"
        "\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    reply_free(&r);
    ck_assert_str_eq(h.submits[0].model, "tiny");
    ck_assert_str_eq(h.submits[0].first_role, "user");
    ck_assert_uint_ge(h.submits[0].credit, 1);
    h.logprobs = true;
    h.finish = LAC_FINISH_LENGTH;
    static const char *const euro[] = {"\xe2\x82\xac", NULL};
    h.pieces = euro;
    post(&h, "/v1/chat/completions", "{" HI ",\"logprobs\":true,\"top_logprobs\":2}", &r);
    same(&r,
         "{\"id\":\"chatcmpl-#\",\"object\":\"chat.completion\",\"created\":#,\"model\":\"tiny\","
         "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
         "\"\xe2\x82\xac\","
         "\"refusal\":null},\"logprobs\":{\"content\":[{\"token\":\"\xe2\x82\xac\",\"logprob\":-0."
         "25,"
         "\"bytes\":[226,130,172],\"top_logprobs\":[{\"token\":\"\xe2\x82\xac\",\"logprob\":-0.25,"
         "\"bytes\":[226,130,172]},{\"token\":\"\xef\xbf\xbd\xef\xbf\xbd\",\"logprob\":-1.5,"
         "\"bytes\":[226,130]}]}],\"refusal\":null},\"finish_reason\":\"length\"}],\"usage\":{"
         "\"prompt_tokens\":11,\"completion_tokens\":2,\"total_tokens\":13,"
         "\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_completion)
{
    harness h;
    harness_start(&h, NULL);
    h.logprobs = true;
    static const char *const pieces[] = {"\xe2\x82\xac", "b", NULL};
    h.pieces = pieces;
    reply r;
    post(&h, "/v1/completions", "{\"prompt\":\"once\",\"logprobs\":2}", &r);
    same(&r, "{\"id\":\"cmpl-#\",\"object\":\"text_completion\",\"created\":#,\"model\":\"tiny\","
             "\"choices\":[{\"index\":0,\"text\":\"\xe2\x82\xac"
             "b\",\"logprobs\":{\"tokens\":["
             "\"\xe2\x82\xac\",\"b\"],\"token_logprobs\":[-0.25,-0.25],\"top_logprobs\":["
             "{\"\xe2\x82\xac\":-0.25,\"bytes:\\\\xe2\\\\x82\":-1.5},"
             "{\"b\":-0.25,\"bytes:\\\\xe2\\\\x82\":-1.5}],\"text_offset\":[0,1]},"
             "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,"
             "\"total_tokens\":13,\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    reply_free(&r);
    ck_assert_int_eq(h.submits[0].kind, LAC_PROMPT_TEXT);
    ck_assert_str_eq(h.submits[0].text.data, "once");
    harness_stop(&h);
}
END_TEST

#define CHUNK(choice, usage)                                                                       \
    "data: {\"id\":\"chatcmpl-#\",\"object\":\"chat.completion.chunk\",\"created\":#,"             \
    "\"model\":\"tiny\",\"choices\":[" choice "]" usage "}\n\n"
#define ROLE                                                                                       \
    "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"          \
    "\"finish_reason\":null}"
#define TEXT(text)                                                                                 \
    "{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"logprobs\":null,\"finish_reason\":null}"
#define STOP "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}"

START_TEST(test_events)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client c;
    client_open(&c, &h);
    client_post(&c, "/v1/chat/completions",
                "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    WAIT_FOR(&h, h.submits_count == 1);
    harness_turn(&h, 5);
    client_take(&c);
    ck_assert_uint_eq(c.in.length, 0); /* the status is held until it is certain */
    core_tokens(&h, h.submits[0].stream, 0, "Hello");
    ck_assert(client_wait(&c, "Hello", 1000));
    core_tokens(&h, h.submits[0].stream, 1, " wor"); /* these two become one event */
    core_tokens(&h, h.submits[0].stream, 2, "ld");
    harness_turn(&h, 5);
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    reply r;
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(reply_header(&r, "Content-Type"), "text/event-stream");
    ck_assert_str_eq(reply_header(&r, "Cache-Control"), "no-cache");
    ck_assert_str_eq(reply_header(&r, "X-Accel-Buffering"), "no");
    ck_assert(r.complete);
    same(&r, CHUNK(ROLE, ",\"usage\":null") CHUNK(TEXT("Hello"), ",\"usage\":null")
                 CHUNK(TEXT(" world"), ",\"usage\":null") CHUNK(STOP, ",\"usage\":null")
                     CHUNK("", ",\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,"
                               "\"total_tokens\":13,\"prompt_tokens_details\":{\"cached_tokens\":4}"
                               "}") "data: [DONE]\n\n");
    reply_free(&r);
    /* The connection serves on. */
    client_get(&c, "/livez", &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

/* n choices are n submits and one reply: the prompt counted once, the choices in order whatever the
 * order they end in. */
START_TEST(test_choices)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client c;
    client_open(&c, &h);
    client_post(&c, "/v1/completions", "{\"prompt\":\"a\",\"n\":3,\"best_of\":3,\"seed\":5}");
    WAIT_FOR(&h, h.submits_count == 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(h.submits[i].sampling.choice, i);
        ck_assert_uint_eq(h.submits[i].sampling.seed, 5);
        ck_assert_str_eq(h.submits[i].text.data, "a");
    }
    core_tokens(&h, h.submits[2].stream, 0, "two");
    core_tokens(&h, h.submits[0].stream, 0, "zero");
    core_done(&h, h.submits[2].stream, LAC_FINISH_LENGTH);
    harness_turn(&h, 5);
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    harness_turn(&h, 5);
    client_take(&c);
    ck_assert_uint_eq(c.in.length, 0); /* one still runs */
    core_tokens(&h, h.submits[1].stream, 0, "one");
    core_done(&h, h.submits[1].stream, LAC_FINISH_STOP);
    reply r;
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 200);
    same(&r,
         "{\"id\":\"cmpl-#\",\"object\":\"text_completion\",\"created\":#,\"model\":\"tiny\","
         "\"choices\":[{\"index\":0,\"text\":\"zero\",\"logprobs\":null,\"finish_reason\":"
         "\"stop\"},{\"index\":1,\"text\":\"one\",\"logprobs\":null,\"finish_reason\":\"stop\"},"
         "{\"index\":2,\"text\":\"two\",\"logprobs\":null,\"finish_reason\":\"length\"}],"
         "\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":6,\"total_tokens\":17,"
         "\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    reply_free(&r);
    client_close(&c);
    ck_assert_uint_eq(h.cancels_count, 0);
    harness_stop(&h);
}
END_TEST

#define CHUNK_OF(index, delta, finish)                                                             \
    CHUNK("{\"index\":" index ",\"delta\":" delta ",\"logprobs\":null,\"finish_reason\":" finish   \
          "}",                                                                                     \
          ",\"usage\":null")

START_TEST(test_choices_stream)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client c;
    client_open(&c, &h);
    client_post(&c, "/v1/chat/completions",
                "{" HI ",\"n\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    WAIT_FOR(&h, h.submits_count == 2);
    core_tokens(&h, h.submits[1].stream, 0, "b");
    ck_assert(client_wait(&c, "\"b\"", 1000));
    core_done(&h, h.submits[1].stream, LAC_FINISH_LENGTH);
    ck_assert(client_wait(&c, "\"length\"", 1000)); /* told at once */
    core_tokens(&h, h.submits[0].stream, 0, "a");
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    reply r;
    client_reply(&c, &r, false);
    same(&r, CHUNK_OF("0", "{\"role\":\"assistant\",\"content\":\"\"}",
                      "null") CHUNK_OF("1", "{\"role\":\"assistant\",\"content\":\"\"}", "null")
                 CHUNK_OF("1", "{\"content\":\"b\"}", "null") CHUNK_OF("1", "{}", "\"length\"")
                     CHUNK_OF("0", "{\"content\":\"a\"}", "null") CHUNK_OF("0", "{}", "\"stop\"")
                         CHUNK("", ",\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":4,"
                                   "\"total_tokens\":15,\"prompt_tokens_details\":{"
                                   "\"cached_tokens\":4}}") "data: [DONE]\n\n");
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

/* One that fails ends all, and says which; a client that leaves cancels all that still run. */
START_TEST(test_choices_end)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    h.status = LAC_EPEER;
    client c;
    client_open(&c, &h);
    client_post(&c, "/v1/chat/completions", "{" HI ",\"n\":4}");
    WAIT_FOR(&h, h.submits_count == 4);
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    core_refuse(&h, h.submits[2].stream);
    reply r;
    client_reply(&c, &r, false);
    ck_assert_int_eq(r.status, 503);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"choice 2 of 4: queue is full"));
    reply_free(&r);
    ck_assert_uint_eq(h.cancels_count, 2);
    client_post(&c, "/v1/chat/completions", "{" HI ",\"n\":8,\"stream\":true}");
    WAIT_FOR(&h, h.submits_count == 12);
    core_done(&h, h.submits[11].stream, LAC_FINISH_STOP);
    harness_turn(&h, 5);
    client_close(&c);
    WAIT_FOR(&h, h.cancels_count == 9);
    /* Refused at once: the others are not even tried. */
    h.script = CORE_REFUSE;
    post(&h, "/v1/completions", "{\"prompt\":\"a\",\"n\":8}", &r);
    ck_assert_int_eq(r.status, 503);
    ck_assert_uint_eq(h.submits_count, 13);
    reply_free(&r);
    harness_stop(&h);
}
END_TEST

START_TEST(test_http10_stream)
{
    harness h;
    harness_start(&h, NULL);
    client c;
    client_open(&c, &h);
    static const char body[] = "{\"prompt\":\"a\",\"stream\":true}";
    char text[512];
    snprintf(
        text, sizeof text,
        "POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: %zu\r\n\r\n%s",
        sizeof body - 1, body);
    client_text(&c, text);
    reply r;
    client_reply(&c, &r, false);
    ck_assert(c.eof && !c.reset);
    ck_assert_ptr_null(reply_header(&r, "Transfer-Encoding"));
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"text\":\"Hello world\""));
    ck_assert_str_eq(r.body.data + r.body.length - 14, "data: [DONE]\n\n");
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

START_TEST(test_refusals)
{
    static const struct {
        lac_status status;
        int http;
        const char *type, *retry;
    } cases[] = {
        {LAC_BUSY, 429, "rate_limit_error", "3"},
        {LAC_EREFUSED, 503, "server_error", "3"},
        {LAC_EINVAL, 400, "invalid_request_error", NULL},
        {LAC_ENOTFOUND, 404, "invalid_request_error", NULL},
        {LAC_EUNSUPPORTED, 400, "invalid_request_error", NULL},
        {LAC_ETOOBIG, 400, "invalid_request_error", NULL},
        {LAC_EDEADLINE, 504, "timeout_error", NULL},
        {LAC_EPEER, 503, "server_error", "3"},
        {LAC_EINTERNAL, 500, "server_error", NULL},
        {LAC_ENOMEM, 500, "server_error", NULL},
    };
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_REFUSE;
    h.retry_after_ms = 2001;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int stream = 0; stream < 2; stream++) { /* before a token, streams keep the code too */
            h.status = cases[i].status;
            h.later = i % 2;
            reply r;
            post(&h, "/v1/chat/completions", stream ? "{" HI ",\"stream\":true}" : "{" HI "}", &r);
            ck_assert_msg(r.status == cases[i].http, "case %zu: %d", i, r.status);
            ck_assert_ptr_nonnull(strstr(r.body.data, "queue is full: 256 requests, allowed 256"));
            ck_assert_ptr_nonnull(strstr(r.body.data, cases[i].type));
            const char *retry = reply_header(&r, "Retry-After");
            if (cases[i].retry)
                ck_assert_str_eq(retry, cases[i].retry);
            else
                ck_assert_ptr_null(retry);
            reply_free(&r);
        }
    harness_stop(&h);
}
END_TEST

START_TEST(test_error_in_stream)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    h.status = LAC_EPEER;
    client c;
    open_chat(&h, &c, true);
    core_tokens(&h, h.submits[0].stream, 0, "Hel");
    ck_assert(client_wait(&c, "Hel", 1000));
    core_refuse(&h, h.submits[0].stream);
    reply r;
    client_reply(&c, &r, false);
    ck_assert_ptr_nonnull(strstr(r.body.data, "data: {\"error\":{\"message\":\"queue is full"));
    ck_assert_ptr_null(strstr(r.body.data, "[DONE]"));
    ck_assert(client_wait_end(&c, 1000));
    reply_free(&r);
    client_close(&c);
    ck_assert_uint_eq(h.cancels_count, 0); /* the core ended it itself */
    harness_stop(&h);
}
END_TEST

START_TEST(test_hold_and_ping)
{
    lac_frontend_options options = {.host = "127.0.0.1", .ping_ms = 250};
    harness h;
    harness_start(&h, &options);
    h.script = CORE_SILENT;
    client c;
    open_chat(&h, &c, true);
    ck_assert(client_wait(&c, ": ping\n\n", 2000));
    ck_assert(client_wait(&c, "200 OK", 1));
    lac_buf_clear(&c.in);
    ck_assert(client_wait(&c, "8\r\n: ping\n\n\r\n", 2000)); /* and again */
    core_tokens(&h, h.submits[0].stream, 0, "late");
    ck_assert(client_wait(&c, "late", 1000));
    client_close(&c);
    WAIT_FOR(&h, h.cancels_count == 1);
    harness_stop(&h);
}
END_TEST

/* A client that leaves is noticed at once, in every state, by FIN and by RST. */
START_TEST(test_gone)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    for (size_t i = 0; i < 6; i++) {
        client c;
        open_chat(&h, &c, true);
        uint64_t stream = h.submits[i].stream;
        if (i % 3 == 1) {
            core_tokens(&h, stream, 0, "x");
            ck_assert(client_wait(&c, "\"x\"", 1000));
        }
        if (i % 3 == 2) {
            core_tokens(&h, stream, 0, "x");
            harness_turn(&h, 1);
        }
        if (i >= 3) {
            struct linger hard = {.l_onoff = 1};
            setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        client_close(&c);
        int turns = 0;
        while (h.cancels_count == i && turns++ < 50)
            harness_turn(&h, 1);
        ck_assert_msg(h.cancels_count == i + 1, "case %zu", i);
        ck_assert_uint_eq(h.cancelled, stream);
        core_tokens(&h, stream, 1, "nobody listens"); /* too late: ignored */
        core_done(&h, stream, LAC_FINISH_STOP);
        harness_turn(&h, 1);
    }
    ck_assert_double_eq(metric_sum(&h, "lacuna_http_disconnects_total", "client_gone"), 6);
    harness_stop(&h);
}
END_TEST

/* As the core would, while nobody reads: no message without credit. The kernel's buffers fill
 * first. The number of messages sent. */
static uint64_t fill(harness *h, uint64_t stream, const char *piece)
{
    uint64_t sent = 0;
    for (int idle = 0; idle < 50; harness_turn(h, 1)) {
        bool may = sent - h->credited < LAC_HTTP_CREDIT;
        idle = may ? 0 : idle + 1;
        if (may)
            core_tokens(h, stream, (uint32_t)sent++, piece);
        ck_assert_uint_lt(sent, 20000);
    }
    ck_assert_uint_gt(sent, LAC_HTTP_CREDIT);
    return sent;
}

/* A reader that does not read: tokens stay here, bounded by the credit that is not granted; when it
 * reads again everything comes, in few events … */
START_TEST(test_slow_reader)
{
    harness h; /* with the usual time for a slow reader: this one, however slow, makes it */
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    static char piece[8001];
    memset(piece, 'Q', sizeof piece - 1);
    client c;
    open_chat(&h, &c, true);
    uint64_t sent = fill(&h, h.submits[0].stream, piece);
    core_done(&h, h.submits[0].stream, LAC_FINISH_STOP);
    reply r;
    client_reply(&c, &r, false);
    size_t got = 0, events = 0;
    for (size_t i = 0; i < r.body.length; i++)
        got += r.body.data[i] == 'Q';
    for (const char *at = r.body.data; (at = strstr(at, "data: ")); at++)
        events++;
    ck_assert_uint_eq(got, sent * (sizeof piece - 1));
    ck_assert_uint_lt(events, sent); /* some were joined */
    reply_free(&r);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

/* … and when it never does, it is cut off. */
START_TEST(test_no_reader)
{
    lac_frontend_options options = {.host = "127.0.0.1", .slow_reader_ms = 600};
    harness h;
    harness_start(&h, &options);
    h.script = CORE_SILENT;
    static char piece[8001];
    memset(piece, 'Q', sizeof piece - 1);
    client c;
    open_chat(&h, &c, true);
    fill(&h, h.submits[0].stream, piece);
    WAIT_FOR(&h, h.cancels_count == 1);
    ck_assert_double_eq(metric_sum(&h, "lacuna_http_disconnects_total", "slow_reader"), 1);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

START_TEST(test_credit)
{
    harness h;
    harness_start(&h, NULL);
    h.script = CORE_SILENT;
    client c;
    open_chat(&h, &c, true);
    for (uint32_t i = 0; i < 1000; i++) {
        core_tokens(&h, h.submits[0].stream, i, "z");
        harness_turn(&h, 0);
        client_take(&c);
        ck_assert_uint_le(i + 1 - h.credited, LAC_HTTP_CREDIT);
    }
    ck_assert_uint_gt(h.credited, 1000 - LAC_HTTP_CREDIT);
    ck_assert_uint_lt(h.credits_count, 1000 / (LAC_HTTP_CREDIT / 2) + 2);
    client_close(&c);
    harness_stop(&h);
}
END_TEST

/* Bodies above the bound are parsed off the loop; the client may leave meanwhile. */
START_TEST(test_large_body)
{
    harness h;
    harness_start(&h, NULL);
    lac_buf body = {0};
    lac_buf_text(&body, "{\"prompt\":\"");
    while (body.length < 2 << 20)
        lac_buf_text(&body, "0123456789abcdef\\n");
    lac_buf_text(&body, "\"}");
    reply r;
    post(&h, "/v1/completions", body.data, &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_uint_eq(h.submits[0].text.length, (body.length - 13) / 18 * 17);
    reply_free(&r);
    body.data[body.length - 2] = 'x'; /* broken at its very end */
    post(&h, "/v1/completions", body.data, &r);
    ck_assert_int_eq(r.status, 400);
    reply_free(&r);
    body.data[body.length - 2] = '"';
    for (int i = 0; i < 4; i++) {
        client c;
        client_open(&c, &h);
        char head[128];
        snprintf(head, sizeof head,
                 "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 body.length);
        client_text(&c, head);
        client_send(&c, body.data, body.length);
        client_close(&c);
    }
    lac_buf_free(&body);
    harness_stop(&h); /* jobs may still run: it waits for them */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_chat,
                                  test_completion,
                                  test_events,
                                  test_choices,
                                  test_choices_stream,
                                  test_choices_end,
                                  test_http10_stream,
                                  test_refusals,
                                  test_error_in_stream,
                                  test_hold_and_ping,
                                  test_gone,
                                  test_slow_reader,
                                  test_no_reader,
                                  test_credit,
                                  test_large_body,
                                  NULL};
    return run_suite("frontend stream", tests);
}
