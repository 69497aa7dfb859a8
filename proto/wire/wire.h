/* The process's ZeroMQ context and its keys, for the files of this folder. */
#ifndef LAC_WIRE_WIRE_H
#define LAC_WIRE_WIRE_H

#include "guard.h"
#include "wire/socket.h"

struct lac_wire {
    void *context;
    bool keyed;
    lac_key own;
    char server[LAC_KEY_TEXT + 1]; /* "" on a listening wire */
    char *allow;                   /* path of its list; NULL on a connecting wire */
    lac__guard *guard;
    unsigned sockets; /* open ones: the context must outlive them */
};

/* Makes a socket speak CURVE when the wire has keys. */
lac_status lac__wire_set_keys(const lac_wire *wire, void *zmq, bool listens, bool client_plane,
                              lac_error *err);

#endif
