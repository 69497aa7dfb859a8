/* Runs a body as several ranks, each a process of its own that found the others over a rendezvous,
 * and tells how each ended. For the fabric's tests. */
#ifndef LAC_TEST_RANKS_H
#define LAC_TEST_RANKS_H

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/fabric.h"
#include "fabric/rendezvous.h"

enum { RANKS_MAX = 8 };

static inline uint64_t in_ms(uint64_t ms)
{
    return lac_now_ns() + ms * UINT64_C(1000000);
}

static inline lac_fabric_call at_step(uint32_t step, uint64_t ms)
{
    return (lac_fabric_call){.step = step, .deadline_ns = in_ms(ms)};
}

/* Returns the exit status of the rank: 0 went well. */
typedef int (*rank_body)(lac_fabric *fabric, void *arg);

typedef struct {
    pid_t pids[RANKS_MAX];
    uint32_t count;
} rank_set;

/* In a rank: a failed check is a line and exit status 1. */
#define RANK_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %u: %s:%d: %s\n", lac_fabric_rank(fabric), __FILE__, __LINE__,   \
                    #condition);                                                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* `fault_rank` (or −1) gets `fault`. */
static inline rank_set ranks_start(uint32_t count, rank_body body, void *arg, int fault_rank,
                                   lac_fabric_fault fault)
{
    rank_set set = {.count = count};
    int fds[RANKS_MAX], theirs[RANKS_MAX];
    for (uint32_t r = 0; r < count; r++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        fds[r] = pair[0];
        theirs[r] = pair[1];
    }
    for (uint32_t r = 0; r < count; r++) {
        set.pids[r] = fork();
        ck_assert_int_ge(set.pids[r], 0);
        if (set.pids[r] > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(30);
        for (uint32_t i = 0; i < count; i++)
            close(fds[i]);
        lac_fabric *fabric = NULL;
        lac_error err = {0};
        lac_fabric_options options = {.rank = r, .ranks = count, .incarnation = {7}};
        if (lac_fabric_open(&options, &fabric, &err) == LAC_OK && (int)r == fault_rank)
            fabric = lac_fabric_faulty(fabric, fault);
        int code = 90;
        if (fabric && lac_rendezvous_join(theirs[r], fabric, in_ms(5000), &err) == LAC_OK)
            code = body(fabric, arg);
        else if (fabric && err.status == LAC_EPROTO)
            code = 91;
        if (code == 90)
            fprintf(stderr, "rank %u: %s\n", r, err.text);
        lac_fabric_close(&fabric);
        exit(code);
    }
    for (uint32_t r = 0; r < count; r++)
        close(theirs[r]);
    lac_error err = {0};
    lac_status status = lac_rendezvous_serve(fds, count, in_ms(5000), &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    for (uint32_t r = 0; r < count; r++)
        close(fds[r]);
    return set;
}

/* Exit status of a rank, 1000 + signal when one killed it. */
static inline int rank_end(const rank_set *set, uint32_t rank)
{
    int status;
    ck_assert_int_eq(waitpid(set->pids[rank], &status, 0), set->pids[rank]);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void ranks_run(uint32_t count, rank_body body, void *arg)
{
    rank_set set = ranks_start(count, body, arg, -1, (lac_fabric_fault){0});
    for (uint32_t r = 0; r < count; r++)
        ck_assert_msg(rank_end(&set, r) == 0, "rank %u failed", r);
}

/* Files in shared memory that a transport of these processes could have left. */
static inline int shared_segments(void)
{
    int count = 0;
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strncmp(entry->d_name, "ucx_", 4) == 0;
    if (dir)
        closedir(dir);
    return count;
}

static inline int suite_run(Suite *suite)
{
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
