/* Reads prompt sets and keeps calibration and hold-out apart. One thread. Must not know engines,
 * tokens or masks. */
#include "calibrate/prompts.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

void lac_prompts_free(lac_prompt_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free(set->prompts[i].id);
        free(set->prompts[i].text);
    }
    for (uint32_t i = 0; i < set->documents_count; i++)
        free(set->documents[i]);
    free(set->prompts);
    free(set->documents);
    *set = (lac_prompt_set){0};
}

/* ---- one line ---- */

static lac_status string_of(json_t *line, const char *field, const char **out, size_t *length,
                            size_t max, lac_error *err)
{
    json_t *value = json_object_get(line, field);
    if (!json_is_string(value))
        return lac_fail(err, LAC_EINVAL, "%s is missing or no string", field);
    *out = json_string_value(value);
    *length = json_string_length(value);
    if (*length == 0 || *length > max || strlen(*out) != *length)
        return lac_fail(err, LAC_EINVAL, "%s is %zu bytes, allowed 1..%zu without NUL", field,
                        *length, max);
    return LAC_OK;
}

static lac_status fields_check(json_t *line, lac_error *err)
{
    static const char *const known[] = {"id", "document", "type", "text", "messages"};
    const char *key;
    json_t *value;
    if (!json_is_object(line))
        return lac_fail(err, LAC_EINVAL, "not a JSON object");
    json_object_foreach(line, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return lac_fail(err, LAC_EINVAL, "field \"%.64s\" is not known", key);
    }
    if (!json_object_get(line, "text") == !json_object_get(line, "messages"))
        return lac_fail(err, LAC_EINVAL, "one of text and messages is needed");
    return LAC_OK;
}

static lac_status messages_render(json_t *list, const lac_prompt_chat *chat, char **text,
                                  size_t *length, lac_error *err)
{
    size_t count = json_array_size(list);
    if (!chat || !chat->family)
        return lac_fail(err, LAC_EUNSUPPORTED, "messages: the model has no known chat template");
    if (!json_is_array(list) || count == 0 || count > LAC_MESSAGES_MAX)
        return lac_fail(err, LAC_EINVAL, "messages has %zu entries, allowed 1..%d", count,
                        LAC_MESSAGES_MAX);
    lac_chat_message *messages = lac_alloc(count, sizeof *messages);
    lac_status status = LAC_OK;
    for (size_t i = 0; i < count && status == LAC_OK; i++) {
        const char *role, *content;
        size_t role_length, content_length;
        json_t *message = json_array_get(list, i);
        status = string_of(message, "role", &role, &role_length, LAC_ROLE_BYTES_MAX, err);
        if (status == LAC_OK)
            status =
                string_of(message, "content", &content, &content_length, LAC_PROMPT_BYTES_MAX, err);
        if (status == LAC_OK) {
            memcpy(messages[i].role, role, role_length + 1);
            messages[i].content = (lac_span){.data = content, .length = (uint32_t)content_length};
        }
    }
    lac_buf out = {.cap = LAC_PROMPT_BYTES_MAX};
    if (status == LAC_OK)
        status = lac_chat_render(chat->family, &chat->context, messages, count, true, &out, err);
    if (status == LAC_OK) {
        *text = lac_strndup(out.data, out.length);
        *length = out.length;
    }
    lac_buf_free(&out);
    free(messages);
    return status;
}

static uint32_t document_of(lac_prompt_set *set, const char *name)
{
    /* Lines of one document mostly follow each other. */
    for (uint32_t d = set->documents_count; d > 0; d--)
        if (strcmp(set->documents[d - 1], name) == 0)
            return d - 1;
    set->documents = lac_realloc(set->documents, set->documents_count + 1, sizeof *set->documents);
    set->documents[set->documents_count] = lac_strndup(name, strlen(name));
    return set->documents_count++;
}

