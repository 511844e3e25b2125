// SPDX-License-Identifier: MIT
// CPython's frames as a thread's own allocations see them. docs/profile.md says what is read, and what is not. Internal to profile/.
//
//   python.c         where CPython is in this process, and which layout its structures have
//   python_watch.c   the hook that sees code objects die
//   python_code.c    what a code object is recognised by
//   python_walk.c    the frames of the calling thread
//   python_recent.c  whether they are those of one of the thread's last contexts
//   python_names.c   function, file and line of a frame that is seen for the first time
#pragma once

#include "recorder/interp_frames.h"

#include <pthread.h>

#pragma GCC visibility push(hidden) // of what is declared, too: else its address is read from a table each time

extern _Atomic uint64_t as_python_deaths; // of code objects, as as_python_dealloc() has seen

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
    uint16_t initialized;                   // of _PyRuntime: an int
    struct {
        uint16_t state, frame, code;
    } published; // where _PyRuntime has the offsets in these structures, in words; 0: it has none
};

// What may be the key of the threads' states: a Py_tss_t in _PyRuntime, an int that is 1 where the key is in use, and the key.
struct as_python_key {
    uintptr_t place;
    _Atomic uint64_t words;
};
enum { AS_PYTHON_KEYS = 64 };

struct as_python {
    _Atomic bool found;
    uint32_t unknown; // as in as_profile_head
    struct as_python_layout layout;
    uintptr_t runtime, runtime_end; // _PyRuntime, as far as it is read
    bool stays;                     // the object that has it was there when the process started: nobody unloads it
    _Atomic bool was_initialized;   // when it was seen last, where it may be unloaded
    _Atomic bool has_keys;          // those of an interpreter that is initialised
    _Atomic uint32_t key;           // which of `keys` it is, + 1; 0: it is not known
    _Atomic uint32_t key_count;
    struct as_python_key keys[AS_PYTHON_KEYS];
    uintptr_t start, size; // of the object that has it
    uintptr_t code_type, text_type, bytes_type;
    uintptr_t dealloc_slot; // of the type of code objects
};
extern struct as_python as_python;

// These offsets of PyObject and PyVarObject, of str and bytes are the same in all releases.
enum { AS_PYTHON_TYPE = 8, AS_PYTHON_SIZE = 16, AS_PYTHON_HASH = 24, AS_PYTHON_STATE = 32, AS_PYTHON_BYTES = 32 };

// What is read of a frame, and of a _PyCFrame, from its beginning.
enum { AS_PYTHON_FRAME_READ = 72, AS_PYTHON_CFRAME_READ = 24 };

// The characters of a str, of 1, 2 or 4 bytes each. False: it is none.
struct as_python_text {
    uintptr_t at, length;
    uint32_t kind;
    bool ascii;
};
bool as_python_text(uintptr_t object, struct as_python_text *text);
// The bytes of a bytes object.
bool as_python_bytes(uintptr_t object, struct as_python_text *bytes);

// A frame of the last walk, and the words that say so. An instruction is one of the frame's code object.
struct as_python_words {
    uintptr_t frame; // its address
    uintptr_t previous, instruction;
    uintptr_t entry;  // the entry that it is run by, if it is the outermost one of it; else 0
    uintptr_t beyond; // what this entry leads to
    uintptr_t place;  // the next entry, outwards
};
struct as_python_seen {
    struct as_python_words at;
    uint64_t key;
    uint64_t hash; // of this frame and all outer ones
};
enum { AS_PYTHON_SEEN = AS_RECORDER_DEPTH, AS_PYTHON_PLACES = 1 << 8 };
// The frames of the thread's last walk, the outermost one first.
struct as_python_last {
    uint64_t since;  // as as_recorder.readable_since: all of them are readable
    uint64_t deaths; // of code objects
    uintptr_t state; // of the thread
    size_t count;
    size_t depth;                     // frames of the last walk itself; 0: not all of them are kept
    uint64_t mark;                    // as_recent_mark()
    struct as_inner_near near;        // the last page with a frame
    uint8_t places[AS_PYTHON_PLACES]; // by a frame's address, where it may be
    struct as_python_seen frames[AS_PYTHON_SEEN];
    struct as_python_seen fresh[AS_PYTHON_SEEN]; // of this walk, the innermost one first
};

// Its code objects cannot have died unseen, and what it read is readable still.
static inline bool as_python_is_current(const struct as_python_last *last)
{
    return last->since == atomic_load_explicit(&as_recorder.readable_since, memory_order_relaxed) &&
           last->deaths == atomic_load_explicit(&as_python_deaths, memory_order_relaxed);
}

// The entry that runs the frame leads on to where it did. That an entry of 3.11 ends with another frame than it did is seen by the next
// entry's.
static inline bool as_python_enters_same(const struct as_python_layout *l, const struct as_python_words *w)
{
    if (__builtin_expect(w->entry == 0, 1))
        return true;
    uintptr_t link = l->is_entry ? l->cframe_previous : l->previous;
    return as_inner_word(w->entry + link) == w->beyond &&
           (!l->is_entry || w->previous == 0 || as_inner_word(w->beyond + l->cframe_current) == w->previous);
}

