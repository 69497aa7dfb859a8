/* Files and batches over HTTP with a real store behind them; items are run by hand. And the parsers
 * under them: form data, batch lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "batch_lines.h"
#include "harness.h"
#include "multipart.h"
#include "parts.h"
#include "store/store.h"

/* ---- form data ---- */

static size_t parse(const char *type, const char *body, lac__part parts[LAC__PARTS_MAX],
                    lac__problem *problem)
{
    size_t count = 0;
    memset(problem, 0, sizeof *problem);
    return lac__multipart_parse(type, body, strlen(body), parts, &count, problem) ? count : 0;
}

START_TEST(test_multipart)
{
    lac__part parts[LAC__PARTS_MAX];
    lac__problem problem;
    static const char body[] = "--b1\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n"
                               "batch\r\n--b1\r\ncontent-type: text/plain\r\nContent-disposition: "
                               "form-data; name=file; filename=\"a \\\"b\\\".jsonl\"\r\n\r\n"
                               "one\r\n--b\r\ntwo\r\n\r\n--b1--\r\n";
    ck_assert_uint_eq(parse("multipart/form-data; boundary=b1", body, parts, &problem), 2);
    ck_assert_str_eq(parts[0].name, "purpose");
    ck_assert_mem_eq(parts[0].data, "batch", 5);
    ck_assert_uint_eq(parts[0].length, 5);
    const lac__part *file = lac__multipart_find(parts, 2, "file");
    ck_assert_ptr_nonnull(file);
    ck_assert_str_eq(file->file, "a \"b\".jsonl");
    ck_assert_uint_eq(file->length, 15); /* a line that only looks like the boundary is content */
    ck_assert_mem_eq(file->data, "one\r\n--b\r\ntwo\r\n", 15);
    ck_assert_ptr_null(lac__multipart_find(parts, 2, "none"));
    ck_assert_uint_eq(
        parse("Multipart/Form-Data; charset=x; boundary=\"b1\"", body, parts, &problem), 2);
}
END_TEST

