// SPDX-License-Identifier: MIT
// Preloaded into arenadump: the first $DENIED times that it attaches to a thread the answer is EPERM, as the kernel's is for a first thread
// that has just ended, while another one, which executes a program, is about to have its id.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    static int denied;
    va_list args;
    va_start(args, request);
    pid_t tid = va_arg(args, pid_t);
    void *address = va_arg(args, void *);
    void *data = va_arg(args, void *);
    va_end(args);
    const char *most = getenv("DENIED");
    if (request == PTRACE_SEIZE && most && denied < atoi(most)) {
        denied++;
        errno = EPERM;
        return -1;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    return real(request, tid, address, data);
}
