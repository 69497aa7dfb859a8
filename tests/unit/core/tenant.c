/* Tenants: turns by weight, quotas over time, what rules allow, and what clients are told. */
#include "harness.h"

static bench B;
static uint64_t session;

static lac_tenant rules(const char *name, uint32_t weight)
{
    lac_tenant t = lac_tenant_default(name);
    t.weight = weight;
    return t;
}

static void set(const lac_tenant *rows, size_t count)
{
    lac_error err;
    ck_assert_int_eq(lac_core_set_tenants(B.core, B.now, rows, count, &err), LAC_OK);
}

static void ask(const char *tenant, uint64_t stream)
{
    lac_submit s = submit_of(stream, "hello");
    s.sampling.max_tokens = 4;
    submit_as(&B, 50, tenant, &s);
}

/* The stream of a dispatched request: they are numbered as they come. */
static uint64_t stream_of(const sent *d)
{
    return d->request & 0xffff;
}

static void end_one(const sent *d, uint32_t tokens)
{
    output(&B, 1, session, d, 0, tokens, LAC_FINISH_STOP);
}

/* ---- turns ---- */

START_TEST(the_work_is_shared_by_weight)
{
    bench_open(&B);
    lac_tenant rows[] = {rules("a", 3), rules("b", 1)};
    set(rows, 2);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 2; i <= 41; i++)
        ask(i % 2 ? "a" : "b", i);
    int first[2] = {0};
    for (int i = 0; i < 24; i++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
        first[stream_of(&d) % 2]++;
        if (i % 4 == 3)
            beat(&B, 1, session, (lac_heartbeat){0});
    }
    ck_assert_int_ge(first[1], 17);
    ck_assert_int_le(first[1], 19);
    bench_close(&B);
}
END_TEST

/* One that floods does not hold up one that asks for little, and is not held up when alone. */
START_TEST(a_flood_waits_behind_itself)
{
    bench_open(&B);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 2; i <= 100; i++)
        ask("flood", i);
    for (int i = 0; i < 10; i++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
    }
    ask("small", 101);
    int before = 0;
    for (; stream_of(&d) != 101 && before < 10; before++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
    }
    ck_assert_int_le(before, 3);
    bench_close(&B);
}
END_TEST

/* What an answer took beyond its prediction is put on the bill. */
START_TEST(long_answers_count)
{
    bench_open(&B);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    for (uint64_t i = 2; i <= 61; i++) {
        lac_submit s = submit_of(i, "hello");
        submit_as(&B, 50, i % 2 ? "long" : "short", &s);
    }
    int count[2] = {0};
    for (int i = 0; i < 30; i++) {
        bool is_long = i && stream_of(&d) % 2;
        forget(&B);
        for (uint32_t k = 0; is_long && k < 7; k++)
            output(&B, 1, session, &d, k * 60, 60, LAC_FINISH_NONE);
        output(&B, 1, session, &d, is_long ? 420 : 0, 1, LAC_FINISH_STOP);
        d = *expect(&B, LAC_MSG_DISPATCH);
        count[stream_of(&d) % 2]++;
    }
    ck_assert_int_ge(count[0], 3 * count[1]);
    ck_assert_int_ge(count[1], 1);
    bench_close(&B);
}
END_TEST

/* Less than normal priority goes when nothing else can, but not for ever. */
START_TEST(low_priority_yields_across_tenants)
{
    bench_open(&B);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    lac_submit s = submit_of(2, "hello");
    s.priority = -1;
    submit_as(&B, 50, "batch", &s);
    for (uint64_t i = 3; i <= 12; i++)
        ask("people", i);
    for (int i = 0; i < 3; i++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
        ck_assert_uint_ge(stream_of(&d), 3);
    }
    uint64_t peers[] = {1};
    keep_alive(&B, 10500, 1, peers, &session);
    bool came = false;
    for (int i = 0; i < 2; i++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
        came |= stream_of(&d) == 2;
    }
    ck_assert(came);
    bench_close(&B);
}
END_TEST

