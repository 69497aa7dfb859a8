/* lacuna jobs: many requests from a file, kept by the coordinator and run when it has time. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum { TIMEOUT_MS = 30000, TURN_MS = 500, ITEMS_MAX = 50000, BAR = 30 };

/* ---- small helpers ---- */

/* "0123456789abcdef", or as the HTTP API names it, "batch_0123456789abcdef". */
static bool parse_id(const char *text, uint64_t *id)
{
    const char *digits = strncmp(text, "batch_", 6) == 0 ? text + 6 : text;
    char *end;
    errno = 0;
    *id = strtoull(digits, &end, 16);
    return strlen(digits) == 16 && !*end && *id && !errno;
}

/* The words of a command that takes one id; −1 to go on, else the exit code. */
static int take_id(const cli_spec *spec, int argc, char **argv, const char **endpoint, uint64_t *id)
{
    const char *words[1];
    size_t count;
    int code = cli_parse(spec, argc, argv, endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count != 1 || !parse_id(words[0], id))
        return cli_misuse(spec->name,
                          "'%s' is no job's id: 16 hex digits, as `lacuna jobs list` "
                          "shows them",
                          count ? words[0] : "");
    return -1;
}

static int print_answer(char *answer)
{
    int code = printf("%s\n", answer) < 0 || fflush(stdout) ? CLI_FAILED : CLI_OK;
    free(answer);
    return code;
}

static long long whole(const json_t *job, const char *name)
{
    return (long long)json_integer_value(json_object_get(job, name));
}

static const char *word(const json_t *job, const char *name)
{
    const char *text = json_string_value(json_object_get(job, name));
    return text ? text : "";
}

static void print_time(const char *name, long long ms)
{
    char text[32] = "-";
    time_t s = (time_t)(ms / 1000);
    struct tm when;
    if (ms && localtime_r(&s, &when))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &when);
    printf("%-12s %s\n", name, text);
}

static json_t *first_job(const json_t *answer)
{
    return json_array_get(json_object_get(answer, "jobs"), 0);
}

/* ---- reading the file ---- */

/* What lines that are no requests yet are made into ones with. */
typedef struct {
    const char *file, *key, *model, *wait_out;
    long long priority, attempts, window_s, max_tokens;
    bool wait, json;
} wishes;

typedef struct {
    lac_client_item *items;
    size_t count, room;
    const char *endpoint; /* of the first line; inside `urls` */
    char url[64];
} items;

static int bad_line(const wishes *w, size_t line, const char *why)
{
    fprintf(stderr, "lacuna jobs submit: %s line %zu: %s\n", w->file, line, why);
    return CLI_USAGE;
}

/* {"id":…,"messages":[…]} or {"id":…,"text":"…"} as the body of a chat request. */
static json_t *body_of_prompt(const wishes *w, const json_t *line)
{
    json_t *body = json_object(), *messages = json_object_get(line, "messages");
    const json_t *text = json_object_get(line, "text");
    if (json_is_array(messages))
        json_object_set(body, "messages", messages);
    else if (json_is_string(text))
        json_object_set_new(body, "messages",
                            json_pack("[{s:s, s:O}]", "role", "user", "content", text));
    if (w->model)
        json_object_set_new(body, "model", json_string(w->model));
    if (w->max_tokens)
        json_object_set_new(body, "max_tokens", json_integer(w->max_tokens));
    if (json_object_get(body, "messages"))
        return body;
    json_decref(body);
    return NULL;
}

static int add_item(const wishes *w, items *all, size_t number, const json_t *line)
{
    json_t *body = json_object_get(line, "body");
    const char *url = json_string_value(json_object_get(line, "url"));
    const char *id = json_string_value(json_object_get(line, body ? "custom_id" : "id"));
    if (body && !json_is_object(body))
        return bad_line(w, number, "body is no object");
    if (!all->count)
        snprintf(all->url, sizeof all->url, "%s", body && url ? url : "/v1/chat/completions");
    if (strcmp(all->url, body && url ? url : "/v1/chat/completions") != 0)
        return bad_line(w, number, "url is another than that of the first line");
    body = body ? json_incref(body) : body_of_prompt(w, line);
    if (!body)
        return bad_line(w, number, "has neither body nor messages nor text");
    if (all->count == ITEMS_MAX) {
        json_decref(body);
        return bad_line(w, number, "a job has at most 50000 items");
    }
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 256;
        all->items = realloc(all->items, all->room * sizeof *all->items);
    }
    char *text = all->items ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text) {
        fprintf(stderr, "lacuna jobs submit: out of memory\n");
        exit(CLI_FAILED);
    }
    all->items[all->count++] = (lac_client_item){
        .custom_id = id ? strdup(id) : NULL, .body = text, .length = strlen(text)};
    return CLI_OK;
}

