/* The machines that ranks run on: NUMA nodes with their cores and memory, and GPUs. Found on this
 * machine or read from a file, so that plans can be made for machines that are not here. One thread
 * a topology. */
#ifndef LAC_TOPOLOGY_H
#define LAC_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/status.h"

enum { LAC_TOPOLOGY_VERSION = 1 };

typedef struct {
    uint32_t host, package; /* package counts within the host */
    uint32_t cores;
    uint64_t memory_bytes, l3_bytes; /* l3: of all its caches */
} lac_topology_node;

typedef struct {
    uint32_t host;
    char name[LAC_NAME_MAX + 1];
    uint64_t memory_bytes; /* 0: not known */
} lac_topology_gpu;

/* Nodes and GPUs in order of host. */
typedef struct {
    uint32_t hosts_count, nodes_count, gpus_count;
    char hosts[LAC_HOSTS_MAX][LAC_NAME_MAX + 1];
    lac_topology_node nodes[LAC_NODES_MAX];
    lac_topology_gpu gpus[LAC_GPUS_MAX];
} lac_topology;

/* This machine, as hwloc sees it. LAC_EIO when it cannot. */
lac_status lac_topology_discover(lac_topology *out, lac_error *err);
/* From the text of a topology file. LAC_EINVAL names the field; LAC_EUNSUPPORTED another version.
 */
lac_status lac_topology_parse(const char *text, size_t length, lac_topology *out, lac_error *err);
/* As a topology file. */
void lac_topology_write(const lac_topology *topology, lac_buf *out);

/* Where a rank sits: cores first … first+count−1 in order of host and node over all hosts. */
typedef struct {
    uint32_t host, node; /* of its first core */
    uint32_t core_first, cores;
    uint32_t nodes;        /* NUMA nodes its cores lie on */
    uint64_t memory_bytes; /* its share of its node's memory */
} lac_topology_seat;

/* Shares all cores out over `ranks` in order, as even as can be. LAC_EINVAL when there are fewer
 * cores than ranks. */
lac_status lac_topology_seats(const lac_topology *topology, uint32_t ranks, lac_topology_seat *out,
                              lac_error *err);

#endif
