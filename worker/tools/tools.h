/* What the commands of lacuna-engine share: the command functions, option reading with help, and
 * plain input and output. A command is one file, tool_<name>.c, and one row in main.c. */
#ifndef LAC_TOOLS_H
#define LAC_TOOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config.h"
#include "base/mem.h"
#include "base/status.h"

/* Exit codes of every command. */
enum { LAC_TOOL_OK = 0, LAC_TOOL_FAILED = 1, LAC_TOOL_USAGE = 2 };

/* A command: argv[0] is its own name, the options follow. Returns an exit code. */
int lac_tool_tokenize(int argc, char **argv);
int lac_tool_inspect(int argc, char **argv);
int lac_tool_generate(int argc, char **argv);
int lac_tool_score(int argc, char **argv);
int lac_tool_bench(int argc, char **argv);
int lac_tool_place(int argc, char **argv);
int lac_tool_plan(int argc, char **argv);
int lac_tool_erase(int argc, char **argv);
int lac_tool_expand(int argc, char **argv);
int lac_tool_calibrate(int argc, char **argv);
int lac_tool_pull(int argc, char **argv);
int lac_tool_profile(int argc, char **argv);
int lac_tool_graph(int argc, char **argv);
int lac_tool_bisect(int argc, char **argv);

/* What a command accepts; literals that live for ever. */
typedef struct {
    const char *name;     /* "tokenize" */
    const char *synopsis; /* what follows "lacuna-engine tokenize" in the usage line */
    const char *help;     /* one paragraph under it */
    const lac_option *options;
    size_t options_count;
} lac_tool_spec;

/* Fills `out` (the struct that the options table describes). Returns −1 to go on; else the exit
 * code to return: 0 after --help, 2 after one line on standard error for an unknown option, a bad
 * value or a stray word. */
int lac_tool_options(const lac_tool_spec *spec, int argc, char **argv, void *out);
/* The same for a command that takes one word beside its options: *word, or NULL without it. */
int lac_tool_options_word(const lac_tool_spec *spec, int argc, char **argv, void *out,
                          const char **word);

/* "lacuna-engine NAME: text" on standard error; return the exit code of a failure or a wrong use.
 */
int lac_tool_fail(const lac_tool_spec *spec, const lac_error *err);
int lac_tool_misuse(const lac_tool_spec *spec, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The whole file ("-" is standard input) as malloc'd bytes with a final NUL that *length leaves
 * out. More than `max` bytes is LAC_ETOOBIG. */
lac_status lac_tool_read_file(const char *path, size_t max, char **bytes, size_t *length,
                              lac_error *err);

/* Writes the buffer to standard output and flushes; a full disk or closed pipe is LAC_EIO. */
lac_status lac_tool_print(const lac_buf *buf, lac_error *err);

#endif
