/* How several ranks become one group, in two barriers. First: every rank has said where the others
 * reach it; then all are told the same config and each other's addresses (Form). Second: every rank
 * has loaded and met the others under that config; then the group is READY. Nobody looks for a rank
 * that may not come, and nobody computes beside one that was given other things. Owns what a Hello
 * means for that; who a rank is and that it is alive is the registry's business. Loop thread. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#include "base/group_config.h"

/* ---- what a Hello means ---- */

typedef enum {
    NEVER, /* a dead group takes no Hello */
    TAKE,
    AGAIN, /* the same rank on another connection: it is told once more what it is to load */
    BREAK  /* it has forgotten what the others count on: the group is over */
} answer;

/* By how far the rank says it has come. */
static const answer answers[LAC__GROUP_STATES][LAC__RANK_PHASES] = {
    /*                           KNOCKING JOINED FORMED */
    [LAC__GROUP_PROVISIONING] = {TAKE, TAKE, TAKE}, [LAC__GROUP_FORMING] = {BREAK, AGAIN, TAKE},
    [LAC__GROUP_READY] = {BREAK, BREAK, TAKE},      [LAC__GROUP_SUSPECT] = {BREAK, BREAK, TAKE},
    [LAC__GROUP_DRAINING] = {BREAK, BREAK, TAKE},
};

static const char *const phase_names[LAC__RANK_PHASES] = {
    [LAC__RANK_KNOCKING] = "just started",
    [LAC__RANK_JOINED] = "has loaded nothing",
    [LAC__RANK_FORMED] = "has loaded",
};

static lac__rank_phase phase_of(const lac_hello *hello)
{
    if (hello->pp * hello->tp == 1 || hello->formed)
        return LAC__RANK_FORMED;
    return hello->address.length ? LAC__RANK_JOINED : LAC__RANK_KNOCKING;
}

static bool same_address(const lac__rank *rank, const lac_hello *hello)
{
    return rank->address_bytes == hello->address.length &&
           !memcmp(rank->address, hello->address.data, hello->address.length);
}

bool lac__forming_breaks(const lac__group *group, const lac_hello *hello, char *why, size_t size)
{
    lac__rank_phase phase = phase_of(hello);
    const lac__rank *before = group->ranks[hello->rank];
    answer a = answers[group->state][phase];
    LAC_ASSERT(a != NEVER);
    bool other = a == AGAIN && before && (before->phase > phase || !same_address(before, hello));
    if (a != BREAK && !other)
        return false;
    snprintf(why, size, "rank %u started over (it %s) while the group is %s", hello->rank,
             phase_names[phase], lac__group_state_name(group->state));
    return true;
}

/* ---- what all must have alike ---- */

static bool digests_differ(const lac_digest *a, const lac_digest *b, char hex[2][65])
{
    lac_hex(a->bytes, sizeof a->bytes, hex[0]);
    lac_hex(b->bytes, sizeof b->bytes, hex[1]);
    return memcmp(a, b, sizeof *a) != 0;
}

bool lac__forming_agrees(const lac__group *group, const lac_hello *hello, char *why, size_t size)
{
    char hex[2][65];
    uint32_t first = group->first_rank;
    if (hello->pp != group->pp || hello->tp != group->tp)
        snprintf(why, size, "rank %u has pp %u and tp %u, rank %u has %u and %u", hello->rank,
                 hello->pp, hello->tp, first, group->pp, group->tp);
    else if (strcmp(hello->model, group->model->name) != 0)
        snprintf(why, size, "rank %u has model \"%s\", rank %u has \"%s\"", hello->rank,
                 hello->model, first, group->model->name);
    else if (digests_differ(&hello->model_digest, &group->digest, hex))
        snprintf(why, size, "rank %u has model digest %s, rank %u has %s", hello->rank, hex[0],
                 first, hex[1]);
    else if (digests_differ(&hello->plan_digest, &group->plan_digest, hex))
        snprintf(why, size, "rank %u has plan digest %s, rank %u has %s", hello->rank, hex[0],
                 first, hex[1]);
    else
        return true;
    return false;
}

/* ---- a rank's facts ---- */

void lac__forming_take(lac__rank *rank, const lac_hello *hello)
{
    rank->phase = phase_of(hello);
    rank->told = rank->phase == LAC__RANK_FORMED;
    rank->address_bytes = hello->address.length;
    if (hello->address.length) {
        rank->address = lac_alloc(hello->address.length, 1);
        memcpy(rank->address, hello->address.data, hello->address.length);
    }
    lac__copy_text(rank->host, sizeof rank->host, hello->host);
    rank->config_digest = hello->config_digest;
    bool alone = hello->pp * hello->tp == 1;
    rank->layer_first = hello->layer_first;
    rank->layer_end = alone ? hello->layers : hello->layer_end;
    rank->erased_units = hello->erased_units;
    rank->weight_bytes = hello->model_bytes;
}

/* ---- the barriers ---- */

