/* The scheduler of the emulator: fibers, barriers, meetings of lanes, shared memory. One OS thread.
 *
 * A pass runs every thread that can run, in the order of the seed; a thread runs until it waits or
 * ends. When nobody can run and somebody waits, that is a deadlock. A fiber that is left behind by
 * an error is never resumed; its stack is used again. */
#include "emulator.h"

#include <algorithm>
#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

#include "emulate.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace
{

enum { STACK_BYTES = SANITIZED ? 256 << 10 : 64 << 10, WARP = 32, MEETINGS = 4 };

enum state { READY, AT_BARRIER, AT_MEETING, ENDED };

struct meeting {
    unsigned mask, arrived, phase;
    lac_emu_op op;
    unsigned char value[2][WARP][EMU_VALUE]; /* a lane may be in the next one while others read */
};

struct fiber {
    lac_emu_place place;
    unsigned char *stack;
    void *fake; /* the sanitizer's */
    state is;
    const char *file; /* where it waits at a barrier */
    int line;
    lac_emu_op op;
    unsigned number;
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
};

struct shared_piece {
    void *p;
    size_t size;
};

/* The launch that runs. */
struct running {
    const lac_emu_launch *launch;
    const lac_emu_kernel *kernel;
    const void *args;
    char *error;
    bool failed;
    unsigned threads, ended, waiting, votes[2], phase;
    const char *file; /* of the barrier that some wait at */
    int line;
    std::vector<fiber *> ready;
    std::vector<meeting> meetings; /* MEETINGS a warp */
    std::map<const void *, shared_piece> shared;
    unsigned char *dynamic;
    uint64_t random;
};

running *run;
fiber *now;
/* Kept between launches, and never taken down, so that a leak checker still sees them at the end.
 */
std::vector<fiber *> &fibers = *new std::vector<fiber *>;
lac_emu_kernel *kernels;
uint64_t switches;
#if defined(__x86_64__)
void *main_sp;
#else
ucontext_t main_context;
#endif
[[maybe_unused]] void *main_fake; /* of the sanitizer */
[[maybe_unused]] const void *main_bottom;
[[maybe_unused]] size_t main_size;

/* ---- switching ---- */

#if defined(__x86_64__)
extern "C" void lac_emu_jump(void **save, void *load);
/* Saves what a callee must keep, exchanges stacks, restores. */
asm(".text\n"
    ".type lac_emu_jump, @function\n"
    "lac_emu_jump:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
    "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n"
    "    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size lac_emu_jump, .-lac_emu_jump\n");
#endif

void to_fiber(fiber *f)
{
    now = f;
    lac_emu_now = &f->place;
    switches++;
#if SANITIZED
    __sanitizer_start_switch_fiber(&main_fake, f->stack, STACK_BYTES);
#endif
#if defined(__x86_64__)
    lac_emu_jump(&main_sp, f->sp);
#else
    swapcontext(&main_context, &f->context);
#endif
#if SANITIZED
    __sanitizer_finish_switch_fiber(main_fake, NULL, NULL);
#endif
}

void to_scheduler(fiber *f, bool for_good)
{
#if SANITIZED
    __sanitizer_start_switch_fiber(for_good ? NULL : &f->fake, main_bottom, main_size);
#endif
    (void)for_good;
#if defined(__x86_64__)
    lac_emu_jump(&f->sp, main_sp);
#else
    swapcontext(&f->context, &main_context);
#endif
#if SANITIZED
    __sanitizer_finish_switch_fiber(f->fake, &main_bottom, &main_size);
#endif
}

void fiber_main()
{
    fiber *f = now;
#if SANITIZED
    __sanitizer_finish_switch_fiber(NULL, &main_bottom, &main_size);
#endif
    run->kernel->call(run->args);
    f->is = ENDED;
    run->ended++;
    to_scheduler(f, true);
    abort(); /* nobody resumes an ended fiber */
}

void fiber_start(fiber *f)
{
#if SANITIZED
    __asan_unpoison_memory_region(f->stack, STACK_BYTES);
#endif
    f->is = READY;
    f->fake = NULL;
#if defined(__x86_64__)
    void **top = (void **)(f->stack + STACK_BYTES);
    *--top = NULL; /* where fiber_main would return to; keeps the stack aligned */
    *--top = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->sp = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_main, 0);
#endif
}

fiber *fiber_make(unsigned number)
{
    fiber *f = new fiber();
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        abort();
    f->stack = (unsigned char *)stack;
    f->number = number;
    return f;
}

/* ---- order ---- */

