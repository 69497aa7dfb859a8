/* The start-up page of bound ports: who can reach each and what it asks of them. */
#include "protection.h"

#include <stdio.h>
#include <string.h>

static const char *reach(const char *address)
{
    static const char scheme[] = "tcp://";
    if (!strncmp(address, scheme, sizeof scheme - 1))
        address += sizeof scheme - 1;
    bool here = !strncmp(address, "127.", 4) || !strncmp(address, "[::1]", 5);
    return here ? "this machine only" : "any machine that reaches it";
}

void lac__protection_print(const lac__options *o, const char *http, const char *clients,
                           const char *workers)
{
    const char *planes = *o->key ? "CURVE keys" : "no keys";
    if (http)
        printf("protection http: %s, %s; %s\n", *o->tls_cert ? "TLS" : "no TLS",
               *o->api_keys ? "API keys but for probes and metrics" : "no keys", reach(http));
    printf("protection client-plane: %s; %s\n", planes, reach(clients));
    printf("protection worker-plane: %s; %s\n", planes, reach(workers));
}
