/* Options of a program: one table, filled from presets, config file, environment and flags in that
 * order. Owns the rules of reading; knows no option by name but "config". Runs at start and at a
 * reload, on the thread that asks. Nothing is written to the caller's struct until all of it is
 * good.
 *
 * A number's range with low == high == 0 means "any". */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"

enum { OPTIONS_MAX = 256, NAME_MAX_BYTES = 48, FILE_BYTES_MAX = 1 << 20 };

/* Longer names inih would cut without a word. */
enum { SECTION_MAX_BYTES = 48 };

/* One load in progress. */
typedef struct {
    const lac_option *table;
    size_t count;
    char *fields; /* scratch copy of the caller's struct */
    lac_error *err;
    lac_status status; /* first failure inside the file callback */
    FILE *file;
    int line;
    bool seen[OPTIONS_MAX]; /* keys of the file, or of its section */
    /* A file of sections: */
    char section[SECTION_MAX_BYTES + 1]; /* the one being filled; "" = none yet */
    lac_status (*each)(void *arg, const char *section, const void *fields, lac_error *err);
    void *arg;
} load;

static size_t field_size(const lac_option *option)
{
    switch (option->type) {
    case LAC_OPT_STRING: return option->size;
    case LAC_OPT_NUMBER: return sizeof(double);
    case LAC_OPT_BOOL: return sizeof(bool);
    case LAC_OPT_INT:
    case LAC_OPT_SIZE: return sizeof(int64_t);
    }
    LAC_ASSERT(!"option type");
    return 0;
}

/* ---- one value ---- */

static void range_of(const lac_option *option, int64_t *low, int64_t *high)
{
    bool any = option->low == 0 && option->high == 0;
    *low = any ? (option->type == LAC_OPT_SIZE ? 0 : INT64_MIN) : (int64_t)option->low;
    *high = any || option->high >= 9.2e18 ? INT64_MAX : (int64_t)option->high;
}

/* Digits and an optional K, M or G (binary); false on junk or overflow. */
static bool size_parse(const char *text, int64_t *out)
{
    char digits[24];
    size_t length = strlen(text);
    int shift = 0;
    if (length > 0) {
        switch (toupper((unsigned char)text[length - 1])) {
        case 'K': shift = 10; break;
        case 'M': shift = 20; break;
        case 'G': shift = 30; break;
        default: break;
        }
    }
    length -= shift != 0;
    if (length == 0 || length >= sizeof(digits))
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    int64_t value;
    if (!lac_parse_i64(digits, 0, INT64_MAX >> shift, &value))
        return false;
    *out = value * (INT64_C(1) << shift);
    return true;
}

static bool bool_parse(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        bool is_yes = strcasecmp(text, yes[i]) == 0;
        if (is_yes || strcasecmp(text, no[i]) == 0) {
            *out = is_yes;
            return true;
        }
    }
    return false;
}

/* Appends " (range …)" in the option's own unit. */
static void range_text(const lac_option *option, char *to, size_t size)
{
    to[0] = '\0';
    if (option->low == 0 && option->high == 0)
        return;
    snprintf(to, size, ", allowed %.15g to %.15g", option->low, option->high);
}

static lac_status int_set(const lac_option *option, const char *source, const char *text,
                          int64_t *field, lac_error *err)
{
    int64_t low, high, value = 0;
    char range[80];
    range_of(option, &low, &high);
    range_text(option, range, sizeof(range));
    bool is_size = option->type == LAC_OPT_SIZE;
    bool good =
        is_size ? size_parse(text, &value) : lac_parse_i64(text, INT64_MIN, INT64_MAX, &value);
    if (!good)
        return lac_fail(err, LAC_EINVAL, "%s is \"%.40s\", not %s%s", source, text,
                        is_size ? "a size (digits and K, M or G)" : "a whole number", range);
    if (value < low || value > high)
        return lac_fail(err, LAC_EINVAL, "%s is %lld%s", source, (long long)value, range);
    *field = value;
    return LAC_OK;
}

static lac_status number_set(const lac_option *option, const char *source, const char *text,
                             double *field, lac_error *err)
{
    bool any = option->low == 0 && option->high == 0;
    double value;
    char range[80];
    range_text(option, range, sizeof(range));
    if (!lac_parse_f64(text, -1e300, 1e300, &value))
        return lac_fail(err, LAC_EINVAL, "%s is \"%.40s\", not a number%s", source, text, range);
    if (!any && (value < option->low || value > option->high))
        return lac_fail(err, LAC_EINVAL, "%s is %g%s", source, value, range);
    *field = value;
    return LAC_OK;
}

