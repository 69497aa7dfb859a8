/* How ranks that one process started on this machine find each other: each holds one end of a
 * socket pair, the starter holds the others. Over it go the addresses once, and then a beat from
 * each rank, by which the starter sees one that was stopped. Knows no processes: who starts and
 * ends them is the caller's. */
#ifndef LAC_FABRIC_RENDEZVOUS_H
#define LAC_FABRIC_RENDEZVOUS_H

#include "fabric/fabric.h"

/* ---- the starter's side ---- */

/* Reads one address from each rank and gives all of them to each. LAC_EPEER names a rank that
 * closed its end first, LAC_EDEADLINE one that said nothing, LAC_EPROTO one that sent something
 * else. */
lac_status lac_rendezvous_serve(const int *fds, uint32_t ranks, uint64_t deadline_ns,
                                lac_error *err);

/* Takes what has come from a rank since. LAC_OK: a beat at least; LAC_AGAIN: nothing; LAC_EPEER:
 * its end is closed. Never waits. */
lac_status lac_rendezvous_hear(int fd);

/* ---- a rank's side ---- */

/* Gives the fabric's address away, takes the others' and connects. */
lac_status lac_rendezvous_join(int fd, lac_fabric *fabric, uint64_t deadline_ns, lac_error *err);

/* A thread that beats every LAC_RENDEZVOUS_BEAT_MS until it is stopped. When the starter's end is
 * closed the process exits with status 3 at once: nobody would ever end it. */
typedef struct lac_beat lac_beat;
lac_beat *lac_beat_start(int fd);
void lac_beat_stop(lac_beat **beat);

#endif
