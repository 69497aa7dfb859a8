/* The task a text asks for, by words of several languages near its ends, where instructions stand;
 * and the phrases of urgency and manner that are cut from the ends before anything is measured.
 * Pure. Two word lists and the search in them; knows no type. */
#include "type.h"

#include <string.h>

enum { WINDOW = 320, TRIMS_MAX = 8 };

const char *lac__hint_name(lac__hint hint)
{
    static const char *const names[LAC__HINTS] = {"none",    "summarize", "extract",
                                                  "compare", "classify",  "generate"};
    return hint < LAC__HINTS ? names[hint] : "none";
}

typedef struct {
    const char
        *stem; /* lower case; a word that begins so, or these characters in Chinese, Japanese */
    lac__hint hint;
} stem_row;

static const stem_row stems[] = {
    {"summar", LAC__HINT_SUMMARIZE},       {"tl;dr", LAC__HINT_SUMMARIZE},
    {"zusammenfass", LAC__HINT_SUMMARIZE}, {"fasse ", LAC__HINT_SUMMARIZE},
    {"fass ", LAC__HINT_SUMMARIZE},        {"résum", LAC__HINT_SUMMARIZE},
    {"resumi", LAC__HINT_SUMMARIZE},       {"resumen", LAC__HINT_SUMMARIZE},
    {"resume el", LAC__HINT_SUMMARIZE},    {"resume la", LAC__HINT_SUMMARIZE},
    {"resume est", LAC__HINT_SUMMARIZE},   {"riassum", LAC__HINT_SUMMARIZE},
    {"кратко излож", LAC__HINT_SUMMARIZE}, {"резюмир", LAC__HINT_SUMMARIZE},
    {"подытож", LAC__HINT_SUMMARIZE},      {"总结", LAC__HINT_SUMMARIZE},
    {"概括", LAC__HINT_SUMMARIZE},         {"摘要", LAC__HINT_SUMMARIZE},
    {"要約", LAC__HINT_SUMMARIZE},         {"まとめ", LAC__HINT_SUMMARIZE},
    {"extract", LAC__HINT_EXTRACT},        {"list all", LAC__HINT_EXTRACT},
    {"find all", LAC__HINT_EXTRACT},       {"extrah", LAC__HINT_EXTRACT},
    {"extrai", LAC__HINT_EXTRACT},         {"extrae", LAC__HINT_EXTRACT},
    {"estrai", LAC__HINT_EXTRACT},         {"извлек", LAC__HINT_EXTRACT},
    {"提取", LAC__HINT_EXTRACT},           {"抽取", LAC__HINT_EXTRACT},
    {"抽出", LAC__HINT_EXTRACT},           {"compar", LAC__HINT_COMPARE},
    {"contrast", LAC__HINT_COMPARE},       {"vergleich", LAC__HINT_COMPARE},
    {"confront", LAC__HINT_COMPARE},       {"сравни", LAC__HINT_COMPARE},
    {"比较", LAC__HINT_COMPARE},           {"对比", LAC__HINT_COMPARE},
    {"比較", LAC__HINT_COMPARE},           {"classif", LAC__HINT_CLASSIFY},
    {"categori", LAC__HINT_CLASSIFY},      {"klassifizier", LAC__HINT_CLASSIFY},
    {"clasific", LAC__HINT_CLASSIFY},      {"классифицир", LAC__HINT_CLASSIFY},
    {"分类", LAC__HINT_CLASSIFY},          {"分類", LAC__HINT_CLASSIFY},
    {"generat", LAC__HINT_GENERATE},       {"write a", LAC__HINT_GENERATE},
    {"write an", LAC__HINT_GENERATE},      {"schreib", LAC__HINT_GENERATE},
    {"erzeug", LAC__HINT_GENERATE},        {"génèr", LAC__HINT_GENERATE},
    {"génér", LAC__HINT_GENERATE},         {"écri", LAC__HINT_GENERATE},
    {"genera un", LAC__HINT_GENERATE},     {"escrib", LAC__HINT_GENERATE},
    {"scrivi", LAC__HINT_GENERATE},        {"напиши", LAC__HINT_GENERATE},
    {"сгенерир", LAC__HINT_GENERATE},      {"生成", LAC__HINT_GENERATE},
    {"写一", LAC__HINT_GENERATE},          {"書いて", LAC__HINT_GENERATE},
};

/* What people add to any request; longest first where one begins another. */
static const char *const manners[] = {
    "as soon as possible",
    "as fast as you can",
    "this is very urgent",
    "this is urgent",
    "very urgent",
    "it is urgent",
    "it's urgent",
    "right now",
    "immediately",
    "urgently",
    "urgent",
    "asap",
    "hurry up",
    "hurry",
    "be quick",
    "quickly",
    "please",
    "thank you",
    "thanks",
    "be creative",
    "be precise",
    "be concise",
    "be deterministic",
    "use a low temperature",
    "use a high temperature",
    "use temperature 0",
    "temperature 0",
    "sehr dringend",
    "dringend",
    "sofort",
    "bitte",
    "so schnell wie möglich",
    "très urgent",
    "urgence",
    "s'il vous plaît",
    "le plus vite possible",
    "urgente",
    "por favor",
    "lo antes posible",
    "per favore",
    "срочно",
    "пожалуйста",
    "немедленно",
    "紧急",
    "请尽快",
    "尽快",
    "马上",
    "至急",
    "お願いします",
};

