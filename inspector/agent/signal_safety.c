// SPDX-License-Identifier: MIT
// pthread_create allocates (calloc, for the thread's TLS) and takes locks of the loader's and of its own. A handler that calls it
// must not have interrupted code that holds one of these locks. Two cases are certain:
//   - a thread that waits in a system call which malloc and the loader never make is in neither of them;
//   - nor is a thread that runs code of the application, unless malloc or the loader called that code (an address of theirs is
//     among the nearest words of the stack).
// A futex is waited for everywhere, so the stack is asked there, too: for malloc and the loader, which wait for their locks; and for
// setuid() and its like, which hold the lock of the threads' stacks while they wait for all other threads.
// Every other thread counts as unsafe, and the handler tries again later (signals.c).
#include "agent/signals.h"
#include "recorder/code_objects.h"

#include <elf.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <ucontext.h>

struct code {
    uint64_t start, end;
};

enum {
    LIBC,
    LOADER,
    THREADS, // libpthread, where that is a library of its own (before 2.34)
    MALLOC,  // the library that answers malloc, if it is not libc
    AGENT,
    CODES
};
static struct code codes[CODES];
static struct code malloc_code; // of libc: a little more than malloc.o

// The names are those of libc's functions, one after the other, without pointers that would have to be relocated.
static const char set_id_names[] =
    "setuid\0setgid\0seteuid\0setegid\0setreuid\0setregid\0setresuid\0setresgid\0setgroups\0";
enum { SET_IDS = 9 };
static struct code set_ids[SET_IDS];

enum {
    NEAR = 64,          // words of the stack among which a caller's address stands
    AROUND = 32 * 1024, // malloc.o is about as large, and its static functions lie around the public ones
};

static bool inside(const struct code *c, uint64_t address)
{
    return address >= c->start && address < c->end;
}

struct wanted {
    uint64_t address[CODES];
};

// By libc's own symbols: another library may have functions of these names in front of libc's, which it calls.
static void learn_set_ids(const struct dl_phdr_info *info)
{
    struct as_recorder_object libc;
    if (!as_recorder_read_object(info, &libc) || !libc.hash)
        return;
    const char *name = set_id_names;
    for (size_t i = 0; i < SET_IDS; i++, name += strlen(name) + 1) {
        const ElfW(Sym) *found = as_recorder_find_symbol(&libc, name, STT_FUNC);
        uint64_t start = found ? libc.bias + found->st_value : 0;
        set_ids[i] = (struct code){start, start + (found ? found->st_size : 0)};
    }
}

static int learn_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    const struct wanted *wanted = context;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        struct code c = {info->dlpi_addr + p->p_vaddr, info->dlpi_addr + p->p_vaddr + p->p_memsz};
        for (int k = 0; k < CODES && p->p_type == PT_LOAD; k++) {
            // The loader's base is the address of its header, in whatever segment; its code is what may run.
            bool here = k == LOADER ? info->dlpi_addr == wanted->address[k] && (p->p_flags & PF_X)
                                    : inside(&c, wanted->address[k]);
            if (here && wanted->address[k] != 0) {
                codes[k] = c;
                if (k == LIBC)
                    learn_set_ids(info);
            }
        }
    }
    return 0;
}

static void learn_malloc(void)
{
    const uint64_t functions[] = {
        (uintptr_t)malloc,      (uintptr_t)free,    (uintptr_t)calloc,       (uintptr_t)realloc,
        (uintptr_t)malloc_trim, (uintptr_t)mallopt, (uintptr_t)malloc_stats, (uintptr_t)malloc_usable_size,
        (uintptr_t)memalign};
    struct code all = {UINT64_MAX, 0};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!inside(&codes[LIBC], functions[i]))
            continue;
        all.start = functions[i] < all.start ? functions[i] : all.start;
        all.end = functions[i] > all.end ? functions[i] : all.end;
    }
    malloc_code = codes[LIBC]; // another malloc answers: all of libc, to be safe
    if (all.end == 0)
        return;
    malloc_code.start = all.start - codes[LIBC].start > AROUND ? all.start - AROUND : codes[LIBC].start;
    malloc_code.end = codes[LIBC].end - all.end > AROUND ? all.end + AROUND : codes[LIBC].end;
}

void as_signal_safety_learn(void)
{
    struct wanted wanted = {{
        [LIBC] = (uintptr_t)gnu_get_libc_version,
        [LOADER] = getauxval(AT_BASE),
        [THREADS] = (uintptr_t)pthread_create,
        [MALLOC] = (uintptr_t)malloc,
        [AGENT] = (uintptr_t)as_signal_safety_learn,
    }};
    dl_iterate_phdr(learn_object, &wanted);
    if (codes[THREADS].start == codes[LIBC].start)
        codes[THREADS] = (struct code){0};
    if (codes[MALLOC].start == codes[LIBC].start)
        codes[MALLOC] = (struct code){0};
    learn_malloc();
}

struct registers {
    uint64_t pc, sp;
    uint64_t lr;    // the return address of a function that calls no other (aarch64)
    int64_t result; // the register that holds a system call's result, or its number if it is to be restarted
    int64_t call;
};