bool lac__group_whole(const lac__group *group)
{
    for (uint32_t i = 0; i < group->ranks_count; i++)
        if (!group->ranks[i])
            return false;
    return true;
}

static void config_make(const lac__group *group, lac_buf *text, lac_digest *digest)
{
    lac_group_config config = {.pp = group->pp,
                               .tp = group->tp,
                               .context_max = group->context_max,
                               .slots = group->slots,
                               .model_digest = group->digest,
                               .plan_digest = group->plan_digest};
    lac__copy_text(config.model, sizeof config.model, group->model->name);
    lac_group_config_write(&config, text);
    lac_sha256(text->data, text->length, digest);
}

/* One whose queue is full is told at the next tick. */
static void tell(lac_core *core, lac__group *group)
{
    lac_span addresses[LAC_RANKS_MAX];
    lac_buf text = {.cap = LAC_GROUP_CONFIG_MAX};
    lac_msg msg = {.body.form = {.addresses_count = group->ranks_count, .addresses = addresses}};
    config_make(group, &text, &msg.body.form.config_digest);
    msg.body.form.config = (lac_span){text.data, (uint32_t)text.length};
    memcpy(msg.body.form.incarnation, group->incarnation, 16);
    group->config_digest = msg.body.form.config_digest;
    for (uint32_t i = 0; i < group->ranks_count; i++)
        addresses[i] =
            (lac_span){(const char *)group->ranks[i]->address, group->ranks[i]->address_bytes};
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        lac__rank *rank = group->ranks[i];
        if (!rank->told)
            rank->told = lac__rank_send(core, rank, LAC_MSG_FORM, &msg) == LAC_OK;
    }
    lac_buf_free(&text);
}

void lac__forming_enter(lac_core *core, lac__group *group, const char *why)
{
    (void)why;
    tell(core, group);
}

/* False: some rank was formed by another config than the rest. */
static bool one_config(const lac__group *group, char *why, size_t size)
{
    char hex[2][65];
    bool known = group->state != LAC__GROUP_PROVISIONING;
    const lac_digest *config = known ? &group->config_digest : &group->ranks[0]->config_digest;
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        if (!digests_differ(&group->ranks[i]->config_digest, config, hex))
            continue;
        snprintf(why, size, "rank %u has config digest %s, %s %s", i, hex[0],
                 known ? "the group has" : "rank 0 has", hex[1]);
        return false;
    }
    return true;
}

void lac__forming_step(lac_core *core, lac__group *group, const char *why)
{
    char reason[LAC_REASON_MAX + 1];
    uint32_t phases[LAC__RANK_PHASES] = {0};
    if (!lac__group_whole(group) || group->lost)
        return;
    for (uint32_t i = 0; i < group->ranks_count; i++)
        phases[group->ranks[i]->phase]++;
    if (phases[LAC__RANK_KNOCKING])
        return;
    if (phases[LAC__RANK_FORMED] < group->ranks_count) {
        if (group->state == LAC__GROUP_FORMING)
            tell(core, group); /* those that are there on another connection */
        else
            lac__group_step(core, group, LAC__GROUP_JOINED, "all ranks are there");
    } else if (group->ranks_count > 1 && !one_config(group, reason, sizeof reason)) {
        lac__group_step(core, group, LAC__GROUP_FAULT, reason);
    } else {
        if (group->ranks_count > 1)
            group->config_digest = group->ranks[0]->config_digest;
        lac__group_step(core, group, LAC__GROUP_FORMED, why);
    }
}

/* ---- time ---- */

static void expire(lac_core *core, lac__group *group, uint32_t limit_ms, bool loading)
{
    char why[LAC_REASON_MAX + 1];
    uint32_t there = 0, formed = 0;
    for (uint32_t i = 0; i < group->ranks_count; i++) {
        there += group->ranks[i] != NULL;
        formed += group->ranks[i] && group->ranks[i]->phase == LAC__RANK_FORMED;
    }
    snprintf(why, sizeof why, "%u of %u ranks %s within %u s", loading ? formed : there,
             group->ranks_count, loading ? "had loaded" : "were there", limit_ms / 1000);
    lac__group_step(core, group, LAC__GROUP_EXPIRED, why);
}

void lac__forming_tick(lac_core *core, lac__group *group)
{
    bool loading = group->state == LAC__GROUP_FORMING;
    uint32_t limit_ms = loading ? LAC_FORM_LOAD_MS : LAC_FORM_MS;
    if (core->now_ms - group->state_ms >= limit_ms) {
        expire(core, group, limit_ms, loading);
        return;
    }
    if (loading) {
        tell(core, group);
        return;
    }
    /* Who fell silent before the first barrier held nobody up: its place is free again. */
    for (uint32_t i = 0; i < group->ranks_count; i++)
        if (group->ranks[i] && core->now_ms - group->ranks[i]->seen_ms >= core->options.lease_ms)
            lac__registry_lost(core, group->ranks[i]->peer);
}
