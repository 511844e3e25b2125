// SPDX-License-Identifier: MIT
// CPython says which release it is (Py_Version), and gives each thread its state (PyGILState_GetThisThreadState, which takes no lock:
// a key of the thread's own). The structures behind are those of Include/cpython/ and Include/internal/ of the release; from 3.13 on
// _PyRuntime publishes where their fields are, and must say the same. Nothing is believed by that alone: a thread's state names the
// thread, a frame's code is of the type "code", and frames are linked as the C stack is.
#include "profile/python.h"
#include "profile/objects.h"

#include <string.h>

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
     .other = 72},
    {.release = 0x030c, .cframe = 56, .thread_id = 136, .cframe_previous = 8, .bytecode = 192, FROM_3_12},
    {.release = 0x030d, .current = 72, .thread_id = 152, .bytecode = 200, FROM_3_12, .published = {19, 28, 34}},
    {.release = 0x030e, .current = 72, .thread_id = 152, .bytecode = 208, FROM_3_12, .published = {22, 31, 39}},
};

struct as_python as_python;

// Of _PyRuntime's groups of offsets: which word is which, from the group's beginning.
enum { STATE_CURRENT = 4, STATE_THREAD_ID = 5, FRAME_PREVIOUS = 1, FRAME_CODE = 2, FRAME_INSTRUCTION = 3 };
enum { CODE_FILE = 1, CODE_NAME = 3, CODE_LINES = 4, CODE_FIRST_LINE = 5, CODE_BYTECODE = 9 };
#define RUNTIME_COOKIE UINT64_C(0x7970677562656478) // "xdebugpy"
enum { RUNTIME_FREE_THREADED = 2, TYPE_DEALLOC = 48 };

static bool says_the_same(const struct as_python_layout *l, const uint64_t *runtime)
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

// Where the object lies, and whether its variables are at the slot: what is protected after relocation stays as it is.
static bool has_variable(const struct as_recorder_object *o, uintptr_t slot)
{
    bool writable = false;
    as_python.start = UINTPTR_MAX;
    as_python.end = 0;
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];
        uintptr_t start = o->bias + h->p_vaddr, end = start + h->p_memsz;
        bool inside = slot >= start && slot < end;
        if (h->p_type == PT_GNU_RELRO && inside)
            return false;
        if (h->p_type != PT_LOAD)
            continue;
        writable |= inside && (h->p_flags & PF_W);
        as_python.start = start < as_python.start ? start : as_python.start;
        as_python.end = end > as_python.end ? end : as_python.end;
    }
    return writable;
}

static bool take(const struct as_recorder_object *o, const struct as_python_layout *l)
{
    uintptr_t runtime = address_of(o, "_PyRuntime", STT_OBJECT);
    if (l->published.state && (!runtime || !says_the_same(l, (const uint64_t *)runtime)))
        return false;
    as_python.layout = *l;
    as_python.state = (void *(*)(void))address_of(o, "PyGILState_GetThisThreadState", STT_FUNC);
    as_python.current = (void *(*)(void))address_of(o, "_PyThreadState_UncheckedGet", STT_FUNC);
    if (!as_python.current)
        as_python.current = as_python.state;
    as_python.is_initialized = (int (*)(void))address_of(o, "Py_IsInitialized", STT_FUNC);
    as_python.code_type = address_of(o, "PyCode_Type", STT_OBJECT);
    as_python.text_type = address_of(o, "PyUnicode_Type", STT_OBJECT);
    as_python.bytes_type = address_of(o, "PyBytes_Type", STT_OBJECT);
    as_python.dealloc_slot = as_python.code_type + TYPE_DEALLOC;
    as_python.may_watch = as_python.code_type && has_variable(o, as_python.dealloc_slot);
    return as_python.state && as_python.is_initialized && as_python.code_type && as_python.text_type &&
           as_python.bytes_type;
}

static int find(struct dl_phdr_info *info, size_t size, void *context)
{
    struct as_recorder_object o;
    (void)size;
    if (!as_recorder_read_object(info, &o) || !o.hash)
        return 0;
    uintptr_t release = address_of(&o, "Py_Version", STT_OBJECT); // since 3.11
    if (!release && !address_of(&o, "_PyRuntime", STT_OBJECT))
        return 0;
    uint32_t number = release ? as_inner_half(release) >> 16 : AS_PROFILE_RELEASE_UNKNOWN;
    if (!as_recorder_is_relocated(&o)) {
        *(bool *)context = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (number == layouts[i].release && take(&o, &layouts[i]))
            return 1;
    as_python.unknown = number;
    return 0;
}

// A program that is not linked to be moved may have copies of a library's variables (R_*_COPY): types are then not found to be right,
// and no frames are read.
bool as_python_find(void)
{
    bool unfinished = false;
    if (atomic_load(&as_python.found))
        return true;
    as_python.unknown = 0;
    if (!dl_iterate_phdr(find, &unfinished))
        return !unfinished;
    as_python.unknown = 0;
    atomic_store_explicit(&as_python.found, true, memory_order_release);
    return true;
}

bool as_python_forget(void)
{
    return atomic_exchange(&as_python.found, false);
}

// In an object that is being loaded, the variable has no address yet.
void as_python_watch(bool in)
{
    if (!atomic_load(&as_python.found) || !as_python.may_watch)
        return;
    uintptr_t *slot = (uintptr_t *)as_python.dealloc_slot;
    uintptr_t there = __atomic_load_n(slot, __ATOMIC_RELAXED), ours = (uintptr_t)as_python_dealloc;
    if (in && there > as_python.start && there < as_python.end) {
        atomic_store(&as_python.dealloc, (void (*)(void *))there);
        memset(as_python_codes, 0, sizeof as_python_codes); // who died since the last profile was not seen
        __atomic_store_n(slot, ours, __ATOMIC_RELEASE);
    } else if (!in && there == ours) {
        __atomic_store_n(slot, (uintptr_t)atomic_load(&as_python.dealloc), __ATOMIC_RELEASE);
    }
}
