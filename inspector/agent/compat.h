// SPDX-License-Identifier: MIT
// Included before every file of the library, so that a process with any glibc since 2.17 can load it, wherever it was built. A
// symbol that moved or was renamed since is linked by its oldest version, or replaced by a system call; libdw is not used.
// tests/agent/test_agent.py checks the result with readelf.
#pragma once

#include "config.h"

#undef HAVE_LIBDW
#undef HAVE_LIBPNG
// A copy in each process has to be small. It does not locate what few processes have: allocators that seldom answer malloc in glibc's
// place (musl never does here), cppgc, metaspace, the stacks of goroutines, the tables of tracemalloc.
#define AS_AGENT
// AS_NO_RECORDER: defined where inspector/recorder/ is left out, too (the gem).

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// libpthread became part of libc in 2.34, and its functions got a second version there. Built against an older glibc they have no
// version: as weak symbols they do not make libpthread a library that is needed, and only such a library lends its versions.
#if !__GLIBC_PREREQ(2, 34)
#define AS_OLD_SYMBOL(name)
#else
#if defined(__x86_64__)
#define AS_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define AS_OLDEST_GLIBC "GLIBC_2.17"
#endif
#define AS_OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@" AS_OLDEST_GLIBC);
#endif
AS_OLD_SYMBOL(pthread_create)
AS_OLD_SYMBOL(pthread_join)
AS_OLD_SYMBOL(pthread_attr_setstacksize)
AS_OLD_SYMBOL(pthread_mutex_trylock)
AS_OLD_SYMBOL(pthread_key_create)
AS_OLD_SYMBOL(pthread_setspecific)
AS_OLD_SYMBOL(pthread_getspecific)
// And before that not every process had libpthread: what may be missing is weak, and called by thread.c alone, which has it
// loaded, or where it is there; the core starts no threads in here.
#pragma weak pthread_create
#pragma weak pthread_join
#pragma weak pthread_attr_setstacksize
#pragma weak pthread_mutex_trylock
#pragma weak pthread_key_create
#pragma weak pthread_setspecific
#pragma weak pthread_getspecific

// stat and its kin are symbols of libc's since 2.33 only (macros for __xstat before). On these machines libc's struct stat is
// the kernel's.
static inline int as_compat_fstatat(int dir, const char *path, struct stat *out, int flags)
{
    return (int)syscall(SYS_newfstatat, dir, path, out, flags);
}
static inline int as_compat_fstat(int fd, struct stat *out)
{
    return as_compat_fstatat(fd, "", out, AT_EMPTY_PATH);
}
#define fstatat as_compat_fstatat
#define fstat as_compat_fstat

// fcntl64 since 2.28, memfd_create since 2.27, getrandom since 2.25.
static inline int as_compat_fcntl(int fd, int command, unsigned long argument)
{
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
static inline int as_compat_memfd(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}
static inline ssize_t as_compat_getrandom(void *buffer, size_t size, unsigned flags)
{
    return syscall(SYS_getrandom, buffer, size, flags);
}
#define fcntl(fd, command, argument) as_compat_fcntl(fd, command, (unsigned long)(argument))
#define memfd_create as_compat_memfd
#define getrandom as_compat_getrandom

static inline int as_compat_sigmask(int how, const void *set, void *before)
{
    return syscall(SYS_rt_sigprocmask, how, set, before, sizeof(uint64_t)) == 0 ? 0 : errno;
}
#define pthread_sigmask as_compat_sigmask

// libc's allocates, for a translation (errors.c).
const char *as_compat_strerror(int number);
#define strerror as_compat_strerror
