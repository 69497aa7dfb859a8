/* Groups as child processes on this host: one process a rank, each in a session of its own so that
 * a signal to its process group reaches all of it, its output in a log file, its cores its own
 * while there are enough. A child survives this process on purpose: it goes on serving, says Hello
 * to the next coordinator, and is taken over by its record. A group lives as long as all of its
 * ranks do. Loop thread. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cores.h"
#include "launcher.h"
#include "log_file.h"
#include "record.h"

enum {
    PATH_BYTES = 4096,
    ARGUMENTS_OWN = 20,
    KILL_AGAIN_MS = 1000,
    RANK_GRACE_MS = 2000, /* for the other ranks, once one has ended: they end by themselves */
};

typedef struct local local;

/* A rank. The state in `seen` is its own; a group's is made of its ranks'. */
typedef struct {
    local *owner; /* NULL once the launcher is gone: freed when its handle is closed */
    lac_fleet_entry seen;
    lac__record record;
    uv_process_t process;
    bool child;   /* ours, not taken over: the handle is open */
    bool closing; /* the handle is on its way out */
    bool first;   /* of its group to end: its reason is the group's */
    uint32_t place;
    uint64_t asked_ms, killed_ms; /* to end; 0 = not */
} process;

struct local {
    uv_loop_t *loop;
    char *worker, *coordinator;
    char groups_dir[PATH_BYTES], logs_dir[PATH_BYTES];
    char *arguments[LAC_LAUNCH_ARGUMENTS_MAX];
    size_t arguments_count;
    uint32_t groups_max, pp, tp, ranks, grace_ms;
    uint64_t log_bytes;
    lac__cores cores;
    process *processes[LAC_LAUNCH_PROCESSES_MAX];
    size_t count;
};

/* ---- places ---- */

static lac_status make_dir(const char *parent, const char *name, char out[PATH_BYTES],
                           lac_error *err)
{
    if ((size_t)snprintf(out, PATH_BYTES, "%s/%s", parent, name) >= PATH_BYTES - NAME_MAX)
        return lac_fail(err, LAC_ETOOBIG, "state-dir has %zu bytes, allowed %d", strlen(parent),
                        PATH_BYTES - NAME_MAX);
    if (mkdir(out, 0700) && errno != EEXIST)
        return lac_fail(err, LAC_EIO, "%s: cannot make it: %s", out, strerror(errno));
    return LAC_OK;
}

/* GROUP.log, of another rank than the first GROUP.RANK.log */
static void log_path(const local *l, const lac__record *record, char out[PATH_BYTES + NAME_MAX])
{
    char rank[16] = "";
    if (record->rank)
        snprintf(rank, sizeof rank, ".%u", record->rank);
    snprintf(out, PATH_BYTES + NAME_MAX, "%s/%s%s.log", l->logs_dir, record->group.group, rank);
}

static bool same(const lac_fleet_group *a, const lac_fleet_group *b)
{
    return !memcmp(a->incarnation, b->incarnation, sizeof a->incarnation);
}

static bool place_taken(const local *l, uint32_t place)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->processes[i]->place == place && l->processes[i]->seen.state != LAC_FLEET_ENDED)
            return true;
    return false;
}

/* A place whose cores nobody has; groups_max when there is none. */
static uint32_t free_place(const local *l)
{
    uint32_t place = 0;
    while (place < l->groups_max && place_taken(l, place))
        place++;
    return place;
}

/* The place of a process taken over: its group's, or by its cores. */
static uint32_t place_of(const local *l, const lac__record *record)
{
    cpu_set_t has, own;
    for (size_t i = 0; i < l->count; i++)
        if (same(&l->processes[i]->record.group, &record->group))
            return l->processes[i]->place;
    CPU_ZERO(&has);
    if (l->cores.per_group && !sched_getaffinity(record->pid, sizeof has, &has))
        for (uint32_t place = 0; place < l->groups_max; place++) {
            lac__cores_of(&l->cores, place, record->rank, &own);
            if (CPU_EQUAL(&has, &own) && !place_taken(l, place))
                return place;
        }
    return free_place(l);
}

/* ---- ends ---- */

static void on_closed(uv_handle_t *handle)
{
    process *p = handle->data;
    p->closing = p->child = false;
    if (!p->owner)
        free(p);
}

