/* lacuna-engine calibrate: which parts of a model one type of input may leave out, with proof, as a
 * plan. Main thread, which also runs the engine. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "calibrate/calibrate.h"
#include "plan/plan.h"
#include "tokenizer/tokenizer.h"
#include "tools.h"

enum { NOTHING_CERTIFIED = 3 }; /* exit code: a normal result, and not the one hoped for */

typedef struct {
    char model[4096], prompts[4096], holdout[4096], out[4096], base[4096];
    char type[32], tier[32], isa[16];
    int64_t threads, window, fit_tokens, select_tokens, requests, preselect, candidates, shortlist;
    int64_t units, swaps, rank, rank_max;
    double batch, context;
    bool no_patches, json;
} calibrate_options;

#define ROW(field, text, kind, named, start, least, most, line)                                    \
    {                                                                                              \
        .name = text, .type = kind, .offset = offsetof(calibrate_options, field),                  \
        .size = sizeof(((calibrate_options *)0)->field), .preset = start, .low = least,            \
        .high = most, .value = named, .help = line                                                 \
    }
static const lac_option options[] = {
    ROW(model, "model", LAC_OPT_STRING, "FILE", NULL, 0, 0, "GGUF file"),
    ROW(type, "type", LAC_OPT_STRING, "TYPE", NULL, 0, 0,
        "structured, unstructured, hybrid or code: which prompts are taken"),
    ROW(prompts, "prompts", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "JSONL {id, document, type, text|messages}: the search looks at these"),
    ROW(holdout, "holdout", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "JSONL of other documents: the certificate is measured on these"),
    ROW(tier, "tier", LAC_OPT_STRING, "TIER", "standard", 0, 0,
        "gold (mean KL 0.01), standard (0.03) or economy (0.10): the deepest one looked for"),
    ROW(out, "out", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "plan to write; patches, curve (.csv, .svg) and state file (.state) lie beside it"),
    ROW(base, "base", LAC_OPT_STRING, "FILE", NULL, 0, 0,
        "plan of the same model whose classes for other types are taken over"),
    ROW(threads, "threads", LAC_OPT_INT, "N", "0", 0, 1024,
        "threads; 0 = cores this process may use"),
    ROW(isa, "isa", LAC_OPT_STRING, "NAME", "auto", 0, 0, "auto, scalar, avx2 or avx512"),
    ROW(window, "window", LAC_OPT_INT, "TOKENS", "128", 8, LAC_BATCH_ROWS_MAX,
        "tokens of a calibration window, and of a hold-out request at most"),
    ROW(fit_tokens, "fit-tokens", LAC_OPT_INT, "N", "12288", 8, 1 << 22,
        "patches are fitted on so many"),
    ROW(select_tokens, "select-tokens", LAC_OPT_INT, "N", "3072", 8, 1 << 22,
        "masks are compared on so many"),
    ROW(requests, "requests", LAC_OPT_INT, "N", "0", 0, LAC_PROMPTS_MAX,
        "hold-out requests measured; 0 = all"),
    ROW(preselect, "preselect", LAC_OPT_INT, "N", "12", 1, LAC_UNITS_MAX,
        "units kept by their influence on the stream"),
    ROW(candidates, "candidates", LAC_OPT_INT, "N", "10", 1, LAC_UNITS_MAX,
        "of them by their own KL"),
    ROW(shortlist, "shortlist", LAC_OPT_INT, "N", "4", 1, LAC_CALIBRATE_UNITS_MAX,
        "candidates tried in a round"),
    ROW(units, "units", LAC_OPT_INT, "N", "10", 1, LAC_CALIBRATE_UNITS_MAX,
        "units a mask may leave out"),
    ROW(swaps, "swaps", LAC_OPT_INT, "N", "1", 0, LAC_CALIBRATE_UNITS_MAX,
        "exchanges tried at the end"),
    ROW(no_patches, "no-patches", LAC_OPT_BOOL, NULL, NULL, 0, 0,
        "leave units out without patches"),
    ROW(rank, "rank", LAC_OPT_INT, "N", "0", 0, 4096,
        "of every patch; 0 = chosen by what a direction costs and brings"),
    ROW(rank_max, "rank-max", LAC_OPT_INT, "N", "64", 8, 4096, "of a chosen rank"),
    ROW(batch, "batch", LAC_OPT_NUMBER, "N", "1", 1, 4096,
        "cost is reckoned in bytes a token for this many sequences …"),
    ROW(context, "context", LAC_OPT_NUMBER, "TOKENS", "1024", 1, LAC_CONTEXT_MAX,
        "… that look at this many positions"),
    ROW(json, "json", LAC_OPT_BOOL, NULL, NULL, 0, 0, "print the result as JSON"),
};