START_TEST(test_multipart_bad)
{
    static const struct {
        const char *type, *body, *why;
    } cases[] = {
        {"application/json", "{}", "something else"},
        {"multipart/form-data", "--b\r\n", "no boundary"},
        {"multipart/form-data; boundary=", "--b\r\n", "no boundary"},
        {"multipart/form-data; boundary=b", "", "begin"},
        {"multipart/form-data; boundary=b", "--x", "begin"},
        {"multipart/form-data; boundary=b", "--b", "too early"},
        {"multipart/form-data; boundary=b", "--bx\r\n", "end its line"},
        {"multipart/form-data; boundary=b", "--b\r\nno head", "head"},
        {"multipart/form-data; boundary=b", "--b\r\nX: y\r\n\r\ntext\r\n--b--", "no name"},
        {"multipart/form-data; boundary=b",
         "--b\r\nContent-Disposition: form-data; name=a\r\n\r\ntext", "does not end"},
        {"multipart/form-data; boundary=b",
         "--b\r\nContent-Disposition: form-data; name=a\r\n\r\ntext\r\n--b", "too early"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac__part parts[LAC__PARTS_MAX];
        lac__problem problem;
        ck_assert_uint_eq(parse(cases[i].type, cases[i].body, parts, &problem), 0);
        ck_assert_msg(problem.http == 400 && strstr(problem.message, cases[i].why), "%zu: %s", i,
                      problem.message);
    }
    lac__part parts[LAC__PARTS_MAX];
    lac__problem problem;
    lac_buf many = {0};
    for (int i = 0; i < LAC__PARTS_MAX + 1; i++)
        lac_buf_text(&many, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n");
    lac_buf_text(&many, "--b--");
    ck_assert_uint_eq(parse("multipart/form-data; boundary=b", many.data, parts, &problem), 0);
    ck_assert_ptr_nonnull(strstr(problem.message, "16 parts"));
    lac_buf_free(&many);
}
END_TEST

/* ---- lines ---- */

#define LINE(id)                                                                                   \
    "{\"custom_id\":\"" id "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"    \
    "\"model\":\"tiny\"," HI "}}"

START_TEST(test_lines)
{
    static const char text[] = LINE("a") "\r\n\n" LINE("b");
    lac__lines lines;
    lac__problem problem;
    uint32_t line;
    lac_job_endpoint endpoint = (lac_job_endpoint)0;
    ck_assert(lac__lines_read(text, strlen(text), &endpoint, &lines, &line, &problem));
    ck_assert_int_eq(endpoint, LAC_JOB_CHAT);
    ck_assert_uint_eq(lines.count, 2);
    ck_assert_uint_eq(lines.items[1].custom_id.length, 1);
    ck_assert_mem_eq(lines.items[1].custom_id.data, "b", 1);
    ck_assert_mem_eq(lines.items[0].body.data, "{\"model\":\"tiny\"", 15);
    lac__lines_free(&lines);
}
END_TEST

START_TEST(test_lines_bad)
{
    static const struct {
        const char *text, *code;
        uint32_t line;
    } cases[] = {
        {"", "empty_file", 0},
        {"\n \r\n", "empty_file", 0},
        {LINE("a") "\nnonsense", "invalid_json_line", 2},
        {LINE("a") "\n[]", "invalid_json_line", 2},
        {LINE("a") "\n" LINE("b") "\n" LINE("a"), "duplicate_custom_id", 3},
        {LINE(""), "invalid_custom_id", 1},
        {"{\"custom_id\":1}", "invalid_custom_id", 1},
        {"{\"custom_id\":\"a\"}", "invalid_body", 1},
        {"{\"custom_id\":\"a\",\"body\":{}}", "invalid_method", 1},
        {"{\"custom_id\":\"a\",\"body\":{},\"method\":\"POST\",\"url\":\"/v1/x\"}", "invalid_url",
         1},
        {"{\"custom_id\":\"a\",\"body\":{},\"method\":\"POST\",\"url\":\"/v1/completions\"}",
         "mismatched_url", 1},
        {"{\"custom_id\":\"a\",\"custom_id\":\"b\"}", "invalid_json_line", 1},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "invalid_json", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac__lines lines;
        lac__problem problem = {0};
        uint32_t line = 99;
        lac_job_endpoint endpoint = LAC_JOB_CHAT;
        ck_assert(!lac__lines_read(cases[i].text, strlen(cases[i].text), &endpoint, &lines, &line,
                                   &problem));
        ck_assert_msg(!strcmp(problem.code, cases[i].code), "%zu: %s", i, problem.code);
        ck_assert_uint_eq(line, cases[i].line);
    }
}
END_TEST

START_TEST(test_lines_out)
{
    lac_job_view job = {.id = 0xabc, .state = LAC_JOB_COMPLETED};
    lac_store_result result = {.index = 2,
                               .state = LAC_ITEM_DONE,
                               .http = 200,
                               .custom_id = {"a\"b", 3},
                               .reply = {"{\"x\":1}", 7}};
    lac_buf out = {0};
    lac__line_write(&job, &result, &out);
    ck_assert_str_eq(out.data,
                     "{\"id\":\"batch_req_0000000000000abc00002\",\"custom_id\":\"a\\\"b\","
                     "\"response\":{\"status_code\":200,\"request_id\":"
                     "\"req-0000000000000abc00002\",\"body\":{\"x\":1}},\"error\":null}\n");
    static const struct {
        lac_item_state item;
        lac_job_state job;
        const char *code;
    } cases[] = {{LAC_ITEM_FAILED, LAC_JOB_COMPLETED, "attempts_exhausted"},
                 {LAC_ITEM_EXPIRED, LAC_JOB_EXPIRED, "batch_expired"},
                 {LAC_ITEM_FRESH, LAC_JOB_EXPIRED, "batch_expired"},
                 {LAC_ITEM_FRESH, LAC_JOB_CANCELLED, "batch_cancelled"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lac_buf_clear(&out);
        job.state = cases[i].job;
        result.state = cases[i].item;
        result.reply = (lac_span){0};
        lac__line_write(&job, &result, &out);
        ck_assert_ptr_nonnull(strstr(out.data, cases[i].code));
        ck_assert_ptr_nonnull(strstr(out.data, "\"response\":null"));
    }
    lac_buf_free(&out);
}
END_TEST

/* ---- over HTTP ---- */

static harness h;
static lac_store *store;
static char dir[64];
static uint64_t size_max;

static void setup(void)
{
    lac_error err = {0};
    strcpy(dir, "/tmp/lacuna-batches-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    memset(&h, 0, sizeof h);
    harness_start(&h, NULL);
    lac_store_options options = {.dir = dir, .epoch = 1, .bytes_max = size_max};
    ck_assert_int_eq(lac_store_open(&h.loop, &options, h.metrics, &store, &err), LAC_OK);
    h.frontend->options.store = store;
}

static void teardown(void)
{
    char command[128];
    lac_store_close(&store);
    harness_stop(&h);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static void setup_small(void)
{
    size_max = 4 << 20;
    setup();
    size_max = 0;
}

/* "name":"value" of a reply, into a static buffer. */
static const char *field(const reply *r, const char *name)
{
    static char value[64];
    char key[64];
    snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = r->body.data ? strstr(r->body.data, key) : NULL;
    if (!at)
        return "";
    at += strlen(key);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
    return value;
}

static void request(const char *method, const char *path, const char *head, const char *body,
                    size_t length, reply *r)
{
    client c;
    lac_buf text = {0};
    lac_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n%s", method, path, head);
    if (body)
        lac_buf_printf(&text, "Content-Length: %zu\r\n", length);
    lac_buf_text(&text, "\r\n");
    if (body)
        lac_buf_add(&text, body, length);
    client_open(&c, &h);
    client_send(&c, text.data, text.length);
    client_reply(&c, r, false);
    client_close(&c);
    lac_buf_free(&text);
}

static void get(const char *path, reply *r)
{
    request("GET", path, "", NULL, 0, r);
}

static int upload(const char *text, size_t length, char id[64])
{
    lac_buf body = {0};
    reply r;
    lac_buf_text(&body, "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
                        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in\"\r\n"
                        "\r\n");
    lac_buf_add(&body, text, length);
    lac_buf_text(&body, "\r\n--b--\r\n");
    request("POST", "/v1/files", "Content-Type: multipart/form-data; boundary=b\r\n", body.data,
            body.length, &r);
    int status = r.status;
    snprintf(id, 64, "%s", field(&r, "id"));
    reply_free(&r);
    lac_buf_free(&body);
    return status;
}

static void create(const char *file, const char *head, reply *r)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"input_file_id\":\"%s\",\"endpoint\":\"/v1/chat/completions\","
             "\"completion_window\":\"24h\",\"metadata\":{\"k\":\"v\"}}",
             file);
    request("POST", "/v1/batches", head, body, strlen(body), r);
}

static void on_done(lac_store_call *call)
{
    *(bool *)call->arg = true;
}

static void do_call(lac_store_call *call)
{
    bool done = false;
    call->done = on_done;
    call->arg = &done;
    ck_assert_int_eq(lac_store_do(store, call, NULL), LAC_OK);
    WAIT_FOR(&h, done);
    ck_assert_msg(call->error.status == LAC_OK, "%s", call->error.text);
}

/* Ends the next item; false when there is none. */
static bool run_one(lac_item_state state, const char *answer)
{
    lac_store_call claim = {.kind = LAC_STORE_CLAIM, .limit = 1};
    do_call(&claim);
    if (claim.count) {
        lac_store_call end = {.kind = LAC_STORE_END};
        end.end = (lac_store_end){.ref = claim.claims[0].ref,
                                  .attempt = 1,
                                  .state = state,
                                  .http = state == LAC_ITEM_DONE ? 200 : 400,
                                  .prompt_tokens = 4,
                                  .completion_tokens = 2,
                                  .reply = {answer, (uint32_t)strlen(answer)}};
        do_call(&end);
        lac_store_call_free(&end);
    }
    bool any = claim.count > 0;
    lac_store_call_free(&claim);
    return any;
}

static const char three[] = LINE("a") "\n" LINE("b") "\n" LINE("c") "\n";

START_TEST(test_files)
{
    char id[64], other[64], path[128];
    reply r;
    ck_assert_int_eq(upload("line\n", 5, id), 200);
    ck_assert_int_eq(strncmp(id, "file-", 5), 0);
    ck_assert_int_eq(upload("\r\n\0x", 4, other), 200);
    snprintf(path, sizeof path, "/v1/files/%s", id);
    get(path, &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"bytes\":5,"));
    ck_assert_str_eq(field(&r, "purpose"), "batch");
    ck_assert_str_eq(field(&r, "filename"), "in");
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/files/%s/content", other);
    get(path, &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_uint_eq(r.body.length, 4);
    ck_assert_mem_eq(r.body.data, "\r\n\0x", 4);
    reply_free(&r);
    get("/v1/files?limit=1&purpose=batch", &r);
    ck_assert_str_eq(field(&r, "first_id"), other);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"has_more\":true"));
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/files?after=%s", other);
    get(path, &r);
    ck_assert_str_eq(field(&r, "first_id"), id);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"has_more\":false"));
    reply_free(&r);
    get("/v1/files?purpose=none", &r);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"data\":[]"));
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/files/%s", id);
    request("DELETE", path, "", NULL, 0, &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"deleted\":true"));
    reply_free(&r);
    get(path, &r);
    ck_assert_int_eq(r.status, 404);
    reply_free(&r);
}
END_TEST

