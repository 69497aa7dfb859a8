/* Classes of an engine: which units are zero, which nobody runs, what each class owns and costs,
 * and the row lists of a step. The engine's thread. Must not know how a class was chosen, nor
 * sequences. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "erasure/state.h"
#include "parts.h"

static uint32_t units_of(const lac_engine *e)
{
    return 2 * e->model->layers_count;
}

/* ---- which units run ---- */

static lac_status zeroed_find(lac_engine *e, lac_error *err)
{
    lac_mask claimed;
    lac_status status = lac_model_claimed_zero(e->model, &claimed, err);
    for (uint32_t u = 0; u < units_of(e) && status == LAC_OK; u++) {
        lac_unit_facts facts;
        lac_model_unit_facts(e->model, u, &facts);
        if (lac_unit_judge(&facts) == LAC_UNIT_ZEROED)
            lac_mask_set(&e->zeroed, u);
        else if (lac_mask_has(&claimed, u))
            status =
                lac_fail(err, LAC_ECORRUPT,
                         "key " LAC_MODEL_ZERO_KEY " names unit %c%u, whose bytes are not zero",
                         u % 2 ? 'F' : 'A', u / 2);
    }
    return status;
}

static lac_status class_check(const lac_engine *e, const lac_engine_class *class, lac_error *err)
{
    if (!class->name || !*class->name || strlen(class->name) > LAC_NAME_MAX)
        return lac_fail(err, LAC_EINVAL, "class name is \"%.80s\", allowed 1..%d bytes",
                        class->name ? class->name : "", LAC_NAME_MAX);
    for (uint32_t c = 0; c < e->classes_count; c++)
        if (strcmp(e->classes[c].name, class->name) == 0)
            return lac_fail(err, LAC_EINVAL, "class name \"%s\" is taken", class->name);
    for (uint32_t u = units_of(e); u < LAC_UNITS_MAX; u++)
        if (lac_mask_has(&class->mask, u))
            return lac_fail(err, LAC_EINVAL, "class %s erases unit %c%u, the model has %u layers",
                            class->name, u % 2 ? 'F' : 'A', u / 2, e->model->layers_count);
    if ((unsigned)class->scope >= LAC_SCOPES)
        return lac_fail(err, LAC_EINVAL, "class %s: scope is %d, allowed 0..%d", class->name,
                        (int)class->scope, LAC_SCOPES - 1);
    if (class->probe && !lac_probe_valid(class->probe))
        return lac_fail(err, LAC_EINVAL, "class %s: its probe has a number that is not allowed",
                        class->name);
    uint32_t hidden = e->model->hidden;
    for (uint32_t p = 0; p < class->patches_count; p++) {
        const lac_patch *patch = &class->patches[p];
        if (patch->unit >= units_of(e) || !lac_mask_has(&class->mask, patch->unit) ||
            (p > 0 && class->patches[p - 1].unit >= patch->unit))
            return lac_fail(err, LAC_EINVAL,
                            "class %s: patch %u is of unit %c%u, which the class does not erase or "
                            "patches already",
                            class->name, p, patch->unit % 2 ? 'F' : 'A', patch->unit / 2);
        if (patch->rank < 2 || patch->rank > hidden || !patch->up ||
            !patch->down != (patch->rank == hidden))
            return lac_fail(err, LAC_EINVAL, "class %s: rank of patch %u is %u, allowed 2..%u",
                            class->name, p, patch->rank, hidden);
    }
    return LAC_OK;
}

static void class_add(lac_engine *e, const lac_engine_class *from, bool live)
{
    lac__class *class = &e->classes[e->classes_count++];
    memcpy(class->name, from->name, strlen(from->name) + 1);
    class->mask = from->mask;
    class->scope = from->scope;
    class->patches = from->patches;
    class->patches_count = from->patches_count;
    for (uint32_t p = 0; p < from->patches_count; p++)
        lac_mask_set(&class->patched, from->patches[p].unit);
    class->live = live;
    /* It was trained on the full model's states. */
    class->has_probe = from->probe && e->model->layers_count >= LAC_PROBE_LAYERS;
    for (uint32_t u = 0; class->has_probe && u < 2 * LAC_PROBE_LAYERS; u++)
        class->has_probe = !lac_mask_has(&class->mask, u);
    if (class->has_probe)
        class->probe = *from->probe;
}

