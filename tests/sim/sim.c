/* Runs the simulation over seeds: --seeds N [--from S], or --seed S [--verbose] to see one again, with
 * --record FILE as a flight recorder would keep it (replay.c reads that). */
#include "sim.h"

#include <signal.h>
#include <unistd.h>

#include "base/text.h"

static uint64_t seed_now;
static const char *program;
const char *sim_record;

/* The seed is the whole bug report. */
static void on_abort(int number)
{
    char text[256];
    int length = snprintf(text, sizeof text, "seed %llu failed; replay: %s --seed %llu --verbose\n",
                          (unsigned long long)seed_now, program, (unsigned long long)seed_now);
    if (write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(3);
    signal(number, SIG_DFL);
    raise(number);
}

static int usage(void)
{
    fprintf(stderr, "usage: sim_core --seeds N [--from S] | --seed S [--verbose] [--record FILE]\n");
    return 2;
}

/* A simulation in which some fault never came to pass proves nothing about it. */
static bool everything_happened(void)
{
    const struct {
        const char *what;
        double count;
    } needed[] = {
        {"stopped", (double)totals.stopped},
        {"length", (double)totals.length},
        {"cancelled", (double)totals.cancelled},
        {"refused busy", (double)totals.refused[LAC_BUSY]},
        {"refused deadline", (double)totals.refused[LAC_EDEADLINE]},
        {"refused unknown model", (double)totals.refused[LAC_ENOTFOUND]},
        {"refused double stream", (double)totals.refused[LAC_EEXIST]},
        {"lost", totals.lost},
        {"moves", totals.moves},
        {"duplicates", totals.duplicates},
        {"stale", totals.stale},
        {"fenced", totals.fenced},
        {"reregisters", totals.reregisters},
        {"hung", totals.hung},
        {"expired", totals.expired},
        {"drained", totals.drained},
        {"sheds", totals.sheds},
        {"freezes", totals.freezes},
        {"forgiven", totals.forgiven},
        {"as a class", totals.as_class},
        {"class kept over a move", totals.kept},
        {"class given up in a move", totals.fell},
        {"shadow scores", totals.shadows},
        {"refused by quota", totals.quotas},
        {"served deeper", totals.browned},
        {"first barriers passed", totals.joined},
        {"second barriers passed", (double)totals.formed},
        {"faults of a group", totals.broken},
        {"lone ranks lost", totals.rank_lost},
    };
    bool all = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        printf("  %-22s %.0f\n", needed[i].what, needed[i].count);
        if (needed[i].count <= 0) {
            fprintf(stderr, "%s never happened\n", needed[i].what);
            all = false;
        }
    }
    return all;
}

int main(int argc, char **argv)
{
    int64_t seeds = 0, from = 1, seed = -1;
    bool verbose = false;
    program = argv[0];
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--verbose"))
            verbose = true;
        else if (more && !strcmp(argv[i], "--record"))
            sim_record = argv[++i];
        else if (more && !strcmp(argv[i], "--seeds") &&
                 lac_parse_i64(argv[++i], 1, 1 << 30, &seeds))
            continue;
        else if (more && !strcmp(argv[i], "--from") &&
                 lac_parse_i64(argv[++i], 0, INT64_MAX, &from))
            continue;
        else if (more && !strcmp(argv[i], "--seed") &&
                 lac_parse_i64(argv[++i], 0, INT64_MAX, &seed))
            continue;
        else
            return usage();
    }
    if (seed < 0 && !seeds)
        return usage();
    signal(SIGABRT, on_abort);
    if (seed >= 0) {
        seed_now = (uint64_t)seed;
        sim_run(seed_now, verbose);
        printf("seed %lld holds\n", (long long)seed);
        return 0;
    }
    for (int64_t i = 0; i < seeds; i++) {
        seed_now = (uint64_t)(from + i);
        sim_run(seed_now, verbose);
    }
    printf("%lld seeds hold: %llu events, %llu streams, %llu tokens\n", (long long)seeds,
           (unsigned long long)totals.events, (unsigned long long)totals.streams,
           (unsigned long long)totals.tokens);
    return everything_happened() || seeds < 100 ? 0 : 1;
}
