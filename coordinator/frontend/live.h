/* The live page and the state it shows. Loop thread. */
#ifndef LAC__FRONTEND_LIVE_H
#define LAC__FRONTEND_LIVE_H

#include "parts.h"

/* live.html as it was built in; not NUL-ended. */
extern const unsigned char lac__live_page[];
extern const size_t lac__live_page_size;

/* Is it the page or its state that is asked for, by a client that may see them without a key? That
 * is one of a loopback listener which also says so in Host: a page elsewhere whose name was pointed
 * here does not. */
bool lac__live_open(const lac__conn *conn);

void lac__live_show(lac__conn *conn);   /* the page */
void lac__live_state(lac__conn *conn);  /* what it shows, JSON */
void lac__live_health(lac__conn *conn); /* live, ready, well, and the causes */

#endif
