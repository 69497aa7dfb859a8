/* Which way through the model a request takes: its fingerprint at admission, the class that follows
 * from it, the hint, what was forced; what of it can be asked afterwards. The type's rules are in
 * type.h, the classes in classes.c, the group in router.c. Loop thread. */
#include "state.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LAC__HALF_OPEN_ONE_IN = 20, LAC__SHADOW_MORE = 5 };
static const double hint_deviation = 0.15;

/* ---- meters ---- */

static const char *const hint_reasons[LAC__HINT_ENDS] = {
    [LAC__HINT_HONOURED] = "honoured", [LAC__HINT_LENGTH] = "length",
    [LAC__HINT_UNKNOWN] = "unknown",   [LAC__HINT_UNCERTIFIED] = "uncertified",
    [LAC__HINT_TRIPPED] = "tripped",   [LAC__HINT_DEVIATES] = "deviates",
};

static lac_metric *labelled(lac_core *core, lac_metric_id id, const char *key, const char *value)
{
    char label[64];
    snprintf(label, sizeof label, "%s=\"%s\"", key, value);
    return lac_metrics_get(core->metrics, id, label);
}

void lac__path_meters(lac_core *core)
{
    static const char *const fell[LAC__FELL] = {"no_group", "no_room", "worker"};
    lac__path_meters_t *m = &core->path;
    for (int t = 0; t < LAC__TYPES; t++)
        core->by_type[t] = labelled(core, LAC_M_BY_TYPE, "type", lac__type_name((lac__type)t));
    for (int h = 0; h < LAC__HINTS; h++)
        core->by_hint[h] = labelled(core, LAC_M_BY_TASK, "task", lac__hint_name((lac__hint)h));
    for (int i = 0; i < LAC__HINT_ENDS; i++)
        m->hints[i] = labelled(core, LAC_M_HINTS_GIVEN, "reason", hint_reasons[i]);
    for (int s = 0; s < LAC__GUARD_STATES; s++) {
        const char *name = lac__guard_state_name((lac__guard_state)s);
        m->guards[s] = labelled(core, LAC_M_GUARDS, "state", name);
        m->guard_changes[s] = labelled(core, LAC_M_GUARD_CHANGES, "state", name);
    }
    for (int f = 0; f < LAC__FELL; f++)
        m->fell[f] = labelled(core, LAC_M_FELL, "reason", fell[f]);
    m->shadows = lac_metrics_get(core->metrics, LAC_M_SHADOWS, "");
    m->eligible = lac_metrics_get(core->metrics, LAC_M_ELIGIBLE, "");
    m->masked = lac_metrics_get(core->metrics, LAC_M_MASKED, "");
    m->skip_rate = lac_metrics_get(core->metrics, LAC_M_PATH_SKIP_RATE, "");
    m->chosen = lac_metrics_get(core->metrics, LAC_M_CHOSEN, "");
    m->served = lac_metrics_get(core->metrics, LAC_M_SERVED, "");
    static const lac_metric_id now[LAC__HEALTH_CHECKS] = {
        LAC_M_ECR, LAC_M_PES, LAC_M_PSR, LAC_M_PATH_SKIP_NOW, LAC_M_PATH_LAYERS_NOW};
    for (int i = 0; i < LAC__HEALTH_CHECKS; i++)
        m->now[i] = lac_metrics_get(core->metrics, now[i], "");
    for (int t = 0; t < LAC__TYPES; t++)
        m->changed[t] = labelled(core, LAC_M_PATH_CHANGED, "type", lac__type_name((lac__type)t));
    core->decisions = lac__decisions_create(LAC_DECISIONS_MAX);
}

/* ---- the decision ---- */

/* LAC_INPUT_TYPES for a type nobody could judge. */
lac_input_type lac__path_input(const lac__fingerprint *f)
{
    _Static_assert((int)LAC__TYPE_STRUCTURED == (int)LAC_INPUT_STRUCTURED + 1 &&
                       (int)LAC__TYPE_CODE == (int)LAC_INPUT_CODE + 1,
                   "type.h counts from unknown on");
    return f->type == LAC__TYPE_UNKNOWN ? LAC_INPUT_TYPES : (lac_input_type)((int)f->type - 1);
}

static lac__guard_state guard_state(lac_core *core, const lac__class *class, lac_input_type type)
{
    if (class->model->held_until_ms)
        return LAC__GUARD_OPEN;
    const lac__guard *guard = lac__guard_of(core, &class->facts.digest, type);
    return guard ? guard->state : LAC__GUARD_OPEN; /* nobody can watch it */
}

