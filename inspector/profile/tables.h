// SPDX-License-Identifier: MIT
// The recorder's tables as they lie in the process's memory: one mapping, which begins with the head. Whoever inspects the process
// (from outside, in a core, or from inside) reads them there. docs/profile.md describes them.
//
// Nothing in here is a pointer: tables lie at offsets from the head, so that a reader can check each against the mapping's size.
#pragma once

#include "trace/format.h"

#include <stdint.h>

#define AS_PROFILE_MAGIC UINT64_C(0x31666f7270657261) // "areprof1"

#define AS_PROFILE_BUFFERS UINT64_C(0x3166756270657261) // "arepbuf1"

enum {
    AS_PROFILE_VERSION = 10,
    AS_PROFILE_SLOT_SHIFT = 5, // chunks are 32 bytes or more: no two begin in the same 32 bytes
    AS_PROFILE_BLOCK_BITS = 28,
    AS_PROFILE_PAGE_BITS = 36,
    AS_PROFILE_PROBES = 32,
    AS_PROFILE_PROBES_EXACT = 512, // where each page is there: at a load of a half, runs get so long
    AS_PROFILE_ID_BITS = AS_TRACE_CONTEXT_BITS,
    AS_PROFILE_DEPTH = 256, // frames of a stack; of a deeper one the innermost
    AS_PROFILE_NAME = 200,
    AS_PROFILE_BUILD_ID = 20,
    AS_PROFILE_FUNCTION_NAME = 256, // bytes of a function's name, its NUL included; what is longer is cut
    AS_PROFILE_FUNCTION_FILE = 512,
};

// What a frame's upper 16 bits say instead of a module's index: the offset is an address; it is a function's index << 24 and a line, of
// one language or another. As a record's file has it.
enum {
    AS_PROFILE_NO_MODULE = AS_TRACE_NO_MODULE,
    AS_PROFILE_PYTHON = AS_TRACE_PYTHON,
    AS_PROFILE_RUBY = AS_TRACE_RUBY,
    AS_PROFILE_LINE_BITS = AS_TRACE_LINE_BITS,
};
enum { AS_PROFILE_MOST_MODULES = 0x7ffe }; // the upper bit of an index is free
enum { AS_PROFILE_THREAD_BITS = 15 };      // of a thread's index, in a context

// What a slot names instead of a context: nobody has allocated there since the profile began; somebody has, and it is not known who.
enum { AS_PROFILE_NOBODY = 0, AS_PROFILE_LOST = 1, AS_PROFILE_FIRST = AS_TRACE_FIRST_CONTEXT };

// A table: `offset` from the head in bytes, and room for `size` entries, of which the first `used` may hold something. (Of the table
// of pages all may.)
struct as_profile_table {
    uint64_t offset;
    uint64_t size;
    uint64_t used;
};

struct as_profile_counts {
    // Chunks whose context is not known: the thread was interrupted in the recorder, room was missing, or the loader's lock was held.
    uint64_t lost;
    uint64_t misses;    // allocations whose context was not found by its signature
    uint64_t checked;   // contexts found by their signature, and unwound nevertheless
    uint64_t wrong;     // of these: the unwound stack was another one
    uint64_t cut;       // stacks of which the outermost frames are missing
    uint64_t samples;   // allocations sampled by bytes
    uint64_t unsampled; // allocations by threads for which there was no room; they are in AS_PROFILE_LOST's context
    uint64_t reloads;   // of the list of modules
};

struct as_profile_head {
    uint64_t magic;
    uint32_t version;
    uint32_t head_size;
    uint64_t self; // address of this head
    uint64_t size; // of the mapping
    uint64_t pid;
    uint32_t on;
    uint32_t page_shift;
    uint32_t rate_shift; // one page in 1 << rate_shift is watched
    uint32_t block_size; // bytes
    uint64_t large;      // chunks of at least so many bytes are recorded wherever they begin
    uint64_t mean;       // bytes between two samples; 0: none are taken
    uint64_t started_ns; // since the epoch
    // uint64_t: the page's number << AS_PROFILE_BLOCK_BITS | its block + 1; of a page that is not watched, its large slot + 1.
    struct as_profile_table pages;
    struct as_profile_table blocks;   // a slot (uint32_t) for each 32 bytes of the page
    struct as_profile_table contexts; // struct as_profile_context; AS_PROFILE_LOST: what was allocated without one
    struct as_profile_table sampled;  // struct as_profile_sampled; the first is not used, the next is AS_PROFILE_LOST's
    // uint64_t: index of the module << 48 | offset; or see AS_PROFILE_NO_MODULE. The first is not used.
    struct as_profile_table frames;
    struct as_profile_table stacks;    // uint32_t: branches of stacks; the first word is not used
    struct as_profile_table modules;   // struct as_profile_module
    struct as_profile_table functions; // struct as_profile_function; the first is not known
    struct as_profile_table texts;     // char: names, each with its NUL; the first is empty
    struct as_profile_table threads;   // struct as_profile_thread; the first stands for those that are not known
    // A slot for each page that is not watched, but on which a large chunk begins: no two do at the same time.
    struct as_profile_table large_slots;
    // uint64_t, a power of two of them: a bit for each 32 bytes of memory, of which many share one. It is set where a
    // chunk was allocated for which there was no room: whose page has no place in the table of pages, or no block.
    // (Once so, it stays so: no room is given back.)
    struct as_profile_table refused;
    struct as_profile_counts counts;
    // Interpreters that are there, and whose frames are not known: major release << 8 | minor; 0: there is none.
    uint32_t unknown_python, unknown_ruby;
    uint32_t at_entries; // the hooks: at the entries of malloc and its kin; 0: in slots
    uint32_t reserved;
};
enum { AS_PROFILE_RELEASE_UNKNOWN = AS_TRACE_SOME_RELEASE }; // but that it is there

