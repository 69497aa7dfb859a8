/* Plans in memory: made, grown, checked, freed. One thread while it changes. Must not know files or
 * JSON. */
#include "plan/plan.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "parts.h"
#include "probe/probe.h"

lac_plan *lac_plan_create(const lac_model *model)
{
    lac_plan *plan = lac_alloc(1, sizeof *plan);
    memcpy(plan->model_name, model->name, sizeof plan->model_name);
    lac_model_digest(model, &plan->model_digest);
    plan->layers = model->layers_count;
    plan->hidden = model->hidden;
    return plan;
}

static void patch_free(lac_patch *patch)
{
    free((void *)patch->down);
    free((void *)patch->up);
}

void lac_plan_destroy(lac_plan **plan)
{
    if (!plan || !*plan)
        return;
    for (uint32_t c = 0; c < (*plan)->classes_count; c++) {
        lac_plan_class *class = &(*plan)->classes[c];
        for (uint32_t p = 0; p < class->patches_count; p++)
            patch_free(&class->patches[p]);
        free(class->patches);
        free(class->probe);
        for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
            free(class->serves[t].checks);
    }
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
        for (uint32_t i = 0; i < (*plan)->canaries[t].count; i++)
            free((*plan)->canaries[t].texts[i]);
    free(*plan);
    *plan = NULL;
}

const lac_plan_class *lac_plan_find(const lac_plan *plan, const char *name)
{
    for (uint32_t c = 0; c < plan->classes_count; c++)
        if (strcmp(plan->classes[c].name, name) == 0)
            return &plan->classes[c];
    return NULL;
}

/* ---- names ---- */

void lac__plan_unit_text(uint32_t unit, char out[8])
{
    snprintf(out, 8, "%c%u", unit % 2 ? 'F' : 'A', unit / 2 % LAC_LAYERS_MAX);
}

void lac__plan_tensor_name(const lac_plan_class *class, uint32_t unit, const char *part,
                           char out[LAC__TENSOR_NAME_MAX])
{
    char name[8];
    lac__plan_unit_text(unit, name);
    snprintf(out, LAC__TENSOR_NAME_MAX, "patch.%s.%s.%s", class->name, name, part);
}

lac_status lac__plan_name_check(const char *name, lac_error *err)
{
    size_t length = strlen(name), i = 0;
    while (i < length && (unsigned char)name[i] < 0x80 &&
           (isalnum((unsigned char)name[i]) || (i > 0 && strchr("._-", name[i]))))
        i++;
    if (length > 0 && length <= LAC_NAME_MAX && i == length && strcmp(name, "full") != 0)
        return LAC_OK;
    return lac_fail(err, LAC_EINVAL,
                    "name is \"%.80s\", allowed 1..%d of A-Z a-z 0-9 . _ - after a letter or "
                    "digit, not \"full\"",
                    name, LAC_NAME_MAX);
}

/* ---- growing ---- */

lac_plan_class *lac_plan_class_add(lac_plan *plan, const char *name, lac_scope scope,
                                   const lac_mask *mask)
{
    if (plan->classes_count == LAC_CLASSES_MAX - 1)
        return NULL;
    lac_plan_class *class = &plan->classes[plan->classes_count++];
    snprintf(class->name, sizeof class->name, "%s", name);
    class->scope = scope;
    class->mask = *mask;
    return class;
}

void lac_plan_probe_set(lac_plan_class *class, const lac_probe *probe)
{
    free(class->probe);
    class->probe = NULL;
    if (!probe)
        return;
    class->probe = lac_alloc(1, sizeof *class->probe);
    *class->probe = *probe;
}

