// SPDX-License-Identifier: MIT
// The frames are those of handlers of the kernel's own making (arch/arm64: struct rt_sigframe), so that the thread finds back to
// its work by itself should we be killed while it is in dlopen. As the kernel reads only the records that are in one, the next
// begins where they end.
//
// SVE registers are in a record of their own, which the kernel takes at the thread's own vector length alone. What a thread has in
// streaming mode or in ZA (SME) has no record here: such a thread is not used.
#include "inject/sigreturn_frame.h"

#include "target/process/stop/aarch64.h"

#include <string.h>
#include <sys/syscall.h>

// Kernel's interface (asm/ucontext.h, asm/sigcontext.h), under names that libc's headers do not take.
struct rt_frame {
    uint8_t siginfo[128];
    uint64_t flags, link;
    uint64_t stack_address;
    uint32_t stack_flags, pad;
    uint64_t stack_size;
    uint64_t mask;
    uint8_t unused[120];
    uint64_t align;
    uint64_t fault_address;
    uint64_t x[31];
    uint64_t sp, pc, pstate;
    uint64_t align_records;
};
_Static_assert(offsetof(struct rt_frame, fault_address) == 304 && sizeof(struct rt_frame) == 592,
               "as the kernel lays it out");
struct record {
    uint32_t magic, size;
};
struct vector_record { // struct fpsimd_context
    struct record head;
    uint32_t fpsr, fpcr;
    uint8_t v[512];
};
struct wide_record { // struct sve_context; Z, P and FFR follow
    struct record head;
    uint16_t vector_bytes, flags, reserved[2];
};
struct extra_record { // struct extra_context, and the end of the records
    struct record head;
    uint64_t data;
    uint32_t size, reserved[3];
    struct record end, end_rest;
};
enum {
    VECTOR_MAGIC = 0x46508001,
    WIDE_MAGIC = 0x53564501,
    EXTRA_MAGIC = 0x45585401,
    EXTRA_SIZE = 32,
    END_SIZE = 16,
    RECORDS = 4096,        // bytes that the frame has for records
    NO_STACK_FLAGS = 0x40, // none that there are: the alternate stack stays as it is
};
static const size_t PLAIN_FRAME = sizeof(struct rt_frame) + sizeof(struct vector_record) + END_SIZE;

// Bytes of Z0 to Z31, P0 to P15 and FFR.
static size_t wide_bytes(uint16_t vector_bytes)
{
    return (size_t)vector_bytes * 32 + (size_t)vector_bytes / 8 * 17;
}

static size_t round_up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static size_t wide_record_size(const struct as_sigreturn_frame_wanted *w)
{
    struct as_sve_head head;
    if (!w->wide)
        return 0;
    memcpy(&head, w->wide, sizeof head);
    return round_up(sizeof(struct wide_record) + wide_bytes(head.vector_bytes));
}

static void put_vectors(uint8_t *at, const struct user_fpsimd_struct *vectors)
{
    struct vector_record record = {.head = {VECTOR_MAGIC, sizeof record}, .fpsr = vectors->fpsr, .fpcr = vectors->fpcr};
    _Static_assert(sizeof record.v == sizeof vectors->vregs, "as the kernel lays it out");
    memcpy(record.v, vectors->vregs, sizeof record.v);
    memcpy(at, &record, sizeof record);
}

static void put_wide(uint8_t *at, const struct as_sigreturn_frame_wanted *w)
{
    struct as_sve_head head;
    memcpy(&head, w->wide, sizeof head);
    struct wide_record record = {
        .head = {WIDE_MAGIC, (uint32_t)wide_record_size(w)},
        .vector_bytes = head.vector_bytes,
    };
    memcpy(at, &record, sizeof record);
    memcpy(at + sizeof record, w->wide + sizeof head, wide_bytes(head.vector_bytes));
}

static struct rt_frame own_frame(const struct as_sigreturn_frame_wanted *w)
{
    struct rt_frame f = {
        .stack_flags = NO_STACK_FLAGS,
        .mask = w->mask,
        .sp = w->regs->sp,
        .pc = w->regs->pc,
        .pstate = w->regs->pstate,
    };
    _Static_assert(sizeof f.x == sizeof w->regs->regs, "as the kernel lays it out");
    memcpy(f.x, w->regs->regs, sizeof f.x);
    return f;
}

