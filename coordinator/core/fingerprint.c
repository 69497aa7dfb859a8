/* The fingerprint of a prompt: which text of it is judged, the length bucket, the key. Pure.
 * Sampling parameters are no argument of anything here, so they cannot matter. */
#include "type.h"

#include <string.h>

#include "base/prompt.h"

static const uint32_t bucket_tokens[LAC__BUCKETS] = {128, 512, 1024, 2048, 4096, 8192, 32768, 0};

uint32_t lac__bucket_tokens(uint8_t bucket)
{
    return bucket < LAC__BUCKETS ? bucket_tokens[bucket] : 0;
}

static uint8_t bucket_of(uint64_t tokens)
{
    uint8_t bucket = 0;
    while (bucket < LAC__BUCKETS - 1 && tokens > bucket_tokens[bucket])
        bucket++;
    return bucket;
}

/* The largest message of the user, the last of equals; the largest of all when no user spoke. */
static lac_span largest(const lac_prompt *prompt)
{
    lac_span best[2] = {{0}};
    for (uint32_t i = 0; i < prompt->messages_count; i++) {
        const lac_chat_message *m = &prompt->messages[i];
        int user = strcmp(m->role, "user") == 0;
        if (m->content.length >= best[user].length)
            best[user] = m->content;
    }
    return best[1].length ? best[1] : best[0];
}

/* The task is named in the text judged, else in the last thing a user said, else in what the system
 * was told. */
static lac__hint hint_of(const lac_prompt *prompt, lac_span text)
{
    lac__hint hint = lac__hint_of(text.data, text.length);
    const lac_chat_message *last = NULL, *system = NULL;
    for (uint32_t i = 0; i < prompt->messages_count; i++) {
        const lac_chat_message *m = &prompt->messages[i];
        if (!strcmp(m->role, "user"))
            last = m;
        else if (!strcmp(m->role, "system"))
            system = m;
    }
    if (hint == LAC__HINT_NONE && last && last->content.data != text.data)
        hint = lac__hint_of(last->content.data, last->content.length);
    if (hint == LAC__HINT_NONE && system)
        hint = lac__hint_of(system->content.data, system->content.length);
    return hint;
}

void lac__fingerprint_of(const lac_prompt *prompt, lac__fingerprint *out, lac__features *features)
{
    lac_span whole = prompt->kind == LAC_PROMPT_TEXT ? prompt->text : largest(prompt);
    lac_span text = lac__hint_trim(whole);
    lac__features own;
    features = features ? features : &own;
    lac__features_read(text.data, text.length, features);
    uint64_t bytes = lac_prompt_text_bytes(prompt) - (whole.length - text.length);
    *out = (lac__fingerprint){
        .type = text.length ? lac__type_of(features) : LAC__TYPE_UNKNOWN,
        .hint = hint_of(prompt, text),
        .bucket = bucket_of(bytes / 4 + prompt->ids_count),
    };
}

void lac__fingerprint_key(const lac__fingerprint *fingerprint, lac_digest *out)
{
    /* The name and number of this form of the key come first: another form is another key. */
    uint8_t bytes[] = "lacuna fingerprint 1\0tbh";
    size_t n = sizeof bytes - 4;
    bytes[n] = (uint8_t)fingerprint->type;
    bytes[n + 1] = fingerprint->bucket;
    bytes[n + 2] = (uint8_t)fingerprint->hint;
    lac_sha256(bytes, n + 3, out);
}
