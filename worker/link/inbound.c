/* What the coordinator sends: Hello's answers, Dispatch, Cancel, Drain, Die. Runs on the link
 * thread; prompts become tokens on libuv's pool. Messages are validated by the codec before they
 * come here. Must not know how anything is sent. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "parts.h"

typedef struct {
    uv_work_t work;
    lac_link *link;
    lac_prompt_job *job;
} text_work;

/* ---- tasks ---- */

void lac__task_drop(lac_link *link, lac_task *task)
{
    switch (task->stage) {
    case LAC_TASK_FREE: LAC_ASSERT(!"live task"); break;
    case LAC_TASK_TEXT: task->cancelled = true; return; /* removed when the pool gives it back */
    case LAC_TASK_RUNNING: lac_runner_cancel(link->runner, task->id); break;
    case LAC_TASK_REFUSED: link->refusals--; break;
    case LAC_TASK_ANSWERED: link->answers--; break;
    }
    link->echoes -= task->echo.length > 0;
    lac_tasks_remove(link->tasks, task);
}

static void task_refuse(lac_link *link, lac_task *task, lac_status status, const char *reason)
{
    lac_info("request %llu attempt %u trace %s refused: %s", (unsigned long long)task->request,
             task->attempt, task->trace[0] ? task->trace : "none", lac_status_name(status));
    lac_task_refuse(task, status, reason);
    link->refusals++;
}

static void *copy_words(const void *from, size_t count, size_t size)
{
    if (count == 0)
        return NULL;
    void *to = lac_alloc(count, size);
    return memcpy(to, from, count * size);
}

/* The tokens are there: hands the sequence to the engine. */
static void task_start(lac_link *link, lac_task *task, lac_prompt_job *job)
{
    /* Every live task may still need a cancel of its own. */
    if (lac_runner_room(link->runner) < lac_tasks_count(link->tasks) + 1) {
        task_refuse(link, task, LAC_BUSY, "the engine's command queue is full");
        return;
    }
    const lac_dispatch *ask = &job->ask;
    lac_runner_sequence sequence = {
        .id = task->id,
        .prompt = job->ids,
        .prompt_count = job->ids_count,
        .accepted = copy_words(ask->accepted, ask->accepted_count, sizeof(*ask->accepted)),
        .accepted_count = ask->accepted_count,
        .sampling = ask->sampling,
        .shadow = ask->shadow,
        .class_digest = ask->class_digest,
        .input_type = ask->input_type};
    memcpy(sequence.cache_salt, ask->cache_salt, sizeof sequence.cache_salt);
    if (ask->has_class)
        sequence.class_index = lac_classes_find(link->classes, &ask->class_digest);
    task->class_unknown = ask->has_class && sequence.class_index == 0;
    if (task->class_unknown) {
        link->class_unknown++;
        lac_warn("request %llu asks for a class that is not here, it runs in full",
                 (unsigned long long)task->request);
    }
    sequence.sampling.bias =
        copy_words(ask->sampling.bias, ask->sampling.bias_count, sizeof(lac_logit_bias));
    sequence.grammar = job->grammar;
    sequence.raw_text = job->raw_text;
    task->divider = job->divider;
    job->divider = NULL;
    sequence.sampling.grammar = NULL;
    sequence.sampling.grammar_length = 0;
    job->grammar = NULL;
    job->ids = NULL;
    task->stage = LAC_TASK_RUNNING;
    task->prompt_tokens = (uint32_t)sequence.prompt_count;
    task->echo = job->echo;
    job->echo = (lac_span){0};
    link->echoes += task->echo.length > 0;
    lac_runner_submit(link->runner, &sequence);
}

/* The text work was all the work. */
static void task_answer(lac_link *link, lac_task *task, lac_prompt_job *job)
{
    task->prompt_tokens = (uint32_t)job->ids_count;
    lac_task_answer(task, job->answer);
    job->answer = (lac_span){0};
    link->answers++;
}

/* ---- text work ---- */

static void text_run(uv_work_t *work)
{
    lac_prompt_job_run(((text_work *)work->data)->job);
}

static void text_done(uv_work_t *work, int status)
{
    text_work *text = work->data;
    lac_link *link = text->link;
    lac_prompt_job *job = text->job;
    lac_task *task = lac_tasks_get(link->tasks, job->id);
    LAC_ASSERT(task != NULL && task->stage == LAC_TASK_TEXT); /* drop leaves it to us */
    if (task->cancelled || status != 0)
        lac_tasks_remove(link->tasks, task);
    else if (job->error.status != LAC_OK)
        task_refuse(link, task, job->error.status, job->error.text);
    else if (job->answered)
        task_answer(link, task, job);
    else
        task_start(link, task, job);
    link->jobs--;
    link->job_bytes -= job->bytes;
    lac_prompt_job_destroy(&job);
    free(text);
    lac__link_pump(link);
    lac__link_settle(link);
}

