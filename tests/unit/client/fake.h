/* A coordinator of the client plane alone, for tests: it answers each prompt by a rule its text
 * names.
 *
 *   count N       N messages of one token each ("0 1 2 …"), within the credit given
 *   rude N        the same without regard to credit
 *   gap           tokens that skip a position
 *   wait          accepted, then nothing until cancelled
 *   mute          nothing at all, not even for a cancel
 *   busy, invalid, nobody    refused
 *   params        the answer lists what was asked for
 *   else          "You said: " and the last message
 */
#ifndef TEST_CLIENT_FAKE_H
#define TEST_CLIENT_FAKE_H

#include <stdint.h>

typedef struct fake fake;

/* Listens and serves in a thread of its own. Fails the test (or exits) when it cannot. */
fake *fake_start(const char *endpoint);
const char *fake_endpoint(const fake *f);
void fake_stop(fake **f);

/* Seen so far; any thread. */
typedef struct {
    uint64_t submits, cancels, credits, credit_messages, queries;
    uint64_t open; /* requests neither answered nor cancelled */
} fake_counts;
fake_counts fake_seen(fake *f);

#endif
