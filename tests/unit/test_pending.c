// SPDX-License-Identifier: MIT
// Signals that wait for a thread while it stands still: a fault of its own, whose handler inspects the registers; and SIGSTOP,
// which no mask holds back.
#include "target/process/clone/remote.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/one_thread.h"
#include "target/process/stop/pending.h"
#include "target/process/stop/registers.h"
#include "target_util.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <ucontext.h>

struct shared {
    int ready, faults, foreign; // faults whose handler found them where they are raised, and elsewhere
};
static struct shared *shared;

// A system call that a seccomp filter makes a fault (SIGSYS): the kernel raises it within the call, so that a tracer can make it
// certain that the thread is stopped before the signal is delivered.
extern const char behind_call[];
static void call_and_fault(void)
{
#if defined(__x86_64__)
    long number = SYS_getpgid;
    __asm__ volatile("syscall\n.globl behind_call\nbehind_call:" : "+a"(number) : "D"(0L) : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = SYS_getpgid;
    register long argument __asm__("x0") = 0;
    __asm__ volatile("svc #0\n.globl behind_call\nbehind_call:" : "+r"(argument) : "r"(number) : "memory");
#endif
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    const ucontext_t *at = context;
    (void)signal;
#if defined(__x86_64__)
    uint64_t pc = (uint64_t)at->uc_mcontext.gregs[REG_RIP];
#else
    uint64_t pc = at->uc_mcontext.pc;
#endif
    if (pc == (uint64_t)(uintptr_t)behind_call && info->si_call_addr == behind_call)
        shared->faults++;
    else
        shared->foreign++;
}

static void set_filter(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof code[0], code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

_Noreturn static void fault_for_ever(void)
{
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    set_filter();
    for (shared->ready = 1;;)
        call_and_fault();
}

_Noreturn static void wait_for_ever(void)
{
    for (shared->ready = 1;;)
        pause();
}

// A child, opened, its one thread stopped.
static struct as_process *start(void (*work)(void))
{
    *shared = (struct shared){0};
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a check that fails leaves nothing behind
        work();
    }
    await(&shared->ready);
    struct as_target *t = open_process(pid);
    CHECK(as_process_stop_one(as_process_of(t), pid));
    return as_process_of(t);
}

static void end(struct as_process *p)
{
    pid_t pid = p->base.pid;
    as_process_resume(&p->base);
    as_target_close(&p->base);
    end_child(pid);
}

static int next_stop(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status), "%#x", status);
    return status >> 8;
}

// From where it is to a stop in which its fault is raised and not delivered: our interrupt, given at the entry of the call, comes
// first.
static void stop_with_fault(struct as_process *p)
{
    pid_t pid = p->base.pid;
    struct as_tracee *tracee = &p->tracees.items[0];
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD);
    next_stop(pid); // the one in which it is
    for (int deliver = tracee->signal;;) {
        CHECK(ptrace(PTRACE_SYSCALL, pid, 0, (long)deliver) == 0);
        int stop = next_stop(pid);
        struct as_registers now;
        CHECK(as_registers_read(pid, &now));
        deliver = stop >> 8 == 0 && stop != (SIGTRAP | 0x80) ? stop : 0;
        if (stop == (SIGTRAP | 0x80) && now.call == SYS_getpgid)
            break;
    }
    ptrace(PTRACE_INTERRUPT, pid, 0, 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    tracee->stopped = false;
    for (int i = 0; !tracee->stopped; ++i) {
        CHECK(i < 10000 && as_tracee_read_registers(tracee));
        sleep_ms(1);
    }
    CHECK(tracee->signal == 0 && as_registers_read(pid, &tracee->registers));
}

static uint64_t instruction_of(struct as_process *p)
{
    uint64_t found = as_remote_instruction(p, NULL, 0);
    return found != 0 ? found : (uint64_t)(uintptr_t)behind_call; // never used, where it does not matter
}

