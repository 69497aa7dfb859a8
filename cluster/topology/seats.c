/* Which cores a rank gets. Pure. Must not know a model. */
#include "topology/topology.h"

static uint32_t node_of(const lac_topology *t, uint32_t core)
{
    uint32_t node = 0;
    while (core >= t->nodes[node].cores)
        core -= t->nodes[node++].cores;
    return node;
}

lac_status lac_topology_seats(const lac_topology *t, uint32_t ranks, lac_topology_seat *out,
                              lac_error *err)
{
    uint32_t cores = 0, sitting[LAC_NODES_MAX] = {0};
    for (uint32_t n = 0; n < t->nodes_count; n++)
        cores += t->nodes[n].cores;
    if (ranks < 1 || ranks > LAC_RANKS_MAX)
        return lac_fail(err, LAC_EINVAL, "ranks is %u, allowed 1..%d", ranks, LAC_RANKS_MAX);
    if (cores < ranks)
        return lac_fail(err, LAC_EINVAL, "%u ranks on %u cores, each needs one", ranks, cores);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t first = (uint32_t)((uint64_t)cores * r / ranks);
        uint32_t end = (uint32_t)((uint64_t)cores * (r + 1) / ranks);
        uint32_t node = node_of(t, first);
        out[r] = (lac_topology_seat){.host = t->nodes[node].host,
                                     .node = node,
                                     .core_first = first,
                                     .cores = end - first,
                                     .nodes = node_of(t, end - 1) - node + 1};
        sitting[node]++;
    }
    for (uint32_t r = 0; r < ranks; r++)
        out[r].memory_bytes = t->nodes[out[r].node].memory_bytes / sitting[out[r].node];
    return LAC_OK;
}