START_TEST(test_bad_requests)
{
    char id[64];
    ck_assert_int_eq(upload(three, strlen(three), id), 200);
    static const char json[] = "Content-Type: application/json\r\n";
    const struct {
        const char *method, *path, *body, *text;
        int status;
    } cases[] = {
        {"GET", "/v1/files/file-0123", NULL, "no file", 404},
        {"GET", "/v1/files/file-0123456789abcdef", NULL, "no file", 404},
        {"GET", "/v1/files/file-out-0123456789abcdef/content", NULL, "no job", 404},
        {"GET", "/v1/files?after=x", NULL, "no file", 404},
        {"GET", "/v1/files?limit=0", NULL, "limit", 400},
        {"DELETE", "/v1/files/nothing", NULL, "no file", 404},
        {"PUT", "/v1/files/nothing", NULL, "GET, HEAD, DELETE", 405},
        {"DELETE", "/v1/batches", NULL, "GET, HEAD, POST", 405},
        {"POST", "/v1/files", "{}", "multipart", 400},
        {"GET", "/v1/batches/batch_1", NULL, "no batch", 404},
        {"GET", "/v1/batches/batch_0123456789abcdef", NULL, "no job", 404},
        {"GET", "/v1/batches?limit=1000", NULL, "limit", 400},
        {"POST", "/v1/batches/batch_0123456789abcdef/cancel", "", "no job", 404},
        {"POST", "/v1/batches/batch_0123456789abcdef", "", "no batch", 404},
        {"POST", "/v1/batches", "[]", "no JSON object", 400},
        {"POST", "/v1/batches", "{\"x\":1}", "unknown parameter", 400},
        {"POST", "/v1/batches", "{\"input_file_id\":\"file-out-0123456789abcdef\"}",
         "input_file_id", 400},
        {"POST", "/v1/batches", "{\"input_file_id\":\"file-0123456789abcdef\"}", "endpoint", 400},
        {"POST", "/v1/batches",
         "{\"input_file_id\":\"file-0123456789abcdef\",\"endpoint\":\"/v1/completions\"}",
         "completion_window", 400},
        {"POST", "/v1/batches",
         "{\"input_file_id\":\"file-0123456789abcdef\",\"endpoint\":\"/v1/completions\","
         "\"completion_window\":\"31d\"}",
         "completion_window", 400},
        {"POST", "/v1/batches",
         "{\"input_file_id\":\"file-0123456789abcdef\",\"endpoint\":\"/v1/completions\","
         "\"completion_window\":\"24h\",\"metadata\":{\"a\":1}}",
         "metadata", 400},
        {"POST", "/v1/batches",
         "{\"input_file_id\":\"file-0123456789abcdef\",\"endpoint\":\"/v1/completions\","
         "\"completion_window\":\"24h\"}",
         "no file", 404},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply r;
        request(cases[i].method, cases[i].path, json, cases[i].body,
                cases[i].body ? strlen(cases[i].body) : 0, &r);
        ck_assert_msg(r.status == cases[i].status, "%zu: %d %s", i, r.status, r.body.data);
        ck_assert_msg(strstr(r.body.data, cases[i].text), "%zu: %s", i, r.body.data);
        reply_free(&r);
    }
}
END_TEST

