/* lacuna-engine bisect: which unit of a class changes a given answer. Main thread, which also runs
 * the engine.
 *
 * The answer of full is made first. Then the class's units are added one by one, in their order,
 * each sum a class of its own in one engine and all of them one batch: the first sum whose answer
 * is another names the unit that broke it there. Each unit alone runs in the same batch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_options.h"

typedef struct {
    lac_tool_engine engine;
    char prompt[65536];
    int64_t max_tokens;
    bool special, json;
} bisect_options;

#define ROW(...) LAC_TOOL_ROW(bisect_options, __VA_ARGS__)
static const lac_option options[] = {
    LAC_TOOL_ENGINE_ROWS(bisect_options),
    ROW(prompt, "prompt", LAC_OPT_STRING, "TEXT", NULL, 0, 0,
        "the prompt whose answer broke; as it is"),
    ROW(max_tokens, "max-tokens", LAC_OPT_INT, "N", "64", 1, 4096,
        "tokens of the answer that are compared"),
    ROW(special, "special", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "texts of special tokens become their ids"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0, "print one JSON object"),
};

static const lac_tool_spec spec = {
    .name = "bisect",
    .synopsis = "--model FILE (--mask UNITS | --plan FILE --class NAME) --prompt TEXT",
    .help = "Answers the prompt greedily in full, then with one more unit of the class left out "
            "each time\n"
            "(patches in their place, where it has them), and with each unit alone; says where "
            "each answer\n"
            "first differs from full's, and which unit broke it.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* Sums and singles take turns in engines of this many classes. */
enum { TRIALS_AT_ONCE = LAC_CLASSES_MAX - 1 };

typedef struct {
    uint32_t unit;
    bool alone;      /* this unit by itself; else it and all before it */
    int64_t differs; /* the first token that is another; −1: none */
} trial;

/* What one batch answered: [TRIALS_AT_ONCE + 1][max_tokens], full last. */
typedef struct {
    uint32_t *tokens, counts[TRIALS_AT_ONCE + 1];
    size_t max;
    lac_status status;
    lac_error *err;
} answers;

static void take(void *arg, const lac_engine_event *event)
{
    answers *a = arg;
    for (uint32_t i = 0; i < event->chunk.tokens_count && a->counts[event->id] < a->max; i++)
        a->tokens[event->id * a->max + a->counts[event->id]++] = event->chunk.tokens[i];
    if (event->finish == LAC_FINISH_ERROR)
        a->status = lac_fail(a->err, event->error, "%s", event->reason ? event->reason : "failed");
}

static lac_engine_class class_of(const lac_engine_class *whole, const trial *t, lac_patch *patches)
{
    lac_engine_class class = {.scope = whole->scope, .patches = patches};
    for (uint32_t u = t->alone ? t->unit : 0; u <= t->unit; u++)
        if (lac_mask_has(&whole->mask, u))
            lac_mask_set(&class.mask, u);
    for (uint32_t i = 0; i < whole->patches_count; i++)
        if (lac_mask_has(&class.mask, whole->patches[i].unit))
            patches[class.patches_count++] = whole->patches[i];
    return class;
}

static lac_status submit(lac_engine *engine, const bisect_options *opt, uint32_t trials,
                         const answers *a, lac_error *err)
{
    uint32_t *ids = NULL;
    size_t count;
    bool bos = lac_tokenizer_add_bos(lac_engine_tokenizer(engine));
    lac_status status = lac_tool_encode(engine, opt->prompt, strlen(opt->prompt), opt->special, bos,
                                        &ids, &count, err);
    lac_engine_request request = {
        .prompt = ids, .prompt_count = count, .sampling = lac_sampling_default()};
    request.sampling.temperature = 0;
    request.sampling.has_seed = true;
    request.sampling.max_tokens = (uint32_t)a->max;
    for (uint32_t i = 0; i <= trials && status == LAC_OK; i++) {
        request.id = i;
        request.class_index = i < trials ? i + 1 : 0;
        status = lac_engine_submit(engine, &request, err);
    }
    free(ids);
    return status;
}

static int64_t first_difference(const answers *a, uint32_t i, uint32_t full)
{
    const uint32_t *x = a->tokens + i * a->max, *y = a->tokens + full * a->max;
    uint32_t n = 0;
    while (n < a->counts[i] && n < a->counts[full] && x[n] == y[n])
        n++;
    return n == a->counts[i] && n == a->counts[full] ? -1 : (int64_t)n;
}

