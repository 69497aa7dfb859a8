/* The local launcher with real processes: starting, ending, killing, taking over. */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/launch.h"

enum { WAIT_MS = 20000 };

static char dir[] = "/tmp/lacuna-launch-XXXXXX";
static uv_loop_t loop;
static lac_launch *launch;
static lac_fleet_entry seen[8];
static uint32_t stages = 1; /* ranks of a group */

static lac_fleet_group group(const char *name, uint8_t number)
{
    lac_fleet_group g = {.incarnation = {number, 1}};
    snprintf(g.group, sizeof g.group, "%s", name);
    return g;
}

static void open_with(const char *what, uint32_t groups_max, uint32_t cores, uint32_t grace_ms)
{
    const char *arguments[] = {"--model", "m.gguf", what};
    lac_launch_options options = {.kind = "local",
                                  .worker = PLAYED_WORKER,
                                  .coordinator = "tcp://127.0.0.1:1",
                                  .state_dir = dir,
                                  .arguments = arguments,
                                  .arguments_count = 3,
                                  .groups_max = groups_max,
                                  .pp = stages,
                                  .cores = cores,
                                  .grace_ms = grace_ms,
                                  .log_bytes = 4096};
    lac_error err = {0};
    ck_assert_msg(lac_launch_create(&loop, &options, &launch, &err) == LAC_OK, "%s", err.text);
}