/* Checks `text` and stores it in the option's field. `source` names the place in error texts
 * ("--port", "LACUNA_PORT", "file:3: port"). */
static lac_status value_set(const lac_option *option, const char *source, const char *text,
                            char *fields, lac_error *err)
{
    void *field = fields + option->offset;
    switch (option->type) {
    case LAC_OPT_STRING: {
        size_t length = strlen(text);
        if (length >= option->size)
            return lac_fail(err, LAC_EINVAL, "%s is %zu bytes long, allowed at most %zu", source,
                            length, option->size - 1);
        memcpy(field, text, length + 1);
        return LAC_OK;
    }
    case LAC_OPT_INT:
    case LAC_OPT_SIZE: return int_set(option, source, text, field, err);
    case LAC_OPT_NUMBER: return number_set(option, source, text, field, err);
    case LAC_OPT_BOOL:
        if (!bool_parse(text, field))
            return lac_fail(err, LAC_EINVAL, "%s is \"%.40s\", allowed true or false", source,
                            text);
        return LAC_OK;
    }
    LAC_ASSERT(!"option type");
    return LAC_EINTERNAL;
}

static const lac_option *option_find(const lac_option *table, size_t count, const char *name,
                                     size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(table[i].name, name, length) == 0 && table[i].name[length] == '\0')
            return &table[i];
    return NULL;
}

/* ---- the four sources ---- */

static void presets_apply(load *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const lac_option *option = &l->table[i];
        memset(l->fields + option->offset, 0, field_size(option));
        if (option->preset == NULL)
            continue;
        /* A preset outside its own range is a mistake in the table. */
        lac_status status = value_set(option, option->name, option->preset, l->fields, l->err);
        LAC_ASSERT(status == LAC_OK);
    }
}

/* As fgets, but a line that does not fit ends the reading with an error instead of becoming two. */
static char *file_line(char *line, int size, void *stream)
{
    load *l = stream;
    if (l->status != LAC_OK || fgets(line, size, l->file) == NULL)
        return NULL;
    l->line++;
    size_t length = strlen(line);
    if (length > 0 && line[length - 1] != '\n' && !feof(l->file)) {
        l->status = lac_fail(l->err, LAC_EINVAL, "line %d is longer than %d bytes or holds a NUL",
                             l->line, size - 2);
        return NULL;
    }
    return line;
}

static int option_entry(load *l, const char *name, const char *value)
{
    const lac_option *option = option_find(l->table, l->count, name, strlen(name));
    if (option == NULL) {
        l->status =
            lac_fail(l->err, LAC_EINVAL, "line %d: option \"%.60s\" is not known", l->line, name);
        return 0;
    }
    char source[NAME_MAX_BYTES + 32];
    snprintf(source, sizeof(source), "line %d: %s", l->line, option->name);
    bool *seen = &l->seen[option - l->table];
    if (*seen) {
        l->status = lac_fail(l->err, LAC_EINVAL, "%s is given twice", source);
        return 0;
    }
    *seen = true;
    l->status = value_set(option, source, value, l->fields, l->err);
    return l->status == LAC_OK;
}

/* inih wants 1 for "go on"; every failure is kept in the load itself. */
static int file_entry(void *user, const char *section, const char *name, const char *value)
{
    load *l = user;
    if (l->status != LAC_OK)
        return 0;
    if (section[0] == '\0')
        return option_entry(l, name, value);
    l->status = lac_fail(l->err, LAC_EINVAL,
                         "line %d: section [%.40s] is not known, options stand outside sections",
                         l->line, section);
    return 0;
}

/* ---- sections ---- */

static lac_status section_end(load *l)
{
    if (l->section[0] == '\0')
        return LAC_OK;
    lac_status status = l->each(l->arg, l->section, l->fields, l->err);
    return status == LAC_OK ? LAC_OK : lac_fail_in(l->err, "section [%s]", l->section);
}

