/* A request without a connection. Reads bodies and writes replies with what the front end has for
 * exchanges; knows neither connections nor the loop. Any one thread. */
#include "frontend/item.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/assert.h"
#include "base/clock.h"
#include "reply.h"

struct lac_item {
    lac__api_request api; /* until it was sent */
    bool parsed;
    lac__answer answer;
    lac_usage usage;
    uint32_t finished;
    bool ended_choice[LAC_CHOICES_MAX];
    bool refused;
    lac_status error;
    lac__problem problem;
    bool has_account;
    lac_run_account account;
    char *mask; /* of the account */
};

static void refuse(lac_item *item, lac_status error)
{
    if (item->refused)
        return;
    item->refused = true;
    item->error = error;
}

lac_item *lac_item_create(lac_job_endpoint endpoint, const char *body, size_t length, uint64_t id)
{
    lac_item *item = lac_alloc(1, sizeof *item);
    bool chat = endpoint == LAC_JOB_CHAT;
    item->parsed = lac__api_parse(chat ? LAC__API_CHAT : LAC__API_COMPLETION, body, length,
                                  &item->api, &item->problem);
    if (!item->parsed) {
        refuse(item, LAC_EINVAL);
        return item;
    }
    if (item->api.stream) {
        lac__problem_set(&item->problem, 400, "invalid_value", "stream",
                         "stream is true, allowed only false in a batch");
        refuse(item, LAC_EINVAL);
        return item;
    }
    lac__answer *answer = &item->answer;
    answer->chat = chat;
    answer->created_s = lac_wall_s();
    snprintf(answer->id, sizeof answer->id, "%s-%016" PRIx64, chat ? "chatcmpl" : "cmpl", id);
    memcpy(answer->model, item->api.submit.model, sizeof answer->model);
    answer->want_logprobs = item->api.submit.sampling.logprobs;
    answer->choices_count = item->api.choices;
    lac__answer_bound(answer, LAC_JOB_REPLY_MAX);
    return item;
}

static void input_free(lac_item *item)
{
    if (item->parsed)
        lac__api_free(&item->api);
    item->parsed = false;
}

void lac_item_free(lac_item **pointer)
{
    lac_item *item = *pointer;
    if (!item)
        return;
    *pointer = NULL;
    input_free(item);
    lac__answer_free(&item->answer);
    free(item->mask);
    free(item);
}

uint32_t lac_item_choices(const lac_item *item)
{
    return item->answer.choices_count;
}

const lac_submit *lac_item_submit(const lac_item *item, uint32_t choice)
{
    LAC_ASSERT(item->parsed && choice < item->answer.choices_count);
    return &item->api.submit;
}

void lac_item_sent(lac_item *item)
{
    input_free(item);
}

static void take_account(lac_item *item, const lac_run_account *account)
{
    if (!account)
        return;
    const char *mask = account->mask ? account->mask : "";
    double flops = item->finished ? item->account.flops : 0;
    uint64_t kv_bytes = item->finished ? item->account.kv_bytes : 0;
    free(item->mask);
    item->mask = lac_strndup(mask, strlen(mask));
    item->account = *account;
    item->account.mask = item->mask;
    item->account.flops += flops; /* of several choices the work adds up */
    item->account.kv_bytes += kv_bytes;
    item->has_account = true;
}

static void take_done(lac_item *item, uint32_t choice, const lac_done *done)
{
    if (done->finish != LAC_FINISH_STOP && done->finish != LAC_FINISH_LENGTH) {
        bool cancel = done->finish == LAC_FINISH_CANCEL;
        lac__problem_from_status(&item->problem, cancel ? LAC_ECANCELLED : LAC_EINTERNAL, 0,
                                 cancel ? "the server stopped this request"
                                        : "the request failed on the server");
        refuse(item, cancel ? LAC_ECANCELLED : LAC_EINTERNAL);
        return;
    }
    take_account(item, done->account);
    item->answer.choices[choice].finish = done->finish;
    if (!item->finished || done->usage.cached_tokens < item->usage.cached_tokens)
        item->usage.cached_tokens = done->usage.cached_tokens;
    item->usage.prompt_tokens = done->usage.prompt_tokens;
    item->usage.completion_tokens += done->usage.completion_tokens;
    item->finished++;
}

void lac_item_take(lac_item *item, uint32_t choice, const lac_msg *msg)
{
    LAC_ASSERT(choice < item->answer.choices_count);
    if (lac_item_ended(item) || item->ended_choice[choice])
        return;
    switch (msg->envelope.type) {
    case LAC_MSG_ACCEPTED:
        memcpy(item->answer.model, msg->body.accepted.model, sizeof item->answer.model);
        break;
    case LAC_MSG_TOKENS:
        if (!lac__answer_add(&item->answer, choice, &msg->body.tokens.chunk)) {
            lac__problem_set(&item->problem, 500, "answer_too_large", NULL,
                             "answer is over %d bytes, the most allowed", LAC_JOB_REPLY_MAX);
            refuse(item, LAC_ETOOBIG);
        }
        break;
    case LAC_MSG_DONE:
        item->ended_choice[choice] = true;
        take_done(item, choice, &msg->body.done);
        break;
    case LAC_MSG_REFUSED:
        item->ended_choice[choice] = true;
        if (!item->refused) {
            lac__problem_from_status(&item->problem, msg->body.refused.status,
                                     msg->body.refused.retry_after_ms, msg->body.refused.reason);
            lac__problem_cause(&item->problem, msg->body.refused.cause);
        }
        /* What its tenant may not do would be refused again. */
        refuse(item,
               msg->body.refused.cause == LAC_CAUSE_DENIED ? LAC_EINVAL : msg->body.refused.status);
        break;
    default: break;
    }
}

bool lac_item_ended(const lac_item *item)
{
    return item->refused || item->finished == item->answer.choices_count;
}

lac_status lac_item_error(const lac_item *item)
{
    return item->refused ? item->error : LAC_OK;
}

void lac_item_reply(const lac_item *item, lac_item_end *end, lac_buf *out)
{
    LAC_ASSERT(lac_item_ended(item));
    *end = (lac_item_end){0};
    if (item->refused) {
        end->http = (uint32_t)item->problem.http;
        lac__problem_json(&item->problem, out);
        return;
    }
    end->http = 200;
    end->prompt_tokens = item->usage.prompt_tokens;
    end->completion_tokens = item->usage.completion_tokens;
    if (item->has_account)
        memcpy(end->class_name, item->account.class_name, sizeof end->class_name);
    size_t before = out->length;
    lac__answer_whole(&item->answer, &item->usage, item->has_account ? &item->account : NULL, out);
    if (!out->overflow && out->length - before <= LAC_JOB_REPLY_MAX)
        return;
    lac__problem problem;
    lac__problem_set(&problem, 500, "answer_too_large", NULL,
                     "the reply is over %d bytes, the most allowed", LAC_JOB_REPLY_MAX);
    out->length = before;
    out->overflow = false;
    end->http = 500;
    lac__problem_json(&problem, out);
}
