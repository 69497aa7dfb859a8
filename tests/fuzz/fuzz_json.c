/* Any bytes as a request body: either a request that holds every promise of lac_submit, or a
 * problem with a status and a message that is itself good JSON. The first byte chooses the API. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "base/assert.h"
#include "base/text.h"

static void check_text(lac_span span)
{
    LAC_ASSERT(span.length <= LAC_PROMPT_BYTES_MAX);
    LAC_ASSERT(span.length == 0 || lac_utf8_valid(span.data, span.length));
}

static void check_prompt(const lac_prompt *prompt)
{
    switch (prompt->kind) {
    case LAC_PROMPT_CHAT:
        LAC_ASSERT(prompt->messages_count >= 1 && prompt->messages_count <= LAC_MESSAGES_MAX);
        for (uint32_t i = 0; i < prompt->messages_count; i++) {
            LAC_ASSERT(prompt->messages[i].role[0] >= 'a');
            check_text(prompt->messages[i].content);
        }
        break;
    case LAC_PROMPT_TEXT:
        LAC_ASSERT(prompt->text.length > 0);
        check_text(prompt->text);
        break;
    case LAC_PROMPT_IDS:
        LAC_ASSERT(prompt->ids_count >= 1 && prompt->ids_count <= LAC_CONTEXT_MAX);
        for (uint32_t i = 0; i < prompt->ids_count; i++)
            LAC_ASSERT(prompt->ids[i] < LAC_VOCAB_MAX);
        break;
    default: abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    lac__api_request request;
    lac__problem problem = {0};
    static const lac__api_kind kinds[] = {LAC__API_COMPLETION, LAC__API_CHAT, LAC__API_RESPONSE,
                                          LAC__API_TOKENIZE, LAC__API_DETOKENIZE};
    lac__api_kind kind = data[0] < 8 ? kinds[data[0] % 5] : kinds[data[0] & 1];
    if (lac__api_parse(kind, (const char *)data + 1, size - 1, &request, &problem)) {
        LAC_ASSERT(lac_sampling_check(&request.submit.sampling, 0, NULL) == LAC_OK);
        LAC_ASSERT(strlen(request.submit.model) <= LAC_MODEL_NAME_MAX);
        check_prompt(&request.submit.prompt);
        bool chat = kind == LAC__API_CHAT || kind == LAC__API_RESPONSE;
        LAC_ASSERT((request.submit.prompt.kind == LAC_PROMPT_CHAT) == chat ||
                   kind == LAC__API_TOKENIZE);
        lac__api_free(&request);
        return 0;
    }
    LAC_ASSERT(problem.http >= 400 && problem.message[0]);
    lac_buf text = {0};
    lac__problem_json(&problem, &text);
    json_t *json = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    LAC_ASSERT(json_object_get(json_object_get(json, "error"), "message"));
    json_decref(json);
    lac_buf_free(&text);
    return 0;
}
