// SPDX-License-Identifier: MIT
// The loader's lock that dl_iterate_phdr takes. A callback of dl_iterate_phdr may wait for a lock which another thread holds while it
// calls malloc: a malloc that waited for the callback's end would wait for ever. No function of libc's tries this lock, and no symbol
// names it. But it is a mutex of libc's in ld.so's variables, and dl_iterate_phdr itself shows which one.
#include "recorder/code_objects.h"
#include "recorder/recorder.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SHORT_NAP_NS = 10000, SHORT_NAPS = 100, NAP_NS = 1000000, NAPS = 1000 };

// What libc has in a mutex, on all 64-bit machines.
struct mutex_words {
    _Atomic uint32_t lock, count, owner, users, kind;
};

static struct {
    _Atomic(pthread_mutex_t *) lock; // NULL: not found
    _Atomic bool gave_up;            // nobody has had it since somebody has waited in vain
    _Atomic uint32_t lock_owner;     // the recorder's thread that has it, or tries to; 0: none
    uint32_t depth; // how often the recorder has it there: the program may have it besides, in a callback; the owner's
} loader;

// --- Signals ----------------------------------------------------------------------------------------------------------

#define OF(signal) (UINT64_C(1) << ((signal)-1))
// What says that the thread itself has done something cannot wait, and a sandbox may have a handler for it. The two that libc keeps for
// itself: another thread may wait for the answer.
#define NEVER_BLOCKED (OF(SIGSEGV) | OF(SIGBUS) | OF(SIGILL) | OF(SIGFPE) | OF(SIGTRAP) | OF(SIGSYS) | OF(32) | OF(33))

void as_recorder_block_signals(struct as_recorder_signals *before)
{
    const uint64_t most = ~NEVER_BLOCKED;
    int saved = errno;
    before->blocked = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &most, &before->mask, sizeof most) == 0;
    errno = saved;
}

void as_recorder_restore_signals(const struct as_recorder_signals *before)
{
    int saved = errno;
    if (before->blocked)
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before->mask, NULL, sizeof before->mask);
    errno = saved;
}

// --- Which one it is --------------------------------------------------------------------------------------------------

struct lock_search {
    uint32_t self;
    struct mutex_words *found;
    size_t matches;
};

struct one_call {
    struct mutex_words *mutex;
    uint32_t count; // within the call
};

static int read_count(struct dl_phdr_info *info, size_t size, void *context)
{
    struct one_call *call = context;
    (void)info;
    (void)size;
    call->count = atomic_load(&call->mutex->count);
    return 1;
}

// Ours, and deeper by one in a call of dl_iterate_phdr.
static bool is_lock(struct mutex_words *m, uint32_t self)
{
    struct one_call call = {.mutex = m};
    uint32_t before = atomic_load(&m->count);
    if (before == 0 || atomic_load(&m->lock) == 0 || atomic_load(&m->owner) != self ||
        atomic_load(&m->kind) != PTHREAD_MUTEX_RECURSIVE)
        return false;
    dl_iterate_phdr(read_count, &call);
    return call.count == before + 1 && atomic_load(&m->count) == before;
}

static int find_in(struct dl_phdr_info *info, size_t size, void *context)
{
    struct lock_search *s = context;
    struct as_recorder_object o;
    (void)size;
    if (!as_recorder_read_object(info, &o) || strncmp(o.soname, "ld-linux", 8) != 0)
        return 0;
    for (size_t i = 0; i < o.header_count; i++) {
        const ElfW(Phdr) *h = &o.headers[i];
        if (h->p_type != PT_LOAD || (h->p_flags & (PF_R | PF_W)) != (PF_R | PF_W))
            continue;
        uintptr_t start = (o.bias + h->p_vaddr + 7) & ~(uintptr_t)7;
        uintptr_t end = o.bias + h->p_vaddr + h->p_memsz;
        for (uintptr_t at = start; at + sizeof(pthread_mutex_t) <= end; at += 8)
            if (is_lock((struct mutex_words *)at, s->self)) {
                s->found = (struct mutex_words *)at;
                s->matches++;
            }
    }
    return 1;
}