START_TEST(a_ceiling_lowers_what_is_asked)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.priority_max = 0;
    set(&row, 1);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    ask("a", 2);
    lac_submit s = submit_of(3, "hello");
    s.priority = 2;
    submit_as(&B, 50, "a", &s);
    s.stream = 4;
    s.priority = 0;
    s.service = LAC_SERVICE_PRIORITY;
    submit_as(&B, 50, "a", &s);
    forget(&B);
    end_one(&d, 2);
    ck_assert_uint_eq(stream_of(expect(&B, LAC_MSG_DISPATCH)), 2);
    bench_close(&B);
}
END_TEST

START_TEST(service_moves_within_a_tenant)
{
    bench_open(&B);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    const lac_service asked[] = {LAC_SERVICE_FLEX, LAC_SERVICE_AUTO, LAC_SERVICE_PRIORITY};
    const uint64_t order[] = {4, 3, 2};
    for (uint64_t i = 0; i < 3; i++) {
        lac_submit s = submit_of(2 + i, "hello");
        s.service = asked[i];
        submit_as(&B, 50, "a", &s);
    }
    for (int i = 0; i < 3; i++) {
        forget(&B);
        end_one(&d, 2);
        d = *expect(&B, LAC_MSG_DISPATCH);
        ck_assert_uint_eq(stream_of(&d), order[i]);
    }
    bench_close(&B);
}
END_TEST

/* ---- quotas ---- */

START_TEST(requests_a_minute)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.requests_minute = 6;
    set(&row, 1);
    join(&B, 1, "g0", 64);
    for (uint64_t i = 1; i <= 6; i++)
        ask("a", i);
    B.read = 0;
    for (uint64_t i = 1; i <= 6; i++) {
        const sent *yes = expect(&B, LAC_MSG_ACCEPTED);
        ck_assert_uint_eq(yes->quota.requests_limit, 6);
        ck_assert_uint_eq(yes->quota.requests_left, 6 - i);
        ck_assert_uint_eq(yes->quota.tokens_limit, 0);
    }
    ask("a", 7);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->status, LAC_BUSY);
    ck_assert_int_eq(no->cause, LAC_CAUSE_QUOTA);
    ck_assert_uint_eq(no->retry_after_ms, 10000);
    ck_assert_uint_eq(no->quota.requests_left, 0);
    ck_assert_uint_eq(no->quota.requests_reset_ms, 60000);
    ck_assert_ptr_nonnull(strstr(no->reason, "requests"));
    ck_assert_ptr_nonnull(strstr(no->reason, "6 a minute"));
    ask("b", 8); /* another's is another's */
    expect(&B, LAC_MSG_ACCEPTED);
    B.now += 9999;
    ask("a", 9);
    ck_assert_uint_eq(expect(&B, LAC_MSG_REFUSED)->retry_after_ms, 1);
    B.now += 1;
    ask("a", 10);
    expect(&B, LAC_MSG_ACCEPTED);
    ck_assert(metric(&B, "lacuna_quota_refusals_total", "quota=\"requests\"") == 2);
    bench_close(&B);
}
END_TEST

/* Reserved by the longest answer asked for, set right at the end. */
START_TEST(tokens_a_minute)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.tokens_minute = 600;
    set(&row, 1);
    session = join(&B, 1, "g0", 8);
    lac_submit s = submit_of(1, "hello"); /* two tokens by estimate, five by the worker */
    s.sampling.max_tokens = 500;
    submit_as(&B, 50, "a", &s);
    B.read = 0;
    ck_assert_uint_eq(expect(&B, LAC_MSG_ACCEPTED)->quota.tokens_left, 98);
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    s.stream = 2;
    s.sampling.max_tokens = 97;
    submit_as(&B, 50, "a", &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->cause, LAC_CAUSE_QUOTA);
    ck_assert_uint_eq(no->retry_after_ms, 100); /* one token */
    ck_assert_ptr_nonnull(strstr(no->reason, "99 are asked for, 98 left of 600 a minute"));
    end_one(&d, 10);
    s.stream = 3;
    s.sampling.max_tokens = 1;
    submit_as(&B, 50, "a", &s);
    ck_assert_uint_eq(expect(&B, LAC_MSG_ACCEPTED)->quota.tokens_left, 600 - 15 - 3);
    bench_close(&B);
}
END_TEST

