/* Classes in the core: which one a request gets, where it runs, what becomes of it when its group
 * goes, hints, what may be forced, the guard, and what people see. */
#include "harness.h"

static const char log_text[] = "2025-03-04 10:00:01 INFO [gate] request 4711 took 12 ms\n"
                               "2025-03-04 10:00:02 WARN [gate] request 4712 took 99 ms\n";
static const char prose[] =
    "Once upon a time there was a king who lived in a castle by the sea, and "
    "he had three daughters whom he loved more than all his gold.";

#define STRUCTURED LAC_INPUT_STRUCTURED

/* Certified for structured input: `deep` costs less than `light`; `cheap` least, but is economy. */
static lac_class_facts deep, light, cheap;

static lac_class_facts facts_of(const char *name, uint8_t byte, lac_tier tier, float cost)
{
    lac_class_facts f = {.digest = {{byte}},
                         .mask = "A1",
                         .active_layers = 3,
                         .skip_rate = 0.125f,
                         .cost_skip_rate = 0.25f,
                         .cost = cost};
    snprintf(f.name, sizeof f.name, "%s", name);
    f.serves[STRUCTURED] = (lac_class_serve){tier, 0.01f, 0.02f};
    return f;
}

static void setup(void)
{
    deep = facts_of("deep", 1, LAC_TIER_STANDARD, 0.80f);
    light = facts_of("light", 2, LAC_TIER_GOLD, 0.90f);
    cheap = facts_of("cheap", 3, LAC_TIER_ECONOMY, 0.50f);
}

static void open_bench(bench *b)
{
    bench_open_with(b, (lac_core_options){.tier_max = LAC_TIER_STANDARD, .allow_force = true});
}

static uint64_t sessions[16]; /* by peer */

static void hello_as(bench *b, uint64_t peer, const char *group, const lac_class_facts *classes,
                     uint32_t count)
{
    lac_hello h = hello_of(group, "m", 4);
    h.classes = classes;
    h.classes_count = count;
    say_hello(b, peer, &h);
    const sent *ack = expect(b, LAC_MSG_HELLO_ACK);
    ck_assert_uint_eq(ack->peer, peer);
    sessions[peer] = ack->session;
}

/* No new work for a group. */
static void drain(bench *b, const char *group)
{
    ck_assert_int_eq(lac_core_drain_group(b->core, b->now, group, 60000), LAC_OK);
}

static void step_output(bench *b, uint64_t peer, const sent *dispatch, uint32_t first_pos,
                        uint32_t count, lac_finish finish)
{
    output(b, peer, sessions[peer], dispatch, first_pos, count, finish);
}

static void end_with(bench *b, uint64_t peer, const sent *d, const lac_run_account *account)
{
    lac_step_item item = {.request = d->request,
                          .attempt = d->attempt,
                          .finish = LAC_FINISH_STOP,
                          .usage = {.prompt_tokens = 5},
                          .account = account};
    output_item(b, peer, sessions[peer], &item);
}

static const sent *ask(bench *b, uint64_t stream, const char *text, void (*bend)(lac_submit *s))
{
    lac_submit s = submit_of(stream, text);
    if (bend)
        bend(&s);
    submit(b, 1, &s);
    return expect(b, LAC_MSG_DISPATCH);
}

static void runs_as(const sent *dispatch, const lac_class_facts *class)
{
    ck_assert(dispatch->has_class);
    ck_assert_uint_eq(dispatch->class_digest.bytes[0], class->digest.bytes[0]);
}

START_TEST(the_deepest_certified_class_of_an_allowed_tier)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {light, deep, cheap};
    hello_as(&b, 11, "g0", all, 3);
    const sent *d = ask(&b, 1, log_text, NULL);
    runs_as(d, &deep);
    ck_assert_int_eq(d->input_type, STRUCTURED);
    ck_assert(!ask(&b, 2, prose, NULL)->has_class);
    bench_close(&b);
}
END_TEST

