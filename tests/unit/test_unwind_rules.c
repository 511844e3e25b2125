// SPDX-License-Identifier: MIT
// Frame information as the assembler writes it, and the rules that come of it; then stacks of our making, unwound by these rules.
#include "support/check.h"
#include "unwind/rule.h"
#include "unwind/unwind.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
// Each label has the rule of what stands before it. No instruction is ever run.
__asm__(".pushsection .text\n"
        ".cfi_startproc\n"
        "shape_first: nop\n"
        ".cfi_def_cfa_offset 80\n"
        "shape_sp: nop\n"
        ".cfi_remember_state\n"
        ".cfi_def_cfa_offset 12\n" // not in words
        "shape_odd: nop\n"
        ".cfi_def_cfa_offset 0x3ffff8\n"
        "shape_largest: nop\n"
        ".cfi_def_cfa_offset 0x400000\n"
        "shape_too_large: nop\n"
        ".cfi_def_cfa 10, 0\n"
        "shape_r10: nop\n"
        ".cfi_restore_state\n"
        "shape_again: nop\n"
        ".cfi_offset 6, -16\n"
        ".cfi_offset 3, -24\n"
        ".cfi_def_cfa 6, 16\n"
        "shape_fp: nop\n"
        ".cfi_restore 6\n"
        "shape_restored: nop\n"
        ".cfi_undefined 6\n"
        "shape_lost: nop\n"
        ".cfi_def_cfa 3, 16\n"
        "shape_rbx: nop\n"
        ".cfi_escape 0x10, 6, 2, 0x76, 0\n"       // rbp at rbp + 0
        ".cfi_escape 0x10, 3, 2, 0x76, 0x70\n"    // rbx at rbp - 16
        ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n" // CFA: the word at rbp - 8
        "shape_realigned: nop\n"
        ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n"
        "shape_plt: nop\n"
        ".cfi_escape 0x0f, 3, 0x77, 0xa0, 0x01\n" // rsp + 160: no other expression
        "shape_expression: nop\n"
        ".cfi_escape 0x0f, 2, 0x30, 0x31\n"
        "shape_unknown: nop\n"
        ".cfi_def_cfa 7, 8\n"
        ".cfi_undefined 16\n"
        "shape_end: nop\n"
        ".cfi_endproc\n"
        "shape_next: .cfi_startproc\n"
        ".cfi_def_cfa 10, 0\n"
        "nop\n"
        ".cfi_endproc\n"
        "shape_gap: .skip 16, 0x90\n"
        ".cfi_startproc\n"
        "shape_last: nop\n"
        ".cfi_endproc\n"
        ".popsection\n");
extern const char shape_first[], shape_sp[], shape_odd[], shape_largest[], shape_too_large[], shape_r10[],
    shape_again[], shape_fp[], shape_restored[], shape_lost[], shape_rbx[], shape_realigned[], shape_plt[],
    shape_expression[], shape_unknown[], shape_end[], shape_next[], shape_gap[], shape_last[];

static struct as_unwind_modules *modules;
static uintptr_t pcs[64], slots[64];

static uint64_t rule_at(const char *label)
{
    const struct as_unwind_module *module = as_unwind_module_at(modules, (uintptr_t)label);
    CHECK(module && module->table.head);
    return as_unwind_table_rule(&module->table, (uintptr_t)label - module->start);
}

