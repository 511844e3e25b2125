// SPDX-License-Identifier: MIT
// The file of a trace: every malloc and free of a process, as docs/trace-format.md describes it. Shared by the writer in the
// process (profile/) and the reader.
//
// The file is blocks, one after another. All numbers are little-endian.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define AS_TRACE_MAGIC UINT64_C(0x31746365726e7261) // "arnrect1"

enum {
    AS_TRACE_VERSION = 1,
    AS_TRACE_BLOCK = 0x6b6c6272,    // "rblk"
    AS_TRACE_MOST_BYTES = 64 << 10, // of a block, its header included
    AS_TRACE_MOST_THREADS = 4096,
    AS_TRACE_PATH = 1024,
    AS_TRACE_MOST_FUNCTIONS = 1 << 16,
    AS_TRACE_FIRST_CONTEXT = 2, // ids below name no stack
    AS_TRACE_CONTEXT_BITS = 24, // of an id
    AS_TRACE_MOST_INTERPRETERS = 32,
    AS_TRACE_SOME_RELEASE = 0xffff, // of an interpreter: it is not known
};

// What a frame's upper 16 bits say instead of a module's index: the offset is an address; it is a function's index << 24 and a line,
// of one language or another.
enum { AS_TRACE_NO_MODULE = 0xffff, AS_TRACE_PYTHON = 0xfffe, AS_TRACE_RUBY = 0xfffd, AS_TRACE_LINE_BITS = 24 };

enum as_trace_block_kind {
    AS_TRACE_HEAD = 1,     // struct as_trace_head: the first block
    AS_TRACE_MODULES,      // struct as_trace_module, several
    AS_TRACE_STACKS,       // words: see as_trace_context_word
    AS_TRACE_EVENTS,       // words: see as_trace_event_kind; of one thread
    AS_TRACE_STATE,        // struct as_trace_state: at least every 100 ms in which anything was written
    AS_TRACE_LOSSES,       // struct as_trace_loss, several
    AS_TRACE_END,          // struct as_trace_ending: the last block
    AS_TRACE_FUNCTIONS,    // words: see as_trace_function_word
    AS_TRACE_INTERPRETERS, // struct as_trace_interpreters: when they have changed; before the first there are none
};

struct as_trace_block {
    uint32_t magic;
    uint32_t kind;     // as_trace_block_kind
    uint32_t size;     // bytes behind this header; a multiple of 8
    uint32_t thread;   // of events; else 0
    uint64_t number;   // blocks before this one
    uint64_t checksum; // as_trace_checksum of all words of the block, this one taken as 0
};

enum as_trace_clock {
    AS_TRACE_TSC = 1,   // the processor's time-stamp counter (on arm64: its virtual counter)
    AS_TRACE_MONOTONIC, // nanoseconds of CLOCK_MONOTONIC
};

struct as_trace_head {
    uint64_t magic;
    uint32_t version;
    uint32_t clock; // as_trace_clock
    uint64_t pid;
    uint32_t machine; // as ELF has it: EM_X86_64, EM_AARCH64
    uint32_t page_size;
    char program[AS_TRACE_PATH]; // where the program's file was; "": not known
};

struct as_trace_module {
    uint64_t start, end; // of its code
    uint64_t bias;
    uint32_t index;
    uint32_t build_id_size;
    uint8_t build_id[24];
    char name[200]; // "": the program
};

// One instant on three clocks, and what the recorder has counted up to it.
struct as_trace_state {
    uint64_t ticks;     // of the record's clock
    uint64_t monotonic; // nanoseconds
    uint64_t realtime;  // nanoseconds since the epoch
    uint64_t misses;    // stacks that were not found by their signature
    uint64_t checked;   // found, and unwound nevertheless
    uint64_t wrong;     // of these: another stack
    uint64_t cut;       // stacks without their outermost frames
    uint64_t missed; // events of threads for which there was no room, or in handlers that had interrupted the recorder
};

// Interpreters that are there, and whose frames are not known: major release << 8 | minor, or AS_TRACE_SOME_RELEASE; 0: there is none.
struct as_trace_interpreters {
    uint32_t python, ruby;
};

