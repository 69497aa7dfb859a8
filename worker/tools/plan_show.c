/* Drawing plans. Pure: structs to text. Knows no option. */
#include "plan_show.h"

#include <stdio.h>

#include "base/text.h"

enum { MAP_COLUMNS = 64 }; /* layers a line of the terminal's map */

typedef enum { RUNS, PATCHED, ERASED } shown;

static shown state_of(const lac_plan_class *class, uint32_t unit, uint32_t *rank)
{
    for (uint32_t p = 0; p < class->patches_count; p++)
        if (class->patches[p].unit == unit) {
            *rank = class->patches[p].rank;
            return PATCHED;
        }
    return lac_mask_has(&class->mask, unit) ? ERASED : RUNS;
}

/* ---- table ---- */

static void serve_line(const lac_plan_serve *serve, lac_input_type type, lac_buf *out)
{
    const lac_certificate *c = &serve->certificate;
    lac_buf_printf(
        out, "  %-12s  %-8s  KL %.4f (bound %.4f), p95 %.4f, top-1 %.1f %%, cost saved %.1f %%\n",
        lac_input_type_name(type), lac_tier_name(serve->tier), c->kl_mean, c->kl_upper, c->kl_p95,
        100 * c->top1, 100 * c->cost_saved);
    lac_buf_printf(out,
                   "                          %u documents, %u requests, %llu tokens, %s, %s\n",
                   c->documents, c->requests, (unsigned long long)c->tokens, c->date, c->method);
    for (uint32_t i = 0; i < serve->checks_count; i++)
        lac_buf_printf(out,
                       "                          %s: %.4g, full %.4g (difference's bound %.4g)\n",
                       serve->checks[i].name, serve->checks[i].masked, serve->checks[i].full,
                       serve->checks[i].bound);
}

/* Lines of one kind of unit: a mark a layer, MAP_COLUMNS a line. */
static void map_lines(const lac_plan *plan, const lac_plan_class *class, uint32_t kind,
                      lac_buf *out)
{
    static const char *const marks[] = {"·", "▒", "█"};
    for (uint32_t l = 0; l < plan->layers; l++) {
        uint32_t rank;
        if (l % MAP_COLUMNS == 0)
            lac_buf_printf(out, "%s  %c%-4u ", l ? "\n" : "", kind ? 'F' : 'A', l);
        lac_buf_text(out, marks[state_of(class, 2 * l + kind, &rank)]);
    }
    lac_buf_text(out, "\n");
}

static void class_text(const lac_plan *plan, const lac_plan_class *class, lac_buf *out)
{
    char hint[LAC_HINT_LENGTH + 1];
    bool served = false;
    lac_class_hint(&class->digest, hint);
    lac_buf_printf(out, "\n%s  (scope %s, hint %s)\n  without %u of %u units: ", class->name,
                   lac_scope_name(class->scope), hint, lac_mask_count(&class->mask),
                   2 * plan->layers);
    lac_mask_text(&class->mask, out);
    for (uint32_t p = 0; p < class->patches_count; p++)
        lac_buf_printf(out, "%s%c%u rank %u", p ? ", " : "; patches ",
                       class->patches[p].unit % 2 ? 'F' : 'A', class->patches[p].unit / 2,
                       class->patches[p].rank);
    lac_buf_text(out, "\n");
    for (uint32_t t = 0; t < LAC_INPUT_TYPES; t++)
        if (class->serves[t].tier != LAC_TIER_NONE) {
            serve_line(&class->serves[t], (lac_input_type)t, out);
            served = true;
        }
    if (!served)
        lac_buf_text(out, "  certified for no input type: only by force\n");
    map_lines(plan, class, 0, out);
    map_lines(plan, class, 1, out);
    if (class->notes[0])
        lac_buf_printf(out, "  %s\n", class->notes);
}

