/* Writes a plan for any model with at least two layers: make_plan MODEL OUT.json [SIZE]. Its
 * patches are small random matrices, its certificates say nothing true. Classes: "low" (A1, rank
 * 8), "square" (A1 and the last attention, full rank), "mixed" (A1 of full rank, F0 and the last
 * FFN left out), "late" (A1, scope decode). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "plan/plan.h"

static double size = 0.1; /* of what a patch adds, beside its input */

static uint16_t half(uint32_t *state, uint32_t count)
{
    *state = *state * 1664525u + 1013904223u;
    int exponent = (int)floor(log2(size / sqrt(count)));
    return (uint16_t)((*state >> 16 & 0x83ff) | (uint32_t)(15 + exponent) << 10);
}

static void patch(lac_plan *plan, lac_plan_class *class, uint32_t unit, uint32_t rank)
{
    size_t count = (size_t)rank * plan->hidden;
    uint32_t state = unit * 7 + rank;
    uint16_t *down = lac_alloc(count, sizeof *down), *up = lac_alloc(count, sizeof *up);
    for (size_t i = 0; i < count; i++) {
        down[i] = half(&state, plan->hidden);
        up[i] = half(&state, rank);
    }
    lac_error err = {0};
    if (lac_plan_patch_set(plan, class, unit, rank, rank < plan->hidden ? down : NULL, up, &err) !=
        LAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    free(down);
    free(up);
}

static lac_plan_class *add(lac_plan *plan, const char *name, lac_scope scope, const char *units)
{
    lac_mask mask;
    lac_certificate c = {.kl_mean = 0.02,
                         .kl_upper = 0.03,
                         .kl_p95 = 0.1,
                         .top1 = 0.9,
                         .cost_saved = 0.05,
                         .documents = 60,
                         .requests = 300,
                         .tokens = 9000,
                         .method = "none: made for tests",
                         .date = "2025-01-01"};
    if (lac_mask_parse(units, plan->layers, &mask, NULL) != LAC_OK)
        exit(1);
    lac_plan_class *class = lac_plan_class_add(plan, name, scope, &mask);
    lac_plan_serve_set(class, LAC_INPUT_STRUCTURED, LAC_TIER_STANDARD, &c, NULL, 0);
    return class;
}

int main(int argc, char **argv)
{
    lac_error err = {0};
    lac_model *model = NULL;
    if (argc < 3 || argc > 4)
        return 2;
    if (argc == 4 && !lac_parse_f64(argv[3], 1e-6, 1, &size))
        return 2;
    if (lac_model_open(argv[1], &model, &err) != LAC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    lac_plan *plan = lac_plan_create(model);
    uint32_t last = plan->layers - 1;
    char units[64];
    patch(plan, add(plan, "low", LAC_SCOPE_REQUEST, "A1"), 2, 8);
    snprintf(units, sizeof units, "A1,A%u", last);
    lac_plan_class *class = add(plan, "square", LAC_SCOPE_REQUEST, units);
    patch(plan, class, 2, plan->hidden);
    patch(plan, class, 2 * last, plan->hidden);
    snprintf(units, sizeof units, "F0,A1,F%u", last);
    patch(plan, add(plan, "mixed", LAC_SCOPE_REQUEST, units), 2, plan->hidden);
    add(plan, "late", LAC_SCOPE_DECODE, "A1");
    lac_status status = lac_plan_save(plan, argv[2], &err);
    if (status != LAC_OK)
        fprintf(stderr, "%s\n", err.text);
    lac_plan_destroy(&plan);
    lac_model_close(&model);
    return status == LAC_OK ? 0 : 1;
}
