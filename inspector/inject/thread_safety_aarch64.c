// SPDX-License-Identifier: MIT
// A signal handler finds the frame that it goes back to where its stack begins, and the restorer's address in its link register. How
// far below the frame the stack pointer is by now, and where the address was put, the handler's own code decides: so the frame is
// known by its first record, which is always that of the V registers, and by the restorer's address somewhere below.
#include "inject/thread_safety_arch.h"

#include "target/process/clone/machine.h"
#include "target/process/stop/aarch64.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { // words of struct rt_sigframe: siginfo, ucontext with flags, link, stack and mask, then sigcontext
    FLAGS = 16,
    LINK = 17,
    X0 = 39,
    X8 = X0 + AS_CALL,
    SP = X0 + 31,
    PC = SP + 1,
    RECORDS = 74,
};
static const uint64_t FIRST_RECORD = (UINT64_C(528) << 32) | 0x46508001; // its size and magic
static const uint8_t RESTORER[] = AS_RESTORER;

static bool is_instruction(struct as_target *t, uint64_t address, uint32_t wanted)
{
    uint32_t code;
    return as_target_read(t, address, &code, sizeof code) && code == wanted;
}

// The kernel's own, in the vdso, or one that the program brought along.
static bool is_restorer(struct as_target *t, const struct as_plan *plan, uint64_t address)
{
    uint8_t bytes[sizeof RESTORER];
    if (address != 0 && address == plan->way.restorer)
        return true;
    return as_is_code(t, address) && as_target_read(t, address, bytes, sizeof bytes) &&
           memcmp(bytes, RESTORER, sizeof bytes) == 0;
}

static struct as_place place_in(struct as_target *t, const uint64_t *frame, uint64_t signature)
{
    struct as_place saved = {.pc = frame[PC], .sp = frame[SP], .signature = signature, .argument = AS_UNKNOWN};
    // Either the call is to be made again, and has its argument still, or it has failed with EINTR.
    if (is_instruction(t, saved.pc, AS_SVC)) {
        saved.waiting = true;
        saved.argument = frame[X0];
    } else {
        saved.waiting = is_instruction(t, saved.pc - AS_SVC_BYTES, AS_SVC);
    }
    saved.on_futex = saved.waiting && frame[X8] == SYS_futex;
    return saved;
}

bool as_find_interrupted(struct as_target *t, const struct as_plan *plan, const struct as_place *at,
                         const uint64_t *words, size_t count, struct as_place *saved)
{
    bool below = is_restorer(t, plan, at->lr);
    for (size_t i = 0; i + RECORDS < count; ++i) {
        const uint64_t *frame = words + i;
        if (below && (at->sp + i * sizeof *words) % 16 == 0 && frame[RECORDS] == FIRST_RECORD && frame[FLAGS] == 0 &&
            frame[LINK] == 0 && as_is_code(t, frame[PC])) {
            *saved = place_in(t, frame, at->signature);
            return true;
        }
        below = below || is_restorer(t, plan, words[i] & ~at->signature);
    }
    return false;
}

static bool has_set(pid_t tid, int set, void *head, size_t size)
{
    struct iovec all = {head, size};
    return ptrace(PTRACE_GETREGSET, tid, set, &all) == 0;
}

bool as_is_unfit(pid_t tid, char *why, size_t why_size)
{
    struct as_sve_head head = {0};
    uint64_t shadow[3] = {0}; // what is on, what is locked, the shadow stack's pointer
    if (has_set(tid, AS_NT_STREAMING_SVE, &head, sizeof head) && (head.flags & AS_SVE_ACTIVE))
        snprintf(why, why_size, "it is in streaming mode (SME)");
    else if (has_set(tid, AS_NT_ZA, &head, sizeof head) && head.size > sizeof head)
        snprintf(why, why_size, "its ZA register (SME) is in use, and no function may be called with it in use");
    else if (has_set(tid, AS_NT_GCS, shadow, sizeof shadow) && (shadow[0] & 1))
        snprintf(why, why_size, "it has a shadow stack (GCS), which forbids a call from outside");
    else
        return false;
    return true;
}
