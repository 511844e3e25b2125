// SPDX-License-Identifier: MIT
// One step up a stack, from a frame to its caller. Internal to unwind/.
#pragma once

#include "unwind/rule.h"
#include "unwind/stack.h"

// The kernel's signal frame at the stack pointer: where the interrupted registers are.
#if defined(__x86_64__)
enum { SAVED_FP = 120, SAVED_THIRD = 128, SAVED_SP = 160, SAVED_PC = 168 }; // ucontext.uc_mcontext.gregs
#elif defined(__aarch64__)
enum { CONTEXT = 128 + 176 + 8 }; // siginfo, ucontext up to uc_mcontext.regs
enum {
    SAVED_FP = CONTEXT + 29 * 8,
    SAVED_THIRD = CONTEXT + 30 * 8,
    SAVED_SP = CONTEXT + 31 * 8,
    SAVED_PC = SAVED_SP + 8
};
#endif

enum { NOWHERE = 1 }; // a register that is unknown: a rule that needs it finds no stack there

struct stack_walk {
    struct as_unwind_registers at;
    uintptr_t low; // what may be read: [low, end)
    uintptr_t end;
    uintptr_t slot; // where `at.pc` was found
    const struct as_unwind_stacks *stacks;
};

static inline bool read_word(const struct stack_walk *walk, uintptr_t address, uintptr_t *value)
{
    if (address < walk->low || address >= walk->end || walk->end - address < sizeof *value ||
        address % sizeof *value != 0)
        return false;
    *value = *(const uintptr_t *)address;
    return true;
}

static inline uintptr_t at_offset(uintptr_t base, int64_t words)
{
    return base + (uintptr_t)words * sizeof(uintptr_t);
}

// A return address as it is in code: without the sign that aarch64's pointer authentication puts into its upper bits.
static inline uintptr_t plain(uintptr_t address)
{
#if defined(__aarch64__)
    register uintptr_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30)); // xpaclri; older processors do nothing
    return x30;
#else
    return address;
#endif
}

// An epilogue that was interrupted has left what it restored right below the stack pointer, where the system keeps it from signals.
// The page of the stack pointer is there; the one below need not be.
static bool is_left_below(const struct stack_walk *walk, uintptr_t address)
{
    enum { KEPT_BELOW = 128, PAGE = 4096 };
    return address < walk->low && walk->low - address <= KEPT_BELOW && address / PAGE == walk->low / PAGE &&
           address % sizeof address == 0;
}

static void saved_register(const struct stack_walk *walk, uintptr_t cfa, int64_t offset, bool by_fp, uintptr_t *value)
{
    if (!by_fp && offset == AS_UNWIND_KEPT)
        return;
    uintptr_t address = at_offset(by_fp ? walk->at.fp : cfa, offset);
    if (offset != AS_UNWIND_LOST && is_left_below(walk, address))
        *value = *(const uintptr_t *)address;
    else if (offset == AS_UNWIND_LOST || !read_word(walk, address, value))
        *value = NOWHERE;
}

static bool move_to(struct stack_walk *walk, struct as_unwind_registers next, uintptr_t slot)
{
    walk->at = next;
    walk->slot = slot;
    return next.pc != 0;
}

// Back to what a signal interrupted, perhaps on another stack.
static bool step_signal(struct stack_walk *walk)
{
    struct as_unwind_registers next = {.exact = true};
    uintptr_t sp = walk->at.sp;
    if (!read_word(walk, sp + SAVED_FP, &next.fp) || !read_word(walk, sp + SAVED_THIRD, &next.third) ||
        !read_word(walk, sp + SAVED_SP, &next.sp) || !read_word(walk, sp + SAVED_PC, &next.pc))
        return false;
    if (next.sp <= sp || next.sp >= walk->end) {
        const struct as_unwind_stacks *stacks = walk->stacks;
        if (next.sp < stacks->interrupted_start || next.sp >= stacks->interrupted_end ||
            walk->end == stacks->interrupted_end)
            return false;
        walk->low = next.sp;
        walk->end = stacks->interrupted_end;
    }
    return move_to(walk, next, sp + SAVED_PC);
}

