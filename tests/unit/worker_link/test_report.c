/* Reports: deep copies that hold while more is added, and memory that is kept. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "link/report.h"
#include "suites.h"

enum { ITEMS = 300 };

/* Item i with everything an item can carry, in storage that the next call overwrites. */
static void add(lac_report *report, uint32_t i)
{
    static uint32_t tokens[2];
    static char text[64], piece[8];
    static lac_top_logprob top[2];
    static lac_logprob logprobs[2];
    tokens[0] = i;
    tokens[1] = i + 1;
    snprintf(text, sizeof(text), "text of %u", i);
    snprintf(piece, sizeof(piece), "p%u", i);
    lac_span span = {.data = piece, .length = (uint32_t)strlen(piece)};
    for (int k = 0; k < 2; k++) {
        top[k] = (lac_top_logprob){.token = i, .logprob = -1, .text = span};
        logprobs[k] = (lac_logprob){.chosen = top[0], .top_count = 2, .top = top};
    }
    lac_step_item item = {.request = i,
                          .chunk = {.first_pos = i,
                                    .tokens_count = 2,
                                    .tokens = tokens,
                                    .text = {.data = text, .length = (uint32_t)strlen(text)},
                                    .logprobs_count = 2,
                                    .logprobs = logprobs}};
    lac_report_add(report, &item);
    memset(tokens, 0, sizeof(tokens));
    memset(text, 0, sizeof(text));
    memset(piece, 0, sizeof(piece));
    memset(top, 0, sizeof(top));
    memset(logprobs, 0, sizeof(logprobs));
}

static void expect(const lac_step_item *item, uint32_t i)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "text of %u", i);
    ck_assert_uint_eq(item->request, i);
    ck_assert(item->chunk.tokens[0] == i && item->chunk.tokens[1] == i + 1);
    ck_assert_uint_eq(item->chunk.text.length, (uint32_t)length);
    ck_assert_mem_eq(item->chunk.text.data, text, (size_t)length);
    length = snprintf(text, sizeof(text), "p%u", i);
    const lac_logprob *l = &item->chunk.logprobs[1];
    ck_assert_mem_eq(l->chosen.text.data, text, (size_t)length);
    ck_assert_mem_eq(l->top[1].text.data, text, (size_t)length);
    ck_assert(l->top[1].token == i && l->top[1].logprob == -1);
}

START_TEST(copies_hold_while_more_is_added)
{
    lac_report *report = lac_report_create();
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < ITEMS; i++)
            add(report, i);
        ck_assert_uint_eq(lac_report_count(report), ITEMS);
        for (uint32_t i = 0; i < ITEMS; i++)
            expect(&lac_report_items(report)[i], i);
        lac_report_clear(report);
        ck_assert_uint_eq(lac_report_count(report), 0);
    }
    lac_report_destroy(&report);
    ck_assert_ptr_null(report);
    lac_report_destroy(&report);
}
END_TEST

START_TEST(a_warm_report_allocates_nothing)
{
    lac_report *report = lac_report_create();
    for (uint32_t i = 0; i < ITEMS; i++)
        add(report, i);
    struct mallinfo2 before = mallinfo2();
    for (int round = 0; round < 20; round++) {
        lac_report_clear(report);
        for (uint32_t i = 0; i < ITEMS; i++)
            add(report, i);
    }
    struct mallinfo2 after = mallinfo2();
    ck_assert_uint_eq(before.uordblks, after.uordblks);
    lac_report_destroy(&report);
}
END_TEST

START_TEST(large_texts_get_a_block_of_their_own)
{
    static char big[100000];
    memset(big, 'b', sizeof(big));
    lac_report *report = lac_report_create();
    lac_step_item item = {.request = 1, .chunk.text = {.data = big, .length = sizeof(big)}};
    add(report, 5);
    lac_report_add(report, &item);
    add(report, 6);
    expect(&lac_report_items(report)[0], 5);
    expect(&lac_report_items(report)[2], 6);
    ck_assert_mem_eq(lac_report_items(report)[1].chunk.text.data, big, sizeof(big));
    lac_report_destroy(&report);
}
END_TEST

Suite *suite_report(void)
{
    Suite *suite = suite_create("report");
    TCase *tc = tcase_create("report");
    tcase_add_test(tc, copies_hold_while_more_is_added);
    tcase_add_test(tc, a_warm_report_allocates_nothing);
    tcase_add_test(tc, large_texts_get_a_block_of_their_own);
    suite_add_tcase(suite, tc);
    return suite;
}
