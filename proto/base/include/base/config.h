/* Options: one typed table a program, read from a config file (INI), then the environment
 * (LAC_… spelled LACUNA_…), then flags. Help text and sample file come from the table. */
#ifndef LAC_BASE_CONFIG_H
#define LAC_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef enum {
    LAC_OPT_STRING, /* field: char[size] */
    LAC_OPT_INT,    /* field: int64_t */
    LAC_OPT_NUMBER, /* field: double */
    LAC_OPT_BOOL,   /* field: bool; a flag without a value means true */
    LAC_OPT_SIZE    /* field: int64_t bytes; accepts K, M, G (binary) */
} lac_option_type;

typedef struct {
    const char *name; /* "http": flag --http, file key http, environment LACUNA_HTTP ('-' → '_') */
    lac_option_type type;
    size_t offset;      /* of the field in the options struct */
    size_t size;        /* of a string field, its NUL included */
    const char *preset; /* default as text; NULL = zero or empty */
    double low, high;   /* range of numbers */
    bool live;          /* may change by reload */
    const char *value;  /* how help names the value ("HOST:PORT") */
    const char *help;   /* one line */
} lac_option;

/* Fills `out` from presets, then file, environment and argv, later ones winning. "--config FILE" is
 * always understood; without it no file is read. Words that are no flags are left in *words
 * (pointers into argv, at most `words_max`; more is an error). An unknown name, bad value or
 * out-of-range number is LAC_EINVAL naming option, value and range. */
lac_status lac_config_load(const lac_option *table, size_t count, int argc, char **argv, void *out,
                           const char **words, size_t words_max, size_t *words_count,
                           lac_error *err);
/* A file of sections, every one of them filled from the same table: presets, then its lines. `each`
 * gets a section's name and struct (of `size` bytes) when it is complete, in the file's order; its
 * error ends the reading. A section without lines is skipped. LAC_EINVAL names line, field, value.
 */
lac_status lac_config_sections(const lac_option *table, size_t count, size_t size, const char *path,
                               lac_status (*each)(void *arg, const char *section,
                                                  const void *fields, lac_error *err),
                               void *arg, lac_error *err);
/* The options part of --help. */
void lac_config_help(const lac_option *table, size_t count, FILE *to);
/* A commented sample file with every option at its default. */
void lac_config_sample(const lac_option *table, size_t count, FILE *to);

#endif
