// SPDX-License-Identifier: MIT
// The process of ours that loads the library into the target. It goes by the supervisor's name (AS_SUPERVISOR_NAME): another
// inspector waits for it to finish, as it does for a supervisor. Internal to inject/.
#pragma once

#include "inject/inject_options.h"
#include "inject/plan.h"

enum { AS_WAKE_BYTES = 8 }; // of the function's code that must be found in the target before it is called

// What is to be loaded, and how.
struct as_payload {
    const struct as_plan *plan;
    uint8_t *library;     // the file's bytes, as far as they are loaded
    size_t size, mapped;  // of them; of the copy in our memory
    uint64_t wake;        // address in the file of AS_AGENT_WAKE
    uint64_t wake_offset; // of that function's first byte in the file
    uint64_t patience_ns, watchdog_ns;
    bool force; // threads under a seccomp filter may do it, too
};

// What the injector tells, once; `late` may come before.
struct as_injector_report {
    struct as_error err; // code AS_OK: it is done
    bool late;           // a call has not returned yet: err says which; the injector stays with it
    struct as_inject_result result;
};

// The injector's whole life, in a process of its own.
_Noreturn void as_injector_run(struct as_process *p, const struct as_payload *payload, int socket);

// Searching for a thread that may call dlopen. Internal to inject/.
struct as_thread_search {
    struct as_process *p;
    const struct as_plan *plan;
    uint64_t patience_ns;
    bool force; // a thread under a seccomp filter may do it: where there is no other, or none that will do for long
    struct as_inject_result *result; // which thread it is, what it was doing, how many attempts and how long it took
};

// Stops threads, one at a time, until one is where it may do it: it is the last of the tracees. To be called again, with the same
// `began` (as_now_ns) and `err`, if that thread will not do after all. False: AS_TARGET_GONE; AS_DENIED, and why the last one would not do.
bool as_find_thread(const struct as_thread_search *s, uint64_t began, struct as_error *err);
