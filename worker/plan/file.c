/* Plans on disk: load and save, the plan beside its companion. One thread. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "parts.h"
#include "probe/probe.h"

enum { PATH_BYTES = 4096 };

/* ---- reading ---- */

static lac_status read_file(const char *path, size_t max, char **bytes, size_t *length,
                            lac_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    lac_buf buf = {.cap = max};
    char *block = lac_alloc(1, 65536);
    size_t n;
    while ((n = fread(block, 1, 65536, file)) > 0 && lac_buf_add(&buf, block, n))
        ;
    lac_status status = LAC_OK;
    if (ferror(file))
        status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    else if (buf.overflow)
        status = lac_fail(err, LAC_ETOOBIG, "%s: more than %zu bytes", path, max);
    else if (buf.length == 0)
        status = lac_fail(err, LAC_ECORRUPT, "%s: the file is empty", path);
    free(block);
    fclose(file);
    if (status != LAC_OK) {
        lac_buf_free(&buf);
        return status;
    }
    *bytes = buf.data;
    *length = buf.length;
    return LAC_OK;
}

/* The path of a file that lies beside `path`. */
static lac_status beside(const char *path, const char *name, char out[PATH_BYTES], lac_error *err)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    int length = snprintf(out, PATH_BYTES, "%.*s%s", folder, path, name);
    if (length < 0 || length >= PATH_BYTES)
        return lac_fail(err, LAC_EINVAL, "path of %d bytes, limit %d", length, PATH_BYTES - 1);
    return LAC_OK;
}

static lac_status companion_load(lac_plan *plan, const char *path, const char *name, lac_error *err)
{
    char file[PATH_BYTES], hex[65];
    char *bytes = NULL;
    size_t length = 0;
    lac_digest digest;
    lac_status status = beside(path, name, file, err);
    if (status == LAC_OK)
        status = read_file(file, LAC_PLAN_PATCHES_BYTES_MAX, &bytes, &length, err);
    if (status != LAC_OK)
        return status;
    lac_sha256(bytes, length, &digest);
    if (memcmp(&digest, &plan->patches_digest, sizeof digest) != 0) {
        lac_hex(digest.bytes, sizeof digest.bytes, hex);
        status =
            lac_fail(err, LAC_ECORRUPT, "%s: SHA-256 is %s, %s names another", file, hex, path);
    } else if ((status = lac__plan_bind(plan, bytes, length, err)) != LAC_OK) {
        lac_fail_in(err, "%s", file);
    }
    free(bytes);
    return status;
}

static lac_status model_check(const lac_plan *plan, const lac_model *model, lac_error *err)
{
    lac_digest digest;
    char hex[2][65];
    lac_model_digest(model, &digest);
    lac_hex(digest.bytes, sizeof digest.bytes, hex[0]);
    lac_hex(plan->model_digest.bytes, sizeof digest.bytes, hex[1]);
    if (memcmp(&digest, &plan->model_digest, sizeof digest) != 0)
        return lac_fail(err, LAC_EREFUSED,
                        "model.digest is %.16s… (%s), the model's is %.16s… (%s)", hex[1],
                        plan->model_name, hex[0], model->name);
    if (plan->layers != model->layers_count || plan->hidden != model->hidden)
        return lac_fail(err, LAC_EREFUSED,
                        "model.layers and hidden are %u and %u, the model's %u "
                        "and %u",
                        plan->layers, plan->hidden, model->layers_count, model->hidden);
    for (uint32_t c = 0; c < plan->classes_count; c++)
        for (uint32_t u = 0; u < 2 * plan->layers; u++)
            if (lac_mask_has(&plan->classes[c].mask, u) &&
                (u % 2 ? model->layers[u / 2].ffn : model->layers[u / 2].heads) == 0)
                return lac_fail(err, LAC_EREFUSED,
                                "classes[%u].mask names unit %c%u, which the model does not have",
                                c, u % 2 ? 'F' : 'A', u / 2);
    return LAC_OK;
}

