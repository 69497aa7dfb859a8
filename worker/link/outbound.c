/* What the coordinator is told: Hello, heartbeats, step outputs. Runs on the link thread. Nothing
 * is lost when the socket is full: a report stays in hand, the engine runs on until its reports are
 * used up and then waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "chat/divide.h"
#include "parts.h"

lac_status lac__link_send(lac_link *link, lac_msg_type type, lac_msg *msg)
{
    lac_session before = link->session;
    lac_error err = {.status = LAC_OK};
    msg->envelope = lac_session_stamp(&link->session, type);
    lac_status status = lac_socket_send(link->socket, LAC__PEER, msg, &err);
    if (status == LAC_OK) {
        link->sent_ms = lac_now_ms();
        return LAC_OK;
    }
    link->session.seq = before.seq; /* it never left */
    if (status != LAC_BUSY && status != LAC_EPEER)
        lac_error_log("%s cannot be sent: %s", lac_msg_name((uint16_t)type), err.text);
    return status;
}

bool lac__hello_send(lac_link *link)
{
    lac_msg msg = {.body.hello = link->hello};
    msg.body.hello.running_count = (uint32_t)lac_tasks_claim(link->tasks, link->claims);
    msg.body.hello.running = link->claims;
    return lac__link_send(link, LAC_MSG_HELLO, &msg) == LAC_OK;
}

/* Resident memory of this process, 0 when it cannot be read. */
static uint64_t rss_bytes(void)
{
    unsigned long long pages_all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    int got = fscanf(file, "%llu %llu", &pages_all, &pages);
    fclose(file);
    return got == 2 ? pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static void beat_classes(const lac_link *link, const lac_runner_progress *p, lac_heartbeat *beat)
{
    const lac_engine_stats *facts = lac_runner_facts(link->runner);
    beat->class_reruns = p->class_reruns;
    beat->class_unknown = link->class_unknown;
    beat->shadows = p->shadows;
    beat->erased_bytes = beat->released_bytes = facts->dropped_bytes;
    beat->classes_count = link->classes->count + 1;
    for (uint32_t c = 0; c < beat->classes_count; c++) {
        const lac_class_facts *class = c > 0 ? &link->classes->facts[c - 1] : NULL;
        beat->classes[c] =
            (lac_class_beat){.index = c,
                             .active_layers = class ? class->active_layers : link->hello.layers,
                             .requests = p->class_requests[c],
                             .tokens = p->class_tokens[c],
                             .skip_rate = class ? class->skip_rate : 0,
                             .cost_skip_rate = class ? class->cost_skip_rate : 0};
    }
}

/* Of one that has no engine yet, or only follows: that it lives. */
static void beat_bare(lac_link *link)
{
    lac_msg msg = {
        .body.heartbeat = {.report_seq = link->report_seq + 1,
                           .rss_bytes = rss_bytes(),
                           .active_layers = link->hello.layer_end - link->hello.layer_first,
                           .draining = link->session.draining}};
    if (lac__link_send(link, LAC_MSG_HEARTBEAT, &msg) == LAC_OK)
        link->report_seq++;
}

void lac__beat_send(lac_link *link)
{
    lac_runner_progress p;
    if (!link->formed || link->hello.rank > 0) {
        beat_bare(link);
        return;
    }
    lac_runner_progress_read(link->runner, &p);
    uint64_t now = lac_now_ms();
    uint32_t queued = p.queued + link->jobs;
    lac_heartbeat beat = {.report_seq = link->report_seq + 1,
                          .step_counter = p.step_counter,
                          .busy = p.running + p.queued > 0,
                          .queued = queued < LAC_REQUESTS_MAX ? queued : LAC_REQUESTS_MAX,
                          .running = p.running,
                          .kv_pages_used = p.kv_pages_used,
                          .kv_pages = link->hello.kv_pages,
                          .dispatch_seq_seen = link->dispatch_seq_seen,
                          .prompt_tokens = p.prompt_tokens,
                          .output_tokens = p.output_tokens,
                          .itl_us = p.itl_us,
                          .prefill_us = p.prefill_us,
                          .rss_bytes = rss_bytes(),
                          .active_layers = p.active_layers,
                          .draining = link->session.draining};
    beat_classes(link, &p, &beat);
    if (p.step_started_ms > 0 && now > p.step_started_ms)
        beat.step_age_ms = now - p.step_started_ms;
    lac_msg msg = {.body.heartbeat = beat};
    if (lac__link_send(link, LAC_MSG_HEARTBEAT, &msg) == LAC_OK)
        link->report_seq++;
}

/* ---- step outputs ---- */

/* Sends the first `count` items of `outgoing`. A message that can never leave (a bug, or a frame
 * over the limit) must not block the rest for ever: its sequences end with an error instead. */
static bool items_send(lac_link *link, size_t count)
{
    lac_msg msg = {.body.step_output = {.items_count = (uint32_t)count, .items = link->outgoing}};
    lac_status status = lac__link_send(link, LAC_MSG_STEP_OUTPUT, &msg);
    if (status == LAC_BUSY || status == LAC_EPEER)
        return false;
    if (status == LAC_OK)
        return true;
    for (size_t i = 0; i < count; i++) {
        lac_step_item *item = &link->outgoing[i];
        lac_task *task = lac_tasks_get(link->tasks, link->outgoing_ids[i]);
        if (task != NULL && task->stage == LAC_TASK_RUNNING && item->finish == LAC_FINISH_NONE)
            lac_runner_cancel(link->runner, task->id);
        *item = (lac_step_item){.request = item->request,
                                .attempt = item->attempt,
                                .chunk = {.first_pos = item->chunk.first_pos},
                                .finish = LAC_FINISH_ERROR,
                                .usage = item->usage,
                                .error = LAC_EINTERNAL,
                                .reason = "the step's report could not be encoded"};
    }
    return lac__link_send(link, LAC_MSG_STEP_OUTPUT, &msg) == LAC_OK;
}

/* Records that the items left: positions move on, ended tasks go. */
static void items_sent(lac_link *link, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const lac_step_item *item = &link->outgoing[i];
        lac_task *task = lac_tasks_get(link->tasks, link->outgoing_ids[i]);
        if (task == NULL)
            continue;
        task->next_pos = item->chunk.first_pos + item->chunk.tokens_count;
        if (item->finish == LAC_FINISH_NONE)
            continue;
        link->refusals -= task->stage == LAC_TASK_REFUSED;
        link->answers -= task->stage == LAC_TASK_ANSWERED;
        link->echoes -= task->echo.length > 0;
        lac_tasks_remove(link->tasks, task);
    }
}

