// SPDX-License-Identifier: MIT
#include "agent/errors.h"
#include "arenascope.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// A thread's last error lies in memory of its own, which it gets with its first call and which another thread may have once it
// has ended. No more than a pointer is thread-local: a library that is loaded late gets little room there, and what the
// loader allocates later it takes from malloc.
struct slot {
    struct slot *next;
    pid_t owner;
    struct as_error err;
};

static struct slot *slots; // never shrinks: one for each thread that ever called, at the same time
static __thread struct slot *mine __attribute__((tls_model("initial-exec")));
static struct as_error spare; // where memory has run out

static pid_t this_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static bool take_over(struct slot *slot, pid_t tid)
{
    pid_t owner = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
    if (owner != tid && (syscall(SYS_tgkill, getpid(), owner, 0) == 0 || errno != ESRCH))
        return false;
    return __atomic_compare_exchange_n(&slot->owner, &owner, tid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static struct as_error *find_slot(void)
{
    pid_t tid = this_thread();
    // A child of fork() has its parent's pointer, and the slots of threads that it has not.
    if (mine && (mine->owner == tid || take_over(mine, tid)))
        return &mine->err;
    for (struct slot *slot = __atomic_load_n(&slots, __ATOMIC_ACQUIRE); slot; slot = slot->next)
        if (take_over(slot, tid)) {
            mine = slot;
            return &slot->err;
        }
    struct slot *slot = mmap(NULL, sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot == MAP_FAILED)
        return &spare;
    slot->owner = tid;
    slot->next = __atomic_load_n(&slots, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&slots, &slot->next, slot, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    mine = slot;
    return &slot->err;
}

const char *as_compat_strerror(int number)
{
    static const struct {
        int number;
        const char *text;
    } known[] = {
        {EPERM, "not permitted"},
        {ENOENT, "no such file or directory"},
        {ESRCH, "no such process"},
        {EINTR, "interrupted"},
        {EIO, "input/output error"},
        {EBADF, "bad file descriptor"},
        {EAGAIN, "a resource is used up for now"},
        {ENOMEM, "out of memory"},
        {EACCES, "permission denied"},
        {EFAULT, "bad address"},
        {EBUSY, "busy"},
        {EEXIST, "exists already"},
        {ENOTDIR, "not a directory"},
        {EISDIR, "a directory"},
        {EINVAL, "invalid argument"},
        {EMFILE, "too many open files"},
        {ENFILE, "too many open files in the system"},
        {EFBIG, "file too large"},
        {ENOSPC, "no space left on device"},
        {EROFS, "read-only file system"},
        {EPIPE, "the other side is gone"},
        {ENAMETOOLONG, "file name too long"},
        {ENOSYS, "not known to this kernel"},
        {ELOOP, "a symbolic link, or too many of them"},
        {EDQUOT, "disk quota exceeded"},
        {ECONNRESET, "the other side is gone"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            return known[i].text;
    static __thread char unknown[16] __attribute__((tls_model("initial-exec")));
    snprintf(unknown, sizeof unknown, "error %d", number);
    return unknown;
}

struct as_call as_call_begin(void)
{
    struct as_call call = {.saved_errno = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.cancel);
    as_quiet_begin(&call.quiet);
    call.err = find_slot();
    *call.err = (struct as_error){0};
    return call;
}

int as_call_end(struct as_call *call, bool ok)
{
    if (ok)
        *call->err = (struct as_error){0};
    int code = ok ? AS_OK : call->err->code != AS_OK ? (int)call->err->code : AS_INTERNAL;
    as_quiet_end(&call->quiet);
    pthread_setcancelstate(call->cancel, NULL);
    errno = call->saved_errno;
    return code;
}

const char *arenascope_error(void)
{
    return mine ? mine->err.text : "";
}
