/* Walks the rooms and judges every include by the tables. Knows no folder by name. */
#include "house.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096, DEPTH_MAX = 12 };

typedef struct {
    const char *root;
    FILE *out;
    int offences;
} check;

static const char *const rooms[] = {"proto", "coordinator", "worker", "kernels", "cluster", "ops"};
enum { ROOMS = sizeof(rooms) / sizeof(rooms[0]) };

/* A path longer than its buffer would name another file: no tree of ours has one. */
__attribute__((format(printf, 3, 4))) static void put(char *to, size_t size, const char *format,
                                                      ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(to, size, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= size)
        abort();
}

/* ---- words ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *name, const char *with)
{
    size_t length = strlen(name), tail = strlen(with);
    return length >= tail && strcmp(name + length - tail, with) == 0;
}

/* Calls for each blank-separated word until one says yes. */
static bool any_word(const char *words, bool (*test)(const char *word, const char *text),
                     const char *text)
{
    char word[PATH_BYTES];
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        put(word, sizeof(word), "%.*s", (int)length, words);
        if (length > 0 && test(word, text))
            return true;
        words += length + (words[length] == ' ');
    }
    return false;
}

static bool word_is(const char *word, const char *text)
{
    return strcmp(word, text) == 0;
}

static bool word_begins_text(const char *word, const char *text)
{
    return begins(text, word);
}

/* "worker/" stands for every folder below it. */
static bool word_names_folder(const char *word, const char *folder)
{
    return word[strlen(word) - 1] == '/' ? begins(folder, word) : word_is(word, folder);
}

static bool exists(const check *c, const char *path)
{
    char full[2 * PATH_BYTES];
    struct stat st;
    put(full, sizeof(full), "%s/%s", c->root, path);
    return stat(full, &st) == 0;
}

/* The row of the folder that `path` lies in: the longest name that leads to it. */
static const house_arrow *arrow_of(const char *path)
{
    const house_arrow *best = NULL;
    for (size_t i = 0; i < house_arrows_count; i++) {
        const char *folder = house_arrows[i].folder;
        size_t length = strlen(folder);
        bool inside = begins(path, folder) && (path[length] == '/' || path[length] == '\0');
        if (inside && (best == NULL || length > strlen(best->folder)))
            best = &house_arrows[i];
    }
    return best;
}

/* ---- one include ---- */

static void offence(check *c, const char *path, int line, const char *what, const char *why)
{
    fprintf(c->out, "%s:%d: %s: %s\n", path, line, what, why);
    c->offences++;
}

/* Whether files of `from` may include what `to` publishes. */
static bool allowed(const house_arrow *from, const house_arrow *to)
{
    return to == from || strcmp(to->folder, "proto/base") == 0 ||
           any_word(from->may_use, word_names_folder, to->folder);
}

/* The folder whose include/ holds `header`, or NULL. Two folders may publish the same name (each
 * room has a link); the compiler sees the one that is linked, so an allowed one is taken first. */
static const house_arrow *owner_of(const check *c, const house_arrow *from, const char *header)
{
    char path[2 * PATH_BYTES];
    const house_arrow *found = NULL;
    for (size_t i = 0; i < house_arrows_count; i++) {
        put(path, sizeof(path), "%s/include/%s", house_arrows[i].folder, header);
        if (exists(c, path) && (found == NULL || allowed(from, &house_arrows[i])))
            found = &house_arrows[i];
    }
    return found;
}

/* Headers that the build makes; true when `header` is one, judged or not. */
static bool judge_generated(check *c, const char *path, int line, const char *header)
{
    for (size_t i = 0; i < house_generated_count; i++) {
        if (!ends(header, house_generated[i].header))
            continue;
        if (!any_word(house_generated[i].doors, word_begins_text, path))
            offence(c, path, line, header, "is generated for another folder only");
        return true;
    }
    return false;
}

static void judge_own(check *c, const char *path, int line, const char *header)
{
    char why[3 * PATH_BYTES], beside[3 * PATH_BYTES];
    const house_arrow *from = arrow_of(path);
    if (strstr(header, "..") != NULL) {
        offence(c, path, line, header,
                "climbs out of its folder; include another folder's public header by its name");
        return;
    }
    put(beside, sizeof(beside), "%.*s%s", (int)(strrchr(path, '/') + 1 - path), path, header);
    if (exists(c, beside) || judge_generated(c, path, line, header))
        return; /* a private header, or a made one */
    const house_arrow *to = owner_of(c, from, header);
    if (to == NULL) {
        offence(c, path, line, header, "is in no folder's include/ and not beside the file");
        return;
    }
    if (allowed(from, to))
        return;
    put(why, sizeof(why), "belongs to %s, and %s may use only proto/base %s", to->folder,
        from->folder, from->may_use);
    offence(c, path, line, header, why);
}

static void judge_third_party(check *c, const char *path, int line, const char *header)
{
    char why[PATH_BYTES];
    for (size_t i = 0; i < house_doors_count; i++) {
        if (!begins(header, house_doors[i].header))
            continue;
        if (any_word(house_doors[i].doors, word_begins_text, path))
            return;
        put(why, sizeof(why), "may be included only from %s", house_doors[i].doors);
        offence(c, path, line, header, why);
        return;
    }
}

