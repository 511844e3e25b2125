// SPDX-License-Identifier: MIT
// The process of ours that carries the library into the target. It goes by the guardian's name (AS_GUARDIAN_NAME): another
// inspector waits for it to finish, as it does for a guardian. Internal to inject/.
#pragma once

#include "inject/inject.h"
#include "inject/plan.h"

enum { AS_WAKE_BYTES = 8 }; // of the function's code that must be found in the target before it is called

// What is to be carried, and how.
struct as_cargo {
    const struct as_plan *plan;
    uint8_t *library;     // the file's bytes, as far as they are loaded
    size_t size, mapped;  // of them; of the copy in our memory
    uint64_t wake;        // address in the file of AS_AGENT_WAKE
    uint64_t wake_offset; // of that function's first byte in the file
    uint64_t patience_ns, watchdog_ns;
};

// What the carrier tells, once; `late` may come before.
struct as_carried {
    struct as_error err; // code AS_OK: it is done
    bool late;           // a call has not returned yet: err says which; the carrier stays with it
    struct as_inject_result result;
};

// The carrier's whole life, in a process of its own.
_Noreturn void as_carrier_run(struct as_process *p, const struct as_cargo *cargo, int socket);
