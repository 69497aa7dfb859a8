/* The curve of a calibration as a table and as a picture. Pure. Must not know how it came about. */
#include <math.h>

#include "calibrate/calibrate.h"

void lac_calibrate_csv(const lac_calibrate_result *result, lac_buf *out)
{
    lac_buf_text(out, "units,mask,cost_saved,search_kl,search_top1,holdout_kl,holdout_kl_upper,"
                      "holdout_kl_p95,holdout_top1,tier");
    for (int k = 0; k < LAC_KINDS; k++)
        lac_buf_printf(out, ",kl_%s", lac_token_kind_name((lac_token_kind)k));
    lac_buf_text(out, "\n");
    for (uint32_t i = 0; i < result->points_count; i++) {
        const lac_calibrate_point *p = &result->points[i];
        const char *tier = lac_tier_name(p->tier);
        lac_buf_printf(out, "%u,\"", lac_mask_count(&p->mask));
        lac_mask_text(&p->mask, out);
        lac_buf_printf(out, "\",%.6f,%.6f,%.6f,", p->cost_saved, p->search_kl, p->search_top1);
        if (p->measured)
            lac_buf_printf(out, "%.6f,%.6f,%.6f,%.6f,%s", p->kl.mean, p->kl.high, p->p95,
                           p->top1.mean, p->tier == LAC_TIER_NONE ? "" : tier);
        else
            lac_buf_text(out, ",,,,");
        for (int k = 0; k < LAC_KINDS; k++)
            if (p->measured)
                lac_buf_printf(out, ",%.6f", p->kind_kl[k]);
            else
                lac_buf_text(out, ",");
        lac_buf_text(out, "\n");
    }
}

/* ---- picture ---- */

enum { WIDTH = 720, HEIGHT = 440, LEFT = 70, RIGHT = 24, TOP = 44, BOTTOM = 56 };

/* KL runs over decades, so its axis is logarithmic. */
#define KL_LEAST 0.001

typedef struct {
    double cost_max, kl_max;
} frame;

static double x_of(const frame *f, double cost)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (cost < 0 ? 0 : cost) / f->cost_max;
}

static double y_of(const frame *f, double kl)
{
    double at = log((kl > KL_LEAST ? kl : KL_LEAST) / KL_LEAST) / log(f->kl_max / KL_LEAST);
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * at;
}

static void escaped(const char *text, lac_buf *out)
{
    for (; *text; text++)
        if (*text == '<' || *text == '&' || *text == '"')
            lac_buf_printf(out, "&#%d;", *text);
        else
            lac_buf_add(out, text, 1);
}

static void axes(const frame *f, const char *title, lac_buf *out)
{
    lac_buf_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                   "font-family=\"sans-serif\" font-size=\"12\">\n"
                   "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
                   "<text x=\"%d\" y=\"24\" font-size=\"15\">",
                   WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    escaped(title, out);
    lac_buf_printf(out, "</text>\n<text x=\"%d\" y=\"%d\">cost left out, percent</text>\n", LEFT,
                   HEIGHT - 14);
    lac_buf_printf(
        out, "<text transform=\"translate(16 %d) rotate(-90)\">mean KL to full, nats</text>\n",
        HEIGHT - BOTTOM);
    for (int i = 0; i <= 4; i++) {
        double cost = f->cost_max * i / 4;
        lac_buf_printf(
            out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\">%.1f</text>\n",
            x_of(f, cost), HEIGHT - BOTTOM + 18, 100 * cost);
    }
    for (lac_tier tier = LAC_TIER_GOLD; tier < LAC_TIERS; tier++) {
        double y = y_of(f, lac_tier_kl_max(tier));
        if (lac_tier_kl_max(tier) > f->kl_max)
            continue;
        lac_buf_printf(out,
                       "<path d=\"M%d %.1fH%d\" stroke=\"#bbb\" stroke-dasharray=\"4 3\"/>\n"
                       "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%g</text>\n"
                       "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n",
                       LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, lac_tier_kl_max(tier),
                       WIDTH - RIGHT, y - 4, lac_tier_name(tier));
    }
}

/* Hold-out: the mean as a dot, a stroke up to the bound. */
static void points(const frame *f, const lac_calibrate_result *result, lac_buf *out)
{
    for (uint32_t i = 1; i < result->points_count; i++) {
        const lac_calibrate_point *p = &result->points[i];
        double x = x_of(f, p->cost_saved);
        lac_buf_printf(
            out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"none\" stroke=\"#37c\"><title>",
            x, y_of(f, p->search_kl));
        lac_mask_text(&p->mask, out);
        lac_buf_text(out, "</title></circle>\n");
        if (p->measured)
            lac_buf_printf(out,
                           "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#c33\"/>\n"
                           "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"#c33\"/>\n",
                           x, y_of(f, p->kl.mean), y_of(f, p->kl.high), x, y_of(f, p->kl.mean),
                           p->tier == LAC_TIER_NONE ? 3 : 6);
    }
    lac_buf_printf(out,
                   "<text x=\"%d\" y=\"%d\" fill=\"#37c\">○ search</text>\n"
                   "<text x=\"%d\" y=\"%d\" fill=\"#c33\">● hold-out with its bound; large: "
                   "certified</text>\n</svg>\n",
                   LEFT + 250, HEIGHT - 14, LEFT + 330, HEIGHT - 14);
}

void lac_calibrate_svg(const lac_calibrate_result *result, const char *title, lac_buf *out)
{
    frame f = {.cost_max = 0.01, .kl_max = 0.12};
    for (uint32_t i = 0; i < result->points_count; i++) {
        const lac_calibrate_point *p = &result->points[i];
        f.cost_max = p->cost_saved * 1.05 > f.cost_max ? p->cost_saved * 1.05 : f.cost_max;
        f.kl_max = p->search_kl * 1.2 > f.kl_max ? p->search_kl * 1.2 : f.kl_max;
        f.kl_max = p->measured && p->kl.high * 1.2 > f.kl_max ? p->kl.high * 1.2 : f.kl_max;
    }
    axes(&f, title, out);
    points(&f, result, out);
}
