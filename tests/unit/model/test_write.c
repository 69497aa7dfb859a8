/* The GGUF writer: what it copies is the same model; arrays grow; failures leave nothing. And
 * bounds of tensors, type by type. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/gguf_write.h"
#include "model/model.h"

static char path[64];

static void make_path(void)
{
    strcpy(path, "/tmp/lacuna-test-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static lac_model *open_model(const char *file)
{
    lac_model *model = NULL;
    lac_error err = {0};
    lac_status status = lac_model_open(file, &model, &err);
    ck_assert_msg(status == LAC_OK, "%s", err.text);
    return model;
}

static const char *const files[] = {
    LAC_TINY_DIR "/tiny-llama-f32.gguf",  LAC_TINY_DIR "/tiny-llama-f16.gguf",
    LAC_TINY_DIR "/tiny-llama-q8_0.gguf", LAC_TINY_DIR "/tiny-llama-q4_0.gguf",
    LAC_TINY_DIR "/tiny-llama-q4_1.gguf", LAC_TINY_DIR "/tiny-qwen2-bf16.gguf"};

/* The digest is over metadata, tensor table and the ends of tensors. */
START_TEST(a_copy_is_the_same_model)
{
    make_path();
    lac_model *model = open_model(files[_i]);
    lac_gguf_writer *writer = lac_gguf_writer_create(model->gguf);
    for (size_t i = 0; i < lac_gguf_tensor_count(model->gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(model->gguf, i);
        lac_gguf_writer_tensor(writer, t->name, t, false);
    }
    ck_assert_int_eq(lac_gguf_writer_write(writer, path, NULL), LAC_OK);
    lac_gguf_writer_destroy(&writer);
    lac_model *copy = open_model(path);
    lac_digest a, b;
    lac_model_digest(model, &a);
    lac_model_digest(copy, &b);
    ck_assert_mem_eq(&a, &b, sizeof(a));
    for (size_t i = 0; i < lac_gguf_tensor_count(copy->gguf); i++) {
        const lac_gguf_tensor *t = lac_gguf_tensor_at(copy->gguf, i);
        ck_assert_mem_eq(t->data, lac_gguf_tensor_find(model->gguf, t->name)->data, t->bytes);
    }
    lac_model_close(&copy);
    lac_model_close(&model);
    unlink(path);
}
END_TEST

/* Zero bytes are zero weights of every type, and one weight makes the difference. */
START_TEST(bounds_see_one_weight)
{
    lac_model *model = open_model(files[_i]);
    lac_gguf_tensor t = *model->layers[0].down;
    double bound = lac_gguf_tensor_bound(&t, INFINITY);
    ck_assert(bound > 0.01 && bound < 100);
    ck_assert(lac_gguf_tensor_bound(&t, 0) > 0);
    uint8_t *bytes = calloc(t.bytes, 1);
    t.data = bytes;
    ck_assert(lac_gguf_tensor_bound(&t, 0) == 0);
    const lac_type_info *info = lac_type_get(t.type);
    uint8_t *last = bytes + t.bytes - info->block_bytes;
    last[1] = 0x80; /* −0 where it is a half or a bfloat's sign, the sign of a scale else */
    if (info->block_bytes > 4 || info->block_bytes == 2)
        ck_assert(lac_gguf_tensor_bound(&t, 0) == 0);
    memset(last, 0x3c, info->block_bytes < 4 ? info->block_bytes : 4);
    bound = lac_gguf_tensor_bound(&t, 0);
    ck_assert(bound > 0 && isfinite(bound));
    memset(last, 0xff, info->block_bytes);
    ck_assert(isinf(lac_gguf_tensor_bound(&t, INFINITY)));
    free(bytes);
    lac_model_close(&model);
}
END_TEST

START_TEST(keys_are_set_and_arrays_grow)
{
    make_path();
    lac_gguf *gguf = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_gguf_open(files[0], &gguf, &err), LAC_OK);
    lac_gguf_kind kind;
    size_t count, length;
    ck_assert(lac_gguf_array(gguf, "tokenizer.ggml.token_type", &kind, &count, &err));
    lac_gguf_writer *w = lac_gguf_writer_create(gguf);
    lac_gguf_writer_u32(w, "test.number", 7);
    lac_gguf_writer_u32(w, "test.number", 8);
    lac_gguf_writer_string(w, "general.name", "another");
    ck_assert_int_eq(
        lac_gguf_writer_extend(w, "tokenizer.ggml.token_type", count + 5, count - 2, &err), LAC_OK);
    ck_assert_int_eq(lac_gguf_writer_extend(w, "no.such", 5, 0, &err), LAC_ENOTFOUND);
    ck_assert_int_eq(lac_gguf_writer_extend(w, "tokenizer.ggml.tokens", 1000, 0, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_gguf_writer_extend(w, "test.number", 5, 0, &err), LAC_EINVAL);
    ck_assert_int_eq(lac_gguf_writer_write(w, path, &err), LAC_OK);
    lac_gguf *again = NULL;
    ck_assert_int_eq(lac_gguf_open(path, &again, &err), LAC_OK);
    uint64_t number = 0;
    const char *text;
    ck_assert(lac_gguf_u64(again, "test.number", 0, 100, &number, &err) && number == 8);
    ck_assert(lac_gguf_string(again, "general.name", &text, &length, &err));
    ck_assert(length == 7 && memcmp(text, "another", 7) == 0);
    size_t longer;
    ck_assert(lac_gguf_array(again, "tokenizer.ggml.token_type", &kind, &longer, &err));
    ck_assert_uint_eq(longer, count + 5);
    for (size_t i = 0; i < longer; i++) {
        size_t from = i < count ? i : count - 2 + (i - count) % 2;
        ck_assert(lac_gguf_array_number(again, "tokenizer.ggml.token_type", i) ==
                  lac_gguf_array_number(gguf, "tokenizer.ggml.token_type", from));
    }
    lac_gguf_close(&again);
    lac_gguf_writer_destroy(&w);
    lac_gguf_close(&gguf);
    unlink(path);
}
END_TEST

/* Without a source; keys that get another family; tensors from memory. */
START_TEST(a_file_from_nothing)
{
    make_path();
    static const uint32_t numbers[3] = {7, 0, UINT32_MAX};
    static const uint16_t halves[6] = {0x3c00, 0, 0x4000, 1, 2, 3};
    const lac_gguf_tensor t = {.type = LAC_TYPE_F16,
                               .dims_count = 2,
                               .dims = {3, 2, 1, 1},
                               .elements = 6,
                               .bytes = sizeof halves,
                               .data = halves};
    lac_gguf_writer *w = lac_gguf_writer_create(NULL);
    lac_gguf_writer_u32s(w, "old.list", numbers, 3);
    lac_gguf_writer_u32(w, "older", 1);
    lac_gguf_writer_rename(w, "old.", "brandnew.");
    lac_gguf_writer_tensor(w, "t", &t, false);
    ck_assert_int_eq(lac_gguf_writer_write(w, path, NULL), LAC_OK);
    lac_gguf_writer_destroy(&w);
    lac_gguf *gguf = NULL;
    lac_gguf_kind kind;
    size_t count;
    ck_assert_int_eq(lac_gguf_open(path, &gguf, NULL), LAC_OK);
    ck_assert(lac_gguf_array(gguf, "brandnew.list", &kind, &count, NULL));
    ck_assert(count == 3 && lac_gguf_array_number(gguf, "brandnew.list", 2) == UINT32_MAX);
    ck_assert(!lac_gguf_array(gguf, "old.list", &kind, &count, NULL));
    ck_assert_uint_eq(lac_gguf_key_count(gguf), 2);
    const lac_gguf_tensor *again = lac_gguf_tensor_find(gguf, "t");
    ck_assert(again && again->dims[0] == 3 && again->dims[1] == 2);
    ck_assert_mem_eq(again->data, halves, sizeof halves);
    lac_gguf_close(&gguf);
    unlink(path);
}
END_TEST

START_TEST(a_failure_leaves_nothing)
{
    lac_gguf *gguf = NULL;
    lac_error err = {0};
    ck_assert_int_eq(lac_gguf_open(files[0], &gguf, &err), LAC_OK);
    lac_gguf_writer *w = lac_gguf_writer_create(gguf);
    const lac_gguf_tensor *t = lac_gguf_tensor_at(gguf, 0);
    lac_gguf_writer_tensor(w, "one", t, false);
    ck_assert_int_eq(lac_gguf_writer_write(w, "/tmp/lacuna-no-such/x.gguf", &err), LAC_EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/tmp/lacuna-no-such/x.gguf"));
    lac_gguf_writer_tensor(w, "one", t, false);
    make_path();
    ck_assert_int_eq(lac_gguf_writer_write(w, path, &err), LAC_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "one"));
    unlink(path);
    lac_gguf_writer_destroy(&w);
    lac_gguf_close(&gguf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("write");
    TCase *tc = tcase_create("write");
    tcase_add_loop_test(tc, a_copy_is_the_same_model, 0, 6);
    tcase_add_loop_test(tc, bounds_see_one_weight, 0, 6);
    tcase_add_test(tc, keys_are_set_and_arrays_grow);
    tcase_add_test(tc, a_file_from_nothing);
    tcase_add_test(tc, a_failure_leaves_nothing);
    suite_add_tcase(suite, tc);
    SRunner *all = srunner_create(suite);
    srunner_run_all(all, CK_NORMAL);
    int failed = srunner_ntests_failed(all);
    srunner_free(all);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
