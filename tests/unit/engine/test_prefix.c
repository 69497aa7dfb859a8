/* The prefix cache in the engine: the same bits with it and without, whoever shares with whom, also
 * when pages run out; and who never shares. Bits are compared through log-probabilities. */
#include "base/rng.h"
#include "runner.h"

#define MODEL LAC_TINY_DIR "/tiny-llama-q4_1.gguf" /* 3 layers */
enum { BLOCK = LAC_KV_BLOCK, ANSWER = 20, LAYERS = 3, CONTEXT = 256 };

typedef struct {
    uint32_t tokens_count, tokens[CONTEXT];
    uint64_t bits; /* a hash of every log-probability, chosen and top */
    uint32_t cached;
    bool ended;
} answer;

static answer answers[64], others[64];

static void sink(void *arg, const lac_engine_event *event)
{
    answer *a = (answer *)arg + event->id;
    ck_assert(!a->ended);
    for (uint32_t i = 0; i < event->chunk.tokens_count; i++)
        a->tokens[a->tokens_count++] = event->chunk.tokens[i];
    for (uint32_t i = 0; i < event->chunk.logprobs_count; i++)
        a->bits = runner_bits(a->bits, &event->chunk.logprobs[i]);
    a->cached = event->usage.cached_tokens;
    a->ended = event->finish != LAC_FINISH_NONE;
    ck_assert_int_ne(event->finish, LAC_FINISH_ERROR);
}

enum { CLASSES = 4 }; /* beside full */
static lac_engine_class classes[CLASSES];

static lac_engine_options options_of(bool cache)
{
    static const char *const names[CLASSES] = {"one", "same", "two", "later"};
    static const char *const masks[CLASSES] = {"A1", "A1", "A0,F2", "A0,A1,A2"};
    for (uint32_t c = 0; c < CLASSES; c++) {
        classes[c] = (lac_engine_class){.name = names[c]};
        ck_assert_int_eq(lac_mask_parse(masks[c], LAYERS, &classes[c].mask, NULL), LAC_OK);
    }
    classes[3].scope = LAC_SCOPE_DECODE; /* gives back the prompt's pages, but shared ones */
    return (lac_engine_options){.model_path = MODEL,
                                .threads = 1,
                                .slots = 8,
                                .queue_max = 64,
                                .classes = classes,
                                .classes_count = CLASSES,
                                .without_prefix_cache = !cache};
}

typedef struct {
    uint32_t tokens[CONTEXT], count, class_index, max_tokens;
    uint8_t salt;
    float temperature;
} question;

static void text_fill(question *q, uint32_t count, uint32_t seed)
{
    q->count = count;
    for (uint32_t i = 0; i < count; i++)
        q->tokens[i] = 3 + (i * 37 + seed * 101 + i * i * 5) % 270;
}

static question ask_of(uint32_t count, uint32_t seed)
{
    question q = {.max_tokens = ANSWER};
    text_fill(&q, count, seed);
    return q;
}

