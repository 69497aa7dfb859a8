/* What the store promises while nothing breaks, and what it does when versions, limits or the disk
 * say no. Crashes are in test_crash.c. */
#include <check.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static rig r;

static void setup(void)
{
    rig_make(&r, NULL);
    rig_open(&r);
}

static void teardown(void)
{
    rig_free(&r);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_ms(int ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
    uv_run(&r.loop, UV_RUN_NOWAIT);
}

static void path_of(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", r.dir, name);
}

START_TEST(a_job_runs_to_its_end)
{
    uint64_t id = rig_submit(&r, "", 3);
    ck_assert_uint_ne(id, 0);
    lac_job_view view = rig_view(&r, id);
    ck_assert_int_eq(view.state, LAC_JOB_RUNNING);
    ck_assert_uint_eq(view.total, 3);
    lac_store_claim claims[3];
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_claim(&r, &claims[i]), 1);
        ck_assert_uint_eq(claims[i].job, id);
        ck_assert_uint_eq(claims[i].attempt, 1);
    }
    lac_store_claim none;
    ck_assert_uint_eq(rig_claim(&r, &none), 0);
    ck_assert_uint_eq(rig_view(&r, id).running, 3);
    ck_assert_int_eq(rig_end(&r, &claims[2], LAC_ITEM_DONE, false), LAC_OK);
    ck_assert_int_eq(rig_end(&r, &claims[0], LAC_ITEM_FAILED, false), LAC_OK);
    ck_assert_int_eq(rig_view(&r, id).state, LAC_JOB_RUNNING);
    ck_assert_int_eq(rig_end(&r, &claims[1], LAC_ITEM_DONE, false), LAC_OK);
    view = rig_view(&r, id);
    ck_assert_int_eq(view.state, LAC_JOB_COMPLETED);
    ck_assert_uint_eq(view.done, 2);
    ck_assert_uint_eq(view.failed, 1);
    ck_assert_uint_eq(view.completion_tokens, 15);
    ck_assert(view.started_ms >= view.created_ms && view.ended_ms >= view.started_ms);
}
END_TEST

START_TEST(an_end_counts_once)
{
    rig_submit(&r, "", 1);
    lac_store_claim claim;
    rig_claim(&r, &claim);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_OK);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_EEPOCH);
    ck_assert_uint_eq(rig_view(&r, claim.job).done, 1);
}
END_TEST

START_TEST(attempts_have_a_limit)
{
    uint64_t id = rig_submit(&r, "", 1);
    lac_store_claim claim;
    for (uint32_t i = 1; i <= LAC_JOB_ATTEMPTS; i++) {
        ck_assert_uint_eq(rig_claim(&r, &claim), 1);
        ck_assert_uint_eq(claim.attempt, i);
        ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_RETURNED, false), LAC_OK);
    }
    ck_assert_uint_eq(rig_claim(&r, &claim), 0);
    ck_assert_int_eq(rig_view(&r, id).state, LAC_JOB_COMPLETED);
    ck_assert_uint_eq(rig_view(&r, id).failed, 1);
}
END_TEST

START_TEST(an_attempt_that_was_none_is_given_back)
{
    rig_submit(&r, "", 1);
    lac_store_claim claim;
    for (int i = 0; i < 10; i++) {
        ck_assert_uint_eq(rig_claim(&r, &claim), 1);
        ck_assert_uint_eq(claim.attempt, 1);
        ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_RETURNED, true), LAC_OK);
    }
}
END_TEST

START_TEST(an_item_rests_before_it_is_tried_again)
{
    rig_submit(&r, "", 1);
    lac_store_claim claim;
    rig_claim(&r, &claim);
    lac_store_call call = {.kind = LAC_STORE_END,
                           .end = {.ref = claim.ref,
                                   .attempt = claim.attempt,
                                   .state = LAC_ITEM_RETURNED,
                                   .not_before_ms = now_ms() + 300}};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    lac_store_call_free(&call);
    ck_assert_uint_eq(rig_claim(&r, &claim), 0);
    wait_ms(350);
    ck_assert_uint_eq(rig_claim(&r, &claim), 1);
}
END_TEST

