/* Certificates: masks of the path on prompts that the search never saw. Internal to
 * worker/calibrate. */
#ifndef LAC_CALIBRATE_CERTIFY_H
#define LAC_CALIBRATE_CERTIFY_H

#include "search.h"

/* Measures the masks near a tier's border on the hold-out, fills their points, and finds for each
 * tier up to the options' the deepest whose upper bound is within it. Without enough documents and
 * requests everything is measured and nothing certified. */
lac_status lac__certify(lac__search *search, lac_calibrate_result *result, lac_error *err);

#endif
