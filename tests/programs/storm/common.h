// SPDX-License-Identifier: MIT
// What all parts of storm.cc use.
#pragma once

#include <dlfcn.h>
#include <iconv.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace
{

std::atomic<bool> over;
const char *plugins[2];

__attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    dprintf(STDERR_FILENO, "wrong: ");
    vdprintf(STDERR_FILENO, format, list);
    dprintf(STDERR_FILENO, "\n");
    signal(SIGABRT, SIG_DFL);
    abort();
}

void check(bool right, const char *what)
{
    if (!right)
        wrong("%s", what);
}

int status_of(pid_t child, int options = 0)
{
    int status;
    while (waitpid(child, &status, options) != child)
        check(errno == EINTR, "waitpid");
    return status;
}

bool ended_with(int status, int code)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

void nap(long microseconds)
{
    usleep(static_cast<useconds_t>(microseconds));
}

void *map(size_t bytes, int protection)
{
    void *memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    return memory;
}

void have_signal_stack()
{
    constexpr size_t SIZE = 65536;
    stack_t stack = {};
    stack.ss_sp = map(SIZE, PROT_READ | PROT_WRITE);
    stack.ss_size = SIZE;
    sigaltstack(&stack, nullptr);
}

} // namespace
