/* The planner. Pure; any thread. Must not know a machine, a file format or the engine. */
#include "topology/placement.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- tensor parallel: cutting one layer ---- */

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* Range `i` of `parts` over `total` things that may be cut at multiples of `granule` only, as even
 * as can be, the larger ones first. False when there are fewer granules than parts. */
static bool range_of(uint32_t total, uint32_t granule, uint32_t parts, uint32_t i, uint32_t *first,
                     uint32_t *count)
{
    uint32_t granules = ceil_div(total, granule), each = granules / parts, more = granules % parts;
    if (each == 0)
        return false;
    uint32_t begin = (i * each + (i < more ? i : more)) * granule;
    uint32_t end = ((i + 1) * each + (i + 1 < more ? i + 1 : more)) * granule;
    *first = begin;
    *count = (end < total ? end : total) - begin;
    return true;
}

/* Smallest number of steps of `width` that make whole blocks. */
static uint32_t steps_a_block(uint32_t width, uint32_t block)
{
    uint32_t n = 1;
    while ((uint64_t)n * width % block != 0)
        n++;
    return n;
}

/* KV heads are shared out with their query heads; where that gives too few pieces, a KV head is
 * kept by several ranks and its query heads are shared out. Each cut lies on a block of O's
 * columns. */
static bool heads_cut(const lac_place_model *m, const lac_place_layer *layer, uint32_t parts,
                      uint32_t part, lac_place_part *out)
{
    uint32_t group = layer->heads / layer->kv_heads, first, count;
    uint32_t granule = steps_a_block(group * m->head_dim, layer->o_block);
    if (range_of(layer->kv_heads, granule, parts, part, &first, &count)) {
        *out = (lac_place_part){.head_first = first * group,
                                .heads = count * group,
                                .kv_first = first,
                                .kv_heads = count};
        return true;
    }
    /* Ranks kv×parts/kv_heads … of the parts keep KV head kv. */
    if (parts < layer->kv_heads)
        return false;
    uint32_t kv = part * layer->kv_heads / parts;
    uint32_t begin = ceil_div(kv * parts, layer->kv_heads);
    uint32_t end = ceil_div((kv + 1) * parts, layer->kv_heads);
    granule = steps_a_block(m->head_dim, layer->o_block);
    if (group % granule != 0 && layer->kv_heads > 1)
        return false; /* a KV head's columns would end within a block */
    if (!range_of(group, granule, end - begin, part - begin, &first, &count))
        return false;
    *out = (lac_place_part){
        .head_first = kv * group + first, .heads = count, .kv_first = kv, .kv_heads = 1};
    return true;
}

static bool layer_cut(const lac_place_model *m, uint32_t l, uint32_t parts, uint32_t part,
                      lac_place_part *out, const char **what)
{
    const lac_place_layer *layer = &m->layers[l];
    lac_place_part cut = {0};
    *what = "heads";
    if (layer->heads > 0 && parts == 1)
        cut = (lac_place_part){.heads = layer->heads, .kv_heads = layer->kv_heads};
    else if (layer->heads > 0 && !heads_cut(m, layer, parts, part, &cut))
        return false;
    *what = "FFN rows";
    /* Rows are packed by eight; a type without blocks may be cut there. */
    uint32_t granule = layer->down_block < 8 ? 8 : layer->down_block;
    if (layer->ffn > 0 && parts == 1)
        cut.ffn = layer->ffn;
    else if (layer->ffn > 0 &&
             !range_of(layer->ffn, granule, parts, part, &cut.ffn_first, &cut.ffn))
        return false;
    *out = cut;
    return true;
}

/* Whether every layer can be cut; the first that cannot, and what of it, otherwise. */
static bool cuts(const lac_place_model *m, uint32_t parts, uint32_t *layer, const char **what)
{
    lac_place_part cut;
    *what = "vocabulary";
    *layer = 0;
    if (m->vocab / 8 < parts)
        return false;
    for (uint32_t l = 0; l < m->layers_count; l++)
        for (uint32_t part = 0; part < parts; part++)
            if (!layer_cut(m, l, parts, part, &cut, what)) {
                *layer = l;
                return false;
            }
    return true;
}

static lac_status cut_check(const lac_place_model *m, uint32_t stages, uint32_t parts,
                            lac_error *err)
{
    uint32_t layer, other;
    const char *what, *whatever;
    if (cuts(m, parts, &layer, &what))
        return LAC_OK;
    uint32_t nearest = 1;
    for (uint32_t d = 1; d < LAC_RANKS_MAX; d++) {
        if (d < parts && cuts(m, parts - d, &other, &whatever)) {
            nearest = parts - d;
            break;
        }
        if ((parts + d) * stages <= LAC_RANKS_MAX && cuts(m, parts + d, &other, &whatever)) {
            nearest = parts + d;
            break;
        }
    }
    const lac_place_layer *at = &m->layers[layer];
    return lac_fail(err, LAC_EINVAL,
                    "tp is %u: layer %u (%u heads, %u KV heads of %u, blocks of %u; FFN %u, blocks "
                    "of %u) has too few %s to share out on whole blocks; nearest possible tp is %u",
                    parts, layer, at->heads, at->kv_heads, m->head_dim, at->o_block, at->ffn,
                    at->down_block, what, nearest);
}

