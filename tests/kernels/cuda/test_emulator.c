/* The emulator itself: what right kernels give, in every order of threads, and that each flaw of a
 * kernel shows: a forgotten barrier as a wrong result in some order, a barrier that not all reach
 * as an error that names the kernel and the place. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_suites.h"
#include "emulate.h"
#include "probes.h"

enum { SEEDS = 12 };

static char error[LAC_EMU_ERROR];

static bool launch(const char *kernel, uint32_t blocks, uint32_t threads, uint32_t shared,
                   uint64_t seed, const probe_args *args)
{
    lac_emu_launch l = {.kernel = kernel,
                        .grid = {blocks, 1, 1},
                        .block = {threads, 1, 1},
                        .shared = shared,
                        .seed = seed};
    error[0] = '\0';
    return lac_emu_run(&l, args, error);
}

static float *numbers(uint32_t n)
{
    float *x = malloc(n * sizeof *x);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(i + 1);
    return x;
}

/* Seeds with which the flawed kernel gives a wrong result. */
static uint32_t wrong_orders(const char *kernel, uint32_t blocks, uint32_t span, uint32_t flaw)
{
    uint32_t wrong = 0, n = blocks * 128;
    float *in = numbers(n), *out = malloc(n * sizeof *out);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        probe_args args = {.in = in, .out = out, .flaw = flaw};
        memset(out, 0, n * sizeof *out);
        ck_assert_msg(launch(kernel, blocks, 128, 512, seed, &args), "%s", error);
        bool right = true;
        for (uint32_t i = 0; i < n; i++)
            right &= out[i] == in[i / span * span + span - 1 - i % span];
        wrong += !right;
    }
    free(in);
    free(out);
    return wrong;
}

START_TEST(forgotten_barriers_show)
{
    ck_assert_uint_eq(wrong_orders("probe_reverse", 3, 128, 0), 0);
    ck_assert_uint_eq(wrong_orders("probe_reverse", 3, 128, 1), SEEDS);
    ck_assert_uint_eq(wrong_orders("probe_reverse_warp", 1, 32, 0), 0);
    ck_assert_uint_eq(wrong_orders("probe_reverse_warp", 1, 32, 1), SEEDS);
}
END_TEST

START_TEST(sums_and_the_last_block)
{
    float *in = numbers(7 * 128);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float out[8] = {0};
        uint32_t counter = 0;
        probe_args args = {.in = in, .out = out, .counter = &counter};
        ck_assert_msg(launch("probe_sum", 7, 128, 0, seed, &args), "%s", error);
        ck_assert(out[0] == 896.0f * 897.0f / 2.0f);
        ck_assert(out[1] == 128.0f * 129.0f / 2.0f);
        ck_assert_uint_eq(counter, 7);
    }
    free(in);
}
END_TEST

START_TEST(flaws_are_named)
{
    static const char *const says[] = {"",          "deadlock", "while others wait", "deadlock",
                                       "different", "mask",     "multiple of 16",    "ended"};
    float *in = numbers(256), out[256];
    for (uint32_t flaw = 0; flaw < 8; flaw++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            probe_args args = {.in = in, .out = out, .flaw = flaw};
            bool good = launch("probe_flaws", 2, 128, 0, seed, &args);
            ck_assert_msg(good == (flaw == 0), "flaw %u: %s", flaw, error);
            if (flaw == 0)
                continue;
            ck_assert_msg(strstr(error, "probe_flaws") && (flaw == 4 || strstr(error, says[flaw])),
                          "flaw %u: %s", flaw, error);
            if (flaw == 1 || flaw == 2 || flaw == 7)
                ck_assert_msg(strstr(error, "probes.cu:"), "flaw %u: %s", flaw, error);
        }
    /* and the next kernel runs as if nothing had been */
    ck_assert_uint_eq(wrong_orders("probe_reverse", 1, 128, 0), 0);
    free(in);
}
END_TEST

START_TEST(launches_are_checked)
{
    probe_args args = {0};
    ck_assert(!launch("probe_nothing", 1, 32, 0, 0, &args) && strstr(error, "probe_nothing"));
    ck_assert(!launch("probe_warp", 1, 64, 0, 0, &args) && strstr(error, "64 threads"));
    ck_assert(!launch("probe_warp", 1, 20, 0, 0, &args));
    ck_assert(!launch("probe_warp", 0, 32, 0, 0, &args));
    ck_assert(!launch("probe_warp", 1, 32, 1 << 20, 0, &args));
    ck_assert_uint_eq(lac_emu_args_bytes("probe_warp"), sizeof args);
    ck_assert_uint_eq(lac_emu_args_bytes("probe_nothing"), 0);
}
END_TEST

START_TEST(warp_operations)
{
    float *in = numbers(32), out[256];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        probe_args args = {.in = in, .out = out};
        ck_assert_msg(launch("probe_warp", 1, 32, 0, seed, &args), "%s", error);
        for (uint32_t l = 0; l < 32; l++) {
            ck_assert(out[l] == 6.0f);
            ck_assert(out[32 + l] == in[l ^ 3]);
            ck_assert(out[64 + l] == in[l < 28 ? l + 4 : l]);
            ck_assert(out[96 + l] == in[l >= 4 ? l - 4 : l]);
            ck_assert(out[128 + l] == 22.0f);
            ck_assert(out[160 + l] == 3.0f);
            ck_assert(out[192 + l] == (l % 2 ? -1.0f : in[l ^ 2]));
            ck_assert(out[224 + l] == 528.0f);
        }
    }
    free(in);
}
END_TEST

