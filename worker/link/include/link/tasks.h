/* The requests this rank has taken on: which, in what stage, how far the coordinator has heard of
 * them. What makes a Dispatch idempotent by (request, attempt) and what a Hello claims. Pure; the
 * link thread owns it. */
#ifndef LAC_LINK_TASKS_H
#define LAC_LINK_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/msg.h"
#include "base/status.h"

typedef enum {
    LAC_TASK_FREE,
    LAC_TASK_TEXT,    /* its prompt is being made into tokens, on the pool */
    LAC_TASK_RUNNING, /* the engine has it */
    LAC_TASK_REFUSED, /* failed before the engine; the report waits to be sent */
    LAC_TASK_ANSWERED /* answered without the engine; the same */
} lac_task_stage;

typedef struct {
    uint64_t id; /* index and generation: unique among all tasks of this process, never 0 */
    uint64_t request;
    uint32_t attempt;
    lac_task_stage stage;
    bool cancelled;       /* TEXT only: forget it when the pool gives it back */
    uint32_t next_pos;    /* of the first token the coordinator has not been sent */
    uint64_t deadline_ms; /* on our clock; 0 = none */
    lac_span echo;        /* text that must leave before the first token; owned, malloc'd */
    lac_status status;    /* REFUSED */
    uint32_t prompt_tokens;
    char trace[LAC_TRACE_MAX + 1]; /* of the request, for logs; "" = none */
    bool class_unknown;          /* it asked for a class that is not here, and runs in full */
    char *reason;                /* REFUSED; owned */
    lac_span answer;             /* ANSWERED; owned, malloc'd */
    struct lac_divider *divider; /* of the text it produces; NULL = none; owned */
} lac_task;

typedef struct lac_tasks lac_tasks;

lac_tasks *lac_tasks_create(size_t tasks_max); /* ≤ LAC_RUNNING_MAX */
void lac_tasks_destroy(lac_tasks **tasks);

/* Makes a task in stage TEXT. LAC_EEXIST: this attempt, or a later one of the request, is here or
 * was here lately (drop the message); LAC_BUSY: full. An older attempt that still runs is not
 * touched: the caller finds it first with lac_tasks_request. */
lac_status lac_tasks_add(lac_tasks *tasks, uint64_t request, uint32_t attempt, lac_task **out);
/* Frees the task and remembers its (request, attempt) for a while. */
void lac_tasks_remove(lac_tasks *tasks, lac_task *task);

lac_task *lac_tasks_get(lac_tasks *tasks, uint64_t id);          /* NULL: gone */
lac_task *lac_tasks_request(lac_tasks *tasks, uint64_t request); /* any attempt, or NULL */
lac_task *lac_tasks_find(lac_tasks *tasks, uint64_t request, uint32_t attempt);
/* Walks the live tasks: NULL gives the first, the last gives NULL. Removing the one just got is
 * fine when the next is asked for first. */
lac_task *lac_tasks_next(lac_tasks *tasks, const lac_task *after);
size_t lac_tasks_count(const lac_tasks *tasks);
/* What a Hello claims; `out` has room for every task. Returns how many. */
size_t lac_tasks_claim(lac_tasks *tasks, lac_running *out);

/* Marks a task as failed before the engine. The reason is copied. */
void lac_task_refuse(lac_task *task, lac_status status, const char *reason);
/* Marks a task as answered without the engine; the text changes owners. */
void lac_task_answer(lac_task *task, lac_span text);

#endif
