/* Owns the text of one sequence between the tokens and the client: bytes in, whole characters out,
 * cut at the first stop string. The sequence's thread. Knows nothing of tokens.
 *
 * Two stages. The first joins bytes to characters and puts U+FFFD for each maximal part that no
 * later byte can complete (Unicode 15, section 3.9, table 3-7 and "substitution of maximal
 * subparts"). The second runs one prefix automaton a stop string (Knuth, Morris, Pratt 1977) over
 * the result; its state is the length of the tail that may still become the stop, which is what
 * must be held back. Where stops overlap, the one that ends first wins, of two that end together
 * the longer one: that depends on the text alone, not on where the tokens' borders lie. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "sampler/sampler.h"

typedef struct {
    uint8_t length;
    uint8_t state; /* bytes of the stop that the text ends with */
    uint8_t
        border[LAC_STOP_BYTES_MAX]; /* of the first i+1 bytes: longest proper prefix and suffix */
    char bytes[LAC_STOP_BYTES_MAX];
} stop_automaton;

struct lac_release {
    lac_buf text;    /* released at the last call, then held back */
    size_t released; /* bytes of it that went out at the last call */
    bool stopped;
    /* The character in progress: its bytes, how many are missing, and the range of the next one. */
    char partial[4];
    int partial_length, missing;
    unsigned char low, high;
    uint32_t stops_count;
    stop_automaton stops[LAC_STOPS_MAX];
};

static void stop_init(stop_automaton *stop, const char *bytes, uint32_t length)
{
    memcpy(stop->bytes, bytes, length);
    stop->length = (uint8_t)length;
    uint8_t border = 0;
    for (uint32_t i = 1; i < length; i++) {
        while (border > 0 && bytes[i] != bytes[border])
            border = stop->border[border - 1];
        if (bytes[i] == bytes[border])
            border++;
        stop->border[i] = border;
    }
}

/* True when the byte completes the stop. */
static bool stop_step(stop_automaton *stop, char byte)
{
    while (stop->state > 0 && byte != stop->bytes[stop->state])
        stop->state = stop->border[stop->state - 1];
    if (byte == stop->bytes[stop->state])
        stop->state++;
    return stop->state == stop->length;
}

lac_release *lac_release_create(const lac_sampling *sampling)
{
    LAC_ASSERT(sampling->stops_count <= LAC_STOPS_MAX);
    lac_release *release = lac_alloc(1, sizeof *release);
    for (uint32_t i = 0; i < sampling->stops_count; i++) {
        const lac_stop *stop = &sampling->stops[i];
        LAC_ASSERT(stop->length <= LAC_STOP_BYTES_MAX);
        /* The text is UTF-8, so a stop that is not can never be met. */
        if (stop->length > 0 && lac_utf8_valid(stop->bytes, stop->length))
            stop_init(&release->stops[release->stops_count++], stop->bytes, stop->length);
    }
    /* Three bytes for each byte of a token, at worst, and what is held back: most never grow it. */
    release->text.size = 3 * LAC_TOKEN_TEXT_MAX + LAC_STOP_BYTES_MAX + 1;
    release->text.data = lac_alloc(1, release->text.size);
    return release;
}

void lac_release_destroy(lac_release **release)
{
    if (!*release)
        return;
    lac_buf_free(&(*release)->text);
    free(*release);
    *release = NULL;
}

/* Appends whole characters; cuts the text when they complete a stop. */
static void put(lac_release *release, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length && !release->stopped; i++) {
        size_t cut = 0;
        for (uint32_t s = 0; s < release->stops_count; s++) {
            stop_automaton *stop = &release->stops[s];
            if (stop_step(stop, bytes[i]) && stop->length > cut)
                cut = stop->length;
        }
        bool added = lac_buf_add(&release->text, &bytes[i], 1);
        LAC_ASSERT(added);
        if (cut > 0) {
            LAC_ASSERT(cut <= release->text.length);
            release->text.length -= cut;
            release->stopped = true;
        }
    }
}

static void put_replacement(lac_release *release)
{
    put(release, "\xef\xbf\xbd", 3);
    release->partial_length = 0;
    release->missing = 0;
}

/* Starts a character; false when no character starts with this byte. */
static bool start(lac_release *release, unsigned char byte)
{
    release->low = 0x80;
    release->high = 0xbf;
    if (byte >= 0xc2 && byte <= 0xdf) {
        release->missing = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        release->missing = 2;
        if (byte == 0xe0)
            release->low = 0xa0; /* below are overlong forms */
        if (byte == 0xed)
            release->high = 0x9f; /* above are surrogates */
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        release->missing = 3;
        if (byte == 0xf0)
            release->low = 0x90;
        if (byte == 0xf4)
            release->high = 0x8f; /* above U+10FFFF */
    } else {
        return false;
    }
    release->partial[0] = (char)byte;
    release->partial_length = 1;
    return true;
}

static void take(lac_release *release, char byte)
{
    unsigned char value = (unsigned char)byte;
    if (release->missing > 0) {
        if (value >= release->low && value <= release->high) {
            release->partial[release->partial_length++] = byte;
            release->low = 0x80;
            release->high = 0xbf;
            if (--release->missing == 0) {
                put(release, release->partial, (size_t)release->partial_length);
                release->partial_length = 0;
            }
            return;
        }
        put_replacement(release); /* and this byte begins anew */
    }
    if (value < 0x80)
        put(release, &byte, 1);
    else if (!start(release, value))
        put_replacement(release);
}

/* Bytes at the end of the text that may still become a stop. */
static size_t held(const lac_release *release)
{
    size_t most = 0;
    if (release->stopped)
        return 0;
    for (uint32_t s = 0; s < release->stops_count; s++) {
        if (release->stops[s].state > most)
            most = release->stops[s].state;
    }
    return most;
}

static void give(lac_release *release, size_t keep, const char **text, size_t *text_length)
{
    release->released = release->text.length - keep;
    *text = release->text.data;
    *text_length = release->released;
}

bool lac_release_add(lac_release *release, const char *bytes, size_t length, const char **text,
                     size_t *text_length)
{
    lac_buf_drop(&release->text, release->released);
    release->released = 0;
    for (size_t i = 0; i < length && !release->stopped; i++)
        take(release, bytes[i]);
    give(release, held(release), text, text_length);
    return release->stopped;
}

void lac_release_end(lac_release *release, const char **text, size_t *text_length)
{
    lac_buf_drop(&release->text, release->released);
    release->released = 0;
    if (release->missing > 0 && !release->stopped)
        put_replacement(release);
    give(release, 0, text, text_length);
    release->stopped = true; /* nothing more, also when called again */
}
