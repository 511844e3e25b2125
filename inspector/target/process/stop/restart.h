// SPDX-License-Identifier: MIT
// Threads under a seccomp filter whose sleep the kernel restarts by another system call than the one they made.
//
// A stop interrupts nanosleep, clock_nanosleep, poll and futex waits that have a limit of time, and poll without one. The kernel
// goes on with them by restart_syscall, which knows the deadline. A filter that kills for restart_syscall then kills the process
// for our stop. (All other calls are restarted by their own number, which the filter let pass, or fail with EINTR.)
//
// So such a thread, once it has stopped, is told to make its own call again. That loses nothing if the call has an absolute
// deadline or none. A call with a relative limit would begin its time anew. Where we may suspend the filter (CAP_SYS_ADMIN), the
// thread is let into restart_syscall past its filter: it is *escorted*. Where we may not, a thread that has such a sleep ahead is
// not stopped at all. Internal to target/.
#pragma once

#include "target/process/read/live_process.h"

// By how much a sleep may last longer because it begins anew.
#define AS_RESTART_MOST_NS UINT64_C(20000000)

// By how much longer may a call of a thread last, in ns, if it is made again from its beginning? 0: not at all.
// AS_UNKNOWN: it is not known. Reads the target's memory for it.
uint64_t as_restart_delay(struct as_process *p, const struct as_sleep *sleep);

// Before anything is touched: can every thread be stopped without a sleep that ends late or kills? False: AS_DENIED, which
// says what sleeps where, and t->stop.unstoppable.
bool as_restart_permits_stop(struct as_process *p, struct as_error *err);
// Likewise for one thread.
bool as_restart_permits_stop_one(struct as_process *p, pid_t tid);

// To be called for a thread that has just stopped: from now on it survives whatever becomes of us.
void as_restart_guard(struct as_tracee *tracee);

// Instead of a detach: lets a stopped thread go on with its sleep, if that takes an escort. False: it takes none.
bool as_restart_escort(const struct as_process *p, struct as_tracee *tracee);
// An escorted thread has stopped, with `status` (a signal, and from bit 8 on an event). False: it has been let go. `halt`: it was
// interrupted, and its next stop is to be for that.
bool as_restart_step(struct as_tracee *tracee, int status, bool halt);
// Would a thread be killed for it if we left it now, interrupted and not stopped yet? It has left its sleep, and no processor has run it
// since: a guard comes with its stop alone.
bool as_restart_awaits_stop(const struct as_process *p, pid_t tid);
// Lets go of escorted threads whose sleep has ended. To be called again and again while there are some: these threads wait for it.
void as_restart_serve(struct as_process *p);
// The same until the other end of `socket` is closed (true; nothing is ever sent to us), or it is `due_ns` (as_now_ns; 0: never).
bool as_restart_serve_until(struct as_process *p, int socket, uint64_t due_ns);
// Serves until all of them sleep: from then on the kernel may detach them, as it does when we end.
void as_restart_settle(struct as_process *p);
// How many of the tracees are escorted.
size_t as_restart_escorted(const struct as_process *p);
