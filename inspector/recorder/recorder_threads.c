// SPDX-License-Identifier: MIT
#include "recorder/hot_path.h"
#include "recorder/stack_memo.h"

#include "unwind/rule.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MOST_PAGES = 512,   // between a stack pointer and what is known of the stack
    FOREIGN_PAGES = 16, // of a stack that is not the thread's own: coroutines, sigaltstack
    NEAR = 64 << 10,
    DESCRIPTOR = 4096, // bytes before and behind a thread pointer in which libc's descriptor of the thread is
};

// Offset of the thread id from the thread pointer (glibc 2.31 to 2.44). 0: the descriptor lies in front, and its size differs.
#if defined(__x86_64__)
enum { ID_IN_DESCRIPTOR = 720 };
#else
enum { ID_IN_DESCRIPTOR = 0 };
#endif

// A profile that was begun from another thread does not know the main thread's pointer.
static bool is_main(uintptr_t pointer)
{
    uintptr_t known = as_recorder.main_pointer;
    return known ? pointer == known : syscall(SYS_gettid) == getpid();
}

// Where readable memory ends above `from`, in whole pages, `most` pages at most; not above `to`.
static uintptr_t readable_end(uintptr_t from, uintptr_t to, size_t most)
{
    uintptr_t page = (uintptr_t)1 << as_recorder.page_shift;
    uintptr_t at = (from | (page - 1)) + 1; // the page of `from` itself is in use
    for (; at < to && most > 0 && as_recorder_is_readable(at); most--)
        at += page;
    return at < to ? at : to;
}

// The uppermost return address on the stack of the thread that begins a profile, behind which there is no caller. (Stacks are unwound from
// the other end, but an injected agent's frames are in no table.) 0: it is not found, or a coroutine that runs on another stack begins the
// profile.
static uintptr_t find_start(uintptr_t pointer)
{
    struct as_recorder_thread reader = {0}; // nobody frees the list now
    const struct as_unwind_modules *modules = as_recorder_modules_take(&reader);
    const uintptr_t *here = __builtin_frame_address(0), *at = (const uintptr_t *)pointer;
    if (readable_end((uintptr_t)here, pointer, MOST_PAGES) < pointer)
        return 0;
    while (--at > here) {
        uint64_t rule = as_unwind_module_at(modules, *at) ? as_unwind_rule_behind(modules, NULL, *at) : 0;
        if (as_unwind_kind(rule) == AS_UNWIND_SPECIAL && as_unwind_cfa(rule) == AS_UNWIND_END)
            return *at;
    }
    return 0;
}

// What the kernel clears when the thread ends is the id itself before 2.43. It is asked only where it has to be: a sandbox may not
// allow this call.
void as_recorder_threads_begin(void)
{
    int *at = NULL, tid = (int)syscall(SYS_gettid);
    uintptr_t pointer = as_recorder_pointer();
    as_recorder.descriptor = pointer - (uintptr_t)pthread_self();
    bool found = ID_IN_DESCRIPTOR != 0 && *(at = (int *)(pointer + ID_IN_DESCRIPTOR)) == tid;
    if (!found)
        found =
            prctl(PR_GET_TID_ADDRESS, &at) == 0 && (uintptr_t)at - pointer + DESCRIPTOR < 2 * DESCRIPTOR && *at == tid;
    as_recorder.tid_offset = found ? (int64_t)((uintptr_t)at - pointer) : INT64_MAX;
    as_recorder.thread_start = tid == getpid() ? 0 : find_start(pointer);
}

static void find_id(struct as_recorder_thread *t, uintptr_t pointer)
{
    int saved = errno;
    uintptr_t at = pointer + (uintptr_t)as_recorder.tid_offset;
    t->name = 0;
    t->tid_at = &t->tid;
    if (as_recorder.tid_offset != INT64_MAX && at % sizeof(uint32_t) == 0 && as_recorder_is_readable(at)) {
        t->tid = 0; // as no thread's
        t->tid_at = (const volatile uint32_t *)at;
    }
    errno = saved;
}

// What is there is its id only if the kernel says so, too: not in a child that was made without libc, nor in a thread whose
// descriptor is not libc's. Such a one is not known from then on. In a trace each event has its thread: its contexts have none.
void as_recorder_thread_name(struct as_recorder_thread *t)
{
    struct as_recorder *r = &as_recorder;
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    t->low = t->foreign = 0; // its stack may be smaller than that of the thread that was here before
    t->beside = false;
    if (t->before)
        t->before->python.state = 0; // the mark of another name is made anew
    atomic_signal_fence(memory_order_seq_cst);
    if (*t->tid_at != tid) {
        t->name = 0;
        __atomic_store_n(&t->tid_at, &t->tid, __ATOMIC_RELAXED);
        return;
    }
    t->tid = tid;
    if (r->hooks == AS_RECORDER_HOOKS) {
        as_recorder_end_in_child();
        return;
    }
    uint64_t place = as_recorder_take_places(&r->head->threads, 1);
    t->name = place != UINT64_MAX ? (uint16_t)place : 0;
    if (t->name)
        r->threads_named[place] = (struct as_profile_thread){.tid = tid, .pid = (uint32_t)r->head->pid};
}

