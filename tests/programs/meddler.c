// SPDX-License-Identifier: MIT
// A library to preload: two functions that the agent calls, by its constructor and as it starts its thread. The first changes errno,
// as any function may, and makes the directory $MEDDLER_ESCAPED if it can call getpgid under a seccomp filter; the second holds
// up its caller until the file $MEDDLER_UNTIL is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *secure_getenv(const char *name)
{
    const char *escaped = getenv("MEDDLER_ESCAPED");
    if (escaped && prctl(PR_GET_SECCOMP) != 0 && getpgid(0) > 0)
        mkdir(escaped, 0700);
    errno = EXDEV;
    return getenv(name);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    const char *until = getenv("MEDDLER_UNTIL");
    while (until && access(until, F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, run, argument);
}
