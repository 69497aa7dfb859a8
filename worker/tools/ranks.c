/* Starting, joining and watching the ranks of a command on this machine. The process that people
 * start only watches: it holds no model, so whatever stops or kills a rank leaves it able to end
 * the others. Main thread; a rank has a beat beside it. Must not know what the command does.
 *
 * A rank learns who it is from one variable of its environment, which it takes out again. */
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "fabric/fabric.h"
#include "fabric/rendezvous.h"

static const char variable[] = "LACUNA_RANK_LINK"; /* fd:rank:ranks:incarnation in hex */

enum {
    FORM_MS = 30000,
    LOOK_MS = 50,
    SILENT_MS = 3000, /* a rank without a beat for so long is hung as a whole */
    GRACE_MS = 1000,  /* for the others to end by themselves once one has */
};
#define MS UINT64_C(1000000)

/* ---- a rank ---- */

/* This process as a rank of several. */
static struct {
    bool known;
    int fd;
    lac_fabric_options options;
    lac_fabric *fabric;
    lac_placement placement;
    lac_beat *beat;
} self = {.fd = -1};

/* Reads the variable once. */
static bool is_rank(void)
{
    const char *text = self.known ? NULL : getenv(variable);
    unsigned fd, rank, ranks;
    char hex[40];
    if (text && sscanf(text, "%5u:%3u:%3u:%32s", &fd, &rank, &ranks, hex) == 4 &&
        lac_unhex(hex, self.options.incarnation, sizeof self.options.incarnation)) {
        self.fd = (int)fd;
        self.options.rank = rank;
        self.options.ranks = ranks;
        (void)fcntl(self.fd, F_SETFD, FD_CLOEXEC);
    }
    if (!self.known)
        unsetenv(variable);
    self.known = true;
    return self.fd >= 0;
}

bool lac_tool_ranks_follows(void)
{
    return is_rank() && self.options.rank > 0;
}

