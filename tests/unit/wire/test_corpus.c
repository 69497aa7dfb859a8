/* Frames of every released minor version decode for ever. tests/compat/wire/<version>/ holds one of
 * every message as its version wrote it, those of the versions before it included; this version
 * must read each to the same fields.
 *
 * `test_wire_corpus --write FOLDER` writes the frames of this version that are not there: done once
 * when a minor version is released, never over an older one. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "samples.h"
#include "wire/codec.h"

#define CORPUS LAC_SOURCE_DIR "/tests/compat/wire"

static void path_of(char *out, size_t size, const char *folder, int sample)
{
    snprintf(out, size, "%s/%s.bin", folder, sample_name(sample));
}

/* What each minor version could say. */
static const int samples_of[] = {SAMPLES_1_0, SAMPLES_1_1, SAMPLES_1_2, SAMPLES_1_3};

static void check_frame(unsigned minor, int sample)
{
    char folder[256], path[512];
    snprintf(folder, sizeof folder, CORPUS "/1.%u", minor);
    path_of(path, sizeof path, folder, sample);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is missing", path);
    static char data[65536];
    size_t length = fread(data, 1, sizeof data, file);
    fclose(file);
    ck_assert_uint_gt(length, 0);

    lac_msg got, expected;
    lac_error err;
    lac_status status = lac_codec_unpack(data, length, &got, &err);
    ck_assert_msg(status == LAC_OK, "%s: %s", path, err.text);
    ck_assert_uint_eq(got.envelope.major, 1);
    ck_assert_uint_eq(got.envelope.minor, minor);
    lac_buf a = {0}, b = {0};
    sample_make(sample, &expected);
    msg_dump(&expected, &a);
    msg_dump(&got, &b);
    ck_assert_str_eq(b.data, a.data);
    lac_msg_free(&got);
    lac_buf_free(&a);
    lac_buf_free(&b);
}

START_TEST(old_frames_decode)
{
    for (int i = 0; i < samples_of[_i]; i++)
        check_frame((unsigned)_i, i);
}
END_TEST

/* Every type of message has a file. */
START_TEST(the_corpus_is_complete)
{
    bool seen[128] = {0};
    for (int i = 0; i < SAMPLES; i++) {
        lac_msg msg;
        sample_make(i, &msg);
        seen[msg.envelope.type] = true;
    }
    for (unsigned type = 1; type < 128; type++)
        ck_assert_msg(seen[type] == (strcmp(lac_msg_name((uint16_t)type), "unknown") != 0),
                      "%s has no sample", lac_msg_name((uint16_t)type));
}
END_TEST

static int write_all(const char *folder)
{
    for (int i = 0; i < SAMPLES; i++) {
        char path[512];
        path_of(path, sizeof path, folder, i);
        FILE *there = fopen(path, "rb");
        if (there) {
            fclose(there); /* an old frame is never replaced */
            continue;
        }
        lac_msg msg;
        lac_error err;
        lac_buf frame = {.cap = LAC_FRAME_MAX};
        sample_make(i, &msg);
        FILE *file = lac_codec_pack(&msg, &frame, &err) ? NULL : fopen(path, "wbx");
        if (!file || fwrite(frame.data, 1, frame.length, file) != frame.length || fclose(file)) {
            fprintf(stderr, "%s: cannot be written\n", path);
            return EXIT_FAILURE;
        }
        lac_buf_free(&frame);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--write"))
        return write_all(argv[2]);
    Suite *s = suite_create("corpus");
    TCase *t = tcase_create("corpus");
    tcase_add_loop_test(t, old_frames_decode, 0, sizeof samples_of / sizeof *samples_of);
    tcase_add_test(t, the_corpus_is_complete);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