static void ended(process *p, const char *how)
{
    char log[PATH_BYTES + NAME_MAX], line[LAC_REASON_MAX / 2];
    local *l = p->owner;
    log_path(l, &p->record, log);
    lac__log_last_line(log, line, sizeof line);
    p->first = true;
    for (size_t i = 0; i < l->count; i++)
        p->first &= !same(&l->processes[i]->record.group, &p->record.group) ||
                    l->processes[i]->seen.state != LAC_FLEET_ENDED;
    p->seen.state = LAC_FLEET_ENDED;
    char which[24] = "";
    if (l->ranks > 1)
        snprintf(which, sizeof which, "rank %u ", p->record.rank);
    snprintf(p->seen.reason, sizeof p->seen.reason, "%s%s%s%s", which, how,
             *line ? "; it said last: " : "", line);
    p->seen.reason[lac_utf8_whole(p->seen.reason, strlen(p->seen.reason))] = 0;
    lac__record_remove(l->groups_dir, &p->record);
}

static void on_process_end(uv_process_t *handle, int64_t status, int signal_number)
{
    process *p = handle->data;
    if (p->owner) {
        char how[64];
        if (signal_number)
            snprintf(how, sizeof how, "ended by signal %d", signal_number);
        else
            snprintf(how, sizeof how, "ended with status %lld", (long long)status);
        ended(p, how);
    }
    p->closing = true;
    uv_close((uv_handle_t *)handle, on_closed);
}

/* Of one taken over nobody tells us that it ended. */
static void look(process *p)
{
    if (!p->child && p->seen.state != LAC_FLEET_ENDED && !lac__record_alive(&p->record))
        ended(p, "ended");
}

static void ask_to_end(local *l, process *p, uint32_t grace_ms)
{
    uint64_t now = uv_now(l->loop);
    if (!p->asked_ms) {
        p->asked_ms = now ? now : 1;
        p->seen.state = LAC_FLEET_STOPPING;
        kill(-p->record.pid, SIGTERM);
    } else if (now - p->asked_ms >= grace_ms &&
               (!p->killed_ms || now - p->killed_ms >= KILL_AGAIN_MS)) {
        if (!p->killed_ms)
            lac_warn("group %s did not end within %u ms: killed", p->seen.group.group, grace_ms);
        p->killed_ms = now;
        kill(-p->record.pid, SIGKILL);
    }
}

/* ---- starts ---- */

static process *add(local *l, const lac__record *record)
{
    LAC_ASSERT(l->count < LAC_LAUNCH_PROCESSES_MAX);
    process *p = lac_alloc(1, sizeof *p);
    p->owner = l;
    p->record = *record;
    p->seen.group = record->group;
    p->process.data = p;
    l->processes[l->count++] = p;
    return p;
}

static int spawn(local *l, process *p, int log)
{
    char hex[33], here[16], threads[16], pp[16], tp[16], rank[16];
    char *arguments[LAC_LAUNCH_ARGUMENTS_MAX + ARGUMENTS_OWN + 1];
    size_t n = 0;
    lac_hex(p->seen.group.incarnation, sizeof p->seen.group.incarnation, hex);
    uint32_t ranks_here = l->groups_max * l->ranks;
    snprintf(here, sizeof here, "%u", ranks_here < LAC_RANKS_MAX ? ranks_here : LAC_RANKS_MAX);
    snprintf(threads, sizeof threads, "%u", lac__cores_threads(&l->cores));
    snprintf(pp, sizeof pp, "%u", l->pp);
    snprintf(tp, sizeof tp, "%u", l->tp);
    snprintf(rank, sizeof rank, "%u", p->record.rank);
    const char *own[] = {l->worker, "--coordinator", l->coordinator, "--group", p->seen.group.group,
                         "--incarnation", hex, "--ranks-here", here, "--threads", threads,
                         /* of several ranks alone: */
                         "--pp", pp, "--tp", tp, "--rank", rank};
    size_t own_count = sizeof own / sizeof *own - (l->ranks > 1 ? 0 : 6);
    for (size_t i = 0; i < own_count; i++)
        arguments[n++] = (char *)own[i];            /* uv_spawn does not write to them */
    for (size_t i = 0; i < l->arguments_count; i++) /* later ones win */
        arguments[n++] = l->arguments[i];
    arguments[n] = NULL;
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
                                     {.flags = UV_INHERIT_FD, .data.fd = log},
                                     {.flags = UV_INHERIT_FD, .data.fd = log}};
    uv_process_options_t options = {.file = l->worker,
                                    .args = arguments,
                                    .exit_cb = on_process_end,
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio_count = 3,
                                    .stdio = stdio};
    /* A child has the affinity of the thread that makes it. */
    cpu_set_t before, wanted;
    bool bound = !sched_getaffinity(0, sizeof before, &before);
    lac__cores_of(&l->cores, p->place, p->record.rank, &wanted);
    bound = bound && !sched_setaffinity(0, sizeof wanted, &wanted);
    int code = uv_spawn(l->loop, &p->process, &options);
    if (bound)
        sched_setaffinity(0, sizeof before, &before);
    return code;
}

