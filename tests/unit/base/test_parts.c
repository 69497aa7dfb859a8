/* Divided text comes back in its parts however it is cut; prompts are copied with all they have. */
#include <stdlib.h>
#include <string.h>

#include "base/parts.h"
#include "base/prompt.h"
#include "suites.h"

static void collect(void *arg, lac_part kind, const char *text, size_t length)
{
    lac_buf *out = arg;
    static lac_part last;
    if (out->length == 0)
        last = LAC_PART_CONTENT;
    if (kind != last || kind == LAC_PART_CALL)
        lac_buf_printf(out, "|%c:", kind);
    last = kind;
    lac_buf_add(out, text, length);
}

START_TEST(parts_survive_every_cut)
{
    static const char want[] = "a\x10z|r:why\x10\x10|c:b|n:f|a:{}|n:g|a:{1}|c:end";
    lac_parts_writer writer = {0};
    lac_buf text = {0};
    lac_parts_put(&writer, LAC_PART_CONTENT, "a\x10z", 3, &text);
    lac_parts_put(&writer, LAC_PART_REASONING, "why", 3, &text);
    lac_parts_put(&writer, LAC_PART_REASONING, "\x10\x10", 2, &text);
    lac_parts_put(&writer, LAC_PART_REASONING, "", 0, &text);
    lac_parts_put(&writer, LAC_PART_CONTENT, "b", 1, &text);
    lac_parts_call(&writer, "f", 1, &text);
    lac_parts_put(&writer, LAC_PART_ARGUMENTS, "{}", 2, &text);
    lac_parts_call(&writer, "g", 1, &text);
    lac_parts_put(&writer, LAC_PART_ARGUMENTS, "{1}", 3, &text);
    lac_parts_put(&writer, LAC_PART_CONTENT, "end", 3, &text);
    for (size_t cut = 0; cut <= text.length; cut++) {
        lac_parts_reader reader = {0};
        lac_buf got = {0};
        lac_parts_read(&reader, text.data, cut, collect, &got);
        lac_parts_read(&reader, text.data + cut, text.length - cut, collect, &got);
        ck_assert_msg(strcmp(got.data, want) == 0, "cut %zu: %s", cut, got.data);
        lac_buf_free(&got);
    }
    lac_buf_free(&text);
}
END_TEST

START_TEST(strange_streams_are_read)
{
    /* An unknown kind is content; a name is cut at its bound; a call without a name is none. */
    char text[200] = "\x10qx\x10n";
    memset(text + 5, 'n', 100);
    memcpy(text + 105,
           "\x10"
           "a1\x10n\x10"
           "a2\x10",
           10);
    lac_parts_reader reader = {0};
    lac_buf got = {0};
    lac_parts_read(&reader, text, 114, collect, &got);
    ck_assert_uint_eq(reader.marked, true);
    ck_assert_uint_eq(strspn(strchr(got.data, 'n') + 2, "n"), LAC_NAME_MAX);
    ck_assert_ptr_nonnull(strstr(got.data, "|a:12"));
    ck_assert_int_eq(got.data[0], 'x');
    lac_buf_free(&got);
}
END_TEST

START_TEST(prompts_are_copied_whole)
{
    lac_chat_message messages[2] = {
        {.role = "assistant", .content = {"ab", 2}, .reasoning = {"hm", 2}, .calls = {"[1]", 3}},
        {.role = "tool", .content = {NULL, 0}, .call_id = {"id", 2}}};
    uint32_t ids[3] = {1, 2, 3};
    lac_prompt prompt = {.kind = LAC_PROMPT_CHAT,
                         .messages = messages,
                         .messages_count = 2,
                         .ids = ids,
                         .ids_count = 3,
                         .text = {"text", 4},
                         .suffix = {"suf", 3},
                         .tools = {"[]", 2},
                         .tool_required = true};
    ck_assert_uint_eq(lac_prompt_text_bytes(&prompt), 4 + 3 + 2 + 7 + 2);
    uint64_t size = lac_prompt_size(&prompt);
    ck_assert_uint_eq(size % 16, 0);
    char *memory = lac_alloc(size, 1), *cursor = memory;
    lac_prompt copy;
    lac_prompt_copy(&prompt, &cursor, &copy);
    ck_assert_ptr_eq(cursor, memory + size);
    memset(messages, 0, sizeof messages);
    memset(ids, 0, sizeof ids);
    ck_assert(copy.tool_required);
    ck_assert_str_eq(copy.messages[1].role, "tool");
    ck_assert(memcmp(copy.messages[0].calls.data, "[1]", 3) == 0);
    ck_assert(memcmp(copy.messages[0].reasoning.data, "hm", 2) == 0);
    ck_assert(memcmp(copy.messages[1].call_id.data, "id", 2) == 0);
    ck_assert_ptr_null(copy.messages[1].content.data);
    ck_assert_uint_eq(copy.ids[2], 3);
    ck_assert(memcmp(copy.suffix.data, "suf", 3) == 0 && memcmp(copy.tools.data, "[]", 2) == 0);
    free(memory);
}
END_TEST

Suite *suite_parts(void)
{
    Suite *suite = suite_create("parts");
    TCase *tc = tcase_create("parts");
    tcase_add_test(tc, parts_survive_every_cut);
    tcase_add_test(tc, strange_streams_are_read);
    tcase_add_test(tc, prompts_are_copied_whole);
    suite_add_tcase(suite, tc);
    return suite;
}
