/* From the text of a plan to its structs: every field checked, none ignored. One thread. Must not
 * know files. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "parts.h"
#include "probe/probe.h"

/* ---- fields ---- */

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

/* An object with these fields and no other. `names` ends with NULL; a leading '?' marks a field
 * that may be missing. */
static lac_status object_check(json_t *object, const char *const *names, lac_error *err)
{
    if (!json_is_object(object))
        return lac_fail(err, LAC_EINVAL, "is %s, must be an object", kind_of(object));
    for (const char *const *name = names; *name; name++)
        if (**name != '?' && !json_object_get(object, *name))
            return lac_fail(err, LAC_EINVAL, "%s is missing", *name);
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *const *name = names;
        while (*name && strcmp(*name + (**name == '?'), key) != 0)
            name++;
        if (!*name)
            return lac_fail(err, LAC_EINVAL, "%.64s is no field of this version", key);
    }
    return LAC_OK;
}

static lac_status text_get(json_t *object, const char *name, size_t max, char *out, lac_error *err)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_string(value))
        return lac_fail(err, LAC_EINVAL, "%s is %s, must be a string", name, kind_of(value));
    size_t length = json_string_length(value);
    if (length > max)
        return lac_fail(err, LAC_EINVAL, "%s has %zu bytes, limit %zu", name, length, max);
    memcpy(out, json_string_value(value), length + 1);
    return LAC_OK;
}

static lac_status number_get(json_t *object, const char *name, double *out, lac_error *err)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_number(value))
        return lac_fail(err, LAC_EINVAL, "%s is %s, must be a number", name, kind_of(value));
    *out = json_number_value(value);
    return LAC_OK;
}

static lac_status whole_get(json_t *object, const char *name, int64_t low, int64_t high,
                            int64_t *out, lac_error *err)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        return lac_fail(err, LAC_EINVAL, "%s is %s, must be a whole number", name,
                        json_is_real(value) ? "a fraction" : kind_of(value));
    int64_t number = json_integer_value(value);
    if (number < low || number > high)
        return lac_fail(err, LAC_EINVAL, "%s is %lld, allowed %lld..%lld", name, (long long)number,
                        (long long)low, (long long)high);
    *out = number;
    return LAC_OK;
}

static lac_status digest_get(json_t *object, const char *name, lac_digest *out, lac_error *err)
{
    char text[65];
    lac_digest digest;
    lac_status status = text_get(object, name, 64, text, err);
    if (status != LAC_OK)
        return status;
    if (!lac_unhex(text, digest.bytes, sizeof digest.bytes))
        return lac_fail(err, LAC_EINVAL, "%s is \"%.64s\", must be 64 lower-case hex digits", name,
                        text);
    *out = digest;
    return LAC_OK;
}

static lac_status array_get(json_t *object, const char *name, size_t max, json_t **out,
                            lac_error *err)
{
    json_t *value = json_object_get(object, name);
    if (!json_is_array(value))
        return lac_fail(err, LAC_EINVAL, "%s is %s, must be an array", name, kind_of(value));
    if (json_array_size(value) > max)
        return lac_fail(err, LAC_EINVAL, "%s has %zu elements, limit %zu", name,
                        json_array_size(value), max);
    *out = value;
    return LAC_OK;
}

/* ---- certificates ---- */

static lac_status certificate_numbers(json_t *object, lac_certificate *out, lac_error *err)
{
    int64_t documents, requests, tokens;
    lac_status status = number_get(object, "kl_mean", &out->kl_mean, err);
    if (status == LAC_OK)
        status = number_get(object, "kl_upper", &out->kl_upper, err);
    if (status == LAC_OK)
        status = number_get(object, "kl_p95", &out->kl_p95, err);
    if (status == LAC_OK)
        status = number_get(object, "top1", &out->top1, err);
    if (status == LAC_OK)
        status = number_get(object, "cost_saved", &out->cost_saved, err);
    if (status == LAC_OK)
        status = whole_get(object, "documents", 0, UINT32_MAX, &documents, err);
    if (status == LAC_OK)
        status = whole_get(object, "requests", 0, UINT32_MAX, &requests, err);
    if (status == LAC_OK)
        status = whole_get(object, "tokens", 0, INT64_MAX, &tokens, err);
    if (status != LAC_OK)
        return status;
    out->documents = (uint32_t)documents;
    out->requests = (uint32_t)requests;
    out->tokens = (uint64_t)tokens;
    return LAC_OK;
}

