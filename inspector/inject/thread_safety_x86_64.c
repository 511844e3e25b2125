// SPDX-License-Identifier: MIT
// A signal handler returns to the restorer: above that word, which is the end of the handler's own stack, lies what the handler goes
// back to.
#include "inject/thread_safety_arch.h"

#include "target/process/clone/machine.h"

#include <string.h>

enum {
    CONTEXT_OFFSET = 8, // of the ucontext, from the word with the restorer's address
    SAVED_RDI = 104,    // in the ucontext: gregs[REG_RDI], gregs[REG_RSP], gregs[REG_RIP]
    SAVED_SP = 160,
    SAVED_PC = 168,
};

static const uint8_t SYSCALL[] = AS_SYSCALL_CODE;
static const uint8_t RESTORER[] = AS_RESTORER;

static bool has_code(struct as_target *t, uint64_t address, const uint8_t *expected, size_t length)
{
    uint8_t bytes[16];
    return length <= sizeof bytes && as_target_read(t, address, bytes, length) && memcmp(bytes, expected, length) == 0;
}

bool as_find_interrupted(struct as_target *t, const struct as_plan *plan, const struct as_place *at,
                         const uint64_t *words, size_t count, struct as_place *saved)
{
    (void)plan;
    uint64_t sp = at->sp; // `saved` may be `at`
    for (size_t i = 0; i < count; ++i) {
        uint64_t context = sp + i * sizeof *words + CONTEXT_OFFSET;
        if (!as_is_code(t, words[i]) || !has_code(t, words[i], RESTORER, sizeof RESTORER) ||
            !as_target_read_u64(t, context + SAVED_PC, &saved->pc) ||
            !as_target_read_u64(t, context + SAVED_SP, &saved->sp) ||
            !as_target_read_u64(t, context + SAVED_RDI, &saved->argument) || !as_is_code(t, saved->pc))
            continue;
        saved->waiting = saved->on_futex = has_code(t, saved->pc - sizeof SYSCALL, SYSCALL, sizeof SYSCALL);
        return true;
    }
    return false;
}

bool as_is_unfit(pid_t tid, char *why, size_t why_size)
{
    (void)tid;
    if (why_size > 0)
        why[0] = '\0';
    return false;
}