/* What never ran costs nothing; what went beyond is owed. */
START_TEST(tokens_are_given_back_and_owed)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.tokens_minute = 600;
    set(&row, 1);
    lac_submit s = submit_of(1, "hello");
    s.sampling.max_tokens = 590;
    submit_as(&B, 50, "a", &s);
    cancel(&B, 50, 1);
    session = join(&B, 1, "g0", 8);
    s.stream = 2;
    s.sampling.max_tokens = 0; /* as many as usual: 129 */
    submit_as(&B, 50, "a", &s);
    B.read = 0;
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    forget(&B);
    for (uint32_t i = 0; i < 10; i++)
        output(&B, 1, session, &d, i * 60, 60, LAC_FINISH_NONE);
    output(&B, 1, session, &d, 600, 60, LAC_FINISH_STOP);
    s.stream = 3;
    s.sampling.max_tokens = 1;
    submit_as(&B, 50, "a", &s);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    /* 665 used of 600; three are asked for; one comes every 100 ms. */
    ck_assert_uint_eq(no->retry_after_ms, 6800);
    ck_assert_uint_eq(no->quota.tokens_left, 0);
    bench_close(&B);
}
END_TEST

START_TEST(more_than_a_minute_holds_goes_when_it_is_full)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.tokens_minute = 100;
    set(&row, 1);
    join(&B, 1, "g0", 8);
    lac_submit s = submit_of(1, "hello");
    s.sampling.max_tokens = 298;
    submit_as(&B, 50, "a", &s);
    B.read = 0;
    expect(&B, LAC_MSG_ACCEPTED);
    s.stream = 2;
    submit_as(&B, 50, "a", &s);
    ck_assert_uint_eq(expect(&B, LAC_MSG_REFUSED)->retry_after_ms, 180000);
    bench_close(&B);
}
END_TEST

START_TEST(concurrency_is_what_waits_and_runs)
{
    bench_open(&B);
    lac_tenant row = rules("*", 1); /* the rest, and those without a key */
    row.concurrency = 2;
    set(&row, 1);
    session = join(&B, 1, "g0", 1);
    sent d = *submit_and_dispatch(&B, 50, 1);
    ask("", 2);
    ask(NULL, 3);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 3);
    ck_assert_int_eq(no->cause, LAC_CAUSE_QUOTA);
    ck_assert_uint_gt(no->retry_after_ms, 0);
    ck_assert_ptr_nonnull(strstr(no->reason, "2 waiting and running, limit 2"));
    end_one(&d, 2);
    ask("", 4);
    expect_none(&B, LAC_MSG_REFUSED);
    cancel(&B, 50, 4);
    lost(&B, LAC_PLANE_CLIENT, 50);
    ask("", 5);
    ask("", 6);
    expect_none(&B, LAC_MSG_REFUSED);
    bench_close(&B);
}
END_TEST

/* New rules hold at once; what was used stays used. */
START_TEST(rules_change_while_running)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.requests_minute = 10;
    set(&row, 1);
    join(&B, 1, "g0", 64);
    for (uint64_t i = 1; i <= 8; i++)
        ask("a", i);
    row.requests_minute = 4;
    set(&row, 1);
    forget(&B);
    ask("a", 9);
    ck_assert_uint_eq(expect(&B, LAC_MSG_ACCEPTED)->quota.requests_left, 1);
    ask("a", 10);
    ask("a", 11);
    expect(&B, LAC_MSG_REFUSED);
    set(NULL, 0);
    ask("a", 12);
    ck_assert_uint_eq(expect(&B, LAC_MSG_ACCEPTED)->quota.requests_limit, 0);
    bench_close(&B);
}
END_TEST

/* ---- rights ---- */