/* Reads `# include "x"` or `<x>`; false for any other line. */
static bool include_read(const char *line, char *header, size_t size, bool *quoted)
{
    const char *p = line + strspn(line, " \t");
    if (*p++ != '#')
        return false;
    p += strspn(p, " \t");
    if (!begins(p, "include"))
        return false;
    p += strlen("include");
    p += strspn(p, " \t");
    if (*p != '"' && *p != '<')
        return false;
    *quoted = *p == '"';
    size_t length = strcspn(p + 1, *quoted ? "\"" : ">");
    put(header, size, "%.*s", (int)length, p + 1);
    return true;
}

/* Follows block comments, so that an include that is only talked about does not count. */
static bool comment_after(const char *line, bool inside)
{
    for (const char *p = line; *p != '\0'; p++) {
        if (inside && begins(p, "*/"))
            inside = false;
        else if (!inside && begins(p, "//"))
            return false;
        else if (!inside && begins(p, "/*"))
            inside = true, p++;
    }
    return inside;
}

static void file_check(check *c, const char *path)
{
    char full[2 * PATH_BYTES], line[LINE_BYTES], header[PATH_BYTES];
    bool commented = false, quoted = false;
    put(full, sizeof(full), "%s/%s", c->root, path);
    FILE *file = fopen(full, "r");
    if (file == NULL) {
        offence(c, path, 0, "file", "cannot be read");
        return;
    }
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        if (!commented && include_read(line, header, sizeof(header), &quoted)) {
            if (quoted)
                judge_own(c, path, number, header);
            judge_third_party(c, path, number, header);
        }
        commented = comment_after(line, commented);
    }
    fclose(file);
}

/* ---- places ---- */

/* A public header lies in <folder>/include/<last name of the folder>/, so that an include says
 * whose it is. The one header for programs outside stands alone. */
static void place_check(check *c, const char *path)
{
    char want[PATH_BYTES];
    const house_arrow *folder = arrow_of(path);
    const char *include = strstr(path, "/include/");
    if (folder == NULL) {
        offence(c, path, 1, "file", "lies in a folder that the table of the house does not name");
        return;
    }
    if (include == NULL || strcmp(path, "proto/client/include/lacuna_client.h") == 0)
        return;
    const char *last = strrchr(folder->folder, '/');
    put(want, sizeof(want), "%s/include/%s/", folder->folder,
        last != NULL ? last + 1 : folder->folder);
    if (!begins(path, want))
        offence(c, path, 1, "public header", want);
}

static void language_check(check *c, const char *path)
{
    static const char *const cxx[] = {".cpp", ".cc", ".cxx", ".hpp", ".cu", ".cuh"};
    for (size_t i = 0; i < sizeof(cxx) / sizeof(cxx[0]); i++)
        if (ends(path, cxx[i]) && !begins(path, "kernels/cuda/"))
            offence(c, path, 1, "C++ or CUDA", "only under kernels/cuda");
}

static void walk(check *c, const char *path, int depth)
{
    char full[2 * PATH_BYTES], below[2 * PATH_BYTES];
    struct dirent **names = NULL;
    put(full, sizeof(full), "%s/%s", c->root, path);
    int count = depth < DEPTH_MAX ? scandir(full, &names, NULL, alphasort) : -1;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        struct stat st;
        put(below, sizeof(below), "%s/%s", path, name);
        put(full, sizeof(full), "%s/%s", c->root, below);
        bool wanted = name[0] != '.' && strlen(below) < PATH_BYTES && stat(full, &st) == 0;
        free(names[i]);
        if (!wanted)
            continue;
        if (S_ISDIR(st.st_mode)) {
            walk(c, below, depth + 1);
            continue;
        }
        language_check(c, below);
        if (!ends(below, ".c") && !ends(below, ".h") && !ends(below, ".cu"))
            continue;
        int before = c->offences;
        place_check(c, below);
        if (c->offences == before || arrow_of(below) != NULL)
            file_check(c, below);
    }
    free(names);
}

static void top_check(check *c, int required)
{
    struct dirent **names = NULL;
    int count = scandir(c->root, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        bool known = name[0] == '.' || any_word(house_top, word_is, name) ||
                     any_word(house_top_extra, word_is, name);
        if (!known)
            offence(c, name, 0, "top level", "is no room of the house");
        free(names[i]);
    }
    free(names);
    char copy[sizeof(rooms) + 256];
    put(copy, sizeof(copy), "%s", house_top);
    for (char *rest = copy, *word; required && (word = strsep(&rest, " ")) != NULL;)
        if (!exists(c, word))
            offence(c, word, 0, "top level", "is missing");
}

int house_check(const char *root, int required, FILE *out)
{
    check c = {.root = root, .out = out};
    top_check(&c, required);
    for (int i = 0; i < ROOMS; i++)
        walk(&c, rooms[i], 0);
    return c.offences;
}
