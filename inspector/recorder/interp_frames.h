// SPDX-License-Identifier: MIT
// The frames of an interpreter, as a thread's own allocations see them: what CPython's and Ruby's have in common. Internal to profile/.
#pragma once

#include "recorder/recorder.h"

#include <string.h>

#pragma GCC visibility push(hidden) // of what is declared, too: else its address is read from a table each time

// A frame of the calling thread.
struct as_inner_frame {
    uintptr_t place; // within the stack frame of the C function that runs it
    uintptr_t code;
    int64_t at;   // Python: where in the bytecode, in bytes; negative: before the first instruction. Ruby: its address
    uint64_t key; // of function and line
};

// A whole walk, and what comes of it. A few are shared by all threads, as only first sights need one.
struct as_inner_walk {
    bool cut;          // outer frames are missing
    uint16_t language; // AS_PROFILE_PYTHON or AS_PROFILE_RUBY
    size_t count;
    uintptr_t loop, loop_end; // the C function that runs bytecode, where another one has the frames' places; 0: none
    struct as_inner_frame frames[AS_RECORDER_DEPTH];
    uint64_t merged[2 * AS_RECORDER_DEPTH]; // with the frames of C functions
    char name[AS_PROFILE_FUNCTION_NAME], file[AS_PROFILE_FUNCTION_FILE];
};

// Not every field is aligned as a word is.
static inline uintptr_t as_inner_word(uintptr_t address)
{
    uintptr_t word;
    memcpy(&word, (const void *)address, sizeof word);
    return word;
}

static inline uint32_t as_inner_half(uintptr_t address)
{
    uint32_t half;
    memcpy(&half, (const void *)address, sizeof half);
    return half;
}

// Whether the bytes are readable: the kernel is asked once for each page, and again after a while, for all threads. Keeps errno.
bool as_inner_ask(uintptr_t from, uintptr_t size);
enum { AS_INNER_PAGES = 1 << 14 };

static inline bool as_inner_knows_page(uintptr_t page)
{
    return atomic_load_explicit(&as_recorder.readable[page & as_recorder.readable_mask], memory_order_relaxed) ==
           page + 1;
}

static inline bool as_inner_readable(uintptr_t from, uintptr_t size)
{
    uintptr_t page = from >> as_recorder_page_shift(), last = (from + size - 1) >> as_recorder_page_shift();
    return __builtin_expect(page == last && as_inner_knows_page(page), 1) || as_inner_ask(from, size);
}

// A page that is readable; zeros are none.
struct as_inner_near {
    uintptr_t start, bytes;
};

bool as_inner_find_near(uintptr_t from, uintptr_t size, struct as_inner_near *near);

// The same for what is mostly on the page where the one before was.
static inline bool as_inner_readable_near(uintptr_t from, uintptr_t size, struct as_inner_near *near)
{
    uintptr_t offset = from - near->start;
    return __builtin_expect(offset <= near->bytes && size <= near->bytes - offset, 1) ||
           as_inner_find_near(from, size, near);
}

// The pages are asked for again, 10 ms after the last time or later.
void as_inner_forget_pages(void);

// One for the thread, which has one at a time: one that a handler has left by longjmp it takes again. NULL: all are taken.
struct as_inner_walk *as_inner_walk_take(struct as_recorder_thread *thread);
void as_inner_walk_leave(struct as_recorder_thread *thread);

static inline void as_inner_walk_begin(struct as_inner_walk *walk, uint16_t language)
{
    if (!walk)
        return;
    walk->count = 0;
    walk->cut = false;
    walk->language = language;
    walk->loop = walk->loop_end = 0;
}

// A number that is known by another one: `check` is both, so that halves of two are not taken for one.
struct as_inner_known {
    _Atomic uint64_t check, identity;
};

// A hash of some bytes.
uint64_t as_inner_hash(uint64_t hash, uintptr_t at, uintptr_t length);

// What the tables keep of a frame: the function with the names in `walk`, whose first line is known, and a line of it (0: not known).
uint64_t as_inner_line(const struct as_inner_walk *walk, uint32_t first_line, uint64_t line);

#pragma GCC visibility pop
