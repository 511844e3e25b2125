// SPDX-License-Identifier: MIT
// The hooks to which libc's functions jump at their entry, where a profile asks for it: so calls are seen that go through no slot, as
// by a pointer that was copied before. They are others than those in slots (hooks.c), which call libc's functions at the entry.
#include "recorder/hot_path.h"

#include "target/target.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static struct {
    uintptr_t real[AS_ENTRY_COUNT]; // the ways to the original functions
    // Code that calls these functions on behalf of another one: they themselves, and this library.
    uintptr_t inner, inner_size, own, own_size;
    struct as_entry_page *page;
} entries;

#if defined(__x86_64__)

enum { FIRST_PAGE = 1 << 16 }; // below it nothing may be mapped

enum { MALLOC, CALLOC, REALLOC, MEMALIGN, ALIGNED, POSIX, VALLOC, PVALLOC, DLCLOSE };

#define REAL(index, type) ((type)entries.real[index])

typedef void *malloc_fn(size_t);
typedef void *two_sizes_fn(size_t, size_t);
typedef void *realloc_fn(void *, size_t);
typedef int posix_fn(void **, size_t, size_t);

// realloc calls malloc, and so does memalign: that is one allocation, by whoever called realloc. So is what a hook in a slot calls.
static inline bool is_inner(uintptr_t caller)
{
    return caller - entries.inner < entries.inner_size || caller - entries.own < entries.own_size;
}

