/* The list of metrics: names, kinds, labels and bounds hold to the rules of the exposition format,
 * and the registry keeps to the bound of each line. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/metric.h"
#include "suites.h"

static const struct {
    const char *id, *kind, *name, *labels, *panel, *help;
    int max;
} rows[] = {
#define ROW(id, kind, name, labels, max, panel, help) {#id, #kind, name, labels, #panel, help, max},
    LAC_METRIC_LIST(ROW)
#undef ROW
};

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)text[i]) && text[i] != '_')
            return false;
    return length > 0;
}

START_TEST(every_line_keeps_the_rules)
{
    static const char panels[] =
        "SERVING QUEUE PATHS CLASSES GROUPS GUARDS FAULTS JOBS FLEET HTTP PROCESS";
    for (int i = 0; i < LAC_M_COUNT; i++) {
        const char *name = rows[i].name;
        size_t length = strlen(name);
        ck_assert_msg(is_name(name, length), "%s", name);
        bool total = length > 6 && !strcmp(name + length - 6, "_total");
        ck_assert_msg(total == !strcmp(rows[i].kind, "COUNTER"), "%s is a %s", name, rows[i].kind);
        if (!strcmp(rows[i].kind, "LONG") || !strcmp(rows[i].kind, "SHORT"))
            ck_assert_msg(length > 8 && !strcmp(name + length - 8, "_seconds"), "%s", name);
        else
            ck_assert_msg(total || !strcmp(rows[i].kind, "GAUGE"), "%s", rows[i].kind);
        ck_assert_msg(strstr(panels, rows[i].panel) != NULL, "%s: panel %s", name, rows[i].panel);
        size_t help = strlen(rows[i].help);
        ck_assert_msg(help > 5 && rows[i].help[help - 1] == '.', "%s: \"%s\"", name, rows[i].help);
        ck_assert_msg((*rows[i].labels == 0) == (rows[i].max == 1) ||
                          !strcmp(rows[i].id, "BUILD_INFO"),
                      "%s has %d series and the labels \"%s\"", name, rows[i].max, rows[i].labels);
        ck_assert_int_le(rows[i].max, 1024);
        for (const char *at = rows[i].labels; *at;) {
            size_t key = strcspn(at, ",");
            ck_assert_msg(is_name(at, key) && strncmp(at, "le,", 3) != 0, "%s: %s", name, at);
            at += key + (at[key] == ',');
        }
        for (int k = 0; k < i; k++)
            ck_assert_msg(strcmp(name, rows[k].name) != 0, "%s is there twice", name);
    }
}
END_TEST

START_TEST(a_family_keeps_its_own_bound)
{
    lac_metrics *metrics = lac_metrics_create(100);
    lac_metric *last = NULL;
    for (int i = 0; i < 4; i++) {
        char label[32];
        snprintf(label, sizeof label, "plane=\"%d\"", i);
        last = lac_metrics_get(metrics, LAC_M_BAD_FRAMES, label);
        lac_metric_add(last, 1);
        ck_assert_ptr_eq(last, lac_metrics_get(metrics, LAC_M_BAD_FRAMES, label));
    }
    lac_metric_add(lac_metrics_get(metrics, LAC_M_BAD_FRAMES, "plane=\"5\""), 1);
    lac_metric_set(lac_metrics_get(metrics, LAC_M_RUNNING, ""), 2); /* others have room */
    lac_buf text = {0};
    lac_metrics_render(metrics, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "lacuna_bad_frames_total{plane=\"3\"} 1\n"));
    ck_assert_ptr_null(strstr(text.data, "plane=\"5\""));
    ck_assert_ptr_nonnull(strstr(text.data, "lacuna_metrics_overflow_total 1\n"));
    ck_assert_ptr_nonnull(strstr(text.data, "# TYPE lacuna_running_requests gauge\n"
                                            "lacuna_running_requests 2\n"));
    lac_buf_free(&text);
    lac_metrics_destroy(&metrics);
}
END_TEST

START_TEST(what_is_made_at_each_reading_looks_the_same)
{
    lac_buf text = {0};
    lac_metric_head(&text, LAC_M_GROUP_SLOTS);
    lac_metric_sample(&text, LAC_M_GROUP_SLOTS, "group=\"g0\"", 16);
    ck_assert_str_eq(text.data, "# HELP lacuna_group_slots Sequences a group runs at once.\n"
                                "# TYPE lacuna_group_slots gauge\n"
                                "lacuna_group_slots{group=\"g0\"} 16\n");
    ck_assert_uint_eq(lac_metric_series_max(LAC_M_GROUP_SLOTS), 256);
    lac_buf_free(&text);
}
END_TEST

Suite *suite_metric_list(void)
{
    Suite *suite = suite_create("metric_list");
    TCase *t = tcase_create("metric_list");
    tcase_add_test(t, every_line_keeps_the_rules);
    tcase_add_test(t, a_family_keeps_its_own_bound);
    tcase_add_test(t, what_is_made_at_each_reading_looks_the_same);
    suite_add_tcase(suite, t);
    return suite;
}