// aarch64: a trampoline that is in no module (qemu's). The kernel puts a frame record behind its signal frame, which has both saved
// registers again: as a frame pointer it would lead past the interrupted function.
static bool is_signal_frame(const struct stack_walk *walk)
{
#if defined(__aarch64__)
    uintptr_t fp;
    uintptr_t link;
    uintptr_t record[2];
    uintptr_t sp = walk->at.sp;
    return walk->at.fp > sp + SAVED_PC && read_word(walk, sp + SAVED_FP, &fp) &&
           read_word(walk, sp + SAVED_THIRD, &link) && read_word(walk, walk->at.fp, &record[0]) &&
           read_word(walk, walk->at.fp + 8, &record[1]) && record[0] == fp && record[1] == link;
#else
    (void)walk;
    return false;
#endif
}

// Code of which no table speaks, as JIT compilers make it: a frame pointer, if it is one.
static bool step_frame_pointer(struct stack_walk *walk)
{
    uintptr_t fp = walk->at.fp;
    if (is_signal_frame(walk))
        return step_signal(walk);
    struct as_unwind_registers next = {.sp = fp + 2 * sizeof fp, .third = walk->at.third};
    if (fp < walk->at.sp || !read_word(walk, fp, &next.fp) || !read_word(walk, fp + sizeof fp, &next.pc))
        return false;
    next.pc = plain(next.pc);
    return move_to(walk, next, fp + sizeof fp);
}

static bool find_cfa(const struct stack_walk *walk, uint64_t rule, uintptr_t *cfa)
{
    int64_t offset = as_unwind_cfa(rule);
    switch (as_unwind_kind(rule)) {
    case AS_UNWIND_SP:
        *cfa = at_offset(walk->at.sp, offset);
        return true;
    case AS_UNWIND_FP:
        *cfa = at_offset(walk->at.fp, offset);
        return true;
    case AS_UNWIND_THIRD:
        *cfa = at_offset(walk->at.third, offset);
        return true;
    case AS_UNWIND_AT_FP:
        return read_word(walk, at_offset(walk->at.fp, offset), cfa);
    case AS_UNWIND_AT_SP:
        return read_word(walk, at_offset(walk->at.sp, offset), cfa);
    case AS_UNWIND_SPECIAL:
        *cfa = walk->at.sp + ((walk->at.pc & 15) >= (uintptr_t)offset - AS_UNWIND_PLT ? 16 : 8);
        return true;
    default:
        return false;
    }
}

#if defined(__x86_64__)
static bool step_table(struct stack_walk *walk, uint64_t rule)
{
    struct as_unwind_registers next = walk->at;
    next.exact = (rule & AS_UNWIND_EXACT) != 0;
    if (!find_cfa(walk, rule, &next.sp) || next.sp <= walk->at.sp || next.sp > walk->end)
        return false;
    uintptr_t slot = next.sp - sizeof next.pc;
    saved_register(walk, next.sp, as_unwind_fp(rule), rule & AS_UNWIND_FP_BY_FP, &next.fp);
    saved_register(walk, next.sp, as_unwind_third(rule), rule & AS_UNWIND_THIRD_BY_FP, &next.third);
    return read_word(walk, slot, &next.pc) && move_to(walk, next, slot);
}
#elif defined(__aarch64__)
static bool step_table(struct stack_walk *walk, uint64_t rule)
{
    struct as_unwind_registers next = walk->at;
    bool by_fp = rule & AS_UNWIND_THIRD_BY_FP;
    bool kept = as_unwind_third(rule) == AS_UNWIND_KEPT && !by_fp;
    next.exact = (rule & AS_UNWIND_EXACT) != 0;
    // A function that has called has saved x30; one that has not may have no frame at all.
    if ((kept && !walk->at.exact) || !find_cfa(walk, rule, &next.sp) || next.sp > walk->end ||
        (kept ? next.sp < walk->at.sp : next.sp <= walk->at.sp))
        return false;
    uintptr_t slot = kept ? 0 : at_offset(by_fp ? walk->at.fp : next.sp, as_unwind_third(rule));
    saved_register(walk, next.sp, as_unwind_fp(rule), rule & AS_UNWIND_FP_BY_FP, &next.fp);
    if (slot && !read_word(walk, slot, &next.third))
        return false;
    next.third = plain(next.third);
    next.pc = next.third;
    return move_to(walk, next, slot);
}
#endif

