/* The table of the coordinator's options and the checks beyond type and range. Runs at start. */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/core.h"
#include "model_names.h"

#define FIELD(name)  offsetof(lac__options, name)
#define STRING(name) LAC_OPT_STRING, FIELD(name), sizeof((lac__options *)0)->name

/* clang-format off */
static const lac_option table[] = {
    {"http", STRING(http), "127.0.0.1:8080", 0, 0, false, "HOST:PORT",
     "where OpenAI clients connect; port 0 = any free one, \"off\" = nowhere"},
    {"client-plane", STRING(client_plane), "tcp://127.0.0.1:7070", 0, 0, false, "tcp://HOST:PORT",
     "where native clients connect"},
    {"worker-plane", STRING(worker_plane), "tcp://127.0.0.1:7071", 0, 0, false, "tcp://HOST:PORT",
     "where workers connect"},
    {"state-dir", STRING(state_dir), NULL, 0, 0, false, "DIR",
     "what must outlive a restart; default: lacuna under XDG_STATE_HOME or ~/.local/state"},
    {"queue", LAC_OPT_INT, FIELD(queue), 0, "256", 1, LAC_REQUESTS_MAX, false, "N",
     "requests that may wait for a worker; more are refused with 429"},
    {"queue-tokens", LAC_OPT_SIZE, FIELD(queue_tokens), 0, "1M", 1, 1e12, false, "N",
     "their estimated prompt tokens"},
    {"policy", STRING(policy), "cost", 0, 0, false, "NAME",
     "how a worker is chosen: cost, least-loaded or round-robin"},
    {"tier", STRING(tier), "standard", 0, 0, false, "TIER",
     "classes serve what they are certified for up to this tier: none (all runs in full), gold, "
     "standard or economy"},
    {"shadow-share", LAC_OPT_NUMBER, FIELD(shadow_share), 0, "0.02", 0, 1, false, "SHARE",
     "of the requests that run as a class, scored again in full to guard its certificate"},
    {"allow-force", LAC_OPT_BOOL, FIELD(allow_force), 0, NULL, 0, 0, false, "",
     "clients may force a class, certified or not"},
    {"launch", STRING(launch), "none", 0, 0, false, "KIND",
     "what starts and stops worker groups for this coordinator: none or local"},
    {"launch-model", STRING(launch_model), NULL, 0, 0, false, "FILE",
     "the model of launched groups (needed with --launch)"},
    {"launch-worker", STRING(launch_worker), NULL, 0, 0, false, "FILE",
     "the program of a launched rank; default: lacuna-worker beside this one"},
    {"launch-arguments", STRING(launch_arguments), NULL, 0, 0, false, "\"WORDS\"",
     "more arguments for each launched rank"},
    {"launch-cores", LAC_OPT_INT, FIELD(launch_cores), 0, "0", 0, 1024, false, "N",
     "cores of each launched group, its own while there are enough; 0 = all, shared"},
    {"launch-keep", LAC_OPT_BOOL, FIELD(launch_keep), 0, NULL, 0, 0, false, "",
     "leave launched groups running at an orderly end, for the next start to take over"},
    {"groups", STRING(groups), "1", 0, 0, false, "N|MIN:MAX",
     "groups to launch: just so many, or by load between two limits"},
    {"groups-max", LAC_OPT_INT, FIELD(groups_max), 0, "0", 0, LAC_GROUPS_MAX, false, "N",
     "groups that may ever be launched at once; default: what --groups says"},
    {"group-shape", STRING(group_shape), "1x1", 0, 0, false, "PPxTP",
     "ranks of a launched group: pipeline stages x tensor-parallel ranks of each"},
    {"wait-target-ms", LAC_OPT_NUMBER, FIELD(wait_target_ms), 0, "2000", 0, 1e9, false, "MS",
     "waiting longer than half of it adds a group; 0 = no promise"},
    {"jobs", STRING(jobs), "on", 0, 0, false, "on|off",
     "keep durable batch jobs in the state directory and run them"},
    {"jobs-size", LAC_OPT_SIZE, FIELD(jobs_bytes), 0, "4G", 1 << 20, 1e15, false, "BYTES",
     "the most their database may take of the disk"},
    {"jobs-days", LAC_OPT_INT, FIELD(jobs_days), 0, "7", 1, 3650, false, "N",
     "how long jobs and files are kept after their end"},
    {"batch-share", LAC_OPT_NUMBER, FIELD(batch_share), 0, "0.8", 0, 1, false, "SHARE",
     "of the slots that interactive requests leave free, for batch jobs; 0 = none run"},
    {"log-level", STRING(log_level), "info", 0, 0, false, "LEVEL",
     "error, warn, info, debug or trace"},
    {"log-rate", LAC_OPT_INT, FIELD(log_rate), 0, "200", 0, 1e6, false, "N",
     "lines of one event in 10 s, more are counted instead; 0 = no limit"},
    {"log-json", LAC_OPT_BOOL, FIELD(log_json), 0, NULL, 0, 0, false, "",
     "log in JSON lines"},
    {"key", STRING(key), NULL, 0, 0, false, "FILE",
     "this coordinator's key (`lacuna keys new`): both planes speak CURVE; needs --allow"},
    {"allow", STRING(allow), NULL, 0, 0, false, "FILE",
     "keys that may connect, a line each: worker|client|admin NAME KEY; read again on SIGHUP"},
    {"api-keys", STRING(api_keys), NULL, 0, 0, false, "FILE",
     "HTTP asks for an API key of this list (`lacuna keys api NAME`); read again on SIGHUP"},
    {"tls-cert", STRING(tls_cert), NULL, 0, 0, false, "FILE",
     "HTTP speaks TLS with this certificate (PEM, with its chain); read again on SIGHUP"},
    {"tls-key", STRING(tls_key), NULL, 0, 0, false, "FILE",
     "its key (PEM, readable by its owner alone)"},
    {"default-model", STRING(default_model), NULL, 0, 0, false, "NAME",
     "who names no model gets this one; default: the first that came"},
    {"model-alias", STRING(model_alias), NULL, 0, 0, false, "\"NAME=MODEL …\"",
     "other names of models"},
    {"route", STRING(route), NULL, 0, 0, false, "\"ASKED:TYPE:TASK=MODEL …\"",
     "sends requests of a type and task to another model while it is served; * = any; the first row "
     "that fits counts"},
    {"tenants", STRING(tenants), NULL, 0, 0, false, "FILE",
     "weights, quotas and tiers of tenants, which are names of keys; read again on SIGHUP"},
    {"brownout-wait-ms", LAC_OPT_INT, FIELD(brownout_wait_ms), 0, "2000", 0, 3600000, false, "MS",
     "a wait of that long is saturation: tenants that allow it run deeper classes; 0 = never"},
    {"cors-origins", STRING(cors_origins), NULL, 0, 0, false, "ORIGINS",
     "web pages that may ask over HTTP: scheme://host[:port] with commas between, or *"},
    {"insecure-wide", LAC_OPT_BOOL, FIELD(insecure_wide), 0, NULL, 0, 0, false, "",
     "allow addresses beyond loopback without keys: for test namespaces only"},
};
/* clang-format on */
enum { OPTIONS = sizeof table / sizeof *table };

