/* lacuna-engine place: which rank would hold what of a model, on this machine or on one that a
 * topology file describes. Main thread. Starts nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "topology/topology.h"

typedef struct {
    lac_tool_engine engine; /* model, mask, pp and tp of it */
    char topology[4096];
    bool print_topology;
} place_options;

#define ROW(...) LAC_TOOL_ROW(place_options, __VA_ARGS__)
static const lac_option options[] = {
    ROW(engine.model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file"),
    ROW(topology, "topology", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "machines to plan for; without it, this one"),
    ROW(engine.pp, "pp", LAC_OPT_INT, "S", "1", 1, LAC_RANKS_MAX, "pipeline stages"),
    ROW(engine.tp, "tp", LAC_OPT_INT, "T", "1", 1, LAC_RANKS_MAX, "ranks a stage"),
    ROW(engine.mask, "mask", LAC_OPT_STRING, "UNITS", NULL, 0, 0,
        "units that no request runs: A25,A7"),
    ROW(print_topology, "print-topology", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "print the topology as a file and end"),
};

static const lac_tool_spec spec = {
    .name = "place",
    .synopsis = "--model FILE [--topology FILE] [--pp S] [--tp T] | --print-topology",
    .help = "Shows which layers each pipeline stage and which heads, FFN rows and vocabulary rows\n"
            "each rank of a stage would hold, on which cores, and how even that is. Weights are\n"
            "as in the file; the active share is of the bytes a token reads.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

static lac_status topology_get(const place_options *opt, lac_topology *out, lac_error *err)
{
    if (!opt->topology[0])
        return lac_topology_discover(out, err);
    char *text = NULL;
    size_t length = 0;
    lac_status status = lac_tool_read_file(opt->topology, 4 << 20, &text, &length, err);
    if (status == LAC_OK)
        status = lac_topology_parse(text, length, out, err);
    if (status != LAC_OK && text)
        lac_fail_in(err, "%s", opt->topology);
    free(text);
    return status;
}

/* ---- output ---- */

static void table(const lac_topology *t, const lac_placement *p, const lac_topology_seat *seats,
                  lac_buf *out)
{
    uint32_t ranks = p->stages * p->parts;
    double all = 0;
    for (uint32_t r = 0; r < ranks; r++)
        all += p->cost[r];
    lac_buf_text(out, "rank stage part  layers     heads  kv  ffn    vocabulary  weights MB  "
                      "active %  cores        host\n");
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t stage = r / p->parts, part = r % p->parts, first = p->layer_first[stage];
        const lac_place_part *of = lac_placement_part(p, part, first);
        const lac_topology_seat *seat = &seats[r];
        lac_buf_printf(out,
                       "%4u %5u %4u  %4u..%-4u %5u %3u %5u  %5u..%-6u %10.1f  %8.1f  %4u..%-4u%s  "
                       "%s\n",
                       r, stage, part, first, p->layer_first[stage + 1] - 1, of->heads,
                       of->kv_heads, of->ffn, p->vocab_first[part], p->vocab_first[part + 1] - 1,
                       (double)p->bytes[r] / 1e6, all > 0 ? 100 * p->cost[r] / all : 0,
                       seat->core_first, seat->core_first + seat->cores - 1,
                       seat->nodes > 1 ? " *" : "  ", t->hosts[seat->host]);
    }
    for (uint32_t r = 0; r < ranks; r++)
        if (seats[r].nodes > 1) {
            lac_buf_text(out, "* lies on several NUMA nodes\n");
            break;
        }
}

/* A sign a layer: # both units run, a attention only, f FFN only, . none. */
static void picture(const lac_model *m, const lac_mask *erased, const lac_placement *p,
                    lac_buf *out)
{
    double most = 0;
    for (uint32_t r = 0; r < p->stages * p->parts; r++)
        most = p->cost[r] > most ? p->cost[r] : most;
    for (uint32_t s = 0; s < p->stages; s++) {
        lac_buf_printf(out, "\nstage %u %s", s, s == 0 ? "[embed]" : "");
        for (uint32_t l = p->layer_first[s]; l < p->layer_first[s + 1]; l++) {
            bool a = m->layers[l].heads > 0 && !lac_mask_has(erased, 2 * l);
            bool f = m->layers[l].ffn > 0 && !lac_mask_has(erased, 2 * l + 1);
            lac_buf_text(out, a && f ? "#" : a ? "a" : f ? "f" : ".");
        }
        lac_buf_text(out, s + 1 == p->stages ? "[head]\n" : "\n");
        for (uint32_t part = 0; part < p->parts; part++) {
            uint32_t r = s * p->parts + part;
            int width = most > 0 ? (int)(p->cost[r] / most * 50 + 0.5) : 0;
            lac_buf_printf(out, "  rank %-3u|%.*s\n", r, width,
                           "==================================================");
        }
    }
}

/* What no plan can mend is said under it. */
static void warnings(const lac_topology *t, const lac_placement *p, const lac_topology_seat *seats,
                     lac_buf *out)
{
    for (uint32_t r = 0; r < p->stages * p->parts; r++) {
        if (p->bytes[r] > seats[r].memory_bytes)
            lac_buf_printf(out, "rank %u: %.1f MB of weights, its share of the memory is %.1f MB\n",
                           r, (double)p->bytes[r] / 1e6, (double)seats[r].memory_bytes / 1e6);
        uint32_t leads = r - r % p->parts;
        if (seats[r].host != seats[leads].host)
            lac_buf_printf(out, "stage %u lies on %s and %s: each layer's sums cross the network\n",
                           r / p->parts, t->hosts[seats[leads].host], t->hosts[seats[r].host]);
    }
}

static lac_status place(const place_options *opt, const lac_topology *t, lac_buf *out,
                        lac_error *err)
{
    lac_model *model = NULL;
    lac_placement p = {0};
    lac_mask erased = {0};
    lac_topology_seat seats[LAC_RANKS_MAX];
    lac_status status = lac_model_open(opt->engine.model, &model, err);
    if (status == LAC_OK)
        status = lac_tool_placement(model, &opt->engine, &p, err);
    if (status == LAC_OK && opt->engine.mask[0])
        status = lac_mask_parse(opt->engine.mask, model->layers_count, &erased, err);
    if (status == LAC_OK)
        status = lac_topology_seats(t, p.stages * p.parts, seats, err);
    if (status == LAC_OK) {
        table(t, &p, seats, out);
        picture(model, &erased, &p, out);
        warnings(t, &p, seats, out);
    }
    lac_placement_free(&p);
    lac_model_close(&model);
    return status;
}

int lac_tool_place(int argc, char **argv)
{
    static place_options opt; /* large */
    static lac_topology topology;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0] && !opt.print_topology)
        return lac_tool_misuse(&spec, "--model FILE or --print-topology is needed");
    lac_error err = {0};
    lac_buf out = {0};
    lac_status status = topology_get(&opt, &topology, &err);
    if (status == LAC_OK && opt.print_topology)
        lac_topology_write(&topology, &out);
    else if (status == LAC_OK)
        status = place(&opt, &topology, &out, &err);
    if (status == LAC_OK)
        status = lac_tool_print(&out, &err);
    lac_buf_free(&out);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