static const lac_tool_spec spec = {
    .name = "calibrate",
    .synopsis = "--model FILE --type TYPE --prompts FILE --holdout FILE --out PLAN [OPTIONS]",
    .help =
        "Searches for units that prompts of one type can do without, fits patches for them, and\n"
        "certifies on the hold-out how far the answers are from the full model's. Exit status 3:\n"
        "nothing could be certified (the plan then has no class for the type). After Ctrl-C the\n"
        "same command goes on where it was.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

/* ---- progress ---- */

static volatile sig_atomic_t stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

typedef struct {
    uint64_t begin_ns, shown_ns;
    bool terminal;
    double first_share; /* what an earlier run had done */
    bool begun;
} bar;

static bool progress(void *arg, const char *stage, double share)
{
    bar *b = arg;
    uint64_t now = lac_now_ns();
    if (!b->begun)
        b->first_share = share;
    b->begun = true;
    if (now - b->shown_ns < (b->terminal ? UINT64_C(300000000) : UINT64_C(30000000000)))
        return !stop_asked;
    b->shown_ns = now;
    double done = share - b->first_share, left = 0;
    if (done > 0.001)
        left = (double)(now - b->begin_ns) / 1e9 * (1 - share) / done;
    char cells[31];
    for (int i = 0; i < 30; i++)
        cells[i] = (double)i < share * 30 ? '#' : '.';
    cells[30] = '\0';
    fprintf(stderr,
            b->terminal ? "\r\033[K%s %3.0f %%  %.0f:%02.0f left  %s"
                        : "%s %3.0f %%  %.0f:%02.0f left  %s\n",
            cells, 100 * share, (double)((int64_t)left / 60), (double)((int64_t)left % 60), stage);
    fflush(stderr);
    return !stop_asked;
}

/* ---- input ---- */

static lac_status inputs_read(const calibrate_options *opt, const lac_model *model,
                              lac_prompt_set *calibration, lac_prompt_set *holdout, lac_error *err)
{
    lac_prompt_chat chat = {0};
    const char *text = NULL;
    size_t length = 0;
    lac_error none = {0};
    lac_tokenizer *tokenizer = NULL;
    if (lac_gguf_string(model->gguf, "tokenizer.chat_template", &text, &length, &none))
        chat.family = lac_chat_detect(text, length);
    lac_status status = lac_tokenizer_create(model->gguf, &tokenizer, err);
    if (status != LAC_OK)
        return status;
    char specials[2][64] = {"", ""};
    const uint32_t ids[2] = {lac_tokenizer_bos(tokenizer), lac_tokenizer_eos(tokenizer)};
    for (int i = 0; i < 2 && chat.family; i++) {
        const char *bytes = "";
        size_t size = 0;
        if (ids[i] != LAC_TOKEN_NONE)
            lac_tokenizer_piece(tokenizer, ids[i], true, &bytes, &size);
        if (size < sizeof specials[i])
            memcpy(specials[i], bytes, size);
    }
    if (chat.family)
        lac_chat_context_read(chat.family, text, length, specials[0], specials[1], &chat.context);
    status = lac_prompts_read(opt->prompts, opt->type, &chat, calibration, err);
    if (status == LAC_OK)
        status = lac_prompts_read(opt->holdout, opt->type, &chat, holdout, err);
    if (status == LAC_OK)
        status = lac_prompts_disjoint(calibration, holdout, err);
    lac_tokenizer_destroy(&tokenizer);
    return status;
}

/* ---- plan ---- */

static void notes_make(const calibrate_options *opt, const lac_calibrate_result *result,
                       const lac_calibrate_point *p, char *out, size_t size)
{
    lac_buf text = {.cap = size - 1};
    lac_buf_printf(
        &text,
        "cost: bytes a token at batch %g, context %g; patches fitted on %llu tokens, "
        "masks compared on %llu; hold-out requests of at most %d tokens; mean KL by kind "
        "of the next token:",
        opt->batch, opt->context, (unsigned long long)result->fit_rows,
        (unsigned long long)result->select_rows, (int)opt->window);
    for (int k = 0; k < LAC_KINDS; k++)
        lac_buf_printf(&text, " %s %.4f (%llu)", lac_token_kind_name((lac_token_kind)k),
                       p->kind_kl[k], (unsigned long long)p->kind_tokens[k]);
    snprintf(out, size, "%s", text.data ? text.data : "");
    lac_buf_free(&text);
}

static void certificate_make(const lac_calibrate_result *result, const lac_calibrate_point *p,
                             const lac_digest *data, lac_certificate *out)
{
    *out = (lac_certificate){.kl_mean = p->kl.mean,
                             .kl_upper = p->kl.high,
                             .kl_p95 = p->p95,
                             .top1 = p->top1.mean,
                             .cost_saved = p->cost_saved,
                             .data = *data,
                             .documents = result->documents,
                             .requests = result->requests,
                             .tokens = result->tokens};
    snprintf(out->method, sizeof out->method, "%s", LAC_STAT_METHOD);
    time_t now = time(NULL);
    struct tm day;
    gmtime_r(&now, &day);
    strftime(out->date, sizeof out->date, "%Y-%m-%d", &day);
}

static lac_status patches_set(lac_plan *plan, lac_plan_class *class, const lac_calibrate_point *p,
                              lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t i = 0; i < p->patches_count && status == LAC_OK; i++) {
        const lac_fit_patch *patch = &p->patches[i];
        size_t count = (size_t)patch->rank * patch->hidden;
        uint16_t *down = lac_alloc(count, sizeof *down), *up = lac_alloc(count, sizeof *up);
        for (size_t k = 0; k < count; k++) {
            down[k] = lac_f16_of(patch->down[k]);
            up[k] = lac_f16_of(patch->up[k]);
        }
        status = lac_plan_patch_set(plan, class, p->patch_units[i], patch->rank, down, up, err);
        free(down);
        free(up);
    }
    return status;
}

