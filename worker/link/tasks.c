/* The table of requests of a rank: a fixed array, live ones also in a list of indices, and a ring
 * of the last ones that ended. Pure; the link thread owns it. Must not know the engine or the
 * socket. */
#include "link/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "chat/divide.h"

enum { RECENT = 1024, INDEX_BITS = 16 };

typedef struct {
    uint64_t request;
    uint32_t attempt;
} ended;

struct lac_tasks {
    size_t max, count;
    lac_task *slots; /* [max] */
    uint64_t generation;
    uint32_t *live;  /* [max] indices; the first `count` are of live tasks */
    uint32_t *place; /* [max] where in `live` an index stands: a permutation with its inverse */
    ended recent[RECENT]; /* attempt 0 with request 0: an empty place */
    size_t recent_at;
};

lac_tasks *lac_tasks_create(size_t tasks_max)
{
    LAC_ASSERT(tasks_max >= 1 && tasks_max <= LAC_RUNNING_MAX);
    lac_tasks *tasks = lac_alloc(1, sizeof(*tasks));
    tasks->max = tasks_max;
    tasks->slots = lac_alloc(tasks_max, sizeof(*tasks->slots));
    tasks->live = lac_alloc(tasks_max, sizeof(*tasks->live));
    tasks->place = lac_alloc(tasks_max, sizeof(*tasks->place));
    for (uint32_t i = 0; i < tasks_max; i++)
        tasks->live[i] = tasks->place[i] = i;
    return tasks;
}

static void task_clear(lac_task *task)
{
    free((void *)task->echo.data);
    free(task->reason);
    free((void *)task->answer.data);
    lac_divider_destroy(&task->divider);
    *task = (lac_task){.stage = LAC_TASK_FREE};
}

void lac_tasks_destroy(lac_tasks **tasks)
{
    if (*tasks == NULL)
        return;
    for (size_t i = 0; i < (*tasks)->max; i++)
        task_clear(&(*tasks)->slots[i]);
    free((*tasks)->slots);
    free((*tasks)->live);
    free((*tasks)->place);
    free(*tasks);
    *tasks = NULL;
}

/* Two indices change places in `live`. */
static void swap_places(lac_tasks *tasks, uint32_t a, uint32_t b)
{
    uint32_t at_a = tasks->live[a], at_b = tasks->live[b];
    tasks->live[a] = at_b;
    tasks->live[b] = at_a;
    tasks->place[at_b] = a;
    tasks->place[at_a] = b;
}

lac_status lac_tasks_add(lac_tasks *tasks, uint64_t request, uint32_t attempt, lac_task **out)
{
    for (size_t i = 0; i < tasks->count; i++) {
        const lac_task *task = &tasks->slots[tasks->live[i]];
        if (task->request == request && task->attempt >= attempt)
            return LAC_EEXIST;
    }
    for (size_t i = 0; i < RECENT; i++) {
        const ended *old = &tasks->recent[i];
        bool used = old->request != 0 || old->attempt != 0;
        if (used && old->request == request && old->attempt >= attempt)
            return LAC_EEXIST;
    }
    if (tasks->count == tasks->max)
        return LAC_BUSY;
    uint32_t index = tasks->live[tasks->count++];
    lac_task *task = &tasks->slots[index];
    task->id = ++tasks->generation << INDEX_BITS | index;
    task->request = request;
    task->attempt = attempt;
    task->stage = LAC_TASK_TEXT;
    *out = task;
    return LAC_OK;
}

void lac_tasks_remove(lac_tasks *tasks, lac_task *task)
{
    LAC_ASSERT(task->stage != LAC_TASK_FREE);
    uint32_t index = (uint32_t)(task - tasks->slots);
    tasks->recent[tasks->recent_at++ % RECENT] =
        (ended){.request = task->request, .attempt = task->attempt};
    swap_places(tasks, tasks->place[index], (uint32_t)--tasks->count);
    task_clear(task);
}

lac_task *lac_tasks_get(lac_tasks *tasks, uint64_t id)
{
    size_t index = id & ((1u << INDEX_BITS) - 1);
    if (index >= tasks->max)
        return NULL;
    lac_task *task = &tasks->slots[index];
    return task->stage != LAC_TASK_FREE && task->id == id ? task : NULL;
}

lac_task *lac_tasks_request(lac_tasks *tasks, uint64_t request)
{
    for (size_t i = 0; i < tasks->count; i++) {
        lac_task *task = &tasks->slots[tasks->live[i]];
        if (task->request == request)
            return task;
    }
    return NULL;
}

lac_task *lac_tasks_find(lac_tasks *tasks, uint64_t request, uint32_t attempt)
{
    for (size_t i = 0; i < tasks->count; i++) {
        lac_task *task = &tasks->slots[tasks->live[i]];
        if (task->request == request && task->attempt == attempt)
            return task;
    }
    return NULL;
}

lac_task *lac_tasks_next(lac_tasks *tasks, const lac_task *after)
{
    /* From the last place down: removing a task moves only the last one, which was passed. */
    size_t at = after != NULL ? tasks->place[after - tasks->slots] : tasks->count;
    return at > 0 ? &tasks->slots[tasks->live[at - 1]] : NULL;
}

size_t lac_tasks_count(const lac_tasks *tasks)
{
    return tasks->count;
}

size_t lac_tasks_claim(lac_tasks *tasks, lac_running *out)
{
    size_t count = 0;
    for (lac_task *task = lac_tasks_next(tasks, NULL); task; task = lac_tasks_next(tasks, task))
        if (!task->cancelled)
            out[count++] = (lac_running){
                .request = task->request, .attempt = task->attempt, .next_pos = task->next_pos};
    return count;
}

void lac_task_refuse(lac_task *task, lac_status status, const char *reason)
{
    LAC_ASSERT(status != LAC_OK);
    task->stage = LAC_TASK_REFUSED;
    task->status = status;
    free(task->reason);
    task->reason = lac_strndup(reason, strnlen(reason, LAC_REASON_MAX));
}

void lac_task_answer(lac_task *task, lac_span text)
{
    LAC_ASSERT(task->stage == LAC_TASK_TEXT);
    task->stage = LAC_TASK_ANSWERED;
    task->answer = text;
}