/* Lower case of ASCII, Latin-1's letters and Cyrillic, in place of the same length. */
static size_t fold(const char *text, size_t length, unsigned char *out)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i], before = i ? (unsigned char)text[i - 1] : 0;
        if (c >= 'A' && c <= 'Z')
            c += 32;
        else if (before == 0xc3 && c >= 0x80 && c <= 0x9e)
            c += 32;
        else if (before == 0xd0 && c >= 0x90 && c <= 0x9f)
            c += 32;
        else if (before == 0xd0 && c >= 0xa0 && c <= 0xaf) {
            c -= 32;
            out[i - 1] = 0xd1;
        }
        out[i] = c;
    }
    return length;
}

static bool word_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c >= 0x80;
}

/* The stem that stands first in the window. Chinese and Japanese (whose stems begin with 0xe0 and
 * above) put no spaces between words, all others begin one. */
static const stem_row *first_stem(const unsigned char *text, size_t length)
{
    for (size_t at = 0; at < length; at++) {
        unsigned char c = text[at];
        if (c < 'a' || (c < 0xe0 && at && word_byte(text[at - 1])))
            continue;
        for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
            const char *stem = stems[i].stem;
            if ((unsigned char)*stem == c && strlen(stem) <= length - at &&
                !memcmp(text + at, stem, strlen(stem)))
                return &stems[i];
        }
    }
    return NULL;
}

static lac__hint window_hint(const char *text, size_t length)
{
    unsigned char folded[WINDOW];
    const stem_row *row = first_stem(folded, fold(text, length, folded));
    return row ? row->hint : LAC__HINT_NONE;
}

lac__hint lac__hint_of(const char *text, size_t length)
{
    lac_span span = lac__hint_trim((lac_span){text, (uint32_t)length});
    if (!span.length)
        return LAC__HINT_NONE;
    size_t window = span.length < WINDOW ? span.length : WINDOW;
    lac__hint hint = window_hint(span.data, window);
    if (hint == LAC__HINT_NONE && span.length > WINDOW)
        hint = window_hint(span.data + span.length - window, window);
    return hint;
}

/* ---- manners ---- */

/* Bytes of white space or a sentence's mark at this end, full-width ones included; 0 when there is
 * none. */
static uint32_t soft_at(lac_span span, bool front)
{
    static const char wide[][4] = {"：", "，", "！", "。", "、", "？", "　"};
    if (!span.length)
        return 0;
    unsigned char c = (unsigned char)span.data[front ? 0 : span.length - 1];
    if (c <= ' ' || strchr("!.,:;?", c))
        return 1;
    for (size_t i = 0; c >= 0x80 && span.length >= 3 && i < sizeof wide / sizeof *wide; i++)
        if (!memcmp(front ? span.data : span.data + span.length - 3, wide[i], 3))
            return 3;
    return 0;
}

static lac_span without_soft(lac_span span, bool front)
{
    uint32_t n;
    while ((n = soft_at(span, front))) {
        span.data += front ? n : 0;
        span.length -= n;
    }
    return span;
}

/* Bytes of the phrase at this end, 0 when there is none. A phrase ends where a word does. */
static size_t manner_at(lac_span span, bool front)
{
    enum { PHRASE_MAX = 32 };
    unsigned char folded[PHRASE_MAX];
    size_t n = span.length < PHRASE_MAX ? span.length : PHRASE_MAX, best = 0;
    fold(front ? span.data : span.data + span.length - n, n, folded);
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
        size_t m = strlen(manners[i]);
        if (m > n || m <= best || memcmp(front ? folded : folded + n - m, manners[i], m) != 0)
            continue;
        bool whole = m == n || (unsigned char)manners[i][0] >= 0xe0 ||
                     !word_byte(front ? folded[m] : folded[n - m - 1]);
        best = whole ? m : best;
    }
    return best;
}

/* White space and sentence marks at the ends go whether or not a phrase stood there, or the text
 * with a phrase would differ from the text without. */
lac_span lac__hint_trim(lac_span span)
{
    if (span.length == 0)
        return span; /* its pointer is NULL, which no offset may be added to */
    for (int i = 0; i < TRIMS_MAX; i++) {
        span = without_soft(without_soft(span, true), false);
        size_t cut = manner_at(span, true);
        span.data += cut;
        span.length -= (uint32_t)cut;
        if (cut)
            continue;
        cut = manner_at(span, false);
        if (!cut)
            break;
        span.length -= (uint32_t)cut;
    }
    return without_soft(without_soft(span, true), false);
}
