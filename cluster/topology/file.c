/* Topology files: JSON,
 *   {"lacuna_topology": 1, "hosts": [{"name": "n0",
 *     "numa": [{"package": 0, "cores": 8, "memory_mb": 65536, "l3_kb": 32768}, …],
 *     "gpus": [{"name": "…", "memory_mb": 81920}, …]}, …]}
 * Every field but gpus, package and l3_kb is needed. Must not know a machine. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "topology/topology.h"

enum { FILE_MAX = 4 << 20, CORES_MAX = 4096 };

/* An integer field of an object; `need`: it must be there. */
static lac_status number(const json_t *object, const char *field, bool need, int64_t low,
                         int64_t high, int64_t *out, lac_error *err)
{
    const json_t *value = json_object_get(object, field);
    if (!value && !need)
        return LAC_OK;
    if (!json_is_integer(value) || json_integer_value(value) < low ||
        json_integer_value(value) > high)
        return lac_fail(err, LAC_EINVAL, "topology: %s is %s, allowed %lld..%lld", field,
                        value ? "out of range or no integer" : "missing", (long long)low,
                        (long long)high);
    *out = json_integer_value(value);
    return LAC_OK;
}

static lac_status name_of(const json_t *object, char out[LAC_NAME_MAX + 1], lac_error *err)
{
    const char *text = json_string_value(json_object_get(object, "name"));
    size_t length = text ? strlen(text) : 0;
    if (length < 1 || length > LAC_NAME_MAX)
        return lac_fail(err, LAC_EINVAL, "topology: name has %zu bytes, allowed 1..%d", length,
                        LAC_NAME_MAX);
    memcpy(out, text, length + 1);
    return LAC_OK;
}

static const int64_t memory_mb_max = INT64_C(1) << 40;

static lac_status node_read(const json_t *object, uint32_t host, lac_topology *out, lac_error *err)
{
    int64_t package = 0, cores = 0, memory = 0, l3 = 0;
    if (out->nodes_count == LAC_NODES_MAX)
        return lac_fail(err, LAC_EINVAL, "topology: more than %d NUMA nodes", LAC_NODES_MAX);
    lac_status status = number(object, "package", false, 0, LAC_NODES_MAX, &package, err);
    if (status == LAC_OK)
        status = number(object, "cores", true, 1, CORES_MAX, &cores, err);
    if (status == LAC_OK)
        status = number(object, "memory_mb", true, 1, memory_mb_max, &memory, err);
    if (status == LAC_OK)
        status = number(object, "l3_kb", false, 0, INT64_C(1) << 40, &l3, err);
    if (status == LAC_OK)
        out->nodes[out->nodes_count++] = (lac_topology_node){.host = host,
                                                             .package = (uint32_t)package,
                                                             .cores = (uint32_t)cores,
                                                             .memory_bytes = (uint64_t)memory << 20,
                                                             .l3_bytes = (uint64_t)l3 << 10};
    return status;
}

static lac_status gpu_read(const json_t *object, uint32_t host, lac_topology *out, lac_error *err)
{
    int64_t memory = 0;
    if (out->gpus_count == LAC_GPUS_MAX)
        return lac_fail(err, LAC_EINVAL, "topology: more than %d GPUs", LAC_GPUS_MAX);
    lac_topology_gpu gpu = {.host = host};
    lac_status status = name_of(object, gpu.name, err);
    if (status == LAC_OK)
        status = number(object, "memory_mb", false, 0, memory_mb_max, &memory, err);
    gpu.memory_bytes = (uint64_t)memory << 20;
    if (status == LAC_OK)
        out->gpus[out->gpus_count++] = gpu;
    return status;
}