// The buffers of a trace are a mapping of their own, which begins with this. What is in them is in its file, or will be.
struct as_profile_buffers {
    uint64_t magic;
    uint64_t self; // address of this head
    uint64_t size; // of the mapping
    uint64_t reserved[5];
};

// Stacks that have their outer frames in common have them once: they are a tree, which lies in the table branch by branch. A branch is a
// head of two words and those of its frames (each the frame's place in the table of frames), each called by the one before it. The first
// word of the head is for the recorder: another branch with the same hash, or 0. The second one says below which stack the branch begins.
// A stack is the index of its innermost frame's word.
enum { AS_PROFILE_STACK_BITS = 27, AS_PROFILE_BRANCH_HEAD = 2 };
#define AS_PROFILE_BRANCH_BIT (UINT32_C(1) << 31) // of a head's words, but for a first one that is 0: no frame has it

// The stack of the caller of a stack's innermost frame. 0: there is none, or it is not known.
static inline uint32_t as_profile_caller(const uint32_t *stacks, uint32_t stack)
{
    uint32_t before = stacks[stack - 1];
    return before & AS_PROFILE_BRANCH_BIT ? before & ~AS_PROFILE_BRANCH_BIT : stack - 1;
}

// A stack, and who was on it. The same stack of another thread is another context.
struct as_profile_context {
    uint32_t stack;
    uint16_t count;        // of its frames
    uint16_t complete : 1; // the last frame is the outermost one
    uint16_t thread : AS_PROFILE_THREAD_BITS;
    uint32_t next;    // for the recorder: another one with the same hash
    uint32_t sampled; // 0: none of its allocations was
};

// A context's allocations that were sampled by bytes.
struct as_profile_sampled {
    uint64_t objects; // what they stand for, in 1/1024
    uint64_t bytes;
    uint32_t samples;
    uint32_t reserved;
};

// A thread that had this id in the process that the profile was begun in, or in its child.
struct as_profile_thread {
    uint32_t tid;
    uint32_t pid; // of its process
};

struct as_profile_module {
    uint64_t start, end; // of its code, where it was first; an object with a build-id has one entry
    uint64_t bias;
    uint8_t build_id[AS_PROFILE_BUILD_ID];
    uint32_t build_id_size;
    char name[AS_PROFILE_NAME]; // "": the program
};

// A function that is interpreted.
struct as_profile_function {
    uint32_t name, file; // in the texts
    uint32_t first_line;
    uint32_t next; // for the recorder: another one with the same hash
};

// The hash that chooses watched pages, and places in the table of pages.
static inline uint64_t as_profile_mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 32;
}

static inline uint64_t as_profile_page_hash(uint64_t page)
{
    return page * UINT64_C(0x9e3779b97f4a7c15);
}

// A page is watched if its hash is not above.
static inline uint64_t as_profile_watched(uint32_t rate_shift)
{
    return UINT64_MAX >> rate_shift;
}

// How many pages stand side by side in the table of pages, as a power of two: 8 where each page is there, as a longer run would collide as
// a whole; up to 512, a page of the table, where few of them are.
static inline uint32_t as_profile_run(uint32_t rate_shift)
{
    return 3 + (rate_shift < 6 ? rate_shift : 6);
}

// The place of a page in the table of pages; on a collision, the next place.
static inline uint64_t as_profile_place(uint64_t page, uint32_t run, uint64_t mask)
{
    return (as_profile_mix(page >> run) << run | (page & ((UINT64_C(1) << run) - 1))) & mask;
}

// At how many places a page may be.
static inline uint32_t as_profile_probes(uint32_t rate_shift)
{
    return rate_shift == 0 ? AS_PROFILE_PROBES_EXACT : AS_PROFILE_PROBES;
}

// A chunk's bit among those that were refused.
static inline uint64_t as_profile_refused_bit(uint64_t chunk, uint64_t words)
{
    return (chunk >> AS_PROFILE_SLOT_SHIFT) & (words * 64 - 1);
}

// What a slot keeps beside the context's id, of the chunk's address and size: a chunk that came there unseen is found out.
static inline uint32_t as_profile_check(uint64_t chunk, uint64_t size)
{
    return ((uint32_t)(size >> 4) & 0x7f) << 1 | ((uint32_t)(chunk >> 4) & 1);
}

// The same in the only slot of a page that is not watched: chunks of one size that begin elsewhere on it have other checks, too.
static inline uint32_t as_profile_large_check(uint64_t chunk, uint64_t size)
{
    return (uint32_t)((chunk >> 4) + (as_profile_mix(size) >> 56)) & 0xff;
}