static lac_status class_add(lac_plan *plan, const calibrate_options *opt,
                            const lac_calibrate_result *result, uint32_t point, lac_tier tier,
                            const lac_digest *data, lac_error *err)
{
    const lac_calibrate_point *p = &result->points[point];
    lac_input_type type;
    lac_certificate certificate;
    char name[LAC_NAME_MAX + 1];
    (void)lac_input_type_parse(opt->type, &type); /* checked with the options */
    snprintf(name, sizeof name, "%s-%s", opt->type, lac_tier_name(tier));
    lac_plan_class *class = lac_plan_class_add(plan, name, LAC_SCOPE_REQUEST, &p->mask);
    if (!class)
        return lac_fail(err, LAC_ETOOBIG, "the plan has no room for class %s", name);
    lac_status status = patches_set(plan, class, p, err);
    certificate_make(result, p, data, &certificate);
    notes_make(opt, result, p, class->notes, sizeof class->notes);
    if (status == LAC_OK)
        lac_plan_serve_set(class, type, tier, &certificate, NULL, 0);
    lac_plan_probe_set(class, p->probe_report.worth ? &p->probe : NULL);
    return status;
}

/* Classes of another plan that do not serve this type. */
static lac_status base_take(lac_plan *plan, const lac_plan *base, lac_input_type type,
                            lac_error *err)
{
    lac_status status = LAC_OK;
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
        for (uint32_t i = 0; t != type && i < base->canaries[t].count && status == LAC_OK; i++) {
            const char *text = base->canaries[t].texts[i];
            status = lac_plan_canary_add(plan, (lac_input_type)t, text, strlen(text), err);
        }
    for (uint32_t c = 0; c < base->classes_count && status == LAC_OK; c++) {
        const lac_plan_class *old = &base->classes[c];
        if (old->serves[type].tier != LAC_TIER_NONE)
            continue;
        lac_plan_class *class = lac_plan_class_add(plan, old->name, old->scope, &old->mask);
        if (!class)
            return lac_fail(err, LAC_ETOOBIG, "the plan has no room for class %s", old->name);
        memcpy(class->notes, old->notes, sizeof class->notes);
        lac_plan_probe_set(class, old->probe);
        for (int t = 0; t < LAC_INPUT_TYPES; t++)
            lac_plan_serve_set(class, (lac_input_type)t, old->serves[t].tier,
                               &old->serves[t].certificate, old->serves[t].checks,
                               old->serves[t].checks_count);
        for (uint32_t i = 0; i < old->patches_count && status == LAC_OK; i++)
            status = lac_plan_patch_set(plan, class, old->patches[i].unit, old->patches[i].rank,
                                        old->patches[i].down, old->patches[i].up, err);
    }
    return status;
}

