// SPDX-License-Identifier: MIT
// The frame is that of a handler of the kernel's own making (arch/x86: struct rt_sigframe), so that the thread finds back to its
// work by itself should we be killed while it is in dlopen.
//
// The vector state in it is not what ptrace gives. ptrace gives room for every feature of the processor; the kernel takes
// back only a state that is no larger than the thread's own, and of a larger one restores x87 and SSE alone, without an error. A
// thread's own state has room for a feature on demand (AMX's tiles) from the thread's first use of it on: not from the time
// when its process was permitted to (ARCH_REQ_XCOMP_PERM), and not in a thread that another one has made since. A feature
// that is in use says so in the state's header, and has its room. One that is not is left out of the frame: the kernel then
// sets it to what it is when not in use.
#include "inject/sigreturn_frame.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>

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
_Static_assert(sizeof(struct rt_context) == 304, "as the kernel lays it out");
struct state_trailer { // struct _fpx_sw_bytes
    uint32_t magic, extended_size;
    uint64_t features;
    uint32_t state_size, pad[7];
};
struct state_header { // struct xstate_header
    uint64_t in_use, compacted, reserved[6];
};
enum {
    STATE_MAGIC = 0x46505853,
    STATE_END_MAGIC = 0x46505845,
    TRAILER = 464, // offset in the state; before, the tracer finds the features there (XCR0)
    HEADER = 512,  // likewise
    LEGACY = HEADER + sizeof(struct state_header),
    LEGACY_FEATURES = 2, // x87 and SSE, of which the places never change
    FEATURES = 64,
    STATE_ALIGNMENT = 64,
    CONTEXT_STATE = 1,     // UC_FP_XSTATE
    CONTEXT_SS = 6,        // UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
    NO_STACK_FLAGS = 0x40, // none that there are: the alternate stack stays as it is
    RESTART_SYSCALL = 219,
    RESTART_NOHAND = 514, // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: 512 to 514
    RESTART_SYS = 512,
    RESTART_BLOCK = 516,
    INSTRUCTION = 2, // bytes of `syscall`
    PLAIN_FLAGS = 0x202,
};

void as_xsave_layout_read(struct as_xsave_layout *out)
{
    enum { LEAF = 0xd, SUPERVISOR = 1, XFD = 4 };
    *out = (struct as_xsave_layout){0};
    for (unsigned i = LEGACY_FEATURES; i < FEATURES - 1; ++i) {
        unsigned size;
        unsigned offset;
        unsigned flags;
        unsigned none;
        if (!__get_cpuid_count(LEAF, i, &size, &offset, &flags, &none) || (flags & SUPERVISOR))
            continue;
        out->size[i] = size;
        out->offset[i] = offset;
        if (flags & XFD)
            out->on_demand |= UINT64_C(1) << i;
    }
}

// The state as the kernel would write it into a frame of this thread's own.
struct own_state {
    uint64_t features, in_use;
    size_t size;
};

static bool find_own_state(const struct as_sigreturn_frame_wanted *w, struct own_state *own, struct as_error *err)
{
    *own = (struct own_state){.size = AS_STATE_FX};
    if (w->state_size == AS_STATE_FX)
        return true;
    if (w->state_size < LEGACY)
        return as_fail(err, AS_UNSUPPORTED, "the processor's state has %zu bytes, which is not a valid XSAVE state",
                       w->state_size);
    memcpy(&own->features, w->state + TRAILER, sizeof own->features);
    memcpy(&own->in_use, w->state + HEADER, sizeof own->in_use);
    own->in_use &= own->features;
    own->features &= ~w->layout->on_demand | own->in_use;
    own->size = LEGACY;
    for (unsigned i = LEGACY_FEATURES; i < FEATURES; ++i) {
        if (!(own->features >> i & 1))
            continue;
        size_t end = (size_t)w->layout->offset[i] + w->layout->size[i];
        if (w->layout->size[i] == 0 || w->layout->offset[i] < LEGACY || end > w->state_size)
            return as_fail(err, AS_UNSUPPORTED,
                           "the place of feature %u's registers in the processor's state (%zu bytes) is unknown (CPUID "
                           "says %u bytes from %u on)",
                           i, w->state_size, w->layout->size[i], w->layout->offset[i]);
        if (own->size < end)
            own->size = end;
    }
    return true;
}

