/* The public calls: checks what the caller gave, keeps the address format, and hands on to the
 * implementation. Any thread, one at a time. Must not know a transport. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"
#include "ops.h"

/* ---- addresses ----
 * "LACF", u16 version, u16 rank, u32 ranks, incarnation[16], boot id[36], u32 length, u32 process
 * id, u32 its namespace, then the transport's own bytes; little-endian. */

static const char magic[4] = {'L', 'A', 'C', 'F'};
_Static_assert(4 + 2 + 2 + 4 + 16 + LAC__BOOT_ID + 4 + 4 + 4 == LAC__FABRIC_HEAD,
               "the head's fields");

static void put(uint8_t *at, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)at[i] << (8 * i);
    return value;
}

/* What names this start of this machine; host names repeat, this does not. */
static lac_status boot_id(char out[LAC__BOOT_ID], lac_error *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return lac_fail(err, LAC_EIO, "%s: %s", path, strerror(errno));
    ssize_t got = read(fd, out, LAC__BOOT_ID);
    close(fd);
    if (got != LAC__BOOT_ID)
        return lac_fail(err, LAC_EIO, "%s: %zd bytes, %d expected", path, got, LAC__BOOT_ID);
    return LAC_OK;
}

/* Process ids mean the same within one of these only; 0 = unknown. */
static uint32_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint32_t)st.st_ino : 0;
}

static lac_status address_make(lac_fabric *f, size_t own_bytes, lac_error *err)
{
    uint8_t *at = f->address;
    char boot[LAC__BOOT_ID];
    lac_status status = boot_id(boot, err);
    if (status != LAC_OK)
        return status;
    memcpy(at, magic, 4);
    put(at + 4, LAC__FABRIC_VERSION, 2);
    put(at + 6, f->rank, 2);
    put(at + 8, f->ranks, 4);
    memcpy(at + 12, f->incarnation, 16);
    memcpy(at + 28, boot, LAC__BOOT_ID);
    put(at + 64, (uint32_t)own_bytes, 4);
    put(at + 68, (uint32_t)getpid(), 4);
    put(at + 72, pid_namespace(), 4);
    f->address_bytes = LAC__FABRIC_HEAD + own_bytes;
    return LAC_OK;
}

/* Checks one address against this rank's and cuts out the transport's part. */
static lac_status address_read(const lac_fabric *f, uint32_t rank, const lac_fabric_blob *blob,
                               lac_fabric_blob *own, bool *memory, lac_error *err)
{
    const uint8_t *at = blob->data;
    if (!at || blob->bytes < LAC__FABRIC_HEAD || blob->bytes > LAC_FABRIC_BLOB_MAX ||
        memcmp(at, magic, 4) != 0)
        return lac_fail(err, LAC_EINVAL, "address of rank %u is none (%zu bytes)", rank,
                        blob->bytes);
    uint32_t version = get(at + 4, 2), says = get(at + 6, 2), ranks = get(at + 8, 4);
    if (version != LAC__FABRIC_VERSION)
        return lac_fail(err, LAC_EPROTO, "rank %u speaks fabric version %u, this rank speaks %d",
                        rank, version, LAC__FABRIC_VERSION);
    if (says != rank || ranks != f->ranks)
        return lac_fail(err, LAC_EINVAL,
                        "address of rank %u says rank %u of %u, expected rank %u of %u", rank, says,
                        ranks, rank, f->ranks);
    if (memcmp(at + 12, f->incarnation, 16) != 0) {
        char theirs[33], ours[33];
        lac_hex(at + 12, 16, theirs);
        lac_hex(f->incarnation, 16, ours);
        return lac_fail(err, LAC_EEPOCH, "rank %u is of incarnation %s, this rank of %s", rank,
                        theirs, ours);
    }
    if (get(at + 64, 4) != blob->bytes - LAC__FABRIC_HEAD)
        return lac_fail(err, LAC_EINVAL, "address of rank %u has %zu bytes, it says %u", rank,
                        blob->bytes, get(at + 64, 4) + LAC__FABRIC_HEAD);
    *own = (lac_fabric_blob){at + LAC__FABRIC_HEAD, blob->bytes - LAC__FABRIC_HEAD};
    *memory = memcmp(at + 28, f->address + 28, LAC__BOOT_ID) == 0;
    return LAC_OK;
}