static void gold_only(lac_submit *s)
{
    s->has_tier = true;
    s->tier_max = LAC_TIER_GOLD;
}

static void more_than_allowed(lac_submit *s)
{
    s->has_tier = true;
    s->tier_max = LAC_TIER_ECONOMY;
}

static void no_sparse(lac_submit *s)
{
    s->sparse = LAC_SPARSE_OFF;
}

START_TEST(a_request_may_allow_less_never_more)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {light, deep, cheap};
    hello_as(&b, 11, "g0", all, 3);
    runs_as(ask(&b, 1, log_text, gold_only), &light);
    runs_as(ask(&b, 2, log_text, more_than_allowed), &deep);
    ck_assert(!ask(&b, 3, log_text, no_sparse)->has_class);
    runs_as(ask(&b, 4, log_text, NULL), &deep); /* the cache did not mix them up */
    bench_close(&b);
}
END_TEST

static double hints(bench *b, const char *label)
{
    return metric(b, "lacuna_hints_total", label);
}

static const lac_digest *hinted;
static void with_hint(lac_submit *s)
{
    lac_class_hint(hinted, s->hint);
}

START_TEST(hints_are_advice)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {light, deep, cheap};
    hello_as(&b, 11, "g0", all, 3);
    hinted = &light.digest; /* 12.5 % beside the own choice */
    runs_as(ask(&b, 1, log_text, with_hint), &light);
    ck_assert_double_eq(hints(&b, "reason=\"honoured\""), 1);
    hinted = &cheap.digest; /* its tier is not allowed */
    runs_as(ask(&b, 2, log_text, with_hint), &deep);
    ck_assert_double_eq(hints(&b, "reason=\"uncertified\""), 1);
    ck_assert(!ask(&b, 3, prose, with_hint)->has_class);
    ck_assert_double_eq(hints(&b, "reason=\"uncertified\""), 2);
    lac_digest nobody = {{99}};
    hinted = &nobody;
    runs_as(ask(&b, 4, log_text, with_hint), &deep);
    ck_assert_double_eq(hints(&b, "reason=\"unknown\""), 1);
    lac_submit s = submit_of(5, log_text);
    strcpy(s.hint, "short");
    submit(&b, 1, &s);
    const sent *r = expect(&b, LAC_MSG_REFUSED);
    ck_assert_int_eq(r->status, LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(r->reason, "5 characters"));
    ck_assert_double_eq(hints(&b, "reason=\"length\""), 1);
    bench_close(&b);
}
END_TEST

START_TEST(a_hint_too_far_from_the_own_choice_is_ignored)
{
    bench b;
    open_bench(&b);
    lac_class_facts near = facts_of("near", 7, LAC_TIER_GOLD, 0.93f); /* 16 % above 0.80 */
    lac_class_facts all[] = {near, deep};
    hello_as(&b, 11, "g0", all, 2);
    hinted = &near.digest;
    runs_as(ask(&b, 1, log_text, with_hint), &deep);
    ck_assert_double_eq(hints(&b, "reason=\"deviates\""), 1);
    bench_close(&b);
}
END_TEST

START_TEST(groups_that_hold_the_class_come_first)
{
    bench b;
    open_bench(&b);
    hello_as(&b, 11, "g0", NULL, 0);
    hello_as(&b, 12, "g1", &deep, 1);
    for (uint64_t i = 1; i <= 5; i++) { /* four slots and a quarter */
        const sent *d = ask(&b, i, log_text, NULL);
        ck_assert_uint_eq(d->peer, 12);
        runs_as(d, &deep);
    }
    const sent *d = ask(&b, 6, log_text, NULL); /* no room there: rather in full at once */
    ck_assert_uint_eq(d->peer, 11);
    ck_assert(!d->has_class);
    ck_assert_double_eq(metric(&b, "lacuna_class_fallbacks_total", "reason=\"no_room\""), 1);
    bench_close(&b);
}
END_TEST