static void test_rules(void)
{
    const uint64_t none = as_unwind_special(AS_UNWIND_NONE);
    CHECK_EQUAL(rule_at(shape_first), as_unwind_rule(AS_UNWIND_SP, 1, 0, 0));
    CHECK_EQUAL(rule_at(shape_sp), as_unwind_rule(AS_UNWIND_SP, 10, 0, 0));
    CHECK_EQUAL(rule_at(shape_odd), none);
    CHECK_EQUAL(rule_at(shape_largest), as_unwind_rule(AS_UNWIND_SP, AS_UNWIND_CFA_OFFSETS - 1, 0, 0));
    CHECK_EQUAL(rule_at(shape_too_large), none);
    CHECK_EQUAL(rule_at(shape_r10), none);
    CHECK_EQUAL(rule_at(shape_again), as_unwind_rule(AS_UNWIND_SP, 10, 0, 0));
    CHECK_EQUAL(rule_at(shape_fp), as_unwind_rule(AS_UNWIND_FP, 2, -2, -3));
    CHECK_EQUAL(rule_at(shape_restored), as_unwind_rule(AS_UNWIND_FP, 2, AS_UNWIND_KEPT, -3));
    CHECK_EQUAL(rule_at(shape_lost), as_unwind_rule(AS_UNWIND_FP, 2, AS_UNWIND_LOST, -3));
    CHECK_EQUAL(rule_at(shape_rbx), as_unwind_rule(AS_UNWIND_THIRD, 2, AS_UNWIND_LOST, -3));
    CHECK_EQUAL(rule_at(shape_realigned),
                as_unwind_rule(AS_UNWIND_AT_FP, -1, 0, -2) | AS_UNWIND_FP_BY_FP | AS_UNWIND_THIRD_BY_FP);
    CHECK_EQUAL(rule_at(shape_plt), as_unwind_special(AS_UNWIND_PLT + 11));
    CHECK_EQUAL(rule_at(shape_expression),
                as_unwind_rule(AS_UNWIND_SP, 20, 0, -2) | AS_UNWIND_FP_BY_FP | AS_UNWIND_THIRD_BY_FP);
    CHECK_EQUAL(rule_at(shape_unknown), none);
    CHECK_EQUAL(rule_at(shape_end), as_unwind_special(AS_UNWIND_END));
    CHECK_EQUAL(rule_at(shape_next), none);
    CHECK_EQUAL(rule_at(shape_gap), as_unwind_special(AS_UNWIND_UNCOVERED));
    CHECK_EQUAL(rule_at(shape_gap + 15), as_unwind_special(AS_UNWIND_UNCOVERED));
    CHECK_EQUAL(rule_at(shape_last), as_unwind_rule(AS_UNWIND_SP, 1, 0, 0));
}

static size_t unwind(const char *pc, const uintptr_t *sp, const uintptr_t *fp, uintptr_t end, bool exact,
                     bool *complete)
{
    struct as_unwind_registers start = {.pc = (uintptr_t)pc, .sp = (uintptr_t)sp, .fp = (uintptr_t)fp, .exact = exact};
    struct as_unwind_stacks stacks = {.end = end};
    return as_unwind_stack(modules, &start, &stacks, NULL, pcs, slots, 64, complete);
}

static void test_stacks(void)
{
    uintptr_t s[64] = {0};
    uintptr_t end = (uintptr_t)(s + 32);
    bool complete;
    // A call that does not return is the last of its function: the address behind it is another's.
    CHECK(unwind(shape_next, s, s, end, false, &complete) == 0 && complete);
    CHECK(unwind(shape_next, s, s, end, true, &complete) == 0 && !complete);
    // What the CFA is read from must be on the stack.
    s[8] = (uintptr_t)&s[20];
    s[19] = (uintptr_t)shape_next;
    CHECK(unwind(shape_realigned, &s[8], &s[9], end, true, &complete) == 1 && complete &&
          slots[0] == (uintptr_t)&s[19]);
    CHECK(unwind(shape_realigned, &s[16], &s[9], end, true, &complete) == 0 && !complete);
    CHECK(unwind(shape_realigned, &s[8], &s[9], (uintptr_t)&s[19], true, &complete) == 0 && !complete);
    CHECK(unwind(shape_realigned, &s[8], &s[9], (uintptr_t)&s[20] - 1, true, &complete) == 0 && !complete);
    // No frame lies below the one that it called.
    s[21] = (uintptr_t)shape_fp + 1;
    s[20] = (uintptr_t)&s[6];
    s[7] = (uintptr_t)shape_fp + 1;
    s[6] = (uintptr_t)&s[20];
    CHECK(unwind(shape_fp, &s[4], &s[20], end, true, &complete) == 1 && !complete);
    // Nor does one that only a frame pointer tells of.
    s[13] = 0x1001;
    s[6] = (uintptr_t)&s[24];
    s[7] = 0x2001;
    CHECK(unwind(shape_sp, &s[4], &s[6], end, true, &complete) == 1 && !complete && pcs[0] == 0x1001);
    // A code of PLTs: one word more from byte 11 on.
    s[1] = s[2] = (uintptr_t)shape_next;
    bool pushed = ((uintptr_t)shape_plt & 15) >= 11;
    CHECK(unwind(shape_plt, &s[pushed ? 0 : 1], s, end, true, &complete) == 1 && complete);
    // A module's code without frame information: with the frame pointer of a process's begin it is the outermost.
    CHECK(unwind(shape_gap, s, NULL, end, true, &complete) == 0 && complete);
    CHECK(unwind((const char *)0x1001, s, NULL, end, true, &complete) == 0 && !complete);
}

