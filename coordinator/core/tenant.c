/* Tenants: their rules, what they have used of their quotas, and what they may not do. Who goes
 * first among them is fair.c's. Loop thread; time comes with events.
 *
 * Tokens are reserved at admission (the prompt's estimate and the longest answer asked for) and set
 * right at the end, so a tenant's debt is never more than what its running requests went beyond
 * what they were expected to make. */
#include "state.h"

#include <stdio.h>
#include <string.h>

lac_tenant lac_tenant_default(const char *name)
{
    lac_tenant t = {.weight = 1, .priority_max = LAC_PRIORITY_MAX, .sparse_header = true};
    lac__copy_text(t.name, sizeof t.name, name);
    return t;
}

/* ---- the table ---- */

static lac_tenant rules_for(const lac_core *core, const char *name)
{
    const lac_tenant *rest = NULL;
    for (size_t i = 0; i < core->rules_count; i++) {
        if (!strcmp(core->rules[i].name, name))
            return core->rules[i];
        if (!strcmp(core->rules[i].name, "*"))
            rest = &core->rules[i];
    }
    lac_tenant rules = rest ? *rest : lac_tenant_default(name);
    lac__copy_text(rules.name, sizeof rules.name, name);
    return rules;
}

static void obey(lac_core *core, lac__tenant *t)
{
    t->rules = rules_for(core, t->rules.name);
    lac__bucket_limit(&t->requests, t->rules.requests_minute, core->now_ms);
    lac__bucket_limit(&t->tokens, t->rules.tokens_minute, core->now_ms);
}

/* Some tenant that has nothing here and owes nothing makes room. */
static bool make_room(lac_core *core)
{
    for (lac__tenant *t = core->tenants, *next; t; t = next) {
        next = t->hh.next;
        uint32_t requests_ms, tokens_ms;
        lac__bucket_left(&t->requests, core->now_ms, &requests_ms);
        lac__bucket_left(&t->tokens, core->now_ms, &tokens_ms);
        if (t->records || requests_ms || tokens_ms)
            continue;
        HASH_DEL(core->tenants, t);
        free(t);
        return true;
    }
    return false;
}

lac__tenant *lac__tenant_find(lac_core *core, const char *name)
{
    lac__tenant *t = NULL;
    if (!name)
        name = "";
    size_t length = strlen(name);
    if (length > LAC_NAME_MAX)
        length = LAC_NAME_MAX;
    HASH_FIND(hh, core->tenants, name, length, t);
    if (t || (HASH_COUNT(core->tenants) >= LAC_TENANTS_MAX && !make_room(core)))
        return t;
    t = lac_alloc(1, sizeof *t);
    lac__copy_text(t->rules.name, sizeof t->rules.name, name);
    if (*name) {
        lac_digest digest;
        char text[LAC_NAME_MAX + 16];
        int size = snprintf(text, sizeof text, "tenant %s", t->rules.name);
        lac_sha256(text, (size_t)size, &digest);
        memcpy(t->salt, digest.bytes, sizeof t->salt);
    }
    obey(core, t);
    HASH_ADD(hh, core->tenants, rules.name, length, t);
    return t;
}

lac_status lac_core_set_tenants(lac_core *core, uint64_t now_ms, const lac_tenant *rows,
                                size_t count, lac_error *err)
{
    LAC_ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    if (count > LAC_TENANTS_MAX)
        return lac_fail(err, LAC_ETOOBIG, "%zu tenants, allowed %d", count, LAC_TENANTS_MAX);
    lac_tenant *copy = count ? lac_try_alloc(count, sizeof *copy) : NULL;
    if (count && !copy)
        return lac_fail(err, LAC_ENOMEM, "no memory for %zu tenants", count);
    for (size_t i = 0; i < count; i++) {
        LAC_ASSERT(rows[i].weight >= 1 && rows[i].weight <= LAC_TENANT_WEIGHT_MAX);
        LAC_ASSERT(rows[i].models_count <= LAC_TENANT_MODELS_MAX);
        copy[i] = rows[i];
    }
    free(core->rules);
    core->rules = copy;
    core->rules_count = count;
    for (lac__tenant *t = core->tenants; t; t = t->hh.next)
        obey(core, t);
    core->pump = true;
    return LAC_OK;
}

