/* Tenants as people write them down: the table of a section's lines, and the checks beyond type and
 * range. Knows the file's form alone; what the rules mean is the core's. */
#include "tenants.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/mem.h"

typedef struct {
    int64_t weight, requests, tokens, concurrency, priority_max;
    char tier[16], tier_max[16], models[200];
    bool brownout, sparse_header;
} lines;

#define FIELD(name)  offsetof(lines, name)
#define STRING(name) LAC_OPT_STRING, FIELD(name), sizeof((lines *)0)->name

/* clang-format off */
static const lac_option table[] = {
    {"weight", LAC_OPT_INT, FIELD(weight), 0, "1", 1, LAC_TENANT_WEIGHT_MAX, true, "N",
     "its share of the work while more waits than can run"},
    {"requests-per-minute", LAC_OPT_INT, FIELD(requests), 0, "0", 0, LAC_QUOTA_MAX, true, "N",
     "0 = no limit"},
    {"tokens-per-minute", LAC_OPT_INT, FIELD(tokens), 0, "0", 0, LAC_QUOTA_MAX, true, "N",
     "of prompts and answers; 0 = no limit"},
    {"concurrency", LAC_OPT_INT, FIELD(concurrency), 0, "0", 0, LAC_REQUESTS_MAX, true, "N",
     "requests that wait or run at once; 0 = no limit"},
    {"priority-max", LAC_OPT_INT, FIELD(priority_max), 0, "2", -LAC_PRIORITY_MAX, LAC_PRIORITY_MAX,
     true, "N", "what asks for more gets this"},
    {"tier", STRING(tier), NULL, 0, 0, true, "TIER",
     "its requests run as classes up to this tier: none, gold, standard or economy; default: as --tier"},
    {"tier-max", STRING(tier_max), NULL, 0, 0, true, "TIER",
     "the deepest they may ask for, or get in a brownout; default: as tier"},
    {"brownout", LAC_OPT_BOOL, FIELD(brownout), 0, NULL, 0, 0, true, "",
     "while a model is saturated, run classes up to tier-max"},
    {"sparse-header", LAC_OPT_BOOL, FIELD(sparse_header), 0, "true", 0, 0, true, "",
     "its requests may say whether a class is used (X-Lacuna-Sparse)"},
    {"models", STRING(models), NULL, 0, 0, true, "NAME NAME …",
     "the models it may use; default: all"},
};
/* clang-format on */
enum { LINES = sizeof table / sizeof *table };

typedef struct {
    lac_tenant *rows;
    size_t count;
} list;

static lac_status tier_of(const char *field, const char *text, bool *has, lac_tier *out,
                          lac_error *err)
{
    *has = *text != 0;
    *out = LAC_TIER_NONE;
    if (!*has || !strcmp(text, "none") || lac_tier_parse(text, out))
        return LAC_OK;
    return lac_fail(err, LAC_EINVAL, "%s is \"%s\", allowed: none, gold, standard, economy", field,
                    text);
}

static lac_status models_of(const char *text, lac_tenant *t, lac_error *err)
{
    static const char between[] = ", \t";
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t length = strcspn(text, between);
        if (t->models_count == LAC_TENANT_MODELS_MAX)
            return lac_fail(err, LAC_ETOOBIG, "models has more than %d names",
                            LAC_TENANT_MODELS_MAX);
        if (length > LAC_MODEL_NAME_MAX)
            return lac_fail(err, LAC_EINVAL, "models has \"%.40s…\", allowed %d characters", text,
                            LAC_MODEL_NAME_MAX);
        memcpy(t->models[t->models_count], text, length);
        t->models[t->models_count++][length] = 0;
        text += length;
    }
    return LAC_OK;
}

static lac_status add(void *arg, const char *section, const void *fields, lac_error *err)
{
    list *all = arg;
    lines l;
    memcpy(&l, fields, sizeof l);
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->rows[i].name, section))
            return lac_fail(err, LAC_EEXIST, "the name is there already");
    if (all->count == LAC_TENANTS_MAX)
        return lac_fail(err, LAC_ETOOBIG, "more than %d tenants", LAC_TENANTS_MAX);
    if (!(all->count & (all->count - 1)))
        all->rows = lac_realloc(all->rows, all->count ? 2 * all->count : 1, sizeof *all->rows);
    lac_tenant *t = &all->rows[all->count];
    *t = lac_tenant_default(section);
    t->weight = (uint32_t)l.weight;
    t->requests_minute = (uint64_t)l.requests;
    t->tokens_minute = (uint64_t)l.tokens;
    t->concurrency = (uint32_t)l.concurrency;
    t->priority_max = (int32_t)l.priority_max;
    t->brownout = l.brownout;
    t->sparse_header = l.sparse_header;
    lac_status status = tier_of("tier", l.tier, &t->has_tier, &t->tier, err);
    if (status == LAC_OK)
        status = tier_of("tier-max", l.tier_max, &t->has_tier_max, &t->tier_max, err);
    if (status == LAC_OK && t->has_tier && t->has_tier_max && t->tier_max < t->tier)
        status = lac_fail(err, LAC_EINVAL, "tier-max is %s, allowed: not below tier, which is %s",
                          l.tier_max, l.tier);
    if (status == LAC_OK)
        status = models_of(l.models, t, err);
    all->count += status == LAC_OK;
    return status;
}

static lac_status load(const char *path, list *out, lac_error *err)
{
    *out = (list){0};
    lac_status status = lac_config_sections(table, LINES, sizeof(lines), path, add, out, err);
    if (status == LAC_OK)
        return LAC_OK;
    free(out->rows);
    *out = (list){0};
    return lac_fail_in(err, "tenants");
}

lac_status lac__tenants_read(const char *path, lac_core *core, lac_recorder *recorder,
                             uint64_t now_ms, lac_error *err)
{
    list all;
    lac_status status = load(path, &all, err);
    if (status == LAC_OK) {
        lac_recorder_begin_tenants(recorder, now_ms, all.rows, all.count);
        status = lac_core_set_tenants(core, now_ms, all.rows, all.count, err);
        lac_recorder_end(recorder);
    }
    free(all.rows);
    return status;
}
