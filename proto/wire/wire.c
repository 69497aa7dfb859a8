/* The ZeroMQ context of a process: made once, ended after every socket; and the keys that all its
 * sockets use. Loop thread, as the sockets; the guard has a thread of its own. */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/assert.h"
#include "base/mem.h"

lac_status lac_wire_create(lac_wire **out, lac_error *err)
{
    void *context = zmq_ctx_new();
    if (!context)
        return lac_fail(err, LAC_EIO, "zeromq context: %s", zmq_strerror(errno));
    lac_wire *wire = lac_alloc(1, sizeof *wire);
    wire->context = context;
    *out = wire;
    return LAC_OK;
}

void lac_wire_destroy(lac_wire **wire)
{
    if (!*wire)
        return;
    LAC_ASSERT((*wire)->sockets == 0);
    zmq_ctx_shutdown((*wire)->context);
    lac__guard_close(&(*wire)->guard);
    explicit_bzero(&(*wire)->own, sizeof(*wire)->own);
    free((*wire)->allow);
    while (zmq_ctx_term((*wire)->context) != 0 && errno == EINTR)
        ;
    free(*wire);
    *wire = NULL;
}

/* ---- keys ---- */

lac_status lac_wire_guard(lac_wire *wire, const lac_key *own, const char *allow, lac_error *err)
{
    LAC_ASSERT(!wire->sockets && !wire->keyed);
    lac_allowed *list = NULL;
    size_t count = 0;
    lac_status status = lac_allow_load(allow, &list, &count, err);
    if (status)
        return status;
    status = lac__guard_open(wire->context, list, count, &wire->guard, err);
    if (status) {
        free(list);
        return status;
    }
    wire->keyed = true;
    wire->own = *own;
    wire->allow = lac_strndup(allow, strlen(allow));
    return LAC_OK;
}

lac_status lac_wire_trust(lac_wire *wire, const lac_key *own, const char *server, lac_error *err)
{
    LAC_ASSERT(!wire->sockets && !wire->keyed);
    if (strlen(server) != LAC_KEY_TEXT)
        return lac_fail(err, LAC_EINVAL, "the server's key has %zu characters, expected %d",
                        strlen(server), LAC_KEY_TEXT);
    wire->keyed = true;
    wire->own = *own;
    memcpy(wire->server, server, sizeof wire->server);
    return LAC_OK;
}

lac_status lac_wire_guard_reload(lac_wire *wire, lac_error *err)
{
    lac_allowed *list = NULL;
    size_t count = 0;
    if (!wire->guard)
        return LAC_OK;
    lac_status status = lac_allow_load(wire->allow, &list, &count, err);
    if (status)
        return status;
    lac__guard_swap(wire->guard, list, count);
    return LAC_OK;
}

uint64_t lac_wire_guard_refused(const lac_wire *wire)
{
    return wire->guard ? lac__guard_refused(wire->guard) : 0;
}

lac_status lac__wire_set_keys(const lac_wire *w, void *zmq, bool listens, bool client_plane,
                              lac_error *err)
{
    int rc = 0;
    if (!w->keyed)
        return LAC_OK;
    if (listens) {
        int on = 1;
        const char *domain = client_plane ? LAC__DOMAIN_CLIENTS : LAC__DOMAIN_WORKERS;
        LAC_ASSERT(w->guard); /* or any key would be let in */
        rc = zmq_setsockopt(zmq, ZMQ_CURVE_SERVER, &on, sizeof on) |
             zmq_setsockopt(zmq, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
    } else {
        rc = zmq_setsockopt(zmq, ZMQ_CURVE_SERVERKEY, w->server, LAC_KEY_TEXT + 1) |
             zmq_setsockopt(zmq, ZMQ_CURVE_PUBLICKEY, w->own.public_key, LAC_KEY_TEXT + 1);
    }
    rc |= zmq_setsockopt(zmq, ZMQ_CURVE_SECRETKEY, w->own.secret_key, LAC_KEY_TEXT + 1);
    return rc ? lac_fail(err, LAC_EUNSUPPORTED, "zeromq keys: %s", zmq_strerror(errno)) : LAC_OK;
}
