/* Brownout: when it begins and ends, whom it touches, and what they are told. */
#include "harness.h"

static const char log_text[] = "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n"
                               "2025-03-04 10:00:02 WARN [gate] request 4712 took 99 ms\n";
static bench B;
static uint64_t session;

static lac_class_facts facts_of(const char *name, uint8_t byte, lac_tier tier, float cost)
{
    lac_class_facts f = {.digest = {{byte}}, .mask = "A1", .active_layers = 3, .cost = cost};
    snprintf(f.name, sizeof f.name, "%s", name);
    f.serves[LAC_INPUT_STRUCTURED] = (lac_class_serve){tier, 0.01f, 0.02f};
    return f;
}

static void open_bench(uint32_t queue_max)
{
    bench_open_with(&B, (lac_core_options){.tier_max = LAC_TIER_STANDARD,
                                           .brownout_ms = 1000,
                                           .queue_max = queue_max});
    lac_tenant rows[2] = {lac_tenant_default("yes"), lac_tenant_default("no")};
    rows[0].brownout = true;
    for (int i = 0; i < 2; i++) {
        rows[i].has_tier_max = true;
        rows[i].tier_max = LAC_TIER_ECONOMY;
    }
    lac_error err;
    ck_assert_int_eq(lac_core_set_tenants(B.core, B.now, rows, 2, &err), LAC_OK);
    lac_hello h = hello_of("g0", "m", 1);
    lac_class_facts all[] = {facts_of("light", 1, LAC_TIER_GOLD, 0.9f),
                             facts_of("usual", 2, LAC_TIER_STANDARD, 0.8f),
                             facts_of("cheap", 3, LAC_TIER_ECONOMY, 0.5f)};
    h.classes = all;
    h.classes_count = 3;
    say_hello(&B, 1, &h);
    session = expect(&B, LAC_MSG_HELLO_ACK)->session;
}

static void ask(const char *tenant, uint64_t stream, lac_service service)
{
    lac_submit s = submit_of(stream, log_text);
    s.service = service;
    submit_as(&B, 50, tenant, &s);
}

/* Ends one, of which a token may be known, and takes the next. */
static sent next_of(const sent *d)
{
    forget(&B);
    lac_msg cancel = {.envelope.type = LAC_MSG_CLIENT_CANCEL,
                      .body.client_cancel.stream = d->request & 0xff};
    event(&B, LAC_PLANE_CLIENT, 50, &cancel);
    return *expect(&B, LAC_MSG_DISPATCH);
}

static void beats(uint64_t ms)
{
    uint64_t peers[] = {1};
    keep_alive(&B, ms, 1, peers, &session);
}

static int class_of(const sent *d)
{
    return d->has_class ? d->class_digest.bytes[0] : 0;
}

static sent first(void)
{
    forget(&B);
    ask("no", 1, LAC_SERVICE_AUTO);
    sent d = *expect(&B, LAC_MSG_DISPATCH);
    ck_assert_int_eq(class_of(&d), 2);
    return d;
}

START_TEST(saturation_serves_deeper_those_who_allow_it)
{
    open_bench(0);
    sent d = first();
    ask("yes", 2, LAC_SERVICE_AUTO);
    ask("no", 3, LAC_SERVICE_AUTO);
    ask("yes", 4, LAC_SERVICE_STANDARD);
    ask("yes", 5, LAC_SERVICE_PRIORITY);
    beats(2500);
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    int got[6] = {0};
    for (int i = 0; i < 4; i++) {
        d = next_of(&d);
        got[d.request & 0xff] = class_of(&d);
        forget(&B);
        output(&B, 1, session, &d, 0, 1, LAC_FINISH_NONE);
        const sent *t = expect(&B, LAC_MSG_TOKENS);
        bool marked = strncmp(t->why, "brownout: ", 10) == 0;
        ck_assert_msg(marked == (t->stream == 2), "%s", t->why);
    }
    ck_assert_int_eq(got[2], 3);
    ck_assert_int_eq(got[3], 2);
    ck_assert_int_eq(got[4], 2);
    ck_assert_int_eq(got[5], 1); /* gold at most */
    ck_assert(metric(&B, "lacuna_brownout_requests_total", "") == 1);
    bench_close(&B);
}
END_TEST

/* It begins after a second of saturation, ends after ten of calm, and not before. */
START_TEST(it_does_not_flutter)
{
    open_bench(0);
    sent d = first();
    ask("no", 2, LAC_SERVICE_AUTO);
    beats(500);
    ck_assert(metric(&B, "lacuna_brownout", "") == 0);
    beats(1500);
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    d = next_of(&d);
    beats(15000); /* nobody waits, but all that there is runs */
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    cancel(&B, 50, 2);
    beats(9500);
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    beats(1500);
    ck_assert(metric(&B, "lacuna_brownout", "") == 0);
    ck_assert(metric(&B, "lacuna_brownouts_total", "") == 1);
    bench_close(&B);
}
END_TEST

/* A queue that is about to refuse does not wait for the second. */
START_TEST(before_anyone_is_refused)
{
    open_bench(8);
    sent d = first();
    for (uint64_t i = 2; i <= 7; i++)
        ask("yes", i, LAC_SERVICE_AUTO);
    tick(&B, 100);
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    expect_none(&B, LAC_MSG_REFUSED);
    d = next_of(&d);
    ck_assert_int_eq(class_of(&d), 3);
    bench_close(&B);
}
END_TEST

/* FLEX asks for the deepest at any time; a limit of its own holds in a brownout too. */
START_TEST(service_and_limits_choose_the_depth)
{
    open_bench(0);
    sent d = first();
    ask("no", 2, LAC_SERVICE_FLEX);
    forget(&B);
    output(&B, 1, session, &d, 0, 1, LAC_FINISH_STOP);
    d = *expect(&B, LAC_MSG_DISPATCH);
    ck_assert_int_eq(class_of(&d), 3);
    lac_submit s = submit_of(3, log_text);
    s.has_tier = true;
    s.tier_max = LAC_TIER_GOLD;
    submit_as(&B, 50, "yes", &s);
    beats(3000);
    ck_assert(metric(&B, "lacuna_brownout", "") == 1);
    d = next_of(&d);
    ck_assert_int_eq(class_of(&d), 1);
    bench_close(&B);
}
END_TEST

TCase *brownout_case(void)
{
    TCase *t = tcase_create("brownout");
    tcase_add_test(t, saturation_serves_deeper_those_who_allow_it);
    tcase_add_test(t, it_does_not_flutter);
    tcase_add_test(t, before_anyone_is_refused);
    tcase_add_test(t, service_and_limits_choose_the_depth);
    return t;
}
