/* Released text against a reference that sees the whole text at once: every split of it into tokens
 * must give the same answer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"
#include "sampler/sampler.h"

enum { TEXT_MAX = 4096 };

static lac_sampling with_stops(const char *const *stops, uint32_t count)
{
    lac_sampling s = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    for (uint32_t i = 0; i < count; i++) {
        s.stops[i].length = (uint32_t)strlen(stops[i]);
        memcpy(s.stops[i].bytes, stops[i], s.stops[i].length);
    }
    s.stops_count = count;
    return s;
}

/* ---- the reference ---- */

/* Length of the valid character at the front; 0 when there is none. */
static size_t character(const char *text, size_t length)
{
    for (size_t n = 1; n <= 4 && n <= length; n++) {
        if (lac_utf8_valid(text, n))
            return n;
    }
    return 0;
}

/* True when some bytes after these would make a character. */
static bool can_complete(const char *text, size_t length)
{
    static const char tails[][4] = {{'\x80', '\x80', '\x80'}, {'\x90', '\x80', '\x80'},
                                    {'\xa0', '\x80', '\x80'}, {'\xbf', '\xbf', '\xbf'},
                                    {'\x8f', '\xbf', '\xbf'}, {'\x9f', '\xbf', '\xbf'}};
    for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
        for (size_t n = 1; length + n <= 4; n++) {
            char whole[4];
            memcpy(whole, text, length);
            memcpy(whole + length, tails[t], n);
            if (character(whole, length + n) == length + n)
                return true;
        }
    }
    return false;
}

static size_t clean(const char *text, size_t length, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        size_t whole = character(text + i, length - i);
        if (whole > 0) {
            memcpy(out + n, text + i, whole);
            n += whole;
            i += whole;
            continue;
        }
        size_t part = 1;
        while (part < 3 && i + part < length && can_complete(text + i, part + 1))
            part++;
        if (!can_complete(text + i, 1))
            part = 1;
        memcpy(out + n, "\xef\xbf\xbd", 3);
        n += 3;
        i += part;
    }
    return n;
}

/* Where the text is cut: before the stop that ends first, the longest of those that end there. */
static size_t cut(const lac_sampling *s, const char *text, size_t length, bool *stopped)
{
    *stopped = true;
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < s->stops_count; i++) {
            size_t n = s->stops[i].length;
            if (n > 0 && n <= end && memcmp(text + end - n, s->stops[i].bytes, n) == 0 &&
                n > longest)
                longest = n;
        }
        if (longest > 0)
            return end - longest;
    }
    *stopped = false;
    return length;
}

/* What must be held back after `text` (no stop in it): the longest suffix that begins a stop. */
static size_t hold(const lac_sampling *s, const char *text, size_t length)
{
    size_t most = 0;
    for (uint32_t i = 0; i < s->stops_count; i++) {
        for (size_t n = 1; n < s->stops[i].length && n <= length; n++) {
            if (n > most && memcmp(text + length - n, s->stops[i].bytes, n) == 0)
                most = n;
        }
    }
    return most;
}

/* ---- the comparison ---- */