static void items_free(items *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free((char *)(uintptr_t)all->items[i].custom_id);
        free((char *)(uintptr_t)all->items[i].body);
    }
    free(all->items);
}

static int read_items(const wishes *w, items *all)
{
    FILE *file = strcmp(w->file, "-") == 0 ? stdin : fopen(w->file, "re");
    if (!file) {
        fprintf(stderr, "lacuna jobs submit: %s: %s\n", w->file, strerror(errno));
        return CLI_USAGE;
    }
    char *text = NULL;
    size_t size = 0, number = 0;
    ssize_t length;
    int code = CLI_OK;
    while (code == CLI_OK && (length = getline(&text, &size, file)) >= 0) {
        json_error_t error;
        number++;
        if (strspn(text, " \t\r\n") == (size_t)length)
            continue;
        json_t *line = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        code = json_is_object(line) ? add_item(w, all, number, line)
                                    : bad_line(w, number, line ? "is no object" : error.text);
        json_decref(line);
    }
    free(text);
    if (file != stdin)
        fclose(file);
    if (code == CLI_OK && !all->count)
        code = bad_line(w, number, "the file has no items");
    return code;
}

/* ---- waiting ---- */

static void bar(const json_t *job, double seconds, bool last)
{
    long long total = whole(job, "total"), failed = whole(job, "failed") + whole(job, "expired"),
              done = whole(job, "done"), ended = done + failed;
    int full = total ? (int)(BAR * ended / total) : 0;
    char drawn[BAR + 1];
    memset(drawn, '#', (size_t)full);
    memset(drawn + full, '.', (size_t)(BAR - full));
    drawn[BAR] = '\0';
    fprintf(stderr, "\r\033[K[%s] %lld/%lld, %lld failed, %lld running, %.0f s%s", drawn, ended,
            total, failed, whole(job, "running"), seconds, last ? "\n" : "");
    fflush(stderr);
}

/* The final answer into *answer. Ctrl-C leaves the job alone. */
static int wait_job(lac_client *client, const char *endpoint, uint64_t id, char **answer)
{
    bool terminal = isatty(STDERR_FILENO);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        char *text = NULL;
        int rc = lac_client_job_wait(client, id, TURN_MS, &text);
        if (rc && !(rc == LAC_CLIENT_TIMEOUT && text)) {
            free(text);
            return cli_fail(endpoint, rc, 0);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        json_t *json = json_loads(text, 0, NULL);
        if (terminal)
            bar(first_job(json), (double)(now.tv_sec - begin.tv_sec), rc == LAC_CLIENT_OK);
        json_decref(json);
        if (rc == LAC_CLIENT_OK) {
            *answer = text;
            return CLI_OK;
        }
        free(text);
        if (cli_interrupted) {
            fprintf(stderr, "%slacuna: the job goes on; `lacuna jobs cancel` stops it\n",
                    terminal ? "\n" : "");
            return CLI_INTERRUPTED;
        }
    }
}

/* What is said of a job that has ended, and the exit code: 0 when every item was answered. */
static int tell_end(const char *answer)
{
    json_t *json = json_loads(answer, 0, NULL);
    const json_t *job = first_job(json);
    bool good =
        !strcmp(word(job, "state"), "completed") && whole(job, "done") == whole(job, "total");
    printf("%s %s: %lld of %lld answered, %lld failed\n", word(job, "id"), word(job, "state"),
           whole(job, "done"), whole(job, "total"), whole(job, "failed") + whole(job, "expired"));
    json_decref(json);
    return fflush(stdout) || !good ? CLI_FAILED : CLI_OK;
}

static int wait_and_tell(lac_client *client, const char *endpoint, uint64_t id)
{
    char *answer = NULL;
    cli_catch_interrupts();
    int code = wait_job(client, endpoint, id, &answer);
    if (code == CLI_OK)
        code = tell_end(answer);
    free(answer);
    return code;
}

/* ---- submit ---- */

static int send_job(const char *endpoint, const wishes *w, const items *all)
{
    lac_client *client = NULL;
    char *answer = NULL;
    int code = cli_connect(endpoint, &client);
    if (code)
        return code;
    lac_client_job job = LAC_CLIENT_JOB_INIT;
    job.key = w->key;
    job.endpoint = all->url;
    job.priority = (int)w->priority;
    job.attempts_max = (uint32_t)w->attempts;
    job.window_s = (uint32_t)w->window_s;
    job.items = all->items;
    job.items_count = all->count;
    int rc = lac_client_job_submit(client, &job, TIMEOUT_MS, &answer);
    uint64_t id = 0;
    if (rc) {
        code = cli_fail(endpoint, rc, 0);
    } else {
        json_t *json = json_loads(answer, 0, NULL);
        parse_id(word(first_job(json), "id"), &id);
        if (!w->json)
            printf("%s\n", word(first_job(json), "id"));
        json_decref(json);
        code = w->json ? print_answer(answer) : fflush(stdout) ? CLI_FAILED : CLI_OK;
        if (!w->json)
            free(answer);
    }
    if (code == CLI_OK && w->wait)
        code = wait_and_tell(client, endpoint, id);
    lac_client_close(&client);
    return code;
}