/* Equal units left out and equal patches compute equal bits, whatever the classes are called. */
static void computed_as(const lac_engine *e, lac__class *class)
{
    lac_hasher *hasher = lac_hasher_create();
    lac_hasher_add(hasher, &class->erased, sizeof class->erased);
    for (uint32_t p = 0; p < class->patches_count; p++) {
        const lac_patch *patch = &class->patches[p];
        size_t bytes = (size_t)patch->rank * e->model->hidden * sizeof *patch->up;
        lac_hasher_add(hasher, &patch->unit, sizeof patch->unit);
        lac_hasher_add(hasher, &patch->rank, sizeof patch->rank);
        if (patch->down)
            lac_hasher_add(hasher, patch->down, bytes);
        lac_hasher_add(hasher, patch->up, bytes);
    }
    lac_hasher_finish(&hasher, &class->computed_as);
}

/* A unit that adds nothing has no shape or is provably zero. */
static bool adds_nothing(const lac_engine *e, uint32_t unit, bool keep_zeroed)
{
    const lac_layer *layer = &e->model->layers[unit / 2];
    return (unit % 2 ? layer->ffn : layer->heads) == 0 ||
           (lac_mask_has(&e->zeroed, unit) && !keep_zeroed);
}

/* Every live class leaves it out, prompts included. */
static bool nobody_runs(const lac_engine *e, uint32_t unit)
{
    bool all = true;
    for (uint32_t c = 0; c < e->classes_count; c++) {
        const lac__class *class = &e->classes[c];
        all &=
            !class->live || (class->scope == LAC_SCOPE_REQUEST && lac_mask_has(&class->mask, unit));
    }
    return all;
}

lac_status lac__classes_find(lac_engine *e, const lac_engine_options *o, lac_error *err)
{
    static const lac_engine_class full = {.name = "full"};
    lac_status status = zeroed_find(e, err);
    if (status != LAC_OK)
        return status;
    if (o->classes_count >= LAC_CLASSES_MAX)
        return lac_fail(err, LAC_EINVAL, "classes_count is %u, allowed 0..%d", o->classes_count,
                        LAC_CLASSES_MAX - 1);
    if (o->without_full && o->classes_count == 0)
        return lac_fail(err, LAC_EINVAL, "without_full needs a class, classes_count is 0");
    class_add(e, &full, !o->without_full);
    for (uint32_t c = 0; c < o->classes_count; c++) {
        status = class_check(e, &o->classes[c], err);
        if (status != LAC_OK)
            return status;
        class_add(e, &o->classes[c], true);
    }
    e->records = lac_alloc(units_of(e) + 1, sizeof *e->records);
    e->full_runs = true;
    for (uint32_t u = 0; u < units_of(e); u++) {
        bool nothing = adds_nothing(e, u, o->keep_zeroed);
        if (!nothing && !nobody_runs(e, u))
            continue;
        e->full_runs &= nothing;
        lac_mask_set(&e->dropped, u);
        e->records[u] = lac_model_unit_record(e->model, u);
        lac_model_unit_release(e->model, u);
    }
    for (uint32_t c = 0; c < e->classes_count; c++) {
        lac__class *class = &e->classes[c];
        for (size_t i = 0; i < LAC_UNITS_MAX / 64; i++)
            class->erased.bits[i] = class->mask.bits[i] | e->dropped.bits[i];
        computed_as(e, class);
    }
    return LAC_OK;
}

/* ---- what a class owns and costs ---- */

/* Bytes that a row reads of a unit: of experts, those it runs. */
static double unit_cost(const lac_model *m, uint32_t unit)
{
    const lac_layer *layer = &m->layers[unit / 2];
    double bytes = (double)lac_model_unit_bytes(m, unit);
    return unit % 2 && layer->experts ? bytes * layer->experts_used / layer->experts : bytes;
}

