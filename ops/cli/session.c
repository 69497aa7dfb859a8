/* Asking: connection, request, the answer as it comes, Ctrl-C, and errors that name their cure. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

volatile sig_atomic_t cli_interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    cli_interrupted = 1;
}

/* Without SA_RESTART, so that a read of the terminal ends. A closed pipe is an error of writing. */
void cli_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- sampling ---- */

void cli_sampling_options(cli_sampling *s, cli_option rows[CLI_SAMPLING_OPTIONS])
{
    *s = (cli_sampling){.temperature = 1, .top_p = 1, .seed = -1};
    const cli_option table[CLI_SAMPLING_OPTIONS] = {
        {"model", "NAME", "the model to ask (default: the server's)", CLI_TEXT, &s->model, 0, 0},
        {"system", "TEXT", "instructions that lead the conversation", CLI_TEXT, &s->system, 0, 0},
        {"max-tokens", "N", "longest answer in tokens (default 0: as many as fit)", CLI_WHOLE,
         &s->max_tokens, 0, 1 << 20},
        {"temp", "T", "temperature, 0 = always the likeliest (default 1)", CLI_NUMBER,
         &s->temperature, 0, 2},
        {"top-p", "P", "keep the likeliest tokens that add up to P (default 1)", CLI_NUMBER,
         &s->top_p, 0.000001, 1},
        {"top-k", "K", "keep the K likeliest tokens (default 0: all)", CLI_WHOLE, &s->top_k, 0,
         1 << 20},
        {"min-p", "P", "drop tokens below P times the likeliest (default 0)", CLI_NUMBER, &s->min_p,
         0, 1},
        {"seed", "N", "the same seed gives the same answer (default: drawn)", CLI_WHOLE, &s->seed,
         0, 9007199254740992.0},
        {"stop", "TEXT", "end before this text; up to 4 times", CLI_TEXTS, &s->stops, 0, 0},
    };
    memcpy(rows, table, sizeof table);
}

void cli_sampling_apply(const cli_sampling *s, lac_client_request *request)
{
    request->model = s->model;
    request->max_tokens = (uint32_t)s->max_tokens;
    request->temperature = s->temperature;
    request->top_p = s->top_p;
    request->min_p = s->min_p;
    request->top_k = (int)s->top_k;
    request->has_seed = s->seed >= 0;
    request->seed = s->seed >= 0 ? (uint64_t)s->seed : 0;
    request->stops = s->stops.items;
    request->stops_count = s->stops.count;
}

/* ---- errors ---- */

static const char *own_key, *their_key;

void cli_use_keys(const char *key, const char *server_key)
{
    own_key = key && *key ? key : NULL;
    their_key = server_key && *server_key ? server_key : NULL;
}

int cli_connect(const char *endpoint, lac_client **client)
{
    int rc = lac_client_connect_keyed(endpoint, own_key, their_key, client);
    return rc ? cli_fail(endpoint, rc, 0) : CLI_OK;
}

int cli_once(const char *endpoint, int (*ask)(lac_client *client, const void *what, char **answer),
             const void *what, char **answer)
{
    lac_client *client = NULL;
    int code = cli_connect(endpoint, &client);
    if (code)
        return code;
    int rc = ask(client, what, answer);
    code = rc ? cli_fail(endpoint, rc, 0) : CLI_OK;
    lac_client_close(&client);
    return code;
}

int cli_fail(const char *endpoint, int code, unsigned retry_after_ms)
{
    const char *text = lac_client_error();
    bool nobody = strstr(text, "no coordinator") != NULL;
    (void)endpoint; /* the library's text names it */
    switch (code) {
    case LAC_CLIENT_LOST:
        fprintf(stderr, "lacuna: %s: %s\n", text,
                nobody ? "start one with lacuna-coordinator or ops/quickstart, or name another "
                         "with --connect"
                       : "the request is lost, send it again");
        return CLI_LOST;
    case LAC_CLIENT_BUSY:
        fprintf(stderr, "lacuna: the server is full: %s: try again in %.1f s\n", text,
                retry_after_ms ? retry_after_ms / 1000.0 : 1.0);
        return CLI_BUSY;
    case LAC_CLIENT_INVALID: fprintf(stderr, "lacuna: %s\n", text); return CLI_USAGE;
    case LAC_CLIENT_TIMEOUT:
        fprintf(stderr, "lacuna: %s: see the coordinator's log\n", text);
        return CLI_TIMEOUT;
    default: fprintf(stderr, "lacuna: the request failed: %s\n", text); return CLI_FAILED;
    }
}

