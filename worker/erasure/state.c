/* The zero rule. Pure; any thread. Must not know tensors, files or kernels. */
#include "erasure/state.h"

#include <stddef.h>

static bool zero_or_absent(lac_zero_fact fact)
{
    return !fact.there || fact.zero;
}

static bool zero(lac_zero_fact fact)
{
    return fact.there && fact.zero;
}

lac_unit_state lac_unit_judge(const lac_unit_facts *facts)
{
    if (!facts->present)
        return LAC_UNIT_ERASED;
    if (zero(facts->post_norm))
        return LAC_UNIT_ZEROED;
    if (!zero_or_absent(facts->output_bias))
        return LAC_UNIT_ACTIVE;
    if (zero(facts->output))
        return LAC_UNIT_ZEROED;
    /* A zero input leaves what the biases make of it. */
    for (size_t i = 0; i < sizeof facts->inner_bias / sizeof facts->inner_bias[0]; i++)
        if (!zero_or_absent(facts->inner_bias[i]))
            return LAC_UNIT_ACTIVE;
    return zero(facts->pre_norm) ? LAC_UNIT_ZEROED : LAC_UNIT_ACTIVE;
}

const char *lac_unit_state_name(lac_unit_state state)
{
    switch (state) {
    case LAC_UNIT_ACTIVE: return "active";
    case LAC_UNIT_ZEROED: return "zeroed";
    case LAC_UNIT_ERASED: return "erased";
    }
    return "unknown";
}
