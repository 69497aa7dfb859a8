/* One rank of several: its placement, its fabric, and the config that it was given. Link thread
 * until Form, engine thread for meet and part. Must not know how the coordinator is spoken to. */
#include "link/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/group_config.h"
#include "base/host.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/place.h"
#include "fabric/fabric.h"
#include "topology/placement.h"

enum { MEET_MS = 60000, SLOTS_DEFAULT = 16 };

struct lac_rank {
    lac_rank_options options;
    lac_placement placement;
    lac_digest model_digest, plan_digest;
    char model[LAC_MODEL_NAME_MAX + 1];
    lac_fabric *fabric;
    uint8_t incarnation[16];
    uint8_t address[LAC_FABRIC_BLOB_MAX]; /* outlives the fabric */
    uint32_t address_bytes;
    bool told;
    lac_digest config;
    uint8_t *addresses; /* [ranks][LAC_FABRIC_BLOB_MAX] */
    lac_fabric_blob blobs[LAC_RANKS_MAX];
};

/* ---- before anything is loaded ---- */

/* Everything that all ranks have to be given alike and that no config carries. */
static void plan_digest(const lac_rank *rank, lac_digest *out)
{
    static const char domain[] = "lacuna rank 1 " LAC_VERSION;
    const lac_classes *classes = rank->options.classes;
    lac_digest placed;
    lac_hasher *hasher = lac_hasher_create();
    bool reference = rank->options.engine->isa == LAC_ISA_REFERENCE;
    lac_placement_digest(&rank->placement, &placed);
    lac_hasher_add(hasher, domain, sizeof domain);
    lac_hasher_add(hasher, &rank->model_digest, sizeof rank->model_digest);
    lac_hasher_add(hasher, &placed, sizeof placed);
    lac_hasher_add(hasher, &reference, sizeof reference);
    for (uint32_t i = 0; i < classes->count; i++)
        lac_hasher_add(hasher, &classes->plan->classes[i].digest, sizeof(lac_digest));
    lac_hasher_finish(&hasher, out);
}

static void hello_fill(const lac_rank *rank, const lac_model *model, lac_hello *hello)
{
    const lac_rank_options *o = &rank->options;
    uint32_t most = model->context < LAC_CONTEXT_MAX ? model->context : LAC_CONTEXT_MAX;
    hello->rank = o->rank;
    hello->pp = o->pp;
    hello->tp = o->tp;
    hello->layers = model->layers_count;
    hello->vocab = model->vocab;
    hello->context_max = o->engine->context_max ? o->engine->context_max : most;
    hello->slots = o->engine->slots ? o->engine->slots : SLOTS_DEFAULT;
    hello->model_digest = rank->model_digest;
    hello->plan_digest = rank->plan_digest;
    memcpy(hello->model, rank->model, sizeof hello->model);
    size_t length = strnlen(model->architecture, sizeof hello->architecture - 1);
    memcpy(hello->architecture, model->architecture, length);
    (void)lac_boot_id(hello->host); /* unknown: it shares memory with nobody */
}

lac_status lac_rank_create(const lac_rank_options *options, lac_hello *hello, lac_rank **out,
                           lac_error *err)
{
    const lac_engine_options *engine = options->engine;
    lac_rank *rank = lac_alloc(1, sizeof *rank);
    lac_model *model = NULL;
    rank->options = *options;
    lac_status status = lac_model_open(engine->model_path, &model, err);
    if (status == LAC_OK)
        status = lac_engine_place(model, options->classes->engine, options->classes->count, false,
                                  options->pp, options->tp, &rank->placement, err);
    if (status != LAC_OK) {
        lac_model_close(&model);
        free(rank);
        return status;
    }
    const char *name = options->model_name[0] ? options->model_name : model->name;
    memcpy(rank->model, name, strnlen(name, sizeof rank->model - 1));
    lac_model_digest(model, &rank->model_digest);
    plan_digest(rank, &rank->plan_digest);
    hello_fill(rank, model, hello);
    lac_model_close(&model);
    *out = rank;
    return LAC_OK;
}

void lac_rank_destroy(lac_rank **rank)
{
    if (!*rank)
        return;
    lac_fabric_close(&(*rank)->fabric);
    lac_placement_free(&(*rank)->placement);
    free((*rank)->addresses);
    free(*rank);
    *rank = NULL;
}

/* ---- an incarnation, a config ---- */

lac_status lac_rank_open(lac_rank *rank, const uint8_t incarnation[16], lac_span *address,
                         lac_error *err)
{
    bool same = !memcmp(rank->incarnation, incarnation, 16);
    lac_status status = LAC_OK;
    if (rank->told) { /* the fabric is the engine thread's from here on */
        if (!same)
            return lac_fail(err, LAC_EEPOCH, "the group got another incarnation while it forms");
        *address = (lac_span){(const char *)rank->address, rank->address_bytes};
        return LAC_OK;
    }
    if (rank->fabric && !same)
        lac_fabric_close(&rank->fabric);
    if (!rank->fabric) {
        lac_fabric_options options = {.rank = rank->options.rank,
                                      .ranks = rank->options.pp * rank->options.tp};
        memcpy(options.incarnation, incarnation, 16);
        status = lac_fabric_open(&options, &rank->fabric, err);
    }
    if (status != LAC_OK)
        return status;
    memcpy(rank->incarnation, incarnation, 16);
    size_t bytes;
    const void *own = lac_fabric_address(rank->fabric, &bytes);
    memcpy(rank->address, own, bytes);
    rank->address_bytes = (uint32_t)bytes;
    *address = (lac_span){(const char *)rank->address, rank->address_bytes};
    return LAC_OK;
}

