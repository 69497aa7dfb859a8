/* lacuna plan: the classes that the coordinator knows, as its workers announced them. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000 };

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value && *value ? value : "-";
}

static double real(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void print_class(const json_t *class)
{
    printf("%-16s %-24s %6lld %7.1f%% %7.1f%% %6.3f %8lld  %s%s\n", text(class, "name"),
           text(class, "model"), (long long)json_integer_value(json_object_get(class, "groups")),
           100 * real(class, "skip_rate"), 100 * real(class, "cost_skip_rate"), real(class, "cost"),
           (long long)json_integer_value(json_object_get(class, "requests")), text(class, "mask"),
           json_is_true(json_object_get(class, "forced")) ? " (forced)" : "");
    const char *type;
    json_t *serve;
    json_object_foreach(json_object_get(class, "serves"), type, serve)
    {
        printf("    %-12s tier %-8s mean KL %.4f, at most %.4f; guard %s, evidence %.3g after "
               "%lld scores\n",
               type, text(serve, "tier"), real(serve, "kl_mean"), real(serve, "kl_upper"),
               text(serve, "guard"), real(serve, "evidence"),
               (long long)json_integer_value(json_object_get(serve, "shadows")));
    }
    printf("    scope %s, hint %s\n", text(class, "scope"), text(class, "hint"));
}

static int print_plan(const char *answer)
{
    json_t *plan = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
    if (!plan) {
        fprintf(stderr, "lacuna plan: the coordinator's answer is no JSON\n");
        return CLI_FAILED;
    }
    const json_t *classes = json_object_get(plan, "classes");
    printf("tier %s and better", text(plan, "tier"));
    if (strcmp(text(plan, "forced"), "-") != 0)
        printf("; every request is forced to run as %s", text(plan, "forced"));
    printf("\n\n");
    if (!json_array_size(classes))
        printf("no classes: every request runs in full; give a worker a plan with --plan FILE\n");
    else
        printf("%-16s %-24s %6s %8s %8s %6s %8s  %s\n", "CLASS", "MODEL", "GROUPS", "SKIPPED",
               "BY COST", "COST", "REQUESTS", "LEAVES OUT");
    size_t i;
    const json_t *class;
    json_array_foreach(classes, i, class) print_class(class);
    json_decref(plan);
    return CLI_OK;
}

static int ask_plan(lac_client *client, const void *what, char **answer)
{
    (void)what;
    return lac_client_plan(client, TIMEOUT_MS, answer);
}

int cli_plan(int argc, char **argv, const char *endpoint)
{
    bool json = false;
    const cli_option options[] = {{.name = "json", .help = "print it as JSON", .out = &json}};
    const cli_spec spec = {"plan", "show",
                           "Shows the classes that the coordinator knows: what each leaves out, "
                           "what a token of it costs\nrelative to full, what it is certified for, "
                           "and what its guard has seen.\n",
                           options, 1};
    const char *words[1];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count != 1 || strcmp(words[0], "show") != 0)
        return cli_misuse("plan", "allowed: show");
    char *answer = NULL;
    code = cli_once(endpoint, ask_plan, NULL, &answer);
    if (!code && json)
        puts(answer);
    else if (!code)
        code = print_plan(answer);
    if (!code && fflush(stdout))
        code = CLI_FAILED;
    free(answer);
    return code;
}