lac_status lac_plan_canary_add(lac_plan *plan, lac_input_type type, const char *text, size_t length,
                               lac_error *err)
{
    lac_plan_canaries *canaries = &plan->canaries[type];
    if (length == 0 || length > LAC_PLAN_CANARY_BYTES_MAX)
        return lac_fail(err, LAC_EINVAL, "canary has %zu bytes, allowed 1..%d", length,
                        LAC_PLAN_CANARY_BYTES_MAX);
    if (!lac_utf8_valid(text, length) || memchr(text, 0, length))
        return lac_fail(err, LAC_EINVAL, "canary is no UTF-8 text");
    if (canaries->count == LAC_PLAN_CANARIES_MAX)
        return lac_fail(err, LAC_ETOOBIG, "canaries of %s are more than %d",
                        lac_input_type_name(type), LAC_PLAN_CANARIES_MAX);
    canaries->texts[canaries->count++] = lac_strndup(text, length);
    return LAC_OK;
}

lac_status lac__plan_patch_place(lac_plan *plan, lac_plan_class *class, uint32_t unit,
                                 uint32_t rank, lac_patch **out, lac_error *err)
{
    char text[8];
    lac__plan_unit_text(unit, text);
    if (unit >= 2 * plan->layers || !lac_mask_has(&class->mask, unit))
        return lac_fail(err, LAC_EINVAL, "unit is %s, which class %s does not erase", text,
                        class->name);
    if (rank != plan->hidden &&
        (rank == 0 || rank > plan->hidden || rank % LAC_PATCH_RANK_STEP != 0))
        return lac_fail(err, LAC_EINVAL,
                        "rank of %s is %u, allowed multiples of %d below %u, or %u", text, rank,
                        LAC_PATCH_RANK_STEP, plan->hidden, plan->hidden);
    uint32_t at = 0;
    while (at < class->patches_count && class->patches[at].unit < unit)
        at++;
    if (at == class->patches_count || class->patches[at].unit != unit) {
        class->patches =
            lac_realloc(class->patches, class->patches_count + 1, sizeof *class->patches);
        memmove(&class->patches[at + 1], &class->patches[at],
                (class->patches_count++ - at) * sizeof *class->patches);
    } else {
        patch_free(&class->patches[at]);
    }
    class->patches[at] = (lac_patch){.unit = unit, .rank = rank};
    *out = &class->patches[at];
    return LAC_OK;
}

/* Index of the first half that is no number; `count` when all are. A file may put them at any byte.
 */
static size_t find_odd(const void *halves, size_t count)
{
    size_t i = 0;
    for (uint16_t x; i < count; i++) {
        memcpy(&x, (const char *)halves + i * sizeof x, sizeof x);
        if ((x & 0x7c00u) == 0x7c00u)
            break;
    }
    return i;
}

static uint16_t *copy_halves(const uint16_t *from, size_t count)
{
    uint16_t *to = lac_try_alloc(count, sizeof *to);
    if (to)
        memcpy(to, from, count * sizeof *to);
    return to;
}

static void put_u32(lac_hasher *hasher, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    lac_hasher_add(hasher, bytes, sizeof bytes);
}

static void patch_digest(lac_patch *patch, size_t count)
{
    static const char tag[] = "lacuna patch 1";
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, tag, sizeof tag);
    put_u32(hasher, patch->unit);
    put_u32(hasher, patch->rank);
    if (patch->down)
        lac_hasher_add(hasher, patch->down, count * sizeof *patch->down);
    lac_hasher_add(hasher, patch->up, count * sizeof *patch->up);
    lac_hasher_finish(&hasher, &patch->digest);
}

lac_status lac_plan_patch_set(lac_plan *plan, lac_plan_class *class, uint32_t unit, uint32_t rank,
                              const uint16_t *down, const uint16_t *up, lac_error *err)
{
    size_t count = (size_t)rank * plan->hidden, odd;
    char text[8];
    lac__plan_unit_text(unit, text);
    if ((down == NULL) != (rank == plan->hidden))
        return lac_fail(err, LAC_EINVAL, "patch of %s: down goes with a rank below %u, rank is %u",
                        text, plan->hidden, rank);
    if ((down && (odd = find_odd(down, count)) < count) || (odd = find_odd(up, count)) < count)
        return lac_fail(err, LAC_EINVAL, "patch of %s: element %zu is not finite", text, odd);
    uint16_t *own_down = down ? copy_halves(down, count) : NULL, *own_up = copy_halves(up, count);
    lac_status status = LAC_OK;
    lac_patch *patch;
    if (!own_up || (down && !own_down))
        status = lac_fail(err, LAC_ENOMEM, "patch of %s: no memory for %zu elements", text, count);
    if (status == LAC_OK)
        status = lac__plan_patch_place(plan, class, unit, rank, &patch, err);
    if (status != LAC_OK) {
        free(own_down);
        free(own_up);
        return status;
    }
    patch->down = own_down;
    patch->up = own_up;
    patch_digest(patch, count);
    return LAC_OK;
}