void as_recorder_thread_introduce(void)
{
    struct as_recorder_thread *t = as_recorder_thread_make(as_recorder_pointer());
    if (t && as_recorder_is_another(t))
        as_recorder_thread_name(t);
}

struct as_recorder_thread *as_recorder_thread_make(uintptr_t pointer)
{
    size_t place = as_recorder_thread_place(pointer);
    for (size_t i = 0; i < AS_RECORDER_PROBES; i++) {
        size_t at = (place + i) & (AS_RECORDER_THREADS - 1);
        struct as_recorder_thread *t = &as_recorder.threads[at];
        uintptr_t there = 0;
        // Before it is: who searches for threads misses none.
        if (atomic_load_explicit(&t->pointer, memory_order_relaxed) == 0)
            atomic_fetch_or(&as_recorder_taken.threads[at / 64], UINT64_C(1) << at % 64);
        if (!atomic_compare_exchange_strong(&t->pointer, &there, pointer) && there != pointer)
            continue;
        if (there == pointer) // a signal handler was here in between
            return t;
        t->index = (uint16_t)at;
        t->high = pointer;
        t->main = is_main(pointer);
        find_id(t, pointer);
        uint32_t last = atomic_fetch_add(&as_recorder.lasts_taken, 1);
        // Before its first event: a thread that gets a block from this one sees that there are two.
        if (last > 0)
            atomic_store(&as_recorder.threaded, true);
        t->before = last < as_recorder.last_count ? &as_recorder.lasts[last] : NULL;
        t->random = pointer ^ as_recorder.head->started_ns;
        t->until = as_recorder.mean ? as_recorder_distance(&t->random, as_recorder.mean) : INT64_MAX;
        return t;
    }
    return NULL;
}

// A thread's own stack ends at its thread pointer (libc lays the thread's descriptor there), or above main's frames. Between a stack
// pointer on it and this end, all is readable: the frames in between are in use. Whether a stack pointer is on it is asked of the
// kernel once for each page, as a coroutine's stack may lie below.
static bool is_own(struct as_recorder_thread *t, uintptr_t sp)
{
    if (sp >= t->low && t->low != 0)
        return sp < t->high;
    // The main thread's is above all libraries, and so above its pointer; below there may be a coroutine's. qemu-user has it below them.
    // Where the pointer of the one that was started is not known, this may be another one, which has called fork(): on a thread's stack.
    if (t->main && t->low == 0) {
        uintptr_t pointer = atomic_load(&t->pointer), high = as_recorder.main_high;
        bool there = sp > pointer || (sp < high && high < pointer);
        if (!there && as_recorder.main_pointer)
            return false;
        t->high = there ? high : pointer;
    }
    uintptr_t known = t->low ? t->low : t->high;
    uintptr_t page = (uintptr_t)1 << as_recorder.page_shift;
    if (sp >= known || known - sp > (t->beside ? NEAR : MOST_PAGES * page) ||
        (t->foreign && sp + NEAR > t->foreign && sp < t->foreign + NEAR))
        return false;
    if (readable_end(sp, known, MOST_PAGES + 1) < known) {
        t->foreign = sp;
        return false;
    }
    t->low = sp & ~(page - 1);
    return true;
}

void as_recorder_stack_is_another(struct as_recorder_thread *t, uintptr_t sp, uintptr_t low)
{
    t->low = low;
    t->foreign = sp;
    t->beside = true;
}

// A handler that has interrupted the recorder stands below its frames, or on another stack: this may be a variable of a
// function further out, above them. (A coroutine is switched to by a handler alone, as the recorder calls nobody.)
bool as_recorder_was_left(const struct as_recorder_thread *thread, uintptr_t busy, uintptr_t sp)
{
    if (sp < busy || busy < thread->low || sp >= thread->high)
        return false;
    int saved = errno;
    stack_t now;
    bool left = sigaltstack(NULL, &now) == 0 && !(now.ss_flags & SS_ONSTACK);
    errno = saved;
    return left;
}

struct as_unwind_stacks as_recorder_stacks(struct as_recorder_thread *t, uintptr_t sp, bool *own)
{
    *own = is_own(t, sp);
    if (*own)
        return (struct as_unwind_stacks){.end = t->high};
    return (struct as_unwind_stacks){.end = readable_end(sp, UINTPTR_MAX, FOREIGN_PAGES),
                                     .interrupted_start = t->low,
                                     .interrupted_end = t->low ? t->high : 0};
}