static int section_entry(void *user, const char *section, const char *name, const char *value)
{
    load *l = user;
    if (l->status != LAC_OK)
        return 0;
    if (section[0] == '\0' || strlen(section) > SECTION_MAX_BYTES)
        l->status =
            lac_fail(l->err, LAC_EINVAL,
                     section[0] == '\0' ? "line %d: %.40s stands before the first [NAME]"
                                        : "line %d: the section's name is too long (%.40s…)",
                     l->line, section[0] == '\0' ? name : section);
    else if (strcmp(section, l->section) != 0) {
        l->status = section_end(l);
        memcpy(l->section, section, strlen(section) + 1);
        memset(l->seen, 0, sizeof l->seen);
        presets_apply(l);
    }
    return l->status == LAC_OK ? option_entry(l, name, value) : 0;
}

static lac_status stream_read(load *l, const char *path, ini_handler entry)
{
    l->file = fopen(path, "re");
    if (l->file == NULL)
        return lac_fail(l->err, LAC_EIO, "config file %.200s: %s", path, strerror(errno));
    int broken = ini_parse_stream(file_line, l, entry, l);
    bool failed = ferror(l->file) != 0;
    fclose(l->file);
    l->file = NULL;
    if (l->status == LAC_OK && failed)
        l->status = lac_fail(l->err, LAC_EIO, "cannot be read: %s", strerror(errno));
    if (l->status == LAC_OK && broken != 0)
        l->status =
            lac_fail(l->err, LAC_EINVAL, "line %d is neither name = value nor a comment", broken);
    if (l->status != LAC_OK)
        return lac_fail_in(l->err, "config file %.120s", path);
    return LAC_OK;
}

static lac_status file_apply(load *l, const char *path)
{
    return stream_read(l, path, file_entry);
}

lac_status lac_config_sections(const lac_option *table, size_t count, size_t size, const char *path,
                               lac_status (*each)(void *arg, const char *section,
                                                  const void *fields, lac_error *err),
                               void *arg, lac_error *err)
{
    LAC_ASSERT(count <= OPTIONS_MAX);
    load l = {.table = table, .count = count, .err = err, .each = each, .arg = arg};
    l.fields = lac_alloc(size, 1);
    lac_status status = stream_read(&l, path, section_entry);
    if (status == LAC_OK)
        status = section_end(&l);
    free(l.fields);
    return status;
}

static void environment_name(const lac_option *option, char out[NAME_MAX_BYTES + 16])
{
    size_t at = (size_t)snprintf(out, NAME_MAX_BYTES + 16, "LACUNA_");
    for (const char *p = option->name; *p != '\0'; p++)
        out[at++] = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    out[at] = '\0';
}

static lac_status environment_apply(load *l)
{
    for (size_t i = 0; i < l->count; i++) {
        char name[NAME_MAX_BYTES + 16];
        environment_name(&l->table[i], name);
        const char *value = getenv(name);
        if (value == NULL)
            continue;
        lac_status status = value_set(&l->table[i], name, value, l->fields, l->err);
        if (status != LAC_OK)
            return status;
    }
    return LAC_OK;
}

/* Reads the flag at argv[*at], whose text starts with "--", and moves *at to its last word.
 * `config` receives the value of --config. In the first pass (`first`) only that one is looked at.
 */
static lac_status flag_apply(load *l, int argc, char **argv, int *at, const char **config,
                             bool first)
{
    const char *flag = argv[*at] + 2;
    size_t length = strcspn(flag, "=");
    const char *value = flag[length] == '=' ? flag + length + 1 : NULL;
    bool is_config = length == strlen("config") && strncmp(flag, "config", length) == 0;
    const lac_option *option = option_find(l->table, l->count, flag, length);
    if (option == NULL && !is_config)
        return lac_fail(l->err, LAC_EINVAL, "option --%.*s is not known (try --help)",
                        length > 60 ? 60 : (int)length, flag);
    if (value == NULL && option != NULL && option->type == LAC_OPT_BOOL)
        value = "true";
    if (value == NULL) {
        if (*at + 1 >= argc)
            return lac_fail(l->err, LAC_EINVAL, "option --%.*s needs a value", (int)length, flag);
        value = argv[++*at];
    }
    if (is_config) {
        *config = value;
        return LAC_OK;
    }
    if (first)
        return LAC_OK;
    char source[NAME_MAX_BYTES + 4];
    snprintf(source, sizeof(source), "--%s", option->name);
    return value_set(option, source, value, l->fields, l->err);
}

typedef struct {
    const char **list;
    size_t max, count;
} word_list;

