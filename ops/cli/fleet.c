/* lacuna scale, lacuna drain: orders about groups. The coordinator decides who leaves and how. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000, GROUPS_MAX = 256, DEADLINE_MAX_S = 86400 };

/* Gives an order and prints what will happen, or the error. */
static int order(const char *endpoint,
                 int (*ask)(lac_client *client, const void *what, char **answer), const void *what)
{
    char *answer = NULL;
    int code = cli_once(endpoint, ask, what, &answer);
    if (code)
        return code;
    json_t *json = json_loads(answer, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "text"));
    code = printf("%s\n", text ? text : "done") < 0 || fflush(stdout) ? CLI_FAILED : CLI_OK;
    json_decref(json);
    free(answer);
    return code;
}

/* "3" or "1:4". */
static bool parse_range(const char *text, unsigned *low, unsigned *high)
{
    char *end;
    unsigned long a = strtoul(text, &end, 10), b = a;
    if (end == text || *text == '-' || a > GROUPS_MAX)
        return false;
    if (*end == ':') {
        const char *from = end + 1;
        b = strtoul(from, &end, 10);
        if (end == from || *from == '-')
            return false;
    }
    if (*end || b < a || b > GROUPS_MAX)
        return false;
    *low = (unsigned)a;
    *high = (unsigned)b;
    return true;
}

typedef struct {
    unsigned low, high;
} range;

static int ask_scale(lac_client *client, const void *what, char **answer)
{
    const range *groups = what;
    return lac_client_scale(client, groups->low, groups->high, TIMEOUT_MS, answer);
}

int cli_scale(int argc, char **argv, const char *endpoint)
{
    const cli_spec spec = {"scale", "N | MIN:MAX",
                           "Sets how many groups the coordinator launches: just N, or by load "
                           "between two limits. Works\nwith a coordinator started with --launch; "
                           "groups started by hand are not counted.\n",
                           NULL, 0};
    const char *words[1];
    size_t count;
    range groups = {0, 0};
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count != 1 || !parse_range(words[0], &groups.low, &groups.high))
        return cli_misuse("scale", "'%s' is no number of groups, expected N or MIN:MAX, 0..%d",
                          count ? words[0] : "", GROUPS_MAX);
    return order(endpoint, ask_scale, &groups);
}

typedef struct {
    const char *group;
    long long deadline_s;
} leaving;

static int ask_drain(lac_client *client, const void *what, char **answer)
{
    const leaving *l = what;
    return lac_client_drain(client, l->group, (unsigned)(l->deadline_s * 1000), TIMEOUT_MS, answer);
}

int cli_drain(int argc, char **argv, const char *endpoint)
{
    leaving what = {0};
    const cli_option options[] = {{.name = "deadline",
                                   .value = "S",
                                   .help = "seconds after which what still runs moves to another "
                                           "group (default 30)",
                                   .kind = CLI_WHOLE,
                                   .out = &what.deadline_s,
                                   .low = 1,
                                   .high = DEADLINE_MAX_S}};
    const cli_spec spec = {"drain", "GROUP",
                           "Takes a group out of service: it gets no new work, finishes what it "
                           "has, and ends. No request is lost.\n",
                           options, 1};
    const char *words[1];
    size_t count;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count != 1)
        return cli_misuse("drain", "expected the name of one group; `lacuna status` lists them");
    what.group = words[0];
    return order(endpoint, ask_drain, &what);
}
