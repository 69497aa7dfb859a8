/* What was measured part by part against the engine that serves. Internal to worker/calibrate. */
#ifndef LAC_CALIBRATE_SERVED_H
#define LAC_CALIBRATE_SERVED_H

#include "walk.h"

enum { LAC__SERVED_REQUESTS = 8 };

/* Loads the model as a worker does, with the point as a class, scores the first requests under it
 * and in full, and compares the sum of their KL with `kl_sum`, what the certificate has of them.
 * LAC_EINTERNAL when they are not the same within LAC__SERVED_SHARE. */
#define LAC__SERVED_SHARE 0.05
lac_status lac__served_check(lac__run *run, const lac_calibrate_point *point,
                             const lac__window *requests, uint32_t count, double kl_sum,
                             lac_error *err);

#endif
