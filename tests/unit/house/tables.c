/* The tables of the house. A new folder, arrow or third party is a line here; that is the point: it
 * does not happen by itself. */
#include "house.h"

const char house_top[] =
    "CMakeLists.txt README.md coordinator worker proto kernels cluster ops tests";
const char house_top_extra[] = "CMakePresets.json LICENSE build";

#define ENGINE_PARTS                                                                               \
    "worker/sched worker/kv worker/model worker/tokenizer worker/grammar worker/sampler "          \
    "worker/spec worker/erasure worker/plan worker/probe"

const house_arrow house_arrows[] = {
    {"proto/base", ""},
    {"proto/schema", ""},
    {"proto/wire", "proto/schema"},
    {"proto/client", "proto/wire"},
    {"coordinator", "coordinator/ cluster/launch cluster/topology proto/wire"},
    {"coordinator/core", ""},
    {"coordinator/frontend", "coordinator/core coordinator/store"},
    {"coordinator/link", "coordinator/core proto/wire"},
    {"coordinator/sight", "coordinator/core"},
    {"coordinator/store", "coordinator/core"},
    {"worker", "worker/ kernels cluster/fabric cluster/topology proto/wire"},
    {"worker/link", "worker/engine worker/chat " ENGINE_PARTS
                    " kernels cluster/fabric cluster/topology proto/wire"},
    {"worker/engine", ENGINE_PARTS " kernels cluster/fabric cluster/topology"},
    {"worker/sched", ""},
    {"worker/kv", ""},
    {"worker/sampler", ""},
    {"worker/erasure", ""},
    {"worker/model", ""},
    {"worker/tokenizer", "worker/model"},
    {"worker/chat", ""},
    {"worker/grammar", "worker/tokenizer"},
    {"worker/spec", "worker/sampler"},
    {"worker/plan", "worker/erasure worker/model worker/probe"},
    {"worker/probe", ""},
    {"worker/calibrate", "worker/engine worker/chat " ENGINE_PARTS " kernels"},
    {"worker/tools", "worker/engine worker/chat worker/calibrate " ENGINE_PARTS
                     " kernels cluster/fabric cluster/topology"},
    {"kernels", ""},
    {"cluster/fabric", ""},
    {"cluster/topology", ""},
    {"cluster/launch", "cluster/topology"},
    {"ops/cli", "proto/client"},
};
const size_t house_arrows_count = sizeof(house_arrows) / sizeof(house_arrows[0]);

const house_door house_doors[] = {
    {"protobuf-c/", "proto/wire/codec proto/schema/"},
    {"zmq", "proto/wire/"},
    {"uv.h", "proto/wire/ proto/client/ coordinator/ worker/link/ cluster/launch/"},
    {"openssl/", "coordinator/frontend/ proto/base/digest.c"},
    {"llhttp.h", "coordinator/frontend/"},
    {"sqlite3", "coordinator/store/"},
    {"pcre2", "worker/tokenizer/"},
    {"jansson.h", "coordinator/frontend/ ops/cli/ worker/chat/ worker/grammar/ worker/tools/ "
                  "worker/plan/ worker/calibrate/ "
                  "cluster/topology/"},
    {"hwloc", "cluster/topology/"},
    {"ucp/", "cluster/fabric/"},
    {"ucs/", "cluster/fabric/"},
    {"uct/", "cluster/fabric/"},
    {"nccl", "cluster/fabric/"},
    {"cuda", "kernels/cuda/ cluster/fabric/nccl"},
    {"cublas", "kernels/cuda/"},
    {"ini.h", "proto/base/config.c"},
    {"curl/", "cluster/launch/ worker/tools/"},
    {"histedit.h", "ops/cli/"},
    {"editline/", "ops/cli/"},
    {"systemd/", "coordinator/ worker/main.c"},
    {"cblas", "worker/calibrate/"},
    {"lapack", "worker/calibrate/"},
};
const size_t house_doors_count = sizeof(house_doors) / sizeof(house_doors[0]);

const house_door house_generated[] = {
    {".pb-c.h", "proto/wire/"},
    {"schema_hash.h", "proto/wire/"},
};
const size_t house_generated_count = sizeof(house_generated) / sizeof(house_generated[0]);
