/* The functions of a request as JSON values. Shared inside this folder. */
#ifndef LAC__CHAT_TOOLS_H
#define LAC__CHAT_TOOLS_H

#include <jansson.h>

#include "chat/chat.h"

struct lac_tools {
    json_t *list; /* as it was given */
};

/* The member "function" of one of them. */
const json_t *lac__tools_function(const lac_tools *tools, size_t index);

#endif
