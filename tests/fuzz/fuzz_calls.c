/* How to divide, a zero byte, an answer and where it is cut: the parts are the same as those of the
 * answer in one piece, and the content of an answer without calls is the answer. */
#include <stdlib.h>
#include <string.h>

#include "base/parts.h"
#include "chat/divide.h"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},{\"type\":\"function\",\"function\":"
    "{\"name\":\"get\"}}]";

typedef struct {
    lac_buf text;
    lac_part last;
} shown;

static void show(void *arg, lac_part kind, const char *text, size_t length)
{
    shown *s = arg;
    if (kind != s->last || kind == LAC_PART_CALL)
        lac_buf_printf(&s->text, "\1%c", kind);
    s->last = kind;
    lac_buf_add(&s->text, text, length);
}

static void divide(const lac_divide_options *options, const char *text, size_t length, size_t step,
                   shown *out)
{
    lac_divider *divider = lac_divider_create(options);
    lac_parts_reader reader = {0};
    lac_buf parts = {0};
    for (size_t at = 0; at < length; at += step) {
        size_t size = step < length - at ? step : length - at;
        lac_divider_add(divider, text + at, size, &parts);
    }
    lac_divider_end(divider, &parts);
    lac_parts_read(&reader, parts.data ? parts.data : "", parts.length, show, out);
    lac_buf_free(&parts);
    lac_divider_destroy(&divider);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lac_error err;
    lac_tools *tools = NULL;
    if (size < 2 || lac_tools_create(tools_json, sizeof tools_json - 1, &tools, &err) != LAC_OK)
        return 0;
    lac_divide_options options = {.form = (lac_calls_form)(data[0] % 4),
                                  .tools = tools,
                                  .called = data[0] & 4,
                                  .one_call = data[0] & 8,
                                  .thinks = (lac_thinks)(data[0] / 16 % 3)};
    const char *text = (const char *)data + 2;
    size_t length = size - 2;
    options.called = options.called && options.form != LAC_CALLS_NONE;
    shown whole = {0}, cut = {0};
    divide(&options, text, length, length + 1, &whole);
    divide(&options, text, length, 1 + data[1] % 7, &cut);
    if (whole.text.length != cut.text.length ||
        memcmp(whole.text.data ? whole.text.data : "", cut.text.data ? cut.text.data : "",
               cut.text.length) != 0)
        abort();
    bool plain = options.form == LAC_CALLS_NONE && options.thinks == LAC_THINKS_NOT && length > 0;
    if (plain &&
        (whole.text.length != length + 2 || memcmp(whole.text.data + 2, text, length) != 0))
        abort();
    lac_buf_free(&whole.text);
    lac_buf_free(&cut.text);
    lac_tools_destroy(&tools);
    return 0;
}
