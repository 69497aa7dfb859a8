/* A status reply as JSON text: one form for `lacuna status --json`, the live page and whoever reads
 * them. Pure, any thread. */
#ifndef LAC_BASE_STATUS_JSON_H
#define LAC_BASE_STATUS_JSON_H

#include "base/mem.h"
#include "base/msg.h"

/* Appends one object. Figures that nobody knows are null. */
void lac_status_json(const lac_status_reply *reply, lac_buf *out);
/* Appends {"live":true,"ready":…,"well":…,"causes":[{"check":…,"cause":…,"text":…}]}: `well` when
 * every check is in order. Returns it. */
bool lac_health_json(const lac_status_reply *reply, lac_buf *out);

#endif
