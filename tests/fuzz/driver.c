/* Stands in for libFuzzer where that is not built: runs every file of the folders and files named
 * on the command line, each also cut and bent in a few fixed ways, through the target. A crash, a
 * sanitizer report or an abort fails the test; so does an empty corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 1 << 20, MUTANTS = 48 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* On an exact copy, so that a sanitizer sees the first byte read past the end. */
static void run_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A changed byte, a byte of all ones, a cut, or eight bytes of a border value. */
static void mutate(uint8_t *data, size_t *size, uint32_t *state)
{
    static const uint64_t borders[] = {0, 1, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_C(1) << 32};
    size_t at = draw(state) % *size;
    switch (draw(state) % 4) {
    case 0: data[at] ^= (uint8_t)(1u << draw(state) % 8); break;
    case 1: data[at] = 0xff; break;
    case 2: *size = at; break;
    default:
        if (*size - at >= 8)
            memcpy(data + at, &borders[draw(state) % 6], 8);
    }
}

static size_t run_file(const char *path)
{
    static uint8_t data[INPUT_BYTES_MAX], mutant[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    run_copy(data, size);
    uint32_t state = (uint32_t)size;
    for (int i = 0; i < MUTANTS && size > 0; i++) {
        size_t cut = size;
        memcpy(mutant, data, size);
        for (uint32_t n = 1 + draw(&state) % 3; n > 0 && cut > 0; n--)
            mutate(mutant, &cut, &state);
        run_copy(mutant, cut);
    }
    return 1;
}

static size_t run_folder(const char *path)
{
    struct dirent **entries;
    size_t count = 0;
    int found = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            count += run_file(name);
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0) {
            perror(argv[i]);
            return 1;
        }
        count += S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    printf("%zu inputs, each with %d mutants\n", count, MUTANTS);
    return count > 0 ? 0 : 1;
}