/* Watches the processes of this host that it can see. */
static void watch(lac_fabric *f, const lac_fabric_blob *addresses, const bool *memory)
{
    uint32_t ns = get(f->address + 72, 4);
    for (uint32_t r = 0; r < f->ranks; r++) {
        const uint8_t *at = addresses[r].data;
        if (r != f->rank && memory[r] && ns != 0 && get(at + 72, 4) == ns)
            f->watched[r].fd = (int)syscall(SYS_pidfd_open, (pid_t)get(at + 68, 4), 0);
    }
}

int lac__fabric_dead(lac_fabric *f)
{
    int ready = poll(f->watched, f->ranks, 0);
    for (uint32_t r = 0; ready > 0 && r < f->ranks; r++)
        if (f->watched[r].fd >= 0 && f->watched[r].revents)
            return (int)r;
    return -1;
}

/* ---- life ---- */

lac_status lac_fabric_open(const lac_fabric_options *o, lac_fabric **out, lac_error *err)
{
    if (o->ranks < 1 || o->ranks > LAC_RANKS_MAX)
        return lac_fail(err, LAC_EINVAL, "ranks is %u, allowed 1..%d", o->ranks, LAC_RANKS_MAX);
    if (o->rank >= o->ranks)
        return lac_fail(err, LAC_EINVAL, "rank is %u, allowed 0..%u", o->rank, o->ranks - 1);
    lac_fabric *f = NULL;
    uint8_t own[LAC_FABRIC_BLOB_MAX - LAC__FABRIC_HEAD];
    size_t own_bytes = 0;
    lac_status status;
    if (o->ranks == 1) {
        status = lac__null_open(&f);
    } else {
#ifdef LAC_HAVE_UCX
        status = lac__ucx_open(&f, own, sizeof own, &own_bytes, err);
#else
        status = lac_fail(err, LAC_EUNSUPPORTED,
                          "a group of %u ranks needs UCX, which this program was built without",
                          o->ranks);
#endif
    }
    if (status != LAC_OK)
        return status;
    f->rank = o->rank;
    f->ranks = o->ranks;
    for (uint32_t r = 0; r < LAC_RANKS_MAX; r++)
        f->watched[r] = (struct pollfd){.fd = -1, .events = POLLIN};
    memcpy(f->incarnation, o->incarnation, sizeof f->incarnation);
    memcpy(f->address + LAC__FABRIC_HEAD, own, own_bytes);
    status = address_make(f, own_bytes, err);
    if (status != LAC_OK) {
        lac_fabric_close(&f);
        return status;
    }
    *out = f;
    return LAC_OK;
}

void lac_fabric_close(lac_fabric **fabric)
{
    if (!fabric || !*fabric)
        return;
    free((*fabric)->scratch);
    for (uint32_t r = 0; r < (*fabric)->ranks; r++)
        if ((*fabric)->watched[r].fd >= 0)
            close((*fabric)->watched[r].fd);
    (*fabric)->ops->destroy(*fabric);
    *fabric = NULL;
}

const void *lac_fabric_address(const lac_fabric *fabric, size_t *bytes)
{
    *bytes = fabric->address_bytes;
    return fabric->address;
}

lac_status lac_fabric_connect(lac_fabric *f, const lac_fabric_blob *addresses, uint64_t deadline_ns,
                              lac_error *err)
{
    LAC_ASSERT(!f->connected);
    lac_fabric_blob own[LAC_RANKS_MAX];
    bool memory[LAC_RANKS_MAX];
    for (uint32_t r = 0; r < f->ranks; r++) {
        lac_status status = address_read(f, r, &addresses[r], &own[r], &memory[r], err);
        if (status != LAC_OK)
            return status;
    }
    watch(f, addresses, memory);
    lac_status status = f->ops->connect(f, own, memory, deadline_ns, err);
    if (status == LAC_OK) {
        f->connected = true;
        status = f->ops->barrier(f, (lac_fabric_span){0, f->ranks},
                                 (lac_fabric_call){.step = 0, .deadline_ns = deadline_ns}, err);
        if (status != LAC_OK)
            lac_fabric_abort(f, "a rank did not come to the first barrier");
    }
    return status;
}

uint32_t lac_fabric_rank(const lac_fabric *fabric)
{
    return fabric->rank;
}

uint32_t lac_fabric_ranks(const lac_fabric *fabric)
{
    return fabric->ranks;
}

const char *lac_fabric_name(const lac_fabric *fabric)
{
    return fabric->ops->name;
}