START_TEST(test_batch)
{
    char file[64], id[64], path[128], output[64];
    reply r;
    upload(three, strlen(three), file);
    create(file, "", &r);
    ck_assert_msg(r.status == 200, "%s", r.body.data);
    snprintf(id, sizeof id, "%s", field(&r, "id"));
    ck_assert_str_eq(field(&r, "status"), "in_progress");
    ck_assert_str_eq(field(&r, "input_file_id"), file);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"metadata\":{\"k\":\"v\"}"));
    ck_assert_ptr_nonnull(
        strstr(r.body.data, "\"request_counts\":{\"total\":3,\"completed\":0,\"failed\":0}"));
    reply_free(&r);
    ck_assert(run_one(LAC_ITEM_DONE, "{\"n\":1}"));
    ck_assert(run_one(LAC_ITEM_FAILED, "{\"error\":2}"));
    ck_assert(run_one(LAC_ITEM_DONE, "{\"n\":3}"));
    ck_assert(!run_one(LAC_ITEM_DONE, ""));
    snprintf(path, sizeof path, "/v1/batches/%s", id);
    get(path, &r);
    ck_assert_str_eq(field(&r, "status"), "completed");
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"completed\":2,\"failed\":1}"));
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"total_tokens\":18"));
    snprintf(output, sizeof output, "%s", field(&r, "output_file_id"));
    snprintf(path, sizeof path, "/v1/files/%s/content", field(&r, "error_file_id"));
    reply_free(&r);
    get(path, &r);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"custom_id\":\"b\""));
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"status_code\":400"));
    ck_assert_ptr_null(strstr(r.body.data, "\"custom_id\":\"a\""));
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/files/%s/content", output);
    get(path, &r);
    const char *a = strstr(r.body.data, "\"custom_id\":\"a\""),
               *c = strstr(r.body.data, "\"custom_id\":\"c\"");
    ck_assert(a && c && a < c);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"body\":{\"n\":3}"));
    size_t bytes = r.body.length;
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/files/%s", output);
    get(path, &r);
    char text[64];
    snprintf(text, sizeof text, "\"bytes\":%zu,", bytes);
    ck_assert_ptr_nonnull(strstr(r.body.data, text));
    ck_assert_str_eq(field(&r, "purpose"), "batch_output");
    reply_free(&r);
    request("DELETE", path, "", NULL, 0, &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    get(path, &r);
    ck_assert_int_eq(r.status, 404);
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/batches/%s", id);
    get(path, &r);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"output_file_id\":null"));
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/batches/%s/cancel", id);
    request("POST", path, "", "", 0, &r);
    ck_assert_int_eq(r.status, 409); /* it has ended */
    reply_free(&r);
}
END_TEST