START_TEST(models_and_the_sparse_header_can_be_barred)
{
    bench_open(&B);
    lac_tenant row = rules("a", 1);
    row.models_count = 1;
    snprintf(row.models[0], sizeof row.models[0], "other");
    row.sparse_header = false;
    set(&row, 1);
    ask("a", 1); /* nobody serves yet: the name is not known */
    join(&B, 1, "g0", 8);
    const sent *no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_uint_eq(no->stream, 1);
    ck_assert_int_eq(no->status, LAC_EREFUSED);
    ck_assert_int_eq(no->cause, LAC_CAUSE_DENIED);
    ask("a", 2);
    no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->cause, LAC_CAUSE_DENIED);
    ck_assert_ptr_nonnull(strstr(no->reason, "model is \"tiny\", which tenant \"a\" may not use"));
    ask("b", 3);
    expect(&B, LAC_MSG_DISPATCH);
    row.models_count = 0;
    set(&row, 1);
    lac_submit s = submit_of(4, "hello");
    s.sparse = LAC_SPARSE_OFF;
    submit_as(&B, 50, "a", &s);
    no = expect(&B, LAC_MSG_REFUSED);
    ck_assert_int_eq(no->cause, LAC_CAUSE_DENIED);
    ck_assert_ptr_nonnull(strstr(no->reason, "sparse"));
    bench_close(&B);
}
END_TEST

/* Cached prefixes are a tenant's own; those without a key share one. */
START_TEST(every_tenant_has_its_salt)
{
    bench_open(&B);
    join(&B, 1, "g0", 8);
    const char *const names[] = {"a", "b", "a", "", NULL};
    sent d[5];
    for (uint64_t i = 0; i < 5; i++) {
        forget(&B);
        ask(names[i], i + 1);
        d[i] = *expect(&B, LAC_MSG_DISPATCH);
    }
    static const uint8_t none[16];
    ck_assert_mem_ne(d[0].cache_salt, d[1].cache_salt, 16);
    ck_assert_mem_eq(d[0].cache_salt, d[2].cache_salt, 16);
    ck_assert_mem_ne(d[0].cache_salt, none, 16);
    ck_assert_mem_eq(d[3].cache_salt, none, 16);
    ck_assert_mem_eq(d[4].cache_salt, none, 16);
    bench_close(&B);
}
END_TEST

/* Tenants come and go; their records do not stay for ever. */
START_TEST(many_names_are_forgotten)
{
    bench_open_with(&B, (lac_core_options){0});
    lac_tenant row = rules("*", 1);
    row.requests_minute = 60;
    set(&row, 1);
    for (uint64_t i = 1; i <= LAC_TENANTS_MAX + 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "t%llu", (unsigned long long)i);
        lac_submit s = submit_of(i, "x");
        lac_msg msg = {.envelope.type = LAC_MSG_SUBMIT, .body.submit = s, .tenant = name};
        lac_event e = {
            .kind = LAC_EVENT_MESSAGE, .plane = LAC_PLANE_CLIENT, .peer = 50, .msg = &msg};
        B.now += 20;
        B.log_count = B.read = 0;
        lac_core_step(B.core, B.now, &e);
        ck_assert_ptr_null(next_sent(&B, LAC_MSG_REFUSED));
        msg = (lac_msg){.envelope.type = LAC_MSG_CLIENT_CANCEL, .body.client_cancel.stream = i};
        lac_core_step(B.core, B.now, &e);
    }
    bench_close(&B);
}
END_TEST

TCase *tenant_case(void)
{
    TCase *t = tcase_create("tenant");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, the_work_is_shared_by_weight);
    tcase_add_test(t, a_flood_waits_behind_itself);
    tcase_add_test(t, long_answers_count);
    tcase_add_test(t, low_priority_yields_across_tenants);
    tcase_add_test(t, a_ceiling_lowers_what_is_asked);
    tcase_add_test(t, service_moves_within_a_tenant);
    tcase_add_test(t, requests_a_minute);
    tcase_add_test(t, tokens_a_minute);
    tcase_add_test(t, tokens_are_given_back_and_owed);
    tcase_add_test(t, more_than_a_minute_holds_goes_when_it_is_full);
    tcase_add_test(t, concurrency_is_what_waits_and_runs);
    tcase_add_test(t, rules_change_while_running);
    tcase_add_test(t, models_and_the_sparse_header_can_be_barred);
    tcase_add_test(t, every_tenant_has_its_salt);
    tcase_add_test(t, many_names_are_forgotten);
    return t;
}
