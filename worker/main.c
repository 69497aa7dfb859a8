/* lacuna-worker: the process of one rank. Reads its options, makes the link, serves, frees. Flags
 * say where this rank is; what changes results comes from the coordinator. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "kernels/cuda.h"
#include "link/link.h"

enum { INCARNATION_HEX = 32 };

typedef struct {
    char coordinator[LAC_ENDPOINT_MAX + 1];
    char model[4096];
    char model_name[LAC_MODEL_NAME_MAX + 1];
    char plan[4096];
    char group[LAC_NAME_MAX + 1];
    char device[LAC_NAME_MAX + 1];
    char isa[LAC_NAME_MAX + 1];
    char chat_template[LAC_NAME_MAX + 1];
    char key[4096], server_key[4096];
    char incarnation[INCARNATION_HEX + 1];
    char log_level[16];
    char prefix_cache[8], speculate[8], kv_type[8];
    int64_t threads, slots, ctx_max, kv_mem, ranks_here, rank, pp, tp;
    bool pin, log_json, die_with_parent;
} options;

#define FIELD(name) offsetof(options, name)
#define TEXT(name)  offsetof(options, name), sizeof(((options *)0)->name)

static const lac_option table[] = {
    {"coordinator", LAC_OPT_STRING, TEXT(coordinator), .preset = "tcp://127.0.0.1:7071",
     .value = "tcp://HOST:PORT", .help = "Worker plane of the coordinator"},
    {"model", LAC_OPT_STRING, TEXT(model), .value = "FILE", .help = "GGUF file to serve (needed)"},
    {"model-name", LAC_OPT_STRING, TEXT(model_name), .value = "NAME",
     .help = "Name clients ask for; without it the file's own"},
    {"plan", LAC_OPT_STRING, TEXT(plan), .value = "FILE",
     .help = "Plan of the model: the classes it may run in; without one full alone"},
    {"group", LAC_OPT_STRING, TEXT(group), .value = "ID",
     .help = "Group this rank belongs to; without it HOST-PID"},
    {"rank", LAC_OPT_INT, FIELD(rank), .preset = "0", .low = 0, .high = LAC_RANKS_MAX - 1,
     .value = "R", .help = "Number of this rank in its group"},
    {"pp", LAC_OPT_INT, FIELD(pp), .preset = "1", .low = 1, .high = LAC_RANKS_MAX, .value = "S",
     .help = "Pipeline stages of the group"},
    {"tp", LAC_OPT_INT, FIELD(tp), .preset = "1", .low = 1, .high = LAC_RANKS_MAX, .value = "T",
     .help = "Tensor-parallel ranks of a stage"},
    {"device", LAC_OPT_STRING, TEXT(device), .preset = "cpu", .value = "cpu|cuda:N",
     .help = "Where the arithmetic runs: this machine's cores, or its Nth GPU"},
    {"isa", LAC_OPT_STRING, TEXT(isa), .preset = "auto", .value = "NAME",
     .help = "auto, reference, scalar, avx2, avxvnni or avx512"},
    {"threads", LAC_OPT_INT, FIELD(threads), .preset = "0", .low = 0, .high = 1024, .value = "N",
     .help = "Engine threads; 0: every core this process may use"},
    {"pin", LAC_OPT_BOOL, FIELD(pin), .help = "Bind each engine thread to one core"},
    {"slots", LAC_OPT_INT, FIELD(slots), .preset = "0", .low = 0, .high = LAC_SLOTS_MAX,
     .value = "N", .help = "Sequences that run at once; 0: 16"},
    {"ctx-max", LAC_OPT_INT, FIELD(ctx_max), .preset = "0", .low = 0, .high = LAC_CONTEXT_MAX,
     .value = "N", .help = "Longest context in tokens; 0: the model's"},
    {"kv-mem", LAC_OPT_SIZE, FIELD(kv_mem), .preset = "0", .low = 0, .high = 0x1p50,
     .value = "BYTES", .help = "Memory of the KV pool (K, M, G); 0: from RAM and model"},
    {"kv-type", LAC_OPT_STRING, TEXT(kv_type), .preset = "f16", .value = "f16|q8",
     .help = "How keys and values are kept; q8 takes half the memory, results differ a little"},
    {"prefix-cache", LAC_OPT_STRING, TEXT(prefix_cache), .preset = "on", .value = "on|off",
     .help = "Keep keys and values of ended requests for those that begin alike"},
    {"speculate", LAC_OPT_STRING, TEXT(speculate), .preset = "auto", .value = "auto|on|off",
     .help = "Guess tokens from the text itself; auto: while it measures a gain"},
    {"ranks-here", LAC_OPT_INT, FIELD(ranks_here), .preset = "1", .low = 1, .high = LAC_RANKS_MAX,
     .value = "N", .help = "Workers that share this machine's memory"},
    {"chat-template", LAC_OPT_STRING, TEXT(chat_template), .value = "FAMILY",
     .help = "Chat template family instead of the recognised one"},
    {"key", LAC_OPT_STRING, TEXT(key), .value = "FILE",
     .help = "This rank's key; needs --server-key"},
    {"server-key", LAC_OPT_STRING, TEXT(server_key), .value = "FILE",
     .help = "The coordinator's public key: nobody else is talked to"},
    {"incarnation", LAC_OPT_STRING, TEXT(incarnation), .value = "HEX",
     .help = "Identity of this start, 32 hex digits, from who starts it; without it one is given"},
    {"die-with-parent", LAC_OPT_BOOL, FIELD(die_with_parent),
     .help = "End at once when the process that started this one ends"},
    {"log-level", LAC_OPT_STRING, TEXT(log_level), .preset = "info", .value = "LEVEL",
     .help = "error, warn, info, debug or trace"},
    {"log-json", LAC_OPT_BOOL, FIELD(log_json), .help = "Log lines as JSON"},
};
enum { OPTIONS = sizeof(table) / sizeof(table[0]) };

/* --help and --version answer by themselves, whatever else is on the line. */
static bool answered(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--version") == 0) {
            printf("lacuna-worker %s\n", LAC_VERSION);
            return true;
        }
        if (strcmp(argv[i], "--help") == 0) {
            printf("usage: lacuna-worker --model FILE [--coordinator tcp://HOST:PORT] …\n"
                   "One rank of a group: runs the model and takes requests from the coordinator.\n"
                   "SIGTERM drains and ends; a second one ends at once.\n\n");
            lac_config_help(table, OPTIONS, stdout);
            return true;
        }
    }
    return false;
}