static bool asks(int argc, char **argv, const char *flag)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], flag))
            return true;
    return false;
}

/* "HOST:PORT" or "[V6]:PORT". */
static lac_status split_address(const char *text, char *host, size_t size, uint16_t *port,
                                lac_error *err)
{
    const char *colon = strrchr(text, ':');
    int64_t number = 0;
    if (!colon || !lac_parse_i64(colon + 1, 0, 65535, &number))
        return lac_fail(err, LAC_EINVAL, "http is \"%s\", expected HOST:PORT with port 0..65535",
                        text);
    const char *from = text;
    size_t length = (size_t)(colon - text);
    if (length >= 2 && from[0] == '[' && from[length - 1] == ']') {
        from++;
        length -= 2;
    }
    if (!length || length >= size)
        return lac_fail(err, LAC_EINVAL, "http is \"%s\", expected HOST:PORT with a host", text);
    memcpy(host, from, length);
    host[length] = 0;
    *port = (uint16_t)number;
    return LAC_OK;
}

/* "3" or "1:4". */
static bool parse_groups(const char *text, uint32_t *low, uint32_t *high)
{
    char first[12];
    int64_t a, b;
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length >= sizeof first)
        return false;
    memcpy(first, text, length);
    first[length] = 0;
    if (!lac_parse_i64(first, 0, LAC_GROUPS_MAX, &a))
        return false;
    b = a;
    if (colon && !lac_parse_i64(colon + 1, a, LAC_GROUPS_MAX, &b))
        return false;
    *low = (uint32_t)a;
    *high = (uint32_t)b;
    return true;
}

/* "2x3". */
static bool parse_shape(const char *text, uint32_t *pp, uint32_t *tp)
{
    char first[8];
    int64_t a, b;
    const char *cross = strchr(text, 'x');
    size_t length = cross ? (size_t)(cross - text) : sizeof first;
    if (length >= sizeof first)
        return false;
    memcpy(first, text, length);
    first[length] = 0;
    if (!lac_parse_i64(first, 1, LAC_RANKS_MAX, &a) ||
        !lac_parse_i64(cross + 1, 1, LAC_RANKS_MAX / a, &b))
        return false;
    *pp = (uint32_t)a;
    *tp = (uint32_t)b;
    return true;
}

