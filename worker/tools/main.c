/* lacuna-engine: the engine without a cluster, for people who prepare models and for tests. Finds
 * the command's row and calls it; the main thread. Knows nothing of what the commands do. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tools.h"

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"pull", lac_tool_pull, "a model file from the network"},
    {"tokenize", lac_tool_tokenize, "text to token ids"},
    {"inspect", lac_tool_inspect, "what a model file holds"},
    {"generate", lac_tool_generate, "a prompt to text"},
    {"score", lac_tool_score, "how probable a text is"},
    {"calibrate", lac_tool_calibrate, "what one type of input may leave out, with proof"},
    {"plan", lac_tool_plan, "what a plan holds, as a table and a picture"},
    {"erase", lac_tool_erase, "a model without some of its parts, for other engines too"},
    {"expand", lac_tool_expand, "a model with more blocks that do nothing"},
    {"bench", lac_tool_bench, "speed beside memory bandwidth"},
    {"profile", lac_tool_profile, "where time and bytes go, operation by operation"},
    {"graph", lac_tool_graph, "what a token runs through, for Graphviz"},
    {"bisect", lac_tool_bisect, "which part of a class changes an answer"},
    {"place", lac_tool_place, "which rank of a group would hold what"},
};
enum { COMMANDS_COUNT = sizeof commands / sizeof commands[0] };

static void usage(FILE *to)
{
    fprintf(to, "usage: lacuna-engine COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\nlacuna-engine COMMAND --help lists a command's options.\n");
}

int main(int argc, char **argv)
{
    lac_log_setup(LAC_LOG_WARN, "lacuna-engine", false);
    if (argc < 2) {
        usage(stderr);
        return LAC_TOOL_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return LAC_TOOL_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("lacuna-engine %s\n", LAC_VERSION);
        return LAC_TOOL_OK;
    }
    for (size_t i = 0; i < COMMANDS_COUNT; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "lacuna-engine: unknown command \"%.64s\"; lacuna-engine --help lists them\n",
            argv[1]);
    return LAC_TOOL_USAGE;
}