START_TEST(a_restart_ends_leases)
{
    uint64_t id = rig_submit(&r, "", 2);
    lac_store_claim old, again;
    rig_claim(&r, &old);
    rig_close(&r);
    rig_open(&r);
    ck_assert_int_eq(rig_end(&r, &old, LAC_ITEM_DONE, false), LAC_EEPOCH);
    ck_assert_uint_eq(rig_claim(&r, &again), 1);
    ck_assert_uint_eq(again.ref, old.ref); /* what waits again goes first */
    ck_assert_uint_eq(again.attempt, 2);
    rig_close(&r);
    rig_open(&r);
    ck_assert_uint_eq(rig_claim(&r, &again), 1);
    ck_assert_uint_eq(again.attempt, 3);
    rig_close(&r);
    rig_open(&r); /* its third attempt died too: it is given up */
    ck_assert_uint_eq(rig_view(&r, id).failed, 1);
    ck_assert_uint_eq(rig_claim(&r, &again), 1);
    ck_assert_uint_ne(again.ref, old.ref);
}
END_TEST

START_TEST(the_same_key_is_the_same_job)
{
    uint64_t id = rig_submit(&r, "one", 5);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(rig_submit(&r, "one", 5), id);
    ck_assert_uint_eq(rig_view(&r, id).total, 5);
    ck_assert_uint_eq(rig_submit(&r, "one", 4), 0);
    ck_assert_uint_eq(rig_submit(&r, "one", 6), 0);
    ck_assert_uint_ne(rig_submit(&r, "two", 5), id);
    lac_store_call call = {.kind = LAC_STORE_SUBMIT, .tenant = "other"};
    lac_store_input item = {.body = {"0", 1}};
    call.submit = (lac_store_submit){
        .key = "one", .endpoint = LAC_JOB_CHAT, .items = &item, .items_count = 1};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK); /* another tenant's key is another key */
    ck_assert(call.created);
    ck_assert_uint_ne(call.jobs[0].view.id, id);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(items_come_in_pieces)
{
    lac_store_input items[4] = {
        {.body = {"0", 1}}, {.body = {"1", 1}}, {.body = {"2", 1}}, {.body = {"3", 1}}};
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){
        .key = "k", .endpoint = LAC_JOB_CHAT, .items = items, .items_count = 2, .more = true};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    uint64_t id = call.jobs[0].view.id;
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_FILLING);
    lac_store_call_free(&call);
    lac_store_claim none;
    ck_assert_uint_eq(rig_claim(&r, &none), 0);
    call.submit.first = 1; /* one twice, one new */
    call.submit.items = items + 1;
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    lac_store_call_free(&call);
    call.submit.items = items + 2; /* another body at place 1 */
    ck_assert_int_eq(rig_do(&r, &call), LAC_EEXIST);
    lac_store_call_free(&call);
    call.submit.first = 7;
    ck_assert_int_eq(rig_do(&r, &call), LAC_ETOOBIG);
    lac_store_call_free(&call);
    ck_assert_uint_eq(rig_view(&r, id).total, 3); /* what failed left nothing */
    call.submit.first = 3;
    call.submit.items = items + 3;
    call.submit.items_count = 1;
    call.submit.more = false;
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_RUNNING);
    ck_assert_uint_eq(call.jobs[0].view.total, 4);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(cancelling)
{
    uint64_t id = rig_submit(&r, "", 3);
    lac_store_claim claim, none;
    rig_claim(&r, &claim);
    lac_store_call call = {.kind = LAC_STORE_CANCEL, .id = id};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_CANCELLING);
    lac_store_call_free(&call);
    ck_assert_uint_eq(rig_claim(&r, &none), 0);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_CANCELLED, false), LAC_OK);
    ck_assert_int_eq(rig_view(&r, id).state, LAC_JOB_CANCELLED);
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK); /* again: nothing changes */
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_CANCELLED);
    lac_store_call_free(&call);
    call.id = id ^ 1;
    ck_assert_int_eq(rig_do(&r, &call), LAC_ENOTFOUND);
    lac_store_call_free(&call);
    snprintf(call.tenant, sizeof call.tenant, "other");
    call.id = id;
    ck_assert_int_eq(rig_do(&r, &call), LAC_ENOTFOUND);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(deadlines_end_jobs)
{
    lac_store_input items[2] = {{.body = {"0", 1}}, {.body = {"1", 1}}};
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){
        .endpoint = LAC_JOB_CHAT, .items = items, .items_count = 2, .deadline_ms = now_ms() + 500};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    uint64_t id = call.jobs[0].view.id;
    lac_store_call_free(&call);
    lac_store_claim claim, none;
    ck_assert_uint_eq(rig_claim(&r, &claim), 1);
    ck_assert_int_le(claim.lease_until_ms, claim.deadline_ms);
    for (int i = 0; i < 100 && rig_view(&r, id).state != LAC_JOB_EXPIRED; i++)
        wait_ms(50); /* its lease ended with it, so nothing is left running */
    lac_job_view view = rig_view(&r, id);
    ck_assert_int_eq(view.state, LAC_JOB_EXPIRED);
    ck_assert_uint_eq(rig_claim(&r, &none), 0);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_EEPOCH);
}
END_TEST