static bool refusals_pump(lac_link *link)
{
    while (link->refusals > 0) {
        size_t count = 0;
        for (lac_task *task = lac_tasks_next(link->tasks, NULL);
             task != NULL && count < LAC_STEP_ITEMS_MAX; task = lac_tasks_next(link->tasks, task)) {
            if (task->stage != LAC_TASK_REFUSED)
                continue;
            lac_step_item *item = &link->outgoing[count];
            *item = (lac_step_item){.request = task->request,
                                    .attempt = task->attempt,
                                    .chunk = {.first_pos = task->next_pos},
                                    .finish = LAC_FINISH_ERROR,
                                    .usage = {.prompt_tokens = task->prompt_tokens},
                                    .error = task->status};
            snprintf(item->reason, sizeof(item->reason), "%s", task->reason);
            link->outgoing_ids[count++] = task->id;
        }
        LAC_ASSERT(count > 0);
        if (!items_send(link, count))
            return false;
        items_sent(link, count);
    }
    return true;
}

/* Answers that needed no engine leave one a message: each may be some MiB. */
static bool answers_pump(lac_link *link)
{
    for (lac_task *task = lac_tasks_next(link->tasks, NULL), *after; task && link->answers > 0;
         task = after) {
        after = lac_tasks_next(link->tasks, task);
        if (task->stage != LAC_TASK_ANSWERED)
            continue;
        link->outgoing[0] =
            (lac_step_item){.request = task->request,
                            .attempt = task->attempt,
                            .chunk = {.first_pos = task->next_pos, .text = task->answer},
                            .finish = LAC_FINISH_STOP,
                            .usage = {.prompt_tokens = task->prompt_tokens}};
        link->outgoing_ids[0] = task->id;
        if (!items_send(link, 1))
            return false;
        items_sent(link, 1);
    }
    return true;
}

