// SPDX-License-Identifier: MIT
// What the caller of an injection chooses, and what an injection tells.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct as_inject_options {
    bool force;        // also where a seccomp filter may kill the target for what the agent does
    bool everywhere;   // what is asked for runs in all threads (the recorder)
    unsigned mappings; // besides the agent's own (AS_RECORDER_MAPPINGS): there must be room before anything is loaded
    bool present_only; // an agent that is there already is woken; none is loaded
    uint64_t patience_ns; // for which a safe thread is searched for; 0: AS_INJECT_PATIENCE_NS
    uint64_t watchdog_ns; // after which a call that has not returned is reported; 0: AS_INJECT_WATCHDOG_NS
};
// Mappings, which vm.max_map_count limits. Measured are at most 12 while the library is loaded, and 28 with a profile of a process
// with twenty threads; the rest is for libc versions and programs that need more.
enum {
    AS_AGENT_MAPPINGS = 32,
    AS_WAKE_MAPPINGS = 8, // of a library that is there, for its thread and the injector's stack
    AS_RECORDER_MAPPINGS = 64,
    AS_SPARE_MAPPINGS = 64, // that the process's own mmap, malloc and threads find free all the while
};
#define AS_INJECT_PATIENCE_NS UINT64_C(10000000000)
#define AS_INJECT_WATCHDOG_NS UINT64_C(10000000000)

enum as_injected {
    AS_INJECT_LOADED = 1, // the library is new there
    AS_INJECT_WOKEN = 2,  // it was there (preloaded, or injected before), and its thread has been started
};

struct as_inject_result {
    uint32_t how;       // as_injected
    pid_t tid;          // the thread that did it
    char where[192];    // what that thread was doing: "waiting in system call 232"
    uint64_t attempts;  // at threads, until one would do
    uint64_t search_ns; // for how long
    uint64_t away_ns;   // how long that thread was kept from its own work
};
