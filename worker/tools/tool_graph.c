/* lacuna-engine graph: the operations that a class runs, drawn for Graphviz, what it leaves out
 * greyed. Main thread. Reads metadata and what decides the units' states; no engine. */
#include <stdio.h>

#include "engine_options.h"
#include "erasure/state.h"

typedef struct {
    char model[4096], mask[8192], plan[4096], class_name[LAC_NAME_MAX + 1];
    bool dot;
} graph_options;

#define ROW(...) LAC_TOOL_ROW(graph_options, __VA_ARGS__)
static const lac_option options[] = {
    ROW(model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file"),
    ROW(mask, "mask", LAC_OPT_STRING, "UNITS", NULL, 0, 0, "leave these out: A25,A7"),
    ROW(plan, "plan", LAC_OPT_STRING, "FILE", NULL, 0, 0, "take a class from this plan"),
    ROW(class_name, "class", LAC_OPT_STRING, "NAME", NULL, 0, 0, "which class of the plan"),
    ROW(dot, "dot", LAC_OPT_BOOL, NULL, NULL, 0, 0, "Graphviz text (there is no other form)"),
};

static const lac_tool_spec spec = {
    .name = "graph",
    .synopsis = "--model FILE [--mask UNITS | --plan FILE --class NAME] --dot",
    .help = "Prints what a token runs through as a graph: a box a unit, in the order they run. "
            "Parts that\n"
            "are left out are grey and dashed and the arrow goes around them; a patch in the place "
            "of one is\n"
            "blue. Draw it with: lacuna-engine graph … --dot | dot -Tsvg > graph.svg",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

static const lac_patch *patch_of(const lac_engine_class *class, uint32_t unit)
{
    for (uint32_t i = 0; i < class->patches_count; i++)
        if (class->patches[i].unit == unit)
            return &class->patches[i];
    return NULL;
}

/* One unit. `from` is the node that the arrow comes from, and becomes this one if it runs. */
static void unit_draw(const lac_model *model, const lac_engine_class *class, uint32_t unit,
                      char from[16], lac_buf *out)
{
    lac_unit_facts facts;
    char name[16];
    const lac_patch *patch = patch_of(class, unit);
    lac_model_unit_facts(model, unit, &facts);
    lac_unit_state state = lac_unit_judge(&facts);
    snprintf(name, sizeof name, "%c%u", unit % 2 ? 'F' : 'A', unit / 2);
    double megabytes = (double)lac_model_unit_bytes(model, unit) / 1e6;
    if (patch) {
        lac_buf_printf(out,
                       "  %s [label=\"%s: a patch, rank %u\", style=filled, fillcolor=\"#cfe2f3\", "
                       "color=\"#1b6ca8\"];\n  %s -> %s;\n",
                       name, name, patch->rank, from, name);
    } else if (state != LAC_UNIT_ACTIVE || lac_mask_has(&class->mask, unit)) {
        const char *why = state == LAC_UNIT_ACTIVE ? "left out" : lac_unit_state_name(state);
        lac_buf_printf(out,
                       "  %s [label=\"%s: %s\", style=\"filled,dashed\", fillcolor=\"#eeeeee\", "
                       "color=\"#999999\", fontcolor=\"#999999\"];\n",
                       name, name, why);
        return;
    } else {
        lac_buf_printf(out, "  %s [label=\"%s: %s, %.2f MB\"];\n  %s -> %s;\n", name, name,
                       unit % 2 ? "FFN" : "attention", megabytes, from, name);
    }
    snprintf(from, 16, "%s", name);
}

static void graph_draw(const lac_model *model, const lac_engine_class *class, lac_buf *out)
{
    char from[16] = "embed";
    lac_buf_text(out,
                 "digraph model {\n  rankdir=TB;\n  node [shape=box, fontname=\"sans-serif\"];\n"
                 "  embed [label=\"embedding\"];\n");
    for (uint32_t u = 0; u < 2 * model->layers_count; u++)
        unit_draw(model, class, u, from, out);
    lac_buf_printf(out, "  head [label=\"head\"];\n  %s -> head;\n", from);
    for (uint32_t l = 0; l < model->layers_count; l++)
        lac_buf_printf(out, "  {rank=same; A%u; F%u;}\n", l, l);
    lac_buf_text(out, "}\n");
}

int lac_tool_graph(int argc, char **argv)
{
    graph_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0] || !opt.dot)
        return lac_tool_misuse(&spec, "--model FILE and --dot are needed");
    lac_error err = {0};
    lac_model *model = NULL;
    lac_plan *plan = NULL;
    lac_engine_class class = {.name = "full"};
    lac_buf out = {0};
    lac_tool_class_options wanted = {
        .model = opt.model, .mask = opt.mask, .plan = opt.plan, .class_name = opt.class_name};
    lac_status status = lac_model_open(opt.model, &model, &err);
    if (status == LAC_OK && (opt.mask[0] || opt.plan[0] || opt.class_name[0]))
        status = lac_tool_class_find(&wanted, &plan, &class, &err);
    if (status == LAC_OK) {
        graph_draw(model, &class, &out);
        status = lac_tool_print(&out, &err);
    }
    lac_buf_free(&out);
    lac_plan_destroy(&plan);
    lac_model_close(&model);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
