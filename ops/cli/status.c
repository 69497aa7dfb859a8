/* lacuna status: the cluster as a table, or as the JSON the coordinator's state comes in. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000, SAMPLE_MS = 300 };

static int fetch(lac_client *client, const char *endpoint, char **json)
{
    int rc = lac_client_status(client, TIMEOUT_MS, json);
    return rc ? cli_fail(endpoint, rc, 0) : CLI_OK;
}

static json_int_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value && *value ? value : "-";
}

/* Tokens a second of one group between two answers; 0 when it is new in the second. */
static double rate(const json_t *before, const json_t *after, const json_t *group)
{
    double span_ms = (double)(number(after, "uptime_ms") - number(before, "uptime_ms"));
    size_t i;
    const json_t *old;
    json_array_foreach(json_object_get(before, "groups"), i, old)
    {
        json_int_t gained = number(group, "output_tokens") - number(old, "output_tokens");
        if (!strcmp(text(old, "id"), text(group, "id")) && span_ms > 0 && gained > 0)
            return (double)gained * 1000 / span_ms;
    }
    return 0;
}

static void print_group(const json_t *before, const json_t *after, const json_t *group)
{
    char slots[32], kv[16], beat[32];
    json_int_t pages = number(group, "kv_pages"), age_ms = number(group, "heartbeat_age_ms");
    snprintf(slots, sizeof slots, "%d/%d", (int)number(group, "running"),
             (int)number(group, "slots"));
    snprintf(kv, sizeof kv, "%.0f%%",
             pages ? 100.0 * (double)number(group, "kv_pages_used") / (double)pages : 0.0);
    snprintf(beat, sizeof beat, "%.1f s", (double)age_ms / 1000);
    printf("%-10s %-9s %-28s %-12s %8s %6d %5s %8.1f %8.1f %8s\n", text(group, "id"),
           text(group, "state"), text(group, "model"), text(group, "isa"), slots,
           (int)number(group, "queued"), kv, (double)number(group, "itl_us") / 1000,
           rate(before, after, group), beat);
}

/* Groups × classes, when some group has more than full. */
static void print_classes(const json_t *groups)
{
    bool any = false;
    size_t i, k;
    const json_t *group, *class;
    json_array_foreach(groups, i, group) any |=
        json_array_size(json_object_get(group, "classes")) > 1;
    if (!any)
        return;
    printf("\n%-10s %-20s %8s %8s %9s %9s %12s\n", "GROUP", "CLASS", "RUNNING", "LAYERS", "SKIPPED",
           "BY COST", "TOKENS");
    json_array_foreach(groups, i, group)
        json_array_foreach(json_object_get(group, "classes"), k, class)
            printf("%-10s %-20s %8d %8d %8.1f%% %8.1f%% %12lld\n", text(group, "id"),
                   text(class, "name"), (int)number(class, "running"),
                   (int)number(class, "active_layers"),
                   100 * json_number_value(json_object_get(class, "skip_rate")),
                   100 * json_number_value(json_object_get(class, "cost_skip_rate")),
                   (long long)number(class, "tokens"));
}

/* What each rank holds, when some group has several. */
static void print_ranks(const json_t *groups)
{
    bool any = false;
    size_t i, k;
    const json_t *group, *rank;
    json_array_foreach(groups, i, group) any |= number(group, "pp") * number(group, "tp") > 1;
    if (!any)
        return;
    printf("\n%-10s %5s %8s %6s %5s %10s %8s %12s %10s\n", "GROUP", "RANK", "PID", "STAGE", "PART",
           "LAYERS", "ERASED", "WEIGHTS MB", "MEMORY MB");
    json_array_foreach(groups, i, group)
    {
        int tp = (int)number(group, "tp");
        json_array_foreach(json_object_get(group, "ranks"), k, rank)
        {
            char layers[32] = "-";
            int number_of = (int)number(rank, "rank"), end = (int)number(rank, "layer_end");
            if (end > 0)
                snprintf(layers, sizeof layers, "%d..%d", (int)number(rank, "layer_first"),
                         end - 1);
            printf("%-10s %5d %8lld %6d %5d %10s %8d %12.1f %10.1f\n", text(group, "id"), number_of,
                   (long long)number(rank, "pid"), tp > 0 ? number_of / tp : 0,
                   tp > 0 ? number_of % tp : 0, layers, (int)number(rank, "erased_units"),
                   (double)number(rank, "weight_bytes") / 1e6,
                   (double)number(rank, "rss_bytes") / 1e6);
        }
    }
}