static void put_state(uint8_t *at, const struct as_sigreturn_frame_wanted *w, const struct own_state *own)
{
    const uint32_t end_magic = STATE_END_MAGIC;
    memcpy(at, w->state, own->size);
    if (own->size == AS_STATE_FX)
        return;
    const struct state_header header = {.in_use = own->in_use};
    const struct state_trailer trailer = {
        .magic = STATE_MAGIC,
        .extended_size = (uint32_t)(own->size + sizeof end_magic),
        .features = own->features,
        .state_size = (uint32_t)own->size,
    };
    memcpy(at + TRAILER, &trailer, sizeof trailer);
    memcpy(at + HEADER, &header, sizeof header);
    memcpy(at + own->size, &end_magic, sizeof end_magic);
}

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

// The last context: the thread as it was.
static struct rt_context own_context(const struct as_sigreturn_frame_wanted *w, uint64_t state_at)
{
    const struct user_regs_struct *regs = w->regs;
    struct rt_context c = {
        .flags = CONTEXT_SS | (w->state_size == AS_STATE_FX ? 0 : CONTEXT_STATE),
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
        .mask = w->mask,
    };
    restart(&c, regs);
    return c;
}

// A context before the last: the thread as it makes that call, and returns to the restorer.
static struct rt_context errno_context(const struct as_sigreturn_frame_wanted *w, uint64_t state_at, uint64_t stack,
                                       uint32_t operation)
{
    struct rt_context c = own_context(w, state_at);
    c.rax = SYS_futex;
    c.rdi = w->errno_at;
    c.rsi = FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG;
    c.rdx = 1; // whom to wake, and r10: nobody waits there
    c.r10 = 1;
    c.r8 = w->errno_at;
    c.r9 = operation;
    c.rip = w->way->syscall_return;
    c.rsp = stack;
    c.eflags = PLAIN_FLAGS;
    c.mask = UINT64_MAX;
    return c;
}

bool as_sigreturn_frame_build(struct as_sigreturn_frame *out, const struct as_sigreturn_frame_wanted *w,
                              struct as_error *err)
{
    struct own_state own;
    uint32_t operations[AS_ERRNO_MOST];
    size_t count = w->errno_at != 0 ? as_errno_operations(w->errno_value, operations) : 0;
    if (w->way->pop_argument == 0 || w->way->syscall_return == 0 || w->way->restorer == 0)
        return as_fail(err, AS_UNSUPPORTED,
                       "its libc lacks the code by which the thread would resume by itself if arenadump were killed "
                       "during a call: preload the agent instead (arenascope run)");
    if (!find_own_state(w, &own, err))
        return false;
    // As much room above the state as the largest takes: the kernel may want to read it all.
    uint64_t state_at = (w->top - w->state_size - sizeof(uint32_t)) & ~(uint64_t)(STATE_ALIGNMENT - 1);
    const size_t step = sizeof(uint64_t) + sizeof(struct rt_context); // what a return finds: the restorer, a context
    // What the function returns to, with an argument, and the call; it begins with its stack 8 bytes off a multiple of 16.
    const uint64_t first[3] = {w->way->pop_argument, UINT64_MAX, w->way->syscall_return};
    uint64_t begin = ((state_at - (count + 1) * step - sizeof first) & ~UINT64_C(15)) - 8;
    if (w->top - begin > sizeof out->bytes)
        return as_fail(err, AS_UNSUPPORTED, "the processor's state has %zu bytes, more than supported", w->state_size);
    memset(out->bytes, 0, w->top - begin);
    memcpy(out->bytes, first, sizeof first);
    uint64_t at = begin + sizeof first;
    out->stop_stack = at;
    for (size_t i = 0; i <= count; ++i, at += step) {
        struct rt_context c =
            i < count ? errno_context(w, state_at, at + step, operations[i]) : own_context(w, state_at);
        memcpy(out->bytes + (at - begin), &w->way->restorer, sizeof w->way->restorer);
        memcpy(out->bytes + (at - begin) + sizeof w->way->restorer, &c, sizeof c);
    }
    put_state(out->bytes + (state_at - begin), w, &own);
    out->size = w->top - begin;
    return true;
}
