/* Which instruction sets this processor (and its operating system) can run, and
 * their names. */
#include "cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Not every compiler's own check knows this name. */
static bool have_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool lac__cpu_vex_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

static const char *const names[] = {
    [LAC_ISA_AUTO] = "auto", [LAC_ISA_REFERENCE] = "reference", [LAC_ISA_SCALAR] = "scalar",
    [LAC_ISA_AVX2] = "avx2", [LAC_ISA_AVXVNNI] = "avxvnni",     [LAC_ISA_AVX512] = "avx512"};

bool lac_cpu_isa_have(lac_isa isa)
{
    switch (isa) {
    case LAC_ISA_AUTO:
    case LAC_ISA_REFERENCE:
    case LAC_ISA_SCALAR: return true;
#if defined(__x86_64__)
    case LAC_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && have_f16c();
    case LAC_ISA_AVXVNNI: /* in either encoding */
        return lac_cpu_isa_have(LAC_ISA_AVX512) ||
               (lac_cpu_isa_have(LAC_ISA_AVX2) && lac__cpu_vex_vnni());
    case LAC_ISA_AVX512:
        return lac_cpu_isa_have(LAC_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vnni");
#endif
    default: return false;
    }
}

lac_isa lac_cpu_isa_best(void)
{
    if (lac_cpu_isa_have(LAC_ISA_AVX512))
        return LAC_ISA_AVX512;
    if (lac_cpu_isa_have(LAC_ISA_AVXVNNI))
        return LAC_ISA_AVXVNNI;
    return lac_cpu_isa_have(LAC_ISA_AVX2) ? LAC_ISA_AVX2 : LAC_ISA_SCALAR;
}

const char *lac_isa_name(lac_isa isa)
{
    return (unsigned)isa < sizeof names / sizeof *names ? names[isa] : "?";
}

bool lac_isa_parse(const char *name, lac_isa *out)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (lac_isa)i;
            return true;
        }
    }
    return false;
}