/* The beginnings of the first prompts of the hold-out, of different documents: what the certificate
 * was measured on is what the class is looked at with while it serves. */
static lac_status canaries_add(lac_plan *plan, lac_input_type type, const lac_prompt_set *holdout,
                               lac_error *err)
{
    enum { TEXTS = 4, BYTES = 240 }; /* scored while a worker idles: a few seconds of it */
    lac_status status = LAC_OK;
    uint32_t next = 0; /* documents are numbered in order of appearance */
    for (uint32_t i = 0; i < holdout->count && status == LAC_OK; i++) {
        const lac_prompt_item *p = &holdout->prompts[i];
        if (p->document != next || next == TEXTS)
            continue;
        next++;
        size_t length = p->length < BYTES ? p->length : lac_utf8_whole(p->text, BYTES);
        if (!p->chat && !memchr(p->text, 0, length))
            status = lac_plan_canary_add(plan, type, p->text, length, err);
    }
    return status;
}

static lac_status plan_write(const calibrate_options *opt, const lac_model *model,
                             const lac_calibrate_result *result, const lac_prompt_set *holdout,
                             lac_error *err)
{
    const lac_digest *data = &holdout->digest;
    lac_plan *plan = lac_plan_create(model), *base = NULL;
    lac_input_type type;
    lac_status status = LAC_OK;
    (void)lac_input_type_parse(opt->type, &type);
    if (opt->base[0])
        status = lac_plan_load(opt->base, model, &base, err);
    if (base && status == LAC_OK)
        status = base_take(plan, base, type, err);
    /* One class a mask, under the name of the strictest tier it reaches. */
    for (lac_tier tier = LAC_TIER_GOLD; tier < LAC_TIERS && status == LAC_OK; tier++) {
        uint32_t point = result->certified[tier];
        if (point > 0 && result->points[point].tier == tier)
            status = class_add(plan, opt, result, point, tier, data, err);
    }
    if (status == LAC_OK && plan->classes_count > 0)
        status = canaries_add(plan, type, holdout, err);
    if (status == LAC_OK)
        status = lac_plan_save(plan, opt->out, err);
    lac_plan_destroy(&base);
    lac_plan_destroy(&plan);
    return status;
}

/* ---- output ---- */

static lac_status file_write(const char *path, const lac_buf *text, lac_error *err)
{
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(text->data, 1, text->length, file) == text->length;
    if (file)
        written &= fclose(file) == 0;
    return written ? LAC_OK : lac_fail(err, LAC_EIO, "%s: cannot be written", path);
}

static lac_status curves_write(const calibrate_options *opt, const lac_model *model,
                               const lac_calibrate_result *result, lac_error *err)
{
    char path[4096 + 8], title[256];
    lac_buf csv = {0}, svg = {0};
    snprintf(title, sizeof title, "%s, %s: what is left out against what it costs", model->name,
             opt->type);
    lac_calibrate_csv(result, &csv);
    lac_calibrate_svg(result, title, &svg);
    snprintf(path, sizeof path, "%s.csv", opt->out);
    lac_status status = file_write(path, &csv, err);
    snprintf(path, sizeof path, "%s.svg", opt->out);
    if (status == LAC_OK)
        status = file_write(path, &svg, err);
    lac_buf_free(&csv);
    lac_buf_free(&svg);
    return status;
}

