/* Plans: what is saved is loaded again; equal plans are equal bytes; what a digest is over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "probe/probe.h"

static lac_plan *load(const char *path, const lac_model *model)
{
    lac_plan *plan = NULL;
    lac_error err = {0};
    lac_status status = lac_plan_load(path, model, &plan, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return plan;
}

static void save(lac_plan *plan, const char *path)
{
    lac_error err = {0};
    ck_assert_msg(lac_plan_save(plan, path, &err) == LAC_OK, "%s", err.text);
}

static void same_class(const lac_plan_class *a, const lac_plan_class *b, uint32_t hidden)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_int_eq(a->scope, b->scope);
    ck_assert(lac_mask_equal(&a->mask, &b->mask));
    ck_assert_str_eq(a->notes, b->notes);
    ck_assert_mem_eq(&a->digest, &b->digest, sizeof a->digest);
    for (int t = 0; t < LAC_INPUT_TYPES; t++) {
        const lac_plan_serve *x = &a->serves[t], *y = &b->serves[t];
        ck_assert_int_eq(x->tier, y->tier);
        ck_assert(x->certificate.kl_upper == y->certificate.kl_upper);
        ck_assert(x->certificate.top1 == y->certificate.top1);
        ck_assert(x->certificate.tokens == y->certificate.tokens);
        ck_assert_mem_eq(&x->certificate.data, &y->certificate.data, sizeof(lac_digest));
        ck_assert_str_eq(x->certificate.method, y->certificate.method);
        ck_assert_str_eq(x->certificate.date, y->certificate.date);
        ck_assert_uint_eq(x->checks_count, y->checks_count);
        for (uint32_t i = 0; i < x->checks_count; i++) {
            ck_assert_str_eq(x->checks[i].name, y->checks[i].name);
            ck_assert(x->checks[i].masked == y->checks[i].masked);
            ck_assert(x->checks[i].bound == y->checks[i].bound);
        }
    }
    ck_assert_uint_eq(a->patches_count, b->patches_count);
    for (uint32_t p = 0; p < a->patches_count; p++) {
        const lac_patch *x = &a->patches[p], *y = &b->patches[p];
        size_t bytes = (size_t)x->rank * hidden * 2;
        ck_assert(x->unit == y->unit && x->rank == y->rank && !x->down == !y->down);
        if (x->down)
            ck_assert_mem_eq(x->down, y->down, bytes);
        ck_assert_mem_eq(x->up, y->up, bytes);
        ck_assert_mem_eq(&x->digest, &y->digest, sizeof x->digest);
    }
}

START_TEST(a_probe_comes_back)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    lac_plan_class *class = &plan->classes[1];
    lac_probe probe = {.bias = -0.75, .threshold = 0.5};
    for (int i = 0; i < LAC_PROBE_FEATURES; i++) {
        probe.mean[i] = i * 0.25;
        probe.scale[i] = 1 + i;
        probe.weight[i] = 1.0 / (1 << i);
    }
    lac_plan_probe_set(class, &probe);
    lac_plan_digest(plan);
    save(plan, f.path);
    lac_plan *again = load(f.path, f.model);
    ck_assert(!again->classes[0].probe && again->classes[1].probe);
    const lac_probe *got = again->classes[1].probe;
    ck_assert_double_eq(got->bias, -0.75);
    ck_assert_double_eq(got->threshold, 0.5);
    for (int i = 0; i < LAC_PROBE_FEATURES; i++) {
        ck_assert_double_eq(got->mean[i], i * 0.25);
        ck_assert_double_eq(got->scale[i], 1 + i);
        ck_assert_double_eq_tol(got->weight[i] * (1 << i), 1.0, 1e-8); /* nine digits in the file */
    }
    same_class(class, &again->classes[1], plan->hidden);
    lac_plan_destroy(&again);
    class->probe->threshold = 0.39; /* a plan cannot ask for less than 0.4 */
    lac_error err = {0};
    ck_assert_int_eq(lac_plan_save(plan, f.path, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "classes[1]: probe"));
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(canaries_come_back_and_make_it_version_2)
{
    fixture f;
    char text[1 << 16];
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    static const char log[] = "one line\n\"quoted\" \xc3\xa9\n";
    ck_assert_int_eq(lac_plan_canary_add(plan, LAC_INPUT_CODE, "x = 1\n", 6, NULL), LAC_OK);
    ck_assert_int_eq(lac_plan_canary_add(plan, LAC_INPUT_STRUCTURED, log, sizeof log - 1, NULL),
                     LAC_OK);
    ck_assert_int_eq(lac_plan_canary_add(plan, LAC_INPUT_CODE, "\xff", 1, NULL), LAC_EINVAL);
    ck_assert_int_eq(lac_plan_canary_add(plan, LAC_INPUT_CODE, "a\0b", 3, NULL), LAC_EINVAL);
    save(plan, f.path);
    lac_plan *again = load(f.path, f.model);
    ck_assert_uint_eq(again->canaries[LAC_INPUT_CODE].count, 1);
    ck_assert_str_eq(again->canaries[LAC_INPUT_CODE].texts[0], "x = 1\n");
    ck_assert_str_eq(again->canaries[LAC_INPUT_STRUCTURED].texts[0], log);
    ck_assert_uint_eq(again->canaries[LAC_INPUT_HYBRID].count, 0);
    for (uint32_t c = 0; c < 3; c++) /* they are no part of what a class is */
        same_class(&plan->classes[c], &again->classes[c], plan->hidden);
    FILE *file = fopen(f.path, "rb");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "\"version\": 2"));
    lac_plan_destroy(&again);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(what_is_saved_is_loaded)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    save(plan, f.path);
    lac_plan *again = load(f.path, f.model);
    ck_assert_uint_eq(again->classes_count, 3);
    ck_assert_str_eq(again->model_name, plan->model_name);
    for (uint32_t c = 0; c < 3; c++)
        same_class(&plan->classes[c], &again->classes[c], plan->hidden);
    ck_assert_uint_eq(again->classes[0].patches[0].unit, 0);
    ck_assert_ptr_eq(lac_plan_find(again, "two"), &again->classes[1]);
    ck_assert_ptr_null(lac_plan_find(again, "full"));
    lac_plan_destroy(&again);
    /* Without a model file: against what the plan says of it. */
    again = load(f.path, NULL);
    lac_plan_destroy(&again);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(equal_plans_are_equal_bytes)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    save(plan, f.path);
    lac_plan_destroy(&plan);
    plan = load(f.path, f.model);
    char *texts[2], *patches[2], name[300], path[400];
    size_t lengths[2], sizes[2];
    texts[0] = fixture_read(f.path, &lengths[0]);
    fixture_companion(&f, name);
    ck_assert_ptr_nonnull(strstr(texts[0], name));
    ck_assert(strncmp(name, "tiny.patches-", 13) == 0 && strlen(name) == 13 + 8 + 5);
    snprintf(path, sizeof path, "%s/%s", f.folder, name);
    patches[0] = fixture_read(path, &sizes[0]);
    save(plan, f.path);
    fixture_companion(&f, name); /* still one */
    texts[1] = fixture_read(f.path, &lengths[1]);
    patches[1] = fixture_read(path, &sizes[1]);
    ck_assert_uint_eq(lengths[0], lengths[1]);
    ck_assert_mem_eq(texts[0], texts[1], lengths[0]);
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(patches[0], patches[1], sizes[0]);
    for (int i = 0; i < 2; i++) {
        free(texts[i]);
        free(patches[i]);
    }
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