static lac_status certificate_read(json_t *object, lac_certificate *out, lac_error *err)
{
    static const char *const names[] = {"kl_mean",    "kl_upper", "kl_p95",    "top1",
                                        "cost_saved", "data",     "documents", "requests",
                                        "tokens",     "method",   "date",      NULL};
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = certificate_numbers(object, out, err);
    if (status == LAC_OK)
        status = digest_get(object, "data", &out->data, err);
    if (status == LAC_OK)
        status = text_get(object, "method", LAC_METHOD_MAX, out->method, err);
    if (status == LAC_OK)
        status = text_get(object, "date", sizeof out->date - 1, out->date, err);
    return status;
}

static lac_status check_read(json_t *object, lac_plan_check *out, lac_error *err)
{
    static const char *const names[] = {"name", "full", "class", "bound", NULL};
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "name", LAC_NAME_MAX, out->name, err);
    if (status == LAC_OK)
        status = number_get(object, "full", &out->full, err);
    if (status == LAC_OK)
        status = number_get(object, "class", &out->masked, err);
    if (status == LAC_OK)
        status = number_get(object, "bound", &out->bound, err);
    return status;
}

static lac_status serve_read(json_t *object, lac_plan_class *class, lac_input_type type,
                             lac_error *err)
{
    static const char *const names[] = {"tier", "certificate", "?checks", NULL};
    char tier_name[16];
    lac_tier tier = LAC_TIER_NONE;
    lac_certificate certificate = {0};
    json_t *list = NULL;
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "tier", sizeof tier_name - 1, tier_name, err);
    if (status == LAC_OK && !lac_tier_parse(tier_name, &tier))
        status =
            lac_fail(err, LAC_EINVAL, "tier is \"%s\", allowed gold, standard, economy", tier_name);
    if (status == LAC_OK && (status = certificate_read(json_object_get(object, "certificate"),
                                                       &certificate, err)) != LAC_OK)
        lac_fail_in(err, "certificate");
    if (status == LAC_OK && json_object_get(object, "checks"))
        status = array_get(object, "checks", LAC_PLAN_CHECKS_MAX, &list, err);
    size_t count = json_array_size(list);
    lac_plan_check *checks = lac_alloc(count + 1, sizeof *checks);
    for (size_t i = 0; i < count && status == LAC_OK; i++)
        if ((status = check_read(json_array_get(list, i), &checks[i], err)) != LAC_OK)
            lac_fail_in(err, "checks[%zu]", i);
    if (status == LAC_OK)
        lac_plan_serve_set(class, type, tier, &certificate, checks, (uint32_t)count);
    free(checks);
    return status;
}

static lac_status serves_read(json_t *object, lac_plan_class *class, lac_error *err)
{
    if (!json_is_object(object))
        return lac_fail(err, LAC_EINVAL, "is %s, must be an object", kind_of(object));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        lac_input_type type;
        if (!lac_input_type_parse(key, &type))
            return lac_fail(err, LAC_EINVAL,
                            "%.64s is no input type, allowed structured, unstructured, hybrid, "
                            "code",
                            key);
        if (serve_read(value, class, type, err) != LAC_OK)
            return lac_fail_in(err, "%s", key);
    }
    return LAC_OK;
}

/* ---- classes ---- */

/* A mask as it is written: canonical, so that equal plans are equal bytes. */
static lac_status mask_read(const char *text, uint32_t layers, lac_mask *out, lac_error *err)
{
    lac_buf canonical = {0};
    lac_status status = lac_mask_parse(text, layers, out, err);
    if (status != LAC_OK)
        return status;
    lac_mask_text(out, &canonical);
    if (strcmp(canonical.data ? canonical.data : "", text) != 0)
        status = lac_fail(err, LAC_EINVAL, "mask is \"%.80s\", in canonical form \"%.80s\"", text,
                          canonical.data ? canonical.data : "");
    lac_buf_free(&canonical);
    return status;
}

