/* Reports: a growing array of items and a chain of blocks for what they point to. Blocks are kept
 * when a report is cleared and never move, so pointers into them hold. One thread at a time. */
#include "link/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum { BLOCK_BYTES = 4096, ITEMS_FIRST = 4 };

typedef struct block {
    struct block *next;
    size_t size, used;
    _Alignas(16) char data[];
} block;

struct lac_report {
    lac_step_item *items;
    size_t count, size;
    block *first, *current;
};

lac_report *lac_report_create(void)
{
    return lac_alloc(1, sizeof(lac_report));
}

void lac_report_destroy(lac_report **report)
{
    if (*report == NULL)
        return;
    for (block *b = (*report)->first, *after; b != NULL; b = after) {
        after = b->next;
        free(b);
    }
    free((*report)->items);
    free(*report);
    *report = NULL;
}

void lac_report_clear(lac_report *report)
{
    report->count = 0;
    for (block *b = report->first; b != NULL; b = b->next)
        b->used = 0;
    report->current = report->first;
}

static block *block_create(size_t need)
{
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    block *b = lac_alloc(1, sizeof(*b) + size);
    b->size = size;
    return b;
}

/* Room for `size` bytes, 16-byte aligned, until the next clear. */
static void *room(lac_report *report, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    block *b = report->current;
    while (b != NULL && b->size - b->used < size && b->next != NULL)
        b = b->next;
    if (b == NULL || b->size - b->used < size) {
        block *fresh = block_create(size);
        if (b != NULL)
            b->next = fresh;
        else
            report->first = fresh;
        b = fresh;
    }
    report->current = b;
    void *p = b->data + b->used;
    b->used += size;
    return p;
}

static const void *copy(lac_report *report, const void *from, size_t size)
{
    return size > 0 ? memcpy(room(report, size), from, size) : NULL;
}

static lac_span copy_span(lac_report *report, lac_span span)
{
    return (lac_span){.data = copy(report, span.data, span.length), .length = span.length};
}

static const lac_logprob *copy_logprobs(lac_report *report, const lac_logprob *from, size_t count)
{
    if (count == 0)
        return NULL;
    lac_logprob *to = room(report, count * sizeof(*to));
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].chosen.text = copy_span(report, from[i].chosen.text);
        if (from[i].top_count == 0) {
            to[i].top = NULL;
            continue;
        }
        lac_top_logprob *top = room(report, from[i].top_count * sizeof(*top));
        for (uint32_t t = 0; t < from[i].top_count; t++) {
            top[t] = from[i].top[t];
            top[t].text = copy_span(report, from[i].top[t].text);
        }
        to[i].top = top;
    }
    return to;
}

void lac_report_add(lac_report *report, const lac_step_item *item)
{
    LAC_ASSERT(report->count < LAC_STEP_ITEMS_MAX);
    if (report->count == report->size) {
        report->size = report->size > 0 ? 2 * report->size : ITEMS_FIRST;
        report->items = lac_realloc(report->items, report->size, sizeof(*report->items));
    }
    lac_step_item *to = &report->items[report->count++];
    *to = *item;
    const lac_chunk *chunk = &item->chunk;
    to->chunk.tokens = copy(report, chunk->tokens, chunk->tokens_count * sizeof(*chunk->tokens));
    to->chunk.text = copy_span(report, chunk->text);
    to->chunk.logprobs = copy_logprobs(report, chunk->logprobs, chunk->logprobs_count);
    if (item->account == NULL)
        return;
    lac_run_account *account = room(report, sizeof(*account));
    *account = *item->account;
    if (account->mask != NULL)
        account->mask = copy(report, account->mask, strlen(account->mask) + 1);
    to->account = account;
}

size_t lac_report_count(const lac_report *report)
{
    return report->count;
}

lac_step_item *lac_report_items(lac_report *report)
{
    return report->items;
}

void lac_report_text(lac_report *report, size_t index, const char *text, size_t length)
{
    LAC_ASSERT(index < report->count);
    lac_span span = {.data = text, .length = (uint32_t)length};
    report->items[index].chunk.text = copy_span(report, span);
}

void lac_report_trim(lac_report *report, size_t count)
{
    LAC_ASSERT(count <= report->count);
    report->count = count;
}
