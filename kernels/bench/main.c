/* lacuna-kernel-bench: each hot kernel alone, beside the memory read bandwidth of the same minute.
 * Nothing here is a claim about a whole step (lacuna-engine bench is). */
#include <stdio.h>

#include "kernels/bench.h"

int main(int argc, char **argv)
{
    lac_isa isa = lac_cpu_isa_best();
    if (argc > 1 && (!lac_isa_parse(argv[1], &isa) || !lac_cpu_isa_have(isa))) {
        fprintf(stderr, "usage: lacuna-kernel-bench [scalar|avx2|avxvnni|avx512]\n");
        return 2;
    }
    lac_cpu_bench(isa == LAC_ISA_AUTO ? lac_cpu_isa_best() : isa);
    return 0;
}