static lac_status name_check(const char *option, const char *name, lac_error *err)
{
    for (const char *p = name; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
            return lac_fail(err, LAC_EINVAL, "%s is \"%s\", allowed are letters, digits, . _ -",
                            option, name);
    return LAC_OK;
}

static lac_status incarnation_parse(const char *hex, uint8_t out[16], lac_error *err)
{
    if (hex[0] != '\0' && !lac_unhex(hex, out, INCARNATION_HEX / 2))
        return lac_fail(err, LAC_EINVAL, "incarnation is \"%s\", expected %d digits 0-9a-f", hex,
                        INCARNATION_HEX);
    return LAC_OK;
}

/* A hand-started rank names its group by host and process. */
static void group_default(char *group, size_t size)
{
    char host[LAC_NAME_MAX / 2];
    if (group[0] != '\0')
        return;
    if (gethostname(host, sizeof(host)) != 0)
        host[0] = '\0';
    host[sizeof(host) - 1] = '\0';
    for (char *p = host; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)
            *p = '-';
    snprintf(group, size, "%s-%d", host[0] != '\0' ? host : "worker", (int)getpid());
}

static lac_status isa_parse(const char *name, lac_isa *out, lac_error *err)
{
    static const struct {
        const char *name;
        lac_isa isa;
    } known[] = {{"auto", LAC_ISA_AUTO},       {"reference", LAC_ISA_REFERENCE},
                 {"scalar", LAC_ISA_SCALAR},   {"avx2", LAC_ISA_AVX2},
                 {"avxvnni", LAC_ISA_AVXVNNI}, {"avx512", LAC_ISA_AVX512}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i].name) == 0) {
            *out = known[i].isa;
            return LAC_OK;
        }
    return lac_fail(err, LAC_EINVAL,
                    "isa is \"%s\", allowed: auto, reference, scalar, avx2, avxvnni, "
                    "avx512",
                    name);
}