static bool allowed(const lac__class *class, lac_input_type type, lac_tier most)
{
    lac_tier tier = class->facts.serves[type].tier;
    return tier != LAC_TIER_NONE && tier <= most;
}

/* Deeper is what costs less; of equals what leaves out more. */
static bool deeper(const lac__class *a, const lac__class *b)
{
    if (!b || a->facts.cost != b->facts.cost)
        return !b || a->facts.cost < b->facts.cost;
    return a->facts.skip_rate > b->facts.skip_rate;
}

/* What decisions depend on besides the fingerprint: classes, certificates, who is there, guards. */
static void plan_refresh(lac_core *core, lac__model *model)
{
    if (model->plan_version == core->classes_version)
        return;
    model->plan_version = core->classes_version;
    lac_digest before = model->plan;
    lac_hasher *hasher = lac_hasher_create();
    for (uint32_t i = 0; i < model->classes_count; i++) {
        const lac__class *class = model->classes[i];
        uint8_t flags[1 + LAC_INPUT_TYPES] = {lac__class_served(core, class)};
        for (int t = 0; t < LAC_INPUT_TYPES; t++)
            flags[1 + t] = (uint8_t)guard_state(core, class, (lac_input_type)t);
        lac_hasher_add(hasher, class->facts.digest.bytes, sizeof class->facts.digest.bytes);
        for (int t = 0; t < LAC_INPUT_TYPES; t++) {
            uint8_t tier = (uint8_t) class->facts.serves[t].tier;
            lac_hasher_add(hasher, &tier, 1);
        }
        lac_hasher_add(hasher, flags, sizeof flags);
    }
    lac_hasher_finish(&hasher, &model->plan);
    if (memcmp(&before, &model->plan, sizeof before) != 0)
        lac__decisions_clear(core->decisions);
}

/* The deepest class that may serve the type, or why there is none. */
static lac__decision decide(lac_core *core, const lac__model *model, lac_input_type type,
                            lac_tier most)
{
    lac__decision d = {.why = model->classes_count ? LAC__WHY_TYPE : LAC__WHY_NO_PLAN};
    const lac__class *best = NULL;
    for (uint32_t i = 0; i < model->classes_count; i++) {
        const lac__class *class = model->classes[i];
        uint8_t why = class->facts.serves[type].tier == LAC_TIER_NONE       ? LAC__WHY_TYPE
                      : !allowed(class, type, most)                         ? LAC__WHY_TIER
                      : guard_state(core, class, type) != LAC__GUARD_CLOSED ? LAC__WHY_GUARD
                      : !lac__class_served(core, class)                     ? LAC__WHY_NO_GROUP
                                                                            : LAC__WHY_CERTIFIED;
        if (why == LAC__WHY_CERTIFIED && deeper(class, best)) {
            best = class;
            d.class_number = (uint8_t)(i + 1);
        }
        d.why = why > d.why ? why : d.why; /* they are in order of how near it came */
    }
    return d;
}

static lac__decision decide_cached(lac_core *core, lac__model *model, const lac_digest *fingerprint,
                                   lac_input_type type, lac_tier most)
{
    plan_refresh(core, model);
    lac__decision_key key = {.fingerprint = *fingerprint, .plan = model->plan};
    lac_sha256(model->name, strlen(model->name), &key.model);
    key.plan.bytes[0] ^= (uint8_t)most; /* a request may allow less */
    lac__decision d;
    if (!lac__decisions_find(core->decisions, &key, &d)) {
        d = decide(core, model, type, most);
        lac__decisions_put(core->decisions, &key, &d);
    }
    return d;
}

/* A class under suspicion gets one request in so many, to be certified again. */
static lac__class *half_open(lac_core *core, const lac__model *model, lac_input_type type,
                             lac_tier most)
{
    for (uint32_t i = 0; i < model->classes_count; i++) {
        lac__class *class = model->classes[i];
        if (allowed(class, type, most) && guard_state(core, class, type) == LAC__GUARD_HALF_OPEN &&
            lac__class_served(core, class) && lac_rng_below(&core->rng, LAC__HALF_OPEN_ONE_IN) == 0)
            return class;
    }
    return NULL;
}

