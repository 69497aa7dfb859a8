/* Groups as child processes on this host: one process each, in a session of its own so that a
 * signal to a group reaches all of it, its output in a log file, its cores its own while there are
 * enough. A child survives this process on purpose: it goes on serving, says Hello to the next
 * coordinator, and is taken over by its record. Loop thread. */
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
#include "launcher.h"
#include "log_file.h"
#include "record.h"

enum { PATH_BYTES = 4096, ARGUMENTS_OWN = 16, KILL_AGAIN_MS = 1000 };

typedef struct local local;

typedef struct {
    local *owner; /* NULL once the launcher is gone: freed when its handle is closed */
    lac_fleet_entry seen;
    lac__record record;
    uv_process_t process;
    bool child;   /* ours, not taken over: the handle is open */
    bool closing; /* the handle is on its way out */
    uint32_t slot;
    uint64_t asked_ms, killed_ms; /* to end; 0 = not */
} process;

struct local {
    uv_loop_t *loop;
    char *worker, *coordinator;
    char groups_dir[PATH_BYTES], logs_dir[PATH_BYTES];
    char *arguments[LAC_LAUNCH_ARGUMENTS_MAX];
    size_t arguments_count;
    uint32_t groups_max, cores, grace_ms;
    uint64_t log_bytes;
    int allowed[CPU_SETSIZE], allowed_count;
    process *processes[LAC_GROUPS_MAX];
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

static void log_path(const local *l, const lac_fleet_group *group, char out[PATH_BYTES + NAME_MAX])
{
    snprintf(out, PATH_BYTES + NAME_MAX, "%s/%s.log", l->logs_dir, group->group);
}

/* ---- cores ---- */

/* The cores of a slot, or all of them while there are not enough for everybody. */
static void cores_of(const local *l, uint32_t slot, cpu_set_t *out)
{
    CPU_ZERO(out);
    bool own = l->cores && (uint64_t)l->groups_max * l->cores <= (uint64_t)l->allowed_count;
    uint32_t from = own ? slot * l->cores : 0;
    uint32_t count = own ? l->cores : (uint32_t)l->allowed_count;
    for (uint32_t i = 0; i < count; i++)
        CPU_SET(l->allowed[from + i], out);
}

static void read_allowed(local *l)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            l->allowed[l->allowed_count++] = i;
}

static bool slot_taken(const local *l, uint32_t slot)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->processes[i]->slot == slot && l->processes[i]->seen.state != LAC_FLEET_ENDED)
            return true;
    return false;
}

/* A slot whose cores nobody has; groups_max when there is none. */
static uint32_t free_slot(const local *l)
{
    uint32_t slot = 0;
    while (slot < l->groups_max && slot_taken(l, slot))
        slot++;
    return slot;
}

