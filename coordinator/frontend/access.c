/* The list of API keys. A key is 256 random bits, so its plain hash gives nothing away. */
#include "access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/text.h"

enum { LINE_MAX_BYTES = 512, HASH_DIGITS = 64 };

typedef struct {
    char name[LAC_NAME_MAX + 1];
    lac_digest digest;
} entry;

struct lac__access {
    entry *entries;
    size_t count;
};

static lac_status add(lac__access *a, const char *path, unsigned number, char *line, lac_error *err)
{
    char *rest = NULL, *name = strtok_r(line, " \t\r\n", &rest),
         *hash = strtok_r(NULL, " \t\r\n", &rest);
    entry fresh = {0};
    if (!name || *name == '#')
        return LAC_OK;
    if (!hash || strtok_r(NULL, " \t\r\n", &rest) || strlen(name) > LAC_NAME_MAX ||
        !lac_unhex(hash, fresh.digest.bytes, sizeof fresh.digest.bytes))
        return lac_fail(err, LAC_EINVAL, "%s:%u: expected NAME HASH, the hash %d digits 0-9a-f",
                        path, number, HASH_DIGITS);
    if (a->count == LAC_ALLOWED_MAX)
        return lac_fail(err, LAC_ETOOBIG, "%s has more than %d keys", path, LAC_ALLOWED_MAX);
    snprintf(fresh.name, sizeof fresh.name, "%s", name);
    for (size_t i = 0; i < a->count; i++)
        if (!strcmp(a->entries[i].name, fresh.name) ||
            !memcmp(&a->entries[i].digest, &fresh.digest, sizeof fresh.digest))
            return lac_fail(err, LAC_EEXIST, "%s:%u: name or key is there already (\"%s\")", path,
                            number, a->entries[i].name);
    a->entries[a->count++] = fresh;
    return LAC_OK;
}

lac_status lac__access_load(const char *path, lac__access **out, lac_error *err)
{
    char line[LINE_MAX_BYTES];
    unsigned number = 0;
    lac_status status = LAC_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return lac_fail(err, LAC_ENOTFOUND, "%s: %s", path, strerror(errno));
    lac__access *a = lac_alloc(1, sizeof *a);
    a->entries = lac_alloc(LAC_ALLOWED_MAX, sizeof *a->entries);
    while (status == LAC_OK && fgets(line, sizeof line, file)) {
        number++;
        if (!strchr(line, '\n') && !feof(file))
            status = lac_fail(err, LAC_ETOOBIG, "%s:%u: the line has more than %d bytes", path,
                              number, LINE_MAX_BYTES - 2);
        else
            status = add(a, path, number, line, err);
    }
    if (status == LAC_OK && ferror(file))
        status = lac_fail(err, LAC_EIO, "%s: cannot be read", path);
    fclose(file);
    if (status == LAC_OK && !a->count)
        status = lac_fail(err, LAC_EINVAL, "%s lets nobody in", path);
    if (status != LAC_OK) {
        lac__access_free(&a);
        return status;
    }
    *out = a;
    return LAC_OK;
}

void lac__access_free(lac__access **access)
{
    if (!*access)
        return;
    free((*access)->entries);
    free(*access);
    *access = NULL;
}

const char *lac__access_name(const lac__access *access, const char *key)
{
    lac_digest given;
    size_t found = 0; /* 1 + its place */
    lac_sha256(key, strlen(key), &given);
    for (size_t i = 0; i < access->count; i++) {
        unsigned differ = 0;
        for (size_t k = 0; k < sizeof given.bytes; k++)
            differ |= access->entries[i].digest.bytes[k] ^ given.bytes[k];
        found |= (0 - (size_t)(differ == 0)) & (i + 1);
    }
    return found ? access->entries[found - 1].name : NULL;
}