lac_status lac_plan_load(const char *path, const lac_model *model, lac_plan **out, lac_error *err)
{
    char companion[LAC__PLAN_FILE_MAX + 1];
    char *text = NULL;
    size_t length = 0;
    lac_plan *plan = NULL;
    lac_error own = {0};
    if (!err)
        err = &own;
    lac_status status = read_file(path, LAC_PLAN_BYTES_MAX, &text, &length, err);
    if (status != LAC_OK)
        return status;
    status = lac__plan_decode(text, length, &plan, companion, err);
    free(text);
    if (status == LAC_OK && model)
        status = model_check(plan, model, err);
    if (status != LAC_OK) {
        lac_plan_destroy(&plan);
        return lac_fail_in(err, "%s", path);
    }
    if (companion[0])
        status = companion_load(plan, path, companion, err);
    if (status == LAC_OK) {
        lac_plan_digest(plan);
        if ((status = lac_plan_check_all(plan, err)) != LAC_OK)
            lac_fail_in(err, "%s", path);
    }
    if (status != LAC_OK) {
        lac_plan_destroy(&plan);
        return status;
    }
    *out = plan;
    return LAC_OK;
}

/* ---- writing ---- */

static json_t *digest_json(const lac_digest *digest)
{
    char hex[65];
    lac_hex(digest->bytes, sizeof digest->bytes, hex);
    return json_string(hex);
}

static json_t *serve_json(const lac_plan_serve *serve)
{
    const lac_certificate *c = &serve->certificate;
    json_t *out =
        json_pack("{s:s, s:{s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:I, s:I, s:s, s:s}}", "tier",
                  lac_tier_name(serve->tier), "certificate", "kl_mean", c->kl_mean, "kl_upper",
                  c->kl_upper, "kl_p95", c->kl_p95, "top1", c->top1, "cost_saved", c->cost_saved,
                  "data", digest_json(&c->data), "documents", (json_int_t)c->documents, "requests",
                  (json_int_t)c->requests, "tokens", (json_int_t)c->tokens, "method", c->method,
                  "date", c->date);
    if (serve->checks_count == 0)
        return out;
    json_t *list = json_array();
    for (uint32_t i = 0; i < serve->checks_count; i++) {
        const lac_plan_check *check = &serve->checks[i];
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f}", "name", check->name, "full",
                                              check->full, "class", check->masked, "bound",
                                              check->bound));
    }
    json_object_set_new(out, "checks", list);
    return out;
}

static json_t *numbers_json(const double *numbers)
{
    json_t *list = json_array();
    for (int i = 0; i < LAC_PROBE_FEATURES; i++)
        json_array_append_new(list, json_real(numbers[i]));
    return list;
}

static json_t *probe_json(const lac_probe *p)
{
    return json_pack("{s:o, s:o, s:o, s:f, s:f}", "mean", numbers_json(p->mean), "scale",
                     numbers_json(p->scale), "weights", numbers_json(p->weight), "bias", p->bias,
                     "threshold", p->threshold);
}

static json_t *class_json(const lac_plan_class *class)
{
    lac_buf mask = {0};
    lac_mask_text(&class->mask, &mask);
    json_t *serves = json_object();
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
        if (class->serves[t].tier != LAC_TIER_NONE)
            json_object_set_new(serves, lac_input_type_name((lac_input_type)t),
                                serve_json(&class->serves[t]));
    json_t *out = json_pack("{s:s, s:s, s:s, s:o}", "name", class->name, "scope",
                            lac_scope_name(class->scope), "mask", mask.data, "serves", serves);
    lac_buf_free(&mask);
    if (class->notes[0])
        json_object_set_new(out, "notes", json_string(class->notes));
    if (class->probe)
        json_object_set_new(out, "probe", probe_json(class->probe));
    if (class->patches_count == 0)
        return out;
    json_t *patches = json_array();
    for (uint32_t p = 0; p < class->patches_count; p++) {
        char unit[8];
        lac__plan_unit_text(class->patches[p].unit, unit);
        json_array_append_new(patches, json_pack("{s:s, s:I}", "unit", unit, "rank",
                                                 (json_int_t) class->patches[p].rank));
    }
    json_object_set_new(out, "patches", patches);
    return out;
}

/* NULL when there are none. */
static json_t *canaries_json(const lac_plan *plan)
{
    json_t *out = NULL;
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++) {
        const lac_plan_canaries *canaries = &plan->canaries[t];
        if (canaries->count == 0)
            continue;
        json_t *list = json_array();
        for (uint32_t i = 0; i < canaries->count; i++)
            json_array_append_new(list, json_string(canaries->texts[i]));
        out = out ? out : json_object();
        json_object_set_new(out, lac_input_type_name((lac_input_type)t), list);
    }
    return out;
}