/* The slot that a process taken over sits on, by its cores. */
static uint32_t slot_by_cores(const local *l, pid_t pid)
{
    cpu_set_t has, own;
    CPU_ZERO(&has);
    if (l->cores && !sched_getaffinity(pid, sizeof has, &has))
        for (uint32_t slot = 0; slot < l->groups_max; slot++) {
            cores_of(l, slot, &own);
            if (CPU_EQUAL(&has, &own) && !slot_taken(l, slot))
                return slot;
        }
    return free_slot(l);
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
    log_path(p->owner, &p->seen.group, log);
    lac__log_last_line(log, line, sizeof line);
    p->seen.state = LAC_FLEET_ENDED;
    snprintf(p->seen.reason, sizeof p->seen.reason, "%s%s%s", how, *line ? "; it said last: " : "",
             line);
    p->seen.reason[lac_utf8_whole(p->seen.reason, strlen(p->seen.reason))] = 0;
    lac__record_remove(p->owner->groups_dir, &p->seen.group);
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

static void ask_to_end(local *l, process *p)
{
    uint64_t now = uv_now(l->loop);
    if (!p->asked_ms) {
        p->asked_ms = now ? now : 1;
        p->seen.state = LAC_FLEET_STOPPING;
        kill(-p->record.pid, SIGTERM);
    } else if (now - p->asked_ms >= l->grace_ms &&
               (!p->killed_ms || now - p->killed_ms >= KILL_AGAIN_MS)) {
        if (!p->killed_ms)
            lac_warn("group %s did not end within %u ms: killed", p->seen.group.group, l->grace_ms);
        p->killed_ms = now;
        kill(-p->record.pid, SIGKILL);
    }
}

/* ---- starts ---- */

static process *add(local *l, const lac_fleet_group *group)
{
    LAC_ASSERT(l->count < LAC_GROUPS_MAX);
    process *p = lac_alloc(1, sizeof *p);
    p->owner = l;
    p->seen.group = p->record.group = *group;
    p->process.data = p;
    l->processes[l->count++] = p;
    return p;
}

static int spawn(local *l, process *p, int log)
{
    char hex[33], ranks[16], threads[16];
    char *arguments[LAC_LAUNCH_ARGUMENTS_MAX + ARGUMENTS_OWN + 1];
    size_t n = 0;
    lac_hex(p->seen.group.incarnation, sizeof p->seen.group.incarnation, hex);
    snprintf(ranks, sizeof ranks, "%u", l->groups_max);
    snprintf(threads, sizeof threads, "%u", l->cores);
    const char *own[] = {l->worker,
                         "--coordinator",
                         l->coordinator,
                         "--group",
                         p->seen.group.group,
                         "--incarnation",
                         hex,
                         "--ranks-here",
                         ranks,
                         "--threads",
                         threads};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
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
    cores_of(l, p->slot, &wanted);
    bound = bound && !sched_setaffinity(0, sizeof wanted, &wanted);
    int code = uv_spawn(l->loop, &p->process, &options);
    if (bound)
        sched_setaffinity(0, sizeof before, &before);
    return code;
}

static void start(local *l, const lac_fleet_group *group)
{
    char log[PATH_BYTES + NAME_MAX];
    process *p = add(l, group);
    log_path(l, group, log);
    p->slot = free_slot(l);
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

/* ---- the launcher ---- */

static void adopt(void *arg, const lac__record *record)
{
    local *l = arg;
    if (!lac__record_alive(record) || l->count == LAC_GROUPS_MAX) {
        lac__record_remove(l->groups_dir, &record->group);
        return;
    }
    uint32_t slot = slot_by_cores(l, record->pid);
    process *p = add(l, &record->group);
    p->record = *record;
    p->seen.state = LAC_FLEET_RUNNING;
    p->seen.pid = record->pid;
    p->slot = slot;
    lac_info("group %s of an earlier start runs as pid %d: taken over", record->group.group,
             (int)record->pid);
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
    l->cores = options->cores;
    l->grace_ms = options->grace_ms;
    l->log_bytes = options->log_bytes;
    for (; l->arguments_count < options->arguments_count; l->arguments_count++) {
        const char *word = options->arguments[l->arguments_count];
        l->arguments[l->arguments_count] = lac_strndup(word, strlen(word));
    }
    read_allowed(l);
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

static bool same(const lac_fleet_group *a, const lac_fleet_group *b)
{
    return !memcmp(a->incarnation, b->incarnation, sizeof a->incarnation);
}

static bool among(const lac_fleet_group *group, const lac_fleet_group *set, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same(group, &set[i]))
            return true;
    return false;
}

static bool known(const local *l, const lac_fleet_group *group)
{
    for (size_t i = 0; i < l->count; i++)
        if (same(&l->processes[i]->seen.group, group))
            return true;
    return false;
}

static void ensure(void *launcher, const lac_fleet_group *wanted, size_t count)
{
    local *l = launcher;
    for (size_t i = 0; i < l->count;) {
        process *p = l->processes[i];
        look(p);
        if (among(&p->seen.group, wanted, count)) {
            i++;
        } else if (p->seen.state != LAC_FLEET_ENDED) {
            ask_to_end(l, p);
            i++;
        } else if (p->child) {
            i++; /* its handle closes in the next turn of the loop */
        } else {
            free(p);
            l->processes[i] = l->processes[--l->count];
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!known(l, &wanted[i]) && l->count < LAC_GROUPS_MAX && free_slot(l) < l->groups_max)
            start(l, &wanted[i]);
}

static size_t list(void *launcher, lac_fleet_entry *out, size_t max)
{
    local *l = launcher;
    size_t count = 0;
    for (size_t i = 0; i < l->count && count < max; i++) {
        char log[PATH_BYTES + NAME_MAX];
        look(l->processes[i]);
        log_path(l, &l->processes[i]->seen.group, log);
        lac__log_rotate(log, l->log_bytes);
        out[count++] = l->processes[i]->seen;
    }
    return count;
}

const lac__launcher lac__launcher_local = {
    .kind = "local", .create = create, .ensure = ensure, .list = list, .destroy = destroy};
