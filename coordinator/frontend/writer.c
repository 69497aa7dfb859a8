/* The table of endpoints' writers, and the one that answers with token ids. Pure. Responses' own is
 * in items.c, chat's and completions' in reply.c. */
#include "writer.h"

#include <string.h>

#include "base/assert.h"
#include "items.h"

/* ---- /tokenize and /detokenize: the text is the whole answer ---- */

static void tokens_whole(const lac__answer *answer, const lac_usage *usage,
                         const lac_run_account *account, lac_buf *out)
{
    const lac_buf *ids = &answer->choices[0].text;
    (void)account;
    lac_buf_printf(out, "{\"count\":%u,\"model\":", usage->prompt_tokens);
    lac_buf_json(out, answer->model, strlen(answer->model));
    lac_buf_text(out, ",\"tokens\":");
    lac_buf_text(out, ids->length ? ids->data : "[]");
    lac_buf_text(out, "}");
}

/* Both names that clients of other servers look for. */
static void text_whole(const lac__answer *answer, const lac_usage *usage,
                       const lac_run_account *account, lac_buf *out)
{
    static const char *const names[] = {"{\"prompt\":", ",\"content\":"};
    const lac_buf *text = &answer->choices[0].text;
    (void)usage, (void)account;
    for (int i = 0; i < 2; i++) {
        lac_buf_text(out, names[i]);
        lac_buf_json(out, text->length ? text->data : "", text->length);
    }
    lac_buf_text(out, "}");
}

/* ---- the table ---- */

static void usage_end(const lac__answer *answer, const lac_usage *usage,
                      const lac_run_account *account, lac_buf *out)
{
    if (answer->include_usage)
        lac__answer_usage(answer, usage, account, out);
}

const lac__writer *lac__writer_of(lac__api_kind kind)
{
    static const lac__writer chat = {.id_prefix = "chatcmpl",
                                     .parts = true,
                                     .whole = lac__answer_whole,
                                     .first = lac__answer_first,
                                     .chunk = lac__answer_chunk,
                                     .last = lac__answer_last,
                                     .end = usage_end};
    static const lac__writer completion = {.id_prefix = "cmpl",
                                           .whole = lac__answer_whole,
                                           .chunk = lac__answer_chunk,
                                           .last = lac__answer_last,
                                           .end = usage_end};
    static const lac__writer tokens = {.id_prefix = "tok", .whole = tokens_whole};
    static const lac__writer text = {.id_prefix = "tok", .whole = text_whole};
    static const lac__writer responses = {.id_prefix = "resp",
                                          .parts = true,
                                          .whole = lac__items_whole,
                                          .first = lac__items_first,
                                          .chunk = lac__items_chunk,
                                          .end = lac__items_end,
                                          .named = true};
    switch (kind) {
    case LAC__API_CHAT: return &chat;
    case LAC__API_COMPLETION: return &completion;
    case LAC__API_TOKENIZE: return &tokens;
    case LAC__API_DETOKENIZE: return &text;
    case LAC__API_RESPONSE: return &responses;
    }
    LAC_ASSERT(!"a kind without a writer");
    return &chat;
}
