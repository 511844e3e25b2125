// SPDX-License-Identifier: MIT
// The way back of a thread that was made to call a function: field by field against the kernel's own signal frame, on states of
// processors that are not at hand, and by going it.
#include "../programs/holds/hold.h"
#include "inject/sigreturn_frame.h"
#include "target_util.h"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

#if defined(__x86_64__)

#include <elf.h>

// These belong to the kernel's interface (asm/sigcontext.h), as offsets into the state.
enum { MAGIC_AT = 464, EXTENDED_AT = 468, FEATURES_AT = 472, SIZE_AT = 480, IN_USE_AT = 512, XCR0_AT = 464 };
static const uint32_t MAGIC = 0x46505853, END_MAGIC = 0x46505845;

enum { TOP = 0x10000 };
static const struct as_way_back SOME_WAY = {0x1111, 0x2222, 0x3333};

// An Intel processor's layout; AMX's tiles are the one feature on demand.
static const struct as_xsave_layout INTEL = {
    .offset =
        {[2] = 576, [3] = 960, [4] = 1024, [5] = 1088, [6] = 1152, [7] = 1664, [9] = 2688, [17] = 2752, [18] = 2816},
    .size = {[2] = 256, [3] = 64, [4] = 64, [5] = 64, [6] = 512, [7] = 1024, [9] = 8, [17] = 64, [18] = 8192},
    .on_demand = 1 << 18,
};
// One that has a later feature (APX) in the place of an abandoned one, below others.
static const struct as_xsave_layout LATER = {
    .offset = {[2] = 576, [5] = 1088, [9] = 2688, [19] = 960},
    .size = {[2] = 256, [5] = 64, [9] = 8, [19] = 128},
};
static const struct as_xsave_layout NOTHING;

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t long_word(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

struct synthetic {
    const char *name;
    const struct as_xsave_layout *layout;
    size_t size; // as ptrace gives it
    uint64_t features, in_use;
    size_t own_size; // as the kernel's own frame has it; 0: there is no frame
    uint64_t own_features;
};
static const struct synthetic synthetics[] = {
    {"AVX", &INTEL, 832, 0x7, 0x7, 832, 0x7},
    {"AVX, not in use", &INTEL, 832, 0x7, 0x1, 832, 0x7},
    {"SSE alone, by XSAVE", &INTEL, 576, 0x3, 0x3, 576, 0x3},
    {"MPX", &INTEL, 1088, 0x1f, 0x7, 1088, 0x1f},
    {"AVX-512", &INTEL, 2688, 0xe7, 0xe7, 2688, 0xe7},
    {"AVX-512, PKRU", &INTEL, 2696, 0x2e7, 0x2e7, 2696, 0x2e7},
    {"AMX's configuration alone", &INTEL, 2816, 0x202e7, 0x202e7, 2816, 0x202e7},
    {"AMX, tiles not in use", &INTEL, 11008, 0x602e7, 0x202e7, 2816, 0x202e7},
    {"AMX, tiles in use", &INTEL, 11008, 0x602e7, 0x602e7, 11008, 0x602e7},
    {"AMX, tiles alone", &INTEL, 11008, 0x602e7, 0x60000, 11008, 0x602e7},
    {"a bit in use that the processor has not", &INTEL, 832, 0x7, 0x40007, 832, 0x7},
    {"APX below PKRU", &LATER, 2696, 0x80227, 0x80227, 2696, 0x80227},
    {"no XSAVE", &NOTHING, 512, 0, 0, 512, 0},
    {"a feature that CPUID does not place", &LATER, 11008, 0x602e7, 0x602e7, 0, 0},
    {"larger than it says", &INTEL, 832, 0xe7, 0xe7, 0, 0},
    {"too small", &INTEL, 560, 0x3, 0x3, 0, 0},
};

static void make_state(const struct synthetic *s, uint8_t *state)
{
    for (size_t i = 0; i < s->size; ++i)
        state[i] = (uint8_t)(i * 7 + i / 256 + 1);
    if (s->size < 576)
        return;
    memset(state + MAGIC_AT, 0, 48);
    memset(state + IN_USE_AT, 0, 64);
    memcpy(state + XCR0_AT, &s->features, sizeof s->features);
    memcpy(state + IN_USE_AT, &s->in_use, sizeof s->in_use);
}

// What is in the state, as the kernel reads it: sizes, magic numbers and header; the registers, byte by byte.
static void check_state(const struct synthetic *s, const uint8_t *at, const uint8_t *given)
{
    if (s->own_size == AS_STATE_FX) {
        CHECK(memcmp(at, given, AS_STATE_FX) == 0, "%s", s->name);
        return;
    }
    CHECK(word(at + MAGIC_AT) == MAGIC && long_word(at + FEATURES_AT) == s->own_features, "%s", s->name);
    CHECK(word(at + SIZE_AT) == s->own_size, "%s: %u", s->name, word(at + SIZE_AT));
    CHECK(word(at + EXTENDED_AT) == s->own_size + 4, "%s: %u", s->name, word(at + EXTENDED_AT));
    CHECK(word(at + s->own_size) == END_MAGIC, "%s", s->name);
    CHECK(long_word(at + IN_USE_AT) == (s->in_use & s->own_features), "%s", s->name);
    for (size_t i = 0; i < 28; ++i)
        CHECK(at[SIZE_AT + 4 + i] == 0, "%s: byte %zu of what is reserved", s->name, i);
    for (size_t i = 8; i < 64; ++i)
        CHECK(at[IN_USE_AT + i] == 0, "%s: byte %zu of the header", s->name, i);
    CHECK(memcmp(at, given, MAGIC_AT) == 0, "%s", s->name);
    CHECK(memcmp(at + 576, given + 576, s->own_size - 576) == 0, "%s", s->name);
}

// The context of a handler that returns, as libc's headers know it.
static void check_context(const ucontext_t *u, const struct user_regs_struct *regs, uint64_t mask, bool xsave)
{
    const greg_t *g = u->uc_mcontext.gregs;
    CHECK(u->uc_flags == (xsave ? 7 : 6), "%#lx", u->uc_flags);
    CHECK((uint64_t)g[REG_R8] == regs->r8 && (uint64_t)g[REG_R9] == regs->r9 && (uint64_t)g[REG_R10] == regs->r10);
    CHECK((uint64_t)g[REG_R11] == regs->r11 && (uint64_t)g[REG_R12] == regs->r12);
    CHECK((uint64_t)g[REG_R13] == regs->r13 && (uint64_t)g[REG_R14] == regs->r14 && (uint64_t)g[REG_R15] == regs->r15);
    CHECK((uint64_t)g[REG_RDI] == regs->rdi && (uint64_t)g[REG_RSI] == regs->rsi && (uint64_t)g[REG_RBP] == regs->rbp);
    CHECK((uint64_t)g[REG_RBX] == regs->rbx && (uint64_t)g[REG_RDX] == regs->rdx && (uint64_t)g[REG_RAX] == regs->rax);
    CHECK((uint64_t)g[REG_RCX] == regs->rcx && (uint64_t)g[REG_RSP] == regs->rsp && (uint64_t)g[REG_RIP] == regs->rip);
    CHECK((uint64_t)g[REG_EFL] == regs->eflags);
    CHECK((uint64_t)g[REG_CSGSFS] == (regs->cs | regs->ss << 48), "%#llx", g[REG_CSGSFS]);
    CHECK(memcmp(&u->uc_sigmask, &mask, sizeof mask) == 0);
}

static struct user_regs_struct some_registers(void)
{
    struct user_regs_struct regs;
    uint64_t *all = (uint64_t *)&regs;
    for (size_t i = 0; i < sizeof regs / sizeof *all; ++i)
        all[i] = 0x0101010101010101 * (i + 1);
    regs.cs = 0x33;
    regs.ss = 0x2b;
    regs.orig_rax = (uint64_t)-1;
    return regs;
}

static void test_synthetic(const struct synthetic *s)
{
    static uint8_t state[AS_STATE_MOST];
    static struct as_sigreturn_frame frame;
    const struct user_regs_struct regs = some_registers();
    const struct as_sigreturn_frame_wanted wanted = {
        .top = TOP,
        .way = &SOME_WAY,
        .regs = &regs,
        .state = state,
        .state_size = s->size,
        .layout = s->layout,
        .mask = 0x123456789abcdef0,
    };
    struct as_error err = {0};
    make_state(s, state);
    bool built = as_sigreturn_frame_build(&frame, &wanted, &err);
    CHECK(built == (s->own_size != 0), "%s: %s", s->name, err.text);
    if (!built) {
        CHECK(err.code == AS_UNSUPPORTED && err.text[0] != '\0', "%s", s->name);
        return;
    }
    uint64_t begin = TOP - frame.size;
    CHECK(begin % 16 == 8, "%s", s->name);
    CHECK(frame.stop_stack == begin + 24, "%s", s->name);
    CHECK(long_word(frame.bytes) == SOME_WAY.pop_argument && long_word(frame.bytes + 8) == UINT64_MAX);
    CHECK(long_word(frame.bytes + 16) == SOME_WAY.syscall_return && long_word(frame.bytes + 24) == SOME_WAY.restorer);
    const ucontext_t *u = (const ucontext_t *)(const void *)(frame.bytes + 32);
    check_context(u, &regs, wanted.mask, s->own_size != AS_STATE_FX);
    uint64_t state_at = (uint64_t)(uintptr_t)u->uc_mcontext.fpregs;
    // The kernel may want to read as much as the largest state has.
    CHECK(state_at % 64 == 0 && state_at > begin && state_at + s->size + 4 <= TOP, "%s", s->name);
    check_state(s, frame.bytes + (state_at - begin), state);
}

// One piece of code missing, or a state without bounds.
static void test_refusals(void)
{
    static uint8_t state[AS_STATE_MOST];
    static struct as_sigreturn_frame frame;
    const struct user_regs_struct regs = some_registers();
    const struct as_way_back ways[] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    for (size_t i = 0; i < 3; ++i) {
        struct as_error err = {0};
        const struct as_sigreturn_frame_wanted wanted = {
            .top = TOP, .way = &ways[i], .regs = &regs, .state = state, .state_size = 512, .layout = &NOTHING};
        CHECK(!as_sigreturn_frame_build(&frame, &wanted, &err) && err.code == AS_UNSUPPORTED);
        CHECK(strstr(err.text, "killed"), "%s", err.text);
    }
}

// A call that was interrupted is made again, by the rules of the kernel.
static void test_restart(void)
{
    static const uint8_t state[AS_STATE_FX];
    static struct as_sigreturn_frame frame;
    const struct {
        int64_t call, result;
        uint64_t rax;
        int back;
    } cases[] = {
        {7, -512, 7, 2},
        {7, -513, 7, 2},
        {7, -514, 7, 2},
        {7, -516, SYS_restart_syscall, 2},
        {7, -515, (uint64_t)-515, 0},
        {7, -4, (uint64_t)-4, 0},
        {7, 3, 3, 0},
        {-1, -512, (uint64_t)-512, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct user_regs_struct regs = some_registers();
        struct as_error err = {0};
        regs.orig_rax = (uint64_t)cases[i].call;
        regs.rax = (uint64_t)cases[i].result;
        const struct as_sigreturn_frame_wanted wanted = {
            .top = TOP, .way = &SOME_WAY, .regs = &regs, .state = state, .state_size = 512, .layout = &NOTHING};
        CHECK(as_sigreturn_frame_build(&frame, &wanted, &err), "%s", err.text);
        regs.rax = cases[i].rax;
        regs.rip -= (unsigned)cases[i].back;
        check_context((const ucontext_t *)(const void *)(frame.bytes + 32), &regs, 0, false);
    }
}

// --- A thread that goes it ---

// The pieces of code, and a function that leaves no register as it was. It returns 0, which is the number of read, with a
// pipe's end for the first argument.
__asm__(".text\n"
        "way_pop:\tpop %rdi\n\tret\n"
        "way_syscall:\tsyscall\n\tret\n"
        "way_restorer:\tmov $15, %rax\n\tsyscall\n"
        "way_function:\n\t"
        "mov %rdi, %rcx\n\t" // a state without anything in it
        "mov %rdx, %r8\n\t"  // the pipe
        "mov %rsi, %rax\n\t" // features
        "mov %rsi, %rdx\n\t"
        "shr $32, %rdx\n\t"
        "test %rax, %rax\n\t"
        "jz 1f\n\t"
        "xrstor64 (%rcx)\n\t"
        "jmp 2f\n"
        "1:\tfxrstor64 (%rcx)\n"
        "2:\tmov %r8, %rdi\n\t"
        "lea -8(%rsp), %rsi\n\t"
        "mov $1, %edx\n\t"
        "mov $-1, %r8\n\tmov %r8, %r9\n\tmov %r8, %r10\n\tmov %r8, %r11\n\tmov %r8, %r12\n\tmov %r8, %r13\n\t"
        "mov %r8, %r14\n\tmov %r8, %r15\n\tmov %r8, %rbx\n\tmov %r8, %rbp\n\t"
        "xor %eax, %eax\n\t"
        "ret\n");
extern const uint8_t way_pop[], way_syscall[], way_restorer[], way_function[];

static uint64_t address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

// The thread's own: what is told from one process to the other.
struct shared {
    struct hold hold;
    volatile int32_t number; // stands for errno
    volatile int failed;
    // The kernel's own frame of the thread, before it waits: its size, its features, what is in use.
    uint32_t frame_size;
    uint64_t frame_features, frame_in_use;
    _Alignas(64) uint8_t empty[HOLD_BYTES];
};
static struct shared *shared;
static int pipe_ends[2];

static void on_signal(int signal, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    const uint8_t *state = (const uint8_t *)u->uc_mcontext.fpregs;
    (void)signal;
    (void)info;
    if (word(state + MAGIC_AT) != MAGIC)
        return;
    shared->frame_size = word(state + SIZE_AT);
    shared->frame_features = long_word(state + FEATURES_AT);
    shared->frame_in_use = long_word(state + IN_USE_AT);
}

static void hold_in_child(uint64_t features, bool permitted)
{
    if (permitted && hold_ask_for_tiles() != 0)
        _exit(2);
    signal(SIGALRM, SIG_DFL);
    alarm(60);
    hold_prepare(&shared->hold, features, 99);
    const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    hold_spin(&shared->hold);
    const char *changed = hold_difference(&shared->hold);
    if (changed)
        fprintf(stderr, "changed: %s\n", changed);
    shared->failed = changed != NULL;
    _exit(0);
}

// What the kernel has written for a handler of this very thread must be what we write.
static void compare_with_the_kernels(const uint8_t *state)
{
    if (shared->frame_size == 0)
        return;
    CHECK(word(state + SIZE_AT) == shared->frame_size, "%u, not %u", word(state + SIZE_AT), shared->frame_size);
    CHECK(word(state + EXTENDED_AT) == shared->frame_size + 4);
    CHECK(long_word(state + FEATURES_AT) == shared->frame_features, "%#" PRIx64, long_word(state + FEATURES_AT));
    CHECK((long_word(state + IN_USE_AT) | 3) == shared->frame_in_use, "%#" PRIx64, long_word(state + IN_USE_AT));
}

// Makes the thread call the function, and lets go of it at once.
static void send_on_its_way(pid_t pid, uint64_t stack_top, int32_t number)
{
    static uint8_t state[AS_STATE_MOST];
    static struct as_sigreturn_frame frame;
    struct as_xsave_layout layout;
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    struct iovec vectors = {state, sizeof state};
    struct as_error err = {0};
    uint64_t mask;
    const struct as_way_back way = {address(way_pop), address(way_syscall), address(way_restorer)};
    CHECK(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all) == 0);
    CHECK(ptrace(PTRACE_GETREGSET, pid, shared->hold.features ? NT_X86_XSTATE : NT_PRFPREG, &vectors) == 0);
    CHECK(ptrace(PTRACE_GETSIGMASK, pid, sizeof mask, &mask) == 0);
    as_xsave_layout_read(&layout);
    const struct as_sigreturn_frame_wanted wanted = {
        .top = stack_top,
        .way = &way,
        .regs = &regs,
        .state = state,
        .state_size = vectors.iov_len,
        .layout = &layout,
        .mask = mask,
        .errno_at = address((const void *)&shared->number),
        .errno_value = number,
    };
    CHECK(as_sigreturn_frame_build(&frame, &wanted, &err), "%s", err.text);
    uint64_t begin = stack_top - frame.size;
    size_t last = 0; // the last context
    for (size_t i = 24; i + 8 < frame.size && long_word(frame.bytes + i) == way.restorer; i += 312)
        last = i + 8;
    const ucontext_t *u = (const ucontext_t *)(const void *)(frame.bytes + last);
    if (shared->hold.features)
        compare_with_the_kernels(frame.bytes + ((uint64_t)(uintptr_t)u->uc_mcontext.fpregs - begin));
    struct iovec local = {frame.bytes, frame.size};
    struct iovec remote = {(void *)(uintptr_t)begin, frame.size};
    CHECK(process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)frame.size);
    regs.rip = address(way_function);
    regs.rsp = begin;
    regs.rdi = address(shared->empty);
    regs.rsi = shared->hold.features;
    regs.rdx = (uint64_t)pipe_ends[0];
    regs.orig_rax = (uint64_t)-1;
    CHECK(ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &all) == 0);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
}