/* Feeds the text cut at the marks (marks[i]: a token ends after byte i). */
static void feed(const lac_sampling *s, const char *text, size_t length, const bool *marks)
{
    char want[3 * TEXT_MAX], got[3 * TEXT_MAX];
    bool want_stop, got_stop = false;
    size_t want_length = clean(text, length, want), got_length = 0;
    want_length = cut(s, want, want_length, &want_stop);
    lac_release *release = lac_release_create(s);
    const char *out;
    size_t out_length, from = 0;
    for (size_t i = 0; i < length && !got_stop; i++) {
        if (!marks[i] && i + 1 < length)
            continue;
        got_stop = lac_release_add(release, text + from, i + 1 - from, &out, &out_length);
        from = i + 1;
        memcpy(got + got_length, out, out_length);
        got_length += out_length;
        ck_assert(lac_utf8_valid(out, out_length));
        if (!got_stop) {
            /* Exactly what must wait waits: a part of a character, and the tail of a stop. */
            char whole[3 * TEXT_MAX];
            size_t ready = i + 1;
            for (size_t part = 1; part <= 3 && part <= i + 1; part++) {
                if (can_complete(text + i + 1 - part, part) &&
                    clean(text, i + 1 - part, whole) + 3 == clean(text, i + 1, whole))
                    ready = i + 1 - part;
            }
            size_t whole_length = clean(text, ready, whole);
            ck_assert_uint_eq(got_length, whole_length - hold(s, whole, whole_length));
        }
    }
    if (got_stop) {
        ck_assert(lac_release_add(release, "more", 4, &out, &out_length));
        ck_assert_uint_eq(out_length, 0);
    }
    lac_release_end(release, &out, &out_length);
    memcpy(got + got_length, out, out_length);
    got_length += out_length;
    lac_release_end(release, &out, &out_length);
    ck_assert_uint_eq(out_length, 0);
    if (want_stop && !got_stop) /* only the replaced last part completed it */
        ck_assert(lac_utf8_whole(text, length) < length);
    ck_assert_uint_eq(got_length, want_length);
    ck_assert(memcmp(got, want, want_length) == 0);
    lac_release_destroy(&release);
    ck_assert_ptr_null(release);
}

static void every_split(const char *const *stops, uint32_t count, const char *text)
{
    lac_sampling s = with_stops(stops, count);
    size_t length = strlen(text);
    bool marks[TEXT_MAX];
    /* In one piece, byte by byte, and every way to cut it in two or in three. */
    memset(marks, 0, sizeof marks);
    feed(&s, text, length, marks);
    memset(marks, 1, sizeof marks);
    feed(&s, text, length, marks);
    for (size_t a = 0; a < length; a++) {
        for (size_t b = a; b < length; b++) {
            memset(marks, 0, sizeof marks);
            marks[a] = marks[b] = true;
            feed(&s, text, length, marks);
        }
    }
}

START_TEST(stops_at_every_split)
{
    every_split((const char *[]){"STOP"}, 1, "some text STOP and more");
    every_split((const char *[]){"STOP"}, 1, "STOP");
    every_split((const char *[]){"STOP"}, 1, "no stop: STO ST S");
    every_split((const char *[]){"\n\n"}, 1, "one\ntwo\n\nthree");
    every_split((const char *[]){"aab"}, 1, "aaaaaab tail");
    every_split((const char *[]){"abcabd"}, 1, "abcabcabcabd!");
    every_split(NULL, 0, "nothing to stop at");
}
END_TEST

START_TEST(overlapping_stops)
{
    every_split((const char *[]){"abcd", "bc"}, 2, "xxabcdyy");
    every_split((const char *[]){"bcd", "abcd", "d"}, 3, "xxabcdyy");
    every_split((const char *[]){"aa", "aaa"}, 2, "baaaa");
    every_split((const char *[]){"<|end|>", "<|e", "|>", "nd"}, 4, "text <|end|> more");
    every_split((const char *[]){"User:", "\nUser:", "\n\n"}, 3, "hi\nUser: you\n\n");
}
END_TEST

START_TEST(stops_beside_long_characters)
{
    every_split((const char *[]){"é"}, 1, "caf\xc3\xa8 caf\xc3\xa9 x");
    every_split((const char *[]){"世"}, 1, "丕丗世界");
    every_split((const char *[]){"🙂"}, 1, "a🙃b🙂c");
    every_split((const char *[]){"x🙂", "界!"}, 2, "世界x世界!x🙂");
    every_split((const char *[]){"\xef\xbf\xbd"}, 1,
                "a\xff"
                "b");
    /* A stop that is no UTF-8 would cut a character: it is never met. */
    every_split((const char *[]){"never"}, 1, "\xa9 \xc3\xa9");
    lac_sampling s = with_stops((const char *[]){"\xa9"}, 1);
    lac_release *release = lac_release_create(&s);
    const char *out;
    size_t length;
    ck_assert(!lac_release_add(release, "\xc3\xa9", 2, &out, &length));
    ck_assert_uint_eq(length, 2);
    lac_release_destroy(&release);
    lac_release_destroy(&release);
}
END_TEST

