/* A reply that comes later: the store, or the pool's threads, have to answer first. While one is
 * under way its connection serves nothing else, as with an exchange. Loop thread. */
#ifndef LAC__FRONTEND_LATER_H
#define LAC__FRONTEND_LATER_H

#include "errors.h"
#include "parts.h"
#include "store/store.h"

typedef struct lac__later lac__later;
struct lac__later {
    lac_frontend *frontend;
    struct lac__conn *conn; /* NULL: the client is gone, nothing is replied any more */
    lac_store_call call;
    lac_buf body; /* the request's, taken over */
    lac_buf text; /* the reply's, as it grows */
    void *data;   /* the handler's own */
    void (*free_data)(void *data);
    void (*next)(lac__later *later);
    void (*run)(lac__later *later);
    uv_work_t work;
};

/* Begins for the connection's complete request, whose body it takes over. NULL after a problem was
 * replied: there is no store. */
lac__later *lac__later_start(struct lac__conn *conn);
/* Hands `call` (its kind and arguments are set) to the store; then `next`, unless the client has
 * gone or the store refused, which is replied here. */
void lac__later_ask(lac__later *later, void (*next)(lac__later *later));
/* Runs `run` in the pool, then `next` on the loop, unless the client has gone. */
void lac__later_work(lac__later *later, void (*run)(lac__later *later),
                     void (*next)(lac__later *later));
/* The client has left: what is under way ends without a word. */
void lac__later_gone(lac__later *later);
/* Replies with `text`, or with a problem, and frees. The pointer is dead afterwards. */
void lac__later_reply(lac__later *later, const char *type);
void lac__later_problem(lac__later *later, const lac__problem *problem);

/* The path of the present request without its query, below `prefix`; "" when it is not below. */
void lac__path_below(const struct lac__conn *conn, const char *prefix, char *out, size_t size);
/* A parameter of the query: false when it is not there or too long. */
bool lac__query_value(const struct lac__conn *conn, const char *name, char *out, size_t size);

#endif