static void close_launch(void)
{
    lac_launch_destroy(&launch);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

static size_t look(void)
{
    return lac_launch_list(launch, seen, 8);
}

/* Turns the loop with the same wish until `done`. */
static void until(bool (*done)(void), const lac_fleet_group *wanted, size_t count)
{
    uv_timer_t timer;
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, 10, 10);
    uint64_t end = uv_now(&loop) + WAIT_MS;
    while (!done()) {
        ck_assert_msg(uv_now(&loop) < end, "waited %d ms for nothing", WAIT_MS);
        lac_launch_ensure(launch, wanted, count);
        uv_run(&loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static bool none_left(void)
{
    return look() == 0;
}

static bool one_ended(void)
{
    return look() == 1 && seen[0].state == LAC_FLEET_ENDED;
}

static const char *log_text(const char *name)
{
    static char text[8192];
    char path[256];
    snprintf(path, sizeof path, "%s/logs/%s.log", dir, name);
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[got] = 0;
    return text;
}

static bool log_a_written(void)
{
    return strchr(log_text("a"), '\n') != NULL;
}

static void setup(void)
{
    stages = 1;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    uv_loop_init(&loop);
}

static void teardown(void)
{
    char command[256];
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    snprintf(command, sizeof command, "rm -rf -- '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(what_is_wanted_runs_and_saying_it_twice_changes_nothing)
{
    lac_fleet_group two[] = {group("a", 1), group("b", 2)};
    open_with("waits", 4, 0, 0);
    until(log_a_written, two, 2);
    ck_assert_uint_eq(look(), 2);
    int64_t pid = seen[0].pid;
    lac_launch_ensure(launch, two, 2);
    ck_assert_uint_eq(look(), 2);
    ck_assert_int_eq(seen[0].pid, pid);
    ck_assert_int_eq(seen[0].state, LAC_FLEET_RUNNING);
    ck_assert_ptr_nonnull(strstr(log_text("a"), "--coordinator tcp://127.0.0.1:1 --group a "
                                                "--incarnation 0101000000000000"));
    until(none_left, NULL, 0);
    ck_assert_int_ne(kill((pid_t)pid, 0), 0);
    close_launch();
}
END_TEST

START_TEST(a_bad_start_is_told_with_its_last_words)
{
    lac_fleet_group one[] = {group("a", 1)};
    open_with("fails", 4, 0, 0);
    until(one_ended, one, 1);
    ck_assert_str_eq(seen[0].reason, "ended with status 7; it said last: model is bad");
    /* It stays told, and is not started again under the same number. */
    lac_launch_ensure(launch, one, 1);
    ck_assert(one_ended());
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

static bool log_a_names_child(void)
{
    const char *at = strstr(log_text("a"), "child ");
    return at && strchr(at, '\n');
}

/* A zombie that nobody collects is dead too. */
static bool alive(pid_t pid)
{
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    int got = fscanf(f, "%*d (%*[^)]) %c", &state);
    fclose(f);
    return got == 1 && state != 'Z' && state != 'X';
}

static pid_t child;
static bool child_dead(void)
{
    return !alive(child);
}

START_TEST(what_does_not_end_is_killed_with_its_children)
{
    lac_fleet_group one[] = {group("a", 1)};
    open_with("stubborn", 4, 0, 200);
    until(log_a_names_child, one, 1);
    child = (pid_t)strtol(strstr(log_text("a"), "child ") + 6, NULL, 10);
    ck_assert(alive(child));
    until(none_left, NULL, 0);
    until(child_dead, NULL, 0);
    close_launch();
}
END_TEST

START_TEST(a_later_launcher_takes_over)
{
    lac_fleet_group two[] = {group("a", 1), group("b", 2)};
    open_with("waits", 4, 0, 0);
    until(log_a_written, two, 2);
    look();
    int64_t pid = seen[0].pid;
    close_launch(); /* they go on */
    ck_assert_int_eq(kill((pid_t)pid, 0), 0);

    open_with("waits", 4, 0, 0);
    ck_assert_uint_eq(look(), 2);
    int at = seen[0].pid == pid ? 0 : 1;
    ck_assert_int_eq(seen[at].pid, pid);
    ck_assert_str_eq(seen[at].group.group, "a");
    ck_assert_int_eq(seen[at].state, LAC_FLEET_RUNNING);
    lac_launch_ensure(launch, two, 2);
    ck_assert_uint_eq(look(), 2); /* the same starts: nothing new */
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

START_TEST(a_record_of_another_process_is_not_believed)
{
    char path[256];
    lac_fleet_group one[] = {group("a", 1)};
    open_with("waits", 4, 0, 0);
    until(log_a_written, one, 1);
    until(none_left, NULL, 0);
    close_launch();
    /* The number of a living process, but not its start time; and nonsense. */
    snprintf(path, sizeof path, "%s/groups/%032d.group", dir, 5);
    FILE *f = fopen(path, "w");
    char boot[64] = {0};
    FILE *b = fopen("/proc/sys/kernel/random/boot_id", "r");
    ck_assert_ptr_nonnull(fgets(boot, sizeof boot, b));
    fclose(b);
    boot[strcspn(boot, "\n")] = 0;
    fprintf(f, "%d 1 %s a\n", (int)getpid(), boot);
    fclose(f);
    snprintf(path, sizeof path, "%s/groups/%032d.group", dir, 6);
    f = fopen(path, "w");
    fputs("\xff\xfe nonsense", f);
    fclose(f);
    open_with("waits", 4, 0, 0);
    ck_assert_uint_eq(look(), 0);
    ck_assert_int_ne(access(path, F_OK), 0);
    close_launch();
}
END_TEST

START_TEST(a_program_that_is_not_there_is_an_error_at_once)
{
    lac_error err = {0};
    lac_launch_options options = {.kind = "local",
                                  .worker = "/nonexistent/worker",
                                  .coordinator = "tcp://127.0.0.1:1",
                                  .state_dir = dir,
                                  .groups_max = 1};
    ck_assert_int_eq(lac_launch_create(&loop, &options, &launch, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/worker"));
    options.kind = "magic";
    ck_assert_int_eq(lac_launch_create(&loop, &options, &launch, &err), LAC_EUNSUPPORTED);
}
END_TEST

START_TEST(cores_are_disjoint_while_there_are_enough)
{
    cpu_set_t mine, a, b, both;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    if (CPU_COUNT(&mine) < 2)
        return;
    lac_fleet_group two[] = {group("a", 1), group("b", 2)};
    open_with("waits", 2, 1, 0);
    until(log_a_written, two, 2);
    ck_assert_uint_eq(look(), 2);
    sched_getaffinity((pid_t)seen[0].pid, sizeof a, &a);
    sched_getaffinity((pid_t)seen[1].pid, sizeof b, &b);
    CPU_AND(&both, &a, &b);
    ck_assert_int_eq(CPU_COUNT(&a), 1);
    ck_assert_int_eq(CPU_COUNT(&b), 1);
    ck_assert_int_eq(CPU_COUNT(&both), 0);
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    ck_assert(CPU_EQUAL(&mine, &after));
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

START_TEST(logs_are_rotated)
{
    char path[256];
    lac_fleet_group one[] = {group("a", 1)};
    open_with("waits", 4, 0, 0);
    until(log_a_written, one, 1);
    snprintf(path, sizeof path, "%s/logs/a.log", dir);
    FILE *f = fopen(path, "a");
    for (int i = 0; i < 1000; i++)
        fprintf(f, "line %d\n", i);
    fclose(f);
    look();
    struct stat now, older;
    ck_assert_int_eq(stat(path, &now), 0);
    ck_assert_int_eq(now.st_size, 0);
    snprintf(path, sizeof path, "%s/logs/a.log.1", dir);
    ck_assert_int_eq(stat(path, &older), 0);
    ck_assert_int_gt(older.st_size, 8000);
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

/* ---- groups of several ranks ---- */

static bool both_logs_written(void)
{
    return strchr(log_text("a"), '\n') != NULL && strstr(log_text("a.1"), "child ") != NULL;
}

/* The process of rank 1: the parent of the child that it names. */
static pid_t second_rank(void)
{
    char path[64];
    int parent = 0;
    pid_t named = (pid_t)strtol(strstr(log_text("a.1"), "child ") + 6, NULL, 10);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)named);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%*d (%*[^)]) %*c %d", &parent), 1);
    fclose(f);
    return (pid_t)parent;
}

START_TEST(a_group_has_all_its_ranks_and_is_one_entry)
{
    lac_fleet_group one[] = {group("a", 1)};
    stages = 2;
    open_with("waits", 4, 0, 0);
    until(both_logs_written, one, 1);
    ck_assert_ptr_nonnull(strstr(log_text("a"), "--pp 2 --tp 1 --rank 0"));
    ck_assert_ptr_nonnull(strstr(log_text("a.1"), "--pp 2 --tp 1 --rank 1"));
    ck_assert_uint_eq(look(), 1);
    ck_assert_int_eq(seen[0].state, LAC_FLEET_RUNNING);
    pid_t first = (pid_t)seen[0].pid, second = second_rank();
    close_launch();
    open_with("waits", 4, 0, 0); /* a later launcher finds both */
    ck_assert_uint_eq(look(), 1);
    ck_assert_int_eq(seen[0].pid, first);
    lac_launch_ensure(launch, one, 1);
    ck_assert_int_eq(seen[0].state, LAC_FLEET_RUNNING);
    until(none_left, NULL, 0);
    ck_assert(!alive(first) && !alive(second));
    close_launch();
}
END_TEST

START_TEST(a_group_that_loses_a_rank_ends)
{
    lac_fleet_group one[] = {group("a", 1)};
    stages = 2;
    open_with("stubborn", 4, 0, 0); /* the other does not end by itself */
    until(both_logs_written, one, 1);
    look();
    pid_t first = (pid_t)seen[0].pid;
    kill(second_rank(), SIGKILL);
    until(one_ended, one, 1);
    ck_assert_ptr_nonnull(strstr(seen[0].reason, "rank 1 ended by signal 9"));
    ck_assert(!alive(first));
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

/* While nobody looked one rank went: what is left is no group. */
START_TEST(a_group_found_without_a_rank_ends)
{
    lac_fleet_group one[] = {group("a", 1)};
    stages = 2;
    open_with("waits", 4, 0, 0);
    until(both_logs_written, one, 1);
    look();
    pid_t first = (pid_t)seen[0].pid, second = second_rank();
    close_launch();
    kill(second, SIGKILL);
    child = second;
    while (!child_dead())
        usleep(1000);
    open_with("waits", 4, 0, 0);
    until(one_ended, one, 1);
    ck_assert(!alive(first));
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

START_TEST(ranks_have_cores_of_their_own)
{
    cpu_set_t mine, a, b, both;
    ck_assert_int_eq(sched_getaffinity(0, sizeof mine, &mine), 0);
    if (CPU_COUNT(&mine) < 2)
        return;
    lac_fleet_group one[] = {group("a", 1)};
    stages = 2;
    open_with("waits", 1, 2, 0);
    until(both_logs_written, one, 1);
    look();
    sched_getaffinity((pid_t)seen[0].pid, sizeof a, &a);
    sched_getaffinity(second_rank(), sizeof b, &b);
    CPU_AND(&both, &a, &b);
    ck_assert_int_eq(CPU_COUNT(&a), 1);
    ck_assert_int_eq(CPU_COUNT(&b), 1);
    ck_assert_int_eq(CPU_COUNT(&both), 0);
    ck_assert_ptr_nonnull(strstr(log_text("a"), "--threads 1"));
    until(none_left, NULL, 0);
    close_launch();
}
END_TEST

START_TEST(too_many_ranks_are_refused)
{
    lac_error err = {0};
    lac_launch_options options = {.kind = "local",
                                  .worker = PLAYED_WORKER,
                                  .coordinator = "x",
                                  .state_dir = dir,
                                  .groups_max = 200,
                                  .pp = 8,
                                  .tp = 1};
    ck_assert_int_eq(lac_launch_create(&loop, &options, &launch, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "is 1600 ranks, allowed 1024"));
    options.pp = 65;
    ck_assert_int_eq(lac_launch_create(&loop, &options, &launch, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "group-shape is 65x1"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch");
    TCase *local = tcase_create("local");
    tcase_set_timeout(local, 60);
    tcase_add_checked_fixture(local, setup, teardown);
    tcase_add_test(local, what_is_wanted_runs_and_saying_it_twice_changes_nothing);
    tcase_add_test(local, a_bad_start_is_told_with_its_last_words);
    tcase_add_test(local, what_does_not_end_is_killed_with_its_children);
    tcase_add_test(local, a_later_launcher_takes_over);
    tcase_add_test(local, a_record_of_another_process_is_not_believed);
    tcase_add_test(local, a_program_that_is_not_there_is_an_error_at_once);
    tcase_add_test(local, cores_are_disjoint_while_there_are_enough);
    tcase_add_test(local, logs_are_rotated);
    tcase_add_test(local, a_group_has_all_its_ranks_and_is_one_entry);
    tcase_add_test(local, a_group_that_loses_a_rank_ends);
    tcase_add_test(local, a_group_found_without_a_rank_ends);
    tcase_add_test(local, ranks_have_cores_of_their_own);
    tcase_add_test(local, too_many_ranks_are_refused);
    suite_add_tcase(suite, local);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
