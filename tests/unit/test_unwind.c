// SPDX-License-Identifier: MIT
// Our own stack: at each instruction of functions of many shapes, our unwinder and libgcc's say the same.
#include "support/check.h"
#include "unwind/rule.h"
#include "unwind/unwind.h"

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

enum { MOST = 20000, FIRST_ENTRIES = 16, ENTRIES = 1024, DEEP = 10000 };

static struct as_unwind_modules *modules;
static struct as_unwind_cache *rules;
static struct as_unwind_stacks stacks;
static uintptr_t thread_end;
static uintptr_t ours[MOST], slots[MOST], ends[MOST], theirs[MOST], their_ends[MOST];
static size_t their_count;
static uintptr_t their_from; // they begin behind the frame with this pc

static _Unwind_Reason_Code take(struct _Unwind_Context *context, void *unused)
{
    (void)unused;
    uintptr_t pc = _Unwind_GetIP(context);
    if (!their_from && pc && their_count < MOST) {
        their_ends[their_count] = _Unwind_GetCFA(context); // with what the function below was called
        theirs[their_count++] = pc;
    }
    if (pc == their_from)
        their_from = 0;
    return _URC_NO_REASON;
}

// How many frames libgcc finds above that one.
static size_t backtrace_from(uintptr_t pc)
{
    their_count = 0;
    their_from = pc;
    _Unwind_Backtrace(take, NULL);
    return their_count;
}

static void show(size_t count, const struct as_unwind_registers *start)
{
    const struct as_unwind_module *module = as_unwind_module_at(modules, start->pc);
    fprintf(stderr, "from %#lx (module + %#lx): ours %zu, theirs %zu\n", start->pc,
            module ? start->pc - module->bias : 0, count, their_count);
    for (size_t i = 0; i < count || i < their_count; i++)
        fprintf(stderr, "  %#lx %#lx\n", i < count ? ours[i] : 0, i < their_count ? theirs[i] : 0);
}

// On aarch64 libgcc says of the kernel's signal frame where the saved registers begin.
static bool is_signal_frame(size_t i)
{
#if defined(__aarch64__)
    return slots[i] - their_ends[i] == offsetof(struct sigcontext, pc);
#else
    (void)i;
    return false;
#endif
}

static void same_as_libgcc(const struct as_unwind_registers *start, struct as_unwind_cache *cache)
{
    bool complete = false;
    size_t count = as_unwind_stack(modules, start, &stacks, cache, ours, slots, MOST, &complete);
    size_t expected = backtrace_from(start->pc);
    bool same = count == expected && memcmp(ours, theirs, count * sizeof *ours) == 0;
    if (!same || !complete)
        show(count, start);
    CHECK(same && complete && count > 0);
    const struct as_unwind_places only_ends = {.ends = ends};
    CHECK(as_unwind_frames(modules, start, &stacks, cache, NULL, ours, &only_ends, MOST, &complete) == count &&
          complete);
    CHECK(memcmp(ours, theirs, count * sizeof *ours) == 0);
    for (size_t i = 0; i < count; i++)
        CHECK(ends[i] == their_ends[i] || (is_signal_frame(i) && ends[i] > slots[i]));
    static struct as_unwind_last last;
    static uintptr_t again[AS_UNWIND_MOST], slots_again[AS_UNWIND_MOST], ends_again[AS_UNWIND_MOST];
    size_t most = AS_UNWIND_MOST - 1, known = count < most ? count : most;
    for (int i = 0; i < 2; i++) { // from what the stack before was, and from itself
        const struct as_unwind_places there = {.slots = slots_again, .slot_count = most, .ends = ends_again};
        size_t found = as_unwind_frames(modules, start, &stacks, cache, &last, again, &there, most, &complete);
        CHECK(found == known && complete == (count <= most) && memcmp(again, ours, found * sizeof *ours) == 0);
        CHECK(memcmp(slots_again, slots, found * sizeof *slots) == 0);
        CHECK(memcmp(ends_again, ends, found * sizeof *ends) == 0);
    }
    for (size_t i = 0; i < count; i++) // the upper bits may be a sign
        CHECK(!slots[i] || *(uintptr_t *)slots[i] << 16 == ours[i] << 16);
}

static __attribute__((noinline)) void here(void)
{
    struct as_unwind_registers start = AS_UNWIND_CALLER();
    same_as_libgcc(&start, NULL);
    same_as_libgcc(&start, rules);
    same_as_libgcc(&start, rules);
}

static __attribute__((noinline)) int deep(int depth) // NOLINT(misc-no-recursion)
{
    if (depth == 0) {
        here();
        return 1;
    }
    int below = deep(depth - 1);
    __asm__ volatile("" ::: "memory"); // else the compiler makes a loop of it
    return below + 1;
}

static __attribute__((noinline)) size_t with_alloca(size_t size)
{
    char *memory = alloca(size);
    memset(memory, 1, size);
    here();
    return (size_t)memory[size - 1];
}