// aarch64: the vDSO's trampoline has no entry in .eh_frame since Linux 5.8; unwinders know its two instructions.
static bool is_trampoline(const struct as_unwind_module *module, uintptr_t pc)
{
#if defined(__aarch64__)
    static const uint32_t code[] = {0xd2801168, 0xd4000001}; // mov x8, #139; svc #0
    const uint32_t *at = (const uint32_t *)pc;
    return module->end - pc >= sizeof code && pc % sizeof *at == 0 && at[0] == code[0] && at[1] == code[1];
#else
    (void)module;
    (void)pc;
    return false;
#endif
}

static uint64_t find_rule(const struct as_unwind_modules *modules, const struct as_unwind_registers *at)
{
    uintptr_t address = at->exact ? at->pc : at->pc - 1;
    const struct as_unwind_module *module = as_unwind_module_at(modules, address);
    if (!module)
        return as_unwind_special(AS_UNWIND_UNCOVERED);
    uint64_t rule = as_unwind_table_rule(&module->table, address - module->start);
    if (rule == as_unwind_special(AS_UNWIND_UNCOVERED))
        return as_unwind_special(is_trampoline(module, at->pc) ? AS_UNWIND_SIGNAL : AS_UNWIND_BARE);
    return rule;
}

// Where half of the entries have lost their place, there are twice as many from now on. An entry that is searched for elsewhere is found
// again.
static inline void count_evicted(struct as_unwind_cache *cache)
{
    size_t mask = atomic_load_explicit(&cache->mask, memory_order_relaxed);
    if (mask >= cache->most || atomic_fetch_add_explicit(&cache->evicted, 1, memory_order_relaxed) < mask / 2)
        return;
    atomic_store_explicit(&cache->evicted, 0, memory_order_relaxed);
    atomic_compare_exchange_strong_explicit(&cache->mask, &mask, mask << 1 | 1, memory_order_relaxed,
                                            memory_order_relaxed);
}

// Two threads may write one entry at the same time: the two words are believed where they belong together.
static uint64_t cached_rule(const struct as_unwind_modules *modules, struct as_unwind_cache *cache,
                            const struct as_unwind_registers *at)
{
    if (!cache)
        return find_rule(modules, at);
    uint64_t key = (at->pc << 1 | at->exact) ^ modules->generation * UINT64_C(0x9e3779b97f4a7c15);
    size_t mask = atomic_load_explicit(&cache->mask, memory_order_relaxed);
    struct as_unwind_cached *entry = &cache->entries[((at->pc >> 2) ^ (at->pc >> 13)) & mask];
    uint64_t rule = atomic_load_explicit(&entry->rule, memory_order_relaxed);
    uint64_t check = atomic_load_explicit(&entry->check, memory_order_relaxed);
    if ((check ^ rule) == key)
        return rule;
    if (check != 0)
        count_evicted(cache);
    rule = find_rule(modules, at);
    atomic_store_explicit(&entry->rule, rule, memory_order_relaxed);
    atomic_store_explicit(&entry->check, rule ^ key, memory_order_relaxed);
    return rule;
}

enum step { STEPPED, STUCK, ENDED };

static enum step step(struct stack_walk *walk, uint64_t rule)
{
    int64_t special = as_unwind_kind(rule) == AS_UNWIND_SPECIAL ? as_unwind_cfa(rule) : AS_UNWIND_PLT;
    bool ok = false;
    if (special >= AS_UNWIND_PLT)
        ok = step_table(walk, rule);
    else if (special == AS_UNWIND_SIGNAL)
        ok = step_signal(walk);
    else if (special == AS_UNWIND_END || (special == AS_UNWIND_BARE && walk->at.fp == 0))
        return ENDED; // ld.so's entry has no frame information, and the frame pointer with which a process begins: 0
    else if (special != AS_UNWIND_NONE)
        ok = step_frame_pointer(walk);
    return ok ? STEPPED : STUCK;
}

// What is known of a frame that has been found, as the caller wants to have it.
static inline void put_frame(uintptr_t *pcs, const struct as_unwind_places *places, size_t i, uintptr_t pc,
                             uintptr_t slot, uintptr_t sp)
{
    pcs[i] = pc;
    if (i < places->slot_count)
        places->slots[i] = slot;
    if (places->ends)
        places->ends[i] = sp;
}

// restart_memo.c: as as_unwind_frames(), with a last stack.
size_t as_unwind_again(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache,
                       struct as_unwind_last *last, uintptr_t *pcs, const struct as_unwind_places *places, size_t max,
                       bool *complete);