START_TEST(test_cancel_and_list)
{
    char file[64], ids[3][64], path[128];
    reply r;
    upload(three, strlen(three), file);
    for (int i = 0; i < 3; i++) {
        create(file, "", &r);
        snprintf(ids[i], sizeof ids[i], "%s", field(&r, "id"));
        reply_free(&r);
    }
    snprintf(path, sizeof path, "/v1/batches/%s/cancel", ids[1]);
    for (int twice = 0; twice < 2; twice++) {
        request("POST", path, "", "", 0, &r);
        ck_assert_int_eq(r.status, 200);
        ck_assert_str_eq(field(&r, "status"), "cancelled");
        reply_free(&r);
    }
    get("/v1/batches?limit=2", &r);
    ck_assert_str_eq(field(&r, "first_id"), ids[2]);
    ck_assert_str_eq(field(&r, "last_id"), ids[1]);
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"has_more\":true"));
    reply_free(&r);
    snprintf(path, sizeof path, "/v1/batches?after=%s", ids[1]);
    get(path, &r);
    ck_assert_str_eq(field(&r, "first_id"), ids[0]);
    reply_free(&r);
}
END_TEST

START_TEST(test_bad_file_makes_a_failed_batch)
{
    char file[64];
    reply r;
    static const char bad[] = LINE("a") "\n" LINE("a");
    upload(bad, strlen(bad), file);
    create(file, "", &r);
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(field(&r, "status"), "failed");
    ck_assert_str_eq(field(&r, "code"), "duplicate_custom_id");
    ck_assert_ptr_nonnull(strstr(r.body.data, "\"line\":2"));
    reply_free(&r);
    ck_assert(!run_one(LAC_ITEM_DONE, "{}"));
}
END_TEST