static lac_status price_make(const lac_engine *e, lac__class *class, lac_error *err)
{
    const lac_model *m = e->model;
    lac_layer_shape *layers = lac_alloc(m->layers_count, sizeof *layers);
    for (uint32_t l = 0; l < m->layers_count; l++)
        layers[l] = (lac_layer_shape){.heads = m->layers[l].heads,
                                      .kv_heads = m->layers[l].kv_heads,
                                      .ffn = m->layers[l].ffn,
                                      .experts = m->layers[l].experts,
                                      .experts_used = m->layers[l].experts_used,
                                      .window = m->layers[l].window,
                                      .attention_cost = unit_cost(m, 2 * l),
                                      .ffn_cost = unit_cost(m, 2 * l + 1)};
    lac_model_shape shape = {.layers_count = m->layers_count,
                             .hidden = m->hidden,
                             .head_dim = m->head_dim,
                             .vocab = m->vocab,
                             .layers = layers};
    bool made = lac_class_price_make(&shape, &class->erased, &class->price);
    free(layers);
    for (uint32_t p = 0; p < class->patches_count && made; p++) {
        uint32_t rank = class->patches[p].rank;
        double bytes = (rank == m->hidden ? 1.0 : 2.0) * rank * m->hidden * sizeof(uint16_t);
        lac_class_price_patch(&class->price, m->hidden, rank, bytes);
    }
    return made ? LAC_OK
                : lac_fail(err, LAC_EUNSUPPORTED, "more than %d different attention windows",
                           LAC_ACCOUNT_WINDOWS_MAX);
}

/* What people see of it. All weights but the units' are read by every row. */
static void facts_make(const lac_engine *e, lac__class *class)
{
    lac_buf text = {.cap = LAC_MASK_TEXT_MAX + 1};
    lac_mask_text(&class->mask, &text);
    class->mask_text = lac_strndup(text.data ? text.data : "", text.length);
    lac_buf_free(&text);
    double all = 0, units = 0, erased = 0;
    for (uint32_t u = 0; u < units_of(e); u++) {
        double bytes = (double)lac_model_unit_bytes(e->model, u);
        units += bytes;
        erased += lac_mask_has(&class->erased, u) ? bytes : 0;
    }
    all = units + (double)e->model->head->bytes;
    class->cost = all > 0 ? (all - erased) / all : 1;
}

lac_status lac__classes_size(lac_engine *e, lac_error *err)
{
    const lac__kv_layout *layout = &e->layout;
    lac_mask masks[LAC_CLASSES_MAX];
    bool some_skip = false, some_patch = false;
    for (uint32_t c = 0; c < e->classes_count; c++) {
        lac__class *class = &e->classes[c];
        class->kept = lac_alloc(layout->units_count + 1, sizeof *class->kept);
        for (uint32_t a = 0; a < layout->units_count; a++)
            class->kept[a] = !lac_mask_has(&class->erased, layout->unit_of[a]);
        lac_kv_block_cost(e->pool, class->kept, class->block_cost, class->block_windowed);
        class->pool_tokens = lac_kv_tokens_max(e->pool, class->kept);
        lac_status status = price_make(e, class, err);
        if (status != LAC_OK)
            return status;
        facts_make(e, class);
        masks[c] = class->erased;
        some_skip |= class->live && !lac_mask_equal(&class->erased, &e->dropped);
        some_patch |= class->patches_count > 0;
    }
    if (some_patch) {
        e->step.row_numbers = lac_alloc(e->rows_max, sizeof *e->step.row_numbers);
        for (uint32_t i = 0; i < e->rows_max; i++)
            e->step.row_numbers[i] = i;
    }
    if (some_skip) {
        e->rows = lac_unit_rows_create(units_of(e), masks, e->classes_count, e->rows_max);
        e->step.unit_rows = lac_alloc(units_of(e), sizeof *e->step.unit_rows);
    }
    return LAC_OK;
}

void lac__classes_free(lac_engine *e)
{
    for (uint32_t c = 0; c < e->classes_count; c++) {
        free(e->classes[c].kept);
        free(e->classes[c].mask_text);
    }
    lac_unit_rows_destroy(&e->rows);
    free(e->step.unit_rows);
    free(e->step.row_numbers);
    free(e->records);
}

lac_status lac__class_check(const lac_engine *e, uint32_t class_index, lac_error *err)
{
    if (class_index >= e->classes_count)
        return lac_fail(err, LAC_EINVAL, "class_index is %u, allowed 0..%u", class_index,
                        e->classes_count - 1);
    if (!e->classes[class_index].live)
        return lac_fail(err, LAC_EREFUSED, "class %s is not live in this engine",
                        e->classes[class_index].name);
    return LAC_OK;
}

