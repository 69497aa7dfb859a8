/* lacuna-engine profile: where the time and the bytes of a step go, operation by operation, as a
 * table, as JSON, and as a timeline that trace viewers open. Main thread, which also runs the
 * engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace.h"
#include "engine_options.h"
#include "mixture.h"

typedef struct {
    lac_tool_engine engine;
    int64_t prefill, decode, batch;
    char mix[512], trace[4096];
    bool json;
} profile_options;

#define ROW(...) LAC_TOOL_ROW(profile_options, __VA_ARGS__)
static const lac_option options[] = {
    LAC_TOOL_ENGINE_ROWS(profile_options),
    ROW(prefill, "prefill", LAC_OPT_INT, "N", "64", 1, LAC_CONTEXT_MAX,
        "prompt tokens of each sequence"),
    ROW(decode, "decode", LAC_OPT_INT, "N", "8", 1, 1024, "decode steps that are looked at"),
    ROW(batch, "batch", LAC_OPT_INT, "B", "1", 1, LAC_BATCH_ROWS_MAX, "sequences at once"),
    ROW(mix, "mix", LAC_OPT_STRING, "CLASSES", NULL, 0, 0,
        "load full and every class of --plan, sequences take these in turns"),
    ROW(trace, "trace", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "write the timeline of prefill and decode, Chrome's trace event format"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "print the decode's sums as JSON instead of a table"),
};

static const lac_tool_spec spec = {
    .name = "profile",
    .synopsis = "--model FILE [--mask UNITS | --plan FILE --class NAME] [--trace FILE] [--json]",
    .help =
        "Runs made-up prompts and times every operation. Prints, for the decode steps, the time, "
        "the\n"
        "weights and the keys and values that each unit moved; a part that no request runs is not\n"
        "there. The bytes are what has to be moved when no cache helps.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* Sums of one unit; the last two are embedding and head. */
typedef struct {
    double us, patch_us;
    uint64_t weight_bytes, kv_bytes, events;
} unit_sum;

typedef struct {
    const lac_model *model;
    uint32_t units;
    unit_sum *sums; /* [units + 2], of decode */
    bool decoding;
    uint64_t first_ns;
    lac_buf *timeline; /* NULL without --trace */
    uint32_t started;
    lac_status status;
    lac_error *err;
} profile;

static void label_of(const profile *p, uint32_t slot, char out[16])
{
    if (slot < p->units)
        snprintf(out, 16, "%c%u", slot % 2 ? 'F' : 'A', slot / 2);
    else
        snprintf(out, 16, "%s", slot == p->units ? "embed" : "head");
}

static void event_write(profile *p, const lac_engine_op *op, uint32_t slot)
{
    char label[16];
    label_of(p, slot, label);
    double at = (double)(op->begin_ns - p->first_ns) / 1e3;
    lac_buf_printf(
        p->timeline,
        "%s{\"name\":\"%s%s%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.3f,"
        "\"dur\":%.3f,\"args\":{\"unit\":\"%s\",\"rows\":%u,\"weight_bytes\":%llu,"
        "\"kv_read_bytes\":%llu,\"kv_written_bytes\":%llu}}",
        p->timeline->length > 0 ? ",\n" : "", label, op->of_unit ? " " : "",
        op->of_unit ? op->name : "", p->decoding ? "decode" : "prefill", at,
        (double)(op->end_ns - op->begin_ns) / 1e3, op->of_unit ? label : "", op->rows,
        (unsigned long long)op->weight_bytes, (unsigned long long)op->kv_read_bytes,
        (unsigned long long)op->kv_written_bytes);
}

static void op_take(void *arg, const lac_engine_op *op)
{
    profile *p = arg;
    uint32_t slot = op->of_unit ? op->unit : p->units + (strcmp(op->name, "head") == 0);
    p->first_ns = p->first_ns ? p->first_ns : op->begin_ns;
    if (p->timeline)
        event_write(p, op, slot);
    if (!p->decoding)
        return;
    unit_sum *sum = &p->sums[slot];
    double us = (double)(op->end_ns - op->begin_ns) / 1e3;
    sum->us += us;
    sum->patch_us += strcmp(op->name, "patch") == 0 ? us : 0;
    sum->weight_bytes += op->weight_bytes;
    sum->kv_bytes += op->kv_read_bytes + op->kv_written_bytes;
    sum->events++;
}

static void token_take(void *arg, const lac_engine_event *event)
{
    profile *p = arg;
    p->started += event->chunk.tokens_count > 0 && event->chunk.first_pos == 0;
    if (event->finish == LAC_FINISH_ERROR)
        p->status = lac_fail(p->err, event->error, "%s", event->reason ? event->reason : "failed");
    else if (event->finish != LAC_FINISH_NONE)
        p->status =
            lac_fail(p->err, LAC_ETOOBIG, "the prompts and --decode do not fit the context");
}