static json_t *plan_json(const lac_plan *plan, const char *companion)
{
    json_t *classes = json_array();
    for (uint32_t c = 0; c < plan->classes_count; c++)
        json_array_append_new(classes, class_json(&plan->classes[c]));
    json_t *patches = companion ? json_pack("{s:s, s:o}", "file", companion, "sha256",
                                            digest_json(&plan->patches_digest))
                                : json_null();
    json_t *canaries = canaries_json(plan);
    bool second = canaries != NULL;
    for (uint32_t c = 0; c < plan->classes_count; c++)
        second |= plan->classes[c].probe != NULL;
    json_t *root =
        json_pack("{s:s, s:i, s:{s:s, s:o, s:I, s:I}, s:o, s:o}", "format", "lacuna-plan",
                  "version", second ? 2 : 1, "model", "name", plan->model_name, "digest",
                  digest_json(&plan->model_digest), "layers", (json_int_t)plan->layers, "hidden",
                  (json_int_t)plan->hidden, "patches", patches, "classes", classes);
    if (root && canaries)
        json_object_set(root, "canaries", canaries);
    json_decref(canaries);
    return root;
}

/* Writes beside `path` and moves into place. */
static lac_status write_file(const char *path, const char *text, size_t length, lac_error *err)
{
    char temporary[PATH_BYTES + 32];
    snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid());
    FILE *out = fopen(temporary, "wbx");
    if (!out)
        return lac_fail(err, LAC_EIO, "%s: %s", temporary, strerror(errno));
    bool failed = fwrite(text, 1, length, out) != length || fputc('\n', out) == EOF;
    failed |= fflush(out) != 0 || fsync(fileno(out)) != 0;
    failed |= fclose(out) != 0;
    if (!failed && rename(temporary, path) == 0)
        return LAC_OK;
    lac_status status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    unlink(temporary);
    return status;
}

/* Writes the companion under a name that its hash gives; fills name and plan->patches_digest. */
static lac_status companion_save(lac_plan *plan, const char *path,
                                 char name[LAC__PLAN_FILE_MAX + 1], lac_error *err)
{
    char temporary[PATH_BYTES + 32], final[PATH_BYTES], hex[9];
    const char *stem = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t length = strlen(stem), size = 0;
    char *bytes = NULL;
    length -= length > 5 && strcmp(stem + length - 5, ".json") == 0 ? 5 : 0;
    if (length == 0 || length > LAC__PLAN_FILE_MAX - sizeof ".patches-01234567.gguf" ||
        stem[0] == '.')
        return lac_fail(err, LAC_EINVAL,
                        "%s: the file's name has %zu bytes, allowed 1..%zu, not "
                        "starting with a dot",
                        path, length, LAC__PLAN_FILE_MAX - sizeof ".patches-01234567.gguf");
    snprintf(temporary, sizeof temporary, "%s.patches.%ld", path, (long)getpid());
    lac_status status = lac__plan_companion_write(plan, temporary, err);
    if (status == LAC_OK)
        status = read_file(temporary, LAC_PLAN_PATCHES_BYTES_MAX, &bytes, &size, err);
    if (status == LAC_OK) {
        lac_sha256(bytes, size, &plan->patches_digest);
        lac_hex(plan->patches_digest.bytes, 4, hex);
        snprintf(name, LAC__PLAN_FILE_MAX + 1, "%.*s.patches-%s.gguf", (int)length, stem, hex);
        status = beside(path, name, final, err);
    }
    free(bytes);
    if (status == LAC_OK && rename(temporary, final) != 0)
        status = lac_fail(err, LAC_EIO, "%s: %s", final, strerror(errno));
    if (status != LAC_OK)
        unlink(temporary);
    return status;
}

lac_status lac_plan_save(lac_plan *plan, const char *path, lac_error *err)
{
    char companion[LAC__PLAN_FILE_MAX + 1];
    bool patches = lac__plan_has_patches(plan);
    if (strlen(path) == 0 || strlen(path) >= PATH_BYTES)
        return lac_fail(err, LAC_EINVAL, "path of %zu bytes, allowed 1..%d", strlen(path),
                        PATH_BYTES - 1);
    lac_plan_digest(plan);
    plan->patches_digest = (lac_digest){{0}};
    lac_status status = lac_plan_check_all(plan, err);
    if (status == LAC_OK && patches)
        status = companion_save(plan, path, companion, err);
    if (status != LAC_OK)
        return status;
    json_t *root = plan_json(plan, patches ? companion : NULL);
    char *text =
        root ? json_dumps(root, JSON_SORT_KEYS | JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    status = text ? write_file(path, text, strlen(text), err)
                  : lac_fail(err, LAC_EINVAL, "%s: a text of the plan is no UTF-8", path);
    free(text);
    json_decref(root);
    return status;
}