/* ---- pipeline parallel: cutting the list of layers ---- */

typedef struct {
    uint32_t layers;
    double *cost;    /* [layers + 1] prefix sums */
    uint64_t *bytes; /* [layers + 1] */
    double head_cost;
    uint64_t embed, head; /* bytes */
    bool tied;
    uint32_t stages;
} chain;

static double stage_cost(const chain *c, uint32_t stage, uint32_t from, uint32_t to)
{
    return c->cost[to] - c->cost[from] + (stage + 1 == c->stages ? c->head_cost : 0);
}

static uint64_t stage_bytes(const chain *c, uint32_t stage, uint32_t from, uint32_t to)
{
    uint64_t bytes = c->bytes[to] - c->bytes[from];
    bytes += stage == 0 ? c->embed : 0;
    bool has = c->tied && stage == 0;
    return bytes + (stage + 1 == c->stages && !has ? c->head : 0);
}

/* best[s][to]: the best way to give the first `to` layers to stages 0 … s, the largest cost first
 * and the largest memory second. */
typedef struct {
    double cost;
    uint64_t bytes;
    uint32_t from;
} way;

static bool better(way a, way b)
{
    return a.cost < b.cost || (a.cost == b.cost && a.bytes < b.bytes);
}

/* Every stage holds a layer; that there are as many was checked. */
static void stages_cut(const chain *c, uint32_t layer_first[LAC_RANKS_MAX + 1])
{
    uint32_t wide = c->layers + 1;
    way *best = lac_alloc((size_t)c->stages * wide, sizeof *best);
    for (uint32_t s = 0; s < c->stages; s++)
        for (uint32_t to = s + 1; to <= c->layers; to++) {
            way *at = &best[(size_t)s * wide + to];
            *at = (way){.cost = DBL_MAX};
            for (uint32_t from = s; from < to; from++) {
                if (s == 0 && from > 0)
                    break;
                way w = {stage_cost(c, s, from, to), stage_bytes(c, s, from, to), from};
                const way *before = s > 0 ? &best[(size_t)(s - 1) * wide + from] : NULL;
                w.cost = before && before->cost > w.cost ? before->cost : w.cost;
                w.bytes = before && before->bytes > w.bytes ? before->bytes : w.bytes;
                if (better(w, *at))
                    *at = w;
            }
        }
    uint32_t to = c->layers;
    for (uint32_t s = c->stages; s-- > 0; to = best[(size_t)s * wide + to].from)
        layer_first[s + 1] = to;
    layer_first[0] = 0;
    free(best);
}

/* The share of the traffic that runs a unit. */
static double unit_share(const lac_place_class *classes, uint32_t count, uint32_t unit)
{
    double runs = 0, all = 0;
    for (uint32_t c = 0; c < count; c++) {
        all += classes[c].traffic;
        runs += lac_mask_has(&classes[c].erased, unit) ? 0 : classes[c].traffic;
    }
    return count == 0 ? 1 : all > 0 ? runs / all : 0;
}

static void chain_fill(chain *c, const lac_place_model *m, const lac_place_class *classes,
                       uint32_t count)
{
    for (uint32_t l = 0; l < m->layers_count; l++) {
        double a = unit_share(classes, count, 2 * l), f = unit_share(classes, count, 2 * l + 1);
        c->cost[l + 1] = c->cost[l] + a * (double)m->layers[l].attention_bytes +
                         f * (double)m->layers[l].ffn_bytes;
        c->bytes[l + 1] = c->bytes[l] + (a > 0 ? m->layers[l].attention_bytes : 0) +
                          (f > 0 ? m->layers[l].ffn_bytes : 0);
    }
}

/* ---- both ---- */