static int run_submit(int argc, char **argv, const char *endpoint)
{
    wishes w = {0};
    const cli_option options[] = {
        {"key", "NAME", "the same name again is the same job, not a second one", CLI_TEXT, &w.key,
         0, 0},
        {"priority", "N", "-2 … 2, higher goes first (default 0)", CLI_WHOLE, &w.priority, -2, 2},
        {"attempts", "N", "starts of one item before it is given up (default 3)", CLI_WHOLE,
         &w.attempts, 1, 100},
        {"window", "S", "seconds after which what has not run expires (default: never)", CLI_WHOLE,
         &w.window_s, 1, 30 * 86400},
        {"model", "NAME", "the model of lines that are prompts, not requests", CLI_TEXT, &w.model,
         0, 0},
        {"max-tokens", "N", "their longest answer in tokens", CLI_WHOLE, &w.max_tokens, 1, 1 << 20},
        {.name = "wait", .help = "wait for its end and show how far it is", .out = &w.wait},
        {.name = "json", .help = "print the answer as JSON", .out = &w.json},
    };
    const cli_spec spec = {"jobs submit", "[OPTIONS] FILE.jsonl | -",
                           "Submits a job: a line is a request as OpenAI's batch files have it "
                           "(custom_id, url, body), "
                           "or a\nprompt ({\"id\":…,\"text\":…} or {\"id\":…,\"messages\":[…]}). "
                           "Prints the job's id once it is "
                           "on disk.\n",
                           options, sizeof options / sizeof *options};
    const char *words[1];
    size_t count;
    items all = {0};
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 1, &count);
    if (code >= 0)
        return code;
    if (count != 1)
        return cli_misuse("jobs submit", "expected the name of one file, or - for standard input");
    w.file = words[0];
    code = read_items(&w, &all);
    if (code == CLI_OK)
        code = send_job(endpoint, &w, &all);
    items_free(&all);
    return code;
}

/* ---- list, show, cancel, wait ---- */

static int ask_list(lac_client *client, const void *what, char **answer)
{
    return lac_client_jobs(client, 0, *(const unsigned *)what, TIMEOUT_MS, answer);
}

