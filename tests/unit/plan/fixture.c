/* Plans for the tests of worker/plan. */
#include "fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

void fixture_open(fixture *f)
{
    lac_error err = {0};
    ck_assert_msg(lac_model_open(LAC_TINY, &f->model, &err) == LAC_OK, "%s", err.text);
    strcpy(f->folder, "/tmp/lacuna-plan-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->folder));
    snprintf(f->path, sizeof f->path, "%s/tiny.json", f->folder);
}

void fixture_close(fixture *f)
{
    DIR *dir = opendir(f->folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", f->folder, e->d_name);
        unlink(path); /* fails for . and .. */
    }
    closedir(dir);
    rmdir(f->folder);
    lac_model_close(&f->model);
}

lac_certificate fixture_certificate(lac_tier tier)
{
    lac_certificate c = {.kl_mean = lac_tier_kl_max(tier) / 2,
                         .kl_upper = lac_tier_kl_max(tier),
                         .kl_p95 = 0.125,
                         .top1 = 0.9375,
                         .cost_saved = 0.0625,
                         .documents = 61,
                         .requests = 301,
                         .tokens = 12345};
    memset(c.data.bytes, 0xab, sizeof c.data.bytes);
    strcpy(c.method, "bootstrap-t over documents, one-sided 95 %");
    strcpy(c.date, "2025-06-30");
    return c;
}

uint16_t fixture_half(uint32_t seed, size_t i)
{
    uint32_t x = (uint32_t)(i + 1) * 2654435761u ^ seed * 40503u;
    return (uint16_t)((x >> 7 & 0x83ff) | 0x2400); /* ±1/64 … 1/32 */
}

static void patch_add(lac_plan *plan, lac_plan_class *class, uint32_t unit, uint32_t rank)
{
    size_t count = (size_t)rank * plan->hidden;
    uint16_t *down = lac_alloc(count, 2), *up = lac_alloc(count, 2);
    for (size_t i = 0; i < count; i++) {
        down[i] = fixture_half(unit, i);
        up[i] = fixture_half(unit + 100, i);
    }
    lac_error err = {0};
    lac_status status =
        lac_plan_patch_set(plan, class, unit, rank, rank < plan->hidden ? down : NULL, up, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    free(down);
    free(up);
}

lac_plan *fixture_plan(const fixture *f)
{
    lac_plan *plan = lac_plan_create(f->model);
    lac_mask mask = {{0}};
    lac_mask_set(&mask, 0);
    lac_mask_set(&mask, 2);
    lac_plan_class *one = lac_plan_class_add(plan, "one", LAC_SCOPE_REQUEST, &mask);
    lac_certificate gold = fixture_certificate(LAC_TIER_GOLD),
                    economy = fixture_certificate(LAC_TIER_ECONOMY);
    lac_plan_check checks[2] = {{.name = "ten depths", .full = 1, .masked = 1, .bound = 0},
                                {.name = "rouge-l", .full = 0.5, .masked = 0.25, .bound = -0.5}};
    lac_plan_serve_set(one, LAC_INPUT_STRUCTURED, LAC_TIER_GOLD, &gold, checks, 2);
    lac_plan_serve_set(one, LAC_INPUT_CODE, LAC_TIER_ECONOMY, &economy, NULL, 0);
    strcpy(one->notes, "Zwölf\nNotizen");
    patch_add(plan, one, 2, 8);
    patch_add(plan, one, 0, plan->hidden); /* out of order */
    mask = (lac_mask){{0}};
    lac_mask_set(&mask, 2);
    lac_plan_class *two = lac_plan_class_add(plan, "two", LAC_SCOPE_DECODE, &mask);
    lac_certificate standard = fixture_certificate(LAC_TIER_STANDARD);
    lac_plan_serve_set(two, LAC_INPUT_UNSTRUCTURED, LAC_TIER_STANDARD, &standard, NULL, 0);
    mask = (lac_mask){{0}};
    lac_mask_set(&mask, 1);
    lac_plan_class_add(plan, "three", LAC_SCOPE_REQUEST, &mask);
    return plan;
}

void fixture_companion(const fixture *f, char name[300])
{
    DIR *dir = opendir(f->folder);
    ck_assert_ptr_nonnull(dir);
    name[0] = '\0';
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".gguf")) {
            ck_assert_str_eq(name, "");
            snprintf(name, 300, "%s", e->d_name);
        }
    closedir(dir);
    ck_assert_str_ne(name, "");
}

char *fixture_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    lac_buf buf = {0};
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, file)) > 0)
        lac_buf_add(&buf, block, n);
    fclose(file);
    *length = buf.length;
    return buf.data;
}

void fixture_write(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    fclose(file);
}
