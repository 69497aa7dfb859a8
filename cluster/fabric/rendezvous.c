/* Addresses and beats over socket pairs. A frame is u32 length, u8 kind, payload; little-endian.
 * The starter runs one thread; a rank its own and the beat's. Must not know a transport. */
#include "fabric/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { KIND_ADDRESS = 'a', KIND_BEAT = 'b', HEAD = 5 };

/* ---- whole frames, with a deadline ---- */

static lac_status wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = lac_now_ns();
        if (now >= deadline_ns)
            return LAC_EDEADLINE;
        uint64_t ms = (deadline_ns - now) / 1000000 + 1;
        struct pollfd p = {.fd = fd, .events = events};
        int ready = poll(&p, 1, ms > 1000 ? 1000 : (int)ms);
        if (ready > 0)
            return LAC_OK;
        if (ready < 0 && errno != EINTR)
            return LAC_EIO;
    }
}

static lac_status read_all(int fd, void *data, size_t bytes, uint64_t deadline_ns)
{
    for (size_t done = 0; done < bytes;) {
        lac_status status = wait_for(fd, POLLIN, deadline_ns);
        if (status != LAC_OK)
            return status;
        ssize_t got = recv(fd, (uint8_t *)data + done, bytes - done, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return LAC_EPEER;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return LAC_EIO;
        done += got > 0 ? (size_t)got : 0;
    }
    return LAC_OK;
}

static lac_status write_all(int fd, const void *data, size_t bytes, uint64_t deadline_ns)
{
    for (size_t done = 0; done < bytes;) {
        lac_status status = wait_for(fd, POLLOUT, deadline_ns);
        if (status != LAC_OK)
            return status;
        ssize_t put =
            send(fd, (const uint8_t *)data + done, bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
            return LAC_EPEER;
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return LAC_EIO;
        done += put > 0 ? (size_t)put : 0;
    }
    return LAC_OK;
}

static lac_status frame_write(int fd, uint8_t kind, const void *data, size_t bytes,
                              uint64_t deadline_ns)
{
    uint8_t head[HEAD] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16),
                          (uint8_t)(bytes >> 24), kind};
    lac_status status = write_all(fd, head, sizeof head, deadline_ns);
    return status == LAC_OK ? write_all(fd, data, bytes, deadline_ns) : status;
}

/* One address into `data` (LAC_FABRIC_BLOB_MAX bytes). */
static lac_status address_read(int fd, uint8_t *data, size_t *bytes, uint64_t deadline_ns)
{
    uint8_t head[HEAD];
    lac_status status = read_all(fd, head, sizeof head, deadline_ns);
    if (status != LAC_OK)
        return status;
    size_t length = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    if (head[4] != KIND_ADDRESS || length == 0 || length > LAC_FABRIC_BLOB_MAX)
        return LAC_EPROTO;
    status = read_all(fd, data, length, deadline_ns);
    if (status == LAC_OK)
        *bytes = length;
    return status;
}

static lac_status tell(lac_error *err, lac_status status, const char *what, uint32_t rank)
{
    return lac_fail(err, status, "address %s rank %u: %s", what, rank,
                    status == LAC_EPEER       ? "it is gone"
                    : status == LAC_EDEADLINE ? "not in time"
                    : status == LAC_EPROTO    ? "no address came"
                                              : lac_status_name(status));
}

/* ---- the starter ---- */

