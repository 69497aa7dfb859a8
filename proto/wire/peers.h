/* Who is behind a ROUTER: generated routing ids ⇄ numbers that are never used twice. Bounded: a
 * table that is full gives up the peer heard from longest ago. Pure, one thread. */
#ifndef LAC_WIRE_PEERS_H
#define LAC_WIRE_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lac__peers lac__peers;

typedef struct {
    uint8_t length;
    uint8_t bytes[255]; /* ZeroMQ's own limit; ids the router makes have 5 */
} lac__peer_id;

lac__peers *lac__peers_create(size_t max);
void lac__peers_destroy(lac__peers **peers);
/* The number of the connection with this routing id, given one if it is new; marks it as heard. */
uint64_t lac__peers_number(lac__peers *peers, const void *id, size_t length);
/* NULL when the number is unknown or lost. */
const lac__peer_id *lac__peers_id(const lac__peers *peers, uint64_t number);
/* Forgets the number and remembers to tell. No-op on an unknown one. */
void lac__peers_lose(lac__peers *peers, uint64_t number);
bool lac__peers_has_lost(const lac__peers *peers);
/* The next lost number to tell, in order; false when there is none. */
bool lac__peers_take_lost(lac__peers *peers, uint64_t *number);
size_t lac__peers_count(const lac__peers *peers);

#endif