// By a thread that may wait for the lock.
void as_recorder_loader_find(void)
{
    struct lock_search s = {.self = (uint32_t)syscall(SYS_gettid)};
    if (!atomic_load(&loader.lock) && pthread_mutex_trylock) {
        dl_iterate_phdr(find_in, &s);
        atomic_store(&loader.lock, s.matches == 1 ? (pthread_mutex_t *)(void *)s.found : NULL);
    }
}

// --- Taking it --------------------------------------------------------------------------------------------------------

static bool try_to_take(pthread_mutex_t *lock, uint32_t self)
{
    uint32_t none = 0;
    bool again = atomic_load(&loader.lock_owner) == self; // the lock is recursive
    if (!again && !atomic_compare_exchange_strong(&loader.lock_owner, &none, self))
        return false;
    if (pthread_mutex_trylock(lock) == 0) {
        loader.depth++;
        return true;
    }
    if (!again)
        atomic_store(&loader.lock_owner, 0);
    return false;
}

// No nanosleep, which is a cancellation point, and which a sandbox may forbid: what waits for a mutex needs the futex anyway.
void as_recorder_nap(long nanoseconds)
{
    uint32_t never = 0;
    syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){.tv_nsec = nanoseconds}, NULL, 0);
}

// Other threads hold the lock while they map a library or make its table. A thread waits for a second at most. After a wait in vain, no
// thread waits until the lock has been free. Signals are let in between two attempts: who holds the lock may wait for the answer.
bool as_recorder_loader_enter(struct as_recorder_signals *before)
{
    pthread_mutex_t *lock = atomic_load(&loader.lock);
    as_recorder_block_signals(before);
    if (!lock)
        return true; // dl_iterate_phdr waits
    const uint32_t self = as_recorder_own_id();
    for (int i = 0; !try_to_take(lock, self); i++) {
        as_recorder_restore_signals(before);
        if (atomic_load(&loader.gave_up) || i == SHORT_NAPS + NAPS) {
            atomic_store(&loader.gave_up, true);
            return false;
        }
        as_recorder_nap(i < SHORT_NAPS ? SHORT_NAP_NS : NAP_NS);
        as_recorder_block_signals(before);
    }
    atomic_store(&loader.gave_up, false);
    return true;
}

// The owner is known for as long as it has the lock: a child of fork() gives back what it had.
void as_recorder_loader_leave(const struct as_recorder_signals *before)
{
    pthread_mutex_t *lock = atomic_load(&loader.lock);
    uint32_t self = as_recorder_own_id();
    if (lock && atomic_load(&loader.lock_owner) == self) { // else it was not found yet when the thread entered
        bool last = --loader.depth == 0;
        pthread_mutex_unlock(lock);
        if (last)
            atomic_store(&loader.lock_owner, 0);
    }
    as_recorder_restore_signals(before);
}

bool as_recorder_loader_is_found(void)
{
    return atomic_load(&loader.lock) != NULL;
}

// libc gives its other locks of the loader back in a child of fork(), not this one. Had a thread of the recorder's it, which is not
// there, then the list that it guards is whole: the recorder only reads it.
void as_recorder_loader_in_child(void)
{
    struct mutex_words *m = (struct mutex_words *)(void *)atomic_load(&loader.lock);
    atomic_store(&loader.gave_up, false);
    loader.depth = 0;
    uint32_t lock_owner = atomic_exchange(&loader.lock_owner, 0);
    uint32_t owner = m ? atomic_load(&m->owner) : 0;
    if (lock_owner == 0 || !m ||
        (owner != 0 && owner != lock_owner)) // libc sets the owner behind the lock, and takes it away before
        return;
    atomic_store(&m->owner, 0);
    atomic_store(&m->count, 0);
    atomic_store(&m->users, 0);
    atomic_store(&m->lock, 0);
}