/* What of its stage a rank holds: a layer's bytes go by query heads and FFN rows. */
static void rank_weigh(lac_placement *p, const lac_place_model *m, const chain *c, uint32_t rank,
                       const lac_place_class *classes, uint32_t count)
{
    uint32_t stage = rank / p->parts, part = rank % p->parts;
    double bytes = 0, cost = 0;
    for (uint32_t l = p->layer_first[stage]; l < p->layer_first[stage + 1]; l++) {
        const lac_place_layer *layer = &m->layers[l];
        const lac_place_part *of = lac_placement_part(p, part, l);
        double a = layer->heads ? (double)of->heads / layer->heads : 0;
        double f = layer->ffn ? (double)of->ffn / layer->ffn : 0;
        double a_runs = unit_share(classes, count, 2 * l);
        double f_runs = unit_share(classes, count, 2 * l + 1);
        bytes += (a_runs > 0 ? a * (double)layer->attention_bytes : 0) +
                 (f_runs > 0 ? f * (double)layer->ffn_bytes : 0);
        cost += a * a_runs * (double)layer->attention_bytes + f * f_runs * (double)layer->ffn_bytes;
    }
    double rows = (double)(p->vocab_first[part + 1] - p->vocab_first[part]) / m->vocab;
    bool first = stage == 0, last = stage + 1 == p->stages;
    bytes += first ? rows * (double)c->embed : 0;
    bytes += last && !(first && c->tied) ? rows * (double)c->head : 0;
    p->bytes[rank] = (uint64_t)bytes;
    p->cost[rank] = cost + (last ? rows * (double)c->head : 0);
}

static lac_status shape_check(const lac_place_model *m, uint32_t stages, uint32_t parts,
                              lac_error *err)
{
    if (stages < 1 || parts < 1 || stages > LAC_RANKS_MAX || parts > LAC_RANKS_MAX ||
        stages * parts > LAC_RANKS_MAX)
        return lac_fail(err, LAC_EINVAL, "pp %u × tp %u, allowed 1..%d ranks in all", stages, parts,
                        LAC_RANKS_MAX);
    if (stages > m->layers_count)
        return lac_fail(err, LAC_EINVAL,
                        "pp is %u, the model has %u layers; nearest possible pp is "
                        "%u",
                        stages, m->layers_count, m->layers_count);
    return cut_check(m, stages, parts, err);
}

lac_status lac_placement_make(const lac_place_model *m, const lac_place_class *classes,
                              uint32_t classes_count, uint32_t stages, uint32_t parts,
                              uint64_t memory_bytes, lac_placement *out, lac_error *err)
{
    lac_status status = shape_check(m, stages, parts, err);
    if (status != LAC_OK)
        return status;
    lac_placement p = {.stages = stages, .parts = parts, .layers_count = m->layers_count};
    p.of = lac_alloc((size_t)parts * m->layers_count, sizeof *p.of);
    const char *what;
    for (uint32_t part = 0; part < parts; part++) {
        uint32_t rows;
        (void)range_of(m->vocab, m->vocab / 64 < parts ? 8 : 64, parts, part, &p.vocab_first[part],
                       &rows);
        for (uint32_t l = 0; l < m->layers_count; l++)
            (void)layer_cut(m, l, parts, part, &p.of[(size_t)part * m->layers_count + l], &what);
    }
    p.vocab_first[parts] = m->vocab;
    chain c = {.layers = m->layers_count,
               .cost = lac_alloc(m->layers_count + 1, sizeof(double)),
               .bytes = lac_alloc(m->layers_count + 1, sizeof(uint64_t)),
               .head_cost = (double)m->head_bytes,
               .embed = m->embed_bytes,
               .head = m->head_bytes,
               .tied = m->tied,
               .stages = stages};
    chain_fill(&c, m, classes, classes_count);
    stages_cut(&c, p.layer_first);
    for (uint32_t r = 0; r < stages * parts; r++) {
        rank_weigh(&p, m, &c, r, classes, classes_count);
        if (memory_bytes > 0 && p.bytes[r] > memory_bytes && status == LAC_OK)
            status =
                lac_fail(err, LAC_ETOOBIG,
                         "rank %u of pp %u × tp %u holds %.1f MB of weights, allowed %.1f MB", r,
                         stages, parts, (double)p.bytes[r] / 1e6, (double)memory_bytes / 1e6);
    }
    free(c.cost);
    free(c.bytes);
    if (status != LAC_OK)
        lac_placement_free(&p);
    else
        *out = p;
    return status;
}

void lac_placement_free(lac_placement *p)
{
    free(p->of);
    *p = (lac_placement){0};
}

void lac_placement_digest(const lac_placement *p, lac_digest *out)
{
    lac_hasher *hasher = lac_hasher_create();
    static const char domain[] = "lacuna placement 1";
    uint32_t shape[3] = {p->stages, p->parts, p->layers_count};
    lac_hasher_add(hasher, domain, sizeof domain);
    lac_hasher_add(hasher, shape, sizeof shape);
    lac_hasher_add(hasher, p->layer_first, sizeof(uint32_t) * (p->stages + 1));
    lac_hasher_add(hasher, p->vocab_first, sizeof(uint32_t) * (p->parts + 1));
    lac_hasher_add(hasher, p->of, sizeof *p->of * p->parts * p->layers_count);
    lac_hasher_finish(&hasher, out);
}
