/* Quotas as header lines, causes as HTTP statuses, service tiers, and the body of a feedback. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "feedback.h"
#include "harness.h"
#include "quota.h"

START_TEST(quotas_are_header_lines)
{
    lac_buf out = {.cap = 4096};
    lac__quota_headers(&(lac_quota){0}, &out);
    ck_assert_uint_eq(out.length, 0);
    lac_quota q = {.requests_limit = 60,
                   .requests_left = 3,
                   .requests_reset_ms = 57001,
                   .tokens_limit = 1000,
                   .tokens_left = 0,
                   .tokens_reset_ms = 61000};
    lac__problem problem;
    lac__problem_from_status(&problem, LAC_BUSY, 1001, "tokens are used up");
    lac__problem_cause(&problem, LAC_CAUSE_QUOTA);
    ck_assert_int_eq(problem.http, 429);
    ck_assert_str_eq(problem.code, "rate_limit_exceeded");
    lac__refusal_headers(&problem, &q, &out);
    ck_assert_str_eq(out.data, "Retry-After: 2\r\n"
                               "x-ratelimit-limit-requests: 60\r\n"
                               "x-ratelimit-remaining-requests: 3\r\n"
                               "x-ratelimit-reset-requests: 58s\r\n"
                               "x-ratelimit-limit-tokens: 1000\r\n"
                               "x-ratelimit-remaining-tokens: 0\r\n"
                               "x-ratelimit-reset-tokens: 1m1s\r\n");
    lac_buf_clear(&out);
    q = (lac_quota){.requests_limit = 1, .requests_left = 1, .requests_reset_ms = 999};
    lac__quota_headers(&q, &out);
    ck_assert_ptr_nonnull(strstr(out.data, "reset-requests: 999ms\r\n"));
    ck_assert_ptr_null(strstr(out.data, "tokens"));
    lac_buf_free(&out);
    lac__problem_from_status(&problem, LAC_EREFUSED, 0, "model is \"m\", which …");
    lac__problem_cause(&problem, LAC_CAUSE_DENIED);
    ck_assert_int_eq(problem.http, 403);
    ck_assert_uint_eq(problem.retry_after_ms, 0);
    lac__problem_from_status(&problem, LAC_EREFUSED, 0, "stopping");
    lac__problem_cause(&problem, LAC_CAUSE_NONE);
    ck_assert_int_eq(problem.http, 503);
}
END_TEST

START_TEST(service_tiers_are_read)
{
    static const struct {
        const char *name;
        lac_service service;
    } names[] = {{"auto", LAC_SERVICE_AUTO},
                 {"default", LAC_SERVICE_STANDARD},
                 {"flex", LAC_SERVICE_FLEX},
                 {"priority", LAC_SERVICE_PRIORITY},
                 {"scale", LAC_SERVICE_AUTO}};
    lac__api_request r;
    lac__problem problem;
    char body[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(body, sizeof body, "{" HI ",\"service_tier\":\"%s\"}", names[i].name);
        ck_assert_msg(lac__api_parse(LAC__API_CHAT, body, strlen(body), &r, &problem), "%s",
                      problem.message);
        ck_assert_int_eq(r.submit.service, names[i].service);
        lac__api_free(&r);
    }
    snprintf(body, sizeof body, "{" HI ",\"service_tier\":\"gold\"}");
    ck_assert(!lac__api_parse(LAC__API_CHAT, body, strlen(body), &r, &problem));
    ck_assert_int_eq(problem.http, 400);
    ck_assert_ptr_nonnull(strstr(problem.message, "service_tier is \"gold\", allowed: auto"));
}
END_TEST

START_TEST(feedback_is_read)
{
    uint64_t request = 0;
    bool good = false;
    lac__problem problem;
    static const char text[] = "{\"request\":\"4711\",\"rating\":\"good\"}";
    ck_assert(lac__feedback_parse(text, sizeof text - 1, &request, &good, &problem));
    ck_assert(request == 4711 && good);
    static const char number[] = "{\"rating\":\"bad\",\"request\":12}";
    ck_assert(lac__feedback_parse(number, sizeof number - 1, &request, &good, &problem));
    ck_assert(request == 12 && !good);
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"request\":1}",
                                      "{\"request\":0,\"rating\":\"good\"}",
                                      "{\"request\":-1,\"rating\":\"good\"}",
                                      "{\"request\":\"x\",\"rating\":\"good\"}",
                                      "{\"request\":1.5,\"rating\":\"good\"}",
                                      "{\"request\":1,\"rating\":\"fine\"}",
                                      "{\"request\":1,\"rating\":true}",
                                      "{\"request\":1,\"rating\":\"good\",\"why\":\"x\"}",
                                      "{\"request\":1,\"request\":1,\"rating\":\"good\"}",
                                      "{\"request\":1,"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(!lac__feedback_parse(bad[i], strlen(bad[i]), &request, &good, &problem), "%s",
                      bad[i]);
        ck_assert_int_eq(problem.http, 400);
    }
}
END_TEST

START_TEST(feedback_has_its_statuses)
{
    static const struct {
        const char *body;
        int status;
        const char *says;
    } cases[] = {
        {"{\"request\":\"7\",\"rating\":\"good\"}", 200, "\"request\":\"7\",\"rating\":\"good\""},
        {"{\"request\":1,\"rating\":\"bad\"}", 409, "judged already"},
        {"{\"request\":2,\"rating\":\"bad\"}", 404, "not yours"},
        {"{\"request\":2}", 400, "rating"}};
    harness h;
    harness_start(&h, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reply r;
        post(&h, "/v1/feedback", cases[i].body, &r);
        ck_assert_int_eq(r.status, cases[i].status);
        ck_assert_msg(strstr(r.body.data, cases[i].says) != NULL, "%s", r.body.data);
        reply_free(&r);
    }
    harness_stop(&h);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {quotas_are_header_lines, service_tiers_are_read, feedback_is_read,
                                  feedback_has_its_statuses, NULL};
    return run_suite("frontend_quota", tests);
}
