/* Judges a unit by facts about its weights. Pure, any thread. */
#ifndef LAC_ERASURE_STATE_H
#define LAC_ERASURE_STATE_H

#include "base/unit.h"

/* ZEROED iff, for finite activations, the branch adds exactly zero to the residual stream:
 *   its post-norm weight is zero; or
 *   its output projection and that bias are zero (a post-norm of zero is zero); or
 *   its pre-norm weight is zero and no bias of the branch is not.
 * A unit the file gives no shape is ERASED. Never judges by small numbers: only by zero. */
lac_unit_state lac_unit_judge(const lac_unit_facts *facts);

const char *lac_unit_state_name(lac_unit_state state); /* "active", "zeroed", "erased" */

#endif