lac_status lac_rendezvous_serve(const int *fds, uint32_t ranks, uint64_t deadline_ns,
                                lac_error *err)
{
    uint8_t *data = lac_alloc(ranks, LAC_FABRIC_BLOB_MAX);
    size_t bytes[LAC_RANKS_MAX];
    lac_status status = LAC_OK;
    for (uint32_t r = 0; r < ranks && status == LAC_OK; r++) {
        status =
            address_read(fds[r], data + (size_t)r * LAC_FABRIC_BLOB_MAX, &bytes[r], deadline_ns);
        if (status != LAC_OK)
            tell(err, status, "of", r);
    }
    for (uint32_t to = 0; to < ranks && status == LAC_OK; to++)
        for (uint32_t r = 0; r < ranks && status == LAC_OK; r++) {
            status = frame_write(fds[to], KIND_ADDRESS, data + (size_t)r * LAC_FABRIC_BLOB_MAX,
                                 bytes[r], deadline_ns);
            if (status != LAC_OK)
                tell(err, status, "to", to);
        }
    free(data);
    return status;
}

lac_status lac_rendezvous_hear(int fd)
{
    uint8_t bytes[256];
    lac_status status = LAC_AGAIN;
    for (int i = 0; i < 16; i++) { /* a beat is five bytes: this empties seconds of them */
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return LAC_EPEER;
        if (got < 0 && errno != EINTR)
            return status;
        status = LAC_OK;
    }
    return status;
}

/* ---- a rank ---- */

lac_status lac_rendezvous_join(int fd, lac_fabric *fabric, uint64_t deadline_ns, lac_error *err)
{
    size_t own_bytes;
    const void *own = lac_fabric_address(fabric, &own_bytes);
    uint32_t ranks = lac_fabric_ranks(fabric);
    lac_fabric_blob blobs[LAC_RANKS_MAX];
    uint8_t *data = lac_alloc(ranks, LAC_FABRIC_BLOB_MAX);
    lac_status status = frame_write(fd, KIND_ADDRESS, own, own_bytes, deadline_ns);
    if (status != LAC_OK)
        tell(err, status, "of this", lac_fabric_rank(fabric));
    for (uint32_t r = 0; r < ranks && status == LAC_OK; r++) {
        blobs[r].data = data + (size_t)r * LAC_FABRIC_BLOB_MAX;
        status =
            address_read(fd, data + (size_t)r * LAC_FABRIC_BLOB_MAX, &blobs[r].bytes, deadline_ns);
        if (status != LAC_OK)
            tell(err, status, "of", r);
    }
    if (status == LAC_OK)
        status = lac_fabric_connect(fabric, blobs, deadline_ns, err);
    free(data);
    return status;
}

/* ---- beats ---- */

struct lac_beat {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
};

static void *beat_run(void *arg)
{
    lac_beat *beat = arg;
    static const uint8_t frame[HEAD] = {0, 0, 0, 0, KIND_BEAT};
    pthread_mutex_lock(&beat->lock);
    while (!beat->stop) {
        ssize_t put = send(beat->fd, frame, sizeof frame, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && (errno == EPIPE || errno == ECONNRESET))
            _exit(3);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LAC_RENDEZVOUS_BEAT_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&beat->wake, &beat->lock, &until);
    }
    pthread_mutex_unlock(&beat->lock);
    return NULL;
}

lac_beat *lac_beat_start(int fd)
{
    lac_beat *beat = lac_alloc(1, sizeof *beat);
    beat->fd = fd;
    pthread_mutex_init(&beat->lock, NULL);
    pthread_cond_init(&beat->wake, NULL);
    if (pthread_create(&beat->thread, NULL, beat_run, beat) != 0) {
        pthread_cond_destroy(&beat->wake);
        pthread_mutex_destroy(&beat->lock);
        free(beat);
        return NULL;
    }
    return beat;
}

void lac_beat_stop(lac_beat **beat)
{
    if (!beat || !*beat)
        return;
    pthread_mutex_lock(&(*beat)->lock);
    (*beat)->stop = true;
    pthread_cond_signal(&(*beat)->wake);
    pthread_mutex_unlock(&(*beat)->lock);
    pthread_join((*beat)->thread, NULL);
    pthread_cond_destroy(&(*beat)->wake);
    pthread_mutex_destroy(&(*beat)->lock);
    free(*beat);
    *beat = NULL;
}