static lac_status word_add(load *l, word_list *words, const char *word)
{
    if (words->count >= words->max)
        return lac_fail(l->err, LAC_EINVAL, "\"%.60s\" is one word too many, allowed %zu", word,
                        words->max);
    words->list[words->count++] = word;
    return LAC_OK;
}

/* Walks argv once. The first pass finds --config (the file comes before the environment, though its
 * flag comes last) and collects nothing. */
static lac_status argv_walk(load *l, int argc, char **argv, const char **config, word_list *words)
{
    bool flags_over = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        lac_status status = LAC_OK;
        if (!flags_over && strcmp(arg, "--") == 0)
            flags_over = true;
        else if (!flags_over && strncmp(arg, "--", 2) == 0)
            status = flag_apply(l, argc, argv, &i, config, words == NULL);
        else if (!flags_over && arg[0] == '-' && arg[1] != '\0')
            status = lac_fail(l->err, LAC_EINVAL, "option %.60s is not known (try --help)", arg);
        else if (words != NULL)
            status = word_add(l, words, arg);
        if (status != LAC_OK)
            return status;
    }
    return LAC_OK;
}

lac_status lac_config_load(const lac_option *table, size_t count, int argc, char **argv, void *out,
                           const char **words, size_t words_max, size_t *words_count,
                           lac_error *err)
{
    LAC_ASSERT(count <= OPTIONS_MAX);
    size_t span = 0;
    for (size_t i = 0; i < count; i++) {
        LAC_ASSERT(strlen(table[i].name) < NAME_MAX_BYTES);
        size_t end = table[i].offset + field_size(&table[i]);
        span = end > span ? end : span;
    }
    load l = {.table = table, .count = count, .err = err, .status = LAC_OK};
    l.fields = lac_alloc(span + 1, 1);
    memcpy(l.fields, out, span);
    const char *config = NULL;
    word_list list = {.list = words, .max = words_max};

    presets_apply(&l);
    lac_status status = argv_walk(&l, argc, argv, &config, NULL);
    if (status == LAC_OK && config != NULL)
        status = file_apply(&l, config);
    if (status == LAC_OK)
        status = environment_apply(&l);
    if (status == LAC_OK)
        status = argv_walk(&l, argc, argv, &config, &list);
    if (status == LAC_OK) {
        memcpy(out, l.fields, span);
        if (words_count != NULL)
            *words_count = list.count;
    }
    free(l.fields);
    return status;
}

/* ---- texts made from the table ---- */

static void range_print(const lac_option *option, FILE *to)
{
    bool ranged = option->type != LAC_OPT_STRING && option->type != LAC_OPT_BOOL &&
                  (option->low != 0 || option->high != 0);
    if (ranged)
        fprintf(to, ", %.15g to %.15g", option->low, option->high);
}

void lac_config_help(const lac_option *table, size_t count, FILE *to)
{
    enum { COLUMN = 30 };
    for (size_t i = 0; i < count; i++) {
        const lac_option *option = &table[i];
        bool valued = option->type != LAC_OPT_BOOL;
        int width = fprintf(to, "  --%s%s%s", option->name, valued ? " " : "",
                            valued ? (option->value != NULL ? option->value : "VALUE") : "");
        if (width >= COLUMN) {
            fprintf(to, "\n");
            width = 0;
        }
        fprintf(to, "%*s%s", COLUMN - width, "", option->help);
        if (option->preset != NULL && option->preset[0] != '\0')
            fprintf(to, " (default %s", option->preset);
        else if (option->low != 0 || option->high != 0)
            fprintf(to, " (default 0");
        else {
            fprintf(to, "\n");
            continue;
        }
        range_print(option, to);
        fprintf(to, ")\n");
    }
    fprintf(to, "  --config FILE               Read options from an INI file: name = value\n"
                "Each option is also an environment variable: --some-name is LACUNA_SOME_NAME.\n"
                "Flags win over the environment, that over the file.\n");
}

void lac_config_sample(const lac_option *table, size_t count, FILE *to)
{
    for (size_t i = 0; i < count; i++) {
        const lac_option *option = &table[i];
        const char *preset = option->preset != NULL           ? option->preset
                             : option->type == LAC_OPT_BOOL   ? "false"
                             : option->type == LAC_OPT_STRING ? ""
                                                              : "0";
        fprintf(to, "# %s", option->help);
        range_print(option, to);
        fprintf(to, "%s\n#%s = %s\n\n", option->live ? " (may change while running)" : "",
                option->name, preset);
    }
}