static lac_status contradicts(lac_error *err, const char *what, uint64_t here, uint64_t config)
{
    return lac_fail(err, LAC_EINVAL, "%s is %llu here, the group's config says %llu", what,
                    (unsigned long long)here, (unsigned long long)config);
}

static lac_status config_check(const lac_rank *rank, const lac_group_config *c, lac_error *err)
{
    const lac_rank_options *o = &rank->options;
    if (c->pp != o->pp)
        return contradicts(err, "pp", o->pp, c->pp);
    if (c->tp != o->tp)
        return contradicts(err, "tp", o->tp, c->tp);
    if (o->engine->slots && c->slots != o->engine->slots)
        return contradicts(err, "slots", o->engine->slots, c->slots);
    if (o->engine->context_max && c->context_max != o->engine->context_max)
        return contradicts(err, "ctx-max", o->engine->context_max, c->context_max);
    if (strcmp(c->model, rank->model) != 0)
        return lac_fail(err, LAC_EINVAL, "model is \"%s\" here, the group's config says \"%s\"",
                        rank->model, c->model);
    if (memcmp(&c->model_digest, &rank->model_digest, sizeof c->model_digest) != 0 ||
        memcmp(&c->plan_digest, &rank->plan_digest, sizeof c->plan_digest) != 0) {
        char here[65], there[65];
        lac_hex(rank->plan_digest.bytes, 32, here);
        lac_hex(c->plan_digest.bytes, 32, there);
        return lac_fail(err, LAC_EINVAL, "plan digest is %s here, the group's config says %s", here,
                        there);
    }
    return LAC_OK;
}

static void addresses_keep(lac_rank *rank, const lac_form *form)
{
    rank->addresses = lac_alloc(form->addresses_count, LAC_FABRIC_BLOB_MAX);
    for (uint32_t r = 0; r < form->addresses_count; r++) {
        uint8_t *at = rank->addresses + (size_t)r * LAC_FABRIC_BLOB_MAX;
        memcpy(at, form->addresses[r].data, form->addresses[r].length);
        rank->blobs[r] = (lac_fabric_blob){at, form->addresses[r].length};
    }
}

lac_status lac_rank_form(lac_rank *rank, const lac_form *form, lac_engine_options *engine,
                         lac_error *err)
{
    lac_group_config config;
    lac_digest digest;
    uint32_t ranks = rank->options.pp * rank->options.tp;
    lac_sha256(form->config.data, form->config.length, &digest);
    if (memcmp(&digest, &form->config_digest, sizeof digest) != 0)
        return lac_fail(err, LAC_EPROTO, "the group's config is not what its digest says");
    if (rank->told)
        return memcmp(&digest, &rank->config, sizeof digest) == 0
                   ? LAC_EEXIST
                   : lac_fail(err, LAC_EPROTO, "the group's config changed while it forms");
    lac_status status =
        lac_group_config_parse(form->config.data, form->config.length, &config, err);
    if (status == LAC_OK)
        status = config_check(rank, &config, err);
    if (status == LAC_OK && (form->addresses_count != ranks || !rank->fabric ||
                             memcmp(form->incarnation, rank->incarnation, 16) != 0))
        status = lac_fail(err, LAC_EPROTO,
                          "form has %u addresses for another incarnation or shape, %u ranks are "
                          "expected",
                          form->addresses_count, ranks);
    if (status != LAC_OK)
        return status;
    addresses_keep(rank, form);
    rank->told = true;
    rank->config = digest;
    engine->slots = config.slots;
    engine->context_max = config.context_max;
    return LAC_OK;
}

/* ---- engine thread ---- */

lac_status lac_rank_meet(void *arg, lac_engine_options *engine, lac_error *err)
{
    lac_rank *rank = arg;
    uint64_t deadline_ns = lac_now_ns() + MEET_MS * UINT64_C(1000000);
    lac_status status = lac_fabric_connect(rank->fabric, rank->blobs, deadline_ns, err);
    if (status != LAC_OK)
        return lac_fail_in(err, "meeting the other ranks");
    engine->group = (lac_engine_group){.fabric = rank->fabric, .placement = &rank->placement};
    return LAC_OK;
}

void lac_rank_part(void *arg)
{
    lac_rank *rank = arg;
    lac_fabric_close(&rank->fabric);
}

/* ---- once it is loaded ---- */

void lac_rank_formed(const lac_rank *rank, const lac_engine *engine, lac_hello *hello)
{
    uint32_t stage = rank->options.rank / rank->options.tp;
    hello->formed = true;
    hello->config_digest = rank->config;
    hello->layer_first = rank->placement.layer_first[stage];
    hello->layer_end = rank->placement.layer_first[stage + 1];
    hello->erased_units = 0;
    for (uint32_t u = 2 * hello->layer_first; u < 2 * hello->layer_end; u++)
        hello->erased_units += lac_engine_unit(engine, u, NULL) == LAC_UNIT_ERASED;
}