static void probe_print(const lac_calibrate_point *p, lac_buf *out)
{
    const lac_probe_report *r = &p->probe_report;
    lac_buf_printf(out, "probe of %s: ", lac_tier_name(p->tier));
    if (r->tested == 0)
        lac_buf_text(out, "none, the mask begins below the layer it looks at\n");
    else if (!r->worth)
        lac_buf_printf(
            out,
            "left out, the type alone is as good (AUC %.3f on %u unseen requests, %u bad; "
            "type alone 0.500)\n",
            r->auc, r->tested, r->bad);
    else
        lac_buf_printf(
            out,
            "AUC %.3f on %u unseen requests (type alone 0.500); at confidence %.2f %u pass, "
            "%u of them bad of %u%s\n",
            r->auc, r->tested, p->probe.threshold, r->passed, r->passed_bad, r->bad,
            r->certified ? ", at most 10 % bad at 95 %" : ", without a bound");
}

static void table_print(const lac_calibrate_result *r, lac_buf *out)
{
    lac_buf_text(out, "cost    search KL  hold-out KL (95 %)    p95     top-1   tier      mask\n");
    for (uint32_t i = 1; i < r->points_count; i++) {
        const lac_calibrate_point *p = &r->points[i];
        lac_buf_printf(out, "%5.2f %%  %.4f     ", 100 * p->cost_saved, p->search_kl);
        if (p->measured)
            lac_buf_printf(out, "%.4f (<= %.4f)      %.4f  %5.1f %%  %-8s  ", p->kl.mean,
                           p->kl.high, p->p95, 100 * p->top1.mean,
                           p->tier == LAC_TIER_NONE ? "-" : lac_tier_name(p->tier));
        else
            lac_buf_printf(out, "%-19s  %-6s  %-7s  %-8s  ", "-", "-", "-", "-");
        lac_mask_text(&p->mask, out);
        lac_buf_text(out, "\n");
    }
    lac_buf_printf(out, "hold-out: %u requests of %u documents, %llu tokens\n", r->requests,
                   r->documents, (unsigned long long)r->tokens);
    for (uint32_t i = 1; i < r->points_count; i++)
        if (r->points[i].tier != LAC_TIER_NONE)
            probe_print(&r->points[i], out);
    if (!r->enough)
        lac_buf_printf(out, "too few for a certificate: %d requests and %d documents are needed\n",
                       LAC_CALIBRATE_REQUESTS_MIN, LAC_CALIBRATE_DOCUMENTS_MIN);
}

static void json_print(const lac_calibrate_result *r, bool certified, lac_buf *out)
{
    lac_buf_printf(out, "{\"certified\":%s,\"enough\":%s,\"requests\":%u,\"documents\":%u,",
                   certified ? "true" : "false", r->enough ? "true" : "false", r->requests,
                   r->documents);
    lac_buf_text(out, "\"points\":[");
    for (uint32_t i = 0; i < r->points_count; i++) {
        const lac_calibrate_point *p = &r->points[i];
        lac_buf_printf(out, "%s{\"mask\":\"", i ? "," : "");
        lac_mask_text(&p->mask, out);
        lac_buf_printf(out, "\",\"cost_saved\":%.6f,\"search_kl\":%.6f", p->cost_saved,
                       p->search_kl);
        if (p->measured)
            lac_buf_printf(out, ",\"kl\":%.6f,\"kl_upper\":%.6f,\"p95\":%.6f,\"top1\":%.6f",
                           p->kl.mean, p->kl.high, p->p95, p->top1.mean);
        if (p->tier != LAC_TIER_NONE)
            lac_buf_printf(out,
                           ",\"tier\":\"%s\",\"probe\":{\"kept\":%s,\"auc\":%.4f,\"tested\":%u}",
                           lac_tier_name(p->tier), p->probe_report.worth ? "true" : "false",
                           p->probe_report.auc, p->probe_report.tested);
        lac_buf_text(out, "}");
    }
    lac_buf_text(out, "]}\n");
}

static lac_status result_tell(const calibrate_options *opt, const lac_calibrate_result *result,
                              bool certified, lac_error *err)
{
    lac_buf out = {0};
    if (opt->json)
        json_print(result, certified, &out);
    else
        table_print(result, &out);
    if (!certified && !opt->json)
        lac_buf_printf(&out, "no mask certified for type %s at tier %s or stricter\n", opt->type,
                       opt->tier);
    lac_status status = lac_tool_print(&out, err);
    lac_buf_free(&out);
    return status;
}