static void say(char why[LAC_WHY_MAX + 1], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(char why[LAC_WHY_MAX + 1], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, LAC_WHY_MAX + 1, format, args);
    va_end(args);
}

static void say_decision(const lac__class *class, lac__decision d, lac_input_type type,
                         lac_tier most, char why[LAC_WHY_MAX + 1])
{
    const char *name = lac_input_type_name(type);
    switch ((lac__why)d.why) {
    case LAC__WHY_NO_PLAN: say(why, "no plan is loaded"); break;
    case LAC__WHY_TYPE: say(why, "nothing is certified for %s input", name); break;
    case LAC__WHY_TIER:
        say(why, "what is certified for %s input is beyond tier %s", name, lac_tier_name(most));
        break;
    case LAC__WHY_GUARD: say(why, "the guard holds the classes for %s input", name); break;
    case LAC__WHY_NO_GROUP: say(why, "no ready group has a class for %s input", name); break;
    case LAC__WHY_CERTIFIED:
        say(why, "%s input: certified, tier %s, mean KL at most %.4f", name,
            lac_tier_name(class->facts.serves[type].tier),
            (double)class->facts.serves[type].kl_upper);
        break;
    }
}

/* ---- hints ---- */

/* The class a hint names when it may be followed; else NULL, and why not. */
static lac__class *follow(lac_core *core, lac__model *model, const char *hint, lac_input_type type,
                          lac_tier most, const lac__class *own, lac__hint_end *end)
{
    lac__class *class = NULL;
    for (uint32_t i = 0; i < model->classes_count && !class; i++)
        if (lac_class_hinted(hint, &model->classes[i]->facts.digest))
            class = model->classes[i];
    *end = LAC__HINT_UNKNOWN;
    if (!class || !lac__class_served(core, class))
        return NULL;
    *end = LAC__HINT_UNCERTIFIED;
    if (!allowed(class, type, most))
        return NULL;
    *end = LAC__HINT_TRIPPED;
    if (guard_state(core, class, type) != LAC__GUARD_CLOSED)
        return NULL;
    double own_cost = own ? (double)own->facts.cost : 1;
    *end = LAC__HINT_DEVIATES;
    if (fabs((double)class->facts.cost - own_cost) > hint_deviation * own_cost)
        return NULL;
    *end = LAC__HINT_HONOURED;
    return class;
}

/* ---- a request ---- */

static void take(lac_core *core, lac__request *r, lac__class *class)
{
    lac__class_drop(&r->class);
    r->class = lac__class_hold(class);
    r->path_told = false;
    /* A group's cache of a prefix is one of a class. */
    uint64_t seed = lac__tenant_prefix_seed(core, r);
    if (class)
        seed = lac__hash_bytes(seed, class->facts.digest.bytes, sizeof class->facts.digest.bytes);
    lac__prefix_salt(&r->chain, seed, &r->prefix);
}

/* False when the name is no class of the model. */
static bool force(lac_core *core, lac__request *r, const char *name, const char *who)
{
    lac__class *class = lac__class_named(r->served, name);
    if (!class && strcmp(name, "full") != 0)
        return false;
    take(core, r, class);
    r->forced = true;
    say(r->why, "forced by %s", who);
    return true;
}

/* Under a brownout: was it that which made the class? */
static void compare(lac_core *core, lac__request *r, const lac__class *class, lac_tier usual)
{
    lac_input_type type = lac__path_input(&r->fingerprint);
    lac__decision d = decide_cached(core, r->served, &r->fingerprint_key, type, usual);
    const lac__class *own = d.class_number ? r->served->classes[d.class_number - 1] : NULL;
    double cost = own ? (double)own->facts.cost : 1;
    lac__brownout_decided(r->served, cost > 0 ? (double)class->facts.cost / cost : 1);
    if (own == class)
        return;
    const lac_class_serve *serve = &class->facts.serves[type];
    lac_metric_add(core->meters.browned, 1);
    say(r->why, "brownout: %s input: certified, tier %s, mean KL at most %.4f",
        lac_input_type_name(type), lac_tier_name(serve->tier), (double)serve->kl_upper);
}