START_TEST(a_move_keeps_the_class)
{
    bench b;
    open_bench(&b);
    hello_as(&b, 11, "g0", &deep, 1);
    const sent *d = ask(&b, 1, log_text, NULL);
    step_output(&b, 11, d, 0, 3, LAC_FINISH_NONE);
    hello_as(&b, 12, "g1", NULL, 0);
    hello_as(&b, 13, "g2", &deep, 1);
    lost(&b, LAC_PLANE_WORKER, 11);
    d = expect_moved(&b);
    ck_assert_uint_eq(d->peer, 13);
    ck_assert_uint_eq(d->accepted_count, 3);
    runs_as(d, &deep);
    bench_close(&b);
}
END_TEST

/* It has begun as a class: rather than run again in full it waits for a holder's slot. */
START_TEST(a_moved_one_waits_for_a_holder_with_room)
{
    enum { WINDOW = 5 };
    bench b;
    open_bench(&b);
    hello_as(&b, 11, "g0", &deep, 1);
    const sent *d = ask(&b, 1, log_text, NULL);
    step_output(&b, 11, d, 0, 3, LAC_FINISH_NONE);
    drain(&b, "g0");
    hello_as(&b, 12, "g1", &deep, 1);
    const sent *other = NULL;
    for (uint64_t i = 2; i < 2 + WINDOW; i++) {
        other = ask(&b, i, log_text, NULL);
        ck_assert_uint_eq(other->peer, 12);
    }
    hello_as(&b, 13, "g2", NULL, 0);
    forget(&b);
    lost(&b, LAC_PLANE_WORKER, 11);
    wait_ms(&b, 300);
    expect_none(&b, LAC_MSG_DISPATCH); /* g2 has room, and is not what it needs */
    end_with(&b, 12, other, NULL);
    d = expect(&b, LAC_MSG_DISPATCH);
    ck_assert_uint_eq(d->peer, 12);
    ck_assert_uint_eq(d->accepted_count, 3);
    runs_as(d, &deep);
    bench_close(&b);
}
END_TEST

START_TEST(without_another_holder_it_goes_on_in_full_and_says_so)
{
    bench b;
    open_bench(&b);
    hello_as(&b, 11, "g0", &deep, 1);
    const sent *d = ask(&b, 1, log_text, NULL);
    step_output(&b, 11, d, 0, 3, LAC_FINISH_NONE);
    const sent *t = expect(&b, LAC_MSG_TOKENS);
    ck_assert_str_eq(t->class_name, "deep");
    hello_as(&b, 12, "g1", NULL, 0);
    lost(&b, LAC_PLANE_WORKER, 11);
    d = expect_moved(&b);
    ck_assert_uint_eq(d->peer, 12);
    ck_assert(!d->has_class);
    step_output(&b, 12, d, 3, 2, LAC_FINISH_STOP);
    t = expect(&b, LAC_MSG_TOKENS);
    ck_assert_str_eq(t->class_name, "full"); /* told anew */
    const sent *done = expect(&b, LAC_MSG_DONE);
    ck_assert_str_eq(done->class_name, "full");
    ck_assert_ptr_nonnull(strstr(done->why, "deep: no ready group has it"));
    bench_close(&b);
}
END_TEST