static void stop_it(pid_t pid)
{
    int status;
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
}

static void test_going(const char *name, uint64_t features, bool permitted, int32_t number)
{
    enum { STACK = 64 * 1024 };
    char names[200];
    shared = share(sizeof *shared);
    static const uint16_t control = 0x37f;
    static const uint32_t mxcsr = 0x1f80;
    memcpy(shared->empty, &control, sizeof control);
    memcpy(shared->empty + 24, &mxcsr, sizeof mxcsr);
    uint8_t *stack = share(STACK);
    shared->number = number ^ -1;
    CHECK(pipe(pipe_ends) == 0 && write(pipe_ends[1], "x", 1) == 1);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        hold_in_child(features, permitted);
    for (int i = 0; shared->hold.ready == 0; ++i) {
        CHECK(i < 10000, "a child did not get ready");
        sleep_ms(1);
    }
    CHECK(kill(pid, SIGUSR1) == 0);
    for (int i = 0; features != 0 && shared->frame_in_use == 0; ++i) {
        CHECK(i < 10000, "a signal did not come");
        sleep_ms(1);
    }
    stop_it(pid);
    send_on_its_way(pid, address(stack) + STACK, number);
    for (int i = 0; shared->number != number; ++i) {
        CHECK(i < 10000, "%s: errno is %d, not %d", name, shared->number, number);
        sleep_ms(1);
    }
    shared->hold.go = 1;
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %#x", name, (unsigned)status);
    CHECK(!shared->failed, "%s", name);
    // The call to which the function returns must have done nothing.
    char byte = 0;
    CHECK(read(pipe_ends[0], &byte, 1) == 1 && byte == 'x');
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    printf("%s, errno %d: came back with %s\n", name, number, hold_names(features, names, sizeof names));
    munmap(stack, STACK);
    munmap(shared, sizeof *shared);
}

int main(void)
{
    for (size_t i = 0; i < sizeof synthetics / sizeof synthetics[0]; ++i)
        test_synthetic(&synthetics[i]);
    test_refusals();
    test_restart();
    uint64_t all = hold_features();
    uint64_t without = all & ~(uint64_t)HOLD_TILEDATA;
    const int32_t numbers[] = {0, 11, 2047, 2048, 4711, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i)
        test_going("every feature but the tiles", without, false, numbers[i]);
    test_going("as without XSAVE", 0, false, EAGAIN);
    if (all == without)
        return 0;
    test_going("tiles permitted, not in use", without, true, EAGAIN);
    test_going("tiles in use", all, true, EAGAIN);
    return 0;
}

#else

int main(void)
{
    puts("on x86-64 only");
    return 77;
}

#endif
