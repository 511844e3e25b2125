// SPDX-License-Identifier: MIT
// Stopping a process at a time when none of its threads is in the middle of something: of malloc, say.
//
// First all threads are stopped, wherever they are. Those that are inside the critical code are let run for an instant,
// and stopped again, until they have left it; all others stay where they are, so each round leaves fewer. In a storm of
// malloc calls this takes some ten rounds, where stopping everybody again and again would hardly ever succeed.
#include "target/process/stop/quiesce.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/restart.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ATTEMPTS = 3,           // then what is caught is said to be busy
    CONVERGE_MS = 100,      // of one attempt
    BETWEEN_MS = 5,         // the target runs between two attempts
    SLICE_NS = 20000,       // for which threads that are inside run; the kernel adds some
    LONG_SLICE_NS = 200000, // when a lock is held by nobody that is inside
    OTHERS_MS = 10000,      // for which another inspector may hold the target
    STACK_WORDS = 64,       // of the stack that are searched for return addresses
};

static bool in(const struct as_range *range, uint64_t address)
{
    return address >= range->start && address < range->end;
}

bool as_follows_call(struct as_target *t, uint64_t address)
{
    uint8_t code[7];
    if (!as_target_read(t, address - sizeof code, code, sizeof code))
        return false;
    const uint8_t *end = code + sizeof code;
    if (t->arch == AS_ARCH_AARCH64) {
        uint32_t word;
        memcpy(&word, end - 4, sizeof word);
        return word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000; // bl, blr
    }
    if (end[-5] == 0xe8) // call rel32
        return true;
    for (int length = 2; length <= 7; ++length) { // call r/m64 is ff /2 with up to five bytes of operand
        if (end[-length] == 0xff && (end[-length + 1] >> 3 & 7) == 2)
            return true;
    }
    return false;
}

// Is a thread that is in what critical code calls there on behalf of it? Its nearest frames tell.
static bool called_from(struct as_target *t, const struct as_registers *r, const struct as_range *code)
{
    if (r->lr != 0 && in(code, r->lr))
        return true;
    uint64_t words[STACK_WORDS];
    size_t length = as_target_read_resident(t, r->sp, words, sizeof words);
    for (size_t i = 0; i < length / sizeof *words; ++i) {
        uint64_t address = as_registers_unsigned(r, words[i]);
        if (in(code, address) && as_follows_call(t, address))
            return true;
    }
    return false;
}

static bool is_inside(struct as_target *t, const struct as_registers *r, const struct as_critical *c)
{
    // Critical code waits for nothing but its own locks, and before it has one it has not begun.
    if (!r->known || as_registers_waiting(r))
        return false;
    for (size_t i = 0; i < c->count; ++i) {
        if (in(&c->code[i], r->pc) || (in(&c->around[i], r->pc) && called_from(t, r, &c->code[i])))
            return true;
    }
    return false;
}

// Counts the threads that are inside; *runnable: those of them that can leave, *unknown: some may be inside.
static size_t count_inside(struct as_process *p, const struct as_critical *c, size_t *runnable, bool *unknown)
{
    size_t inside = 0;
    *runnable = 0;
    *unknown = false;
    AS_FOR_EACH(struct as_tracee, tracee, &p->tracees) {
        if (!tracee->registers.known) {
            as_registers_read(tracee->tid, &tracee->registers);
            tracee->inside = is_inside(&p->base, &tracee->registers, c);
        }
        inside += tracee->inside;
        *runnable += tracee->inside && !tracee->group_stopped;
        *unknown |= !c->complete && !as_registers_waiting(&tracee->registers);
    }
    return inside;
}

// Nobody is inside, and yet a lock is held: by a thread in fork(), which takes them all, or by one whose frames we did not
// understand. It is in the code around, if it does not wait for yet another lock.
static bool mark_owners(struct as_process *p, const struct as_critical *c)
{
    bool any = false;
    AS_FOR_EACH(struct as_tracee, tracee, &p->tracees) {
        bool around = false;
        for (size_t k = 0; k < c->count; ++k)
            around |= in(&c->around[k], tracee->registers.pc);
        tracee->inside = around && tracee->registers.known && !as_registers_waiting(&tracee->registers);
        any |= tracee->inside && !tracee->group_stopped;
    }
    return any;
}

static void run_for_an_instant(struct as_process *p, bool all, long slice_ns)
{
    AS_FOR_EACH(struct as_tracee, tracee, &p->tracees)
        if ((all || tracee->inside) && !tracee->group_stopped)
            as_process_let_run(tracee);
    as_sleep_ns(slice_ns);
}