#define NOTE(memory, size, alignment)                                                                                  \
    do {                                                                                                               \
        if ((memory) && atomic_load_explicit(&as_recorder.on, memory_order_acquire) &&                                 \
            !is_inner((uintptr_t)__builtin_return_address(0))) {                                                       \
            struct as_recorder_thread *thread_ = as_recorder_thread_at(as_recorder_pointer());                         \
            if (__builtin_expect(as_recorder_wants(thread_, (memory), (size), (alignment)), 0)) {                      \
                struct as_unwind_registers caller_ = AS_UNWIND_CALLER();                                               \
                as_recorder_write(thread_, (memory), (size), caller_.pc, caller_.sp, caller_.fp);                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static void *entry_malloc(size_t size)
{
    void *memory = REAL(MALLOC, malloc_fn *)(size);
    NOTE(memory, size, 0);
    return memory;
}

static void *entry_calloc(size_t count, size_t size)
{
    void *memory = REAL(CALLOC, two_sizes_fn *)(count, size);
    NOTE(memory, count * size, 0);
    return memory;
}

static void *entry_realloc(void *old, size_t size)
{
    void *memory = REAL(REALLOC, realloc_fn *)(old, size);
    NOTE(memory, size, 0);
    return memory;
}

static void *entry_memalign(size_t alignment, size_t size)
{
    void *memory = REAL(MEMALIGN, two_sizes_fn *)(alignment, size);
    NOTE(memory, size, alignment);
    return memory;
}

static void *entry_aligned_alloc(size_t alignment, size_t size)
{
    void *memory = REAL(ALIGNED, two_sizes_fn *)(alignment, size);
    NOTE(memory, size, alignment);
    return memory;
}

static int entry_posix_memalign(void **memory, size_t alignment, size_t size)
{
    int failed = REAL(POSIX, posix_fn *)(memory, alignment, size);
    if (failed == 0)
        NOTE(*memory, size, alignment);
    return failed;
}

static void *entry_valloc(size_t size)
{
    void *memory = REAL(VALLOC, malloc_fn *)(size);
    NOTE(memory, size, (size_t)1 << as_recorder_page_shift());
    return memory;
}

static void *entry_pvalloc(size_t size)
{
    void *memory = REAL(PVALLOC, malloc_fn *)(size);
    NOTE(memory, size, (size_t)1 << as_recorder_page_shift());
    return memory;
}

static int entry_dlclose(void *library)
{
    return as_recorder_close(REAL(DLCLOSE, as_recorder_dlclose *), library);
}

static uintptr_t hook_at(size_t index)
{
    switch (index) {
    case MALLOC:
        return (uintptr_t)entry_malloc;
    case CALLOC:
        return (uintptr_t)entry_calloc;
    case REALLOC:
        return (uintptr_t)entry_realloc;
    case MEMALIGN:
        return (uintptr_t)entry_memalign;
    case ALIGNED:
        return (uintptr_t)entry_aligned_alloc;
    case POSIX:
        return (uintptr_t)entry_posix_memalign;
    case VALLOC:
        return (uintptr_t)entry_valloc;
    case PVALLOC:
        return (uintptr_t)entry_pvalloc;
    default:
        return (uintptr_t)entry_dlclose;
    }
}

// Another function before it in the list has the same entry, and its hook does for both.
static bool is_repeated(const struct as_entry_page *page, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (page->entries[i].function == page->entries[index].function)
            return true;
    return false;
}

static void fill_entry_page(struct as_entry_page *page)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    *page = (struct as_entry_page){.magic = AS_ENTRY_MAGIC, .self = (uintptr_t)page};
    for (size_t i = 0; i < AS_ENTRY_COUNT; i++) {
        struct as_entry *e = &page->entries[i];
        size_t size = 0;
        uintptr_t function = as_recorder_function(i, &size);
        e->function = function;
        e->size = size;
        e->hook = hook_at(i);
        entries.real[i] = (uintptr_t)as_entry_place((uintptr_t)page, (uint32_t)i);
        if (function == 0 || is_repeated(page, i)) {
            e->function = 0;
            continue;
        }
        if (i >= AS_ENTRY_MALLOCS)
            continue;
        low = function < low ? function : low;
        high = function + size > high ? function + size : high;
    }
    entries.inner = low;
    entries.inner_size = high - low;
}

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

static void find_own_code(void)
{
    entries.own = (uintptr_t)&__ehdr_start;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(entries.own + __ehdr_start.e_phoff);
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr + segments[i].p_memsz > entries.own_size)
            entries.own_size = segments[i].p_vaddr + segments[i].p_memsz;
}

static bool is_near(uintptr_t address, uintptr_t libc)
{
    return address < libc ? libc - address < AS_ENTRY_REACH : address - libc < AS_ENTRY_REACH;
}

// A page of the gap before a mapping. Not before the stack, which grows there. What reads the list has mappings of its own, which the list
// lacks, at the end of gaps: so pages that are further and further away are tried.
static void *map_before(const struct as_target *t, size_t index, uintptr_t libc)
{
#ifndef MAP_FIXED_NOREPLACE // headers before Linux 4.17; such a kernel takes the address for a hint
#define MAP_FIXED_NOREPLACE 0x100000
#endif
    const struct as_mapping *m = &t->mappings.items[index];
    uint64_t before = index > 0 ? t->mappings.items[index - 1].end : FIRST_PAGE;
    if (as_mapping_path(t, m)[0] == '[')
        return NULL;
    for (uint64_t back = AS_ENTRY_PAGE; m->start > before && back <= m->start - before; back *= 2) {
        uintptr_t wanted = m->start - back;
        if (!is_near(wanted, libc))
            return NULL;
        void *page = mmap((void *)wanted, AS_ENTRY_PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (page == (void *)wanted)
            return page;
        if (page != MAP_FAILED)
            munmap(page, AS_ENTRY_PAGE);
    }
    return NULL;
}

// NULL: there is no room.
static void *map_near(uintptr_t libc)
{
    struct as_error err;
    struct as_target *t = as_target_open_self(false, &err);
    void *found = NULL;
    for (size_t i = 0; t && !found && i < t->mappings.count; i++)
        found = map_before(t, i, libc);
    if (t)
        as_target_close(t);
    return found;
}

bool as_recorder_map_entries(uint64_t *page, struct as_error *err)
{
    size_t length;
    uintptr_t libc = as_recorder_function(MALLOC, &length);
    if (!entries.page) {
        struct as_entry_page *fresh = map_near(libc);
        if (!fresh)
            return as_fail(err, AS_UNSUPPORTED, "there is no room near libc for a page of code");
        find_own_code();
        fill_entry_page(fresh);
#ifdef PR_SET_VMA
        prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, fresh, AS_ENTRY_PAGE, "arenascope entries");
#endif
        if (mprotect(fresh, AS_ENTRY_PAGE, PROT_READ | PROT_EXEC) != 0) {
            munmap(fresh, AS_ENTRY_PAGE);
            return as_fail(err, AS_UNSUPPORTED,
                           "no page of code may be made (systemd's MemoryDenyWriteExecute, a rule of SELinux, or the "
                           "like): record without --entry");
        }
        entries.page = fresh;
    }
    *page = (uintptr_t)entries.page;
    return true;
}

#else

bool as_recorder_map_entries(uint64_t *page, struct as_error *err)
{
    *page = 0;
    (void)entries;
    return as_fail(err, AS_UNSUPPORTED, "entries are patched on x86-64 alone");
}

#endif