START_TEST(characters_at_every_split)
{
    every_split(NULL, 0, "aé世🙂z");
    every_split(NULL, 0, "\xf0\x9f\x99\x82\xf0\x9f\x99");   /* unfinished */
    every_split(NULL, 0, "\xed\xa0\x80|\xc0\xaf|\xf5");     /* surrogate, overlong, too large */
    every_split(NULL, 0, "\xe0\x80\x80|\xf0\x80\x80\x80|"); /* overlong */
    every_split(NULL, 0, "\xf4\x90\x80\x80|\x80\xbf|");
    every_split(NULL, 0,
                "\xf1\x80\x80"
                "A\xe1\x80\xe2\x80\xc2"
                "B");
}
END_TEST

/* Texts and stops over a small alphabet, so that near misses are common, cut at random. */
START_TEST(random_splits)
{
    static const char *const pieces[] = {"a",    "b",    "ab",   "é",  "\xc3", "\xa9",
                                         "🙂", "\xf0", "\x9f", "世", "\n",   "\xef\xbf\xbd"};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    lac_rng rng;
    lac_rng_seed(&rng, 3);
    for (int round = 0; round < 20000; round++) {
        lac_sampling s = with_stops(NULL, 0);
        s.stops_count = (uint32_t)lac_rng_below(&rng, LAC_STOPS_MAX + 1);
        for (uint32_t i = 0; i < s.stops_count; i++) {
            uint64_t parts = 1 + lac_rng_below(&rng, 4);
            for (uint64_t p = 0; p < parts; p++) {
                const char *piece = pieces[lac_rng_below(&rng, 4)];
                memcpy(s.stops[i].bytes + s.stops[i].length, piece, strlen(piece));
                s.stops[i].length += (uint32_t)strlen(piece);
            }
        }
        char text[128];
        bool marks[128];
        size_t length = 0;
        uint64_t parts = lac_rng_below(&rng, 20);
        for (uint64_t p = 0; p < parts; p++) {
            const char *piece = pieces[lac_rng_below(&rng, PIECES)];
            memcpy(text + length, piece, strlen(piece));
            length += strlen(piece);
        }
        for (size_t i = 0; i < length; i++)
            marks[i] = lac_rng_below(&rng, 3) == 0;
        feed(&s, text, length, marks);
    }
}
END_TEST

START_TEST(longest_stop_and_long_token)
{
    char stop[LAC_STOP_BYTES_MAX + 1], text[TEXT_MAX];
    memset(stop, 'a', LAC_STOP_BYTES_MAX);
    stop[LAC_STOP_BYTES_MAX - 1] = 'b';
    stop[LAC_STOP_BYTES_MAX] = 0;
    memset(text, 'a', sizeof text);
    text[3000] = 'b';
    lac_sampling s = with_stops((const char *[]){stop}, 1);
    bool marks[TEXT_MAX] = {0};
    feed(&s, text, sizeof text - 1, marks);
    for (size_t i = 0; i < sizeof marks; i += 61)
        marks[i] = true;
    feed(&s, text, sizeof text - 1, marks);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("release");
    TCase *tests = tcase_create("release");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, stops_at_every_split);
    tcase_add_test(tests, overlapping_stops);
    tcase_add_test(tests, stops_beside_long_characters);
    tcase_add_test(tests, characters_at_every_split);
    tcase_add_test(tests, random_splits);
    tcase_add_test(tests, longest_stop_and_long_token);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