// All stand still. Lets those run that must, until nobody is inside and no lock is held, or the time is up.
static bool converge(struct as_process *p, const struct as_critical *c, struct as_error *err)
{
    uint64_t due = as_process_due(p);
    uint64_t deadline = as_now_ns() + (uint64_t)CONVERGE_MS * 1000000;
    for (;;) {
        if (as_now_ns() >= due)
            return as_process_deadline_exceeded(p, err);
        size_t runnable;
        bool unknown;
        size_t inside = count_inside(p, c, &runnable, &unknown);
        bool held = inside == 0 && c->held && c->held(&p->base, c->context);
        p->base.stop.outcome = inside > 0 || held ? AS_STOP_BUSY : unknown ? AS_STOP_UNKNOWN : AS_STOP_CLEAN;
        if (p->base.stop.outcome != AS_STOP_BUSY || (inside > 0 && runnable == 0) || as_now_ns() > deadline)
            return true;
        bool all = held && !mark_owners(p, c);
        run_for_an_instant(p, all, held ? LONG_SLICE_NS : SLICE_NS);
        if (!as_process_halt(p, err))
            return false;
    }
}

// Is another inspector's supervisor at it? It will have finished soon.
static bool is_held_by_another(const struct as_process *p)
{
    for (size_t i = 0; i < p->tids.count; ++i) {
        char comm[32] = "";
        uint64_t tracer =
            as_proc_status(p->proc_fd, as_proc_name("task/%d/status", p->tids.items[i]).text, "TracerPid:");
        if (tracer == 0 || tracer == AS_PROC_NONE || tracer == (uint64_t)getpid())
            continue;
        if (as_proc_read(AT_FDCWD, as_proc_name("/proc/%d/comm", (int)tracer).text, comm, sizeof comm) > 0 &&
            strcmp(comm, AS_SUPERVISOR_NAME "\n") == 0)
            return true;
    }
    return false;
}

// The target runs between two attempts, and sleeps that are escorted end in time.
static void pause_between(struct as_process *p)
{
    as_restart_serve_until(p, -1, as_now_ns() + (uint64_t)BETWEEN_MS * 1000000);
}

bool as_process_catch(struct as_process *p, const struct as_critical *critical, struct as_error *err)
{
    p->base.stop.duration_ns = 0;
    return as_process_catch_again(p, critical, err);
}

bool as_process_catch_again(struct as_process *p, const struct as_critical *critical, struct as_error *err)
{
    struct as_target *t = &p->base;
    t->stop.outcome = AS_STOP_CLEAN;
    t->stop.deadline_exceeded = t->stop.unstoppable = false;
    p->stood_ns = t->stop.duration_ns;
    uint64_t deadline = as_now_ns() + (uint64_t)OTHERS_MS * 1000000;
    for (int attempt = 1;; ++attempt) {
        p->was_held = false;
        if (!as_restart_permits_stop(p, err) || !as_process_halt(p, err) || (critical && !converge(p, critical, err))) {
            bool wait = !t->stop.deadline_exceeded && (p->was_held || is_held_by_another(p)) && as_now_ns() < deadline;
            bool began = p->tracees.count > as_restart_escorted(p);
            as_process_resume(t);
            t->stop.duration_ns = began ? p->stood_ns + as_now_ns() - p->stop_began : 0;
            if (!wait)
                return false;
            pause_between(p);
            attempt = 0;
            continue;
        }
        if (t->stop.outcome != AS_STOP_BUSY || attempt == ATTEMPTS)
            break;
        uint64_t stood_ns = p->stood_ns + as_now_ns() - p->stop_began;
        as_process_resume(t);
        p->stood_ns = stood_ns;
        pause_between(p);
    }
    t->stop.active = true;
    as_target_send_back(t); // locks and stacks have been read: smaps, or a clone, is to find them where they were
    return true;
}

// Gives the threads that are listed the registers of those that we hold.
static void fill_registers(struct as_process *p)
{
    struct as_target *t = &p->base;
    for (size_t i = 0; i < t->threads.count; ++i) {
        struct as_thread *thread = &t->threads.items[i];
        // Both lists are in the kernel's order; now and then one that has ended lies between.
        for (size_t k = 0; k < p->tracees.count; ++k) {
            struct as_tracee *tracee = &p->tracees.items[(i + k) % p->tracees.count];
            if (tracee->tid != thread->tid)
                continue;
            if (!tracee->registers.known)
                as_registers_read(tracee->tid, &tracee->registers);
            if (tracee->registers.known) {
                thread->tp = tracee->registers.tp;
                thread->sp = tracee->registers.sp;
                thread->pc = tracee->registers.pc;
                memcpy(thread->general, tracee->registers.general, sizeof thread->general);
            }
            break;
        }
    }
}

// Stops every thread, then reads mappings, threads and registers anew. On failure all run again.
bool as_process_stop(struct as_target *t, struct as_error *err)
{
    struct as_process *p = as_process_of(t);
    if (t->stop.active)
        return true;
    if (t->pid == getpid())
        return as_fail(err, AS_USAGE, "process %d is arenadump itself: it cannot stop itself", t->pid);
    if (p->tracees.count > 0) // a thread that an earlier resume could not let go
        as_process_resume(t);
    if (!as_process_catch(p, NULL, err))
        return false;
    if (!as_process_refresh_maps(p, true, err) || !as_process_refresh_threads(p, err)) {
        as_process_resume(t);
        return false;
    }
    fill_registers(p);
    return true;
}