static struct registers read_registers(const ucontext_t *u)
{
#if defined(__x86_64__)
    const greg_t *g = u->uc_mcontext.gregs;
    return (struct registers){
        .pc = (uint64_t)g[REG_RIP], .sp = (uint64_t)g[REG_RSP], .result = g[REG_RAX], .call = g[REG_RAX]};
#elif defined(__aarch64__)
    return (struct registers){.pc = u->uc_mcontext.pc,
                              .sp = u->uc_mcontext.sp,
                              .lr = u->uc_mcontext.regs[30],
                              .result = (int64_t)u->uc_mcontext.regs[0],
                              .call = (int64_t)u->uc_mcontext.regs[8]};
#endif
}

// Whether an instruction that calls the kernel stands at `pc`, which is in libc's code.
static bool is_call(uint64_t pc)
{
#if defined(__x86_64__)
    return memcmp((const void *)(uintptr_t)pc, "\x0f\x05", 2) == 0;
#elif defined(__aarch64__)
    return memcmp((const void *)(uintptr_t)pc, "\x01\x00\x00\xd4", 4) == 0;
#endif
}
#if defined(__x86_64__)
enum { CALL_BYTES = 2 };
#elif defined(__aarch64__)
enum { CALL_BYTES = 4 };
#endif

// A return address without the signature that it may have (pointer authentication).
static uint64_t without_signature(uint64_t word)
{
#if defined(__aarch64__)
    register uint64_t lr __asm__("x30") = word;
    __asm__("hint #7" : "+r"(lr)); // xpaclri, which does nothing on a processor that knows no signatures
    return lr;
#else
    return word;
#endif
}

static bool is_in_malloc_or_loader(uint64_t address)
{
    return inside(&codes[LOADER], address) || inside(&malloc_code, address) || inside(&codes[MALLOC], address);
}

static bool is_in_set_id(uint64_t address)
{
    for (size_t i = 0; i < SET_IDS; i++)
        if (inside(&set_ids[i], address))
            return true;
    return false;
}

// Whether one of the nearest words of the stack points into that code. True when the stack cannot be read. (libpthread's code is no
// reason: every thread was called from there, and what of it takes locks calls nobody.)
static bool may_be_called_from(bool (*is_there)(uint64_t address), const struct registers *r)
{
    uint64_t words[NEAR];
    struct iovec local = {words, sizeof words};
    struct iovec remote = {(void *)(uintptr_t)r->sp, sizeof words}; // a short stack may end before
    if (is_there(without_signature(r->lr)))
        return true;
    // By the thread's own number: if the first thread has ended, there is no memory under that of the process.
    long got = syscall(SYS_process_vm_readv, syscall(SYS_gettid), &local, 1UL, &remote, 1UL, 0UL);
    if (got < (long)sizeof *words)
        return true;
    for (size_t i = 0; i < (size_t)got / sizeof *words; i++)
        if (is_there(without_signature(words[i])))
            return true;
    return false;
}

// Calls in which a thread waits for I/O, time or other processes, and which are restarted after a signal. Neither malloc nor
// pthread_create makes one of these; where they read a file, the kernel does not let a signal in. The loader has calls of its
// own, in its own code.
static bool is_waiting_call(int64_t call)
{
    static const uint16_t calls[] = {
        SYS_accept,       SYS_accept4,       SYS_clock_nanosleep,
        SYS_connect,      SYS_epoll_pwait,   SYS_fcntl,
        SYS_flock,        SYS_io_getevents,  SYS_msgrcv,
        SYS_msgsnd,       SYS_nanosleep,     SYS_openat,
        SYS_ppoll,        SYS_pselect6,      SYS_read,
        SYS_readv,        SYS_recvfrom,      SYS_recvmmsg,
        SYS_recvmsg,      SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
        SYS_semop,        SYS_semtimedop,    SYS_sendmsg,
        SYS_sendto,       SYS_wait4,         SYS_waitid,
        SYS_write,        SYS_writev,
#ifdef SYS_poll
        SYS_poll,         SYS_select,        SYS_pause,
        SYS_epoll_wait,
#endif
#ifdef SYS_epoll_pwait2
        SYS_epoll_pwait2,
#endif
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call)
            return true;
    return false;
}

static bool is_fork(int64_t call)
{
    // clone3 is 435 on every machine.
    if (call == SYS_clone || call == 435 || call == SYS_execve)
        return true;
#ifdef SYS_fork
    if (call == SYS_fork || call == SYS_vfork)
        return true;
#endif
    return false;
}

bool as_signal_is_safe(const void *ucontext)
{
    struct registers r = read_registers(ucontext);
    if (codes[LIBC].end == 0 || inside(&codes[LOADER], r.pc) || inside(&codes[AGENT], r.pc) ||
        inside(&codes[MALLOC], r.pc))
        return false;
    bool in_libc = inside(&codes[LIBC], r.pc) || inside(&codes[THREADS], r.pc);
    if (!in_libc)
        return !may_be_called_from(is_in_malloc_or_loader, &r);
    // A wait that was cut short, and that the kernel does not restart: malloc and the loader make none of the kind. A handler of the
    // application's may have cut short that of setuid().
    if (r.result == -EINTR && is_call(r.pc - CALL_BYTES))
        return !may_be_called_from(is_in_set_id, &r);
    // One that it will restart as soon as the handler returns: the call stands at pc, and its number in its register.
    if (!is_call(r.pc) || is_fork(r.call))
        return false;
    return is_waiting_call(r.call) ||
           (!may_be_called_from(is_in_malloc_or_loader, &r) && !may_be_called_from(is_in_set_id, &r));
}
