// SPDX-License-Identifier: MIT
// CPython says which release it is (Py_Version), and keeps each thread's state as a value of the thread's own, by a key of libc's, which
// _PyRuntime names. None of its functions is called, as it may be unloaded at any time, unseen: the thread's own state is read first, and
// _PyRuntime only where it stays, or where this state says that the thread is in CPython, which then cannot go. All else is read while the
// loader's lock is held. The structures behind are those of Include/cpython/ and Include/internal/ of the release; from 3.13 on
// _PyRuntime publishes where their fields are, and must say the same. Nothing is believed by that alone: a thread's state names the
// thread, a frame's code is of the type "code", and frames are linked as the C stack is.
#include "recorder/python/python.h"
#include "recorder/code_objects.h"

#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FROM_3_12                                                                                                      \
    .code = 0, .previous = 8, .instruction = 56, .first_line = 68, .file = 112, .name = 128, .lines = 136,             \
    .ascii = 40, .other = 56

static const struct as_python_layout layouts[] = {
    {.release = 0x030b,
     .cframe = 56,
     .thread_id = 152,
     .cframe_current = 8,
     .cframe_previous = 16,
     .code = 32,
     .previous = 48,
     .instruction = 56,
     .is_entry = 68,
     .first_line = 72,
     .file = 112,
     .name = 128,
     .lines = 136,
     .bytecode = 184,
     .ascii = 48,
     .other = 72,
     .initialized = 16},
    {.release = 0x030c,
     .cframe = 56,
     .thread_id = 136,
     .cframe_previous = 8,
     .bytecode = 192,
     FROM_3_12,
     .initialized = 16},
    {.release = 0x030d,
     .current = 72,
     .thread_id = 152,
     .bytecode = 200,
     FROM_3_12,
     .initialized = 600,
     .published = {19, 28, 34}},
    {.release = 0x030e,
     .current = 72,
     .thread_id = 152,
     .bytecode = 208,
     FROM_3_12,
     .initialized = 776,
     .published = {22, 31, 39}},
};

struct as_python as_python;

// Which word is which in _PyRuntime's groups of offsets, from the group's beginning.
enum { STATE_CURRENT = 4, STATE_THREAD_ID = 5, FRAME_PREVIOUS = 1, FRAME_CODE = 2, FRAME_INSTRUCTION = 3 };
enum { CODE_FILE = 1, CODE_NAME = 3, CODE_LINES = 4, CODE_FIRST_LINE = 5, CODE_BYTECODE = 9 };
#define RUNTIME_COOKIE UINT64_C(0x7970677562656478) // "xdebugpy"
enum { RUNTIME_FREE_THREADED = 2, PUBLISHED_READ = 512 };

static bool is_same(const struct as_python_layout *l, const uint64_t *runtime)
{
    const uint64_t *state = runtime + l->published.state, *frame = runtime + l->published.frame,
                   *code = runtime + l->published.code;
    return runtime[0] == RUNTIME_COOKIE && runtime[RUNTIME_FREE_THREADED] == 0 && state[STATE_CURRENT] == l->current &&
           state[STATE_THREAD_ID] == l->thread_id && frame[FRAME_PREVIOUS] == l->previous &&
           frame[FRAME_CODE] == l->code && frame[FRAME_INSTRUCTION] == l->instruction && code[CODE_FILE] == l->file &&
           code[CODE_NAME] == l->name && code[CODE_LINES] == l->lines && code[CODE_FIRST_LINE] == l->first_line &&
           code[CODE_BYTECODE] == l->bytecode;
}

static uintptr_t address_of(const struct as_recorder_object *o, const char *name, int type)
{
    const ElfW(Sym) *symbol = as_recorder_find_symbol(o, name, type);
    return symbol ? o->bias + symbol->st_value : 0;
}

// --- The state of a thread --------------------------------------------------------------------------------------------

bool as_python_is_own_state(uintptr_t state)
{
    return state != 0 && state % sizeof state == 0 && as_inner_readable(state, AS_PYTHON_STATE_READ) &&
           as_inner_word(state + as_python.layout.thread_id) == as_recorder_self();
}

bool as_python_is_known_in(uintptr_t state)
{
    const struct as_python_layout *l = &as_python.layout;
    uintptr_t begin = 0, id = 0;
    struct iovec to[] = {{&begin, sizeof begin}, {&id, sizeof id}};
    struct iovec from[] = {{(void *)(state + (l->cframe ? l->cframe : l->current)), sizeof begin},
                           {(void *)(state + l->thread_id), sizeof id}};
    int saved = errno;
    long got = syscall(SYS_process_vm_readv, syscall(SYS_getpid), to, 2L, from, 2L, 0L);
    errno = saved;
    return got == sizeof begin + sizeof id && id == as_recorder_self() && as_python_is_in(l, state, begin);
}

// The words of _PyRuntime that may be a key's. What is none of the threads' states leads to no state that names its thread.
static void read_keys(void)
{
    uint32_t count = 0;
    for (uintptr_t at = as_python.runtime; at + sizeof(uint64_t) <= as_python.runtime_end; at += sizeof(uint32_t)) {
        uint64_t words = as_inner_word(at);
        if ((uint32_t)words != 1 || words >> 32 >= PTHREAD_KEYS_MAX || count == AS_PYTHON_KEYS)
            continue;
        as_python.keys[count].place = at;
        atomic_store_explicit(&as_python.keys[count++].words, words, memory_order_relaxed);
    }
    atomic_store(&as_python.key_count, count);
}