uint64_t draw()
{
    run->random += 0x9e3779b97f4a7c15u; /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t z = run->random;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

template <typename T> void put_in_order(std::vector<T> &list)
{
    if (run->launch->seed == 1)
        std::reverse(list.begin(), list.end());
    for (size_t i = list.size(); run->launch->seed > 1 && i > 1; i--)
        std::swap(list[i - 1], list[draw() % i]);
}

/* ---- one block ---- */

const char *op_name(lac_emu_op op)
{
    static const char *const names[] = {"a shuffle", "a vote", "__syncwarp", "mma", "mma"};
    return names[op];
}

void describe_deadlock()
{
    unsigned at_barrier = 0, at_meeting = 0;
    const fiber *barrier = NULL, *lane = NULL;
    for (unsigned i = 0; i < run->threads; i++) {
        if (fibers[i]->is == AT_BARRIER)
            at_barrier++, barrier = fibers[i];
        if (fibers[i]->is == AT_MEETING)
            at_meeting++, lane = fibers[i];
    }
    const uint3 &b = fibers[0]->place.block;
    int used = snprintf(run->error, LAC_EMU_ERROR,
                        "kernel %s, block (%u, %u, %u): deadlock: %u of %u threads ended",
                        run->kernel->name, b.x, b.y, b.z, run->ended, run->threads);
    if (barrier)
        used +=
            snprintf(run->error + used, LAC_EMU_ERROR - (size_t)used,
                     ", %u wait at the barrier %s:%d", at_barrier, barrier->file, barrier->line);
    if (lane && used < LAC_EMU_ERROR)
        snprintf(run->error + used, LAC_EMU_ERROR - (size_t)used,
                 ", %u wait in %s (one of them thread %u)", at_meeting, op_name(lane->op),
                 lane->number);
    run->failed = true;
}

void shared_free()
{
    for (auto &piece : run->shared)
        free(piece.second.p);
    run->shared.clear();
    free(run->dynamic);
    run->dynamic = NULL;
}

void *poisoned(size_t size)
{
    void *p = NULL;
    if (posix_memalign(&p, 16, size ? size : 1) != 0)
        abort();
    memset(p, 0xff, size);
    return p;
}

void block_run(uint3 at)
{
    const lac_emu_launch *l = run->launch;
    std::vector<fiber *> pass;
    run->ended = run->waiting = run->votes[0] = run->votes[1] = 0;
    run->meetings.assign((run->threads + WARP - 1) / WARP * MEETINGS, meeting());
    run->dynamic = (unsigned char *)poisoned(l->shared);
    run->ready.clear();
    for (unsigned i = 0; i < run->threads; i++) {
        fiber *f = fibers[i];
        unsigned x = l->block[0], y = l->block[1];
        f->place = {{i % x, i / x % y, i / x / y},
                    at,
                    {l->block[0], l->block[1], l->block[2]},
                    {l->grid[0], l->grid[1], l->grid[2]}};
        fiber_start(f);
        run->ready.push_back(f);
    }
    while (!run->ready.empty() && !run->failed) {
        pass.swap(run->ready);
        run->ready.clear();
        put_in_order(pass);
        for (size_t i = 0; i < pass.size() && !run->failed; i++)
            to_fiber(pass[i]);
    }
    if (!run->failed && run->ended < run->threads)
        describe_deadlock();
    shared_free();
}

void wake(fiber *f)
{
    f->is = READY;
    run->ready.push_back(f);
}

bool launch_check(const lac_emu_launch *l, const lac_emu_kernel *k, char *error)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (!k)
        snprintf(error, LAC_EMU_ERROR, "there is no kernel %s", l->kernel);
    else if (threads < 1 || threads > k->threads_max || threads % WARP != 0)
        snprintf(error, LAC_EMU_ERROR, "kernel %s: %llu threads, allowed multiples of 32 up to %u",
                 k->name, (unsigned long long)threads, k->threads_max);
    else if (blocks < 1 || l->grid[1] > 65535 || l->grid[2] > 65535)
        snprintf(error, LAC_EMU_ERROR, "kernel %s: a grid of %u x %u x %u", k->name, l->grid[0],
                 l->grid[1], l->grid[2]);
    else if (l->shared > 227u << 10)
        snprintf(error, LAC_EMU_ERROR, "kernel %s: %u bytes of shared memory, allowed %u", k->name,
                 l->shared, 227u << 10);
    else
        return true;
    return false;
}

const lac_emu_kernel *kernel_find(const char *name)
{
    const lac_emu_kernel *k = kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    return k;
}

} // namespace

/* ---- what kernels call ---- */

const lac_emu_place *lac_emu_now;

lac_emu_kernel::lac_emu_kernel(const char *name_, void (*call_)(const void *), size_t bytes,
                               unsigned threads)
    : name(name_), call(call_), args_bytes(bytes), threads_max(threads), next(kernels)
{
    kernels = this;
}