static lac_status line_take(json_t *line, const char *type, const lac_prompt_chat *chat,
                            lac_prompt_set *set, lac_error *err)
{
    const char *id, *document, *kind, *text;
    size_t length, text_length;
    lac_status status = fields_check(line, err);
    if (status == LAC_OK)
        status = string_of(line, "type", &kind, &length, LAC_NAME_MAX, err);
    if (status != LAC_OK)
        return status;
    if (strcmp(kind, type) != 0) {
        set->left_out++;
        return LAC_OK;
    }
    status = string_of(line, "id", &id, &length, LAC_PROMPT_ID_MAX, err);
    if (status == LAC_OK)
        status = string_of(line, "document", &document, &length, LAC_PROMPT_ID_MAX, err);
    if (status != LAC_OK)
        return status;
    if (set->count == LAC_PROMPTS_MAX)
        return lac_fail(err, LAC_ETOOBIG, "more than %d prompts", LAC_PROMPTS_MAX);
    lac_prompt_item prompt = {0};
    json_t *messages = json_object_get(line, "messages");
    prompt.chat = messages != NULL;
    if (messages) {
        status = messages_render(messages, chat, &prompt.text, &prompt.length, err);
    } else {
        status = string_of(line, "text", &text, &text_length, LAC_PROMPT_BYTES_MAX, err);
        if (status == LAC_OK) {
            prompt.text = lac_strndup(text, text_length);
            prompt.length = text_length;
        }
    }
    if (status != LAC_OK)
        return status;
    prompt.id = lac_strndup(id, strlen(id));
    prompt.document = document_of(set, document);
    if (set->count % 256 == 0)
        set->prompts = lac_realloc(set->prompts, set->count + 256, sizeof *set->prompts);
    set->prompts[set->count++] = prompt;
    return LAC_OK;
}

/* ---- the set ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lac_status ids_check(const lac_prompt_set *set, lac_error *err)
{
    char **ids = lac_alloc(set->count + 1, sizeof *ids);
    for (uint32_t i = 0; i < set->count; i++)
        ids[i] = set->prompts[i].id;
    qsort(ids, set->count, sizeof *ids, by_text);
    lac_status status = LAC_OK;
    for (uint32_t i = 1; i < set->count && status == LAC_OK; i++)
        if (strcmp(ids[i - 1], ids[i]) == 0)
            status = lac_fail(err, LAC_EINVAL, "id \"%s\" is there twice", ids[i]);
    free(ids);
    return status;
}

static void digest_make(lac_prompt_set *set)
{
    lac_hasher *hasher = lac_hasher_create();
    for (uint32_t i = 0; i < set->count; i++) {
        const char *document = set->documents[set->prompts[i].document];
        lac_hasher_add(hasher, document, strlen(document) + 1);
        lac_hasher_add(hasher, set->prompts[i].text, set->prompts[i].length + 1);
    }
    lac_hasher_finish(&hasher, &set->digest);
}

lac_status lac_prompts_parse(const char *name, const char *bytes, size_t length, const char *type,
                             const lac_prompt_chat *chat, lac_prompt_set *out, lac_error *err)
{
    lac_prompt_set set = {0};
    lac_status status = LAC_OK;
    size_t number = 0;
    for (size_t at = 0; at < length && status == LAC_OK;) {
        const char *end = memchr(bytes + at, '\n', length - at);
        size_t size = end ? (size_t)(end - bytes) - at : length - at;
        number++;
        if (size > 0) {
            json_error_t error;
            json_t *line = json_loadb(bytes + at, size, JSON_REJECT_DUPLICATES, &error);
            status = line ? line_take(line, type, chat, &set, err)
                          : lac_fail(err, LAC_EINVAL, "%.120s", error.text);
            json_decref(line);
            if (status != LAC_OK)
                status = lac_fail_in(err, "%s line %zu", name, number);
        }
        at += size + 1;
    }
    if (status == LAC_OK && set.count == 0)
        status = lac_fail(err, LAC_EINVAL, "%s: no prompt of type %s among %zu lines", name, type,
                          number);
    if (status == LAC_OK && ids_check(&set, err) != LAC_OK)
        status = lac_fail_in(err, "%s", name);
    if (status != LAC_OK) {
        lac_prompts_free(&set);
        return status;
    }
    digest_make(&set);
    *out = set;
    return LAC_OK;
}

lac_status lac_prompts_read(const char *path, const char *type, const lac_prompt_chat *chat,
                            lac_prompt_set *out, lac_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    lac_buf buf = {.cap = LAC_PROMPTS_FILE_MAX};
    char block[65536];
    size_t got;
    lac_status status = LAC_OK;
    while (status == LAC_OK && (got = fread(block, 1, sizeof block, file)) > 0)
        if (!lac_buf_add(&buf, block, got))
            status =
                lac_fail(err, LAC_ETOOBIG, "%s: more than %d bytes", path, LAC_PROMPTS_FILE_MAX);
    if (status == LAC_OK && ferror(file))
        status = lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    fclose(file);
    if (status == LAC_OK)
        status = lac_prompts_parse(path, buf.data, buf.length, type, chat, out, err);
    lac_buf_free(&buf);
    return status;
}

/* ---- apart ---- */

