// SPDX-License-Identifier: MIT
// May a stopped thread call dlopen, here and now? Only where it can be seen to hold none of the locks that dlopen takes:
//
//   - It waits in a system call, and not for a lock of libc's, of the loader's or of an arena. Whoever waits in there for
//     anything else has let go of them: malloc waits for nothing but its locks, the loader only with its own lock held, which
//     is inspected apart (as_plan_loader_is_busy). All but setuid and its like, which wait for other threads: whoever waits for
//     a futex must not have been called by them. And all but who starts a thread or a process: the call is made again when
//     a signal comes, and so resembles a wait; fork has all arenas locked there, pthread_create all signals blocked.
//   - Or it runs code that is neither libc's nor the loader's. (Where malloc itself may have called that, with an arena locked,
//     which old versions could be made to do: none of the nearest words of its stack is a return address into malloc.)
//   - And it is not in a function that fork or exit has called: the nearest words again.
//   - And no fault of its own waits to be delivered: as_remote_begin sees to that.
//   - Where it is in a signal handler, all this holds for the place that the signal interrupted as well.
//
// Little is asked of the stack, for stacks are full of old words: who waits in its first call of read has the loader's
// return addresses of just before in there, and a busy interpreter those of malloc. Fork and exit pass; if one of them seems
// to be there for long, it is such an old word.
#include "inject/thread_safety_arch.h"
#include "target/process/clone/remote.h"
#include "target/process/stop/quiesce.h"
#include "target/process/stop/registers.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum {
    NEAR_WORDS = 64,  // of the stack that are searched for return addresses
    FAR_WORDS = 2048, // for the frame of a signal handler, which keeps some kilobytes of registers above its own
    HEAP_ALIGNMENT = 8 << 20, // of every heap but the first, at least (HEAP_MAX_SIZE: 64 MiB, or 4 huge pages)
    ARENA_BEGINS = 256,       // at most so many bytes from there on
    DEPTH = 4,                // handlers within handlers
};

// The name of the object that the address is in, for people.
static const char *object_at(const struct as_target *t, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    const char *path = m ? as_mapping_path(t, m) : "";
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : *path ? path : "code without a name";
}

// Can the address be that of a lock which dlopen needs? An arena other than the first lies behind the header of a heap.
static bool is_lock(const struct as_plan *plan, uint64_t address)
{
    return address == AS_UNKNOWN || as_in_ranges(plan->data.items, plan->data.count, address) ||
           (address >= HEAP_ALIGNMENT && address % HEAP_ALIGNMENT < ARENA_BEGINS);
}

static bool is_place_safe(const struct as_target *t, const struct as_plan *plan, const struct as_place *at, char *why,
                          size_t why_size)
{
    if (as_in_ranges(plan->loader_code.items, plan->loader_code.count, at->pc))
        snprintf(why, why_size, "it is in the loader");
    else if (at->waiting && at->on_futex && is_lock(plan, at->argument))
        snprintf(why, why_size, "it waits for a lock of malloc's or of libc's");
    else if (!at->waiting && as_in_ranges(plan->system.items, plan->system.count, at->pc))
        snprintf(why, why_size, "it runs in %s", object_at(t, at->pc));
    else if (!at->waiting && !as_is_code(t, at->pc))
        snprintf(why, why_size, "it runs outside of any known code");
    else
        return true;
    return false;
}

// Is one of the nearest words a return address into that code?
static bool is_called_by(struct as_target *t, const as_range_vec *code, const struct as_place *at,
                         const uint64_t *words, size_t count)
{
    if (as_in_ranges(code->items, code->count, at->lr))
        return true;
    for (size_t i = 0; i < count && i < NEAR_WORDS; ++i) {
        uint64_t address = words[i] & ~at->signature;
        if (as_in_ranges(code->items, code->count, address) && as_follows_call(t, address))
            return true;
    }
    return false;
}

// The thread's own place first, then what its signal handlers go back to.
static bool is_safe(struct as_target *t, const struct as_plan *plan, struct as_place at, bool lenient, char *why,
                    size_t why_size)
{
    const char *within = "";
    for (unsigned depth = 0; depth <= DEPTH; ++depth) {
        char reason[160] = "";
        uint64_t words[FAR_WORDS];
        size_t count = t->ops->memory.read(t, at.sp, words, sizeof words) / sizeof *words;
        if (is_place_safe(t, plan, &at, reason, sizeof reason)) {
            if (count == 0)
                snprintf(reason, sizeof reason, "its stack cannot be read");
            else if (at.on_futex && is_called_by(t, &plan->lock_owners, &at, words, count))
                snprintf(reason, sizeof reason, "it waits in setuid, a similar call or fork, with a lock held");
            else if (!lenient && is_called_by(t, &plan->callers, &at, words, count))
                snprintf(reason, sizeof reason, "it runs code that fork or exit has called");
            else if (plan->hooked && !at.waiting && is_called_by(t, &plan->malloc, &at, words, count))
                snprintf(reason, sizeof reason, "it runs code that malloc has called");
        }
        if (reason[0]) {
            snprintf(why, why_size, "%s%s", reason, within);
            return false;
        }
        if (!as_find_interrupted(t, plan, &at, words, count, &at))
            return true;
        within = ", in a signal handler";
    }
    snprintf(why, why_size, "it is in more than %d signal handlers at once", DEPTH);
    return false;
}

static bool makes_process(int64_t call)
{
// clone3 is 435 on every machine.
#if defined(SYS_fork)
    if (call == SYS_fork || call == SYS_vfork)
        return true;
#endif
    return call == SYS_clone || call == 435;
}

bool as_thread_is_safe(struct as_target *t, const struct as_plan *plan, const struct as_tracee *tracee, bool lenient,
                       char *why, size_t why_size)
{
    const struct as_registers *r = &tracee->registers;
    struct as_place at = {.pc = r->pc,
                          .sp = r->sp,
                          .signature = r->signature,
                          .lr = r->lr,
                          .waiting = as_registers_waiting(r),
                          .on_futex = r->call == SYS_futex,
                          .argument = r->argument};
    snprintf(why, why_size, "its registers cannot be read");
    if (!r->known || as_is_unfit(tracee->tid, why, why_size) || !is_safe(t, plan, at, lenient, why, why_size))
        return false;
    if (at.waiting && makes_process(r->call)) {
        snprintf(why, why_size, "it is about to start a thread or a process");
        return false;
    }
    if (as_remote_in_sequence(tracee)) {
        snprintf(why, why_size, "it is in a restartable sequence");
        return false;
    }
    if (at.waiting)
        snprintf(why, why_size, "waiting in system call %lld", (long long)r->call);
    else
        snprintf(why, why_size, "running in %s", object_at(t, r->pc));
    return true;
}
