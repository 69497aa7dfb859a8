/* lacuna feedback: tells the coordinator whether an answer was good. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { TIMEOUT_MS = 5000 };

typedef struct {
    unsigned long long request;
    int good;
} opinion;

static int ask(lac_client *client, const void *what, char **answer)
{
    const opinion *o = what;
    return lac_client_feedback(client, o->request, o->good, TIMEOUT_MS, answer);
}

int cli_feedback(int argc, char **argv, const char *endpoint)
{
    const cli_spec spec = {"feedback", "REQUEST good|bad",
                           "Says of an answer whether it was good, by the number of its request "
                           "(the reply's header X-Lacuna-Request).\nIt is counted by the class "
                           "that gave the answer, once for each request.\n",
                           NULL, 0};
    const char *words[2];
    size_t count;
    opinion o = {0, 0};
    char *answer = NULL, *end = NULL;
    int code = cli_parse(&spec, argc, argv, &endpoint, words, 2, &count);
    if (code >= 0)
        return code;
    if (count != 2)
        return cli_misuse("feedback", "expected the number of a request, and good or bad");
    o.request = strtoull(words[0], &end, 10);
    if (end == words[0] || *end || *words[0] == '-' || !o.request)
        return cli_misuse("feedback", "'%s' is no number of a request", words[0]);
    o.good = !strcmp(words[1], "good");
    if (!o.good && strcmp(words[1], "bad") != 0)
        return cli_misuse("feedback", "'%s' is no opinion, allowed: good, bad", words[1]);
    code = cli_once(endpoint, ask, &o, &answer);
    if (code)
        return code;
    code = printf("request %llu: %s\n", o.request, words[1]) < 0 || fflush(stdout) ? CLI_FAILED
                                                                                   : CLI_OK;
    free(answer);
    return code;
}
