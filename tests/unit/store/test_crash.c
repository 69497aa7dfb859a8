/* kill -9 at random moments. A child process submits jobs, claims items, "runs" them and ends them,
 * and writes down (in a file that outlives it) what the store acknowledged and what it ran. After
 * many deaths the database must hold every acknowledged job whole, no item may have run more often
 * than its limit or after its acknowledged end, and everything must come to its end.
 *
 * LACUNA_KILLS sets how often (20). */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/rng.h"
#include "harness.h"

enum { ATTEMPTS = 4, ITEMS_MAX = 20, JOBS_AT_ONCE = 30 };

static char notes_path[96];

/* ---- the child ---- */

static int notes;

static void note(const char *format, ...)
{
    char line[128];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    LAC_ASSERT(write(notes, line, (size_t)length) == length);
}

static void submit(rig *r, lac_rng *rng)
{
    char key[40], bodies[ITEMS_MAX][48];
    lac_store_input items[ITEMS_MAX];
    uint32_t count = 1 + (uint32_t)lac_rng_below(rng, ITEMS_MAX);
    snprintf(key, sizeof key, "k%016llx", (unsigned long long)lac_rng_next(rng));
    for (uint32_t i = 0; i < count; i++) {
        int length = snprintf(bodies[i], sizeof bodies[i], "%s/%u", key, i);
        items[i] = (lac_store_input){.body = {bodies[i], (uint32_t)length}};
    }
    lac_store_call call = {.kind = LAC_STORE_SUBMIT};
    call.submit = (lac_store_submit){
        .endpoint = LAC_JOB_CHAT, .attempts_max = ATTEMPTS, .items = items, .items_count = count};
    memcpy(call.submit.key, key, sizeof key);
    if (rig_do(r, &call) == LAC_OK)
        note("S %llu %u %s\n", (unsigned long long)call.jobs[0].view.id, count, key);
    lac_store_call_free(&call);
}

/* Several are under way at once, so that they share commits and a kill finds them in all states. */
static bool work(rig *r, lac_rng *rng)
{
    enum { MANY = 12 };
    lac_store_call claim = {.kind = LAC_STORE_CLAIM, .limit = MANY}, ends[MANY];
    bool done[MANY] = {false};
    if (rig_do(r, &claim) != LAC_OK)
        return false;
    uint32_t count = claim.count;
    for (uint32_t i = 0; i < count; i++) {
        const lac_store_claim *c = &claim.claims[i];
        note("R %llu %llu %u %.*s\n", (unsigned long long)c->job, (unsigned long long)c->ref,
             c->attempt, (int)c->body.length, c->body.data);
        uint64_t dice = lac_rng_below(rng, 10);
        ends[i] = (lac_store_call){.kind = LAC_STORE_END, .done = harness_done, .arg = &done[i]};
        ends[i].end = (lac_store_end){.ref = c->ref,
                                      .attempt = c->attempt,
                                      .state = dice < 7   ? LAC_ITEM_DONE
                                               : dice < 8 ? LAC_ITEM_FAILED
                                                          : LAC_ITEM_RETURNED,
                                      .reply = {"{\"ok\":1}", dice < 8 ? 8 : 0}};
        LAC_ASSERT(lac_store_do(r->store, &ends[i], NULL) == LAC_OK);
    }
    for (uint32_t i = 0; i < count; i++) {
        while (!done[i])
            uv_run(&r->loop, UV_RUN_ONCE);
        if (ends[i].error.status == LAC_OK && ends[i].end.state != LAC_ITEM_RETURNED)
            note("E %llu %d\n", (unsigned long long)ends[i].end.ref, ends[i].end.state);
        lac_store_call_free(&ends[i]);
    }
    lac_store_call_free(&claim);
    return count > 0;
}