/* ---- the answer ---- */

void cli_answer_free(cli_answer *answer)
{
    free(answer->text);
    free(answer->account);
    free(answer->tokens);
    *answer = (cli_answer){0};
}

/* Doubles the room, so that a long answer costs few copies. */
static void *grow(void *list, size_t count, size_t more, size_t size)
{
    size_t before = 64, after;
    while (before < count)
        before *= 2;
    after = before;
    while (after < count + more)
        after *= 2;
    if (list && after == before)
        return list;
    list = realloc(list, after * size);
    if (!list) {
        fprintf(stderr, "lacuna: out of memory\n");
        exit(CLI_FAILED);
    }
    return list;
}

static void append(cli_answer *answer, const lac_client_piece *piece)
{
    answer->text = grow(answer->text, answer->length + 1, piece->length, 1);
    memcpy(answer->text + answer->length, piece->text, piece->length);
    answer->length += piece->length;
    answer->text[answer->length] = '\0';
    answer->tokens =
        grow(answer->tokens, answer->tokens_count, piece->tokens_count, sizeof *answer->tokens);
    if (piece->tokens_count)
        memcpy(answer->tokens + answer->tokens_count, piece->tokens,
               piece->tokens_count * sizeof *answer->tokens);
    answer->tokens_count += piece->tokens_count;
}

static void take_account(lac_stream *stream, cli_answer *answer)
{
    lac_client_account a;
    if (lac_stream_account(stream, &a) != LAC_CLIENT_OK)
        return;
    int length =
        asprintf(&answer->account,
                 "class %s%s%s%s%s: %s; %u of %u layers active, skipped %.1f %% of units, "
                 "%.1f %% of cost, %.3g FLOPs, %llu KV bytes",
                 a.class_name, *a.mask ? " (" : "", a.mask, *a.mask ? ")" : "",
                 a.forced ? ", forced" : "", a.why, a.active_layers, a.layers, 100 * a.skip_rate,
                 100 * a.cost_skip_rate, a.flops, (unsigned long long)a.kv_bytes);
    if (length < 0)
        answer->account = NULL;
}

/* Waits in short turns, because the interrupt may come to any thread. */
static int read_answer(lac_stream *stream, FILE *live, cli_answer *answer)
{
    enum { TURN_MS = 100 };
    lac_client_piece piece = {0};
    bool cancelled = false, unwritable = false;
    while (!piece.done) {
        int rc = lac_stream_next(stream, TURN_MS, &piece);
        if ((cli_interrupted || unwritable) && !cancelled) {
            lac_stream_cancel(stream);
            cancelled = true;
        }
        if (rc == LAC_CLIENT_TIMEOUT)
            continue;
        if (rc)
            return rc;
        append(answer, &piece);
        if (live && !cancelled)
            unwritable = fwrite(piece.text, 1, piece.length, live) != piece.length || fflush(live);
    }
    snprintf(answer->finish, sizeof answer->finish, "%s", piece.finish);
    lac_stream_usage(stream, &answer->prompt_tokens, &answer->completion_tokens);
    answer->cached_tokens = lac_stream_cached_tokens(stream);
    take_account(stream, answer);
    if (unwritable)
        fprintf(stderr, "lacuna: the answer cannot be written: %s\n", strerror(errno));
    return unwritable ? LAC_CLIENT_FAILED : LAC_CLIENT_OK;
}

int cli_ask(lac_client *client, const char *endpoint, const lac_client_request *request, FILE *live,
            cli_answer *answer)
{
    lac_stream *stream = NULL;
    *answer = (cli_answer){0};
    int rc = lac_client_submit(client, request, &stream);
    if (rc)
        return cli_fail(endpoint, rc, 0);
    rc = read_answer(stream, live, answer);
    bool told = rc == LAC_CLIENT_FAILED && answer->finish[0];
    int code = told ? CLI_FAILED
               : rc ? cli_fail(endpoint, rc, lac_stream_retry_after_ms(stream))
                    : CLI_OK;
    lac_stream_close(&stream);
    if (!answer->text)
        append(answer, &(lac_client_piece){.text = ""});
    return code;
}