/* What is out of order, with the cause; then the path figures as they are. */
static void print_checks(const json_t *checks)
{
    size_t i;
    const json_t *check;
    json_array_foreach(checks, i, check) if (!json_is_true(json_object_get(check, "good")))
        printf("not well: %s is %.4g: %s (%s)\n", text(check, "name"),
               json_number_value(json_object_get(check, "value")), text(check, "text"),
               text(check, "cause"));
    const char *const shown[] = {"ecr", "pes", "psr", "skip_rate", "skipped_layers"};
    bool any = false;
    json_array_foreach(checks, i, check) for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
    {
        const json_t *value = json_object_get(check, "value");
        if (strcmp(text(check, "name"), shown[k]) != 0 || json_is_null(value))
            continue;
        printf(any ? "  %s %.3g" : "paths, last 5 min: %s %.3g", shown[k],
               json_number_value(value));
        any = true;
    }
    if (any)
        printf("\n");
}

static void print_table(const json_t *before, const json_t *after)
{
    json_int_t up_s = number(after, "uptime_ms") / 1000;
    const json_t *groups = json_object_get(after, "groups");
    printf("coordinator %s, epoch %d, up %d:%02d:%02d, http %s\n", text(after, "version"),
           (int)number(after, "epoch"), (int)(up_s / 3600), (int)(up_s / 60 % 60), (int)(up_s % 60),
           text(after, "http"));
    printf("%lld requests, %lld tokens so far; %d running, %d queued\n",
           (long long)number(after, "requests_total"), (long long)number(after, "tokens_total"),
           (int)number(after, "running"), (int)number(after, "queued"));
    print_checks(json_object_get(after, "checks"));
    printf("\n");
    if (!json_array_size(groups)) {
        printf("no groups: start one with lacuna-worker\n");
        return;
    }
    printf("%-10s %-9s %-28s %-12s %8s %6s %5s %8s %8s %8s\n", "GROUP", "STATE", "MODEL", "ISA",
           "RUNNING", "QUEUED", "KV", "ITL ms", "TOK/S", "BEAT");
    size_t i;
    const json_t *group;
    json_array_foreach(groups, i, group) print_group(before, after, group);
    print_ranks(groups);
    print_classes(groups);
}

int cli_status_table(const char *first, const char *second)
{
    int code = CLI_OK;
    json_t *before = json_loads(first, JSON_REJECT_DUPLICATES, NULL);
    json_t *after = json_loads(second, JSON_REJECT_DUPLICATES, NULL);
    if (before && after) {
        print_table(before, after);
    } else {
        fprintf(stderr, "lacuna: the coordinator's answer is no JSON\n");
        code = CLI_FAILED;
    }
    json_decref(before);
    json_decref(after);
    return code;
}

static int show(lac_client *client, const char *endpoint, char *first)
{
    char *second = NULL;
    nanosleep(&(struct timespec){.tv_nsec = SAMPLE_MS * 1000000L}, NULL);
    int code = fetch(client, endpoint, &second);
    if (!code)
        code = cli_status_table(first, second);
    free(second);
    return code;
}

int cli_status(int argc, char **argv, const char *endpoint)
{
    bool json = false;
    const cli_option options[] = {{.name = "json", .help = "print it as JSON", .out = &json}};
    const cli_spec spec = {"status", "[--json]",
                           "Shows the groups of the cluster: their state, model, instruction set, "
                           "running requests of\nthe slots there are, key-value pages in use, time "
                           "between tokens, speed, and how long ago\neach was heard from.\n",
                           options, 1};
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, NULL, 0, &count);
    if (code >= 0)
        return code;
    lac_client *client = NULL;
    char *answer = NULL;
    code = cli_connect(endpoint, &client);
    if (!code)
        code = fetch(client, endpoint, &answer);
    if (!code && json)
        puts(answer);
    else if (!code)
        code = show(client, endpoint, answer);
    if (!code && fflush(stdout))
        code = CLI_FAILED;
    free(answer);
    lac_client_close(&client);
    return code;
}