static void start_rank(local *l, const lac_fleet_group *group, uint32_t rank, uint32_t place)
{
    char log[PATH_BYTES + NAME_MAX];
    process *p = add(l, &(lac__record){.group = *group, .rank = rank});
    log_path(l, &p->record, log);
    p->place = place;
    lac__log_rotate(log, l->log_bytes);
    int fd = lac__log_open(log);
    int code = fd < 0 ? -errno : spawn(l, p, fd);
    if (fd >= 0) {
        close(fd);
        /* libuv opens the handle even when the program could not be started. */
        p->child = true;
    }
    if (code) {
        p->seen.state = LAC_FLEET_ENDED;
        p->first = true;
        snprintf(p->seen.reason, sizeof p->seen.reason, "cannot start %.150s: %s",
                 fd < 0 ? log : l->worker, uv_strerror(code));
        if (p->child) {
            p->closing = true;
            uv_close((uv_handle_t *)&p->process, on_closed);
        }
        return;
    }
    p->seen.state = LAC_FLEET_RUNNING;
    p->seen.pid = p->record.pid = p->process.pid;
    lac_error err = {0};
    if (!lac__process_started(p->record.pid, &p->record.started) ||
        lac__record_write(l->groups_dir, &p->record, &err) != LAC_OK)
        lac_warn("group %s runs without a record, a restart would not find it: %s", group->group,
                 err.text);
}

static void start(local *l, const lac_fleet_group *group)
{
    uint32_t place = free_place(l);
    for (uint32_t rank = 0; rank < l->ranks; rank++)
        start_rank(l, group, rank, place);
}

/* ---- the launcher ---- */

static void adopt(void *arg, const lac__record *record)
{
    local *l = arg;
    if (!lac__record_alive(record) || l->count == LAC_LAUNCH_PROCESSES_MAX) {
        lac__record_remove(l->groups_dir, record);
        return;
    }
    uint32_t place = place_of(l, record);
    process *p = add(l, record);
    p->seen.state = LAC_FLEET_RUNNING;
    p->seen.pid = record->pid;
    p->place = place;
    lac_info("group %s rank %u of an earlier start runs as pid %d: taken over", record->group.group,
             record->rank, (int)record->pid);
}

static void destroy(void *launcher)
{
    local *l = launcher;
    for (size_t i = 0; i < l->count; i++) {
        process *p = l->processes[i];
        p->owner = NULL;
        if (!p->child)
            free(p);
        else if (!p->closing)
            uv_close((uv_handle_t *)&p->process, on_closed);
    }
    for (size_t i = 0; i < l->arguments_count; i++)
        free(l->arguments[i]);
    free(l->worker);
    free(l->coordinator);
    free(l);
}

static lac_status create(uv_loop_t *loop, const lac_launch_options *options, void **out,
                         lac_error *err)
{
    local *l = lac_alloc(1, sizeof *l);
    l->loop = loop;
    l->worker = lac_strndup(options->worker, strlen(options->worker));
    l->coordinator = lac_strndup(options->coordinator, strlen(options->coordinator));
    l->groups_max = options->groups_max;
    l->pp = options->pp;
    l->tp = options->tp;
    l->ranks = options->pp * options->tp;
    lac__cores_read(&l->cores, l->groups_max, l->ranks, options->cores);
    l->grace_ms = options->grace_ms;
    l->log_bytes = options->log_bytes;
    for (; l->arguments_count < options->arguments_count; l->arguments_count++) {
        const char *word = options->arguments[l->arguments_count];
        l->arguments[l->arguments_count] = lac_strndup(word, strlen(word));
    }
    lac_status status = LAC_OK;
    if (access(l->worker, X_OK))
        status = lac_fail(err, LAC_EINVAL, "worker is %s, which cannot be run: %s", l->worker,
                          strerror(errno));
    if (status == LAC_OK)
        status = make_dir(options->state_dir, "groups", l->groups_dir, err);
    if (status == LAC_OK)
        status = make_dir(options->state_dir, "logs", l->logs_dir, err);
    if (status == LAC_OK)
        status = lac__record_scan(l->groups_dir, adopt, l, err);
    if (status != LAC_OK) {
        destroy(l);
        return status;
    }
    *out = l;
    return LAC_OK;
}