static void choose(lac_core *core, lac__request *r)
{
    lac__model *model = r->served;
    lac_input_type type = lac__path_input(&r->fingerprint);
    lac__tiers tiers = lac__tenant_tiers(core, r);
    lac_tier most = model->brownout.on ? tiers.brownout : tiers.usual;
    if (r->sparse == LAC_SPARSE_OFF) {
        say(r->why, "the client asked for full");
        return;
    }
    if (type == LAC_INPUT_TYPES) {
        say(r->why, model->classes_count ? "there is no text to judge by" : "no plan is loaded");
        return;
    }
    lac__decision d = decide_cached(core, model, &r->fingerprint_key, type, most);
    lac__class *class = d.class_number ? model->classes[d.class_number - 1] : NULL;
    r->eligible = d.why >= LAC__WHY_TIER;
    say_decision(class, d, type, most, r->why);
    if (class && most > tiers.usual)
        compare(core, r, class, tiers.usual);
    else if (model->brownout.on)
        lac__brownout_decided(model, 1);
    lac__class *probe = half_open(core, model, type, most);
    if (probe) {
        class = probe;
        r->shadow = true;
        say(r->why, "%s input: on probation, every answer is scored", lac_input_type_name(type));
    } else if (*r->hint) {
        lac__hint_end end;
        lac__class *hinted = follow(core, model, r->hint, type, most, class, &end);
        lac_metric_add(core->path.hints[end], 1);
        if (hinted) {
            class = hinted;
            say(r->why, "the client's hint: certified for %s input, tier %s",
                lac_input_type_name(type), lac_tier_name(class->facts.serves[type].tier));
        }
    }
    if (class)
        take(core, r, class);
}

bool lac__path_refuses(lac_core *core, const lac_submit *submit, char reason[LAC_WHY_MAX + 1],
                       lac_status *status)
{
    if (*submit->hint && !lac_class_hint_valid(submit->hint)) {
        lac_metric_add(core->path.hints[LAC__HINT_LENGTH], 1);
        say(reason, "hint has %zu characters, allowed: %d of base64url", strlen(submit->hint),
            LAC_HINT_LENGTH);
        *status = LAC_EINVAL;
        return true;
    }
    if (!*submit->force)
        return false;
    if (!core->options.allow_force) {
        say(reason, "class is forced, which this server does not allow (allow-force)");
        *status = LAC_EREFUSED;
        return true;
    }
    const lac__model *model = lac__models_named(core, submit->model);
    if (model && strcmp(submit->force, "full") != 0 && !lac__class_named(model, submit->force)) {
        say(reason, "class is \"%.60s\", which no group has", submit->force);
        *status = LAC_ENOTFOUND;
        return true;
    }
    return false;
}

void lac_core_prompt_facts(const lac_core *core, const lac_submit *submit, lac_prompt_facts *out)
{
    lac__fingerprint f;
    lac__prefix chain;
    lac__fingerprint_of(&submit->prompt, &f, NULL);
    lac__prefix_take(core->hash_seed, &submit->prompt, &chain);
    *out = (lac_prompt_facts){.type = (uint8_t)f.type,
                              .task = (uint8_t)f.hint,
                              .bucket = f.bucket,
                              .content = lac__poison_content(core, submit),
                              .blocks_count = chain.count};
    memcpy(out->blocks, chain.blocks, chain.count * sizeof *chain.blocks);
}

void lac__path_admit(lac_core *core, lac__request *r, const lac_submit *submit)
{
    r->fingerprint = (lac__fingerprint){.type = (lac__type)core->facts->type,
                                        .hint = (lac__hint)core->facts->task,
                                        .bucket = core->facts->bucket};
    lac__fingerprint_key(&r->fingerprint, &r->fingerprint_key);
    lac_metric_add(core->by_type[r->fingerprint.type], 1);
    lac_metric_add(core->by_hint[r->fingerprint.hint], 1);
    lac__copy_text(r->hint, sizeof r->hint, submit->hint);
    lac__copy_text(r->force, sizeof r->force, submit->force);
    r->sparse = submit->sparse;
    r->has_tier = submit->has_tier;
    r->tier_max = submit->tier_max;
}

/* At its first placement: only then is the model known, and who is there to serve. */
void lac__path_decide(lac_core *core, lac__request *r)
{
    LAC_ASSERT(r->served && !r->decided);
    r->decided = true;
    if (*r->force && force(core, r, r->force, "the request"))
        return;
    if (*r->served->forced && force(core, r, r->served->forced, "an administrator"))
        return;
    choose(core, r);
    lac__sight_chosen(core, r);
    r->shadow |= r->class && lac_rng_unit(&core->rng) < lac__path_shadow_share(core, r);
}