void lac_plan_serve_set(lac_plan_class *class, lac_input_type type, lac_tier tier,
                        const lac_certificate *certificate, const lac_plan_check *checks,
                        uint32_t checks_count)
{
    lac_plan_serve *serve = &class->serves[type];
    LAC_ASSERT(checks_count <= LAC_PLAN_CHECKS_MAX);
    free(serve->checks);
    *serve = (lac_plan_serve){.tier = tier, .certificate = *certificate};
    if (checks_count == 0)
        return;
    serve->checks = lac_alloc(checks_count, sizeof *checks);
    memcpy(serve->checks, checks, checks_count * sizeof *checks);
    serve->checks_count = checks_count;
}

void lac_plan_digest(lac_plan *plan)
{
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        lac_plan_class *class = &plan->classes[c];
        lac_digest *patches = lac_alloc(class->patches_count + 1, sizeof *patches);
        for (uint32_t p = 0; p < class->patches_count; p++)
            patches[p] = class->patches[p].digest;
        lac_class_digest(&plan->model_digest, plan->layers, &class->mask, class->scope, patches,
                         class->patches_count, &class->digest);
        free(patches);
    }
}

bool lac__plan_has_patches(const lac_plan *plan)
{
    for (uint32_t c = 0; c < plan->classes_count; c++)
        if (plan->classes[c].patches_count > 0)
            return true;
    return false;
}

/* ---- rules ---- */

static lac_status range(const char *field, double value, double low, double high, lac_error *err)
{
    if (value >= low && value <= high)
        return LAC_OK;
    return lac_fail(err, LAC_EINVAL, "certificate.%s is %g, allowed %g..%g", field, value, low,
                    high);
}