// The thread as it sets its errno, and returns to the restorer with the next frame. A frame of another thread's call, or one
// without a thread that waits, could not do it.
static struct rt_frame errno_frame(const struct as_sigreturn_frame_wanted *w, uint64_t next, uint32_t operation)
{
    struct rt_frame f = own_frame(w);
    f.x[AS_CALL] = SYS_futex;
    f.x[0] = f.x[4] = w->errno_at;
    f.x[1] = FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG;
    f.x[2] = f.x[3] = 1; // whom to wake: nobody waits there
    f.x[5] = operation;
    f.x[AS_LR] = w->way->restorer;
    f.sp = next;
    f.pc = w->way->syscall_return;
    f.pstate &= ~(AS_PSTATE_BTYPE | AS_PSTATE_STEP | AS_PSTATE_FLAGS);
    f.mask = UINT64_MAX;
    return f;
}

// The last frame's wide registers: among its records where there is room, else behind them, as the kernel does.
static void put_last_records(uint8_t *records, uint64_t address, const struct as_sigreturn_frame_wanted *w)
{
    size_t size = wide_record_size(w);
    put_vectors(records, w->vectors);
    records += sizeof(struct vector_record);
    address += sizeof(struct vector_record);
    if (size == 0)
        return;
    if (sizeof(struct vector_record) + size + END_SIZE > RECORDS) {
        struct extra_record extra = {
            .head = {EXTRA_MAGIC, EXTRA_SIZE}, .data = address + sizeof extra, .size = (uint32_t)size + END_SIZE};
        _Static_assert(sizeof extra == EXTRA_SIZE + END_SIZE, "as the kernel lays it out");
        memcpy(records, &extra, sizeof extra);
        records += sizeof extra;
    }
    put_wide(records, w);
}

static bool may_be_built(const struct as_sigreturn_frame_wanted *w, struct as_error *err)
{
    if (w->way->restorer == 0 || w->way->syscall_return == 0)
        return as_fail(err, AS_UNSUPPORTED,
                       "it has no vdso, or its libc lacks the code by which the thread would resume by itself if "
                       "arenadump were killed during a call: preload the agent instead (arenascope run)");
    if (!w->wide)
        return true;
    struct as_sve_head head;
    if (w->wide_size < sizeof head)
        return as_fail(err, AS_UNSUPPORTED, "its SVE registers have %zu bytes, which is not a valid size",
                       w->wide_size);
    memcpy(&head, w->wide, sizeof head);
    return (head.vector_bytes % 16 == 0 && head.vector_bytes <= AS_SVE_MOST_VECTOR &&
            w->wide_size >= sizeof head + wide_bytes(head.vector_bytes)) ||
           as_fail(err, AS_UNSUPPORTED, "its SVE registers (%zu bytes, vectors of %u) are larger than supported",
                   w->wide_size, head.vector_bytes);
}

bool as_sigreturn_frame_build(struct as_sigreturn_frame *out, const struct as_sigreturn_frame_wanted *w,
                              struct as_error *err)
{
    uint32_t operations[AS_ERRNO_MOST];
    size_t count = w->errno_at != 0 ? as_errno_operations(w->errno_value, operations) : 0;
    if (!may_be_built(w, err))
        return false;
    size_t last = PLAIN_FRAME + sizeof(struct extra_record) + wide_record_size(w);
    out->size = round_up(count * PLAIN_FRAME + last);
    _Static_assert((AS_ERRNO_MOST + 1) * 1136 + 48 + 16 + 32 * AS_SVE_MOST_VECTOR + 17 * AS_SVE_MOST_VECTOR / 8 + 32 <
                       AS_FRAME_MOST,
                   "the largest fits");
    uint64_t at = w->top - out->size;
    memset(out->bytes, 0, out->size);
    uint8_t *to = out->bytes;
    for (size_t i = 0; i < count; ++i, to += PLAIN_FRAME, at += PLAIN_FRAME) {
        struct rt_frame f = errno_frame(w, at + PLAIN_FRAME, operations[i]);
        memcpy(to, &f, sizeof f);
        put_vectors(to + sizeof f, w->vectors);
    }
    struct rt_frame f = own_frame(w);
    memcpy(to, &f, sizeof f);
    put_last_records(to + sizeof f, at + sizeof f, w);
    return true;
}