enum { WORDS = 48, ROUNDS = 1000000 };

static uint64_t random_number(void)
{
    static uint64_t state = 4711;
    state = state * UINT64_C(6364136223846793005) + 1;
    return state >> 33;
}

// Behind a call: the rule is that of the instruction before.
static uintptr_t random_code(void)
{
    static const char *const code[] = {shape_first, shape_first, shape_fp,        shape_restored,
                                       shape_lost,  shape_rbx,   shape_realigned, shape_next};
    const char *label = code[random_number() % (sizeof code / sizeof *code)];
    return (uintptr_t)label + (label != shape_next);
}

static uintptr_t random_place(uintptr_t *s, uintptr_t from)
{
    return (uintptr_t)&s[from + random_number() % (WORDS - from)];
}

static uintptr_t random_word(uintptr_t *s, uintptr_t at)
{
    uint64_t random = random_number() % 16;
    return random == 0 ? random_number() : random < 4 ? random_place(s, at) : random_code();
}

// Stacks of which each is the one before but for a word or two: what is taken from the one before is what the whole unwinding finds.
static void test_again(void)
{
    static struct as_unwind_last last;
    static uintptr_t s[WORDS], again[64], slots_again[64];
    struct as_unwind_stacks stacks = {.end = (uintptr_t)(s + WORDS)};
    const struct as_unwind_places places = {.slots = slots_again, .slot_count = 64};
    struct as_unwind_registers start = {0};
    unsigned long whole = 0, longest = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        bool complete, complete_again;
        for (uintptr_t at = 0; i % 64 == 0 && at < WORDS; at++)
            s[at] = random_word(s, at);
        uintptr_t at = random_number() % WORDS;
        s[at] = random_word(s, at);
        if (i % 4 == 0)
            start = (struct as_unwind_registers){.pc = random_code(),
                                                 .sp = (uintptr_t)&s[random_number() % 16],
                                                 .fp = random_place(s, 0),
                                                 .third = random_place(s, 0),
                                                 .exact = i % 32 == 0};
        stacks.end = (uintptr_t)(s + WORDS - (random_number() % 8 == 0));
        size_t most = random_number() % 8 == 0 ? 1 + random_number() % 8 : 64; // it may be cut
        size_t count = as_unwind_stack(modules, &start, &stacks, NULL, pcs, slots, most, &complete);
        size_t found = as_unwind_frames(modules, &start, &stacks, NULL, &last, again, &places, most, &complete_again);
        CHECK(found == count && complete == complete_again && memcmp(again, pcs, count * sizeof *pcs) == 0 &&
              memcmp(slots_again, slots, count * sizeof *slots) == 0);
        whole += complete && count > 3;
        longest = complete && count > longest ? count : longest;
    }
    CHECK(whole > ROUNDS / 500 && longest > 6);
}

int main(void)
{
    modules = as_unwind_modules_load(NULL, NULL);
    CHECK(modules);
    test_rules();
    test_stacks();
    test_again();
    as_unwind_modules_free(modules, NULL);
    return 0;
}
#else
int main(void)
{
    puts("the shapes are those of x86-64");
    return 77; // skipped
}
#endif