/* Until it is killed, or with `finish` until nothing is left to do. */
_Noreturn static void child(rig *r, uint64_t seed, bool finish)
{
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    notes = open(notes_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    rig_open(r);
    for (;;) {
        lac_store_call list = {.kind = LAC_STORE_LIST, .limit = JOBS_AT_ONCE};
        LAC_ASSERT(rig_do(r, &list) == LAC_OK);
        uint32_t live = 0;
        for (uint32_t i = 0; i < list.count; i++)
            live += !lac_job_ended(list.jobs[i].view.state);
        lac_store_call_free(&list);
        if (!finish && live < JOBS_AT_ONCE / 2)
            submit(r, &rng);
        if (!work(r, &rng) && finish)
            break;
    }
    rig_close(r);
    _exit(0);
}

/* ---- the parent ---- */

static int run_child(rig *r, uint64_t seed, int life_ms)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        child(r, seed, life_ms == 0);
    ck_assert_int_gt(pid, 0);
    r->options.epoch++; /* as the child does for itself */
    if (life_ms) {
        struct timespec pause = {life_ms / 1000, (long)(life_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

typedef struct {
    uint64_t ref, job;
    uint32_t index, runs, last_attempt, ended;
} item_note;

typedef struct {
    uint64_t id;
    uint32_t items;
} job_note;

typedef struct {
    item_note *items;
    job_note *jobs;
    size_t items_count, jobs_count;
} book;

static item_note *find(book *b, uint64_t ref)
{
    for (size_t i = b->items_count; i-- > 0;)
        if (b->items[i].ref == ref)
            return &b->items[i];
    b->items = realloc(b->items, (b->items_count + 1) * sizeof *b->items);
    b->items[b->items_count] = (item_note){.ref = ref};
    return &b->items[b->items_count++];
}

/* Checks what can be seen from the notes alone, in their order. */
static void read_notes(book *b)
{
    FILE *file = fopen(notes_path, "r");
    char line[160];
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long long a, c;
        unsigned n;
        if (sscanf(line, "S %llu %u", &a, &n) == 2) {
            b->jobs = realloc(b->jobs, (b->jobs_count + 1) * sizeof *b->jobs);
            b->jobs[b->jobs_count++] = (job_note){a, n};
        } else if (sscanf(line, "R %llu %llu %u", &a, &c, &n) == 3) {
            item_note *item = find(b, c);
            item->job = a;
            item->index = (uint32_t)atoi(strrchr(line, '/') + 1);
            ck_assert_msg(!item->ended, "ran after its acknowledged end: %s", line);
            ck_assert_msg(n > item->last_attempt, "an attempt was not counted: %s", line);
            item->last_attempt = n;
            ck_assert_msg(++item->runs <= ATTEMPTS, "ran past its limit: %s", line);
        } else if (sscanf(line, "E %llu %u", &a, &n) == 2) {
            item_note *item = find(b, a);
            ck_assert_uint_eq(item->ended, 0);
            item->ended = n;
        }
    }
    fclose(file);
}

/* Every item of an acknowledged job is there with an end, a reply wherever one was given, and the
 * end that was acknowledged. */
static uint32_t check_job(rig *r, book *b, const job_note *job)
{
    lac_store_call call = {.kind = LAC_STORE_RESULTS, .id = job->id, .which = LAC_STORE_ENDED};
    lac_status status = rig_do(r, &call);
    ck_assert_msg(status == LAC_OK, "an acknowledged job is lost: %s", call.error.text);
    ck_assert_int_eq(call.jobs[0].view.state, LAC_JOB_COMPLETED);
    ck_assert_uint_eq(call.jobs[0].view.total, job->items);
    ck_assert_uint_eq(call.count, job->items);
    for (uint32_t i = 0; i < call.count; i++) {
        const lac_store_result *result = &call.results[i];
        ck_assert_uint_le(result->attempts, ATTEMPTS);
        bool given_up = result->state == LAC_ITEM_FAILED && result->attempts == ATTEMPTS;
        ck_assert(result->reply.length == 8 || given_up);
        for (size_t k = 0; k < b->items_count; k++)
            if (b->items[k].job == job->id && b->items[k].index == i && b->items[k].ended)
                ck_assert_uint_eq(b->items[k].ended, result->state);
    }
    uint32_t count = call.count;
    lac_store_call_free(&call);
    return count;
}

START_TEST(nothing_is_lost_or_run_too_often)
{
    const char *asked = getenv("LACUNA_KILLS");
    int kills = asked ? atoi(asked) : 20;
    rig r;
    book b = {0};
    lac_rng rng;
    uint64_t seed;
    lac_random_bytes(&seed, sizeof seed);
    printf("seed %llu, %d kills\n", (unsigned long long)seed, kills);
    lac_rng_seed(&rng, seed);
    rig_make(&r, NULL);
    snprintf(notes_path, sizeof notes_path, "%s/notes", r.dir);
    for (int i = 0; i < kills; i++) {
        int status = run_child(&r, lac_rng_next(&rng), 5 + (int)lac_rng_below(&rng, 150));
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                      "the child ended by itself: %x", status);
    }
    ck_assert_int_eq(run_child(&r, lac_rng_next(&rng), 0), 0);
    read_notes(&b);
    ck_assert_uint_gt(b.jobs_count, 0);
    rig_open(&r);
    uint32_t ended = 0;
    for (size_t i = 0; i < b.jobs_count; i++)
        ended += check_job(&r, &b, &b.jobs[i]);
    printf("%zu jobs acknowledged with %u items, all there and ended\n", b.jobs_count, ended);
    rig_free(&r);
    free(b.items);
    free(b.jobs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_crash");
    TCase *tcase = tcase_create("crash");
    tcase_set_timeout(tcase, 3500);
    tcase_add_test(tcase, nothing_is_lost_or_run_too_often);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
