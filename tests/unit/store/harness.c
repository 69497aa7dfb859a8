#include "harness.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static void on_changed(void *arg)
{
    ((rig *)arg)->changed++;
}

void rig_make(rig *r, const lac_store_options *options)
{
    *r = (rig){0};
    strcpy(r->dir, "/tmp/lacuna-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(r->dir));
    if (options)
        r->options = *options;
    r->options.changed = on_changed;
    r->options.changed_arg = r;
    lac_log_setup(LAC_LOG_ERROR, "test", false);
}

void rig_free(rig *r)
{
    char command[128];
    rig_close(r);
    snprintf(command, sizeof command, "rm -rf '%s'", r->dir);
    ck_assert_int_eq(system(command), 0);
}

lac_status rig_try_open(rig *r, lac_error *err)
{
    r->options.dir = r->dir;
    r->options.epoch++;
    uv_loop_init(&r->loop);
    r->metrics = lac_metrics_create(128);
    lac_status status = lac_store_open(&r->loop, &r->options, r->metrics, &r->store, err);
    if (status != LAC_OK)
        rig_close(r);
    return status;
}

void rig_open(rig *r)
{
    lac_error err = {0};
    lac_status status = rig_try_open(r, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

void rig_close(rig *r)
{
    if (!r->metrics)
        return;
    lac_store_close(&r->store);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&r->loop), 0);
    lac_metrics_destroy(&r->metrics);
}

void harness_done(lac_store_call *call)
{
    *(bool *)call->arg = true;
}

lac_status rig_do(rig *r, lac_store_call *call)
{
    bool done = false;
    lac_error err = {0};
    call->done = harness_done;
    call->arg = &done;
    lac_status status = lac_store_do(r->store, call, &err);
    if (status != LAC_OK) {
        call->error = err;
        return status;
    }
    while (!done)
        uv_run(&r->loop, UV_RUN_ONCE);
    return call->error.status;
}

uint64_t rig_submit(rig *r, const char *key, uint32_t count)
{
    lac_store_input *items = calloc(count, sizeof *items);
    char(*texts)[16] = calloc(count, sizeof *texts);
    for (uint32_t i = 0; i < count; i++) {
        int length = snprintf(texts[i], sizeof texts[i], "%u", i);
        items[i].body = items[i].custom_id = (lac_span){texts[i], (uint32_t)length};
    }
    lac_store_call call = {
        .kind = LAC_STORE_SUBMIT,
        .submit = {.endpoint = LAC_JOB_CHAT, .items_count = count, .items = items}};
    snprintf(call.submit.key, sizeof call.submit.key, "%s", key);
    uint64_t id = rig_do(r, &call) == LAC_OK ? call.jobs[0].view.id : 0;
    lac_store_call_free(&call);
    free(items);
    free(texts);
    return id;
}

lac_job_view rig_view(rig *r, uint64_t id)
{
    lac_store_call call = {.kind = LAC_STORE_SHOW, .id = id};
    lac_status status = rig_do(r, &call);
    ck_assert_msg(status == LAC_OK, "%s", call.error.text);
    lac_job_view view = call.jobs[0].view;
    lac_store_call_free(&call);
    return view;
}

uint32_t rig_claim(rig *r, lac_store_claim *out)
{
    lac_store_call call = {.kind = LAC_STORE_CLAIM, .limit = 1};
    lac_status status = rig_do(r, &call);
    ck_assert_msg(status == LAC_OK, "%s", call.error.text);
    uint32_t count = call.count;
    if (count) {
        *out = call.claims[0];
        out->body.data = NULL;
    }
    lac_store_call_free(&call);
    return count;
}

lac_status rig_end(rig *r, const lac_store_claim *claim, lac_item_state state, bool refund)
{
    lac_store_call call = {.kind = LAC_STORE_END,
                           .end = {.ref = claim->ref,
                                   .attempt = claim->attempt,
                                   .state = state,
                                   .refund = refund,
                                   .http = state == LAC_ITEM_DONE ? 200 : 500,
                                   .prompt_tokens = 3,
                                   .completion_tokens = 5,
                                   .class_name = "full",
                                   .reply = {"{}", 2}}};
    if (state == LAC_ITEM_RETURNED)
        call.end.reply = (lac_span){0};
    lac_status status = rig_do(r, &call);
    lac_store_call_free(&call);
    return status;
}