START_TEST(urgent_jobs_go_first_and_equal_ones_take_turns)
{
    uint64_t a = rig_submit(&r, "a", 20), b = rig_submit(&r, "b", 20);
    lac_store_input item = {.body = {"0", 1}};
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){
        .endpoint = LAC_JOB_COMPLETION, .items = &item, .items_count = 1, .priority = 1};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    uint64_t urgent = call.jobs[0].view.id;
    lac_store_call_free(&call);
    lac_store_claim claim;
    rig_claim(&r, &claim);
    ck_assert_uint_eq(claim.job, urgent);
    ck_assert_int_eq(claim.endpoint, LAC_JOB_COMPLETION);
    lac_store_call many = {.kind = LAC_STORE_CLAIM, .limit = 32};
    ck_assert_int_eq(rig_do(&r, &many), LAC_OK);
    ck_assert_uint_eq(many.count, 32);
    uint32_t of_a = 0, of_b = 0;
    for (uint32_t i = 0; i < many.count; i++) {
        of_a += many.claims[i].job == a;
        of_b += many.claims[i].job == b;
        for (uint32_t k = 0; k < i; k++)
            ck_assert_uint_ne(many.claims[i].ref, many.claims[k].ref);
    }
    ck_assert_uint_eq(of_a, 16);
    ck_assert_uint_eq(of_b, 16);
    ck_assert_mem_eq(many.claims[0].body.data, "0", 1);
    lac_store_call_free(&many);
}
END_TEST

