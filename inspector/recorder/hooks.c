// SPDX-License-Identifier: MIT
// What stands in the slots instead of malloc and its kin. Each calls libc's function and inspects what it returned: some 3 ns where there
// is nothing to write down. A program may have copied the address: the hooks stay, and pass on, when the profile has ended.
#include "recorder/trace_events.h"

#include <errno.h>

enum { NAP_NS = 1000000 };
enum { MALLOC, CALLOC, REALLOC, MEMALIGN, ALIGNED, POSIX, VALLOC, PVALLOC, DLCLOSE, FREE };
_Static_assert(FREE == AS_RECORDER_HOOKS - 1, "only a trace has it");
_Static_assert((int)DLCLOSE == (int)AS_ENTRY_MALLOCS && (int)FREE == (int)AS_ENTRY_COUNT,
               "the functions with entries come first, in the same order");

#define REAL(index, type) ((type)atomic_load_explicit(&as_recorder_hooks[index].real, memory_order_relaxed))

typedef void *malloc_fn(size_t);
typedef void *two_sizes_fn(size_t, size_t);
typedef void *realloc_fn(void *, size_t);
typedef int posix_fn(void **, size_t, size_t);
typedef void free_fn(void *);

// Macros, as each hook has to inspect its own frame.
#define NOTE(kind, memory, size, alignment)                                                                            \
    do {                                                                                                               \
        void *plain_ = as_recorder_untagged(memory);                                                                   \
        if (plain_ && atomic_load_explicit(&as_recorder.on, memory_order_acquire)) {                                   \
            if (__builtin_expect(atomic_load_explicit(&as_recorder.profiling, memory_order_relaxed), 0)) {             \
                struct as_unwind_registers caller_ = AS_UNWIND_CALLER();                                               \
                as_recorder_note((kind), plain_, (size), (alignment), caller_.pc, caller_.sp, caller_.fp);             \
                break;                                                                                                 \
            }                                                                                                          \
            struct as_recorder_thread *thread_ = as_recorder_thread_at(as_recorder_pointer());                         \
            if (__builtin_expect(as_recorder_wants(thread_, plain_, (size), (alignment)), 0)) {                        \
                struct as_unwind_registers caller_ = AS_UNWIND_CALLER();                                               \
                as_recorder_write(thread_, plain_, (size), caller_.pc, caller_.sp, caller_.fp);                        \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#define NOTE_FREE(kind, memory, before)                                                                                \
    as_recorder_note_free((kind), as_recorder_untagged(memory), (before), (uintptr_t)__builtin_frame_address(0))

static void *hook_malloc(size_t size)
{
    void *memory = REAL(MALLOC, malloc_fn *)(size);
    NOTE(AS_TRACE_MALLOC, memory, size, 0);
    return memory;
}

static void *hook_calloc(size_t count, size_t size)
{
    void *memory = REAL(CALLOC, two_sizes_fn *)(count, size);
    NOTE(AS_TRACE_CALLOC, memory, count * size, 0);
    return memory;
}

// The old block may be another thread's before this returns: its end has the time before. Where the chunk stays where it is, it has
// another size and another owner: the caller has seen to it.
static void *hook_realloc(void *old, size_t size)
{
    bool profiling = old && as_recorder_is_on();
    uint64_t before = profiling ? as_recorder_ticks() : 0;
    void *memory = REAL(REALLOC, realloc_fn *)(old, size);
    bool same = as_recorder_untagged(memory) == as_recorder_untagged(old); // the tag may be another
    if (profiling && !same && (memory || size == 0))
        NOTE_FREE(memory ? AS_TRACE_MOVED_FROM : AS_TRACE_FREE, old, before);
    NOTE(!profiling ? AS_TRACE_MALLOC : same ? AS_TRACE_RESIZED : AS_TRACE_MOVED_TO, memory, size, 0);
    return memory;
}

static void *hook_memalign(size_t alignment, size_t size)
{
    void *memory = REAL(MEMALIGN, two_sizes_fn *)(alignment, size);
    NOTE(AS_TRACE_ALIGNED, memory, size, alignment);
    return memory;
}

static void *hook_aligned_alloc(size_t alignment, size_t size)
{
    void *memory = REAL(ALIGNED, two_sizes_fn *)(alignment, size);
    NOTE(AS_TRACE_ALIGNED, memory, size, alignment);
    return memory;
}

static int hook_posix_memalign(void **memory, size_t alignment, size_t size)
{
    int failed = REAL(POSIX, posix_fn *)(memory, alignment, size);
    if (failed == 0)
        NOTE(AS_TRACE_ALIGNED, *memory, size, alignment);
    return failed;
}

static void *hook_valloc(size_t size)
{
    void *memory = REAL(VALLOC, malloc_fn *)(size);
    NOTE(AS_TRACE_ALIGNED, memory, size, (size_t)1 << as_recorder.page_shift);
    return memory;
}

static void *hook_pvalloc(size_t size)
{
    void *memory = REAL(PVALLOC, malloc_fn *)(size);
    NOTE(AS_TRACE_ALIGNED, memory, size, (size_t)1 << as_recorder.page_shift);
    return memory;
}

// Before the block may be another thread's.
static void hook_free(void *memory)
{
    if (memory && as_recorder_is_on())
        NOTE_FREE(AS_TRACE_FREE, memory, 0);
    REAL(FREE, free_fn *)(memory);
}

// A thread names itself busy before it inspects what the caller has changed. One that is not busy when the first nap is over will see the
// change: all processors see a store long before. (A barrier is a call that a sandbox may forbid.) Another stack pointer is another call,
// as no call enters the recorder while its thread is in another.
bool as_recorder_hooks_left(int naps)
{
    as_recorder_nap(NAP_NS);
    for (size_t i = as_recorder_next_thread(0); i < AS_RECORDER_THREADS; i = as_recorder_next_thread(i + 1)) {
        const struct as_recorder_thread *t = &as_recorder.threads[i];
        uintptr_t busy = atomic_load(&t->busy);
        for (; busy != 0 && atomic_load(&t->busy) == busy; naps--) {
            if (naps <= 0)
                return false;
            as_recorder_nap(NAP_NS);
        }
    }
    return true;
}

// Other code may be loaded where this was: signatures and tables of it must not be found.
int as_recorder_close(as_recorder_dlclose *real, void *library)
{
    int before = errno;
    as_recorder_modules_closing();
    errno = before;
    int failed = real(library);
    int saved = errno;
    as_recorder_modules_closed(failed == 0 && atomic_load(&as_recorder.on));
    errno = saved;
    return failed;
}

static int hook_dlclose(void *library)
{
    return as_recorder_close(REAL(DLCLOSE, as_recorder_dlclose *), library);
}

struct as_recorder_hook as_recorder_hooks[AS_RECORDER_HOOKS];

// Not as an initialiser: a table of addresses takes relocations, and a page of each process, profile or not.
void as_recorder_name_hooks(void)
{
    struct as_recorder_hook *hooks = as_recorder_hooks;
#define HOOK(index, function)                                                                                          \
    do {                                                                                                               \
        hooks[index].name = #function;                                                                                 \
        hooks[index].hook = (uintptr_t)hook_##function;                                                                \
    } while (0)
    HOOK(MALLOC, malloc);
    HOOK(CALLOC, calloc);
    HOOK(REALLOC, realloc);
    HOOK(MEMALIGN, memalign);
    HOOK(ALIGNED, aligned_alloc);
    HOOK(POSIX, posix_memalign);
    HOOK(VALLOC, valloc);
    HOOK(PVALLOC, pvalloc);
    HOOK(DLCLOSE, dlclose);
    HOOK(FREE, free);
}
