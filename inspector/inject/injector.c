// SPDX-License-Identifier: MIT
// A process of ours that blocks every signal and belongs to no terminal, so that whatever becomes of the inspector the
// target's thread returns from its call and is put back. It holds one thread at a time; all others run.
#include "inject/injector.h"
#include "control/protocol.h"
#include "inject/call.h"
#include "inject/call_write.h"
#include "inject/loader_wait.h"
#include "target/process/clone/supervisor.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK_BYTES = 256 * 1024, // for the loader, and for our constructor and its call of pthread_create
    TEXT_BYTES = 4096,        // at its lower end, for the strings that we pass
    RETRY_NS = 200000,        // between two threads that seem safe
    YIELD_NS = 10000000,      // before another try where another thread has the loader's lock
    CANDIDATES = 8,           // threads that seem safe, but cannot be taken hold of, before we give up
};

struct injector {
    struct as_process *p;
    const struct as_payload *payload;
    int socket;
    struct as_injector_report outcome;
    const char *doing; // for the watchdog
    struct as_remote remote;
    uint64_t stack;    // in the target
    uint64_t errno_at; // there; 0: not known
    int32_t errno_value;
    struct as_loader_wait yield;
    bool yielded; // another thread had the loader's lock: to be tried again
};

static void send_result(const struct injector *c)
{
    while (send(c->socket, &c->outcome, sizeof c->outcome, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

// --- What it does for us ---

// Called when a function has not returned for long.
static void say_late(void *context)
{
    struct injector *c = context;
    char why[128] = "";
    if (!as_plan_loader_is_busy(c->payload->plan, &c->p->base, why, sizeof why))
        snprintf(why, sizeof why, "the loader's lock is free");
    as_fail(&c->outcome.err, AS_DENIED,
            "process %d: thread %d has been in %s for %llu ms (%s). The call cannot be interrupted without harm: the "
            "injector, process %d, waits for its return and then restores the thread",
            c->p->base.pid, c->remote.tid, c->doing, (unsigned long long)(c->payload->watchdog_ns / 1000000), why,
            getpid());
    c->outcome.late = true;
    send_result(c);
}

// Called when a system call has not returned, although it was interrupted.
static void say_stuck(void *context)
{
    struct injector *c = context;
    as_fail(&c->outcome.err, AS_DENIED,
            "process %d: thread %d has been in a system call made for arenadump for %llu ms, and the call cannot be "
            "interrupted: the injector, process %d, waits for its return and then restores the thread",
            c->p->base.pid, c->remote.tid, (unsigned long long)(2 * c->payload->watchdog_ns / 1000000), getpid());
    if (!c->outcome.late) {
        c->outcome.late = true;
        send_result(c);
    }
}

static struct as_function_call call_of(struct injector *c)
{
    return (struct as_function_call){
        .process = c->p,
        .way = &c->payload->plan->way,
        .remote = &c->remote,
        .stack = c->stack,
        .stack_top = c->stack + STACK_BYTES,
        .errno_at = c->errno_at,
        .errno_value = c->errno_value,
        .watchdog_ns = c->payload->watchdog_ns,
        .late = c->outcome.late ? NULL : say_late,
        .context = c,
        .yielded = &c->yielded,
    };
}

// A thread that has left a call is not to be put back: it is at other work by now.
static bool has_left(struct injector *c, struct as_error *err)
{
    struct as_process *p = c->p;
    char why[128] = "";
    p->tracees.items[p->tracees.count - 1].registers.known = false;
    bool busy = as_plan_loader_is_busy(c->payload->plan, &p->base, why, sizeof why);
    return as_fail(
        err, AS_DENIED,
        "process %d: thread %d has left %s by itself, as a signal handler does that ends with siglongjmp. It "
        "goes on with the program's work and its own signal mask; nothing that was loaded is used, and %d KiB "
        "of stack and a memfd stay in the process. %s%s",
        p->base.pid, c->remote.tid, c->doing, STACK_BYTES / 1024,
        busy ? "A later dlopen of the program may wait for ever: " : "The loader's lock is free", why);
}

static bool invoke(struct injector *c, const char *doing, uint64_t function, uint64_t first, uint64_t second,
                   uint64_t *result, struct as_error *err)
{
    struct as_function_call call = call_of(c);
    const uint64_t arguments[3] = {first, second};
    call.yield = function == c->payload->plan->dlopen ? &c->yield : NULL;
    c->doing = doing;
    return as_call(&call, function, arguments, result, err) || (c->remote.left && has_left(c, err));
}

// A system call in the target; false with `err` also when that fails.
static bool ask_kernel(struct injector *c, const char *name, long number, const uint64_t arguments[6], int64_t *result,
                       struct as_error *err)
{
    if (!as_remote_call(&c->remote, number, arguments, result, err))
        return false;
    return *result >= 0 ||
           as_fail(err, AS_DENIED, "%s in process %d failed: %s", name, c->p->base.pid, strerror((int)-*result));
}

static bool put_text(struct injector *c, const char *text, struct as_error *err)
{
    return as_call_write(c->p, c->remote.tid, c->stack, text, strlen(text) + 1, err);
}

// How large a file may be that the thread writes. (Beyond it the kernel would send it SIGXFSZ, whose default is to end it.)
static uint64_t largest_file(const struct injector *c)
{
    static const char KEY[] = "\nMax file size";
    char text[4096];
    if (as_proc_read(c->p->proc_fd, "limits", text, sizeof text) <= 0)
        return 0;
    const char *at = strstr(text, KEY);
    for (at = at ? at + sizeof KEY - 1 : ""; *at == ' ';)
        ++at;
    return strncmp(at, "unlimited", strlen("unlimited")) == 0 ? UINT64_MAX : as_parse_decimal(&at, text + sizeof text);
}

// Fills a memfd of the target's: the thread maps it, and we write into the thread's memory. We open nothing: a descriptor's
// number is a name, which another thread of the target's may make any other file's at any time (dup2), and then what
// the target may only read would be written with our rights. Memory of the target's is its own, whatever is mapped there.
static bool fill_memfd(struct injector *c, int fd, struct as_error *err)
{
    uint64_t size = c->payload->size;
    uint64_t largest = largest_file(c);
    const uint64_t grow[6] = {(uint64_t)fd, size};
    const uint64_t map[6] = {0, size, PROT_READ | PROT_WRITE, MAP_SHARED, (uint64_t)fd, 0};
    int64_t address;
    int64_t result;
    if (largest < size)
        return as_fail(err, AS_UNSUPPORTED,
                       "process %d may not write a file larger than %llu bytes (RLIMIT_FSIZE), and the library, in a "
                       "memfd, has %llu: allow more (prlimit --fsize), or preload the agent (arenascope run)",
                       c->p->base.pid, (unsigned long long)largest, (unsigned long long)size);
    if (!ask_kernel(c, "ftruncate", SYS_ftruncate, grow, &result, err) ||
        !ask_kernel(c, "mmap", SYS_mmap, map, &address, err))
        return false;
    const uint64_t unmap[6] = {(uint64_t)address, size};
    struct as_error late;
    bool ok = as_call_write(c->p, c->remote.tid, (uint64_t)address, c->payload->library, size, err);
    return ask_kernel(c, "munmap", SYS_munmap, unmap, &result, ok ? err : &late) && ok;
}

// Why dlopen failed, in its own words.
static bool dlopen_failed(struct injector *c, struct as_error *err)
{
    char text[300] = "";
    uint64_t address = 0;
    if (c->payload->plan->dlerror != 0 && !invoke(c, "dlerror", c->payload->plan->dlerror, 0, 0, &address, err))
        return false;
    if (address != 0)
        c->p->base.ops->memory.read(&c->p->base, address, text, sizeof text - 1);
    return as_fail(err, AS_UNSUPPORTED, "process %d could not load the library: dlopen failed%s%s", c->p->base.pid,
                   text[0] ? ": " : " without an error text (is /proc mounted there?)", text);
}

// What dlopen returns is its struct link_map, which begins with the load bias.
static bool find_wake(struct injector *c, uint64_t handle, uint64_t *wake, struct as_error *err)
{
    uint64_t base;
    uint8_t there[AS_WAKE_BYTES];
    const struct as_payload *payload = c->payload;
    if (!as_target_read_u64(&c->p->base, handle, &base) ||
        !as_target_read(&c->p->base, base + payload->wake, there, sizeof there) ||
        memcmp(there, payload->library + payload->wake_offset, sizeof there) != 0)
        return as_fail(err, AS_INTERNAL,
                       "process %d has loaded the library, but not at the address that dlopen returned",
                       c->p->base.pid);
    *wake = base + payload->wake;
    return true;
}

static bool load_from(struct injector *c, int fd, uint64_t *wake, struct as_error *err)
{
    uint64_t handle = 0;
    if (!fill_memfd(c, fd, err) || !put_text(c, as_proc_name("/proc/thread-self/fd/%d", fd).text, err))
        return false;
    as_yield_begin(&c->yield, c->p, c->payload->plan, &c->p->tracees.items[c->p->tracees.count - 1],
                   (struct as_range){c->stack, c->stack + STACK_BYTES});
    return invoke(c, "dlopen", c->payload->plan->dlopen, c->stack, c->payload->plan->dlopen_flags, &handle, err) &&
           (!c->yielded || as_fail(err, AS_DENIED, "process %d: another thread holds the loader's lock all the time",
                                   c->p->base.pid)) &&
           as_process_refresh_maps(c->p, false, err) && (handle != 0 || dlopen_failed(c, err)) &&
           find_wake(c, handle, wake, err);
}

static bool close_there(struct injector *c, int64_t fd, struct as_error *err)
{
    const uint64_t close[6] = {(uint64_t)fd};
    int64_t result;
    return ask_kernel(c, "close", SYS_close, close, &result, err);
}

// The name by which the library is loaded stays in the loader's list, and a debugger that attaches later opens it: as a file
// of its own, by that number. With a small number that may be a pipe, at which gdb waits for ever; it has no such large one.
static bool move_up(struct injector *c, int64_t *fd, struct as_error *err)
{
    static const uint64_t at_least[] = {1000, 240, 60}; // RLIMIT_NOFILE may be low
    for (size_t i = 0; i < sizeof at_least / sizeof at_least[0]; ++i) {
        const uint64_t duplicate[6] = {(uint64_t)*fd, F_DUPFD_CLOEXEC, at_least[i]};
        int64_t moved;
        if (!as_remote_call(&c->remote, SYS_fcntl, duplicate, &moved, err))
            return false;
        if (moved < 0)
            continue;
        int64_t old = *fd;
        *fd = moved;
        return close_there(c, old, err);
    }
    return true;
}

static bool load(struct injector *c, uint64_t *wake, struct as_error *err)
{
    const uint64_t create[6] = {c->stack, MFD_CLOEXEC};
    int64_t fd;
    if (!put_text(c, AS_AGENT_MEMFD, err) || !ask_kernel(c, "memfd_create", SYS_memfd_create, create, &fd, err))
        return false;
    bool ok = move_up(c, &fd, err) && load_from(c, (int)fd, wake, err);
    if (!ok && err->code == AS_TARGET_GONE)
        return false;
    // What is mapped stays.
    struct as_error late;
    return close_there(c, fd, ok ? err : &late) && ok;
}

// What the thread's errno is, between a call that failed and the application's inspect why.
static bool find_errno(struct injector *c, struct as_error *err)
{
    uint64_t at = 0;
    if (!invoke(c, "__errno_location", c->payload->plan->errno_location, 0, 0, &at, err))
        return false;
    if (!as_target_read(&c->p->base, at, &c->errno_value, sizeof c->errno_value))
        return as_fail(err, AS_UNSUPPORTED, "process %d: errno of thread %d cannot be read where its libc says it is",
                       c->p->base.pid, c->remote.tid);
    c->errno_at = at;
    return true;
}

// With a stack to do it on.
static bool load_and_wake(struct injector *c, struct as_error *err)
{
    const struct as_plan *plan = c->payload->plan;
    uint64_t wake = plan->wake;
    uint64_t result = 0;
    if (!find_errno(c, err))
        return false;
    const struct as_function_call call = call_of(c);
    if (!as_call_shelter(&call, err))
        return false;
    c->outcome.result.how = wake == 0 ? AS_INJECT_LOADED : AS_INJECT_WOKEN;
    bool ok = (wake != 0 || load(c, &wake, err)) && invoke(c, AS_AGENT_WAKE, wake, 0, 0, &result, err);
    if (ok && (int)result != 0)
        ok = as_fail(err, AS_DENIED, "the agent is in process %d, but could not start its thread: %s", c->p->base.pid,
                     strerror((int)result));
    return ok;
}

static bool run_injection(struct injector *c, struct as_error *err)
{
    const uint64_t map[6] = {
        0, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (uint64_t)-1, 0};
    int64_t address;
    if (!ask_kernel(c, "mmap", SYS_mmap, map, &address, err))
        return false;
    c->stack = (uint64_t)address;
    bool ok = load_and_wake(c, err);
    if (!ok && err->code == AS_TARGET_GONE)
        return false;
    const uint64_t unmap[6] = {c->stack, STACK_BYTES};
    struct as_error late;
    int64_t result;
    c->remote.shelter = (struct as_shelter){0}; // which is on that stack
    return ask_kernel(c, "munmap", SYS_munmap, unmap, &result, ok ? err : &late) && ok;
}

// Takes hold of a thread that may do it.
static bool take_hold(struct injector *c, struct as_error *err)
{
    struct as_process *p = c->p;
    uint64_t began = as_now_ns();
    const struct as_thread_search search = {p, c->payload->plan, c->payload->patience_ns, c->payload->force,
                                            &c->outcome.result};
    for (int asked = 0; asked < CANDIDATES && as_find_thread(&search, began, err);) {
        const struct as_tracee *tracee = &p->tracees.items[p->tracees.count - 1];
        uint64_t instruction = as_remote_instruction(p, c->payload->plan->system.items, c->payload->plan->system.count);
        if (instruction == 0)
            return as_fail(err, AS_UNSUPPORTED, "no system call instruction was found in process %d", p->base.pid);
        if (as_remote_begin(&c->remote, p, tracee, instruction, err)) {
            c->remote.limit_ns = c->payload->watchdog_ns;
            c->remote.late = say_stuck;
            c->remote.context = c;
            return true;
        }
        as_process_resume(&p->base);
        // A thread that has a fault pending may serve when its handler has run.
        asked += err->code != AS_DENIED;
        as_sleep_ns(RETRY_NS);
    }
    return false;
}

static bool inject_once(struct injector *c, struct as_error *err)
{
    struct as_process *p = c->p;
    c->yielded = false;
    c->remote.signal = 0;
    c->errno_at = 0; // it was another thread's
    bool ok = take_hold(c, err);
    uint64_t began = as_now_ns();
    if (ok) {
        ok = run_injection(c, err);
        struct as_error late;
        ok = as_remote_end(&c->remote, ok ? err : &late) && ok;
    }
    as_give_back_stop(p, c->remote.tid, c->remote.signal);
    as_process_resume(&p->base);
    c->outcome.result.away_ns = as_now_ns() - began;
    return ok;
}

static bool inject_patiently(struct injector *c, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + c->payload->patience_ns;
    while (!inject_once(c, err)) {
        if (!c->yielded || c->outcome.late || as_now_ns() > deadline)
            return false;
        as_sleep_ns(YIELD_NS);
    }
    return true;
}

_Noreturn void as_injector_run(struct as_process *p, const struct as_payload *payload, int socket)
{
    as_supervisor_stand_apart(p, socket);
    struct injector c = {.p = p, .payload = payload, .socket = socket};
    struct as_error err = {0};
    if (inject_patiently(&c, &err))
        c.outcome.err.code = AS_OK;
    else
        c.outcome.err = err;
    c.outcome.late = false;
    send_result(&c);
    // A thread that would not stop, and has not been let go yet: the kernel does it as we end.
    _exit(0);
}
