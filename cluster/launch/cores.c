/* Disjoint cores while there are enough. Must not know processes. */
#include "cores.h"

void lac__cores_read(lac__cores *c, uint32_t groups, uint32_t ranks, uint32_t per_group)
{
    cpu_set_t set;
    *c = (lac__cores){.groups = groups, .ranks = ranks, .per_group = per_group};
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            c->allowed[c->allowed_count++] = i;
}

/* What the group at a place has, as a range of `allowed`. */
static void group_range(const lac__cores *c, uint32_t place, uint32_t *first, uint32_t *count)
{
    bool own = c->per_group && (uint64_t)c->groups * c->per_group <= c->allowed_count;
    *first = own ? place * c->per_group : 0;
    *count = own ? c->per_group : c->allowed_count;
}

void lac__cores_of(const lac__cores *c, uint32_t place, uint32_t rank, cpu_set_t *out)
{
    uint32_t first, count, from = 0, to;
    group_range(c, place, &first, &count);
    to = count;
    if (count >= c->ranks) {
        from = (uint32_t)((uint64_t)count * rank / c->ranks);
        to = (uint32_t)((uint64_t)count * (rank + 1) / c->ranks);
    }
    CPU_ZERO(out);
    for (uint32_t i = first + from; i < first + to; i++)
        CPU_SET(c->allowed[i], out);
}

uint32_t lac__cores_threads(const lac__cores *c)
{
    if (c->ranks == 1)
        return c->per_group;
    uint32_t count = c->per_group ? c->per_group : c->allowed_count;
    return count > c->ranks ? count / c->ranks : 1;
}
