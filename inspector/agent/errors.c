// SPDX-License-Identifier: MIT
#include "agent/errors.h"
#include "arenascope.h"

#include <errno.h>
#include <string.h>

// A thread's last error lies in a slot, which the thread gets with its first call. When the thread has ended, another one may get
// the slot. Nothing is thread-local: the loader would have to make room for such variables in every thread, under its own lock
// and that of the list of threads, which a thread in setuid() holds until all others have answered.
struct slot {
    struct slot *next;
    pid_t owner, process;
    uintptr_t thread; // the owner's thread pointer
    struct as_error err;
};

static struct slot *slots;    // never shrinks: as many as threads that called and were alive at the same time
static struct as_error spare; // shared, where no memory is left for a slot

static pid_t this_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static uintptr_t thread_pointer(void)
{
    uintptr_t pointer;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
    return pointer;
}

// A child of fork() keeps the slot of the thread that called fork(), and has another tid.
static bool is_mine(const struct slot *slot, pid_t tid, uintptr_t thread)
{
    return __atomic_load_n(&slot->thread, __ATOMIC_RELAXED) == thread &&
           (__atomic_load_n(&slot->owner, __ATOMIC_RELAXED) == tid ||
            __atomic_load_n(&slot->process, __ATOMIC_RELAXED) != getpid());
}

static struct slot *find_own(void)
{
    pid_t tid = this_thread();
    uintptr_t thread = thread_pointer();
    struct slot *slot = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
    while (slot && !is_mine(slot, tid, thread))
        slot = slot->next;
    return slot;
}

static bool take_over(struct slot *slot, pid_t tid)
{
    pid_t owner = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
    if (owner != tid && (syscall(SYS_tgkill, getpid(), owner, 0) == 0 || errno != ESRCH))
        return false;
    return __atomic_compare_exchange_n(&slot->owner, &owner, tid, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static struct as_error *own(struct slot *slot)
{
    __atomic_store_n(&slot->owner, this_thread(), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->process, getpid(), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->thread, thread_pointer(), __ATOMIC_RELAXED);
    return &slot->err;
}

static struct as_error *find_slot(void)
{
    struct slot *slot = find_own();
    if (slot)
        return own(slot);
    for (slot = __atomic_load_n(&slots, __ATOMIC_ACQUIRE); slot; slot = slot->next)
        if (take_over(slot, this_thread()))
            return own(slot);
    slot = mmap(NULL, sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot == MAP_FAILED)
        return &spare;
    own(slot);
    slot->next = __atomic_load_n(&slots, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&slots, &slot->next, slot, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
    return &slot->err;
}

// Both tables have their texts within them: a pointer would be a relocation, and a word that the loader writes, besides.
// "error 0" to "error 139": more than Linux has.
#define TEN(p)                                                                                                         \
    "error " #p "0", "error " #p "1", "error " #p "2", "error " #p "3", "error " #p "4", "error " #p "5",              \
        "error " #p "6", "error " #p "7", "error " #p "8", "error " #p "9"
static const char numbered[][sizeof "error 139"] = {TEN(),  TEN(1), TEN(2), TEN(3),  TEN(4),  TEN(5),  TEN(6),
                                                    TEN(7), TEN(8), TEN(9), TEN(10), TEN(11), TEN(12), TEN(13)};
enum { NUMBERED = sizeof numbered / sizeof *numbered };

const char *as_compat_strerror(int number)
{
    static const struct {
        uint8_t number;
        char text[39];
    } known[] = {
        {EPERM, "not permitted"},
        {ENOENT, "no such file or directory"},
        {ESRCH, "no such process"},
        {EINTR, "interrupted"},
        {EIO, "input/output error"},
        {EBADF, "bad file descriptor"},
        {EAGAIN, "a resource is temporarily unavailable"},
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
        {EPIPE, "the peer has closed the connection"},
        {ENAMETOOLONG, "file name too long"},
        {ENOSYS, "not supported by this kernel"},
        {ELOOP, "a symbolic link, or too many of them"},
        {EDQUOT, "disk quota exceeded"},
        {ECONNRESET, "the peer has closed the connection"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == number)
            return known[i].text;
    return number >= 0 && number < NUMBERED ? numbered[number] : "an unknown error";
}

struct as_error *as_last_error(void)
{
    return find_slot();
}

const char *as_last_error_text(void)
{
    const struct slot *slot = find_own();
    return slot ? slot->err.text : "";
}