/* The account of the end: mask and reason are ours, the numbers the worker's. */
START_TEST(the_end_carries_the_account)
{
    bench b;
    open_bench(&b);
    hello_as(&b, 11, "g0", &deep, 1);
    const sent *d = ask(&b, 1, log_text, NULL);
    lac_run_account account = {.class_name = "deep",
                               .mask = "A9",
                               .layers = 4,
                               .active_layers = 3,
                               .skip_rate = 0.0625f,
                               .flops = 12345,
                               .kv_bytes = 77};
    end_with(&b, 11, d, &account);
    const sent *done = expect(&b, LAC_MSG_DONE);
    ck_assert_str_eq(done->class_name, "deep");
    ck_assert_str_eq(done->mask, "A1");
    ck_assert_float_eq(done->skip_rate, 0.0625f);
    ck_assert_ptr_nonnull(strstr(done->why, "structured input: certified, tier standard"));
    ck_assert_double_eq(metric(&b, "lacuna_class_requests_total", "model=\"m\",class=\"deep\""), 1);
    ck_assert_double_eq(metric(&b, "lacuna_path_skip_rate", ""), 1);
    /* A worker that ran it in full says so, and is believed. */
    d = ask(&b, 2, log_text, NULL);
    account = (lac_run_account){.class_name = "full",
                                .layers = 4,
                                .active_layers = 4,
                                .why = "the class failed on this request"};
    end_with(&b, 11, d, &account);
    done = expect(&b, LAC_MSG_DONE);
    ck_assert_str_eq(done->class_name, "full");
    ck_assert_ptr_nonnull(strstr(done->why, "the class failed"));
    ck_assert_double_eq(metric(&b, "lacuna_class_fallbacks_total", "reason=\"worker\""), 1);
    bench_close(&b);
}
END_TEST

static void forced(lac_submit *s)
{
    strcpy(s->force, "cheap");
}

START_TEST(a_class_may_be_forced_where_that_is_allowed)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {deep, cheap};
    hello_as(&b, 11, "g0", all, 2);
    runs_as(ask(&b, 1, prose, forced), &cheap);
    lac_submit s = submit_of(2, prose);
    strcpy(s.force, "nobody");
    submit(&b, 1, &s);
    ck_assert_int_eq(expect(&b, LAC_MSG_REFUSED)->status, LAC_ENOTFOUND);
    lac_msg msg = {.envelope = {.type = LAC_MSG_PATH_FORCE},
                   .body.path_force = {.stream = 9, .class_name = "full"}};
    event(&b, LAC_PLANE_CLIENT, 1, &msg);
    expect(&b, LAC_MSG_PLAN_REPLY);
    ck_assert(!ask(&b, 3, log_text, NULL)->has_class);
    msg.body.path_force.class_name[0] = 0;
    event(&b, LAC_PLANE_CLIENT, 1, &msg);
    runs_as(ask(&b, 4, log_text, NULL), &deep);
    bench_close(&b);

    bench_open(&b); /* the default: not allowed, and no class at all */
    hello_as(&b, 11, "g0", all, 2);
    s = submit_of(1, prose);
    strcpy(s.force, "deep");
    submit(&b, 1, &s);
    ck_assert_int_eq(expect(&b, LAC_MSG_REFUSED)->status, LAC_EREFUSED);
    ck_assert(!ask(&b, 2, log_text, NULL)->has_class);
    bench_close(&b);
}
END_TEST

/* ---- the guard ---- */

static void shadow(bench *b, uint64_t peer, double kl)
{
    lac_msg msg = {.envelope = {.type = LAC_MSG_SHADOW, .session = sessions[peer], .epoch = EPOCH},
                   .body.shadow = {.class_digest = deep.digest,
                                   .input_type = STRUCTURED,
                                   .tokens = 10,
                                   .kl_mean = kl,
                                   .top1_agree = 1}};
    event(b, LAC_PLANE_WORKER, peer, &msg);
}