/* Echoes leave one a message, as a chunk of text without tokens: each may be 8 MiB. */
static bool echoes_pump(lac_link *link)
{
    for (lac_task *task = lac_tasks_next(link->tasks, NULL), *after; task && link->echoes > 0;
         task = after) {
        after = lac_tasks_next(link->tasks, task);
        if (task->echo.length == 0)
            continue;
        link->outgoing[0] =
            (lac_step_item){.request = task->request,
                            .attempt = task->attempt,
                            .chunk = {.first_pos = task->next_pos, .text = task->echo}};
        link->outgoing_ids[0] = task->id;
        if (!items_send(link, 1))
            return false;
        free((void *)task->echo.data);
        task->echo = (lac_span){0};
        link->echoes--;
        items_sent(link, 1);
    }
    return true;
}

/* The account says it when the request ran otherwise than it was asked for. Reports are the link's
 * between take and give back, so it may write into them. */
static void why_add(lac_step_item *item, const lac_task *task)
{
    lac_run_account *account = (lac_run_account *)(uintptr_t)item->account;
    if (account != NULL && task->class_unknown && account->why[0] == '\0')
        snprintf(account->why, sizeof(account->why), "the worker does not have the class");
}

/* The items of a report that still have a task, with request and attempt in place of the task's id.
 */
static size_t report_address(lac_link *link, lac_report *report)
{
    const lac_step_item *items = lac_report_items(report);
    size_t count = 0;
    for (size_t i = 0; i < lac_report_count(report); i++) {
        const lac_task *task = lac_tasks_get(link->tasks, items[i].request);
        if (task == NULL)
            continue; /* cancelled while the step ran */
        link->outgoing[count] = items[i];
        link->outgoing[count].request = task->request;
        link->outgoing[count].attempt = task->attempt;
        why_add(&link->outgoing[count], task);
        link->outgoing_ids[count++] = task->id;
    }
    return count;
}

/* The text of one item in parts. A task whose one call is over ends here: the engine would go on,
 * and what it says in the same step is dropped. */
static void item_divide(lac_link *link, lac_report *report, size_t index)
{
    lac_step_item *item = &lac_report_items(report)[index];
    lac_task *task = lac_tasks_get(link->tasks, item->request);
    if (task == NULL || task->divider == NULL)
        return;
    if (lac_divider_done(task->divider)) {
        item->request = 0; /* no task has it */
        return;
    }
    lac_buf_clear(&link->divided);
    if (item->chunk.text.length > 0)
        lac_divider_add(task->divider, item->chunk.text.data, item->chunk.text.length,
                        &link->divided);
    if (lac_divider_done(task->divider) && item->finish == LAC_FINISH_NONE) {
        item->finish = LAC_FINISH_STOP;
        lac_runner_cancel(link->runner, task->id);
    } else if (item->finish == LAC_FINISH_STOP || item->finish == LAC_FINISH_LENGTH) {
        lac_divider_end(task->divider, &link->divided);
    }
    lac_report_text(report, index, link->divided.data, link->divided.length);
}

static bool reports_pump(lac_link *link)
{
    for (;;) {
        if (link->pending == NULL) {
            link->pending = lac_runner_take(link->runner);
            for (size_t i = 0; link->pending && i < lac_report_count(link->pending); i++)
                item_divide(link, link->pending, i);
        }
        if (link->pending == NULL)
            return true;
        size_t count = report_address(link, link->pending);
        if (count > 0) {
            if (!items_send(link, count))
                return false;
            items_sent(link, count);
        }
        lac_runner_give_back(link->runner, link->pending);
        link->pending = NULL;
    }
}

/* Scores come after everything a client waits for; one that cannot leave now leaves later. */
static void scores_pump(lac_link *link)
{
    for (;;) {
        if (!link->score_waits)
            link->score_waits = lac_runner_shadow_take(link->runner, &link->score);
        if (!link->score_waits)
            return;
        lac_msg msg = {.body.shadow = link->score};
        lac_status status = lac__link_send(link, LAC_MSG_SHADOW, &msg);
        if (status == LAC_BUSY || status == LAC_EPEER)
            return;
        link->score_waits = false;
    }
}

void lac__link_pump(lac_link *link)
{
    /* An echo precedes every token of its sequence, so a full socket stops what follows as well. */
    if (lac_session_duties(&link->session)->reports && refusals_pump(link) && answers_pump(link) &&
        echoes_pump(link) && link->formed && reports_pump(link))
        scores_pump(link);
}

bool lac__link_idle(const lac_link *link)
{
    /* A follower is needed until its leader lets it go. */
    bool follows = link->formed && link->hello.rank > 0 && !link->let_go;
    return lac_tasks_count(link->tasks) == 0 && link->jobs == 0 && !follows;
}
