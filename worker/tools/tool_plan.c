/* lacuna-engine plan: checks a plan with its patches and shows what it holds. Main thread. Knows no
 * engine. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "plan_show.h"
#include "tools.h"

typedef struct {
    char plan[4096], model[4096], svg[4096];
} plan_options;

#define OPTION(field, text, line)                                                                  \
    {                                                                                              \
        .name = text, .type = LAC_OPT_STRING, .offset = offsetof(plan_options, field),             \
        .size = sizeof(((plan_options *)0)->field), .value = "FILE", .help = line                  \
    }
static const lac_option options[] = {
    OPTION(plan, "plan", "the plan; its patches lie beside it"),
    OPTION(model, "model", "also check that it was made for this GGUF file"),
    OPTION(svg, "svg", "write the map of units as a picture"),
};

static const lac_tool_spec spec = {
    .name = "plan",
    .synopsis = "--plan FILE [--model FILE] [--svg FILE]",
    .help =
        "Checks a plan and prints its classes: which units each leaves out, the patches in their\n"
        "place, and what was measured for the input types it serves.",
    .options = options,
    .options_count = sizeof options / sizeof options[0],
};

static lac_status write_svg(const lac_plan *plan, const char *path, lac_error *err)
{
    lac_buf out = {0};
    lac_tool_plan_svg(plan, &out);
    FILE *file = fopen(path, "wb");
    bool failed = !file || fwrite(out.data, 1, out.length, file) != out.length;
    failed |= file && fclose(file) != 0;
    lac_buf_free(&out);
    return failed ? lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno)) : LAC_OK;
}

int lac_tool_plan(int argc, char **argv)
{
    plan_options opt;
    int code = lac_tool_options(&spec, argc, argv, &opt);
    if (code >= 0)
        return code;
    if (!opt.plan[0])
        return lac_tool_misuse(&spec, "--plan FILE is needed");
    lac_error err = {0};
    lac_model *model = NULL;
    lac_plan *plan = NULL;
    lac_buf out = {0};
    lac_status status = LAC_OK;
    if (opt.model[0])
        status = lac_model_open(opt.model, &model, &err);
    if (status == LAC_OK)
        status = lac_plan_load(opt.plan, model, &plan, &err);
    if (status == LAC_OK && opt.svg[0])
        status = write_svg(plan, opt.svg, &err);
    if (status == LAC_OK) {
        lac_tool_plan_table(plan, &out);
        status = lac_tool_print(&out, &err);
    }
    lac_buf_free(&out);
    lac_plan_destroy(&plan);
    lac_model_close(&model);
    return status == LAC_OK ? LAC_TOOL_OK : lac_tool_fail(&spec, &err);
}
