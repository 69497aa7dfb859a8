/* Which path and method leads to which handler. Loop thread. */
#ifndef LAC__FRONTEND_ROUTES_H
#define LAC__FRONTEND_ROUTES_H

#include "parts.h"

typedef struct lac__route lac__route;
struct lac__route {
    const char *path; /* with a final '/' it matches everything below */
    uint8_t method;   /* HTTP_GET also serves HEAD */
    void (*handle)(lac__conn *conn);
    const char *name; /* the metric's label */
    bool open;        /* also without a key */
};

/* Finds the route of a complete head. NULL with `problem`: no such path (404) or method (405). */
const lac__route *lac__route_find(const lac__request *request, lac__problem *problem);

#endif