static bool among(const lac_fleet_group *group, const lac_fleet_group *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same(group, &set[i]))
            return true;
    return false;
}

/* A group as its ranks make it up. */
typedef struct {
    uint32_t known, ended, asked;
    const process *leader, *first; /* rank 0; the one that ended first; NULL = none */
} census;

static census count_ranks(const local *l, const lac_fleet_group *group)
{
    census c = {0};
    for (size_t i = 0; i < l->count; i++) {
        const process *p = l->processes[i];
        if (!same(&p->seen.group, group))
            continue;
        bool over = p->seen.state == LAC_FLEET_ENDED;
        c.known++;
        c.ended += over;
        c.asked += p->asked_ms != 0;
        c.leader = p->record.rank == 0 ? p : c.leader;
        c.first = over && p->first ? p : c.first;
    }
    return c;
}

static void tend(local *l, process *p, bool is_wanted)
{
    census c = count_ranks(l, &p->seen.group);
    bool broken = c.ended > 0 || c.known < l->ranks; /* fewer: some were gone when it was found */
    if (p->seen.state == LAC_FLEET_ENDED || (is_wanted && !broken))
        return;
    ask_to_end(l, p, broken && RANK_GRACE_MS < l->grace_ms ? RANK_GRACE_MS : l->grace_ms);
}

/* A group that has ended and is not wanted is forgotten as a whole, when all handles are closed. */
static bool forgettable(const local *l, const lac_fleet_group *group)
{
    for (size_t i = 0; i < l->count; i++) {
        const process *p = l->processes[i];
        if (same(&p->seen.group, group) && (p->seen.state != LAC_FLEET_ENDED || p->child))
            return false;
    }
    return true;
}

static void forget_unwanted(local *l, const lac_fleet_group *wanted, size_t count)
{
    for (size_t i = 0; i < l->count;) {
        lac_fleet_group group = l->processes[i]->seen.group;
        if (among(&group, wanted, count) || !forgettable(l, &group)) {
            i++;
            continue;
        }
        size_t kept = 0;
        for (size_t k = 0; k < l->count; k++)
            if (same(&l->processes[k]->seen.group, &group))
                free(l->processes[k]);
            else
                l->processes[kept++] = l->processes[k];
        l->count = kept;
        i = 0;
    }
}

static void ensure(void *launcher, const lac_fleet_group *wanted, size_t count)
{
    local *l = launcher;
    for (size_t i = 0; i < l->count; i++)
        look(l->processes[i]);
    for (size_t i = 0; i < l->count; i++)
        tend(l, l->processes[i], among(&l->processes[i]->seen.group, wanted, count));
    forget_unwanted(l, wanted, count);
    for (size_t i = 0; i < count; i++)
        if (!count_ranks(l, &wanted[i]).known && l->count + l->ranks <= LAC_LAUNCH_PROCESSES_MAX &&
            free_place(l) < l->groups_max)
            start(l, &wanted[i]);
}

static lac_fleet_entry entry_of(const local *l, const lac_fleet_group *group)
{
    census c = count_ranks(l, group);
    lac_fleet_entry entry = {.group = *group, .pid = c.leader ? c.leader->seen.pid : 0};
    entry.state = c.ended == c.known           ? LAC_FLEET_ENDED
                  : c.asked > 0 || c.ended > 0 ? LAC_FLEET_STOPPING
                                               : LAC_FLEET_RUNNING;
    if (entry.state == LAC_FLEET_ENDED && c.first)
        memcpy(entry.reason, c.first->seen.reason, sizeof entry.reason);
    return entry;
}

static size_t list(void *launcher, lac_fleet_entry *out, size_t max)
{
    local *l = launcher;
    size_t count = 0;
    for (size_t i = 0; i < l->count; i++) {
        char log[PATH_BYTES + NAME_MAX];
        look(l->processes[i]);
        log_path(l, &l->processes[i]->record, log);
        lac__log_rotate(log, l->log_bytes);
    }
    for (size_t i = 0; i < l->count && count < max; i++) {
        const lac_fleet_group *group = &l->processes[i]->seen.group;
        bool listed = false;
        for (size_t k = 0; k < count; k++)
            listed |= same(&out[k].group, group);
        if (!listed)
            out[count++] = entry_of(l, group);
    }
    return count;
}

const lac__launcher lac__launcher_local = {
    .kind = "local", .create = create, .ensure = ensure, .list = list, .destroy = destroy};