// While the loader's lock is held.
static void read_runtime(void)
{
    uint32_t key = atomic_load(&as_python.key);
    bool initialized = as_inner_half(as_python.runtime + as_python.layout.initialized) != 0;
    if (key != 0)
        atomic_store(&as_python.keys[key - 1].words, as_inner_word(as_python.keys[key - 1].place));
    else
        read_keys();
    atomic_store(&as_python.was_initialized, initialized);
}

static bool leads_to_state(uint64_t words)
{
    uintptr_t state = (uintptr_t)pthread_getspecific((pthread_key_t)(words >> 32));
    return state != 0 && (as_python_may_lose(state) ? as_python_is_known_in(state) : as_python_is_own_state(state));
}

uint32_t as_python_find_key(void)
{
    if (!pthread_getspecific) // weak: before glibc 2.34 a program without libpthread has none
        return 0;
    if (as_python.stays ? !as_python_is_initialized() : !atomic_load(&as_python.was_initialized))
        return 0;
    if (as_python.stays && !atomic_load(&as_python.has_keys)) {
        read_keys();
        atomic_store(&as_python.has_keys, true);
    }
    uint32_t count = atomic_load(&as_python.key_count);
    for (uint32_t i = 0; i < count; i++)
        if (leads_to_state(atomic_load(&as_python.keys[i].words))) {
            atomic_store_explicit(&as_python.key, i + 1, memory_order_release);
            return i + 1;
        }
    return 0;
}

// --- Which CPython there is -------------------------------------------------------------------------------------------

enum { MOST_RUNTIME = 1 << 14 }; // bytes: what else is there are CPython's objects

// As much of _PyRuntime as is read: among the object's variables. False: it is not there.
static bool find_runtime(const struct as_recorder_object *o, uintptr_t *start, uintptr_t *end)
{
    const ElfW(Sym) *symbol = as_recorder_find_symbol(o, "_PyRuntime", STT_OBJECT);
    if (!symbol)
        return false;
    *start = o->bias + symbol->st_value;
    *end = *start + (symbol->st_size < MOST_RUNTIME ? symbol->st_size : MOST_RUNTIME);
    return *start % sizeof *start == 0 && as_recorder_has_variable(o, *start, *end - *start);
}

static void take_types(const struct as_recorder_object *o)
{
    as_python.code_type = address_of(o, "PyCode_Type", STT_OBJECT);
    as_python.text_type = address_of(o, "PyUnicode_Type", STT_OBJECT);
    as_python.bytes_type = address_of(o, "PyBytes_Type", STT_OBJECT);
    as_python.dealloc_slot = as_python.code_type + AS_PYTHON_TYPE_DEALLOC;
}

// Another one than before; nobody believes in the one before any more.
static void take_another(const struct as_recorder_object *o, const struct as_python_layout *l, bool stays)
{
    atomic_store(&as_python.found, false);
    atomic_store(&as_python.key, 0);
    atomic_store(&as_python.key_count, 0);
    atomic_store(&as_python.has_keys, false);
    as_python.stays = stays;
    as_python.layout = *l;
    find_runtime(o, &as_python.runtime, &as_python.runtime_end);
    as_recorder_find_ends(o, &as_python.start, &as_python.size);
    take_types(o);
}

static bool take_python(const struct as_recorder_object *o, const struct as_python_layout *l, bool stays)
{
    uintptr_t runtime = 0, end = 0;
    if (!find_runtime(o, &runtime, &end) || end - runtime < l->initialized + sizeof(uint32_t) ||
        (l->published.state && (end - runtime < PUBLISHED_READ || !is_same(l, (const uint64_t *)runtime))) ||
        !address_of(o, "PyCode_Type", STT_OBJECT) || !address_of(o, "PyUnicode_Type", STT_OBJECT) ||
        !address_of(o, "PyBytes_Type", STT_OBJECT))
        return false;
    if (!atomic_load(&as_python.found) || as_python.runtime != runtime || as_python.layout.release != l->release ||
        as_python.code_type != address_of(o, "PyCode_Type", STT_OBJECT))
        take_another(o, l, stays);
    read_runtime();
    return true;
}

struct python_finding {
    bool is_behind_loader; // what the process did not start with is behind ld.so in the list
    bool may_change;
};

static int find_python(struct dl_phdr_info *info, size_t size, void *context)
{
    struct python_finding *f = context;
    struct as_recorder_object o;
    (void)size;
    if (!as_recorder_read_object(info, &o))
        return 0;
    f->is_behind_loader |= as_recorder_is_loader(&o);
    if (!o.hash)
        return 0;
    uintptr_t release = address_of(&o, "Py_Version", STT_OBJECT); // since 3.11
    if (!release && !address_of(&o, "_PyRuntime", STT_OBJECT))
        return 0;
    f->may_change |= f->is_behind_loader;
    uint32_t number = release ? as_inner_half(release) >> 16 : AS_PROFILE_RELEASE_UNKNOWN;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (number == layouts[i].release && take_python(&o, &layouts[i], !f->is_behind_loader))
            return 1;
    as_python.unknown = number;
    return 0;
}

// A program that is not linked to be moved may have copies of a library's variables (R_*_COPY): types are then not found to be right,
// and no frames are read.
bool as_python_find(void)
{
    struct python_finding f = {0};
    if (atomic_load(&as_python.found) && as_python.stays)
        return true;
    as_python.unknown = 0;
    bool there = dl_iterate_phdr(find_python, &f) != 0;
    if (there)
        as_python.unknown = 0;
    atomic_store_explicit(&as_python.found, there, memory_order_release);
    return !f.may_change;
}