static lac_status measure(const profile_options *opt, lac_engine *engine, profile *p)
{
    lac_tool_mixture mix;
    uint32_t batch = (uint32_t)opt->batch;
    lac_status status =
        lac_tool_mixture_read(opt->mix, lac_tool_engine_class(&opt->engine), engine, &mix, p->err);
    if (status == LAC_OK)
        status = lac_engine_trace(engine, op_take, p, p->err);
    if (status == LAC_OK)
        status = lac_tool_mixture_submit(engine, &mix, batch, (size_t)opt->prefill, 0, p->err);
    while (status == LAC_OK && p->started < batch && lac_engine_step(engine, token_take, p))
        status = p->status;
    p->decoding = true;
    for (int64_t i = 0; i < opt->decode && status == LAC_OK; i++) {
        lac_engine_step(engine, token_take, p);
        status = p->status;
    }
    return status;
}

/* ---- output ---- */

static void table_print(const profile_options *opt, const profile *p, lac_buf *out)
{
    double all = 0, steps = (double)opt->decode;
    for (uint32_t i = 0; i < p->units + 2; i++)
        all += p->sums[i].us;
    lac_buf_printf(out, "%-8s %12s %8s %14s %14s\n", "unit", "us a step", "share", "weights, bytes",
                   "KV, bytes");
    for (uint32_t i = 0; i < p->units + 2; i++) {
        const unit_sum *s = &p->sums[i];
        char label[16];
        label_of(p, i, label);
        if (s->events == 0)
            continue;
        lac_buf_printf(out, "%-8s %12.1f %7.2f%% %14.0f %14.0f%s\n", label, s->us / steps,
                       all > 0 ? 100 * s->us / all : 0, (double)s->weight_bytes / steps,
                       (double)s->kv_bytes / steps, s->patch_us > 0 ? "  with a patch" : "");
    }
    lac_buf_printf(out, "%-8s %12.1f\n", "all", all / steps);
}

static void json_print(const profile_options *opt, const profile *p, lac_buf *out)
{
    double steps = (double)opt->decode;
    lac_buf_printf(out, "{\"batch\":%lld,\"context\":%lld,\"steps\":%lld,\"units\":[",
                   (long long)opt->batch, (long long)opt->prefill, (long long)opt->decode);
    for (uint32_t i = 0, n = 0; i < p->units + 2; i++) {
        const unit_sum *s = &p->sums[i];
        char label[16];
        label_of(p, i, label);
        if (s->events > 0)
            lac_buf_printf(out,
                           "%s{\"unit\":\"%s\",\"us\":%.3f,\"patch_us\":%.3f,\"weight_bytes\":%.0f,"
                           "\"kv_bytes\":%.0f}",
                           n++ ? "," : "", label, s->us / steps, s->patch_us / steps,
                           (double)s->weight_bytes / steps, (double)s->kv_bytes / steps);
    }
    lac_buf_text(out, "]}\n");
}

static lac_status timeline_write(const char *path, const lac_buf *events, lac_error *err)
{
    FILE *f = fopen(path, "w");
    bool good = f && fprintf(f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n%s\n]}\n",
                             events->data ? events->data : "") > 0;
    good = f && fclose(f) == 0 && good;
    return good ? LAC_OK : lac_fail(err, LAC_EIO, "--trace %.200s cannot be written", path);
}

static lac_status report(const profile_options *opt, const profile *p, lac_error *err)
{
    lac_status status = p->timeline ? timeline_write(opt->trace, p->timeline, err) : LAC_OK;
    if (status != LAC_OK)
        return status;
    lac_buf out = {0};
    if (opt->json)
        json_print(opt, p, &out);
    else
        table_print(opt, p, &out);
    status = lac_tool_print(&out, err);
    lac_buf_free(&out);
    return status;
}

int lac_tool_profile(int argc, char **argv)
{
    profile_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.engine.model[0])
        return lac_tool_misuse(&spec, "--model FILE is needed");
    if (opt.engine.pp * opt.engine.tp > 1)
        return lac_tool_misuse(&spec, "--pp and --tp are 1 here: one rank is looked at");
    lac_error err = {0};
    lac_engine *engine = NULL;
    lac_buf timeline = {0};
    profile p = {.timeline = opt.trace[0] ? &timeline : NULL, .err = &err};
    opt.engine.all_classes = opt.mix[0] != '\0';
    snprintf(opt.engine.speculate, sizeof opt.engine.speculate, "off");
    lac_status status = lac_tool_engine_open(&opt.engine, (uint32_t)opt.batch, &engine, &err);
    if (status == LAC_OK) {
        p.model = lac_engine_model(engine);
        p.units = 2 * p.model->layers_count;
        p.sums = lac_alloc(p.units + 2, sizeof *p.sums);
        status = measure(&opt, engine, &p);
    }
    if (status == LAC_OK)
        status = report(&opt, &p, &err);
    free(p.sums);
    lac_buf_free(&timeline);
    lac_tool_engine_close(&engine);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