/* What the table cannot say. */
static lac_status options_check(options *o, lac_log_level *level, lac_isa *isa,
                                lac_speculate *speculate, lac_kv_type *kv_type, lac_error *err)
{
    lac_status status = LAC_OK;
    if (o->model[0] == '\0')
        return lac_fail(err, LAC_EINVAL, "--model FILE is needed");
    if (!lac_log_level_parse(o->log_level, level))
        return lac_fail(err, LAC_EINVAL,
                        "log-level is \"%s\", allowed: error, warn, info, debug, trace",
                        o->log_level);
    if ((o->key[0] == '\0') != (o->server_key[0] == '\0'))
        return lac_fail(err, LAC_EINVAL, "%s is given without %s: keys need both",
                        o->key[0] != '\0' ? "key" : "server-key",
                        o->key[0] != '\0' ? "server-key" : "key");
    uint32_t device;
    bool cuda = strcmp(o->device, "cpu") != 0;
    if (cuda && !lac_cuda_device_parse(o->device, &device))
        return lac_fail(err, LAC_EINVAL, "device is \"%s\", allowed: cpu, cuda, cuda:N", o->device);
    if (cuda && o->tp != 1)
        return lac_fail(err, LAC_EUNSUPPORTED,
                        "tp is %lld on %s: a GPU does not share layers with others (allowed: 1)",
                        (long long)o->tp, o->device);
    if (o->pp * o->tp > LAC_RANKS_MAX)
        return lac_fail(err, LAC_EINVAL, "pp × tp is %lld × %lld, allowed: at most %d ranks",
                        (long long)o->pp, (long long)o->tp, LAC_RANKS_MAX);
    if (o->rank >= o->pp * o->tp)
        return lac_fail(err, LAC_EINVAL, "rank is %lld, allowed below pp × tp = %lld",
                        (long long)o->rank, (long long)(o->pp * o->tp));
    if (o->pp * o->tp > 1 && o->group[0] == '\0')
        return lac_fail(err, LAC_EINVAL,
                        "pp × tp is %lld × %lld without a group: the ranks find each other by "
                        "--group ID",
                        (long long)o->pp, (long long)o->tp);
    if (strcmp(o->prefix_cache, "on") != 0 && strcmp(o->prefix_cache, "off") != 0)
        return lac_fail(err, LAC_EINVAL, "prefix-cache is \"%s\", allowed: on, off",
                        o->prefix_cache);
    if (!lac_speculate_parse(o->speculate, speculate))
        return lac_fail(err, LAC_EINVAL, "speculate is \"%s\", allowed: auto, on, off",
                        o->speculate);
    if (!lac_kv_type_parse(o->kv_type, kv_type) || *kv_type == LAC_KV_F32)
        return lac_fail(err, LAC_EINVAL, "kv-type is \"%s\", allowed: f16, q8", o->kv_type);
    group_default(o->group, sizeof(o->group));
    status = name_check("group", o->group, err);
    if (status == LAC_OK)
        status = name_check("model-name", o->model_name, err);
    if (status == LAC_OK)
        status = isa_parse(o->isa, isa, err);
    return status;
}

static void parent_follow(void)
{
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it ended before the request took effect */
}

static void loading_ended(int signum)
{
    (void)signum;
    _exit(0); /* nothing runs yet: there is nothing to drain */
}

int main(int argc, char **argv)
{
    static options o;
    lac_error err = {.status = LAC_OK};
    lac_log_level level = LAC_LOG_INFO;
    lac_isa isa = LAC_ISA_AUTO;
    uint8_t incarnation[16] = {0};
    lac_speculate speculate = LAC_SPECULATE_AUTO;
    lac_kv_type kv_type = LAC_KV_F16;
    lac_link *link = NULL;
    size_t words;

    if (answered(argc, argv))
        return 0;
    lac_status status = lac_config_load(table, OPTIONS, argc, argv, &o, NULL, 0, &words, &err);
    if (status == LAC_OK)
        status = options_check(&o, &level, &isa, &speculate, &kv_type, &err);
    if (status == LAC_OK)
        status = incarnation_parse(o.incarnation, incarnation, &err);
    if (status != LAC_OK) {
        fprintf(stderr, "lacuna-worker: %s\n", err.text);
        return 2;
    }
    if (o.die_with_parent)
        parent_follow();
    lac_log_setup(level, "worker", o.log_json);
    setenv("UV_THREADPOOL_SIZE", "2", 0); /* text work must leave cores to the engine */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, loading_ended);
    signal(SIGINT, loading_ended);

    lac_link_options link_options = {
        .coordinator = o.coordinator,
        .group = o.group,
        .rank = (uint32_t)o.rank,
        .pp = (uint32_t)o.pp,
        .tp = (uint32_t)o.tp,
        .model_name = o.model_name,
        .chat_family = o.chat_template,
        .key = o.key,
        .server_key = o.server_key,
        .plan = o.plan,
        .engine = {.model_path = o.model,
                   .threads = (uint32_t)o.threads,
                   .pin = o.pin,
                   .isa = isa,
                   .device = o.device,
                   .context_max = (uint32_t)o.ctx_max,
                   .slots = (uint32_t)o.slots,
                   .kv_type = kv_type,
                   .kv_bytes = (uint64_t)o.kv_mem,
                   .ranks_here = (uint32_t)o.ranks_here,
                   .speculate = speculate,
                   .without_prefix_cache = strcmp(o.prefix_cache, "off") == 0}};
    memcpy(link_options.incarnation, incarnation, sizeof(incarnation));
    if (lac_link_create(&link_options, &link, &err) != LAC_OK) {
        lac_error_log("%s", err.text);
        return 1;
    }
    int exit_code = lac_link_run(link);
    lac_link_destroy(&link);
    lac_info("stopped, exit %d", exit_code);
    return exit_code;
}
