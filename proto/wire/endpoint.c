/* Reads endpoint texts. Owns the rule of what counts as this machine alone. Pure, any thread. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/text.h"
#include "endpoint.h"

static lac_status refuse(const char *text, const char *why, lac_error *err)
{
    return lac_fail(err, LAC_EINVAL, "endpoint %.*s %s, allowed: tcp://HOST:PORT or ipc://PATH",
                    LAC_ENDPOINT_MAX, text, why);
}

/* 127.0.0.0/8, ::1 and the name that by convention means them. */
static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (!strcmp(host, "localhost"))
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static lac_status parse_tcp(const char *text, bool listen, lac__endpoint *out, lac_error *err)
{
    const char *rest = text + strlen("tcp://");
    const char *colon = strrchr(rest, ':');
    if (!colon || colon == rest)
        return refuse(text, "has no host or port", err);
    size_t length = (size_t)(colon - rest);
    bool bracketed = rest[0] == '[';
    if (bracketed && (length < 3 || rest[length - 1] != ']'))
        return refuse(text, "has an unclosed [", err);
    if (!bracketed && memchr(rest, ':', length))
        return refuse(text, "has an IPv6 host without [ ]", err);
    char host[LAC_ENDPOINT_MAX + 1];
    snprintf(host, sizeof host, "%.*s", (int)(length - 2 * bracketed), rest + bracketed);

    int64_t port = 0;
    bool any_port = listen && (!strcmp(colon + 1, "*") || !strcmp(colon + 1, "0"));
    if (!any_port && !lac_parse_i64(colon + 1, 1, 65535, &port))
        return refuse(text, "has a port that is no number from 1 to 65535", err);
    for (const char *c = host; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == '/' || *c == ';')
            return refuse(text, "has a host with a character that no host has", err);

    lac__endpoint made = {.loopback = is_loopback(host), .ipv6 = bracketed};
    const char *name = listen && !strcmp(host, "localhost") ? "127.0.0.1" : host;
    char port_text[8];
    snprintf(port_text, sizeof port_text, any_port ? "*" : "%d", (int)port);
    int n = snprintf(made.address, sizeof made.address, "tcp://%s%s%s:%s", bracketed ? "[" : "",
                     name, bracketed ? "]" : "", port_text);
    if (n < 0 || (size_t)n >= sizeof made.address)
        return refuse(text, "is too long", err);
    *out = made;
    return LAC_OK;
}

lac_status lac__endpoint_parse(const char *text, bool listen, lac__endpoint *out, lac_error *err)
{
    size_t length = strnlen(text, LAC_ENDPOINT_MAX + 1);
    if (length > LAC_ENDPOINT_MAX)
        return refuse(text, "is too long", err);
    if (!strncmp(text, "tcp://", 6))
        return parse_tcp(text, listen, out, err);
    if (strncmp(text, "ipc://", 6) || !text[6])
        return refuse(text, "is of no known kind", err);
    size_t path_max = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
    if (length - 6 > path_max)
        return refuse(text, "has a path too long for a socket", err);
    lac__endpoint made = {.loopback = true};
    memcpy(made.address, text, length + 1);
    *out = made;
    return LAC_OK;
}