static lac_status patch_read(json_t *object, lac_plan *plan, lac_plan_class *class, lac_error *err)
{
    static const char *const names[] = {"unit", "rank", NULL};
    char unit[8];
    int64_t rank = 0;
    lac_mask one = {{0}};
    lac_patch *patch;
    uint32_t before = class->patches_count, index = 0;
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "unit", sizeof unit - 1, unit, err);
    if (status == LAC_OK)
        status = whole_get(object, "rank", 1, LAC_HIDDEN_MAX, &rank, err);
    if (status == LAC_OK)
        status = mask_read(unit, plan->layers, &one, err);
    if (status != LAC_OK)
        return status;
    if (lac_mask_count(&one) != 1)
        return lac_fail(err, LAC_EINVAL, "unit is \"%s\", must be one unit", unit);
    while (!lac_mask_has(&one, index))
        index++;
    if (before > 0 && class->patches[before - 1].unit >= index)
        return lac_fail(err, LAC_EINVAL, "unit %s is out of order or repeated", unit);
    return lac__plan_patch_place(plan, class, index, (uint32_t)rank, &patch, err);
}

static lac_status numbers_get(json_t *object, const char *name, size_t count, double *out,
                              lac_error *err)
{
    json_t *list;
    lac_status status = array_get(object, name, count, &list, err);
    if (status == LAC_OK && json_array_size(list) != count)
        status = lac_fail(err, LAC_EINVAL, "%s has %zu elements, must have %zu", name,
                          json_array_size(list), count);
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        json_t *value = json_array_get(list, i);
        if (!json_is_number(value))
            return lac_fail(err, LAC_EINVAL, "%s[%zu] is %s, must be a number", name, i,
                            kind_of(value));
        out[i] = json_number_value(value);
    }
    return status;
}

static lac_status probe_read(json_t *object, lac_plan_class *class, lac_error *err)
{
    static const char *const names[] = {"mean", "scale", "weights", "bias", "threshold", NULL};
    lac_probe probe, *p = &probe;
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = numbers_get(object, "mean", LAC_PROBE_FEATURES, p->mean, err);
    if (status == LAC_OK)
        status = numbers_get(object, "scale", LAC_PROBE_FEATURES, p->scale, err);
    if (status == LAC_OK)
        status = numbers_get(object, "weights", LAC_PROBE_FEATURES, p->weight, err);
    if (status == LAC_OK)
        status = number_get(object, "bias", &p->bias, err);
    if (status == LAC_OK)
        status = number_get(object, "threshold", &p->threshold, err);
    if (status == LAC_OK && !lac_probe_valid(p))
        status = lac_fail(err, LAC_EINVAL, "scale must be above 0, threshold is %g, allowed %g..1",
                          p->threshold, LAC_PROBE_CONFIDENCE);
    if (status == LAC_OK)
        lac_plan_probe_set(class, &probe);
    return status;
}

static lac_status class_fields(json_t *object, const lac_plan *plan, char *name, lac_scope *scope,
                               lac_mask *mask, char *notes, lac_error *err)
{
    static const char *const names[] = {"name",   "scope",    "mask",   "serves",
                                        "?notes", "?patches", "?probe", NULL};
    enum { MASK_BYTES_MAX = LAC_UNITS_MAX * 6 };
    char scope_name[16];
    char *mask_text = lac_alloc(MASK_BYTES_MAX + 1, 1);
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "name", LAC_NAME_MAX, name, err);
    if (status == LAC_OK)
        status = lac__plan_name_check(name, err);
    if (status == LAC_OK)
        status = text_get(object, "scope", sizeof scope_name - 1, scope_name, err);
    if (status == LAC_OK && !lac_scope_parse(scope_name, scope))
        status = lac_fail(err, LAC_EINVAL, "scope is \"%s\", allowed request, decode", scope_name);
    if (status == LAC_OK)
        status = text_get(object, "mask", MASK_BYTES_MAX, mask_text, err);
    if (status == LAC_OK)
        status = mask_read(mask_text, plan->layers, mask, err);
    if (status == LAC_OK && json_object_get(object, "notes"))
        status = text_get(object, "notes", LAC_PLAN_NOTES_MAX, notes, err);
    free(mask_text);
    return status;
}