START_TEST(a_tripped_class_serves_no_more_and_is_remembered)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {light, deep};
    hello_as(&b, 11, "g0", all, 2);
    for (int i = 0; i < 200; i++)
        shadow(&b, 11, 0.02); /* at the bound */
    runs_as(ask(&b, 1, log_text, NULL), &deep);
    for (int i = 0; i < 40; i++)
        shadow(&b, 11, 0.2); /* ten times the bound */
    runs_as(ask(&b, 2, log_text, NULL), &light);
    hinted = &deep.digest;
    runs_as(ask(&b, 3, log_text, with_hint), &light);
    ck_assert_double_eq(hints(&b, "reason=\"tripped\""), 1);
    tick(&b, 100);
    ck_assert_double_eq(metric(&b, "lacuna_guards", "state=\"open\""), 1);
    ck_assert_ptr_nonnull(strstr(b.notes, "guard of class"));
    lac_buf saved = {0};
    lac_core_guards_save(b.core, &saved);
    bench_close(&b);

    open_bench(&b);
    lac_error err;
    lac_status status = lac_core_guards_load(b.core, saved.data, &err);
    ck_assert_msg(status == LAC_OK, "%s", status ? err.text : "");
    hello_as(&b, 11, "g0", all, 2);
    runs_as(ask(&b, 1, log_text, NULL), &light);
    lac_buf again = {0};
    lac_core_guards_save(b.core, &again);
    ck_assert_ptr_nonnull(strstr(again.data, " structured open "));
    lac_buf_free(&again);
    ck_assert_int_eq(lac_core_guards_load(b.core, "lacuna guards 2\n", &err), LAC_EUNSUPPORTED);
    ck_assert_int_eq(lac_core_guards_load(b.core, "lacuna guards 1\nabc\n", &err), LAC_ECORRUPT);
    lac_buf_free(&saved);
    bench_close(&b);
}
END_TEST

/* A score of `class` for a type, as the worker of `peer` reports it. */
static void report(bench *b, uint64_t peer, const lac_class_facts *class, lac_shadow score)
{
    score.class_digest = class->digest;
    score.tokens = 10;
    score.top1_agree = 1;
    lac_msg msg = {.envelope = {.type = LAC_MSG_SHADOW, .session = sessions[peer], .epoch = EPOCH},
                   .body.shadow = score};
    event(b, LAC_PLANE_WORKER, peer, &msg);
}

START_TEST(a_bad_canary_sends_its_class_back)
{
    bench b;
    open_bench(&b);
    lac_class_facts all[] = {light, deep};
    hello_as(&b, 11, "g0", all, 2);
    lac_shadow canary = {
        .input_type = STRUCTURED, .kl_mean = 0.02, .canary = true}; /* at the bound */
    report(&b, 11, &deep, canary);
    runs_as(ask(&b, 1, log_text, NULL), &deep);
    canary.kl_mean = 0.0801; /* four times that */
    report(&b, 11, &deep, canary);
    runs_as(ask(&b, 2, log_text, NULL), &light);
    bench_close(&b);
}
END_TEST

START_TEST(a_class_whose_sureness_varies_is_sent_back)
{
    static const float sure[] = {0.9f, 0.3f, 0.8f, 0.2f, 0.9f};
    for (int with_full = 0; with_full < 2; with_full++) {
        bench b;
        open_bench(&b);
        lac_class_facts all[] = {light, deep};
        hello_as(&b, 11, "g0", all, 2);
        for (int i = 0; i < 5; i++)
            report(&b, 11, &deep,
                   (lac_shadow){.input_type = STRUCTURED,
                                .kl_mean = 0.01,
                                .top1_p = sure[i],
                                .top1_p_full = with_full ? sure[i] : 0.8f});
        runs_as(ask(&b, 1, log_text, NULL), with_full ? &deep : &light);
        bench_close(&b);
    }
}
END_TEST