void lac__tenants_free(lac_core *core)
{
    for (lac__tenant *t = core->tenants, *next; t; t = next) {
        next = t->hh.next;
        LAC_ASSERT(!t->records);
        HASH_DEL(core->tenants, t);
        free(t);
    }
    free(core->rules);
}

/* ---- what a request means under its tenant's rules ---- */

int32_t lac__tenant_priority(const lac__tenant *t, const lac_submit *submit)
{
    int32_t priority = submit->priority;
    priority += submit->service == LAC_SERVICE_PRIORITY;
    priority -= submit->service == LAC_SERVICE_FLEX;
    if (priority > t->rules.priority_max)
        priority = t->rules.priority_max;
    if (priority > LAC_PRIORITY_MAX)
        priority = LAC_PRIORITY_MAX;
    return priority < -LAC_PRIORITY_MAX ? -LAC_PRIORITY_MAX : priority;
}

static lac_tier shallower(lac_tier a, lac_tier b)
{
    return a < b ? a : b;
}

lac__tiers lac__tenant_tiers(const lac_core *core, const lac__request *r)
{
    const lac_tenant *rules = &r->tenant->rules;
    lac_tier usual = rules->has_tier ? rules->tier : core->options.tier_max;
    lac_tier deepest = rules->has_tier_max ? rules->tier_max : usual;
    if (deepest < usual)
        deepest = usual;
    lac__tiers tiers = {.usual = usual, .brownout = usual};
    if (r->service == LAC_SERVICE_FLEX)
        tiers.usual = tiers.brownout = deepest;
    else if (r->service == LAC_SERVICE_PRIORITY)
        tiers.usual = tiers.brownout = shallower(usual, LAC_TIER_GOLD);
    else if (rules->brownout && r->service == LAC_SERVICE_AUTO)
        tiers.brownout = deepest;
    if (r->has_tier)
        tiers.usual = tiers.brownout = shallower(r->tier_max, deepest);
    return tiers;
}

bool lac__tenant_may_use(const lac__tenant *t, const char *model)
{
    for (uint32_t i = 0; i < t->rules.models_count; i++)
        if (!strcmp(t->rules.models[i], model))
            return true;
    return t->rules.models_count == 0;
}

uint64_t lac__tenant_prefix_seed(const lac_core *core, const lac__request *r)
{
    uint64_t seed = lac__hash_bytes(core->hash_seed, r->model, strlen(r->model));
    return r->tenant ? lac__hash_bytes(seed, r->tenant->salt, sizeof r->tenant->salt) : seed;
}

/* ---- quotas ---- */

lac_quota lac__tenant_quota(const lac_core *core, lac__tenant *t)
{
    lac_quota q = {0};
    if (!t)
        return q;
    q.requests_limit = t->rules.requests_minute;
    q.tokens_limit = t->rules.tokens_minute;
    q.requests_left = lac__bucket_left(&t->requests, core->now_ms, &q.requests_reset_ms);
    q.tokens_left = lac__bucket_left(&t->tokens, core->now_ms, &q.tokens_reset_ms);
    return q;
}

static uint64_t to_reserve(const lac_core *core, const lac_prompt *prompt,
                           const lac_sampling *sampling)
{
    uint64_t most = sampling->max_tokens, usual = (uint64_t)core->output_mean + 1;
    return lac__record_tokens(prompt) + (most ? most : usual);
}

/* Past its rights at all: no waiting helps. */
static bool denies(lac_core *core, const lac__tenant *t, const lac_submit *submit,
                   lac__refusal *out)
{
    const lac__model *model = lac__models_named(core, submit->model);
    const char *name = model ? model->name : submit->model;
    out->outcome = LAC__OUTCOME_INVALID;
    out->status = LAC_EREFUSED;
    out->cause = LAC_CAUSE_DENIED;
    if (*name && !lac__tenant_may_use(t, name)) {
        snprintf(out->reason, sizeof out->reason,
                 "model is \"%s\", which tenant \"%s\" may not use", name, t->rules.name);
        return true;
    }
    if (submit->sparse != LAC_SPARSE_DEFAULT && !t->rules.sparse_header) {
        snprintf(out->reason, sizeof out->reason,
                 "sparse is given, which tenant \"%s\" may not choose", t->rules.name);
        return true;
    }
    return false;
}