lac_fabric_lane lac_fabric_lane_of(const lac_fabric *fabric, uint32_t rank)
{
    LAC_ASSERT(rank < fabric->ranks);
    return rank == fabric->rank ? LAC_FABRIC_SELF : fabric->ops->lane(fabric, rank);
}

/* ---- failure ---- */

lac_status lac__fabric_failed(const lac_fabric *f, lac_error *err)
{
    return lac_fail(err, f->failure.status, "%s", f->failure.text);
}

lac_status lac__fabric_fail(lac_fabric *f, lac_error *err, const char *format, ...)
{
    if (f->failure.status == LAC_OK) {
        va_list args;
        va_start(args, format);
        vsnprintf(f->failure.text, sizeof f->failure.text, format, args);
        va_end(args);
        f->failure.status = LAC_EPEER;
    }
    return lac__fabric_failed(f, err);
}

void lac_fabric_abort(lac_fabric *f, const char *reason)
{
    if (f->failure.status != LAC_OK || !f->connected)
        return;
    char text[LAC_REASON_MAX];
    snprintf(text, sizeof text, "rank %u ended the group: %s", f->rank, reason);
    f->ops->abort(f, text);
    (void)lac__fabric_fail(f, NULL, "%s", text);
}

lac_status lac_fabric_health(lac_fabric *f, lac_error *err)
{
    return f->failure.status != LAC_OK ? lac__fabric_failed(f, err) : f->ops->health(f, err);
}

/* ---- calls ---- */

static void check_span(const lac_fabric *f, lac_fabric_span span)
{
    LAC_ASSERT(f->connected && span.count >= 1 && span.first + span.count <= f->ranks);
    LAC_ASSERT(f->rank >= span.first && f->rank < span.first + span.count);
}

lac_status lac_fabric_send(lac_fabric *f, uint32_t to, lac_fabric_channel channel,
                           lac_fabric_call call, const void *data, size_t bytes, lac_error *err)
{
    LAC_ASSERT(f->connected && to < f->ranks && to != f->rank && bytes > 0);
    return f->failure.status != LAC_OK ? lac__fabric_failed(f, err)
                                       : f->ops->send(f, to, channel, call, data, bytes, err);
}

lac_status lac_fabric_settle(lac_fabric *f, lac_fabric_call call, lac_error *err)
{
    LAC_ASSERT(f->connected);
    return f->failure.status != LAC_OK ? lac__fabric_failed(f, err) : f->ops->settle(f, call, err);
}

lac_status lac_fabric_receive(lac_fabric *f, uint32_t from, lac_fabric_channel channel,
                              lac_fabric_call call, void *data, size_t bytes, size_t *got,
                              lac_error *err)
{
    LAC_ASSERT(f->connected && from < f->ranks && from != f->rank && bytes > 0);
    return f->failure.status != LAC_OK
               ? lac__fabric_failed(f, err)
               : f->ops->receive(f, from, channel, call, data, bytes, got, err);
}

lac_status lac_fabric_broadcast(lac_fabric *f, uint32_t root, lac_fabric_call call, void *data,
                                size_t room, size_t *bytes, lac_error *err)
{
    LAC_ASSERT(f->connected && root < f->ranks && (f->rank != root || *bytes <= room));
    return f->failure.status != LAC_OK ? lac__fabric_failed(f, err)
                                       : f->ops->broadcast(f, root, call, data, room, bytes, err);
}

lac_status lac_fabric_all_reduce(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                 float *x, size_t count, lac_error *err)
{
    check_span(f, span);
    if (f->failure.status != LAC_OK)
        return lac__fabric_failed(f, err);
    return span.count == 1 || count == 0 ? LAC_OK
                                         : f->ops->all_reduce(f, span, call, x, count, err);
}

lac_status lac_fabric_all_gather(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                                 const void *mine, size_t bytes, void *all, lac_error *err)
{
    check_span(f, span);
    if (f->failure.status != LAC_OK)
        return lac__fabric_failed(f, err);
    return f->ops->all_gather(f, span, call, mine, bytes, all, err);
}

lac_status lac_fabric_barrier(lac_fabric *f, lac_fabric_span span, lac_fabric_call call,
                              lac_error *err)
{
    check_span(f, span);
    return f->failure.status != LAC_OK ? lac__fabric_failed(f, err)
                                       : f->ops->barrier(f, span, call, err);
}