static lac_status class_read(json_t *object, lac_plan *plan, lac_error *err)
{
    char name[LAC_NAME_MAX + 1] = "", notes[LAC_PLAN_NOTES_MAX + 1] = "";
    lac_scope scope = LAC_SCOPE_REQUEST;
    lac_mask mask = {{0}};
    json_t *list = NULL;
    lac_status status = class_fields(object, plan, name, &scope, &mask, notes, err);
    if (status == LAC_OK && json_object_get(object, "patches"))
        status = array_get(object, "patches", LAC_UNITS_MAX, &list, err);
    if (status != LAC_OK)
        return status;
    lac_plan_class *class = lac_plan_class_add(plan, name, scope, &mask);
    memcpy(class->notes, notes, sizeof notes);
    if (serves_read(json_object_get(object, "serves"), class, err) != LAC_OK)
        return lac_fail_in(err, "serves");
    json_t *probe = json_object_get(object, "probe");
    if (probe && probe_read(probe, class, err) != LAC_OK)
        return lac_fail_in(err, "probe");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (patch_read(json_array_get(list, i), plan, class, err) != LAC_OK)
            return lac_fail_in(err, "patches[%zu]", i);
    return LAC_OK;
}

/* ---- the file ---- */

static lac_status model_read(json_t *object, lac_plan *plan, lac_error *err)
{
    static const char *const names[] = {"name", "digest", "layers", "hidden", NULL};
    int64_t layers = 0, hidden = 0;
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "name", LAC_MODEL_NAME_MAX, plan->model_name, err);
    if (status == LAC_OK)
        status = digest_get(object, "digest", &plan->model_digest, err);
    if (status == LAC_OK)
        status = whole_get(object, "layers", 1, LAC_LAYERS_MAX, &layers, err);
    if (status == LAC_OK)
        status = whole_get(object, "hidden", 1, LAC_HIDDEN_MAX, &hidden, err);
    for (const char *c = plan->model_name; status == LAC_OK && *c; c++)
        if (*c <= 0x20 || *c >= 0x7f)
            status = lac_fail(err, LAC_EINVAL, "name holds a byte that is no printable ASCII");
    plan->layers = (uint32_t)layers;
    plan->hidden = (uint32_t)hidden;
    return status;
}

static lac_status companion_read(json_t *object, lac_plan *plan,
                                 char companion[LAC__PLAN_FILE_MAX + 1], lac_error *err)
{
    static const char *const names[] = {"file", "sha256", NULL};
    companion[0] = '\0';
    if (json_is_null(object))
        return LAC_OK;
    lac_status status = object_check(object, names, err);
    if (status == LAC_OK)
        status = text_get(object, "file", LAC__PLAN_FILE_MAX, companion, err);
    if (status == LAC_OK)
        status = digest_get(object, "sha256", &plan->patches_digest, err);
    if (status == LAC_OK && (companion[0] == '\0' || companion[0] == '.' || strchr(companion, '/')))
        status =
            lac_fail(err, LAC_EINVAL, "file is \"%.80s\", must lie beside the plan", companion);
    return status;
}

static lac_status canaries_read(json_t *object, lac_plan *plan, lac_error *err)
{
    if (!json_is_object(object))
        return lac_fail(err, LAC_EINVAL, "is %s, must be an object", kind_of(object));
    const char *key;
    json_t *list, *text;
    size_t i;
    json_object_foreach(object, key, list)
    {
        lac_input_type type;
        if (!lac_input_type_parse(key, &type))
            return lac_fail(
                err, LAC_EINVAL,
                "%.64s is no input type, allowed structured, unstructured, hybrid, code", key);
        if (!json_is_array(list))
            return lac_fail(err, LAC_EINVAL, "%s is %s, must be an array", key, kind_of(list));
        json_array_foreach(list, i, text)
        {
            if (!json_is_string(text))
                return lac_fail(err, LAC_EINVAL, "%s[%zu] is %s, must be a string", key, i,
                                kind_of(text));
            if (lac_plan_canary_add(plan, type, json_string_value(text), json_string_length(text),
                                    err) != LAC_OK)
                return lac_fail_in(err, "%s[%zu]", key, i);
        }
    }
    return LAC_OK;
}