static void over(lac_core *core, lac__quota_kind kind, lac__refusal *out)
{
    out->outcome = LAC__OUTCOME_BUSY;
    out->status = LAC_BUSY;
    out->cause = LAC_CAUSE_QUOTA;
    lac_metric_add(core->meters.quotas[kind], 1);
}

/* The quota that takes longest to come back is the one that is told: after that time both are there.
 */
static bool spent(lac_core *core, lac__tenant *t, const lac_submit *submit, lac__refusal *out)
{
    const lac_tenant *rules = &t->rules;
    uint64_t tokens = to_reserve(core, &submit->prompt, &submit->sampling);
    uint32_t requests_ms = lac__bucket_wait_ms(&t->requests, 1, core->now_ms);
    uint32_t tokens_ms = lac__bucket_wait_ms(&t->tokens, tokens, core->now_ms);
    if (!requests_ms && !tokens_ms)
        return false;
    if (requests_ms >= tokens_ms) {
        over(core, LAC__QUOTA_REQUESTS, out);
        out->retry_after_ms = requests_ms;
        snprintf(out->reason, sizeof out->reason,
                 "requests of tenant \"%s\" are used up: 0 left of %llu a minute", rules->name,
                 (unsigned long long)rules->requests_minute);
        return true;
    }
    over(core, LAC__QUOTA_TOKENS, out);
    out->retry_after_ms = tokens_ms;
    lac_quota q = lac__tenant_quota(core, t);
    snprintf(out->reason, sizeof out->reason,
             "tokens of tenant \"%s\": about %llu are asked for, %llu left of %llu a minute",
             rules->name, (unsigned long long)tokens, (unsigned long long)q.tokens_left,
             (unsigned long long)rules->tokens_minute);
    return true;
}

bool lac__tenant_refuses(lac_core *core, lac__tenant *t, const lac_submit *submit,
                         lac__refusal *out)
{
    *out = (lac__refusal){.tenant = t};
    if (denies(core, t, submit, out)) {
        lac_metric_add(core->meters.quotas[LAC__QUOTA_DENIED], 1);
        return true;
    }
    const lac_tenant *rules = &t->rules;
    if (rules->concurrency && t->live >= rules->concurrency) {
        over(core, LAC__QUOTA_CONCURRENCY, out);
        out->retry_after_ms = lac__queue_retry_ms(core);
        snprintf(out->reason, sizeof out->reason,
                 "concurrency of tenant \"%s\" is %u waiting and running, limit %u", rules->name,
                 t->live, rules->concurrency);
        return true;
    }
    return spent(core, t, submit, out);
}

/* ---- the account of a request ---- */

void lac__tenant_admitted(lac_core *core, lac__request *r)
{
    lac__tenant *t = r->tenant;
    r->reserved = to_reserve(core, &r->prompt, &r->sampling);
    lac__bucket_take(&t->requests, 1, core->now_ms);
    lac__bucket_take(&t->tokens, (int64_t)r->reserved, core->now_ms);
    t->live++;
}

void lac__tenant_ended(lac_core *core, const lac__request *r)
{
    lac__tenant *t = r->tenant;
    if (!t)
        return;
    uint64_t prompt = r->usage.prompt_tokens ? r->usage.prompt_tokens : r->tokens_estimate;
    uint64_t used = r->attempt ? prompt + r->accepted_count : 0;
    lac__bucket_take(&t->tokens, (int64_t)used - (int64_t)r->reserved, core->now_ms);
    LAC_ASSERT(t->live > 0);
    t->live--;
    lac__fair_ended(r);
}

void lac__tenants_audit(const lac_core *core)
{
    uint64_t queued = 0;
    for (const lac__tenant *t = core->tenants; t; t = t->hh.next) {
        queued += t->queue.count;
        LAC_ASSERT(t->live <= t->records);
        LAC_ASSERT(t->queue.count <= t->live);
        LAC_ASSERT(t->requests.level <= (int64_t)t->requests.limit * 60000);
        LAC_ASSERT(t->tokens.level <= (int64_t)t->tokens.limit * 60000);
        lac__fair_audit(core, t);
    }
    LAC_ASSERT(queued == core->queue.count);
    for (const lac__request *r = core->by_id; r; r = r->hh.next)
        LAC_ASSERT(r->tenant || r->state == LAC__REQUEST_DONE);
}
