/* lacuna: the command line client. Owns the table of commands and the global options. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const cli_command commands[] = {
    {"submit", "PROMPT | -", "send one prompt, print the answer as it comes", cli_submit},
    {"chat", "", "talk to the model, line by line", cli_chat},
    {"jobs", "submit | …", "many requests from a file, run when there is time", cli_jobs},
    {"status", "[--json]", "the groups of the cluster and what they do", cli_status},
    {"top", "[--every S]", "the same, again and again", cli_top},
    {"scale", "N | MIN:MAX", "how many groups the coordinator launches", cli_scale},
    {"drain", "GROUP", "take a group out of service, no request lost", cli_drain},
    {"feedback", "ID good|bad", "say of an answer whether it was good", cli_feedback},
    {"keys", "new | api", "make keys for coordinators, workers and clients", cli_keys},
    {"path", "explain | force", "how a prompt is judged, and which class it gets", cli_path},
    {"cost", "--prices F", "what traffic costs, and what leaving parts out saves", cli_cost},
    {"plan", "show", "the classes that are known, with certificates and guards", cli_plan},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to)
{
    fprintf(to, "usage: lacuna [--connect tcp://HOST:PORT] COMMAND [OPTIONS]\n\ncommands:\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-8s %-12s %s\n", commands[i].name, commands[i].synopsis,
                commands[i].summary);
    fprintf(
        to,
        "\n"
        "options:\n"
        "  --connect tcp://HOST:PORT   the coordinator's client address (or the environment\n"
        "                              variable LACUNA_CONNECT; default "
        "tcp://127.0.0.1:7070)\n"
        "  --key FILE                  this user's key (or LACUNA_KEY), for a coordinator that\n"
        "                              asks for one; see `lacuna keys --help`\n"
        "  --server-key FILE           the coordinator's public key (or LACUNA_SERVER_KEY)\n"
        "  --help                      this text; `lacuna COMMAND --help` says more\n"
        "  --version                   the version of this program\n"
        "\n"
        "exit status:\n"
        "  0    done\n"
        "  1    the request failed, or output could not be written\n"
        "  2    wrong use, or the server calls the request malformed\n"
        "  3    the server is full: try again later\n"
        "  4    no coordinator at the address, or the connection broke\n"
        "  5    no answer in time\n"
        "  130  interrupted by Ctrl-C\n"
        "\n"
        "examples:\n"
        "  lacuna submit \"Why is the sky blue?\"\n"
        "  lacuna submit --raw --max-tokens 20 --temp 0 \"Once upon a time\"\n"
        "  git diff | lacuna submit --system \"Explain this change.\" -\n"
        "  lacuna --connect tcp://10.0.0.5:7070 status --json\n");
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    const char *endpoint = getenv("LACUNA_CONNECT");
    if (endpoint && !*endpoint)
        endpoint = NULL;
    const char *key = getenv("LACUNA_KEY"), *server_key = getenv("LACUNA_SERVER_KEY");
    int at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strcmp(argv[at], "--help")) {
            print_help(stdout);
            return CLI_OK;
        }
        if (!strcmp(argv[at], "--version")) {
            printf("lacuna %s\n", lac_client_version());
            return CLI_OK;
        }
        if (!strncmp(argv[at], "--connect=", 10))
            endpoint = argv[at] + 10;
        else if (!strcmp(argv[at], "--connect") && at + 1 < argc)
            endpoint = argv[++at];
        else if (!strcmp(argv[at], "--key") && at + 1 < argc)
            key = argv[++at];
        else if (!strcmp(argv[at], "--server-key") && at + 1 < argc)
            server_key = argv[++at];
        else
            return cli_misuse(NULL, "option %s is unknown or has no value; see lacuna --help",
                              argv[at]);
    }
    if (at == argc) {
        print_help(stderr);
        return CLI_USAGE;
    }
    cli_use_keys(key, server_key);
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(argv[at], commands[i].name))
            return commands[i].run(argc - at, argv + at, endpoint);
    return cli_misuse(
        NULL,
        "command '%s' is unknown, allowed: submit, chat, jobs, status, top, scale, drain, "
        "feedback, keys, "
        "path, plan",
        argv[at]);
}