/* Everything that changes what is computed changes the digest; nothing else does. */
START_TEST(digests_see_what_is_computed)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    lac_plan_class *class = &plan->classes[0];
    lac_digest before, other;
    lac_plan_digest(plan);
    before = class->digest;
    strcpy(class->name, "renamed");
    strcpy(class->notes, "");
    class->serves[0].tier = LAC_TIER_NONE;
    lac_plan_digest(plan);
    ck_assert_mem_eq(&before, &class->digest, sizeof before);
    class->scope = LAC_SCOPE_DECODE;
    lac_plan_digest(plan);
    other = class->digest;
    ck_assert_mem_ne(&before, &other, sizeof before);
    uint16_t *up = calloc((size_t)plan->hidden * 8, 2);
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 2, 8, up, up, NULL), LAC_OK);
    lac_plan_digest(plan);
    ck_assert_mem_ne(&other, &class->digest, sizeof before);
    other = class->digest;
    plan->model_digest.bytes[31] ^= 1;
    lac_plan_digest(plan);
    ck_assert_mem_ne(&other, &class->digest, sizeof before);
    free(up);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(what_load_refuses_is_not_saved)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    lac_error err = {0};
    plan->classes[0].serves[LAC_INPUT_STRUCTURED].certificate.kl_upper = 0.0101;
    ck_assert_int_eq(lac_plan_save(plan, f.path, &err), LAC_EINVAL);
    ck_assert_str_eq(err.text, "classes[0]: serves.structured: certificate.kl_upper is 0.0101, "
                               "allowed 0.005..0.01");
    ck_assert_int_ne(access(f.path, F_OK), 0);
    plan->classes[0].serves[LAC_INPUT_STRUCTURED].certificate.kl_upper = 0.01;
    ck_assert_int_eq(lac_plan_save(plan, "/tmp/lacuna-no-such/p.json", &err), LAC_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/tmp/lacuna-no-such/p.json"));
    /* What lies at the path stays whole until the new plan is. */
    save(plan, f.path);
    plan->classes[0].serves[LAC_INPUT_STRUCTURED].certificate.documents = 59;
    ck_assert_int_eq(lac_plan_save(plan, f.path, &err), LAC_EINVAL);
    lac_plan *again = load(f.path, f.model);
    lac_plan_destroy(&again);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(patches_are_checked_when_set)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = fixture_plan(&f);
    lac_plan_class *class = &plan->classes[0];
    uint32_t hidden = plan->hidden;
    uint16_t *x = calloc((size_t)hidden * hidden, 2);
    lac_error err = {0};
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 4, 8, x, x, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "A2"));
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 0, 7, x, x, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "rank of A0 is 7"));
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 0, 0, x, x, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 0, hidden, x, x, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 0, 8, NULL, x, &err), LAC_EINVAL);
    x[5] = 0x7c00;
    ck_assert_int_eq(lac_plan_patch_set(plan, class, 0, 8, x, x, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "element 5 is not finite"));
    ck_assert_uint_eq(class->patches_count, 2);
    ck_assert_uint_eq(class->patches[0].rank, hidden); /* as it was */
    free(x);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

