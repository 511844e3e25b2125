// SPDX-License-Identifier: MIT
// The frame is that of a handler of the kernel's own making (arch/x86: struct rt_sigframe), so that the thread finds back to its
// work by itself should we be killed while it is in dlopen.
#include "inject/frame.h"

#if defined(__x86_64__)

#include <string.h>

// Kernel's interface (asm/ucontext.h, asm/sigcontext.h), under names that libc's headers do not take.
struct rt_context {
    uint64_t flags, link;
    uint64_t stack_address;
    uint32_t stack_flags, pad;
    uint64_t stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, cr2, state;
    uint64_t reserved[8];
    uint64_t mask;
};
_Static_assert(sizeof(struct rt_context) == 304, "as the kernel has it");
struct state_trailer { // struct _fpx_sw_bytes
    uint32_t magic, extended_size;
    uint64_t features;
    uint32_t state_size, pad[7];
};
enum {
    STATE_MAGIC = 0x46505853,
    STATE_END_MAGIC = 0x46505845,
    TRAILER = 464, // offset in the state; before, the tracer finds the features there (XCR0)
    STATE_ALIGNMENT = 64,
    CONTEXT_FLAGS = 7,     // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
    NO_STACK_FLAGS = 0x40, // none that there are: the alternate stack stays as it is
    RESTART_SYSCALL = 219,
    RESTART_NOHAND = 514, // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: 512 to 514
    RESTART_SYS = 512,
    RESTART_BLOCK = 516,
    INSTRUCTION = 2, // bytes of `syscall`
};

// As the kernel does before it lets a thread run on: a call that was interrupted is made again.
static void restart(struct rt_context *c, const struct user_regs_struct *regs)
{
    int64_t result = (int64_t)regs->rax;
    if ((int64_t)regs->orig_rax < 0)
        return;
    if (result <= -RESTART_SYS && result >= -RESTART_NOHAND)
        c->rax = regs->orig_rax;
    else if (result == -RESTART_BLOCK)
        c->rax = RESTART_SYSCALL;
    else
        return;
    c->rip -= INSTRUCTION;
}

size_t as_frame_build(uint8_t out[AS_FRAME_MOST], uint64_t top, const struct as_way_back *way,
                      const struct user_regs_struct *regs, const uint8_t *state, size_t state_size, uint64_t mask)
{
    const uint32_t end_magic = STATE_END_MAGIC;
    uint64_t state_at = (top - state_size - sizeof end_magic) & ~(uint64_t)(STATE_ALIGNMENT - 1);
    // Two return addresses, then the context; a function begins with its stack 8 bytes off a multiple of 16.
    uint64_t context_at = ((state_at - sizeof(struct rt_context)) & ~UINT64_C(15)) - 8;
    uint64_t begin = context_at - 2 * sizeof(uint64_t);
    if (state_size < TRAILER + sizeof(struct state_trailer) || top - begin > AS_FRAME_MOST)
        return 0;
    struct rt_context c = {
        .flags = CONTEXT_FLAGS,
        .stack_flags = NO_STACK_FLAGS,
        .r8 = regs->r8,
        .r9 = regs->r9,
        .r10 = regs->r10,
        .r11 = regs->r11,
        .r12 = regs->r12,
        .r13 = regs->r13,
        .r14 = regs->r14,
        .r15 = regs->r15,
        .rdi = regs->rdi,
        .rsi = regs->rsi,
        .rbp = regs->rbp,
        .rbx = regs->rbx,
        .rdx = regs->rdx,
        .rax = regs->rax,
        .rcx = regs->rcx,
        .rsp = regs->rsp,
        .rip = regs->rip,
        .eflags = regs->eflags,
        .cs = (uint16_t)regs->cs,
        .ss = (uint16_t)regs->ss,
        .state = state_at,
        .mask = mask,
    };
    restart(&c, regs);
    struct state_trailer trailer = {
        .magic = STATE_MAGIC,
        .extended_size = (uint32_t)(state_size + sizeof end_magic),
        .state_size = (uint32_t)state_size,
    };
    memcpy(&trailer.features, state + TRAILER, sizeof trailer.features);
    const uint64_t addresses[2] = {way->syscall_return, way->restorer};
    memset(out, 0, top - begin);
    memcpy(out, addresses, sizeof addresses);
    memcpy(out + (context_at - begin), &c, sizeof c);
    memcpy(out + (state_at - begin), state, state_size);
    memcpy(out + (state_at - begin) + TRAILER, &trailer, sizeof trailer);
    memcpy(out + (state_at - begin) + state_size, &end_magic, sizeof end_magic);
    return top - begin;
}

#else
typedef int as_nothing_here; // ISO C wants something
#endif