static __attribute__((noinline)) int with_aligned(int value)
{
    _Alignas(64) volatile int aligned[64];
    aligned[value] = value;
    here();
    return aligned[value] + (int)with_alloca((size_t)value * 100);
}

static __attribute__((noinline)) size_t with_large(void)
{
    volatile char large[1 << 20];
    large[5] = 1;
    here();
    return (size_t)large[5];
}

static int compare(const void *a, const void *b)
{
    here(); // called from libc
    return *(const int *)a - *(const int *)b;
}

static void registers_of(struct as_unwind_registers *start, const ucontext_t *context)
{
#if defined(__x86_64__)
    const greg_t *r = context->uc_mcontext.gregs;
    *start = (struct as_unwind_registers){.pc = (uintptr_t)r[REG_RIP],
                                          .sp = (uintptr_t)r[REG_RSP],
                                          .fp = (uintptr_t)r[REG_RBP],
                                          .third = (uintptr_t)r[REG_RBX],
                                          .exact = true};
#else
    const mcontext_t *m = &context->uc_mcontext;
    *start =
        (struct as_unwind_registers){.pc = m->pc, .sp = m->sp, .fp = m->regs[29], .third = m->regs[30], .exact = true};
#endif
}

static void in_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct as_unwind_registers start;
    here(); // through the kernel's frame
    struct as_unwind_stacks now = stacks;
    stacks = (struct as_unwind_stacks){.end = thread_end};
    registers_of(&start, context);
    same_as_libgcc(&start, rules); // from the interrupted code
    stacks = now;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void test_signals(void)
{
    static char memory[1 << 16];
    stack_t alternate = {.ss_sp = memory, .ss_size = sizeof memory};
    handle(SIGUSR1, in_handler, 0);
    raise(SIGUSR1);
    CHECK(sigaltstack(&alternate, NULL) == 0);
    handle(SIGUSR1, in_handler, SA_ONSTACK);
    struct as_unwind_stacks now = stacks;
    stacks = (struct as_unwind_stacks){.end = (uintptr_t)memory + sizeof memory,
                                       .interrupted_start = (uintptr_t)&now - (1 << 16),
                                       .interrupted_end = thread_end};
    raise(SIGUSR1);
    stacks = now;
}

#if defined(__x86_64__)
static volatile unsigned long steps, unread;

// What an epilogue has restored is right below the stack pointer, perhaps on the page below: that one is not read, as it need not be
// there. How often a stack is at such a place is the kernel's choice.
static bool is_at_page_begin(uintptr_t sp)
{
    enum { KEPT_BELOW = 128, PAGE = 4096 };
    return sp % PAGE < KEPT_BELOW;
}

static void in_trap(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct as_unwind_registers start;
    bool complete;
    registers_of(&start, context);
    const struct as_unwind_module *module = as_unwind_module_at(modules, start.pc);
    uint64_t rule = module ? as_unwind_table_rule(&module->table, start.pc - module->start) : 0;
    steps++;
    // What no rule expresses is said to be incomplete. libgcc is wrong in code of ld's and libc's that has no frame information.
    size_t count = as_unwind_stack(modules, &start, &stacks, rules, ours, slots, MOST, &complete);
    if (rule == as_unwind_special(AS_UNWIND_NONE))
        CHECK(count == 0 && !complete);
    else if (!complete && is_at_page_begin(start.sp))
        unread++;
    else if (rule != as_unwind_special(AS_UNWIND_UNCOVERED))
        same_as_libgcc(&start, rules);
}

// With frame information for each instruction, which inline assembly that pushes has not.
void trap_on(void);
void trap_off(void);
__asm__(".macro set_trap name, instruction, flag\n"
        ".type \\name, @function\n"
        "\\name: .cfi_startproc\n"
        "pushfq\n .cfi_adjust_cfa_offset 8\n"
        "\\instruction $\\flag, (%rsp)\n"
        "popfq\n .cfi_adjust_cfa_offset -8\n"
        "ret\n .cfi_endproc\n"
        ".endm\n"
        ".pushsection .text\n"
        "set_trap trap_on, orq, 0x100\n"
        "set_trap trap_off, andq, -0x101\n"
        ".popsection\n");

static __attribute__((noinline)) int shapes(int value)
{
    _Alignas(64) volatile int aligned[16];
    char *memory = alloca((size_t)value);
    aligned[value & 15] = value;
    memory[0] = (char)value;
    // Through PLTs; strtol's and div's first calls through the resolver.
    return aligned[value & 15] + memory[0] + (int)strtol("12", NULL, 10) + div(value, 7).rem + abs(value);
}

static void test_each_instruction(void)
{
    void (*volatile take_away)(void *) = free;
    handle(SIGTRAP, in_trap, 0);
    backtrace_from(1); // libgcc's first call allocates
    trap_on();
    int sum = shapes(20);
    take_away(calloc(3, 1000));
    trap_off();
    handle(SIGTRAP, in_trap, 0);
    CHECK(sum > 0);
    printf("%lu instructions\n", steps);
    CHECK(steps > 200 && unread < 50);
}
#endif

