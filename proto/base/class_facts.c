/* Judges texts that claim to be hints. Pure, any thread. */
#include "base/class_facts.h"

#include <string.h>

bool lac_class_hint_valid(const char *text)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    return strlen(text) == LAC_HINT_LENGTH && strspn(text, alphabet) == LAC_HINT_LENGTH;
}

bool lac_class_hinted(const char *text, const lac_digest *digest)
{
    char own[LAC_HINT_LENGTH + 1];
    lac_class_hint(digest, own);
    return strcmp(own, text) == 0;
}