START_TEST(results_come_in_pages)
{
    uint64_t id = rig_submit(&r, "", 5);
    lac_store_claim claim;
    for (int i = 0; i < 4; i++) {
        rig_claim(&r, &claim);
        ck_assert_int_eq(rig_end(&r, &claim, i == 1 ? LAC_ITEM_FAILED : LAC_ITEM_DONE, false),
                         LAC_OK);
    }
    lac_store_call call = {
        .kind = LAC_STORE_RESULTS, .id = id, .limit = 2, .which = LAC_STORE_DONE};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 2);
    ck_assert(call.more);
    ck_assert_uint_eq(call.results[1].index, 2);
    ck_assert_uint_eq(call.results[1].http, 200);
    ck_assert_mem_eq(call.results[1].custom_id.data, "2", 1);
    ck_assert_mem_eq(call.results[1].reply.data, "{}", 2);
    ck_assert_str_eq(call.results[1].class_name, "full");
    call.first = call.next;
    lac_store_call_free(&call);
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 1);
    ck_assert(!call.more);
    lac_store_call_free(&call);
    call.which = LAC_STORE_WRONG;
    call.first = 0;
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 1); /* the fifth still waits, so it is not wrong yet */
    lac_store_call_free(&call);
    lac_store_call cancel = {.kind = LAC_STORE_CANCEL, .id = id};
    ck_assert_int_eq(rig_do(&r, &cancel), LAC_OK);
    lac_store_call_free(&cancel);
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 2);
    ck_assert_int_eq(call.results[1].state, LAC_ITEM_FRESH);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(lists_are_newest_first)
{
    uint64_t ids[5];
    char key[] = "k0";
    for (int i = 0; i < 5; i++, key[1]++)
        ids[i] = rig_submit(&r, key, 1);
    lac_store_call call = {.kind = LAC_STORE_LIST, .limit = 3};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 3);
    ck_assert(call.more);
    ck_assert_uint_eq(call.jobs[0].view.id, ids[4]);
    ck_assert_str_eq(call.jobs[0].view.key, "k4");
    call.id = call.jobs[2].view.id;
    lac_store_call_free(&call);
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.count, 2);
    ck_assert(!call.more);
    ck_assert_uint_eq(call.jobs[1].view.id, ids[0]);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(a_refused_input_is_kept_with_its_reason)
{
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){
        .endpoint = LAC_JOB_CHAT, .error = "line 3 is no JSON", .about = {"about", 5}};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_FAILED);
    ck_assert_str_eq(call.jobs[0].view.error, "line 3 is no JSON");
    ck_assert_mem_eq(call.jobs[0].about.data, "about", 5);
    lac_store_call_free(&call);
    call.submit.error = NULL; /* and one without any item is none */
    ck_assert_int_eq(rig_do(&r, &call), LAC_EINVAL);
    lac_store_call_free(&call);
}
END_TEST

START_TEST(ended_jobs_leave)
{
    rig_close(&r);
    r.options.retention_ms = 300;
    rig_open(&r);
    uint64_t id = rig_submit(&r, "x", 5000), kept = rig_submit(&r, "y", 1);
    lac_store_call call = {.kind = LAC_STORE_CANCEL, .id = id};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    lac_store_call_free(&call);
    call.kind = LAC_STORE_SHOW;
    lac_status status = LAC_OK;
    for (int i = 0; i < 200 && status == LAC_OK; i++) {
        wait_ms(50);
        status = rig_do(&r, &call);
        lac_store_call_free(&call);
    }
    ck_assert_int_eq(status, LAC_ENOTFOUND);
    ck_assert_int_eq(rig_view(&r, kept).state, LAC_JOB_RUNNING);
    ck_assert_uint_ne(rig_submit(&r, "x", 3), 0); /* its key is free again */
}
END_TEST

/* ---- versions ---- */

static void change(const char *sql)
{
    char path[96];
    sqlite3 *db;
    path_of(path, sizeof path, "jobs.db");
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(versions)
{
    lac_error err = {0};
    rig_close(&r);
    change("PRAGMA user_version = 99");
    ck_assert_int_eq(rig_try_open(&r, &err), LAC_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "schema version 99"));
    ck_assert_ptr_nonnull(strstr(err.text, "jobs.db"));
    change("PRAGMA application_id = 7");
    ck_assert_int_eq(rig_try_open(&r, &err), LAC_ECORRUPT);
    char path[96];
    path_of(path, sizeof path, "jobs.db");
    FILE *file = fopen(path, "r+");
    fputs("this is no database at all, but it has a first line", file);
    fclose(file);
    ck_assert_int_eq(rig_try_open(&r, &err), LAC_ECORRUPT);
}
END_TEST

/* What version 1 wrote opens, with all that was in it, and goes on. */
START_TEST(the_version_before_opens)
{
    char path[96], sql[8192];
    rig_close(&r);
    path_of(path, sizeof path, "jobs.db");
    ck_assert_int_eq(unlink(path), 0);
    FILE *file = fopen(LAC_SOURCE_DIR "/tests/unit/store/v1.sql", "r");
    ck_assert_ptr_nonnull(file);
    size_t length = fread(sql, 1, sizeof sql - 1, file);
    fclose(file);
    sql[length] = '\0';
    change(sql);
    rig_open(&r);
    lac_job_view view = rig_view(&r, 4660);
    ck_assert_str_eq(view.key, "old");
    ck_assert_uint_eq(view.total, 4);
    ck_assert_uint_eq(view.done, 1);
    ck_assert_uint_eq(view.failed, 1); /* leased at its last attempt by somebody who is gone */
    ck_assert_uint_eq(view.hidden, 0);
    lac_store_claim claim;
    ck_assert_uint_eq(rig_claim(&r, &claim), 1);
    ck_assert_uint_eq(claim.attempt, 2);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_OK);
    ck_assert_uint_eq(rig_claim(&r, &claim), 1);
    ck_assert_uint_eq(claim.attempt, 1);
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_OK);
    ck_assert_int_eq(rig_view(&r, 4660).state, LAC_JOB_COMPLETED);
}
END_TEST