enum { SHINGLE = 12 /* words */ };

/* FNV-1a: a small hash of words that is the same everywhere; nothing secret depends on it. */
static uint64_t hash_add(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++, value >>= 8)
        hash = (hash ^ (value & 255)) * UINT64_C(1099511628211);
    return hash;
}

typedef struct {
    uint64_t *items;
    size_t count, size;
} hashes;

static void hashes_push(hashes *list, uint64_t value)
{
    if (list->count == list->size) {
        list->size = list->size ? 2 * list->size : 1024;
        list->items = lac_realloc(list->items, list->size, sizeof *list->items);
    }
    list->items[list->count++] = value;
}

/* Hashes of the words: runs of letters and digits, whatever stands between them. */
static void words_of(const lac_prompt_item *prompt, hashes *out)
{
    out->count = 0;
    for (size_t at = 0; at < prompt->length;) {
        uint64_t hash = UINT64_C(14695981039346656037);
        size_t from = at;
        for (; at < prompt->length; at++) {
            unsigned char c = (unsigned char)prompt->text[at];
            if (!isalnum(c) && c < 0x80)
                break;
            hash = (hash ^ (uint64_t)tolower(c)) * UINT64_C(1099511628211);
        }
        if (at > from)
            hashes_push(out, hash);
        else
            at++;
    }
}

/* Hashes of each run of SHINGLE words, and one of all words, which also keeps short texts apart. */
static uint64_t shingles_of(const hashes *words, hashes *out)
{
    uint64_t all = words->count;
    for (size_t i = 0; i < words->count; i++)
        all = hash_add(all, words->items[i]);
    for (size_t i = 0; i + SHINGLE <= words->count; i++) {
        uint64_t hash = 1;
        for (size_t k = 0; k < SHINGLE; k++)
            hash = hash_add(hash, words->items[i + k]);
        hashes_push(out, hash);
    }
    return all;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool seen(const hashes *sorted, uint64_t value)
{
    return sorted->count > 0 &&
           bsearch(&value, sorted->items, sorted->count, sizeof value, by_hash) != NULL;
}

static lac_status names_disjoint(const lac_prompt_set *a, const lac_prompt_set *b, lac_error *err)
{
    char **names = lac_alloc(a->documents_count + 1, sizeof *names);
    memcpy(names, a->documents, a->documents_count * sizeof *names);
    qsort(names, a->documents_count, sizeof *names, by_text);
    lac_status status = LAC_OK;
    for (uint32_t d = 0; d < b->documents_count && status == LAC_OK; d++)
        if (bsearch(&b->documents[d], names, a->documents_count, sizeof *names, by_text))
            status = lac_fail(err, LAC_EREFUSED,
                              "hold-out overlaps calibration: document \"%s\" is in both",
                              b->documents[d]);
    free(names);
    return status;
}

lac_status lac_prompts_disjoint(const lac_prompt_set *calibration, const lac_prompt_set *holdout,
                                lac_error *err)
{
    lac_status status = names_disjoint(calibration, holdout, err);
    hashes words = {0}, runs = {0}, texts = {0}, own = {0};
    for (uint32_t i = 0; i < calibration->count && status == LAC_OK; i++) {
        words_of(&calibration->prompts[i], &words);
        hashes_push(&texts, shingles_of(&words, &runs));
    }
    if (runs.count > 0)
        qsort(runs.items, runs.count, sizeof *runs.items, by_hash);
    if (texts.count > 0)
        qsort(texts.items, texts.count, sizeof *texts.items, by_hash);
    for (uint32_t i = 0; i < holdout->count && status == LAC_OK; i++) {
        const lac_prompt_item *prompt = &holdout->prompts[i];
        words_of(prompt, &words);
        own.count = 0;
        uint64_t all = shingles_of(&words, &own);
        size_t shared = 0;
        for (size_t k = 0; k < own.count; k++)
            shared += seen(&runs, own.items[k]);
        if (seen(&texts, all) || 2 * shared > own.count)
            status = lac_fail(err, LAC_EREFUSED,
                              "hold-out overlaps calibration: prompt \"%s\" of document \"%s\" has "
                              "%zu of its %zu runs of %d words there",
                              prompt->id, holdout->documents[prompt->document], shared, own.count,
                              SHINGLE);
    }
    free(words.items);
    free(runs.items);
    free(texts.items);
    free(own.items);
    return status;
}
