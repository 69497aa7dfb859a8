/* One step's report on its way from the engine thread to the link: a deep copy of the engine's
 * events in memory that is kept from step to step, so that nothing is allocated per token once it
 * is warm. Belongs to one thread at a time; the ring between them hands it over. */
#ifndef LAC_LINK_REPORT_H
#define LAC_LINK_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/msg.h"

typedef struct lac_report lac_report;

lac_report *lac_report_create(void);
void lac_report_destroy(lac_report **report);
/* Forgets the items, keeps the memory. */
void lac_report_clear(lac_report *report);
/* Copies `item` and all it points to. At most LAC_STEP_ITEMS_MAX items; more is a bug. In the ring
 * `item->request` is the task's id; the link puts the request in when it sends. */
void lac_report_add(lac_report *report, const lac_step_item *item);
size_t lac_report_count(const lac_report *report);
/* The items; they may be changed in place. */
lac_step_item *lac_report_items(lac_report *report);
/* Puts a copy of other text into an item's chunk. */
void lac_report_text(lac_report *report, size_t index, const char *text, size_t length);
/* Cuts the report to its first `count` items. */
void lac_report_trim(lac_report *report, size_t count);

#endif