START_TEST(files_are_kept_and_leave)
{
    lac_store_call call = {.kind = LAC_STORE_FILE_PUT,
                           .file = {.purpose = "batch", .name = "a", .content = {"text", 4}}};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    uint64_t id = call.files->id;
    lac_store_call_free(&call);
    rig_close(&r);
    rig_open(&r);
    call = (lac_store_call){.kind = LAC_STORE_FILE_GET, .id = id, .content = true};
    ck_assert_int_eq(rig_do(&r, &call), LAC_OK);
    ck_assert_uint_eq(call.files->bytes, 4);
    ck_assert_mem_eq(call.files->content.data, "text", 4);
    lac_store_call_free(&call);
    snprintf(call.tenant, sizeof call.tenant, "other");
    ck_assert_int_eq(rig_do(&r, &call), LAC_ENOTFOUND);
    lac_store_call_free(&call);
    call.tenant[0] = '\0';
    rig_close(&r);
    r.options.retention_ms = 1;
    rig_open(&r);
    lac_status status = LAC_OK;
    for (int i = 0; i < 100 && status == LAC_OK; i++) {
        wait_ms(50);
        status = rig_do(&r, &call);
        lac_store_call_free(&call);
    }
    ck_assert_int_eq(status, LAC_ENOTFOUND);
}
END_TEST

START_TEST(nobody_else_reads_it_or_has_it)
{
    struct stat info;
    char path[96];
    rig_submit(&r, "", 1);
    static const char *const files[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.lock"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_of(path, sizeof path, files[i]);
        ck_assert_int_eq(stat(path, &info), 0);
        ck_assert_uint_eq(info.st_mode & 0777, 0600);
    }
    rig other = {.options = {.dir = r.dir, .epoch = 9}};
    lac_error err = {0};
    lac_store *second = NULL;
    uv_loop_init(&other.loop);
    lac_metrics *metrics = lac_metrics_create(128);
    ck_assert_int_eq(lac_store_open(&other.loop, &other.options, metrics, &second, &err), LAC_BUSY);
    ck_assert_ptr_nonnull(strstr(err.text, "jobs.lock"));
    uv_run(&other.loop, UV_RUN_DEFAULT);
    uv_loop_close(&other.loop);
    lac_metrics_destroy(&metrics);
}
END_TEST

/* ---- a disk that says no ---- */

static lac_status submit_large(uint32_t bytes)
{
    char *body = calloc(1, bytes);
    lac_store_input item = {.body = {body, bytes}};
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){.endpoint = LAC_JOB_CHAT, .items = &item, .items_count = 1};
    lac_status status = rig_do(&r, &call);
    lac_store_call_free(&call);
    free(body);
    return status;
}

static void wait_writable(bool writable)
{
    for (int i = 0; i < 200 && lac_store_writable(r.store) != writable; i++)
        wait_ms(50);
    ck_assert_int_eq(lac_store_writable(r.store), writable);
}

START_TEST(a_full_database_refuses_and_comes_back)
{
    rig_close(&r);
    r.options.bytes_max = 8 << 20;
    r.options.retention_ms = 1;
    rig_open(&r);
    uint64_t id = rig_submit(&r, "small", 2);
    lac_store_claim claim;
    rig_claim(&r, &claim);
    ck_assert_int_eq(submit_large(3 << 20), LAC_OK);
    ck_assert_int_eq(submit_large(6 << 20), LAC_EIO);
    wait_writable(false);
    ck_assert_int_eq(submit_large(1), LAC_EIO);
    ck_assert_int_eq(rig_view(&r, id).state, LAC_JOB_RUNNING); /* reading goes on */
    ck_assert_int_eq(rig_end(&r, &claim, LAC_ITEM_DONE, false), LAC_OK);
    wait_writable(true); /* there is room for what a job may need */
    ck_assert_uint_ne(rig_submit(&r, "again", 2), 0);
    ck_assert_uint_eq(rig_view(&r, id).done, 1);
}
END_TEST