// Events of a thread that were not recorded as the buffers were full, since the record began.
struct as_trace_loss {
    uint32_t thread, reserved;
    uint64_t allocations, frees;
};

enum as_trace_reason {
    AS_TRACE_EXIT = 1, // the process called exit(), or its main() returned
    AS_TRACE_NO_SPACE, // no room on the disk, or a limit on the file's size
    AS_TRACE_IO,       // another error
};

struct as_trace_ending {
    uint32_t reason; // as_trace_reason
    uint32_t error;  // errno
};

// A function of an interpreter's: this word, and the bytes of its name and of its file's name, with zeros up to the next word.
static inline uint64_t as_trace_function_word(uint32_t index, uint32_t name, uint32_t file)
{
    return (uint64_t)file << 48 | (uint64_t)name << 32 | index;
}

// The first word of a block of stacks: the id of its first context, and the number of its first stack.
static inline uint64_t as_trace_stacks_word(uint32_t context, uint32_t stack)
{
    return (uint64_t)stack << 32 | context;
}

// A context of such a block: this word, and its frames that no context before it has, outermost first, as the profile's tables have them:
// a module's index << 48 | offset, or see AS_TRACE_NO_MODULE. `caller`: the number of the stack that they are below; 0: none. With each
// frame a stack begins, and gets the next number. Without any, and without a caller, the context's stack is not known.
#define AS_TRACE_COMPLETE (UINT64_C(1) << 63)
static inline uint64_t as_trace_context_word(uint32_t caller, uint32_t count, int complete)
{
    return (complete ? AS_TRACE_COMPLETE : 0) | (uint64_t)count << 32 | caller;
}

// An event's first word: 3 bits of kind, 17 bits of ticks since the thread's event before, 44 bits of address / 16. An allocation has a
// second word: 24 bits of context, 40 bits of size (as asked for; the highest value: this or more). AS_TRACE_ALIGNED has a third:
// the alignment. AS_TRACE_TIME: behind its kind, 61 bits of ticks; the next event is later by its own.
enum as_trace_event_kind {
    AS_TRACE_FREE,
    AS_TRACE_MALLOC,
    AS_TRACE_CALLOC,
    AS_TRACE_ALIGNED,
    AS_TRACE_RESIZED,    // by realloc, at its place: the size is the new one
    AS_TRACE_MOVED_FROM, // by realloc: a free; the thread's next event is AS_TRACE_MOVED_TO
    AS_TRACE_MOVED_TO,
    AS_TRACE_TIME,
};
enum { AS_TRACE_KIND_BITS = 3, AS_TRACE_DELTA_BITS = 17, AS_TRACE_ADDRESS_SHIFT = 20, AS_TRACE_SIZE_BITS = 40 };
#define AS_TRACE_MOST_SIZE ((UINT64_C(1) << AS_TRACE_SIZE_BITS) - 1)
#define AS_TRACE_MOST_DELTA ((UINT64_C(1) << AS_TRACE_DELTA_BITS) - 1)

// Four sums side by side, so that no multiplication waits for the one before.
static inline uint64_t as_trace_hash(uint64_t sum, const uint64_t *words, size_t count)
{
    uint64_t lanes[4] = {sum, 1, 2, 3};
    for (size_t i = 0; i < count; i++) {
        uint64_t *lane = &lanes[i & 3];
        *lane = (*lane ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        *lane ^= *lane >> 29;
    }
    for (int i = 1; i < 4; i++)
        lanes[0] = (lanes[0] ^ lanes[i]) * UINT64_C(0x9fb21c651e98df25);
    return lanes[0] ^ lanes[0] >> 32;
}

// Returns the checksum of a block whose payload is `payload`.
static inline uint64_t as_trace_checksum(const struct as_trace_block *block, const void *payload)
{
    struct as_trace_block head = *block;
    head.checksum = 0;
    return as_trace_hash(as_trace_hash(0, (const uint64_t *)(const void *)&head, sizeof head / sizeof(uint64_t)),
                         (const uint64_t *)payload, block->size / sizeof(uint64_t));
}