void lac__path_forget(lac_core *core, lac__request *r)
{
    if (!r->decided || r->attempt || r->forced)
        return;
    take(core, r, NULL);
    r->decided = r->eligible = r->shadow = false;
    r->why[0] = 0;
}

/* More of a class that looks bad, so that it is known sooner. */
double lac__path_shadow_share(lac_core *core, const lac__request *r)
{
    lac_input_type type = lac__path_input(&r->fingerprint);
    double share = core->options.shadow_share;
    const lac__guard *g =
        type < LAC_INPUT_TYPES ? lac__guard_of(core, &r->class->facts.digest, type) : NULL;
    return g && g->evidence > 10 ? share * LAC__SHADOW_MORE : share;
}

void lac__path_fall(lac_core *core, lac__request *r, lac__fell how, const char *why)
{
    LAC_ASSERT(r->class);
    lac_metric_add(core->path.fell[how], 1);
    r->miss = how == LAC__FELL_NO_GROUP  ? LAC__MISS_NO_GROUP
              : how == LAC__FELL_NO_ROOM ? LAC__MISS_NO_ROOM
                                         : LAC__MISS_WORKER;
    say(r->why, "%s: %.80s", r->class->facts.name, why);
    r->forced = false;
    r->shadow = false;
    take(core, r, NULL);
}

/* ---- what it ran, for people ---- */

static void describe(const lac__request *r, lac_run_account *out)
{
    const lac_class_facts *facts = r->class ? &r->class->facts : NULL;
    out->mask = facts ? facts->mask : NULL;
    out->forced = r->forced;
    lac__copy_text(out->class_name, sizeof out->class_name, facts ? facts->name : "full");
    lac__copy_text(out->why, sizeof out->why, r->why);
}

void lac__path_account(const lac__request *r, lac_run_account *out)
{
    const lac_class_facts *facts = r->class ? &r->class->facts : NULL;
    *out = (lac_run_account){.layers = r->layers, .active_layers = r->layers};
    if (r->has_account)
        *out = r->account;
    else if (facts) {
        out->active_layers = facts->active_layers;
        out->skip_rate = facts->skip_rate;
        out->cost_skip_rate = facts->cost_skip_rate;
    }
    describe(r, out);
}

void lac__path_reported(lac_core *core, lac__request *r, const lac_run_account *account)
{
    if (r->class && strcmp(account->class_name, r->class->facts.name) != 0)
        lac__path_fall(core, r, LAC__FELL_WORKER,
                       *account->why ? account->why : "the worker ran it in full");
    r->account = *account;
    r->account.mask = NULL; /* the message's; describe() gives ours */
    r->has_account = true;
}

/* ---- afterwards ---- */

static void keep(lac_core *core, const lac__request *r, lac__outcome outcome)
{
    lac__kept_path *k = &core->kept[core->kept_next];
    core->kept_next = (core->kept_next + 1) % LAC_PATHS_KEPT;
    *k = (lac__kept_path){.request = r->id,
                          .fingerprint = r->fingerprint,
                          .masked = r->class != NULL,
                          .eligible = r->eligible,
                          .outcome = outcome,
                          .ended_ms = core->now_ms,
                          .tokens = r->accepted_count,
                          .total_ms = (uint32_t)(core->now_ms - r->arrived_ms)};
    if (r->tenant)
        lac__copy_text(k->tenant, sizeof k->tenant, r->tenant->rules.name);
    lac__copy_text(k->class_name, sizeof k->class_name, r->class ? r->class->facts.name : "full");
    lac__copy_text(k->why, sizeof k->why, r->why);
    lac__copy_text(k->group, sizeof k->group, r->last_group);
}

void lac__path_ended(lac_core *core, lac__request *r, lac__outcome outcome)
{
    lac__path_meters_t *m = &core->path;
    lac_metric_add(m->eligible, r->eligible);
    lac_metric_add(m->masked, r->eligible && r->class);
    double eligible = lac_metric_value(m->eligible);
    if (eligible > 0)
        lac_metric_set(m->skip_rate, lac_metric_value(m->masked) / eligible);
    if (r->class) {
        r->class->requests++;
        r->class->tokens += r->accepted_count;
        lac_metric_add(r->class->requests_total, 1);
        lac_metric_add(r->class->tokens_total, r->accepted_count);
    }
    lac__sight_ended(core, r, outcome);
    if (r->decided)
        keep(core, r, outcome);
}