static lac_status host_read(const json_t *object, lac_topology *out, lac_error *err)
{
    uint32_t host = out->hosts_count;
    if (host == LAC_HOSTS_MAX)
        return lac_fail(err, LAC_EINVAL, "topology: more than %d hosts", LAC_HOSTS_MAX);
    lac_status status = name_of(object, out->hosts[out->hosts_count++], err);
    const json_t *numa = json_object_get(object, "numa"), *gpus = json_object_get(object, "gpus");
    if (status == LAC_OK && json_array_size(numa) == 0)
        return lac_fail(err, LAC_EINVAL, "topology: host %s has no numa list", out->hosts[host]);
    for (size_t i = 0; i < json_array_size(numa) && status == LAC_OK; i++)
        status = node_read(json_array_get(numa, i), host, out, err);
    for (size_t i = 0; i < json_array_size(gpus) && status == LAC_OK; i++)
        status = gpu_read(json_array_get(gpus, i), host, out, err);
    return status;
}

static lac_status root_read(const json_t *root, lac_topology *out, lac_error *err)
{
    int64_t version = 0;
    lac_status status = number(root, "lacuna_topology", true, 1, INT32_MAX, &version, err);
    if (status != LAC_OK)
        return status;
    if (version != LAC_TOPOLOGY_VERSION)
        return lac_fail(err, LAC_EUNSUPPORTED, "topology: version is %lld, this program reads %d",
                        (long long)version, LAC_TOPOLOGY_VERSION);
    const json_t *hosts = json_object_get(root, "hosts");
    if (json_array_size(hosts) == 0)
        return lac_fail(err, LAC_EINVAL, "topology: hosts is no list of at least one");
    for (size_t i = 0; i < json_array_size(hosts) && status == LAC_OK; i++)
        status = host_read(json_array_get(hosts, i), out, err);
    return status;
}

lac_status lac_topology_parse(const char *text, size_t length, lac_topology *out, lac_error *err)
{
    json_error_t at;
    if (length > FILE_MAX)
        return lac_fail(err, LAC_ETOOBIG, "topology: %zu bytes, allowed %d", length, FILE_MAX);
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &at);
    if (!root)
        return lac_fail(err, LAC_EINVAL, "topology: line %d: %s", at.line, at.text);
    lac_topology *read = lac_alloc(1, sizeof *read);
    lac_status status = root_read(root, read, err);
    if (status == LAC_OK)
        *out = *read;
    free(read);
    json_decref(root);
    return status;
}

void lac_topology_write(const lac_topology *t, lac_buf *out)
{
    lac_buf_printf(out, "{\"lacuna_topology\": %d, \"hosts\": [", LAC_TOPOLOGY_VERSION);
    for (uint32_t h = 0; h < t->hosts_count; h++) {
        lac_buf_text(out, h ? ",\n  {\"name\": " : "\n  {\"name\": ");
        lac_buf_json(out, t->hosts[h], strlen(t->hosts[h]));
        lac_buf_text(out, ", \"numa\": [");
        const char *comma = "";
        for (uint32_t n = 0; n < t->nodes_count; n++) {
            const lac_topology_node *node = &t->nodes[n];
            if (node->host != h)
                continue;
            lac_buf_printf(out,
                           "%s\n    {\"package\": %u, \"cores\": %u, \"memory_mb\": %llu, "
                           "\"l3_kb\": %llu}",
                           comma, node->package, node->cores,
                           (unsigned long long)(node->memory_bytes >> 20),
                           (unsigned long long)(node->l3_bytes >> 10));
            comma = ",";
        }
        lac_buf_text(out, "], \"gpus\": [");
        comma = "";
        for (uint32_t g = 0; g < t->gpus_count; g++) {
            if (t->gpus[g].host != h)
                continue;
            lac_buf_printf(out, "%s\n    {\"name\": ", comma);
            lac_buf_json(out, t->gpus[g].name, strlen(t->gpus[g].name));
            lac_buf_printf(out, ", \"memory_mb\": %llu}",
                           (unsigned long long)(t->gpus[g].memory_bytes >> 20));
            comma = ",";
        }
        lac_buf_text(out, "]}");
    }
    lac_buf_text(out, "]}\n");
}