START_TEST(votes_and_atomics)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        float out[3];
        uint32_t counter[5] = {0};
        probe_args args = {.out = out, .counter = counter};
        ck_assert_msg(launch("probe_votes", 1, 128, 0, seed, &args), "%s", error);
        ck_assert(out[0] == 43.0f && out[1] == 1.0f && out[2] == 0.0f);
        ck_assert_uint_eq(counter[0], 127 * 128 / 2);
        ck_assert_uint_eq(counter[1], 127);
        ck_assert_uint_eq(counter[2], 0xffffffffu);
        ck_assert_uint_eq(counter[3], 1);
        ck_assert_uint_eq(counter[4], 7);
    }
}
END_TEST

START_TEST(tensor_core_product)
{
    float in[24 * 32], out[128];
    for (int i = 0; i < 24 * 32; i++)
        in[i] = (float)(i * 37 % 255 - 127);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        probe_args args = {.in = in, .out = out};
        ck_assert_msg(launch("probe_mma", 1, 32, 0, seed, &args), "%s", error);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 8; c++) {
                float sum = 1.0f;
                for (int k = 0; k < 32; k++)
                    sum += in[r * 32 + k] * in[(16 + c) * 32 + k];
                ck_assert_msg(out[r * 8 + c] == sum, "%d %d: %g for %g", r, c, out[r * 8 + c], sum);
            }
    }
}
END_TEST

/* Every finite half comes back; what lies between two goes to the nearer, the even one of two. */
START_TEST(halves_round_like_the_device)
{
    enum { N = 256 };
    float in[N], out[3 * N];
    in[0] = 1.0f + 0x1p-11f;     /* half way: down to even */
    in[1] = 1.0f + 3 * 0x1p-11f; /* half way: up to even */
    in[2] = 65519.0f;
    in[3] = 65520.0f;
    in[4] = 0x1p-24f;
    in[5] = 0x1.8p-25f;
    in[6] = -0x1p-26f;
    for (int i = 7; i < N; i++)
        in[i] = (float)(i * i % 997 - 400) * 0.0371f;
    probe_args args = {.in = in, .out = out, .n = N};
    ck_assert_msg(launch("probe_half", 2, 128, 0, 3, &args), "%s", error);
    ck_assert(out[0] == 1.0f && out[3] == 1.0f + 4 * 0x1p-11f);
    ck_assert(out[6] == 65504.0f && isinf(out[9]));
    ck_assert(out[12] == 0x1p-24f && out[15] == 0x1p-24f && out[18] == 0.0f);
    for (int i = 7; i + 1 < N; i++) {
        float x = out[3 * i], y = out[3 * i + 3], ulp = fabsf(in[i]) * 0x1p-11f;
        ck_assert(fabsf(x - in[i]) <= ulp);
        ck_assert(fabsf(out[3 * i + 1] - (x + y)) <= fabsf(x + y) * 0x1p-11f);
        ck_assert(fabs((double)out[3 * i + 2] - ((double)x * y + x)) <=
                  fabs((double)x * y + x) * 0x1p-11 + 0x1p-25);
    }
}
END_TEST

START_TEST(bytes_are_signed)
{
    float in[129], out[128];
    for (uint32_t i = 0; i < 129; i++) {
        uint32_t bits = i * 2654435761u;
        memcpy(&in[i], &bits, 4);
    }
    probe_args args = {.in = in, .out = out};
    ck_assert_msg(launch("probe_dp4a", 1, 128, 0, 1, &args), "%s", error);
    for (uint32_t i = 0; i < 128; i++) {
        int8_t x[4], y[4];
        memcpy(x, &in[i], 4);
        memcpy(y, &in[i + 1], 4);
        int sum = (int)i;
        for (int k = 0; k < 4; k++)
            sum += x[k] * y[k];
        ck_assert_int_eq((int)out[i], sum);
    }
}
END_TEST

#if defined(LAC_SANITIZED)
/* The sanitizer sees past the end of shared memory, from inside a fiber. */
START_TEST(overruns_are_seen)
{
    pid_t child = fork();
    if (child == 0) {
        probe_args args = {.n = 64};
        fclose(stderr);
        launch("probe_overrun", 1, 32, 64, 0, &args);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}
END_TEST
#endif

Suite *suite_emulator(void)
{
    Suite *s = suite_create("emulator");
    TCase *t = tcase_create("emulator");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, forgotten_barriers_show);
    tcase_add_test(t, sums_and_the_last_block);
    tcase_add_test(t, flaws_are_named);
    tcase_add_test(t, launches_are_checked);
    tcase_add_test(t, warp_operations);
    tcase_add_test(t, votes_and_atomics);
    tcase_add_test(t, tensor_core_product);
    tcase_add_test(t, halves_round_like_the_device);
    tcase_add_test(t, bytes_are_signed);
#if defined(LAC_SANITIZED)
    tcase_add_test(t, overruns_are_seen);
#endif
    suite_add_tcase(s, t);
    return s;
}