// Code without frame information: the frame pointer leads out of it, if it is one.
static void test_frame_pointers(void)
{
    uintptr_t stack[16] = {[2] = (uintptr_t)&stack[6],   [3] = 0x1003, [6] = (uintptr_t)&stack[1], [7] = 0x1007,
                           [10] = (uintptr_t)&stack[12], [11] = 0x1011};
    struct as_unwind_modules none = {.generation = 1};
    struct as_unwind_registers start = {.pc = 0x1001, .sp = (uintptr_t)stack, .fp = (uintptr_t)&stack[2]};
    struct as_unwind_stacks limits = {.end = (uintptr_t)(stack + 16)};
    bool complete = true;
    CHECK(as_unwind_stack(&none, &start, &limits, NULL, ours, slots, MOST, &complete) == 2 && !complete);
    CHECK(ours[0] == 0x1003 && slots[0] == (uintptr_t)&stack[3] &&
          ours[1] == 0x1007);                // the next is below: no frame pointer
    limits.end = (uintptr_t)(stack + 7) + 4; // half of the second frame is not on the stack
    CHECK(as_unwind_stack(&none, &start, &limits, NULL, ours, NULL, MOST, &complete) == 1 && !complete);
    start.fp++;
    CHECK(as_unwind_stack(&none, &start, &limits, NULL, ours, NULL, MOST, &complete) == 0 && !complete);
    start.fp = (uintptr_t)&stack[2];
    start.sp = (uintptr_t)&stack[3]; // above the frame pointer
    CHECK(as_unwind_stack(&none, &start, &limits, NULL, ours, NULL, MOST, &complete) == 0 && !complete);
    start.fp = 0;
    CHECK(as_unwind_stack(&none, &start, &limits, NULL, ours, NULL, MOST, &complete) == 0 && !complete);
}

static __attribute__((noinline)) void test_limits(void)
{
    struct as_unwind_registers start = AS_UNWIND_CALLER();
    bool complete = false;
    size_t all = as_unwind_stack(modules, &start, &stacks, rules, ours, NULL, MOST, &complete);
    CHECK(all >= 2 && complete);
    CHECK(as_unwind_stack(modules, &start, &stacks, rules, ours, NULL, all, &complete) == all && complete);
    CHECK(as_unwind_stack(modules, &start, &stacks, rules, ours, NULL, all - 1, &complete) == all - 1 && !complete);
    CHECK(as_unwind_stack(modules, &start, &stacks, rules, ours, NULL, 0, &complete) == 0 && !complete);
    struct as_unwind_stacks none = {.end = start.sp};
    CHECK(as_unwind_stack(modules, &start, &none, rules, ours, NULL, MOST, &complete) == 0 && !complete);
}

// A rule of another list is not found in the cache, though code of another module is now at that address.
static __attribute__((noinline)) void test_generations(void)
{
    struct as_unwind_modules *second = as_unwind_modules_load(modules, NULL);
    CHECK(second && second->generation != modules->generation && second->count == modules->count);
    CHECK(second->items[0].table.head == modules->items[0].table.head); // made once
    struct as_unwind_registers start = AS_UNWIND_CALLER();
    bool complete = false;
    size_t all = as_unwind_stack(second, &start, &stacks, rules, ours, NULL, MOST, &complete);
    CHECK(all >= 2 && complete);
    struct as_unwind_modules none = {.generation = 1000};
    as_unwind_stack(&none, &start, &stacks, rules, ours, NULL, MOST, &complete);
    CHECK(!complete);
    as_unwind_modules_free(second, modules);
    CHECK(!as_unwind_modules_stale(modules));
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    void *other = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    CHECK(!other || as_unwind_modules_stale(modules));
    if (other)
        dlclose(other);
    dlclose(library);
}

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *start = NULL;
    size_t size = 0;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    pthread_attr_getstack(&attributes, &start, &size);
    pthread_attr_destroy(&attributes);
    thread_end = (uintptr_t)start + size;
    stacks.end = thread_end;
}

int main(void)
{
    int numbers[] = {3, 1, 2, 5};
    modules = as_unwind_modules_load(NULL, NULL);
    rules = calloc(1, AS_UNWIND_CACHE_BYTES(ENTRIES));
    CHECK(modules && rules && modules->count > 2);
    rules->mask = FIRST_ENTRIES - 1;
    rules->most = ENTRIES - 1;
    find_stack();
    here();
    CHECK(deep(DEEP) == DEEP + 1 && their_count > DEEP);
    CHECK(with_aligned(3) > 0 && with_large() == 1);
    qsort(numbers, sizeof numbers / sizeof *numbers, sizeof *numbers, compare);
    test_signals();
    test_frame_pointers();
    test_limits();
    test_generations();
#if defined(__x86_64__)
    test_each_instruction();
#endif
    CHECK(rules->mask > FIRST_ENTRIES - 1 && rules->mask <= rules->most); // it has grown meanwhile
    as_unwind_modules_free(modules, NULL);
    free(rules);
    return 0;
}