static void text_queue(lac_link *link, lac_task *task, const lac_dispatch *dispatch)
{
    lac_prompt_job *job = lac_prompt_job_create(&link->tools, task->id, dispatch);
    if (job == NULL || job->bytes > LAC__JOB_BYTES_MAX - link->job_bytes) {
        lac_prompt_job_destroy(&job);
        task_refuse(link, task, LAC_BUSY, "too many prompt bytes wait to be tokenised");
        return;
    }
    text_work *text = lac_alloc(1, sizeof(*text));
    text->work.data = text;
    text->link = link;
    text->job = job;
    link->jobs++;
    link->job_bytes += job->bytes;
    int failed = uv_queue_work(&link->loop, &text->work, text_run, text_done);
    LAC_ASSERT(failed == 0); /* it fails only without a work function */
}

/* ---- messages ---- */

static void take_dispatch(lac_link *link, const lac_dispatch *dispatch)
{
    if (dispatch->dispatch_seq > link->dispatch_seq_seen)
        link->dispatch_seq_seen = dispatch->dispatch_seq;
    lac_task *task = NULL;
    lac_status status = lac_tasks_add(link->tasks, dispatch->request, dispatch->attempt, &task);
    if (status != LAC_OK) {
        /* Once more the same, or more requests than a Hello could claim. */
        lac_warn("dispatch dropped, request %llu attempt %u: %s",
                 (unsigned long long)dispatch->request, dispatch->attempt, lac_status_name(status));
        return;
    }
    uint64_t id = task->id;
    for (lac_task *old = lac_tasks_next(link->tasks, NULL), *after; old != NULL; old = after) {
        after = lac_tasks_next(link->tasks, old);
        if (old->request == dispatch->request && old->id != id)
            lac__task_drop(link, old);
    }
    memcpy(task->trace, dispatch->trace, sizeof(task->trace));
    lac_debug("request %llu attempt %u trace %s taken", (unsigned long long)task->request,
              task->attempt, task->trace[0] ? task->trace : "none");
    task->next_pos = dispatch->accepted_count;
    task->deadline_ms = dispatch->deadline_ms > 0 ? lac_now_ms() + dispatch->deadline_ms : 0;
    bool leads = link->formed && link->hello.rank == 0;
    if (!lac_session_duties(&link->session)->takes_work || !leads)
        /* "Given up" moves the request to another group; "refused" would be the client's answer. */
        task_refuse(link, task, LAC_ECANCELLED,
                    leads ? "this worker is draining" : "this rank does not lead");
    else
        text_queue(link, task, dispatch);
}

static void take_cancel(lac_link *link, const lac_cancel *cancel)
{
    lac_task *task = lac_tasks_find(link->tasks, cancel->request, cancel->attempt);
    if (task != NULL)
        lac__task_drop(link, task);
}

static void take_ack(lac_link *link, const lac_hello_ack *ack)
{
    lac_error err;
    if (lac_session_accept(&link->session, ack, &err) != LAC_OK) {
        lac_warn("%s", err.text);
        return;
    }
    memcpy(link->hello.incarnation, ack->incarnation, sizeof(ack->incarnation));
    link->sent_ms = lac_now_ms();
    link->beat_ms = link->sent_ms;
    lac_info("registered as group %s: epoch %llu session %llu", link->hello.group,
             (unsigned long long)ack->epoch, (unsigned long long)ack->session);
    lac__forming_ack(link);
}

static void take_end(lac_link *link, const char *what, const char *reason, int exit_code)
{
    lac_error_log("%s by the coordinator: %s", what, reason);
    link->exit_code = exit_code;
    lac__link_event(link, LAC_LINK_EV_END);
}

void lac__link_message(void *arg, uint64_t peer, const lac_msg *msg)
{
    lac_link *link = arg;
    lac_error err;
    (void)peer;
    if (lac_session_admit(&link->session, &msg->envelope, &err) != LAC_OK) {
        link->dropped++;
        lac_debug("dropped: %s", err.text);
        return;
    }
    switch (msg->envelope.type) {
    case LAC_MSG_HELLO_ACK: take_ack(link, &msg->body.hello_ack); break;
    case LAC_MSG_HELLO_REJECT:
        take_end(link, "rejected", msg->body.hello_reject.reason, LAC_LINK_EXIT_REJECTED);
        break;
    case LAC_MSG_REREGISTER:
        lac_info("the coordinator asks for a new hello: %s", msg->body.die.reason);
        lac__link_event(link, LAC_LINK_EV_REREGISTER);
        break;
    case LAC_MSG_DIE: take_end(link, "ended", msg->body.die.reason, LAC_LINK_EXIT_DIED); break;
    case LAC_MSG_DISPATCH: take_dispatch(link, &msg->body.dispatch); break;
    case LAC_MSG_FORM: lac__forming_form(link, &msg->body.form); break;
    case LAC_MSG_CANCEL: take_cancel(link, &msg->body.cancel); break;
    case LAC_MSG_DRAIN:
        lac__link_drain(link, msg->body.drain.deadline_ms, "the coordinator");
        break;
    default: lac_warn("%s is no message for a worker", lac_msg_name(msg->envelope.type)); return;
    }
    lac__link_pump(link);
    lac__link_settle(link);
}

void lac__link_bad(void *arg, uint64_t peer, const lac_envelope *envelope, const lac_error *err)
{
    (void)arg;
    (void)peer;
    lac_warn("%s from the coordinator did not decode: %s", lac_msg_name(envelope->type), err->text);
}

void lac__link_lost(void *arg, uint64_t peer)
{
    (void)peer;
    lac__link_event(arg, LAC_LINK_EV_SILENT);
}