START_TEST(fifteen_classes_and_no_more)
{
    fixture f;
    fixture_open(&f);
    lac_plan *plan = lac_plan_create(f.model);
    for (uint32_t c = 0; c < LAC_CLASSES_MAX - 1; c++) {
        char name[16];
        lac_mask mask = {{c + 1}};
        snprintf(name, sizeof name, "c%u", c);
        mask.bits[0] &= (UINT64_C(1) << 2 * plan->layers) - 1;
        ck_assert_ptr_nonnull(lac_plan_class_add(plan, name, LAC_SCOPE_REQUEST, &mask));
    }
    ck_assert_ptr_null(lac_plan_class_add(plan, "x", LAC_SCOPE_REQUEST, &plan->classes[0].mask));
    save(plan, f.path); /* no patches: no companion */
    lac_plan *again = load(f.path, f.model);
    ck_assert_uint_eq(again->classes_count, LAC_CLASSES_MAX - 1);
    lac_plan_destroy(&again);
    lac_plan_destroy(&plan);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan");
    TCase *tc = tcase_create("plan");
    tcase_add_test(tc, what_is_saved_is_loaded);
    tcase_add_test(tc, canaries_come_back_and_make_it_version_2);
    tcase_add_test(tc, a_probe_comes_back);
    tcase_add_test(tc, equal_plans_are_equal_bytes);
    tcase_add_test(tc, digests_see_what_is_computed);
    tcase_add_test(tc, what_load_refuses_is_not_saved);
    tcase_add_test(tc, patches_are_checked_when_set);
    tcase_add_test(tc, fifteen_classes_and_no_more);
    suite_add_tcase(suite, tc);
    SRunner *all = srunner_create(suite);
    srunner_add_suite(all, suite_hostile());
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