static int run_list(int argc, char **argv, const char *endpoint)
{
    bool json = false;
    long long limit = 20;
    const cli_option options[] = {
        {"limit", "N", "the newest N (default 20)", CLI_WHOLE, &limit, 1, 100},
        {.name = "json", .help = "print the answer as JSON", .out = &json},
    };
    const cli_spec spec = {"jobs list", "[--limit N] [--json]", "The newest jobs first.\n", options,
                           2};
    size_t count;
    char *answer = NULL;
    int code = cli_parse(&spec, argc, argv, &endpoint, NULL, 0, &count);
    if (code >= 0)
        return code;
    unsigned asked = (unsigned)limit;
    code = cli_once(endpoint, ask_list, &asked, &answer);
    if (code || json)
        return code ? code : print_answer(answer);
    json_t *all = json_loads(answer, 0, NULL), *job;
    size_t index;
    printf("%-16s  %-10s  %8s  %8s  %8s  %8s  %s\n", "id", "state", "items", "done", "failed",
           "running", "key");
    json_array_foreach(json_object_get(all, "jobs"), index, job) printf(
        "%-16s  %-10s  %8lld  %8lld  %8lld  %8lld  %s\n", word(job, "id"), word(job, "state"),
        whole(job, "total"), whole(job, "done"), whole(job, "failed") + whole(job, "expired"),
        whole(job, "running"), word(job, "key"));
    json_decref(all);
    free(answer);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int ask_show(lac_client *client, const void *what, char **answer)
{
    return lac_client_job_show(client, *(const uint64_t *)what, TIMEOUT_MS, answer);
}

static int ask_cancel(lac_client *client, const void *what, char **answer)
{
    return lac_client_job_cancel(client, *(const uint64_t *)what, TIMEOUT_MS, answer);
}

/* Every ended item as a line, page after page. */
static int print_results(const char *endpoint, uint64_t id)
{
    lac_client *client = NULL;
    int code = cli_connect(endpoint, &client);
    unsigned first = 0;
    bool more = code == CLI_OK;
    while (more) {
        char *answer = NULL;
        int rc = lac_client_job_results(client, id, first, TIMEOUT_MS, &answer);
        if (rc) {
            code = cli_fail(endpoint, rc, 0);
            break;
        }
        json_t *json = json_loads(answer, 0, NULL), *result;
        size_t index;
        json_array_foreach(json_object_get(json, "results"), index, result)
        {
            if (json_dumpf(result, stdout, JSON_COMPACT) || putchar('\n') == EOF)
                code = CLI_FAILED;
        }
        more = code == CLI_OK && json_is_true(json_object_get(json, "more"));
        first = (unsigned)whole(json, "next");
        json_decref(json);
        free(answer);
    }
    if (client)
        lac_client_close(&client);
    return code ? code : fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int print_job(char *answer)
{
    json_t *json = json_loads(answer, 0, NULL);
    const json_t *job = first_job(json);
    static const char *const counts[] = {"total",    "done",          "failed",
                                         "expired",  "running",       "attempts_max",
                                         "priority", "prompt_tokens", "completion_tokens"};
    printf("%-12s %s\n%-12s %s\n%-12s %s\n", "id", word(job, "id"), "state", word(job, "state"),
           "endpoint", word(job, "endpoint"));
    if (*word(job, "error"))
        printf("%-12s %s\n", "error", word(job, "error"));
    if (*word(job, "key"))
        printf("%-12s %s\n", "key", word(job, "key"));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        printf("%-12s %lld\n", counts[i], whole(job, counts[i]));
    print_time("created", whole(job, "created_ms"));
    print_time("started", whole(job, "started_ms"));
    print_time("ended", whole(job, "ended_ms"));
    print_time("deadline", whole(job, "deadline_ms"));
    json_decref(json);
    free(answer);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int run_show(int argc, char **argv, const char *endpoint)
{
    bool json = false, results = false;
    const cli_option options[] = {
        {.name = "results", .help = "print every ended item as a line of JSON", .out = &results},
        {.name = "json", .help = "print the answer as JSON", .out = &json},
    };
    const cli_spec spec = {"jobs show", "[--results | --json] ID", "One job, or its results.\n",
                           options, 2};
    uint64_t id;
    char *answer = NULL;
    int code = take_id(&spec, argc, argv, &endpoint, &id);
    if (code >= 0)
        return code;
    if (results)
        return print_results(endpoint, id);
    code = cli_once(endpoint, ask_show, &id, &answer);
    return code ? code : json ? print_answer(answer) : print_job(answer);
}

static int run_cancel(int argc, char **argv, const char *endpoint)
{
    const cli_spec spec = {"jobs cancel", "ID",
                           "Stops a job: what runs is cancelled, nothing more is started. Results "
                           "that are there stay.\n",
                           NULL, 0};
    uint64_t id;
    char *answer = NULL;
    int code = take_id(&spec, argc, argv, &endpoint, &id);
    if (code >= 0)
        return code;
    code = cli_once(endpoint, ask_cancel, &id, &answer);
    if (code)
        return code;
    json_t *json = json_loads(answer, 0, NULL);
    printf("%s %s\n", word(first_job(json), "id"), word(first_job(json), "state"));
    json_decref(json);
    free(answer);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int run_wait(int argc, char **argv, const char *endpoint)
{
    const cli_spec spec = {"jobs wait", "ID",
                           "Waits for the end of a job and shows how far it is. Exit status 0 when "
                           "every item was answered.\nCtrl-C leaves; the job goes on.\n",
                           NULL, 0};
    uint64_t id;
    lac_client *client = NULL;
    int code = take_id(&spec, argc, argv, &endpoint, &id);
    if (code >= 0)
        return code;
    code = cli_connect(endpoint, &client);
    if (code)
        return code;
    code = wait_and_tell(client, endpoint, id);
    lac_client_close(&client);
    return code;
}

int cli_jobs(int argc, char **argv, const char *endpoint)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv, const char *endpoint);
    } parts[] = {{"submit", run_submit},
                 {"list", run_list},
                 {"show", run_show},
                 {"cancel", run_cancel},
                 {"wait", run_wait}};
    const char *asked = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(asked, parts[i].name))
            return parts[i].run(argc - 1, argv + 1, endpoint);
    bool help = !strcmp(asked, "--help");
    fprintf(help ? stdout : stderr,
            "usage: lacuna jobs submit FILE.jsonl | list | show ID | cancel "
            "ID | wait ID\n`lacuna jobs PART --help` says more.\n");
    return help ? CLI_OK : CLI_USAGE;
}