START_TEST(a_device_error_refuses_and_comes_back)
{
    struct rlimit before, small;
    uint64_t id = rig_submit(&r, "kept", 2);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 64 << 10; /* writes beyond that fail: an error of the device */
    setrlimit(RLIMIT_FSIZE, &small);
    ck_assert_int_eq(submit_large(1 << 20), LAC_EIO);
    wait_writable(false);
    ck_assert_int_eq(rig_view(&r, id).state, LAC_JOB_RUNNING);
    setrlimit(RLIMIT_FSIZE, &before);
    wait_writable(true);
    ck_assert_int_eq(submit_large(1 << 20), LAC_OK);
    ck_assert_uint_eq(rig_view(&r, id).total, 2);
}
END_TEST

START_TEST(many_calls_share_commits)
{
    enum { CALLS = 200 };
    static lac_store_call calls[CALLS];
    static lac_store_input item = {.body = {"0", 1}};
    bool done[CALLS] = {false};
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (lac_store_call){.kind = LAC_STORE_SUBMIT};
        calls[i].submit =
            (lac_store_submit){.endpoint = LAC_JOB_CHAT, .items = &item, .items_count = 1};
        if (i % 10 == 9)
            calls[i].submit.first = 3; /* a bad one does not spoil its neighbours */
        calls[i].arg = &done[i];
        calls[i].done = harness_done;
        ck_assert_int_eq(lac_store_do(r.store, &calls[i], NULL), LAC_OK);
    }
    for (int i = 0; i < CALLS; i++) {
        while (!done[i])
            uv_run(&r.loop, UV_RUN_ONCE);
        ck_assert_int_eq(calls[i].error.status, i % 10 == 9 ? LAC_ENOTFOUND : LAC_OK);
        lac_store_call_free(&calls[i]);
    }
    lac_buf text = {.cap = 1 << 20};
    lac_metrics_render(r.metrics, &text);
    const char *at = strstr(text.data, "lacuna_store_commit_seconds_count ");
    ck_assert_ptr_nonnull(at);
    ck_assert_int_lt(atoi(strchr(at, ' ') + 1), CALLS / 4);
    lac_buf_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tcase = tcase_create("store");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_job_runs_to_its_end);
    tcase_add_test(tcase, an_end_counts_once);
    tcase_add_test(tcase, attempts_have_a_limit);
    tcase_add_test(tcase, an_attempt_that_was_none_is_given_back);
    tcase_add_test(tcase, an_item_rests_before_it_is_tried_again);
    tcase_add_test(tcase, a_restart_ends_leases);
    tcase_add_test(tcase, the_same_key_is_the_same_job);
    tcase_add_test(tcase, items_come_in_pieces);
    tcase_add_test(tcase, cancelling);
    tcase_add_test(tcase, deadlines_end_jobs);
    tcase_add_test(tcase, urgent_jobs_go_first_and_equal_ones_take_turns);
    tcase_add_test(tcase, results_come_in_pages);
    tcase_add_test(tcase, lists_are_newest_first);
    tcase_add_test(tcase, a_refused_input_is_kept_with_its_reason);
    tcase_add_test(tcase, ended_jobs_leave);
    tcase_add_test(tcase, versions);
    tcase_add_test(tcase, the_version_before_opens);
    tcase_add_test(tcase, files_are_kept_and_leave);
    tcase_add_test(tcase, nobody_else_reads_it_or_has_it);
    tcase_add_test(tcase, a_full_database_refuses_and_comes_back);
    tcase_add_test(tcase, a_device_error_refuses_and_comes_back);
    tcase_add_test(tcase, many_calls_share_commits);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