static lac_status check_launch(lac__options *o, lac_error *err)
{
    if (!strcmp(o->launch, "none"))
        return LAC_OK;
    if (!*o->launch_model)
        return lac_fail(err, LAC_EINVAL, "launch is \"%s\", which needs --launch-model FILE",
                        o->launch);
    if (*o->key && !strstr(o->launch_arguments, "--server-key"))
        return lac_fail(err, LAC_EINVAL,
                        "key is given, so launched groups need keys too: launch-arguments lacks "
                        "--key FILE --server-key FILE");
    if (!parse_shape(o->group_shape, &o->group_pp, &o->group_tp))
        return lac_fail(
            err, LAC_EINVAL,
            "group-shape is \"%s\", expected PPxTP such as 2x1, allowed: up to %d ranks",
            o->group_shape, LAC_RANKS_MAX);
    if (!parse_groups(o->groups, &o->groups_start_min, &o->groups_start_max))
        return lac_fail(err, LAC_EINVAL,
                        "groups is \"%s\", expected N or MIN:MAX with MIN <= MAX, allowed 0..%d",
                        o->groups, LAC_GROUPS_MAX);
    if (!o->groups_max)
        o->groups_max = o->groups_start_max ? o->groups_start_max : 1;
    if (o->groups_start_max > o->groups_max)
        return lac_fail(err, LAC_EINVAL, "groups is \"%s\", groups-max allows %lld", o->groups,
                        (long long)o->groups_max);
    return LAC_OK;
}

static lac_status check(lac__options *o, lac_error *err)
{
    o->http_on = strcmp(o->http, "off") != 0;
    if (o->http_on) {
        lac_status status =
            split_address(o->http, o->http_host, sizeof o->http_host, &o->http_port, err);
        if (status != LAC_OK)
            return status;
    }
    o->jobs_on = strcmp(o->jobs, "on") == 0;
    if (!o->jobs_on && strcmp(o->jobs, "off") != 0)
        return lac_fail(err, LAC_EINVAL, "jobs is \"%s\", allowed: on, off", o->jobs);
    if (!lac_log_level_parse(o->log_level, &o->level))
        return lac_fail(err, LAC_EINVAL,
                        "log-level is \"%s\", allowed: error, warn, info, debug, trace",
                        o->log_level);
    if (strcmp(o->tier, "none") != 0 && !lac_tier_parse(o->tier, &o->tier_max))
        return lac_fail(err, LAC_EINVAL, "tier is \"%s\", allowed: none, gold, standard, economy",
                        o->tier);
    if (!lac_core_policy_known(o->policy))
        return lac_fail(err, LAC_EINVAL,
                        "policy is \"%s\", allowed: cost, least-loaded, round-robin", o->policy);
    if (!*o->key != !*o->allow)
        return lac_fail(err, LAC_EINVAL, "%s is given without %s: keys need both",
                        *o->key ? "key" : "allow", *o->key ? "allow" : "key");
    if (!*o->tls_cert != !*o->tls_key)
        return lac_fail(err, LAC_EINVAL, "%s is given without %s: TLS needs both",
                        *o->tls_cert ? "tls-cert" : "tls-key",
                        *o->tls_cert ? "tls-key" : "tls-cert");
    lac_status status = lac__model_names_parse(o, err);
    return status == LAC_OK ? check_launch(o, err) : status;
}

lac_status lac__options_load(int argc, char **argv, lac__options *out, lac__task *task,
                             lac_error *err)
{
    *task = asks(argc, argv, "--help") || asks(argc, argv, "-h") ? LAC__HELP
            : asks(argc, argv, "--version")                      ? LAC__VERSION
            : asks(argc, argv, "--print-config")                 ? LAC__SAMPLE
                                                                 : LAC__RUN;
    if (*task != LAC__RUN)
        return LAC_OK;
    const char *words[1];
    size_t words_count = 0;
    lac_status status =
        lac_config_load(table, OPTIONS, argc, argv, out, words, 1, &words_count, err);
    if (status != LAC_OK)
        return status;
    if (words_count)
        return lac_fail(err, LAC_EINVAL, "\"%s\" is no option (see --help)", words[0]);
    return check(out, err);
}

void lac__options_print(lac__task task)
{
    switch (task) {
    case LAC__HELP:
        puts("usage: lacuna-coordinator [--config FILE] [options]\n\n"
             "Takes requests from OpenAI and native clients and hands them to workers.\n"
             "Every option is also a line of the config file and a variable LACUNA_NAME.\n");
        lac_config_help(table, OPTIONS, stdout);
        puts("\n  --print-config   write a sample config file and end\n"
             "  --version        write the version and end\n"
             "  --help           write this and end");
        break;
    case LAC__VERSION: puts("lacuna-coordinator " LAC_VERSION); break;
    case LAC__SAMPLE: lac_config_sample(table, OPTIONS, stdout); break;
    case LAC__RUN: break;
    }
}
