// SPDX-License-Identifier: MIT
// What an injection has to know of its target before it touches it. Internal to inject/.
#pragma once

#include "base/vec.h"
#include "control/protocol.h"
#include "inject/sigreturn_frame.h"
#include "libc/libc.h"
#include "target/process/read/live_process.h"

typedef AS_VEC(struct as_range) as_range_vec;

struct as_plan {
    uint64_t dlopen, dlerror; // addresses in the target; dlerror 0: there is none
    uint64_t dlopen_flags;
    uint64_t errno_location;
    struct as_way_back way; // 0: not found
    uint64_t wake;          // 0: the library is not there yet
    struct as_range loader; // ld.so's data that has its locks, _rtld_global
    uint64_t
        debug_state; // address of r_debug.r_state, which says when its list of objects is being changed; 0: not known
    as_range_vec system;      // all code of libc, its companions and the loader: what holds locks in there is not known
    as_range_vec loader_code; // of it, the loader's
    as_range_vec malloc;      // and malloc's
    as_range_vec callers;     // functions that call back into the application, and nothing should be loaded from there
    as_range_vec
        lock_owners;   // functions that hold a lock, which dlopen or the start of a thread needs, while they wait
    bool hooked;       // malloc calls the application with an arena locked (__morecore, until 2.33)
    as_range_vec data; // where libc and the loader have their own locks
};

// Finds all this by reading mapped files. AS_NO_MALLOC, AS_UNSUPPORTED: why there can be no injection.
bool as_plan_make(struct as_plan *plan, struct as_target *t, const struct as_malloc *m, struct as_error *err);
void as_plan_free(struct as_plan *plan);

// Is a thread inside the loader, or holds its lock? `why` says so.
bool as_plan_loader_is_busy(const struct as_plan *plan, struct as_target *t, char *why, size_t why_size);

// Is there, at the address, a lock of the loader's that is held, and does no second thread hold another? Then whoever waits for it
// holds none: it waits to be let in.
bool as_plan_waits_in_loader(const struct as_plan *plan, struct as_target *t, uint64_t address);

static inline bool as_in_ranges(const struct as_range *ranges, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; ++i) {
        if (address >= ranges[i].start && address < ranges[i].end)
            return true;
    }
    return false;
}

// thread_safety.c
// May this stopped thread call dlopen? False, and `why`: what is in the way; true: what it was doing. `lenient`: what seems to be
// in the way has been so for long, where the real thing would have passed.
bool as_thread_is_safe(struct as_target *t, const struct as_plan *plan, const struct as_tracee *tracee, bool lenient,
                       char *why, size_t why_size);

// return_breakpoint.c
// Lets a stopped thread that is inside libc run on until it comes back to the program's own code. True: it is stopped there,
// or where else it was when it took too long, with its registers. False: what is known of the tracee is what as_tracee_read_registers
// leaves; it may have ended.
bool as_return_breakpoint(struct as_process *p, const struct as_plan *plan, struct as_tracee *tracee);

// refusals.c
// False, and why, when a process of this kind is never touched, or not in the state it is in.
bool as_inject_refused(const struct as_process *p, const struct as_malloc *m, struct as_error *err);
