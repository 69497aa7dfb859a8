/* This machine through hwloc. Must not know what is placed on it. */
#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "topology/topology.h"

static uint32_t count_inside(hwloc_topology_t t, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int count = hwloc_get_nbobjs_inside_cpuset_by_type(t, set, type);
    return count > 0 ? (uint32_t)count : 0;
}

static void node_take(hwloc_topology_t t, hwloc_obj_t numa, lac_topology_node *out)
{
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, numa);
    uint32_t cores = count_inside(t, numa->cpuset, HWLOC_OBJ_CORE);
    if (cores == 0) /* some virtual machines hide them */
        cores = count_inside(t, numa->cpuset, HWLOC_OBJ_PU);
    uint64_t l3 = 0;
    for (hwloc_obj_t cache = NULL; (cache = hwloc_get_next_obj_covering_cpuset_by_type(
                                        t, numa->cpuset, HWLOC_OBJ_L3CACHE, cache));)
        l3 += cache->attr->cache.size;
    *out = (lac_topology_node){.package = package ? package->logical_index : 0,
                               .cores = cores,
                               .memory_bytes = numa->attr->numanode.local_memory,
                               .l3_bytes = l3};
}

static void gpus_take(hwloc_topology_t t, lac_topology *out)
{
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(t, pci));) {
        bool gpu = pci->attr->pcidev.class_id >> 8 == 0x03; /* display controllers */
        if (!gpu || out->gpus_count == LAC_GPUS_MAX)
            continue;
        const char *name = hwloc_obj_get_info_by_name(pci, "PCIDevice");
        lac_topology_gpu *at = &out->gpus[out->gpus_count++];
        snprintf(at->name, sizeof at->name, "%s", name ? name : "GPU");
    }
}

lac_status lac_topology_discover(lac_topology *out, lac_error *err)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return lac_fail(err, LAC_EIO, "hwloc does not start");
    if (hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_topology_load(t) != 0) {
        hwloc_topology_destroy(t);
        return lac_fail(err, LAC_EIO, "hwloc cannot read this machine");
    }
    memset(out, 0, sizeof *out);
    out->hosts_count = 1;
    if (gethostname(out->hosts[0], LAC_NAME_MAX) != 0 || !out->hosts[0][0])
        snprintf(out->hosts[0], sizeof out->hosts[0], "this machine");
    for (hwloc_obj_t numa = NULL; (numa = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, numa));)
        if (out->nodes_count < LAC_NODES_MAX && !hwloc_bitmap_iszero(numa->cpuset))
            node_take(t, numa, &out->nodes[out->nodes_count++]);
    gpus_take(t, out);
    hwloc_topology_destroy(t);
    return out->nodes_count > 0 ? LAC_OK : lac_fail(err, LAC_EIO, "hwloc finds no NUMA node");
}