static uint32_t cores(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

lac_status lac_tool_ranks_join(const lac_tool_engine *options, lac_engine_options *engine,
                               lac_error *err)
{
    if (!is_rank())
        return LAC_OK;
    uint32_t ranks = self.options.ranks;
    if (options->pp * options->tp != ranks)
        return lac_fail(err, LAC_EINVAL, "pp %lld × tp %lld, but %u ranks were started",
                        (long long)options->pp, (long long)options->tp, ranks);
    lac_status status = lac_fabric_open(&self.options, &self.fabric, err);
    if (status == LAC_OK)
        status = lac_rendezvous_join(self.fd, self.fabric, lac_now_ns() + FORM_MS * MS, err);
    if (status != LAC_OK)
        return status;
    self.beat = lac_beat_start(self.fd);
    lac_model *model = NULL;
    status = lac_model_open(options->model, &model, err);
    if (status == LAC_OK)
        status = lac_tool_placement(model, options, &self.placement, err);
    lac_model_close(&model);
    if (status != LAC_OK) {
        lac_fabric_abort(self.fabric, err->text);
        return status;
    }
    engine->group = (lac_engine_group){.fabric = self.fabric, .placement = &self.placement};
    engine->ranks_here = ranks;
    if (engine->threads == 0)
        engine->threads = cores() > ranks ? cores() / ranks : 1;
    return LAC_OK;
}

void lac_tool_ranks_leave(void)
{
    lac_fabric_close(&self.fabric);
    lac_placement_free(&self.placement);
    lac_beat_stop(&self.beat);
}

/* ---- who starts them ---- */

typedef struct {
    uint32_t count;
    pid_t pids[LAC_RANKS_MAX]; /* 0 once it has ended */
    int fds[LAC_RANKS_MAX];
    uint64_t heard_ms[LAC_RANKS_MAX];
    bool failed;
    uint64_t end_ms; /* when those that are left are killed; 0 while all is well */
} ranks;

/* In the child. Does not return. */
static void rank_exec(const ranks *set, uint32_t rank, int fd, const char *hex, pid_t parent,
                      char **argv)
{
    char link[128];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(LAC_TOOL_FAILED);
    if (rank > 0) { /* the terminal's signals and streams are the leader's */
        (void)setpgid(0, 0);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
            _exit(LAC_TOOL_FAILED);
    }
    (void)fcntl(fd, F_SETFD, 0);
    snprintf(link, sizeof link, "%d:%u:%u:%s", fd, rank, set->count, hex);
    setenv(variable, link, 1);
    size_t count = 0;
    while (argv[count])
        count++;
    char **args = lac_alloc(count + 2, sizeof *args);
    args[0] = lac_strndup("lacuna-engine", 13);
    memcpy(args + 1, argv, count * sizeof *args);
    execv("/proc/self/exe", args);
    fprintf(stderr, "lacuna-engine: /proc/self/exe: %s\n", strerror(errno));
    _exit(LAC_TOOL_FAILED);
}

static lac_status start_all(ranks *set, char **argv, lac_error *err)
{
    uint8_t incarnation[16];
    char hex[33];
    pid_t parent = getpid();
    lac_random_bytes(incarnation, sizeof incarnation);
    lac_hex(incarnation, sizeof incarnation, hex);
    fflush(NULL);
    for (uint32_t r = 0; r < set->count; r++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            return lac_fail(err, LAC_EIO, "socketpair: %s", strerror(errno));
        set->fds[r] = pair[0];
        set->pids[r] = fork();
        if (set->pids[r] == 0)
            rank_exec(set, r, pair[1], hex, parent, argv);
        close(pair[1]);
        if (set->pids[r] < 0) {
            set->pids[r] = 0;
            return lac_fail(err, LAC_EIO, "fork: %s", strerror(errno));
        }
    }
    return LAC_OK;
}

static void kill_all(ranks *set)
{
    for (uint32_t r = 0; r < set->count; r++)
        if (set->pids[r] > 0)
            kill(set->pids[r], SIGKILL); /* a stopped one too */
}

/* One rank is lost or done: the others get a little time to say why and to clear up. */
static void end_soon(ranks *set, bool failed)
{
    set->failed |= failed;
    if (set->end_ms == 0)
        set->end_ms = lac_now_ms() + GRACE_MS;
}

static void ended(ranks *set, uint32_t r, int status)
{
    bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    set->pids[r] = 0;
    if (WIFSIGNALED(status) && set->end_ms == 0)
        fprintf(stderr, "lacuna-engine: rank %u was ended by signal %d\n", r, WTERMSIG(status));
    if (!clean)
        end_soon(set, set->end_ms == 0 || r == 0);
    else if (r == 0)
        end_soon(set, false);
}

/* Looks at every process once; true while one is left. */
static bool reap(ranks *set)
{
    bool left = false;
    for (uint32_t r = 0; r < set->count; r++) {
        int status;
        if (set->pids[r] <= 0)
            continue;
        left = true;
        if (waitpid(set->pids[r], &status, WNOHANG | WUNTRACED) != set->pids[r])
            continue;
        if (!WIFSTOPPED(status)) {
            ended(set, r, status);
        } else if (WSTOPSIG(status) == SIGSTOP) { /* not by a terminal, which stops us too */
            fprintf(stderr, "lacuna-engine: rank %u was stopped\n", r);
            kill(set->pids[r], SIGKILL);
            end_soon(set, true);
        }
    }
    return left;
}

static void listen_once(ranks *set)
{
    struct pollfd polls[LAC_RANKS_MAX];
    uint64_t before = lac_now_ms();
    for (uint32_t r = 0; r < set->count; r++)
        polls[r] = (struct pollfd){.fd = set->pids[r] > 0 ? set->fds[r] : -1, .events = POLLIN};
    (void)poll(polls, set->count, LOOK_MS);
    uint64_t now = lac_now_ms();
    bool late = now - before > 10 * LOOK_MS; /* it was this process that slept */
    for (uint32_t r = 0; r < set->count; r++) {
        lac_status status = set->pids[r] > 0 ? lac_rendezvous_hear(set->fds[r]) : LAC_OK;
        if (status == LAC_EPEER)
            usleep(1000); /* it is ending: waitpid will say how */
        if (status != LAC_AGAIN || late)
            set->heard_ms[r] = now;
        if (now - set->heard_ms[r] <= SILENT_MS)
            continue;
        fprintf(stderr, "lacuna-engine: rank %u gives no sign of life\n", r);
        kill(set->pids[r], SIGKILL);
        set->heard_ms[r] = now;
        end_soon(set, true);
    }
}

static int watch(ranks *set)
{
    for (uint32_t r = 0; r < set->count; r++)
        set->heard_ms[r] = lac_now_ms();
    while (reap(set)) {
        listen_once(set);
        if (set->end_ms > 0 && lac_now_ms() >= set->end_ms)
            kill_all(set);
    }
    return set->failed ? LAC_TOOL_FAILED : LAC_TOOL_OK;
}

/* What would fail on every rank fails here, once. */
static lac_status check_first(const lac_tool_engine *options, lac_error *err)
{
    lac_model *model = NULL;
    lac_placement placement;
    lac_status status = lac_model_open(options->model, &model, err);
    if (status == LAC_OK)
        status = lac_tool_placement(model, options, &placement, err);
    if (status == LAC_OK)
        lac_placement_free(&placement);
    lac_model_close(&model);
    lac_fabric *fabric = NULL;
    lac_fabric_options two = {.ranks = 2};
    if (status == LAC_OK)
        status = lac_fabric_open(&two, &fabric, err); /* is there one for several ranks? */
    lac_fabric_close(&fabric);
    return status;
}

int lac_tool_ranks(const lac_tool_spec *spec, const lac_tool_engine *options, char **argv)
{
    if (is_rank() || options->pp * options->tp == 1)
        return -1;
    lac_error err = {0};
    static ranks set;
    set.count = (uint32_t)(options->pp * options->tp);
    if (check_first(options, &err) != LAC_OK)
        return lac_tool_fail(spec, &err);
    lac_status status = start_all(&set, argv, &err);
    if (status == LAC_OK)
        status = lac_rendezvous_serve(set.fds, set.count, lac_now_ns() + FORM_MS * MS, &err);
    if (status != LAC_OK) {
        if (status != LAC_EPEER) /* a rank that ended has said why */
            fprintf(stderr, "lacuna-engine %s: %s\n", spec->name, err.text);
        end_soon(&set, true);
    }
    return watch(&set);
}