/* ---- all of it ---- */

static lac_status options_make(const calibrate_options *opt, lac_calibrate_options *out,
                               lac_error *err)
{
    lac_input_type type;
    *out = (lac_calibrate_options){.model_path = opt->model,
                                   .threads = (uint32_t)opt->threads,
                                   .window = (uint32_t)opt->window,
                                   .fit_tokens = (uint32_t)opt->fit_tokens,
                                   .select_tokens = (uint32_t)opt->select_tokens,
                                   .requests_max = (uint32_t)opt->requests,
                                   .preselect = (uint32_t)opt->preselect,
                                   .candidates = (uint32_t)opt->candidates,
                                   .shortlist = (uint32_t)opt->shortlist,
                                   .units_max = (uint32_t)opt->units,
                                   .swaps = (uint32_t)opt->swaps,
                                   .patches = !opt->no_patches,
                                   .rank = (uint32_t)opt->rank,
                                   .rank_max = (uint32_t)opt->rank_max,
                                   .batch = opt->batch,
                                   .context = opt->context};
    if (!lac_input_type_parse(opt->type, &type))
        return lac_fail(err, LAC_EINVAL,
                        "--type is \"%.32s\", allowed structured, unstructured, hybrid, code",
                        opt->type);
    if (!lac_tier_parse(opt->tier, &out->tier))
        return lac_fail(err, LAC_EINVAL, "--tier is \"%.32s\", allowed gold, standard, economy",
                        opt->tier);
    if (!lac_isa_parse(opt->isa, &out->isa))
        return lac_fail(err, LAC_EINVAL, "--isa is \"%.16s\", allowed auto, scalar, avx2, avx512",
                        opt->isa);
    return LAC_OK;
}

static lac_status calibrate(const calibrate_options *opt, lac_calibrate_options *settings,
                            bool *certified, lac_error *err)
{
    lac_prompt_set calibration = {0}, holdout = {0};
    lac_calibrate_result *result = NULL;
    lac_model *model = NULL;
    char state[4096 + 8];
    bar b = {.begin_ns = lac_now_ns(), .terminal = isatty(STDERR_FILENO) == 1};
    snprintf(state, sizeof state, "%s.state", opt->out);
    lac_status status = lac_model_open(opt->model, &model, err);
    if (status == LAC_OK)
        status = inputs_read(opt, model, &calibration, &holdout, err);
    if (status == LAC_OK) {
        settings->calibration = &calibration;
        settings->holdout = &holdout;
        settings->state_path = state;
        settings->progress = progress;
        settings->progress_arg = &b;
        status = lac_calibrate(settings, &result, err);
        if (b.terminal)
            fprintf(stderr, "\r\033[K");
    }
    if (status == LAC_OK)
        status = plan_write(opt, model, result, &holdout, err);
    if (status == LAC_OK)
        status = curves_write(opt, model, result, err);
    if (status == LAC_OK) {
        for (int t = LAC_TIER_GOLD; t < LAC_TIERS; t++)
            *certified |= result->certified[t] > 0;
        (void)unlink(state);
        status = result_tell(opt, result, *certified, err);
    }
    lac_calibrate_result_free(&result);
    lac_prompts_free(&calibration);
    lac_prompts_free(&holdout);
    lac_model_close(&model);
    return status;
}

int lac_tool_calibrate(int argc, char **argv)
{
    calibrate_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.model[0] || !opt.type[0] || !opt.prompts[0] || !opt.holdout[0] || !opt.out[0])
        return lac_tool_misuse(&spec,
                               "--model, --type, --prompts, --holdout and --out are all needed");
    lac_error err = {0};
    lac_calibrate_options settings;
    if (options_make(&opt, &settings, &err) != LAC_OK)
        return lac_tool_misuse(&spec, "%s", err.text);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL); /* a second one ends at once */
    sigaction(SIGTERM, &action, NULL);
    bool certified = false;
    if (calibrate(&opt, &settings, &certified, &err) != LAC_OK)
        return lac_tool_fail(&spec, &err);
    return certified ? LAC_TOOL_OK : NOTHING_CERTIFIED;
}
