// SPDX-License-Identifier: MIT
// Preloaded into arenadump: kills each process that it forks and that traces a target, by SIGKILL, behind the ptrace request
// number $DIES_AT of its own; $DIES_AFTER microseconds later, in which the thread goes on. 0, or a number that is not reached:
// it lives.
//
// Where a death would leave the thread with registers of another's on its own stack, it lives, too. $DIES_LOG tells: a line
// "exposed N" for each time that a thread gets such registers, to make system call N, "bare" where it was to be killed in such
// a state, "killed" where it was.
//
// The first $DENIED times that a process attaches to a thread the answer is EPERM, as the kernel's is for a first thread that has just
// ended, while another one, which executes a program, is about to have its id.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

static pid_t first;
static struct user_regs_struct own; // of the thread that was seized last
static int known, bare;

#if defined(__x86_64__)
#define PLACE(r) ((r)->rip)
#define STACK(r) ((r)->rsp)
#define NUMBER(r) ((r)->rax)
#else
#define PLACE(r) ((r)->pc)
#define STACK(r) ((r)->sp)
#define NUMBER(r) ((r)->regs[8])
#endif

__attribute__((constructor)) static void begin(void)
{
    first = getpid();
}

static void tell(const char *format, long number)
{
    const char *path = getenv("DIES_LOG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    dprintf(fd, format, number);
    close(fd);
}

static long wanted(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static void watch(int request, void *kind, const struct iovec *data)
{
    if (request == PTRACE_SEIZE)
        known = bare = 0;
    if ((request != PTRACE_GETREGSET && request != PTRACE_SETREGSET) || kind != (void *)NT_PRSTATUS)
        return;
    const struct user_regs_struct *regs = data->iov_base;
    if (request == PTRACE_SETREGSET) {
        bare = known && PLACE(regs) != PLACE(&own) && STACK(regs) == STACK(&own);
        if (bare)
            tell("exposed %ld\n", (long)NUMBER(regs));
    } else if (!known) {
        own = *regs;
        known = 1;
    }
}

static void die(void)
{
    static long count;
    if (++count != wanted("DIES_AT"))
        return;
    tell(bare ? "bare\n" : "killed\n", 0);
    if (bare)
        return;
    usleep((useconds_t)wanted("DIES_AFTER"));
    kill(getpid(), SIGKILL);
}

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    static long denied;
    va_list args;
    va_start(args, request);
    pid_t tid = va_arg(args, pid_t);
    void *address = va_arg(args, void *);
    void *data = va_arg(args, void *);
    va_end(args);
    if (request == PTRACE_SEIZE && denied < wanted("DENIED")) {
        denied++;
        errno = EPERM;
        return -1;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    long result = real(request, tid, address, data);
    if (getpid() != first) {
        watch((int)request, address, data);
        die();
    }
    return result;
}
