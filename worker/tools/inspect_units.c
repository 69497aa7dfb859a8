/* Units in inspect: states, gates, difference. Main thread. Knows no option. */
#include "inspect_units.h"

#include <stdlib.h>

#include "erasure/state.h"

/* Of the median of the units of the same kind. */
#define NEAR_ZERO 1e-3

static char kind_of(uint32_t unit)
{
    return unit % 2 ? 'F' : 'A';
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void near_zero_find(lac_tool_units *u)
{
    double *bounds = lac_alloc(u->units_count, sizeof *bounds);
    for (uint32_t kind = 0; kind < 2; kind++) {
        size_t count = 0;
        for (uint32_t i = kind; i < u->units_count; i += 2)
            if (u->units[i].state == LAC_UNIT_ACTIVE)
                bounds[count++] = u->units[i].bound;
        qsort(bounds, count, sizeof *bounds, compare_doubles);
        for (uint32_t i = kind; i < u->units_count && count > 0; i += 2)
            u->units[i].near_zero = u->units[i].state == LAC_UNIT_ACTIVE &&
                                    u->units[i].bound < NEAR_ZERO * bounds[count / 2];
    }
    free(bounds);
}

lac_status lac_tool_units_read(const lac_model *model, bool near_zero, lac_tool_units *out,
                               lac_error *err)
{
    lac_mask claimed;
    lac_tool_units u = {.units_count = 2 * model->layers_count, .near_read = near_zero};
    lac_status status = lac_model_claimed_zero(model, &claimed, err);
    if (status != LAC_OK)
        return status;
    u.units = lac_alloc(u.units_count, sizeof *u.units);
    for (uint32_t i = 0; i < u.units_count; i++) {
        lac_unit_facts facts;
        lac_tool_unit *unit = &u.units[i];
        lac_model_unit_facts(model, i, &facts);
        unit->state = lac_unit_judge(&facts);
        unit->bytes = lac_model_unit_bytes(model, i);
        unit->bound = near_zero ? lac_model_unit_bound(model, i) : -1;
        if (unit->state != LAC_UNIT_ACTIVE)
            unit->record = lac_model_unit_record(model, i);
        else if (lac_mask_has(&claimed, i)) {
            free(u.units);
            return lac_fail(err, LAC_ECORRUPT,
                            "key " LAC_MODEL_ZERO_KEY " names unit %c%u, whose bytes are not zero",
                            kind_of(i), i / 2);
        }
        u.active += unit->state == LAC_UNIT_ACTIVE;
        u.zeroed += unit->state == LAC_UNIT_ZEROED;
        u.erased += unit->state == LAC_UNIT_ERASED;
    }
    u.sparsity = (double)(u.zeroed + u.erased) / u.units_count;
    if (near_zero)
        near_zero_find(&u);
    *out = u;
    return LAC_OK;
}

void lac_tool_units_free(lac_tool_units *units)
{
    free(units->units);
    *units = (lac_tool_units){0};
}

/* ---- gates ---- */

lac_status lac_tool_units_gate(const lac_tool_units *u, double least, lac_error *err)
{
    if (u->sparsity >= least)
        return LAC_OK;
    return lac_fail(err, LAC_EREFUSED, "sparsity is %.4f (%u of %u units), --min-sparsity is %g",
                    u->sparsity, u->zeroed + u->erased, u->units_count, least);
}

static uint32_t common(const lac_tool_units *a, const lac_tool_units *b)
{
    return a->units_count < b->units_count ? a->units_count : b->units_count;
}

static bool came_alive(const lac_tool_units *u, const lac_tool_units *old, uint32_t i)
{
    return u->units[i].state == LAC_UNIT_ACTIVE && old->units[i].state != LAC_UNIT_ACTIVE;
}

lac_status lac_tool_units_against(const lac_tool_units *u, const lac_tool_units *old,
                                  const char *old_path, lac_error *err)
{
    lac_buf names = {.cap = 160}; /* what an error line has room for */
    uint32_t alive = 0;
    for (uint32_t i = 0; i < common(u, old); i++)
        if (came_alive(u, old, i))
            lac_buf_printf(&names, "%s%c%u", alive++ ? "," : "", kind_of(i), i / 2);
    lac_status status = LAC_OK;
    if (alive > 0)
        status =
            lac_fail(err, LAC_EREFUSED, "%u units are active that were not in %.80s: %s%s", alive,
                     old_path, names.data ? names.data : "", names.overflow ? ",…" : "");
    lac_buf_free(&names);
    return status;
}

/* ---- output ---- */

void lac_tool_units_json(const lac_tool_units *u, const lac_tool_units *old, lac_buf *out)
{
    lac_buf_printf(out,
                   "\"unit_states\":{\"active\":%u,\"zeroed\":%u,\"erased\":%u,"
                   "\"sparsity\":%.6f},\"unit_list\":[",
                   u->active, u->zeroed, u->erased, u->sparsity);
    for (uint32_t i = 0; i < u->units_count; i++) {
        const lac_tool_unit *unit = &u->units[i];
        lac_buf_printf(out, "%s{\"unit\":\"%c%u\",\"state\":\"%s\",\"bytes\":%llu", i ? "," : "",
                       kind_of(i), i / 2, lac_unit_state_name(unit->state),
                       (unsigned long long)unit->bytes);
        if (unit->state != LAC_UNIT_ACTIVE)
            lac_buf_printf(out, ",\"offset\":%llu,\"hash\":\"%08x\"",
                           (unsigned long long)unit->record.offset, unit->record.hash);
        if (u->near_read)
            lac_buf_printf(out, ",\"bound\":%.6g,\"near_zero\":%s", unit->bound,
                           unit->near_zero ? "true" : "false");
        lac_buf_text(out, "}");
    }
    lac_buf_text(out, "]");
    if (!old)
        return;
    lac_buf_text(out, ",\"changes\":[");
    for (uint32_t i = 0, n = 0; i < common(u, old); i++)
        if (u->units[i].state != old->units[i].state)
            lac_buf_printf(out, "%s{\"unit\":\"%c%u\",\"was\":\"%s\",\"is\":\"%s\"}",
                           n++ ? "," : "", kind_of(i), i / 2,
                           lac_unit_state_name(old->units[i].state),
                           lac_unit_state_name(u->units[i].state));
    lac_buf_printf(out, "],\"units_before\":%u", old->units_count);
}

static void table_row(const lac_tool_units *u, uint32_t i, lac_buf *out)
{
    const lac_tool_unit *unit = &u->units[i];
    lac_buf_printf(out, "              %c%-5u %-7s %12llu bytes", kind_of(i), i / 2,
                   lac_unit_state_name(unit->state), (unsigned long long)unit->bytes);
    if (unit->state != LAC_UNIT_ACTIVE)
        lac_buf_printf(out, "  at %llu, hash %08x", (unsigned long long)unit->record.offset,
                       unit->record.hash);
    if (u->near_read)
        lac_buf_printf(out, "  bound %.4g%s", unit->bound,
                       unit->near_zero ? " (near zero: only a report)" : "");
    lac_buf_text(out, "\n");
}

void lac_tool_units_table(const lac_tool_units *u, const lac_tool_units *old, bool all,
                          lac_buf *out)
{
    lac_buf_printf(out, "units         %u active, %u zeroed, %u erased (sparsity %.4f)\n",
                   u->active, u->zeroed, u->erased, u->sparsity);
    for (uint32_t i = 0; i < u->units_count; i++)
        if (all || u->units[i].state != LAC_UNIT_ACTIVE || u->units[i].near_zero)
            table_row(u, i, out);
    if (!old)
        return;
    uint32_t changes = 0;
    for (uint32_t i = 0; i < common(u, old); i++)
        if (u->units[i].state != old->units[i].state)
            lac_buf_printf(out, "%s%c%-5u %s → %s\n",
                           changes++ ? "              " : "changes       ", kind_of(i), i / 2,
                           lac_unit_state_name(old->units[i].state),
                           lac_unit_state_name(u->units[i].state));
    if (changes == 0)
        lac_buf_text(out, "changes       none\n");
    if (u->units_count != old->units_count)
        lac_buf_printf(out, "              %u units, before %u\n", u->units_count,
                       old->units_count);
}