/* A day of some month; the calendar's finer points are not our business. */
static bool is_date(const char *text)
{
    if (strlen(text) != 10)
        return false;
    for (int i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? text[i] != '-' : text[i] < '0' || text[i] > '9')
            return false;
    int month = (text[5] - '0') * 10 + text[6] - '0', day = (text[8] - '0') * 10 + text[9] - '0';
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* What a reader may print: UTF-8 without control characters but line ends. */
static bool is_printable(const char *text)
{
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n') || *p == 0x7f)
            return false;
    return lac_utf8_valid(text, strlen(text));
}

static lac_status certificate_check(lac_tier tier, const lac_certificate *c, lac_error *err)
{
    lac_status status = range("kl_mean", c->kl_mean, 0, 100, err);
    if (status == LAC_OK)
        status = range("kl_upper", c->kl_upper, c->kl_mean, lac_tier_kl_max(tier), err);
    if (status == LAC_OK)
        status = range("kl_p95", c->kl_p95, 0, 100, err);
    if (status == LAC_OK)
        status = range("top1", c->top1, 0, 1, err);
    if (status == LAC_OK)
        status = range("cost_saved", c->cost_saved, 0, 1, err);
    if (status == LAC_OK)
        status = range("documents", c->documents, LAC_CERTIFICATE_DOCUMENTS, UINT32_MAX, err);
    if (status == LAC_OK)
        status = range("requests", c->requests, LAC_CERTIFICATE_REQUESTS, UINT32_MAX, err);
    if (status == LAC_OK)
        status = range("tokens", (double)c->tokens, c->requests, 1e15, err);
    if (status == LAC_OK && (!c->method[0] || !is_printable(c->method)))
        status = lac_fail(err, LAC_EINVAL,
                          "certificate.method is \"%.40s\", a text of 1..%d bytes "
                          "is needed",
                          c->method, LAC_METHOD_MAX);
    if (status == LAC_OK && !is_date(c->date))
        status =
            lac_fail(err, LAC_EINVAL, "certificate.date is \"%s\", must be YYYY-MM-DD", c->date);
    return status;
}

static lac_status serve_check(const lac_plan_serve *serve, lac_error *err)
{
    if (serve->tier == LAC_TIER_NONE)
        return LAC_OK;
    lac_status status = certificate_check(serve->tier, &serve->certificate, err);
    for (uint32_t i = 0; i < serve->checks_count && status == LAC_OK; i++) {
        const lac_plan_check *check = &serve->checks[i];
        if (!check->name[0] || !is_printable(check->name))
            status = lac_fail(err, LAC_EINVAL,
                              "checks[%u].name is \"%.40s\", allowed 1..%d bytes "
                              "of text",
                              i, check->name, LAC_NAME_MAX);
        else if (!isfinite(check->full) || !isfinite(check->masked) || !isfinite(check->bound))
            status = lac_fail(err, LAC_EINVAL, "checks[%u] holds a number that is not finite", i);
    }
    return status;
}

static lac_status class_check(const lac_plan *plan, const lac_plan_class *class, lac_error *err)
{
    if (lac__plan_name_check(class->name, err) != LAC_OK)
        return LAC_EINVAL;
    if (lac_mask_count(&class->mask) == 0)
        return lac_fail(err, LAC_EINVAL, "mask is empty: that is class full");
    for (uint32_t u = 2 * plan->layers; u < LAC_UNITS_MAX; u++)
        if (lac_mask_has(&class->mask, u))
            return lac_fail(err, LAC_EINVAL, "mask names unit %c%u, the model has %u layers",
                            u % 2 ? 'F' : 'A', u / 2, plan->layers);
    if ((unsigned)class->scope >= LAC_SCOPES)
        return lac_fail(err, LAC_EINVAL, "scope is %d, allowed 0..%d", (int)class->scope,
                        LAC_SCOPES - 1);
    if (!is_printable(class->notes))
        return lac_fail(err, LAC_EINVAL, "notes hold a control character or no UTF-8");
    for (uint32_t p = 0; p < class->patches_count; p++)
        if (!class->patches[p].up)
            return lac_fail(err, LAC_EINVAL, "patches[%u] has no matrices", p);
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
        if (serve_check(&class->serves[t], err) != LAC_OK)
            return lac_fail_in(err, "serves.%s", lac_input_type_name((lac_input_type)t));
    return LAC_OK;
}

lac_status lac_plan_check_all(const lac_plan *plan, lac_error *err)
{
    lac_error own = {0};
    if (!err)
        err = &own;
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        const lac_plan_class *class = &plan->classes[c];
        if (class_check(plan, class, err) != LAC_OK)
            return lac_fail_in(err, "classes[%u]", c);
        if (class->probe && !lac_probe_valid(class->probe))
            return lac_fail(
                err, LAC_EINVAL,
                "classes[%u]: probe has a scale that is not above 0, a number that is not "
                "finite, or threshold %g, allowed %g..1",
                c, class->probe->threshold, LAC_PROBE_CONFIDENCE);
        for (uint32_t other = 0; other < c; other++) {
            if (strcmp(plan->classes[other].name, class->name) == 0)
                return lac_fail(err, LAC_EINVAL, "classes[%u].name is \"%s\", as of classes[%u]", c,
                                class->name, other);
            if (memcmp(&plan->classes[other].digest, &class->digest, sizeof class->digest) == 0)
                return lac_fail(err, LAC_EINVAL,
                                "classes[%u].mask: \"%s\" has mask, scope and patches of \"%s\"", c,
                                class->name, plan->classes[other].name);
        }
    }
    return LAC_OK;
}