void lac_emu_fail(const char *format, ...)
{
    const lac_emu_place &p = now->place;
    int used = snprintf(run->error, LAC_EMU_ERROR,
                        "kernel %s, block (%u, %u, %u), thread %u: ", run->kernel->name, p.block.x,
                        p.block.y, p.block.z, now->number);
    va_list args;
    va_start(args, format);
    vsnprintf(run->error + used, LAC_EMU_ERROR - (size_t)used, format, args);
    va_end(args);
    run->failed = true;
    to_scheduler(now, true);
    abort();
}

unsigned lac_emu_sync(const char *file, int line, bool vote)
{
    fiber *f = now;
    unsigned phase = run->phase & 1;
    if (run->waiting > 0 && (run->line != line || strcmp(run->file, file) != 0))
        lac_emu_fail("barrier at %s:%d while others wait at %s:%d", file, line, run->file,
                     run->line);
    run->file = file;
    run->line = line;
    run->votes[phase] += vote;
    if (++run->waiting < run->threads) {
        f->is = AT_BARRIER;
        f->file = file;
        f->line = line;
        to_scheduler(f, false);
        return run->votes[phase];
    }
    run->waiting = 0;
    run->phase++;
    run->votes[phase ^ 1] = 0;
    for (unsigned i = 0; i < run->threads; i++)
        if (fibers[i] != f)
            wake(fibers[i]);
    return run->votes[phase];
}

const unsigned char (*lac_emu_meet(lac_emu_op op, unsigned mask, const void *value,
                                   size_t size))[EMU_VALUE]
{
    fiber *f = now;
    unsigned lane = f->number % WARP, warp = f->number / WARP;
    if (!(mask >> lane & 1))
        lac_emu_fail("%s with a mask %08x that leaves out lane %u", op_name(op), mask, lane);
    meeting *m = NULL;
    for (unsigned i = 0; i < MEETINGS && !m; i++) {
        meeting *at = &run->meetings[warp * MEETINGS + i];
        if (at->mask == mask || at->mask == 0)
            m = at;
    }
    if (!m)
        lac_emu_fail("more than %d different masks in a warp", (int)MEETINGS);
    if (m->arrived != 0 && m->op != op)
        lac_emu_fail("lanes of a warp meet in %s and in %s", op_name(op), op_name(m->op));
    m->mask = mask;
    m->op = op;
    m->arrived |= 1u << lane;
    unsigned phase = m->phase & 1;
    if (size > 0)
        memcpy(m->value[phase][lane], value, size);
    if (m->arrived != mask) {
        f->is = AT_MEETING;
        f->op = op;
        to_scheduler(f, false);
        return m->value[phase];
    }
    m->arrived = 0;
    m->phase++;
    for (unsigned i = 0; i < WARP; i++)
        if (i != lane && (mask >> i & 1))
            wake(fibers[warp * WARP + i]);
    return m->value[phase];
}

unsigned lac_emu_lane()
{
    return now->number % WARP;
}

void *lac_emu_shared(const void *place, size_t size)
{
    shared_piece &piece = run->shared[place];
    if (!piece.p)
        piece = {poisoned(size), size};
    return piece.p;
}

unsigned char *lac_emu_dynamic()
{
    return run->dynamic;
}

/* ---- what tests call ---- */

bool lac_emu_run(const lac_emu_launch *launch, const void *args, char error[LAC_EMU_ERROR])
{
    running state = {};
    state.launch = launch;
    state.kernel = kernel_find(launch->kernel);
    if (!launch_check(launch, state.kernel, error))
        return false;
    std::vector<unsigned char> copy((const unsigned char *)args,
                                    (const unsigned char *)args + state.kernel->args_bytes);
    state.args = copy.data();
    state.error = error;
    state.random = launch->seed;
    state.threads = launch->block[0] * launch->block[1] * launch->block[2];
    run = &state;
    while (fibers.size() < state.threads)
        fibers.push_back(fiber_make((unsigned)fibers.size()));
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    std::vector<uint32_t> order(blocks);
    for (uint32_t i = 0; i < blocks; i++)
        order[i] = i;
    put_in_order(order);
    for (uint32_t i = 0; i < blocks && !state.failed; i++)
        block_run({order[i] % launch->grid[0], order[i] / launch->grid[0] % launch->grid[1],
                   order[i] / launch->grid[0] / launch->grid[1]});
    run = NULL;
    return !state.failed;
}

size_t lac_emu_args_bytes(const char *kernel)
{
    const lac_emu_kernel *k = kernel_find(kernel);
    return k ? k->args_bytes : 0;
}

uint64_t lac_emu_switches(void)
{
    return switches;
}
