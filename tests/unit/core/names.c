/* Names of models: default, aliases, rows by type and task, and what an unknown name is told. And
 * what people say of answers, by class and arm. */
#include "harness.h"

static const char log_text[] = "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n"
                               "2025-03-04 10:00:02 WARN [gate] request 4712 took 99 ms\n";
static bench B;
static uint64_t sessions[4];

static lac_model_names names;

static void serve(uint64_t peer, const char *group, const char *model)
{
    lac_hello h = hello_of(group, model, 8);
    forget(&B);
    say_hello(&B, peer, &h);
    sessions[peer] = expect(&B, LAC_MSG_HELLO_ACK)->session;
}

static void set(void)
{
    lac_error err;
    ck_assert_msg(lac_core_set_models(B.core, &names, &err) == LAC_OK, "%s", err.text);
}

static void alias(const char *name, const char *model)
{
    lac_alias *a = &names.aliases[names.aliases_count++];
    snprintf(a->name, sizeof a->name, "%s", name);
    snprintf(a->model, sizeof a->model, "%s", model);
}

static void route(const char *asked, const char *type, const char *task, const char *model)
{
    lac_route *r = &names.routes[names.routes_count++];
    snprintf(r->asked, sizeof r->asked, "%s", asked);
    snprintf(r->type, sizeof r->type, "%s", type);
    snprintf(r->task, sizeof r->task, "%s", task);
    snprintf(r->model, sizeof r->model, "%s", model);
}

static const sent *ask(uint64_t stream, const char *model, const char *text)
{
    lac_submit s = submit_of(stream, text);
    snprintf(s.model, sizeof s.model, "%s", model);
    forget(&B);
    submit(&B, 50, &s);
    return &B.log[B.read];
}

static void goes_to(uint64_t stream, const char *model, const char *text, const char *served)
{
    ask(stream, model, text);
    const sent *yes = expect(&B, LAC_MSG_ACCEPTED);
    ck_assert_str_eq(yes->model, served);
    uint64_t peer = !strcmp(served, "big") ? 1 : 2;
    ck_assert_uint_eq(expect(&B, LAC_MSG_DISPATCH)->peer, peer);
}

static void open_two(void)
{
    bench_open(&B);
    names = (lac_model_names){0};
    serve(1, "g0", "big");
    serve(2, "g1", "small");
}

START_TEST(default_and_aliases)
{
    open_two();
    goes_to(1, "", "x", "big"); /* the first that came */
    snprintf(names.preset, sizeof names.preset, "small");
    alias("gpt-4o", "big");
    alias("big", "small"); /* a model of that name comes first */
    alias("later", "unseen");
    set();
    goes_to(2, "", "x", "small");
    goes_to(3, "gpt-4o", "x", "big");
    goes_to(4, "big", "x", "big");
    ask(5, "later", "x");
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_ENOTFOUND);
    ask(6, "unknown", "x");
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_ENOTFOUND);
    ck_assert_msg(strstr(no->reason, "there are: big, small, gpt-4o (big)") != NULL, "%s",
                  no->reason);
    bench_close(&B);
}
END_TEST

START_TEST(rows_send_type_and_task_elsewhere)
{
    open_two();
    alias("auto", "big");
    route("auto", "structured", "*", "small");
    route("*", "*", "summarize", "gone"); /* nobody serves it: the row does not count */
    set();
    goes_to(1, "auto", log_text, "small");
    goes_to(2, "big", log_text, "big");
    goes_to(3, "auto", "Once upon a time there was a king who lived by the sea.", "big");
    ck_assert(metric(&B, "lacuna_routed_requests_total", "") == 1);
    /* While its group drains, the row leaves requests where they were. */
    lac_core_drain_group(B.core, B.now, "g1", 1000);
    goes_to(4, "auto", log_text, "big");
    bench_close(&B);
}
END_TEST

START_TEST(wrong_tables_are_refused)
{
    bench_open(&B);
    lac_error err;
    names = (lac_model_names){0};
    alias("a", "x");
    alias("a", "y");
    ck_assert_int_eq(lac_core_set_models(B.core, &names, &err), LAC_EEXIST);
    names = (lac_model_names){0};
    route("*", "poems", "*", "x");
    ck_assert_int_eq(lac_core_set_models(B.core, &names, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "type is \"poems\""));
    names.routes_count = 0;
    route("*", "code", "cook", "x");
    ck_assert_int_eq(lac_core_set_models(B.core, &names, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "task is \"cook\""));
    bench_close(&B);
}
END_TEST

/* ---- feedback ---- */

START_TEST(said_once_by_its_own_tenant)
{
    open_two();
    lac_submit s = submit_of(1, "x");
    forget(&B);
    submit_as(&B, 50, "kim", &s);
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    lac_error err;
    ck_assert_int_eq(lac_core_feedback(B.core, "kim", d.request, true, &err), LAC_ENOTFOUND);
    output(&B, 1, sessions[1], &d, 0, 2, LAC_FINISH_STOP);
    ck_assert_int_eq(lac_core_feedback(B.core, "lee", d.request, true, &err), LAC_ENOTFOUND);
    ck_assert_int_eq(lac_core_feedback(B.core, NULL, d.request, true, &err), LAC_ENOTFOUND);
    lac_msg msg = {.envelope.type = LAC_MSG_FEEDBACK,
                   .body.feedback = {.stream = 7, .request = d.request, .good = true},
                   .tenant = "kim"};
    forget(&B);
    event(&B, LAC_PLANE_CLIENT, 50, &msg);
    expect(&B, LAC_MSG_ORDERED);
    event(&B, LAC_PLANE_CLIENT, 50, &msg);
    ck_assert_int_eq(expect(&B, LAC_MSG_REFUSED)->status, LAC_EEXIST);
    ck_assert(metric(&B, "lacuna_feedback_total", "class=\"full\",arm=\"full\",verdict=\"good\"") ==
              1);
    bench_close(&B);
}
END_TEST

START_TEST(leaving_counts_between_first_token_and_end)
{
    open_two();
    sent d[3];
    for (uint64_t i = 0; i < 3; i++) {
        ask(i + 1, "big", "x");
        d[i] = *expect(&B, LAC_MSG_DISPATCH);
    }
    cancel(&B, 50, 1); /* before any token */
    output(&B, 1, sessions[1], &d[1], 0, 1, LAC_FINISH_NONE);
    cancel(&B, 50, 2);
    output(&B, 1, sessions[1], &d[2], 0, 1, LAC_FINISH_NONE);
    lost(&B, LAC_PLANE_CLIENT, 50);
    ck_assert(metric(&B, "lacuna_abandoned_total", "class=\"full\",arm=\"full\"") == 2);
    bench_close(&B);
}
END_TEST

TCase *names_case(void)
{
    TCase *t = tcase_create("names");
    tcase_add_test(t, default_and_aliases);
    tcase_add_test(t, rows_send_type_and_task_elsewhere);
    tcase_add_test(t, wrong_tables_are_refused);
    tcase_add_test(t, said_once_by_its_own_tenant);
    tcase_add_test(t, leaving_counts_between_first_token_and_end);
    return t;
}