uint32_t lac__class_from(const lac_engine *e, uint32_t class_index, uint32_t class_from,
                         uint32_t prompt_count)
{
    if (class_index == 0)
        return 0;
    return e->classes[class_index].scope == LAC_SCOPE_DECODE ? prompt_count : class_from;
}

uint32_t lac__class_tokens_max(const lac_engine *e, uint32_t class_index, uint32_t class_from)
{
    uint32_t pool = e->classes[class_from > 0 ? 0 : class_index].pool_tokens;
    return e->context_max < pool ? e->context_max : pool;
}

/* ---- a class that holds from a position on ---- */

uint32_t lac__class_now(const lac__sequence *s)
{
    return s->computed < s->class_from ? 0 : s->class_index;
}

void lac__class_narrow(lac_engine *e, lac__sequence *s)
{
    if (s->narrowed || s->class_from == 0 || s->computed < s->class_from)
        return;
    LAC_ASSERT(s->computed == s->class_from);
    lac_kv_narrow(e->pool, s->kv, e->classes[s->class_index].kept);
    s->narrowed = true;
}

/* ---- a step ---- */

void lac__classes_batch(lac_engine *e, const uint32_t class_rows[LAC_CLASSES_MAX], lac_batch *batch)
{
    bool skips = false;
    memcpy(e->step.class_rows, class_rows, sizeof e->step.class_rows);
    for (uint32_t c = 0; c < e->classes_count; c++)
        skips |= class_rows[c] > 0 && !lac_mask_equal(&e->classes[c].erased, &e->dropped);
    batch->unit_rows = NULL;
    batch->patch_rows = NULL;
    for (uint32_t c = 0, first = 0; c < e->classes_count; first += class_rows[c++]) {
        bool patched = class_rows[c] > 0 && e->classes[c].patches_count > 0;
        e->step.patch_rows[c] = (lac_row_list){patched ? class_rows[c] : 0,
                                               patched ? e->step.row_numbers + first : NULL};
        if (patched)
            batch->patch_rows = e->step.patch_rows;
    }
    if (!skips)
        return;
    lac_unit_rows_fill(e->rows, class_rows);
    for (uint32_t u = 0; u < units_of(e); u++) {
        lac_row_list *list = &e->step.unit_rows[u];
        list->rows = lac_unit_rows_of(e->rows, u, &list->count);
    }
    batch->unit_rows = e->step.unit_rows;
}

uint32_t lac__classes_active_layers(const lac_engine *e, uint32_t present)
{
    uint32_t active = 0;
    for (uint32_t l = 0; l < e->model->layers_count; l++) {
        bool runs = false;
        for (uint32_t c = 0; c < e->classes_count; c++)
            runs |= (present >> c & 1) && !(lac_mask_has(&e->classes[c].erased, 2 * l) &&
                                            lac_mask_has(&e->classes[c].erased, 2 * l + 1));
        active += runs;
    }
    return active;
}

/* ---- what others may read ---- */

bool lac_engine_class_find(const lac_engine *engine, const char *name, uint32_t *index)
{
    for (uint32_t c = 0; c < engine->classes_count; c++)
        if (strcmp(engine->classes[c].name, name) == 0) {
            *index = c;
            return true;
        }
    return false;
}

bool lac_engine_class_read(const lac_engine *engine, uint32_t index, lac_engine_class_facts *out)
{
    if (index >= engine->classes_count)
        return false;
    const lac__class *class = &engine->classes[index];
    const lac_class_price *price = &class->price;
    *out = (lac_engine_class_facts){
        .name = class->name,
        .mask = class->mask_text,
        .live = class->live,
        .active_layers = price->active_layers,
        .skip_rate = price->units_count ? (double)price->units_erased / price->units_count : 0,
        .cost_skip_rate = price->cost > 0 ? price->cost_erased / price->cost : 0,
        .cost = class->cost / engine->classes[0].cost,
        .requests = class->requests,
        .tokens = class->tokens};
    return true;
}

lac_unit_state lac_engine_unit(const lac_engine *engine, uint32_t unit, lac_unit_record *record)
{
    LAC_ASSERT(unit < units_of(engine));
    if (!lac_mask_has(&engine->dropped, unit))
        return lac_mask_has(&engine->zeroed, unit) ? LAC_UNIT_ZEROED : LAC_UNIT_ACTIVE;
    if (record)
        *record = engine->records[unit];
    return LAC_UNIT_ERASED;
}
