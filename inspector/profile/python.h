// SPDX-License-Identifier: MIT
// CPython's frames as a thread's own allocations see them. docs/profile.md says what is read, and what is not. Internal to profile/.
//
//   python.c        where CPython is in this process, and which layout its structures have
//   python_code.c   what a code object is recognised by
//   python_walk.c   the frames of the calling thread
//   python_names.c  function, file and line of a frame that is seen for the first time
#pragma once

#include "profile/inner.h"

// Offsets in the structures of one release, all in bytes.
struct as_python_layout {
    uint16_t release;                         // 0x030b: 3.11
    uint16_t cframe, current, thread_id;      // of PyThreadState; before 3.13 the current frame is the _PyCFrame's
    uint16_t cframe_current, cframe_previous; // of _PyCFrame
    uint16_t code, previous, instruction,
        is_entry;                           // of _PyInterpreterFrame; is_entry 0: entries are frames on the C stack
    uint16_t first_line, file, name, lines; // of PyCodeObject
    uint16_t bytecode;                      // the same
    uint16_t ascii;                         // of a str: its characters, where all are ASCII
    uint16_t other;                         // where not
    struct {
        uint16_t state, frame, code;
    } published; // where _PyRuntime has the offsets in these structures, in words; 0: it has none
};

struct as_python {
    _Atomic bool found;
    uint32_t unknown; // as in as_profile_head
    struct as_python_layout layout;
    int (*is_initialized)(void);
    void *(*state)(void); // of the calling thread
    uintptr_t code_type, text_type, bytes_type;
    uintptr_t start, end;            // of the object that has it
    uintptr_t dealloc_slot;          // of the type of code objects
    bool may_watch;                  // it can be written
    void (*_Atomic dealloc)(void *); // what stood there
};
extern struct as_python as_python;

// Of PyObject and PyVarObject, of str and bytes: the same in all releases.
enum { AS_PYTHON_TYPE = 8, AS_PYTHON_SIZE = 16, AS_PYTHON_HASH = 24, AS_PYTHON_STATE = 32, AS_PYTHON_BYTES = 32 };

// The characters of a str, of 1, 2 or 4 bytes each. False: it is none.
struct as_python_text {
    uintptr_t at, length;
    uint32_t kind;
    bool ascii;
};
bool as_python_text(uintptr_t object, struct as_python_text *text);
// The bytes of a bytes object.
bool as_python_bytes(uintptr_t object, struct as_python_text *bytes);

// A frame of the last walk: what stood in it.
struct as_python_seen {
    uintptr_t frame; // its address
    uintptr_t previous, instruction, code;
    uintptr_t entry;  // the entry that it is run by, if it is the outermost one of it; else 0
    uintptr_t beyond; // what this entry leads to
    uintptr_t place;  // the next entry, outwards
    uint64_t hash;    // of this frame and all outer ones
};
enum { AS_PYTHON_SEEN = AS_RECORDER_DEPTH, AS_PYTHON_PLACES = 1 << 8 };
// The frames of the thread's last walk, the outermost one first.
struct as_python_last {
    uint64_t since;  // as as_recorder.readable_since: all of them are readable
    uint64_t deaths; // of code objects
    uintptr_t state; // of the thread
    size_t count;
    uint8_t places[AS_PYTHON_PLACES]; // by a frame's address, where it may be
    struct as_python_seen frames[AS_PYTHON_SEEN];
    struct as_python_seen fresh[AS_PYTHON_SEEN]; // of this walk, the innermost one first
};

// python.c: takes the loader's lock.
void as_python_find(void);
// CPython is not believed to be there any more, until it is looked for again. Whether it was.
bool as_python_forget(void);

// Puts as_python_dealloc into its slot, and forgets all code objects; or takes it out.
void as_python_watch(bool in);

// python_walk.c: a hash of all that says which Python functions and lines the calling thread is in, 0 where it is in none; and the
// frames themselves, if `walk` is not NULL. `sp` and all above it is on the thread's own stack. False: the frames are about to be
// changed, or are not what they should be.
bool as_python_walk(const struct as_recorder_thread *thread, uintptr_t sp, struct as_inner_walk *walk, uint64_t *hash);
// python_names.c: the frame as the tables keep it.
uint64_t as_python_name(struct as_inner_walk *walk, const struct as_inner_frame *frame);

// python_code.c: a number for all that says which function a code object is, and which lines it has. False: it is none.
// It is remembered if `keep`: if its death will be seen.
bool as_python_identify(uintptr_t code, bool keep, uint64_t *identity);
bool as_python_is_object(uintptr_t object, uintptr_t size, uintptr_t type);
void as_python_dealloc(void *code);       // stands in the type's slot
extern _Atomic uint64_t as_python_deaths; // that it has seen

enum { AS_PYTHON_KNOWN = 1 << 12 };
// The numbers of code objects by their addresses.
extern struct as_inner_known as_python_codes[AS_PYTHON_KNOWN]; // never unmapped: code objects may die at any time

static inline struct as_inner_known *as_python_known_at(uintptr_t code)
{
    return &as_python_codes[(code >> 4 ^ code >> 16) & (AS_PYTHON_KNOWN - 1)];
}

static inline bool as_python_remembers(uintptr_t code, uint64_t *identity)
{
    const struct as_inner_known *known = as_python_known_at(code);
    *identity = atomic_load_explicit(&known->identity, memory_order_relaxed);
    return (atomic_load_explicit(&known->check, memory_order_relaxed) ^ *identity) == code;
}
