/* Endpoint texts: tcp://HOST:PORT and ipc://PATH, read once and strictly. Pure, any thread. */
#ifndef LAC_WIRE_ENDPOINT_H
#define LAC_WIRE_ENDPOINT_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct {
    char address[LAC_ENDPOINT_MAX + 1]; /* as ZeroMQ takes it */
    bool loopback;                      /* reachable from this machine alone */
    bool ipv6;
} lac__endpoint;

/* With `listen`, port 0 or "*" asks for any free one, "*" as the host means every address, and
 * "localhost" becomes 127.0.0.1 (ZeroMQ resolves no names for listening). */
lac_status lac__endpoint_parse(const char *text, bool listen, lac__endpoint *out, lac_error *err);

#endif