/* Runs up to TRIALS_AT_ONCE trials and full in one batch. */
static lac_status trials_run(const bisect_options *opt, const lac_engine_class *whole, trial *list,
                             uint32_t count, lac_error *err)
{
    lac_engine_class classes[TRIALS_AT_ONCE];
    char names[TRIALS_AT_ONCE][16];
    lac_patch *patches = lac_alloc((size_t)count * (whole->patches_count + 1), sizeof *patches);
    answers a = {.max = (size_t)opt->max_tokens, .err = err};
    lac_engine *engine = NULL;
    for (uint32_t i = 0; i < count; i++) {
        classes[i] = class_of(whole, &list[i], patches + (size_t)i * (whole->patches_count + 1));
        snprintf(names[i], sizeof names[i], "t%u", i);
        classes[i].name = names[i];
    }
    a.tokens = lac_alloc((TRIALS_AT_ONCE + 1) * a.max, sizeof *a.tokens);
    lac_engine_options with = {.model_path = opt->engine.model,
                               .threads = (uint32_t)opt->engine.threads,
                               .context_max = (uint32_t)opt->engine.ctx,
                               .kv_bytes = (uint64_t)opt->engine.kv_mem,
                               .slots = count + 1,
                               .classes = classes,
                               .classes_count = count};
    lac_status status = lac_isa_parse(opt->engine.isa, &with.isa)
                            ? lac_engine_create(&with, &engine, err)
                            : lac_fail(err, LAC_EINVAL, "--isa is \"%.16s\"", opt->engine.isa);
    if (status == LAC_OK)
        status = submit(engine, opt, count, &a, err);
    while (status == LAC_OK && lac_engine_step(engine, take, &a))
        status = a.status;
    for (uint32_t i = 0; i < count && status == LAC_OK; i++)
        list[i].differs = first_difference(&a, i, count);
    lac_engine_destroy(&engine);
    free(a.tokens);
    free(patches);
    return status;
}

/* ---- output ---- */

static void unit_text(uint32_t unit, char out[16])
{
    snprintf(out, 16, "%c%u", unit % 2 ? 'F' : 'A', unit / 2);
}

static void table(const trial *list, uint32_t units, lac_buf *out)
{
    uint32_t culprit = UINT32_MAX;
    char name[16];
    lac_buf_text(out, "unit    with those before it      alone\n");
    for (uint32_t i = 0; i < units; i++) {
        unit_text(list[i].unit, name);
        lac_buf_printf(out, "%-7s ", name);
        for (uint32_t k = 0; k < 2; k++) {
            int64_t at = list[k * units + i].differs;
            if (at < 0)
                lac_buf_printf(out, "%-25s", "as full");
            else
                lac_buf_printf(out, "differs from token %-6lld", (long long)at);
        }
        lac_buf_text(out, "\n");
        if (list[i].differs >= 0 && culprit == UINT32_MAX)
            culprit = list[i].unit;
    }
    if (culprit == UINT32_MAX)
        lac_buf_text(out, "the class gives full's answer\n");
    unit_text(culprit, name);
    if (culprit != UINT32_MAX)
        lac_buf_printf(out, "%s breaks the answer\n", name);
}

static void json(const trial *list, uint32_t units, lac_buf *out)
{
    const char *culprit = NULL;
    char name[16], first[16];
    lac_buf_text(out, "{\"units\":[");
    for (uint32_t i = 0; i < units; i++) {
        unit_text(list[i].unit, name);
        lac_buf_printf(out, "%s{\"unit\":\"%s\",\"sum_differs\":%lld,\"alone_differs\":%lld}",
                       i ? "," : "", name, (long long)list[i].differs,
                       (long long)list[units + i].differs);
        if (list[i].differs >= 0 && !culprit)
            culprit = strcpy(first, name);
    }
    lac_buf_printf(out, "],\"breaks\":%s%s%s}\n", culprit ? "\"" : "", culprit ? culprit : "null",
                   culprit ? "\"" : "");
}

static lac_status bisect(const bisect_options *opt, const lac_engine_class *whole, lac_error *err)
{
    uint32_t units = lac_mask_count(&whole->mask), made = 0;
    if (units == 0)
        return lac_fail(err, LAC_EINVAL, "class full leaves nothing out");
    trial *list = lac_alloc(2 * (size_t)units, sizeof *list);
    for (uint32_t u = 0; made < units; u++)
        if (lac_mask_has(&whole->mask, u)) {
            list[units + made] = (trial){.unit = u, .alone = true};
            list[made++] = (trial){.unit = u};
        }
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < 2 * units && status == LAC_OK; i += TRIALS_AT_ONCE) {
        uint32_t now = 2 * units - i < TRIALS_AT_ONCE ? 2 * units - i : TRIALS_AT_ONCE;
        status = trials_run(opt, whole, list + i, now, err);
    }
    lac_buf out = {0};
    if (status == LAC_OK) {
        if (opt->json)
            json(list, units, &out);
        else
            table(list, units, &out);
        status = lac_tool_print(&out, err);
    }
    lac_buf_free(&out);
    free(list);
    return status;
}

int lac_tool_bisect(int argc, char **argv)
{
    static bisect_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0] || !opt.prompt[0] || (!opt.engine.mask[0] && !opt.engine.plan[0]))
        return lac_tool_misuse(&spec,
                               "--model FILE, --prompt TEXT and --mask or --plan are needed");
    lac_error err = {0};
    lac_plan *plan = NULL;
    lac_engine_class whole;
    lac_tool_class_options wanted = {.model = opt.engine.model,
                                     .mask = opt.engine.mask,
                                     .plan = opt.engine.plan,
                                     .class_name = opt.engine.class_name};
    lac_status status = lac_tool_class_find(&wanted, &plan, &whole, &err);
    if (status == LAC_OK)
        status = bisect(&opt, &whole, &err);
    lac_plan_destroy(&plan);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