START_TEST(test_idempotency_key)
{
    char file[64], other[64], id[64];
    reply r;
    upload(three, strlen(three), file);
    upload(LINE("z"), strlen(LINE("z")), other);
    create(file, "Idempotency-Key: k1\r\n", &r);
    snprintf(id, sizeof id, "%s", field(&r, "id"));
    reply_free(&r);
    create(file, "Idempotency-Key: k1\r\n", &r);
    ck_assert_str_eq(field(&r, "id"), id);
    reply_free(&r);
    create(other, "Idempotency-Key: k1\r\n", &r);
    ck_assert_int_eq(r.status, 409);
    reply_free(&r);
    create(file, "Idempotency-Key: k2\r\n", &r);
    ck_assert_str_ne(field(&r, "id"), id);
    reply_free(&r);
}
END_TEST

START_TEST(test_client_leaves)
{
    char file[64];
    client c;
    upload(three, strlen(three), file);
    client_open(&c, &h);
    client_text(&c, "GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n");
    client_close(&c);
    for (int i = 0; i < 20; i++)
        harness_turn(&h, 5);
    reply r;
    get("/v1/files", &r); /* and the next one is served */
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
}
END_TEST

START_TEST(test_requests_follow_on_one_connection)
{
    client c;
    client_open(&c, &h);
    client_text(&c, "GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"
                    "GET /v1/batches HTTP/1.1\r\nHost: x\r\n\r\n"
                    "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    static const char *const texts[] = {"\"object\":\"list\"", "\"object\":\"list\"", "ok"};
    for (int i = 0; i < 3; i++) {
        reply r;
        client_reply(&c, &r, false);
        ck_assert_int_eq(r.status, 200);
        ck_assert_ptr_nonnull(strstr(r.body.data, texts[i]));
        reply_free(&r);
    }
    client_close(&c);
}
END_TEST

START_TEST(test_without_a_store)
{
    reply r;
    h.frontend->options.store = NULL;
    get("/v1/batches", &r);
    ck_assert_int_eq(r.status, 404);
    ck_assert_ptr_nonnull(strstr(r.body.data, "--jobs off"));
    reply_free(&r);
}
END_TEST

START_TEST(test_full_disk)
{
    size_t length = 6 << 20;
    char *large = calloc(1, length), id[64];
    reply r;
    ck_assert_int_eq(upload(large, length, id), 507);
    ck_assert_int_eq(upload("x", 1, id), 507); /* read-only until the disk was tried */
    get("/v1/files", &r);
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    post(&h, "/v1/chat/completions", "{" HI "}", &r); /* others are served meanwhile */
    ck_assert_int_eq(r.status, 200);
    reply_free(&r);
    int status = 0;
    for (uint64_t end = lac_now_ms() + 20000; status != 200 && lac_now_ms() < end;) {
        harness_turn(&h, 20);
        status = upload("x", 1, id);
    }
    ck_assert_int_eq(status, 200);
    free(large);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frontend_batches");
    TCase *pure = tcase_create("pure");
    tcase_add_test(pure, test_multipart);
    tcase_add_test(pure, test_multipart_bad);
    tcase_add_test(pure, test_lines);
    tcase_add_test(pure, test_lines_bad);
    tcase_add_test(pure, test_lines_out);
    suite_add_tcase(suite, pure);
    TCase *http = tcase_create("http");
    tcase_add_checked_fixture(http, setup, teardown);
    tcase_add_test(http, test_files);
    tcase_add_test(http, test_bad_requests);
    tcase_add_test(http, test_batch);
    tcase_add_test(http, test_cancel_and_list);
    tcase_add_test(http, test_bad_file_makes_a_failed_batch);
    tcase_add_test(http, test_idempotency_key);
    tcase_add_test(http, test_client_leaves);
    tcase_add_test(http, test_requests_follow_on_one_connection);
    tcase_add_test(http, test_without_a_store);
    suite_add_tcase(suite, http);
    TCase *small = tcase_create("small");
    tcase_add_checked_fixture(small, setup_small, teardown);
    tcase_set_timeout(small, 60);
    tcase_add_test(small, test_full_disk);
    suite_add_tcase(suite, small);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
