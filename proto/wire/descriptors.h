/* Which peer of a ROUTER is on which descriptor, so that ZeroMQ's events about descriptors become
 * news about peers. Descriptors are used again: the order of events and first messages says whose
 * one is. Pure, one thread. */
#ifndef LAC_WIRE_DESCRIPTORS_H
#define LAC_WIRE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct lac__descriptors lac__descriptors;

lac__descriptors *lac__descriptors_create(void);
void lac__descriptors_destroy(lac__descriptors **descriptors);
/* A connection was made, or ended, on this descriptor. A descriptor out of range is ignored: its
 * peer is then known to be gone when a send says so. */
void lac__descriptors_opened(lac__descriptors *descriptors, int fd);
void lac__descriptors_closed(lac__descriptors *descriptors, int fd);
/* The first message of this peer came over this descriptor. Call it only after every event that
 * ZeroMQ has told so far was given to the two above: one of them may be the end of this very
 * connection, or of the one that had the descriptor before. */
void lac__descriptors_carries(lac__descriptors *descriptors, int fd, uint64_t peer);
/* The next peer whose connection has ended, in order; false when there is none. A peer that was
 * lost in another way meanwhile may be among them. */
bool lac__descriptors_take_gone(lac__descriptors *descriptors, uint64_t *peer);
bool lac__descriptors_has_gone(const lac__descriptors *descriptors);

#endif
