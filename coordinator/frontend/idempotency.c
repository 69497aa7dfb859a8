/* The table of idempotency keys: a list in order of age, few enough to be walked once a request
 * that has a key. Loop thread. Must not know what answers mean. */
#include "idempotency.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "connection.h"
#include "exchange.h"
#include "routes.h"

struct lac__kept {
    lac__kept *prev, *next;
    lac_digest key, body;
    bool known, lost; /* lost: it was too big to keep */
    lac__exchange *owner, *waiters;
    lac_buf answer;
    uint64_t ended_ms;
};

/* ---- the list ---- */

static void remove_entry(lac__kepts *all, lac__kept *e)
{
    LAC_ASSERT(!e->owner && !e->waiters);
    *(e->prev ? &e->prev->next : &all->first) = e->next;
    *(e->next ? &e->next->prev : &all->last) = e->prev;
    all->count--;
    all->bytes -= e->answer.size;
    lac_buf_free(&e->answer);
    free(e);
}

static bool idle(const lac__kept *e)
{
    return e->known && !e->waiters;
}

static lac__kept *add_entry(lac__kepts *all, const lac_digest *key, const lac_digest *body)
{
    lac__kept *e = lac_alloc(1, sizeof *e);
    e->key = *key;
    e->body = *body;
    e->answer.cap = LAC_IDEMPOTENT_BYTES;
    e->prev = all->last;
    *(e->prev ? &e->prev->next : &all->first) = e;
    all->last = e;
    all->count++;
    return e;
}

/* Forgets the oldest answers: those over their time, and as many as are over a bound. */
static void purge(lac__kepts *all, uint64_t now_ms, uint32_t count_max, size_t bytes_max)
{
    for (lac__kept *e = all->first, *next; e; e = next) {
        next = e->next;
        bool over = all->count > count_max || all->bytes > bytes_max;
        if (idle(e) && (over || now_ms - e->ended_ms > LAC_IDEMPOTENT_MS))
            remove_entry(all, e);
    }
}

void lac__kepts_free(lac__kepts *all)
{
    while (all->first)
        remove_entry(all, all->first);
}

static lac__kept *find(const lac__kepts *all, const lac_digest *key)
{
    lac__kept *e = all->first;
    while (e && memcmp(&e->key, key, sizeof *key) != 0)
        e = e->next;
    return e;
}

/* ---- a request's way ---- */

void lac__idempotent_key(lac__exchange *x, const lac_buf *body)
{
    x->keyed.given = x->conn->keyed;
    if (!x->keyed.given)
        return;
    /* The same body to another endpoint is another question. */
    lac_digest both[2];
    lac_sha256(body->data ? body->data : "", body->length, &both[0]);
    lac_sha256(x->conn->route->path, strlen(x->conn->route->path), &both[1]);
    lac_sha256(both, sizeof both, &x->keyed.body);
}

static int refuse(lac__exchange *x, int http, const char *code, const char *text)
{
    lac__problem_set(&x->problem, http, code, "Idempotency-Key", "%s", text);
    return LAC__E_BAD;
}

static void own(lac__exchange *x, lac__kept *e)
{
    x->keyed.entry = e;
    x->keyed.owner = true;
    e->owner = x;
}

int lac__idempotent_enter(lac__exchange *x)
{
    lac__kepts *all = &x->frontend->kepts;
    int run = x->answer.stream ? LAC__E_PARSED_STREAM : LAC__E_PARSED;
    if (!x->keyed.given)
        return run;
    purge(all, lac__frontend_now(x->frontend), LAC_IDEMPOTENT_MAX - 1, LAC_IDEMPOTENT_ALL_BYTES);
    lac__kept *e = find(all, &x->conn->idempotency);
    if (!e && all->count >= LAC_IDEMPOTENT_MAX)
        return refuse(x, 429, "busy", "as many requests with idempotency keys run as are allowed");
    if (!e) {
        own(x, add_entry(all, &x->conn->idempotency, &x->keyed.body));
        return run;
    }
    if (memcmp(&e->body, &x->keyed.body, sizeof e->body) != 0)
        return refuse(x, 422, "idempotency_key_reused",
                      "this key was used with another body or endpoint");
    x->keyed.entry = e;
    if (e->lost)
        return refuse(x, 409, "idempotency_answer_lost",
                      "the answer to this key was given and was too large to be kept");
    if (e->known)
        return LAC__E_KNOWN;
    lac__exchange **last = &e->waiters;
    while (*last)
        last = &(*last)->keyed.next;
    *last = x;
    return LAC__E_TWIN;
}

void lac__idempotent_event(lac__exchange *x, const char *text, size_t length)
{
    lac__kept *e = x->keyed.entry;
    if (!x->keyed.owner || e->lost)
        return;
    size_t before = e->answer.size;
    lac_buf_add(&e->answer, text, length);
    lac_buf_text(&e->answer, "\n");
    e->lost = e->answer.overflow;
    if (e->lost)
        lac_buf_free(&e->answer);
    x->frontend->kepts.bytes += e->answer.size - before;
}

static void wake_all(lac__kept *e)
{
    for (lac__exchange *w = e->waiters; w; w = w->keyed.next)
        lac__exchange_wake(w);
}

void lac__idempotent_end(lac__exchange *x)
{
    lac__kept *e = x->keyed.entry;
    if (!x->keyed.owner)
        return;
    e->known = true;
    e->ended_ms = lac__frontend_now(x->frontend);
    e->owner = NULL;
    x->keyed.owner = false;
    x->keyed.entry = NULL;
    wake_all(e);
}

const lac_buf *lac__idempotent_answer(const lac__exchange *x)
{
    LAC_ASSERT(x->keyed.entry && x->keyed.entry->known);
    return &x->keyed.entry->answer;
}

static void stop_waiting(lac__exchange *x)
{
    lac__exchange **at = &x->keyed.entry->waiters;
    while (*at && *at != x)
        at = &(*at)->keyed.next;
    if (*at)
        *at = x->keyed.next;
    x->keyed.next = NULL;
}

void lac__idempotent_turn(lac__exchange *x)
{
    lac__kept *e = x->keyed.entry;
    if (e->owner)
        return;
    stop_waiting(x);
    if (e->known && !e->lost) {
        lac__exchange_replay(x);
    } else if (e->known) {
        refuse(x, 409, "idempotency_answer_lost",
               "the answer to this key was given and was too large to be kept");
        lac__exchange_refuse(x);
    } else {
        own(x, e);
        lac__exchange_run(x);
    }
}

/* Of a failed request nothing is kept; the first that waits takes its place. */
void lac__idempotent_leave(lac__exchange *x)
{
    lac__kept *e = x->keyed.entry;
    if (!e)
        return;
    stop_waiting(x);
    x->keyed.entry = NULL;
    if (!x->keyed.owner)
        return;
    x->keyed.owner = false;
    e->owner = NULL;
    if (e->waiters)
        lac__exchange_wake(e->waiters);
    else
        remove_entry(&x->frontend->kepts, e);
}
