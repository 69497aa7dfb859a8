/* Logits of the engine against an independent float32 forward pass (make_golden.py): mean KL and
 * how often the most probable token is the same. Arguments: MODEL GOLDEN ISA KL_MAX TOP1_MIN
 * [MASK]. MODEL "default" is the default model, found as tests find it; without it the test is
 * skipped (77). With a mask the class runs beside full, so that the step itself leaves the units
 * out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/engine.h"

enum { SKIPPED = 77 };

typedef struct {
    uint32_t id;
    float logp;
} golden_entry;

typedef struct {
    uint32_t position;
    float rest;
} golden_row;

typedef struct {
    uint32_t tokens_count, rows_count, top;
    uint32_t *tokens;
    char *rows; /* rows_count × (golden_row, top × golden_entry) */
} golden_file;

typedef struct {
    const golden_file *golden;
    uint32_t vocab, next; /* rows met so far */
    uint32_t same;
    double kl, kl_max;
} comparison;

static void die(const char *what)
{
    fprintf(stderr, "test_logits: %s\n", what);
    exit(1);
}

static void golden_read(const char *path, golden_file *out)
{
    FILE *file = fopen(path, "rb");
    char magic[8];
    if (!file || fread(magic, 8, 1, file) != 1 || memcmp(magic, "LACGOLD1", 8) != 0 ||
        fread(out, 4, 3, file) != 3)
        die("no golden file");
    size_t row_bytes = sizeof(golden_row) + out->top * sizeof(golden_entry);
    out->tokens = malloc(out->tokens_count * sizeof(uint32_t));
    out->rows = malloc(out->rows_count * row_bytes);
    if (!out->tokens || !out->rows ||
        fread(out->tokens, 4, out->tokens_count, file) != out->tokens_count ||
        fread(out->rows, row_bytes, out->rows_count, file) != out->rows_count)
        die("the golden file is cut short");
    fclose(file);
}

static double log_total(const float *logits, uint32_t vocab)
{
    double top = logits[0], sum = 0;
    for (uint32_t i = 1; i < vocab; i++)
        top = logits[i] > top ? logits[i] : top;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(logits[i] - top);
    return top + log(sum);
}

/* KL(golden ‖ engine) over the listed tokens and, as one event, all the others. */
static void compare_row(void *arg, size_t index, const float *logits)
{
    comparison *c = arg;
    size_t row_bytes = sizeof(golden_row) + c->golden->top * sizeof(golden_entry);
    if (c->next == c->golden->rows_count)
        return;
    const char *at = c->golden->rows + c->next * row_bytes;
    golden_row row;
    memcpy(&row, at, sizeof(row));
    if (row.position != index)
        return;
    const golden_entry *entries = (const golden_entry *)(at + sizeof(golden_row));
    double total = log_total(logits, c->vocab), kl = 0, listed = 0;
    for (uint32_t i = 0; i < c->golden->top; i++) {
        double q = logits[entries[i].id] - total;
        kl += exp(entries[i].logp) * (entries[i].logp - q);
        listed += exp(q);
    }
    if (c->golden->top < c->vocab && listed < 1)
        kl += exp(row.rest) * (row.rest - log(1 - listed));
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    c->same += best == entries[0].id;
    c->kl += kl;
    c->kl_max = kl > c->kl_max ? kl : c->kl_max;
    c->next++;
}

/* A model's file, or NULL: what the environment variable names, else the file in the cache. */
static const char *real_model(const char *variable, const char *name, char *out, size_t size)
{
    const char *given = getenv(variable), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given && *given)
        snprintf(out, size, "%s", given);
    else if (cache && *cache)
        snprintf(out, size, "%s/lacuna/%s", cache, name);
    else
        snprintf(out, size, "%s/.cache/lacuna/%s", home ? home : "", name);
    if (access(out, R_OK) == 0)
        return out;
    printf("skipped: %s is not there (%s, or the cache folder)\n", name, variable);
    return NULL;
}

static const char *model_path(const char *model, char *out, size_t size)
{
    if (strcmp(model, "default") == 0)
        return real_model("LACUNA_TEST_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf", out, size);
    if (strcmp(model, "gemma") == 0)
        return real_model("LACUNA_TEST_GEMMA", "gemma-3-270m-q4_k_m.gguf", out, size);
    return model;
}

int main(int argc, char **argv)
{
    char path[4096];
    double kl_limit, same_limit;
    lac_engine_options options = {.slots = 1, .kv_bytes = 64 << 20};
    if (argc < 6 || argc > 7 || !lac_isa_parse(argv[3], &options.isa) ||
        !lac_parse_f64(argv[4], 0, 10, &kl_limit) || !lac_parse_f64(argv[5], 0, 1, &same_limit))
        die("usage: test_logits MODEL GOLDEN ISA KL_MAX TOP1_MIN [MASK]");
    lac_engine_class class = {.name = "masked"};
    if (argc == 7 && lac_mask_parse(argv[6], LAC_LAYERS_MAX, &class.mask, NULL) != LAC_OK)
        die("MASK is no mask");
    options.classes = &class;
    options.classes_count = argc == 7;
    options.model_path = model_path(argv[1], path, sizeof(path));
    if (!options.model_path)
        return SKIPPED;
    golden_file golden = {0};
    golden_read(argv[2], &golden);
    lac_error err = {0};
    lac_engine *engine = NULL;
    if (lac_engine_create(&options, &engine, &err) != LAC_OK)
        die(err.text);
    comparison c = {.golden = &golden, .vocab = lac_engine_model(engine)->vocab};
    if (lac_engine_score_as(engine, options.classes_count, golden.tokens, golden.tokens_count,
                            compare_row, &c, &err) != LAC_OK)
        die(err.text);
    if (c.next != golden.rows_count)
        die("the engine did not report every golden row");
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    double kl = c.kl / c.next, same = (double)c.same / c.next;
    printf("isa %s: %u rows, mean KL %.3g (limit %g), largest %.3g, top-1 equal %.4f (limit %g)\n",
           stats.isa, c.next, kl, kl_limit, c.kl_max, same, same_limit);
    lac_engine_destroy(&engine);
    free(golden.tokens);
    free(golden.rows);
    /* A KL far below zero is no KL: then the golden list and the logits do not belong together. */
    return kl > -1e-5 && kl <= kl_limit && same >= same_limit ? 0 : 1;
}