// It is not touched; let go, it finds its fault where it was raised; and later it serves.
static void test_a_fault(void)
{
    struct as_process *p = start(fault_for_ever);
    struct as_remote r;
    struct as_error err = {0};
    for (int i = 0; i < 20; ++i) {
        stop_with_fault(p);
        CHECK(as_has_fault_pending(p, p->base.pid));
        CHECK(!as_remote_begin(&r, p, &p->tracees.items[0], instruction_of(p), &err) && err.code == AS_DENIED &&
                  strstr(err.text, "has a fault pending"),
              "%s", err.text);
    }
    int faults = shared->faults;
    as_process_resume(&p->base);
    for (int i = 0; shared->faults < faults + 2; ++i) {
        CHECK(i < 10000);
        sleep_ms(1);
    }
    CHECK(shared->foreign == 0);
    end(p);
}

// Every signal of that kind is one, and no other; and none that the thread itself blocks, for that was sent by a process.
static void test_which_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS},
                     others[] = {SIGUSR1, SIGABRT, SIGCHLD};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0] + sizeof others / sizeof others[0]; ++i) {
        bool is_fault = i < sizeof faults / sizeof faults[0];
        int signal = is_fault ? faults[i] : others[i - sizeof faults / sizeof faults[0]];
        struct as_process *p = start(wait_for_ever);
        CHECK(!as_has_fault_pending(p, p->base.pid));
        if (i % 2) // for the whole process, or for the thread
            CHECK(kill(p->base.pid, signal) == 0);
        else
            CHECK(syscall(SYS_tgkill, p->base.pid, p->base.pid, signal) == 0);
        CHECK(as_has_fault_pending(p, p->base.pid) == is_fault, "%d", signal);
        uint64_t mask = as_signal_bit(signal);
        CHECK(ptrace(PTRACE_SETSIGMASK, p->base.pid, sizeof mask, &mask) == 0);
        CHECK(!as_has_fault_pending(p, p->base.pid), "%d is blocked", signal);
        end(p);
    }
}

// A process that has ended is not to be used.
static void test_of_the_dead(void)
{
    struct as_process *p = start(wait_for_ever);
    CHECK(as_has_fault_pending(p, 1 << 22));
    end(p);
}

// During a call the thread takes the SIGSTOP, and is given it back, unless the process was told to go on meanwhile.
static void test_a_stop(const int *before, int after, char state)
{
    struct as_process *p = start(wait_for_ever);
    struct as_remote r;
    struct as_error err = {0};
    const uint64_t none[6] = {0};
    int64_t result = 0;
    const struct as_range libc = {(uint64_t)(uintptr_t)getpid & ~UINT64_C(4095),
                                  ((uint64_t)(uintptr_t)getpid | 4095) + 1};
    CHECK(as_remote_begin(&r, p, &p->tracees.items[0], as_remote_instruction(p, &libc, 1), &err), "%s", err.text);
    for (; *before != 0; ++before)
        CHECK(kill(p->base.pid, *before) == 0);
    CHECK(as_remote_call(&r, SYS_getpid, none, &result, &err) && result == p->base.pid, "%s", err.text);
    CHECK(r.signal == SIGSTOP, "%d", r.signal);
    CHECK(as_remote_end(&r, &err), "%s", err.text);
    CHECK(after == 0 || kill(p->base.pid, after) == 0);
    as_give_back_stop(p, r.tid, r.signal);
    as_process_resume(&p->base);
    await_state(p->base.pid, state);
    sleep_ms(20);
    CHECK(state_of(p->base.pid) == state, "%c", state_of(p->base.pid));
    end(p);
}

int main(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL); // as as_tracee_await wants it
    alarm(200);
    shared = share(sizeof *shared);
    test_a_fault();
    test_which_signals();
    test_of_the_dead();
    test_a_stop((const int[]){SIGSTOP, 0}, 0, 'T');
    test_a_stop((const int[]){SIGCONT, SIGSTOP, 0}, 0, 'T');
    test_a_stop((const int[]){SIGSTOP, 0}, SIGCONT, 'S');
    return 0;
}