void lac_tool_plan_table(const lac_plan *plan, lac_buf *out)
{
    char hex[65];
    lac_hex(plan->model_digest.bytes, sizeof plan->model_digest.bytes, hex);
    lac_buf_printf(out, "model         %s, %u layers, width %u\ndigest        %s\n",
                   plan->model_name, plan->layers, plan->hidden, hex);
    lac_buf_printf(out, "classes       %u beside full\n", plan->classes_count);
    for (uint32_t c = 0; c < plan->classes_count; c++)
        class_text(plan, &plan->classes[c], out);
    if (plan->classes_count > 0)
        lac_buf_text(out, "\n· runs   ▒ a patch instead   █ left out\n");
}

/* ---- SVG ---- */

enum { CELL = 14, LEFT = 160, TOP = 56, ROW = 18, GAP = 10 };

/* Text of the file in an XML document. */
static void xml(lac_buf *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': lac_buf_text(out, "&lt;"); break;
        case '>': lac_buf_text(out, "&gt;"); break;
        case '&': lac_buf_text(out, "&amp;"); break;
        default: lac_buf_add(out, text, 1);
        }
}

static void svg_text(lac_buf *out, uint32_t x, uint32_t y, const char *style, const char *text)
{
    lac_buf_printf(out, "<text x=\"%u\" y=\"%u\" %s>", x, y, style);
    xml(out, text);
    lac_buf_text(out, "</text>\n");
}

static void svg_row(const lac_plan *plan, const lac_plan_class *class, uint32_t kind, uint32_t y,
                    lac_buf *out)
{
    static const char *const fills[] = {"#e6e9ee", "#f0a030", "#b02020"};
    static const char *const says[] = {"runs", "a patch instead", "left out"};
    svg_text(out, LEFT - 8, y + CELL - 3, "text-anchor=\"end\" fill=\"#666\"",
             kind ? "FFN" : "attention");
    for (uint32_t l = 0; l < plan->layers; l++) {
        uint32_t rank = 0;
        shown state = state_of(class, 2 * l + kind, &rank);
        lac_buf_printf(out,
                       "<rect x=\"%u\" y=\"%u\" width=\"%d\" height=\"%d\" fill=\"%s\">"
                       "<title>%c%u: %s",
                       LEFT + l * CELL, y, CELL - 1, CELL - 1, fills[state], kind ? 'F' : 'A', l,
                       says[state]);
        if (state == PATCHED)
            lac_buf_printf(out, ", rank %u", rank);
        lac_buf_text(out, "</title></rect>\n");
    }
}

void lac_tool_plan_svg(const lac_plan *plan, lac_buf *out)
{
    uint32_t each = 3 * ROW + GAP, width = LEFT + plan->layers * CELL + 20,
             height = TOP + plan->classes_count * each + 20;
    char line[200];
    lac_buf_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
                   "font-family=\"sans-serif\" font-size=\"11\">\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                   width < 480 ? 480 : width, height);
    snprintf(line, sizeof line, "%s: %u layers, %u classes", plan->model_name, plan->layers,
             plan->classes_count);
    svg_text(out, 10, 20, "font-size=\"14\"", line);
    svg_text(out, 10, 36, "fill=\"#666\"", "grey runs, orange a patch instead, red left out");
    for (uint32_t l = 0; l < plan->layers; l += 5) {
        snprintf(line, sizeof line, "%u", l);
        svg_text(out, LEFT + l * CELL, TOP - 6, "fill=\"#666\"", line);
    }
    for (uint32_t c = 0; c < plan->classes_count; c++) {
        const lac_plan_class *class = &plan->classes[c];
        uint32_t y = TOP + c * each;
        svg_text(out, 10, y + ROW - 6, "font-weight=\"bold\"", class->name);
        svg_row(plan, class, 0, y + ROW, out);
        svg_row(plan, class, 1, y + 2 * ROW, out);
    }
    lac_buf_text(out, "</svg>\n");
}