static void fill_reply(lac_path_reply *reply, const lac__fingerprint *f)
{
    reply->tokens_max = lac__bucket_tokens(f->bucket);
    lac__copy_text(reply->type, sizeof reply->type, lac__type_name(f->type));
    lac__copy_text(reply->task, sizeof reply->task, lac__hint_name(f->hint));
    lac__fingerprint_key(f, &reply->fingerprint);
}

static void explain_request(lac_core *core, const lac_path_query *query, lac_path_reply *reply)
{
    const lac__request *live = lac__record_by_id(core, query->request);
    const lac__kept_path *k = NULL;
    for (uint32_t i = 0; i < LAC_PATHS_KEPT && !k; i++)
        if (core->kept[i].request == query->request)
            k = &core->kept[i];
    reply->request = query->request;
    lac__copy_text(reply->type_reason, sizeof reply->type_reason, "as it was decided");
    if (live && !k) {
        fill_reply(reply, &live->fingerprint);
        reply->mask = live->class ? live->class->facts.mask : NULL;
        lac__copy_text(reply->class_name, sizeof reply->class_name,
                       live->class ? live->class->facts.name : "full");
        lac__copy_text(reply->class_reason, sizeof reply->class_reason,
                       live->decided ? live->why : "it waits");
        lac__copy_text(reply->group, sizeof reply->group, live->last_group);
        return;
    }
    lac__fingerprint unknown = {0};
    fill_reply(reply, k ? &k->fingerprint : &unknown);
    lac__copy_text(reply->class_name, sizeof reply->class_name, k ? k->class_name : "full");
    if (k)
        lac__copy_text(reply->class_reason, sizeof reply->class_reason, k->why);
    else
        snprintf(reply->class_reason, sizeof reply->class_reason, "not among the last %d requests",
                 LAC_PATHS_KEPT);
    lac__copy_text(reply->group, sizeof reply->group, k ? k->group : "");
}

/* As a request would be judged now, but for hints and what only chance decides. */
static void explain_prompt(lac_core *core, const lac_path_query *query, lac_path_reply *reply,
                           lac_path_feature shown[LAC__FEATURES])
{
    lac__fingerprint f;
    lac__features features;
    lac__fingerprint_of(&query->prompt, &f, &features);
    for (int i = 0; i < LAC__FEATURES; i++) {
        lac__copy_text(shown[i].name, sizeof shown[i].name, lac__feature_name((lac__feature)i));
        shown[i].value = features.value[i];
    }
    reply->features_count = LAC__FEATURES;
    reply->features = shown;
    fill_reply(reply, &f);
    if (f.type != LAC__TYPE_UNKNOWN)
        lac__type_reason(&features, reply->type_reason, sizeof reply->type_reason);
    else
        lac__copy_text(reply->type_reason, sizeof reply->type_reason, "no text to judge by");

    char why[LAC_WHY_MAX + 1] = "no plan is loaded";
    const char *name = "full";
    lac__model *model = lac__models_named(core, query->model);
    lac_input_type type = lac__path_input(&f);
    if (model && *model->forced) {
        name = model->forced;
        say(why, "forced by an administrator");
    } else if (model && type < LAC_INPUT_TYPES) {
        lac_tier most = core->options.tier_max;
        lac__decision d = decide_cached(core, model, &reply->fingerprint, type, most);
        const lac__class *class = d.class_number ? model->classes[d.class_number - 1] : NULL;
        say_decision(class, d, type, most, why);
        name = class ? class->facts.name : name;
        reply->mask = class ? class->facts.mask : NULL;
    } else if (model && model->classes_count) {
        say(why, "there is no text to judge by");
    }
    lac__copy_text(reply->class_name, sizeof reply->class_name, name);
    lac__copy_text(reply->class_reason, sizeof reply->class_reason, why);
}

void lac__path_explain(lac_core *core, lac_plane plane, uint64_t peer, const lac_path_query *query)
{
    lac_path_feature shown[LAC__FEATURES] = {0};
    lac_msg msg = {.body.path_reply = {.stream = query->stream}};
    if (query->request)
        explain_request(core, query, &msg.body.path_reply);
    else
        explain_prompt(core, query, &msg.body.path_reply, shown);
    /* One that does not get through is asked for again: nothing waits on it. */
    lac__send(core, plane, peer, 0, LAC_MSG_PATH_REPLY, &msg);
}

_Static_assert((int)LAC__FEATURES <= (int)LAC_PATH_FEATURES_MAX,
               "every feature fits into the answer");