/* Before anything else: a later version may differ in everything. */
static lac_status version_check(json_t *root, lac_error *err)
{
    char format[16];
    int64_t version = 0;
    if (!json_is_object(root))
        return lac_fail(err, LAC_EINVAL, "the file is %s, must be an object", kind_of(root));
    if (!json_object_get(root, "format") || !json_object_get(root, "version"))
        return lac_fail(err, LAC_EINVAL, "format or version is missing: this is no plan");
    lac_status status = text_get(root, "format", sizeof format - 1, format, err);
    if (status == LAC_OK && strcmp(format, "lacuna-plan") != 0)
        status = lac_fail(err, LAC_EINVAL, "format is \"%s\", must be \"lacuna-plan\"", format);
    if (status == LAC_OK)
        status = whole_get(root, "version", INT64_MIN, INT64_MAX, &version, err);
    if (status == LAC_OK && (version < LAC_PLAN_VERSION_OLDEST || version > LAC_PLAN_VERSION))
        status = lac_fail(err, LAC_EUNSUPPORTED, "version is %lld, this program reads %d..%d",
                          (long long)version, LAC_PLAN_VERSION_OLDEST, LAC_PLAN_VERSION);
    return status;
}

static lac_status root_read(json_t *root, lac_plan *plan, char companion[LAC__PLAN_FILE_MAX + 1],
                            lac_error *err)
{
    static const char *const first[] = {"format", "version", "model", "patches", "classes", NULL};
    static const char *const names[] = {"format",  "version",   "model", "patches",
                                        "classes", "?canaries", NULL};
    json_t *list = NULL, *canaries = json_object_get(root, "canaries");
    lac_status status = version_check(root, err);
    bool oldest = json_integer_value(json_object_get(root, "version")) == 1;
    if (status == LAC_OK)
        status = object_check(root, oldest ? first : names, err);
    if (status != LAC_OK)
        return status;
    if (canaries && canaries_read(canaries, plan, err) != LAC_OK)
        return lac_fail_in(err, "canaries");
    if (model_read(json_object_get(root, "model"), plan, err) != LAC_OK)
        return lac_fail_in(err, "model");
    if (companion_read(json_object_get(root, "patches"), plan, companion, err) != LAC_OK)
        return lac_fail_in(err, "patches");
    status = array_get(root, "classes", LAC_CLASSES_MAX - 1, &list, err);
    for (size_t i = 0; i < json_array_size(list) && status == LAC_OK; i++)
        if ((status = class_read(json_array_get(list, i), plan, err)) != LAC_OK)
            lac_fail_in(err, "classes[%zu]", i);
    if (status == LAC_OK && lac__plan_has_patches(plan) != (companion[0] != '\0'))
        status =
            lac_fail(err, LAC_EINVAL, "patches names %s, classes have %s",
                     companion[0] ? "a file" : "no file", companion[0] ? "no patches" : "patches");
    return status;
}

lac_status lac__plan_decode(const char *text, size_t length, lac_plan **out,
                            char companion[LAC__PLAN_FILE_MAX + 1], lac_error *err)
{
    json_error_t json_err;
    lac_error own = {0};
    if (!err)
        err = &own;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_err);
    if (!root)
        return lac_fail(err, LAC_EINVAL, "line %d: %s", json_err.line, json_err.text);
    lac_plan *plan = lac_alloc(1, sizeof *plan);
    lac_status status = root_read(root, plan, companion, err);
    json_decref(root);
    if (status != LAC_OK) {
        lac_plan_destroy(&plan);
        return status;
    }
    *out = plan;
    return LAC_OK;
}
