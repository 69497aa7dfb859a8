/* The thread that answers ZAP requests from the list of allowed keys. */
#include "guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/mem.h"

enum {
    PART_VERSION,
    PART_SEQUENCE,
    PART_DOMAIN,
    PART_ADDRESS,
    PART_ROUTING,
    PART_MECHANISM,
    PART_KEY,
    PARTS,
    PART_MAX = 256
};

struct lac__guard {
    void *zmq;
    pthread_t thread;
    pthread_mutex_t lock;
    lac_allowed *list; /* under the lock, as its count */
    size_t count;
    atomic_uint_fast64_t refused;
};

typedef struct {
    unsigned char bytes[PART_MAX];
    size_t length; /* PART_MAX + 1: it was longer */
} part;

/* One request, all its parts taken. False when the context ends. */
static bool receive(void *zmq, part parts[PARTS], int *count)
{
    *count = 0;
    for (int more = 1; more;) {
        unsigned char waste[PART_MAX];
        bool fits = *count < PARTS;
        int rc = zmq_recv(zmq, fits ? parts[*count].bytes : waste, PART_MAX, 0);
        if (rc < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            return false;
        if (fits)
            parts[*count].length = rc > PART_MAX ? PART_MAX + 1 : (size_t)rc;
        ++*count;
        size_t size = sizeof more;
        if (zmq_getsockopt(zmq, ZMQ_RCVMORE, &more, &size))
            return false;
    }
    return true;
}

static bool is(const part *p, const char *text)
{
    return p->length == strlen(text) && !memcmp(p->bytes, text, p->length);
}

static bool may(lac_role role, const part *domain)
{
    return is(domain, LAC__DOMAIN_WORKERS) ? role == LAC_ROLE_WORKER
                                           : role == LAC_ROLE_CLIENT || role == LAC_ROLE_ADMIN;
}

/* "ROLE:NAME" of the key, or false. */
static bool allowed(lac__guard *guard, const part parts[PARTS], int count, char user[PART_MAX])
{
    bool found = false;
    if (count != PARTS || !is(&parts[PART_VERSION], "1.0") ||
        !is(&parts[PART_MECHANISM], "CURVE") || parts[PART_KEY].length != LAC_KEY_BYTES)
        return false;
    pthread_mutex_lock(&guard->lock);
    for (size_t i = 0; i < guard->count && !found; i++) {
        const lac_allowed *a = &guard->list[i];
        found = !memcmp(a->key, parts[PART_KEY].bytes, LAC_KEY_BYTES) &&
                may(a->role, &parts[PART_DOMAIN]);
        if (found)
            snprintf(user, PART_MAX, "%s:%s", lac_role_name(a->role), a->name);
    }
    pthread_mutex_unlock(&guard->lock);
    return found;
}

static void reply(void *zmq, const part *sequence, const char *code, const char *text,
                  const char *user)
{
    size_t length = sequence->length > PART_MAX ? 0 : sequence->length;
    zmq_send(zmq, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zmq, sequence->bytes, length, ZMQ_SNDMORE);
    zmq_send(zmq, code, strlen(code), ZMQ_SNDMORE);
    zmq_send(zmq, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(zmq, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(zmq, "", 0, 0);
}

static void *run(void *arg)
{
    lac__guard *guard = arg;
    part parts[PARTS];
    int count;
    while (receive(guard->zmq, parts, &count)) {
        char user[PART_MAX] = "";
        if (count <= PART_SEQUENCE)
            parts[PART_SEQUENCE].length = 0;
        if (allowed(guard, parts, count, user)) {
            reply(guard->zmq, &parts[PART_SEQUENCE], "200", "OK", user);
        } else {
            atomic_fetch_add(&guard->refused, 1);
            reply(guard->zmq, &parts[PART_SEQUENCE], "400", "this key is not let in here", "");
        }
    }
    zmq_close(guard->zmq);
    return NULL;
}

lac_status lac__guard_open(void *context, lac_allowed *list, size_t count, lac__guard **out,
                           lac_error *err)
{
    void *zmq = zmq_socket(context, ZMQ_REP);
    int linger = 0;
    if (!zmq || zmq_setsockopt(zmq, ZMQ_LINGER, &linger, sizeof linger) ||
        zmq_bind(zmq, "inproc://zeromq.zap.01")) {
        lac_fail(err, LAC_EIO, "zeromq authentication: %s", zmq_strerror(errno));
        if (zmq)
            zmq_close(zmq);
        return err->status;
    }
    lac__guard *guard = lac_alloc(1, sizeof *guard);
    guard->zmq = zmq;
    guard->list = list;
    guard->count = count;
    pthread_mutex_init(&guard->lock, NULL);
    sigset_t all, before; /* signals are for the loop's thread */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&guard->thread, NULL, run, guard);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        zmq_close(zmq);
        pthread_mutex_destroy(&guard->lock);
        free(guard);
        return lac_fail(err, LAC_EIO, "thread: %s", strerror(rc));
    }
    *out = guard;
    return LAC_OK;
}

void lac__guard_swap(lac__guard *guard, lac_allowed *list, size_t count)
{
    pthread_mutex_lock(&guard->lock);
    lac_allowed *old = guard->list;
    guard->list = list;
    guard->count = count;
    pthread_mutex_unlock(&guard->lock);
    free(old);
}

uint64_t lac__guard_refused(const lac__guard *guard)
{
    return atomic_load(&guard->refused);
}

void lac__guard_close(lac__guard **guard)
{
    if (!*guard)
        return;
    pthread_join((*guard)->thread, NULL);
    pthread_mutex_destroy(&(*guard)->lock);
    free((*guard)->list);
    free(*guard);
    *guard = NULL;
}