// The frame stands where it did, and leads on to where it did: to be asked only where it has been reached by what leads to it.
static inline bool as_python_is_same(const struct as_python_layout *l, const struct as_python_words *w)
{
    return ((as_inner_word(w->frame + l->instruction) ^ w->instruction) |
            (as_inner_word(w->frame + l->previous) ^ w->previous)) == 0 &&
           as_python_enters_same(l, w);
}

// Whether it is initialised, and does not end. To be asked only where its variables are there: where it stays, or of a thread that is in
// it.
static inline bool as_python_is_initialized(void)
{
    bool is = as_inner_half(as_python.runtime + as_python.layout.initialized) != 0;
    if (__builtin_expect(!is && !as_python.stays, 0))
        atomic_store_explicit(&as_python.was_initialized, false, memory_order_relaxed);
    return is;
}

// Its frames cannot be read, as it begins or ends: it is in functions of C alone, as it seems.
static inline bool as_python_is_hidden(void)
{
    if (!atomic_load_explicit(&as_python.found, memory_order_acquire))
        return false;
    return as_python.stays ? !as_python_is_initialized()
                           : !atomic_load_explicit(&as_python.was_initialized, memory_order_relaxed);
}

// python.c: takes the loader's lock. False: there may be one that is not there yet, or not any more: it has to be searched for again.
bool as_python_find(void);

// Which key leads to the threads' states, + 1: by that of the calling thread. 0: it has none.
uint32_t as_python_find_key(void);
// Whether this is the state of the calling thread.
bool as_python_is_own_state(uintptr_t state);
// Whether a state says that the thread is in a function of Python's, by where its frames begin. `begin`: what the state has there.
static inline bool as_python_is_in(const struct as_python_layout *l, uintptr_t state, uintptr_t begin)
{
    enum { BYTES = 512 }; // of a state: the part in which its first _PyCFrame is, which has no frame
    return l->cframe ? begin - state - 1 >= BYTES - 1 : begin != 0;
}
// The same, of a state that may be gone, as it is a variable of an object which may be unloaded: the kernel is asked what is there.
bool as_python_is_known_in(uintptr_t state);
// Whether it is such a variable: the first thread's is.
static inline bool as_python_may_lose(uintptr_t state)
{
    return !as_python.stays && state - as_python.start < as_python.size;
}
// What is read of a state; and where a type has its tp_dealloc.
enum { AS_PYTHON_STATE_READ = 168, AS_PYTHON_TYPE_DEALLOC = 48 };

// What CPython keeps as the calling thread's state, without a call of CPython's; 0: there is none. The key is read anew
// where this can be done: another interpreter has another one.
static inline uintptr_t as_python_state(void)
{
    uint32_t found = atomic_load_explicit(&as_python.key, memory_order_acquire);
    if (__builtin_expect(found == 0, 0) && (found = as_python_find_key()) == 0)
        return 0;
    const struct as_python_key *key = &as_python.keys[found - 1];
    uint64_t words =
        as_python.stays ? as_inner_word(key->place) : atomic_load_explicit(&key->words, memory_order_relaxed);
    return (uint32_t)words == 1 ? (uintptr_t)pthread_getspecific((pthread_key_t)(words >> 32)) : 0;
}

// python_watch.c: puts as_python_dealloc into its slot, and forgets all code objects; or takes it out. Takes the loader's lock.
void as_python_watch(bool in);

// python_walk.c: a hash of all that says which Python functions and lines the calling thread is in, 0 where it is in none; and the
// frames themselves, if `walk` is not NULL. `sp` and all above it is on the thread's own stack. False: the frames are about to be
// changed, or are not what they should be.
bool as_python_walk(const struct as_recorder_thread *thread, uintptr_t sp, struct as_inner_walk *walk, uint64_t *hash);
// python_recent.c: the context, if the thread has been in it lately (context_memo.h); else 0, and *outdated becomes
// true where an entry with the same call has another version.
uint32_t as_python_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_attempt *attempt);
// Where the thread's last walk can be recalled: its innermost frames go into the entry. False: it cannot.
struct as_recorder_recent;
bool as_python_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                           struct as_recorder_recent *recent, uint64_t *hash);

// python_names.c: the frame as the tables keep it.
uint64_t as_python_name(struct as_inner_walk *walk, const struct as_inner_frame *frame);

// python_code.c: a number for all that says which function a code object is, and which lines it has. False: it is none.
// It is remembered if `keep`: if its death will be seen.
bool as_python_identify(uintptr_t code, bool keep, uint64_t *identity);
bool as_python_is_object(uintptr_t object, uintptr_t size, uintptr_t type);
void as_python_code_dies(uintptr_t code);
void as_python_forget_codes(void); // all that is known of them

void as_python_dealloc(void *code); // python_watch.c: stands in the type's slot

// The frames that the walk before has found, if the last one is kept. False: they have to be read.
bool as_python_walk_again(const struct as_recorder_thread *thread, struct as_inner_walk *walk);

// Whether a code object's death is seen: then what is known of it by its address can be believed until then. To be asked as
// as_python_is_initialized() is.
static inline bool as_python_sees_deaths(void)
{
    return as_inner_word(as_python.dealloc_slot) == (uintptr_t)as_python_dealloc;
}

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

#pragma GCC visibility pop