static void submit(lac_engine *engine, uint64_t id, const question *q)
{
    lac_engine_request request = {.id = id,
                                  .prompt = q->tokens,
                                  .prompt_count = q->count,
                                  .sampling = runner_greedy(q->max_tokens),
                                  .class_index = q->class_index,
                                  .cache_salt = {q->salt}};
    request.sampling.temperature = q->temperature;
    request.sampling.seed = q->count;
    request.sampling.logprobs = true;
    request.sampling.top_logprobs = 5;
    request.sampling.ignore_eos = true;
    lac_error err = {0};
    lac_status status = lac_engine_submit(engine, &request, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
}

static uint32_t cached_of(lac_engine *engine, uint64_t id, const question *q)
{
    memset(&answers[id], 0, sizeof(answers[id]));
    submit(engine, id, q);
    while (lac_engine_step(engine, sink, answers))
        ;
    ck_assert(answers[id].ended);
    return answers[id].cached;
}

static lac_engine_stats stats_of(const lac_engine *engine)
{
    lac_engine_stats stats;
    lac_engine_stats_read(engine, &stats);
    return stats;
}

static void same(const answer *a, const answer *b)
{
    ck_assert_uint_eq(a->tokens_count, b->tokens_count);
    ck_assert_mem_eq(a->tokens, b->tokens, a->tokens_count * sizeof(uint32_t));
    ck_assert_uint_eq(a->bits, b->bits);
}

START_TEST(asked_again_only_the_tail_is_computed)
{
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *engine = runner_engine(&options), *plain = runner_engine(&off);
    static const uint32_t lengths[] = {1, 31, 32, 33, 64, 65, 100, 160};
    for (uint32_t i = 0; i < 8; i++) {
        question q = ask_of(lengths[i], 10 + i);
        ck_assert_uint_eq(cached_of(plain, 2, &q), 0);
        ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
        same(&answers[0], &answers[2]);
        uint64_t rows = stats_of(engine).prompt_tokens;
        /* The last token is always computed: its row gives the first of the answer. */
        uint32_t expected = (lengths[i] - 1) / BLOCK * BLOCK;
        ck_assert_uint_eq(cached_of(engine, 1, &q), expected);
        ck_assert_uint_eq(stats_of(engine).prompt_tokens - rows, lengths[i] - expected);
        same(&answers[1], &answers[2]);
    }
    ck_assert_uint_eq(stats_of(engine).kv_pages_used, 0);
    ck_assert_uint_gt(stats_of(engine).kv_pages_cached, 0);
    ck_assert_uint_eq(stats_of(plain).kv_pages_cached, 0);
    ck_assert_uint_eq(stats_of(plain).cached_tokens, 0);
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(a_conversation_goes_on_from_its_answer)
{
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *engine = runner_engine(&options), *plain = runner_engine(&off);
    question q = ask_of(70, 4);
    q.max_tokens = 60;
    cached_of(engine, 0, &q);
    memcpy(q.tokens + 70, answers[0].tokens, 60 * sizeof(uint32_t));
    q.count = 150;
    for (uint32_t i = 130; i < 150; i++)
        q.tokens[i] = i;
    ck_assert_uint_eq(cached_of(engine, 1, &q), 128);
    cached_of(plain, 2, &q);
    same(&answers[1], &answers[2]);
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(classes_and_salts_do_not_mix)
{
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *engine = runner_engine(&options), *plain = runner_engine(&off);
    question q = ask_of(100, 4);
    ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
    ck_assert_uint_eq(cached_of(engine, 0, &q), 96);
    q.class_index = 1; /* what leaves A1 out gets nothing that was computed with it */
    ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
    ck_assert_uint_eq(cached_of(engine, 0, &q), 96);
    q.class_index = 2; /* another name for the same mask */
    ck_assert_uint_eq(cached_of(engine, 0, &q), 96);
    q.class_index = 3;
    ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
    q.class_index = 0; /* and full takes nothing that was computed without */
    ck_assert_uint_eq(cached_of(engine, 1, &q), 96);
    cached_of(plain, 2, &q);
    same(&answers[1], &answers[2]);
    q.salt = 1;
    ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
    ck_assert_uint_eq(cached_of(engine, 0, &q), 96);
    q.salt = 2;
    ck_assert_uint_eq(cached_of(engine, 0, &q), 0);
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}
END_TEST

/* Masks only take units away and only for a whole request: keys and values of one that left a unit
 * out never serve one that runs it, in either place of the prompt. */
START_TEST(skip_then_keep_starts_anew)
{
    lac_engine_options options = options_of(true);
    lac_engine *engine = runner_engine(&options);
    question q = ask_of(100, 9);
    q.class_index = 3;
    cached_of(engine, 0, &q);
    question on = q;
    on.class_index = 0;
    memcpy(on.tokens + on.count, answers[0].tokens, ANSWER * sizeof(uint32_t));
    on.count += ANSWER;
    uint64_t rows = stats_of(engine).prompt_tokens;
    ck_assert_uint_eq(cached_of(engine, 1, &on), 0);
    ck_assert_uint_eq(stats_of(engine).prompt_tokens - rows, on.count);
    lac_engine_destroy(&engine);
}
END_TEST

START_TEST(requests_at_the_same_time_share)
{
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *engine = runner_engine(&options), *plain = runner_engine(&off);
    question q = ask_of(200, 7);
    memset(answers, 0, sizeof(answers));
    memset(others, 0, sizeof(others));
    for (uint32_t i = 0; i < 8; i++) {
        text_fill(&q, 200, 7);
        q.tokens[180] = 3 + i; /* they differ in the last block alone */
        submit(engine, i, &q);
        submit(plain, i, &q);
    }
    uint64_t most = 0;
    while (lac_engine_step(engine, sink, answers)) {
        uint64_t used = stats_of(engine).kv_pages_used;
        most = used > most ? used : most;
    }
    while (lac_engine_step(plain, sink, others))
        ;
    for (uint32_t i = 0; i < 8; i++)
        same(&answers[i], &others[i]);
    ck_assert_uint_lt(stats_of(engine).prompt_tokens, stats_of(plain).prompt_tokens / 2);
    ck_assert_uint_le(most, LAYERS * (6 + 8 * 2)); /* six blocks in common, two of each */
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}
END_TEST

/* Texts of a few families, so that chains meet, part and meet again; all classes; two salts. */
static question random_question(lac_rng *rng)
{
    question q = {.max_tokens = 1 + (uint32_t)lac_rng_below(rng, 40)};
    q.class_index = (uint32_t)lac_rng_below(rng, CLASSES + 1);
    q.salt = (uint8_t)lac_rng_below(rng, 2);
    q.temperature = lac_rng_below(rng, 2) ? 0.8f : 0.0f;
    uint32_t count = 1 + (uint32_t)lac_rng_below(rng, 190);
    text_fill(&q, count, (uint32_t)lac_rng_below(rng, 2));
    uint32_t fork = (uint32_t)lac_rng_below(rng, 200);
    for (uint32_t i = fork; i < count; i++)
        q.tokens[i] = 3 + (q.tokens[i] + fork) % 200;
    return q;
}

static void under_pressure(uint64_t seed, uint32_t blocks, uint64_t *preemptions, uint64_t *cached)
{
    enum { REQUESTS = 48 };
    static question asked[REQUESTS];
    lac_rng rng;
    lac_rng_seed(&rng, seed);
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *plain = runner_engine(&off);
    options.kv_bytes = stats_of(plain).kv_bytes / stats_of(plain).kv_pages * LAYERS * blocks;
    lac_engine *engine = runner_engine(&options);
    memset(answers, 0, sizeof(answers));
    memset(others, 0, sizeof(others));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        asked[i] = random_question(&rng);
        submit(engine, i, &asked[i]);
        for (uint64_t steps = lac_rng_below(&rng, 12); steps > 0; steps--)
            lac_engine_step(engine, sink, answers);
        uint64_t victim = lac_rng_below(&rng, 8 * REQUESTS);
        if (victim < i && lac_engine_cancel(engine, victim) == LAC_OK)
            asked[victim].count = 0;
    }
    for (int steps = 0; lac_engine_step(engine, sink, answers); steps++)
        ck_assert_int_lt(steps, 20000);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        if (asked[i].count == 0)
            continue;
        ck_assert(answers[i].ended);
        submit(plain, i, &asked[i]);
        while (lac_engine_step(plain, sink, others))
            ;
        same(&answers[i], &others[i]);
    }
    lac_engine_stats stats = stats_of(engine);
    ck_assert_uint_eq(stats.kv_pages, LAYERS * blocks);
    ck_assert_uint_eq(stats.kv_pages_used, 0);
    ck_assert_uint_le(stats.kv_pages_cached, stats.kv_pages);
    *preemptions += stats.preemptions;
    *cached += stats.cached_tokens;
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}

START_TEST(nothing_changes_when_pages_run_out)
{
    uint64_t preemptions = 0, cached = 0;
    for (uint64_t seed = 1; seed <= 6; seed++)
        under_pressure(seed, 8 + (uint32_t)seed, &preemptions, &cached);
    ck_assert_uint_gt(preemptions, 10);
    ck_assert_uint_gt(cached, 1000);
}
END_TEST

/* The oldest needs a block, and all there is to take is what a narrowed sequence still shares:
 * pages of units that its own next block would not take. */
START_TEST(what_a_narrowed_sequence_shares_comes_back)
{
    lac_engine_options options = options_of(true), off = options_of(false);
    lac_engine *plain = runner_engine(&off);
    options.kv_bytes = stats_of(plain).kv_bytes / stats_of(plain).kv_pages * LAYERS * 6;
    lac_engine *engine = runner_engine(&options);
    question first = ask_of(31, 1), later = ask_of(100, 2);
    first.max_tokens = 100;
    later.max_tokens = 90;
    later.class_index = 4;
    memset(answers, 0, sizeof(answers));
    memset(others, 0, sizeof(others));
    submit(engine, 0, &first);
    submit(engine, 1, &later);
    while (lac_engine_step(engine, sink, answers))
        ;
    ck_assert_uint_gt(stats_of(engine).preemptions, 0);
    submit(plain, 0, &first);
    submit(plain, 1, &later);
    while (lac_engine_step(plain, sink, others))
        ;
    same(&answers[0], &others[0]);
    same(&answers[1], &others[1]);
    lac_engine_destroy(&plain);
    lac_engine_destroy(&engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prefix");
    TCase *tc = tcase_create("prefix");
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, asked_again_only_the_tail_is_computed);
    tcase_add_test(tc, a_conversation_goes_on_from_its_answer);
    tcase_add_test(tc, classes_and_salts_do_not_mix);
    tcase_add_test(tc, skip_then_keep_starts_anew);
    tcase_add_test(tc, requests_at_the_same_time_share);
    tcase_add_test(tc, what_a_narrowed_sequence_shares_comes_back);
    tcase_add_test(tc, nothing_changes_when_pages_run_out);
    suite_add_tcase(suite, tc);
    return runner_main(suite);
}