/* One type is the class's fault, two at a time are the engine's: then no class serves any type. */
START_TEST(two_types_that_trip_hold_all_classes)
{
    bench b;
    open_bench(&b);
    deep.serves[LAC_INPUT_CODE] = (lac_class_serve){LAC_TIER_STANDARD, 0.01f, 0.02f};
    lac_class_facts all[] = {light, deep};
    hello_as(&b, 11, "g0", all, 2);
    lac_shadow bad = {.input_type = STRUCTURED, .kl_mean = 1, .canary = true};
    report(&b, 11, &deep, bad);
    runs_as(ask(&b, 1, log_text, NULL), &light);
    bad.input_type = LAC_INPUT_CODE;
    report(&b, 11, &deep, bad);
    const sent *d = ask(&b, 2, log_text, NULL);
    ck_assert(!d->has_class);
    ck_assert_ptr_nonnull(strstr(b.notes, "code input opened within 600 s"));
    hinted = &light.digest;
    ck_assert(!ask(&b, 3, log_text, with_hint)->has_class);
    uint64_t peer = 11;
    keep_alive(&b, 590000, 1, &peer, &sessions[11]);
    forget(&b);
    ck_assert(!ask(&b, 4, log_text, NULL)->has_class);
    keep_alive(&b, 11000, 1, &peer, &sessions[11]);
    forget(&b);
    runs_as(ask(&b, 5, log_text, NULL), &light); /* `deep` has to prove itself again */
    bench_close(&b);
}
END_TEST

START_TEST(two_types_far_apart_hold_nothing)
{
    bench b;
    open_bench(&b);
    deep.serves[LAC_INPUT_CODE] = (lac_class_serve){LAC_TIER_STANDARD, 0.01f, 0.02f};
    lac_class_facts all[] = {light, deep};
    hello_as(&b, 11, "g0", all, 2);
    lac_shadow bad = {.input_type = STRUCTURED, .kl_mean = 1, .canary = true};
    uint64_t peer = 11;
    report(&b, 11, &deep, bad);
    keep_alive(&b, 601000, 1, &peer, &sessions[11]);
    forget(&b);
    bad.input_type = LAC_INPUT_CODE;
    report(&b, 11, &deep, bad);
    runs_as(ask(&b, 1, log_text, NULL), &light);
    bench_close(&b);
}
END_TEST

START_TEST(only_a_sample_is_scored)
{
    bench b;
    bench_open_with(&b, (lac_core_options){.tier_max = LAC_TIER_STANDARD, .shadow_share = 0.25});
    hello_as(&b, 11, "g0", &deep, 1);
    uint32_t scored = 0;
    for (uint64_t i = 1; i <= 200; i++) {
        const sent *d = ask(&b, i, i % 2 ? log_text : prose, NULL);
        ck_assert(!d->shadow || d->has_class);
        scored += d->shadow;
        end_with(&b, 11, d, NULL);
        forget(&b);
    }
    ck_assert_uint_gt(scored, 10); /* of a hundred */
    ck_assert_uint_lt(scored, 45);
    bench_close(&b);
}
END_TEST

TCase *classes_case(void)
{
    TCase *tc = tcase_create("classes");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, the_deepest_certified_class_of_an_allowed_tier);
    tcase_add_test(tc, a_request_may_allow_less_never_more);
    tcase_add_test(tc, hints_are_advice);
    tcase_add_test(tc, a_hint_too_far_from_the_own_choice_is_ignored);
    tcase_add_test(tc, groups_that_hold_the_class_come_first);
    tcase_add_test(tc, a_move_keeps_the_class);
    tcase_add_test(tc, a_moved_one_waits_for_a_holder_with_room);
    tcase_add_test(tc, without_another_holder_it_goes_on_in_full_and_says_so);
    tcase_add_test(tc, the_end_carries_the_account);
    tcase_add_test(tc, a_class_may_be_forced_where_that_is_allowed);
    tcase_add_test(tc, a_tripped_class_serves_no_more_and_is_remembered);
    tcase_add_test(tc, a_bad_canary_sends_its_class_back);
    tcase_add_test(tc, a_class_whose_sureness_varies_is_sent_back);
    tcase_add_test(tc, two_types_that_trip_hold_all_classes);
    tcase_add_test(tc, two_types_far_apart_hold_nothing);
    tcase_add_test(tc, only_a_sample_is_scored);
    return tc;
}
